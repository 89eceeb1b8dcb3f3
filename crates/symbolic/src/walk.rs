// SPDX-License-Identifier: Apache-2.0

//! Chains over sets of packets: from the packets that enter a hook to what becomes of each.
//!
//! A rule splits the packets that reach it into those that it decides and those that go on; the
//! rules of a chain run one after the other as in the interpreter, each with what is left. A chain
//! that is called runs with the packets that jump to it, and gives those back that it does not
//! decide.

mod flows;
mod frames;
mod journey;
mod link;
mod live;
mod looked;
mod own_addresses;
mod routed;
mod routed6;
mod stations;
mod translation;
mod way_out;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use penstock_program::expr::MetaKey;
use penstock_program::image::{ChainIndex, LinkedVerdict, RuleIndex};
use penstock_program::interp::JUMP_STACK;
use penstock_program::op::{Load, Op};
use penstock_program::{ChainType, DynamicSet, Family, Hook};

use crate::base::Base;
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Diagrams, Region, Undecided};
use crate::fate::End;
use crate::field::{Base as HeaderBase, Done, Field, Input, What};
use crate::hull::Hull;
use crate::lookup;
use crate::machine::Machine;
use crate::meaning::{At, Follows, Meaning, RuleEnd, Unable};
use crate::program::{
    Program, before_tracking, changed_sets, input_number, is_look, set_address, written_fields,
};
use crate::progress::PROGRESS;
use crate::universe::Universe;
pub(crate) use frames::frames_name;
pub use looked::look_at;
use routed::Out;
use translation::Moved;
pub(crate) use translation::{Side, WITH_PORTS, flags, reversals};
pub(crate) use way_out::way_out;

/// Packets of which the same rule has decided.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The packets.
    pub region: Region,
    /// What becomes of them.
    pub end: End,
    /// The rule; `None` for a policy.
    pub rule: Option<RuleIndex>,
    /// The base chain; `None` where packets pass none.
    pub base: Option<ChainIndex>,
}

/// What becomes of all packets.
pub struct Evaluated {
    /// Apart from each other, and together all that were evaluated.
    pub decisions: Vec<Decision>,
    /// Values of fields at the end, where rules write them.
    pub written: HashMap<Field, Vec<Bit>>,
    /// What is known on the way through a network; nothing at a hook.
    pub(crate) way: Passed,
}

/// What is known of packets on their way through a network.
#[derive(Clone, Default)]
pub(crate) struct Passed {
    /// Where packets are led that routing has a way for: the host, or a device.
    pub routed: Vec<(End, Region)>,
    /// Packets that leave, part by part.
    pub left: Vec<Left>,
}

/// Packets that leave with the same values.
#[derive(Clone)]
pub(crate) struct Left {
    /// The packets.
    pub region: Region,
    /// The index of the device.
    pub device: u32,
    /// Values of fields, where they are not those that packets came with.
    pub values: HashMap<Field, Vec<Bit>>,
}

impl Passed {
    /// Packets of a region that routing leads to an end.
    pub fn led_to(&self, d: &Diagrams, region: &Region, to: End) -> Decided<Region> {
        let there = self.routed.iter().filter(|(end, _)| *end == to);
        let there: Vec<Region> = there.map(|(_, region)| region.clone()).collect();
        d.and(region, &d.union(&there)?)
    }
}

/// What was noted on the way.
#[derive(Default)]
pub struct Notes {
    /// Packets that each rule matches: those for which it comes to its end, or decides.
    pub met: HashMap<RuleIndex, Vec<Region>>,
    /// Packets that each chain was entered with.
    pub entered: HashMap<ChainIndex, Vec<Region>>,
    /// Packets that a rule took out of its chain, in the order of the walk.
    pub taken: Vec<(RuleIndex, Region)>,
    /// Packets that come to the end of each base chain, in the order of the chains.
    pub rest: Vec<(ChainIndex, Region)>,
    /// Elements of the rule that was looked at closer, in the order of its sets: packets with the key
    /// of the element, and those of them that come to it.
    pub elements: Vec<(Region, Region)>,
}

/// What is noted, and of which rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Noting {
    /// The elements of the sets of this rule.
    pub closer: Option<RuleIndex>,
    /// Of these, those of verdict maps only.
    pub maps_only: bool,
    /// All is as if this rule were not there.
    pub without: Option<RuleIndex>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A limit was reached.
    Undecided {
        /// Which.
        limit: Undecided,
        /// Rules that were evaluated until then, of all.
        done: (usize, usize),
    },
    /// A rule has no symbolic meaning yet.
    NoMeaning {
        /// The rule.
        rule: RuleIndex,
        /// Why not.
        reason: &'static str,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Undecided { limit, done: (done, all) } => {
                write!(f, "undecided after {done} of {all} rules: {limit}")
            }
            Failure::NoMeaning { reason, .. } => write!(f, "it cannot be evaluated: {reason}"),
        }
    }
}

impl std::error::Error for Failure {}

/// Evaluates base chains over the packets of a region.
///
/// # Errors
/// A limit, or a rule that has no symbolic meaning.
pub fn evaluate(
    universe: &mut Universe,
    program: &Program<'_>,
    enter: &Region,
) -> Result<Evaluated, Failure> {
    let mut walk = Walk::new(universe, program);
    match &program.way {
        None => walk.hook(&program.bases, enter)?,
        Some(way) => {
            let place = walk.universe.place;
            let walked = walk.journey(way, enter);
            walk.universe.place = place;
            walked?;
        }
    }
    Ok(Evaluated { decisions: walk.decisions, written: walk.machine.writes, way: walk.passed })
}

/// Packets for which rules may do something, whatever others have written: all others pass a rule
/// as if it were not there.
pub struct Matches {
    /// By the number of the rule; `None` for rules that were not asked for.
    of: Vec<Option<(Region, Hull)>>,
}

impl Matches {
    /// Those of a rule.
    pub fn of(&self, rule: RuleIndex) -> Option<&Region> {
        self.of.get(rule.0 as usize)?.as_ref().map(|(region, _)| region)
    }
}

/// Evaluates base chains over the packets of a region: what becomes of them, and which packets meet
/// what.
///
/// # Errors
/// A limit, or a rule that has no symbolic meaning.
pub fn evaluate_noting(
    universe: &mut Universe,
    program: &Program<'_>,
    matches: &Matches,
    enter: &Region,
    noting: Noting,
) -> Result<(Evaluated, Notes), Failure> {
    let mut walk = Walk::new(universe, program);
    walk.notes = Some(Notes::default());
    walk.noting = noting;
    walk.matches = Some((matches, Hull::of(&walk.universe.diagrams, enter)));
    walk.hook(&program.bases, enter)?;
    let Walk { decisions, machine, notes, passed, .. } = walk;
    let evaluated = Evaluated { decisions, written: machine.writes, way: passed };
    Ok((evaluated, notes.unwrap_or_default()))
}

/// Variables of fields that rules change: rules see what rules before them have written, and a set
/// that the packet itself has changed has other elements afterwards.
pub(crate) fn changed_variables(universe: &Universe, program: &Program<'_>) -> Vec<u32> {
    let sets = changed_sets(program);
    let is_changed = |field: &&Field| {
        matches!(field, Field::Input(Input { what: What::Member, rule, .. })
            if sets.contains(rule))
    };
    let members = universe.fields().iter().filter(is_changed).copied();
    let fields = written_fields(program).into_iter().chain(members);
    fields.flat_map(|field| universe.variables(field).to_vec()).collect()
}

/// Finds what rules may match.
///
/// # Errors
/// A limit, or a rule that has no symbolic meaning.
pub fn may_match(
    universe: &mut Universe,
    program: &Program<'_>,
    rules: &[RuleIndex],
) -> Result<Matches, Failure> {
    let hook = universe.place.hook;
    let mut sides: Vec<bool> =
        program.bases.iter().map(|base| before_tracking(hook, base.priority)).collect();
    sides.sort_unstable();
    sides.dedup();
    let mut all = Vec::with_capacity(rules.len());
    for rule in rules {
        let mut regions = Vec::new();
        for early in &sides {
            regions.push(matching(universe, program, *rule, *early)?);
        }
        all.push((*rule, regions));
    }
    let changed = changed_variables(universe, program);
    let d = &universe.diagrams;
    let limit = |limit| Failure::Undecided { limit, done: (0, program.image.rules.len()) };
    let mut of = vec![None; program.image.rules.len()];
    for (rule, regions) in all {
        let mut region = d.union(&regions).map_err(limit)?;
        if !changed.is_empty() {
            region = d.whatever(&region, changed.iter().copied()).map_err(limit)?;
        }
        let hull = Hull::of(d, &region);
        if let Some(to) = of.get_mut(rule.0 as usize) {
            *to = Some((region, hull));
        }
    }
    Ok(Matches { of })
}

/// Packets for which a rule may do something, whatever rules before it have written: those that
/// reach its first operation that is more than a look.
///
/// # Errors
/// A limit, or that the rule has no symbolic meaning.
pub fn matching(
    universe: &mut Universe,
    program: &Program<'_>,
    rule: RuleIndex,
    before_tracking: bool,
) -> Result<Region, Failure> {
    matching_with(universe, program, rule, before_tracking, HashMap::new())
}

/// Packets for which a rule may do something that have these values, where they are not those that
/// they came with.
///
/// # Errors
/// A limit, or that the rule has no symbolic meaning.
pub(crate) fn matching_with(
    universe: &mut Universe,
    program: &Program<'_>,
    rule: RuleIndex,
    before_tracking: bool,
    values: HashMap<Field, Vec<Bit>>,
) -> Result<Region, Failure> {
    let mut walk = Walk::new(universe, program);
    walk.before_tracking = before_tracking;
    walk.machine.writes = values;
    walk.matching(rule).map(|(region, _)| region)
}

/// That packets were followed, or why they could not be.
type Walked = Result<(), Failure>;

struct Walk<'a, 'p> {
    universe: &'a mut Universe,
    program: &'a Program<'p>,
    machine: Machine,
    decisions: Vec<Decision>,
    base: Option<ChainIndex>,
    before_tracking: bool,
    notes: Option<Notes>,
    noting: Noting,
    /// What rules may match, if that is known; and what all packets have in common.
    matches: Option<(&'a Matches, Hull)>,
    /// Rules that were evaluated, and all.
    done: (usize, usize),
    /// What is to be translated at this hook, and is not yet.
    untranslated: Option<Side>,
    /// Packets that are to be routed again, where that can be.
    turned: Option<Region>,
    /// Addresses that packets were given at this hook.
    moved: Vec<Moved>,
    /// What was done to packets, and to which; the last one counts.
    told: Vec<(Region, HashMap<Field, Vec<Bit>>)>,
    /// Ways out of packets that are on their way out.
    ways: Vec<Out>,
    /// What rules ask of link headers, on a way.
    asked_link: link::Asked,
    /// Bridges track connections, on a way.
    bridges_track: bool,
    passed: Passed,
}

impl<'a, 'p> Walk<'a, 'p> {
    fn new(universe: &'a mut Universe, program: &'a Program<'p>) -> Self {
        let all = program.image.rules.len();
        Walk {
            universe,
            program,
            machine: Machine::new(),
            decisions: Vec::new(),
            base: None,
            before_tracking: false,
            notes: None,
            noting: Noting::default(),
            matches: None,
            done: (0, all),
            untranslated: None,
            turned: None,
            moved: Vec::new(),
            told: Vec::new(),
            ways: Vec::new(),
            asked_link: link::Asked::default(),
            bridges_track: false,
            passed: Passed::default(),
        }
    }

    fn limit<T>(&self, answer: Decided<T>) -> Result<T, Failure> {
        answer.map_err(|limit| Failure::Undecided { limit, done: self.done })
    }

    /// All base chains of a hook; packets that pass one go on with the next.
    fn hook(&mut self, bases: &[Base], enter: &Region) -> Result<(), Failure> {
        let mut reach = enter.clone();
        for (i, base) in bases.iter().enumerate() {
            let hook = self.universe.place.hook;
            self.base = Some(base.chain);
            // What the host sends on a bridge was tracked before.
            let sent = self.program.way.is_some() && base.family == Family::Bridge;
            self.before_tracking =
                before_tracking(hook, base.priority) && !(sent && hook == Hook::Output);
            if base.kind != ChainType::Nat
                && let Some(side) = self.untranslated.take_if(|side| side.is_before(base))
            {
                reach = self.translate(side, &reach)?;
            }
            let mut wanted = reach.clone();
            if base.family != self.universe.place.family && base.family.is_ip() {
                let bits = self.universe.bits(Field::Meta(MetaKey::NfProto));
                let bits = self.limit(bits)?;
                let d = &self.universe.diagrams;
                let own = bits::equal(d, &bits, &[base.family as u8], &[0xff]);
                let own = self.limit(own)?;
                wanted = self.limit(self.universe.diagrams.and(&wanted, &own))?;
            }
            if self.universe.place.hook == Hook::Ingress && base.family.is_ip() {
                // Frames that are no IP packets yet pass chains of inet (`nft_do_chain_inet()`).
                for of in self.machine.hidden.iter().filter(|of| of.base == HeaderBase::Network) {
                    wanted = self.limit(self.universe.diagrams.minus(&wanted, &of.region))?;
                }
            }
            if base.kind == ChainType::Nat {
                // The first packets of connections that no rule has translated yet.
                let first = self.universe.holds(Field::Untranslated);
                let first = self.limit(first)?;
                let done = self.machine.field(self.universe, Field::Done(Done::Nat));
                let mut done = self.limit(done)?;
                // Packets that are not tracked have no connection (`nf_nat_inet_fn()`).
                let untracked = self.machine.field(self.universe, Field::Done(Done::Notrack));
                done.extend(self.limit(untracked)?);
                wanted = self.limit(self.universe.diagrams.and(&wanted, &first))?;
                for bit in done {
                    let bit = bit.region(&self.universe.diagrams);
                    wanted = self.limit(self.universe.diagrams.minus(&wanted, &bit))?;
                }
            }
            let around = self.limit(self.universe.diagrams.minus(&reach, &wanted))?;
            reach = wanted;
            let first = self.decisions.len();
            let before = match (base.kind, &self.turned) {
                (ChainType::Route, Some(_)) => {
                    let key = self.route_key();
                    Some(self.limit(key)?)
                }
                _ => None,
            };
            let family = Field::Meta(MetaKey::NfProto);
            let of_frames = self.program.way.is_some() && !base.family.is_ip();
            if of_frames {
                let own = bits::constant(&[base.family as u8]);
                self.machine.writes.insert(family, own);
            }
            let rest = self.chain(base.chain, reach.clone(), 0)?;
            if of_frames {
                self.machine.writes.remove(&family);
            }
            if let Some(before) = before
                && let Some(turned) = self.turned.take()
            {
                let more = self.turned_since(&before, &reach);
                let more = self.limit(more)?;
                self.turned = Some(self.limit(self.universe.diagrams.or(&turned, &more))?);
            }
            if let Some(notes) = &mut self.notes {
                notes.rest.push((base.chain, rest.clone()));
            }
            let policy = self.program.image.chain(base.chain).and_then(|c| c.policy_accept);
            let end = if policy == Some(false) { End::Drop } else { End::Accept };
            self.decide(rest, end, None);
            if i + 1 == bases.len() {
                // Where there is one chain, these packets pass none.
                self.base = self.base.filter(|_| bases.len() > 1);
                self.decide(around, End::Accept, None);
                break;
            }
            // What is accepted goes on; what is not is decided.
            let mut on = vec![around];
            let new = self.decisions.split_off(first);
            for decision in new {
                match decision.end {
                    End::Accept => on.push(decision.region),
                    _ => self.decisions.push(decision),
                }
            }
            reach = self.limit(self.universe.diagrams.union(&on))?;
        }
        if bases.is_empty() {
            self.decide(reach, End::Accept, None);
        }
        Ok(())
    }

    fn decide(&mut self, region: Region, end: End, rule: Option<RuleIndex>) {
        if !region.is_none() {
            let base = self.base;
            self.decisions.push(Decision { region, end, rule, base });
        }
    }

    /// Packets that come to the end of a chain.
    fn chain(&mut self, chain: ChainIndex, enter: Region, depth: usize) -> Result<Region, Failure> {
        let image = self.program.image;
        let Some(linked) = image.chain(chain) else { return Ok(enter) };
        if let Some(notes) = &mut self.notes {
            notes.entered.entry(chain).or_default().push(enter.clone());
        }
        let mut reach = enter;
        let mut ended = vec![];
        for rule in (linked.first..linked.end).map(RuleIndex) {
            if reach.is_none() {
                break;
            }
            if self.noting.without == Some(rule) || self.passes(rule, &reach)? {
                continue;
            }
            self.limit(self.universe.diagrams.check_time())?;
            let before = reach.clone();
            // What comes to a rule is a large region, and what it matches a small one: they meet
            // once, and not with each of its operations.
            let (met, looks) = match self.matching(rule) {
                Ok((matched, looks)) => {
                    (self.limit(self.universe.diagrams.and(&reach, &matched))?, looks)
                }
                Err(Failure::NoMeaning { .. }) => (reach.clone(), 0),
                Err(failure) => return Err(failure),
            };
            let Follows { ends, next } = match met.is_none() {
                true => Follows::default(),
                // Elements of sets are looked at with what comes to each operation.
                false if self.noting.closer == Some(rule) => self.rule(rule, 0, met)?,
                false => self.rule(rule, looks, met)?,
            };
            if let Some(notes) = &mut self.notes {
                let is_break =
                    |end: &RuleEnd| matches!(end, RuleEnd::Verdict(LinkedVerdict::Break));
                let decided = ends.iter().filter(|(_, end)| !is_break(end));
                let met = decided.map(|(region, _)| region.clone()).chain(next);
                notes.met.entry(rule).or_default().extend(met.filter(|region| !region.is_none()));
            }
            for (region, end) in ends {
                if region.is_none() {
                    continue;
                }
                if !matches!(end, RuleEnd::Verdict(LinkedVerdict::Continue | LinkedVerdict::Break))
                {
                    reach = self.limit(self.universe.diagrams.minus(&reach, &region))?;
                }
                match end {
                    RuleEnd::Verdict(verdict) => match verdict {
                        LinkedVerdict::Accept => self.decide(region, End::Accept, Some(rule)),
                        LinkedVerdict::Drop => self.decide(region, End::Drop, Some(rule)),
                        LinkedVerdict::Queue { num, bypass } => {
                            let done = Done::Queue;
                            let noted = self.machine.done(self.universe, &region, done, num.into());
                            self.limit(noted)?;
                            self.decide(region, End::Queue { total: 1, bypass }, Some(rule));
                        }
                        LinkedVerdict::Continue | LinkedVerdict::Break => {}
                        LinkedVerdict::Return => ended.push(region),
                        LinkedVerdict::Jump(_) if depth >= JUMP_STACK => {
                            self.decide(region, End::Drop, Some(rule));
                        }
                        LinkedVerdict::Jump(target) => {
                            let back = self.chain(target, region, depth + 1)?;
                            reach = self.limit(self.universe.diagrams.or(&reach, &back))?;
                        }
                        LinkedVerdict::Goto(target) => {
                            ended.push(self.chain(target, region, depth)?);
                        }
                    },
                    RuleEnd::Reject(kind, code) => {
                        self.decide(region, End::Reject(kind, code), Some(rule));
                    }
                    RuleEnd::Stolen => self.decide(region, End::Stolen, Some(rule)),
                    RuleEnd::Queue { total, bypass } => {
                        self.decide(region, End::Queue { total, bypass }, Some(rule));
                    }
                }
            }
            if let Some(notes) = &mut self.notes {
                let taken = self.universe.diagrams.minus(&before, &reach);
                let taken = taken.map_err(|limit| Failure::Undecided { limit, done: self.done })?;
                if !taken.is_none() {
                    notes.taken.push((rule, taken));
                }
            }
            self.done.0 += 1;
            // Others that note evaluate rules one by one, and tell of that.
            if self.notes.is_none() {
                PROGRESS.note(self.done.0, self.done.1);
            }
        }
        ended.push(reach);
        self.limit(self.universe.diagrams.union(&ended))
    }

    /// Whether packets are known to pass a rule as if it were not there.
    fn passes(&self, rule: RuleIndex, reach: &Region) -> Result<bool, Failure> {
        let Some((matches, common)) = &self.matches else { return Ok(false) };
        let Some(Some((region, hull))) = matches.of.get(rule.0 as usize) else { return Ok(false) };
        Ok(common.excludes(hull) || !self.limit(self.universe.diagrams.meet(reach, region))?)
    }

    /// Runs a rule from an operation on: which packets end it, and how; and which come to its end.
    fn rule(&mut self, rule: RuleIndex, first: usize, reach: Region) -> Result<Follows, Failure> {
        let mut ends = Vec::new();
        let mut live = reach;
        let mut elements = 0;
        for (number, op) in self.program.image.ops_at(rule).iter().enumerate().skip(first) {
            if live.is_none() {
                break;
            }
            if self.noting.closer == Some(rule) {
                elements += self.elements(op, &live, elements)?;
            }
            let follows = self.operation(rule, number, op, live)?;
            ends.extend(follows.ends);
            match follows.next {
                Some(next) => live = next,
                None => return Ok(Follows { next: None, ends }),
            }
        }
        Ok(Follows { next: Some(live), ends })
    }

    /// Notes the elements of a set or map; how many it has. The first one has a number.
    fn elements(&mut self, op: &Op, live: &Region, first: usize) -> Result<usize, Failure> {
        // Where elements do not match, those of packets that the rule is about are not looked at.
        let Op::Lookup { src, key_len, inverse: false, load, set } = op else { return Ok(0) };
        if self.noting.maps_only && *load != Load::Verdict {
            return Ok(0);
        }
        let key = self.machine.read(*src, *key_len);
        let d = &self.universe.diagrams;
        let all = self.limit(lookup::each(d, &key, set, self.program.now))?;
        let count = all.len();
        for (number, region) in (first..).zip(all) {
            let come = self.limit(d.and(&region, live))?;
            let Some(notes) = &mut self.notes else { break };
            match notes.elements.get_mut(number) {
                // A chain may be called more than once.
                Some((_, known)) => {
                    let both = d.or(known, &come);
                    *known = both.map_err(|limit| Failure::Undecided { limit, done: self.done })?;
                }
                None => notes.elements.push((region, come)),
            }
        }
        Ok(count)
    }

    fn operation(
        &mut self,
        rule: RuleIndex,
        number: usize,
        op: &Op,
        live: Region,
    ) -> Result<Follows, Failure> {
        let program = self.program;
        let image = program.image;
        let family = image
            .rule_name(rule)
            .and_then(|name| image.table_of(name.chain))
            .map_or(Family::Inet, |table| table.family);
        let at = At {
            rule: program.numbers.get(rule.0 as usize).copied().unwrap_or(rule.0),
            op: input_number(image.ops_at(rule), number),
            family,
            before_tracking: self.before_tracking,
            now: program.now,
        };
        let set_number = |set: &Arc<DynamicSet>| {
            program.sets.get(&set_address(set)).copied().unwrap_or(u32::MAX)
        };
        let mut meaning = Meaning {
            universe: self.universe,
            machine: &mut self.machine,
            at,
            set_number: &set_number,
            listed: program.listed,
        };
        meaning.of(op, live).map_err(|unable| match unable {
            Unable::Undecided(limit) => Failure::Undecided { limit, done: self.done },
            Unable::NoMeaning(reason) => Failure::NoMeaning { rule, reason },
        })
    }

    /// Packets for which a rule may do something, and how many operations say which. Registers are
    /// then as those operations leave them.
    fn matching(&mut self, rule: RuleIndex) -> Result<(Region, usize), Failure> {
        let mut live = self.universe.diagrams.all();
        let mut looks = 0;
        for (number, op) in self.program.image.ops_at(rule).iter().enumerate() {
            if !is_look(op) {
                break;
            }
            let follows = self.operation(rule, number, op, live.clone())?;
            match follows.next {
                // A map of verdicts does something for each packet that it knows.
                Some(_) if !follows.ends.is_empty() => break,
                Some(next) => live = next,
                None => break,
            }
            looks += 1;
        }
        Ok((live, looks))
    }
}
