// SPDX-License-Identifier: Apache-2.0

//! The dataplane of one namespace: what programs that use this crate hold.

use std::sync::Arc;

use penstock_conntrack::status::NAT_MASK;
use penstock_conntrack::{Conntrack, Direction, Tracker};
use penstock_flowtable::Offloader;
use penstock_jit::{Helpers, Options as CompileOptions, Profiled, rule_name};
use penstock_net::Network;
use penstock_packet::{Frame, Gso, Packet};
use penstock_program::image::ChainIndex;
use penstock_program::osf::Fingerprints;
use penstock_random::Random;
use penstock_ruleset::link::{CannotOffload, Linked, LinkedFlowtable};
use penstock_wire::protocol;

use crate::bpf::BpfPrograms;
use crate::code::{Codes, Engine};
use crate::flow::{
    FlowCounts, FlowEntry, FlowObserver, FlowSummary, ListedFlow, NotOffloaded, RefusedFlow,
};
use crate::hooks::Hooks;
use crate::interface::interfaces;
use crate::ipsec::Ipsec;
use crate::queues::{NotQueued, QueueAnswer, QueueVerdict};
use crate::reason::{Counters, DropReason};
use crate::settings::{SECOND, Settings};
use crate::shared::{Member, Shared};
use crate::sink::Sink;
use crate::sockets::Sockets;
use crate::stages::burst::{Packets, gather};
use crate::stages::hook_env::HookEnv;
use crate::stages::xdp::Met;
use crate::state::State;
use crate::sysctl::LIVE_SYSCTLS;
use crate::taps::Taps;
use crate::tc::Tc;
use crate::ways::RememberedWays;
use crate::worker::Worker;

/// Packets of a direction of a connection after which their way is remembered, where nothing is to
/// happen at once: finding it out costs as much as it saves for some twenty packets, so short
/// connections do without.
const REMEMBER_AFTER: u32 = 8;

/// The packet path of one network namespace. One worker uses it at a time.
///
/// A ruleset is set with [`Dataplane::set_rules`], between bursts: a burst sees one generation.
#[derive(Debug)]
pub struct Dataplane {
    net: Arc<Network>,
    linked: Arc<Linked>,
    /// Chains that devices run themselves.
    offloaded: Vec<(ChainIndex, u32)>,
    /// BPF programs that are attached.
    programs: BpfPrograms,
    hooks: Arc<Hooks>,
    codes: Codes,
    settings: Settings,
    state: State,
    /// Reused.
    packets: Packets,
}

impl Dataplane {
    /// A dataplane without rules, with reproducible runs: hash tables have known keys, and NAT
    /// draws known ports. For untrusted packets use [`Dataplane::live`].
    pub fn new(net: Arc<Network>, settings: Settings) -> Self {
        Self::of_member(net, settings, &Member::alone(0))
    }

    /// A dataplane without rules for packets of strangers, who cannot know which of them fall
    /// together in a hash table.
    pub fn live(net: Arc<Network>, settings: Settings) -> Self {
        Self::of_member(net, settings, &Member::live())
    }

    /// The dataplane of one of several workers, by its number from 0 on. Each must get the packets
    /// that it owns by [`Shared::tracking`], and all of them the same network and rules. What
    /// bridges have learned is the same for all of those with one `Arc<Network>`, and machine code
    /// for those with one `Arc<Linked>`. The states of IPsec are not: a network that has some is
    /// for one worker, since a sequence number is sent once. It counts in cells of its own
    /// ([`penstock_program::cells`]), which are added up when counters are read; `meta cpu` shows
    /// the number, and `queue` with `fanout` goes by it.
    pub fn of_worker(
        net: Arc<Network>,
        settings: Settings,
        shared: &Shared,
        worker: usize,
    ) -> Self {
        Self::of_member(net, settings, &Member::of(shared, worker))
    }

    fn of_member(net: Arc<Network>, settings: Settings, member: &Member) -> Self {
        let linked = Arc::new(Linked::default());
        let programs = BpfPrograms::default();
        let hooks = Arc::new(Hooks::new(&net, &linked, &[], &programs, &settings));
        let state = State::new(&net, &settings, member);
        let codes = Codes::by(member.compiler());
        let packets = Packets::default();
        let offloaded = Vec::new();
        Dataplane { net, linked, offloaded, programs, hooks, codes, settings, state, packets }
    }

    /// Seeds random numbers (`meta random`, `numgen random`, fragment identifications), for
    /// reproducible runs.
    pub fn seed(&mut self, seed: u64) {
        self.state.numbers.random = Random::seeded(seed);
        self.state.ipsec = Ipsec::new(&self.net, Some(seed));
    }

    /// Says by how much the wall clock is ahead of the clock that frames have their times from, in
    /// nanoseconds: `meta time`, `day` and `hour` are those of the wall clock. Nothing else asks
    /// it.
    pub fn set_wall_ahead(&mut self, ahead: i64) {
        self.state.host.wall_ahead = ahead;
    }

    /// Puts a generation in force for all that comes after.
    pub fn set_rules(&mut self, linked: Arc<Linked>) {
        self.set_rules_offloaded(linked, Vec::new());
    }

    /// Puts a generation in force when devices (by index) run some of its chains at ingress
    /// themselves: those are not run for what they receive.
    pub fn set_rules_offloaded(&mut self, linked: Arc<Linked>, offloaded: Vec<(ChainIndex, u32)>) {
        self.offloaded = offloaded;
        let conntrack = &mut self.state.conntrack;
        conntrack.want_labels(linked.needs.labels);
        // Once asked for, accounting stays on (nf_ct_set_acct()).
        if linked.needs.accounting && !conntrack.settings().acct {
            let settings =
                penstock_conntrack::Settings { acct: true, ..conntrack.settings().clone() };
            conntrack.set_settings(settings);
        }
        self.state.tracking.policies.set(conntrack, &linked.ct_objects);
        conntrack.set_helpers(linked.globals.connection_helpers());
        let hooks = self.hooks_for(&self.net, &linked);
        if hooks != *self.hooks {
            // Where a held packet would continue is not where it was (nf_queue_nf_hook_drop()).
            for _ in 0..self.state.queues.clear() {
                self.state.counters.count(DropReason::Queue);
            }
        }
        self.hooks = Arc::new(hooks);
        self.state.flows.set_rules(&linked, &mut self.state.conntrack);
        self.linked = linked;
        self.codes.forget();
    }

    fn hooks_for(&self, net: &Network, linked: &Linked) -> Hooks {
        Hooks::new(net, linked, &self.offloaded, &self.programs, &self.settings)
    }

    /// Attaches BPF programs to hooks, and no others, from now on.
    pub fn set_bpf(&mut self, programs: BpfPrograms) {
        self.state.bpf.set(&programs);
        if self.state.bpf.has_tc() && self.state.tc.is_none() {
            // They are at the tc stage.
            self.state.tc = Some(Box::new(Tc::new(Arc::default())));
        }
        self.programs = programs;
        self.codes.forget_programs();
        let net = self.net.clone();
        self.renew_hooks(&net);
    }

    /// Runs the rules of chains with BPF programs, too, and tells the sink where they decide
    /// otherwise ([`Sink::bpf_differs`]). The program decides. The rules count and change their
    /// sets, but neither answer nor send.
    pub fn check_bpf(&mut self, on: bool) {
        self.state.bpf.checks = on;
    }

    /// The BPF programs that are attached.
    pub fn bpf(&self) -> &BpfPrograms {
        &self.programs
    }

    /// Devices (by index) run chains at ingress themselves from now on, and no others: those are
    /// not run for what they receive.
    pub fn set_offloaded(&mut self, offloaded: Vec<(ChainIndex, u32)>) {
        self.offloaded = offloaded;
        let hooks = self.hooks_for(&self.net, &self.linked);
        if hooks != *self.hooks {
            self.hooks = Arc::new(hooks);
            self.codes.forget();
        }
    }

    /// Starts the thread that makes machine code for all workers of this path now, rather than when
    /// code is first wanted. `first` runs on that thread before anything else: a caller that limits
    /// what its threads may do limits it there.
    pub fn start_compiler(&self, first: impl FnOnce() + Send + 'static) {
        self.codes.start_compiler(first);
    }

    /// Chooses what runs the chains.
    pub fn set_engine(&mut self, engine: Engine) {
        self.set_engine_with(engine, CompileOptions::default());
    }

    /// Chooses what runs the chains, and how machine code is made.
    pub fn set_engine_with(&mut self, engine: Engine, options: CompileOptions) {
        self.codes.set_engine(engine, options);
    }

    /// Where machine code of the generation in force has spent this worker's time, if it was made
    /// to tell: the name of each rule (family, table, chain, handle) or stage that was begun, how
    /// often, and ticks of the processor's clock.
    pub fn profile(&self) -> Vec<(String, u64, u64)> {
        let lines = self.codes.ready().flat_map(|code| code.profile(self.state.worker));
        let named = lines.map(|line| {
            let name = match line.what {
                Profiled::Rule(rule) => rule_name(&self.linked.image, rule),
                Profiled::Stage { list, entry } => self.hooks.stage_name(list, entry),
            };
            (name, line.count, line.ticks)
        });
        named.collect()
    }

    /// Why the chains or the BPF programs in force have no machine code, if it was tried.
    pub fn compile_error(&self) -> Option<String> {
        self.codes.error()
    }

    /// Who answers for the host's sockets (`socket`, `tproxy`); by default there are none.
    pub fn set_sockets(&mut self, sockets: Box<dyn Sockets>) {
        self.state.host.sockets = sockets;
    }

    /// What `osf` knows operating systems by; by default nothing, so that all are `unknown`.
    pub fn set_fingerprints(&mut self, fingerprints: Arc<Fingerprints>) {
        self.state.host.fingerprints = fingerprints;
    }

    /// Puts traffic control in force; what waited in queues is gone.
    pub fn set_tc(&mut self, config: Arc<penstock_tc::Config>) {
        self.state.tc = Some(Box::new(Tc::new(config)));
        self.state.flows.changed();
    }

    /// Lets all leave that waits in queues of devices, as time passes.
    pub fn flush<S: Sink>(&mut self, sink: &mut S) {
        self.burst(sink, |worker, _| {
            worker.run_queues(u64::MAX);
            worker.drain();
        });
    }

    /// Sets sysctls between packets, those of [`LIVE_SYSCTLS`](crate::LIVE_SYSCTLS): others, and
    /// values that do not fit, change nothing.
    pub fn set_sysctls(&mut self, values: &[(&str, u32)]) {
        for (name, value) in values.iter().filter(|(name, _)| LIVE_SYSCTLS.contains(name)) {
            let _ = self.settings.set_sysctl(name, *value);
        }
        if *self.state.conntrack.settings() != self.settings.conntrack {
            self.state.conntrack.set_settings(self.settings.conntrack.clone());
        }
        self.state.flows.set_timeouts(&self.settings.flow);
        let net = self.net.clone();
        self.renew_hooks(&net);
    }

    /// Sets timeouts of connections without a policy between packets: states of a tracker, by the
    /// kernel's number, and seconds (`cttimeout_default_set()`). States that the tracker
    /// does not have change nothing.
    pub fn set_usual_timeouts(&mut self, tracker: Tracker, values: &[(u8, u32)]) {
        let timeouts = &mut self.settings.conntrack.timeouts[tracker as usize];
        for (state, seconds) in values {
            if let Some(timeout) = timeouts.get_mut(usize::from(*state)) {
                *timeout = u64::from(*seconds) * SECOND;
            }
        }
        self.state.conntrack.set_settings(self.settings.conntrack.clone());
    }

    /// Makes the lists of hooks for a network or settings that have changed. Flows and remembered
    /// routes are checked again: they have the MTUs of paths.
    fn renew_hooks(&mut self, net: &Network) {
        let hooks = self.hooks_for(net, &self.linked);
        if hooks != *self.hooks {
            for _ in 0..self.state.queues.clear() {
                self.state.counters.count(DropReason::Queue);
            }
            self.hooks = Arc::new(hooks);
            self.codes.forget();
        }
        self.state.forwarding.clear();
        self.state.flows.set_network(&mut self.state.conntrack);
    }

    /// Puts another state of the network in force. Devices keep their indexes from one to the next:
    /// connections, and what bridges have learned, continue. Packets that waited for a neighbour
    /// leave if it is resolved now, or end without an answer; `time` is the clock's.
    pub fn set_network<S: Sink>(&mut self, net: Arc<Network>, time: u64, sink: &mut S) {
        self.renew_hooks(&net);
        self.state.host.interfaces = interfaces(&net);
        self.state.follow_bridges(&net);
        if net.xfrm() != self.net.xfrm() {
            self.state.ipsec = match self.state.ipsec.take() {
                Some(ipsec) => ipsec.follow(&net),
                None => Ipsec::new(&net, None),
            };
        }
        self.net = net;
        self.burst(sink, |worker, packet| {
            worker.settle_neigh_queue(time, packet);
            worker.drain();
        });
    }

    /// Takes a super-packet from a device, with its Ethernet header: segments of a connection that
    /// are one packet on their way through. Its transport checksum is made when it leaves.
    pub fn receive_super<S: Sink>(&mut self, frame: Frame<'_>, gso: Gso, sink: &mut S) {
        self.burst(sink, |worker, packet| {
            worker.pass_time(frame.time);
            let changed = match worker.xdp(&frame, packet) {
                Met::Ended => return,
                Met::Unchanged => None,
                Met::Changed(bytes) => Some(bytes),
            };
            let bytes = changed.as_deref().unwrap_or(frame.bytes);
            worker.receive_super(&Frame { bytes, ..frame }, gso, packet);
            worker.drain();
            if let Some(bytes) = changed {
                worker.give_back(bytes);
            }
        });
    }

    /// A frame that the host has given to a device, and that its stack has routed: IP packets of
    /// the host's own pass `output` and `postrouting`, ARP messages `output` of their family, and
    /// all of them egress. Everything else is the frame of a packet socket, which only egress sees.
    pub fn send_from_host<S: Sink>(&mut self, frame: Frame<'_>, gso: Option<Gso>, sink: &mut S) {
        self.burst(sink, |worker, packet| {
            worker.pass_time(frame.time);
            worker.host_frame(&frame, gso, packet);
            worker.drain();
        });
    }

    /// The generation in force.
    pub fn rules(&self) -> &Arc<Linked> {
        &self.linked
    }

    /// The network.
    pub fn network(&self) -> &Arc<Network> {
        &self.net
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        let (_, ended) = self.state.fragments.account();
        let mut counters = self.state.counters.clone();
        counters.absorbed += ended;
        counters
    }

    /// Packets that wait: for a listener, a neighbour's link address, the rest of their fragments,
    /// or in the queue of a device.
    pub fn waiting(&self) -> u64 {
        let State { fragments, queues, neigh_queue, tc, .. } = &self.state;
        let (parts, _) = fragments.account();
        let in_queues = tc.as_ref().map_or(0, |tc| tc.waiting());
        (parts + queues.len() + neigh_queue.count() + in_queues) as u64
    }

    /// Counts packets that came for this dataplane and ended before it had them.
    pub fn count_lost(&mut self, reason: DropReason, packets: u64) {
        self.state.counters.received += packets;
        self.state.counters.count_several(reason, packets);
    }

    /// The connections that are tracked.
    pub fn conntrack(&self) -> &Conntrack {
        &self.state.conntrack
    }

    /// Shows all frames of these devices to [`Sink::tap`], but those that early ingress takes.
    pub fn set_taps(&mut self, devices: &[u32]) {
        self.state.taps = Taps::of(devices);
        self.state.flows.changed();
    }

    /// Gives a device the flows of flowtables with `flags offload`, with `all` those of all
    /// flowtables. It sees the frames of `devices`.
    pub fn set_flow_offload(&mut self, offloader: Offloader, devices: Vec<u32>, all: bool) {
        self.state.flows.set_hardware(offloader, devices, all);
    }

    /// Devices, by index, that can forward flows from now on, if some could before.
    pub fn set_offload_devices(&mut self, devices: Vec<u32>) {
        self.state.flows.set_devices(devices);
    }

    /// Whether all devices of flowtables with `flags offload` can forward flows, which flowtables
    /// have to be asked before they are set: the kernel refuses them else.
    ///
    /// # Errors
    /// One cannot.
    pub fn can_offload(&self, flowtables: &[LinkedFlowtable]) -> Result<(), CannotOffload> {
        self.state.flows.can_offload(&self.net, flowtables)
    }

    /// Flows in flowtables.
    pub fn flows(&self) -> impl Iterator<Item = ListedFlow<'_>> {
        self.state.flows.list(&self.state.conntrack)
    }

    /// Connections from a number on, in the order of their numbers, with what there is to say of
    /// flowtables: where they are, or why not.
    pub fn flow_entries(&self, first: u32) -> impl Iterator<Item = (u32, Option<FlowEntry<'_>>)> {
        let State { flows, conntrack, .. } = &self.state;
        conntrack.iter_from(first).map(|c| (c.number(), flows.entry(conntrack, c)))
    }

    /// Gives the flow of a connection, by its number, back to connection tracking: its packets pass
    /// the rules again. `false` if it is in no flowtable.
    pub fn end_flow(&mut self, connection: u32) -> bool {
        let State { flows, conntrack, .. } = &mut self.state;
        flows.give_back(conntrack, connection)
    }

    /// Sets who listens to what happens to flows.
    pub fn set_flow_observer(&mut self, observer: Option<Box<dyn FlowObserver>>) {
        self.state.flows.watch.set(observer);
    }

    /// Connections that `flow add` could not put into a flowtable, and why.
    pub fn refused_flows(&self) -> impl Iterator<Item = RefusedFlow<'_>> {
        self.state.flows.list_refused(&self.state.conntrack)
    }

    /// How often `flow add` could not, by reason.
    pub fn flow_refusals(&self) -> impl Iterator<Item = (NotOffloaded, u64)> + '_ {
        self.state.flows.refusals()
    }

    /// What connections remembered of the ways of their packets so far.
    pub fn remembered_ways(&self) -> RememberedWays {
        self.state.ways.summary()
    }

    /// What happened to flows so far and how often they were refused, in words.
    pub fn flow_summary(&self) -> FlowSummary {
        FlowSummary { ways: self.remembered_ways(), ..self.state.flows.summary() }
    }

    /// Flows in all flowtables.
    pub fn flow_count(&self) -> usize {
        self.state.flows.count()
    }

    /// What happened to flows so far, in all flowtables.
    pub fn flow_counts(&self) -> FlowCounts {
        self.state.flows.counts()
    }

    /// The connections that are tracked, for changes between bursts: entries that are loaded,
    /// deleted, or marked.
    pub fn conntrack_mut(&mut self) -> &mut Conntrack {
        &mut self.state.conntrack
    }

    /// Ends the connections that are masqueraded through a device that went down, or only those
    /// with an address that it has lost. Returns how many.
    pub fn end_masqueraded(&mut self, device: u32, address: Option<std::net::IpAddr>) -> usize {
        let address = address.map(penstock_conntrack::tuple::address);
        penstock_nat::bind::forget_masqueraded(&mut self.state.conntrack, device, address)
    }

    /// Traces every packet from its first hook on, as if the first rule were `meta nftrace set 1`.
    pub fn trace_all(&mut self, on: bool) {
        self.state.trace_all = on;
    }

    /// Takes frames from devices, in bursts ([`is_of_burst`](crate::is_of_burst)), and does all
    /// that follows from each before the next; what early ingress takes of a burst goes before the
    /// rest of it.
    pub fn receive<'f, S: Sink>(
        &mut self,
        frames: impl IntoIterator<Item = Frame<'f>>,
        sink: &mut S,
    ) {
        let has_xdp = self.state.bpf.has_xdp();
        self.work(sink, |worker, packets| match has_xdp {
            false => gather(frames.into_iter(), |burst| worker.receive_burst(burst, packets)),
            true => frames.into_iter().for_each(|frame| worker.receive_by_xdp(&frame, packets)),
        });
    }

    /// Sends an IP packet as the host does from a raw socket with its own header (`IP_HDRINCL`):
    /// routed, `output`, `postrouting`, egress. `bytes` begin with the IP header.
    pub fn send_host<S: Sink>(&mut self, bytes: &[u8], time: u64, sink: &mut S) {
        self.burst(sink, |worker, packet| {
            worker.pass_time(time);
            worker.host_packet(bytes, time, packet);
            worker.drain();
        });
    }

    /// Sends a frame as the host does from a packet socket (`AF_PACKET`): only egress of the device
    /// sees it.
    pub fn send_raw<S: Sink>(&mut self, device: u32, bytes: &[u8], time: u64, sink: &mut S) {
        self.burst(sink, |worker, packet| {
            worker.pass_time(time);
            worker.state.counters.from_host += 1;
            worker.raw_frame(&Frame { device, bytes, time }, None, packet);
            worker.drain();
        });
    }

    /// Packets that wait for a listener's answer.
    pub fn queued(&self) -> usize {
        self.state.queues.len()
    }

    /// A listener's answer to the packet with this number
    /// ([`QueueRecord::id`](crate::QueueRecord::id)), which continues or ends at `time`.
    ///
    /// # Errors
    /// No such packet waits.
    pub fn verdict<S: Sink>(
        &mut self,
        id: u64,
        answer: &QueueAnswer<'_>,
        time: u64,
        sink: &mut S,
    ) -> Result<(), NotQueued> {
        let mut result = Ok(());
        self.burst(sink, |worker, packet| {
            worker.pass_time(time);
            result = worker.answer(id, answer, time, packet);
            worker.drain();
        });
        result
    }

    /// Does something with the connection of the packet that waits with a number, before it is
    /// answered with `answer`. If it succeeds, and the packet of a translated connection gets more
    /// or fewer bytes, sequence numbers of TCP follow.
    pub fn change_connection_of(
        &mut self,
        id: u64,
        answer: &QueueAnswer<'_>,
        change: impl FnOnce(&mut Conntrack, u32) -> bool,
    ) {
        let State { queues, conntrack, .. } = &mut self.state;
        let Some(held) = queues.held.get(&id) else { return };
        let packet = &held.packet;
        let Some(n) = conntrack.connection(&packet.meta.ct).map(|c| c.number()) else { return };
        if !change(conntrack, n) {
            return;
        }
        let longer =
            answer.payload.map_or(0, |new| new.len() as i32 - packet.network().len() as i32);
        let translated = conntrack.connection_at(n).is_some_and(|c| c.status() & NAT_MASK != 0);
        let tcp = packet.transport().is_some_and(|t| t.protocol == protocol::TCP);
        let header = packet.transport_bytes().and_then(|bytes| bytes.first_chunk::<8>());
        if let Some([_, _, _, _, a, b, c, d]) = header.filter(|_| longer != 0 && translated && tcp)
        {
            let sequence = u32::from_be_bytes([*a, *b, *c, *d]);
            let reply = packet.meta.ct.info.is_reply();
            let direction = if reply { Direction::Reply } else { Direction::Original };
            conntrack.shift_sequence(n, direction, sequence, longer);
        }
    }

    /// The listener of a queue is gone: packets that wait there are dropped, as in the kernel.
    pub fn close_queue<S: Sink>(&mut self, queue: u16, time: u64, sink: &mut S) {
        let answer = QueueAnswer::new(QueueVerdict::Drop);
        for id in self.state.queues.of(queue) {
            // It was there a moment ago.
            let _ = self.verdict(id, &answer, time, sink);
        }
    }

    /// Advances the clock without packets: fragments and connections expire.
    pub fn advance<S: Sink>(&mut self, time: u64, sink: &mut S) {
        self.burst(sink, |worker, packet| {
            worker.pass_time(time);
            worker.settle_neigh_queue(time, packet);
            worker.drain();
        });
    }

    fn burst<S: Sink>(&mut self, sink: &mut S, work: impl FnOnce(&mut Worker<'_, S>, &mut Packet)) {
        self.work(sink, |worker, packets| work(worker, &mut packets.one));
    }

    fn work<S: Sink>(&mut self, sink: &mut S, work: impl FnOnce(&mut Worker<'_, S>, &mut Packets)) {
        let Dataplane { net, linked, programs, hooks, codes, settings, state, packets, .. } = self;
        let engine = codes.engine;
        codes.ask_for_programs(programs, hooks);
        let code = codes.get(Helpers::of::<HookEnv<'_, '_, '_, S>>(), linked, hooks);
        // The interpreter is what all else is compared with.
        let fast_path = engine != Engine::Interpreter;
        let remember_after = if engine == Engine::JitAtOnce { 1 } else { REMEMBER_AFTER };
        let image = &linked.image;
        let mut worker =
            Worker { net, image, hooks, code, fast_path, remember_after, settings, state, sink };
        worker.follow_paths();
        worker.follow_ways();
        work(&mut worker, packets);
        debug_assert_eq!(
            self.counters().unaccounted(),
            self.waiting() as i64,
            "{:?}",
            self.counters()
        );
    }
}

impl<S: Sink> Worker<'_, S> {
    /// Receives what the loopback device gave back meanwhile.
    #[inline]
    pub(crate) fn drain(&mut self) {
        if !self.state.buffers.backlog.is_empty() {
            self.drain_backlog();
        }
        self.frame_done();
    }

    #[inline(never)]
    fn drain_backlog(&mut self) {
        /// Packets of a host that answer each other end here.
        const ROUNDS: usize = 1024;
        for _ in 0..ROUNDS {
            let Some((mut packet, to)) = self.state.buffers.backlog.pop_front() else { return };
            self.pass_up(&mut packet, to);
            self.state.buffers.spare.push(packet);
        }
        while let Some((packet, _)) = self.state.buffers.backlog.pop_front() {
            self.drop(DropReason::Recursion, &packet);
        }
    }

    /// Frees per-packet state at the end of a burst.
    #[inline]
    fn frame_done(&mut self) {
        let secpaths = self.state.ipsec.as_deref().map_or(0, Ipsec::secpath_count);
        if self.state.queues.needs_parts(self.state.fragments.reassembled.len().max(secpaths)) {
            return;
        }
        if let Some(ipsec) = &mut self.state.ipsec {
            ipsec.clear_secpaths();
        }
        self.state.fragments.reassembled.clear();
        // Packets that wait for a listener may have connections that are not confirmed yet.
        if self.state.queues.is_empty() {
            self.state.conntrack.release_unconfirmed();
        }
    }
}
