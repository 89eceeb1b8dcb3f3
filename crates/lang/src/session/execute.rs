// SPDX-License-Identifier: Apache-2.0

//! Commands carried out: evaluated, turned into changes, and applied to one transaction.

use penstock_ruleset::change::{NewRule, Position};
use penstock_ruleset::model::Generation;
use penstock_ruleset::reset::Reset;
use penstock_ruleset::transaction::Wrong;
use penstock_ruleset::{Applied, Blame, Change, Transaction};
use penstock_syntax::ast::cmd::{Markup, New};
use penstock_syntax::ast::{Cmd, CmdKind};
use penstock_syntax::diag::{Diagnostic, Diagnostics};
use penstock_syntax::parse::MAX_ERRORS;
use penstock_syntax::source::Loc;

use super::remote::{self, Again, Copy};
use super::step::{Done, Step};
use super::{Session, refusals};
use crate::eval::{Context, expand};
use crate::lower::{self, Lowered, Places};
use crate::reread::evaluate;

/// Commands being carried out.
pub(super) struct Execution {
    pub(super) transaction: Transaction,
    pub(super) now: u64,
    /// Commands that ask are answered.
    pub(super) answers: bool,
    pub(super) done: Vec<Done>,
    /// What was refused.
    pub(super) diags: Diagnostics,
    /// Changes that may be blamed for a table that is wrong as a whole: their numbers, and where
    /// they stand.
    pub(super) doubtful: Vec<(usize, Loc)>,
    pub(super) stdout: String,
    /// Changes that were noted elsewhere.
    pub(super) noted: usize,
    /// The copy of the ruleset does not do.
    pub(super) again: Option<Again>,
    /// What would be set to zero, if it does not.
    pub(super) resets: Vec<Reset>,
}

impl Execution {
    pub(super) fn new(transaction: Transaction, now: u64) -> Self {
        Execution {
            transaction,
            now,
            answers: true,
            done: Vec::new(),
            diags: Diagnostics::default(),
            doubtful: Vec::new(),
            stdout: String::new(),
            noted: 0,
            again: None,
            resets: Vec::new(),
        }
    }

    /// Applies a change to the transaction. What it is about is kept for the message only.
    fn apply(
        &mut self,
        change: Change,
        what: &refusals::Subject,
        places: &Places,
    ) -> Option<Applied> {
        let Execution { diags, transaction, doubtful, .. } = self;
        match transaction.apply(change) {
            Ok(applied) => {
                if transaction.is_last_doubtful() {
                    doubtful.push((transaction.applied() - 1, places.loc(&Blame::Whole)));
                }
                Some(applied)
            }
            Err(e) => {
                diags.push_with(|| refusals::diagnostic(&e, what, places, transaction.working()));
                None
            }
        }
    }

    /// Looks at the tables as a whole, as the kernel does if nothing else was refused.
    fn validate(&mut self) {
        if self.diags.has_errors() {
            return;
        }
        let Err(wrong) = self.transaction.validate() else { return };
        for Wrong { change, errno } in wrong {
            let place = self.doubtful.iter().find(|(number, _)| *number == change);
            let place = place.map(|(_, loc)| *loc).unwrap_or_default();
            let message = || format!("Could not process rule: {}", errno.text());
            self.diags.push_with(|| Diagnostic::error(place, message()));
        }
    }
}

impl Session<'_> {
    /// Evaluates commands, turns them into changes, and applies these, until there are too many
    /// errors.
    ///
    /// The output of an execution counts only if all commands are valid. So with `in_one_go` each
    /// command is executed and freed as soon as it is evaluated. This must not be used if a rule
    /// may change the meaning of an earlier set declaration.
    pub(super) fn process(
        &self,
        cmds: Vec<Cmd>,
        ctx: &mut Context<'_>,
        diags: &mut Diagnostics,
        execution: &mut Execution,
        in_one_go: bool,
    ) {
        // Resetting takes effect at once, which it must not if a later command is wrong.
        let in_one_go =
            in_one_go && !cmds.iter().any(|cmd| matches!(cmd.kind, CmdKind::Reset { .. }));
        let mut held: Vec<Step> = Vec::new();
        ctx.has_positions =
            cmds.iter().any(|cmd| cmd.target.position.is_some() || cmd.target.index.is_some());
        let mut errors = 0;
        let mut good = !diags.has_errors();
        ctx.refused = !good;
        let mut refused_set = None;
        for mut cmd in expand(cmds) {
            if self.is_late() {
                return;
            }
            let name =
                cmd.target.name.as_ref().map(|name| name.loc).filter(|loc| *loc != Loc::default());
            // Nothing is said of the elements of a declaration that was refused.
            if name.is_some()
                && name == refused_set
                && matches!(cmd.kind, CmdKind::Add(New::Elements(_)))
            {
                continue;
            }
            if ctx.is_untyped(&cmd) {
                continue;
            }
            if !evaluate(&mut cmd, ctx, diags) {
                good = false;
                // What the kernel would say does not keep it from being asked.
                ctx.refused |= !diags
                    .list
                    .last()
                    .is_some_and(|last| last.message.starts_with("Could not process rule"));
                if let CmdKind::Add(New::Set(_)) | CmdKind::Create(New::Set(_)) = cmd.kind {
                    refused_set = name;
                }
                errors += 1;
                if errors >= MAX_ERRORS {
                    break;
                }
                continue;
            }
            let lowered = lower::lower(&cmd, ctx);
            let elements = lower::elements_of(&cmd, ctx);
            let debug = if self.options.debug.netlink {
                lower::debug::text(&lowered, ctx)
            } else {
                String::new()
            };
            // A declaration depends on what follows it: so the last step is held until the next one
            // is known.
            if let Some(Step { lowered: set, debug, .. }) = held.last_mut()
                && lower::set::fit_to_elements(set, &lowered, ctx)
                && self.options.debug.netlink
            {
                *debug = lower::debug::text(set, ctx);
            }
            // What was lowered is no longer needed as a tree.
            if !lowered.is_empty() {
                cmd.kind = CmdKind::Import(Markup::Json);
            }
            let step = Step { cmd, lowered, elements, debug };
            if !good {
                held.clear();
            } else if in_one_go {
                held.drain(..).for_each(|step| self.execute(step, execution));
            }
            held.push(step);
        }
        if !good {
            return;
        }
        for mut step in held {
            if self.is_late() {
                return;
            }
            step.lowered.iter_mut().for_each(|l| lower::finish(&mut l.change, ctx));
            self.execute(step, execution);
        }
        execution.validate();
    }

    /// Applies the changes of a command, or answers its question. Every refusal is kept, as the
    /// kernel does.
    pub(super) fn execute(&self, step: Step, execution: &mut Execution) {
        if step.lowered.is_empty() {
            if execution.answers {
                self.execute_query(&step, execution);
            }
            return;
        }
        execution.stdout.push_str(&step.debug);
        let index = step.cmd.target.index.as_ref().map(|index| index.value);
        for lowered in step.lowered {
            self.execute_change(lowered, index, execution);
        }
    }

    /// Answers a command that changes nothing. If the copy of the ruleset cannot answer it, the
    /// text must be run again.
    fn execute_query(&self, step: &Step, execution: &mut Execution) {
        let copy = self.options.copy;
        let Execution { transaction, now, answers, diags, stdout, noted, again, resets, .. } =
            execution;
        if copy != Copy::Whole && remote::asks_for_state(step, transaction.working()) {
            *again = Some(Again::Whole);
            resets.extend(remote::reset_by(step));
            return;
        }
        // The changes before it are not in this copy.
        if copy == Copy::Unchecked && *noted > 0 {
            again.get_or_insert(Again::Applied);
            return;
        }
        stdout.push_str(&step.debug);
        match self.answer(step, transaction.working(), *now) {
            // It may be asked for again and again.
            Ok(text) if !self.budget.answer(text.len()) => {
                let most = self.options.limits.output;
                let message = format!("the answers to this text are longer than {most} bytes");
                diags.push(Diagnostic::error(step.cmd.loc, message));
                *answers = false;
            }
            // A listing may be large, and is mostly all there is.
            Ok(text) if stdout.is_empty() => *stdout = text,
            Ok(text) => stdout.push_str(&text),
            Err(diagnostic) => diags.push(*diagnostic),
        }
    }

    /// Notes a change elsewhere, where that is asked for, and applies it to the transaction.
    /// `index` is the place of a rule as the command has it.
    fn execute_change(&self, lowered: Lowered, index: Option<u64>, execution: &mut Execution) {
        let Lowered { mut change, places } = lowered;
        let changes = self.changes.filter(|_| execution.answers);
        if execution.answers && self.options.copy == Copy::Unchecked {
            if index.is_some() {
                execution.again.get_or_insert(Again::Applied);
            } else if let Some(changes) = changes {
                changes.note(&change);
                execution.noted += 1;
            }
            return;
        }
        if let Some(index) = index {
            place_at_index(&mut change, index, execution.transaction.working());
        }
        if let Some(changes) = changes {
            changes.note(&change);
            execution.noted += 1;
        }
        let what = refusals::Subject::of(&change);
        // Sets may be large: a change is kept next to what the ruleset takes only for those who ask
        // for it.
        let keep = self.options.echo || self.options.runnable_only || self.options.lint;
        let kept = keep.then(|| if self.options.echo { change.clone() } else { names_of(&change) });
        if let Some(Applied { handle, name }) = execution.apply(change, &what, &places) {
            execution.done.extend(kept.map(|change| Done { change, handle, name, places }));
        }
    }
}

/// A change without what may be large in it: enough to know what is blamed.
fn names_of(change: &Change) -> Change {
    match change {
        Change::AddRule { family, table, chain, position, rule: _ } => Change::AddRule {
            family: *family,
            table: table.clone(),
            chain: chain.clone(),
            position: *position,
            rule: NewRule { exprs: Vec::new(), userdata: Default::default(), origin: None },
        },
        Change::AddElements { family, table, set, mode, elements: _ } => Change::AddElements {
            family: *family,
            table: table.clone(),
            set: set.clone(),
            mode: *mode,
            elements: Default::default(),
        },
        other => other.clone(),
    }
}

/// Gives `index N` the handle that the rule there has after the changes before this one. Where
/// there is no rule the handle stays one that no rule has.
fn place_at_index(change: &mut Change, index: u64, working: &Generation) {
    let Change::AddRule { family, table, chain, position, .. } = change else { return };
    let (Position::After(Some(neighbour)) | Position::Before(Some(neighbour))) = position else {
        return;
    };
    let table = working.tables.iter().find(|t| t.family == *family && t.name == *table);
    let chain = table.and_then(|t| t.chains.iter().find(|c| c.name == *chain));
    if let Some(rule) = chain.and_then(|c| c.rules.get(usize::try_from(index).ok()?)) {
        *neighbour = rule.handle;
    }
}
