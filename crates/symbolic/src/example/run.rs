// SPDX-License-Identifier: Apache-2.0

//! What the interpreter does with an example: its word on what was said of a class.

use std::collections::HashMap;
use std::net::IpAddr;

use penstock_packet::{Ct, CtInfo, Packet};
use penstock_program::env::{
    self, BridgePort, Context, Env, FibQuery, Interface, NatRequest, Rejection, Route, Trace,
};
use penstock_program::expr::{CtDir, CtKey, DynsetOp, Log, MetaKey};
use penstock_program::image::{ChainIndex, CtObject, LinkedVerdict, RuleIndex, Stateful};
use penstock_program::interp::JUMP_STACK;
use penstock_program::interp::engine::{Registers, Step, execute};
use penstock_program::op::Op;
use penstock_program::{ChainType, Family, Hook};

use penstock_wire::ethernet;

use super::Example;
use super::followed::Followed;
use crate::base::Base;
use crate::bits::value_at;
use crate::fate::{Decider, End, Fate, Written};
use crate::field::{Base as Header, Field, Input, What, is_of_bridge};
use crate::program::{Program, asks_input, before_tracking};
use crate::question::Question;
use crate::routing::Hop;
use crate::walk::Side;

/// What the interpreter says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// What becomes of the packet.
    pub end: End,
    /// What decided.
    pub decider: Decider,
    /// Mark and priority at the end, in host order.
    pub mark: u32,
    /// `meta priority` at the end.
    pub priority: u32,
    /// Register bytes of keys of the connection at the end.
    connection: HashMap<(CtKey, Option<CtDir>), Vec<u8>>,
    /// Rules that did not break, in their order.
    pub met: Vec<RuleIndex>,
    /// The packet at the end, from its network header on.
    pub packet: Vec<u8>,
    /// How its frames go on a way through a network: as they arrive, as they leave.
    pub followed: Vec<Followed>,
}

impl Verified {
    /// Register bytes of the mark of the connection at the end, if rules ask or set it.
    pub fn connection_mark(&self) -> Option<&[u8]> {
        self.connection.get(&(CtKey::Mark, None)).map(|bytes| &bytes[..])
    }
}

impl Example<'_> {
    /// Runs the packet through base chains with the interpreter. What depends on more than the
    /// packet is as the example says.
    pub fn run(&self, program: &Program<'_>) -> Verified {
        let devices = program.way.iter().flat_map(|way| &way.devices);
        let of_way: HashMap<u32, Interface> =
            devices.map(|device| (device.index, device.interface)).collect();
        let ports = program.way.iter().flat_map(|way| {
            way.devices.iter().filter_map(|of| Some((of.index, way.as_port(of.link)?)))
        });
        let ports = ports.collect();
        let hook = self.universe.place.hook;
        let mut run = Run {
            example: self,
            program,
            packet: self.packet.clone(),
            registers: Registers::new(),
            met: Vec::new(),
            translated: false,
            tracked: false,
            turned: false,
            settled: true,
            followed: Vec::new(),
            hop: None,
            env: Scenario {
                context: Context { family: self.family, hook },
                interfaces: if program.way.is_some() { &of_way } else { &self.interfaces },
                ports,
                connection: self.connection.clone(),
                table: self.family,
                translation: None,
            },
        };
        let (end, decider) = match &program.way {
            Some(way) => run.way(way),
            None => run.hook(hook, false, &program.bases),
        };
        Verified {
            end,
            decider,
            mark: run.packet.meta.mark,
            priority: run.packet.meta.priority,
            connection: run.env.connection,
            met: run.met,
            packet: run.packet.network().to_vec(),
            followed: run.followed,
        }
    }
}

impl Example<'_> {
    /// What an operation that looks at the packet alone loads into a register; `None` if it breaks.
    pub(super) fn loads(&self, op: &Op, dst: u8, len: u8) -> Option<Vec<u8>> {
        let mut registers = Registers::new();
        let mut env = Scenario {
            context: Context { family: self.family, hook: self.universe.place.hook },
            interfaces: &self.interfaces,
            ports: HashMap::new(),
            connection: HashMap::new(),
            table: self.family,
            translation: None,
        };
        let step = execute(op, &mut registers, &mut self.packet.clone(), &mut env);
        (step == Step::Next).then(|| registers.bytes(dst, len).to_vec())
    }
}

/// The outside of an example.
pub(super) struct Scenario<'e> {
    pub(super) context: Context,
    interfaces: &'e HashMap<u32, Interface>,
    /// Ports of bridges, on a way.
    ports: HashMap<u32, BridgePort>,
    pub(super) connection: HashMap<(CtKey, Option<CtDir>), Vec<u8>>,
    /// Family of the table whose rules run.
    table: Family,
    /// What a rule has asked for at this hook.
    pub(super) translation: Option<NatRequest>,
}

impl Env for Scenario<'_> {
    fn context(&self) -> Context {
        self.context
    }

    fn interface(&self, index: u32) -> Option<&Interface> {
        self.interfaces.get(&index)
    }

    fn bridge_port(&self, index: u32) -> Option<&BridgePort> {
        self.ports.get(&index)
    }

    fn random(&mut self) -> u32 {
        0
    }

    fn fib_interface(&mut self, _: &FibQuery) -> Option<u32> {
        None
    }

    fn fib_type(&mut self, _: &FibQuery) -> u8 {
        0
    }

    fn route(&mut self, _: &Packet) -> Option<Route> {
        None
    }

    fn log(&mut self, _: &Packet, _: &Log) {}

    fn reject(&mut self, _: &Packet, _: Rejection) {}

    fn dup(&mut self, _: &Packet, _: Option<IpAddr>, _: Option<u32>) {}

    fn fwd(&mut self, _: &mut Packet, _: u32, _: Option<IpAddr>) {}

    fn trace(&mut self, _: &Packet, _: Trace<'_>) {}

    fn nat(&mut self, _: &Packet, request: &NatRequest) -> env::Decision {
        self.translation = Some(*request);
        env::Decision::Accept
    }

    fn ct_get(
        &mut self,
        _: &Packet,
        key: CtKey,
        dir: Option<CtDir>,
        out: &mut [u8; 16],
    ) -> Option<u8> {
        let key = match (key, self.table) {
            (CtKey::Src, Family::Ip) => CtKey::SrcIp,
            (CtKey::Dst, Family::Ip) => CtKey::DstIp,
            (CtKey::Src, _) => CtKey::SrcIp6,
            (CtKey::Dst, _) => CtKey::DstIp6,
            (key, _) => key,
        };
        let bytes = self.connection.get(&(key, dir))?;
        out[..bytes.len()].copy_from_slice(bytes);
        Some(bytes.len() as u8)
    }

    fn ct_set(&mut self, _: &Packet, key: CtKey, value: &[u8]) {
        let known = self.connection.entry((key, None)).or_insert_with(|| vec![0; value.len()]);
        match key {
            CtKey::Labels => known.iter_mut().zip(value).for_each(|(to, from)| *to |= from),
            _ => known.iter_mut().zip(value).for_each(|(to, from)| *to = *from),
        }
    }
}

pub(super) struct Run<'e, 'p> {
    pub(super) example: &'e Example<'e>,
    pub(super) program: &'e Program<'p>,
    pub(super) packet: Packet,
    registers: Registers,
    met: Vec<RuleIndex>,
    /// A rule has translated the connection at this hook.
    pub(super) translated: bool,
    /// Connection tracking has seen the packet.
    tracked: bool,
    /// The packet is to be routed again.
    pub(super) turned: bool,
    /// Nothing is left to be translated at this hook.
    pub(super) settled: bool,
    /// How its frames go.
    pub(super) followed: Vec<Followed>,
    /// The way out that routing has found.
    pub(super) hop: Option<Hop>,
    pub(super) env: Scenario<'e>,
}

/// How a chain ends for a packet.
enum Left {
    End(End, RuleIndex),
    Over,
}

impl Run<'_, '_> {
    /// Base chains of a hook, in the order in which packets pass them.
    ///
    /// On a way chains of bridges see what the host sends after it was tracked.
    pub(super) fn hook(&mut self, hook: Hook, of_bridges: bool, bases: &[Base]) -> (End, Decider) {
        let universe = self.example.universe;
        let point = &self.example.point;
        let sent = of_bridges && hook == Hook::Output;
        let early = |priority| before_tracking(hook, priority) && !sent;
        let mut decider = None;
        self.env.context.hook = hook;
        for base in bases {
            if !early(base.priority) && !self.tracked {
                self.tracked = true;
                if self.packet.meta.ct.info != CtInfo::Untracked {
                    self.packet.meta.ct = self.example.tracked();
                }
            } else if early(base.priority)
                && self.packet.meta.ct == Ct::default()
                && universe.flag(Field::CtBefore, point) == Some(true)
            {
                self.packet.meta.ct = self.example.tracked();
            }
            let base_chain = Some(base.chain);
            let of_policy = Decider { rule: None, base: base_chain };
            // A packet that passes one of several chains passes the hook by the last of them.
            if bases.len() > 1 {
                decider = Some(of_policy);
            }
            if base.family != universe.place.family
                && base.family != self.env.context.family
                && base.family.is_ip()
            {
                continue;
            }
            if base.kind != ChainType::Nat
                && let Some(way) = self.program.way.as_ref()
                && let Some(side) = Side::at(hook).filter(|side| side.is_before(base))
                && let Err(refusal) = self.translate(way, side)
            {
                return (End::Refused(refusal), Decider { rule: None, base: None });
            }
            let key = self.route_key();
            let untranslated = universe.flag(Field::Untranslated, point).unwrap_or(true);
            let untracked = self.packet.meta.ct.info == CtInfo::Untracked;
            if base.kind == ChainType::Nat && (!untranslated || self.translated || untracked) {
                continue;
            }
            if hook == Hook::Ingress
                && base.family.is_ip()
                && !matches!(self.packet.meta.protocol, ethernet::IPV4 | ethernet::IPV6)
            {
                continue;
            }
            decider = Some(of_policy);
            self.env.context.family = match base.family.is_ip() || self.program.way.is_none() {
                true => self.example.family,
                false => base.family,
            };
            let left = self.chain(base.chain);
            self.env.context.family = self.example.family;
            self.turned |= base.kind == ChainType::Route && key != self.route_key();
            match left {
                Left::End(end, rule) => {
                    let decider = Decider { rule: Some(rule), base: base_chain };
                    if end != End::Accept {
                        return (end, decider);
                    }
                    if bases.last().map(|last| last.chain) == Some(base.chain) {
                        return (end, decider);
                    }
                }
                Left::Over => {
                    let chain = self.program.image.chain(base.chain);
                    if chain.and_then(|chain| chain.policy_accept) == Some(false) {
                        return (End::Drop, Decider { rule: None, base: base_chain });
                    }
                }
            }
        }
        (End::Accept, decider.unwrap_or(Decider { rule: None, base: None }))
    }

    /// The packet has its connection from here on.
    pub(super) fn track_now(&mut self) {
        self.packet.meta.ct = self.example.tracked();
    }

    /// The packet has no connection, until it is tracked again.
    pub(super) fn forget_connection(&mut self) {
        self.packet.meta.ct = Ct::default();
        self.tracked = false;
    }

    /// What makes the host route a packet again if a chain of type route changes it.
    fn route_key(&self) -> (Vec<u8>, u32) {
        let bytes = self.packet.network();
        let end = if bytes.first().is_some_and(|byte| byte >> 4 == 6) { 40 } else { 20 };
        let header = bytes.get(..end).unwrap_or(bytes);
        // Checksums follow what rules write.
        let kept = header.iter().enumerate().filter(|(at, _)| end == 40 || !(10..12).contains(at));
        (kept.map(|(_, byte)| *byte).collect(), self.packet.meta.mark)
    }

    fn chain(&mut self, base: ChainIndex) -> Left {
        let image = self.program.image;
        let range = |chain: ChainIndex| image.chain(chain).map_or(0..0, |c| c.first..c.end);
        let mut stack = Vec::new();
        let mut at = range(base);
        loop {
            let Some(rule) = at.next() else {
                match stack.pop() {
                    Some(waiting) => at = waiting,
                    None => return Left::Over,
                }
                continue;
            };
            let rule = RuleIndex(rule);
            if let Some(name) = image.rule_name(rule)
                && let Some(table) = image.table_of(name.chain)
            {
                self.env.table = table.family;
            }
            let step = self.rule(rule);
            if step != Step::Break {
                self.met.push(rule);
            }
            let verdict = match step {
                Step::Break | Step::Next => continue,
                Step::Drop => {
                    let reject = image.ops_at(rule).iter().find_map(|op| match op {
                        Op::Reject(reject) => Some(End::Reject(reject.kind, reject.code)),
                        _ => None,
                    });
                    return Left::End(reject.unwrap_or(End::Drop), rule);
                }
                Step::Stolen => return Left::End(End::Stolen, rule),
                Step::Verdict(verdict) => verdict,
            };
            match verdict {
                LinkedVerdict::Accept => return Left::End(End::Accept, rule),
                LinkedVerdict::Drop => return Left::End(End::Drop, rule),
                LinkedVerdict::Queue { bypass, .. } => {
                    let total = image.ops_at(rule).iter().find_map(|op| match op {
                        Op::Queue(queue) if queue.sreg.is_none() => Some(queue.total.max(1)),
                        _ => None,
                    });
                    return Left::End(End::Queue { total: total.unwrap_or(1), bypass }, rule);
                }
                LinkedVerdict::Continue | LinkedVerdict::Break => {}
                LinkedVerdict::Return => at = 0..0,
                LinkedVerdict::Jump(_) if stack.len() >= JUMP_STACK => {
                    return Left::End(End::Drop, rule);
                }
                LinkedVerdict::Jump(target) => {
                    stack.push(std::mem::replace(&mut at, range(target)));
                }
                LinkedVerdict::Goto(target) => at = range(target),
            }
        }
    }

    fn rule(&mut self, rule: RuleIndex) -> Step {
        let number = self.program.numbers.get(rule.0 as usize).copied().unwrap_or(rule.0);
        let mut inputs = 0;
        for op in self.program.image.ops_at(rule) {
            let decided = self.decided(op, number, inputs).or_else(|| self.answered(op));
            inputs += u16::from(asks_input(op));
            let step = match decided {
                Some(step) => step,
                None => execute(op, &mut self.registers, &mut self.packet, &mut self.env),
            };
            if matches!(op, Op::Nat(_)) && step == Step::Verdict(LinkedVerdict::Accept) {
                self.translated = true;
            }
            match step {
                Step::Next | Step::Verdict(LinkedVerdict::Continue) => {}
                Step::Verdict(LinkedVerdict::Break) => return Step::Break,
                step => return step,
            }
        }
        Step::Next
    }

    /// What an operation does that asks the outside: as the example has it.
    fn answered(&mut self, op: &Op) -> Option<Step> {
        let universe = self.example.universe;
        let point = &self.example.point;
        let Question { text, dst, bytes } = Question::of(op)?;
        let Some(question) = universe.known_question(&text) else { return Some(Step::Break) };
        if universe.flag(Field::Answers(question), point) != Some(true) {
            return Some(Step::Break);
        }
        let answer = universe.value(Field::Answer { question, bytes }, point);
        self.registers.set(dst, &answer.unwrap_or_else(|| vec![0; usize::from(bytes)]));
        Some(Step::Next)
    }

    /// What an operation does that depends on more than the packet: as the example has it.
    fn decided(&mut self, op: &Op, rule: u32, at: u16) -> Option<Step> {
        let universe = self.example.universe;
        let point = &self.example.point;
        let on = |what| {
            let input = Field::Input(Input { what, rule, op: at });
            match universe.flag(input, point).unwrap_or(true) {
                true => Step::Next,
                false => Step::Break,
            }
        };
        let mut load = |dst: u8, bytes: &[u8]| {
            self.registers.set(dst, bytes);
            Step::Next
        };
        Some(match op {
            Op::Stateful(stateful) => match &**stateful {
                Stateful::Limit { .. } => on(What::Limit),
                Stateful::Quota { .. } | Stateful::NamedQuota { .. } => on(What::Quota),
                Stateful::Connlimit { .. } => on(What::Connlimit),
                Stateful::Ct(object) => match **object {
                    CtObject::Expect { .. } => on(What::Expected),
                    CtObject::Helper { .. } | CtObject::Timeout { .. } => Step::Next,
                },
                Stateful::Counter(_)
                | Stateful::Last(_)
                | Stateful::Synproxy(_)
                | Stateful::SecMark(_) => return None,
            },
            Op::Counter(_) => Step::Next,
            Op::SetUpdate(update) => match update.op {
                DynsetOp::Delete => Step::Next,
                DynsetOp::Add | DynsetOp::Update => {
                    match (on(What::Added) == Step::Next) != update.invert {
                        true => Step::Next,
                        false => Step::Break,
                    }
                }
            },
            Op::LookupDynamic { src, key_len, inverse, .. } if !self.program.listed => {
                let key = self.registers.bytes(*src, *key_len);
                let asked = universe.members(rule, at).iter();
                let input = asked.filter(|(_, bits)| value_at(bits, point) == key).map(|(i, _)| i);
                let found = input
                    .filter_map(|input| universe.flag(Field::Input(*input), point))
                    .next()
                    .unwrap_or(false);
                if found != *inverse { Step::Next } else { Step::Break }
            }
            Op::NumgenInc { dst, .. }
            | Op::NumgenRandom { dst, .. }
            | Op::Jhash { dst, .. }
            | Op::Symhash { dst, .. }
            | Op::Meta { key: MetaKey::Prandom, dst } => {
                let input = Field::Input(Input { what: What::Number, rule, op: at });
                let value = universe.value(input, point)?;
                let number = u32::from_be_bytes([value[0], value[1], value[2], value[3]]);
                load(*dst, &number.to_ne_bytes())
            }
            Op::Meta { key, .. } if self.program.way.is_some() && is_of_bridge(*key) => {
                return None;
            }
            Op::Meta {
                key:
                    key @ (MetaKey::TimeNs
                    | MetaKey::TimeDay
                    | MetaKey::TimeHour
                    | MetaKey::Cpu
                    | MetaKey::SecPath
                    | MetaKey::BriIifName
                    | MetaKey::BriOifName
                    | MetaKey::BriIifPvid
                    | MetaKey::BriIifVproto
                    | MetaKey::BriIifHwAddr),
                dst,
            } => {
                if universe.flag(Field::HasMeta(*key), point) == Some(false) {
                    return Some(Step::Break);
                }
                let field = Field::Meta(*key);
                let value = universe.value(field, point)?;
                let mut bytes = vec![0; value.len()];
                for (i, byte) in value.iter().enumerate() {
                    bytes[field.in_register(i)] = *byte;
                }
                load(*dst, &bytes)
            }
            Op::TcpOptionSet { kind, .. } => {
                let question = universe.known_question(&Question::tcp_option(*kind));
                let has = question.and_then(|q| universe.flag(Field::Answers(q), point));
                if has.unwrap_or(false) { Step::Next } else { Step::Break }
            }
            Op::FlowOffload(_) => on(What::Offloaded),
            _ => return None,
        })
    }
}

/// What the example must come to, by what was said of its class; what is wrong if it does not.
pub fn check(
    example: &Example<'_>,
    program: &Program<'_>,
    fate: &Fate,
    deciders: &[Decider],
) -> Result<Verified, String> {
    let verified = example.run(program);
    if verified.end != fate.end {
        return Err(format!("the interpreter says {:?}, not {:?}", verified.end, fate.end));
    }
    if !deciders.contains(&verified.decider) {
        return Err(format!("the interpreter's rule is {:?}", verified.decider));
    }
    for (field, value) in &fate.written {
        let Written::Value(value) = value else { continue };
        let at_end: Option<Vec<u8>> = match field {
            Field::Meta(MetaKey::Mark) => Some(verified.mark.to_be_bytes().to_vec()),
            Field::Meta(MetaKey::Priority) => Some(verified.priority.to_be_bytes().to_vec()),
            Field::Header { base: Header::Network, at } => {
                verified.packet.get(usize::from(*at)).map(|byte| vec![*byte])
            }
            _ => None,
        };
        if at_end.is_some_and(|at_end| at_end != *value) {
            return Err(format!("the interpreter has another value in {field:?}"));
        }
    }
    Ok(verified)
}
