// SPDX-License-Identifier: Apache-2.0

//! Commands that say whether the node is well, each with a time.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How soon it is noticed that a command has ended.
const PULSE: Duration = Duration::from_millis(10);

/// Runs a command of the shell; it is well if the command exits with status 0 in time.
///
/// # Errors
/// It does not.
pub fn check(command: &str, time: Duration) -> Result<(), String> {
    let told = |why: &dyn std::fmt::Display| format!("health check `{command}` {why}");
    let begin = Instant::now();
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // It is a group of its own, so that what it started ends with it.
        .process_group(0)
        .spawn()
        .map_err(|e| told(&format_args!("does not start: {e}")))?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(told(&format_args!("failed: {status}"))),
            Ok(None) if begin.elapsed() < time => std::thread::sleep(PULSE),
            ended => {
                if let Ok(group) = libc::pid_t::try_from(child.id()) {
                    // SAFETY: a system call with numbers; the group is the child's, which was not
                    // waited for yet, so no other has its number.
                    unsafe { libc::kill(-group, libc::SIGKILL) };
                }
                let _ = child.wait();
                return Err(match ended {
                    Err(e) => told(&e),
                    Ok(_) => told(&format_args!("took more than {} s", time.as_secs_f64())),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_well_if_they_succeed_in_time() {
        let second = Duration::from_secs(20);
        assert_eq!(check("true", second), Ok(()));
        let failed = check("exit 3", second);
        assert_eq!(failed, Err("health check `exit 3` failed: exit status: 3".into()));
        let late = check("sleep 100 & sleep 100", Duration::from_millis(50));
        assert_eq!(late, Err("health check `sleep 100 & sleep 100` took more than 0.05 s".into()));
    }
}
