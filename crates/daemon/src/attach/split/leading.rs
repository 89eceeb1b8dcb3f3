// SPDX-License-Identifier: Apache-2.0

//! Leading rules of a chain at ingress that nf_tables runs: those that only count and drop are
//! programs.
//!
//! XDP and tcx come before the ingress hook of nf_tables. So the first chain of a device that runs
//! there may begin as a program, and nf_tables has the rules that follow. A rule that accepts, calls
//! or goes elsewhere is not among the leading ones: what it skips is in nf_tables. Nor is one that
//! changes a set or an object, or that nf_tables has already, since there would be a moment without
//! it. At other hooks a program would be one entry more for each packet, at another priority.

use std::collections::BTreeMap;
use std::sync::Arc;

use penstock_ebpf::rules::traces;
use penstock_net::Network;
use penstock_program::Hook;
use penstock_program::image::{ChainIndex, Image, LinkedVerdict, RuleIndex};
use penstock_program::op::{Load, Op};
use penstock_ruleset::Family;
use penstock_ruleset::link::{Linked, LinkedBase};
use penstock_ruleset::model::{Chain, Rule, Table};

use super::{Base, ChainKey, Split, Way, key_of};
use crate::attach::kernel_half::reach::{Part, Reach};

/// How many rules of a chain are programs, and the handle of the one that follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leads {
    rules: u32,
    next: Option<u64>,
}

/// Of chains in nf_tables.
#[derive(Debug, Default)]
pub(super) struct Leading {
    now: BTreeMap<ChainKey, Leads>,
    /// More have no code.
    most: BTreeMap<ChainKey, u32>,
}

/// Whether a verdict may stand in a leading rule.
fn stays(verdict: Option<&LinkedVerdict>) -> bool {
    matches!(verdict, Some(LinkedVerdict::Drop | LinkedVerdict::Continue | LinkedVerdict::Break))
}

/// Whether all that a rule does is to count and to drop, or to go on with the next one.
fn only_drops(image: &Image, rule: RuleIndex) -> bool {
    image.ops_at(rule).iter().all(|op| match op {
        Op::Verdict(verdict) => stays(Some(verdict)),
        Op::Lookup { set, load: Load::Verdict, .. } => {
            set.iter_unordered().all(|element| stays(element.value.data.verdict()))
        }
        _ => op.targets().is_empty(),
    })
}

impl Split<'_> {
    /// Finds which chains begin as programs.
    pub(in crate::attach) fn find_leading(&mut self, linked: &Linked, net: &Network) {
        let mut now = BTreeMap::new();
        // A chain in two parts would tell its packets twice.
        let bases = self.bases.iter().filter(|_| !traces(&linked.image));
        for base in bases.filter(|base| self.moved.contains_key(&base.key)) {
            let most = self.leading.most.get(&base.key).copied().unwrap_or(u32::MAX);
            let at_ingress = matches!(base.linked.family, Family::Netdev | Family::Inet)
                && base.linked.base.hook == Hook::Ingress;
            if !at_ingress || !self.is_first(base, net) {
                continue;
            }
            let rules = self.leading_rules(base, &linked.image).min(most);
            if rules > 0 {
                let next = self.handle_at(base, rules);
                now.insert(base.key, Leads { rules, next });
            }
        }
        self.leading.now = now;
    }

    /// Whether packets come to it straight from programs, at all devices.
    fn is_first(&self, base: &Base<'_>, net: &Network) -> bool {
        net.links().iter().map(|link| Way::Ingress(&link.name)).all(|way| {
            let Some(order) = way.order_of(base.linked) else { return true };
            self.first_of(&way).is_none_or(|(first, _)| order <= first)
        })
    }

    fn leading_rules(&self, base: &Base<'_>, image: &Image) -> u32 {
        let linked = image.chain(base.linked.chain);
        let Some(((table, chain), linked)) = self.chain_of(base).zip(linked) else { return 0 };
        let leads = |(rule, index): (&Arc<Rule>, u32)| {
            if self.taken.rules.contains(&(table.handle, rule.handle)) {
                return false;
            }
            let states = Reach::of_rule(table, chain, rule).states;
            let own = states.iter().all(|part| matches!(part, Part::Rule(..)));
            own && only_drops(image, RuleIndex(index))
        };
        let rules = chain.rules.iter().zip(linked.first..linked.end);
        rules.take_while(|rule| leads(*rule)).count() as u32
    }

    /// A base chain and its table, as clients have made them.
    fn chain_of(&self, base: &Base<'_>) -> Option<(&Table, &Chain)> {
        let table = self.tables.iter().find(|table| table.handle == base.key.0)?;
        let chain = table.chains.iter().find(|chain| chain.handle == base.key.1)?;
        Some((table, chain))
    }

    fn handle_at(&self, base: &Base<'_>, rule: u32) -> Option<u64> {
        let (_, chain) = self.chain_of(base)?;
        Some(chain.rules.get(rule as usize)?.handle)
    }

    /// Whether nf_tables runs all of a chain.
    pub(in crate::attach) fn is_whole(&self, linked: &Linked, base: &LinkedBase) -> bool {
        let key = key_of(linked, base);
        self.moved.contains_key(&key) && !self.leading.now.contains_key(&key)
    }

    /// Whether some chain is to have fewer than these.
    pub(in crate::attach) fn leads_less_than(&self, leading: &BTreeMap<ChainIndex, u32>) -> bool {
        self.bases.iter().any(|base| {
            let most = self.leading.most.get(&base.key);
            let leads = leading.get(&base.linked.chain);
            most.zip(leads).is_some_and(|(most, leads)| most < leads)
        })
    }

    /// All of these, by base chain.
    pub(in crate::attach) fn leading(&self) -> BTreeMap<ChainIndex, u32> {
        let of =
            |base: &Base<'_>| Some((base.linked.chain, self.leading.now.get(&base.key)?.rules));
        self.bases.iter().filter_map(of).collect()
    }

    /// All of these, by handles.
    pub(in crate::attach) fn leading_keys(&self) -> BTreeMap<ChainKey, u32> {
        self.leading.now.iter().map(|(key, leads)| (*key, leads.rules)).collect()
    }

    /// No more than so many of a chain have code.
    pub(in crate::attach) fn lead_at_most(
        &mut self,
        linked: &Linked,
        base: &LinkedBase,
        rules: u32,
    ) {
        let most = self.leading.most.entry(key_of(linked, base)).or_insert(rules);
        *most = rules.min(*most);
    }

    /// Where the rules begin that nf_tables has of a chain, for listings.
    pub(super) fn since_handle(&self, key: ChainKey) -> String {
        let next = self.leading.now.get(&key).map(|leads| leads.next);
        match next {
            Some(Some(handle)) => format!(" from handle {handle} on"),
            Some(None) => " from the end of its rules on".into(),
            None => String::new(),
        }
    }
}
