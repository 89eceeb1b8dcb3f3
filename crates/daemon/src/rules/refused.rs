// SPDX-License-Identifier: Apache-2.0

//! Why changes of the ruleset are refused.

use penstock_ruleset::link::CannotOffload;
use serde::{Deserialize, Serialize};

/// Why changes are refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Refused {
    /// The ruleset was changed since.
    Overtaken,
    /// A change, by its number.
    Change(usize, penstock_ruleset::Error),
    /// Packets cannot run it; a sentence.
    Link(String),
    /// A device cannot do it.
    Offload(CannotOffload),
    /// A sentence, for a change that is right as such.
    Other(String),
}
