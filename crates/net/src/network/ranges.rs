// SPDX-License-Identifier: Apache-2.0

//! Routing tables as ranges of destinations that find the same: for whoever asks about all
//! destinations at once.

use std::collections::BTreeSet;

use super::{Flow4, Flow6, Hit, Network, NoRoute};
use crate::fib::Fib;
use crate::key::Key;

/// First addresses of the ranges that the prefixes of a table cut the addresses into.
fn starts<K: Key>(fib: Option<&Fib<K>>) -> BTreeSet<K> {
    let mut all = BTreeSet::from([K::default()]);
    let Some(fib) = fib else { return all };
    fib.for_each(&mut |prefix, len, _| {
        all.insert(prefix);
        let size = 1_u128.checked_shl(u32::from(8 * K::BYTES - len)).unwrap_or(0);
        let after = K::from_number(prefix.number().wrapping_add(size));
        // The end of all addresses is none of them.
        if after > prefix {
            all.insert(after);
        }
    });
    all
}

impl Network {
    /// First addresses of ranges of IPv4 destinations, up to the next one: all destinations of one
    /// find the same in a table ([`Network::lookup4`]).
    pub fn ranges4(&self, table: u32) -> BTreeSet<u32> {
        starts(self.v4.tables.fib(table))
    }

    /// First addresses of ranges of IPv6 destinations, up to the next one: all destinations of one
    /// find the same in a table ([`Network::lookup6`]), as far as both need a link or none.
    pub fn ranges6(&self, table: u32) -> BTreeSet<u128> {
        starts(self.v6.tables.fib(table))
    }

    /// What an IPv4 packet finds in one table, without rules (`fib_table_lookup()`); `None` if the
    /// next rule decides.
    pub fn lookup4(&self, table: u32, flow: &Flow4) -> Option<Result<Hit<'_>, NoRoute>> {
        let found = self.table4(self.v4.tables.fib(table)?, flow)?;
        Some(found.map(|route| self.hit4(route, flow, 0)))
    }

    /// What an IPv6 packet finds in one table, without rules (`fib6_table_lookup()`); `None` if the
    /// next rule decides.
    pub fn lookup6(&self, table: u32, flow: &Flow6) -> Option<Result<Hit<'_>, NoRoute>> {
        let found = self.table6(self.v6.tables.fib(table)?, flow)?;
        Some(found.map(|route| self.hit6(route, flow)))
    }

    /// Values of TOS that IPv4 routes of a table are limited to.
    pub fn tos4(&self, table: u32) -> BTreeSet<u8> {
        let mut all = BTreeSet::new();
        if let Some(fib) = self.v4.tables.fib(table).filter(|_| self.v4.tos) {
            fib.for_each(&mut |_, _, found| all.extend(found.routes().map(|(tos, _)| tos)));
        }
        all.remove(&0);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TABLE_LOCAL, TABLE_MAIN};

    #[test]
    fn destinations_of_a_range_find_the_same() {
        let net = Network::from_batch(
            "net.ip",
            "link add name wan type veth\nlink set wan up\naddr add 198.18.0.1/24 dev wan\n\
             route add default via 198.18.0.254\nroute add 198.19.0.0/16 via 198.18.0.253\n\
             route add blackhole 198.19.128.0/17\nroute add 255.255.255.0/24 dev wan\n",
        )
        .unwrap();
        let find = |daddr: u32| {
            let found = net.lookup4(TABLE_LOCAL, &Flow4 { daddr, ..Flow4::default() });
            found.map(|found| found.map(|hit| (hit.len, hit.route.kind)))
        };
        let starts: Vec<u32> = net.ranges4(TABLE_LOCAL).into_iter().collect();
        assert_eq!(starts[0], 0);
        let mut rng = fastrand::Rng::with_seed(penstock_testkit::seed());
        for (i, from) in starts.iter().enumerate() {
            let to = starts.get(i + 1).map_or(u32::MAX, |next| next - 1);
            for daddr in [to, rng.u32(*from..=to)] {
                assert_eq!(find(*from), find(daddr), "{from:#x} {daddr:#x}");
            }
        }
        assert!(net.ranges4(12345).len() == 1 && net.ranges6(TABLE_MAIN).contains(&0));
    }
}
