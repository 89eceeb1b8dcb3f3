// SPDX-License-Identifier: Apache-2.0

//! Rules that earlier rules of their chain leave no packet.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_program::expr::{MetaKey, ObjectType, PayloadBase, RejectType};
use penstock_ruleset::model::Family;
use penstock_syntax::ast::cmd::{New, ObjKind};
use penstock_syntax::ast::expr::VerdictExpr;
use penstock_syntax::ast::stmt::Effect;
use penstock_syntax::ast::{Cmd, CmdKind, Expr, ExprKind, Key, RuleBlock, Stmt, StmtKind, walk};
use penstock_syntax::diag::{Diagnostic, line_of};
use penstock_syntax::source::{Inputs, Loc};

use super::contradiction::{contradiction, implied};
use crate::eval::{Context, Eval};
use crate::selector::Match;

type ChainKey = (Family, Arc<str>, Arc<str>);

/// A rule that ends the chain for all packets that match.
struct Ending {
    matches: Vec<Match>,
    loc: Loc,
}

/// Rules of a chain so far.
#[derive(Default)]
struct Chain {
    /// Those since the last rule that could have changed a packet.
    endings: Vec<Ending>,
    /// Selectors of their matches; the index has their numbers.
    selectors: Vec<Expr>,
    /// Endings that have a match for single values only, by selector and each of the values.
    by_value: HashMap<(usize, u128), Vec<usize>>,
    /// All others.
    rest: Vec<usize>,
    /// The rule that no packet passes, and whether that was told.
    closed: Option<(Loc, bool)>,
    /// Pairs of rules that were compared.
    compared: usize,
}

/// Pairs of rules of a chain that are compared at most: the number of pairs grows with the square
/// of that of rules.
const MOST_PAIRS: usize = 4_000_000;

/// What a rule does.
#[derive(Default)]
struct Rule {
    /// Matches on the packet as the rule got it.
    matches: Vec<Match>,
    /// Where they stand.
    places: Vec<Loc>,
    /// What they say besides.
    implied: Vec<Match>,
    /// Other conditions decide whether the rule reaches its end.
    conditional: bool,
    /// A packet may be another one after it.
    changes: bool,
    /// No packet that reaches its end continues in the chain.
    ends: bool,
}

pub(super) fn find(
    cmds: &[Cmd],
    ctx: &mut Context<'_>,
    inputs: &Inputs,
    out: &mut Vec<Diagnostic>,
) {
    let mut chains: HashMap<ChainKey, Chain> = HashMap::new();
    for cmd in cmds {
        let family = cmd.target.family.unwrap_or(Family::Ip);
        let table = cmd.target.table.as_ref().map(|t| t.text.clone());
        let chain = cmd.target.chain.as_ref().map(|c| c.text.clone());
        let mut read = |table: &Arc<str>, name: &Arc<str>, rules: &[RuleBlock]| {
            let key = (family, table.clone(), name.clone());
            let chain = chains.entry(key.clone()).or_default();
            for rule in rules {
                chain.add(rule, &key, ctx, inputs, out);
            }
        };
        match (&cmd.kind, table, chain) {
            (
                CmdKind::Add(New::Table(block)) | CmdKind::Create(New::Table(block)),
                Some(table),
                _,
            ) => {
                block
                    .chains
                    .iter()
                    .for_each(|(name, chain)| read(&table, &name.text, &chain.rules));
            }
            (
                CmdKind::Add(New::Chain(block)) | CmdKind::Create(New::Chain(block)),
                Some(table),
                Some(chain),
            ) => read(&table, &chain, &block.rules),
            (CmdKind::Add(New::Rule(rule)), Some(table), Some(chain))
                if cmd.target.position.is_none()
                    && cmd.target.index.is_none()
                    && cmd.target.handle.is_none() =>
            {
                read(&table, &chain, std::slice::from_ref(rule));
            }
            // The order of rules in the chain is no longer known.
            (CmdKind::Delete { object, .. } | CmdKind::Flush(object), table, chain) => {
                match object {
                    ObjKind::Ruleset => chains.clear(),
                    ObjKind::Table | ObjKind::Chain | ObjKind::Rule | ObjKind::Rules => chains
                        .retain(|key, _| {
                            !(key.0 == family
                                && table.as_ref().is_none_or(|t| *t == key.1)
                                && chain.as_ref().is_none_or(|c| *c == key.2))
                        }),
                    _ => {}
                }
            }
            (CmdKind::Replace(_), Some(table), Some(chain)) => {
                _ = chains.remove(&(family, table, chain))
            }
            _ => {}
        }
    }
}

impl Chain {
    /// A rule at the end of the chain, which `key` names.
    fn add(
        &mut self,
        rule: &RuleBlock,
        key: &ChainKey,
        ctx: &mut Context<'_>,
        inputs: &Inputs,
        out: &mut Vec<Diagnostic>,
    ) {
        let &(family, ref table, _) = key;
        let end = rule.stmts.last().map_or(rule.loc.end, |s| s.loc.end);
        let loc = Loc { end, ..rule.loc };
        if let Some((by, told)) = &mut self.closed {
            if !*told {
                let place = line_of(*by, loc, inputs);
                let message =
                    format!("this rule is never reached: the rule in {place} ends the chain");
                out.push(Diagnostic::warning(loc, message));
                *told = true;
            }
            return;
        }
        if self.compared > MOST_PAIRS || ctx.budget.step() {
            return;
        }
        let read = Rule::read(rule, family, table, ctx);
        if let Some((first, second)) =
            contradiction(&read.matches, &read.places, |selector| moves_headers(selector, family))
        {
            let [first, second] = [first, second].map(|place| inputs.slice(place).to_owned());
            let message =
                format!("this rule never matches: ‘{first}’ and ‘{second}’ exclude each other");
            out.push(Diagnostic::warning(loc, message));
            return;
        }
        if let Some(by) = self.that_leaves_nothing(&read, family) {
            let place = line_of(by.loc, loc, inputs);
            let message =
                format!("this rule never matches: the rule in {place} takes all of its packets");
            out.push(Diagnostic::warning(loc, message));
            return;
        }
        let takes_all = read.ends && !read.conditional;
        if takes_all && read.matches.is_empty() {
            self.closed = Some((loc, false));
        } else if takes_all && !read.changes {
            self.put(Ending { matches: read.matches, loc });
        } else if read.changes && !takes_all {
            self.endings.clear();
            self.by_value.clear();
            self.rest.clear();
        }
    }

    fn put(&mut self, ending: Ending) {
        let number = self.endings.len();
        match ending.matches.iter().find_map(|m| Some((m, single_values(m)?))) {
            Some((found, values)) => {
                let selector =
                    self.selectors.iter().position(|s| *s == found.selector).unwrap_or_else(|| {
                        self.selectors.push(found.selector.clone());
                        self.selectors.len() - 1
                    });
                for value in values {
                    self.by_value.entry((selector, value)).or_default().push(number);
                }
            }
            None => self.rest.push(number),
        }
        self.endings.push(ending);
    }

    /// The first ending that takes all packets of a rule. One that is indexed has all of the rule's
    /// values, so also the first of them.
    fn that_leaves_nothing(&mut self, rule: &Rule, family: Family) -> Option<&Ending> {
        let indexed = rule.all().filter_map(|m| {
            let first = m.values()?.first()?.first()?.0;
            let selector = self.selectors.iter().position(|s| *s == m.selector)?;
            self.by_value.get(&(selector, first))
        });
        let candidates = indexed.chain([&self.rest]).flatten();
        let mut compared = 0;
        let candidates = candidates.inspect(|_| compared += 1);
        let found =
            candidates.filter(|n| self.endings[**n].leaves_nothing(rule, family)).min().copied();
        self.compared += compared;
        self.endings.get(found?)
    }
}

/// The values of a match for single values only.
fn single_values(m: &Match) -> Option<Vec<u128>> {
    m.values()?
        .iter()
        .map(|ranges| match ranges[..] {
            [(first, last)] if first == last => Some(first),
            _ => None,
        })
        .collect()
}

impl Ending {
    /// Whether no packet is left that `rule` could match: each match here covers one there.
    fn leaves_nothing(&self, rule: &Rule, family: Family) -> bool {
        self.matches.len() <= rule.all().count()
            && self.matches.iter().all(|mine| {
                rule.all().any(|other| mine.selector == other.selector && mine.covers(other))
            })
            && rule.matches.iter().all(|other| {
                !moves_headers(&other.selector, family)
                    || self.matches.iter().any(|mine| mine.selector == other.selector)
            })
    }
}

/// Whether a match says which header the next ones are in, so that the same words ask for something
/// else.
fn moves_headers(selector: &Expr, family: Family) -> bool {
    matches!(family, Family::Bridge | Family::Netdev)
        && match &selector.kind {
            ExprKind::Payload(payload) => payload.base == PayloadBase::Link,
            ExprKind::Key(Key::Meta { key }) => *key == MetaKey::Protocol,
            ExprKind::Concat(parts) => parts.iter().any(|p| moves_headers(p, family)),
            ExprKind::Binop { left, .. } => moves_headers(left, family),
            ExprKind::Symbol { .. }
            | ExprKind::Variable { .. }
            | ExprKind::Value(_)
            | ExprKind::String(_)
            | ExprKind::Verdict(_)
            | ExprKind::Prefix { .. }
            | ExprKind::Range { .. }
            | ExprKind::List(_)
            | ExprKind::Set { .. }
            | ExprKind::SetElem(_)
            | ExprKind::CatchAll
            | ExprKind::Mapping { .. }
            | ExprKind::Map { .. }
            | ExprKind::SetRef { .. }
            | ExprKind::Exthdr(_)
            | ExprKind::Hash { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Relational { .. }
            | ExprKind::FlagCmp { .. }
            | ExprKind::Key(_) => false,
        }
}

/// Whether an operand is the same for all packets.
fn is_constant(e: &Expr) -> bool {
    let mut constant = true;
    walk::expr(e, &mut |e| {
        constant &= !matches!(
            e.kind,
            ExprKind::Map { .. }
                | ExprKind::Key(_)
                | ExprKind::Payload(_)
                | ExprKind::Exthdr(_)
                | ExprKind::Hash { .. }
                | ExprKind::SetRef { .. }
        );
    });
    constant
}

impl Rule {
    /// All that is known of the packets that it matches.
    fn all(&self) -> impl Iterator<Item = &Match> {
        self.matches.iter().chain(&self.implied)
    }

    fn read(rule: &RuleBlock, family: Family, table: &Arc<str>, ctx: &mut Context<'_>) -> Rule {
        let mut out = Rule { conditional: !rule.rules.is_empty(), ..Rule::default() };
        for stmt in &rule.stmts {
            if !matches!(stmt.kind, StmtKind::Match(_)) {
                out.note(stmt, family);
                continue;
            }
            let mut eval = Eval::new(ctx, family, Some(table.clone()));
            match Match::read(stmt, &mut eval) {
                Some(found) if !out.changes => {
                    out.implied.extend(implied(&found, family));
                    out.matches.push(found);
                    out.places.push(stmt.loc);
                }
                Some(_) | None => out.conditional = true,
            }
        }
        out
    }

    fn note(&mut self, stmt: &Stmt, family: Family) {
        match (&stmt.kind, stmt.kind.effect()) {
            (StmtKind::ObjRef { kind: ObjectType::Counter, expr }, _) if expr.text().is_some() => {}
            (StmtKind::Verdict(Expr { kind: ExprKind::Verdict(verdict), .. }), _) => {
                match verdict {
                    VerdictExpr::Accept
                    | VerdictExpr::Drop
                    | VerdictExpr::Return
                    | VerdictExpr::Goto(_)
                    | VerdictExpr::Queue => self.ends = true,
                    VerdictExpr::Continue | VerdictExpr::Break => {}
                    VerdictExpr::Jump(_) => self.changes = true,
                }
            }
            (StmtKind::Queue { expr: None, .. }, _) => self.ends = true,
            (StmtKind::Reject(reject), _) => match reject.kind {
                // Others ask for the protocol that they answer in.
                None | Some(RejectType::IcmpxUnreach) => self.ends = true,
                Some(RejectType::IcmpUnreach | RejectType::TcpRst) => self.conditional = true,
            },
            // It accepts what it has translated (`nft_nat_eval()`).
            (StmtKind::Nat(nat), _) => {
                let operands = [&nat.addr, &nat.port];
                let computed = operands.into_iter().flatten().any(|e| !is_constant(e));
                // An address is of one protocol: packets of the other pass by.
                let of_one = family == Family::Inet && nat.addr.is_some();
                self.conditional |= computed || of_one;
                self.ends = true;
            }
            // Which object, or whether any, a map says.
            (StmtKind::ObjRef { .. }, _)
            | (_, Effect::Match | Effect::Verdict | Effect::Ends | Effect::Changes) => {
                self.conditional = true;
                self.changes = true;
            }
            (_, Effect::Notes) => {}
            (_, Effect::Limits) => self.conditional = true,
        }
    }
}
