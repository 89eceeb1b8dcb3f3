// SPDX-License-Identifier: Apache-2.0

//! The half of an attached ruleset that the kernel's own nf_tables runs.
//!
//! Its tables belong to a socket of this process: nobody else changes them, and the kernel removes
//! them with the process unless they are to stay (`NFT_TABLE_F_OWNER`, `NFT_TABLE_F_PERSIST`).
//!
//! | file | is |
//! | --- | --- |
//! | [`reach`] | what a chain refers to |
//! | [`tables`] | the tables with those parts only that some base chains need |
//! | [`tally`] | what the kernel has counted, in the ruleset's states |
//! | [`mirror`] | sets that packets change |

mod mirror;
pub(super) mod reach;
pub(super) mod tables;
mod tally;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use penstock_netlink::{NotCommitted, RulesSocket};
use penstock_nfnetlink::kernel::{
    self, ElementChange, KernelBatch, KernelHandles, KernelRequest, KernelTables, Subject,
    transition,
};
use penstock_ruleset::link::{CannotOffload, OffloadPart};
use penstock_ruleset::{Family, Set, Table};

use super::NotAttached;
use crate::log;
use mirror::Mirror;
use tally::Tallies;

/// Where these chains run, in words.
pub(super) const NF_TABLES: &str = "nf_tables";

/// Handles of a table and of a set in it.
type SetKey = (u64, u64);

/// Tables in the kernel's nf_tables.
#[derive(Debug)]
pub(super) struct KernelHalf {
    socket: RulesSocket,
    how: KernelTables,
    /// In the kernel.
    tables: Vec<Arc<Table>>,
    /// There before the last commit, until that is settled.
    before: Option<Vec<Arc<Table>>>,
    handles: KernelHandles,
    tallies: Tallies,
    mirrors: HashMap<SetKey, Mirror>,
    /// Tables of an earlier process, until there is something in their place.
    left: Vec<(Family, Arc<str>)>,
}

fn ask(socket: &mut RulesSocket, request: &KernelRequest) -> io::Result<Vec<Vec<u8>>> {
    socket.dump(request.0, &request.1)
}

/// The tables that a process of this network namespace has left.
fn left(socket: &mut RulesSocket) -> io::Result<Vec<(Family, Arc<str>)>> {
    let all = ask(socket, &kernel::ask_tables())?;
    let marked = all.iter().filter_map(|body| kernel::is_marked_table(body));
    Ok(marked
        .filter_map(|(family, name)| Some((Family::from_number(family)?, name.into())))
        .collect())
}

/// Removes the tables that a process has left which is no more; whether there were any. Those of a
/// process that lives stay.
pub(crate) fn remove_left_tables() -> bool {
    let Ok(mut socket) = RulesSocket::new() else { return false };
    let Ok(left) = left(&mut socket) else { return false };
    let mut removed = false;
    for table in left {
        let mut batch = KernelBatch::new(0);
        let how = KernelTables { persist: false };
        transition(&mut batch, (&[], &[]), &[table], &HashMap::new(), how);
        removed |= socket.commit(&batch.bytes(false), batch.last_number()).is_ok();
    }
    removed
}

impl KernelHalf {
    /// None yet, next to what an earlier process has left. Tables stay after the process with
    /// `persist`.
    ///
    /// # Errors
    /// Those of netlink: the kernel has no nf_tables.
    pub(super) fn new(persist: bool) -> io::Result<Self> {
        let mut socket = RulesSocket::new()?;
        let left = left(&mut socket)?;
        Ok(KernelHalf {
            socket,
            how: KernelTables { persist },
            tables: Vec::new(),
            before: None,
            handles: HashMap::new(),
            tallies: Tallies::default(),
            mirrors: HashMap::new(),
            left,
        })
    }

    /// Whether an earlier process has left tables, and nothing is in their place yet.
    pub(super) fn has_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// What is in the kernel.
    pub(super) fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// The sets of both generations that packets change.
    fn dynamic_sets<'t>(
        &self,
        after: &'t [Arc<Table>],
    ) -> impl Iterator<Item = (&'t Arc<Table>, &'t Arc<Set>)> + use<'t> {
        after.iter().flat_map(|table| {
            let dynamic = table.sets.iter().filter(|set| set.dynamic().is_some());
            dynamic.map(move |set| (table, set))
        })
    }

    fn batch(&mut self, after: &[Arc<Table>]) -> io::Result<(KernelBatch, Vec<mirror::Sent>)> {
        let now = crate::now();
        let mut batch = KernelBatch::new(now);
        let both = (self.tables.as_slice(), after);
        transition(&mut batch, both, &self.left, &self.handles, self.how);
        let mut sent = Vec::new();
        for (table, set) in self.dynamic_sets(after) {
            let key = (table.handle, set.handle);
            let Some(mirror) = self.mirrors.get_mut(&key) else {
                sent.push(mirror::Sent::all(key, set, now));
                continue;
            };
            let wanted = sync(&mut self.socket, mirror, (table, set), now)?;
            let gone: Vec<_> = wanted.gone.iter().map(|element| element.view()).collect();
            batch.elements(ElementChange::Delete, (table, set), &gone);
            let come: Vec<_> = wanted.come.iter().map(|element| element.view()).collect();
            batch.elements(ElementChange::Add, (table, set), &come);
            sent.push(mirror::Sent { key, come: wanted.come, gone: wanted.gone, now });
        }
        Ok((batch, sent))
    }

    /// Whether the kernel would take these tables in place of those that are there.
    pub(super) fn check(&mut self, after: &[Arc<Table>]) -> Result<(), NotAttached> {
        let (batch, _) = self.batch(after).map_err(|e| failed(&e))?;
        self.send(&batch, true)
    }

    fn send(&mut self, batch: &KernelBatch, check: bool) -> Result<(), NotAttached> {
        if batch.is_empty() {
            return Ok(());
        }
        let sent = self.socket.commit(&batch.bytes(check), batch.last_number());
        sent.map_err(|refused| not_attached(batch, refused))
    }

    /// Puts these tables in force in place of those that are there. With an error nothing has
    /// changed.
    pub(super) fn commit(&mut self, after: Vec<Arc<Table>>) -> Result<(), NotAttached> {
        let (batch, elements) = self.batch(&after).map_err(|e| failed(&e))?;
        self.send(&batch, false)?;
        for (state, words) in batch.sent() {
            self.tallies.begins(state, *words);
        }
        for sent in elements {
            self.mirrors.entry(sent.key).or_default().sent(sent);
        }
        self.left.clear();
        self.before = Some(std::mem::replace(&mut self.tables, after));
        if !batch.is_empty()
            && let Err(e) = self.learn_handles()
        {
            log(format_args!("the rules in nf_tables cannot be read: {e}"));
            // The next commit replaces all of it.
            let names = self.tables.drain(..).map(|table| (table.family, table.name.clone()));
            self.left = names.collect();
            self.mirrors.clear();
        }
        Ok(())
    }

    /// The tables of before the last commit are in force again.
    pub(super) fn take_back(&mut self) {
        if let Some(before) = self.before.take() {
            if let Err(e) = self.commit(before) {
                log(format_args!("the rules in nf_tables cannot be taken back: {}", e.sentence()));
            }
            self.settle();
        }
    }

    /// The last commit is not taken back.
    pub(super) fn settle(&mut self) {
        self.before = None;
        let sets: Vec<_> = self
            .dynamic_sets(&self.tables)
            .map(|(table, set)| (table.handle, set.handle))
            .collect();
        self.mirrors.retain(|key, _| sets.contains(key));
        self.tallies.release();
    }

    /// Reads the handles of all rules.
    fn learn_handles(&mut self) -> io::Result<()> {
        self.handles.clear();
        let KernelHalf { socket, tables, handles, .. } = self;
        for table in tables.iter() {
            for (_, rule, dumped) in tally::rules(socket, table)? {
                handles.insert((table.handle, rule.handle), dumped.handle);
            }
        }
        Ok(())
    }

    /// The ruleset's states have what the kernel has counted, and the kernel begins anew where they
    /// were reset.
    ///
    /// # Errors
    /// Those of netlink.
    pub(super) fn collect(&mut self) -> io::Result<()> {
        let now = crate::now();
        let KernelHalf { socket, tables, tallies, mirrors, .. } = self;
        for table in tables.iter() {
            tallies.collect(socket, table, now)?;
            for set in table.sets.iter().filter(|set| set.dynamic().is_some()) {
                let Some(mirror) = mirrors.get_mut(&(table.handle, set.handle)) else { continue };
                // What clients have changed comes to the kernel with their transaction.
                sync(socket, mirror, (table, set), now)?;
            }
        }
        Ok(())
    }

    /// Nothing of it stays.
    pub(super) fn remove(&mut self) {
        let (mut batch, left) = (KernelBatch::new(0), std::mem::take(&mut self.left));
        transition(&mut batch, (&self.tables, &[]), &left, &self.handles, self.how);
        if let Err(e) = self.send(&batch, false) {
            log(format_args!("tables stay in nf_tables: {}", e.sentence()));
        }
        self.tables.clear();
    }
}

/// Brings a set and its mirror together at a time (ns); what clients have done since.
fn sync(
    socket: &mut RulesSocket,
    mirror: &mut Mirror,
    (table, set): (&Table, &Set),
    now: u64,
) -> io::Result<mirror::Wanted> {
    let dumped = ask(socket, &kernel::ask_elements(table, set))?;
    let dumped = dumped.iter().flat_map(|body| kernel::dumped_elements(body)).collect();
    let wanted = mirror.sync(dumped, set, now);
    for key in &wanted.reset {
        let (number, body) = kernel::reset_element(table, set, key);
        let answer = socket.ask(number, &body)?;
        let all = answer.iter().flat_map(|body| kernel::dumped_elements(body));
        all.for_each(|element| mirror.was_reset(key, element, set, now));
    }
    Ok(wanted)
}

fn failed(error: &io::Error) -> NotAttached {
    NotAttached::Failed(format!("nf_tables: {error}"))
}

/// What the kernel says of a message.
fn not_attached(batch: &KernelBatch, refused: NotCommitted) -> NotAttached {
    let NotCommitted { message, error } = refused;
    let Some(subject) = message.and_then(|number| batch.subject(number)) else {
        return failed(&error);
    };
    let Subject { family, table, part } = subject;
    if part.is_none() && error.raw_os_error() == Some(libc::EEXIST) {
        return NotAttached::Failed(format!(
            "{subject} is in nf_tables already, and is not of this ruleset"
        ));
    }
    let said = error.to_string();
    let said = said.split(" (os error").next().unwrap_or_default().to_owned();
    match subject.chain() {
        Some((chain, rule)) => NotAttached::Cannot(CannotOffload {
            family: *family,
            table: table.clone(),
            part: OffloadPart::Chain { chain: chain.clone(), rule, reason: said },
            place: NF_TABLES.into(),
        }),
        None => NotAttached::Failed(format!("{NF_TABLES} cannot take {subject}: {said}")),
    }
}
