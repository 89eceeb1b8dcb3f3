// SPDX-License-Identifier: Apache-2.0

//! Rules, elements and policies that make no difference.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use penstock_program::ChainType;
use penstock_program::expr::MetaKey;
use penstock_program::image::{ChainIndex, Image, LinkedValue, RuleIndex, Stateful};
use penstock_program::op::{Load, Op};
use penstock_sets::Set;

use crate::asked::asked;
use crate::base::Base;
use crate::classes::differ;
use crate::cover::{Coverage, Key, enters, key_of, why_never};
use crate::diagram::{Decided, Limits, Region, Undecided};
use crate::example::Example;
use crate::place::Place;
use crate::program::{Program, is_look, reachable, rules_from};
use crate::progress::PROGRESS;
use crate::universe::Universe;
use crate::walk::{Failure, Matches, Noting, evaluate_noting, may_match};

/// Elements of a set that are looked at one by one, at most.
const ELEMENTS: usize = 1024;

/// Packets at random that are tried for policies.
const TRIES: usize = 64;

/// What each rule of a hook is good for.
pub struct Review {
    /// The fields of the rules.
    pub universe: Universe,
    /// Rules that base chains lead to, in the order of the image.
    pub rules: Vec<(RuleIndex, Use)>,
    /// Elements of sets and maps that one rule alone asks: rule by rule, in the order of the sets.
    pub elements: Vec<ElementUse>,
    /// Base chains, and whether packets come to their end; empty if that was not decided.
    pub policies: Vec<(ChainIndex, bool)>,
}

/// What a rule is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is, or it counts or tells of packets, or that was not found out.
    Some,
    /// No packet meets it: why. Neither a case nor one that could not be made.
    Never(Coverage),
    /// Without it the same becomes of each packet.
    NoDifference,
}

/// An element of a set, or of a map, that one rule alone asks.
pub struct ElementUse {
    /// The rule.
    pub rule: RuleIndex,
    /// Its number among the elements of the rule.
    pub number: usize,
    /// The key.
    pub key: Key,
    /// Packets that have it meet the rule.
    pub is_met: bool,
}

/// Finds what the rules of a program are good for at a place.
///
/// # Errors
/// A limit, or a rule that has no symbolic meaning.
pub fn review(place: Place, program: &Program<'_>, limits: Limits) -> Result<Review, Failure> {
    let mut universe = Universe::new(place, limits, asked(place, program));
    let rules = reachable(program);
    let matches = may_match(&mut universe, program, &rules)?;
    let done = program.image.rules.len();
    let limit = |limit: Undecided| Failure::Undecided { limit, done: (done, done) };
    let early = universe.possible().map_err(limit)?;
    let uses = lookups(program.image);
    let is_own = |set: &Arc<Set<LinkedValue>>| uses.get(&Arc::as_ptr(set)) == Some(&1);
    let open = open(program, &rules);
    let mut all = Vec::new();
    let mut elements = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        PROGRESS.note(number, rules.len());
        if open.contains(rule) {
            all.push((*rule, Use::Some));
            continue;
        }
        let enter = enters(&universe, &matches, *rule, &early).map_err(limit)?;
        let closer = program.image.ops_at(*rule).iter().any(|op| match op {
            Op::Lookup { set, inverse, .. } => !inverse && is_own(set) && set.len() <= ELEMENTS,
            _ => false,
        });
        let noting = Noting { closer: closer.then_some(*rule), ..Noting::default() };
        let (with, mut notes) = evaluate_noting(&mut universe, program, &matches, &enter, noting)?;
        // What rules ask on the way says more about what is possible.
        let possible = universe.possible().map_err(limit)?;
        let met = notes.met.get(rule).map_or(&[][..], |met| met);
        let met = universe.diagrams.union(met).map_err(limit)?;
        let met = universe.diagrams.and(&met, &possible).map_err(limit)?;
        if met.is_none() {
            let why = why_never(&universe, program, *rule, &notes, &enter).map_err(limit)?;
            all.push((*rule, Use::Never(why)));
            continue;
        }
        for (number, (key, come)) in std::mem::take(&mut notes.elements).into_iter().enumerate() {
            let is_met = universe.diagrams.meet(&come, &possible).map_err(limit)?;
            let key = key_of(&universe, &key, &enter).map_err(limit)?;
            elements.push(ElementUse { rule: *rule, number, key, is_met });
        }
        let mut found = Use::Some;
        if open.is_empty()
            && is_only_fate(program, *rule)
            && !remembers(&universe, program, &matches, &rules, &met).map_err(limit)?
        {
            let noting = Noting { without: Some(*rule), ..Noting::default() };
            let (without, _) = evaluate_noting(&mut universe, program, &matches, &met, noting)?;
            if !differ(&universe, [&with, &without], &met).map_err(limit)? {
                found = Use::NoDifference;
            }
        }
        all.push((*rule, found));
    }
    let policies = match all_policies_are_met(&universe, program).map_err(limit)? {
        Some(met) => met,
        None => policies(&mut universe, program, &matches).unwrap_or_default(),
    };
    Ok(Review { universe, rules: all, elements, policies })
}

/// Rules that ask a set without elements, and those of chains that they call: the set is there to be
/// filled.
fn open(program: &Program<'_>, rules: &[RuleIndex]) -> BTreeSet<RuleIndex> {
    let asks_empty = |rule: &&RuleIndex| {
        program.image.ops_at(**rule).iter().any(|op| match op {
            Op::Lookup { set, .. } | Op::ObjectMap { set, .. } => set.is_empty(),
            _ => false,
        })
    };
    rules.iter().filter(asks_empty).flat_map(|rule| called(program.image, *rule)).collect()
}

/// A rule, and all rules of chains that it calls, and that these call.
fn called(image: &Image, rule: RuleIndex) -> Vec<RuleIndex> {
    let targets = image.ops_at(rule).iter().flat_map(|op| op.targets()).map(|(chain, _)| chain);
    let mut all = rules_from(image, targets.collect());
    all.push(rule);
    all
}

/// How often each set is looked up.
fn lookups(image: &Image) -> HashMap<*const Set<LinkedValue>, usize> {
    let mut uses = HashMap::new();
    for rule in (0..image.rules.len() as u32).map(RuleIndex) {
        for op in image.ops_at(rule) {
            if let Op::Lookup { set, .. } = op {
                *uses.entry(Arc::as_ptr(set)).or_default() += 1;
            }
        }
    }
    uses
}

/// Base chains, if packets at random come to the end of each.
fn all_policies_are_met(
    universe: &Universe,
    program: &Program<'_>,
) -> Decided<Option<Vec<(ChainIndex, bool)>>> {
    // A packet that does not pass a chain is told as one that comes to its end.
    let all_pass =
        |base: &Base| base.family == universe.place.family && base.kind != ChainType::Nat;
    if !program.bases.iter().all(all_pass) {
        return Ok(None);
    }
    let possible = universe.possible()?;
    let mut open: Vec<ChainIndex> = program.bases.iter().map(|base| base.chain).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..TRIES {
        let point: Vec<bool> = (0..universe.diagrams.variables())
            .map(|_| {
                // xorshift64
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random >> 63 == 1
            })
            .collect();
        let Some(point) = universe.diagrams.packet_like(&possible, &point) else { break };
        let Some(example) = Example::new(universe, &point) else { continue };
        let decider = example.run(program).decider;
        if decider.rule.is_none() {
            open.retain(|chain| decider.base != Some(*chain));
        }
        if open.is_empty() {
            return Ok(Some(program.bases.iter().map(|base| (base.chain, true)).collect()));
        }
    }
    Ok(None)
}

/// Whether packets come to the end of each base chain.
fn policies(
    universe: &mut Universe,
    program: &Program<'_>,
    matches: &Matches,
) -> Result<Vec<(ChainIndex, bool)>, Failure> {
    let all = universe.diagrams.all();
    let (_, notes) = evaluate_noting(universe, program, matches, &all, Noting::default())?;
    let limit = |limit: Undecided| Failure::Undecided { limit, done: (0, 0) };
    let possible = universe.possible().map_err(limit)?;
    let mut found = Vec::new();
    for (chain, rest) in &notes.rest {
        found.push((*chain, universe.diagrams.meet(rest, &possible).map_err(limit)?));
    }
    Ok(found)
}

/// Whether an operation does nothing but look, load, decide, and set marks.
fn is_fate(op: &Op) -> bool {
    let counts = |set: &Set<LinkedValue>| {
        !set.is_presence_only() && set.iter_unordered().any(|e| !e.value.statements.is_empty())
    };
    match op {
        Op::Counter(_) | Op::Stateful(_) | Op::Log(_) | Op::LookupDynamic { .. } => false,
        Op::Lookup { set, .. } => !counts(set),
        Op::Verdict(_) | Op::CtSet { .. } => true,
        Op::MetaSet { key, .. } => *key != MetaKey::NfTrace,
        op => is_look(op) && !keeps(op),
    }
}

/// Whether what an operation does to a packet depends on packets before it, or tells of the packet.
fn keeps(op: &Op) -> bool {
    match op {
        Op::Stateful(stateful) => !matches!(**stateful, Stateful::Counter(_) | Stateful::Last(_)),
        Op::SetUpdate(_) | Op::NumgenInc { .. } | Op::FlowOffload(_) | Op::Queue(_) => true,
        Op::Lookup { set, load, .. } => *load != Load::Verdict && crate::lookup::may_end(set, 0),
        _ => false,
    }
}

/// Whether a rule, and the chains that it calls, are there for nothing but what becomes of packets.
fn is_only_fate(program: &Program<'_>, rule: RuleIndex) -> bool {
    let all = called(program.image, rule);
    all.into_iter().all(|rule| program.image.ops_at(rule).iter().all(is_fate))
}

/// Whether packets may come to a rule that remembers them: more of them would be another thing for
/// others.
fn remembers(
    universe: &Universe,
    program: &Program<'_>,
    matches: &Matches,
    rules: &[RuleIndex],
    packets: &Region,
) -> Decided<bool> {
    for rule in rules {
        if program.image.ops_at(*rule).iter().any(keeps)
            && let Some(region) = matches.of(*rule)
            && universe.diagrams.meet(region, packets)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}
