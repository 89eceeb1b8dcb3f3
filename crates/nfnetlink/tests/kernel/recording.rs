// SPDX-License-Identifier: Apache-2.0

//! What a program and the kernel say to each other on netlink sockets, as strace sees it.

use std::path::Path;
use std::process::Command;

/// A datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// From the program.
    Sent(Vec<u8>),
    /// From the kernel.
    Received(Vec<u8>),
}

/// nft's run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Its datagrams.
    pub datagrams: Vec<Datagram>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Whether recordings can be made here; else why not.
pub fn possible() -> Result<(), String> {
    let run = |script: &str| Command::new("sh").args(["-c", script]).output();
    let works = |script: &str| run(script).is_ok_and(|output| output.status.success());
    if !works("command -v nft && command -v strace") {
        return Err("no nft, or no strace".into());
    }
    if !works("unshare -n strace -o /dev/null -e trace=sendmsg nft list ruleset") {
        return Err("no rights for network namespaces, or to trace".into());
    }
    Ok(())
}

/// Runs nft in a new network namespace with a ruleset of a file, and then with each of some
/// arguments. The first run is the one that loads the file.
pub fn record(directory: &Path, file: &Path, then: &[&str]) -> std::io::Result<Vec<Run>> {
    let trace = |n: usize| directory.join(format!("trace{n}"));
    let output = |n: usize, kind: &str| directory.join(format!("{kind}{n}"));
    let mut script = String::from("set -f\nip link set lo up\n");
    let load = format!("-f {}", file.display());
    for (n, arguments) in std::iter::once(load.as_str()).chain(then.iter().copied()).enumerate() {
        // One word at each blank, and nothing of it means anything to the shell.
        std::fs::write(output(n, "args"), arguments)?;
        script.push_str(&format!(
            "strace -o {} -s 0 -e trace=socket,sendmsg,sendto,recvmsg -e write=all -e read=all \
             nft $(cat {}) > {} 2> {}\n",
            trace(n).display(),
            output(n, "args").display(),
            output(n, "out").display(),
            output(n, "err").display(),
        ));
    }
    Command::new("unshare").args(["-n", "sh", "-c", &script]).env("TZ", "UTC").status()?;
    (0..=then.len())
        .map(|n| {
            let text = |path| std::fs::read(path).map(|b| String::from_utf8_lossy(&b).into_owned());
            Ok(Run {
                datagrams: parse(&text(trace(n))?),
                stdout: text(output(n, "out"))?,
                stderr: text(output(n, "err"))?,
            })
        })
        .collect()
}

/// Reads strace's output: a line for each system call, lines of hexadecimal bytes after it.
fn parse(trace: &str) -> Vec<Datagram> {
    let mut all: Vec<Datagram> = Vec::new();
    // nft asks for the machine's links, too.
    let (mut socket, mut ours) = (String::new(), true);
    for line in trace.lines() {
        if line.starts_with("socket(") {
            if line.contains("NETLINK_NETFILTER") {
                socket = format!("({},", line.rsplit("= ").next().unwrap_or_default());
            }
            continue;
        }
        if line.starts_with("send") || line.starts_with("recv") {
            ours = line.contains(&socket);
        }
        if !ours {
            continue;
        }
        if let Some(dump) = line.strip_prefix(" | ") {
            let Some((_, rest)) = dump.split_once("  ") else { continue };
            // 16 bytes, with a blank in the middle; text after them.
            let hex = rest.get(..49.min(rest.len())).unwrap_or_default();
            let bytes = hex.split_whitespace().filter_map(|b| u8::from_str_radix(b, 16).ok());
            if let Some(Datagram::Sent(to) | Datagram::Received(to)) = all.last_mut() {
                to.extend(bytes);
            }
        } else if line.starts_with("send") {
            all.push(Datagram::Sent(Vec::new()));
        } else if line.starts_with("recv") {
            all.push(Datagram::Received(Vec::new()));
        }
    }
    all.retain(|(Datagram::Sent(bytes) | Datagram::Received(bytes))| !bytes.is_empty());
    all
}
