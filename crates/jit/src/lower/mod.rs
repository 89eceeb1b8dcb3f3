//! Operations as machine code: one file per group, as in the interpreter, which says what each means.

mod bitwise;
mod call;
mod compare;
mod load;
mod lookup;
mod meta;
mod stateful;

use penstock_program::image::{LinkedVerdict, Op};

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
        Op::MetaSet { key, src } => meta::set(f, op, *key, *src, registers),
        Op::CmpWord { src, equal, mask, data } => {
            compare::word(f, *src, *equal, *mask, *data, registers, fail)
        }
        Op::Cmp { op: cmp, src, len, data } => compare::cmp(f, op, *cmp, *src, *len, data, registers, fail),
        Op::Range { inside, src, len, ends } => {
            compare::range(f, op, *inside, *src, *len, ends, registers, fail)
        }
        Op::MaskXorWord { src, dst, mask, xor } => {
            bitwise::mask_xor(f, *src, *dst, 1, &[[*mask, 0, 0, 0], [*xor, 0, 0, 0]], registers)
        }
        Op::MaskXor { src, dst, words, mask_xor } => {
            bitwise::mask_xor(f, *src, *dst, *words, mask_xor, registers)
        }
        Op::Lshift { src, dst, words, bits } => bitwise::lshift(f, *src, *dst, *words, *bits, registers),
        Op::Rshift { src, dst, words, bits } => bitwise::rshift(f, *src, *dst, *words, *bits, registers),
        Op::Byteorder { src, dst, len, size } => {
            bitwise::byteorder(f, op, *src, *dst, *len, *size, registers, fail)
        }
        Op::Lookup { .. } => lookup::lookup(f, op, registers, fail, tables),
        Op::LookupDynamic { .. } => call::frequent(f, f.helpers.lookup_dynamic, op, registers, fail),
        Op::Counter(state) => stateful::counter(f, state),
        Op::Stateful(_) => call::frequent(f, f.helpers.stateful, op, registers, fail),
        // The interpreter's function, which asks nobody.
        Op::LoadInner { .. }
        | Op::InTunnel(_)
        | Op::SetUpdate(_)
        | Op::ObjectMap { .. }
        | Op::Exthdr { .. }
        | Op::NumgenInc { .. }
        | Op::Jhash { .. }
        | Op::Symhash { .. } => call::silent(f, op, registers, fail),
        // The same, and the packet's bytes are changed.
        Op::PayloadSet { .. } | Op::TcpOptionSet { .. } | Op::TcpOptionReset { .. } => {
            call::changing(f, op, registers)
        }
        // The interpreter's function, which asks the outside.
        Op::Log(_)
        | Op::NumgenRandom { .. }
        | Op::Fib { .. }
        | Op::Rt { .. }
        | Op::Reject(_)
        | Op::Dup { .. }
        | Op::Fwd { .. }
        | Op::Verdict(_) => call::asking(f, op, registers),
    }
}
