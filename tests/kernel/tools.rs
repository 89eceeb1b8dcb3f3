// SPDX-License-Identifier: Apache-2.0

//! The tools that load rules into a kernel and list what is there: programs, or what does the same.

use std::io::Write;
use std::process::{Command, Stdio};

/// All of them work in the network namespace that the calling thread is in.
pub trait Tools: Send + Sync {
    /// Carries out commands as `nft -f` takes them, and gives what is printed. The error is nft's.
    fn nft(&self, commands: &str) -> Result<String, String>;

    /// The connections that the kernel tracks, a line each as conntrack(8) lists them. None where
    /// they cannot be listed.
    fn connections(&self) -> Option<Vec<String>>;

    /// The line of a message of ctnetlink about an event, as conntrack(8) has it. None where it
    /// cannot be told.
    fn event(&self, message: &[u8]) -> Option<String>;
}

/// nft(8) and conntrack(8).
pub struct Programs;

impl Tools for Programs {
    fn nft(&self, commands: &str) -> Result<String, String> {
        run("nft", &["-f", "-"], commands)
    }

    fn connections(&self) -> Option<Vec<String>> {
        let mut lines = vec![];
        for family in ["ipv4", "ipv6"] {
            let listing = run("conntrack", &["-L", "-f", family], "").ok()?;
            lines.extend(listing.lines().map(str::to_owned));
        }
        Some(lines)
    }

    /// conntrack(8) reads no messages of others.
    fn event(&self, _message: &[u8]) -> Option<String> {
        None
    }
}

/// Runs a command in the present namespace, and gives what it prints. The error is what it says of
/// its own.
pub fn run(command: &str, args: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new(command)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{command}: {e}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that ends early tells why on its own.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|e| format!("{command}: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command} {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr)))
}
