// SPDX-License-Identifier: Apache-2.0

//! TCP options (`net/netfilter/xt_tcpudp.c`, `xt_tcpmss.c`, `xt_TCPMSS.c`, `xt_TCPOPTSTRIP.c`).

use penstock_packet::Packet;
use penstock_wire::tcp::{LEN, option as kind};
use penstock_wire::{checksum, ethernet, ipv4, ipv6};

use super::{HOTDROP, Step};
use crate::Env;
use crate::op::SegmentSize;

/// Bytes of the option of the maximum segment size.
const MSS_LEN: usize = 4;
/// Where the checksum is in a TCP header, and the data offset with its word.
const CHECKSUM: usize = 16;
const DATA_OFFSET: usize = 12;
/// Bytes of the longest header.
const LONGEST: usize = 60;

/// Bytes of a header by its data offset; `None` if they are fewer than 20.
fn header_len(segment: &[u8]) -> Option<usize> {
    let len = usize::from(segment.get(DATA_OFFSET)? >> 4) * 4;
    (len >= LEN).then_some(len)
}

/// The options of a segment; `None` if the header is malformed or not all there.
fn options(segment: &[u8]) -> Option<&[u8]> {
    segment.get(LEN..header_len(segment)?)
}

/// Bytes to the next option, for walks that end with the options.
fn step(options: &[u8], at: usize) -> usize {
    match (options[at], options.get(at + 1)) {
        (kind::END | kind::NOP, _) | (_, None | Some(0)) => 1,
        (_, Some(len)) => usize::from(*len),
    }
}

/// Whether an option is there, also if only its first byte is (`tcp_find_option()`).
pub(super) fn option(wanted: u8, inverted: bool, packet: &Packet) -> Step {
    let Some(options) = packet.transport_bytes().and_then(options) else { return HOTDROP };
    let mut at = 0;
    while at < options.len() {
        if options[at] == wanted {
            return Step::unless(inverted);
        }
        at += step(options, at);
    }
    Step::unless(!inverted)
}

pub(super) fn segment_size(range: [u16; 2], inverted: bool, packet: &Packet) -> Step {
    let Some(options) = packet.transport_bytes_of_fragment().and_then(options) else {
        return HOTDROP;
    };
    let mut at = 0;
    while at < options.len() {
        if let Some([kind::MSS, 4, high, low]) = options[at..].first_chunk() {
            let size = u16::from_be_bytes([*high, *low]);
            return Step::unless((range[0]..=range[1]).contains(&size) == inverted);
        }
        at += step(options, at);
    }
    Step::unless(!inverted)
}

/// `tcpmss_mangle_packet()`. Sizes are never raised. An option is added to segments without data
/// that have room for it in their header.
pub(super) fn set_segment_size<E: Env>(
    size: SegmentSize,
    packet: &mut Packet,
    env: &mut E,
) -> Step {
    let Some(transport) = packet.transport() else { return HOTDROP };
    if transport.fragment_offset != 0 {
        return Step::Next;
    }
    let v4 = packet.meta.protocol == ethernet::IPV4;
    let segment = packet.transport_bytes().unwrap_or_default();
    let (len, header) = (segment.len(), header_len(segment));
    let Some(header) = header.filter(|header| *header <= len) else { return HOTDROP };
    let size = match size {
        SegmentSize::Fixed(size) => size,
        SegmentSize::PathMtu => match path_size(v4, packet, env) {
            Some(size) => size,
            None => return HOTDROP,
        },
    };
    let segment = packet.transport_bytes_mut().unwrap_or_default();
    let mut at = LEN;
    while at + MSS_LEN <= header {
        if let Some([kind::MSS, 4, high, low]) = segment[at..].first_chunk_mut() {
            let old = u16::from_be_bytes([*high, *low]);
            if old > size {
                [*high, *low] = size.to_be_bytes();
                replace2(segment, old, size);
            }
            return Step::Next;
        }
        at += step(&segment[..header], at);
    }
    if len > header || header + MSS_LEN > LONGEST {
        return Step::Next;
    }
    // RFC 9293, 3.7.1: what a host assumes that is told no size.
    let size = size.min(if v4 { 536 } else { 1220 });
    add_option(size, v4, usize::from(transport.offset), packet);
    Step::Next
}

/// What fits both ways; `None` if nothing does.
fn path_size<E: Env>(v4: bool, packet: &Packet, env: &mut E) -> Option<u16> {
    let route = env.route(packet)?;
    let mtu = route.reverse_mtu.map_or(route.mtu, |back| back.min(route.mtu));
    let headers = LEN + if v4 { ipv4::LEN } else { ipv6::LEN };
    let size = mtu.checked_sub(headers as u32).filter(|size| *size > 0)?;
    Some(size as u16)
}

/// Brings the checksum of a segment up to date after a word of it has changed.
fn replace2(segment: &mut [u8], old: u16, new: u16) {
    if let Some([high, low]) = segment.get_mut(CHECKSUM..CHECKSUM + 2) {
        let check = u16::from_be_bytes([*high, *low]);
        [*high, *low] = checksum::replace2(check, old, new).to_be_bytes();
    }
}

/// Puts the option of the maximum segment size before all others.
fn add_option(size: u16, v4: bool, transport: usize, packet: &mut Packet) {
    let [high, low] = size.to_be_bytes();
    let added = [kind::MSS, MSS_LEN as u8, high, low];
    let len = packet.transport_bytes().unwrap_or_default().len();
    if !packet.splice_network(transport + LEN, 0, &added) {
        return;
    }
    let segment = packet.transport_bytes_mut().unwrap_or_default();
    // The pseudo header, the option, the data offset.
    replace2(segment, len as u16, (len + MSS_LEN) as u16);
    replace2(segment, 0, u16::from_be_bytes([added[0], added[1]]));
    replace2(segment, 0, size);
    if let Some([offset, flags]) = segment.get_mut(DATA_OFFSET..DATA_OFFSET + 2) {
        let old = u16::from_be_bytes([*offset, *flags]);
        *offset += (MSS_LEN as u8 / 4) << 4;
        let new = u16::from_be_bytes([*offset, *flags]);
        replace2(segment, old, new);
    }
    let network = packet.network_mut();
    let at = if v4 { 2 } else { 4 };
    let Some([high, low]) = network.get_mut(at..at + 2) else { return };
    let old = u16::from_be_bytes([*high, *low]);
    let new = old.wrapping_add(MSS_LEN as u16);
    [*high, *low] = new.to_be_bytes();
    if v4 && let Some([high, low]) = network.get_mut(10..12) {
        let check = checksum::replace2(u16::from_be_bytes([*high, *low]), old, new);
        [*high, *low] = check.to_be_bytes();
    }
}

/// `tcpoptstrip_mangle_packet()`.
pub(super) fn strip_options(wanted: &[u32; 8], packet: &mut Packet) -> Step {
    let Some(transport) = packet.transport() else { return HOTDROP };
    if transport.fragment_offset != 0 {
        return Step::Next;
    }
    let Some(segment) = packet.transport_bytes_mut() else { return HOTDROP };
    let Some(header) = header_len(segment).filter(|header| *header <= segment.len()) else {
        return HOTDROP;
    };
    let mut at = LEN;
    while at + 1 < header {
        let (option, len) = (segment[at], step(&segment[..header], at));
        if at + len > header {
            break;
        }
        if wanted[usize::from(option / 32)] & 1 << (option % 32) != 0 {
            for place in at..at + len {
                let word = |byte: u8| u16::from(byte) << if place % 2 == 0 { 8 } else { 0 };
                let old = segment[place];
                segment[place] = kind::NOP;
                replace2(segment, word(old), word(kind::NOP));
            }
        }
        at += len;
    }
    Step::Next
}
