// SPDX-License-Identifier: Apache-2.0

//! Tables: making, waking, removing.

use std::sync::Arc;

use super::index::TableIndex;
use super::{Applied, OpenTable, Transaction, checked_name};
use crate::change::{Key, Mode};
use crate::model::{Family, Table, UserData};
use crate::{Blame, Errno, Error};

/// `NFT_TABLE_F_DORMANT`.
const DORMANT: u32 = 1;
/// `NFT_TABLE_F_OWNER`.
pub(super) const OWNER: u32 = 2;
/// `NFT_TABLE_F_PERSIST`.
pub(super) const PERSIST: u32 = 4;

/// Whether only another socket than this one may change a table (`nft_table_lookup()`).
pub(super) fn is_anothers(table: &Table, sender: u32) -> bool {
    sender != 0 && table.owner != 0 && table.owner != sender
}

impl Transaction {
    pub(super) fn add_table(
        &mut self,
        family: Family,
        name: Arc<str>,
        mode: Mode,
        flags: u32,
        userdata: UserData,
    ) -> Result<Applied, Error> {
        checked_name(&name, Blame::Table)?;
        let unknown = flags & !(DORMANT | OWNER | PERSIST) != 0;
        let sender = self.batch.sender;
        let there = self.working.tables.iter().find(|t| t.family == family && t.name == name);
        if let Some(table) = there {
            let handle = table.handle;
            if is_anothers(table, sender) {
                return Err(Error::new(Errno::Eperm, Blame::Whole));
            }
            if mode == Mode::Create {
                return Err(Error::new(Errno::Eexist, Blame::Table));
            }
            if unknown {
                return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
            }
            if flags != table.flags | u32::from(table.dormant) {
                self.open(family, &name)?.update_table(flags)?;
            }
            return Ok(Applied { handle: Some(handle), name: None });
        }
        if unknown {
            return Err(Error::new(Errno::Einval, Blame::Whole));
        }
        self.batch.changed = true;
        self.batch.counters.table_handle += 1;
        let handle = self.batch.counters.table_handle;
        let table = Table {
            family,
            name,
            handle,
            dormant: flags & DORMANT != 0,
            flags: flags & !DORMANT,
            owner: if flags & OWNER != 0 { sender } else { 0 },
            userdata,
            last_handle: 0,
            chains: Vec::new(),
            sets: Vec::new(),
            objects: Vec::new(),
            flowtables: Vec::new(),
        };
        self.indexes.insert(handle, TableIndex::new(&table));
        self.working.tables.push(Arc::new(table));
        Ok(Applied { handle: Some(handle), name: None })
    }

    /// Removes tables with all that is in them.
    pub(super) fn delete_table(
        &mut self,
        family: Option<Family>,
        key: Option<Key>,
        destroy: bool,
    ) -> Result<Applied, Error> {
        let sender = self.batch.sender;
        let (Some(family), Some(key)) = (family, &key) else {
            let goes = |t: &Table| family.is_none_or(|f| f == t.family) && !is_anothers(t, sender);
            self.remove_tables(goes);
            return Ok(Applied::default());
        };
        let (there, blame) = match key {
            Key::Name(name) => (
                self.working.tables.iter().find(|t| t.family == family && t.name == *name),
                Blame::Table,
            ),
            Key::Handle(handle) => (
                self.working.tables.iter().find(|t| t.family == family && t.handle == *handle),
                Blame::Handle,
            ),
        };
        if there.is_some_and(|table| is_anothers(table, sender)) {
            return Err(Error::new(Errno::Eperm, blame));
        }
        match there.map(|t| t.handle) {
            Some(handle) => self.remove_tables(|t| t.handle == handle),
            None if destroy => {}
            None => return Err(Error::new(Errno::Enoent, blame)),
        }
        Ok(Applied::default())
    }

    /// A socket is closed.
    pub(super) fn close(&mut self, port: u32) {
        let owned = |table: &Table| port != 0 && table.owner == port;
        self.remove_tables(|table| owned(table) && table.flags & PERSIST == 0);
        for table in self.working.tables.iter_mut().filter(|table| owned(table)) {
            let table = Arc::make_mut(table);
            (table.owner, table.flags) = (0, table.flags & !OWNER);
            self.batch.changed = true;
        }
    }

    fn remove_tables(&mut self, goes: impl Fn(&Table) -> bool) {
        let indexes = &mut self.indexes;
        let changed = &mut self.batch.changed;
        self.working.tables.retain(|table| {
            let goes = goes(table);
            if goes {
                *changed = true;
                indexes.remove(&table.handle);
            }
            !goes
        });
    }
}

impl OpenTable<'_> {
    /// Only `dormant` can change, and a table with `persist` that has no owner can get one
    /// (`nf_tables_updtable()`).
    fn update_table(&mut self, flags: u32) -> Result<(), Error> {
        let is_orphan = self.table.flags & (OWNER | PERSIST) == PERSIST;
        let takes = flags & OWNER != 0;
        let leaves = self.table.flags & OWNER != 0 && !takes;
        if leaves || takes && !is_orphan || (flags ^ self.table.flags) & PERSIST != 0 {
            return Err(Error::new(Errno::Eopnotsupp, Blame::Whole));
        }
        self.batch.changed = true;
        if takes {
            (self.table.owner, self.table.flags) = (self.batch.sender, self.table.flags | OWNER);
        }
        self.table.dormant = flags & DORMANT != 0;
        if self.table.dormant {
            return Ok(());
        }
        // Reactivation registers the base chains again, in the order of the table.
        for chain in self.table.chains.iter_mut().filter(|c| c.base.is_some()) {
            if let Some(base) = &mut Arc::make_mut(chain).base {
                base.registered = self.batch.next_registration();
            }
        }
        Ok(())
    }
}
