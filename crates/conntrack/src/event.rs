// SPDX-License-Identifier: Apache-2.0

//! Bits of event masks (`IPCT_*`), as `ct event set` has them.

/// Entered into the table.
pub const NEW: u16 = 1;
/// Entered, and expected by another connection.
pub const RELATED: u16 = 1 << 1;
/// Ended.
pub const DESTROY: u16 = 1 << 2;
/// First packet in the reply direction.
pub const REPLY: u16 = 1 << 3;
/// Is no longer dropped early.
pub const ASSURED: u16 = 1 << 4;
/// The protocol's state changed.
pub const PROTOINFO: u16 = 1 << 5;
/// Got a helper.
pub const HELPER: u16 = 1 << 6;
/// The mark changed.
pub const MARK: u16 = 1 << 7;
/// Text was rewritten.
pub const SEQADJ: u16 = 1 << 8;
/// The security mark changed.
pub const SECMARK: u16 = 1 << 9;
/// Labels changed.
pub const LABEL: u16 = 1 << 10;
