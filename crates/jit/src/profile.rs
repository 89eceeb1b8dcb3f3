// SPDX-License-Identifier: Apache-2.0

//! Where the time goes: ticks of the processor's clock, by rule and stage.
//!
//! Code that is made for profiling notes the clock at the beginning of each rule and stage; what
//! has passed since counts for the one before. Rules share nothing then, and chains have no
//! lookups, so a profile compares rules with each other; without it they cost less.
//! What a packet brings about meanwhile (an answer that passes other hooks) ends the count of what
//! brought it about.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use penstock_program::WorkerNumber;
use penstock_program::cells::WORKERS;
use penstock_program::image::RuleIndex;

/// What ticks are counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profiled {
    /// A rule.
    Rule(RuleIndex),
    /// An entry of a list that is no chain.
    Stage {
        /// Number of the list.
        list: usize,
        /// Number of the entry.
        entry: usize,
    },
}

/// Ticks of one rule or stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileLine {
    /// Which.
    pub what: Profiled,
    /// How often it was begun.
    pub count: u64,
    /// Ticks: cycles of the time stamp counter on x86-64, of the virtual counter on AArch64.
    pub ticks: u64,
}

/// The counts of all workers.
#[derive(Debug)]
pub(crate) struct Profile {
    rules: usize,
    stages: Vec<(usize, usize)>,
    /// By worker; there from the first tick on.
    workers: Box<[OnceLock<Ticks>]>,
}

/// The counts of one worker, the only writer; relaxed atomics, so that others may read
/// concurrently.
#[derive(Debug)]
struct Ticks {
    /// Count and ticks by number; number 0 is what is between lists.
    cells: Box<[[AtomicU64; 2]]>,
    current: AtomicU64,
    since: AtomicU64,
}

/// The processor's clock: what ticks are counted by.
pub fn clock_ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction; it reads a counter.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: reads a counter that user programs may read, and touches no memory.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

impl Profile {
    /// For so many rules, and entries of lists that are no chains.
    pub(crate) fn new(rules: usize, stages: Vec<(usize, usize)>) -> Self {
        Profile { rules, stages, workers: (0..WORKERS).map(|_| OnceLock::new()).collect() }
    }

    fn ticks(&self) -> Ticks {
        let cells = (0..1 + self.rules + self.stages.len()).map(|_| Default::default()).collect();
        Ticks { cells, current: AtomicU64::new(0), since: AtomicU64::new(0) }
    }

    pub(crate) fn number_of_rule(rule: u32) -> u64 {
        1 + u64::from(rule)
    }

    pub(crate) fn number_of_stage(&self, list: usize, entry: usize) -> u64 {
        let stage = self.stages.iter().position(|s| *s == (list, entry));
        stage.map_or(0, |stage| (1 + self.rules + stage) as u64)
    }

    /// From now on ticks of a worker count for `number`.
    #[inline]
    pub(crate) fn tick(&self, number: u64, worker: WorkerNumber) {
        let Some(ticks) = self.workers.get(worker.get()) else { return };
        let ticks = ticks.get_or_init(|| self.ticks());
        let at = clock_ticks();
        let elapsed = at.wrapping_sub(ticks.since.load(Relaxed));
        let add = |number: u64, which: usize, much: u64| {
            if let Some(cell) = ticks.cells.get(number as usize) {
                cell[which].store(cell[which].load(Relaxed).wrapping_add(much), Relaxed);
            }
        };
        add(ticks.current.load(Relaxed), 1, elapsed);
        add(number, 0, 1);
        ticks.current.store(number, Relaxed);
        ticks.since.store(at, Relaxed);
    }

    /// What a worker has begun at least once.
    pub(crate) fn lines(&self, worker: WorkerNumber) -> Vec<ProfileLine> {
        let Some(ticks) = self.workers.get(worker.get()).and_then(OnceLock::get) else {
            return Vec::new();
        };
        let lines = ticks.cells.iter().enumerate().skip(1).filter_map(|(number, cell)| {
            let [count, ticks] = [cell[0].load(Relaxed), cell[1].load(Relaxed)];
            let what = match number.checked_sub(1 + self.rules) {
                Some(stage) => {
                    let (list, entry) = *self.stages.get(stage)?;
                    Profiled::Stage { list, entry }
                }
                None => Profiled::Rule(RuleIndex(number as u32 - 1)),
            };
            (count > 0).then_some(ProfileLine { what, count, ticks })
        });
        lines.collect()
    }
}

/// [`Profile::tick`] for compiled code.
///
/// # Safety
/// `profile` is that of the code that calls, which lives as long as the code.
pub(crate) unsafe extern "C" fn tick(profile: *const Profile, number: u64, distance: u64) -> u64 {
    // SAFETY: the caller vouches for it.
    unsafe { &*profile }.tick(number, WorkerNumber::at_distance(distance as usize));
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_count_for_the_latest_rule_of_a_worker() {
        let profile = Profile::new(2, vec![(0, 3)]);
        let (first, second) = (WorkerNumber::FIRST, WorkerNumber::new(1).expect("a worker"));
        let stage = profile.number_of_stage(0, 3);
        for number in [Profile::number_of_rule(1), stage, Profile::number_of_rule(1), 0] {
            profile.tick(number, first);
        }
        profile.tick(stage, second);
        let lines = |worker| {
            profile.lines(worker).into_iter().map(|l| (l.what, l.count)).collect::<Vec<_>>()
        };
        let stage = |count| (Profiled::Stage { list: 0, entry: 3 }, count);
        assert_eq!(lines(first), [(Profiled::Rule(RuleIndex(1)), 2), stage(1)]);
        assert_eq!(lines(second), [stage(1)]);
    }
}
