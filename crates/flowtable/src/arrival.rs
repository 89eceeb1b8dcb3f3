// SPDX-License-Identifier: Apache-2.0

//! Where and how packets of a flow arrive: what `struct flow_offload_tuple` has besides addresses,
//! ports and protocols.

use std::net::{IpAddr, Ipv6Addr};

/// A tag or session header around a packet (`struct flow_offload_tuple::encap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Encap {
    /// VLAN id or PPPoE session id, host order.
    pub id: u16,
    /// Ethertype: 0x8100, 0x88a8, 0x8864.
    pub protocol: u16,
}

/// A tunnel around a packet (`struct flow_offload_tuple::tun`): the outer addresses as packets have
/// them that arrive, or as they are put on packets that leave. Both are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tunnel {
    /// Outer source.
    pub src: IpAddr,
    /// Outer destination.
    pub dst: IpAddr,
    /// Protocol number in the outer header: 4 for IPv4 inside, 41 for IPv6 inside, 50 for ESP, of
    /// which no addresses count.
    pub protocol: u8,
}

/// Tags, outermost first, at most [`Encaps::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Encaps {
    // What is not used is zero, since all of it is compared.
    encaps: [Encap; Encaps::MAX],
    count: u8,
}

impl Encaps {
    /// `NF_FLOW_TABLE_ENCAP_MAX`.
    pub const MAX: usize = 2;
    /// None.
    pub const NONE: Encaps = Encaps { encaps: [Encap { id: 0, protocol: 0 }; Self::MAX], count: 0 };

    /// Adds one inside of the others; `false`, and nothing changes, if there are [`Encaps::MAX`]
    /// already.
    pub fn push(&mut self, encap: Encap) -> bool {
        let Some(place) = self.encaps.get_mut(usize::from(self.count)) else { return false };
        *place = encap;
        self.count += 1;
        true
    }

    /// Takes the innermost one away.
    pub fn pop(&mut self) -> Option<Encap> {
        let last = self.count.checked_sub(1)?;
        self.count = last;
        self.encaps.get_mut(usize::from(last)).map(std::mem::take)
    }

    /// Outermost first.
    pub fn as_slice(&self) -> &[Encap] {
        self.encaps.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// These with the innermost first.
    pub fn reversed(self) -> Self {
        let mut out = Encaps::NONE;
        for encap in self.as_slice().iter().rev() {
            out.push(*encap);
        }
        out
    }
}

/// Where and how packets of a direction arrive. Many flows share one, so a flow has its number only
/// ([`ArrivalId`]); all of it is compared, byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arrival {
    /// The device, the lowest one of a stack.
    pub device: u32,
    /// Tags around the packet.
    pub encaps: Encaps,
    /// A tunnel around it, inside of the tags.
    pub tunnel: Option<Tunnel>,
}

impl Arrival {
    /// Plain packets on a device.
    pub fn on(device: u32) -> Self {
        Arrival { device, encaps: Encaps::NONE, tunnel: None }
    }

    /// Packets that came out of IPsec on a device. Whether policy wants that of them, and through
    /// which states, is for the caller to know.
    pub fn out_of_ipsec(device: u32) -> Self {
        const ANY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        const ESP: u8 = 50;
        Arrival {
            tunnel: Some(Tunnel { src: ANY, dst: ANY, protocol: ESP }),
            ..Arrival::on(device)
        }
    }

    /// Nothing is around the packets.
    pub fn is_plain(&self) -> bool {
        self.tunnel.is_none() && self.encaps.as_slice().is_empty()
    }
}

/// Number of an [`Arrival`] in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct ArrivalId(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_two_tags_are_accepted() {
        let encap = |id| Encap { id, protocol: 0x8100 };
        let mut encaps = Encaps::NONE;
        assert!(encaps.push(encap(1)) && encaps.push(encap(2)) && !encaps.push(encap(3)));
        assert_eq!(encaps.as_slice(), [encap(1), encap(2)]);
        assert_eq!(encaps.reversed().as_slice(), [encap(2), encap(1)]);
        assert_eq!(
            (encaps.pop(), encaps.pop(), encaps.pop()),
            (Some(encap(2)), Some(encap(1)), None)
        );
        assert_eq!(encaps, Encaps::NONE);
    }
}
