// SPDX-License-Identifier: Apache-2.0

//! Masks and shifts: fields that are parts of bytes, prefixes, tests of flags.

use penstock_syntax::ast::expr::{BinOp, Payload, RelOp};
use penstock_syntax::ast::{Expr, ExprKind, Key};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::exthdr;

use super::constant;
use super::context::Context;
use super::{fields, raw, set_type};

/// What a relation becomes.
pub(super) enum Folded {
    /// It is done.
    Done(Expr),
    /// It is a match of a header field, to be named and looked at as such.
    Payload {
        /// As before.
        op: RelOp,
        /// The field.
        left: Expr,
        /// Shifted to it.
        right: Expr,
    },
}

fn relational(op: RelOp, left: Expr, right: Expr) -> Expr {
    raw(ExprKind::Relational { op, left: Box::new(left), right: Box::new(right) }, 1)
}

/// Folds a mask on the left side into a flag test, a prefix, or a field.
pub(super) fn fold(context: &Context, op: RelOp, left: Expr, right: Expr) -> Folded {
    let ExprKind::Binop { op: BinOp::And, left: inner, right: mask } = &left.kind else {
        return Folded::Done(relational(op, left, right));
    };
    let equality = matches!(op, RelOp::Eq | RelOp::Neq);
    let flags = right.dtype.base().is_bitmask();
    if equality && flags {
        match (&right.kind, &mask.kind) {
            (ExprKind::Value(0), _) => {
                let op = if op == RelOp::Neq { RelOp::Implicit } else { RelOp::Neg };
                return Folded::Done(relational(op, (**inner).clone(), or_to_list(mask)));
            }
            (ExprKind::Value(value), ExprKind::Value(mask)) if value == mask => {}
            (ExprKind::Value(_) | ExprKind::Binop { .. }, _) => {
                let kind = ExprKind::FlagCmp {
                    op,
                    expr: inner.clone(),
                    value: Box::new(or_to_list(&right)),
                    mask: Box::new(or_to_list(mask)),
                };
                return Folded::Done(raw(kind, 1));
            }
            _ => {}
        }
        return Folded::Done(relational(op, left, right));
    }
    if let (ExprKind::Value(mask), ExprKind::Value(_)) = (&mask.kind, &right.kind)
        && fields::has_prefixes(inner.dtype.base())
        && let Some(len) = mask_length(*mask, inner.len)
    {
        let dtype = right.dtype.clone();
        let order = right.order;
        let bits = inner.len;
        let prefix = ExprKind::Prefix { base: Box::new(right), len };
        let prefix = Expr::typed(prefix, left.loc, dtype, order, bits);
        return Folded::Done(relational(op, (**inner).clone(), prefix));
    }
    let mut left = left;
    let mut right = right;
    let is_payload = matches!(&left.kind, ExprKind::Binop { left, .. } if matches!(left.kind, ExprKind::Payload(_)));
    match fold_field(context, &mut left) {
        None => Folded::Done(relational(op, left, right)),
        Some(shift) => {
            shift_down(&mut right, shift, left.len);
            if !matches!(right.kind, ExprKind::Set { .. }) {
                retype(&mut right, &left.dtype, left.order);
            }
            if is_payload {
                Folded::Payload { op, left, right }
            } else {
                Folded::Done(relational(op, left, right))
            }
        }
    }
}

/// Whether these are bits of the packet under a mask, perhaps with their bytes turned in between.
pub(super) fn is_masked_bits(expr: &Expr) -> bool {
    if let ExprKind::Unary { expr, .. } = &expr.kind {
        return is_masked_bits(expr);
    }
    let ExprKind::Binop { op: BinOp::And, left, right } = &expr.kind else { return false };
    matches!(left.kind, ExprKind::Payload(_) | ExprKind::Exthdr(_)) && right.value().is_some()
}

/// If this is `bits & mask` where the mask picks out a field: the field, and by how many bits
/// constants that it is compared with must be shifted down.
pub(super) fn fold_field(context: &Context, expr: &mut Expr) -> Option<u32> {
    let (shifted, masked) = if let ExprKind::Binop { op: BinOp::Rshift, left, .. } = &expr.kind {
        (true, &**left)
    } else {
        (false, &*expr)
    };
    let ExprKind::Binop { op: BinOp::And, left, right } = &masked.kind else { return None };
    let ExprKind::Value(mask) = right.kind else { return None };
    let (field, shift) = match &left.kind {
        ExprKind::Payload(payload) => context.field_under(payload, left.len, mask)?,
        ExprKind::Exthdr(exthdr) if mask != 0 => {
            let shift = mask.trailing_zeros();
            let width = 128 - mask.leading_zeros() - shift;
            let offset = exthdr.offset + left.len.checked_sub(shift + width)?;
            let (desc, field) = exthdr::find_field(exthdr.op, exthdr.raw_type, offset, width)?;
            let mut found = (**left).clone();
            if let ExprKind::Exthdr(e) = &mut found.kind {
                e.desc = Some(desc);
                e.field = Some(field);
                e.offset = offset;
                e.raw = false;
            }
            found.dtype = Type::Base(field.dtype);
            found.len = width;
            (found, shift)
        }
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::Value(_)
        | ExprKind::String(_)
        | ExprKind::Verdict(_)
        | ExprKind::Prefix { .. }
        | ExprKind::Range { .. }
        | ExprKind::Concat(_)
        | ExprKind::List(_)
        | ExprKind::Set { .. }
        | ExprKind::SetElem(_)
        | ExprKind::CatchAll
        | ExprKind::Mapping { .. }
        | ExprKind::Map { .. }
        | ExprKind::SetRef { .. }
        | ExprKind::Exthdr(_)
        | ExprKind::Key(_)
        | ExprKind::Hash { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binop { .. }
        | ExprKind::Relational { .. }
        | ExprKind::FlagCmp { .. } => return None,
    };
    *expr = field;
    Some(if shifted { 0 } else { shift })
}

/// Shifts constants down, in anonymous sets and maps their keys.
pub(super) fn shift_down(expr: &mut Expr, shift: u32, len: u32) {
    match &mut expr.kind {
        ExprKind::Value(value) => {
            *value = value.checked_shr(shift).unwrap_or(0);
            expr.len = len;
        }
        ExprKind::Range { left, right } => {
            shift_down(left, shift, len);
            shift_down(right, shift, len);
            expr.len = len;
        }
        ExprKind::Prefix { base, .. } => shift_down(base, shift, len),
        ExprKind::SetElem(elem) => shift_down(&mut elem.key, shift, len),
        ExprKind::Mapping { left, .. } => shift_down(left, shift, len),
        ExprKind::Set { elements, .. } => {
            elements.iter_mut().for_each(|e| shift_down(e, shift, len))
        }
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::String(_)
        | ExprKind::Verdict(_)
        | ExprKind::Concat(_)
        | ExprKind::List(_)
        | ExprKind::CatchAll
        | ExprKind::Map { .. }
        | ExprKind::SetRef { .. }
        | ExprKind::Payload(_)
        | ExprKind::Exthdr(_)
        | ExprKind::Key(_)
        | ExprKind::Hash { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binop { .. }
        | ExprKind::Relational { .. }
        | ExprKind::FlagCmp { .. } => {}
    }
}

/// Gives constants another type with equal numbers.
fn retype(expr: &mut Expr, dtype: &Type, order: ByteOrder) {
    match &mut expr.kind {
        ExprKind::Value(_) => {}
        ExprKind::Range { left, right } => {
            retype(left, dtype, order);
            retype(right, dtype, order);
        }
        ExprKind::Prefix { base, .. } => retype(base, dtype, order),
        ExprKind::SetElem(elem) => retype(&mut elem.key, dtype, order),
        ExprKind::Mapping { left, .. } => retype(left, dtype, order),
        ExprKind::Set { elements, .. } => elements.iter_mut().for_each(|e| retype(e, dtype, order)),
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::String(_)
        | ExprKind::Verdict(_)
        | ExprKind::Concat(_)
        | ExprKind::List(_)
        | ExprKind::CatchAll
        | ExprKind::Map { .. }
        | ExprKind::SetRef { .. }
        | ExprKind::Payload(_)
        | ExprKind::Exthdr(_)
        | ExprKind::Key(_)
        | ExprKind::Hash { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binop { .. }
        | ExprKind::Relational { .. }
        | ExprKind::FlagCmp { .. } => return,
    }
    expr.dtype = dtype.clone();
    expr.order = order;
}

/// nft lists answers whether an extension header or option is there as numbers where they are
/// elements of sets.
pub(super) fn number_presence(left: &Expr, right: &mut Expr) {
    let number = |part: &Expr| Expr { dtype: Type::Base(DataType::Integer), ..part.clone() };
    match (&left.kind, &mut right.kind) {
        (ExprKind::Exthdr(_), ExprKind::Set { .. }) if is_presence(left) => {
            retype(right, &Type::Base(DataType::Integer), left.order);
        }
        (ExprKind::Concat(parts), ExprKind::Set { elements, .. }) => {
            for (i, part) in parts.iter().enumerate().filter(|(_, p)| is_presence(p)) {
                elements.iter_mut().for_each(|e| retype_part(e, i, &number(part)));
            }
        }
        _ => {}
    }
}

/// Whether this asks if an extension header or option is there.
fn is_presence(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Exthdr(exthdr) if exthdr.present)
}

/// Orderings of flags that a register holds in the order of the machine: nft compares their bytes
/// turned, and so finds no names for them.
pub(super) fn number_flags(op: RelOp, left: &Expr, right: &mut Expr) {
    let ordering = matches!(op, RelOp::Lt | RelOp::Lte | RelOp::Gt | RelOp::Gte);
    if ordering && matches!(left.dtype, Type::Base(DataType::CtState | DataType::CtStatus)) {
        number(right);
    }
    let numbered = [DataType::ArpHrd, DataType::FibAddr].map(Type::Base).contains(&left.dtype);
    if ordering
        && numbered
        && matches!(left.kind, ExprKind::Key(Key::Meta { .. }) | ExprKind::Key(Key::Fib { .. }))
    {
        right.dtype = Type::Base(DataType::Integer);
    }
    fn number(flags: &mut Expr) {
        flags.dtype = Type::Base(DataType::Bitmask);
        if let ExprKind::Binop { left, right, .. } = &mut flags.kind {
            number(left);
            number(right);
        }
    }
}

/// Gives one field of a constant concatenation the type of a part on the left.
fn retype_part(element: &mut Expr, index: usize, part: &Expr) {
    if let ExprKind::SetElem(elem) = &mut element.kind {
        retype_part(&mut elem.key, index, part);
    } else if let ExprKind::Mapping { left, .. } = &mut element.kind {
        retype_part(left, index, part);
    } else if let ExprKind::Concat(fields) = &mut element.kind
        && let Some(field) = fields.get_mut(index)
    {
        retype(field, &part.dtype, part.order);
    }
}

/// Gives the parts of a constant concatenation the types of those on the left.
pub(super) fn retype_concat(left: &Expr, right: &mut Expr) {
    if let (ExprKind::Concat(left), ExprKind::Concat(right)) = (&left.kind, &mut right.kind) {
        for (left, right) in left.iter().zip(right) {
            set_type(right, &left.dtype, left.order);
        }
    }
}

/// Fewer bytes than the left side has are the start of it.
pub(super) fn widen(left: &Expr, right: &mut Expr) {
    let ExprKind::Value(value) = right.kind else { return };
    let dtype = left.dtype.base();
    if right.len >= left.len
        || left.len > 128
        || right.order != ByteOrder::Big
        || !fields::has_prefixes(dtype)
    {
        return;
    }
    let len = right.len;
    let mut base = right.clone();
    base.kind = ExprKind::Value(value << (left.len - len));
    base.len = left.len;
    right.kind = ExprKind::Prefix { base: Box::new(base), len };
    right.len = left.len;
}

/// Length of the prefix that a mask of so many bits is.
fn mask_length(mask: u128, bits: u32) -> Option<u32> {
    if bits == 0 || bits > 128 {
        return None;
    }
    if mask == 0 {
        return Some(0);
    }
    let top = mask << (128 - bits);
    let ones = top.leading_ones();
    (top.checked_shl(ones).unwrap_or(0) == 0).then_some(ones)
}

/// Flags joined by `|` as a list, in order.
pub(super) fn or_to_list(expr: &Expr) -> Expr {
    fn collect(expr: &Expr, list: &mut Vec<Expr>) {
        if let ExprKind::Binop { op: BinOp::Or, left, right } = &expr.kind {
            collect(left, list);
            collect(right, list);
        } else {
            list.push(expr.clone());
        }
    }
    let mut list = Vec::new();
    collect(expr, &mut list);
    match list.pop() {
        Some(only) if list.is_empty() => only,
        Some(last) => {
            list.push(last);
            let mut whole = expr.clone();
            whole.kind = ExprKind::List(list);
            whole
        }
        None => expr.clone(),
    }
}

/// Turns several flags into an `|` of single ones.
pub(super) fn flags_to_or(expr: &mut Expr, value: u128) {
    if value.count_ones() < 2 {
        return;
    }
    let bit = |n: u32| {
        let mut flag = expr.clone();
        flag.kind = ExprKind::Value(1 << n);
        flag
    };
    let joined = (0..128).filter(|n| value >> n & 1 != 0).map(bit).reduce(|left, right| {
        let mut or = expr.clone();
        or.kind = ExprKind::Binop { op: BinOp::Or, left: Box::new(left), right: Box::new(right) };
        or
    });
    if let Some(joined) = joined {
        *expr = joined;
    }
}

/// Text: without a terminating zero it is a prefix.
pub(super) fn text(expr: &mut Expr, value: u128) {
    let len = (expr.len / 8).min(16) as usize;
    let bytes = value.to_le_bytes();
    let bytes = &bytes[..len];
    let end = bytes.iter().position(|b| *b == 0);
    let mut text = String::from_utf8_lossy(&bytes[..end.unwrap_or(len)]).into_owned();
    if end.is_none() {
        text.push('*');
    } else if text.ends_with('*') {
        text.insert(text.len() - 1, '\\');
    }
    expr.kind = ExprKind::String(text.into());
}

/// The field that a write of whole bytes changes, where the rest of them is read before and written
/// back.
pub(super) fn written_field(
    context: &Context,
    target: &Expr,
    value: &Expr,
) -> Option<(Expr, Expr)> {
    let (masked, set) = if let ExprKind::Binop { op: BinOp::Or, left, right } = &value.kind {
        (&**left, right.value()?)
    } else {
        (value, 0)
    };
    let all = if target.len >= 128 { u128::MAX } else { (1 << target.len) - 1 };
    let cleared = if let ExprKind::Payload(_) = &masked.kind {
        // Nothing is cleared where all bits of the field are set.
        0
    } else if let ExprKind::Binop { op: BinOp::And, left, right } = &masked.kind
        && matches!(left.kind, ExprKind::Payload(_))
    {
        all & !right.value()?
    } else {
        return None;
    };
    let ExprKind::Payload(payload) = &target.kind else { return None };
    // Bits that one operator changes are some of a field that is computed from itself.
    let single = cleared == 0 || set == 0;
    let (field, shift) = match context.field_under(payload, target.len, cleared | set) {
        Some(found) => found,
        None if single && context.field_around(payload, target.len, cleared | set).is_some() => {
            return None;
        }
        None => raw_field(payload, target.len, cleared | set)?,
    };
    let mut result = constant(&[]);
    result.kind = ExprKind::Value(set >> shift);
    result.dtype = field.dtype.clone();
    result.order = field.order;
    result.len = field.len;
    Some((field, result))
}

/// The field that a write of whole bytes computes from itself: the field, and it under the
/// operators.
pub(super) fn changed_field(
    context: &Context,
    target: &Expr,
    value: &Expr,
) -> Option<(Expr, Expr)> {
    let ExprKind::Payload(payload) = &target.kind else { return None };
    let all = if target.len >= 128 { u128::MAX } else { (1 << target.len) - 1 };
    let mut operators = Vec::new();
    let mut source = value;
    while let ExprKind::Binop { op: op @ (BinOp::And | BinOp::Or | BinOp::Xor), left, right } =
        &source.kind
    {
        operators.push((*op, right.value()?));
        source = left;
    }
    let ExprKind::Payload(read) = &source.kind else { return None };
    if (read.base, read.offset, source.len) != (payload.base, payload.offset, target.len) {
        return None;
    }
    let touched = operators.iter().fold(0, |bits, (op, by)| match op {
        BinOp::And => bits | all & !by,
        _ => bits | by,
    });
    let (field, shift) = context.field_around(payload, target.len, touched)?;
    let mut changed = field.clone();
    for (op, by) in operators.into_iter().rev() {
        let mut constant = constant(&[]);
        constant.kind = ExprKind::Value(by >> shift & ((1 << field.len) - 1));
        constant.dtype = field.dtype.clone();
        constant.order = field.order;
        constant.len = field.len;
        let kind = ExprKind::Binop { op, left: Box::new(changed), right: Box::new(constant) };
        changed = Expr::typed(kind, target.loc, field.dtype.clone(), field.order, field.len);
    }
    Some((field, changed))
}

/// Bits without a name, where they are in one piece.
fn raw_field(payload: &Payload, len: u32, mask: u128) -> Option<(Expr, u32)> {
    if mask == 0 {
        return None;
    }
    let shift = mask.trailing_zeros();
    let width = 128 - mask.leading_zeros() - shift;
    if mask.count_ones() != width {
        return None;
    }
    let offset = payload.offset + len.checked_sub(shift + width)?;
    Some((fields::raw_payload(payload.base, offset, width), shift))
}
