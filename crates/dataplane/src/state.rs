// SPDX-License-Identifier: Apache-2.0

//! What a worker remembers from burst to burst.

use std::collections::VecDeque;
use std::sync::Arc;

use penstock_conntrack::Conntrack;
use penstock_net::Network;
use penstock_packet::Packet;
use penstock_program::WorkerNumber;
use penstock_program::env::Interface;
use penstock_program::osf::Fingerprints;
use penstock_random::Random;

use crate::adjacencies::Forwarding;
use crate::bpf::Bpf;
use crate::bridge::{Bridges, SharedBridges};
use crate::connections::Policies;
use crate::connlimit::Connlimit;
use crate::flow::Flows;
use crate::interface::interfaces;
use crate::ip_ids::IpIds;
use crate::ipsec::Ipsec;
use crate::neigh_queue::NeighQueue;
use crate::path_mtus::PathMtus;
use crate::queues::Queues;
use crate::reason::Counters;
use crate::reassembled::ReassembledTable;
use crate::reassembly::{Fragments, Key4, Key6};
use crate::route::Route;
use crate::settings::Settings;
use crate::shared::{Member, SharedLimits};
use crate::sockets::{SocketList, Sockets};
use crate::spare::Spare;
use crate::synproxy::Proxies;
use crate::taps::Taps;
use crate::tc::Tc;
use crate::tunnels::Tunnels;
use crate::ways::Ways;

/// Identification of the first IPv4 packet that the host makes: none of the small numbers that
/// captures and rules are made with.
const FIRST_ID: u16 = 0x5053;

/// What lives on from burst to burst, by what uses it.
#[derive(Debug)]
pub(crate) struct State {
    /// The worker with the cells in which rules count.
    pub(crate) worker: WorkerNumber,
    /// What happened so far.
    pub(crate) counters: Counters,
    /// Connections.
    pub(crate) conntrack: Conntrack,
    /// What rules and the clock do with connections.
    pub(crate) tracking: Tracking,
    /// Flows that left the rules.
    pub(crate) flows: Flows,
    /// Fragments that wait, and how packets were fragmented.
    pub(crate) fragments: FragmentTables,
    /// IPsec, where the network has any.
    pub(crate) ipsec: Option<Box<Ipsec>>,
    /// Traffic control, where there is any.
    pub(crate) tc: Option<Box<Tc>>,
    /// BPF programs on devices, and what all programs run with.
    pub(crate) bpf: Bpf,
    /// Devices that are listened to.
    pub(crate) taps: Taps,
    /// Forwarding tables, and what rules ask about ports.
    pub(crate) bridges: Arc<Bridges>,
    /// Those of all workers.
    shared_bridges: SharedBridges,
    /// What tunnels remember next to their configuration.
    pub(crate) tunnels: Tunnels,
    /// What was learned of paths.
    pub(crate) path_mtus: PathMtus,
    /// Routes and neighbours that were found before.
    pub(crate) forwarding: Forwarding,
    /// What connections remember of the ways of their packets.
    pub(crate) ways: Ways,
    /// Packets that wait for a listener.
    pub(crate) queues: Queues,
    /// Packets that wait for a neighbour's link address.
    pub(crate) neigh_queue: NeighQueue,
    /// Buffers, and packets that are received later.
    pub(crate) buffers: Buffers,
    /// Random numbers and identifications.
    pub(crate) numbers: Numbers,
    /// Limits on ICMP errors and redirects.
    pub(crate) icmp_limits: IcmpLimits,
    /// Packets that are on their way because of other packets.
    pub(crate) nesting: Nesting,
    /// What rules ask about the host.
    pub(crate) host: Host,
    /// Every packet is traced.
    pub(crate) trace_all: bool,
}

/// What rules and the clock do with connections.
#[derive(Debug)]
pub(crate) struct Tracking {
    /// Timeouts that `ct timeout` objects give to connections.
    pub(crate) policies: Policies,
    /// Connections that `ct count` counts.
    pub(crate) connlimit: Connlimit,
    /// When connections that have lived out are looked for next.
    pub(crate) next_expiry: u64,
    /// Handshakes that are answered for servers.
    pub(crate) proxies: Proxies,
}

/// Fragments that wait, and how packets were fragmented.
#[derive(Debug, Default)]
pub(crate) struct FragmentTables {
    /// IPv4: of the host and of connection tracking, which share one limit.
    pub(crate) v4: Fragments<Key4>,
    /// IPv6: of the host.
    pub(crate) v6: Fragments<Key6>,
    /// IPv6: of connection tracking, with its own limit.
    pub(crate) conntrack6: Fragments<Key6>,
    /// How packets of this burst were fragmented that were reassembled before routing.
    pub(crate) reassembled: ReassembledTable,
}

impl FragmentTables {
    /// Parts that wait, and those that ended so far otherwise than as the packet that goes on or is
    /// dropped.
    pub(crate) fn account(&self) -> (usize, u64) {
        [self.v4.account(), self.v6.account(), self.conntrack6.account()]
            .into_iter()
            .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }
}

/// Buffers, and packets that are received later.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// Packet buffers not in use.
    pub(crate) spare: Spare,
    /// Byte buffers not in use.
    pub(crate) scratch: Vec<Vec<u8>>,
    /// Packets on the loopback device, with the routes that they keep: they are received after what
    /// is being done now.
    pub(crate) backlog: VecDeque<(Packet, Option<Route>)>,
}

/// Random numbers and identifications.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// Unpredictable, or the same in each run.
    pub(crate) random: Random,
    /// Identification of the latest packet with an outer header to another router.
    pub(crate) ip_id: u16,
    /// Identifications of packets to anybody.
    pub(crate) ip_ids: IpIds,
    /// Number of the latest packet that saw a chain.
    pub(crate) trace_id: u32,
    /// Decides which of several queues gets a packet.
    pub(crate) queue_seed: u32,
}

/// Limits on ICMP errors and redirects, by family.
#[derive(Debug)]
pub(crate) struct IcmpLimits {
    pub(crate) v4: SharedLimits,
    pub(crate) v6: SharedLimits,
}

/// Packets that are on their way because of other packets.
#[derive(Debug, Default)]
pub(crate) struct Nesting {
    /// How many of them, one because of the other.
    pub(crate) depth: u32,
    /// Frames that `dup` and `fwd` put on devices, one because of the other.
    pub(crate) between_devices: u32,
    /// A copy made by `dup` is on its way: no further copies of it (`nf_skb_duplicated`).
    pub(crate) duplicating: bool,
}

/// What rules ask about the host.
#[derive(Debug)]
pub(crate) struct Host {
    /// Its sockets.
    pub(crate) sockets: Box<dyn Sockets>,
    /// What operating systems are known by.
    pub(crate) fingerprints: Arc<Fingerprints>,
    /// Its devices, by index.
    pub(crate) interfaces: Vec<Option<Interface>>,
    /// By how much the wall clock is ahead of the packet clock, in nanoseconds.
    pub(crate) wall_ahead: i64,
}

impl State {
    pub(crate) fn new(net: &Arc<Network>, settings: &Settings, member: &Member) -> Self {
        let seed = member.seed;
        let shared_bridges = member.bridges();
        let [v4, v6] = member.limits();
        State {
            worker: WorkerNumber::new(member.number).unwrap_or_default(),
            counters: Counters::default(),
            conntrack: member.conntrack(settings),
            tracking: Tracking {
                policies: Policies::default(),
                connlimit: Connlimit::default(),
                next_expiry: 0,
                proxies: Proxies::new(member.secrets.cookies),
            },
            flows: Flows::new(settings, seed, member.first_of(32) as u32),
            fragments: FragmentTables::default(),
            ipsec: Ipsec::new(net, None),
            tc: None,
            bpf: Bpf::default(),
            taps: Taps::default(),
            bridges: shared_bridges.of(net),
            shared_bridges,
            tunnels: Tunnels::default(),
            path_mtus: PathMtus::new(member.path_mtus()),
            forwarding: Forwarding::default(),
            ways: Ways::default(),
            queues: Queues::default(),
            neigh_queue: NeighQueue::default(),
            buffers: Buffers::default(),
            numbers: Numbers {
                random: member.random(),
                ip_id: FIRST_ID.wrapping_add(member.first_of(16) as u16),
                ip_ids: IpIds::new(member.secrets.ip_ids, member.first_of(16) as u16),
                trace_id: member.first_of(32) as u32,
                queue_seed: member.secrets.queues,
            },
            icmp_limits: IcmpLimits { v4, v6 },
            nesting: Nesting::default(),
            host: Host {
                sockets: Box::new(SocketList::default()),
                fingerprints: Arc::default(),
                interfaces: interfaces(net),
                wall_ahead: 0,
            },
            trace_all: false,
        }
    }

    /// Another state of the network is in force.
    pub(crate) fn follow_bridges(&mut self, net: &Arc<Network>) {
        self.bridges = self.shared_bridges.follow(net, &self.bridges);
    }
}
