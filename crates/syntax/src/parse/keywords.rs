// SPDX-License-Identifier: Apache-2.0

//! Words that are keywords only after the word that they belong to.
//!
//! nft's scanner enters a scope at such a word, and the parser leaves it when it has read what
//! belongs to the word; what it looked at before it knew that is still read with the scope's
//! keywords.

use super::{Parsed, Parser, words};
use crate::ast::cmd::Name;

impl Parser<'_> {
    /// What is a keyword outside of all that has keywords.
    pub(super) fn outer_keywords(&self) -> &'static [&'static str] {
        self.leftover.unwrap_or_default()
    }

    pub(super) fn is_left_over(&self, word: &str) -> bool {
        self.outer_keywords().contains(&word) && !words::is_symbol_after_ct(word)
    }

    /// Whether the word ahead is a keyword in what is being read.
    pub(crate) fn at_keyword(&mut self) -> bool {
        let keywords = self.keywords;
        keywords.contains(&self.word())
    }

    /// Reads what `first` begins, which has its own keywords.
    pub(crate) fn scoped<T>(
        &mut self,
        first: &str,
        read: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<T> {
        let outer = std::mem::replace(&mut self.keywords, words::keywords_after(first));
        let result = read(self)?;
        self.keywords = outer;
        Ok(result)
    }

    /// The word after what `first` began is still read as if it belonged to it: it is no symbol if
    /// it is a keyword there.
    pub(crate) fn close(&mut self, first: &str) -> Parsed<()> {
        let keywords = words::keywords_after(first);
        if !keywords.contains(&self.word()) {
            return Ok(());
        }
        self.keywords = keywords;
        self.unexpected(&[])
    }

    /// Whether the word ahead is a keyword that no statement begins with, be it only after the
    /// statement just read.
    pub(super) fn cannot_begin_stmt(&mut self) -> bool {
        let keywords = self.keywords;
        let word = self.word();
        keywords.contains(&word) || words::is_reserved(word) && !words::begins_stmt(word)
    }

    /// Nothing more is read to know that the statement ends, so that its keywords are none after
    /// it.
    pub(crate) fn ends_by_itself(&mut self) {
        self.keywords = &[];
    }

    /// What follows a statement is still read as if it belonged to it: a keyword there begins no
    /// further statement.
    pub(crate) fn no_keyword_after(&mut self) -> Parsed<()> {
        if !self.at_keyword() {
            return Ok(());
        }
        let ends = if self.depth == 0 {
            &["end of file", "newline", "semicolon"][..]
        } else {
            &["newline", "semicolon"]
        };
        self.unexpected(ends)
    }

    /// A string among which the keywords of the statement are still keywords.
    pub(crate) fn string_but_no_keyword(&mut self) -> Parsed<Name> {
        self.in_target = true;
        let name = self.string();
        self.in_target = false;
        name
    }
}
