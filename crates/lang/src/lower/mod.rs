// SPDX-License-Identifier: Apache-2.0

//! Linearization: evaluated commands to the changes that the ruleset takes (nft's
//! `netlink_linearize.c` and `mnl.c`).
//!
//! - `expr`, `stmt`: rules to VM programs, each statement by `crate::semantics`;
//! - [`set`]: sets, maps, elements;
//! - `cmd`: commands to [`Change`]s;
//! - [`debug`]: what `--debug=netlink` shows of them.

mod cmd;
pub mod debug;
pub(crate) mod expr;
pub mod set;
mod stmt;
mod tunnel;
mod typeof_text;

use std::sync::Arc;

use penstock_program::Register;
use penstock_program::expr::Expr as Op;
use penstock_ruleset::model::{Family, RuleOrigin};
use penstock_ruleset::{Blame, Change};
use penstock_syntax::ast::{Expr, ExprKind, RuleBlock};
use penstock_syntax::source::Loc;

use crate::cache::SetInfo;
use crate::eval::Context;

pub(crate) use cmd::lower_elements;
pub use cmd::{elements_of, lower};
pub(crate) use set::element_loc;

/// Where what a change consists of was written, so that a refusal points at the right word.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Places {
    /// The command.
    pub whole: Loc,
    pub table: Option<Loc>,
    pub chain: Option<Loc>,
    pub handle: Option<Loc>,
    pub position: Option<Loc>,
    pub set: Option<Loc>,
    pub object: Option<Loc>,
    pub flowtable: Option<Loc>,
    pub hook: Option<Loc>,
    pub kind: Option<Loc>,
    pub policy: Option<Loc>,
    pub program: Option<Loc>,
    /// By number of the element in the change.
    pub elements: Vec<Loc>,
    /// By number of the VM expression: the statement it came from.
    pub expressions: Vec<Loc>,
}

impl Places {
    /// The place to blame; the whole command where the part was not written.
    pub fn loc(&self, blame: &Blame) -> Loc {
        let found = match blame {
            Blame::Whole => None,
            Blame::Table => self.table,
            Blame::Chain => self.chain,
            Blame::Handle => self.handle,
            Blame::Position => self.position,
            Blame::Set => self.set,
            Blame::Object => self.object,
            Blame::Flowtable => self.flowtable,
            Blame::Hook => self.hook,
            Blame::Type => self.kind.or(self.hook),
            Blame::Policy => self.policy,
            Blame::Program => self.program,
            Blame::Element(n) => self.elements.get(*n).copied(),
            Blame::Expression(n) => self.expressions.get(*n).copied(),
        };
        found.unwrap_or(self.whole)
    }
}

/// A change and where it came from.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// What the ruleset is asked for.
    pub change: Change,
    /// Where its parts were written.
    pub places: Places,
}

/// Sets that rules later in the run update are declared as such: call it for every change once all
/// commands of the run were evaluated.
pub fn finish(change: &mut Change, ctx: &Context<'_>) {
    let Change::AddSet { family, table, set, .. } = change else { return };
    if ctx.made_dynamic.iter().any(|(f, t, s)| (f, t, s) == (&*family, &*table, &set.name)) {
        set.description.dynamic = true;
    }
}

/// Where a rule was written, if that is a file.
pub(crate) fn rule_origin(rule: &RuleBlock, ctx: &Context<'_>) -> Option<RuleOrigin> {
    let (file, line) = ctx.inputs.file_line(rule.loc)?;
    Some(RuleOrigin { file, line })
}

/// Program text in the making: registers are handed out from the first 32-bit slot up, and given
/// back in reverse.
pub(crate) struct Program<'c, 'a> {
    pub ctx: &'c Context<'a>,
    pub family: Family,
    pub table: Arc<str>,
    /// Where the table was named.
    pub table_loc: Option<Loc>,
    /// First free slot.
    pub(crate) next: usize,
    pub ops: Vec<Op>,
    /// For the operations so far: what they came from.
    places: Vec<Loc>,
    /// Implicit chains that the rule brings along.
    pub chains: Vec<Lowered>,
    /// Numbers of implicit chains.
    pub chain_id: u32,
}

impl<'c, 'a> Program<'c, 'a> {
    pub fn new(ctx: &'c Context<'a>, family: Family, table: Arc<str>) -> Self {
        Program {
            ctx,
            family,
            table,
            table_loc: None,
            next: 0,
            ops: Vec::new(),
            places: Vec::new(),
            chains: Vec::new(),
            chain_id: 0,
        }
    }

    /// The next free register: 16 bytes, or what a concatenation needs.
    pub(crate) fn take(&mut self, e: &Expr) -> usize {
        let slot = self.next;
        self.next += if let ExprKind::Concat(_) = e.kind {
            e.len.div_ceil(32).max(1) as usize
        } else {
            REGISTER_SLOTS
        };
        slot
    }

    /// The next free 16-byte register.
    pub(crate) fn take_wide(&mut self) -> usize {
        let slot = self.next;
        self.next += REGISTER_SLOTS;
        slot
    }

    /// Gives back all registers from this slot on.
    pub(crate) fn release(&mut self, slot: usize) {
        self.next = slot;
    }

    fn set(&self, name: &str) -> Option<Arc<SetInfo>> {
        self.ctx.set(self.family, &self.table, name)
    }
}

/// 32-bit slots of a 16-byte register.
const REGISTER_SLOTS: usize = 4;

/// The register that starts at a slot.
pub(crate) fn register(slot: usize) -> Register {
    Register::from_slot(slot)
}
