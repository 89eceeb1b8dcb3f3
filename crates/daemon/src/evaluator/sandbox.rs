// SPDX-License-Identifier: Apache-2.0

//! What the processes that read rule text may do: next to nothing.
//!
//! They run as user `penstock` where there is one, else `nobody`, where permitted, have no capabilities and cannot gain any, start no
//! programs, open no sockets and no file for writing (seccomp(2)), leave no core, and end with
//! their parent. Where memory is scarce, the kernel ends them first (`/proc/PID/oom_score_adj`,
//! proc(5)). Children have limits of memory and time as well (setrlimit(2)).

use std::io;
use std::os::fd::RawFd;

use crate::rights;
use crate::seccomp;
use crate::seccomp::Rule::{self, Call, OneOf, Without};
use crate::seccomp::threads::{BASE, SEE_FILES};

/// The user `nobody` and its group, by their numbers in all distributions.
const NOBODY: libc::uid_t = 65534;
/// The user of these processes alone, where packages have made it: other programs run as `nobody`,
/// too, and could send signals.
const OWN: &str = "penstock";

/// What a child needs besides memory and time: existing connections, files to read, limits.
const CHILD: &[Rule] = &[
    Call(libc::SYS_recvmsg),
    Call(libc::SYS_recvfrom),
    Call(libc::SYS_sendmsg),
    Call(libc::SYS_sendto),
    Call(libc::SYS_ppoll),
    Call(libc::SYS_getsockopt),
    Call(libc::SYS_setsockopt),
    Call(libc::SYS_shutdown),
    Call(libc::SYS_getppid),
    Call(libc::SYS_prlimit64),
    Call(libc::SYS_setpriority),
    Call(libc::SYS_setitimer),
    OneOf(libc::SYS_prctl, 0, &[libc::PR_SET_NAME as u32]),
    Without(libc::SYS_openat, 2, !READ_ONLY),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_poll),
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_alarm),
    #[cfg(target_arch = "x86_64")]
    Without(libc::SYS_open, 1, !READ_ONLY),
];

/// What the evaluator needs in addition: it starts children, which restrict themselves further, and
/// waits for them.
const PARENT: &[Rule] = &[
    Call(libc::SYS_clone),
    Call(libc::SYS_clone3),
    // The fork(3) of musl.
    #[cfg(target_arch = "x86_64")]
    Call(libc::SYS_fork),
    Call(libc::SYS_wait4),
    Call(libc::SYS_waitid),
    Call(libc::SYS_set_robust_list),
    Call(libc::SYS_rseq),
    Call(libc::SYS_prctl),
    Call(libc::SYS_seccomp),
    Call(libc::SYS_close_range),
    OneOf(libc::SYS_socketpair, 0, &[libc::AF_UNIX as u32]),
    Call(libc::SYS_tgkill),
];

/// Flags of open(2) with which nothing is written or made.
const READ_ONLY: u32 =
    (libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_NOCTTY)
        as u32
        | O_LARGEFILE;
#[cfg(target_arch = "x86_64")]
const O_LARGEFILE: u32 = 0o100_000;
#[cfg(target_arch = "aarch64")]
const O_LARGEFILE: u32 = 0o400_000;

/// Closes all descriptors but standard error and this one; standard input and output lead nowhere.
pub(super) fn keep_only(fd: RawFd) {
    // SAFETY: a terminated string; this process does not use standard input and output.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if null >= 0 {
            libc::dup2(null, 0);
            libc::dup2(null, 1);
        }
    }
    close_but(fd);
}

/// Closes all descriptors but the standard ones and this one. A holder of another one must not
/// close it again.
pub(super) fn close_but(fd: RawFd) {
    let (fd, last) = (fd as libc::c_uint, libc::c_uint::MAX);
    // SAFETY: no pointers; this process no longer uses the closed descriptors.
    unsafe {
        if fd > 3 {
            libc::syscall(libc::SYS_close_range, 3, fd - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, fd + 1, last, 0);
    }
}

/// Ends this process when its parent ends, which was this one.
pub(super) fn end_with(parent: u32) {
    // SAFETY: no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() as u32 != parent {
            libc::_exit(1);
        }
    }
}

/// Gives up all rights, for good. There must be one thread.
pub(super) fn give_up_rights() -> io::Result<()> {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    rights::bound_to_none();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let (user, group) = user_of(&users).unwrap_or((NOBODY, NOBODY));
    // Where it may not be another user, as in a namespace without such a user, it stays the one
    // that it is. SAFETY: no pointers but that of an empty list.
    unsafe {
        libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>());
        libc::syscall(libc::SYS_setresgid, group, group, group);
        libc::syscall(libc::SYS_setresuid, user, user, user);
    }
    rights::keep_none()?;
    limit(libc::RLIMIT_CORE, 0)?;
    // SAFETY: no pointers.
    if unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Numbers of the user [`OWN`] and its group in the lines of passwd(5); never those of root.
fn user_of(passwd: &str) -> Option<(libc::uid_t, libc::gid_t)> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(OWN))?;
    let mut fields = line.split(':').skip(2).map(str::parse);
    let (user, group) = (fields.next()?.ok()?, fields.next()?.ok()?);
    (user != 0 && group != 0).then_some((user, group))
}

/// All that a child needs.
fn child<'r>() -> impl Iterator<Item = &'r Rule> + Clone {
    [BASE, SEE_FILES, CHILD].into_iter().flatten()
}

/// Restricts system calls to those of the process that starts evaluators, and theirs.
pub(super) fn restrict_spawner() -> io::Result<()> {
    seccomp::enter_with(
        "spawner",
        child().chain(PARENT).chain(&[Call(libc::SYS_signalfd4), Call(libc::SYS_kill)]),
    )
}

/// Restricts system calls to those of the evaluator.
pub(super) fn restrict_parent() -> io::Result<()> {
    seccomp::enter_with("evaluator", child().chain(PARENT))
}

/// Restricts system calls to those of a child.
pub(super) fn restrict_child() -> io::Result<()> {
    // A process ends itself by a signal where memory has run out, and no other one. It has its
    // number as long as it is.
    let own: &'static [u32] = Box::leak(Box::new([std::process::id()]));
    seccomp::enter_with("nft", child().chain(&[OneOf(libc::SYS_tgkill, 0, own)]))
}

/// What a limit is called: the type differs from one C library to another.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Sets a limit, which cannot be lifted again.
fn limit(what: Resource, most: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: the limit lives through the call, which only reads it.
    if unsafe { libc::setrlimit(what, &raw const limit) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Bytes of the address space of this process, and of it those that are written to
/// (`/proc/PID/statm`).
fn size() -> Option<(u64, u64)> {
    const PAGE: u64 = 4096;
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = pages.split(' ').map(|pages| pages.parse::<u64>());
    let all = pages.next()?.ok()?;
    let data = pages.nth(4)?.ok()?;
    Some((all * PAGE, data * PAGE))
}

/// Limits memory to so many bytes more than now, and to four times the present size: a listing of a
/// large ruleset needs that.
pub(super) fn limit_memory(bytes: u64) -> io::Result<()> {
    let (all, data) = size().ok_or(io::ErrorKind::NotFound)?;
    limit(libc::RLIMIT_AS, all.saturating_add(data.saturating_mul(4)).saturating_add(bytes))
}

/// Limits seconds of the processor.
pub(super) fn limit_time(seconds: u64) -> io::Result<()> {
    limit(libc::RLIMIT_CPU, seconds)
}

/// Ends this process in so many seconds; 0 sets no limit.
pub(super) fn alarm(seconds: u64) {
    // SAFETY: no pointers.
    unsafe { libc::alarm(u32::try_from(seconds).unwrap_or(u32::MAX)) };
}

/// Does not end this process by [`alarm`]. Returns the seconds that were left.
pub(super) fn stop_alarm() -> u64 {
    // SAFETY: no pointers.
    unsafe { libc::alarm(0) }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_user_counts_unless_it_is_root() {
        let root = "root:x:0:0:root:/root:/bin/bash\n";
        for (lines, user) in [
            ("", None),
            ("penstock:x:997:996:Penstock:/:/usr/sbin/nologin\n", Some((997, 996))),
            ("penstock2:x:997:996::/:/bin/sh\n", None),
            ("penstock:x:0:996::/:/bin/sh\n", None),
            ("penstock:x:997\n", None),
        ] {
            assert_eq!(user_of(&format!("{root}{lines}")), user, "{lines}");
        }
    }
}
