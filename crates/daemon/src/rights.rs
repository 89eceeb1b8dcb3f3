// SPDX-License-Identifier: Apache-2.0

//! What the process may do once it has its devices.

use std::io;

const NET_ADMIN: u32 = 12;
const NET_RAW: u32 = 13;
const IPC_LOCK: u32 = 14;
const PERFMON: u32 = 38;
const BPF: u32 = 39;
/// Devices, packet sockets, programs and their maps.
const NEEDED: u64 = 1 << NET_ADMIN | 1 << NET_RAW | 1 << PERFMON | 1 << BPF;

#[repr(C)]
struct Header {
    version: u32,
    process: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Set {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3`
const VERSION: u32 = 0x2008_0522;

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The capabilities of this thread.
fn sets() -> io::Result<[Set; 2]> {
    let mut header = Header { version: VERSION, process: 0 };
    let mut sets = [Set { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: header and sets live through the call, and are as the version says.
    check(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) })?;
    Ok(sets)
}

/// Whether devices can be taken and returned at all.
pub(crate) fn may_take_devices() -> bool {
    sets().is_ok_and(|[first, _]| first.effective & 1 << NET_ADMIN != 0)
}

/// Limits programs that this process runs to the capabilities that it keeps.
fn bound(needed: u64) {
    let last = (0..64).take_while(|number| {
        // SAFETY: no pointers; it fails for numbers that are no capabilities.
        unsafe { libc::prctl(libc::PR_CAPBSET_READ, *number, 0, 0, 0) >= 0 }
    });
    for number in last.filter(|number| needed & 1 << number == 0) {
        // Without CAP_SETPCAP, as under systemd, it is refused: the bounds are what the unit says
        // then. SAFETY: no pointers.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
    }
}

/// Lifts the limit of locked memory, which that of AF_XDP sockets counts as.
fn lift_memory_lock() -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit lives through the call, which only reads it.
    check(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) }.into())
}

/// Lets this thread gain no capability by running a program. Called while it has all its
/// capabilities.
pub(crate) fn bound_to_none() {
    for number in 0..64 {
        // Without CAP_SETPCAP it is refused: what is started gains nothing all the same.
        // SAFETY: no pointers.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
    }
}

/// Gives up all capabilities of this thread, for good.
pub(crate) fn keep_none() -> io::Result<()> {
    let mut header = Header { version: VERSION, process: 0 };
    let none = [Set { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: header and sets live through the call, and are as the version says; the call only
    // reads the sets.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, none.as_ptr()) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())
}

/// Raises the descriptor limit to its maximum: recreated devices need some, whatever clients do.
pub(crate) fn lift_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit lives through both calls, of which the first one fills it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            // Raised to what is allowed it cannot be refused.
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Descriptors available to clients: the rest of the limit, except for some that recreated devices,
/// metrics, files and queues need.
pub(crate) fn spare_descriptors() -> usize {
    /// Kept for others than clients.
    const KEPT: usize = 512;
    /// Where nothing is known: what Linux allows by default.
    const USUAL: usize = 1024;
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let most = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(USUAL);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    most.saturating_sub(open + KEPT)
}

/// Gives up all capabilities of this thread, and of those that it starts, but the ones that are
/// needed to give devices back and to write files; none come back by running other programs.
pub(crate) fn keep_only_needed() -> io::Result<()> {
    keep(NEEDED)
}

/// As [`keep_only_needed`], but AF_XDP sockets can be opened later, too, for ports that are added
/// and devices that come back. Where the limit of locked memory cannot be lifted, as in containers
/// without CAP_SYS_RESOURCE, that takes CAP_IPC_LOCK.
pub(crate) fn keep_for_devices() -> io::Result<()> {
    keep(match lift_memory_lock() {
        Ok(()) => NEEDED,
        Err(_) => NEEDED | 1 << IPC_LOCK,
    })
}

fn keep(needed: u64) -> io::Result<()> {
    bound(needed);
    let mut header = Header { version: VERSION, process: 0 };
    let mut sets = sets()?;
    for (set, needed) in sets.iter_mut().zip([needed as u32, (needed >> 32) as u32]) {
        set.permitted &= needed;
        set.effective = set.permitted;
        set.inheritable = 0;
    }
    // SAFETY: as above; the call only reads the sets.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into())
}
