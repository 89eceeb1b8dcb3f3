// SPDX-License-Identifier: Apache-2.0

//! Sets and maps: making, changing, removing.

use std::sync::Arc;

use penstock_program::expr::Expr;

use super::index::{by_handle, by_handle_mut, place};
use super::{Applied, OpenTable, checked_name};
use crate::change::{Key, Mode, NewSet};
use crate::content::Content;
use crate::model::{MapData, Set};
use crate::{Blame, Errno, Error, Family, live, references};

/// Longest key and longest data, in bytes (`NFT_DATA_VALUE_MAXLEN`).
const VALUE_MAX: usize = 64;
/// Most statements of an element (`NFT_SET_EXPR_MAX`).
pub(super) const STATEMENTS_MAX: usize = 2;

impl OpenTable<'_> {
    pub(super) fn add_set(&mut self, mode: Mode, mut new: NewSet) -> Result<Applied, Error> {
        checked_name(&new.name, Blame::Set)?;
        new.description.map = new.data.is_some();
        checked_set(&new, self.table.family).map_err(|errno| Error::new(errno, Blame::Whole))?;
        if let Some(&handle) = self.index.sets.get(&new.name) {
            return self.update_set(handle, mode, new);
        }
        let whole = |errno| Error::new(errno, Blame::Whole);
        let Some(elements) = penstock_sets::Set::new(new.description.clone()) else {
            return Err(whole(Errno::Eopnotsupp));
        };
        let mut name = new.name;
        if new.anonymous && name.contains('%') {
            let known_as: Arc<str> = format!("{name}#{}", new.id).into();
            name = self.index.free_name(&name).ok_or(whole(Errno::Einval))?;
            self.batch.names.insert(known_as, name.clone());
        }
        self.batch.changed = true;
        let handle = self.next_handle();
        let set = Set {
            name: name.clone(),
            handle,
            anonymous: new.anonymous,
            key_type: new.key_type,
            data_type: new.data_type,
            data: new.data,
            description: new.description,
            timeout: new.timeout,
            gc_interval: new.gc_interval,
            exprs: new.exprs,
            userdata: new.userdata,
            gapless: false,
            content: Content::Fixed(elements),
            told: Default::default(),
        };
        self.index.note_set(&set);
        self.table.sets.push(Arc::new(set));
        Ok(Applied { handle: Some(handle), name: new.anonymous.then_some(name) })
    }

    /// Notes whether a set of intervals has an end at its first key.
    pub(super) fn set_gap(&mut self, name: &Arc<str>, there: bool) -> Result<Applied, Error> {
        let at = self.set_place(name)?;
        if self.table.sets[at].gapless == there {
            self.batch.changed = true;
            Arc::make_mut(&mut self.table.sets[at]).gapless = !there;
        }
        Ok(Applied { handle: Some(self.table.sets[at].handle), name: None })
    }

    /// A set of the same kind takes timeout, sweep period and size of the new description.
    fn update_set(&mut self, handle: u64, mode: Mode, new: NewSet) -> Result<Applied, Error> {
        let Some(set) = by_handle(&self.table.sets, handle) else {
            return Err(Error::new(Errno::Enoent, Blame::Set));
        };
        if mode == Mode::Create {
            return Err(Error::new(Errno::Eexist, Blame::Set));
        }
        if set.anonymous {
            return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
        }
        if !is_same(set, &new) {
            return Err(Error::new(Errno::Eexist, Blame::Set));
        }
        let size = new.description.size.or(set.description.size);
        if set.dynamic().is_some() && !set.has_room_for(size) {
            return Err(Error::new(Errno::Enomem, Blame::Whole));
        }
        self.batch.changed = true;
        let now = self.batch.now;
        if (set.timeout, set.gc_interval, set.description.size)
            != (new.timeout, new.gc_interval, size)
            && let Some(set) = by_handle_mut(&mut self.table.sets, handle)
        {
            set.set_timeout(new.timeout, now);
            set.gc_interval = new.gc_interval;
            if set.description.size != size {
                set.set_size(size);
            }
        }
        Ok(Applied { handle: Some(handle), name: None })
    }

    pub(super) fn delete_set(&mut self, key: Key, destroy: bool) -> Result<Applied, Error> {
        let (handle, blame) = match key {
            Key::Name(name) => {
                let name = self.final_name(&name);
                (self.index.sets.get(&name).copied(), Blame::Set)
            }
            Key::Handle(handle) => (Some(handle), Blame::Handle),
        };
        let Some(set) = handle.and_then(|h| by_handle(&self.table.sets, h)) else {
            return if destroy {
                Ok(Applied::default())
            } else {
                Err(Error::new(Errno::Enoent, blame))
            };
        };
        let handle = set.handle;
        if self.index.uses(handle) > 0 {
            return Err(Error::new(Errno::Ebusy, blame));
        }
        self.remove_set(handle);
        Ok(Applied::default())
    }

    /// Removes an unused set with its elements.
    pub(super) fn remove_set(&mut self, handle: u64) {
        let Some(at) = place(&self.table.sets, handle) else { return };
        self.batch.changed = true;
        let set = self.table.sets.remove(at);
        self.index.forget_set(&set.name);
        if let Some(reach) = &mut self.index.reach {
            reach.forget(handle);
        }
        if references::map_refers(set.data) {
            for element in set.elements().iter_unordered() {
                if let Some(reference) = references::of_element(set.data, element.value) {
                    self.index.count(reference, false);
                }
            }
        }
    }
}

/// Whether there can be such a set.
pub(crate) fn checked_set(new: &NewSet, family: Family) -> Result<(), Errno> {
    let d = &new.description;
    if matches!(new.data, Some(MapData::Object(_))) && d.dynamic
        || new.anonymous && d.timeout && !d.dynamic
        || d.constant && d.timeout
    {
        return Err(Errno::Eopnotsupp);
    }
    if d.key_len == 0 || d.key_len > VALUE_MAX {
        return Err(Errno::Einval);
    }
    if let Some(MapData::Value { len }) = new.data
        && (len == 0 || len as usize > VALUE_MAX)
    {
        return Err(Errno::Einval);
    }
    if !d.timeout && (new.timeout != 0 || new.gc_interval != 0) {
        return Err(Errno::Einval);
    }
    if d.fields.len() > 1 {
        let padded: usize = d.fields.iter().map(|&len| usize::from(len).next_multiple_of(4)).sum();
        if padded != d.key_len || d.fields.contains(&0) {
            return Err(Errno::Einval);
        }
    }
    if new.exprs.len() > STATEMENTS_MAX {
        return Err(Errno::E2big);
    }
    let fits =
        |e: &Expr| e.as_statement().is_some_and(|statement| !(d.timeout && statement.collects()));
    if !new.exprs.iter().all(fits) {
        return Err(Errno::Eopnotsupp);
    }
    new.exprs.iter().try_for_each(|e| e.available(family).and_then(|()| live::check_statement(e)))
}

/// `nft_set_is_same`.
fn is_same(old: &Set, new: &NewSet) -> bool {
    let (a, b) = (&old.description, &new.description);
    old.key_type == new.key_type
        && old.data_type == new.data_type
        && old.data == new.data
        && a.key_len == b.key_len
        && a.fields == b.fields
        && (a.interval, a.timeout, a.dynamic, a.constant)
            == (b.interval, b.timeout, b.dynamic, b.constant)
        && old.exprs.len() == new.exprs.len()
        && old.exprs.iter().zip(&new.exprs).all(|(a, b)| a.is_of_kind(b))
}
