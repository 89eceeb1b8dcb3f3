// SPDX-License-Identifier: Apache-2.0

//! An environment of programs with configured answers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use penstock_packet::Packet;

use penstock_program::env::{
    BridgePort, ConnCount, Context, Decision, Env, FibQuery, Interface, IpsecState, LocalSocket,
    NatRequest, Rejection, Route, SocketQuery, Trace,
};
use penstock_program::expr::{CtDir, CtKey, Log, Synproxy};
use penstock_program::image::*;
use penstock_program::osf::Fingerprints;
use penstock_program::{Family, Hook, State, WorkerNumber};

/// What a program did to its environment.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Event {
    Log(Log),
    Reject(Rejection),
    Dup { gateway: Option<IpAddr>, device: Option<u32> },
    Fwd { device: u32, neighbour: Option<IpAddr> },
    Rule { rule: RuleIndex, verdict: LinkedVerdict },
    Taken { rule: RuleIndex, word: &'static str },
    Return { chain: ChainIndex, rule: Option<RuleIndex> },
    Policy { chain: ChainIndex, accept: bool },
    CtSet { key: CtKey, value: Vec<u8> },
    CtSetZone { zone: u16, dir: Option<CtDir> },
    CtObject(CtObject),
    Nat(NatRequest),
    Synproxy(Synproxy),
    FlowOffload(FlowtableIndex),
    QuotaDepleted,
}

/// An environment that answers what its fields say, and records what programs do.
#[derive(Clone, Debug)]
pub struct MockEnv {
    /// Family and hook.
    pub context: Context,
    /// Interfaces by index.
    pub interfaces: HashMap<u32, Interface>,
    /// The random number that comes next; each further one is one more.
    pub random: u32,
    /// Answer of the routing table: an interface.
    pub fib_interface: Option<u32>,
    /// Answer of the routing table: a type.
    pub fib_type: u8,
    /// The packet's route.
    pub route: Option<Route>,
    /// Questions to the routing table.
    pub queries: Vec<FibQuery>,
    /// Register bytes of keys of every packet's connection.
    pub connection: HashMap<(CtKey, Option<CtDir>), Vec<u8>>,
    /// Answer to translations, zones, objects and synproxies.
    pub decision: Decision,
    /// Whether `ct count` can count at all.
    pub counts: bool,
    /// The worker.
    pub worker: WorkerNumber,
    /// Sockets by what finds them.
    pub sockets: Vec<(SocketQuery, LocalSocket)>,
    /// Address of every interface.
    pub primary_address: Option<IpAddr>,
    /// Where connections with a translated source come from.
    pub untranslated_source: Option<(IpAddr, u16)>,
    /// What operating systems are known by.
    pub fingerprints: Option<Fingerprints>,
    /// The transformation number 0 of every packet, both ways.
    pub ipsec: Option<IpsecState>,
    /// The tunnel of every packet.
    pub tunnel_id: Option<u32>,
    /// The bridge of every interface.
    pub bridge_port: Option<BridgePort>,
    /// What happened.
    pub events: Vec<Event>,
}

impl MockEnv {
    /// An environment at a hook of a family, with nothing in it.
    pub fn at(family: Family, hook: Hook) -> Self {
        MockEnv {
            context: Context { family, hook },
            interfaces: HashMap::new(),
            random: 0,
            fib_interface: None,
            fib_type: 0,
            route: None,
            queries: Vec::new(),
            connection: HashMap::new(),
            decision: Decision::Continue,
            counts: true,
            worker: WorkerNumber::FIRST,
            sockets: Vec::new(),
            primary_address: None,
            untranslated_source: None,
            fingerprints: None,
            ipsec: None,
            tunnel_id: None,
            bridge_port: None,
            events: Vec::new(),
        }
    }
}

impl Env for MockEnv {
    fn context(&self) -> Context {
        self.context
    }

    fn interface(&self, index: u32) -> Option<&Interface> {
        self.interfaces.get(&index)
    }

    fn random(&mut self) -> u32 {
        let number = self.random;
        self.random = number.wrapping_add(1);
        number
    }

    fn fib_interface(&mut self, query: &FibQuery) -> Option<u32> {
        self.queries.push(*query);
        self.fib_interface
    }

    fn fib_type(&mut self, query: &FibQuery) -> u8 {
        self.queries.push(*query);
        self.fib_type
    }

    fn route(&mut self, _packet: &Packet) -> Option<Route> {
        self.route
    }

    fn log(&mut self, _packet: &Packet, log: &Log) {
        self.events.push(Event::Log(log.clone()));
    }

    fn reject(&mut self, _packet: &Packet, rejection: Rejection) {
        self.events.push(Event::Reject(rejection));
    }

    fn dup(&mut self, _packet: &Packet, gateway: Option<IpAddr>, device: Option<u32>) {
        self.events.push(Event::Dup { gateway, device });
    }

    fn fwd(&mut self, _packet: &mut Packet, device: u32, neighbour: Option<IpAddr>) {
        self.events.push(Event::Fwd { device, neighbour });
    }

    fn trace(&mut self, _packet: &Packet, step: Trace<'_>) {
        self.events.push(match step {
            Trace::Rule { rule, verdict } => Event::Rule { rule, verdict: *verdict },
            Trace::Taken { rule, word } => Event::Taken { rule, word },
            Trace::Return { chain, rule } => Event::Return { chain, rule },
            Trace::Policy { chain, accept } => Event::Policy { chain, accept },
        });
    }

    fn worker(&self) -> WorkerNumber {
        self.worker
    }

    fn ct_get(
        &mut self,
        _packet: &Packet,
        key: CtKey,
        dir: Option<CtDir>,
        out: &mut [u8; 16],
    ) -> Option<u8> {
        let value = self.connection.get(&(key, dir))?;
        out[..value.len()].copy_from_slice(value);
        Some(value.len() as u8)
    }

    fn ct_set(&mut self, _packet: &Packet, key: CtKey, value: &[u8]) {
        self.events.push(Event::CtSet { key, value: value.into() });
    }

    fn ct_set_zone(&mut self, packet: &mut Packet, zone: u16, dir: Option<CtDir>) -> Decision {
        self.events.push(Event::CtSetZone { zone, dir });
        packet.meta.ct.template = 1;
        self.decision
    }

    fn ct_object(&mut self, _packet: &Packet, object: &CtObject) -> Decision {
        self.events.push(Event::CtObject(object.clone()));
        self.decision
    }

    fn connlimit(&mut self, _packet: &Packet, count: ConnCount<'_>) -> Option<u32> {
        self.counts.then(|| count.connections() + 1)
    }

    fn nat(&mut self, _packet: &Packet, request: &NatRequest) -> Decision {
        self.events.push(Event::Nat(*request));
        self.decision
    }

    fn synproxy(&mut self, _packet: &mut Packet, offer: &Synproxy) -> Decision {
        self.events.push(Event::Synproxy(*offer));
        self.decision
    }

    fn flow_offload(&mut self, _packet: &Packet, flowtable: FlowtableIndex) -> Decision {
        self.events.push(Event::FlowOffload(flowtable));
        self.decision
    }

    fn socket(&mut self, query: &SocketQuery) -> Option<LocalSocket> {
        self.sockets.iter().find(|(q, _)| q == query).map(|(_, socket)| *socket)
    }

    fn socket_by_id(&mut self, id: u32) -> Option<LocalSocket> {
        self.sockets.iter().map(|(_, socket)| *socket).find(|socket| socket.id == id)
    }

    fn socket_cgroup(&mut self, socket: &LocalSocket, level: u32) -> Option<u64> {
        (level < 3).then(|| u64::from(socket.id) << 32 | u64::from(level))
    }

    fn primary_address(&mut self, _device: u32, _v6: bool) -> Option<IpAddr> {
        self.primary_address
    }

    fn untranslated_source(&mut self, _packet: &Packet) -> Option<(IpAddr, u16)> {
        self.untranslated_source
    }

    fn fingerprints(&self) -> Option<&Fingerprints> {
        self.fingerprints.as_ref()
    }

    fn ipsec(&mut self, _packet: &Packet, _out: bool, spnum: u32) -> Option<IpsecState> {
        self.ipsec.filter(|_| spnum == 0)
    }

    fn tunnel_id(&mut self, _packet: &Packet) -> Option<u32> {
        self.tunnel_id
    }

    fn bridge_port(&self, _index: u32) -> Option<&BridgePort> {
        self.bridge_port.as_ref()
    }

    fn quota_depleted(&mut self, _quota: &Arc<State>) {
        self.events.push(Event::QuotaDepleted);
    }
}
