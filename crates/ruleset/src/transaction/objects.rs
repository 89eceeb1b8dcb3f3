// SPDX-License-Identifier: Apache-2.0

//! Stateful objects.

use std::sync::Arc;

use penstock_program::expr::ObjectType;

use super::index::{by_handle_mut, place};
use super::{Applied, OpenTable, checked_name};
use crate::change::{Key, Mode};
use crate::globals::Globals;
use crate::model::{Object, ObjectValue, UserData};
use crate::{Blame, Errno, Error};
use crate::{ct_helper, live};

impl OpenTable<'_> {
    /// Objects that are there keep what they are, but for quotas, synproxies and limits, which take
    /// the new configuration (`ops->update`; the kernel has none for limits); the bytes a quota has
    /// seen stay.
    pub(super) fn add_object(
        &mut self,
        mode: Mode,
        name: Arc<str>,
        mut value: ObjectValue,
        userdata: UserData,
        globals: &Globals,
    ) -> Result<Applied, Error> {
        checked_name(&name, Blame::Object)?;
        if let ObjectValue::Tunnel(tunnel) = &value {
            tunnel.checked().map_err(|errno| Error::new(errno, Blame::Object))?;
        }
        let expr = value.as_expr();
        let configured = expr.as_ref().map_or(Ok(()), live::check_statement);
        let configured = configured.map_err(|errno| Error::new(errno, Blame::Whole));
        let key = (value.kind(), name);
        if let Some(&handle) = self.index.objects.get(&key) {
            if mode == Mode::Create {
                return Err(Error::new(Errno::Eexist, Blame::Object));
            }
            configured?;
            if matches!(
                value,
                ObjectValue::Quota(_) | ObjectValue::Limit(_) | ObjectValue::Synproxy(_)
            ) && let Some(object) = by_handle_mut(&mut self.table.objects, handle)
            {
                self.batch.changed = true;
                object.update(value);
            }
            return Ok(Applied { handle: Some(handle), name: None });
        }
        configured?;
        if let ObjectValue::CtHelper { helper, l4proto, l3proto } = &mut value {
            let families = globals.helper_families(helper, *l4proto);
            *l3proto =
                ct_helper::l3proto(self.table.family, (helper, *l4proto), families, *l3proto)
                    .map_err(|errno| Error::new(errno, Blame::Whole))?;
        }
        self.batch.changed = true;
        let handle = self.next_handle();
        let state = expr.as_ref().and_then(|e| live::state_of(e, self.batch.now));
        let object = Object { name: key.1.clone(), handle, value, state, userdata };
        self.index.objects.insert(key, handle);
        self.table.objects.push(Arc::new(object));
        Ok(Applied { handle: Some(handle), name: None })
    }

    pub(super) fn delete_object(
        &mut self,
        kind: ObjectType,
        key: Key,
        destroy: bool,
    ) -> Result<Applied, Error> {
        let (handle, blame) = match key {
            Key::Name(name) => (self.index.objects.get(&(kind, name)).copied(), Blame::Object),
            Key::Handle(handle) => (Some(handle), Blame::Handle),
        };
        let at = handle.and_then(|h| place(&self.table.objects, h));
        let there = at.and_then(|at| Some((at, self.table.objects.get(at)?)));
        let Some((at, object)) = there.filter(|(_, o)| o.value.kind() == kind) else {
            return if destroy {
                Ok(Applied::default())
            } else {
                Err(Error::new(Errno::Enoent, blame))
            };
        };
        if self.index.uses(object.handle) > 0 {
            return Err(Error::new(Errno::Ebusy, blame));
        }
        self.batch.changed = true;
        let object = self.table.objects.remove(at);
        self.index.objects.remove(&(kind, object.name.clone()));
        Ok(Applied::default())
    }
}
