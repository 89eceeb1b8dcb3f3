// SPDX-License-Identifier: Apache-2.0

//! Hashes of registers and flows, and random numbers (`net/netfilter/nft_hash.c`, `nft_numgen.c`).

use penstock_wire::{ethernet, protocol};

use super::Compiler;
use super::chain::Rule;
use super::frame::*;
use super::words::first_bytes;
use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg, Reg::*, Width};

/// Words of a block of the hash.
const BLOCK: u8 = 3;

/// The state of the hash.
const A: Reg = R1;
const B: Reg = R2;
const C: Reg = R3;

/// `jhash` over register bytes, as `penstock_wire::jhash` has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jhash {
    pub(super) src: u8,
    pub(super) len: u8,
    pub(super) seed: u32,
}

/// A number scaled to the modulus, plus the offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) modulus: u32,
    pub(super) offset: u32,
}

/// What `symhash` is made of (`penstock_program`'s, which has its own hash, as each boot of the kernel
/// has): addresses of IPv4 and IPv6, protocol and ports.
const ADDRESSES4: [Field; 2] = [network(12, 4), network(16, 4)];
const ADDRESSES6: [Field; 2] = [network(8, 16), network(24, 16)];
const PORTS: Field = Field::Bytes { base: Base::Transport, offset: 0, len: 4 };
pub(super) const OF_FLOW: [Field; 6] =
    [ADDRESSES4[0], ADDRESSES4[1], ADDRESSES6[0], ADDRESSES6[1], Field::L4Proto, PORTS];

const fn network(offset: u16, len: u8) -> Field {
    Field::Bytes { base: Base::Network, offset, len }
}

/// Its key: the lower and the higher address, protocol, the lower and the higher port.
const KEY: i16 = SCRATCH;
const KEY_HIGHER: i16 = KEY + 16;
const KEY_PROTOCOL: i16 = KEY + 32;
const KEY_PORTS: [i16; 2] = [KEY + 34, KEY + 36];
const KEY_LEN: u8 = 40;
/// After it, the bits of fields that the packet has.
const KEY_PRESENT: i16 = KEY + 48;

/// The caller's frame, in the function.
const FRAME: Reg = R7;

impl Compiler<'_> {
    /// `numgen random`.
    pub(super) fn random(&mut self, scale: Scale, dst: u8, rule: &mut Rule) {
        self.asm.call(Helper::Prandom);
        self.scale(R0, scale);
        self.keep(dst, R0, 4, rule);
    }

    /// `jhash`.
    pub(super) fn jhash(&mut self, hash: Jhash, scale: Scale, dst: u8, rule: &mut Rule) {
        let Jhash { src, len, seed } = hash;
        self.hash_words(len, seed, |compiler, word| compiler.word(R4, src + word, rule));
        self.scale(C, scale);
        self.keep(dst, C, 4, rule);
    }

    /// R3 = hash of so many bytes, of which `load` puts each word into R4.
    ///
    /// Words are little-endian, as the hash has those of its last block everywhere: plans refuse
    /// hashes on other machines.
    fn hash_words(&mut self, len: u8, seed: u32, load: impl Fn(&mut Self, u8)) {
        let start = 0xdead_beef_u32.wrapping_add(len.into()).wrapping_add(seed);
        for reg in [A, B, C] {
            self.asm.mov32(reg, start);
        }
        let words = len.div_ceil(4);
        let mut first = 0;
        while words - first > BLOCK {
            self.add_block(len, first, &load);
            for (into, from, bits, more) in [
                (A, C, 4, B),
                (B, A, 6, C),
                (C, B, 8, A),
                (A, C, 16, B),
                (B, A, 19, C),
                (C, B, 4, A),
            ] {
                // into = (into - from) ^ rotated from; from += more
                self.asm.alu32(Alu::Sub, into, from);
                self.rotate(from, bits);
                self.asm.alu32(Alu::Xor, into, R4);
                self.asm.alu32(Alu::Add, from, more);
            }
            first += BLOCK;
        }
        self.add_block(len, first, &load);
        for (into, from, bits) in
            [(C, B, 14), (A, C, 11), (B, A, 25), (C, B, 16), (A, C, 4), (B, A, 14), (C, B, 24)]
        {
            self.asm.alu32(Alu::Xor, into, from);
            self.rotate(from, bits);
            self.asm.alu32(Alu::Sub, into, R4);
        }
    }

    /// Adds up to three words to the state.
    fn add_block(&mut self, len: u8, first: u8, load: &impl Fn(&mut Self, u8)) {
        for (word, into) in (first..len.div_ceil(4)).zip([A, B, C]) {
            load(self, word);
            let bytes = (len - word * 4).min(4);
            if bytes < 4 {
                self.asm.alu32(Alu::And, R4, first_bytes(bytes) as i32);
            }
            self.asm.alu32(Alu::Add, into, R4);
        }
    }

    /// R4 = bits of `from`, rotated to the left.
    fn rotate(&mut self, from: Reg, bits: i32) {
        self.asm.alu32(Alu::Mov, R4, from);
        self.asm.alu32(Alu::Lsh, R4, bits);
        self.asm.alu32(Alu::Mov, R5, from);
        self.asm.alu32(Alu::Rsh, R5, 32 - bits);
        self.asm.alu32(Alu::Or, R4, R5);
    }

    /// `reciprocal_scale()` of a number of 32 bits, plus the offset. R4 is lost.
    fn scale(&mut self, number: Reg, scale: Scale) {
        self.asm.mov32(R4, scale.modulus);
        self.asm.alu(Alu::Mul, number, R4);
        self.asm.alu(Alu::Rsh, number, 32);
        self.asm.alu32(Alu::Add, number, scale.offset as i32);
    }

    /// `symhash`.
    pub(super) fn symhash(&mut self, scale: Scale, dst: u8, rule: &mut Rule) {
        let function = *self.of_flow.get_or_insert_with(|| self.asm.label());
        let lowest = self.plan.slots.lowest();
        self.asm.store(Width::D, R10, KEY_PRESENT, PRESENT);
        self.asm.mov(R1, CONTEXT);
        self.asm.mov(R2, R10);
        self.asm.alu(Alu::Add, R2, i32::from(lowest));
        // Not the place of registers, which a dynptr may have had.
        self.asm.call_global(function, (REGISTERS - lowest).unsigned_abs().into());
        self.asm.alu32(Alu::Mov, R3, R0);
        self.scale(R3, scale);
        self.keep(dst, R3, 4, rule);
    }

    /// The function: the caller's frame, up to its registers, to the hash. The verifier looks at it
    /// once, and not at its ways in each rule.
    pub(super) fn symhash_function(&mut self) {
        let slots = OF_FLOW.map(|field| self.plan.slots.find(field));
        let Some(function) = self.of_flow else { return };
        let [Some(from4), Some(to4), Some(from6), Some(to6), Some(protocol), Some(ports)] = slots
        else {
            return;
        };
        let [frame, v6, any, has_ports, done] = [(); 5].map(|()| self.asm.label());
        self.asm.bind(function);
        self.asm.jump_if(Cond::Ne, R2, 0, frame);
        self.asm.exit_with(0);
        self.asm.bind(frame);
        self.asm.mov(FRAME, R2);
        self.asm.alu(Alu::Sub, FRAME, i32::from(self.plan.slots.lowest()));
        self.asm.load(Width::D, PRESENT, FRAME, KEY_PRESENT);
        for at in (KEY..KEY + i16::from(KEY_LEN)).step_by(8) {
            self.asm.store(Width::D, FRAME, at, 0);
        }
        self.asm.load(Width::D, R4, FRAME, ETHERTYPE);
        self.asm.jump_if(Cond::Eq, R4, i32::from(ethernet::IPV6), v6);
        self.asm.jump_if(Cond::Ne, R4, i32::from(ethernet::IPV4), any);
        self.require(to4, any);
        self.asm.load(Width::W, R2, FRAME, from4.at);
        self.asm.load(Width::W, R3, FRAME, to4.at);
        self.in_order(32);
        self.asm.store(Width::W, FRAME, KEY, R2);
        self.asm.store(Width::W, FRAME, KEY_HIGHER, R3);
        self.asm.jump(any);
        self.asm.bind(v6);
        self.require(to6, any);
        self.addresses_in_order([from6.at, to6.at]);
        self.asm.bind(any);
        self.require(protocol, done);
        self.asm.load(Width::W, R1, FRAME, protocol.at);
        self.asm.store(Width::B, FRAME, KEY_PROTOCOL, R1);
        use protocol::{DCCP, SCTP, TCP, UDP, UDPLITE};
        for with_ports in [TCP, UDP, UDPLITE, SCTP, DCCP] {
            self.asm.jump_if(Cond::Eq, R1, i32::from(with_ports), has_ports);
        }
        self.asm.jump(done);
        self.asm.bind(has_ports);
        self.require(ports, done);
        self.asm.load(Width::W, R2, FRAME, ports.at);
        self.asm.mov(R3, R2);
        self.asm.alu(Alu::Rsh, R3, 16);
        self.asm.alu(Alu::And, R2, 0xffff);
        self.in_order(16);
        for (at, port) in KEY_PORTS.into_iter().zip([R2, R3]) {
            self.asm.store(Width::H, FRAME, at, port);
        }
        self.asm.bind(done);
        self.hash_words(KEY_LEN, 0, |compiler, word| {
            compiler.asm.load(Width::W, R4, FRAME, KEY + i16::from(word) * 4);
        });
        self.asm.mov(R0, R3);
        self.asm.exit();
    }

    /// Exchanges R2 and R3, numbers of so many bits as they are in a packet, if R2 is greater.
    fn in_order(&mut self, bits: i32) {
        let asm = &mut self.asm;
        let ordered = asm.label();
        asm.mov(R0, R2);
        asm.swap(R0, bits);
        asm.mov(R1, R3);
        asm.swap(R1, bits);
        asm.jump_if(Cond::Le, R0, R1, ordered);
        asm.mov(R0, R2);
        asm.mov(R2, R3);
        asm.mov(R3, R0);
        asm.bind(ordered);
    }

    /// Both addresses of IPv6, at these places, into the key.
    fn addresses_in_order(&mut self, [from, to]: [i16; 2]) {
        let asm = &mut self.asm;
        let [as_they_are, exchanged, done] = [(); 3].map(|()| asm.label());
        for half in [0, 8] {
            for (reg, at) in [(R0, from), (R1, to)] {
                asm.load(Width::D, reg, FRAME, at + half);
                asm.swap(reg, 64);
            }
            asm.jump_if(Cond::Lt, R0, R1, as_they_are);
            asm.jump_if(Cond::Gt, R0, R1, exchanged);
        }
        let mut copy = |label: Label, places: [i16; 2]| {
            asm.bind(label);
            for (at, to) in places.into_iter().zip([KEY, KEY_HIGHER]) {
                for half in [0, 8] {
                    asm.load(Width::D, R1, FRAME, at + half);
                    asm.store(Width::D, FRAME, to + half, R1);
                }
            }
            asm.jump(done);
        };
        copy(as_they_are, [from, to]);
        copy(exchanged, [to, from]);
        asm.bind(done);
    }
}
