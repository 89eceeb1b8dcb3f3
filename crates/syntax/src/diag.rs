// SPDX-License-Identifier: Apache-2.0

//! Diagnostics: what went wrong, and where.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::source::{Inputs, Loc, Origin};

/// How bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing is committed.
    Error,
    /// For the user to know.
    Warning,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// What is wrong; `^` marks it.
    pub loc: Loc,
    /// What it conflicts with; `~` marks these.
    pub others: Vec<Loc>,
    /// nft's words, without `Error: `.
    pub message: String,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(loc: Loc, message: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Error, loc, others: Vec::new(), message: message.into() }
    }

    /// Adds a place that it conflicts with.
    pub fn against(mut self, other: Loc) -> Self {
        self.others.push(other);
        self
    }
}

/// A message by itself, for programs: what [`Diagnostics::render`] prints, without the line and the
/// marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How bad.
    pub severity: Severity,
    /// Where; `None` for a thing that stands nowhere in a text, such as a chain without a name.
    pub position: Option<Position>,
    /// nft's words, without `Error: `.
    pub text: String,
}

/// A place in a text in lines and columns, both from 1. Columns are counted in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Name of the file; `None` for a command line.
    pub file: Option<String>,
    /// Line of the first byte.
    pub line: u32,
    /// Column of the first byte.
    pub first: usize,
    /// Column of the last byte, on whatever line that is.
    pub last: usize,
}

/// How many messages of a run are kept.
const MOST: usize = 1000;

/// Bytes after which no more messages of a run are printed.
const LONGEST: usize = 1 << 20;

/// Bytes of a message and of a name of a file that are printed.
const LONGEST_MESSAGE: usize = 1024;

/// Bytes of a line that are shown.
const QUOTED: usize = 512;

/// Stands for what is left out.
const CUT: &str = "...";

/// Messages of a run, in order.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    /// In order.
    pub list: Vec<Diagnostic>,
    /// Messages after the last one of the list that is kept.
    left_out: usize,
}

impl Diagnostics {
    /// Adds one, unless there are too many to be read.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.push_with(|| diagnostic);
    }

    /// Adds one that is made only if it is kept.
    pub fn push_with(&mut self, diagnostic: impl FnOnce() -> Diagnostic) {
        if self.list.len() < MOST {
            self.list.push(diagnostic());
        } else {
            self.left_out += 1;
        }
    }

    /// Adds all messages of others.
    pub fn append(&mut self, others: Diagnostics) {
        others.list.into_iter().for_each(|diagnostic| self.push(diagnostic));
        self.left_out += others.left_out;
    }

    /// Whether any is an error.
    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|d| d.severity == Severity::Error)
    }
}

impl Diagnostic {
    /// The message by itself.
    pub fn message(&self, inputs: &Inputs) -> Message {
        let input = inputs.inputs.get(self.loc.input as usize);
        let position = input.map(|input| {
            let Span { line, first, last, .. } = Span::of(self.loc, inputs);
            let file = match &input.origin {
                Origin::CommandLine => None,
                Origin::File { name, .. } => Some(name.clone()),
            };
            Position { file, line, first, last }
        });
        Message { severity: self.severity, position, text: self.message.clone() }
    }

    /// A warning at a place.
    pub fn warning(loc: Loc, message: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Warning, loc, others: Vec::new(), message: message.into() }
    }

    /// As nft prints it: how the text came to be read, the place, the message, the line, and marks
    /// under it. A span over several lines is shown by its first, with its end's column. A long
    /// line is cut to a piece around the place.
    pub fn render(&self, inputs: &Inputs) -> String {
        let mut out = String::new();
        let name = match self.severity {
            Severity::Error => "Error",
            Severity::Warning => "Warning",
        };
        let Some(input) = inputs.inputs.get(self.loc.input as usize) else {
            // A thing that stands nowhere in the text, such as a chain without a name.
            let _ = writeln!(out, "internal:0:0-0: {name}: {}\n", shortened(&self.message));
            return out;
        };
        let place = Span::of(self.loc, inputs);
        out.push_str(&place_text(self.loc, inputs));
        let _ = writeln!(out, "{name}: {}", shortened(&self.message));

        // For a command line nft always shows the first line.
        let start = if input.origin == Origin::CommandLine { 0 } else { place.start };
        // The end of the text is after its last line.
        let start = match input.text.get(..start) {
            Some(before) if start == input.text.len() && input.origin != Origin::CommandLine => {
                before
                    .strip_suffix('\n')
                    .map_or(start, |before| before.rfind('\n').map_or(0, |at| at + 1))
            }
            _ => start,
        };
        let piece = Piece::of(line_at(&input.text, start), place.first - 1);
        let _ = writeln!(out, "{}", piece.text);
        let mut spans = vec![(place, b'^')];
        spans.extend(
            self.others
                .iter()
                .filter(|o| o.input == self.loc.input)
                .map(|o| (Span::of(*o, inputs), b'~')),
        );
        let spans: Vec<_> = spans
            .into_iter()
            .map(|(span, mark)| (piece.column(span.first - 1)..piece.column(span.last), mark))
            .collect();
        let width = spans.iter().map(|(under, _)| under.end).max().unwrap_or(0);
        // Tabs before the marks keep them in place.
        let blank = |b| if b == b'\t' { b'\t' } else { b' ' };
        let mut marks: Vec<u8> = piece
            .text
            .bytes()
            .chain(std::iter::repeat(b' '))
            .take(spans[0].0.end)
            .map(blank)
            .collect();
        marks.resize(width, b' ');
        for (under, mark) in spans.into_iter().rev() {
            if let Some(under) = marks.get_mut(under) {
                under.fill(mark);
            }
        }
        out.push_str(&String::from_utf8_lossy(&marks));
        out.push('\n');
        out
    }
}

/// The piece of a line that is shown.
struct Piece<'t> {
    text: Cow<'t, str>,
    /// Where it begins in the line.
    start: usize,
    /// How far marks may go in the line.
    end: usize,
    /// Bytes before it that stand for what is left out.
    indent: usize,
}

impl<'t> Piece<'t> {
    /// The shown part of a line for a place that begins at a byte of it: all, or a piece with a
    /// little of what is before the place and more of what comes after.
    fn of(line: &'t str, place: usize) -> Piece<'t> {
        if line.len() <= QUOTED {
            return Piece { text: line.into(), start: 0, end: QUOTED, indent: 0 };
        }
        let start = place.saturating_sub(QUOTED / 4).min(line.len() - QUOTED);
        let start = boundary(line, start);
        let end = boundary(line, start + QUOTED);
        let (before, after) =
            (if start > 0 { CUT } else { "" }, if end < line.len() { CUT } else { "" });
        let text = format!("{before}{}{after}", line.get(start..end).unwrap_or_default()).into();
        Piece { text, start, end, indent: before.len() }
    }

    /// Where a byte of the line is in what is shown; for those that are left out where they would
    /// begin or end.
    fn column(&self, at: usize) -> usize {
        at.clamp(self.start, self.end) - self.start + self.indent
    }
}

/// The last boundary of characters up to a byte.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// A message or name, without its middle where it is long.
fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST_MESSAGE {
        return text.into();
    }
    let head = boundary(text, LONGEST_MESSAGE * 3 / 4);
    let tail = boundary(text, text.len() - LONGEST_MESSAGE / 4);
    format!("{}{CUT}{}", text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default())
        .into()
}

/// How a text came to be read, and the place: what stands before a message. Nothing for command
/// lines.
fn place_text(loc: Loc, inputs: &Inputs) -> String {
    let mut out = String::new();
    let Some(Origin::File { name, from }) =
        inputs.inputs.get(loc.input as usize).map(|i| &i.origin)
    else {
        return out;
    };
    let mut prefix = "In file included from";
    let mut outer = *from;
    while let Some(loc) = outer {
        let Some(Origin::File { name, from }) =
            inputs.inputs.get(loc.input as usize).map(|i| &i.origin)
        else {
            break;
        };
        let span = Span::of(loc, inputs);
        let name = shortened(name);
        let _ = writeln!(out, "{prefix} {name}:{}:{}-{}:", span.line, span.first, span.last);
        prefix = "                 from";
        outer = *from;
    }
    let place = Span::of(loc, inputs);
    let name = shortened(name);
    let _ = write!(out, "{name}:{}:{}-{}: ", place.line, place.first, place.last);
    out
}

/// A place as it stands before a message, and the line that it is on, or a piece of it.
pub fn place_of(loc: Loc, inputs: &Inputs) -> (String, Cow<'_, str>) {
    let text = inputs.inputs.get(loc.input as usize).map_or("", |i| &*i.text);
    let place = Span::of(loc, inputs);
    (place_text(loc, inputs), Piece::of(line_at(text, place.start), place.first - 1).text)
}

/// A place in words, as seen from another: its line, and its file where that is another one.
pub fn line_of(loc: Loc, from: Loc, inputs: &Inputs) -> String {
    let line = Span::of(loc, inputs).line;
    match inputs.inputs.get(loc.input as usize).map(|i| &i.origin) {
        Some(Origin::File { name, .. }) if loc.input != from.input => {
            format!("{}:{line}", shortened(name))
        }
        _ => format!("line {line}"),
    }
}

fn line_at(text: &str, start: usize) -> &str {
    text.get(start..).and_then(|rest| rest.split('\n').next()).unwrap_or("")
}

impl Diagnostics {
    /// All messages as nft prints them, up to a readable length.
    pub fn render(&self, inputs: &Inputs) -> String {
        self.render_with(inputs, |_| None)
    }

    /// All messages, with a line after those that `note` has something to say of.
    pub fn render_with(
        &self,
        inputs: &Inputs,
        note: impl Fn(&Diagnostic) -> Option<String>,
    ) -> String {
        let mut out = String::new();
        for (i, diagnostic) in self.list.iter().enumerate() {
            if out.len() >= LONGEST {
                return out + &left_out(self.list.len() - i + self.left_out);
            }
            out.push_str(&diagnostic.render(inputs));
            if let Some(note) = note(diagnostic) {
                out.push_str(&shortened(&note));
                out.push('\n');
            }
        }
        if self.left_out > 0 {
            out.push_str(&left_out(self.left_out));
        }
        out
    }
}

/// What stands for messages that are not printed.
fn left_out(count: usize) -> String {
    format!("Error: {count} more messages are left out\n")
}

/// A place in lines and columns, both from 1, as nft counts them: in bytes, the last column being
/// that of the last byte on whatever line it is.
struct Span {
    line: u32,
    /// Offset of the line.
    start: usize,
    first: usize,
    last: usize,
}

impl Span {
    fn of(loc: Loc, inputs: &Inputs) -> Span {
        let Some(input) = inputs.inputs.get(loc.input as usize) else {
            return Span { line: 0, start: 0, first: 1, last: 0 };
        };
        let (line, start) = input.line_of(loc.start);
        let end = loc.end.saturating_sub(1).max(loc.start);
        // A newline counts to the line it ends, and the end of the text to the last one.
        let (_, end_start) = input.line_of(end);
        let first = (loc.start as usize).min(input.text.len()) - start + 1;
        let last = (end as usize).max(end_start) - end_start + 1;
        Span { line, start, first, last }
    }
}

/// The name that a misspelt one is likely to mean, as nft finds it: the first of the nearest ones,
/// when about a third of the letters differ at most.
pub fn most_similar<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    most_similar_of(wrong, names, |name| name)
}

/// Longest name that is compared with others: none that is in use is longer.
const LONGEST_NAME: usize = 256;

/// Number of table cells after which no more names are compared: with so many names a suggestion is
/// worthless.
const MOST_CELLS: usize = 1 << 24;

/// The named thing that a misspelt name is likely to mean, by the rule of [`most_similar`].
pub fn most_similar_of<T>(
    wrong: &str,
    things: impl IntoIterator<Item = T>,
    name: impl Fn(&T) -> &str,
) -> Option<T> {
    let mut best = None;
    let mut nearest = usize::MAX;
    let mut cells = 0;
    for thing in things {
        let name = name(&thing);
        let (long, short) = (wrong.len().max(name.len()), wrong.len().min(name.len()));
        if long <= 1 || long > LONGEST_NAME {
            continue;
        }
        cells += long * short;
        if cells > MOST_CELLS {
            break;
        }
        let threshold = if long - short <= 1 { long.div_ceil(3) } else { (long + 2).div_ceil(3) };
        let distance = nft_distance(name.as_bytes(), wrong.as_bytes());
        if distance <= threshold && distance < nearest {
            nearest = distance;
            best = Some(thing);
        }
    }
    best
}

/// Insertions, deletions, replacements and swaps of neighbours between two words, as nft counts
/// them (`src/misspell.c`): the first letters are left out and the ends of the words compared
/// instead, and the last cell of each row of the table is the first one of the next.
fn nft_distance(a: &[u8], b: &[u8]) -> usize {
    let letter = |word: &[u8], at: usize| word.get(at).copied().unwrap_or(0);
    let width = b.len();
    let mut cells = vec![0; (a.len() + 1) * (width + 1)];
    for i in 0..=a.len() {
        cells[i * width] = i;
    }
    for (j, cell) in cells.iter_mut().enumerate().take(width + 1) {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=width {
            let cost = usize::from(letter(a, i) != letter(b, j));
            let at = |i: usize, j: usize| i * width + j;
            let mut best = (cells[at(i - 1, j)] + 1)
                .min(cells[at(i, j - 1)] + 1)
                .min(cells[at(i - 1, j - 1)] + cost);
            let swapped = i > 1
                && j > 1
                && letter(a, i) == letter(b, j - 1)
                && letter(a, i - 1) == letter(b, j);
            if swapped {
                best = best.min(cells[at(i - 2, j - 2)] + cost);
            }
            cells[at(i, j)] = best;
        }
    }
    cells[a.len() * width + width]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(text: &str) -> Inputs {
        let mut inputs = Inputs::default();
        inputs.add(Origin::File { name: "main".into(), from: None }, text.to_string());
        inputs
    }

    #[test]
    fn carets_mark_the_error_and_its_conflict() {
        let at = |start, end| Loc { input: 0, start, end };
        let diagnostic = Diagnostic::error(at(6, 9), "bad").against(at(3, 5));
        assert_eq!(
            diagnostic.render(&inputs("x\n\tab cde f\n")),
            "main:2:5-7: Error: bad\n\tab cde f\n\t~~ ^^^\n"
        );
        let outer = Diagnostic::warning(at(0, 1), "end of text");
        assert_eq!(outer.render(&inputs("")), "main:1:1-1: Warning: end of text\n\n^\n");
    }

    #[test]
    fn only_similar_names_are_suggested() {
        for (wrong, names, expected) in [
            ("filtre", &["filter", "nat"][..], Some("filter")),
            ("inptu", &["output", "input"], Some("input")),
            ("x", &["y"], None),
            ("xxxx", &["addr", "ports", "names"], None),
            // nft 1.0.6 with these sets in this order.
            (
                "none",
                &["addr", "ports", "pairs", "names", "dyn", "dynm", "marks", "verdicts"],
                Some("dyn"),
            ),
            (
                "nones",
                &["addr", "ports", "pairs", "names", "dyn", "dynm", "marks", "verdicts"],
                Some("ports"),
            ),
            (
                "mar",
                &["addr", "ports", "pairs", "names", "dyn", "dynm", "marks", "verdicts"],
                Some("addr"),
            ),
            (
                "ma",
                &["addr", "ports", "pairs", "names", "dyn", "dynm", "marks", "verdicts"],
                Some("pairs"),
            ),
            (
                "zz",
                &["addr", "ports", "pairs", "names", "dyn", "dynm", "marks", "verdicts"],
                Some("ports"),
            ),
            (
                "verxxxxx",
                &["addr", "ports", "pairs", "names", "dyn", "dynm", "marks", "verdicts"],
                None,
            ),
        ] {
            assert_eq!(most_similar(wrong, names.iter().copied()), expected, "{wrong}");
        }
    }
}
