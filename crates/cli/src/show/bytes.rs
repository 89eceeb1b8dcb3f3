// SPDX-License-Identifier: Apache-2.0

//! The bytes of all listings, as text and as JSON: a table of values and of files that have what is
//! printed of them. `UPDATE=1` writes the files.

use std::path::Path;
use std::time::Duration;

use penstock_conntrack::{Conntrack, Settings, Style, Tuple};
use penstock_daemon::control::{ShowAs, Took};
use penstock_daemon::{
    Offloaded, PortStatus, PortTraffic, Status, Talker, Traffic, View, WorkerStatus,
};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_ruleset::Ruleset;

use super::listing;
use crate::run::profile::Profile;

fn check(file: &str, printed: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/show/golden").join(file);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, printed).expect("the folder is writable");
    }
    let expected = std::fs::read_to_string(&path).expect("the file is there");
    assert_eq!(printed, expected, "{file}");
}

const RULES: &str = "table inet t { counter web { packets 5 bytes 600; }; chain c { \
    counter packets 7 bytes 8 comment \"a \\ b\"; tcp dport 22 counter packets 1 bytes 1 accept; \
    udp dport 9 accept; }; }";

fn ruleset() -> Ruleset {
    let mut ruleset = Ruleset::default();
    let outcome = Session::new(Options::default(), &NoFiles, &NoNames).run(
        Origin::CommandLine,
        RULES.into(),
        &mut ruleset,
        0,
    );
    assert!(outcome.ok, "{}", outcome.stderr);
    ruleset
}

fn port(name: &str, number: u64) -> PortStatus {
    let traffic = |at: u64| Traffic { frames: number + at, bytes: (number + at) * 100 };
    PortStatus {
        name: name.into(),
        device: format!("{name}.port"),
        carrier: "packet socket".into(),
        traffic: PortTraffic {
            received: traffic(1),
            sent: traffic(2),
            from_host: traffic(3),
            to_host: traffic(4),
        },
        lost: number,
        refused: number * 2,
        launched: number * 3,
        host_refused: number * 4,
    }
}

fn worker(number: u64) -> WorkerStatus {
    WorkerStatus {
        received: number,
        handed_over: number + 1,
        taken_over: number + 2,
        load: 7,
        connections: number + 3,
    }
}

fn small() -> Status {
    Status {
        workers: vec![worker(10)],
        ports: vec![port("eth0", 0)],
        counters: Default::default(),
        connections: 4,
        flows: 5,
        flow_counts: Default::default(),
        tracking: Default::default(),
        queued: 0,
        waiting: 0,
        between: 0,
        ignored: 0,
        elsewhere: 0,
        undelivered: 0,
        offloaded: Vec::new(),
        compile_error: None,
    }
}

fn large() -> Status {
    let mut status = small();
    status.workers.push(worker(1000));
    status.ports.push(port("lan", 90));
    let counters = &mut status.counters;
    (counters.received, counters.transmitted, counters.delivered) = (100, 80, 7);
    (counters.forwarded, counters.fast, counters.taken) = (70, 30, 2);
    (counters.from_host, counters.originated, counters.absorbed) = (11, 12, 13);
    let counts = &mut status.flow_counts;
    (counts.added, counts.expired, counts.torn_down, counts.ended) = (1, 2, 3, 4);
    (counts.packets, counts.fell_back) = (5, 6);
    let tracking = &mut status.tracking;
    (tracking.invalid, tracking.insert, tracking.insert_failed) = (1, 2, 3);
    (tracking.drop, tracking.table_full, tracking.early_drop) = (4, 5, 6);
    (status.queued, status.waiting, status.between) = (1, 2, u64::MAX);
    (status.ignored, status.elsewhere, status.undelivered) = (3, 4, 5);
    status.offloaded = vec![
        Offloaded { name: "eth0".into(), flows: None, sends: false, chains: Vec::new() },
        Offloaded {
            name: "lan".into(),
            flows: Some("xdp".into()),
            sends: false,
            chains: vec!["netdev t ingress".into(), "netdev t more".into()],
        },
    ];
    status.compile_error = Some("no such instruction".into());
    status
}

fn tuple(protocol: u8, source: &str, destination: &str) -> Tuple {
    let mut tuple = Tuple { protocol, ..Tuple::default() };
    let ends: [std::net::SocketAddr; 2] =
        [source, destination].map(|end| end.parse().expect("an address and a port"));
    (tuple.l3, tuple.src_id, tuple.dst_id) =
        (if ends[0].is_ipv4() { 2 } else { 10 }, ends[0].port(), ends[1].port());
    for (end, bytes) in ends.iter().zip([&mut tuple.src, &mut tuple.dst]) {
        match end.ip() {
            std::net::IpAddr::V4(a) => bytes[..4].copy_from_slice(&a.octets()),
            std::net::IpAddr::V6(a) => *bytes = a.octets(),
        }
    }
    tuple
}

#[test]
fn the_state_is_printed_in_three_forms() {
    let ruleset = ruleset();
    let generation = ruleset.generation();
    let talker = |tuple, bytes, by| Talker { tuple, packets: 3, bytes, by };
    let talkers = [
        talker(tuple(6, "198.18.0.2:4000", "198.18.1.2:80"), 900, "device"),
        talker(tuple(17, "[2001:db8::1]:9", "[2001:db8::2]:53"), 800, "flowtable"),
        talker(tuple(1, "198.18.0.2:7", "198.18.1.2:2048"), 700, "rules"),
        talker(tuple(47, "198.18.0.2:7", "198.18.1.2:8"), 600, "rules"),
    ];
    let took = Took { evaluation: Duration::from_micros(1234), commit: Duration::from_nanos(5678) };
    for (name, status, talkers, took, unconfirmed) in [
        ("small", small(), &[][..], Took::default(), None),
        ("large", large(), &talkers[..], took, Some((9, Duration::from_millis(12_345)))),
    ] {
        let view = View {
            status: &status,
            talkers,
            generation: &generation,
            took,
            unconfirmed,
            started: 1_700_000_000_500_000_000,
            now: 1_700_000_001_000_000_000,
        };
        for (how, ending) in
            [(ShowAs::Words, "txt"), (ShowAs::Json, "json"), (ShowAs::Metrics, "metrics")]
        {
            let mut written = Vec::new();
            super::write(&view, how, &mut written).expect("there is room");
            let text = String::from_utf8(written).expect("text");
            // The version of the program changes.
            let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
            check(&format!("state-{name}.{ending}"), &text);
        }
    }
}

/// Connections of all kinds, as a dump has them.
pub(super) const CONNECTIONS: &str = "penstock-conntrack 1
flow id=1 proto=17 orig=198.18.0.1,198.18.1.1,9,53,0 reply=198.18.1.1,198.18.0.1,53,9,0 status=8 left=5000000000 udp=0
flow id=2 proto=17 orig=198.18.0.1,198.18.1.1,10,53,3 reply=198.18.1.1,198.18.0.1,53,10,3 status=14 left=7900000000 mark=77 secmark=5 udp=0
flow id=3 proto=1 orig=198.18.0.1,198.18.1.1,7,2048,0 reply=198.18.1.1,198.18.0.1,7,0,0 status=8 left=5000000000 packets=3,0 bytes=252,0 start=1000000000
flow id=4 proto=17 orig=2001:db8::1,2001:db8::2,9,69,1 reply=2001:db8::2,2001:db8::1,69,9,2 status=10 left=5000000000 helper=tftp udp=0
flow id=5 proto=89 orig=198.18.0.1,198.18.1.1,0,0,0 reply=198.18.1.1,198.18.0.1,0,0,0 status=8 left=5000000000
flow id=6 proto=47 orig=198.18.0.1,198.18.1.1,16,32,0 reply=198.18.1.1,198.18.0.1,32,16,0 status=14 left=5000000000 gre=30000000000,180000000000
flow id=7 proto=6 orig=198.18.0.1,198.18.1.1,4000,80,0 reply=198.18.1.1,203.0.113.1,80,4000,0 status=14 left=431998000000000 tcp=3,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0
";

#[test]
fn connections_are_printed_in_two_forms() {
    let settings = Settings { acct: true, timestamp: true, ..Settings::default() };
    let mut table = Conntrack::new(settings);
    table.load(CONNECTIONS, 2_000_000_000).expect("a dump");
    let text: String = table.iter().map(|c| format!("{}\n", c.line(Style::default()))).collect();
    check("connections.txt", &text);
    check("connections.json", &format!("{}\n", listing::connections(&text)));
}

#[test]
fn flows_are_printed_in_two_forms() {
    let lines = "inet t f: tcp 198.18.0.2:4 > 198.18.1.2:5, leaves as 198.18.1.1:4 > 198.18.1.2:5\n    \
        r0 -> r1 vlan 7 via 198.18.1.2 mtu 1500: 12 packets 1080 bytes, 3.9 packets/s 2805 bit/s\n    \
        r1 vlan 7 -> r0 direct mtu 1400: 1 packets 2 bytes, 0.3 packets/s 5 bit/s\n    \
        age 3.080 s, idle 0.047 s, in hardware, closing\n\
        ip u g: udp [2001:db8::1]:9 > [2001:db8::2]:53\n    \
        r0 pppoe 3 tunnel 198.18.0.1 > 198.18.0.9 -> r1 via fe80::1 ipsec mtu 1280: 3 packets 300 bytes, 1.0 packets/s 800 bit/s\n    \
        r1 -> r0 mtu 1500: 0 packets 0 bytes, 0.0 packets/s 0 bit/s\n    \
        age 3.000 s, idle 1.500 s, in software\n\
        ip u g: udp [2001:db8::1]:9 > [2001:db8::2]:53\n    not offloaded: no route\n\
        2 flows added, 0 expired, 0 torn down, 0 ended with their connection; 4 packets, 0 of them in chains, 0 fell back\n\
        devices took flows 2 times, and refused them 0 times\n\
        not offloaded 4 times: TCP not established\n";
    check("flows.txt", lines);
    check("flows.json", &format!("{}\n", listing::flows(lines)));
    let empty = "0 flows added, 0 expired, 0 torn down, 0 ended with their connection; \
        0 packets, 0 of them in chains, 0 fell back\n";
    check("flows-none.txt", empty);
    check("flows-none.json", &format!("{}\n", listing::flows(empty)));
}

#[test]
fn stages_are_printed_in_two_forms() {
    let lines = vec![
        ("inet t forward handle 4".to_owned(), 4, 100),
        ("connection tracking".to_owned(), 1, 300),
        ("timeouts".to_owned(), 0, 7),
    ];
    let text = Profile(lines).to_string();
    check("stages.txt", &text);
    check("stages.json", &format!("{}\n", listing::stages(&text)));
    let text = Profile(Vec::new()).to_string();
    check("stages-none.txt", &text);
    check("stages-none.json", &format!("{}\n", listing::stages(&text)));
}
