// SPDX-License-Identifier: Apache-2.0

//! A socket to the kernel's nf_tables that commits transactions and reads dumps. Tables with
//! `NFT_TABLE_F_OWNER` that it makes belong to it (`net/netfilter/nf_tables_api.c`).

use std::io;
use std::os::fd::AsRawFd;

use crate::message::Message;
use crate::nftables::SUBSYSTEM;
use crate::socket::Socket;

/// `NLMSG_ERROR`
const ERROR: u16 = 2;
/// Bytes of a batch and of its answers at most. The kernel allocates what is used.
const BUFFER: i32 = 256 << 20;

/// A socket, and the tables that it owns.
#[derive(Debug)]
pub struct RulesSocket {
    socket: Socket,
}

/// A transaction that the kernel has refused.
#[derive(Debug)]
pub struct NotCommitted {
    /// The sequence number of the message that it blames; `None` if it is all of them.
    pub message: Option<u32>,
    /// Why.
    pub error: io::Error,
}

impl NotCommitted {
    fn whole(error: io::Error) -> Self {
        NotCommitted { message: None, error }
    }
}

impl RulesSocket {
    /// In the network namespace of the thread.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn new() -> io::Result<Self> {
        let socket = Socket::open(libc::NETLINK_NETFILTER, 0)?;
        // Without the right to it, small batches still pass.
        for (option, size) in [(libc::SO_SNDBUFFORCE, BUFFER), (libc::SO_RCVBUFFORCE, BUFFER / 8)] {
            let _ = socket.set(libc::SOL_SOCKET, option, size);
        }
        // Errors do not repeat the message.
        let _ = socket.set(libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, 1);
        Ok(RulesSocket { socket })
    }

    /// Sends the messages of a batch, of which the one with the number `last` asks for an answer,
    /// and waits for what the kernel says. With an error nothing of it has been done.
    ///
    /// # Errors
    /// The first error that the kernel reports.
    pub fn commit(&mut self, batch: &[u8], last: u32) -> Result<(), NotCommitted> {
        let (fd, bytes) = (self.socket.fd(), batch.as_ptr().cast());
        // SAFETY: the bytes live through the call.
        let sent = unsafe { libc::send(fd, bytes, batch.len(), 0) };
        if sent < 0 {
            return Err(NotCommitted::whole(io::Error::last_os_error()));
        }
        // The kernel has answered when send(2) returns.
        let mut done = false;
        let mut refused: Option<NotCommitted> = None;
        loop {
            match self.socket.receive_now() {
                Ok(None) => break,
                Ok(Some(messages)) => {
                    for message in messages.iter().filter(|message| message.kind == ERROR) {
                        match Socket::error(message) {
                            Ok(()) => done |= message.sequence == last,
                            Err(error) if refused.is_none() => {
                                let message = Some(message.sequence);
                                refused = Some(NotCommitted { message, error });
                            }
                            Err(_) => {}
                        }
                    }
                }
                Err(error) => {
                    refused = refused.or(Some(NotCommitted::whole(error)));
                    break;
                }
            }
        }
        match refused {
            Some(refused) => Err(refused),
            None if done => Ok(()),
            None => Err(NotCommitted::whole(io::Error::other("the kernel gives no answer"))),
        }
    }

    /// All answers to a request for a dump: a message (`NFT_MSG_GET*`) and its body after the
    /// `struct nlmsghdr`. Bodies of the answers begin there, too.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn dump(&mut self, number: u8, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let all = self.socket.dump(SUBSYSTEM << 8 | u16::from(number), body)?;
        Ok(all.into_iter().map(|message: Message| message.body).collect())
    }

    /// The answer to a request for one thing; none if there is no such thing.
    ///
    /// # Errors
    /// Those of netlink.
    pub fn ask(&mut self, number: u8, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let all = self.socket.ask(SUBSYSTEM << 8 | u16::from(number), body)?;
        Ok(all.into_iter().map(|message: Message| message.body).collect())
    }
}

impl Socket {
    fn fd(&self) -> i32 {
        use std::os::fd::AsFd;
        self.as_fd().as_raw_fd()
    }
}
