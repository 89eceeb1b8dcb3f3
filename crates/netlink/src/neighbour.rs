// SPDX-License-Identifier: Apache-2.0

//! Neighbours (`RTM_NEWNEIGH`, `<linux/neighbour.h>`).

use std::net::IpAddr;

use penstock_net::Mac;

use crate::message::{Message, address, put};

/// Bytes of `struct ndmsg`.
pub(crate) const HEAD: usize = 12;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

/// The states in which a link address counts (`NUD_VALID`).
const VALID: u16 = 0x80 | 0x40 | 0x02 | 0x04 | 0x08 | 0x10;
pub(crate) const STALE: u16 = 0x04;
/// `NTF_PROXY`: this host answers for another.
const PROXY: u8 = 0x08;
/// `NTF_USE`: as if a packet was to be sent there.
const USE: u8 = 0x01;

/// A neighbour, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) link: u32,
    pub(crate) address: IpAddr,
    /// Its link address, if that counts.
    pub(crate) mac: Option<Mac>,
    /// It was not confirmed for some time.
    pub(crate) stale: bool,
}

pub(crate) fn read(message: &Message) -> Option<Neighbour> {
    let head = message.head::<HEAD>()?;
    let family = i32::from(head[0]);
    if !matches!(family, libc::AF_INET | libc::AF_INET6) || head[10] & PROXY != 0 {
        return None;
    }
    let state = u16::from_ne_bytes([head[8], head[9]]);
    let all = message.attributes(HEAD);
    let mac = all.get(NDA_LLADDR).and_then(|m| m.first_chunk()).map(|m| Mac(*m));
    Some(Neighbour {
        link: u32::from_ne_bytes([head[4], head[5], head[6], head[7]]),
        address: address(all.get(NDA_DST)?)?,
        mac: mac.filter(|_| state & VALID != 0),
        stale: state & STALE != 0,
    })
}

/// The body of a message that has the kernel find out a neighbour's link address, or confirm it.
pub(crate) fn question(link: u32, neighbour: IpAddr) -> Vec<u8> {
    let family = if neighbour.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut body = vec![family as u8, 0, 0, 0];
    body.extend(link.to_ne_bytes());
    body.extend([0, 0, USE, 0]);
    match neighbour {
        IpAddr::V4(a) => put(&mut body, NDA_DST, &a.octets()),
        IpAddr::V6(a) => put(&mut body, NDA_DST, &a.octets()),
    }
    body
}
