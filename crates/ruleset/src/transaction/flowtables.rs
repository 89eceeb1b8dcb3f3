// SPDX-License-Identifier: Apache-2.0

//! Flowtables.

use std::sync::Arc;

use super::index::{by_handle, by_handle_mut, place};
use super::{Applied, OpenTable, checked_name};
use crate::change::{Key, Mode, NewFlowtable};
use crate::model::{Family, Flowtable, Hook};
use crate::{Blame, Errno, Error};

/// `NFT_FLOWTABLE_HW_OFFLOAD`.
const HW_OFFLOAD: u32 = 1;
/// `NFT_FLOWTABLE_COUNTER`.
const COUNTER: u32 = 2;

impl OpenTable<'_> {
    fn checked_flow_devices(&self, devices: &[Arc<str>], own: Option<u64>) -> Result<(), Error> {
        for (i, device) in devices.iter().enumerate() {
            if devices.iter().take(i).any(|d| d == device) {
                return Err(Error::new(Errno::Eexist, Blame::Whole));
            }
            let others = self.table.flowtables.iter().filter(|f| Some(f.handle) != own);
            if others.into_iter().any(|f| f.devices.contains(device)) {
                return Err(Error::new(Errno::Eexist, Blame::Whole));
            }
        }
        Ok(())
    }

    /// A flowtable that is there takes further devices; hook, priority and offload cannot change.
    pub(super) fn add_flowtable(
        &mut self,
        mode: Mode,
        new: NewFlowtable,
    ) -> Result<Applied, Error> {
        checked_name(&new.name, Blame::Flowtable)?;
        let whole = |errno| Err(Error::new(errno, Blame::Whole));
        if let Some(&handle) = self.index.flowtables.get(&new.name) {
            if mode == Mode::Create {
                return Err(Error::new(Errno::Eexist, Blame::Flowtable));
            }
            let Some(there) = by_handle(&self.table.flowtables, handle) else {
                return whole(Errno::Enoent);
            };
            if new.flags & !(HW_OFFLOAD | COUNTER) != 0
                || (new.flags ^ there.flags) & HW_OFFLOAD != 0
            {
                return whole(Errno::Eopnotsupp);
            }
            let hook = (there.hook, there.priority);
            if new.hook.is_some_and(|new_hook| new_hook != hook || new.early != there.early) {
                return whole(Errno::Eopnotsupp);
            }
            self.checked_flow_devices(&new.devices, Some(handle))?;
            let mut devices = new.devices;
            devices.retain(|d| !there.devices.contains(d));
            self.batch.changed = true;
            let flags = new.flags;
            if (flags != there.flags || !devices.is_empty())
                && let Some(flowtable) = by_handle_mut(&mut self.table.flowtables, handle)
            {
                flowtable.flags = flags;
                flowtable.devices.append(&mut devices);
            }
            return Ok(Applied { handle: Some(handle), name: None });
        }
        if !matches!(self.table.family, Family::Ip | Family::Ip6 | Family::Inet) {
            return whole(Errno::Enoent);
        }
        checked_flags(new.flags).map_err(|errno| Error::new(errno, Blame::Whole))?;
        let Some((hook, priority)) = new.hook else {
            return Err(Error::new(Errno::Enoent, Blame::Flowtable));
        };
        if hook != Hook::Ingress {
            return whole(Errno::Eopnotsupp);
        }
        self.checked_flow_devices(&new.devices, None)?;
        self.batch.changed = true;
        let handle = self.next_handle();
        let registered = self.batch.next_registration();
        self.index.flowtables.insert(new.name.clone(), handle);
        self.table.flowtables.push(Arc::new(Flowtable {
            name: new.name,
            handle,
            hook,
            early: new.early,
            priority,
            registered,
            devices: new.devices,
            flags: new.flags,
        }));
        Ok(Applied { handle: Some(handle), name: None })
    }

    pub(super) fn delete_flowtable(
        &mut self,
        key: Key,
        devices: &[Arc<str>],
        destroy: bool,
    ) -> Result<Applied, Error> {
        let (handle, blame) = match key {
            Key::Name(name) => (self.index.flowtables.get(&name).copied(), Blame::Flowtable),
            Key::Handle(handle) => (Some(handle), Blame::Handle),
        };
        let Some(there) = handle.and_then(|h| by_handle(&self.table.flowtables, h)) else {
            return if destroy {
                Ok(Applied::default())
            } else {
                Err(Error::new(Errno::Enoent, blame))
            };
        };
        let handle = there.handle;
        if !devices.is_empty() {
            if !devices.iter().all(|d| there.devices.contains(d)) {
                return Err(Error::new(Errno::Enoent, Blame::Whole));
            }
            if let Some(flowtable) = by_handle_mut(&mut self.table.flowtables, handle) {
                self.batch.changed = true;
                flowtable.devices.retain(|d| !devices.contains(d));
            }
            return Ok(Applied::default());
        }
        if self.index.uses(handle) > 0 {
            return Err(Error::new(Errno::Ebusy, blame));
        }
        if let Some(at) = place(&self.table.flowtables, handle) {
            self.batch.changed = true;
            let flowtable = self.table.flowtables.remove(at);
            self.index.flowtables.remove(&flowtable.name);
        }
        Ok(Applied::default())
    }
}

/// Whether there are such flags.
pub(super) fn checked_flags(flags: u32) -> Result<(), Errno> {
    if flags & !(HW_OFFLOAD | COUNTER) == 0 { Ok(()) } else { Err(Errno::Eopnotsupp) }
}
