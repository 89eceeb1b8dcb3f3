// SPDX-License-Identifier: Apache-2.0

//! A set: its description, its elements, the structure that holds them.

use std::fmt;
use std::sync::Arc;

use crate::bitmap::Bitmap;
use crate::error::InsertError;
use crate::hash::{HashBytes, HashWords};
use crate::intervals::Intervals;
use crate::ranges::Ranges;
use crate::select::Structure;
use crate::slots::Slots;
use crate::{Backend, Description, Element, ElementRef, Policy};

/// Keys that are looked up at the same time.
const BATCH: usize = 16;

/// From key bytes to the slot of an element.
#[derive(Clone, Debug)]
pub(crate) enum Index {
    Bitmap(Bitmap),
    HashWords(HashWords),
    HashBytes(HashBytes),
    Intervals(Intervals),
    Ranges(Ranges),
}

/// A set or map. Cloning shares index and elements until one of the clones changes; a clone is what
/// a transaction works on.
#[derive(Clone)]
pub struct Set<V> {
    description: Arc<Description>,
    backend: Backend,
    index: Arc<Index>,
    slots: Slots<V>,
    catch_all: Option<Arc<Element<V>>>,
    /// No element expires before.
    first_expiry: u64,
    /// The structure is ours to choose.
    chosen: bool,
    /// A lookup needs no values, only whether an element is there.
    presence_only: bool,
}

/// What it holds, not how.
impl<V: fmt::Debug> fmt::Debug for Set<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<V> Set<V> {
    /// The description it was made from.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The backend in use.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// What it is searched by now. It changes as the set grows.
    pub fn structure(&self) -> Structure {
        match &*self.index {
            Index::Bitmap(_) => Structure::Bitmap,
            Index::HashWords(_) => Structure::WordHash,
            Index::HashBytes(_) => Structure::Hash,
            Index::Intervals(i) => i.structure(),
            Index::Ranges(i) => i.structure(),
        }
    }

    /// Declares that lookups need no values, as they are now, only whether an element is there:
    /// of a set, no element of which has statements. Then [`Set::contains`] answers everything
    /// that a lookup asks. Any change of the set ends this.
    pub fn presence_only(mut self) -> Self {
        self.presence_only = true;
        self
    }

    /// Whether lookups need no values ([`Set::presence_only`]).
    #[inline]
    pub fn is_presence_only(&self) -> bool {
        self.presence_only
    }

    /// Bytes of memory that the structure takes in addition to the elements.
    pub fn index_bytes(&self) -> usize {
        match &*self.index {
            Index::Bitmap(i) => i.bytes(),
            Index::HashWords(i) => i.bytes(),
            Index::HashBytes(i) => i.bytes(),
            Index::Intervals(i) => i.bytes(),
            Index::Ranges(i) => i.bytes(),
        }
    }

    /// Elements, the catch-all and expired ones included.
    pub fn len(&self) -> usize {
        self.slots.len() + usize::from(self.catch_all.is_some())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    #[inline]
    pub(crate) fn slots(&self) -> &Slots<V> {
        &self.slots
    }

    /// Whether some element does not stay for ever.
    pub fn may_expire(&self) -> bool {
        self.first_expiry != u64::MAX
    }

    #[inline]
    fn slot(&self, key: &[u8], now: u64) -> Option<u32> {
        match &*self.index {
            Index::Bitmap(i) => i.find(key),
            Index::HashWords(i) => i.find(key),
            Index::HashBytes(i) => i.find(key),
            Index::Intervals(i) => i.lookup(key),
            Index::Ranges(i) if self.first_expiry == u64::MAX => i.lookup(key, |_| true),
            Index::Ranges(i) => {
                i.lookup(key, |slot| self.slots.get(slot).is_some_and(|e| e.is_alive(now)))
            }
        }
    }

    /// The element that a packet with this key meets at time `now`: the matching one, else the
    /// catch-all.
    #[inline]
    pub fn lookup(&self, key: &[u8], now: u64) -> Option<ElementRef<'_, V>> {
        match self.get(key, now) {
            None => self.catch_all(now),
            found => found,
        }
    }

    /// [`Set::lookup`] for several keys: while memory for one is fetched, the others continue. The
    /// smaller of the numbers of keys and result slots counts.
    pub fn lookup_batch<'s>(
        &'s self,
        keys: &[&[u8]],
        now: u64,
        found: &mut [Option<ElementRef<'s, V>>],
    ) {
        for (keys, found) in keys.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            let mut slots = [None; BATCH];
            match &*self.index {
                Index::HashWords(i) => keys.iter().for_each(|key| i.prefetch(key)),
                Index::HashBytes(i) => keys.iter().for_each(|key| i.prefetch(key)),
                Index::Intervals(i) => keys.iter().for_each(|key| i.prefetch(key)),
                Index::Bitmap(_) | Index::Ranges(_) => {}
            }
            match &*self.index {
                Index::Ranges(i) => {
                    let alive = |slot| self.slots.get(slot).is_some_and(|e| e.is_alive(now));
                    i.lookup_batch(keys, alive, &mut slots);
                }
                _ => slots.iter_mut().zip(keys).for_each(|(slot, key)| *slot = self.slot(key, now)),
            }
            slots.iter().flatten().for_each(|slot| self.slots.prefetch(*slot));
            for (found, slot) in found.iter_mut().zip(&slots).take(keys.len()) {
                let element =
                    slot.and_then(|slot| self.slots.get(slot)).filter(|e| e.is_alive(now));
                *found = element.or_else(|| self.catch_all(now));
            }
        }
    }

    /// [`Set::lookup`] without the catch-all: the answer to `get element`.
    #[inline]
    pub fn get(&self, key: &[u8], now: u64) -> Option<ElementRef<'_, V>> {
        self.slots.get(self.slot(key, now)?).filter(|e| e.is_alive(now))
    }

    /// Whether [`Set::lookup`] finds something. Cheaper: elements that cannot expire are not
    /// touched.
    #[inline]
    pub fn contains(&self, key: &[u8], now: u64) -> bool {
        let found = match &*self.index {
            Index::Bitmap(i) if self.first_expiry == u64::MAX => i.contains(key),
            Index::Intervals(i) if self.first_expiry == u64::MAX => i.contains(key),
            _ if self.first_expiry == u64::MAX => self.slot(key, now).is_some(),
            _ => self.get(key, now).is_some(),
        };
        found || self.catch_all(now).is_some()
    }

    /// The catch-all element, unless it expired.
    #[inline]
    pub fn catch_all(&self, now: u64) -> Option<ElementRef<'_, V>> {
        self.catch_all.as_deref().map(Element::view).filter(|e| e.is_alive(now))
    }

    /// Whether nothing was changed since [`Set::commit`] that it would bring up to date.
    pub fn is_committed(&self) -> bool {
        match &*self.index {
            Index::Intervals(i) => i.is_sealed(),
            Index::Ranges(i) => i.is_sealed(),
            Index::Bitmap(_) | Index::HashWords(_) | Index::HashBytes(_) => !self.outgrown(),
        }
    }

    /// Whether keys that are no intervals would have another structure were the set made now.
    fn outgrown(&self) -> bool {
        let exact =
            matches!(&*self.index, Index::Bitmap(_) | Index::HashWords(_) | Index::HashBytes(_));
        self.chosen
            && exact
            && Structure::of_exact(&self.description, self.slots.len()) != self.structure()
    }

    fn exact_slot(&self, key: &[u8], key_end: Option<&[u8]>) -> Option<u32> {
        let end = key_end.unwrap_or(key);
        match &*self.index {
            Index::Bitmap(i) => i.find(key).filter(|_| key == end),
            Index::HashWords(i) => i.find(key).filter(|_| key == end),
            Index::HashBytes(i) => i.find(key).filter(|_| key == end),
            Index::Intervals(i) => i.find(key, end),
            Index::Ranges(i) => i.find(key, end),
        }
    }

    /// The element with exactly this key or interval; the catch-all for an empty key.
    pub fn find(&self, key: &[u8], key_end: Option<&[u8]>, now: u64) -> Option<ElementRef<'_, V>> {
        if key.is_empty() {
            return self.catch_all(now);
        }
        self.slots.get(self.exact_slot(key, key_end)?).filter(|e| e.is_alive(now))
    }

    /// All elements as the kernel's dump gives them after nft sorted it: ascending by key;
    /// concatenations of ranges in order of insertion. The catch-all last.
    pub fn iter(&self) -> impl Iterator<Item = ElementRef<'_, V>> {
        let order = match &*self.index {
            Index::Bitmap(i) => i.ascending(),
            Index::Intervals(i) => i.ascending(),
            Index::Ranges(i) => i.in_order(),
            Index::HashWords(_) | Index::HashBytes(_) => {
                // Next to the slots the start of each key, so that sorting rarely has to look at
                // keys.
                let mut taken: Vec<(u64, u32)> =
                    self.slots.iter().map(|(slot, e)| (leading(e.key), slot)).collect();
                let key = |slot| self.slots.get(slot).map(|e| e.key);
                taken.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(&key(b.1))));
                taken.into_iter().map(|(_, slot)| slot).collect()
            }
        };
        let catch_all = self.catch_all.as_deref().map(Element::view);
        let slot_at = move |at: usize| {
            self.slots.prefetch_ahead(&order, at);
            order.get(at).copied()
        };
        let slots = (0..).map_while(slot_at);
        slots.filter_map(|slot| self.slots.get(slot)).chain(catch_all)
    }

    /// All elements in no order, without the cost of one, and the catch-all element.
    pub fn iter_unordered(&self) -> impl Iterator<Item = ElementRef<'_, V>> {
        self.slots.iter().map(|(_, e)| e).chain(self.catch_all.as_deref().map(Element::view))
    }

    /// A set with the same keys and other values; it shares the index.
    pub fn map_values<W>(&self, mut f: impl FnMut(&V) -> W) -> Set<W> {
        Set { slots: self.slots.map(&mut f), ..self.without_slots(&mut f) }
    }

    /// What has the keys of this set, but no elements besides the catch-all.
    fn without_slots<W>(&self, f: &mut impl FnMut(&V) -> W) -> Set<W> {
        Set {
            description: self.description.clone(),
            backend: self.backend,
            index: self.index.clone(),
            slots: Slots::new(self.description.key_len),
            catch_all: self
                .catch_all
                .as_deref()
                .map(|e| Arc::new(e.view().with_value(f(&e.value)))),
            first_expiry: self.first_expiry,
            chosen: self.chosen,
            presence_only: false,
        }
    }

    /// [`Set::map_values`], where an earlier state of this set and what was made of it by an equal
    /// function are known: that is shared where elements have not changed, so it costs what has
    /// changed. The function is called for each element that has, and for some that have not.
    pub fn map_values_after<W>(
        &self,
        (before, made): (&Set<V>, &Set<W>),
        mut f: impl FnMut(&V) -> W,
    ) -> Set<W> {
        Set {
            slots: self.slots.map_after((&before.slots, &made.slots), &mut f),
            ..self.without_slots(&mut f)
        }
    }

    fn place(&self, slot: u32) -> u32 {
        match &*self.index {
            Index::Ranges(i) => i.place(slot),
            _ => 0,
        }
    }

    /// All elements in no order, each with its place ([`Set::numbering`]), and the catch-all element.
    pub fn placed(&self) -> impl Iterator<Item = (u32, ElementRef<'_, V>)> {
        let all = self.slots.iter().map(|(slot, element)| (self.place(slot), element));
        all.chain(self.catch_all.as_deref().map(|element| (0, element.view())))
    }

    /// Elements that an earlier state of this set, or of one that was made of it
    /// ([`Set::map_values_after`]), may not have, or may have with another value, each with its place
    /// ([`Set::numbering`]). It costs what has changed: some that have not changed are there, too.
    /// The catch-all element is there in any case.
    pub fn differing<'a>(
        &'a self,
        other: &'a Set<V>,
    ) -> impl Iterator<Item = (u32, ElementRef<'a, V>)> {
        let apart = self.slots.iter_apart(&other.slots);
        let catch_all = self.catch_all.as_deref().map(|element| (0, element.view()));
        apart.map(|(slot, element)| (self.place(slot), element)).chain(catch_all)
    }

    /// By which numbers the places of elements are, of a concatenation of ranges: of several that
    /// match, the one with the least place is found. In states of a set with the same numbering, an
    /// element keeps its place, and one that is added has a greater one than all before.
    pub fn numbering(&self) -> u64 {
        match &*self.index {
            Index::Ranges(i) => i.numbering(),
            _ => 0,
        }
    }
}

/// The first bytes of a key as a number that orders like them.
fn leading(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = key.len().min(8);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

impl Index {
    /// The best for a description and so many elements.
    fn choose(backend: Backend, d: &Description, len: usize) -> Index {
        match backend {
            Backend::Intervals | Backend::ConcatenatedRanges => Index::new(backend, d),
            Backend::HashFast | Backend::Hash | Backend::ResizableHash | Backend::Bitmap => {
                match Structure::of_exact(d, len) {
                    Structure::Bitmap => Index::new(Backend::Bitmap, d),
                    _ => Index::new(Backend::Hash, d),
                }
            }
        }
    }

    fn new(backend: Backend, d: &Description) -> Index {
        match backend {
            Backend::Bitmap => Index::Bitmap(Bitmap::new(d.key_len)),
            Backend::Intervals => Index::Intervals(Intervals::new(d.key_len)),
            Backend::ConcatenatedRanges => Index::Ranges(Ranges::new(d.key_len, &d.fields)),
            Backend::HashFast | Backend::Hash | Backend::ResizableHash if d.key_len == 4 => {
                Index::HashWords(HashWords::new())
            }
            Backend::HashFast | Backend::Hash | Backend::ResizableHash => {
                Index::HashBytes(HashBytes::new(d.key_len))
            }
        }
    }
}

impl<V: Clone> Set<V> {
    /// An empty set with the backend that suits the description; `None` if no backend can do it
    /// (`EOPNOTSUPP`).
    pub fn new(description: Description) -> Option<Self> {
        let backend = Backend::select(&description)?;
        let mut set = Self::with_backend(description, backend)?;
        set.index = Arc::new(Index::choose(backend, &set.description, 0));
        set.chosen = true;
        Some(set)
    }

    /// An empty set with a backend of the caller's choice; `None` if that cannot hold such a set.
    pub fn with_backend(description: Description, backend: Backend) -> Option<Self> {
        if description.key_len == 0 || description.key_len > 64 || !backend.suits(&description) {
            return None;
        }
        let index = Arc::new(Index::new(backend, &description));
        let slots = Slots::new(description.key_len);
        let description = Arc::new(description);
        Some(Set {
            description,
            backend,
            index,
            slots,
            catch_all: None,
            first_expiry: u64::MAX,
            chosen: false,
            presence_only: false,
        })
    }

    /// Inserts an element. One with an empty key is the catch-all, which no size counts. On an
    /// error the set is unchanged, but for expired elements, which are gone.
    pub fn insert(&mut self, element: Element<V>, now: u64) -> Result<(), InsertError> {
        self.presence_only = false;
        self.try_insert(element, now).map_err(|(error, _)| error)
    }

    /// [`Set::insert`] that returns a refused element.
    pub fn try_insert(
        &mut self,
        element: Element<V>,
        now: u64,
    ) -> Result<(), (InsertError, Element<V>)> {
        if self.first_expiry <= now {
            self.sweep(now);
        }
        let expiry = element.expires_at.unwrap_or(u64::MAX);
        if element.key.is_empty() {
            if self.catch_all.is_some() {
                return Err((InsertError::Exists, element));
            }
            self.catch_all = Some(Arc::new(element));
        } else if let Err(error) = self.index_key(&element) {
            return Err((error, element));
        } else {
            self.slots.put(element);
        }
        self.first_expiry = self.first_expiry.min(expiry);
        Ok(())
    }

    /// Notes the key for the slot that is next.
    fn index_key(&mut self, element: &Element<V>) -> Result<(), InsertError> {
        let key = &*element.key;
        let end = element.key_end.as_deref().unwrap_or(key);
        if key.len() != self.description.key_len || end.len() != key.len() {
            return Err(InsertError::Invalid);
        }
        if !self.description.interval && key != end {
            return Err(InsertError::Invalid);
        }
        if self.exact_slot(key, Some(end)).is_some() {
            return Err(InsertError::Exists);
        }
        let full =
            self.description.size.is_some_and(|max| max > 0 && self.slots.len() >= max as usize);
        let slot = self.slots.next();
        match (Arc::make_mut(&mut self.index), full) {
            (Index::Intervals(i), false) => i.insert(key, end, slot)?,
            (Index::Ranges(i), false) => i.insert(key, end, slot)?,
            // The kernel inserts first and counts then: what clashes is refused for that.
            (Index::Intervals(i), true) => {
                i.insert(key, end, slot)?;
                i.remove(key, end);
            }
            (Index::Ranges(i), true) => {
                i.insert(key, end, slot)?;
                i.remove(key, end);
            }
            (_, true) => {}
            (Index::Bitmap(i), false) => i.insert(key, slot),
            (Index::HashWords(i), false) => i.insert(key, slot),
            (Index::HashBytes(i), false) => i.insert(key, slot),
        }
        if full { Err(InsertError::Full) } else { Ok(()) }
    }

    /// Makes room for so many more elements.
    pub fn reserve(&mut self, more: usize) {
        match Arc::make_mut(&mut self.index) {
            Index::HashWords(i) => i.reserve(more),
            Index::HashBytes(i) => i.reserve(more),
            Index::Bitmap(_) | Index::Intervals(_) | Index::Ranges(_) => {}
        }
    }

    /// Changes value and expiry of the element with exactly this key or interval; `false` if there
    /// is none.
    pub fn modify(
        &mut self,
        key: &[u8],
        key_end: Option<&[u8]>,
        now: u64,
        change: impl FnOnce(&mut V, &mut Option<u64>),
    ) -> bool {
        self.presence_only = false;
        if self.find(key, key_end, now).is_none() {
            return false;
        }
        let expires_at = match self.exact_slot(key, key_end) {
            _ if key.is_empty() => self.catch_all.as_mut().map(|element| {
                let element = Arc::make_mut(element);
                change(&mut element.value, &mut element.expires_at);
                element.expires_at
            }),
            Some(slot) => self.slots.modify(slot, change),
            None => None,
        };
        let Some(expires_at) = expires_at else { return false };
        self.first_expiry = self.first_expiry.min(expires_at.unwrap_or(u64::MAX));
        true
    }

    /// Removes the element with exactly this key or interval; an expired one is not there.
    pub fn remove(&mut self, key: &[u8], key_end: Option<&[u8]>, now: u64) -> Option<Element<V>> {
        self.find(key, key_end, now)?;
        if key.is_empty() {
            return self.catch_all.take().map(Arc::unwrap_or_clone);
        }
        let slot = self.exact_slot(key, key_end)?;
        self.remove_slot(slot)
    }

    /// Removes the element that a delete with this key means to the kernel: exactly this one, but
    /// of concatenated ranges the first that contains the key (`nft_pipapo_deactivate` does not
    /// look at the end).
    pub fn delete(&mut self, key: &[u8], key_end: Option<&[u8]>, now: u64) -> Option<Element<V>> {
        if self.backend != Backend::ConcatenatedRanges || key.is_empty() {
            return self.remove(key, key_end, now);
        }
        let slot = self.slot(key, now)?;
        self.remove_slot(slot)
    }

    fn remove_slot(&mut self, slot: u32) -> Option<Element<V>> {
        let element = self.slots.take(slot)?;
        let (key, end) = (&*element.key, element.key_end.as_deref().unwrap_or(&element.key));
        match Arc::make_mut(&mut self.index) {
            Index::Bitmap(i) => i.remove(key),
            Index::HashWords(i) => i.remove(key),
            Index::HashBytes(i) => i.remove(key),
            Index::Intervals(i) => i.remove(key, end),
            Index::Ranges(i) => i.remove(key, end),
        };
        Some(element)
    }

    /// Another limit to the number of elements. More may be there already.
    pub fn set_size(&mut self, size: Option<u32>) {
        Arc::make_mut(&mut self.description).size = size;
    }

    /// Whether [`Set::sweep`] may find something.
    pub fn has_expired(&self, now: u64) -> bool {
        self.first_expiry <= now
    }

    /// Removes what has expired.
    pub fn sweep(&mut self, now: u64) {
        if self.first_expiry > now {
            return;
        }
        let gone: Vec<u32> =
            self.slots.iter().filter(|(_, e)| !e.is_alive(now)).map(|(slot, _)| slot).collect();
        for slot in gone {
            self.remove_slot(slot);
        }
        self.catch_all.take_if(|e| !e.is_alive(now));
        self.first_expiry =
            self.iter_unordered().filter_map(|e| e.expires_at).min().unwrap_or(u64::MAX);
    }

    /// An index for so many elements.
    pub(crate) fn empty_index(&self, len: usize) -> Index {
        match self.chosen {
            true => Index::choose(self.backend, &self.description, len),
            false => Index::new(self.backend, &self.description),
        }
    }

    /// Takes elements, none of which expires, and their index.
    pub(crate) fn fill(&mut self, index: Index, slots: Slots<V>) {
        self.index = Arc::new(index);
        self.slots = slots;
        self.presence_only = false;
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.index = Arc::new(self.empty_index(0));
        self.slots = Slots::new(self.description.key_len);
        self.catch_all = None;
        self.first_expiry = u64::MAX;
    }

    /// Ends a series of changes: brings the lookup structure into the form that is fast to search
    /// (the kernel's `commit`). Lookups before it are right, but may be slow.
    pub fn commit(&mut self) {
        if self.is_committed() {
            return;
        }
        if self.outgrown() {
            let mut index = Index::choose(self.backend, &self.description, self.slots.len());
            for (slot, element) in self.slots.iter() {
                match &mut index {
                    Index::Bitmap(i) => i.insert(element.key, slot),
                    Index::HashWords(i) => i.insert(element.key, slot),
                    Index::HashBytes(i) => i.insert(element.key, slot),
                    Index::Intervals(_) | Index::Ranges(_) => {}
                }
            }
            self.index = Arc::new(index);
            return;
        }
        let small = self.description.policy == Policy::Memory;
        match Arc::make_mut(&mut self.index) {
            Index::Intervals(i) => i.seal(small),
            Index::Ranges(i) => i.seal(small),
            Index::Bitmap(_) | Index::HashWords(_) | Index::HashBytes(_) => {}
        }
    }
}
