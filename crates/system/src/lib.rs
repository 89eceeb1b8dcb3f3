// SPDX-License-Identifier: Apache-2.0

//! What a machine knows that a text of the nft language may mention: names of services, protocols,
//! users, interfaces and hosts, and files to include.
//!
//! ```
//! use penstock_syntax::names::Names;
//! use penstock_system::SystemNames;
//!
//! let names = SystemNames::default();
//! // As far as the machine has /etc/services.
//! assert!(matches!(names.service_port("ssh", Some("tcp")), Some(22) | None));
//! ```

mod files;
mod names;

pub use files::{CalledFiles, SystemFiles, words};
pub use names::SystemNames;
