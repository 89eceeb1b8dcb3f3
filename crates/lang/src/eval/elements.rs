// SPDX-License-Identifier: Apache-2.0

//! Elements that commands add to sets, delete or ask for.

use std::sync::Arc;

use penstock_ruleset::model::ElementValue;
use penstock_sets::ElementList;

use crate::ast::cmd::Target;
use crate::ast::expr::{Expr, ExprKind, SetExprFlags};
use crate::cache::SetInfo;
use crate::diag::Diagnostic;
use crate::eval::set::{bounds, key_of};
use crate::eval::{Eval, Result, error, intervals};
use crate::intervals::number;
use crate::lower::lower_elements;
use crate::parse::again;
use crate::parse::plain::Plain;
use crate::source::Loc;

/// Elements that are trees at the same time.
const ELEMENTS_AT_ONCE: usize = 256;

/// What was skipped is not what it was taken for: all of the text is to be read again.
pub(super) fn misread(place: Loc) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(place, "syntax error"))
}

impl Eval<'_, '_> {
    /// The set that elements are for.
    pub(super) fn set_of_elements(
        &mut self,
        elements: &Expr,
        target: &Target,
    ) -> Result<Arc<SetInfo>> {
        let Some(name) = &target.name else {
            return error(elements.loc, "No such file or directory");
        };
        let info = match self.ctx.cache.set(
            self.family,
            self.table.as_deref().unwrap_or_default(),
            &name.text,
        ) {
            Some(info) => info.clone(),
            None => self.find_set(&name.text, name.loc)?,
        };
        if !matches!(elements.kind, ExprKind::Set { .. }) {
            return error(
                elements.loc,
                format!(
                    "Set {}: Unexpected initial type {}, missing {{ }}?",
                    info.name,
                    elements.word()
                ),
            );
        }
        Ok(info)
    }

    /// Evaluates elements against the set of the command.
    pub(super) fn elements(
        &mut self,
        elements: &mut Expr,
        target: &Target,
    ) -> Result<Arc<SetInfo>> {
        let info = self.set_of_elements(elements, target)?;
        self.elements_for(elements, &info)?;
        Ok(info)
    }

    pub(super) fn elements_for(&mut self, elements: &mut Expr, info: &Arc<SetInfo>) -> Result {
        self.set = Some(info.clone());
        self.expected = info.key.expected();
        let evaluated = self.expr(elements);
        self.set = None;
        evaluated
    }

    /// Reads elements again, evaluates and lowers them, some at a time: a set may have millions.
    pub(super) fn unread_elements(&mut self, place: Loc, info: &Arc<SetInfo>) -> Result {
        let mut reader = again::Elements::new(place);
        let (mut lowered, mut places) = (ElementList::new(), Vec::new());
        let (mut spans, mut added) = (Vec::new(), intervals::Spans::new());
        let plain_intervals = info.interval && !info.key.is_concat();
        // Where something was skipped nobody asks for the places of elements: with an error all is
        // read again.
        let plain = if self.ctx.skipped { Plain::of(info) } else { None };
        let table = self.table.clone().unwrap_or_default();
        loop {
            let mut most = ELEMENTS_AT_ONCE;
            if let Some(plain) = &plain {
                let before = lowered.len();
                reader.plain(&self.ctx.inputs, plain, |first, last, data| {
                    if plain_intervals {
                        added.extend(number(first).zip(number(last.unwrap_or(first))));
                    }
                    lowered.push_parts(first, last, data.map(ElementValue::from), None);
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
            lower_elements(
                elements,
                info,
                self.ctx,
                self.family,
                &table,
                &mut lowered,
                &mut places,
            );
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

    /// Plain elements of an empty set whose intervals are joined. `false` if they are not, and
    /// nothing was done.
    pub(super) fn joined_elements(&mut self, place: Loc, info: &Arc<SetInfo>) -> bool {
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
        reader.plain(&self.ctx.inputs, &plain, |first, last, _| {
            spans.extend(number(first).zip(number(last.unwrap_or(first))));
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

    pub(super) fn delete_elements(&mut self, elements: &mut Expr, target: &Target) -> Result {
        let info = self.elements(elements, target)?;
        let ExprKind::Set { elements, .. } = &mut elements.kind else { return Ok(()) };
        if !info.interval || info.key.is_concat() {
            return Ok(());
        }
        let (gone, left) = if info.auto_merge && !info.is_map() {
            intervals::split(elements, &info.intervals)?
        } else {
            let gone = elements.iter().filter_map(|e| bounds(key_of(e)));
            (gone.collect(), Vec::new())
        };
        let mut after = (*info).clone();
        let held = Arc::make_mut(&mut after.intervals).to_mut();
        let mut sorted = gone.clone();
        sorted.sort_unstable();
        held.retain(|e| sorted.binary_search(e).is_err());
        held.extend(left.iter().copied());
        held.sort_unstable();
        if let Some(table) = self.table.clone() {
            self.ctx.cache.put_set(self.family, &table, after.into());
        }
        if info.auto_merge && !info.is_map() {
            self.ctx.purge = gone;
            self.ctx.rest = left;
            self.ctx.split = true;
        }
        Ok(())
    }
}
