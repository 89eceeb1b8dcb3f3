// SPDX-License-Identifier: Apache-2.0

//! Files of claims: lines about what becomes of packets.

use std::path::{Path, PathBuf};

use penstock_symbolic::Outcome;

use crate::test::line::without_comment;

/// What a line of the file claims.
pub enum Kind {
    /// Always or never an outcome, for packets that matches are about.
    Outcome { always: bool, outcome: Outcome, matches: String },
    /// The same as another ruleset.
    Same(PathBuf),
}

/// A claim of a file.
pub struct Line {
    /// Its number, from 1.
    pub number: usize,
    /// Without comment and blanks at its ends.
    pub text: String,
    /// What it claims.
    pub kind: Kind,
}

/// Reads the claims of a file; `-` is standard input.
///
/// # Errors
/// What is wrong in it, with its line.
pub fn claims(file: &Path) -> Result<Vec<Line>, String> {
    let name = file.display();
    let text = match file.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
    };
    let text = text.map_err(|e| format!("Error: {name}: {e}"))?;
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = without_comment(line).trim();
        if line.is_empty() {
            continue;
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let wrong = |what: &str| format!("Error: {name}:{number}: {what}\n{line}");
        let kind = match word {
            "never" | "always" => {
                let rest = rest.trim_start();
                let (outcome, matches) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let outcome = match outcome {
                    "accept" => Outcome::Accept,
                    "drop" => Outcome::Drop,
                    "reject" => Outcome::Reject,
                    "queue" => Outcome::Queue,
                    "leave" | "reach" => {
                        return Err(wrong(
                            "claims about the way through a network are not \
                                          decided yet",
                        ));
                    }
                    _ => return Err(wrong("expected accept, drop, reject or queue")),
                };
                let matches = matches.trim().to_owned();
                Kind::Outcome { always: word == "always", outcome, matches }
            }
            "same" if !rest.trim().is_empty() => {
                let dir = file.parent().unwrap_or(Path::new(""));
                Kind::Same(dir.join(rest.trim()))
            }
            "reach" => {
                return Err(wrong("claims about the way through a network are not decided yet"));
            }
            _ => return Err(wrong("a claim begins with never, always or same")),
        };
        all.push(Line { number, text: line.to_owned(), kind });
    }
    match all.is_empty() {
        true => Err(format!("Error: {name}: there are no claims in it")),
        false => Ok(all),
    }
}
