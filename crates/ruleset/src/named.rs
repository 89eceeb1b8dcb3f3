// SPDX-License-Identifier: Apache-2.0

//! What rules name that is in no table.

use penstock_program::expr::Expr;

use crate::globals::Named;
use crate::model::{Generation, Rule};

impl Rule {
    /// What it names that is in no table.
    pub(crate) fn named(&self) -> impl Iterator<Item = Named<'_>> {
        self.exprs.iter().filter_map(|expr| {
            let Expr::Xt(extension) = expr else { return None };
            extension.named()
        })
    }
}

impl Generation {
    /// How many expressions of rules name something.
    pub fn uses_of(&self, named: Named<'_>) -> usize {
        let chains = self.tables.iter().flat_map(|table| &table.chains);
        let rules = chains.flat_map(|chain| &chain.rules);
        rules.flat_map(|rule| rule.named()).filter(|used| *used == named).count()
    }
}
