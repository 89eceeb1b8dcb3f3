// SPDX-License-Identifier: Apache-2.0

//! SIP through NAT: the text that leaves, and the connections that it announces.

use crate::frame::Frame;
use crate::net::{NET, out4, out6, wan};
use crate::scenario::Scenario;

/// All of them.
pub fn all() -> Vec<Scenario> {
    let source = "oifname wan masquerade";
    let ports = "meta l4proto udp oifname wan masquerade to :7000-7000";
    let mut all = vec![];
    for (name, nat) in [("masquerade", source), ("port", ports)] {
        for (what, talk) in talks() {
            all.push(through(&format!("sip_{name}_{what}"), nat, false, &talk));
            all.push(through(&format!("sip6_{name}_{what}"), nat, true, &talk));
        }
    }
    all
}

const VIA: &str = "Via: SIP/2.0/UDP CLIENT:5060;branch=z9;rport";
const ENDS: &str = "From: <sip:a@CLIENT>;tag=1\nTo: <sip:b@SERVER>\nCall-ID: 1@CLIENT";
const HERE: &str = "v=0\no=a 1 1 IN VERSION PLAIN\ns=-\nc=IN VERSION PLAIN\nt=0 0";

fn talks() -> Vec<(&'static str, Vec<(usize, String)>)> {
    let invite = |body: &str| {
        format!(
            "INVITE sip:b@SERVER SIP/2.0\n{VIA}\n{ENDS}\nCSeq: 1 INVITE\nContact: <sip:a@CLIENT:5060>\n\
             LENGTH\n\n{body}\n"
        )
    };
    let answer = |first: &str, method: &str, rest: &str| {
        format!(
            "SIP/2.0 {first}\nVia: SIP/2.0/UDP OUTSIDE:OWN;received=OUTSIDE;rport=OWN\n\
             From: <sip:a@OUTSIDE:OWN>;tag=1\nTo: <sip:b@SERVER>\nCSeq: {method}\n{rest}LENGTH\n\n"
        )
    };
    let register = |contact: &str| {
        format!(
            "REGISTER sip:SERVER SIP/2.0\n{VIA};maddr=CLIENT\n{ENDS}\nCSeq: 5 REGISTER\n{contact}\nLENGTH\n\n"
        )
    };
    let audio = "m=audio 4000 RTP/AVP 0";
    vec![
        (
            "call",
            vec![(0, invite(&format!("{HERE}\n{audio}"))), (1, answer("200 OK", "1 INVITE", ""))],
        ),
        ("odd_port", vec![(0, invite(&format!("{HERE}\nm=audio 4001 RTP/AVP 0")))]),
        ("two_streams", vec![(0, invite(&format!("{HERE}\n{audio}\nm=video 5000 RTP/AVP 0")))]),
        (
            "two_kinds_at_a_port",
            vec![(0, invite(&format!("{HERE}\n{audio}\nm=video 4000 RTP/AVP 0")))],
        ),
        ("twice_at_a_port", vec![(0, invite(&format!("{HERE}\n{audio}\nm=audio 4001 RTP/AVP 0")))]),
        ("own_address", vec![(0, invite(&format!("{HERE}\n{audio}\nc=IN VERSION PLAIN")))]),
        ("other_address", vec![(0, invite(&format!("{HERE}\n{audio}\nc=IN VERSION FAR")))]),
        ("no_stream", vec![(0, invite(HERE))]),
        ("no_owner", vec![(0, invite(&format!("v=0\nc=IN VERSION PLAIN\n{audio}")))]),
        ("no_length", vec![(0, invite(&format!("{HERE}\n{audio}")).replace("LENGTH\n", ""))]),
        ("wrong_length", vec![(0, invite(&format!("{HERE}\n{audio}")).replace("LENGTH", "l: 7"))]),
        (
            "register",
            vec![
                (0, register("Contact: <sip:a@CLIENT:5060>;expires=60")),
                (1, answer("200 OK", "5 REGISTER", "Contact: <sip:a@OUTSIDE:OWN>;expires=60\n")),
            ],
        ),
        (
            "register_another_port",
            vec![
                (0, register("Contact: <sip:a@CLIENT:5070>;expires=60")),
                (1, answer("200 OK", "5 REGISTER", "Contact: <sip:a@OUTSIDE:5070>;expires=60\n")),
            ],
        ),
        (
            "register_two",
            vec![(
                0,
                register("Contact: <sip:a@CLIENT:5070>;expires=60, <sip:a@CLIENT:5060>;expires=60"),
            )],
        ),
        (
            "options",
            vec![(0, format!("OPTIONS sip:SERVER:5060 SIP/2.0\n{VIA}\n{ENDS}\nLENGTH\n\n"))],
        ),
        ("other", vec![(0, "MESSAGE nobody\n\nCLIENT:5060 and SERVER:5060".into())]),
    ]
}

/// A conversation through NAT, and what is expected then.
fn through(name: &str, nat: &str, six: bool, talk: &[(usize, String)]) -> Scenario {
    let rules = format!(
        "table inet t {{
	ct helper h {{
		type \"sip\" protocol udp
	}}
	chain pre {{
		type filter hook prerouting priority -150;
		udp dport 5060 ct helper set \"h\" counter
	}}
	chain f {{
		type filter hook forward priority 0;
		ct state new counter
		ct state related counter
		ct state established counter
	}}
	chain n {{
		type nat hook postrouting priority 100;
		{nat}
	}}
}}
"
    );
    let own = if nat.contains("7000") { 7000 } else { 5060 };
    let mut scenario = Scenario::new(name, NET, &rules).at_once();
    let back = |text: &str| match six {
        false => wan().ip4("198.19.0.2", "198.19.0.1").udp(5060, own).data(text.as_bytes()),
        true => wan().ip6("2001:db8:2::2", "2001:db8:2::1").udp(5060, own).data(text.as_bytes()),
    };
    for (end, text) in talk {
        let text = written(text, six, own);
        let (source, frame): (_, Frame) = match (end, six) {
            (0, false) => ("lan", out4().udp(5060, 5060).data(text.as_bytes())),
            (0, true) => ("lan", out6().udp(5060, 5060).data(text.as_bytes())),
            _ => ("wan", back(&text)),
        };
        scenario = scenario.frame(source, &frame);
    }
    // Streams and calls from the server.
    for port in [4000, 4001, 4002, 5000, 5001, 5070, own] {
        let frame = match six {
            false => wan().ip4("198.19.0.2", "198.19.0.1").udp(9000, port).data(b"stream"),
            true => wan().ip6("2001:db8:2::2", "2001:db8:2::1").udp(9000, port).data(b"stream"),
        };
        scenario = scenario.frame("wan", &frame);
    }
    scenario
}

/// A text with its addresses and line ends.
fn written(text: &str, six: bool, own: u16) -> String {
    let [client, server, outside, far, version] = match six {
        false => ["198.18.0.10", "198.19.0.2", "198.19.0.1", "198.18.0.77", "IP4"],
        true => ["2001:db8:1::10", "2001:db8:2::2", "2001:db8:2::1", "2001:db8:1::77", "IP6"],
    };
    let host = |address: &str| if six { format!("[{address}]") } else { address.into() };
    let mut text = text.replace('\n', "\r\n");
    for (name, value) in [
        ("PLAIN", client.to_owned()),
        ("FAR", far.to_owned()),
        ("received=OUTSIDE", format!("received={outside}")),
        ("CLIENT", host(client)),
        ("SERVER", host(server)),
        ("OUTSIDE", host(outside)),
        ("VERSION", version.to_owned()),
        ("OWN", own.to_string()),
    ] {
        text = text.replace(name, &value);
    }
    let body = text.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
    text.replace("LENGTH", &format!("Content-Length: {body}"))
}
