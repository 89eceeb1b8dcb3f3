// SPDX-License-Identifier: Apache-2.0

//! A packet as connection tracking looks at it.

use crate::dissect::Layers;
use crate::tuple::{Direction, IPV4};
use penstock_packet::CtInfo;
use penstock_wire::checksum;

/// Where a packet is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Received: checksums are verified.
    Prerouting,
    /// Sent by this host.
    Output,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It continues.
    Accept,
    /// It must be dropped: [`crate::Statistics`] counts why.
    Drop,
}

/// What trackers read of a packet: its bytes, where its headers are, and what it is to its
/// connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketView<'a> {
    /// Bytes from the network header on.
    pub network: &'a [u8],
    pub at: Layers,
    pub info: CtInfo,
    pub hook: Hook,
    /// Length that counts (`skb->len`).
    pub len: usize,
    /// The checksum is made when the packet leaves, so it is not there to be verified.
    pub unfinished: bool,
}

impl<'a> PacketView<'a> {
    /// A received packet, all of whose bytes from the network header on these are.
    #[inline(always)]
    pub fn sought(network: &'a [u8], at: Layers) -> PacketView<'a> {
        let (info, hook) = (CtInfo::New, Hook::Prerouting);
        PacketView { network, at, info, hook, len: network.len(), unfinished: false }
    }

    /// From the transport header on.
    #[inline]
    pub fn transport(&self) -> &'a [u8] {
        self.network.get(self.at.offset..).unwrap_or(&[])
    }

    #[inline]
    pub fn direction(&self) -> Direction {
        if self.info.is_reply() { Direction::Reply } else { Direction::Original }
    }

    /// Whether the sum over pseudo header and the first `coverage` bytes is right
    /// (`nf_checksum()`).
    #[inline(always)]
    pub fn checksum_ok(&self, coverage: usize) -> bool {
        let data = self.transport();
        let Some(covered) = data.get(..coverage) else { return false };
        // Mostly the addresses stand right before them.
        let addresses = if self.at.l3 == IPV4 { 12..20 } else { 8..40 };
        if self.at.offset == addresses.end
            && let Some(summed) = self.network.get(addresses.start..addresses.end + coverage)
        {
            let rest = checksum::Sum::new().u16(u16::from(self.at.protocol)).u32(data.len() as u32);
            return rest.bytes(summed).is_valid();
        }
        self.pseudo(data.len()).bytes(covered).is_valid()
    }

    /// Sum over the pseudo header.
    #[inline(always)]
    pub fn pseudo(&self, len: usize) -> checksum::Sum {
        let sum = checksum::Sum::new().u16(u16::from(self.at.protocol)).u32(len as u32);
        if self.at.l3 != IPV4 {
            return sum.bytes(self.network.get(8..40).unwrap_or(&[]));
        }
        let Some(&[a, b, c, d, e, f, g, h]) = self.network.get(12..).and_then(<[u8]>::first_chunk)
        else {
            return sum;
        };
        sum.u32(u32::from_be_bytes([a, b, c, d])).u32(u32::from_be_bytes([e, f, g, h]))
    }
}
