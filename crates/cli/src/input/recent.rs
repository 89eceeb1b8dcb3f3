// SPDX-License-Identifier: Apache-2.0

//! Packets of the last second.

use std::collections::{HashMap, VecDeque};

/// How long a packet may take through a router, in nanoseconds.
const WINDOW: u64 = 1_000_000_000;

/// What was seen in the last second, by a hash.
pub struct Recent<V> {
    /// In the order of their times.
    order: VecDeque<(u64, u64)>,
    /// The latest with each hash, and when it was.
    latest: HashMap<u64, (u64, V)>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Recent { order: VecDeque::new(), latest: HashMap::new() }
    }
}

impl<V> Recent<V> {
    /// Adds one, and forgets those that are too old. `time` is in nanoseconds.
    pub fn add(&mut self, time: u64, hash: u64, value: V) {
        while let Some((then, hash)) = self.order.front().copied()
            && time.saturating_sub(then) > WINDOW
        {
            self.order.pop_front();
            if self.latest.get(&hash).is_some_and(|(latest, _)| *latest == then) {
                self.latest.remove(&hash);
            }
        }
        self.order.push_back((time, hash));
        self.latest.insert(hash, (time, value));
    }

    /// The latest with a hash.
    pub fn get(&self, time: u64, hash: u64) -> Option<&V> {
        let (then, value) = self.latest.get(&hash)?;
        (time.saturating_sub(*then) <= WINDOW).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_a_second_is_forgotten() {
        let mut recent = Recent::default();
        recent.add(0, 1, "a");
        recent.add(WINDOW / 2, 1, "b");
        recent.add(WINDOW, 2, "c");
        assert_eq!(recent.get(WINDOW, 1), Some(&"b"));
        assert_eq!(recent.get(WINDOW * 2, 1), None);
        recent.add(WINDOW * 2, 3, "d");
        assert_eq!((recent.order.len(), recent.latest.len()), (2, 2));
        assert_eq!(recent.get(WINDOW * 2, 2), Some(&"c"));
    }
}
