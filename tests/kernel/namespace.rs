// SPDX-License-Identifier: Apache-2.0

//! Network namespaces without names: they live as long as a process holds them, so nothing is left
//! however a test ends.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A network namespace.
pub struct Namespace(File);

impl Namespace {
    /// A new, empty one. The calling thread stays where it is.
    pub fn new() -> io::Result<Namespace> {
        std::thread::spawn(|| {
            // SAFETY: unshare of the network namespace concerns the calling thread only and takes
            // no pointer.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Namespace(File::open("/proc/thread-self/ns/net")?))
        })
        .join()
        .expect("the thread does not panic")
    }

    /// Moves the calling thread into it; processes that it starts are born there.
    pub fn enter(&self) -> io::Result<()> {
        // SAFETY: setns takes a descriptor that is open as long as `self`.
        match unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A path that other processes can open as long as this process holds the namespace.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}
