// SPDX-License-Identifier: Apache-2.0

//! What the next generation takes over of the operations of this one: rules that are the same, in
//! chains that have what they refer to under the same numbers, are copied in place of being linked
//! again. So a commit that changes one rule of many touches the memory of no other rule.

use std::ops::Range;
use std::sync::Arc;

use penstock_program::image::{ChainIndex, Image, LinkedRule, RuleName};

use crate::model::{Chain, ObjectValue, Rule, Table};
use crate::needs::Needs;

/// A table as it was linked.
#[derive(Debug)]
pub(super) struct LinkedBefore {
    pub(super) table: Arc<Table>,
    /// Number of its first chain in the image.
    pub(super) first_chain: usize,
    /// Number of its first flowtable.
    pub(super) first_flowtable: usize,
    /// What the rules of each of its chains need.
    pub(super) needs: Vec<Needs>,
}

/// A chain of the generation before, and its place there.
#[derive(Clone, Copy)]
pub(super) struct ChainBefore<'b> {
    pub(super) chain: &'b Arc<Chain>,
    pub(super) needs: &'b Needs,
    image: &'b Image,
    index: usize,
}

/// Whether all of the old ones are among the new ones, in their order.
fn are_among<T>(old: &[Arc<T>], new: &[Arc<T>]) -> bool {
    let mut new = new.iter();
    old.iter().all(|o| new.any(|n| Arc::ptr_eq(o, n)))
}

impl LinkedBefore {
    /// Whether operations of this table mean the same in the next one, which begins at these
    /// numbers.
    pub(super) fn is_same_for(
        &self,
        table: &Table,
        first_chain: usize,
        first_flowtable: usize,
    ) -> bool {
        let old = &*self.table;
        let is_same_chain = |(old, new): (&Arc<Chain>, &Arc<Chain>)| {
            old.handle == new.handle && old.name == new.name
        };
        // Linking again gives others.
        let is_ct = |object: &ObjectValue| {
            matches!(
                object,
                ObjectValue::CtHelper { .. }
                    | ObjectValue::CtTimeout { .. }
                    | ObjectValue::CtExpect { .. }
            )
        };
        (old.family, old.handle) == (table.family, table.handle)
            && (self.first_chain, self.first_flowtable) == (first_chain, first_flowtable)
            && old.chains.len() <= table.chains.len()
            && old.chains.iter().zip(&table.chains).all(is_same_chain)
            && old.flowtables.len() <= table.flowtables.len()
            && old.flowtables.iter().zip(&table.flowtables).all(|(old, new)| old.name == new.name)
            && are_among(&old.sets, &table.sets)
            && are_among(&old.objects, &table.objects)
            && !table.objects.iter().any(|o| is_ct(&o.value))
    }

    /// The chain with a number among those of the table.
    pub(super) fn chain<'b>(&'b self, number: usize, image: &'b Image) -> Option<ChainBefore<'b>> {
        let (chain, needs) = (self.table.chains.get(number)?, self.needs.get(number)?);
        Some(ChainBefore { chain, needs, image, index: self.first_chain + number })
    }
}

impl ChainBefore<'_> {
    /// How many rules at the beginning, and at the end, are those of another list.
    pub(super) fn same_as(&self, rules: &[Arc<Rule>]) -> (usize, usize) {
        let old = &self.chain.rules[..];
        let same = |(a, b): &(&Arc<Rule>, &Arc<Rule>)| Arc::ptr_eq(a, b);
        let start = old.iter().zip(rules).take_while(same).count();
        let end =
            old[start..].iter().rev().zip(rules[start..].iter().rev()).take_while(same).count();
        (start, end)
    }

    /// Appends some of its rules to those of a chain.
    pub(super) fn copy(&self, which: Range<usize>, chain: ChainIndex, image: &mut Image) {
        let Some(place) = self.image.chains.get(self.index) else { return };
        let first = place.first as usize;
        let which = first + which.start..first + which.end;
        let Some(rules @ [begin, .., end] | rules @ [begin @ end]) =
            self.image.rules.get(which.clone())
        else {
            return;
        };
        let at = image.ops.len() as u32;
        image.ops.extend_from_slice(&self.image.ops[begin.first as usize..end.end as usize]);
        let moved = |n: u32| n - begin.first + at;
        image
            .rules
            .extend(rules.iter().map(|r| LinkedRule { first: moved(r.first), end: moved(r.end) }));
        let names = &self.image.rule_names[which];
        image.rule_names.extend(names.iter().map(|name| RuleName { chain, handle: name.handle }));
    }
}
