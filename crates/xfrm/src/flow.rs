// SPDX-License-Identifier: Apache-2.0

//! What policies and selectors are asked with (`struct flowi`).

/// A packet as policies see it. IPv4 addresses are in the low 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flow {
    /// IPv6.
    pub v6: bool,
    /// Source.
    pub saddr: u128,
    /// Destination.
    pub daddr: u128,
    /// Protocol after all extension headers.
    pub protocol: u8,
    /// Source port, ICMP type, or the high half of a GRE key; 0 in fragments.
    pub sport: u16,
    /// Destination port, ICMP code, or the low half of a GRE key.
    pub dport: u16,
    /// Packet mark.
    pub mark: u32,
    /// Device that it leaves by, 0 for none.
    pub oif: u32,
}
