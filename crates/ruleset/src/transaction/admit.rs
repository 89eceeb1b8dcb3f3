// SPDX-License-Identifier: Apache-2.0

//! Whether a generation that comes from outside, out of a file or of another process, is one that
//! transactions could have made: what [`Transaction::apply`](super::Transaction::apply) would have
//! refused is refused here. How sets are described is checked where they are made of what was read
//! (`saved`).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use penstock_program::expr::Expr;
use penstock_sets::Backend;

use super::chains::{checked_base, checked_program};
use super::elements::checked_statements;
use super::flowtables::checked_flags;
use super::index::{Handled, TableIndex, by_handle};
use super::reach::Reach;
use super::rules::EXPRS_MAX;
use super::tables::{OWNER, PERSIST};
use super::{Batch, Counters, OpenTable, Ruleset, checked_name};
use crate::change::NewBase;
use crate::model::{
    Chain, Family, Flowtable, Generation, Hook, MapData, Object, ObjectValue, Set, Table,
};
use crate::{Blame, Errno, live};

/// Handles and numbers of registration that leave room for all that will be counted on from them.
const NUMBERS_MAX: u64 = 1 << 62;

impl Ruleset {
    /// A ruleset that goes on from a generation that comes from outside. `last_table_handle` is as
    /// for [`Ruleset::resume`].
    ///
    /// # Errors
    ///
    /// What in it no transaction could have made, in words.
    pub(crate) fn admit(generation: Generation, last_table_handle: u64) -> Result<Ruleset, String> {
        let mut names = HashSet::new();
        let mut handles = HashSet::new();
        for table in &generation.tables {
            let (family, name) = (table.family.name(), &table.name);
            let what = |part: String| format!("{part} of table {family} {name}");
            let new = names.insert((table.family, name.clone())) && handles.insert(table.handle);
            let known = table.flags & !(OWNER | PERSIST) == 0;
            if !new
                || !known
                || checked_name(name, Blame::Table).is_err()
                || !is_number(table.handle)
            {
                return Err(format!("there cannot be such a table {family} {name}"));
            }
            admit_table(table).map_err(what)?;
        }
        let ruleset = Ruleset::resume(generation, last_table_handle);
        match ruleset.counters.table_handle.max(ruleset.counters.registered) <= NUMBERS_MAX {
            true => Ok(ruleset),
            false => Err("the numbers of tables or chains are too large".into()),
        }
    }
}

fn is_number(handle: u64) -> bool {
    (1..=NUMBERS_MAX).contains(&handle)
}

/// Says which part it is, as kind and name, with what the kernel would say of it.
fn refused(kind: &str, name: &str, errno: Errno) -> String {
    format!("{}: {kind} {name}", errno.text())
}

/// Checks the parts of a table, and then what refers from one to another.
fn admit_table(table: &Arc<Table>) -> Result<(), String> {
    if table.last_handle > NUMBERS_MAX {
        return Err("too large a handle".into());
    }
    in_order(table, &table.chains, |chain| &chain.name)?;
    in_order(table, &table.sets, |set| &set.name)?;
    in_order(table, &table.objects, |object| &object.name)?;
    in_order(table, &table.flowtables, |flowtable| &flowtable.name)?;
    unique_handles(table)?;
    let mut names = HashSet::new();
    for chain in &table.chains {
        admit_chain(table.family, chain, names.insert(&chain.name))
            .map_err(|errno| refused("chain", &chain.name, errno))?;
    }
    let mut names = HashSet::new();
    for object in &table.objects {
        let is_new = names.insert((object.value.kind(), &object.name));
        admit_object(object, is_new).map_err(|errno| refused("object", &object.name, errno))?;
    }
    let (mut names, mut devices) = (HashSet::new(), HashSet::new());
    for flowtable in &table.flowtables {
        let new =
            names.insert(&flowtable.name) && flowtable.devices.iter().all(|d| devices.insert(d));
        admit_flowtable(table.family, flowtable, new)
            .map_err(|errno| refused("flowtable", &flowtable.name, errno))?;
    }
    let mut names = HashSet::new();
    for set in &table.sets {
        if !names.insert(&set.name) {
            return Err(refused("set", &set.name, Errno::Eexist));
        }
    }
    admit_references(table)
}

/// Everything of one kind lies in the order of handles, by which it is found.
fn in_order<T: Handled>(
    table: &Table,
    all: &[Arc<T>],
    name: impl Fn(&T) -> &Arc<str>,
) -> Result<(), String> {
    let ascending = all.windows(2).all(|two| two[0].handle() < two[1].handle());
    let last = all.last().map_or(1, |t| t.handle());
    let wrong = all.iter().find(|t| checked_name(name(t), Blame::Whole).is_err());
    if !ascending || all.first().is_some_and(|t| t.handle() == 0) || last > table.last_handle.max(1)
    {
        return Err("handles out of order".into());
    }
    wrong.map_or(Ok(()), |t| Err(format!("a name of {} bytes", name(t).len())))
}

fn unique_handles(table: &Table) -> Result<(), String> {
    let rules = table.chains.iter().flat_map(|c| &c.rules).map(|r| r.handle);
    let handles = rules
        .chain(table.chains.iter().map(|t| t.handle))
        .chain(table.sets.iter().map(|t| t.handle))
        .chain(table.objects.iter().map(|t| t.handle))
        .chain(table.flowtables.iter().map(|t| t.handle));
    let mut known = BTreeSet::new();
    for handle in handles {
        if !known.insert(handle) || handle == 0 || handle > table.last_handle {
            return Err(format!("handle {handle} is there twice, or was never given"));
        }
    }
    Ok(())
}

fn admit_chain(family: Family, chain: &Chain, is_new: bool) -> Result<(), Errno> {
    if !is_new {
        return Err(Errno::Eexist);
    }
    let Some(base) = &chain.base else { return Ok(()) };
    if chain.anonymous || base.offload && base.hook != Hook::Ingress {
        return Err(Errno::Eopnotsupp);
    }
    if let Some(program) = &chain.program {
        let place = Some((base.kind, base.hook, base.priority));
        checked_program(family, place, program).map_err(|e| e.errno)?;
    }
    // Devices may have been added bit by bit, so many that no single change may bring them.
    let new =
        NewBase { kind: base.kind, hook: base.hook, priority: base.priority, devices: Vec::new() };
    checked_base(family, &new).map_err(|e| e.errno)?;
    for device in &base.devices {
        let new = NewBase { devices: vec![device.clone()], ..new.clone() };
        checked_base(family, &new).map_err(|e| e.errno)?;
    }
    let mut devices = HashSet::new();
    match base.devices.iter().all(|device| devices.insert(device)) {
        true => Ok(()),
        false => Err(Errno::Eexist),
    }
}

fn admit_object(object: &Object, is_new: bool) -> Result<(), Errno> {
    if !is_new {
        return Err(Errno::Eexist);
    }
    if let ObjectValue::Tunnel(tunnel) = &object.value {
        tunnel.checked()?;
    }
    object.value.as_expr().as_ref().map_or(Ok(()), admit_state)
}

/// Values that a stateful expression can have come to: a quota may have seen more than it is of.
fn admit_state(expr: &Expr) -> Result<(), Errno> {
    live::check_statement(&as_new(expr))
}

fn admit_flowtable(family: Family, flowtable: &Flowtable, is_new: bool) -> Result<(), Errno> {
    match (family, flowtable.hook) {
        _ if !is_new => Err(Errno::Eexist),
        (Family::Ip | Family::Ip6 | Family::Inet, Hook::Ingress) => checked_flags(flowtable.flags),
        (Family::Ip | Family::Ip6 | Family::Inet, _) => Err(Errno::Eopnotsupp),
        (Family::Arp | Family::Bridge | Family::Netdev, _) => Err(Errno::Enoent),
    }
}

/// Puts rules into chains that are empty at first, one by one, and looks at each.
fn admit_references(table: &Arc<Table>) -> Result<(), String> {
    let mut empty = Table::clone(table);
    for chain in &mut empty.chains {
        *chain = Arc::new(Chain { rules: Vec::new(), ..Chain::clone(chain) });
    }
    let mut index = TableIndex::new(&empty);
    let counters = Counters::default();
    let mut batch = Batch {
        counters,
        names: HashMap::new(),
        now: 0,
        changed: false,
        shared: Arc::default(),
        suspects: Vec::new(),
        stated: HashSet::new(),
        sender: 0,
    };
    let open = OpenTable { table: &mut empty, index: &mut index, batch: &mut batch };
    for set in &table.sets {
        open.admit_elements(set).map_err(|errno| refused("an element of set", &set.name, errno))?;
    }
    for chain in &table.chains {
        for rule in &chain.rules {
            let what =
                |errno| refused(&format!("rule {} of chain", rule.handle), &chain.name, errno);
            if rule.exprs.len() > EXPRS_MAX {
                return Err(what(Errno::Einval));
            }
            let running: Vec<Expr> = rule.exprs.iter().map(as_new).collect();
            open.check_program(&running).map_err(|e| what(e.errno))?;
            rule.exprs.iter().try_for_each(|e| open.admit_changed_set(e)).map_err(what)?;
            open.index.count_rule(rule, true);
        }
    }
    Reach::checked(table, &index).map_err(|errno| errno.text().to_owned())
}

/// A quota as it began.
fn as_new(expr: &Expr) -> Expr {
    let Expr::Quota(quota) = expr else { return expr.clone() };
    let mut quota = quota.clone();
    quota.consumed = quota.consumed.min(quota.bytes);
    Expr::Quota(quota)
}

impl OpenTable<'_> {
    /// A set that a rule changes is one that packets can change, since that rule was made.
    fn admit_changed_set(&self, expr: &Expr) -> Result<(), Errno> {
        let Expr::Dynset(dynset) = expr else { return Ok(()) };
        let handle = *self.index.sets.get(&dynset.set).ok_or(Errno::Enoent)?;
        let set = by_handle(&self.table.sets, handle).ok_or(Errno::Enoent)?;
        match set.data {
            None | Some(MapData::Value { .. }) if set.dynamic().is_none() => Err(Errno::Einval),
            _ => Ok(()),
        }
    }

    fn admit_elements(&self, set: &Set) -> Result<(), Errno> {
        if set.dynamic().is_some() && set.backend() != Backend::ResizableHash {
            return Err(Errno::Eopnotsupp);
        }
        for element in set.elements().iter_unordered() {
            let value = element.value;
            let expires = element.expires_at.is_some() || value.timeout().is_some();
            if expires && !set.description.timeout {
                return Err(Errno::Einval);
            }
            self.check_data(set, value.data.as_ref())?;
            checked_statements(set, self.table.family, value.exprs(), admit_state)?;
        }
        Ok(())
    }
}
