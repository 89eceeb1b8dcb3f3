// SPDX-License-Identifier: Apache-2.0

//! Rate of the whole path in memory, on one core, where connections are tracked: 10,000 established
//! UDP flows through `ct state established,related accept`, and packets that all begin a
//! connection.
//!
//! `cargo bench -p penstock-dataplane --bench tracking`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use penstock_dataplane::{Dataplane, Frame, Settings, Sink};
use penstock_net::{Link, Network};
use penstock_packet::{Meta, Packet};
use penstock_program::Hook;
use penstock_ruleset::change::{Mode, NewBase, NewChain, NewRule, Position};
use penstock_ruleset::link::Linked;
use penstock_ruleset::model::ChainType;
use penstock_ruleset::{Change, Family, Ruleset};
use penstock_testkit::build::*;
use penstock_testkit::program::parse;

const NET: &str = "
link add wan address 02:00:00:00:00:01 type veth
link add lan address 02:00:00:00:00:02 type veth
link set wan up
link set lan up
addr add 198.18.0.1/24 dev wan
addr add 198.18.1.1/24 dev lan
route add 198.19.0.0/16 via 198.18.0.7
neigh add 198.18.0.7 lladdr 02:00:00:00:00:a7 dev wan
neigh add 198.18.1.7 lladdr 02:00:00:00:00:b7 dev lan
";

const ESTABLISHED: &str = "[ ct load state => reg 1 ]
    [ bitwise reg 1 = ( reg 1 & 0x00000006 ) ^ 0x00000000 ]
    [ cmp neq reg 1 0x00000000 ]
    [ immediate reg 0 accept ]";

const FLOWS: u32 = 10_000;
const BURST: usize = 64;
const START: u64 = 1_700_000_000_000_000_000;

#[derive(Default)]
struct Count {
    sent: u64,
}

impl Sink for Count {
    fn transmit(&mut self, _device: &Link, frame: &[u8], _meta: &Meta) {
        self.sent += u64::from(black_box(frame).len() > 14);
    }
    fn deliver(&mut self, _device: &Link, _packet: &Packet) {}
}

fn ruleset() -> Ruleset {
    let mut ruleset = Ruleset::default();
    let mut batch = ruleset.begin();
    let (family, table): (_, Arc<str>) = (Family::Inet, "t".into());
    let base = Some(NewBase {
        kind: ChainType::Filter,
        hook: Hook::Forward,
        priority: 0,
        devices: Vec::new(),
    });
    let chain = NewChain {
        name: "c".into(),
        base,
        policy_accept: None,
        counter: None,
        anonymous: false,
        offload: false,
        program: None,
        userdata: [].into(),
    };
    let rule = NewRule {
        exprs: parse::program(ESTABLISHED).expect("a program"),
        userdata: [].into(),
        origin: None,
    };
    for change in [
        Change::AddTable {
            family,
            name: table.clone(),
            mode: Mode::Add,
            flags: 0,
            userdata: [].into(),
        },
        Change::AddChain { family, table: table.clone(), mode: Mode::Add, chain },
        Change::AddRule { family, table, chain: "c".into(), position: Position::After(None), rule },
    ] {
        batch.apply(change).expect("a change");
    }
    ruleset.commit(batch).expect("a commit");
    ruleset
}

fn path(settings: Settings) -> Dataplane {
    let net = Network::from_batch("net.ip", NET).expect("a network");
    let mut path = Dataplane::new(Arc::new(net), settings);
    path.set_rules(Arc::new(Linked::new(&ruleset().generation()).expect("a linked ruleset")));
    path
}

/// A frame of flow `n`, from its client.
fn forth(n: u32) -> Vec<u8> {
    let ether = Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:01");
    let source = std::net::Ipv4Addr::from(0xc613_0000 + (n >> 12));
    (ether
        / Ipv4::new(source, "198.18.1.7")
        / Udp::new(1024 + (n & 0xfff) as u16, 53)
        / payload([0; 18]))
    .build()
}

/// Its answer.
fn back(n: u32) -> Vec<u8> {
    let ether = Ethernet::new("02:00:00:00:00:b7", "02:00:00:00:00:02");
    let to = std::net::Ipv4Addr::from(0xc613_0000 + (n >> 12));
    (ether
        / Ipv4::new("198.18.1.7", to)
        / Udp::new(53, 1024 + (n & 0xfff) as u16)
        / payload([0; 18]))
    .build()
}

fn report(name: &str, mut rates: Vec<f64>, sent: u64, path: &Dataplane) {
    rates.sort_by(f64::total_cmp);
    println!(
        "{name}: median {:.2} M/s (min {:.2}, max {:.2}), {sent} sent, {} dropped, {} connections",
        rates[rates.len() / 2],
        rates[0],
        rates[rates.len() - 1],
        path.counters().dropped(),
        path.conntrack().count()
    );
}

fn established() {
    let mut path = path(Settings::default());
    let device =
        |path: &Dataplane, name: &str| path.network().link_by_name(name).expect("a device").index;
    let (wan, lan) = (device(&path, "wan"), device(&path, "lan"));
    let requests: Vec<_> = (0..FLOWS).map(forth).collect();
    let answers: Vec<_> = (0..FLOWS).map(back).collect();
    let mut sink = Count::default();
    let mut time = START;
    for round in 0..2 {
        time = START + round * 3_000_000_000;
        path.receive(requests.iter().map(|bytes| Frame { device: wan, bytes, time }), &mut sink);
        path.receive(answers.iter().map(|bytes| Frame { device: lan, bytes, time }), &mut sink);
    }
    let rates = (0..15)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..40 {
                for burst in requests.chunks(BURST) {
                    time += 10_000;
                    path.receive(
                        burst.iter().map(|bytes| Frame { device: wan, bytes, time }),
                        &mut sink,
                    );
                }
            }
            f64::from(FLOWS) * 40.0 / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    report("ct state established,related accept, 10,000 UDP flows", rates, sink.sent, &path);
}

fn new_connections() {
    const NEW: u32 = 400_000;
    let mut settings = Settings::default();
    settings.set_sysctl("net.netfilter.nf_conntrack_udp_timeout", 1).expect("a sysctl");
    let mut path = path(settings);
    let device = path.network().link_by_name("wan").expect("a device").index;
    let frames: Vec<_> = (0..NEW).map(forth).collect();
    let mut sink = Count::default();
    let mut time = START;
    let rates = (0..15)
        .map(|_| {
            let start = Instant::now();
            for burst in frames.chunks(BURST) {
                // All of them live for a second, so a quarter is in the table at any time.
                time += 64 * 10_000;
                path.receive(burst.iter().map(|bytes| Frame { device, bytes, time }), &mut sink);
            }
            f64::from(NEW) / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    report("new connections", rates, sink.sent, &path);
}

fn main() {
    established();
    new_connections();
}
