// SPDX-License-Identifier: Apache-2.0

//! The bytes of all listings, as text and as JSON: a table of values and of files that have what is
//! printed of them. `UPDATE=1` writes the files.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use penstock_conntrack::{Conntrack, Settings, Style, Tuple};
use penstock_dataplane::{FlowSummary, NotOffloaded, RememberedWays};
use penstock_flowtable::{Encap, Tunnel};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_print::list::{Entries, List};
use penstock_print::show::Form;
use penstock_print::show::connections::{self, Connection, ProcLine};
use penstock_print::show::flows::{
    self, By, Ends, Flow, Hop, Leaves, Stack, State as FlowState, Totals, Way,
};
use penstock_print::show::nats::{NatsNodeStatus, NatsStatus};
use penstock_print::show::own_side::OwnSideStatus;
use penstock_print::show::peer::{PeerLink, PeerMalformed, PeerStatus};
use penstock_print::show::secure_peer::{SecurePeerStatus, SecurePeersStatus};
use penstock_print::show::stages::{Stage, Stages};
use penstock_print::show::state::State;
use penstock_print::show::status::{
    Offloaded, PortStatus, PortTraffic, Status, Talker, Took, Traffic, WorkerStatus,
};
use penstock_print::show::sync::SyncStatus;
use penstock_ruleset::Ruleset;
use serde::Serialize;

fn check(file: &str, printed: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
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
        placed_drops: Vec::new(),
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
        attached: None,
        left_out: Vec::new(),
        in_nf_tables: Vec::new(),
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

/// The other firewall of a pair, with everything that is said of it.
fn peer() -> SyncStatus {
    let link = |device: &str, up, active| PeerLink {
        device: device.into(),
        up,
        active,
        sent: 10,
        failed: 1,
        received: 9,
    };
    SyncStatus::Conntrackd(Box::new(PeerStatus {
        mode: "FTFW",
        links: vec![link("eth2", false, false), link("eth3", true, true)],
        in_sync_ago: Some(0.25),
        heard_ago: None,
        sent: 100,
        received: 90,
        lost: 3,
        late: 2,
        malformed: vec![PeerMalformed { reason: "size", messages: 1 }],
        waiting: 4,
        unacknowledged: Some(5),
        given_up: 6,
        missed_events: 7,
        not_told: 8,
        expectations_ignored: 9,
        cached: 10,
        expected: 11,
        cache_full: 12,
        committed: 13,
        commit_failed: 14,
        announced: 22,
        bulk: true,
        purge_in: Some(59.5),
    }))
}

fn secure_peers() -> SyncStatus {
    let up = SecurePeerStatus {
        address: "198.19.0.2:3780".into(),
        up: true,
        in_sync_ago: Some(0.25),
        told_ago: Some(1.0),
        heard_ago: Some(0.5),
        sessions: 2,
        refused_handshakes: 0,
        sent: 100,
        received: 90,
        malformed: 0,
        wrong_digests: 0,
        waiting: 0,
        overruns: 0,
        telling_all: false,
        cached: 10,
        expected: 1,
        elements: 3,
        cache_full: 0,
    };
    let down = SecurePeerStatus {
        address: "[2001:db8::2]:3780".into(),
        up: false,
        in_sync_ago: None,
        told_ago: None,
        refused_handshakes: 1,
        malformed: 2,
        wrong_digests: 3,
        waiting: 4,
        overruns: 5,
        telling_all: true,
        cache_full: 6,
        ..up.clone()
    };
    SyncStatus::Secure(Box::new(SecurePeersStatus {
        public_key: "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552".into(),
        peers: vec![up, down],
        refused_strangers: 7,
        own: own_side(),
    }))
}

fn own_side() -> OwnSideStatus {
    OwnSideStatus {
        missed_events: 8,
        not_told: 9,
        elements_not_told: 10,
        committed: 11,
        commit_failed: 12,
        elements_entered: 13,
        elements_failed: 14,
        announced: 15,
        purge_in: Some(59.5),
    }
}

fn cluster() -> SyncStatus {
    let there = NatsNodeStatus {
        name: "fw2".into(),
        up: true,
        complete: true,
        in_sync_ago: Some(0.25),
        heard_ago: Some(0.5),
        epochs: 1,
        received: 90,
        malformed: 0,
        lost: 0,
        late: 0,
        wrong_digests: 0,
        cached: 10,
        expected: 1,
        elements: 3,
        cache_full: 0,
    };
    let lacking = NatsNodeStatus { name: "fw3".into(), complete: false, lost: 4, ..there.clone() };
    let silent = NatsNodeStatus {
        name: "fw4".into(),
        up: false,
        in_sync_ago: None,
        malformed: 2,
        late: 5,
        wrong_digests: 3,
        cache_full: 6,
        ..there.clone()
    };
    SyncStatus::Nats(Box::new(NatsStatus {
        cluster: "office".into(),
        node: "fw1".into(),
        sealed: true,
        connected: true,
        server: Some("198.19.0.9:4222".into()),
        error: None,
        replaying: true,
        stored_ago: Some(1.0),
        sessions: 2,
        sent: 100,
        messages: 9,
        waiting: 16,
        waiting_messages: 1,
        overruns: 1,
        snapshots: 2,
        telling_all: true,
        refused_messages: 3,
        nodes: vec![there, lacking, silent],
        nodes_refused: 4,
        same_name: 5,
        own: own_side(),
    }))
}

#[test]
fn nodes_of_a_cluster_are_printed_in_two_forms() {
    let cluster = cluster();
    check("cluster.txt", &cluster.to_string());
    check("cluster.json", &penstock_print::json::line(&cluster));
    let SyncStatus::Nats(mut status) = cluster else { panic!() };
    (status.server, status.connected) = (None, false);
    status.error = Some("the connection is lost".into());
    let said = status.to_string();
    assert!(said.contains("office, with a shared key: not connected: the connection is lost"));
}

#[test]
fn peers_of_penstock_are_printed_in_two_forms() {
    let peers = secure_peers();
    check("peers.txt", &peers.to_string());
    check("peers.json", &penstock_print::json::line(&peers));
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
    let peer = peer();
    for (name, status, talkers, took, unconfirmed, peer) in [
        ("small", small(), &[][..], Took::default(), None, None),
        (
            "large",
            large(),
            &talkers[..],
            took,
            Some((9, Duration::from_millis(12_345))),
            Some(&peer),
        ),
    ] {
        let state = State {
            status: &status,
            talkers,
            generation: &generation,
            took,
            unconfirmed,
            peer,
            started: 1_700_000_000_500_000_000,
            now: 1_700_000_001_000_000_000,
        };
        for (form, ending) in
            [(Form::Text, "txt"), (Form::Json, "json"), (Form::Metrics, "metrics")]
        {
            let mut written = Vec::new();
            penstock_print::write_state(&state, form, &mut written).expect("there is room");
            let text = String::from_utf8(written).expect("text");
            // The version of the program changes.
            let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
            check(&format!("state-{name}.{ending}"), &text);
        }
    }
}

/// Connections of all kinds, as a dump has them.
const CONNECTIONS: &str = "penstock-conntrack 1
flow id=1 proto=17 orig=198.18.0.1,198.18.1.1,9,53,0 reply=198.18.1.1,198.18.0.1,53,9,0 status=8 left=5000000000 udp=0
flow id=2 proto=17 orig=198.18.0.1,198.18.1.1,10,53,3 reply=198.18.1.1,198.18.0.1,53,10,3 status=14 left=7900000000 mark=77 secmark=5 udp=0
flow id=3 proto=1 orig=198.18.0.1,198.18.1.1,7,2048,0 reply=198.18.1.1,198.18.0.1,7,0,0 status=8 left=5000000000 packets=3,0 bytes=252,0 start=1000000000
flow id=4 proto=17 orig=2001:db8::1,2001:db8::2,9,69,1 reply=2001:db8::2,2001:db8::1,69,9,2 status=10 left=5000000000 helper=tftp udp=0
flow id=5 proto=89 orig=198.18.0.1,198.18.1.1,0,0,0 reply=198.18.1.1,198.18.0.1,0,0,0 status=8 left=5000000000
flow id=6 proto=47 orig=198.18.0.1,198.18.1.1,16,32,0 reply=198.18.1.1,198.18.0.1,32,16,0 status=14 left=5000000000 gre=30000000000,180000000000
flow id=7 proto=6 orig=198.18.0.1,198.18.1.1,4000,80,0 reply=198.18.1.1,203.0.113.1,80,4000,0 status=14 left=431998000000000 tcp=3,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0
flow id=8 proto=17 orig=198.18.0.1,198.18.1.1,11,53,0 reply=198.18.1.1,198.18.0.1,53,11,0 status=14 left=7900000000 udp=0
flow id=9 proto=6 orig=198.18.0.1,198.18.1.1,4001,80,0 reply=198.18.1.1,203.0.113.1,80,4001,0 status=14 left=431998000000000 tcp=3,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0
";

/// What a list prints, page by page.
fn list<E: Display + Serialize>(
    form: Form,
    key: &str,
    pages: &[&[E]],
    rest: Option<&Totals<'_>>,
) -> String {
    let mut written = Vec::new();
    let mut list = List::begin(form, key, &mut written).expect("there is room");
    for page in pages {
        let mut entries = Entries::new(form);
        page.iter().for_each(|entry| entries.push(entry));
        list.entries(&entries).expect("there is room");
    }
    match rest {
        Some(rest) => list.end_with(rest),
        None => list.end(),
    }
    .expect("there is room");
    String::from_utf8(written).expect("text")
}

#[test]
fn connections_are_printed_in_three_forms() {
    let settings = Settings { acct: true, timestamp: true, ..Settings::default() };
    let mut table = Conntrack::new(settings);
    table.load(CONNECTIONS, 2_000_000_000).expect("a dump");
    // The last two are in flowtables, one of them in a device's.
    let last: Vec<u32> = table.iter().map(|c| c.number()).collect();
    if let [.., udp, tcp] = last[..] {
        table.set_offloaded(udp, 1);
        table.set_offloaded(tcp, 2);
        table.set_hardware(tcp, true);
    }
    let all: Vec<_> = table.iter().map(|c| Connection::of(&c)).collect();
    let pages: &[&[_]] = &[&[], &all[..1], &[], &all[1..], &[]];
    check("connections.txt", &list(Form::Text, connections::KEY, pages, None));
    check("connections.json", &list(Form::Json, connections::KEY, pages, None));
    let lines: String = table.iter().map(|c| format!("{}\n", c.line(Style::default()))).collect();
    assert_eq!(lines, list(Form::Text, connections::KEY, pages, None), "as a line of conntrack -L");
    let proc: Vec<_> = table.iter().map(ProcLine).collect();
    check("connections.proc", &list(Form::Proc, connections::KEY, &[&proc], None));
    let none = list::<Connection<'_>>(Form::Json, connections::KEY, &[], None);
    assert_eq!(none, "{\"connections\":[]}\n");
}

fn stack<'a>(device: &str, encaps: &'a [Encap]) -> Stack<'a> {
    Stack { device: device.into(), encaps, tunnel: None, leaves: Leaves::Routed }
}

fn flow<'a>(
    (family, table, flowtable, protocol): (&'static str, &'a str, &'a str, &'static str),
    original: (&str, &str),
    leaves: Option<(&str, &str)>,
    state: FlowState<'a>,
) -> Flow<'a> {
    let end = |end: &str| end.parse().expect("an address and a port");
    let ends = |ends: (&str, &str)| Ends { source: end(ends.0), destination: end(ends.1) };
    let (original, leaves_as) = (ends(original), leaves.map(ends));
    Flow { family, table, flowtable, protocol, original, leaves_as, state }
}

#[test]
fn flows_are_printed_in_two_forms() {
    let hop =
        |address: &str, leaves| Some(Hop { address: address.parse().expect("an address"), leaves });
    let address = |text: &str| text.parse().expect("an address");
    let (vlan, session) =
        ([Encap { id: 7, protocol: 0x8100 }], [Encap { id: 3, protocol: 0x8864 }]);
    let tunnel = Tunnel { src: address("198.18.0.1"), dst: address("198.18.0.9"), protocol: 4 };
    let translated = FlowState::Offloaded {
        ways: Box::new([
            Way {
                from: stack("r0", &[]),
                to: stack("r1", &vlan),
                via: hop("198.18.1.2", Leaves::Routed),
                mtu: 1500,
                packets: 12,
                bytes: 1080,
            },
            Way {
                from: stack("r1", &vlan),
                to: Stack { leaves: Leaves::Direct, ..stack("r0", &[]) },
                via: None,
                mtu: 1400,
                packets: 1,
                bytes: 2,
            },
        ]),
        age: Duration::from_nanos(3_080_123_456),
        idle: Duration::from_nanos(46_900_000),
        by: By::Device,
        closing: true,
    };
    let tunnelled = FlowState::Offloaded {
        ways: Box::new([
            Way {
                from: Stack { tunnel: Some(tunnel), ..stack("r0", &session) },
                to: stack("r1", &[]),
                via: hop("fe80::1", Leaves::Ipsec),
                mtu: 1280,
                packets: 3,
                bytes: 300,
            },
            Way {
                from: stack("r1", &[]),
                to: stack("r0", &[]),
                via: None,
                mtu: 1500,
                packets: 0,
                bytes: 0,
            },
        ]),
        age: Duration::from_secs(3),
        idle: Duration::from_millis(1500),
        by: By::Flowtable,
        closing: false,
    };
    let v6 = ("[2001:db8::1]:9", "[2001:db8::2]:53");
    let all = [
        flow(
            ("inet", "t", "f", "tcp"),
            ("198.18.0.2:4", "198.18.1.2:5"),
            Some(("198.18.1.1:4", "198.18.1.2:5")),
            translated,
        ),
        flow(("ip", "u", "g", "udp"), v6, None, tunnelled),
        flow(("ip", "u", "g", "udp"), v6, None, FlowState::Refused { not_offloaded: "no route" }),
    ];
    let mut summary = FlowSummary::default();
    (summary.counts.added, summary.counts.packets, summary.counts.taken) = (2, 4, 2);
    summary.refusals = vec![(NotOffloaded::NotEstablished, 4)];
    summary.ways = RememberedWays { packets: 70, directions: 3, refused: vec![("limit", 2)] };
    for (form, ending) in [(Form::Text, "txt"), (Form::Json, "json")] {
        let printed = list(form, flows::KEY, &[&all[..2], &all[2..]], Some(&Totals(&summary)));
        check(&format!("flows.{ending}"), &printed);
        let none = FlowSummary::default();
        let printed = list::<Flow<'_>>(form, flows::KEY, &[], Some(&Totals(&none)));
        check(&format!("flows-none.{ending}"), &printed);
    }
}

#[test]
fn stages_are_printed_in_two_forms() {
    let some = [
        ("inet t forward handle 4".to_owned(), 4, 100),
        ("connection tracking".to_owned(), 1, 300),
        ("timeouts".to_owned(), 0, 7),
    ];
    for (name, stages) in [("stages", some.map(Stage::from).to_vec()), ("stages-none", vec![])] {
        for (form, ending) in [(Form::Text, "txt"), (Form::Json, "json")] {
            let mut written = Vec::new();
            let stages = Stages::new(stages.clone());
            penstock_print::write(&stages, form, &mut written).expect("there is room");
            check(&format!("{name}.{ending}"), &String::from_utf8(written).expect("text"));
        }
    }
}
