// SPDX-License-Identifier: Apache-2.0

//! Programs in front of the dataplane of their network namespace.
//!
//! All that is known of a socket is here, and goes with each of its requests: a connection that
//! breaks is opened again for the next request, and another dataplane answers as well.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use penstock_daemon::control::exec::Connection;
use penstock_daemon::control::netfilter::{self, Datagram, Recipient};
use penstock_launcher::{Answers, FoundIpSet, IpSetKey, Notification, Request, Service, SocketId};
use penstock_nfnetlink::{Client, asks_for_packets, only_decides};
use penstock_ruleset::Errno;

use crate::ip_sets;

/// Messages of the dataplane that are heard before programs are told of them: where much happens to
/// connections there is always another one.
const AT_ONCE: usize = 64;

/// A socket of a program.
#[derive(Debug, Default)]
struct Socket {
    port: u32,
    /// Longest buffer that the program receives into, in bytes.
    receives_into: usize,
    /// Options of level `SOL_NETLINK`, a bit for each number.
    options: u32,
    may_change: bool,
    /// It has asked for packets of queues or logs.
    wants_packets: bool,
    /// It has sent requests that may change something.
    changes: bool,
}

/// Answers programs from the dataplane of the network namespace.
#[derive(Debug, Default)]
pub struct LiveService {
    sockets: HashMap<SocketId, Socket>,
    connection: Option<Connection>,
    /// Tells of what the dataplane says (epoll(7)): connections change, this stays. Made when it
    /// starts, since a launcher closes descriptors that were open before.
    events: Option<OwnedFd>,
    /// The groups that sockets are members of, group 1 in the lowest bit.
    groups: u32,
    /// Datagrams for single sockets.
    direct: Vec<(SocketId, Vec<u8>)>,
    /// What members of groups have yet to be told.
    untold: Vec<Datagram>,
    /// The network namespace; `None` for that of the process.
    namespace: Option<OwnedFd>,
}

impl LiveService {
    /// The connection to the dataplane, opened again where it was closed.
    ///
    /// # Errors
    /// There is no dataplane, or it does not answer.
    fn connection(&mut self, before: &mut Vec<Datagram>) -> io::Result<&mut Connection> {
        if let Some(connection) = &mut self.connection {
            // What was said comes first; a dataplane that has gone says nothing more.
            for heard in 0.. {
                // What was received already nothing tells of later.
                if !connection.has_received() && (heard >= AT_ONCE || !connection.has_said()) {
                    break;
                }
                match connection.hear() {
                    Ok(mut datagrams) => before.append(&mut datagrams),
                    Err(_) => {
                        self.broken(before);
                        break;
                    }
                }
            }
        }
        if self.connection.is_none() {
            let opened = Connection::open(self.namespace.as_ref().map(AsFd::as_fd))?;
            let mut opened = opened.ok_or(io::ErrorKind::NotConnected)?;
            if self.groups != 0 {
                before.append(&mut opened.listen(self.groups)?);
            }
            if let Some(events) = &self.events {
                watch(events, &opened)?;
            }
            self.connection = Some(opened);
        }
        self.connection.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// What goes to whom.
    fn sorted(&mut self, all: Vec<Datagram>) -> Answers {
        let mut answers = Answers::default();
        for Datagram { to, bytes: datagram } in all {
            match to {
                Recipient::Sender => answers.datagrams.push(datagram),
                Recipient::Others(group) => {
                    answers.notifications.push(Notification { group, datagram })
                }
                Recipient::All(group) => answers.before.push(Notification { group, datagram }),
                Recipient::Port(port) => {
                    let socket = self.sockets.iter().find(|(_, socket)| socket.port == port);
                    self.direct.extend(socket.map(|(id, _)| (*id, datagram)));
                }
            }
        }
        answers
    }

    /// Forgets a connection that is broken: sockets that are members of groups may have missed
    /// something.
    fn broken(&mut self, before: &mut Vec<Datagram>) {
        self.connection = None;
        before.extend(lost(self.groups));
    }
}

/// Tells members of groups, group 1 in the lowest bit, that they missed something.
fn lost(groups: u32) -> impl Iterator<Item = Datagram> {
    let missed = (1..=u32::BITS).filter(move |group| groups >> (group - 1) & 1 != 0);
    missed.map(|group| Datagram { to: Recipient::All(group), bytes: Vec::new() })
}

fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Has what a connection says wake the launcher. One that is closed is no longer watched.
fn watch(events: &OwnedFd, connection: &Connection) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    let fd = connection.as_fd().as_raw_fd();
    // SAFETY: the event lives through the call, which only reads it.
    match unsafe { libc::epoll_ctl(events.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Service for LiveService {
    fn start(&mut self) -> io::Result<Option<BorrowedFd<'_>>> {
        self.events = Some(epoll()?);
        self.connection(&mut Vec::new())?;
        Ok(self.events.as_ref().map(AsFd::as_fd))
    }

    fn look(&mut self, listened: u32) -> Vec<Notification> {
        let mut told = std::mem::take(&mut self.untold);
        let changes = listened != self.groups;
        self.groups = listened;
        let had = self.connection.is_some();
        match self.connection(&mut told) {
            // A new connection knows it already.
            Ok(connection) if changes && had => match connection.listen(listened) {
                Ok(mut datagrams) => told.append(&mut datagrams),
                Err(_) => self.broken(&mut told),
            },
            Ok(_) => {}
            Err(_) => self.connection = None,
        }
        self.sorted(told).before
    }

    fn elsewhere(&mut self, namespace: OwnedFd) -> Option<Box<dyn Service>> {
        // It starts if there is a dataplane.
        Some(Box::new(LiveService { namespace: Some(namespace), ..LiveService::default() }))
    }

    fn open(&mut self, socket: SocketId, may_change: bool) {
        self.sockets.insert(socket, Socket { may_change, ..Socket::default() });
    }

    fn wants_name(&self, datagram: &[u8]) -> bool {
        !only_decides(datagram)
    }

    fn bind(&mut self, socket: SocketId, port: u32) {
        if let Some(socket) = self.sockets.get_mut(&socket) {
            socket.port = port;
        }
    }

    fn set_option(&mut self, socket: SocketId, option: i32, on: bool) {
        if let Some(socket) = self.sockets.get_mut(&socket)
            && let Some(bit) = u32::try_from(option).ok().and_then(|n| 1u32.checked_shl(n))
        {
            socket.options = socket.options & !bit | if on { bit } else { 0 };
        }
    }

    fn receives_into(&mut self, socket: SocketId, bytes: usize) {
        if let Some(socket) = self.sockets.get_mut(&socket) {
            socket.receives_into = socket.receives_into.max(bytes);
        }
    }

    fn ip_set(&mut self, key: IpSetKey<'_>) -> Option<FoundIpSet> {
        let asked = netfilter::Request {
            port: 0,
            receives_into: 0,
            thread: 0,
            name: String::new(),
            may_change: false,
            listened: false,
            options: 0,
            datagram: ip_sets::request(key),
        };
        let mut told = Vec::new();
        let answered = self.connection(&mut told).and_then(|connection| connection.ask(asked));
        // What is told meanwhile is for others.
        let (answers, others) = match answered {
            Ok(datagrams) => datagrams.into_iter().partition(|d| d.to == Recipient::Sender),
            Err(_) => (Vec::new(), Vec::new()),
        };
        self.untold.extend(told);
        self.untold.extend::<Vec<_>>(others);
        let answers: Vec<_> =
            answers.into_iter().map(|datagram: Datagram| datagram.bytes).collect();
        ip_sets::found(&answers)
    }

    fn receive(&mut self, socket: SocketId, request: &Request<'_>) -> Answers {
        let Some(socket) = self.sockets.get_mut(&socket) else { return Answers::default() };
        socket.wants_packets |= asks_for_packets(request.datagram);
        let may_change = socket.may_change && request.sender.may_change;
        socket.changes |= may_change && penstock_nfnetlink::may_change(request.datagram);
        let Socket { port, receives_into, options, .. } = socket;
        let port = *port;
        let asked = netfilter::Request {
            port,
            receives_into: u32::try_from(*receives_into).unwrap_or(u32::MAX),
            thread: request.sender.thread,
            name: request.sender.name.clone(),
            may_change,
            listened: request.listened != 0,
            options: *options,
            datagram: request.datagram.to_vec(),
        };
        let mut told = std::mem::take(&mut self.untold);
        let decides = only_decides(request.datagram);
        // What the dataplane says meanwhile is heard later: there are verdicts for each packet.
        let connection = match self.connection.is_some() && decides {
            true => self.connection.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into()),
            false => self.connection(&mut told),
        };
        let answered = match connection {
            Ok(connection) if connection.longest() >= request.datagram.len() && decides => {
                connection.hold(asked).map(|()| Vec::new()).map_err(|_| Errno::Eio)
            }
            Ok(connection) if connection.longest() < request.datagram.len() => Err(Errno::Eperm),
            Ok(connection) => connection.ask(asked).map_err(|_| Errno::Eio),
            Err(_) => Err(Errno::Eio),
        };
        match answered {
            Ok(mut datagrams) => told.append(&mut datagrams),
            Err(errno) => {
                if errno == Errno::Eio && self.connection.is_some() {
                    self.broken(&mut told);
                }
                let refused = Client::new(port).refuse(request.datagram, errno).datagrams;
                let to = Recipient::Sender;
                told.extend(refused.into_iter().map(|bytes| Datagram { to, bytes }));
            }
        }
        self.sorted(told)
    }

    fn close(&mut self, socket: SocketId) -> Answers {
        let Some(closed) = self.sockets.remove(&socket) else { return Answers::default() };
        let mut told = Vec::new();
        // A dataplane that has gone keeps nothing, nor does a socket that has asked for nothing.
        if (closed.wants_packets || closed.changes)
            && let Some(connection) = &mut self.connection
        {
            match connection.closed(closed.port) {
                Ok(mut datagrams) => told.append(&mut datagrams),
                Err(_) => self.broken(&mut told),
            }
        }
        self.sorted(told)
    }

    fn end(&mut self) {
        let left: Vec<_> = self.sockets.keys().copied().collect();
        left.into_iter().for_each(|socket| drop(self.close(socket)));
    }

    fn settle(&mut self) {
        let sent = self.connection.as_mut().map_or(Ok(()), Connection::send_held);
        if sent.is_err() {
            let mut told = std::mem::take(&mut self.untold);
            self.broken(&mut told);
            self.untold = told;
        }
    }

    fn take_direct(&mut self) -> Vec<(SocketId, Vec<u8>)> {
        std::mem::take(&mut self.direct)
    }
}
