// SPDX-License-Identifier: Apache-2.0

//! How `reject` sends its answer: the frame gets the answer's headers, and goes out of its device.

use penstock_bpf::ProgramKind;
use penstock_bpf::asm::{Alu, Cond, Helper, Reg::*, Width};
use penstock_wire::{ipv6, tcp};

use super::answer::*;
use super::prologue::{SKB_MARK, SKB_PRIORITY};

/// `ingress_ifindex` of `struct xdp_md`.
const XDP_DEVICE: i16 = 12;

/// `vlan_present` and `ifindex` of `struct __sk_buff`.
const SKB_VLAN_PRESENT: i16 = 20;
const SKB_DEVICE: i16 = 40;

/// `BPF_F_RECOMPUTE_CSUM`
const RECOMPUTE_SUM: i32 = 1;
/// `BPF_ADJ_ROOM_MAC`: between link and network header.
const AFTER_LINK: i32 = 1;
/// `PACKET_HOST`
const TO_HOST: i32 = 0;

/// Bytes of the longest headers: those of a reset over IPv6.
const MOST: i32 = ETH_LEN + (ipv6::LEN + tcp::LEN) as i32;

impl Answer<'_> {
    /// Makes the frame what is in memory and what is kept, and sends it by its device.
    pub(super) fn send(&mut self) {
        match self.kind {
            ProgramKind::Xdp => self.send_frame(),
            _ => self.send_buffer(),
        }
    }

    /// R4 = bytes that are written, which the verifier knows to be few; R3 = the bytes.
    fn written(&mut self) {
        let none = self.none;
        let asm = &mut *self.asm;
        asm.load(Width::W, R4, FRAME, WRITTEN);
        asm.jump_if(Cond::Gt, R4, MOST, none);
        asm.jump_if(Cond::Lt, R4, 1, none);
        asm.mov(R3, FRAME);
        asm.alu(Alu::Add, R3, i32::from(LINK));
    }

    fn send_frame(&mut self) {
        let none = self.none;
        let asm = &mut *self.asm;
        asm.load(Width::W, R2, FRAME, KEPT);
        asm.load(Width::W, R3, FRAME, END);
        asm.alu(Alu::Sub, R2, R3);
        asm.mov(R1, CONTEXT);
        asm.call(Helper::XdpAdjustTail);
        asm.jump_if(Cond::Ne, R0, 0, none);
        asm.load(Width::W, R2, FRAME, REST);
        asm.load(Width::W, R3, FRAME, FRONT);
        asm.alu(Alu::Sub, R2, R3);
        asm.mov(R1, CONTEXT);
        asm.call(Helper::XdpAdjustHead);
        asm.jump_if(Cond::Ne, R0, 0, none);
        self.written();
        let asm = &mut *self.asm;
        asm.mov(R1, CONTEXT);
        asm.mov(R2, 0);
        asm.call(Helper::XdpStoreBytes);
        asm.jump_if(Cond::Ne, R0, 0, none);
        if !self.redirects {
            asm.exit_with(penstock_bpf::xdp::TX);
            return;
        }
        asm.load(Width::W, R1, CONTEXT, XDP_DEVICE);
        asm.mov(R2, 0);
        asm.call(Helper::Redirect);
        asm.exit();
    }

    /// The answer has nothing that the kernel would not give it: no tag, mark, or priority. To cut
    /// the end off makes one packet of a super-packet.
    fn send_buffer(&mut self) {
        let none = self.none;
        let asm = &mut *self.asm;
        let (untagged, same) = (asm.label(), asm.label());
        asm.load(Width::W, R1, CONTEXT, SKB_VLAN_PRESENT);
        asm.jump_if(Cond::Eq, R1, 0, untagged);
        asm.mov(R1, CONTEXT);
        asm.call(Helper::SkbVlanPop);
        asm.jump_if(Cond::Ne, R0, 0, none);
        asm.bind(untagged);
        asm.mov(R1, CONTEXT);
        asm.load(Width::W, R2, FRAME, KEPT);
        asm.mov(R3, 0);
        asm.call(Helper::SkbChangeTail);
        asm.jump_if(Cond::Ne, R0, 0, none);
        asm.load(Width::W, R2, FRAME, FRONT);
        asm.load(Width::W, R3, FRAME, REST);
        asm.alu(Alu::Sub, R2, R3);
        asm.jump_if(Cond::Eq, R2, 0, same);
        asm.mov(R1, CONTEXT);
        asm.mov(R3, AFTER_LINK);
        asm.mov(R4, 0);
        asm.call(Helper::SkbAdjustRoom);
        asm.jump_if(Cond::Ne, R0, 0, none);
        asm.bind(same);
        self.written();
        let asm = &mut *self.asm;
        asm.mov(R1, CONTEXT);
        asm.mov(R2, 0);
        asm.mov(R5, RECOMPUTE_SUM);
        asm.call(Helper::SkbStoreBytes);
        asm.jump_if(Cond::Ne, R0, 0, none);
        asm.mov(R1, CONTEXT);
        asm.mov(R2, TO_HOST);
        asm.mov(R3, 0);
        asm.call(Helper::SkbChangeType);
        asm.mov(R1, 0);
        asm.store(Width::W, CONTEXT, SKB_MARK, R1);
        asm.store(Width::W, CONTEXT, SKB_PRIORITY, R1);
        asm.load(Width::W, R1, CONTEXT, SKB_DEVICE);
        asm.mov(R2, 0);
        asm.call(Helper::Redirect);
        asm.exit();
    }
}
