// SPDX-License-Identifier: Apache-2.0

//! A table in this process as the connections that requests read and change.

use std::hash::{DefaultHasher, Hash, Hasher};

use penstock_conntrack::{
    Class, Connection, Conntrack, Direction, ExpectError, Expectation, Flow, FlowChange,
    NotInserted, Statistics, Tuple,
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

/// A connection as a value.
pub fn of_connection(connection: &Connection<'_>) -> Flow {
    Flow { id: id_of(connection.tuple(Direction::Original)), ..connection.flow() }
}

/// An expectation as a value; it has so many nanoseconds left.
pub(super) fn of_expectation(
    expectation: &Expectation,
    left: u64,
    master: &Connection<'_>,
) -> Expected {
    Expected {
        id: id_of(&expectation.tuple),
        expectation: expectation.clone(),
        left,
        master: *master.tuple(Direction::Original),
        helper: master.helper().map(Into::into),
    }
}

fn flow(table: &Conntrack, number: u32) -> Option<Flow> {
    table.connection_at(number).as_ref().map(of_connection)
}

/// Does what nobody else is to be told of: who asks for it tells of it.
fn quietly<T>(table: &mut Conntrack, act: impl FnOnce(&mut Conntrack) -> T) -> T {
    let observer = table.set_observer(None);
    let done = act(table);
    table.set_observer(observer);
    done
}

/// The class of a number of the helper of a connection: `EOPNOTSUPP` without a helper, `EINVAL`
/// without such a class.
fn class(table: &Conntrack, master: &Flow, class: u8) -> Result<Class, Errno> {
    let name = master.helper.as_ref().ok_or(Errno::Eopnotsupp)?;
    let Tuple { l3, protocol, .. } = master.original;
    let number = table.helpers().number(name, l3, protocol).ok_or(Errno::Eopnotsupp)?;
    let classes = table.helpers().classes(number).unwrap_or_default();
    classes.get(usize::from(class)).copied().ok_or(Errno::Einval)
}

/// Has connection `number` expect another one.
///
/// # Errors
/// Those of [`Connections::expect`].
pub fn expect(table: &mut Conntrack, number: u32, new: &NewExpected) -> Result<Expectation, Errno> {
    let master = flow(table, number).ok_or(Errno::Enoent)?;
    let class = class(table, &master, new.class)?;
    let expectation = Expectation {
        tuple: new.tuple,
        source_mask: new.source_mask,
        source_port: new.source_port,
        master: table.reference(number),
        class: new.class,
        flags: new.flags,
        timeout: u64::from(class.timeout) * SECOND,
        helper: new.helper,
        follow: new.follow,
    };
    let done = Conntrack::expect(table, expectation.clone(), class.max);
    done.map_err(|why| match why {
        ExpectError::NoMaster => Errno::Enoent,
        ExpectError::Busy => Errno::Ebusy,
        ExpectError::Already => Errno::Ealready,
        ExpectError::TooMany | ExpectError::TableFull => Errno::Enfile,
    })?;
    let zone = master.original.zone;
    Ok(Expectation { tuple: Tuple { zone, ..expectation.tuple }, ..expectation })
}

/// Whether two expectations are the same one.
fn is_same(a: &Expectation, b: &Expectation) -> bool {
    (a.tuple, a.source_mask, a.source_port, a.class)
        == (b.tuple, b.source_mask, b.source_port, b.class)
}

impl Connections for Conntrack {
    fn each(&mut self, see: &mut dyn FnMut(&Flow)) -> Result<(), Errno> {
        self.iter().for_each(|connection| see(&of_connection(&connection)));
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
        self.forget_noted(added.entry);
        flow(self, added.entry).ok_or(Errno::Enoent)
    }

    fn change(&mut self, old: &Flow, change: &FlowChange) -> Result<Flow, Errno> {
        let number = number_of(self, old).ok_or(Errno::Enoent)?;
        quietly(self, |table| table.change_flow(number, change));
        flow(self, number).ok_or(Errno::Enoent)
    }

    fn remove(&mut self, flows: &[Flow]) -> Result<Vec<bool>, Errno> {
        let remove = |flow| {
            let number = number_of(self, flow)?;
            self.kill_untold(number);
            Some(())
        };
        Ok(flows.iter().map(remove).map(|done| done.is_some()).collect())
    }

    fn zero_counters(&mut self, flows: &[Flow]) -> Result<(), Errno> {
        for flow in flows {
            if let Some(number) = number_of(self, flow) {
                Conntrack::zero_counters(self, number);
            }
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
        let expected = |(expectation, left): (&Expectation, u64)| {
            let master = self.connection_ref(expectation.master)?;
            Some(of_expectation(expectation, left, &master))
        };
        Ok(all.filter_map(expected).collect())
    }

    fn expect(&mut self, new: &NewExpected) -> Result<Expected, Errno> {
        let number = find(self, &new.master).ok_or(Errno::Enoent)?;
        let wanted = quietly(self, |table| expect(table, number, new))?;
        let all = Connections::expectations(self)?;
        let mut last = all.into_iter().filter(|e| e.expectation.master.entry == number);
        last.find(|e| is_same(&e.expectation, &wanted)).ok_or(Errno::Enoent)
    }

    fn prolong(&mut self, old: &Expected, timeout: u64) -> Result<(), Errno> {
        quietly(self, |table| {
            let removed = table.unexpect_if(|e| is_same(e, &old.expectation));
            if removed == 0 {
                return Err(Errno::Enoent);
            }
            let expectation = Expectation { timeout, ..old.expectation.clone() };
            Conntrack::expect(table, expectation, 0).map_err(|_| Errno::Enoent)
        })
    }

    fn unexpect(&mut self, old: &Expected) -> Result<bool, Errno> {
        let is_it = |e: &Expectation| is_same(e, &old.expectation);
        Ok(quietly(self, |table| table.unexpect_if(is_it)) != 0)
    }
}
