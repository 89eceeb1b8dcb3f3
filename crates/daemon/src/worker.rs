//! The thread that does packets: bursts from all ports in turn, and between them what others ask for.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};

use penstock_conntrack::Statistics;
use penstock_io::device::{BURST, Received, Rx, wait};
use penstock_io::queue::{Answer, Message, Open};
use penstock_net::Network;
use penstock_path::{CompileOptions, Counters, Dataplane, Engine, FlowCounts, Frame};
use penstock_program::image::ChainIndex;
use penstock_ruleset::link::{CannotOffload, Linked, LinkedFlowtable};

use crate::control::Broadcast;
use crate::daemon::TracePrinter;
use crate::host_side::{sender, without};
use crate::inbox::Inbox;
use crate::listing::{List, Page};
use crate::offload::Offloaded;
use crate::ports::{Held, Wire};
use crate::probe::Probe;
use crate::queues::queue_answer;
use crate::sink::{LiveSink, PortTraffic};
use crate::talkers::{self, Talker};
use crate::{dhcp, log, now};

/// Bursts from a wire before what follows from them leaves: the kernel sends that many frames of an AF_XDP socket in one call.
const BURSTS: usize = 4;
/// Nanoseconds after which time is passed on, with packets or without.
const TICK: u64 = 20_000_000;
/// Milliseconds to wait for frames when there are none; what has to do with time is late by that much at most.
const IDLE: i32 = 50;
/// What others ask of the worker.
pub(crate) enum Request {
    /// Another state of the network is in force.
    Network(Arc<Network>),
    /// Another generation is in force, and these chains run on devices (by index). Answered when it is.
    Rules(Arc<Linked>, Vec<(ChainIndex, u32)>, Sender<()>),
    /// These chains of the generation run on devices from now on, and no others.
    Offloaded(Vec<(ChainIndex, u32)>),
    /// What happened so far.
    Status(Sender<Status>),
    /// The device of a port is another from now on, or there is none.
    Wire(usize, Option<Box<Wire>>),
    /// A page of a listing, from the connection with this number on.
    List(List, u32, Sender<Page>),
    /// Whether devices can forward the flows of these flowtables.
    CanOffload(Vec<LinkedFlowtable>, Sender<Result<(), CannotOffload>>),
    /// Connections from a number on, so many numbers, as a part of a dump, and the number to go on with.
    Dump(u32, u32, Sender<(String, Option<u32>)>),
    /// Connections of a dump, which are to be in the table. Answered with what is wrong.
    Load(String, Sender<Result<usize, String>>),
    /// Flows and connections with the most bytes, among some from a number on; the number to go on with.
    Talkers(u32, Sender<(Vec<Talker>, Option<u32>)>),
    /// Code counts the time of rules and stages from now on, or not.
    Profile(Engine, bool),
    /// What it has counted: name, times, ticks.
    ProfileLines(Sender<Vec<(String, u64, u64)>>),
    /// A program listens to a queue, or no longer.
    Queue(u16, Option<(Open, SyncSender<Message>)>),
    /// A program's answer to a packet of a queue.
    Answer(u16, Answer),
    /// One more capture.
    Probe(Probe),
    /// The capture with this number ends.
    EndProbe(u32),
    /// Steps of traced packets go there, or nowhere.
    Trace(Option<(TracePrinter, Arc<Broadcast>)>),
    /// Ruleset and connections are there: frames are received from now on.
    Begin,
    /// The end.
    Stop,
}

/// A port as `penstock show` shows it.
#[derive(Clone, Debug)]
pub struct PortStatus {
    /// What the host calls it.
    pub name: String,
    /// What the device is called.
    pub device: String,
    /// What carries its frames.
    pub carrier: String,
    /// What passed.
    pub traffic: PortTraffic,
    /// Frames that were lost before they were received, as far as it is known.
    pub lost: u64,
    /// Frames that the device did not take.
    pub refused: u64,
    /// Frames that the host did not take.
    pub host_refused: u64,
}

/// What happened so far.
#[derive(Clone, Debug)]
pub struct Status {
    /// Ports in their order.
    pub ports: Vec<PortStatus>,
    /// Packets, and drops by their reasons.
    pub counters: Counters,
    /// Connections that are tracked.
    pub connections: u64,
    /// Flows in flowtables.
    pub flows: u64,
    /// What happened to flows.
    pub flow_counts: FlowCounts,
    /// What happened to connections.
    pub tracking: Statistics,
    /// Packets that wait for programs.
    pub queued: u64,
    /// Packets for the host that no port could take there.
    pub undelivered: u64,
    /// What devices of ports do themselves.
    pub offloaded: Vec<Offloaded>,
    /// Why there is no machine code, if there should be.
    pub compile_error: Option<String>,
}

/// A receiving side, and its port.
pub(crate) struct In {
    pub(crate) port: usize,
    pub(crate) rx: Rx,
}

/// Words about a port for `show`.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) device: String,
    pub(crate) carrier: String,
}

pub(crate) struct Worker {
    pub(crate) path: Dataplane,
    pub(crate) sink: LiveSink,
    pub(crate) wires: Vec<In>,
    pub(crate) hosts: Vec<In>,
    pub(crate) names: Vec<Named>,
    /// What holds as long as it works, by port; nothing of a device that is gone.
    pub(crate) held: Vec<Option<Held>>,
    pub(crate) inbox: Arc<Inbox<Request>>,
}

impl Worker {
    /// Works until it is told to stop; then all devices are closed.
    pub(crate) fn run(mut self) {
        let (mut ticked, mut ready) = (0, Vec::new());
        if !self.wait_for_begin() {
            return;
        }
        loop {
            while let Some(request) = self.inbox.take() {
                if !self.serve(request) {
                    return;
                }
            }
            let time = now();
            let mut frames = 0;
            for i in 0..self.wires.len() {
                for _ in 0..BURSTS {
                    let some = self.receive_wire(i, time);
                    frames += some;
                    if some < BURST {
                        break;
                    }
                }
            }
            for i in 0..self.hosts.len() {
                frames += self.receive_host(i, time);
            }
            if time.saturating_sub(ticked) >= TICK {
                ticked = time;
                self.path.advance(time, &mut self.sink);
                self.sink.flush();
            } else if frames > 0 {
                self.sink.flush();
            }
            if frames == 0 {
                self.wait(&mut ready);
            }
        }
    }

    /// Serves requests until frames may be received; `false` for the end.
    fn wait_for_begin(&mut self) -> bool {
        let mut ready = Vec::new();
        loop {
            while let Some(request) = self.inbox.take() {
                if let Request::Begin = request {
                    return true;
                }
                if !self.serve(request) {
                    return false;
                }
            }
            if let Err(e) = wait(&[self.inbox.as_fd()], &mut ready, IDLE) {
                log(format_args!("waiting for the ruleset: {e}"));
                std::thread::sleep(std::time::Duration::from_millis(IDLE as u64));
            }
        }
    }

    fn wait(&mut self, ready: &mut Vec<bool>) {
        let pause = || std::thread::sleep(std::time::Duration::from_millis(IDLE as u64));
        let inputs = self.wires.iter().chain(&self.hosts);
        let fds: Vec<BorrowedFd<'_>> = inputs.map(|i| i.rx.as_fd()).chain([self.inbox.as_fd()]).collect();
        if let Err(e) = wait(&fds, ready, IDLE) {
            log(format_args!("waiting for frames: {e}"));
            pause();
        }
        // Whatever has no frames although it is ready has an error to tell.
        let inputs = self.wires.iter_mut().chain(&mut self.hosts);
        let mut there = true;
        for (input, _) in inputs.zip(ready.iter()).filter(|(_, ready)| **ready) {
            there &= input.rx.settle();
        }
        if !there {
            pause();
        }
    }

    /// Takes what wires have received so far: it came by programs of before.
    fn empty(&mut self) {
        /// Bursts that fit into what a device receives to.
        const MOST: usize = 4096 / BURST;
        let time = now();
        for i in 0..self.wires.len() {
            (0..MOST).take_while(|_| self.receive_wire(i, time) > 0).for_each(drop);
        }
        self.sink.flush();
    }

    /// A burst from a wire; how many frames it had.
    fn receive_wire(&mut self, i: usize, time: u64) -> usize {
        let Worker { path, sink, wires, .. } = self;
        let Some(In { port, rx }) = wires.get_mut(i) else { return 0 };
        let count = rx.fetch();
        if count == 0 {
            return 0;
        }
        let Some((device, dhcp_until)) = sink.ports.get_mut(*port).map(|out| {
            let received = &mut out.traffic.received;
            (0..count).filter_map(|i| rx.frame(i)).for_each(|frame| received.count(frame.bytes.len()));
            (out.index, out.dhcp_until)
        }) else {
            return 0;
        };
        let client = path.network().link(device).filter(|_| time < dhcp_until).map(|link| link.mac.0);
        let is_answer = |frame: &Received<'_>| client.is_some_and(|mac| dhcp::is_answer(frame.bytes, mac));
        let mut at = 0;
        while at < count {
            match rx.frame(at) {
                None => at += 1,
                Some(received) if received.gso.is_some() => {
                    if let Some(gso) = received.gso {
                        path.receive_super(Frame { device, bytes: received.bytes, time }, gso, sink);
                    }
                    at += 1;
                }
                Some(answer) if is_answer(&answer) => {
                    let given = |sink: &LiveSink| sink.ports.get(*port).map(|p| p.traffic.to_host.frames);
                    let before = given(sink);
                    path.receive([Frame { device, bytes: answer.bytes, time }], sink);
                    if given(sink) == before
                        && let Some(out) = sink.ports.get_mut(*port)
                    {
                        out.give_host(answer.bytes);
                    }
                    at += 1;
                }
                Some(_) => {
                    let plain = |i: &usize| rx.frame(*i).is_some_and(|f| f.gso.is_none() && !is_answer(&f));
                    let end = (at..count).find(|i| !plain(i)).unwrap_or(count);
                    let frames = (at..end).filter_map(|i| rx.frame(i));
                    path.receive(frames.map(|f| Frame { device, bytes: f.bytes, time }), sink);
                    at = end;
                }
            }
        }
        rx.release();
        count
    }

    /// What the host has sent on a port; how many frames.
    fn receive_host(&mut self, i: usize, time: u64) -> usize {
        let Worker { path, sink, hosts, .. } = self;
        let Some(In { port, rx }) = hosts.get_mut(i) else { return 0 };
        let count = rx.fetch();
        for frame in (0..count).filter_map(|i| rx.frame(i)) {
            let Some(out) = sink.ports.get_mut(*port) else { continue };
            out.traffic.from_host.count(frame.bytes.len());
            if dhcp::is_question(frame.bytes) {
                out.dhcp_until = time + dhcp::WATCHED;
            }
            let device = out.index;
            let Some((device, tags)) = sender(path.network(), device, frame.bytes, sink.indexes()) else {
                continue;
            };
            let mut room = std::mem::take(&mut sink.untagged);
            let bytes = without(frame.bytes, tags, &mut room);
            path.send_from_host(Frame { device, bytes, time }, frame.gso, sink);
            sink.untagged = room;
        }
        count
    }

    /// Does what is asked; `false` for the end.
    fn serve(&mut self, request: Request) -> bool {
        match request {
            Request::Network(net) => {
                self.sink.set_network(net.clone());
                self.path.set_network(net, now(), &mut self.sink);
                self.sink.flush();
            }
            Request::Rules(linked, running, done) => {
                self.path.set_rules_offloaded(linked, running);
                // Whoever asked may be gone.
                let _ = done.send(());
            }
            Request::Wire(port, wire) => self.set_wire(port, wire.map(|wire| *wire)),
            Request::Offloaded(running) => {
                self.empty();
                self.path.set_offloaded(running);
            }
            Request::Status(to) => {
                let _ = to.send(self.status());
            }
            Request::List(list, first, to) => {
                let _ = to.send(list.page(&self.path, first, now()));
            }
            Request::CanOffload(flowtables, to) => {
                let _ = to.send(self.path.can_offload(&flowtables));
            }
            Request::Dump(from, count, to) => {
                let mut part = String::new();
                let next = self.path.conntrack().dump_part(from, count, &mut part);
                let _ = to.send((part, next));
            }
            Request::Load(dump, to) => {
                let loaded = self.path.conntrack_mut().load(&dump, now());
                let _ = to.send(loaded.map_err(|e| e.to_string()));
            }
            Request::Talkers(first, to) => {
                let _ = to.send(talkers::page(&self.path, first));
            }
            Request::Profile(engine, profile) => {
                self.path.set_engine_with(engine, CompileOptions { profile, ..CompileOptions::default() });
            }
            Request::ProfileLines(to) => {
                let _ = to.send(self.path.profile());
            }
            Request::Queue(num, opened) => {
                self.path.close_queue(num, now(), &mut self.sink);
                self.sink.listeners.set(num, opened);
            }
            Request::Answer(num, answer) => {
                for id in self.sink.listeners.answered(num, &answer) {
                    // One that was dropped meanwhile needs no answer any more.
                    let _ = self.path.verdict(id, &queue_answer(&answer), now(), &mut self.sink);
                }
                self.sink.flush();
            }
            Request::Probe(probe) => self.sink.probes.push(probe),
            Request::EndProbe(number) => self.sink.probes.retain(|p| p.number != number),
            Request::Trace(trace) => self.sink.trace = trace,
            Request::Begin => {}
            Request::Stop => {
                self.sink.flush();
                return false;
            }
        }
        true
    }

    /// Puts another device behind a port, or none: then what is sent there is refused.
    fn set_wire(&mut self, port: usize, wire: Option<Wire>) {
        self.wires.retain(|input| input.port != port);
        if let Some(held) = self.held.get_mut(port) {
            *held = None;
        }
        let Some(Wire { carrier, rx, tx, held, .. }) = wire else { return };
        self.wires.extend(rx.into_iter().map(|rx| In { port, rx }));
        if let Some(out) = self.sink.ports.get_mut(port) {
            out.tx = tx;
        }
        if let Some(place) = self.held.get_mut(port) {
            *place = Some(held);
        }
        if let Some(named) = self.names.get_mut(port) {
            named.carrier = carrier.to_string();
        }
    }

    fn status(&self) -> Status {
        let port = |(number, named): (usize, &Named)| {
            let out = self.sink.ports.get(number)?;
            let lost = self.wires.iter().filter(|w| w.port == number).map(|w| w.rx.lost()).sum();
            Some(PortStatus {
                name: named.name.clone(),
                device: named.device.clone(),
                carrier: named.carrier.clone(),
                traffic: out.traffic,
                lost,
                refused: out.tx.refused(),
                host_refused: out.host_tx.refused(),
            })
        };
        Status {
            ports: self.names.iter().enumerate().filter_map(port).collect(),
            counters: self.path.counters().clone(),
            connections: self.path.conntrack().count().into(),
            flows: self.path.flow_count() as u64,
            flow_counts: self.path.flow_counts(),
            tracking: *self.path.conntrack().statistics(),
            queued: self.path.queued() as u64,
            undelivered: self.sink.undelivered,
            offloaded: Vec::new(),
            compile_error: self.path.compile_error().map(|e| e.to_string()),
        }
    }
}
