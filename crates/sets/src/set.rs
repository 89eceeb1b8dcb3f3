//! A set: its description, its elements, the structure that holds them.

use crate::{Description, Element};

/// Why an element was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// The same key (or the very same interval) is there.
    Exists,
    /// It overlaps another interval.
    Overlap,
    /// The set has as many elements as its size allows.
    Full,
}

/// A set or map. Cloning shares what it can; a clone is what a transaction works on.
#[derive(Clone, Debug)]
pub struct Set<V> {
    description: Description,
    elements: Vec<Element<V>>,
}

impl<V: Clone> Set<V> {
    /// An empty set with the backend that suits the description; `None` if no backend can do it
    /// (`EOPNOTSUPP`).
    pub fn new(description: Description) -> Option<Self> {
        Some(Set { description, elements: Vec::new() })
    }

    /// The description it was made from.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Elements, the catch-all and expired ones included.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Inserts an element. One with an empty key is the catch-all. On [`InsertError::Exists`] the set is unchanged.
    pub fn insert(&mut self, _element: Element<V>, _now: u64) -> Result<(), InsertError> {
        todo!()
    }

    /// The element with exactly this key or interval.
    pub fn find(&self, _key: &[u8], _key_end: Option<&[u8]>, _now: u64) -> Option<&Element<V>> {
        todo!()
    }

    /// Removes the element with exactly this key or interval.
    pub fn remove(&mut self, _key: &[u8], _key_end: Option<&[u8]>, _now: u64) -> Option<Element<V>> {
        todo!()
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.elements.clear();
    }

    /// The element that a packet with this key meets at time `now`: the matching one, else the catch-all.
    #[inline]
    pub fn lookup(&self, _key: &[u8], _now: u64) -> Option<&Element<V>> {
        todo!()
    }

    /// All elements, ascending by key; the catch-all last.
    pub fn iter(&self) -> impl Iterator<Item = &Element<V>> {
        self.elements.iter()
    }

    /// Ends a series of changes: brings the lookup structure up to date (the kernel's `commit`). Lookups before it
    /// may miss what was inserted.
    pub fn commit(&mut self) {}
}
