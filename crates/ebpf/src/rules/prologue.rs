// SPDX-License-Identifier: Apache-2.0

//! Before the chains: headers and fields.

use penstock_wire::{ethernet, protocol, vlan};

use super::frame::*;
use super::{BridgeHook, Compiler, Place};
use penstock_bpf::ProgramKind;
use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg::*, Width};

/// `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;

/// `struct __sk_buff`.
const SKB_LEN: i16 = 0;
pub(super) const SKB_TYPE: i16 = 4;
pub(super) const SKB_MARK: i16 = 8;
pub(super) const SKB_PROTOCOL: i16 = 16;
pub(super) const SKB_PRIORITY: i16 = 32;

/// Upper bound of directly accessible bytes, for the verifier.
pub(super) const FURTHEST: i32 = 0x3fff;

/// Fields of the network header from which on the verifier is not to follow which of them a packet
/// has, on the way to later ones.
const MANY: usize = 4;

/// Two bytes of a frame as they are loaded.
const fn raw(number: u16) -> i32 {
    u16::from_ne_bytes(number.to_be_bytes()) as i32
}

const ETH_LEN: i32 = ethernet::LEN as i32;
const TAGGED_LEN: i32 = ETH_LEN + vlan::LEN as i32;
const TYPE_AT: u16 = 12;

impl Compiler<'_> {
    /// Finds the fields. Packets that the dataplane drops before its chains are passed on.
    pub(super) fn prologue(&mut self) {
        self.asm.mov(CONTEXT, R1);
        if self.plan.long.map().is_some() {
            self.clear_unknown();
        } else {
            for at in (self.plan.slots.lowest()..FIELDS).step_by(8) {
                self.asm.store(Width::D, R10, at, 0);
            }
        }
        self.asm.mov(PRESENT, 0);
        self.link();
        self.bridge_gate();
        self.link_fields();
        self.length_after_tag();
        self.headers(Base::Network, |asm, _| asm.load(Width::D, COUNTERS, R10, NETWORK));
        if self.plan.slots.of(Base::Network).len() >= MANY {
            self.make_unknown();
        }
        self.metadata();
        self.extensions();
        if self.plan.transport {
            self.transport();
        }
        self.make_unknown();
        self.time();
        self.trace_begin();
        if self.plan.counters_ref().map().is_some() {
            self.asm.mov(R1, 0);
            self.cells_of(R1);
            self.asm.jump_if(Cond::Eq, R0, 0, self.done);
            self.asm.mov(COUNTERS, R0);
        }
    }

    /// Makes `len` bytes `at` bytes after the offset in [`COUNTERS`] readable from R2 at the offset
    /// that it gives.
    pub(super) fn reach(&mut self, at: u16, len: u8, missing: Label) -> i16 {
        if let Some(kernel) = self.kernel {
            return self.reach_skb(kernel, at, len, missing);
        }
        let asm = &mut self.asm;
        match self.job.place.kind() {
            ProgramKind::Xdp => {
                asm.load(Width::W, R2, CONTEXT, DATA);
                asm.load(Width::W, R3, CONTEXT, DATA_END);
                asm.alu(Alu::Add, R2, COUNTERS);
                asm.mov(R1, R2);
                asm.alu(Alu::Add, R1, i32::from(at) + i32::from(len));
                asm.jump_if(Cond::Gt, R1, R3, missing);
                at as i16
            }
            ProgramKind::SchedCls => {
                asm.mov(R1, CONTEXT);
                asm.mov(R2, COUNTERS);
                asm.alu(Alu::Add, R2, i32::from(at));
                // As fields lie: eights after an odd first word are aligned.
                let from = i16::from(len.div_ceil(4) % 2) * 4;
                asm.mov(R3, R10);
                asm.alu(Alu::Add, R3, i32::from(SCRATCH + from));
                asm.mov(R4, i32::from(len));
                asm.call(Helper::SkbLoadBytes);
                asm.jump_if(Cond::Ne, R0, 0, missing);
                asm.mov(R2, R10);
                asm.alu(Alu::Add, R2, i32::from(SCRATCH));
                from
            }
            // By the structures of the kernel, above.
            ProgramKind::Netfilter => 0,
        }
    }

    fn link_fields(&mut self) {
        match self.kernel {
            Some(kernel) => self.skb_link_fields(kernel),
            None if self.plan.slots.of(Base::Link).is_empty() => {}
            None => {
                let (framed, none) = (self.asm.label(), self.asm.label());
                if matches!(self.job.place, Place::TcxIngress(_)) {
                    self.unless_looped(framed);
                    self.asm.jump(none);
                }
                self.asm.bind(framed);
                self.framed_link_fields();
                self.asm.bind(none);
            }
        }
    }

    /// Ethertype and where the network header is.
    fn link(&mut self) {
        let known = self.asm.label();
        match self.job.place.kind() {
            ProgramKind::Xdp => {
                if self.plan.length {
                    self.asm.mov(R1, CONTEXT);
                    self.asm.call(Helper::XdpBuffLen);
                    self.asm.mov(LENGTH, R0);
                }
                let (tagged, untagged) = (self.asm.label(), self.asm.label());
                self.asm.mov(COUNTERS, 0);
                self.reach(0, ethernet::LEN as u8, self.done);
                self.asm.load(Width::H, R4, R2, TYPE_AT as i16);
                self.asm.mov(COUNTERS, ETH_LEN);
                self.asm.jump_if(Cond::Eq, R4, raw(ethernet::VLAN), tagged);
                self.asm.jump_if(Cond::Ne, R4, raw(ethernet::QINQ), untagged);
                self.asm.bind(tagged);
                // The tag's four bytes, the second half of which is the type, and two more
                // (`skb_vlan_untag()`).
                let at = self.reach(0, 6, self.done);
                self.asm.load(Width::H, R4, R2, at + 2);
                self.asm.mov(COUNTERS, TAGGED_LEN);
                self.asm.bind(untagged);
                self.asm.swap(R4, 16);
                self.asm.jump_if(Cond::Ge, R4, i32::from(ethernet::MIN_TYPE), known);
                let llc = self.asm.label();
                self.reach(0, 2, llc);
                self.asm.load(Width::H, R5, R2, 0);
                self.asm.mov(R4, i32::from(ethernet::RAW_802_3));
                self.asm.jump_if(Cond::Eq, R5, 0xffff, known);
                self.asm.bind(llc);
                self.asm.mov(R4, i32::from(ethernet::LLC_802_2));
            }
            ProgramKind::SchedCls => {
                self.asm.load(Width::W, LENGTH, CONTEXT, SKB_LEN);
                self.asm.mov(COUNTERS, ETH_LEN);
                if matches!(self.job.place, Place::TcxEgress(_)) {
                    self.egress_network();
                } else if matches!(self.job.place, Place::TcxIngress(_)) {
                    let framed = self.asm.label();
                    self.unless_looped(framed);
                    self.asm.mov(COUNTERS, 0);
                    self.asm.bind(framed);
                }
                self.asm.load(Width::W, R4, CONTEXT, SKB_PROTOCOL);
                self.asm.swap(R4, 16);
            }
            ProgramKind::Netfilter => return self.skb_link(),
        }
        self.asm.bind(known);
        self.asm.store(Width::D, R10, ETHERTYPE, R4);
        self.asm.store(Width::D, R10, NETWORK, COUNTERS);
        // At egress the kernel counts the link header, too.
        let counted = matches!(self.job.place, Place::TcxEgress(_));
        if (self.plan.length || self.job.place.kind() != ProgramKind::Xdp) && !counted {
            self.asm.alu(Alu::Sub, LENGTH, COUNTERS);
        }
    }

    /// Goes to `end` unless the packet has R5 bytes from the network header on, which
    /// [`Compiler::reach`] has just made R2 point to, less `at`.
    fn require_length(&mut self, at: i16, end: Label) {
        match self.job.place.kind() {
            ProgramKind::Xdp => {
                self.asm.alu(Alu::Add, R2, i32::from(at));
                self.asm.alu(Alu::Add, R2, R5);
                self.asm.jump_if(Cond::Gt, R2, R3, end);
            }
            ProgramKind::SchedCls => self.asm.jump_if(Cond::Gt, R5, LENGTH, end),
            // IP has checked it before, and a super-packet may be longer than its header can say.
            ProgramKind::Netfilter => {}
        }
    }

    /// Fields of a header; `at` puts its offset into [`COUNTERS`].
    pub(super) fn headers(
        &mut self,
        base: Base,
        at: impl FnOnce(&mut penstock_bpf::asm::Asm, Label),
    ) {
        let fields = self.plan.slots.of(base);
        if fields.is_empty() {
            return;
        }
        let cut = self.asm.label();
        at(&mut self.asm, cut);
        // Nearest end first: where one is not there, those after it are not either.
        for (offset, len, slot) in fields {
            let from = self.reach(offset, len, cut);
            self.copy(from, slot, len);
        }
        self.asm.bind(cut);
    }

    /// Bytes from R2 into the field's place.
    pub(super) fn copy(&mut self, from: i16, slot: Slot, len: u8) {
        let (mut from, mut to, mut left) = (from, slot.at, len);
        if len.div_ceil(4) % 2 == 1 {
            let first = left.min(4);
            self.number(from, first);
            self.asm.store(Width::W, R10, to, R4);
            (from, to, left) = (from + 4, to + 4, left - first);
        }
        while left > 0 {
            let part = left.min(8);
            self.number(from, part);
            self.asm.store(Width::D, R10, to, R4);
            (from, to, left) = (from + 8, to + 8, left - part);
        }
        self.present(slot);
    }

    /// R4 = up to eight bytes at R2, in memory order.
    fn number(&mut self, from: i16, len: u8) {
        let mut parts = [(0, 0, Width::B); 3];
        let mut count = 0;
        let mut at = 0;
        for (size, width) in [(8, Width::D), (4, Width::W), (2, Width::H), (1, Width::B)] {
            if at + size <= len {
                if let Some(part) = parts.get_mut(count) {
                    *part = (at, i32::from(at) * 8, width);
                }
                (count, at) = (count + 1, at + size);
            }
        }
        for (n, (at, shift, width)) in parts.into_iter().take(count).enumerate() {
            let reg = if n == 0 { R4 } else { R5 };
            self.asm.load(width, reg, R2, from + i16::from(at));
            if n > 0 {
                self.asm.alu(Alu::Lsh, R5, shift);
                self.asm.alu(Alu::Or, R4, R5);
            }
        }
    }

    pub(super) fn present(&mut self, slot: Slot) {
        match slot.bit {
            None => {}
            Some(bit @ 0..31) => self.asm.alu(Alu::Or, PRESENT, 1 << bit),
            Some(bit) => {
                self.asm.mov64(R1, 1 << bit);
                self.asm.alu(Alu::Or, PRESENT, R1);
            }
        }
    }

    /// A tag in front of a frame with a length in the place of its type: rules see the type that it
    /// counts as, where the frame has the length (`nft_payload_copy_vlan()`).
    fn length_after_tag(&mut self) {
        let covers =
            |(offset, len, _): &(u16, u8, Slot)| *offset <= 17 && offset + u16::from(*len) > 16;
        let fields: Vec<_> = self.plan.slots.of(Base::Link).into_iter().filter(covers).collect();
        if fields.is_empty() || self.job.place.kind() != ProgramKind::Xdp {
            return;
        }
        let usual = self.asm.label();
        self.asm.load(Width::D, R4, R10, NETWORK);
        self.asm.jump_if(Cond::Ne, R4, TAGGED_LEN, usual);
        self.asm.load(Width::D, R4, R10, ETHERTYPE);
        self.asm.jump_if(Cond::Ge, R4, i32::from(ethernet::MIN_TYPE), usual);
        for (offset, len, slot) in fields {
            for at in [16, 17] {
                if (offset..offset + u16::from(len)).contains(&at) {
                    let to = slot.at + (at - offset) as i16;
                    // Both types are less than 256.
                    if at == 16 {
                        self.asm.store(Width::B, R10, to, 0);
                    } else {
                        self.asm.store(Width::B, R10, to, R4);
                    }
                }
            }
        }
        self.asm.bind(usual);
    }

    fn metadata(&mut self) {
        if let Some(kernel) = self.kernel {
            self.devices(kernel);
            self.connection(kernel);
            self.route(kernel);
        }
        self.bridge_arrival();
        for slot in self.plan.slots.iter().collect::<Vec<_>>() {
            match slot.field {
                Field::Bytes { .. }
                | Field::L4Proto
                | Field::Extension(_)
                | Field::TcpOption(_) => continue,
                Field::Protocol => match self.kernel {
                    Some(kernel) => {
                        self.asm.load(Width::D, R1, CONTEXT, NETFILTER_SKB);
                        self.asm.load(Width::H, R4, R1, kernel.skb.protocol);
                    }
                    None => {
                        self.asm.load(Width::D, R4, R10, ETHERTYPE);
                        self.asm.swap(R4, 16);
                    }
                },
                Field::Length => self.asm.mov(R4, LENGTH),
                Field::PacketType => self.packet_type(),
                Field::NfProto => {
                    let v4 = self.asm.label();
                    self.asm.load(Width::D, R5, R10, ETHERTYPE);
                    self.asm.mov(R4, 2);
                    self.asm.jump_if(Cond::Eq, R5, i32::from(ethernet::IPV4), v4);
                    self.asm.mov(R4, 10);
                    self.asm.bind(v4);
                }
                Field::Index(_)
                | Field::Name(_)
                | Field::Type(_)
                | Field::Group(_)
                | Field::Kind(_)
                | Field::Route { .. }
                | Field::Ct(_) => continue,
                Field::Mark => self.skb_word(|skb| skb.mark, SKB_MARK),
                Field::Priority => self.skb_word(|skb| skb.priority, SKB_PRIORITY),
            }
            self.asm.store(Width::W, R10, slot.at, R4);
        }
    }

    /// R4 = how the frame is addressed (`eth_type_trans()`).
    fn packet_type(&mut self) {
        let known = self.asm.label();
        if let Place::Bridge(BridgeHook::Prerouting(mac), _) = self.job.place {
            return self.bridge_packet_type(mac);
        }
        if self.job.place.kind() != ProgramKind::Xdp {
            return self.skb_packet_type();
        }
        let [a, b, c, d, e, f] = self.job.place.device().map_or([0; 6], |device| device.mac.0);
        let (other, group) = (self.asm.label(), self.asm.label());
        self.asm.mov(COUNTERS, 0);
        self.reach(0, 6, self.done);
        self.asm.load(Width::W, R5, R2, 0);
        self.asm.load(Width::H, R3, R2, 4);
        self.asm.jump_if32(Cond::Ne, R5, i32::from_ne_bytes([a, b, c, d]), other);
        self.asm.mov(R4, 0);
        self.asm.jump_if32(Cond::Eq, R3, i32::from(u16::from_ne_bytes([e, f])), known);
        self.asm.bind(other);
        self.asm.load(Width::B, R1, R2, 0);
        self.asm.mov(R4, 3);
        self.asm.alu(Alu::And, R1, 1);
        self.asm.jump_if(Cond::Eq, R1, 0, known);
        self.asm.jump_if32(Cond::Ne, R5, -1, group);
        self.asm.mov(R4, 1);
        self.asm.jump_if32(Cond::Eq, R3, 0xffff, known);
        self.asm.bind(group);
        self.asm.mov(R4, 2);
        self.asm.bind(known);
    }

    /// The transport header (`nft_set_pktinfo_ipv4_validate()`, `nft_set_pktinfo_ipv6_validate()`)
    /// and what is after it.
    fn transport(&mut self) {
        let (end, found, v6) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.load(Width::D, COUNTERS, R10, NETWORK);
        self.asm.load(Width::D, R4, R10, ETHERTYPE);
        self.asm.jump_if(Cond::Eq, R4, i32::from(ethernet::IPV6), v6);
        self.asm.jump_if(Cond::Ne, R4, i32::from(ethernet::IPV4), end);
        self.ipv4(end);
        self.asm.jump(found);
        self.asm.bind(v6);
        self.ipv6(end);
        self.asm.bind(found);
        if let Some(slot) = self.plan.slots.find(Field::L4Proto) {
            self.asm.load(Width::D, R4, R10, PROTOCOL);
            self.asm.store(Width::W, R10, slot.at, R4);
            self.present(slot);
        }
        if self.job.place.kind() == ProgramKind::Xdp {
            self.asm.jump_if(Cond::Gt, COUNTERS, FURTHEST, end);
        }
        self.later_fragments = true;
        self.headers(Base::AnyTransport, |_, _| {});
        self.later_fragments = false;
        let whole =
            [Base::Transport, Base::Inner].iter().any(|b| !self.plan.slots.of(*b).is_empty())
                || self.plan.slots.iter().any(|slot| matches!(slot.field, Field::TcpOption(_)));
        if whole {
            self.asm.load(Width::D, R4, R10, FRAGMENT);
            self.asm.jump_if(Cond::Ne, R4, 0, end);
            self.headers(Base::Transport, |_, _| {});
            self.tcp_options();
            self.inner(end);
        }
        self.asm.bind(end);
    }

    fn ipv4(&mut self, end: Label) {
        let at = self.reach(0, 20, end);
        let asm = &mut self.asm;
        asm.load(Width::B, R4, R2, at);
        asm.mov(R5, R4);
        asm.alu(Alu::Rsh, R5, 4);
        asm.jump_if(Cond::Ne, R5, 4, end);
        asm.alu(Alu::And, R4, 15);
        asm.alu(Alu::Lsh, R4, 2);
        asm.jump_if(Cond::Lt, R4, 20, end);
        asm.load(Width::B, R0, R2, at + 9);
        asm.store(Width::D, R10, PROTOCOL, R0);
        asm.load(Width::H, R0, R2, at + 6);
        asm.swap(R0, 16);
        asm.alu(Alu::And, R0, 0x1fff);
        asm.store(Width::D, R10, FRAGMENT, R0);
        asm.load(Width::H, R5, R2, at + 2);
        asm.swap(R5, 16);
        if self.kernel.is_none() {
            asm.jump_if(Cond::Lt, R5, R4, end);
        }
        asm.alu(Alu::Add, COUNTERS, R4);
        self.require_length(at, end);
    }

    fn ipv6(&mut self, end: Label) {
        let at = self.reach(0, 40, end);
        let (plain, walk) = (self.asm.label(), self.asm.label());
        let asm = &mut self.asm;
        asm.load(Width::B, R4, R2, at);
        asm.alu(Alu::Rsh, R4, 4);
        asm.jump_if(Cond::Ne, R4, 6, end);
        asm.load(Width::B, R0, R2, at + 6);
        asm.store(Width::D, R10, PROTOCOL, R0);
        asm.store(Width::D, R10, FRAGMENT, 0);
        asm.load(Width::H, R5, R2, at + 4);
        asm.swap(R5, 16);
        asm.alu(Alu::Add, R5, 40);
        asm.alu(Alu::Add, COUNTERS, 40);
        self.require_length(at, end);
        use protocol::{AH, DEST_OPTIONS, HOP_BY_HOP, ROUTING};
        for extension in [HOP_BY_HOP, ROUTING, protocol::FRAGMENT, AH, DEST_OPTIONS] {
            self.asm.jump_if(Cond::Eq, R0, i32::from(extension), walk);
        }
        self.asm.jump(plain);
        self.asm.bind(walk);
        self.walk_extensions(end);
        self.asm.bind(plain);
    }

    /// What the transport header carries (`__nft_payload_inner_offset()`).
    fn inner(&mut self, end: Label) {
        if self.plan.slots.of(Base::Inner).is_empty() {
            return;
        }
        let (tcp, udp, gre, found) =
            (self.asm.label(), self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.load(Width::D, R4, R10, PROTOCOL);
        self.asm.jump_if(Cond::Eq, R4, i32::from(protocol::IPIP), found);
        self.asm.jump_if(Cond::Eq, R4, i32::from(protocol::UDP), udp);
        self.asm.jump_if(Cond::Eq, R4, i32::from(protocol::TCP), tcp);
        self.asm.jump_if(Cond::Eq, R4, i32::from(protocol::GRE), gre);
        self.asm.jump(end);
        self.asm.bind(udp);
        self.asm.alu(Alu::Add, COUNTERS, 8);
        self.asm.jump(found);
        self.asm.bind(tcp);
        let at = self.reach(0, 20, end);
        self.asm.load(Width::B, R4, R2, at + 12);
        self.asm.alu(Alu::Rsh, R4, 4);
        self.asm.alu(Alu::Lsh, R4, 2);
        self.asm.alu(Alu::Add, COUNTERS, R4);
        self.asm.jump(found);
        self.asm.bind(gre);
        let at = self.reach(0, 4, end);
        use penstock_wire::gre::{CHECKSUM, KEY, ROUTING, SEQUENCE, VERSION};
        self.asm.load(Width::H, R4, R2, at);
        self.asm.swap(R4, 16);
        self.asm.jump_if(Cond::Set, R4, i32::from(ROUTING | VERSION), end);
        self.asm.alu(Alu::Add, COUNTERS, 4);
        for flag in [CHECKSUM, KEY, SEQUENCE] {
            self.asm.mov(R5, R4);
            self.asm.alu(Alu::And, R5, i32::from(flag));
            self.asm.alu(Alu::Rsh, R5, flag.trailing_zeros() as i32 - 2);
            self.asm.alu(Alu::Add, COUNTERS, R5);
        }
        self.asm.bind(found);
        self.headers(Base::Inner, |_, _| {});
    }

    /// Lets the verifier forget which packets have which fields, so that it follows one state into
    /// the chains.
    pub(super) fn make_unknown(&mut self) {
        let (low, high): (i16, i16) = (OPAQUE + 4, OPAQUE + 12);
        self.asm.store(Width::W, R10, low, PRESENT);
        self.asm.alu(Alu::Rsh, PRESENT, 32);
        self.asm.store(Width::W, R10, high, PRESENT);
        self.asm.load(Width::W, R1, R10, high);
        self.asm.load(Width::W, PRESENT, R10, low);
        self.asm.alu(Alu::Lsh, R1, 32);
        self.asm.alu(Alu::Or, PRESENT, R1);
    }

    /// Goes to `absent` for packets without the field. R1 is lost.
    pub(super) fn require(&mut self, slot: Slot, absent: Label) {
        let Some(bit) = slot.bit else { return };
        // A copy is tested, so that the verifier learns nothing about the original.
        self.asm.mov(R1, PRESENT);
        self.asm.alu(Alu::Rsh, R1, i32::from(bit));
        self.asm.alu(Alu::And, R1, 1);
        self.asm.jump_if(Cond::Eq, R1, 0, absent);
    }
}
