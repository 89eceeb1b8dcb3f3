// SPDX-License-Identifier: Apache-2.0

//! What few connections have, on the side.

use super::Conntrack;
use super::attach::Attached;
use super::entry::NONE;
use super::expect::ExpectList;
use crate::Tuple;
use crate::expectation::Follow;
use crate::helper::Helping;
use crate::reference::Ref;
use crate::seqadj::SeqAdjust;

/// What few connections have (`struct nf_ct_ext`).
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// `ct label`, bit n in word n / 32.
    pub labels: [u32; 4],
    pub has_labels: bool,
    pub secmark: u32,
    pub master: Option<Ref>,
    /// How many connections that are there it is the master of.
    pub children: u32,
    /// Number of the timeout policy, 0 for none.
    pub policy: u16,
    /// Its helper and what that remembers: the table keeps it and does not look into it.
    pub helper: Option<Box<Helping>>,
    pub seqadj: Option<Box<[SeqAdjust; 2]>>,
    pub expects: ExpectList,
    /// How it is translated, if its master is.
    pub follow: Option<Box<Follow>>,
    /// Events that are not reported: of the connection, and of its expectations.
    pub silent: [u16; 2],
    /// Tuples that it entered into the [`SourceKeys`](super::keys::SourceKeys), by direction.
    pub keyed: Option<Box<[Option<Tuple>; 2]>>,
    /// SYN proxy holds it open.
    pub synproxy: bool,
    /// What ends with it.
    pub attached: Attached,
}

// With labels every connection has one.
const _: () = assert!(size_of::<Extra>() <= 128);

impl Conntrack {
    pub(crate) fn extra(&self, n: u32) -> Option<&Extra> {
        match self.store[n].extra {
            NONE => None,
            x => Some(&self.extras[x as usize]),
        }
    }

    pub(crate) fn extra_mut(&mut self, n: u32) -> &mut Extra {
        self.forget_memo(n);
        let mut x = self.store[n].extra;
        if x == NONE {
            x = self.extras_free.pop().unwrap_or_else(|| {
                self.extras.push(Extra::default());
                self.extras.len() as u32 - 1
            });
            self.store[n].extra = x;
        }
        &mut self.extras[x as usize]
    }

    /// Gives a connection the helper of a number, if there is one.
    pub(crate) fn give_helper(&mut self, n: u32, number: u16) {
        if let Some(helper) = self.helpers.get(number) {
            self.extra_mut(n).helper = Some(Box::new(Helping::new(number, helper)));
        }
    }

    /// Gives a connection the helper of a number in place of the one that it has, or none.
    pub(crate) fn replace_helper(&mut self, n: u32, number: u16) {
        let helper = self.helpers.get(number);
        let helping = helper.map(|helper| Box::new(Helping::new(number, helper)));
        if helping.is_some() || self.extra(n).is_some() {
            self.extra_mut(n).helper = helping;
        }
    }

    /// Takes away what few connections have, when a connection ends.
    #[inline]
    pub(super) fn free_extra(&mut self, n: u32) {
        let extra = std::mem::replace(&mut self.store[n].extra, NONE);
        if extra != NONE {
            self.extras[extra as usize] = Extra::default();
            self.extras_free.push(extra);
        }
    }
}
