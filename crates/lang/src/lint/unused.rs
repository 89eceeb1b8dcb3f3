// SPDX-License-Identifier: Apache-2.0

//! Chains, sets and objects of a text that nothing in it refers to.

use std::collections::HashSet;
use std::sync::Arc;

use penstock_ruleset::model::{Family, Generation};
use penstock_syntax::ast::cmd::{ChainBlock, Name, New, ObjKind, ObjectBlock, SetBlock};
use penstock_syntax::ast::expr::SymbolKind;
use penstock_syntax::ast::{Cmd, CmdKind, Expr, ExprKind, RuleBlock, Stmt, StmtKind, walk};
use penstock_syntax::diag::Diagnostic;
use penstock_syntax::objects;

type Key = (Family, Arc<str>);

/// What is made, and what is referred to.
#[derive(Default)]
struct Names {
    made: Vec<(Key, Kind, Name)>,
    /// Chains with a hook.
    base: HashSet<(Key, Arc<str>)>,
    chains: HashSet<(Key, Arc<str>)>,
    sets: HashSet<(Key, Arc<str>)>,
    /// Names that may be objects.
    objects: HashSet<(Key, Arc<str>)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Chain,
    Set,
    Map,
    Object(&'static str),
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Chain => "chain",
            Kind::Set => "set",
            Kind::Map => "map",
            Kind::Object(word) => word,
        }
    }
}

pub(super) fn find(cmds: &[Cmd], generation: &Generation, out: &mut Vec<Diagnostic>) {
    let mut names = Names::default();
    cmds.iter().for_each(|cmd| names.read(cmd));
    let anew = cmds.iter().any(|c| matches!(c.kind, CmdKind::Flush(ObjKind::Ruleset)));
    // Rules that are there already may refer to what a text adds to their table.
    let known =
        |key: &Key| !anew && generation.tables.iter().any(|t| t.family == key.0 && t.name == key.1);
    let mut told = HashSet::new();
    for (key, kind, name) in &names.made {
        let id = (key.clone(), name.text.clone());
        let used = match kind {
            Kind::Chain => names.base.contains(&id) || names.chains.contains(&id),
            Kind::Set | Kind::Map => names.sets.contains(&id),
            Kind::Object(_) => names.objects.contains(&id),
        };
        if used || known(key) || !told.insert((id, kind.word())) {
            continue;
        }
        let what = if *kind == Kind::Chain { "never jumped to" } else { "not used" };
        let message = format!("{} ‘{}’ is {what}", kind.word(), name.text);
        out.push(Diagnostic::warning(name.loc, message));
    }
}

impl Names {
    fn read(&mut self, cmd: &Cmd) {
        let Some(table) = &cmd.target.table else { return };
        let key = (cmd.target.family.unwrap_or(Family::Ip), table.text.clone());
        let (CmdKind::Add(new)
        | CmdKind::Create(new)
        | CmdKind::Insert(new)
        | CmdKind::Replace(new)) = &cmd.kind
        else {
            return;
        };
        let named = cmd.target.name.as_ref();
        match new {
            New::Table(block) => {
                block.chains.iter().for_each(|(name, chain)| self.chain(&key, name, chain));
                block.sets.iter().for_each(|(name, set)| self.set(&key, name, set));
                block.objects.iter().for_each(|(name, object)| self.object(&key, name, object));
            }
            New::Chain(block) => {
                if let Some(name) = &cmd.target.chain {
                    self.chain(&key, name, block);
                }
            }
            New::Rule(rule) => self.rule(&key, rule),
            New::Set(block) => named.into_iter().for_each(|name| self.set(&key, name, block)),
            New::Elements(elements) => self.exprs(&key, elements),
            New::Object(object) => {
                named.into_iter().for_each(|name| self.object(&key, name, object))
            }
            New::Flowtable(_) => {}
        }
    }

    fn chain(&mut self, key: &Key, name: &Name, block: &ChainBlock) {
        if block.hook.is_some() {
            self.base.insert((key.clone(), name.text.clone()));
        }
        self.made.push((key.clone(), Kind::Chain, name.clone()));
        block.rules.iter().for_each(|rule| self.rule(key, rule));
    }

    fn set(&mut self, key: &Key, name: &Name, block: &SetBlock) {
        let kind = if block.map { Kind::Map } else { Kind::Set };
        self.made.push((key.clone(), kind, name.clone()));
        block.elements.iter().for_each(|e| self.exprs(key, e));
    }

    fn object(&mut self, key: &Key, name: &Name, block: &ObjectBlock) {
        self.made.push((key.clone(), Kind::Object(objects::name(block.kind)), name.clone()));
    }

    fn rule(&mut self, key: &Key, rule: &RuleBlock) {
        rule.stmts.iter().for_each(|s| self.objects_of(key, s));
        rule.rules.iter().for_each(|r| self.rule(key, r));
        walk::rule(rule, &mut |e| self.note(key, e));
    }

    /// Names of objects that a statement refers to.
    fn objects_of(&mut self, key: &Key, stmt: &Stmt) {
        if let StmtKind::ObjRef { expr, .. } = &stmt.kind {
            walk::expr(expr, &mut |e| self.word(key, e));
        } else if let StmtKind::Chain { block, .. } = &stmt.kind {
            block.rules.iter().for_each(|rule| self.rule(key, rule));
        }
    }

    fn exprs(&mut self, key: &Key, e: &Expr) {
        walk::expr(e, &mut |e| self.note(key, e));
    }

    fn word(&mut self, key: &Key, e: &Expr) {
        if let Some(text) = e.text() {
            self.objects.insert((key.clone(), text.clone()));
        }
    }

    fn note(&mut self, key: &Key, e: &Expr) {
        if let Some(text) = e.chain().and_then(Expr::text) {
            self.chains.insert((key.clone(), text.clone()));
        }
        if let ExprKind::Symbol { kind: SymbolKind::Set, text } | ExprKind::SetRef { set: text } =
            &e.kind
        {
            self.sets.insert((key.clone(), text.clone()));
        } else if let Some((_, data)) = e.mapping() {
            self.word(key, data);
        }
    }
}
