// SPDX-License-Identifier: Apache-2.0

//! Concatenations of ranges.
//!
//! As in the kernel's `nft_set_pipapo.c`, entries may overlap: a new one is refused only if its
//! first or its last corner lies inside an existing one. If several match, the one inserted first
//! is found.
//!
//! Entries are sorted into groups by which of their fields are exact. A hash of those fields leads
//! to a bucket of entries; in it they are sorted by the first value of one of the other fields,
//! each with the greatest last value so far, which ends the search backwards:
//!
//! ```text
//! key -> group {field 2 exact} -> hash(field 2) -> bucket: first ..., max(last) ...  <- bisect field 1, go back
//!     -> group {none exact}    ->                  bucket: ...
//! ```
//!
//! New entries wait in a short list that is searched from its start, and move from there to levels
//! of growing size, so that many insertions cost little each. Sealing puts all entries into one
//! structure: tables ([`Rfc`]) where they stay small; else a [`Classifier`], in which an entry
//! is a rule and its place in the order the rule's number; or, where memory counts, one level. A
//! few changes later it is still of use: what is new is searched separately, what is gone is passed
//! over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use penstock_classify::{Builder, Classifier, Interval, Location, MAX_DIMENSIONS};

use crate::error::InsertError;
use crate::hash::HashBytes;
use crate::rfc::Rfc;
use crate::select::Structure;

/// Longest key in bytes.
const KEY_MAX: usize = 64;
/// So many new entries wait for a level.
const WAITING: usize = 64;
/// A sealed index of so many entries stays a list.
const FEW: usize = 6;
/// Entries are reclassified when one of so many is new or gone.
const BESIDE: usize = 8;
/// In the order of insertion: a removed entry.
const DEAD: u32 = u32::MAX;

/// Where a field lies in the key.
#[derive(Clone, Copy, Debug)]
struct Field {
    offset: usize,
    len: usize,
}

impl Field {
    #[inline]
    fn of<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        key.get(self.offset..self.offset + self.len).unwrap_or_default()
    }

    /// The first 16 bytes as a number that orders like the bytes.
    #[inline]
    fn number(&self, key: &[u8]) -> u128 {
        let mut bytes = [0; 16];
        let len = self.len.min(16);
        bytes[16 - len..].copy_from_slice(&self.of(key)[..len]);
        u128::from_be_bytes(bytes)
    }
}

#[inline]
fn within(fields: &[Field], from: &[u8], to: &[u8], key: &[u8]) -> bool {
    fields.iter().all(|f| f.of(from) <= f.of(key) && f.of(key) <= f.of(to))
}

/// Entries with the same fields exact.
#[derive(Clone, Debug)]
struct Group {
    /// Ones where exact fields are.
    mask: Box<[u8]>,
    /// From the exact fields to a bucket; `None` if no field is exact.
    buckets: Option<HashBytes>,
    /// Where each bucket starts in the arrays below, and where the last ends.
    starts: Vec<u32>,
    /// Fields that are ranges; the first one is what a bucket is sorted by.
    ranged: Vec<Field>,
    /// First value of the sorting field.
    first: Vec<u128>,
    /// Greatest last value of the sorting field, up to here in the bucket.
    last: Vec<u128>,
    /// First and last keys, one after the other.
    bounds: Vec<u8>,
    /// Place in the order of insertion, and slot.
    entries: Vec<(u32, u32)>,
}

/// Entries that are searched together.
#[derive(Clone, Debug, Default)]
struct Level {
    groups: Vec<Group>,
    /// Number of entries, those removed since included.
    len: usize,
}

/// Index on concatenations of ranges.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    key_len: usize,
    fields: Vec<Field>,
    /// Some field is longer than what [`Field::number`] takes.
    long: bool,
    /// From first and last key to the slot; it keeps the keys.
    exact: HashBytes,
    /// Slots in order of insertion.
    order: Vec<u32>,
    /// Place in that order, by slot.
    places: Vec<u32>,
    dead: usize,
    /// Changes with the places of entries that stay.
    numbering: u64,
    levels: Vec<Level>,
    /// Not in a level yet, later in order than all that are.
    waiting: Vec<u32>,
    /// All entries with a position below the number; they are in no level.
    classified: Option<(Sealed, u32)>,
    sealed: bool,
}

/// What is made when entries are sealed.
#[derive(Clone, Debug)]
enum Sealed {
    Tables(Arc<Rfc>),
    Trees(Arc<Classifier>),
}

/// A number that no index has had.
fn next_numbering() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Relaxed)
}

/// First and last key as one.
fn joined<'a>(buffer: &'a mut [u8; 2 * KEY_MAX], from: &[u8], to: &[u8]) -> Option<&'a [u8]> {
    let both = buffer.get_mut(..from.len() + to.len())?;
    let (a, b) = both.split_at_mut(from.len());
    a.copy_from_slice(from);
    b.copy_from_slice(to);
    Some(both)
}

impl Ranges {
    pub fn new(key_len: usize, lengths: &[u8]) -> Self {
        let mut offset = 0;
        let mut fields = Vec::new();
        for &len in lengths {
            let len = usize::from(len);
            if offset + len <= key_len {
                fields.push(Field { offset, len });
            }
            offset += len.next_multiple_of(4);
        }
        Ranges {
            key_len,
            long: fields.iter().any(|f| f.len > 16),
            fields,
            exact: HashBytes::new(2 * key_len),
            order: Vec::new(),
            places: Vec::new(),
            dead: 0,
            numbering: next_numbering(),
            levels: Vec::new(),
            waiting: Vec::new(),
            classified: None,
            sealed: true,
        }
    }

    /// Bytes of a key.
    pub fn key_len(&self) -> usize {
        self.key_len
    }

    fn bounds_of(&self, slot: u32) -> (&[u8], &[u8]) {
        self.exact.key_at(slot).split_at_checked(self.key_len).unwrap_or_default()
    }

    /// The first match that is alive.
    #[inline]
    pub fn lookup(&self, key: &[u8], alive: impl Fn(u32) -> bool) -> Option<u32> {
        if key.len() != self.key_len {
            return None;
        }
        if let Some((sealed, _)) = &self.classified {
            let found = match sealed {
                Sealed::Tables(tables) => self.lookup_rfc(tables, key, &alive),
                Sealed::Trees(trees) => {
                    self.lookup_classified(trees, &self.locate(trees, key), key, &alive)
                }
            };
            if found.is_some() || self.levels.is_empty() && self.waiting.is_empty() {
                return found;
            }
        }
        self.lookup_rest(key, alive)
    }

    /// [`Ranges::lookup`] for several keys at the same time, at most the number of result slots.
    pub fn lookup_batch<const N: usize>(
        &self,
        keys: &[&[u8]],
        alive: impl Fn(u32) -> bool,
        found: &mut [Option<u32>; N],
    ) {
        let Some((Sealed::Trees(classifier), _)) = &self.classified else {
            found.iter_mut().zip(keys).for_each(|(found, key)| *found = self.lookup(key, &alive));
            return;
        };
        let mut locations = [Location::default(); N];
        for (location, key) in
            locations.iter_mut().zip(keys).filter(|(_, key)| key.len() == self.key_len)
        {
            *location = self.locate(classifier, key);
        }
        let mut places = [u32::MAX; N];
        classifier.next_batch(&locations[..keys.len().min(N)], 0, &mut places);
        let alone = self.levels.is_empty() && self.waiting.is_empty();
        for ((found, key), place) in found.iter_mut().zip(keys).zip(places) {
            let slot = self.order.get(place as usize).copied().filter(|slot| *slot != DEAD);
            let whole = |slot: &u32| {
                key.len() == self.key_len && self.is_classified_whole(*slot, key) && alive(*slot)
            };
            *found = match slot.filter(whole) {
                None if alone && place == u32::MAX => None,
                None => self.lookup(key, &alive),
                found => found,
            };
        }
    }

    #[inline]
    fn lookup_rfc(&self, tables: &Rfc, key: &[u8], alive: &impl Fn(u32) -> bool) -> Option<u32> {
        let slots =
            tables.entries_of(key).iter().filter_map(|place| self.order.get(usize::from(*place)));
        slots.copied().find(|slot| *slot != DEAD && alive(*slot))
    }

    #[inline]
    fn lookup_classified(
        &self,
        classifier: &Classifier,
        location: &Location,
        key: &[u8],
        alive: &impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let mut from = 0;
        loop {
            let place = classifier.next(location, from)?;
            let slot = self.order.get(place as usize).copied().filter(|slot| *slot != DEAD);
            if let Some(slot) =
                slot.filter(|slot| self.is_classified_whole(*slot, key) && alive(*slot))
            {
                return Some(slot);
            }
            from = place + 1;
        }
    }

    /// Whether the bytes of fields that dimensions have no room for are those of the entry.
    #[inline]
    fn is_classified_whole(&self, slot: u32, key: &[u8]) -> bool {
        if !self.long {
            return true;
        }
        let (from, to) = self.bounds_of(slot);
        within(&self.fields, from, to, key)
    }

    #[inline]
    fn locate(&self, classifier: &Classifier, key: &[u8]) -> Location {
        let mut location = Location::default();
        for (dimension, field) in self.fields.iter().enumerate() {
            match *field.of(key) {
                [a, b, c, d] => classifier.place_word(
                    &mut location,
                    dimension,
                    u32::from_be_bytes([a, b, c, d]),
                ),
                [a, b] => classifier.place_word(
                    &mut location,
                    dimension,
                    u16::from_be_bytes([a, b]).into(),
                ),
                [a] => classifier.place_word(&mut location, dimension, a.into()),
                _ => classifier.place(&mut location, dimension, field.number(key)),
            }
        }
        location
    }

    /// Among entries that are not classified.
    fn lookup_rest(&self, key: &[u8], alive: impl Fn(u32) -> bool) -> Option<u32> {
        let mut best = None;
        for group in self.levels.iter().flat_map(|l| &l.groups) {
            group.search(self, key, &alive, &mut best);
        }
        if let Some((_, slot)) = best {
            return Some(slot);
        }
        let matches = |&slot: &u32| {
            let (from, to) = self.bounds_of(slot);
            within(&self.fields, from, to, key) && alive(slot)
        };
        self.waiting.iter().copied().find(matches)
    }

    pub fn find(&self, from: &[u8], to: &[u8]) -> Option<u32> {
        self.exact.find(joined(&mut [0; 2 * KEY_MAX], from, to)?)
    }

    pub fn insert(&mut self, from: &[u8], to: &[u8], slot: u32) -> Result<(), InsertError> {
        let ordered = |f: &Field| f.of(from) <= f.of(to);
        let mut buffer = [0; 2 * KEY_MAX];
        if from.len() != self.key_len
            || to.len() != self.key_len
            || !self.fields.iter().all(ordered)
        {
            return Err(InsertError::Invalid);
        }
        let both = joined(&mut buffer, from, to).ok_or(InsertError::Invalid)?;
        if self.exact.find(both).is_some() {
            return Err(InsertError::Exists);
        }
        if [from, to].iter().any(|corner| self.lookup(corner, |_| true).is_some()) {
            return Err(InsertError::Overlap);
        }
        self.exact.insert(both, slot);
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, DEAD);
        }
        self.places[slot as usize] = self.order.len() as u32;
        self.order.push(slot);
        self.waiting.push(slot);
        self.sealed = false;
        if self.waiting.len() >= WAITING {
            let mut slots = std::mem::take(&mut self.waiting);
            while let Some(level) = self.levels.pop_if(|level| level.len <= 2 * slots.len()) {
                let entries = level.groups.iter().flat_map(|g| &g.entries);
                slots.extend(entries.filter(|e| self.is_there(**e)).map(|&(_, slot)| slot));
            }
            let level = self.level(slots);
            self.levels.push(level);
        }
        Ok(())
    }

    /// Whether an entry of a level was not removed since.
    #[inline]
    fn is_there(&self, (place, slot): (u32, u32)) -> bool {
        self.dead == 0 || self.order.get(place as usize) == Some(&slot)
    }

    pub fn remove(&mut self, from: &[u8], to: &[u8]) -> Option<u32> {
        let slot = self.exact.remove(joined(&mut [0; 2 * KEY_MAX], from, to)?)?;
        let place = std::mem::replace(self.places.get_mut(slot as usize)?, DEAD);
        *self.order.get_mut(place as usize)? = DEAD;
        self.sealed = false;
        if let Some(at) = self.waiting.iter().position(|&s| s == slot) {
            self.waiting.remove(at);
        }
        self.dead += 1;
        Some(slot)
    }

    /// Place in the order of insertion of the entry at a slot.
    pub fn place(&self, slot: u32) -> u32 {
        self.places.get(slot as usize).copied().unwrap_or(DEAD)
    }

    /// Entries keep their places while it is the same.
    pub fn numbering(&self) -> u64 {
        self.numbering
    }

    pub fn in_order(&self) -> Vec<u32> {
        self.order.iter().copied().filter(|&slot| slot != DEAD).collect()
    }

    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// As small as possible, or as fast.
    pub fn seal(&mut self, small: bool) {
        if self.sealed {
            return;
        }
        self.sealed = true;
        let classified = self.classified.as_ref().map_or(0, |c| c.1 as usize);
        let new = self.order.len() - classified;
        // What is new costs each lookup a little, another classifier costs much, but seldom.
        if classified > 0 && new.max(self.dead) <= FEW.max(classified / BESIDE) {
            return;
        }
        if self.dead > 0 {
            self.numbering = next_numbering();
        }
        self.order.retain(|&slot| slot != DEAD);
        self.dead = 0;
        for (place, &slot) in self.order.iter().enumerate() {
            self.places[slot as usize] = place as u32;
        }
        self.levels.clear();
        self.waiting.clear();
        self.classified = None;
        if self.order.len() <= FEW {
            self.waiting.clone_from(&self.order);
            return;
        }
        let tables = || self.rfc().map(|tables| Sealed::Tables(Arc::new(tables)));
        let trees = || self.classifier().map(|trees| Sealed::Trees(Arc::new(trees)));
        if !small && let Some(sealed) = tables().or_else(trees) {
            self.classified = Some((sealed, self.order.len() as u32));
            return;
        }
        let level = self.level(self.order.clone());
        self.levels.push(level);
    }

    fn rfc(&self) -> Option<Rfc> {
        let fields: Vec<(usize, usize)> = self.fields.iter().map(|f| (f.offset, f.len)).collect();
        let entries: Vec<(&[u8], &[u8])> =
            self.order.iter().map(|slot| self.bounds_of(*slot)).collect();
        Rfc::new(&fields, &entries, &self.order)
    }

    /// The tables, if they say all that there is to know.
    pub fn tables(&self) -> Option<&Rfc> {
        match &self.classified {
            Some((Sealed::Tables(tables), _))
                if self.dead == 0 && self.levels.is_empty() && self.waiting.is_empty() =>
            {
                Some(tables)
            }
            _ => None,
        }
    }

    fn classifier(&self) -> Option<Classifier> {
        if self.fields.len() > MAX_DIMENSIONS {
            return None;
        }
        let widths: Vec<u8> = self.fields.iter().map(|f| f.len.min(16) as u8).collect();
        let mut builder = Builder::new(&widths);
        let mut intervals = Vec::with_capacity(widths.len());
        for (place, &slot) in (0..).zip(&self.order) {
            let (from, to) = self.bounds_of(slot);
            intervals.clear();
            intervals.extend((0..).zip(&self.fields).map(|(dimension, field)| Interval {
                dimension,
                from: field.number(from),
                to: field.number(to),
            }));
            builder.add(place, &intervals);
        }
        builder.build()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let groups = self.levels.iter().flat_map(|l| &l.groups);
        let levels: usize = groups.map(|g| g.bounds.len() + g.entries.len() * 40).sum();
        let classified = match &self.classified {
            Some((Sealed::Tables(tables), _)) => tables.bytes(),
            Some((Sealed::Trees(trees), _)) => trees.size().bytes,
            None => 0,
        };
        levels
            + classified
            + self.exact.bytes()
            + (self.order.len() + self.places.len() + self.waiting.len()) * 4
    }

    /// How it is searched now.
    pub fn structure(&self) -> Structure {
        match (&self.classified, &*self.levels) {
            (Some((Sealed::Tables(_), _)), _) => Structure::RangeTables,
            (Some((Sealed::Trees(_), _)), _) => Structure::RangeTrees,
            (None, []) => Structure::RangeList,
            (None, [..]) => Structure::RangeGroups,
        }
    }

    fn level(&self, slots: Vec<u32>) -> Level {
        let mut shapes: Vec<(u32, Vec<u32>)> = Vec::new();
        for &slot in &slots {
            let (from, to) = self.bounds_of(slot);
            let exact = |(i, f): (usize, &Field)| u32::from(f.of(from) == f.of(to)) << i;
            let shape = self.fields.iter().enumerate().map(exact).sum();
            match shapes.iter_mut().find(|(s, _)| *s == shape) {
                Some((_, slots)) => slots.push(slot),
                None => shapes.push((shape, vec![slot])),
            }
        }
        let groups =
            shapes.into_iter().map(|(shape, slots)| Group::new(self, shape, slots)).collect();
        Level { groups, len: slots.len() }
    }
}

impl Group {
    fn new(ranges: &Ranges, shape: u32, mut slots: Vec<u32>) -> Group {
        let mut mask = vec![0; ranges.key_len].into_boxed_slice();
        let mut ranged = Vec::new();
        for (i, field) in ranges.fields.iter().enumerate() {
            if shape >> i & 1 == 0 {
                ranged.push(*field);
            } else if let Some(part) = mask.get_mut(field.offset..field.offset + field.len) {
                part.fill(0xff);
            }
        }
        let from = |slot: u32| ranges.bounds_of(slot).0;
        // The field that tells most entries apart goes first.
        ranged.sort_by_cached_key(|field| {
            let mut values: Vec<u128> = slots.iter().map(|&s| field.number(from(s))).collect();
            values.sort_unstable();
            values.dedup();
            std::cmp::Reverse(values.len())
        });
        let masked =
            |slot: u32| from(slot).iter().zip(&mask).map(|(k, m)| k & m).collect::<Vec<u8>>();
        let sorting = |slot: u32| ranged.first().map_or(0, |f| f.number(from(slot)));
        slots.sort_by_cached_key(|&slot| (masked(slot), sorting(slot)));
        let mut group = Group {
            buckets: (shape != 0).then(|| HashBytes::new(ranges.key_len)),
            starts: Vec::new(),
            first: Vec::with_capacity(slots.len()),
            last: Vec::with_capacity(slots.len()),
            bounds: Vec::with_capacity(slots.len() * ranges.key_len * 2),
            entries: Vec::with_capacity(slots.len()),
            ranged: Vec::new(),
            mask: Box::default(),
        };
        let mut bucket: Option<Vec<u8>> = None;
        for &slot in &slots {
            let exact = masked(slot);
            let mut before = 0;
            if bucket.as_ref() == Some(&exact) {
                before = group.last.last().copied().unwrap_or(0);
            } else {
                if let Some(buckets) = &mut group.buckets {
                    buckets.insert(&exact, group.starts.len() as u32);
                }
                group.starts.push(group.entries.len() as u32);
                bucket = Some(exact);
            }
            let (from, to) = ranges.bounds_of(slot);
            group.first.push(sorting(slot));
            group.last.push(ranged.first().map_or(u128::MAX, |f| f.number(to)).max(before));
            group.bounds.extend_from_slice(from);
            group.bounds.extend_from_slice(to);
            group.entries.push((ranges.places.get(slot as usize).copied().unwrap_or(DEAD), slot));
        }
        group.starts.push(group.entries.len() as u32);
        group.ranged = ranged;
        group.mask = mask;
        group
    }

    /// Looks for a match earlier in order than the best one so far.
    #[inline]
    fn search(
        &self,
        ranges: &Ranges,
        key: &[u8],
        alive: impl Fn(u32) -> bool,
        best: &mut Option<(u32, u32)>,
    ) {
        let bucket = match &self.buckets {
            None => 0,
            Some(buckets) => {
                let mut masked = [0; KEY_MAX];
                let Some(masked) = masked.get_mut(..key.len()) else { return };
                masked
                    .iter_mut()
                    .zip(key.iter().zip(&self.mask))
                    .for_each(|(to, (k, m))| *to = k & m);
                match buckets.find(masked) {
                    Some(bucket) => bucket as usize,
                    None => return,
                }
            }
        };
        let Some(&[start, end]) = self.starts.get(bucket..bucket + 2) else { return };
        let (start, end) = (start as usize, end as usize);
        let value = self.ranged.first().map_or(0, |f| f.number(key));
        let after = start + self.first[start..end].partition_point(|&first| first <= value);
        for at in (start..after).rev() {
            if self.last[at] < value {
                break;
            }
            let (place, slot) = self.entries[at];
            if best.is_some_and(|(earlier, _)| earlier < place) {
                continue;
            }
            let bounds = &self.bounds[at * 2 * ranges.key_len..(at + 1) * 2 * ranges.key_len];
            let (from, to) = bounds.split_at(ranges.key_len);
            if ranges.is_there((place, slot)) && within(&self.ranged, from, to, key) && alive(slot)
            {
                *best = Some((place, slot));
            }
        }
    }
}
