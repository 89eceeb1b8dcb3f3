// SPDX-License-Identifier: Apache-2.0

//! Identifications of IPv4 packets that the host makes (`__ip_select_ident()` of
//! `net/ipv4/route.c`).
//!
//! They count up, so that fragments of packets to one receiver are told apart for long, but not
//! over all receivers: otherwise each could see how much the host sends to others, and scan ports
//! by its counters (see RFC 7739 for IPv6). Which receivers share a counter, and where it begins,
//! follows from a key.

/// Counters (`IP_IDENTS_SZ`).
const COUNTERS: usize = 2048;

/// The counters of a worker.
#[derive(Debug)]
pub(crate) struct IpIds {
    key: [u64; 2],
    next: Box<[u16; COUNTERS]>,
}

/// Product of two words folded to one: the step of wyhash and its kin.
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ (wide >> 64) as u64
}

impl IpIds {
    /// With a key that all workers have, and so many numbers away from the first worker.
    pub(crate) fn new(key: [u64; 2], ahead: u16) -> Self {
        let [first, second] = key.map(|word| word | 1);
        let begin = |counter: usize| fold(first ^ counter as u64, second) as u16;
        let next = Box::new(std::array::from_fn(|counter| begin(counter).wrapping_add(ahead)));
        IpIds { key: [first, second], next }
    }

    /// The identification of the next packet from one address to another.
    pub(crate) fn next(&mut self, source: u32, destination: u32, protocol: u8) -> u16 {
        let [first, second] = self.key;
        let addresses = u64::from(source) << 32 | u64::from(destination);
        let hash = fold(fold(addresses ^ second, first), second ^ u64::from(protocol));
        let next = &mut self.next[hash as usize % COUNTERS];
        *next = next.wrapping_add(1);
        *next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_ids_do_not_reveal_traffic_of_others() {
        let mut ids = IpIds::new([5, 9], 0);
        let mut own = |destination: u32| ids.next(1, destination, 1);
        let first = own(7);
        assert_eq!(own(7), first.wrapping_add(1));
        // Hardly any of many other receivers shares the counter.
        let moved = (100..200).filter(|other| {
            let before = own(7);
            own(*other);
            own(7) != before.wrapping_add(1)
        });
        assert!(moved.count() <= 1);
        let begins: std::collections::HashSet<u16> =
            (0..200).map(|other| own(1000 + other)).collect();
        assert!(begins.len() > 150, "{}", begins.len());
    }
}
