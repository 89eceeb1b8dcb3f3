// SPDX-License-Identifier: Apache-2.0

//! Headers that few packets have, and what few rules change: DCCP, IPComp, segment routing, ECN,
//! prefixes of IPv6; and rates.

use std::time::Duration;

use fastrand::Rng;

use super::{Rules, forwarded, frames, scenario};
use crate::frame::{Frame, ethernet};
use crate::net::{CLIENT, GATEWAY, LAN, WAN};
use crate::scenario::Scenario;

const DCCP: &str = "
-p dccp -m dccp --dport 80
-p dccp -m dccp ! --sport 1:9 --dport 1:100
-p dccp -m dccp --dccp-types REQUEST,DATA
-p dccp -m dccp ! --dccp-types RESPONSE,RESET,INVALID
-p dccp -m dccp --dccp-option 3
-p dccp -m dccp ! --dccp-option 38 --dport 80
";

const IPCOMP: &str = "
-p ipcomp -m ipcomp --ipcompspi 2
-p ipcomp -m ipcomp --ipcompspi 1:500
-p ipcomp -m ipcomp ! --ipcompspi 2:70000
";

const SEGMENTS: &str = "
-p ipv6 -m srh
-m srh --srh-next-hdr 17
-m srh ! --srh-next-hdr 17
-m srh --srh-hdr-len-eq 4
-m srh ! --srh-hdr-len-gt 2
-m srh --srh-hdr-len-lt 4
-m srh --srh-segs-left-eq 1
-m srh --srh-segs-left-gt 0
-m srh ! --srh-segs-left-lt 1
-m srh --srh-last-entry-eq 1
-m srh --srh-last-entry-gt 0 --srh-last-entry-lt 3
-m srh --srh-tag 7
-m srh ! --srh-tag 7
-m srh --srh-psid 2001:db8::2
-m srh ! --srh-psid 2001:db8::/64
-m srh --srh-nsid 2001:db8::1
-m srh --srh-lsid 2001:db8::/32
-m srh ! --srh-lsid 2001:db8::1
";

const ECN: &[&str] = &[
    "-p tcp -j ECN --ecn-tcp-remove",
    "-p tcp -j ECN --ecn-tcp-cwr 1",
    "-p tcp -j ECN --ecn-tcp-ece 1 --ecn-ip-ect 2",
    "-p udp -j ECN --ecn-ip-ect 3",
];

/// Chain and rule.
const PREFIXES: &[(&str, &str)] = &[
    ("POSTROUTING", "-o wan -j SNPT --src-pfx 2001:db8:1::/48 --dst-pfx 2001:db8:77::/48"),
    ("POSTROUTING", "-o wan -j SNPT --src-pfx 2001:db8:1::/64 --dst-pfx 2001:db8:9:ffff::/64"),
    ("POSTROUTING", "-j SNPT --src-pfx 2001:db8:1::/56 --dst-pfx 2001:db8:9:ff00::/56"),
    ("PREROUTING", "-i wan -j DNPT --src-pfx 2001:db8:77::/48 --dst-pfx 2001:db8:1::/48"),
    ("PREROUTING", "-i lan -j DNPT --src-pfx 2001:db8:2::/64 --dst-pfx 2001:db8:5::/64"),
    ("PREROUTING", "-i lan -j DNPT --src-pfx 2001:db8::/32 --dst-pfx 2001:db9::/32"),
];

fn pick<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}

fn lan(v6: bool) -> Frame {
    let link = ethernet(LAN, CLIENT);
    match v6 {
        true => link.ip6("2001:db8:1::10", "2001:db8:2::2"),
        false => link.ip4("198.18.0.10", "198.19.0.2"),
    }
}

/// A header of DCCP, whole or cut, with options, with a length that is right or not.
fn dccp(rng: &mut Rng) -> Vec<u8> {
    const OPTIONS: [&[u8]; 6] =
        [&[], &[3, 0, 0, 0], &[38, 3, 1, 0], &[0, 1, 0, 38], &[40, 4, 38, 3], &[40, 0, 3, 2]];
    let kind = rng.u8(..12);
    let long = rng.u8(..2);
    let (sport, dport) = (pick(rng, &[5u16, 40000]), pick(rng, &[80u16, 5, 101]));
    let rest = match kind {
        0 => 4,
        1 | 7 => 12,
        2 => 0,
        10.. => 12,
        _ => 8,
    } + if long == 1 { 4 } else { 0 };
    let options = pick(rng, &OPTIONS);
    let words = (12 + rest + options.len()) / 4;
    let offset = if rng.u8(..4) == 0 { rng.u8(..20) } else { words as u8 };
    let mut header = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
    header.extend([offset, 0, 0, 0, kind << 1 | long, 0, 0, 1]);
    header.resize(12 + rest, 3);
    header.extend(options);
    if rng.u8(..6) == 0 {
        header.truncate(rng.usize(4..header.len()));
    }
    header
}

/// A packet with a segment routing header, or another routing header, or none.
fn segments(rng: &mut Rng) -> Frame {
    let last = rng.u8(..3);
    let left = rng.u8(..=last + 1);
    let mut body = vec![pick(rng, &[4, 4, 4, 4, 2]), left, last, 0, 0, pick(rng, &[7, 8])];
    for number in 0..=last + rng.u8(..2) {
        body.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number + 1]);
    }
    let frame = lan(true);
    let frame = if rng.u8(..8) == 0 { frame } else { frame.extension(43, &body) };
    match rng.bool() {
        true => frame.udp(40000, 53),
        false => frame.tcp(40000, 80),
    }
}

/// A packet of the client, or an error about one from the far end.
fn from_lan(rng: &mut Rng) -> Frame {
    if rng.bool() {
        return lan(true).tcp(40000, 80);
    }
    let to = pick(rng, &["2001:db8:1::10", "2001:db8:1:7::10", "2001:db8:2::10"]);
    let quoted = ethernet(WAN, GATEWAY).ip6("2001:db8:2::2", to).udp(53, 40000).bytes();
    lan(true).icmp6(pick(rng, &[1, 4, 129]), 0, 0).data(&quoted[14..])
}

/// A packet of the far end, or an error about one of the client.
fn from_wan(rng: &mut Rng) -> Frame {
    let to = pick(rng, &["2001:db8:1::10", "2001:db8:77::10", "2001:db8:1:0:ffff:ffff:ffff:ffff"]);
    let link = ethernet(WAN, GATEWAY).ip6("2001:db8:2::2", to);
    if rng.bool() {
        return link.udp(53, 40000);
    }
    let from = pick(rng, &["2001:db8:1::10", "2001:db8:77::10", "2001:db8:77:7::10"]);
    let quoted = ethernet(LAN, CLIENT).ip6(from, "2001:db8:2::2");
    let quoted = quoted.udp(40000, 53).data(b"question").bytes();
    link.icmp6(pick(rng, &[1, 3, 128]), 0, 0).data(&quoted[14..])
}

fn with(
    name: &str,
    (v4, v6): (Rules<'_>, Rules<'_>),
    count: usize,
    mut frame: impl FnMut(&mut Rng) -> (&'static str, Frame),
) -> Scenario {
    let mut rng = Rng::with_seed(7);
    let mut scenario = scenario(name, &v4, &v6, 0, 7);
    for _ in 0..count {
        let (device, frame) = frame(&mut rng);
        scenario = scenario.frame(device, &frame);
    }
    scenario
}

fn changes<'a>(table: &'a str, chain: &'a str, rules: &[&'a str]) -> Vec<Rules<'a>> {
    rules.iter().map(|rule| vec![(table, chain, *rule)]).collect()
}

/// All of them.
pub fn all() -> Vec<Scenario> {
    let mut all = vec![
        with("headers_of_dccp", (forwarded(&[DCCP]), forwarded(&[DCCP])), 200, |rng| {
            let header = dccp(rng);
            ("lan", lan(rng.bool()).transport(33, &header))
        }),
        with("headers_of_ipcomp", (forwarded(&[IPCOMP]), forwarded(&[IPCOMP])), 40, |rng| {
            let header = [17, 0, pick(rng, &[0, 1, 2]), pick(rng, &[0, 2, 244])];
            let len = pick(rng, &[4, 4, 4, 3]);
            ("lan", lan(rng.bool()).transport(108, &header[..len]))
        }),
        with("headers_of_segments", (vec![], forwarded(&[SEGMENTS])), 120, |rng| {
            ("lan", segments(rng))
        }),
    ];
    for (number, rules) in changes("mangle", "FORWARD", ECN).into_iter().enumerate() {
        all.push(with(&format!("ecn_{number}"), (rules, vec![]), 60, |rng| {
            frames::frame(rng, false)
        }));
    }
    for (number, (chain, rule)) in PREFIXES.iter().enumerate() {
        let rules = vec![("mangle", *chain, *rule)];
        all.push(with(&format!("prefixes_{number}"), (vec![], rules), 60, |rng| {
            match rng.u8(..3) {
                0 => frames::frame(rng, true),
                1 => ("lan", from_lan(rng)),
                _ => ("wan", from_wan(rng)),
            }
        }));
    }
    all.push(rates());
    all.push(systems());
    all
}

/// Systems by their fingerprints.
fn systems() -> Scenario {
    let rules = forwarded(&["
-p tcp -m osf --genre Linux
-p tcp -m osf --genre Linux --ttl 1
-p tcp -m osf --genre Windows --ttl 2
-p tcp -m osf ! --genre Linux --ttl 2
-p tcp -m osf --genre Nowhere --ttl 2
-p tcp -m osf --genre Nowhere --ttl 2 --log 0
-p tcp -m osf --genre Linux --ttl 1 --log 1
"]);
    with("systems", (rules, vec![]), 80, |rng| frames::frame(rng, false)).fingerprints()
}

/// Rates, with limits that are far from what they are.
fn rates() -> Scenario {
    const RULES: &str = "
-p udp -j RATEEST --rateest-name few --rateest-interval 250ms --rateest-ewmalog 500ms
-p tcp -j RATEEST --rateest-name fast --rateest-interval 250ms --rateest-ewmalog 500ms
-p udp -m rateest --rateest few --rateest-lt --rateest-pps 1
-p udp -m rateest --rateest few --rateest-gt --rateest-pps 4
-p udp -m rateest --rateest few --rateest-gt --rateest-bps 4kbit
-p udp -m rateest --rateest few ! --rateest-eq --rateest-bps 0 --rateest-pps 0
-p udp -m rateest --rateest1 few --rateest-lt --rateest2 fast --rateest-pps1 0 --rateest-pps2 0
-p tcp -m rateest --rateest-delta --rateest1 fast --rateest-bps1 1mbit --rateest-gt --rateest-bps2 900kbit
-p tcp -m rateest --rateest-delta --rateest1 fast --rateest-pps1 900 --rateest-gt --rateest2 few --rateest-pps2 800
";
    let rules = forwarded(&[RULES]);
    let mut scenario = scenario("rates", &rules, &vec![], 0, 1);
    for _ in 0..3 {
        for _ in 0..60 {
            scenario = scenario.frame("lan", &lan(false).udp(40000, 53).zeros(60));
        }
        for _ in 0..3 {
            scenario = scenario.frame("lan", &lan(false).tcp(40000, 80));
        }
        scenario = scenario.wait(Duration::from_millis(400));
    }
    scenario = scenario.frame("lan", &lan(false).udp(40000, 53));
    scenario = scenario.wait(Duration::from_secs(9));
    scenario.frame("lan", &lan(false).udp(40000, 53)).frame("lan", &lan(false).tcp(40000, 80))
}
