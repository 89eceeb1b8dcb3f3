// SPDX-License-Identifier: Apache-2.0

//! SIP by chance.

use crate::helpers::ip;
use crate::lab::{A, A6, B, B6};
use crate::{Step, compare_all, lab};
use penstock_conntrack::Settings;
use penstock_testkit::build::*;

/// Messages of SIP by chance: good ones, with something lost, doubled, moved or replaced.
#[test]
fn random_sip_messages_are_read_as_in_the_kernel() {
    let Some(mut lab) = lab() else { return };
    let rounds = penstock_testkit::rounds(30) as u64;
    let seed = penstock_testkit::seed();
    let failed: Vec<String> = (seed..seed + rounds)
        .filter_map(|seed| {
            let mut rng = fastrand::Rng::with_seed(seed);
            let steps: Vec<Step> = (0..rng.usize(2..8)).map(|_| random_sip(&mut rng)).collect();
            let name = format!("random sip {seed}");
            let text = |s: &Step| String::from_utf8_lossy(&s.1.build()).into_owned();
            compare_all(&mut lab, &name, &Settings::default(), &steps, true)
                .err()
                .map(|e| e + &steps.iter().map(text).collect::<Vec<_>>().join("\n=====\n"))
        })
        .take(3)
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn random_sip(rng: &mut fastrand::Rng) -> Step {
    let v6 = rng.u8(..4) == 0;
    let there = rng.u8(..3) != 0;
    let (a, b) = if v6 { (A6, B6) } else { (A, B) };
    let (own, other) = if there { (a, b) } else { (b, a) };
    let host = |address: &str| if v6 { format!("[{address}]") } else { address.to_owned() };
    let (own, other, plain) = (host(own), host(other), own);
    fn pick<'t>(rng: &mut fastrand::Rng, of: &[&'t str]) -> &'t str {
        of[rng.usize(..of.len())]
    }
    let methods = [
        "INVITE", "INVITE", "INVITE", "REGISTER", "REGISTER", "UPDATE", "ACK", "BYE", "PRACK",
        "OPTIONS",
    ];
    let method = pick(rng, &methods);
    let cseq = pick(rng, &["1", "1", "1", "2", "3"]);
    let mut lines = vec![match rng.bool() && !there || rng.u8(..4) == 0 {
        true => {
            format!("SIP/2.0 {} OK", pick(rng, &["200", "200", "200", "183", "100", "404", "302"]))
        }
        false => format!("{method} sip:b@{other} SIP/2.0"),
    }];
    lines.push(format!("Via: SIP/2.0/UDP {own}:5060;branch=z9"));
    lines.push(format!("From: <sip:a@{own}>;tag=1"));
    lines.push(format!("t: <sip:b@{other}>"));
    lines.push(format!("CSeq: {cseq} {method}"));
    for _ in 0..rng.usize(..3) {
        let contact = pick(rng, &["Contact", "m", "Contact "]);
        let of = if rng.bool() { &own } else { &other };
        let port = pick(rng, &["", ":5060", ":5070", ":5080"]);
        let rest =
            pick(rng, &["", ";expires=60", ";expires=0", ";q=1;expires=90", ";transport=udp"]);
        lines.push(format!("{contact}: <sip:a@{of}{port}>{rest}"));
    }
    if rng.bool() {
        lines.push(format!("Expires: {}", pick(rng, &["60", "0", "120"])));
    }
    let version = if v6 { "IP6" } else { "IP4" };
    let mut body = vec![];
    if method != "REGISTER" || rng.u8(..5) == 0 {
        body.push("v=0".to_owned());
        body.push(format!("o=a 1 1 IN {version} {plain}"));
        if rng.u8(..4) != 0 {
            body.push(format!("c=IN {version} {plain}"));
        }
        for _ in 0..rng.usize(..4) {
            let port = pick(rng, &["4000", "4001", "4002", "5000", "0"]);
            let kind = pick(rng, &["audio", "audio", "video", "image", "text"]);
            body.push(format!("m={kind} {port} RTP/AVP 0"));
            if rng.u8(..3) == 0 {
                let far = if v6 { "2001:db8:9::9" } else { "198.18.9.9" };
                let of = if rng.u8(..3) == 0 { far } else { plain };
                body.push(format!("c=IN {version} {of}"));
            }
        }
    }
    let body: String = body.iter().map(|line| format!("{line}\r\n")).collect();
    lines.push(format!("Content-Length: {}", body.len()));
    let mut text = (lines.join("\r\n") + "\r\n\r\n" + &body).into_bytes();
    while rng.u8(..3) == 0 {
        let (from, to) = (rng.usize(..text.len()), rng.usize(..text.len()));
        match rng.u8(..6) {
            0 => drop(text.remove(from)),
            1 => text.insert(from, b"\r\n :;,@<>0x\t"[rng.usize(..12)]),
            2 => text.swap(from, to),
            3 => text[from] = b"\r\n :;,@<>0x\tAz.9"[rng.usize(..16)],
            4 => text.truncate(text.len() - rng.usize(..20)),
            _ => {
                let len = rng.usize(..30).min(text.len() - from);
                let piece = text[from..from + len].to_vec();
                let to = to.min(text.len());
                text.splice(to..to, piece);
            }
        }
    }
    (there, ip(there, v6, Udp::new(5060, 5060) / payload(text)))
}
