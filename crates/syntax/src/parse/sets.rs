// SPDX-License-Identifier: Apache-2.0

//! Sets and maps: their declarations, and elements.

use penstock_program::expr::ObjectType;

use super::{Bad, Mode, Parsed, Parser, placed};
use crate::ast::cmd::{SetBlock, SetData};
use crate::ast::expr::{SetElem, SetExprFlags};
use crate::ast::{Expr, ExprKind, Stmt, StmtKind};
use crate::datatype::DataType;
use crate::lex::Tok;
use crate::source::Loc;

/// What the elements of a set in braces map to.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Maps {
    /// Anything or nothing.
    Any,
    /// Verdicts (`vmap`).
    Verdicts,
}

impl Parser<'_> {
    /// `{ type …; flags …; elements = { … } }`
    pub(super) fn set_block(&mut self, map: bool) -> Parsed<SetBlock> {
        let braces = self.here();
        let mut set = SetBlock { map, ..SetBlock::default() };
        if self.tok() != Tok::LeftBrace {
            return self.unexpected(&["'{'"]);
        }
        self.block(|p| p.set_item(&mut set))?;
        // nft's place of a block begins with its brace and ends with what stands in it.
        set.loc = braces.to(self.last_but_one);
        Ok(set)
    }

    /// An item with its separator. Most say nothing before the separator is there.
    fn set_item(&mut self, set: &mut SetBlock) -> Parsed<()> {
        match self.word() {
            "type" => return self.set_key(set, false),
            "typeof" => return self.set_key(set, true),
            "flags" => return self.set_flags(set),
            "timeout" => {
                self.take();
                let timeout = self.time()?;
                self.separator()?;
                set.timeout = Some(timeout);
                return Ok(());
            }
            "gc-interval" => {
                self.take();
                let interval = u32::try_from(self.time()?).unwrap_or(u32::MAX);
                self.separator()?;
                set.gc_interval = Some(interval);
                return Ok(());
            }
            "size" => {
                self.take();
                set.size = Some(self.number_as()?);
            }
            "policy" => {
                self.take();
                set.policy_memory = match self.word() {
                    "performance" => Some(false),
                    "memory" => Some(true),
                    _ => return self.unexpected(&["memory", "performance"]),
                };
                self.take();
            }
            // These two need no separator after them.
            "auto-merge" => {
                self.take();
                set.auto_merge = true;
                return Ok(());
            }
            "elements" => {
                self.take();
                self.need_tok(Tok::Assign)?;
                set.elements = Some(self.added_elements()?);
                return Ok(());
            }
            "comment" => return self.separated_comment(&mut set.comment),
            _ => return self.set_stmts(set),
        }
        self.separator()
    }

    /// `type ipv4_addr : inet_service`, `typeof ip saddr : tcp dport`
    fn set_key(&mut self, set: &mut SetBlock, by_expression: bool) -> Parsed<()> {
        self.take();
        let key = if by_expression { self.typeof_list()? } else { self.type_names()? };
        let mut data = None;
        if set.map {
            if self.tok() != Tok::Colon {
                return self.unexpected(&["colon", "."]);
            }
            self.take();
            data = Some(self.map_data(by_expression)?);
        }
        let complete = match &data {
            None => false,
            Some(SetData::Object(_)) => true,
            Some(SetData::Expr { interval, .. }) => by_expression && !interval,
        };
        self.separator_or(if complete { &[] } else { &["."] })?;
        (set.key, set.key_typeof) = (Some(key), by_expression);
        set.data = data;
        Ok(())
    }

    /// `flags interval, timeout`
    fn set_flags(&mut self, set: &mut SetBlock) -> Parsed<()> {
        self.take();
        let mut flags = set.flags;
        loop {
            match self.word() {
                "constant" => flags.constant = true,
                "interval" => flags.interval = true,
                "timeout" => flags.timeout = true,
                "dynamic" => flags.eval = true,
                _ => return self.unexpected(&["constant", "interval", "dynamic", "timeout"]),
            }
            self.take();
            if !self.eat_tok(Tok::Comma) {
                break;
            }
        }
        self.separator_or(&["comma"])?;
        set.flags = flags;
        set.flags_written = true;
        Ok(())
    }

    /// `counter quota 10 mbytes`: statements that each element has a state of.
    fn set_stmts(&mut self, set: &mut SetBlock) -> Parsed<()> {
        if self.at("ct") && self.second_word() != "count" {
            self.take();
            self.keywords = super::words::keywords_after("ct");
            return self.unexpected(&["count"]);
        }
        let Some(stmt) = self.stateful_stmt()? else { return self.unexpected(&[]) };
        let mut stmts = vec![stmt];
        while let Some(stmt) = self.stateful_stmt()? {
            stmts.push(stmt);
        }
        // What may follow is more than nft names.
        if !matches!(self.tok(), Tok::Newline | Tok::Semicolon) {
            return self.unexpected(&[]);
        }
        self.separator()?;
        set.stmts.extend(stmts);
        Ok(())
    }

    /// `ipv4_addr . inet_service`: a symbol, or a concatenation of them.
    fn type_names(&mut self) -> Parsed<Expr> {
        let start = self.here();
        let mut parts = vec![self.type_name()?];
        while self.eat_tok(Tok::Dot) {
            parts.push(self.type_name()?);
        }
        Ok(self.one_or_concat(parts, start))
    }

    fn one_or_concat(&mut self, mut parts: Vec<Expr>, start: Loc) -> Expr {
        match parts.pop() {
            Some(only) if parts.is_empty() => only,
            Some(last) => {
                parts.push(last);
                Expr::new(ExprKind::Concat(parts), self.since(start))
            }
            None => Expr::new(ExprKind::Concat(parts), start),
        }
    }

    fn type_name(&mut self) -> Parsed<Expr> {
        let token = self.peek();
        let text = match token.tok {
            Tok::Word => self.inputs.slice(token.loc),
            Tok::Str => self.text(token),
            _ => return self.unexpected(&[]),
        };
        // Words that are reserved elsewhere and name types.
        let reserved = matches!(text, "mark" | "ecn" | "time" | "day" | "hour");
        if !reserved && super::words::is_reserved(text) {
            return self.unexpected(&[]);
        }
        if text != "verdict" && DataType::from_name(text).is_none() {
            let message = format!("unknown datatype {text}");
            return self.error(token.loc, message);
        }
        let symbol = Self::symbol(text, token.loc);
        self.take();
        Ok(symbol)
    }

    fn typeof_list(&mut self) -> Parsed<Expr> {
        let start = self.here();
        let mut parts = vec![self.typeof_part()?];
        while self.tok() == Tok::Dot {
            let dot = self.take().loc;
            let part = self.typeof_part()?;
            parts.push(placed(part, dot, parts.len()));
        }
        Ok(self.one_or_concat(parts, start))
    }

    fn typeof_part(&mut self) -> Parsed<Expr> {
        let expr = self.primary()?;
        if matches!(expr.kind, ExprKind::Symbol { .. }) {
            return self
                .error(expr.loc, "primary expression type 'symbol' lacks typeof serialization");
        }
        Ok(expr)
    }

    fn map_data(&mut self, by_expression: bool) -> Parsed<SetData> {
        let object = match self.word() {
            "counter" => Some(ObjectType::Counter),
            "quota" => Some(ObjectType::Quota),
            "limit" => Some(ObjectType::Limit),
            "secmark" => Some(ObjectType::SecMark),
            "synproxy" => Some(ObjectType::Synproxy),
            "ct" => match self.second_word() {
                "helper" => Some(ObjectType::CtHelper),
                "timeout" => Some(ObjectType::CtTimeout),
                "expectation" => Some(ObjectType::CtExpect),
                _ => None,
            },
            _ => None,
        };
        if let Some(kind) = object {
            if self.take_is_ct() {
                self.take();
            }
            return Ok(SetData::Object(kind));
        }
        let interval = self.eat("interval");
        let expr = if !by_expression {
            self.type_names()?
        } else if self.at("verdict") {
            let token = self.take();
            Self::symbol("verdict", token.loc)
        } else {
            self.typeof_list()?
        };
        Ok(SetData::Expr { expr, interval })
    }

    /// Takes a word, and says whether it was `ct`.
    fn take_is_ct(&mut self) -> bool {
        let ct = self.at("ct");
        self.take();
        ct
    }

    /// What stands after `elements =`, `add element …`: braces, or a variable that stands for
    /// them.
    pub(super) fn element_block(&mut self) -> Parsed<Expr> {
        match self.tok() {
            Tok::Dollar => self.variable(),
            Tok::LeftBrace => self.set_expr(Maps::Any),
            _ => self.unexpected(&["'{'", "'$'"]),
        }
    }

    /// Reads elements that are added. Only their place is kept if that is enough.
    pub(super) fn added_elements(&mut self) -> Parsed<Expr> {
        match self.tok() {
            Tok::LeftBrace if self.mode != Mode::Trees => self.unread_set_expr(),
            _ => self.element_block(),
        }
    }

    /// `{ element, element … }`
    pub(super) fn set_expr(&mut self, maps: Maps) -> Parsed<Expr> {
        let start = self.here();
        self.need_tok(Tok::LeftBrace)?;
        let mut elements = Vec::new();
        self.deeper(|p| {
            p.elements(|p| {
                elements.push(p.element(maps)?);
                Ok(())
            })
        })?;
        let flags = SetExprFlags::default();
        Ok(Expr::new(ExprKind::Set { elements, flags }, self.since(start)))
    }

    /// `{ element, element … }`, of which the place is kept unless it needs definitions.
    fn unread_set_expr(&mut self) -> Parsed<Expr> {
        let unread = |loc| {
            let flags = SetExprFlags { unread: true, ..SetExprFlags::default() };
            Expr::new(ExprKind::Set { elements: Vec::new(), flags }, loc)
        };
        if let Some(place) = self.skip_elements() {
            return Ok(unread(place));
        }
        let start = self.here();
        let before = (self.frames.clone(), self.ahead, self.last);
        let (variables, errors) = (self.variables, self.diags.list.len());
        self.need_tok(Tok::LeftBrace)?;
        let read = self.deeper(|p| {
            p.elements(|p| {
                if !p.skip_plain_element() {
                    p.element(Maps::Any)?;
                }
                if p.can_be_read_again(start, variables) { Ok(()) } else { Err(Bad::Block) }
            })
        });
        if self.diags.list.len() > errors || self.can_be_read_again(start, variables) {
            read?;
            return Ok(unread(self.since(start)));
        }
        // Once more from the brace on, and all of it is kept.
        (self.frames, self.ahead, self.last) = before;
        self.set_expr(Maps::Any)
    }

    /// Takes an element that is one word, number or address. What else may be an element is left to
    /// [`Self::element`].
    fn skip_plain_element(&mut self) -> bool {
        let token = self.peek();
        let plain = matches!(token.tok, Tok::Str | Tok::Num(_))
            && matches!(self.peek_second().tok, Tok::Comma | Tok::Newline | Tok::RightBrace);
        if plain {
            self.take();
        }
        plain
    }

    /// Elements after the opening brace, and the closing one.
    fn elements(&mut self, mut element: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        let mut first = true;
        loop {
            self.skip_newlines();
            // nft's grammar takes the comma before it as the last one, and more of them for none.
            if !first && !self.at_element() {
                match self.tok() {
                    Tok::RightBrace => break,
                    Tok::Comma => {
                        self.take();
                        continue;
                    }
                    _ => return self.unexpected(&["comma", "'}'"]),
                }
            }
            element(self)?;
            first = false;
            self.skip_newlines();
            match self.tok() {
                Tok::Comma => self.take(),
                Tok::RightBrace => break,
                _ => return self.unexpected(&["comma", "'}'"]),
            };
        }
        self.take();
        Ok(())
    }

    /// `key`, `key : data`, a set within a set; with what stands next to the key.
    pub(super) fn element(&mut self, maps: Maps) -> Parsed<Expr> {
        let start = self.here();
        if self.tok() == Tok::LeftBrace {
            if maps == Maps::Verdicts {
                return self.unexpected(&[]);
            }
            return self.set_expr(maps);
        }
        let key = if self.tok() == Tok::Asterisk {
            self.take();
            Expr::new(ExprKind::CatchAll, start)
        } else {
            self.rhs_concat()?
        };
        let left = self.with_options(key, start)?;
        if self.tok() != Tok::Colon {
            return if maps == Maps::Verdicts { self.unexpected(&["colon"]) } else { Ok(left) };
        }
        self.take();
        let right = match self.verdict()? {
            Some(verdict) => verdict,
            None if maps == Maps::Verdicts => return self.unexpected(&[]),
            None => self.rhs_concat()?,
        };
        let kind = ExprKind::Mapping { left: Box::new(left), right: Box::new(right) };
        Ok(Expr::new(kind, self.since(start)))
    }

    /// A key, then statements, then timeout and comment that may follow it. Without any the key
    /// itself.
    pub(super) fn with_options(&mut self, key: Expr, start: Loc) -> Parsed<Expr> {
        if self.tok() != Tok::Word {
            return Ok(key);
        }
        let stmts = self.stateful_stmts()?;
        let mut element = self.element_options(key, stmts, start, true)?;
        // After the options they may stand as well.
        if let ExprKind::SetElem(elem) = &mut element.kind
            && self.tok() == Tok::Word
        {
            elem.stmts.extend(self.stateful_stmts()?);
            element.loc = self.since(start);
        }
        Ok(element)
    }

    /// Key of `add @s { key timeout 5s … }` and `meter`: no statements here.
    pub(crate) fn update_key(&mut self) -> Parsed<Expr> {
        let start = self.here();
        let key = self.lhs_concat()?;
        self.element_options(key, Vec::new(), start, false)
    }

    /// Timeout and comment of an element. Without any, and without statements, it is its key.
    fn element_options(
        &mut self,
        key: Expr,
        stmts: Vec<Stmt>,
        start: Loc,
        stored: bool,
    ) -> Parsed<Expr> {
        let mut any = !stmts.is_empty();
        let mut elem = SetElem { key, timeout: None, expires: None, comment: None, stmts };
        loop {
            match self.word() {
                "timeout" => {
                    self.take();
                    elem.timeout = Some(match self.word() {
                        "never" if stored => {
                            self.take();
                            SetElem::NEVER
                        }
                        _ => self.time()?,
                    });
                }
                "expires" => {
                    self.take();
                    elem.expires = Some(self.time()?);
                }
                "comment" => elem.comment = Some(self.comment()?),
                _ => break,
            }
            any = true;
        }
        if !any {
            return Ok(elem.key);
        }
        Ok(Expr::new(ExprKind::SetElem(Box::new(elem)), self.since(start)))
    }

    /// Stateful statements up to something else.
    pub(crate) fn stateful_stmts(&mut self) -> Parsed<Vec<Stmt>> {
        let mut stmts = Vec::new();
        loop {
            let start = self.here();
            // Unlike in rules, it is both numbers or none.
            if self.eat("counter") {
                self.keywords = super::words::keywords_after("counter");
                let (mut packets, mut bytes) = (0, 0);
                if self.eat("packets") {
                    packets = self.number()?;
                    self.need("bytes")?;
                    bytes = self.number()?;
                }
                stmts.push(Stmt {
                    kind: StmtKind::Counter { packets, bytes },
                    loc: self.since(start),
                });
                continue;
            }
            // Nor are there names of limits.
            if self.at("limit") && self.second_word() == "name" {
                self.take();
                self.keywords = super::words::keywords_after("limit");
                return self.unexpected(&["rate"]);
            }
            match self.stateful_stmt()? {
                Some(stmt) => stmts.push(stmt),
                None => break,
            }
        }
        if self.eat("ct") {
            self.keywords = super::words::keywords_after("ct");
            return self.unexpected(&["count"]);
        }
        Ok(stmts)
    }
}
