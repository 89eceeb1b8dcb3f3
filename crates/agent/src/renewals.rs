// SPDX-License-Identifier: Apache-2.0

//! When elements with a timeout are renewed: between half and three quarters of it after they were
//! put, at random times, so that the nodes of a fleet do not do it all at once. Elements of a set
//! with the same timeout are renewed together; those that were put later are renewed early.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Elements with one timeout, of the set with a title.
type Group = (String, Duration);

/// Times of renewals.
#[derive(Clone, Debug, Default)]
pub struct Renewals {
    due: BTreeMap<Group, Instant>,
}

impl Renewals {
    /// Elements with a timeout were put, which end after `left` unless they are renewed. `random` is
    /// a number from 0 to 1.
    pub fn put(
        &mut self,
        title: &str,
        timeout: Duration,
        left: Duration,
        now: Instant,
        random: f64,
    ) {
        // One that never ends needs nothing.
        if timeout.is_zero() {
            return;
        }
        let at = now + left.min(timeout).mul_f64(0.5 + random / 4.0);
        let due = self.due.entry((title.to_owned(), timeout)).or_insert(at);
        *due = at.min(*due);
    }

    /// The groups that are due, which are no longer waited for.
    pub fn take_due(&mut self, now: Instant) -> Vec<Group> {
        let due = self.due.iter().filter(|(_, at)| **at <= now).map(|(group, _)| group.clone());
        let due: Vec<Group> = due.collect();
        due.iter().for_each(|group| _ = self.due.remove(group));
        due
    }

    /// When the next ones are due.
    pub fn next(&self) -> Option<Instant> {
        self.due.values().min().copied()
    }

    /// Nothing is in force any more.
    pub fn clear(&mut self) {
        self.due.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_due_between_half_and_three_quarters_of_their_timeouts() {
        let now = Instant::now();
        let hour = Duration::from_secs(3600);
        for (random, minutes) in [(0.0, 30), (1.0, 45)] {
            let mut renewals = Renewals::default();
            renewals.put("inet fw s", hour, hour, now, random);
            let at = now + Duration::from_secs(minutes * 60);
            assert_eq!(renewals.next(), Some(at));
            assert!(renewals.take_due(at - Duration::from_nanos(1)).is_empty());
            assert_eq!(renewals.take_due(at), [("inet fw s".to_owned(), hour)]);
            assert_eq!(renewals.next(), None);
        }
    }

    #[test]
    fn the_earliest_of_a_group_counts() {
        let now = Instant::now();
        let minute = Duration::from_secs(60);
        let mut renewals = Renewals::default();
        renewals.put("inet fw s", 10 * minute, 10 * minute, now, 0.0);
        renewals.put("inet fw s", 10 * minute, 10 * minute, now + minute, 0.0);
        assert_eq!(renewals.next(), Some(now + 5 * minute));
        renewals.put("inet fw s", 10 * minute, 2 * minute, now, 0.0);
        assert_eq!(renewals.next(), Some(now + minute));
        renewals.put("inet fw s", Duration::ZERO, Duration::ZERO, now, 0.0);
        assert_eq!(renewals.take_due(now + 10 * minute).len(), 1);
    }
}
