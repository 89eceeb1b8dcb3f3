// SPDX-License-Identifier: Apache-2.0

//! Packets that rules give to a listener, and what comes back of them (`net/netfilter/nf_queue.c`).
//!
//! A held packet stays where it is in its hook list.
//! [`Dataplane::verdict`](crate::Dataplane::verdict) lets it go on at the stage behind, or ends it.
//! Packets whose hook lists change meanwhile are dropped, as in the kernel when a hook goes.

use penstock_packet::Packet;
use penstock_program::image::RuleIndex;
use penstock_program::{Context, Hook};
use penstock_wire::ipv4_options::Compiled;

use crate::hook_result::HookResult;
use crate::hooks::Protocol;
use crate::place::rule_place;
use crate::queues::{Held, NotQueued, QueueAnswer, QueueVerdict};
use crate::reason::DropReason;
use crate::route::{Route, route_key};
use crate::sink::{QueueRecord, Queued, Sink};
use crate::worker::Worker;

fn protocol_of(context: Context) -> Protocol {
    match context.nfproto {
        2 => Protocol::Ip,
        7 => Protocol::Bridge,
        _ => Protocol::Ip6,
    }
}

impl<S: Sink> Worker<'_, S> {
    /// A rule gives the packet to a queue. [`HookResult::Accept`] if it goes on without a listener.
    pub(crate) fn queue(
        &mut self,
        (num, bypass, rule): (u16, bool, RuleIndex),
        context: Context,
        at: usize,
        packet: &mut Packet,
        destination: &Option<Route>,
    ) -> HookResult {
        let id = self.state.queues.last.wrapping_add(1);
        let place = rule_place(self.image, rule);
        let (iif, oif) = crate::hooks::devices(context.hook, packet);
        let connection = self.state.conntrack.connection(&packet.meta.ct);
        let (input, output) = (self.net.link(iif), self.net.link(oif));
        let record = QueueRecord { id, queue: num, place, context, input, output, connection };
        let queued = match context.hook {
            // Frames of a device cannot wait.
            Hook::Ingress | Hook::Egress => Queued::Nobody,
            _ => self.sink.queue(&record, packet),
        };
        match queued {
            Queued::Nobody if bypass => HookResult::Accept,
            Queued::Nobody => {
                self.drop_at(DropReason::Queue, place, packet);
                HookResult::Dropped
            }
            Queued::Full => {
                self.drop_at(DropReason::QueueFull, place, packet);
                HookResult::Dropped
            }
            Queued::PassedBy => HookResult::Accept,
            Queued::Held => {
                let mut kept = self.state.spare.pop().unwrap_or_default();
                std::mem::swap(&mut kept, packet);
                // Whoever had the packet still looks at what it was.
                packet.load(&[], 0);
                packet.meta.time = kept.meta.time;
                let queues = &mut self.state.queues;
                queues.last = id;
                let (options, heard) = (queues.options, queues.heard);
                let destination = *destination;
                let held = Held {
                    packet: kept,
                    queue: num,
                    rule,
                    context,
                    at,
                    destination,
                    options,
                    heard,
                };
                queues.held.insert(id, held);
                self.state.counters.taken += 1;
                HookResult::Stolen
            }
        }
    }

    /// A listener answers (`nf_reinject()`).
    pub(crate) fn answer(
        &mut self,
        id: u64,
        answer: &QueueAnswer<'_>,
        time: u64,
        packet: &mut Packet,
    ) -> Result<(), NotQueued> {
        let Some(held) = self.state.queues.held.remove(&id) else { return Err(NotQueued) };
        let Held { packet: mut kept, rule, context, at, mut destination, options, heard, .. } =
            held;
        std::mem::swap(&mut kept, packet);
        self.state.spare.push(kept);
        let protocol = protocol_of(context);
        let before = route_key(protocol, packet);
        packet.meta.time = packet.meta.time.max(time);
        if let Some(mark) = answer.mark {
            packet.meta.mark = mark;
        }
        if let Some(payload) = answer.payload {
            packet.replace_network(payload.get(..65_535).unwrap_or(payload));
        }
        let hooks = self.hooks;
        let list = hooks.list(protocol, context.hook);
        match protocol {
            Protocol::Bridge => {
                packet.find_transport_checked();
            }
            Protocol::Ip | Protocol::Ip6 | Protocol::Arp => packet.find_transport(),
        }
        let next = match answer.verdict {
            QueueVerdict::Drop => {
                self.drop_at(DropReason::Rule, rule_place(self.image, rule), packet);
                return Ok(());
            }
            QueueVerdict::Repeat => at,
            QueueVerdict::Stop => list.stages.len(),
            QueueVerdict::Accept => {
                // A listener may send the host's own packets elsewhere (nf_reroute()).
                if context.hook == Hook::Output
                    && protocol != Protocol::Bridge
                    && before != route_key(protocol, packet)
                {
                    destination = self.route_again(protocol, packet);
                    if destination.is_none() {
                        self.drop(DropReason::NoRoute, packet);
                        return Ok(());
                    }
                }
                at + 1
            }
            QueueVerdict::Queue { num, bypass } => {
                match self.queue((num, bypass, rule), context, at, packet, &destination) {
                    HookResult::Accept => at + 1,
                    _ => return Ok(()),
                }
            }
        };
        self.state.queues.heard = heard;
        self.state.queues.options = options;
        let end = self.run_list_from(list, next, context, packet, &mut destination);
        self.state.queues.heard = None;
        if end == HookResult::Accept {
            self.go_on(context, packet, destination, &options, heard);
        }
        Ok(())
    }

    /// What follows a hook (`okfn`).
    fn go_on(
        &mut self,
        context: Context,
        packet: &mut Packet,
        destination: Option<Route>,
        options: &Compiled,
        heard: Option<Route>,
    ) {
        let protocol = protocol_of(context);
        if protocol == Protocol::Bridge {
            return self.bridge_go_on(context.hook, packet);
        }
        if context.hook == Hook::Prerouting {
            return match protocol {
                Protocol::Ip => self.ip4_behind_prerouting(packet, destination),
                _ => self.ip6_behind_prerouting(packet, destination),
            };
        }
        let Some(to) = destination else { return self.drop(DropReason::NoRoute, packet) };
        if let Some(heard) = heard {
            return self.come_back(packet, &heard);
        }
        match (context.hook, protocol) {
            (Hook::Input, Protocol::Ip) => self.deliver(packet),
            (Hook::Input, _) => self.ip6_behind_input(packet),
            (Hook::Forward, Protocol::Ip) => self.ip4_behind_forward(packet, &to, options),
            (Hook::Forward, _) => self.ip6_output(packet, &to, true),
            (Hook::Output, _) => self.behind_output(protocol, packet, &to),
            (Hook::Postrouting, Protocol::Ip) => self.ip4_finish_output(packet, &to),
            (Hook::Postrouting, _) => {
                self.ip6_behind_postrouting(packet, &to, packet.meta.iif != 0)
            }
            // Rules there cannot queue.
            (Hook::Prerouting | Hook::Ingress | Hook::Egress, _) => {}
        }
    }
}
