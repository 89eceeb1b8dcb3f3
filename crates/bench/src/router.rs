// SPDX-License-Identifier: Apache-2.0

//! A router between two networks, with rules, and what goes through it.

use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;

use penstock_dataplane::{CompileOptions, Dataplane, DropEvent, Engine, Frame, Settings, Sink};
use penstock_lang::names::NoNames;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_net::{Link, Network};
use penstock_packet::{Meta, Packet};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_wire::checksum::{self, Sum};
use penstock_wire::{ethernet, ipv4, ipv6, tcp};

use crate::frames::Frames;

/// Frames given to the path at once.
pub(crate) const BURST: usize = 64;

/// Nanoseconds between bursts.
const STEP: u64 = 1_000;

/// Two networks: clients behind `lan`, servers behind `wan`.
const NET: &str = "\
link add wan address 02:00:00:00:00:01 type veth
link add lan address 02:00:00:00:00:02 type veth
link set wan up
link set lan up
addr add 198.19.0.1/16 dev wan
addr add 198.18.0.1/16 dev lan
neigh add 198.19.0.7 lladdr 02:00:00:00:00:b7 dev wan
neigh add 198.18.0.7 lladdr 02:00:00:00:00:a7 dev lan
route add 203.0.113.0/24 via 198.19.0.7
";

/// Counts sent frames and discards them.
#[derive(Debug, Default)]
pub(crate) struct Count {
    sent: u64,
}

impl Sink for Count {
    #[inline]
    fn transmit(&mut self, _device: &Link, frame: &[u8], _meta: &Meta) {
        self.sent += u64::from(black_box(frame).len() > 14);
    }
    fn deliver(&mut self, _device: &Link, _packet: &Packet) {}
    #[inline]
    fn drop_several(&mut self, _drop: &DropEvent<'_>, _packets: u64) -> bool {
        true
    }
}

/// Keeps sent frames.
#[derive(Debug, Default)]
struct Taken(Vec<Vec<u8>>);

impl Sink for Taken {
    fn transmit(&mut self, _device: &Link, frame: &[u8], _meta: &Meta) {
        self.0.push(frame.to_vec());
    }
    fn deliver(&mut self, _device: &Link, _packet: &Packet) {}
}

/// The answer to a UDP frame: addresses and ports the other way around, which no checksum notices.
pub(crate) fn answer(mut frame: Vec<u8>) -> Vec<u8> {
    let v6 = frame[12..14] == [0x86, 0xdd];
    for (at, len) in if v6 { [(0, 6), (22, 16), (54, 2)] } else { [(0, 6), (26, 4), (34, 2)] } {
        let (first, second) = frame[at..at + 2 * len].split_at_mut(len);
        first.swap_with_slice(second);
    }
    frame
}

/// A segment of a TCP frame's connection: with flags, a sequence number (zero of a SYN) and an
/// acknowledgement.
fn segment(frame: &[u8], flags: u8, seq: u32, ack: u32) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let v6 = frame[12..14] == [0x86, 0xdd];
    let at = ethernet::LEN + if v6 { ipv6::LEN } else { ipv4::LEN };
    let seq = if flags & tcp::flag::SYN != 0 { 0 } else { seq };
    let ack = if flags & tcp::flag::ACK != 0 { ack } else { 0 };
    let field = |frame: &[u8]| Sum::new().bytes(&frame[at + 4..at + 14]);
    let old = field(&frame);
    frame[at + 4..at + 8].copy_from_slice(&seq.to_be_bytes());
    frame[at + 8..at + 12].copy_from_slice(&ack.to_be_bytes());
    frame[at + 13] = flags;
    let check = u16::from_be_bytes([frame[at + 16], frame[at + 17]]);
    let check = checksum::replace(check, old, field(&frame));
    frame[at + 16..at + 18].copy_from_slice(&check.to_be_bytes());
    frame
}

/// What happens to all packets of a variant, so that no benchmark measures something else by
/// mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Dropped,
    Sent,
}

/// A router with frames for one of its devices.
pub(crate) struct Router {
    path: Dataplane,
    sink: Count,
    device: u32,
    time: u64,
    burst: usize,
    /// Nanoseconds between bursts.
    step: u64,
}

/// The network of [`Router::new`].
pub(crate) fn network() -> Network {
    Network::from_batch("net.ip", NET).expect("a network")
}

/// Rules of a family that pass connections, from whichever side they begin.
pub(crate) fn stateful(family: &str) -> String {
    format!(
        "table {family} t {{
    chain f {{
        type filter hook forward priority 0; policy drop
        ct state established,related accept
        ct state new accept
    }}
}}"
    )
}

/// A ruleset from its text.
pub(crate) fn ruleset(text: &str) -> Ruleset {
    let mut ruleset = Ruleset::default();
    let outcome = Session::new(Options::default(), &NoFiles, &NoNames).run(
        Origin::CommandLine,
        text.to_owned(),
        &mut ruleset,
        0,
    );
    assert!(outcome.ok, "{}", outcome.stderr);
    ruleset
}

impl Router {
    /// A router with rules; frames come in by `lan`.
    pub(crate) fn new(rules: &str) -> Self {
        Self::of(&ruleset(rules))
    }

    /// With the interpreter in place of machine code.
    pub(crate) fn interpreted(mut self) -> Self {
        self.path.set_engine(Engine::Interpreter);
        self
    }

    /// Another ruleset is in force; it is compiled with the next packet.
    pub(crate) fn set_rules(&mut self, linked: Arc<Linked>) {
        self.path.set_rules(linked);
    }

    /// With base chains that are called one by one by their addresses.
    pub(crate) fn indirect(mut self) -> Self {
        let options = CompileOptions { indirect: true, ..CompileOptions::default() };
        self.path.set_engine_with(Engine::JitAtOnce, options);
        self
    }

    /// With rules at egress that run for each packet when it is its turn.
    pub(crate) fn without_precheck(mut self) -> Self {
        let options = CompileOptions { no_precheck: true, ..CompileOptions::default() };
        self.path.set_engine_with(Engine::JitAtOnce, options);
        self
    }

    /// A router with a ruleset, which is compiled where this machine can.
    pub(crate) fn of(ruleset: &Ruleset) -> Self {
        Self::between(NET, Settings::default(), ruleset)
    }

    /// A router in its own network, with settings and a ruleset.
    pub(crate) fn between(net: &str, settings: Settings, ruleset: &Ruleset) -> Self {
        let net = Network::from_batch("net.ip", net).expect("a network");
        let device = net.link_by_name("lan").expect("a device").index;
        let mut path = Dataplane::new(Arc::new(net), settings);
        let linked = Linked::new(&ruleset.generation()).expect("rules that run");
        linked.image.build_lookups();
        path.set_engine(Engine::JitAtOnce);
        path.set_rules(Arc::new(linked));
        Router {
            path,
            sink: Count::default(),
            device,
            time: 1_700_000_000_000_000_000,
            burst: BURST,
            step: STEP,
        }
    }

    /// With so many frames given to it at once.
    pub(crate) fn in_bursts(mut self, burst: usize) -> Self {
        self.burst = burst;
        self
    }

    /// With so many nanoseconds between bursts.
    pub(crate) fn every(mut self, step: u64) -> Self {
        self.step = step;
        self
    }

    /// [`Router::sending`] of frames of which so many begin a connection, each time.
    pub(crate) fn opening(
        mut self,
        frames: &Rc<Frames>,
        connections: usize,
    ) -> impl FnMut() + use<> {
        for _ in 0..2 {
            let before = self.path.conntrack().statistics().insert;
            self.check(frames, Fate::Sent);
            let opened = self.path.conntrack().statistics().insert - before;
            assert_eq!(opened, connections as u64, "connections that began");
        }
        self.sending(frames, Fate::Sent)
    }

    /// Frames come in by another device from now on.
    pub(crate) fn at(mut self, device: &str) -> Self {
        self.device = self.path.network().link_by_name(device).expect("a device").index;
        self
    }

    /// The router after the servers behind `wan` have answered each frame: all connections are
    /// established.
    pub(crate) fn answered(mut self, frames: &Frames) -> Self {
        let mut out = Taken::default();
        for burst in frames.bursts(self.burst) {
            let (device, time) = (self.device, self.time);
            self.path.receive(burst.map(|bytes| Frame { device, bytes, time }), &mut out);
        }
        let answers: Vec<_> = std::mem::take(&mut out.0).into_iter().map(answer).collect();
        let device = self.path.network().link_by_name("wan").expect("a device").index;
        for burst in answers.chunks(self.burst) {
            let time = self.time;
            self.path.receive(burst.iter().map(|bytes| Frame { device, bytes, time }), &mut out);
        }
        // By then those that continue are streams of UDP.
        self.time += 3_000_000_000;
        assert_eq!(out.0.len(), frames.len(), "all were answered: {:?}", self.path.counters());
        self
    }

    /// The router after handshakes of TCP, for each of which a client's SYN is given.
    pub(crate) fn shaken(mut self, syns: &Frames) -> Self {
        for flags in [tcp::flag::SYN, tcp::flag::ACK] {
            let mut out = Taken::default();
            for burst in syns.bursts(self.burst) {
                let frames: Vec<_> = burst.map(|syn| segment(syn, flags, 1, 1)).collect();
                let (device, time) = (self.device, self.time);
                let frames = frames.iter().map(|bytes| Frame { device, bytes, time });
                self.path.receive(frames, &mut out);
            }
            assert_eq!(out.0.len(), syns.len(), "{:?}", self.path.counters());
            let device = self.path.network().link_by_name("wan").expect("a device").index;
            for burst in out.0.chunks(self.burst).filter(|_| flags == tcp::flag::SYN) {
                let answers: Vec<_> = burst.iter().map(|syn| answer(syn.clone())).collect();
                let shake = tcp::flag::SYN | tcp::flag::ACK;
                let answers: Vec<_> =
                    answers.iter().map(|frame| segment(frame, shake, 0, 1)).collect();
                let time = self.time;
                let frames = answers.iter().map(|bytes| Frame { device, bytes, time });
                self.path.receive(frames, &mut Taken::default());
            }
        }
        self
    }

    /// [`Router::sending`] of frames of offloaded flows: the flowtable forwards all of them.
    pub(crate) fn sending_fast(mut self, frames: &Rc<Frames>) -> impl FnMut() + use<> {
        let before = self.fast();
        self.check(frames, Fate::Sent);
        assert_eq!(self.fast() - before, frames.len() as u64, "all by the flowtable");
        self.sending(frames, Fate::Sent)
    }

    /// Packets that flowtables have forwarded so far.
    fn fast(&self) -> u64 {
        self.path.counters().fast
    }

    /// With traffic control.
    pub(crate) fn tc(mut self, lines: &str) -> Self {
        let net = self.path.network().clone();
        let tc = penstock_tc::Config::from_batch("tc", lines, |name| {
            net.link_by_name(name).map(|l| l.index)
        });
        self.path.set_tc(Arc::new(tc.expect("traffic control")));
        self
    }

    /// A closure to measure, after a check that the frames have the expected fate.
    pub(crate) fn sending(mut self, frames: &Rc<Frames>, fate: Fate) -> impl FnMut() + use<> {
        self.check(frames, fate);
        let frames = frames.clone();
        move || self.send(&frames)
    }

    /// Receives frames with their times as a burst; the results go to `sink`.
    pub(crate) fn receive<'f>(
        &mut self,
        frames: impl Iterator<Item = (u64, &'f [u8])>,
        sink: &mut impl Sink,
    ) {
        let device = self.device;
        self.path.receive(frames.map(|(time, bytes)| Frame { device, bytes, time }), sink);
    }

    /// Sends all frames once.
    pub(crate) fn send(&mut self, frames: &Frames) {
        for burst in frames.bursts(self.burst) {
            self.time += self.step;
            let (device, time) = (self.device, self.time);
            self.path.receive(burst.map(|bytes| Frame { device, bytes, time }), &mut self.sink);
        }
    }

    /// Sends all frames once and looks what became of them.
    pub(crate) fn check(&mut self, frames: &Frames, fate: Fate) {
        let (sent, dropped) = (self.sink.sent, self.path.counters().dropped());
        self.send(frames);
        let (sent, dropped) = (self.sink.sent - sent, self.path.counters().dropped() - dropped);
        let all = frames.len() as u64;
        let expected = match fate {
            Fate::Dropped => (0, all),
            Fate::Sent => (all, 0),
        };
        assert_eq!((sent, dropped), expected, "sent and dropped of {all}");
    }
}

/// A router and frames as something to measure.
pub(crate) fn sending(rules: &str, frames: &Rc<Frames>, fate: Fate) -> impl FnMut() + use<> {
    Router::new(rules).sending(frames, fate)
}
