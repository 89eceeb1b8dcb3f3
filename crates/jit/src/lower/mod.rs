// SPDX-License-Identifier: Apache-2.0

//! Operations as machine code: one file per group, as in the interpreter, which says what each
//! means.

mod bitwise;
mod call;
mod compare;
mod key;
mod load;
mod lookup;
mod meta;
mod search;
mod stateful;

use penstock_program::image::LinkedVerdict;
use penstock_program::op::Op;

use crate::asm::{Block, Value};
use crate::frame::{Frame, Registers};
use crate::tables::Tables;

/// What follows an operation.
pub(crate) enum Flow {
    /// The next one. Where the rule ends, code has left.
    Next,
    /// The rule always ends here; code has left.
    Ended,
    /// Code has left to these blocks, where these verdicts follow.
    Verdicts(Vec<(Block, LinkedVerdict)>),
    /// The answer of the interpreter, of those in [`step`](crate::outcome::step).
    Step(Value),
}

/// Lowers an operation that is no verdict. Code leaves to `fail` where the rule ends.
pub(crate) fn lower(
    f: &mut Frame<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
    tables: &mut Tables,
) -> Flow {
    match op {
        Op::Immediate { dst, len, data } => load::immediate(f, *dst, *len, data, registers),
        Op::LoadLink { .. } | Op::LoadNetwork { .. } | Op::LoadTransport { .. } => {
            load::header(f, op, registers, fail)
        }
        Op::Meta { key, dst } => meta::get(f, op, *key, *dst, registers, fail),
        Op::MetaSet { key, src } => meta::set(f, op, *key, *src, registers, fail),
        Op::CmpWord { .. } => compare::word(f, op, registers, fail),
        Op::Cmp { .. } => compare::cmp(f, op, registers, fail),
        Op::Range { .. } => compare::range(f, op, registers, fail),
        Op::MaskXorWord { src, dst, mask, xor } => {
            bitwise::mask_xor(f, *src, *dst, 1, &[[*mask, 0, 0, 0], [*xor, 0, 0, 0]], registers)
        }
        Op::MaskXor { src, dst, words, mask_xor } => {
            bitwise::mask_xor(f, *src, *dst, *words, mask_xor, registers)
        }
        Op::Combine { op, src, other, dst, words } => {
            bitwise::combine(f, *op, [*src, *other, *dst], *words, registers)
        }
        Op::Lshift { src, dst, words, bits } => {
            bitwise::lshift(f, *src, *dst, *words, *bits, registers)
        }
        Op::Rshift { src, dst, words, bits } => {
            bitwise::rshift(f, *src, *dst, *words, *bits, registers)
        }
        Op::Byteorder { .. } => bitwise::byteorder(f, op, registers, fail),
        Op::Lookup { .. } => lookup::lookup(f, op, registers, fail, tables),
        Op::Counter(state) => stateful::counter(f, state),
        Op::Stateful(stateful) => stateful::run(f, op, stateful, registers, fail),
        Op::CtState { dst } => meta::ct_state(f, *dst, registers),
        // Statements of elements may answer in every way.
        Op::LookupDynamic { .. } => call::answered(f, f.helpers.lookup_dynamic, op, registers),
        // The interpreter's function.
        _ if op.info().decides => call::any_answered(f, op, registers),
        _ => call::any_or_break(f, op, registers, fail),
    }
}
