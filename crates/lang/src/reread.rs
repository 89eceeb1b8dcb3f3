// SPDX-License-Identifier: Apache-2.0

//! Rules and elements of which only the place was kept: read again, and evaluated; elements are
//! lowered as well, some at a time, since a set may have millions.

use std::sync::Arc;

use penstock_ruleset::model::ElementValue;
use penstock_sets::ElementList;
use penstock_syntax::ast::cmd::{New, Target};
use penstock_syntax::ast::expr::SetExprFlags;
use penstock_syntax::ast::{Cmd, CmdKind, Expr, ExprKind};
use penstock_syntax::diag::{Diagnostic, Diagnostics};
use penstock_syntax::parse::again;
use penstock_syntax::source::Loc;

use crate::cache::SetInfo;
use crate::eval::{self, Context, Eval, Result, intervals};
use crate::intervals::number;
use crate::lower::{Program, element_loc, lower_elements};
use crate::plain::Plain;

/// Elements that are trees at the same time.
const ELEMENTS_AT_ONCE: usize = 256;

/// Evaluates a command, of which rules and elements may be given by place only. `false` if there
/// was an error; it is in `diags` then, and the command must not be lowered.
pub fn evaluate(cmd: &mut Cmd, ctx: &mut Context<'_>, diags: &mut Diagnostics) -> bool {
    eval::run(cmd, ctx, diags, |eval, cmd| {
        if let CmdKind::Add(new)
        | CmdKind::Create(new)
        | CmdKind::Insert(new)
        | CmdKind::Replace(new) = &mut cmd.kind
            && eval.read_again(new, &cmd.target)?
        {
            return Ok(());
        }
        eval.command(cmd)
    })
}

/// Skipped text turns out to be something else: the whole text must be read again.
fn misread(place: Loc) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(place, "syntax error"))
}

impl Eval<'_, '_> {
    /// Reads what is given by its place only. `true` if it is evaluated as well.
    fn read_again(&mut self, new: &mut New, target: &Target) -> Result<bool> {
        match new {
            New::Rule(rule) if rule.unread => {
                let read = again::rule(&mut self.ctx.inputs, &self.ctx.budget, rule.loc);
                *rule = read.ok_or_else(|| misread(rule.loc))?;
                Ok(false)
            }
            New::Elements(elements) => {
                let ExprKind::Set { flags: SetExprFlags { unread: true, .. }, .. } = elements.kind
                else {
                    return Ok(false);
                };
                let info = self.set_of_elements(elements, target)?;
                if !(info.auto_merge && info.interval) {
                    return self.unread_elements(elements.loc, &info).map(|()| true);
                }
                if self.ctx.skipped && self.joined_elements(elements.loc, &info) {
                    return Ok(true);
                }
                // Those that are joined are needed all at once.
                let read = again::elements(&mut self.ctx.inputs, &self.ctx.budget, elements.loc);
                *elements = read.ok_or_else(|| misread(elements.loc))?;
                Ok(false)
            }
            New::Rule(_)
            | New::Table(_)
            | New::Chain(_)
            | New::Set(_)
            | New::Object(_)
            | New::Flowtable(_) => Ok(false),
        }
    }

    /// Reads elements again, evaluates and lowers them, some at a time: a set may have millions.
    fn unread_elements(&mut self, place: Loc, info: &Arc<SetInfo>) -> Result {
        let mut reader = again::Elements::new(place);
        let (mut lowered, mut places) = (ElementList::new(), Vec::new());
        let (mut spans, mut added) = (Vec::new(), intervals::Spans::new());
        let plain_intervals = info.interval && !info.key.is_concat();
        // With skipped text the places of elements are not needed: after an error everything is
        // read again.
        let plain = if self.ctx.skipped { Plain::of(info) } else { None };
        let table = self.table.clone().unwrap_or_default();
        loop {
            let mut most = ELEMENTS_AT_ONCE;
            if let Some(plain) = &plain {
                let before = lowered.len();
                reader.pass(&self.ctx.inputs, |text, at| {
                    plain.read(text, at, |first, last, data| {
                        if plain_intervals {
                            added.extend(number(first).zip(number(last.unwrap_or(first))));
                        }
                        lowered.push_parts(first, last, data.map(ElementValue::from), None);
                    })
                });
                // Others may stand alone among plain ones.
                if lowered.len() > before {
                    most = 1;
                }
            }
            let elements = reader
                .next(&mut self.ctx.inputs, &self.ctx.budget, most)
                .ok_or_else(|| misread(place))?;
            if elements.is_empty() {
                break;
            }
            let kind = ExprKind::Set { elements, flags: SetExprFlags::default() };
            let mut some = Expr::new(kind, place);
            self.elements_for(&mut some, info)?;
            let ExprKind::Set { elements, .. } = &some.kind else { break };
            if plain_intervals {
                let new = intervals::unsorted_spans_of(elements);
                // What overlaps the ruleset refuses as well, though in other words: they do not
                // count here.
                match self.ctx.skipped {
                    true => added.extend(new.map(|(from, to, _)| (from, to))),
                    false => spans.extend(new.map(|(from, to, i)| (from, to, lowered.len() + i))),
                }
            }
            let mut program = Program::new(self.ctx, self.family, table.clone());
            lowered.extend(lower_elements(elements, info, self.ctx, &mut program));
            places.extend(elements.iter().map(element_loc));
        }
        if lowered.is_empty() {
            return Err(misread(place));
        }
        if plain_intervals {
            intervals::sort(&mut spans);
            intervals::check_spans(&spans, |i| places[i], &info.intervals)?;
            added.extend(spans.into_iter().map(|(from, to, _)| (from, to)));
            self.ctx.cache.put_set(
                self.family,
                &table,
                intervals::with_added(info, added, &Vec::new()).into(),
            );
        }
        self.ctx.ready.set(Some((lowered, places)));
        Ok(())
    }

    /// Plain elements of an empty set that joins intervals. `false`, without effect, for other
    /// sets.
    fn joined_elements(&mut self, place: Loc, info: &Arc<SetInfo>) -> bool {
        let Some(plain) = Plain::of(info).filter(|_| !info.is_map() && !info.key.is_concat())
        else {
            return false;
        };
        let Some(bytes) = info.key.len().checked_div(8).map(|bytes| bytes as usize) else {
            return false;
        };
        if !info.intervals.is_empty() {
            return false;
        }
        let mut reader = again::Elements::new(place);
        let mut spans = intervals::Spans::new();
        reader.pass(&self.ctx.inputs, |text, at| {
            plain.read(text, at, |first, last, _| {
                spans.extend(number(first).zip(number(last.unwrap_or(first))));
            })
        });
        if spans.is_empty() || !reader.at_end() {
            return false;
        }
        spans.sort_unstable();
        spans.dedup_by(|next, last| {
            let joined = intervals::touches(last.1, next.0);
            if joined {
                last.1 = last.1.max(next.1);
            }
            joined
        });
        let mut lowered = ElementList::new();
        for (from, to) in &spans {
            let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
            let (from, to) = (&from[16 - bytes..], &to[16 - bytes..]);
            lowered.push_parts(from, Some(to).filter(|to| *to != from), None, None);
        }
        if let Some(table) = self.table.clone() {
            let after = intervals::with_added(info, spans, &Vec::new());
            self.ctx.cache.put_set(self.family, &table, after.into());
        }
        self.ctx.ready.set(Some((lowered, Vec::new())));
        true
    }
}
