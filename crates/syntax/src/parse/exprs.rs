// SPDX-License-Identifier: Apache-2.0

//! Operators: the left and right sides of matches, and arguments of statements.
//!
//! The grammar has three flavours of expression. A left side ([`Side::Left`]) may be made of header
//! fields, meta keys and the like; a right side of constants only; the argument of a statement of
//! both.

use penstock_program::expr::MetaKey;

use super::sets::Maps;
use super::{Parsed, Parser, placed};
use crate::ast::expr::{BinOp, RelOp, SetExprFlags, SymbolKind, VerdictExpr};
use crate::ast::{Expr, ExprKind, Key};
use crate::datatype::{ByteOrder, DataType, Type};
use crate::lex::Tok;
use crate::source::Loc;

/// Which flavour of expression is read.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Side {
    Left,
    Right,
    Argument,
}

impl Side {
    /// Flavour of what stands right of an operator.
    fn operand(self) -> Side {
        if self == Side::Argument { Side::Argument } else { Side::Right }
    }
}

/// Binary operators, the loosest first.
const LEVELS: [&[(Tok, BinOp)]; 4] = [
    &[(Tok::Pipe, BinOp::Or)],
    &[(Tok::Caret, BinOp::Xor)],
    &[(Tok::Ampersand, BinOp::And)],
    &[(Tok::Lshift, BinOp::Lshift), (Tok::Rshift, BinOp::Rshift)],
];

/// Words that stand for a constant of a right side although they are reserved.
fn is_constant_word(word: &str) -> bool {
    is_symbol_keyword(word) || typed_constant(word).is_some()
}

/// Reserved words that are constants of their own type on right sides: protocols, and an ICMP
/// type.
fn typed_constant(word: &str) -> Option<(DataType, u128)> {
    Some(match word {
        "tcp" => (DataType::InetProtocol, 6),
        "udp" => (DataType::InetProtocol, 17),
        "udplite" => (DataType::InetProtocol, 136),
        "esp" => (DataType::InetProtocol, 50),
        "ah" => (DataType::InetProtocol, 51),
        "icmp" => (DataType::InetProtocol, 1),
        "igmp" => (DataType::InetProtocol, 2),
        "icmpv6" => (DataType::InetProtocol, 58),
        "comp" => (DataType::InetProtocol, 108),
        "dccp" => (DataType::InetProtocol, 33),
        "sctp" => (DataType::InetProtocol, 132),
        "redirect" => (DataType::IcmpType, 5),
        _ => return None,
    })
}

/// Reserved words that are symbols wherever a constant may stand (nft's `keyword_expr`).
fn is_symbol_keyword(word: &str) -> bool {
    matches!(word, "ether" | "ip" | "ip6" | "vlan" | "arp" | "dnat" | "snat" | "ecn" | "reset")
}

impl Parser<'_> {
    // Operators.

    fn basic(&mut self, side: Side) -> Parsed<Expr> {
        // The outermost one counts for all that are within it.
        let outermost = self.operators.is_none();
        self.operators.get_or_insert(0);
        let expr = self.binary(side, 0);
        if outermost {
            self.operators = None;
        }
        expr
    }

    fn binary(&mut self, side: Side, level: usize) -> Parsed<Expr> {
        let Some(operators) = LEVELS.get(level) else { return self.operand(side) };
        let start = self.here();
        let mut left = self.binary(side, level + 1)?;
        loop {
            let tok = self.tok();
            let Some((_, op)) = operators.iter().find(|(t, _)| *t == tok) else { return Ok(left) };
            let count = self.operators.map_or(1, |count| count + 1);
            self.operators = Some(count);
            if count > super::MAX_OPERATORS {
                let loc = self.here();
                return self.error(loc, super::TOO_DEEP);
            }
            self.take();
            let right = self.binary(side.operand(), level + 1)?;
            let kind = ExprKind::Binop { op: *op, left: Box::new(left), right: Box::new(right) };
            left = Expr::new(kind, self.since(start));
        }
    }

    fn operand(&mut self, side: Side) -> Parsed<Expr> {
        if self.tok() == Tok::LeftParen {
            self.take();
            let expr = self.deeper(|p| p.basic(side))?;
            self.need_tok(Tok::RightParen)?;
            return Ok(expr);
        }
        match side {
            Side::Left => self.primary(),
            Side::Right => self.constant(),
            Side::Argument => {
                if self.argument_is_symbol() {
                    return self.constant();
                }
                self.no_match_only_words()?;
                if self.at("ipsec") {
                    let loc = self.take().loc;
                    return Ok(Expr::new(ExprKind::Key(Key::Meta { key: MetaKey::SecPath }), loc));
                }
                match self.boolean() {
                    Some(expr) => Ok(expr),
                    None => self.primary(),
                }
            }
        }
    }

    /// `ip` alone is a symbol in `meta protocol set ip`, and a header in `ip saddr`.
    fn argument_is_symbol(&mut self) -> bool {
        if !is_symbol_keyword(self.word()) {
            return false;
        }
        if matches!(self.word(), "dnat" | "snat" | "ecn" | "reset") {
            return true;
        }
        let header = crate::proto::find(self.word());
        let second = self.second_word();
        if header.is_some_and(|h| h.name == "arp") && matches!(second, "saddr" | "daddr") {
            return false;
        }
        second != "option" && header.is_none_or(|h| h.template(second).is_none())
    }

    /// nft's grammar has extension headers and `ipsec in` in matches only.
    fn no_match_only_words(&mut self) -> Parsed<()> {
        match self.word() {
            "exthdr" | "hbh" | "rt0" | "rt2" | "srh" | "frag" | "dst" | "mh" => {
                self.unexpected(&[])
            }
            "rt" => {
                if super::words::is_route_key(self.second_word()) {
                    return Ok(());
                }
                self.take();
                self.unexpected(&[])
            }
            _ => Ok(()),
        }
    }

    fn boolean(&mut self) -> Option<Expr> {
        let value = match self.word() {
            "exists" => 1,
            "missing" => 0,
            _ => return None,
        };
        let loc = self.take().loc;
        let dtype = Type::Base(DataType::Boolean);
        let mut expr = Expr::typed(ExprKind::Value(value), loc, dtype, ByteOrder::Host, 1);
        expr.constant = true;
        expr.singleton = true;
        Some(expr)
    }

    /// A symbol, number or variable of a right side.
    fn constant(&mut self) -> Parsed<Expr> {
        if let Some(expr) = self.boolean() {
            return Ok(expr);
        }
        if let Some((dtype, number)) = typed_constant(self.word()) {
            if self.at("igmp") {
                self.keywords = super::words::keywords_after("igmp");
            }
            let loc = self.take().loc;
            let dtype = Type::Base(dtype);
            let mut expr = Expr::typed(ExprKind::Value(number), loc, dtype, ByteOrder::Host, 8);
            expr.constant = true;
            expr.singleton = true;
            return Ok(expr);
        }
        if is_symbol_keyword(self.word()) {
            let token = self.take();
            let text = self.inputs.slice(token.loc);
            return Ok(Self::symbol(text, token.loc));
        }
        self.symbol_or_number()
    }

    /// Whether a right side can start here.
    fn at_constant(&mut self) -> bool {
        let token = self.peek();
        match token.tok {
            Tok::Num(_) | Tok::Dollar | Tok::LeftParen => true,
            Tok::Word => {
                let word = self.inputs.slice(token.loc);
                !super::words::is_reserved(word)
                    || is_constant_word(word)
                    || matches!(word, "exists" | "missing")
            }
            _ => self.is_string(token),
        }
    }

    /// Whether an element of a set can start here.
    pub(super) fn at_element(&mut self) -> bool {
        matches!(self.tok(), Tok::Asterisk | Tok::LeftBrace) || self.at_constant()
    }

    pub(crate) fn symbol_or_number(&mut self) -> Parsed<Expr> {
        let token = self.peek();
        match token.tok {
            Tok::Num(n) => {
                self.take();
                let text = self.inputs.slice(token.loc);
                // Symbols are decimal, however they were written.
                let decimal = !text.starts_with('0') || text.len() == 1;
                Ok(if decimal {
                    Self::symbol(text, token.loc)
                } else {
                    Self::symbol(n.to_string(), token.loc)
                })
            }
            Tok::Dollar => self.variable(),
            _ if self.is_string(token) => {
                self.take();
                let text = self.text(token);
                Ok(Self::symbol(text, token.loc))
            }
            _ => self.unexpected(&[]),
        }
    }

    // Left sides.

    /// `a . b`, left flavour.
    pub(super) fn lhs_concat(&mut self) -> Parsed<Expr> {
        self.concat_of(Side::Left)
    }

    fn concat_of(&mut self, side: Side) -> Parsed<Expr> {
        let start = self.here();
        let first = self.basic(side)?;
        self.concat_more(first, start, |p| p.basic(side))
    }

    fn concat_more(
        &mut self,
        first: Expr,
        start: Loc,
        mut part: impl FnMut(&mut Self) -> Parsed<Expr>,
    ) -> Parsed<Expr> {
        if self.tok() != Tok::Dot {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.tok() == Tok::Dot {
            let dot = self.take().loc;
            let part = part(self)?;
            parts.push(placed(part, dot, parts.len()));
        }
        Ok(Expr::new(ExprKind::Concat(parts), self.since(start)))
    }

    /// Left side of a match: a concatenation, a map of one, or a set.
    pub(crate) fn lhs(&mut self) -> Parsed<Expr> {
        let start = self.here();
        if self.tok() == Tok::LeftBrace {
            return self.set_expr(Maps::Any);
        }
        let key = self.lhs_concat()?;
        if !self.eat("map") {
            return Ok(key);
        }
        let mappings = self.rhs()?;
        let kind = ExprKind::Map { key: Box::new(key), mappings: Box::new(mappings) };
        Ok(Expr::new(kind, self.since(start)))
    }

    // Right sides.

    /// `basic`, `basic/N`, `basic-basic`
    fn rhs_part(&mut self) -> Parsed<Expr> {
        let start = self.here();
        let first = self.basic(Side::Right)?;
        self.prefix_or_range(first, start, Side::Right)
    }

    fn prefix_or_range(&mut self, first: Expr, start: Loc, side: Side) -> Parsed<Expr> {
        match self.tok() {
            Tok::Slash => {
                self.take();
                let len = self.number_as()?;
                Ok(Expr::new(ExprKind::Prefix { base: Box::new(first), len }, self.since(start)))
            }
            Tok::Dash => {
                self.take();
                let right = self.basic(side)?;
                let kind = ExprKind::Range { left: Box::new(first), right: Box::new(right) };
                Ok(Expr::new(kind, self.since(start)))
            }
            _ => Ok(first),
        }
    }

    /// Prefixes, ranges and constants joined by dots.
    pub(super) fn rhs_concat(&mut self) -> Parsed<Expr> {
        let start = self.here();
        let first = self.rhs_part()?;
        self.concat_more(first, start, Self::rhs_part)
    }

    /// A right side: constants, a set, `@set`.
    pub(super) fn rhs(&mut self) -> Parsed<Expr> {
        match self.tok() {
            Tok::LeftBrace => self.set_expr(Maps::Any),
            Tok::At => self.set_name(),
            _ => self.rhs_concat(),
        }
    }

    /// `@name`
    fn set_name(&mut self) -> Parsed<Expr> {
        let start = self.here();
        self.need_tok(Tok::At)?;
        // After an `@` these are the bases of raw payload.
        if matches!(self.word(), "ll" | "nh" | "th") {
            self.keywords = &["ll", "nh"];
            return self.unexpected(&["string"]);
        }
        // What an error left is no keyword there.
        let leftover = self.leftover.take();
        let name = self.identifier();
        self.leftover = leftover;
        let kind = ExprKind::Symbol { kind: SymbolKind::Set, text: name?.text };
        Ok(Expr::new(kind, self.since(start)))
    }

    /// `@name` or a variable that stands for a set.
    pub(crate) fn set_ref(&mut self) -> Parsed<Expr> {
        match self.tok() {
            Tok::At => self.set_name(),
            Tok::Dollar => self.variable(),
            _ => self.unexpected(&["@", "'$'"]),
        }
    }

    /// `a, b, c` after its first part.
    fn list_more(&mut self, first: Expr, start: Loc, side: Side) -> Parsed<Expr> {
        if self.tok() != Tok::Comma {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.eat_tok(Tok::Comma) {
            let token = self.peek();
            let is_symbol = matches!(token.tok, Tok::Num(_) | Tok::Dollar)
                || self.is_string(token)
                || super::words::is_symbol(self.word());
            if matches!(side, Side::Argument) && !is_symbol {
                return self.unexpected(&[]);
            }
            parts.push(self.basic(side)?);
        }
        Ok(Expr::new(ExprKind::List(parts), self.since(start)))
    }

    /// What a definition may stand for.
    pub(super) fn initializer(&mut self) -> Parsed<Expr> {
        let start = self.here();
        match self.tok() {
            Tok::LeftBrace => {
                if self.peek_second().tok == Tok::RightBrace {
                    self.take();
                    self.take();
                    let kind =
                        ExprKind::Set { elements: Vec::new(), flags: SetExprFlags::default() };
                    return Ok(Expr::new(kind, self.since(start)));
                }
                self.set_expr(Maps::Any)
            }
            Tok::Dash => {
                self.take();
                let n = self.number()?;
                Ok(Self::symbol(format!("-{n}"), self.since(start)))
            }
            Tok::At => self.set_name(),
            _ => {
                let first = self.basic(Side::Right)?;
                match self.tok() {
                    Tok::Comma => self.list_more(first, start, Side::Right),
                    _ => {
                        let first = self.prefix_or_range(first, start, Side::Right)?;
                        self.concat_more(first, start, Self::rhs_part)
                    }
                }
            }
        }
    }

    // Matches.

    /// The match that begins with `left`, which is read already.
    pub(super) fn relational(&mut self, left: Expr, start: Loc) -> Parsed<Expr> {
        let op = match self.tok() {
            Tok::Eq => RelOp::Eq,
            Tok::Neq => RelOp::Neq,
            Tok::Lt => RelOp::Lt,
            Tok::Lte => RelOp::Lte,
            Tok::Gt => RelOp::Gt,
            Tok::Gte => RelOp::Gte,
            Tok::Not => RelOp::Neg,
            _ => RelOp::Implicit,
        };
        let operator = self.here();
        if op != RelOp::Implicit {
            self.take();
        }
        let right_start = self.here();
        let right = match self.tok() {
            Tok::LeftBrace => self.set_expr(Maps::Any)?,
            Tok::At => self.set_name()?,
            _ if self.at_constant() => {
                let first = self.basic(Side::Right)?;
                match self.tok() {
                    Tok::Comma => {
                        let list = self.list_more(first, right_start, Side::Right)?;
                        if self.tok() == Tok::Slash {
                            return self.flag_match(op, left, list, start);
                        }
                        list
                    }
                    Tok::Slash if !matches!(self.peek_second().tok, Tok::Num(_)) => {
                        return self.flag_match(op, left, first, start);
                    }
                    tok => {
                        let value = first.clone();
                        let first = self.prefix_or_range(first, right_start, Side::Right)?;
                        // A comma after a prefix makes it a test of flags.
                        if tok == Tok::Slash && self.tok() == Tok::Comma {
                            let len = self.last;
                            let mask = Self::symbol(self.inputs.slice(len), len);
                            let mask = self.list_more(mask, len, Side::Right)?;
                            return Ok(self.flags_compared(op, left, value, mask, start));
                        }
                        self.concat_more(first, right_start, Self::rhs_part)?
                    }
                }
            }
            _ => return self.unexpected(&[]),
        };
        // To nft a comparison stands where its operator stands, if it has one.
        let loc = if op == RelOp::Implicit { self.since(start) } else { operator };
        Ok(Expr::new(
            ExprKind::Relational { op, left: Box::new(left), right: Box::new(right) },
            loc,
        ))
    }

    /// `flags a,b / c,d`
    fn flag_match(&mut self, op: RelOp, expr: Expr, value: Expr, start: Loc) -> Parsed<Expr> {
        self.need_tok(Tok::Slash)?;
        let mask_start = self.here();
        let first = self.basic(Side::Right)?;
        if self.tok() != Tok::Comma {
            return self.unexpected(&["comma"]);
        }
        let mask = self.list_more(first, mask_start, Side::Right)?;
        Ok(self.flags_compared(op, expr, value, mask, start))
    }

    fn flags_compared(&self, op: RelOp, expr: Expr, value: Expr, mask: Expr, start: Loc) -> Expr {
        let op = if op == RelOp::Implicit { RelOp::Eq } else { op };
        let kind = ExprKind::FlagCmp {
            op,
            expr: Box::new(expr),
            value: Box::new(value),
            mask: Box::new(mask),
        };
        Expr::new(kind, self.since(start))
    }

    // Arguments of statements.

    /// `concat [map …]`, prefix, range or list.
    pub(crate) fn argument(&mut self) -> Parsed<Expr> {
        let start = self.here();
        let number = matches!(self.tok(), Tok::Num(_));
        let first = self.basic(Side::Argument)?;
        match self.tok() {
            // Only symbols are listed.
            Tok::Comma if !number && matches!(first.kind, ExprKind::Symbol { .. }) => {
                return self.list_more(first, start, Side::Argument);
            }
            Tok::Slash | Tok::Dash => return self.prefix_or_range(first, start, Side::Argument),
            _ => {}
        }
        let key = self.concat_more(first, start, |p| p.basic(Side::Argument))?;
        if !self.eat("map") {
            return Ok(key);
        }
        let mappings = match self.tok() {
            Tok::LeftBrace => self.set_expr(Maps::Any)?,
            Tok::At | Tok::Dollar => self.set_ref()?,
            _ => return self.unexpected(&["@", "'{'", "'$'"]),
        };
        let kind = ExprKind::Map { key: Box::new(key), mappings: Box::new(mappings) };
        Ok(Expr::new(kind, self.since(start)))
    }

    // Verdicts.

    /// A verdict, if one is ahead.
    pub(crate) fn verdict(&mut self) -> Parsed<Option<Expr>> {
        let start = self.here();
        let verdict = match self.word() {
            "accept" => VerdictExpr::Accept,
            "drop" => VerdictExpr::Drop,
            "continue" => VerdictExpr::Continue,
            "return" => VerdictExpr::Return,
            "jump" | "goto" => {
                let goto = self.at("goto");
                self.take();
                let chain = Box::new(self.chain_name()?);
                if goto { VerdictExpr::Goto(chain) } else { VerdictExpr::Jump(chain) }
            }
            _ => return Ok(None),
        };
        if !matches!(verdict, VerdictExpr::Jump(_) | VerdictExpr::Goto(_)) {
            self.take();
        }
        Ok(Some(Expr::new(ExprKind::Verdict(verdict), self.since(start))))
    }

    fn chain_name(&mut self) -> Parsed<Expr> {
        match self.tok() {
            Tok::Dollar => self.variable(),
            Tok::Word | Tok::Str if self.at_string() => {
                let name = self.identifier()?;
                Ok(Self::symbol(name.text, name.loc))
            }
            _ => self.unexpected(&["string", "'$'"]),
        }
    }
}
