//! Numbered places for elements, in chunks that clones share until one of them changes.

use std::sync::Arc;

use crate::Element;

/// Elements per chunk: what a change of one element copies.
const CHUNK: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct Slots<V> {
    chunks: Vec<Arc<Vec<Option<Element<V>>>>>,
    free: Arc<Vec<u32>>,
    len: usize,
}

impl<V> Slots<V> {
    pub fn new() -> Self {
        Slots { chunks: Vec::new(), free: Arc::new(Vec::new()), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn get(&self, slot: u32) -> Option<&Element<V>> {
        let slot = slot as usize;
        self.chunks.get(slot / CHUNK)?.get(slot % CHUNK)?.as_ref()
    }

    /// Same slots, other values.
    pub fn map<W>(&self, mut f: impl FnMut(&V) -> W) -> Slots<W> {
        let mut element = |e: &Element<V>| Element {
            key: e.key.clone(),
            key_end: e.key_end.clone(),
            value: f(&e.value),
            expires_at: e.expires_at,
        };
        let mut chunk = |c: &Arc<Vec<Option<Element<V>>>>| {
            Arc::new(c.iter().map(|e| e.as_ref().map(&mut element)).collect())
        };
        Slots { chunks: self.chunks.iter().map(&mut chunk).collect(), free: self.free.clone(), len: self.len }
    }

    /// Taken slots, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Element<V>)> {
        let numbered = |(c, chunk): (usize, &'_ Arc<Vec<Option<Element<V>>>>)| (c * CHUNK, chunk.len());
        let ranges = self.chunks.iter().enumerate().map(numbered);
        ranges.flat_map(|(base, n)| base..base + n).filter_map(|i| Some((i as u32, self.get(i as u32)?)))
    }
}

impl<V: Clone> Slots<V> {
    /// The slot that the next [`Slots::put`] takes.
    pub fn next(&self) -> u32 {
        match self.free.last() {
            Some(&slot) => slot,
            None => match self.chunks.last() {
                Some(last) => ((self.chunks.len() - 1) * CHUNK + last.len()) as u32,
                None => 0,
            },
        }
    }

    pub fn put(&mut self, element: Element<V>) -> u32 {
        let slot = self.next();
        self.len += 1;
        if !self.free.is_empty() {
            Arc::make_mut(&mut self.free).pop();
            if let Some(place) = self.place(slot) {
                *place = Some(element);
            }
            return slot;
        }
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => Arc::make_mut(last).push(Some(element)),
            _ => {
                let mut chunk = Vec::with_capacity(if self.chunks.is_empty() { 4 } else { CHUNK });
                chunk.push(Some(element));
                self.chunks.push(Arc::new(chunk));
            }
        }
        slot
    }

    pub fn take(&mut self, slot: u32) -> Option<Element<V>> {
        let element = self.place(slot)?.take()?;
        Arc::make_mut(&mut self.free).push(slot);
        self.len -= 1;
        Some(element)
    }

    pub fn get_mut(&mut self, slot: u32) -> Option<&mut Element<V>> {
        self.place(slot)?.as_mut()
    }

    fn place(&mut self, slot: u32) -> Option<&mut Option<Element<V>>> {
        let slot = slot as usize;
        Arc::make_mut(self.chunks.get_mut(slot / CHUNK)?).get_mut(slot % CHUNK)
    }
}
