// SPDX-License-Identifier: Apache-2.0

//! Ranges of addresses: what elements of interval sets are.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The family of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4
    V4,
    /// IPv6
    V6,
}

impl Family {
    /// Bits of an address.
    pub fn bits(self) -> u8 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// The highest address.
    pub fn highest(self) -> u128 {
        u128::MAX >> (128 - u32::from(self.bits()))
    }

    /// The type of set keys that are such addresses, as nft names it.
    pub fn key_type(self) -> &'static str {
        match self {
            Family::V4 => "ipv4_addr",
            Family::V6 => "ipv6_addr",
        }
    }

    fn address(self, number: u128) -> IpAddr {
        match self {
            Family::V4 => Ipv4Addr::from(number as u32).into(),
            Family::V6 => Ipv6Addr::from(number).into(),
        }
    }
}

/// Addresses of one family from a first to a last one. IPv4 addresses are numbers below 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    family: Family,
    first: u128,
    last: u128,
}

/// A number for an address.
fn number(address: IpAddr) -> (Family, u128) {
    match address {
        IpAddr::V4(v4) => (Family::V4, u128::from(u32::from(v4))),
        IpAddr::V6(v6) => (Family::V6, u128::from(v6)),
    }
}

impl Span {
    /// From a first to a last address; `None` if the last one is before the first, or beyond the
    /// highest of the family.
    pub fn new(family: Family, first: u128, last: u128) -> Option<Span> {
        (first <= last && last <= family.highest()).then_some(Span { family, first, last })
    }

    /// The addresses of a prefix; bits of the host are ignored. `None` if it is longer than
    /// addresses are.
    pub fn prefix(address: IpAddr, length: u8) -> Option<Span> {
        let (family, number) = number(address);
        let host_bits = family.bits().checked_sub(length)?;
        let hosts = u128::MAX.checked_shr(128 - u32::from(host_bits)).unwrap_or(0);
        let (first, last) = (number & !hosts, number | hosts);
        Some(Span { family, first, last })
    }

    /// The family.
    pub fn family(self) -> Family {
        self.family
    }

    /// The first address, as a number.
    pub fn first(self) -> u128 {
        self.first
    }

    /// The last address, as a number.
    pub fn last(self) -> u128 {
        self.last
    }

    /// Whether it is one address.
    pub fn is_single(self) -> bool {
        self.first == self.last
    }

    /// Whether all addresses of another one are in it.
    pub fn contains(self, other: Span) -> bool {
        self.family == other.family && self.first <= other.first && other.last <= self.last
    }

    /// Its first address, and the length of the longest prefix that begins there and has its last
    /// address; of a prefix, it is that prefix.
    pub fn as_prefix(self) -> (IpAddr, u8) {
        let differing = 128 - (self.first ^ self.last).leading_zeros();
        (self.family.address(self.first), self.family.bits() - differing as u8)
    }

    /// The fewest prefixes that are its addresses together, in their order.
    pub fn prefixes(self) -> Vec<Span> {
        let mut all = Vec::new();
        let mut first = self.first;
        loop {
            // As large as alignment and the end allow; all of IPv6 is no number of addresses.
            let mut bits = first.trailing_zeros().min(u32::from(self.family.bits()));
            let last = loop {
                let hosts = u128::MAX.checked_shr(128 - bits).unwrap_or(0);
                match first.checked_add(hosts).filter(|last| *last <= self.last) {
                    Some(last) => break last,
                    None => bits -= 1,
                }
            };
            all.push(Span { family: self.family, first, last });
            match last.checked_add(1) {
                Some(next) if next <= self.last => first = next,
                _ => return all,
            }
        }
    }

    /// The length of the prefix that it is, if it is one.
    pub fn prefix_length(self) -> Option<u8> {
        let hosts = self.first ^ self.last;
        let host_bits = 128 - hosts.leading_zeros();
        let full = u128::MAX.checked_shr(128 - host_bits).unwrap_or(0);
        (hosts == full && self.first & full == 0).then(|| self.family.bits() - host_bits as u8)
    }
}

impl fmt::Display for Span {
    /// As nft writes elements: an address, a prefix, or a range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.family.address(self.first);
        match self.prefix_length() {
            Some(length) if length == self.family.bits() => write!(f, "{first}"),
            Some(length) => write!(f, "{first}/{length}"),
            None => write!(f, "{first}-{}", self.family.address(self.last)),
        }
    }
}

impl FromStr for Span {
    type Err = String;

    /// Reads an address, a prefix, or a range `FIRST-LAST`.
    fn from_str(text: &str) -> Result<Span, String> {
        let address = |text: &str| {
            text.trim().parse::<IpAddr>().map_err(|_| format!("`{text}` is no address"))
        };
        if let Some((prefix, length)) = text.split_once('/') {
            let length: u8 = length
                .trim()
                .parse()
                .map_err(|_| format!("`{length}` is no length of a prefix"))?;
            return Span::prefix(address(prefix)?, length)
                .ok_or_else(|| format!("a prefix of {length} bits is too long for `{prefix}`"));
        }
        if let Some((first, last)) = text.split_once('-') {
            let ((family, first), (other, last)) =
                (number(address(first)?), number(address(last)?));
            if family != other {
                return Err(format!("`{text}` begins and ends in different families"));
            }
            return Span::new(family, first, last)
                .ok_or_else(|| format!("`{text}` ends before it begins"));
        }
        let (family, first) = number(address(text)?);
        Ok(Span { family, first, last: first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_prefixes_together() {
        for (text, expected) in [
            ("198.18.0.1-198.18.0.6", "198.18.0.1 198.18.0.2/31 198.18.0.4/31 198.18.0.6"),
            ("198.18.0.0/24", "198.18.0.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("::-::2", "::/127 ::2"),
            ("255.255.255.254-255.255.255.255", "255.255.255.254/31"),
        ] {
            let prefixes = text.parse::<Span>().unwrap().prefixes();
            let all: Vec<String> = prefixes.iter().map(Span::to_string).collect();
            assert_eq!(all.join(" "), expected, "{text}");
        }
        let (network, length) = "198.18.0.0/24".parse::<Span>().unwrap().as_prefix();
        assert_eq!(format!("{network}/{length}"), "198.18.0.0/24");
    }

    #[test]
    fn spans_are_read_and_written_as_elements_are() {
        for (text, expected) in [
            ("198.18.0.1", "198.18.0.1"),
            ("198.18.0.1/32", "198.18.0.1"),
            ("198.18.0.77/24", "198.18.0.0/24"),
            ("198.18.0.0-198.18.0.255", "198.18.0.0/24"),
            ("198.18.0.1 - 198.18.0.2", "198.18.0.1-198.18.0.2"),
            ("198.18.0.2-198.18.0.3", "198.18.0.2/31"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("2001:DB8::1", "2001:db8::1"),
            ("2001:db8::1-2001:db8::ffff", "2001:db8::1-2001:db8::ffff"),
        ] {
            assert_eq!(text.parse::<Span>().map(|s| s.to_string()), Ok(expected.into()), "{text}");
        }
        for (text, message) in [
            ("198.18.0", "`198.18.0` is no address"),
            ("198.18.0.1/33", "a prefix of 33 bits is too long for `198.18.0.1`"),
            ("198.18.0.1/-1", "`-1` is no length of a prefix"),
            ("198.18.0.9-198.18.0.1", "`198.18.0.9-198.18.0.1` ends before it begins"),
            ("198.18.0.9-::1", "`198.18.0.9-::1` begins and ends in different families"),
            ("", "`` is no address"),
        ] {
            assert_eq!(text.parse::<Span>(), Err(message.to_owned()), "{text}");
        }
    }
}
