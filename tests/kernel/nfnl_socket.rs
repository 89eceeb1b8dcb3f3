// SPDX-License-Identifier: Apache-2.0

//! A netlink socket of netfilter: requests with what the kernel says to them, and messages that
//! come unasked.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The socket.
pub struct Nfnetlink {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

/// An attribute, padded to four bytes.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + value.len().next_multiple_of(4));
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The attributes of a netlink message, without the flags in their types.
pub fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = vec![];
    while bytes.len() >= 4 {
        let size = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]])).clamp(4, bytes.len());
        found.push((u16::from_ne_bytes([bytes[2], bytes[3]]) & 0x3fff, &bytes[4..size]));
        bytes = bytes.get(size.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

impl Nfnetlink {
    /// Opens it in the present namespace, with room for many messages.
    pub fn open() -> io::Result<Nfnetlink> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: socket takes no pointer; a returned descriptor has no other owner.
        let fd = unsafe {
            match libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_NETFILTER) {
                fd if fd >= 0 => OwnedFd::from_raw_fd(fd),
                _ => return Err(io::Error::last_os_error()),
            }
        };
        // Messages for all come to those alone who have an address.
        // SAFETY: a zeroed sockaddr_nl is valid, and the pointer is to one of the length given.
        let bound = unsafe {
            let mut address: libc::sockaddr_nl = std::mem::zeroed();
            address.nl_family = libc::AF_NETLINK as u16;
            let len = size_of_val(&address) as libc::socklen_t;
            libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len)
        };
        if bound != 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = Nfnetlink { fd, buffer: vec![0; 256 << 10] };
        socket.option(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20)?;
        Ok(socket)
    }

    /// Joins a multicast group (`NFNLGRP_*`).
    pub fn join(&self, group: i32) -> io::Result<()> {
        self.option(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group)
    }

    fn option(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        // SAFETY: the pointer is to a live i32 of the length given.
        let rc = unsafe {
            libc::setsockopt(self.fd.as_raw_fd(), level, name, (&raw const value).cast(), 4)
        };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Sends a request to a subsystem and waits for what the kernel says to it. `resource` is
    /// `res_id` of `struct nfgenmsg`.
    pub fn ask(&self, subsystem: u8, kind: u8, resource: u16, attributes: &[u8]) -> io::Result<()> {
        self.send(subsystem, kind, resource, attributes, libc::NLM_F_REQUEST | libc::NLM_F_ACK)?;
        let mut answer = [0u8; 256];
        // SAFETY: the pointer and length are those of a live buffer. Netlink answers within send.
        let n =
            unsafe { libc::recv(self.fd.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
        let code = match n {
            20.. => i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]),
            0.. => -libc::EIO,
            _ => return Err(io::Error::last_os_error()),
        };
        if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
    }

    /// Sends a request that the kernel carries out without a word.
    pub fn tell(
        &self,
        subsystem: u8,
        kind: u8,
        resource: u16,
        attributes: &[u8],
    ) -> io::Result<()> {
        self.send(subsystem, kind, resource, attributes, libc::NLM_F_REQUEST)
    }

    fn send(
        &self,
        subsystem: u8,
        kind: u8,
        resource: u16,
        attributes: &[u8],
        flags: i32,
    ) -> io::Result<()> {
        let mut message = Vec::new();
        message.extend((20 + attributes.len() as u32).to_ne_bytes());
        message.extend([kind, subsystem]);
        message.extend((flags as u16).to_ne_bytes());
        message.extend([0; 10]);
        message.extend(resource.to_be_bytes());
        message.extend(attributes);
        // SAFETY: the pointer and length are those of a live buffer.
        let n =
            unsafe { libc::send(self.fd.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Asks for whole packets of a log group, each in a message of its own: NFULA_CFG_CMD is
    /// NFULNL_CFG_CMD_BIND, NFULA_CFG_MODE is NFULNL_COPY_PACKET, NFULA_CFG_QTHRESH is 1.
    pub fn listen_to_log(&self, group: u16) -> io::Result<()> {
        const LOG: u8 = 4;
        const CONFIG: u8 = 1;
        self.ask(LOG, CONFIG, group, &attribute(1, &[1]))?;
        self.ask(LOG, CONFIG, group, &attribute(2, &[0, 0, 0xff, 0xff, 2, 0]))?;
        self.ask(LOG, CONFIG, group, &attribute(5, &1u32.to_be_bytes()))
    }

    /// The messages that have come, each with its header.
    pub fn messages(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let mut messages = vec![];
        loop {
            // SAFETY: the pointer and length are those of a live buffer.
            let n = unsafe {
                libc::recv(
                    self.fd.as_raw_fd(),
                    self.buffer.as_mut_ptr().cast(),
                    self.buffer.len(),
                    0,
                )
            };
            let Ok(n) = usize::try_from(n) else {
                let e = io::Error::last_os_error();
                return if e.kind() == io::ErrorKind::WouldBlock { Ok(messages) } else { Err(e) };
            };
            let mut rest = &self.buffer[..n];
            while let Some(len) = rest.first_chunk().map(|b| u32::from_ne_bytes(*b) as usize) {
                let len = len.clamp(20, rest.len().max(20));
                let Some(message) = rest.get(..len) else { break };
                // NLMSG_ERROR is of no subsystem.
                if message[5] != 0 {
                    messages.push(message.to_vec());
                }
                rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
}
