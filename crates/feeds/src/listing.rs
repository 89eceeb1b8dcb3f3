// SPDX-License-Identifier: Apache-2.0

//! What `nft list set` prints: the type and flags of a set, and its elements.

use crate::elements::{Deadline, Elements};
use crate::span::{Family, Span};

/// A set, as a listing has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedSet {
    /// The family of its keys.
    pub family: Family,
    /// Prefixes and ranges can be elements.
    pub has_intervals: bool,
    /// Elements can have timeouts.
    pub has_timeouts: bool,
    /// Its elements.
    pub elements: Elements,
}

impl ListedSet {
    /// Reads the listing of one set. `now` is the time to which what is left of timeouts is added,
    /// in seconds.
    ///
    /// # Errors
    /// The set has keys other than addresses, or is a map; or the text is no listing of a set.
    pub fn read(text: &str, now: u64) -> Result<ListedSet, String> {
        let (head, elements) = text.split_once("elements = {").unwrap_or((text, ""));
        let line = |word: &str| {
            let with_word =
                |line: &'_ str| line.trim().strip_prefix(word).map(|rest| rest.trim().to_owned());
            head.lines().find_map(with_word)
        };
        let key = line("type ").ok_or("the listing has no type of a set")?;
        let family = [Family::V4, Family::V6].into_iter().find(|f| f.key_type() == key);
        let family = family.ok_or_else(|| {
            format!("its elements are of type {key}; a feed needs ipv4_addr or ipv6_addr")
        })?;
        let flags = line("flags ").unwrap_or_default();
        let has = |flag: &str| flags.split(',').any(|word| word.trim() == flag);
        let mut set = ListedSet {
            family,
            has_intervals: has("interval"),
            // A set with a timeout of its own lets elements have others.
            has_timeouts: has("timeout") || line("timeout ").is_some(),
            elements: Elements::new(),
        };
        let elements = elements.split('}').next().unwrap_or_default();
        for element in elements.split(',').map(str::trim).filter(|e| !e.is_empty()) {
            let (span, deadline) = read_element(element, now)?;
            set.elements.insert(span, deadline);
        }
        Ok(set)
    }
}

/// Reads an element: an address, prefix or range, and after it counters, timeouts and so on.
fn read_element(text: &str, now: u64) -> Result<(Span, Deadline), String> {
    let mut words = text.split_whitespace();
    let span: Span = words.next().unwrap_or_default().parse()?;
    let expires = words.skip_while(|word| *word != "expires").nth(1);
    let deadline = match expires {
        Some(time) => {
            let left = seconds(time).ok_or_else(|| format!("`{time}` is no time"))?;
            Some(now.saturating_add(left))
        }
        None => None,
    };
    Ok((span, deadline))
}

/// Whole seconds of a time such as `1d2h3m4s5ms`.
fn seconds(text: &str) -> Option<u64> {
    let (mut total, mut rest) = (0u64, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = &rest[digits..];
        let unit = &unit[..unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len())];
        let factor = match unit {
            "w" => 604_800,
            "d" => 86_400,
            "h" => 3600,
            "m" => 60,
            "s" => 1,
            "ms" => 0,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
        rest = &rest[digits + unit.len()..];
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_of_sets_are_read() {
        let text = "table inet t {\n\tset s {\n\t\ttype ipv4_addr\n\t\tflags interval,timeout\n\
                    \t\tcounter\n\t\telements = { 198.18.0.1 counter packets 1 bytes 2 timeout 1h \
                    expires 59m58s120ms,\n\t\t\t     198.18.1.0/24, 198.18.2.1-198.18.2.9 }\n\t}\n}\n";
        let set = ListedSet::read(text, 1000).unwrap();
        assert_eq!((set.family, set.has_intervals, set.has_timeouts), (Family::V4, true, true));
        let all: Vec<String> = set.elements.iter().map(|(s, d)| format!("{s} {d:?}")).collect();
        assert_eq!(
            all,
            ["198.18.0.1 Some(4598)", "198.18.1.0/24 None", "198.18.2.1-198.18.2.9 None"]
        );
        let empty = "table ip6 t {\n\tset s {\n\t\ttype ipv6_addr\n\t}\n}\n";
        let set = ListedSet::read(empty, 0).unwrap();
        assert_eq!((set.family, set.has_intervals, set.has_timeouts), (Family::V6, false, false));
        assert!(set.elements.is_empty());
        for (type_, message) in [
            (
                "inet_service",
                "its elements are of type inet_service; a feed needs ipv4_addr or ipv6_addr",
            ),
            (
                "ipv4_addr : verdict",
                "its elements are of type ipv4_addr : verdict; a feed needs ipv4_addr or ipv6_addr",
            ),
        ] {
            let text = empty.replace("ipv6_addr", type_);
            assert_eq!(ListedSet::read(&text, 0), Err(message.to_owned()));
        }
        assert!(ListedSet::read("", 0).is_err());
        assert_eq!(seconds("1d2h3m4s5ms"), Some(93784));
        assert_eq!((seconds(""), seconds("7"), seconds("7x")), (None, None, None));
    }
}
