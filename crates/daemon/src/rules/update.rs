// SPDX-License-Identifier: Apache-2.0

//! Steps from one generation of the ruleset to another, for copies that follow it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Process;

/// From one generation to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Update {
    /// All of it: [`Ruleset::save`](penstock_ruleset::Ruleset::save).
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
        /// Who took the change back.
        by: Process,
    },
}

/// Changes that were committed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Commit {
    /// The generation that they were made from.
    pub(crate) before: u32,
    /// When, in nanoseconds since the epoch.
    pub(crate) now: u64,
    /// [`received`](penstock_ruleset::received).
    #[serde(with = "bytes")]
    pub(crate) changes: Arc<[u8]>,
    /// The generation that they made.
    pub(crate) after: u32,
    /// [`Ruleset::marks`](penstock_ruleset::Ruleset::marks) of it.
    pub(crate) marks: u64,
    /// They wait for their confirmation.
    pub(crate) unconfirmed: bool,
    /// Who made them.
    pub(crate) by: Process,
}

impl Update {
    /// The generation that it leads to, and its marks.
    pub(crate) fn leads_to(&self) -> (u32, u64) {
        match self {
            Update::Commit(Commit { after, marks, .. })
            | Update::Whole { after, marks, .. }
            | Update::Restore { after, marks, .. } => (*after, *marks),
        }
    }

    /// Who made the step; process 0 if that is not known.
    pub(crate) fn by(&self) -> (u32, &str) {
        match self {
            Update::Commit(Commit { by, .. }) | Update::Restore { by, .. } => (by.0, &by.1),
            Update::Whole { .. } => (0, ""),
        }
    }
}

/// Bytes that are written and read at once.
pub(crate) mod bytes {
    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};
    use std::fmt;
    use std::marker::PhantomData;

    pub(crate) fn serialize<S: Serializer>(
        bytes: &impl AsRef<[u8]>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes.as_ref())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: From<Vec<u8>>>(
        from: D,
    ) -> Result<T, D::Error> {
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
