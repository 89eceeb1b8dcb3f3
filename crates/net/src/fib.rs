// SPDX-License-Identifier: Apache-2.0

//! The forwarding table: from an address to the routes of the longest prefix around it.
//!
//! A trie that takes a byte of the address at a time. The prefixes that end within the byte of a
//! node cut its 256 values into ranges in which the longest match is the same. A bit says where a
//! range starts, and the number of bits before it where the range is, so a node of few prefixes is
//! small (the idea of Lulea tables and of poptrie). Longer prefixes are in children, found by a bit
//! for each value in the same way. Bytes that do not tell prefixes apart are skipped.
//!
//! Nodes are shared: a clone of the table costs nothing, and a change copies the nodes on the way
//! to the prefix, so that another state of the network can keep the old ones.
//!
//! Packets only need the number of a route ([`SharedRouteInfo::number`]), which they mostly find in
//! one line of memory ([`first_bytes`], [`lines`]).

mod first_bytes;
mod lines;

use std::sync::Arc;

use first_bytes::FirstBytes;

use crate::key::Key;
use crate::{RouteNumber, RouteType, SharedRouteInfo};

/// A route of one prefix.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The table that the route is in: another one than the forwarding table's in one that two
    /// share.
    pub(crate) table: u32,
    /// TOS that it is limited to, 0 for any.
    pub(crate) tos: u8,
    pub(crate) info: Arc<SharedRouteInfo>,
}

/// The routes of the prefix that was found.
#[derive(Clone, Debug, Default)]
pub(crate) enum Found {
    /// There is no prefix.
    #[default]
    Nothing,
    /// One route of the forwarding table's own table, for any TOS.
    One { len: u8, info: Arc<SharedRouteInfo> },
    /// Routes in the order in which they are tried.
    Several { len: u8, entries: Arc<Vec<Entry>> },
}

static NOTHING: Found = Found::Nothing;

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

    /// The number of the route, if that is all that there is to say of it and it is of the table's
    /// own table, else none.
    fn number(&self) -> RouteNumber {
        match self {
            Found::Nothing => RouteNumber::NO_ROUTE,
            Found::One { info, .. }
                if info.kind == RouteType::Unicast && info.nexthops.len() == 1 =>
            {
                info.number()
            }
            Found::One { .. } | Found::Several { .. } => RouteNumber::NONE,
        }
    }

    /// TOS and properties of the routes, in the order in which they are tried.
    #[inline]
    pub(crate) fn routes(&self) -> impl Iterator<Item = (u8, &Arc<SharedRouteInfo>)> {
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

/// 256 bits, with the number of those before each.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Bits {
    words: [u64; 4],
    /// How many bits of the words before each are set; at most 192.
    before: [u8; 4],
}

impl Bits {
    #[inline(always)]
    fn has(&self, value: u8) -> bool {
        self.words[usize::from(value >> 6)] >> (value & 63) & 1 != 0
    }

    /// How many bits up to this one are set, with it.
    #[inline(always)]
    fn up_to(&self, value: u8) -> usize {
        let word = usize::from(value >> 6);
        let up_to = self.words[word] << (63 - (value & 63));
        usize::from(self.before[word]) + up_to.count_ones() as usize
    }

    fn set(&mut self, value: u8, on: bool) {
        let bit = 1 << (value & 63);
        let word = &mut self.words[usize::from(value >> 6)];
        *word = if on { *word | bit } else { *word & !bit };
        for i in 1..4 {
            self.before[i] = self.before[i - 1] + self.words[i - 1].count_ones() as u8;
        }
    }
}

/// The places of the bits that are set, in order.
#[inline(always)]
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (first < u64::BITS).then_some(first as usize)
    })
}

/// Values of a byte with the same longest prefix of a node.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    /// What [`Found::number`] says of it.
    number: RouteNumber,
    /// The prefix: its place among those of the node, and 1; 0 for none.
    prefix: u16,
}

/// A prefix that ends in a node.
#[derive(Clone, Debug)]
struct Prefix {
    /// The first value of the node's byte within it.
    first: u8,
    /// Bits beyond those of the bytes before it.
    len: u8,
    found: Found,
}

/// A node tells addresses apart by their byte number `depth`. All of them begin with the same bytes
/// before it.
#[derive(Clone, Debug)]
#[repr(C)]
struct Node<K> {
    /// A bit for each value at which a range starts. The first one always does.
    starts: Bits,
    depth: u8,
    has_children: bool,
    ranges: Vec<Range>,
    /// A bit for each value that has a child.
    parents: Bits,
    /// An address of the node.
    address: K,
    /// Longer prefixes.
    children: Vec<Arc<Node<K>>>,
    /// The prefixes that end in this node, by first value and length.
    prefixes: Vec<Prefix>,
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
        let mut starts = Bits::default();
        starts.set(0, true);
        Node {
            starts,
            depth,
            has_children: false,
            ranges: vec![Range::default()],
            parents: Bits::default(),
            address,
            children: Vec::new(),
            prefixes: Vec::new(),
        }
    }

    /// The range of a value.
    #[inline(always)]
    fn range(&self, value: u8) -> &Range {
        &self.ranges[self.starts.up_to(value) - 1]
    }

    /// The longest prefix around a value.
    #[inline]
    fn found(&self, value: u8) -> &Found {
        match self.range(value).prefix {
            0 => &NOTHING,
            prefix => &self.prefixes[usize::from(prefix) - 1].found,
        }
    }

    /// Where the child of a value is, if it has one.
    #[inline(always)]
    fn child_at(&self, value: u8) -> Option<usize> {
        (self.has_children && self.parents.has(value)).then(|| self.parents.up_to(value) - 1)
    }

    /// The child of a value, which may have other addresses.
    #[inline(always)]
    fn child(&self, value: u8) -> Option<&Arc<Node<K>>> {
        Some(&self.children[self.child_at(value)?])
    }

    /// The next node on the way to an address.
    #[inline(always)]
    fn towards(&self, address: K) -> Option<&Node<K>> {
        let child = &**self.child(address.byte(self.depth))?;
        child.is_around(address, self.depth + 1).then_some(child)
    }

    /// Whether an address is one of the node's. Its bytes before number `known` are.
    #[inline(always)]
    fn is_around(&self, address: K, known: u8) -> bool {
        self.depth == known || self.address.shares(address, self.depth)
    }

    /// Makes a range start at a value, 256 for the end.
    fn split(&mut self, value: u16) {
        let Ok(value) = u8::try_from(value) else { return };
        if !self.starts.has(value) {
            let at = self.starts.up_to(value);
            let range = self.ranges[at - 1];
            insert(&mut self.ranges, at, range);
            self.starts.set(value, true);
        }
    }

    /// Joins the range at a value with the one before it if both are the same.
    fn join(&mut self, value: u16) {
        let Ok(value) = u8::try_from(value) else { return };
        if value == 0 || !self.starts.has(value) {
            return;
        }
        let at = self.starts.up_to(value) - 1;
        if self.ranges[at - 1].prefix == self.ranges[at].prefix {
            self.ranges.remove(at);
            self.starts.set(value, false);
        }
    }

    fn set_child(&mut self, value: u8, child: Option<Arc<Node<K>>>) {
        match (self.child_at(value), child) {
            (Some(at), Some(child)) => self.children[at] = child,
            (Some(at), None) => {
                self.children.remove(at);
                self.parents.set(value, false);
            }
            (None, Some(child)) => {
                self.parents.set(value, true);
                insert(&mut self.children, self.parents.up_to(value) - 1, child);
            }
            (None, None) => {}
        }
        self.has_children = !self.children.is_empty();
    }

    /// The place of a prefix among those of this node.
    fn place(&self, first: u8, len: u8) -> Result<usize, usize> {
        self.prefixes.binary_search_by_key(&(first, len), |p| (p.first, p.len))
    }

    /// The place of the longest prefix around a value that is at most `len` bits long.
    fn longest(&self, value: u8, len: u8) -> Option<usize> {
        if self.prefixes.is_empty() {
            return None;
        }
        (0..=len).rev().find_map(|len| {
            let first = (u16::from(value) & (0xff00 >> len)) as u8;
            self.place(first, len).ok()
        })
    }

    /// Makes sure that a value has a child on the way to a node of an address at a depth.
    fn make_way(&mut self, value: u8, address: K, depth: u8) {
        let old = self.child(value).cloned();
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

    /// Gives a prefix of an address of this node other routes; without any it is removed.
    fn set_below(&mut self, prefix: K, len: u8, found: Found) {
        let (depth, bits) = home(len);
        if matches!(found, Found::Nothing) {
            return self.remove(prefix, depth, bits);
        }
        let mut node = self;
        while node.depth < depth {
            let value = prefix.byte(node.depth);
            node.make_way(value, prefix, depth);
            let Some(child) = node.child_at(value) else { return };
            node = Arc::make_mut(&mut node.children[child]);
        }
        node.set(prefix.byte(depth), bits, found);
    }

    /// Takes a prefix out of the node at a depth, and nodes that are of no use without it.
    fn remove(&mut self, prefix: K, depth: u8, len: u8) {
        let value = prefix.byte(self.depth);
        if self.depth == depth {
            return self.set(value, len, Found::Nothing);
        }
        let Some(at) = self.child_at(value) else { return };
        let child = &mut self.children[at];
        if child.depth > depth || !child.is_around(prefix, self.depth + 1) {
            return;
        }
        let child = Arc::make_mut(child);
        child.remove(prefix, depth, len);
        if child.prefixes.is_empty() && child.children.len() < 2 {
            let only = child.children.pop();
            self.set_child(value, only);
        }
    }

    /// Gives a prefix other routes; without any it is removed.
    fn set(&mut self, first: u8, len: u8, found: Found) {
        let end = u16::from(first) + (256 >> len);
        let number = found.number();
        match (self.place(first, len), found) {
            (Err(_), Found::Nothing) => {}
            (Ok(at), Found::Nothing) => {
                self.prefixes.remove(at);
                let shorter = len.checked_sub(1).and_then(|len| self.longest(first, len));
                let instead = shorter.map_or(Range::default(), |at| Range {
                    number: self.prefixes[at].found.number(),
                    prefix: at as u16 + 1,
                });
                for range in &mut self.ranges {
                    match range.prefix.cmp(&(at as u16 + 1)) {
                        std::cmp::Ordering::Less => {}
                        std::cmp::Ordering::Equal => *range = instead,
                        std::cmp::Ordering::Greater => range.prefix -= 1,
                    }
                }
                // Other ranges of the shorter prefix may lie on both sides of each of these.
                (u16::from(first)..=end).rev().for_each(|value| self.join(value));
            }
            (Ok(at), found) => {
                self.prefixes[at].found = found;
                let changed = self.ranges.iter_mut().filter(|r| usize::from(r.prefix) == at + 1);
                changed.for_each(|range| range.number = number);
            }
            (Err(at), found) => {
                insert(&mut self.prefixes, at, Prefix { first, len, found });
                for range in &mut self.ranges {
                    range.prefix += u16::from(usize::from(range.prefix) > at);
                }
                self.split(first.into());
                self.split(end);
                // Ranges of longer prefixes stay.
                let (from, to) =
                    (self.starts.up_to(first) - 1, self.starts.up_to((end - 1) as u8) - 1);
                let prefixes = &self.prefixes;
                for range in &mut self.ranges[from..=to] {
                    let old = usize::from(range.prefix).checked_sub(1);
                    if old.is_none_or(|old| prefixes[old].len < len) {
                        *range = Range { number, prefix: at as u16 + 1 };
                    }
                }
            }
        }
    }
}

/// The routes of one table of one family, or of two that share their prefixes.
#[derive(Clone, Debug)]
pub(crate) struct Fib<K> {
    /// The table of routes that say no other.
    table: u32,
    root: Arc<Node<K>>,
    /// What packets ask first.
    first: Arc<FirstBytes>,
}

/// The depth of the node in which a prefix ends, and its bits beyond that.
fn home(len: u8) -> (u8, u8) {
    let depth = len.saturating_sub(1) / 8;
    (depth, len - 8 * depth)
}

impl<K: Key> Fib<K> {
    /// A table without routes.
    pub(crate) fn new(table: u32) -> Self {
        let root = Arc::new(Node::new(K::default(), 0));
        Fib { table, root, first: Arc::new(FirstBytes::new()) }
    }

    /// The number of the table.
    pub(crate) fn table(&self) -> u32 {
        self.table
    }

    /// The routes of the longest prefix around an address.
    #[inline]
    pub(crate) fn longest(&self, address: K) -> &Found {
        let mut found = &NOTHING;
        let mut next = Some(&*self.root);
        while let Some(node) = next {
            let here = node.found(address.byte(node.depth));
            if !matches!(here, Found::Nothing) {
                found = here;
            }
            next = node.towards(address);
        }
        found
    }

    /// The routes of the longest prefix around an address that is shorter than `below` bits.
    pub(crate) fn shorter(&self, address: K, below: u8) -> &Found {
        let mut found = &NOTHING;
        let mut next = Some(&*self.root);
        while let Some(node) = next
            && let Some(most) = below.checked_sub(8 * node.depth + 1)
        {
            if let Some(at) = node.longest(address.byte(node.depth), most.min(8)) {
                found = &node.prefixes[at].found;
            }
            next = node.towards(address);
        }
        found
    }

    /// The routes of one prefix, in the order in which they are tried.
    pub(crate) fn get(&self, prefix: K, len: u8) -> Vec<Entry> {
        let (depth, bits) = home(len);
        let mut node = &*self.root;
        while node.depth < depth {
            match node.towards(prefix) {
                Some(child) => node = child,
                None => return Vec::new(),
            }
        }
        match node.place(prefix.byte(node.depth), bits) {
            Ok(at) if node.depth == depth => node.prefixes[at].found.entries(self.table),
            _ => Vec::new(),
        }
    }

    /// Gives a prefix (bits beyond `len` zero) these routes instead of those that it has.
    pub(crate) fn set(&mut self, prefix: K, len: u8, entries: Vec<Entry>) {
        let found = Found::new(self.table, len, entries);
        Arc::make_mut(&mut self.root).set_below(prefix, len, found);
        Arc::make_mut(&mut self.first).learn(&self.root, prefix, len);
    }

    /// Calls `f` with all prefixes and their routes, in no particular order.
    pub(crate) fn for_each(&self, f: &mut impl FnMut(K, u8, &Found)) {
        self.root.for_each(f);
    }
}

impl<K: Key> Node<K> {
    fn for_each(&self, f: &mut impl FnMut(K, u8, &Found)) {
        let bits = 8 * u32::from(K::BYTES - 1 - self.depth);
        for Prefix { first, len, found } in &self.prefixes {
            let before = self.address.masked(8 * self.depth).number();
            f(K::from_number(before | u128::from(*first) << bits), 8 * self.depth + len, found);
        }
        self.children.iter().for_each(|child| child.for_each(f));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Nexthop, RouteInfo, Scope};
    use std::collections::BTreeMap;

    fn entry(table: u32, metric: u32) -> Entry {
        let kind = if metric == 2 { RouteType::Blackhole } else { RouteType::Unicast };
        let way =
            Nexthop { oif: 1, gateway: None, onlink: false, weight: 1, scope: Scope::UNIVERSE };
        let info = RouteInfo { metric, nexthops: vec![way], ..RouteInfo::new(kind) };
        Entry { table, tos: 0, info: Arc::new(SharedRouteInfo::new(info)) }
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
        for &address in &addresses {
            let by_hand: Vec<_> = (0..=bits)
                .rev()
                .filter_map(|len| Some((len, model.get(&(address.masked(len), len))?.clone())))
                .collect();
            assert_eq!(around(fib, address), by_hand, "{address:x?}");
        }
        let longest = |address: &K| {
            let found = fib.longest(*address);
            let unicast = |info: &SharedRouteInfo| info.kind == RouteType::Unicast;
            match found.routes().next() {
                None => RouteNumber::NO_ROUTE,
                Some((0, info)) if matches!(found, Found::One { .. }) && unicast(info) => {
                    info.number()
                }
                Some(_) => RouteNumber::NONE,
            }
        };
        let mut numbers = vec![RouteNumber::NONE; addresses.len()];
        fib.numbers(&addresses, &mut numbers);
        fib.numbers(&addresses[..2], &mut numbers);
        assert_eq!(numbers, addresses.iter().map(longest).collect::<Vec<_>>());
        assert_eq!(numbers, addresses.iter().map(|a| fib.number(*a)).collect::<Vec<_>>());
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
            assert!(fib.root.ranges.len() == 1 && fib.root.children.is_empty());
        }
    }

    /// Prefixes within two bytes, few and many of them, come, change and go.
    #[test]
    fn finds_routes_among_many_within_two_bytes() {
        let mut rng = fastrand::Rng::with_seed(penstock_testkit::seed());
        let mut fib = Fib::<u32>::new(7);
        let mut model = BTreeMap::new();
        for step in 0..800 {
            let len = rng.u8(17..=25);
            let prefix = (0x0a01_0000 | rng.u32(..) >> 16).masked(len);
            // More of them come than go, and then the other way round.
            let stays = rng.u32(..800) > step;
            let entries: Vec<_> = stays.then(|| entry(7, rng.u32(..3))).into_iter().collect();
            fib.set(prefix, len, entries.clone());
            match stays {
                true => model.insert((prefix, len), entries),
                false => model.remove(&(prefix, len)),
            };
            if step % 20 == 0 {
                agrees(&fib, &model, &mut rng);
            }
        }
    }

    #[test]
    fn finds_what_a_search_of_all_prefixes_finds() {
        random::<u32>();
        random::<u128>();
    }
}
