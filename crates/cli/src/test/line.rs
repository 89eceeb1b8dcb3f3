// SPDX-License-Identifier: Apache-2.0

//! Lines of words, with their places, and what is wrong with them.

/// A word of a line, and where it begins in the file.
#[derive(Clone, Copy, Debug)]
pub struct Word<'t> {
    pub text: &'t str,
    pub at: usize,
}

/// What is left of a line.
#[derive(Clone, Copy, Debug)]
pub struct Line<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Line<'t> {
    /// A line that begins at a byte of the file.
    pub fn new(text: &'t str, at: usize) -> Self {
        Line { text, at }
    }

    /// The next word; `None` at the end.
    pub fn word(&mut self) -> Option<Word<'t>> {
        let rest = self.text.trim_start();
        let at = self.at + (self.text.len() - rest.len());
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        (self.text, self.at) = (&rest[end..], at + end);
        (end > 0).then_some(Word { text: &rest[..end], at })
    }

    /// All of it, without blanks around; `None` if there is nothing.
    pub fn rest(&mut self) -> Option<Word<'t>> {
        let rest = self.text.trim_start();
        let at = self.at + (self.text.len() - rest.len());
        let text = rest.trim_end();
        (self.text, self.at) = ("", at + text.len());
        (!text.is_empty()).then_some(Word { text, at })
    }

    /// Goes on at a byte of the file.
    pub fn skip_to(&mut self, at: usize) {
        self.text = self.text.get(at - self.at..).unwrap_or_default();
        self.at = at;
    }

    /// Of an error about what is missing here.
    pub fn end(&self) -> (usize, usize) {
        (self.at, self.at)
    }
}

/// Why a line is refused, and from which byte to which.
pub struct Wrong {
    pub place: (usize, usize),
    pub message: String,
}

impl Wrong {
    /// About a word.
    pub fn at(word: Word<'_>, message: impl Into<String>) -> Self {
        Wrong { place: (word.at, word.at + word.text.len()), message: message.into() }
    }

    /// About what is missing at the end of a line.
    pub fn missing(line: &Line<'_>, what: &str) -> Self {
        Wrong { place: line.end(), message: format!("{what} is missing") }
    }
}

/// The line without its comment: `#` within quotes begins none.
pub fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' if !quoted => return &line[..at],
            _ => {}
        }
    }
    line
}
