// SPDX-License-Identifier: Apache-2.0

//! Messages between processes of this program, with descriptors: a pair of Unix sockets that keep
//! messages apart (`SOCK_SEQPACKET`, unix(7)).
//!
//! A message is cut into packets; the first byte of each says whether a message begins or ends with
//! it. If one of two writers dies in the middle of a message, the message of the other starts
//! cleanly.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a packet, less than the least buffer of a socket.
const PACKET: usize = 64 << 10;
/// The first packet of a message.
const FIRST: u8 = 1;
/// The last one.
const LAST: u8 = 2;
/// Most descriptors of a message.
const FDS: usize = 2;

/// One end of a pair.
#[derive(Debug)]
pub(crate) struct Channel(OwnedFd);

/// A message that was received.
pub(crate) type Received = (Vec<u8>, Vec<OwnedFd>);

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Room for the descriptors of a message, aligned as `struct cmsghdr` is.
#[repr(C, align(8))]
struct Control([u8; 64]);

impl Channel {
    /// Both ends. What is sent to one that does not receive fails after `patience`.
    pub(crate) fn pair(patience: Duration) -> io::Result<(Channel, Channel)> {
        let mut ends = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
        // SAFETY: room for two descriptors, which lives through the call.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: two new descriptors without another owner.
        let ends = ends.map(|end| Channel(unsafe { OwnedFd::from_raw_fd(end) }));
        let time = libc::timeval {
            tv_sec: patience.as_secs() as _,
            tv_usec: patience.subsec_micros() as _,
        };
        for end in &ends {
            let (value, len) =
                ((&raw const time).cast(), size_of::<libc::timeval>() as libc::socklen_t);
            // SAFETY: the value lives through the call and has the length that is said.
            let set = unsafe {
                libc::setsockopt(end.raw(), libc::SOL_SOCKET, libc::SO_SNDTIMEO, value, len)
            };
            if set != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let [one, other] = ends;
        Ok((one, other))
    }

    pub(crate) fn from_fd(fd: OwnedFd) -> Channel {
        Channel(fd)
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Its descriptor.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0)
    }

    /// Sends a message.
    pub(crate) fn say(&self, message: &impl Serialize) -> io::Result<()> {
        self.say_with(message, &[])
    }

    /// Sends a message with at most two descriptors.
    pub(crate) fn say_with(
        &self,
        message: &impl Serialize,
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes =
            postcard::to_extend(message, Vec::new()).map_err(|_| invalid("not a message"))?;
        self.send(&bytes, fds)
    }

    /// Receives a message of at most `limit` bytes within a time. `None` if the other end is
    /// closed.
    pub(crate) fn hear<T: DeserializeOwned>(
        &self,
        limit: usize,
        time: Option<Duration>,
    ) -> io::Result<Option<T>> {
        let Some((bytes, _)) = self.receive(limit, time)? else { return Ok(None) };
        postcard::from_bytes(&bytes).map(Some).map_err(|_| invalid("not a message"))
    }

    /// Sends bytes.
    pub(crate) fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut packet = Vec::with_capacity(bytes.len().min(PACKET) + 1);
        let mut pieces = bytes.chunks(PACKET).peekable();
        let (mut first, mut left) = (FIRST, true);
        while left {
            let piece = pieces.next().unwrap_or_default();
            left = pieces.peek().is_some();
            packet.clear();
            packet.push(first | if left { 0 } else { LAST });
            packet.extend_from_slice(piece);
            self.send_packet(&packet, if first == FIRST { fds } else { &[] })?;
            first = 0;
        }
        Ok(())
    }

    fn send_packet(&self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut part =
            libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() };
        let mut control = Control([0; 64]);
        // SAFETY: a header of zeroes is one without address, parts and descriptors.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if !fds.is_empty() {
            let len = (fds.len().min(FDS) * size_of::<RawFd>()) as u32;
            header.msg_control = control.0.as_mut_ptr().cast();
            // SAFETY: arithmetic on lengths.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(len) } as _;
            // SAFETY: the control buffer has room for one header and two descriptors, and is
            // aligned for them.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(len) as _;
                let data = libc::CMSG_DATA(first).cast::<RawFd>();
                for (at, fd) in fds.iter().take(FDS).enumerate() {
                    data.add(at).write_unaligned(fd.as_raw_fd());
                }
            }
        }
        // SAFETY: the header and everything it points to live through the call.
        uninterrupted(|| unsafe {
            libc::sendmsg(self.raw(), &raw const header, libc::MSG_NOSIGNAL)
        })?;
        Ok(())
    }

    /// Receives bytes, at most `limit`, within a time. `None` if the other end is closed.
    pub(crate) fn receive(
        &self,
        limit: usize,
        time: Option<Duration>,
    ) -> io::Result<Option<Received>> {
        let until = time.map(|time| Instant::now() + time);
        let (mut bytes, mut fds, mut begun) = (Vec::new(), Vec::new(), false);
        // Most are short, and a child pays for each page that it is the first to write to: the buffer
        // is not cleared.
        let mut packet = Vec::with_capacity(PACKET + 1);
        loop {
            if let Some(until) = until
                && !self.is_ready(Some(until.saturating_duration_since(Instant::now())))?
            {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if !self.receive_packet(&mut packet, &mut fds)? {
                return Ok(None);
            }
            let Some((flags, piece)) = packet.split_first() else {
                return Err(invalid("an empty packet"));
            };
            if flags & FIRST != 0 {
                bytes.clear();
                begun = true;
            } else if !begun {
                // The rest of a message that another receiver has begun.
                continue;
            }
            if bytes.len() + piece.len() > limit {
                return Err(invalid("a message too long"));
            }
            bytes.extend_from_slice(piece);
            if flags & LAST != 0 {
                return Ok(Some((bytes, fds)));
            }
        }
    }

    /// Whether something can be received, or the other end is closed, within a time.
    pub(crate) fn is_ready(&self, time: Option<Duration>) -> io::Result<bool> {
        let milliseconds = time.map_or(-1, |time| time.as_millis().min(i32::MAX as u128) as i32);
        let mut poll = libc::pollfd { fd: self.raw(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which lives through the call.
        let ready =
            uninterrupted(|| unsafe { libc::poll(&raw mut poll, 1, milliseconds) } as isize)?;
        Ok(ready > 0)
    }

    /// Receives a packet, up to the capacity of the buffer; `false` if the other end is closed.
    fn receive_packet(&self, packet: &mut Vec<u8>, fds: &mut Vec<OwnedFd>) -> io::Result<bool> {
        packet.clear();
        let room = packet.spare_capacity_mut();
        let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        let mut control = Control([0; 64]);
        // SAFETY: a header of zeroes is one without address, parts and descriptors.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = size_of::<Control>() as _;
        // SAFETY: the header and everything it points to live through the call, which fills the
        // packet and the control buffer up to the lengths given.
        let receive =
            || unsafe { libc::recvmsg(self.raw(), &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        let got = or_closed(uninterrupted(receive))?;
        // SAFETY: the kernel has filled the control buffer, and the macros stay inside the length
        // in the header; the descriptors are new and have no other owner.
        unsafe {
            let mut at = libc::CMSG_FIRSTHDR(&raw const header);
            while let Some(message) = at.as_ref() {
                if message.cmsg_level == libc::SOL_SOCKET && message.cmsg_type == libc::SCM_RIGHTS {
                    #[allow(
                        clippy::unnecessary_cast,
                        reason = "its type is another one in other C libraries"
                    )]
                    let len = message.cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                    let data = libc::CMSG_DATA(at).cast::<RawFd>();
                    for number in 0..len / size_of::<RawFd>() {
                        fds.push(OwnedFd::from_raw_fd(data.add(number).read_unaligned()));
                    }
                }
                at = libc::CMSG_NXTHDR(&raw const header, at);
            }
        }
        // SAFETY: the call has filled as many bytes, which is no more than there was room for.
        unsafe { packet.set_len(got.min(packet.capacity())) };
        Ok(got > 0)
    }
}

/// Makes a system call until no signal interrupts it.
fn uninterrupted(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(result) => return Ok(result),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// The received bytes: none from a peer that closed with unread data.
fn or_closed(received: io::Result<usize>) -> io::Result<usize> {
    match received {
        Err(e) if e.kind() == io::ErrorKind::ConnectionReset => Ok(0),
        received => received,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn messages_of_all_lengths_arrive_whole_with_their_descriptors() {
        let (one, other) = Channel::pair(PATIENCE).unwrap();
        for len in [0, 1, PACKET - 1, PACKET, PACKET + 1, 5 * PACKET] {
            let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
            std::thread::scope(|scope| {
                let sent = scope.spawn(|| one.send(&bytes, &[one.as_fd()]));
                let (got, fds) = other.receive(usize::MAX, Some(PATIENCE)).unwrap().unwrap();
                assert!(got == bytes && fds.len() == 1, "{len}");
                sent.join().unwrap().unwrap();
            });
        }
        // A partial message of a dead writer is skipped.
        for half in [&[FIRST, 1, 2][..], &[0, 3], &[LAST, 4]] {
            one.send_packet(half, &[]).unwrap();
            one.send(&[7], &[]).unwrap();
            assert_eq!(other.receive(9, Some(PATIENCE)).unwrap().unwrap().0, [7], "{half:?}");
        }
        one.send(&[0; 10], &[]).unwrap();
        assert!(other.receive(9, Some(PATIENCE)).is_err());
        let nothing = other.receive(9, Some(Duration::ZERO)).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::TimedOut);
        drop(one);
        assert!(other.receive(9, Some(PATIENCE)).unwrap().is_none());
    }
}
