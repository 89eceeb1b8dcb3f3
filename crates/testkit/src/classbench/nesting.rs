// SPDX-License-Identifier: Apache-2.0

//! Rules that others cover, and lists in which the narrower of two nested rules comes first, as
//! ClassBench orders its lists.

use std::collections::{HashMap, HashSet};

use super::{Prefix, Rule};

/// Bits of a packet that a rule leaves free, as a logarithm of how many packets it takes.
fn size(rule: &Rule) -> f64 {
    let ports = |(first, last): (u16, u16)| f64::from(u32::from(last - first) + 1).log2();
    let addresses = 64 - u32::from(rule.source.len) - u32::from(rule.destination.len);
    f64::from(addresses)
        + ports(rule.source_ports)
        + ports(rule.destination_ports)
        + if rule.protocol.is_none() { 8.0 } else { 0.0 }
}

fn cut(prefix: Prefix, len: u8) -> Prefix {
    let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
    Prefix { address: prefix.address & mask, len }
}

/// Whether all packets of the second rule are the first one's.
fn covers(wide: &Rule, narrow: &Rule) -> bool {
    let ports = |wide: (u16, u16), narrow: (u16, u16)| wide.0 <= narrow.0 && narrow.1 <= wide.1;
    wide.source.len <= narrow.source.len
        && wide.source.contains(narrow.source.address)
        && wide.destination.len <= narrow.destination.len
        && wide.destination.contains(narrow.destination.address)
        && wide.protocol.is_none_or(|protocol| narrow.protocol == Some(protocol))
        && ports(wide.source_ports, narrow.source_ports)
        && ports(wide.destination_ports, narrow.destination_ports)
}

/// Rules by their two prefixes.
struct Index<'r> {
    rules: &'r [Rule],
    lengths: Vec<(u8, u8)>,
    places: HashMap<(Prefix, Prefix), Vec<usize>>,
}

impl<'r> Index<'r> {
    fn new(rules: &'r [Rule]) -> Self {
        let lengths: HashSet<_> = rules.iter().map(|r| (r.source.len, r.destination.len)).collect();
        let mut places: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, rule) in rules.iter().enumerate() {
            places.entry((rule.source, rule.destination)).or_default().push(at);
        }
        Index { rules, lengths: lengths.into_iter().collect(), places }
    }

    /// Places of the other rules that cover one.
    fn covering(&self, at: usize) -> impl Iterator<Item = usize> {
        let narrow = &self.rules[at];
        let (source, destination) = (narrow.source, narrow.destination);
        let wider = move |(s, d): &&(u8, u8)| *s <= source.len && *d <= destination.len;
        self.lengths
            .iter()
            .filter(wider)
            .filter_map(move |(s, d)| self.places.get(&(cut(source, *s), cut(destination, *d))))
            .flatten()
            .copied()
            .filter(move |wide| *wide != at && covers(&self.rules[*wide], narrow))
    }
}

/// The rules in an order in which none comes before one that it covers. The others keep their
/// order. Of equal rules the first stays.
pub fn narrow_first(rules: Vec<Rule>) -> Vec<Rule> {
    let mut seen = HashSet::with_capacity(rules.len());
    let rules: Vec<Rule> = rules.into_iter().filter(|rule| seen.insert(*rule)).collect();
    let mut by_size: Vec<usize> = (0..rules.len()).collect();
    by_size.sort_by(|a, b| size(&rules[*a]).total_cmp(&size(&rules[*b])));
    let index = Index::new(&rules);
    // A rule comes no earlier than what it covers, which is smaller.
    let mut place: Vec<usize> = (0..rules.len()).collect();
    for narrow in &by_size {
        for wide in index.covering(*narrow) {
            place[wide] = place[wide].max(place[*narrow]);
        }
    }
    by_size.sort_by_key(|at| place[*at]);
    by_size.into_iter().map(|at| rules[at]).collect()
}

/// How many rules an earlier one covers: no packet meets them.
pub fn covered(rules: &[Rule]) -> usize {
    let index = Index::new(rules);
    (0..rules.len()).filter(|at| index.covering(*at).any(|wide| wide < *at)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classbench::{Kind, rules};

    #[test]
    fn a_list_keeps_its_rules_and_none_covers_a_later_one() {
        for kind in Kind::ALL {
            let list = rules(kind, 2000, 1);
            let ordered = narrow_first(list.clone());
            let set = |rules: &[Rule]| rules.iter().copied().collect::<HashSet<_>>();
            assert_eq!((ordered.len(), set(&ordered)), (list.len(), set(&list)));
            let later = |at: usize| ordered[at + 1..].iter();
            let dead = (0..ordered.len()).filter(|at| later(*at).any(|r| covers(&ordered[*at], r)));
            assert_eq!(dead.count(), 0, "{kind:?}");
            assert_eq!(covered(&ordered), 0, "{kind:?}");
        }
    }

    #[test]
    fn covered_counts_what_a_search_of_all_pairs_finds() {
        let list = rules(Kind::Firewall, 1500, 3);
        let dead = (0..list.len()).filter(|at| list[..*at].iter().any(|r| covers(r, &list[*at])));
        let dead = dead.count();
        assert!(dead > 0);
        assert_eq!(covered(&list), dead);
    }
}
