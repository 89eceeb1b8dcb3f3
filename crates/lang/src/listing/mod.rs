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
    /// Time in nanoseconds since the epoch, from which the rest of an element's life is told.
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
        let table = || {
            let name = target.table.as_ref()?;
            self.table_named(family.unwrap_or(Family::Ip), &name.text)
        };
        let name = |place: &Option<penstock_syntax::ast::cmd::Name>| {
            place.as_ref().map(|n| n.text.clone())
        };
        let in_table = |found: fn(&Self, &'a Table, &str) -> Option<String>, missing, place| {
            let Some(table) = table() else { return Err(Missing::Table) };
            let name = name(place).unwrap_or_else(|| "".into());
            found(self, table, &name).ok_or(missing)
        };
        // `list sets` and the like take a table too.
        let scoped =
            |text: &dyn Fn(&Self, &'a Table, &mut Printer<'a>)| match (&target.table, table()) {
                (Some(_), None) => Err(Missing::Table),
                (_, only) => Ok(self.blocks(family, only, &|_| true, text)),
            };
        Some(match kind {
            ObjKind::Ruleset => Ok(self.ruleset(family)),
            ObjKind::Tables => Ok(self.tables(family)),
            ObjKind::Table => match table() {
                Some(table) => Ok(self.table(table)),
                None => Err(Missing::Table),
            },
            ObjKind::Chains => scoped(&|listing, table, printer| {
                for chain in table.chains.iter().filter(|c| !c.anonymous) {
                    listing.print_chain(table, chain, false, printer);
                }
            }),
            ObjKind::Chain => in_table(
                |listing, table, name| {
                    Some(listing.chain(table, table.chains.iter().find(|c| &*c.name == name)?))
                },
                Missing::Chain,
                &target.chain,
            ),
            ObjKind::Sets | ObjKind::Maps | ObjKind::Meters => {
                let kind = match kind {
                    ObjKind::Sets => SetKind::Sets,
                    ObjKind::Maps => SetKind::Maps,
                    _ => SetKind::Meters,
                };
                scoped(&|listing, table, printer| {
                    for set in table.sets.iter().filter(|s| is_kind(s, kind)) {
                        listing.print_set(table, set, printer);
                    }
                })
            }
            ObjKind::Set | ObjKind::Map | ObjKind::Meter => {
                let wanted = match kind {
                    ObjKind::Set => SetKind::Sets,
                    ObjKind::Map => SetKind::Maps,
                    _ => SetKind::Meters,
                };
                let Some(table) = table() else { return Some(Err(Missing::Table)) };
                let name = name(&target.name);
                match table
                    .sets
                    .iter()
                    .find(|s| Some(&s.name) == name.as_ref() && is_kind(s, wanted))
                {
                    Some(set) => Ok(self.set(table, set)),
                    None => Err(Missing::Name),
                }
            }
            ObjKind::Flowtables => scoped(&|_, table, printer| {
                for flowtable in &table.flowtables {
                    tables::flowtable(printer, table.family, flowtable);
                }
            }),
            ObjKind::Flowtable => in_table(
                |listing, table, name| {
                    let flowtable = table.flowtables.iter().find(|f| &*f.name == name)?;
                    Some(listing.flowtable(table, flowtable))
                },
                Missing::Name,
                &target.name,
            ),
            ObjKind::Objects(kind) => match (&target.table, table()) {
                (Some(_), None) => Err(Missing::Table),
                // Tables without objects of any kind are left out.
                (_, only) => Ok(self.blocks(
                    family,
                    only,
                    &|table| !table.objects.is_empty(),
                    &|listing, table, printer| {
                        for object in table.objects.iter().filter(|o| o.value.kind() == kind) {
                            object::object(printer, table.family, object, listing.now);
                        }
                    },
                )),
            },
            ObjKind::Object(kind) => {
                let Some(table) = table() else { return Some(Err(Missing::Table)) };
                let name = name(&target.name);
                let is_it = |o: &&std::sync::Arc<Object>| {
                    Some(&o.name) == name.as_ref() && o.value.kind() == kind
                };
                match table.objects.iter().find(is_it) {
                    Some(object) => Ok(self.object(table, object)),
                    None => Err(Missing::Name),
                }
            }
            ObjKind::Rules => match &target.chain {
                Some(_) => return self.list(ObjKind::Chain, target),
                None if target.table.is_some() => return self.list(ObjKind::Table, target),
                None => Ok(self.ruleset(family)),
            },
            ObjKind::Rule | ObjKind::Elements | ObjKind::Hooks => return None,
        })
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
