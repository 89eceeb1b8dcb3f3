// SPDX-License-Identifier: Apache-2.0

//! One element: its key, its timeout, and what of it is the same wherever it is in force.

use std::time::Duration;

/// Words that end the key of an element.
const AFTER_KEY: [&str; 8] =
    [":", "timeout", "expires", "comment", "counter", "limit", "quota", "last"];

/// Words that begin state: counters and the like, which packets change.
const STATE: [&str; 4] = ["counter", "limit", "quota", "last"];
/// Words that end it.
const AFTER_STATE: [&str; 4] = ["timeout", "expires", "comment", ":"];

/// The key of an element.
pub fn key(element: &str) -> &str {
    let mut at = 0;
    for word in element.split(' ') {
        if at > 0 && AFTER_KEY.contains(&word) {
            return &element[..at - 1];
        }
        at += word.len() + 1;
    }
    element
}

/// The texts of elements in a line: what is between commas, up to a comment. Both count outside of
/// quotes only.
pub fn parts(line: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let end = line.find(|c| {
        quoted ^= c == '"';
        c == '#' && !quoted
    });
    let mut quoted = false;
    line[..end.unwrap_or(line.len())].split(move |c| {
        quoted ^= c == '"';
        c == ',' && !quoted
    })
}

/// An element without what changes while it is in force: what is left of its timeout, and its
/// state.
pub fn lasting(element: &str) -> String {
    let mut lasting = key(element).to_owned();
    let mut words = words(&element[lasting.len()..]);
    let mut in_state = false;
    while let Some(word) = words.next() {
        in_state = STATE.contains(&word) || in_state && !AFTER_STATE.contains(&word);
        match word {
            "expires" => _ = words.next(),
            _ if in_state => {}
            _ => {
                lasting.push(' ');
                lasting.push_str(word);
            }
        }
    }
    lasting
}

/// The word after another one that stands after the key, outside of quotes.
pub fn after<'e>(element: &'e str, word: &str) -> Option<&'e str> {
    let mut words = words(&element[key(element).len()..]);
    words.find(|other| *other == word)?;
    words.next()
}

/// The timeout that an element says of itself; zero if it never ends.
pub fn timeout(element: &str) -> Option<Duration> {
    after(element, "timeout").and_then(duration)
}

/// What is left of the timeout, if the element says that.
pub fn expires(element: &str) -> Option<Duration> {
    after(element, "expires").and_then(duration)
}

/// The element such that adding it again gives it its whole timeout.
pub fn renewed(element: &str, timeout: Duration) -> String {
    let lasting = lasting(element);
    let (before, data) = match data_at(&lasting) {
        Some(at) => lasting.split_at(at),
        None => (lasting.as_str(), ""),
    };
    let left = timeout.as_millis();
    let (before, comment) = before.split_at(before.find(" comment ").unwrap_or(before.len()));
    format!("{before} expires {}s{}ms{comment}{data}", left / 1000, left % 1000)
}

/// Where the data of a map's element begin, with the space before.
fn data_at(element: &str) -> Option<usize> {
    let mut quoted = false;
    element.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (!quoted && element[at..].starts_with(" : ")).then_some(at)
    })
}

/// A time as nft has it: `1d2h3m4s5ms`, or seconds.
pub fn duration(text: &str) -> Option<Duration> {
    let (mut total, mut rest) = (0u64, text);
    if text.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = &rest[digits..];
        let unit = &unit[..unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len())];
        let factor = match unit {
            "w" => 604_800_000,
            "d" => 86_400_000,
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1000,
            "" if digits == text.len() => 1000,
            "ms" => 1,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
        rest = &rest[digits + unit.len()..];
    }
    Some(Duration::from_millis(total))
}

/// Words between spaces; what is in quotes is one.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let words = text.split(move |c| {
        quoted ^= c == '"';
        c == ' ' && !quoted
    });
    words.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_before_options_and_data() {
        for (element, expected) in [
            ("198.18.0.1", "198.18.0.1"),
            ("198.18.0.1 timeout 1h comment \"a, b\"", "198.18.0.1"),
            ("198.18.0.1 . 80 : accept", "198.18.0.1 . 80"),
            ("2001:db8::/32 counter packets 0 bytes 0", "2001:db8::/32"),
            ("comment", "comment"),
        ] {
            assert_eq!(key(element), expected);
        }
    }

    #[test]
    fn what_lasts_is_told_from_what_changes() {
        for (element, expected) in [
            ("198.18.0.1", "198.18.0.1"),
            ("198.18.0.1 . 80 : accept", "198.18.0.1 . 80 : accept"),
            ("198.18.0.1 counter packets 1 bytes 2", "198.18.0.1"),
            (
                "198.18.0.1 counter packets 1 bytes 2 timeout 1h expires 59m comment \"expires 1h\"",
                "198.18.0.1 timeout 1h comment \"expires 1h\"",
            ),
            ("198.18.0.1 limit rate 1/second burst 5 packets : drop", "198.18.0.1 : drop"),
            ("198.18.0.1 last used never counter packets 0 bytes 0", "198.18.0.1"),
            ("198.18.0.1 expires 5s", "198.18.0.1"),
        ] {
            assert_eq!(lasting(element), expected, "{element}");
        }
    }

    #[test]
    fn timeouts_are_read_and_renewed() {
        let seconds = |text: &str| timeout(text).map(|time| time.as_secs());
        assert_eq!(seconds("198.18.0.1 timeout 1d2h3m4s"), Some(93_784));
        assert_eq!(seconds("198.18.0.1 timeout 90"), Some(90));
        assert_eq!(seconds("198.18.0.1 comment \"timeout 1h\""), None);
        assert_eq!(timeout("198.18.0.1 timeout 1500ms"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("1d2h3m4s5ms"), Some(Duration::from_millis(93_784_005)));
        assert_eq!((duration(""), duration("7x"), duration("1m7")), (None, None, None));
        assert_eq!(expires("198.18.0.1 timeout 1h expires 5m"), Some(Duration::from_secs(300)));
        for (element, expected) in [
            ("198.18.0.1 timeout 1h", "198.18.0.1 timeout 1h expires 3600s0ms"),
            (
                "198.18.0.1 timeout 1h expires 5m comment \"a : b\" : accept",
                "198.18.0.1 timeout 1h expires 3600s0ms comment \"a : b\" : accept",
            ),
            ("198.18.0.1", "198.18.0.1 expires 3600s0ms"),
        ] {
            assert_eq!(renewed(element, Duration::from_secs(3600)), expected, "{element}");
        }
    }
}
