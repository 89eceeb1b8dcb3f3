// SPDX-License-Identifier: Apache-2.0

//! Rules of a chain that a batch has deleted. Until it is committed the kernel still finds them
//! where they stood (`__nft_rule_lookup()`), so that other rules can be placed next to them.

/// In their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Gone {
    /// Handles, and how many rules that are there stand before each.
    rules: Vec<(u64, usize)>,
}

/// Where a rule goes: before the rule at an index, and after so many of those that are gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spot {
    pub at: usize,
    gone_before: usize,
}

impl Gone {
    /// The head of the chain.
    pub fn head(&self) -> Spot {
        Spot { at: 0, gone_before: 0 }
    }

    /// The end of a chain of so many rules.
    pub fn end(&self, rules: usize) -> Spot {
        Spot { at: rules, gone_before: self.rules.len() }
    }

    /// Before the rule at an index.
    pub fn before(&self, at: usize) -> Spot {
        Spot { at, gone_before: self.before_rule(at) }
    }

    /// After the rule at an index.
    pub fn after(&self, at: usize) -> Spot {
        Spot { at: at + 1, gone_before: self.before_rule(at) }
    }

    /// Next to a rule that is gone.
    pub fn next_to(&self, handle: u64, after: bool) -> Option<Spot> {
        let place = self.rules.iter().position(|(gone, _)| *gone == handle)?;
        Some(Spot { at: self.rules[place].1, gone_before: place + usize::from(after) })
    }

    /// How many that are gone stand before the rule at an index.
    fn before_rule(&self, at: usize) -> usize {
        self.rules.partition_point(|(_, before)| *before <= at)
    }

    /// A rule was put there.
    pub fn inserted(&mut self, spot: Spot) {
        self.rules.iter_mut().skip(spot.gone_before).for_each(|(_, before)| *before += 1);
    }

    /// The rule at an index was deleted.
    pub fn removed(&mut self, at: usize, handle: u64) {
        let place = self.before_rule(at);
        self.rules.iter_mut().skip(place).for_each(|(_, before)| *before -= 1);
        self.rules.insert(place, (handle, at));
    }

    /// All rules were deleted, these handles in order.
    pub fn emptied(&mut self, handles: impl Iterator<Item = u64>) {
        let mut all = Vec::with_capacity(self.rules.len());
        let mut gone = self.rules.drain(..).peekable();
        for (at, handle) in handles.enumerate() {
            while let Some((gone, _)) = gone.next_if(|(_, before)| *before <= at) {
                all.push((gone, 0));
            }
            all.push((handle, 0));
        }
        all.extend(gone.map(|(gone, _)| (gone, 0)));
        self.rules = all;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain with the rules that are gone left in it.
    fn shown(gone: &Gone, rules: &[u64]) -> Vec<(u64, bool)> {
        let mut all = Vec::new();
        let mut left = gone.rules.iter().peekable();
        for (at, rule) in rules.iter().enumerate() {
            while let Some((handle, _)) = left.next_if(|(_, before)| *before <= at) {
                all.push((*handle, false));
            }
            all.push((*rule, true));
        }
        all.extend(left.map(|(handle, _)| (*handle, false)));
        all
    }

    #[test]
    fn positions_equal_those_of_a_list_that_keeps_deleted_rules() {
        for seed in 0..300 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut gone, mut rules) = (Gone::default(), Vec::new());
            let mut list: Vec<(u64, bool)> = Vec::new();
            for handle in 1..40 {
                let place = rng.usize(..=list.len());
                match (rng.u8(..10), list.get(place).copied()) {
                    (0, _) => {
                        gone.emptied(std::mem::take(&mut rules).into_iter());
                        list.iter_mut().for_each(|(_, there)| *there = false);
                    }
                    (1..4, Some((old, true))) => {
                        let at = rules.iter().position(|r| *r == old).unwrap();
                        gone.removed(at, rules.remove(at));
                        list[place].1 = false;
                    }
                    (4, _) => {
                        gone.inserted(gone.head());
                        rules.insert(0, handle);
                        list.insert(0, (handle, true));
                    }
                    (_, Some((neighbour, there))) => {
                        let after = rng.bool();
                        let spot = match rules.iter().position(|r| *r == neighbour) {
                            Some(at) if after => gone.after(at),
                            Some(at) => gone.before(at),
                            None => gone.next_to(neighbour, after).unwrap(),
                        };
                        assert_eq!(there, rules.contains(&neighbour));
                        gone.inserted(spot);
                        rules.insert(spot.at, handle);
                        list.insert(place + usize::from(after), (handle, true));
                    }
                    (_, None) => {
                        let spot = gone.end(rules.len());
                        gone.inserted(spot);
                        rules.push(handle);
                        list.push((handle, true));
                    }
                }
                assert_eq!(shown(&gone, &rules), list, "seed {seed}");
            }
        }
    }
}
