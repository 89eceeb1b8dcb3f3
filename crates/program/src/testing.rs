//! A plain outside for programs, and images made by hand: for tests of this crate and of the engines.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use penstock_packet::Packet;

use crate::env::{Context, Env, FibQuery, Hook, Interface, Rejection, Route, Trace};
use crate::expr::{Log, ObjectType};
use crate::image::*;
use crate::link::{LinkError, LinkReason, Names, link_rule};
use crate::{Expr, State};

/// What a program did to the outside.
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
}

/// An outside that answers what its fields say and remembers what happened.
#[derive(Clone, Debug)]
pub struct Outside {
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
    /// What happened.
    pub events: Vec<Event>,
}

impl Outside {
    /// An outside at a hook of a family (`NFPROTO_*`).
    pub fn at(nfproto: u8, hook: Hook) -> Self {
        Outside {
            context: Context { nfproto, hook },
            interfaces: HashMap::new(),
            random: 0,
            fib_interface: None,
            fib_type: 0,
            route: None,
            queries: Vec::new(),
            events: Vec::new(),
        }
    }
}

impl Env for Outside {
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
}

/// A table made by hand: chains of programs, with the sets and objects that they name.
#[derive(Debug, Default)]
pub struct Table {
    /// Chains in order; the first one is the base chain.
    pub chains: Vec<(Arc<str>, Vec<Vec<Expr>>)>,
    /// Sets by name.
    pub sets: HashMap<Arc<str>, LinkedSet>,
    /// Objects by type and name.
    pub objects: Vec<(ObjectType, Arc<str>, Stateful)>,
}

impl Table {
    /// A table with one chain.
    pub fn of(rules: Vec<Vec<Expr>>) -> Self {
        Table { chains: vec![("base".into(), rules)], ..Table::default() }
    }

    /// Links it, in family `nfproto`; handles count from 1. The states are those of the rules' stateful expressions, in
    /// order.
    pub fn link(&self, nfproto: u8) -> Result<(Image, Vec<Arc<State>>), LinkError> {
        let mut image = Image::default();
        let mut all = Vec::new();
        image.tables.push(LinkedTable { nfproto, name: "t".into(), handle: 1 });
        for (i, (name, rules)) in self.chains.iter().enumerate() {
            let first = image.rules.len() as u32;
            for exprs in rules {
                let states: Vec<_> = exprs.iter().filter_map(State::for_expr).map(Arc::new).collect();
                let first = image.ops.len() as u32;
                link_rule(exprs, &states, nfproto, self, &mut image.ops)?;
                image.rules.push(LinkedRule { first, end: image.ops.len() as u32 });
                let handle = image.rules.len() as u64;
                image.rule_names.push(RuleName { chain: ChainIndex(i as u32), handle });
                all.extend(states);
            }
            image.chains.push(LinkedChain {
                table: TableIndex(0),
                name: name.clone(),
                handle: i as u64,
                first,
                end: image.rules.len() as u32,
                policy_accept: (i == 0).then_some(true),
            });
        }
        Ok((image, all))
    }
}

impl Names for Table {
    fn chain(&self, name: &str) -> Option<ChainIndex> {
        self.chains.iter().position(|(n, _)| **n == *name).map(|i| ChainIndex(i as u32))
    }

    fn set(&self, name: &Arc<str>) -> Result<LinkedSet, LinkReason> {
        let set = self.sets.get(name).cloned();
        set.ok_or_else(|| LinkReason::Unknown { what: "set", name: name.clone() })
    }

    fn object(&self, kind: ObjectType, name: &str) -> Option<&Stateful> {
        self.objects.iter().find(|(k, n, _)| *k == kind && **n == *name).map(|(_, _, object)| object)
    }
}
