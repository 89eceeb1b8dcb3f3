// SPDX-License-Identifier: Apache-2.0

//! Which tuple a packet has that has come to a device, and what it is before its connection is known,
//! as the kernel's tracker finds them (`nf_ct_get_tuple()`, `tcp_error()`, `udp_error()`,
//! `nf_conntrack_inet_error()`).

use penstock_bpf::ProgramKind;
use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg, Reg::*, Width};
use penstock_conntrack::TcpTable;
use penstock_wire::{ethernet, icmp, icmpv6, ipv4, ipv6, protocol, tcp, udp};

use super::Compiler;
use super::frame::*;

/// Context and the caller's frame, while the function runs; the entry, once there is one.
pub(super) const OWN_CONTEXT: Reg = R6;
pub(super) const FRAME: Reg = R7;
/// Where the transport header is; later the entry that is to be released.
pub(super) const AT: Reg = R8;
/// What the packet is: ten times the kind of its segment, or one of the next three. Later what it
/// is to its connection (`enum ip_conntrack_info`), at last the bits of fields.
pub(super) const WHAT: Reg = R9;
pub(super) const DATAGRAM: i32 = 60;
pub(super) const ERROR: i32 = 61;

/// Kinds of segments, ten times their numbers in [`TcpTable`].
pub(super) const SYN: i32 = 0;
pub(super) const SYN_ACK: i32 = 10;
pub(super) const FIN: i32 = 20;
pub(super) const ACK: i32 = 30;
pub(super) const RST: i32 = 40;
pub(super) const NEITHER: i32 = 50;

/// In the caller's frame: headers of IP, which end where the transport header begins. So addresses
/// and ports are a tuple as the kernel takes it (`struct bpf_sock_tuple`).
pub(super) const TRANSPORT: i16 = SCRATCH + 40;
pub(super) const HEADER4: i16 = TRANSPORT - ipv4::LEN as i16;
pub(super) const HEADER6: i16 = TRANSPORT - ipv6::LEN as i16;
pub(super) const TUPLE4: i16 = TRANSPORT - 8;
pub(super) const TUPLE6: i16 = TRANSPORT - 32;

/// Bytes of both ports: as many as the tracker wants of a transport header that is quoted.
pub(super) const PORTS: usize = 4;

/// In the function's frame: `struct bpf_ct_opts`; the length of what IP carries, and later the
/// destination of an ICMP error.
pub(super) const OPTIONS: i16 = -16;
pub(super) const OPTIONS_LEN: i32 = 12;
pub(super) const OPTIONS_DIR: i16 = OPTIONS + 9;
pub(super) const CARRIED: i16 = -32;
pub(super) const TARGET: i16 = -32;

/// Where the function goes on, and ends.
pub(super) struct Ways {
    /// Not tracked, or tracked in a way that a lookup cannot tell.
    pub(super) untracked: Label,
    pub(super) invalid: Label,
    /// The tuple is complete, for IPv4 and IPv6.
    pub(super) find: [Label; 2],
    pub(super) none: Label,
    pub(super) new: Label,
    pub(super) end: Label,
}

impl Compiler<'_> {
    /// `len` bytes of the packet from [`AT`] on, into the caller's frame.
    fn load_to(&mut self, to: i16, len: usize, missing: Label) {
        let helper = match self.job.place.kind() {
            ProgramKind::Xdp => Helper::XdpLoadBytes,
            _ => Helper::SkbLoadBytes,
        };
        let asm = &mut self.asm;
        asm.mov(R1, OWN_CONTEXT);
        asm.mov(R2, AT);
        asm.mov(R3, FRAME);
        asm.alu(Alu::Add, R3, i32::from(to));
        asm.mov(R4, len as i32);
        asm.call(helper);
        asm.jump_if(Cond::Ne, R0, 0, missing);
    }

    /// Addresses and ports, or why there are none.
    pub(super) fn tuple(&mut self, ways: &Ways) {
        let [v6, transport4, transport6, segment, datagram] = [(); 5].map(|()| self.asm.label());
        let asm = &mut self.asm;
        asm.load(Width::D, AT, FRAME, NETWORK);
        asm.load(Width::D, R4, FRAME, ETHERTYPE);
        asm.jump_if(Cond::Eq, R4, i32::from(ethernet::IPV6), v6);
        asm.jump_if(Cond::Ne, R4, i32::from(ethernet::IPV4), ways.untracked);
        self.header4(ways.untracked);
        let asm = &mut self.asm;
        // The tracker sees a datagram in one piece.
        asm.load(Width::H, R1, FRAME, HEADER4 + 6);
        asm.swap(R1, 16);
        asm.jump_if(Cond::Set, R1, i32::from(MORE | OFFSET), ways.untracked);
        asm.load(Width::H, R1, FRAME, HEADER4 + 2);
        asm.swap(R1, 16);
        asm.alu(Alu::Sub, R1, R5);
        asm.store(Width::D, R10, CARRIED, R1);
        asm.jump(transport4);
        asm.bind(v6);
        self.header6(ways.untracked);
        let asm = &mut self.asm;
        asm.load(Width::H, R1, FRAME, HEADER6 + 4);
        asm.swap(R1, 16);
        asm.store(Width::D, R10, CARRIED, R1);
        asm.jump(transport6);

        let (icmp4, icmp6) = (asm.label(), asm.label());
        for (here, protocol, icmp) in
            [(transport4, protocol::ICMP, icmp4), (transport6, protocol::ICMPV6, icmp6)]
        {
            let asm = &mut self.asm;
            asm.bind(here);
            asm.jump_if(Cond::Eq, R4, i32::from(protocol::TCP), segment);
            asm.jump_if(Cond::Eq, R4, i32::from(protocol::UDP), datagram);
            asm.jump_if(Cond::Eq, R4, i32::from(protocol), icmp);
            asm.jump(ways.untracked);
        }
        self.asm.bind(segment);
        self.segment(ways);
        self.by_family(ways.find);
        self.asm.bind(datagram);
        self.datagram(ways);
        self.by_family(ways.find);
        self.asm.bind(icmp4);
        self.icmp4(ways);
        self.asm.bind(icmp6);
        self.icmp6(ways);
    }

    /// An IPv4 header at [`AT`], which becomes where it ends; R4 = protocol, R5 = its length.
    fn header4(&mut self, missing: Label) {
        self.load_to(HEADER4, ipv4::LEN, missing);
        let asm = &mut self.asm;
        asm.load(Width::B, R5, FRAME, HEADER4);
        asm.alu(Alu::And, R5, 15);
        asm.alu(Alu::Lsh, R5, 2);
        asm.alu(Alu::Add, AT, R5);
        asm.load(Width::B, R4, FRAME, HEADER4 + 9);
    }

    /// An IPv6 header at [`AT`], which becomes where it ends; R4 = what follows.
    fn header6(&mut self, missing: Label) {
        self.load_to(HEADER6, ipv6::LEN, missing);
        self.asm.alu(Alu::Add, AT, ipv6::LEN as i32);
        self.asm.load(Width::B, R4, FRAME, HEADER6 + 6);
    }

    /// Goes on by the family of the packet.
    fn by_family(&mut self, to: [Label; 2]) {
        self.asm.load(Width::D, R4, FRAME, ETHERTYPE);
        let [v4, v6] = to;
        self.asm.jump_if(Cond::Eq, R4, i32::from(ethernet::IPV6), v6);
        self.asm.jump(v4);
    }

    /// [`WHAT`] a segment is (`tcp_error()`).
    fn segment(&mut self, ways: &Ways) {
        /// All flags but PSH, ECE and CWR.
        const FLAGS: i32 = 0x37;
        /// Up to the flags.
        const START: usize = 14;
        self.load_to(TRANSPORT, START, ways.invalid);
        let asm = &mut self.asm;
        asm.load(Width::B, R1, FRAME, TRANSPORT + 12);
        asm.alu(Alu::Rsh, R1, 4);
        asm.alu(Alu::Lsh, R1, 2);
        asm.jump_if(Cond::Lt, R1, tcp::LEN as i32, ways.invalid);
        asm.load(Width::D, R2, R10, CARRIED);
        asm.jump_if(Cond::SignedGt, R1, R2, ways.invalid);
        asm.load(Width::B, R1, FRAME, TRANSPORT + 13);
        asm.alu(Alu::And, R1, FLAGS);
        asm.mov64(R2, TcpTable::new().flags);
        asm.alu(Alu::Rsh, R2, R1);
        asm.alu(Alu::And, R2, 1);
        asm.jump_if(Cond::Eq, R2, 0, ways.invalid);
        use tcp::flag;
        let (known, syn) = (asm.label(), asm.label());
        asm.mov(WHAT, RST);
        asm.jump_if(Cond::Set, R1, i32::from(flag::RST), known);
        asm.jump_if(Cond::Set, R1, i32::from(flag::SYN), syn);
        asm.mov(WHAT, FIN);
        asm.jump_if(Cond::Set, R1, i32::from(flag::FIN), known);
        asm.mov(WHAT, ACK);
        asm.jump_if(Cond::Set, R1, i32::from(flag::ACK), known);
        asm.mov(WHAT, NEITHER);
        asm.jump(known);
        asm.bind(syn);
        asm.mov(WHAT, SYN_ACK);
        asm.jump_if(Cond::Set, R1, i32::from(flag::ACK), known);
        asm.mov(WHAT, SYN);
        asm.bind(known);
        self.options(protocol::TCP);
    }

    /// A datagram (`udp_error()`).
    fn datagram(&mut self, ways: &Ways) {
        self.load_to(TRANSPORT, udp::LEN, ways.invalid);
        let asm = &mut self.asm;
        asm.load(Width::H, R1, FRAME, TRANSPORT + 4);
        asm.swap(R1, 16);
        asm.jump_if(Cond::Lt, R1, udp::LEN as i32, ways.invalid);
        asm.load(Width::D, R2, R10, CARRIED);
        asm.jump_if(Cond::SignedGt, R1, R2, ways.invalid);
        asm.mov(WHAT, DATAGRAM);
        self.options(protocol::UDP);
    }

    /// What is asked for: in the namespace of the packet, in zone 0.
    fn options(&mut self, protocol: u8) {
        let asm = &mut self.asm;
        asm.store(Width::W, R10, OPTIONS, -1);
        asm.store(Width::W, R10, OPTIONS + 4, 0);
        asm.store(Width::W, R10, OPTIONS + 8, 0);
        asm.store(Width::B, R10, OPTIONS + 8, i32::from(protocol));
    }

    /// ICMP: errors have the connection of what they quote; echoes and other requests have entries
    /// that no function finds.
    fn icmp4(&mut self, ways: &Ways) {
        /// `NR_ICMP_TYPES`
        const TYPES: u8 = 18;
        self.load_to(TRANSPORT, icmp::LEN, ways.invalid);
        let error = self.asm.label();
        self.asm.load(Width::B, R1, FRAME, TRANSPORT);
        for kind in 0..=TYPES {
            // A request or an answer, of which the rest is none (`invmap`).
            let to = match kind {
                _ if icmp::is_error(kind) => error,
                icmp::ECHO_REPLY | icmp::ECHO_REQUEST | 13..=18 => ways.untracked,
                _ => continue,
            };
            self.asm.jump_if(Cond::Eq, R1, i32::from(kind), to);
        }
        self.asm.jump(ways.invalid);
        self.asm.bind(error);
        self.asm.load(Width::W, R1, FRAME, HEADER4 + 16);
        self.asm.store(Width::W, R10, TARGET, R1);
        self.asm.alu(Alu::Add, AT, icmp::LEN as i32);
        self.header4(ways.invalid);
        self.asm.load(Width::H, R1, FRAME, HEADER4 + 6);
        self.asm.swap(R1, 16);
        self.asm.jump_if(Cond::Set, R1, i32::from(OFFSET), ways.invalid);
        self.quoted(TUPLE4, Width::W, 1, ways);
        self.asm.jump(ways.find[0]);
    }

    fn icmp6(&mut self, ways: &Ways) {
        self.load_to(TRANSPORT, icmpv6::LEN, ways.invalid);
        let error = self.asm.label();
        self.asm.load(Width::B, R1, FRAME, TRANSPORT);
        self.asm.jump_if(Cond::Lt, R1, 128, error);
        // Neighbours, routers and memberships are not tracked; of a redirect it depends on what it
        // quotes.
        const QUERY: u8 = 139;
        const ANSWER: u8 = 140;
        use icmpv6::*;
        for kind in [
            ECHO_REQUEST,
            ECHO_REPLY,
            MLD_QUERY,
            MLD_REPORT,
            MLD_DONE,
            ROUTER_SOLICITATION,
            ROUTER_ADVERTISEMENT,
            NEIGHBOUR_SOLICITATION,
            NEIGHBOUR_ADVERTISEMENT,
            REDIRECT,
            QUERY,
            ANSWER,
            MLD2_REPORT,
        ] {
            self.asm.jump_if(Cond::Eq, R1, i32::from(kind), ways.untracked);
        }
        self.asm.jump(ways.invalid);
        self.asm.bind(error);
        for at in [0, 8] {
            self.asm.load(Width::D, R1, FRAME, HEADER6 + 24 + at);
            self.asm.store(Width::D, R10, TARGET + at, R1);
        }
        self.asm.alu(Alu::Add, AT, icmpv6::LEN as i32);
        self.header6(ways.invalid);
        self.quoted(TUPLE6, Width::D, 2, ways);
        self.asm.jump(ways.find[1]);
    }

    /// The tuple of an answer to what an ICMP error quotes, of protocol R4, if it has ports.
    fn quoted(&mut self, tuple: i16, width: Width, words: i16, ways: &Ways) {
        let (udp, ports) = (self.asm.label(), self.asm.label());
        self.asm.jump_if(Cond::Eq, R4, i32::from(protocol::UDP), udp);
        self.asm.jump_if(Cond::Ne, R4, i32::from(protocol::TCP), ways.untracked);
        self.options(protocol::TCP);
        self.asm.jump(ports);
        self.asm.bind(udp);
        self.options(protocol::UDP);
        self.asm.bind(ports);
        self.load_to(TRANSPORT, PORTS, ways.invalid);
        let size = if matches!(width, Width::D) { 8 } else { 4 };
        for word in 0..words {
            self.exchange(width, tuple + word * size, tuple + (words + word) * size);
        }
        self.exchange(Width::H, TRANSPORT, TRANSPORT + 2);
        self.asm.mov(WHAT, ERROR);
    }

    /// Exchanges two numbers in the caller's frame.
    fn exchange(&mut self, width: Width, a: i16, b: i16) {
        self.asm.load(width, R1, FRAME, a);
        self.asm.load(width, R2, FRAME, b);
        self.asm.store(width, FRAME, a, R2);
        self.asm.store(width, FRAME, b, R1);
    }
}

/// Bits of the fragment offset, and the flag that more fragments follow.
const OFFSET: u16 = 0x1fff;
const MORE: u16 = 0x2000;
