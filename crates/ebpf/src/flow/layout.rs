// SPDX-License-Identifier: Apache-2.0

//! What a flow is in its map. Numbers that packets carry are in memory as they are on the wire.

use penstock_flowtable::tunnel::Head;
use penstock_flowtable::{Arrival, Encap, Key, Tunnel, Xmit, key};
use penstock_wire::checksum::Sum;
use penstock_wire::{ethernet, protocol};
use std::net::IpAddr;

/// Keys over IPv4: source, destination, ports, device, tag, outer source, outer destination,
/// protocol.
pub(super) mod key4 {
    pub const SRC: i16 = 0;
    pub const DST: i16 = 4;
    pub const PORTS: i16 = 8;
    pub const DEVICE: i16 = 12;
    pub const TAG: i16 = 16;
    pub const TUNNEL_SRC: i16 = 20;
    pub const TUNNEL_DST: i16 = 24;
    pub const PROTOCOL: i16 = 28;
    pub const LEN: i16 = 32;
}

/// Keys over IPv6: source, destination, ports, device, tag, protocol.
pub(super) mod key6 {
    pub const SRC: i16 = 0;
    pub const PORTS: i16 = 32;
    pub const DEVICE: i16 = 36;
    pub const TAG: i16 = 40;
    pub const PROTOCOL: i16 = 44;
    pub const LEN: i16 = 48;
}

/// Values, of both families.
pub(super) mod value {
    /// Packets, bytes from the network header on, time of the last (`CLOCK_MONOTONIC`,
    /// nanoseconds).
    pub const PACKETS: i16 = 0;
    pub const BYTES: i16 = 8;
    pub const USED: i16 = 16;
    pub const DEVICE: i16 = 24;
    pub const MTU: i16 = 28;
    /// Bytes of [`HEADER`] that count.
    pub const HEADER_LEN: i16 = 32;
    /// What complemented checksums grow by: the header's; the transport's by addresses, and by
    /// ports.
    pub const HEADER_DELTA: i16 = 36;
    pub const ADDRESS_DELTA: i16 = 38;
    pub const PORT_DELTA: i16 = 40;
    pub const FLAGS: i16 = 42;
    pub const PORTS: i16 = 44;
    pub const SRC: i16 = 48;
    pub const DST: i16 = 64;
    /// All that stands in front of the packet when it leaves.
    pub const HEADER: i16 = 80;
    pub const LEN: i16 = 136;
    /// Headers at most: addresses, two tags of 4, or one and a session of 8, and an outer IPv4
    /// header.
    pub const HEADER_MOST: i16 = 46;
}

/// Addresses or ports change.
pub(super) const TRANSLATED: u16 = 1;
/// The header ends with an outer IPv4 header; length and the like are the packet's.
pub(super) const TUNNEL: u16 = 2;
/// The header ends with a session header; its length is the packet's.
pub(super) const SESSION: u16 = 4;
/// The outer header has the packet's TOS, and not only its ECN.
pub(super) const TUNNEL_TOS: u16 = 8;
/// It has the packet's TTL.
pub(super) const TUNNEL_TTL: u16 = 16;
/// It is never fragmented, even if the packet allows that.
pub(super) const TUNNEL_DF: u16 = 32;
/// It is the direction of the connection's first packet. The program does not ask.
pub(super) const ORIGINAL: u16 = 64;

/// One direction of a flow: what its packets have when they arrive, and how they leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowHalf<'a> {
    /// Addresses, ports and protocols on arrival; its number of an arrival does not count.
    pub key: &'a Key,
    /// Where it arrives.
    pub arrival: &'a Arrival,
    /// Addresses and ports that it leaves with.
    pub to: &'a Key,
    /// How it leaves: by the device on which the frame is put, with all tags that it has there.
    pub xmit: &'a Xmit,
}

/// Why a flow stays with software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOffloadable(pub &'static str);

/// As keys have the tag around a packet.
fn tag(arrival: &Arrival) -> Result<[u8; 4], NotOffloadable> {
    let [a, b, c, d] = match arrival.encaps.as_slice() {
        [] => return Ok([0; 4]),
        [Encap { id, protocol }] => {
            let ([a, b], [c, d]) = (id.to_ne_bytes(), protocol.to_be_bytes());
            [a, b, c, d]
        }
        _ => return Err(NotOffloadable("it arrives with more than one tag")),
    };
    Ok([a, b, c, d])
}

/// Outer source and destination of a tunnel over IPv4 with IPv4 in it.
fn ipip(tunnel: &Tunnel) -> Result<[u8; 8], NotOffloadable> {
    match (tunnel.src, tunnel.dst, tunnel.protocol) {
        (IpAddr::V4(src), IpAddr::V4(dst), protocol::IPIP) => {
            let ([a, b, c, d], [e, f, g, h]) = (src.octets(), dst.octets());
            Ok([a, b, c, d, e, f, g, h])
        }
        _ => Err(NotOffloadable("a tunnel other than IPIP")),
    }
}

fn bytes(address: [u64; 2]) -> impl Iterator<Item = u8> {
    address.into_iter().flat_map(u64::to_ne_bytes)
}

impl FlowHalf<'_> {
    pub(super) fn is_ipv4(&self) -> bool {
        self.key.l3 == key::IPV4
    }

    /// The key.
    ///
    /// # Errors
    /// It cannot be offloaded.
    pub(super) fn map_key(&self) -> Result<Vec<u8>, NotOffloadable> {
        if !matches!(self.key.l4, protocol::TCP | protocol::UDP) {
            return Err(NotOffloadable("a protocol other than TCP and UDP"));
        }
        let address = if self.is_ipv4() { 4 } else { 16 };
        let mut out: Vec<u8> = bytes(self.key.src).take(address).collect();
        out.extend(bytes(self.key.dst).take(address));
        out.extend(self.key.ports.to_ne_bytes());
        out.extend(self.arrival.device.to_ne_bytes());
        out.extend(tag(self.arrival)?);
        match (&self.arrival.tunnel, self.is_ipv4()) {
            (None, true) => out.extend([0; 8]),
            (Some(tunnel), true) => out.extend(ipip(tunnel)?),
            (None, false) => {}
            (Some(_), false) => return Err(NotOffloadable("IPv6 in a tunnel")),
        }
        out.extend([self.key.l4, 0, 0, 0]);
        Ok(out)
    }

    /// What stands in front of the packet, and the flags that go with it.
    fn header(&self) -> Result<(Vec<u8>, u16), NotOffloadable> {
        let mut flags = 0;
        if self.xmit.encaps.as_slice().iter().any(|e| e.protocol == ethernet::PPPOE_SESSION) {
            flags |= SESSION;
        }
        if let Some(outer) = &self.xmit.tunnel {
            if flags & SESSION != 0 {
                return Err(NotOffloadable("a tunnel in a session"));
            }
            if !self.is_ipv4() {
                return Err(NotOffloadable("IPv6 in a tunnel"));
            }
            ipip(&outer.ends)?;
            flags |= TUNNEL;
            flags |= if outer.tos.is_none() { TUNNEL_TOS } else { 0 };
            flags |= if outer.ttl == 0 { TUNNEL_TTL } else { 0 };
            flags |= if outer.df { TUNNEL_DF } else { 0 };
        }
        let mut link = [0; 12];
        for (to, from) in link.iter_mut().zip(self.xmit.destination.iter().chain(&self.xmit.source))
        {
            *to = *from;
        }
        let protocol = if self.is_ipv4() { ethernet::IPV4 } else { ethernet::IPV6 };
        let head = Head::new(&link, &self.xmit.encaps, self.xmit.tunnel.as_ref(), protocol)
            .ok_or(NotOffloadable("it leaves with a header that is no tag"))?;
        let mut out = vec![0; head.len()];
        head.write(&mut out, 0);
        Ok((out, flags))
    }

    /// Whether the program at tcx can do it too: nothing around the packet but one tag.
    pub(super) fn suits_tcx(&self) -> bool {
        let tag = |encaps: &[Encap]| match encaps {
            [] => true,
            [Encap { protocol, .. }] => penstock_wire::vlan::is_tag(*protocol),
            _ => false,
        };
        let tunnel = self.arrival.tunnel.is_some() || self.xmit.tunnel.is_some();
        !tunnel && tag(self.arrival.encaps.as_slice()) && tag(self.xmit.encaps.as_slice())
    }

    /// The value, nothing counted, with the flags that follow from it and `more`.
    ///
    /// # Errors
    /// It cannot be offloaded.
    pub(super) fn map_value(&self, now: u64, more: u16) -> Result<Vec<u8>, NotOffloadable> {
        use penstock_flowtable::XmitType;
        if let XmitType::Xfrm(_) = self.xmit.xmit_type {
            return Err(NotOffloadable("it leaves through IPsec"));
        }
        let (header, mut flags) = self.header()?;
        flags |= more;
        if header.len() > value::HEADER_MOST as usize {
            return Err(NotOffloadable("it leaves with too many headers"));
        }
        let addresses = |key: &Key| bytes(key.src).chain(bytes(key.dst)).collect::<Vec<_>>();
        if addresses(self.key) != addresses(self.to) || self.key.ports != self.to.ports {
            flags |= TRANSLATED;
        }
        let (header_delta, _) = penstock_flowtable::rewrite::deltas(self.key, self.to);
        let address_delta = difference(&addresses(self.key), &addresses(self.to));
        let port_delta = difference(&self.key.ports.to_ne_bytes(), &self.to.ports.to_ne_bytes());
        let mut out = [0_u64, 0, now].iter().flat_map(|n| n.to_ne_bytes()).collect::<Vec<_>>();
        out.extend(self.xmit.device.to_ne_bytes());
        out.extend(self.xmit.mtu.to_ne_bytes());
        out.extend((header.len() as u32).to_ne_bytes());
        for delta in [header_delta, address_delta, port_delta] {
            out.extend(delta.to_be_bytes());
        }
        out.extend(flags.to_ne_bytes());
        out.extend(self.to.ports.to_ne_bytes());
        out.extend(addresses(self.to));
        out.extend(header);
        out.resize(value::LEN as usize, 0);
        Ok(out)
    }
}

/// What a complemented checksum grows by when `old` becomes `new`.
fn difference(old: &[u8], new: &[u8]) -> u16 {
    let (old, new) = (Sum::new().bytes(old).folded(), Sum::new().bytes(new).folded());
    let (sum, carry) = (!old).overflowing_add(new);
    // All ones is zero, but for zero itself nothing is added.
    match sum + u16::from(carry) {
        u16::MAX => 0,
        delta => delta,
    }
}

/// What a flow's packets did since it was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FlowStatistics {
    /// Packets.
    pub packets: u64,
    /// Their bytes from the network header on.
    pub bytes: u64,
    /// Time of the last one, nanoseconds of `CLOCK_MONOTONIC`; when the flow was added where there
    /// was none.
    pub used: u64,
}

impl FlowStatistics {
    pub(super) fn of(value: &[u8]) -> Self {
        let number = |at: i16| {
            value
                .get(at as usize..)
                .and_then(|v| v.first_chunk())
                .map_or(0, |b| u64::from_ne_bytes(*b))
        };
        let (packets, bytes, used) =
            (number(value::PACKETS), number(value::BYTES), number(value::USED));
        FlowStatistics { packets, bytes, used }
    }
}
