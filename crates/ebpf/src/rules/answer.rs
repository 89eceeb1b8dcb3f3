// SPDX-License-Identifier: Apache-2.0

//! What `reject` at ingress of a device answers (`nf_reject_skb_v4_tcp_reset()`,
//! `nf_reject_skb_v4_unreach()`, `nf_reject_skb_v6_tcp_reset()`, `nf_reject_skb_v6_unreach()`):
//! headers of the answer, and which packets have one.
//!
//! Its state is in memory that the caller lends, of which the verifier takes every word for
//! unknown: so it sees the same in each round of a loop.

use penstock_bpf::ProgramKind;
use penstock_bpf::asm::{Alu, Asm, Cond, Helper, Label, Reg, Reg::*, Width};
use penstock_wire::protocol::{
    AH, DEST_OPTIONS, FRAGMENT as FRAGMENT_HEADER, HOP_BY_HOP, NO_NEXT, ROUTING,
};
use penstock_wire::{ethernet, icmp, icmpv6, ipv4, ipv6, protocol, tcp, vlan};

use super::kernel::{Answers, Kernel};

/// Bytes of the caller's frame.
pub(super) const MEMORY: u32 = 216;

pub(super) const CONTEXT: Reg = R6;
/// That memory. In it: bytes of the packet.
pub(super) const FRAME: Reg = R7;
pub(super) const BYTES: i16 = 0;
/// The headers of the answer: that of IP begins at a multiple of eight.
pub(super) const LINK: i16 = IP - ethernet::LEN as i16;
pub(super) const IP: i16 = 80;
/// Numbers of four bytes: bytes of the frame; where its network and transport header are.
pub(super) const END: i16 = 144;
pub(super) const NETWORK: i16 = 148;
pub(super) const TRANSPORT: i16 = 152;
pub(super) const PROTOCOL: i16 = 156;
/// Of the fragment header, as it is there.
const FRAGMENT: i16 = 160;
/// What is to be summed: from, to.
pub(super) const FROM: i16 = 164;
pub(super) const TO: i16 = 168;
/// What the kernel knows of the checksum (`CHECKSUM_*`).
pub(super) const SUMMED: i16 = 172;
/// Sums that are not folded yet: of the pseudo header, and of what was summed. Eight bytes each.
pub(super) const PSEUDO: i16 = 176;
pub(super) const SUM: i16 = 184;
/// Where the part of the frame ends that the answer keeps.
pub(super) const KEPT: i16 = 192;
/// Where it begins, in the frame; bytes of headers in front of it in the answer; bytes that are
/// written.
pub(super) const REST: i16 = 196;
pub(super) const FRONT: i16 = 204;
pub(super) const WRITTEN: i16 = 208;
/// What is asked for: one byte each, whether it is a reset, and codes for IPv4 and IPv6.
pub(super) const HOW: i16 = 200;
pub(super) const RESET: i32 = 1;

/// `CHECKSUM_*`
pub(super) const UNNECESSARY: i32 = 1;
pub(super) const PARTIAL: i32 = 3;

/// `struct __sk_buff`
const SKB_LEN: i16 = 0;
const SKB_PROTOCOL: i16 = 16;

pub(super) const ETH_LEN: i32 = ethernet::LEN as i32;

/// A number of two bytes as it is in a packet.
const fn raw(number: u16) -> i32 {
    u16::from_ne_bytes(number.to_be_bytes()) as i32
}

/// Writes the function.
pub(super) struct Answer<'a> {
    pub(super) asm: &'a mut Asm,
    pub(super) kernel: &'a Kernel,
    pub(super) known: &'a Answers,
    pub(super) kind: ProgramKind,
    /// Where packets go that are not answered.
    pub(super) none: Label,
    /// In XDP an answer is redirected: what a veth sends from XDP otherwise stays in the queue of
    /// its peer until something else comes, unless the peer has a program (`veth_xdp_flush()`).
    pub(super) redirects: bool,
}

impl Answer<'_> {
    pub(super) fn get(&mut self, reg: Reg, at: i16) {
        self.asm.load(Width::W, reg, FRAME, at);
    }

    pub(super) fn put(&mut self, at: i16, reg: Reg) {
        self.asm.store(Width::W, FRAME, at, reg);
    }

    /// `len` bytes of the frame from R8 on, to a place in memory.
    pub(super) fn bytes(&mut self, len: i32, to: i16, missing: Label) {
        let asm = &mut *self.asm;
        asm.mov(R4, len);
        self.bytes_of_r4(to, missing);
    }

    /// [`Answer::bytes`] of R4 bytes.
    pub(super) fn bytes_of_r4(&mut self, to: i16, missing: Label) {
        let asm = &mut *self.asm;
        asm.mov(R1, CONTEXT);
        asm.mov(R2, R8);
        asm.mov(R3, FRAME);
        asm.alu(Alu::Add, R3, i32::from(to));
        asm.call(match self.kind {
            ProgramKind::Xdp => Helper::XdpLoadBytes,
            _ => Helper::SkbLoadBytes,
        });
        asm.jump_if(Cond::Ne, R0, 0, missing);
    }

    /// Two bytes of the packet from a place in memory, to another.
    fn copy(&mut self, from: i16, to: i16) {
        self.asm.load(Width::H, R1, FRAME, from);
        self.asm.store(Width::H, FRAME, to, R1);
    }

    /// A register = a number of two bytes in a header that is in memory.
    fn number(&mut self, reg: Reg, at: i16) {
        self.asm.load(Width::H, reg, FRAME, at);
        self.asm.swap(reg, 16);
    }

    /// The link header, and which family's packet it is.
    pub(super) fn link(&mut self, v4: Label, v6: Label) {
        let Answer { kind, none, .. } = *self;
        let asm = &mut *self.asm;
        asm.jump_if(Cond::Eq, R2, 0, none);
        asm.mov(CONTEXT, R1);
        asm.mov(FRAME, R2);
        asm.mov(R1, 0);
        asm.store(Width::W, FRAME, SUMMED, R1);
        match kind {
            ProgramKind::Xdp => {
                asm.mov(R1, CONTEXT);
                asm.call(Helper::XdpBuffLen);
            }
            _ => {
                self.summed();
                self.asm.load(Width::W, R0, CONTEXT, SKB_LEN);
            }
        }
        self.put(END, R0);
        self.asm.mov(R8, 0);
        self.bytes(ETH_LEN, BYTES, none);
        // What many have received is not answered.
        self.asm.load(Width::B, R1, FRAME, BYTES);
        self.asm.jump_if(Cond::Set, R1, 1, none);
        for half in [0, 2, 4] {
            self.copy(BYTES + 6 + half, LINK + half);
            self.copy(BYTES + half, LINK + 6 + half);
        }
        self.asm.mov(R8, ETH_LEN);
        if kind == ProgramKind::Xdp {
            let (tagged, known) = (self.asm.label(), self.asm.label());
            let asm = &mut *self.asm;
            asm.load(Width::H, R9, FRAME, BYTES + 12);
            asm.jump_if(Cond::Eq, R9, raw(ethernet::VLAN), tagged);
            asm.jump_if(Cond::Ne, R9, raw(ethernet::QINQ), known);
            asm.bind(tagged);
            self.bytes(vlan::LEN as i32, BYTES, none);
            self.asm.load(Width::H, R9, FRAME, BYTES + 2);
            self.asm.mov(R8, ETH_LEN + vlan::LEN as i32);
            self.asm.bind(known);
        } else {
            self.asm.load(Width::W, R9, CONTEXT, SKB_PROTOCOL);
        }
        self.put(NETWORK, R8);
        let asm = &mut *self.asm;
        asm.store(Width::H, FRAME, LINK + 12, R9);
        asm.jump_if(Cond::Eq, R9, raw(ethernet::IPV4), v4);
        asm.jump_if(Cond::Eq, R9, raw(ethernet::IPV6), v6);
        asm.jump(none);
    }

    /// The rest for one family; R8 is the hop limit of answers.
    pub(super) fn network(&mut self, v6: bool, send: Label) {
        let (answer, verified) = (self.asm.label(), self.asm.label());
        if v6 {
            self.header6(answer, verified);
        } else {
            self.header4(verified);
        }
        self.verify(v6);
        self.asm.bind(verified);
        // A packet whose headers after that of IP are not to be found has no segment.
        self.asm.load(Width::B, R1, FRAME, HOW);
        self.asm.jump_if(Cond::Ne, R1, RESET, answer);
        self.reset(v6);
        self.asm.jump(send);
        self.asm.bind(answer);
        self.error(v6);
        self.asm.jump(send);
    }

    /// An IPv4 header, and the one of the answer; goes to `verified` unless a checksum is to be
    /// verified.
    fn header4(&mut self, verified: Label) {
        let none = self.none;
        let (reset, other, errors) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.store(Width::B, FRAME, IP + 8, R8);
        self.get(R8, NETWORK);
        self.bytes(ipv4::LEN as i32, BYTES, none);
        let asm = &mut *self.asm;
        asm.load(Width::B, R1, FRAME, BYTES);
        asm.mov(R2, R1);
        asm.alu(Alu::And, R2, 0xf0);
        asm.jump_if(Cond::Ne, R2, 0x40, none);
        asm.alu(Alu::And, R1, 15);
        asm.alu(Alu::Lsh, R1, 2);
        asm.jump_if(Cond::Lt, R1, ipv4::LEN as i32, none);
        self.number(R3, BYTES + 2);
        let asm = &mut *self.asm;
        asm.jump_if(Cond::Lt, R3, R1, none);
        asm.alu(Alu::Add, R1, R8);
        asm.alu(Alu::Add, R3, R8);
        asm.load(Width::W, R4, FRAME, END);
        asm.jump_if(Cond::Gt, R3, R4, none);
        self.put(TRANSPORT, R1);
        self.put(TO, R3);
        self.asm.load(Width::B, R1, FRAME, BYTES + 9);
        self.put(PROTOCOL, R1);
        self.number(R1, BYTES + 6);
        self.asm.alu(Alu::And, R1, 0x1fff);
        self.asm.jump_if(Cond::Ne, R1, 0, none);
        let asm = &mut *self.asm;
        asm.store(Width::H, FRAME, IP, raw(0x4500));
        asm.store(Width::W, FRAME, IP + 4, 0);
        asm.store(Width::H, FRAME, IP + 6, raw(ipv4::DF));
        asm.store(Width::H, FRAME, IP + 10, 0);
        for half in [0, 2] {
            self.copy(BYTES + 16 + half, IP + 12 + half);
            self.copy(BYTES + 12 + half, IP + 16 + half);
        }
        // The sum covers all of the packet, of which that of the header is zero.
        self.get(R1, NETWORK);
        self.put(FROM, R1);
        let asm = &mut *self.asm;
        asm.load(Width::B, R1, FRAME, HOW);
        asm.jump_if(Cond::Eq, R1, RESET, reset);
        // Errors are not answered that say the same.
        asm.load(Width::W, R1, FRAME, PROTOCOL);
        asm.jump_if(Cond::Ne, R1, i32::from(protocol::ICMP), other);
        asm.load(Width::W, R8, FRAME, TRANSPORT);
        self.bytes(1, BYTES, other);
        let asm = &mut *self.asm;
        asm.load(Width::B, R1, FRAME, BYTES);
        asm.jump_if(Cond::Eq, R1, i32::from(icmp::DEST_UNREACHABLE), none);
        asm.bind(other);
        self.unless_summed(verified);
        self.asm.jump(errors);
        self.asm.bind(reset);
        self.segment();
        self.unless_summed(verified);
        self.asm.bind(errors);
        self.whether_to_verify(verified);
    }

    /// A segment: it ends where the frame ends, with padding.
    fn segment(&mut self) {
        self.get(R1, PROTOCOL);
        self.asm.jump_if(Cond::Ne, R1, i32::from(protocol::TCP), self.none);
        self.get(R1, END);
        self.put(TO, R1);
    }

    /// An IPv6 header, and the one of the answer; goes to `verified` unless a checksum is to be
    /// verified, to `answer` with headers that end nowhere where that makes no difference.
    fn header6(&mut self, answer: Label, verified: Label) {
        let none = self.none;
        let [lost, reset, other, whole, verify] = [(); 5].map(|()| self.asm.label());
        self.asm.store(Width::B, FRAME, IP + 7, R8);
        self.get(R8, NETWORK);
        self.bytes(ipv6::LEN as i32, BYTES, none);
        let asm = &mut *self.asm;
        asm.load(Width::B, R1, FRAME, BYTES);
        asm.alu(Alu::And, R1, 0xf0);
        asm.jump_if(Cond::Ne, R1, 0x60, none);
        self.number(R3, BYTES + 4);
        let asm = &mut *self.asm;
        asm.mov(R2, R8);
        asm.alu(Alu::Add, R2, ipv6::LEN as i32);
        asm.load(Width::W, R4, FRAME, END);
        asm.alu(Alu::Add, R3, R2);
        asm.jump_if(Cond::Gt, R3, R4, none);
        asm.store(Width::W, FRAME, TRANSPORT, R2);
        // Without a length it ends with the frame.
        asm.jump_if(Cond::Ne, R3, R2, whole);
        asm.mov(R3, R4);
        asm.bind(whole);
        self.put(TO, R3);
        self.asm.load(Width::B, R1, FRAME, BYTES + 6);
        self.put(PROTOCOL, R1);
        let asm = &mut *self.asm;
        asm.store(Width::H, FRAME, IP, raw(0x6000));
        asm.store(Width::H, FRAME, IP + 2, 0);
        for half in (0..16).step_by(2) {
            self.copy(BYTES + 24 + half, IP + 8 + half);
            self.copy(BYTES + 8 + half, IP + 24 + half);
        }
        self.skip_extensions(lost);
        self.get(R1, TRANSPORT);
        self.put(FROM, R1);
        let asm = &mut *self.asm;
        asm.load(Width::B, R1, FRAME, HOW);
        asm.jump_if(Cond::Eq, R1, RESET, reset);
        asm.load(Width::W, R1, FRAME, PROTOCOL);
        asm.jump_if(Cond::Ne, R1, i32::from(protocol::ICMPV6), other);
        asm.load(Width::W, R1, FRAME, FRAGMENT);
        asm.jump_if(Cond::Ne, R1, 0, other);
        asm.load(Width::W, R8, FRAME, TRANSPORT);
        self.bytes(1, BYTES, other);
        let asm = &mut *self.asm;
        asm.load(Width::B, R1, FRAME, BYTES);
        asm.jump_if(Cond::Eq, R1, i32::from(icmpv6::DEST_UNREACHABLE), none);
        asm.bind(other);
        self.unless_summed(answer);
        self.get(R1, FROM);
        self.get(R2, TO);
        self.asm.jump_if(Cond::Ge, R1, R2, none);
        self.get(R1, FRAGMENT);
        self.asm.swap(R1, 16);
        self.asm.jump_if(Cond::Set, R1, 0xfff8, none);
        self.asm.jump(verify);
        self.asm.bind(lost);
        self.asm.load(Width::B, R1, FRAME, HOW);
        self.asm.jump_if(Cond::Eq, R1, RESET, none);
        self.unless_summed(answer);
        self.asm.jump(none);
        self.asm.bind(reset);
        self.segment();
        self.unless_summed(verified);
        self.asm.bind(verify);
        self.whether_to_verify(verified);
    }

    /// From the end of the IPv6 header to the transport header (`ipv6_skip_exthdr()`).
    fn skip_extensions(&mut self, lost: Label) {
        let none = self.none;
        let [next, extension, fragment, authentication, step, found] =
            [(); 6].map(|()| self.asm.label());
        self.asm.store(Width::W, FRAME, FRAGMENT, 0);
        self.asm.bind(next);
        self.asm.may_goto(none);
        self.get(R9, PROTOCOL);
        self.asm.jump_if(Cond::Eq, R9, i32::from(NO_NEXT), lost);
        for header in [HOP_BY_HOP, ROUTING, FRAGMENT_HEADER, AH, DEST_OPTIONS] {
            self.asm.jump_if(Cond::Eq, R9, i32::from(header), extension);
        }
        self.asm.jump(found);
        self.asm.bind(extension);
        self.get(R8, TRANSPORT);
        self.bytes(2, BYTES, lost);
        let asm = &mut *self.asm;
        asm.jump_if(Cond::Eq, R9, i32::from(FRAGMENT_HEADER), fragment);
        asm.load(Width::B, R2, FRAME, BYTES + 1);
        asm.jump_if(Cond::Eq, R9, i32::from(AH), authentication);
        asm.alu(Alu::Add, R2, 1);
        asm.alu(Alu::Lsh, R2, 3);
        asm.bind(step);
        asm.alu(Alu::Add, R8, R2);
        asm.load(Width::B, R1, FRAME, BYTES);
        asm.store(Width::W, FRAME, TRANSPORT, R8);
        asm.store(Width::W, FRAME, PROTOCOL, R1);
        asm.jump(next);
        asm.bind(authentication);
        asm.alu(Alu::Add, R2, 2);
        asm.alu(Alu::Lsh, R2, 2);
        asm.jump(step);
        asm.bind(fragment);
        asm.alu(Alu::Add, R8, 2);
        self.bytes(2, BYTES + 2, lost);
        let asm = &mut *self.asm;
        asm.load(Width::W, R8, FRAME, TRANSPORT);
        asm.load(Width::H, R1, FRAME, BYTES + 2);
        asm.store(Width::W, FRAME, FRAGMENT, R1);
        asm.swap(R1, 16);
        // Nothing follows in a later one.
        asm.jump_if(Cond::Set, R1, 0xfff8, found);
        asm.mov(R2, penstock_wire::ipv6_ext::FRAGMENT_LEN as i32);
        asm.jump(step);
        asm.bind(found);
    }

    /// A reset, in the place of a segment's header.
    fn reset(&mut self, v6: bool) {
        let none = self.none;
        let [flags, done] = [(); 2].map(|()| self.asm.label());
        let network = if v6 { ipv6::LEN } else { ipv4::LEN } as i16;
        let at = IP + network;
        self.get(R8, TRANSPORT);
        self.bytes(tcp::LEN as i32, BYTES, none);
        self.copy(BYTES + 2, at);
        self.copy(BYTES, at + 2);
        let asm = &mut *self.asm;
        asm.store(Width::W, FRAME, at + 4, 0);
        asm.store(Width::W, FRAME, at + 8, 0);
        asm.load(Width::B, R1, FRAME, BYTES + 13);
        asm.jump_if(Cond::Set, R1, i32::from(tcp::flag::RST), none);
        asm.mov(R3, i32::from(tcp::flag::RST));
        asm.load(Width::W, R2, FRAME, BYTES + 8);
        asm.jump_if(Cond::Set, R1, i32::from(tcp::flag::ACK), flags);
        // All that the segment counts for is acknowledged.
        asm.load(Width::W, R2, FRAME, BYTES + 4);
        asm.swap(R2, 32);
        asm.mov(R3, R1);
        asm.alu(Alu::And, R3, 1);
        asm.alu(Alu::Add, R2, R3);
        asm.alu(Alu::Rsh, R1, 1);
        asm.alu(Alu::And, R1, 1);
        asm.alu(Alu::Add, R2, R1);
        asm.load(Width::W, R1, FRAME, END);
        asm.alu(Alu::Add, R2, R1);
        asm.alu(Alu::Sub, R2, R8);
        asm.load(Width::B, R1, FRAME, BYTES + 12);
        asm.alu(Alu::Rsh, R1, 4);
        asm.alu(Alu::Lsh, R1, 2);
        asm.alu(Alu::Sub, R2, R1);
        asm.swap(R2, 32);
        asm.store(Width::W, FRAME, at + 8, R2);
        asm.mov(R3, i32::from(tcp::flag::RST | tcp::flag::ACK));
        asm.jump(done);
        asm.bind(flags);
        asm.store(Width::W, FRAME, at + 4, R2);
        asm.bind(done);
        asm.store(Width::B, FRAME, at + 12, 0x50);
        asm.store(Width::B, FRAME, at + 13, R3);
        asm.store(Width::H, FRAME, at + 14, 0);
        asm.store(Width::W, FRAME, at + 16, 0);
        self.asm.mov(R1, tcp::LEN as i32);
        self.finish_network(v6, protocol::TCP);
        self.sum_reset(v6);
        // The segment's header stays, under that of the answer.
        self.get(R1, TRANSPORT);
        self.put(REST, R1);
        self.asm.alu(Alu::Add, R1, tcp::LEN as i32);
        self.put(KEPT, R1);
        let front = ETH_LEN + i32::from(network);
        self.asm.store(Width::W, FRAME, FRONT, front);
        self.asm.store(Width::W, FRAME, WRITTEN, front + tcp::LEN as i32);
    }

    /// An error in front of the packet, of which the beginning stays.
    fn error(&mut self, v6: bool) {
        let (network, most, kind, protocol) = match v6 {
            true => {
                (ipv6::LEN, icmpv6::REJECT_QUOTE_MAX, icmpv6::DEST_UNREACHABLE, protocol::ICMPV6)
            }
            false => (ipv4::LEN, icmp::REJECT_QUOTE_MAX, icmp::DEST_UNREACHABLE, protocol::ICMP),
        };
        let short = self.asm.label();
        let at = IP + network as i16;
        self.get(R8, NETWORK);
        self.put(REST, R8);
        self.put(FROM, R8);
        let asm = &mut *self.asm;
        asm.load(Width::W, R1, FRAME, END);
        asm.alu(Alu::Sub, R1, R8);
        asm.jump_if(Cond::Le, R1, most as i32, short);
        asm.mov(R1, most as i32);
        asm.bind(short);
        asm.alu(Alu::Add, R8, R1);
        asm.store(Width::W, FRAME, KEPT, R8);
        asm.store(Width::W, FRAME, TO, R8);
        asm.store(Width::B, FRAME, at, i32::from(kind));
        asm.load(Width::B, R2, FRAME, HOW + if v6 { 2 } else { 1 });
        asm.store(Width::B, FRAME, at + 1, R2);
        asm.store(Width::H, FRAME, at + 2, 0);
        asm.store(Width::W, FRAME, at + 4, 0);
        asm.alu(Alu::Add, R1, icmp::LEN as i32);
        self.finish_network(v6, protocol);
        self.sum_error(v6);
        let front = ETH_LEN + (network + icmp::LEN) as i32;
        self.asm.store(Width::W, FRAME, FRONT, front);
        self.asm.store(Width::W, FRAME, WRITTEN, front);
    }

    /// The IP header of the answer for R1 bytes after it.
    fn finish_network(&mut self, v6: bool, protocol: u8) {
        let at = if v6 { IP + 6 } else { IP + 9 };
        self.asm.store(Width::B, FRAME, at, i32::from(protocol));
        self.pseudo_of_answer(v6, protocol);
        if v6 {
            self.asm.swap(R1, 16);
            self.asm.store(Width::H, FRAME, IP + 4, R1);
            return;
        }
        self.asm.alu(Alu::Add, R1, ipv4::LEN as i32);
        self.asm.swap(R1, 16);
        self.asm.store(Width::H, FRAME, IP + 2, R1);
        self.asm.mov(R3, 0);
        self.add_words(IP, ipv4::LEN as i16);
        self.complement(R3);
        self.asm.store(Width::H, FRAME, IP + 10, R3);
    }
}
