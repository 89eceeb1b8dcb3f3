// SPDX-License-Identifier: Apache-2.0

//! Messages of NETLINK_NETFILTER by hand: attributes and requests as programs send them
//! (`linux/netlink.h`, `linux/netfilter/nfnetlink.h`). Numbers of headers are in the machine's byte
//! order.

/// The sequence number of all requests.
pub const SEQUENCE: u32 = 7;

/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NFNL_MSG_BATCH_BEGIN`, `NFNL_MSG_BATCH_END`, and the subsystem that batches are for.
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;
const NF_TABLES: u16 = 10;

/// An attribute, with what fills it up to a multiple of four bytes.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((value.len() as u16 + 4).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// An attribute of attributes (`NLA_F_NESTED`).
pub fn nested(kind: u16, inside: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | 0x8000, &inside.concat())
}

/// An attribute with a number in network byte order.
pub fn be32(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

/// A request of a type (subsystem and message), with flags besides `NLM_F_REQUEST`.
pub fn message(kind: u16, flags: u16, family: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    let body = attributes.concat();
    let resource = if matches!(kind, BEGIN | END) { NF_TABLES } else { 0 };
    let mut bytes = (20 + body.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | REQUEST).to_ne_bytes());
    bytes.extend(SEQUENCE.to_ne_bytes());
    bytes.extend(0u32.to_ne_bytes());
    bytes.extend([family, 0]);
    bytes.extend(resource.to_be_bytes());
    bytes.extend(body);
    bytes
}
