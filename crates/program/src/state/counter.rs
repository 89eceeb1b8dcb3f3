// SPDX-License-Identifier: Apache-2.0

//! Counters: packets and bytes, by any number of workers.

use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::cells::{Cells, WorkerNumber};
use crate::sync::AtomicU64;

/// Packets and bytes (`net/netfilter/nft_counter.c`, which counts per processor too).
pub struct CounterState {
    cells: Cells,
    /// Added to the sum of the cells: the initial value and counts outside of workers, minus the
    /// value at the latest reset.
    correction: [AtomicU64; 2],
}

impl fmt::Debug for CounterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CounterState").field(&self.read()).finish()
    }
}

impl Default for CounterState {
    fn default() -> Self {
        CounterState::new(0, 0)
    }
}

impl Drop for CounterState {
    fn drop(&mut self) {
        self.cells.give_back();
    }
}

impl CounterState {
    /// Starts at given values.
    pub fn new(packets: u64, bytes: u64) -> Self {
        let (cells, [packets_before, bytes_before]) = Cells::take();
        let correction = [packets.wrapping_sub(packets_before), bytes.wrapping_sub(bytes_before)];
        CounterState { cells, correction: correction.map(AtomicU64::new) }
    }

    /// Counts one packet of so many bytes. Only one thread at a time may count for a worker; else
    /// packets go uncounted.
    #[inline]
    pub fn count(&self, worker: WorkerNumber, bytes: u64) {
        for (cell, more) in self.cells.of(worker).iter().zip([1, bytes]) {
            cell.store(cell.load(Relaxed).wrapping_add(more), Relaxed);
        }
    }

    /// Adds what was counted elsewhere; for any thread.
    pub fn add(&self, packets: u64, bytes: u64) {
        for (correction, more) in self.correction.iter().zip([packets, bytes]) {
            correction.fetch_add(more, Relaxed);
        }
    }

    /// Where the first worker counts packets and bytes, for code that is generated at run time. The
    /// cells of others are [`WorkerNumber::distance`] from there.
    pub fn cells_of_first(&self) -> &[AtomicU64; 2] {
        self.cells.of(WorkerNumber::FIRST)
    }

    /// Packets and bytes.
    pub fn read(&self) -> (u64, u64) {
        // First what a reset takes off, which is never more than the cells hold afterwards.
        let correction = self.correction.each_ref().map(|word| word.load(Acquire));
        let sum = self.cells.sum();
        (correction[0].wrapping_add(sum[0]), correction[1].wrapping_add(sum[1]))
    }

    /// Packets and bytes, which then start at zero again. Nothing that is counted meanwhile is
    /// lost.
    pub fn reset(&self) -> (u64, u64) {
        let [packets, bytes] = [0, 1].map(|n| {
            let correction = &self.correction[n];
            loop {
                let seen = correction.load(Acquire);
                let sum = self.cells.sum()[n];
                // Who reset it meanwhile has told what it told.
                if correction.compare_exchange(seen, sum.wrapping_neg(), AcqRel, Relaxed).is_ok() {
                    return seen.wrapping_add(sum);
                }
            }
        });
        (packets, bytes)
    }
}
