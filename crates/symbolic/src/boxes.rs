// SPDX-License-Identifier: Apache-2.0

//! Regions in terms of values: a few wide boxes, each a set of values for some fields.
//!
//! A box grows from one packet: a field that makes no difference is let go, and of the others all
//! values are taken for which the box stays in the region. Impossible packets count as part of
//! every region, so that a box need not go around them.

use std::collections::HashMap;

use penstock_program::expr::MetaKey;

use crate::diagram::{Decided, Region};
use crate::field::{Base, Field};
use crate::layout;
use crate::universe::Universe;

/// Fields that are one number for people: an address of four bytes, a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The fields, most significant first.
    pub fields: Vec<Field>,
    /// Their variables, most significant first.
    pub variables: Vec<u32>,
}

/// Values of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// In one of these intervals, which ascend; first and last.
    In(Vec<(u128, u128)>),
    /// In none of these intervals.
    NotIn(Vec<(u128, u128)>),
    /// Under the mask it has the value, in one of the pairs.
    Masked(Vec<(u128, u128)>),
    /// Too many to tell.
    Some,
}

/// Packets that have values for some parts, and anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketBox {
    /// The parts that matter, the important ones first.
    pub parts: Vec<(Part, Values)>,
}

/// Intervals of a part beyond which it is told otherwise.
const INTERVALS: usize = 24;

/// Tells regions of a universe.
pub(crate) struct Teller<'u> {
    universe: &'u Universe,
    possible: &'u Region,
    /// Values that a part can have at all.
    valid: HashMap<Vec<Field>, Region>,
}

impl<'u> Teller<'u> {
    pub fn new(universe: &'u Universe, possible: &'u Region) -> Self {
        Teller { universe, possible, valid: HashMap::new() }
    }

    /// Boxes that together are a region; the flag says whether there are more.
    pub fn cover(&mut self, region: &Region, most: usize) -> Decided<(Vec<PacketBox>, bool)> {
        let d = &self.universe.diagrams;
        let outside = d.minus(self.possible, region)?;
        let mut rest = d.and(region, self.possible)?;
        let mut boxes = Vec::new();
        while let Some(point) = d.packet_of(&rest) {
            d.check_time()?;
            if boxes.len() == most {
                return Ok((boxes, true));
            }
            let (one, taken) = self.grow(&point, &outside)?;
            rest = d.minus(&rest, &taken)?;
            boxes.push(one);
        }
        Ok((boxes, false))
    }

    /// The widest box around a packet that has nothing from outside, and its region.
    fn grow(&mut self, point: &[bool], outside: &Region) -> Decided<(PacketBox, Region)> {
        let universe = self.universe;
        let d = &universe.diagrams;
        let mut parts = parts(universe, point);
        // The point in all parts from one on.
        let points = |parts: &[Part]| -> Decided<Vec<Region>> {
            let mut after = vec![d.all()];
            for part in parts.iter().rev() {
                let mut region = d.all();
                for number in part.variables.iter().rev() {
                    let value = d.variable(*number, point[*number as usize])?;
                    region = d.and(&value, &region)?;
                }
                after.push(d.and(&region, after.last().unwrap_or(&region))?);
            }
            after.reverse();
            Ok(after)
        };
        // First what makes no difference is let go. What is kept is the point.
        let after = points(&parts)?;
        let mut settled = outside.clone();
        let mut kept = Vec::new();
        for (i, part) in parts.iter().enumerate() {
            let is_named = says_version(part) && looks_at_network(&kept);
            if !is_named && !d.meet(&settled, &after[i + 1])? {
                continue;
            }
            kept.push(part.clone());
            let own = points(std::slice::from_ref(part))?;
            settled = d.and(&settled, &own[0])?;
        }
        parts = kept;
        let one_version = looks_at_network(&parts);
        // Then of each part that is left all values that stay inside.
        let after = points(&parts)?;
        let mut settled = outside.clone();
        let mut region = d.all();
        let mut told_parts = Vec::new();
        for (i, part) in parts.iter().enumerate() {
            let clash = d.and(&settled, &after[i + 1])?;
            let mut right = d.not(&self.only(part, &clash)?);
            if says_version(part) && one_version {
                right = d.and(&right, &points(std::slice::from_ref(part))?[0])?;
            }
            let valid = match self.valid.get(&part.fields) {
                Some(valid) => valid.clone(),
                None => {
                    let valid = self.only(part, self.possible)?;
                    self.valid.insert(part.fields.clone(), valid.clone());
                    valid
                }
            };
            settled = d.and(&settled, &right)?;
            region = d.and(&region, &right)?;
            told_parts.push((part.clone(), right, valid));
        }
        let can_be = d.and(&region, self.possible)?;
        let mut parts = Vec::new();
        for (part, right, valid) in told_parts.into_iter().rev() {
            let mut values = told(universe, &part, &right, &d.and(&right, &valid)?, &valid)?;
            if is_long(&part, &values) {
                // Some of the values cannot be, with what is told of other parts.
                let least = self.only(&part, &can_be)?;
                values = told(universe, &part, &right, &least, &valid)?;
            }
            parts.push((part, values));
        }
        Ok((PacketBox { parts }, region))
    }

    /// A region as a part sees it: whatever all other fields are.
    fn only(&self, part: &Part, region: &Region) -> Decided<Region> {
        let d = &self.universe.diagrams;
        let others = (0..d.variables()).filter(|number| !part.variables.contains(number));
        d.whatever(region, others)
    }
}

/// Whether a part says which network header there is: what its bytes mean depends on it.
fn says_version(part: &Part) -> bool {
    matches!(part.fields[0], Field::Meta(MetaKey::NfProto | MetaKey::Protocol))
}

fn looks_at_network(parts: &[Part]) -> bool {
    let is_network = |field: &Field| matches!(field, Field::Header { base: Base::Network, .. });
    parts.iter().any(|part| part.fields.iter().any(is_network))
}

/// The parts of a universe, for packets like this one: those that people look at first come last.
pub fn parts(universe: &Universe, point: &[bool]) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::new();
    for field in universe.fields() {
        let whole = match field {
            Field::Header { base, at } => layout::span(universe, point, *base, *at),
            Field::Exthdr { op, kind, at } => layout::exthdr_span(*op, *kind, *at),
            _ => None,
        };
        let fields: Vec<Field> = match (field, whole) {
            (Field::Header { base, .. }, Some((first, len))) => (first..first + len)
                .map(|at| Field::Header { base: *base, at })
                .filter(|field| universe.has(*field))
                .collect(),
            (Field::Exthdr { op, kind, .. }, Some((first, len))) => (first..first + len)
                .map(|at| Field::Exthdr { op: *op, kind: *kind, at })
                .filter(|field| universe.has(*field))
                .collect(),
            _ => vec![*field],
        };
        if fields.first() != Some(field) {
            continue;
        }
        let variables =
            fields.iter().flat_map(|field| universe.variables(*field)).copied().collect();
        all.push(Part { fields, variables });
    }
    all.sort_by_key(|part| std::cmp::Reverse(interest(part)));
    all
}

/// What people look at first has the least number.
fn interest(part: &Part) -> u32 {
    match part.fields[0] {
        Field::Meta(MetaKey::IifName | MetaKey::Iif) => 1,
        Field::Meta(MetaKey::OifName | MetaKey::Oif) => 2,
        Field::CtState => 3,
        Field::Meta(MetaKey::NfProto) => 4,
        Field::Meta(MetaKey::Protocol) => 5,
        Field::Header { base: Base::Network, at: 12 | 8 } => 6,
        Field::Header { base: Base::Network, at: 16 | 24 } => 7,
        Field::Meta(MetaKey::L4Proto) => 8,
        Field::Header { base: Base::Transport, at: 2 } => 9,
        Field::Header { base: Base::Transport, at: 0 } => 10,
        Field::Header { base: Base::Link, at } => 20 + u32::from(at),
        Field::Header { base: Base::Network, at } => 100 + u32::from(at),
        Field::Header { base: Base::Transport, at } => 1000 + u32::from(at),
        Field::Header { base: Base::Inner | Base::Tunnel, at } => 70_000 + u32::from(at),
        Field::HasExthdr { .. } => 150_000,
        Field::Exthdr { at, .. } => 150_001 + u32::from(at),
        Field::Meta(key) => 200_000 + key as u32,
        Field::Ct(key, _) => 200_100 + key as u32,
        Field::Answer { .. } | Field::Answers(_) => 200_200,
        Field::Input(_) => 200_300,
        Field::HasMeta(_) | Field::HasCt(..) | Field::CtBefore | Field::Untranslated => 200_400,
        Field::Present { .. } | Field::Transport | Field::LaterFragment => 200_500,
        Field::Done(_) => 200_600,
    }
}

/// Whether values are names of devices.
fn is_name(part: &Part) -> bool {
    use MetaKey::{BriIifName, BriOifName, IifName, OifName};
    matches!(part.fields[0], Field::Meta(IifName | OifName | BriIifName | BriOifName))
}

/// Whether an interval is one name, or all that start with the same bytes.
fn is_name_or_start((from, to): &(u128, u128)) -> bool {
    let span = (to - from).wrapping_add(1);
    from == to
        || span.is_power_of_two()
            && span.trailing_zeros().is_multiple_of(8)
            && from & (span - 1) == 0
}

/// Whether there is a shorter way to tell values, perhaps.
fn is_long(part: &Part, values: &Values) -> bool {
    match values {
        _ if part.fields[0] == Field::CtState => true,
        Values::In(all) | Values::NotIn(all) | Values::Masked(all) => all.len() > 1,
        Values::Some => true,
    }
}

/// Values of a part: the shortest way to tell them. There are those that have to be told, and those
/// that may be, besides those that cannot be.
fn told(
    universe: &Universe,
    part: &Part,
    right: &Region,
    least: &Region,
    valid: &Region,
) -> Decided<Values> {
    let d = &universe.diagrams;
    let most = d.or(right, &d.not(valid))?;
    let (other_least, other_most) = (d.not(&most), d.not(least));
    let listed = |region: &Region| intervals(universe, part, region, INTERVALS);
    // Of wide intervals those that say something.
    let needed = match (listed(least), listed(&most)) {
        (Some(least), Some(mut most)) => {
            most.retain(|(from, to)| least.iter().any(|(a, b)| a <= to && b >= from));
            Some(most)
        }
        (_, most) => most,
    };
    let mut best: Option<Values> = None;
    let count = |values: &Values| match values {
        Values::In(all) => all.len() * 4,
        // Only if it is clearly shorter.
        Values::NotIn(all) => all.len() * 4 + 2,
        Values::Masked(all) => all.len() * 4 + 3,
        Values::Some => usize::MAX,
    };
    let candidates = [
        listed(least).map(Values::In),
        needed.map(Values::In),
        listed(&other_least).map(Values::NotIn),
        listed(&other_most).map(Values::NotIn),
        masked(universe, part, least).map(Values::Masked),
        masked(universe, part, &most).map(Values::Masked),
    ];
    let plain = |values: &Values| match values {
        Values::In(all) | Values::NotIn(all) => !is_name(part) || all.iter().all(is_name_or_start),
        Values::Masked(_) | Values::Some => !is_name(part),
    };
    let mut candidates: Vec<Values> = candidates.into_iter().flatten().collect();
    if candidates.iter().any(plain) {
        candidates.retain(plain);
    }
    for candidate in candidates {
        if best.as_ref().is_none_or(|best| count(&candidate) < count(best)) {
            best = Some(candidate);
        }
    }
    Ok(best.unwrap_or(Values::Some))
}

/// Intervals of a part's values in a region; `None` if there are more than so many.
fn intervals(
    universe: &Universe,
    part: &Part,
    region: &Region,
    most: usize,
) -> Option<Vec<(u128, u128)>> {
    fn descend(
        universe: &Universe,
        variables: &[u32],
        region: &Region,
        value: u128,
        out: &mut Vec<(u128, u128)>,
        most: usize,
    ) -> Option<()> {
        if region.is_none() {
            return Some(());
        }
        let free = variables.len() as u32;
        if region.is_all() || free == 0 {
            let shifted = |value: u128| value.checked_shl(free).unwrap_or(0);
            let ones = 1u128.checked_shl(free).unwrap_or(0).wrapping_sub(1);
            let (first, last) = (shifted(value), shifted(value) | ones);
            if let Some((_, end)) = out.last_mut()
                && end.checked_add(1) == Some(first)
            {
                *end = last;
                return Some(());
            }
            out.push((first, last));
            return (out.len() <= most).then_some(());
        }
        let (variable, low, high) = universe.diagrams.split(region)?;
        let (low, high) =
            if variable == variables[0] { (low, high) } else { (region.clone(), region.clone()) };
        descend(universe, &variables[1..], &low, value << 1, out, most)?;
        descend(universe, &variables[1..], &high, value << 1 | 1, out, most)
    }
    if part.variables.len() > 128 || !part.variables.is_sorted() {
        return None;
    }
    let mut out = Vec::new();
    descend(universe, &part.variables, region, 0, &mut out, most)?;
    Some(out)
}

/// Values under masks: the paths of the region's diagram; `None` if there are many.
fn masked(universe: &Universe, part: &Part, region: &Region) -> Option<Vec<(u128, u128)>> {
    fn descend(
        universe: &Universe,
        part: &Part,
        region: &Region,
        mask: u128,
        value: u128,
        out: &mut Vec<(u128, u128)>,
    ) -> Option<()> {
        if region.is_none() {
            return Some(());
        }
        if region.is_all() {
            out.push((mask, value));
            return (out.len() <= INTERVALS).then_some(());
        }
        let (variable, low, high) = universe.diagrams.split(region)?;
        let at = part.variables.iter().position(|number| *number == variable)?;
        let bit = 1u128 << (part.variables.len() - 1 - at);
        descend(universe, part, &low, mask | bit, value, out)?;
        descend(universe, part, &high, mask | bit, value | bit, out)
    }
    if part.variables.len() > 128 {
        return None;
    }
    let mut out = Vec::new();
    descend(universe, part, region, 0, 0, &mut out)?;
    Some(out)
}
