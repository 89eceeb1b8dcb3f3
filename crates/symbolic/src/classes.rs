// SPDX-License-Identifier: Apache-2.0

//! Classes of packets of which the same becomes: in one ruleset, or in each of two.

use std::collections::{HashMap, HashSet};

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

/// Packets of which the same becomes, in each ruleset that was evaluated.
pub struct Class {
    /// The packets.
    pub region: Region,
    /// Their part of the packets that are told of, 0 to 1.
    pub share: f64,
    /// What becomes of them: for each ruleset.
    pub fates: Vec<Fate>,
    /// What decides of them, for each ruleset: the combination with the most packets first.
    pub deciders: Vec<Vec<Decider>>,
    /// The packets in terms of values.
    pub boxes: Vec<PacketBox>,
    /// There are more boxes.
    pub more_boxes: bool,
    /// What the classes depend on besides the packet.
    pub depends: Vec<Field>,
    /// A packet: the value of each variable.
    pub example: Vec<bool>,
}

/// Which packets classes are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// All of them.
    All,
    /// Those that rulesets treat otherwise.
    Differing,
}

/// Whether what was written matters for packets that end so.
fn matters(field: Field, end: End) -> bool {
    let passes = !end.is_lost();
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

/// A field that rulesets write, and not alike: one ruleset otherwise than packets come with it.
struct Change {
    field: Field,
    /// Its value at the end, for each ruleset.
    values: Vec<Vec<Bit>>,
    /// Packets for which it differs.
    differ: Region,
}

/// Fields that the rulesets write otherwise.
fn changes(universe: &Universe, evaluated: &[&Evaluated]) -> Decided<Vec<Change>> {
    let d = &universe.diagrams;
    let mut fields: Vec<Field> =
        evaluated.iter().flat_map(|one| one.written.keys()).copied().collect();
    fields.sort_by_key(|field| (field.rank(), format!("{field:?}")));
    fields.dedup();
    let mut changes = Vec::new();
    for field in fields {
        let values: Decided<Vec<Vec<Bit>>> =
            evaluated.iter().map(|one| bits_of(universe, &one.written, field)).collect();
        let values = values?;
        let before = match &values[..] {
            [_] => initial(universe, field)?,
            all => all[0].clone(),
        };
        let Some(after) = values.last() else { continue };
        if before != *after {
            let differ = d.not(&bits::same(d, &before, after)?);
            changes.push(Change { field, values, differ });
        }
    }
    Ok(changes)
}

/// Packets by their end.
pub(crate) fn by_end(d: &Diagrams, decisions: &[Decision]) -> Decided<Vec<(End, Region)>> {
    let mut ends: Vec<(End, Vec<Region>)> = Vec::new();
    for decision in decisions {
        match ends.iter_mut().find(|(end, _)| *end == decision.end) {
            Some((_, regions)) => regions.push(decision.region.clone()),
            None => ends.push((decision.end, vec![decision.region.clone()])),
        }
    }
    ends.into_iter().map(|(end, regions)| Ok((end, d.union(&regions)?))).collect()
}

/// Packets of a region by their ends in each ruleset.
fn by_ends(
    d: &Diagrams,
    evaluated: &[&Evaluated],
    region: &Region,
) -> Decided<Vec<(Vec<End>, Region)>> {
    let mut parts = vec![(Vec::new(), region.clone())];
    for one in evaluated {
        let ends = by_end(d, &one.decisions)?;
        let mut finer = Vec::new();
        for (known, part) in &parts {
            for (end, region) in &ends {
                let both = d.and(part, region)?;
                if !both.is_none() {
                    finer.push(([&known[..], &[*end]].concat(), both));
                }
            }
        }
        parts = finer;
    }
    Ok(parts)
}

/// Packets to which the same is done.
struct Part {
    region: Region,
    fates: Vec<Fate>,
}

/// Splits packets of the same ends by the values that are written; beyond [`VALUES`] parts the rest
/// is one.
fn by_value(
    universe: &Universe,
    region: Region,
    changes: &[&Change],
    ends: &[End],
) -> Decided<Vec<Part>> {
    let d = &universe.diagrams;
    let mut rest = region;
    let mut parts = Vec::new();
    while let Some(point) = d.packet_of(&rest) {
        d.check_time()?;
        let mut region = rest.clone();
        let mut fates: Vec<Fate> =
            ends.iter().map(|end| Fate { end: *end, written: Vec::new() }).collect();
        for change in changes {
            if !d.meet(&rest, &change.differ)? {
                continue;
            }
            for (bits, fate) in change.values.iter().zip(&mut fates) {
                let mut written = Written::Various;
                if parts.len() < VALUES {
                    let same;
                    (written, same) = value_like(universe, change.field, bits, &point)?;
                    region = d.and(&region, &same)?;
                }
                // With one ruleset only what it does is told.
                let is_nothing = match &written {
                    Written::Unchanged => true,
                    Written::Value(value) => {
                        Universe::is_done(change.field) && value.iter().all(|byte| *byte == 0)
                    }
                    Written::Various => false,
                };
                if ends.len() > 1 || !is_nothing {
                    fate.written.push((change.field, written));
                }
            }
        }
        rest = d.minus(&rest, &region)?;
        parts.push(Part { region, fates });
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

/// What decides of packets in each ruleset, the combination with the most packets first.
fn deciders(d: &Diagrams, part: &Part, evaluated: &[&Evaluated]) -> Decided<Vec<Vec<Decider>>> {
    let mut all = vec![(Vec::new(), part.region.clone())];
    for (one, fate) in evaluated.iter().zip(&part.fates) {
        let mut finer: Vec<(Vec<Decider>, Region)> = Vec::new();
        for (known, region) in &all {
            for decision in one.decisions.iter().filter(|decision| decision.end == fate.end) {
                let both = d.and(region, &decision.region)?;
                if both.is_none() {
                    continue;
                }
                let decider = Decider { rule: decision.rule, base: decision.base };
                let names = [&known[..], &[decider]].concat();
                match finer.iter_mut().find(|(of, _)| *of == names) {
                    Some((_, region)) => *region = d.or(region, &both)?,
                    None => finer.push((names, both)),
                }
            }
        }
        all = finer;
    }
    let mut all: Vec<(f64, Vec<Decider>)> =
        all.into_iter().map(|(names, region)| (d.share(&region), names)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    Ok(all.into_iter().map(|(_, names)| names).collect())
}

/// What packets depend on besides themselves.
pub(crate) fn depends(universe: &Universe, region: &Region) -> Vec<Field> {
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

/// Whether two rulesets treat any of the packets of a region otherwise.
pub(crate) fn differ(
    universe: &Universe,
    [a, b]: [&Evaluated; 2],
    region: &Region,
) -> Decided<bool> {
    let d = &universe.diagrams;
    let fields: HashSet<&Field> = a.written.keys().chain(b.written.keys()).collect();
    for (ends, part) in by_ends(d, &[a, b], region)? {
        if ends[0] != ends[1] {
            return Ok(true);
        }
        for field in fields.iter().filter(|field| matters(***field, ends[0])) {
            let of_a = bits_of(universe, &a.written, **field)?;
            let of_b = bits_of(universe, &b.written, **field)?;
            // Bit by bit: that two long numbers are equal may be a large diagram.
            for (bit_a, bit_b) in of_a.iter().zip(&of_b).filter(|(a, b)| a != b) {
                if d.meet(&part, &d.xor(&bit_a.region(d), &bit_b.region(d))?)? {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// Classes of the packets of a region, which are all possible; the largest first.
pub(crate) fn classes(
    universe: &Universe,
    evaluated: &[&Evaluated],
    region: &Region,
    of: Of,
) -> Decided<Vec<Class>> {
    let d = &universe.diagrams;
    let changes = changes(universe, evaluated)?;
    // What is dropped alike differs in nothing; most packets end alike, so the ends come first.
    let mut parts = Vec::new();
    for (ends, mut part) in by_ends(d, evaluated, region)? {
        // Lost is lost, whatever the network says of it.
        if of == Of::Differing && ends.iter().all(|end| end.is_refused()) {
            continue;
        }
        let that_matter: Vec<&Change> = changes
            .iter()
            .filter(|change| ends.iter().any(|end| matters(change.field, *end)))
            .collect();
        if of == Of::Differing && ends.windows(2).all(|pair| pair[0] == pair[1]) {
            let all: Vec<Region> = that_matter.iter().map(|c| c.differ.clone()).collect();
            part = d.and(&part, &d.union(&all)?)?;
        }
        parts.extend(by_value(universe, part, &that_matter, &ends)?);
    }
    let decided: Decided<Vec<_>> = parts.iter().map(|part| deciders(d, part, evaluated)).collect();
    let whole = d.share(region);
    // What the network itself drops is told by itself: others need not be told as those that it
    // does not drop.
    let mut refused = region.clone();
    for one in evaluated {
        let of_network = one.decisions.iter().filter(|d| d.end.is_refused());
        let of_network: Vec<Region> = of_network.map(|d| d.region.clone()).collect();
        refused = d.and(&refused, &d.union(&of_network)?)?;
    }
    let carried = d.minus(region, &refused)?;
    let mut tellers = [Teller::new(universe, &carried), Teller::new(universe, region)];
    let mut classes = Vec::new();
    for (Part { region, fates }, deciders) in parts.into_iter().zip(decided?) {
        let is_refused = fates.iter().all(|fate| fate.end.is_refused());
        let (boxes, more_boxes) = tellers[usize::from(is_refused)].cover(&region, BOXES)?;
        let Some(example) = d.packet_of(&preferred(universe, &region)?) else { continue };
        classes.push(Class {
            share: d.share(&region) / whole,
            depends: depends(universe, &region),
            region,
            fates,
            deciders,
            boxes,
            more_boxes,
            example,
        });
    }
    classes.sort_by(|a, b| b.share.total_cmp(&a.share));
    Ok(classes)
}
