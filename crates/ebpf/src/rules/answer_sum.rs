// SPDX-License-Identifier: Apache-2.0

//! Checksums for `reject`: that of the packet, which is answered only if it is right
//! (`nf_ip_checksum()`, `nf_ip6_checksum()`, `nf_reject_verify_csum()`), and those of the answer.
//!
//! A packet at tcx may have an unfinished checksum: the sender has left to its device to sum from
//! some place to the end. That can be taken from a packet by nothing that programs may do, and it
//! is done when the answer leaves. So the answer has there what becomes right by it.

use penstock_bpf::ProgramKind;
use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg, Reg::*, Width};
use penstock_wire::{icmp, ipv4, ipv6, protocol, tcp, udp};

use super::answer::*;

/// Bytes that are summed at a time.
const CHUNK: i16 = 64;

/// Where a segment and a datagram have their checksum.
const OF_TCP: i32 = 16;
const OF_UDP: i32 = 6;

/// A sum with the checksum in it is this if it is right.
const RIGHT: i32 = 0xffff;

impl Answer<'_> {
    /// [`SUMMED`] = what the kernel knows of the checksum. Packets with an unfinished one that is no
    /// sum, or that of an inner packet, are not answered.
    pub(super) fn summed(&mut self) {
        let Answer { none, known, kernel, .. } = *self;
        let asm = &mut *self.asm;
        let usual = asm.label();
        let field = |asm: &mut penstock_bpf::asm::Asm, reg, field: penstock_bpf::Field| {
            asm.load(Width::B, reg, R0, field.offset as i16);
            asm.alu(Alu::Rsh, reg, i32::from(field.bit));
            asm.alu(Alu::And, reg, (1 << field.bits) - 1);
        };
        asm.mov(R1, CONTEXT);
        asm.call_kfunc(kernel.of_context);
        field(asm, R2, known.ip_summed);
        asm.store(Width::W, FRAME, SUMMED, R2);
        asm.jump_if(Cond::Ne, R2, PARTIAL, usual);
        for other in [Some(known.encapsulation), known.csum_not_inet].into_iter().flatten() {
            field(asm, R2, other);
            asm.jump_if(Cond::Ne, R2, 0, none);
        }
        asm.bind(usual);
    }

    /// Goes to a label if the checksum counts as right (`skb_csum_unnecessary()`).
    pub(super) fn unless_summed(&mut self, to: Label) {
        if self.kind == ProgramKind::Xdp {
            return;
        }
        self.get(R1, SUMMED);
        self.asm.jump_if(Cond::Eq, R1, UNNECESSARY, to);
        self.asm.jump_if(Cond::Eq, R1, PARTIAL, to);
    }

    /// Goes to a label where the protocol has no checksum of all that it carries, or where a
    /// datagram has none.
    pub(super) fn whether_to_verify(&mut self, verified: Label) {
        use protocol::{AH, ESP, GRE, SCTP, UDP, UDPLITE};
        let verify = self.asm.label();
        self.get(R1, PROTOCOL);
        for protocol in [AH, ESP, GRE, SCTP, UDPLITE] {
            self.asm.jump_if(Cond::Eq, R1, i32::from(protocol), verified);
        }
        self.asm.jump_if(Cond::Ne, R1, i32::from(UDP), verify);
        self.get(R8, TRANSPORT);
        self.get(R1, TO);
        self.asm.mov(R2, R8);
        self.asm.alu(Alu::Add, R2, udp::LEN as i32);
        self.asm.jump_if(Cond::Gt, R2, R1, verify);
        self.asm.alu(Alu::Add, R8, OF_UDP);
        self.bytes(2, BYTES, verify);
        self.asm.load(Width::H, R1, FRAME, BYTES);
        self.asm.jump_if(Cond::Eq, R1, 0, verified);
        self.asm.bind(verify);
    }

    /// R3 = sum of both addresses, of which the answer's header has the same.
    fn addresses(&mut self, v6: bool) {
        self.asm.mov(R3, 0);
        let (at, len) = if v6 { (IP + 8, 32) } else { (IP + 12, 8) };
        self.add_words(at, len);
    }

    /// R3 += words in memory. R2 is lost.
    pub(super) fn add_words(&mut self, from: i16, len: i16) {
        for at in (from..from + len).step_by(4) {
            self.get(R2, at);
            self.asm.alu(Alu::Add, R3, R2);
        }
    }

    /// [`SUM`] += the bytes from [`FROM`] to [`TO`].
    fn sum(&mut self) {
        let none = self.none;
        let [next, few, done] = [(); 3].map(|()| self.asm.label());
        let asm = &mut *self.asm;
        asm.bind(next);
        asm.may_goto(none);
        asm.load(Width::W, R8, FRAME, FROM);
        asm.load(Width::W, R4, FRAME, TO);
        asm.jump_if(Cond::Ge, R8, R4, done);
        for at in (BYTES..BYTES + CHUNK).step_by(8) {
            asm.store(Width::D, FRAME, at, 0);
        }
        asm.alu(Alu::Sub, R4, R8);
        asm.jump_if(Cond::Le, R4, i32::from(CHUNK), few);
        asm.mov(R4, i32::from(CHUNK));
        asm.bind(few);
        asm.jump_if(Cond::Lt, R4, 1, none);
        self.bytes_of_r4(BYTES, none);
        self.asm.load(Width::D, R3, FRAME, SUM);
        self.add_words(BYTES, CHUNK);
        let asm = &mut *self.asm;
        asm.store(Width::D, FRAME, SUM, R3);
        asm.alu(Alu::Add, R8, i32::from(CHUNK));
        asm.store(Width::W, FRAME, FROM, R8);
        asm.jump(next);
        asm.bind(done);
    }

    /// Makes a sum one of 16 bits. R2 is lost.
    fn fold(&mut self, sum: Reg) {
        let asm = &mut *self.asm;
        for _ in 0..2 {
            asm.mov(R2, sum);
            asm.alu(Alu::Rsh, R2, 32);
            asm.alu32(Alu::Mov, sum, sum);
            asm.alu(Alu::Add, sum, R2);
        }
        for _ in 0..3 {
            asm.mov(R2, sum);
            asm.alu(Alu::Rsh, R2, 16);
            asm.alu(Alu::And, sum, 0xffff);
            asm.alu(Alu::Add, sum, R2);
        }
    }

    /// The checksum for a sum. R2 is lost.
    pub(super) fn complement(&mut self, sum: Reg) {
        self.fold(sum);
        self.asm.alu(Alu::Xor, sum, 0xffff);
    }

    /// R3 += length and protocol, numbers in R1 and R2, which are lost.
    fn add_length(&mut self) {
        for reg in [R1, R2] {
            self.asm.swap(reg, 32);
            self.asm.alu(Alu::Add, R3, reg);
        }
    }

    /// Goes on if the checksum of what is from [`FROM`] to [`TO`] is right, with the pseudo header of
    /// what begins at [`TRANSPORT`].
    pub(super) fn verify(&mut self, v6: bool) {
        let none = self.none;
        let [pseudo, other, right] = [(); 3].map(|()| self.asm.label());
        self.asm.mov(R3, 0);
        if !v6 {
            self.get(R1, PROTOCOL);
            self.asm.jump_if(Cond::Eq, R1, i32::from(protocol::TCP), pseudo);
            self.asm.jump_if(Cond::Ne, R1, i32::from(protocol::UDP), other);
            self.asm.bind(pseudo);
        }
        self.addresses(v6);
        self.get(R1, TO);
        self.get(R2, TRANSPORT);
        self.asm.alu(Alu::Sub, R1, R2);
        self.get(R2, PROTOCOL);
        self.add_length();
        self.asm.bind(other);
        self.asm.store(Width::D, FRAME, PSEUDO, R3);
        self.asm.store(Width::D, FRAME, SUM, R3);
        self.sum();
        self.asm.load(Width::D, R3, FRAME, SUM);
        self.fold(R3);
        self.asm.jump_if(Cond::Eq, R3, RIGHT, right);
        if self.kind == ProgramKind::Xdp {
            self.verify_unfinished();
        } else {
            self.asm.jump(none);
        }
        self.asm.bind(right);
    }

    /// Goes on with the unfinished checksum of a sender on the same machine: the sum of the pseudo
    /// header. XDP does not say so, and one of 65536 wrong ones is like that.
    fn verify_unfinished(&mut self) {
        let none = self.none;
        let [udp, load] = [(); 2].map(|()| self.asm.label());
        self.get(R8, TRANSPORT);
        self.get(R1, PROTOCOL);
        let asm = &mut *self.asm;
        asm.jump_if(Cond::Eq, R1, i32::from(protocol::UDP), udp);
        asm.jump_if(Cond::Ne, R1, i32::from(protocol::TCP), none);
        asm.alu(Alu::Add, R8, OF_TCP);
        asm.jump(load);
        asm.bind(udp);
        asm.alu(Alu::Add, R8, OF_UDP);
        asm.bind(load);
        self.bytes(2, BYTES, none);
        self.asm.load(Width::D, R3, FRAME, PSEUDO);
        self.fold(R3);
        self.asm.load(Width::H, R1, FRAME, BYTES);
        self.asm.jump_if(Cond::Ne, R1, R3, none);
    }

    /// [`PSEUDO`] = the sum of the pseudo header of an answer with R1 bytes. R2 and R3 are lost.
    pub(super) fn pseudo_of_answer(&mut self, v6: bool, protocol: u8) {
        self.addresses(v6);
        let asm = &mut *self.asm;
        asm.mov(R2, R1);
        asm.swap(R2, 32);
        asm.alu(Alu::Add, R3, R2);
        asm.mov(R2, i32::from(protocol));
        asm.swap(R2, 32);
        asm.alu(Alu::Add, R3, R2);
        asm.store(Width::D, FRAME, PSEUDO, R3);
    }

    /// R8 = from where on a sum is to be finished, R9 = where it is put, from there.
    fn unfinished(&mut self) {
        let Answer { known, kernel, .. } = *self;
        let asm = &mut *self.asm;
        asm.mov(R1, CONTEXT);
        asm.call_kfunc(kernel.of_context);
        asm.load(Width::H, R8, R0, known.csum_start);
        asm.load(Width::H, R9, R0, known.csum_offset);
        asm.load(Width::D, R1, R0, kernel.skb.head);
        asm.load(Width::D, R2, R0, kernel.skb.data);
        asm.alu(Alu::Add, R8, R1);
        asm.alu(Alu::Sub, R8, R2);
    }

    /// The checksum of a reset.
    pub(super) fn sum_reset(&mut self, v6: bool) {
        let none = self.none;
        let (finished, done) = (self.asm.label(), self.asm.label());
        let at = IP + if v6 { ipv6::LEN } else { ipv4::LEN } as i16;
        if self.kind != ProgramKind::Xdp {
            self.get(R1, SUMMED);
            self.asm.jump_if(Cond::Ne, R1, PARTIAL, finished);
            self.unfinished();
            self.get(R1, TRANSPORT);
            self.asm.jump_if(Cond::Ne, R8, R1, none);
            self.asm.jump_if(Cond::Ne, R9, OF_TCP, none);
            self.asm.load(Width::D, R3, FRAME, PSEUDO);
            self.fold(R3);
            self.asm.jump(done);
            self.asm.bind(finished);
        }
        self.asm.load(Width::D, R3, FRAME, PSEUDO);
        self.add_words(at, tcp::LEN as i16);
        self.complement(R3);
        self.asm.bind(done);
        self.asm.store(Width::H, FRAME, at + OF_TCP as i16, R3);
    }

    /// The checksum of an error, of which the quote is from [`FROM`] to [`TO`].
    pub(super) fn sum_error(&mut self, v6: bool) {
        let none = self.none;
        let finished = self.asm.label();
        let at = IP + if v6 { ipv6::LEN } else { ipv4::LEN } as i16;
        match v6 {
            true => self.asm.load(Width::D, R3, FRAME, PSEUDO),
            false => self.asm.mov(R3, 0),
        }
        self.add_words(at, icmp::LEN as i16);
        self.asm.store(Width::D, FRAME, SUM, R3);
        self.sum();
        self.asm.load(Width::D, R3, FRAME, SUM);
        self.complement(R3);
        self.asm.store(Width::H, FRAME, at + 2, R3);
        if self.kind == ProgramKind::Xdp {
            return;
        }
        // What finishes the sum puts the complement of all but the field there. With the complement
        // of all in the field it is what the packet had, which the quote is to have.
        self.get(R1, SUMMED);
        self.asm.jump_if(Cond::Ne, R1, PARTIAL, finished);
        self.unfinished();
        self.get(R1, NETWORK);
        let asm = &mut *self.asm;
        asm.jump_if(Cond::Lt, R8, R1, none);
        asm.store(Width::W, FRAME, FROM, R8);
        asm.alu(Alu::Add, R9, R8);
        asm.store(Width::W, FRAME, TRANSPORT, R9);
        asm.alu(Alu::Add, R9, 2);
        asm.load(Width::W, R1, FRAME, TO);
        asm.jump_if(Cond::Gt, R9, R1, none);
        asm.store(Width::D, FRAME, SUM, 0);
        self.sum();
        self.asm.load(Width::D, R3, FRAME, SUM);
        self.complement(R3);
        let asm = &mut *self.asm;
        asm.store(Width::H, FRAME, BYTES, R3);
        asm.mov(R1, CONTEXT);
        asm.load(Width::W, R2, FRAME, TRANSPORT);
        asm.mov(R3, FRAME);
        asm.alu(Alu::Add, R3, i32::from(BYTES));
        asm.mov(R4, 2);
        asm.mov(R5, 0);
        asm.call(Helper::SkbStoreBytes);
        asm.jump_if(Cond::Ne, R0, 0, none);
        asm.bind(finished);
    }
}
