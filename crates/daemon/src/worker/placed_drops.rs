// SPDX-License-Identifier: Apache-2.0

//! Drops by the rule or policy that did it.

use penstock_dataplane::{DropEvent, DropReason, Place};
use penstock_print::show::status::PlacedDrop;
use penstock_program::image::Image;
use penstock_ruleset::Family;
use penstock_wire::quick::{QuickMap, QuickSet};

/// Places that are told apart at most. What happens at others counts by its reason alone.
const MOST: usize = 4096;

/// Those of a worker.
#[derive(Debug, Default)]
pub(crate) struct PlacedDrops {
    all: Vec<PlacedDrop>,
    /// Numbers in `all` by what tells nearly all places apart.
    numbers: QuickMap<(DropReason, Family, Option<u64>), Vec<usize>>,
    /// The number of the latest one: the next is often the same.
    latest: usize,
}

fn is_at(drop: &PlacedDrop, reason: DropReason, place: &Place<'_>) -> bool {
    drop.handle == place.rule
        && drop.reason == reason
        && drop.family == place.family
        && *drop.chain == *place.chain
        && *drop.table == *place.table
}

impl PlacedDrops {
    /// Counts packets that were dropped.
    #[inline]
    pub(crate) fn count(&mut self, drop: &DropEvent<'_>, packets: u64) {
        let Some(place) = &drop.place else { return };
        match self.all.get_mut(self.latest).filter(|latest| is_at(latest, drop.reason, place)) {
            Some(latest) => latest.packets += packets,
            None => self.count_other(drop.reason, place, packets),
        }
    }

    fn count_other(&mut self, reason: DropReason, place: &Place<'_>, packets: u64) {
        let numbers = self.numbers.entry((reason, place.family, place.rule)).or_default();
        let all = &mut self.all;
        let is_it = |n: &&usize| all.get(**n).is_some_and(|drop| is_at(drop, reason, place));
        match numbers.iter().find(is_it) {
            Some(n) => {
                self.latest = *n;
                all[*n].packets += packets;
            }
            None if all.len() < MOST => {
                self.latest = all.len();
                numbers.push(all.len());
                all.push(PlacedDrop {
                    reason,
                    family: place.family,
                    table: place.table.into(),
                    chain: place.chain.into(),
                    handle: place.rule,
                    packets,
                });
            }
            None => {}
        }
    }

    /// Other rules are in force: forgets those that are gone, if the places become many.
    pub(crate) fn follow(&mut self, image: &Image) {
        if self.all.len() <= MOST / 2 {
            return;
        }
        let mut there = QuickSet::default();
        for name in &image.rule_names {
            let chain = image.chains.get(name.chain.0 as usize);
            let table = chain.and_then(|chain| image.tables.get(chain.table.0 as usize));
            if let (Some(chain), Some(table)) = (chain, table) {
                there.insert((table.family, &*table.name, &*chain.name, name.handle));
            }
        }
        self.all.retain(|drop| {
            drop.handle.is_none_or(|handle| {
                there.contains(&(drop.family, &*drop.table, &*drop.chain, handle))
            })
        });
        self.numbers.clear();
        for (n, drop) in self.all.iter().enumerate() {
            let key = (drop.reason, drop.family, drop.handle);
            self.numbers.entry(key).or_default().push(n);
        }
    }

    /// All of them.
    pub(crate) fn all(&self) -> &[PlacedDrop] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_counted_by_rule_and_policy_within_bounds() {
        let mut drops = PlacedDrops::default();
        let at = |chain, rule, reason| DropEvent {
            reason,
            place: Some(Place { family: Family::Inet, table: "t", chain, rule }),
        };
        drops.count(&at("a", Some(3), DropReason::Rule), 1);
        drops.count(&at("a", None, DropReason::Policy), 2);
        drops.count(&at("b", None, DropReason::Policy), 4);
        drops.count(&at("a", Some(3), DropReason::Rule), 8);
        drops.count(&DropEvent { reason: DropReason::NoRoute, place: None }, 16);
        let counted: Vec<_> =
            drops.all().iter().map(|drop| (&*drop.chain, drop.handle, drop.packets)).collect();
        assert_eq!(counted, [("a", Some(3), 9), ("a", None, 2), ("b", None, 4)]);
        for handle in 4..10_000 {
            drops.count(&at("a", Some(handle), DropReason::Rule), 1);
        }
        assert_eq!(drops.all().len(), MOST);
        // A ruleset without any of these rules.
        drops.follow(&Image::default());
        drops.count(&at("b", None, DropReason::Policy), 4);
        drops.count(&at("a", Some(20_000), DropReason::Rule), 1);
        let counted: Vec<_> =
            drops.all().iter().map(|drop| (&*drop.chain, drop.handle, drop.packets)).collect();
        assert_eq!(counted, [("a", None, 2), ("b", None, 8), ("a", Some(20_000), 1)]);
    }
}
