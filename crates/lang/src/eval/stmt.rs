// SPDX-License-Identifier: Apache-2.0

//! Statements other than NAT.

use penstock_program::expr::{CtKey, MetaKey, PayloadBase, RejectType};
use penstock_ruleset::model::Family;
use penstock_syntax::ast::expr::{RelOp, VerdictExpr, key_of};
use penstock_syntax::ast::stmt::{Effect, LOG_PREFIX_LENGTH, Log, NatKind, Reject};
use penstock_syntax::ast::{Expr, ExprKind, Key, RuleBlock, Stmt, StmtKind};
use penstock_syntax::datatype::{Base, ByteOrder, DataType, Type};
use penstock_syntax::keys;
use penstock_syntax::proto::{Proto, network, transport};
use penstock_syntax::source::Loc;

use crate::eval::context::{Expected, Protocols, UNKNOWN};
use crate::eval::set::object_data;
use crate::eval::{Eval, Result, conflict, error};
use crate::key_type::KeyType;

/// nft's number for `log level audit`.
const LOG_AUDIT: u32 = 8;

impl Eval<'_, '_> {
    /// Evaluates the statements of a rule; matches that they depend on are put before them.
    pub(crate) fn rule(&mut self, rule: &mut RuleBlock) -> Result {
        self.protocols = Protocols::new(self.family);
        self.icmp_type = None;
        let stmts = std::mem::take(&mut rule.stmts);
        let mut out = Vec::with_capacity(stmts.len() + 2);
        let last = stmts.len();
        let mut terminal: Option<Loc> = None;
        for (i, mut stmt) in stmts.into_iter().enumerate() {
            self.inserted.clear();
            self.expected = Expected::default();
            if let Some(first) = terminal {
                return conflict(
                    keyword(&stmt),
                    first,
                    "Statement after terminal statement has no effect",
                );
            }
            self.statement(&mut stmt)?;
            if is_terminal(&stmt) {
                terminal = Some(keyword(&stmt));
            }
            out.append(&mut self.inserted);
            if i + 1 == last || !self.is_redundant(&stmt) {
                out.push(stmt);
            }
        }
        if !self.at_head.is_empty() {
            out.splice(0..0, self.at_head.drain(..));
        }
        crate::eval::merge::merge_payloads(&mut out);
        rule.stmts = out;
        Ok(())
    }

    /// `meta protocol ip` says nothing in a table of that family; it stays where it is all that a
    /// rule says last.
    fn is_redundant(&self, stmt: &Stmt) -> bool {
        let own = match self.family {
            Family::Ip => 0x0800,
            Family::Ip6 => 0x86dd,
            _ => return false,
        };
        let StmtKind::Match(e) = &stmt.kind else { return false };
        let ExprKind::Relational { op: RelOp::Implicit | RelOp::Eq, left, right } = &e.kind else {
            return false;
        };
        matches!(left.kind, ExprKind::Key(Key::Meta { key: MetaKey::Protocol }))
            && right.value() == Some(own)
    }

    /// Evaluates one statement.
    pub(crate) fn statement(&mut self, stmt: &mut Stmt) -> Result {
        let loc = keyword(stmt);
        match &mut stmt.kind {
            StmtKind::Match(e) => {
                if !matches!(e.kind, ExprKind::Relational { .. } | ExprKind::FlagCmp { .. }) {
                    return error(e.loc, "expression has no effect");
                }
                self.expr(e)
            }
            StmtKind::Verdict(e) => {
                self.arg(
                    e,
                    loc,
                    Expected::new(Type::Base(DataType::Verdict), ByteOrder::Invalid, 0),
                )?;
                if !matches!(e.kind, ExprKind::Verdict(_) | ExprKind::Map { .. }) {
                    return error(e.loc, "invalid verdict");
                }
                Ok(())
            }
            StmtKind::Counter { .. }
            | StmtKind::Limit(_)
            | StmtKind::Quota { .. }
            | StmtKind::Last { .. }
            | StmtKind::CtCount { .. }
            | StmtKind::Notrack
            | StmtKind::FlowOffload { .. }
            | StmtKind::Xt { .. } => Ok(()),
            StmtKind::ObjRef { kind, expr } => {
                let kind = *kind;
                if let ExprKind::Map { .. } = expr.kind {
                    self.expected = Expected::object();
                    return self.map_to(expr, object_data(kind));
                }
                match expr.text() {
                    Some(text) => {
                        expr.kind = ExprKind::String(text.clone());
                        expr.constant = true;
                        expr.singleton = true;
                        expr.dtype = Type::Base(DataType::String);
                        Ok(())
                    }
                    _ => {
                        self.expr(expr)?;
                        conflict(
                            expr.loc,
                            loc,
                            format!(
                                "datatype mismatch: expected string, expression has type {}",
                                expr.dtype.desc()
                            ),
                        )
                    }
                }
            }
            StmtKind::Log(log) => log_statement(log, loc),
            StmtKind::Reject(reject) => self.reject(reject, loc),
            StmtKind::Nat(nat) => self.nat(nat, loc),
            StmtKind::Tproxy { .. } => self.tproxy(stmt),
            // Which families have it is left to the kernel.
            StmtKind::Synproxy { .. } => Ok(()),
            StmtKind::Queue { expr, fanout, .. } => {
                let Some(expr) = expr else { return Ok(()) };
                self.arg(
                    expr,
                    loc,
                    Expected::new(Type::Base(DataType::Integer), ByteOrder::Host, 16),
                )?;
                if *fanout && !matches!(expr.kind, ExprKind::Range { .. }) {
                    return error(expr.loc, "fanout requires a range to be specified");
                }
                if self.expected.max > u32::from(u16::MAX) {
                    return error(expr.loc, "queue expression max value exceeds 65535");
                }
                Ok(())
            }
            StmtKind::Dup { to, dev } => self.dup(to, dev, loc),
            StmtKind::Fwd { dev, addr, nfproto } => self.fwd(dev, addr, *nfproto, loc),
            StmtKind::MetaSet { key, expr } => {
                self.set_arg(expr, loc, Expected::of(keys::meta(*key).value))
            }
            StmtKind::CtSet { key, expr, .. } => {
                let expected = Expected::of(keys::ct(*key).value);
                if *key == CtKey::Zone
                    && let ExprKind::Value(v) = expr.kind
                    && v > 65535
                {
                    return error(expr.loc, format!("Value {v} exceeds valid range 0-65535"));
                }
                self.set_arg(expr, loc, expected)
            }
            StmtKind::PayloadSet { target, value } => self.payload_set(target, value, loc),
            StmtKind::ExthdrSet { target, value } => {
                self.exthdr(target)?;
                let expected = Expected::like(target);
                self.arg(value, loc, expected)?;
                self.convert(value, ByteOrder::Big)
            }
            StmtKind::ExthdrReset { target } => self.exthdr(target),
            StmtKind::SetUpdate { set, key, stmts, .. } => {
                self.expected = Expected::default();
                self.expr(set)?;
                let ExprKind::SetRef { set: name } = &set.kind else {
                    return error(set.loc, "Expression does not refer to a set");
                };
                let Some(info) = self.known_set(name) else {
                    return error(set.loc, "Expression does not refer to a set");
                };
                let expected = info.key.expected();
                self.update_key(key, expected, loc)?;
                for stmt in stmts {
                    self.stateful(stmt)?;
                }
                self.make_dynamic(&info);
                Ok(())
            }
            StmtKind::MapUpdate { map, key, data, stmts, .. } => {
                self.expected = Expected::default();
                self.expr(map)?;
                let ExprKind::SetRef { set: name } = &map.kind else {
                    return error(map.loc, "Expression does not refer to a map");
                };
                let info = match self.known_set(name) {
                    Some(info) if info.is_map() => info,
                    _ => return error(map.loc, "Expression does not refer to a map"),
                };
                let expected = info.key.expected();
                self.update_key(key, expected, loc)?;
                let expected = match &info.data {
                    Some(crate::cache::DataKind::Value { ty, .. }) => ty.expected(),
                    _ => Expected::new(Type::Base(DataType::Verdict), ByteOrder::Invalid, 0),
                };
                self.arg(data, loc, expected)?;
                for stmt in stmts {
                    self.stateful(stmt)?;
                }
                Ok(())
            }
            StmtKind::Meter { name, size, key, stmt: inner } => {
                let (name, size) = (name.clone(), *size);
                let timeout = matches!(&key.kind, ExprKind::SetElem(elem) if elem.timeout.is_some_and(|t| t > 0));
                self.update_key(key, Expected::default(), loc)?;
                let key_type = KeyType::of(key_of(key));
                self.stateful(inner)?;
                let key_loc = key.loc;
                self.declare_meter(&name, key_type, timeout, size, key_loc);
                Ok(())
            }
            StmtKind::Chain { block, .. } => {
                for rule in &mut block.rules {
                    let mut inner = Eval::new(self.ctx, self.family, self.table.clone());
                    inner.rule(rule)?;
                }
                Ok(())
            }
        }
    }

    /// Key of an update from the packet path: not constant, with an optional timeout.
    fn update_key(&mut self, key: &mut Expr, expected: Expected, loc: Loc) -> Result {
        let mut comment = None;
        let inner = if let ExprKind::SetElem(elem) = &mut key.kind {
            comment = elem.comment.as_ref().map(|_| elem.key.loc);
            for stmt in &mut elem.stmts {
                self.stateful(stmt)?;
            }
            &mut elem.key
        } else {
            key
        };
        if expected.dtype.is_some() {
            self.arg(inner, loc, expected)?;
        } else {
            self.expected = expected;
            self.expr(inner)?;
        }
        match comment {
            Some(place) => error(place, "Key expression comments are not supported"),
            None => Ok(()),
        }
    }

    /// A set that rules change must be of a kind that allows it.
    fn make_dynamic(&mut self, info: &std::sync::Arc<crate::cache::SetInfo>) {
        if info.dynamic || info.anonymous {
            return;
        }
        let Some(table) = self.table.clone() else { return };
        let mut changed = (**info).clone();
        changed.dynamic = true;
        self.ctx.cache.put_set(self.family, &table, changed.into());
        self.ctx.made_dynamic.push((self.family, table, info.name.clone()));
    }

    /// An argument of a statement: of the expected type, and a value.
    pub(crate) fn arg(&mut self, e: &mut Expr, stmt: Loc, expected: Expected) -> Result {
        self.expected = expected.clone();
        self.expr(e)?;
        self.check_arg(e, stmt, &expected)
    }

    /// What metadata is set to, at its width.
    fn set_arg(&mut self, e: &mut Expr, stmt: Loc, expected: Expected) -> Result {
        self.written = expected.len;
        let result = self.arg(e, stmt, expected);
        self.written = 0;
        result
    }

    /// Whether an evaluated expression may be the argument of a statement.
    pub(crate) fn check_arg(&mut self, e: &mut Expr, stmt: Loc, expected: &Expected) -> Result {
        let Some(dtype) = &expected.dtype else { return Ok(()) };
        let integer = e.dtype.id() == DataType::Integer.id();
        if let ExprKind::Payload(_) = e.kind
            && integer
            && (!matches!(dtype.kind(), Base::Integer | Base::Bitmask) || e.len != expected.len)
        {
            return conflict(
                e.loc,
                stmt,
                format!(
                    "datatype mismatch: expected {}, expression has type {} with length {}",
                    dtype.desc(),
                    e.dtype.desc(),
                    e.len
                ),
            );
        }
        // Any number can be a mark.
        if *dtype == Type::Base(DataType::Mark)
            && matches!(e.base(), Base::Integer | Base::Bitmask)
            && !e.constant
        {
            return self.convert(e, expected.order);
        }
        if !integer && e.dtype != *dtype {
            return conflict(
                e.loc,
                stmt,
                format!(
                    "datatype mismatch: expected {}, expression has type {}",
                    dtype.desc(),
                    e.dtype.desc()
                ),
            );
        }
        match &e.kind {
            ExprKind::Set { .. } => {
                conflict(e.loc, stmt, "you cannot use a set here, unknown value to use")
            }
            ExprKind::SetRef { .. } => {
                conflict(e.loc, stmt, "you cannot reference a set here, unknown value to use")
            }
            ExprKind::Key(Key::Rt { .. }) => self.convert(e, expected.order),
            ExprKind::Symbol { .. }
            | ExprKind::Variable { .. }
            | ExprKind::Value(_)
            | ExprKind::String(_)
            | ExprKind::Verdict(_)
            | ExprKind::Prefix { .. }
            | ExprKind::Range { .. }
            | ExprKind::Concat(_)
            | ExprKind::List(_)
            | ExprKind::SetElem(_)
            | ExprKind::CatchAll
            | ExprKind::Mapping { .. }
            | ExprKind::Map { .. }
            | ExprKind::Payload(_)
            | ExprKind::Exthdr(_)
            | ExprKind::Key(_)
            | ExprKind::Hash { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Binop { .. }
            | ExprKind::Relational { .. }
            | ExprKind::FlagCmp { .. } => Ok(()),
        }
    }

    /// The address to duplicate to (IP families), the device to leave by (netdev).
    fn dup(&mut self, to: &mut Option<Expr>, dev: &mut Option<Expr>, loc: Loc) -> Result {
        match self.family {
            Family::Ip | Family::Ip6 => {
                let Some(to) = to else { return error(loc, "missing destination address") };
                let dtype =
                    if self.family == Family::Ip { DataType::IpAddr } else { DataType::Ip6Addr };
                self.arg(to, loc, Expected::base(dtype))?;
                if let Some(dev) = dev {
                    self.arg(dev, loc, Expected::base(DataType::IfIndex))?;
                }
                Ok(())
            }
            Family::Netdev => {
                let Some(to) = to else { return error(loc, "missing destination interface") };
                if dev.is_some() {
                    return error(loc, "cannot specify device");
                }
                self.arg(to, loc, Expected::base(DataType::IfIndex))
            }
            _ => error(loc, "unsupported family"),
        }
    }

    fn fwd(&mut self, dev: &mut Expr, addr: &mut Option<Expr>, nfproto: u8, loc: Loc) -> Result {
        if self.family != Family::Netdev {
            return error(loc, "unsupported family");
        }
        self.arg(dev, loc, Expected::base(DataType::IfIndex))?;
        if let Some(addr) = addr {
            let dtype = match nfproto {
                2 => DataType::IpAddr,
                10 => DataType::Ip6Addr,
                _ => return error(loc, "invalid family"),
            };
            self.arg(addr, loc, Expected::base(dtype))?;
        }
        Ok(())
    }

    fn reject(&mut self, reject: &mut Reject, loc: Loc) -> Result {
        if self.family == Family::Arp {
            return error(loc, "cannot use reject with arp");
        }
        let expr_loc = reject.expr.as_ref().map_or(loc, |e| e.loc);
        match reject.kind {
            None => self.reject_default(reject),
            Some(RejectType::TcpRst) => {}
            Some(kind) => {
                if let Some(expr) = &mut reject.expr {
                    let dtype = match (kind, reject.family) {
                        (RejectType::IcmpxUnreach, _) => DataType::IcmpxCode,
                        (_, 10) => DataType::Icmpv6Code,
                        _ => DataType::IcmpCode,
                    };
                    self.expected = Expected::base(dtype);
                    self.expr(expr)?;
                    match expr.value() {
                        Some(code) => reject.code = code as u8,
                        None => return error(expr.loc, "reject code must be constant"),
                    }
                }
            }
        }
        let network = self.protocols.at(PayloadBase::Network);
        let transport = self.protocols.at(PayloadBase::Transport);
        if reject.kind == Some(RejectType::TcpRst)
            && transport.is_some_and(|t| *t != transport::TCP)
        {
            let message = "you cannot use tcp reset with this protocol";
            return self.against(loc, PayloadBase::Transport, message);
        }
        self.can_be_rejected(reject, network, loc)?;
        match reject.kind {
            Some(RejectType::TcpRst) => {
                if transport.is_none() {
                    // Goes to the head of the rule, so that what comes before (`log`) is for TCP
                    // only, too.
                    self.payload_dependency(&transport::TCP, PayloadBase::Transport, loc)?;
                    self.insert_at_head();
                }
                Ok(())
            }
            Some(RejectType::IcmpxUnreach) => match self.family {
                Family::Ip | Family::Ip6 => {
                    conflict(expr_loc, loc, "abstracted ICMP unreachable not supported")
                }
                _ => Ok(()),
            },
            Some(RejectType::IcmpUnreach) => {
                let wanted: &'static Proto =
                    if reject.family == 10 { &network::IP6 } else { &network::IP };
                match (self.family, network) {
                    (Family::Ip, _) if reject.family != 2 => {
                        conflict(expr_loc, loc, "conflicting protocols specified: ip vs ip6")
                    }
                    (Family::Ip6, _) if reject.family != 10 => {
                        conflict(expr_loc, loc, "conflicting protocols specified: ip vs ip6")
                    }
                    (_, Some(known)) if known != wanted => self.against(
                        expr_loc,
                        PayloadBase::Network,
                        "conflicting protocols specified: ip vs ip6",
                    ),
                    (_, Some(_)) => Ok(()),
                    (_, None) => {
                        self.payload_dependency(wanted, PayloadBase::Network, loc)?;
                        self.insert_at_head();
                        Ok(())
                    }
                }
            }
            None => Ok(()),
        }
    }

    /// Only IP is rejected, where the family tells nothing of it.
    fn can_be_rejected(
        &self,
        reject: &Reject,
        network: Option<&'static Proto>,
        loc: Loc,
    ) -> Result {
        if matches!(self.family, Family::Bridge | Family::Netdev)
            && self.protocols.at(PayloadBase::Link).is_some_and(|link| *link == UNKNOWN)
        {
            return error(loc, "cannot reject from this link layer protocol");
        }
        let Some(known) = network.filter(|p| **p != network::IP && **p != network::IP6) else {
            return Ok(());
        };
        let icmpx = reject.expr.is_some() && reject.family == 0;
        match self.family {
            Family::Bridge | Family::Netdev => {
                self.against(loc, PayloadBase::Network, "cannot reject this network family")
            }
            Family::Inet
                if *known == UNKNOWN && reject.kind != Some(RejectType::TcpRst) && !icmpx =>
            {
                error(loc, "cannot infer ICMP reject variant to use: explicit value required.\n")
            }
            Family::Ip | Family::Ip6 | Family::Inet | Family::Arp => Ok(()),
        }
    }

    /// An error that conflicts with the match which told the header at a base.
    pub(crate) fn against<T>(
        &self,
        loc: Loc,
        base: PayloadBase,
        message: impl Into<String>,
    ) -> Result<T> {
        match self.protocols.place(base) {
            Some(other) => conflict(loc, other, message),
            None => error(loc, message),
        }
    }

    /// What was inserted for the statement goes before everything that the rule says.
    pub(crate) fn insert_at_head(&mut self) {
        let later = std::mem::take(&mut self.at_head);
        self.at_head = std::mem::take(&mut self.inserted);
        self.at_head.extend(later);
    }

    /// Port unreachable of the family that the packet is known to have.
    fn reject_default(&mut self, reject: &mut Reject) {
        let family = match (self.family, self.protocols.at(PayloadBase::Network)) {
            (Family::Ip, _) => 2,
            (Family::Ip6, _) => 10,
            (_, Some(known)) if *known == network::IP => 2,
            (_, Some(known)) if *known == network::IP6 => 10,
            _ => 0,
        };
        reject.family = family;
        (reject.kind, reject.code) = match family {
            2 => (Some(RejectType::IcmpUnreach), 3),
            10 => (Some(RejectType::IcmpUnreach), 4),
            _ => (Some(RejectType::IcmpxUnreach), 1),
        };
    }
}

/// The word that messages about a whole statement point at; all of a statement that nft has no
/// place of its own for.
pub(crate) fn keyword(stmt: &Stmt) -> Loc {
    let word = if let StmtKind::Log(_) = stmt.kind {
        "log"
    } else if let StmtKind::Synproxy { .. } = stmt.kind {
        "synproxy"
    } else if let StmtKind::Reject(_) = stmt.kind {
        "reject"
    } else if let StmtKind::Nat(nat) = &stmt.kind {
        match nat.kind {
            NatKind::Nat(_) => "snat",
            NatKind::Masquerade => "masquerade",
            NatKind::Redirect => "redirect",
        }
    } else {
        return stmt.loc;
    };
    Loc { end: stmt.loc.end.min(stmt.loc.start + word.len() as u32), ..stmt.loc }
}

/// Whether nothing of a rule after it is ever reached.
fn is_terminal(stmt: &Stmt) -> bool {
    match &stmt.kind {
        StmtKind::Verdict(e) => matches!(
            &e.kind,
            ExprKind::Verdict(v) if !matches!(v, VerdictExpr::Continue)
        ),
        kind => kind.effect() == Effect::Ends,
    }
}

fn log_statement(log: &mut Log, loc: Loc) -> Result {
    let to_group = log.group.is_some() || log.snaplen.is_some() || log.queue_threshold.is_some();
    if to_group && log.level.is_some() {
        return error(loc, "level and group are mutually exclusive");
    }
    if to_group && log.flags != 0 {
        return error(loc, "flags and group are mutually exclusive");
    }
    if log.level == Some(LOG_AUDIT) && (log.prefix.is_some() || to_group || log.flags != 0) {
        return error(loc, "log level audit doesn't support any further options");
    }
    if let Some(prefix) = &mut log.prefix {
        let text = prefix_text(prefix)?;
        if text.len() >= LOG_PREFIX_LENGTH {
            return error(prefix.loc, "log prefix is too long");
        }
        prefix.kind = ExprKind::String(text.into());
    }
    Ok(())
}

/// A log prefix may be put together from strings and variables.
fn prefix_text(e: &Expr) -> Result<String> {
    match &e.kind {
        ExprKind::String(text) | ExprKind::Symbol { text, .. } => Ok(text.to_string()),
        ExprKind::List(parts) => {
            let mut text = String::new();
            for part in parts {
                text.push_str(&prefix_text(part)?);
            }
            Ok(text)
        }
        ExprKind::Value(value) => {
            let bytes = value.to_le_bytes();
            let used = bytes.iter().position(|b| *b == 0).unwrap_or(16);
            Ok(String::from_utf8_lossy(&bytes[..used]).into_owned())
        }
        ExprKind::Variable { .. }
        | ExprKind::Verdict(_)
        | ExprKind::Prefix { .. }
        | ExprKind::Range { .. }
        | ExprKind::Concat(_)
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
        | ExprKind::Unary { .. }
        | ExprKind::Binop { .. }
        | ExprKind::Relational { .. }
        | ExprKind::FlagCmp { .. } => error(e.loc, "log prefix must be a string"),
    }
}
