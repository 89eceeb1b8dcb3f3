// SPDX-License-Identifier: Apache-2.0

//! What is said and done about rules before they are loaded, held against packets. Rulesets by
//! chance, as written and as `nft -o` makes them: every packet gets the same verdict and the same
//! mark, and each chain counts the same; most are proved to be the same for all packets. And rules of which `--lint` says that they never match do
//! not.
//!
//! `PENSTOCK_SEED` says where chance begins; the seed of a ruleset that fails is printed.

#[path = "../filetests/language.rs"]
#[allow(dead_code)]
mod language;
mod lint;
mod prove;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use penstock_dataplane::{Dataplane, Frame, Settings, Sink};
use penstock_net::{Link, Network};
use penstock_packet::{Meta, Packet};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_symbolic::{Base, Limits, Place, Program, diff};
use penstock_testkit::Chance;
use penstock_testkit::build::{Ethernet, Icmp, Ipv4, Tcp, Udp, payload};

const NOW: u64 = 1_700_000_000_000_000_000;

const NET: &str = "\
link add name lan address 02:00:00:00:01:01 mtu 1500 type veth
link add name wan address 02:00:00:00:02:01 mtu 1500 type veth
link set lan up
link set wan up
addr add 198.18.0.1/24 dev lan
addr add 198.19.0.1/24 dev wan
neigh add 198.18.0.10 lladdr 02:00:00:00:01:10 dev lan nud permanent
neigh add 198.19.0.2 lladdr 02:00:00:00:02:02 dev wan nud permanent
";

/// Selectors, and values that some packets have.
const SELECTORS: [(&str, &[&str]); 12] = [
    (
        "ip saddr",
        &[
            "198.18.0.10",
            "198.18.0.11",
            "198.18.0.12/31",
            "198.18.0.8-198.18.0.10",
            "198.18.0.0/24",
        ],
    ),
    ("ip daddr", &["198.19.0.2", "198.18.0.1", "{ 198.19.0.2, 198.18.0.1 }", "198.19.0.0/30"]),
    ("udp dport", &["1", "2", "3", "4", "2-3", "{ 1, 4 }", "5-9", "{ 1-2, 7 }"]),
    ("tcp dport", &["1", "2", "3", "3-5", "{ 1, 2 }"]),
    ("meta l4proto", &["tcp", "udp", "icmp", "{ tcp, udp }"]),
    ("tcp flags", &["syn", "ack", "syn,ack", "fin", "== syn", "== ack", "== syn|ack"]),
    ("meta mark", &["0", "1", "2", "0-1"]),
    ("iifname", &["\"lan\"", "\"wan\"", "\"la*\"", "\"l*\""]),
    ("ip ttl", &["63", "64", "1-63"]),
    ("ip dscp", &["0", "1", "2"]),
    ("meta mark & 1", &["== 0", "== 1"]),
    ("icmp type", &["echo-request", "echo-reply", "redirect"]),
];

const OTHERS: [&str; 6] =
    ["", "", "counter", "counter packets 3 bytes 4", "log prefix \"l\"", "meta mark set 1"];

const ENDS: [&str; 9] = [
    "accept",
    "accept",
    "drop",
    "drop",
    "return",
    "continue",
    "jump quiet",
    "jump loud",
    "goto quiet",
];

/// The rules of a chain: each is likely to look at what the one before looked at.
fn rules(rng: &mut Rng, counted: bool) -> String {
    let mut out = String::new();
    // Few kinds of selectors and ends, so that rules often have to do with each other.
    let known: Vec<usize> = (0..4).map(|_| rng.usize(..SELECTORS.len())).collect();
    let ends: Vec<&str> = (0..3).map(|_| rng.pick(&ENDS)).collect();
    let (mut selectors, mut other, mut end) = (vec![known[0]], "", ends[0]);
    let mut map = false;
    for _ in 0..rng.usize(4..14) {
        if rng.u8(..5) == 0 {
            selectors = (0..rng.usize(1..4)).map(|_| known[rng.usize(..4)]).collect();
            selectors.sort_unstable();
            selectors.dedup();
            map = rng.u8(..6) == 0;
        }
        if rng.u8(..4) == 0 {
            other = rng.pick(&OTHERS);
        }
        if rng.u8(..2) == 0 {
            end = rng.pick(&ends);
        }
        if counted {
            (other, map) = ("counter", false);
        }
        if map {
            let (a, b) = (rng.u8(1..6), rng.u8(6..10));
            let (to, other) = (rng.pick(&ends), rng.pick(&ends));
            out.push_str(&format!("\t\tudp dport vmap {{ {a} : {to}, {b} : {other} }}\n"));
            continue;
        }
        let matches: Vec<String> = selectors
            .iter()
            .map(|s| format!("{} {}", SELECTORS[*s].0, rng.pick(SELECTORS[*s].1)))
            .collect();
        let matches = matches.join(" ");
        let rule = if rng.u8(..12) == 0 && !counted {
            format!("counter {matches} {end}")
        } else {
            format!("{matches} {other} {end}")
        };
        out.push_str(&format!("\t\t{rule}\n"));
    }
    out
}

/// A ruleset; `counted` puts a counter into each rule of chain `y`.
fn text(rng: &mut Rng, counted: bool) -> String {
    format!(
        "table {} t {{
	chain quiet {{
		udp dport 2 counter return
		ip ttl 64 counter
	}}
	chain loud {{
		meta mark set 1
		counter
	}}
	chain y {{
{}	}}
	chain base {{
		type filter hook prerouting priority 0; policy accept;
		jump y
		counter meta mark set 77
	}}
}}
",
        rng.pick(&["ip", "inet"]),
        rules(rng, counted)
    )
}

fn packet(rng: &mut Rng) -> Vec<u8> {
    let ethernet = Ethernet::new("02:00:00:00:01:10", "02:00:00:00:01:01");
    let source = format!("198.18.0.{}", rng.u8(8..14));
    let ip = Ipv4::new(&*source, rng.pick(&["198.19.0.2", "198.18.0.1"]))
        .ttl(rng.u8(62..66))
        .tos(rng.u8(..3) << 2);
    match rng.u8(..5) {
        0 | 1 => (ethernet / ip / Udp::new(9, rng.u16(..10)) / payload(b"abc")).build(),
        2 | 3 => {
            let flags = [0x02, 0x10, 0x12, 0x01, 0x00][rng.usize(..5)];
            (ethernet / ip / Tcp::new(9, rng.u16(..6)).flags(flags)).build()
        }
        _ => (ethernet / ip / Icmp::new([0, 5, 8][rng.usize(..3)], 0)).build(),
    }
}

/// What left, and with which mark.
#[derive(Default)]
struct Seen(Vec<String>);

impl Sink for Seen {
    fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
        self.0.push(format!("{} {} {:x?}", device.name, meta.mark, frame));
    }

    fn deliver(&mut self, device: &Link, packet: &Packet) {
        self.0.push(format!("host {} {} {:x?}", device.name, packet.meta.mark, packet.network()));
    }
}

/// The fate of each packet, and the counts of each chain.
fn run(
    ruleset: &Ruleset,
    net: &Arc<Network>,
    packets: &[Vec<u8>],
) -> (Vec<Vec<String>>, Vec<(u64, u64)>) {
    let linked = Linked::new(&ruleset.generation()).expect("these rules can run");
    let mut dataplane = Dataplane::new(net.clone(), Settings::default());
    dataplane.set_rules(Arc::new(linked));
    let device = net.link_by_name("lan").expect("the network has it").index;
    let verdicts = packets
        .iter()
        .map(|bytes| {
            let mut seen = Seen::default();
            dataplane.receive([Frame { device, bytes, time: NOW }], &mut seen);
            seen.0
        })
        .collect();
    let mut counters = Vec::new();
    for line in language::list(ruleset, net, NOW).lines() {
        if line.starts_with("\tchain ") {
            counters.push((0, 0));
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        for counter in words.windows(5).filter(|w| w[0] == "counter") {
            let number = |word: &str| word.trim_end_matches(',').parse::<u64>().expect("a number");
            let last: &mut (u64, u64) = counters.last_mut().expect("a chain before its rules");
            last.0 += number(counter[2]);
            last.1 += number(counter[4]);
        }
    }
    (verdicts, counters)
}

/// Whether two rulesets are proved to do the same with all packets; `false` if that is not decided.
/// The error says what becomes of some packets.
fn is_same(a: &Ruleset, b: &Ruleset) -> Result<bool, String> {
    let [a, b] = [a, b].map(|one| Linked::new(&one.generation()).expect("these rules can run"));
    let [mut old, mut new] = [&a, &b].map(|linked| Program {
        image: &linked.image,
        bases: linked
            .bases
            .iter()
            .map(|base| Base {
                chain: base.chain,
                kind: base.base.kind,
                priority: base.base.priority,
                family: base.family,
            })
            .collect(),
        way: None,
        numbers: Vec::new(),
        sets: HashMap::new(),
        listed: false,
        now: NOW,
    });
    let place = Place { family: a.bases[0].family, hook: a.bases[0].base.hook };
    let limits = Limits { memory: 64 << 20, time: Duration::from_secs(60) };
    match diff(place, &mut old, &mut new, limits) {
        Ok(found) => match found.classes.first() {
            None => Ok(true),
            Some(class) => Err(format!("{:?}", class.fates)),
        },
        Err(_) => Ok(false),
    }
}

#[test]
fn merged_rules_treat_packets_like_the_originals() {
    let first = penstock_testkit::seed();
    let net = Arc::new(Network::from_batch("net.ip", NET).expect("the network"));
    let (mut merged, mut for_all_packets) = (0, 0);
    for seed in first..first + 300 {
        let mut rng = Rng::with_seed(seed);
        let text = text(&mut rng, false);
        let packets: Vec<_> = (0..40).map(|_| packet(&mut rng)).collect();
        // What is refused as written is no matter of merging.
        let Ok(plain) = language::load(&text, &net, NOW) else { continue };
        let (optimized, merges) = language::load_optimized(&text, &net, NOW)
            .unwrap_or_else(|e| panic!("PENSTOCK_SEED={seed}: refused when merged: {e}\n{text}"));
        merged += merges;
        for_all_packets += usize::from(is_same(&plain, &optimized).unwrap_or_else(|class| {
            let listing = language::list(&optimized, &net, NOW);
            panic!("PENSTOCK_SEED={seed}: packets can tell: {class}\n{text}from\n{listing}")
        }));
        let (plain, optimized_run) = (run(&plain, &net, &packets), run(&optimized, &net, &packets));
        assert!(
            plain == optimized_run,
            "PENSTOCK_SEED={seed}: a packet can tell\n{text}from\n{}",
            language::list(&optimized, &net, NOW)
        );
    }
    println!(
        "{merged} merges of 300 rulesets, {for_all_packets} proved for all packets, \
         PENSTOCK_SEED={first}"
    );
    assert!(merged > 100, "PENSTOCK_SEED={first}: only {merged} merges");
    assert!(for_all_packets > 100, "PENSTOCK_SEED={first}: only {for_all_packets} proved");
}

#[test]
fn rules_reported_dead_by_lint_match_no_packet() {
    let first = penstock_testkit::seed();
    let net = Arc::new(Network::from_batch("net.ip", NET).expect("the network"));
    let mut dead = 0;
    for seed in first..first + 300 {
        let mut rng = Rng::with_seed(seed);
        let text = text(&mut rng, true);
        let packets: Vec<_> = (0..60).map(|_| packet(&mut rng)).collect();
        let Ok(ruleset) = language::load(&text, &net, NOW) else { continue };
        run(&ruleset, &net, &packets);
        let chain =
            |text: &str| text.lines().position(|l| l.starts_with("\tchain y")).expect("the chain");
        let listing = language::list(&ruleset, &net, NOW);
        let listed: Vec<&str> = listing.lines().skip(chain(&listing) + 1).collect();
        for line in language::dead_rules(&text, &net, NOW) {
            // Rules of other chains are not random.
            let Some(number) = line.checked_sub(chain(&text) + 2) else { continue };
            dead += 1;
            assert!(
                listed[number].contains("counter packets 0 "),
                "PENSTOCK_SEED={seed}: line {line} is not dead\n{text}{listing}"
            );
        }
    }
    println!("{dead} dead rules in 300 rulesets, PENSTOCK_SEED={first}");
    assert!(dead > 50, "PENSTOCK_SEED={first}: only {dead} dead rules");
}
