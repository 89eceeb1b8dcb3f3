// SPDX-License-Identifier: Apache-2.0

//! Ethernet devices from which frames leave the host as they are.

use std::sync::Arc;

use super::Kind;

/// An Ethernet wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Name of the wire's far end, where `peer name` gave one. It is not part of this namespace.
    pub peer: Option<Arc<str>>,
    /// The type as written.
    pub name: Arc<str>,
}

impl Wire {
    /// Types of ip-link(8) that are wires.
    pub(crate) const TYPES: [&str; 6] = ["veth", "dummy", "ifb", "netdevsim", "nlmon", "vcan"];

    /// A wire of this type, without a name for its far end.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Wire { peer: None, name: name.into() }
    }
}

impl Kind for Wire {
    #[inline]
    fn name(&self) -> &str {
        &self.name
    }
}
