// SPDX-License-Identifier: Apache-2.0

//! Packets of flows with something around them: finding them in frames, and the headers to put
//! around those that leave.

use penstock_flowtable::encap::{self, Lately, NotInside};
use penstock_flowtable::tunnel::Head;
use penstock_flowtable::{ArrivalId, Flowtable, Xmit};
use penstock_packet::VlanTag;
use penstock_wire::{ethernet, ipv4, protocol};

use crate::flow::flow_packet::{self, FlowPacket, Not};

/// What was found in a frame.
pub(crate) enum FlowCandidate {
    Packet(FlowPacket),
    Not(Not),
    /// It has a tag or is in a tunnel, and is not for the fast path: any flow's packet may be in
    /// it, which what follows must not overtake.
    Hidden,
}

/// Looks for a packet of a flow in what came in by a device, given from the end of the link header
/// on.
#[inline(always)]
pub(crate) fn find(
    flows: &Flowtable,
    lately: &mut Lately,
    device: u32,
    tag: Option<VlanTag>,
    ethertype: u16,
    bytes: &[u8],
) -> FlowCandidate {
    let changed = flows.arrivals_changed();
    if ethertype == ethernet::IPV4
        && tag.is_none()
        && let Some((arrival, protocol, end)) = lately.latest4(device, changed, bytes)
        && let Some(packet) = bytes.get(ipv4::LEN..end)
    {
        return found(protocol, packet, arrival, ipv4::LEN);
    }
    find_elsewhere(flows, lately, device, tag, ethertype, bytes)
}

/// Looks for a packet of a flow where the latest packet came another way.
#[inline(never)]
fn find_elsewhere(
    flows: &Flowtable,
    lately: &mut Lately,
    device: u32,
    tag: Option<VlanTag>,
    ethertype: u16,
    bytes: &[u8],
) -> FlowCandidate {
    let changed = flows.arrivals_changed();
    let tag = tag.map(|t| (t.tci, t.protocol));
    let inside = match encap::inside(device, tag, ethertype, bytes) {
        Ok(inside) => inside,
        Err(NotInside::Unusual) => return FlowCandidate::Hidden,
        Err(NotInside::Other) => return FlowCandidate::Not(Not::Other),
    };
    let arrival = lately.find(&inside.around, changed, |arrival| flows.arrival(arrival));
    let Some((arrival, packet)) = arrival.zip(bytes.get(inside.at..inside.end)) else {
        return FlowCandidate::Not(Not::Other);
    };
    found(inside.protocol, packet, arrival, inside.at)
}

/// What a packet is that begins `at` bytes after the link header.
#[inline(always)]
fn found(protocol: u16, packet: &[u8], arrival: ArrivalId, at: usize) -> FlowCandidate {
    let seen = match protocol {
        ethernet::IPV6 => flow_packet::ipv6(packet, arrival),
        _ => flow_packet::ipv4(packet, arrival),
    };
    match seen {
        Ok(seen) => FlowCandidate::Packet(FlowPacket { at: at as u16, ..seen }),
        Err(not) => FlowCandidate::Not(not),
    }
}

/// The headers in front of packets of a way.
pub(crate) fn head(xmit: &Xmit, link: &[u8; 12]) -> Option<Head> {
    let v6 = match &xmit.tunnel {
        Some(outer) => outer.ends.protocol == protocol::IPV6,
        None => xmit.next_hop.is_some_and(|next| next.is_ipv6()),
    };
    let inner = if v6 { ethernet::IPV6 } else { ethernet::IPV4 };
    Head::new(link, &xmit.encaps, xmit.tunnel.as_ref(), inner)
}

/// The next identification, after the latest one.
#[inline(always)]
pub(crate) fn next_id(latest: &mut u16) -> u16 {
    *latest = latest.wrapping_add(1);
    *latest
}
