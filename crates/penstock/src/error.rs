// SPDX-License-Identifier: Apache-2.0

//! What can go wrong.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::{Message, Severity};

/// Why something was refused. Its text is a sentence for people; that of a ruleset is nft's.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A text of rules or commands is wrong, or cannot run here.
    Ruleset(RulesetError),
    /// A line of a network is wrong.
    Network {
        /// The name that the text was given.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// A saved state is broken.
    State {
        /// How many bytes were right.
        at: usize,
        /// What is wrong there.
        reason: String,
    },
    /// A line of saved connections is wrong.
    Connections {
        /// Line, from 1. Those before it were loaded.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A file could not be read or written.
    File {
        /// Its path.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The network has no device of this name.
    NoDevice(String),
    /// A setting is unknown, does not take the value, or takes more memory than there is.
    Setting(String),
    /// No machine code can be made: for this machine, or in a build without the feature `jit`.
    Engine(String),
    /// No packet waits in a queue under this number.
    NotQueued,
    /// The operating system refused something that needs rights or a device.
    System(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Ruleset(error) => error.fmt(f),
            Error::Network { file, line, message } => write!(f, "{file}:{line}: {message}"),
            Error::State { at, reason } => write!(f, "byte {at}: {reason}"),
            Error::Connections { line, reason } => write!(f, "line {line}: {reason}"),
            Error::File { path, error } => write!(f, "{}: {error}", path.display()),
            Error::NoDevice(name) => write!(f, "the network has no device `{name}`"),
            Error::Setting(reason) | Error::Engine(reason) => f.write_str(reason),
            Error::NotQueued => f.write_str("no packet waits under this number"),
            Error::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::File { error, .. } | Error::System(error) => Some(error),
            Error::Ruleset(error) => Some(error),
            _ => None,
        }
    }
}

impl From<RulesetError> for Error {
    fn from(error: RulesetError) -> Self {
        Error::Ruleset(error)
    }
}

/// Why a text of rules or commands was refused: nothing of it is in force. It prints as nft prints
/// it on standard error, with the line and marks under what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesetError {
    text: String,
    messages: Vec<Message>,
}

impl RulesetError {
    pub(crate) fn new(text: String, messages: Vec<Message>) -> Self {
        let messages = if messages.is_empty() {
            // An error without a place in the text has a sentence only.
            let sentence = text.trim();
            let sentence = sentence.split_once("Error: ").map_or(sentence, |(_, rest)| rest);
            let text = sentence.trim().to_owned();
            vec![Message { severity: Severity::Error, position: None, text }]
        } else {
            messages
        };
        RulesetError { text: text.trim_end().to_owned(), messages }
    }

    /// The messages one by one, warnings included, each with its place in the text. There is at
    /// least one.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }
}

impl fmt::Display for RulesetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for RulesetError {}
