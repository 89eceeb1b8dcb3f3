// SPDX-License-Identifier: Apache-2.0

//! Plain lists: an address, a prefix or a range `FIRST-LAST` a line, of both families. A comment
//! begins with `#` or `;`, at any place of a line. Empty lines mean nothing.

use std::fmt;

use crate::span::Span;

/// A line that is none of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for LineError {}

/// Reads the lines of a list that are not empty: for each its number, and what it says or what is
/// wrong with it.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, Result<Span, String>)> + '_ {
    (1..).zip(text.lines()).filter_map(|(number, line)| {
        let entry = line.split(['#', ';']).next().unwrap_or_default().trim();
        (!entry.is_empty()).then(|| (number, entry.parse().map_err(shortened)))
    })
}

/// Reads a list of at most `most` entries.
///
/// # Errors
/// The first line that is none of a list, or the one that is too many.
pub fn read(text: &str, most: usize) -> Result<Vec<Span>, LineError> {
    let mut spans = Vec::new();
    for (line, span) in lines(text) {
        if spans.len() == most {
            return Err(LineError { line, what: format!("more than {most} entries") });
        }
        spans.push(span.map_err(|what| LineError { line, what })?);
    }
    Ok(spans)
}

/// A message with at most 200 characters of a line, all of them printable.
fn shortened(what: String) -> String {
    what.chars().map(|c| if c.is_control() { '?' } else { c }).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_line_by_line() {
        let text = "# a list\n198.18.0.1\n\n  198.18.1.0/24 ; SBL1\r\n2001:db8::/32# v6\n;x\n\
                    198.18.2.1-198.18.2.9";
        let read = |text| read(text, 4).map(|all| all.iter().map(Span::to_string).collect());
        let expected: Vec<String> =
            ["198.18.0.1", "198.18.1.0/24", "2001:db8::/32", "198.18.2.1-198.18.2.9"]
                .map(str::to_owned)
                .into();
        assert_eq!(read(text), Ok(expected));
        assert_eq!(read("# nothing\n"), Ok(Vec::new()));
        for (text, message) in [
            ("198.18.0.1\n<html>\n", "line 2: `<html>` is no address"),
            ("198.18.0.1 198.18.0.2", "line 1: `198.18.0.1 198.18.0.2` is no address"),
            ("\u{1}", "line 1: `?` is no address"),
            ("::\n::\n::\n::\n::", "line 5: more than 4 entries"),
        ] {
            assert_eq!(read(text).map_err(|e| e.to_string()), Err(message.to_owned()), "{text}");
        }
    }
}
