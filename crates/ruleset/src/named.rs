// SPDX-License-Identifier: Apache-2.0

//! What rules name that is in no table.

use penstock_program::expr::Expr;

use crate::globals::Named;
use crate::model::{Generation, ObjectValue, Rule};

impl Rule {
    /// What it names that is in no table.
    pub(crate) fn named(&self) -> impl Iterator<Item = Named<'_>> {
        let extensions = self.exprs.iter().filter_map(|expr| match expr {
            Expr::Xt(extension) => Some(extension),
            _ => None,
        });
        extensions.flat_map(|extension| extension.named())
    }
}

impl Generation {
    /// How many expressions of rules, and objects, name something.
    pub fn uses_of(&self, named: Named<'_>) -> usize {
        let objects = self.tables.iter().flat_map(|table| &table.objects);
        let names = |value: &ObjectValue| match value {
            ObjectValue::CtHelper { helper, .. } => named == Named::Helper(helper),
            _ => false,
        };
        let objects = objects.filter(|object| names(&object.value)).count();
        let chains = self.tables.iter().flat_map(|table| &table.chains);
        let rules = chains.flat_map(|chain| &chain.rules);
        rules.flat_map(|rule| rule.named()).filter(|used| *used == named).count() + objects
    }
}
