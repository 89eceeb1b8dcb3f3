// SPDX-License-Identifier: Apache-2.0

//! Files that `log` statements of a run write to.

mod file;
mod nflog;

pub use file::LogFile;
pub use nflog::Nflog;
