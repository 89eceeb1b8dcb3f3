// SPDX-License-Identifier: Apache-2.0

//! The words of a file (`read_config_lex.l`): between white space, `#` begins a comment, and braces
//! are words of their own.

use std::str::FromStr;

/// Words that are read one by one.
#[derive(Debug)]
pub(super) struct Words<'a> {
    all: Vec<(&'a str, usize)>,
    next: usize,
}

impl<'a> Words<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let mut all = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            for word in line.split_whitespace() {
                let mut rest = word;
                while let Some(at) = rest.find(['{', '}']) {
                    let (before, from) = rest.split_at(at);
                    let (brace, after) = from.split_at(1);
                    all.extend(
                        [before, brace].into_iter().filter(|w| !w.is_empty()).map(|w| (w, number)),
                    );
                    rest = after;
                }
                if !rest.is_empty() {
                    all.push((rest, number));
                }
            }
        }
        Words { all, next: 0 }
    }

    /// The line of the word that was read last.
    pub(super) fn line(&self) -> usize {
        let last = self.all.get(self.next.saturating_sub(1)).or(self.all.last());
        last.map_or(1, |(_, line)| *line)
    }

    /// A sentence about the word that was read last.
    pub(super) fn error(&self, sentence: impl std::fmt::Display) -> String {
        format!("line {}: {sentence}", self.line())
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.all.get(self.next).map(|(word, _)| *word)
    }

    /// The next word; nothing at the end.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.next += 1;
        Some(word)
    }

    /// The next word, which is `what`.
    pub(super) fn need(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| self.error(format_args!("{what} is missing at the end")))
    }

    /// The next word is this one.
    pub(super) fn expect(&mut self, word: &str) -> Result<(), String> {
        match self.need(&format!("`{word}`"))? {
            found if found == word => Ok(()),
            found => Err(self.error(format_args!("`{word}` is expected, and not `{found}`"))),
        }
    }

    /// Takes the next word if it is this one.
    pub(super) fn take(&mut self, word: &str) -> bool {
        let is = self.peek() == Some(word);
        self.next += usize::from(is);
        is
    }

    /// A value of some type.
    pub(super) fn value<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.need(what)?;
        word.parse().map_err(|_| self.error(format_args!("{what} is expected, and not `{word}`")))
    }

    /// `on` or `off`, `yes` or `no`.
    pub(super) fn switch(&mut self) -> Result<bool, String> {
        let word = self.need("`on` or `off`")?;
        match word.to_ascii_lowercase().as_str() {
            "on" | "yes" => Ok(true),
            "off" | "no" => Ok(false),
            _ => Err(self.error(format_args!("`on` or `off` is expected, and not `{word}`"))),
        }
    }

    /// The clauses of a section in braces, one by one: `clause` reads what follows a word.
    pub(super) fn section(
        &mut self,
        mut clause: impl FnMut(&mut Self, &'a str) -> Result<(), String>,
    ) -> Result<(), String> {
        self.expect("{")?;
        while !self.take("}") {
            let word = self.need("`}`")?;
            clause(self, word)?;
        }
        Ok(())
    }

    /// Reads over a section, or a value.
    pub(super) fn skip(&mut self) -> Result<(), String> {
        if self.peek() != Some("{") {
            return self.need("a value").map(drop);
        }
        self.section(|words, _| {
            while words.peek() == Some("{") {
                words.skip()?;
            }
            Ok(())
        })
    }
}
