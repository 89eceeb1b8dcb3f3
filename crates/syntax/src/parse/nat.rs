// SPDX-License-Identifier: Apache-2.0

//! Statements that send packets elsewhere: NAT, `tproxy`, `dup`, `fwd`, `queue`.

use penstock_program::expr::NatType;

use super::{Parsed, Parser};
use crate::ast::stmt::{Nat, NatKind};
use crate::ast::{Expr, ExprKind, StmtKind};
use crate::lex::Tok;

/// `NF_NAT_RANGE_*`.
const RANDOM: u32 = 1 << 2;
const PERSISTENT: u32 = 1 << 3;
const FULLY_RANDOM: u32 = 1 << 4;

impl Parser<'_> {
    /// An argument among which the keywords of the statement are still keywords.
    pub(super) fn target(&mut self) -> Parsed<Expr> {
        self.in_target = true;
        let argument = self.argument();
        self.in_target = false;
        argument
    }

    /// `ip` or `ip6` before one of `next`.
    fn family_before(&mut self, next: &[&str]) -> u8 {
        let second = self.second_word();
        if next.contains(&second) { self.address_family() } else { 0 }
    }

    /// `ip` or `ip6` as a number, 0 for neither.
    fn address_family(&mut self) -> u8 {
        let family = match self.word() {
            "ip" => 2,
            "ip6" => 10,
            _ => return 0,
        };
        self.take();
        family
    }

    /// `to`, before which a family could have been.
    fn need_to(&mut self, family: bool) -> Parsed<()> {
        match self.eat("to") {
            true => Ok(()),
            false if family => self.unexpected(&["to"]),
            false => self.unexpected(&["to", "ip", "ip6"]),
        }
    }

    /// `random,persistent`, nothing for 0.
    fn nat_flags(&mut self) -> Parsed<u32> {
        let mut flags = 0;
        loop {
            flags |= match self.word() {
                "random" => RANDOM,
                "fully-random" => FULLY_RANDOM,
                "persistent" => PERSISTENT,
                _ if flags == 0 => return Ok(0),
                _ => return self.unexpected(&["random", "fully-random", "persistent"]),
            };
            self.take();
            if !self.eat_tok(Tok::Comma) {
                return Ok(flags);
            }
        }
    }

    /// `snat …`, `dnat …`
    pub(super) fn nat(&mut self, kind: NatType) -> Parsed<StmtKind> {
        self.take();
        let mut nat = Nat {
            kind: NatKind::Nat(kind),
            family: self.family_before(&["to", "addr", "interval", "prefix"]),
            addr: None,
            port: None,
            flags: 0,
            interval: false,
            concat: false,
            prefix: false,
        };
        match self.word() {
            "addr" if nat.family != 0 => {
                self.take();
                self.need_tok(Tok::Dot)?;
                self.need("port")?;
                nat.concat = true;
            }
            "interval" => {
                self.take();
                nat.interval = true;
            }
            "prefix" => {
                self.take();
                nat.prefix = true;
            }
            _ => {}
        }
        if nat.family != 0 || nat.concat || nat.interval || nat.prefix {
            self.need("to")?;
        } else {
            self.eat("to");
        }
        if self.tok() != Tok::Colon {
            nat.addr = Some(self.target()?);
        }
        if self.eat_tok(Tok::Colon) {
            nat.port = Some(self.target()?);
        }
        loop {
            match self.nat_flags()? {
                0 => return Ok(StmtKind::Nat(nat)),
                flags => nat.flags |= flags,
            }
        }
    }

    /// `masquerade …`, `redirect …`
    pub(super) fn local_nat(&mut self, kind: NatKind) -> Parsed<StmtKind> {
        self.take();
        let mut nat = Nat {
            kind,
            family: 0,
            addr: None,
            port: None,
            flags: 0,
            interval: false,
            concat: false,
            prefix: false,
        };
        if self.eat("to") {
            let colon = self.eat_tok(Tok::Colon);
            if !colon && kind == NatKind::Masquerade {
                return self.unexpected(&["colon"]);
            }
            nat.port = Some(self.target()?);
        }
        nat.flags = self.nat_flags()?;
        Ok(StmtKind::Nat(nat))
    }

    pub(super) fn tproxy(&mut self) -> Parsed<StmtKind> {
        self.take();
        let family = Some(self.address_family()).filter(|&f| f != 0);
        self.need_to(family.is_some())?;
        let addr = if self.tok() == Tok::Colon { None } else { Some(self.target()?) };
        let port = if self.eat_tok(Tok::Colon) { Some(self.target()?) } else { None };
        Ok(StmtKind::Tproxy { family, addr, port })
    }

    pub(super) fn dup(&mut self) -> Parsed<StmtKind> {
        self.take();
        self.need("to")?;
        let to = Some(self.target()?);
        let dev = if self.eat("device") { Some(self.target()?) } else { None };
        Ok(StmtKind::Dup { to, dev })
    }

    pub(super) fn fwd(&mut self) -> Parsed<StmtKind> {
        self.take();
        let nfproto = self.address_family();
        self.need_to(nfproto != 0)?;
        let first = self.target()?;
        if nfproto == 0 {
            return Ok(StmtKind::Fwd { dev: first, addr: None, nfproto });
        }
        self.need("device")?;
        let dev = self.target()?;
        Ok(StmtKind::Fwd { dev, addr: Some(first), nfproto })
    }

    /// `queue`, `queue [flags F] to …`, and the older `queue num N bypass`
    pub(super) fn queue(&mut self) -> Parsed<StmtKind> {
        self.take();
        let (mut expr, mut bypass, mut fanout) = (None, false, false);
        if self.eat("flags") {
            self.queue_flags(&mut bypass, &mut fanout)?;
            if self.eat("to") {
                expr = Some(self.queue_target()?);
            } else if self.eat("num") {
                expr = Some(self.queue_numbers()?);
            } else {
                return self.unexpected(&["comma", "to", "num"]);
            }
            return Ok(StmtKind::Queue { expr, bypass, fanout });
        }
        if self.eat("to") {
            expr = Some(self.queue_target()?);
            return Ok(StmtKind::Queue { expr, bypass, fanout });
        }
        loop {
            match self.word() {
                "num" => {
                    let start = self.take().loc;
                    let numbers = self.queue_numbers()?;
                    expr = Some(Expr { loc: self.since(start), ..numbers });
                }
                "bypass" | "fanout" => self.queue_flags(&mut bypass, &mut fanout)?,
                _ => return Ok(StmtKind::Queue { expr, bypass, fanout }),
            }
        }
    }

    fn queue_flags(&mut self, bypass: &mut bool, fanout: &mut bool) -> Parsed<()> {
        loop {
            match self.word() {
                "bypass" => *bypass = true,
                "fanout" => *fanout = true,
                _ => return self.unexpected(&["bypass", "fanout"]),
            }
            self.take();
            if !self.eat_tok(Tok::Comma) {
                return Ok(());
            }
        }
    }

    /// A number, a range of them, or an expression that gives one.
    fn queue_target(&mut self) -> Parsed<Expr> {
        match self.tok() {
            Tok::Num(_) | Tok::Dollar => self.queue_numbers(),
            Tok::LeftBrace => self.unexpected(&[]),
            Tok::Word if self.at_keyword() => self.unexpected(&[]),
            _ => {
                let expr = self.lhs()?;
                // Only these give a number by themselves.
                let number = matches!(expr.kind, ExprKind::Map { .. } | ExprKind::Hash { .. });
                if number || expr.is_generator() {
                    Ok(expr)
                } else {
                    self.unexpected(&[".", "map"])
                }
            }
        }
    }

    fn queue_numbers(&mut self) -> Parsed<Expr> {
        let start = self.here();
        let left = self.queue_number()?;
        if !self.eat_tok(Tok::Dash) {
            return Ok(left);
        }
        let right = self.queue_number()?;
        Ok(Expr::new(
            ExprKind::Range { left: Box::new(left), right: Box::new(right) },
            self.since(start),
        ))
    }

    fn queue_number(&mut self) -> Parsed<Expr> {
        match self.tok() {
            Tok::Num(_) | Tok::Dollar => self.symbol_or_number(),
            _ => self.unexpected(&["number", "'$'"]),
        }
    }
}
