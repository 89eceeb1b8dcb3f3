// SPDX-License-Identifier: Apache-2.0

//! A set of the dataplane whose elements are those of a feed. Changes are sent as deltas, in
//! transactions of bounded size; what is there is listed at first, after an error, and when it is
//! asked for.

use penstock_feeds::elements::{Deadline, Elements, deltas};
use penstock_feeds::listing::ListedSet;
use penstock_feeds::span::{Family, Span};

use super::clock;
use super::dataplane::{self, Failure};

/// Elements that are changed in one transaction: each costs time that grows with the whole set.
const TOGETHER: usize = 250_000;

/// What was changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Elements that were added.
    pub added: u64,
    /// Elements that were deleted.
    pub deleted: u64,
}

impl std::ops::AddAssign for Changed {
    fn add_assign(&mut self, other: Changed) {
        self.added += other.added;
        self.deleted += other.deleted;
    }
}

/// A set.
#[derive(Debug)]
pub struct FedSet {
    /// Family, table and name, as in `inet filter blocked`.
    pub name: String,
    /// Commands that begin each transaction.
    fence: String,
    /// The family of its keys, when it was listed once.
    pub family: Option<Family>,
    /// What is there, as far as it is known.
    installed: Option<Elements>,
    /// What was changed since the command began.
    pub total: Changed,
}

impl FedSet {
    /// A set about which nothing is known yet.
    pub fn new(name: String) -> FedSet {
        let (fence, total) = (String::new(), Changed::default());
        FedSet { name, fence, family: None, installed: None, total }
    }

    /// With commands that begin each transaction.
    pub fn fenced(self, fence: String) -> FedSet {
        FedSet { fence, ..self }
    }

    /// How many elements there are, as far as it is known.
    pub fn len(&self) -> usize {
        self.installed.as_ref().map_or(0, Elements::len)
    }

    /// Lists the set before the next change.
    pub fn forget(&mut self) {
        self.installed = None;
    }

    /// The set as it is.
    ///
    /// # Errors
    /// It cannot be listed, or has keys other than addresses.
    pub fn list(&self) -> Result<ListedSet, Failure> {
        let words: Vec<&str> = self.name.split_whitespace().collect();
        let text = dataplane::list(&[&["list", "set"], &words[..]].concat())?;
        let read = ListedSet::read(&text, clock::now());
        read.map_err(|why| Failure::Refused(format!("set {}: {why}", self.name)))
    }

    /// Makes the elements those that are wanted, of the family that the set is for.
    ///
    /// # Errors
    /// A transaction was refused, or the set cannot have such elements. What was changed before
    /// stays, and the rest is found out when it is tried again.
    pub fn make(&mut self, wanted: &Elements) -> Result<Changed, Failure> {
        let mut changed = Changed::default();
        let made = self.try_make(wanted, &mut changed);
        self.total += changed;
        if made.is_err() {
            self.forget();
        }
        made.map(|()| changed)
    }

    fn try_make(&mut self, wanted: &Elements, changed: &mut Changed) -> Result<(), Failure> {
        let mut installed = match self.installed.take() {
            Some(installed) => installed,
            None => {
                let listed = self.list()?;
                self.family = Some(listed.family);
                self.check(&listed, wanted)?;
                listed.elements
            }
        };
        let now = clock::now();
        // Those have ended by themselves.
        installed.retain(|_, deadline| deadline.is_none_or(|end| end > now));
        let family = self.family;
        let own = move |(span, _): &(&Span, &Deadline)| Some(span.family()) == family;
        let all = deltas(&installed, wanted.iter().filter(own), TOGETHER);
        for delta in all {
            let commands = delta.commands(&self.name, now);
            dataplane::run(&format!("{}{commands}", self.fence))?;
            delta.apply(&mut installed);
            changed.added += delta.add.len() as u64;
            changed.deleted += delta.delete.len() as u64;
        }
        self.installed = Some(installed);
        Ok(())
    }

    /// Whether the set can have such elements.
    fn check(&self, listed: &ListedSet, wanted: &Elements) -> Result<(), Failure> {
        let refused = |why: &str| Err(Failure::Refused(format!("set {} {why}", self.name)));
        let own = || wanted.iter().filter(|(span, _)| span.family() == listed.family);
        if !listed.has_intervals && own().any(|(span, _)| !span.is_single()) {
            return refused("needs `flags interval` for prefixes and ranges");
        }
        if !listed.has_timeouts && own().any(|(_, deadline)| deadline.is_some()) {
            return refused("needs `flags timeout` for elements that end");
        }
        Ok(())
    }
}
