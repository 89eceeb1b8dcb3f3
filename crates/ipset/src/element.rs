// SPDX-License-Identifier: Apache-2.0

//! Elements, and the keys that they are found by.

use serde::{Deserialize, Serialize};

use crate::kind::{Dimension, Family, Kind};

/// Most bytes of a key: two IPv6 networks, a protocol and a port.
pub(crate) const KEY_MAX: usize = 40;
/// Bytes of a device's name, with its end.
pub const IFACE_LEN: usize = 16;

/// A network; an address has the length of all bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prefix {
    /// In network order; an IPv4 address in the first 4 bytes.
    pub address: [u8; 16],
    /// Bits that count.
    pub len: u8,
}

impl Prefix {
    /// The network of an address.
    pub(crate) fn masked(address: [u8; 16], len: u8) -> Self {
        let len = len.min(128);
        let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        Prefix { address: (u128::from_be_bytes(address) & mask).to_be_bytes(), len }
    }
}

/// A device that elements name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its name, with zeroes at its end.
    pub name: [u8; IFACE_LEN],
    /// The port of a bridge (`physdev`).
    pub port: bool,
    /// All devices with names that begin so (`wildcard`).
    pub wildcard: bool,
}

impl Device {
    /// Bytes of the name.
    pub(crate) fn len(&self) -> usize {
        self.name.iter().position(|b| *b == 0).unwrap_or(IFACE_LEN)
    }

    /// Its name; empty if it is no text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.name[..self.len()]).unwrap_or_default()
    }

    /// All devices with names that begin with the first bytes of this one's.
    pub(crate) fn beginning(&self, len: usize) -> Self {
        let mut name = [0; IFACE_LEN];
        name[..len].copy_from_slice(&self.name[..len]);
        Device { name, wildcard: true, ..*self }
    }
}

/// An element. What its type has no dimension for is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Element {
    /// Addresses or networks, in order.
    pub nets: [Prefix; 2],
    /// Port, or type and code of ICMP.
    pub port: u16,
    /// Protocol of IP.
    pub protocol: u8,
    /// Link address.
    pub mac: [u8; 6],
    /// Packet mark.
    pub mark: u32,
    /// Device.
    pub device: Device,
}

/// A key: bytes, and how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    bytes: [u8; KEY_MAX],
    len: usize,
}

impl Key {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        if let Some(to) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            to.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }
}

/// Dimensions that keys are made of: a bitmap's link address is no part of them.
fn of_key(kind: Kind) -> &'static [Dimension] {
    if kind == Kind::BitmapIpMac { &[Dimension::Ip] } else { kind.dimensions() }
}

fn dimension_len(dimension: Dimension, family: Family) -> usize {
    match dimension {
        Dimension::Ip => family.address_len(),
        Dimension::Net => family.address_len() + 1,
        Dimension::Port => 3,
        Dimension::Mac => 6,
        Dimension::Mark => 4,
        Dimension::Iface => IFACE_LEN + 1,
    }
}

/// Bytes of all keys of a type.
pub(crate) fn key_len(kind: Kind, family: Family) -> usize {
    of_key(kind).iter().map(|dimension| dimension_len(*dimension, family)).sum()
}

impl Element {
    /// The key in sets of a type and family.
    #[inline]
    pub(crate) fn key(&self, kind: Kind, family: Family) -> Key {
        let mut key = Key { bytes: [0; KEY_MAX], len: 0 };
        let (mut net, len) = (0, family.address_len());
        for dimension in of_key(kind) {
            match dimension {
                Dimension::Ip => {
                    key.push(&self.nets[net].address[..len]);
                    net = 1;
                }
                Dimension::Net => {
                    key.push(&self.nets[net].address[..len]);
                    key.push(&[self.nets[net].len]);
                    net = 1;
                }
                Dimension::Port => {
                    let [high, low] = self.port.to_be_bytes();
                    key.push(&[high, low, self.protocol]);
                }
                Dimension::Mac => key.push(&self.mac),
                Dimension::Mark => key.push(&self.mark.to_be_bytes()),
                Dimension::Iface => {
                    key.push(&self.device.name);
                    let flags = u8::from(self.device.port) | u8::from(self.device.wildcard) << 1;
                    key.push(&[flags]);
                }
            }
        }
        key
    }

    /// The element of a key.
    pub(crate) fn of_key(bytes: &[u8], kind: Kind, family: Family) -> Self {
        let mut element = Element::default();
        let (mut net, mut at, len) = (0, 0, family.address_len());
        for dimension in of_key(kind) {
            let size = dimension_len(*dimension, family);
            let part = bytes.get(at..at + size).unwrap_or(&[0; 17][..size]);
            at += size;
            match dimension {
                Dimension::Ip | Dimension::Net => {
                    element.nets[net].address[..len].copy_from_slice(&part[..len]);
                    element.nets[net].len = part.get(len).copied().unwrap_or(family.bits());
                    net = 1;
                }
                Dimension::Port => {
                    element.port = u16::from_be_bytes([part[0], part[1]]);
                    element.protocol = part[2];
                }
                Dimension::Mac => element.mac.copy_from_slice(part),
                Dimension::Mark => {
                    element.mark = u32::from_be_bytes([part[0], part[1], part[2], part[3]]);
                }
                Dimension::Iface => {
                    element.device.name.copy_from_slice(&part[..IFACE_LEN]);
                    element.device.port = part[IFACE_LEN] & 1 != 0;
                    element.device.wildcard = part[IFACE_LEN] & 2 != 0;
                }
            }
        }
        element
    }
}
