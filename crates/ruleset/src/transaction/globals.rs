// SPDX-License-Identifier: Apache-2.0

//! Objects that are in no table: making and removing.

use std::sync::Arc;

use penstock_conntrack::Helper;

use super::{Applied, Transaction};
use crate::ct_helper;
use crate::globals::{
    GlobalChange, Globals, HelperKey, NAME_MAX, Named, NewAccount, NewFingerprint, NewHelper,
    NewTimeout, Timeout,
};
use crate::{Blame, Errno, Error};

/// Most fingerprints: those of the usual database are some 700.
const FINGERPRINTS_MAX: usize = 16_384;

fn refused(errno: Errno) -> Error {
    Error::new(errno, Blame::Whole)
}

fn checked_name(name: &str) -> Result<(), Error> {
    match name.is_empty() || name.len() > NAME_MAX {
        true => Err(refused(Errno::Einval)),
        false => Ok(()),
    }
}

impl Transaction {
    pub(super) fn change_globals(&mut self, change: GlobalChange) -> Result<Applied, Error> {
        match change {
            GlobalChange::AddAccount(new) => self.add_account(new),
            GlobalChange::DeleteAccount(name) => self.delete_account(&name),
            GlobalChange::SetTimeout(new) => self.set_timeout(new),
            GlobalChange::DeleteTimeout(name) => self.delete_timeout(&name),
            GlobalChange::AddFingerprint(new) => self.add_fingerprint(new),
            GlobalChange::DeleteFingerprint(old) => self.delete_fingerprint(&old),
            GlobalChange::SetHelper(new) => self.set_helper(new),
            GlobalChange::DeleteHelper(old) => self.delete_helper(&old),
        }?;
        self.batch.changed = true;
        Ok(Applied::default())
    }

    fn globals(&mut self) -> &mut Globals {
        Arc::make_mut(&mut self.working.globals)
    }

    /// `nfnl_acct_new()`
    fn add_account(&mut self, new: NewAccount) -> Result<(), Error> {
        checked_name(&new.name)?;
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
        if self.working.uses_of(Named::Account(name)) > 0 {
            return Err(refused(Errno::Ebusy));
        }
        self.globals().accounts.retain(|account| *account.name != *name);
        Ok(())
    }

    /// `cttimeout_new_timeout()`
    fn set_timeout(&mut self, new: NewTimeout) -> Result<(), Error> {
        if new.name.len() > NAME_MAX {
            return Err(refused(Errno::Einval));
        }
        let timeouts = &mut self.globals().timeouts;
        let Some(there) = timeouts.iter_mut().find(|there| there.config.name == new.name) else {
            timeouts.push(new.into());
            return Ok(());
        };
        if (there.config.l3proto, there.config.l4proto) != (new.l3proto, new.l4proto) {
            return Err(refused(Errno::Einval));
        }
        *there = Timeout::from(new);
        Ok(())
    }

    /// `nfnl_osf_add_callback()`
    fn add_fingerprint(&mut self, new: NewFingerprint) -> Result<(), Error> {
        if self.working.globals.fingerprints.contains(&new) {
            return Err(refused(Errno::Eexist));
        }
        if self.working.globals.fingerprints.len() >= FINGERPRINTS_MAX {
            return Err(refused(Errno::Enomem));
        }
        match self.globals().add_fingerprint(new) {
            true => Ok(()),
            false => Err(refused(Errno::Einval)),
        }
    }

    /// `nfnl_osf_remove_callback()`
    fn delete_fingerprint(&mut self, old: &NewFingerprint) -> Result<(), Error> {
        match self.globals().delete_fingerprint(old) {
            true => Ok(()),
            false => Err(refused(Errno::Enoent)),
        }
    }

    /// `nfnl_cthelper_new()`, `nf_conntrack_helper_register()`
    fn set_helper(&mut self, new: NewHelper) -> Result<(), Error> {
        if !new.is_sound() {
            return Err(refused(Errno::Einval));
        }
        let HelperKey { name, l3proto, l4proto } = &new.key;
        let serves = |helper: &Helper| {
            u8::try_from(*l3proto).is_ok_and(|l3| l3 != 0 && helper.serves(l3, *l4proto))
        };
        if ct_helper::find(name, *l4proto).is_some_and(serves) {
            return Err(refused(Errno::Ebusy));
        }
        match self.globals().set_helper(new) {
            true => Ok(()),
            false => Err(refused(Errno::Enomem)),
        }
    }

    /// `nfnl_cthelper_del()`
    fn delete_helper(&mut self, old: &HelperKey) -> Result<(), Error> {
        if self.working.globals.helper(old).is_none() {
            return Err(refused(Errno::Enoent));
        }
        if self.working.uses_of(Named::Helper(&old.name)) > 0 {
            return Err(refused(Errno::Ebusy));
        }
        self.globals().helpers.retain(|helper| helper.config.key != *old);
        Ok(())
    }

    /// `ctnl_timeout_try_del()`
    fn delete_timeout(&mut self, name: &str) -> Result<(), Error> {
        if self.working.globals.timeout(name).is_none() {
            return Err(refused(Errno::Enoent));
        }
        if self.working.uses_of(Named::Timeout(name)) > 0 {
            return Err(refused(Errno::Ebusy));
        }
        self.globals().timeouts.retain(|timeout| *timeout.config.name != *name);
        Ok(())
    }
}
