// SPDX-License-Identifier: Apache-2.0

//! What `reset` commands name.

use penstock_ruleset::model::{ElementValue, Family};
use penstock_ruleset::reset::{Reset, What};
use penstock_sets::Element;
use penstock_syntax::ast::cmd::{ObjKind, Target};

/// What a `reset` command names.
pub(super) fn reset_of(
    object: ObjKind,
    target: &Target,
    elements: &[Element<ElementValue>],
) -> Option<Reset> {
    let name = target.name.as_ref().map(|name| name.text.clone());
    let what = match object {
        ObjKind::Objects(kind) => What::Objects(kind, None),
        ObjKind::Object(kind) => What::Objects(kind, name),
        ObjKind::Rules => What::Rules(target.chain.as_ref().map(|chain| chain.text.clone()), None),
        ObjKind::Rule => {
            let chain = target.chain.as_ref().map(|chain| chain.text.clone());
            What::Rules(chain, target.handle.map(|handle| handle.value))
        }
        ObjKind::Set | ObjKind::Map => What::Elements(name?, None),
        ObjKind::Elements => {
            let keys = elements.iter().map(|e| (e.key.clone(), e.key_end.clone())).collect();
            What::Elements(name?, Some(keys))
        }
        _ => return None,
    };
    let table = target.table.as_ref().map(|table| table.text.clone());
    let family = target.family.or(table.is_some().then_some(Family::Ip));
    Some(Reset { family, table, what })
}
