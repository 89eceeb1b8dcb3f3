// SPDX-License-Identifier: Apache-2.0

//! What attributes have to look like (`struct nla_policy`), checked as the kernel checks those of
//! old subsystems (`nla_validate_deprecated()`): too much is no error, too little is.

use penstock_ruleset::Errno;

/// Attributes that a message may have, by number.
pub type Policy = &'static [(u16, Check)];

/// What a value has to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Anything (`NLA_UNSPEC`).
    Any,
    /// One byte at least.
    U8,
    /// Two bytes at least.
    U16,
    /// Four bytes at least.
    U32,
    /// Eight bytes at least.
    U64,
    /// A number of four bytes in network order, of at most this (`NLA_POLICY_MAX`).
    Max(u32),
    /// A text of at most so many bytes, with or without a zero at its end.
    String(usize),
    /// A text of at most so many bytes, and a zero.
    NulString(usize),
    /// At most so many bytes; 0 for any number.
    Binary(usize),
    /// So many bytes at least.
    Least(usize),
    /// Attributes, or nothing.
    Nested,
    /// It must not be there (`NLA_REJECT`).
    Reject,
}

/// Checks the value of an attribute, if the policy knows its number.
pub(super) fn check(number: u16, payload: &[u8], policy: Policy) -> Result<(), Errno> {
    let Some((_, check)) = policy.iter().find(|(kind, _)| *kind == number) else {
        return Ok(());
    };
    let len = payload.len();
    let fits = match *check {
        Check::Any => true,
        Check::U8 => len >= 1,
        Check::U16 => len >= 2,
        Check::U32 => len >= 4,
        Check::U64 => len >= 8,
        Check::Least(least) => len >= least,
        Check::Max(most) => len >= 4 && be32(payload) <= most,
        Check::Reject => return Err(Errno::Einval),
        Check::NulString(most) if !payload.iter().take(most + 1).any(|b| *b == 0) => {
            return Err(Errno::Einval);
        }
        Check::String(most) | Check::NulString(most) => {
            len >= 1 && len - usize::from(payload.last() == Some(&0)) <= most
        }
        Check::Binary(most) => most == 0 || len <= most,
        Check::Nested => len == 0 || len >= 4,
    };
    if fits { Ok(()) } else { Err(Errno::Erange) }
}

/// The first four bytes, in network order; 0 if there are fewer.
pub(super) fn be32(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |b| u32::from_be_bytes(*b))
}
