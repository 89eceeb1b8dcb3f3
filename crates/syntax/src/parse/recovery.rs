// SPDX-License-Identifier: Apache-2.0

//! Syntax errors: how they are reported, and where parsing continues after them.

use super::{Bad, MAX_DEPTH, MAX_ERRORS, Parsed, Parser, TOO_DEEP, words};
use crate::diag::Diagnostic;
use crate::lex::Tok;
use crate::source::Loc;

impl Parser<'_> {
    pub(crate) fn error<T>(&mut self, loc: Loc, message: impl Into<String>) -> Parsed<T> {
        self.diags.push(Diagnostic::error(loc, message));
        Err(Bad::Item)
    }

    /// An error that nft finds after the item's separator.
    pub(super) fn late_error<T>(&mut self, loc: Loc, message: &str) -> Parsed<T> {
        self.separator()?;
        self.diags.push(Diagnostic::error(loc, message));
        Err(Bad::Block)
    }

    /// The token ahead cannot stand here. `expecting` is what nft names, at most four.
    pub(crate) fn unexpected<T>(&mut self, expecting: &[&str]) -> Parsed<T> {
        let token = self.peek();
        let name = match token.tok {
            Tok::Word => {
                let word = self.inputs.slice(token.loc);
                match self.keywords.iter().find(|k| **k == word) {
                    // nft's words for these options.
                    Some(&"maxseg") => "mss",
                    Some(&"sack-perm") => "sack-permitted",
                    Some(&"sequence") => "seq",
                    Some(_) => word,
                    None if words::is_reserved(word) => word,
                    None => "string",
                }
            }
            tok => tok_name(tok),
        };
        let mut message = format!("syntax error, unexpected {name}");
        for (i, what) in expecting.iter().enumerate() {
            message.push_str(if i == 0 { ", expecting " } else { " or " });
            message.push_str(what);
        }
        self.error(token.loc, message)
    }

    /// Goes on after the next newline or `;`. `false` when it is time to give up.
    pub(super) fn recover(&mut self) -> bool {
        if !self.keywords.is_empty() {
            self.leftover = Some(self.keywords);
        }
        loop {
            match self.tok() {
                Tok::Newline | Tok::Semicolon => break,
                Tok::Eof => return false,
                // nft's scanner does not know that this goes unread.
                Tok::Word if words::opens_scope(self.word()) => {
                    self.leftover = Some(words::keywords_after(self.word()));
                }
                _ => {}
            }
            self.take();
        }
        self.take();
        self.keywords = self.outer_keywords();
        self.errors += 1;
        self.errors < MAX_ERRORS
    }

    /// Runs `read` one level deeper, or refuses.
    pub(crate) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            let loc = self.here();
            return self.error(loc, TOO_DEEP);
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    pub(super) fn separator(&mut self) -> Parsed<()> {
        self.separator_or(&[])
    }

    /// A separator, where nft would also take something else.
    pub(super) fn separator_or(&mut self, others: &[&str]) -> Parsed<()> {
        self.separator_or_ahead(others)?;
        self.take();
        Ok(())
    }

    /// A separator that is left for later.
    pub(super) fn separator_ahead(&mut self) -> Parsed<()> {
        self.separator_or_ahead(&[])
    }

    pub(super) fn separator_or_ahead(&mut self, others: &[&str]) -> Parsed<()> {
        match self.tok() {
            Tok::Newline | Tok::Semicolon => Ok(()),
            _ => {
                let error = self.unexpected(&[&["newline", "semicolon"], others].concat());
                // What was before is complete.
                self.keywords = self.outer_keywords();
                error
            }
        }
    }

    /// Reads `{ item; item … }` with its own definitions; items that need a separator read it
    /// themselves. Errors stay inside, unless the text ends.
    pub(super) fn block(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        self.need_tok(Tok::LeftBrace)?;
        let depth = self.scope.depth();
        let in_table = std::mem::take(&mut self.in_table);
        self.scope.open();
        let result = self.deeper(|p| p.block_items(&mut item, in_table));
        self.scope.close_to(depth);
        result
    }

    /// Reads a block without definitions; an error in it ends the surrounding command.
    pub(super) fn plain_block(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Parsed<()>,
    ) -> Parsed<()> {
        self.need_tok(Tok::LeftBrace)?;
        self.deeper(|p| {
            loop {
                match p.tok() {
                    Tok::RightBrace => {
                        p.take();
                        return Ok(());
                    }
                    Tok::Newline | Tok::Semicolon => _ = p.take(),
                    _ => {
                        item(p)?;
                        p.separator()?;
                    }
                }
            }
        })
    }

    pub(super) fn block_items(
        &mut self,
        item: &mut impl FnMut(&mut Self) -> Parsed<()>,
        in_table: bool,
    ) -> Parsed<()> {
        loop {
            let result = match self.tok() {
                Tok::RightBrace => {
                    self.take();
                    // Where no separator follows, nft's parser finds itself in the block again.
                    match self.tok() {
                        Tok::Newline | Tok::Semicolon => return Ok(()),
                        _ if in_table => self.unexpected(&["newline", "semicolon"]),
                        _ => return Ok(()),
                    }
                }
                Tok::Newline | Tok::Semicolon => {
                    self.take();
                    continue;
                }
                _ => match self.common() {
                    Ok(true) => continue,
                    Ok(false) => item(self),
                    Err(bad) => Err(bad),
                },
            };
            match result {
                Ok(()) => {}
                Err(Bad::Block) => return Err(Bad::Item),
                Err(Bad::Item) if self.recover() => {}
                Err(Bad::Item) => return Err(Bad::Item),
            }
        }
    }
}

/// How nft names a token in a syntax error.
pub(super) fn tok_name(tok: Tok) -> &'static str {
    match tok {
        Tok::Eof => "end of file",
        Tok::Newline => "newline",
        Tok::Semicolon => "semicolon",
        Tok::LeftBrace => "'{'",
        Tok::RightBrace => "'}'",
        Tok::LeftBracket => "'['",
        Tok::RightBracket => "']'",
        Tok::LeftParen => "'('",
        Tok::RightParen => "')'",
        Tok::Comma => "comma",
        Tok::Dot => ".",
        Tok::Colon => "colon",
        Tok::Slash => "/",
        Tok::Dash => "-",
        Tok::Plus => "+",
        Tok::Asterisk => "*",
        Tok::At => "@",
        Tok::Dollar => "'$'",
        Tok::Assign => "'='",
        Tok::Lshift => "<<",
        Tok::Rshift => ">>",
        Tok::Ampersand => "&",
        Tok::Pipe => "'|'",
        Tok::Caret => "^",
        Tok::Not => "!",
        Tok::Eq => "==",
        Tok::Neq => "!=",
        Tok::Lt => "<",
        Tok::Lte => "<=",
        Tok::Gt => ">",
        Tok::Gte => ">=",
        Tok::Num(_) => "number",
        Tok::Word | Tok::Str => "string",
        Tok::Quoted => "quoted string",
        Tok::AsteriskString => "string with a trailing asterisk",
        Tok::Junk => "junk",
    }
}
