// SPDX-License-Identifier: Apache-2.0

//! Numbered places for elements, in chunks that clones share until one of them changes.
//!
//! A chunk holds keys, values and expiries apart: most elements of large sets are a key and nothing
//! else, and cost no more than that. The keys are shared with copies that have other values.

use std::sync::Arc;

use crate::{Element, ElementList, ElementRef};

/// Elements per chunk: what a change of one element copies.
const CHUNK: usize = 256;

/// Slots from one step of loading memory ahead to the next.
const AHEAD: usize = 8;

/// An expiry that never comes.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Slots<V> {
    key_len: usize,
    chunks: Vec<Arc<Chunk<V>>>,
    free: Arc<Vec<u32>>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Chunk<V> {
    keys: Arc<Keys>,
    /// `None` where a slot is free.
    values: Vec<Option<V>>,
    /// Empty as long as none expires, then as long as `values`.
    expiries: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Keys {
    first: Vec<u8>,
    /// Which elements have an end, and the ends; empty as long as none has.
    ended: Vec<bool>,
    last: Vec<u8>,
}

impl<V> Default for Chunk<V> {
    fn default() -> Self {
        Chunk { keys: Arc::default(), values: Vec::new(), expiries: Vec::new() }
    }
}

impl Keys {
    #[inline]
    fn ends(&self, at: usize, len: usize) -> (&[u8], Option<&[u8]>) {
        let bytes = at * len..(at + 1) * len;
        let last =
            if self.ended.get(at) == Some(&true) { self.last.get(bytes.clone()) } else { None };
        (self.first.get(bytes).unwrap_or_default(), last)
    }

    /// Keys have the length `len`.
    fn set(&mut self, at: usize, len: usize, key: &[u8], key_end: Option<&[u8]>) {
        let bytes = at * len..(at + 1) * len;
        if self.first.len() < bytes.end {
            self.first.resize(bytes.end, 0);
        }
        self.first[bytes.clone()].copy_from_slice(key);
        if let Some(ended) = self.ended.get_mut(at) {
            *ended = false;
        }
        if let Some(end) = key_end {
            if self.ended.len() <= at {
                self.ended.resize(at + 1, false);
            }
            if self.last.len() < bytes.end {
                self.last.resize(bytes.end, 0);
            }
            self.ended[at] = true;
            self.last[bytes].copy_from_slice(end);
        }
    }
}

impl<V> Chunk<V> {
    #[inline]
    fn get(&self, at: usize, key_len: usize) -> Option<ElementRef<'_, V>> {
        let value = self.values.get(at)?.as_ref()?;
        let (key, key_end) = self.keys.ends(at, key_len);
        let expires_at = self.expiries.get(at).copied().filter(|&expiry| expiry != NEVER);
        Some(ElementRef { key, key_end, value, expires_at })
    }

    /// Same keys and expiries, other values.
    fn map<W>(&self, f: &mut impl FnMut(&V) -> W) -> Chunk<W> {
        let values = self.values.iter().map(|v| v.as_ref().map(&mut *f)).collect();
        Chunk { keys: self.keys.clone(), values, expiries: self.expiries.clone() }
    }

    fn set_expiry(&mut self, at: usize, expires_at: Option<u64>) {
        if let Some(expiry) = self.expiries.get_mut(at) {
            *expiry = NEVER;
        }
        if let Some(expires_at) = expires_at {
            if self.expiries.len() <= at {
                self.expiries.resize(at + 1, NEVER);
            }
            // The end of time is as good as a moment before it.
            self.expiries[at] = expires_at.min(NEVER - 1);
        }
    }
}

impl<V> Slots<V> {
    /// For keys of this length.
    pub fn new(key_len: usize) -> Self {
        Slots { key_len, chunks: Vec::new(), free: Arc::new(Vec::new()), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn get(&self, slot: u32) -> Option<ElementRef<'_, V>> {
        let slot = slot as usize;
        self.chunks.get(slot / CHUNK)?.get(slot % CHUNK, self.key_len)
    }

    /// Has an element's memory loaded.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        if let Some(chunk) = self.chunks.get(slot as usize / CHUNK) {
            penstock_classify::prefetch(&chunk.values, slot as usize % CHUNK);
        }
    }

    /// Has memory loaded for who goes through slots in this order, and is at one of them: what
    /// leads to it for those that are far ahead, themselves for those that are next.
    #[inline]
    pub fn prefetch_ahead(&self, order: &[u32], at: usize) {
        let chunk = |ahead: usize| {
            let slot = *order.get(at + ahead * AHEAD)? as usize;
            Some((self.chunks.get(slot / CHUNK)?, slot % CHUNK))
        };
        if let Some((chunk, _)) = chunk(3) {
            penstock_classify::prefetch(std::slice::from_ref(&**chunk), 0);
        }
        if let Some((chunk, at)) = chunk(2) {
            penstock_classify::prefetch(std::slice::from_ref(&*chunk.keys), 0);
            penstock_classify::prefetch(&chunk.values, at);
        }
        if let Some((chunk, at)) = chunk(1) {
            penstock_classify::prefetch(&chunk.keys.first, at * self.key_len);
        }
    }

    /// Same slots, other values.
    pub fn map<W>(&self, mut f: impl FnMut(&V) -> W) -> Slots<W> {
        let chunks = self.chunks.iter().map(|c| Arc::new(c.map(&mut f))).collect();
        Slots { key_len: self.key_len, chunks, free: self.free.clone(), len: self.len }
    }

    /// [`Slots::map`], where values are taken from what was made of earlier slots in chunks that these
    /// share with them.
    pub fn map_after<W>(
        &self,
        (before, made): (&Slots<V>, &Slots<W>),
        mut f: impl FnMut(&V) -> W,
    ) -> Slots<W> {
        let chunk =
            |(n, c): (usize, &Arc<Chunk<V>>)| match (before.chunks.get(n), made.chunks.get(n)) {
                (Some(before), Some(made)) if Arc::ptr_eq(before, c) => made.clone(),
                _ => Arc::new(c.map(&mut f)),
            };
        let chunks = self.chunks.iter().enumerate().map(chunk).collect();
        Slots { key_len: self.key_len, chunks, free: self.free.clone(), len: self.len }
    }

    /// Taken slots in chunks that these do not share with others, in no order.
    pub fn iter_apart<'a>(
        &'a self,
        other: &'a Slots<V>,
    ) -> impl Iterator<Item = (u32, ElementRef<'a, V>)> {
        let apart = |(n, chunk): &(usize, &'a Arc<Chunk<V>>)| {
            !other.chunks.get(*n).is_some_and(|other| Arc::ptr_eq(chunk, other))
        };
        let chunks = self.chunks.iter().enumerate().filter(apart);
        chunks.flat_map(move |(n, chunk)| {
            let element = move |at| Some(((n * CHUNK + at) as u32, chunk.get(at, self.key_len)?));
            (0..chunk.values.len()).filter_map(element)
        })
    }

    /// Taken slots, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, ElementRef<'_, V>)> {
        let numbered = |(c, chunk): (usize, &'_ Arc<Chunk<V>>)| (c * CHUNK, chunk.values.len());
        let ranges = self.chunks.iter().enumerate().map(numbered);
        ranges
            .flat_map(|(base, n)| base..base + n)
            .filter_map(|i| Some((i as u32, self.get(i as u32)?)))
    }
}

impl<V: Clone> Slots<V> {
    /// All elements of a list in their order. Their keys have the length of all, none expires.
    pub fn loaded(key_len: usize, elements: ElementList<V>) -> Self
    where
        V: Default,
    {
        let len = elements.len();
        let mut chunks = Vec::with_capacity(len.div_ceil(CHUNK));
        let (mut keys, mut values) = (Keys::default(), Vec::new());
        let mut at = 0;
        elements.consume(|key, key_end, value| {
            if at % CHUNK == 0 {
                let room = CHUNK.min(len - at);
                keys.first.reserve_exact(room * key_len);
                values.reserve_exact(room);
            }
            match key_end {
                None if keys.ended.is_empty() => keys.first.extend_from_slice(key),
                _ => keys.set(at % CHUNK, key_len, key, key_end),
            }
            values.push(Some(value));
            at += 1;
            if at % CHUNK == 0 || at == len {
                let keys = Arc::new(std::mem::take(&mut keys));
                chunks.push(Arc::new(Chunk {
                    keys,
                    values: std::mem::take(&mut values),
                    expiries: Vec::new(),
                }));
            }
        });
        Slots { key_len, chunks, free: Arc::new(Vec::new()), len }
    }

    /// The slot that the next [`Slots::put`] takes.
    pub fn next(&self) -> u32 {
        match self.free.last() {
            Some(&slot) => slot,
            None => match self.chunks.last() {
                Some(last) => ((self.chunks.len() - 1) * CHUNK + last.values.len()) as u32,
                None => 0,
            },
        }
    }

    /// Its keys must have the length of all.
    pub fn put(&mut self, element: Element<V>) -> u32 {
        let slot = self.next();
        let (key_len, at) = (self.key_len, slot as usize % CHUNK);
        self.len += 1;
        if !self.free.is_empty() {
            Arc::make_mut(&mut self.free).pop();
        }
        if slot as usize / CHUNK >= self.chunks.len() {
            self.chunks.push(Arc::default());
        }
        if let Some(chunk) = self.chunks.get_mut(slot as usize / CHUNK) {
            let chunk = Arc::make_mut(chunk);
            Arc::make_mut(&mut chunk.keys).set(
                at,
                key_len,
                &element.key,
                element.key_end.as_deref(),
            );
            chunk.set_expiry(at, element.expires_at);
            match chunk.values.get_mut(at) {
                Some(place) => *place = Some(element.value),
                None => chunk.values.push(Some(element.value)),
            }
        }
        slot
    }

    pub fn take(&mut self, slot: u32) -> Option<Element<V>> {
        let at = slot as usize % CHUNK;
        let chunk = Arc::make_mut(self.chunks.get_mut(slot as usize / CHUNK)?);
        let gone = chunk.get(at, self.key_len)?.with_value(());
        let value = chunk.values.get_mut(at)?.take()?;
        Arc::make_mut(&mut self.free).push(slot);
        self.len -= 1;
        Some(Element { key: gone.key, key_end: gone.key_end, value, expires_at: gone.expires_at })
    }

    /// Changes value and expiry; returns the new expiry, `None` if the slot is free.
    pub fn modify(
        &mut self,
        slot: u32,
        change: impl FnOnce(&mut V, &mut Option<u64>),
    ) -> Option<Option<u64>> {
        let at = slot as usize % CHUNK;
        let chunk = Arc::make_mut(self.chunks.get_mut(slot as usize / CHUNK)?);
        let mut expires_at = chunk.get(at, self.key_len)?.expires_at;
        change(chunk.values.get_mut(at)?.as_mut()?, &mut expires_at);
        chunk.set_expiry(at, expires_at);
        Some(expires_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_the_latest_value() {
        let element = |n: u8, end: Option<u8>, expires_at| Element {
            key: [n, n].into(),
            key_end: end.map(|e| [e, e].into()),
            value: n,
            expires_at,
        };
        let mut slots = Slots::new(2);
        let all = [
            element(1, None, None),
            element(2, Some(3), None),
            element(4, None, Some(7)),
            element(5, Some(5), Some(u64::MAX - 1)),
        ];
        for e in &all {
            slots.put(e.clone());
        }
        let older = slots.clone();
        for (slot, e) in all.iter().enumerate() {
            assert_eq!(slots.get(slot as u32), Some(e.view()));
            assert_eq!(slots.take(slot as u32).as_ref(), Some(e));
            assert_eq!(slots.get(slot as u32), None);
        }
        // Previous contents leave no trace.
        for (slot, e) in all.iter().enumerate() {
            assert_eq!(slots.put(e.clone()), 3 - slot as u32);
            assert_eq!(slots.get(3 - slot as u32), Some(e.view()));
            assert_eq!(older.get(slot as u32), Some(e.view()));
        }
        assert_eq!(slots.modify(0, |value, expiry| (*value, *expiry) = (9, None)), Some(None));
        assert_eq!(slots.get(0).map(|e| (*e.value, e.expires_at)), Some((9, None)));
    }
}
