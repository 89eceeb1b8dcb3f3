// SPDX-License-Identifier: Apache-2.0

//! Messages of SIP (RFC 3261) with session descriptions (RFC 4566) by chance: good ones, and with
//! something lost, doubled, moved or replaced.

use crate::Chance;
use fastrand::Rng;

/// Who sends to whom: addresses as the sender knows them.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// The sender's address.
    pub own: &'a str,
    /// The receiver's.
    pub other: &'a str,
    /// One of neither.
    pub far: &'a str,
    /// The port of the sender, and that of the receiver.
    pub ports: [u16; 2],
    /// As a `Via` names it: `UDP` or `TCP`.
    pub transport: &'a str,
    /// Whether the sender is the one who began.
    pub client: bool,
}

impl Ends<'_> {
    fn is_ipv6(&self) -> bool {
        self.own.contains(':')
    }

    fn host(&self, address: &str) -> String {
        if self.is_ipv6() { format!("[{address}]") } else { address.to_owned() }
    }
}

const METHODS: [&str; 10] = [
    "INVITE", "INVITE", "INVITE", "REGISTER", "REGISTER", "UPDATE", "ACK", "BYE", "PRACK",
    "OPTIONS",
];
const CODES: [&str; 7] = ["200", "200", "200", "183", "100", "404", "302"];

/// A message as it should be.
pub fn message(rng: &mut Rng, ends: &Ends<'_>) -> Vec<u8> {
    let method = rng.pick(&METHODS);
    let response = rng.bool() && !ends.client || rng.one_in(4);
    let body = if method != "REGISTER" || rng.one_in(5) { description(rng, ends) } else { vec![] };
    let body: String = body.iter().map(|line| format!("{line}\r\n")).collect();
    let mut lines = head(rng, ends, method, response);
    let length = rng.pick(&["Content-Length", "Content-Length", "l"]);
    lines.push(format!("{length}: {}", body.len()));
    (lines.join("\r\n") + "\r\n\r\n" + &body).into_bytes()
}

/// The first line and the headers but for the length.
fn head(rng: &mut Rng, ends: &Ends<'_>, method: &str, response: bool) -> Vec<String> {
    let (own, other) = (ends.host(ends.own), ends.host(ends.other));
    let [own_port, other_port] = ends.ports;
    let mut lines = vec![match response {
        true => format!("SIP/2.0 {} OK", rng.pick(&CODES)),
        false => {
            let port = if rng.one_in(3) { format!(":{other_port}") } else { String::new() };
            format!("{method} sip:b@{other}{port} SIP/2.0")
        }
    }];
    // Who asked stands there.
    let (asker, port) = if response { (&other, other_port) } else { (&own, own_port) };
    let plain = if response { ends.other } else { ends.own };
    // Some phones send from any port, and listen at 5060.
    let port = if !response && rng.one_in(8) { rng.pick(&[5060, 5070]) } else { port };
    let mut via = format!("Via: SIP/2.0/{} {asker}:{port};branch=z9", ends.transport);
    via += &match rng.u8(..5) {
        0 => format!(";received={plain};rport={port}"),
        1 => format!(";maddr={asker}"),
        2 => ";rport".to_owned(),
        _ => String::new(),
    };
    lines.push(via);
    lines.push(match rng.one_in(4) {
        true => format!("From: <sip:a@{own}:{own_port}>;tag=1"),
        false => format!("From: <sip:a@{own}>;tag=1"),
    });
    lines.push(format!("t: <sip:b@{other}>"));
    lines.push(format!("CSeq: {} {method}", rng.pick(&["1", "1", "1", "2", "3"])));
    for _ in 0..rng.usize(..3) {
        let contact = rng.pick(&["Contact", "m", "Contact "]);
        let of = if rng.bool() { &own } else { &other };
        let port = rng.pick(&["", ":5060", ":5070", ":5080"]);
        let rest =
            rng.pick(&["", ";expires=60", ";expires=0", ";q=1;expires=90", ";transport=udp"]);
        lines.push(format!("{contact}: <sip:a@{of}{port}>{rest}"));
    }
    if rng.bool() {
        lines.push(format!("Expires: {}", rng.pick(&["60", "0", "120"])));
    }
    lines
}

/// The lines of a session description.
fn description(rng: &mut Rng, ends: &Ends<'_>) -> Vec<String> {
    let version = if ends.is_ipv6() { "IP6" } else { "IP4" };
    let plain = ends.own;
    let mut body = vec!["v=0".to_owned(), format!("o=a 1 1 IN {version} {plain}")];
    if !rng.one_in(4) {
        body.push(format!("c=IN {version} {plain}"));
    }
    for _ in 0..rng.usize(..4) {
        let port = rng.pick(&["4000", "4001", "4002", "5000", "0"]);
        let kind = rng.pick(&["audio", "audio", "video", "image", "text"]);
        body.push(format!("m={kind} {port} RTP/AVP 0"));
        if rng.one_in(3) {
            let of = if rng.one_in(3) { ends.far } else { plain };
            body.push(format!("c=IN {version} {of}"));
        }
    }
    body
}

/// Changes some bytes now and then: some are lost, doubled, moved or replaced.
pub fn damage(rng: &mut Rng, text: &mut Vec<u8>) {
    while rng.one_in(3) && !text.is_empty() {
        let (from, to) = (rng.usize(..text.len()), rng.usize(..text.len()));
        match rng.u8(..6) {
            0 => drop(text.remove(from)),
            1 => text.insert(from, b"\r\n :;,@<>0x\t"[rng.usize(..12)]),
            2 => text.swap(from, to),
            3 => text[from] = b"\r\n :;,@<>0x\tAz.9"[rng.usize(..16)],
            4 => text.truncate(text.len() - rng.usize(..20).min(text.len())),
            _ => {
                let len = rng.usize(..30).min(text.len() - from);
                let piece = text[from..from + len].to_vec();
                text.splice(to..to, piece);
            }
        }
    }
}
