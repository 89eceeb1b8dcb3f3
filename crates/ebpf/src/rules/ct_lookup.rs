// SPDX-License-Identifier: Apache-2.0

//! `ct` at devices, where packets come before the kernel tracks them: a function that looks up what
//! its tracker is going to say (`nf_conntrack_in()`).
//!
//! ```text
//! packet -> tuple -> entry -> state table of TCP -> state, fields
//!             |        \-> none: new, or no beginning
//!             \-> none: untracked, or malformed
//! ```
//!
//! Rules call it when the first of them asks for the connection. The verifier looks at it once,
//! however many rules do. It has a frame of 32 bytes; headers are read into the caller's.

use penstock_bpf::ProgramKind;
use penstock_bpf::asm::{Alu, Cond, Label, Reg, Reg::*, Width};
use penstock_conntrack::{TcpTable, status};
use penstock_wire::ethernet;

use super::chain::Rule;
use super::ct::{INFO, INVALID, IS_REPLY, IS_UNTRACKED, TEMPLATE, UNTRACKED};
use super::ct_field::CtField;
use super::ct_tuple::*;
use super::frame::*;
use super::kernel::{Conn, ConnLookup, Kernel, NetPath};
use super::{Compiler, Place};

/// `enum ip_conntrack_info`
const RELATED: i32 = 1;
const NEW: i32 = 2;

/// `IP_CT_TCP_FLAG_CLOSE_INIT`: this side has closed the connection.
const CLOSE_INIT: i32 = 4;

impl Compiler<'_> {
    /// Looks the packet's connection up, unless that has been done.
    pub(super) fn look_up_connection(&mut self, rule: &mut Rule) {
        let Some(bit) = self.plan.looked_up else { return };
        if rule.granted & 1 << bit != 0 {
            return;
        }
        rule.granted |= 1 << bit;
        let function = *self.look_up.get_or_insert_with(|| self.asm.label());
        let memory = u32::from(self.plan.slots.lowest().unsigned_abs());
        let done = self.asm.label();
        self.asm.mov(R1, PRESENT);
        self.asm.alu(Alu::Rsh, R1, i32::from(bit));
        self.asm.alu(Alu::And, R1, 1);
        self.asm.jump_if(Cond::Ne, R1, 0, done);
        self.asm.mov(R1, CONTEXT);
        self.asm.mov(R2, R10);
        self.asm.alu(Alu::Add, R2, i32::from(self.plan.slots.lowest()));
        self.asm.call_global(function, memory);
        self.asm.alu(Alu::Or, PRESENT, R0);
        self.asm.bind(done);
    }

    /// The function: context and the caller's frame to the bits of fields that the packet has.
    pub(super) fn look_up_function(&mut self) {
        let (Some(function), Some(bit)) = (self.look_up, self.plan.looked_up) else { return };
        let Ok(kernel) = Kernel::running() else { return };
        let (Some(conn), Some(lookup), Some(net)) = (&kernel.conn, &kernel.lookup, &kernel.net)
        else {
            return;
        };
        let ways = Ways {
            untracked: self.asm.label(),
            invalid: self.asm.label(),
            find: [self.asm.label(), self.asm.label()],
            none: self.asm.label(),
            new: self.asm.label(),
            end: self.asm.label(),
        };
        self.asm.bind(function);
        let frame = self.asm.label();
        self.asm.jump_if(Cond::Ne, R2, 0, frame);
        self.asm.exit_with(0);
        self.asm.bind(frame);
        self.asm.mov(OWN_CONTEXT, R1);
        self.asm.mov(FRAME, R2);
        self.asm.alu(Alu::Sub, FRAME, i32::from(self.plan.slots.lowest()));
        if matches!(self.job.place, Place::TcxIngress(_)) {
            self.known_connection(kernel, conn, &ways);
        }
        self.tuple(&ways);
        self.find(kernel, conn, lookup, &ways);
        self.first_packet(kernel, net, lookup, &ways);
        let asm = &mut self.asm;
        asm.bind(ways.untracked);
        asm.mov(R4, UNTRACKED);
        let state = asm.label();
        asm.jump(state);
        asm.bind(ways.invalid);
        asm.mov(R4, INVALID);
        asm.bind(state);
        if let Some(slot) = self.plan.slots.find(Field::Ct(CtField::State)) {
            self.asm.store(Width::W, FRAME, slot.at, R4);
        }
        let asm = &mut self.asm;
        asm.mov(WHAT, 0);
        asm.bind(ways.end);
        asm.mov(R0, WHAT);
        asm.mov64(R1, 1 << bit);
        asm.alu(Alu::Or, R0, R1);
        asm.exit();
    }

    /// What came over the loopback device has its connection, or is not tracked, already: the
    /// tracker leaves it alone.
    fn known_connection(&mut self, kernel: &Kernel, conn: &Conn, ways: &Ways) {
        let Some(nfct) = kernel.skb.nfct else { return };
        let asm = &mut self.asm;
        let none = asm.label();
        asm.mov(R1, OWN_CONTEXT);
        asm.call_kfunc(kernel.of_context);
        asm.load(Width::D, R1, R0, nfct);
        asm.mov(WHAT, R1);
        asm.alu(Alu::And, WHAT, INFO);
        asm.jump_if(Cond::Eq, WHAT, IS_UNTRACKED, ways.untracked);
        asm.alu(Alu::And, R1, !INFO);
        asm.jump_if(Cond::Eq, R1, 0, none);
        asm.mov(R2, 0);
        asm.call_kfunc(kernel.cast);
        asm.load(Width::W, R4, R0, conn.status);
        asm.jump_if(Cond::Set, R4, TEMPLATE, none);
        asm.mov(OWN_CONTEXT, R0);
        self.fields_of(conn, None);
        self.asm.jump(ways.end);
        self.asm.bind(none);
    }

    /// Finds the entry, and what the packet is to it.
    fn find(&mut self, kernel: &Kernel, conn: &Conn, lookup: &ConnLookup, ways: &Ways) {
        let asm = &mut self.asm;
        let (call, drop) = (asm.label(), asm.label());
        for (here, tuple) in ways.find.iter().zip([TUPLE4, TUPLE6]) {
            asm.bind(*here);
            asm.mov(R2, FRAME);
            asm.alu(Alu::Add, R2, i32::from(tuple));
            asm.mov(R3, i32::from(TRANSPORT - tuple) + PORTS as i32);
            asm.jump(call);
        }
        asm.bind(call);
        asm.mov(R1, OWN_CONTEXT);
        asm.mov(R4, R10);
        asm.alu(Alu::Add, R4, i32::from(OPTIONS));
        asm.mov(R5, OPTIONS_LEN);
        asm.call_kfunc(match self.job.place.kind() {
            ProgramKind::Xdp => lookup.xdp,
            _ => lookup.skb,
        });
        let asm = &mut self.asm;
        asm.jump_if(Cond::Eq, R0, 0, ways.none);
        asm.mov(AT, R0);
        asm.mov(R1, R0);
        asm.mov(R2, 0);
        asm.call_kfunc(kernel.cast);
        let (datagram, error, known) = (asm.label(), asm.label(), asm.label());
        // The context is kept where a closed connection is opened again.
        asm.jump_if(Cond::Eq, WHAT, DATAGRAM, datagram);
        asm.jump_if(Cond::Eq, WHAT, ERROR, error);
        self.state_table(lookup, drop, ways);
        let asm = &mut self.asm;
        asm.bind(datagram);
        asm.load(Width::B, R1, R10, OPTIONS_DIR);
        asm.mov(WHAT, IS_REPLY);
        asm.jump_if(Cond::Ne, R1, 0, known);
        asm.load(Width::W, R1, R0, conn.status);
        asm.mov(WHAT, 0);
        asm.jump_if(Cond::Set, R1, status::SEEN_REPLY as i32, known);
        asm.mov(WHAT, RELATED);
        asm.jump_if(Cond::Set, R1, status::EXPECTED as i32, known);
        asm.mov(WHAT, NEW);
        asm.jump(known);
        asm.bind(error);
        self.error_target(conn, drop);
        let asm = &mut self.asm;
        asm.bind(known);
        asm.mov(OWN_CONTEXT, R0);
        self.fields_of(conn, Some(lookup));
        let asm = &mut self.asm;
        asm.jump(ways.end);
        asm.bind(drop);
        asm.mov(R1, AT);
        asm.call_kfunc(lookup.release);
        asm.jump(ways.invalid);
    }

    /// Which segments a connection at R0 takes, whatever its windows are
    /// (`nf_conntrack_tcp_packet()`).
    fn state_table(&mut self, lookup: &ConnLookup, drop: Label, ways: &Ways) {
        /// States are less than that.
        const STATES: i32 = 10;
        let table = TcpTable::new();
        let asm = &mut self.asm;
        let (reply, known, good, again) = (asm.label(), asm.label(), asm.label(), asm.label());
        asm.load(Width::B, R1, R0, lookup.state);
        asm.jump_if(Cond::Ge, R1, STATES, drop);
        asm.alu(Alu::Add, R1, WHAT);
        asm.alu(Alu::And, R1, 63);
        asm.load(Width::B, R5, R10, OPTIONS_DIR);
        asm.jump_if(Cond::Ne, R5, 0, reply);
        let ([invalid, invalid_reply], [reopens, reopens_reply]) = (table.invalid, table.reopens);
        asm.mov64(R2, invalid);
        asm.mov64(R3, reopens);
        asm.jump(known);
        asm.bind(reply);
        asm.mov64(R2, invalid_reply);
        asm.mov64(R3, reopens_reply);
        asm.bind(known);
        asm.alu(Alu::Rsh, R2, R1);
        asm.alu(Alu::And, R2, 1);
        asm.jump_if(Cond::Ne, R2, 0, drop);
        asm.alu(Alu::Rsh, R3, R1);
        asm.alu(Alu::And, R3, 1);
        asm.jump_if(Cond::Eq, R3, 0, good);
        // A closed connection: one side has closed it, or this one has aborted it.
        for at in lookup.flags {
            asm.load(Width::B, R1, R0, at);
            asm.jump_if(Cond::Set, R1, CLOSE_INIT, again);
        }
        asm.load(Width::B, R1, R0, lookup.last_dir);
        asm.jump_if(Cond::Ne, R1, R5, good);
        asm.load(Width::B, R1, R0, lookup.last_index);
        asm.jump_if(Cond::Ne, R1, RST / 10, good);
        asm.bind(again);
        asm.mov(R1, AT);
        asm.call_kfunc(lookup.release);
        asm.jump(ways.new);
        asm.bind(good);
    }

    /// [`WHAT`] an ICMP error is to the connection at R0: its receiver is who sent what it quotes
    /// (`nf_conntrack_inet_error()`).
    fn error_target(&mut self, conn: &Conn, drop: Label) {
        let (reply, compared) = (self.asm.label(), self.asm.label());
        self.asm.load(Width::B, R1, R10, OPTIONS_DIR);
        self.asm.jump_if(Cond::Ne, R1, 0, reply);
        self.asm.mov(WHAT, RELATED);
        self.compare_target(conn.tuples[0] + conn.dst, drop);
        self.asm.jump(compared);
        self.asm.bind(reply);
        self.asm.mov(WHAT, RELATED + IS_REPLY);
        self.compare_target(conn.tuples[1] + conn.dst, drop);
        self.asm.bind(compared);
    }

    /// Goes to `other` unless the address `at` R0 is that of the receiver.
    fn compare_target(&mut self, at: i16, other: Label) {
        let asm = &mut self.asm;
        let (v6, same) = (asm.label(), asm.label());
        asm.load(Width::D, R4, FRAME, ETHERTYPE);
        asm.jump_if(Cond::Eq, R4, i32::from(ethernet::IPV6), v6);
        asm.load(Width::W, R1, R0, at);
        asm.load(Width::W, R2, R10, TARGET);
        asm.jump_if(Cond::Ne, R1, R2, other);
        asm.jump(same);
        asm.bind(v6);
        for part in [0, 8] {
            asm.load(Width::D, R1, R0, at + part);
            asm.load(Width::D, R2, R10, TARGET + part);
            asm.jump_if(Cond::Ne, R1, R2, other);
        }
        asm.bind(same);
    }

    /// All fields of the connection at [`OWN_CONTEXT`], to which the packet is [`WHAT`]; the entry at
    /// [`AT`] is released.
    fn fields_of(&mut self, conn: &Conn, lookup: Option<&ConnLookup>) {
        let fields = self.plan.slots.connection();
        for (field, slot) in &fields {
            match *field {
                CtField::State => self.state_bit(WHAT),
                CtField::Direction => self.direction(WHAT),
                CtField::Status => {
                    // The tracker notes that there was an answer when it sees it.
                    let other = self.asm.label();
                    self.asm.load(Width::W, R4, OWN_CONTEXT, conn.status);
                    self.asm.jump_if(Cond::Ne, WHAT, IS_REPLY, other);
                    self.asm.alu(Alu::Or, R4, status::SEEN_REPLY as i32);
                    self.asm.bind(other);
                }
                _ => {
                    if let Some(at) = conn.place_of(*field) {
                        self.copy_field(OWN_CONTEXT, at, *slot, field.len());
                    }
                    continue;
                }
            }
            self.asm.store(Width::W, FRAME, slot.at, R4);
        }
        if let Some(lookup) = lookup {
            self.asm.mov(R1, AT);
            self.asm.call_kfunc(lookup.release);
        }
        self.all_present();
    }

    /// A field of one of the lengths that there are, into the caller's frame.
    fn copy_field(&mut self, base: Reg, at: i16, slot: Slot, len: u8) {
        let parts: &[(i16, Width)] = match len {
            1 => &[(0, Width::B)],
            2 => &[(0, Width::H)],
            4 => &[(0, Width::W)],
            _ => &[(0, Width::D), (8, Width::D)],
        };
        for (more, width) in parts {
            self.asm.load(*width, R4, base, at + more);
            let to = if matches!(width, Width::D) { Width::D } else { Width::W };
            self.asm.store(to, FRAME, slot.at + more, R4);
        }
    }

    /// [`WHAT`] = the bits of all fields of the connection that the packet's family has.
    fn all_present(&mut self) {
        let (mut v4, mut v6) = (0_u64, 0_u64);
        for (field, slot) in self.plan.slots.connection() {
            let bit = slot.bit.map_or(0, |bit| 1 << bit);
            let (in_v4, in_v6) = match field {
                CtField::Address { v6, .. } => (!v6, v6),
                _ => (true, true),
            };
            v4 |= if in_v4 { bit } else { 0 };
            v6 |= if in_v6 { bit } else { 0 };
        }
        let asm = &mut self.asm;
        asm.mov64(WHAT, v4);
        if v4 != v6 {
            let four = asm.label();
            asm.load(Width::D, R4, FRAME, ETHERTYPE);
            asm.jump_if(Cond::Ne, R4, i32::from(ethernet::IPV6), four);
            asm.mov64(WHAT, v6);
            asm.bind(four);
        }
    }

    /// Without an entry: whether a connection begins, and what the tracker puts into its entry.
    fn first_packet(&mut self, kernel: &Kernel, net: &NetPath, lookup: &ConnLookup, ways: &Ways) {
        let asm = &mut self.asm;
        asm.bind(ways.none);
        asm.jump_if(Cond::Eq, WHAT, ERROR, ways.invalid);
        asm.jump_if(Cond::Eq, WHAT, DATAGRAM, ways.new);
        asm.jump_if(Cond::Eq, WHAT, SYN, ways.new);
        let begins = TcpTable::new().begins;
        let middle = [SYN_ACK, FIN, ACK, RST, NEITHER].into_iter();
        let middle: Vec<_> = middle.filter(|what| begins >> (what / 10) & 1 == 1).collect();
        let loose = asm.label();
        for what in middle {
            asm.jump_if(Cond::Eq, WHAT, what, loose);
        }
        asm.jump(ways.invalid);
        asm.bind(loose);
        self.network_namespace(kernel, net, OWN_CONTEXT);
        self.asm.load(Width::B, R1, R0, lookup.net_loose);
        self.asm.jump_if(Cond::Eq, R1, 0, ways.invalid);
        self.asm.bind(ways.new);
        for (field, slot) in self.plan.slots.connection() {
            let asm = &mut self.asm;
            match field {
                CtField::State => {
                    asm.mov(R4, 2 << NEW);
                    asm.store(Width::W, FRAME, slot.at, R4);
                }
                // All zero.
                CtField::Direction | CtField::Status | CtField::Mark | CtField::Zone => {}
                CtField::L3Protocol => {
                    let v6 = asm.label();
                    asm.load(Width::D, R5, FRAME, ETHERTYPE);
                    asm.mov(R4, i32::from(libc::NFPROTO_IPV6 as u8));
                    asm.jump_if(Cond::Eq, R5, i32::from(ethernet::IPV6), v6);
                    asm.mov(R4, i32::from(libc::NFPROTO_IPV4 as u8));
                    asm.bind(v6);
                    asm.store(Width::W, FRAME, slot.at, R4);
                }
                CtField::Protocol => {
                    asm.load(Width::B, R4, R10, OPTIONS + 8);
                    asm.store(Width::W, FRAME, slot.at, R4);
                }
                CtField::Address { source, reply, v6 } => {
                    let (from, len) = if v6 { (TUPLE6, 16) } else { (TUPLE4, 4) };
                    let from = if source != reply { from } else { from + len };
                    self.copy_field(FRAME, from, slot, len as u8);
                }
                CtField::Port { source, reply } => {
                    let from = if source != reply { TRANSPORT } else { TRANSPORT + 2 };
                    self.copy_field(FRAME, from, slot, 2);
                }
            }
        }
        self.all_present();
        self.asm.jump(ways.end);
    }
}
