// SPDX-License-Identifier: Apache-2.0

//! Rules of ebtables and arptables.

use fastrand::Rng;

use super::program_is_there;
use crate::frame::{Frame, Mac, ethernet};
use crate::hand_made::bridge::{BRIDGE, NET};
use crate::scenario::Scenario;

/// Stations at the ports.
const A: Mac = [2, 0, 0, 0, 0x0c, 1];
const B: Mac = [2, 0, 0, 0, 0x0c, 2];
const STP_GROUP: Mac = [1, 0x80, 0xc2, 0, 0, 0];

/// Matches of packets that are forwarded. A rule counts.
const MATCHES: &str = "\
-p IPv4 --ip-src 198.18.0.10
-p IPv4 ! --ip-dst 198.18.0.0/24
-p IPv4 --ip-tos 0xb8
-p IPv4 --ip-proto tcp --ip-dport 80
-p IPv4 --ip-proto udp ! --ip-sport 50:60
-p IPv4 --ip-proto ! udp
-p IPv4 --ip-proto icmp --ip-icmp-type echo-request
-p IPv4 --ip-proto icmp ! --ip-icmp-type 3/1
-p IPv6 --ip6-src 2001:db8:1::10
-p IPv6 --ip6-dst ! 2001:db8:1::/64
-p IPv6 --ip6-proto udp --ip6-dport 53
-p IPv6 --ip6-proto ipv6-icmp --ip6-icmp-type 128
-p IPv6 --ip6-tclass 0xb8
-p ARP --arp-opcode Request
-p ARP --arp-opcode ! 2 --arp-htype 1 --arp-ptype 0x0800
-p ARP --arp-ip-src 198.18.0.10
-p ARP --arp-ip-dst ! 198.18.0.0/28
-p ARP --arp-mac-src 02:00:00:00:0c:01
-p ARP --arp-gratuitous
-p 802_1Q --vlan-id 7
-p 802_1Q --vlan-id ! 7 --vlan-encap 0x0800
-p 802_1Q --vlan-prio 3
-p LENGTH --802_3-sap 0x42
-p LENGTH --802_3-type 0x0800
-d BGA --stp-type config
-d BGA --stp-root-prio 100:40000 --stp-port ! 5
-d BGA --stp-hello-time 1:600 --stp-root-addr 02:00:00:00:0c:01
--pkttype-type broadcast
--pkttype-type ! otherhost
--mark ! 1
--among-src 02:00:00:00:0c:01
--among-dst 02:00:00:00:0c:02=198.18.0.20
--log --log-prefix seen --log-level info --log-ip
--nflog-group 3
--limit 1/hour --limit-burst 4";

/// Targets: table, chain and rule.
const TARGETS: &[(&str, &str, &str)] = &[
    ("filter", "FORWARD", "-p IPv4 -j mark --mark-set 5 --mark-target ACCEPT"),
    ("filter", "FORWARD", "-j mark --mark-or 0x100 --mark-target CONTINUE"),
    ("nat", "PREROUTING", "-j dnat --to-destination 02:00:00:00:0c:02"),
    ("nat", "PREROUTING", "-p ARP -j dnat --to-destination 02:00:00:00:0a:00"),
    ("nat", "PREROUTING", "-p IPv4 -j dnat --to-dst ff:ff:ff:ff:ff:ff --dnat-target CONTINUE"),
    ("nat", "POSTROUTING", "-j snat --to-source 02:00:00:00:0c:07"),
    ("nat", "POSTROUTING", "-p ARP -j snat --to-source 02:00:00:00:0c:07 --snat-arp"),
    ("nat", "PREROUTING", "-p IPv4 -j redirect"),
    (
        "nat",
        "PREROUTING",
        "-p ARP --arp-opcode Request -j arpreply --arpreply-mac 02:00:00:00:0c:09",
    ),
    (
        "nat",
        "PREROUTING",
        "-p ARP -j arpreply --arpreply-mac 02:00:00:00:0c:09 --arpreply-target ACCEPT",
    ),
];

/// Rules of ARP for the host.
const ARP: &[&str] = &[
    "-A INPUT --opcode 1 -s 198.18.0.10 -j DROP",
    "-A INPUT --source-mac 02:00:00:00:0c:01 -j DROP",
    "-A INPUT -i br0 ! -d 198.18.0.1",
    "-A OUTPUT -j mangle --mangle-ip-s 198.18.0.77",
    "-A OUTPUT -j mangle --mangle-mac-s 02:00:00:00:0c:08 --mangle-target CONTINUE",
    "-A OUTPUT -d 198.18.0.10 -j mangle --mangle-mac-d 02:00:00:00:0c:06 --mangle-ip-d 198.18.0.6",
    "-A OUTPUT -o br0 -j CLASSIFY --set-class 1:2",
    "-A OUTPUT -j MARK --set-mark 3",
];

fn pick<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}

/// A frame by chance, from a station at the first port.
fn frame(rng: &mut Rng) -> Frame {
    let to = pick(rng, &[B, B, B, BRIDGE, [0xff; 6], [1, 0, 0x5e, 1, 2, 3]]);
    let link = ethernet(to, A);
    let link = match rng.u8(..6) {
        0 => link.vlan(pick(rng, &[7, 8, 0x6007])),
        _ => link,
    };
    let ports = [53, 80, 55, 60, 4000];
    let (from, at) = (pick(rng, &ports), pick(rng, &ports));
    match rng.u8(..10) {
        0..=3 => {
            let to = pick(rng, &["198.18.0.20", "198.18.0.1", "198.19.0.2"]);
            let ip = link.ip4("198.18.0.10", to);
            let ip = ip.tos(pick(rng, &[0, 0xb8]));
            match rng.u8(..4) {
                0 => ip.tcp(from, at),
                1 => ip.icmp(pick(rng, &[8, 3, 0]), pick(rng, &[0, 1]), 7),
                2 => ip.fragment(2, false).protocol(17).zeros(8),
                _ => ip.udp(from, at),
            }
        }
        4 | 5 => {
            let to = pick(rng, &["2001:db8:1::20", "2001:db8:9::1"]);
            let ip = link.ip6("2001:db8:1::10", to);
            let ip = if rng.bool() { ip.set(0, &[0x6b, 0x80]) } else { ip };
            if rng.bool() { ip.udp(from, at) } else { ip.icmp6(128, 0, 7) }
        }
        6..=8 => {
            let from = pick(rng, &["198.18.0.10", "198.18.0.30"]);
            let to = pick(rng, &["198.18.0.20", "198.18.0.1", "198.18.0.10"]);
            link.arp(pick(rng, &[1, 1, 2]), A, from, [0; 6], to)
        }
        _ => llc(rng),
    }
}

/// A frame with a length: of the spanning tree, or of SNAP.
fn llc(rng: &mut Rng) -> Frame {
    if rng.bool() {
        let snap = [0xaa, 0xaa, pick(rng, &[3, 3, 0]), 0, 0, 0, 8, 0, 0x45, 0];
        return ethernet(B, A).ethertype(snap.len() as u16).data(&snap);
    }
    let mut unit = vec![0x42, 0x42, 3, 0, 0, 0, pick(rng, &[0, 0, 0x80]), 1];
    unit.extend([0x80, 0, 2, 0, 0, 0, 0x0c, 1, 0, 0, 0, 4, 0x80, 0, 2, 0, 0, 0, 0x0c, 1]);
    unit.extend([0x80, pick(rng, &[1, 5]), 0, 0, 20, 0, 2, 0, 15, 0]);
    ethernet(STP_GROUP, A).ethertype(unit.len() as u16).data(&unit)
}

fn scenario(name: &str, commands: &str, seed: u64) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    let commands = format!("{commands}\n");
    let mut scenario = Scenario::new(name, NET, "").commands(&commands).at_once();
    for _ in 0..40 {
        scenario = scenario.frame("one", &frame(&mut rng));
    }
    scenario
}

/// Each rule by itself.
pub fn all() -> Vec<Scenario> {
    if !program_is_there("ebtables-nft") || !program_is_there("arptables-nft") {
        return vec![];
    }
    let matches = MATCHES.lines().map(|line| format!("ebtables-nft -A FORWARD {line}"));
    let targets = TARGETS
        .iter()
        .map(|(table, chain, rule)| format!("ebtables-nft -t {table} -A {chain} {rule}"));
    let arp = ARP.iter().map(|rule| format!("arptables-nft {rule}"));
    let one = |(seed, command): (usize, String)| {
        let words = command.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        scenario(&format!("extension_{words}"), &command, seed as u64)
    };
    matches.chain(targets).chain(arp).enumerate().map(one).collect()
}
