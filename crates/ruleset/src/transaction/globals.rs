// SPDX-License-Identifier: Apache-2.0

//! Objects that are in no table: making and removing.

use std::sync::Arc;

use super::{Applied, Transaction};
use crate::globals::{ACCOUNT_NAME_MAX, GlobalChange, Globals, NewAccount};
use crate::{Blame, Errno, Error};

fn refused(errno: Errno) -> Error {
    Error::new(errno, Blame::Whole)
}

impl Transaction {
    pub(super) fn change_globals(&mut self, change: GlobalChange) -> Result<Applied, Error> {
        match change {
            GlobalChange::AddAccount(new) => self.add_account(new),
            GlobalChange::DeleteAccount(name) => self.delete_account(&name),
        }?;
        self.batch.changed = true;
        Ok(Applied::default())
    }

    fn globals(&mut self) -> &mut Globals {
        Arc::make_mut(&mut self.working.globals)
    }

    /// `nfnl_acct_new()`
    fn add_account(&mut self, new: NewAccount) -> Result<(), Error> {
        if new.name.is_empty() || new.name.len() > ACCOUNT_NAME_MAX {
            return Err(refused(Errno::Einval));
        }
        if self.working.globals.account(&new.name).is_some() {
            return Err(refused(Errno::Ebusy));
        }
        self.globals().accounts.push(new.into());
        Ok(())
    }

    /// `nfnl_acct_try_del()`
    fn delete_account(&mut self, name: &str) -> Result<(), Error> {
        if self.working.globals.account(name).is_none() {
            return Err(refused(Errno::Enoent));
        }
        if self.working.uses_of_account(name) > 0 {
            return Err(refused(Errno::Ebusy));
        }
        self.globals().accounts.retain(|account| *account.name != *name);
        Ok(())
    }
}
