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
        nfproto: u8,
        loc: Loc,
    ) -> Result {
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
}

impl Program<'_, '_> {
    pub(super) fn fwd(&mut self, dev: &Expr, addr: Option<&Expr>, nfproto: u8) {
        let base = self.next;
        let dev = self.argument(dev);
        let addr = addr.map(|e| self.argument(e));
        self.release(base);
        let nfproto = if addr.is_some() { nfproto } else { 0 };
        self.ops.push(Op::Fwd(Fwd { dev, addr, nfproto }));
    }
}

impl Reader<'_, '_> {
    pub(super) fn fwd(&mut self, e: &Fwd) -> Option<()> {
        let dev = self.device(Some(e.dev))?;
        let addr = match e.addr {
            Some(reg) => Some(self.address(reg, e.nfproto)?),
            None => None,
        };
        self.push(StmtKind::Fwd { dev, addr, nfproto: e.nfproto });
        Some(())
    }
}
