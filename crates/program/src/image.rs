// SPDX-License-Identifier: Apache-2.0

//! Linked programs: everything that expressions name is resolved, ready to run.
//!
//! An [`Image`] is flat: chains, rules and operations in vectors, jump targets as indexes, sets and
//! states by reference.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::classify::ChainLookup;
use crate::op::Op;
use crate::{Family, State};

pub use crate::linked::{
    ChainIndex, CtObject, FlowtableIndex, LinkedData, LinkedElements, LinkedRule, LinkedSet,
    LinkedValue, LinkedVerdict, NewConnection, RuleIndex, Stateful, TableIndex,
};

/// A generation, linked. Nothing in it changes but the states and sets it refers to.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// All tables.
    pub tables: Vec<LinkedTable>,
    /// All chains, those of a table in a row.
    pub chains: Vec<LinkedChain>,
    /// All rules, those of a chain in a row.
    pub rules: Vec<LinkedRule>,
    /// All operations, those of a rule in a row.
    pub ops: Vec<Op>,
    /// Chains and handles of the rules, in the order of `rules`.
    pub rule_names: Vec<RuleName>,
    /// Sets that rules use and clients may change.
    pub named_sets: Vec<NamedSet>,
}

/// A set that clients may change, as it is in this generation: the next one has another in its
/// place if they do.
#[derive(Clone, Debug)]
pub struct NamedSet {
    /// Which it is, in all generations.
    pub id: SetId,
    /// Its elements now.
    pub elements: Arc<penstock_sets::Set<LinkedValue>>,
}

/// Handles of a table and of a set in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SetId {
    /// Handle of the table.
    pub table: u64,
    /// Handle of the set.
    pub set: u64,
}

impl Image {
    /// A chain.
    #[inline]
    pub fn chain(&self, chain: ChainIndex) -> Option<&LinkedChain> {
        self.chains.get(chain.0 as usize)
    }

    /// The rules of a chain.
    pub fn rules_of(&self, chain: &LinkedChain) -> &[LinkedRule] {
        self.rules.get(chain.first as usize..chain.end as usize).unwrap_or(&[])
    }

    /// The operations of a rule.
    #[inline]
    pub fn ops_of(&self, rule: &LinkedRule) -> &[Op] {
        self.ops.get(rule.range()).unwrap_or(&[])
    }

    /// The operations of a rule; none if there is no such rule.
    #[inline]
    pub fn ops_at(&self, rule: RuleIndex) -> &[Op] {
        self.rules.get(rule.0 as usize).map_or(&[], |rule| self.ops_of(rule))
    }

    /// Builds the lookups of long chains that are not there yet. It takes some time, and may be
    /// done while packets run through the image: they walk until a lookup is there.
    pub fn build_lookups(&self) {
        for chain in &self.chains {
            if let Some(lookup) = &chain.lookup {
                lookup.build(self.rules_of(chain), &self.ops);
            }
        }
    }

    /// Gives a lookup to each chain in which so many rules ask something that can be looked up: for
    /// tests, which want to see short chains looked up.
    pub fn force_lookups(&mut self, least: usize) {
        for i in 0..self.chains.len() {
            let lookup = ChainLookup::with_least(least);
            lookup.build(self.rules_of(&self.chains[i]), &self.ops);
            self.chains[i].lookup = Some(Arc::new(lookup));
        }
    }

    /// A generation in which only so many leading rules of some base chains are, and what comes to
    /// their end is accepted.
    pub fn with_leading(&self, rules: &BTreeMap<ChainIndex, u32>) -> Image {
        let mut image = self.clone();
        for (chain, rules) in rules {
            let Some(chain) = image.chains.get_mut(chain.0 as usize) else { continue };
            chain.end = chain.end.min(chain.first.saturating_add(*rules));
            (chain.policy_accept, chain.policy_counter, chain.lookup) = (Some(true), None, None);
        }
        image
    }

    /// Rules that ask for the socket of a packet (`meta skuid`, `meta skgid`, `meta cgroup`,
    /// `socket`).
    pub fn rules_about_sockets(&self) -> impl Iterator<Item = RuleIndex> {
        self.rules.iter().enumerate().filter_map(|(n, rule)| {
            let asks = self.ops_of(rule).iter().any(Op::asks_for_socket);
            asks.then_some(RuleIndex(n as u32))
        })
    }

    /// Chain and handle of a rule.
    #[inline]
    pub fn rule_name(&self, rule: RuleIndex) -> Option<RuleName> {
        self.rule_names.get(rule.0 as usize).copied()
    }

    /// The table of a chain.
    #[inline]
    pub fn table_of(&self, chain: ChainIndex) -> Option<&LinkedTable> {
        self.tables.get(self.chain(chain)?.table.0 as usize)
    }

    /// Family, table, chain and handle of a rule, as traces name it.
    pub fn place(&self, rule: RuleIndex) -> Option<(Family, &Arc<str>, &Arc<str>, u64)> {
        let name = self.rule_name(rule)?;
        let chain = self.chain(name.chain)?;
        let table = self.table_of(name.chain)?;
        Some((table.family, &table.name, &chain.name, name.handle))
    }
}

impl AsRef<Image> for Image {
    fn as_ref(&self) -> &Image {
        self
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct LinkedTable {
    /// Family.
    pub family: Family,
    /// Name.
    pub name: Arc<str>,
    /// Handle.
    pub handle: u64,
}

/// A chain.
#[derive(Clone, Debug)]
pub struct LinkedChain {
    /// Its table.
    pub table: TableIndex,
    /// Name.
    pub name: Arc<str>,
    /// Handle.
    pub handle: u64,
    /// First of its rules.
    pub first: u32,
    /// One past the last of its rules.
    pub end: u32,
    /// Policy of a base chain: accept or drop.
    pub policy_accept: Option<bool>,
    /// Counts the packets that the policy of a base chain decides on.
    pub policy_counter: Option<Arc<State>>,
    /// Finds its rules, where that is worth while.
    pub lookup: Option<Arc<ChainLookup>>,
}

/// Which rule it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleName {
    /// Its chain.
    pub chain: ChainIndex,
    /// Handle.
    pub handle: u64,
}
