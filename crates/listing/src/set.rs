// SPDX-License-Identifier: Apache-2.0

//! A set as `nft list set` prints it.

use std::time::Duration;

use crate::element::{duration, lasting, parts};

/// The listing of one set.
pub struct Listing<'t> {
    head: &'t str,
    elements: &'t str,
}

impl<'t> Listing<'t> {
    /// Takes the text of a listing apart.
    ///
    /// # Errors
    /// It is none of one set.
    pub fn of(text: &'t str) -> Result<Listing<'t>, String> {
        /// Elements begin a line.
        const ELEMENTS: &str = "\telements = {";
        let mut body = text.trim_end();
        // Table and set end with a brace each.
        for _ in 0..2 {
            let ended = body.strip_suffix('}').map(str::trim_end);
            body = ended.ok_or("the text is no listing of a set")?;
        }
        match body.split_once(ELEMENTS) {
            None => Ok(Listing { head: body, elements: "" }),
            Some((head, elements)) => {
                let elements = elements.trim_end().strip_suffix('}');
                let elements = elements.ok_or("the listing of a set is cut off")?;
                Ok(Listing { head, elements })
            }
        }
    }

    /// Whether rules may change the set.
    pub fn is_dynamic(&self) -> bool {
        self.has("dynamic")
    }

    /// Whether elements may have timeouts.
    pub fn has_timeouts(&self) -> bool {
        self.has("timeout") || self.timeout().is_some()
    }

    /// The timeout of elements that do not say another one.
    pub fn timeout(&self) -> Option<Duration> {
        self.line("timeout ").and_then(duration)
    }

    /// The type of its keys, and that of its data, as in `ipv4_addr : verdict`; `None` where the set
    /// was made by `typeof`.
    pub fn key_type(&self) -> Option<&'t str> {
        self.line("type ")
    }

    /// Whether it has a flag.
    pub fn has(&self, flag: &str) -> bool {
        self.line("flags ").is_some_and(|flags| flags.split(',').any(|word| word.trim() == flag))
    }

    fn line(&self, word: &str) -> Option<&'t str> {
        self.head.lines().find_map(|line| line.trim().strip_prefix(word)).map(str::trim)
    }

    /// The texts of its elements.
    pub fn elements(&self) -> impl Iterator<Item = &'t str> {
        let texts = self.elements.lines().flat_map(parts).map(str::trim);
        texts.filter(|text| !text.is_empty())
    }

    /// What lasts of each element.
    pub fn lasting(&self) -> impl Iterator<Item = String> {
        self.elements().map(lasting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_taken_apart() {
        let text = "table inet t {\n\tset s {\n\t\ttype ipv4_addr\n\t\tflags interval,timeout\n\
                    \t\ttimeout 1h\n\t\tcomment \"elements = { 1 }\"\n\
                    \t\telements = { 198.18.0.1 counter packets 1 bytes 2 timeout 2h expires 59m58s,\n\
                    \t\t\t     198.18.1.0/24 expires 1m comment \"a, } b\", 198.18.2.1-198.18.2.9 }\n\t}\n}\n";
        let listing = Listing::of(text).expect("a listing");
        let all =
            ["198.18.0.1 timeout 2h", "198.18.1.0/24 comment \"a, } b\"", "198.18.2.1-198.18.2.9"];
        assert_eq!(listing.lasting().collect::<Vec<_>>(), all);
        assert_eq!(listing.elements().nth(1), Some("198.18.1.0/24 expires 1m comment \"a, } b\""));
        assert_eq!(listing.key_type(), Some("ipv4_addr"));
        assert_eq!(listing.timeout(), Some(Duration::from_secs(3600)));
        assert!(listing.has_timeouts() && !listing.is_dynamic());

        let empty = "table ip t {\n\tset s {\n\t\ttype ipv4_addr\n\t\tflags dynamic\n\t}\n}\n";
        let listing = Listing::of(empty).expect("a listing");
        assert_eq!((listing.lasting().count(), listing.is_dynamic()), (0, true));
        assert!(!listing.has_timeouts());
        for text in ["", "table ip t {", "}", &text[..200]] {
            assert!(Listing::of(text).is_err(), "{text}");
        }
    }
}
