// SPDX-License-Identifier: Apache-2.0

//! Extension headers of IPv6 (`nft_exthdr_ipv6_eval()`): a function that the kernel calls for each
//! header finds all kinds that rules ask for.

use penstock_wire::ipv6_ext::FRAGMENT_LEN;
use penstock_wire::protocol::{AH, DEST_OPTIONS, FRAGMENT as FRAGMENT_HEADER, HOP_BY_HOP, ROUTING};
use penstock_wire::{ethernet, ipv6};

use super::Compiler;
use super::exthdr_field::Extension;
use super::frame::*;
use super::walk::{AT_CONTEXT, AT_OFFSET, AT_PROTOCOL, MOST};
use penstock_bpf::ProgramKind;
use penstock_bpf::asm::{Alu, Cond, Helper, Reg::*, Width};

/// Kinds of headers at most: a word for each.
const KINDS: usize = 6;

/// Where headers of each kind are found, 0 for nowhere: after the dynptr in the place of registers,
/// which nothing has written yet. At these places the verifier treats words as unknown.
const FOUND: i16 = REGISTERS + 20;

/// Whether a program finds as many kinds of headers. The error is the reason.
pub(super) fn check(slots: &Slots) -> Result<(), String> {
    if kinds(&wanted(slots)).len() > KINDS {
        return Err(format!("the rules ask for more than {KINDS} kinds of extension headers"));
    }
    Ok(())
}

fn wanted(slots: &Slots) -> Vec<(Extension, Slot)> {
    let of = |slot: Slot| match slot.field {
        Field::Extension(extension) => Some((extension, slot)),
        _ => None,
    };
    slots.iter().filter_map(of).collect()
}

/// Each kind, with the place where it is found.
fn kinds(wanted: &[(Extension, Slot)]) -> Vec<(u8, i16)> {
    let mut kinds: Vec<u8> = wanted.iter().map(|(extension, _)| extension.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.into_iter().zip((FOUND..).step_by(8)).collect()
}

impl Compiler<'_> {
    /// Finds the headers of an IPv6 packet that rules ask for.
    pub(super) fn extensions(&mut self) {
        let wanted = wanted(&self.plan.slots);
        if wanted.is_empty() {
            return;
        }
        let done = self.asm.label();
        self.asm.load(Width::D, R4, R10, ETHERTYPE);
        self.asm.jump_if(Cond::Ne, R4, i32::from(ethernet::IPV6), done);
        for (_, slot) in wanted.iter().filter(|(extension, _)| extension.present) {
            self.present(*slot);
        }
        self.asm.load(Width::D, COUNTERS, R10, NETWORK);
        let at = self.reach(6, 1, done);
        let function = *self.extensions.get_or_insert_with(|| self.asm.label());
        let asm = &mut self.asm;
        asm.load(Width::B, R0, R2, at);
        asm.alu(Alu::Add, COUNTERS, ipv6::LEN as i32);
        asm.store(Width::D, R10, WALK + AT_CONTEXT, CONTEXT);
        asm.store(Width::W, R10, WALK + AT_OFFSET, COUNTERS);
        asm.store(Width::W, R10, WALK + AT_PROTOCOL, R0);
        // Zero, which the verifier does not know: it would follow each set of headers.
        asm.load(Width::W, R1, R10, WALK + AT_OFFSET);
        asm.mov(R2, R1);
        asm.alu(Alu::Sub, R1, R2);
        let kinds = kinds(&wanted);
        let slots = wanted.iter().flat_map(|(_, slot)| {
            (0..i16::from(slot.field.len().div_ceil(4))).map(|word| slot.at + word * 4)
        });
        for at in kinds.iter().map(|(_, at)| *at).chain(slots) {
            asm.store(Width::W, R10, at, R1);
        }
        asm.mov(R1, MOST);
        asm.function(R2, function);
        asm.mov(R3, R10);
        asm.alu(Alu::Add, R3, i32::from(WALK));
        asm.mov(R4, 0);
        asm.call(Helper::Loop);
        for (extension, slot) in wanted {
            let Some((_, at)) = kinds.iter().find(|(kind, _)| *kind == extension.kind) else {
                continue;
            };
            self.asm.load(Width::W, COUNTERS, R10, *at);
            if extension.present {
                // Whether it is not 0, without a branch.
                self.asm.mov(R4, 0);
                self.asm.alu(Alu::Sub, R4, COUNTERS);
                self.asm.alu(Alu::Rsh, R4, 63);
                self.asm.store(Width::W, R10, slot.at, R4);
                continue;
            }
            let absent = self.asm.label();
            self.asm.jump_if(Cond::Eq, COUNTERS, 0, absent);
            if self.job.place.kind() == ProgramKind::Xdp {
                self.asm.jump_if(Cond::Gt, COUNTERS, super::prologue::FURTHEST, absent);
            }
            let from = self.reach(extension.offset.into(), extension.len, absent);
            self.copy(from, slot, extension.len);
            self.asm.bind(absent);
            // One state follows, with or without it.
            self.make_unknown();
        }
        self.asm.bind(done);
    }

    /// The function: one header. It returns 1 to end.
    pub(super) fn extensions_function(&mut self) {
        let Some(function) = self.extensions else { return };
        let kinds = kinds(&wanted(&self.plan.slots));
        let [extension, long, stop, fragment, authentication, step] =
            [(); 6].map(|()| self.asm.label());
        let asm = &mut self.asm;
        asm.bind(function);
        asm.mov(R6, R2);
        asm.load(Width::W, R7, R6, AT_PROTOCOL);
        for protocol in [HOP_BY_HOP, ROUTING, FRAGMENT_HEADER, AH, DEST_OPTIONS] {
            asm.jump_if(Cond::Eq, R7, i32::from(protocol), extension);
        }
        // The last one.
        self.note_extension(&kinds);
        self.asm.bind(stop);
        self.asm.exit_with(1);

        // Two bytes of each header are needed, four of those for routing and fragments.
        let asm = &mut self.asm;
        asm.bind(extension);
        asm.mov(R4, 4);
        asm.jump_if(Cond::Eq, R7, i32::from(ROUTING), long);
        asm.jump_if(Cond::Eq, R7, i32::from(FRAGMENT_HEADER), long);
        asm.mov(R4, 2);
        asm.bind(long);
        asm.store(Width::D, R10, -8, 0);
        self.load_extension(stop);
        self.note_extension(&kinds);
        let asm = &mut self.asm;
        asm.load(Width::B, R8, R10, -8);
        asm.load(Width::B, R9, R10, -7);
        asm.jump_if(Cond::Eq, R7, i32::from(FRAGMENT_HEADER), fragment);
        asm.jump_if(Cond::Eq, R7, i32::from(AH), authentication);
        asm.alu(Alu::Add, R9, 1);
        asm.alu(Alu::Lsh, R9, 3);
        asm.bind(step);
        asm.load(Width::W, R1, R6, AT_OFFSET);
        asm.alu(Alu::Add, R1, R9);
        asm.store(Width::W, R6, AT_OFFSET, R1);
        asm.store(Width::W, R6, AT_PROTOCOL, R8);
        asm.exit_with(0);
        asm.bind(authentication);
        asm.alu(Alu::Add, R9, 2);
        asm.alu(Alu::Lsh, R9, 2);
        asm.jump(step);
        asm.bind(fragment);
        asm.load(Width::H, R1, R10, -6);
        asm.swap(R1, 16);
        asm.alu(Alu::Rsh, R1, 3);
        asm.mov(R9, FRAGMENT_LEN as i32);
        asm.jump_if(Cond::Eq, R1, 0, step);
        // Nothing follows in a later fragment.
        asm.jump(stop);
    }

    /// The header of kind R7 is the first of its kind, if none was found before.
    fn note_extension(&mut self, kinds: &[(u8, i16)]) {
        let asm = &mut self.asm;
        for (kind, at) in kinds {
            let other = asm.label();
            let at = at - WALK;
            asm.jump_if(Cond::Ne, R7, i32::from(*kind), other);
            asm.load(Width::W, R1, R6, at);
            asm.jump_if(Cond::Ne, R1, 0, other);
            asm.load(Width::W, R1, R6, AT_OFFSET);
            asm.store(Width::W, R6, at, R1);
            asm.bind(other);
        }
    }
}
