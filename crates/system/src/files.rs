// SPDX-License-Identifier: Apache-2.0

//! The file system and the shell, as `include` and `exec` see them.

use std::ffi::{CStr, CString};
use std::fs::{File, Metadata};
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::ptr;

use penstock_syntax::source::{EXEC_NOT_ALLOWED, Files, NOT_REGULAR};

/// The files of this machine, and its shell.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles {
    /// `--allow-exec`: rulesets may run commands.
    pub allow_exec: bool,
}

/// Runs a command by the caller's shell (`$SHELL`, or sh(1)). It reads nothing: standard input may
/// be a ruleset. What it says on standard error is passed on if it succeeds.
fn shell(command: &str) -> Result<String, String> {
    let shell =
        std::env::var_os("SHELL").filter(|s| !s.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let output =
        Command::new(&shell).arg("-c").arg(command).stdin(Stdio::null()).output().map_err(|e| {
            format!("command \"{command}\" could not be run by {}: {}", shell.display(), words(&e))
        })?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        // A reader that is gone is no error.
        let _ = std::io::stderr().write_all(said.as_bytes());
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let how = match (output.status.code(), output.status.signal()) {
        (Some(code), _) => format!("failed with exit status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "failed".into(),
    };
    let last = said.lines().rev().map(str::trim).find(|l| !l.is_empty());
    Err(format!("command \"{command}\" {how}{}", last.map_or(String::new(), |l| format!(": {l}"))))
}

/// A system error in the C library's words, without the number that Rust appends.
pub fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// Most bytes of a file that are read. Places in a text are numbers of 32 bits.
const MOST_BYTES: u64 = 1 << 30;

/// Reads an open file to its end, or says that it has too many bytes.
fn read_bounded(file: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MOST_BYTES {
        true => Err(std::io::Error::from_raw_os_error(libc::EFBIG)),
        false => Ok(bytes),
    }
}

/// Reads a file if `is_right` says so of what it is. Nothing else is opened, which could have
/// effects or be waited for.
fn read_if(path: &str, is_right: impl Fn(&Metadata) -> bool) -> Result<String, String> {
    read_bytes_if(path, is_right).map(text_of)
}

/// The bytes of a file, as of [`read_if`].
fn read_bytes_if(path: &str, is_right: impl Fn(&Metadata) -> bool) -> Result<Vec<u8>, String> {
    let read = || -> std::io::Result<Option<Vec<u8>>> {
        let found = std::fs::metadata(path)?;
        if !is_right(&found) {
            return Ok(None);
        }
        // A file may have been replaced by a pipe, and opening that must not block.
        let flags = if found.is_file() { libc::O_NONBLOCK } else { 0 };
        let file = File::options().read(true).custom_flags(flags | libc::O_NOCTTY).open(path)?;
        let opened = file.metadata()?;
        if !is_right(&opened) || opened.file_type() != found.file_type() {
            return Ok(None);
        }
        read_bounded(file).map(Some)
    };
    read().map_err(|e| words(&e))?.ok_or_else(|| NOT_REGULAR.to_owned())
}

/// Whether a text may be read from what is at a path: a file, standard input, whatever it is, and
/// the pipes that a shell or mkfifo(1) makes. `/dev/null` is an empty text.
fn may_be_text(path: &str, metadata: &Metadata) -> bool {
    let kind = metadata.file_type();
    let standard_input = ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"].contains(&path);
    kind.is_file() || kind.is_fifo() || standard_input || path == "/dev/null"
}

/// Bytes as text; what is not UTF-8 in them is replaced.
pub fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// Files of a call that the dataplane evaluates. It asks for the file of the call as for those that
/// this one includes.
pub struct CalledFiles<'c> {
    /// The files of this machine.
    pub files: SystemFiles,
    /// The file of the call, if it has one; `-` is standard input.
    pub own: Option<&'c str>,
}

impl Files for CalledFiles<'_> {
    fn read(&self, path: &str) -> Result<String, String> {
        if self.own == Some(path) { self.files.read(path) } else { self.files.include(path) }
    }

    fn read_bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        self.files.read_bytes(path)
    }

    fn glob(&self, pattern: &str) -> Vec<String> {
        self.files.glob(pattern)
    }

    fn exec(&self, command: &str) -> Result<String, String> {
        self.files.exec(command)
    }
}

impl Files for SystemFiles {
    fn read(&self, path: &str) -> Result<String, String> {
        match path {
            "-" => read_bounded(std::io::stdin().lock()).map(text_of).map_err(|e| words(&e)),
            _ => read_if(path, |metadata| may_be_text(path, metadata)),
        }
    }

    fn include(&self, path: &str) -> Result<String, String> {
        read_if(path, Metadata::is_file)
    }

    fn read_bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        read_bytes_if(path, Metadata::is_file)
    }

    fn exec(&self, command: &str) -> Result<String, String> {
        if self.allow_exec { shell(command) } else { Err(EXEC_NOT_ALLOWED.into()) }
    }

    fn glob(&self, pattern: &str) -> Vec<String> {
        let Ok(pattern) = CString::new(pattern) else { return Vec::new() };
        let mut found = Vec::new();
        // SAFETY: a zeroed glob_t is what glob(3) expects without GLOB_DOOFFS; the pattern is a C
        // string; the paths are C strings and live until globfree.
        unsafe {
            let mut list: libc::glob_t = std::mem::zeroed();
            if libc::glob(pattern.as_ptr(), libc::GLOB_MARK, None, &mut list) == 0 {
                for i in 0..list.gl_pathc {
                    let path = *list.gl_pathv.add(i);
                    if !ptr::eq(path, ptr::null()) {
                        found.push(CStr::from_ptr(path).to_string_lossy().into_owned());
                    }
                }
            }
            libc::globfree(&mut list);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_output_and_failure_are_returned() {
        for (allow_exec, command, expected) in [
            (true, "printf '1 2'; echo noted >&2", Ok("1 2")),
            (true, "cat", Ok("")),
            (true, "exit 3", Err("command \"exit 3\" failed with exit status 3")),
            (
                true,
                "echo a >&2; echo b >&2; false",
                Err("command \"echo a >&2; echo b >&2; false\" failed with exit status 1: b"),
            ),
            (true, "kill -9 $$", Err("command \"kill -9 $$\" was ended by signal 9")),
            (false, "echo 1", Err("exec is not allowed here; run with --allow-exec")),
        ] {
            let got = SystemFiles { allow_exec }.exec(command);
            assert_eq!(got.as_deref().map_err(String::as_str), expected, "{command}");
        }
    }

    #[test]
    fn only_files_are_included_and_pipes_are_read_where_the_caller_names_them() {
        let directory = std::env::temp_dir().join(format!("penstock-files-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("directory")).expect("the directory is writable");
        let at = |name: &str| directory.join(name).display().to_string();
        std::fs::write(at("file"), "text").expect("the directory is writable");
        let _socket = std::os::unix::net::UnixListener::bind(at("socket"))
            .expect("the directory is writable");
        let pipe = CString::new(at("pipe")).expect("a path");
        // SAFETY: a C string, which lives through the call.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        let files = SystemFiles::default();
        for (name, included, read) in [
            ("file", Ok("text"), Some(Ok("text"))),
            ("none", Err("No such file or directory"), Some(Err("No such file or directory"))),
            ("directory", Err(NOT_REGULAR), Some(Err(NOT_REGULAR))),
            ("socket", Err(NOT_REGULAR), Some(Err(NOT_REGULAR))),
            // It has no writer: opening it would block.
            ("pipe", Err(NOT_REGULAR), None),
            ("/dev/zero", Err(NOT_REGULAR), Some(Err(NOT_REGULAR))),
            ("/dev/null", Err(NOT_REGULAR), Some(Ok(""))),
            ("/dev/stdin", Err(NOT_REGULAR), None),
        ] {
            let path = if name.starts_with('/') { name.to_owned() } else { at(name) };
            let owned = |said: Result<&str, &str>| said.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(files.include(&path), owned(included), "{name}");
            if let Some(read) = read {
                assert_eq!(files.read(&path), owned(read), "{name}");
            }
            // For requests of the dataplane only the file of the call may be other than a regular
            // file.
            let called = CalledFiles { files, own: Some("/dev/null") };
            let expected = if path == "/dev/null" { Ok("") } else { included };
            assert_eq!(called.read(&path), owned(expected), "{name}");
        }
        let writer =
            std::thread::spawn(move || std::fs::write(pipe.to_str().unwrap_or(""), "from a pipe"));
        assert_eq!(files.read(&at("pipe")), Ok("from a pipe".into()));
        assert!(writer.join().is_ok_and(|written| written.is_ok()));
        assert_eq!(files.glob(&at("[df]*")), [at("directory") + "/", at("file")]);
        let _ = std::fs::remove_dir_all(&directory);
    }
}
