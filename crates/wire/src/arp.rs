// SPDX-License-Identifier: Apache-2.0

//! ARP and RARP (RFC 826), with the addresses of IPv4 over Ethernet; other lengths are read as far
//! as the common eight bytes.

use crate::ethernet::{IPV4, Mac};
use crate::field::{array, be16, put, put16};
use std::fmt;
use std::net::Ipv4Addr;

/// Bytes of the part that every ARP packet has (`struct arphdr`).
pub const FIXED_LEN: usize = 8;
/// Bytes with Ethernet and IPv4 addresses.
pub const LEN: usize = 28;

/// Hardware type Ethernet.
pub const ETHERNET: u16 = 1;
/// Operation: request.
pub const REQUEST: u16 = 1;
/// Operation: reply.
pub const REPLY: u16 = 2;
/// Operation: reverse request.
pub const RREQUEST: u16 = 3;
/// Operation: reverse reply.
pub const RREPLY: u16 = 4;
/// Operation: inverse request.
pub const IN_REQUEST: u16 = 8;
/// Operation: inverse reply.
pub const IN_REPLY: u16 = 9;
/// Operation: negative reply (ATM).
pub const NAK: u16 = 10;

const HTYPE: usize = 0;
const PTYPE: usize = 2;
const HLEN: usize = 4;
const PLEN: usize = 5;
const OPERATION: usize = 6;
const SHA: usize = 8;
const SPA: usize = 14;
const THA: usize = 18;
const TPA: usize = 24;

/// Read view of an ARP packet.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    fixed: &'a [u8; FIXED_LEN],
    full: Option<&'a [u8; LEN]>,
}

impl<'a> Header<'a> {
    /// `None` if eight bytes are not there.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let fixed = bytes.first_chunk()?;
        let full = bytes.first_chunk().filter(|b: &&[u8; LEN]| b[HLEN] == 6 && b[PLEN] == 4);
        Some(Self { fixed, full })
    }

    /// Hardware type.
    #[inline]
    pub fn htype(&self) -> u16 {
        be16(self.fixed, HTYPE)
    }

    /// Protocol type, an ethertype.
    #[inline]
    pub fn ptype(&self) -> u16 {
        be16(self.fixed, PTYPE)
    }

    /// Length of hardware addresses.
    #[inline]
    pub fn hlen(&self) -> u8 {
        self.fixed[HLEN]
    }

    /// Length of protocol addresses.
    #[inline]
    pub fn plen(&self) -> u8 {
        self.fixed[PLEN]
    }

    /// Operation.
    #[inline]
    pub fn operation(&self) -> u16 {
        be16(self.fixed, OPERATION)
    }

    /// Sender hardware address, if lengths are 6 and 4 and all bytes are there; so for the other
    /// addresses.
    #[inline]
    pub fn sender_mac(&self) -> Option<Mac> {
        self.full.map(|b| Mac(array(b, SHA)))
    }

    /// Sender protocol address.
    #[inline]
    pub fn sender_ip(&self) -> Option<Ipv4Addr> {
        self.full.map(|b| Ipv4Addr::from(array::<LEN, 4>(b, SPA)))
    }

    /// Target hardware address.
    #[inline]
    pub fn target_mac(&self) -> Option<Mac> {
        self.full.map(|b| Mac(array(b, THA)))
    }

    /// Target protocol address.
    #[inline]
    pub fn target_ip(&self) -> Option<Ipv4Addr> {
        self.full.map(|b| Ipv4Addr::from(array::<LEN, 4>(b, TPA)))
    }
}

impl fmt::Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (Repr::parse(self), self.operation()) {
            (Some(r), REQUEST) => {
                write!(f, "ARP, Request who-has {} tell {}", r.target_ip, r.sender_ip)
            }
            (Some(r), REPLY) => write!(f, "ARP, Reply {} is-at {}", r.sender_ip, r.sender_mac),
            (_, op) => write!(f, "ARP, operation {op}"),
        }
    }
}

/// An ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Operation.
    pub operation: u16,
    /// Sender hardware address.
    pub sender_mac: Mac,
    /// Sender protocol address.
    pub sender_ip: Ipv4Addr,
    /// Target hardware address.
    pub target_mac: Mac,
    /// Target protocol address.
    pub target_ip: Ipv4Addr,
}

impl Repr {
    /// `None` unless it is IPv4 over Ethernet and complete.
    pub fn parse(h: &Header<'_>) -> Option<Self> {
        if h.htype() != ETHERNET || h.ptype() != IPV4 {
            return None;
        }
        Some(Self {
            operation: h.operation(),
            sender_mac: h.sender_mac()?,
            sender_ip: h.sender_ip()?,
            target_mac: h.target_mac()?,
            target_ip: h.target_ip()?,
        })
    }

    /// The packet's bytes.
    pub fn bytes(&self) -> [u8; LEN] {
        let mut b = [0; LEN];
        put16(&mut b, HTYPE, ETHERNET);
        put16(&mut b, PTYPE, IPV4);
        put(&mut b, HLEN, [6, 4]);
        put16(&mut b, OPERATION, self.operation);
        put(&mut b, SHA, self.sender_mac.0);
        put(&mut b, SPA, self.sender_ip.octets());
        put(&mut b, THA, self.target_mac.0);
        put(&mut b, TPA, self.target_ip.octets());
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emitted_packets_are_read_back_and_cut_ones_have_no_addresses() {
        let repr = Repr {
            operation: REQUEST,
            sender_mac: Mac([2, 0, 0, 0, 0, 1]),
            sender_ip: Ipv4Addr::new(198, 18, 0, 1),
            target_mac: Mac::ZERO,
            target_ip: Ipv4Addr::new(198, 18, 0, 2),
        };
        let bytes = repr.bytes();
        let h = Header::new(&bytes).unwrap();
        assert_eq!(Repr::parse(&h), Some(repr));
        assert_eq!(h.to_string(), "ARP, Request who-has 198.18.0.2 tell 198.18.0.1");
        for cut in 0..LEN {
            match Header::new(&bytes[..cut]) {
                None => assert!(cut < FIXED_LEN),
                Some(h) => assert_eq!((h.operation(), h.sender_ip()), (REQUEST, None)),
            }
        }
    }
}
