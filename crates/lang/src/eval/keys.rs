// SPDX-License-Identifier: Apache-2.0

//! Selectors that a keyword begins, and generators: types, and what each insists on.

use penstock_program::expr::{CtKey, PayloadBase, RtKey};
use penstock_ruleset::model::Family;
use penstock_syntax::ast::key::generated_max;
use penstock_syntax::ast::{Expr, ExprKind};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::diag::Diagnostic;
use penstock_syntax::keys::{self, ValueType};
use penstock_syntax::proto::network;
use penstock_syntax::source::Loc;

use crate::eval::context::{Expected, conflicting};
use crate::eval::{Eval, Result, error};

impl Eval<'_, '_> {
    /// Evaluates an expression that loads something other than packet bytes.
    pub(crate) fn key(&mut self, e: &mut Expr) -> Result {
        let loc = e.loc;
        let mut max = 0;
        if let ExprKind::Hash { expr, modulus, offset, .. } = &mut e.kind {
            self.expected = Expected::default();
            self.expr(expr)?;
            max = generated_max(*modulus, *offset);
            set_type(e, DataType::Integer, ByteOrder::Host, 32);
        } else if let ExprKind::Key(key) = &mut e.kind {
            let written = e.dtype != Type::default();
            let value = self.selector_value(key, written, loc)?;
            max = key.max();
            set_type(e, value.dtype, value.order, value.len);
        }
        e.constant = false;
        e.singleton = true;
        self.expected = Expected::like(e);
        self.expected.max = max;
        Ok(())
    }

    /// What a `ct` key gives: addresses and ports depend on the headers that are known.
    pub(crate) fn ct_value(&mut self, key: CtKey, loc: Loc) -> ValueType {
        let mut value = keys::ct(key).value;
        match key {
            CtKey::Src | CtKey::Dst => match self.protocols.at(PayloadBase::Network) {
                Some(known) if *known == network::IP => {
                    (value.dtype, value.len) = (DataType::IpAddr, 32)
                }
                Some(known) if *known == network::IP6 => {
                    (value.dtype, value.len) = (DataType::Ip6Addr, 128)
                }
                // nft reports that and continues without a type.
                None => {
                    let word = if key == CtKey::Src { "saddr" } else { "daddr" };
                    self.ctx.queued.push(Diagnostic::error(
                        loc,
                        format!("cannot determine ip protocol version, use \"ip {word}\" or \"ip6 {word}\" instead"),
                    ));
                    (value.dtype, value.len) = (DataType::Invalid, 0);
                }
                Some(_) => (value.dtype, value.len) = (DataType::Invalid, 0),
            },
            CtKey::ProtoSrc | CtKey::ProtoDst
                if self.protocols.at(PayloadBase::Transport).is_some() =>
            {
                value.dtype = DataType::InetService;
            }
            _ => {}
        }
        value
    }

    /// What is written counts for IPv6 only; else it is that of the table or of the rule.
    pub(crate) fn rt_dependency(&mut self, key: &mut RtKey, written: bool, loc: Loc) -> Result {
        if written && *key == RtKey::Nexthop6 && self.family == Family::Ip {
            return error(loc, "ip6 nexthop will not match");
        }
        if *key == RtKey::Nexthop4 || *key == RtKey::Nexthop6 && !written {
            *key = match self.protocols.at(PayloadBase::Network) {
                Some(known) if *known == network::IP => RtKey::Nexthop4,
                Some(known) if *known == network::IP6 => RtKey::Nexthop6,
                _ if !written => {
                    return error(
                        loc,
                        "cannot determine ip protocol version, use \"ip nexthop\" or \"ip6 nexthop\" instead",
                    );
                }
                _ => *key,
            };
        }
        Ok(())
    }

    /// Addresses of a flow: the family is written, known, or the expression is ambiguous.
    pub(crate) fn ct_dependency(
        &mut self,
        key: &mut CtKey,
        family: Option<Family>,
        loc: Loc,
    ) -> Result {
        let known = self.protocols.at(PayloadBase::Network);
        let wanted = match (*key, family) {
            (CtKey::SrcIp | CtKey::DstIp, _) | (CtKey::Src | CtKey::Dst, Some(Family::Ip)) => {
                &network::IP
            }
            (CtKey::SrcIp6 | CtKey::DstIp6, _) | (CtKey::Src | CtKey::Dst, Some(Family::Ip6)) => {
                &network::IP6
            }
            _ => return Ok(()),
        };
        match known {
            Some(known) if known != wanted && (*known == network::IP || *known == network::IP6) => {
                self.against(loc, PayloadBase::Network, conflicting(known, wanted))
            }
            _ => {
                *key = match (*key, *wanted == network::IP) {
                    (CtKey::Src, true) => CtKey::SrcIp,
                    (CtKey::Src, false) => CtKey::SrcIp6,
                    (CtKey::Dst, true) => CtKey::DstIp,
                    (CtKey::Dst, false) => CtKey::DstIp6,
                    (other, _) => other,
                };
                Ok(())
            }
        }
    }
}

fn set_type(e: &mut Expr, dtype: DataType, order: ByteOrder, len: u32) {
    e.dtype = Type::Base(dtype);
    e.order = order;
    e.len = len;
}
