// SPDX-License-Identifier: Apache-2.0

//! What belongs to a connection and ends with it: places in the counts of `ct count`.

use super::Conntrack;
use crate::status;

/// Things by identifier.
#[derive(Default)]
pub(crate) struct Attached(Vec<(u32, Box<dyn Send>)>);

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(id, _)| id)).finish()
    }
}

/// Things that can be attached to one connection.
const MOST: usize = 256;

impl Conntrack {
    /// Whether something with this identifier is attached to a connection.
    pub fn is_attached(&self, n: u32, id: u32) -> bool {
        self.extra(n).is_some_and(|x| x.attached.0.iter().any(|(i, _)| *i == id))
    }

    /// Attaches something to a connection: it is dropped when the connection ends, or when its
    /// protocol has closed it (`already_closed()` in `nf_conncount.c`). If it has ended or closed already, or
    /// has 256 attached, the thing comes back.
    ///
    /// # Errors
    /// The thing.
    pub fn attach(&mut self, n: u32, id: u32, thing: Box<dyn Send>) -> Result<(), Box<dyn Send>> {
        let room = self.extra(n).is_none_or(|x| x.attached.0.len() < MOST);
        if !room || self.store[n].has(status::DYING) || self.is_over(n) {
            return Err(thing);
        }
        self.extra_mut(n).attached.0.push((id, thing));
        Ok(())
    }

    /// Whether the protocol has closed a connection, which then no longer counts.
    pub fn is_over(&self, n: u32) -> bool {
        self.store[n].proto.is_over()
    }

    /// Drops what is attached.
    #[cold]
    #[inline(never)]
    pub(crate) fn detach_all(&mut self, n: u32) {
        if self.extra(n).is_some_and(|x| !x.attached.0.is_empty()) {
            self.extra_mut(n).attached = Attached::default();
        }
    }
}
