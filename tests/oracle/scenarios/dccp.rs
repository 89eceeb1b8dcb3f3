// SPDX-License-Identifier: Apache-2.0

//! DCCP: connections from their first packet to their last, translated and not. Linux tracked them
//! until 6.16 (`PENSTOCK_ORACLE_SUITE=trixie`).

use std::time::Duration;

use super::events::STATES;
use super::sent;
use crate::frame::Frame;
use crate::net::{NET, out4, out6, wan};
use crate::scenario::Scenario;

pub const REQUEST: u8 = 0;
pub const RESPONSE: u8 = 1;
pub const DATA: u8 = 2;
pub const ACK: u8 = 3;
pub const DATA_ACK: u8 = 4;
pub const CLOSE_REQUEST: u8 = 5;
pub const CLOSE: u8 = 6;
pub const RESET: u8 = 7;
pub const SYNC: u8 = 8;
pub const SYNC_ACK: u8 = 9;

/// Initial sequence numbers of the client and of the server.
const FIRST: [u64; 2] = [1_000, 0xffff_ffff_fffe];

/// Packets, each of the client (0) or the server (1).
pub type Talk<'a> = &'a [(usize, u8)];

/// All of them.
pub fn all() -> Vec<Scenario> {
    let opening: Talk = &[(0, REQUEST), (1, RESPONSE), (0, ACK)];
    let speech: Talk = &[(1, DATA), (0, DATA_ACK), (1, DATA_ACK), (0, DATA)];
    let closing: Talk = &[(1, CLOSE_REQUEST), (0, CLOSE), (1, RESET)];
    let closed_by_client: Talk = &[(0, CLOSE), (1, RESET)];
    let whole = [opening, speech, closing].concat();
    let again = [&whole[..], &whole].concat();
    let turned = [&whole[..], &[(1, REQUEST), (0, RESPONSE), (1, ACK), (0, DATA)]].concat();
    let cases: [(&str, &[Talk]); 17] = [
        ("whole", &[&whole]),
        ("closed_by_client", &[opening, speech, closed_by_client]),
        ("begun_again", &[&again]),
        ("begun_again_by_the_server", &[&turned]),
        ("request_twice", &[&[(0, REQUEST)], opening, speech]),
        ("response_twice", &[&[(0, REQUEST), (1, RESPONSE)], &opening[1..], speech]),
        ("request_from_both", &[&[(0, REQUEST), (1, REQUEST)], &opening[1..], speech]),
        ("request_while_open", &[opening, speech, &[(0, REQUEST), (1, RESPONSE)], speech]),
        ("reset_at_once", &[&[(0, REQUEST), (1, RESET), (0, REQUEST), (1, RESPONSE)]]),
        ("reset_by_client", &[&[(0, REQUEST), (0, RESET), (0, REQUEST)]]),
        ("reset_while_open", &[opening, speech, &[(0, RESET), (1, RESET), (0, RESET)]]),
        ("syncs", &[opening, &[(0, SYNC), (1, SYNC_ACK), (1, SYNC), (0, SYNC_ACK)], speech]),
        ("out_of_nothing", &[&[(0, DATA), (1, DATA_ACK), (0, DATA_ACK)], closing]),
        ("answers_of_nothing", &[&[(1, RESPONSE), (1, RESET), (1, SYNC), (1, CLOSE_REQUEST)]]),
        ("closing_of_nothing", &[&[(0, CLOSE), (1, CLOSE), (0, CLOSE_REQUEST)]]),
        ("close_request_of_client", &[opening, speech, &[(0, CLOSE_REQUEST), (1, CLOSE)]]),
        ("reserved_types", &[opening, &[(0, 10), (1, 15)], speech]),
    ];
    let mut all = vec![];
    for (name, parts) in cases {
        let talk = parts.concat();
        all.push(sent(scenario(name, ""), &packets(&talk, "198.18.0.10", 4000, false)));
        all.push(
            sent(
                scenario(&format!("{name}_picked_up"), ""),
                &packets(&talk[1..], "198.18.0.10", 4000, false),
            )
            .sysctl("net.netfilter.nf_conntrack_dccp_loose", (name.len() % 2) as u32),
        );
    }
    all.push(sent(scenario("whole6", ""), &packets(&whole, "", 4000, true)));
    all.push(sent(
        scenario("masqueraded", "oifname wan masquerade"),
        &packets(&whole, "198.19.0.1", 4000, false),
    ));
    all.push(sent(
        scenario("masqueraded_ports", "meta l4proto dccp oifname wan snat ip to 198.19.0.1:7000"),
        &packets(&whole, "198.19.0.1", 7000, false),
    ));
    for (name, talk) in [("unanswered", &whole[..1]), ("open", &whole[..4]), ("closed", &whole)] {
        // Times of a second each: what is over begins again.
        let mut s =
            sent(scenario(&format!("over_{name}"), ""), &packets(talk, "198.18.0.10", 4000, false));
        for state in ["request", "respond", "partopen", "open", "closereq", "closing", "timewait"] {
            s = s.sysctl(&format!("net.netfilter.nf_conntrack_dccp_timeout_{state}"), 1);
        }
        let more = packets(&[(1, DATA), (0, DATA)], "198.18.0.10", 4000, false);
        all.push(sent(s.wait(Duration::from_millis(2200)), &more));
    }
    all.push(sent(scenario("malformed", ""), &malformed()));
    all
}

/// Rules that count states, and such as translate; events are listened to.
pub fn scenario(name: &str, nat: &str) -> Scenario {
    let mut rules = format!(
        "table inet t {{
	chain forward {{
		type filter hook forward priority 0;
{STATES}		ct direction original counter
		ct status assured counter
		ct status seen-reply counter
		dccp type request counter
		dccp type {{ data, dataack }} counter
		dccp dport 80 counter
	}}
"
    );
    if !nat.is_empty() {
        rules += &format!(
            "\tchain nat {{\n\t\ttype nat hook postrouting priority 100;\n\t\t{nat}\n\t}}\n"
        );
    }
    Scenario::new(&format!("dccp_{name}"), NET, &(rules + "}\n")).at_once().events()
}

/// The packets with the numbers that the ends would send; the server answers to an address and port.
fn packets(talk: Talk, to: &str, port: u16, six: bool) -> Vec<(&'static str, Frame)> {
    let mut next = FIRST;
    let said = talk.iter().map(|&(from, kind)| {
        let sequence = next[from] & 0xffff_ffff_ffff;
        next[from] += 1;
        let heard = next[1 - from].wrapping_sub(1) & 0xffff_ffff_ffff;
        let rest = rest(kind, heard);
        match from {
            0 if six => ("lan", out6().dccp((4000, 80), kind, sequence, &rest)),
            0 => ("lan", out4().dccp((4000, 80), kind, sequence, &rest)),
            _ => {
                let frame = match six {
                    true => wan().ip6("2001:db8:2::2", "2001:db8:1::10"),
                    false => wan().ip4("198.19.0.2", to),
                };
                ("wan", frame.dccp((80, port), kind, sequence, &rest))
            }
        }
    });
    said.collect()
}

/// What follows the sequence number in a header of this type.
pub fn rest(kind: u8, acknowledged: u64) -> Vec<u8> {
    let acknowledged = (acknowledged & 0xffff_ffff_ffff).to_be_bytes();
    match kind {
        REQUEST => vec![0, 0, 0, 7],
        RESPONSE => [&acknowledged[..], &[0, 0, 0, 7]].concat(),
        RESET => [&acknowledged[..], &[1, 0, 0, 0]].concat(),
        DATA => vec![],
        _ => acknowledged.to_vec(),
    }
}

/// Lengths, coverage and checksums that are wrong.
fn malformed() -> Vec<(&'static str, Frame)> {
    let whole = || out4().dccp((4000, 80), REQUEST, 1000, &rest(REQUEST, 0));
    let frames = [
        whole().set(4, &[0]),
        whole().set(4, &[2]),
        whole().set(4, &[200]),
        whole().patch(6, &[1, 2]),
        whole().set(5, &[1]),
        whole().set(5, &[15]),
        whole().set(5, &[2]).data(b"covered in part"),
        whole().set(8, &[0]),
        whole().set(8, &[0xff]),
        out4().transport(33, &[0x0f, 0xa0, 0, 80, 4, 0, 0, 0, 1]),
        out4().transport(33, &[]),
        whole(),
    ];
    frames.map(|frame| ("lan", frame)).into()
}
