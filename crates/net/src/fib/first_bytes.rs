// SPDX-License-Identifier: Apache-2.0

//! Looking up the numbers of routes, for packets.
//!
//! The first two bytes of an address lead by two loads, without a search, to the node of the trie
//! for the bytes that follow. Many addresses are looked up together, so that memory is fetched for
//! some while others are worked on.

use std::sync::Arc;

use penstock_wire::cache::prefetch;

use super::{Fib, Node};
use crate::RouteNumber;
use crate::key::Key;

/// Addresses that are looked up together.
const TOGETHER: usize = 64;

/// Addresses with the same first two bytes.
#[derive(Clone, Debug)]
struct Pair<K> {
    /// The route of the longest prefix of 9 to 16 bits.
    number: RouteNumber,
    /// The node of the trie with all longer ones.
    longer: Option<Arc<Node<K>>>,
}

/// By the second byte.
type Page<K> = [Pair<K>; 256];

/// What the trie knows by the first two bytes of addresses.
#[derive(Clone, Debug)]
pub(super) struct FirstBytes<K> {
    /// The route of the longest prefix of at most 8 bits, by the first byte.
    numbers: [RouteNumber; 256],
    pages: [Arc<Page<K>>; 256],
    /// The page of bytes that no prefix of more bits begins with.
    empty: Arc<Page<K>>,
}

impl<K: Key> FirstBytes<K> {
    pub(super) fn new() -> Self {
        let nothing = || Pair { number: RouteNumber::NO_ROUTE, longer: None };
        let empty = Arc::new(std::array::from_fn(|_| nothing()));
        FirstBytes {
            numbers: [RouteNumber::NO_ROUTE; 256],
            pages: std::array::from_fn(|_| Arc::clone(&empty)),
            empty,
        }
    }

    #[inline(always)]
    fn pair(&self, address: K) -> &Pair<K> {
        &self.pages[usize::from(address.byte(0))][usize::from(address.byte(1))]
    }

    /// Lets go of the node that a change of a prefix is about to change, so that it need not be
    /// copied.
    pub(super) fn forget(&mut self, prefix: K, len: u8) {
        if len > 16 && self.pair(prefix).longer.is_some() {
            let page = Arc::make_mut(&mut self.pages[usize::from(prefix.byte(0))]);
            page[usize::from(prefix.byte(1))].longer = None;
        }
    }

    /// Takes over what the trie knows after a change of a prefix.
    pub(super) fn learn(&mut self, root: &Node<K>, prefix: K, len: u8) {
        /// The last value of a byte within a prefix of so many of its bits.
        fn last(first: u8, bits: u8) -> u8 {
            first | 0xff_u8.checked_shr(bits.into()).unwrap_or(0)
        }
        let first = prefix.byte(0);
        if len <= 8 {
            for value in first..=last(first, len) {
                self.numbers[usize::from(value)] = root.range(value).number;
            }
            return;
        }
        let page = &mut self.pages[usize::from(first)];
        let Some(child) = root.child(first) else {
            *page = self.empty.clone();
            return;
        };
        let page = Arc::make_mut(page);
        let second = prefix.byte(1);
        for value in second..=last(second, (len - 8).min(8)) {
            page[usize::from(value)] = match child.depth {
                1 => {
                    Pair { number: child.range(value).number, longer: child.child(value).cloned() }
                }
                _ => Pair {
                    number: RouteNumber::NO_ROUTE,
                    longer: (child.address.byte(1) == value).then(|| child.clone()),
                },
            };
        }
    }

    /// The route of a prefix of at most 16 bits.
    #[inline(always)]
    fn number(&self, address: K, pair: &Pair<K>) -> RouteNumber {
        match pair.number {
            RouteNumber::NO_ROUTE => self.numbers[usize::from(address.byte(0))],
            number => number,
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

impl<K: Key> Fib<K> {
    /// The number of the route of the longest prefix around an address, if that is all that there
    /// is to say of it and it is of the table's own table, else none.
    #[inline(always)]
    pub(crate) fn number(&self, address: K) -> RouteNumber {
        let pair = self.first.pair(address);
        let mut number = self.first.number(address, pair);
        let mut next = pair.longer.as_deref().filter(|node| node.is_around(address, 2));
        while let Some(node) = next {
            let here = node.range(address.byte(node.depth)).number;
            if here != RouteNumber::NO_ROUTE {
                number = here;
            }
            next = node.towards(address);
        }
        number
    }

    /// [`Fib::number`] of each address.
    #[inline]
    pub(crate) fn numbers(&self, addresses: &[K], numbers: &mut [RouteNumber]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("bmi1") {
            // SAFETY: the processor has the instructions that the function is compiled for.
            return unsafe { self.numbers_by_popcnt(addresses, numbers) };
        }
        self.all_numbers(addresses, numbers);
    }

    /// For processors that count bits, which is most of the work, in one instruction.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt,bmi1")]
    fn numbers_by_popcnt(&self, addresses: &[K], numbers: &mut [RouteNumber]) {
        self.all_numbers(addresses, numbers);
    }

    /// Inlined, loops and all, into what it is called from: no closure, which would be a function
    /// without the instructions that are enabled there.
    #[inline(always)]
    fn all_numbers(&self, addresses: &[K], numbers: &mut [RouteNumber]) {
        /// Fewer are as fast one after the other.
        const FEW: usize = 3;
        if addresses.len() <= FEW {
            for (address, number) in addresses.iter().zip(numbers) {
                *number = self.number(*address);
            }
            return;
        }
        for (addresses, numbers) in addresses.chunks(TOGETHER).zip(numbers.chunks_mut(TOGETHER)) {
            self.few_numbers(addresses, numbers);
        }
    }

    /// Takes all addresses from one step to the next, so that each finds there what was asked for
    /// while the others were at it.
    #[inline(always)]
    fn few_numbers(&self, addresses: &[K], numbers: &mut [RouteNumber]) {
        let first = &*self.first;
        let mut pairs = [first.pair(K::default()); TOGETHER];
        for (pair, address) in pairs.iter_mut().zip(addresses) {
            *pair = first.pair(*address);
            prefetch(*pair);
        }
        let mut nodes = [&*self.root; TOGETHER];
        // The addresses that have a node.
        let mut longer = 0_u64;
        for (at, (pair, number)) in pairs.iter().zip(&mut *numbers).enumerate() {
            *number = RouteNumber::NO_ROUTE;
            if let Some(node) = &pair.longer {
                nodes[at] = node;
                longer |= 1 << at;
                prefetch(nodes[at]);
            }
        }
        let mut ranges = [&self.root.ranges[0]; TOGETHER];
        // Those that have another one after it.
        let mut deep = 0_u64;
        for at in ones(longer) {
            let (node, address) = (nodes[at], addresses[at]);
            let value = address.byte(node.depth);
            if !node.is_around(address, 2) {
                longer &= !(1 << at);
            } else if node.child_at(value).is_some() {
                deep |= 1 << at;
            } else {
                ranges[at] = node.range(value);
                prefetch(ranges[at]);
            }
        }
        if deep != 0 {
            self.deep_numbers(deep, &nodes, addresses, numbers);
        }
        for at in ones(longer & !deep) {
            numbers[at] = ranges[at].number;
        }
        for ((number, address), pair) in numbers.iter_mut().zip(addresses).zip(pairs) {
            if *number == RouteNumber::NO_ROUTE {
                *number = first.number(*address, pair);
            }
        }
    }

    /// The numbers of the addresses among these that are around a node with a child for them, as far
    /// as the node and those after it know.
    #[inline(always)]
    fn deep_numbers(
        &self,
        mut left: u64,
        nodes: &[&Node<K>; TOGETHER],
        addresses: &[K],
        numbers: &mut [RouteNumber],
    ) {
        /// Levels that are remembered on the way.
        const ABOVE: usize = 3;
        let these = left;
        let root = &*self.root;
        let mut nodes = *nodes;
        let mut above = [[root; TOGETHER]; ABOVE];
        let mut levels = [0_u8; TOGETHER];
        let mut ways: [&Arc<Node<K>>; TOGETHER] = [&self.root; TOGETHER];
        let mut aside = 0_u64;
        let mut level = 0;
        while left != 0 {
            for at in ones(left) {
                let (node, address) = (nodes[at], addresses[at]);
                let known = if level == 0 { 2 } else { above[(level - 1) % ABOVE][at].depth + 1 };
                let value = address.byte(node.depth);
                let around = node.is_around(address, known);
                if around && let Some(child) = node.child_at(value) {
                    ways[at] = &node.children[child];
                    prefetch(ways[at]);
                    continue;
                }
                left &= !(1 << at);
                levels[at] = level as u8;
                aside |= u64::from(!around) << at;
                prefetch(node.range(value));
            }
            for at in ones(left) {
                above[level % ABOVE][at] = nodes[at];
                nodes[at] = &**ways[at];
                prefetch(nodes[at]);
            }
            level += 1;
        }
        for at in ones(these) {
            let address = addresses[at];
            let mut found = match aside >> at & 1 {
                0 => nodes[at].range(address.byte(nodes[at].depth)).number,
                _ => RouteNumber::NO_ROUTE,
            };
            // Else a shorter prefix, of a node that was passed.
            let mut level = usize::from(levels[at]);
            if found == RouteNumber::NO_ROUTE && level > ABOVE {
                found = self.number(address);
                level = 0;
            }
            while found == RouteNumber::NO_ROUTE && level > 0 {
                level -= 1;
                let node = above[level][at];
                found = node.range(address.byte(node.depth)).number;
            }
            numbers[at] = found;
        }
    }
}
