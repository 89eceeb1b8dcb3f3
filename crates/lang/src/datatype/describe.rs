//! What `nft describe` says of types and expressions.

use std::fmt::Write;

use crate::ast::expr::{ByteOrder, Expr, ExprKind};
use crate::datatype::symbols::{self, Base};
use crate::datatype::{DataType, Type};
use crate::names::Names;

/// The answer for a type name.
pub fn describe_type(dtype: DataType, names: &dyn Names) -> String {
    let mut out = String::new();
    let _ = write!(out, "datatype {} ({})", dtype.name(), dtype.description());
    finish(dtype, dtype.size(), "bits", dtype.size(), &mut out, names);
    out
}

/// The answer for an expression, evaluated so far that its type is known.
pub fn describe_expr(expr: &Expr, names: &dyn Names) -> String {
    let kind = match &expr.kind {
        ExprKind::Symbol { .. } => "symbol",
        ExprKind::Payload(_) => "payload",
        ExprKind::Exthdr(_) => "exthdr",
        ExprKind::Meta { .. } => "meta",
        ExprKind::Ct { .. } => "ct",
        ExprKind::Rt { .. } => "rt",
        ExprKind::Fib { .. } => "fib",
        ExprKind::Socket { .. } => "socket",
        ExprKind::Osf { .. } => "osf",
        ExprKind::Xfrm { .. } => "xfrm",
        ExprKind::Tunnel { .. } => "tunnel",
        ExprKind::Numgen { .. } => "numgen",
        ExprKind::Hash { .. } => "hash",
        ExprKind::Value(_) => "value",
        _ => "expression",
    };
    let mut out = String::new();
    let dtype = match &expr.dtype {
        Type::Base(dtype) => *dtype,
        Type::Concat(_) => DataType::Invalid,
    };
    let _ = write!(out, "{kind} expression, datatype {} ({})", dtype.name(), dtype.description());
    if dtype == DataType::Invalid {
        out.push('\n');
        return out;
    }
    // Text is measured in characters.
    let (count, unit) = if dtype.is_string() { (expr.len / 8, "characters") } else { (expr.len, "bits") };
    finish(dtype, count, unit, expr.len, &mut out, names);
    out
}

/// Base types, length and symbols.
fn finish(dtype: DataType, count: u32, unit: &str, len: u32, out: &mut String, names: &dyn Names) {
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
        // Values in network order are shown as they lie in memory.
        let value = match (dtype.order(), len) {
            (ByteOrder::Big, 16) => u32::from(u16::from_be_bytes([*value as u8, (*value >> 8) as u8])),
            _ => *value,
        };
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
