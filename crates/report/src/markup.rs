// SPDX-License-Identifier: Apache-2.0

//! A writer of HTML and SVG. Names of tags and attributes are `&'static str`, so they come from this
//! program; everything else is escaped.

use std::fmt::{self, Display, Write};

/// HTML or SVG.
#[derive(Clone, Debug, Default)]
pub struct Markup(String);

/// The attributes of a tag.
pub struct Attributes<'a>(&'a mut String);

/// Writes text so that it is text in HTML, in quoted attributes and in XML alike. Characters that
/// XML forbids, and those that change the direction of the text around them, are replaced.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' | '\t' => self.0.push(c),
                '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    self.0.push('\u{fffd}');
                }
                '\u{fffe}' | '\u{ffff}' => self.0.push('\u{fffd}'),
                c if c.is_control() => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

impl Attributes<'_> {
    /// Adds an attribute.
    pub fn set(&mut self, name: &'static str, value: impl Display) -> &mut Self {
        self.0.push(' ');
        self.0.push_str(name);
        self.0.push_str("=\"");
        // Writing to a String does not fail.
        let _ = write!(Escaped(self.0), "{value}");
        self.0.push('"');
        self
    }
}

impl Markup {
    /// Writes what this program itself says, tags included.
    pub fn raw(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    /// Begins an element.
    pub fn open(&mut self, tag: &'static str, attributes: impl FnOnce(&mut Attributes<'_>)) {
        self.0.push('<');
        self.0.push_str(tag);
        attributes(&mut Attributes(&mut self.0));
        self.0.push('>');
    }

    /// Ends an element.
    pub fn close(&mut self, tag: &'static str) {
        self.0.push_str("</");
        self.0.push_str(tag);
        self.0.push('>');
    }

    /// Writes text.
    pub fn text(&mut self, text: impl Display) {
        // Writing to a String does not fail.
        let _ = write!(Escaped(&mut self.0), "{text}");
    }

    /// Writes an element with text in it.
    pub fn element(
        &mut self,
        tag: &'static str,
        attributes: impl FnOnce(&mut Attributes<'_>),
        text: impl Display,
    ) {
        self.open(tag, attributes);
        self.text(text);
        self.close(tag);
    }

    /// Adds what another writer has.
    pub fn append(&mut self, other: Markup) {
        self.0.push_str(&other.0);
    }

    /// What was written.
    pub fn into_string(self) -> String {
        self.0
    }
}

/// A number with its thousands apart: `1 234 567`, with narrow spaces that do not break.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// A number where there is little room: from ten millions on with a prefix.
pub fn short(value: u64) -> String {
    match value {
        ..10_000_000 => number(value),
        10_000_000..10_000_000_000 => format!("{:.1}\u{202f}M", value as f64 / 1e6),
        _ => format!("{:.1}\u{202f}G", value as f64 / 1e9),
    }
}

/// A number of bytes in four characters and a unit.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 99.95);
    format!("{value:.digits$}\u{202f}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_cannot_become_tags() {
        let hostile = "</script><img src=x onerror=alert(1)>\"' &amp;\0\u{1b}[2J\u{202e}";
        let mut out = Markup::default();
        out.element(
            "td",
            |a| {
                a.set("title", hostile);
            },
            hostile,
        );
        let escaped = "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#39; &amp;amp;\
                       \u{fffd}\u{fffd}[2J\u{fffd}";
        assert_eq!(out.into_string(), format!("<td title=\"{escaped}\">{escaped}</td>"));
    }

    #[test]
    fn numbers_are_short_and_exact() {
        for (value, text) in [(0, "0"), (999, "999"), (1000, "1 000"), (12_345_678, "12 345 678")] {
            assert_eq!(number(value).replace('\u{202f}', " "), text);
        }
        for (value, text) in
            [(9_999_999, "9 999 999"), (12_345_678, "12.3 M"), (12_345_678_901, "12.3 G")]
        {
            assert_eq!(short(value).replace('\u{202f}', " "), text);
        }
        for (value, text) in
            [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (123_456, "123 kB"), (99_960, "100 kB")]
        {
            assert_eq!(bytes(value).replace('\u{202f}', " "), text);
        }
    }
}
