// SPDX-License-Identifier: Apache-2.0

//! Random filters and random packets: programs from here and from `tcpdump -ddd` give the same.
//!
//! tcpdump makes two programs of a filter, with and without its optimizer. On packets that end too
//! early the two may differ, since the optimizer leaves out loads whose value has no effect. Only
//! there either answer is taken.

use std::process::Command;

use fastrand::Rng;
use penstock_pcapfilter::{Link, compile};
use penstock_program::op::{BpfAncillary, BpfPacket, BpfProgram};

struct Bytes<'a>(&'a [u8]);

impl BpfPacket for Bytes<'_> {
    fn link(&self) -> &[u8] {
        &[]
    }

    fn network(&self) -> &[u8] {
        self.0
    }

    fn ancillary(&mut self, _: BpfAncillary) -> Option<u32> {
        None
    }
}

fn run(program: &BpfProgram, packet: &[u8]) -> bool {
    program.run(&mut Bytes(packet)) != 0
}

fn pick<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.usize(..of.len())]
}

fn number(rng: &mut Rng) -> String {
    let some = [0, 1, 2, 4, 5, 6, 8, 12, 13, 16, 17, 20, 40, 60, 80, 0x40, 0xff, 0x1fff, 0xffff];
    let value = some[rng.usize(..some.len())];
    if rng.bool() { value.to_string() } else { format!("{value:#x}") }
}

fn arithmetic(rng: &mut Rng, depth: u32, link: Link) -> String {
    match rng.u32(..if depth == 0 { 4 } else { 9 }) {
        0 => number(rng),
        1 => "len".into(),
        2 | 3 => field(rng, depth, link),
        4 => format!("({})", arithmetic(rng, depth - 1, link)),
        5 => format!("-{}", field(rng, 0, link)),
        _ => {
            let sign = pick(rng, &["+", "-", "*", "&", "|", "^", "<<", ">>", "/", "%"]);
            let left = arithmetic(rng, depth - 1, link);
            let right = match sign {
                "<<" | ">>" => rng.u32(..32).to_string(),
                "/" | "%" => rng.u32(1..9).to_string(),
                _ => arithmetic(rng, depth - 1, link),
            };
            format!("{left} {sign} {right}")
        }
    }
}

fn field(rng: &mut Rng, depth: u32, link: Link) -> String {
    let named = ["tcp[tcpflags]", "tcp[tcpflags] & (tcp-syn|tcp-ack)", "icmp[icmptype]"];
    if rng.u32(..4) == 0 {
        return pick(rng, &named).into();
    }
    let mut protocols =
        vec!["ip", "ip6", "tcp", "udp", "icmp", "icmp6", "sctp", "igmp", "pim", "vrrp", "link"];
    if link == Link::Ethernet {
        protocols.extend(["ether", "arp", "rarp"]);
    }
    let protocol = pick(rng, &protocols);
    let index = match rng.u32(..5) {
        0 if depth > 0 => format!("{} & 15", arithmetic(rng, depth - 1, link)),
        _ => rng.u32(..24).to_string(),
    };
    format!("{protocol}[{index}{}]", pick(rng, &["", "", ":1", ":2", ":4"]))
}

fn v4(rng: &mut Rng) -> String {
    pick(rng, &["198.18.0.1", "198.18.0.2", "198.19.1.1", "198.18", "0.0.0.0"]).into()
}

fn v6(rng: &mut Rng) -> String {
    pick(rng, &["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "::"]).into()
}

fn port(rng: &mut Rng) -> String {
    pick(rng, &["53", "80", "443", "5000", "0", "65535", "ssh", "domain"]).into()
}

fn direction(rng: &mut Rng) -> &'static str {
    pick(rng, &["", "", "src ", "dst ", "src or dst ", "src and dst "])
}

fn primitive(rng: &mut Rng, link: Link) -> String {
    let dir = direction(rng);
    let ethernet = link == Link::Ethernet;
    match rng.u32(..if ethernet { 17 } else { 13 }) {
        0 => {
            let protocols = [
                "ip", "ip6", "tcp", "udp", "icmp", "icmp6", "sctp", "igmp", "pim", "vrrp", "ah",
                "esp", "arp", "rarp", "igrp", "carp",
            ];
            pick(rng, &protocols).into()
        }
        1 => format!("{}{dir}host {}", pick(rng, &["", "ip ", "arp ", "rarp "]), v4(rng)),
        2 => format!("{}{dir}host {}", pick(rng, &["", "ip6 "]), v6(rng)),
        3 => {
            let net = ["198.18.0.0/15", "198.18.0.0/24", "198.19", "10", "0/0", "198.18.0.0/16"];
            format!("{}{dir}net {}", pick(rng, &["", "ip "]), pick(rng, &net))
        }
        4 => {
            let net = ["2001:db8::/32", "2001:db8::/64", "::/0", "2001:db8:0:1::/60", "fe80::/10"];
            let net = pick(rng, &net).replace("1::/60", "10::/60");
            format!("{}{dir}net {net}", pick(rng, &["", "ip6 "]))
        }
        5 | 6 => {
            let protocol = pick(rng, &["", "tcp ", "udp ", "sctp "]);
            format!("{protocol}{dir}port {}", pick(rng, &["53", "80", "443", "5000", "0"]))
        }
        7 => {
            let range = pick(rng, &["50-90", "443-53", "0-65535", "80-80", "1-79"]);
            format!("{}{dir}portrange {range}", pick(rng, &["", "tcp ", "udp "]))
        }
        8 => {
            let inner = ["6", "17", "1", "58", "44", "\\tcp", "\\udp", "\\icmp"];
            format!("{}proto {}", pick(rng, &["", "ip ", "ip6 "]), pick(rng, &inner))
        }
        9 => format!("{} {}", pick(rng, &["less", "greater"]), rng.u32(20..120)),
        10 => format!("{}port {} or {}", direction(rng), port(rng), port(rng)),
        11 => pick(rng, &["ip multicast", "ip6 multicast"]).into(),
        12 => {
            let left = arithmetic(rng, 2, link);
            let sign = pick(rng, &["=", "!=", "<", "<=", ">", ">=", "=="]);
            let right = if rng.bool() { number(rng) } else { arithmetic(rng, 1, link) };
            format!("{left} {sign} {right}")
        }
        13 => {
            let mac = pick(rng, &["2:0:0:0:0:1", "02:00:00:00:00:02", "ff:ff:ff:ff:ff:ff"]);
            format!("ether {}{mac}", pick(rng, &["host ", "src ", "dst ", "src host "]))
        }
        14 => {
            let more = ["ether multicast", "ether broadcast", "ether proto 0x800", "pppoed"];
            pick(rng, &more).into()
        }
        15 => format!("vlan{}", pick(rng, &["", " 1", " 7"])),
        _ => format!("{}{}", pick(rng, &["mpls", "pppoes"]), pick(rng, &["", " 1", " 7"])),
    }
}

fn filter(rng: &mut Rng, depth: u32, link: Link) -> String {
    match rng.u32(..if depth == 0 { 1 } else { 5 }) {
        0 => primitive(rng, link),
        1 => format!("{} ({})", pick(rng, &["not", "!"]), filter(rng, depth - 1, link)),
        2 => format!("not {}", primitive(rng, link)),
        _ => {
            let (left, right) = (filter(rng, depth - 1, link), filter(rng, depth - 1, link));
            let sign = pick(rng, &["and", "or", "&&", "||"]);
            match rng.u32(..3) {
                0 => format!("({left}) {sign} ({right})"),
                1 => format!("{left} {sign} ({right})"),
                _ => format!("{left} {sign} {right}"),
            }
        }
    }
}

fn transport(rng: &mut Rng, out: &mut Vec<u8>) {
    let port = |rng: &mut Rng| {
        let ports = [53u16, 80, 443, 5000, 22, 0, 65535, 60];
        ports[rng.usize(..ports.len())].to_be_bytes()
    };
    out.extend(port(rng));
    out.extend(port(rng));
    let len = rng.usize(..40);
    out.extend((0..len).map(|_| if rng.bool() { rng.u8(..) } else { rng.u8(..32) }));
}

fn protocol(rng: &mut Rng) -> u8 {
    let protocols = [6, 6, 17, 17, 1, 58, 132, 2, 103, 112, 50, 51, 44, 9];
    protocols[rng.usize(..protocols.len())]
}

fn ipv4(rng: &mut Rng, out: &mut Vec<u8>) {
    let words = if rng.u32(..4) == 0 { rng.u8(5..8) } else { 5 };
    let fragment = [0u16, 0, 0x4000, 0x2000, 1, 0x2010][rng.usize(..6)].to_be_bytes();
    out.extend([0x40 | words, rng.u8(..), 0, rng.u8(..), 0, 1]);
    out.extend(fragment);
    out.extend([rng.u8(..), protocol(rng), 0, 0]);
    let addresses =
        [[198, 18, 0, 1], [198, 18, 0, 2], [198, 19, 1, 1], [10, 0, 0, 1], [224, 0, 0, 1]];
    for _ in 0..2 {
        out.extend(addresses[rng.usize(..addresses.len())]);
    }
    out.extend((20..4 * words).map(|_| rng.u8(..)));
    transport(rng, out);
}

fn ipv6(rng: &mut Rng, out: &mut Vec<u8>) {
    let next = [protocol(rng), 44, 0, 43][if rng.bool() { 0 } else { rng.usize(..4) }];
    out.extend([0x60, 0, 0, 0, 0, 20, next, 64]);
    for _ in 0..2 {
        let some = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "ff02::1", "fe80::1"];
        let address: std::net::Ipv6Addr = some[rng.usize(..some.len())].parse().unwrap();
        out.extend(address.octets());
    }
    if matches!(next, 0 | 43 | 44) {
        out.extend([protocol(rng), 0, 0, rng.u8(..2), 0, 0, 0, 1]);
    }
    transport(rng, out);
}

fn network(rng: &mut Rng, out: &mut Vec<u8>) -> u16 {
    match rng.u32(..8) {
        0..4 => {
            ipv4(rng, out);
            0x800
        }
        4..7 => {
            ipv6(rng, out);
            0x86dd
        }
        _ => {
            out.extend([0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 198, 18, 0, 1]);
            out.extend([2, 0, 0, 0, 0, 2, 198, 18, 0, 2]);
            if rng.bool() { 0x806 } else { 0x8035 }
        }
    }
}

fn packet(rng: &mut Rng, link: Link) -> Vec<u8> {
    let mut inner = Vec::new();
    let mut kind = network(rng, &mut inner);
    let mut out = Vec::new();
    if link == Link::Ethernet {
        let macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [0xff; 6], [3, 0, 0, 0, 0, 1]];
        out.extend(macs[rng.usize(..4)]);
        out.extend(macs[rng.usize(..4)]);
        for _ in 0..rng.u32(..6).saturating_sub(3) {
            let tags = [0x8100u16, 0x88a8, 0x9100];
            out.extend(tags[rng.usize(..3)].to_be_bytes());
            out.extend([rng.u8(..) & 0xf0, [1, 7, 2][rng.usize(..3)]]);
        }
        match rng.u32(..8) {
            0 => {
                out.extend([0x88, 0x47]);
                for last in [rng.bool(), true] {
                    out.extend([0, 0, [0x10, 0x70][rng.usize(..2)] | u8::from(last), 64]);
                    if last {
                        break;
                    }
                }
            }
            1 => {
                out.extend([0x88, 0x64, 0x11, 0, 0, [1, 7][rng.usize(..2)], 0, 40]);
                kind = if kind == 0x800 { 0x21 } else { 0x57 };
                out.extend(kind.to_be_bytes());
            }
            2 => out.extend(rng.u16(..1600).to_be_bytes()),
            _ => out.extend(kind.to_be_bytes()),
        }
    }
    out.extend(inner);
    if rng.u32(..4) == 0 {
        out.truncate(rng.usize(..=out.len()));
    }
    if rng.u32(..8) == 0 && !out.is_empty() {
        let at = rng.usize(..out.len());
        out[at] = rng.u8(..);
    }
    out
}

/// What tcpdump makes of a filter; `None` if it refuses it.
fn judge(text: &str, link: Link, more: &[&str]) -> Option<Vec<(u16, u8, u8, u32)>> {
    let link = match link {
        Link::Raw => "RAW",
        Link::Ethernet => "EN10MB",
    };
    let out = Command::new("tcpdump").args(["-y", link]).args(more).args(["-ddd", text]).output();
    let out = out.ok().filter(|out| out.status.success())?;
    let text = String::from_utf8(out.stdout).unwrap();
    let lines = text.lines().skip(1).map(|line| {
        let words: Vec<u32> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        (words[0] as u16, words[1] as u8, words[2] as u8, words[3])
    });
    Some(lines.collect())
}

fn ours(text: &str, link: Link) -> Result<Vec<(u16, u8, u8, u32)>, penstock_pcapfilter::Error> {
    Ok(compile(text, link)?.iter().map(|step| (step.code, step.jt, step.jf, step.k)).collect())
}

#[test]
fn programs_give_what_those_of_tcpdump_give() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        eprintln!("skipped: tcpdump is not installed");
        return;
    }
    let mut rng = Rng::with_seed(penstock_testkit::seed());
    let (mut pairs, mut matched, mut either, mut lengths) = (0, 0, 0, (0, 0));
    let mut long = 0;
    for _ in 0..penstock_testkit::rounds(150) {
        let link = if rng.bool() { Link::Raw } else { Link::Ethernet };
        let text = filter(&mut rng, 3, link);
        let Some(plain) = judge(&text, link, &["-O"]) else { continue };
        let Some(optimized) = judge(&text, link, &[]) else {
            // All packets or none, after the optimizer, which tcpdump says as an error.
            continue;
        };
        let ours = match ours(&text, link) {
            Ok(ours) => ours,
            // libpcap sees this only where a constant is written, not where one is worked out.
            Err(error) if error.why.contains("more than 31 bits") => continue,
            Err(error) => panic!("{text}\n{error}"),
        };
        lengths = (lengths.0 + ours.len(), lengths.1 + optimized.len());
        long += usize::from(ours.len() > 64 && optimized.len() <= 64);
        let program = BpfProgram::of_socket(&ours).unwrap_or_else(|why| panic!("{text}: {why}"));
        let (Ok(plain), Ok(optimized)) =
            (BpfProgram::of_socket(&plain), BpfProgram::of_socket(&optimized))
        else {
            continue;
        };
        for _ in 0..40 {
            let packet = packet(&mut rng, link);
            let (one, other) = (run(&optimized, &packet), run(&plain, &packet));
            pairs += 1;
            matched += usize::from(one);
            either += usize::from(one != other);
            let found = run(&program, &packet);
            assert!(
                found == one || found == other,
                "{link:?}: {text}\nof {packet:02x?}\nhere {found}, tcpdump {one}\n{ours:?}"
            );
        }
    }
    eprintln!(
        "{pairs} pairs, {matched} matched, {either} with two answers of tcpdump; instructions: \
         {} here, {} of tcpdump; too long for a rule only here: {long}",
        lengths.0, lengths.1
    );
    assert!(pairs > 1000 && matched > pairs / 50, "{pairs} pairs, {matched} matched");
}
