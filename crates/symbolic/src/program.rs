// SPDX-License-Identifier: Apache-2.0

//! A linked ruleset as this engine looks at it: base chains of a hook, rules that can be reached,
//! and what an operation is by itself.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use penstock_program::expr::{CmpOp, MetaKey};
use penstock_program::image::{ChainIndex, Image, RuleIndex, Stateful};
use penstock_program::op::{Effect, Load, Op};
use penstock_program::{DynamicSet, Family, Hook};

use crate::base::Base;
use crate::field::{Base as Header, Field};
use crate::way::Way;

/// A linked ruleset, and which of its chains are looked at.
pub struct Program<'a> {
    /// The ruleset.
    pub image: &'a Image,
    /// Base chains of one hook, in the order in which packets pass them; or one chain; or with a way
    /// all of it.
    pub bases: Vec<Base>,
    /// The way through a network, in place of one hook.
    pub way: Option<Way<'a>>,
    /// Numbers of rules, in the order of the image: equal in two rulesets where the rules are.
    pub numbers: Vec<u32>,
    /// Numbers of sets that packets change, equal in two rulesets where the sets are: by address.
    pub sets: HashMap<usize, u32>,
    /// Elements of those are taken as they are listed, in place of anything.
    pub listed: bool,
    /// Time for elements that expire, in nanoseconds since the epoch.
    pub now: u64,
}

/// The number of a set by its address.
pub fn set_address(set: &Arc<DynamicSet>) -> usize {
    Arc::as_ptr(set) as usize
}

/// Rules that can be reached from base chains, each once, in the order of the image.
pub fn reachable(program: &Program<'_>) -> Vec<RuleIndex> {
    rules_from(program.image, program.bases.iter().map(|base| base.chain).collect())
}

/// Rules of chains and of those that they lead to, each once, in the order of the image.
pub(crate) fn rules_from(image: &Image, mut open: Vec<ChainIndex>) -> Vec<RuleIndex> {
    let mut seen = vec![false; image.chains.len()];
    while let Some(chain) = open.pop() {
        let Some(known) = seen.get_mut(chain.0 as usize) else { continue };
        if std::mem::replace(known, true) {
            continue;
        }
        let Some(linked) = image.chain(chain) else { continue };
        for rule in image.rules_of(linked) {
            open.extend(
                image.ops_of(rule).iter().flat_map(|op| op.targets()).map(|(chain, _)| chain),
            );
        }
    }
    let chains = image.chains.iter().zip(seen).filter(|(_, seen)| *seen);
    let mut all: Vec<RuleIndex> =
        chains.flat_map(|(chain, _)| chain.first..chain.end).map(RuleIndex).collect();
    all.sort_unstable();
    all
}

/// Values that rules compare a whole key of metadata with, as register bytes: names and indexes of
/// devices, alone and in concatenations. Ranges and prefixes are left out.
pub fn compared(program: &Program<'_>, key: MetaKey) -> BTreeSet<Vec<u8>> {
    let len = key.width() as usize;
    let mut all = BTreeSet::new();
    for rule in reachable(program) {
        let mut slot = None;
        for op in program.image.ops_at(rule) {
            match op {
                Op::Meta { key: loaded, dst } if *loaded == key => slot = Some(*dst),
                Op::CmpWord { src, mask: u32::MAX, data, .. } if slot == Some(*src) && len == 4 => {
                    all.insert(data.to_ne_bytes().to_vec());
                }
                Op::Cmp { op: CmpOp::Eq | CmpOp::Neq, src, len: of, data }
                    if slot == Some(*src) && usize::from(*of) == len =>
                {
                    all.insert(data[..len].to_vec());
                }
                Op::Lookup { src, key_len, set, .. } => {
                    let Some(at) = slot.and_then(|slot| slot.checked_sub(*src)) else { continue };
                    let at = 4 * usize::from(at);
                    if at + len > usize::from(*key_len) {
                        continue;
                    }
                    let exact = set.iter_unordered().filter(|e| e.is_alive(program.now));
                    let parts = exact.filter_map(|e| {
                        let part = e.key.get(at..at + len)?;
                        let end = e.key_end.is_none_or(|end| end.get(at..at + len) == Some(part));
                        end.then(|| part.to_vec())
                    });
                    all.extend(parts);
                }
                op if slot.is_some_and(|slot| op.info().writes >> slot & 1 == 1) => slot = None,
                _ => {}
            }
        }
    }
    all
}

/// `NF_IP_PRI_CONNTRACK`.
const CONNTRACK: i32 = -200;

/// Whether a base chain runs before connection tracking.
pub(crate) fn before_tracking(hook: Hook, priority: i32) -> bool {
    match hook {
        Hook::Prerouting | Hook::Output => priority <= CONNTRACK,
        Hook::Ingress => true,
        Hook::Input | Hook::Forward | Hook::Postrouting | Hook::Egress => false,
    }
}

/// Whether rules look at the hops that are left, or write them: at a byte of the network header.
pub(crate) fn looks_at_hops(program: &Program<'_>, at: u16) -> bool {
    let rules = reachable(program);
    let mut ops = rules.iter().flat_map(|rule| program.image.ops_at(*rule));
    ops.any(|op| {
        let load = op.header_load();
        load.is_some_and(|l| l.base == Header::Network && l.offset == at && l.len == 1)
            || matches!(op, Op::PayloadSet { base: Header::Network, offset, len, .. }
                if (*offset..offset.saturating_add((*len).into())).contains(&at))
    })
}

/// Whether rules of bridges ask for connections, so that bridges track them.
pub(crate) fn bridges_track(program: &Program<'_>) -> bool {
    let image = program.image;
    (0..image.rules.len() as u32).map(RuleIndex).any(|rule| {
        let table = image.rule_name(rule).and_then(|name| image.table_of(name.chain));
        table.is_some_and(|table| table.family == Family::Bridge)
            && image.ops_at(rule).iter().any(|op| match op {
                Op::Ct { .. } | Op::CtState { .. } | Op::CtSet { .. } | Op::Notrack => true,
                Op::Stateful(of) => matches!(**of, Stateful::Connlimit { .. } | Stateful::Ct(_)),
                _ => false,
            })
    })
}

/// Whether an operation does nothing but to go on or to break.
pub(crate) fn is_look(op: &Op) -> bool {
    match op {
        Op::Verdict(_) | Op::Lookup { load: Load::Verdict, .. } => false,
        // What they count is not looked at.
        Op::Counter(_) | Op::Log(_) | Op::Lookup { .. } | Op::LookupDynamic { .. } => true,
        // Fields of connections, and answers of the outside.
        Op::Ct { .. }
        | Op::Fib { .. }
        | Op::Rt { .. }
        | Op::Socket { .. }
        | Op::Osf { .. }
        | Op::Xfrm { .. }
        | Op::Tunnel { .. } => true,
        op => {
            let info = op.info();
            info.effect == Effect::None && !info.decides
        }
    }
}

/// Whether an operation may ask for what is more than the packet.
pub(crate) fn asks_input(op: &Op) -> bool {
    match op {
        Op::Stateful(stateful) => !matches!(**stateful, Stateful::Counter(_) | Stateful::Last(_)),
        Op::SetUpdate(_)
        | Op::LookupDynamic { .. }
        | Op::NumgenInc { .. }
        | Op::NumgenRandom { .. }
        | Op::Jhash { .. }
        | Op::Symhash { .. }
        | Op::FlowOffload(_)
        | Op::Meta { key: MetaKey::Prandom, .. } => true,
        _ => false,
    }
}

/// The number of an operation among those of its rule that ask for inputs.
pub(crate) fn input_number(ops: &[Op], at: usize) -> u16 {
    ops.iter().take(at).filter(|op| asks_input(op)).count() as u16
}

/// Numbers of the sets that rules of a program change.
pub(crate) fn changed_sets(program: &Program<'_>) -> Vec<u32> {
    let rules = reachable(program);
    let ops = rules.iter().flat_map(|rule| program.image.ops_at(*rule));
    ops.filter_map(|op| match op {
        Op::SetUpdate(update) => program.sets.get(&set_address(&update.set)).copied(),
        _ => None,
    })
    .collect()
}

/// Fields that rules of a program may write.
pub(crate) fn written_fields(program: &Program<'_>) -> Vec<Field> {
    let mut all = Vec::new();
    for rule in reachable(program) {
        for op in program.image.ops_at(rule) {
            match op {
                Op::MetaSet { key, .. } => all.push(Field::Meta(*key)),
                Op::CtSet { key, .. } => all.push(Field::Ct(*key, None)),
                Op::Stateful(s) if matches!(**s, Stateful::SecMark(_)) => {
                    all.push(Field::Meta(MetaKey::SecMark));
                }
                Op::Notrack => all.extend([Field::CtState, Field::CtBefore]),
                Op::PayloadSet { base, len, offset, .. } => {
                    let end = offset.saturating_add((*len).into());
                    all.extend((*offset..end).map(|at| Field::Header { base: *base, at }));
                }
                _ => {}
            }
        }
    }
    all
}
