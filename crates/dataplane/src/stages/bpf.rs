// SPDX-License-Identifier: Apache-2.0

//! BPF programs at hooks of netfilter (`net/netfilter/nf_bpf_link.c`), and what all programs have
//! in common.

use penstock_ebpfvm::context::Device;
use penstock_ebpfvm::{Context as ProgramContext, Counts, Program};
use penstock_packet::Packet;
use penstock_program::{Context, Family, Hook};

use crate::bpf::{BpfFault, NETFILTER, World};
use crate::hook_result::HookResult;
use crate::hooks::{HookProgram, ProgramIndex, devices};
use crate::place::chain_place;
use crate::reason::DropReason;
use crate::sink::Sink;
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
        let mut world =
            World { sink: &mut *self.sink, random: &mut self.state.numbers.random, now };
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
        packet: &Packet,
    ) -> HookResult {
        let hooks = self.hooks;
        let Some(HookProgram { program, label, counts, chain }) = hooks.program(index) else {
            return HookResult::Accept;
        };
        let mut context = self.state.bpf.take(NETFILTER);
        self.fill_netfilter(&mut context, at, packet);
        let verdict = self.run_program(program, (label, counts), &mut context, packet.meta.time);
        self.state.bpf.give_back(NETFILTER, context);
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
