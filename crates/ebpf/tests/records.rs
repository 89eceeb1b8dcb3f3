// SPDX-License-Identifier: Apache-2.0

//! What programs tell: logged packets, steps of traced packets and used up quotas are those of the
//! interpreter, in its order.

mod rights;

use fastrand::Rng;
use penstock_bpf::{InetFamily, InetHook, NetfilterHook, Next, Program, RecordRing};
use penstock_ebpf::rules::{
    Counters, Device, Entry, Event, Job, Place, Record, SharedStates, Verdict, compile,
};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_packet::Packet;
use penstock_program::env::Interface;
use penstock_program::image::LinkedVerdict;
use penstock_program::{Family, Hook, Outcome, run};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_testkit::build::*;
use penstock_testkit::program::{Event as Happened, MockEnv};
use penstock_wire::ethernet::Mac;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn device() -> Device {
    let mut name = [0; 16];
    name[..3].copy_from_slice(b"lan");
    Device { index: 1, mac: MAC, interface: Interface { name, kind: [0; 16], arphrd: 1, group: 0 } }
}

/// Where programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    Xdp,
    TcxIngress,
    TcxEgress,
    Netfilter,
}

const AT: NetfilterHook = NetfilterHook { family: InetFamily::V4, hook: InetHook::Postrouting };

/// A ruleset, as a program and for the interpreter.
struct Told {
    spot: Spot,
    linked: Linked,
    states: SharedStates,
    reader: RecordRing,
    program: Program,
    _counters: Counters,
}

impl Told {
    fn new(text: &str, spot: Spot) -> Self {
        let mut ruleset = Ruleset::default();
        let options = Options::default();
        let mut session = Session::new(options, &NoFiles, &NoNames);
        let outcome = session.run(Origin::CommandLine, text.to_owned(), &mut ruleset, 0);
        assert!(outcome.ok, "{text}\n{}", outcome.stderr);
        let linked = Linked::new(&ruleset.generation()).unwrap();
        let states = SharedStates::new().unwrap();
        states.records().listen(true).unwrap();
        let device = device();
        let (place, entry): (_, fn(_) -> _) = match spot {
            Spot::Xdp => (Place::Xdp(&device), Entry::Netdev),
            Spot::TcxIngress => (Place::TcxIngress(&device), Entry::Netdev),
            Spot::TcxEgress => (Place::TcxEgress(&device), Entry::Netdev),
            Spot::Netfilter => (Place::Netfilter(AT), Entry::Ip),
        };
        let mut bases: Vec<_> = linked.bases.iter().collect();
        bases.sort_by_key(|base| base.base.priority);
        let entries: Vec<_> = bases.iter().map(|base| entry(base.chain)).collect();
        let (image, next, shared) = (&linked.image, &Next::Pass, Some(&states));
        let job = Job { image, entries: &entries, place, next, shared, routes: None };
        let compiled = compile(job).unwrap_or_else(|e| panic!("{spot:?}\n{text}\n{e}"));
        let (program, counters) = compiled.load("records").unwrap_or_else(|e| {
            panic!("{spot:?}\n{text}\n{e}\n{}", &e.log[e.log.len().saturating_sub(6000)..])
        });
        let reader = states.records().reader().unwrap();
        Told { spot, linked, states, reader, program, _counters: counters }
    }

    fn records(&mut self) -> Vec<Record> {
        let mut all = Vec::new();
        let records = self.states.records();
        self.reader.read(usize::MAX, |bytes| all.push(records.decode(bytes).unwrap()));
        all
    }

    /// What the program tells of a frame.
    fn ran(&mut self, frame: &[u8]) -> Vec<Record> {
        // A packet gets the address of the one before.
        self.states.records().listen(false).unwrap();
        self.states.records().listen(true).unwrap();
        match self.spot {
            Spot::Netfilter => self.program.run_netfilter(frame, AT, 1),
            _ => self.program.run(frame, 0, 1),
        }
        .unwrap();
        self.records()
    }

    /// What happens in the interpreter.
    fn interpreted(&self, frame: &[u8]) -> Vec<Happened> {
        let (family, hook) = match self.spot {
            Spot::Xdp | Spot::TcxIngress => (Family::Netdev, Hook::Ingress),
            Spot::TcxEgress => (Family::Netdev, Hook::Egress),
            Spot::Netfilter => (Family::Ip, Hook::Postrouting),
        };
        let mut outside = MockEnv::at(family, hook);
        let mut packet = Packet::new();
        assert!(packet.receive_ethernet(frame, MAC));
        packet.find_transport_checked();
        if self.spot == Spot::TcxEgress {
            packet.data_at_link();
        }
        let image = &self.linked.image;
        let mut bases: Vec<_> = self.linked.bases.iter().collect();
        bases.sort_by_key(|base| base.base.priority);
        for base in bases {
            match run(image, base.chain, &mut packet, &mut outside) {
                Outcome::Accept => {}
                Outcome::Policy
                    if image.chain(base.chain).unwrap().policy_accept != Some(false) => {}
                _ => break,
            }
        }
        outside.events
    }

    /// An event as text, for both.
    fn of_interpreter(&self, event: &Happened) -> Option<String> {
        let image = &self.linked.image;
        let name = |chain| image.chain(chain).unwrap().name.to_string();
        let place = |rule| {
            let (_, table, chain, handle) = image.place(rule).unwrap();
            format!("{table} {chain} {handle}")
        };
        Some(match event {
            Happened::Log(log) => format!("{log:?}"),
            Happened::Rule { rule, verdict } => {
                let word = match verdict {
                    LinkedVerdict::Accept => "accept".into(),
                    LinkedVerdict::Drop => "drop".into(),
                    LinkedVerdict::Continue => "continue".into(),
                    LinkedVerdict::Jump(chain) => format!("jump {}", name(*chain)),
                    LinkedVerdict::Goto(chain) => format!("goto {}", name(*chain)),
                    other => panic!("{other:?}"),
                };
                format!("{} {word}", place(*rule))
            }
            Happened::Return { rule: Some(rule), .. } => format!("{} return", place(*rule)),
            // nft does not tell it.
            Happened::Return { rule: None, .. } => return None,
            Happened::Policy { chain, accept } => format!("{} policy {accept}", name(*chain)),
            Happened::QuotaDepleted => "used up".into(),
            other => panic!("{other:?}"),
        })
    }
}

fn of_program(record: &Record) -> Option<String> {
    let site = &record.site;
    Some(match &site.event {
        Event::Log(log) => format!("{log:?}"),
        Event::Packet => return None,
        Event::Rule(handle, verdict) => {
            let word = match verdict {
                Verdict::Accept => "accept".into(),
                Verdict::Drop => "drop".into(),
                Verdict::Continue => "continue".into(),
                Verdict::Return => "return".into(),
                Verdict::Jump(chain) => format!("jump {chain}"),
                Verdict::Goto(chain) => format!("goto {chain}"),
            };
            format!("{} {} {handle} {word}", site.table, site.chain)
        }
        Event::Policy(accept) => format!("{} policy {accept}", site.chain),
        Event::UsedUp(_) => "used up".into(),
    })
}

fn statement(rng: &mut Rng, spot: Spot, chains: usize) -> String {
    match rng.u8(..16) {
        0 => "log".into(),
        1 => format!(
            "log prefix \"p{} \" level {}",
            rng.u8(..3),
            rng.choice(["info", "crit"]).unwrap()
        ),
        2 => "log flags all".into(),
        3 => format!("log prefix \"g\" group {} snaplen {}", rng.u8(..3), rng.u32(..300)),
        4..=6 if spot != Spot::Xdp => format!("meta nftrace set {}", rng.u8(..4).min(1)),
        7 => "counter".into(),
        8 => "accept".into(),
        9 => "drop".into(),
        10 => "return".into(),
        11 => format!(
            "udp dport vmap {{ 1 : jump c{}, 2 : accept, 3 : continue }}",
            rng.usize(..chains)
        ),
        12 => format!("goto c{}", rng.usize(..chains)),
        13 => format!("jump c{}", rng.usize(..chains)),
        14 => "quota name q".into(),
        _ => "continue".into(),
    }
}

fn rules(rng: &mut Rng, spot: Spot, from: usize) -> String {
    const CHAINS: usize = 4;
    let mut text = String::new();
    for _ in 0..rng.u8(..6) {
        if rng.bool() {
            text += &format!("udp dport {} ", rng.u8(1..4));
        }
        let mut statement = statement(rng, spot, CHAINS);
        // Chains call later ones only.
        for n in 0..from {
            statement = statement.replace(&format!("c{n}"), "c3");
        }
        if from == CHAINS {
            statement = statement.replace("jump c3", "accept").replace("goto c3", "drop");
        }
        text += &statement;
        text += "\n";
    }
    text
}

fn ruleset(rng: &mut Rng, spot: Spot) -> String {
    let (family, hook) = match spot {
        Spot::Xdp | Spot::TcxIngress => ("netdev", "ingress device lan"),
        Spot::TcxEgress => ("netdev", "egress device lan"),
        Spot::Netfilter => ("ip", "postrouting"),
    };
    let mut text = format!("table {family} t {{\nquota q {{ over {} bytes }}\n", rng.u32(..3000));
    for chain in (0..4).rev() {
        text += &format!("chain c{chain} {{\n{}}}\n", rules(rng, spot, chain + 1));
    }
    for (name, priority) in [("in", 0), ("late", 5)] {
        let policy = rng.choice(["accept", "drop"]).unwrap();
        text += &format!(
            "chain {name} {{\ntype filter hook {hook} priority {priority}; policy {policy};\n{}}}\n",
            rules(rng, spot, 0)
        );
    }
    text + "}\n"
}

fn frame(rng: &mut Rng) -> Vec<u8> {
    let link = Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02");
    let ip = Ipv4::new("198.18.0.1", "198.19.0.1");
    let payload = payload(vec![rng.u8(..); rng.usize(1..900)]);
    (link / ip / Udp::new(5000, rng.u16(1..4)) / payload).build()
}

/// Random rules on random frames.
#[test]
fn records_are_what_the_interpreter_tells() {
    if !rights::may_load() {
        return;
    }
    let seed = penstock_testkit::seed();
    let mut rng = Rng::with_seed(seed);
    let (mut logged, mut traced) = (0, 0);
    let spots = [Spot::Xdp, Spot::TcxIngress, Spot::TcxEgress, Spot::Netfilter];
    for round in 0..penstock_testkit::rounds(80) {
        let spot = spots[round % spots.len()];
        let text = ruleset(&mut rng, spot);
        let mut told = Told::new(&text, spot);
        for n in 0..20 {
            let frame = frame(&mut rng);
            let about = format!("seed {seed} round {round} {spot:?} frame {n}\n{text}");
            let records = told.ran(&frame);
            let events = told.interpreted(&frame);
            let wanted: Vec<_> = events.iter().filter_map(|e| told.of_interpreter(e)).collect();
            let found: Vec<_> = records.iter().filter_map(of_program).collect();
            assert_eq!(found, wanted, "{about}");
            // Each base chain shows the packet before its first step.
            let mut shown = None;
            for record in &records {
                let Record { site, packet, .. } = record;
                match &site.event {
                    Event::Packet => shown = Some(record.trace),
                    Event::Rule(..) | Event::Policy(_) => {
                        traced += 1;
                        assert_eq!(shown, Some(record.trace), "{about}");
                    }
                    Event::Log(_) => logged += 1,
                    Event::UsedUp(_) => {}
                }
                let Some(packet) = packet else { continue };
                let from = if spot == Spot::Netfilter { 14 } else { 0 };
                assert_eq!(packet.len as usize, frame.len() - from, "{about}");
                assert!(frame[from..].starts_with(&packet.bytes), "{about}");
                assert!(packet.bytes.len() >= (frame.len() - from).min(300), "{about}");
                assert!(frame.starts_with(&packet.link), "{about}");
                assert_eq!(packet.link.len(), from, "{about}");
            }
        }
    }
    println!("{logged} logged, {traced} steps");
    assert!(logged > 300 && traced > 300, "seed {seed}: {logged} {traced}");
}

/// A record that finds no room is lost, and counted; verdicts stay as they are.
#[test]
fn a_full_ring_stops_no_packet() {
    if !rights::may_load() {
        return;
    }
    let text = "table netdev t { chain in { type filter hook ingress device lan priority 0;
        log group 1; accept; }; }";
    let mut told = Told::new(text, Spot::Xdp);
    let frame = frame(&mut Rng::with_seed(7));
    const FRAMES: u32 = 60_000;
    let ran = told.program.run(&frame, 0, FRAMES).unwrap();
    assert_eq!(ran.verdict, penstock_bpf::xdp::PASS);
    let (read, lost) = (told.records().len() as u64, told.states.records().take_lost());
    assert!(read > 100 && lost > 100, "{read} {lost}");
    assert_eq!(read + lost, u64::from(FRAMES));
    assert_eq!(told.ran(&frame).len(), 1);
    assert_eq!(told.states.records().take_lost(), 0);
}

/// Nobody listens: nothing is told of traces, but of logs.
#[test]
fn packets_are_traced_for_those_who_listen() {
    if !rights::may_load() {
        return;
    }
    let text = "table netdev t { chain in { type filter hook ingress device lan priority 0;
        meta nftrace set 1; log; accept; }; }";
    let mut told = Told::new(text, Spot::TcxIngress);
    let frame = frame(&mut Rng::with_seed(7));
    let count = told.ran(&frame).len();
    assert_eq!(count, 5, "the packet, a log, three rules");
    told.states.records().listen(false).unwrap();
    told.program.run(&frame, 0, 1).unwrap();
    let alone: Vec<_> = told.records();
    assert!(matches!(&alone[..], [record] if matches!(record.site.event, Event::Log(_))));
}
