// SPDX-License-Identifier: Apache-2.0

//! Which devices the packets of a direction go through, and what they get on the way: worked out
//! once, when a flow is added (`nft_dev_forward_path()`, `dev_fill_forward_path()`).
//!
//! ```text
//! route's device -> VLAN -> VLAN -> …     tags
//!                -> PPPoE                 session, address of its other end
//!                -> bridge -> port        tag, or none, by VLAN filtering; the port of the next hop's address
//!                -> tunnel -> its route   outer header, then as above
//! ```
//!
//! Where that leads to a device of the flowtable, packets are put there at once, with all that is
//! around them; and answers are expected there with the same around them. Where it does not, the
//! flow is not added, as in Linux 7.3; older kernels put packets on the route's device and expect
//! answers on that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use penstock_flowtable::arrival::Encaps;
use penstock_flowtable::tunnel::Outer;
use penstock_flowtable::{Arrival, Encap, Tunnel as Ends, Xmit, XmitType};
use penstock_net::{Bridge, Flow4, ForwardPath, Kind, Link, Mac, RouteType, Tunnel, TunnelKind};
use penstock_program::image::FlowtableIndex;
use penstock_wire::{ethernet, ipv4, ipv6, protocol};

use crate::addresses::ip4;
use crate::flow::NotOffloaded;
use crate::route::Route;
use crate::sink::Sink;
use crate::stages::flow::add::Path;
use crate::worker::Worker;

/// Devices on devices that are looked through at most (`NET_DEVICE_PATH_STACK_MAX`).
const DEVICES: usize = 5;

/// What is below a device.
struct Below {
    /// The lowest device.
    device: u32,
    /// Tags and session, the outermost first.
    encaps: Encaps,
    destination: Mac,
    source: Mac,
    /// The next hop's link address says nothing about where the frame goes: it is put on the device
    /// as it is.
    direct: bool,
}

/// A route of outer packets.
struct Over {
    outer: Outer,
    to: Route,
    /// Largest packet that fits inside.
    mtu: usize,
}

impl<S: Sink> Worker<'_, S> {
    /// How a packet to a destination leaves, which without a gateway is `address`, and where
    /// answers arrive.
    pub(crate) fn discover(
        &self,
        index: FlowtableIndex,
        to: &Route,
        address: IpAddr,
    ) -> Result<Path, NotOffloaded> {
        let link =
            self.net.link(to.oif).filter(|l| !l.is_loopback()).ok_or(NotOffloaded::Device)?;
        let mtu = if address.is_ipv4() { self.mtu(to) } else { self.mtu6(to) };
        if let Some(path) = self.by_sit(index, link, address, mtu) {
            return Ok(path);
        }
        if let Some(tunnel) = link.tunnel() {
            let over = self.over(link, tunnel, address).ok_or(NotOffloaded::Device)?;
            return self.through_tunnel(index, link, &over, mtu).ok_or(NotOffloaded::OtherDevice);
        }
        let (next, mac) = if link.has_link_header() {
            let next = to.gateway.unwrap_or(address);
            (next, self.link_address(link, next).ok_or(NotOffloaded::NoNeighbour)?)
        } else {
            (any(address), Mac::ZERO)
        };
        let below = self.below(link, mac).filter(|b| self.is_of(index, b.device));
        Ok(below.ok_or(NotOffloaded::OtherDevice)?.path(next, link.index, mtu, None))
    }

    /// The way by a `sit` device that is one of the flowtable's: packets are put on the device, and
    /// answers arrive on it (it has no `ndo_fill_forward_path()`).
    fn by_sit(
        &self,
        index: FlowtableIndex,
        link: &Link,
        address: IpAddr,
        mtu: usize,
    ) -> Option<Path> {
        let sit = link.tunnel().is_some_and(|t| t.kind == TunnelKind::Sit);
        if !sit || !link.up || !self.is_of(index, link.index) {
            return None;
        }
        let (device, encaps) = (link.index, Encaps::NONE);
        let (destination, source) = (Mac::ZERO, Mac::ZERO);
        let below = Below { device, encaps, destination, source, direct: false };
        Some(below.path(any(address), device, mtu, None))
    }

    /// Whether a flowtable is for a device.
    fn is_of(&self, index: FlowtableIndex, device: u32) -> bool {
        self.hooks.early(device).contains(&index) || self.hooks.ingress(device).has_flowtable(index)
    }

    /// Goes down from a device on which the next hop has the address `mac`. `None` where that does
    /// not end at a wire, or more is put around than flows can have.
    fn below(&self, link: &Link, mac: Mac) -> Option<Below> {
        let mut at = link;
        let mut encaps = Encaps::NONE;
        let (mut destination, mut source, mut direct) = (mac, None, false);
        for _ in 0..DEVICES {
            if !at.up {
                return None;
            }
            match at.kind.forward_path() {
                ForwardPath::Ethernet => {
                    let source = source.unwrap_or(at.mac);
                    let encaps = encaps.reversed();
                    return Some(Below { device: at.index, encaps, destination, source, direct });
                }
                ForwardPath::Vlan { id, protocol, lower } => {
                    source = source.or(Some(at.mac));
                    if !encaps.push(Encap { id, protocol }) {
                        return None;
                    }
                    at = self.net.link(lower)?;
                }
                ForwardPath::Pppoe(session) => {
                    if !encaps
                        .push(Encap { id: session.session, protocol: ethernet::PPPOE_SESSION })
                    {
                        return None;
                    }
                    (destination, direct) = (session.peer, true);
                    at = self.net.link(session.lower)?;
                }
                ForwardPath::Bridge(bridge) => {
                    source = source.or(Some(at.mac));
                    direct = true;
                    at = self.net.link(self.bridge_port_towards(
                        at,
                        bridge,
                        destination,
                        &mut encaps,
                    )?)?;
                }
                ForwardPath::None => return None,
            }
        }
        None
    }

    /// The port where an address is, and what happens to the tag of what the host sends
    /// there (`br_fill_forward_path()`). `encaps` has the innermost first.
    fn bridge_port_towards(
        &self,
        link: &Link,
        bridge: &Bridge,
        to: Mac,
        encaps: &mut Encaps,
    ) -> Option<u32> {
        let mut vid = 0;
        if bridge.vlan_filtering {
            let tag = encaps.as_slice().last().filter(|e| e.protocol == bridge.vlan_protocol);
            vid = match tag {
                Some(tag) => tag.id,
                None => {
                    let pvid = bridge.vlans.pvid;
                    let tag = Encap { id: pvid, protocol: bridge.vlan_protocol };
                    if pvid == 0 || !encaps.push(tag) {
                        return None;
                    }
                    pvid
                }
            };
            bridge.vlans.untagged(vid)?;
        }
        let port = self.state.bridges.station(link.index, to, vid, self.state.conntrack.now())?;
        if bridge.vlan_filtering && self.net.bridge_port(port)?.vlans.untagged(vid)? {
            encaps.pop();
        }
        Some(port)
    }

    /// Where outer packets of a tunnel go, which carry packets to `address`.
    fn over(&self, link: &Link, tunnel: &Tunnel, address: IpAddr) -> Option<Over> {
        let payload = if address.is_ipv4() { protocol::IPIP } else { protocol::IPV6 };
        let mark = tunnel.mark?;
        if !tunnel.carries(payload) || tunnel.remote.is_unspecified() || tunnel.copy_dscp {
            return None;
        }
        let (src, to) = match (tunnel.local, tunnel.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let flow = Flow4 {
                    daddr: remote.into(),
                    saddr: local.into(),
                    tos: tunnel.tos & 0x1c,
                    mark,
                    oif: tunnel.link,
                    ..Flow4::default()
                };
                let (to, source) = self.ip4_route_output_by(flow, false)?;
                (ip4(source).into(), to)
            }
            (IpAddr::V6(local), IpAddr::V6(remote))
                if self.may_tunnel6(tunnel, local.into(), remote.into()) =>
            {
                let to =
                    self.ip6_route_output(remote.into(), Some(local.into()), mark, tunnel.link)?;
                (IpAddr::V6(local), to)
            }
            _ => return None,
        };
        let ends = Ends { src, dst: tunnel.remote, protocol: payload };
        let outer = outer(tunnel, ends);
        let least = if payload == protocol::IPV6 { ipv6::MIN_MTU } else { ipv4::MIN_MTU };
        let whole = if tunnel.kind.outer6() { self.mtu6(&to) } else { self.mtu(&to) };
        let mtu = whole.checked_sub(outer.overhead()).filter(|mtu| *mtu >= least)?;
        let goes = to.kind == RouteType::Unicast && to.oif != link.index;
        goes.then_some(Over { outer, to, mtu })
    }

    /// A packet gets the tunnel's header, and what the devices put around it that the outer packet
    /// leaves by. `None` where none of them is one of the flowtable's, or what arrives would belong
    /// to another tunnel.
    fn through_tunnel(
        &self,
        index: FlowtableIndex,
        link: &Link,
        over: &Over,
        mtu: usize,
    ) -> Option<Path> {
        // Policy has a say in outer packets.
        if self.state.ipsec.is_some() {
            return None;
        }
        let Over { outer, to, .. } = over;
        let below = self.net.link(to.oif)?;
        let Ends { src, dst, protocol } = outer.ends;
        let kind = link.tunnel()?.kind;
        let answered = self.net.tunnel(kind, number(dst), number(src), to.oif);
        if answered.is_none_or(|l| l.index != link.index)
            || (kind == TunnelKind::Sit
                && protocol == protocol::IPIP
                && self.net.tunnel(TunnelKind::Ipip, number(dst), number(src), to.oif).is_some())
        {
            return None;
        }
        let mtu = mtu.min(over.mtu);
        if !below.has_link_header() {
            let stack = self.below(below, Mac::ZERO).filter(|b| self.is_of(index, b.device))?;
            return Some(stack.path(any(dst), below.index, mtu, Some(*outer)));
        }
        let next = to.gateway.unwrap_or(dst);
        let mac = self.link_address(below, next)?;
        let stack = self.below(below, mac).filter(|b| self.is_of(index, b.device))?;
        Some(stack.path(next, below.index, mtu, Some(*outer)))
    }
}

impl Below {
    /// The way to a next hop on the route's device.
    fn path(self, next: IpAddr, route: u32, mtu: usize, outer: Option<Outer>) -> Path {
        let Below { device, encaps, destination, source, direct } = self;
        let xmit = Xmit {
            xmit_type: if direct { XmitType::Direct } else { XmitType::Neigh },
            route,
            next_hop: Some(next),
            encaps,
            tunnel: outer,
            ..Xmit::neighbour(device, destination.0, source.0, mtu as u32)
        };
        // What comes back is as what is sent, with the ends exchanged.
        let tunnel = outer.map(|o| Ends { src: o.ends.dst, dst: o.ends.src, ..o.ends });
        Path { xmit, answers: Arrival { device, encaps, tunnel } }
    }
}

/// The next hop where there is none to be named: it tells the families of packets apart.
fn any(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u32::from(a).into(),
        IpAddr::V6(a) => a.into(),
    }
}

/// How a tunnel makes its headers.
fn outer(tunnel: &Tunnel, ends: Ends) -> Outer {
    let v6 = ends.protocol == protocol::IPV6;
    let inherits = match tunnel.kind {
        TunnelKind::Ip6tnl => tunnel.inherit_tos,
        TunnelKind::Sit if v6 => tunnel.tos == 1,
        TunnelKind::Sit | TunnelKind::Ipip => tunnel.tos & 1 != 0,
    };
    Outer {
        ends,
        ttl: tunnel.ttl,
        tos: (!inherits).then_some(tunnel.tos),
        df: tunnel.pmtudisc,
        encap_limit: tunnel.encap_limit,
        flow_label: tunnel.flow_label,
    }
}
