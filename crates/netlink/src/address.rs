// SPDX-License-Identifier: Apache-2.0

//! Addresses of links (`RTM_NEWADDR`, `<linux/if_addr.h>`).

use std::io;
use std::net::IpAddr;

use penstock_net::{Address4, Address6, Scope};

use crate::message::{Message, number};
use crate::socket::Answers;

/// Bytes of `struct ifaddrmsg`.
pub(crate) const HEAD: usize = 8;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;
const IFA_FLAGS: u16 = 8;
const IFA_RT_PRIORITY: u16 = 9;

const SECONDARY: u32 = 0x01;
const DEPRECATED: u32 = 0x20;
const NOPREFIXROUTE: u32 = 0x200;
const TENTATIVE: u32 = 0x40;
const DAD_FAILED: u32 = 0x08;

/// An address of either family.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Four(Address4),
    Six(Address6),
}

/// Reads an address, and the index of its link.
pub(crate) fn read(message: &Message) -> Option<(u32, Address)> {
    let &[family, len, flags, scope, a, b, c, d] = message.head::<HEAD>()?;
    let index = u32::from_ne_bytes([a, b, c, d]);
    let all = message.attributes(HEAD);
    let flags = all.u32(IFA_FLAGS).unwrap_or(flags.into());
    let peer = all.get(IFA_ADDRESS);
    let local = all.get(IFA_LOCAL).or(peer)?;
    let metric = all.u32(IFA_RT_PRIORITY).unwrap_or(0);
    let noprefixroute = flags & NOPREFIXROUTE != 0;
    let address = match i32::from(family) {
        libc::AF_INET => Address::Four(Address4 {
            local: number(local) as u32,
            peer: number(peer.unwrap_or(local)) as u32,
            len,
            broadcast: all.get(IFA_BROADCAST).map(|b| number(b) as u32),
            scope: Scope(scope),
            secondary: flags & SECONDARY != 0,
            noprefixroute,
            metric,
        }),
        libc::AF_INET6 => Address::Six(Address6 {
            local: number(local),
            peer: all.get(IFA_LOCAL).and(peer).map(number),
            len,
            noprefixroute,
            metric,
            deprecated: flags & DEPRECATED != 0,
            generated: false,
        }),
        _ => return None,
    };
    Some((index, address))
}

/// An address that a link has, and that nobody else is known to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// Index of the link.
    pub link: u32,
    /// The address.
    pub address: IpAddr,
}

impl Assigned {
    /// All addresses of the namespace as they are now. IPv6 addresses that duplicate address
    /// detection has not cleared are left out, and so are those of scope host.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn all(socket: &mut impl Answers) -> io::Result<Vec<Self>> {
        let all = socket.dump(libc::RTM_GETADDR, &[0; HEAD])?;
        Ok(all.iter().filter_map(Self::of).collect())
    }

    fn of(message: &Message) -> Option<Self> {
        let &[_, _, flags, scope, ..] = message.head::<HEAD>()?;
        let flags = message.attributes(HEAD).u32(IFA_FLAGS).unwrap_or(flags.into());
        if flags & (TENTATIVE | DAD_FAILED) != 0 || scope >= Scope::HOST.0 {
            return None;
        }
        let (link, address) = read(message)?;
        let address = match address {
            Address::Four(a) => IpAddr::V4(a.local.into()),
            Address::Six(a) => IpAddr::V6(a.local.into()),
        };
        Some(Assigned { link, address })
    }
}
