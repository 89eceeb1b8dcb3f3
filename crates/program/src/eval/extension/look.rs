// SPDX-License-Identifier: Apache-2.0

//! What `u32`, `string` and `time` look at (`net/netfilter/xt_u32.c`, `xt_string.c`, `xt_time.c`).

use crate::op::{Search, Times, WordStep, WordTest, Words};

/// Whether all tests pass (`u32_match_it()`).
pub(super) fn words(words: &Words, network: &[u8]) -> bool {
    words.tests.iter().all(|test| {
        let value = word_of(test, network);
        value.is_some_and(|v| test.ranges.iter().any(|[min, max]| (*min..=*max).contains(&v)))
    })
}

/// The word at a position; `None` if it is not all there.
fn word(network: &[u8], at: u32, position: u32) -> Option<u32> {
    let start = usize::try_from(at).ok()?.checked_add(usize::try_from(position).ok()?)?;
    network.get(start..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn word_of(test: &WordTest, network: &[u8]) -> Option<u32> {
    let mut at = 0u32;
    let mut value = word(network, at, test.position)?;
    for step in &test.steps {
        match step {
            WordStep::And(mask) => value &= mask,
            WordStep::ShiftLeft(bits) => value = value.checked_shl(u32::from(*bits)).unwrap_or(0),
            WordStep::ShiftRight(bits) => value = value.checked_shr(u32::from(*bits)).unwrap_or(0),
            WordStep::At(position) => {
                at = at.checked_add(value)?;
                value = word(network, at, *position)?;
            }
        }
    }
    Some(value)
}

/// Whether the bytes are there (`skb_find_text()`).
pub(super) fn found(search: &Search, network: &[u8]) -> bool {
    let end = usize::from(search.to).min(network.len());
    let Some(bytes) = network.get(usize::from(search.from)..end) else { return false };
    let same = |a: u8, b: u8| a == b || search.ignores_case && a.to_ascii_uppercase() == b;
    bytes
        .windows(search.pattern.len().max(1))
        .any(|window| window.iter().zip(&search.pattern).all(|(a, b)| same(*a, *b)))
}

/// Whether a second since the epoch is among the times (`time_mt()`).
pub(super) fn is_now(times: &Times, second: u64) -> bool {
    const DAY: u64 = 86_400;
    let [first, last] = times.dates.map(u64::from);
    if !(first..=last).contains(&second) {
        return false;
    }
    let of_day = (second % DAY) as u32;
    let [start, stop] = times.daytime;
    let mut second = second;
    if start < stop {
        if of_day < start || of_day > stop {
            return false;
        }
    } else {
        if of_day < start && of_day > stop {
            return false;
        }
        if times.contiguous && of_day <= stop {
            second = second.saturating_sub(DAY);
        }
    }
    let day = second / DAY;
    // The epoch was a Thursday.
    let of_week = (day + 3) % 7 + 1;
    times.week_days & 1 << of_week != 0 && times.month_days & 1 << day_of_month(day) != 0
}

/// The day of its month, from 1, of a day since the epoch in the Gregorian calendar.
fn day_of_month(day: u64) -> u32 {
    // Years begin with March here, so that the leap day is their last one; 1 March of the year 0
    // was 719,468 days before the epoch, and 400 years have 146,097 days.
    let of_era = (day + 719_468) % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    (of_year - (153 * month + 2) / 5 + 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_months_follow_the_calendar() {
        for (day, expected) in [
            (0, 1),
            (30, 31),
            (31, 1),
            (58, 28),
            (59, 1),
            (789, 29),    // 29 February 1972
            (790, 1),     // 1 March 1972
            (11_016, 29), // 29 February 2000
            (47_540, 28), // 28 February 2100
            (47_541, 1),  // 1 March 2100
        ] {
            assert_eq!(day_of_month(day), expected, "day {day}");
        }
    }

    #[test]
    fn daytimes_over_midnight_belong_to_the_day_before_if_they_are_contiguous() {
        let times = |contiguous| Times {
            dates: [0, u32::MAX],
            daytime: [23 * 3600, 3600],
            month_days: !1,
            week_days: 1 << 1,
            contiguous,
        };
        // Monday 5 January 1970, 23:30, and half past midnight of the day after.
        let (monday, tuesday) = (4 * 86_400 + 84_600, 5 * 86_400 + 1800);
        assert_eq!([monday, tuesday].map(|at| is_now(&times(false), at)), [true, false]);
        assert_eq!([monday, tuesday].map(|at| is_now(&times(true), at)), [true, true]);
    }

    #[test]
    fn searches_end_where_they_are_told() {
        let search = |from, to, ignores_case| Search {
            pattern: (*b"AB").into(),
            from,
            to,
            ignores_case,
            inverted: false,
        };
        for (from, to, ignores_case, expected) in [
            (0, 6, false, true),
            (0, 5, false, false),
            (4, 6, false, true),
            (5, 60, false, false),
            (9, 60, false, false),
            (0, 2, true, true),
        ] {
            let found = found(&search(from, to, ignores_case), b"abxxAB");
            assert_eq!(found, expected, "{from}..{to}");
        }
    }
}
