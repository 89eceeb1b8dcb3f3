// SPDX-License-Identifier: Apache-2.0

//! Elements that commands add to sets, delete or ask for.

use std::sync::Arc;

use penstock_syntax::ast::cmd::Target;
use penstock_syntax::ast::expr::key_of;
use penstock_syntax::ast::{Expr, ExprKind};

use crate::cache::SetInfo;
use crate::eval::intervals::{self, bounds};
use crate::eval::{Eval, Result, error};

impl Eval<'_, '_> {
    /// The set that elements are for.
    pub(crate) fn set_of_elements(
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

    pub(crate) fn elements_for(&mut self, elements: &mut Expr, info: &Arc<SetInfo>) -> Result {
        self.set = Some(info.clone());
        self.expected = info.key.expected();
        let evaluated = self.expr(elements);
        self.set = None;
        evaluated
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
