// SPDX-License-Identifier: Apache-2.0

//! Which values the operators of a component allow. A list of comparisons is a disjunction of
//! conjunctions: AND binds closer than OR (RFC 8955, section 4.2.1.1).

use super::{Bits, Numeric};

/// Values from a first to a last one.
pub type Range = (u32, u32);

/// Whether a number meets one comparison.
fn meets(number: u32, item: &Numeric) -> bool {
    (item.less && number < item.value)
        || (item.greater && number > item.value)
        || (item.equal && number == item.value)
}

/// Whether bits meet one comparison.
fn has(bits: u32, item: &Bits) -> bool {
    let met = if item.all { bits & item.value == item.value } else { bits & item.value != 0 };
    met != item.not
}

/// Whether a disjunction of conjunctions holds.
fn holds<T>(items: &[T], is_and: impl Fn(&T) -> bool, met: impl Fn(&T) -> bool) -> bool {
    let mut any = false;
    let mut all: Option<bool> = None;
    for item in items {
        all = match all {
            Some(before) if is_and(item) => Some(before && met(item)),
            Some(before) => {
                any |= before;
                Some(met(item))
            }
            // The AND of the first one has nothing before it, and is ignored.
            None => Some(met(item)),
        };
    }
    any || all.unwrap_or(false)
}

/// The numbers up to a highest one that the comparisons allow, as ranges that are apart.
pub fn numbers(items: &[Numeric], highest: u32) -> Vec<Range> {
    // Between two neighbouring values that are compared with, all numbers are alike.
    let mut starts = vec![0];
    for item in items {
        starts.extend([Some(item.value), item.value.checked_add(1)].into_iter().flatten());
    }
    starts.retain(|start| *start <= highest);
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).map(|next| next - 1).chain([highest]);
    let mut ranges = Vec::new();
    for (&first, last) in starts.iter().zip(ends) {
        if holds(items, |item| item.and, |item| meets(first, item)) {
            push(&mut ranges, (first, last));
        }
    }
    ranges
}

/// The values below `count` that the comparisons allow.
pub fn bits(items: &[Bits], count: u32) -> impl Iterator<Item = u32> + '_ {
    (0..count).filter(|bits| holds(items, |item| item.and, |item| has(*bits, item)))
}

/// Values in ascending order as ranges.
pub fn ranges(values: impl Iterator<Item = u32>) -> Vec<Range> {
    let mut ranges = Vec::new();
    values.for_each(|value| push(&mut ranges, (value, value)));
    ranges
}

/// Adds a range after the last one, or to it.
pub fn push(ranges: &mut Vec<Range>, (first, last): Range) {
    match ranges.last_mut() {
        Some(before) if before.1.checked_add(1) == Some(first) => before.1 = last,
        _ => ranges.push((first, last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric(text: &str) -> Vec<Numeric> {
        let items = text.split_whitespace().map(|word| {
            let and = word.starts_with('&');
            let word = word.trim_start_matches('&');
            let digits = word.find(|c: char| c.is_ascii_digit()).unwrap();
            let (operator, value) = word.split_at(digits);
            let not = operator.contains('!');
            Numeric {
                and,
                less: operator.contains('<') || not,
                greater: operator.contains('>') || not,
                equal: operator.contains('=') && !not,
                value: value.parse().unwrap(),
            }
        });
        items.collect()
    }

    #[test]
    fn comparisons_allow_ranges() {
        for (items, highest, expected) in [
            ("=6 =17", 255, &[(6, 6), (17, 17)][..]),
            (">8080 &<8088 =80", 65535, &[(80, 80), (8081, 8087)]),
            ("!=5", 63, &[(0, 4), (6, 63)]),
            (">=0", 63, &[(0, 63)]),
            ("<0", 63, &[]),
            (">=60 =70", 63, &[(60, 63)]),
            (">10 &<5", 63, &[]),
            ("=1 =2 =3", 63, &[(1, 3)]),
            ("=1 &=2 =4", 63, &[(4, 4)]),
            ("<4294967295", 255, &[(0, 255)]),
        ] {
            assert_eq!(numbers(&numeric(items), highest), expected, "{items}");
        }
    }

    #[test]
    fn bits_are_any_or_all_or_their_opposite() {
        let item = |and, not, all, value| Bits { and, not, all, value };
        let (syn, ack) = (2, 16);
        for (items, allowed, refused) in [
            (vec![item(false, false, true, syn)], vec![syn, syn | ack], vec![ack, 0]),
            (vec![item(false, false, false, syn | ack)], vec![syn, ack], vec![0, 1]),
            (vec![item(false, false, true, syn | ack)], vec![syn | ack], vec![syn, ack]),
            (
                vec![item(false, false, true, syn), item(true, true, false, ack)],
                vec![syn, syn | 1],
                vec![syn | ack, ack, 0],
            ),
            (vec![item(false, true, false, 0)], vec![0, 255], vec![]),
            (vec![item(false, false, false, 0)], vec![], vec![0, 255]),
        ] {
            let all: Vec<u32> = bits(&items, 256).collect();
            assert!(allowed.iter().all(|b| all.contains(b)), "{items:?}");
            assert!(!refused.iter().any(|b| all.contains(b)), "{items:?}");
        }
        assert_eq!(ranges([1, 2, 5].into_iter()), [(1, 2), (5, 5)]);
    }
}
