// SPDX-License-Identifier: Apache-2.0

//! The routing tables of one family.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::fib::{Entry, Fib};
use crate::key::Key;
use crate::{Route, RouteInfo, SharedRouteInfo, TABLE_LOCAL, TABLE_MAIN};

/// The tables of one family, each in its [`Fib`].
#[derive(Clone, Debug)]
pub(crate) struct Tables<K> {
    /// In order of their numbers.
    fibs: Vec<Fib<K>>,
    /// The tables local and main are one.
    merged: bool,
}

impl<K> Default for Tables<K> {
    fn default() -> Self {
        Tables { fibs: Vec::new(), merged: false }
    }
}

/// The order in which routes of one prefix are tried.
fn order(entry: &Entry) -> impl Ord + use<> {
    (Reverse(entry.table), Reverse(entry.tos), entry.info.metric)
}

/// Adds a route to those of its prefix, after those that are tried at the same time, or before them.
pub(crate) fn insert(entries: &mut Vec<Entry>, entry: Entry, before: bool) {
    let key = order(&entry);
    let at = entries.partition_point(|e| if before { order(e) < key } else { order(e) <= key });
    entries.insert(at, entry);
}

impl<K: Key> Tables<K> {
    /// The tables of these routes. Bits of a prefix beyond its length do not count, and one that is
    /// longer than an address is left out: another program says what they are.
    pub(crate) fn new(routes: Vec<Route>) -> Self {
        let mut tables = Tables::default();
        for Route { table, prefix, len, tos, info } in routes {
            if len > 8 * K::BYTES {
                continue;
            }
            let prefix = K::from_number(prefix).masked(len);
            let mut entries = tables.get(table, prefix, len);
            insert(&mut entries, Entry { table, tos, info }, false);
            tables.set(table, prefix, len, entries);
        }
        tables
    }

    fn place(&self, table: u32) -> Result<usize, usize> {
        let table = if self.merged && table == TABLE_LOCAL { TABLE_MAIN } else { table };
        self.fibs.binary_search_by_key(&table, Fib::table)
    }

    /// A table by its number.
    #[inline]
    pub(crate) fn fib(&self, table: u32) -> Option<&Fib<K>> {
        self.fibs.get(self.place(table).ok()?)
    }

    /// The routes of a prefix, in the order in which they are tried.
    pub(crate) fn get(&self, table: u32, prefix: K, len: u8) -> Vec<Entry> {
        self.fib(table).map_or(Vec::new(), |fib| fib.get(prefix, len))
    }

    /// Gives a prefix other routes.
    pub(crate) fn set(&mut self, table: u32, prefix: K, len: u8, entries: Vec<Entry>) {
        let at = self.place(table).unwrap_or_else(|at| {
            self.fibs.insert(at, Fib::new(table));
            at
        });
        self.fibs[at].set(prefix, len, entries);
    }

    /// The route with the longest prefix around an address, in the first of some tables that has
    /// one. With a link (not 0) only routes by that link count.
    pub(crate) fn longest(&self, tables: &[u32], address: K, oif: u32) -> Option<&RouteInfo> {
        let by_link = |info: &&Arc<SharedRouteInfo>| oif == 0 || info.is_by(oif);
        tables.iter().filter_map(|&table| self.fib(table)).find_map(|fib| {
            let mut found = fib.longest(address);
            loop {
                let len = found.len()?;
                let routes = found.routes().map(|(_, info)| info).filter(by_link);
                if let Some(best) = routes.max_by_key(|info| Reverse(info.metric)) {
                    return Some(&***best);
                }
                found = fib.shorter(address, len);
            }
        })
    }

    /// Keeps the routes for which `stays` is true.
    pub(crate) fn retain(&mut self, stays: impl Fn(&RouteInfo) -> bool) {
        for fib in &mut self.fibs {
            let mut changed = Vec::new();
            fib.for_each(&mut |prefix, len, found| {
                if !found.routes().all(|(_, info)| stays(info)) {
                    changed.push((prefix, len));
                }
            });
            for (prefix, len) in changed {
                let mut entries = fib.get(prefix, len);
                entries.retain(|entry| stays(&entry.info));
                fib.set(prefix, len, entries);
            }
        }
    }

    /// Whether some route, of a TOS, is as described.
    pub(crate) fn any(&self, is: impl Fn(u8, &RouteInfo) -> bool) -> bool {
        let mut any = false;
        for fib in &self.fibs {
            fib.for_each(&mut |_, _, found| any |= found.routes().any(|(tos, info)| is(tos, info)));
        }
        any
    }

    /// Makes the tables local and main one: a longer prefix in main then wins over a shorter one in
    /// local, as in the kernel as long as no rule was ever added (`fib_trie_unmerge()`).
    pub(crate) fn merge(&mut self) {
        let Ok(local) = self.place(TABLE_LOCAL) else {
            self.merged = true;
            return;
        };
        let local = self.fibs.remove(local);
        self.merged = true;
        local.for_each(&mut |prefix, len, found| {
            let mut all = self.get(TABLE_MAIN, prefix, len);
            found.entries(TABLE_LOCAL).into_iter().for_each(|e| insert(&mut all, e, false));
            self.set(TABLE_MAIN, prefix, len, all);
        });
    }
}
