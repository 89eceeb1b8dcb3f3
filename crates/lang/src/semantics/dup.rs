// SPDX-License-Identifier: Apache-2.0

//! `dup`

use penstock_program::expr::{Dup, Expr as Op};
use penstock_ruleset::model::Family;
use penstock_syntax::ast::{Expr, StmtKind};
use penstock_syntax::datatype::{DataType, Type};
use penstock_syntax::source::Loc;

use crate::delinearize::program::Reader;
use crate::eval::context::Expected;
use crate::eval::{Eval, Result, error};
use crate::lower::Program;

impl Eval<'_, '_> {
    /// The address to duplicate to (IP families), the device to leave by (netdev).
    pub(super) fn dup(
        &mut self,
        to: &mut Option<Expr>,
        dev: &mut Option<Expr>,
        loc: Loc,
    ) -> Result {
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
}

impl Program<'_, '_> {
    pub(super) fn dup(&mut self, to: Option<&Expr>, dev: Option<&Expr>) {
        let base = self.next;
        let mut dup = Dup { addr: None, dev: None };
        if let Some(to) = to {
            let device = to.dtype == Type::Base(DataType::IfIndex);
            let register = Some(self.argument(to));
            if device {
                dup.dev = register;
            } else {
                dup.addr = register;
            }
        }
        if let Some(dev) = dev {
            dup.dev = Some(self.argument(dev));
        }
        self.release(base);
        self.ops.push(Op::Dup(dup));
    }
}

impl Reader<'_, '_> {
    pub(super) fn dup(&mut self, e: &Dup) -> Option<()> {
        let dev = self.device(e.dev);
        let to = match e.addr {
            Some(reg) => Some(self.address(reg, None)?),
            None => None,
        };
        let (to, dev) = if to.is_none() { (dev, None) } else { (to, dev) };
        self.push(StmtKind::Dup { to, dev });
        Some(())
    }
}
