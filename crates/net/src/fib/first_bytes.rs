// SPDX-License-Identifier: Apache-2.0

//! Looking up the numbers of routes, for packets.
//!
//! The first three bytes of an address lead without a search to the line of memory with its route,
//! or with the word that the trie knows longer prefixes. Many addresses are looked up together, so
//! that memory is fetched for some while others are worked on.

use std::sync::Arc;

use penstock_wire::cache::prefetch;

use super::lines::{Line, SharedLines, line_of};
use super::{Fib, Node, ones};
use crate::RouteNumber;
use crate::key::Key;

/// Addresses that are looked up together.
const TOGETHER: usize = 64;

/// Addresses with the same first byte, by the second.
#[derive(Clone, Debug)]
struct Page {
    /// The routes of longer prefixes than 16 bits, by the third byte: what most look-ups need.
    lines: [Arc<[Line]>; 256],
    /// The routes of the longest prefixes of 9 to 16 bits.
    numbers: [RouteNumber; 256],
}

/// What the trie knows by the first bytes of addresses.
#[derive(Clone, Debug)]
pub(super) struct FirstBytes {
    pages: [Arc<Page>; 256],
    /// The route of the longest prefix of at most 8 bits, by the first byte.
    numbers: [RouteNumber; 256],
    /// The page of bytes that no prefix of more bits begins with.
    empty: Arc<Page>,
    shared: SharedLines,
}

impl FirstBytes {
    pub(super) fn new() -> Self {
        let shared = SharedLines::new();
        let empty = Arc::new(Page {
            lines: std::array::from_fn(|_| shared.nothing.clone()),
            numbers: [RouteNumber::NO_ROUTE; 256],
        });
        FirstBytes {
            numbers: [RouteNumber::NO_ROUTE; 256],
            pages: std::array::from_fn(|_| Arc::clone(&empty)),
            empty,
            shared,
        }
    }

    #[inline(always)]
    fn page(&self, address: impl Key) -> &Page {
        &self.pages[usize::from(address.byte(0))]
    }

    /// The line of an address.
    #[inline(always)]
    fn line(&self, address: impl Key) -> &Line {
        line_of(&self.page(address).lines[usize::from(address.byte(1))], address.byte(2))
    }

    /// What is said of an address by longer prefixes than 16 bits.
    #[inline(always)]
    fn longer(&self, address: impl Key) -> RouteNumber {
        self.line(address).number(address.byte(2))
    }

    /// The route of the longest prefix of at most 16 bits.
    #[inline(always)]
    fn shorter(&self, address: impl Key) -> RouteNumber {
        match self.page(address).numbers[usize::from(address.byte(1))] {
            RouteNumber::NO_ROUTE => self.numbers[usize::from(address.byte(0))],
            number => number,
        }
    }

    /// Takes over what the trie knows after a change of a prefix.
    pub(super) fn learn<K: Key>(&mut self, root: &Node<K>, prefix: K, len: u8) {
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
        let Page { lines, numbers } = Arc::make_mut(page);
        let second = prefix.byte(1);
        if len > 16 {
            let lines = &mut lines[usize::from(second)];
            return match node_of_two(child, prefix) {
                Some(node) => self.shared.learn(lines, node),
                None => lines.clone_from(&self.shared.nothing),
            };
        }
        for value in second..=last(second, len - 8) {
            let known = child.depth == 1;
            let number = if known { child.range(value).number } else { RouteNumber::NO_ROUTE };
            numbers[usize::from(value)] = number;
        }
    }
}

/// The node with all that is known of addresses with the same first two bytes, from that with all
/// with the same first byte.
#[inline(always)]
fn node_of_two<K: Key>(node: &Node<K>, address: K) -> Option<&Node<K>> {
    match node.depth {
        1 => node.child(address.byte(1)).map(|node| &**node),
        _ => (node.address.byte(1) == address.byte(1)).then_some(node),
    }
}

impl<K: Key> Fib<K> {
    /// The number of the route of the longest prefix around an address, if that is all that there
    /// is to say of it and it is of the table's own table, else none.
    #[inline(always)]
    pub(crate) fn number(&self, address: K) -> RouteNumber {
        match self.first.longer(address) {
            RouteNumber::NO_ROUTE => self.first.shorter(address),
            RouteNumber::DEEPER => self.deep_number(address),
            number => number,
        }
    }

    /// The number of the route of one address that the trie has to be asked of. The node of the
    /// longest prefixes is asked first.
    #[inline(always)]
    fn deep_number(&self, address: K) -> RouteNumber {
        /// Nodes on the way to an address: one for each of its bytes at most.
        const MOST: usize = u128::BITS as usize / 8;
        let mut way = [&*self.root; MOST];
        let mut last = 0;
        while let Some(node) = way[last].towards(address)
            && last < MOST - 1
        {
            last += 1;
            way[last] = node;
        }
        let numbers =
            way[..=last].iter().rev().map(|node| node.range(address.byte(node.depth)).number);
        numbers.into_iter().find(|number| *number != RouteNumber::NO_ROUTE).unwrap_or_default()
    }

    /// [`Fib::number`] of each address.
    #[inline]
    pub(crate) fn numbers(&self, addresses: &[K], numbers: &mut [RouteNumber]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("bmi1")
        {
            // SAFETY: the processor has the instructions that the function is compiled for.
            return unsafe { self.numbers_by_avx2(addresses, numbers) };
        }
        self.all_numbers(addresses, numbers);
    }

    /// For processors that compare bytes with another one, and count bits, in few instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,popcnt,bmi1")]
    fn numbers_by_avx2(&self, addresses: &[K], numbers: &mut [RouteNumber]) {
        self.all_numbers(addresses, numbers);
    }

    /// Inlined, loops and all, into what it is called from: no closure, which would be a function
    /// without the instructions that are enabled there.
    #[inline(always)]
    fn all_numbers(&self, addresses: &[K], numbers: &mut [RouteNumber]) {
        for (addresses, numbers) in addresses.chunks(TOGETHER).zip(numbers.chunks_mut(TOGETHER)) {
            self.few_numbers(addresses, numbers);
        }
    }

    /// Takes all addresses from one step to the next, so that each finds there what was asked for
    /// while the others were at it.
    #[inline(always)]
    fn few_numbers(&self, addresses: &[K], numbers: &mut [RouteNumber]) {
        if let [only, others @ ..] = addresses
            && others.iter().all(|other| other == only)
        {
            return numbers.fill(self.number(*only));
        }
        let first = &*self.first;
        let nothing = &first.shared.nothing[0];
        let mut lines = [nothing; TOGETHER];
        for (line, address) in lines.iter_mut().zip(addresses) {
            *line = first.line(*address);
            prefetch(*line);
        }
        // The addresses whose lines do not say it all.
        let mut others = 0_u64;
        let all = addresses.iter().zip(&mut *numbers).zip(lines);
        for (at, ((address, number), line)) in all.enumerate() {
            *number = line.number(address.byte(2));
            others |= u64::from(!number.is_of_route()) << at;
        }
        if others != 0 {
            self.other_numbers(others, addresses, numbers);
        }
    }

    /// The numbers of the addresses among these, of which it is known what their lines say.
    #[inline(always)]
    fn other_numbers(&self, these: u64, addresses: &[K], numbers: &mut [RouteNumber]) {
        let (mut deep, mut again) = (0_u64, 0_u64);
        for at in ones(these) {
            // What is on a link is asked for many times in a row.
            if at > 0 && addresses[at] == addresses[at - 1] {
                again |= 1 << at;
            } else if numbers[at] == RouteNumber::DEEPER {
                deep |= 1 << at;
            }
        }
        if deep != 0 {
            self.deep_numbers(deep, addresses, numbers);
        }
        for at in ones(these) {
            if again >> at & 1 != 0 {
                numbers[at] = numbers[at - 1];
            } else if numbers[at] == RouteNumber::NO_ROUTE {
                numbers[at] = self.first.shorter(addresses[at]);
            }
        }
    }

    /// The numbers of the addresses among these, as far as the nodes know that have all that is
    /// known of their first two bytes, and those after them.
    #[inline(always)]
    fn deep_numbers(&self, these: u64, addresses: &[K], numbers: &mut [RouteNumber]) {
        /// Levels that are remembered on the way.
        const ABOVE: usize = 3;
        let root = &*self.root;
        let mut nodes = [root; TOGETHER];
        let mut left = 0_u64;
        for at in ones(these) {
            let address = addresses[at];
            numbers[at] = RouteNumber::NO_ROUTE;
            let child = root.child(address.byte(0));
            if let Some(node) = child.and_then(|child| node_of_two(child, address)) {
                nodes[at] = node;
                left |= 1 << at;
                prefetch(node);
            }
        }
        let these = left;
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
