// SPDX-License-Identifier: Apache-2.0

//! What `log` statements write: lines as of the kernel's log, and records of nfnetlink_log groups.

mod file;
mod line;
mod nflog;

pub use file::LogFile;
pub use line::line;
pub use nflog::{Nflog, encode as nflog_record};
