// SPDX-License-Identifier: Apache-2.0

//! Chains of which only the leading rules have code, where the rest may be left out.
//!
//! A rule does not depend on those after it. So the leading rules of a base chain count and drop
//! what they do in the whole chain; a packet that comes to the end of them continues after the
//! chain, since neither the rest nor the policy is there.

use std::collections::BTreeMap;

use penstock_ebpf::rules::Place;
use penstock_program::image::ChainIndex;
use penstock_ruleset::link::{CannotOffload, LinkedBase, OffloadPart};

use super::{ChainName, Chains, Spot, Wanted, Wishes};

/// How many of the rules of base chains are programs; those of others are all.
pub(super) type Leading = BTreeMap<ChainIndex, u32>;

impl<'a> Wishes<'a> {
    /// What has code of the chains of a place; the rest is left out.
    pub(super) fn attach_in_part(
        &self,
        chains: Chains<'a>,
        (spot, at, place): (Spot, Place<'_>, String),
        to: &mut Vec<Wanted>,
    ) -> Result<(), CannotOffload> {
        let name = |base: &LinkedBase| format!("chain {}", ChainName(self.linked, base));
        let (mut kept, mut leading) = (Vec::new(), Leading::new());
        for base in chains.all {
            let alone = Chains::of(self, vec![base]);
            let Err(refused) = alone.wanted(spot, at, place.clone()) else {
                kept.push(base);
                continue;
            };
            let rules = alone
                .with_code(base, &refused, |chains| chains.wanted(spot, at, place.clone()).is_ok());
            let what = match self.handle_of(base, rules) {
                Some(handle) if rules > 0 => {
                    kept.push(base);
                    leading.insert(base.chain, rules);
                    format!("{} from handle {handle} on", name(base))
                }
                _ => name(base),
            };
            self.leave_out(what, refused)?;
        }
        // Each by itself has code, all together may be too much.
        while let Some(last) = kept.last().copied() {
            let mut some = Chains::of(self, kept.clone());
            some.leading.clone_from(&leading);
            match some.wanted(spot, at, place.clone()) {
                Ok(wanted) => {
                    to.push(wanted);
                    break;
                }
                Err(refused) => {
                    self.leave_out(name(last), refused)?;
                    kept.pop();
                }
            }
        }
        Ok(())
    }

    /// How much of chains in nf_tables is programs.
    pub(super) fn leading(&self) -> Leading {
        self.split.as_ref().map(|split| split.borrow().leading()).unwrap_or_default()
    }

    /// Whether chains that have no code together are to have fewer leading rules of those in
    /// nf_tables.
    pub(super) fn lead_less(
        &self,
        chains: &Chains<'a>,
        (spot, at, place): (Spot, Place<'_>, String),
    ) -> bool {
        let Some(split) = &self.split else { return false };
        let leads = |base: &&&LinkedBase| chains.leading.contains_key(&base.chain);
        let Some(&base) = chains.all.iter().rfind(leads) else { return false };
        let Err(refused) = chains.wanted(spot, at, place.clone()) else { return false };
        let has_code = |chains: &Chains<'a>| chains.wanted(spot, at, place.clone()).is_ok();
        let mut without = chains.clone();
        without.all.retain(|other| other.chain != base.chain);
        let rules = match has_code(&without) || without.all.is_empty() {
            true => chains.with_code(base, &refused, has_code),
            // They are not to blame.
            false => return false,
        };
        split.borrow_mut().lead_at_most(self.linked, base, rules);
        true
    }

    /// The handle of a rule of a base chain, by its number.
    fn handle_of(&self, base: &LinkedBase, rule: u32) -> Option<u64> {
        let image = &self.linked.image;
        let first = image.chain(base.chain)?.first;
        let name = image.rule_names.get((first + rule) as usize)?;
        (name.chain == base.chain).then_some(name.handle)
    }
}

impl<'a> Chains<'a> {
    /// How many leading rules of its only chain have code, if the whole is refused so. `has_code`
    /// says whether chains do.
    fn with_code(
        &self,
        base: &LinkedBase,
        refused: &CannotOffload,
        has_code: impl Fn(&Chains<'a>) -> bool,
    ) -> u32 {
        let image = &self.linked.image;
        let Some(chain) = image.chain(base.chain) else { return 0 };
        let names = image.rule_names.get(chain.first as usize..chain.end as usize);
        let blamed = match &refused.part {
            OffloadPart::Chain { chain: name, rule: Some(handle), .. } if *name == chain.name => {
                names.unwrap_or_default().iter().position(|rule| rule.handle == *handle)
            }
            _ => None,
        };
        let fits = |rules: u32| {
            let mut some = self.clone();
            some.leading.insert(base.chain, rules);
            rules == 0 || has_code(&some)
        };
        // A rule of a chain that is called may be to blame, or their number.
        let all = self.leading.get(&base.chain).copied().unwrap_or(chain.end - chain.first);
        let (mut least, mut most) = (0, blamed.map_or(all, |n| n as u32).min(all));
        if fits(most) {
            return most;
        }
        while least + 1 < most {
            let middle = least.midpoint(most);
            if fits(middle) { least = middle } else { most = middle }
        }
        least
    }
}
