// SPDX-License-Identifier: Apache-2.0

//! What `nft describe` says of types and expressions.

use std::fmt::Write;

use penstock_program::expr::{FIB_PRESENT, PayloadBase, RtKey};

use crate::ast::{Expr, ExprKind, Key};
use crate::datatype::symbols::{self, Base};
use crate::datatype::{ByteOrder, DataType, Type};
use crate::names::Names;

/// The answer for a type name.
pub fn describe_type(dtype: DataType, names: &dyn Names) -> String {
    let mut out = String::new();
    let _ = write!(out, "datatype {} ({})", dtype.name(), dtype.description());
    // Values in network order are shown as they lie in memory.
    let swapped = dtype.order() == ByteOrder::Big && dtype.size() == 16;
    finish(dtype, (dtype.size(), "bits"), dtype.size(), swapped, &mut out, names);
    out
}

/// Word for the kind of expression, its type, and its length in bits: what is known before
/// evaluation.
fn known(expr: &Expr) -> (&'static str, DataType, u32) {
    let given = (expr.dtype.base(), expr.len);
    let (kind, (dtype, len)) = match &expr.kind {
        ExprKind::Symbol { .. } => ("symbol", (DataType::Invalid, 0)),
        ExprKind::Payload(payload) => {
            let port = payload.base == PayloadBase::Transport
                && matches!((payload.offset, expr.len), (0 | 16, 16));
            let raw = if port { DataType::InetService } else { DataType::RawInteger };
            ("payload", payload.field.map_or((raw, expr.len), |f| (f.dtype, f.len)))
        }
        ExprKind::Exthdr(exthdr) => ("exthdr", exthdr.field.map_or(given, |f| (f.dtype, f.len))),
        // Which IP it is of, another match says.
        ExprKind::Key(Key::Rt { key: RtKey::Nexthop4 })
            if expr.dtype == Type::Base(DataType::Invalid) =>
        {
            ("rt", (DataType::Invalid, 0))
        }
        ExprKind::Key(Key::Fib { flags, .. }) if flags & FIB_PRESENT != 0 => {
            ("fib", (DataType::Boolean, 8))
        }
        ExprKind::Key(key) => {
            let value = key.value_type();
            let word = if let Key::Rt { .. } = key { "rt" } else { key.word() };
            (word, (value.dtype, value.len))
        }
        ExprKind::Hash { .. } => ("hash", (DataType::Integer, 32)),
        ExprKind::Value(_) => ("value", given),
        ExprKind::Variable { .. }
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
        | ExprKind::Unary { .. }
        | ExprKind::Binop { .. }
        | ExprKind::Relational { .. }
        | ExprKind::FlagCmp { .. } => ("expression", given),
    };
    (kind, dtype, len)
}

/// The answer for an expression, as it was parsed.
pub fn describe_expr(expr: &Expr, names: &dyn Names) -> String {
    let (kind, dtype, bits) = known(expr);
    let mut out = String::new();
    let _ = write!(out, "{kind} expression, datatype {} ({})", dtype.name(), dtype.description());
    // nft ends the line only after what follows.
    if dtype == DataType::Invalid {
        return out;
    }
    // Text is measured in characters.
    let (count, unit) = if dtype.is_string() { (bits / 8, "characters") } else { (bits, "bits") };
    finish(dtype, (count, unit), bits, false, &mut out, names);
    out
}

/// Base types, length and symbols.
fn finish(
    dtype: DataType,
    (count, unit): (u32, &str),
    len: u32,
    swapped: bool,
    out: &mut String,
    names: &dyn Names,
) {
    let mut base = dtype.base();
    if let Some(first) = base {
        let _ = write!(out, " (basetype {}", plain_name(first));
        base = first.base();
        while let Some(next) = base {
            let _ = write!(out, ", {}", plain_name(next));
            base = next.base();
        }
        out.push(')');
    }
    let _ = writeln!(out, ", {count} {unit}");
    if dtype == DataType::InetProtocol {
        for number in 0..=u8::MAX {
            if let Some(name) = names.protocol_name(number) {
                let _ = writeln!(out, "\t{name:<30}\t{number}");
            }
        }
        return;
    }
    let Some(table) = symbols::of(dtype) else { return };
    let base = match table.base {
        Base::Hexadecimal => "hexadecimal",
        Base::Decimal => "decimal",
    };
    let _ = writeln!(out, "\npre-defined symbolic constants (in {base}):");
    let digits = len.div_ceil(8) as usize * 2;
    for (name, value) in table.list {
        let value = if swapped { u32::from((*value as u16).swap_bytes()) } else { *value };
        let _ = match table.base {
            Base::Hexadecimal => writeln!(out, "\t{name:<30}\t0x{value:0digits$x}"),
            Base::Decimal => writeln!(out, "\t{name:<30}\t{value:>20}"),
        };
    }
}

/// nft shows base types by their descriptions.
fn plain_name(dtype: DataType) -> &'static str {
    dtype.description()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::NoNames;

    #[test]
    fn describe_tells_type_base_length_and_symbols() {
        let text = describe_type(DataType::ArpOp, &NoNames);
        assert!(text.starts_with("datatype arp_op (ARP operation) (basetype integer), 16 bits\n\npre-defined symbolic constants (in hexadecimal):\n"));
        assert!(text.contains("\tinrequest                     \t0x0800\n"), "{text}");
        let text = describe_type(DataType::CtState, &NoNames);
        assert!(text.starts_with(
            "datatype ct_state (conntrack state) (basetype bitmask, integer), 32 bits\n"
        ));
        assert!(text.ends_with("\tuntracked                     \t0x00000040\n"), "{text}");
        let text = describe_type(DataType::EtherAddr, &NoNames);
        assert_eq!(
            text,
            "datatype ether_addr (Ethernet address) (basetype link layer address, integer), 48 bits\n"
        );
        let text = describe_type(DataType::CtDir, &NoNames);
        assert!(text.ends_with("\toriginal                      \t                   0\n\treply                         \t                   1\n"));
    }
}
