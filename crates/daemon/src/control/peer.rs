// SPDX-License-Identifier: Apache-2.0

//! Who is at the other end of a connection, as the kernel says (`SO_PEERCRED`, unix(7)).

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Process and user at the other end: who connected, or who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) process: u32,
    pub(crate) user: u32,
}

impl Peer {
    pub(crate) fn of(stream: &UnixStream) -> io::Result<Peer> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        let (to, fd) = ((&raw mut peer).cast(), stream.as_raw_fd());
        // SAFETY: both live through the call, and `peer` is `len` bytes long.
        let result =
            unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, to, &raw mut len) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Peer { process: peer.pid as u32, user: peer.uid })
    }

    /// Whether it is root, or the user that this process runs as: whom this process does as told.
    pub(crate) fn is_trusted(self) -> bool {
        self.user == 0 || self.user == crate::rundir::user()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_user_and_root_are_trusted() {
        let (one, other) = UnixStream::pair().expect("two sockets");
        let peer = Peer::of(&one).expect("who made them");
        assert_eq!((peer.process, peer), (std::process::id(), Peer::of(&other).expect("the same")));
        assert!(peer.is_trusted() && Peer { user: 0, ..peer }.is_trusted());
        assert!(!Peer { user: u32::MAX - 1, ..peer }.is_trusted());
    }
}
