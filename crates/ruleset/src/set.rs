// SPDX-License-Identifier: Apache-2.0

//! Sets and maps, and what a batch does to their elements.

use std::borrow::Cow;
use std::sync::Arc;

use penstock_program::dynamic::{DynamicSet, NewElement};
use penstock_program::expr::{Expr, set_statements};
use penstock_program::{Data, State};
use penstock_sets::{Backend, Description, Element, ElementList, InsertError, Structure};

use crate::content::{Content, Edit, Reservation, Staged, Told};
use crate::element::{ElementData, ElementExtras, ElementValue, MapData};
use crate::userdata::UserData;

/// Size of a set that rules change and that has none (`nft_dynset_init()`).
const DYNAMIC_SIZE: u32 = 0xffff;

/// A set or map.
#[derive(Clone, Debug)]
pub struct Set {
    /// Unique in the table. Anonymous ones have the kernel's `__set%d` and `__map%d` names.
    pub name: Arc<str>,
    /// `NFTA_SET_HANDLE`.
    pub handle: u64,
    /// Dies with its rule.
    pub anonymous: bool,
    /// `NFTA_SET_KEY_TYPE`: nft's number for the data type, opaque here.
    pub key_type: u32,
    /// `NFTA_SET_DATA_TYPE`: nft's number for the type of the data, opaque here.
    pub data_type: u32,
    /// What it maps to; `None` for sets.
    pub data: Option<MapData>,
    /// What the choice of a backend depends on.
    pub description: Description,
    /// Default life of elements in milliseconds; 0 for none.
    pub timeout: u64,
    /// Milliseconds; 0 for the default.
    pub gc_interval: u32,
    /// Statements of which each element gets its own copy.
    pub exprs: Vec<Expr>,
    /// The language's.
    pub userdata: UserData,
    /// A set of intervals whose program sent no end at the first key, as nft does to say that
    /// nothing is before its first interval: dumps have none, either.
    pub gapless: bool,
    /// Elements: [`Set::elements`].
    pub content: Content,
    /// What the latest batch that changed its elements did, where packets change them, too:
    /// [`Set::come`].
    pub told: Arc<Told>,
}

/// How far a batch has come with a set: [`Set::go_back`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    edits: usize,
    removed: u32,
}

impl Set {
    /// All elements at this moment, for sets that packets change a copy.
    pub fn elements(&self) -> Cow<'_, penstock_sets::Set<ElementValue>> {
        match &self.content {
            Content::Fixed(elements) => Cow::Borrowed(elements),
            Content::Staged(staged) => Cow::Borrowed(&staged.elements),
            Content::Dynamic(set) => Cow::Owned(self.copy_of(set)),
        }
    }

    /// The set with those elements only that the latest batch that changed them has added, where
    /// packets change them, too. Nothing of a batch with more than 65,536 changes.
    pub fn come(&self) -> Set {
        self.with_only(&self.told.come)
    }

    /// The set with those elements only that the latest batch has removed, as [`Set::come`].
    pub fn gone(&self) -> Set {
        self.with_only(&self.told.gone)
    }

    fn with_only(&self, all: &[Element<ElementValue>]) -> Set {
        let description = penstock_sets::Description { size: None, ..self.description.clone() };
        let Some(mut elements) =
            penstock_sets::Set::with_backend(description, Backend::ResizableHash)
        else {
            unreachable!("packets change it: it is a hash");
        };
        for element in all {
            let _ = elements.insert(element.clone(), 0);
        }
        Set { content: Content::Fixed(elements), ..self.clone() }
    }

    /// The backend that holds the elements.
    pub fn backend(&self) -> Backend {
        match &self.content {
            Content::Fixed(elements) => elements.backend(),
            Content::Dynamic(_) | Content::Staged(_) => Backend::ResizableHash,
        }
    }

    /// The structure that the elements are searched by now.
    pub fn structure(&self) -> Structure {
        match &self.content {
            Content::Fixed(elements) => elements.structure(),
            Content::Dynamic(_) | Content::Staged(_) => Structure::DynamicHash,
        }
    }

    /// The set that packets change, if they do.
    pub fn dynamic(&self) -> Option<&Arc<DynamicSet>> {
        match &self.content {
            Content::Fixed(_) => None,
            Content::Dynamic(set) => Some(set),
            Content::Staged(staged) => Some(&staged.set),
        }
    }

    fn copy_of(&self, set: &Arc<DynamicSet>) -> penstock_sets::Set<ElementValue> {
        let description = penstock_sets::Description { size: None, ..self.description.clone() };
        let Some(mut elements) =
            penstock_sets::Set::with_backend(description, Backend::ResizableHash)
        else {
            unreachable!("it was a hash before packets changed it");
        };
        for element in set.current(0) {
            let state = |statement| {
                Arc::new(State::InSet { set: set.clone(), slot: element.slot, statement })
            };
            let extras = ElementExtras {
                states: (0..element.statements.len()).map(state).collect(),
                exprs: element.statements.iter().map(Expr::from).collect(),
                timeout: (element.timeout != self.timeout).then_some(element.timeout),
                userdata: element.userdata,
            };
            let data = self.data.map(|_| ElementData::Value(Data::new(&element.data)));
            let value = ElementValue::new(data, extras);
            let element =
                Element { key: element.key, key_end: None, value, expires_at: element.expires_at };
            // What came twice while it was copied is there once.
            let _ = elements.insert(element, 0);
        }
        elements.set_size(self.description.size);
        elements
    }

    /// Whether there is memory for a set of this size that packets change, if they do or are about
    /// to.
    pub(crate) fn has_room_for(&self, size: Option<u32>) -> bool {
        let value_len = match self.data {
            None => None,
            Some(MapData::Value { len }) => Some(len),
            Some(MapData::Verdict | MapData::Object(_)) => return true,
        };
        let size = size.filter(|size| *size > 0).unwrap_or(DYNAMIC_SIZE);
        self.dynamic().is_some_and(|set| size <= set.capacity())
            || DynamicSet::has_room(self.description.key_len, value_len, size)
    }

    /// Lets packets change the set: gives it a size and a structure for that. Maps of verdicts and
    /// objects stay as they are, and so does what is dynamic already.
    pub(crate) fn become_dynamic(&mut self) {
        if self.description.size.is_none_or(|size| size == 0) {
            self.description.size = Some(DYNAMIC_SIZE);
        }
        let size = self.description.size.unwrap_or(DYNAMIC_SIZE);
        let value_len = match self.data {
            None => None,
            Some(MapData::Value { len }) => Some(len),
            Some(MapData::Verdict | MapData::Object(_)) => return,
        };
        let Content::Fixed(elements) = &mut self.content else { return };
        let capacity = size.max(u32::try_from(elements.len()).unwrap_or(u32::MAX));
        let set = Arc::new(DynamicSet::new(
            self.description.key_len,
            value_len,
            capacity,
            &set_statements(&self.exprs),
        ));
        elements.set_size(Some(size));
        let edits = elements
            .iter_unordered()
            // There is a place for each.
            .filter_map(|e| {
                Some(Edit::Insert(e.to_element(), Reservation::reserve(&set, e, 0, 0)?))
            })
            .collect();
        set.set_size(size);
        let elements = elements.clone();
        self.content = Content::Staged(Staged { set, elements, edits, removed: 0, size: None });
    }

    /// The elements, to be changed by a batch.
    fn stage(&mut self) -> Stage<'_> {
        if let Content::Dynamic(set) = &self.content {
            let (set, elements) = (set.clone(), self.copy_of(set));
            self.content = Content::Staged(Staged {
                set,
                elements,
                edits: Vec::new(),
                removed: 0,
                size: None,
            });
        }
        match &mut self.content {
            Content::Fixed(elements) => Stage { elements, notes: None },
            Content::Staged(Staged { set, elements, edits, removed, size }) => {
                Stage { elements, notes: Some(Notes { set, edits, removed, size }) }
            }
            Content::Dynamic(_) => unreachable!("it was staged above"),
        }
    }

    /// [`penstock_sets::Set::try_insert`].
    pub(crate) fn insert_element(
        &mut self,
        element: Element<ElementValue>,
        now: u64,
    ) -> Result<(), (InsertError, Element<ElementValue>)> {
        let Stage { elements, notes } = self.stage();
        let Some(notes) = notes else { return elements.try_insert(element, now) };
        elements.try_insert(element.clone(), now)?;
        let Some(place) = Reservation::reserve(notes.set, element.view(), *notes.removed, now)
        else {
            elements.remove(&element.key, None, now);
            return Err((InsertError::Full, element));
        };
        notes.edits.push(Edit::Insert(element, place));
        Ok(())
    }

    /// [`penstock_sets::Set::remove`].
    pub(crate) fn remove_element(
        &mut self,
        key: &[u8],
        key_end: Option<&[u8]>,
        now: u64,
    ) -> Option<Element<ElementValue>> {
        self.take_element(|elements| elements.remove(key, key_end, now))
    }

    /// [`penstock_sets::Set::delete`].
    pub(crate) fn delete_element(
        &mut self,
        key: &[u8],
        key_end: Option<&[u8]>,
        now: u64,
    ) -> Option<Element<ElementValue>> {
        self.take_element(|elements| elements.delete(key, key_end, now))
    }

    fn take_element(
        &mut self,
        take: impl FnOnce(&mut penstock_sets::Set<ElementValue>) -> Option<Element<ElementValue>>,
    ) -> Option<Element<ElementValue>> {
        let Stage { elements, notes } = self.stage();
        let gone = take(elements)?;
        if let Some(mut notes) = notes {
            notes.removed(&gone);
        }
        Some(gone)
    }

    /// Gives an element another timeout and expiry.
    pub(crate) fn modify_element(
        &mut self,
        key: &[u8],
        key_end: Option<&[u8]>,
        now: u64,
        (timeout, expires_at): (Option<u64>, Option<u64>),
    ) {
        let Stage { elements, notes } = self.stage();
        let modified = elements.modify(key, key_end, now, |value, expires| {
            value.change_extras(|extras| extras.timeout = timeout);
            *expires = expires_at;
        });
        if let Some(notes) = notes.filter(|_| modified) {
            notes.edits.push(Edit::Modify { key: key.into(), timeout, expires_at });
        }
    }

    /// Whether it is known to be empty, and its elements are the generation's.
    pub fn is_plainly_empty(&self) -> bool {
        matches!(&self.content, Content::Fixed(elements) if elements.is_empty())
    }

    /// [`penstock_sets::Set::load`]; elements are also returned if packets change the set.
    pub(crate) fn load_elements(
        &mut self,
        elements: ElementList<ElementValue>,
    ) -> Result<(), ElementList<ElementValue>> {
        match &mut self.content {
            Content::Fixed(set) => set.load(elements),
            Content::Dynamic(_) | Content::Staged(_) => Err(elements),
        }
    }

    /// Makes room for so many more elements.
    pub(crate) fn reserve(&mut self, more: usize) {
        if let Content::Fixed(elements) = &mut self.content {
            elements.reserve(more);
        }
    }

    /// Removes all elements.
    pub(crate) fn clear_elements(&mut self) {
        let Stage { elements, notes } = self.stage();
        if let Some(notes) = notes {
            *notes.removed = notes.removed.saturating_add(elements.len() as u32);
            notes
                .edits
                .push(Edit::Clear(elements.iter_unordered().map(|e| e.to_element()).collect()));
        }
        elements.clear();
    }

    /// Takes another timeout for elements that say none. Those that are there keep theirs.
    pub(crate) fn set_timeout(&mut self, timeout: u64, now: u64) {
        let before = std::mem::replace(&mut self.timeout, timeout);
        if before == timeout || !self.description.timeout {
            return;
        }
        let elements = match &mut self.content {
            Content::Fixed(elements) => elements,
            Content::Staged(staged) => &mut staged.elements,
            // Each of them has its timeout as a number.
            Content::Dynamic(_) => return,
        };
        let own = |bytes: &[u8]| Box::<[u8]>::from(bytes);
        let keys: Vec<_> = elements
            .iter_unordered()
            .map(|element| (own(element.key), element.key_end.map(own)))
            .collect();
        for (key, key_end) in keys {
            elements.modify(&key, key_end.as_deref(), now, |value, _| {
                let own = value.timeout().unwrap_or(before);
                value.change_extras(|extras| extras.timeout = Some(own).filter(|t| *t != timeout));
            });
        }
    }

    /// Allows so many elements.
    pub(crate) fn set_size(&mut self, size: Option<u32>) {
        self.description.size = size;
        let Stage { elements, notes } = self.stage();
        elements.set_size(size);
        if let Some(notes) = notes {
            *notes.size = size;
        }
    }

    /// Where the batch is.
    pub(crate) fn mark(&self) -> Mark {
        match &self.content {
            Content::Staged(staged) => Mark { edits: staged.edits.len(), removed: staged.removed },
            Content::Fixed(_) | Content::Dynamic(_) => Mark { edits: 0, removed: 0 },
        }
    }

    /// Forgets what the batch did since then; the elements are as they were already.
    pub(crate) fn go_back(&mut self, mark: Mark) {
        if let Content::Staged(staged) = &mut self.content {
            staged.edits.truncate(mark.edits);
            staged.removed = mark.removed;
        }
    }

    /// Removes what has expired from elements of a generation; those of dynamic sets go by
    /// themselves.
    pub(crate) fn sweep(&mut self, now: u64) {
        if let Content::Fixed(elements) = &mut self.content {
            elements.sweep(now);
        }
    }

    /// Whether [`Set::sweep`] may find something.
    pub(crate) fn has_expired(&self, now: u64) -> bool {
        matches!(&self.content, Content::Fixed(elements) if elements.has_expired(now))
    }

    /// Whether [`Set::commit`] has nothing to do.
    pub(crate) fn is_committed(&self) -> bool {
        match &self.content {
            Content::Fixed(elements) => elements.is_committed(),
            Content::Dynamic(_) => true,
            Content::Staged(_) => false,
        }
    }

    /// Whether it is committed, or a dynamic set, of which packets do not notice the commit.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(&self.content, Content::Staged(_)) || self.is_committed()
    }

    /// Carries out what the batch did to a dynamic set, in its order; others are made fast to
    /// search.
    pub(crate) fn commit(&mut self, now: u64) {
        let staged = match &mut self.content {
            Content::Fixed(elements) => return elements.commit(),
            Content::Dynamic(_) => return,
            Content::Staged(staged) => staged,
        };
        let set = staged.set.clone();
        let edits = std::mem::take(&mut staged.edits);
        let size = staged.size;
        for edit in &edits {
            match edit {
                Edit::Remove(element) => set.remove(&element.key, now),
                Edit::Clear(_) => set.clear(),
                Edit::Modify { key, timeout, expires_at } => {
                    set.modify(key, timeout.unwrap_or(self.timeout), *expires_at, now);
                }
                Edit::Insert(element, place) => {
                    place.take();
                    let value = &element.value;
                    let data = match &value.data {
                        Some(ElementData::Value(data)) => data.bytes(),
                        _ => &[],
                    };
                    // Elements that were there before the set was dynamic may have counted.
                    let statements = set_statements(&value.snapshot(now));
                    let new = NewElement {
                        key: &element.key,
                        data,
                        timeout: value.timeout().unwrap_or(self.timeout),
                        expires_at: element.expires_at,
                        statements: &statements,
                        userdata: value.userdata(),
                    };
                    set.insert_reserved(&new, now);
                }
            }
        }
        if edits.iter().any(|e| matches!(e, Edit::Remove(_) | Edit::Clear(_))) {
            set.tidy();
        }
        self.told = Arc::new(Told::of(&edits));
        self.content = Content::Dynamic(match size {
            Some(size) if size > set.capacity() => Arc::new(set.grown(size)),
            Some(size) => {
                set.set_size(size);
                set
            }
            None => set,
        });
    }
}

/// Elements that a batch may change.
struct Stage<'a> {
    elements: &'a mut penstock_sets::Set<ElementValue>,
    /// For dynamic sets.
    notes: Option<Notes<'a>>,
}

struct Notes<'a> {
    set: &'a Arc<DynamicSet>,
    edits: &'a mut Vec<Edit>,
    removed: &'a mut u32,
    size: &'a mut Option<u32>,
}

impl Notes<'_> {
    fn removed(&mut self, gone: &Element<ElementValue>) {
        if !gone.key.is_empty() {
            *self.removed += 1;
        }
        self.edits.push(Edit::Remove(gone.clone()));
    }
}
