// SPDX-License-Identifier: Apache-2.0

//! An agent that `penstock up` starts: a process of its own, which ends with the dataplane. It has no
//! part in packets, and what it reads of a store is read outside of the dataplane.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// What the agent is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside(Vec<String>);

impl Beside {
    /// An agent on a store, with further options.
    ///
    /// # Errors
    /// They are not those of an agent, or a file of keys cannot be read.
    pub fn new(source: &str, options: &[String]) -> Result<Beside, String> {
        let mut args = vec![format!("--source={source}")];
        args.extend(options.iter().cloned());
        match super::parse(args.iter().map(OsString::from)) {
            Ok(Some(_)) => Ok(Beside(args)),
            Ok(None) => Err("agent: it has no option `help` here".into()),
            Err(message) => Err(format!("agent: {message}")),
        }
    }

    /// Starts it. It waits until the dataplane is there.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self) -> std::io::Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("agent").args(&self.0).stdin(Stdio::null());
        let parent = std::process::id();
        // SAFETY: after fork(2) only prctl(2) and getppid(2) are called, which are
        // async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                // The parent may have ended before it was asked for.
                match libc::getppid() as u32 == parent {
                    true => Ok(()),
                    false => Err(std::io::ErrorKind::NotFound.into()),
                }
            });
        }
        command.spawn().map(drop)
    }
}
