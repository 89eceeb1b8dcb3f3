// SPDX-License-Identifier: Apache-2.0

//! Attributes (`struct nlattr`), read where they lie.

use super::failure::{Failure, Located};
use super::policy::{Policy, be32, check};
use super::{align, u16_at};

/// Bytes of a `struct nlattr`.
const HEADER: usize = 4;
/// `NLA_TYPE_MASK`: without `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
const TYPE_MASK: u16 = 0x3fff;
/// More than the largest number of an attribute that is asked for.
const NUMBERS: usize = 32;

/// One attribute.
#[derive(Clone, Copy, Debug)]
pub struct Attribute<'a> {
    /// Its number, without flags.
    pub kind: u16,
    /// Its value, without padding.
    pub payload: &'a [u8],
    /// Offset of its header from the `struct nlmsghdr`, as errors have it.
    pub at: usize,
}

impl Located for Attribute<'_> {
    fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Attribute<'a> {
    /// The first byte; 0 of an empty one.
    pub fn u8(&self) -> u8 {
        self.payload.first().copied().unwrap_or(0)
    }

    /// The first two bytes, in network order; 0 if there are fewer.
    pub fn be16(&self) -> u16 {
        self.payload.first_chunk().map_or(0, |b| u16::from_be_bytes(*b))
    }

    /// The first four bytes, in network order; 0 if there are fewer.
    pub fn be32(&self) -> u32 {
        be32(self.payload)
    }

    /// The first eight bytes, in network order; 0 if there are fewer.
    pub fn be64(&self) -> u64 {
        self.payload.first_chunk().map_or(0, |b| u64::from_be_bytes(*b))
    }

    /// The text before the first zero. Names are UTF-8 here: the kernel takes any bytes.
    ///
    /// # Errors
    /// `EINVAL` for other bytes.
    pub fn text(&self) -> Result<&'a str, Failure> {
        let text = self.payload.split(|b| *b == 0).next().unwrap_or_default();
        std::str::from_utf8(text).map_err(|_| Failure::einval().blaming(self))
    }

    /// Offset of its value from the `struct nlmsghdr`.
    pub fn value_at(&self) -> usize {
        self.at + HEADER
    }

    /// Its value as attributes, checked against a policy.
    ///
    /// # Errors
    /// The first attribute that is not as the policy says.
    pub fn attributes(&self, policy: Policy) -> Result<Attributes<'a>, Failure> {
        parse(self.payload, self.value_at(), policy)
    }

    /// Its value as a list of attributes.
    pub fn each(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        each(self.payload, self.value_at())
    }

    /// The failure of a request because of this attribute.
    pub fn refused(&self, failure: impl Into<Failure>) -> Failure {
        failure.into().blaming(self)
    }
}

/// Attributes one after the other. `at` is the offset of the first one from the `struct nlmsghdr`.
/// Bytes after the last whole one are left aside, as the kernel does with old subsystems.
pub fn each<'a>(bytes: &'a [u8], at: usize) -> impl Iterator<Item = Attribute<'a>> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(offset..)?;
        if rest.len() < HEADER {
            return None;
        }
        let len = usize::from(u16_at(rest, 0));
        let payload = rest.get(HEADER..len)?;
        let attribute = Attribute { kind: u16_at(rest, 2) & TYPE_MASK, payload, at: at + offset };
        offset += align(len);
        Some(attribute)
    })
}

/// The attributes of a message or of an attribute, by number. Of several with the same number the
/// last one counts.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    found: [Option<Attribute<'a>>; NUMBERS],
}

impl<'a> Attributes<'a> {
    /// The one with a number.
    pub fn get(&self, kind: u16) -> Option<Attribute<'a>> {
        self.found.get(usize::from(kind)).copied().flatten()
    }

    /// Whether there is one with a number.
    pub fn has(&self, kind: u16) -> bool {
        self.get(kind).is_some()
    }

    /// The one with a number, which has to be there.
    ///
    /// # Errors
    /// `EINVAL`.
    pub fn need(&self, kind: u16) -> Result<Attribute<'a>, Failure> {
        self.get(kind).ok_or(Failure::einval())
    }

    /// A number in network order.
    pub fn be32(&self, kind: u16) -> Option<u32> {
        self.get(kind).map(|a| a.be32())
    }

    /// A number in network order.
    pub fn be64(&self, kind: u16) -> Option<u64> {
        self.get(kind).map(|a| a.be64())
    }
}

/// Finds attributes by number, and checks those that a policy knows; others are left aside
/// (`nla_parse_deprecated()`).
///
/// # Errors
/// The first attribute that is not as the policy says: `ERANGE` for most, `EINVAL` for a text
/// without its end.
pub fn parse<'a>(bytes: &'a [u8], at: usize, policy: Policy) -> Result<Attributes<'a>, Failure> {
    let mut found = [None; NUMBERS];
    for attribute in each(bytes, at) {
        check(attribute.kind, attribute.payload, policy)
            .map_err(|errno| attribute.refused(errno))?;
        if let Some(place) = found.get_mut(usize::from(attribute.kind)) {
            *place = Some(attribute);
        }
    }
    Ok(Attributes { found })
}
