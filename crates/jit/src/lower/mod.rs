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
use crate::lowering_ctx::{LoweringCtx, Registers};
use crate::tables::Tables;

pub(crate) use stateful::{cells_of, count, count_at};

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
    ctx: &mut LoweringCtx<'_, '_>,
    op: &Op,
    registers: &mut Registers,
    fail: Block,
    tables: &mut Tables,
) -> Flow {
    match op {
        Op::Immediate { dst, len, data } => load::immediate(ctx, *dst, *len, data, registers),
        Op::LoadLink { .. } | Op::LoadNetwork { .. } | Op::LoadTransport { .. } => {
            load::header(ctx, op, registers, fail)
        }
        Op::Meta { key, dst } => meta::get(ctx, op, *key, *dst, registers, fail),
        Op::MetaSet { key, src } => meta::set(ctx, op, *key, *src, registers, fail),
        Op::CmpWord { .. } => compare::word(ctx, op, registers, fail),
        Op::Cmp { .. } => compare::cmp(ctx, op, registers, fail),
        Op::Range { .. } => compare::range(ctx, op, registers, fail),
        Op::MaskXorWord { src, dst, mask, xor } => {
            bitwise::mask_xor(ctx, *src, *dst, 1, &[[*mask, 0, 0, 0], [*xor, 0, 0, 0]], registers)
        }
        Op::MaskXor { src, dst, words, mask_xor } => {
            bitwise::mask_xor(ctx, *src, *dst, *words, mask_xor, registers)
        }
        Op::Combine { op, src, other, dst, words } => {
            bitwise::combine(ctx, *op, [*src, *other, *dst], *words, registers)
        }
        Op::Lshift { src, dst, words, bits } => {
            bitwise::lshift(ctx, *src, *dst, *words, *bits, registers)
        }
        Op::Rshift { src, dst, words, bits } => {
            bitwise::rshift(ctx, *src, *dst, *words, *bits, registers)
        }
        Op::Byteorder { .. } => bitwise::byteorder(ctx, op, registers, fail),
        Op::Lookup { .. } => lookup::lookup(ctx, op, registers, fail, tables),
        Op::Counter(state) => stateful::counter(ctx, state),
        Op::Stateful(stateful) => stateful::run(ctx, op, stateful, registers, fail),
        Op::CtState { dst } => meta::ct_state(ctx, *dst, registers),
        Op::LookupDynamic { .. } => lookup::dynamic(ctx, op, registers, fail),
        // The interpreter's function.
        _ if op.info().decides => call::any_answered(ctx, op, registers),
        _ => call::any_or_break(ctx, op, registers, fail),
    }
}
