// SPDX-License-Identifier: Apache-2.0

//! `fib`: what the routing tables say of an address of the packet (`net/netfilter/nft_fib.c`).
//!
//! Ranges of addresses of which the same is said are of one class, which is found as an element of
//! a set is. Where the answer depends on the packet's device, class and device are looked up, too.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg::*, Width};
use penstock_bpf::netfilter::{InetFamily, InetHook};
use penstock_bpf::{Map, MapKind, MapSpec, ProgramKind};
use penstock_program::expr::{FIB_DADDR, FIB_IIF, FIB_OIF, FIB_PRESENT, FibResult};
use penstock_program::op::Op;
use penstock_wire::{ethernet, protocol};

use super::chain::Rule;
use super::frame::{Base, Field, SCRATCH, Side, Slots};
use super::kernel::Kernel;
use super::log::NO_SOCKET;
use super::lower::{home, refused};
use super::routes::{Answer, Question};
use super::search::{Member, Members};
use super::{Compiler, Job, Place, skb};

/// `ARPHRD_LOOPBACK`
const LOOPBACK: u16 = 772;

/// The expression.
#[derive(Clone, Copy)]
struct Fib {
    result: FibResult,
    flags: u32,
}

/// Where addresses are in the network header, and how long they are.
#[derive(Clone, Copy)]
struct Layout {
    v6: bool,
    source: u16,
    destination: u16,
    len: u8,
}

const V4: Layout = Layout { v6: false, source: 12, destination: 16, len: 4 };
const V6: Layout = Layout { v6: true, source: 8, destination: 24, len: 16 };

impl Layout {
    fn field(self, offset: u16) -> Field {
        Field::Bytes { base: Base::Network, offset, len: self.len }
    }
}

impl Fib {
    fn of(op: &Op) -> Option<Fib> {
        match op {
            Op::Fib { result, flags, .. } => {
                Some(Fib { result: *result, flags: u32::from(*flags) })
            }
            _ => None,
        }
    }

    fn has(self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    fn is_kind(self) -> bool {
        self.result == FibResult::AddrType
    }

    fn is_limited(self) -> bool {
        self.has(FIB_IIF | FIB_OIF)
    }

    /// The address that is looked up.
    fn asked(self, layout: Layout) -> Field {
        layout.field(if self.has(FIB_DADDR) { layout.destination } else { layout.source })
    }

    /// The device that answers depend on.
    fn side(self) -> Side {
        match (self.has(FIB_IIF), self.has(FIB_OIF)) {
            (true, _) => Side::In,
            (_, true) => Side::Out,
            _ => Side::Packet,
        }
    }
}

/// The families of packets at a place.
fn layouts(place: Place<'_>) -> &'static [Layout] {
    match place {
        Place::Netfilter(hook) => match hook.family {
            InetFamily::V4 => &[V4],
            InetFamily::V6 => &[V6],
        },
        Place::Xdp(_)
        | Place::XdpGeneric(_)
        | Place::TcxIngress(_)
        | Place::TcxEgress(_)
        | Place::Bridge(..) => &[V4, V6],
    }
}

/// Whether what the host sends to itself comes by, and packets of sockets that know their device
/// (`nft_fib_can_skip()`).
fn may_skip(place: Place<'_>) -> bool {
    match place {
        Place::Netfilter(hook) => matches!(hook.hook, InetHook::Prerouting | InetHook::Input),
        Place::Xdp(_) | Place::XdpGeneric(_) | Place::TcxIngress(_) => true,
        Place::TcxEgress(_) | Place::Bridge(..) => false,
    }
}

/// Notes what the code needs; whether it is a `fib` that has code. The error is why there is none.
pub(super) fn plan(job: &Job<'_>, op: &Op, slots: &mut Slots) -> Result<bool, String> {
    let (Some(fib), Some(_)) = (Fib::of(op), job.routes) else { return Ok(false) };
    if let Place::Bridge(..) = job.place {
        return Err(job.place.no_code("fib"));
    }
    for layout in layouts(job.place) {
        slots.add(fib.asked(*layout))?;
        // What ends the header: packets with less of one break the rule.
        if !fib.is_kind() || job.place.device().is_some() {
            slots.add(layout.field(layout.destination))?;
        }
        if !fib.is_kind() {
            slots.add(layout.field(layout.source))?;
        }
        if layout.v6 && !fib.is_kind() {
            slots.add(Field::L4Proto)?;
        }
    }
    if job.place.device().is_some() {
        slots.add(Field::Protocol)?;
        return Ok(true);
    }
    slots.add(Field::Index(fib.side()))?;
    if !fib.is_kind() {
        slots.add(Field::Index(Side::In))?;
        slots.add(Field::Type(Side::Packet))?;
    }
    Ok(true)
}

impl Compiler<'_> {
    /// The expression.
    pub(super) fn fib(&mut self, op: &Op, dst: u8, rule: &mut Rule) -> Result<(), String> {
        let fib = Fib::of(op).ok_or_else(refused)?;
        let done = self.asm.label();
        for layout in layouts(self.job.place) {
            let other = self.asm.label();
            if self.job.place.device().is_some() {
                let ethertype = if layout.v6 { ethernet::IPV6 } else { ethernet::IPV4 };
                let protocol = self.plan.slots.find(Field::Protocol).ok_or_else(refused)?;
                let raw = u16::from_ne_bytes(ethertype.to_be_bytes());
                self.asm.load(Width::H, R1, R10, protocol.at);
                self.asm.jump_if(Cond::Ne, R1, i32::from(raw), other);
            }
            self.answer(fib, *layout, done, rule)?;
            self.asm.bind(other);
        }
        // Neither family.
        self.asm.jump(rule.next);
        self.asm.bind(done);
        self.result(fib, dst, rule)
    }

    /// Goes to `done` with the answer in R0.
    fn answer(
        &mut self,
        fib: Fib,
        layout: Layout,
        done: Label,
        rule: &mut Rule,
    ) -> Result<(), String> {
        let routes = self.job.routes.ok_or_else(refused)?;
        let needed =
            [fib.asked(layout), layout.field(layout.source), layout.field(layout.destination)];
        for field in needed {
            if let Some(slot) = self.plan.slots.find(field) {
                self.require(slot, rule.next);
            }
        }
        if !fib.is_kind() {
            self.skipped(layout, done)?;
        }
        let device = self.job.place.device().map(|device| device.index);
        let (v6, kind, limited) = (layout.v6, fib.is_kind(), fib.is_limited());
        let mut answers = routes.answers(Question { v6, kind, limited, device })?;
        let classes = Classes::of(&mut answers);
        let slot = self.plan.slots.find(fib.asked(layout)).ok_or_else(refused)?;
        let (found, missed) = (self.asm.label(), self.asm.label());
        let members = classes.members(&answers, layout.len);
        // Addresses are looked up as keys of sets are, which registers have.
        let registers = rule.words;
        rule.words.set_at(0, slot.at, layout.len);
        self.search(&members, 0, found, missed, rule)?;
        rule.words = registers;
        self.asm.bind(missed);
        self.asm.mov32(R0, classes.usual);
        self.asm.bind(found);
        self.class_answer(fib, &classes, done)
    }

    /// Goes to `done` with what the class in R0 means.
    fn class_answer(&mut self, fib: Fib, classes: &Classes, done: Label) -> Result<(), String> {
        let devices = classes.devices();
        if !devices.is_empty() {
            let map = self.answers_by("rule_fib_devices", [8, 4], devices);
            let slot = self.plan.slots.find(Field::Index(fib.side())).ok_or_else(refused)?;
            let other = self.asm.label();
            self.asm.store(Width::W, R10, SCRATCH, R0);
            self.asm.load(Width::W, R1, R10, slot.at);
            self.asm.store(Width::W, R10, SCRATCH + 4, R1);
            self.asm.mov(R2, R10);
            self.asm.alu(Alu::Add, R2, i32::from(SCRATCH));
            self.asm.map(R1, &map);
            self.asm.call(Helper::MapLookup);
            self.asm.jump_if(Cond::Eq, R0, 0, other);
            self.asm.load(Width::W, R0, R0, 0);
            self.asm.jump(done);
            self.asm.bind(other);
            self.asm.load(Width::W, R0, R10, SCRATCH);
        }
        let (none, count) = (self.asm.label(), classes.all.len());
        let others = classes.all.iter().flat_map(|(_, other)| other.to_ne_bytes()).collect();
        let map = self.one_value("rule_fib", others);
        self.asm.jump_if(Cond::Ge, R0, count as i32, none);
        self.asm.alu(Alu::Lsh, R0, 2);
        self.asm.map_value(R1, &map, 0);
        self.asm.alu(Alu::Add, R1, R0);
        self.asm.load(Width::W, R0, R1, 0);
        self.asm.jump(done);
        // There is no such class.
        self.asm.bind(none);
        self.asm.mov(R0, 0);
        self.asm.jump(done);
        Ok(())
    }

    /// Goes to `done` with the device of arrival in R0 if the packet is not looked up: the host has
    /// sent it to itself, its socket knows the device, or it asks for an address.
    fn skipped(&mut self, layout: Layout, done: Label) -> Result<(), String> {
        let [own, asks, look_up] = [(); 3].map(|()| self.asm.label());
        if may_skip(self.job.place) {
            self.known(own, asks)?;
        }
        self.asm.bind(asks);
        self.asks(layout, own, look_up)?;
        self.asm.bind(own);
        match self.job.place {
            Place::Netfilter(_) => {
                let slot = self.plan.slots.find(Field::Index(Side::In)).ok_or_else(refused)?;
                self.asm.load(Width::W, R0, R10, slot.at);
            }
            Place::Xdp(device) | Place::XdpGeneric(device) | Place::TcxIngress(device) => {
                self.asm.mov32(R0, device.index);
            }
            Place::TcxEgress(_) | Place::Bridge(..) => self.asm.mov(R0, 0),
        }
        self.asm.jump(done);
        self.asm.bind(look_up);
        Ok(())
    }

    /// Goes to `own` if the host has sent the packet to itself, or its socket got the last one from
    /// this device; to `other`, or on, if it did not (`nft_fib_can_skip()`).
    fn known(&mut self, own: Label, other: Label) -> Result<(), String> {
        // In XDP packets have neither socket nor type.
        if self.job.place.kind() != ProgramKind::Xdp {
            self.known_to_socket(own, other)?;
            self.raw_packet_type();
            self.asm.jump_if(Cond::Eq, R4, skb::LOOPBACK, own);
        }
        match self.job.place.device() {
            Some(device) if device.interface.arphrd == LOOPBACK => self.asm.jump(own),
            Some(_) => {}
            None => {
                let kind = self.plan.slots.find(Field::Type(Side::Packet)).ok_or_else(refused)?;
                self.asm.load(Width::H, R1, R10, kind.at);
                self.asm.jump_if(Cond::Eq, R1, i32::from(LOOPBACK), own);
            }
        }
        Ok(())
    }

    /// If the packet has a socket, goes to `own` if that got the last one from this device, else to
    /// `other`.
    fn known_to_socket(&mut self, own: Label, other: Label) -> Result<(), String> {
        let Ok(kernel) = Kernel::running() else { return Ok(()) };
        let Some((owner, device)) = kernel.owner.as_ref().zip(kernel.socket_device) else {
            return Ok(());
        };
        let none = self.asm.label();
        self.packet(kernel, R1);
        self.asm.load(Width::D, R1, R1, owner.sock);
        self.asm.jump_if(Cond::Eq, R1, 0, none);
        self.asm.mov(R2, 0);
        self.asm.call_kfunc(kernel.cast);
        self.asm.load(Width::B, R1, R0, owner.state);
        for state in NO_SOCKET {
            self.asm.jump_if(Cond::Eq, R1, state, none);
        }
        self.asm.load(Width::W, R1, R0, device);
        match self.job.place.device() {
            Some(device) => self.asm.mov32(R2, device.index),
            None => {
                let index = self.plan.slots.find(Field::Index(Side::In)).ok_or_else(refused)?;
                self.asm.load(Width::W, R2, R10, index.at);
            }
        }
        self.asm.jump_if(Cond::Eq, R1, R2, own);
        self.asm.jump(other);
        self.asm.bind(none);
        Ok(())
    }

    /// Goes on if the packet asks for an address that its sender does not have yet (DHCP, duplicate
    /// address detection), else to `look_up`.
    fn asks(&mut self, layout: Layout, own: Label, look_up: Label) -> Result<(), String> {
        let slot = |offset| self.plan.slots.find(layout.field(offset)).ok_or_else(refused);
        let (source, destination) = (slot(layout.source)?.at, slot(layout.destination)?.at);
        let word = |bytes: [u8; 4]| u32::from_ne_bytes(bytes) as i32;
        if !layout.v6 {
            let asm = &mut self.asm;
            // 0.0.0.0 to 255.255.255.255 or 224.0.0.0/24
            asm.load(Width::W, R1, R10, source);
            asm.jump_if(Cond::Ne, R1, 0, look_up);
            asm.load(Width::W, R1, R10, destination);
            asm.jump_if32(Cond::Eq, R1, -1, own);
            asm.alu32(Alu::And, R1, word([0xff, 0xff, 0xff, 0]));
            asm.jump_if32(Cond::Ne, R1, word([224, 0, 0, 0]), look_up);
            return Ok(());
        }
        let l4proto = self.plan.slots.find(Field::L4Proto).ok_or_else(refused)?;
        self.require(l4proto, look_up);
        let asm = &mut self.asm;
        asm.load(Width::B, R1, R10, l4proto.at);
        asm.jump_if(Cond::Ne, R1, i32::from(protocol::ICMPV6), look_up);
        for at in (0..16).step_by(4) {
            asm.load(Width::W, R1, R10, source + at);
            asm.jump_if(Cond::Ne, R1, 0, look_up);
        }
        // fe80::/10 or ff02::/16, whatever its flags are
        asm.load(Width::H, R1, R10, destination);
        asm.swap(R1, 16);
        asm.mov(R2, R1);
        asm.alu(Alu::And, R2, 0xffc0);
        asm.jump_if(Cond::Eq, R2, 0xfe80, own);
        asm.alu(Alu::And, R1, 0xff0f);
        asm.jump_if(Cond::Ne, R1, 0xff02, look_up);
        Ok(())
    }

    /// The answer in R0 as the register has it.
    fn result(&mut self, fib: Fib, dst: u8, rule: &mut Rule) -> Result<(), String> {
        if fib.is_kind() || fib.result == FibResult::Oif && !fib.has(FIB_PRESENT) {
            self.keep(dst, R0, 4, rule);
        } else if fib.has(FIB_PRESENT) {
            let none = self.asm.label();
            self.asm.jump_if(Cond::Eq, R0, 0, none);
            self.asm.mov(R0, 1);
            self.asm.bind(none);
            self.keep(dst, R0, 1, rule);
        } else {
            self.name(dst, rule)?;
        }
        Ok(())
    }

    /// A hash with these contents.
    fn answers_by(
        &mut self,
        name: &'static str,
        [key, value]: [u32; 2],
        all: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Arc<Map> {
        let entries = (all.len() as u32).max(1);
        self.constant(MapSpec { name, kind: MapKind::Hash, key, value, entries }, all)
    }

    /// The name of interface R0.
    fn name(&mut self, dst: u8, rule: &mut Rule) -> Result<(), String> {
        let mut names = self.job.routes.ok_or_else(refused)?.names();
        names.sort_unstable();
        let row = |(index, name): (u32, [u8; 16])| (index.to_ne_bytes().to_vec(), name.to_vec());
        let names = names.into_iter().map(row).collect();
        let (none, done) = (self.asm.label(), self.asm.label());
        self.asm.store(Width::W, R10, SCRATCH, R0);
        self.asm.mov(R2, R10);
        self.asm.alu(Alu::Add, R2, i32::from(SCRATCH));
        let map = self.answers_by("rule_fib_names", [4, 16], names);
        self.asm.map(R1, &map);
        self.asm.call(Helper::MapLookup);
        self.asm.jump_if(Cond::Eq, R0, 0, none);
        for word in 0..4 {
            self.asm.load(Width::W, R1, R0, i16::from(word) * 4);
            self.asm.store(Width::W, R10, home(dst + word), R1);
        }
        self.asm.jump(done);
        self.asm.bind(none);
        for word in 0..4 {
            self.asm.store(Width::W, R10, home(dst + word), 0);
        }
        self.asm.bind(done);
        rule.words.set_at(dst, home(dst), 16);
        Ok(())
    }
}

/// What is said of addresses, each answer once.
struct Classes {
    all: Vec<(Vec<(u32, u32)>, u32)>,
    /// Of each range, by its place among the answers.
    of: Vec<u32>,
    /// The class of most ranges, which are not looked for.
    usual: u32,
}

impl Classes {
    /// Ranges side by side of which the same is said become one.
    fn of(answers: &mut Vec<Answer>) -> Classes {
        answers.dedup_by(|next, range| {
            let same = next.by == range.by && next.other == range.other;
            if same {
                range.last = next.last;
            }
            same
        });
        let (mut all, mut known, mut of) = (Vec::new(), HashMap::new(), Vec::new());
        let mut sizes = Vec::new();
        for answer in answers {
            let answer = (answer.by.clone(), answer.other);
            let class = *known.entry(answer.clone()).or_insert_with(|| {
                all.push(answer);
                sizes.push(0);
                all.len() - 1
            });
            if let Some(size) = sizes.get_mut(class) {
                *size += 1;
            }
            of.push(class as u32);
        }
        let usual = (0..all.len()).max_by_key(|class| sizes.get(*class)).unwrap_or(0) as u32;
        Classes { all, of, usual }
    }

    fn members(&self, answers: &[Answer], len: u8) -> Members {
        let key = |address: u128| -> Box<[u8]> {
            let bytes = address.to_be_bytes();
            bytes.get(16 - usize::from(len)..).unwrap_or_default().into()
        };
        let ranges = answers.iter().zip(&self.of).filter(|(_, class)| **class != self.usual);
        let all = ranges.map(|(answer, class)| {
            let to = Some(key(answer.last)).filter(|_| answer.first != answer.last);
            Member { from: key(answer.first), to, outcome: *class }
        });
        Members { all: all.collect(), fields: Vec::new(), key_len: len, mute: false }
    }

    /// Answers by class and device; none if no answer depends on the device.
    fn devices(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut all = Vec::new();
        for (class, (by, _)) in (0_u32..).zip(&self.all) {
            for (device, answer) in by {
                let key = [class.to_ne_bytes(), device.to_ne_bytes()].concat();
                all.push((key, answer.to_ne_bytes().to_vec()));
            }
        }
        all
    }
}
