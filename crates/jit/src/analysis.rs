// SPDX-License-Identifier: Apache-2.0

//! What is known of chains before code is made.

use std::collections::HashMap;

use penstock_program::expr::MetaKey;
use penstock_program::image::{
    ChainIndex, Image, LinkedData, LinkedRule, LinkedValue, LinkedVerdict, Load, Op, Stateful,
};
use penstock_program::interp::JUMP_STACK;
use penstock_sets::ElementRef;

/// What an operation may do beside writing registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing: with the same packet and registers it does the same again.
    None,
    /// Changes states, sets or the outside, but not the packet, or depends on them.
    Outside,
    /// Changes the packet's bytes.
    Bytes,
    /// Changes the packet's metadata.
    Metadata,
}

/// The effect of an operation.
pub(crate) fn effect(op: &Op) -> Effect {
    match op {
        Op::Immediate { .. }
        | Op::LoadLink { .. }
        | Op::LoadNetwork { .. }
        | Op::LoadTransport { .. }
        | Op::LoadInner { .. }
        | Op::InTunnel(_)
        | Op::CmpWord { .. }
        | Op::Cmp { .. }
        | Op::Range { .. }
        | Op::MaskXorWord { .. }
        | Op::MaskXor { .. }
        | Op::Lshift { .. }
        | Op::Rshift { .. }
        | Op::Combine { .. }
        | Op::Byteorder { .. }
        | Op::Exthdr { .. }
        | Op::Jhash { .. }
        | Op::Symhash { .. }
        | Op::CtState { .. }
        | Op::Osf { .. }
        | Op::Xfrm { .. }
        | Op::Tunnel { .. } => Effect::None,
        Op::Meta { key: MetaKey::Prandom, .. } => Effect::Outside,
        Op::Meta { .. } => Effect::None,
        Op::Verdict(_)
        | Op::Lookup { .. }
        | Op::LookupDynamic { .. }
        | Op::SetUpdate(_)
        | Op::Counter(_)
        | Op::Log(_)
        | Op::NumgenInc { .. }
        | Op::NumgenRandom { .. }
        | Op::Fib { .. }
        | Op::Rt { .. }
        | Op::Reject(_)
        | Op::Dup { .. }
        | Op::Ct { .. }
        | Op::CtSet { .. }
        | Op::Queue(_)
        | Op::FlowOffload(_)
        | Op::Socket { .. } => Effect::Outside,
        Op::PayloadSet { .. }
        | Op::TcpOptionSet { .. }
        | Op::TcpOptionReset { .. }
        | Op::Fwd { .. }
        | Op::Synproxy(_) => Effect::Bytes,
        Op::Stateful(stateful) => match &**stateful {
            Stateful::Counter(_)
            | Stateful::Quota { .. }
            | Stateful::NamedQuota { .. }
            | Stateful::Limit { .. }
            | Stateful::Last(_)
            | Stateful::Connlimit { .. } => Effect::Outside,
            Stateful::Ct(_) | Stateful::SecMark(_) => Effect::Metadata,
            Stateful::Synproxy(_) => Effect::Bytes,
        },
        // One of these.
        Op::ObjectMap { .. } => Effect::Bytes,
        Op::MetaSet { .. }
        | Op::CtSetZone { .. }
        | Op::Notrack
        | Op::Nat(_)
        | Op::Tproxy { .. } => Effect::Metadata,
    }
}

/// Whether nobody can tell if an operation runs for later packets before earlier ones are done
/// with: it asks nothing that packets change, and changes nothing but the packet and counters.
fn apart(op: &Op) -> bool {
    let counts = |e: ElementRef<'_, LinkedValue>| {
        e.value.statements.iter().all(|s| matches!(s, Stateful::Counter(_)))
    };
    match op {
        Op::Meta { key: MetaKey::Prandom, .. } | Op::MetaSet { key: MetaKey::NfTrace, .. } => false,
        Op::Lookup { set, .. } => set.iter_unordered().chain(set.catch_all(0)).all(counts),
        Op::Counter(_) | Op::Verdict(_) => true,
        Op::Stateful(stateful) => matches!(**stateful, Stateful::Counter(_)),
        Op::PayloadSet { .. }
        | Op::TcpOptionSet { .. }
        | Op::TcpOptionReset { .. }
        | Op::MetaSet { .. } => true,
        op => effect(op) == Effect::None,
    }
}

/// Which parts of a packet are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) link: bool,
    pub(crate) network: bool,
    pub(crate) transport: bool,
    /// The transport header in loads that ask for fragments.
    pub(crate) whole_transport: bool,
    pub(crate) length: bool,
}

impl Needs {
    pub(crate) fn add(&mut self, other: Needs) {
        self.link |= other.link;
        self.network |= other.network;
        self.transport |= other.transport;
        self.whole_transport |= other.whole_transport;
        self.length |= other.length;
    }
}

/// Whether a load from the transport header sees into fragments
/// ([`transport_bytes_for_load`](penstock_packet::Packet::transport_bytes_for_load)).
pub(crate) fn sees_fragments(len: u8, offset: u16) -> bool {
    matches!(len, 1 | 2 | 4) && offset.is_multiple_of(len.into())
}

/// What is known of a chain and the chains that it calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    /// Rules of the chain itself and of all chains that it calls, as often as it calls them.
    pub(crate) weight: u64,
    /// Chains on top of it at most; `None` if that is more than the stack holds, or they call each
    /// other in circles.
    pub(crate) depth: Option<usize>,
    /// All rules write registers before they read them.
    pub(crate) sound: bool,
    /// May change the packet's bytes or metadata.
    pub(crate) changes: bool,
    /// May begin or end tracing.
    pub(crate) traces: bool,
    /// Of several packets, none can tell what the others did.
    pub(crate) apart: bool,
    pub(crate) needs: Needs,
}

impl Summary {
    /// Whether code can be made for it.
    pub(crate) fn compiles(&self) -> bool {
        self.sound && self.depth.is_some()
    }
}

/// Summaries of chains, made as they are asked for.
pub(crate) struct Analysis<'a> {
    image: &'a Image,
    summaries: HashMap<ChainIndex, Option<Summary>>,
    /// How many rules call a chain.
    pub(crate) callers: HashMap<ChainIndex, u32>,
}

/// Operations of a rule.
pub(crate) fn ops<'a>(image: &'a Image, rule: &LinkedRule) -> &'a [Op] {
    image.ops.get(rule.first as usize..rule.end as usize).unwrap_or(&[])
}

/// Rules of a chain.
pub(crate) fn rules(image: &Image, chain: ChainIndex) -> std::ops::Range<u32> {
    let end = image.rules.len() as u32;
    image.chain(chain).map_or(0..0, |c| c.first.min(end)..c.end.min(end))
}

/// Chains that an operation may call or go to.
pub(crate) fn targets(op: &Op) -> Vec<(ChainIndex, bool)> {
    let of = |verdict: &LinkedVerdict| match verdict {
        LinkedVerdict::Jump(chain) => Some((*chain, true)),
        LinkedVerdict::Goto(chain) => Some((*chain, false)),
        _ => None,
    };
    match op {
        Op::Verdict(verdict) => of(verdict).into_iter().collect(),
        Op::Lookup { set, load: Load::Verdict, .. } => {
            let verdicts = set.iter_unordered().chain(set.catch_all(0));
            let mut all: Vec<_> = verdicts
                .filter_map(|e| match &e.value.data {
                    LinkedData::Verdict(verdict) => of(verdict),
                    _ => None,
                })
                .collect();
            all.sort_unstable();
            all.dedup();
            all
        }
        _ => Vec::new(),
    }
}

impl<'a> Analysis<'a> {
    pub(crate) fn new(image: &'a Image) -> Self {
        Analysis { image, summaries: HashMap::new(), callers: HashMap::new() }
    }

    /// What is known of a chain.
    pub(crate) fn summary(&mut self, chain: ChainIndex) -> Summary {
        match self.summaries.get(&chain) {
            Some(Some(summary)) => return summary.clone(),
            // It is being looked at: a circle.
            Some(None) => return Summary { depth: None, sound: true, ..Summary::default() },
            None => {}
        }
        self.summaries.insert(chain, None);
        let summary = self.make(chain);
        self.summaries.insert(chain, Some(summary.clone()));
        summary
    }

    fn make(&mut self, chain: ChainIndex) -> Summary {
        let mut all = Summary { depth: Some(0), sound: true, apart: true, ..Summary::default() };
        for rule in &self.image.rules[range(rules(self.image, chain))] {
            all.weight = all.weight.saturating_add(1);
            let mut written = 0;
            for op in ops(self.image, rule) {
                let uses = op.uses();
                all.sound &= uses.reads & !written == 0 && op.stays_in_registers();
                written |= uses.writes;
                all.changes |= matches!(effect(op), Effect::Bytes | Effect::Metadata);
                all.traces |= matches!(op, Op::MetaSet { key: MetaKey::NfTrace, .. });
                all.apart &= apart(op);
                all.needs.add(needs(op));
                for (target, call) in targets(op) {
                    *self.callers.entry(target).or_default() += 1;
                    let callee = self.summary(target);
                    all.weight = all.weight.saturating_add(callee.weight);
                    all.sound &= callee.sound;
                    all.changes |= callee.changes;
                    all.traces |= callee.traces;
                    all.apart &= callee.apart;
                    all.needs.add(callee.needs);
                    let beneath = callee.depth.map(|depth| depth + usize::from(call));
                    all.depth =
                        all.depth.zip(beneath).map(|(a, b)| a.max(b)).filter(|d| *d <= JUMP_STACK);
                }
            }
        }
        all
    }
}

pub(crate) fn range(rules: std::ops::Range<u32>) -> std::ops::Range<usize> {
    rules.start as usize..rules.end as usize
}

fn needs(op: &Op) -> Needs {
    let none = Needs::default();
    match op {
        Op::LoadLink { .. } => Needs { link: true, ..none },
        Op::LoadNetwork { .. } => Needs { network: true, ..none },
        Op::LoadTransport { len, offset, .. } if sees_fragments(*len, *offset) => {
            Needs { transport: true, ..none }
        }
        Op::LoadTransport { .. } => Needs { whole_transport: true, transport: true, ..none },
        Op::Meta { key: MetaKey::L4Proto, .. } => Needs { transport: true, ..none },
        Op::Meta { key: MetaKey::Len, .. } | Op::Counter(_) => Needs { length: true, ..none },
        Op::Stateful(stateful) if matches!(**stateful, Stateful::Counter(_)) => {
            Needs { length: true, ..none }
        }
        _ => none,
    }
}
