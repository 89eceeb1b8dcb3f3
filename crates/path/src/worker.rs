// SPDX-License-Identifier: Apache-2.0

//! One worker at one packet: what it holds on to, and ending packets.

use std::collections::VecDeque;
use std::sync::Arc;

use penstock_conntrack::Conntrack;
use penstock_jit::Compiled;
use penstock_net::Network;
use penstock_packet::Packet;
use penstock_program::env::Interface;
use penstock_program::osf::Fingerprints;
use penstock_program::{Image, WorkerNumber};
use penstock_random::Random;

use crate::bridge::{Bridges, SharedBridges};
use crate::connections::Policies;
use crate::connlimit::Connlimit;
use crate::flow::Flows;
use crate::hooks::Hooks;
use crate::interface::interfaces;
use crate::ip_ids::IpIds;
use crate::ipsec::Ipsec;
use crate::neigh_queue::NeighQueue;
use crate::queues::Queues;
use crate::reason::{Counters, Drop, DropReason, Place};
use crate::reassembled::ReassembledTable;
use crate::reassembly::{Fragments, Key4, Key6};
use crate::route::Route;
use crate::route_cache::RouteCache;
use crate::settings::Settings;
use crate::shared::{Member, SharedLimits};
use crate::sink::Sink;
use crate::sockets::{SocketList, Sockets};
use crate::spare::Spare;
use crate::synproxy::Proxies;
use crate::taps::Taps;
use crate::tc::Tc;
use crate::tunnels::Tunnels;

/// Packets that one packet may bring about in a row: answers to answers, copies of copies.
const DEPTH: u32 = 16;

/// Identification of the first IPv4 packet that the host makes: none of the small numbers that
/// captures and rules are made with.
const FIRST_ID: u16 = 0x5053;

/// What lives on from burst to burst.
#[derive(Debug)]
pub(crate) struct State {
    /// In whose cells rules count.
    pub(crate) worker: WorkerNumber,
    pub(crate) counters: Counters,
    pub(crate) limits: SharedLimits,
    pub(crate) limits6: SharedLimits,
    /// Of the host and of connection tracking, which share one limit.
    pub(crate) fragments4: Fragments<Key4>,
    /// Of the host.
    pub(crate) fragments6: Fragments<Key6>,
    /// Of connection tracking, with a limit of its own.
    pub(crate) conntrack6: Fragments<Key6>,
    /// How packets of this burst were cut that were put together before routing.
    pub(crate) reassembled: ReassembledTable,
    /// Ways that were found before.
    pub(crate) routes: RouteCache,
    /// Connections.
    pub(crate) conntrack: Conntrack,
    /// Timeouts that `ct timeout` objects give to connections.
    pub(crate) policies: Policies,
    /// Connections that `ct count` counts.
    pub(crate) connlimit: Connlimit,
    /// Devices that are listened to.
    pub(crate) taps: Taps,
    /// Flows that left the rules.
    pub(crate) flows: Flows,
    /// When connections that have lived out are looked for next.
    pub(crate) next_expiry: u64,
    /// The host's sockets.
    pub(crate) sockets: Box<dyn Sockets>,
    /// What operating systems are known by.
    pub(crate) fingerprints: Arc<Fingerprints>,
    /// Decides which of several queues gets a packet.
    pub(crate) queue_seed: u32,
    /// Handshakes that are answered for servers.
    pub(crate) proxies: Proxies,
    /// Packets that wait for a listener.
    pub(crate) queues: Queues,
    /// Packets that wait for a neighbour's link address.
    pub(crate) neigh_queue: NeighQueue,
    /// IPsec, where the network has any.
    pub(crate) ipsec: Option<Box<Ipsec>>,
    /// Traffic control, where there is any.
    pub(crate) tc: Option<Box<Tc>>,
    /// Packets on the loopback device, which are received after what is being done now.
    pub(crate) backlog: VecDeque<(Packet, Option<Route>)>,
    /// Buffers not in use.
    pub(crate) spare: Spare,
    /// Bytes in the making.
    pub(crate) scratch: Vec<Vec<u8>>,
    /// Identification of the latest packet with an outer header, whose receiver is another router.
    pub(crate) ip_id: u16,
    /// Identifications of packets to anybody.
    pub(crate) ip_ids: IpIds,
    pub(crate) trace_id: u32,
    pub(crate) depth: u32,
    /// Frames that `dup` and `fwd` put on devices, one because of the other.
    pub(crate) between_devices: u32,
    /// A copy made by `dup` is on its way: no further copies of it (`nf_skb_duplicated`).
    pub(crate) duplicating: bool,
    pub(crate) random: Random,
    /// By how much the wall clock is ahead of the packet clock, in nanoseconds.
    pub(crate) wall_ahead: i64,
    /// What rules ask about the devices, by index.
    pub(crate) interfaces: Vec<Option<Interface>>,
    /// Forwarding tables, and what rules ask about ports.
    pub(crate) bridges: Arc<Bridges>,
    /// Those of all workers.
    shared_bridges: SharedBridges,
    /// What tunnels have beside their configuration.
    pub(crate) tunnels: Tunnels,
    pub(crate) trace_all: bool,
    /// The device with rules at egress by which the last packet left that went straight.
    pub(crate) last_out: u32,
}

impl State {
    pub(crate) fn new(net: &Arc<Network>, settings: &Settings, member: &Member) -> Self {
        let seed = member.seed;
        let shared_bridges = member.bridges();
        let [limits, limits6] = member.limits();
        State {
            worker: WorkerNumber::new(member.number).unwrap_or_default(),
            counters: Counters::default(),
            limits,
            limits6,
            fragments4: Fragments::default(),
            fragments6: Fragments::default(),
            conntrack6: Fragments::default(),
            reassembled: ReassembledTable::default(),
            routes: RouteCache::default(),
            conntrack: member.conntrack(settings),
            policies: Policies::default(),
            connlimit: Connlimit::default(),
            taps: Taps::default(),
            flows: Flows::new(settings, seed, member.first_of(32) as u32),
            next_expiry: 0,
            sockets: Box::new(SocketList::default()),
            fingerprints: Arc::default(),
            queue_seed: member.secrets.queues,
            proxies: Proxies::new(member.secrets.cookies),
            queues: Queues::default(),
            neigh_queue: NeighQueue::default(),
            ipsec: Ipsec::new(net, None),
            tc: None,
            backlog: VecDeque::new(),
            spare: Spare::default(),
            scratch: Vec::new(),
            ip_id: FIRST_ID.wrapping_add(member.first_of(16) as u16),
            ip_ids: IpIds::new(member.secrets.ip_ids, member.first_of(16) as u16),
            trace_id: member.first_of(32) as u32,
            depth: 0,
            between_devices: 0,
            duplicating: false,
            random: member.random(),
            wall_ahead: 0,
            interfaces: interfaces(net),
            bridges: shared_bridges.of(net),
            shared_bridges,
            tunnels: Tunnels::default(),
            trace_all: false,
            last_out: 0,
        }
    }

    /// Another state of the network is in force.
    pub(crate) fn follow_bridges(&mut self, net: &Arc<Network>) {
        self.bridges = self.shared_bridges.follow(net, &self.bridges);
    }
}

/// A worker with everything that it needs for the length of a burst.
pub(crate) struct Worker<'a, S> {
    pub(crate) net: &'a Network,
    pub(crate) image: &'a Image,
    pub(crate) hooks: &'a Hooks,
    /// Machine code of the hook lists, where there is some.
    pub(crate) code: Option<&'a Compiled>,
    /// Whether packets may take the straight way; else they pass stage by stage.
    pub(crate) fast_path: bool,
    pub(crate) settings: &'a Settings,
    pub(crate) state: &'a mut State,
    pub(crate) sink: &'a mut S,
}

impl<'a, S: Sink> Worker<'a, S> {
    /// Ends a packet.
    pub(crate) fn drop(&mut self, reason: DropReason, packet: &Packet) {
        self.state.counters.count(reason);
        self.sink.drop(&Drop { reason, place: None }, packet);
    }

    /// Ends a packet where a rule or chain said so.
    #[inline]
    pub(crate) fn drop_at(
        &mut self,
        reason: DropReason,
        place: Option<Place<'_>>,
        packet: &Packet,
    ) {
        self.drop_by(&Drop { reason, place }, packet);
    }

    /// The same where it is known what is told.
    #[inline]
    pub(crate) fn drop_by(&mut self, drop: &Drop<'_>, packet: &Packet) {
        self.state.counters.count(drop.reason);
        self.sink.drop(drop, packet);
    }

    /// Runs `f` with a buffer for another packet, unless packets already bring about packets too
    /// deeply.
    pub(crate) fn nested(&mut self, time: u64, f: impl FnOnce(&mut Self, &mut Packet)) {
        let mut packet = self.state.spare.pop().unwrap_or_default();
        if self.state.depth >= DEPTH {
            self.state.counters.originated += 1;
            packet.load(&[], 0);
            self.drop(DropReason::Recursion, &packet);
        } else {
            self.state.depth += 1;
            packet.load(&[], 0);
            packet.meta.time = time;
            f(self, &mut packet);
            self.state.depth -= 1;
        }
        self.state.spare.push(packet);
    }

    /// A byte buffer; give it back with [`Worker::give_back`].
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = self.state.scratch.pop().unwrap_or_default();
        bytes.clear();
        bytes
    }

    pub(crate) fn give_back(&mut self, bytes: Vec<u8>) {
        self.state.scratch.push(bytes);
    }

    /// The MTU towards a destination.
    pub(crate) fn mtu(&self, to: &Route) -> usize {
        let device = self.net.link(to.oif).map_or(1500, |l| l.mtu);
        let mtu = if to.mtu != 0 { to.mtu } else { device };
        let mtu =
            if to.mtu == 0 && to.mtu_locked && to.gateway.is_some() { mtu.min(576) } else { mtu };
        mtu.min(65535) as usize
    }

    /// Mark of an answer to a packet.
    pub(crate) fn answer_mark(&self, packet: &Packet) -> u32 {
        if self.settings.fwmark_reflect { packet.meta.mark } else { 0 }
    }
}
