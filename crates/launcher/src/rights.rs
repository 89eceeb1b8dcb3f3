// SPDX-License-Identifier: Apache-2.0

//! Who may administer a network namespace (capabilities(7), user_namespaces(7)).

use std::os::fd::{AsRawFd, OwnedFd};

use crate::sys::{check, owned};

/// `NS_GET_USERNS`, `NS_GET_PARENT` (ioctl_ns(2)).
const GET_USER_NAMESPACE: libc::c_ulong = 0xb701;
const GET_PARENT: libc::c_ulong = 0xb702;
/// User namespaces are nested no deeper (`create_user_ns()`).
const DEEPEST: usize = 33;

/// Whether `CAP_NET_ADMIN` is effective in a thread; 0 is the own one. That is about the user
/// namespace of the thread.
pub(crate) fn administers(thread: u32) -> bool {
    /// `_LINUX_CAPABILITY_VERSION_3` (`linux/capability.h`)
    const VERSION: u32 = 0x2008_0522;
    const NET_ADMIN: u32 = 1 << 12;
    let mut header = [VERSION, thread];
    // Effective, permitted, inheritable: first the lower halves.
    let mut sets = [0u32; 6];
    // SAFETY: both live through the call, which fills the second one with six numbers.
    let asked =
        check(unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) });
    asked.is_ok() && sets[0] & NET_ADMIN != 0
}

/// Inodes of the user namespace that owns a network namespace, and of those around it, as far as
/// they are visible: capabilities in any of them count.
pub(crate) fn owners(namespace: &impl AsRawFd) -> Vec<u64> {
    let get = |of: &dyn AsRawFd, what: libc::c_ulong| -> Option<OwnedFd> {
        // SAFETY: no pointers.
        owned(unsafe { libc::ioctl(of.as_raw_fd(), what as _) }.into()).ok()
    };
    let mut inodes = Vec::new();
    let mut next = get(namespace, GET_USER_NAMESPACE);
    while let Some(owner) = next.filter(|_| inodes.len() < DEEPEST) {
        inodes.extend(crate::sys::inode(&owner));
        next = get(&owner, GET_PARENT);
    }
    inodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_user_namespace_owns_or_not() {
        let namespace = std::fs::File::open("/proc/self/ns/net").expect("a namespace");
        let owners = owners(&namespace);
        assert!(owners.len() <= DEEPEST, "{owners:?}");
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("a status");
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:\t"));
        let set = u64::from_str_radix(line.expect("a line"), 16).expect("a number");
        assert_eq!(administers(0), set & 1 << 12 != 0);
        assert!(!administers(u32::MAX >> 1), "there is no such thread");
    }
}
