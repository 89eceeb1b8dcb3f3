// SPDX-License-Identifier: Apache-2.0

//! Commands on their way, and what became of them.

use std::sync::Arc;

use penstock_ruleset::Change;
use penstock_ruleset::model::ElementValue;
use penstock_sets::Element;
use penstock_syntax::ast::Cmd;

use crate::lower::{Lowered, Places};

/// A command, with what it asks of the ruleset.
pub(super) struct Step {
    pub(super) cmd: Cmd,
    pub(super) lowered: Vec<Lowered>,
    /// What `get element` asks for.
    pub(super) elements: Vec<Element<ElementValue>>,
    /// What `--debug=netlink` shows of it.
    pub(super) debug: String,
}

/// What was applied, for echo and for refusals that come later.
pub(super) struct Done {
    pub(super) change: Change,
    /// Handle that it got.
    pub(super) handle: Option<u64>,
    /// Final name, where the ruleset chose it.
    pub(super) name: Option<Arc<str>>,
    pub(super) places: Places,
}
