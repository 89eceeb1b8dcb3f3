// SPDX-License-Identifier: Apache-2.0

//! Packets that rules give to a listener, and what comes back of them (`net/netfilter/nf_queue.c`).
//!
//! A held packet stays where it is in its hook list.
//! [`Dataplane::verdict`](crate::Dataplane::verdict) lets it go on at the stage behind, or ends it.
//! Packets whose hook lists change meanwhile are dropped, as in the kernel when a hook goes.

use std::collections::BTreeMap;

use penstock_packet::Packet;
use penstock_program::image::RuleIndex;
use penstock_program::{Context, Family, Hook};
use penstock_wire::ipv4_options::Compiled;

use crate::hooks::Protocol;
use crate::output::route_key;
use crate::reason::DropReason;
use crate::rules::{End, rule_place};
use crate::sink::{QueueRecord, Queued, Sink};
use crate::worker::{Destination, Worker};

/// Held packets beyond which those that were put together from fragments are cut anew on their way
/// out.
const PARTS_KEPT: usize = 4096;

/// What a listener makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueVerdict {
    /// It ends.
    Drop,
    /// It goes on with the next chain of its hook.
    Accept,
    /// It passes the chain that queued it again.
    Repeat,
    /// It goes on behind its hook, without the chains that are left (`NF_STOP`).
    Stop,
    /// It goes to another queue.
    Queue {
        /// Number of the queue.
        num: u16,
        /// Without a listener there it goes on with the next chain; otherwise it is dropped.
        bypass: bool,
    },
}

/// A listener's answer.
#[derive(Clone, Copy, Debug)]
pub struct QueueAnswer<'a> {
    /// What becomes of the packet.
    pub verdict: QueueVerdict,
    /// Its new mark.
    pub mark: Option<u32>,
    /// New bytes from the network header on, at most 65535; the listener has made lengths and
    /// checksums right.
    pub payload: Option<&'a [u8]>,
}

/// There is no packet with this number: it was answered before, or dropped since rules changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotQueued;

/// A packet in a queue.
#[derive(Debug)]
struct Held {
    packet: Packet,
    queue: u16,
    rule: RuleIndex,
    context: Context,
    /// The stage that queued it.
    at: usize,
    destination: Option<Destination>,
    /// Of a packet that is being forwarded.
    options: Compiled,
    /// Of a copy for the host itself of what it sent: where it comes back.
    heard: Option<Destination>,
}

/// All packets in queues, by number.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    held: BTreeMap<u64, Held>,
    last: u64,
    /// What the packet in `forward` has of options.
    pub(crate) options: Compiled,
    /// The packet in `postrouting` is a copy for the host itself, which comes back here.
    pub(crate) heard: Option<Destination>,
}

impl Queues {
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    /// Numbers of the packets in a queue, the oldest first.
    pub(crate) fn of(&self, queue: u16) -> Vec<u64> {
        self.held.iter().filter(|(_, h)| h.queue == queue).map(|(id, _)| *id).collect()
    }

    /// Takes all packets out; how many they were.
    pub(crate) fn clear(&mut self) -> u64 {
        let count = self.held.len() as u64;
        self.held.clear();
        count
    }

    /// Whether what is known about fragments is still needed. When it becomes too much it is
    /// forgotten.
    #[inline]
    pub(crate) fn needs_parts(&mut self, known: usize) -> bool {
        if self.held.is_empty() {
            return false;
        }
        if known > PARTS_KEPT {
            self.held.values_mut().for_each(|held| held.packet.meta.reassembled = 0);
            return false;
        }
        true
    }
}

fn protocol_of(context: Context) -> Protocol {
    match context.family {
        Family::Ip => Protocol::Ip,
        Family::Bridge => Protocol::Bridge,
        _ => Protocol::Ip6,
    }
}

impl<S: Sink> Worker<'_, S> {
    /// A rule gives the packet to a queue. [`End::Accept`] if it goes on without a listener.
    pub(crate) fn queue(
        &mut self,
        (num, bypass, rule): (u16, bool, RuleIndex),
        context: Context,
        at: usize,
        packet: &mut Packet,
        destination: &Option<Destination>,
    ) -> End {
        let id = self.state.queues.last.wrapping_add(1);
        let place = rule_place(self.image, rule);
        let (iif, oif) = crate::rules::devices(context.hook, packet);
        let connection = self.state.conntrack.connection(&packet.meta.ct);
        let (input, output) = (self.net.link(iif), self.net.link(oif));
        let record = QueueRecord { id, queue: num, place, context, input, output, connection };
        let queued = match context.hook {
            // Frames of a device cannot wait.
            Hook::Ingress | Hook::Egress => Queued::Nobody,
            _ => self.sink.queue(&record, packet),
        };
        match queued {
            Queued::Nobody if bypass => End::Accept,
            Queued::Nobody => {
                self.drop_at(DropReason::Queue, place, packet);
                End::Dropped
            }
            Queued::Full => {
                self.drop_at(DropReason::QueueFull, place, packet);
                End::Dropped
            }
            Queued::PassedBy => End::Accept,
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
                End::Taken
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
                    End::Accept => at + 1,
                    _ => return Ok(()),
                }
            }
        };
        self.state.queues.heard = heard;
        self.state.queues.options = options;
        let end = self.run_list_from(list, next, context, packet, &mut destination);
        self.state.queues.heard = None;
        if end == End::Accept {
            self.go_on(context, packet, destination, &options, heard);
        }
        Ok(())
    }

    /// What follows a hook (`okfn`).
    fn go_on(
        &mut self,
        context: Context,
        packet: &mut Packet,
        destination: Option<Destination>,
        options: &Compiled,
        heard: Option<Destination>,
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
