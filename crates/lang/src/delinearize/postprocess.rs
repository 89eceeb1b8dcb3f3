// SPDX-License-Identifier: Apache-2.0

//! Second pass: raw statements to those that are listed.

use penstock_program::expr::{CtKey, MetaKey, PayloadBase, RejectType};
use penstock_ruleset::Family;
use penstock_syntax::ast::expr::{BinOp, RelOp};
use penstock_syntax::ast::stmt::Effect;
use penstock_syntax::ast::stmt::Reject;
use penstock_syntax::ast::{Expr, ExprKind, Key, Stmt, StmtKind};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::proto::{Proto, network, tunnel};

use super::context::Context;
use super::dependency::{Dependencies, Layer, is_equality};
use super::statements::Statements;
use super::stmt;
use super::{Delinearizer, binop};
use super::{fields, raw, set_type};

/// What is known while the statements of a rule are walked.
pub(super) struct Walk {
    pub context: Context,
    pub dependencies: Dependencies,
    pub stmts: Statements,
    /// Context and dependencies of the other side of a tunnel's wall, once one was looked into.
    beyond: Option<(&'static Proto, Context, Dependencies)>,
}

/// Statements of a rule as they are listed.
pub(super) fn rule(delinearizer: &Delinearizer<'_>, stmts: Vec<Stmt>) -> Vec<Stmt> {
    let mut walk = Walk {
        context: Context::new(delinearizer.table.family),
        dependencies: Dependencies::default(),
        stmts: Statements::default(),
        beyond: None,
    };
    for stmt in stmts {
        let effect = has_effect(&stmt);
        walk.stmt(stmt);
        if effect {
            // What was matched before an effect must stay before it.
            walk.dependencies.reset();
            if let Some((_, _, dependencies)) = &mut walk.beyond {
                dependencies.reset();
            }
        }
    }
    walk.stmts.list.into_iter().flatten().collect()
}

/// Whether a statement is more than a match. Verdict maps count as matches, as they do to nft.
fn has_effect(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Verdict(expr) => !matches!(expr.kind, ExprKind::Map { .. }),
        kind => kind.effect() != Effect::Match,
    }
}

impl Walk {
    /// Goes through the wall of the tunnel, inwards or back.
    fn cross(&mut self) {
        if let Some((_, context, dependencies)) = &mut self.beyond {
            std::mem::swap(&mut self.context, context);
            std::mem::swap(&mut self.dependencies, dependencies);
        }
    }

    /// Runs `what` with the context of a field: that inside its tunnel, if it is in one.
    fn within<T>(
        &mut self,
        tunnel: Option<&'static Proto>,
        what: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let Some(tunnel) = tunnel.filter(|_| self.context.tunnel().is_none()) else {
            return what(self);
        };
        // As a field of GRE would, what is inside of it brings the match of the protocol back.
        if self.context.at(PayloadBase::Transport) == Some(&tunnel::GRE)
            && tunnel.base == PayloadBase::Transport
            && let Some(field) = tunnel::GRE.templates.first()
        {
            let field = fields::field(&tunnel::GRE, field, 0);
            self.dependencies.kill_for_payload(&field, &self.context, &mut self.stmts);
        }
        if self.beyond.as_ref().is_none_or(|(known, ..)| *known != tunnel) {
            self.beyond = Some((tunnel, Context::inside(tunnel), Dependencies::default()));
        }
        self.cross();
        let result = what(self);
        self.cross();
        result
    }

    fn stmt(&mut self, mut one: Stmt) {
        match &mut one.kind {
            StmtKind::Match(expr) => {
                let expr = std::mem::replace(expr, raw(ExprKind::CatchAll, 0));
                self.matching(expr);
                return;
            }
            StmtKind::MetaSet { expr, .. } => self.number(expr),
            StmtKind::CtSet { key, expr, .. } => {
                self.number(expr);
                if *key == CtKey::EventMask {
                    *expr = binop::or_to_list(expr);
                }
            }
            StmtKind::PayloadSet { target, value } => self.payload_set(target, value),
            StmtKind::ExthdrSet { target, value } => {
                set_type(value, &target.dtype, target.order);
                self.expr(value);
            }
            StmtKind::ExthdrReset { .. } => {}
            StmtKind::Reject(reject) => self.reject(reject),
            // Others have nothing but operands.
            kind => kind.operands_mut().into_iter().for_each(|e| self.expr(e)),
        }
        self.stmts.push(one);
    }

    /// A match, which may become several, or go into the one before.
    fn matching(&mut self, expr: Expr) {
        let Expr { kind, loc, dtype, order, len, .. } = expr;
        let ExprKind::Relational { op, left, right } = kind else {
            let mut expr = Expr::typed(kind, loc, dtype, order, len);
            self.expr(&mut expr);
            self.stmts.push(stmt(StmtKind::Match(expr)));
            return;
        };
        self.within(tunnel_of(&left), |walk| walk.comparison(op, left, right));
    }

    fn comparison(&mut self, op: RelOp, mut left: Box<Expr>, mut right: Box<Expr>) {
        if matches!(left.kind, ExprKind::Payload(_)) {
            self.payload_match(op, *left, *right);
            return;
        }
        self.expr(&mut left);
        // A field after a shift turned into plain payload.
        set_type(&mut right, &left.dtype, left.order);
        if let ExprKind::Concat(_) = left.kind {
            binop::retype_concat(&left, &mut right);
        }
        binop::number_presence(&left, &mut right);
        binop::widen(&left, &mut right);
        self.expr(&mut right);
        binop::number_flags(op, &left, &mut right);
        if let ExprKind::Key(Key::Meta { key }) = left.kind
            && is_equality(op)
            && let ExprKind::Value(value) = right.kind
        {
            self.meta_match(key, value, &left, &right);
            return;
        }
        if let (ExprKind::Key(Key::Ct { key, .. }), ExprKind::Value(value), true) =
            (&left.kind, &right.kind, is_equality(op))
        {
            self.context.learn(&left, *value);
            // What the packet's own header said is not what later fields bring back.
            match key {
                CtKey::L3Protocol => self.dependencies.forget(Layer::Network),
                CtKey::Protocol => self.dependencies.forget(Layer::Transport),
                _ => {}
            }
        }
        match binop::fold(&self.context, op, *left, *right) {
            binop::Folded::Done(expr) => {
                self.push_match(expr);
            }
            binop::Folded::Payload { op, left, right } => self.payload_match(op, left, right),
        }
    }

    /// Appends a match; a lower bound and an upper one become a range.
    fn push_match(&mut self, expr: Expr) -> usize {
        if let Some(place) = self.stmts.last_place()
            && let Some(merged) = self.range_with_previous(place, &expr)
        {
            if let Some(slot) = self.stmts.list.get_mut(place) {
                *slot = Some(stmt(StmtKind::Match(merged)));
            }
            return place;
        }
        self.stmts.push(stmt(StmtKind::Match(expr)))
    }

    fn range_with_previous(&self, place: usize, expr: &Expr) -> Option<Expr> {
        // Only adjacent statements, without one removed in between.
        if place + 1 != self.stmts.list.len() {
            return None;
        }
        let StmtKind::Match(previous) = &self.stmts.get(place)?.kind else { return None };
        let ExprKind::Relational { op: low_op, left: low_left, right: low } = &previous.kind else {
            return None;
        };
        let ExprKind::Relational { op: high_op, left, right: high } = &expr.kind else {
            return None;
        };
        let op = match (low_op, high_op) {
            (RelOp::Gte, RelOp::Lte) => RelOp::Eq,
            _ => return None,
        };
        if !matches!((&low.kind, &high.kind), (ExprKind::Value(_), ExprKind::Value(_)))
            || low_left != left
        {
            return None;
        }
        let range = ExprKind::Range { left: low.clone(), right: high.clone() };
        let range = Expr::typed(range, left.loc, left.dtype.clone(), left.order, left.len);
        let kind = ExprKind::Relational { op, left: left.clone(), right: Box::new(range) };
        Some(raw(kind, 1))
    }

    fn relational(&mut self, op: RelOp, left: Expr, right: Expr) -> usize {
        self.push_match(raw(
            ExprKind::Relational { op, left: Box::new(left), right: Box::new(right) },
            1,
        ))
    }

    /// `meta KEY == VALUE`: may say what a later match implies.
    fn meta_match(&mut self, key: MetaKey, value: u128, left: &Expr, right: &Expr) {
        self.context.learn(left, value);
        self.dependencies.kill_for_meta(key, value, self.context.family, &mut self.stmts);
        let place = self.relational(RelOp::Eq, left.clone(), right.clone());
        if let Some(layer) = Layer::told_by(key) {
            self.dependencies.store(layer, place);
        }
    }

    /// A match of bits of the packet.
    fn payload_match(&mut self, op: RelOp, mut left: Expr, mut right: Expr) {
        let ExprKind::Payload(payload) = &left.kind else { return };
        if let Some(key) = payload.field.and_then(|f| f.meta) {
            set_type(&mut right, &left.dtype, left.order);
            match right.value() {
                Some(value) if op == RelOp::Eq => self.meta_match(key, value, &left, &right),
                Some(_) | None => _ = self.relational(op, left, right),
            }
            return;
        }
        // A tunnel's own header is known by its name.
        if payload.base == PayloadBase::Tunnel {
            set_type(&mut right, &left.dtype, left.order);
            self.expr(&mut right);
            self.relational(op, left, right);
            return;
        }
        let ExprKind::Value(value) = right.kind else {
            self.complete(&mut left);
            set_type(&mut right, &left.dtype, left.order);
            if op == RelOp::Eq {
                self.context.learn_set(&left, &right);
            }
            self.dependencies.kill_for_payload(&left, &self.context, &mut self.stmts);
            self.relational(op, left, right);
            return;
        };
        if !matches!(op, RelOp::Eq | RelOp::Neq) {
            self.complete(&mut left);
            set_type(&mut right, &left.dtype, left.order);
            self.dependencies.kill_for_payload(&left, &self.context, &mut self.stmts);
            self.relational(op, left, right);
            return;
        }
        let known = payload.proto.is_some() && !left_is_generic(payload);
        let parts = if known {
            vec![left]
        } else {
            self.context.fields_in(payload, right.len.max(left.len))
        };
        let mut rest = right.len;
        for part in parts {
            let ExprKind::Payload(payload) = &part.kind else { continue };
            let width = part.len.min(rest);
            if width == 0 {
                // The constant is shorter than what was loaded.
                break;
            }
            let mut constant = right.clone();
            constant.kind = ExprKind::Value(low_bits(value >> (rest - width), width));
            constant.len = width;
            constant.dtype = part.dtype.clone();
            constant.order = part.order;
            rest -= width;
            let learned = constant.value().unwrap_or(0);
            // Fewer bytes than the field has are the start of it.
            if let Some(field) = payload.field
                && width < field.len
            {
                let mut base = constant.clone();
                base.kind = ExprKind::Value(learned << (field.len - width));
                base.len = field.len;
                constant.kind = ExprKind::Prefix { base: Box::new(base), len: width };
                constant.len = field.len;
            }
            let stacked = self.context.is_stacked(payload, learned);
            let tells = payload
                .proto
                .zip(payload.field)
                .is_some_and(|(proto, field)| Context::is_protocol_field(proto, field));
            let vlan_type =
                tells && payload.proto.is_some_and(|p| *p == penstock_syntax::proto::link::VLAN);
            let base = payload.base;
            if op == RelOp::Eq {
                self.context.learn(&part, learned);
            }
            if !vlan_type {
                self.dependencies.kill_for_payload(&part, &self.context, &mut self.stmts);
            }
            let place = self.relational(op, part, constant);
            if op == RelOp::Eq && tells {
                let layer = if stacked { Layer::of(base) } else { Layer::above(base) };
                self.dependencies.store(layer, place);
            }
        }
    }

    /// Names the field that payload is.
    fn complete(&self, expr: &mut Expr) {
        let ExprKind::Payload(payload) = &expr.kind else { return };
        if payload.field.is_some_and(|f| f.meta.is_some()) {
            return;
        }
        if let Some(field) = self.context.field_at(payload.base, payload.offset, expr.len) {
            *expr = field;
        }
    }

    /// A header field or option is read: what only said that it is there goes.
    fn kill_for(&mut self, expr: &Expr) {
        if let ExprKind::Exthdr(exthdr) = &expr.kind {
            self.dependencies.kill_for_exthdr(exthdr, &mut self.stmts);
        } else {
            self.dependencies.kill_for_payload(expr, &self.context, &mut self.stmts);
        }
    }

    /// An expression with a value used as it is: a masked field is that field.
    fn value(&mut self, expr: &mut Expr) {
        self.within(tunnel_of(expr), |walk| {
            walk.expr(expr);
            if binop::fold_field(&walk.context, expr).is_some() {
                walk.kill_for(expr);
            }
        });
    }

    /// What metadata is set to: fields are numbers in the order of the machine from where they were
    /// shifted or turned.
    fn number(&mut self, expr: &mut Expr) {
        if self.shifted_field(expr) {
            return;
        }
        match &mut expr.kind {
            ExprKind::Unary { expr: arg, .. } => {
                self.number(arg);
                let arg = std::mem::replace(&mut **arg, raw(ExprKind::CatchAll, 0));
                *expr = turned(arg);
            }
            ExprKind::Binop { op: BinOp::And, left, right }
                if matches!(left.kind, ExprKind::Payload(_))
                    && right.value().unwrap_or(0) % 2 == 1 =>
            {
                if binop::fold_field(&self.context, expr).is_some() {
                    self.kill_for(expr);
                } else {
                    self.operands(expr);
                }
            }
            ExprKind::Binop { .. } => self.operands(expr),
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
            | ExprKind::Payload(_)
            | ExprKind::Exthdr(_)
            | ExprKind::Key(_)
            | ExprKind::Hash { .. }
            | ExprKind::Relational { .. }
            | ExprKind::FlagCmp { .. } => self.expr(expr),
        }
    }

    /// An operator in what metadata is set to.
    fn operands(&mut self, expr: &mut Expr) {
        let ExprKind::Binop { op, left, right } = &mut expr.kind else { return };
        self.number(left);
        if matches!(op, BinOp::Lshift | BinOp::Rshift) {
            let mark = left.dtype == Type::Base(DataType::Mark);
            set_type(right, &Type::Base(DataType::Integer), ByteOrder::Big);
            expr.dtype = Type::Base(if mark { DataType::Mark } else { DataType::RawInteger });
            expr.order = ByteOrder::Host;
            return;
        }
        if let ExprKind::Value(_) = right.kind {
            let order = if left.len <= 8 { ByteOrder::Host } else { left.order };
            set_type(right, &left.dtype, order);
            self.expr(right);
        } else {
            self.number(right);
        }
        expr.dtype = left.dtype.clone();
        expr.order = left.order;
    }

    /// Any expression in its place.
    pub fn expr(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Payload(payload) => {
                let tunnel = payload.inner;
                self.within(tunnel, |walk| {
                    walk.complete(expr);
                    walk.dependencies.kill_for_payload(expr, &walk.context, &mut walk.stmts);
                });
            }
            ExprKind::Exthdr(exthdr) => {
                self.dependencies.kill_for_exthdr(exthdr, &mut self.stmts);
            }
            ExprKind::Value(value) => {
                let value = *value;
                if expr.dtype.base().is_string() && expr.order != ByteOrder::Invalid {
                    binop::text(expr, value);
                } else if expr.dtype.base().is_bitmask() {
                    binop::flags_to_or(expr, value);
                }
            }
            ExprKind::Unary { expr: arg, .. } => {
                self.expr(arg);
                let arg = std::mem::replace(&mut **arg, raw(ExprKind::CatchAll, 0));
                *expr = turned(arg);
            }
            ExprKind::Binop { .. } => self.binop(expr),
            ExprKind::Concat(parts) => {
                for part in parts.iter_mut() {
                    self.value(part);
                }
                let types = parts.iter().map(|p| p.dtype.base()).collect();
                expr.dtype = Type::Concat(types);
            }
            ExprKind::Map { key, mappings } => {
                self.within(tunnel_of(key), |walk| {
                    walk.expr(key);
                    if let Some(shift) = binop::fold_field(&walk.context, key) {
                        binop::shift_down(mappings, shift, key.len);
                        walk.kill_for(key);
                    }
                    if let ExprKind::Concat(_) = key.kind {
                        binop::number_presence(key, mappings);
                    }
                });
            }
            ExprKind::Range { left, right } => {
                self.range_end(left);
                self.range_end(right);
            }
            ExprKind::Prefix { base, .. } => self.range_end(base),
            ExprKind::SetElem(elem) => self.value(&mut elem.key),
            ExprKind::Hash { expr: arg, .. } => self.expr(arg),
            ExprKind::Key(Key::Ct { key, .. }) => {
                let key = *key;
                self.ct(key, expr);
            }
            ExprKind::Mapping { .. }
            | ExprKind::Set { .. }
            | ExprKind::SetRef { .. }
            | ExprKind::List(_)
            | ExprKind::Symbol { .. }
            | ExprKind::Variable { .. }
            | ExprKind::String(_)
            | ExprKind::Verdict(_)
            | ExprKind::CatchAll
            | ExprKind::Key(_)
            | ExprKind::Relational { .. }
            | ExprKind::FlagCmp { .. } => {}
        }
    }

    fn range_end(&mut self, end: &mut Expr) {
        if !matches!(end.kind, ExprKind::Value(_)) {
            self.expr(end);
        }
    }

    fn binop(&mut self, expr: &mut Expr) {
        if self.shifted_field(expr) {
            return;
        }
        let ExprKind::Binop { op, left, right } = &mut expr.kind else { return };
        let op = *op;
        self.expr(left);
        match op {
            BinOp::Lshift | BinOp::Rshift => {
                set_type(right, &Type::Base(DataType::Integer), ByteOrder::Big);
                let host = Type::Base(DataType::Integer);
                right.dtype = host;
            }
            BinOp::And | BinOp::Or | BinOp::Xor => {
                set_type(right, &left.dtype, left.order);
                if right.len == 0 {
                    right.len = left.len;
                }
                self.expr(right);
            }
        }
        expr.dtype = left.dtype.clone();
        expr.order = left.order;
        if expr.len == 0 {
            expr.len = left.len;
        }
    }

    /// A field shifted into place (payload, mask, shift) is that field.
    fn shifted_field(&mut self, expr: &mut Expr) -> bool {
        let ExprKind::Binop { op: BinOp::Rshift, left, .. } = &mut expr.kind else { return false };
        if !binop::is_masked_bits(left) {
            return false;
        }
        strip_unary(left);
        if let ExprKind::Binop { left: payload, .. } = &mut left.kind {
            self.complete(payload);
        }
        self.set_binop_types(left);
        if binop::fold_field(&self.context, left).is_none() {
            return false;
        }
        let field = std::mem::replace(&mut **left, raw(ExprKind::CatchAll, 0));
        self.kill_for(&field);
        *expr = field;
        true
    }

    fn set_binop_types(&mut self, expr: &mut Expr) {
        if let ExprKind::Binop { left, right, .. } = &mut expr.kind {
            set_type(right, &left.dtype, left.order);
        }
    }

    /// `ct` keys with a type that the headers tell.
    fn ct(&mut self, key: CtKey, expr: &mut Expr) {
        // The packet tells the kind of such an address, which says which IP it is on.
        if matches!(key, CtKey::Src | CtKey::Dst) && self.dependencies.exists(Layer::Network) {
            self.dependencies.release(Layer::Network, &mut self.stmts);
        }
        match key {
            // The kernel does not keep a direction with these.
            CtKey::L3Protocol | CtKey::Protocol => {
                if let ExprKind::Key(Key::Ct { dir, .. }) = &mut expr.kind {
                    *dir = None;
                }
            }
            CtKey::Src | CtKey::Dst => {
                let known = self.context.at(PayloadBase::Network);
                let v6 = known.is_some_and(|p| *p == network::IP6);
                let (dtype, len) =
                    if v6 { (DataType::Ip6Addr, 128) } else { (DataType::IpAddr, 32) };
                if let ExprKind::Key(Key::Ct { family, .. }) = &mut expr.kind {
                    *family = Some(if v6 { Family::Ip6 } else { Family::Ip });
                }
                expr.dtype = Type::Base(dtype);
                expr.len = len;
                expr.order = ByteOrder::Big;
            }
            CtKey::ProtoSrc | CtKey::ProtoDst => {
                expr.dtype = Type::Base(DataType::InetService);
                expr.order = ByteOrder::Big;
                expr.len = 16;
            }
            _ => {}
        }
    }

    /// Names the field that is written, where it is less than what is read and written back.
    fn payload_set(&mut self, target: &mut Expr, value: &mut Expr) {
        self.complete(target);
        let known = matches!(&target.kind, ExprKind::Payload(p) if p.field.is_some());
        if !known
            && let Some((field, constant)) = binop::written_field(&self.context, target, value)
        {
            *target = field;
            *value = constant;
            self.dependencies.kill_for_payload(target, &self.context, &mut self.stmts);
            self.expr(value);
            return;
        }
        if !known && let Some((field, changed)) = binop::changed_field(&self.context, target, value)
        {
            *target = field;
            *value = changed;
            self.dependencies.kill_for_payload(target, &self.context, &mut self.stmts);
            return;
        }
        self.dependencies.kill_for_payload(target, &self.context, &mut self.stmts);
        set_type(value, &target.dtype, target.order);
        self.expr(value);
    }

    fn reject(&mut self, reject: &mut Reject) {
        let Some(kind) = reject.kind else { return };
        let family = self.context.family;
        let implied = |code: u8, default: u8| code == default;
        let (dtype, hidden) = match (family, kind) {
            (Family::Ip | Family::Ip6, RejectType::TcpRst) => {
                if self.dependencies.exists(Layer::Transport) {
                    self.dependencies.release(Layer::Transport, &mut self.stmts);
                }
                return;
            }
            (Family::Ip, RejectType::IcmpUnreach) => {
                reject.family = Some(family);
                (DataType::IcmpCode, implied(reject.code, ICMP_PORT_UNREACHABLE))
            }
            (Family::Ip6, RejectType::IcmpUnreach) => {
                reject.family = Some(family);
                (DataType::Icmpv6Code, implied(reject.code, ICMPV6_PORT_UNREACHABLE))
            }
            (_, RejectType::IcmpxUnreach) => {
                (DataType::IcmpxCode, implied(reject.code, ICMPX_PORT_UNREACHABLE))
            }
            (_, RejectType::IcmpUnreach | RejectType::TcpRst) => {
                let v6 = self.context.network_or_raw().is_some_and(|p| *p == network::IP6);
                if self.dependencies.exists(Layer::Network) {
                    self.dependencies.release(Layer::Network, &mut self.stmts);
                }
                if kind == RejectType::TcpRst {
                    return;
                }
                reject.family = Some(if v6 { Family::Ip6 } else { Family::Ip });
                (if v6 { DataType::Icmpv6Code } else { DataType::IcmpCode }, false)
            }
        };
        if hidden {
            reject.expr = None;
        } else if let Some(code) = &mut reject.expr {
            code.dtype = Type::Base(dtype);
        }
    }
}

/// The tunnel that bits are inside of, plain or masked.
fn tunnel_of(expr: &Expr) -> Option<&'static Proto> {
    if let ExprKind::Payload(payload) = &expr.kind {
        payload.inner
    } else if let ExprKind::Binop { left: expr, .. } | ExprKind::Unary { expr, .. } = &expr.kind {
        tunnel_of(expr)
    } else {
        None
    }
}

const ICMP_PORT_UNREACHABLE: u8 = 3;
const ICMPV6_PORT_UNREACHABLE: u8 = 4;
const ICMPX_PORT_UNREACHABLE: u8 = 1;

/// Ports that were loaded before their transport header was known.
fn left_is_generic(payload: &penstock_syntax::ast::expr::Payload) -> bool {
    payload.proto.is_some_and(|p| *p == penstock_syntax::proto::transport::TH)
}

fn low_bits(value: u128, bits: u32) -> u128 {
    if bits >= 128 { value } else { value & ((1 << bits) - 1) }
}

/// An expression after its bytes were turned.
fn turned(mut expr: Expr) -> Expr {
    expr.order = match expr.order {
        ByteOrder::Host => ByteOrder::Big,
        ByteOrder::Big => ByteOrder::Host,
        ByteOrder::Invalid => ByteOrder::Invalid,
    };
    expr
}

fn strip_unary(expr: &mut Expr) {
    if let ExprKind::Unary { expr: arg, .. } = &mut expr.kind {
        *expr = std::mem::replace(&mut **arg, raw(ExprKind::CatchAll, 0));
    }
}
