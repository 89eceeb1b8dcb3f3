// SPDX-License-Identifier: Apache-2.0

//! Ethernet II and IEEE 802.3 frames.

use crate::field::{array, be16, put, put16};
use std::fmt;
use std::str::FromStr;

/// Bytes of an Ethernet header.
pub const LEN: usize = 14;

/// Internet Protocol version 4.
pub const IPV4: u16 = 0x0800;
/// Address Resolution Protocol.
pub const ARP: u16 = 0x0806;
/// Reverse ARP.
pub const RARP: u16 = 0x8035;
/// 802.1Q tag.
pub const VLAN: u16 = 0x8100;
/// 802.1ad service tag.
pub const QINQ: u16 = 0x88a8;
/// Internet Protocol version 6.
pub const IPV6: u16 = 0x86dd;
/// MPLS unicast.
pub const MPLS: u16 = 0x8847;
/// MPLS multicast.
pub const MPLS_MULTICAST: u16 = 0x8848;
/// PPPoE discovery.
pub const PPPOE_DISCOVERY: u16 = 0x8863;
/// PPPoE session.
pub const PPPOE_SESSION: u16 = 0x8864;
/// Transparent Ethernet bridging (in GRE, GENEVE).
pub const TEB: u16 = 0x6558;
/// Link layer discovery.
pub const LLDP: u16 = 0x88cc;
/// The smallest value that is a type and not an 802.3 length (`ETH_P_802_3_MIN`).
pub const MIN_TYPE: u16 = 0x0600;
/// Protocol of 802.3 frames that carry raw IPX, not 802.2 (`ETH_P_802_3`); never on the wire.
pub const RAW_802_3: u16 = 0x0001;
/// Protocol of 802.3 frames with an 802.2 header (`ETH_P_802_2`); never on the wire.
pub const LLC_802_2: u16 = 0x0004;

const DST: usize = 0;
const SRC: usize = 6;
const TYPE: usize = 12;

/// A 48-bit link-layer address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// All ones.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// All zeros.
    pub const ZERO: Self = Self([0; 6]);

    /// Whether the group bit is set; true for the broadcast address too.
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether it is the broadcast address.
    #[inline]
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The text was not six hexadecimal bytes with colons between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMac;

impl fmt::Display for BadMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a link-layer address")
    }
}

impl std::error::Error for BadMac {}

impl FromStr for Mac {
    type Err = BadMac;

    fn from_str(s: &str) -> Result<Self, BadMac> {
        let mut out = [0; 6];
        let mut parts = s.split(':');
        for byte in &mut out {
            let part = parts.next().ok_or(BadMac)?;
            if part.is_empty() || part.len() > 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(BadMac);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| BadMac)?;
        }
        if parts.next().is_some() {
            return Err(BadMac);
        }
        Ok(Self(out))
    }
}

impl From<[u8; 6]> for Mac {
    fn from(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }
}

/// Read view of an Ethernet frame.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    fixed: &'a [u8; LEN],
    rest: &'a [u8],
}

impl<'a> Header<'a> {
    /// `None` if 14 bytes are not there.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = bytes.split_first_chunk()?;
        Some(Self { fixed, rest })
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Mac {
        Mac(array(self.fixed, DST))
    }

    /// Source address.
    #[inline]
    pub fn src(&self) -> Mac {
        Mac(array(self.fixed, SRC))
    }

    /// The type or length field.
    #[inline]
    pub fn ethertype(&self) -> u16 {
        be16(self.fixed, TYPE)
    }

    /// What follows the header, padding included.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.rest
    }

    /// The protocol that `eth_type_trans()` gives to the frame: the type, or for a length field
    /// [`RAW_802_3`] or [`LLC_802_2`] by the two bytes that follow.
    #[inline]
    pub fn protocol(&self) -> u16 {
        protocol_of(self.ethertype(), self.rest)
    }
}

/// The protocol of a frame with `ethertype` in its header and `rest` after it (`eth_type_trans()`,
/// `vlan_set_encap_proto()`).
#[inline]
pub fn protocol_of(ethertype: u16, rest: &[u8]) -> u16 {
    if ethertype >= MIN_TYPE {
        return ethertype;
    }
    // IPX of old NetWare has no 802.2 header and begins with a checksum field of all ones.
    if rest.first_chunk() == Some(&[0xff, 0xff]) { RAW_802_3 } else { LLC_802_2 }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} > {}, ethertype 0x{:04x}, length {}",
            self.src(),
            self.dst(),
            self.ethertype(),
            LEN + self.rest.len()
        )
    }
}

/// Setters on an Ethernet header.
#[derive(Debug)]
pub struct HeaderMut<'a>(&'a mut [u8; LEN]);

impl<'a> HeaderMut<'a> {
    /// `None` if 14 bytes are not there.
    #[inline]
    pub fn new(bytes: &'a mut [u8]) -> Option<Self> {
        bytes.first_chunk_mut().map(Self)
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_dst(&mut self, mac: Mac) {
        put(self.0, DST, mac.0);
    }

    /// Sets the source address.
    #[inline]
    pub fn set_src(&mut self, mac: Mac) {
        put(self.0, SRC, mac.0);
    }

    /// Sets the type or length field.
    #[inline]
    pub fn set_ethertype(&mut self, value: u16) {
        put16(self.0, TYPE, value);
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Destination address.
    pub dst: Mac,
    /// Source address.
    pub src: Mac,
    /// Type or length.
    pub ethertype: u16,
}

impl Repr {
    /// Reads a header.
    pub fn parse(h: &Header<'_>) -> Self {
        Self { dst: h.dst(), src: h.src(), ethertype: h.ethertype() }
    }

    /// The header's bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        put(&mut b, DST, self.dst.0);
        put(&mut b, SRC, self.src.0);
        put16(&mut b, TYPE, self.ethertype);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_headers_are_read_back() {
        let repr =
            Repr { dst: Mac([1, 2, 3, 4, 5, 6]), src: Mac([7, 8, 9, 10, 11, 12]), ethertype: IPV6 };
        let bytes = repr.bytes();
        assert_eq!(Repr::parse(&Header::new(&bytes).unwrap()), repr);
        for cut in 0..LEN {
            assert!(Header::new(&bytes[..cut]).is_none());
        }
    }

    #[test]
    fn a_length_field_is_not_a_protocol() {
        for (ethertype, rest, protocol) in [
            (0x0800, &[][..], 0x0800),
            (0x0600, &[], 0x0600),
            (0x05ff, &[0xff, 0xff], RAW_802_3),
            (0x05ff, &[0xff, 0xfe], LLC_802_2),
            (0x0003, &[0x42, 0x42, 3], LLC_802_2),
            (0x0001, &[0xff], LLC_802_2),
        ] {
            assert_eq!(protocol_of(ethertype, rest), protocol, "{ethertype:x} {rest:x?}");
        }
    }

    #[test]
    fn addresses_are_read_and_printed() {
        for s in ["02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff"] {
            assert_eq!(s.parse::<Mac>().unwrap().to_string(), s);
        }
        assert_eq!("2:0:0:0:0:1".parse(), Ok(Mac([2, 0, 0, 0, 0, 1])));
        for s in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "02:00:00:00:00:+1",
            "0200:00:00:00:01",
            "gg:00:00:00:00:01",
        ] {
            assert_eq!(s.parse::<Mac>(), Err(BadMac), "{s}");
        }
    }
}
