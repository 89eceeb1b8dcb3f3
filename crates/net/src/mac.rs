//! Link-layer addresses.

use std::fmt;
use std::str::FromStr;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// Whether the group bit is set; true of the broadcast address too.
    #[inline]
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Address of an IPv4 group (RFC 1112): `01:00:5e` and the low 23 bits.
    pub fn group4(address: u32) -> Mac {
        let [_, b, c, d] = address.to_be_bytes();
        Mac([0x01, 0x00, 0x5e, b & 0x7f, c, d])
    }

    /// Address of an IPv6 group (RFC 2464): `33:33` and the low 32 bits.
    pub fn group6(address: u128) -> Mac {
        let [a, b, c, d] = (address as u32).to_be_bytes();
        Mac([0x33, 0x33, a, b, c, d])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = ();

    /// Six hexadecimal bytes of one or two digits with colons between.
    fn from_str(s: &str) -> Result<Self, ()> {
        let mut mac = [0; 6];
        let mut parts = s.split(':');
        for byte in &mut mac {
            let part = parts.next().ok_or(())?;
            if part.is_empty() || part.len() > 2 {
                return Err(());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| ())?;
        }
        if parts.next().is_some() { Err(()) } else { Ok(Mac(mac)) }
    }
}
