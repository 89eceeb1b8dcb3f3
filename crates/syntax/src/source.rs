// SPDX-License-Identifier: Apache-2.0

//! Input texts, and places in them.

use std::cell::OnceCell;
use std::sync::Arc;

/// A span in one input: byte offsets, so it is small and cheap to join; lines and columns are found
/// when a diagnostic is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Loc {
    /// Which input of [`Inputs`].
    pub input: u32,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Loc {
    /// The place of something without text, such as a chain without a name.
    pub const NOWHERE: Loc = Loc { input: u32::MAX, start: 0, end: 0 };

    /// From the start of `self` to the end of `other` (of the same input; otherwise `self`).
    pub fn to(self, other: Loc) -> Loc {
        if self.input == other.input {
            Loc {
                input: self.input,
                start: self.start.min(other.start),
                end: self.end.max(other.end),
            }
        } else {
            self
        }
    }
}

/// Where an input came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The command line: diagnostics omit the location.
    CommandLine,
    /// A file by the name it was opened with (`/dev/stdin` for standard input), included from
    /// `from` if any.
    File {
        /// Name as given.
        name: String,
        /// The include statement.
        from: Option<Loc>,
    },
}

/// One input text.
#[derive(Clone, Debug)]
pub struct Input {
    /// Where from.
    pub origin: Origin,
    /// The text. Bytes that are not UTF-8 were replaced.
    pub text: Arc<String>,
    /// Where its lines start, once that was asked for.
    lines: OnceCell<Vec<usize>>,
    /// The name of its file, once that was asked for.
    file: OnceCell<Option<Arc<str>>>,
}

/// All inputs of a run; [`Loc::input`] indexes it.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// In order of opening.
    pub inputs: Vec<Input>,
}

/// What `exec("…")` says where commands must not run, which is everywhere unless the caller of a
/// program allows it.
pub const EXEC_NOT_ALLOWED: &str = "exec is not allowed here; run with --allow-exec";

/// What [`Files`] say of something else than a file where only that is taken.
pub const NOT_REGULAR: &str = "Not a regular file";

/// That a file could not be read, in nft's words. `reason` is what [`Files`] say.
pub fn cannot_read(path: &str, reason: &str) -> String {
    match reason {
        NOT_REGULAR => format!("{NOT_REGULAR}: \"{path}\""),
        _ => format!("Could not open file \"{path}\": {reason}"),
    }
}

/// How the language gets at files, and at what commands print: the program gives it a real system,
/// tests a map.
pub trait Files {
    /// Reads a file. The error text is the C library's (`No such file or directory`).
    fn read(&self, path: &str) -> Result<String, String>;
    /// Reads a file that a text includes. Implementations refuse what may never end, such as
    /// devices and pipes, with [`NOT_REGULAR`].
    fn include(&self, path: &str) -> Result<String, String> {
        self.read(path)
    }
    /// Reads a file that is no text, such as an object of BPF programs.
    fn read_bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        let _ = path;
        Err("No such file or directory".into())
    }
    /// Names matching a pattern of glob(7), sorted; names that start with a dot are not matched by
    /// wildcards. Those of directories end in `/`.
    fn glob(&self, pattern: &str) -> Vec<String>;
    /// What a command of the shell prints, for `define name = exec("command")`. The error is the
    /// whole message: why it did not run, or the command, its exit status and the last line of what
    /// it said on standard error. Nothing runs unless an implementation allows it.
    fn exec(&self, command: &str) -> Result<String, String> {
        let _ = command;
        Err(EXEC_NOT_ALLOWED.into())
    }
}

/// No files at all: for texts that include nothing.
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &str) -> Result<String, String> {
        Err("No such file or directory".into())
    }

    fn glob(&self, _pattern: &str) -> Vec<String> {
        Vec::new()
    }
}

impl Inputs {
    /// Takes one more text; the number is what [`Loc::input`] says.
    pub fn add(&mut self, origin: Origin, text: impl Into<Arc<String>>) -> u32 {
        // Texts may be large: a `String` in an `Arc` is shared without a copy.
        let (lines, file) = (OnceCell::new(), OnceCell::new());
        self.inputs.push(Input { origin, text: text.into(), lines, file });
        (self.inputs.len() - 1) as u32
    }

    /// The text of an input; empty if there is none of that number.
    pub fn text(&self, input: u32) -> Arc<String> {
        self.inputs.get(input as usize).map_or_else(Arc::default, |i| i.text.clone())
    }

    /// File and line (from 1) of the start of a place; `None` if it is in no file.
    pub fn file_line(&self, loc: Loc) -> Option<(Arc<str>, u32)> {
        let input = self.inputs.get(loc.input as usize)?;
        let file = input.file.get_or_init(|| match &input.origin {
            Origin::CommandLine => None,
            Origin::File { name, .. } => Some(name.as_str().into()),
        });
        Some((file.clone()?, input.line_of(loc.start).0))
    }

    /// What a place holds; empty if the place is not of these inputs.
    pub fn slice(&self, loc: Loc) -> &str {
        self.inputs
            .get(loc.input as usize)
            .and_then(|i| i.text.get(loc.start as usize..loc.end as usize))
            .unwrap_or_default()
    }
}

impl Input {
    /// Line (from 1) of a byte, and the offset at which that line starts.
    pub fn line_of(&self, offset: u32) -> (u32, usize) {
        let starts = self.lines.get_or_init(|| {
            let after =
                self.text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1);
            std::iter::once(0).chain(after).collect()
        });
        let line = starts.partition_point(|start| *start <= offset as usize).max(1);
        (line as u32, starts.get(line - 1).copied().unwrap_or(0))
    }
}
