// SPDX-License-Identifier: Apache-2.0

//! What `log` statements write: lines as of the kernel's log, and records of nfnetlink_log groups.

mod line;
mod nflog;

pub use line::line;
pub use nflog::record;
