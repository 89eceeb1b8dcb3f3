//! What programs ask of the outside.

use std::net::IpAddr;

use penstock_packet::Packet;

use crate::expr::Log;
use crate::image::{ChainIndex, LinkedVerdict, RuleIndex};

/// Hooks of all families. The kernel's numbers differ per family; the names do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// netdev and inet.
    Ingress,
    /// Before routing.
    Prerouting,
    /// To this host.
    Input,
    /// Through this host.
    Forward,
    /// From this host.
    Output,
    /// On the way out.
    Postrouting,
    /// netdev.
    Egress,
}

/// Where a chain runs (`struct nf_hook_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// `NFPROTO_*` of the hook: 2 or 10 at IP hooks (also for chains of inet tables, at inet ingress too), 3 arp,
    /// 5 netdev, 7 bridge.
    pub nfproto: u8,
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
    /// Rejected, stolen or taken over by a rule (its verdict is not among [`LinkedVerdict`]'s plain ones).
    Taken {
        /// Which.
        rule: RuleIndex,
        /// `drop` (rejected) or `stolen`.
        word: &'static str,
    },
    /// A chain came to its end, by a rule with `return` or after the last rule (`NFT_TRACETYPE_RETURN`).
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

/// What programs ask of the outside: the path implements it, and plain structs do in tests. The clock is
/// [`Meta::time`](penstock_packet::Meta::time) of the packet; the interfaces are in its metadata, by index.
///
/// Everything is called directly, nothing may allocate or block but what sends or records packets.
pub trait Env {
    /// Family and hook of the chain that runs.
    fn context(&self) -> Context;

    /// An interface by index.
    fn interface(&self, index: u32) -> Option<&Interface>;

    /// A random number.
    fn random(&mut self) -> u32;

    /// Number of the worker, as `meta cpu` shows it.
    fn cpu(&self) -> u32 {
        0
    }

    /// Slave interface of arrival in a VRF; 0 for none.
    fn sdif(&self, _packet: &Packet) -> u32 {
        0
    }

    /// The interface of a unicast route (or another that names a device), `None` without a route, for local
    /// addresses and for routes that do not pass [`FibQuery::device`].
    fn fib_interface(&mut self, query: &FibQuery) -> Option<u32>;

    /// Type of an address (`RTN_*`), for one device where it is given.
    fn fib_type(&mut self, query: &FibQuery) -> u8;

    /// The packet's route, where routing has decided already.
    fn route(&mut self, packet: &Packet) -> Option<Route>;

    /// Records the packet as it is now.
    fn log(&mut self, packet: &Packet, log: &Log);

    /// Answers the packet; whether an answer is due (fragments, resets, broadcasts…) is decided here. The packet is
    /// dropped afterwards.
    fn reject(&mut self, packet: &Packet, rejection: Rejection);

    /// Sends a copy on a device, as the frame is (`None` and a device), or by routing it to a gateway (an address and
    /// maybe a device).
    fn dup(&mut self, packet: &Packet, gateway: Option<IpAddr>, device: Option<u32>);

    /// Takes the packet over to send it on a device, as the frame is or to a neighbour there. The program ends.
    fn fwd(&mut self, packet: &mut Packet, device: u32, neighbour: Option<IpAddr>);

    /// A step of a packet that is traced.
    fn trace(&mut self, packet: &Packet, step: Trace<'_>);
}
