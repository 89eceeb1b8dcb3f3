// SPDX-License-Identifier: Apache-2.0

//! Devices of the host without link header: `tun`, WireGuard, PPP, tunnels of the kernel.

use std::sync::Arc;

use penstock_wire::ethernet::Mac;

use super::{ForwardPath, Kind, Output};

/// A device of the host that takes packets without link header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bare {
    /// The type.
    pub name: Arc<str>,
    /// `ARPHRD_*`
    pub hardware: u16,
}

impl Kind for Bare {
    #[inline]
    fn name(&self) -> &str {
        &self.name
    }

    #[inline]
    fn hardware_type(&self) -> u16 {
        self.hardware
    }

    #[inline]
    fn has_link_header(&self) -> bool {
        false
    }

    #[inline]
    fn output(&self) -> Output<'_> {
        Output::Bare
    }

    /// Packets pass the device's own stack.
    #[inline]
    fn forward_path(&self) -> ForwardPath<'_> {
        ForwardPath::None
    }

    fn interface_identifier(&self, _: Mac) -> Option<u64> {
        None
    }
}
