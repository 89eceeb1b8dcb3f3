// SPDX-License-Identifier: Apache-2.0

//! What a command speaks of must be there; if it is not, something alike could have been meant.

use std::sync::Arc;

use penstock_syntax::ast::cmd::{Name, ObjKind, Target};
use penstock_syntax::diag::{Diagnostic, most_similar, most_similar_of};
use penstock_syntax::source::Loc;

use crate::cache::TableInfo;
use crate::eval::{Eval, Result, error};

impl Eval<'_, '_> {
    /// A rule can be put next to those that were there when the run began.
    pub(super) fn check_position(&mut self, target: &Target) -> Result {
        if self.ctx.has_positions {
            self.check_target(ObjKind::Chain, target)?;
        }
        let (Some(position), Some(table), Some(chain)) =
            (&target.position, &target.table, &target.chain)
        else {
            return Ok(());
        };
        let before = &self.ctx.before;
        let table = before.tables.iter().find(|t| t.family == self.family && t.name == table.text);
        let chain = table.and_then(|t| t.chains.iter().find(|c| c.name == chain.text));
        match chain {
            Some(chain) if chain.rules.iter().all(|r| r.handle != position.value) => {
                error(position.loc, "Could not process rule: No such file or directory")
            }
            _ => Ok(()),
        }
    }

    /// The table that something is added to.
    pub(super) fn check_table(&self, target: &Target) -> Result {
        match &target.table {
            Some(table) if self.ctx.cache.table(self.family, &table.text).is_none() => {
                Err(self.table_not_found(table))
            }
            _ => Ok(()),
        }
    }

    /// What a command speaks of must be there; if not, something like it in any table could have
    /// been meant.
    pub(super) fn check_target(&mut self, object: ObjKind, target: &Target) -> Result {
        let Some(table) = &target.table else { return Ok(()) };
        let Some(info) = self.ctx.cache.table(self.family, &table.text) else {
            return Err(self.table_not_found(table));
        };
        let Some(name) = (if object == ObjKind::Chain { &target.chain } else { &target.name })
        else {
            return Ok(());
        };
        let there = match object {
            ObjKind::Chain => info.chains.contains_key(&name.text),
            ObjKind::Set | ObjKind::Map | ObjKind::Meter => match info.sets.get(&name.text) {
                Some(set)
                    if object == ObjKind::Meter || set.is_map() == (object == ObjKind::Map) =>
                {
                    true
                }
                Some(_) => return Err(absent(name.loc, None)),
                None => info.untyped.contains_key(&name.text),
            },
            ObjKind::Flowtable => info.flowtables.contains_key(&name.text),
            ObjKind::Object(kind) => info.objects.contains_key(&(kind, name.text.clone())),
            _ => true,
        };
        if there {
            return Ok(());
        }
        let near = self.near(&name.text, |info| match object {
            ObjKind::Chain => info.chains.keys().map(|n| ("chain", n)).collect(),
            ObjKind::Flowtable => info.flowtables.keys().map(|n| ("flowtable", n)).collect(),
            ObjKind::Object(_) => info.objects.keys().map(|(_, n)| ("obj", n)).collect(),
            _ => sets_by_name(info),
        });
        Err(absent(name.loc, near))
    }

    /// That a set is not there, and one of any table that could have been meant.
    pub(crate) fn set_not_found(&self, name: &str, loc: Loc) -> Box<Diagnostic> {
        absent(loc, self.near(name, sets_by_name))
    }

    /// The first thing of that name, or else the one most like it, of what tables have.
    fn near<'i>(
        &'i self,
        name: &str,
        names: impl Fn(&'i TableInfo) -> Vec<(&'static str, &'i Arc<str>)>,
    ) -> Option<String> {
        let tables = self.ctx.cache.tables();
        let all: Vec<_> = tables
            .flat_map(|(family, table, info)| {
                names(info).into_iter().map(move |found| (family, table, found))
            })
            .collect();
        let (family, table, (word, found)) =
            most_similar_of(name, all, |(_, _, (_, found))| &***found)?;
        Some(format!("{word} ‘{found}’ in table {} ‘{table}’", family.name()))
    }

    /// That a table is not there, and one that could have been meant.
    pub(crate) fn table_not_found(&self, table: &Name) -> Box<Diagnostic> {
        let near = nearest(&table.text, self.ctx.cache.tables().map(|(_, name, _)| name));
        let family = |near: &Arc<str>| {
            let found = self.ctx.cache.tables().find(|(_, name, _)| *name == near);
            found.map_or("", |(family, _, _)| family.name())
        };
        absent(table.loc, near.map(|n| format!("table ‘{n}’ in family {}", family(&n))))
    }
}

fn absent(loc: Loc, near: Option<String>) -> Box<Diagnostic> {
    let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    Box::new(Diagnostic::error(loc, format!("No such file or directory{near}")))
}

fn sets_by_name(info: &TableInfo) -> Vec<(&'static str, &Arc<str>)> {
    let sets = info.sets.values().filter(|set| !set.anonymous).map(|set| (set.word(), &set.name));
    sets.chain(info.untyped.keys().map(|name| ("set", name))).collect()
}

/// A name that could have been meant.
fn nearest<'n>(wanted: &str, names: impl Iterator<Item = &'n Arc<str>>) -> Option<Arc<str>> {
    most_similar(wanted, names.map(|n| &**n)).map(Arc::from)
}
