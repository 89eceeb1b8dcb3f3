// SPDX-License-Identifier: Apache-2.0

//! Routing tables as routers at exchange points have them: prefix lengths as in the tables of the
//! Internet, next hops on one link.

use std::collections::HashSet;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;

/// Prefix lengths and how many of a hundred prefixes have them, IPv4.
const LENGTHS4: [(u8, u32); 9] =
    [(24, 59), (23, 10), (22, 11), (21, 5), (20, 5), (19, 3), (18, 2), (17, 1), (16, 4)];
/// Prefix lengths and how many of a hundred prefixes have them, IPv6.
const LENGTHS6: [(u8, u32); 7] =
    [(48, 48), (44, 11), (40, 12), (36, 6), (32, 14), (29, 4), (46, 5)];
/// The first two bytes of IPv6 prefixes that registries give out.
const BLOCKS6: [u16; 12] = [
    0x2001, 0x2400, 0x2401, 0x2402, 0x2600, 0x2602, 0x2604, 0x2800, 0x2804, 0x2a00, 0x2a02, 0x2c0f,
];

fn length(lengths: &[(u8, u32)], rng: &mut Rng) -> u8 {
    let mut point = rng.u32(..100);
    for (len, share) in lengths {
        match point.checked_sub(*share) {
            Some(rest) => point = rest,
            None => return *len,
        }
    }
    lengths[0].0
}

/// A routing table: prefixes behind next hops, and destinations in them.
pub(crate) struct Routes {
    /// Lines of `ip -batch`.
    pub(crate) lines: String,
    prefixes: Vec<(u128, u8)>,
    v6: bool,
}

impl Routes {
    /// So many prefixes behind so many next hops of `wan` (198.19.1.0 and 2001:db8:2::1:0 on), each
    /// with its neighbour. The same in each run.
    pub(crate) fn new(count: u32, next_hops: u32, v6: bool) -> Self {
        let mut rng = Rng::with_seed(0x70_6e_73);
        let mut lines = String::new();
        let gateway = |n: u32| -> IpAddr {
            match v6 {
                false => Ipv4Addr::from(0xc613_0100 + n).into(),
                true => {
                    Ipv6Addr::from(0x2001_0db8_0002_0000_0000_0000_0001_0000 + u128::from(n)).into()
                }
            }
        };
        for n in 0..next_hops {
            let [_, _, c, d] = n.to_be_bytes();
            let (gateway, mac) = (gateway(n), format!("02:00:00:01:{c:02x}:{d:02x}"));
            writeln!(lines, "neigh add {gateway} lladdr {mac} dev wan").expect("a string");
        }
        let mut seen = HashSet::new();
        let mut prefixes = Vec::new();
        while prefixes.len() < count as usize {
            let prefix = if v6 { prefix6(&mut rng) } else { prefix4(&mut rng) };
            let Some((address, len)) = prefix.filter(|prefix| seen.insert(*prefix)) else {
                continue;
            };
            let text: IpAddr = match v6 {
                false => Ipv4Addr::from(address as u32).into(),
                true => Ipv6Addr::from(address).into(),
            };
            let via = gateway(rng.u32(..next_hops));
            writeln!(lines, "route add {text}/{len} via {via}").expect("a string");
            prefixes.push((address, len));
        }
        Routes { lines, prefixes, v6 }
    }

    /// So many different destinations in prefixes drawn by chance.
    pub(crate) fn destinations(&self, count: u32) -> Vec<u128> {
        let mut rng = Rng::with_seed(0x64_73_74);
        let bits = if self.v6 { 128 } else { 32 };
        let mut seen = HashSet::new();
        while seen.len() < count as usize {
            let Some((prefix, len)) = rng.choice(&self.prefixes) else { break };
            seen.insert(prefix | rng.u128(..) & ((1 << (bits - len)) - 1));
        }
        let mut all: Vec<_> = seen.into_iter().collect();
        all.sort_unstable();
        rng.shuffle(&mut all);
        all
    }
}

/// A prefix of public IPv4 addresses.
fn prefix4(rng: &mut Rng) -> Option<(u128, u8)> {
    let len = length(&LENGTHS4, rng);
    let address = rng.u32(..) & (u32::MAX << (32 - len));
    let first = address >> 24;
    let usable = (1..224).contains(&first) && ![10, 127, 169, 172, 192, 198].contains(&first);
    usable.then_some((address.into(), len))
}

/// A prefix of public IPv6 addresses.
fn prefix6(rng: &mut Rng) -> Option<(u128, u8)> {
    let len = length(&LENGTHS6, rng);
    let block = u128::from(*rng.choice(BLOCKS6.iter())?);
    let address = (block << 112 | rng.u128(..) >> 16) & (u128::MAX << (128 - len));
    let documentation = address >> 96 == 0x2001_0db8;
    (!documentation).then_some((address, len))
}
