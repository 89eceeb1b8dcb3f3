// SPDX-License-Identifier: Apache-2.0

//! What programs read of extension headers of IPv6 and of options of TCP.

use penstock_program::expr::ExthdrOp;
use penstock_program::op::Op;

/// What is loaded of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Extension {
    pub(super) kind: u8,
    pub(super) offset: u8,
    pub(super) len: u8,
    /// 1 or 0 for there or not, in place of its bytes.
    pub(super) present: bool,
}

impl Extension {
    /// What an expression loads, if it is that.
    pub(super) fn of(op: &Op) -> Option<Extension> {
        match op {
            Op::Exthdr { op: ExthdrOp::Ipv6, kind, offset, len, present, .. } if *len > 0 => {
                Some(Extension { kind: *kind, offset: *offset, len: *len, present: *present })
            }
            _ => None,
        }
    }

    /// Bytes that rules see.
    pub(super) fn width(self) -> u8 {
        if self.present { 1 } else { self.len }
    }
}

/// What is loaded of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TcpOption {
    pub(super) kind: u8,
    pub(super) offset: u8,
    pub(super) len: u8,
    /// 1 or 0 for there or not, in place of its bytes.
    pub(super) present: bool,
}

impl TcpOption {
    /// What an expression loads, if it is that.
    pub(super) fn of(op: &Op) -> Option<TcpOption> {
        match op {
            Op::Exthdr { op: ExthdrOp::TcpOpt, kind, offset, len, present, .. } if *len > 0 => {
                Some(TcpOption { kind: *kind, offset: *offset, len: *len, present: *present })
            }
            _ => None,
        }
    }

    /// Bytes that rules see.
    pub(super) fn width(self) -> u8 {
        if self.present { 1 } else { self.len }
    }

    /// Bytes that the option has at least.
    pub(super) fn reach(self) -> i32 {
        i32::from(self.offset) + i32::from(self.len)
    }
}
