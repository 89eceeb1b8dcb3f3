// SPDX-License-Identifier: Apache-2.0

//! Three network namespaces in a row, `a`, `r` and `b`: A's device a0 leads to r0, B's b0 to r1.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::thread;

use crate::rights;

/// A command that has to succeed; its output.
pub fn run(line: &str, input: &str) -> String {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{line}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whether these tools are there, and programs can be loaded; says what is skipped if not.
pub fn can(tools: &[&str]) -> bool {
    for tool in tools {
        if Command::new(tool).arg("-V").output().is_err() {
            println!("skipped: there is no {tool}");
            return false;
        }
    }
    rights::may_load()
}

/// The namespaces. They are removed at the end.
pub struct Namespaces {
    prefix: String,
}

impl Namespaces {
    /// Namespaces without devices, with a name that no other test has.
    pub fn new(name: &str) -> Self {
        let all = Namespaces { prefix: format!("penstock-ebpf-{}-{name}", std::process::id()) };
        for end in ["a", "r", "b"] {
            run(&format!("ip netns add {}", all.name(end)), "");
        }
        all
    }

    /// Makes the devices, which are down.
    pub fn connect(&self) {
        let (a, r, b) = (self.name("a"), self.name("r"), self.name("b"));
        let links = format!(
            "link add a0 netns {a} address 02:00:00:00:00:a0 type veth peer name r0 netns {r} address 02:00:00:00:00:f0\n\
             link add r1 netns {r} address 02:00:00:00:00:f1 type veth peer name b0 netns {b} address 02:00:00:00:00:b0\n"
        );
        run("ip -batch -", &links);
    }

    /// What one is called.
    pub fn name(&self, end: &str) -> String {
        format!("{}-{end}", self.prefix)
    }

    /// Lines for ip(8) in one.
    pub fn ip(&self, end: &str, lines: &str) {
        run(&format!("ip -n {} -batch -", self.name(end)), lines);
    }

    /// Calls a function in one.
    pub fn inside<T: Send>(&self, end: &str, what: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name(end))).unwrap();
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                // SAFETY: the descriptor is open, and the thread ends after this.
                assert_eq!(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
                what()
            });
            inside.join().unwrap()
        })
    }

    /// Index of a device of R.
    pub fn index(&self, device: &str) -> u32 {
        let name = std::ffi::CString::new(device).unwrap();
        // SAFETY: the name is a string that ends.
        self.inside("r", || unsafe { libc::if_nametoindex(name.as_ptr()) })
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for end in ["a", "r", "b"] {
            let _ = Command::new("ip").args(["netns", "del", &self.name(end)]).status();
        }
    }
}
