// SPDX-License-Identifier: Apache-2.0

//! What stands around a packet in a frame that arrives: VLAN tags, a PPPoE session header, a
//! tunnel's header (`nf_flow_skb_encap_protocol()`, `nf_flow_ip4_tunnel_proto()`,
//! `nf_flow_ip6_tunnel_proto()`).

use std::net::{Ipv4Addr, Ipv6Addr};

use penstock_wire::checksum::Sum;
use penstock_wire::{ecn, ethernet, ipv4, ipv6, pppoe, protocol, vlan};

use crate::arrival::{Arrival, ArrivalId, Encap, Encaps, Tunnel};
use crate::key::{address4, address6};

/// The option that `ip6tnl` devices put before packets, in its own header: how many more
/// tunnels it may enter.
pub(crate) const LIMIT_LEN: usize = 8;
const LIMIT: [u8; 4] = [4, 1, 0, 1];

/// What stands around a packet, in a form that is quickly compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Around {
    src: [u64; 2],
    dst: [u64; 2],
    device: u32,
    encaps: [Encap; Encaps::MAX],
    count: u8,
    /// Protocol number of what is in the tunnel; 0 without one.
    payload: u8,
    /// The tunnel's header is IPv6.
    outer6: bool,
}

/// A packet within its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// What stands around it.
    pub around: Around,
    /// [`ethernet::IPV4`] or [`ethernet::IPV6`].
    pub protocol: u16,
    /// Where it begins, and where what is around it says that it ends at the latest: offsets into
    /// the bytes that were given.
    pub at: usize,
    /// One past its end.
    pub end: usize,
}

/// Why nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotInside {
    /// It is a tagged packet or a tunnel's packet, but not one for the fast path: a tag has
    /// priority bits, or the tunnel's packet is a fragment, has options, a TTL that ends, or
    /// congestion to be told. What is inside may be any flow's.
    Unusual,
    /// Nothing that flows have around them.
    Other,
}

impl Around {
    /// Adds a tag. The kernel compares all bits of a tag with a flow's VLAN id
    /// (`nf_flow_tuple_encap()`): with a priority, or marked as eligible to be dropped, it is no
    /// flow's.
    fn push_tag(&mut self, tci: u16, protocol: u16) -> Result<(), NotInside> {
        if tci & !vlan::VID_MASK != 0 {
            return Err(NotInside::Unusual);
        }
        self.push(tci, protocol)
    }

    fn push(&mut self, id: u16, protocol: u16) -> Result<(), NotInside> {
        let place = self.encaps.get_mut(usize::from(self.count)).ok_or(NotInside::Other)?;
        *place = Encap { id, protocol };
        self.count += 1;
        Ok(())
    }

    /// The encapsulation as flows have it.
    pub fn arrival(&self) -> Arrival {
        let mut encaps = Encaps::NONE;
        for encap in self.encaps.iter().take(self.count.into()) {
            encaps.push(*encap);
        }
        let [src, dst] = [self.src, self.dst].map(|address| {
            let [a, b] = address.map(u64::to_ne_bytes);
            if self.outer6 {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&a);
                bytes[8..].copy_from_slice(&b);
                Ipv6Addr::from(bytes).into()
            } else {
                Ipv4Addr::new(a[0], a[1], a[2], a[3]).into()
            }
        });
        let tunnel = (self.payload != 0).then_some(Tunnel { src, dst, protocol: self.payload });
        Arrival { device: self.device, encaps, tunnel }
    }
}

/// Looks into a frame that came in by a device, given from after its ethertype on: `ethertype` is
/// that, `tag` one that was taken out before (control information and protocol). Tags, session and
/// tunnel come in that order, none of which need be there.
#[inline]
pub fn inside(
    device: u32,
    tag: Option<(u16, u16)>,
    ethertype: u16,
    bytes: &[u8],
) -> Result<Inside, NotInside> {
    let mut around = Around { device, ..Around::default() };
    if let Some((tci, protocol)) = tag {
        around.push_tag(tci, protocol)?;
    }
    let (mut protocol, mut at, mut end) = (ethertype, 0, bytes.len());
    loop {
        match protocol {
            ethernet::VLAN | ethernet::QINQ => {
                let tag = bytes.get(at..end).and_then(vlan::Header::new).ok_or(NotInside::Other)?;
                around.push_tag(tag.tci(), protocol)?;
                protocol = tag.ethertype();
                at += vlan::LEN;
            }
            ethernet::PPPOE_SESSION => {
                let h = bytes.get(at..end).and_then(pppoe::Header::new).ok_or(NotInside::Other)?;
                let len = h.payload().ok_or(NotInside::Other)?.len();
                let Some((found, 2)) = h.protocol() else { return Err(NotInside::Other) };
                around.push(h.session(), protocol)?;
                protocol = match found {
                    pppoe::IPV4 => ethernet::IPV4,
                    pppoe::IPV6 => ethernet::IPV6,
                    _ => return Err(NotInside::Other),
                };
                end = at + pppoe::HEADER_LEN + len;
                at += pppoe::LEN;
                break;
            }
            _ => break,
        }
    }
    let packet = bytes.get(at..end).ok_or(NotInside::Other)?;
    let (inner, after, before_end) = match protocol {
        ethernet::IPV4 => tunnel4(packet, &mut around)?,
        ethernet::IPV6 => tunnel6(packet, &mut around)?,
        _ => return Err(NotInside::Other),
    };
    Ok(Inside { around, protocol: inner, at: at + after, end: at + before_end })
}

/// The protocol in a tunnel, where the packet in it begins, and where it ends; the packet itself if
/// there is no tunnel.
type InTunnel = (u16, usize, usize);

/// Length of a tunnel's packet by its header, if that is a usual one and there are so many bytes.
#[inline(always)]
fn usual4(h: &[u8; ipv4::LEN], there: usize) -> Option<usize> {
    const NO_OPTIONS: u8 = 0x45;
    const FRAGMENT: u16 = ipv4::MF | ipv4::OFFSET_MASK;
    let len = usize::from(u16::from_be_bytes([h[2], h[3]]));
    let usual = h[0] == NO_OPTIONS
        && u16::from_be_bytes([h[6], h[7]]) & FRAGMENT == 0
        && h[8] > 1
        && (ipv4::LEN..=there).contains(&len)
        && Sum::new().bytes(h).is_valid();
    usual.then_some(len)
}

#[inline]
fn tunnel4(packet: &[u8], around: &mut Around) -> Result<InTunnel, NotInside> {
    let Some((h, rest)) = packet.split_first_chunk::<{ ipv4::LEN }>() else {
        return Err(NotInside::Other);
    };
    let payload = h[9];
    let Some(inner) = ethertype_of(payload) else { return Ok((ethernet::IPV4, 0, packet.len())) };
    let len = usual4(h, packet.len()).ok_or(NotInside::Unusual)?;
    if !is_silent(h[1], inner, rest) {
        return Err(NotInside::Unusual);
    }
    around.payload = payload;
    around.src = address4([h[12], h[13], h[14], h[15]]);
    around.dst = address4([h[16], h[17], h[18], h[19]]);
    Ok((inner, ipv4::LEN, len))
}

#[inline]
fn tunnel6(packet: &[u8], around: &mut Around) -> Result<InTunnel, NotInside> {
    let Some((h, rest)) = packet.split_first_chunk::<{ ipv6::LEN }>() else {
        return Err(NotInside::Other);
    };
    let plain = Ok((ethernet::IPV6, 0, packet.len()));
    // Of what may stand between, the usual option only.
    let (payload, rest, before) = match (h[6], rest.split_first_chunk::<LIMIT_LEN>()) {
        (protocol::DEST_OPTIONS, Some((option, rest))) => {
            let usual =
                option[1] == 0 && [option[2], option[3]] == LIMIT[..2] && option[5..] == [1, 1, 0];
            if ethertype_of(option[0]).is_none() || !usual {
                return plain;
            }
            (option[0], rest, ipv6::LEN + LIMIT_LEN)
        }
        (payload, _) => (payload, rest, ipv6::LEN),
    };
    let Some(inner) = ethertype_of(payload) else { return plain };
    let len = ipv6::LEN + usize::from(u16::from_be_bytes([h[4], h[5]]));
    let class = h[0] << 4 | h[1] >> 4;
    let usual = h[0] >> 4 == 6 && h[7] > 1 && (before..=packet.len()).contains(&len);
    if !usual || !is_silent(class, inner, rest) {
        return Err(NotInside::Unusual);
    }
    let address = |at: usize| h.get(at..).and_then(|b| b.first_chunk()).map_or([0; 2], address6);
    around.payload = payload;
    around.outer6 = true;
    (around.src, around.dst) = (address(8), address(24));
    Ok((inner, before, len))
}

#[inline]
fn ethertype_of(payload: u8) -> Option<u16> {
    match payload {
        protocol::IPIP => Some(ethernet::IPV4),
        protocol::IPV6 => Some(ethernet::IPV6),
        _ => None,
    }
}

/// Whether the packet leaves the tunnel as it is: there is no congestion that it should be told of.
#[inline]
fn is_silent(outer: u8, protocol: u16, inner: &[u8]) -> bool {
    let tos = match (protocol, inner) {
        (ethernet::IPV4, [_, tos, ..]) => *tos,
        (ethernet::IPV6, [a, b, ..]) => a << 4 | b >> 4,
        _ => return false,
    };
    ecn::decapsulate(outer, tos) == Some(tos)
}

/// Numbers of arrivals that were looked up lately: frames of one tunnel or VLAN follow each other.
#[derive(Debug, Default)]
pub struct Lately {
    places: [(Around, ArrivalId); Lately::PLACES],
    used: u16,
    /// The latest tunnel over IPv4 without tags: frames of one follow each other.
    latest: Option<Latest>,
    /// What the table's count of arrivals that came and went was then
    /// ([`crate::Flowtable::arrivals_changed`]).
    changed: u64,
}

/// A tunnel by what its packets begin with.
#[derive(Clone, Copy, Debug)]
struct Latest {
    device: u32,
    payload: u8,
    ends: [u8; 8],
    arrival: ArrivalId,
}

impl Lately {
    const PLACES: usize = 16;

    /// A packet in the latest tunnel over IPv4: its arrival, its ethertype, and where it ends. What
    /// this does not see, [`inside`] may.
    #[inline(always)]
    pub fn latest4(
        &self,
        device: u32,
        changed: u64,
        bytes: &[u8],
    ) -> Option<(ArrivalId, u16, usize)> {
        let latest = self.latest.as_ref().filter(|_| changed == self.changed)?;
        let (h, rest) = bytes.split_first_chunk::<{ ipv4::LEN }>()?;
        if latest.ends != h[12..] || latest.payload != h[9] || latest.device != device {
            return None;
        }
        let len = usual4(h, bytes.len())?;
        let inner = ethertype_of(latest.payload)?;
        is_silent(h[1], inner, rest).then_some((latest.arrival, inner, len))
    }

    /// The number of an arrival; `find` gives it where it was not looked up since the table's
    /// arrivals changed.
    #[inline]
    pub fn find(
        &mut self,
        around: &Around,
        changed: u64,
        find: impl FnOnce(&Arrival) -> Option<ArrivalId>,
    ) -> Option<ArrivalId> {
        if changed != self.changed {
            (self.used, self.changed, self.latest) = (0, changed, None);
        }
        let place = around.place();
        let used = self.used >> place & 1 != 0;
        if let Some((kept, id)) = self.places.get(place).filter(|_| used)
            && kept == around
        {
            let id = *id;
            self.latest = around.latest(id).or(self.latest);
            return Some(id);
        }
        let id = find(&around.arrival())?;
        self.latest = around.latest(id).or(self.latest);
        if let Some(kept) = self.places.get_mut(place) {
            *kept = (*around, id);
            self.used |= 1 << place;
        }
        Some(id)
    }
}

impl Around {
    /// A tunnel over IPv4 with nothing else around it.
    fn latest(&self, arrival: ArrivalId) -> Option<Latest> {
        let alone = self.count == 0 && self.payload != 0 && !self.outer6;
        let [src, dst] = [self.src[0], self.dst[0]].map(u64::to_ne_bytes);
        let mut ends = [0; 8];
        ends[..4].copy_from_slice(&src[..4]);
        ends[4..].copy_from_slice(&dst[..4]);
        alone.then_some(Latest { device: self.device, payload: self.payload, ends, arrival })
    }

    fn place(&self) -> usize {
        let ids = self.encaps.map(|e| u64::from(e.id));
        let all =
            self.src[0] ^ self.src[1].rotate_left(7) ^ self.dst[0].rotate_left(13) ^ self.dst[1];
        let all = all ^ ids[0] << 20 ^ ids[1] << 36 ^ u64::from(self.device) << 48;
        (all.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_testkit::build::*;

    fn look(frame: &[u8]) -> Result<(Arrival, u16, Vec<u8>), NotInside> {
        let h = ethernet::Header::new(frame).unwrap();
        let inside = inside(7, None, h.ethertype(), h.payload())?;
        Ok((inside.around.arrival(), inside.protocol, h.payload()[inside.at..inside.end].to_vec()))
    }

    fn encaps(tags: &[(u16, u16)]) -> Encaps {
        let mut encaps = Encaps::NONE;
        for &(id, protocol) in tags {
            assert!(encaps.push(Encap { id, protocol }));
        }
        encaps
    }

    fn session(id: u16, inner: &[u8], padding: usize) -> Frame {
        let header =
            pppoe::Repr { session: id, protocol: pppoe::IPV4, payload_len: inner.len() as u16 };
        Frame::from(payload([&header.bytes()[..], inner, &vec![0; padding]].concat()))
    }

    #[test]
    fn tags_pppoe_sessions_and_tunnels_are_distinguished() {
        let link = || Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
        let v4 = || Ipv4::new("198.18.0.1", "198.18.1.1") / Udp::new(1, 2) / payload(b"data");
        let v6 = || Ipv6::new("2001:db8::1", "2001:db8:1::1") / Udp::new(1, 2);
        let outer = || Ipv4::new("198.18.9.1", "198.18.9.2");
        let outer6 = || Ipv6::new("2001:db8:9::1", "2001:db8:9::2");
        let limit = || DestOptions::new().option(4, &[4]);
        let inner = v4().build();
        let tunnel = |src: &str, dst: &str, protocol| {
            Some(Tunnel { src: src.parse().unwrap(), dst: dst.parse().unwrap(), protocol })
        };
        let over4 = |protocol| tunnel("198.18.9.1", "198.18.9.2", protocol);
        let over6 = |protocol| tunnel("2001:db8:9::1", "2001:db8:9::2", protocol);
        for (n, (frame, tags, tunnel, want)) in [
            (link() / v4(), encaps(&[]), None, v4()),
            (link() / Vlan::new(5) / v4(), encaps(&[(5, 0x8100)]), None, v4()),
            (
                link() / Vlan::new(5).service() / Vlan::new(6) / v6(),
                encaps(&[(5, 0x88a8), (6, 0x8100)]),
                None,
                v6(),
            ),
            (link().ethertype(0x8864) / session(9, &inner, 6), encaps(&[(9, 0x8864)]), None, v4()),
            (
                link() / Vlan::new(5).ethertype(0x8864) / session(9, &inner, 0),
                encaps(&[(5, 0x8100), (9, 0x8864)]),
                None,
                v4(),
            ),
            (link() / outer() / v4(), encaps(&[]), over4(4), v4()),
            (link() / outer() / v6(), encaps(&[]), over4(41), v6()),
            (link() / Vlan::new(5) / outer() / v4(), encaps(&[(5, 0x8100)]), over4(4), v4()),
            (link() / outer6() / v4(), encaps(&[]), over6(4), v4()),
            (link() / outer6() / limit() / v6(), encaps(&[]), over6(41), v6()),
        ]
        .into_iter()
        .enumerate()
        {
            let (arrival, protocol, packet) =
                look(&frame.build()).unwrap_or_else(|e| panic!("{n}: {e:?}"));
            assert_eq!(arrival, Arrival { device: 7, encaps: tags, tunnel }, "{n}");
            assert_eq!(packet, want.build(), "{n}");
            assert_eq!(protocol == ethernet::IPV4, packet[0] >> 4 == 4, "{n}");
        }
    }

    #[test]
    fn what_is_unusual_around_a_packet_is_noticed() {
        use NotInside::{Other, Unusual};
        let link = || Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
        let v4 = |tos| Ipv4::new("198.18.0.1", "198.18.1.1").tos(tos) / Udp::new(1, 2);
        let outer = || Ipv4::new("198.18.9.1", "198.18.9.2");
        let outer6 = || Ipv6::new("2001:db8:9::1", "2001:db8:9::2");
        for (n, (frame, want)) in [
            (link() / Vlan::new(5).priority(3) / v4(0), Unusual),
            (link() / Vlan::new(5).service() / Vlan::new(6).priority(1) / v4(0), Unusual),
            (link() / outer().ttl(1) / v4(0), Unusual),
            (link() / outer().fragment(0, true) / v4(0), Unusual),
            (link() / outer().options(&[1, 1, 1, 0]) / v4(0), Unusual),
            (link() / outer().checksum(1) / v4(0), Unusual),
            (link() / outer().total_len(99) / v4(0), Unusual),
            (link() / outer().tos(3) / v4(2), Unusual),
            (link() / outer().tos(3) / v4(0), Unusual),
            (link() / outer().protocol(4) / payload([]), Unusual),
            (link() / outer6().hop_limit(1) / v4(0), Unusual),
            (link() / outer6().traffic_class(3) / v4(1), Unusual),
            (link() / Vlan::new(1) / Vlan::new(2) / Vlan::new(3) / v4(0), Other),
            (
                link()
                    / Vlan::new(1)
                    / Arp::request("02:00:00:00:00:01", "198.18.0.1", "198.18.0.2"),
                Other,
            ),
            (link().ethertype(0x8864) / session(1, &[0; 4], 0).truncate(23), Other),
            (link() / Vlan::new(1).ethertype(0x0800) / payload([0x45; 19]), Other),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(look(&frame.build()), Err(want), "{n}");
        }
        // No congestion, or none that is new.
        for (outer_tos, inner_tos) in [(0, 0), (1, 0), (2, 2), (3, 3), (0, 3)] {
            assert!(look(&(link() / outer().tos(outer_tos) / v4(inner_tos)).build()).is_ok());
        }
    }

    #[test]
    fn changed_arrivals_are_looked_up_again() {
        let mut lately = Lately::default();
        let around = |device| Around { device, ..Around::default() };
        for (device, changed, found, want) in [
            (1, 0, Some(5), Some(5)),
            (1, 0, None, Some(5)),
            (2, 0, None, None),
            (2, 0, Some(6), Some(6)),
            (1, 1, None, None),
            (1, 1, Some(7), Some(7)),
        ] {
            let id = lately.find(&around(device), changed, |arrival| {
                assert_eq!(arrival.device, device);
                found.map(ArrivalId)
            });
            assert_eq!(id, want.map(ArrivalId), "{device} {changed}");
        }
    }

    #[test]
    fn only_the_latest_tunnel_is_cached() {
        let outer = |dst: &str| Ipv4::new("198.18.9.1", dst);
        let inner = || Ipv4::new("198.18.0.1", "198.18.1.1") / Udp::new(1, 2);
        let packet = (outer("198.18.9.2") / inner()).build();
        let mut lately = Lately::default();
        assert_eq!(lately.latest4(7, 0, &packet), None);
        let found = inside(7, None, ethernet::IPV4, &packet).unwrap();
        lately.find(&found.around, 0, |_| Some(ArrivalId(3)));
        assert_eq!(
            lately.latest4(7, 0, &packet),
            Some((ArrivalId(3), ethernet::IPV4, packet.len()))
        );
        assert_eq!((lately.latest4(8, 0, &packet), lately.latest4(7, 1, &packet)), (None, None));
        for other in [
            outer("198.18.9.3") / inner(),
            outer("198.18.9.2").ttl(1) / inner(),
            outer("198.18.9.2").tos(3) / inner(),
            outer("198.18.9.2").checksum(1) / inner(),
            outer("198.18.9.2").fragment(1, false) / inner(),
            outer("198.18.9.2") / Ipv6::new("2001:db8::1", "2001:db8::2"),
        ] {
            assert_eq!(lately.latest4(7, 0, &other.build()), None);
        }
    }
}
