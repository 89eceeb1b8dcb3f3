// SPDX-License-Identifier: Apache-2.0

//! A socket to the kernel's routing.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::message::Message;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
/// A dump changed while it was made.
const NLM_F_DUMP_INTR: u16 = 0x10;

/// How often a message is sent for which the kernel has no memory, and how long is waited in
/// between.
const TRIES: u32 = 10;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// The source of the state of a network namespace: the kernel through a [`Socket`].
pub trait Answers {
    /// Everything of a kind, for instance `RTM_GETLINK` with the body of an `ifinfomsg`.
    ///
    /// # Errors
    /// Those of netlink.
    fn dump(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Message>>;
}

impl Answers for Socket {
    fn dump(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Message>> {
        Socket::dump(self, kind, body)
    }
}

/// Asks and changes, one request at a time.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

fn check(result: i64) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl Socket {
    /// A socket in the network namespace of the thread.
    pub fn new() -> io::Result<Self> {
        Self::open(libc::NETLINK_ROUTE, 0)
    }

    pub(crate) fn open(protocol: i32, flags: i32) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | flags;
        // SAFETY: no pointers.
        let fd = check(unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) }.into())?;
        // SAFETY: a new descriptor without another owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        // SAFETY: all zeroes are a valid address: the kernel chooses.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: the address lives through the call and is that long.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) }.into())?;
        Ok(Socket { fd, sequence: 0, buffer: vec![0; 256 << 10] })
    }

    pub(crate) fn set(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        let len = size_of::<i32>() as libc::socklen_t;
        // SAFETY: the value lives through the call and is that long.
        let result = unsafe {
            libc::setsockopt(self.fd.as_raw_fd(), level, name, (&raw const value).cast(), len)
        };
        check(result.into()).map(|_| ())
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = Message {
            kind,
            flags: flags | NLM_F_REQUEST,
            sequence: self.sequence,
            body: body.to_vec(),
        };
        let bytes = message.bytes();
        for attempt in 1.. {
            let fd = self.fd.as_raw_fd();
            // SAFETY: the bytes live through the call.
            match check(unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), 0) } as i64) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The kernel has no memory for it at this moment.
                Err(e)
                    if attempt < TRIES
                        && [Some(libc::ENOBUFS), Some(libc::ENOMEM)]
                            .contains(&e.raw_os_error()) =>
                {
                    std::thread::sleep(PAUSE);
                }
                sent => return sent.map(|_| ()),
            }
        }
        Ok(())
    }

    /// The next datagram's messages.
    pub(crate) fn receive(&mut self) -> io::Result<Vec<Message>> {
        loop {
            let (fd, to, len) = (self.fd.as_raw_fd(), self.buffer.as_mut_ptr(), self.buffer.len());
            // SAFETY: the buffer lives through the call and has that many bytes.
            match check(unsafe { libc::recv(fd, to.cast(), len, 0) } as i64) {
                Ok(len) => return Ok(Message::all(self.buffer.get(..len).unwrap_or_default())),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// The next datagram's messages, if there is one already.
    pub(crate) fn receive_now(&mut self) -> io::Result<Option<Vec<Message>>> {
        let (fd, to, len) = (self.fd.as_raw_fd(), self.buffer.as_mut_ptr(), self.buffer.len());
        // SAFETY: the buffer lives through the call and has that many bytes.
        match check(unsafe { libc::recv(fd, to.cast(), len, libc::MSG_DONTWAIT) } as i64) {
            Ok(len) => Ok(Some(Message::all(self.buffer.get(..len).unwrap_or_default()))),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Some(Vec::new())),
            Err(e) => Err(e),
        }
    }

    /// Takes what it was told, without looking at it; whether it was anything. The socket does not
    /// block.
    pub(crate) fn was_told(&mut self) -> io::Result<bool> {
        let mut told = false;
        loop {
            match self.receive() {
                Ok(_) => told = true,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(told),
                // Some were lost.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => told = true,
                Err(e) => return Err(e),
            }
        }
    }

    /// What a message about an error says: the error, or none.
    pub(crate) fn error(message: &Message) -> io::Result<()> {
        let code = message.head::<4>().map_or(0, |head| i32::from_ne_bytes(*head));
        if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
    }

    /// Everything of a kind, for instance `RTM_GETLINK` with the body of an `ifinfomsg`.
    pub fn dump(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Message>> {
        /// Dumps that are made again because something changed meanwhile.
        const TRIES: u32 = 5;
        for attempt in 1.. {
            let (mut all, mut whole, mut done) = (Vec::new(), true, false);
            self.send(kind, NLM_F_DUMP, body)?;
            while !done {
                for message in self.receive()?.into_iter().filter(|m| m.sequence == self.sequence) {
                    whole &= message.flags & NLM_F_DUMP_INTR == 0;
                    match message.kind {
                        NLMSG_DONE => done = true,
                        NLMSG_ERROR => {
                            Self::error(&message)?;
                            done = true;
                        }
                        _ => all.push(message),
                    }
                }
            }
            // A change also notifies, so what is not whole is read again later.
            if whole || attempt == TRIES {
                return Ok(all);
            }
        }
        Ok(Vec::new())
    }

    /// The answer to a question that has one; nothing if the kernel knows no such question.
    pub(crate) fn ask(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Message>> {
        self.send(kind, 0, body)?;
        loop {
            let mut answer = self.receive()?;
            answer.retain(|m| m.sequence == self.sequence);
            match answer.first() {
                None => {}
                Some(message) if message.kind == NLMSG_ERROR => return Ok(Vec::new()),
                Some(_) => return Ok(answer),
            }
        }
    }

    /// Sends messages that belong together, with numbers from 1 on, and waits for the answer to the
    /// one that asks for it.
    pub(crate) fn transact(&mut self, messages: &[Message]) -> io::Result<()> {
        let bytes: Vec<u8> = messages.iter().flat_map(Message::bytes).collect();
        // SAFETY: the bytes live through the call.
        check(unsafe { libc::send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) }
            as i64)?;
        loop {
            if let Some(message) = self.receive()?.iter().find(|m| m.kind == NLMSG_ERROR) {
                return Self::error(message);
            }
        }
    }

    /// Changes something, and waits until it is done.
    pub fn change(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.send(kind, flags | NLM_F_ACK, body)?;
        loop {
            for message in self.receive()?.into_iter().filter(|m| m.sequence == self.sequence) {
                if message.kind == NLMSG_ERROR {
                    return Self::error(&message);
                }
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
