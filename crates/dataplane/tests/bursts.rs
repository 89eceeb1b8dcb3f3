// SPDX-License-Identifier: Apache-2.0

//! Bursts are what their frames are one by one: rulesets and frames by chance, by the interpreter
//! and by machine code, in bursts of all sizes, and always the same comes out, in the same order.

mod router;

use std::sync::Arc;

use fastrand::Rng;
use penstock_conntrack::Style;
use penstock_dataplane::{Dataplane, DropEvent, Engine, LogRecord, Settings, Sink, TraceRecord};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_net::{Link, Network};
use penstock_packet::{Meta, Packet};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_testkit::build::*;
use router::{NET, SECOND, START, Seen};

/// [`Seen`] with the known properties of frames and packets; for dropped packets only on request.
struct All(Seen, Drops);

/// Whether drops are reported one by one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Drops {
    Told,
    Counted,
}

impl All {
    fn note(&mut self, meta: &Meta) {
        self.0.lines.push(format!("{meta:?}"));
    }
}

impl Sink for All {
    fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
        self.0.transmit(device, frame, meta);
        self.note(meta);
    }
    fn deliver(&mut self, device: &Link, packet: &Packet) {
        self.0.deliver(device, packet);
        self.note(&packet.meta);
    }
    fn drop(&mut self, drop: &DropEvent<'_>, packet: &Packet) {
        if self.1 == Drops::Told {
            self.0.drop(drop, packet);
            self.note(&packet.meta);
        }
    }
    fn drop_several(&mut self, _drop: &DropEvent<'_>, packets: u64) -> bool {
        assert!(packets > 0);
        self.1 == Drops::Counted
    }
    fn log(&mut self, record: &LogRecord<'_>, packet: &Packet) {
        self.0.log(record, packet);
    }
    fn trace(&mut self, record: &TraceRecord<'_>, packet: &Packet) {
        self.0.trace(record, packet);
    }
}

/// Rules of which some pass packets apart from each other and some do not.
const RULES: [&str; 12] = [
    "",
    "table netdev t {
        set p { type inet_service; elements = { 9, 11, 13, 15, 17, 19, 21, 23, 25, 27 } }
        chain c { type filter hook ingress devices = { wan, lan } priority 0
            udp dport @p counter drop
            ip ttl 3 counter meta mark set 7
            tcp dport vmap { 9 : drop, 11 : jump more }
            ip6 hoplimit 3 drop
            vlan id 7 counter
        }
        chain more { ip saddr 198.18.0.7 counter meta priority set 1:2 return; drop; }
    }",
    "table netdev t {
        chain c { type filter hook ingress devices = { wan, lan } priority 0; policy drop
            limit rate 3/second burst 5 packets counter accept
            udp dport 9 log prefix \"nine\" counter
            ip protocol icmp counter meta nftrace set 1
        }
    }
    table ip t { chain f { type filter hook forward priority 0; ip ttl 2 counter drop; }; }",
    "table netdev t {
        chain a { type filter hook ingress device wan priority 0; ip saddr 198.18.0.8 drop; counter ip ttl set 60; }
        chain b { type filter hook ingress device wan priority 1; udp dport 11 meta pkttype set other; ip ttl 60 counter; }
        chain e { type filter hook egress device lan priority 0; udp dport 13 counter drop; }
    }
    table inet t {
        chain f { type filter hook forward priority 0; policy drop; ct state established,related counter accept; ct state new accept; }
    }",
    "table inet t {
        set p { type ipv4_addr . inet_service; flags interval; elements = { 198.18.0.0/29 . 7-11, 198.18.0.9 . 9 } }
        chain i { type filter hook ingress devices = { wan, lan } priority 0; policy drop
            ip ttl 5 counter drop
            ip saddr . udp dport @p drop
            ip6 hoplimit 3 accept
            tcp dport 11 counter meta mark set 4
            meta nfproto ipv4 counter accept
        }
    }
    table netdev t { chain j { type filter hook ingress device wan priority 1; ip ttl 2 counter drop; }; }",
    "table inet t {
        set s { type ipv4_addr; flags dynamic; size 4; timeout 1s; }
        chain i { type filter hook ingress device wan priority 0; ip saddr @s counter drop; ip ttl 5 drop; }
        chain p { type filter hook prerouting priority 0; ip protocol icmp add @s { ip saddr }; }
        chain q { type filter hook postrouting priority 0; counter; }
    }",
    "table inet t {
        set s { type ipv4_addr . inet_service; flags dynamic; size 4; timeout 2s; }
        set w { type ipv6_addr; flags dynamic; size 4; timeout 100ms; }
        set c { type inet_service; flags dynamic; size 8; }
        chain i { type filter hook ingress devices = { wan, lan } priority 0
            ip saddr . udp dport @s counter drop
            ip6 saddr != @w ip6 hoplimit 5 counter drop
            tcp dport @c counter drop
        }
        chain p { type filter hook prerouting priority 0
            ip ttl 64 update @s { ip saddr . udp dport }
            ip6 hoplimit 64 add @w { ip6 saddr }
            ip ttl 2 delete @s { ip saddr . udp dport }
            ip ttl 1 add @c { tcp dport }
        }
    }",
    "table ip t {
        chain n { type nat hook postrouting priority srcnat; oifname lan masquerade; }
        chain d { type nat hook prerouting priority dstnat; udp dport 11 dnat to 198.18.1.7:9; }
        chain f { type filter hook forward priority 0; ct state invalid counter drop; meta random 0x3fffffff counter; }
    }",
    "table netdev t {
        chain c { type filter hook ingress device wan priority 0; ip frag-off & 0x1fff != 0 counter; ip ttl 1 drop; }
    }
    table ip6 t { chain i { type filter hook input priority 0; ct state established counter; counter; }; }",
    FRAMES[0],
    FRAMES[1],
    FRAMES[2],
];

/// Rules at ingress that ask for nothing but frames.
const FRAMES: [&str; 3] = [
    "table netdev t {
        set p { type inet_service; elements = { 9, 21, 23, 25, 27, 29, 31, 33, 35, 37 } }
        chain c { type filter hook ingress devices = { wan, lan } priority 0
            ip saddr 198.18.0.8 counter drop
            udp dport @p counter drop
            tcp dport vmap { 9 : drop, 11 : jump more }
            ip6 hoplimit 3 counter drop
            ip frag-off & 0x1fff != 0 counter
            meta protocol ip meta length > 40 counter
        }
        chain more { ip ttl 5 counter return; ip ttl { 2, 3 } drop; counter; }
        chain d { type filter hook ingress device lan priority 1; policy drop; ip ttl 1 counter drop; ip ttl < 9 accept; ip6 version 6 accept; arp operation request accept; }
    }
    table ip t { chain f { type filter hook forward priority 0; ct state established counter accept; meta l4proto tcp drop; }; }",
    "table inet t {
        set s { type ipv4_addr . inet_service; flags interval; elements = { 198.18.0.0/29 . 7-11, 198.18.0.9 . 9 } }
        chain i { type filter hook ingress devices = { wan, lan } priority 0; policy drop
            ip saddr . udp dport @s counter drop
            ip6 hoplimit 5 counter drop
            meta l4proto { icmp, tcp } counter accept
            ip6 nexthdr udp accept
            udp sport 1000-1001 accept
        }
    }
    table netdev t { chain j { type filter hook ingress device wan priority 1; ip ttl 2 counter drop; }; }",
    "table netdev t {
        chain c { type filter hook ingress device wan priority 0; udp dport 9 counter drop; }
        chain e { type filter hook egress device lan priority 0; udp dport 13 counter drop; }
    }
    table ip t {
        chain n { type nat hook postrouting priority srcnat; oifname lan masquerade; }
        chain f { type filter hook forward priority 0; ct state new counter; meta nftrace set 1; }
    }",
];

/// A chain that is long enough to be searched, before another one.
fn long_chain() -> String {
    let mut rules = String::new();
    for n in 0..300 {
        let verdict = ["", "drop", "meta mark set 5", "accept", "ip ttl set 9"][n % 5];
        rules += &match n % 3 {
            0 => {
                format!("ip saddr 198.18.0.{}/31 udp sport {} counter {verdict}\n", n % 10, 990 + n)
            }
            1 => format!("tcp dport {}-{} ip ttl {} counter {verdict}\n", n % 9, n % 9 + 3, n % 6),
            _ => format!("ip daddr 198.18.1.{} udp dport {} counter\n", n % 9, 7 + n % 10),
        };
    }
    format!(
        "table netdev t {{
            chain c {{ type filter hook ingress devices = {{ wan, lan }} priority 0
            {rules}
            }}
            chain d {{ type filter hook ingress device wan priority 1; ip ttl 9 counter drop; }}
        }}"
    )
}

fn session(ruleset: &mut Ruleset, text: &str) -> String {
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text.to_owned(), ruleset, START);
    assert!(outcome.ok, "{text}\n{}", outcome.stderr);
    outcome.stdout
}

/// A frame that is mostly good.
fn frame(rng: &mut Rng) -> Vec<u8> {
    let source = ["02:00:00:00:00:a7", "02:00:00:00:00:b7"][rng.usize(..2)];
    let target =
        ["02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03", "ff:ff:ff:ff:ff:ff"];
    let targets = 2 + rng.usize(..3);
    let mut link = Frame::from(Ethernet::new(source, target[rng.usize(..targets)]));
    match rng.u32(..8) {
        0 => link = link / Vlan::new(7),
        1 => link = link / Vlan::new(rng.u16(0..9)).priority(rng.u8(..8)),
        2 if rng.bool() => link = link / Vlan::new(0) / Vlan::new(7),
        _ => {}
    }
    let (ttl, port) = ([1, 2, 3, 5, 64][rng.usize(..5)], 7 + 2 * rng.u16(..5));
    let frame = if rng.u32(..4) > 0 {
        let hosts = [
            "198.18.0.7",
            "198.18.0.8",
            "198.18.1.7",
            "198.18.1.1",
            "198.19.0.5",
            "198.19.1.5",
            "198.18.7.7",
        ];
        let (from, to) = (hosts[rng.usize(..3)], hosts[rng.usize(..hosts.len())]);
        let mut ip = Ipv4::new(from, to).ttl(ttl);
        if rng.u32(..6) == 0 {
            ip = ip.id(rng.u16(..3)).fragment(rng.u16(..2) * 3, rng.bool());
        }
        if rng.u32(..12) == 0 {
            ip = ip.total_len(rng.u16(..60));
        }
        match rng.u32(..4) {
            0 => link / ip / Icmp::new(8, 0) / payload([1; 16]),
            1 => {
                link / ip
                    / Tcp::new(1000 + rng.u16(..3), port).flags(rng.u8(..) & 0x16)
                    / payload([1; 4])
            }
            _ => link / ip / Udp::new(1000 + rng.u16(..3), port) / payload([2; 16]),
        }
    } else {
        let hosts = ["2001:db8::7", "2001:db8:1::7", "2001:db8:1::1", "2001:db8:9::5"];
        let ip = Ipv6::new(hosts[rng.usize(..2)], hosts[rng.usize(..4)]).hop_limit(ttl);
        match rng.u32(..3) {
            0 => {
                link / ip
                    / Fragment::new(rng.u16(..2) * 2, rng.bool(), rng.u32(..2))
                    / Udp::new(1, port)
                    / payload([3; 16])
            }
            _ => link / ip / Udp::new(1000, port) / payload([3; 16]),
        }
    };
    let mut bytes = frame.build();
    if rng.u32(..10) == 0 {
        bytes.truncate(rng.usize(..=bytes.len()));
    }
    if rng.u32(..30) == 0 {
        bytes = (0..rng.usize(..80)).map(|_| rng.u8(..)).collect();
    }
    bytes
}

/// Rules for connections that continue.
const STATEFUL: [&str; 8] = [
    "table ip t {
        chain f { type filter hook forward priority 0; policy drop; ct state established,related accept; ct state new counter accept; }
    }",
    "table ip t {
        chain n { type nat hook postrouting priority srcnat; oifname lan masquerade; }
        chain d { type nat hook prerouting priority dstnat; udp dport 11 dnat to 198.18.1.7:9; }
        chain f { type filter hook forward priority 0; ct state established counter accept; tcp dport 13 drop; }
    }",
    "table ip t {
        chain d { type nat hook prerouting priority dstnat; ip daddr 198.19.0.5 dnat to 198.18.1.7; }
        chain p { type filter hook postrouting priority 0; ct state new counter; ip ttl set 7; }
        chain f { type filter hook forward priority 0; limit rate 40/second counter accept; ct mark set 5; udp dport 9 ip daddr set 198.18.1.8; }
    }",
    "table inet t {
        chain p { type filter hook prerouting priority -300; udp dport 9 notrack; tcp dport 9 ip ttl set 2; }
        chain f { type filter hook forward priority 0; ct state untracked counter accept; meta mark set ct mark; ct state invalid counter drop; }
        chain n { type nat hook postrouting priority srcnat; meta l4proto { tcp, udp } snat ip to 198.18.1.9-198.18.1.12:2000-2003; }
    }",
    "table ip t {
        ct helper h { type \"tftp\" protocol udp; }
        chain p { type filter hook prerouting priority 0; udp dport 11 ct helper set \"h\"; ct state new ct label set 7; }
        chain e { type filter hook output priority 0; counter; }
        chain f { type filter hook forward priority 0; tcp flags & (fin|rst) != 0 reject with tcp reset; udp dport 13 queue num 3 bypass; }
    }",
    "table netdev t {
        chain e { type filter hook egress device lan priority 0; ip ttl 63 counter; udp dport 9 drop; }
    }
    table ip t {
        chain f { type filter hook forward priority 0; udp dport 7 jump { ct direction reply counter accept; drop; }; meta nftrace set 1; }
    }",
    EGRESS,
    "table netdev t {
        chain e { type filter hook egress devices = { wan, lan } priority 0; tcp dport 9 counter drop; meta l4proto udp counter; }
    }
    table ip t {
        chain f { type filter hook forward priority 0; udp dport 9 ip protocol set 6; tcp dport 11 ip length set 30; }
    }",
];

/// Chains that packets meet on their way out only.
const EGRESS: &str = "table netdev t {
        chain e { type filter hook egress device lan priority 0; ip ttl 63 counter; udp dport 9 drop; tcp dport 11 log counter;
            udp dport 13 meta mark set 3 ip dscp set 8; udp dport 7 meta nftrace set 1; }
        chain w { type filter hook egress device wan priority 0; tcp sport 9 ip ttl set 9; limit rate 40/second counter drop; }
    }";

/// Traffic control that some of them meet.
const TC: &str = "qdisc add dev lan clsact
filter add dev lan egress protocol ip u32 match u32 0x3f000000 0xff000000 at 8 action pass
qdisc add dev wan clsact
filter add dev wan ingress protocol ip u32 match u32 0x00100000 0x00100000 at 0 action drop
filter add dev wan egress protocol ip matchall action mirred egress redirect dev lan
qdisc add dev lan root handle 1: pfifo limit 4
";

/// A frame of one of a few connections, in either direction, and the device by which it comes.
fn conversation(rng: &mut Rng) -> (u32, Vec<u8>) {
    let (client, server) =
        (["198.18.0.7", "198.18.0.8"][rng.usize(..2)], ["198.18.1.7", "198.19.0.5"]);
    let server = server[rng.usize(..2)];
    let (port, service) = (1000 + rng.u16(..2), 7 + 2 * rng.u16(..4));
    let there = rng.u32(..3) > 0;
    let (link, from, to) = if there {
        (router::from_wan(), client, server)
    } else {
        let translated = ["198.18.1.1", "198.18.1.9", "198.18.1.10"][rng.usize(..3)];
        (router::from_lan(), server, if rng.bool() { client } else { translated })
    };
    let (source, target) =
        if there { (port, service) } else { (service, [port, 2000][rng.usize(..2)]) };
    let ttl = if rng.u32(..20) == 0 { rng.u8(1..3) } else { 64 };
    let mut ip = Ipv4::new(from, to).ttl(ttl).tos(rng.u8(..));
    if rng.bool() {
        ip = ip.df();
    }
    let bytes = if rng.u32(..30) == 0 { 1380 } else { rng.usize(..40) };
    let mut frame = if rng.bool() {
        let flags =
            if rng.u32(..8) == 0 { rng.u8(..32) } else { [0x02, 0x12, 0x10, 0x18][rng.usize(..4)] };
        let tcp = Tcp::new(source, target).flags(flags).seq(rng.u32(..9)).ack(rng.u32(..9));
        (link / ip / tcp / payload(vec![5; bytes])).build()
    } else {
        (link / ip / Udp::new(source, target) / payload(vec![6; bytes])).build()
    };
    match rng.u32(..40) {
        0 => frame[rng.usize(..40)] ^= 1 << rng.u32(..8),
        1 => frame.truncate(rng.usize(..=frame.len())),
        2..12 => frame.resize(frame.len() + rng.usize(..20), 0xee),
        _ => {}
    }
    (if there { 2 } else { 3 }, frame)
}

/// What came of all frames, in bursts as `sizes` gives them.
fn outcome(
    (rules, tc): (&str, &str),
    engine: Engine,
    frames: &[(u32, Vec<u8>, u64)],
    drops: Drops,
    mut size: impl FnMut() -> usize,
) -> Vec<String> {
    let net = Network::from_batch("net.ip", NET).unwrap();
    let devices = net.clone();
    let mut path =
        Dataplane::new(Arc::new(net), Settings { host_extensions: true, ..Settings::default() });
    path.seed(7);
    path.set_engine(engine);
    if !tc.is_empty() {
        let device = |name: &str| devices.link_by_name(name).map(|l| l.index);
        path.set_tc(Arc::new(penstock_tc::Config::from_batch("tc", tc, device).unwrap()));
    }
    let mut ruleset = Ruleset::default();
    session(&mut ruleset, rules);
    path.set_rules(Arc::new(Linked::new(&ruleset.generation()).unwrap()));
    let mut all = All(Seen::default(), drops);
    let mut rest = frames;
    while !rest.is_empty() {
        let (burst, others) = rest.split_at(size().clamp(1, rest.len()));
        path.receive(
            burst.iter().map(|(device, bytes, time)| penstock_dataplane::Frame {
                device: *device,
                bytes,
                time: *time,
            }),
            &mut all,
        );
        rest = others;
    }
    assert_eq!(path.compile_error(), None);
    let mut lines = all.0.lines;
    lines.push(format!("{:?}", path.counters()));
    lines.push(session(&mut ruleset, "list ruleset"));
    let mut connections: Vec<_> =
        path.conntrack().iter().map(|c| c.line(Style::default()).to_string()).collect();
    connections.sort();
    lines.extend(connections);
    lines
}

/// In bursts of any size, by any engine, the same comes of frames.
fn compare(rules: &str, frames: &[(u32, Vec<u8>, u64)], rng: &mut Rng) {
    compare_with((rules, ""), frames, rng);
}

/// The same with traffic control.
fn compare_with(rules: (&str, &str), frames: &[(u32, Vec<u8>, u64)], rng: &mut Rng) {
    let drops = [Drops::Told, Drops::Counted][rng.usize(..2)];
    let wanted = outcome(rules, Engine::Interpreter, frames, drops, || 1);
    assert!(wanted.len() > if drops == Drops::Told { 600 } else { 10 }, "{}", wanted.len());
    for engine in [Engine::Interpreter, Engine::JitAtOnce] {
        let most = [2, 10, 64, 200][rng.usize(..4)];
        let got = outcome(rules, engine, frames, drops, || rng.usize(..most));
        let same = wanted.iter().zip(&got).take_while(|(a, b)| a == b).count();
        assert!(
            wanted == got,
            "{engine:?} bursts up to {most}\n{rules:?}\nwanted {:#?}\ngot {:#?}",
            wanted.get(same),
            got.get(same)
        );
    }
}

/// Time from a frame to the next, mostly little.
fn pause(rng: &mut Rng) -> u64 {
    let rarely = if rng.u32(..8) == 0 { 4 } else { 0 };
    [0, 0, 1000, SECOND / 1000, SECOND / 10, 2 * SECOND, 31 * SECOND][rng.usize(..3 + rarely)]
}

#[test]
fn a_burst_gives_the_results_of_single_frames() {
    let mut rng = Rng::with_seed(penstock_testkit::seed());
    for round in 0..4 {
        println!("round {round}");
        let mut time = START;
        let frames: Vec<_> = (0..600)
            .map(|_| {
                time += pause(&mut rng);
                (1 + rng.u32(1..3), frame(&mut rng), time)
            })
            .collect();
        for rules in RULES.into_iter().chain([&*long_chain()]) {
            compare(rules, &frames, &mut rng);
        }
    }
}

#[test]
fn bursts_of_established_connections_give_the_results_of_single_frames() {
    let mut rng = Rng::with_seed(penstock_testkit::seed());
    for round in 0..4 {
        println!("round {round}");
        let mut time = START;
        let frames: Vec<_> = (0..1000)
            .map(|_| {
                time += pause(&mut rng) / 4;
                let (device, frame) = conversation(&mut rng);
                (device, frame, time)
            })
            .collect();
        for rules in STATEFUL.into_iter().chain(FRAMES).chain([""]) {
            compare(rules, &frames, &mut rng);
        }
    }
}

#[test]
fn traffic_control_sees_the_packets_of_a_burst_in_order() {
    let mut rng = Rng::with_seed(penstock_testkit::seed());
    let mut time = START;
    let frames: Vec<_> = (0..1500)
        .map(|_| {
            time += pause(&mut rng);
            let (device, frame) = conversation(&mut rng);
            (device, frame, time)
        })
        .collect();
    for rules in ["", EGRESS, FRAMES[0]] {
        compare_with((rules, TC), &frames, &mut rng);
    }
}
