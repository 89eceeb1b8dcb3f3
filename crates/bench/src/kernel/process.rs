// SPDX-License-Identifier: Apache-2.0

//! Processes that forward in a lab, and the time that they take.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::Result;
use super::lab::Lab;

/// A process that runs in a lab. It ends when this is dropped, and with the thread that started it.
pub(super) struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts a program in the namespace of a lab.
    pub(super) fn start(lab: &Lab, program: &Command) -> Result<Self> {
        let name = program.get_program().to_string_lossy().into_owned();
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", lab.name()])
            .arg(program.get_program())
            .args(program.get_args());
        for (key, value) in program.get_envs() {
            command.env(key, value.unwrap_or_default());
        }
        // SAFETY: between fork and exec only this call is made, which takes numbers.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            });
        }
        // Its log is read only if it fails. A program that stops at the end of its input gets no
        // input.
        let child =
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        Ok(Process { child: child.map_err(|e| format!("{name}: {e}"))?, name })
    }

    /// Waits until it is ready.
    pub(super) fn wait(&mut self, mut ready: impl FnMut() -> bool) -> Result<()> {
        for _ in 0..200 {
            if ready() {
                return Ok(());
            }
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let mut said = String::new();
        let _ = self.child.kill();
        if let Some(stderr) = &mut self.child.stderr {
            let _ = std::io::Read::read_to_string(stderr, &mut said);
        }
        Err(format!("{}: {}", self.name, said.trim()))
    }

    /// Its time on processors.
    pub(super) fn clock(&self) -> Clock {
        Clock { process: self.child.id() as i32 }
    }

    /// Stops it, or lets it continue.
    pub(super) fn stop(&self, stop: bool) {
        let signal = if stop { libc::SIGSTOP } else { libc::SIGCONT };
        // SAFETY: a process that was started here and has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop(false);
        // SAFETY: a process that was started here and has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

/// What tells how long a process was on processors.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    process: i32,
}

impl Clock {
    /// Time of all its threads, those that have ended included.
    pub(super) fn time(self) -> Duration {
        let mut clock = 0;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: both calls fill in what they are given, which lives through them; a process that
        // is gone has no clock.
        let known = unsafe {
            libc::clock_getcpuclockid(self.process, &raw mut clock) == 0
                && libc::clock_gettime(clock, &raw mut time) == 0
        };
        if known { Duration::new(time.tv_sec as u64, time.tv_nsec as u32) } else { Duration::ZERO }
    }
}

/// `penstock up` on the devices of the router, with rules.
///
/// # Errors
/// What it said when it did not start; this program is not penstock, as in a test.
pub(super) fn up(lab: &Lab, driver: &str, rules: &str) -> Result<Process> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    if own.file_name().is_none_or(|name| name != "penstock") {
        return Err(format!(
            "{} is not penstock, and cannot be run as `penstock up`",
            own.display()
        ));
    }
    let file = std::env::temp_dir().join(format!("{}.nft", lab.name()));
    fs::write(&file, rules).map_err(|e| format!("{}: {e}", file.display()))?;
    let mut command = Command::new(&own);
    command.args(["up", "r0=w0", "r1=w1", "--driver", driver, "--rules"]).arg(&file);
    let mut up = Process::start(lab, &command)?;
    let mut show = Command::new("ip");
    show.args(["netns", "exec", lab.name()]).arg(own).arg("show");
    show.stdout(Stdio::null()).stderr(Stdio::null());
    let started = up.wait(|| show.status().is_ok_and(|status| status.success()));
    let _ = fs::remove_file(file);
    started?;
    // Machine code is made in the background.
    thread::sleep(Duration::from_millis(300));
    Ok(up)
}
