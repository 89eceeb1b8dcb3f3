// SPDX-License-Identifier: Apache-2.0

//! `meta nftrace set`, and the steps of packets that are traced (`nft_trace_notify()`).
//!
//! A program cannot mark a packet as traced for those after it. So the addresses of traced packets
//! are in a map, with what tells a packet from a later one at the same address; and where packets
//! of IP begin, at prerouting and output, a program takes out those that are new
//! ([`trace_entrance`]).

use penstock_bpf::asm::{Alu, Asm, Cond, Helper, Reg, Reg::*, Width};
use penstock_bpf::{InetHook, NetfilterHook, Next, ProgramKind};
use penstock_program::expr::MetaKey;
use penstock_program::image::{Image, RuleIndex};
use penstock_program::op::Op;

use super::chain::{Block, Rule};
use super::counters::Counters;
use super::frame::*;
use super::kernel::Kernel;
use super::log::HEADERS;
use super::lower::refused;
use super::prologue::SKB_MARK;
use super::records::*;
use super::sites::{Event, Verdict};
use super::words::Word;
use super::{Compiled, Compiler, NotOffloadable, Place, SharedStates};

/// Of a traced packet: number of the trace, device of arrival, protocol, whether it has not come to
/// a hook of IP yet.
const ID: i16 = 0;
const ARRIVED: i16 = 4;
const PROTOCOL: i16 = 8;
const AT_DEVICE: i16 = 12;

/// In [`SCRATCH`]: the packet's address, and its value.
const KEY: i16 = SCRATCH;
const VALUE: i16 = SCRATCH + 8;

/// Index of the loopback device.
const LOOPBACK: i32 = 1;

/// `ingress_ifindex` of `struct __sk_buff`.
const SKB_ARRIVED: i16 = 36;

/// Whether rules of a generation begin traces.
pub fn traces(image: &Image) -> bool {
    let sets = |op: &Op| matches!(op, Op::MetaSet { key: MetaKey::NfTrace, .. });
    image.ops.iter().any(sets)
}

/// The program that takes packets which are new at prerouting or output out of those that are
/// traced: an earlier packet had their address. It runs before all chains of the hook.
///
/// # Errors
/// The running kernel has no such programs.
pub fn trace_entrance(
    hook: NetfilterHook,
    shared: &SharedStates,
) -> Result<Compiled, NotOffloadable> {
    let kernel = Kernel::running().map_err(NotOffloadable::all)?;
    let records = shared.records();
    let mut asm = Asm::new();
    let [old, end] = [(); 2].map(|()| asm.label());
    asm.mov(R6, R1);
    asm.map_value(R1, records.words(), AT_LISTENED);
    asm.load(Width::D, R1, R1, 0);
    asm.jump_if(Cond::Eq, R1, 0, end);
    asm.load(Width::D, R7, R6, NETFILTER_SKB);
    asm.store(Width::D, R10, -8, R7);
    let at_packet = |asm: &mut Asm| {
        asm.map(R1, records.traced());
        asm.mov(R2, R10);
        asm.alu(Alu::Add, R2, -8);
    };
    if hook.hook == InetHook::Prerouting {
        // Of the loopback device, it has passed output.
        asm.load(Width::W, R1, R7, kernel.skb.iif);
        asm.jump_if(Cond::Eq, R1, LOOPBACK, end);
        at_packet(&mut asm);
        asm.call(Helper::MapLookup);
        asm.jump_if(Cond::Eq, R0, 0, end);
        asm.load(Width::W, R1, R0, AT_DEVICE);
        asm.jump_if(Cond::Eq, R1, 0, old);
        asm.load(Width::W, R1, R0, ARRIVED);
        asm.load(Width::W, R2, R7, kernel.skb.iif);
        asm.jump_if(Cond::Ne, R1, R2, old);
        asm.store(Width::W, R0, AT_DEVICE, 0);
        asm.jump(end);
    }
    asm.bind(old);
    at_packet(&mut asm);
    asm.call(Helper::MapDelete);
    asm.bind(end);
    Next::Pass.emit(&mut asm, ProgramKind::Netfilter);
    let (code, counters) = (asm.finish()?, Counters::new(Vec::new()));
    Ok(Compiled {
        code,
        kind: ProgramKind::Netfilter,
        counters,
        live: Vec::new(),
        sites: Vec::new(),
    })
}

impl Compiler<'_> {
    /// `reg` = the address of the packet. R0 to R5 are lost at tcx.
    fn packet_address(&mut self, kernel: &Kernel, reg: Reg) {
        if self.kernel.is_some() {
            return self.asm.load(Width::D, reg, CONTEXT, NETFILTER_SKB);
        }
        self.asm.mov(R1, CONTEXT);
        self.asm.call_kfunc(kernel.of_context);
        self.asm.mov(reg, R0);
    }

    /// R1 and R2 for a call about the packet in the map.
    fn traced_packet(&mut self, records: &Records) {
        self.asm.map(R1, records.traced());
        self.asm.mov(R2, R10);
        self.asm.alu(Alu::Add, R2, i32::from(KEY));
    }

    /// The address, and the value of a trace, into the stack frame.
    fn packet_identity(&mut self, kernel: &Kernel) {
        self.packet_address(kernel, R1);
        let asm = &mut self.asm;
        asm.store(Width::D, R10, KEY, R1);
        asm.load(Width::W, R2, R1, kernel.skb.iif);
        asm.store(Width::W, R10, VALUE + ARRIVED, R2);
        asm.load(Width::H, R2, R1, kernel.skb.protocol);
        asm.store(Width::W, R10, VALUE + PROTOCOL, R2);
    }

    /// Whether the packet is traced when it comes.
    pub(super) fn trace_begin(&mut self) {
        let (true, Some(shared), Ok(kernel)) =
            (self.plan.traces, self.job.shared, Kernel::running())
        else {
            return;
        };
        let records = shared.records();
        let [end, same, fresh] = [(); 3].map(|()| self.asm.label());
        let asm = &mut self.asm;
        asm.map_value(R1, records.words(), AT_LISTENED);
        asm.load(Width::D, R2, R1, 0);
        // Zero, which the verifier does not know: so it sees the same in both cases.
        asm.load(Width::W, R3, R1, AT_ZERO);
        asm.store(Width::W, R10, EVENT + AT_TRACE, R3);
        asm.jump_if(Cond::Eq, R2, 0, end);
        self.packet_identity(kernel);
        if let Place::TcxIngress(device) = self.job.place
            && device.index != LOOPBACK as u32
        {
            // What has come by this very device is new.
            let asm = &mut self.asm;
            asm.load(Width::W, R1, CONTEXT, SKB_ARRIVED);
            asm.jump_if32(Cond::Ne, R1, device.index as i32, fresh);
            self.traced_packet(records);
            self.asm.call(Helper::MapDelete);
            self.asm.jump(end);
            self.asm.bind(fresh);
        }
        self.traced_packet(records);
        let asm = &mut self.asm;
        asm.call(Helper::MapLookup);
        asm.jump_if(Cond::Eq, R0, 0, end);
        asm.load(Width::W, R1, R0, PROTOCOL);
        asm.load(Width::W, R2, R10, VALUE + PROTOCOL);
        asm.jump_if(Cond::Ne, R1, R2, end);
        asm.load(Width::W, R1, R0, ARRIVED);
        asm.load(Width::W, R2, R10, VALUE + ARRIVED);
        asm.jump_if(Cond::Eq, R1, R2, same);
        // Sent by this host to itself.
        asm.jump_if(Cond::Ne, R1, 0, end);
        asm.jump_if(Cond::Ne, R2, LOOPBACK, end);
        asm.bind(same);
        asm.load(Width::W, R1, R0, ID);
        asm.store(Width::W, R10, EVENT + AT_TRACE, R1);
        asm.bind(end);
    }

    /// A traced packet meets a base chain.
    pub(super) fn trace_packet(&mut self, block: Block) -> Result<(), String> {
        if !self.plan.traces {
            return Ok(());
        }
        let untraced = self.asm.label();
        self.asm.load(Width::W, R1, R10, EVENT + AT_TRACE);
        self.asm.jump_if(Cond::Eq, R1, 0, untraced);
        self.record(Event::Packet, block, HEADERS)?;
        self.asm.bind(untraced);
        Ok(())
    }

    /// A rule did not break, and says this.
    pub(super) fn trace_rule(&mut self, verdict: Verdict, rule: &Rule) -> Result<(), String> {
        if !self.plan.traces {
            return Ok(());
        }
        let handle = self.job.image.place(rule.index).map_or(0, |(.., handle)| handle);
        self.trace_step(Event::Rule(handle, verdict), rule.block, Some(rule.index), false)
    }

    /// A packet that becomes another one is traced no more.
    pub(super) fn trace_end(&mut self) {
        let (true, Some(shared), Ok(kernel)) =
            (self.plan.traces, self.job.shared, Kernel::running())
        else {
            return;
        };
        let untraced = self.asm.label();
        self.asm.load(Width::W, R1, R10, EVENT + AT_TRACE);
        self.asm.jump_if(Cond::Eq, R1, 0, untraced);
        self.packet_identity(kernel);
        self.traced_packet(shared.records());
        self.asm.call(Helper::MapDelete);
        self.asm.bind(untraced);
    }

    /// The policy of a base chain decides.
    pub(super) fn trace_policy(&mut self, block: Block) -> Result<(), String> {
        if !self.plan.traces {
            return Ok(());
        }
        let accept = self.job.image.chain(block.base).and_then(|c| c.policy_accept);
        self.trace_step(Event::Policy(accept.unwrap_or(true)), block, None, true)
    }

    fn trace_step(
        &mut self,
        event: Event,
        block: Block,
        rule: Option<RuleIndex>,
        with_mark: bool,
    ) -> Result<(), String> {
        let untraced = self.asm.label();
        self.asm.load(Width::W, R1, R10, EVENT + AT_TRACE);
        self.asm.jump_if(Cond::Eq, R1, 0, untraced);
        if with_mark {
            self.skb_word(|skb| skb.mark, SKB_MARK);
            self.asm.mov(R3, R4);
        } else {
            self.asm.mov(R3, 0);
        }
        self.step(event, block, rule)?;
        self.asm.bind(untraced);
        Ok(())
    }

    /// Tells of a step; R3 is the mark.
    pub(super) fn step(
        &mut self,
        event: Event,
        block: Block,
        rule: Option<RuleIndex>,
    ) -> Result<(), String> {
        let site = self.site(event, block, rule)?;
        let Compiler { step, asm, .. } = self;
        let function = *step.get_or_insert_with(|| asm.label());
        asm.mov(R1, R10);
        asm.mov32(R2, site);
        asm.call_function(function);
        Ok(())
    }

    /// The function: R1 is the caller's stack frame, R2 the site, R3 the mark.
    pub(super) fn step_function(&mut self) {
        let (Some(function), Some(shared)) = (self.step, self.job.shared) else { return };
        let records = shared.records();
        let asm = &mut self.asm;
        let told = asm.label();
        asm.bind(function);
        asm.store(Width::W, R1, EVENT + AT_SITE, R2);
        asm.store(Width::W, R1, EVENT + AT_MARK, R3);
        asm.mov(R2, R1);
        asm.alu(Alu::Add, R2, i32::from(EVENT));
        asm.map(R1, records.ring());
        asm.mov(R3, i32::from(STEP));
        asm.mov(R4, 0);
        asm.call(Helper::RingOutput);
        asm.jump_if(Cond::Eq, R0, 0, told);
        asm.map_value(R1, records.words(), AT_LOST);
        asm.mov(R2, 1);
        asm.atomic_add(Width::D, R1, 0, R2);
        asm.bind(told);
        asm.exit_with(0);
    }

    /// `meta nftrace set`.
    pub(super) fn trace_set(&mut self, src: u8, rule: &Rule) -> Result<(), String> {
        let shared = self.job.shared.ok_or_else(refused)?;
        let (records, kernel) = (shared.records(), Kernel::running()?);
        let [begin, clear, done] = [(); 3].map(|()| self.asm.label());
        match rule.words.get(src) {
            Word::Constant(value) if value.to_ne_bytes()[0] == 0 => self.asm.jump(clear),
            Word::Constant(_) => {}
            Word::At { .. } => {
                self.asm_word(R1, src, 1, rule);
                self.asm.jump_if(Cond::Eq, R1, 0, clear);
            }
        }
        let asm = &mut self.asm;
        asm.map_value(R1, records.words(), AT_LISTENED);
        asm.load(Width::D, R1, R1, 0);
        asm.jump_if(Cond::Eq, R1, 0, done);
        asm.load(Width::W, R1, R10, EVENT + AT_TRACE);
        asm.jump_if(Cond::Eq, R1, 0, begin);
        asm.jump(done);
        asm.bind(begin);
        self.packet_identity(kernel);
        let at_device = matches!(self.job.place, Place::TcxIngress(_));
        let asm = &mut self.asm;
        asm.call(Helper::Prandom);
        asm.alu(Alu::Or, R0, 1);
        asm.store(Width::W, R10, EVENT + AT_TRACE, R0);
        asm.store(Width::W, R10, VALUE + ID, R0);
        asm.store(Width::W, R10, VALUE + AT_DEVICE, i32::from(at_device));
        self.traced_packet(records);
        let asm = &mut self.asm;
        asm.mov(R3, R10);
        asm.alu(Alu::Add, R3, i32::from(VALUE));
        asm.mov(R4, 0);
        asm.call(Helper::MapUpdate);
        self.record(Event::Packet, rule.block, HEADERS)?;
        self.asm.jump(done);
        self.asm.bind(clear);
        self.packet_identity(kernel);
        self.traced_packet(records);
        self.asm.call(Helper::MapDelete);
        self.asm.map_value(R1, records.words(), AT_LISTENED);
        self.asm.load(Width::W, R3, R1, AT_ZERO);
        self.asm.store(Width::W, R10, EVENT + AT_TRACE, R3);
        self.asm.bind(done);
        Ok(())
    }
}
