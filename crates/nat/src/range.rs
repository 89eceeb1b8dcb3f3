// SPDX-License-Identifier: Apache-2.0

//! What a rule asks for: `struct nf_nat_range2`.

use penstock_conntrack::{Direction, Tuple, status, tuple};
use penstock_wire::protocol;
use serde::{Deserialize, Serialize};

/// Addresses are given (`NF_NAT_RANGE_MAP_IPS`).
pub const MAP_IPS: u32 = 1 << 0;
/// Ports are given (`NF_NAT_RANGE_PROTO_SPECIFIED`).
pub const PROTO_SPECIFIED: u32 = 1 << 1;
/// `random` (`NF_NAT_RANGE_PROTO_RANDOM`).
pub const PROTO_RANDOM: u32 = 1 << 2;
/// `persistent` (`NF_NAT_RANGE_PERSISTENT`).
pub const PERSISTENT: u32 = 1 << 3;
/// `fully-random` (`NF_NAT_RANGE_PROTO_RANDOM_FULLY`).
pub const PROTO_RANDOM_FULLY: u32 = 1 << 4;
/// The port keeps its distance to [`Range::base_id`] (`NF_NAT_RANGE_PROTO_OFFSET`).
pub const PROTO_OFFSET: u32 = 1 << 5;
/// Either kind of random; since Linux 5.0 they are the same.
pub const PROTO_RANDOM_ALL: u32 = PROTO_RANDOM | PROTO_RANDOM_FULLY;

/// What is translated (`enum nf_nat_manip_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manip {
    /// The source: at postrouting and input.
    Source,
    /// The destination: at prerouting and output.
    Destination,
}

impl Manip {
    /// The other one.
    pub const fn opposite(self) -> Self {
        match self {
            Manip::Source => Manip::Destination,
            Manip::Destination => Manip::Source,
        }
    }

    /// Status bit of an entry that says it is decided.
    pub const fn done(self) -> u32 {
        match self {
            Manip::Source => status::SRC_NAT_DONE,
            Manip::Destination => status::DST_NAT_DONE,
        }
    }

    /// Status bit of an entry that says it differs between the directions.
    pub const fn changed(self) -> u32 {
        match self {
            Manip::Source => status::SRC_NAT,
            Manip::Destination => status::DST_NAT,
        }
    }

    /// Status bit that makes this manipulation due for packets of a direction: answers have it the
    /// other way around.
    #[inline]
    pub const fn due(self, direction: Direction) -> u32 {
        match direction {
            Direction::Original => self.changed(),
            Direction::Reply => self.opposite().changed(),
        }
    }
}

/// Addresses and ports to choose from, ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// [`MAP_IPS`] and the other flags, `NF_NAT_RANGE_*`.
    pub flags: u32,
    /// First address, in network order, an IPv4 address in the first four bytes.
    pub min_address: [u8; 16],
    /// Last address.
    pub max_address: [u8; 16],
    /// First port, ICMP identifier or GRE key, in host order.
    pub min_id: u16,
    /// Last one.
    pub max_id: u16,
    /// Where [`PROTO_OFFSET`] counts from.
    pub base_id: u16,
}

impl Range {
    /// One address, ports as they come.
    pub fn address(address: [u8; 16]) -> Range {
        Range { flags: MAP_IPS, min_address: address, max_address: address, ..Range::default() }
    }

    /// The same range of ports on one address.
    pub fn on_address(self, address: [u8; 16]) -> Range {
        Range { flags: self.flags | MAP_IPS, min_address: address, max_address: address, ..self }
    }

    /// Whether the source of a tuple is among what may be chosen (`nf_in_range()`).
    pub(crate) fn has_source(&self, t: &Tuple) -> bool {
        if self.flags & MAP_IPS != 0 {
            // Network order compares like the numbers; an IPv4 address has zeros after it on both
            // sides.
            let len = if t.l3 == tuple::IPV4 { 4 } else { 16 };
            if t.src[..len] < self.min_address[..len] || t.src[..len] > self.max_address[..len] {
                return false;
            }
        }
        self.flags & PROTO_SPECIFIED == 0 || self.has_id(t, Manip::Source)
    }

    /// Whether the port of a tuple is (`l4proto_in_range()`). True for protocols without ports.
    pub(crate) fn has_id(&self, t: &Tuple, manip: Manip) -> bool {
        let id = match t.protocol {
            protocol::ICMP | protocol::ICMPV6 => t.src_id,
            protocol::GRE
            | protocol::TCP
            | protocol::UDP
            | protocol::UDPLITE
            | protocol::DCCP
            | protocol::SCTP => match manip {
                Manip::Source => t.src_id,
                Manip::Destination => t.dst_id,
            },
            _ => return true,
        };
        (self.min_id..=self.max_id).contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn each_direction_has_its_status_bit() {
        assert_eq!(Manip::Source.due(Direction::Original), status::SRC_NAT);
        assert_eq!(Manip::Source.due(Direction::Reply), status::DST_NAT);
        assert_eq!(Manip::Destination.due(Direction::Reply), status::SRC_NAT);
    }
}
