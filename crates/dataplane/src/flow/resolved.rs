// SPDX-License-Identifier: Apache-2.0

//! Ways as they are in the present generation and network.

use penstock_wire::ethernet;

use crate::flow::sealed::DirectState;

/// A way as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// When it was worked out, by the number of changes before.
    pub(crate) epoch: u32,
    pub(crate) kind: Kind,
    /// Device where it leaves.
    pub(crate) device: u32,
    /// Largest packet.
    pub(crate) mtu: u32,
    /// Link addresses: destination and source.
    pub(crate) link: [u8; 12],
    /// Something is put around packets.
    pub(crate) around: bool,
}

/// How much there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A wire without taps: frames go there at once.
    Wire,
    /// Through the device as other packets do.
    Device,
    /// Through IPsec states, by the number of the way; directly to a wire without taps at egress.
    Ipsec(u32, Option<DirectState>),
    /// The transmission no longer exists.
    Gone,
}

impl Resolved {
    /// Not worked out.
    pub(crate) const UNKNOWN: Resolved =
        Resolved { epoch: 0, kind: Kind::Gone, device: 0, mtu: 0, link: [0; 12], around: false };

    /// Puts the link header of packets of a protocol at the beginning of a frame.
    #[inline]
    pub(crate) fn put_link(&self, frame: &mut [u8], protocol: u16) {
        frame[..12].copy_from_slice(&self.link);
        frame[12..ethernet::LEN].copy_from_slice(&protocol.to_be_bytes());
    }
}
