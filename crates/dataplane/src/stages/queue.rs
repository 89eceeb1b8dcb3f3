// SPDX-License-Identifier: Apache-2.0

//! Packets that rules, or helpers, give to a listener, and what comes back of them
//! (`net/netfilter/nf_queue.c`).
//!
//! A held packet stays where it is in its hook list.
//! [`Dataplane::verdict`](crate::Dataplane::verdict) lets it continue at the next stage, or ends
//! it. Packets are dropped if their hook list changes during that time, as in the kernel when a
//! hook goes.

use penstock_packet::{Packet, VlanTag};
use penstock_program::image::RuleIndex;
use penstock_program::{Context, Family, Hook};

use crate::course::Course;
use crate::hook_result::HookResult;
use crate::hooks::{HookList, Protocol, Stage};
use crate::place::rule_place;
use crate::queues::{Held, NewLink, NotQueued, QueueAnswer, QueueVerdict};
use crate::reason::DropReason;
use crate::route::route_key;
use crate::sink::{QueueRecord, Queued, Sink};
use crate::worker::Worker;

fn protocol_of(context: Context) -> Protocol {
    match context.family {
        Family::Ip => Protocol::Ip,
        Family::Bridge => Protocol::Bridge,
        _ => Protocol::Ip6,
    }
}

/// Gives a frame another link header or tag; `false` if it cannot be.
fn change_link(packet: &mut Packet, new: &NewLink) -> bool {
    match new.vlan {
        Some(Some([protocol, tci])) => packet.meta.vlan = Some(VlanTag { protocol, tci }),
        Some(None) => return false,
        None => {}
    }
    let Some(header) = &new.header else { return true };
    let link = packet.link_mut();
    if link.len() != header.len() {
        return false;
    }
    link.copy_from_slice(header);
    true
}

impl<S: Sink> Worker<'_, S> {
    /// The packet goes to a queue. [`HookResult::Accept`] if it continues without a
    /// listener.
    pub(crate) fn queue(
        &mut self,
        (num, bypass, rule): (u16, bool, Option<RuleIndex>),
        context: Context,
        at: usize,
        packet: &mut Packet,
        course: &Course,
    ) -> HookResult {
        let id = self.state.queues.last.wrapping_add(1);
        let place = rule.and_then(|rule| rule_place(self.image, rule));
        let (iif, oif) = crate::hooks::devices(context.hook, packet);
        let connection = self.state.conntrack.connection(&packet.meta.ct);
        let (input, output) = (self.net.link(iif), self.net.link(oif));
        let (queue, ports) = (num, self.bridge_ports(packet));
        let record = QueueRecord { id, queue, place, context, input, output, ports, connection };
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
            Queued::Cut if packet.meta.gso.is_none() => {
                self.drop_at(DropReason::QueueFull, place, packet);
                HookResult::Dropped
            }
            Queued::Cut => {
                let hooks = self.hooks;
                let list = hooks.list(protocol_of(context), context.hook);
                self.send_segments(packet, |worker, segment| {
                    let link = packet.link();
                    segment.put_link(link.len()).copy_from_slice(link);
                    let mut own = *course;
                    let queued = worker.queue((num, bypass, rule), context, at, segment, course);
                    if queued == HookResult::Accept {
                        worker.go_on(list, at + 1, context, segment, &mut own);
                    }
                });
                HookResult::Stolen
            }
            Queued::Held => {
                let mut kept = self.state.buffers.spare.pop().unwrap_or_default();
                std::mem::swap(&mut kept, packet);
                // The caller still reads its metadata.
                packet.load(&[], 0);
                packet.meta.time = kept.meta.time;
                let queues = &mut self.state.queues;
                queues.last = id;
                let held = Held { packet: kept, queue: num, rule, context, at, course: *course };
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
        let Held { packet: mut kept, rule, context, at, mut course, .. } = held;
        std::mem::swap(&mut kept, packet);
        self.state.buffers.spare.push(kept);
        let protocol = protocol_of(context);
        let before = route_key(protocol, packet);
        packet.meta.time = packet.meta.time.max(time);
        if let Some(mark) = answer.mark {
            packet.meta.mark = mark;
        }
        if let Some(priority) = answer.priority {
            packet.meta.priority = priority;
        }
        if protocol == Protocol::Bridge
            && let Some(new) = answer.link
            && !change_link(packet, new)
        {
            self.drop(DropReason::Queue, packet);
            return Ok(());
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
                match rule {
                    Some(rule) => {
                        self.drop_at(DropReason::Rule, rule_place(self.image, rule), packet);
                    }
                    None => self.drop(DropReason::Helper, packet),
                }
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
                    course.route = self.route_again(protocol, packet);
                    if course.route.is_none() {
                        self.drop(DropReason::NoRoute, packet);
                        return Ok(());
                    }
                }
                at + 1
            }
            QueueVerdict::Queue { num, bypass } => {
                match self.queue((num, bypass, rule), context, at, packet, &course) {
                    HookResult::Accept => at + 1,
                    _ => return Ok(()),
                }
            }
        };
        // The program that read it for its connection is done (nf_confirm_cthelper()).
        let read = match (answer.verdict, list.stages.get(at)) {
            (QueueVerdict::Accept | QueueVerdict::Stop, Some(Stage::Confirm)) => {
                self.confirm_read(packet)
            }
            (QueueVerdict::Accept | QueueVerdict::Stop, Some(Stage::BridgeConfirm)) => {
                let end = self.confirm_read(packet);
                self.bridge_confirmed(end, packet)
            }
            _ => HookResult::Accept,
        };
        if read == HookResult::Accept {
            self.go_on(list, next, context, packet, &mut course);
        }
        Ok(())
    }

    /// Has a packet continue with a stage of its hook list, and after it.
    fn go_on(
        &mut self,
        list: &HookList,
        next: usize,
        context: Context,
        packet: &mut Packet,
        course: &mut Course,
    ) {
        if self.run_list_from(list, next, context, packet, course) == HookResult::Accept {
            self.run(course.next, packet, course);
        }
    }
}
