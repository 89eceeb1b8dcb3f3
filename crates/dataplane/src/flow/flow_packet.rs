// SPDX-License-Identifier: Apache-2.0

//! What the fast path reads of a packet (`nf_flow_tuple_ip()`, `nf_flow_tuple_ipv6()`).

use penstock_flowtable::ArrivalId;
use penstock_flowtable::key::{IPV4, IPV6, Key, address4, address6};
use penstock_wire::{ethernet, ipv4, ipv6, protocol};

use crate::plain_frame::{TCP_FLAGS, TCP_LEN, UDP_LEN};

/// Bytes of a GRE header that have to be there.
const GRE_LEN: usize = 4;

/// Bits of [`FlowPacket::flags`], as in the header.
pub(crate) mod tcp_flag {
    pub(crate) const FIN: u8 = 1;
    pub(crate) const SYN: u8 = 2;
    pub(crate) const RST: u8 = 4;
    /// Those that mean something here.
    pub(crate) const ANY: u8 = FIN | SYN | RST;
}

/// A packet that may be a flow's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowPacket {
    pub(crate) key: Key,
    /// Bytes from the IP header on, as the header says.
    pub(crate) len: u32,
    /// Flags of TCP, else 0.
    pub(crate) flags: u8,
    /// Where it begins after the link header: after what is around it.
    pub(crate) at: u16,
}

/// Why a packet is none for the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Not {
    /// It goes from one host to another, perhaps as part of a flow between them: a fragment, one
    /// with options or a TTL that ends, an ICMP message. What follows between them must not
    /// overtake it.
    Between([u64; 2], [u64; 2]),
    /// It is no part of any flow.
    Other,
}

/// Whether a frame without anything around its packet opens a TCP connection, as far as the fast
/// path would look at it. `None` if something is around it.
#[cold]
pub(crate) fn is_syn(frame: &[u8]) -> Option<bool> {
    let (link, network) = frame.split_first_chunk::<{ ethernet::LEN }>()?;
    let (protocol, header) = match u16::from_be_bytes([link[12], link[13]]) {
        ethernet::IPV4 => (*network.get(9)?, ipv4::LEN),
        ethernet::IPV6 => (*network.get(6)?, ipv6::LEN),
        _ => return None,
    };
    match protocol {
        protocol::TCP => {
            Some(network.get(header + TCP_FLAGS).is_some_and(|flags| flags & tcp_flag::SYN != 0))
        }
        protocol::IPIP | protocol::IPV6 => None,
        _ => Some(false),
    }
}

/// Transport header: ports and flags. `None` if the protocol is none for the fast path, or too
/// little is there.
#[inline(always)]
fn transport(protocol: u8, bytes: &[u8]) -> Option<(u32, u8)> {
    match protocol {
        protocol::UDP => {
            let h = bytes.first_chunk::<UDP_LEN>()?;
            Some((u32::from_ne_bytes([h[0], h[1], h[2], h[3]]), 0))
        }
        protocol::TCP => {
            let h = bytes.first_chunk::<TCP_LEN>()?;
            Some((u32::from_ne_bytes([h[0], h[1], h[2], h[3]]), h[TCP_FLAGS]))
        }
        protocol::GRE => {
            const VERSION: u8 = 7;
            let h = bytes.first_chunk::<GRE_LEN>()?;
            (h[1] & VERSION == 0).then_some((0, 0))
        }
        _ => None,
    }
}

/// Reads an IPv4 packet, given from its header on.
#[inline(always)]
pub(crate) fn ipv4(packet: &[u8], arrival: ArrivalId) -> Result<FlowPacket, Not> {
    const NO_OPTIONS: u8 = 0x45;
    /// More fragments, and their offset.
    const FRAGMENT: u16 = 0x3fff;
    let Some((h, rest)) = packet.split_first_chunk::<{ ipv4::LEN }>() else {
        return Err(Not::Other);
    };
    let src = address4([h[12], h[13], h[14], h[15]]);
    let dst = address4([h[16], h[17], h[18], h[19]]);
    let len = usize::from(u16::from_be_bytes([h[2], h[3]]));
    let fragment = u16::from_be_bytes([h[6], h[7]]) & FRAGMENT != 0;
    let (ttl, l4) = (h[8], h[9]);
    let whole = rest.get(..len.saturating_sub(ipv4::LEN)).filter(|_| packet.len() >= len);
    let plain = h[0] == NO_OPTIONS && !fragment && ttl > 1;
    match whole.filter(|_| plain).and_then(|rest| transport(l4, rest)) {
        Some((ports, flags)) => {
            let key = Key { src, dst, ports, arrival, l3: IPV4, l4 };
            Ok(FlowPacket { key, len: len as u32, flags, at: 0 })
        }
        None => Err(Not::Between(src, dst)),
    }
}

/// Reads an IPv6 packet, given from its header on.
#[inline(always)]
pub(crate) fn ipv6(packet: &[u8], arrival: ArrivalId) -> Result<FlowPacket, Not> {
    let Some((h, rest)) = packet.split_first_chunk::<{ ipv6::LEN }>() else {
        return Err(Not::Other);
    };
    let address = |at: usize| h.get(at..).and_then(|b| b.first_chunk()).map_or([0; 2], address6);
    let (src, dst) = (address(8), address(24));
    let payload = usize::from(u16::from_be_bytes([h[4], h[5]]));
    let (l4, hop_limit) = (h[6], h[7]);
    let plain = h[0] >> 4 == 6 && hop_limit > 1;
    // Without a length it is a jumbogram, or nothing.
    let whole = rest.get(..payload).filter(|_| plain && payload > 0);
    match whole.and_then(|rest| transport(l4, rest)) {
        Some((ports, flags)) => {
            let key = Key { src, dst, ports, arrival, l3: IPV6, l4 };
            Ok(FlowPacket { key, len: (payload + ipv6::LEN) as u32, flags, at: 0 })
        }
        None => Err(Not::Between(src, dst)),
    }
}

#[cfg(test)]
mod tests {
    use penstock_testkit::build::*;

    use super::*;
    use crate::flow::burst_packet::{BurstPacket, Hosts};
    use crate::plain_frame::{PlainFrame, receiver};

    #[test]
    fn plain_frames_parse_as_in_the_general_parser() {
        let link = || Ethernet::new("02:00:00:00:00:07", "02:00:00:00:00:01");
        let ip = || Ipv4::new("198.18.0.1", "198.18.1.1");
        let mut frames = vec![
            (link() / ip() / Udp::new(1, 2) / payload(b"data")).build(),
            (link() / ip().ttl(2).tos(9).id(7).df() / Udp::new(1, 2)).build(),
            (link() / ip() / Tcp::new(1, 2).flags(0x12)).build(),
            (link() / ip().options(&[1; 4]) / Udp::new(1, 2)).build(),
            (link() / ip().ttl(1) / Udp::new(1, 2)).build(),
            (link() / ip() / Icmp::echo_request(1, 1)).build(),
            (link() / Ipv6::new("2001:db8::1", "2001:db8::2") / Udp::new(1, 2)).build(),
            (link() / Vlan::new(7) / ip() / Udp::new(1, 2)).build(),
        ];
        for n in 0..frames.len() {
            for at in 0..frames[n].len() * 8 {
                let mut changed = frames[n].clone();
                changed[at / 8] ^= 1 << (at % 8);
                frames.push(changed);
            }
            let whole = frames[n].clone();
            frames.extend((0..whole.len()).map(|cut| whole[..cut].to_vec()));
        }
        let to_us = receiver([2, 0, 0, 0, 0, 1]);
        let mut usual = 0;
        for frame in &frames {
            let Some(plain) = PlainFrame::read(frame) else {
                let v4 = frame.get(12..14) == Some(&[0x08, 0]);
                assert!(!v4 || ipv4(&frame[14..], ArrivalId(3)).is_err(), "{frame:?}");
                continue;
            };
            usual += 1;
            let read = ipv4(&frame[14..], ArrivalId(3)).unwrap();
            let kept = BurstPacket::of(&plain, ArrivalId(3));
            assert!(kept.is_like(&BurstPacket::any(&read)));
            let seen = kept.packet(&Hosts::default());
            assert_eq!(
                (read.key, read.len, read.flags, read.at),
                (seen.key, seen.len, seen.flags, seen.at)
            );
            assert_eq!(plain.is_to(to_us), frame[..6] == [2, 0, 0, 0, 0, 1]);
        }
        assert!(usual > frames.len() / 8, "{usual} of {}", frames.len());
    }

    #[test]
    fn frames_that_the_fast_path_refuses_have_no_flow_tuple() {
        let v4 = || Ipv4::new("198.18.0.1", "198.18.1.1");
        let v6 = || Ipv6::new("2001:db8::1", "2001:db8:1::1");
        let udp = || Udp::new(1, 2) / payload(b"data");
        let tcp = || Tcp::new(1, 2);
        let long = |mut bytes: Vec<u8>| {
            bytes[3] += 1;
            bytes
        };
        for (n, (bytes, good)) in [
            ((v4() / udp()).build(), true),
            ((v4() / tcp()).build(), true),
            ((v4().ttl(1) / udp()).build(), false),
            ((v4() / Icmp::echo_request(1, 1)).build(), false),
            (long((v4() / udp()).build()), false),
            ((v6() / udp()).build(), true),
            ((v6() / tcp()).build(), true),
            ((v6().hop_limit(1) / udp()).build(), false),
        ]
        .into_iter()
        .enumerate()
        {
            let read = if bytes[0] >> 4 == 4 { ipv4 } else { ipv6 };
            let seen = read(&bytes, ArrivalId(3));
            match seen {
                Ok(seen) => {
                    assert!(good, "{n}");
                    assert_eq!(
                        (seen.key.port_numbers(), seen.len as usize),
                        ([1, 2], bytes.len()),
                        "{n}"
                    );
                }
                Err(not) => assert!(!good && matches!(not, Not::Between(..)), "{n}"),
            }
            for cut in 0..bytes.len() {
                assert!(read(&bytes[..cut], ArrivalId(3)).is_err(), "{n} {cut}");
            }
        }
    }
}
