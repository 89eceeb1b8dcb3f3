// SPDX-License-Identifier: Apache-2.0

//! The headers of plain frames, read once: the fast path from hook to hook and that of flowtables
//! both begin with them. All other frames are read by the dissectors, which do what three functions
//! of the kernel do: `penstock_packet` (`nft_set_pktinfo()`), `penstock_conntrack`
//! (`nf_ct_get_tuple()`) and [`crate::flow::seen`] (`nf_flow_tuple_ip()`).

use penstock_wire::{ethernet, ipv4, protocol};

/// Bytes of transport headers that have to be there.
pub(crate) const TCP_LEN: usize = 20;
pub(crate) const UDP_LEN: usize = 8;
/// Where the flags of TCP are.
pub(crate) const TCP_FLAGS: usize = 13;

/// What all frames of a flow over IPv4 have in common at their beginning: address of the receiver,
/// protocol, addresses, ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SameFlow {
    pub(crate) receiver: u64,
    pub(crate) protocol: u64,
    pub(crate) addresses: u64,
    pub(crate) ports: u32,
}

/// A plain frame: Ethernet without a tag, and in it a whole packet of TCP or UDP over IPv4 without
/// options, which is no fragment and not at its last hop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainFrame {
    pub(crate) same: SameFlow,
    /// Bytes from the IP header on.
    pub(crate) len: u16,
    /// Flags of TCP, else 0.
    pub(crate) flags: u8,
}

/// A link address as it stands in [`SameFlow`].
#[inline(always)]
pub(crate) const fn receiver(address: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = address;
    u64::from_ne_bytes([a, b, c, d, e, f, 0, 0])
}

impl PlainFrame {
    /// Bytes up to the ports.
    const LEN: usize = ethernet::LEN + ipv4::LEN + 4;
    const TTL: usize = ethernet::LEN + 8;
    /// In the word at 8: ethertype, version and header length.
    const KIND: u64 = u64::from_ne_bytes([0, 0, 0, 0, 0xff, 0xff, 0xff, 0]);
    const PLAIN: u64 = u64::from_ne_bytes([0, 0, 0, 0, 0x08, 0, 0x45, 0]);
    /// In the word at 16: what tells fragments, and the protocol.
    const WHAT: u64 = u64::from_ne_bytes([0, 0, 0, 0, 0x3f, 0xff, 0, 0xff]);
    const UDP: u64 = u64::from_ne_bytes([0, 0, 0, 0, 0, 0, 0, protocol::UDP]);
    const TCP: u64 = u64::from_ne_bytes([0, 0, 0, 0, 0, 0, 0, protocol::TCP]);

    /// Reads the headers. `None` if the frame is not plain: the dissectors read it step by step.
    #[inline(always)]
    pub(crate) fn read(frame: &[u8]) -> Option<PlainFrame> {
        let start = frame.first_chunk::<{ Self::LEN }>()?;
        let word = |at: usize| start[at..].first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
        let protocol = word(16) & Self::WHAT;
        let least = match protocol {
            Self::UDP => ipv4::LEN + UDP_LEN,
            Self::TCP => ipv4::LEN + TCP_LEN,
            _ => return None,
        };
        let len = u16::from_be_bytes([start[16], start[17]]);
        let whole = usize::from(len) >= least && usize::from(len) + ethernet::LEN <= frame.len();
        if word(8) & Self::KIND != Self::PLAIN || start[Self::TTL] <= 1 || !whole {
            return None;
        }
        let flags = match protocol {
            Self::TCP => *frame.get(ethernet::LEN + ipv4::LEN + TCP_FLAGS)?,
            _ => 0,
        };
        let receiver = word(0) & receiver([0xff; 6]);
        let ports = start.last_chunk().map_or(0, |b| u32::from_ne_bytes(*b));
        Some(PlainFrame {
            same: SameFlow { receiver, protocol, addresses: word(26), ports },
            len,
            flags,
        })
    }

    /// Addresses of source and destination.
    #[inline(always)]
    pub(crate) const fn addresses(&self) -> (u32, u32) {
        let both = u64::from_be(self.same.addresses);
        ((both >> 32) as u32, both as u32)
    }

    /// The transport protocol.
    #[inline(always)]
    pub(crate) const fn protocol(&self) -> u8 {
        let [.., protocol] = self.same.protocol.to_ne_bytes();
        protocol
    }

    /// Whether the frame is addressed to a link address, as [`receiver`] gives it.
    #[inline(always)]
    pub(crate) fn is_to(&self, receiver: u64) -> bool {
        self.same.receiver == receiver
    }
}
