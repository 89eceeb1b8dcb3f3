// SPDX-License-Identifier: Apache-2.0

//! Batch files in the style of iproute2, as `ip -batch` and `tc -batch` read them: lines of words,
//! and errors that name the line.
//!
//! What the words mean is the business of who reads them.
//!
//! ```
//! use penstock_iproute2::{Error, Words, lines, unknown};
//!
//! let text = "# a device\nset mtu 0x5dc \\\n up on\n";
//! let (line, words) = lines(text).next().unwrap();
//! let mut words = Words::new(&words);
//! assert!(words.take("set") && words.take("mtu"));
//! assert_eq!((line, words.number::<u32>()), (2, Ok(1500)));
//! assert!(words.take("up") && words.on_off().unwrap());
//! assert!(words.end().is_ok());
//! let error = Error { file: "f".into(), line, message: unknown("down") };
//! assert_eq!(error.to_string(), "f:2: unknown word \"down\"");
//! ```

mod lines;
mod words;

use std::fmt;

pub use lines::lines;
pub use words::{Words, address, number, unknown};

/// A line that could not be taken. Prints as `net.ip:12: unknown word "foo"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file as the caller named it.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl std::error::Error for Error {}
