// SPDX-License-Identifier: Apache-2.0

//! What the programs of a base chain ask at one packet ([`Env`]), and what compiled code of a hook
//! list asks ([`Host`]).

use std::net::IpAddr;
use std::sync::Arc;

use penstock_conntrack::Direction;
use penstock_conntrack::status::SRC_NAT_DONE;
use penstock_jit::Host;
use penstock_packet::{CtInfo, Packet};
use penstock_program::classify::Candidate;
use penstock_program::env::{
    BridgePort, ConnCount, CtSources, Decision, FibQuery, Interface, IpsecState, LocalSocket,
    NatRequest, Rejection, Route as RouteAnswer, SocketQuery, Trace,
};
use penstock_program::expr::{CtDir, CtKey, Log, Synproxy};
use penstock_program::image::{ChainIndex, CtObject, FlowtableIndex, LinkedVerdict, NewConnection};
use penstock_program::osf::Fingerprints;
use penstock_program::{Context, Env, Image, State, WorkerNumber};
use penstock_wire::{icmpv6, protocol};

use crate::course::Course;
use crate::hook_result::HookResult;
use crate::hooks::{Entry, Stage};
use crate::place::{chain_place, rule_place};
use crate::reason::Place;
use crate::route::Route;
use crate::sink::{LogRecord, Sink, TraceEvent, TraceRecord, TraceVerdict};
use crate::worker::Worker;
use crate::{addresses, connections, fib};

/// A base chain at its hook.
pub(crate) struct ChainCall<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) context: Context,
    /// The packet's route, where it has one.
    pub(crate) destination: Option<&'a Route>,
}

/// What the programs of a base chain, or of all chains of a list, ask at one packet.
pub(crate) struct HookEnv<'w, 'a, 's, S> {
    pub(crate) worker: &'w mut Worker<'a, S>,
    /// The chain that asks.
    pub(super) entry: &'s Entry,
    pub(super) context: Context,
    pub(super) destination: Destined<'s>,
    pub(crate) rejected: bool,
    /// Nothing is answered or sent.
    pub(super) silent: bool,
    /// The device that the packet is at.
    pub(super) device: u32,
    /// The packet was shown in this chain's trace already.
    pub(super) header_shown: bool,
    /// How the last stage that is no chain ended.
    pub(super) stage_end: HookResult,
    /// The list, where it is run by compiled code.
    pub(super) list: Option<Listed<'s>>,
    /// What was found beforehand for the packets of a burst.
    pub(super) found: Option<FoundFirst<'s>>,
}

/// What the lookup of a chain has found for packets that stand one after the other.
pub(super) struct FoundFirst<'s> {
    pub(super) chain: ChainIndex,
    /// Address of the first packet.
    pub(super) first: usize,
    pub(super) found: &'s [Option<Candidate>],
}

/// The packet's route.
pub(super) enum Destined<'s> {
    Fixed(Option<&'s Route>),
    /// Stages of the list may change it.
    Changing(&'s mut Course),
}

/// A list with chains that make host calls in turn.
pub(super) struct Listed<'s> {
    pub(super) stages: &'s [Stage],
    pub(super) context: Context,
    /// Number of the entry that asks.
    pub(super) entry: usize,
    /// Ethertype of the packet.
    pub(super) protocol: u16,
}

impl<S: Sink> Host for HookEnv<'_, '_, '_, S> {
    fn enter(&mut self, entry: usize, begins: bool) {
        self.header_shown &= !begins;
        let Some(list) = self.list.as_mut().filter(|list| list.entry != entry) else { return };
        if let Some(Stage::Chain(chain)) = list.stages.get(entry) {
            list.entry = entry;
            self.header_shown = false;
            self.entry = chain;
            self.context = chain.context(list.context, list.protocol).unwrap_or(list.context);
        }
    }

    fn found(&mut self, chain: ChainIndex, packet: &Packet) -> Option<Option<Candidate>> {
        let known = self.found.as_ref().filter(|known| known.chain == chain)?;
        let at = std::ptr::from_ref(packet).addr().checked_sub(known.first)? / size_of::<Packet>();
        known.found.get(at).copied()
    }

    fn stage(&mut self, entry: usize, packet: &mut Packet) -> u32 {
        let (Some(list), Destined::Changing(course)) = (&self.list, &mut self.destination) else {
            return 0;
        };
        let Some(stage) = list.stages.get(entry) else { return 0 };
        self.stage_end = self.worker.stage(stage, list.context, packet, course);
        u32::from(self.stage_end != HookResult::Accept)
    }
}

impl<'w, 'a, 's, S: Sink> HookEnv<'w, 'a, 's, S> {
    pub(super) fn new(
        worker: &'w mut Worker<'a, S>,
        site: &ChainCall<'s>,
        packet: &Packet,
    ) -> Self {
        let device = if packet.meta.iif != 0 { packet.meta.iif } else { packet.meta.oif };
        HookEnv {
            worker,
            entry: site.entry,
            context: site.context,
            destination: Destined::Fixed(site.destination),
            rejected: false,
            silent: false,
            device,
            header_shown: false,
            stage_end: HookResult::Accept,
            list: None,
            found: None,
        }
    }

    fn destination(&self) -> Option<&Route> {
        match &self.destination {
            Destined::Fixed(destination) => *destination,
            Destined::Changing(course) => course.route.as_ref(),
        }
    }

    fn devices(&self, packet: &Packet) -> (u32, u32) {
        crate::hooks::devices(self.context.hook, packet)
    }
}

impl<S: Sink> Env for HookEnv<'_, '_, '_, S> {
    fn context(&self) -> Context {
        self.context
    }

    fn interface(&self, index: u32) -> Option<&Interface> {
        self.worker.state.host.interfaces.get(index as usize)?.as_ref()
    }

    fn interface_named(&self, name: &[u8; 16]) -> Option<u32> {
        let mut all = self.worker.state.host.interfaces.iter();
        let index = all.position(|i| i.as_ref().is_some_and(|i| i.name == *name))?;
        u32::try_from(index).ok()
    }

    fn worker(&self) -> WorkerNumber {
        self.worker.state.worker
    }

    fn wall_time(&self, time: u64) -> u64 {
        time.saturating_add_signed(self.worker.state.host.wall_ahead)
    }

    fn random(&mut self) -> u32 {
        self.worker.state.numbers.random.u32()
    }

    fn fib_interface(&mut self, query: &FibQuery) -> Option<u32> {
        fib::interface(self.worker.net, query, self.device)
    }

    fn fib_type(&mut self, query: &FibQuery) -> u8 {
        fib::kind(self.worker.net, query, self.device)
    }

    fn route(&mut self, packet: &Packet) -> Option<RouteAnswer> {
        let to = &self.destination().copied()?;
        let v6 = packet.meta.protocol == 0x86dd;
        // dst_mtu(): what was learned counts, whether or not the packet is forwarded by it.
        let mtu = match addresses::of4(packet).filter(|_| !v6) {
            Some((_, daddr)) => self.worker.mtu(&self.worker.path4(*to, daddr)),
            None if v6 => self.worker.mtu6(to),
            None => self.worker.mtu(to),
        } as u32;
        let reverse_mtu = self.worker.reverse_mtu(packet, v6);
        Some(RouteAnswer {
            gateway: to.gateway,
            mtu,
            reverse_mtu,
            realm: to.realm,
            xfrm: to.bundle != 0,
        })
    }

    fn ipsec(&mut self, packet: &Packet, out: bool, spnum: u32) -> Option<IpsecState> {
        self.worker.ipsec_state(packet, self.destination(), out, spnum)
    }

    fn nat(&mut self, packet: &Packet, request: &NatRequest) -> Decision {
        let destination = self.destination().copied();
        self.worker.nat_request(self.context, destination.as_ref(), packet, request)
    }

    fn log(&mut self, packet: &Packet, log: &Log) {
        if self.silent {
            return;
        }
        let (iif, oif) = self.devices(packet);
        let image = self.worker.image;
        let Some(place) = chain_place(image, self.entry.chain) else { return };
        let net = self.worker.net;
        let context = self.context;
        let (input, output) = (net.link(iif), net.link(oif));
        let ports = self.worker.bridge_ports(packet);
        let connection = self.worker.state.conntrack.connection(&packet.meta.ct);
        let record = LogRecord { log, place, context, input, output, ports, connection };
        self.worker.sink.log(&record, packet);
    }

    fn reject(&mut self, packet: &Packet, rejection: Rejection) {
        self.rejected = true;
        if self.silent {
            return;
        }
        let destination = self.destination().copied();
        let (entry, context) = (self.entry, self.context);
        let site = ChainCall { entry, context, destination: destination.as_ref() };
        if packet.meta.gso.is_none() {
            self.worker.reject(packet, rejection, &site);
            return;
        }
        // Only what has a right checksum is answered.
        let mut whole = self.worker.state.buffers.spare.pop().unwrap_or_default();
        whole.clone_from(packet);
        whole.finish_checksum();
        self.worker.reject(&whole, rejection, &site);
        self.worker.state.buffers.spare.push(whole);
    }

    fn quota_depleted(&mut self, quota: &Arc<State>) {
        self.worker.sink.quota_depleted(quota);
    }

    fn bad_field6(&mut self, packet: &Packet, at: u32) {
        let (kind, code) = (icmpv6::PARAMETER_PROBLEM, icmpv6::parameter_problem::HEADER_FIELD);
        self.worker.icmp6_error(packet, kind, code, at);
    }

    fn dup(&mut self, packet: &Packet, gateway: Option<IpAddr>, device: Option<u32>) {
        if self.silent {
            return;
        }
        self.worker.duplicate(packet, gateway, device, self.context);
    }

    fn fwd(&mut self, packet: &mut Packet, device: u32, neighbour: Option<IpAddr>) {
        self.worker.forward_to(packet, device, neighbour, self.context);
    }

    fn ct_get(
        &mut self,
        packet: &Packet,
        key: CtKey,
        dir: Option<CtDir>,
        out: &mut [u8; 16],
    ) -> Option<u8> {
        connections::get(&self.worker.state.conntrack, packet, key, dir, out)
    }

    fn ct_set(&mut self, packet: &Packet, key: CtKey, value: &[u8]) {
        connections::set(&mut self.worker.state.conntrack, packet, key, value);
    }

    fn ct_set_zone(&mut self, packet: &mut Packet, zone: u16, dir: Option<CtDir>) -> Decision {
        connections::set_zone(&mut self.worker.state.conntrack, packet, zone, dir)
    }

    fn ct_set_template(&mut self, packet: &mut Packet, new: &NewConnection) -> Decision {
        let state = &mut *self.worker.state;
        state.tracking.policies.set_template(&mut state.conntrack, packet, new)
    }

    fn ct_first_source(&mut self, packet: &Packet) -> Option<IpAddr> {
        connections::first_source(&self.worker.state.conntrack, packet)
    }

    fn ct_sources(&mut self, packet: &Packet) -> Option<CtSources> {
        connections::sources(&self.worker.state.conntrack, packet)
    }

    fn ct_object(&mut self, packet: &Packet, object: &CtObject) -> Decision {
        let state = &mut *self.worker.state;
        state.tracking.policies.apply(&mut state.conntrack, packet, object)
    }

    fn connlimit(&mut self, packet: &Packet, count: ConnCount<'_>) -> Option<u32> {
        let state = &mut *self.worker.state;
        state.tracking.connlimit.count(&state.conntrack, packet, count)
    }

    fn synproxy(&mut self, packet: &mut Packet, offer: &Synproxy) -> Decision {
        packet.finish_checksum();
        self.worker.synproxy(packet, offer)
    }

    fn flow_offload(&mut self, packet: &Packet, flowtable: FlowtableIndex) -> Decision {
        let destination = self.destination().copied();
        self.worker.flow_offload(packet, flowtable, destination.as_ref())
    }

    fn queue_seed(&self) -> u32 {
        self.worker.state.numbers.queue_seed
    }

    fn fingerprints(&self) -> Option<&Fingerprints> {
        Some(&self.worker.state.host.fingerprints)
    }

    fn socket(&mut self, query: &SocketQuery) -> Option<LocalSocket> {
        self.worker.state.host.sockets.find(query)
    }

    fn socket_by_id(&mut self, id: u32) -> Option<LocalSocket> {
        self.worker.state.host.sockets.by_id(id)
    }

    fn socket_cgroup(&mut self, socket: &LocalSocket, level: u32) -> Option<u64> {
        self.worker.state.host.sockets.cgroup(socket.id, level)
    }

    fn bridge_port(&self, index: u32) -> Option<&BridgePort> {
        self.worker.state.bridges.port(index)
    }

    fn primary_address(&mut self, device: u32, v6: bool) -> Option<IpAddr> {
        let link = self.worker.net.link(device)?;
        if v6 {
            return link.addresses6.first().map(|a| IpAddr::V6(a.local.into()));
        }
        link.addresses4.first().map(|a| IpAddr::V4(a.local.into()))
    }

    fn untranslated_source(&mut self, packet: &Packet) -> Option<(IpAddr, u16)> {
        let ct = &packet.meta.ct;
        let answer = match packet.transport()?.protocol {
            protocol::ICMP => CtInfo::RelatedReply,
            _ => CtInfo::EstablishedReply,
        };
        let connection =
            self.worker.state.conntrack.connection(ct).filter(|_| ct.info == answer)?;
        if connection.status() & SRC_NAT_DONE == 0 {
            return None;
        }
        let original = connection.tuple(Direction::Original);
        Some((original.source(), original.src_id))
    }

    fn trace(&mut self, packet: &Packet, step: Trace<'_>) {
        let image = self.worker.image;
        let (iif, oif) = self.devices(packet);
        let net = self.worker.net;
        let context = self.context;
        let (place, event) = match step {
            Trace::Rule { rule, verdict } => {
                (rule_place(image, rule), TraceEvent::Rule(verdict_of(image, verdict)))
            }
            Trace::Taken { rule, word } => {
                let verdict =
                    if word == "drop" { TraceVerdict::Drop } else { TraceVerdict::Stolen };
                (rule_place(image, rule), TraceEvent::Rule(verdict))
            }
            Trace::Return { chain, rule } => {
                let place =
                    rule.and_then(|r| rule_place(image, r)).or_else(|| chain_place(image, chain));
                (place, TraceEvent::Return(TraceVerdict::Return))
            }
            Trace::Policy { chain, accept } => {
                (chain_place(image, chain), TraceEvent::Policy(accept))
            }
        };
        let Some(place) = place else { return };
        let mut show = |place, event| {
            let record =
                TraceRecord { place, context, input: net.link(iif), output: net.link(oif), event };
            self.worker.sink.trace(&record, packet);
        };
        if !self.header_shown {
            self.header_shown = true;
            show(Place { rule: None, ..place }, TraceEvent::Packet);
        }
        show(place, event);
    }
}

fn verdict_of<'i>(image: &'i Image, verdict: &LinkedVerdict) -> TraceVerdict<'i> {
    let name = |c: &ChainIndex| image.chain(*c).map_or("", |c| &*c.name);
    match verdict {
        LinkedVerdict::Drop => TraceVerdict::Drop,
        LinkedVerdict::Accept => TraceVerdict::Accept,
        LinkedVerdict::Continue | LinkedVerdict::Break => TraceVerdict::Continue,
        LinkedVerdict::Jump(c) => TraceVerdict::Jump(name(c)),
        LinkedVerdict::Goto(c) => TraceVerdict::Goto(name(c)),
        LinkedVerdict::Return => TraceVerdict::Return,
        LinkedVerdict::Queue { .. } => TraceVerdict::Queue,
    }
}

impl<S: Sink> Worker<'_, S> {
    /// The MTU of the way back to the source of a packet (`nft_rt_get_tcpmss()` asks for both
    /// directions).
    fn reverse_mtu(&self, packet: &Packet, v6: bool) -> Option<u32> {
        let to = if v6 {
            let (saddr, _) = addresses::of6(packet)?;
            self.ip6_route_output(saddr, None, 0, 0)?
        } else {
            let (saddr, _) = addresses::of4(packet)?;
            self.ip4_route_output(saddr, 0, 0, 0, true)?.0
        };
        let mtu = if v6 { self.mtu6(&to) } else { self.mtu(&to) };
        Some(mtu as u32)
    }
}
