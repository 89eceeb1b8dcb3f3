//! Rate of the whole path in memory, on one core: the rule `udp dport 9 drop` at netdev ingress, and forwarding from one
//! device to another, with 60-byte frames in bursts of 64.
//!
//! `cargo bench -p penstock-path`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use penstock_net::{Link, Network};
use penstock_packet::{Meta, Packet};
use penstock_path::{Dataplane, Frame, Settings, Sink};
use penstock_program::{Hook, parse};
use penstock_ruleset::change::{Mode, NewBase, NewChain, NewRule, Position};
use penstock_ruleset::link::Linked;
use penstock_ruleset::model::ChainType;
use penstock_ruleset::{Change, Family, Ruleset};
use penstock_wire::build::*;

const NET: &str = "
link add wan address 02:00:00:00:00:01 type veth
link add lan address 02:00:00:00:00:02 type veth
link set wan up
link set lan up
addr add 198.18.0.1/24 dev wan
addr add 198.18.1.1/24 dev lan
neigh add 198.18.1.7 lladdr 02:00:00:00:00:b7 dev lan
";

const DROP_PORT_9: &str = "[ meta load l4proto => reg 1 ]
    [ cmp eq reg 1 0x00000011 ]
    [ payload load 2b @ transport header + 2 => reg 1 ]
    [ cmp eq reg 1 0x00000900 ]
    [ immediate reg 0 drop ]";

const FLOWS: u16 = 4096;
const BURST: usize = 64;

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

fn ruleset(family: Family, hook: Hook, devices: &[&str]) -> Ruleset {
    let mut ruleset = Ruleset::default();
    let mut batch = ruleset.begin();
    let devices = devices.iter().map(|&d| d.into()).collect();
    let base = Some(NewBase { kind: ChainType::Filter, hook, priority: 0, devices });
    let chain =
        NewChain { name: "c".into(), base, policy_accept: None, anonymous: false, userdata: [].into() };
    let rule = NewRule { exprs: parse::program(DROP_PORT_9).expect("a program"), userdata: [].into() };
    let table: Arc<str> = "t".into();
    for change in [
        Change::AddTable { family, name: table.clone(), mode: Mode::Add, flags: 0, userdata: [].into() },
        Change::AddChain { family, table: table.clone(), mode: Mode::Add, chain },
        Change::AddRule { family, table, chain: "c".into(), position: Position::After(None), rule },
    ] {
        batch.apply(change).expect("a change");
    }
    ruleset.commit(batch).expect("a commit");
    ruleset
}

fn measure(name: &str, ruleset: &Ruleset, dport: u16) {
    let net = Network::from_batch("net.ip", NET).expect("a network");
    let device = net.link_by_name("wan").expect("a device").index;
    let mut path = Dataplane::new(Arc::new(net), Settings::default());
    path.set_rules(Arc::new(Linked::new(&ruleset.generation()).expect("a linked ruleset")));
    let frame = |n: u16| {
        let ether = Ethernet::new("02:00:00:00:00:a7", "02:00:00:00:00:01");
        (ether / Ipv4::new("198.18.0.7", "198.18.1.7") / Udp::new(n, dport) / payload([0; 18])).build()
    };
    let frames: Vec<Vec<u8>> = (0..FLOWS).map(frame).collect();
    let mut sink = Count::default();
    let mut time = 1_700_000_000_000_000_000;
    let mut rates: Vec<f64> = (0..15)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..100 {
                for burst in frames.chunks(BURST) {
                    time += 1000;
                    path.receive(burst.iter().map(|bytes| Frame { device, bytes, time }), &mut sink);
                }
            }
            f64::from(FLOWS) * 100.0 / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!(
        "{name}: median {:.1} Mpps (min {:.1}, max {:.1}), {} sent, {} dropped",
        rates[rates.len() / 2],
        rates[0],
        rates[rates.len() - 1],
        sink.sent,
        path.counters().dropped()
    );
}

fn main() {
    let ingress = ruleset(Family::Netdev, Hook::Ingress, &["wan"]);
    let forward = ruleset(Family::Inet, Hook::Forward, &[]);
    measure("udp dport 9 drop at netdev ingress, matching", &ingress, 9);
    measure("udp dport 9 drop at netdev ingress, not matching, forwarded", &ingress, 10);
    measure("udp dport 9 drop at inet forward, not matching, forwarded", &forward, 10);
    measure("no rules, forwarded", &Ruleset::default(), 10);
}
