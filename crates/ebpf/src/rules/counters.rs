// SPDX-License-Identifier: Apache-2.0

//! Counters: cells of each processor, added up and given to the rules.

use std::io;
use std::sync::Arc;

use penstock_program::State;

use super::StateRef;
use penstock_bpf::{Map, MapKind, MapSpec};

/// Bytes of packets and bytes.
pub(super) const CELL: usize = 16;
/// Counters at most: a value of such a map has 32 KiB.
pub(super) const MOST: usize = 2048;

/// The counters of a program.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    states: Vec<StateRef>,
    map: Option<Arc<Map>>,
    /// What was added already.
    seen: Vec<[u64; 2]>,
}

impl Counters {
    /// For these states, in this order.
    pub(super) fn new(states: Vec<StateRef>) -> Self {
        let map = (!states.is_empty()).then(|| {
            Arc::new(Map::new(MapSpec {
                name: "rule_counters",
                kind: MapKind::PerCpuArray,
                key: 4,
                value: (states.len() * CELL) as u32,
                entries: 1,
            }))
        });
        Counters { seen: vec![[0; 2]; states.len()], states, map }
    }

    /// Whether these are counters of the same states.
    pub(super) fn are_same(&self, other: &Counters) -> bool {
        let pairs = self.states.iter().zip(&other.states);
        self.states.len() == other.states.len() && pairs.into_iter().all(|(a, b)| Arc::ptr_eq(a, b))
    }

    pub(super) fn map(&self) -> Option<&Arc<Map>> {
        self.map.as_ref()
    }

    /// Number of counters.
    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    /// Number of a state's counter.
    pub(super) fn index(&self, state: &StateRef) -> Option<usize> {
        self.states.iter().position(|other| Arc::ptr_eq(other, state))
    }

    /// Packets and bytes that the program has counted, all processors together, in order of the
    /// states.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn read(&self) -> io::Result<Vec<[u64; 2]>> {
        let mut sums = vec![[0_u64; 2]; self.states.len()];
        let Some(map) = &self.map else { return Ok(sums) };
        let values = map.get(&[0; 4])?.unwrap_or_default();
        for cpu in values.chunks_exact((self.states.len() * CELL).max(1)) {
            let (numbers, _) = cpu.as_chunks::<8>();
            for (sum, number) in sums.iter_mut().flatten().zip(numbers) {
                *sum = sum.wrapping_add(u64::from_ne_bytes(*number));
            }
        }
        Ok(sums)
    }

    /// Adds what was counted since the last time to the rules' own counters.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn collect(&mut self) -> io::Result<()> {
        let now = self.read()?;
        for ((state, now), seen) in self.states.iter().zip(now).zip(&mut self.seen) {
            if let State::Counter(counter) = &**state {
                counter.add(now[0].wrapping_sub(seen[0]), now[1].wrapping_sub(seen[1]));
                *seen = now;
            }
        }
        Ok(())
    }
}
