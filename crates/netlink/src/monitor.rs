// SPDX-License-Identifier: Apache-2.0

//! What the kernel tells of changes.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::links::is_permanent;
use crate::message::Message;
use crate::socket::Socket;
use crate::{neighbour, nexthop};

/// `RTNLGRP_*`: links, neighbours, and for both families addresses, routes, rules and settings of
/// devices.
const GROUPS: [i32; 10] = [1, 3, 5, 7, 8, 9, 11, 19, 24, 25];
/// `RTM_NEWNETCONF`, `RTM_DELNETCONF`.
const NEW_NETCONF: u16 = 80;
const DEL_NETCONF: u16 = 81;
/// Bytes of notifications that wait for us.
const QUEUED: i32 = 16 << 20;

/// Parts of the state that must be read again, and reported neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    pub(crate) links: bool,
    pub(crate) addresses: bool,
    pub(crate) routes4: bool,
    pub(crate) routes6: bool,
    pub(crate) rules: bool,
    pub(crate) nexthops: bool,
    pub(crate) neighbours: bool,
    pub(crate) policies: bool,
    devconf: bool,
    pub(crate) told: Vec<Message>,
    /// Neighbours without a recent confirmation.
    stale: BTreeSet<(u32, IpAddr)>,
}

impl Changed {
    /// All of it.
    pub fn everything() -> Changed {
        Changed {
            links: true,
            addresses: true,
            routes4: true,
            routes6: true,
            rules: true,
            nexthops: true,
            neighbours: true,
            policies: true,
            devconf: true,
            ..Changed::default()
        }
    }

    /// Nothing.
    pub fn is_empty(&self) -> bool {
        *self == Changed::default()
    }

    /// Whether links are among it.
    pub fn links(&self) -> bool {
        self.links
    }

    /// Whether what stands on links may be another: links, addresses, routes, nexthop objects,
    /// neighbours that stay.
    pub fn standing(&self) -> bool {
        let stays = |told: &Message| told.kind == libc::RTM_DELNEIGH || is_permanent(&told.body);
        let routes = self.routes4 || self.routes6 || self.nexthops;
        self.links || self.addresses || routes || self.told.iter().any(stays)
    }

    /// Whether IPsec policies are among it.
    pub fn policies(&self) -> bool {
        self.policies
    }

    /// IPsec policies have changed, too.
    pub fn note_policies(&mut self) {
        self.policies = true;
    }

    /// Whether settings of devices may be among it.
    pub fn devconf(&self) -> bool {
        self.devconf
    }

    /// Settings of devices have changed, too.
    pub fn note_devconf(&mut self) {
        self.devconf = true;
    }

    /// The neighbours that have become stale, once.
    pub fn take_stale(&mut self) -> Vec<(u32, IpAddr)> {
        std::mem::take(&mut self.stale).into_iter().collect()
    }

    /// Notes what a notification says.
    pub fn note(&mut self, message: Message) {
        match message.kind {
            libc::RTM_NEWLINK | libc::RTM_DELLINK => {
                // Addresses, routes and neighbours may go with a link, some of them in silence.
                let stale = std::mem::take(&mut self.stale);
                let Changed { rules, policies, .. } = *self;
                *self = Changed { rules, policies, stale, ..Changed::everything() };
            }
            // Only some settings cause notifications; the others must be read.
            NEW_NETCONF | DEL_NETCONF => self.devconf = true,
            libc::RTM_NEWADDR | libc::RTM_DELADDR => {
                // Routes of an address, and those with it as their source, go in silence.
                (self.addresses, self.routes4, self.routes6) = (true, true, true);
            }
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                match message.body.first().map(|family| i32::from(*family)) {
                    Some(libc::AF_INET) => self.routes4 = true,
                    Some(libc::AF_INET6) => self.routes6 = true,
                    _ => {}
                }
            }
            libc::RTM_NEWRULE | libc::RTM_DELRULE => self.rules = true,
            // Routes by one that goes do so in silence.
            nexthop::NEW | nexthop::DEL => {
                (self.nexthops, self.routes4, self.routes6) = (true, true, true);
            }
            libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => {
                let Some(n) = neighbour::read(&message) else { return };
                if n.stale && message.kind == libc::RTM_NEWNEIGH {
                    self.stale.insert((n.link, n.address));
                }
                if !self.neighbours {
                    self.told.push(message);
                }
            }
            _ => {}
        }
    }
}

/// A socket that receives notifications.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
}

impl Monitor {
    /// From now on.
    pub fn new() -> io::Result<Monitor> {
        let socket = Socket::open(libc::NETLINK_ROUTE, libc::SOCK_NONBLOCK)?;
        socket
            .set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, QUEUED)
            .or_else(|_| socket.set(libc::SOL_SOCKET, libc::SO_RCVBUF, QUEUED))?;
        for group in GROUPS {
            socket.set(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group)?;
        }
        // Kernels before 5.3 have no nexthop objects.
        let _ = socket.set(libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, nexthop::GROUP);
        Ok(Monitor { socket })
    }

    /// Adds what was told since the last time. `false` if some of it was lost, so that everything
    /// may have changed.
    pub fn take(&mut self, changed: &mut Changed) -> io::Result<bool> {
        let mut whole = true;
        loop {
            match self.socket.receive() {
                Ok(messages) => messages.into_iter().for_each(|message| changed.note(message)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(whole),
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                    whole = false;
                    *changed = Changed::everything();
                }
                Err(e) => return Err(e),
            }
        }
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Socket {
    /// Has the kernel find out the link address of a neighbour, or confirm it: it asks on the wire.
    pub fn resolve(&mut self, link: u32, neighbour: IpAddr) -> io::Result<()> {
        const CREATE: u16 = 0x400;
        self.change(libc::RTM_NEWNEIGH, CREATE, &neighbour::question(link, neighbour))
    }
}
