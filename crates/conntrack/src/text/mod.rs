// SPDX-License-Identifier: Apache-2.0

//! Connections as text: what reads a table and changes no packet.

mod date;
mod dump;
mod filter;
mod line;
mod load;

pub use filter::Filter;
pub use line::{EventLine, ExpectationLine, Line, Style, protocol_name};
pub use load::LoadError;
