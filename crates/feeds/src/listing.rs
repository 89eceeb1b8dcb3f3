// SPDX-License-Identifier: Apache-2.0

//! What `nft list set` prints: the type and flags of a set, and its elements.

use penstock_listing::{Listing, element};

use crate::elements::Elements;
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
        let listing = Listing::of(text)?;
        let key = listing.key_type().ok_or("the listing has no type of a set")?;
        let family = [Family::V4, Family::V6].into_iter().find(|f| f.key_type() == key);
        let family = family.ok_or_else(|| {
            format!("its elements are of type {key}; a feed needs ipv4_addr or ipv6_addr")
        })?;
        let mut elements = Elements::new();
        for text in listing.elements() {
            let left = element::after(text, "expires")
                .map(|time| element::duration(time).ok_or_else(|| format!("`{time}` is no time")));
            let deadline = left.transpose()?.map(|left| now.saturating_add(left.as_secs()));
            elements.insert(element::key(text).parse::<Span>()?, deadline);
        }
        Ok(ListedSet {
            family,
            has_intervals: listing.has("interval"),
            // A set with a timeout of its own lets elements have others.
            has_timeouts: listing.has_timeouts(),
            elements,
        })
    }
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
        let commented = text.replace("198.18.1.0/24", "198.18.1.0/24 comment \"a, } b\"");
        assert_eq!(ListedSet::read(&commented, 1000), Ok(set));
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
    }
}
