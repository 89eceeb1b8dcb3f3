// SPDX-License-Identifier: Apache-2.0

//! What was added, as `nft -e` and `nft monitor` print it: one line each.

use std::sync::Arc;

use penstock_program::expr::ObjectType;
use penstock_ruleset::change::{Mode, Position};
use penstock_ruleset::model::{Chain, ElementValue, Family, Generation, Object, Table};
use penstock_ruleset::{Change, Transaction};
use penstock_sets::Element;
use penstock_syntax::json::{event, to_text, with_handles};
use penstock_syntax::objects;
use penstock_syntax::print::Printer;
use serde_json::Value;

use super::Session;
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
            if let Some(line) = self.line(&listing, generation, item) {
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
                let element = |asked: penstock_sets::Element<_>| {
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
            // Only what comes is echoed.
            Change::RenameChain { .. }
            | Change::DeleteTable { .. }
            | Change::DeleteChain { .. }
            | Change::DeleteRule { .. }
            | Change::DeleteSet { .. }
            | Change::DeleteElements { .. }
            | Change::DeleteObject { .. }
            | Change::DeleteFlowtable { .. } => None,
        };
        event.into_iter().collect()
    }

    fn handle(&self, handle: u64) -> String {
        if self.options.format.handles { format!(" # handle {handle}") } else { String::new() }
    }

    fn line(&self, listing: &Listing<'_>, generation: &Generation, item: &Done) -> Option<String> {
        let verb = |mode: &Mode| if *mode == Mode::Create { "create" } else { "add" };
        let find = |family, name: &str| {
            generation.tables.iter().find(|t| t.family == family && &*t.name == name).map(|t| &**t)
        };
        match &item.change {
            Change::AddTable { family, name, mode, .. } => {
                let table = find(*family, name)?;
                let handle = self.handle(table.handle);
                Some(format!("{} table {} {name}{handle}", verb(mode), family.name()))
            }
            Change::AddChain { family, table, mode, chain } => {
                let table = find(*family, table)?;
                let name = item.name.as_ref().unwrap_or(&chain.name);
                let chain = table.chains.iter().find(|c| c.name == *name)?;
                let mut bare = (**chain).clone();
                bare.rules.clear();
                bare.userdata = Default::default();
                let body = one_line(&listing.chain(table, &bare), "; ", ";");
                let body =
                    if chain.base.is_some() { format!(" {{ {body} }}") } else { String::new() };
                let handle = self.handle(chain.handle);
                Some(format!("{} chain {}{body}{handle}", verb(mode), named(table, &chain.name)))
            }
            Change::AddRule { family, table, chain, position, .. } => {
                let table = find(*family, table)?;
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
                let text = listing.rule(table, &rule);
                let handle = self.handle(rule.handle);
                Some(format!("{verb} rule {}{at} {text}{handle}", named(table, &chain.name)))
            }
            Change::AddSet { family, table, mode, set } => {
                let table = find(*family, table)?;
                let name = item.name.as_ref().unwrap_or(&set.name);
                let set = table.sets.iter().find(|s| s.name == *name && !s.anonymous)?;
                let kind = if set.data.is_some() { "map" } else { "set" };
                let body = one_line(&listing.set_with(table, set, &[]), "; ", ";");
                let handle = self.handle(set.handle);
                Some(format!(
                    "{} {kind} {} {{{handle} {body} }} ",
                    verb(mode),
                    named(table, &set.name)
                ))
            }
            Change::AddElements { family, table, set, elements, mode } => {
                let table = find(*family, table)?;
                let set = table.sets.iter().find(|s| s.name == *set && !s.anonymous)?;
                let delinearizer = Delinearizer { table, now: listing.now };
                let mut lines = Vec::new();
                let all = set.elements();
                for element in elements.iter() {
                    let there = all.find(&element.key, element.key_end.as_deref(), listing.now);
                    let Some(there) = there else { continue };
                    let Some(expr) = delinearizer.element(set, there) else { continue };
                    let mut printer = Printer::new(listing.format, self.names);
                    printer.expr(&expr);
                    let at = named(table, &set.name);
                    lines.push(format!("{} element {at} {{ {} }}", verb(mode), printer.out));
                }
                (!lines.is_empty()).then(|| lines.join("\n"))
            }
            Change::AddObject { family, table, name, value, mode, .. } => {
                let table = find(*family, table)?;
                let object = table
                    .objects
                    .iter()
                    .find(|o| o.name == *name && o.value.kind() == value.kind())?;
                let kind = objects::name(value.kind());
                // Those of connection tracking end each of their lines.
                let ends = matches!(
                    value.kind(),
                    ObjectType::CtHelper
                        | ObjectType::CtTimeout
                        | ObjectType::CtExpect
                        | ObjectType::Tunnel
                );
                let body =
                    one_line(&listing.object(table, object), "; ", if ends { ";" } else { "" });
                let handle = self.handle(object.handle);
                Some(format!("{} {kind} {} {{{handle} {body} }} ", verb(mode), named(table, name)))
            }
            Change::AddFlowtable { family, table, flowtable, mode } => {
                let table = find(*family, table)?;
                let flowtable = table.flowtables.iter().find(|f| f.name == flowtable.name)?;
                let body = one_line(&listing.flowtable(table, flowtable), "; ", ";");
                let handle = self.handle(flowtable.handle);
                Some(format!(
                    "{} flowtable {} {{ {body} }}{handle}",
                    verb(mode),
                    named(table, &flowtable.name)
                ))
            }
            // Only what comes is echoed.
            Change::RenameChain { .. }
            | Change::DeleteTable { .. }
            | Change::DeleteChain { .. }
            | Change::DeleteRule { .. }
            | Change::DeleteSet { .. }
            | Change::DeleteElements { .. }
            | Change::DeleteObject { .. }
            | Change::DeleteFlowtable { .. } => None,
        }
    }
}

fn named(table: &Table, name: &str) -> String {
    format!("{} {} {name}", table.family.name(), table.name)
}

/// What stands between the inner braces of a listing, on one line.
pub(super) fn one_line(listing: &str, between: &str, end: &str) -> String {
    let (mut joined, mut blocks) = (String::new(), 0);
    for line in listing.lines().skip(2).map(|line| line.trim().trim_end_matches(';')) {
        // The braces of what stands in it stay, its own do not.
        let closes = line == "}";
        if line.is_empty() || closes && blocks == 0 {
            continue;
        }
        if !joined.is_empty() {
            joined += if joined.ends_with('{') { " " } else { between };
        }
        joined += line;
        blocks += i32::from(line.ends_with(" {"));
        blocks -= i32::from(closes);
    }
    if joined.is_empty() { joined } else { joined + end }
}
