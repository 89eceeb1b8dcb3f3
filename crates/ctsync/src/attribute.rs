// SPDX-License-Identifier: Apache-2.0

//! Attributes of messages: a length with its header and without padding, a type, the contents, and
//! padding up to four bytes (`struct netattr`); numbers are in network order.

use penstock_conntrack::Tuple;
use penstock_conntrack::tuple::{IPV4, IPV6};

use crate::message::Malformed;

/// Bytes of an attribute's header.
const HEADER: usize = 4;

/// Reads attributes one by one: type and contents.
pub(crate) fn each<'a>(
    body: &'a [u8],
    mut take: impl FnMut(u16, &'a [u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut rest = body;
    // conntrackd stops at what is no longer than a header.
    while rest.len() > HEADER {
        let [l0, l1, k0, k1] = *rest.first_chunk().ok_or(Malformed::Payload)?;
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        let contents = rest.get(HEADER..len).ok_or(Malformed::Payload)?;
        take(u16::from_be_bytes([k0, k1]), contents)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(())
}

/// Appends an attribute.
pub(crate) fn put(to: &mut Vec<u8>, kind: u16, contents: &[u8]) {
    let len = u16::try_from(HEADER + contents.len()).unwrap_or(u16::MAX);
    to.extend(len.to_be_bytes());
    to.extend(kind.to_be_bytes());
    to.extend(contents);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// Appends a text with a zero at its end.
pub(crate) fn put_text(to: &mut Vec<u8>, kind: u16, text: &str) {
    put(to, kind, &[text.as_bytes(), &[0]].concat());
}

/// Contents of one length.
pub(crate) fn fixed<const N: usize>(contents: &[u8]) -> Result<[u8; N], Malformed> {
    contents.try_into().map_err(|_| Malformed::Payload)
}

pub(crate) fn u8(contents: &[u8]) -> Result<u8, Malformed> {
    fixed::<1>(contents).map(|[byte]| byte)
}

pub(crate) fn be16(contents: &[u8]) -> Result<u16, Malformed> {
    fixed(contents).map(u16::from_be_bytes)
}

pub(crate) fn be32(contents: &[u8]) -> Result<u32, Malformed> {
    fixed(contents).map(u32::from_be_bytes)
}

/// Several numbers.
pub(crate) fn be32s<const N: usize>(contents: &[u8]) -> Result<[u32; N], Malformed> {
    let (words, []) = contents.as_chunks::<4>() else { return Err(Malformed::Payload) };
    let words: &[[u8; 4]; N] = words.try_into().map_err(|_| Malformed::Payload)?;
    Ok(words.map(u32::from_be_bytes))
}

/// A text of so many bytes at most, with the zero at its end; what follows the zero does not count.
pub(crate) fn text(contents: &[u8], most: usize) -> Result<Box<str>, Malformed> {
    if contents.len() > most {
        return Err(Malformed::Payload);
    }
    let end = contents.iter().position(|byte| *byte == 0).ok_or(Malformed::Payload)?;
    let text = contents.get(..end).and_then(|text| std::str::from_utf8(text).ok());
    text.map(Into::into).ok_or(Malformed::Payload)
}

/// Addresses of a tuple (`struct nfct_attr_grp_ipv4`, `struct nfct_attr_grp_ipv6`): source, then
/// destination.
pub(crate) fn read_addresses(tuple: &mut Tuple, l3: u8, contents: &[u8]) -> Result<(), Malformed> {
    let len = if l3 == IPV4 { 4 } else { 16 };
    if contents.len() != 2 * len {
        return Err(Malformed::Payload);
    }
    let (src, dst) = contents.split_at(len);
    (tuple.src, tuple.dst, tuple.l3) = ([0; 16], [0; 16], l3);
    tuple.src[..len].copy_from_slice(src);
    tuple.dst[..len].copy_from_slice(dst);
    Ok(())
}

/// Appends the addresses of a tuple: `kinds` are the types of those of IPv4 and of IPv6.
pub(crate) fn put_addresses(to: &mut Vec<u8>, kinds: [u16; 2], tuple: &Tuple) {
    let (kind, len) = match tuple.l3 {
        IPV6 => (kinds[1], 16),
        _ => (kinds[0], 4),
    };
    put(to, kind, &[&tuple.src[..len], &tuple.dst[..len]].concat());
}

/// Ports of a tuple (`struct nfct_attr_grp_port`).
pub(crate) fn read_ports(tuple: &mut Tuple, contents: &[u8]) -> Result<(), Malformed> {
    let [s0, s1, d0, d1] = fixed(contents)?;
    tuple.src_id = u16::from_be_bytes([s0, s1]);
    tuple.dst_id = u16::from_be_bytes([d0, d1]);
    Ok(())
}

/// Appends the ports of a tuple.
pub(crate) fn put_ports(to: &mut Vec<u8>, kind: u16, tuple: &Tuple) {
    put(to, kind, &[tuple.src_id.to_be_bytes(), tuple.dst_id.to_be_bytes()].concat());
}
