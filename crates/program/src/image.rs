// SPDX-License-Identifier: Apache-2.0

//! Linked programs: everything that expressions name is resolved, ready to run.
//!
//! An [`Image`] is flat: chains, rules and operations in vectors, jump targets as indexes, sets and
//! states by reference.

use std::sync::Arc;

use penstock_sets::Set;

use crate::classify::ChainLookup;
use crate::env::CtObject;
use crate::op::Op;
use crate::operand::Synproxy;
use crate::state::Bucket;
use crate::state::dynamic::DynamicSet;
use crate::{Family, State};

/// Number of a chain in [`Image::chains`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChainIndex(pub u32);

/// Number of a flowtable: among those of the generation, of which programs know nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowtableIndex(pub u32);

/// Number of a rule in [`Image::rules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleIndex(pub u32);

/// Number of a table in [`Image::tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableIndex(pub u32);

/// A generation, linked. Nothing in it changes but the states and sets it refers to.
#[derive(Debug, Default)]
pub struct Image {
    /// All tables.
    pub tables: Vec<LinkedTable>,
    /// All chains, those of a table in a row.
    pub chains: Vec<LinkedChain>,
    /// All rules, those of a chain in a row.
    pub rules: Vec<LinkedRule>,
    /// All operations, those of a rule in a row.
    pub ops: Vec<Op>,
    /// Names behind [`RuleIndex`], in the same order as `rules`.
    pub rule_names: Vec<RuleName>,
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
    /// Finds its rules, where that is worth while.
    pub lookup: Option<Arc<ChainLookup>>,
}

/// Where a rule's operations are.
#[derive(Clone, Copy, Debug)]
pub struct LinkedRule {
    /// First of its operations.
    pub first: u32,
    /// One past the last of its operations.
    pub end: u32,
}

/// Which rule it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleName {
    /// Its chain.
    pub chain: ChainIndex,
    /// Handle.
    pub handle: u64,
}

/// A verdict with its chain resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkedVerdict {
    /// Final.
    Drop,
    /// Ends the base chain.
    Accept,
    /// Next rule.
    Continue,
    /// End of the rule.
    Break,
    /// Call.
    Jump(ChainIndex),
    /// Go.
    Goto(ChainIndex),
    /// Back to the caller.
    Return,
    /// Final: to a listener (`NF_QUEUE`).
    Queue {
        /// Number of the queue.
        num: u16,
        /// Without a listener the next base chain goes on; otherwise the packet is dropped.
        bypass: bool,
    },
}

impl LinkedVerdict {
    /// The chain that it calls (`true`) or goes to.
    pub fn target(&self) -> Option<(ChainIndex, bool)> {
        match self {
            LinkedVerdict::Jump(chain) => Some((*chain, true)),
            LinkedVerdict::Goto(chain) => Some((*chain, false)),
            LinkedVerdict::Drop
            | LinkedVerdict::Accept
            | LinkedVerdict::Continue
            | LinkedVerdict::Break
            | LinkedVerdict::Return
            | LinkedVerdict::Queue { .. } => None,
        }
    }
}

/// Value of a set's or map's element.
#[derive(Clone, Debug)]
pub struct LinkedValue {
    /// What lookups load.
    pub data: LinkedData,
    /// Statements that run when a lookup finds the element.
    pub statements: Box<[Stateful]>,
}

/// What a map's element holds.
#[derive(Clone, Debug)]
pub enum LinkedData {
    /// Nothing: a set's element.
    None,
    /// Up to 16 register bytes; the rest is zero.
    Value([u8; 16]),
    /// More than 16 register bytes, at most 64.
    Long(Box<[u8]>),
    /// A verdict.
    Verdict(LinkedVerdict),
    /// An object.
    Object(Stateful),
}

impl LinkedData {
    /// The verdict, if it is one.
    pub fn verdict(&self) -> Option<&LinkedVerdict> {
        match self {
            LinkedData::Verdict(verdict) => Some(verdict),
            LinkedData::None
            | LinkedData::Value(_)
            | LinkedData::Long(_)
            | LinkedData::Object(_) => None,
        }
    }

    /// From register bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut short = [0; 16];
        match short.get_mut(..bytes.len()) {
            Some(start) => {
                start.copy_from_slice(bytes);
                LinkedData::Value(short)
            }
            None => LinkedData::Long(bytes.into()),
        }
    }
}

/// A stateful statement with its state: of an element, or an object.
#[derive(Clone, Debug)]
pub enum Stateful {
    /// Counts.
    Counter(Arc<State>),
    /// Matches while (or once, if `over`) the quota is not used up.
    Quota {
        /// The amount.
        bytes: u64,
        /// `over`.
        over: bool,
        /// Consumption.
        state: Arc<State>,
    },
    /// Matches within (or beyond) the rate.
    Limit {
        /// Parameters.
        bucket: Bucket,
        /// Tokens.
        state: Arc<State>,
    },
    /// Notes the time.
    Last(Arc<State>),
    /// A quota that is an object: as [`Stateful::Quota`], and tells the outside once when it is
    /// used up.
    NamedQuota {
        /// The amount.
        bytes: u64,
        /// `over`.
        over: bool,
        /// Consumption.
        state: Arc<State>,
    },
    /// Matches while there are at most (or once there are more than, if `over`) so many
    /// connections.
    Connlimit {
        /// `ct count`.
        limit: u32,
        /// `over`.
        over: bool,
        /// Connections.
        state: Arc<State>,
    },
    /// Gives the connection a helper, timeouts or an expectation.
    Ct(Arc<CtObject>),
    /// Answers for a server.
    Synproxy(Synproxy),
    /// Sets the packet's security mark.
    SecMark(u32),
}

/// A set that lookups can name.
#[derive(Clone, Debug)]
pub struct LinkedSet {
    /// Elements.
    pub elements: LinkedElements,
    /// Bytes of a key.
    pub key_len: u32,
    /// Bytes of a map's values; `None` for sets, verdict and object maps.
    pub value_len: Option<u32>,
}

/// Elements of a set that lookups can name.
#[derive(Clone, Debug)]
pub enum LinkedElements {
    /// Those of a generation.
    Fixed(Arc<Set<LinkedValue>>),
    /// Packets change them.
    Dynamic {
        /// The set.
        set: Arc<DynamicSet>,
        /// Default life of elements in milliseconds, 0 for no end.
        timeout: u64,
        /// Milliseconds between sweeps.
        gc_interval: u64,
    },
}
