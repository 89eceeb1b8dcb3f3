// SPDX-License-Identifier: Apache-2.0

//! `fwd`

use penstock_program::expr::{Expr as Op, Fwd};
use penstock_ruleset::model::Family;
use penstock_syntax::ast::{Expr, StmtKind};
use penstock_syntax::datatype::DataType;
use penstock_syntax::source::Loc;

use crate::delinearize::program::Reader;
use crate::eval::context::Expected;
use crate::eval::{Eval, Result, error};
use crate::lower::Program;

impl Eval<'_, '_> {
    pub(super) fn fwd(
        &mut self,
        dev: &mut Expr,
        addr: &mut Option<Expr>,
        family: Option<Family>,
        loc: Loc,
    ) -> Result {
        if self.family != Family::Netdev {
            return error(loc, "unsupported family");
        }
        self.arg(dev, loc, Expected::base(DataType::IfIndex))?;
        if let Some(addr) = addr {
            let dtype = match family {
                Some(Family::Ip) => DataType::IpAddr,
                Some(Family::Ip6) => DataType::Ip6Addr,
                _ => return error(loc, "invalid family"),
            };
            self.arg(addr, loc, Expected::base(dtype))?;
        }
        Ok(())
    }
}

impl Program<'_, '_> {
    pub(super) fn fwd(&mut self, dev: &Expr, addr: Option<&Expr>, family: Option<Family>) {
        let base = self.next;
        let dev = self.argument(dev);
        let addr = addr.map(|e| self.argument(e));
        self.release(base);
        let nfproto = family.filter(|_| addr.is_some()).map_or(0, |family| family as u8);
        self.ops.push(Op::Fwd(Fwd { dev, addr, nfproto }));
    }
}

impl Reader<'_, '_> {
    pub(super) fn fwd(&mut self, e: &Fwd) -> Option<()> {
        let dev = self.device(Some(e.dev))?;
        let family = Family::from_number(e.nfproto);
        let addr = match e.addr {
            Some(reg) => Some(self.address(reg, family)?),
            None => None,
        };
        self.push(StmtKind::Fwd { dev, addr, family });
        Some(())
    }
}
