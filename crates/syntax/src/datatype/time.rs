// SPDX-License-Identifier: Apache-2.0

//! Durations, dates and hours of the day.

use crate::names::Names;

/// `1d2h3m4s5ms`, or a plain number of seconds, to milliseconds.
pub fn parse_duration(text: &str) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse::<u64>().ok()?.checked_mul(1000);
    }
    let mut total = 0u64;
    let mut last = u64::MAX;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, tail) = tail.split_at(letters);
        let scale = match unit {
            "w" => 7 * 86_400_000,
            "d" => 86_400_000,
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1000,
            "ms" => 1,
            _ => return None,
        };
        // Each unit at most once, the larger first.
        if scale >= last {
            return None;
        }
        last = scale;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(scale)?)?;
        rest = tail;
    }
    Some(total)
}

/// Milliseconds as `1d2h3m4s5ms`; with `seconds` as seconds only.
pub fn print_duration(milliseconds: u64, seconds: bool, out: &mut String) {
    use std::fmt::Write;
    // Writing to a String does not fail.
    if seconds {
        let _ = write!(out, "{}s", milliseconds / 1000);
        return;
    }
    if milliseconds == 0 {
        out.push_str("0s");
        return;
    }
    let ms = milliseconds % 1000;
    let total = milliseconds / 1000;
    for (value, unit) in [
        (total / 86400, "d"),
        (total / 3600 % 24, "h"),
        (total / 60 % 60, "m"),
        (total % 60, "s"),
        (ms, "ms"),
    ] {
        if value != 0 {
            let _ = write!(out, "{value}{unit}");
        }
    }
}

/// Days since the epoch of a date (proleptic Gregorian; years counted from March to get leap days
/// last).
fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date of a day since the epoch: year, month, day.
fn date_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

fn parse_clock(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let number = |part: Option<&str>, limit: i64| -> Option<i64> {
        let part = part?;
        if part.is_empty() || part.len() > 2 || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        part.parse().ok().filter(|n| *n < limit)
    };
    let hours = number(parts.next(), 24)?;
    let minutes = number(parts.next(), 60)?;
    let seconds = match parts.next() {
        None => 0,
        // A leap second is a second of the C library's clock.
        some => number(some, 61)?,
    };
    parts.next().is_none().then_some(hours * 3600 + minutes * 60 + seconds)
}

/// A local date (`2024-05-01`, with `10:00` or `10:00:05` after it), or seconds since the epoch, to
/// nanoseconds since the epoch.
pub fn parse_date(text: &str, names: &dyn Names) -> Option<u64> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse::<u64>().ok()?.checked_mul(1_000_000_000);
    }
    let (date, clock) = text.split_once(' ').map_or((text, None), |(d, c)| (d, Some(c)));
    let mut parts = date.split('-');
    let mut number = |digits: usize| -> Option<i64> {
        let part = parts.next()?;
        (!part.is_empty() && part.len() <= digits && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse().ok())
            .flatten()
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let local = days_from_date(year, month, day) * 86400 + clock.map_or(Some(0), parse_clock)?;
    // The offset is a function of UTC: the second guess is right except within the hour of a
    // change.
    let guess = local - names.local_offset(Some(local));
    let utc = local - names.local_offset(Some(guess));
    u64::try_from(utc).ok()?.checked_mul(1_000_000_000)
}

/// Nanoseconds since the epoch as a local date in quotes.
pub fn print_date(nanoseconds: u64, names: &dyn Names, out: &mut String) {
    use std::fmt::Write;
    let utc = (nanoseconds / 1_000_000_000) as i64;
    let local = utc + names.local_offset(Some(utc));
    let (year, month, day) = date_from_days(local.div_euclid(86400));
    let clock = local.rem_euclid(86400);
    let _ = write!(
        out,
        "\"{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}\"",
        clock / 3600,
        clock / 60 % 60,
        clock % 60
    );
}

/// A local time of day (`17:00`, `17:00:01`), or seconds, to seconds of the day in UTC.
pub fn parse_hour(text: &str, names: &dyn Names) -> Option<u64> {
    if let Some(local) = parse_clock(text) {
        return Some((local - names.local_offset(None)).rem_euclid(86400) as u64);
    }
    parse_duration(text).map(|ms| ms / 1000)
}

/// Seconds of the day in UTC as a local time of day in quotes.
pub fn print_hour(seconds: u64, names: &dyn Names, out: &mut String) {
    use std::fmt::Write;
    let local = (seconds as i64).saturating_add(names.local_offset(None));
    let local = if (seconds as i64) < 86400 { local.rem_euclid(86400) } else { local % 86400 };
    let (hours, minutes, rest) = (local / 3600, local / 60 % 60, local % 60);
    if rest == 0 {
        let _ = write!(out, "\"{hours:02}:{minutes:02}\"");
    } else {
        let _ = write!(out, "\"{hours:02}:{minutes:02}:{rest:02}\"");
    }
}
