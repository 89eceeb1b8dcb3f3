// SPDX-License-Identifier: Apache-2.0

//! Lists that follow the ruleset: owners of tables, counters of policies, and what is in no table.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_conntrack::Helpers;
use penstock_program::expr::Counter;
use penstock_program::state::{CounterState, State};
use serde::{Deserialize, Serialize};

use super::{Kept, Reader};
use crate::globals::{Globals, NAME_MAX, NewAccount, NewFingerprint, NewHelper, NewTimeout};
use crate::model::{Chain, ChainProgram, Generation, RuleOrigin, Table};

/// What follows the ruleset: list after list, up to the last one that is not empty.
#[derive(Default)]
pub(super) struct Rest {
    owners: Vec<Owner>,
    policies: Vec<Policy>,
    accounts: Vec<NewAccount>,
    timeouts: Vec<NewTimeout>,
    fingerprints: Vec<NewFingerprint>,
    programs: Vec<SavedProgram>,
    /// Handles of table and set of those that are [`Set::gapless`](crate::model::Set::gapless).
    gapless: Vec<(u64, u64)>,
    written: Vec<Written>,
    /// Numbers and what they are made of.
    helpers: Vec<(u16, NewHelper)>,
}

/// The rules of a file, and where they stand in it.
#[derive(Serialize, Deserialize)]
struct Written {
    file: Arc<str>,
    /// Handles of table, chain and rule, and the line.
    rules: Vec<(u64, u64, u64, u32)>,
}

impl Written {
    /// Of all rules that are kept and came from a file.
    fn of(generation: &Generation, kept: &Kept<'_>) -> Vec<Written> {
        let mut places: HashMap<Arc<str>, usize> = HashMap::new();
        let mut all: Vec<Written> = Vec::new();
        for table in generation.tables.iter().filter(|table| kept.has_table(table)) {
            for chain in table.chains.iter().filter(|chain| kept.has_rules(table, chain)) {
                for rule in &chain.rules {
                    let Some(RuleOrigin { file, line }) = &rule.origin else { continue };
                    let at = *places.entry(file.clone()).or_insert_with(|| {
                        all.push(Written { file: file.clone(), rules: Vec::new() });
                        all.len() - 1
                    });
                    if let Some(written) = all.get_mut(at) {
                        written.rules.push((table.handle, chain.handle, rule.handle, *line));
                    }
                }
            }
        }
        all
    }
}

/// Of a table that has one.
#[derive(Serialize, Deserialize)]
struct Owner {
    /// The table's handle.
    table: u64,
    /// Port id of a socket.
    port: u32,
}

/// What the policy of a base chain has decided on, where that is counted.
#[derive(Serialize, Deserialize)]
struct Policy {
    /// Handles of table and chain.
    place: (u64, u64),
    packets: u64,
    bytes: u64,
}

/// The BPF program of a base chain.
#[derive(Serialize, Deserialize)]
struct SavedProgram {
    /// Handles of table and chain.
    place: (u64, u64),
    program: ChainProgram,
}

impl Rest {
    pub(super) fn of(generation: &Generation, kept: &Kept<'_>) -> Self {
        let tables = || generation.tables.iter().filter(|table| kept.has_table(table));
        let owned = tables().filter(|table| table.owner != 0);
        let policies = tables().flat_map(|table| {
            let counted = move |chain: &Arc<Chain>| {
                let Counter { packets, bytes } = chain.counted()?;
                Some(Policy { place: (table.handle, chain.handle), packets, bytes })
            };
            table.chains.iter().filter_map(counted)
        });
        let programs = tables().flat_map(|table| {
            table.chains.iter().filter_map(move |chain| {
                let program = chain.program.clone()?;
                Some(SavedProgram { place: (table.handle, chain.handle), program })
            })
        });
        Rest {
            owners: owned.map(|t| Owner { table: t.handle, port: t.owner }).collect(),
            policies: policies.collect(),
            // Rules that are saved may name any of them.
            accounts: generation.globals.accounts.iter().map(|a| kept.account(a)).collect(),
            timeouts: generation.globals.timeouts.iter().map(|t| t.config.clone()).collect(),
            fingerprints: generation.globals.fingerprints.clone(),
            programs: programs.collect(),
            gapless: tables()
                .flat_map(|table| {
                    let sets = table.sets.iter().filter(|set| set.gapless);
                    sets.map(|set| (table.handle, set.handle))
                })
                .collect(),
            written: Written::of(generation, kept),
            helpers: {
                let helpers = generation.globals.helpers.iter();
                helpers.map(|helper| (helper.number, helper.config.clone())).collect()
            },
        }
    }

    pub(super) fn append(&self, bytes: Vec<u8>) -> Vec<u8> {
        fn list<T: Serialize>(list: &[T], bytes: Vec<u8>) -> Vec<u8> {
            postcard::to_extend(list, bytes).unwrap_or_default()
        }
        let Rest {
            owners,
            policies,
            accounts,
            timeouts,
            fingerprints,
            programs,
            gapless,
            written,
            helpers,
        } = self;
        let lists = [
            owners.len(),
            policies.len(),
            accounts.len(),
            timeouts.len(),
            fingerprints.len(),
            programs.len(),
            gapless.len(),
            written.len(),
            helpers.len(),
        ];
        let lists = lists.iter().rposition(|len| *len > 0).map_or(0, |last| last + 1);
        let bytes = if lists > 0 { list(owners, bytes) } else { bytes };
        let bytes = if lists > 1 { list(policies, bytes) } else { bytes };
        let bytes = if lists > 2 { list(accounts, bytes) } else { bytes };
        let bytes = if lists > 3 { list(timeouts, bytes) } else { bytes };
        let bytes = if lists > 4 { list(fingerprints, bytes) } else { bytes };
        let bytes = if lists > 5 { list(programs, bytes) } else { bytes };
        let bytes = if lists > 6 { list(gapless, bytes) } else { bytes };
        let bytes = if lists > 7 { list(written, bytes) } else { bytes };
        if lists > 8 { list(helpers, bytes) } else { bytes }
    }

    pub(super) fn read(
        reader: &mut Reader<'_>,
        is_end: impl Fn() -> bool,
    ) -> postcard::Result<Self> {
        let mut rest = Rest::default();
        if !is_end() {
            rest.owners = Vec::deserialize(&mut *reader)?;
        }
        if !is_end() {
            rest.policies = Vec::deserialize(&mut *reader)?;
        }
        if !is_end() {
            rest.accounts = Vec::deserialize(&mut *reader)?;
        }
        if !is_end() {
            rest.timeouts = Vec::deserialize(&mut *reader)?;
        }
        if !is_end() {
            rest.fingerprints = Vec::deserialize(&mut *reader)?;
        }
        if !is_end() {
            rest.programs = Vec::deserialize(&mut *reader)?;
        }
        if !is_end() {
            rest.gapless = Vec::deserialize(&mut *reader)?;
        }
        if !is_end() {
            rest.written = Vec::deserialize(&mut *reader)?;
        }
        if !is_end() {
            rest.helpers = Vec::deserialize(&mut *reader)?;
        }
        Ok(rest)
    }

    /// What is in no table; `None` for what there cannot be.
    pub(super) fn globals(&self) -> Option<Globals> {
        let mut globals = Globals::default();
        for new in &self.accounts {
            let wrong = new.name.is_empty() || new.name.len() > NAME_MAX;
            if wrong || globals.account(&new.name).is_some() {
                return None;
            }
            globals.accounts.push(new.clone().into());
        }
        for new in &self.timeouts {
            if new.name.len() > NAME_MAX || globals.timeout(&new.name).is_some() {
                return None;
            }
            globals.timeouts.push(new.clone().into());
        }
        for (number, new) in &self.helpers {
            let taken = globals.helpers.iter().any(|helper| helper.number == *number);
            if taken
                || !new.is_sound()
                || *number < Helpers::FIRST
                || !globals.set_helper(new.clone())
            {
                return None;
            }
            if let Some(added) = globals.helpers.last_mut() {
                added.number = *number;
            }
        }
        for new in &self.fingerprints {
            if !globals.add_fingerprint(new.clone()) {
                return None;
            }
        }
        Some(globals)
    }

    /// Gives a table its owner, its sets what they lack, its chains their counters and programs,
    /// and its rules the places where they were written.
    pub(super) fn give(&self, table: &mut Table) {
        let owner = self.owners.iter().find(|owner| owner.table == table.handle);
        table.owner = owner.map_or(0, |owner| owner.port);
        for set in &mut table.sets {
            if self.gapless.contains(&(table.handle, set.handle)) {
                Arc::make_mut(set).gapless = true;
            }
        }
        for Policy { place, packets, bytes } in &self.policies {
            let chain = table.chains.iter_mut().find(|c| (table.handle, c.handle) == *place);
            if let Some(chain) = chain.filter(|chain| chain.base.is_some()) {
                let counter = CounterState::new(*packets, *bytes);
                Arc::make_mut(chain).counter = Some(Arc::new(State::Counter(counter)));
            }
        }
        for SavedProgram { place, program } in &self.programs {
            let chain = table.chains.iter_mut().find(|c| (table.handle, c.handle) == *place);
            if let Some(chain) = chain.filter(|chain| chain.base.is_some()) {
                Arc::make_mut(chain).program = Some(program.clone());
            }
        }
        let handle = table.handle;
        let mut origins: HashMap<(u64, u64), RuleOrigin> = HashMap::new();
        for Written { file, rules } in &self.written {
            let of_table = rules.iter().filter(|(table, ..)| *table == handle);
            origins.extend(of_table.map(|(_, chain, rule, line)| {
                ((*chain, *rule), RuleOrigin { file: file.clone(), line: *line })
            }));
        }
        if origins.is_empty() {
            return;
        }
        for chain in &mut table.chains {
            let chain = Arc::make_mut(chain);
            for rule in &mut chain.rules {
                // They have just been read: nobody else has them.
                if let Some(rule) = Arc::get_mut(rule) {
                    rule.origin = origins.remove(&(chain.handle, rule.handle));
                }
            }
        }
    }
}
