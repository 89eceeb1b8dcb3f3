// SPDX-License-Identifier: Apache-2.0

//! How a set is made: the options of `create`, checked as the types check them
//! (`ip_set_hash_gen.h`, `ip_set_bitmap_ip.c`, `ip_set_bitmap_ipmac.c`, `ip_set_bitmap_port.c`,
//! `ip_set_list_set.c`).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::error::Code;
use crate::given::{GivenSet, WITH_COMMENT, WITH_COUNTERS, WITH_FORCEADD, WITH_SKBINFO};
use crate::kind::{Dimension, Family, Kind};

/// Most elements of a bitmap (`IPSET_BITMAP_MAX_RANGE`, and one).
const BITMAP_MOST: u64 = 65_536;
/// Most seconds that an element lives (`IPSET_MAX_TIMEOUT`).
pub(crate) const TIMEOUT_MOST: u32 = u32::MAX / 1000;

/// What a set was made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Seconds that elements live, 0 for no end; `None` if they have no timeouts.
    pub timeout: Option<u32>,
    /// Elements count packets and bytes.
    pub counters: bool,
    /// Elements have comments.
    pub comment: bool,
    /// Elements have marks, priorities and queues for packets.
    pub skbinfo: bool,
    /// New elements take the place of others if the set is full.
    pub forceadd: bool,
    /// What types have of their own.
    pub shape: Shape,
}

/// What types have of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shape {
    /// Of bitmaps.
    Bitmap {
        /// First address or port, in host order.
        first: u32,
        /// Last one.
        last: u32,
        /// Leading bits of an address that count.
        netmask: u8,
    },
    /// Of hashes.
    Hash {
        /// Buckets, which are told; the table here has as many as it needs.
        hashsize: u32,
        /// Most elements.
        maxelem: u32,
        /// Leading bits of addresses that count, if not all.
        netmask: Option<u8>,
        /// Bits of addresses that count, in network order as in elements, if it was given.
        bitmask: Option<[u8; 16]>,
        /// Bits of marks that count.
        markmask: u32,
        /// Most elements of a bucket, which is told.
        bucketsize: u8,
        /// Seed of the hash, which is told.
        initval: u32,
    },
    /// Of lists.
    List {
        /// Its size, which is told.
        size: u32,
    },
}

/// An IPv4 address in host order, if it is one.
pub(crate) fn v4(address: Option<IpAddr>) -> Result<u32, Code> {
    match address {
        Some(IpAddr::V4(address)) => Ok(address.into()),
        _ => Err(Code::PROTOCOL),
    }
}

/// An address as elements have it, if it is of the family.
pub(crate) fn bytes(address: IpAddr, family: Family) -> Result<[u8; 16], Code> {
    match (address, family) {
        (IpAddr::V4(address), Family::V4) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            Ok(bytes)
        }
        (IpAddr::V6(address), Family::V6) => Ok(address.octets()),
        _ => Err(Code::PROTOCOL),
    }
}

/// The bits of a network's address that count.
pub(crate) fn mask32(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0)
}

fn ordered(a: u32, b: u32) -> (u32, u32) {
    (a.min(b), a.max(b))
}

impl Options {
    /// Checks what a request says of a set of a type and family. `seed` is the hash's if it says
    /// none.
    ///
    /// # Errors
    /// As the type's `create` function gives them.
    pub fn new(kind: Kind, family: Family, given: &GivenSet, seed: u32) -> Result<Self, Code> {
        let shape = match kind {
            Kind::BitmapIp | Kind::BitmapIpMac => addresses(kind, given)?,
            Kind::BitmapPort => {
                let (Some(a), Some(b)) = (given.port, given.port_to) else {
                    return Err(Code::PROTOCOL);
                };
                let (first, last) = ordered(a.into(), b.into());
                Shape::Bitmap { first, last, netmask: 32 }
            }
            Kind::ListSet => Shape::List { size: given.size.unwrap_or(8).max(4) },
            _ => hash(kind, family, given, seed)?,
        };
        let has = |flag| given.flags & flag != 0;
        Ok(Options {
            timeout: given.timeout.map(|seconds| seconds.min(TIMEOUT_MOST)),
            counters: has(WITH_COUNTERS),
            comment: has(WITH_COMMENT),
            skbinfo: has(WITH_SKBINFO),
            forceadd: has(WITH_FORCEADD),
            shape,
        })
    }

    /// The flags that listings tell.
    pub fn flags(&self) -> u32 {
        [
            (self.counters, WITH_COUNTERS),
            (self.comment, WITH_COMMENT),
            (self.skbinfo, WITH_SKBINFO),
            (self.forceadd, WITH_FORCEADD),
        ]
        .iter()
        .filter(|(has, _)| *has)
        .fold(0, |flags, (_, flag)| flags | flag)
    }

    /// Most elements.
    pub(crate) fn most(&self) -> u32 {
        match self.shape {
            Shape::Bitmap { first, last, netmask } => {
                ((u64::from(last - first) + 1) >> (32 - netmask)) as u32
            }
            Shape::Hash { maxelem, .. } => maxelem,
            Shape::List { .. } => u32::MAX,
        }
    }

    /// Whether a set of a type and family may have been made with these: nothing of it is beyond
    /// what it is made for.
    pub(crate) fn fits(&self, kind: Kind, family: Family) -> bool {
        let timeout = self.timeout.is_none_or(|seconds| seconds <= TIMEOUT_MOST);
        timeout
            && match self.shape {
                Shape::Bitmap { first, last, netmask } => {
                    let top = if kind == Kind::BitmapPort { u16::MAX.into() } else { u32::MAX };
                    kind.is_bitmap()
                        && first <= last
                        && last <= top
                        && (1..=32).contains(&netmask)
                        && (u64::from(last - first) + 1) >> (32 - netmask) <= BITMAP_MOST
                }
                Shape::Hash { netmask, .. } => {
                    let masks = netmask.is_none_or(|len| (1..family.bits()).contains(&len));
                    !kind.is_bitmap() && kind != Kind::ListSet && masks
                }
                Shape::List { .. } => kind == Kind::ListSet,
            }
    }

    /// Whether a set that is there is the one that is asked for (`same_set` of the types).
    pub(crate) fn is_same(&self, other: &Options) -> bool {
        let shape = match (&self.shape, &other.shape) {
            (
                Shape::Hash { maxelem, netmask, bitmask, markmask, .. },
                Shape::Hash {
                    maxelem: maxelem2,
                    netmask: netmask2,
                    bitmask: bitmask2,
                    markmask: markmask2,
                    ..
                },
            ) => (maxelem, netmask, bitmask, markmask) == (maxelem2, netmask2, bitmask2, markmask2),
            (a, b) => a == b,
        };
        let rest = |of: &Options| (of.timeout.unwrap_or(0), of.counters, of.comment, of.skbinfo);
        shape && rest(self) == rest(other)
    }
}

/// The range of a bitmap of addresses.
fn addresses(kind: Kind, given: &GivenSet) -> Result<Shape, Code> {
    let first = v4(given.ip)?;
    let (mut first, mut last) = match (given.ip_to, given.cidr) {
        (Some(to), _) => ordered(first, v4(Some(to))?),
        (None, Some(cidr)) if cidr >= 32 => return Err(Code::INVALID_CIDR),
        (None, Some(cidr)) => (first & mask32(cidr), first | !mask32(cidr)),
        (None, None) => return Err(Code::PROTOCOL),
    };
    let mut netmask = 32;
    if let Some(given) = given.netmask.filter(|_| kind == Kind::BitmapIp) {
        if given > 32 {
            return Err(Code::INVALID_NETMASK);
        }
        netmask = given;
        first &= mask32(netmask);
        last |= !mask32(netmask);
    }
    let mut elements = u64::from(last - first) + 1;
    if netmask != 32 {
        // The range has to be one network (range_to_mask()).
        let is_network = elements.is_power_of_two() && u64::from(first) % elements == 0;
        let mask_bits = 32 - elements.ilog2() as u8;
        if !is_network || netmask <= mask_bits {
            return Err(Code::BITMAP_RANGE);
        }
        elements = 1 << (netmask - mask_bits);
    }
    if elements > BITMAP_MOST {
        return Err(Code::BITMAP_RANGE_SIZE);
    }
    Ok(Shape::Bitmap { first, last, netmask })
}

fn hash(kind: Kind, family: Family, given: &GivenSet, seed: u32) -> Result<Shape, Code> {
    /// `IPSET_MIMINAL_HASHSIZE`, `IPSET_DEFAULT_HASHSIZE`
    const SIZES: [u32; 2] = [64, 1024];
    /// `AHASH_MAX_SIZE`
    const BUCKET: u8 = 12;
    let bits = family.bits();
    if given.markmask == Some(0) {
        return Err(Code::INVALID_MARKMASK);
    }
    let masked = matches!(kind, Kind::HashIp | Kind::HashIpPort | Kind::HashNetNet);
    let netmask = given.netmask.filter(|_| masked);
    if netmask.is_some_and(|netmask| netmask == 0 || netmask > bits) {
        return Err(Code::INVALID_NETMASK);
    }
    let mut bitmask = None;
    if let Some(given) = given.bitmask.filter(|_| masked) {
        if netmask.is_some() {
            return Err(Code::BITMASK_NETMASK_EXCL);
        }
        let mask = bytes(given, family)?;
        if mask == [0; 16] {
            return Err(Code::INVALID_NETMASK);
        }
        bitmask = Some(mask);
    }
    let hashsize = given.hashsize.unwrap_or(SIZES[1]).max(SIZES[0]);
    Ok(Shape::Hash {
        hashsize: hashsize.checked_next_power_of_two().ok_or(Code::ENOMEM)?,
        maxelem: given.maxelem.unwrap_or(65_536),
        netmask: netmask.filter(|netmask| *netmask != bits),
        bitmask,
        markmask: given
            .markmask
            .filter(|_| kind.dimensions().contains(&Dimension::Mark))
            .unwrap_or(u32::MAX),
        bucketsize: match given.bucketsize {
            None => BUCKET,
            Some(size) => size.clamp(2, BUCKET).next_multiple_of(2),
        },
        initval: given.initval.unwrap_or(seed),
    })
}
