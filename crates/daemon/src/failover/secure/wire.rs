// SPDX-License-Identifier: Apache-2.0

//! A connection of TCP that does not wait, and what is on its way in both directions.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use penstock_ctsync::secure::LONGEST_FRAME;

use crate::failover::sockets::{bind, connect, open};

/// Bytes that are received at most before they are looked at.
const RECEIVED: usize = 4 * LONGEST_FRAME;

pub(super) struct Wire {
    stream: TcpStream,
    /// What was received and not taken yet.
    received: Vec<u8>,
    /// What waits to be sent.
    pub(super) sending: VecDeque<u8>,
}

impl Wire {
    /// A connection that was accepted.
    pub(super) fn accepted(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Self::of(stream)
    }

    /// Begins to connect, from one address to another.
    pub(super) fn connecting(from: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let socket = open(to.is_ipv4(), libc::SOCK_STREAM)?;
        bind(&socket, SocketAddr::new(from.ip(), 0))?;
        connect(&socket, to)?;
        Self::of(TcpStream::from(socket))
    }

    fn of(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Wire { stream, received: Vec::new(), sending: VecDeque::new() })
    }

    /// What is waited for, and whether that it can be written to.
    pub(super) fn waits(&self) -> (BorrowedFd<'_>, bool) {
        (self.stream.as_fd(), !self.sending.is_empty())
    }

    /// What was received and not taken yet.
    pub(super) fn received(&self) -> &[u8] {
        &self.received
    }

    /// So many bytes of it are taken.
    pub(super) fn take(&mut self, bytes: usize) {
        self.received.drain(..bytes.min(self.received.len()));
    }

    /// Receives what is there, as far as there is place. Whether there was something.
    ///
    /// # Errors
    /// The connection is no more.
    pub(super) fn receive(&mut self) -> io::Result<bool> {
        let before = self.received.len();
        let mut part = [0; 16 << 10];
        while self.received.len() < RECEIVED {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => self.received.extend(part.get(..len).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // It is not connected yet, or nothing is there.
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::NotConnected => break,
                Err(e) => return Err(e),
            }
        }
        Ok(self.received.len() > before)
    }

    /// Sends what waits, as far as it is taken.
    ///
    /// # Errors
    /// The connection is no more.
    pub(super) fn send(&mut self) -> io::Result<()> {
        while !self.sending.is_empty() {
            let (first, _) = self.sending.as_slices();
            match self.stream.write(first) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => drop(self.sending.drain(..len)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::NotConnected => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
