// SPDX-License-Identifier: Apache-2.0

//! Classes of packets that two rulesets treat otherwise: alike before, and alike after.

use std::collections::HashMap;

use penstock_program::expr::MetaKey;

use crate::bits::{self, Bit, value_at};
use crate::boxes::{PacketBox, Teller};
use crate::diagram::{Decided, Diagrams, Region};
use crate::fate::{Decider, End, Fate, Written};
use crate::field::{Done, Field};
use crate::preferred::preferred;
use crate::universe::Universe;
use crate::walk::{Decision, Evaluated};

/// Boxes that a class is told by, at most.
const BOXES: usize = 12;
/// Classes of two decisions that differ in what is written, at most: the others are one.
const VALUES: usize = 6;

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

/// Whether what was written matters for packets that end so.
fn matters(field: Field, end: End) -> bool {
    let passes = !matches!(end, End::Drop | End::Reject(..));
    match field {
        Field::Meta(MetaKey::NfTrace) | Field::CtState => false,
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

/// A field whose value at the end is not the same after the change.
struct Change {
    field: Field,
    old: Vec<Bit>,
    new: Vec<Bit>,
    /// Packets for which it differs.
    differ: Region,
}

/// Fields that the rulesets write otherwise.
fn changes(universe: &Universe, old: &Evaluated, new: &Evaluated) -> Decided<Vec<Change>> {
    let d = &universe.diagrams;
    let mut fields: Vec<Field> = old.written.keys().chain(new.written.keys()).copied().collect();
    fields.sort_by_key(|field| (field.rank(), format!("{field:?}")));
    fields.dedup();
    let mut changes = Vec::new();
    for field in fields {
        let old = bits_of(universe, &old.written, field)?;
        let new = bits_of(universe, &new.written, field)?;
        if old != new {
            let differ = d.not(&bits::same(d, &old, &new)?)?;
            changes.push(Change { field, old, new, differ });
        }
    }
    Ok(changes)
}

/// Packets by their end.
fn by_end(d: &Diagrams, decisions: &[Decision]) -> Decided<Vec<(End, Region)>> {
    let mut ends: Vec<(End, Vec<Region>)> = Vec::new();
    for decision in decisions {
        match ends.iter_mut().find(|(end, _)| *end == decision.end) {
            Some((_, regions)) => regions.push(decision.region.clone()),
            None => ends.push((decision.end, vec![decision.region.clone()])),
        }
    }
    ends.into_iter().map(|(end, regions)| Ok((end, d.union(&regions)?))).collect()
}

/// Packets to which the same is done, before and after.
struct Part {
    region: Region,
    old: Fate,
    new: Fate,
}

/// Splits packets of two ends by the values that are written; beyond [`VALUES`] parts the rest is
/// one.
fn by_value(
    universe: &Universe,
    differ: Region,
    changes: &[&Change],
    (old_end, new_end): (End, End),
) -> Decided<Vec<Part>> {
    let d = &universe.diagrams;
    let mut rest = differ;
    let mut parts = Vec::new();
    while let Some(point) = d.packet_of(&rest) {
        d.check_time()?;
        let mut region = rest.clone();
        let mut old = Fate { end: old_end, written: Vec::new() };
        let mut new = Fate { end: new_end, written: Vec::new() };
        for change in changes {
            if !d.meet(&rest, &change.differ)? {
                continue;
            }
            for (bits, fate) in [(&change.old, &mut old), (&change.new, &mut new)] {
                let mut written = Written::Various;
                if parts.len() < VALUES {
                    let same;
                    (written, same) = value_like(universe, change.field, bits, &point)?;
                    region = d.and(&region, &same)?;
                }
                fate.written.push((change.field, written));
            }
        }
        rest = d.minus(&rest, &region)?;
        parts.push(Part { region, old, new });
    }
    Ok(parts)
}

/// What is written of a field for one packet, and for which packets the same is.
fn value_like(
    universe: &Universe,
    field: Field,
    bits: &[Bit],
    point: &[bool],
) -> Decided<(Written, Region)> {
    let d = &universe.diagrams;
    let came = initial(universe, field)?;
    let value = value_at(bits, point);
    if value == value_at(&came, point) && !Universe::is_done(field) {
        return Ok((Written::Unchanged, bits::same(d, bits, &came)?));
    }
    let mut padded = vec![Bit::ZERO; value.len() * 8 - bits.len()];
    padded.extend_from_slice(bits);
    let same = bits::equal(d, &padded, &value, &[0xff; 64])?;
    Ok((Written::Value(value), same))
}

/// What decides of packets before and after, the pair with the most packets first.
fn deciders(
    d: &Diagrams,
    part: &Part,
    old: &Evaluated,
    new: &Evaluated,
) -> Decided<Vec<(Decider, Decider)>> {
    let mut pairs: Vec<(f64, (Decider, Decider))> = Vec::new();
    for a in old.decisions.iter().filter(|a| a.end == part.old.end) {
        let of_a = d.and(&part.region, &a.region)?;
        if of_a.is_none() {
            continue;
        }
        for b in new.decisions.iter().filter(|b| b.end == part.new.end) {
            let both = d.and(&of_a, &b.region)?;
            if both.is_none() {
                continue;
            }
            let pair =
                (Decider { rule: a.rule, base: a.base }, Decider { rule: b.rule, base: b.base });
            let share = d.share(&both);
            match pairs.iter_mut().find(|(_, known)| *known == pair) {
                Some((sum, _)) => *sum += share,
                None => pairs.push((share, pair)),
            }
        }
    }
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    Ok(pairs.into_iter().map(|(_, pair)| pair).collect())
}

/// What packets depend on besides themselves.
fn depends(universe: &Universe, region: &Region) -> Vec<Field> {
    let is_outside =
        |field: &Field| matches!(field, Field::Input(_) | Field::Answers(_) | Field::Answer { .. });
    let outside: Vec<Field> = universe.fields().iter().filter(|f| is_outside(f)).copied().collect();
    if outside.is_empty() {
        return outside;
    }
    let support = universe.diagrams.support(region);
    let is_asked = |field: &Field| universe.variables(*field).iter().any(|n| support.contains(n));
    outside.into_iter().filter(is_asked).collect()
}

/// All classes, the largest first.
pub(crate) fn classes(
    universe: &Universe,
    old: &Evaluated,
    new: &Evaluated,
) -> Decided<Vec<Class>> {
    let d = &universe.diagrams;
    let possible = universe.possible()?;
    let changes = changes(universe, old, new)?;
    // What is dropped alike differs in nothing; most packets end alike, so the ends come first.
    let mut parts = Vec::new();
    let (old_ends, new_ends) = (by_end(d, &old.decisions)?, by_end(d, &new.decisions)?);
    for (old_end, a) in &old_ends {
        for (new_end, b) in &new_ends {
            let mut differ = d.and(&d.and(a, b)?, &possible)?;
            let of_both: Vec<&Change> = changes
                .iter()
                .filter(|c| matters(c.field, *old_end) || matters(c.field, *new_end))
                .collect();
            if old_end == new_end {
                let all: Vec<Region> = of_both.iter().map(|c| c.differ.clone()).collect();
                differ = d.and(&differ, &d.union(&all)?)?;
            }
            parts.extend(by_value(universe, differ, &of_both, (*old_end, *new_end))?);
        }
    }
    let decided: Decided<Vec<_>> = parts.iter().map(|part| deciders(d, part, old, new)).collect();
    let whole = d.share(&possible);
    let mut teller = Teller::new(universe, &possible);
    let mut classes = Vec::new();
    for (Part { region, old, new }, deciders) in parts.into_iter().zip(decided?) {
        let (boxes, more_boxes) = teller.cover(&region, BOXES)?;
        let readable = preferred(universe, &d.and(&region, &possible)?)?;
        let Some(example) = d.packet_of(&readable) else { continue };
        classes.push(Class {
            share: d.share(&region) / whole,
            depends: depends(universe, &region),
            region,
            old,
            new,
            deciders,
            boxes,
            more_boxes,
            example,
        });
    }
    classes.sort_by(|a, b| b.share.total_cmp(&a.share));
    Ok(classes)
}
