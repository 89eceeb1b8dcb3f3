// SPDX-License-Identifier: Apache-2.0

//! Who sends requests.

use std::sync::Arc;

/// The process at the other end of a socket, as it is while it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id, for `NFTA_GEN_PROC_PID`.
    pub id: u32,
    /// Name as in `/proc/PID/comm`, for `NFTA_GEN_PROC_NAME`.
    pub name: Arc<str>,
    /// Whether it may change anything (`CAP_NET_ADMIN`); otherwise it may only look.
    pub may_change: bool,
}
