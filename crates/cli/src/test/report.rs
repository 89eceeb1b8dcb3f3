// SPDX-License-Identifier: Apache-2.0

//! Results of tests as text, as TAP and as JUnit XML.

use std::fmt::Write;

/// What became of a test.
pub struct TestResult {
    /// Of the test.
    pub title: String,
    /// Name of the file.
    pub file: String,
    /// What is wrong with it; none if it passed.
    pub wrong: Vec<Finding>,
}

/// Something that is wrong.
pub struct Finding {
    /// The test could not be carried out; otherwise something else was expected.
    pub is_error: bool,
    /// In words, on one line.
    pub message: String,
    /// The same as it is printed, with its place in the file.
    pub rendered: String,
    /// The trace of the packet, if there is one.
    pub trace: String,
}

impl TestResult {
    fn passed(&self) -> bool {
        self.wrong.is_empty()
    }

    /// Whether it could not be carried out.
    pub fn is_error(&self) -> bool {
        self.wrong.iter().any(|finding| finding.is_error)
    }

    /// For people: a line, and what is wrong.
    pub fn text(&self) -> String {
        let word = if self.passed() { "ok    " } else { "FAILED" };
        let mut out = format!("{word}  {}\n", self.title);
        for finding in &self.wrong {
            out.push_str(&finding.rendered);
            for line in finding.trace.lines() {
                let _ = writeln!(out, "    {line}");
            }
        }
        out
    }

    /// As TAP, with a number from 1 on.
    pub fn tap(&self, number: usize) -> String {
        // `#` begins a directive there.
        let title = self.title.replace('\\', "\\\\").replace('#', "\\#");
        let word = if self.passed() { "ok" } else { "not ok" };
        let mut out = format!("{word} {number} - {title}\n");
        if self.passed() {
            return out;
        }
        out.push_str("  ---\n");
        let _ = writeln!(out, "  file: {:?}\n  findings:", self.file);
        for finding in &self.wrong {
            let _ = writeln!(out, "    - message: {:?}\n      text: |", finding.message);
            for line in finding.rendered.lines().chain(finding.trace.lines()) {
                let _ = writeln!(out, "        {line}");
            }
        }
        out.push_str("  ...\n");
        out
    }
}

/// How many tests there were, in words.
pub fn totals(results: &[TestResult]) -> String {
    let errors = results.iter().filter(|result| result.is_error()).count();
    let passed = results.iter().filter(|result| result.passed()).count();
    let failed = results.len() - passed - errors;
    let mut out = format!("{} tests: {passed} passed, {failed} failed", results.len());
    if errors != 0 {
        let _ = write!(out, ", {errors} could not be run");
    }
    out + "\n"
}

/// All results as JUnit XML, a suite for each file.
pub fn junit(results: &[TestResult]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for suite in results.chunk_by(|a, b| a.file == b.file) {
        let file = escaped(suite.first().map_or("", |result| &result.file));
        let errors = suite.iter().filter(|result| result.is_error()).count();
        let failed = suite.iter().filter(|result| !result.passed()).count() - errors;
        let _ = writeln!(
            out,
            "  <testsuite name=\"{file}\" tests=\"{}\" failures=\"{failed}\" errors=\"{errors}\">",
            suite.len()
        );
        for result in suite {
            let title = escaped(&result.title);
            let _ = write!(out, "    <testcase classname=\"{file}\" name=\"{title}\"");
            if result.passed() {
                out.push_str("/>\n");
                continue;
            }
            out.push_str(">\n");
            for finding in &result.wrong {
                let element = if finding.is_error { "error" } else { "failure" };
                let message = escaped(&finding.message);
                let text = escaped(&format!("{}{}", finding.rendered, finding.trace));
                let _ = writeln!(out, "      <{element} message=\"{message}\">{text}</{element}>");
            }
            out.push_str("    </testcase>\n");
        }
        out.push_str("  </testsuite>\n");
    }
    out + "</testsuites>\n"
}

/// For text and attributes of XML. What XML cannot have becomes a question mark.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}
