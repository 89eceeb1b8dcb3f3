// SPDX-License-Identifier: Apache-2.0

//! Flowtables in software: which packets bypass the rules, and their fate.

use std::time::Duration;

use super::sent;
use crate::frame::Frame;
use crate::net::{NET, dmz, lan, wan};
use crate::scenario::Scenario;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Counts the packets that the rules meet, by what tells one kind from another.
const COUNTERS: &str = "
		meta l4proto udp counter
		meta l4proto tcp counter
		meta l4proto icmp counter
		meta l4proto ipv6-icmp counter
		ip frag-off & 0x3fff != 0 counter
		ct state new counter
		ct state established counter
		ct state related counter
		ct state invalid counter
		iifname lan counter
		iifname wan counter
		iifname dmz counter
";

/// All of them.
pub fn all() -> Vec<Scenario> {
    let plain = || rules("flow add @f", "", "");
    let both = "\t\toifname wan masquerade\n";
    let port = "\t\tiifname wan udp dport 8080 dnat ip to 198.18.0.10:80\n";
    let mut all = vec![
        talk("udp4", &plain(), udp4),
        talk("udp6", &plain(), udp6),
        talk("udp4_masqueraded", &rules("flow add @f", "", both), udp4_masqueraded),
        talk("udp4_forwarded", &rules("flow add @f", port, ""), udp4_forwarded),
        talk("added_when_established", &rules("ct state established flow add @f", "", ""), udp4),
        talk("added_for_one_device", &rules("iifname lan flow add @f", "", ""), udp4),
        talk("added_for_tcp_alone", &rules("meta l4proto tcp flow add @f", "", ""), udp4),
        talk("of_two_devices", &plain().replace("lan, wan, dmz", "lan, wan"), udp4),
        talk("of_one_device", &plain().replace("lan, wan, dmz", "lan"), udp4),
        talk("without_counter", &plain().replace(" counter;", ""), udp4),
        tcp("tcp_finished", &plain(), &[(FIN | ACK, 0), (FIN | ACK, 1), (ACK, 0), (ACK, 1)]),
        tcp("tcp_reset", &plain(), &[(RST, 1), (ACK, 0), (ACK, 1)]),
        tcp("tcp_half_closed", &plain(), &[(FIN | ACK, 0), (ACK, 1), (ACK, 1), (ACK, 0)]),
        tcp(
            "tcp_opened_again",
            &plain(),
            &[(RST, 0), (SYN, 0), (SYN | ACK, 1), (ACK, 0), (ACK, 1)],
        ),
    ];
    for (name, odd) in odd_frames() {
        all.push(sent(talk(name, &plain(), udp4), &[("lan", odd.clone()), ("lan", odd)]));
    }
    all.push(talk("accounted", &plain(), udp4).sysctl("net.netfilter.nf_conntrack_acct", 1));
    // The kernel looks for flows that are over once a second.
    all.push(sent(
        talk("over_after_its_time", &plain(), udp4)
            .sysctl("net.netfilter.nf_flowtable_udp_timeout", 1)
            .wait(Duration::from_millis(3500)),
        &udp4(),
    ));
    all
}

/// A ruleset with a flowtable, this way of adding to it, and lines of chains for NAT.
fn rules(add: &str, prerouting: &str, postrouting: &str) -> String {
    let nat = |name, hook, priority, lines: &str| match lines {
        "" => String::new(),
        _ => format!(
            "\tchain {name} {{\n\t\ttype nat hook {hook} priority {priority};\n{lines}\t}}\n"
        ),
    };
    format!(
        "table inet t {{
	flowtable f {{ hook ingress priority 0; devices = {{ lan, wan, dmz }}; counter; }}
	chain early {{
		type filter hook prerouting priority -450;{COUNTERS}\t}}
	chain forward {{
		type filter hook forward priority 0;{COUNTERS}		{add}
	}}
{}{}}}
",
        nat("pre", "prerouting", "-100", prerouting),
        nat("post", "postrouting", "100", postrouting)
    )
}

/// A scenario in which packets of a flow come four times.
fn talk(name: &str, rules: &str, flow: fn() -> Vec<(&'static str, Frame)>) -> Scenario {
    let mut scenario = Scenario::new(&format!("flowtable_{name}"), NET, rules).at_once();
    for _ in 0..4 {
        // Packets of later bursts find the flows.
        scenario = sent(scenario, &flow()).wait(Duration::from_millis(1));
    }
    scenario
}

fn udp4() -> Vec<(&'static str, Frame)> {
    vec![
        ("lan", lan().ip4("198.18.0.10", "198.19.0.2").udp(4000, 53).data(b"question")),
        ("wan", wan().ip4("198.19.0.2", "198.18.0.10").udp(53, 4000).data(b"an answer")),
        ("lan", lan().ip4("198.18.0.11", "198.18.5.20").tos(0xb8).udp(4001, 53).data(b"q")),
        ("dmz", dmz().ip4("198.18.5.20", "198.18.0.11").ttl(3).udp(53, 4001).data(b"a")),
    ]
}

fn udp6() -> Vec<(&'static str, Frame)> {
    vec![
        ("lan", lan().ip6("2001:db8:1::10", "2001:db8:2::2").udp(4000, 53).data(b"question")),
        ("wan", wan().ip6("2001:db8:2::2", "2001:db8:1::10").udp(53, 4000).data(b"an answer")),
    ]
}

fn udp4_masqueraded() -> Vec<(&'static str, Frame)> {
    vec![
        ("lan", lan().ip4("198.18.0.10", "198.19.0.2").udp(4000, 53).data(b"question")),
        ("wan", wan().ip4("198.19.0.2", "198.19.0.1").udp(53, 4000).data(b"an answer")),
    ]
}

fn udp4_forwarded() -> Vec<(&'static str, Frame)> {
    vec![
        ("wan", wan().ip4("198.19.0.2", "198.19.0.1").udp(5000, 8080).data(b"question")),
        ("lan", lan().ip4("198.18.0.10", "198.19.0.2").udp(80, 5000).data(b"an answer")),
    ]
}

/// Packets of the flow that its flowtable does not forward, or changes.
fn odd_frames() -> Vec<(&'static str, Frame)> {
    let out = || lan().ip4("198.18.0.10", "198.19.0.2");
    vec![
        ("last_hop", out().ttl(1).udp(4000, 53).data(b"question")),
        ("before_the_last_hop", out().ttl(2).udp(4000, 53).data(b"question")),
        ("fragment", out().fragment(0, true).id(9).udp(4000, 53).length(24).zeros(8)),
        ("options", out().ip_options(&[7, 7, 4, 0, 0, 0, 0, 0]).udp(4000, 53).data(b"x")),
        ("without_checksum", out().udp(4000, 53).patch(6, &[0, 0]).data(b"x")),
        ("too_short", out().udp(4000, 53).cut(24)),
        ("bad_header_checksum", out().set(10, &[1, 2]).udp(4000, 53).data(b"x")),
        (
            "icmp_error",
            lan()
                .ip4("198.18.0.10", "198.19.0.2")
                .icmp(3, 3, 0)
                .data(&wan().ip4("198.19.0.2", "198.18.0.10").udp(53, 4000).bytes()[14..]),
        ),
        ("too_large", lan().ip4("198.18.0.11", "198.18.5.20").df().udp(4001, 53).zeros(1400)),
        ("to_be_fragmented", lan().ip4("198.18.0.11", "198.18.5.20").udp(4001, 53).zeros(1400)),
        (
            "tag_of_priority",
            lan().tag(0x8100, 0x6000).ip4("198.18.0.10", "198.19.0.2").udp(4000, 53),
        ),
    ]
}

/// A TCP connection that is opened, speaks, and ends with segments of these flags, each of the
/// client (0) or the server (1).
fn tcp(name: &str, rules: &str, end: &[(u8, usize)]) -> Scenario {
    let mut scenario = Scenario::new(&format!("flowtable_{name}"), NET, rules).at_once();
    let mut next = [1000u32, 5000];
    let opening = [(SYN, 0), (SYN | ACK, 1), (ACK, 0)];
    let speech = [(ACK, 0), (ACK, 1)].repeat(3);
    for (n, &(flags, from)) in opening.iter().chain(&speech).chain(end).enumerate() {
        let data: &[u8] = if (3..9).contains(&n) { b"some words" } else { b"" };
        let (frame, source, ports) = match from {
            0 => (lan().ip4("198.18.0.10", "198.19.0.2"), "lan", (40000, 80)),
            _ => (wan().ip4("198.19.0.2", "198.18.0.10"), "wan", (80, 40000)),
        };
        let acknowledged = if flags & ACK != 0 { next[1 - from] } else { 0 };
        let segment = frame
            .tcp(ports.0, ports.1)
            .flags(flags)
            .set(4, &next[from].to_be_bytes())
            .set(8, &acknowledged.to_be_bytes())
            .set(14, &[0x20, 0])
            .data(data);
        next[from] += data.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        scenario = scenario.frame(source, &segment).wait(Duration::from_millis(1));
    }
    scenario
}
