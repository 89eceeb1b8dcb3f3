// SPDX-License-Identifier: Apache-2.0

//! Options of TCP (`nft_exthdr_tcp_eval()`): the header is copied, and a function that the kernel
//! calls for each option finds all that rules ask for.

use penstock_wire::tcp::option::NOP;
use penstock_wire::{protocol, tcp};

use super::Compiler;
use super::exthdr_field::TcpOption;
use super::frame::*;
use penstock_bpf::ProgramKind;
use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg::*, Width};

/// Bytes of the longest header, and of the options in it.
const HEADER: i32 = 60;
const OPTIONS: i32 = HEADER - tcp::LEN as i32;

/// Different options at most: a bit of a word for each.
const MOST: usize = 32;

/// Within [`WALK`]: where the current option is in the header, and the header's length; which
/// options have been found, and which have been looked at. At these places, four after a multiple of
/// eight, the verifier treats words as unknown.
const AT_LEN: i16 = 0;
const AT_OFFSET: i16 = 12;
const AT_END: i16 = 20;
const AT_FOUND: i16 = 28;
const AT_SEEN: i16 = 36;

/// A dynptr, while the header is copied.
const DYNPTR: i16 = REGISTERS;

/// Whether a program has room for one more. The error is the reason.
pub(super) fn check(slots: &Slots) -> Result<(), String> {
    match wanted(slots).len() {
        0..MOST => Ok(()),
        _ => Err(format!("the rules ask for more than {MOST} options of TCP")),
    }
}

fn wanted(slots: &Slots) -> Vec<(TcpOption, Slot)> {
    let of = |slot: Slot| match slot.field {
        Field::TcpOption(option) => Some((option, slot)),
        _ => None,
    };
    slots.iter().filter_map(of).collect()
}

impl Compiler<'_> {
    /// Finds options in the header at [`COUNTERS`], if it is one of TCP.
    pub(super) fn tcp_options(&mut self) {
        let wanted = wanted(&self.plan.slots);
        if wanted.is_empty() {
            return;
        }
        let done = self.asm.label();
        self.asm.load(Width::D, R4, R10, PROTOCOL);
        self.asm.jump_if(Cond::Ne, R4, i32::from(protocol::TCP), done);
        let at = self.reach(12, 1, done);
        let asm = &mut self.asm;
        asm.load(Width::B, R4, R2, at);
        asm.alu(Alu::Rsh, R4, 4);
        asm.alu(Alu::Lsh, R4, 2);
        asm.jump_if(Cond::Lt, R4, tcp::LEN as i32, done);
        asm.store(Width::D, R10, WALK + AT_LEN, R4);
        self.copy_header(done);
        let function = *self.options.get_or_insert_with(|| self.asm.label());
        let asm = &mut self.asm;
        asm.load(Width::D, R4, R10, WALK + AT_LEN);
        asm.store(Width::W, R10, WALK + AT_OFFSET, tcp::LEN as i32);
        asm.store(Width::W, R10, WALK + AT_END, R4);
        // Zero, which the verifier does not know: it would follow each set of options that a header
        // may have.
        asm.load(Width::W, R1, R10, WALK + AT_OFFSET);
        asm.mov(R2, R1);
        asm.alu(Alu::Sub, R1, R2);
        asm.store(Width::W, R10, WALK + AT_FOUND, R1);
        asm.store(Width::W, R10, WALK + AT_SEEN, R1);
        for (_, slot) in &wanted {
            for word in 0..i16::from(slot.field.len().div_ceil(4)) {
                asm.store(Width::W, R10, slot.at + word * 4, R1);
            }
        }
        asm.mov(R1, OPTIONS);
        asm.function(R2, function);
        asm.mov(R3, R10);
        asm.mov(R4, 0);
        asm.call(Helper::Loop);
        asm.load(Width::W, R2, R10, WALK + AT_FOUND);
        for (n, (_, slot)) in (0..).zip(&wanted) {
            let Some(bit) = slot.bit else { continue };
            self.asm.mov(R1, R2);
            self.asm.alu(Alu::Rsh, R1, n);
            self.asm.alu(Alu::And, R1, 1);
            self.asm.alu(Alu::Lsh, R1, i32::from(bit));
            self.asm.alu(Alu::Or, PRESENT, R1);
        }
        self.asm.bind(done);
    }

    /// The header at [`COUNTERS`], of so many bytes as [`WALK`] says, into [`SCRATCH`].
    fn copy_header(&mut self, missing: Label) {
        let asm = &mut self.asm;
        let scratch = |asm: &mut penstock_bpf::asm::Asm, reg| {
            asm.mov(reg, R10);
            asm.alu(Alu::Add, reg, i32::from(SCRATCH));
        };
        if let Some(kernel) = self.kernel {
            asm.load(Width::D, R1, CONTEXT, NETFILTER_SKB);
            asm.mov(R2, 0);
            asm.mov(R3, R10);
            asm.alu(Alu::Add, R3, i32::from(DYNPTR));
            asm.call_kfunc(kernel.dynptr);
            asm.jump_if(Cond::Ne, R0, 0, missing);
            scratch(asm, R1);
            asm.load(Width::D, R2, R10, WALK + AT_LEN);
            asm.mov(R3, R10);
            asm.alu(Alu::Add, R3, i32::from(DYNPTR));
            asm.mov(R4, COUNTERS);
            asm.mov(R5, 0);
            asm.call(Helper::DynptrRead);
        } else {
            asm.mov(R1, CONTEXT);
            asm.mov(R2, COUNTERS);
            scratch(asm, R3);
            asm.load(Width::D, R4, R10, WALK + AT_LEN);
            asm.call(match self.job.place.kind() {
                ProgramKind::Xdp => Helper::XdpLoadBytes,
                _ => Helper::SkbLoadBytes,
            });
        }
        self.asm.jump_if(Cond::Ne, R0, 0, missing);
    }

    /// The function: one option. It returns 1 to end.
    pub(super) fn options_function(&mut self) {
        let Some(function) = self.options else { return };
        let wanted = wanted(&self.plan.slots);
        let asm = &mut self.asm;
        let (stop, single, sized) = (asm.label(), asm.label(), asm.label());
        asm.bind(function);
        asm.mov(R6, R2);
        asm.load(Width::W, R7, R6, WALK + AT_OFFSET);
        asm.load(Width::W, R8, R6, WALK + AT_END);
        // The last byte is not looked at: there is no length after it.
        asm.mov(R1, R8);
        asm.alu(Alu::Sub, R1, 1);
        asm.jump_if(Cond::Ge, R7, R1, stop);
        asm.jump_if(Cond::Ge, R7, HEADER - 1, stop);
        asm.mov(R9, R6);
        asm.alu(Alu::Add, R9, R7);
        asm.load(Width::B, R2, R9, SCRATCH);
        asm.load(Width::B, R4, R9, SCRATCH + 1);
        asm.jump_if(Cond::Le, R2, i32::from(NOP), single);
        asm.jump_if(Cond::Ne, R4, 0, sized);
        asm.bind(single);
        asm.mov(R4, 1);
        asm.bind(sized);
        asm.mov(R5, R7);
        asm.alu(Alu::Add, R5, R4);
        asm.store(Width::W, R6, WALK + AT_OFFSET, R5);
        for (n, (option, slot)) in wanted.iter().enumerate() {
            if option.reach() > OPTIONS {
                continue;
            }
            self.option(n as u32, *option, *slot);
        }
        self.asm.exit_with(0);
        self.asm.bind(stop);
        self.asm.exit_with(1);
    }

    /// Takes the option at R9, of kind R2 and length R4, that ends at R5 of R8 bytes, if it is the
    /// first of its kind.
    fn option(&mut self, n: u32, option: TcpOption, slot: Slot) {
        let asm = &mut self.asm;
        let other = asm.label();
        let bit = (1_u32 << n) as i32;
        asm.jump_if(Cond::Ne, R2, i32::from(option.kind), other);
        asm.load(Width::W, R1, R6, WALK + AT_SEEN);
        asm.mov32(R3, bit as u32);
        asm.jump_if(Cond::Set, R1, R3, other);
        asm.alu(Alu::Or, R1, R3);
        asm.store(Width::W, R6, WALK + AT_SEEN, R1);
        asm.jump_if(Cond::Gt, R5, R8, other);
        asm.jump_if(Cond::Lt, R4, option.reach(), other);
        if option.present {
            asm.mov(R1, 1);
            asm.store(Width::W, R6, slot.at, R1);
        } else {
            for byte in 0..i16::from(option.len) {
                let from = SCRATCH + i16::from(option.offset) + byte;
                asm.load(Width::B, R1, R9, from);
                asm.store(Width::B, R6, slot.at + byte, R1);
            }
        }
        asm.load(Width::W, R1, R6, WALK + AT_FOUND);
        asm.alu(Alu::Or, R1, R3);
        asm.store(Width::W, R6, WALK + AT_FOUND, R1);
        asm.bind(other);
    }
}
