// SPDX-License-Identifier: Apache-2.0

//! `define name = exec("command")`: a value that a command prints, as ferm's backticks.
//!
//! The output is taken as words between white space; what follows a `#` on a line is a comment. One
//! word is that value, any other number the elements of a set. A word is read as the right side of
//! a match is, and can be nothing else: no output becomes a command.

use super::*;
use crate::ast::expr::SetExprFlags;
use crate::ast::{Expr, ExprKind};
use crate::source::Origin;

impl Parser<'_> {
    /// Reads `exec("command")` and the separator after it, then runs the command.
    pub(super) fn exec(&mut self) -> Parsed<Expr> {
        let start = self.take().loc;
        self.need_tok(Tok::LeftParen)?;
        let token = self.peek();
        if token.tok != Tok::Quoted {
            return self.unexpected(&["quoted string"]);
        }
        self.take();
        let command = self.text(token).to_string();
        self.need_tok(Tok::RightParen)?;
        let loc = self.since(start);
        self.separator()?;
        match self.files.exec(&command) {
            Ok(output) => self.output(&command, &output, loc),
            Err(message) => self.error(loc, message),
        }
    }

    /// The value of what a command printed. Errors are placed in the output, one word a line.
    fn output(&mut self, command: &str, output: &str, loc: Loc) -> Parsed<Expr> {
        let without_comments = output.lines().filter_map(|line| line.split('#').next());
        let words: Vec<&str> = without_comments.flat_map(str::split_whitespace).collect();
        let origin = Origin::File { name: format!("exec(\"{command}\")"), from: Some(loc) };
        let input = self.inputs.add(origin, words.join("\n"));
        // Only the output is in sight while it is read.
        let frames = std::mem::replace(&mut self.frames, vec![Lexer::new(input)]);
        let (ahead, last) = (std::mem::take(&mut self.ahead), self.last);
        let elements = words.iter().map(|_| self.output_word()).collect::<Parsed<Vec<_>>>();
        (self.frames, self.ahead, self.last) = (frames, ahead, last);
        let mut elements = elements?;
        match elements.len() {
            1 => Ok(elements.remove(0)),
            _ => Ok(Expr::new(ExprKind::Set { elements, flags: SetExprFlags::default() }, loc)),
        }
    }

    fn output_word(&mut self) -> Parsed<Expr> {
        let word = match self.tok() {
            Tok::Dollar => return self.unexpected(&["string"]),
            _ => self.rhs_concat()?,
        };
        match self.tok() {
            Tok::Newline => _ = self.take(),
            Tok::Eof => {}
            _ => return self.unexpected(&["newline"]),
        }
        Ok(word)
    }
}
