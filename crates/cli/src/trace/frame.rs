// SPDX-License-Identifier: Apache-2.0

//! A frame from what is known about it; the rest is what a usual packet has.

use penstock_net::Mac;
use penstock_wire::checksum::{self, Sum};
use penstock_wire::{ethernet, icmp, icmpv6, ipv4, ipv6, protocol, tcp, udp, vlan};

use super::fields::{Fields, Known};

/// Who sends a frame that does not say so: a locally administered address.
const NEIGHBOUR: Mac = Mac([0x02, 0x50, 0x53, 0, 0, 0x01]);
/// Default source port: the first of the dynamic ports (RFC 6335).
const SOURCE_PORT: u16 = 49152;
/// Time to live, hop limit.
const TTL: u8 = 64;
/// The ARP header for IPv4 over Ethernet, before the addresses (RFC 826).
const ARP: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
const ARP_LEN: usize = 28;

/// The frame for a device with address `to`, tags and padding to 60 bytes included.
///
/// # Errors
/// A field without a default is missing.
pub fn ethernet(fields: &Fields, to: Mac) -> Result<Vec<u8>, String> {
    let mut link = vec![0; ethernet::LEN];
    link[..6].copy_from_slice(&to.0);
    link[6..12].copy_from_slice(&NEIGHBOUR.0);
    // The type follows all tags; `ether type`, `vlan type` and dependencies of the match all give
    // it.
    let mut at = ethernet::LEN - 2;
    while fields.link.u16(at).is_some_and(vlan::is_tag) {
        at += vlan::LEN;
    }
    link.resize(at + 2, 0);
    let ethertype = fields.link.u16(at).or(fields.ethertype).ok_or_else(no_protocol)?;
    link[at..].copy_from_slice(&ethertype.to_be_bytes());
    fields.link.put(&mut link);
    link.extend(network(fields, ethertype)?);
    link.resize(link.len().max(60), 0);
    Ok(link)
}

/// The packet from its IP header on.
///
/// # Errors
/// A field without a default is missing, or it is no IP packet.
pub fn ip(fields: &Fields) -> Result<Vec<u8>, String> {
    match fields.ethertype {
        Some(ethertype @ (ethernet::IPV4 | ethernet::IPV6)) => network(fields, ethertype),
        _ => Err("Error: the host sends IP packets: give `ip daddr` or `ip6 daddr`".to_owned()),
    }
}

fn no_protocol() -> String {
    "Error: no protocol is given: `ip saddr …`, `ip6 saddr …`, `arp operation …` or `ether type …`"
        .to_owned()
}

fn network(fields: &Fields, ethertype: u16) -> Result<Vec<u8>, String> {
    match ethertype {
        ethernet::IPV4 => ipv4_packet(fields),
        ethernet::IPV6 => ipv6_packet(fields),
        ethernet::ARP => {
            let mut message = ARP.to_vec();
            message.resize(ARP_LEN, 0);
            message[8..14].copy_from_slice(&NEIGHBOUR.0);
            Ok(whole(&fields.network, message))
        }
        _ => Ok(whole(&fields.network, Vec::new())),
    }
}

/// A header with what is known put over it.
fn whole(known: &Known, mut header: Vec<u8>) -> Vec<u8> {
    header.resize(header.len().max(known.len()), 0);
    known.put(&mut header);
    header
}

fn address(known: &Known, at: usize, what: &str) -> Result<(), String> {
    if known.has(at) { Ok(()) } else { Err(format!("Error: the packet has no `{what}`")) }
}

fn ipv4_packet(fields: &Fields) -> Result<Vec<u8>, String> {
    let known = &fields.network;
    address(known, 12, "ip saddr")?;
    address(known, 16, "ip daddr")?;
    let mut header = vec![0; ipv4::LEN];
    (header[0], header[6], header[8], header[9]) = (0x45, 0x40, TTL, fields.protocol.unwrap_or(0));
    let mut header = whole(known, header);
    header.resize(header.len().max(usize::from(header[0] & 0xf) * 4), 0);
    let (protocol, later) = (header[9], header[6] & 0x1f != 0 || header[7] != 0);
    let body =
        body(fields, protocol, fields.length.map(|l| l.saturating_sub(header.len())), !later)?;
    if !known.has(2) {
        let len = header.len() + body.len();
        header[2..4].copy_from_slice(&u16::try_from(len).map_err(|_| too_long())?.to_be_bytes());
    }
    let mut packet = header;
    let head = packet.len();
    packet.extend(body);
    if let Some(h) = ipv4::Header::new(&packet) {
        let pseudo = checksum::pseudo_v4(h.src(), h.dst(), protocol, (packet.len() - head) as u32);
        fill(fields, protocol, pseudo, &mut packet[head..], !later);
    }
    if !known.has(10)
        && let Some(mut h) = ipv4::HeaderMut::new(&mut packet)
    {
        h.fill_checksum();
    }
    Ok(packet)
}

fn ipv6_packet(fields: &Fields) -> Result<Vec<u8>, String> {
    let known = &fields.network;
    address(known, 8, "ip6 saddr")?;
    address(known, 24, "ip6 daddr")?;
    let mut header = vec![0; ipv6::LEN];
    (header[0], header[6], header[7]) = (0x60, fields.protocol.unwrap_or(protocol::NO_NEXT), TTL);
    let mut packet = whole(known, header);
    let protocol = packet[6];
    let body = body(fields, protocol, fields.length.map(|l| l.saturating_sub(ipv6::LEN)), true)?;
    if !known.has(4) {
        packet[4..6]
            .copy_from_slice(&u16::try_from(body.len()).map_err(|_| too_long())?.to_be_bytes());
    }
    let head = packet.len();
    packet.extend(body);
    if let Some(h) = ipv6::Header::new(&packet) {
        let pseudo = checksum::pseudo_v6(h.src(), h.dst(), protocol, (packet.len() - head) as u32);
        fill(fields, protocol, pseudo, &mut packet[head..], true);
    }
    Ok(packet)
}

fn too_long() -> String {
    "Error: the packet is longer than 65535 bytes".to_owned()
}

/// The bytes after the IP header, without checksum, of `length` bytes if that is given.
fn body(
    fields: &Fields,
    number: u8,
    length: Option<usize>,
    headed: bool,
) -> Result<Vec<u8>, String> {
    let known = &fields.transport;
    let mut header = Vec::new();
    if headed {
        match number {
            protocol::TCP => {
                header.resize(tcp::LEN, 0);
                (header[12], header[13]) = (0x50, if known.has(13) { 0 } else { tcp::flag::SYN });
                header[14..16].copy_from_slice(&[0xff, 0xff]);
            }
            protocol::UDP | protocol::UDPLITE => header.resize(udp::LEN, 0),
            protocol::ICMP => header = vec![icmp::ECHO_REQUEST, 0, 0, 0, 0, 0, 0, 1],
            protocol::ICMPV6 => header = vec![icmpv6::ECHO_REQUEST, 0, 0, 0, 0, 0, 0, 1],
            protocol::SCTP => header.resize(12, 0),
            _ => {}
        }
        if matches!(number, protocol::TCP | protocol::UDP | protocol::UDPLITE | protocol::SCTP) {
            if !known.has(2) {
                return Err(
                    "Error: the packet has no port to go to, such as `tcp dport 443`".to_owned()
                );
            }
            header[..2].copy_from_slice(&SOURCE_PORT.to_be_bytes());
        }
    }
    let mut bytes = whole(known, header);
    if number == protocol::TCP && headed {
        let len = usize::from(bytes[12] >> 4) * 4;
        bytes.resize(bytes.len().max(len), 0);
    }
    bytes.extend(whole(&fields.inner, Vec::new()));
    let length = length.unwrap_or(0);
    if length > usize::from(u16::MAX) {
        return Err(too_long());
    }
    bytes.resize(bytes.len().max(length), 0);
    if number == protocol::UDP && headed && !known.has(4) {
        let len = u16::try_from(bytes.len()).map_err(|_| too_long())?;
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
    }
    Ok(bytes)
}

/// Fills in the checksum of a transport header, unless it is given.
fn fill(fields: &Fields, number: u8, pseudo: Sum, body: &mut [u8], headed: bool) {
    let at = match number {
        protocol::TCP => 16,
        protocol::UDP | protocol::UDPLITE => 6,
        protocol::ICMP | protocol::ICMPV6 => 2,
        _ => return,
    };
    if !headed || fields.transport.has(at) || body.len() < at + 2 {
        return;
    }
    let sum = if number == protocol::ICMP { Sum::new() } else { pseudo }.bytes(body);
    let sum = if number == protocol::UDP { sum.finish_udp() } else { sum.finish() };
    body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_lang::names::NoNames;
    use penstock_testkit::build::*;

    const DEVICE: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn frame(text: &str) -> Result<Vec<u8>, String> {
        ethernet(&Fields::parse(text, &NoNames)?, DEVICE)
    }

    #[test]
    fn a_match_describes_a_frame() {
        let link = || Ethernet::new(NEIGHBOUR, DEVICE);
        let ip = || Ipv4::new("198.18.0.5", "198.19.0.9").id(0).df();
        let ip6 = || Ipv6::new("2001:db8::1", "2001:db8::2");
        for (text, want) in [
            (
                "ip saddr 198.18.0.5 ip daddr 198.19.0.9 tcp dport 443",
                (link() / ip() / Tcp::new(SOURCE_PORT, 443).syn().window(0xffff)).build(),
            ),
            (
                "ip saddr 198.18.0.5 ip daddr 198.19.0.9 ip ttl 1 udp sport 9 udp dport 53 meta length 100",
                (link() / ip().ttl(1) / Udp::new(9, 53) / payload([0; 72])).build(),
            ),
            (
                "ip saddr 198.18.0.5 ip daddr 198.19.0.9 icmp type echo-request icmp id 7",
                (link() / ip() / Icmp::echo_request(7, 1)).build(),
            ),
            (
                "ether saddr 02:00:00:00:00:09 vlan id 5 vlan pcp 3 ip6 saddr 2001:db8::1 ip6 daddr 2001:db8::2 \
                 tcp dport 80 tcp flags syn,ack",
                (Ethernet::new("02:00:00:00:00:09", DEVICE)
                    / Vlan::new(5).priority(3)
                    / ip6()
                    / Tcp::new(SOURCE_PORT, 80).syn().ack(0).window(0xffff))
                .build(),
            ),
        ] {
            let mut want = want;
            want.resize(want.len().max(60), 0);
            assert_eq!(frame(text).as_ref(), Ok(&want), "{text}");
        }
    }

    #[test]
    fn matches_that_describe_no_packet_are_refused() {
        for (text, message) in [
            ("tcp dport 443", "no protocol is given"),
            ("ip daddr 198.19.0.9", "the packet has no `ip saddr`"),
            ("ip saddr 198.18.0.5 ip daddr 198.19.0.9 meta l4proto tcp", "no port to go to"),
            ("ip saddr { 198.18.0.5, 198.18.0.6 } ip daddr 198.19.0.9", "one value in each field"),
            ("ip saddr 198.18.0.5 ip daddr != 198.19.0.9", "one value in each field"),
            ("ip saddr 198.18.0.5 accept", "`immediate` says nothing about the bytes"),
            ("meta mark 5", "`meta mark` says nothing about the bytes"),
            ("ip sadr 198.18.0.5", "syntax error"),
        ] {
            let error = frame(text).expect_err(text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
