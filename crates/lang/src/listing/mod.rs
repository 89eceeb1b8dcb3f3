// SPDX-License-Identifier: Apache-2.0

//! What the `list` commands print: a ruleset to text, and to JSON ([`json`]).

pub mod json;
mod object;
mod plain;
mod set;
mod tables;

use penstock_ruleset::model::{Chain, Family, Flowtable, Generation, Object, Rule, Set, Table};
use penstock_syntax::ast::RuleBlock;
use penstock_syntax::ast::cmd::{ObjKind, Target};
use penstock_syntax::datatype::Format;
use penstock_syntax::names::Names;
use penstock_syntax::print::Printer;

use crate::delinearize::Delinearizer;

/// A generation, to be listed.
#[derive(Clone, Copy)]
pub struct Listing<'a> {
    /// What is listed.
    pub generation: &'a Generation,
    /// How.
    pub format: Format,
    /// Names that the system knows.
    pub names: &'a dyn Names,
    /// Time in nanoseconds since the epoch, for the remaining life of elements.
    pub now: u64,
}

/// What a listing asked for and is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The table.
    Table,
    /// The chain.
    Chain,
    /// The set, object or flowtable.
    Name,
}

/// Which sets a command means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    /// Without data.
    Sets,
    /// With data.
    Maps,
    /// Made by `meter` statements.
    Meters,
}

fn is_kind(set: &Set, kind: SetKind) -> bool {
    let meter = set.description.dynamic && set.anonymous;
    match kind {
        SetKind::Sets => !set.anonymous && set.data.is_none(),
        SetKind::Maps => !set.anonymous && set.data.is_some(),
        SetKind::Meters => meter,
    }
}

impl<'a> Listing<'a> {
    /// The answer to `list KIND …` (and what `reset` prints). `None` for kinds that have no listing
    /// of this form.
    pub fn list(&self, kind: ObjKind, target: &Target) -> Option<Result<String, Missing>> {
        let family = target.family;
        let table = self.target_table(target).ok_or(Missing::Table);
        let name = target.name.as_ref().map(|name| &name.text);
        let any = |_: &Table| true;
        Some(match kind {
            ObjKind::Ruleset => Ok(self.ruleset(family)),
            ObjKind::Tables => Ok(self.tables(family)),
            ObjKind::Table => table.map(|table| self.table(table)),
            ObjKind::Chains => self.list_all(target, &any, &|listing, table, printer| {
                for chain in table.chains.iter().filter(|c| !c.anonymous) {
                    listing.print_chain(table, chain, false, printer);
                }
            }),
            ObjKind::Chain => table.and_then(|table| {
                let name = target.chain.as_ref().map(|chain| &chain.text);
                let chain = table.chains.iter().find(|c| Some(&c.name) == name);
                chain.map(|chain| self.chain(table, chain)).ok_or(Missing::Chain)
            }),
            ObjKind::Sets => self.list_sets(target, SetKind::Sets),
            ObjKind::Maps => self.list_sets(target, SetKind::Maps),
            ObjKind::Meters => self.list_sets(target, SetKind::Meters),
            ObjKind::Set => self.list_set(target, SetKind::Sets),
            ObjKind::Map => self.list_set(target, SetKind::Maps),
            ObjKind::Meter => self.list_set(target, SetKind::Meters),
            ObjKind::Flowtables => self.list_all(target, &any, &|_, table, printer| {
                for flowtable in &table.flowtables {
                    tables::flowtable(printer, table.family, flowtable);
                }
            }),
            ObjKind::Flowtable => table.and_then(|table| {
                let flowtable = table.flowtables.iter().find(|f| Some(&f.name) == name);
                flowtable.map(|f| self.flowtable(table, f)).ok_or(Missing::Name)
            }),
            // Tables without objects of any kind are left out.
            ObjKind::Objects(kind) => self.list_all(
                target,
                &|table| !table.objects.is_empty(),
                &|listing, table, printer| {
                    for object in table.objects.iter().filter(|o| o.value.kind() == kind) {
                        object::object(printer, table.family, object, listing.now);
                    }
                },
            ),
            ObjKind::Object(kind) => table.and_then(|table| {
                let mut objects = table.objects.iter().filter(|o| o.value.kind() == kind);
                let object = objects.find(|o| Some(&o.name) == name);
                object.map(|object| self.object(table, object)).ok_or(Missing::Name)
            }),
            ObjKind::Rules => match &target.chain {
                Some(_) => return self.list(ObjKind::Chain, target),
                None if target.table.is_some() => return self.list(ObjKind::Table, target),
                None => Ok(self.ruleset(family)),
            },
            ObjKind::Rule | ObjKind::Elements | ObjKind::Hooks => return None,
        })
    }

    /// The table that a command names. Without a family it is of family ip.
    fn target_table(&self, target: &Target) -> Option<&'a Table> {
        let name = target.table.as_ref()?;
        self.table_named(target.family.unwrap_or(Family::Ip), &name.text)
    }

    /// `list sets`, `list maps`, `list meters`
    fn list_sets(&self, target: &Target, kind: SetKind) -> Result<String, Missing> {
        self.list_all(target, &|_| true, &|listing, table, printer| {
            for set in table.sets.iter().filter(|s| is_kind(s, kind)) {
                listing.print_set(table, set, printer);
            }
        })
    }

    /// `list set`, `list map`, `list meter`
    fn list_set(&self, target: &Target, kind: SetKind) -> Result<String, Missing> {
        let table = self.target_table(target).ok_or(Missing::Table)?;
        let name = target.name.as_ref().map(|name| &name.text);
        let set = table.sets.iter().find(|s| Some(&s.name) == name && is_kind(s, kind));
        set.map(|set| self.set(table, set)).ok_or(Missing::Name)
    }

    /// Everything of one kind: of the table that the command names, or of all tables of its family.
    fn list_all(
        &self,
        target: &Target,
        wanted: &dyn Fn(&Table) -> bool,
        text: &dyn Fn(&Self, &'a Table, &mut Printer<'a>),
    ) -> Result<String, Missing> {
        let only = self.target_table(target);
        if target.table.is_some() && only.is_none() {
            return Err(Missing::Table);
        }
        Ok(self.blocks(target.family, only, wanted, text))
    }

    /// A table by family and name.
    pub fn table_named(&self, family: Family, name: &str) -> Option<&'a Table> {
        self.generation.tables.iter().find(|t| t.family == family && &*t.name == name).map(|t| &**t)
    }

    fn printer(&self) -> Printer<'a> {
        Printer::new(self.format, self.names)
    }

    fn delinearizer(&self, table: &'a Table) -> Delinearizer<'a> {
        Delinearizer { table, now: self.now }
    }

    fn tables_of(&self, family: Option<Family>) -> impl Iterator<Item = &'a Table> {
        let generation = self.generation;
        generation.tables.iter().map(|t| &**t).filter(move |t| family.is_none_or(|f| t.family == f))
    }

    /// `list ruleset`
    pub fn ruleset(&self, family: Option<Family>) -> String {
        let mut printer = self.printer();
        for table in self.tables_of(family) {
            self.print_table(table, &mut printer);
        }
        printer.out
    }

    /// `list tables`
    pub fn tables(&self, family: Option<Family>) -> String {
        let mut printer = self.printer();
        for table in self.tables_of(family) {
            printer.write(format_args!("table {} {}\n", table.family.name(), table.name));
        }
        printer.out
    }

    /// `list table`
    pub fn table(&self, table: &'a Table) -> String {
        let mut printer = self.printer();
        self.print_table(table, &mut printer);
        printer.out
    }

    fn in_block(
        &self,
        table: &'a Table,
        printer: &mut Printer<'a>,
        body: impl FnOnce(&mut Printer<'a>),
    ) {
        printer.write(format_args!("table {} {} {{\n", table.family.name(), table.name));
        body(printer);
        printer.push("}\n");
    }

    /// Tables with only some of what is in them.
    fn blocks(
        &self,
        family: Option<Family>,
        only: Option<&Table>,
        wanted: &dyn Fn(&Table) -> bool,
        text: &dyn Fn(&Self, &'a Table, &mut Printer<'a>),
    ) -> String {
        let mut printer = self.printer();
        let chosen = |t: &&Table| wanted(t) && only.is_none_or(|only| std::ptr::eq(only, *t));
        for table in self.tables_of(family).filter(chosen) {
            self.in_block(table, &mut printer, |printer| text(self, table, printer));
        }
        printer.out
    }

    fn one(&self, table: &'a Table, body: impl FnOnce(&mut Printer<'a>)) -> String {
        let mut printer = self.printer();
        self.in_block(table, &mut printer, body);
        printer.out
    }

    /// `list chain`
    pub fn chain(&self, table: &'a Table, chain: &Chain) -> String {
        self.one(table, |printer| self.print_chain(table, chain, true, printer))
    }

    /// `list set` and `list map`
    pub fn set(&self, table: &'a Table, set: &Set) -> String {
        self.one(table, |printer| self.print_set(table, set, printer))
    }

    /// A set with only these elements: the answer to `get element`.
    pub fn set_with(
        &self,
        table: &'a Table,
        set: &Set,
        elements: &[penstock_syntax::ast::Expr],
    ) -> String {
        self.one(table, |printer| set::set(printer, &self.delinearizer(table), set, Some(elements)))
    }

    /// `list counter` and its kin
    pub fn object(&self, table: &'a Table, object: &Object) -> String {
        self.one(table, |printer| object::object(printer, table.family, object, self.now))
    }

    /// `list flowtable`
    pub fn flowtable(&self, table: &'a Table, flowtable: &Flowtable) -> String {
        self.one(table, |printer| tables::flowtable(printer, table.family, flowtable))
    }

    /// The statements of a rule with its comment, without handle: as traces and events have it.
    pub fn rule(&self, table: &'a Table, rule: &Rule) -> String {
        let mut printer = self.printer();
        printer.rule(&self.delinearizer(table).rule(rule));
        printer.out
    }

    fn print_set(&self, table: &'a Table, set: &Set, printer: &mut Printer<'a>) {
        set::set(printer, &self.delinearizer(table), set, None);
    }

    fn print_chain(&self, table: &'a Table, chain: &Chain, rules: bool, printer: &mut Printer<'a>) {
        tables::chain_start(printer, table.family, chain);
        if rules {
            let delinearizer = self.delinearizer(table);
            for rule in &chain.rules {
                printer.push("\t\t");
                let block: RuleBlock = delinearizer.rule(rule);
                printer.rule(&block);
                tables::handle_after(printer, rule.handle);
                printer.push("\n");
            }
        }
        printer.push("\t}\n");
    }

    fn print_table(&self, table: &'a Table, printer: &mut Printer<'a>) {
        tables::table_start(printer, table);
        let mut separator = tables::table_attributes(printer, table);
        for object in &table.objects {
            printer.push(separator);
            separator = "\n";
            object::object(printer, table.family, object, self.now);
        }
        for set in table.sets.iter().filter(|s| !s.anonymous) {
            printer.push(separator);
            separator = "\n";
            self.print_set(table, set, printer);
        }
        for flowtable in &table.flowtables {
            printer.push(separator);
            separator = "\n";
            tables::flowtable(printer, table.family, flowtable);
        }
        for chain in table.chains.iter().filter(|c| !c.anonymous) {
            printer.push(separator);
            separator = "\n";
            self.print_chain(table, chain, true, printer);
        }
        printer.push("}\n");
    }
}
