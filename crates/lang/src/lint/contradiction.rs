// SPDX-License-Identifier: Apache-2.0

//! Matches of a rule that exclude each other, and those that its other matches imply.

use penstock_program::expr::{MetaKey, PayloadBase};
use penstock_ruleset::model::Family;
use penstock_syntax::ast::expr::RelOp;
use penstock_syntax::ast::{Expr, ExprKind, Key};
use penstock_syntax::proto;
use penstock_syntax::source::Loc;

use crate::eval::field_expr;
use crate::selector::{Match, Says, overlap};

/// Where two matches of a rule stand that no packet passes both of: the same selector with values
/// of which none is in both.
pub(super) fn contradiction(
    matches: &[Match],
    places: &[Loc],
    moves_headers: impl Fn(&Expr) -> bool,
) -> Option<(Loc, Loc)> {
    // The same words may ask for the fields of several headers then.
    if matches.iter().any(|found| moves_headers(&found.selector)) {
        return None;
    }
    matches.iter().enumerate().find_map(|(n, second)| {
        let mut earlier = matches.iter().take(n);
        let first = earlier.position(|first| {
            first.selector == second.selector
                && match (first.values(), second.values()) {
                    (Some(a), Some(b)) => !a.iter().any(|a| b.iter().any(|b| overlap(a, b))),
                    (None, _) | (_, None) => false,
                }
        })?;
        Some((*places.get(first)?, *places.get(n)?))
    })
}

/// What a match of a transport header's field says of the protocol besides: that of the header
/// (`meta l4proto`, and in tables of family `ip` also `ip protocol`).
pub(super) fn implied(found: &Match, family: Family) -> Vec<Match> {
    let mut out = Vec::new();
    let mut fields = vec![&found.selector];
    while let Some(e) = fields.pop() {
        match &e.kind {
            ExprKind::Concat(parts) => fields.extend(parts),
            ExprKind::Binop { left, .. } => fields.push(left),
            ExprKind::Payload(payload)
                if payload.base == PayloadBase::Transport && payload.inner.is_none() =>
            {
                let number = payload.proto.and_then(|p| proto::network::INET_SERVICE.number_of(p));
                out.extend(number.into_iter().flat_map(|number| protocol(number, family)));
            }
            // Other selectors say nothing of the transport header.
            _ => {}
        }
    }
    out
}

fn protocol(number: u32, family: Family) -> Vec<Match> {
    let value = u128::from(number);
    let says = |selector| Match {
        selector,
        op: RelOp::Implicit,
        says: Says::Values(vec![vec![(value, value)]]),
        boolean: false,
        flags: false,
        wildcard: false,
        whole: true,
    };
    let key = ExprKind::Key(Key::Meta { key: MetaKey::L4Proto });
    let mut out = vec![says(Expr::new(key, Loc::default()))];
    let header = (family == Family::Ip).then(|| proto::find("ip")).flatten();
    if let Some((ip, field)) = header.and_then(|ip| Some((ip, ip.template("protocol")?))) {
        out.push(says(field_expr(ip, field, Loc::default())));
    }
    out
}
