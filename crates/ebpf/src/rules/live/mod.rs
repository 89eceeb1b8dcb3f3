// SPDX-License-Identifier: Apache-2.0

//! Sets that clients change and packets do not, as maps that stay when elements change.
//!
//! Each map has room for what elements mean in two generations, that in force and the next one: its
//! *parity* is one bit. Programs of a generation look at their own parity only. So all elements
//! change at the same time as the rules do, and a generation in which only elements have changed
//! needs the program of the same parity again, not a new one. A change costs what has changed, not
//! what there is.

mod blocks;
mod form;
mod hashed;
mod layout;
mod lookup;
mod masked;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use penstock_bpf::{Map, MapKind, MapSpec, SharedWords};
use penstock_program::image::{Image, LinkedValue, SetId};
use penstock_sets::Set;

use super::clocks::Clocks;
use blocks::{Blocks, FreeBlocks};
use form::{Form, Structure};
use hashed::{Slots, has};
use layout::{Layout, Memory, PARITIES};
use masked::Masked;

pub(super) use form::suits;

/// Elements of one generation.
pub(super) type Elements = Arc<Set<LinkedValue>>;

/// Names of maps.
pub(super) const KEYS: &str = "live_set_keys";
pub(super) const WORDS: &str = "live_set";

/// Room for elements that come later.
const SPARE: usize = 64;
/// A set that says how many elements it may have has room for all, if that is not more.
const MOST_ROOM: usize = 1 << 16;
/// Keys of concatenations of intervals at most.
const MOST_KEYS: usize = 1 << 21;
/// Words of a map at most: programs add no more than half a gibibyte to an address.
const MOST_WORDS: usize = 1 << 25;
/// The slot of the element for all other keys.
const CATCH_ALL: u32 = 0;

/// A set as maps.
#[derive(Debug)]
pub(super) struct LiveSet {
    layout: Layout,
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
    /// Slots of single keys, at both.
    slots: Slots,
    /// Blocks of intervals that are free at each parity.
    free: [FreeBlocks; PARITIES],
    /// Concatenations of intervals at each parity.
    masked: [Masked; PARITIES],
}

/// A quarter more than there are.
fn with_room(count: usize) -> usize {
    count + count / 4 + SPARE
}

impl LiveSet {
    /// `None` if the set cannot be such a map.
    fn new(form: Form, set: &Set<LinkedValue>) -> Option<Self> {
        let named = set.description().size.unwrap_or(0) as usize;
        let room = with_room(set.len()).max(named.min(MOST_ROOM) + SPARE);
        let key = u32::from(form.key_len);
        let hash = |key, value, entries: usize| {
            let (name, kind, entries) = (KEYS, MapKind::Hash, entries as u32);
            Some(Arc::new(Map::new(MapSpec { name, kind, key, value, entries })))
        };
        let keys = match form.structure {
            Structure::Hash | Structure::HashedBits => hash(key, 4, room),
            Structure::Masked => {
                let entries = with_room(masked::need(set)?).max(room);
                if entries > MOST_KEYS {
                    return None;
                }
                hash(4 + key, masked::VALUE, entries * PARITIES)
            }
            Structure::Bits | Structure::Blocks => None,
        };
        let layout = Layout { form, room };
        let words = layout.words() * PARITIES;
        if words > MOST_WORDS {
            return None;
        }
        let words = Arc::new(Map::new(SharedWords::spec(WORDS, words as u32)));
        let (memory, held) = (OnceLock::new(), Mutex::default());
        Some(LiveSet { layout, keys, words, memory, held })
    }

    /// What it is like.
    fn form(&self) -> &Form {
        &self.layout.form
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
        let held = self.held();
        let room = self.layout.room;
        let (Some(keys), [here, there]) = (&self.keys, by_parity(&held.elements, parity)) else {
            return set.len() <= room;
        };
        if here.as_ref().is_some_and(|here| Arc::ptr_eq(here, set)) {
            return true;
        }
        if self.form().structure == Structure::Masked {
            let most = keys.spec().entries as usize / PARITIES;
            let [masked, _] = by_parity(&held.masked, parity);
            return masked.has_room(parity, set, here.as_ref(), (most, room));
        }
        let both = match there {
            Some(there) => {
                let only_there = there.differing(set).filter(|(_, e)| !has(set, e.key)).count();
                only_there + set.len()
            }
            None => set.len(),
        };
        // One for all other keys.
        both < room
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
        let held = &mut *self.held();
        let [here, there] = by_parity_mut(&mut held.elements, parity);
        if here.as_ref().is_some_and(|here| Arc::ptr_eq(here, set)) {
            return Ok(());
        }
        // What is half done holds nothing that is known.
        let before = here.take();
        let memory = Memory { layout: &self.layout, words: self.memory()?, parity };
        match (self.form().structure, &self.keys) {
            (Structure::Bits, _) => bits(&memory, set),
            (Structure::Blocks, _) => {
                let [free, _] = by_parity_mut(&mut held.free, parity);
                Blocks { memory, free, clocks }.stage(set, before.as_ref());
            }
            (Structure::Hash | Structure::HashedBits, Some(keys)) => {
                let beside = (before.as_ref(), there.as_ref());
                held.slots.stage((keys, &memory), set, beside, clocks)?;
            }
            (Structure::Masked, Some(keys)) => {
                let [masked, _] = by_parity_mut(&mut held.masked, parity);
                masked.stage((keys, &memory), set, before.as_ref(), clocks)?;
            }
            (Structure::Hash | Structure::HashedBits | Structure::Masked, None) => {}
        }
        *here = Some(set.clone());
        Ok(())
    }
}

/// What is of a parity, and what is of the other one.
fn by_parity<T>([a, b]: &[T; PARITIES], parity: usize) -> [&T; PARITIES] {
    if parity == 0 { [a, b] } else { [b, a] }
}

fn by_parity_mut<T>([a, b]: &mut [T; PARITIES], parity: usize) -> [&mut T; PARITIES] {
    if parity == 0 { [a, b] } else { [b, a] }
}

/// A bit for each key, all of them written.
fn bits(memory: &Memory<'_>, set: &Set<LinkedValue>) {
    let mut words = vec![0_u64; memory.layout.words()];
    for element in set.iter_unordered() {
        let last = element.key_end.unwrap_or(element.key);
        for key in number(element.key)..=number(last) {
            // As the processor loads it.
            let raw = match memory.layout.form.key_len {
                1 => key,
                _ => usize::from(u16::from_ne_bytes((key as u16).to_be_bytes())),
            };
            if let Some(word) = words.get_mut(raw / 64) {
                *word |= 1 << (raw % 64);
            }
        }
    }
    memory.store_all(0, &words);
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
        let live = match found {
            Some(live) => live,
            None => {
                let live = Arc::new(LiveSet::new(form, elements)?);
                all.push(Arc::downgrade(&live));
                live
            }
        };
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
