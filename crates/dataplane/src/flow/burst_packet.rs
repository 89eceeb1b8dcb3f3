// SPDX-License-Identifier: Apache-2.0

//! What early ingress keeps of each packet of a burst: few words, which are written and compared
//! whole.

use penstock_flowtable::key::{IPV6, place, ports_and_arrival};
use penstock_flowtable::{ArrivalId, Key, Key4};

use crate::flow::flow_packet::FlowPacket;
use crate::plain_frame::PlainFrame;

/// Source and destination address in the form of keys.
pub(crate) type Hosts = [[u64; 2]; 2];

/// A [`FlowPacket`] in three words. Addresses of IPv6 are kept elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BurstPacket {
    /// As [`Key4`] has them. Over IPv6, a word that differs if addresses do, most of the time.
    addresses: u64,
    /// As [`Key4`] has them.
    place: u64,
    /// Bytes from the IP header on, as the header says.
    pub(crate) len: u32,
    /// Where it begins after the link header: after what is around it.
    pub(crate) at: u16,
    /// Flags of TCP, else 0.
    pub(crate) flags: u8,
    /// Protocol number, with [`BurstPacket::V6`].
    kind: u8,
}

impl BurstPacket {
    /// It is of IPv6. No flow has a protocol with this bit.
    const V6: u8 = 0x80;

    /// The packet in a plain frame.
    #[inline(always)]
    pub(crate) fn of(frame: &PlainFrame, arrival: ArrivalId) -> Self {
        BurstPacket {
            addresses: frame.same.addresses,
            place: place(frame.same.ports, arrival),
            len: u32::from(frame.len),
            at: 0,
            flags: frame.flags,
            kind: frame.protocol(),
        }
    }

    /// Any packet.
    pub(crate) fn any(packet: &FlowPacket) -> Self {
        let &FlowPacket { ref key, len, flags, at } = packet;
        let place = place(key.ports, key.arrival);
        if key.l3 == IPV6 {
            let words = key.src.into_iter().chain(key.dst);
            let addresses = words.fold(0, |all: u64, word| all.rotate_left(7) ^ word);
            let kind = key.l4 | Self::V6;
            return BurstPacket { addresses, place, len, at, flags, kind };
        }
        let Key4 { addresses, l4: kind, .. } = Key4::of(key);
        BurstPacket { addresses, place, len, at, flags, kind }
    }

    /// Whether it is of IPv6.
    #[inline(always)]
    pub(crate) fn is_v6(&self) -> bool {
        self.kind & Self::V6 != 0
    }

    /// Its key; over IPv6 one that no direction of a flow has.
    #[inline(always)]
    pub(crate) fn key4(&self) -> Key4 {
        Key4 { addresses: self.addresses, place: self.place, l4: self.kind }
    }

    /// Whether its key is the same, as far as the words tell: over IPv6 addresses may differ.
    #[inline(always)]
    pub(crate) fn is_like(&self, other: &BurstPacket) -> bool {
        let kind = u64::from(self.kind ^ other.kind);
        (self.addresses ^ other.addresses) | (self.place ^ other.place) | kind == 0
    }

    /// Its key. `hosts` are its addresses over IPv6.
    pub(crate) fn key(&self, hosts: &Hosts) -> Key {
        if !self.is_v6() {
            return self.key4().key();
        }
        let ([src, dst], (ports, arrival)) = (*hosts, ports_and_arrival(self.place));
        Key { src, dst, ports, arrival, l3: IPV6, l4: self.kind & !Self::V6 }
    }

    /// The packet as it was read.
    #[inline]
    pub(crate) fn packet(&self, hosts: &Hosts) -> FlowPacket {
        FlowPacket { key: self.key(hosts), len: self.len, flags: self.flags, at: self.at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_both_families_are_kept_whole() {
        let key = |a: &str, b: &str| Key::new(a.parse().unwrap(), b.parse().unwrap(), [7, 9], 6);
        let keys = [
            key("198.18.0.1", "198.18.1.1"),
            key("198.18.1.1", "198.18.0.1"),
            key("2001:db8::1", "2001:db8::2"),
            key("2001:db8::2", "2001:db8::1"),
        ];
        let of = |key: &Key| {
            let key = key.arriving(ArrivalId(5));
            FlowPacket { key, len: 70_000, flags: 0x12, at: 4 }
        };
        for (n, key) in keys.iter().enumerate() {
            let packet = of(key);
            let kept = BurstPacket::any(&packet);
            let back = kept.packet(&[packet.key.src, packet.key.dst]);
            assert_eq!(
                (back.key, back.len, back.flags, back.at),
                (packet.key, packet.len, packet.flags, packet.at)
            );
            assert_eq!(kept.is_v6(), n >= 2);
            for (other, key) in keys.iter().enumerate() {
                assert_eq!(kept.is_like(&BurstPacket::any(&of(key))), n == other);
            }
        }
    }
}
