// SPDX-License-Identifier: Apache-2.0

//! A thread that does packets: bursts from all ports in turn, and between them what others ask for.
//!
//! | file | is |
//! | --- | --- |
//! | `frames` | what was received, on its way into the path |
//! | [`sink`] | where packets go that leave the path |
//! | [`steering`] | several workers: which one owns a frame |
//! | `fragment_steering` | fragments that wait until their owner is known |
//! | `handoff`, `ring`, `waker` | frames that go from one worker to another |
//! | `host_side` | on which TAP a frame for the host goes |
//! | `mirrors` | frames that are shown to programs of the host |
//! | `records`, `unshown` | what programs of an attached ruleset tell |
//! | `dhcp` | frames of the host's DHCP client |
//! | [`stages`] | where a worker's time goes |

mod dhcp;
mod fragment_steering;
mod frames;
mod handoff;
mod host_side;
mod mirrors;
mod placed_drops;
mod records;
mod ring;
pub(crate) mod sink;
pub(crate) mod stages;
pub(crate) mod steering;
mod unshown;
mod waker;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use penstock_dataplane::{CompileOptions, Dataplane, DropReason, QueueAnswer};
use penstock_io::device::{BURST, wait};
use penstock_net::Network;
use penstock_nfnetlink::{VerdictChange, of_connection};
use penstock_print::show::status::{PortStatus, Status, WorkerStatus};

use crate::devices::ports::{Held, WireShare};
use crate::events::Listeners;
use crate::port_share::{In, Named, PortShare};
use crate::queues::queue_answer;
use crate::requests::inbox::Inbox;
use crate::requests::{Barrier, Further, Request};
use crate::{clock, log, now};
use frames::{receive_frames, send_from_host, take_burst, work_off};
use handoff::HandoffMeta;
use sink::LiveSink;
use stages::{Doing, Stages};
use steering::{Handing, Steering};

/// Bursts from a wire before what follows from them leaves: the frames of AF_XDP leave in one call,
/// which costs as much as sending twenty of them.
const BURSTS: usize = 8;
/// Requests between two bursts: others may leave them as fast as they are served.
const REQUESTS: usize = 256;
/// Nanoseconds after which time is passed on, with packets or without.
const TICK: u64 = 20_000_000;
/// Milliseconds to wait for frames; timers are late by that much at most.
const IDLE: i32 = 50;
/// Nanoseconds over which it is measured how busy a worker is.
const MEASURED: u64 = 1_000_000_000;

pub(crate) struct Worker {
    pub(crate) path: Dataplane,
    pub(crate) sink: LiveSink,
    pub(crate) wires: Vec<In>,
    pub(crate) hosts: Vec<In>,
    /// By port; `None` for a number that no port has.
    pub(crate) names: Vec<Option<Named>>,
    /// Held as long as the port is there, by port; `None` for a device that is gone.
    pub(crate) held: Vec<Option<Held>>,
    pub(crate) inbox: Arc<Inbox<Request>>,
    /// The other workers, if there are any.
    pub(crate) steering: Option<Steering>,
    pub(crate) load: Load,
    pub(crate) stages: Stages,
}

/// How busy a worker is. Times are nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Load {
    received: u64,
    since: u64,
    idle: u64,
    percent: u8,
}

impl Load {
    fn pass_time(&mut self, now: u64) {
        let passed = now.saturating_sub(self.since);
        if passed >= MEASURED {
            let idle = (self.idle * 100 / passed).min(100) as u8;
            *self = Load { received: self.received, since: now, idle: 0, percent: 100 - idle };
        }
    }
}

impl Worker {
    /// Runs until it is told to stop; then all devices are closed.
    pub(crate) fn run(mut self) {
        let (mut ticked, mut looked, mut ready) = (0, 0, Vec::new());
        if !self.wait_for_begin() {
            return;
        }
        loop {
            for _ in 0..REQUESTS {
                let Some(request) = self.inbox.take() else { break };
                if !self.serve(request) {
                    return;
                }
            }
            let time = now();
            let since = self.stages.begin();
            let mut frames = self.take_handed(time);
            self.stages.end(Doing::InPath, frames, since);
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
            let tick = time.saturating_sub(ticked) >= TICK;
            if tick {
                ticked = time;
                let since = self.stages.begin();
                if time.saturating_sub(looked) >= clock::LOOK {
                    looked = time;
                    self.path.set_wall_ahead(clock::look());
                }
                self.path.advance(time, &mut self.sink);
                self.load.pass_time(time);
                self.count_refused(time);
                self.stages.end(Doing::Timers, 0, since);
            }
            if tick || frames > 0 {
                let since = self.stages.begin();
                self.sink.flush();
                self.stages.end(Doing::Send, frames, since);
            }
            if let Some(steering) = &mut self.steering {
                steering.wake();
                if frames > 0 || !steering.fall_asleep() {
                    continue;
                }
            }
            if frames == 0 {
                self.wait(&mut ready);
                self.load.idle += now().saturating_sub(time);
                if let Some(steering) = &self.steering {
                    steering.awake();
                }
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
        let fds: Vec<BorrowedFd<'_>> =
            inputs.map(|i| i.rx.as_fd()).chain([self.inbox.as_fd()]).collect();
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
        if let Some(steering) = &mut self.steering {
            steering.wake();
        }
    }

    /// A burst from a wire; how many frames it had.
    fn receive_wire(&mut self, i: usize, time: u64) -> usize {
        let Worker { path, sink, wires, steering, load, stages, .. } = self;
        let Some(In { port, rx, spread }) = wires.get_mut(i) else { return 0 };
        let (port, spread) = (*port, *spread);
        let since = stages.begin();
        let count = rx.fetch();
        if count == 0 {
            return 0;
        }
        stages.end(Doing::FromDevice, count, since);
        let since = stages.begin();
        load.received += count as u64;
        let Some(out) = sink.port_mut(port) else { return 0 };
        let received = &mut out.traffic.received;
        let frames = (0..count).filter_map(|i| rx.frame(i));
        frames.clone().for_each(|frame| received.count(frame.bytes.len()));
        match steering {
            None => receive_frames(path, sink, port, frames, time),
            Some(steering) => {
                let handed = |gso| HandoffMeta {
                    port: port as u32,
                    from_host: false,
                    owner_unknown: false,
                    gso,
                };
                let burst = (0..count).filter_map(|i| {
                    let frame = rx.frame(i)?;
                    Some((i, handed(frame.gso), frame.bytes))
                });
                let own = steering.keep_all(burst, spread, time);
                work_off(path, sink, steering, time);
                let frames = (0..count).filter(|i| own.has(*i)).filter_map(|i| rx.frame(i));
                receive_frames(path, sink, port, frames, time);
            }
        }
        stages.end(Doing::InPath, count, since);
        let since = stages.begin();
        rx.release();
        stages.end(Doing::FromDevice, 0, since);
        count
    }

    /// What other workers have handed over; how many frames.
    fn take_handed(&mut self, time: u64) -> usize {
        let Worker { path, sink, steering: Some(steering), .. } = self else { return 0 };
        let mut from = std::mem::take(&mut steering.from);
        let taken =
            from.iter_mut().map(|consumer| take_burst(path, sink, steering, consumer, time)).sum();
        steering.from = from;
        taken
    }

    /// Counts the frames for which other workers had no room.
    fn count_refused(&mut self, time: u64) {
        let Some(steering) = &mut self.steering else { return };
        steering.pass_time(time);
        let Handing { refused, late, .. } = &mut steering.handing;
        self.path.count_lost(DropReason::HandOver, std::mem::take(refused));
        self.path.count_lost(DropReason::ReassemblyTimeout, std::mem::take(late));
    }

    /// What the host has sent on a port; how many frames.
    fn receive_host(&mut self, i: usize, time: u64) -> usize {
        let Worker { path, sink, hosts, steering, load, stages, .. } = self;
        let Some(In { port, rx, spread }) = hosts.get_mut(i) else { return 0 };
        let (port, spread) = (*port, *spread);
        let since = stages.begin();
        let count = rx.fetch();
        stages.end(Doing::FromHost, count, since);
        let since = stages.begin();
        load.received += count as u64;
        for frame in (0..count).filter_map(|i| rx.frame(i)) {
            let Some(out) = sink.port_mut(port) else { continue };
            out.traffic.from_host.count(frame.bytes.len());
            if dhcp::is_question(frame.bytes) {
                out.dhcp_until.store(time + dhcp::WATCHED, Relaxed);
            }
            if let Some(steering) = steering {
                let handed = HandoffMeta {
                    port: port as u32,
                    from_host: true,
                    owner_unknown: false,
                    gso: frame.gso,
                };
                let own = steering.keep(handed, frame.bytes, spread, time);
                work_off(path, sink, steering, time);
                if !own {
                    continue;
                }
            }
            send_from_host(path, sink, port, &frame, time);
        }
        stages.end(Doing::InPath, count, since);
        count
    }

    /// Does what is asked; `false` for the end.
    fn serve(&mut self, request: Request) -> bool {
        match request {
            Request::Network(net) => {
                self.set_network(net);
            }
            Request::Sysctls(values) => self.path.set_sysctls(&values),
            Request::Rules(linked, running, done) => {
                self.sink.placed_drops.follow(&linked.image);
                self.path.set_rules_offloaded(linked, running);
                // The thread that asked may be gone.
                let _ = done.send(());
            }
            Request::Bpf(programs, done) => {
                self.path.set_bpf(programs);
                let _ = done.send(());
            }
            Request::Wire(port, wire) => self.set_wire(port, wire.map(|wire| *wire)),
            Request::AddPort(share) => self.add_port(*share),
            Request::RemovePort(port, barrier, to) => {
                let _ = to.send(self.remove_port(port, &barrier));
            }
            Request::Mirror(mirror) => {
                self.sink.mirrors.add(*mirror);
                self.path.set_taps(&self.sink.mirrors.devices());
            }
            Request::EndMirror(index, to) => {
                let ended = self.sink.mirrors.remove(index);
                self.path.set_taps(&self.sink.mirrors.devices());
                let _ = to.send(ended);
            }
            Request::OffloadDevices(devices) => self.path.set_offload_devices(devices),
            Request::Offloaded(running, barrier) => {
                self.empty();
                barrier.wait(|| while self.take_handed(now()) > 0 {});
                self.path.set_offloaded(running);
            }
            Request::Status(to) => {
                let _ = to.send(self.status());
            }
            Request::Look(look) => look(&self.path),
            Request::Change(change) => change(&mut self.path),
            Request::Connections(act) => act(self.path.conntrack_mut()),
            Request::WatchConnections(watchers) => self.set_watchers(watchers),
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
            Request::Profile(engine, profile) => {
                self.path.set_engine_with(
                    engine,
                    CompileOptions { profile, ..CompileOptions::default() },
                );
                self.stages.set(profile);
            }
            Request::ProfileLines(to) => {
                let mut lines = self.path.profile();
                lines.extend(self.stages.lines(&lines));
                let _ = to.send(lines);
            }
            Request::Queue(num, opened) => {
                self.path.close_queue(num, now(), &mut self.sink);
                self.sink.listeners.set(num, opened);
            }
            Request::QueueWishes(num, wishes) => self.sink.listeners.wish(num, wishes),
            Request::Loggers(loggers) => self.sink.loggers = loggers,
            Request::Answers(all) => {
                for (num, answer, Further { priority, connection, link }) in all.iter() {
                    let (priority, link) = (*priority, link.as_ref());
                    let verdict = QueueAnswer { priority, link, ..queue_answer(answer) };
                    for id in self.sink.listeners.answered(*num, answer) {
                        if let Some(change) = connection {
                            self.change_connection(id, change, &verdict);
                        }
                        // A packet dropped since then needs no verdict.
                        let _ = self.path.verdict(id, &verdict, now(), &mut self.sink);
                    }
                }
                self.sink.flush();
            }
            Request::Probe(probe) => self.sink.probes.push(probe),
            Request::EndProbe(number) => self.sink.probes.retain(|p| p.number != number),
            Request::Trace(trace) => self.sink.trace = trace,
            Request::Records(records, done) => {
                self.sink.take_records(records);
                let _ = done.send(());
            }
            Request::Alive(to) => drop(to.send(())),
            Request::Begin => {}
            Request::Stop => {
                self.sink.flush();
                return false;
            }
        }
        true
    }

    /// Changes the connection of a packet that waits, as its verdict asks for, and has it expect
    /// another one, which a verdict does in vain if it cannot be. Where the packet gets other
    /// bytes, sequence numbers follow (`nfqnl_ct_parse()`, `ctnetlink_glue_seqadj()`).
    fn change_connection(&mut self, id: u64, change: &VerdictChange, verdict: &QueueAnswer<'_>) {
        self.path.change_connection_of(id, verdict, |conntrack, n| {
            let Some(connection) = conntrack.connection_at(n) else { return false };
            let flow = of_connection(&connection);
            let (changed, whole) = change.of(conntrack.helpers(), &flow);
            conntrack.change_flow(n, &changed);
            if whole && let Some(new) = change.expected(conntrack.helpers(), &flow) {
                let _ = penstock_nfnetlink::expect(conntrack, n, &new);
            }
            whole
        });
    }

    fn set_watchers(&mut self, watchers: Listeners) {
        self.path.conntrack_mut().set_observer(watchers.connection_observer());
        self.path.set_flow_observer(watchers.flow_observer(self.path.network()));
        self.sink.watchers = watchers;
    }

    fn set_network(&mut self, net: Arc<Network>) {
        if let Some(steering) = &mut self.steering {
            steering.set_network(&net);
        }
        self.sink.set_network(net.clone());
        self.path.set_flow_observer(self.sink.watchers.flow_observer(&net));
        self.path.set_network(net, now(), &mut self.sink);
        self.sink.flush();
    }

    /// Replaces the device of a port, or removes it: then sends to it fail.
    fn set_wire(&mut self, port: usize, wire: Option<WireShare>) {
        self.wires.retain(|input| input.port != port);
        if let Some(held) = self.held.get_mut(port) {
            *held = None;
        }
        let Some(WireShare { carrier, rx, tx, held, spread }) = wire else { return };
        self.wires.extend(rx.into_iter().map(|rx| In { port, rx, spread }));
        if let Some(out) = self.sink.port_mut(port) {
            out.tx = tx;
        }
        if let Some(place) = self.held.get_mut(port) {
            *place = held;
        }
        if let Some(Some(named)) = self.names.get_mut(port) {
            named.carrier = carrier.to_string();
        }
    }

    /// Begins to receive by a port, and to send to it.
    pub(crate) fn add_port(&mut self, share: PortShare) {
        let PortShare { number, wires, hosts, out, named, held } = share;
        if self.names.len() <= number {
            self.names.resize_with(number + 1, || None);
            self.held.resize_with(number + 1, || None);
        }
        if let (Some(name), Some(place)) = (self.names.get_mut(number), self.held.get_mut(number)) {
            (*name, *place) = (Some(named), held);
        }
        self.sink.add_port(number, out);
        self.wires.extend(wires);
        self.hosts.extend(hosts);
    }

    /// Forgets a port once all workers have done what came by it; returns what is to be closed.
    fn remove_port(&mut self, number: usize, barrier: &Barrier) -> Option<PortShare> {
        self.empty();
        // What the host has sent goes out, too.
        for i in 0..self.hosts.len() {
            if self.hosts.get(i).is_some_and(|input| input.port == number) {
                self.receive_host(i, now());
            }
        }
        let of_port = |input: &mut In| input.port == number;
        let wires: Vec<In> = self.wires.extract_if(.., of_port).collect();
        let hosts: Vec<In> = self.hosts.extract_if(.., of_port).collect();
        // Others hand over nothing more of it once they are here.
        barrier.wait(|| while self.take_handed(now()) > 0 {});
        if let Some(steering) = &mut self.steering {
            steering.forget_port(number);
        }
        self.sink.flush();
        let out = self.sink.remove_port(number)?;
        let held = self.held.get_mut(number).and_then(Option::take);
        let named = self.names.get_mut(number).and_then(Option::take)?;
        Some(PortShare { number, wires, hosts, out, named, held })
    }

    fn status(&self) -> Status {
        let port = |(number, named): (usize, &Option<Named>)| {
            let (named, out) = (named.as_ref()?, self.sink.port_at(number)?);
            let lost = self.wires.iter().filter(|w| w.port == number).map(|w| w.rx.lost()).sum();
            Some(PortStatus {
                name: named.name.clone(),
                device: named.device.clone(),
                carrier: named.carrier.clone(),
                traffic: out.traffic,
                lost,
                refused: out.tx.refused(),
                launched: out.tx.launched(),
                host_refused: out.host_tx.refused(),
            })
        };
        let handing = self.steering.as_ref().map(|steering| steering.handing).unwrap_or_default();
        let worker = WorkerStatus {
            received: self.load.received,
            handed_over: handing.given,
            taken_over: handing.taken,
            load: self.load.percent,
            connections: self.path.conntrack().count().into(),
        };
        Status {
            workers: vec![worker],
            ports: self.names.iter().enumerate().filter_map(port).collect(),
            counters: self.path.counters(),
            placed_drops: self.sink.placed_drops.all().to_vec(),
            waiting: self.path.waiting() + self.steering.as_ref().map_or(0, Steering::waiting),
            between: handing.given.wrapping_sub(handing.taken),
            ignored: self.sink.ignored,
            elsewhere: self.sink.elsewhere,
            connections: self.path.conntrack().count().into(),
            flows: self.path.flow_count() as u64,
            flow_counts: self.path.flow_counts(),
            tracking: *self.path.conntrack().statistics(),
            queued: self.path.queued() as u64,
            undelivered: self.sink.undelivered,
            offloaded: Vec::new(),
            attached: None,
            left_out: Vec::new(),
            in_nf_tables: Vec::new(),
            compile_error: self.path.compile_error(),
        }
    }
}
