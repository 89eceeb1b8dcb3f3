// SPDX-License-Identifier: Apache-2.0

//! Packets that rules give to a listener: where they continue, what an answer changes, limits.

mod router;

use penstock_dataplane::{
    Dataplane, DropEvent, Engine, Frame, NotQueued, QueueAnswer, QueueRecord, QueueVerdict, Queued,
    Sink,
};
use penstock_net::Link;
use penstock_packet::{Gso, GsoKind, Meta, Packet};
use penstock_program::expr::{Ct, CtKey, Expr, Queue};
use penstock_program::{Hook, Register, Verdict};
use penstock_ruleset::Family;
use penstock_ruleset::model::ChainType;
use penstock_testkit::build::*;
use router::*;

/// A listener to some queues.
#[derive(Default)]
struct Listener {
    seen: Seen,
    queues: Vec<u16>,
    answer: Option<Queued>,
    ids: Vec<u64>,
}

impl Sink for Listener {
    fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
        self.seen.transmit(device, frame, meta);
    }
    fn deliver(&mut self, device: &Link, packet: &Packet) {
        self.seen.deliver(device, packet);
    }
    fn drop(&mut self, drop: &DropEvent<'_>, packet: &Packet) {
        self.seen.drop(drop, packet);
    }
    fn queue(&mut self, record: &QueueRecord<'_>, packet: &Packet) -> Queued {
        if !self.queues.contains(&record.queue) {
            return Queued::Nobody;
        }
        if packet.meta.gso.is_some() {
            return Queued::Cut;
        }
        let answer = self.answer.unwrap_or(Queued::Held);
        if answer == Queued::Held {
            self.ids.push(record.id);
            let name = |l: Option<&Link>| l.map_or("-".into(), |l| l.name.to_string());
            self.seen.lines.push(format!(
                "queue {} {:?} {} {}: {}",
                record.queue,
                record.context.hook,
                name(record.input),
                name(record.output),
                describe(packet.meta.protocol, packet.network())
            ));
        }
        answer
    }
}

impl Listener {
    fn of(queues: &[u16]) -> Self {
        Listener { queues: queues.into(), ..Listener::default() }
    }

    fn receive(&mut self, path: &mut Dataplane, device: &str, frame: &[u8]) -> Vec<String> {
        let device = path.network().link_by_name(device).unwrap().index;
        path.receive([Frame { device, bytes: frame, time: START }], self);
        std::mem::take(&mut self.seen.lines)
    }

    fn verdict(&mut self, path: &mut Dataplane, verdict: QueueVerdict) -> Vec<String> {
        self.answer(path, &QueueAnswer::new(verdict))
    }

    /// Answers the oldest packet.
    fn answer(&mut self, path: &mut Dataplane, answer: &QueueAnswer<'_>) -> Vec<String> {
        let id = self.ids.remove(0);
        path.verdict(id, answer, START + SECOND, self).unwrap();
        std::mem::take(&mut self.seen.lines)
    }
}

fn queue(num: u16, bypass: bool) -> Vec<Expr> {
    vec![Expr::Queue(Queue { num, total: 1, sreg: None, bypass, fanout: false })]
}

fn udp() -> Vec<u8> {
    (from_wan() / Ipv4::new("198.18.0.7", "198.18.1.7") / Udp::new(1000, 53) / payload(b"abc"))
        .build()
}

/// As `nfqnl_enqueue_packet()` does for listeners without `NFQA_CFG_F_GSO`.
#[test]
fn segments_of_a_super_packet_are_queued_one_by_one() {
    let mut path = router(NET);
    load(&mut path, vec![Base::new(Family::Ip, "a", Hook::Forward, vec![queue(3, false)])]);
    let frame = (from_wan()
        / Ipv4::new("198.18.0.7", "198.18.1.7")
        / Tcp::new(1, 2).seq(100).ack(9)
        / payload([7; 3000]))
    .build();
    let gso = Gso { size: 1300, kind: GsoKind::Tcp };
    let receive = |path: &mut Dataplane, listener: &mut Listener| {
        let device = path.network().link_by_name("wan").unwrap().index;
        path.receive_super(Frame { device, bytes: &frame, time: START }, gso, listener);
        std::mem::take(&mut listener.seen.lines)
    };
    let mut listener = Listener::of(&[3]);
    let queued = receive(&mut path, &mut listener);
    assert_eq!(queued.len(), 3, "{queued:?}");
    assert!(queued.iter().all(|line| line.starts_with("queue 3 Forward wan")), "{queued:?}");
    let first = listener.verdict(&mut path, QueueVerdict::Accept);
    assert_eq!(first.len(), 1, "{first:?}");
    assert!(first[0].starts_with("lan"), "{first:?}");
    assert_eq!(listener.verdict(&mut path, QueueVerdict::Drop).len(), 1);
    assert_ne!(listener.verdict(&mut path, QueueVerdict::Accept), first);
    // Where there is no room each one passes by, or is dropped.
    let mut listener = Listener { answer: Some(Queued::PassedBy), ..Listener::of(&[3]) };
    assert_eq!(receive(&mut path, &mut listener).len(), 3);
    let mut listener = Listener { answer: Some(Queued::Full), ..Listener::of(&[3]) };
    let full = receive(&mut path, &mut listener);
    assert_eq!(full.len(), 3);
    assert!(full.iter().all(|line| line.starts_with("drop: ")), "{full:?}");
}

fn udp6() -> Vec<u8> {
    (from_wan() / Ipv6::new("2001:db8::7", "2001:db8:1::7") / Udp::new(1000, 53) / payload(b"abc"))
        .build()
}

#[test]
fn without_a_listener_only_bypass_queues_pass_packets() {
    let mut path = router(NET);
    let ruleset = load(
        &mut path,
        vec![
            Base::new(Family::Ip, "a", Hook::Forward, vec![queue(3, true), vec![counter()]]),
            Base::new(Family::Ip, "b", Hook::Forward, vec![vec![counter()]]).at(1),
            Base::new(Family::Ip6, "c", Hook::Forward, vec![queue(3, false)]),
        ],
    );
    assert_eq!(receive(&mut path, "wan", &udp()).len(), 1);
    // The rest of the chain that queues is passed over.
    assert_eq!(counters(&ruleset).iter().map(|c| c.0).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(receive(&mut path, "wan", &udp6()), ["drop: queue without listener t c handle 2"]);
}

/// Each hook, and frames that pass it.
fn hooks() -> [(Hook, &'static str); 5] {
    [
        (Hook::Prerouting, "wan"),
        (Hook::Input, "wan"),
        (Hook::Forward, "wan"),
        (Hook::Output, "host"),
        (Hook::Postrouting, "wan"),
    ]
}

#[test]
fn an_accepted_packet_continues_after_its_chain_at_every_hook() {
    for (hook, source) in hooks() {
        for v6 in [false, true] {
            let chain = |name, rules| Base::new(Family::Inet, name, hook, rules);
            let bases =
                || vec![chain("a", vec![queue(0, false)]), chain("b", vec![vec![counter()]]).at(1)];
            let send = |path: &mut Dataplane, listener: &mut Listener| {
                let far = match (hook, v6) {
                    (Hook::Input, false) => "198.18.0.1",
                    (Hook::Input, true) => "2001:db8::1",
                    (_, false) => "198.18.1.7",
                    (_, true) => "2001:db8:1::7",
                };
                let udp = Udp::new(1000, 53) / payload(b"abc");
                let packet = match (v6, source) {
                    (false, "host") => Ipv4::new("198.18.1.1", far) / udp,
                    (true, "host") => Ipv6::new("2001:db8:1::1", far) / udp,
                    (false, _) => from_wan() / Ipv4::new("198.18.0.7", far) / udp,
                    (true, _) => from_wan() / Ipv6::new("2001:db8::7", far) / udp,
                };
                if source == "host" {
                    path.send_host(&packet.build(), START, listener);
                    return std::mem::take(&mut listener.seen.lines);
                }
                listener.receive(path, source, &packet.build())
            };
            let mut plain = router(NET);
            let expected = send(&mut plain, &mut Listener::of(&[]));
            assert_eq!(expected.len(), 1);

            let mut path = router(NET);
            let ruleset = load(&mut path, bases());
            let mut listener = Listener::of(&[0]);
            let queued = send(&mut path, &mut listener);
            assert!(queued.len() == 1 && queued[0].starts_with("queue 0"), "{hook:?} {queued:?}");
            assert_eq!((path.queued(), counters(&ruleset)[0].0), (1, 0));
            assert_eq!(listener.verdict(&mut path, QueueVerdict::Accept), expected, "{hook:?}");
            assert_eq!((path.queued(), counters(&ruleset)[0].0), (0, 1));

            // Stop skips the later chains, drop ends it, repeat queues again.
            send(&mut path, &mut listener);
            assert_eq!(listener.verdict(&mut path, QueueVerdict::Stop), expected, "{hook:?}");
            assert_eq!(counters(&ruleset)[0].0, 1);
            send(&mut path, &mut listener);
            assert_eq!(listener.verdict(&mut path, QueueVerdict::Repeat), queued);
            assert_eq!(
                listener.verdict(&mut path, QueueVerdict::Drop),
                ["drop: rule t a handle 2"]
            );
            assert_eq!(
                path.verdict(7, &answer(QueueVerdict::Drop), START, &mut listener),
                Err(NotQueued)
            );
        }
    }
}

fn answer(verdict: QueueVerdict) -> QueueAnswer<'static> {
    QueueAnswer::new(verdict)
}

#[test]
fn a_verdict_may_change_mark_bytes_and_queue() {
    let mut path = router(NET);
    load(&mut path, vec![Base::new(Family::Ip, "a", Hook::Prerouting, vec![queue(0, false)])]);
    let mut listener = Listener::of(&[0, 5]);
    listener.receive(&mut path, "wan", &udp());
    let other = QueueVerdict::Queue { num: 5, bypass: false };
    let lines = listener.verdict(&mut path, other);
    assert!(lines[0].starts_with("queue 5 Prerouting wan -"), "{lines:?}");
    // To where no listener is.
    let nowhere = |bypass| QueueVerdict::Queue { num: 6, bypass };
    assert_eq!(
        listener.verdict(&mut path, nowhere(false)),
        ["drop: queue without listener t a handle 2"]
    );
    listener.receive(&mut path, "wan", &udp());
    assert_eq!(listener.verdict(&mut path, nowhere(true)).len(), 1);

    let elsewhere =
        (Ipv4::new("198.18.0.7", "198.19.0.9") / Udp::new(1, 2) / payload([7; 900])).build();
    listener.receive(&mut path, "wan", &udp());
    listener.seen.frames.clear();
    let new = QueueAnswer {
        verdict: QueueVerdict::Accept,
        mark: Some(9),
        priority: None,
        payload: Some(&elsewhere),
        link: None,
    };
    let lines = listener.answer(&mut path, &new);
    assert!(lines[0].starts_with("lan: to b7") && lines[0].contains("198.19.0.9"), "{lines:?}");
    assert_eq!(listener.seen.frames[0].1.len(), 14 + elsewhere.len());
}

#[test]
fn verdicts_come_in_any_order_and_a_closing_listener_drops_its_packets() {
    let mut path = router(NET);
    load(&mut path, vec![Base::new(Family::Inet, "a", Hook::Forward, vec![queue(0, false)])]);
    let mut listener = Listener::of(&[0]);
    for frame in [udp(), udp6(), udp(), udp6()] {
        listener.receive(&mut path, "wan", &frame);
    }
    listener.ids.swap(0, 1);
    assert!(listener.verdict(&mut path, QueueVerdict::Accept)[0].contains("2001:db8:1::7"));
    assert!(listener.verdict(&mut path, QueueVerdict::Accept)[0].contains("198.18.1.7"));
    path.close_queue(0, START, &mut listener);
    assert_eq!(listener.seen.lines, ["drop: rule t a handle 2"; 2]);
    assert_eq!(path.queued(), 0);
}

#[test]
fn a_full_queue_drops_or_lets_pass() {
    let mut path = router(NET);
    load(&mut path, vec![Base::new(Family::Ip, "a", Hook::Forward, vec![queue(0, false)])]);
    let mut listener = Listener { answer: Some(Queued::Full), ..Listener::of(&[0]) };
    assert_eq!(listener.receive(&mut path, "wan", &udp()), ["drop: queue full t a handle 2"]);
    listener.answer = Some(Queued::PassedBy);
    assert!(listener.receive(&mut path, "wan", &udp())[0].starts_with("lan: "));
}

#[test]
fn a_queued_packet_keeps_its_new_connection() {
    let mut path = router(NET);
    let ct = vec![Expr::Ct(Ct { key: CtKey::State, dir: None, dreg: Register(1) }), counter()];
    load(
        &mut path,
        vec![
            Base::new(Family::Ip, "a", Hook::Forward, vec![queue(0, false)]),
            Base::new(Family::Ip, "b", Hook::Forward, vec![ct]).at(1),
        ],
    );
    let mut listener = Listener::of(&[0]);
    listener.receive(&mut path, "wan", &udp());
    // Another packet meanwhile, which is dropped.
    listener.queues.clear();
    let other = (from_wan() / Ipv4::new("198.18.0.7", "198.18.1.7") / Udp::new(1, 2)).build();
    listener.receive(&mut path, "wan", &other);
    assert_eq!(path.conntrack().iter().count(), 0);
    listener.verdict(&mut path, QueueVerdict::Accept);
    let ports: Vec<_> = path
        .conntrack()
        .iter()
        .map(|c| c.tuple(penstock_conntrack::Direction::Original).src_id)
        .collect();
    assert_eq!(ports, [1000]);
}

#[test]
fn a_first_packet_waits_in_a_nat_chain_alike_on_the_fast_path_and_stage_by_stage() {
    let hooks = [(Hook::Prerouting, -100), (Hook::Postrouting, 100)];
    let ct = vec![Expr::Ct(Ct { key: CtKey::State, dir: None, dreg: Register(1) }), counter()];
    for (v6, (hook, priority)) in [false, true].into_iter().flat_map(|v6| hooks.map(|h| (v6, h))) {
        let frame = if v6 { udp6() } else { udp() };
        let outcome = |engine, queues: &[u16], bypass| {
            let mut path = router(NET);
            path.set_engine(engine);
            // The way is known afterwards.
            let mut listener = Listener::of(queues);
            listener.receive(&mut path, "wan", &frame);
            let nat = Base::new(Family::Inet, "a", hook, vec![queue(0, bypass)]);
            load(
                &mut path,
                vec![
                    nat.of(ChainType::Nat).at(priority),
                    Base::new(Family::Inet, "b", Hook::Forward, vec![ct.clone()]),
                ],
            );
            let mut lines = listener.receive(&mut path, "wan", &frame);
            if !listener.ids.is_empty() {
                lines.extend(listener.verdict(&mut path, QueueVerdict::Accept));
            }
            (lines, path.conntrack().count())
        };
        for (queues, bypass) in [(&[0][..], false), (&[], false), (&[], true)] {
            let stages = outcome(Engine::Interpreter, queues, bypass);
            assert_eq!(outcome(Engine::JitAtOnce, queues, bypass), stages, "{hook:?} {queues:?}");
            assert_eq!(stages.0.len(), 1 + queues.len(), "{stages:?}");
        }
    }
}

#[test]
fn packets_are_dropped_when_their_hook_changes_and_kept_when_only_rules_do() {
    let chain = |name, rules| Base::new(Family::Ip, name, Hook::Forward, rules);
    let mut path = router(NET);
    load(&mut path, vec![chain("a", vec![queue(0, false)])]);
    let mut listener = Listener::of(&[0]);
    listener.receive(&mut path, "wan", &udp());
    load(&mut path, vec![chain("a", vec![queue(0, false), vec![verdict(Verdict::Accept)]])]);
    assert_eq!(path.queued(), 1);
    load(&mut path, vec![chain("a", vec![queue(0, false)]), chain("b", vec![])]);
    assert_eq!((path.queued(), path.counters().dropped()), (0, 1));
}
