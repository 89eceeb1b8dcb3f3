// SPDX-License-Identifier: Apache-2.0

//! `flow_offload`: put the connection into a flowtable (`NFTA_FLOW_*`,
//! `net/netfilter/nft_flow_offload.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

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
