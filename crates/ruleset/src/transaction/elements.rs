// SPDX-License-Identifier: Apache-2.0

//! Elements of sets and maps.

use std::sync::Arc;

use penstock_program::Verdict;
use penstock_program::expr::Expr;
use penstock_program::reference::Reference;
use penstock_sets::{Element, ElementList, InsertError};

use super::index::place;
use super::reach::Reach;
use super::sets::STATEMENTS_MAX;
use super::{Applied, OpenTable};
use crate::change::Mode;
use crate::model::{ElementData, ElementValue, MapData, Set};
use crate::references;
use crate::set::Mark;
use crate::{Blame, Errno, Error, Family, live};

/// Nanoseconds per millisecond.
const MILLISECOND: u64 = 1_000_000;

/// How to undo a refused change.
enum Undo {
    Remove(Box<[u8]>, Option<Box<[u8]>>),
    Restore(Box<[u8]>, Option<Box<[u8]>>, Option<u64>, Option<u64>),
    Insert(Element<ElementValue>),
}

/// How to undo a change.
enum Log {
    /// The set was empty.
    All,
    /// Step by step, the last one first.
    Steps(Vec<Undo>),
}

impl Log {
    fn wants(&self) -> bool {
        matches!(self, Log::Steps(_))
    }

    fn note(&mut self, step: Option<Undo>) {
        if let Log::Steps(steps) = self {
            steps.extend(step);
        }
    }
}

impl OpenTable<'_> {
    pub(super) fn set_place(&self, name: &Arc<str>) -> Result<usize, Error> {
        let name = self.final_name(name);
        let handle = self.index.sets.get(&name);
        handle
            .and_then(|&h| place(&self.table.sets, h))
            .ok_or(Error::new(Errno::Enoent, Blame::Set))
    }

    pub(super) fn add_elements(
        &mut self,
        name: &Arc<str>,
        mode: Mode,
        elements: ElementList<ElementValue>,
    ) -> Result<Applied, Error> {
        let at = self.set_place(name)?;
        let set = &self.table.sets[at];
        if self.index.uses(set.handle) > 0 && (set.description.constant || set.anonymous) {
            return Err(Error::new(Errno::Ebusy, Blame::Whole));
        }
        let elements = match self.load_elements(at, elements) {
            Ok(()) => return Ok(Applied { handle: Some(self.table.sets[at].handle), name: None }),
            Err(elements) => elements,
        };
        let set = &self.table.sets[at];
        let mark = set.mark();
        // Elements added to an empty set need no undo log, unless their verdicts are followed.
        let leads_on = set.data == Some(MapData::Verdict) && self.index.uses(set.handle) > 0;
        let mut undo =
            if set.is_plainly_empty() && !leads_on { Log::All } else { Log::Steps(Vec::new()) };
        Arc::make_mut(&mut self.table.sets[at]).reserve(elements.len());
        for (i, element) in elements.into_elements().enumerate() {
            if let Err(errno) = self.add_element(at, mode, element, &mut undo) {
                self.take_back(at, undo, mark);
                return Err(Error::new(errno, Blame::Element(i)));
            }
        }
        self.check_elements_reach(at, &undo);
        Ok(Applied { handle: Some(self.table.sets[at].handle), name: None })
    }

    /// Gives an empty set all its elements at once. They come back if there is more to them than
    /// key and data that refers to nothing, or if one of them would be refused.
    fn load_elements(
        &mut self,
        at: usize,
        elements: ElementList<ElementValue>,
    ) -> Result<(), ElementList<ElementValue>> {
        let set = &self.table.sets[at];
        let plain = |value: &ElementValue| {
            value.timeout().is_none()
                && value.exprs().is_empty()
                && references::of_element(set.data, value).is_none()
                && self.check_data(set, value.data.as_ref()).is_ok()
        };
        let complete = set.data.is_none() || elements.values().len() == elements.len();
        let fits = set.is_plainly_empty()
            && !elements.is_empty()
            && complete
            && !set.description.timeout
            && set.exprs.is_empty()
            && elements.values().all(|(value, expires_at)| expires_at.is_none() && plain(value));
        if !fits {
            return Err(elements);
        }
        Arc::make_mut(&mut self.table.sets[at]).load_elements(elements)?;
        self.batch.changed = true;
        Ok(())
    }

    fn add_element(
        &mut self,
        at: usize,
        mode: Mode,
        mut element: Element<ElementValue>,
        undo: &mut Log,
    ) -> Result<(), Errno> {
        let now = self.batch.now;
        if let Some(ElementData::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain))) =
            &mut element.value.data
            && let Some(name) = self.batch.names.get(chain)
        {
            *chain = name.clone();
        }
        let set = &self.table.sets[at];
        self.check_data(set, element.value.data.as_ref())?;
        let expires = element.expires_at.is_some();
        prepare(set, self.table.family, &mut element, now)?;
        let reference = references::of_element(set.data, &element.value);
        if let Some(reference) = reference {
            self.index.count(reference, true);
        }
        let set = Arc::make_mut(&mut self.table.sets[at]);
        let undo_it =
            undo.wants().then(|| Undo::Remove(element.key.clone(), element.key_end.clone()));
        let (error, wanted) = match set.insert_element(element, now) {
            Ok(()) => {
                self.batch.changed = true;
                undo.note(undo_it);
                return Ok(());
            }
            Err(refused) => refused,
        };
        if let Some(reference) = references::of_element(set.data, &wanted.value) {
            self.index.count(reference, false);
        }
        match error {
            InsertError::Exists => {}
            InsertError::Overlap => return Err(Errno::Eexist),
            InsertError::Full => return Err(Errno::Enfile),
            InsertError::Invalid => return Err(Errno::Einval),
        }
        let (key, key_end) = (&wanted.key, wanted.key_end.as_deref());
        let elements = set.elements();
        let Some(there) = elements.find(key, key_end, now) else { return Err(Errno::Eexist) };
        if mode == Mode::Create || wanted.value.data != there.value.data {
            return Err(Errno::Eexist);
        }
        // Since Linux 6.12 another timeout replaces the old one and starts again, also where one of
        // the two is none, and so does a time that the caller says.
        let (timeout, expires_at) = (there.value.timeout(), there.expires_at);
        let own = wanted.value.timeout();
        if own != timeout || expires {
            self.batch.changed = true;
            undo.note(Some(Undo::Restore(
                key.clone(),
                wanted.key_end.clone(),
                timeout,
                expires_at,
            )));
            set.modify_element(key, key_end, now, (own, wanted.expires_at));
        }
        Ok(())
    }

    pub(super) fn check_data(&self, set: &Set, data: Option<&ElementData>) -> Result<(), Errno> {
        match (set.data, data) {
            (None, None) => Ok(()),
            (Some(MapData::Value { len }), Some(ElementData::Value(data)))
                if data.bytes().len() == len as usize =>
            {
                Ok(())
            }
            (Some(MapData::Verdict), Some(ElementData::Verdict(verdict))) => {
                match verdict.chain() {
                    Some(chain) => self.check_target(chain, false),
                    None => Ok(()),
                }
            }
            (Some(MapData::Object(kind)), Some(ElementData::Object(name))) => {
                self.index.handle_of(Reference::Object(kind, name)).map(|_| ()).ok_or(Errno::Enoent)
            }
            _ => Err(Errno::Einval),
        }
    }

    /// New elements of a bound verdict map lead packets on.
    fn check_elements_reach(&mut self, at: usize, added: &Log) {
        let set = &self.table.sets[at];
        let leads_on = set.data == Some(MapData::Verdict) && self.index.uses(set.handle) > 0;
        let Log::Steps(added) = added else { return };
        if !leads_on || self.is_suspect() {
            return;
        }
        let mut reach = match self.index.reach.take() {
            Some(reach) => reach,
            // From scratch the new elements are seen, but nothing is checked: so without them
            // first.
            None => Reach::without(self.table, self.index, set.handle),
        };
        let elements = set.elements();
        for undo in added {
            let Undo::Remove(key, end) = undo else { continue };
            let element = elements.find(key, end.as_deref(), self.batch.now);
            if let Some(reference) = element.and_then(|e| references::of_element(set.data, e.value))
                && reach.follow_element(self.table, self.index, set.handle, reference).is_err()
            {
                self.suspect();
                return;
            }
        }
        self.index.reach = Some(reach);
    }

    fn take_back(&mut self, at: usize, undo: Log, mark: Mark) {
        let now = self.batch.now;
        let set = Arc::make_mut(&mut self.table.sets[at]);
        let data = set.data;
        let undo = match undo {
            Log::Steps(steps) if steps.is_empty() => return,
            Log::Steps(steps) => steps,
            Log::All => {
                if references::map_refers(data) {
                    for element in set.elements().iter_unordered() {
                        if let Some(reference) = references::of_element(data, element.value) {
                            self.index.count(reference, false);
                        }
                    }
                }
                set.clear_elements();
                return;
            }
        };
        for step in undo.into_iter().rev() {
            match step {
                Undo::Remove(key, end) => {
                    if let Some(element) = set.remove_element(&key, end.as_deref(), now)
                        && let Some(reference) = references::of_element(data, &element.value)
                    {
                        self.index.count(reference, false);
                    }
                }
                Undo::Restore(key, end, timeout, expires) => {
                    set.modify_element(&key, end.as_deref(), now, (timeout, expires));
                }
                Undo::Insert(element) => {
                    if let Some(reference) = references::of_element(data, &element.value) {
                        self.index.count(reference, true);
                    }
                    // It was there a moment ago.
                    let _ = set.insert_element(element, now);
                }
            }
        }
        set.go_back(mark);
    }

    pub(super) fn delete_elements(
        &mut self,
        name: &Arc<str>,
        elements: Option<Vec<Element<ElementValue>>>,
        destroy: bool,
    ) -> Result<Applied, Error> {
        let at = self.set_place(name)?;
        let set = &self.table.sets[at];
        if set.anonymous {
            return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
        }
        let bound = self.index.uses(set.handle) > 0;
        if bound && set.description.constant {
            return Err(Error::new(Errno::Ebusy, Blame::Whole));
        }
        let now = self.batch.now;
        let data = set.data;
        if bound && data == Some(MapData::Verdict) {
            self.index.reach = None;
        }
        let Some(elements) = elements else {
            if references::map_refers(data) {
                for element in set.elements().iter_unordered() {
                    if let Some(reference) = references::of_element(data, element.value) {
                        self.index.count(reference, false);
                    }
                }
            }
            if !set.elements().is_empty() {
                self.batch.changed = true;
                Arc::make_mut(&mut self.table.sets[at]).clear_elements();
            }
            return Ok(Applied::default());
        };
        let mark = set.mark();
        let mut undo = Vec::with_capacity(elements.len());
        for (i, element) in elements.iter().enumerate() {
            let set = Arc::make_mut(&mut self.table.sets[at]);
            let bad_key = !element.key.is_empty() && element.key.len() != set.description.key_len;
            match set.delete_element(&element.key, element.key_end.as_deref(), now) {
                Some(gone) => {
                    self.batch.changed = true;
                    if let Some(reference) = references::of_element(data, &gone.value) {
                        self.index.count(reference, false);
                    }
                    undo.push(Undo::Insert(gone));
                }
                None if destroy && !bad_key => {}
                None => {
                    self.take_back(at, Log::Steps(undo), mark);
                    let errno = if bad_key { Errno::Einval } else { Errno::Enoent };
                    return Err(Error::new(errno, Blame::Element(i)));
                }
            }
        }
        Ok(Applied::default())
    }
}

/// When something with this timeout (milliseconds, 0 for never) expires.
fn expiry(timeout: u64, now: u64) -> Option<u64> {
    (timeout > 0).then(|| now.saturating_add(timeout.saturating_mul(MILLISECOND)))
}

/// Completes an element as the kernel does: expiry from the timeouts, own copies of the set's
/// statements.
fn prepare(
    set: &Set,
    family: Family,
    element: &mut Element<ElementValue>,
    now: u64,
) -> Result<(), Errno> {
    let value = &mut element.value;
    if set.description.timeout {
        let timeout = value.timeout().unwrap_or(set.timeout);
        if element.expires_at.is_some() && timeout == 0 {
            return Err(Errno::Eopnotsupp);
        }
        let latest = expiry(timeout, now);
        if element.expires_at > latest {
            return Err(Errno::Erange);
        }
        // Not in the past: it would be gone before the batch is.
        element.expires_at = element.expires_at.or(latest).map(|at| at.max(now + 1));
        if value.timeout() == Some(set.timeout) {
            value.change_extras(|extras| extras.timeout = None);
        }
    } else if value.timeout().is_some() || element.expires_at.is_some() {
        return Err(Errno::Einval);
    }
    if value.exprs().is_empty() && set.exprs.is_empty() {
        return Ok(());
    } else if value.exprs().is_empty() {
        value.change_extras(|extras| extras.exprs.clone_from(&set.exprs));
    } else {
        checked_statements(set, family, value.exprs(), live::check_statement)?;
    }
    value.change_extras(|extras| extras.states = live::states_of(&extras.exprs, now));
    Ok(())
}

/// Whether elements of a set may have these statements, with values that `check` takes.
pub(super) fn checked_statements(
    set: &Set,
    family: Family,
    exprs: &[Expr],
    check: impl Fn(&Expr) -> Result<(), Errno>,
) -> Result<(), Errno> {
    if exprs.is_empty() {
        return Ok(());
    }
    if exprs.len() > STATEMENTS_MAX {
        return Err(Errno::E2big);
    }
    let alike = |(a, b): (&Expr, &Expr)| a.is_of_kind(b);
    let templates = &set.exprs;
    if !exprs.iter().all(|e| e.as_statement().is_some())
        || !templates.is_empty()
            && (templates.len() != exprs.len() || !templates.iter().zip(exprs).all(alike))
    {
        return Err(Errno::Eopnotsupp);
    }
    exprs.iter().try_for_each(|e| e.available(family).and_then(|()| check(e)))
}
