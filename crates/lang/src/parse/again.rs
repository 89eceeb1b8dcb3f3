//! Rules and elements of which only the place was kept ([`Mode::Places`]): they were read once, so they are right.

use super::{Mode, Parser, sets::Maps};
use crate::ast::cmd::RuleBlock;
use crate::ast::expr::{Expr, ExprKind, SetExprFlags};
use crate::diag::Diagnostics;
use crate::lex::{Lexer, Tok};
use crate::scope::Scope;
use crate::source::{Inputs, Loc, NoFiles};

/// Runs a parser from a byte of an input on; returns how far it came.
fn read_at(inputs: &mut Inputs, place: Loc, mut read: impl FnMut(&mut Parser<'_>)) -> Loc {
    let (mut scope, mut diags) = (Scope::default(), Diagnostics::default());
    let mut parser = Parser {
        inputs,
        files: &NoFiles,
        include_paths: &[],
        scope: &mut scope,
        diags: &mut diags,
        frames: vec![Lexer { input: place.input, pos: place.start as usize }],
        ahead: [None, None],
        last: Loc { end: place.start, ..place },
        last_but_one: place,
        depth: 0,
        errors: 0,
        keywords: &[],
        in_target: false,
        in_table: false,
        mode: Mode::Trees,
        variables: 0,
        updates_sets: false,
    };
    read(&mut parser);
    parser.last
}

/// The rule at a place.
pub(crate) fn rule(inputs: &mut Inputs, place: Loc) -> RuleBlock {
    let mut rule = RuleBlock { loc: place, ..RuleBlock::default() };
    read_at(inputs, place, |p| rule = p.rule().unwrap_or_else(|_| RuleBlock::default()));
    rule
}

/// The elements in braces at a place, as an expression.
pub(crate) fn elements(inputs: &mut Inputs, place: Loc) -> Expr {
    let elements = Elements::new(place).next(inputs, usize::MAX);
    Expr::new(ExprKind::Set { elements, flags: SetExprFlags::default() }, place)
}

/// The elements in braces at a place, some at a time.
pub(crate) struct Elements {
    rest: Loc,
}

impl Elements {
    /// At the first one.
    pub(crate) fn new(place: Loc) -> Self {
        // Behind the brace.
        Elements { rest: Loc { start: place.start + 1, ..place } }
    }

    /// So many, or all that are left.
    pub(crate) fn next(&mut self, inputs: &mut Inputs, most: usize) -> Vec<Expr> {
        let mut out = Vec::with_capacity(most.min(1024));
        let last = read_at(inputs, self.rest, |p| {
            while out.len() < most {
                while matches!(p.tok(), Tok::Newline | Tok::Comma) {
                    p.take();
                }
                if matches!(p.tok(), Tok::RightBrace | Tok::Eof) {
                    break;
                }
                let Ok(element) = p.element(Maps::Any) else { break };
                out.push(element);
            }
        });
        self.rest.start = last.end;
        out
    }
}
