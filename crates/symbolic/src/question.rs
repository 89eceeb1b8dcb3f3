// SPDX-License-Identifier: Apache-2.0

//! What operations ask the outside of: routes, sockets, policies, options of the packet.

use penstock_program::expr::{FIB_PRESENT, FibResult};
use penstock_program::op::Op;

/// A question, and where its answer goes.
pub(crate) struct Question {
    /// The same for operations that ask the same.
    pub text: String,
    /// The first slot of the answer.
    pub dst: u8,
    /// Bytes of the answer.
    pub bytes: u8,
}

impl Question {
    /// What an operation asks; `None` if it looks at nothing but the packet and the ruleset.
    pub fn of(op: &Op) -> Option<Question> {
        let (text, dst, bytes) = match op {
            Op::Fib { result, flags, dst } => {
                let bytes = match result {
                    _ if u32::from(*flags) & FIB_PRESENT != 0 => 1,
                    FibResult::Oif | FibResult::AddrType => 4,
                    FibResult::OifName => 16,
                };
                (format!("fib {result:?} {flags}"), dst, bytes)
            }
            Op::Rt { key, dst } => (format!("rt {key:?}"), dst, key.width()),
            Op::Socket { key, level, dst } => (format!("socket {key:?} {level}"), dst, key.width()),
            Op::Osf { ttl, version, dst, .. } => (format!("osf {ttl} {version}"), dst, 16),
            Op::Xfrm { key, out, spnum, dst } => {
                (format!("ipsec {key:?} {out} {spnum}"), dst, key.width())
            }
            Op::Tunnel { key, dst } => (format!("tunnel {key:?}"), dst, key.width()),
            _ => return None,
        };
        Some(Question { text, dst: *dst, bytes: bytes as u8 })
    }

    /// Whether the packet has a TCP option: the text of the question.
    pub fn tcp_option(kind: u8) -> String {
        format!("tcp option {kind}")
    }
}
