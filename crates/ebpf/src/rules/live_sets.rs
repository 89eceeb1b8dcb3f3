// SPDX-License-Identifier: Apache-2.0

//! Sets that clients change and packets do not, as maps that stay when elements change.
//!
//! Each map has room for what elements mean in two generations, that in force and the next one: its
//! *parity* is one bit. Programs of a generation look at their own parity only. So all elements
//! change at the same time as the rules do, and a generation in which only elements have changed
//! needs the program of the same parity again, not a new one.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use penstock_bpf::{Map, MapKind, MapSpec, SharedWords};
use penstock_program::image::{Image, LinkedData, LinkedValue, LinkedVerdict, SetId};
use penstock_sets::{ElementRef, Set};

use super::clocks::Clocks;
use super::search::eight;

/// Elements of one generation.
pub(super) type Elements = Arc<Set<LinkedValue>>;

/// Names of maps.
pub(super) const KEYS: &str = "live_set_keys";
pub(super) const WORDS: &str = "live_set";

/// Elements at most.
const MOST: usize = 1 << 20;
/// Room for elements that come later.
const SPARE: usize = 64;
/// A set that says how many elements it may have has room for all, if that is not more.
const MOST_ROOM: usize = 1 << 16;
/// Parities of generations.
const PARITIES: usize = 2;
/// The slot of the element for all other keys.
pub(super) const CATCH_ALL: u32 = 0;

/// What a map of a set is like. A set that needs another gets another map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) structure: Structure,
    /// Bytes of a key.
    pub(super) key_len: u8,
    /// Elements may expire.
    pub(super) timeout: bool,
    /// Bytes that elements load.
    pub(super) data_len: u8,
    /// Verdicts that elements mean, numbered from 1 on.
    pub(super) verdicts: Vec<LinkedVerdict>,
    /// There is an element for all other keys.
    pub(super) catch_all: bool,
}

/// How a key is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Structure {
    /// A bit for each key of one or two bytes.
    Bits,
    /// A hash from a key to the number of its slot, and a bit for each slot.
    HashedBits,
    /// A hash from a key to the number of its slot.
    Hash,
    /// A sorted array of intervals, each with its slot.
    Sorted,
}

/// Whether a set can be a map that stays when elements change.
pub(super) fn suits(set: &Set<LinkedValue>) -> bool {
    let description = set.description();
    let concatenated = description.interval && !description.fields.is_empty();
    let counts = || set.iter_unordered().any(|e| !e.value.statements.is_empty());
    !concatenated && set.len() <= MOST && !counts()
}

impl Form {
    /// That of a set; `None` if it has none.
    fn of(set: &Set<LinkedValue>, key_len: u8, data_len: u8, verdict: bool) -> Option<Self> {
        if !suits(set) {
            return None;
        }
        let description = set.description();
        let mut verdicts = Vec::new();
        let mut catch_all = false;
        for element in set.iter_unordered() {
            catch_all |= element.key.is_empty();
            if let (true, LinkedData::Verdict(verdict)) = (verdict, &element.value.data)
                && !verdicts.contains(verdict)
            {
                verdicts.push(*verdict);
            }
        }
        let timeout = description.timeout;
        let mute = data_len == 0 && !verdict;
        let structure = match (mute && !timeout, description.interval) {
            (true, _) if key_len <= 2 && !catch_all => Structure::Bits,
            (_, true) => Structure::Sorted,
            (true, false) if !catch_all => Structure::HashedBits,
            (_, false) => Structure::Hash,
        };
        Some(Form { structure, key_len, timeout, data_len, verdicts, catch_all })
    }

    /// Words of a slot: verdict or presence, expiry, data.
    pub(super) fn slot_words(&self) -> usize {
        1 + usize::from(self.timeout) + usize::from(self.data_len).div_ceil(8)
    }

    /// Byte of a slot at which its data begin.
    pub(super) fn data_at(&self) -> i16 {
        if self.timeout { 16 } else { 8 }
    }

    /// Words of a key as numbers, in a sorted array.
    pub(super) fn key_words(&self) -> usize {
        usize::from(self.key_len).div_ceil(8)
    }

    /// Words of a row of a sorted array: first key, last key, slot.
    pub(super) fn row_words(&self) -> usize {
        self.key_words() * 2 + self.slot_words()
    }

    /// Words of a sorted array before its rows: their number, the slot for all other keys.
    pub(super) fn head_words(&self) -> usize {
        1 + self.slot_words()
    }

    /// Words for one parity.
    pub(super) fn words(&self, room: usize) -> usize {
        match self.structure {
            Structure::Bits => (1_usize << (u32::from(self.key_len) * 8)).div_ceil(64),
            Structure::HashedBits => room.div_ceil(64),
            Structure::Hash => room * self.slot_words(),
            Structure::Sorted => self.head_words() + room * self.row_words(),
        }
    }

    /// Whether programs of this form can run with one of another: all verdicts are known.
    fn has_all_of(&self, other: &Form) -> bool {
        let alike = Form { verdicts: self.verdicts.clone(), ..other.clone() };
        *self == alike && other.verdicts.iter().all(|verdict| self.verdicts.contains(verdict))
    }

    /// The slot of an element.
    fn slot(&self, element: &ElementRef<'_, LinkedValue>, clocks: Clocks) -> Vec<u64> {
        let data = match &element.value.data {
            LinkedData::Value(bytes) => &bytes[..],
            LinkedData::Long(bytes) => bytes,
            _ => &[],
        };
        let number = match &element.value.data {
            LinkedData::Verdict(verdict) => self.verdicts.iter().position(|v| v == verdict),
            _ => None,
        };
        let mut slot = vec![number.unwrap_or(0) as u64 + 1];
        if self.timeout {
            slot.push(clocks.to_kernel(element.expires_at));
        }
        let mut data = data.iter().copied().chain(std::iter::repeat(0));
        slot.extend((0..usize::from(self.data_len).div_ceil(8)).map(|_| {
            let mut word = [0; 8];
            word.iter_mut().zip(&mut data).for_each(|(to, from)| *to = from);
            u64::from_ne_bytes(word)
        }));
        slot
    }
}

/// A set as maps.
#[derive(Debug)]
pub(super) struct LiveSet {
    form: Form,
    /// Slots, or rows.
    room: usize,
    /// From a key to its slot, of a hash.
    keys: Option<Arc<Map>>,
    words: Arc<Map>,
    memory: OnceLock<SharedWords>,
    held: Mutex<Held>,
}

/// What the maps hold.
#[derive(Debug, Default)]
struct Held {
    /// Elements at each parity.
    elements: [Option<Elements>; PARITIES],
    /// Slots of keys of both.
    slots: HashMap<Box<[u8]>, u32>,
    free: Vec<u32>,
    next: u32,
}

impl LiveSet {
    fn new(form: Form, set: &Set<LinkedValue>) -> Self {
        let named = set.description().size.unwrap_or(0) as usize;
        let room = (set.len() + set.len() / 4 + SPARE).max(named.min(MOST_ROOM) + SPARE);
        let keys = matches!(form.structure, Structure::Hash | Structure::HashedBits).then(|| {
            let key = u32::from(form.key_len);
            let entries = room as u32;
            Arc::new(Map::new(MapSpec { name: KEYS, kind: MapKind::Hash, key, value: 4, entries }))
        });
        let words = form.words(room) * PARITIES;
        let words = Arc::new(Map::new(SharedWords::spec(WORDS, words as u32)));
        // The first slot is that for all other keys.
        let held = Held { next: CATCH_ALL + 1, ..Held::default() };
        LiveSet { form, room, keys, words, memory: OnceLock::new(), held: Mutex::new(held) }
    }

    /// What it is like.
    pub(super) fn form(&self) -> &Form {
        &self.form
    }

    /// How many elements have room.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// From keys to slots.
    pub(super) fn keys(&self) -> Option<&Arc<Map>> {
        self.keys.as_ref()
    }

    /// Slots or rows.
    pub(super) fn words(&self) -> &Arc<Map> {
        &self.words
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> io::Result<&SharedWords> {
        if let Some(memory) = self.memory.get() {
            return Ok(memory);
        }
        let memory = SharedWords::of(self.words.clone())?;
        Ok(self.memory.get_or_init(|| memory))
    }

    /// Whether elements have room at a parity, beside those of the other one.
    fn has_room(&self, set: &Elements, parity: usize) -> bool {
        if self.keys.is_none() {
            return set.len() <= self.room;
        }
        let held = self.held();
        let other = held.elements.get(1 - parity).and_then(Option::as_ref);
        let both = match other {
            Some(other) if Arc::ptr_eq(other, set) => other.len(),
            Some(other) => {
                let only_there = other.iter_unordered().filter(|e| !has(set, e.key)).count();
                only_there + set.len()
            }
            None => set.len(),
        };
        // One for all other keys.
        both < self.room
    }

    /// Whether it has these elements at a parity, or none yet.
    fn holds(&self, set: &Elements, parity: usize) -> bool {
        match self.held().elements.get(parity) {
            Some(Some(held)) => Arc::ptr_eq(held, set),
            _ => true,
        }
    }

    /// Has these elements at a parity, at which no packet looks.
    fn stage(&self, set: &Elements, parity: usize, clocks: Clocks) -> io::Result<()> {
        let mut held = self.held();
        let held = &mut *held;
        let [here, there] = match (&mut held.elements, parity) {
            ([a, b], 0) => [a, b],
            ([a, b], _) => [b, a],
        };
        if here.as_ref().is_some_and(|here| Arc::ptr_eq(here, set)) {
            return Ok(());
        }
        // What is half done holds nothing that is known.
        let before = here.take();
        let memory = self.memory()?;
        let own = Own { form: &self.form, room: self.room, memory, parity };
        match (self.form.structure, &self.keys) {
            (Structure::Bits, _) => own.bits(set),
            (Structure::Sorted, _) => own.sorted(set, clocks),
            (Structure::Hash | Structure::HashedBits, Some(keys)) => {
                let slots = Slots {
                    keys,
                    slots: &mut held.slots,
                    free: &mut held.free,
                    next: &mut held.next,
                };
                own.hashed(set, before.as_ref(), there.as_ref(), slots, clocks)?;
            }
            (Structure::Hash | Structure::HashedBits, None) => {}
        }
        *here = Some(set.clone());
        Ok(())
    }
}

/// Whether a set of single keys has one, expired or not.
fn has(set: &Set<LinkedValue>, key: &[u8]) -> bool {
    set.find(key, None, 0).is_some()
}

/// The maps of a set, at one parity.
struct Own<'a> {
    form: &'a Form,
    room: usize,
    memory: &'a SharedWords,
    parity: usize,
}

/// Where keys have their slots.
struct Slots<'a> {
    keys: &'a Map,
    slots: &'a mut HashMap<Box<[u8]>, u32>,
    free: &'a mut Vec<u32>,
    next: &'a mut u32,
}

impl Own<'_> {
    fn store(&self, parity: usize, word: usize, value: u64) {
        let at = parity * self.form.words(self.room) + word;
        if let Some(word) = self.memory.get(at as u32) {
            word.store(value, Relaxed);
        }
    }

    fn store_all(&self, word: usize, values: &[u64]) {
        values.iter().enumerate().for_each(|(n, value)| self.store(self.parity, word + n, *value));
    }

    fn bits(&self, set: &Set<LinkedValue>) {
        let mut words = vec![0_u64; self.form.words(self.room)];
        for element in set.iter_unordered() {
            let last = element.key_end.unwrap_or(element.key);
            for key in number(element.key)..=number(last) {
                // As the processor loads it.
                let raw = match self.form.key_len {
                    1 => key,
                    _ => usize::from(u16::from_ne_bytes((key as u16).to_be_bytes())),
                };
                if let Some(word) = words.get_mut(raw / 64) {
                    *word |= 1 << (raw % 64);
                }
            }
        }
        self.store_all(0, &words);
    }

    fn sorted(&self, set: &Set<LinkedValue>, clocks: Clocks) {
        let numbers = self.form.key_words() as u8;
        let mut all: Vec<_> = set.iter_unordered().collect();
        all.sort_by(|a, b| a.key.cmp(b.key));
        let (mut count, mut at) = (0, self.form.head_words());
        for element in all {
            let slot = self.form.slot(&element, clocks);
            if element.key.is_empty() {
                self.store_all(1, &slot);
                continue;
            }
            let ends = [element.key, element.key_end.unwrap_or(element.key)];
            let keys = ends.into_iter().flat_map(|key| (0..numbers).map(move |n| eight(key, n)));
            let row: Vec<u64> = keys.chain(slot).collect();
            self.store_all(at, &row);
            at += row.len();
            count += 1;
        }
        self.store(self.parity, 0, count);
    }

    /// What is at a slot.
    fn put(&self, parity: usize, slot: u32, words: &[u64]) {
        let slot = slot as usize;
        if self.form.structure == Structure::HashedBits {
            let at = parity * self.form.words(self.room) + slot / 64;
            if let Some(word) = self.memory.get(at as u32) {
                let bit = 1 << (slot % 64);
                match words {
                    [0, ..] => word.fetch_and(!bit, Relaxed),
                    _ => word.fetch_or(bit, Relaxed),
                };
            }
            return;
        }
        let first = slot * self.form.slot_words();
        words.iter().enumerate().for_each(|(n, word)| self.store(parity, first + n, *word));
    }

    fn hashed(
        &self,
        set: &Set<LinkedValue>,
        before: Option<&Elements>,
        there: Option<&Elements>,
        slots: Slots<'_>,
        clocks: Clocks,
    ) -> io::Result<()> {
        let Slots { keys, slots, free, next } = slots;
        let nothing = vec![0; self.form.slot_words()];
        // All that is at this parity, also where the last attempt was not finished.
        let gone: Vec<_> = match before {
            Some(before) => before.iter_unordered().map(|e| e.key).collect(),
            None => slots.keys().map(|key| &**key).collect(),
        };
        let gone: Vec<Box<[u8]>> =
            gone.into_iter().filter(|key| !has(set, key)).map(Box::from).collect();
        let mut removed = Vec::new();
        for key in gone {
            let Some(slot) = slots.get(&key).copied() else { continue };
            self.put(self.parity, slot, &nothing);
            if !there.is_some_and(|there| has(there, &key)) {
                removed.extend_from_slice(&key);
                slots.remove(&key);
                // A packet that has found the slot by now finds nothing there, whose it ever is.
                free.push(slot);
            }
        }
        keys.remove_many(&removed)?;
        let (mut new_keys, mut new_slots) = (Vec::new(), Vec::new());
        if !set.iter_unordered().any(|e| e.key.is_empty()) {
            self.put(self.parity, CATCH_ALL, &nothing);
        }
        for element in set.iter_unordered() {
            let words = self.form.slot(&element, clocks);
            if element.key.is_empty() {
                self.put(self.parity, CATCH_ALL, &words);
                continue;
            }
            if let Some(slot) = slots.get(element.key) {
                self.put(self.parity, *slot, &words);
                continue;
            }
            let slot = free.pop().unwrap_or_else(|| {
                *next += 1;
                *next - 1
            });
            self.put(1 - self.parity, slot, &nothing);
            self.put(self.parity, slot, &words);
            slots.insert(element.key.into(), slot);
            new_keys.extend_from_slice(element.key);
            new_slots.extend_from_slice(&slot.to_ne_bytes());
        }
        keys.set_many(&new_keys, &new_slots)
    }
}

/// A key of up to two bytes as a number.
fn number(key: &[u8]) -> usize {
    key.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// Sets of a generation that clients may change.
#[derive(Debug, Default)]
pub(super) struct Named(HashMap<usize, SetId>);

fn address(set: &Set<LinkedValue>) -> usize {
    std::ptr::from_ref(set).addr()
}

impl Named {
    pub(super) fn of(image: &Image) -> Self {
        Named(image.named_sets.iter().map(|n| (address(&n.elements), n.id)).collect())
    }

    pub(super) fn get(&self, set: &Set<LinkedValue>) -> Option<SetId> {
        self.0.get(&address(set)).copied()
    }
}

/// The elements that a program needs in a map.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) live: Arc<LiveSet>,
    pub(super) elements: Elements,
    pub(super) parity: usize,
}

impl Use {
    fn stage(&self, clocks: Clocks) -> io::Result<()> {
        self.live.stage(&self.elements, self.parity, clocks)
    }
}

#[derive(Debug, Default)]
struct Known {
    /// Parity of the generation in force.
    parity: usize,
    /// Sets of the generation in force.
    elements: HashMap<SetId, Elements>,
    /// Maps that programs have.
    live: HashMap<SetId, Vec<Weak<LiveSet>>>,
}

/// All sets that are maps.
#[derive(Debug, Default)]
pub(super) struct LiveSets(Mutex<Known>);

impl Known {
    /// The parity of a generation.
    fn parity_of(&self, image: &Image) -> usize {
        let changed = image.named_sets.iter().any(|named| {
            self.elements.get(&named.id).is_some_and(|now| !Arc::ptr_eq(now, &named.elements))
        });
        if changed { 1 - self.parity } else { self.parity }
    }
}

impl LiveSets {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // Nothing that is done under it leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The maps of a set for a program of a generation; `None` if the program is made with the
    /// elements.
    pub(super) fn of(
        &self,
        image: &Image,
        id: SetId,
        elements: &Elements,
        [key_len, data_len]: [u8; 2],
        verdict: bool,
    ) -> Option<Use> {
        let form = Form::of(elements, key_len, data_len, verdict)?;
        let known = &mut *self.lock();
        let parity = known.parity_of(image);
        let is_in_force = parity == known.parity;
        let all = known.live.entry(id).or_default();
        all.retain(|live| live.strong_count() > 0);
        let fits = |live: &Arc<LiveSet>| {
            live.form().has_all_of(&form)
                && live.has_room(elements, parity)
                && (!is_in_force || live.holds(elements, parity))
        };
        let found = all.iter().filter_map(Weak::upgrade).find(fits);
        let live = found.unwrap_or_else(|| {
            let live = Arc::new(LiveSet::new(form, elements));
            all.push(Arc::downgrade(&live));
            live
        });
        Some(Use { live, elements: elements.clone(), parity })
    }

    /// Maps have the elements that programs of the next generation need.
    ///
    /// # Errors
    /// Those of bpf(2). What is in force has not changed.
    pub(super) fn stage(&self, uses: &[Use], clocks: Clocks) -> io::Result<()> {
        uses.iter().try_for_each(|needed| needed.stage(clocks))
    }

    /// A generation is in force, and no packet is in a program of the one before.
    pub(super) fn settle(&self, image: &Image) {
        let known = &mut *self.lock();
        known.parity = known.parity_of(image);
        let named = image.named_sets.iter();
        known.elements = named.map(|named| (named.id, named.elements.clone())).collect();
        known.live.retain(|_, all| all.iter().any(|live| live.strong_count() > 0));
    }
}
