// SPDX-License-Identifier: Apache-2.0

//! Errors and acknowledgements (`struct nlmsgerr`, `netlink_ack()`).

use penstock_ruleset::Errno;

use super::{ERROR, HEADER, Message, Writer, flags};

/// `NLMSGERR_ATTR_MSG`.
const ATTR_MSG: u16 = 1;
/// `NLMSGERR_ATTR_OFFS`.
const ATTR_OFFS: u16 = 2;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The error number, positive.
    pub errno: i32,
    /// Offset of the attribute to blame from the `struct nlmsghdr`.
    pub at: Option<usize>,
    /// The kernel's words, where it has any (`NLMSGERR_ATTR_MSG`).
    pub text: Option<&'static str>,
}

/// A part of a message that can be blamed.
pub trait Located {
    /// Its offset from the `struct nlmsghdr`.
    fn offset(&self) -> usize;
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Failure { errno: errno as i32, at: None, text: None }
    }
}

impl Failure {
    /// `EINVAL`.
    pub fn einval() -> Self {
        Errno::Einval.into()
    }

    /// `ERANGE`.
    pub fn erange() -> Self {
        Errno::Erange.into()
    }

    /// Blames an attribute, unless another one is blamed already.
    pub fn blaming(mut self, attribute: &impl Located) -> Self {
        self.at.get_or_insert(attribute.offset());
        self
    }

    /// Blames an attribute, whatever was blamed before.
    pub fn blaming_only(mut self, attribute: &impl Located) -> Self {
        self.at = Some(attribute.offset());
        self
    }

    /// Blames nothing.
    pub fn blaming_nothing(mut self) -> Self {
        self.at = None;
        self
    }
}

/// How a socket wants to be told of errors.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckOptions {
    /// `NETLINK_CAP_ACK`.
    pub cap: bool,
    /// `NETLINK_EXT_ACK`.
    pub ext: bool,
}

/// The answer to a message: an error, or success. `port` is the receiver's.
pub fn acknowledge(
    to: &Message<'_>,
    failure: Option<&Failure>,
    port: u32,
    options: AckOptions,
) -> Vec<u8> {
    let whole = failure.is_some() && !options.cap;
    let text = failure.and_then(|f| f.text).filter(|_| options.ext);
    let at = failure.and_then(|f| f.at).filter(|_| options.ext);
    let mut kinds = if whole { 0 } else { flags::CAPPED };
    if text.is_some() || at.is_some() {
        kinds |= flags::ACK_TLVS;
    }
    let mut out = Writer::default();
    let start = out.begin(ERROR, kinds, to.header.sequence, port);
    out.raw(&(-failure.map_or(0, |f| f.errno)).to_ne_bytes());
    out.raw(to.bytes.get(..if whole { to.bytes.len() } else { HEADER }).unwrap_or(to.bytes));
    if whole {
        out.pad();
    }
    if let Some(text) = text {
        out.string(ATTR_MSG, text);
    }
    if let Some(at) = at {
        out.attribute(ATTR_OFFS, &(at as u32).to_ne_bytes());
    }
    out.end(start);
    out.finish()
}
