// SPDX-License-Identifier: Apache-2.0

//! PPTP through NAT: call ids in the control connection, and the data of calls in GRE.

use penstock_testkit::pptp;

use crate::frame::Frame;
use crate::net::{NET, dmz, out4, wan};
use crate::scenario::Scenario;

/// One step of a call.
#[derive(Clone, Copy)]
enum Step {
    /// A control message of the client (0) or the server (1): its kind, how its own part begins,
    /// and how long that is.
    Message(usize, u16, &'static [u8], usize),
    /// Data of the client or the server for a call id.
    Data(usize, u16),
    /// A segment with flags only.
    Segment(usize, u8),
}

use Step::{Data, Message, Segment};

/// Begins the session.
const START: [Step; 2] = [Message(0, 1, &[], 144), Message(1, 2, &[1, 0, 1], 144)];
/// The client calls: its id is 11, that of the server 22.
const CALL: [Step; 2] = [Message(0, 7, &[0, 11], 156), Message(1, 8, &[0, 22, OWN, OWN, 1], 20)];
/// The server calls.
const CALLED: [Step; 3] = [
    Message(1, 9, &[0, 22], 208),
    Message(0, 10, &[0, 11, 0, 22, 1], 12),
    Message(1, 11, &[0, 11], 16),
];
/// Data in both directions.
const TALK: [Step; 3] = [Data(0, 22), Data(1, 40000), Data(0, 22)];
/// The server says that the call is over.
const OVER: [Step; 1] = [Message(1, 13, &[OWN, OWN], 136)];
/// Stands for the bytes of the client's call id as the server knows it: NAT takes the port.
const OWN: u8 = 0xff;

/// All of them.
pub fn all() -> Vec<Scenario> {
    let stories: Vec<(&str, Vec<Step>)> = vec![
        ("call", [&START[..], &CALL, &TALK].concat()),
        ("server_first", [&START[..], &CALL, &[Data(1, 40000), Data(0, 22)]].concat()),
        ("over", [&START[..], &CALL, &TALK, &OVER, &TALK].concat()),
        ("over_unused", [&START[..], &CALL, &OVER, &TALK].concat()),
        ("cleared", [&START[..], &CALL, &TALK, &[Message(0, 12, &[0, 11], 4)], &TALK].concat()),
        ("answered_twice", [&START[..], &CALL, &CALL[1..], &TALK].concat()),
        (
            "two_calls",
            [
                &START[..],
                &CALL,
                &TALK,
                &[Message(0, 7, &[0, 12], 156), Message(1, 8, &[0, 23, OWN, OWN, 1], 20)],
                &[Data(0, 23), Data(1, 40000), Data(0, 22)],
            ]
            .concat(),
        ),
        (
            "refused",
            [&START[..], &CALL[..1], &[Message(1, 8, &[0, 22, OWN, OWN, 4], 20)], &TALK].concat(),
        ),
        ("called", [&START[..], &CALLED, &[Data(0, 22), Data(1, 11), Data(1, 40000)]].concat()),
        (
            "called_and_refused",
            [&START[..], &CALLED[..1], &[Message(0, 10, &[0, 11, 0, 22, 2], 12)], &TALK].concat(),
        ),
        (
            "called_after_call",
            [&START[..], &CALL, &OVER, &CALLED, &[Data(0, 22), Data(1, 11)]].concat(),
        ),
        ("errors", [&START[..], &CALL, &[Message(1, 14, &[0, 11], 28)], &TALK].concat()),
        (
            "link_info",
            [
                &START[..],
                &CALL,
                &[Message(0, 15, &[0, 22], 12), Message(1, 15, &[OWN, OWN], 12)],
                &TALK,
            ]
            .concat(),
        ),
        (
            "session_ends",
            [&START[..], &CALL, &TALK, &[Message(0, 3, &[1], 4), Message(1, 4, &[1], 4)], &TALK]
                .concat(),
        ),
        (
            "begun_again",
            [&START[..], &CALL, &TALK, &[Segment(1, 0x14), Segment(0, 2)], &TALK].concat(),
        ),
        ("short", [&START[..], &[Message(0, 7, &[0, 11], 100)], &CALL[1..], &TALK].concat()),
    ];
    let masquerade = "type nat hook postrouting priority 100;\n\t\toifname wan masquerade";
    let to = "type nat hook prerouting priority -100;\n\t\tiifname lan ip daddr 198.19.0.9 dnat to 198.18.5.20";
    let mut all = vec![];
    for (name, steps) in &stories {
        all.push(scenario(&format!("pptp_masquerade_{name}"), masquerade, steps, false));
        all.push(scenario(&format!("pptp_dnat_{name}"), to, steps, true));
    }
    all
}

fn scenario(name: &str, nat: &str, steps: &[Step], inward: bool) -> Scenario {
    let rules = format!(
        "table ip t {{
	ct helper h {{
		type \"pptp\" protocol tcp
	}}
	chain pre {{
		type filter hook prerouting priority -150;
		tcp dport 1723 ct helper set \"h\" counter
	}}
	chain f {{
		type filter hook forward priority 0;
		ct state new counter
		ct state related counter
		ct state established counter
		ct state invalid counter
		meta l4proto gre counter
	}}
	chain n {{
		{nat}
	}}
}}
"
    );
    let there = || match inward {
        true => crate::net::lan().ip4("198.18.0.10", "198.19.0.9"),
        false => out4(),
    };
    let back = || match inward {
        true => ("dmz", dmz().ip4("198.18.5.20", "198.18.0.10")),
        false => ("wan", wan().ip4("198.19.0.2", "198.19.0.1")),
    };
    let from = |end: usize| if end == 0 { ("lan", there()) } else { back() };
    let mut scenario = Scenario::new(name, NET, &rules).at_once();
    let mut next = [1001u32, 5001];
    for (end, flags, seq, ack) in [(0, 2, 1000, 0), (1, 0x12, 5000, 1001), (0, 0x10, 1001, 5001)] {
        let (source, frame) = from(end);
        scenario = scenario.frame(source, &segment(frame, end, flags, seq, ack));
    }
    for step in steps {
        match *step {
            Message(end, kind, begins, length) => {
                let text = message(kind, begins, length);
                let (source, frame) = from(end);
                let frame = segment(frame, end, 0x18, next[end], next[1 - end]).data(&text);
                scenario = scenario.frame(source, &frame);
                next[end] += text.len() as u32;
            }
            Segment(end, flags) => {
                let (source, frame) = from(end);
                let ack = if flags & 0x10 == 0 { 0 } else { next[1 - end] };
                scenario = scenario.frame(source, &segment(frame, end, flags, next[end], ack));
            }
            Data(end, id) => {
                let (source, frame) = from(end);
                let frame = frame.transport(47, &pptp::data(id)).zeros(4);
                scenario = scenario.frame(source, &frame);
            }
        }
    }
    scenario
}

fn segment(frame: Frame, end: usize, flags: u8, seq: u32, ack: u32) -> Frame {
    let (source, destination) = if end == 0 { (40000, 1723) } else { (1723, 40000) };
    let frame = frame.tcp(source, destination).flags(flags);
    frame.set(4, &seq.to_be_bytes()).set(8, &ack.to_be_bytes()).set(14, &[0xff, 0xff])
}

/// A control message.
fn message(kind: u16, begins: &[u8], length: usize) -> Vec<u8> {
    let mut text = pptp::message(kind, begins, length);
    // The client's port.
    if let Some(at) = text.windows(2).skip(12).position(|w| w == [OWN, OWN]) {
        text[12 + at..14 + at].copy_from_slice(&40000u16.to_be_bytes());
    }
    text
}
