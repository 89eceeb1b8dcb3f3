// SPDX-License-Identifier: Apache-2.0

//! What evaluation knows of the ruleset: tables, chains, sets with their types, objects.
//!
//! It starts from a [`Generation`] and follows the commands of a run, so that a rule can refer to a
//! set that an earlier command adds. Nothing here is authoritative: the ruleset decides what is
//! possible, this only finds types and gives better messages.

use std::sync::Arc;

use indexmap::IndexMap;
use penstock_program::expr::ObjectType;
use penstock_ruleset::model::{Family, Generation, MapData};
use penstock_syntax::source::Loc;

use crate::intervals::Intervals;
use crate::key_type::KeyType;
use crate::userdata::SetUserData;

/// What a map gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataKind {
    /// A value; `interval` for ranges of values (two registers' worth).
    Value {
        /// Its type.
        ty: KeyType,
        /// Lower and upper end side by side.
        interval: bool,
    },
    /// A verdict.
    Verdict,
    /// An object of the table.
    Object(ObjectType),
}

/// A set or map, as evaluation needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct SetInfo {
    /// Its name.
    pub name: Arc<str>,
    /// Dies with its rule.
    pub anonymous: bool,
    /// Made for a `meter` statement.
    pub meter: bool,
    /// Where this run declares it.
    pub place: Option<Loc>,
    /// The ruleset had it before this run.
    pub existing: bool,
    /// What its keys are.
    pub key: KeyType,
    /// What it maps to.
    pub data: Option<DataKind>,
    /// Keys may be intervals.
    pub interval: bool,
    /// Elements may expire.
    pub timeout: bool,
    /// Rules may change it.
    pub dynamic: bool,
    /// Adjacent and overlapping intervals are joined.
    pub auto_merge: bool,
    /// The statements that each element carries, by
    /// [`stateful_name`](penstock_syntax::ast::StmtKind::stateful_name).
    pub stmts: Vec<&'static str>,
    /// Intervals that are in it already or were added in this run, ascending; for plain interval
    /// sets only.
    pub intervals: Arc<Intervals>,
}

impl SetInfo {
    /// Maps to values or verdicts.
    pub fn is_datamap(&self) -> bool {
        matches!(self.data, Some(DataKind::Value { .. } | DataKind::Verdict))
    }

    /// Maps to objects.
    pub fn is_objmap(&self) -> bool {
        matches!(self.data, Some(DataKind::Object(_)))
    }

    /// Maps to anything.
    pub fn is_map(&self) -> bool {
        self.data.is_some()
    }

    /// `map` or `set`, as messages say.
    pub fn word(&self) -> &'static str {
        if self.is_map() { "map" } else { "set" }
    }
}

/// A chain.
#[derive(Clone, Debug, Default)]
pub struct ChainInfo {
    /// Its handle; 0 if it was made in this run.
    pub handle: u64,
    /// It has a hook.
    pub base: bool,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct TableInfo {
    /// By name.
    pub chains: IndexMap<Arc<str>, ChainInfo>,
    /// By name.
    pub sets: IndexMap<Arc<str>, Arc<SetInfo>>,
    /// Sets and maps refused because they have no type: nft knows them nevertheless.
    pub untyped: IndexMap<Arc<str>, ()>,
    /// By type and name.
    pub objects: IndexMap<(ObjectType, Arc<str>), ()>,
    /// By name.
    pub flowtables: IndexMap<Arc<str>, ()>,
}

/// The ruleset as evaluation sees it.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    tables: IndexMap<(Family, Arc<str>), TableInfo>,
}

impl Cache {
    /// What a generation holds.
    pub fn new(generation: &Generation) -> Self {
        let mut cache = Cache::default();
        for table in &generation.tables {
            let info = cache.add_table(table.family, &table.name);
            for chain in &table.chains {
                info.chains.insert(
                    chain.name.clone(),
                    ChainInfo { handle: chain.handle, base: chain.base.is_some() },
                );
            }
            for set in &table.sets {
                if let Some(set) = set_info(set) {
                    info.sets.insert(set.name.clone(), Arc::new(set));
                }
            }
            for object in &table.objects {
                info.objects.insert((object.value.kind(), object.name.clone()), ());
            }
            for flowtable in &table.flowtables {
                info.flowtables.insert(flowtable.name.clone(), ());
            }
        }
        cache
    }

    /// A table by name.
    pub fn table(&self, family: Family, name: &str) -> Option<&TableInfo> {
        self.tables.get(&(family, Arc::from(name)))
    }

    /// A table, to change it.
    pub fn table_mut(&mut self, family: Family, name: &str) -> Option<&mut TableInfo> {
        self.tables.get_mut(&(family, Arc::from(name)))
    }

    /// Finds or adds a table.
    pub fn add_table(&mut self, family: Family, name: &Arc<str>) -> &mut TableInfo {
        self.tables.entry((family, name.clone())).or_default()
    }

    /// Forgets a table.
    pub fn remove_table(&mut self, family: Family, name: &str) {
        self.tables.shift_remove(&(family, Arc::from(name)));
    }

    /// Forgets all tables of a family, or all.
    pub fn flush(&mut self, family: Option<Family>) {
        self.tables.retain(|(f, _), _| family.is_some_and(|family| family != *f));
    }

    /// Families and names of all tables.
    pub fn tables(&self) -> impl Iterator<Item = (Family, &Arc<str>, &TableInfo)> {
        self.tables.iter().map(|((f, n), t)| (*f, n, t))
    }

    /// A set or map.
    pub fn set(&self, family: Family, table: &str, name: &str) -> Option<&Arc<SetInfo>> {
        self.table(family, table)?.sets.get(name)
    }

    /// Replaces what is known of a set.
    pub fn put_set(&mut self, family: Family, table: &Arc<str>, set: Arc<SetInfo>) {
        self.add_table(family, table).sets.insert(set.name.clone(), set);
    }
}

/// What a set of the ruleset is, from what the kernel keeps of it and the language's userdata.
pub fn set_info(set: &penstock_ruleset::model::Set) -> Option<SetInfo> {
    let user = SetUserData::decode(&set.userdata);
    let key = user.key_type(set.key_type, &set.description)?;
    let data = match set.data {
        None => None,
        Some(MapData::Verdict) => Some(DataKind::Verdict),
        Some(MapData::Object(kind)) => Some(DataKind::Object(kind)),
        Some(MapData::Value { len }) => {
            let (ty, interval) = user.data_type(set.data_type, len)?;
            Some(DataKind::Value { ty, interval })
        }
    };
    let plain_intervals = set.description.interval && !key.is_concat();
    let intervals = if plain_intervals { Intervals::of(set) } else { Intervals::default() };
    Some(SetInfo {
        name: set.name.clone(),
        anonymous: set.anonymous,
        meter: false,
        place: None,
        existing: true,
        key,
        data,
        interval: set.description.interval,
        timeout: set.description.timeout,
        dynamic: set.description.dynamic,
        auto_merge: user.auto_merge,
        stmts: set.exprs.iter().filter_map(stateful_name).collect(),
        intervals: Arc::new(intervals),
    })
}

/// [`StmtKind::stateful_name`](penstock_syntax::ast::StmtKind::stateful_name) for the evaluated
/// statement.
fn stateful_name(expr: &penstock_program::Expr) -> Option<&'static str> {
    expr.as_statement().map(|_| expr.name())
}
