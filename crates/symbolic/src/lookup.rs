// SPDX-License-Identifier: Apache-2.0

//! Sets and maps over keys that are not known.

use std::collections::HashMap;
use std::hash::Hash;

use penstock_program::DynamicSet;
use penstock_program::image::{LinkedData, LinkedValue, LinkedVerdict, Stateful};
use penstock_program::op::Load;
use penstock_sets::{ElementRef, Set};

use crate::bits::{self, Bit, Interval, bit_of};
use crate::diagram::{Decided, Diagrams, Region};

/// What a lookup finds.
pub(crate) struct Found {
    /// Packets whose key is in the set.
    pub all: Region,
    /// What they load, in the order of register bytes.
    pub value: Vec<Bit>,
    /// What becomes of them in a verdict map.
    pub verdicts: Vec<(Region, LinkedVerdict)>,
    /// Elements have statements that may end the rule.
    pub has_statements: bool,
}

/// First and last key of an element, and the length of fields.
type Keys<'a> = (&'a [u8], Option<&'a [u8]>);

/// Packets whose key is one of these; `fields` are the lengths of a concatenation's fields.
fn any_of(d: &Diagrams, key: &[Bit], elements: &[Keys<'_>], fields: &[u8]) -> Decided<Region> {
    let is_exact = elements.iter().all(|(from, to)| to.is_none_or(|to| to == *from));
    if fields.len() <= 1 || is_exact {
        let mut intervals: Vec<Interval<'_>> =
            elements.iter().map(|(from, to)| (*from, to.unwrap_or(from))).collect();
        intervals.sort_unstable();
        intervals.dedup();
        return bits::in_intervals(d, key, &intervals);
    }
    let mut regions = Vec::with_capacity(elements.len());
    for (from, to) in elements {
        d.check_time()?;
        let to = to.unwrap_or(from);
        let mut region = d.all();
        let mut at = fields.iter().map(|len| usize::from(*len).next_multiple_of(4)).sum::<usize>();
        for len in fields.iter().rev() {
            let len = usize::from(*len);
            at -= len.next_multiple_of(4);
            let (from, to) = (&from[at..at + len], &to[at..at + len]);
            let field = &key[at * 8..(at + len) * 8];
            region = d.and(&bits::in_intervals(d, field, &[(from, to)])?, &region)?;
        }
        regions.push(region);
    }
    d.union(&regions)
}

/// Regions of elements by what they have in common.
fn groups<'a, K: Hash + Eq>(
    d: &Diagrams,
    key: &[Bit],
    elements: impl Iterator<Item = ElementRef<'a, LinkedValue>>,
    fields: &[u8],
    of: impl Fn(&'a LinkedValue) -> K,
) -> Decided<(Vec<(K, Region)>, Region)> {
    let mut catch_all = None;
    let mut order: Vec<(K, Vec<Keys<'a>>)> = Vec::new();
    let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
    let hasher = std::hash::RandomState::new();
    for element in elements {
        let group = of(element.value);
        if element.key.is_empty() {
            catch_all = Some(group);
            continue;
        }
        let hash = std::hash::BuildHasher::hash_one(&hasher, &group);
        let known = places.entry(hash).or_default();
        let keys = (element.key, element.key_end);
        match known.iter().find(|place| order[**place].0 == group) {
            Some(place) => order[*place].1.push(keys),
            None => {
                known.push(order.len());
                order.push((group, vec![keys]));
            }
        }
    }
    let mut regions = Vec::with_capacity(order.len());
    for (group, keys) in order {
        regions.push((group, any_of(d, key, &keys, fields)?));
    }
    let mut all = d.union(&regions.iter().map(|(_, region)| region.clone()).collect::<Vec<_>>())?;
    if let Some(group) = catch_all {
        let rest = d.not(&all);
        all = d.all();
        regions.push((group, rest));
    }
    Ok((regions, all))
}

/// Whether statements of elements may end the rule.
pub(crate) fn may_end(set: &Set<LinkedValue>, now: u64) -> bool {
    !set.is_presence_only()
        && set.iter_unordered().filter(|e| e.is_alive(now)).any(|e| {
            let mut statements = e.value.statements.iter();
            statements.any(|s| !matches!(s, Stateful::Counter(_) | Stateful::Last(_)))
        })
}

/// Packets whose key is in a set.
pub(crate) fn members(
    d: &Diagrams,
    key: &[Bit],
    set: &Set<LinkedValue>,
    now: u64,
) -> Decided<Region> {
    let elements = set.iter_unordered().filter(|e| e.is_alive(now));
    Ok(groups(d, key, elements, &set.description().fields, |_| ())?.1)
}

/// Looks up in a set that packets do not change; `live` has the packets that are looked up.
pub(crate) fn found(
    d: &Diagrams,
    key: &[Bit],
    set: &Set<LinkedValue>,
    load: Load,
    now: u64,
    live: &Region,
) -> Decided<Found> {
    let mut found =
        Found { all: d.none(), value: Vec::new(), verdicts: Vec::new(), has_statements: false };
    if live.is_none() {
        return Ok(found);
    }
    let fields = &set.description().fields;
    let elements = || set.iter_unordered().filter(|e| e.is_alive(now));
    found.has_statements = may_end(set, now);
    match load {
        Load::Nothing => found.all = members(d, key, set, now)?,
        Load::Verdict => {
            let verdict =
                |value: &LinkedValue| value.data.verdict().copied().unwrap_or(LinkedVerdict::Break);
            let (regions, all) = groups(d, key, elements(), fields, verdict)?;
            found.all = all;
            found.verdicts =
                regions.into_iter().map(|(verdict, region)| (region, verdict)).collect();
        }
        Load::Bytes { len, .. } => {
            let bytes = |value: &LinkedValue| -> Option<Vec<u8>> {
                let bytes = match &value.data {
                    LinkedData::Value(bytes) => &bytes[..],
                    LinkedData::Long(bytes) => bytes,
                    LinkedData::None | LinkedData::Verdict(_) | LinkedData::Object(_) => {
                        return None;
                    }
                };
                Some(bytes.get(..usize::from(len)).unwrap_or(bytes).to_vec())
            };
            let (regions, _) = groups(d, key, elements(), fields, bytes)?;
            let regions: Vec<(Vec<u8>, Region)> =
                regions.into_iter().filter_map(|(value, region)| Some((value?, region))).collect();
            found.all = d.union(&regions.iter().map(|(_, r)| r.clone()).collect::<Vec<_>>())?;
            for i in 0..usize::from(len) * 8 {
                let ones: Vec<Region> = regions
                    .iter()
                    .filter(|(value, _)| bit_of(value, i))
                    .map(|(_, region)| region.clone())
                    .collect();
                found.value.push(match ones.len() {
                    0 => Bit::ZERO,
                    _ => Bit::Of(d.union(&ones)?),
                });
            }
        }
    }
    Ok(found)
}

/// Packets whose key is that of each element of a map, in the order of listings; the catch-all
/// element has all others.
pub(crate) fn each(
    d: &Diagrams,
    key: &[Bit],
    set: &Set<LinkedValue>,
    now: u64,
) -> Decided<Vec<Region>> {
    let fields = &set.description().fields;
    let mut all = Vec::new();
    for element in set.iter().filter(|element| element.is_alive(now)) {
        all.push(match element.key.is_empty() {
            true => d.not(&d.union(&all)?),
            false => any_of(d, key, &[(element.key, element.key_end)], fields)?,
        });
    }
    Ok(all)
}

/// Packets that a map has an object for, if all of them are counters.
pub(crate) fn objects(
    d: &Diagrams,
    key: &[Bit],
    set: &Set<LinkedValue>,
    now: u64,
) -> Decided<Option<Region>> {
    let elements = || set.iter_unordered().filter(|e| e.is_alive(now));
    let is_counter = |e: ElementRef<'_, LinkedValue>| {
        matches!(e.value.data, LinkedData::Object(Stateful::Counter(_)))
    };
    if !elements().all(is_counter) {
        return Ok(None);
    }
    let (_, all) = groups(d, key, elements(), &set.description().fields, |_| ())?;
    Ok(Some(all))
}

/// Packets whose key is now in a set that packets change.
pub(crate) fn listed(d: &Diagrams, key: &[Bit], set: &DynamicSet, now: u64) -> Decided<Region> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut catch_all = false;
    for element in set.current(now) {
        match element.key.is_empty() {
            true => catch_all = true,
            false => keys.push(element.key.to_vec()),
        }
    }
    if catch_all {
        return Ok(d.all());
    }
    let keys: Vec<Keys<'_>> = keys.iter().map(|key| (&key[..], None)).collect();
    any_of(d, key, &keys, &[])
}
