// SPDX-License-Identifier: Apache-2.0

//! States of statements, and sets, that all processors, all programs and all generations share: a word each,
//! in one map. Sets have maps of their own.
//!
//! | state | word |
//! | --- | --- |
//! | limit | the time at which its bucket would have been empty |
//! | quota | bytes so far |
//! | `last` | the time of the last packet, 0 for never |
//! | `numgen inc` | the last number |
//!
//! Times are those of the kernel's monotonic clock.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_bpf::{Map, SharedWords, monotonic};
use penstock_program::State;
use penstock_program::image::Image;
use penstock_program::state::dynamic::DynamicSet;

use super::clocks::Clocks;
use super::live::LiveSets;
use super::records::Records;
use super::shared_sets::{FULL, SharedSets};
use super::{Compiled, StateRef};

/// States at most.
const MOST: u32 = 1 << 16;

/// Where a state is.
#[derive(Debug)]
struct Place {
    state: StateRef,
    index: u32,
    /// What the state has of the word already.
    seen: u64,
}

#[derive(Debug, Default)]
struct Places {
    /// By the address of the state.
    known: HashMap<usize, Place>,
    free: Vec<u32>,
    next: u32,
}

/// States of statements that programs share. Programs of later generations find them again.
#[derive(Debug)]
pub struct SharedStates {
    words: SharedWords,
    places: Mutex<Places>,
    /// The time is what [`SharedStates::set_time`] says, in the word after all others.
    given_time: bool,
    pub(super) sets: SharedSets,
    pub(super) live: LiveSets,
    records: Arc<Records>,
}

fn key(state: &StateRef) -> usize {
    Arc::as_ptr(state).addr()
}

impl SharedStates {
    /// None yet.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn new() -> io::Result<Self> {
        let words = SharedWords::new("rule_states", MOST + 1)?;
        let (places, sets, live) = Default::default();
        let records = Arc::new(Records::new()?);
        Ok(SharedStates { words, places, given_time: false, sets, live, records })
    }

    /// None yet, of programs that take the time from [`SharedStates::set_time`] instead of the
    /// kernel's clock.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn with_given_time() -> io::Result<Self> {
        Ok(SharedStates { given_time: true, ..SharedStates::new()? })
    }

    /// Says what the time is for programs (ns), where it is given.
    pub fn set_time(&self, now: u64) {
        if let Some(word) = self.words.get(MOST) {
            word.store(now, Relaxed);
        }
    }

    /// The present time of programs (ns).
    pub(super) fn time(&self) -> u64 {
        match self.words.get(MOST) {
            Some(word) if self.given_time => word.load(Relaxed),
            _ => monotonic(),
        }
    }

    /// The map with the time, and where, if it is given.
    pub(super) fn given_time(&self) -> Option<(&Arc<Map>, u32)> {
        self.given_time.then(|| (self.words.map(), MOST * size_of::<u64>() as u32))
    }

    /// What programs tell this process.
    pub fn records(&self) -> &Arc<Records> {
        &self.records
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        // Nothing that is done under it leaves it half done.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn map(&self) -> &Arc<Map> {
        self.words.map()
    }

    /// The number of a state's word, which begins with what the state has. The error is the reason.
    pub(super) fn index(&self, state: &StateRef) -> Result<u32, String> {
        let mut places = self.places();
        if let Some(place) = places.known.get(&key(state)) {
            return Ok(place.index);
        }
        let index = places.take()?;
        let begin = match &**state {
            State::Quota(quota) => quota.consumed(),
            State::Limit(_) => FULL,
            State::Numgen(number) => number.last().into(),
            _ => 0,
        };
        if let Some(word) = self.words.get(index) {
            word.store(begin, Relaxed);
        }
        places.known.insert(key(state), Place { state: state.clone(), index, seen: begin });
        Ok(index)
    }

    /// The map of a set that packets change, and the number of the word that counts its elements.
    /// The error is the reason why there is none.
    pub(super) fn set(&self, set: &Arc<DynamicSet>) -> Result<(Arc<Map>, u32), String> {
        self.sets.map(set, || self.places().take())
    }

    /// States and sets have what programs have done, and programs what was reset since the last call. `now`
    /// is the present time of the states' own clock, in nanoseconds.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn sync(&self, now: u64) -> io::Result<()> {
        let time = self.time();
        let ago = |of: u64| now.saturating_sub(time.saturating_sub(of));
        for place in self.places().known.values_mut() {
            let Some(word) = self.words.get(place.index) else { continue };
            place.sync(word, &ago);
        }
        self.sets.sync(now, time, |index| self.words.get(index))
    }

    /// Sets that clients change have their elements for programs of the next generation, which
    /// are not in force yet. `now` is as for [`SharedStates::sync`].
    ///
    /// # Errors
    /// Those of bpf(2). Programs in force see nothing of it.
    pub fn stage<'a>(
        &self,
        programs: impl IntoIterator<Item = &'a Compiled>,
        now: u64,
    ) -> io::Result<()> {
        let clocks = Clocks { set: now, kernel: self.time() };
        programs.into_iter().try_for_each(|program| self.live.stage(&program.live, clocks))
    }

    /// A generation is in force, and no packet is in a program of the one before any more.
    pub fn settle(&self, image: &Image) {
        self.live.settle(image);
    }

    /// Programs change a set no more: something else does.
    pub fn forget_set(&self, set: &Arc<DynamicSet>) {
        if let Some(word) = self.sets.forget(set) {
            self.places().free.push(word);
        }
    }

    /// Frees the words of states, and maps of sets, that nobody has any more.
    pub fn release(&self) {
        let unused = self.sets.release();
        self.records.sites.release();
        let places = &mut *self.places();
        let Places { known, free, .. } = places;
        free.extend(unused);
        known.retain(|_, place| {
            let used = Arc::strong_count(&place.state) > 1;
            if !used {
                free.push(place.index);
            }
            used
        });
    }
}

impl Places {
    /// A word that nobody has. The error is the reason why there is none.
    fn take(&mut self) -> Result<u32, String> {
        match self.free.pop() {
            Some(free) => Ok(free),
            None if self.next < MOST => {
                self.next += 1;
                Ok(self.next - 1)
            }
            None => Err(format!("there are more than {MOST} limits, quotas, sets and the like")),
        }
    }
}

impl Place {
    fn sync(&mut self, word: &AtomicU64, ago: &dyn Fn(u64) -> u64) {
        match &*self.state {
            State::Quota(quota) => {
                let present = word.load(Relaxed);
                quota.consume(present.wrapping_sub(self.seen), u64::MAX);
                let wanted = quota.consumed();
                // It was reset: packets that come at this moment count.
                word.fetch_add(wanted.wrapping_sub(present), Relaxed);
                self.seen = wanted;
            }
            State::Last(last) => {
                let present = word.load(Relaxed);
                if present != self.seen {
                    last.touch(ago(present));
                    self.seen = present;
                } else if last.at().is_none() && present != 0 {
                    // A packet that has come since is later than the reset.
                    if word.compare_exchange(present, 0, Relaxed, Relaxed).is_ok() {
                        self.seen = 0;
                    }
                }
            }
            _ => {}
        }
    }
}
