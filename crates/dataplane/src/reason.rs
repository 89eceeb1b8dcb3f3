// SPDX-License-Identifier: Apache-2.0

//! Why packets end, and how many did: every packet that does not continue has one of these reasons.

use std::fmt;

use penstock_ruleset::Family;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        /// Why a packet went no further. The kernel's name (`SKB_DROP_REASON_*`) is mentioned where
        /// there is one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason { $($(#[$doc])* $name),+ }

        impl DropReason {
            /// All reasons, in order of their numbers.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$name),+];

            /// In words, for counters and summaries.
            pub const fn text(self) -> &'static str {
                match self { $(DropReason::$name => $text),+ }
            }
        }
    };
}

reasons! {
    /// A rule said so (`NETFILTER_DROP`).
    Rule = "rule",
    /// The policy of a base chain (`NETFILTER_DROP`).
    Policy = "policy",
    /// A rule queued it without a listener.
    Queue = "queue without listener",
    /// A rule queued it and the listener has too many already.
    QueueFull = "queue full",
    /// A client that a proxy answers for has no valid cookie.
    Synproxy = "synproxy cookie",
    /// A rule rejected it.
    Reject = "reject",
    /// `fwd` took it and could not send it on.
    Forward = "fwd impossible",
    /// A BPF program at a hook of netfilter dropped it (`NETFILTER_DROP`).
    Bpf = "BPF program",
    /// A BPF program went wrong.
    BpfFault = "BPF program went wrong",
    /// A program of XDP dropped it.
    Xdp = "XDP program",
    /// A program of XDP gave up, or returned what is no verdict.
    XdpAborted = "XDP program aborted",
    /// A program of XDP redirected it to a device that is not there.
    XdpRedirect = "XDP redirect to no device",
    /// A filter or program of the tc stage dropped it (`TC_INGRESS`, `TC_EGRESS`).
    Tc = "tc filter",
    /// The queue of the device has no room (`QDISC_DROP`).
    Qdisc = "device queue full",
    /// The frame is shorter than its link header.
    LinkHeader = "malformed: link header",
    /// A VLAN tag is cut.
    VlanTag = "malformed: VLAN tag",
    /// A tag for which there is no VLAN device (`VLAN_HDR` and `OTHERHOST` in the kernel).
    UnknownVlan = "unknown VLAN",
    /// The device is down.
    LinkDown = "device down",
    /// No protocol takes the ethertype (`UNHANDLED_PROTO`).
    Ethertype = "unknown ethertype",
    /// For another host's link address (`OTHERHOST`).
    OtherHost = "other host",
    /// ARP on a device with `arp off`.
    ArpOff = "ARP off",
    /// An ARP message that is cut or not about IPv4 over Ethernet.
    Arp = "malformed: ARP",
    /// Version, header length or total length of IPv4 (`IP_INHDR`).
    Ip4Header = "malformed: IPv4 header",
    /// Header checksum (`IP_CSUM`).
    Ip4Checksum = "malformed: IPv4 checksum",
    /// Shorter than it says (`PKT_TOO_SMALL`).
    Ip4Truncated = "malformed: IPv4 truncated",
    /// A datagram with ESP has a wrong checksum, or over IPv6 none (`UDP_CSUM`).
    UdpChecksum = "malformed: UDP checksum",
    /// An option is malformed.
    Ip4Options = "malformed: IPv4 options",
    /// It carries a source route that is not accepted, or cannot be followed.
    SourceRoute = "source route",
    /// Version or addresses of IPv6 (`IP_INHDR`).
    Ip6Header = "malformed: IPv6 header",
    /// Shorter than it says.
    Ip6Truncated = "malformed: IPv6 truncated",
    /// Hop-by-hop options are malformed or forbid to continue.
    Ip6Options = "malformed: IPv6 options",
    /// IPv6 is off on the device, as on those with an MTU below 1280 (`IPV6DISABLED`).
    Ip6Disabled = "IPv6 disabled on device",
    /// An extension header at the destination is malformed or unknown.
    Ip6Extension = "malformed: IPv6 extension header",
    /// The source address cannot be one (`IP_INVALID_SOURCE`, `IP_LOCAL_SOURCE`).
    MartianSource = "martian source",
    /// The source is not routed back by the device (`IP_RPFILTER`).
    ReversePath = "reverse path",
    /// The device does not forward packets (`IP_INADDRERRORS`).
    NotForwarding = "forwarding off on device",
    /// For one host, in a frame to many (`UNICAST_IN_L2_MULTICAST`).
    UnicastInMulticast = "unicast in link multicast",
    /// The destination address cannot be one (`IP_INVALID_DEST`).
    MartianDestination = "martian destination",
    /// No route (`IP_INNOROUTES`).
    NoRoute = "no route",
    /// An `unreachable` route.
    Unreachable = "route unreachable",
    /// A `prohibit` route.
    Prohibit = "route prohibit",
    /// A `blackhole` route.
    Blackhole = "route blackhole",
    /// For a group that the device is no member of.
    NotMember = "multicast group not joined",
    /// To be forwarded, but came as link broadcast or multicast.
    NotForHost = "link broadcast not forwarded",
    /// To be forwarded, but a rule has given it to a socket of the host (`tproxy`).
    OfSocket = "given to a socket, not forwarded",
    /// TTL or hop limit ran out.
    Ttl = "TTL exceeded",
    /// Larger than the MTU, and must not be fragmented (`PKT_TOO_BIG`).
    TooBig = "packet too big",
    /// The source may not leave its link, or is no source (IPv6).
    Scope = "address scope",
    /// The next hop's link address is unknown (`NEIGH_FAILED`).
    NoNeighbour = "no neighbour",
    /// A fragment that is impossible or overlaps others.
    Fragment = "malformed: fragment",
    /// Fragments did not all come in time (`FRAG_REASM_TIMEOUT`).
    ReassemblyTimeout = "reassembly timeout",
    /// Too many fragments wait already.
    ReassemblyFull = "reassembly memory",
    /// It begins a connection, and the table is full.
    ConntrackFull = "conntrack table full",
    /// Connection tracking refused it for its protocol's sake.
    Conntrack = "conntrack refused",
    /// Its connection could not be entered into the table (`insert_failed`).
    ConntrackInsert = "conntrack insert failed",
    /// The helper of its connection refused it (`helper dropped packet`).
    Helper = "conntrack helper",
    /// It cannot follow its connection's translation: headers are missing, or it is an ICMP error
    /// that must not.
    Nat = "nat",
    /// Its connection is masqueraded through another device than it would leave by.
    NatDevice = "nat: masqueraded through another device",
    /// The source link address cannot be one (`MAC_INVALID_SOURCE`).
    LinkSource = "malformed: source link address",
    /// A pause frame, which no bridge sends on (`MAC_IEEE_MAC_CONTROL`).
    LinkControl = "MAC control frame",
    /// The bridge is down, or the port locked for this source (`BRIDGE_INGRESS_STP_STATE`).
    BridgePort = "bridge port closed",
    /// The port is not in the frame's VLAN.
    BridgeVlan = "VLAN filtered",
    /// A packet to a group that a bridge cannot read, or a malformed message about memberships.
    Membership = "malformed: IGMP, MLD or group packet",
    /// A report that brings more groups than a bridge may know: it snoops no longer.
    MembershipsFull = "too many groups on bridge",
    /// No port takes it (`NO_TX_TARGET`).
    BridgeTarget = "no bridge port to leave by",
    /// A tunnel does not carry this protocol.
    TunnelProtocol = "tunnel: protocol not carried",
    /// There is no way between the ends of the tunnel, or it leads into the tunnel itself.
    TunnelRoute = "tunnel: no way to the other end",
    /// It may not enter another tunnel (RFC 2473).
    TunnelLimit = "tunnel: encapsulation limit",
    /// The header inside is not all there.
    TunnelHeader = "malformed: inner header",
    /// No tunnel has these ends.
    NoTunnel = "no such tunnel",
    /// The ends of the tunnel, or the addresses inside, are not what they should be.
    TunnelSource = "tunnel: wrong source",
    /// It met congestion in the tunnel, and those who talk do not know the word (RFC 6040).
    Congestion = "tunnel: congestion",
    /// A PPPoE header that is cut.
    Pppoe = "malformed: PPPoE",
    /// No session has this id and peer.
    PppoeSession = "no such PPPoE session",
    /// A session carries IPv4 and IPv6 only.
    PppProtocol = "PPP: protocol not carried",
    /// Too many IPsec transformations, one in the other.
    XfrmInBufferError = "XfrmInBufferError",
    /// An ESP header or what it holds is not all there.
    XfrmInHdrError = "XfrmInHdrError",
    /// No IPsec state has this address and SPI.
    XfrmInNoStates = "XfrmInNoStates",
    /// The integrity value is wrong, or what was encrypted is malformed.
    XfrmInStateProtoError = "XfrmInStateProtoError",
    /// What ESP held does not fit its state's mode.
    XfrmInStateModeError = "XfrmInStateModeError",
    /// A sequence number that is too old or was there before.
    XfrmInStateSeqError = "XfrmInStateSeqError",
    /// The lifetime of the IPsec state is over.
    XfrmInStateExpired = "XfrmInStateExpired",
    /// ESP came within UDP and should not, or the other way round; or what it held does not fit the
    /// state's selector.
    XfrmInStateMismatch = "XfrmInStateMismatch",
    /// The IPsec state is one for packets that leave.
    XfrmInStateDirError = "XfrmInStateDirError",
    /// It did not come through what the templates of its policy ask for.
    XfrmInTmplMismatch = "XfrmInTmplMismatch",
    /// It came through a tunnel, and no policy says that it may.
    XfrmInNoPols = "XfrmInNoPols",
    /// A policy blocks it on its way in or through.
    XfrmInPolBlock = "XfrmInPolBlock",
    /// There is no way to the other end of a tunnel.
    XfrmOutBundleGenError = "XfrmOutBundleGenError",
    /// There is no IPsec state for a template that requires one.
    XfrmOutNoStates = "XfrmOutNoStates",
    /// It could not be encrypted.
    XfrmOutStateProtoError = "XfrmOutStateProtoError",
    /// It is too large for a tunnel, or does not fit its mode.
    XfrmOutStateModeError = "XfrmOutStateModeError",
    /// The IPsec state has no sequence numbers left.
    XfrmOutStateSeqError = "XfrmOutStateSeqError",
    /// The lifetime of the IPsec state is over.
    XfrmOutStateExpired = "XfrmOutStateExpired",
    /// The IPsec state is one for packets that arrive.
    XfrmOutStateDirError = "XfrmOutStateDirError",
    /// A policy blocks it on its way out.
    XfrmOutPolBlock = "XfrmOutPolBlock",
    /// It is another worker's, which has too many waiting already.
    HandOver = "worker busy",
    /// A packet that the host wanted to send is no IP packet.
    HostPacket = "malformed: host packet",
    /// A packet that the host made itself went around too often.
    Recursion = "recursion",
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// Where in the ruleset something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// Of the table.
    pub family: Family,
    /// Name.
    pub table: &'a str,
    /// Name.
    pub chain: &'a str,
    /// Handle of the rule; `None` for the chain's policy.
    pub rule: Option<u64>,
}

/// The end of a packet.
#[derive(Clone, Copy, Debug)]
pub struct DropEvent<'a> {
    /// Why.
    pub reason: DropReason,
    /// Which rule or chain did it, where one did.
    pub place: Option<Place<'a>>,
}

/// What happened to how many packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Frames received from devices.
    pub received: u64,
    /// Frames sent on wires.
    pub transmitted: u64,
    /// Packets delivered to the host.
    pub delivered: u64,
    /// Packets that went to the forward path with a route.
    pub forwarded: u64,
    /// Packets that flowtables forwarded.
    pub fast: u64,
    /// Packets taken over by a rule or a fragment queue: they continue as something else, or wait.
    pub taken: u64,
    /// Packets and frames that the host has sent.
    pub from_host: u64,
    /// Packets that the path made: answers, copies, and the pieces that a packet was cut into.
    pub originated: u64,
    /// Packets that ended in others: fragments that were put together, and what was cut into
    /// pieces, sent on as a copy, or answered in place of a server.
    pub absorbed: u64,
    /// Connections whose port a rule of NAT has drawn at random (`random`, `fully-random`).
    pub random_ports: u64,
    drops: Vec<u64>,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            received: 0,
            transmitted: 0,
            delivered: 0,
            forwarded: 0,
            fast: 0,
            taken: 0,
            from_host: 0,
            originated: 0,
            absorbed: 0,
            random_ports: 0,
            drops: vec![0; DropReason::ALL.len()],
        }
    }
}

impl Counters {
    #[inline]
    pub(crate) fn count(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    /// Counts several packets that were dropped.
    #[inline]
    pub(crate) fn count_several(&mut self, reason: DropReason, packets: u64) {
        self.drops[reason as usize] += packets;
    }

    /// Adds what happened elsewhere.
    pub fn add(&mut self, other: &Counters) {
        let Counters {
            received,
            transmitted,
            delivered,
            forwarded,
            fast,
            taken,
            from_host,
            originated,
            absorbed,
            random_ports,
            drops,
        } = other;
        self.received += received;
        self.transmitted += transmitted;
        self.delivered += delivered;
        self.forwarded += forwarded;
        self.fast += fast;
        self.taken += taken;
        self.from_host += from_host;
        self.originated += originated;
        self.absorbed += absorbed;
        self.random_ports += random_ports;
        self.drops.iter_mut().zip(drops).for_each(|(all, more)| *all += more);
    }

    /// Packets dropped for this reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Packets that came or were made and of which no end is counted. With the packets that wait
    /// ([`Dataplane::waiting`](crate::Dataplane::waiting)) taken off it is 0 between bursts.
    pub fn unaccounted(&self) -> i64 {
        let begun = self.received + self.from_host + self.originated;
        let ended = self.transmitted + self.delivered + self.dropped() + self.absorbed;
        begun.wrapping_sub(ended) as i64
    }

    /// All reasons that occurred, with their counts.
    pub fn all_drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&r| (r, self.drops(r))).filter(|(_, n)| *n > 0)
    }

    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }
}
