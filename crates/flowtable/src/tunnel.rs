// SPDX-License-Identifier: Apache-2.0

//! What is put in front of packets that leave: link addresses, tags, a session header, a tunnel's
//! header (`nf_flow_encap_push()`, `nf_flow_tunnel_ipip_push()`, `nf_flow_tunnel_ip6ip6_push()`).
//!
//! The outer header has what the tunnel is set to: what it inherits comes from each packet, as on
//! the normal way.

use std::net::IpAddr;

use penstock_wire::checksum::Sum;
use penstock_wire::{ecn, ethernet, ipv4, ipv6, pppoe, protocol};

use crate::arrival::{Encap, Encaps, Tunnel};
use crate::encap::LIMIT_LEN;

/// A tunnel that packets enter, and how their outer headers are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outer {
    /// Its ends, as they are written.
    pub ends: Tunnel,
    /// TTL or hop limit; 0 for the packet's.
    pub ttl: u8,
    /// TOS or traffic class, of which ECN is the packet's; `None` for all of the packet's.
    pub tos: Option<u8>,
    /// Over IPv4: never to be fragmented. Otherwise a packet of IPv4 says so itself.
    pub df: bool,
    /// Over IPv6: the option with this limit of encapsulations.
    pub encap_limit: Option<u8>,
    /// Over IPv6: flow label; `None` for the packet's.
    pub flow_label: Option<u32>,
}

impl Outer {
    /// Bytes that it takes.
    pub fn overhead(&self) -> usize {
        match self.ends.src {
            IpAddr::V4(_) => ipv4::LEN,
            IpAddr::V6(_) => ipv6::LEN + if self.encap_limit.is_some() { LIMIT_LEN } else { 0 },
        }
    }
}

/// The headers in front of packets of one way, made once.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    bytes: [u8; Head::MAX],
    len: usize,
    /// Where the session header is.
    session: Option<usize>,
    outer: Option<OuterAt>,
}

/// An outer header, and what of it depends on the packet.
#[derive(Clone, Copy, Debug)]
struct OuterAt {
    at: usize,
    v6: bool,
    /// What is inside is IPv6.
    inner6: bool,
    ttl: u8,
    tos: Option<u8>,
    df: bool,
    inherit_label: bool,
    /// Over IPv4: sum of the words that are always the same.
    sum: Sum,
}

/// What an outer header takes from the packet.
struct Inherited {
    tos: u8,
    ttl: u8,
    df: bool,
    label: u32,
}

impl Head {
    /// Bytes at most: link header, two tags of which one is a session, an outer header with an
    /// option.
    pub const MAX: usize = ethernet::LEN + 4 + pppoe::LEN + ipv6::LEN + LIMIT_LEN;

    /// For packets of this protocol ([`ethernet::IPV4`], [`ethernet::IPV6`]); `link` are
    /// destination and source address. `None` if there are encapsulations of another kind, or a
    /// session that is not the innermost.
    pub fn new(
        link: &[u8; 12],
        encaps: &Encaps,
        outer: Option<&Outer>,
        inner: u16,
    ) -> Option<Head> {
        let carried = outer.map_or(inner, |o| match o.ends.src {
            IpAddr::V4(_) => ethernet::IPV4,
            IpAddr::V6(_) => ethernet::IPV6,
        });
        let mut bytes = Vec::with_capacity(Head::MAX);
        bytes.extend_from_slice(link);
        let mut session = None;
        for &Encap { id, protocol } in encaps.as_slice() {
            if session.is_some() {
                return None;
            }
            bytes.extend_from_slice(&protocol.to_be_bytes());
            match protocol {
                ethernet::VLAN | ethernet::QINQ => bytes.extend_from_slice(&id.to_be_bytes()),
                ethernet::PPPOE_SESSION => {
                    session = Some(bytes.len());
                    let ppp = if carried == ethernet::IPV6 { pppoe::IPV6 } else { pppoe::IPV4 };
                    let header = pppoe::Repr { session: id, protocol: ppp, payload_len: 0 };
                    bytes.extend_from_slice(&header.bytes());
                }
                _ => return None,
            }
        }
        if session.is_none() {
            bytes.extend_from_slice(&carried.to_be_bytes());
        }
        let outer = outer.and_then(|o| o.append(&mut bytes, inner == ethernet::IPV6));
        let mut head = Head { bytes: [0; Head::MAX], len: bytes.len(), session, outer };
        head.bytes.get_mut(..bytes.len())?.copy_from_slice(&bytes);
        Some(head)
    }

    /// Bytes that it takes before a packet.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether outer headers have an identification, which counts up.
    #[inline(always)]
    pub fn wants_id(&self) -> bool {
        self.outer.is_some_and(|o| !o.v6)
    }

    /// Writes the headers before a packet: `frame` begins with room for them, and the packet is as
    /// it leaves. `id` is the identification of an outer IPv4 header.
    #[inline]
    pub fn write(&self, frame: &mut [u8], id: u16) {
        let Some((head, packet)) = frame.split_at_mut_checked(self.len) else { return };
        head.copy_from_slice(self.bytes.get(..self.len).unwrap_or(&[]));
        if let Some(outer) = &self.outer
            && let Some(header) = head.get_mut(outer.at..)
        {
            outer.write(header, packet, id);
        }
        if let Some(at) = self.session
            && let Some(length) = head.get_mut(at + 4..at + 6)
        {
            // From after the session header on.
            let len = self.len - at - pppoe::HEADER_LEN + packet.len();
            length.copy_from_slice(&(len as u16).to_be_bytes());
        }
    }
}

impl Outer {
    /// The header for a packet, and its length; `inner6` if that is IPv6. `id` is the
    /// identification of one of IPv4.
    pub fn header(
        &self,
        packet: &[u8],
        inner6: bool,
        id: u16,
    ) -> ([u8; ipv6::LEN + LIMIT_LEN], usize) {
        let mut bytes = Vec::with_capacity(ipv6::LEN + LIMIT_LEN);
        let mut header = [0; ipv6::LEN + LIMIT_LEN];
        let Some(at) = self.append(&mut bytes, inner6) else { return (header, 0) };
        let len = bytes.len().min(header.len());
        if let (Some(to), Some(from)) = (header.get_mut(..len), bytes.get(..len)) {
            to.copy_from_slice(from);
            at.write(to, packet, id);
        }
        (header, len)
    }

    /// Appends the header with what is always the same.
    fn append(&self, bytes: &mut Vec<u8>, inner6: bool) -> Option<OuterAt> {
        let at = bytes.len();
        let (mut v6, mut sum) = (false, Sum::new());
        match (self.ends.src, self.ends.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let protocol = self.ends.protocol;
                let (src, dst) = (src, dst);
                let repr = ipv4::Repr {
                    src,
                    dst,
                    protocol,
                    tos: 0,
                    ttl: 0,
                    id: 0,
                    frag: 0,
                    payload_len: 0,
                };
                bytes.extend_from_slice(&repr.bytes());
                sum = Sum::new()
                    .u16(0x4500)
                    .u16(protocol.into())
                    .bytes(&src.octets())
                    .bytes(&dst.octets());
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                v6 = true;
                let limit =
                    self.encap_limit.map(|limit| [self.ends.protocol, 0, 4, 1, limit, 1, 1, 0]);
                let head = ipv6::Repr {
                    src,
                    dst,
                    next_header: if limit.is_some() {
                        protocol::DEST_OPTIONS
                    } else {
                        self.ends.protocol
                    },
                    traffic_class: 0,
                    flow_label: self.flow_label.unwrap_or(0),
                    hop_limit: 0,
                    payload_len: 0,
                };
                bytes.extend_from_slice(&head.bytes());
                bytes.extend_from_slice(limit.as_ref().map_or(&[], |option| &option[..]));
            }
            _ => return None,
        }
        let inherit_label = self.flow_label.is_none();
        Some(OuterAt {
            at,
            v6,
            inner6,
            ttl: self.ttl,
            tos: self.tos,
            df: self.df,
            inherit_label,
            sum,
        })
    }
}

impl OuterAt {
    #[inline]
    fn inherited(&self, packet: &[u8]) -> Inherited {
        let Some(h) = packet.first_chunk::<{ ipv4::LEN }>() else {
            return Inherited { tos: 0, ttl: 0, df: false, label: 0 };
        };
        if self.inner6 {
            let first = u32::from_be_bytes([h[0], h[1], h[2], h[3]]);
            return Inherited {
                tos: (first >> 20) as u8,
                ttl: h[7],
                df: false,
                label: first & 0xf_ffff,
            };
        }
        Inherited { tos: h[1], ttl: h[8], df: h[6] & (ipv4::DF >> 8) as u8 != 0, label: 0 }
    }

    /// Fills in what depends on the packet.
    #[inline]
    fn write(&self, header: &mut [u8], packet: &[u8], id: u16) {
        let inherited = self.inherited(packet);
        let tos = ecn::encapsulate(self.tos.unwrap_or(inherited.tos), inherited.tos);
        let ttl = if self.ttl != 0 { self.ttl } else { inherited.ttl };
        let len = header.len() + packet.len();
        if self.v6 {
            let Some(h) = header.first_chunk_mut::<{ ipv6::LEN }>() else { return };
            let label = u32::from_be_bytes([0, h[1], h[2], h[3]]);
            let label = if self.inherit_label { inherited.label } else { label };
            let first = 6 << 28 | u32::from(tos) << 20 | label;
            h[..4].copy_from_slice(&first.to_be_bytes());
            h[4..6].copy_from_slice(&((len - ipv6::LEN) as u16).to_be_bytes());
            h[7] = ttl;
            return;
        }
        let Some(h) = header.first_chunk_mut::<{ ipv4::LEN }>() else { return };
        let frag = if self.df || inherited.df { ipv4::DF } else { 0 };
        let check = self
            .sum
            .u16(tos.into())
            .u16(len as u16)
            .u16(id)
            .u16(frag)
            .u16(u16::from(ttl) << 8)
            .finish();
        h[1] = tos;
        h[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        h[4..6].copy_from_slice(&id.to_be_bytes());
        h[6..8].copy_from_slice(&frag.to_be_bytes());
        h[8] = ttl;
        h[10..12].copy_from_slice(&check.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_testkit::build::*;

    const LINK: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

    fn outer(src: &str, dst: &str, protocol: u8) -> Outer {
        let ends = Tunnel { src: src.parse().unwrap(), dst: dst.parse().unwrap(), protocol };
        Outer { ends, ttl: 0, tos: Some(0), df: false, encap_limit: None, flow_label: Some(0) }
    }

    fn written(encaps: &[(u16, u16)], outer: Option<Outer>, packet: &[u8]) -> Vec<u8> {
        let mut all = Encaps::NONE;
        for &(id, protocol) in encaps {
            assert!(all.push(Encap { id, protocol }));
        }
        let protocol = if packet[0] >> 4 == 6 { ethernet::IPV6 } else { ethernet::IPV4 };
        let head = Head::new(&LINK, &all, outer.as_ref(), protocol).unwrap();
        let mut frame = vec![0xee; head.len()];
        frame.extend_from_slice(packet);
        head.write(&mut frame, 77);
        frame
    }

    #[test]
    fn tunnel_headers_equal_reference_headers() {
        let link = || Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
        let v4 = || {
            Ipv4::new("198.18.0.1", "198.18.1.1").ttl(9).tos(0x2b)
                / Udp::new(1, 2)
                / payload(b"data")
        };
        let v6 = || {
            Ipv6::new("2001:db8::1", "2001:db8:1::1").hop_limit(9).traffic_class(0x2a).flow_label(5)
                / Udp::new(1, 2)
        };
        let over4 = |protocol| outer("198.18.9.1", "198.18.9.2", protocol);
        let over6 = |protocol| outer("2001:db8:9::1", "2001:db8:9::2", protocol);
        let ip4 = || Ipv4::new("198.18.9.1", "198.18.9.2").id(77);
        let ip6 = || Ipv6::new("2001:db8:9::1", "2001:db8:9::2");
        let session = |inner: Vec<u8>| {
            let header =
                pppoe::Repr { session: 9, protocol: pppoe::IPV4, payload_len: inner.len() as u16 };
            payload([&header.bytes()[..], &inner].concat())
        };
        for (n, (encaps, outer, packet, want)) in [
            (&[][..], None, v4(), link() / v4()),
            (&[(5, 0x8100)], None, v6(), link() / Vlan::new(5) / v6()),
            (
                &[(5, 0x88a8), (6, 0x8100)],
                None,
                v4(),
                link() / Vlan::new(5).service() / Vlan::new(6) / v4(),
            ),
            (&[(9, 0x8864)], None, v4(), link().ethertype(0x8864) / session(v4().build())),
            (
                &[(5, 0x8100), (9, 0x8864)],
                Some(over4(4)),
                v4(),
                link()
                    / Vlan::new(5).ethertype(0x8864)
                    / session((ip4().ttl(9).tos(2) / v4()).build()),
            ),
            (&[], Some(over4(4)), v4(), link() / ip4().ttl(9).tos(2) / v4()),
            (
                &[],
                Some(Outer { ttl: 33, df: true, tos: Some(0x48), ..over4(41) }),
                v6(),
                link() / ip4().ttl(33).tos(0x4a).df() / v6(),
            ),
            (
                &[(5, 0x8100)],
                Some(Outer { tos: None, ..over4(4) }),
                v4(),
                link() / Vlan::new(5) / ip4().ttl(9).tos(0x2a) / v4(),
            ),
            (
                &[],
                Some(Outer { encap_limit: Some(4), flow_label: None, ..over6(41) }),
                v6(),
                link()
                    / ip6().hop_limit(9).traffic_class(2).flow_label(5)
                    / DestOptions::new().option(4, &[4])
                    / v6(),
            ),
            (
                &[],
                Some(Outer { ttl: 64, flow_label: Some(0xabcde), ..over6(4) }),
                v4(),
                link() / ip6().traffic_class(2).flow_label(0xabcde) / v4(),
            ),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(written(encaps, outer, &packet.build()), want.build(), "{n}");
        }
    }

    #[test]
    fn a_packet_says_whether_the_outer_one_may_be_fragmented() {
        let outer = outer("198.18.9.1", "198.18.9.2", 4);
        for df in [false, true] {
            let ip = Ipv4::new("198.18.0.1", "198.18.1.1");
            let packet = (if df { ip.df() } else { ip } / Udp::new(1, 2)).build();
            let frame = written(&[], Some(outer), &packet);
            let h = ipv4::Header::new(&frame[14..]).unwrap();
            assert_eq!(
                (h.df(), h.checksum_ok(), usize::from(h.total_len())),
                (df, true, frame.len() - 14)
            );
        }
    }

    #[test]
    fn a_session_is_the_innermost() {
        let mut encaps = Encaps::NONE;
        encaps.push(Encap { id: 9, protocol: 0x8864 });
        encaps.push(Encap { id: 5, protocol: 0x8100 });
        assert!(Head::new(&LINK, &encaps, None, ethernet::IPV4).is_none());
    }
}
