// SPDX-License-Identifier: Apache-2.0

//! What names one direction of a flow.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::arrival::ArrivalId;

/// `AF_INET` as keys have it.
pub const IPV4: u8 = 4;
/// `AF_INET6`.
pub const IPV6: u8 = 6;

/// Addresses, ports and protocols of a direction, and where it arrives (`struct flow_offload_tuple`
/// up to `__hash`). All of it takes part in comparison and hash. Bytes are as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct Key {
    /// Source address; an IPv4 address in the first four bytes, the rest zero.
    pub src: [u64; 2],
    /// Destination address, in the format of `src`.
    pub dst: [u64; 2],
    /// Source and destination port; zero for GRE.
    pub ports: u32,
    /// Where it arrives.
    pub arrival: ArrivalId,
    /// [`IPV4`] or [`IPV6`].
    pub l3: u8,
    /// Protocol number: TCP, UDP, GRE.
    pub l4: u8,
}

/// The key of a direction over IPv4 in words, for packets of which many are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Key4 {
    /// Source address, then destination address, as on the wire.
    pub addresses: u64,
    /// What [`place`] makes of ports and arrival.
    pub place: u64,
    /// Protocol number: TCP, UDP, GRE.
    pub l4: u8,
}

/// Ports, as keys have them, and where packets arrive in one word.
#[inline(always)]
pub const fn place(ports: u32, arrival: ArrivalId) -> u64 {
    ports as u64 | (arrival.0 as u64) << 32
}

/// [`place`] taken apart.
#[inline(always)]
pub const fn ports_and_arrival(place: u64) -> (u32, ArrivalId) {
    (place as u32, ArrivalId((place >> 32) as u32))
}

/// Source and destination over IPv4 in one word, and back.
#[inline(always)]
pub(crate) fn pair4(src: u32, dst: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (src.to_ne_bytes(), dst.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

#[inline(always)]
fn unpair4(addresses: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = addresses.to_ne_bytes();
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}

/// Source and destination over IPv4 in the form of keys.
#[inline(always)]
pub(crate) fn wide4(addresses: u64) -> [[u64; 2]; 2] {
    let (src, dst) = unpair4(addresses);
    [src, dst].map(from_low4)
}

/// An address in the form of keys.
pub fn address(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(a) => address4(a.octets()),
        IpAddr::V6(a) => address6(&a.octets()),
    }
}

/// An IPv4 address as a key has it.
#[inline(always)]
pub fn address4(bytes: [u8; 4]) -> [u64; 2] {
    let [a, b, c, d] = bytes;
    [u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]), 0]
}

/// An IPv6 address as a key has it.
#[inline(always)]
pub fn address6(bytes: &[u8; 16]) -> [u64; 2] {
    let (a, b) = bytes.split_at(8);
    [a, b].map(|half| half.first_chunk().map_or(0, |c| u64::from_ne_bytes(*c)))
}

/// The four bytes of an IPv4 address in the form of keys, as they lie in memory.
#[inline(always)]
pub(crate) fn low4(address: [u64; 2]) -> u32 {
    let [a, b, c, d, ..] = address[0].to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

/// From there to the form of keys.
#[inline(always)]
pub(crate) fn from_low4(bytes: u32) -> [u64; 2] {
    address4(bytes.to_ne_bytes())
}

/// Two ports, given in host order, as keys have them.
#[inline(always)]
pub fn ports(ports: [u16; 2]) -> u32 {
    let [[a, b], [c, d]] = ports.map(u16::to_be_bytes);
    u32::from_ne_bytes([a, b, c, d])
}

impl Key4 {
    /// The words of a key; of one over IPv6 they say nothing.
    #[inline(always)]
    pub fn of(key: &Key) -> Self {
        let addresses = pair4(low4(key.src), low4(key.dst));
        Key4 { addresses, place: place(key.ports, key.arrival), l4: key.l4 }
    }

    /// The key that it is.
    pub fn key(&self) -> Key {
        let ([src, dst], (ports, arrival)) = (wide4(self.addresses), ports_and_arrival(self.place));
        Key { src, dst, ports, arrival, l3: IPV4, l4: self.l4 }
    }
}

impl Key {
    /// Whether it is the same. Compares all at once: what differs is seldom the first field only.
    #[inline(always)]
    pub fn is_same(&self, other: &Key) -> bool {
        let Key { src: [a, b], dst: [c, d], .. } = *self;
        let Key { src: [e, f], dst: [g, h], .. } = *other;
        let small = |key: &Key| {
            let [l3, l4] = [key.l3, key.l4].map(u64::from);
            [u64::from(key.ports) << 32 | u64::from(key.arrival.0), l3 << 8 | l4]
        };
        let ([i, j], [k, l]) = (small(self), small(other));
        (a ^ e) | (b ^ f) | (c ^ g) | (d ^ h) | (i ^ k) | (j ^ l) == 0
    }

    /// The key of a direction over IPv4; ports in host order. The arrival is that with number 0.
    pub fn v4(src: [u8; 4], dst: [u8; 4], port: [u16; 2], l4: u8) -> Self {
        let (src, dst) = (address4(src), address4(dst));
        Key { src, dst, ports: ports(port), arrival: ArrivalId(0), l3: IPV4, l4 }
    }

    /// The key of a direction; both addresses are of one family.
    pub fn new(src: IpAddr, dst: IpAddr, port: [u16; 2], l4: u8) -> Self {
        let l3 = if src.is_ipv4() { IPV4 } else { IPV6 };
        let (src, dst) = (address(src), address(dst));
        Key { src, dst, ports: ports(port), arrival: ArrivalId(0), l3, l4 }
    }

    /// This key, arriving elsewhere.
    pub fn arriving(self, arrival: ArrivalId) -> Self {
        Key { arrival, ..self }
    }

    fn ip(&self, address: [u64; 2]) -> IpAddr {
        let [a, b] = address.map(u64::to_ne_bytes);
        if self.l3 == IPV4 {
            let [w, x, y, z, ..] = a;
            return IpAddr::V4(Ipv4Addr::new(w, x, y, z));
        }
        let mut bytes = [0; 16];
        for (to, from) in bytes.iter_mut().zip(a.into_iter().chain(b)) {
            *to = from;
        }
        IpAddr::V6(Ipv6Addr::from(bytes))
    }

    /// Source address.
    pub fn source(&self) -> IpAddr {
        self.ip(self.src)
    }

    /// Destination address.
    pub fn destination(&self) -> IpAddr {
        self.ip(self.dst)
    }

    /// Source and destination port in host order.
    pub fn port_numbers(&self) -> [u16; 2] {
        let [a, b, c, d] = self.ports.to_ne_bytes();
        [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_equal_if_all_fields_are() {
        let key = Key::v4([1, 2, 3, 4], [5, 6, 7, 8], [1, 2], 17);
        let others = [
            Key::v4([1, 2, 3, 5], [5, 6, 7, 8], [1, 2], 17),
            Key::v4([1, 2, 3, 4], [5, 6, 7, 9], [1, 2], 17),
            Key::v4([1, 2, 3, 4], [5, 6, 7, 8], [3, 2], 17),
            Key::v4([1, 2, 3, 4], [5, 6, 7, 8], [1, 3], 17),
            Key::v4([1, 2, 3, 4], [5, 6, 7, 8], [1, 2], 6),
            Key { l3: IPV6, ..key },
            Key { src: [key.src[0], 1], ..key },
            Key { dst: [key.dst[0], 1], ..key },
            key.arriving(ArrivalId(1)),
        ];
        assert!(key.is_same(&key) && others.iter().all(|other| !key.is_same(other)));
    }

    #[test]
    fn packed_keys_unpack_unchanged() {
        for (a, b) in [("198.18.0.1", "203.0.113.9"), ("2001:db8::1", "2001:db8:1::ff")] {
            let (a, b): (IpAddr, IpAddr) = (a.parse().unwrap(), b.parse().unwrap());
            let key = Key::new(a, b, [1000, 53], 17);
            assert_eq!((key.source(), key.destination(), key.port_numbers()), (a, b, [1000, 53]));
        }
        assert_eq!(from_low4(low4(address4([1, 2, 3, 4]))), address4([1, 2, 3, 4]));
        let key = Key::v4([1, 2, 3, 4], [5, 6, 7, 8], [1000, 53], 17).arriving(ArrivalId(9));
        let words = Key4::of(&key);
        assert_eq!(words.key(), key);
        assert_eq!(words.addresses.to_ne_bytes(), [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
