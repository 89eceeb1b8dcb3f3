// SPDX-License-Identifier: Apache-2.0

//! Who gets a packet where a device has packet sockets and the program of flows at tcx: sockets see
//! packets before tcx, so their filter decides, by the same rules as the program, and notes the
//! result for it. Both run on one processor, one directly after the other.
//!
//! The filter lets a packet of a flow not through to the sockets, and any other one it does, which
//! it notes: that packet the program leaves alone, even if it has become one of a flow meanwhile.
//! Without a socket, nothing is noted, and the program decides for itself.

use std::sync::Arc;

use penstock_bpf::Map;
use penstock_bpf::asm::{Alu, Asm, AsmError, Code, Cond, Helper, Label, Reg::*, Width};
use penstock_wire::ethernet::Mac;
use penstock_wire::{ethernet, protocol, tcp};

use super::Flows;
use super::code::*;
use super::layout::*;
use super::skb::*;

/// A socket has the packet.
const TAKEN: i32 = 1;
/// All of a packet, as the result of a filter.
const ALL: i32 = -1;

// The stack frame: key, headers as they are read, the key of the map of claims.
const KEY: i16 = -48;
const HEADERS: i16 = -96;
const ZERO: i16 = -104;
/// The packet's length, eight bytes.
const LENGTH: i16 = -112;

/// Reads, and takes away, the word about the packet: to `taken` if a socket has it. The key of the
/// map is at `zero`.
pub(super) fn take(asm: &mut Asm, claims: &Arc<Map>, zero: i16, taken: Label, impossible: Label) {
    asm.mov(R2, R10);
    asm.alu(Alu::Add, R2, i32::from(zero));
    asm.map(R1, claims);
    asm.call(Helper::MapLookup);
    asm.jump_if(Cond::Eq, R0, 0, impossible);
    asm.load(Width::D, R1, R0, 0);
    asm.store(Width::D, R0, 0, 0);
    asm.jump_if(Cond::Eq, R1, TAKEN, taken);
}

/// The filter: 0 for packets that the program at tcx will forward.
pub(super) fn filter(
    flows: &Flows,
    claims: &Arc<Map>,
    address: Option<Mac>,
) -> Result<Code, AsmError> {
    let mut asm = Asm::new();
    let (socket, v6) = (asm.label(), asm.label());
    asm.mov(R6, R1);
    if address.is_some() {
        asm.load(Width::W, R2, R6, SKB_PKT_TYPE);
        asm.jump_if(Cond::Ne, R2, 0, socket);
    }
    tag_of_skb(&mut asm, R6, R7, R2);
    asm.load(Width::W, R2, R6, SKB_PROTOCOL);
    asm.jump_if(Cond::Eq, R2, raw(ethernet::IPV6), v6);
    asm.jump_if(Cond::Ne, R2, raw(ethernet::IPV4), socket);
    ipv4(&mut asm, flows, socket);
    asm.bind(v6);
    ipv6(&mut asm, flows, socket);
    asm.bind(socket);
    asm.store(Width::W, R10, ZERO, 0);
    asm.mov(R2, R10);
    asm.alu(Alu::Add, R2, i32::from(ZERO));
    asm.map(R1, claims);
    asm.call(Helper::MapLookup);
    let out = asm.label();
    asm.jump_if(Cond::Eq, R0, 0, out);
    asm.store(Width::D, R0, 0, TAKEN);
    asm.bind(out);
    asm.exit_with(ALL);
    asm.finish()
}

/// [`HEADERS`] = `len` bytes of the packet from `offset` on; jumps to `missing` if the packet is
/// shorter.
fn read(asm: &mut Asm, offset: i32, len: i32, missing: Label) {
    asm.mov(R1, R6);
    asm.mov(R2, offset);
    asm.mov(R3, R10);
    asm.alu(Alu::Add, R3, i32::from(HEADERS));
    asm.mov(R4, len);
    asm.call(Helper::SkbLoadBytes);
    asm.jump_if(Cond::Ne, R0, 0, missing);
}

fn ipv4(asm: &mut Asm, flows: &Flows, socket: Label) {
    read(asm, ETHERNET, 28, socket);
    asm.load(Width::B, R4, R10, HEADERS);
    asm.jump_if(Cond::Ne, R4, 0x45, socket);
    asm.load(Width::H, R4, R10, HEADERS + 6);
    asm.jump_if(Cond::Set, R4, raw(0x3fff), socket);
    asm.load(Width::B, R4, R10, HEADERS + 8);
    asm.jump_if(Cond::Le, R4, 1, socket);
    asm.load(Width::H, R0, R10, HEADERS + 2);
    asm.swap(R0, 16);
    asm.store(Width::D, R10, LENGTH, R0);
    for (from, to) in [(12, key4::SRC), (16, key4::DST), (20, key4::PORTS)] {
        asm.load(Width::W, R4, R10, HEADERS + from);
        asm.store(Width::W, R10, KEY + to, R4);
    }
    asm.store(Width::W, R10, KEY + key4::TAG, R7);
    asm.store(Width::W, R10, KEY + key4::TUNNEL_SRC, 0);
    asm.store(Width::W, R10, KEY + key4::TUNNEL_DST, 0);
    asm.load(Width::W, R4, R6, SKB_DEVICE);
    asm.store(Width::W, R10, KEY + key4::DEVICE, R4);
    asm.load(Width::B, R8, R10, HEADERS + 9);
    asm.store(Width::W, R10, KEY + key4::PROTOCOL, R8);
    find(asm, &flows.v4, 20, socket);
}

fn ipv6(asm: &mut Asm, flows: &Flows, socket: Label) {
    read(asm, ETHERNET, 44, socket);
    asm.load(Width::B, R4, R10, HEADERS);
    asm.alu(Alu::Rsh, R4, 4);
    asm.jump_if(Cond::Ne, R4, 6, socket);
    asm.load(Width::B, R4, R10, HEADERS + 7);
    asm.jump_if(Cond::Le, R4, 1, socket);
    asm.load(Width::H, R0, R10, HEADERS + 4);
    asm.swap(R0, 16);
    asm.alu(Alu::Add, R0, 40);
    asm.store(Width::D, R10, LENGTH, R0);
    for at in (0..36).step_by(4) {
        asm.load(Width::W, R4, R10, HEADERS + 8 + at);
        asm.store(Width::W, R10, KEY + at, R4);
    }
    asm.store(Width::W, R10, KEY + key6::TAG, R7);
    asm.load(Width::W, R4, R6, SKB_DEVICE);
    asm.store(Width::W, R10, KEY + key6::DEVICE, R4);
    asm.load(Width::B, R8, R10, HEADERS + 6);
    asm.store(Width::W, R10, KEY + key6::PROTOCOL, R8);
    find(asm, &flows.v6, 40, socket);
}

/// The transport header (its protocol is in R8) after an IP header of `header` bytes, the flow,
/// and whether the packet fits.
fn find(asm: &mut Asm, map: &Arc<Map>, header: i32, socket: Label) {
    let (udp, known, whole, compare) = (asm.label(), asm.label(), asm.label(), asm.label());
    // R8 becomes the bytes in front of the transport's payload, R7 those that are there.
    asm.load(Width::W, R7, R6, SKB_LEN);
    asm.alu(Alu::Sub, R7, ETHERNET);
    asm.load(Width::D, R4, R10, LENGTH);
    asm.jump_if(Cond::Gt, R4, R7, socket);
    asm.jump_if(Cond::Eq, R8, i32::from(protocol::UDP), udp);
    asm.jump_if(Cond::Ne, R8, i32::from(protocol::TCP), socket);
    asm.jump_if(Cond::Lt, R4, header + 20, socket);
    // All of it has to be there.
    read(asm, ETHERNET + header, 20, socket);
    let closing = tcp::flag::FIN | tcp::flag::SYN | tcp::flag::RST;
    asm.load(Width::B, R4, R10, HEADERS + 13);
    asm.jump_if(Cond::Set, R4, i32::from(closing), socket);
    asm.load(Width::B, R8, R10, HEADERS + 12);
    asm.alu(Alu::Rsh, R8, 4);
    asm.alu(Alu::Lsh, R8, 2);
    asm.alu(Alu::Add, R8, header);
    asm.jump(known);
    asm.bind(udp);
    asm.jump_if(Cond::Lt, R4, header + 8, socket);
    // As far as the program looks.
    read(asm, ETHERNET + header, 8, socket);
    asm.mov(R8, header + 8);
    asm.bind(known);
    asm.mov(R2, R10);
    asm.alu(Alu::Add, R2, i32::from(KEY));
    asm.map(R1, map);
    asm.call(Helper::MapLookup);
    asm.jump_if(Cond::Eq, R0, 0, socket);
    asm.load(Width::H, R4, R0, value::FLAGS);
    asm.jump_if(Cond::Set, R4, i32::from(SESSION | TUNNEL), socket);
    asm.load(Width::W, R4, R0, value::HEADER_LEN);
    asm.jump_if(Cond::Gt, R4, ETHERNET + 4, socket);
    asm.load(Width::W, R5, R6, SKB_GSO_SIZE);
    asm.jump_if(Cond::Eq, R5, 0, whole);
    asm.alu(Alu::Add, R5, R8);
    asm.jump(compare);
    asm.bind(whole);
    asm.load(Width::D, R5, R10, LENGTH);
    asm.bind(compare);
    asm.load(Width::W, R4, R0, value::MTU);
    asm.jump_if(Cond::Gt, R5, R4, socket);
    asm.exit_with(0);
}
