// SPDX-License-Identifier: Apache-2.0

//! What was added, as `nft -e` and `nft monitor` print it: one line each.

use std::sync::Arc;

use penstock_program::expr::ObjectType;
use penstock_ruleset::change::{Mode, Position};
use penstock_ruleset::model::{Chain, ElementValue, Family, Generation, Object};
use penstock_ruleset::{Change, Transaction};
use penstock_sets::Element;
use penstock_syntax::json::{event, to_text, with_handles};
use penstock_syntax::print::Printer;
use serde_json::Value;

use super::Session;
use super::lines::{Lines, named};
use super::step::Done;
use crate::delinearize::Delinearizer;
use crate::listing::Listing;
use crate::listing::json::Tables;

/// The generation with chains in braces as chains like any other: nft echoes them and their rules
/// by name.
fn with_chains_named(generation: &Generation) -> Generation {
    let mut generation = generation.clone();
    for table in generation.tables.iter_mut().filter(|t| t.chains.iter().any(|c| c.anonymous)) {
        for chain in Arc::make_mut(table).chains.iter_mut().filter(|c| c.anonymous) {
            Arc::make_mut(chain).anonymous = false;
        }
    }
    generation
}

/// Takes from the changes the elements that a set had before, and still had when it was given them
/// again.
pub(super) fn only_new(done: &mut [Done], before: &Generation, now: u64) {
    /// Elements of a set by its family, table and name; without a list all.
    type Deleted = (Family, Arc<str>, Arc<str>, Option<Vec<Element<ElementValue>>>);
    let mut deleted: Vec<Deleted> = Vec::new();
    for Done { change, handle, .. } in done {
        match change {
            Change::DeleteElements { family, table, set, elements, .. } => {
                deleted.push((*family, table.clone(), set.clone(), elements.clone()));
            }
            Change::AddElements { family, table, set, elements, .. } => {
                let table_before =
                    before.tables.iter().find(|t| t.family == *family && t.name == *table);
                let mut sets = table_before.iter().flat_map(|t| &t.sets);
                let Some(held) = sets.find(|s| Some(s.handle) == *handle).map(|s| s.elements())
                else {
                    continue;
                };
                let is_deleted = |element: &Element<ElementValue>| {
                    let mut of_set = deleted
                        .iter()
                        .filter(|(f, t, s, _)| (f, t, s) == (&*family, &*table, &*set));
                    let same =
                        |e: &Element<_>| e.key == element.key && e.key_end == element.key_end;
                    of_set.any(|(.., some)| some.as_ref().is_none_or(|some| some.iter().any(same)))
                };
                let there = |e: &Element<ElementValue>| {
                    held.find(&e.key, e.key_end.as_deref(), now).is_some()
                };
                *elements = elements.iter().filter(|e| !there(e) || is_deleted(e)).collect();
            }
            _ => {}
        }
    }
}

impl Session<'_> {
    /// What a transaction added, as it will be in force: a line for each, or as JSON, where the
    /// commands that came as JSON (`document`) are given back with handles.
    pub(super) fn echo(
        &self,
        transaction: &Transaction,
        done: &[Done],
        document: Option<&str>,
        now: u64,
    ) -> String {
        let generation = transaction.working();
        if let Some(document) = document {
            let handles = done.iter().filter_map(|d| Some((d.places.whole, d.handle?)));
            return to_text(&with_handles(document, handles));
        }
        let mut format = self.options.format;
        format.handles = false;
        format.backends = false;
        let listing = Listing { generation, format, names: self.names, now };
        if self.options.json {
            let mut events = Vec::new();
            for item in done {
                events.extend(self.events(&listing, item));
            }
            return to_text(&serde_json::json!({ "nftables": events })) + "\n";
        }
        let generation = &with_chains_named(generation);
        let listing = Listing { generation, ..listing };
        let mut out = String::new();
        for item in done {
            if let Some(line) = self.line(&listing, item) {
                out.push_str(&line);
                out.push('\n');
            }
        }
        out
    }

    /// What was added by one change, in JSON: an object for each element.
    fn events(&self, listing: &Listing<'_>, item: &Done) -> Vec<Value> {
        let verb = |mode: &Mode| if *mode == Mode::Create { "create" } else { "add" };
        let find = |family, name: &str| {
            let table = listing.table_named(family, name)?;
            Some((table, Tables { listing, table }))
        };
        let event = match &item.change {
            Change::AddTable { family, name, mode, .. } => {
                find(*family, name).map(|(_, t)| event(verb(mode), t.header()))
            }
            Change::AddChain { family, table, mode, chain } => {
                find(*family, table).and_then(|(table, t)| {
                    let chain =
                        table.chains.iter().find(|c| c.name == chain.name && !c.anonymous)?;
                    Some(event(verb(mode), t.chain(chain)))
                })
            }
            Change::AddRule { family, table, chain, position, .. } => find(*family, table)
                .and_then(|(table, t)| {
                    let chain = table.chains.iter().find(|c| c.name == *chain && !c.anonymous)?;
                    let rule = chain.rules.iter().find(|r| Some(r.handle) == item.handle)?;
                    let verb = match position {
                        Position::After(_) => "add",
                        Position::Before(_) => "insert",
                        Position::Replace(_) => "replace",
                    };
                    Some(event(verb, t.rule(chain, rule)))
                }),
            Change::AddSet { family, table, mode, set } => {
                find(*family, table).and_then(|(table, t)| {
                    let name = item.name.as_ref().unwrap_or(&set.name);
                    let set = table.sets.iter().find(|s| s.name == *name && !s.anonymous)?;
                    Some(event(verb(mode), t.set(set, Vec::new())))
                })
            }
            Change::AddElements { family, table, set, elements, mode } => {
                let Some((table, t)) = find(*family, table) else { return Vec::new() };
                let Some(set) = table.sets.iter().find(|s| s.name == *set && !s.anonymous) else {
                    return Vec::new();
                };
                let delinearizer = Delinearizer { table, now: listing.now };
                let all = set.elements();
                let element = |asked: Element<_>| {
                    let there = all.find(&asked.key, asked.key_end.as_deref(), listing.now)?;
                    let element = delinearizer.element(set, there)?;
                    Some(event(verb(mode), t.some_elements(set, &[element])))
                };
                return elements.iter().filter_map(element).collect();
            }
            Change::AddObject { family, table, name, value, mode, .. } => find(*family, table)
                .and_then(|(table, t)| {
                    let is_it =
                        |o: &&Arc<Object>| o.name == *name && o.value.kind() == value.kind();
                    let object = table.objects.iter().find(is_it)?;
                    Some(event(verb(mode), t.object(object)))
                }),
            Change::AddFlowtable { family, table, flowtable, mode } => find(*family, table)
                .and_then(|(table, t)| {
                    let flowtable = table.flowtables.iter().find(|f| f.name == flowtable.name)?;
                    Some(event(verb(mode), t.flowtable(flowtable)))
                }),
            // Only additions are echoed.
            Change::RenameChain { .. }
            | Change::DeleteTable { .. }
            | Change::DeleteChain { .. }
            | Change::DeleteRule { .. }
            | Change::DeleteSet { .. }
            | Change::DeleteElements { .. }
            | Change::DeleteObject { .. }
            | Change::DeleteFlowtable { .. }
            | Change::Sender { .. }
            | Change::Closed { .. }
            | Change::Global(_)
            | Change::Gap { .. } => None,
        };
        event.into_iter().collect()
    }

    fn line(&self, listing: &Listing<'_>, item: &Done) -> Option<String> {
        let lines = Lines { listing: *listing, handles: self.options.format.handles };
        let verb = |mode: &Mode| if *mode == Mode::Create { "create" } else { "add" };
        let (verb, text) = match &item.change {
            Change::AddTable { family, name, mode, .. } => {
                (verb(mode), lines.table(listing.table_named(*family, name)?))
            }
            Change::AddChain { family, table, mode, chain } => {
                let table = listing.table_named(*family, table)?;
                let name = item.name.as_ref().unwrap_or(&chain.name);
                let chain = table.chains.iter().find(|c| c.name == *name)?;
                (verb(mode), lines.chain(table, chain))
            }
            Change::AddRule { family, table, chain, position, .. } => {
                let table = listing.table_named(*family, table)?;
                // A chain in braces has got another name than the change says.
                let find_rule = |c: &'_ Arc<Chain>| {
                    c.rules.iter().find(|r| Some(r.handle) == item.handle).cloned()
                };
                let mut chains =
                    table.chains.iter().filter(|c| c.name == *chain).chain(&table.chains);
                let (chain, rule) = chains.find_map(|c| Some((c, find_rule(c)?)))?;
                let verb = match position {
                    Position::After(_) => "add",
                    Position::Before(_) => "insert",
                    Position::Replace(_) => "replace",
                };
                let at = match position {
                    Position::Replace(handle)
                    | Position::After(Some(handle))
                    | Position::Before(Some(handle)) => format!(" handle {handle}"),
                    Position::After(None) | Position::Before(None) => String::new(),
                };
                (verb, lines.rule(table, chain, &at, &rule))
            }
            Change::AddSet { family, table, mode, set } => {
                let table = listing.table_named(*family, table)?;
                let name = item.name.as_ref().unwrap_or(&set.name);
                let set = table.sets.iter().find(|s| s.name == *name && !s.anonymous)?;
                (verb(mode), lines.set(table, set))
            }
            Change::AddElements { family, table, set, elements, mode } => {
                let table = listing.table_named(*family, table)?;
                let set = table.sets.iter().find(|s| s.name == *set && !s.anonymous)?;
                let delinearizer = Delinearizer { table, now: listing.now };
                let all = set.elements();
                let line = |asked: Element<_>| {
                    let there = all.find(&asked.key, asked.key_end.as_deref(), listing.now)?;
                    let mut printer = Printer::new(listing.format, self.names);
                    printer.expr(&delinearizer.element(set, there)?);
                    let at = named(table, &set.name);
                    Some(format!("{} element {at} {{ {} }}", verb(mode), printer.out))
                };
                let lines: Vec<String> = elements.iter().filter_map(line).collect();
                return (!lines.is_empty()).then(|| lines.join("\n"));
            }
            Change::AddObject { family, table, name, value, mode, .. } => {
                let table = listing.table_named(*family, table)?;
                let is_it = |o: &&Arc<Object>| o.name == *name && o.value.kind() == value.kind();
                let object = table.objects.iter().find(is_it)?;
                // Those of connection tracking end each of their lines.
                let end = match value.kind() {
                    ObjectType::CtHelper
                    | ObjectType::CtTimeout
                    | ObjectType::CtExpect
                    | ObjectType::Tunnel => ";",
                    _ => "",
                };
                (verb(mode), lines.object(table, object, end))
            }
            Change::AddFlowtable { family, table, flowtable, mode } => {
                let table = listing.table_named(*family, table)?;
                let flowtable = table.flowtables.iter().find(|f| f.name == flowtable.name)?;
                (verb(mode), lines.flowtable(table, flowtable))
            }
            // Only additions are echoed.
            Change::RenameChain { .. }
            | Change::DeleteTable { .. }
            | Change::DeleteChain { .. }
            | Change::DeleteRule { .. }
            | Change::DeleteSet { .. }
            | Change::DeleteElements { .. }
            | Change::DeleteObject { .. }
            | Change::DeleteFlowtable { .. }
            | Change::Sender { .. }
            | Change::Closed { .. }
            | Change::Global(_)
            | Change::Gap { .. } => return None,
        };
        Some(format!("{verb} {text}"))
    }
}
