// SPDX-License-Identifier: Apache-2.0

//! What runs in the guest: routers in its kernel, at the word of the other side.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::router::{Router, Unavailable};
use crate::scenario::{Outcome, Scenario};

/// Ports that the other side holds the far ends of: one here.
const PORTS: &str = "/sys/class/virtio-ports";

/// What the other side asks for.
#[derive(Serialize, Deserialize)]
pub enum Request {
    /// A router of these `ip -batch` lines, in place of the one before.
    SetUp { net: String },
    /// A scenario on the router, and what is expected of it.
    Run { scenario: Box<Scenario>, expected: Option<Outcome> },
}

/// What the guest says.
#[derive(Serialize, Deserialize)]
pub enum Answer {
    /// The guest has booted: the version of its kernel.
    Booted(String),
    /// The router is there.
    Ready,
    /// This kernel has no such router.
    Skip(String),
    /// What came of a scenario.
    Outcome(Outcome),
    /// A tool refuses, with what it says.
    Refused(String),
}

/// Writes a message with its length in front.
pub fn send(line: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    line.write_all(&(bytes.len() as u32).to_le_bytes())?;
    line.write_all(&bytes)?;
    line.flush()
}

/// Reads a message.
pub fn receive<T: DeserializeOwned>(line: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    line.read_exact(&mut length)?;
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    line.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}

/// Answers until the other side is gone.
pub fn serve() -> io::Result<()> {
    let port = std::fs::read_dir(PORTS)?.next().ok_or(io::ErrorKind::NotFound)??.file_name();
    let mut line = OpenOptions::new().read(true).write(true).open(Path::new("/dev").join(port))?;
    let version = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    send(&mut line, &Answer::Booted(version.trim().into()))?;
    let mut router = None;
    loop {
        let answer = match receive(&mut line)? {
            Request::SetUp { net } => {
                // The namespaces of the one before go first.
                drop(router.take());
                match Router::new(&net) {
                    Ok(new) => {
                        router = Some(new);
                        Answer::Ready
                    }
                    Err(Unavailable::Skip(reason)) => Answer::Skip(reason),
                    Err(Unavailable::Failed(text)) => Answer::Refused(text),
                }
            }
            Request::Run { scenario, expected } => {
                let router = router.as_mut().ok_or_else(|| io::Error::other("no router"))?;
                match router.run(&scenario, expected.as_ref()) {
                    Ok(outcome) => Answer::Outcome(outcome),
                    Err(text) => Answer::Refused(text),
                }
            }
        };
        send(&mut line, &answer)?;
    }
}
