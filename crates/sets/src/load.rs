// SPDX-License-Identifier: Apache-2.0

//! Many elements into an empty set at once: what loading a large ruleset comes to.

use crate::list::{ElementList, Keys};
use crate::set::{Index, Set};
use crate::slots::Slots;

/// Keys with cells prefetched ahead of their turn.
const AHEAD: usize = 16;

impl<V: Clone + Default> Set<V> {
    /// Puts elements into an empty set, as [`Set::try_insert`] one by one does. They are returned,
    /// and the set is still empty, if one of them would be refused, occurs twice, expires, or is
    /// the catch-all: inserting them one by one shows which.
    pub fn load(&mut self, elements: ElementList<V>) -> Result<(), ElementList<V>> {
        let d = self.description();
        let allowed =
            d.size.filter(|size| *size > 0).is_none_or(|size| elements.len() <= size as usize);
        let (key_len, interval) = (d.key_len, d.interval);
        let fits = |(key, end, _): &Keys<'_>| {
            let end = end.unwrap_or(key);
            key.len() == key_len && end.len() == key_len && (interval || end == *key)
        };
        if !self.is_empty()
            || !allowed
            || !elements.keys().all(|keys| fits(&keys))
            || elements.expires()
        {
            return Err(elements);
        }
        let mut index = self.empty_index(elements.len());
        if !index.load(&elements) {
            return Err(elements);
        }
        self.fill(index, Slots::loaded(key_len, elements));
        Ok(())
    }
}

impl Index {
    /// Takes the keys of all elements; their slots are their numbers. `false` if two have something
    /// in common.
    fn load<V>(&mut self, elements: &ElementList<V>) -> bool {
        let numbered =
            || elements.keys().map(|(key, end, _)| (key, end.unwrap_or(key))).zip(0u32..);
        match self {
            Index::Intervals(i) => i.load(numbered().map(|((key, end), slot)| (key, end, slot))),
            Index::Ranges(i) => {
                numbered().all(|((key, end), slot)| i.insert(key, end, slot).is_ok())
            }
            Index::Bitmap(i) => numbered().all(|((key, _), slot)| {
                let new = i.find(key).is_none();
                i.insert(key, slot);
                new
            }),
            Index::HashWords(i) => {
                i.reserve(elements.len());
                let mut ahead = elements.keys().map(|(key, ..)| key);
                ahead.by_ref().take(AHEAD).for_each(|key| i.prefetch(key));
                numbered().all(|((key, _), slot)| {
                    if let Some(key) = ahead.next() {
                        i.prefetch(key);
                    }
                    i.insert_new(key, slot)
                })
            }
            Index::HashBytes(i) => {
                i.reserve(elements.len());
                let mut ahead = elements.keys().map(|(key, ..)| key);
                ahead.by_ref().take(AHEAD).for_each(|key| i.prefetch(key));
                numbered().all(|((key, _), slot)| {
                    if let Some(key) = ahead.next() {
                        i.prefetch(key);
                    }
                    i.insert_new(key, slot)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Backend, Description, Element};

    /// Loaded or inserted, a set is the same; and what cannot be loaded is what insertion refuses.
    #[test]
    fn bulk_loading_equals_inserting_each() {
        let mut rng = fastrand::Rng::with_seed(7);
        let (mut loaded, mut refused) = (0, 0);
        for _ in 0..if cfg!(miri) { 20 } else { 3000 } {
            let key_len = [1, 2, 4, 6, 8, 16, 20][rng.usize(..7)];
            let interval = rng.bool();
            let fields = if key_len == 8 && rng.bool() { vec![4, 4] } else { Vec::new() };
            let size = [None, Some(0), Some(5), Some(100)][rng.usize(..4)];
            let description =
                Description { key_len, interval, fields, size, ..Description::default() };
            let Some(empty) = Set::<u32>::new(description) else { continue };
            let span = [4, 40, 250][rng.usize(..3)];
            let key = |rng: &mut fastrand::Rng| -> Box<[u8]> {
                let mut key = vec![0; key_len];
                let at = rng.usize(..key_len.min(2));
                key[at] = rng.u8(..span);
                key.into()
            };
            let mut elements = Vec::new();
            for n in 0..rng.u32(1..9) {
                let key = if rng.u8(..60) == 0 { [9; 3].into() } else { key(&mut rng) };
                let mut key_end = (rng.u8(..4) == 0).then(|| key.clone());
                if let Some(end) = key_end.as_mut().filter(|_| rng.bool())
                    && let Some(last) = end.last_mut()
                {
                    *last = last.saturating_add(rng.u8(..3));
                }
                elements.push(Element { key, key_end, value: n * rng.u32(..2), expires_at: None });
            }
            let mut inserted = empty.clone();
            let right = elements.iter().all(|e| inserted.insert(e.clone(), 0).is_ok());
            let mut set = empty.clone();
            let list: ElementList<u32> = elements.clone().into();
            match set.load(list.clone()) {
                Ok(()) => {
                    assert!(right, "{elements:?}");
                    inserted.commit();
                    assert!(set.iter().eq(inserted.iter()), "{elements:?}");
                    set.commit();
                    assert_eq!(set.structure(), inserted.structure());
                    assert!(set.iter().eq(inserted.iter()), "{elements:?}");
                    for e in &elements {
                        assert_eq!(set.lookup(&e.key, 0), inserted.lookup(&e.key, 0));
                        assert!(set.remove(&e.key, e.key_end.as_deref(), 0).is_some());
                    }
                    assert!(set.is_empty());
                    loaded += 1;
                }
                Err(back) => {
                    assert!(!right, "{elements:?}");
                    assert_eq!(back, list);
                    assert!(set.is_empty());
                    refused += 1;
                }
            }
        }
        assert!(loaded > 500 && refused > 500, "{loaded} {refused}");
    }

    #[test]
    fn catch_all_and_expiring_elements_are_not_bulk_loaded() {
        let description = Description { key_len: 4, timeout: true, ..Description::default() };
        let element = |key: &[u8], expires_at| Element {
            key: key.into(),
            key_end: None,
            value: 0,
            expires_at,
        };
        for element in [element(&[], None), element(&[1, 2, 3, 4], Some(5))] {
            let Some(mut set) = Set::<u32>::with_backend(description.clone(), Backend::Hash) else {
                continue;
            };
            assert!(set.load(vec![element.clone()].into()).is_err());
            assert!(set.insert(element, 0).is_ok());
            assert!(set.load(ElementList::new()).is_err());
        }
    }
}
