// SPDX-License-Identifier: Apache-2.0

//! Connections remember the way of their packets, and nobody can tell: connections by chance, with
//! rules, routes, neighbours, marks and taps that change in between, by the interpreter packet by
//! packet and by machine code in bursts, where ways are remembered from the second packet on.

mod router;

use std::sync::Arc;

use fastrand::Rng;
use penstock_conntrack::Style;
use penstock_dataplane::{Dataplane, DropEvent, Engine, Frame, Settings, Sink};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_net::{Link, Network};
use penstock_packet::{Meta, Packet};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_testkit::build::*;
use router::{NET, SECOND, START, Seen, from_lan, from_wan};

/// [`Seen`] with the metadata of frames.
#[derive(Default)]
struct All(Seen);

impl Sink for All {
    fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
        self.0.transmit(device, frame, meta);
        self.0.lines.push(format!("{meta:?}"));
    }
    fn tap(&mut self, device: &Link, frame: &[u8], _meta: &Meta, outgoing: bool) {
        self.0.lines.push(format!("tap {} {outgoing} {}", device.name, frame.len()));
    }
    fn deliver(&mut self, device: &Link, packet: &Packet) {
        self.0.deliver(device, packet);
    }
    fn drop(&mut self, drop: &DropEvent<'_>, packet: &Packet) {
        self.0.drop(drop, packet);
    }
}

/// What may happen between two packets.
#[derive(Debug)]
enum Step {
    Frame { device: &'static str, bytes: Vec<u8>, time: u64 },
    Rules(&'static str),
    Net(String),
    Mark(u32),
    Taps(&'static [&'static str]),
}

/// Rules of many kinds, most of which are the same for all packets of a connection.
const RULES: [&str; 10] = [
    "table inet t {
        chain f { type filter hook forward priority 0; policy drop; ct state established,related counter accept; ct state new counter accept; }
    }",
    "table inet t {
        set s { type inet_service; elements = { 7, 9 }; }
        counter c { }
        chain f { type filter hook forward priority 0; policy drop
            ct state vmap { established : jump e, related : accept, new : accept, invalid : drop }
        }
        chain e { ct direction reply counter return; th dport @s counter name c goto more; counter accept; }
        chain more { ip saddr 198.18.0.7 counter; ip6 saddr 2001:db8::7 counter; }
        chain p { type filter hook postrouting priority 0; oifname lan counter; }
    }",
    "table ip t {
        chain n { type nat hook postrouting priority srcnat; oifname lan masquerade; }
        chain d { type nat hook prerouting priority dstnat; ip daddr 198.19.0.5 dnat to 198.18.1.7; }
        chain f { type filter hook forward priority 0; ct status dnat counter; ip daddr 198.18.1.7 counter accept; counter; }
        chain q { type filter hook postrouting priority 200; ip saddr 198.18.1.1 counter; }
    }
    table netdev e { chain e { type filter hook egress device lan priority 0; counter; ip saddr 198.18.1.1 counter; }; }",
    "table ip t {
        chain f { type filter hook forward priority 0; ct mark 5 counter accept; ct mark 6 meta mark set ct mark counter accept; ct direction original ct mark set 5; }
    }",
    "table inet t {
        chain f { type filter hook forward priority 0; meta mark set ct mark; meta mark 7 drop; ct state established counter accept; limit rate 3/second counter accept; tcp flags syn counter accept; }
    }",
    "table inet t {
        chain f { type filter hook forward priority 0; meta length > 60 counter; ip ttl 64 counter; }
    }",
    "table inet t {
        chain p { type filter hook prerouting priority 0; ct state established counter; ct state invalid counter; udp sport 9 meta mark set 3; }
        chain f { type filter hook forward priority 0; meta mark set 0x10; fib daddr type unicast counter accept; }
    }",
    "table inet t {
        map m { type ipv4_addr : verdict; elements = { 198.18.0.7 : accept, 198.18.1.7 : jump c }; }
        chain c { udp sport 7-9 counter accept; iifname lan oifname wan iiftype ether counter; }
        chain f { type filter hook forward priority 0; policy drop; ip saddr vmap @m; meta nfproto ipv6 accept; ct state established jhash ip saddr mod 4 seed 3 { 0, 1 } counter accept; accept; }
    }",
    "table ip6 t {
        chain n { type nat hook postrouting priority srcnat; oifname lan snat to 2001:db8:1::1; }
        chain f { type filter hook forward priority 0; ip6 hoplimit 64 counter; ip6 daddr 2001:db8:1::7 counter accept; }
    }",
    "table inet t {
        chain n { type nat hook postrouting priority srcnat; meta l4proto { tcp, udp } snat ip to 198.18.1.9-198.18.1.12:2000-2003; }
        chain f { type filter hook forward priority 0; ct id != 0 ct protocol udp ct original ip saddr 198.18.0.7 counter; ct state new ct label set 7; }
    }",
];

/// The same with something changed.
fn network(rng: &mut Rng) -> String {
    let changes = [
        (
            "neigh add 198.18.1.7 lladdr 02:00:00:00:00:b7",
            "neigh add 198.18.1.7 lladdr 02:00:00:00:00:b8",
        ),
        ("neigh add 198.18.0.7 lladdr 02:00:00:00:00:a7 dev wan\n", ""),
        ("mtu 1400", "mtu 1300"),
        ("route add 198.19.0.0/24 via 198.18.1.7", "route add 198.19.0.0/24 via 198.18.7.7"),
        ("route add 198.19.0.0/24 via 198.18.1.7", "route add blackhole 198.19.0.0/24"),
        ("addr add 198.18.1.1/24", "addr add 198.18.1.2/24"),
    ];
    let (from, to) = changes[rng.usize(..changes.len())];
    if rng.bool() { NET.to_owned() } else { NET.replace(from, to) }
}

/// A frame of one of a few connections, in either direction.
fn conversation(rng: &mut Rng, time: u64) -> Step {
    let port = 1000 + u16::from(rng.u8(..6) == 0);
    let service = 7 + 2 * rng.u16(..2);
    let there = rng.bool();
    let bytes = if rng.u32(..40) == 0 { 1340 } else { rng.usize(..40) };
    let (source, target) = if there {
        (port, service)
    } else {
        (service, [port, 2000 + rng.u16(..4)][rng.usize(..2)])
    };
    let link = if there { from_wan() } else { from_lan() };
    let network: penstock_testkit::build::Frame = if rng.u32(..4) == 0 {
        let (client, server) = ("2001:db8::7", "2001:db8:1::7");
        let (from, to) = if there {
            (client, server)
        } else {
            (server, [client, "2001:db8:1::1"][rng.usize(..2)])
        };
        link / Ipv6::new(from, to)
    } else {
        let client = ["198.18.0.7", "198.18.0.8"][usize::from(rng.u8(..8) == 0)];
        let server = ["198.18.1.7", "198.19.0.5"][rng.usize(..2)];
        let (from, to) = if there {
            (client, server)
        } else {
            let translated = ["198.18.1.1", "198.18.1.9", "198.18.1.10"][rng.usize(..3)];
            (server, if rng.u32(..3) > 0 { client } else { translated })
        };
        let ttl = if rng.u32(..30) == 0 { rng.u8(1..3) } else { 64 };
        link / Ipv4::new(from, to).ttl(ttl).tos(if rng.u8(..4) == 0 { rng.u8(..) } else { 0 })
    };
    let mut frame = if rng.u32(..3) == 0 {
        let flags = [0x02, 0x12, 0x10, 0x10, 0x18, 0x11, 0x04];
        let kinds = if rng.u8(..9) == 0 { 7 } else { 5 };
        let flags = flags[rng.usize(..kinds)];
        let tcp = Tcp::new(source, target).flags(flags).seq(rng.u32(..9)).ack(rng.u32(..9));
        (network / tcp / payload(vec![5; bytes])).build()
    } else if rng.u8(..9) == 0 {
        (network / Udp::new(source, target).checksum(0) / payload(vec![6; bytes])).build()
    } else {
        (network / Udp::new(source, target) / payload(vec![6; bytes])).build()
    };
    match rng.u32(..60) {
        0 => frame[14 + rng.usize(..28)] ^= 1 << rng.u32(..8),
        1..12 => frame.resize(frame.len() + rng.usize(..20), 0xee),
        _ => {}
    }
    Step::Frame { device: if there { "wan" } else { "lan" }, bytes: frame, time }
}

/// Packets with changes in between.
fn steps(rng: &mut Rng) -> Vec<Step> {
    let mut time = START;
    let mut all = vec![Step::Rules(RULES[rng.usize(..RULES.len())])];
    for _ in 0..700 {
        let pauses = if rng.u32(..60) == 0 { 6 } else { 4 };
        time +=
            [0, 1000, SECOND / 1000, SECOND / 1000, 3 * SECOND, 31 * SECOND][rng.usize(..pauses)];
        all.push(match rng.u32(..400) {
            0 | 1 => Step::Rules(RULES[rng.usize(..RULES.len())]),
            2 | 3 => Step::Net(network(rng)),
            4 | 5 => Step::Mark(rng.u32(4..8)),
            6 => Step::Taps([&["lan"][..], &["wan"]][rng.usize(..2)]),
            7..15 => Step::Taps(&[]),
            _ => conversation(rng, time),
        });
    }
    all
}

fn session(ruleset: &mut Ruleset, text: &str) -> String {
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames);
    let outcome = session.run(Origin::CommandLine, text.to_owned(), ruleset, START);
    assert!(outcome.ok, "{text}\n{}", outcome.stderr);
    outcome.stdout
}

/// What came of all steps, with frames in bursts as `size` gives them, and for how many packets a
/// way was remembered.
fn outcome(engine: Engine, steps: &[Step], mut size: impl FnMut() -> usize) -> (Vec<String>, u64) {
    let net = Arc::new(Network::from_batch("net.ip", NET).unwrap());
    let mut path = Dataplane::new(net.clone(), Settings::default());
    path.seed(7);
    path.set_engine(engine);
    let index = |device: &str| net.link_by_name(device).unwrap().index;
    let mut ruleset = Ruleset::default();
    let mut all = All::default();
    let mut time = START;
    let mut rest = steps;
    while let Some(step) = rest.first() {
        rest = &rest[1..];
        match step {
            Step::Frame { device, bytes, time: now } => {
                time = *now;
                let mut burst =
                    vec![penstock_dataplane::Frame { device: index(device), bytes, time }];
                let most = size();
                while burst.len() < most
                    && let Some(Step::Frame { device, bytes, time: now }) = rest.first()
                {
                    time = *now;
                    burst.push(Frame { device: index(device), bytes, time });
                    rest = &rest[1..];
                }
                path.receive(burst, &mut all);
            }
            Step::Rules(rules) => {
                all.0.lines.push(session(&mut ruleset, "list ruleset"));
                session(&mut ruleset, &format!("flush ruleset\n{rules}"));
                path.set_rules(Arc::new(Linked::new(&ruleset.generation()).unwrap()));
            }
            Step::Net(net) => {
                let net = Network::from_batch("net.ip", net).unwrap();
                path.set_network(Arc::new(net), time, &mut all);
            }
            Step::Mark(mark) => {
                let table = path.conntrack_mut();
                let numbers: Vec<_> = table.iter().map(|c| c.number()).collect();
                numbers.into_iter().for_each(|n| table.set_mark(n, *mark));
            }
            Step::Taps(devices) => {
                path.set_taps(&devices.iter().map(|device| index(device)).collect::<Vec<_>>());
            }
        }
    }
    assert_eq!(path.compile_error(), None);
    let mut lines = all.0.lines;
    lines.push(format!("{:?}", path.counters()));
    lines.push(session(&mut ruleset, "list ruleset"));
    let connections = path.conntrack().iter().map(|c| c.line(Style::default()).to_string());
    let mut connections: Vec<_> = connections.collect();
    connections.sort();
    lines.extend(connections);
    (lines, path.remembered_ways().packets)
}

#[test]
fn nobody_can_tell_whether_a_way_was_remembered() {
    let mut rng = Rng::with_seed(penstock_testkit::seed());
    let mut held = 0;
    let rounds = std::env::var("PENSTOCK_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(24);
    for round in 0..rounds {
        let steps = steps(&mut rng);
        let (wanted, none) = outcome(Engine::Interpreter, &steps, || 1);
        assert_eq!(none, 0);
        let most = [2, 10, 64, 200][rng.usize(..4)];
        let (got, by_ways) = outcome(Engine::JitAtOnce, &steps, || rng.usize(..most));
        held += by_ways;
        let same = wanted.iter().zip(&got).take_while(|(a, b)| a == b).count();
        assert!(
            wanted == got,
            "round {round}, bursts up to {most}\nafter {:#?}\nwanted {:#?}\ngot {:#?}",
            wanted.get(same.saturating_sub(2)..same),
            wanted.get(same),
            got.get(same)
        );
    }
    assert!(held > 30 * rounds, "{held}");
}

/// Packets from `wan` of one connection that was answered, after the first of which a way may be
/// remembered, and what comes of them.
struct Flow {
    path: Dataplane,
    ruleset: Ruleset,
    seen: Seen,
}

impl Flow {
    fn new(rules: &str) -> Flow {
        let net = Arc::new(Network::from_batch("net.ip", NET).unwrap());
        let mut path = Dataplane::new(net, Settings::default());
        path.set_engine(Engine::JitAtOnce);
        let mut flow = Flow { path, ruleset: Ruleset::default(), seen: Seen::default() };
        flow.rules(rules);
        flow.send("wan");
        flow.send("lan");
        flow.send("wan");
        flow
    }

    fn rules(&mut self, rules: &str) {
        session(&mut self.ruleset, rules);
        self.path.set_rules(Arc::new(Linked::new(&self.ruleset.generation()).unwrap()));
    }

    /// What comes of one more packet, and whether its way was remembered.
    fn send(&mut self, device: &str) -> (Vec<String>, bool) {
        let udp = |a, b| Udp::new(a, b) / payload([1; 20]);
        let bytes = match device {
            "wan" => (from_wan() / Ipv4::new("198.18.0.7", "198.18.1.7") / udp(1000, 9)).build(),
            _ => (from_lan() / Ipv4::new("198.18.1.7", "198.18.0.7") / udp(9, 1000)).build(),
        };
        let before = self.path.remembered_ways().packets;
        let device = self.path.network().link_by_name(device).unwrap().index;
        let frames = [Frame { device, bytes: &bytes, time: START }];
        self.path.receive(frames, &mut self.seen);
        let held = self.path.remembered_ways().packets - before;
        (std::mem::take(&mut self.seen.lines), held == 1)
    }
}

const STATEFUL: &str = "table ip t {
    chain f { type filter hook forward priority 0; policy drop; ct state established counter accept; ct state new accept; }
}";

#[test]
fn a_way_is_remembered_from_the_packet_on_that_follows_the_answer() {
    let mut flow = Flow::new(STATEFUL);
    for _ in 0..3 {
        let (lines, held) = flow.send("wan");
        assert!(held && lines.len() == 1 && lines[0].starts_with("lan"), "{lines:?}");
    }
    let listed = session(&mut flow.ruleset, "list ruleset");
    assert!(listed.contains("counter packets 5 bytes 240"), "{listed}");
}

#[test]
fn a_rule_counts_for_the_next_packet() {
    let mut flow = Flow::new(STATEFUL);
    assert!(flow.send("wan").1);
    flow.rules("insert rule ip t f udp dport 9 drop");
    let (lines, held) = flow.send("wan");
    assert!(!held && lines[0].starts_with("drop"), "{lines:?}");
}

#[test]
fn an_element_of_a_set_counts_for_the_next_packet() {
    let mut flow = Flow::new(
        "table ip t {
            set s { type ipv4_addr; }
            chain f { type filter hook forward priority 0; ct state invalid drop; ip saddr @s drop; }
        }",
    );
    assert!(flow.send("wan").1);
    flow.rules("add element ip t s { 198.18.0.7 }");
    let (lines, _) = flow.send("wan");
    assert!(lines[0].starts_with("drop"), "{lines:?}");
}

#[test]
fn a_neighbour_counts_for_the_next_packet() {
    let mut flow = Flow::new(STATEFUL);
    assert!(flow.send("wan").0[0].starts_with("lan: to b7"));
    let net = NET.replace("00:b7 dev lan", "00:b9 dev lan");
    let net = Arc::new(Network::from_batch("net.ip", &net).unwrap());
    flow.path.set_network(net, START, &mut flow.seen);
    assert!(flow.send("wan").0[0].starts_with("lan: to b9"));
}

#[test]
fn a_mark_counts_for_the_next_packet() {
    let mut flow = Flow::new(
        "table ip t { chain f { type filter hook forward priority 0; ct mark 7 drop; }; }",
    );
    assert!(flow.send("wan").1);
    let table = flow.path.conntrack_mut();
    let n = table.iter().next().unwrap().number();
    table.set_mark(n, 7);
    let (lines, held) = flow.send("wan");
    assert!(!held && lines[0].starts_with("drop"), "{lines:?}");
}

#[test]
fn rules_that_look_at_each_packet_are_asked_for_each() {
    for rules in [
        "meta length > 100 drop",
        "ip ttl 3 drop",
        "limit rate over 1000/second drop",
        "ip dscp 3 drop",
        "ct packets > 1000 drop",
        "meta random < 5 counter",
        "meta hour \"00:00\"-\"01:00\" counter",
        "udp length 9 drop",
        "log",
    ] {
        let chain = format!(
            "table ip t {{ chain f {{ type filter hook forward priority 0; ct state new accept; {rules}; }}; }}"
        );
        let mut flow = Flow::new(&chain);
        flow.send("lan");
        let (lines, held) = flow.send("wan");
        assert!(!held && lines.last().unwrap().starts_with("lan"), "{rules}: {lines:?}");
        assert_eq!(
            flow.path.remembered_ways().refused.iter().map(|(_, n)| n).sum::<u64>(),
            2,
            "{rules}"
        );
    }
}
