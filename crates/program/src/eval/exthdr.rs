// SPDX-License-Identifier: Apache-2.0

//! Options and extension headers (`net/netfilter/nft_exthdr.c`).

use penstock_packet::Packet;
use penstock_wire::ethernet;
use penstock_wire::ipv6_ext::{self, Walk};
use penstock_wire::{checksum, dccp, ipv4_options, protocol, sctp, tcp};

use super::Step;
use super::registers::Registers;
use crate::operand::ExthdrOp;

/// `len` bytes at `offset` of the header, option or chunk `kind`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub kind: u8,
    pub offset: u8,
    pub len: u8,
}

impl Wanted {
    /// Its bytes, where the header starts at `at`.
    fn of<'a>(&self, bytes: &'a [u8], at: usize) -> Option<&'a [u8]> {
        let start = at + usize::from(self.offset);
        bytes.get(start..start + usize::from(self.len))
    }
}

#[inline(never)]
pub(super) fn load(
    op: ExthdrOp,
    wanted: Wanted,
    present: bool,
    dst: u8,
    registers: &mut Registers,
    packet: &Packet,
) -> Step {
    // Headers of a family that the packet is not of break also for `present`.
    let (there, bytes) = match op {
        ExthdrOp::Ipv6 => {
            if packet.meta.protocol != ethernet::IPV6 {
                return Step::Break;
            }
            let found = ipv6_ext::find(packet.network(), Some(wanted.kind), Walk::default());
            let at = found.ok().map(|f| f.offset);
            (at.is_some(), at.and_then(|at| wanted.of(packet.network(), at)))
        }
        ExthdrOp::Ipv4Opt => {
            if packet.meta.protocol != ethernet::IPV4 {
                return Step::Break;
            }
            // The kernel reads from the data pointer: at egress that is not the IP header.
            let header = if packet.data_start() < 0 { packet.frame() } else { packet.network() };
            let at = find_ipv4(header, wanted.kind);
            (at.is_some(), at.and_then(|at| wanted.of(header, at)))
        }
        ExthdrOp::TcpOpt => match tcp_header(packet).and_then(|header| find_tcp(header, wanted)) {
            Some(bytes) => (true, Some(bytes)),
            None => (false, None),
        },
        ExthdrOp::Sctp => find_sctp(packet, wanted),
        ExthdrOp::Dccp => (has_dccp(packet, wanted.kind), None),
    };
    if present {
        registers.set_u8(dst, there.into());
        return Step::Next;
    }
    match bytes {
        Some(bytes) => {
            registers.set(dst, bytes);
            Step::Next
        }
        None => Step::Break,
    }
}

/// Where an IPv4 option is; none is found among malformed ones (`ipv4_find_option()`).
fn find_ipv4(network: &[u8], kind: u8) -> Option<usize> {
    let len = usize::from(network.first()? & 0xf) * 4;
    let options = network.get(20..len)?;
    ipv4_options::check_copy(options).ok()?.find(kind)
}

/// The whole TCP header of a first fragment (`nft_tcp_header_pointer()`).
fn tcp_header(packet: &Packet) -> Option<&[u8]> {
    let transport = packet.transport()?;
    if transport.protocol != protocol::TCP {
        return None;
    }
    tcp::header_of(packet.transport_bytes()?)
}

/// The first option of a kind; `None` also if it is cut or does not have the bytes.
fn find_tcp(header: &[u8], wanted: Wanted) -> Option<&[u8]> {
    let option = tcp::options(header).find(|o| o.kind == wanted.kind)?;
    if option.offset + option.len > header.len()
        || usize::from(wanted.len) + usize::from(wanted.offset) > option.len
    {
        return None;
    }
    wanted.of(header, option.offset)
}

/// Whether a chunk is there, and its bytes. Later fragments are read, too, as if they began with
/// the common header (`nft_exthdr_sctp_eval()`).
fn find_sctp(packet: &Packet, wanted: Wanted) -> (bool, Option<&[u8]>) {
    let Some(bytes) = packet.transport_bytes_of_fragment().filter(|_| is(packet, protocol::SCTP))
    else {
        return (false, None);
    };
    let header = sctp::Header::new(bytes);
    let Some(chunk) = header.and_then(|h| h.chunks().find(|c| c.kind == wanted.kind)) else {
        return (false, None);
    };
    let length = usize::from(chunk.length);
    let inside = usize::from(wanted.offset) + usize::from(wanted.len) <= length
        && chunk.offset + length <= bytes.len();
    (true, if inside { wanted.of(bytes, chunk.offset) } else { None })
}

/// Whether an option is present: the kernel supports nothing else for DCCP.
fn has_dccp(packet: &Packet, kind: u8) -> bool {
    let bytes = packet.transport_bytes().filter(|_| is(packet, protocol::DCCP));
    bytes.and_then(dccp::Header::new).is_some_and(|h| h.has_option(kind))
}

fn is(packet: &Packet, protocol: u8) -> bool {
    packet.transport().is_some_and(|t| t.protocol == protocol)
}

/// Writes bytes of a TCP option (`nft_exthdr_tcp_set_eval()`). A segment size is never raised: that
/// could stall the connection. Without the option there is nothing to do.
#[inline(never)]
pub(super) fn set(wanted: Wanted, new: &[u8], packet: &mut Packet) -> Step {
    let Some(header) = tcp_header(packet) else { return Step::Break };
    let Some(option) = tcp::options(header).find(|o| o.kind == wanted.kind) else {
        return Step::Next;
    };
    let Some(old) = find_tcp(header, wanted) else { return Step::Break };
    let check = u16::from_be_bytes([header[16], header[17]]);
    let check = match (old, new) {
        ([a, b], [c, d]) => {
            let (old, new) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
            if old == new || wanted.kind == tcp::option::MSS && old < new {
                return Step::Next;
            }
            checksum::replace2(check, old, new)
        }
        ([a, b, c, d], [e, f, g, h]) => {
            let (old, new) =
                (u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h]));
            if old == new {
                return Step::Next;
            }
            checksum::replace4(check, old, new)
        }
        // Linking lets no other length through.
        _ => return Step::Next,
    };
    let at = option.offset + usize::from(wanted.offset);
    Step::found(packet.transport_bytes_mut().and_then(|segment| {
        segment.get_mut(at..at + new.len())?.copy_from_slice(new);
        segment.get_mut(16..18)?.copy_from_slice(&check.to_be_bytes());
        Some(())
    }))
}

/// Overwrites a TCP option with no-operations (`nft_exthdr_tcp_strip_eval()`). An option that is
/// cut cannot be removed: the packet is dropped.
#[inline(never)]
pub(super) fn reset(kind: u8, packet: &mut Packet) -> Step {
    let Some(header) = tcp_header(packet) else { return Step::Break };
    let Some(option) = tcp::options(header).find(|o| o.kind == kind) else { return Step::Next };
    let Some(old) = header.get(option.offset..option.offset + option.len) else {
        return Step::Drop;
    };
    let mut check = u16::from_be_bytes([header[16], header[17]]);
    for (at, byte) in (option.offset..).zip(old) {
        let place = |byte: u8| if at % 2 == 0 { u16::from(byte) << 8 } else { u16::from(byte) };
        check = checksum::replace2(check, place(*byte), place(tcp::option::NOP));
    }
    let Some(segment) = packet.transport_bytes_mut() else { return Step::Break };
    segment[option.offset..option.offset + option.len].fill(tcp::option::NOP);
    segment[16..18].copy_from_slice(&check.to_be_bytes());
    Step::Next
}
