// SPDX-License-Identifier: Apache-2.0

//! Why changes of the ruleset are refused.

use std::fmt;

use penstock_ruleset::link::CannotOffload;
use serde::{Deserialize, Serialize};

use crate::attach::NotAttached;

/// Why changes are refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Refused {
    /// The ruleset was changed since.
    Overtaken,
    /// A change, by its number.
    Change(usize, penstock_ruleset::Error),
    /// Packets cannot run it; a sentence.
    Link(String),
    /// A device or a hook cannot do it.
    Offload(CannotOffload),
    /// A sentence, for a change that is right as such.
    Other(String),
}

impl From<NotAttached> for Refused {
    fn from(refused: NotAttached) -> Self {
        match refused {
            NotAttached::Cannot(part) => Refused::Offload(part),
            NotAttached::Failed(sentence) => Refused::Other(sentence),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Overtaken => f.write_str("the ruleset was changed since"),
            Refused::Change(_, e) => f.write_str(e.errno.text()),
            Refused::Link(sentence) | Refused::Other(sentence) => f.write_str(sentence),
            Refused::Offload(e) => e.fmt(f),
        }
    }
}
