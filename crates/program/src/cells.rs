// SPDX-License-Identifier: Apache-2.0

//! Where counters count: each worker has its own cell, so that no two write the same memory.
//!
//! ```text
//!              counter 0   counter 1   …  counter 255
//! worker 0     [pkts,bytes][pkts,bytes] …               one row for each worker, a page long:
//! worker 1     [pkts,bytes][pkts,bytes] …               its cell of a counter is as far from that of worker 0
//! …                                                      as in every other block
//! ```
//!
//! A [`WorkerNumber`] says which row it is. One worker adds to it with plain loads and stores,
//! since nobody else writes there; who reads adds up the rows. Memory of rows of workers that there
//! are none of is never touched.

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Workers at most.
pub const WORKERS: usize = 64;

/// Counters of a block.
const COUNTERS: usize = 256;

/// Packets and bytes.
type Cell = [AtomicU64; 2];

/// The cells of one worker.
type Row = [Cell; COUNTERS];

/// The cells of all workers, for some counters.
type Block = [Row; WORKERS];

/// The worker with the highest number so far, and one: so many rows are added up.
static IN_USE: AtomicUsize = AtomicUsize::new(1);

/// Number of a worker, which counts in the cells of this number.
///
/// Workers that run a ruleset at the same time need different numbers. With equal numbers, they
/// would lose each other's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerNumber(u8);

impl WorkerNumber {
    /// The only worker, where there is one, and the first of several.
    pub const FIRST: WorkerNumber = WorkerNumber(0);

    /// Number `number`, of those below [`WORKERS`].
    pub fn new(number: usize) -> Option<Self> {
        let small = u8::try_from(number).ok().filter(|_| number < WORKERS)?;
        IN_USE.fetch_max(number + 1, Relaxed);
        Some(WorkerNumber(small))
    }

    /// The number.
    pub fn get(self) -> usize {
        self.0.into()
    }

    /// Bytes from the cells of the first worker to those of this one, for code that is generated at
    /// run time.
    pub fn distance(self) -> usize {
        self.get() * size_of::<Row>()
    }

    /// The worker with its cells at this distance from those of the first one.
    pub fn at_distance(distance: usize) -> Self {
        WorkerNumber((distance / size_of::<Row>() % WORKERS) as u8)
    }
}

/// The cells of a counter, which only count up, from whatever they hold.
pub(crate) struct Cells {
    block: &'static Block,
    at: u8,
}

/// Free places for cells.
struct Free(Vec<Cells>);

static FREE: Mutex<Free> = Mutex::new(Free(Vec::new()));

fn free() -> MutexGuard<'static, Free> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Free {
    /// Blocks stay for good: there are as many as the most counters at a time needed.
    fn add_block(&mut self) {
        // Rows begin at the beginning of a cache line, so that workers share none. Asking for that
        // at once would have all the memory written.
        const LINE: usize = 64;
        let layout = Layout::new::<[u8; size_of::<Block>() + LINE]>();
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        let skipped = memory.align_offset(LINE).min(LINE);
        // SAFETY: the block is within the memory, which is `LINE` bytes longer, and at a multiple
        // of `LINE`, so aligned for words (if the offset cannot be told, it is `LINE`, and the
        // allocator has aligned the memory for words by the rules of this platform). Zeros are what
        // an `AtomicU64` may hold, and the memory is never given back.
        let block: &'static Block = unsafe { &*memory.add(skipped).cast::<Block>() };
        self.0.extend((0..=u8::MAX).rev().map(|at| Cells { block, at }));
    }
}

impl Cells {
    /// Takes free cells; also returns their previous counts.
    pub(crate) fn take() -> (Cells, [u64; 2]) {
        let mut free = free();
        let cells = loop {
            match free.0.pop() {
                Some(cells) => break cells,
                None => free.add_block(),
            }
        };
        drop(free);
        let before = cells.sum();
        (cells, before)
    }

    /// Gives them back.
    pub(crate) fn give_back(&self) {
        free().0.push(Cells { block: self.block, at: self.at });
    }

    #[inline(always)]
    pub(crate) fn of(&self, worker: WorkerNumber) -> &Cell {
        &self.block[usize::from(worker.0) % WORKERS][usize::from(self.at)]
    }

    /// What all workers have counted.
    pub(crate) fn sum(&self) -> [u64; 2] {
        let rows = &self.block[..IN_USE.load(Relaxed).min(WORKERS)];
        let mut sum = [0_u64; 2];
        for row in rows {
            for (sum, cell) in sum.iter_mut().zip(&row[usize::from(self.at)]) {
                *sum = sum.wrapping_add(cell.load(Relaxed));
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_have_separate_cache_lines() {
        let (cells, _) = Cells::take();
        let first = std::ptr::from_ref(&cells.block[0]).addr();
        assert_eq!(first % 64, 0);
        assert_eq!(size_of::<Row>() % 64, 0);
        for number in [0, 1, 7, WORKERS - 1] {
            let worker = WorkerNumber::new(number).unwrap();
            let distance = std::ptr::from_ref(cells.of(worker)).addr()
                - std::ptr::from_ref(cells.of(WorkerNumber::FIRST)).addr();
            assert_eq!((worker.get(), worker.distance()), (number, distance));
            assert_eq!(WorkerNumber::at_distance(distance), worker);
        }
        assert_eq!(WorkerNumber::new(WORKERS), None);
        cells.give_back();
    }
}
