// SPDX-License-Identifier: Apache-2.0

//! SIP by chance.

use crate::helpers::{Talk, ip};
use crate::lab::{A, A6, B, B6};
use crate::{Step, compare_all, lab};
use fastrand::Rng;
use penstock_conntrack::Settings;
use penstock_testkit::build::*;
use penstock_testkit::sip::{self, Ends};

#[test]
fn random_sip_messages_are_read_as_in_the_kernel() {
    compared("datagrams", 30, |rng| {
        let v6 = rng.u8(..4) == 0;
        let messages = 0..rng.usize(2..8);
        messages
            .map(|_| {
                let (there, text) = message(rng, v6, "UDP");
                (there, ip(there, v6, Udp::new(5060, 5060) / payload(text)))
            })
            .collect()
    });
}

/// Several messages in a segment, messages in several segments, and what is no message.
#[test]
fn random_sip_streams_are_read_as_in_the_kernel() {
    compared("stream", 30, |rng| {
        let v6 = rng.u8(..4) == 0;
        let mut talk = Talk::open_from(1000, 5060, v6);
        for _ in 0..rng.usize(2..6) {
            let there = rng.u8(..3) != 0;
            let mut text = vec![];
            while text.is_empty() || rng.u8(..3) == 0 {
                let (from, more) = message(rng, v6, "TCP");
                if from == there {
                    text.extend(more);
                }
            }
            let cut = if rng.u8(..4) == 0 { rng.usize(..=text.len()) } else { text.len() };
            talk = talk.say(there, &text[..cut]);
            if cut < text.len() && rng.bool() {
                talk = talk.say(there, &text[cut..]);
            }
        }
        talk.steps
    });
}

/// Where a message of a stream ends depends on how its length is read.
#[test]
fn lengths_of_sip_messages_in_streams_are_read_as_in_the_kernel() {
    let Some(mut lab) = lab() else { return };
    let body = format!("v=0\r\no=a 1 1 IN IP4 {A}\r\nc=IN IP4 {A}\r\nm=audio 4000 RTP/AVP 0\r\n");
    let message = |method: &str, length: &str, body: &str| {
        format!("{method} sip:b@{B} SIP/2.0\r\nCSeq: 3 {method}\r\n{length}\r\n\r\n{body}")
    };
    let call = message("INVITE", &format!("Content-Length: {}", body.len()), &body);
    let failed: Vec<String> = [
        "Content-Length:5",
        "Content-Length: 5",
        "Content-Length:\t5",
        "Content-Length: \t 5",
        "Content-Length\t:5",
        "Content-Length \t :\t5",
        "Content-Length\r\n\t: 5",
        "Content-Length:\r\n 5",
        "Content-Length:\r\n\t5",
        "l\t:5",
        "L: 5",
        "Content-Length: 05",
        "Content-Length: 00000000000000005",
        "Content-Length: 5x",
        "Content-Length: 5 x",
        "Content-Length: 5\t",
        "Content-Length:",
        "Content-Length: x5",
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 0x5",
        "Content-Length:\x0b5",
        "Content-Length:\x0c5",
    ]
    .iter()
    .filter_map(|length| {
        let text = message("OPTIONS", length, "v=0\r\n") + &call;
        let talk = Talk::open_from(1000, 5060, false).say(true, text.as_bytes());
        compare_all(&mut lab, &format!("{length:?}"), &Settings::default(), &talk.steps, true).err()
    })
    .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Compares so many conversations.
fn compared(name: &str, enough: usize, conversation: impl Fn(&mut Rng) -> Vec<Step>) {
    let Some(mut lab) = lab() else { return };
    let rounds = penstock_testkit::rounds(enough) as u64;
    let seed = penstock_testkit::seed();
    let failed: Vec<String> = (seed..seed + rounds)
        .filter_map(|seed| {
            let steps = conversation(&mut Rng::with_seed(seed));
            let name = format!("random sip, {name} {seed}");
            let text = |s: &Step| String::from_utf8_lossy(&s.1.build()).into_owned();
            compare_all(&mut lab, &name, &Settings::default(), &steps, true)
                .err()
                .map(|e| e + &steps.iter().map(text).collect::<Vec<_>>().join("\n=====\n"))
        })
        .take(3)
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A message, and whether side a sends it.
fn message(rng: &mut Rng, v6: bool, transport: &str) -> (bool, Vec<u8>) {
    let there = rng.u8(..3) != 0;
    let (a, b) = if v6 { (A6, B6) } else { (A, B) };
    let (own, other) = if there { (a, b) } else { (b, a) };
    let far = if v6 { "2001:db8:9::9" } else { "198.18.9.9" };
    let client = if transport == "TCP" { 1000 } else { 5060 };
    let ports = if there { [client, 5060] } else { [5060, client] };
    let mut text = sip::message(rng, &Ends { own, other, far, ports, transport, client: there });
    sip::damage(rng, &mut text);
    (there, text)
}
