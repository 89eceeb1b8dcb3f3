// SPDX-License-Identifier: Apache-2.0

//! What the headers of a packet say before it is its turn.

use penstock_program::image::LinkedValue;
use penstock_program::op::Op;
use penstock_sets::Set;

/// Whether the headers of a packet as it arrived say what an operation will come to.
pub(crate) fn can_precheck(op: &Op) -> bool {
    let silent = |set: &Set<LinkedValue>| {
        set.iter_unordered().all(|e| e.value.statements.is_empty()) && !set.may_expire()
    };
    op.info().precheck && op.fixed_set().is_none_or(silent)
}
