// SPDX-License-Identifier: Apache-2.0

//! Lists of sets (`ip_set_list_set.c`). Packets read a list without a lock; it is replaced whole
//! when a request changes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwap;
use penstock_sets::{NEVER, zeros};

use crate::carried::{Comments, New, WORDS, Words};
use crate::error::Code;
use crate::options::Options;

/// A set in a list.
#[derive(Debug)]
pub(crate) struct Member {
    /// Number of the set.
    pub index: u16,
    /// When it leaves the list (ns).
    expires_at: AtomicU64,
    words: Box<[AtomicU64]>,
}

impl Member {
    pub(crate) fn words(&self) -> Words<'_> {
        Words(&self.words)
    }

    pub(crate) fn is_there(&self, now: u64) -> bool {
        now < self.expires_at.load(Relaxed)
    }

    /// When it leaves the list (ns), if it does.
    pub(crate) fn expires_at(&self) -> Option<u64> {
        Some(self.expires_at.load(Relaxed)).filter(|at| *at != NEVER)
    }
}

/// Where a set stands among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Anywhere; a new one at the end.
    Any,
    /// Right before the set with this number.
    Before(u16),
    /// Right after it.
    After(u16),
}

/// The sets of a list.
#[derive(Debug, Default)]
pub(crate) struct Members {
    all: ArcSwap<Vec<Arc<Member>>>,
    pub(crate) comments: Comments,
}

impl Members {
    /// Those that are there at a time (ns), in order.
    pub(crate) fn each(&self, now: u64, mut see: impl FnMut(&Member) -> bool) -> bool {
        let all = self.all.load();
        all.iter().filter(|member| member.is_there(now)).any(|member| see(member))
    }

    /// How many there are at a time.
    pub(crate) fn count(&self, now: u64) -> u32 {
        self.all.load().iter().filter(|member| member.is_there(now)).count() as u32
    }

    /// Members that are there at a time; others go.
    fn current(&self, now: u64) -> Vec<Arc<Member>> {
        let mut all = Vec::clone(&self.all.load());
        all.retain(|member| {
            let there = member.is_there(now);
            if !there {
                self.comments.remove(member.words().comment());
            }
            there
        });
        all
    }

    /// Whether a set stands in a place (`list_set_utest()`).
    pub(crate) fn test(&self, index: u16, place: Place, now: u64) -> bool {
        let all = self.current(now);
        let at = |index| all.iter().position(|member| member.index == index);
        let Some(found) = at(index) else { return false };
        let is = |at: Option<usize>, other: u16| {
            at.and_then(|at| all.get(at)).is_some_and(|member| member.index == other)
        };
        match place {
            Place::Any => true,
            Place::Before(other) => is(found.checked_add(1), other),
            Place::After(other) => is(found.checked_sub(1), other),
        }
    }

    /// Adds a set, or with `exist` changes what is said of it (`list_set_uadd()`).
    pub(crate) fn add(
        &self,
        (index, place): (u16, Place),
        new: &New<'_>,
        (exist, options): (bool, &Options),
        now: u64,
    ) -> Result<(), Code> {
        let mut all = self.current(now);
        let at = |all: &[Arc<Member>], index| all.iter().position(|m| m.index == index);
        let reference = match place {
            Place::Any => None,
            Place::Before(other) | Place::After(other) => {
                Some(at(&all, other).ok_or(Code::LIST_REF_EXIST)?)
            }
        };
        if let Some(found) = at(&all, index) {
            if !exist {
                return Err(Code::EXIST);
            }
            let member = &all[found];
            self.comments.remove(member.words().comment());
            let comment = if options.comment { self.comments.add(new.comment) } else { 0 };
            member.words().take(new, comment, options);
            if options.timeout.is_some() {
                member.expires_at.store(new.expires_at(now), Relaxed);
            }
            self.all.store(Arc::new(all));
            return Ok(());
        }
        let comment = if options.comment { self.comments.add(new.comment) } else { 0 };
        let member =
            Member { index, expires_at: AtomicU64::new(new.expires_at(now)), words: zeros(WORDS) };
        member.words().take(new, comment, options);
        let at = match (place, reference) {
            (Place::Before(_), Some(reference)) => reference,
            (Place::After(_), Some(reference)) => reference + 1,
            _ => all.len(),
        };
        all.insert(at, Arc::new(member));
        self.all.store(Arc::new(all));
        Ok(())
    }

    /// Deletes a set from the list (`list_set_udel()`).
    pub(crate) fn remove(&self, index: u16, place: Place, now: u64) -> Result<(), Code> {
        let mut all = self.current(now);
        let Some(at) = all.iter().position(|member| member.index == index) else {
            return Err(if place == Place::Any { Code::EXIST } else { Code::LIST_REF_EXIST });
        };
        if !self.test(index, place, now) {
            return Err(Code::LIST_REF_EXIST);
        }
        self.comments.remove(all.remove(at).words().comment());
        self.all.store(Arc::new(all));
        Ok(())
    }

    /// Deletes all.
    pub(crate) fn clear(&self) {
        self.comments.clear();
        self.all.store(Arc::default());
    }
}
