// SPDX-License-Identifier: Apache-2.0

//! The value of `--read`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::Source;

/// The captures of a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captures {
    pub reads: Vec<Read>,
    /// Whether frames are taken as they are. Else those that the capture has as sent, or that have
    /// the device's own address as their source, count as sent, and what a capture left out of
    /// frames is completed.
    pub as_is: bool,
}

/// A capture, and where its frames come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// `None`: each interface of the capture is the device of its name.
    pub source: Option<Source>,
    pub file: PathBuf,
    /// Only frames of this interface of the capture.
    pub interface: Option<String>,
}

impl Read {
    /// `DEV=FILE`, `host=FILE`, `host:DEV=FILE`, `FILE`.
    pub fn parse(value: &OsStr) -> Result<Read, String> {
        let bytes = value.as_bytes();
        let wrong = || format!("--read takes DEV=FILE or FILE, not `{}`", value.display());
        let (source, file) = match bytes.iter().position(|&b| b == b'=') {
            Some(at) => {
                let source = std::str::from_utf8(&bytes[..at]).map_err(|_| wrong())?;
                (Some(Source::parse(source).ok_or_else(wrong)?), &bytes[at + 1..])
            }
            None => (None, bytes),
        };
        if file.is_empty() {
            return Err(wrong());
        }
        let file = PathBuf::from(OsString::from_vec(file.to_vec()));
        Ok(Read { source, file, interface: None })
    }

    /// Takes `FILE:NAME` for the interface `NAME` of `FILE`, unless there is a file of the whole
    /// name.
    pub fn resolved(&self) -> Read {
        let text = self.file.to_str().filter(|_| !self.file.exists());
        match text.and_then(|text| text.rsplit_once(':')) {
            Some((file, name)) if !file.is_empty() && !name.is_empty() => Read {
                source: self.source.clone(),
                file: file.into(),
                interface: Some(name.to_owned()),
            },
            _ => self.clone(),
        }
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{source}"),
            None => write!(f, "{}", self.file.display()),
        }
    }
}
