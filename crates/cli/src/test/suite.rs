// SPDX-License-Identifier: Apache-2.0

//! The file of `penstock test`: lines of words, with their places.

use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::Path;

use penstock_lang::diag::{Diagnostic, Diagnostics};
use penstock_lang::source::{Inputs, Loc, Origin};

use super::expect::Expectation;
use super::line::{Line, Word, Wrong, without_comment};
use crate::input::{Read, Source};
use crate::setup::Setup;
use crate::trace::pretended::Pretended;

/// A file of tests.
pub struct Suite {
    /// The host, as the lines before the first test describe it.
    pub setup: Setup,
    /// Nanoseconds since the epoch at which each test begins.
    pub start: u64,
    /// In order.
    pub tests: Vec<Test>,
    /// The text, for messages.
    pub inputs: Inputs,
}

/// A test: the host begins anew, and packets follow each other.
pub struct Test {
    /// After `test`.
    pub title: String,
    /// In order.
    pub steps: Vec<Step>,
}

/// A step of a test.
pub struct Step {
    /// What happens.
    pub action: Action,
    /// Of what happens.
    pub loc: Loc,
    /// What is to become of each packet of it.
    pub expected: Vec<Expected>,
}

/// What happens.
pub enum Action {
    /// A packet that a match describes.
    Packet { source: Source, text: String },
    /// Frames of a capture, by their numbers from 1.
    Frames { read: Read, numbers: RangeInclusive<u64> },
    /// The next packet is of a connection that is known already.
    Known(Pretended),
    /// Nanoseconds pass.
    Wait(u64),
}

/// An expectation, and where it stands.
pub struct Expected {
    pub what: Expectation,
    pub loc: Loc,
}

/// Nanoseconds since the epoch at which tests begin without a `time` line: 2026-01-05 12:00:00
/// UTC, a Monday.
const START: u64 = 1_767_614_400_000_000_000;

impl Suite {
    /// Reads a file. `given` is what the command line says of the host: it comes first.
    ///
    /// # Errors
    /// All that is wrong, with its places.
    pub fn read(file: &Path, text: String, given: &Setup) -> Result<Suite, String> {
        let mut inputs = Inputs::default();
        let origin = Origin::File { name: file.display().to_string(), from: None };
        let input = inputs.add(origin, text);
        let text = inputs.text(input);
        let directory = file.parent().unwrap_or(Path::new(""));
        let mut reader =
            Reader { setup: Setup::default(), start: None, tests: Vec::new(), directory };
        let mut diags = Diagnostics::default();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            let code = without_comment(line);
            let trimmed = code.trim();
            let start = at + (code.len() - code.trim_start().len());
            let loc = Loc { input, start: start as u32, end: (start + trimmed.len()) as u32 };
            if let Err(Wrong { place: (start, end), message }) =
                reader.line(Line::new(code.trim_end(), at), loc)
            {
                let loc = Loc { input, start: start as u32, end: end.max(start) as u32 };
                diags.push(Diagnostic::error(loc, message));
            }
            at += line.len();
        }
        let setup = given.clone().over(reader.setup);
        if diags.list.is_empty()
            && let Err(message) = setup.check(&Default::default())
        {
            let message = message.replace("--", "");
            diags.push(Diagnostic::error(Loc { input, start: 0, end: 0 }, message));
        }
        if diags.has_errors() {
            return Err(diags.render(&inputs));
        }
        Ok(Suite { setup, start: reader.start.unwrap_or(START), tests: reader.tests, inputs })
    }
}

struct Reader<'d> {
    setup: Setup,
    start: Option<u64>,
    tests: Vec<Test>,
    /// Names of files are relative to it.
    directory: &'d Path,
}

impl Reader<'_> {
    fn line(&mut self, mut line: Line<'_>, loc: Loc) -> Result<(), Wrong> {
        let Some(word) = line.word() else { return Ok(()) };
        if word.text == "test" {
            let title =
                line.rest().ok_or_else(|| Wrong::missing(&line, "the title of the test"))?;
            self.tests.push(Test { title: title.text.to_owned(), steps: Vec::new() });
            return Ok(());
        }
        let action = match word.text {
            "packet" => packet(&mut line)?,
            "frame" => self.frames(&mut line)?,
            "established" => established(&mut line)?,
            "related" => Action::Known(Pretended::Related),
            "wait" => {
                let time = line.word().ok_or_else(|| Wrong::missing(&line, "a time"))?;
                let wrong = || Wrong::at(time, "a time has units: 5s, 200ms, 1h30m");
                Action::Wait(duration(time.text).ok_or_else(wrong)?)
            }
            "expect" => return self.expect(&mut line, word, loc),
            _ => return self.option(word, &mut line),
        };
        ends(&mut line)?;
        let Some(test) = self.tests.last_mut() else {
            return Err(Wrong::at(word, "this stands after a `test` line"));
        };
        test.steps.push(Step { action, loc, expected: Vec::new() });
        Ok(())
    }

    fn expect(&mut self, line: &mut Line<'_>, word: Word<'_>, loc: Loc) -> Result<(), Wrong> {
        let what = Expectation::read(line)?;
        ends(line)?;
        let step = self.tests.last_mut().and_then(|test| test.steps.last_mut());
        match step {
            Some(Step {
                action: Action::Packet { .. } | Action::Frames { .. }, expected, ..
            }) => {
                expected.push(Expected { what, loc });
                Ok(())
            }
            Some(_) | None => {
                Err(Wrong::at(word, "there is no `packet` or `frame` before it to expect it of"))
            }
        }
    }

    fn frames(&self, line: &mut Line<'_>) -> Result<Action, Wrong> {
        let file = line.word().ok_or_else(|| Wrong::missing(line, "a capture, DEV=FILE,"))?;
        let mut read = Read::parse(OsStr::new(file.text))
            .map_err(|_| Wrong::at(file, "a capture is DEV=FILE or FILE"))?;
        read.file = self.directory.join(read.file);
        let number = line.word().ok_or_else(|| Wrong::missing(line, "the number of a frame"))?;
        let (first, last) = number.text.split_once('-').unwrap_or((number.text, number.text));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => {
                Ok(Action::Frames { read, numbers: first..=last })
            }
            _ => Err(Wrong::at(number, "frames have numbers from 1 on: 17, or 3-17")),
        }
    }

    /// A line that describes the host.
    fn option(&mut self, word: Word<'_>, line: &mut Line<'_>) -> Result<(), Wrong> {
        if !self.tests.is_empty() {
            return Err(Wrong::at(
                word,
                "a test has the lines packet, frame, established, related, wait and expect",
            ));
        }
        let takes_nothing = matches!(word.text, "zero" | "allow-exec");
        let value = if takes_nothing { None } else { line.rest() };
        if word.text == "time" {
            let value = value.ok_or_else(|| Wrong::missing(line, "a time"))?;
            let wrong = || Wrong::at(value, "a time is YYYY-MM-DD HH:MM:SS, in UTC");
            self.start = Some(instant(value.text).ok_or_else(wrong)?);
            return Ok(());
        }
        if !takes_nothing && value.is_none() && is_option(word.text) {
            return Err(Wrong::missing(line, &format!("the value of `{}`", word.text)));
        }
        let file = match (word.text, value) {
            ("sysctl", Some(value)) => value.text.into(),
            (_, Some(value)) => self.directory.join(value.text).into_os_string(),
            (_, None) => Default::default(),
        };
        let mut parser = lexopt::Parser::from_args([file]);
        match self.setup.take(word.text, &mut parser) {
            Ok(true) => ends(line),
            Ok(false) => Err(Wrong::at(
                word,
                "a file of tests has lines that describe the host (net, rules, sysctl, …), and then tests",
            )),
            Err(message) => Err(Wrong::at(value.unwrap_or(word), message.replace("--", ""))),
        }
    }
}

fn is_option(name: &str) -> bool {
    crate::setup::OPTIONS.iter().any(|option| option.long == Some(name))
}

/// Nothing follows on a line.
fn ends(line: &mut Line<'_>) -> Result<(), Wrong> {
    match line.rest() {
        None => Ok(()),
        Some(more) => Err(Wrong::at(more, "nothing more is expected on this line")),
    }
}

fn packet(line: &mut Line<'_>) -> Result<Action, Wrong> {
    let device = line.word().ok_or_else(|| Wrong::missing(line, "a device"))?;
    let source = Source::parse(device.text)
        .ok_or_else(|| Wrong::at(device, "this is no device, `host` or `host:DEVICE`"))?;
    let text = line.rest().ok_or_else(|| Wrong::missing(line, "the packet"))?;
    Ok(Action::Packet { source, text: text.text.to_owned() })
}

fn established(line: &mut Line<'_>) -> Result<Action, Wrong> {
    Ok(Action::Known(match line.word() {
        None => Pretended::Established,
        Some(Word { text: "reply", .. }) => Pretended::Reply,
        Some(other) => return Err(Wrong::at(other, "`reply`, or nothing, follows")),
    }))
}

/// Nanoseconds of `1h30m`, `5s`, `200ms`.
fn duration(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut sum = 0u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return None,
        };
        sum = sum.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[end..];
    }
    // Longer than any clock of a test.
    (!text.is_empty() && sum < 1 << 62).then_some(sum)
}

/// Nanoseconds since the epoch of `2026-01-05 12:00:00`, in UTC.
fn instant(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(' ')?;
    let numbers = |text: &str, by: char| -> Option<[u64; 3]> {
        let parts: Option<Vec<u64>> = text.trim().split(by).map(|n| n.parse().ok()).collect();
        parts?.try_into().ok()
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(time, ':')?);
    if !(1970..2200).contains(&year) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let lengths = month_lengths(year);
    let before = usize::try_from(month).ok()?.checked_sub(1).filter(|month| *month < 12)?;
    if day == 0 || day > lengths[before] {
        return None;
    }
    let days: u64 =
        (1970..year).map(days_of).sum::<u64>() + lengths[..before].iter().sum::<u64>() + day - 1;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000)
}

/// A time in nanoseconds since the epoch as `time` lines have it, without parts of seconds.
pub fn date(time: u64) -> String {
    let seconds = time / 1_000_000_000;
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let mut month = 1;
    for length in month_lengths(year) {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02}", days + 1)
}

fn days_of(year: u64) -> u64 {
    month_lengths(year).iter().sum()
}

/// Days of the months of a year.
fn month_lengths(year: u64) -> [u64; 12] {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    [31, 28 + u64::from(is_leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        for (text, nanoseconds) in [
            ("200ms", Some(200_000_000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("5", None),
            ("5x", None),
            ("", None),
            ("99999999999999d", None),
        ] {
            assert_eq!(duration(text), nanoseconds, "{text}");
        }
        assert_eq!(instant("2026-01-05 12:00:00"), Some(START));
        assert_eq!(instant("2024-02-29 00:00:01"), Some(1_709_164_801_000_000_000));
        assert_eq!(instant("2026-02-29 00:00:00"), None);
        for text in ["2026-01-05 12:00:00", "2024-02-29 23:59:59", "1970-12-31 00:00:07"] {
            assert_eq!(instant(text).map(date).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_is_wrong_in_a_file_is_reported_with_its_place() {
        for (text, message) in [
            ("", "1:1-1: Error: net is missing"),
            ("net n\n", "1:1-1: Error: rules is missing"),
            ("net n\nrules r\nspeed 5\n", "3:1-5: Error: a file of tests has lines"),
            ("net n\nnet m\nrules r\n", "2:5-5: Error: net is given twice"),
            ("net\n", "1:4-4: Error: the value of `net` is missing"),
            ("test\n", "1:5-5: Error: the title of the test is missing"),
            ("packet lan tcp dport 1\n", "1:1-6: Error: this stands after a `test` line"),
            ("test a\n  packet lan\n", "2:13-13: Error: the packet is missing"),
            ("test a\n  wait 5\n", "2:8-8: Error: a time has units"),
            ("test a\n  frame lan=f 0\n", "2:15-15: Error: frames have numbers from 1 on"),
            ("test a\n  expect drop\n", "2:3-8: Error: there is no `packet` or `frame`"),
            (
                "test a\n  packet lan tcp\n  expect drop hunger\n",
                "3:15-20: Error: no packet is dropped for",
            ),
            ("test a\n  packet lan tcp\n  expect out\n", "3:13-13: Error: a device is missing"),
            ("test a\n  rules r\n", "2:3-7: Error: a test has the lines"),
        ] {
            let error = Suite::read(Path::new("f"), text.to_owned(), &Setup::default()).err();
            let error = error.unwrap_or_default();
            assert!(error.starts_with(&format!("f:{message}")), "{text:?}: {error}");
        }
    }
}
