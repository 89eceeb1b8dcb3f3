// SPDX-License-Identifier: Apache-2.0

//! The programs at tcx. There a packet is a `struct sk_buff`: its tag is metadata, its checksum
//! may be unfinished, and it may be larger than the MTU, to be cut on its way out.
//!
//! What a sender on the same machine may have to send again it still holds, and the packet is a
//! clone. For a program that writes into packets by itself the kernel copies all of such a packet
//! that is in one piece. So headers are made on the stack, and a helper stores them: it copies
//! nothing where the headers are the clone's own, as TCP's are.

use penstock_bpf::AttachPoint;
use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg::*, Width};
use penstock_wire::{ethernet, protocol};

use super::PEERS;
use super::claim;
use super::code::*;
use super::layout::*;
use super::skb::*;

/// Flags of `bpf_l4_csum_replace()`: the pseudo header changes; a UDP checksum of zero stays, and
/// none becomes zero.
const PSEUDO_HEADER: i32 = 1 << 4;
const MANGLED_ZERO: i32 = 1 << 5;
/// Of `bpf_skb_store_bytes()`: a sum of all bytes that the device has made follows.
const RECOMPUTE_SUM: i32 = 1;

/// As many bytes as headers take: link, IP, TCP.
const LINEAR4: i32 = ETHERNET + 20 + 20;
const LINEAR6: i32 = ETHERNET + 40 + 20;

// The stack frame, below that of `code`: a frame as it leaves, so that the packet in it begins at a
// multiple of eight.
const FRAME: i16 = PACKET - ethernet::LEN as i16;
const PACKET: i16 = -120;

impl Writer<'_> {
    /// As [`Writer::link`], at tcx.
    pub(super) fn buffer(&mut self) -> Label {
        let (v6, linear, small) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.mov(CONTEXT, R1);
        if let Some(claims) = &self.site.claims {
            self.asm.store(Width::W, R10, OPAQUE, 0);
            claim::take(&mut self.asm, claims, OPAQUE, self.next, self.drop);
        }
        let asm = &mut self.asm;
        if self.site.address.is_some() {
            asm.load(Width::W, R2, CONTEXT, SKB_PKT_TYPE);
            asm.jump_if(Cond::Ne, R2, 0, self.next);
        }
        // Headers may be elsewhere than at the beginning of its memory; those of all packets that
        // are looked at here fit. Only the needed bytes are pulled: bytes after the headers of a
        // packet that its sender still holds are not linear, and pulling them would copy its head.
        asm.mov(R4, LINEAR4);
        asm.load(Width::W, R5, CONTEXT, SKB_PROTOCOL);
        asm.jump_if(Cond::Ne, R5, raw(ethernet::IPV6), small);
        asm.mov(R4, LINEAR6);
        asm.bind(small);
        asm.load(Width::W, R2, CONTEXT, fields(AttachPoint::Tcx).data);
        asm.load(Width::W, R3, CONTEXT, fields(AttachPoint::Tcx).data_end);
        asm.alu(Alu::Add, R2, R4);
        asm.jump_if(Cond::Le, R2, R3, linear);
        asm.load(Width::W, R2, CONTEXT, SKB_LEN);
        let short = asm.label();
        asm.jump_if(Cond::Le, R2, R4, short);
        asm.mov(R2, R4);
        asm.bind(short);
        asm.mov(R1, CONTEXT);
        asm.call(Helper::SkbPullData);
        asm.bind(linear);
        tag_of_skb(asm, CONTEXT, R5, R4);
        asm.store(Width::W, R10, OPAQUE, ETHERNET);
        asm.load(Width::W, OFFSET, R10, OPAQUE);
        asm.jump_if(Cond::Gt, OFFSET, FURTHEST, self.next);
        asm.load(Width::W, R4, CONTEXT, SKB_PROTOCOL);
        asm.jump_if(Cond::Eq, R4, raw(ethernet::IPV6), v6);
        asm.jump_if(Cond::Ne, R4, raw(ethernet::IPV4), self.next);
        v6
    }

    /// The tag that it came with off, the one that it leaves with on. What has more in front goes
    /// up.
    pub(super) fn tags(&mut self) {
        let (plain, tagged, done) = (self.asm.label(), self.asm.label(), self.asm.label());
        let asm = &mut self.asm;
        asm.load(Width::H, R4, FLOW, value::FLAGS);
        asm.jump_if(Cond::Set, R4, i32::from(SESSION | TUNNEL), self.next);
        asm.load(Width::W, R4, FLOW, value::HEADER_LEN);
        asm.jump_if(Cond::Gt, R4, ETHERNET + 4, self.next);
        asm.load(Width::W, R4, CONTEXT, SKB_VLAN_PRESENT);
        asm.jump_if(Cond::Eq, R4, 0, plain);
        asm.mov(R1, CONTEXT);
        asm.call(Helper::SkbVlanPop);
        asm.jump_if(Cond::Ne, R0, 0, self.drop);
        asm.bind(plain);
        asm.load(Width::W, R4, FLOW, value::HEADER_LEN);
        asm.jump_if(Cond::Gt, R4, ETHERNET, tagged);
        asm.jump(done);
        asm.bind(tagged);
        asm.load(Width::H, R2, FLOW, value::HEADER + 12);
        asm.load(Width::H, R3, FLOW, value::HEADER + 14);
        asm.swap(R3, 16);
        asm.mov(R1, CONTEXT);
        asm.call(Helper::SkbVlanPush);
        asm.jump_if(Cond::Ne, R0, 0, self.drop);
        asm.bind(done);
    }

    /// Addresses of the link, TTL, addresses, ports, checksums.
    pub(super) fn store_headers(&mut self, family: Family) {
        let (plain, done) = (self.asm.label(), self.asm.label());
        let header = family.header();
        self.reach(IP, Some(OFFSET), header + 4, self.drop);
        for (width, at, to) in
            [(Width::H, 0, 0), (Width::W, 2, 2), (Width::W, 6, 6), (Width::H, 10, 10)]
        {
            self.asm.load(width, R4, FLOW, value::HEADER + at);
            self.asm.store(width, R10, FRAME + to, R4);
        }
        for at in (0..header + 4).step_by(4) {
            self.asm.load(Width::W, R4, IP, at);
            self.asm.store(Width::W, R10, PACKET + at, R4);
        }
        let (ttl, protocol) = match family {
            Family::V4 => (8, ethernet::IPV4),
            Family::V6 => (7, ethernet::IPV6),
        };
        self.asm.store(Width::H, R10, FRAME + 12, raw(protocol));
        self.asm.load(Width::B, R4, R10, PACKET + ttl);
        self.asm.alu(Alu::Sub, R4, 1);
        self.asm.store(Width::B, R10, PACKET + ttl, R4);
        if family == Family::V4 {
            self.grow(R10, PACKET + 10, &[value::HEADER_DELTA]);
            self.asm.store(Width::H, R10, PACKET + 10, R4);
        }
        self.unless_flag(TRANSLATED, plain);
        let addresses: &[(i16, i16)] = match family {
            Family::V4 => &[(value::SRC, 12), (value::DST, 16)],
            Family::V6 => &[
                (value::SRC, 8),
                (value::SRC + 4, 12),
                (value::SRC + 8, 16),
                (value::SRC + 12, 20),
                (value::DST, 24),
                (value::DST + 4, 28),
                (value::DST + 8, 32),
                (value::DST + 12, 36),
            ],
        };
        for (from, to) in addresses.iter().chain([&(value::PORTS, header)]) {
            self.asm.load(Width::W, R4, FLOW, *from);
            self.asm.store(Width::W, R10, PACKET + to, R4);
        }
        self.asm.bind(plain);
        // The header's checksum makes up for what changes in a header of IPv4, the transport's for
        // ports.
        let network = ETHERNET as i16;
        match family {
            Family::V4 => self.store_frame(0, network + header + 4, 0),
            Family::V6 => {
                self.store_frame(0, network, 0);
                self.store_frame(network, header, RECOMPUTE_SUM);
                self.store_frame(network + header, 4, 0);
            }
        }
        self.unless_flag(TRANSLATED, done);
        self.transport_checksum_by_helper(family);
        self.asm.bind(done);
    }

    /// `len` bytes of the frame on the stack from `at` on, into the packet.
    fn store_frame(&mut self, at: i16, len: i16, flags: i32) {
        let asm = &mut self.asm;
        asm.mov(R1, CONTEXT);
        asm.mov(R2, i32::from(at));
        asm.mov(R3, R10);
        asm.alu(Alu::Add, R3, i32::from(FRAME + at));
        asm.mov(R4, i32::from(len));
        asm.mov(R5, flags);
        asm.call(Helper::SkbStoreBytes);
        asm.jump_if(Cond::Ne, R0, 0, self.drop);
    }

    /// The transport's checksum of a packet in a buffer, which may be left to the device: then only
    /// its pseudo header is in it, and ports do not count.
    fn transport_checksum_by_helper(&mut self, family: Family) {
        let known = self.asm.label();
        let at = ETHERNET + i32::from(family.header());
        let asm = &mut self.asm;
        // R7 holds no pointer that is still needed: the helpers invalidate pointers.
        asm.mov(IP, 0);
        asm.load(Width::W, R4, R10, family.protocol());
        asm.mov(OFFSET, at + 16);
        asm.jump_if(Cond::Ne, R4, i32::from(protocol::UDP), known);
        asm.mov(OFFSET, at + 6);
        asm.mov(IP, MANGLED_ZERO);
        asm.bind(known);
        for (delta, pseudo) in [(value::ADDRESS_DELTA, PSEUDO_HEADER), (value::PORT_DELTA, 0)] {
            asm.mov(R1, CONTEXT);
            asm.mov(R2, OFFSET);
            asm.mov(R3, 0);
            asm.load(Width::H, R4, FLOW, delta);
            asm.mov(R5, IP);
            asm.alu(Alu::Or, R5, pseudo);
            asm.call(Helper::L4CsumReplace);
        }
    }

    /// Out of the device, or to the one at its other end where that may be spared.
    pub(super) fn hand_on(&mut self) {
        let out = self.asm.label();
        let asm = &mut self.asm;
        asm.load(Width::W, OFFSET, FLOW, value::DEVICE);
        asm.mov(R1, OFFSET);
        asm.alu(Alu::And, R1, (PEERS - 1) as i32);
        asm.store(Width::W, R10, OPAQUE, R1);
        asm.mov(R2, R10);
        asm.alu(Alu::Add, R2, i32::from(OPAQUE));
        asm.map(R1, &self.flows.peers);
        asm.call(Helper::MapLookup);
        asm.jump_if(Cond::Eq, R0, 0, out);
        asm.load(Width::W, R0, R0, 0);
        asm.jump_if(Cond::Ne, R0, OFFSET, out);
        asm.mov(R1, OFFSET);
        asm.mov(R2, 0);
        asm.call(Helper::RedirectPeer);
        asm.exit();
        asm.bind(out);
        asm.mov(R1, OFFSET);
        asm.mov(R2, 0);
        asm.call(Helper::Redirect);
        asm.exit();
    }
}
