// SPDX-License-Identifier: Apache-2.0

//! The elements of a set: what they are to be, what a listing says that they are, and the changes
//! that lead from one to the other.

use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write as _;

use crate::span::Span;

/// When an element ends, in seconds of a clock that the caller chooses; `None` for never.
pub type Deadline = Option<u64>;

/// Elements that do not overlap.
pub type Elements = BTreeMap<Span, Deadline>;

/// A deadline as a number that is higher the later it is.
fn rank(deadline: Deadline) -> u64 {
    deadline.unwrap_or(u64::MAX)
}

/// The elements that cover entries, which may overlap: each address is in an element until the
/// last of its entries ends. Entries that have ended count for nothing. Neighbours that end at the
/// same time become one element.
pub fn cover(entries: impl IntoIterator<Item = (Span, Deadline)>, now: u64) -> Elements {
    let mut entries: Vec<(Span, u64)> = entries
        .into_iter()
        .map(|(span, deadline)| (span, rank(deadline)))
        .filter(|(_, end)| *end > now)
        .collect();
    entries.sort_unstable();
    let mut made = Made::default();
    // Those that begin before the place that was reached: the latest deadline first.
    let mut open: BinaryHeap<(u64, u128)> = BinaryHeap::new();
    let mut entries = entries.into_iter().peekable();
    while let Some(&(span, _)) = entries.peek() {
        let (family, mut at) = (span.family(), span.first());
        loop {
            while let Some((span, end)) =
                entries.next_if(|(span, _)| span.family() == family && span.first() <= at)
            {
                open.push((end, span.last()));
            }
            while open.peek().is_some_and(|(_, last)| *last < at) {
                open.pop();
            }
            let Some(&(end, last)) = open.peek() else { break };
            // It counts up to its end, or to where one begins that may last longer.
            let next = entries.peek().filter(|(next, _)| next.family() == family);
            let until = next.map_or(last, |(next, _)| last.min(next.first() - 1));
            made.push(Span::new(family, at, until), end);
            match until.checked_add(1).filter(|next| *next <= family.highest()) {
                Some(next) => at = next,
                None => open.clear(),
            }
        }
    }
    made.elements
}

#[derive(Default)]
struct Made {
    elements: Elements,
}

impl Made {
    /// Adds a span after the last one, or to it.
    fn push(&mut self, span: Option<Span>, end: u64) {
        let Some(span) = span else { return };
        let deadline = (end != u64::MAX).then_some(end);
        let mut whole = span;
        if let Some((&before, &of_before)) = self.elements.last_key_value()
            && of_before == deadline
            && before.family() == span.family()
            && before.last().checked_add(1) == Some(span.first())
            && let Some(joined) = Span::new(span.family(), before.first(), span.last())
        {
            self.elements.remove(&before);
            whole = joined;
        }
        self.elements.insert(whole, deadline);
    }
}

/// The spans that no other one contains, of spans that overlap only where one contains the other,
/// as prefixes do.
pub fn outermost(spans: impl IntoIterator<Item = Span>) -> Elements {
    let mut spans: Vec<Span> = spans.into_iter().collect();
    // The widest of those that begin at the same address comes first.
    spans.sort_unstable_by_key(|s| (s.family(), s.first(), std::cmp::Reverse(s.last())));
    let mut elements = Elements::new();
    for span in spans {
        if !elements.last_key_value().is_some_and(|(before, _)| before.contains(span)) {
            elements.insert(span, None);
        }
    }
    elements
}

/// Deadlines that differ by fewer seconds are taken for equal: listings say them by the second,
/// and a little later.
const SLACK: u64 = 5;

/// A part of the changes that lead from some elements to others. Each part can be made on its own:
/// no address that is to stay is missing after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Elements to delete, before others are added.
    pub delete: Vec<Span>,
    /// Elements to add.
    pub add: Vec<(Span, Deadline)>,
}

impl Delta {
    /// How many changes.
    pub fn len(&self) -> usize {
        self.delete.len() + self.add.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Commands of nft that make the changes in a set, which is named as in `inet filter blocked`.
    pub fn commands(&self, set: &str, now: u64) -> String {
        let mut text = String::new();
        let mut list = |verb: &str, elements: &mut dyn Iterator<Item = String>| {
            let mut elements = elements.peekable();
            if elements.peek().is_none() {
                return;
            }
            let _ = write!(text, "{verb} element {set} {{ ");
            for element in elements {
                text.push_str(&element);
                text.push_str(", ");
            }
            text.truncate(text.len() - 2);
            text.push_str(" }\n");
        };
        list("delete", &mut self.delete.iter().map(Span::to_string));
        let with_timeout = |(span, deadline): &(Span, Deadline)| match deadline {
            // A timeout of zero would be none.
            Some(end) => format!("{span} timeout {}s", end.saturating_sub(now).max(1)),
            None => span.to_string(),
        };
        list("add", &mut self.add.iter().map(with_timeout));
        text
    }

    /// Makes the changes in elements.
    pub fn apply(&self, to: &mut Elements) {
        for span in &self.delete {
            to.remove(span);
        }
        to.extend(self.add.iter().copied());
    }
}

/// The changes that lead from some elements to others, in parts of about `most` changes.
pub fn deltas<'e>(
    from: impl IntoIterator<Item = (&'e Span, &'e Deadline)>,
    to: impl IntoIterator<Item = (&'e Span, &'e Deadline)>,
    most: usize,
) -> Vec<Delta> {
    let mut all = Vec::new();
    let mut part = Delta::default();
    // The last address that the part is about.
    let mut reached: Option<Span> = None;
    let (mut from, mut to) = (from.into_iter().peekable(), to.into_iter().peekable());
    loop {
        let (old, new) = (from.peek(), to.peek());
        let (old_first, next) = match (old, new) {
            (None, None) => break,
            (Some((old, _)), None) => (true, **old),
            (None, Some((new, _))) => (false, **new),
            (Some((old, _)), Some((new, _))) => (old <= new, **old.min(new)),
        };
        if let (Some((old, end)), Some((new, new_end))) = (old, new)
            && old == new
            && is_same_time(**end, **new_end)
        {
            from.next();
            to.next();
            continue;
        }
        let is_apart =
            reached.is_none_or(|r| r.family() != next.family() || r.last() < next.first());
        if part.len() >= most.max(1) && is_apart {
            all.push(std::mem::take(&mut part));
        }
        if is_apart || reached.is_some_and(|r| r.last() < next.last()) {
            reached = Some(next);
        }
        if old_first {
            part.delete.extend(from.next().map(|(old, _)| *old));
        } else {
            part.add.extend(to.next().map(|(new, end)| (*new, *end)));
        }
    }
    if !part.is_empty() {
        all.push(part);
    }
    all
}

fn is_same_time(one: Deadline, other: Deadline) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.abs_diff(other) <= SLACK,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Family;

    fn elements(text: &str) -> Elements {
        text.split_whitespace()
            .map(|word| match word.split_once('@') {
                Some((span, end)) => (span.parse().unwrap(), Some(end.parse().unwrap())),
                None => (word.parse().unwrap(), None),
            })
            .collect()
    }

    #[test]
    fn every_address_is_covered_until_its_last_entry_ends() {
        for (entries, expected) in [
            ("", ""),
            ("198.18.0.1 198.18.0.2", "198.18.0.1-198.18.0.2"),
            ("198.18.0.0/24 198.18.0.7", "198.18.0.0/24"),
            ("198.18.0.0/25 198.18.0.128/25", "198.18.0.0/24"),
            ("198.18.0.0/30@50 198.18.0.1", "198.18.0.0@50 198.18.0.1 198.18.0.2/31@50"),
            ("198.18.0.0/30 198.18.0.1@50", "198.18.0.0/30"),
            ("198.18.0.0/30@5 198.18.0.1", "198.18.0.1"),
            ("255.255.255.255 0.0.0.0/1 ::/0", "0.0.0.0/1 255.255.255.255 ::/0"),
            (
                "::ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff@70",
                "::ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff@70",
            ),
        ] {
            assert_eq!(cover(elements(entries), 10), elements(expected), "{entries}");
        }
    }

    /// Each address by itself: the definition.
    #[test]
    fn random_entries_are_covered_as_each_address_alone() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..500 {
            let base = if random.bool() { 0 } else { u128::from(u32::MAX) - 31 };
            let entries: Vec<(Span, Deadline)> = (0..random.usize(0..12))
                .map(|_| {
                    let (a, b) = (random.u128(0..32), random.u128(0..32));
                    let span = Span::new(Family::V4, base + a.min(b), base + a.max(b)).unwrap();
                    (span, random.bool().then(|| random.u64(5..20)))
                })
                .collect();
            let covered = cover(entries.iter().copied(), 10);
            let found = |all: &mut dyn Iterator<Item = (Span, Deadline)>, address| {
                all.filter(|(s, _)| s.first() <= address && address <= s.last())
                    .map(|(_, end)| rank(end))
                    .filter(|end| *end > 10)
                    .max()
            };
            for address in base..base + 32 {
                assert_eq!(
                    found(&mut covered.iter().map(|(s, d)| (*s, *d)), address),
                    found(&mut entries.iter().copied(), address),
                    "{entries:?}"
                );
            }
            let spans: Vec<&Span> = covered.keys().collect();
            assert!(spans.windows(2).all(|w| w[0].last() < w[1].first()), "{covered:?}");
        }
    }

    #[test]
    fn parts_of_a_delta_lose_no_address_that_stays() {
        let mut random = fastrand::Rng::with_seed(8);
        for _ in 0..300 {
            let mut some = || {
                let spans = (0..random.usize(0..20)).map(|_| {
                    let first = random.u128(0..200);
                    let last = (first + random.u128(0..20)).min(255);
                    (Span::new(Family::V4, first, last).unwrap(), None)
                });
                cover(spans.collect::<Vec<_>>(), 0)
            };
            let (from, to) = (some(), some());
            let has = |all: &Elements, address: u128| {
                all.keys().any(|s| s.first() <= address && address <= s.last())
            };
            let mut now = from.clone();
            for part in deltas(&from, &to, 3) {
                part.apply(&mut now);
                for address in 0..256 {
                    let stays = has(&from, address) && has(&to, address);
                    assert!(!stays || has(&now, address), "{from:?} {to:?}");
                }
            }
            assert_eq!(now, to);
            assert!(deltas(&now, &to, 3).is_empty());
        }
    }

    #[test]
    fn changes_are_commands_with_the_time_that_is_left() {
        let from = elements("198.18.0.1 198.18.0.9@100 198.18.0.11@100");
        let to = elements("198.18.0.9@103 198.18.0.11@200 2001:db8::/32");
        let parts = deltas(&from, &to, 100);
        assert_eq!(parts.len(), 1);
        assert_eq!(
            parts[0].commands("inet t s", 90),
            "delete element inet t s { 198.18.0.1, 198.18.0.11 }\n\
             add element inet t s { 198.18.0.11 timeout 110s, 2001:db8::/32 }\n"
        );
    }

    #[test]
    fn a_prefix_in_another_one_waits_until_that_is_gone() {
        let all = ["198.18.0.0/16", "198.18.7.0/24", "198.18.7.1", "198.19.0.1", "2001:db8::/32"];
        let spans = |all: &[&str]| outermost(all.iter().map(|s| s.parse().unwrap()));
        assert_eq!(spans(&all), elements("198.18.0.0/16 198.19.0.1 2001:db8::/32"));
        assert_eq!(spans(&all[1..]), elements("198.18.7.0/24 198.19.0.1 2001:db8::/32"));
    }
}
