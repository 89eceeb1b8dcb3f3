// SPDX-License-Identifier: Apache-2.0

//! Status bits of a connection (`enum ip_conntrack_status`), as `ct status` shows them.

/// Another connection expected this one.
pub const EXPECTED: u32 = 1;
/// There were packets in both directions.
pub const SEEN_REPLY: u32 = 1 << 1;
/// Never dropped early.
pub const ASSURED: u32 = 1 << 2;
/// In the table: its first packet left the box.
pub const CONFIRMED: u32 = 1 << 3;
/// The source is translated.
pub const SRC_NAT: u32 = 1 << 4;
/// The destination is translated.
pub const DST_NAT: u32 = 1 << 5;
/// Either.
pub const NAT_MASK: u32 = SRC_NAT | DST_NAT;
/// Sequence numbers must be adjusted.
pub const SEQ_ADJUST: u32 = 1 << 6;
/// Source translation was decided.
pub const SRC_NAT_DONE: u32 = 1 << 7;
/// Destination translation was decided.
pub const DST_NAT_DONE: u32 = 1 << 8;
/// Both.
pub const NAT_DONE_MASK: u32 = SRC_NAT_DONE | DST_NAT_DONE;
/// Removed from the table; packets may still belong to it.
pub const DYING: u32 = 1 << 9;
/// The timeout is not renewed by packets.
pub const FIXED_TIMEOUT: u32 = 1 << 10;
/// Not a connection, but what rules request for one.
pub const TEMPLATE: u32 = 1 << 11;
/// Entered although its reply tuple was taken (`IPS_NAT_CLASH`); lives one second, never assured.
pub const NAT_CLASH: u32 = 1 << 12;
/// A rule or a template gave it its helper.
pub const HELPER: u32 = 1 << 13;
/// In a flowtable.
pub const OFFLOAD: u32 = 1 << 14;
/// In a flowtable that hardware runs.
pub const HW_OFFLOAD: u32 = 1 << 15;
