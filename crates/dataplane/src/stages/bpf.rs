// SPDX-License-Identifier: Apache-2.0

//! BPF programs at hooks of netfilter (`net/netfilter/nf_bpf_link.c`), and what all programs have
//! in common.

use penstock_ebpfvm::context::Device;
use penstock_ebpfvm::{Context as ProgramContext, Counts, Program};
use penstock_packet::Packet;
use penstock_program::{Context, Family, Hook, Outcome};

use crate::bpf::{BpfDifference, BpfFault, BpfRules, NETFILTER};
use crate::hook_result::HookResult;
use crate::hooks::{Entry, HookProgram, ProgramIndex, devices};
use crate::place::{chain_place, rule_place};
use crate::reason::DropReason;
use crate::sink::Sink;
use crate::stages::bpf_world::World;
use crate::stages::hook_env::{ChainCall, HookEnv};
use crate::worker::Worker;

/// `NF_ACCEPT`.
const ACCEPT: u32 = 1;
/// `NFPROTO_IPV4`, `NFPROTO_IPV6`.
const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// `enum nf_inet_hooks`
fn hook_number(hook: Hook) -> u8 {
    match hook {
        Hook::Prerouting => 0,
        Hook::Input => 1,
        Hook::Forward => 2,
        Hook::Output => 3,
        Hook::Postrouting => 4,
        Hook::Ingress | Hook::Egress => 5,
    }
}

impl<S: Sink> Worker<'_, S> {
    /// Runs a program: the low 32 bits of what it returns. `None`: it was ended, which is counted,
    /// and told the first time.
    pub(super) fn run_program(
        &mut self,
        program: &Program,
        (label, counts): (&str, &Counts),
        context: &mut ProgramContext,
        now: u64,
    ) -> Option<u32> {
        let state = &mut *self.state;
        // In XDP it is the first that the packet meets.
        state.conntrack.advance(now);
        let mut world = World {
            sink: &mut *self.sink,
            random: &mut state.numbers.random,
            now,
            net: self.net,
            settings: self.settings,
            paths: &state.path_mtus,
            conntrack: &state.conntrack,
        };
        let result = program.instance().lock().run(program.number(), context, &mut world);
        match result {
            Ok(result) => Some(result as u32),
            Err(fault) => {
                if Counts::count(&counts.faults) == 0 {
                    self.sink.bpf_fault(&BpfFault { label, program, fault });
                }
                None
            }
        }
    }

    /// A program in a list of a hook.
    pub(crate) fn netfilter_program(
        &mut self,
        index: ProgramIndex,
        at: Context,
        packet: &mut Packet,
    ) -> HookResult {
        let hooks = self.hooks;
        let Some(HookProgram { program, label, counts, chain }) = hooks.program(index) else {
            return HookResult::Accept;
        };
        let mut context = self.state.bpf.take(NETFILTER);
        self.fill_netfilter(&mut context, at, packet);
        let verdict = self.run_program(program, (label, counts), &mut context, packet.meta.time);
        self.state.bpf.give_back(NETFILTER, context);
        if self.state.bpf.checks
            && let Some(entry) = chain
        {
            let passes = verdict.map(|verdict| verdict == ACCEPT);
            self.check_program(program, counts, entry, at, passes, packet);
        }
        let reason = match verdict {
            Some(ACCEPT) => {
                Counts::count(&counts.passed);
                return HookResult::Accept;
            }
            Some(_) => {
                Counts::count(&counts.dropped);
                DropReason::Bpf
            }
            None => DropReason::BpfFault,
        };
        let place = chain.and_then(|entry| chain_place(self.image, entry.chain));
        self.drop_at(reason, place, packet);
        HookResult::Dropped
    }

    /// Runs the rules of a chain with a program on a copy of a packet, and tells if they decide
    /// otherwise.
    fn check_program(
        &mut self,
        program: &Program,
        counts: &Counts,
        entry: &Entry,
        context: Context,
        passes: Option<bool>,
        packet: &Packet,
    ) {
        let image = self.image;
        let mut copy = self.state.buffers.spare.pop().unwrap_or_default();
        copy.clone_from(packet);
        if copy.meta.trace_id == 0 {
            copy.meta.trace_id = self.next_trace_id();
        }
        let site = ChainCall { entry, context, destination: None };
        let mut env = HookEnv::new(self, &site, &copy);
        env.silent = true;
        let outcome = penstock_program::run(image, entry.chain, &mut copy, &mut env);
        self.state.buffers.spare.push(copy);
        let chain = chain_place(image, entry.chain);
        let (rules, place) = match outcome {
            Outcome::Accept => (BpfRules::Accept, chain),
            Outcome::Drop(rule) => (BpfRules::Drop, rule_place(image, rule)),
            Outcome::Queue { rule, .. } => (BpfRules::Take, rule_place(image, rule)),
            Outcome::Stolen => (BpfRules::Take, chain),
            Outcome::Policy => {
                let accepts = image.chain(entry.chain).and_then(|c| c.policy_accept);
                let accepts = accepts.unwrap_or(true);
                (if accepts { BpfRules::Accept } else { BpfRules::Drop }, chain)
            }
        };
        let same = passes.is_some() && passes.map(BpfRules::of) == Some(rules);
        if let Some(place) = place.filter(|_| !same)
            && Counts::count(&counts.differed) == 0
        {
            let difference = BpfDifference { program, place, passes, rules };
            self.sink.bpf_differs(&difference, packet);
        }
    }

    /// What a program at a hook sees of a packet.
    fn fill_netfilter(&self, context: &mut ProgramContext, at: Context, packet: &Packet) {
        let ProgramContext::Netfilter(nf) = context else { return };
        let (input, output) = devices(at.hook, packet);
        nf.packet.set(packet.network());
        nf.hook = hook_number(at.hook);
        nf.family = if at.family == Family::Ip6 { IPV6 } else { IPV4 };
        nf.input = self.program_device(input);
        nf.output = self.program_device(output);
        nf.protocol = packet.meta.protocol.to_be();
        nf.mark = packet.meta.mark;
        nf.priority = packet.meta.priority;
        nf.packet_type = packet.meta.packet_type as u8;
    }

    fn program_device(&self, index: u32) -> Option<Device> {
        let link = self.net.link(index)?;
        let known = self.state.host.interfaces.get(index as usize)?.as_ref()?;
        Some(Device { name: known.name, index, mtu: link.mtu, hardware: known.arphrd })
    }
}
