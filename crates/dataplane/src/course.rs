// SPDX-License-Identifier: Apache-2.0

//! Where a packet continues, and what it takes along from stage to stage.

use penstock_program::Hook;
use penstock_wire::ipv4_options::Compiled;

use crate::hooks::Protocol;
use crate::route::Route;

/// The stage where a packet continues. [`Worker::run`](crate::worker::Worker::run) says what each
/// of them does; a packet in a queue keeps the one that follows its hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nowhere: it was sent, delivered, dropped, queued, or taken by something else.
    #[default]
    Done,
    /// Nowhere: it was dropped on its way out, and the caller gets an error.
    Refused,
    /// Ingress of the device that it arrived on.
    Ingress,
    /// VLAN devices and bridges above that device.
    AfterIngress,
    /// What a bridge does with a frame of its port, up to the bridge's `prerouting`.
    BridgePrerouting,
    /// A packet has passed a hook of IP on a bridge, and the rest of the bridge's list follows.
    BridgeAfterIp(Hook),
    /// The bridge decides where the frame goes.
    BridgeRoute,
    /// To the bridge device: `input` of the bridge.
    BridgeInput,
    /// Received on the bridge device.
    BridgeReceived,
    /// After `forward` or `output` of the bridge: `postrouting`.
    BridgePostrouting,
    /// Out of a port of the bridge.
    BridgePush,
    /// The frame is for this host, as far as devices and bridges go: its protocol.
    Protocol,
    /// `input` of ARP.
    Arp,
    /// The checks of IPv4, and `prerouting`.
    Ip4Prerouting,
    /// The routing decision.
    Ip4Route,
    /// To this host: reassembly, and `input`.
    Ip4Input,
    /// To another device: time to live, MTU, and `forward`.
    Ip4Forward,
    /// After `forward`: options.
    Ip4AfterForward,
    /// `postrouting`.
    Ip4Postrouting,
    /// After `postrouting`: IPsec and fragments.
    Ip4Finish,
    /// The checks of IPv6, and `prerouting`.
    Ip6Prerouting,
    /// The routing decision.
    Ip6Route,
    /// To this host: `input`.
    Ip6Input,
    /// After `input`: extension headers and reassembly.
    Ip6AfterInput,
    /// To another device: hop limit, MTU, and `forward`.
    Ip6Forward,
    /// `postrouting`.
    Ip6Postrouting,
    /// After `postrouting`: what the host sends to groups comes back to it.
    Ip6AfterPostrouting,
    /// IPsec and fragments.
    Ip6Finish,
    /// To the host itself, or out of a tunnel.
    Deliver,
    /// After `output`.
    AfterOutput(Protocol),
    /// A copy of what the host sent to many is received by the host.
    ComeBack,
    /// To the next hop, by its link address.
    Neighbour(Protocol),
    /// Egress of the device that it leaves by.
    Egress,
}

/// What a packet takes along from stage to stage, next to its metadata.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Course {
    /// The packet's route, if it has one. Packets on the loopback device keep that of `output`.
    pub(crate) route: Option<Route>,
    /// Where the packet continues after the hook that it is at.
    pub(crate) next: Next,
    /// Devices one above the other at which the packet was received.
    pub(crate) levels: u8,
    /// Its IPv4 options, if it is forwarded.
    pub(crate) options: Compiled,
    /// The outer packet of a tunnel over IPv6, which is not fragmented.
    pub(crate) whole: bool,
    /// For a copy that returns to the host: the route by which it is received.
    pub(crate) back: Option<Route>,
    /// The device that a packet of the host's own was on before, 0 for none: its tunnel, or where
    /// the packet in IPsec came from (`skb->dev`). At `postrouting` it is the device of arrival.
    pub(crate) on: u32,
    /// Where a packet was addressed to that passes `prerouting` of IP on a bridge, an IPv4 address
    /// in the low bits.
    pub(crate) destination: u128,
}

impl Course {
    /// The course of a packet with a route.
    #[inline(always)]
    pub(crate) fn to(route: Route) -> Self {
        Course { route: Some(route), ..Course::default() }
    }

    /// The course of a packet at a hook, after which it continues at `next`.
    #[inline(always)]
    pub(crate) fn at_hook(route: Option<Route>, next: Next) -> Self {
        Course { route, next, ..Course::default() }
    }
}

impl Next {
    /// After something was sent, or refused.
    #[inline]
    pub(crate) const fn sent(sent: bool) -> Self {
        if sent { Next::Done } else { Next::Refused }
    }

    /// The routing decision of a protocol.
    #[inline(always)]
    pub(crate) const fn route(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Ip => Next::Ip4Route,
            Protocol::Ip6 => Next::Ip6Route,
            Protocol::Arp | Protocol::Bridge => Next::Done,
        }
    }

    /// `postrouting` of a protocol.
    #[inline(always)]
    pub(crate) const fn postrouting(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Ip => Next::Ip4Postrouting,
            Protocol::Ip6 => Next::Ip6Postrouting,
            Protocol::Arp | Protocol::Bridge => Next::Done,
        }
    }

    /// After `postrouting` of a protocol.
    #[inline(always)]
    pub(crate) const fn after_postrouting(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Ip => Next::Ip4Finish,
            Protocol::Ip6 => Next::Ip6AfterPostrouting,
            Protocol::Arp | Protocol::Bridge => Next::Done,
        }
    }
}
