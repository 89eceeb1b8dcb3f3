// SPDX-License-Identifier: Apache-2.0

//! What runs in the guest: routers in its kernel, at the word of the other side. Each line to the
//! other side is a lane: a process with routers of its own, one after the other.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::libraries::Libraries;
use crate::router::{Router, Unavailable};
use crate::scenario::{Outcome, Scenario};
use crate::tools::Tools;

/// Ports that the other side holds the far ends of.
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
    Outcome(Box<Outcome>),
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

/// Serves all lines until the other side is gone, each by a process.
pub fn serve() -> io::Result<()> {
    let version = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mut ports: Vec<_> =
        std::fs::read_dir(PORTS)?.map(|port| Ok(port?.file_name())).collect::<io::Result<_>>()?;
    ports.sort();
    std::thread::scope(|scope| {
        let mut lanes = vec![];
        for port in ports {
            let path = Path::new("/dev").join(port);
            let mut line = OpenOptions::new().read(true).write(true).open(path)?;
            send(&mut line, &Answer::Booted(version.trim().into()))?;
            lanes.push(scope.spawn(move || keep_up(&mut line)));
        }
        lanes.into_iter().try_for_each(|lane| lane.join().expect("no panics"))
    })
}

/// Starts the process of a lane, and again if it ends: nft's library ends it for some rules, by its
/// own assertions.
fn keep_up(line: &mut File) -> io::Result<()> {
    loop {
        let status = Command::new(std::env::current_exe()?)
            .arg("--lane")
            .stdin(Stdio::from(line.try_clone()?))
            .status()?;
        send(line, &Answer::Refused(format!("what runs scenarios ended: {status}")))?;
    }
}

/// Serves the line that is the standard input.
pub fn serve_lane() -> io::Result<()> {
    let mut line = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let tools: Arc<dyn Tools> = Arc::new(Libraries::load()?);
    let mut router = None;
    loop {
        let answer = match receive(&mut line)? {
            Request::SetUp { net } => {
                // The namespaces of the one before go first.
                drop(router.take());
                match set_up(&mut router, &net, &tools) {
                    Ok(_) => Answer::Ready,
                    Err(answer) => answer,
                }
            }
            Request::Run { scenario, expected } => {
                match set_up(&mut router, &scenario.net, &tools) {
                    Ok(router) => router
                        .run(&scenario, expected.as_ref())
                        .map_or_else(Answer::Refused, |outcome| Answer::Outcome(Box::new(outcome))),
                    Err(answer) => answer,
                }
            }
        };
        send(&mut line, &answer)?;
    }
}

/// The router, which is built if there is none yet.
fn set_up<'a>(
    router: &'a mut Option<Router>,
    net: &str,
    tools: &Arc<dyn Tools>,
) -> Result<&'a mut Router, Answer> {
    match router {
        Some(router) => Ok(router),
        None => match Router::with(net, tools.clone()) {
            Ok(new) => Ok(router.insert(new)),
            Err(Unavailable::Skip(reason)) => Err(Answer::Skip(reason)),
            Err(Unavailable::Failed(text)) => Err(Answer::Refused(text)),
        },
    }
}
