//! The file system and the shell, as `include` and `exec` see them.

use std::ffi::{CStr, CString};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::ptr;

use penstock_lang::source::{EXEC_NOT_ALLOWED, Files};

/// The files of this machine, and its shell.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles {
    /// `--allow-exec`: rulesets may run commands.
    pub allow_exec: bool,
}

/// Runs a command by the caller's shell (`$SHELL`, or sh(1)). It reads nothing: standard input may be a ruleset. What
/// it says on standard error is passed on if it succeeds.
fn shell(command: &str) -> Result<String, String> {
    let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let output = Command::new(&shell).arg("-c").arg(command).stdin(Stdio::null()).output().map_err(|e| {
        format!("command \"{command}\" could not be run by {}: {}", shell.display(), words(&e))
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        eprint!("{said}");
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

/// A system error in the C library's words, without the number that Rust puts behind.
pub fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// Bytes as text; what is not UTF-8 in them is replaced.
pub fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

impl Files for SystemFiles {
    fn read(&self, path: &str) -> Result<String, String> {
        let bytes = std::fs::read(path).map_err(|e| words(&e))?;
        Ok(text_of(bytes))
    }

    fn exec(&self, command: &str) -> Result<String, String> {
        if self.allow_exec { shell(command) } else { Err(EXEC_NOT_ALLOWED.into()) }
    }

    fn glob(&self, pattern: &str) -> Vec<String> {
        let Ok(pattern) = CString::new(pattern) else { return Vec::new() };
        let mut found = Vec::new();
        // SAFETY: a zeroed glob_t is what glob(3) expects without GLOB_DOOFFS; the pattern is a C string; the paths are
        // C strings and live until globfree.
        unsafe {
            let mut list: libc::glob_t = std::mem::zeroed();
            if libc::glob(pattern.as_ptr(), 0, None, &mut list) == 0 {
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
    fn what_a_command_prints_or_how_it_failed_is_told() {
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
}
