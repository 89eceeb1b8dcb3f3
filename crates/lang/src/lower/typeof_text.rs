//! What `typeof` was given, as sets list it.

use crate::ast::expr::{Expr, ExprKind};
use crate::keys;

/// The text.
pub(crate) fn typeof_text(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Concat(parts) => parts.iter().map(typeof_text).collect::<Vec<_>>().join(" . "),
        ExprKind::Payload(p) => match (p.proto, p.field) {
            (Some(proto), Some(field)) => format!("{} {}", proto.name, field.name),
            _ => String::new(),
        },
        ExprKind::Meta { key } if keys::meta_is_listed_unqualified(*key) => keys::meta(*key).name.to_owned(),
        ExprKind::Meta { key } => format!("meta {}", keys::meta(*key).name),
        ExprKind::Ct { key, .. } => format!("ct {}", keys::ct(*key).name),
        _ => String::new(),
    }
}
