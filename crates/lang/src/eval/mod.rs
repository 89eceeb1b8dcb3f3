// SPDX-License-Identifier: Apache-2.0

//! Evaluation: what a command means, found and checked (nft's `evaluate.c` and the protocol
//! contexts of `proto.c`, `payload.c`, `meta.c`, `ct.c`).
//!
//! The tree is annotated in place: symbols become values, every expression gets data type, byte
//! order and length, matches that others depend on are inserted before them, anonymous sets become
//! declarations that the rule refers to. What comes out is what [`crate::lower`] turns into
//! programs.
//!
//! - `expr`: values, symbols, prefixes, ranges, concatenations, lists, operators;
//! - `relational`: matches; `payload`: header fields and their dependencies; `payload_set`:
//!   writing them;
//! - `keys`: meta, ct and their like;
//! - `set`: sets, maps and their elements; `stmt`: what statements have in common, each of them
//!   is in `crate::semantics`; `chain`: hooks;
//! - [`expand`], `cmd`: commands taken apart, and one by one; `declaration`: declared sets;
//!   `elements`: theirs; `presence`: what commands speak of.

mod chain;
mod cmd;
pub(crate) mod context;
mod declaration;
mod dependency;
mod elements;
mod expand;
mod expr;
pub(crate) mod intervals;
mod keys;
mod merge;
mod operator;
mod payload;
mod payload_set;
mod presence;
mod relational;
pub(crate) mod set;
pub(crate) mod stmt;
pub(crate) mod tunnel;
mod tunnel_object;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use penstock_ruleset::model::{ElementValue, Family, Generation};
use penstock_sets::ElementList;
use penstock_syntax::ast::cmd::{Name, New, ObjKind, Target};
use penstock_syntax::ast::{Cmd, CmdKind, Expr, Stmt};
use penstock_syntax::budget::Budget;
use penstock_syntax::diag::{Diagnostic, Diagnostics};
use penstock_syntax::names::Names;
use penstock_syntax::source::{Inputs, Loc};

use crate::cache::{Cache, SetInfo};

pub(crate) use chain::{device_names, priority};
pub(crate) use dependency::field_expr;
pub use expand::expand;

use context::{Expected, Protocols};

/// What a step of evaluation gives; the error is the one message of the command.
pub(crate) type Result<T = ()> = std::result::Result<T, Box<Diagnostic>>;

/// An error at one place.
pub(crate) fn error<T>(loc: Loc, message: impl Into<String>) -> Result<T> {
    Err(Box::new(Diagnostic::error(loc, message)))
}

/// An error at one place that conflicts with another.
pub(crate) fn conflict<T>(loc: Loc, other: Loc, message: impl Into<String>) -> Result<T> {
    Err(Box::new(Diagnostic::error(loc, message).against(other)))
}

/// An anonymous set or map of the current command.
#[derive(Clone, Debug)]
pub struct AnonymousSet {
    /// Its type; the name is `__set%d#ID`.
    pub info: Arc<SetInfo>,
    /// Tells it apart within the run.
    pub id: u32,
    /// Its elements: an [`ExprKind::Set`](penstock_syntax::ast::ExprKind::Set); `None` for the set
    /// of a `meter`.
    pub elements: Option<Expr>,
    /// Content never changes (all but those of `meter`).
    pub constant: bool,
    /// `size` of a meter.
    pub size: Option<u32>,
    /// Where it was written.
    pub loc: Loc,
}

/// What outlives a command: the ruleset as known so far, names of the system, anonymous sets not
/// lowered yet.
pub struct Context<'a> {
    /// Interfaces, services, users, …
    pub names: &'a dyn Names,
    /// Tables, chains, sets and objects known so far in this run.
    pub cache: Cache,
    /// The time at which `expires` of elements counts, in nanoseconds of the packet clock.
    pub now: u64,
    /// What the run began with.
    pub(crate) before: Generation,
    /// A command of this run has a place for a rule: nft then looks for the chains of all of them.
    pub(crate) has_positions: bool,
    /// A command of this run was refused already.
    pub(crate) refused: bool,
    /// Sets of the command evaluated last, by [`AnonymousSet::id`], in the order of their creation.
    pub anonymous: BTreeMap<u32, AnonymousSet>,
    /// Sets that statements of rules update though they were not declared `dynamic`: the
    /// declarations of this run get the flag.
    pub made_dynamic: Vec<(Family, Arc<str>, Arc<str>)>,
    /// Intervals that the current command removes from its set so that others can replace them.
    pub(crate) purge: Vec<(u128, u128)>,
    /// Intervals that take the place of those when elements are deleted.
    pub(crate) rest: Vec<(u128, u128)>,
    /// The command deletes parts of joined intervals: `purge` and `rest` hold the result.
    pub(crate) split: bool,
    /// The texts that places are in, where rules and elements may be given by place only.
    pub inputs: Inputs,
    /// Parts of the texts were skipped until now: their places are right, what stands there may be
    /// not.
    pub(crate) skipped: bool,
    /// The elements of the current command if they are lowered already: elements that are read
    /// again have no tree.
    pub(crate) ready: Cell<Option<ReadyElements>>,
    /// What is left of what the run may take.
    pub budget: Rc<Budget>,
    /// Errors of the current command after which evaluation continued with the next one.
    pub(crate) queued: Vec<Diagnostic>,
    next_id: u32,
}

/// Elements in the form of a change, and the places of their keys in the text.
pub(crate) type ReadyElements = (ElementList<ElementValue>, Vec<Loc>);

impl<'a> Context<'a> {
    /// On top of a generation.
    pub fn new(generation: &Generation, names: &'a dyn Names) -> Self {
        Context {
            names,
            before: generation.clone(),
            has_positions: false,
            refused: false,
            cache: Cache::new(generation),
            now: 0,
            anonymous: BTreeMap::new(),
            made_dynamic: Vec::new(),
            purge: Vec::new(),
            rest: Vec::new(),
            split: false,
            inputs: Inputs::default(),
            skipped: false,
            ready: Cell::default(),
            budget: Rc::default(),
            queued: Vec::new(),
            next_id: 1,
        }
    }

    /// The anonymous set of that name.
    pub(crate) fn anonymous_id(&self, name: &str) -> Option<u32> {
        match name.rsplit_once('#') {
            Some((_, id)) => id.parse().ok(),
            None => {
                self.anonymous.iter().find(|(_, set)| &*set.info.name == name).map(|(id, _)| *id)
            }
        }
    }

    /// Whether a command is about elements of a set that was refused because it has no type: no
    /// further error is reported for them.
    pub(crate) fn is_untyped(&self, cmd: &Cmd) -> bool {
        let Target { family, table: Some(table), name: Some(name), .. } = &cmd.target else {
            return false;
        };
        let elements = matches!(
            &cmd.kind,
            CmdKind::Add(New::Elements(_))
                | CmdKind::Create(New::Elements(_))
                | CmdKind::Delete { object: ObjKind::Elements, .. }
                | CmdKind::Get { .. }
        );
        let table = self.cache.table(family.unwrap_or(Family::Ip), &table.text);
        elements && table.is_some_and(|table| table.untyped.contains_key(&name.text))
    }

    /// What a set reference refers to.
    pub fn set(&self, family: Family, table: &str, name: &str) -> Option<Arc<SetInfo>> {
        match self.anonymous_id(name).and_then(|id| self.anonymous.get(&id)) {
            Some(set) => Some(set.info.clone()),
            None => self.cache.set(family, table, name).cloned(),
        }
    }
}

/// Evaluates a command (one that [`expand`] gave) that has no skipped parts. `false` if there was
/// an error; it is in `diags` then, and the command must not be lowered.
pub fn evaluate(cmd: &mut Cmd, ctx: &mut Context<'_>, diags: &mut Diagnostics) -> bool {
    run(cmd, ctx, diags, |eval, cmd| eval.command(cmd))
}

/// Evaluates a command by `evaluate`, in a fresh context. `false` after an error.
pub(crate) fn run(
    cmd: &mut Cmd,
    ctx: &mut Context<'_>,
    diags: &mut Diagnostics,
    evaluate: impl FnOnce(&mut Eval<'_, '_>, &mut Cmd) -> Result,
) -> bool {
    ctx.anonymous.clear();
    ctx.purge.clear();
    ctx.rest.clear();
    ctx.split = false;
    ctx.ready.take();
    ctx.queued.clear();
    let family = cmd.target.family.unwrap_or(Family::Ip);
    let table = cmd.target.table.as_ref().map(|t| t.text.clone());
    let mut eval = Eval::new(ctx, family, table);
    eval.table_name = cmd.target.table.clone();
    let result = evaluate(&mut eval, cmd);
    let mut errors = std::mem::take(&mut ctx.queued);
    errors.extend(result.err().map(|diagnostic| *diagnostic));
    let good = errors.is_empty();
    diags.list.extend(errors);
    good
}

/// The state of evaluation within one command (nft's `struct eval_ctx`).
pub(crate) struct Eval<'c, 'a> {
    pub ctx: &'c mut Context<'a>,
    pub family: Family,
    pub table: Option<Arc<str>>,
    /// The table, as it was written.
    pub table_name: Option<Name>,
    pub protocols: Protocols,
    pub expected: Expected,
    /// Matches that the current statement depends on: they go before it.
    pub inserted: Vec<Stmt>,
    /// Those that go to the head of the rule.
    pub at_head: Vec<Stmt>,
    /// The set of the current elements.
    pub set: Option<Arc<SetInfo>>,
    /// The ICMP message type that a match before asked for; of a set of them the last, as nft has
    /// it.
    pub icmp_type: Option<u8>,
    /// A match compares with the current range only.
    pub(crate) alone: bool,
    /// The tunnel that was looked into.
    pub(crate) beyond: Option<tunnel::Beyond>,
    /// The current context is inside that tunnel.
    pub(crate) inside: bool,
    /// Bits of the mark or similar value that the current statement sets: narrower fields are
    /// computed with at that width and in the order of the machine. 0 elsewhere.
    pub(crate) written: u32,
}

impl<'c, 'a> Eval<'c, 'a> {
    /// At the start of a command.
    pub(crate) fn new(ctx: &'c mut Context<'a>, family: Family, table: Option<Arc<str>>) -> Self {
        Eval {
            ctx,
            family,
            table,
            table_name: None,
            protocols: Protocols::new(family),
            expected: Expected::default(),
            inserted: Vec::new(),
            at_head: Vec::new(),
            set: None,
            icmp_type: None,
            alone: false,
            beyond: None,
            inside: false,
            written: 0,
        }
    }

    /// A number for an anonymous set.
    fn next_id(&mut self) -> u32 {
        let id = self.ctx.next_id;
        self.ctx.next_id += 1;
        id
    }
}
