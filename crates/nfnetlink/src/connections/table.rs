// SPDX-License-Identifier: Apache-2.0

//! A table in this process as the connections that requests read and change.

use std::hash::{DefaultHasher, Hash, Hasher};

use penstock_conntrack::{
    Class, Conntrack, Direction, ExpectError, Expectation, Flow, FlowChange, HELPERS, NotInserted,
    Statistics, Tuple,
};
use penstock_nat::{Manip, bind};
use penstock_random::Random;
use penstock_ruleset::Errno;

use super::{Connections, Expected, NewExpected, NewFlow, Wanted};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// A number that names what a tuple names. It is the same for each process that loads a table.
fn id_of(tuple: &Tuple) -> u32 {
    let mut hasher = DefaultHasher::new();
    tuple.hash(&mut hasher);
    hasher.finish() as u32
}

fn number_of(table: &Conntrack, flow: &Flow) -> Option<u32> {
    let wanted = Wanted { tuple: flow.original, zones: [flow.original.zone, flow.reply.zone] };
    find(table, &wanted)
}

fn find(table: &Conntrack, wanted: &Wanted) -> Option<u32> {
    let [original, reply] = [Direction::Original, Direction::Reply].map(|d| wanted.in_zone(d));
    table.find_flow(&original, &reply)
}

fn flow(table: &Conntrack, number: u32) -> Option<Flow> {
    let flow = table.flow(number)?;
    Some(Flow { id: id_of(&flow.original), ..flow })
}

/// The classes of the helper of a connection.
fn classes(master: &Flow) -> Option<&'static [Class]> {
    let name = master.helper?;
    let protocol = master.original.protocol;
    Some(HELPERS.iter().find(|h| h.name == name && h.protocol == protocol)?.classes)
}

fn expected(table: &Conntrack, expectation: &Expectation, left: u64) -> Option<Expected> {
    let master = table.connection_ref(expectation.master)?;
    Some(Expected {
        id: id_of(&expectation.tuple),
        expectation: expectation.clone(),
        left,
        master: *master.tuple(Direction::Original),
        helper: master.helper(),
    })
}

/// Whether two expectations are the same one.
fn is_same(a: &Expectation, b: &Expectation) -> bool {
    (a.tuple, a.source_mask, a.source_port, a.class)
        == (b.tuple, b.source_mask, b.source_port, b.class)
}

impl Connections for Conntrack {
    fn each(&mut self, see: &mut dyn FnMut(&Flow)) -> Result<(), Errno> {
        for connection in self.iter() {
            if let Some(flow) = flow(self, connection.number()) {
                see(&flow);
            }
        }
        Ok(())
    }

    fn find(&mut self, wanted: &Wanted) -> Result<Option<Flow>, Errno> {
        Ok(find(self, wanted).and_then(|n| flow(self, n)))
    }

    fn add(&mut self, new: &NewFlow) -> Result<Flow, Errno> {
        let master = match &new.master {
            None => None,
            Some(wanted) => {
                let master = find(self, wanted).ok_or(Errno::Enoent)?;
                Some(self.reference(master))
            }
        };
        let translate = |table: &mut Conntrack, n: u32| {
            let Some(ranges) = &new.translation else { return true };
            let mut random = Random::unknown();
            let both = [Manip::Destination, Manip::Source].into_iter().zip(ranges);
            both.into_iter().all(|(manip, range)| match range {
                Some(range) => bind::bind(table, n, range, manip, &mut random),
                None => bind::bind_to_itself(table, n, manip, &mut random),
            })
        };
        let tuples = [&new.original, &new.reply];
        let added = self.insert_flow(tuples, master, &new.change, translate);
        let added = added.map_err(|why| match why {
            NotInserted::Exists => Errno::Eexist,
            NotInserted::Full | NotInserted::Refused => Errno::Enomem,
            NotInserted::ChainTooLong => Errno::Enospc,
        })?;
        flow(self, added.entry).ok_or(Errno::Enoent)
    }

    fn change(&mut self, old: &Flow, change: &FlowChange) -> Result<Flow, Errno> {
        let number = number_of(self, old).ok_or(Errno::Enoent)?;
        self.change_flow(number, change);
        flow(self, number).ok_or(Errno::Enoent)
    }

    fn remove(&mut self, flow: &Flow) -> Result<bool, Errno> {
        let number = number_of(self, flow);
        if let Some(number) = number {
            self.kill(number);
        }
        Ok(number.is_some())
    }

    fn zero_counters(&mut self, flow: &Flow) -> Result<(), Errno> {
        if let Some(number) = number_of(self, flow) {
            Conntrack::zero_counters(self, number);
        }
        Ok(())
    }

    fn count(&mut self) -> Result<(u32, u32), Errno> {
        Ok((Conntrack::count(self), self.settings().max()))
    }

    fn statistics(&mut self) -> Result<Vec<Statistics>, Errno> {
        Ok(vec![*Conntrack::statistics(self)])
    }

    fn expectations(&mut self) -> Result<Vec<Expected>, Errno> {
        let all = Conntrack::expectations(self);
        Ok(all.filter_map(|(expectation, left)| expected(self, expectation, left)).collect())
    }

    fn expect(&mut self, new: &NewExpected) -> Result<Expected, Errno> {
        let number = find(self, &new.master).ok_or(Errno::Enoent)?;
        let master = flow(self, number).ok_or(Errno::Enoent)?;
        let classes = classes(&master).ok_or(Errno::Eopnotsupp)?;
        let class = classes.get(usize::from(new.class)).ok_or(Errno::Einval)?;
        let expectation = Expectation {
            tuple: new.tuple,
            source_mask: new.source_mask,
            source_port: new.source_port,
            master: self.reference(number),
            class: new.class,
            flags: new.flags,
            timeout: u64::from(class.timeout) * SECOND,
            helper: new.helper,
            follow: new.follow,
        };
        Conntrack::expect(self, expectation.clone(), class.max).map_err(|why| match why {
            ExpectError::NoMaster => Errno::Enoent,
            ExpectError::Busy => Errno::Ebusy,
            ExpectError::TooMany | ExpectError::TableFull => Errno::Enfile,
        })?;
        let all = Connections::expectations(self)?;
        let mut last = all.into_iter().filter(|e| e.expectation.master.entry == number);
        let zone = master.original.zone;
        let wanted = Expectation { tuple: Tuple { zone, ..expectation.tuple }, ..expectation };
        last.find(|e| is_same(&e.expectation, &wanted)).ok_or(Errno::Enoent)
    }

    fn prolong(&mut self, old: &Expected, timeout: u64) -> Result<(), Errno> {
        let removed = self.unexpect_if(|e| is_same(e, &old.expectation));
        if removed == 0 {
            return Err(Errno::Enoent);
        }
        let expectation = Expectation { timeout, ..old.expectation.clone() };
        Conntrack::expect(self, expectation, 0).map_err(|_| Errno::Enoent)
    }

    fn unexpect(&mut self, old: &Expected) -> Result<bool, Errno> {
        Ok(self.unexpect_if(|e| is_same(e, &old.expectation)) != 0)
    }
}
