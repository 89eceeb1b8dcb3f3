// SPDX-License-Identifier: Apache-2.0

//! `tproxy`

use penstock_program::expr::{self as vm, Expr as Op, PayloadBase};
use penstock_ruleset::model::Family;
use penstock_syntax::ast::{Expr, ExprKind, Stmt, StmtKind};
use penstock_syntax::datatype::DataType;
use penstock_syntax::proto::network;

use crate::delinearize::program::Reader;
use crate::eval::context::Expected;
use crate::eval::{Eval, Result, error};
use crate::lower::Program;

use super::nat::address_type;

impl Eval<'_, '_> {
    pub(super) fn tproxy(&mut self, stmt: &mut Stmt) -> Result {
        let loc = stmt.loc;
        let StmtKind::Tproxy { family, addr, port } = &mut stmt.kind else { return Ok(()) };
        match self.family {
            Family::Ip | Family::Ip6 => {
                family.get_or_insert(self.family);
            }
            Family::Inet => {}
            Family::Arp | Family::Bridge | Family::Netdev => {
                return error(loc, "tproxy is only supported for IPv4/IPv6/INET");
            }
        }
        if self.protocols.at(PayloadBase::Transport).is_none() {
            return error(loc, "Transparent proxy support requires transport protocol match");
        }
        let written = *family;
        if let Some(known) = self.protocols.at(PayloadBase::Network)
            && (*known == network::IP && written != Some(Family::Ip)
                || *known == network::IP6 && written != Some(Family::Ip6))
        {
            let name = match written {
                Some(Family::Ip) => "ip",
                Some(Family::Ip6) => "ip6",
                _ => "unknown",
            };
            let message = format!(
                "conflicting protocols specified: {} vs. {name}. You must specify ip or ip6 family in tproxy statement",
                known.name
            );
            return self.against(loc, PayloadBase::Network, message);
        }
        if let Some(addr) = addr {
            let Some(written) = written else {
                return error(loc, "ip or ip6 must be specified with address for inet tables.");
            };
            if matches!(addr.kind, ExprKind::Range { .. }) {
                return error(loc, "Address ranges are not supported for tproxy.");
            }
            self.arg(addr, loc, Expected::base(address_type(written)))?;
            if let ExprKind::Range { .. } = addr.kind {
                return error(loc, "Address ranges are not supported for tproxy.");
            }
        }
        if let Some(port) = port {
            if matches!(port.kind, ExprKind::Range { .. }) {
                return error(loc, "Port ranges are not supported for tproxy.");
            }
            self.arg(port, loc, Expected::base(DataType::InetService))?;
        }
        Ok(())
    }
}

impl Program<'_, '_> {
    pub(super) fn tproxy(
        &mut self,
        family: Option<Family>,
        addr: Option<&Expr>,
        port: Option<&Expr>,
    ) {
        let base = self.next;
        let addr = addr.map(|e| self.argument_wide(e));
        let port = port.map(|e| self.argument_wide(e));
        self.release(base);
        self.ops.push(Op::Tproxy(vm::Tproxy { family: family.map_or(0, |f| f as u8), addr, port }));
    }
}

impl Reader<'_, '_> {
    pub(super) fn tproxy(&mut self, e: &vm::Tproxy) -> Option<()> {
        let family = Family::from_number(e.family);
        let addr = match e.addr {
            Some(reg) => Some(self.address(reg, family)?),
            None => None,
        };
        let port = self.ports(e.port, None)?;
        // Where the table has one family, it goes without saying.
        let family = family.filter(|_| self.family() == Family::Inet);
        self.push(StmtKind::Tproxy { family, addr, port });
        Some(())
    }
}
