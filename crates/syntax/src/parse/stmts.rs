// SPDX-License-Identifier: Apache-2.0

//! Statements of rules.

use penstock_program::Family;
use penstock_program::expr::ExthdrOp;

use super::sets::Maps;
use super::{Parsed, Parser};
use crate::ast::{Expr, ExprKind, Key, RuleBlock, Stmt, StmtKind};
use crate::lex::Tok;
use crate::source::Loc;
impl Parser<'_> {
    /// Statements up to the end of the rule, and its comment.
    pub(crate) fn rule(&mut self) -> Parsed<RuleBlock> {
        let start = self.here();
        let mut rule = RuleBlock::default();
        loop {
            match self.tok() {
                Tok::Newline | Tok::Semicolon | Tok::Eof | Tok::RightBrace
                    if !rule.stmts.is_empty() =>
                {
                    break;
                }
                // The caller knows what may follow a rule here.
                tok if !rule.stmts.is_empty() && !matches!(tok, Tok::Word) && !self.at_stmt() => {
                    break;
                }
                Tok::Word if !rule.stmts.is_empty() && self.cannot_begin_stmt() => {
                    break;
                }
                _ if !rule.stmts.is_empty() && self.at("comment") => {
                    rule.comment = Some(self.comment()?);
                    break;
                }
                _ => rule.stmts.push(self.stmt()?),
            }
        }
        rule.loc = self.since(start);
        Ok(rule)
    }

    /// Whether a token that is no word can start a statement.
    fn at_stmt(&mut self) -> bool {
        let token = self.peek();
        match token.tok {
            Tok::Num(_) | Tok::Dollar | Tok::LeftParen | Tok::LeftBrace | Tok::At => true,
            _ => self.is_string(token),
        }
    }

    pub(crate) fn stmt(&mut self) -> Parsed<Stmt> {
        let start = self.here();
        self.stmt = start;
        self.keywords = match self.word() {
            word if super::words::begins_effect(word) => super::words::keywords_after(word),
            _ => self.outer_keywords(),
        };
        // A queue's number is no part of the older form to nft.
        let older_queue = self.at("queue") && !matches!(self.second_word(), "to" | "flags");
        let kind = self.stmt_kind(start)?;
        let loc = if older_queue { start } else { self.since(start) };
        Ok(Stmt { kind, loc })
    }

    /// A stateful statement, if one is ahead.
    pub(crate) fn stateful_stmt(&mut self) -> Parsed<Option<Stmt>> {
        if self.tok() != Tok::Word {
            return Ok(None);
        }
        let start = self.here();
        let kind = self.stateful()?;
        Ok(kind.map(|kind| Stmt { kind, loc: self.since(start) }))
    }

    /// An argument among which the keywords of the statement are still keywords.
    pub(crate) fn target(&mut self) -> Parsed<Expr> {
        self.in_target = true;
        let argument = self.argument();
        self.in_target = false;
        argument
    }

    /// `ip` or `ip6`, if one is ahead.
    pub(crate) fn address_family(&mut self) -> Option<Family> {
        let family = match self.word() {
            "ip" => Family::Ip,
            "ip6" => Family::Ip6,
            _ => return None,
        };
        self.take();
        Some(family)
    }

    /// `to`, before which a family could have been.
    pub(crate) fn need_to(&mut self, family: bool) -> Parsed<()> {
        match self.eat("to") {
            true => Ok(()),
            false if family => self.unexpected(&["to"]),
            false => self.unexpected(&["to", "ip", "ip6"]),
        }
    }

    /// An expression that is compared with something, looked up, or (`set`) written to.
    pub(crate) fn match_or_write(&mut self, start: Loc) -> Parsed<StmtKind> {
        let left = self.lhs()?;
        match self.word() {
            "vmap" => {
                self.take();
                let mappings = match self.tok() {
                    Tok::LeftBrace => self.set_expr(Maps::Verdicts)?,
                    _ => match self.tok() {
                        Tok::At | Tok::Dollar => self.set_ref()?,
                        _ => return self.unexpected(&["@", "'{'", "'$'"]),
                    },
                };
                let kind = ExprKind::Map { key: Box::new(left), mappings: Box::new(mappings) };
                Ok(StmtKind::Verdict(Expr::new(kind, self.since(start))))
            }
            "set" if is_writable(&left) => {
                self.take();
                let is_meta = matches!(left.kind, ExprKind::Key(Key::Meta { .. }));
                let expr = if is_meta && self.inputs.slice(start) == "meta" {
                    self.written("meta")?
                } else if let ExprKind::Key(Key::Ct { .. }) = left.kind {
                    self.written("ct")?
                } else {
                    self.argument()?
                };
                match StmtKind::assign(left, expr) {
                    Some(assignment) => Ok(assignment),
                    None => self.unexpected(&[]),
                }
            }
            _ => Ok(StmtKind::Match(self.relational(left, start)?)),
        }
    }

    /// What `first`, a keyword of the statement, is set to.
    fn written(&mut self, first: &str) -> Parsed<Expr> {
        self.scoped(first, |parser| {
            let expr = parser.target()?;
            // nft looks no further after a map. After a hash or a generated number it looks for
            // `offset`, in their own scope.
            let generated = matches!(expr.kind, ExprKind::Hash { .. }) || expr.is_generator();
            let looks = if generated {
                parser.inputs.slice(parser.last_but_one) == "offset"
            } else {
                !matches!(expr.kind, ExprKind::Map { .. })
            };
            if looks {
                parser.no_keyword_after()?;
            }
            Ok(expr)
        })
    }
}

fn is_writable(expr: &Expr) -> bool {
    if let ExprKind::Exthdr(exthdr) = &expr.kind {
        return exthdr.op != ExthdrOp::Ipv6;
    }
    matches!(expr.kind, ExprKind::Key(Key::Meta { .. } | Key::Ct { .. }) | ExprKind::Payload(_))
}
