// SPDX-License-Identifier: Apache-2.0

//! Counters: cells of each processor, added up and given to the rules.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use penstock_program::State;

use super::StateRef;
use penstock_bpf::{Map, MapKind, MapSpec};

/// Bytes of packets and bytes.
pub(super) const CELL: usize = 16;
/// Cells of a value at most: a value of such a map has 32 KiB.
const CELLS: usize = 2048;
/// Counters at most.
pub(super) const MOST: usize = 1 << 17;

fn address(state: &StateRef) -> usize {
    Arc::as_ptr(state).addr()
}

/// The counters of a program.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    states: Vec<StateRef>,
    /// Their numbers by address.
    indexes: HashMap<usize, usize>,
    map: Option<Arc<Map>>,
    /// What was added already.
    seen: Vec<[u64; 2]>,
}

impl Counters {
    /// For these states, in this order.
    pub(super) fn new(states: Vec<StateRef>) -> Self {
        let per_value = states.len().min(CELLS);
        let map = (!states.is_empty()).then(|| {
            Arc::new(Map::new(MapSpec {
                name: "rule_counters",
                kind: MapKind::PerCpuArray,
                key: 4,
                value: (per_value * CELL) as u32,
                entries: states.len().div_ceil(per_value) as u32,
            }))
        });
        let indexes = states.iter().map(address).zip(0..).collect();
        Counters { seen: vec![[0; 2]; states.len()], indexes, states, map }
    }

    /// Whether these are counters of the same states.
    pub(super) fn are_same(&self, other: &Counters) -> bool {
        let pairs = self.states.iter().zip(&other.states);
        self.states.len() == other.states.len() && pairs.into_iter().all(|(a, b)| Arc::ptr_eq(a, b))
    }

    pub(super) fn map(&self) -> Option<&Arc<Map>> {
        self.map.as_ref()
    }

    /// Counters of a value of the map, of which the first is looked up in advance.
    pub(super) fn per_value(&self) -> usize {
        self.states.len().clamp(1, CELLS)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.states.len()
    }

    /// Number of a state's counter.
    pub(super) fn index(&self, state: &StateRef) -> Option<usize> {
        self.indexes.get(&address(state)).copied()
    }

    /// Packets and bytes that the program has counted, all processors together, in order of the
    /// states.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub fn read(&self) -> io::Result<Vec<[u64; 2]>> {
        let mut sums = vec![[0_u64; 2]; self.states.len()];
        let Some(map) = &self.map else { return Ok(sums) };
        for (key, sums) in (0_u32..).zip(sums.chunks_mut(self.per_value())) {
            let values = map.get(&key.to_ne_bytes())?.unwrap_or_default();
            for cpu in values.chunks_exact(self.per_value() * CELL) {
                let (numbers, _) = cpu.as_chunks::<8>();
                for (sum, number) in sums.iter_mut().flatten().zip(numbers) {
                    *sum = sum.wrapping_add(u64::from_ne_bytes(*number));
                }
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
