// SPDX-License-Identifier: Apache-2.0

//! Several workers behind one translated address, with packets that come to any of them: every
//! answer finds its way back, and no two connections look alike from outside.

mod router;

use std::collections::HashMap;
use std::sync::Arc;

use penstock_conntrack::PacketOwner;
use penstock_dataplane::{Dataplane, Frame, Settings, Shared};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_net::Network;
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_testkit::build::*;
use penstock_wire::{ethernet, ipv4};
use router::{NET, SECOND, START, Seen, from_lan, from_wan};

const WORKERS: usize = 3;
const ROUTER: &str = "198.18.0.1";
const LINK: usize = ethernet::LEN;

const RULES: &str = "table ip t {
    chain f {
        type filter hook forward priority filter; policy drop
        ct state invalid drop
        ct state established,related counter accept
        iifname lan counter accept
    }
    chain n { type nat hook postrouting priority srcnat; oifname wan masquerade; }
}";

/// A client's flow, or the router's own, to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Flow {
    /// 0 for the router itself.
    client: u8,
    port: u16,
    server: u8,
}

impl Flow {
    fn random(rng: &mut fastrand::Rng) -> Self {
        Flow { client: rng.u8(..24), port: 1000 + rng.u16(..2), server: rng.u8(1..4) }
    }

    fn client(&self) -> String {
        if self.client == 0 { ROUTER.into() } else { format!("198.19.0.{}", self.client) }
    }

    fn server(&self) -> String {
        format!("198.19.9.{}", self.server)
    }
}

struct Crew {
    shared: Shared,
    workers: Vec<Dataplane>,
    rng: fastrand::Rng,
    time: u64,
    /// The port by which a flow is seen outside.
    seen: HashMap<Flow, u16>,
}

fn addresses(packet: &[u8]) -> (String, String, u16, u16) {
    let h = ipv4::Header::new(packet).expect("a header");
    let transport = &packet[h.header_len()..];
    let port = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
    (h.src().to_string(), h.dst().to_string(), port(0), port(2))
}

impl Crew {
    fn new(seed: u64) -> Crew {
        let net = Arc::new(Network::from_batch("net.ip", NET).expect("a network"));
        let settings = Settings::unlimited();
        let shared = Shared::new(WORKERS, &settings);
        let mut ruleset = Ruleset::default();
        let outcome = Session::new(Options::default(), &NoFiles, &NoNames).run(
            Origin::CommandLine,
            RULES.into(),
            &mut ruleset,
            START,
        );
        assert!(outcome.ok, "{}", outcome.stderr);
        let linked = Arc::new(Linked::new(&ruleset.generation()).expect("rules"));
        let worker = |number| {
            let mut path = Dataplane::of_worker(net.clone(), settings.clone(), &shared, number);
            path.set_rules(linked.clone());
            path
        };
        let workers = (0..WORKERS).map(worker).collect();
        Crew {
            shared,
            workers,
            rng: fastrand::Rng::with_seed(seed),
            time: START,
            seen: HashMap::new(),
        }
    }

    /// The owner of a packet that any worker has received.
    fn packet_owner(&mut self, packet: &[u8]) -> PacketOwner {
        let receiver = (self.rng.u8(..4) != 0).then(|| self.rng.usize(..WORKERS));
        self.shared.tracking().packet_owner(packet, receiver)
    }

    fn receive(&mut self, device: &str, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.time += 1000;
        // A datagram's fragments go where its first one says.
        let owners: Vec<PacketOwner> =
            frames.iter().map(|frame| self.packet_owner(&frame[LINK..])).collect();
        let owner = owners.iter().find_map(|owner| match owner {
            PacketOwner::Worker(worker) => Some(*worker),
            PacketOwner::Fragment { first, .. } => *first,
        });
        let path = &mut self.workers[owner.expect("a worker")];
        let device = path.network().link_by_name(device).expect("a device").index;
        let (mut seen, time) = (Seen::default(), self.time);
        path.receive(frames.iter().map(|bytes| Frame { device, bytes, time }), &mut seen);
        seen.frames.into_iter().map(|(_, frame)| frame[LINK..].to_vec()).collect()
    }

    fn send(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        self.time += 1000;
        let PacketOwner::Worker(worker) = self.packet_owner(packet) else { panic!("no fragment") };
        let mut seen = Seen::default();
        self.workers[worker].send_host(packet, self.time, &mut seen);
        seen.frames.into_iter().map(|(_, frame)| frame[LINK..].to_vec()).collect()
    }

    /// What left of a flow's packet.
    fn check_outside(&mut self, flow: Flow, out: &[Vec<u8>]) {
        let (src, dst, port, to) = addresses(out.first().expect("it leaves"));
        assert_eq!((src, dst, to), (ROUTER.into(), flow.server(), 53), "{flow:?}");
        let others =
            self.seen.iter().filter(|(other, _)| **other != flow && other.server == flow.server);
        assert!(
            others.into_iter().all(|(_, seen)| *seen != port),
            "{flow:?} looks like another: {port}"
        );
        assert_eq!(
            *self.seen.entry(flow).or_insert(port),
            port,
            "{flow:?} looks other than before"
        );
    }

    fn ask(&mut self, flow: Flow) {
        let packet = Ipv4::new(&*flow.client(), &*flow.server())
            / Udp::new(flow.port, 53)
            / payload(b"question");
        let out = match flow.client {
            0 => self.send(&packet.build()),
            _ => self.receive("lan", &[(from_lan() / packet).build()]),
        };
        self.check_outside(flow, &out);
    }

    fn ask_in_fragments(&mut self, flow: Flow) {
        let id = self.rng.u16(..);
        let ip = Ipv4::new(&*flow.client(), &*flow.server()).id(id);
        let whole = (from_lan() / ip / Udp::new(flow.port, 53) / payload([1; 3000])).build();
        let mut parts = fragments(&whole, 1400, 0);
        assert_eq!(parts.len(), 3);
        self.rng.shuffle(&mut parts);
        let out = self.receive("lan", &parts);
        self.check_outside(flow, &out);
    }

    fn answer(&mut self, flow: Flow) {
        let Some(port) = self.seen.get(&flow).copied() else { return };
        let packet = Ipv4::new(&*flow.server(), ROUTER) / Udp::new(53, port) / payload(b"answer");
        let out = self.receive("wan", &[(from_wan() / packet).build()]);
        if flow.client != 0 {
            let expected = (flow.server(), flow.client(), 53, flow.port);
            assert_eq!(
                out.iter().map(|p| addresses(p)).collect::<Vec<_>>(),
                [expected],
                "{flow:?}"
            );
        }
    }

    fn refuse(&mut self, flow: Flow) {
        let Some(port) = self.seen.get(&flow).copied().filter(|_| flow.client != 0) else { return };
        let quoted = Ipv4::new(ROUTER, &*flow.server()) / Udp::new(port, 53) / payload(b"question");
        let error = from_wan() / Ipv4::new("198.18.0.7", ROUTER) / Icmp::new(3, 1) / quoted;
        let out = self.receive("wan", &[error.build()]);
        let [error] = &out[..] else { panic!("{flow:?}: {out:?}") };
        let (_, to, ..) = addresses(error);
        let (from, server, port, _) = addresses(&error[ipv4::LEN + 8..]);
        assert_eq!(
            (to, from, server, port),
            (flow.client(), flow.client(), flow.server(), flow.port)
        );
    }

    fn connections(&self) -> u32 {
        self.workers.iter().map(|path| path.conntrack().count()).sum()
    }
}

#[test]
fn replies_reach_their_connection_on_any_worker() {
    let seed = penstock_testkit::seed();
    for round in 0..penstock_testkit::rounds(8) as u64 {
        let mut crew = Crew::new(seed + round);
        for _ in 0..1500 {
            let flow = Flow::random(&mut crew.rng);
            match crew.rng.u8(..8) {
                0..3 => crew.ask(flow),
                3 if flow.client != 0 => crew.ask_in_fragments(flow),
                4 => crew.refuse(flow),
                _ => crew.answer(flow),
            }
        }
        let busy = crew.workers.iter().filter(|path| path.conntrack().count() > 5).count();
        assert_eq!((busy, crew.connections() as usize), (WORKERS, crew.seen.len()));
        assert!(crew.workers.iter().all(|path| path.conntrack().statistics().insert_failed == 0));
        // Everything ends without leftovers.
        for path in &mut crew.workers {
            path.advance(crew.time + 1000 * SECOND, &mut Seen::default());
        }
        assert_eq!(crew.connections(), 0);
        for (flow, port) in &crew.seen {
            let back = (Ipv4::new(&*flow.server(), ROUTER) / Udp::new(53, *port)).build();
            let there =
                (Ipv4::new(&*flow.client(), &*flow.server()) / Udp::new(flow.port, 53)).build();
            for receiver in 0..WORKERS {
                for packet in [&back, &there] {
                    assert_eq!(
                        crew.shared.tracking().packet_owner(packet, Some(receiver)),
                        PacketOwner::Worker(receiver)
                    );
                }
            }
        }
    }
}
