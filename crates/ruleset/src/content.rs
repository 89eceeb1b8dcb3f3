// SPDX-License-Identifier: Apache-2.0

//! What sets hold: elements of a generation, or elements that packets change.
//!
//! A set becomes dynamic with the first rule that changes it. Its elements are then no part of
//! generations: all of them, and the packets, share one [`DynamicSet`]. A transaction works on a
//! copy of the elements and notes what it did; the notes are carried out when it is committed. What
//! packets change meanwhile stays, unless the batch says otherwise of the very same element. New
//! elements reserve their places when the batch adds them, so that packets cannot take them away,
//! and give them back if the batch comes to nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use penstock_program::dynamic::DynamicSet;
use penstock_sets::{Element, ElementRef};

use crate::element::ElementValue;

/// Elements of a set. [`Set::elements`](crate::Set::elements) shows them.
#[derive(Clone, Debug)]
pub enum Content {
    /// The generation's.
    Fixed(penstock_sets::Set<ElementValue>),
    /// Packets change them.
    Dynamic(Arc<DynamicSet>),
    /// Packets change them, and a batch that is not committed has.
    Staged(Staged),
}

/// A dynamic set and what a batch does to it.
#[derive(Clone, Debug)]
pub struct Staged {
    pub(crate) set: Arc<DynamicSet>,
    /// All elements, as they will be.
    pub(crate) elements: penstock_sets::Set<ElementValue>,
    pub(crate) edits: Vec<Edit>,
    /// Elements that the batch removes: so many places will be free.
    pub(crate) removed: u32,
    /// Another size.
    pub(crate) size: Option<u32>,
}

/// A step of a batch.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Insert(Element<ElementValue>, Arc<Reservation>),
    Remove(Element<ElementValue>),
    Modify { key: Box<[u8]>, timeout: Option<u64>, expires_at: Option<u64> },
    Clear(Vec<Element<ElementValue>>),
}

/// Elements that a batch has added to a set and removed from it; what came and went in it is in
/// neither.
#[derive(Clone, Debug, Default)]
pub struct Told {
    pub(crate) come: Vec<Element<ElementValue>>,
    pub(crate) gone: Vec<Element<ElementValue>>,
}

impl Told {
    /// Elements that are kept at most, of a batch with more none.
    const MOST: usize = 1 << 16;

    pub(crate) fn of(edits: &[Edit]) -> Told {
        let count = |edit: &Edit| match edit {
            Edit::Clear(all) => all.len(),
            Edit::Insert(..) | Edit::Remove(_) | Edit::Modify { .. } => 1,
        };
        if edits.iter().map(count).sum::<usize>() > Self::MOST {
            return Told::default();
        }
        let mut come: Vec<Option<&Element<ElementValue>>> = Vec::new();
        let (mut places, mut gone) = (HashMap::<&[u8], usize>::new(), Vec::new());
        for edit in edits {
            let removed = match edit {
                Edit::Insert(element, _) => {
                    places.insert(&element.key, come.len());
                    come.push(Some(element));
                    continue;
                }
                Edit::Remove(element) => std::slice::from_ref(element),
                Edit::Clear(all) => all,
                Edit::Modify { .. } => continue,
            };
            for element in removed {
                match places.remove(&*element.key).and_then(|at| come.get_mut(at)) {
                    Some(place) => *place = None,
                    None => gone.push(element.clone()),
                }
            }
        }
        Told { come: come.into_iter().flatten().cloned().collect(), gone }
    }
}

/// A reserved place.
#[derive(Debug)]
pub(crate) struct Reservation {
    set: Arc<DynamicSet>,
    /// It was used, or there was nothing to reserve.
    taken: AtomicBool,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !*self.taken.get_mut() {
            self.set.release();
        }
    }
}

impl Reservation {
    /// Marks the slot as used, so that it is not released.
    pub(crate) fn take(&self) {
        self.taken.store(true, Relaxed);
    }

    /// A place for an element, `beyond` so many more than the size allows; the catch-all needs
    /// none.
    pub(crate) fn reserve(
        set: &Arc<DynamicSet>,
        element: ElementRef<'_, ElementValue>,
        beyond: u32,
        now: u64,
    ) -> Option<Arc<Reservation>> {
        let needed = !element.key.is_empty();
        if needed && !set.reserve(beyond, now) {
            return None;
        }
        Some(Arc::new(Reservation { set: set.clone(), taken: AtomicBool::new(!needed) }))
    }
}
