// SPDX-License-Identifier: Apache-2.0

//! A connection that a described packet is said to belong to: it is entered into the table before
//! the packet comes.

use std::net::IpAddr;

use penstock_conntrack::status;
use penstock_wire::{ethernet, icmp, icmpv6, ipv4, ipv6, protocol};

/// What the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pretended {
    /// Packets have gone both ways, and this one has the original direction.
    Established,
    /// Packets have gone both ways, and this one has the reply direction.
    Reply,
    /// It was expected, and this is its first packet.
    Related,
}

/// What tells connections apart: addresses and identifiers of both directions.
struct Ends {
    protocol: u8,
    addresses: [IpAddr; 2],
    /// Of the direction of the packet, and of the other one.
    ids: [[u16; 2]; 2],
}

impl Pretended {
    /// By its word.
    pub fn of(word: &str) -> Option<Pretended> {
        match word {
            "established" => Some(Pretended::Established),
            "reply" => Some(Pretended::Reply),
            "related" => Some(Pretended::Related),
            _ => None,
        }
    }

    /// The dump of a table with the connection of a packet, from its IP header on or from its link
    /// header on.
    ///
    /// # Errors
    /// The packet can have no connection.
    pub fn dump(self, bytes: &[u8], is_frame: bool) -> Result<String, String> {
        let ends = ends(bytes, is_frame)
            .ok_or("Error: --ct: this packet cannot belong to a connection")?;
        let Ends { protocol, addresses: [from, to], ids: [[src, dst], [back_src, back_dst]] } =
            ends;
        let there = format!("{from},{to},{src},{dst},0");
        let back = format!("{to},{from},{back_src},{back_dst},0");
        let both = status::SEEN_REPLY | status::ASSURED | status::CONFIRMED;
        let (original, reply, status) = match self {
            Pretended::Established => (there, back, both),
            Pretended::Reply => (back, there, both),
            Pretended::Related => (there, back, status::EXPECTED | status::CONFIRMED),
        };
        let state = match protocol {
            // Established, with windows that are not looked at (`IP_CT_TCP_FLAG_BE_LIBERAL`).
            protocol::TCP => " tcp=3,0,0,3,0,0,0,0,0,0,0,0,0,0,0,8,0,0,0,0,0,8",
            protocol::UDP => " udp=0",
            _ => "",
        };
        Ok(format!(
            "penstock-conntrack 1\nflow id=1 proto={protocol} orig={original} reply={reply} \
             status={status} left=600000000000{state}\n"
        ))
    }
}

/// Whether a packet is one of TCP.
pub fn is_tcp(bytes: &[u8], is_frame: bool) -> bool {
    ends(bytes, is_frame).is_some_and(|ends| ends.protocol == protocol::TCP)
}

fn ends(bytes: &[u8], is_frame: bool) -> Option<Ends> {
    let packet = match is_frame {
        true => {
            let (link, packet) = bytes.split_at_checked(ethernet::LEN)?;
            let ethertype = u16::from_be_bytes(*link.last_chunk()?);
            [ethernet::IPV4, ethernet::IPV6].contains(&ethertype).then_some(packet)?
        }
        false => bytes,
    };
    let (protocol, addresses, rest) = match packet.first()? >> 4 {
        4 => {
            let header = ipv4::Header::new(packet)?;
            let len = usize::from(packet.first()? & 0xf) * 4;
            let addresses = [IpAddr::V4(header.src()), IpAddr::V4(header.dst())];
            (header.protocol(), addresses, packet.get(len..)?)
        }
        _ => {
            let header = ipv6::Header::new(packet)?;
            let addresses = [IpAddr::V6(header.src()), IpAddr::V6(header.dst())];
            (*packet.get(6)?, addresses, packet.get(ipv6::LEN..)?)
        }
    };
    let word = |at: usize| rest.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b));
    let ids = match protocol {
        protocol::TCP | protocol::UDP | protocol::UDPLITE | protocol::SCTP | protocol::DCCP => {
            let (src, dst) = (word(0)?, word(2)?);
            [[src, dst], [dst, src]]
        }
        protocol::ICMP | protocol::ICMPV6 => {
            const ICMP_PAIR: [u8; 2] = [icmp::ECHO_REQUEST, icmp::ECHO_REPLY];
            const ICMPV6_PAIR: [u8; 2] = [icmpv6::ECHO_REQUEST, icmpv6::ECHO_REPLY];
            let pair = if protocol == protocol::ICMP { ICMP_PAIR } else { ICMPV6_PAIR };
            let kind = *rest.first()?;
            let other = match pair {
                [request, reply] if kind == request => reply,
                [request, reply] if kind == reply => request,
                _ => return None,
            };
            let id = word(4)?;
            let of = |kind: u8| u16::from(kind) << 8;
            [[id, of(kind)], [id, of(other)]]
        }
        _ => [[0, 0], [0, 0]],
    };
    Some(Ends { protocol, addresses, ids })
}
