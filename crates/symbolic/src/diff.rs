// SPDX-License-Identifier: Apache-2.0

//! For which packets a change of a ruleset matters, and how.
//!
//! Packets that none of the changed rules match are treated alike, so both rulesets are evaluated
//! over the others only.

use std::collections::HashMap;

use penstock_program::image::{ChainIndex, RuleIndex};

use crate::bits::{self, Bit};
use crate::boxes::{PacketBox, Teller};
use crate::diagram::{Decided, Limits, Region};
use crate::field::{Done, Field, Input, What};
use crate::identity::{self, Changes, Identities};
use crate::universe::{Place, Universe};
use crate::walk::{
    self, Decision, End, Evaluated, Failure, Program, before_tracking, evaluate, matching, ops_of,
    written_fields,
};

/// Boxes that a class is told by, at most.
const BOXES: usize = 12;
/// Classes of two decisions that differ in what is written, at most: the others are one.
const VALUES: usize = 6;

/// What becomes of the packets of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fate {
    /// Their end.
    pub end: End,
    /// What is written, of what differs.
    pub written: Vec<(Field, Written)>,
}

/// A value that a rule may have written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// What the packet came with.
    Unchanged,
    /// This one, as the bytes of the number.
    Value(Vec<u8>),
    /// Not the same for all packets of the class.
    Various,
}

/// A rule, or the policy of a base chain, that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decider {
    /// The rule; `None` for the policy.
    pub rule: Option<RuleIndex>,
    /// The base chain.
    pub base: ChainIndex,
}

/// Packets of which the same becomes before, and the same after.
pub struct Class {
    /// The packets.
    pub region: Region,
    /// Their part of all possible packets, 0 to 1.
    pub share: f64,
    /// What became of them.
    pub old: Fate,
    /// What becomes of them.
    pub new: Fate,
    /// What decided of them before and after, the pair with the most packets first.
    pub deciders: Vec<(Decider, Decider)>,
    /// The packets in terms of values.
    pub boxes: Vec<PacketBox>,
    /// There are more boxes.
    pub more_boxes: bool,
    /// What the classes depend on besides the packet.
    pub depends: Vec<Field>,
    /// A packet: the value of each variable.
    pub example: Vec<bool>,
}

/// What a change does.
pub struct Difference {
    /// The fields of the rules.
    pub universe: Universe,
    /// Classes of packets that are treated otherwise, the largest first.
    pub classes: Vec<Class>,
    /// Rules of the old and of the new ruleset that are not in the other.
    pub changed: (usize, usize),
}

/// Which of the rulesets could not be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The old one.
    Old,
    /// The new one.
    New,
}

/// For which packets it matters at a place whether they meet the old or the new ruleset.
///
/// # Errors
/// Why there is no answer, and which ruleset the rule is of.
pub fn diff(
    place: Place,
    old: &mut Program<'_>,
    new: &mut Program<'_>,
    limits: Limits,
) -> Result<Difference, (Side, Failure)> {
    let changes = identity::compare(old, new);
    let changed =
        changes.gaps.iter().fold((0, 0), |(a, b), gap| (a + gap.old.len(), b + gap.new.len()));
    let asked = walk::asked(place, old).into_iter().chain(walk::asked(place, new));
    let mut universe = Universe::new(place, limits, asked);
    let enter = affected(&mut universe, old, new, &changes)?;
    let before = evaluate(&mut universe, old, &enter).map_err(|failure| (Side::Old, failure))?;
    let after = evaluate(&mut universe, new, &enter).map_err(|failure| (Side::New, failure))?;
    let done = (old.image.rules.len(), old.image.rules.len());
    let classes = classes(&universe, &before, &after);
    let classes = classes.map_err(|limit| (Side::New, Failure::Undecided { limit, done }))?;
    Ok(Difference { universe, classes, changed })
}

/// Packets for which a changed rule may do something.
fn affected(
    universe: &mut Universe,
    old: &Program<'_>,
    new: &Program<'_>,
    changes: &Changes,
) -> Result<Region, (Side, Failure)> {
    if changes.everything {
        return Ok(universe.diagrams.all());
    }
    let reachable = [old, new].map(|program| -> std::collections::HashSet<RuleIndex> {
        walk::reachable(program).into_iter().collect()
    });
    let early = [old, new].map(|program| {
        let hook = universe.place.hook;
        let mut early = program.bases.iter().map(|base| before_tracking(hook, base.priority));
        let first = early.next().unwrap_or(false);
        // A chain that is called from both sides of connection tracking cannot be looked at alone.
        early.all(|other| other == first).then_some(first)
    });
    let [Some(old_early), Some(new_early)] = early else { return Ok(universe.diagrams.all()) };
    let mut regions = Vec::new();
    let mut identities = (Identities::new(old), Identities::new(new));
    for gap in &changes.gaps {
        let mut sides = [Vec::new(), Vec::new()];
        for (side, (program, rules)) in [(old, &gap.old), (new, &gap.new)].into_iter().enumerate() {
            let which = if side == 0 { Side::Old } else { Side::New };
            let early = if side == 0 { old_early } else { new_early };
            for rule in rules {
                if !reachable[side].contains(rule) {
                    sides[side].push(universe.diagrams.none());
                    continue;
                }
                let region = matching(universe, program, *rule, early);
                sides[side].push(region.map_err(|failure| (which, failure))?);
            }
        }
        let [of_old, of_new] = sides;
        if gap.old.len() == gap.new.len() {
            for (((a, b), of_a), of_b) in gap.old.iter().zip(&gap.new).zip(&of_old).zip(&of_new) {
                let region = match same_effect(old, *a, new, *b, &mut identities) {
                    true => universe.diagrams.xor(of_a, of_b),
                    false => universe.diagrams.or(of_a, of_b),
                };
                regions.push(region.map_err(|limit| undecided(limit, old))?);
            }
        } else {
            regions.extend(of_old);
            regions.extend(of_new);
        }
    }
    let union = universe.diagrams.union(&regions).map_err(|limit| undecided(limit, old))?;
    // Rules see what rules before them have written.
    let mut written = Vec::new();
    for program in [old, new] {
        for field in written_fields(program) {
            written.extend_from_slice(universe.variables(field));
        }
        // A set that the packet itself has changed has other elements afterwards.
        let changed = walk::changed_sets(program);
        for field in universe.fields() {
            if let Field::Input(Input { what: What::Member, rule, .. }) = field
                && changed.contains(rule)
            {
                written.extend_from_slice(universe.variables(*field));
            }
        }
    }
    match written.is_empty() {
        true => Ok(union),
        false => universe
            .diagrams
            .whatever(&union, written.into_iter())
            .map_err(|limit| undecided(limit, old)),
    }
}

fn undecided(limit: crate::diagram::Undecided, program: &Program<'_>) -> (Side, Failure) {
    (Side::Old, Failure::Undecided { limit, done: (0, program.image.rules.len()) })
}

/// Whether two rules do the same with the packets that they match.
fn same_effect(
    old: &Program<'_>,
    a: RuleIndex,
    new: &Program<'_>,
    b: RuleIndex,
    identities: &mut (Identities<'_>, Identities<'_>),
) -> bool {
    let looks = |program: &Program<'_>, rule| {
        let ops = ops_of(program.image, rule);
        let looks = ops.iter().take_while(|op| walk::is_look(op)).count();
        let mut own = 0;
        // What follows must not depend on what the first operations have loaded.
        let alone = ops[looks..].iter().all(|op| {
            let info = op.info();
            let alone = info.reads & !own == 0;
            own |= info.writes;
            alone
        });
        alone.then_some(looks)
    };
    let (Some(of_a), Some(of_b)) = (looks(old, a), looks(new, b)) else { return false };
    // Inputs are those of each rule.
    let is_plain = |program: &Program<'_>, rule, looks: usize| {
        let ops = &ops_of(program.image, rule)[looks..];
        ops.iter().all(|op| matches!(op, penstock_program::op::Op::Verdict(_)))
    };
    is_plain(old, a, of_a)
        && is_plain(new, b, of_b)
        && identities.0.tail(a, of_a) == identities.1.tail(b, of_b)
}

/// Whether what was written matters for packets that end so.
fn matters(field: Field, end: End) -> bool {
    let passes = !matches!(end, End::Drop | End::Reject(..));
    match field {
        Field::Meta(penstock_program::expr::MetaKey::NfTrace) | Field::CtState => false,
        Field::Ct(..) => true,
        Field::Done(done) => match done {
            Done::Element(_)
            | Done::Object
            | Done::Sent
            | Done::SentDevice
            | Done::SentAddress
            | Done::Flowtable => true,
            Done::Queue => matches!(end, End::Queue { .. }),
            _ => passes,
        },
        _ => passes,
    }
}

/// The value of a field as packets come with it.
fn initial(universe: &Universe, field: Field) -> Decided<Vec<Bit>> {
    let known = universe.variables(field);
    if known.is_empty() {
        return Ok(vec![Bit::ZERO; field.width() as usize]);
    }
    known.iter().map(|n| Ok(Bit::Of(universe.diagrams.variable(*n, true)?))).collect()
}

/// The value of a field at the end.
fn bits_of(
    universe: &Universe,
    written: &HashMap<Field, Vec<Bit>>,
    field: Field,
) -> Decided<Vec<Bit>> {
    written.get(&field).map_or_else(|| initial(universe, field), |bits| Ok(bits.clone()))
}

/// The value of bits for a packet.
pub(crate) fn value_at(bits: &[Bit], point: &[bool]) -> Vec<u8> {
    let mut bytes = vec![0; bits.len().div_ceil(8)];
    let pad = bytes.len() * 8 - bits.len();
    for (i, bit) in bits.iter().enumerate() {
        let one = match bit {
            Bit::Known(value) => *value,
            Bit::Of(region) => region.contains(point),
        };
        if one {
            bytes[(pad + i) / 8] |= 0x80 >> ((pad + i) % 8);
        }
    }
    bytes
}

struct Found {
    region: Region,
    old: Fate,
    new: Fate,
    deciders: Vec<(f64, Decider, Decider)>,
}

fn classes(universe: &Universe, old: &Evaluated, new: &Evaluated) -> Decided<Vec<Class>> {
    let d = &universe.diagrams;
    let possible = universe.possible()?;
    let mut fields: Vec<Field> = old.written.keys().chain(new.written.keys()).copied().collect();
    fields.sort_by_key(|field| (field.rank(), format!("{field:?}")));
    fields.dedup();
    let mut written = Vec::new();
    for field in fields {
        let (a, b) =
            (bits_of(universe, &old.written, field)?, bits_of(universe, &new.written, field)?);
        if a != b {
            let differ = d.not(&bits::same(d, &a, &b)?)?;
            written.push((field, a, b, differ));
        }
    }
    // What is dropped alike differs in nothing; most packets end alike, so the ends come first.
    let mut found: Vec<Found> = Vec::new();
    let ends = |all: &[Decision]| -> Decided<Vec<(End, Region)>> {
        let mut ends: Vec<(End, Vec<Region>)> = Vec::new();
        for decision in all {
            match ends.iter_mut().find(|(end, _)| *end == decision.end) {
                Some((_, regions)) => regions.push(decision.region.clone()),
                None => ends.push((decision.end, vec![decision.region.clone()])),
            }
        }
        ends.into_iter().map(|(end, regions)| Ok((end, d.union(&regions)?))).collect()
    };
    let (old_ends, new_ends) = (ends(&old.decisions)?, ends(&new.decisions)?);
    for (old_end, a) in &old_ends {
        for (new_end, b) in &new_ends {
            let both = d.and(&d.and(a, b)?, &possible)?;
            let mut differ = both.clone();
            let of_both: Vec<_> = written
                .iter()
                .filter(|(field, ..)| matters(*field, *old_end) || matters(*field, *new_end))
                .collect();
            if old_end == new_end {
                let all: Vec<Region> = of_both.iter().map(|(_, _, _, r)| r.clone()).collect();
                differ = d.and(&both, &d.union(&all)?)?;
            }
            let mut rest = differ;
            let mut parts = Vec::new();
            while let Some(point) = d.packet_of(&rest) {
                d.check_time()?;
                let mut region = rest.clone();
                let (mut of_old, mut of_new) = (Vec::new(), Vec::new());
                for (field, a, b, differ) in &of_both {
                    if !d.meet(&rest, differ)? {
                        continue;
                    }
                    let mut values = [Written::Various, Written::Various];
                    if parts.len() < VALUES {
                        let came = initial(universe, *field)?;
                        for (bits, written) in [a, b].into_iter().zip(&mut values) {
                            let value = value_at(bits, &point);
                            let is_output = Universe::is_done(*field);
                            let same = match value == value_at(&came, &point) && !is_output {
                                true => {
                                    *written = Written::Unchanged;
                                    bits::same(d, bits, &came)?
                                }
                                false => {
                                    let pad = value.len() * 8 - bits.len();
                                    let mut padded = vec![Bit::ZERO; pad];
                                    padded.extend_from_slice(bits);
                                    let same = bits::equal(d, &padded, &value, &[0xff; 64])?;
                                    *written = Written::Value(value);
                                    same
                                }
                            };
                            region = d.and(&region, &same)?;
                        }
                    }
                    let [a, b] = values;
                    of_old.push((*field, a));
                    of_new.push((*field, b));
                }
                rest = d.minus(&rest, &region)?;
                parts.push((region, of_old, of_new));
            }
            for (region, of_old, of_new) in parts {
                found.push(Found {
                    region,
                    old: Fate { end: *old_end, written: of_old },
                    new: Fate { end: *new_end, written: of_new },
                    deciders: Vec::new(),
                });
            }
        }
    }
    for class in &mut found {
        for a in old.decisions.iter().filter(|a| a.end == class.old.end) {
            let of_a = d.and(&class.region, &a.region)?;
            if of_a.is_none() {
                continue;
            }
            for b in new.decisions.iter().filter(|b| b.end == class.new.end) {
                let both = d.and(&of_a, &b.region)?;
                if both.is_none() {
                    continue;
                }
                let pair = (
                    Decider { rule: a.rule, base: a.base },
                    Decider { rule: b.rule, base: b.base },
                );
                let share = d.share(&both);
                match class.deciders.iter_mut().find(|(_, a, b)| (*a, *b) == pair) {
                    Some((sum, ..)) => *sum += share,
                    None => class.deciders.push((share, pair.0, pair.1)),
                }
            }
        }
        class.deciders.sort_by(|a, b| b.0.total_cmp(&a.0));
    }
    let whole = d.share(&possible);
    let mut teller = Teller::new(universe, &possible);
    let mut classes = Vec::new();
    for Found { region, old, new, deciders } in found {
        let (boxes, more_boxes) = teller.cover(&region, BOXES)?;
        let depends = universe
            .fields()
            .iter()
            .filter(|field| {
                matches!(field, Field::Input(_) | Field::Answers(_) | Field::Answer { .. })
            })
            .copied()
            .collect::<Vec<_>>();
        let support = if depends.is_empty() { Vec::new() } else { d.support(&region) };
        let depends = depends
            .into_iter()
            .filter(|field| universe.variables(*field).iter().any(|n| support.contains(n)))
            .collect();
        let preferred = crate::example::preferred(universe, &d.and(&region, &possible)?)?;
        let Some(example) = d.packet_of(&preferred) else { continue };
        classes.push(Class {
            share: d.share(&region) / whole,
            region,
            old,
            new,
            deciders: deciders.into_iter().map(|(_, a, b)| (a, b)).collect(),
            boxes,
            more_boxes,
            depends,
            example,
        });
    }
    classes.sort_by(|a, b| b.share.total_cmp(&a.share));
    Ok(classes)
}
