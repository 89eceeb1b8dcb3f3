// SPDX-License-Identifier: Apache-2.0

//! What policies are asked about a packet (`xfrm_decode_session()`).

use penstock_conntrack::{Direction, status};
use penstock_packet::{Packet, ipv4_transport, ipv6_transport};
use penstock_wire::{icmp, icmpv6, ipv4, ipv6, protocol};
use penstock_xfrm::Flow;

use crate::sink::Sink;
use crate::worker::Worker;

/// Ports, or what other protocols have in their place (`decode_session4()`).
fn ports(transport: u8, bytes: &[u8]) -> (u16, u16) {
    let be16 = |at: usize| bytes.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    match transport {
        protocol::TCP | protocol::UDP | protocol::UDPLITE | protocol::SCTP | protocol::DCCP => {
            (be16(0), be16(2))
        }
        protocol::ICMP | protocol::ICMPV6 => (be16(0) >> 8, be16(0) & 0xff),
        protocol::MOBILITY => (be16(2) >> 8, 0),
        protocol::GRE => {
            const CHECKSUM: u16 = 0x8000;
            const KEY: u16 = 0x2000;
            let flags = be16(0);
            let at = if flags & CHECKSUM != 0 { 8 } else { 4 };
            if flags & KEY != 0 { (be16(at), be16(at + 2)) } else { (0, 0) }
        }
        _ => (0, 0),
    }
}

/// The flow of a packet that leaves by a device. The transport header is looked up again: rules may
/// have changed the packet.
pub(crate) fn flow_of(packet: &mut Packet, oif: u32) -> Flow {
    packet.find_transport();
    flow(packet, oif)
}

fn flow(packet: &Packet, oif: u32) -> Flow {
    let network = packet.network();
    let v6 = network.first().is_some_and(|b| b >> 4 == 6);
    let (saddr, daddr) = if v6 {
        ipv6::Header::new(network).map_or((0, 0), |h| (u128::from(h.src()), u128::from(h.dst())))
    } else {
        ipv4::Header::new(network)
            .map_or((0, 0), |h| (u128::from(u32::from(h.src())), u128::from(u32::from(h.dst()))))
    };
    let found = packet.transport();
    let transport = found.map_or(0, |t| t.protocol);
    let fragment = !v6 && ipv4::Header::new(network).is_some_and(|h| h.is_fragment());
    let (sport, dport) = match packet.transport_bytes() {
        Some(bytes) if !fragment => ports(transport, bytes),
        _ => (0, 0),
    };
    Flow { v6, saddr, daddr, protocol: transport, sport, dport, mark: packet.meta.mark, oif }
}

/// Of an ICMP error that says where a packet could not go, the flow of answers to that packet
/// (`icmp_err_packet()`, `xfrm_icmp_flow_decode()`). `flow` is the error's own.
pub(super) fn answered_flow(packet: &Packet, flow: &Flow) -> Option<Flow> {
    let kind = flow.sport as u8;
    let is_error = match (flow.v6, flow.protocol) {
        (false, protocol::ICMP) => matches!(kind, icmp::DEST_UNREACHABLE | icmp::TIME_EXCEEDED),
        (true, protocol::ICMPV6) => matches!(
            kind,
            icmpv6::DEST_UNREACHABLE | icmpv6::PACKET_TOO_BIG | icmpv6::TIME_EXCEEDED
        ),
        _ => false,
    };
    let quoted = packet.transport_bytes().filter(|_| is_error)?.get(icmp::LEN..)?;
    let (saddr, daddr, transport) = if flow.v6 {
        let header = ipv6::Header::new(quoted)?;
        (u128::from(header.src()), u128::from(header.dst()), ipv6_transport(quoted))
    } else {
        let header = ipv4::Header::new(quoted)?;
        let [saddr, daddr] = [header.src(), header.dst()].map(|a| u128::from(u32::from(a)));
        (saddr, daddr, ipv4_transport(quoted))
    };
    let protocol = transport.map_or(0, |t| t.protocol);
    let bytes = transport
        .filter(|t| t.fragment_offset == 0)
        .and_then(|t| quoted.get(usize::from(t.offset)..));
    let (sport, dport) = ports(protocol, bytes.unwrap_or_default());
    let (sport, dport) = if has_ports(protocol) { (dport, sport) } else { (sport, dport) };
    Some(Flow { saddr: daddr, daddr: saddr, protocol, sport, dport, ..*flow })
}

fn has_ports(protocol: u8) -> bool {
    !matches!(protocol, protocol::ICMP | protocol::ICMPV6 | protocol::GRE | protocol::MOBILITY)
}

/// An address of a connection's tuple.
fn number(v6: bool, bytes: [u8; 16]) -> u128 {
    if v6 { u128::from_be_bytes(bytes) } else { u128::from_be_bytes(bytes) >> 96 }
}

impl<S: Sink> Worker<'_, S> {
    /// The flow of a packet that came in, as it was before its addresses were translated
    /// (`nf_nat_decode_session()`).
    pub(super) fn incoming_flow(&self, packet: &Packet) -> Flow {
        let oif =
            if packet.meta.oif != 0 { packet.meta.oif } else { packet.meta.route.unwrap_or(0) };
        let mut flow = flow(packet, oif);
        let ct = packet.meta.ct;
        let Some(connection) = self.state.conntrack.connection(&ct) else { return flow };
        if connection.status() & status::NAT_MASK == 0 {
            return flow;
        }
        let direction = if ct.info.is_reply() { Direction::Reply } else { Direction::Original };
        let (destination, source) = match direction {
            Direction::Original => (status::DST_NAT, status::SRC_NAT),
            Direction::Reply => (status::SRC_NAT, status::DST_NAT),
        };
        let tuple = connection.tuple(direction);
        let has_ports = !matches!(flow.protocol, protocol::ICMP | protocol::ICMPV6 | protocol::GRE);
        if connection.status() & destination != 0 {
            flow.daddr = number(flow.v6, tuple.dst);
            if has_ports {
                flow.dport = tuple.dst_id;
            }
        }
        if connection.status() & source != 0 {
            flow.saddr = number(flow.v6, tuple.src);
            if has_ports {
                flow.sport = tuple.src_id;
            }
        }
        flow
    }
}
