// SPDX-License-Identifier: Apache-2.0

//! What packets pass through: each operation looks at the packet, asks tracker or helper, and does
//! to the table what they say.

mod close;
mod confirm;
mod help;
mod icmp_error;
mod program;
mod seek;
mod track;

pub use help::{Helped, Replace};
pub use seek::TupleLookup;
pub use track::Sighting;
