// SPDX-License-Identifier: Apache-2.0

//! Transactions: batches of changes that become the next generation whole, or not at all.
//!
//! A [`Transaction`] is a private copy of the ruleset that shares everything it has not changed.
//! Every change is checked when it is applied, in the order and with the errors of
//! `net/netfilter/nf_tables_api.c`; a refused change leaves the batch as it was. How deep jumps go,
//! and which expressions a hook takes, counts at the end of a batch: [`Transaction::validate`].

mod admit;
mod chains;
mod elements;
mod flowtables;
mod globals;
mod gone;
mod index;
mod objects;
mod reach;
mod rules;
pub(crate) mod sets;
mod tables;
mod validate;
mod walk;

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use index::TableIndex;
use penstock_ipset::IpSets;
use penstock_program::expr::Expr;
use penstock_program::state::RateParameters;
use validate::Validation;

pub use validate::Wrong;

use crate::model::{Family, Set, Table};
use crate::shared::SharedStates;
use crate::{Blame, Change, Errno, Error, Generation};

/// Longest name of anything, in bytes (`NFT_NAME_MAXLEN` without its end).
const NAME_MAX: usize = 255;

/// Numbers that are counted over the life of a ruleset, not of a generation.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    /// Last handle given to a table.
    table_handle: u64,
    /// Base chains and flowtables registered so far.
    registered: u64,
}

/// The ruleset of a network namespace: the generation in force.
#[derive(Clone, Debug)]
pub struct Ruleset {
    current: Arc<Generation>,
    counters: Counters,
    /// What the last batches knew of tables, which the next one need not find out again.
    indexed: Vec<Indexed>,
    shared: Arc<SharedStates>,
}

/// A table as it was committed, and its index.
type Indexed = (Arc<Table>, Arc<TableIndex>);

/// An empty ruleset: generation 1, as in a new network namespace.
impl Default for Ruleset {
    fn default() -> Self {
        Ruleset {
            current: Arc::new(Generation { id: 1, ..Generation::default() }),
            counters: Counters::default(),
            indexed: Vec::new(),
            shared: Arc::default(),
        }
    }
}

/// What a change made.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Applied {
    /// Handle of the new object.
    pub handle: Option<u64>,
    /// Final name, where the ruleset chose it (anonymous sets and chains).
    pub name: Option<Arc<str>>,
}

/// A batch in the making: a private next generation.
#[derive(Clone, Debug)]
pub struct Transaction {
    working: Generation,
    /// Indexes of the tables that the batch has opened, by handle.
    indexes: HashMap<u64, TableIndex>,
    /// Indexes of tables as they were when the batch began.
    indexed: Vec<Indexed>,
    validation: Validation,
    batch: Batch,
}

/// What the changes of one batch share beyond the tables.
#[derive(Clone, Debug)]
struct Batch {
    counters: Counters,
    /// Final names of anonymous sets and chains, by the names that the batch knows them by.
    names: HashMap<Arc<str>, Arc<str>>,
    /// Nanoseconds.
    now: u64,
    /// Whether anything is other than before: what was there already, or was not there to be
    /// deleted, is not.
    changed: bool,
    shared: Arc<SharedStates>,
    /// Handles of tables that a change has left wrong as a whole; they may be right again.
    suspects: Vec<u64>,
    /// Chains, by the handles of table and chain, whose BPF programs the batch has stated: their
    /// rules may change.
    stated: HashSet<(u64, u64)>,
    /// Port id of the socket that the changes come from; 0 may change the tables of all owners.
    sender: u32,
}

/// One table, open for changes.
struct OpenTable<'a> {
    table: &'a mut Table,
    index: &'a mut TableIndex,
    batch: &'a mut Batch,
}

impl Ruleset {
    /// Handle that the youngest table got, gone or not.
    pub fn last_table_handle(&self) -> u64 {
        self.counters.table_handle
    }

    /// A number that two rulesets share if they gave the same handles to the same tables, up to the
    /// same generation.
    pub fn marks(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        (self.current.id, self.counters.table_handle).hash(&mut hasher);
        for table in &self.current.tables {
            (table.family, &table.name, table.handle, table.last_handle).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The generation in force.
    pub fn generation(&self) -> Arc<Generation> {
        self.current.clone()
    }

    /// A ruleset that goes on from a generation as it is: nothing of it is checked.
    /// `last_table_handle` is the last one that was given away, if that table is gone.
    pub fn resume(generation: Generation, last_table_handle: u64) -> Self {
        let table_handle =
            generation.tables.iter().map(|t| t.handle).max().unwrap_or(0).max(last_table_handle);
        let chains = generation.tables.iter().flat_map(|t| &t.chains);
        let of_chains = chains.filter_map(|c| c.base.as_ref()).map(|b| b.registered);
        let flowtables = generation.tables.iter().flat_map(|t| &t.flowtables);
        let registered = of_chains.chain(flowtables.map(|f| f.registered)).max().unwrap_or(0);
        let counters = Counters { table_handle, registered };
        let shared = Arc::new(SharedStates::of(&generation));
        Ruleset { current: Arc::new(generation), counters, indexed: Vec::new(), shared }
    }

    /// Closes the sockets of all owners of tables: they are of processes that are no longer there.
    pub fn close_owners(&mut self) {
        let mut batch = self.begin();
        for table in &self.current.tables {
            batch.close(table.owner);
        }
        // Nobody else has committed meanwhile, and nothing that stays has changed.
        let _ = self.commit(batch);
    }

    /// Makes a generation that was in force before the next one, as it was; handles that were given
    /// meanwhile are not given again. What packets have changed stays: counters of what both have,
    /// and elements of sets that rules change.
    pub fn restore(&mut self, before: &Generation) {
        let mut next = Generation { id: self.current.id.wrapping_add(1), ..before.clone() };
        for table in &mut next.tables {
            let now = self.current.tables.iter().find(|t| t.handle == table.handle);
            if let Some(last) = now.map(|t| t.last_handle).filter(|last| *last > table.last_handle)
            {
                Arc::make_mut(table).last_handle = last;
            }
        }
        self.current = Arc::new(next);
    }

    /// The sets of ipset. They do not belong to a generation: requests and packets change them at
    /// once.
    pub fn ip_sets(&self) -> &Arc<IpSets> {
        self.shared.ip_sets()
    }

    /// Carries out a request for sets of ipset at a time (ns). Rules of the generation in force are
    /// references that keep a set.
    ///
    /// # Errors
    /// Those of [`IpSets::ask`].
    pub fn ask_ip_sets(
        &self,
        request: &penstock_ipset::Request,
        now: u64,
    ) -> Result<penstock_ipset::Reply, penstock_ipset::Refused> {
        let mut rules: HashMap<u16, u32> = HashMap::new();
        if request.asks_for_references() {
            let chains = self.current.tables.iter().flat_map(|table| &table.chains);
            for expr in chains.flat_map(|chain| &chain.rules).flat_map(|rule| &rule.exprs) {
                if let Expr::Xt(extension) = expr {
                    extension.ip_sets().for_each(|index| *rules.entry(index).or_default() += 1);
                }
            }
        }
        let references = |index| rules.get(&index).copied().unwrap_or(0);
        self.ip_sets().ask(request, &references, now)
    }

    /// Starts a batch on top of it, at time 0: timeouts of new elements end that long after the
    /// epoch.
    pub fn begin(&self) -> Transaction {
        self.begin_at(0)
    }

    /// Starts a batch at a time of the packet clock, in nanoseconds since the epoch. From there
    /// timeouts of new elements are counted, and what expired before it is not there.
    pub fn begin_at(&self, now: u64) -> Transaction {
        let batch = Batch {
            counters: self.counters,
            names: HashMap::new(),
            now,
            changed: false,
            shared: self.shared.clone(),
            suspects: Vec::new(),
            stated: HashSet::new(),
            sender: 0,
        };
        Transaction {
            working: (*self.current).clone(),
            indexes: HashMap::new(),
            indexed: self.indexed.clone(),
            validation: Validation::after(self.counters.table_handle),
            batch,
        }
    }

    /// Makes the batch the generation in force. A batch without changes makes none.
    ///
    /// `ERESTART` when another batch was committed since this one began; what
    /// [`Transaction::validate`] finds first.
    pub fn commit(&mut self, transaction: Transaction) -> Result<(), Error> {
        if let Err(wrong) = transaction.validate() {
            let errno = wrong.first().map_or(Errno::Einval, |wrong| wrong.errno);
            return Err(Error::new(errno, Blame::Whole));
        }
        let Transaction { mut working, batch, mut indexes, indexed, .. } = transaction;
        if working.id != self.current.id {
            return Err(Error::new(Errno::Erestart, Blame::Whole));
        }
        if !batch.changed {
            return Ok(());
        }
        change_sets(&mut working, |set| !set.is_committed(), |set| set.commit(batch.now));
        working.id = working.id.wrapping_add(1);
        self.indexed = working
            .tables
            .iter()
            .filter_map(|table| match indexes.remove(&table.handle) {
                Some(index) => Some((table.clone(), Arc::new(index.committed()))),
                None => indexed.iter().find(|(of, _)| Arc::ptr_eq(of, table)).cloned(),
            })
            .collect();
        self.counters = batch.counters;
        self.current = Arc::new(working);
        Ok(())
    }
}

/// Changes the sets that are such.
fn change_sets(
    generation: &mut Generation,
    which: impl Fn(&Set) -> bool,
    mut change: impl FnMut(&mut Set),
) {
    for table in generation.tables.iter_mut().filter(|t| t.sets.iter().any(|set| which(set))) {
        Arc::make_mut(table)
            .sets
            .iter_mut()
            .filter(|s| which(s))
            .for_each(|s| change(Arc::make_mut(s)));
    }
}

impl Transaction {
    /// The estimator of a name of x_tables, if a rule counts in it or compares it, and how it
    /// estimates.
    pub fn estimator(&self, name: &str) -> Option<Option<RateParameters>> {
        self.batch.shared.estimator(name)
    }

    /// What the ruleset would be with the changes so far.
    pub fn working(&self) -> &Generation {
        &self.working
    }

    /// The name of a set or chain that changes of this batch call so: the ruleset has chosen
    /// another one if it is anonymous.
    pub fn final_name(&self, name: &Arc<str>) -> Arc<str> {
        self.batch.names.get(name).unwrap_or(name).clone()
    }

    /// Whether the sender of the changes may change a table, which may have another owner.
    pub fn may_change(&self, table: &Table) -> bool {
        !tables::is_anothers(table, self.batch.sender)
    }

    /// Whether anything is other than before.
    pub fn is_changed(&self) -> bool {
        self.batch.changed
    }

    /// Makes it a change of the ruleset even if nothing is other than before: the generation after
    /// it has another number.
    pub fn change(&mut self) {
        self.batch.changed = true;
    }

    /// Does what a commit does to sets that only this batch knows: they are made fast to search.
    /// What is linked afterwards is what is committed then.
    pub fn settle(&mut self) {
        change_sets(&mut self.working, |set| !set.is_settled(), |set| set.commit(self.batch.now));
    }

    /// Takes one change, or refuses it and leaves the batch as it was.
    pub fn apply(&mut self, change: Change) -> Result<Applied, Error> {
        let validated = validate::table_of(&change);
        let applied = self.make(change)?;
        self.note_applied(validated);
        Ok(applied)
    }

    fn make(&mut self, change: Change) -> Result<Applied, Error> {
        match change {
            Change::Sender { port } => {
                self.batch.sender = port;
                Ok(Applied::default())
            }
            Change::Closed { port } => {
                self.close(port);
                Ok(Applied::default())
            }
            Change::Global(change) => self.change_globals(change),
            Change::AddTable { family, name, mode, flags, userdata } => {
                self.add_table(family, name, mode, flags, userdata)
            }
            Change::DeleteTable { family, key, destroy } => self.delete_table(family, key, destroy),
            Change::AddChain { family, table, mode, chain } => {
                self.open(family, &table)?.add_chain(mode, chain)
            }
            Change::RenameChain { family, table, handle, name } => {
                self.open(family, &table)?.rename_chain(handle, name)
            }
            Change::DeleteChain { family, table, key, devices, destroy } => {
                self.open(family, &table)?.delete_chain(key, &devices, destroy)
            }
            Change::AddRule { family, table, chain, position, rule } => {
                self.open(family, &table)?.add_rule(&chain, position, rule)
            }
            Change::DeleteRule { family, table, chain, handle, destroy } => {
                self.open(family, &table)?.delete_rule(chain.as_deref(), handle, destroy)
            }
            Change::AddSet { family, table, mode, set } => {
                self.open(family, &table)?.add_set(mode, set)
            }
            Change::DeleteSet { family, table, key, destroy } => {
                self.open(family, &table)?.delete_set(key, destroy)
            }
            Change::AddElements { family, table, set, mode, elements } => {
                self.open(family, &table)?.add_elements(&set, mode, elements)
            }
            Change::Gap { family, table, set, there } => {
                self.open(family, &table)?.set_gap(&set, there)
            }
            Change::DeleteElements { family, table, set, elements, destroy } => {
                self.open(family, &table)?.delete_elements(&set, elements, destroy)
            }
            Change::AddObject { family, table, mode, name, value, userdata } => {
                let globals = self.working.globals.clone();
                self.open(family, &table)?.add_object(mode, name, value, userdata, &globals)
            }
            Change::DeleteObject { family, table, kind, key, destroy } => {
                self.open(family, &table)?.delete_object(kind, key, destroy)
            }
            Change::AddFlowtable { family, table, mode, flowtable } => {
                self.open(family, &table)?.add_flowtable(mode, flowtable)
            }
            Change::DeleteFlowtable { family, table, key, devices, destroy } => {
                self.open(family, &table)?.delete_flowtable(key, &devices, destroy)
            }
        }
    }

    fn open(&mut self, family: Family, name: &str) -> Result<OpenTable<'_>, Error> {
        let found = self.working.tables.iter_mut().find(|t| t.family == family && *t.name == *name);
        let Some(table) = found else { return Err(Error::new(Errno::Enoent, Blame::Table)) };
        if tables::is_anothers(table, self.batch.sender) {
            return Err(Error::new(Errno::Eperm, Blame::Table));
        }
        let now = self.batch.now;
        let known =
            self.indexed.iter().find(|(of, _)| Arc::ptr_eq(of, table)).map(|(_, index)| index);
        let table = Arc::make_mut(table);
        let index = self.indexes.entry(table.handle).or_insert_with(|| {
            let mut expired = false;
            // Expired elements no longer hold references.
            for set in table.sets.iter_mut().filter(|s| s.has_expired(now)) {
                Arc::make_mut(set).sweep(now);
                expired = true;
            }
            match known {
                Some(index) if !expired => TableIndex::clone(index),
                _ => TableIndex::new(table),
            }
        });
        Ok(OpenTable { table, index, batch: &mut self.batch })
    }
}

impl OpenTable<'_> {
    fn next_handle(&mut self) -> u64 {
        self.table.last_handle += 1;
        self.table.last_handle
    }

    /// The final name of what the batch calls so.
    fn final_name(&self, name: &Arc<str>) -> Arc<str> {
        self.batch.names.get(name).unwrap_or(name).clone()
    }
}

impl Batch {
    fn next_registration(&mut self) -> u64 {
        self.counters.registered += 1;
        self.counters.registered
    }
}

fn checked_name(name: &str, blame: Blame) -> Result<(), Error> {
    match name.len() {
        0 => Err(Error::new(Errno::Einval, blame)),
        1..=NAME_MAX => Ok(()),
        _ => Err(Error::new(Errno::Erange, blame)),
    }
}
