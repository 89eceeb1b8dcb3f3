// SPDX-License-Identifier: Apache-2.0

//! Chains that leave packets and connections as they are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use penstock_ruleset::model::{Family, Generation};
use penstock_syntax::ast::cmd::{New, ObjKind};
use penstock_syntax::ast::expr::VerdictExpr;
use penstock_syntax::ast::stmt::Effect;
use penstock_syntax::ast::{Cmd, CmdKind, Expr, ExprKind, RuleBlock, Stmt, StmtKind};

type Key = (Family, Arc<str>, Arc<str>);

/// What is known of chains.
#[derive(Default)]
struct Chain {
    /// A rule changes something, or may do so.
    changes: bool,
    /// Where its rules send packets.
    next: Vec<Arc<str>>,
}

/// All chains that commands add rules to, and those that the ruleset has.
pub(super) struct Quiet {
    chains: HashMap<Key, Chain>,
}

/// Chains of one table.
#[derive(Clone, Copy)]
pub(super) struct QuietChains<'q> {
    all: &'q Quiet,
    family: Family,
    table: &'q Arc<str>,
}

impl Quiet {
    /// Of these commands, on top of a ruleset.
    pub fn new(cmds: &[Cmd], generation: &Generation) -> Self {
        let mut chains: HashMap<Key, Chain> = HashMap::new();
        let anew = cmds.iter().any(|c| matches!(c.kind, CmdKind::Flush(ObjKind::Ruleset)));
        if !anew {
            for table in &generation.tables {
                for chain in table.chains.iter().filter(|c| !c.rules.is_empty()) {
                    let key = (table.family, table.name.clone(), chain.name.clone());
                    chains.entry(key).or_default().changes = true;
                }
            }
        }
        for cmd in cmds {
            let family = cmd.target.family.unwrap_or(Family::Ip);
            let Some(table) = &cmd.target.table else { continue };
            let mut note = |chain: &Arc<str>, rules: &[RuleBlock]| {
                let entry = chains.entry((family, table.text.clone(), chain.clone())).or_default();
                rules.iter().flat_map(|r| &r.stmts).for_each(|s| entry.note(s));
            };
            match (&cmd.kind, &cmd.target.chain) {
                (CmdKind::Add(New::Table(block)) | CmdKind::Create(New::Table(block)), _) => {
                    block.chains.iter().for_each(|(name, chain)| note(&name.text, &chain.rules));
                }
                (
                    CmdKind::Add(New::Chain(block)) | CmdKind::Create(New::Chain(block)),
                    Some(chain),
                ) => {
                    note(&chain.text, &block.rules);
                }
                (
                    CmdKind::Add(New::Rule(rule))
                    | CmdKind::Create(New::Rule(rule))
                    | CmdKind::Insert(New::Rule(rule))
                    | CmdKind::Replace(New::Rule(rule)),
                    Some(chain),
                ) => note(&chain.text, std::slice::from_ref(rule)),
                _ => {}
            }
        }
        Quiet { chains }
    }

    /// Those of a table.
    pub fn of<'q>(&'q self, family: Family, table: &'q Arc<str>) -> QuietChains<'q> {
        QuietChains { all: self, family, table }
    }
}

impl QuietChains<'_> {
    /// Whether neither this chain nor any it leads to changes a packet.
    pub fn is_quiet(&self, chain: &str) -> bool {
        let mut seen = HashSet::new();
        let mut open: Vec<Arc<str>> = vec![chain.into()];
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            if let Some(found) = self.all.chains.get(&(self.family, self.table.clone(), name)) {
                if found.changes {
                    return false;
                }
                open.extend(found.next.iter().cloned());
            }
        }
        true
    }
}

impl Chain {
    fn note(&mut self, stmt: &Stmt) {
        match (&stmt.kind, stmt.kind.effect()) {
            (StmtKind::Verdict(e), _) => self.note_verdict(e),
            (StmtKind::Nat(_), _) => self.changes = true,
            (StmtKind::Meter { .. } | StmtKind::SetUpdate { .. }, _) => {}
            (_, Effect::Match | Effect::Notes | Effect::Limits | Effect::Ends) => {}
            (_, Effect::Verdict | Effect::Changes) => self.changes = true,
        }
    }

    fn note_verdict(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Verdict(VerdictExpr::Jump(to) | VerdictExpr::Goto(to)) => match to.text() {
                Some(text) => self.next.push(text.clone()),
                None => self.changes = true,
            },
            ExprKind::Verdict(_) => {}
            ExprKind::Map { mappings, .. } => match mappings.elements() {
                Some(elements) => elements.iter().for_each(|e| self.note_verdict(e)),
                None => self.changes = true,
            },
            ExprKind::Mapping { right, .. } => self.note_verdict(right),
            ExprKind::Symbol { .. }
            | ExprKind::Variable { .. }
            | ExprKind::Value(_)
            | ExprKind::String(_)
            | ExprKind::Prefix { .. }
            | ExprKind::Range { .. }
            | ExprKind::Concat(_)
            | ExprKind::List(_)
            | ExprKind::Set { .. }
            | ExprKind::SetElem(_)
            | ExprKind::CatchAll
            | ExprKind::SetRef { .. }
            | ExprKind::Payload(_)
            | ExprKind::Exthdr(_)
            | ExprKind::Key(_)
            | ExprKind::Hash { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Binop { .. }
            | ExprKind::Relational { .. }
            | ExprKind::FlagCmp { .. } => self.changes = true,
        }
    }
}
