// SPDX-License-Identifier: Apache-2.0

//! ESP by chance: tunnels and transport over both families, ciphers, extended sequence numbers,
//! windows, flags, and policies in all directions. The other end's packets are right, come again, in
//! another order, in fragments, or were changed on the way.

use std::time::Duration;

use fastrand::Rng;
use penstock_testkit::Chance;

use crate::frame::{Frame, Mac, bare, checksum, ethernet};
use crate::peer::Peer;
use crate::scenario::Scenario;
use crate::scenarios::TUNNEL_NET;

pub(super) const LAN: Mac = [2, 0, 0, 0, 1, 1];
const WAN: Mac = [2, 0, 0, 0, 2, 1];
pub(super) const CLIENT: Mac = [2, 0, 0, 0, 1, 0x10];
const GATEWAY: Mac = [2, 0, 0, 0, 2, 2];

/// The router's end, the other end, a client, and a station at the other end, of each family.
pub(super) const ENDS: [[&str; 4]; 2] = [
    ["198.19.0.1", "198.19.0.2", "198.18.0.10", "198.18.77.7"],
    ["2001:db8:2::1", "2001:db8:2::2", "2001:db8:1::10", "2001:db8:77::7"],
];

/// The networks of both ends, of each family.
pub(super) const NETWORKS: [[&str; 2]; 2] =
    [["198.18.0.0/24", "198.18.77.0/24"], ["2001:db8:1::/64", "2001:db8:77::/64"]];

const CIPHERS: [&str; 10] = [
    "aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128",
    "aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 96",
    "aead rfc4106(gcm(aes)) \
     0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223 64",
    "aead rfc7539esp(chacha20,poly1305) \
     0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223 128",
    "auth-trunc hmac(sha256) 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f \
     128 enc cbc(aes) 0x000102030405060708090a0b0c0d0e0f",
    "auth hmac(sha256) 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f enc \
     cbc(aes) 0x000102030405060708090a0b0c0d0e0f1011121314151617",
    "auth-trunc hmac(sha512) 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f \
     256 enc cbc(aes) 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
    "auth hmac(sha1) 0x000102030405060708090a0b0c0d0e0f10111213 enc cbc(aes) \
     0x000102030405060708090a0b0c0d0e0f",
    "auth hmac(sha256) 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f enc \
     ecb(cipher_null) \"\"",
    "auth digest_null \"\" enc cbc(aes) 0x000102030405060708090a0b0c0d0e0f",
];

const SPI_OUT: u32 = 0x1001;
pub(super) const SPI_IN: u32 = 0x2001;

/// What the ends have agreed on.
pub(super) struct Agreement {
    pub(super) six: bool,
    pub(super) tunnel: bool,
    /// Through UDP, which changes what fits.
    pub(super) udp: bool,
}

/// The scenario of a seed.
pub fn scenario(seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let agreed = Agreement { six: rng.one_in(3), tunnel: !rng.one_in(3), udp: rng.one_in(5) };
    let net = format!(
        "{TUNNEL_NET}route add 198.18.77.0/24 via 198.19.0.2 dev wan\nroute add 2001:db8:77::/64 \
         via 2001:db8:2::2 dev wan\n{}{}",
        two_states(&mut rng, &agreed),
        policies(&mut rng, &agreed)
    );
    let rules = rules(&mut rng);
    let mut peer = Peer::of(&net, SPI_IN);
    let mut s = Scenario::new(&format!("random_ipsec_{seed}"), &net, &rules).at_once();
    for _ in 0..rng.usize(10..40) {
        for (source, frame) in frames(&mut rng, &agreed, &mut peer) {
            s = s.frame(source, &frame);
            // The kernel receives what came out of transport mode some time later, after what
            // comes at once.
            if !agreed.tunnel {
                s = s.wait(Duration::from_millis(3));
            }
        }
    }
    if seed.is_multiple_of(4) { s.saved() } else { s }
}

/// `ip -batch` lines of a state for each direction.
pub(super) fn two_states(rng: &mut Rng, agreed: &Agreement) -> String {
    let [near, far, ..] = ENDS[usize::from(agreed.six)];
    let cipher = rng.pick(&CIPHERS);
    let esn = rng.bool();
    let mut words = String::from(cipher);
    words += if agreed.tunnel { " mode tunnel" } else { " mode transport" };
    let mut flags: Vec<&str> = vec![];
    if agreed.tunnel {
        flags.push("af-unspec");
        for flag in ["noecn", "decap-dscp", "nopmtudisc"] {
            if rng.one_in(5) {
                flags.push(flag);
            }
        }
    }
    if esn {
        flags.push("esn");
    }
    if agreed.udp {
        words += " encap espinudp 4500 4500 0.0.0.0";
    }
    let window = if esn { rng.pick(&[32, 64, 128]) } else { rng.pick(&[0, 4, 32]) };
    let of = |rng: &mut Rng, inward: bool| {
        let mut words = words.clone();
        let mut flags = flags.clone();
        if inward {
            words += &format!(" replay-window {window}");
        } else if esn {
            words += " replay-window 32";
        }
        // Numbers that are about to leave their low half, or to end.
        if rng.one_in(4) {
            let half = if inward { "replay-seq" } else { "replay-oseq" };
            words += &format!(" {half} 0xfffffffa");
            if esn && rng.one_in(3) {
                words += &format!(" {half}-hi 0xffffffff");
            }
        }
        if inward && rng.one_in(8) {
            flags.retain(|f| *f != "noecn");
        }
        if !flags.is_empty() {
            words += &format!(" flag {}", flags.join(" flag "));
        }
        if !inward && agreed.tunnel && rng.one_in(5) {
            words += " extra-flag dont-encap-dscp";
        }
        words
    };
    let (out, inward) = (of(rng, false), of(rng, true));
    format!(
        "xfrm state add src {near} dst {far} proto esp spi {SPI_OUT:#x} reqid 7 {out}\nxfrm state \
         add src {far} dst {near} proto esp spi {SPI_IN:#x} reqid 7 {inward}\n"
    )
}

fn policies(rng: &mut Rng, agreed: &Agreement) -> String {
    let [near, far, ..] = ENDS[usize::from(agreed.six)];
    let mut lines = String::new();
    let mode = if agreed.tunnel { "tunnel" } else { "transport" };
    let of = |a: &str, b: &str| match agreed.tunnel {
        true => format!("tmpl src {a} dst {b} proto esp reqid 7 mode {mode}"),
        false => format!("tmpl proto esp reqid 7 mode {mode}"),
    };
    let ends: Vec<[&str; 2]> = if agreed.tunnel { NETWORKS.to_vec() } else { vec![[near, far]] };
    for [own, other] in ends {
        let level = rng.pick(&["", "", " level use"]);
        lines += &format!(
            "xfrm policy add src {own} dst {other} dir out priority 100 {}\n",
            of(near, far)
        );
        for direction in ["in", "fwd"] {
            if !rng.one_in(6) {
                lines += &format!(
                    "xfrm policy add src {other} dst {own} dir {direction} priority 100 \
                     {}{level}\n",
                    of(far, near)
                );
            }
        }
        if !agreed.tunnel {
            continue;
        }
        // What a packet of the host's own says of its ports, no socket says here.
        for (protocol, action) in
            [("tcp", "block"), ("udp sport 1002", "allow"), ("udp dport 1003", "block")]
        {
            if rng.one_in(4) {
                let (direction, ends) = rng.pick(&[("out", [own, other]), ("fwd", [other, own])]);
                lines += &format!(
                    "xfrm policy add src {} dst {} proto {protocol} dir {direction} priority 10 \
                     action {action}\n",
                    ends[0], ends[1]
                );
            }
        }
    }
    lines
}

fn rules(rng: &mut Rng) -> String {
    const ANYWHERE: [&str; 9] = [
        "",
        "meta l4proto esp",
        "meta l4proto udp",
        "ip ttl 63",
        "ip6 hoplimit 63",
        "ip dscp 4",
        "ip ecn ce",
        "ct state new",
        "ct state established",
    ];
    const INWARD: [&str; 6] = [
        "meta ipsec exists",
        "ipsec in reqid 7",
        "ipsec in spi 0x2001",
        "ipsec in ip saddr 198.19.0.2",
        "iifname wan",
        "iifname lan",
    ];
    const OUTWARD: [&str; 6] = [
        "rt ipsec exists",
        "rt ipsec missing",
        "ipsec out reqid 7",
        "ipsec out spi 0x1001",
        "oifname wan",
        "oifname lan",
    ];
    let known = if rng.bool() { ANYWHERE.len() } else { ANYWHERE.len() - 2 };
    let mut out = String::from("table inet t {\n");
    for hook in ["prerouting", "input", "forward", "output", "postrouting"] {
        out += &format!("\tchain {hook} {{\n\t\ttype filter hook {hook} priority 0;\n");
        for _ in 0..rng.usize(1..7) {
            let inward = rng.bool();
            let tests = match hook {
                "prerouting" | "input" if inward => rng.pick(&INWARD),
                "forward" if inward => rng.pick(&INWARD),
                "forward" | "output" | "postrouting" if !rng.one_in(3) => rng.pick(&OUTWARD),
                _ => ANYWHERE[rng.usize(..known)],
            };
            out += &format!("\t\t{tests} counter\n");
        }
        out += "\t}\n";
    }
    if rng.one_in(6) {
        out += "\tchain nat {\n\t\ttype nat hook postrouting priority 100;\n\t\toifname wan udp \
                dport 54 masquerade\n\t}\n";
    }
    out + "}\n"
}

/// Some frames, with where they come from.
fn frames(rng: &mut Rng, agreed: &Agreement, peer: &mut Peer) -> Vec<(&'static str, Frame)> {
    let own = ENDS[usize::from(agreed.six)][0];
    match rng.u8(..10) {
        0..=3 if agreed.tunnel => vec![("lan", from_client(rng))],
        0..=3 => vec![("host", from_host(rng, agreed))],
        4 => vec![("wan", in_the_clear(rng, agreed))],
        5 if !peer.sent.is_empty() => {
            let which = rng.usize(..peer.sent.len());
            on_wan(rng, peer.sent[which].clone())
        }
        6 => {
            // Out of order.
            let packets: Vec<_> = (0..rng.usize(2..5))
                .filter_map(|_| peer.seal(own, agreed.udp, &inside(rng, agreed)))
                .collect();
            packets.into_iter().rev().flat_map(|packet| on_wan(rng, packet)).collect()
        }
        _ => match peer.seal(own, agreed.udp, &inside(rng, agreed)) {
            Some(mut packet) => {
                if rng.one_in(6) {
                    spoil(rng, &mut packet);
                }
                on_wan(rng, packet)
            }
            None => vec![],
        },
    }
}

/// Changes a packet on its way.
fn spoil(rng: &mut Rng, packet: &mut Vec<u8>) {
    let head = if packet[0] >> 4 == 6 { 40 } else { 20 };
    match rng.u8(..3) {
        0 => {
            let at = rng.usize(head..packet.len());
            packet[at] ^= 1 << rng.u8(..8);
        }
        1 => {
            packet.truncate(rng.usize(head + 8..packet.len()));
            let len = packet.len() as u16;
            match head {
                40 => packet[4..6].copy_from_slice(&(len - 40).to_be_bytes()),
                _ => packet[2..4].copy_from_slice(&len.to_be_bytes()),
            }
        }
        _ if head == 20 => packet[1] = rng.u8(..),
        _ => packet[1] |= rng.u8(..) & 0x30,
    }
    if head == 20 {
        sum(packet);
    }
}

/// Sets the checksum of an IPv4 header.
fn sum(packet: &mut [u8]) {
    packet[10..12].fill(0);
    let sum = checksum(0, &packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The frames of a packet at `wan`, now and then in two fragments.
pub(super) fn on_wan(rng: &mut Rng, packet: Vec<u8>) -> Vec<(&'static str, Frame)> {
    let six = packet[0] >> 4 == 6;
    let framed = |packet: &[u8]| {
        ("wan", ethernet(WAN, GATEWAY).ethertype(if six { 0x86dd } else { 0x0800 }).data(packet))
    };
    if packet.len() <= 1500 && (six || packet.len() < 100 || !rng.one_in(8)) {
        return vec![framed(&packet)];
    }
    if six {
        return vec![];
    }
    let cut = 20 + (packet.len() - 20) / 16 * 8;
    let mut first = packet[..cut].to_vec();
    let mut second = [&packet[..20], &packet[cut..]].concat();
    let place = ((cut - 20) / 8) as u16;
    for (part, field) in [(&mut first, 0x2000), (&mut second, place)] {
        let len = part.len() as u16;
        part[2..4].copy_from_slice(&len.to_be_bytes());
        part[6..8].copy_from_slice(&field.to_be_bytes());
        sum(part);
    }
    vec![framed(&first), framed(&second)]
}

const LENGTHS: [usize; 12] = [0, 1, 10, 15, 16, 17, 100, 1300, 1380, 1400, 1420, 1460];

fn from_client(rng: &mut Rng) -> Frame {
    let six = rng.bool();
    let [.., client, station] = ENDS[usize::from(six)];
    let head = ethernet(LAN, CLIENT);
    let head =
        if six { head.ip6(client, station) } else { head.ip4(client, station).id(rng.u16(..)) };
    let length = rng.pick(&LENGTHS).min(if six { 1440 } else { 1460 });
    let head = dressed(rng, head, six);
    spoken(rng, head, length)
}

fn from_host(rng: &mut Rng, agreed: &Agreement) -> Frame {
    let [near, far, ..] = ENDS[usize::from(agreed.six)];
    let head =
        if agreed.six { bare().ip6(near, far) } else { bare().ip4(near, far).id(rng.u16(..)) };
    let length = rng.pick(&LENGTHS).min(1300);
    spoken(rng, head, length)
}

/// A packet that the other end puts into ESP.
fn inside(rng: &mut Rng, agreed: &Agreement) -> Vec<u8> {
    let length = rng.pick(&LENGTHS).min(1300);
    if !agreed.tunnel {
        let [near, far, ..] = ENDS[usize::from(agreed.six)];
        let head = if agreed.six { bare().ip6(far, near) } else { bare().ip4(far, near) };
        // The kernel drops less than 48 bytes of UDP over IPv6 (docs/differences.md).
        let length = if agreed.six && agreed.udp { length.max(40) } else { length };
        return spoken(rng, head, length).bytes();
    }
    let six = rng.bool();
    let [.., client, station] = ENDS[usize::from(six)];
    // Now and then one that no policy lets through ESP.
    let station = match rng.u8(..10) {
        0 if six => "2001:db8:99::7",
        0 => "198.18.99.7",
        _ => station,
    };
    let head = if six { bare().ip6(station, client) } else { bare().ip4(station, client) };
    let head = dressed(rng, head, six);
    spoken(rng, head, length).bytes()
}

/// What should have come through ESP, and what need not.
fn in_the_clear(rng: &mut Rng, agreed: &Agreement) -> Frame {
    let six = if agreed.tunnel { rng.bool() } else { agreed.six };
    let [near, far, client, station] = ENDS[usize::from(six)];
    // Those for the host are logged before policy is asked.
    let (from, to) = match rng.u8(..3) {
        0 if agreed.tunnel => (far, near),
        1 => (far, client),
        _ => (station, client),
    };
    let head = ethernet(WAN, GATEWAY);
    let head = if six { head.ip6(from, to) } else { head.ip4(from, to) };
    if rng.one_in(5) {
        // ESP of a state that is not there.
        return head.transport(50, &[0, 0, 0x30, 1, 0, 0, 0, 1]).zeros(40);
    }
    spoken(rng, head, 20)
}

/// With a TTL, a class or a bit that is not the usual one.
fn dressed(rng: &mut Rng, frame: Frame, six: bool) -> Frame {
    let byte = rng.u8(..);
    match rng.u8(..8) {
        0 => frame.ttl(byte % 3 + 1),
        1 | 2 if !six => frame.tos(byte),
        1 | 2 => frame.set(0, &[0x60 | byte >> 4, byte << 4]),
        3 | 4 if !six => frame.df(),
        _ => frame,
    }
}

fn spoken(rng: &mut Rng, head: Frame, length: usize) -> Frame {
    let ports = (rng.u16(1000..1004), rng.pick(&[53, 54, 1003]));
    match rng.u8(..6) {
        0 => head.tcp(ports.0, ports.1).zeros(length.min(1400)),
        _ => head.udp(ports.0, ports.1).zeros(length),
    }
}
