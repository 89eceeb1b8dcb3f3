//! Text to commands: a recursive descent over nft's grammar.
//!
//! | file | reads |
//! | --- | --- |
//! | [`commands`](self) | `add`, `list`, `flush`, … and what they speak of |
//! | `blocks` | tables, chains and flowtables in braces |
//! | `sets` | sets and maps in braces, elements |
//! | `objects` | counters, quotas, limits, helpers and other named objects |
//! | `stmts`, `nat` | statements of rules |
//! | `exprs` | operators, left and right sides of matches, arguments of statements |
//! | `primary`, `headers` | what expressions are made of: `meta`, `ct`, header fields, options, … |
//! | `again` | rules and elements of which only the place was kept |
//! | `skip` | where rules and elements end |
//! | `plain` | elements that are nothing but constants, without trees |
//! | `exec` | values that a command prints |
//! | `words` | the reserved words |
//!
//! Definitions are resolved while reading: `$name` is replaced by what it stands for at that place, so the tree
//! holds no variables. After an error the reader goes on behind the next newline or `;` of the innermost block, as
//! nft does, and gives up after [`MAX_ERRORS`].

pub(crate) mod again;
mod blocks;
mod commands;
mod exec;
mod exprs;
mod headers;
mod nat;
mod objects;
pub(crate) mod plain;
mod primary;
mod sets;
mod skip;
mod stmts;
pub(crate) mod tunnel;
mod words;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use penstock_ruleset::model::Family;

use crate::ast::cmd::{Cmd, Name};
use crate::ast::expr::{Expr, ExprKind, SymbolKind};
use crate::diag::{Diagnostic, Diagnostics};
use crate::lex::{Lexer, Tok, Token};
use crate::scope::Scope;
use crate::source::{Files, Inputs, Loc, Origin};

/// Errors after which reading ends (nft's `parser_max_errors`).
pub const MAX_ERRORS: usize = 10;

/// How deep files may include one another (nft's `MAX_INCLUDE_DEPTH`).
pub const MAX_INCLUDES: usize = 16;

/// How deep parentheses, braces and blocks may nest: far beyond use, and within any thread's stack. nft's limit is
/// that of its parser's stack.
const MAX_DEPTH: u32 = 50;

/// How many operators of one kind may follow one another; each one nests the tree a level deeper.
const MAX_OPERATORS: u32 = 200;

/// What nft says of what may be said only once.
const TWICE: &str = "You can only specify this once. This statement is duplicated.";

/// Longest comment in bytes.
const MAX_COMMENT: usize = 128;

/// An error that is already among the diagnostics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bad {
    /// The item of the block that is being read is lost.
    Item,
    /// The block is lost as a whole. nft's parser drops all it read of a block where it finds an error only behind
    /// an item's separator.
    Block,
}

type Parsed<T> = Result<T, Bad>;

/// Reads the commands of input number `input`, and of the files that it includes, which are added to `inputs`.
/// Names that are defined in its outermost block stay in `scope`. What could be read is returned, errors or not.
pub fn parse(
    inputs: &mut Inputs,
    input: u32,
    files: &dyn Files,
    include_paths: &[String],
    scope: &mut Scope,
    diags: &mut Diagnostics,
) -> Vec<Cmd> {
    read(inputs, input, files, include_paths, scope, diags, Mode::Trees).cmds
}

/// What is kept of rules in blocks and of the elements of sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All of it.
    Trees,
    /// Where possible only the place, from which they are read again when they are needed: large rulesets are not held
    /// as trees.
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

/// As [`parse`], keeping only what `mode` says.
pub fn read(
    inputs: &mut Inputs,
    input: u32,
    files: &dyn Files,
    include_paths: &[String],
    scope: &mut Scope,
    diags: &mut Diagnostics,
    mode: Mode,
) -> Read {
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
        in_target: false,
        in_table: false,
        mode,
        variables: 0,
        updates_sets: false,
        skipped: false,
    };
    let depth = parser.scope.depth();
    let cmds = parser.commands();
    parser.scope.close_to(depth);
    Read { cmds, updates_sets: parser.updates_sets, skipped: parser.skipped }
}

struct Parser<'a> {
    inputs: &'a mut Inputs,
    files: &'a dyn Files,
    include_paths: &'a [String],
    scope: &'a mut Scope,
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
    keywords: &'static [&'static str],
    /// The keywords among which an error has left nft's scanner: those of what was being read, or of what was passed over.
    leftover: Option<&'static [&'static str]>,
    /// Where a statement sends packets is being read: its keywords are no symbols there.
    in_target: bool,
    /// The next block stands in a table's, so that a separator follows it.
    in_table: bool,
    mode: Mode,
    /// Variables read so far: what has one in it cannot be read without the definitions of its place.
    variables: usize,
    updates_sets: bool,
    skipped: bool,
}

impl Parser<'_> {
    // Tokens.

    fn lex(&mut self) -> Token {
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

    fn peek(&mut self) -> Token {
        match self.ahead[0] {
            Some(token) => token,
            None => {
                let token = self.lex();
                self.ahead[0] = Some(token);
                token
            }
        }
    }

    /// The token behind [`Self::peek`].
    fn peek_second(&mut self) -> Token {
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

    fn take(&mut self) -> Token {
        let token = self.peek();
        self.ahead = [self.ahead[1].take(), None];
        self.last_but_one = self.last;
        self.last = token.loc;
        token
    }

    fn tok(&mut self) -> Tok {
        self.peek().tok
    }

    fn here(&mut self) -> Loc {
        self.peek().loc
    }

    /// From `start` to the token taken last.
    fn since(&self, start: Loc) -> Loc {
        start.to(self.last)
    }

    /// Text of a token, without quotes and brackets.
    fn text(&self, token: Token) -> &str {
        let text = self.inputs.slice(token.loc);
        match token.tok {
            Tok::Quoted => text.get(1..text.len().saturating_sub(1)).unwrap_or(""),
            Tok::Str if text.starts_with('[') => text.get(1..text.len().saturating_sub(1)).unwrap_or(""),
            _ => text,
        }
    }

    /// The word ahead; empty if it is something else.
    fn word(&mut self) -> &str {
        let token = self.peek();
        if token.tok == Tok::Word { self.inputs.slice(token.loc) } else { "" }
    }

    fn second_word(&mut self) -> &str {
        let token = self.peek_second();
        if token.tok == Tok::Word { self.inputs.slice(token.loc) } else { "" }
    }

    fn at(&mut self, word: &str) -> bool {
        self.word() == word
    }

    /// Takes a word if it is ahead.
    fn eat(&mut self, word: &str) -> bool {
        let there = self.at(word);
        if there {
            self.take();
        }
        there
    }

    fn eat_tok(&mut self, tok: Tok) -> bool {
        let there = self.tok() == tok;
        if there {
            self.take();
        }
        there
    }

    fn need(&mut self, word: &'static str) -> Parsed<()> {
        if self.eat(word) { Ok(()) } else { self.unexpected(&[word]) }
    }

    fn need_tok(&mut self, tok: Tok) -> Parsed<()> {
        if self.eat_tok(tok) { Ok(()) } else { self.unexpected(&[tok_name(tok)]) }
    }

    fn skip_newlines(&mut self) {
        while self.eat_tok(Tok::Newline) {}
    }

    /// Whether what stands from `start` to the token taken last, before which so many variables had been read, can be
    /// read again from its place.
    fn can_be_read_again(&self, start: Loc, variables: usize) -> bool {
        self.mode != Mode::Trees && self.variables == variables && start.input == self.last.input
    }

    // Errors.

    fn error<T>(&mut self, loc: Loc, message: impl Into<String>) -> Parsed<T> {
        self.diags.push(Diagnostic::error(loc, message));
        Err(Bad::Item)
    }

    /// An error that nft finds behind the item's separator.
    fn late_error<T>(&mut self, loc: Loc, message: &str) -> Parsed<T> {
        self.separator()?;
        self.diags.push(Diagnostic::error(loc, message));
        Err(Bad::Block)
    }

    /// What is a keyword outside of all that has keywords.
    fn outer_keywords(&self) -> &'static [&'static str] {
        self.leftover.unwrap_or_default()
    }

    fn is_left_over(&self, word: &str) -> bool {
        self.outer_keywords().contains(&word) && !words::is_symbol_behind_ct(word)
    }

    /// Whether the word ahead is a keyword in what is being read.
    fn at_keyword(&mut self) -> bool {
        let keywords = self.keywords;
        keywords.contains(&self.word())
    }

    /// Reads what `first` begins, among whose words are keywords of its own.
    fn scoped<T>(&mut self, first: &str, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let outer = std::mem::replace(&mut self.keywords, words::keywords_behind(first));
        let result = read(self)?;
        self.keywords = outer;
        Ok(result)
    }

    /// The word behind what `first` began is still read as if it belonged to it: it is no symbol if it is a keyword there.
    fn close(&mut self, first: &str) -> Parsed<()> {
        let keywords = words::keywords_behind(first);
        if !keywords.contains(&self.word()) {
            return Ok(());
        }
        self.keywords = keywords;
        self.unexpected(&[])
    }

    /// The token ahead cannot stand here. `expecting` is what nft names, at most four.
    fn unexpected<T>(&mut self, expecting: &[&str]) -> Parsed<T> {
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

    /// Goes on behind the next newline or `;`. `false` when it is time to give up.
    fn recover(&mut self) -> bool {
        if !self.keywords.is_empty() {
            self.leftover = Some(self.keywords);
        }
        loop {
            match self.tok() {
                Tok::Newline | Tok::Semicolon => break,
                Tok::Eof => return false,
                // nft's scanner does not know that this goes unread.
                Tok::Word if words::opens_scope(self.word()) => {
                    self.leftover = Some(words::keywords_behind(self.word()));
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
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            let loc = self.here();
            return self.error(loc, "memory exhausted");
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn separator(&mut self) -> Parsed<()> {
        self.separator_or(&[])
    }

    /// A separator, where nft would also take something else.
    fn separator_or(&mut self, others: &[&str]) -> Parsed<()> {
        self.separator_or_ahead(others)?;
        self.take();
        Ok(())
    }

    /// A separator that is left for later.
    fn separator_ahead(&mut self) -> Parsed<()> {
        self.separator_or_ahead(&[])
    }

    fn separator_or_ahead(&mut self, others: &[&str]) -> Parsed<()> {
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

    /// Reads `{ item; item … }` with definitions of its own; items that need a separator read it themselves. Errors stay
    /// inside, unless the text ends.
    fn block(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        self.need_tok(Tok::LeftBrace)?;
        let depth = self.scope.depth();
        let in_table = std::mem::take(&mut self.in_table);
        self.scope.open();
        let result = self.deeper(|p| p.block_items(&mut item, in_table));
        self.scope.close_to(depth);
        result
    }

    /// Reads a block whose errors end the command that it stands in, and that defines nothing.
    fn plain_block(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
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

    fn block_items(&mut self, item: &mut impl FnMut(&mut Self) -> Parsed<()>, in_table: bool) -> Parsed<()> {
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

    /// `include`, `define`, `redefine`, `undefine`: what may stand in every block.
    fn common(&mut self) -> Parsed<bool> {
        match self.word() {
            "include" => self.include()?,
            "define" => self.define(false)?,
            "redefine" => self.define(true)?,
            "undefine" => {
                self.take();
                let name = self.identifier()?;
                self.separator()?;
                // A name that stands for nothing is no error to nft.
                self.scope.undefine(&name.text);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn define(&mut self, again: bool) -> Parsed<()> {
        self.take();
        let name = self.identifier()?;
        self.need_tok(Tok::Assign)?;
        let value = match self.at("exec") && self.peek_second().tok == Tok::LeftParen {
            true => self.exec()?,
            false => {
                let value = self.initializer()?;
                self.separator()?;
                value
            }
        };
        if !again && self.scope.has(&name.text) {
            return self.error(name.loc, format!("redefinition of symbol '{}'", name.text));
        }
        self.scope.define(name, value);
        Ok(())
    }

    fn include(&mut self) -> Parsed<()> {
        let start = self.take().loc;
        let token = self.peek();
        if token.tok != Tok::Quoted {
            return self.unexpected(&["quoted string"]);
        }
        self.take();
        let pattern = self.text(token).to_string();
        self.separator()?;
        let loc = self.since(start);
        let paths = self.include_files(&pattern, loc)?;
        if paths.is_empty() {
            return Ok(());
        }
        if self.frames.len() > MAX_INCLUDES {
            self.diags.push(Diagnostic::error(
                loc,
                format!("Include nested too deeply, max {MAX_INCLUDES} levels"),
            ));
            return Err(Bad::Item);
        }
        let mut frames = Vec::new();
        for path in paths {
            match self.files.read(&path) {
                Ok(text) => {
                    let origin = Origin::File { name: path, from: Some(loc) };
                    frames.push(Lexer::new(self.inputs.add(origin, text)));
                }
                Err(text) => {
                    return self.error(loc, format!("Could not open file \"{path}\": {text}"));
                }
            }
        }
        // The first file is read first, so it comes to lie on top.
        self.frames.extend(frames.into_iter().rev());
        Ok(())
    }

    /// Names of the files that an include statement speaks of.
    fn include_files(&mut self, pattern: &str, loc: Loc) -> Parsed<Vec<String>> {
        let wild = pattern.contains(['*', '?', '[']);
        let own = pattern.starts_with('/') || pattern.starts_with("./") || pattern.starts_with("../");
        let candidates: Vec<String> = if own {
            vec![pattern.to_string()]
        } else {
            self.include_paths.iter().map(|dir| format!("{}/{pattern}", dir.trim_end_matches('/'))).collect()
        };
        for candidate in &candidates {
            let found = self.files.glob(candidate);
            if !found.is_empty() {
                return Ok(found);
            }
        }
        if wild { Ok(Vec::new()) } else { self.error(loc, format!("File not found: {pattern}")) }
    }

    // Names and simple values.

    fn identifier(&mut self) -> Parsed<Name> {
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
    fn string(&mut self) -> Parsed<Name> {
        const EXPECTING: [&str; 3] = ["string", "quoted string", "string with a trailing asterisk"];
        let token = self.peek();
        if !self.is_string(token) {
            return self.unexpected(&EXPECTING);
        }
        let text = Arc::from(self.text(token));
        self.take();
        Ok(Name { text, loc: token.loc })
    }

    fn at_string(&mut self) -> bool {
        let token = self.peek();
        self.is_string(token)
    }

    fn is_string(&self, token: Token) -> bool {
        match token.tok {
            Tok::Word => {
                let word = self.inputs.slice(token.loc);
                let keyword = self.keywords.contains(&word) && !words::is_symbol_behind_ct(word);
                !(words::is_reserved(word) || self.in_target && keyword || self.is_left_over(word))
            }
            Tok::Str | Tok::Quoted | Tok::AsteriskString => true,
            _ => false,
        }
    }

    fn number(&mut self) -> Parsed<u64> {
        match self.tok() {
            Tok::Num(n) => {
                self.take();
                Ok(n)
            }
            _ => self.unexpected(&["number"]),
        }
    }

    /// A number that has to fit what it is for.
    fn number_as<T: TryFrom<u64>>(&mut self) -> Parsed<T> {
        let loc = self.here();
        let n = self.number()?;
        self.within_range(loc, n)
    }

    fn within_range<T: TryFrom<u64>>(&mut self, loc: Loc, n: u64) -> Parsed<T> {
        T::try_from(n).or_else(|_| {
            let bits = 8 * std::mem::size_of::<T>();
            self.error(loc, format!("Value {n} exceeds valid range 0-{}", u64::MAX >> (64 - bits)))
        })
    }

    /// `$name`: what it stands for, placed where it was defined.
    fn variable(&mut self) -> Parsed<Expr> {
        self.need_tok(Tok::Dollar)?;
        self.variables += 1;
        let name = self.identifier()?;
        match self.scope.get(&name.text) {
            Some(value) => Ok(value.clone()),
            None => {
                let message = match self.similar(&name.text) {
                    Some(similar) => {
                        format!("unknown identifier '{}'; did you mean identifier ‘{similar}’?", name.text)
                    }
                    None => format!("unknown identifier '{}'", name.text),
                };
                self.error(name.loc, message)
            }
        }
    }

    /// A defined name that looks like this one.
    fn similar(&self, name: &str) -> Option<Arc<str>> {
        crate::diag::most_similar(name, self.scope.names().map(|n| &**n)).map(Arc::from)
    }

    fn symbol(text: impl Into<Arc<str>>, loc: Loc) -> Expr {
        Expr::new(ExprKind::Symbol { kind: SymbolKind::Value, text: text.into() }, loc)
    }

    /// `1d2h3m4s` in milliseconds.
    fn time(&mut self) -> Parsed<u64> {
        let token = self.peek();
        let text = match token.tok {
            Tok::Str => self.text(token),
            Tok::Word if !words::is_reserved(self.inputs.slice(token.loc)) => self.inputs.slice(token.loc),
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

    fn comment(&mut self) -> Parsed<Arc<str>> {
        self.take();
        let name = self.string()?;
        if name.text.len() > MAX_COMMENT {
            let message = format!("comment too long, {MAX_COMMENT} characters maximum allowed");
            return self.error(name.loc, message);
        }
        Ok(name.text)
    }

    fn family(&mut self) -> Option<Family> {
        let family = match self.word() {
            "ip" => Family::Ip,
            "ip6" => Family::Ip6,
            "inet" => Family::Inet,
            "arp" => Family::Arp,
            "bridge" => Family::Bridge,
            "netdev" => Family::Netdev,
            _ => return None,
        };
        self.take();
        Some(family)
    }
}

/// nft's `time_parse`: parts with units from days to milliseconds, each at most once, in any order.
fn time_value(text: &str) -> Result<u64, &'static str> {
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
        total = number.checked_mul(factor).and_then(|ms| total.checked_add(ms)).ok_or("value too large")?;
    }
    Ok(total)
}

/// How nft names a token in a syntax error.
fn tok_name(tok: Tok) -> &'static str {
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
