// SPDX-License-Identifier: Apache-2.0

//! `meta`, `ct`, `rt`, `socket`, `fib`, `ipsec`, `tunnel`, `osf`, `numgen`, `hash`: types, and what
//! each insists on.

use penstock_program::expr::{CtKey, FibResult, MetaKey, PayloadBase, RtKey};
use penstock_ruleset::model::Family;
use penstock_syntax::ast::{Expr, ExprKind};
use penstock_syntax::datatype::{ByteOrder, DataType, Type};
use penstock_syntax::diag::Diagnostic;
use penstock_syntax::keys;
use penstock_syntax::proto::network;

use crate::eval::context::{Expected, conflicting};
use crate::eval::{Eval, Result, error};
use crate::key_type::Field;

/// `NFTA_FIB_F_PRESENT`.
const FIB_PRESENT: u32 = 32;

impl Eval<'_, '_> {
    /// Evaluates an expression that loads something other than packet bytes.
    pub(crate) fn key(&mut self, e: &mut Expr) -> Result {
        let loc = e.loc;
        let network = self.protocols.at(PayloadBase::Network);
        let mut max = 0;
        match &mut e.kind {
            ExprKind::Meta { key } => {
                let key = *key;
                if key == MetaKey::NfProto && self.family != Family::Inet {
                    return error(loc, "meta nfproto is only useful in the inet family");
                }
                if key == MetaKey::TimeDay {
                    max = 6;
                }
                let field = Field::of_meta(key);
                set_type(e, field.dtype, field.order, field.len);
            }
            ExprKind::Ct { key, dir, nfproto } => {
                self.ct_dependency(key, *nfproto, loc)?;
                let key = *key;
                let _ = dir;
                let info = keys::ct(key);
                let (mut dtype, mut len) = (info.dtype, info.len);
                match key {
                    CtKey::Src | CtKey::Dst => match network {
                        Some(known) if *known == network::IP => {
                            (dtype, len) = (DataType::IpAddr, 32)
                        }
                        Some(known) if *known == network::IP6 => {
                            (dtype, len) = (DataType::Ip6Addr, 128)
                        }
                        // nft says so and goes on without a type.
                        None => {
                            let word = if key == CtKey::Src { "saddr" } else { "daddr" };
                            self.ctx.queued.push(Diagnostic::error(
                                loc,
                                format!("cannot determine ip protocol version, use \"ip {word}\" or \"ip6 {word}\" instead"),
                            ));
                            (dtype, len) = (DataType::Invalid, 0);
                        }
                        Some(_) => (dtype, len) = (DataType::Invalid, 0),
                    },
                    CtKey::ProtoSrc | CtKey::ProtoDst
                        if self.protocols.at(PayloadBase::Transport).is_some() =>
                    {
                        dtype = DataType::InetService;
                    }
                    _ => {}
                }
                set_type(e, dtype, info.order, len);
            }
            ExprKind::Rt { key } => {
                // What is written counts for IPv6 only; else it is that of the table or of the
                // rule.
                let written = e.dtype != Type::default();
                if written && *key == RtKey::Nexthop6 && self.family == Family::Ip {
                    return error(loc, "ip6 nexthop will not match");
                }
                if *key == RtKey::Nexthop4 || *key == RtKey::Nexthop6 && !written {
                    *key = match network {
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
                let info = keys::rt(*key);
                set_type(e, info.dtype, info.order, info.len);
            }
            ExprKind::Socket { key, .. } => {
                let key = *key;
                let info = keys::socket(key);
                set_type(e, info.dtype, info.order, info.len);
                if matches!(
                    key,
                    penstock_program::expr::SocketKey::Transparent
                        | penstock_program::expr::SocketKey::Wildcard
                ) {
                    max = 1;
                }
            }
            ExprKind::Osf { .. } => {
                set_type(e, DataType::String, ByteOrder::Host, 128);
            }
            ExprKind::Fib { flags, result } => {
                if *flags & FIB_PRESENT != 0 {
                    // To nft the answer is as long as what it stands for.
                    let len = if matches!(result, FibResult::OifName) { 128 } else { 1 };
                    set_type(e, DataType::Boolean, ByteOrder::Host, len);
                } else {
                    let info = keys::fib(*result);
                    set_type(e, info.dtype, info.order, info.len);
                }
            }
            ExprKind::Xfrm { key, .. } => {
                if !matches!(self.family, Family::Ip | Family::Ip6 | Family::Inet) {
                    return error(loc, "ipsec expression is only valid in ip/ip6/inet tables");
                }
                let key = *key;
                let info = keys::xfrm(key);
                set_type(e, info.dtype, info.order, info.len);
            }
            ExprKind::Tunnel { key } => {
                let info = keys::tunnel(*key);
                set_type(e, info.dtype, info.order, info.len);
            }
            ExprKind::Numgen { modulus, offset, .. } => {
                let (modulus, offset) = (*modulus, *offset);
                set_type(e, DataType::Integer, ByteOrder::Host, 32);
                max = generated_max(modulus, offset);
            }
            ExprKind::Hash { expr, modulus, offset, .. } => {
                if let Some(expr) = expr {
                    self.expected = Expected::default();
                    self.expr(expr)?;
                }
                max = generated_max(*modulus, *offset);
                set_type(e, DataType::Integer, ByteOrder::Host, 32);
            }
            _ => {}
        }
        e.constant = false;
        e.singleton = true;
        self.expected = Expected::like(e);
        self.expected.max = max;
        Ok(())
    }

    /// Addresses of a flow: the family is written, known, or the expression is ambiguous.
    fn ct_dependency(
        &mut self,
        key: &mut CtKey,
        nfproto: u8,
        loc: penstock_syntax::source::Loc,
    ) -> Result {
        let known = self.protocols.at(PayloadBase::Network);
        let wanted = match (*key, nfproto) {
            (CtKey::SrcIp | CtKey::DstIp, _) | (CtKey::Src | CtKey::Dst, 2) => &network::IP,
            (CtKey::SrcIp6 | CtKey::DstIp6, _) | (CtKey::Src | CtKey::Dst, 10) => &network::IP6,
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

/// The largest value of a generator; 0 says nothing of it.
fn generated_max(modulus: u32, offset: u32) -> u32 {
    modulus.saturating_add(offset).saturating_sub(1)
}
