// SPDX-License-Identifier: Apache-2.0

//! The expectations of a table (`nf_conntrack_expect.c`).
//!
//! They are found by their destination with one look into a hash table, are bounded in number
//! altogether, per connection and class, and per destination, and end by a queue of deadlines.

use super::Conntrack;
use crate::expectation::{CLASSES, ExpectError, Expectation, expect_flag};
use crate::helper::Renewal;
use crate::reference::Ref;
use crate::settings::LONGEST;
use crate::{Tuple, status};
use std::collections::{BTreeSet, HashMap};

/// Expectations that may differ in their source only: every look-up passes them all.
const SAME_DESTINATION: usize = 64;

/// The expectations of one connection, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectList(Vec<u32>);

#[derive(Debug)]
struct Stored {
    expectation: Expectation,
    expires: u64,
}

/// All expectations.
#[derive(Debug, Default)]
pub(crate) struct Expectations {
    slots: Vec<Option<Stored>>,
    free: Vec<u32>,
    by_destination: HashMap<Tuple, Vec<u32>>,
    deadlines: BTreeSet<(u64, u32)>,
}

impl Expectations {
    pub fn len(&self) -> usize {
        self.deadlines.len()
    }

    fn get(&self, id: u32) -> Option<&Stored> {
        self.slots.get(id as usize)?.as_ref()
    }
}

/// The zone in which a connection's expectations are: they do not tell directions apart.
pub(crate) fn zone_of(original: &Tuple, reply: &Tuple) -> u16 {
    if original.zone != 0 { original.zone } else { reply.zone }
}

impl Conntrack {
    /// Expects a connection (`nf_ct_expect_related()`). One that the same connection expects
    /// already restarts. `max` is how many of the class the master may expect at a time, 0 for any
    /// number; the oldest makes room.
    ///
    /// # Errors
    /// See [`ExpectError`].
    pub fn expect(&mut self, mut expectation: Expectation, max: u32) -> Result<(), ExpectError> {
        self.make_room(&mut expectation, max, 0)?;
        self.enter_expectation(expectation)
    }

    /// Expects two connections of a class, or none (`nf_ct_expect_related_pair()`): what they
    /// replace ends before.
    ///
    /// # Errors
    /// See [`ExpectError`].
    pub(crate) fn expect_both(
        &mut self,
        [mut first, mut second]: [Expectation; 2],
        max: u32,
    ) -> Result<(), ExpectError> {
        self.make_room(&mut first, max, 0)?;
        self.make_room(&mut second, max, 1)?;
        let (master, class, tuple) = (first.master.entry, first.class, first.tuple);
        self.enter_expectation(first)?;
        self.enter_expectation(second)
            .inspect_err(|_| self.unexpect_of(master, |e| e.class == class && e.tuple == tuple))
    }

    /// Ends what an expectation replaces, and the oldest if there are too many of its class
    /// (`__nf_ct_expect_check()`): `more` are about to come besides it. Sets its zone.
    fn make_room(
        &mut self,
        expectation: &mut Expectation,
        max: u32,
        more: u32,
    ) -> Result<(), ExpectError> {
        let master = self.resolve_ref(expectation.master).ok_or(ExpectError::NoMaster)?;
        let e = &self.store[master];
        if e.has(status::DYING) || usize::from(expectation.class) >= CLASSES {
            return Err(ExpectError::NoMaster);
        }
        expectation.tuple.zone = zone_of(&e.original, &e.reply);
        for (byte, mask) in expectation.tuple.src.iter_mut().zip(&expectation.source_mask) {
            *byte &= mask;
        }
        let destination = expectation.destination();
        let same = self.expects.by_destination.get(&destination).cloned().unwrap_or_default();
        for &id in &same {
            let Some(other) = self.expects.get(id).map(|s| &s.expectation) else { continue };
            let equal = (other.tuple, other.source_mask, other.source_port)
                == (expectation.tuple, expectation.source_mask, expectation.source_port);
            if equal && other.master == expectation.master {
                if other.class != expectation.class {
                    return Err(ExpectError::Already);
                }
                self.unexpect(id);
                break;
            }
            if expectation.clashes(other) {
                return Err(ExpectError::Busy);
            }
        }
        if max != 0 && self.expecting(master, expectation.class) + more >= max {
            let oldest = self.extra(master).and_then(|x| {
                let of_class = |id: &&u32| {
                    self.expects.get(**id).is_some_and(|s| s.expectation.class == expectation.class)
                };
                x.expects.0.iter().find(of_class).copied()
            });
            match oldest {
                Some(id) => self.unexpect(id),
                None => return Err(ExpectError::TooMany),
            }
        }
        if self.expects.len() >= self.settings.expect_max as usize || same.len() >= SAME_DESTINATION
        {
            return Err(ExpectError::TableFull);
        }
        Ok(())
    }

    /// Enters an expectation for which there is room.
    fn enter_expectation(&mut self, expectation: Expectation) -> Result<(), ExpectError> {
        let master = self.resolve_ref(expectation.master).ok_or(ExpectError::NoMaster)?;
        let destination = expectation.destination();
        if let Some(member) = &self.member {
            member.expect(&expectation, self.settings.expect_max)?;
        }
        let expires = self.now.saturating_add(expectation.timeout.min(LONGEST));
        if self.is_observed() {
            self.tell_expected(false, &expectation, expires - self.now);
        }
        let x = &mut self.expects;
        let stored = Some(Stored { expectation, expires });
        let id = match x.free.pop() {
            Some(id) => {
                x.slots[id as usize] = stored;
                id
            }
            None => {
                x.slots.push(stored);
                x.slots.len() as u32 - 1
            }
        };
        x.by_destination.entry(destination).or_default().push(id);
        x.deadlines.insert((expires, id));
        self.extra_mut(master).expects.0.push(id);
        self.statistics.expect_create += 1;
        Ok(())
    }

    fn unexpect(&mut self, id: u32) {
        let x = &mut self.expects;
        let Some(stored) = x.slots.get_mut(id as usize).and_then(Option::take) else { return };
        if let Some(member) = &self.member {
            member.unexpect(&stored.expectation);
        }
        x.free.push(id);
        x.deadlines.remove(&(stored.expires, id));
        let destination = stored.expectation.destination();
        if let Some(same) = x.by_destination.get_mut(&destination) {
            same.retain(|i| *i != id);
            if same.is_empty() {
                x.by_destination.remove(&destination);
            }
        }
        if let Some(master) = self.resolve_ref(stored.expectation.master)
            && self.extra(master).is_some()
        {
            self.extra_mut(master).expects.0.retain(|i| *i != id);
        }
        self.statistics.expect_delete += 1;
        if self.is_observed() {
            let left = stored.expires.saturating_sub(self.now);
            self.tell_expected(true, &stored.expectation, left);
        }
    }

    /// Lets an expectation of a connection be met from now on, as long as it says
    /// (`refresh_signalling_expectation()`): no event tells of it. Returns whether there is one.
    pub(crate) fn renew_expectation(&mut self, master: u32, class: u8, one: &Renewal) -> bool {
        let ids = self.extra(master).map_or(Vec::new(), |x| x.expects.0.clone());
        let expires = self.now.saturating_add(one.timeout.min(LONGEST));
        let x = &mut self.expects;
        for id in ids.into_iter().rev() {
            let Some(stored) = x.slots.get_mut(id as usize).and_then(Option::as_mut) else {
                continue;
            };
            let e = &mut stored.expectation;
            let to = (e.class, e.tuple.protocol, e.tuple.dst, e.tuple.dst_id);
            if to != (class, one.protocol, one.address, one.port) {
                continue;
            }
            x.deadlines.remove(&(stored.expires, id));
            x.deadlines.insert((expires, id));
            stored.expires = expires;
            if let Some(member) = &self.member {
                member.unexpect(e);
            }
            e.flags &= !expect_flag::INACTIVE;
            if let Some(member) = &self.member {
                // There was room for it until now.
                let _ = member.expect(e, self.settings.expect_max);
            }
            return true;
        }
        false
    }

    /// How many connections of a class a connection expects.
    pub fn expecting(&self, master: u32, class: u8) -> u32 {
        let Some(extra) = self.extra(master) else { return 0 };
        let of_class =
            |id: &&u32| self.expects.get(**id).is_some_and(|s| s.expectation.class == class);
        extra.expects.0.iter().filter(of_class).count() as u32
    }

    /// All expectations that did not end yet, with the nanoseconds that they have left.
    pub fn expectations(&self) -> impl Iterator<Item = (&Expectation, u64)> {
        let stored = self.expects.deadlines.iter().filter_map(|(_, id)| self.expects.get(*id));
        stored.filter(|s| s.expires > self.now).map(|s| (&s.expectation, s.expires - self.now))
    }

    /// Removes expectations for which `which` returns `true`; returns how many.
    pub fn unexpect_if(&mut self, mut which: impl FnMut(&Expectation) -> bool) -> usize {
        let ids: Vec<u32> = self
            .expects
            .slots
            .iter()
            .enumerate()
            .filter(|(_, s)| s.as_ref().is_some_and(|s| which(&s.expectation)))
            .map(|(id, _)| id as u32)
            .collect();
        ids.iter().for_each(|id| self.unexpect(*id));
        ids.len()
    }

    /// Removes expectations of one connection for which `which` returns `true`.
    pub(crate) fn unexpect_of(&mut self, master: u32, which: impl Fn(&Expectation) -> bool) {
        let Some(extra) = self.extra(master) else { return };
        let of = |id: &&u32| self.expects.get(**id).is_some_and(|s| which(&s.expectation));
        let ids: Vec<u32> = extra.expects.0.iter().filter(of).rev().copied().collect();
        ids.into_iter().for_each(|id| self.unexpect(id));
    }

    /// Whether just these connections are expected by another connection, or in another class.
    pub(crate) fn is_expected_otherwise(&self, like: &Expectation) -> bool {
        let Some(master) = self.resolve_ref(like.master) else { return false };
        let e = &self.store[master];
        let zone = zone_of(&e.original, &e.reply);
        let key = Tuple { zone, ..like.destination() };
        let Some(same) = self.expects.by_destination.get(&key) else { return false };
        same.iter().filter_map(|id| Some(&self.expects.get(*id)?.expectation)).any(|other| {
            other.tuple == (Tuple { zone, ..like.tuple })
                && (other.source_mask, other.source_port) == (like.source_mask, like.source_port)
                && (other.master != like.master || other.class != like.class)
        })
    }

    /// Whether a connection was expected that would have this original tuple
    /// (`__nf_ct_expect_find()`).
    pub fn find_expectation(&self, tuple: &Tuple) -> Option<&Expectation> {
        let id = self.find_expected(tuple)?;
        self.expects.get(id).map(|s| &s.expectation)
    }

    /// Removes the expectation of a connection with this original tuple.
    pub(crate) fn unexpect_found(&mut self, tuple: &Tuple) {
        if let Some(id) = self.find_expected(tuple) {
            self.unexpect(id);
        }
    }

    fn find_expected(&self, tuple: &Tuple) -> Option<u32> {
        self.expects.by_destination.get(&tuple.destination_only())?.iter().rev().copied().find(
            |id| {
                self.expects
                    .get(*id)
                    .is_some_and(|s| s.expires > self.now && s.expectation.meets(tuple))
            },
        )
    }

    /// Makes a new entry the one that was expected (`nf_ct_find_expectation()`,
    /// `init_conntrack()`): it gets master, mark, secmark and helper. Returns whether it was.
    #[inline]
    pub(crate) fn meet_expectation(&mut self, n: u32) -> bool {
        self.expects.len() != 0 && self.meet(n)
    }

    #[cold]
    fn meet(&mut self, n: u32) -> bool {
        let e = &self.store[n];
        let tuple = Tuple { zone: zone_of(&e.original, &e.reply), ..e.original };
        let Some(id) = self.find_expected(&tuple) else { return false };
        let Some(expectation) = self.expects.get(id).map(|s| s.expectation.clone()) else {
            return false;
        };
        if expectation.flags & expect_flag::INACTIVE != 0 {
            return false;
        }
        let Some(master) = self.resolve_ref(expectation.master) else { return false };
        // A connection is unknown outside until its first packet has left.
        if !self.store[master].has(status::CONFIRMED) || self.store[master].has(status::DYING) {
            return false;
        }
        if expectation.flags & expect_flag::PERMANENT == 0 {
            self.unexpect(id);
        }
        if expectation.is_for_either_direction() {
            // Answers find this connection.
            self.unexpect_of(master, Expectation::is_for_either_direction);
        }
        let (mark, secmark) =
            (self.store[master].mark, self.extra(master).map_or(0, |x| x.secmark));
        self.set_master(n, expectation.master);
        let extra = self.extra_mut(n);
        extra.secmark = secmark;
        extra.follow = expectation.follow.map(Box::new);
        let e = &mut self.store[n];
        e.mark = mark;
        e.status |= status::EXPECTED;
        self.give_helper(n, expectation.helper);
        self.statistics.expect_new += 1;
        true
    }

    /// Makes a connection the child of another.
    pub(crate) fn set_master(&mut self, n: u32, master: Ref) {
        self.extra_mut(n).master = Some(master);
        if let Some(master) = self.resolve_ref(master) {
            self.extra_mut(master).children += 1;
        }
    }

    /// Takes a connection that ends from its master.
    pub(crate) fn leave_master(&mut self, n: u32) {
        if let Some(master) = self.extra(n).and_then(|x| x.master)
            && let Some(master) = self.resolve_ref(master)
        {
            self.extra_mut(master).children -= 1;
        }
    }

    pub(crate) fn remove_expectations_of(&mut self, n: u32) {
        let ids = match self.extra(n) {
            Some(x) if !x.expects.0.is_empty() => std::mem::take(&mut self.extra_mut(n).expects.0),
            _ => return,
        };
        for id in ids.into_iter().rev() {
            self.unexpect(id);
        }
    }

    /// Ends expired expectations.
    pub(crate) fn expire_expectations(&mut self, budget: &mut u32) {
        while let Some(&(expires, id)) = self.expects.deadlines.first()
            && expires <= self.now
            && *budget > 0
        {
            *budget -= 1;
            self.unexpect(id);
        }
    }
}
