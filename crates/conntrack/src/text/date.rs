// SPDX-License-Identifier: Apache-2.0

//! Dates as `ctime()` writes them, in UTC.

/// `Sat Nov 21 11:04:38 2026` for nanoseconds since the epoch.
pub(super) fn ctime(ns: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = ns / 1_000_000_000;
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut rest) = (1970, days);
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    while rest >= 365 + u64::from(leap(year)) {
        rest -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while rest >= lengths[month] {
        rest -= lengths[month];
        month += 1;
    }
    format!(
        "{} {} {:>2} {:02}:{:02}:{:02} {year}",
        DAYS[(days % 7) as usize],
        MONTHS[month],
        rest + 1,
        time / 3600,
        time / 60 % 60,
        time % 60
    )
}

#[cfg(test)]
mod tests {
    use super::ctime;

    #[test]
    fn dates_of_known_timestamps() {
        for (seconds, text) in [
            (0, "Thu Jan  1 00:00:00 1970"),
            (951_782_400, "Tue Feb 29 00:00:00 2000"),
            (1_795_259_078, "Sat Nov 21 11:04:38 2026"),
        ] {
            assert_eq!(ctime(seconds * 1_000_000_000), text);
        }
    }
}
