// SPDX-License-Identifier: Apache-2.0

//! The `flower` classifier: fields by name (`net/sched/cls_flower.c`). Fields that are not named do
//! not matter; a named field that the packet does not have does not match. Fields of a transport
//! header that fragments and cut packets do not show are zero.

use std::net::{IpAddr, Ipv4Addr};

use penstock_packet::Packet;
use penstock_wire::ethernet::Mac;
use penstock_wire::{arp, ethernet, ipv4, ipv6, protocol, vlan};

/// An inclusive range.
pub(crate) type Range<T> = (T, T);

/// What has to fit. Numbers are in host order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flower {
    pub(crate) indev: Option<u32>,
    pub(crate) src_mac: Option<(Mac, Mac)>,
    pub(crate) dst_mac: Option<(Mac, Mac)>,
    pub(crate) vlan_id: Option<u16>,
    pub(crate) vlan_prio: Option<u8>,
    /// Ethertype after the tag.
    pub(crate) vlan_ethertype: Option<u16>,
    pub(crate) ip_proto: Option<u8>,
    pub(crate) ip_tos: Option<(u8, u8)>,
    pub(crate) ip_ttl: Option<(u8, u8)>,
    /// Is a fragment, or not.
    pub(crate) fragment: Option<bool>,
    /// Is the first fragment, or another.
    pub(crate) first_fragment: Option<bool>,
    pub(crate) src_ip: Option<(IpAddr, u8)>,
    pub(crate) dst_ip: Option<(IpAddr, u8)>,
    pub(crate) src_port: Option<Range<u16>>,
    pub(crate) dst_port: Option<Range<u16>>,
    pub(crate) tcp_flags: Option<(u16, u16)>,
    pub(crate) icmp_type: Option<u8>,
    pub(crate) icmp_code: Option<u8>,
    pub(crate) arp_op: Option<u16>,
    pub(crate) arp_sip: Option<(Ipv4Addr, u8)>,
    pub(crate) arp_tip: Option<(Ipv4Addr, u8)>,
    pub(crate) arp_sha: Option<(Mac, Mac)>,
    pub(crate) arp_tha: Option<(Mac, Mac)>,
}

/// What the dissector finds in a packet (`__skb_flow_dissect()`).
#[derive(Default)]
struct Dissected<'p> {
    /// After all tags.
    ethertype: u16,
    tag: Option<u16>,
    addresses: Option<(IpAddr, IpAddr)>,
    ip_proto: Option<u8>,
    tos_ttl: Option<(u8, u8)>,
    /// Is a fragment; is its first one.
    fragment: (bool, bool),
    /// From the transport header on; none in fragments.
    transport: Option<&'p [u8]>,
    arp: Option<arp::Header<'p>>,
}

fn dissect(packet: &Packet) -> Dissected<'_> {
    let mut found = Dissected { ethertype: packet.meta.protocol, ..Dissected::default() };
    let mut bytes = packet.network();
    found.tag = packet.meta.vlan.map(|t| t.tci);
    while vlan::is_tag(found.ethertype) {
        let Some(tag) = vlan::Header::new(bytes) else { return found };
        found.tag.get_or_insert(tag.tci());
        found.ethertype = tag.ethertype();
        bytes = tag.payload();
    }
    match found.ethertype {
        ethernet::IPV4 => {
            let Some(h) = ipv4::Header::new(bytes).filter(|h| h.header_len() >= ipv4::LEN) else {
                return found;
            };
            found.addresses = Some((h.src().into(), h.dst().into()));
            found.ip_proto = Some(h.protocol());
            found.tos_ttl = Some((h.tos(), h.ttl()));
            found.fragment = (h.is_fragment(), h.is_fragment() && h.fragment_offset() == 0);
            if !h.is_fragment() {
                found.transport = bytes.get(h.header_len()..);
            }
        }
        ethernet::IPV6 => {
            let Some(h) = ipv6::Header::new(bytes) else { return found };
            found.addresses = Some((h.src().into(), h.dst().into()));
            found.tos_ttl = Some((h.traffic_class(), h.hop_limit()));
            let (mut next, mut at) = (h.next_header(), ipv6::LEN);
            // The dissector passes over hop-by-hop, routing and destination headers. It ends at a
            // fragment header, also of a first fragment.
            while let protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::DEST_OPTIONS
            | protocol::FRAGMENT = next
            {
                let Some(&[following, units]) = bytes.get(at..).and_then(|b| b.first_chunk::<2>())
                else {
                    break;
                };
                if next == protocol::FRAGMENT {
                    let Some(f) = bytes.get(at..at + 8) else { break };
                    let field = u16::from_be_bytes([f[2], f[3]]);
                    found.fragment = (true, field & 0xfff8 == 0);
                    found.ip_proto = Some(following);
                    return found;
                }
                at += (usize::from(units) + 1) * 8;
                next = following;
            }
            found.ip_proto = Some(next);
            found.transport = bytes.get(at..);
        }
        ethernet::ARP => {
            found.arp = arp::Header::new(bytes).filter(|h| h.hlen() == 6 && h.plen() == 4);
        }
        _ => {}
    }
    found
}

fn mac_fits(mac: Option<&[u8]>, (value, mask): (Mac, Mac)) -> bool {
    let Some(mac) = mac.and_then(|m| m.first_chunk::<6>()) else { return false };
    mac.iter().zip(value.0).zip(mask.0).all(|((a, b), m)| (a ^ b) & m == 0)
}

/// Whether an address lies in a prefix.
pub(crate) fn in_prefix(address: IpAddr, (prefix, len): (IpAddr, u8)) -> bool {
    match (address, prefix) {
        (IpAddr::V4(a), IpAddr::V4(p)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            (u32::from(a) ^ u32::from(p)) & mask == 0
        }
        (IpAddr::V6(a), IpAddr::V6(p)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            (u128::from(a) ^ u128::from(p)) & mask == 0
        }
        _ => false,
    }
}

impl Flower {
    pub(crate) fn matches(&self, packet: &Packet) -> bool {
        fn wanted<T: Copy>(want: Option<T>, fits: impl FnOnce(T) -> bool) -> bool {
            want.is_none_or(fits)
        }
        let link = packet.link();
        let found = dissect(packet);
        let halves = |at: usize| {
            let bytes = found.transport.and_then(|t| t.get(at..at + 2));
            bytes.map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
        };
        let ports = matches!(
            found.ip_proto,
            Some(protocol::TCP | protocol::UDP | protocol::SCTP | protocol::UDPLITE)
        );
        let port = |at: usize, (low, high): Range<u16>| ports && (low..=high).contains(&halves(at));
        let icmp = |at: usize, want: u8| {
            matches!(found.ip_proto, Some(protocol::ICMP | protocol::ICMPV6))
                && found.transport.and_then(|t| t.get(at)).copied().unwrap_or(0) == want
        };
        let masked = |have: Option<u8>, (value, mask): (u8, u8)| {
            have.is_some_and(|h| (h ^ value) & mask == 0)
        };
        let arp = found.arp.as_ref();
        let arp_ip = |have: Option<Ipv4Addr>, (prefix, len): (Ipv4Addr, u8)| {
            have.is_some_and(|a| in_prefix(a.into(), (prefix.into(), len)))
        };
        let arp_mac = |have: Option<Mac>, want| mac_fits(have.as_ref().map(|m| &m.0[..]), want);
        wanted(self.indev, |d| packet.meta.iif == d)
            && wanted(self.dst_mac, |m| mac_fits(link.get(..6), m))
            && wanted(self.src_mac, |m| mac_fits(link.get(6..12), m))
            && wanted(self.vlan_id, |id| found.tag.is_some_and(|t| t & vlan::VID_MASK == id))
            && wanted(self.vlan_prio, |p| {
                found.tag.is_some_and(|t| (t >> vlan::PRIORITY_SHIFT) as u8 == p)
            })
            && wanted(self.vlan_ethertype, |e| found.tag.is_some() && found.ethertype == e)
            && wanted(self.ip_proto, |p| found.ip_proto == Some(p))
            && wanted(self.ip_tos, |w| masked(found.tos_ttl.map(|t| t.0), w))
            && wanted(self.ip_ttl, |w| masked(found.tos_ttl.map(|t| t.1), w))
            && wanted(self.fragment, |f| found.addresses.is_some() && found.fragment.0 == f)
            && wanted(self.first_fragment, |f| found.fragment.0 && found.fragment.1 == f)
            && wanted(self.src_ip, |p| found.addresses.is_some_and(|(s, _)| in_prefix(s, p)))
            && wanted(self.dst_ip, |p| found.addresses.is_some_and(|(_, d)| in_prefix(d, p)))
            && wanted(self.src_port, |r| port(0, r))
            && wanted(self.dst_port, |r| port(2, r))
            && wanted(self.tcp_flags, |(value, mask)| {
                found.ip_proto == Some(protocol::TCP) && (halves(12) & 0xfff ^ value) & mask == 0
            })
            && wanted(self.icmp_type, |t| icmp(0, t))
            && wanted(self.icmp_code, |c| icmp(1, c))
            && wanted(self.arp_op, |op| arp.is_some_and(|a| a.operation() == op))
            && wanted(self.arp_sha, |m| arp_mac(arp.and_then(|a| a.sender_mac()), m))
            && wanted(self.arp_sip, |p| arp_ip(arp.and_then(|a| a.sender_ip()), p))
            && wanted(self.arp_tha, |m| arp_mac(arp.and_then(|a| a.target_mac()), m))
            && wanted(self.arp_tip, |p| arp_ip(arp.and_then(|a| a.target_ip()), p))
    }
}
