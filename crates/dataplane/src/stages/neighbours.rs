// SPDX-License-Identifier: Apache-2.0

//! Packets with a next hop under resolution (`net/core/neighbour.c`).
//!
//! As in the kernel a neighbour keeps some packets, the newest ones, and those that nobody's answer
//! frees are told to their senders. There is a limit on all of them together, so that a scan of a
//! network does not fill the memory.

use std::collections::VecDeque;
use std::net::IpAddr;

use penstock_net::Link;
use penstock_packet::Packet;
use penstock_wire::{icmp, icmpv6};

use crate::hooks::Protocol;
use crate::neigh_queue::{NeighQueue, Waiting};
use crate::reason::DropReason;
use crate::route::Route;
use crate::settings::SECOND;
use crate::sink::Sink;
use crate::stages::icmp4::Options;
use crate::worker::Worker;

/// Packets that wait for one neighbour.
const PER_NEIGHBOUR: usize = 101;

/// Neighbours that are waited for.
const NEIGHBOURS: usize = 1024;

/// Bytes of packets that wait for all of them.
const BYTES: usize = 4 << 20;

/// How long an answer is waited for: three questions, a second apart (`mcast_solicit`,
/// `retrans_time`).
const PATIENCE: u64 = 3 * SECOND;

impl<S: Sink> Worker<'_, S> {
    /// A packet with an unresolved next hop: it waits if resolution is under way.
    pub(crate) fn wait_for_neighbour(
        &mut self,
        protocol: Protocol,
        packet: &Packet,
        to: &Route,
        link: &Link,
        next: IpAddr,
    ) {
        let now = packet.meta.time;
        let key = (link.index, next);
        let len = packet.network().len();
        let full = |all: &NeighQueue| {
            all.bytes + len > BYTES
                || (all.neighbours.len() >= NEIGHBOURS && !all.neighbours.contains_key(&key))
        };
        let asked = self.state.neigh_queue.neighbours.get(&key).map(|w| w.asked);
        let ask = asked.is_none_or(|at| now.saturating_sub(at) >= SECOND);
        if full(&self.state.neigh_queue) || (ask && !self.sink.resolve(link, next)) {
            return self.drop(DropReason::NoNeighbour, packet);
        }
        let mut kept = self.state.buffers.spare.pop().unwrap_or_default();
        kept.clone_from(packet);
        let queue = &mut self.state.neigh_queue;
        let waiting = queue.neighbours.entry(key).or_insert_with(|| Waiting {
            protocol,
            packets: VecDeque::new(),
            since: now,
            asked: now,
        });
        if ask {
            waiting.asked = now;
        }
        waiting.packets.push_back((kept, *to));
        queue.bytes += len;
        if waiting.packets.len() > PER_NEIGHBOUR
            && let Some((oldest, _)) = waiting.packets.pop_front()
        {
            queue.bytes -= oldest.network().len();
            self.drop(DropReason::NoNeighbour, &oldest);
            self.state.buffers.spare.push(oldest);
        }
    }

    /// Sends what waited for neighbours that are known now, and gives up where the time is over.
    pub(crate) fn settle_neigh_queue(&mut self, now: u64, packet: &mut Packet) {
        if self.state.neigh_queue.neighbours.is_empty() {
            return;
        }
        let net = self.net;
        let known = |&(device, next): &(u32, IpAddr)| match (net.link(device), next) {
            (None, _) => true,
            (Some(_), IpAddr::V4(next)) => net.neighbour4(device, next.into()).is_some(),
            (Some(_), IpAddr::V6(next)) => net.neighbour6(device, next.into()).is_some(),
        };
        let over = |waiting: &Waiting| now.saturating_sub(waiting.since) >= PATIENCE;
        let done: Vec<_> = self
            .state
            .neigh_queue
            .neighbours
            .iter()
            .filter(|(key, waiting)| known(key) || over(waiting))
            .map(|(key, _)| (*key, known(key)))
            .collect();
        for (key, known) in done {
            let Some(waiting) = self.state.neigh_queue.neighbours.remove(&key) else { continue };
            for (kept, to) in waiting.packets {
                self.state.neigh_queue.bytes -= kept.network().len();
                packet.clone_from(&kept);
                packet.meta.time = now.max(packet.meta.time);
                self.state.buffers.spare.push(kept);
                if known {
                    self.send_to_neighbour(waiting.protocol, packet, &to);
                } else {
                    self.neighbour_failed(waiting.protocol, packet, &to);
                }
            }
        }
    }

    /// `arp_error_report()`, `ndisc_error_report()`.
    fn neighbour_failed(&mut self, protocol: Protocol, packet: &Packet, to: &Route) {
        let forwarded = packet.meta.iif != 0;
        match protocol {
            Protocol::Ip => {
                let code = icmp::unreachable::HOST;
                self.icmp4_error(
                    packet,
                    Some(to),
                    icmp::Repr::unreachable(code),
                    Options::read_if(forwarded),
                );
            }
            Protocol::Ip6 => {
                self.icmp6_error(packet, icmpv6::DEST_UNREACHABLE, icmpv6::unreachable::ADDRESS, 0);
            }
            Protocol::Arp | Protocol::Bridge => {}
        }
        self.drop(DropReason::NoNeighbour, packet);
    }
}
