// SPDX-License-Identifier: Apache-2.0

//! `flow_offload`: put the connection into a flowtable (`NFTA_FLOW_*`,
//! `net/netfilter/nft_flow_offload.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Expression, Use};
use crate::Family;
use crate::hook::{Hook, Hooks};
use crate::linking::{LinkReason, Linking};
use crate::needs::Needs;
use crate::op::Op;
use crate::reference::Reference;

/// Adds the flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowOffload {
    /// `NFTA_FLOW_TABLE_NAME`.
    pub flowtable: Arc<str>,
}

impl fmt::Display for FlowOffload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flow_offload flowtable {}", self.flowtable)
    }
}

impl Expression for FlowOffload {
    fn name(&self) -> &'static str {
        "flow_offload"
    }

    fn uses<'a>(&'a self, _: Family, _: &mut dyn FnMut(Use<'a>)) {}

    fn hooks(&self, _: Family) -> Hooks {
        Hooks::of(&[Hook::Forward])
    }

    fn needs(&self, family: Family, needs: &mut Needs) {
        needs.track(family);
    }

    fn references<'a>(&'a self, visit: &mut dyn FnMut(Reference<'a>)) {
        visit(Reference::Flowtable(&self.flowtable));
    }

    fn only_matches(&self) -> bool {
        false
    }

    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
        let unknown = || LinkReason::Unknown { what: "flowtable", name: self.flowtable.clone() };
        linking.names.flowtable(&self.flowtable).map(Op::FlowOffload).ok_or_else(unknown)
    }
}
