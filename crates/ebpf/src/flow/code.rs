// SPDX-License-Identifier: Apache-2.0

//! The programs. What is other at tcx is in `buffer`.

use penstock_wire::ethernet::Mac;
use penstock_wire::{ecn, ethernet, ipv4, pppoe, protocol};

use super::layout::*;
use super::skb::{SKB_DEVICE, SKB_GSO_SIZE, SKB_LEN};
use super::{Flows, Site};
use penstock_bpf::asm::{Alu, Asm, AsmError, Code, Cond, Helper, Label, Reg, Reg::*, Width};
use penstock_bpf::{AttachPoint, tcx, xdp};

/// Where a context says where the frame begins and ends, and on which device it came:
/// `struct xdp_md`, `struct __sk_buff`.
pub(super) struct Fields {
    pub(super) data: i16,
    pub(super) data_end: i16,
    pub(super) device: i16,
}

pub(super) const fn fields(place: AttachPoint) -> Fields {
    match place {
        AttachPoint::Xdp => Fields { data: 0, data_end: 4, device: 12 },
        AttachPoint::Tcx => Fields { data: 76, data_end: 80, device: SKB_DEVICE },
    }
}

// The stack frame.
const KEY: i16 = -48;
/// A word that the verifier takes for unknown, since it does not stand at a multiple of eight.
pub(super) const OPAQUE: i16 = -52;
/// The IP packet's length, eight bytes.
const LENGTH: i16 = -64;
/// From the network header to the frame's end, eight bytes.
const BYTES: i16 = -72;

pub(super) const CONTEXT: Reg = R6;
pub(super) const IP: Reg = R7;
/// Where the IP header begins in the frame.
pub(super) const OFFSET: Reg = R8;
pub(super) const FLOW: Reg = R9;

/// The verifier requires a bound on the length of headers.
pub(super) const FURTHEST: i32 = 64;

pub(super) const ETHERNET: i32 = ethernet::LEN as i32;
/// Two bytes of a frame as they are loaded.
pub(super) const fn raw(number: u16) -> i32 {
    u16::from_ne_bytes(number.to_be_bytes()) as i32
}

/// What differs between the families.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    pub(super) fn header(self) -> i16 {
        match self {
            Family::V4 => 20,
            Family::V6 => 40,
        }
    }

    /// In the key.
    pub(super) fn protocol(self) -> i16 {
        KEY + match self {
            Family::V4 => key4::PROTOCOL,
            Family::V6 => key6::PROTOCOL,
        }
    }
}

/// The program for a place.
pub(super) fn program(flows: &Flows, site: &Site) -> Result<Code, AsmError> {
    let mut asm = Asm::new();
    let (next_label, drop, unfinished) = (asm.label(), asm.label(), asm.label());
    let place = site.place;
    let mut writer = Writer { asm, place, site, flows, next: next_label, drop, unfinished };
    let v6 = match place {
        AttachPoint::Xdp => writer.link(),
        AttachPoint::Tcx => writer.buffer(),
    };
    writer.ipv4();
    writer.family(Family::V4);
    writer.asm.bind(v6);
    writer.ipv6();
    writer.family(Family::V6);
    let Writer { mut asm, .. } = writer;
    asm.bind(next_label);
    site.next.emit(&mut asm, place);
    if site.unfinished && place == AttachPoint::Xdp {
        // Or it only looks so: it must not continue unless something translates it.
        asm.bind(unfinished);
        site.next.emit_sockets_or_drop(&mut asm);
    }
    asm.bind(drop);
    asm.exit_with(match place {
        AttachPoint::Xdp => xdp::DROP,
        AttachPoint::Tcx => tcx::DROP,
    });
    asm.finish()
}

pub(super) struct Writer<'a> {
    pub(super) asm: Asm,
    place: AttachPoint,
    pub(super) site: &'a Site,
    pub(super) flows: &'a Flows,
    /// For packets that are not of a flow; they are as they came.
    pub(super) next: Label,
    /// For what cannot happen.
    pub(super) drop: Label,
    /// For packets of flows with a possibly unfinished checksum.
    unfinished: Label,
}

impl Writer<'_> {
    /// `reg` = where the frame begins, `len` bytes after `offset` readable; else goes to
    /// `missing`. R1, R3 are lost.
    pub(super) fn reach(&mut self, reg: Reg, offset: Option<Reg>, len: i16, missing: Label) {
        let asm = &mut self.asm;
        let Fields { data, data_end, .. } = fields(self.place);
        asm.load(Width::W, reg, CONTEXT, data);
        asm.load(Width::W, R3, CONTEXT, data_end);
        if let Some(offset) = offset {
            asm.alu(Alu::Add, reg, offset);
        }
        asm.mov(R1, reg);
        asm.alu(Alu::Add, R1, i32::from(len));
        asm.jump_if(Cond::Gt, R1, R3, missing);
    }

    /// Offset of the network header into [`OFFSET`], and what precedes it into the key. IPv4
    /// continues after this code, IPv6 at the label.
    fn link(&mut self) -> Label {
        let (vlan, session, v6, known) =
            (self.asm.label(), self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.mov(CONTEXT, R1);
        self.reach(R2, None, 14, self.next);
        if let Some(Mac([a, b, c, d, e, f])) = self.site.address {
            self.asm.load(Width::W, R4, R2, 0);
            self.asm.mov32(R5, u32::from_ne_bytes([a, b, c, d]));
            self.asm.jump_if(Cond::Ne, R4, R5, self.next);
            self.asm.load(Width::H, R4, R2, 4);
            self.asm.jump_if(Cond::Ne, R4, i32::from(u16::from_ne_bytes([e, f])), self.next);
        }
        self.asm.load(Width::H, R4, R2, 12);
        self.asm.mov(R5, 0);
        self.asm.mov(OFFSET, 14);
        self.asm.jump_if(Cond::Eq, R4, raw(ethernet::VLAN), vlan);
        self.asm.jump_if(Cond::Eq, R4, raw(ethernet::QINQ), vlan);
        self.asm.jump_if(Cond::Eq, R4, raw(ethernet::PPPOE_SESSION), session);
        self.asm.jump(known);

        self.asm.bind(vlan);
        self.reach(R2, None, 18, self.next);
        self.asm.load(Width::H, R5, R2, 14);
        // With priority bits, which no flow has: such a tag finds none, as in the kernel.
        self.asm.swap(R5, 16);
        self.asm.alu(Alu::Lsh, R4, 16);
        self.asm.alu(Alu::Or, R5, R4);
        self.asm.load(Width::H, R4, R2, 16);
        self.asm.mov(OFFSET, 18);
        self.asm.jump(known);

        self.asm.bind(session);
        self.reach(R2, None, 22, self.next);
        self.asm.load(Width::H, R5, R2, 14);
        self.asm.jump_if(Cond::Ne, R5, raw(0x1100), self.next);
        self.asm.load(Width::H, R5, R2, 16);
        self.asm.swap(R5, 16);
        self.asm.alu(Alu::Lsh, R4, 16);
        self.asm.alu(Alu::Or, R5, R4);
        self.asm.load(Width::H, R0, R2, 20);
        self.asm.mov(OFFSET, 22);
        self.asm.mov(R4, raw(ethernet::IPV4));
        self.asm.jump_if(Cond::Eq, R0, raw(pppoe::IPV4), known);
        self.asm.mov(R4, raw(ethernet::IPV6));
        self.asm.jump_if(Cond::Ne, R0, raw(pppoe::IPV6), self.next);

        self.asm.bind(known);
        // One way from here on for all of them.
        self.asm.store(Width::W, R10, OPAQUE, OFFSET);
        self.asm.load(Width::W, OFFSET, R10, OPAQUE);
        self.asm.jump_if(Cond::Gt, OFFSET, FURTHEST, self.next);
        self.asm.jump_if(Cond::Eq, R4, raw(ethernet::IPV6), v6);
        self.asm.jump_if(Cond::Ne, R4, raw(ethernet::IPV4), self.next);
        v6
    }

    /// [`BYTES`] = what the frame has from [`OFFSET`] on.
    fn measure(&mut self) {
        match self.place {
            AttachPoint::Xdp => {
                self.asm.mov(R1, CONTEXT);
                self.asm.call(Helper::XdpBuffLen);
            }
            AttachPoint::Tcx => self.asm.load(Width::W, R0, CONTEXT, SKB_LEN),
        }
        self.asm.alu(Alu::Sub, R0, OFFSET);
        self.asm.store(Width::D, R10, BYTES, R0);
    }

    /// A header without options of a packet that is no fragment and does not end here.
    fn check4(&mut self) {
        let asm = &mut self.asm;
        asm.load(Width::B, R4, IP, 0);
        asm.jump_if(Cond::Ne, R4, 0x45, self.next);
        asm.load(Width::H, R4, IP, 6);
        // Offset and more fragments.
        asm.jump_if(Cond::Set, R4, raw(0x3fff), self.next);
        asm.load(Width::B, R4, IP, 8);
        asm.jump_if(Cond::Le, R4, 1, self.next);
    }

    /// Header, a tunnel in front of it taken off, and key.
    fn ipv4(&mut self) {
        self.asm.store(Width::W, R10, KEY + key4::TAG, R5);
        self.asm.store(Width::W, R10, KEY + key4::TUNNEL_SRC, 0);
        self.asm.store(Width::W, R10, KEY + key4::TUNNEL_DST, 0);
        self.reach(IP, Some(OFFSET), 28, self.next);
        self.check4();
        self.asm.load(Width::B, R5, IP, 9);
        if self.place == AttachPoint::Xdp {
            self.tunnel();
        }
        self.asm.load(Width::H, R0, IP, 2);
        self.asm.swap(R0, 16);
        for (from, to) in [(12, key4::SRC), (16, key4::DST), (20, key4::PORTS)] {
            self.asm.load(Width::W, R4, IP, from);
            self.asm.store(Width::W, R10, KEY + to, R4);
        }
    }

    /// Takes a tunnel in front of the packet off.
    fn tunnel(&mut self) {
        let plain = self.asm.label();
        self.asm.jump_if(Cond::Ne, R5, i32::from(protocol::IPIP), plain);
        // Marks that would have to be carried over to the packet inside (`INET_ECN_decapsulate()`).
        self.asm.load(Width::B, R4, IP, 1);
        self.asm.jump_if(Cond::Set, R4, i32::from(ecn::CE & ecn::ECT_1), self.next);
        for (from, to) in [(12, key4::TUNNEL_SRC), (16, key4::TUNNEL_DST)] {
            self.asm.load(Width::W, R4, IP, from);
            self.asm.store(Width::W, R10, KEY + to, R4);
        }
        self.asm.alu(Alu::Add, OFFSET, 20);
        self.reach(IP, Some(OFFSET), 28, self.next);
        self.check4();
        self.asm.load(Width::B, R5, IP, 9);
        self.asm.bind(plain);
    }

    fn ipv6(&mut self) {
        self.asm.store(Width::W, R10, KEY + key6::TAG, R5);
        self.reach(IP, Some(OFFSET), 48, self.next);
        self.asm.load(Width::B, R4, IP, 0);
        self.asm.alu(Alu::Rsh, R4, 4);
        self.asm.jump_if(Cond::Ne, R4, 6, self.next);
        self.asm.load(Width::B, R4, IP, 7);
        self.asm.jump_if(Cond::Le, R4, 1, self.next);
        self.asm.load(Width::B, R5, IP, 6);
        self.asm.load(Width::H, R0, IP, 4);
        self.asm.swap(R0, 16);
        self.asm.alu(Alu::Add, R0, 40);
        for at in (0..32).step_by(8) {
            self.asm.load(Width::D, R4, IP, 8 + at);
            self.asm.store(Width::D, R10, KEY + key6::SRC + at, R4);
        }
        self.asm.load(Width::W, R4, IP, 40);
        self.asm.store(Width::W, R10, KEY + key6::PORTS, R4);
    }

    /// From the header at [`IP`] on, its protocol in R5 and the packet's length in R0.
    fn family(&mut self, family: Family) {
        let udp = self.asm.label();
        let header = family.header();
        self.asm.store(Width::D, R10, LENGTH, R0);
        self.asm.store(Width::W, R10, family.protocol(), R5);
        // What the header says must be there, and hold the transport header.
        self.asm.mov(R2, R0);
        self.asm.jump_if(Cond::Eq, R5, i32::from(protocol::UDP), udp);
        self.asm.jump_if(Cond::Ne, R5, i32::from(protocol::TCP), self.next);
        self.asm.jump_if(Cond::Lt, R2, i32::from(header) + 20, self.next);
        self.reach(IP, Some(OFFSET), header + 20, self.next);
        self.asm.load(Width::B, R4, IP, header + 13);
        let closing = penstock_wire::tcp::flag::FIN
            | penstock_wire::tcp::flag::SYN
            | penstock_wire::tcp::flag::RST;
        self.asm.jump_if(Cond::Set, R4, i32::from(closing), self.next);
        self.asm.bind(udp);
        self.asm.jump_if(Cond::Lt, R2, i32::from(header) + 8, self.next);
        self.measure();
        self.asm.load(Width::D, R4, R10, LENGTH);
        self.asm.jump_if(Cond::Gt, R4, R0, self.next);
        self.asm.load(Width::W, R4, CONTEXT, fields(self.place).device);
        let (device, map) = match family {
            Family::V4 => (key4::DEVICE, &self.flows.v4),
            Family::V6 => (key6::DEVICE, &self.flows.v6),
        };
        self.asm.store(Width::W, R10, KEY + device, R4);
        self.asm.mov(R2, R10);
        self.asm.alu(Alu::Add, R2, i32::from(KEY));
        self.asm.map(R1, map);
        self.asm.call(Helper::MapLookup);
        self.asm.jump_if(Cond::Eq, R0, 0, self.next);
        self.asm.mov(FLOW, R0);
        self.fits(family);
        if self.site.unfinished && self.place == AttachPoint::Xdp {
            self.finished(family);
        }
        match self.place {
            AttachPoint::Xdp => {
                self.shift();
                self.count();
                self.rewrite(family);
                self.put_header(family);
                self.send();
            }
            AttachPoint::Tcx => {
                self.tags();
                self.count();
                self.store_headers(family);
                self.hand_on();
            }
        }
    }

    /// The packet, or what it will be cut into, is no larger than the MTU.
    fn fits(&mut self, family: Family) {
        let (whole, compare, udp) = (self.asm.label(), self.asm.label(), self.asm.label());
        let header = family.header();
        if self.place == AttachPoint::Tcx {
            self.asm.load(Width::W, R5, CONTEXT, SKB_GSO_SIZE);
            self.asm.jump_if(Cond::Eq, R5, 0, whole);
            self.asm.load(Width::W, R4, R10, family.protocol());
            self.asm.jump_if(Cond::Eq, R4, i32::from(protocol::UDP), udp);
            self.reach(IP, Some(OFFSET), header + 20, self.next);
            self.asm.load(Width::B, R4, IP, header + 12);
            self.asm.alu(Alu::Rsh, R4, 4);
            self.asm.alu(Alu::Lsh, R4, 2);
            self.asm.alu(Alu::Add, R5, i32::from(header));
            self.asm.alu(Alu::Add, R5, R4);
            self.asm.jump(compare);
            self.asm.bind(udp);
            self.asm.alu(Alu::Add, R5, i32::from(header) + 8);
            self.asm.jump(compare);
            self.asm.bind(whole);
        }
        self.asm.load(Width::D, R5, R10, LENGTH);
        self.asm.bind(compare);
        self.asm.load(Width::W, R4, FLOW, value::MTU);
        self.asm.jump_if(Cond::Gt, R5, R4, self.next);
    }

    /// A checksum that is the sum of the pseudo header, and nothing else, is about to be finished
    /// by a device.
    fn finished(&mut self, family: Family) {
        let (udp, compare) = (self.asm.label(), self.asm.label());
        let header = family.header();
        self.asm.load(Width::W, R5, R10, family.protocol());
        self.asm.jump_if(Cond::Eq, R5, i32::from(protocol::UDP), udp);
        self.reach(IP, Some(OFFSET), header + 20, self.next);
        self.asm.load(Width::H, R2, IP, header + 16);
        self.asm.jump(compare);
        self.asm.bind(udp);
        self.reach(IP, Some(OFFSET), header + 8, self.next);
        self.asm.load(Width::H, R2, IP, header + 6);
        self.asm.bind(compare);
        self.asm.load(Width::D, R4, R10, LENGTH);
        self.asm.alu(Alu::Sub, R4, i32::from(header));
        self.asm.swap(R4, 16);
        self.asm.load(Width::W, R5, R10, family.protocol());
        self.asm.swap(R5, 16);
        self.asm.alu(Alu::Add, R4, R5);
        let addresses = match family {
            Family::V4 => 12..20,
            Family::V6 => 8..40,
        };
        // Words of four bytes: their halves are added up when it is folded.
        for at in addresses.step_by(4) {
            self.asm.load(Width::W, R5, IP, at);
            self.asm.alu(Alu::Add, R4, R5);
        }
        self.asm.mov(R5, R4);
        self.asm.alu(Alu::Rsh, R5, 32);
        self.asm.alu32(Alu::Mov, R4, R4);
        self.asm.alu(Alu::Add, R4, R5);
        self.fold();
        self.fold();
        self.asm.jump_if(Cond::Eq, R4, R2, self.unfinished);
    }

    /// Moves the frame's beginning so that the new header fits in front of the packet.
    fn shift(&mut self) {
        let fits = self.asm.label();
        let asm = &mut self.asm;
        asm.mov(R2, OFFSET);
        asm.load(Width::W, OFFSET, FLOW, value::HEADER_LEN);
        asm.jump_if(Cond::Gt, OFFSET, i32::from(value::HEADER_MOST), self.next);
        asm.jump_if(Cond::Lt, OFFSET, 14, self.next);
        asm.alu(Alu::Sub, R2, OFFSET);
        asm.jump_if(Cond::Eq, R2, 0, fits);
        asm.mov(R1, CONTEXT);
        asm.call(Helper::XdpAdjustHead);
        // No room: the packet is as it came.
        asm.jump_if(Cond::Ne, R0, 0, self.next);
        asm.bind(fits);
    }

    fn count(&mut self) {
        let asm = &mut self.asm;
        asm.mov(R1, 1);
        asm.atomic_add(Width::D, FLOW, value::PACKETS, R1);
        asm.load(Width::D, R1, R10, BYTES);
        asm.atomic_add(Width::D, FLOW, value::BYTES, R1);
        asm.call(Helper::KtimeGetCoarseNs);
        asm.store(Width::D, FLOW, value::USED, R0);
    }

    /// R4 = the checksum `at` bytes after `base`, grown by differences that are in the flow at
    /// `deltas`. R5 is lost.
    pub(super) fn grow(&mut self, base: Reg, at: i16, deltas: &[i16]) {
        let asm = &mut self.asm;
        asm.load(Width::H, R4, base, at);
        asm.alu(Alu::Xor, R4, 0xffff);
        for delta in deltas {
            asm.load(Width::H, R5, FLOW, *delta);
            asm.alu(Alu::Add, R4, R5);
        }
        self.fold();
        self.asm.alu(Alu::Xor, R4, 0xffff);
    }

    /// TTL, addresses, ports, checksums.
    fn rewrite(&mut self, family: Family) {
        let done = self.asm.label();
        let header = family.header();
        self.reach(IP, Some(OFFSET), header + 8, self.drop);
        let ttl = match family {
            Family::V4 => 8,
            Family::V6 => 7,
        };
        self.asm.load(Width::B, R4, IP, ttl);
        self.asm.alu(Alu::Sub, R4, 1);
        self.asm.store(Width::B, IP, ttl, R4);
        if family == Family::V4 {
            self.grow(IP, 10, &[value::HEADER_DELTA]);
            self.asm.store(Width::H, IP, 10, R4);
        }
        self.unless_flag(TRANSLATED, done);
        match family {
            Family::V4 => {
                for (from, to) in [(value::SRC, 12), (value::DST, 16)] {
                    self.asm.load(Width::W, R4, FLOW, from);
                    self.asm.store(Width::W, IP, to, R4);
                }
            }
            Family::V6 => {
                for at in (0..32).step_by(8) {
                    self.asm.load(Width::D, R4, FLOW, value::SRC + at);
                    self.asm.store(Width::D, IP, 8 + at, R4);
                }
            }
        }
        self.asm.load(Width::W, R4, FLOW, value::PORTS);
        self.asm.store(Width::W, IP, header, R4);
        self.transport_checksum(family, done);
        self.asm.bind(done);
    }

    /// The transport's checksum, which is finished.
    fn transport_checksum(&mut self, family: Family, done: Label) {
        let (udp, some, store) = (self.asm.label(), self.asm.label(), self.asm.label());
        let header = family.header();
        let deltas = [value::ADDRESS_DELTA, value::PORT_DELTA];
        self.asm.load(Width::W, R4, R10, family.protocol());
        self.asm.jump_if(Cond::Eq, R4, i32::from(protocol::UDP), udp);
        self.reach(IP, Some(OFFSET), header + 20, self.drop);
        self.grow(IP, header + 16, &deltas);
        self.asm.store(Width::H, IP, header + 16, R4);
        self.asm.jump(done);
        self.asm.bind(udp);
        // A zero checksum stays zero, and a computed zero is written as 0xffff.
        self.asm.load(Width::H, R4, IP, header + 6);
        self.asm.jump_if(Cond::Ne, R4, 0, some);
        self.asm.jump(done);
        self.asm.bind(some);
        self.grow(IP, header + 6, &deltas);
        self.asm.jump_if(Cond::Ne, R4, 0, store);
        self.asm.mov(R4, 0xffff);
        self.asm.bind(store);
        self.asm.store(Width::H, IP, header + 6, R4);
    }

    /// Writes what stands in front of the packet.
    fn put_header(&mut self, family: Family) {
        let written = self.asm.label();
        self.reach(R2, None, 14, self.drop);
        for (width, at) in [(Width::D, 0), (Width::W, 8)] {
            self.asm.load(width, R4, FLOW, value::HEADER + at);
            self.asm.store(width, R2, at, R4);
        }
        self.asm.load(Width::H, R4, FLOW, value::HEADER + 12);
        self.asm.store(Width::H, R2, 12, R4);
        for at in (14..value::HEADER_MOST).step_by(4) {
            self.asm.jump_if(Cond::Le, OFFSET, i32::from(at), written);
            self.reach(R2, None, at + 4, self.drop);
            self.asm.load(Width::W, R4, FLOW, value::HEADER + at);
            self.asm.store(Width::W, R2, at, R4);
        }
        self.asm.bind(written);
        self.session_length();
        if family == Family::V4 {
            self.outer_header();
        }
    }

    /// `reg` = the address `back` bytes in front of the packet, of which `len` can be written. R1,
    /// R3 are lost.
    fn in_front(&mut self, reg: Reg, back: i16, len: i16) {
        self.asm.mov(R4, OFFSET);
        self.asm.jump_if(Cond::Lt, R4, i32::from(back), self.drop);
        self.asm.alu(Alu::Sub, R4, i32::from(back));
        self.reach(reg, Some(R4), len, self.drop);
    }

    /// A session header says how long the packet is, its protocol included.
    fn session_length(&mut self) {
        let none = self.asm.label();
        self.unless_flag(SESSION, none);
        self.in_front(R2, 4, 2);
        self.asm.load(Width::D, R4, R10, LENGTH);
        self.asm.alu(Alu::Add, R4, 2);
        self.asm.swap(R4, 16);
        self.asm.store(Width::H, R2, 0, R4);
        self.asm.bind(none);
    }

    /// What of an outer header depends on the packet: its length, identification, checksum, and
    /// what it has from the packet (`nf_flow_tunnel_ipip_push()`).
    fn outer_header(&mut self) {
        let (none, whole) = (self.asm.label(), self.asm.label());
        self.unless_flag(TUNNEL, none);
        self.reach(IP, Some(OFFSET), 20, self.drop);
        // What may not be cut needs no identification (RFC 6864), other packets one that others are
        // not likely to have.
        self.asm.mov(R0, 0);
        self.asm.load(Width::H, R4, FLOW, value::FLAGS);
        self.asm.mov(R5, raw(ipv4::DF));
        self.asm.jump_if(Cond::Set, R4, i32::from(TUNNEL_DF), whole);
        self.asm.load(Width::H, R5, IP, 6);
        self.asm.alu(Alu::And, R5, raw(ipv4::DF));
        self.asm.jump_if(Cond::Ne, R5, 0, whole);
        self.asm.call(Helper::Prandom);
        self.asm.alu(Alu::Or, R0, 1);
        self.asm.mov(R5, 0);
        self.asm.bind(whole);
        self.in_front(R2, 20, 20);
        self.asm.store(Width::H, R2, 4, R0);
        self.asm.store(Width::H, R2, 6, R5);
        self.asm.load(Width::D, R4, R10, LENGTH);
        self.asm.alu(Alu::Add, R4, 20);
        self.asm.swap(R4, 16);
        self.asm.store(Width::H, R2, 2, R4);
        let (own_ttl, own_tos, ecn) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.unless_flag(TUNNEL_TTL, own_ttl);
        self.asm.load(Width::B, R4, IP, 8);
        self.asm.store(Width::B, R2, 8, R4);
        self.asm.bind(own_ttl);
        // ECN is always the packet's, but for a mark of congestion (`INET_ECN_encapsulate()`).
        let asm = &mut self.asm;
        asm.load(Width::B, R5, IP, 1);
        asm.alu(Alu::And, R5, i32::from(ecn::MASK));
        asm.jump_if(Cond::Ne, R5, i32::from(ecn::CE), ecn);
        asm.mov(R5, i32::from(ecn::ECT_0));
        asm.bind(ecn);
        asm.load(Width::B, R0, R2, 1);
        self.unless_flag(TUNNEL_TOS, own_tos);
        self.asm.load(Width::B, R0, IP, 1);
        self.asm.bind(own_tos);
        let asm = &mut self.asm;
        asm.alu(Alu::And, R0, i32::from(!ecn::MASK));
        asm.alu(Alu::Or, R0, R5);
        asm.store(Width::B, R2, 1, R0);
        asm.mov(R4, 0);
        for at in (0..20).step_by(2).filter(|at| *at != 10) {
            asm.load(Width::H, R5, R2, at);
            asm.alu(Alu::Add, R4, R5);
        }
        self.fold();
        self.asm.alu(Alu::Xor, R4, 0xffff);
        self.asm.store(Width::H, R2, 10, R4);
        self.asm.bind(none);
    }

    /// Goes to a label where a flow has not a flag. R4 is lost.
    pub(super) fn unless_flag(&mut self, flag: u16, to: Label) {
        self.asm.load(Width::H, R4, FLOW, value::FLAGS);
        self.asm.alu(Alu::And, R4, i32::from(flag));
        self.asm.jump_if(Cond::Eq, R4, 0, to);
    }

    /// R4, a sum of 16-bit words, becomes one in the arithmetic of checksums. R5 is lost.
    fn fold(&mut self) {
        let asm = &mut self.asm;
        for _ in 0..2 {
            asm.mov(R5, R4);
            asm.alu(Alu::Rsh, R5, 16);
            asm.alu(Alu::And, R4, 0xffff);
            asm.alu(Alu::Add, R4, R5);
        }
    }

    /// In XDP.
    fn send(&mut self) {
        self.asm.load(Width::W, R2, FLOW, value::DEVICE);
        self.asm.map(R1, &self.flows.devices);
        // A device that is gone: dropped.
        self.asm.mov(R3, xdp::DROP);
        self.asm.call(Helper::RedirectMap);
        self.asm.exit();
    }
}
