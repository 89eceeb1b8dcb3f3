//! The ruleset as the evaluator has it: the same generations, from the same changes, without what packets change.

use std::sync::Arc;

use penstock_ruleset::change::Mode;
use penstock_ruleset::model::Generation;
use penstock_ruleset::{Change, Ruleset, received};
use serde::{Deserialize, Serialize};

/// From one generation to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Update {
    /// All of it: [`Ruleset::save`].
    Whole {
        /// The bytes.
        #[serde(with = "bytes")]
        bytes: Vec<u8>,
        /// Its generation.
        after: u32,
        /// Its marks.
        marks: u64,
    },
    /// Changes were committed.
    Commit(Commit),
    /// The generation before the change that waited for its confirmation is in force again.
    Restore {
        /// Its number now.
        after: u32,
        /// Its marks.
        marks: u64,
    },
}

/// Changes that were committed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Commit {
    /// The generation that they were made from.
    pub(crate) before: u32,
    /// When, in nanoseconds since the epoch.
    pub(crate) now: u64,
    /// [`received`].
    #[serde(with = "bytes")]
    pub(crate) changes: Arc<[u8]>,
    /// The generation that they made.
    pub(crate) after: u32,
    /// [`Ruleset::marks`] of it.
    pub(crate) marks: u64,
    /// They wait for their confirmation.
    pub(crate) unconfirmed: bool,
}

impl Update {
    /// The generation that it leads to, and its marks.
    pub(crate) fn leads_to(&self) -> (u32, u64) {
        match self {
            Update::Commit(Commit { after, marks, .. })
            | Update::Whole { after, marks, .. }
            | Update::Restore { after, marks } => (*after, *marks),
        }
    }
}

/// Bytes that are written and read at once.
pub(super) mod bytes {
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};
    use std::fmt;
    use std::marker::PhantomData;

    pub(crate) fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes.as_ref())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: From<Vec<u8>>>(from: D) -> Result<T, D::Error> {
        struct Bytes<T>(PhantomData<T>);

        impl<T: From<Vec<u8>>> Visitor<'_> for Bytes<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<T, E> {
                Ok(bytes.to_vec().into())
            }
        }

        from.deserialize_bytes(Bytes(PhantomData))
    }
}

/// A ruleset that follows another one.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    pub(crate) ruleset: Ruleset,
    /// Before the change that waits for its confirmation.
    kept: Option<Arc<Generation>>,
}

/// The mirror is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Astray;

impl Mirror {
    /// Follows one step.
    pub(crate) fn follow(&mut self, update: &Update) -> Result<(), Astray> {
        match update {
            Update::Whole { bytes, after, marks } => {
                self.kept = None;
                self.ruleset = Ruleset::from_saved(bytes).map_err(|_| Astray)?;
                self.agree(*after, *marks)
            }
            Update::Commit(commit) => self.commit(commit),
            Update::Restore { after, marks } => {
                self.ruleset.restore(&*self.kept.take().ok_or(Astray)?);
                self.agree(*after, *marks)
            }
        }
    }

    fn agree(&self, after: u32, marks: u64) -> Result<(), Astray> {
        let same = self.ruleset.generation().id == after && self.ruleset.marks() == marks;
        if same { Ok(()) } else { Err(Astray) }
    }

    fn commit(&mut self, commit: &Commit) -> Result<(), Astray> {
        let before = self.ruleset.generation();
        if before.id != commit.before {
            return Err(Astray);
        }
        let mut transaction = self.ruleset.begin_at(commit.now);
        let mut right = true;
        let read = received::each(&commit.changes, |change| {
            let (change, may_fail) = without_state(change);
            right = transaction.apply(change).is_ok() || may_fail;
            right
        });
        if read.is_err() || !right {
            return Err(Astray);
        }
        // Where all that it changed is state of packets, it is another generation all the same.
        transaction.change();
        self.ruleset.commit(transaction).map_err(|_| Astray)?;
        self.kept = commit.unconfirmed.then_some(before);
        self.agree(commit.after, commit.marks)
    }
}

/// A change as it is made to a ruleset without elements that packets have added or removed; and whether it may fail then.
fn without_state(change: Change) -> (Change, bool) {
    match change {
        Change::AddElements { family, table, set, mode: _, elements } => {
            (Change::AddElements { family, table, set, mode: Mode::Add, elements }, true)
        }
        Change::DeleteElements { family, table, set, elements, destroy: _ } => {
            (Change::DeleteElements { family, table, set, elements, destroy: true }, true)
        }
        change => (change, false),
    }
}
