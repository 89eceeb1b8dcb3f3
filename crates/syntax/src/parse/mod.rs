// SPDX-License-Identifier: Apache-2.0

//! Text to commands: a recursive descent over nft's grammar.
//!
//! | file | reads |
//! | --- | --- |
//! | [`commands`](self) | `add`, `list`, `flush`, … |
//! | `targets` | what they speak of |
//! | `blocks` | tables, chains and flowtables in braces |
//! | `sets` | sets and maps in braces, elements |
//! | `objects` | counters, quotas, limits, helpers and other named objects |
//! | `stmts` | rules, and what statements have in common; each statement is in [`crate::stmt`] |
//! | `exprs` | operators, left and right sides of matches, arguments of statements |
//! | `primary`, `headers` | what expressions are made of: header fields, options; each other
//! selector is in `crate::selector` |
//! | `names` | names, numbers, times |
//! | `definitions` | `define`, `include` and their like |
//! | `keywords` | which words are keywords where |
//! | `recovery` | syntax errors, and how reading continues |
//! | `again` | rules and elements of which only the place was kept |
//! | `skip` | where rules and elements end |
//! | `exec` | values that a command prints |
//! | `words` | the reserved words |
//!
//! Definitions are resolved while reading: `$name` is replaced by what it stands for at that place,
//! so the tree holds no variables. After an error the reader continues after the next newline or
//! `;` of the innermost block, as nft does, and gives up after [`MAX_ERRORS`].

pub mod again;
mod blocks;
mod commands;
mod definitions;
mod exec;
mod exprs;
mod headers;
mod keywords;
mod names;
mod objects;
mod primary;
mod recovery;
mod sets;
mod skip;
mod stmts;
mod targets;
pub(crate) mod tunnel;
pub(crate) mod words;

#[cfg(test)]
mod tests;

use crate::ast::Expr;
use crate::ast::cmd::Cmd;
use crate::budget::Budget;
use crate::diag::Diagnostics;
use crate::lex::{Lexer, Tok, Token};
use crate::scope::Scope;
use crate::source::{Files, Inputs, Loc};
use recovery::tok_name;

/// Errors after which reading ends (nft's `parser_max_errors`).
pub const MAX_ERRORS: usize = 10;

/// How deep files may include one another (nft's `MAX_INCLUDE_DEPTH`).
pub const MAX_INCLUDES: usize = 16;

/// How deep parentheses, braces and blocks may nest: far beyond use, and within any thread's stack.
/// nft's limit is that of its parser's stack.
const MAX_DEPTH: u32 = 50;

/// How many operators may stand in one expression, parentheses in it included; each one may nest
/// the tree a level deeper.
pub(crate) const MAX_OPERATORS: u32 = 200;

/// How deep the tree of a definition may be, with what the definitions in it stand for.
const MAX_HEIGHT: u32 = MAX_OPERATORS + 2 * MAX_DEPTH;

/// What bison says where its stack would grow beyond bounds.
pub(crate) const TOO_DEEP: &str = "memory exhausted";

/// What nft says of what may be said only once.
const TWICE: &str = "You can only specify this once. This statement is duplicated.";

/// Longest comment in bytes.
const MAX_COMMENT: usize = 128;

/// An error that is already among the diagnostics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bad {
    /// The item of the block that is being read is lost.
    Item,
    /// The block is lost as a whole. nft's parser drops all it read of a block where it finds an
    /// error only after an item's separator.
    Block,
}

pub(crate) type Parsed<T> = Result<T, Bad>;

/// Reads the commands of input number `input`, and of the files that it includes, which are added
/// to `inputs`. Names that are defined in its outermost block stay in `scope`. What could be read
/// is returned, errors or not.
pub fn parse(
    inputs: &mut Inputs,
    input: u32,
    files: &dyn Files,
    include_paths: &[String],
    scope: &mut Scope,
    diags: &mut Diagnostics,
) -> Vec<Cmd> {
    let reading = Reading { files, include_paths, mode: Mode::Trees, budget: &Budget::default() };
    read(inputs, input, &reading, scope, diags).cmds
}

/// What is kept of rules in blocks and of the elements of sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All of it.
    Trees,
    /// Where possible only the place, from which they are read again when they are needed: large
    /// rulesets are not held as trees.
    Places,
    /// As with `Places`, but what can be skipped is not even read. The text may be wrong there.
    Skip,
}

/// What a text says.
#[derive(Debug)]
pub struct Read {
    /// The commands that could be read, errors or not.
    pub cmds: Vec<Cmd>,
    /// Rules update sets from packets (`add @s { … }`, `meter`).
    pub updates_sets: bool,
    /// Something was skipped: all errors count for nothing until the text was read in another mode.
    pub skipped: bool,
}

/// How texts are read.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// Included files come from there.
    pub files: &'a dyn Files,
    /// Folders of included files (`-I`).
    pub include_paths: &'a [String],
    /// What is kept of rules and elements.
    pub mode: Mode,
    /// Where it is spent reading ends: with an error, or without one where time is over.
    pub budget: &'a Budget,
}

/// Reads a text to its end or its last error. Names are looked up in `scope`, and defined there.
pub fn read(
    inputs: &mut Inputs,
    input: u32,
    reading: &Reading<'_>,
    scope: &mut Scope,
    diags: &mut Diagnostics,
) -> Read {
    let Reading { files, include_paths, mode, budget } = *reading;
    let frames = vec![Lexer::new(input)];
    let last = Loc { input, start: 0, end: 0 };
    let mut parser = Parser {
        inputs,
        files,
        include_paths,
        scope,
        diags,
        frames,
        ahead: [None, None],
        last,
        last_but_one: last,
        depth: 0,
        errors: 0,
        keywords: &[],
        leftover: None,
        stmt: last,
        in_target: false,
        in_table: false,
        mode,
        variables: 0,
        updates_sets: false,
        skipped: false,
        budget,
        operators: None,
    };
    let depth = parser.scope.depth();
    let cmds = parser.commands();
    parser.scope.close_to(depth);
    Read { cmds, updates_sets: parser.updates_sets, skipped: parser.skipped }
}

/// Reads tokens, and reports what is wrong.
pub(crate) struct Parser<'a> {
    pub(crate) inputs: &'a mut Inputs,
    files: &'a dyn Files,
    include_paths: &'a [String],
    pub(crate) scope: &'a mut Scope,
    diags: &'a mut Diagnostics,
    /// The file being read, on top of those that include it.
    frames: Vec<Lexer>,
    /// Tokens that were looked at but not taken.
    ahead: [Option<Token>; 2],
    /// Place of the token taken last.
    last: Loc,
    /// Place of the token taken before that.
    last_but_one: Loc,
    depth: u32,
    errors: usize,
    /// Words that are keywords in the statement being read, for messages only.
    pub(crate) keywords: &'static [&'static str],
    /// The keywords among which an error has left nft's scanner: those of what was being read, or
    /// of what was passed over.
    leftover: Option<&'static [&'static str]>,
    /// Where the statement being read begins.
    pub(crate) stmt: Loc,
    /// Where a statement sends packets is being read: its keywords are no symbols there.
    in_target: bool,
    /// The next block stands in a table's, so that a separator follows it.
    in_table: bool,
    mode: Mode,
    /// Variables read so far: what has one in it cannot be read without the definitions of its
    /// place.
    pub(crate) variables: usize,
    pub(crate) updates_sets: bool,
    skipped: bool,
    budget: &'a Budget,
    /// Operators of the expression that is being read, if one is.
    operators: Option<u32>,
}

impl Parser<'_> {
    // Tokens.

    fn lex(&mut self) -> Token {
        // Further input is ignored.
        if self.budget.step() {
            return Token { tok: Tok::Eof, loc: self.last };
        }
        loop {
            let Some(frame) = self.frames.last_mut() else {
                return Token { tok: Tok::Eof, loc: self.last };
            };
            let text = self.inputs.inputs.get(frame.input as usize).map_or("", |i| &i.text);
            let token = frame.next(text);
            if token.tok != Tok::Eof || self.frames.len() == 1 {
                return token;
            }
            self.frames.pop();
        }
    }

    pub(crate) fn peek(&mut self) -> Token {
        match self.ahead[0] {
            Some(token) => token,
            None => {
                let token = self.lex();
                self.ahead[0] = Some(token);
                token
            }
        }
    }

    /// The token after [`Self::peek`].
    pub(crate) fn peek_second(&mut self) -> Token {
        self.peek();
        match self.ahead[1] {
            Some(token) => token,
            None => {
                let token = self.lex();
                self.ahead[1] = Some(token);
                token
            }
        }
    }

    pub(crate) fn take(&mut self) -> Token {
        let token = self.peek();
        self.ahead = [self.ahead[1].take(), None];
        self.last_but_one = self.last;
        self.last = token.loc;
        token
    }

    pub(crate) fn tok(&mut self) -> Tok {
        self.peek().tok
    }

    pub(crate) fn here(&mut self) -> Loc {
        self.peek().loc
    }

    /// From `start` to the token taken last.
    pub(crate) fn since(&self, start: Loc) -> Loc {
        start.to(self.last)
    }

    /// Text of a token, without quotes and brackets.
    pub(crate) fn text(&self, token: Token) -> &str {
        let text = self.inputs.slice(token.loc);
        match token.tok {
            // To nft a string ends where one of C does.
            Tok::Quoted => text
                .get(1..text.len().saturating_sub(1))
                .and_then(|t| t.split('\0').next())
                .unwrap_or(""),
            Tok::Str if text.starts_with('[') => {
                text.get(1..text.len().saturating_sub(1)).unwrap_or("")
            }
            _ => text,
        }
    }

    /// The word ahead; empty if it is something else.
    pub(crate) fn word(&mut self) -> &str {
        let token = self.peek();
        if token.tok == Tok::Word { self.inputs.slice(token.loc) } else { "" }
    }

    pub(crate) fn second_word(&mut self) -> &str {
        let token = self.peek_second();
        if token.tok == Tok::Word { self.inputs.slice(token.loc) } else { "" }
    }

    pub(crate) fn at(&mut self, word: &str) -> bool {
        self.word() == word
    }

    /// Takes a word if it is ahead.
    pub(crate) fn eat(&mut self, word: &str) -> bool {
        let there = self.at(word);
        if there {
            self.take();
        }
        there
    }

    pub(crate) fn eat_tok(&mut self, tok: Tok) -> bool {
        let there = self.tok() == tok;
        if there {
            self.take();
        }
        there
    }

    pub(crate) fn need(&mut self, word: &'static str) -> Parsed<()> {
        if self.eat(word) { Ok(()) } else { self.unexpected(&[word]) }
    }

    pub(crate) fn need_tok(&mut self, tok: Tok) -> Parsed<()> {
        if self.eat_tok(tok) { Ok(()) } else { self.unexpected(&[tok_name(tok)]) }
    }

    fn skip_newlines(&mut self) {
        while self.eat_tok(Tok::Newline) {}
    }

    /// Whether what stands from `start` to the token taken last, before which so many variables had
    /// been read, can be read again from its place.
    fn can_be_read_again(&self, start: Loc, variables: usize) -> bool {
        self.mode != Mode::Trees && self.variables == variables && start.input == self.last.input
    }
}

/// A field of a concatenation after so many others: to nft the dot before the third and later ones
/// belongs to their place.
fn placed(mut part: Expr, dot: Loc, before: usize) -> Expr {
    if before > 1 {
        part.loc = dot.to(part.loc);
    }
    part
}
