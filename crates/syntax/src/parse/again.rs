// SPDX-License-Identifier: Apache-2.0

//! Rules and elements of which only the place was kept: with [`Mode::Places`] they were read once,
//! so they are right, with [`Mode::Skip`] that shows now.

use super::sets::Maps;
use super::{Mode, Parser};
use crate::ast::expr::SetExprFlags;
use crate::ast::{Expr, ExprKind, RuleBlock};
use crate::budget::Budget;
use crate::diag::Diagnostics;
use crate::lex::{Lexer, Tok};
use crate::scope::Scope;
use crate::source::{Inputs, Loc, NoFiles};

/// Runs a parser from a byte of an input on; returns how far it came, unless there was an error.
fn read_at(
    inputs: &mut Inputs,
    budget: &Budget,
    place: Loc,
    mut read: impl FnMut(&mut Parser<'_>),
) -> Option<Loc> {
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
        leftover: None,
        stmt: place,
        in_target: false,
        in_table: false,
        mode: Mode::Trees,
        variables: 0,
        updates_sets: false,
        skipped: false,
        budget,
        operators: None,
    };
    read(&mut parser);
    let last = parser.last;
    (!diags.has_errors()).then_some(last)
}

/// The rule at a place; `None` if it was skipped and there is no rule, or more than one.
pub fn rule(inputs: &mut Inputs, budget: &Budget, place: Loc) -> Option<RuleBlock> {
    let mut rule = None;
    let last = read_at(inputs, budget, place, |p| rule = p.rule().ok())?;
    rule.filter(|_| last.end == place.end)
}

/// The elements in braces at a place, as an expression.
pub fn elements(inputs: &mut Inputs, budget: &Budget, place: Loc) -> Option<Expr> {
    let elements =
        Elements::new(place).next(inputs, budget, usize::MAX).filter(|e| !e.is_empty())?;
    Some(Expr::new(ExprKind::Set { elements, flags: SetExprFlags::default() }, place))
}

/// The elements in braces at a place, some at a time.
pub struct Elements {
    /// The next one, or the closing brace.
    rest: Loc,
    /// None was read yet.
    at_first: bool,
}

impl Elements {
    /// At the first one.
    pub fn new(place: Loc) -> Self {
        // After the brace.
        Elements { rest: Loc { start: place.start + 1, ..place }, at_first: true }
    }

    /// So many, or all that are left. `None` if they were skipped and there is something else.
    pub fn next(&mut self, inputs: &mut Inputs, budget: &Budget, most: usize) -> Option<Vec<Expr>> {
        let mut out = Vec::with_capacity(most.min(1024));
        let mut right = true;
        let end = self.rest.end;
        let at_first = self.at_first;
        let last = read_at(inputs, budget, self.rest, |p| {
            while right && out.len() < most {
                p.skip_newlines();
                // Commas after one another are one.
                while !(at_first && out.is_empty()) && p.eat_tok(Tok::Comma) {
                    p.skip_newlines();
                }
                let token = p.peek();
                if token.tok == Tok::RightBrace && token.loc.end == end {
                    break;
                }
                match p.element(Maps::Any) {
                    Ok(element) => out.push(element),
                    Err(_) => right = false,
                }
                p.skip_newlines();
                right &= p.eat_tok(Tok::Comma) || p.here().end == end;
            }
        })?;
        self.rest.start = last.end;
        self.at_first = false;
        right.then_some(out)
    }

    /// Whether nothing but the closing brace is left.
    pub fn at_end(&self) -> bool {
        self.rest.start + 1 == self.rest.end
    }

    /// Gives `read` the text up to the closing brace and where the next element starts in it;
    /// `read` tells where the first element starts that it left.
    pub fn pass(&mut self, inputs: &Inputs, read: impl FnOnce(&[u8], usize) -> usize) {
        let text = inputs.text(self.rest.input);
        let text = text.as_bytes().get(..self.rest.end as usize).unwrap_or_default();
        let start = read(text, self.rest.start as usize) as u32;
        self.at_first &= start == self.rest.start;
        self.rest.start = start;
    }
}
