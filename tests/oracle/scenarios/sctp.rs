// SPDX-License-Identifier: Apache-2.0

//! SCTP: associations from their first chunk to their last, with wrong tags and chunks in between,
//! translated and not.

use std::time::Duration;

use super::sent;
use crate::frame::Frame;
use crate::net::{NET, out4, out6, wan};
use crate::scenario::Scenario;

pub const INIT: u8 = 1;
pub const INIT_ACK: u8 = 2;
pub const DATA: u8 = 0;
pub const SACK: u8 = 3;
pub const HEARTBEAT: u8 = 4;
pub const HEARTBEAT_ACK: u8 = 5;
pub const ABORT: u8 = 6;
pub const SHUTDOWN: u8 = 7;
pub const SHUTDOWN_ACK: u8 = 8;
pub const ERROR: u8 = 9;
pub const COOKIE_ECHO: u8 = 10;
pub const COOKIE_ACK: u8 = 11;
pub const SHUTDOWN_COMPLETE: u8 = 14;

/// Tags of the client and of the server: what the other side puts into its packets.
pub const TAGS: [u32; 2] = [0x1111_1111, 0x2222_2222];

/// All of them.
pub fn all() -> Vec<Scenario> {
    let opening = [(0, INIT), (1, INIT_ACK), (0, COOKIE_ECHO), (1, COOKIE_ACK)];
    let speech = [(0, DATA), (1, SACK), (1, DATA), (0, SACK)];
    let closing = [(0, SHUTDOWN), (1, SHUTDOWN_ACK), (0, SHUTDOWN_COMPLETE)];
    let whole = [&opening[..], &speech, &closing].concat();
    let beats = [&opening[..], &[(0, HEARTBEAT), (1, HEARTBEAT_ACK), (1, HEARTBEAT)]].concat();
    let mut all = vec![
        talk("whole", "", &whole),
        talk(
            "closed_by_server",
            "",
            &[&opening[..], &speech, &[(1, SHUTDOWN), (0, SHUTDOWN_ACK), (1, SHUTDOWN_COMPLETE)]]
                .concat(),
        ),
        talk("heartbeats", "", &beats),
        talk("heartbeats_alone", "", &[(0, HEARTBEAT), (1, HEARTBEAT_ACK), (0, DATA), (1, DATA)]),
        talk("aborted", "", &[&opening[..], &[(1, ABORT), (0, DATA)]].concat()),
        talk("aborted_early", "", &[(0, INIT), (1, ABORT), (0, INIT), (1, INIT_ACK)]),
        talk("begun_again", "", &[&whole[..], &whole].concat()),
        talk("restarted", "", &[&opening[..], &opening, &speech].concat()),
        talk("init_twice", "", &[&[(0, INIT), (0, INIT), (1, INIT_ACK)], &opening[2..]].concat()),
        talk("init_from_both", "", &[&[(0, INIT), (1, INIT)], &opening[1..]].concat()),
        talk("out_of_nothing", "", &[(0, DATA), (1, SACK), (0, SHUTDOWN), (0, COOKIE_ECHO)]),
        talk(
            "out_of_nothing_closing",
            "",
            &[(0, SHUTDOWN_ACK), (0, ABORT), (0, SHUTDOWN_COMPLETE)],
        ),
        talk("errors", "", &[&opening[..], &[(0, ERROR), (1, ERROR), (0, DATA)]].concat()),
        talk("masqueraded", "oifname wan masquerade", &whole).events(),
        talk(
            "masqueraded_ports",
            "meta l4proto sctp oifname wan snat ip to 198.19.0.1:7000",
            &whole,
        ),
        sent(
            talk("wrong_tag", "", &opening),
            &[
                ("lan", out4().data(&[]).transport(132, &packet(0, 7, &chunk(DATA, 0)))),
                ("lan", association(0, DATA, false)),
            ],
        ),
        sent(talk("several_chunks", "", &[]), &several()),
        sent(talk("malformed", "", &opening), &malformed()),
    ];
    let both = whole.iter().map(|&(from, kind)| (SOURCES[from], association(from, kind, true)));
    all.push(sent(scenario("whole6", ""), &both.collect::<Vec<_>>()));
    for (name, chunks) in
        [("unanswered", &opening[..1]), ("shut_down", &whole), ("cookie", &opening[..3])]
    {
        // Times of a second each: what is over begins again.
        let mut s = talk(&format!("over_{name}"), "", chunks);
        for state in [
            "closed",
            "cookie_wait",
            "cookie_echoed",
            "established",
            "shutdown_sent",
            "shutdown_recd",
            "shutdown_ack_sent",
            "heartbeat_sent",
        ] {
            s = s.sysctl(&format!("net.netfilter.nf_conntrack_sctp_timeout_{state}"), 1);
        }
        let again = [("wan", association(1, DATA, false)), ("lan", association(0, DATA, false))];
        all.push(sent(s.wait(Duration::from_millis(2200)), &again));
    }
    all
}

/// Where the two ends are.
const SOURCES: [&str; 2] = ["lan", "wan"];

fn scenario(name: &str, nat: &str) -> Scenario {
    let mut rules = String::from(
        "table inet t {
	chain forward {
		type filter hook forward priority 0;
		ct state new counter
		ct state established counter
		ct state invalid counter
		ct direction original counter
		ct status assured counter
		ct status seen-reply counter
		sctp chunk init exists counter
		sctp chunk data exists counter
		sctp chunk sack exists counter
		sctp chunk shutdown exists counter
		sctp vtag 286331153 counter
		sctp vtag 0 counter
		sctp dport 80 counter
	}
",
    );
    if !nat.is_empty() {
        rules += &format!(
            "\tchain nat {{\n\t\ttype nat hook postrouting priority 100;\n\t\t{nat}\n\t}}\n"
        );
    }
    Scenario::new(&format!("sctp_{name}"), NET, &(rules + "}\n")).at_once()
}

/// A scenario in which chunks come, each of the client (0) or the server (1).
fn talk(name: &str, nat: &str, chunks: &[(usize, u8)]) -> Scenario {
    let answers = if nat.is_empty() { "198.18.0.10" } else { "198.19.0.1" };
    let port = if nat.contains(":7000") { 7000 } else { 4000 };
    let frames = chunks.iter().map(|&(from, kind)| {
        let bytes = packet_of(from, kind);
        let frame = match from {
            0 => out4().transport(132, &bytes),
            _ => {
                let bytes = with_crc(
                    [&80u16.to_be_bytes()[..], &u16::to_be_bytes(port), &bytes[4..]].concat(),
                );
                wan().ip4("198.19.0.2", answers).transport(132, &bytes)
            }
        };
        (SOURCES[from], frame)
    });
    sent(scenario(name, nat), &frames.collect::<Vec<_>>())
}

/// A packet of an end with one chunk.
pub fn association(from: usize, kind: u8, six: bool) -> Frame {
    let bytes = packet_of(from, kind);
    match (from, six) {
        (0, false) => out4().transport(132, &bytes),
        (0, true) => out6().transport(132, &bytes),
        (_, false) => wan().ip4("198.19.0.2", "198.18.0.10").transport(132, &bytes),
        (_, true) => wan().ip6("2001:db8:2::2", "2001:db8:1::10").transport(132, &bytes),
    }
}

/// The packet with a chunk of this kind, with the tag that it needs.
pub fn packet_of(from: usize, kind: u8) -> Vec<u8> {
    let tag = if kind == INIT { 0 } else { TAGS[1 - from] };
    packet(from, tag, &chunk(kind, from))
}

/// A packet of an end with this tag and these chunks.
pub fn packet(from: usize, tag: u32, chunks: &[u8]) -> Vec<u8> {
    let ports: [u16; 2] = if from == 0 { [4000, 80] } else { [80, 4000] };
    let ports = ports.map(u16::to_be_bytes).concat();
    with_crc([&ports[..], &tag.to_be_bytes(), &[0; 4], chunks].concat())
}

/// With its checksum.
pub fn with_crc(mut packet: Vec<u8>) -> Vec<u8> {
    packet[8..12].fill(0);
    let sum = crate::chance::crc(&packet);
    packet[8..12].copy_from_slice(&sum);
    packet
}

/// A chunk with what belongs into it.
pub fn chunk(kind: u8, from: usize) -> Vec<u8> {
    let body: Vec<u8> = match kind {
        INIT | INIT_ACK => {
            [&TAGS[from].to_be_bytes()[..], &[0, 1, 0, 0, 0, 5, 0, 5, 0, 0, 0, 9]].concat()
        }
        DATA => vec![0, 0, 0, 9, 0, 1, 0, 1, 0, 0, 0, 0, b't', b'e', b'x', b't'],
        SACK => vec![0, 0, 0, 9, 0, 1, 0, 0, 0, 0, 0, 0],
        HEARTBEAT | HEARTBEAT_ACK => vec![0, 1, 0, 8, 1, 2, 3, 4],
        SHUTDOWN => vec![0, 0, 0, 9],
        COOKIE_ECHO => vec![7; 8],
        ERROR => vec![0, 1, 0, 4],
        _ => vec![],
    };
    [&[kind, if kind == DATA { 3 } else { 0 }][..], &(body.len() as u16 + 4).to_be_bytes(), &body]
        .concat()
}

fn several() -> Vec<(&'static str, Frame)> {
    let many = |from: usize, tag, kinds: &[u8]| {
        let chunks: Vec<u8> = kinds.iter().flat_map(|&k| chunk(k, from)).collect();
        let bytes = packet(from, tag, &chunks);
        match from {
            0 => ("lan", out4().transport(132, &bytes)),
            _ => ("wan", wan().ip4("198.19.0.2", "198.18.0.10").transport(132, &bytes)),
        }
    };
    vec![
        many(0, 0, &[INIT, DATA]),
        many(0, 0, &[INIT]),
        many(1, TAGS[0], &[INIT_ACK]),
        many(0, TAGS[1], &[COOKIE_ECHO, DATA]),
        many(1, TAGS[0], &[COOKIE_ACK, SACK, DATA]),
        many(0, TAGS[1], &[SACK, SHUTDOWN]),
        many(1, TAGS[0], &[SHUTDOWN_ACK, DATA]),
        many(0, TAGS[1], &[SHUTDOWN_COMPLETE]),
    ]
}

fn malformed() -> Vec<(&'static str, Frame)> {
    let raw = |bytes: Vec<u8>| ("lan", out4().transport(132, &bytes));
    let mut wrong_sum = packet_of(0, DATA);
    wrong_sum[8] ^= 1;
    vec![
        raw(wrong_sum),
        raw(packet(0, TAGS[1], &[])),
        raw(packet(0, TAGS[1], &[DATA, 0, 0, 0])),
        raw(packet(0, TAGS[1], &[DATA, 0, 0, 3])),
        raw(packet(0, TAGS[1], &[DATA, 0, 0, 99, 1, 2, 3, 4])),
        raw(packet(0, TAGS[1], &[DATA, 0])),
        raw(packet(0, TAGS[1], &[77, 0, 0, 4])),
        raw(packet_of(0, DATA)[..11].to_vec()),
        raw(packet(0, TAGS[1], &chunk(INIT, 0))),
        raw(packet(0, 0, &chunk(INIT, 0)[..10])),
    ]
}
