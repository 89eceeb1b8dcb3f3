// SPDX-License-Identifier: Apache-2.0

//! Fields of the link header at tcx, where the kernel has taken the outermost tag out of the frame:
//! rules see it where it was (`nft_payload_copy_vlan()`).

use penstock_bpf::ProgramKind;
use penstock_bpf::asm::{Alu, Cond, Helper, Reg, Reg::*, Width};
use penstock_wire::{ethernet, vlan};

use super::Compiler;
use super::frame::*;
use super::prologue::SKB_PROTOCOL;

/// `struct __sk_buff`: whether there is a tag, its value, its type.
const SKB_TAGGED: i16 = 20;
const SKB_TAG: i16 = 24;
const SKB_TAG_TYPE: i16 = 28;

/// Where the tag stands, and where what follows it does.
const TAG: u16 = 12;
const AFTER_TAG: u16 = (ethernet::LEN + vlan::LEN) as u16;

/// Two bytes each that are put together: type and value of the tag, and the packet's protocol.
const TOGETHER: [(u16, i16, bool); 3] =
    [(TAG, SKB_TAG_TYPE, true), (TAG + 2, SKB_TAG, false), (TAG + 4, SKB_PROTOCOL, true)];

impl Compiler<'_> {
    /// Fields of the link header of a frame that has one.
    pub(super) fn framed_link_fields(&mut self) {
        let after_addresses =
            self.plan.slots.of(Base::Link).iter().any(|(at, len, _)| at + u16::from(*len) > TAG);
        let (tagged, done) = (self.asm.label(), self.asm.label());
        let out_of_band = after_addresses && self.job.place.kind() == ProgramKind::SchedCls;
        if out_of_band {
            self.asm.load(Width::W, R4, CONTEXT, SKB_TAGGED);
            self.asm.jump_if(Cond::Ne, R4, 0, tagged);
        }
        self.headers(Base::Link, |asm, _| asm.mov(COUNTERS, 0));
        if out_of_band {
            self.asm.jump(done);
            self.asm.bind(tagged);
            for (at, len, slot) in self.plan.slots.of(Base::Link) {
                self.tagged_field(at, len, slot);
            }
            self.asm.bind(done);
        }
    }

    /// `len` bytes of a tagged frame at `at`, as if the tag were in it.
    fn tagged_field(&mut self, at: u16, len: u8, slot: Slot) {
        let end = at + u16::from(len);
        // As `copy` reads them: eights after an odd first word are aligned.
        let from = i16::from(len.div_ceil(4) % 2) * 4;
        let place = |byte: u16| SCRATCH + from + (byte - at) as i16;
        let absent = self.asm.label();
        if at < TAG {
            self.frame_bytes(at, end.min(TAG) - at, place(at), absent);
        }
        for (byte, word, network_order) in TOGETHER {
            let wanted = [byte, byte + 1].map(|byte| (at..end).contains(&byte));
            if wanted == [false; 2] {
                continue;
            }
            self.asm.load(Width::W, R4, CONTEXT, word);
            if network_order {
                self.asm.swap(R4, 16);
            }
            if wanted[1] {
                self.asm.store(Width::B, R10, place(byte + 1), R4);
            }
            if wanted[0] {
                self.asm.alu(Alu::Rsh, R4, 8);
                self.asm.store(Width::B, R10, place(byte), R4);
            }
        }
        if end > AFTER_TAG {
            let begin = at.max(AFTER_TAG);
            self.frame_bytes(begin - vlan::LEN as u16, end - begin, place(begin), absent);
        }
        self.asm.mov(R2, R10);
        self.asm.alu(Alu::Add, R2, i32::from(SCRATCH));
        self.copy(from, slot, len);
        self.asm.bind(absent);
    }

    /// Copies bytes of the frame as it lies in memory into the stack frame.
    fn frame_bytes(&mut self, at: u16, len: u16, to: i16, absent: penstock_bpf::asm::Label) {
        const BUFFER: Reg = R3;
        self.asm.mov(R1, CONTEXT);
        self.asm.mov(R2, i32::from(at));
        self.asm.mov(BUFFER, R10);
        self.asm.alu(Alu::Add, BUFFER, i32::from(to));
        self.asm.mov(R4, i32::from(len));
        self.asm.call(Helper::SkbLoadBytes);
        self.asm.jump_if(Cond::Ne, R0, 0, absent);
    }
}
