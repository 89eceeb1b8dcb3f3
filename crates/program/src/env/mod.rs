// SPDX-License-Identifier: Apache-2.0

//! What programs ask of the outside.

mod socket;
mod track;

use std::net::IpAddr;
use std::sync::Arc;

use penstock_packet::Packet;

use crate::operand::{CtDir, CtKey, Log, Synproxy};

use crate::linked::{
    ChainIndex, CtObject, FlowtableIndex, LinkedVerdict, NewConnection, RuleIndex,
};
use crate::osf::Fingerprints;
use crate::{Family, Hook, State, WorkerNumber};

pub use crate::operand::NatKind;
pub use socket::{LocalSocket, SocketKind, SocketQuery};
pub use track::{ConnCount, CountedConnection, Decision, NatRequest};

/// Where a chain runs (`struct nf_hook_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Family of the hook, never `Inet`: at IP hooks `Ip` or `Ip6`, also for chains of inet tables
    /// and at their ingress.
    pub family: Family,
    /// The hook.
    pub hook: Hook,
}

/// What rules ask about an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name, padded with zeros.
    pub name: [u8; 16],
    /// Kind (`veth`, `vlan`…), padded with zeros; all zeros if it has none.
    pub kind: [u8; 16],
    /// `ARPHRD_*`.
    pub arphrd: u16,
    /// Device group.
    pub group: u32,
}

/// The bridge of a port, as `meta ibr…` sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgePort {
    /// Name of the bridge, padded with zeros.
    pub bridge: [u8; 16],
    /// Link address of the bridge.
    pub address: [u8; 6],
    /// With VLAN filtering: the VLAN of untagged frames of this port (0 for none) and the bridge's
    /// tag protocol.
    pub vlan: Option<(u16, u16)>,
}

/// An IPsec transformation that a packet went through or is to go through (`struct xfrm_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpsecState {
    /// Request id.
    pub reqid: u32,
    /// Security parameter index, host order.
    pub spi: u32,
    /// Source and destination of the tunnel; `None` in transport mode.
    pub tunnel: Option<(IpAddr, IpAddr)>,
}

/// A lookup in the routing table (`struct flowi4`, `struct flowi6`) as `nft_fib_*_eval()` makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FibQuery {
    /// Destination looked up.
    pub daddr: IpAddr,
    /// Source of the lookup; zeros where the packet's address cannot be one.
    pub saddr: IpAddr,
    /// TOS or traffic class.
    pub tos: u8,
    /// Packet mark, or 0 if the mark is not part of the key.
    pub mark: u32,
    /// Input interface of the lookup; 1 (loopback) unless the packet is being forwarded.
    pub iif: u32,
    /// Transport protocol, 0 if unknown.
    pub protocol: u8,
    /// Restrict the result to this interface: the route counts if any of its next hops uses it.
    pub device: Option<u32>,
}

/// The packet's route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Gateway; `None` if the destination is on-link.
    pub gateway: Option<IpAddr>,
    /// Path MTU in bytes.
    pub mtu: u32,
    /// MTU of the route back to the source, where there is one.
    pub reverse_mtu: Option<u32>,
    /// Routing realm.
    pub realm: u32,
    /// Goes through IPsec.
    pub xfrm: bool,
}

/// How a packet is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// ICMP destination unreachable with this code.
    Icmp(u8),
    /// ICMPv6 destination unreachable with this code.
    Icmpv6(u8),
    /// TCP reset.
    TcpReset,
}

/// One line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace<'a> {
    /// A rule that did not break (`NFT_TRACETYPE_RULE`).
    Rule {
        /// Which.
        rule: RuleIndex,
        /// What it said.
        verdict: &'a LinkedVerdict,
    },
    /// Rejected, stolen or taken over by a rule (its verdict is not among [`LinkedVerdict`]'s).
    Taken {
        /// Which.
        rule: RuleIndex,
        /// `drop` (rejected) or `stolen`.
        word: &'static str,
    },
    /// A chain came to its end, by a rule with `return` or after the last rule
    /// (`NFT_TRACETYPE_RETURN`).
    Return {
        /// Which.
        chain: ChainIndex,
        /// The rule with `return`.
        rule: Option<RuleIndex>,
    },
    /// The policy of a base chain decides (`NFT_TRACETYPE_POLICY`).
    Policy {
        /// Which.
        chain: ChainIndex,
        /// Accept, or drop.
        accept: bool,
    },
}

/// Who the two ends of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtSources {
    /// Transport protocol.
    pub protocol: u8,
    /// Address and port, or what the protocol has in its place: of the original direction, and of
    /// replies.
    pub sources: [(IpAddr, u16); 2],
}

/// What programs ask of the outside: the path implements it, and plain structs do in tests. The
/// clock is [`Meta::time`](penstock_packet::Meta::time) of the packet; the interfaces are in its
/// metadata, by index.
///
/// Everything is called directly, nothing may allocate or block but what sends or records packets.
/// What has a body here answers as if there were no such thing: no connection, no bridge, no
/// socket.
///
/// The packet's connection is [`Meta::ct`](penstock_packet::Meta::ct); `ct state`, `ct direction`
/// and `notrack` are done with that alone and never asked for.
pub trait Env {
    /// Family and hook of the chain that runs.
    fn context(&self) -> Context;

    /// An interface by index.
    fn interface(&self, index: u32) -> Option<&Interface>;

    /// Index of the interface of a name, which is padded with zeros.
    fn interface_named(&self, name: &[u8; 16]) -> Option<u32> {
        let _ = name;
        None
    }

    /// What the wall clock says at a time of the packet clock, which continues when the wall clock
    /// is set: nanoseconds since the epoch, for `meta time`, `day` and `hour`.
    fn wall_time(&self, time: u64) -> u64 {
        time
    }

    /// A random number.
    fn random(&mut self) -> u32;

    /// The worker: counters use its cells, and `meta cpu` shows it.
    fn worker(&self) -> WorkerNumber {
        WorkerNumber::FIRST
    }

    /// Slave interface of arrival in a VRF; 0 for none.
    fn sdif(&self, _packet: &Packet) -> u32 {
        0
    }

    /// The interface of a unicast route (or another that names a device), `None` without a route,
    /// for local addresses and for routes that do not pass [`FibQuery::device`].
    fn fib_interface(&mut self, query: &FibQuery) -> Option<u32>;

    /// Type of an address (`RTN_*`), for one device where it is given.
    fn fib_type(&mut self, query: &FibQuery) -> u8;

    /// The packet's route, where routing has decided already.
    fn route(&mut self, packet: &Packet) -> Option<Route>;

    /// Records the packet as it is now.
    fn log(&mut self, packet: &Packet, log: &Log);

    /// Answers the packet; whether an answer is due (fragments, resets, broadcasts…) is decided
    /// here. The packet is dropped afterwards.
    fn reject(&mut self, packet: &Packet, rejection: Rejection);

    /// Tells the sender of an IPv6 packet that a field of the header is bad (ICMPv6 parameter
    /// problem), at an offset of it.
    fn bad_field6(&mut self, packet: &Packet, at: u32) {
        let _ = (packet, at);
    }

    /// Sends a copy on a device, as the frame is (`None` and a device), or by routing it to a
    /// gateway (an address and maybe a device).
    fn dup(&mut self, packet: &Packet, gateway: Option<IpAddr>, device: Option<u32>);

    /// Takes the packet over to send it on a device, as the frame is or to a neighbour there. The
    /// program ends.
    fn fwd(&mut self, packet: &mut Packet, device: u32, neighbour: Option<IpAddr>);

    /// A step of a packet that is traced.
    fn trace(&mut self, packet: &Packet, step: Trace<'_>);

    /// A secret number that never changes: it decides which queue of several gets a packet.
    fn queue_seed(&self) -> u32 {
        0
    }

    /// A key of the packet's connection, `state` and `direction` excepted (`nft_ct_get_eval()`).
    /// Only asked for packets that have an entry. The register bytes go into `out`: integers as
    /// [`CtKey`] says, names padded with zeros, ports in network order; the answer is their number,
    /// at most 16. `None` where the rule breaks: addresses of another family than the key's, a
    /// helper that the connection's master does not have. Labels, packets and bytes that are not
    /// kept are zero.
    fn ct_get(
        &mut self,
        packet: &Packet,
        key: CtKey,
        dir: Option<CtDir>,
        out: &mut [u8; 16],
    ) -> Option<u8> {
        let _ = (packet, key, dir, out);
        None
    }

    /// Sets a key of the packet's connection (`nft_ct_set_eval()`): mark, labels (which are added
    /// to those that are set), secmark, event mask; the bytes are those of the register. Only
    /// called for packets that have an entry.
    fn ct_set(&mut self, packet: &Packet, key: CtKey, value: &[u8]) {
        let _ = (packet, key, value);
    }

    /// Gives a packet without entry and template a template with a zone (`nft_ct_set_zone_eval()`),
    /// for one direction or both: sets [`Ct::template`](penstock_packet::Ct::template), and the
    /// info to new. A packet that was untracked is tracked then. [`Decision::Drop`] if that is
    /// impossible.
    fn ct_set_zone(&mut self, packet: &mut Packet, zone: u16, dir: Option<CtDir>) -> Decision {
        let _ = (packet, zone, dir);
        Decision::Continue
    }

    /// Gives a packet without connection a template: with a helper, which has to be one for the
    /// packet's transport protocol, with a timeout policy, and with a zone, as
    /// [`Env::ct_set_zone`] does (`xt_ct_target()` in the kernel).
    fn ct_set_template(&mut self, packet: &mut Packet, new: &NewConnection) -> Decision {
        let _ = (packet, new);
        Decision::Continue
    }

    /// Original source of the packet's connection, or of the one that this was expected by; `None`
    /// without a connection.
    fn ct_first_source(&mut self, packet: &Packet) -> Option<IpAddr> {
        let _ = packet;
        None
    }

    /// The sources of both directions of the packet's connection; `None` without one.
    fn ct_sources(&mut self, packet: &Packet) -> Option<CtSources> {
        let _ = packet;
        None
    }

    /// Gives a helper, timeouts or an expectation to the packet's connection; what is asked of
    /// connection and packet is checked here: not confirmed, no template, protocol, no helper yet.
    /// `Continue`, for expectations also `Break` (no such connection, enough expectations), `Drop`
    /// where it is impossible.
    fn ct_object(&mut self, packet: &Packet, object: &CtObject) -> Decision {
        let _ = packet;
        match object {
            CtObject::Helper { .. } | CtObject::Timeout { .. } => Decision::Continue,
            CtObject::Expect { .. } => Decision::Break,
        }
    }

    /// Counts the packet's connection in `count` until it ends, unless it is counted there already,
    /// and says how many connections are in it then (`nf_conncount_add()`). A packet without
    /// connection counts for itself: the answer is one more than there are. `None` if the packet
    /// can be of no connection or there is no room: it is dropped.
    fn connlimit(&mut self, packet: &Packet, count: ConnCount<'_>) -> Option<u32> {
        let _ = packet;
        Some(count.connections().saturating_add(1))
    }

    /// Binds the packet's connection to a translation (`nf_nat_setup_info()`,
    /// `nf_nat_masquerade_ipv4()`, `nf_nat_redirect_ipv4()`…): `Accept`, or `Drop` where there is
    /// no tuple or address for it. The packet itself is translated by the stage that runs the
    /// chain.
    fn nat(&mut self, packet: &Packet, request: &NatRequest) -> Decision {
        let _ = (packet, request);
        Decision::Accept
    }

    /// Answers for a server (`nft_synproxy_do_eval()`). Only called for TCP over IPv4 and IPv6:
    /// `Stolen` for a SYN, and for an ACK that carries a valid cookie; `Drop` for other ACKs, bad
    /// checksums and malformed options; `Continue` for what is neither.
    fn synproxy(&mut self, packet: &mut Packet, offer: &Synproxy) -> Decision {
        let _ = (packet, offer);
        Decision::Drop
    }

    /// Puts the packet's connection into a flowtable (`nft_flow_offload_eval()`): `Continue`, or
    /// `Break` where that is not possible (yet).
    fn flow_offload(&mut self, packet: &Packet, flowtable: FlowtableIndex) -> Decision {
        let _ = (packet, flowtable);
        Decision::Break
    }

    /// A local socket.
    fn socket(&mut self, query: &SocketQuery) -> Option<LocalSocket> {
        let _ = query;
        None
    }

    /// The socket with a number: the one that a packet was sent from or is assigned to.
    fn socket_by_id(&mut self, id: u32) -> Option<LocalSocket> {
        let _ = id;
        None
    }

    /// The cgroup (v2) of a socket, or the ancestor of it at a level below the root, as its 64-bit
    /// id; `None` if it is not that deep.
    fn socket_cgroup(&mut self, socket: &LocalSocket, level: u32) -> Option<u64> {
        let _ = (socket, level);
        None
    }

    /// First address of an interface that packets can be sent to: for IPv4 of no secondary one, for
    /// IPv6 neither tentative nor deprecated.
    fn primary_address(&mut self, device: u32, v6: bool) -> Option<IpAddr> {
        let _ = (device, v6);
        None
    }

    /// The original source and source port (host order) of the packet's connection, for answers in
    /// a connection with source NAT; `None` for all else (`nf_sk_lookup_slow_v4()`).
    fn untranslated_source(&mut self, packet: &Packet) -> Option<(IpAddr, u16)> {
        let _ = packet;
        None
    }

    /// What operating systems are known by.
    fn fingerprints(&self) -> Option<&Fingerprints> {
        None
    }

    /// The IPsec transformation number `spnum` that the packet came through, or is to go `out`
    /// through.
    fn ipsec(&mut self, packet: &Packet, out: bool, spnum: u32) -> Option<IpsecState> {
        let _ = (packet, out, spnum);
        None
    }

    /// Id of the tunnel that the packet came through with metadata (`struct ip_tunnel_info`).
    fn tunnel_id(&mut self, packet: &Packet) -> Option<u32> {
        let _ = packet;
        None
    }

    /// The bridge that an interface is a port of.
    fn bridge_port(&self, index: u32) -> Option<&BridgePort> {
        let _ = index;
        None
    }

    /// A quota is used up, of an object or of an account: once, until it is reset
    /// (`nft_quota_obj_eval()`, `nfnl_acct_overquota()`).
    fn quota_depleted(&mut self, quota: &Arc<State>) {
        let _ = quota;
    }
}
