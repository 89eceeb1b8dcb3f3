// SPDX-License-Identifier: Apache-2.0

//! Statements of rules.

use std::sync::Arc;

use penstock_program::expr::{ExthdrOp, NatType, ObjectType, RejectType};

use super::sets::Maps;
use super::{Parsed, Parser};
use crate::ast::stmt::{NatKind, Reject};
use crate::ast::{Expr, ExprKind, Key, RuleBlock, Stmt, StmtKind};
use crate::lex::Tok;
use crate::source::Loc;
impl Parser<'_> {
    /// Statements up to the end of the rule, and its comment.
    pub(super) fn rule(&mut self) -> Parsed<RuleBlock> {
        let start = self.here();
        let mut rule = RuleBlock::default();
        loop {
            match self.tok() {
                Tok::Newline | Tok::Semicolon | Tok::Eof | Tok::RightBrace
                    if !rule.stmts.is_empty() =>
                {
                    break;
                }
                // Left to whoever knows what may follow a rule here.
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

    pub(super) fn stmt(&mut self) -> Parsed<Stmt> {
        let start = self.here();
        self.stmt = start;
        self.keywords = match self.word() {
            word if super::words::begins_effect(word) => super::words::keywords_behind(word),
            _ => self.outer_keywords(),
        };
        // A queue's number is no part of the older form to nft.
        let older_queue = self.at("queue") && !matches!(self.second_word(), "to" | "flags");
        let kind = self.stmt_kind(start)?;
        let loc = if older_queue { start } else { self.since(start) };
        Ok(Stmt { kind, loc })
    }

    fn stmt_kind(&mut self, start: Loc) -> Parsed<StmtKind> {
        if self.tok() != Tok::Word {
            return self.match_or_write(start);
        }
        if self.at("tunnel") && self.second_word() == "name" {
            return self.tunnel_stmt();
        }
        match self.word() {
            "jump" | "goto" => {
                let target = self.peek_second();
                if target.tok == Tok::Dollar
                    || matches!(target.tok, Tok::Word | Tok::Str) && self.is_string(target)
                {
                    return match self.verdict()? {
                        Some(verdict) => Ok(StmtKind::Verdict(verdict)),
                        None => self.unexpected(&[]),
                    };
                }
                let goto = self.at("goto");
                self.take();
                let block = self.implicit_chain()?;
                Ok(StmtKind::Chain { goto, block })
            }
            "accept" | "drop" | "continue" | "return" => match self.verdict()? {
                Some(verdict) => Ok(StmtKind::Verdict(verdict)),
                None => self.unexpected(&[]),
            },
            "counter" | "limit" | "quota" => match self.stateful()? {
                Some(kind) => Ok(kind),
                None => self.unexpected(&[]),
            },
            "last" => match self.stateful()? {
                Some(kind) => Ok(kind),
                None => self.match_or_write(start),
            },
            "ct" => match self.second_word() {
                "count" => match self.stateful()? {
                    Some(kind) => Ok(kind),
                    None => self.unexpected(&[]),
                },
                "timeout" | "expectation" => {
                    self.take();
                    let kind = if self.at("timeout") {
                        ObjectType::CtTimeout
                    } else {
                        ObjectType::CtExpect
                    };
                    self.take();
                    self.keywords = super::words::keywords_behind("ct");
                    self.need("set")?;
                    Ok(StmtKind::ObjRef { kind, expr: self.scoped("ct", Self::target)? })
                }
                _ => self.match_or_write(start),
            },
            "log" => self.log(),
            "reject" => self.reject(),
            "snat" => self.nat(NatType::Snat),
            "dnat" => self.nat(NatType::Dnat),
            "masquerade" => self.local_nat(NatKind::Masquerade),
            "redirect" => self.local_nat(NatKind::Redirect),
            "tproxy" => self.tproxy(),
            "synproxy" => self.synproxy(),
            "queue" => self.queue(),
            "dup" => self.dup(),
            "fwd" => self.fwd(),
            "notrack" => {
                self.take();
                Ok(StmtKind::Notrack)
            }
            "flow" => self.flow(),
            "set" => self.set_stmt(),
            "add" | "update" | "delete" => {
                let op = self.set_op()?;
                self.update(op)
            }
            "meter" => self.meter(),
            "reset" => {
                self.take();
                self.keywords = super::words::keywords_behind("reset");
                self.need("tcp")?;
                self.keywords = super::words::keywords_behind("tcp");
                if !self.at("option") {
                    return self.unexpected(&["option"]);
                }
                let target = self.whole_tcp_option(start)?;
                self.ends_by_itself();
                Ok(StmtKind::ExthdrReset { target })
            }
            "xt" => self.xt(start),
            _ => self.match_or_write(start),
        }
    }

    /// An expression that is compared with something, looked up, or (`set`) written to.
    fn match_or_write(&mut self, start: Loc) -> Parsed<StmtKind> {
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
            // nft looks no further behind a map. Behind a hash or a generated number it looks for
            // `offset`, in their own scope.
            let looks = match expr.kind {
                ExprKind::Map { .. } => false,
                ExprKind::Hash { .. } => parser.inputs.slice(parser.last_but_one) == "offset",
                ExprKind::Key(key) if key.is_generator() => {
                    parser.inputs.slice(parser.last_but_one) == "offset"
                }
                ExprKind::Symbol { .. }
                | ExprKind::Variable { .. }
                | ExprKind::Value(_)
                | ExprKind::String(_)
                | ExprKind::Verdict(_)
                | ExprKind::Prefix { .. }
                | ExprKind::Range { .. }
                | ExprKind::Concat(_)
                | ExprKind::List(_)
                | ExprKind::Set { .. }
                | ExprKind::SetElem(_)
                | ExprKind::CatchAll
                | ExprKind::Mapping { .. }
                | ExprKind::SetRef { .. }
                | ExprKind::Payload(_)
                | ExprKind::Exthdr(_)
                | ExprKind::Key(_)
                | ExprKind::Unary { .. }
                | ExprKind::Binop { .. }
                | ExprKind::Relational { .. }
                | ExprKind::FlagCmp { .. } => true,
            };
            if looks {
                parser.no_keyword_behind()?;
            }
            Ok(expr)
        })
    }

    fn reject(&mut self) -> Parsed<StmtKind> {
        self.take();
        let mut reject = Reject { kind: None, family: 0, expr: None, code: 0 };
        if !self.eat("with") {
            return Ok(StmtKind::Reject(reject));
        }
        match self.word() {
            "icmp" => (reject.kind, reject.family) = (Some(RejectType::IcmpUnreach), 2),
            "icmpv6" => (reject.kind, reject.family) = (Some(RejectType::IcmpUnreach), 10),
            "icmpx" => reject.kind = Some(RejectType::IcmpxUnreach),
            "tcp" => {
                self.take();
                self.need("reset")?;
                reject.kind = Some(RejectType::TcpRst);
                return Ok(StmtKind::Reject(reject));
            }
            _ => return self.unexpected(&["icmp", "icmpv6", "tcp", "icmpx"]),
        }
        let scope = if self.at("icmpx") { "reject" } else { "icmp" };
        self.keywords = super::words::keywords_behind(scope);
        self.take();
        let typed = self.eat("type");
        let token = self.peek();
        let number = matches!(token.tok, Tok::Num(_));
        let keyword = super::words::keywords_behind(scope).contains(&self.word());
        let word = matches!(token.tok, Tok::Word | Tok::Str) && self.is_string(token) && !keyword;
        if !number && !word {
            return self.unexpected(if typed {
                &["number", "string"]
            } else {
                &["number", "string", "type"]
            });
        }
        reject.expr = Some(self.symbol_or_number()?);
        Ok(StmtKind::Reject(reject))
    }

    fn synproxy(&mut self) -> Parsed<StmtKind> {
        self.take();
        if self.at("name") {
            return self.object_ref(ObjectType::Synproxy);
        }
        let (mut mss, mut wscale, mut flags) = (0, 0, 0);
        while self.synproxy_option(&mut mss, &mut wscale, &mut flags)? {}
        Ok(StmtKind::Synproxy { mss, wscale, flags })
    }

    /// `flow add @ft`, `flow offload @ft`
    fn flow(&mut self) -> Parsed<StmtKind> {
        self.take();
        if self.at("table") || self.tok() == Tok::LeftBrace {
            let mut name = Arc::from("");
            if self.eat("table") {
                name = self.identifier()?.text;
            }
            return self.meter_block(name, 0);
        }
        if !self.eat("add") && !self.eat("offload") {
            return self.unexpected(&["table"]);
        }
        self.need_tok(Tok::At)?;
        Ok(StmtKind::FlowOffload { table: self.string()?.text })
    }

    fn xt(&mut self, start: Loc) -> Parsed<StmtKind> {
        self.take();
        self.identifier()?;
        self.identifier()?;
        let loc = self.since(start);
        self.error(loc, "unsupported xtables compat expression, use iptables-nft with this ruleset")
    }
}

fn is_writable(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Key(Key::Meta { .. }) | ExprKind::Key(Key::Ct { .. }) | ExprKind::Payload(_) => {
            true
        }
        ExprKind::Exthdr(exthdr) => exthdr.op != ExthdrOp::Ipv6,
        ExprKind::Symbol { .. }
        | ExprKind::Variable { .. }
        | ExprKind::Value(_)
        | ExprKind::String(_)
        | ExprKind::Verdict(_)
        | ExprKind::Prefix { .. }
        | ExprKind::Range { .. }
        | ExprKind::Concat(_)
        | ExprKind::List(_)
        | ExprKind::Set { .. }
        | ExprKind::SetElem(_)
        | ExprKind::CatchAll
        | ExprKind::Mapping { .. }
        | ExprKind::Map { .. }
        | ExprKind::SetRef { .. }
        | ExprKind::Key(_)
        | ExprKind::Hash { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binop { .. }
        | ExprKind::Relational { .. }
        | ExprKind::FlagCmp { .. } => false,
    }
}
