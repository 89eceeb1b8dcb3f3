// SPDX-License-Identifier: Apache-2.0

//! What a ruleset needs of the path: the sum of what its expressions and objects need.

use penstock_program::Family;
pub use penstock_program::needs::{Needs, PerFamily};

use crate::model::{ChainType, Generation, ObjectValue, Rule};

/// What a generation needs, rules of tables that are not dormant left out: [`add_rule`].
pub(crate) fn apart_from_rules(generation: &Generation) -> Needs {
    let mut needs = Needs::default();
    for table in &generation.tables {
        let family = table.family;
        for chain in &table.chains {
            if chain.base.as_ref().is_some_and(|b| b.kind == ChainType::Nat) && !table.dormant {
                needs.nat.add(family);
            }
            for rule in chain.rules.iter().filter(|_| table.dormant) {
                add_rule(&mut needs, family, rule);
            }
        }
        for set in &table.sets {
            set.exprs.iter().for_each(|e| e.needs(family, &mut needs));
        }
        for object in &table.objects {
            add_object(&mut needs, family, &object.value);
        }
    }
    needs
}

/// What a generation needs.
pub fn of(generation: &Generation) -> Needs {
    let mut needs = apart_from_rules(generation);
    for table in generation.tables.iter().filter(|table| !table.dormant) {
        let rules = table.chains.iter().flat_map(|chain| &chain.rules);
        rules.for_each(|rule| add_rule(&mut needs, table.family, rule));
    }
    needs.complete();
    needs
}

/// Adds what a rule needs.
#[inline]
pub(crate) fn add_rule(needs: &mut Needs, family: Family, rule: &Rule) {
    rule.exprs.iter().for_each(|e| e.needs(family, needs));
}

/// Adds what an object needs.
fn add_object(needs: &mut Needs, family: Family, value: &ObjectValue) {
    match value {
        ObjectValue::CtHelper { .. }
        | ObjectValue::CtTimeout { .. }
        | ObjectValue::CtExpect { .. }
        | ObjectValue::Connlimit(_) => {
            needs.track(family);
        }
        ObjectValue::Synproxy(_) => {
            needs.track(family);
            needs.synproxy.add(family);
        }
        ObjectValue::Counter(_)
        | ObjectValue::Quota(_)
        | ObjectValue::Limit(_)
        | ObjectValue::SecMark(_)
        | ObjectValue::Tunnel(_) => {}
    }
}
