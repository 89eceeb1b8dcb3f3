// SPDX-License-Identifier: Apache-2.0

//! Before the chains of a netfilter hook: fields of `struct sk_buff` and of devices, and bytes of
//! packets.
//!
//! What is in one piece with the headers is read in place: `bpf_rdonly_cast()` makes an address
//! readable at no cost. What is elsewhere, in pages of a super-packet or in fragments that were put
//! together, is copied.

use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg, Reg::*, Width};
use penstock_bpf::netfilter::InetFamily;
use penstock_wire::ethernet;

use super::frame::*;
use super::kernel::{Kernel, SkBuff};
use super::prologue::SKB_TYPE;
use super::{Compiler, Place};

/// A dynptr, while bytes are copied: in the place of registers, which nothing has written yet.
const DYNPTR: i16 = REGISTERS;

/// `PACKET_*`.
const BROADCAST: i32 = 1;
const MULTICAST: i32 = 2;
pub(super) const LOOPBACK: i32 = 5;

/// Where IPv4 has the first byte of the destination.
const DESTINATION: u16 = 16;

impl Compiler<'_> {
    fn skb(&mut self, reg: Reg) {
        self.asm.load(Width::D, reg, CONTEXT, NETFILTER_SKB);
    }

    /// R4 = where the network header begins, from `skb->data` on; it is the same place unless
    /// something has moved it.
    fn skb_header(&mut self, kernel: &Kernel, header: i16) {
        self.asm.load(Width::D, R2, R1, kernel.skb.head);
        self.asm.load(Width::H, R4, R1, header);
        self.asm.alu(Alu::Add, R4, R2);
        self.asm.load(Width::D, R2, R1, kernel.skb.data);
        self.asm.alu(Alu::Sub, R4, R2);
    }

    /// Ethertype, length, and where the network header is.
    pub(super) fn skb_link(&mut self) {
        let (Some(kernel), Place::Netfilter(hook)) = (self.kernel, self.job.place) else { return };
        let ethertype = match hook.family {
            InetFamily::V4 => ethernet::IPV4,
            InetFamily::V6 => ethernet::IPV6,
        };
        self.asm.mov(R4, i32::from(ethertype));
        self.asm.store(Width::D, R10, ETHERTYPE, R4);
        self.skb(R1);
        self.asm.load(Width::W, LENGTH, R1, kernel.skb.len);
        self.skb_header(kernel, kernel.skb.network_header);
        self.asm.store(Width::D, R10, NETWORK, R4);
    }

    /// [`COUNTERS`] = where the network header is at egress of a device: after tags that are in
    /// front of it, or before some, as whoever made the frame has it.
    pub(super) fn egress_network(&mut self) {
        let Ok(kernel) = Kernel::running() else { return };
        if !self.plan.headers() {
            return;
        }
        self.asm.mov(R1, CONTEXT);
        self.asm.call_kfunc(kernel.of_context);
        self.asm.mov(R1, R0);
        self.skb_header(kernel, kernel.skb.network_header);
        self.asm.mov(COUNTERS, R4);
    }

    /// Fields of the link header, of packets that have one (`skb_mac_header_was_set()`,
    /// `skb_mac_header_len()`).
    pub(super) fn skb_link_fields(&mut self, kernel: &Kernel) {
        const NOT_SET: i32 = 0xffff;
        if self.plan.slots.of(Base::Link).is_empty() {
            return;
        }
        let none = self.asm.label();
        self.skb(R1);
        self.asm.load(Width::H, R4, R1, kernel.skb.mac_header);
        self.asm.jump_if(Cond::Eq, R4, NOT_SET, none);
        self.asm.load(Width::H, R5, R1, kernel.skb.network_header);
        self.asm.jump_if(Cond::Eq, R4, R5, none);
        self.skb_header(kernel, kernel.skb.mac_header);
        self.asm.mov(COUNTERS, R4);
        self.headers(Base::Link, |_, _| {});
        self.asm.bind(none);
    }

    /// `len` bytes `at` bytes after the offset in [`COUNTERS`] become readable from R2 on.
    pub(super) fn reach_skb(&mut self, kernel: &Kernel, at: u16, len: u8, missing: Label) -> i16 {
        let later_fragments = self.later_fragments;
        let SkBuff { len: skb_len, data_len, data, .. } = kernel.skb;
        self.skb(R1);
        let asm = &mut self.asm;
        let (elsewhere, found) = (asm.label(), asm.label());
        asm.load(Width::W, R4, R1, skb_len);
        asm.load(Width::W, R5, R1, data_len);
        asm.alu(Alu::Sub, R4, R5);
        asm.mov(R2, COUNTERS);
        asm.alu(Alu::Add, R2, i32::from(at));
        asm.mov(R3, R2);
        asm.alu(Alu::Add, R3, i32::from(len));
        // A link header is in front of the data.
        asm.jump_if(Cond::SignedGt, R3, R4, elsewhere);
        asm.load(Width::D, R1, R1, data);
        asm.alu(Alu::Add, R1, R2);
        asm.jump(found);
        asm.bind(elsewhere);
        if later_fragments {
            // The kernel looks at those only where they are in one piece.
            asm.load(Width::D, R4, R10, FRAGMENT);
            asm.jump_if(Cond::Ne, R4, 0, missing);
        }
        asm.store(Width::D, R10, WALK, R2);
        asm.mov(R2, 0);
        asm.mov(R3, R10);
        asm.alu(Alu::Add, R3, i32::from(DYNPTR));
        asm.call_kfunc(kernel.dynptr);
        asm.jump_if(Cond::Ne, R0, 0, missing);
        asm.mov(R1, R10);
        asm.alu(Alu::Add, R1, i32::from(SCRATCH));
        asm.mov(R2, i32::from(len));
        asm.mov(R3, R10);
        asm.alu(Alu::Add, R3, i32::from(DYNPTR));
        asm.load(Width::D, R4, R10, WALK);
        asm.mov(R5, 0);
        asm.call(Helper::DynptrRead);
        asm.jump_if(Cond::Ne, R0, 0, missing);
        asm.mov(R1, R10);
        asm.alu(Alu::Add, R1, i32::from(SCRATCH));
        asm.bind(found);
        asm.mov(R2, 0);
        asm.call_kfunc(kernel.cast);
        asm.mov(R2, R0);
        0
    }

    /// R4 = a word of the packet's metadata; `at` is its place in `struct __sk_buff`.
    pub(super) fn skb_word(&mut self, word: fn(&SkBuff) -> i16, at: i16) {
        match self.kernel {
            Some(kernel) => {
                self.skb(R1);
                self.asm.load(Width::W, R4, R1, word(&kernel.skb));
            }
            None => self.asm.load(Width::W, R4, CONTEXT, at),
        }
    }

    /// R4 = `skb->pkt_type`.
    pub(super) fn raw_packet_type(&mut self) {
        match self.kernel {
            Some(kernel) => {
                let field = kernel.skb.pkt_type;
                self.skb(R1);
                self.asm.load(Width::B, R4, R1, field.offset as i16);
                self.asm.alu(Alu::Rsh, R4, i32::from(field.bit));
                self.asm.alu(Alu::And, R4, (1 << field.bits) - 1);
            }
            None => self.asm.load(Width::W, R4, CONTEXT, SKB_TYPE),
        }
    }

    /// Goes to `framed` unless the packet is a copy of one that the host has sent to a group or to
    /// all: such come to ingress without a link header (`dev_loopback_xmit()`).
    pub(super) fn unless_looped(&mut self, framed: Label) {
        self.raw_packet_type();
        self.asm.jump_if(Cond::Ne, R4, LOOPBACK, framed);
    }

    /// R4 = how the packet is addressed. What was looped back counts as what it was sent as
    /// (`nft_meta_get_eval_pkttype_lo()`).
    pub(super) fn skb_packet_type(&mut self) {
        self.raw_packet_type();
        let (known, v6) = (self.asm.label(), self.asm.label());
        self.asm.jump_if(Cond::Ne, R4, LOOPBACK, known);
        self.asm.load(Width::D, R4, R10, ETHERTYPE);
        self.asm.jump_if(Cond::Ne, R4, i32::from(ethernet::IPV4), v6);
        self.asm.load(Width::D, COUNTERS, R10, NETWORK);
        let from = self.reach(DESTINATION, 1, v6);
        self.asm.load(Width::B, R5, R2, from);
        self.asm.alu(Alu::And, R5, 0xf0);
        self.asm.mov(R4, BROADCAST);
        self.asm.jump_if(Cond::Ne, R5, 0xe0, known);
        self.asm.bind(v6);
        self.asm.mov(R4, MULTICAST);
        self.asm.bind(known);
    }

    /// Fields of the devices of the packet.
    pub(super) fn devices(&mut self, kernel: &Kernel) {
        for side in [Side::In, Side::Out, Side::Packet] {
            let fields: Vec<_> = (self.plan.slots.iter())
                .filter(|slot| match slot.field {
                    Field::Index(of)
                    | Field::Name(of)
                    | Field::Type(of)
                    | Field::Group(of)
                    | Field::Kind(of) => of == side,
                    _ => false,
                })
                .collect();
            if fields.is_empty() {
                continue;
            }
            let none = self.asm.label();
            let (structure, at) = match side {
                Side::In => (NETFILTER_STATE, kernel.state_in),
                Side::Out => (NETFILTER_STATE, kernel.state_out),
                Side::Packet => (NETFILTER_SKB, kernel.skb.dev),
            };
            self.asm.load(Width::D, R1, CONTEXT, structure);
            self.asm.load(Width::D, R1, R1, at);
            self.asm.jump_if(Cond::Eq, R1, 0, none);
            self.asm.mov(R2, 0);
            self.asm.call_kfunc(kernel.cast);
            self.asm.mov(COUNTERS, R0);
            for slot in fields {
                self.device(kernel, slot);
            }
            self.asm.bind(none);
        }
    }

    /// A field of the device at [`COUNTERS`].
    fn device(&mut self, kernel: &Kernel, slot: Slot) {
        let device = &kernel.device;
        let at = match slot.field {
            Field::Index(_) => device.ifindex,
            Field::Name(_) => device.name,
            Field::Type(_) => device.kind,
            Field::Group(_) => device.group,
            Field::Kind(_) => return self.device_kind(kernel, slot),
            _ => return,
        };
        self.asm.mov(R2, COUNTERS);
        self.copy(at, slot, slot.field.len());
    }

    /// The name of the kind, up to its end.
    fn device_kind(&mut self, kernel: &Kernel, slot: Slot) {
        let none = self.asm.label();
        self.asm.load(Width::D, R1, COUNTERS, kernel.device.link_ops);
        self.asm.jump_if(Cond::Eq, R1, 0, none);
        self.asm.mov(R2, 0);
        self.asm.call_kfunc(kernel.cast);
        self.asm.load(Width::D, R3, R0, kernel.device.link_ops_kind);
        self.asm.mov(R1, R10);
        self.asm.alu(Alu::Add, R1, i32::from(slot.at));
        self.asm.mov(R2, i32::from(slot.field.len()));
        self.asm.call(Helper::ProbeReadKernelStr);
        self.present(slot);
        self.asm.bind(none);
    }
}
