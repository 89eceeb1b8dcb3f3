// SPDX-License-Identifier: Apache-2.0

//! The forwarding table: from an address to the routes of the longest prefix around it.
//!
//! A trie that takes a byte of the address at a time. The prefixes that end within the byte of a
//! node cut its 256 values into ranges in which the longest match is the same. A bit says where a
//! range starts, and the number of bits before it where its slot is, so a node of few prefixes is
//! small (the idea of Lulea tables and of poptrie). Bytes that do not tell prefixes apart are
//! skipped.
//!
//! Nodes are shared: a clone of the table costs nothing, and a change copies the nodes on the way
//! to the prefix, so that another state of the network can keep the old ones.

use std::sync::Arc;

use crate::RouteInfo;
use crate::key::Key;

/// A route of one prefix.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The table that the route is in: another one than the forwarding table's in one that two
    /// share.
    pub(crate) table: u32,
    /// TOS that it is limited to, 0 for any.
    pub(crate) tos: u8,
    pub(crate) info: Arc<RouteInfo>,
}

/// The routes of the prefix that was found.
#[derive(Clone, Debug, Default)]
pub(crate) enum Found {
    /// There is no prefix.
    #[default]
    Nothing,
    /// One route of the forwarding table's own table, for any TOS.
    One { len: u8, info: Arc<RouteInfo> },
    /// Routes in the order in which they are tried.
    Several { len: u8, entries: Arc<Vec<Entry>> },
}

impl Found {
    fn new(table: u32, len: u8, entries: Vec<Entry>) -> Found {
        match entries.as_slice() {
            [] => Found::Nothing,
            [only] if only.table == table && only.tos == 0 => {
                Found::One { len, info: only.info.clone() }
            }
            _ => Found::Several { len, entries: Arc::new(entries) },
        }
    }

    /// The length of the prefix; `None` without one.
    #[inline]
    pub(crate) fn len(&self) -> Option<u8> {
        match self {
            Found::Nothing => None,
            Found::One { len, .. } | Found::Several { len, .. } => Some(*len),
        }
    }

    /// Whether lookups cannot tell them apart.
    fn is_same(&self, other: &Found) -> bool {
        self.len() == other.len()
            && match (self, other) {
                (Found::Nothing, Found::Nothing) => true,
                (Found::One { info: a, .. }, Found::One { info: b, .. }) => Arc::ptr_eq(a, b),
                (Found::Several { entries: a, .. }, Found::Several { entries: b, .. }) => {
                    Arc::ptr_eq(a, b)
                }
                _ => false,
            }
    }

    /// TOS and properties of the routes, in the order in which they are tried.
    #[inline]
    pub(crate) fn routes(&self) -> impl Iterator<Item = (u8, &Arc<RouteInfo>)> {
        let (one, several) = match self {
            Found::Nothing => (None, [].as_slice()),
            Found::One { info, .. } => (Some((0, info)), [].as_slice()),
            Found::Several { entries, .. } => (None, entries.as_slice()),
        };
        one.into_iter().chain(several.iter().map(|e| (e.tos, &e.info)))
    }

    /// The routes of a prefix of a table.
    pub(crate) fn entries(&self, table: u32) -> Vec<Entry> {
        match self {
            Found::Several { entries, .. } => entries.to_vec(),
            _ => {
                self.routes().map(|(tos, info)| Entry { table, tos, info: info.clone() }).collect()
            }
        }
    }
}

/// What stands for one range of a node.
#[derive(Clone, Debug)]
struct Slot<K> {
    /// The longest prefix that ends in this node.
    found: Found,
    /// Longer prefixes. The range has one value then.
    child: Option<Arc<Node<K>>>,
}

impl<K> Default for Slot<K> {
    fn default() -> Self {
        Slot { found: Found::Nothing, child: None }
    }
}

/// A node tells addresses apart by their byte number `depth`. All of them begin with the same bytes
/// before it.
#[derive(Clone, Debug)]
#[repr(C)]
struct Node<K> {
    /// A bit for each value at which a range starts. The first one always does.
    starts: [u64; 4],
    /// How many ranges start before each word.
    before: [u8; 4],
    depth: u8,
    slots: Vec<Slot<K>>,
    /// An address of the node.
    address: K,
    /// The prefixes that end in this node: first value and length in bits beyond `depth` bytes, in
    /// ascending order. They say what is left when one of them goes.
    prefixes: Vec<(u8, u8, Found)>,
}

/// The first value at or after the last of a range of values, as an index.
fn after(first: u8, len: u8) -> usize {
    usize::from(first) + (256 >> len)
}

/// Inserts without room for as many again: there are many nodes, and they change rarely.
fn insert<T>(all: &mut Vec<T>, at: usize, item: T) {
    if all.len() == all.capacity() {
        all.reserve_exact(1 + all.len() / 8);
    }
    all.insert(at, item);
}

impl<K: Key> Node<K> {
    fn new(address: K, depth: u8) -> Self {
        Node {
            starts: [1, 0, 0, 0],
            before: [0, 1, 1, 1],
            depth,
            slots: vec![Slot::default()],
            address,
            prefixes: Vec::new(),
        }
    }

    /// Number of the slot of a value.
    #[inline]
    fn rank(&self, value: u8) -> usize {
        let word = usize::from(value >> 6);
        let up_to = self.starts[word] << (63 - (value & 63));
        usize::from(self.before[word]) + up_to.count_ones() as usize - 1
    }

    #[inline]
    fn slot(&self, value: u8) -> &Slot<K> {
        &self.slots[self.rank(value)]
    }

    fn starts_at(&self, value: usize) -> bool {
        self.starts[value / 64] >> (value % 64) & 1 != 0
    }

    fn set_start(&mut self, value: usize, starts: bool) {
        let bit = 1 << (value % 64);
        let word = &mut self.starts[value / 64];
        *word = if starts { *word | bit } else { *word & !bit };
        // At most 192 before the last word.
        for i in 1..4 {
            self.before[i] = self.before[i - 1] + self.starts[i - 1].count_ones() as u8;
        }
    }

    /// Makes a range start at a value, 256 for the end.
    fn split(&mut self, value: usize) {
        if value == 256 || self.starts_at(value) {
            return;
        }
        let rank = self.rank(value as u8);
        let slot = self.slots[rank].clone();
        insert(&mut self.slots, rank + 1, slot);
        self.set_start(value, true);
    }

    /// Joins the range at a value with the one before it if both are the same.
    fn join(&mut self, value: usize) {
        if value == 0 || value == 256 || !self.starts_at(value) {
            return;
        }
        let rank = self.rank(value as u8);
        let (one, other) = (&self.slots[rank - 1], &self.slots[rank]);
        let childless = one.child.is_none() && other.child.is_none();
        if childless && one.found.is_same(&other.found) {
            self.slots.remove(rank);
            self.set_start(value, false);
        }
    }

    fn set_child(&mut self, value: u8, child: Option<Arc<Node<K>>>) {
        let value = usize::from(value);
        self.split(value);
        self.split(value + 1);
        let rank = self.rank(value as u8);
        self.slots[rank].child = child;
        self.join(value + 1);
        self.join(value);
    }

    /// The place of a prefix among those of this node.
    fn place(&self, first: u8, len: u8) -> Result<usize, usize> {
        self.prefixes.binary_search_by_key(&(first, len), |p| (p.0, p.1))
    }

    /// The longest prefix around a value that is at most `len` bits long.
    fn longest(&self, value: u8, len: u8) -> Option<&Found> {
        if self.prefixes.is_empty() {
            return None;
        }
        (0..=len).rev().find_map(|len| {
            let first = (u16::from(value) & (0xff00 >> len)) as u8;
            self.place(first, len).ok().map(|at| &self.prefixes[at].2)
        })
    }

    /// Makes sure that a value has a child on the way to a node of an address at a depth.
    fn make_way(&mut self, value: u8, address: K, depth: u8) {
        let old = self.slot(value).child.clone();
        let shared = old
            .as_ref()
            .map_or(depth, |old| old.address.shared_bytes(address).min(old.depth).min(depth));
        if old.as_ref().is_some_and(|old| old.depth == shared) {
            return;
        }
        let mut between = Node::new(address, shared);
        if let Some(old) = old {
            between.set_child(old.address.byte(shared), Some(old));
        }
        self.set_child(value, Some(Arc::new(between)));
    }

    /// Takes a prefix out of the node at a depth, and nodes that are of no use without it.
    fn remove(&mut self, prefix: K, depth: u8, len: u8) {
        let value = prefix.byte(self.depth);
        if self.depth == depth {
            return self.set(value, len, Found::Nothing);
        }
        let rank = self.rank(value);
        let Some(child) = &mut self.slots[rank].child else { return };
        if child.depth > depth || !child.address.shares(prefix, child.depth) {
            return;
        }
        let child = Arc::make_mut(child);
        child.remove(prefix, depth, len);
        if child.prefixes.is_empty() {
            let mut left = child.slots.iter().filter_map(|slot| slot.child.as_ref());
            let first = left.next().cloned();
            if left.next().is_none() {
                self.set_child(value, first);
            }
        }
    }

    /// Gives a prefix other routes; without any it is removed.
    fn set(&mut self, first: u8, len: u8, found: Found) {
        let old = match (self.place(first, len), &found) {
            (Err(_), Found::Nothing) => return,
            (Ok(at), Found::Nothing) => Some(self.prefixes.remove(at).2),
            (Ok(at), _) => Some(std::mem::replace(&mut self.prefixes[at].2, found.clone())),
            (Err(at), _) => {
                insert(&mut self.prefixes, at, (first, len, found.clone()));
                None
            }
        };
        let instead = match (&found, len.checked_sub(1)) {
            (Found::Nothing, Some(shorter)) => {
                self.longest(first, shorter).cloned().unwrap_or_default()
            }
            _ => found,
        };
        let end = after(first, len);
        self.split(first.into());
        self.split(end);
        // Ranges of longer prefixes stay.
        let length = old.as_ref().and_then(Found::len).or(instead.len());
        let from = self.rank(first);
        let to = self.rank((end - 1) as u8);
        for slot in &mut self.slots[from..=to] {
            if slot.found.len() <= length {
                slot.found = instead.clone();
            }
        }
        self.join(end);
        self.join(first.into());
    }
}

/// The routes of one table of one family, or of two that share their prefixes.
#[derive(Clone, Debug)]
pub(crate) struct Fib<K> {
    /// The table of routes that say no other.
    table: u32,
    root: Arc<Node<K>>,
}

static NOTHING: Found = Found::Nothing;

/// The depth of the node in which a prefix ends, and its bits beyond that.
fn home(len: u8) -> (u8, u8) {
    let depth = len.saturating_sub(1) / 8;
    (depth, len - 8 * depth)
}

impl<K: Key> Fib<K> {
    /// A table without routes.
    pub(crate) fn new(table: u32) -> Self {
        Fib { table, root: Arc::new(Node::new(K::default(), 0)) }
    }

    /// The number of the table.
    pub(crate) fn table(&self) -> u32 {
        self.table
    }

    /// The routes of the longest prefix around an address.
    #[inline]
    pub(crate) fn longest(&self, address: K) -> &Found {
        let mut found = &NOTHING;
        let mut node = &*self.root;
        loop {
            let slot = node.slot(address.byte(node.depth));
            if !matches!(slot.found, Found::Nothing) {
                found = &slot.found;
            }
            match &slot.child {
                Some(child) if child.address.shares(address, child.depth) => node = child,
                _ => return found,
            }
        }
    }

    /// The routes of the longest prefix around an address that is shorter than `below` bits.
    pub(crate) fn shorter(&self, address: K, below: u8) -> &Found {
        let mut found = &NOTHING;
        let mut node = &*self.root;
        while let Some(most) = below.checked_sub(8 * node.depth + 1) {
            let value = address.byte(node.depth);
            found = node.longest(value, most.min(8)).unwrap_or(found);
            match &node.slot(value).child {
                Some(child) if child.address.shares(address, child.depth) => node = child,
                _ => break,
            }
        }
        found
    }

    /// The routes of one prefix, in the order in which they are tried.
    pub(crate) fn get(&self, prefix: K, len: u8) -> Vec<Entry> {
        let (depth, bits) = home(len);
        let mut node = &*self.root;
        while node.depth < depth {
            match &node.slot(prefix.byte(node.depth)).child {
                Some(child) if child.address.shares(prefix, child.depth) => node = child,
                _ => return Vec::new(),
            }
        }
        match node.place(prefix.byte(node.depth), bits) {
            Ok(at) if node.depth == depth => node.prefixes[at].2.entries(self.table),
            _ => Vec::new(),
        }
    }

    /// Gives a prefix (bits beyond `len` zero) these routes instead of those that it has.
    pub(crate) fn set(&mut self, prefix: K, len: u8, entries: Vec<Entry>) {
        let (depth, bits) = home(len);
        let mut node = Arc::make_mut(&mut self.root);
        if entries.is_empty() {
            return node.remove(prefix, depth, bits);
        }
        while node.depth < depth {
            let value = prefix.byte(node.depth);
            node.make_way(value, prefix, depth);
            let rank = node.rank(value);
            match &mut node.slots[rank].child {
                Some(child) => node = Arc::make_mut(child),
                None => return,
            }
        }
        node.set(prefix.byte(depth), bits, Found::new(self.table, len, entries));
    }

    /// Calls `f` with all prefixes and their routes, in no particular order.
    pub(crate) fn for_each(&self, f: &mut impl FnMut(K, u8, &Found)) {
        self.root.for_each(f);
    }
}

impl<K: Key> Node<K> {
    fn for_each(&self, f: &mut impl FnMut(K, u8, &Found)) {
        let bits = 8 * u32::from(K::BYTES - 1 - self.depth);
        for (first, len, found) in &self.prefixes {
            let before = self.address.masked(8 * self.depth).number();
            f(K::from_number(before | u128::from(*first) << bits), 8 * self.depth + len, found);
        }
        for child in self.slots.iter().filter_map(|slot| slot.child.as_ref()) {
            child.for_each(f);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RouteType;
    use std::collections::BTreeMap;

    fn entry(table: u32, metric: u32) -> Entry {
        let info = RouteInfo { metric, ..RouteInfo::new(RouteType::Unicast) };
        Entry { table, tos: 0, info: Arc::new(info) }
    }

    /// The lengths of all prefixes around an address, the longest first.
    fn around<K: Key>(fib: &Fib<K>, address: K) -> Vec<(u8, Vec<Entry>)> {
        let mut all = Vec::new();
        let mut found = fib.longest(address);
        while let Some(len) = found.len() {
            all.push((len, found.entries(7)));
            found = fib.shorter(address, len);
        }
        all
    }

    fn agrees<K: Key>(
        fib: &Fib<K>,
        model: &BTreeMap<(K, u8), Vec<Entry>>,
        rng: &mut fastrand::Rng,
    ) {
        let bits = 8 * K::BYTES;
        let mut addresses: Vec<K> = (0..20).map(|_| K::from_number(rng.u128(..))).collect();
        let some: Vec<_> = model.keys().filter(|_| rng.u8(..8) == 0).collect();
        for (prefix, len) in some {
            let host = u128::MAX.checked_shr((128 - bits + len).into()).unwrap_or(0);
            let last = prefix.number() | host;
            let next = |n: u128, by: i128| K::from_number(n.wrapping_add_signed(by));
            addresses.extend([*prefix, next(prefix.number(), -1), next(last, 0), next(last, 1)]);
        }
        for address in addresses {
            let by_hand: Vec<_> = (0..=bits)
                .rev()
                .filter_map(|len| Some((len, model.get(&(address.masked(len), len))?.clone())))
                .collect();
            assert_eq!(around(fib, address), by_hand, "{address:x?}");
        }
        let mut all = BTreeMap::new();
        fib.for_each(&mut |prefix, len, found| {
            all.insert((prefix, len), found.entries(7));
        });
        assert_eq!(&all, model);
    }

    /// Random prefixes come, change and go, and clones of the table keep what they had.
    fn random<K: Key>() {
        let mut rng = fastrand::Rng::with_seed(penstock_testkit::seed());
        let bits = 8 * K::BYTES;
        for density in [1, 3, 8] {
            let mut fib = Fib::<K>::new(7);
            let mut model = BTreeMap::new();
            let mut kept = Vec::new();
            for step in 0..1500 {
                let len = rng.u8(0..=bits);
                // Few different bytes, so that prefixes lie in each other.
                let number = u128::from_be_bytes(std::array::from_fn(|_| rng.u8(..density) * 31));
                let prefix = K::from_number(number).masked(len);
                let entries: Vec<_> =
                    (0..rng.u32(0..4).min(2)).map(|_| entry(rng.u32(6..8), rng.u32(..3))).collect();
                assert_eq!(
                    fib.get(prefix, len),
                    model.get(&(prefix, len)).cloned().unwrap_or_default()
                );
                fib.set(prefix, len, entries.clone());
                match entries.is_empty() {
                    true => model.remove(&(prefix, len)),
                    false => model.insert((prefix, len), entries),
                };
                if step % 300 == 0 {
                    agrees(&fib, &model, &mut rng);
                    kept.push((fib.clone(), model.clone()));
                }
            }
            kept.iter().for_each(|(fib, model)| agrees(fib, model, &mut rng));
            for (prefix, len) in std::mem::take(&mut model).into_keys() {
                fib.set(prefix, len, Vec::new());
            }
            agrees(&fib, &model, &mut rng);
            assert!(fib.root.slots.len() == 1 && fib.root.slots[0].child.is_none());
        }
    }

    #[test]
    fn finds_what_a_search_of_all_prefixes_finds() {
        random::<u32>();
        random::<u128>();
    }
}
