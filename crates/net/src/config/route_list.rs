// SPDX-License-Identifier: Apache-2.0

//! Routes of one family while a configuration is read: found by prefix, however many there are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::masked;
use crate::Route;
use crate::neighbour::Quick;

/// The routes of the prefixes of one length. Those of one prefix are in the order of their lines.
type OfLength = HashMap<u128, Vec<Route>, Quick>;

/// The routes of all tables.
#[derive(Debug, Default)]
pub(crate) struct RouteList {
    /// By table, and by length of the prefix, the longest first.
    tables: BTreeMap<u32, BTreeMap<Reverse<u8>, OfLength>>,
}

impl RouteList {
    /// The routes of one prefix of a table.
    pub(crate) fn of(&self, table: u32, prefix: u128, len: u8) -> &[Route] {
        let lengths = self.tables.get(&table);
        let found = lengths.and_then(|l| l.get(&Reverse(len))).and_then(|p| p.get(&prefix));
        found.map_or(&[], Vec::as_slice)
    }

    /// The routes of one prefix of a table, to be changed.
    pub(crate) fn of_mut(&mut self, table: u32, prefix: u128, len: u8) -> &mut Vec<Route> {
        let lengths = self.tables.entry(table).or_default();
        lengths.entry(Reverse(len)).or_default().entry(prefix).or_default()
    }

    /// Adds a route after those of its prefix.
    pub(crate) fn push(&mut self, route: Route) {
        self.of_mut(route.table, route.prefix, route.len).push(route);
    }

    /// The route with the longest prefix around an address, in the first of some tables that has
    /// one. With a link (not 0) only routes by that link count.
    pub(crate) fn longest(
        &self,
        tables: &[u32],
        address: u128,
        oif: u32,
        v6: bool,
    ) -> Option<&Route> {
        let by_link = |r: &&Route| oif == 0 || r.nexthops.iter().any(|n| n.oif == oif);
        let lengths = tables.iter().filter_map(|table| self.tables.get(table)).flatten();
        lengths
            .filter_map(|(&Reverse(len), prefixes)| prefixes.get(&masked(address, len, v6)))
            .find_map(|routes| routes.iter().filter(by_link).max_by_key(|r| Reverse(r.metric)))
    }

    /// Keeps the routes for which `stays` is true.
    pub(crate) fn retain(&mut self, stays: impl Fn(&Route) -> bool) {
        for prefixes in self.tables.values_mut().flat_map(BTreeMap::values_mut) {
            prefixes.retain(|_, routes| {
                routes.retain(&stays);
                !routes.is_empty()
            });
        }
    }

    /// All routes. Those of one prefix of a table are in order.
    pub(crate) fn into_vec(self) -> Vec<Route> {
        let lengths = self.tables.into_values().flat_map(BTreeMap::into_values);
        lengths.flat_map(HashMap::into_values).flatten().collect()
    }
}
