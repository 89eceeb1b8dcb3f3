// SPDX-License-Identifier: Apache-2.0

//! What is known of a frame that one worker hands over to another.

use penstock_io::device::Received;
use penstock_packet::Gso;

/// What is known of a frame that is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandoffMeta {
    /// Number of its port.
    pub(crate) port: u32,
    /// It comes from the host, not from the wire.
    pub(crate) from_host: bool,
    /// It is a fragment that needs an owner lookup.
    pub(crate) owner_unknown: bool,
    /// It is a super-packet.
    pub(crate) gso: Option<Gso>,
}

impl HandoffMeta {
    /// The frame, as one that was received.
    pub(crate) fn received(self, bytes: &[u8]) -> Received<'_> {
        Received { bytes, gso: self.gso }
    }
}
