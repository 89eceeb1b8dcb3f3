// SPDX-License-Identifier: Apache-2.0

//! `reject`

use penstock_program::expr::{self as vm, PayloadBase, RejectType};
use penstock_ruleset::model::Family;
use penstock_syntax::ast::stmt::Reject;
use penstock_syntax::ast::{ExprKind, StmtKind};
use penstock_syntax::datatype::DataType;
use penstock_syntax::proto::{Proto, network, transport};
use penstock_syntax::source::Loc;

use crate::delinearize::program::Reader;
use crate::delinearize::raw;
use crate::eval::context::{Expected, UNKNOWN};
use crate::eval::{Eval, Result, conflict, error};

impl Eval<'_, '_> {
    pub(super) fn reject(&mut self, reject: &mut Reject, loc: Loc) -> Result {
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
                        (_, Some(Family::Ip6)) => DataType::Icmpv6Code,
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
                    // Goes to the head of the rule, so that earlier statements (`log`) are for TCP
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
                    if reject.family == Some(Family::Ip6) { &network::IP6 } else { &network::IP };
                match (self.family, network) {
                    (Family::Ip, _) if reject.family != Some(Family::Ip) => {
                        conflict(expr_loc, loc, "conflicting protocols specified: ip vs ip6")
                    }
                    (Family::Ip6, _) if reject.family != Some(Family::Ip6) => {
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

    /// Only IP can be rejected, in families that do not imply it.
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
        let icmpx = reject.expr.is_some() && reject.family.is_none();
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

    /// Port unreachable of the family that the packet is known to have.
    fn reject_default(&mut self, reject: &mut Reject) {
        let family = match (self.family, self.protocols.at(PayloadBase::Network)) {
            (Family::Ip, _) => Some(Family::Ip),
            (Family::Ip6, _) => Some(Family::Ip6),
            (_, Some(known)) if *known == network::IP => Some(Family::Ip),
            (_, Some(known)) if *known == network::IP6 => Some(Family::Ip6),
            _ => None,
        };
        reject.family = family;
        (reject.kind, reject.code) = match family {
            Some(Family::Ip) => (Some(RejectType::IcmpUnreach), 3),
            Some(Family::Ip6) => (Some(RejectType::IcmpUnreach), 4),
            _ => (Some(RejectType::IcmpxUnreach), 1),
        };
    }
}

impl Reader<'_, '_> {
    pub(super) fn reject(&mut self, e: &vm::Reject) {
        let code = raw(ExprKind::Value(e.code.into()), 8);
        let expr = (e.kind != RejectType::TcpRst).then_some(code);
        self.push(StmtKind::Reject(Reject {
            kind: Some(e.kind),
            family: None,
            expr,
            code: e.code,
        }));
    }
}
