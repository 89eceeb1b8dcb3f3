// SPDX-License-Identifier: Apache-2.0

//! The two that are compared: nft with the kernel of a namespace, and `penstock nft` with a file.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a command said.
#[derive(Clone, PartialEq, Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    /// The output without handles in listings.
    pub fn without_handles(&self) -> Said {
        let line = |line: &str| line.split(" # handle ").next().unwrap_or(line).to_owned() + "\n";
        Said { stdout: self.stdout.lines().map(line).collect(), ..self.clone() }
    }
}

/// One of the two.
pub enum Side {
    /// nft in the namespace of the calling thread.
    Nft,
    /// `penstock nft --state` with this file.
    Penstock(PathBuf),
    /// `penstock nft --offline`.
    Offline,
}

impl Side {
    /// Runs with these arguments of nft.
    pub fn run(&self, arguments: &[&str]) -> Said {
        let mut command = match self {
            Side::Nft => Command::new("nft"),
            Side::Offline => {
                let mut c = Command::new(env!("CARGO_BIN_EXE_penstock"));
                c.args(["nft", "--offline"]);
                c
            }
            Side::Penstock(state) => {
                let mut c = Command::new(env!("CARGO_BIN_EXE_penstock"));
                c.arg("nft").arg("--state").arg(state);
                c
            }
        };
        let output = command
            .args(arguments)
            .stdin(Stdio::null())
            .env("TZ", "UTC")
            .output()
            .expect("it starts");
        Said {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// An empty ruleset.
    pub fn clear(&self) {
        match self {
            Side::Nft => drop(self.run(&["flush", "ruleset"])),
            Side::Offline => {}
            Side::Penstock(state) => drop(std::fs::remove_file(state)),
        }
    }
}
