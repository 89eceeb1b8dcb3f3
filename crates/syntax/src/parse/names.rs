// SPDX-License-Identifier: Apache-2.0

//! Names and simple values.

use std::sync::Arc;

use penstock_ruleset::model::Family;

use super::{MAX_COMMENT, Parsed, Parser, words};
use crate::ast::cmd::Name;
use crate::ast::expr::SymbolKind;
use crate::ast::{Expr, ExprKind};
use crate::lex::{Tok, Token};
use crate::source::Loc;

impl Parser<'_> {
    pub(crate) fn identifier(&mut self) -> Parsed<Name> {
        let token = self.peek();
        let text = match token.tok {
            Tok::Word => self.inputs.slice(token.loc),
            Tok::Str => self.text(token),
            _ => return self.unexpected(&["string"]),
        };
        if words::is_reserved(text) {
            return self.unexpected(&["string"]);
        }
        if self.is_left_over(text) {
            self.keywords = self.outer_keywords();
            return self.unexpected(&["string"]);
        }
        let text = Arc::from(text);
        self.take();
        Ok(Name { text, loc: token.loc })
    }

    /// A string of any form: bare, quoted, with an asterisk.
    pub(crate) fn string(&mut self) -> Parsed<Name> {
        const EXPECTING: [&str; 3] = ["string", "quoted string", "string with a trailing asterisk"];
        let token = self.peek();
        if !self.is_string(token) {
            return self.unexpected(&EXPECTING);
        }
        let text = Arc::from(self.text(token));
        self.take();
        Ok(Name { text, loc: token.loc })
    }

    pub(super) fn at_string(&mut self) -> bool {
        let token = self.peek();
        self.is_string(token)
    }

    pub(crate) fn is_string(&self, token: Token) -> bool {
        match token.tok {
            Tok::Word => {
                let word = self.inputs.slice(token.loc);
                let keyword = self.keywords.contains(&word) && !words::is_symbol_after_ct(word);
                !(words::is_reserved(word) || self.in_target && keyword || self.is_left_over(word))
            }
            Tok::Str | Tok::Quoted | Tok::AsteriskString => true,
            _ => false,
        }
    }

    pub(crate) fn number(&mut self) -> Parsed<u64> {
        match self.tok() {
            Tok::Num(n) => {
                self.take();
                Ok(n)
            }
            _ => self.unexpected(&["number"]),
        }
    }

    /// A number that has to fit what it is for.
    pub(crate) fn number_as<T: TryFrom<u64>>(&mut self) -> Parsed<T> {
        let loc = self.here();
        let n = self.number()?;
        self.within_range(loc, n)
    }

    pub(super) fn within_range<T: TryFrom<u64>>(&mut self, loc: Loc, n: u64) -> Parsed<T> {
        T::try_from(n).or_else(|_| {
            let bits = 8 * std::mem::size_of::<T>();
            self.error(loc, format!("Value {n} exceeds valid range 0-{}", u64::MAX >> (64 - bits)))
        })
    }

    pub(super) fn symbol(text: impl Into<Arc<str>>, loc: Loc) -> Expr {
        Expr::new(ExprKind::Symbol { kind: SymbolKind::Value, text: text.into() }, loc)
    }

    /// `1d2h3m4s` in milliseconds.
    pub(crate) fn time(&mut self) -> Parsed<u64> {
        let token = self.peek();
        let text = match token.tok {
            Tok::Str => self.text(token),
            Tok::Word if !words::is_reserved(self.inputs.slice(token.loc)) => {
                self.inputs.slice(token.loc)
            }
            _ => return self.unexpected(&["string"]),
        };
        match time_value(text) {
            Ok(ms) => {
                self.take();
                Ok(ms)
            }
            Err(message) => self.error(token.loc, message),
        }
    }

    pub(super) fn comment(&mut self) -> Parsed<Arc<str>> {
        self.take();
        let name = self.string()?;
        if name.text.len() > MAX_COMMENT {
            let message = format!("comment too long, {MAX_COMMENT} characters maximum allowed");
            return self.error(name.loc, message);
        }
        Ok(name.text)
    }

    pub(super) fn family(&mut self) -> Option<Family> {
        let family = Family::from_name(self.word())?;
        self.take();
        Some(family)
    }
}

/// nft's `time_parse`: parts with units from days to milliseconds, each at most once, in any order.
pub(super) fn time_value(text: &str) -> Result<u64, &'static str> {
    let bytes = text.as_bytes();
    let (mut i, mut total, mut seen) = (0, 0u64, 0u8);
    while i < bytes.len() {
        let len = bytes[i..].iter().position(|b| !b.is_ascii_digit()).unwrap_or(bytes.len() - i);
        let number: Option<u64> = text[i..i + len].parse().ok();
        // Nothing before a unit is nothing.
        let number = match number {
            Some(number) => number,
            None if len == 0 => 0,
            None => return Err("value too large"),
        };
        i += len;
        let (unit, factor, bit) = match &bytes[i..] {
            [b'm', b's', ..] => (2, 1, 16),
            [b'd', ..] => (1, 86_400_000, 1),
            [b'h', ..] => (1, 3_600_000, 2),
            [b'm', ..] => (1, 60_000, 4),
            [b's', ..] => (1, 1000, 8),
            // Without a unit: seconds.
            [] if seen == 0 => (0, 1000, 8),
            _ => return Err("wrong time format"),
        };
        if seen & bit != 0 {
            return Err(match bit {
                1 => "Day has been specified twice",
                2 => "Hour has been specified twice",
                4 => "Minute has been specified twice",
                8 => "Second has been specified twice",
                _ => "Millisecond has been specified twice",
            });
        }
        seen |= bit;
        i += unit;
        total = number
            .checked_mul(factor)
            .and_then(|ms| total.checked_add(ms))
            .ok_or("value too large")?;
    }
    Ok(total)
}
