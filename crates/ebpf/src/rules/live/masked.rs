// SPDX-License-Identifier: Apache-2.0

//! Concatenations of intervals: a hash from the bytes of a key under a mask
//! ([`pieces`](super::super::pieces)) to the number of a slot. Both generations have keys of their
//! own, which begin with the number of the mask at their parity.

use std::collections::{HashMap, HashSet};
use std::io;

use penstock_bpf::Map;
use penstock_program::image::LinkedValue;
use penstock_sets::{ElementRef, Set};

use super::super::clocks::Clocks;
use super::super::pieces::{MOST_MASKS, Masks, Piece, pieces};
use super::Elements;
use super::layout::Memory;

/// Bytes of a value: the place of the element, and its slot.
pub(in super::super) const VALUE: u32 = 8;

/// The number of the first mask of a parity, in keys.
pub(in super::super) fn first_mask(parity: usize) -> u32 {
    (parity * MOST_MASKS) as u32
}

/// An element that is not in the map yet, with its place.
type New<'s> = (u32, ElementRef<'s, LinkedValue>);

/// An element in the map.
#[derive(Debug)]
struct Placed {
    slot: u32,
    /// Of several that match, that with the least is found.
    place: u32,
    keys: Vec<Box<[u8]>>,
}

/// Elements of one generation in a map.
#[derive(Debug, Default)]
pub(super) struct Masked {
    masks: Masks,
    /// By which places were numbered.
    numbering: u64,
    /// By first and last key.
    elements: HashMap<Box<[u8]>, Placed>,
    /// All that are in the map, or may be.
    keys: HashSet<Box<[u8]>>,
    free: Vec<u32>,
    next: u32,
}

fn joined(element: &ElementRef<'_, LinkedValue>) -> Box<[u8]> {
    let last = element.key_end.unwrap_or(element.key);
    [element.key, last].concat().into()
}

/// The mask and the bytes under it, of all keys of an element.
fn pieces_of(set: &Set<LinkedValue>, element: &ElementRef<'_, LinkedValue>) -> Option<Vec<Piece>> {
    let last = element.key_end.unwrap_or(element.key);
    pieces(&set.description().fields, element.key, last)
}

fn key_of(parity: usize, mask: u32, bytes: &[u8]) -> Box<[u8]> {
    [&(first_mask(parity) + mask).to_ne_bytes(), bytes].concat().into()
}

/// How many keys a set needs by itself; `None` if it cannot be such a map: an element is too many keys, there
/// are too many masks, or two elements have a key in common.
pub(super) fn need(set: &Set<LinkedValue>) -> Option<usize> {
    let mut masked = Masked::default();
    for element in set.iter_unordered().filter(|e| !e.key.is_empty()) {
        masked.admit(0, set, &element)?;
    }
    Some(masked.keys.len())
}

impl Masked {
    /// The keys of an element, which are none of another.
    fn admit(
        &mut self,
        parity: usize,
        set: &Set<LinkedValue>,
        element: &ElementRef<'_, LinkedValue>,
    ) -> Option<Vec<Box<[u8]>>> {
        let mut keys = Vec::new();
        for (mask, bytes) in pieces_of(set, element)? {
            let key = key_of(parity, self.masks.number(&mask)?, &bytes);
            if !self.keys.insert(key.clone()) {
                // Those that were new are of no element.
                for key in &keys {
                    self.keys.remove(key);
                }
                return None;
            }
            keys.push(key);
        }
        Some(keys)
    }

    /// Whether the elements of a set have room after those of `before`, with at most `most` keys and
    /// `slots` slots. It is asked before each change.
    pub(super) fn has_room(
        &self,
        parity: usize,
        set: &Set<LinkedValue>,
        before: Option<&Elements>,
        (most, slots): (usize, usize),
    ) -> bool {
        if set.len() > slots {
            return false;
        }
        let Some(before) = before.filter(|_| self.numbering == set.numbering()) else {
            return need(set).is_some_and(|keys| keys <= most);
        };
        // As in a change: what goes makes room for what comes.
        let (gone, new) = self.differing(set, before);
        let gone_keys: HashSet<&[u8]> = gone
            .iter()
            .filter_map(|key| self.elements.get(key))
            .flat_map(|placed| placed.keys.iter().map(|key| &**key))
            .collect();
        let mut masks = HashMap::new();
        let known: HashMap<&[u8], u32> = self.masks.iter().map(|(n, mask)| (mask, n)).collect();
        let mut come = HashSet::new();
        for (_, element) in &new {
            let Some(all) = pieces_of(set, element) else { return false };
            for (mask, bytes) in all {
                let next = (known.len() + masks.len()) as u32;
                let number = known.get(&*mask).copied();
                let number = number.unwrap_or_else(|| *masks.entry(mask).or_insert(next));
                let key = key_of(parity, number, &bytes);
                let taken = self.keys.contains(&key) && !gone_keys.contains(&*key);
                if taken || !come.insert(key) {
                    return false;
                }
            }
        }
        known.len() + masks.len() <= MOST_MASKS
            && self.keys.len() + come.len() <= most + gone_keys.len()
    }

    /// First and last keys of elements that are no more what they were, and elements that are new,
    /// with their places.
    fn differing<'s>(
        &self,
        set: &'s Set<LinkedValue>,
        before: &'s Elements,
    ) -> (Vec<Box<[u8]>>, Vec<New<'s>>) {
        let mut gone: Vec<Box<[u8]>> = before
            .differing(set)
            .filter(|(_, e)| !e.key.is_empty() && set.find(e.key, e.key_end, 0).is_none())
            .map(|(_, element)| joined(&element))
            .collect();
        let mut new = Vec::new();
        for (place, element) in set.differing(before).filter(|(_, e)| !e.key.is_empty()) {
            let key = joined(&element);
            match self.elements.get(&key) {
                Some(placed) if placed.place == place => {}
                // It was removed, and has come again.
                Some(_) => {
                    gone.push(key);
                    new.push((place, element));
                }
                None => new.push((place, element)),
            }
        }
        (gone, new)
    }

    /// The elements of a set are there, after those of `before`, if they are known.
    pub(super) fn stage(
        &mut self,
        (map, memory): (&Map, &Memory<'_>),
        set: &Set<LinkedValue>,
        before: Option<&Elements>,
        clocks: Clocks,
    ) -> io::Result<()> {
        let form = &memory.layout.form;
        let nothing = vec![0; form.slot_words()];
        let catch_all = match set.catch_all(0) {
            Some(element) => form.slot(&element, clocks),
            None => nothing.clone(),
        };
        memory.store_all(1, &catch_all);
        let known = before.filter(|_| self.numbering == set.numbering());
        let (gone, new) = match known {
            Some(before) => self.differing(set, before),
            None => {
                let keys = self.keys.iter().flat_map(|key| key.iter().copied());
                map.remove_many(&keys.collect::<Vec<u8>>())?;
                *self = Masked { numbering: set.numbering(), ..Masked::default() };
                (Vec::new(), set.placed().collect())
            }
        };
        let mut removed = Vec::new();
        for placed in gone.iter().filter_map(|key| self.elements.remove(key)) {
            memory.put(memory.parity, placed.slot, &nothing);
            for key in placed.keys {
                self.keys.remove(&key);
                removed.extend_from_slice(&key);
            }
            self.free.push(placed.slot);
        }
        map.remove_many(&removed)?;
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (place, element) in new.iter().filter(|(_, e)| !e.key.is_empty()) {
            let Some(all) = self.admit(memory.parity, set, element) else {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "elements overlap"));
            };
            let slot = self.free.pop().unwrap_or_else(|| {
                self.next += 1;
                self.next - 1
            });
            memory.put(memory.parity, slot, &form.slot(element, clocks));
            for key in &all {
                keys.extend_from_slice(key);
                values.extend_from_slice(&place.to_ne_bytes());
                values.extend_from_slice(&slot.to_ne_bytes());
            }
            let placed = Placed { slot, place: *place, keys: all };
            self.elements.insert(joined(element), placed);
        }
        // What has changed without a new key.
        if let Some(before) = known {
            for (_, element) in set.differing(before).filter(|(_, e)| !e.key.is_empty()) {
                if let Some(placed) = self.elements.get(&joined(&element)) {
                    memory.put(memory.parity, placed.slot, &form.slot(&element, clocks));
                }
            }
        }
        for (number, mask) in self.masks.iter() {
            let first = memory.layout.head_words() + number as usize * form.key_words();
            for (n, bytes) in mask.chunks(8).enumerate() {
                let mut word = [0; 8];
                word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                memory.store(first + n, u64::from_ne_bytes(word));
            }
        }
        memory.store(0, self.masks.len() as u64);
        map.set_many(&keys, &values)
    }
}
