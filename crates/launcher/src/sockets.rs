// SPDX-License-Identifier: Apache-2.0

//! All sockets that programs have, and what answers them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use crate::datagram::Datagram;
use crate::notify::Call;
use crate::rights;
use crate::service::{Answers, Notification, Request, Sender, Service, SocketId};
use crate::socket::{Socket, pair};
use crate::sys::{self, Errno, check};

/// Bytes of answers that may wait for one program.
const MOST_BACKLOG: usize = 128 << 20;
/// Bytes of answers that may wait for all programs.
const MOST_BACKLOGS: usize = 512 << 20;
/// Bytes of notifications that may wait for one program.
const MOST_EVENTS: usize = 1 << 20;
/// First port id of further sockets of a process, which count down from it (`netlink_autobind()`).
const FIRST_ROVER: u32 = -4097i32 as u32;

/// A receive that waits for a datagram.
pub(crate) struct Waiting {
    /// The call.
    pub call: Call,
    /// Inode of the socket.
    pub inode: u64,
    /// When it ends without one (`SO_RCVTIMEO`).
    pub deadline: Option<Instant>,
}

/// The number of the launcher's own network namespace.
pub(crate) const OWN: u64 = 0;
/// Most network namespaces besides that.
const MOST_SPACES: usize = 256;

/// A network namespace, and what answers in it.
struct Space {
    /// `net:[INODE]`, and the namespace itself: its inode is no other one's while this is open.
    /// `None` for the launcher's own.
    namespace: Option<(String, OwnedFd)>,
    service: Box<dyn Service>,
    /// See [`Socket::owners`].
    owners: Arc<[u64]>,
    /// The next port id of a socket that gets any.
    rover: u32,
}

/// All sockets, by the inode of the program's end, and what answers them.
pub(crate) struct Sockets {
    sockets: HashMap<u64, Socket>,
    /// By their numbers, which are not given again.
    spaces: BTreeMap<u64, Space>,
    next_space: u64,
    /// By thread: a thread waits in one call.
    waiting: HashMap<u32, Waiting>,
    /// Inodes of sockets that got a datagram or an error.
    touched: Vec<u64>,
    most: usize,
}

impl Sockets {
    /// None yet, and at most so many.
    pub(crate) fn new(service: Box<dyn Service>, most: usize) -> Self {
        let owners = Arc::default();
        let own = Space { namespace: None, service, owners, rover: FIRST_ROVER };
        Sockets {
            sockets: HashMap::new(),
            spaces: BTreeMap::from([(OWN, own)]),
            next_space: OWN + 1,
            waiting: HashMap::new(),
            touched: Vec::new(),
            most,
        }
    }

    /// The socket with an inode.
    pub(crate) fn get(&mut self, inode: u64) -> Option<&mut Socket> {
        self.sockets.get_mut(&inode)
    }

    /// What answers in a network namespace.
    pub(crate) fn service(&mut self, space: u64) -> Option<&mut dyn Service> {
        match self.spaces.get_mut(&space) {
            Some(space) => Some(&mut *space.service),
            None => None,
        }
    }

    /// What answers a socket.
    pub(crate) fn service_of(&mut self, inode: u64) -> Option<&mut dyn Service> {
        let space = self.sockets.get(&inode)?.space;
        self.service(space)
    }

    /// The number of a network namespace by its name.
    pub(crate) fn space_named(&self, name: &str) -> Option<u64> {
        let is_it = |space: &Space| space.namespace.as_ref().is_some_and(|(own, _)| own == name);
        self.spaces.iter().find(|(_, space)| is_it(space)).map(|(number, _)| *number)
    }

    /// Adds a network namespace, if something other than the kernel answers there. Returns its
    /// number, and the descriptor to wait for.
    pub(crate) fn add_space(
        &mut self,
        name: String,
        namespace: OwnedFd,
    ) -> Option<(u64, Option<RawFd>)> {
        if self.spaces.len() > MOST_SPACES {
            return None;
        }
        let copy = namespace.try_clone().ok()?;
        let mut service = self.service(OWN)?.elsewhere(copy)?;
        let watched = service.start().ok()?.map(|watched| watched.as_raw_fd());
        let number = self.next_space;
        self.next_space += 1;
        let owners = rights::owners(&namespace).into();
        let namespace = Some((name, namespace));
        self.spaces.insert(number, Space { namespace, service, owners, rover: FIRST_ROVER });
        Some((number, watched))
    }

    /// User namespaces that own a network namespace, and those around them.
    pub(crate) fn owners(&self, space: u64) -> Arc<[u64]> {
        self.spaces.get(&space).map_or_else(Arc::default, |space| space.owners.clone())
    }

    /// Says which user namespaces own the launcher's own network namespace.
    pub(crate) fn set_owners(&mut self, owners: Vec<u64>) {
        if let Some(space) = self.spaces.get_mut(&OWN) {
            space.owners = owners.into();
        }
    }

    /// Forgets a network namespace that has no sockets.
    pub(crate) fn drop_unused(&mut self, space: u64) {
        if space != OWN && !self.sockets.values().any(|socket| socket.space == space) {
            self.spaces.remove(&space);
        }
    }

    /// Makes a socket. Returns its inode and the program's end.
    ///
    /// # Errors
    /// `ENFILE`: there are as many as there may be.
    pub(crate) fn open(
        &mut self,
        kind: i32,
        nonblocking: bool,
        may_change: bool,
        space: u64,
    ) -> Result<(u64, OwnedFd), Errno> {
        if self.sockets.len() >= self.most {
            return Err(libc::ENFILE);
        }
        let (end, program_end) = pair().map_err(|_| libc::ENFILE)?;
        let made = || -> io::Result<(u64, SocketId)> {
            if nonblocking {
                check(
                    // SAFETY: no pointers.
                    unsafe {
                        libc::fcntl(program_end.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK)
                    }
                    .into(),
                )?;
            }
            Ok((sys::inode(&program_end)?, sys::cookie(&program_end)?))
        };
        let (inode, id) = made().map_err(|e| sys::errno(&e))?;
        let socket = Socket::new(end, id, kind, space, self.owners(space));
        self.service(space).ok_or(libc::ENFILE)?.open(id, may_change);
        self.sockets.insert(inode, socket);
        Ok((inode, program_end))
    }

    /// Forgets a socket after the program closed it. Returns the calls that wait on it.
    pub(crate) fn close(&mut self, inode: u64) -> Vec<Call> {
        let Some(socket) = self.sockets.remove(&inode) else { return Vec::new() };
        let space = socket.space;
        if let Some(service) = self.service(space) {
            let answers = service.close(socket.id);
            self.notify(space, None, answers.before);
            self.notify(space, None, answers.notifications);
            self.deliver(space);
        }
        if socket.groups != 0 {
            self.look(space);
        }
        self.drop_unused(space);
        let waiting: Vec<u32> = self.waiting_on(inode).collect();
        waiting
            .into_iter()
            .filter_map(|thread| self.waiting.remove(&thread))
            .map(|w| w.call)
            .collect()
    }

    /// Gives a socket a port id.
    ///
    /// # Errors
    /// `EADDRINUSE`: another one has it.
    pub(crate) fn bind(&mut self, inode: u64, port: u32) -> Result<(), Errno> {
        let space = self.sockets.get(&inode).ok_or(libc::EBADF)?.space;
        if self.sockets.values().any(|socket| socket.space == space && socket.port == port) {
            return Err(libc::EADDRINUSE);
        }
        let socket = self.sockets.get_mut(&inode).ok_or(libc::EBADF)?;
        socket.port = port;
        let id = socket.id;
        if let Some(service) = self.service(space) {
            service.bind(id, port);
        }
        Ok(())
    }

    /// Gives a socket a port id that is free: that of its process, or one that counts down from
    /// -4097.
    pub(crate) fn bind_to_any(&mut self, inode: u64, process: u32) -> Result<(), Errno> {
        if process != 0 && self.bind(inode, process).is_ok() {
            return Ok(());
        }
        let space = self.sockets.get(&inode).ok_or(libc::EBADF)?.space;
        loop {
            let space = self.spaces.get_mut(&space).ok_or(libc::EBADF)?;
            let port = space.rover;
            // Port ids of processes are below.
            space.rover = if port == 1 << 31 { FIRST_ROVER } else { port - 1 };
            match self.bind(inode, port) {
                Err(libc::EADDRINUSE) => {}
                bound => return bound,
            }
        }
    }

    /// Has a datagram answered.
    ///
    /// # Errors
    /// `ENOBUFS`: too many answers wait for this program, or for all.
    pub(crate) fn carry_out(
        &mut self,
        inode: u64,
        sender: &Sender,
        datagram: &[u8],
    ) -> Result<(), Errno> {
        let (mut all, mut listened) = (0, 0);
        let space = self.sockets.get(&inode).ok_or(libc::EBADF)?.space;
        for socket in self.sockets.values() {
            all += socket.backlog_bytes();
            if socket.space == space {
                listened |= socket.groups;
            }
        }
        let socket = self.sockets.get_mut(&inode).ok_or(libc::EBADF)?;
        if socket.backlog_bytes() > MOST_BACKLOG || all > MOST_BACKLOGS {
            return Err(libc::ENOBUFS);
        }
        let request = Request { sender, datagram, listened };
        let id = socket.id;
        let service = self.service(space).ok_or(libc::EBADF)?;
        let Answers { before, datagrams, notifications } = service.receive(id, &request);
        self.notify(space, None, before);
        self.deliver(space);
        let socket = self.sockets.get_mut(&inode).ok_or(libc::EBADF)?;
        if !datagrams.is_empty() {
            self.touched.push(inode);
        }
        for bytes in datagrams {
            socket.answer(Datagram { group: 0, bytes });
        }
        socket.send_kept();
        self.notify(space, Some(inode), notifications);
        Ok(())
    }

    /// Has all services do what requests have left for later.
    pub(crate) fn settle(&mut self) {
        for space in self.spaces.keys().copied().collect::<Vec<_>>() {
            if let Some(service) = self.service(space) {
                service.settle();
            }
        }
    }

    /// Has the service of a network namespace look for something to tell.
    pub(crate) fn look(&mut self, space: u64) {
        let there = self.sockets.values().filter(|socket| socket.space == space);
        let listened = there.fold(0, |groups, socket| groups | socket.groups);
        let Some(service) = self.service(space) else { return };
        let notifications = service.look(listened);
        self.notify(space, None, notifications);
        self.deliver(space);
    }

    /// Gives single sockets of a network namespace what is for them.
    fn deliver(&mut self, space: u64) {
        let Some(service) = self.service(space) else { return };
        for (id, bytes) in service.take_direct() {
            let Some((inode, socket)) = self.sockets.iter_mut().find(|(_, s)| s.id == id) else {
                continue;
            };
            if bytes.is_empty() || socket.backlog_bytes() > MOST_BACKLOG {
                if !socket.flags.has(sys::NETLINK_NO_ENOBUFS) {
                    socket.error = libc::ENOBUFS;
                }
            } else {
                socket.queue(Datagram { group: 0, bytes });
            }
            if !self.touched.contains(inode) {
                self.touched.push(*inode);
            }
        }
        self.send_kept();
    }

    /// Sends what sockets were given that is sent together with others.
    fn send_kept(&mut self) {
        for inode in &self.touched {
            if let Some(socket) = self.sockets.get_mut(inode) {
                socket.send_kept();
            }
        }
    }

    /// Changes the groups of a socket.
    ///
    /// # Errors
    /// `EBADF`: it has been closed.
    pub(crate) fn set_groups(&mut self, inode: u64, groups: u32) -> Result<(), Errno> {
        let socket = self.sockets.get_mut(&inode).ok_or(libc::EBADF)?;
        let space = socket.space;
        if std::mem::replace(&mut socket.groups, groups) != groups {
            self.look(space);
        }
        Ok(())
    }

    /// Tells the members of groups of a network namespace, but for the socket that it comes from.
    fn notify(&mut self, space: u64, from: Option<u64>, notifications: Vec<Notification>) {
        for Notification { group, datagram } in notifications {
            let Some(bit) = group.checked_sub(1).and_then(|n| 1u32.checked_shl(n)) else {
                continue;
            };
            for (inode, socket) in &mut self.sockets {
                if socket.space != space || Some(*inode) == from || socket.groups & bit == 0 {
                    continue;
                }
                if datagram.is_empty() || socket.backlog_bytes() + datagram.len() > MOST_EVENTS {
                    if !socket.flags.has(sys::NETLINK_NO_ENOBUFS) {
                        socket.error = libc::ENOBUFS;
                    }
                } else {
                    socket.queue(Datagram { group, bytes: datagram.clone() });
                }
                if !self.touched.contains(inode) {
                    self.touched.push(*inode);
                }
            }
        }
        self.send_kept();
    }

    /// Lets a receive wait. A thread that waited before does so no longer.
    pub(crate) fn wait(&mut self, waiting: Waiting) {
        self.waiting.insert(waiting.call.thread, waiting);
    }

    fn waiting_on(&self, inode: u64) -> impl Iterator<Item = u32> {
        self.waiting
            .iter()
            .filter(move |(_, waiting)| waiting.inode == inode)
            .map(|(thread, _)| *thread)
    }

    /// Takes the inodes of sockets that got something since the last time.
    pub(crate) fn take_touched(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.touched)
    }

    /// Takes out the receives that can continue: those of these sockets, and expired ones. The
    /// order is that in which they were called.
    pub(crate) fn take_ready(&mut self, touched: &[u64], now: Instant) -> Vec<Waiting> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let mut ready: Vec<Waiting> = self
            .waiting
            .extract_if(|_, waiting| {
                touched.contains(&waiting.inode) || waiting.deadline.is_some_and(|at| at <= now)
            })
            .map(|(_, waiting)| waiting)
            .collect();
        ready.sort_by_key(|waiting| waiting.call.id);
        ready
    }

    /// Takes out the receives with ended calls.
    pub(crate) fn take_ended(&mut self, is_waiting: impl Fn(&Call) -> bool) -> Vec<Waiting> {
        self.waiting.extract_if(|_, waiting| !is_waiting(&waiting.call)).map(|(_, w)| w).collect()
    }

    /// How many receives wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When the first of the receives that wait ends without a datagram, or a service has something
    /// to do.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let receives = self.waiting.values().filter_map(|waiting| waiting.deadline);
        let services = self.spaces.values().filter_map(|space| space.service.due());
        receives.chain(services).min()
    }

    /// Wakes the services that have something to do.
    pub(crate) fn wake(&mut self, now: Instant) {
        for space in self.spaces.values_mut() {
            if space.service.due().is_some_and(|due| due <= now) {
                space.service.wake();
            }
        }
    }

    /// No program is left.
    pub(crate) fn end(&mut self) {
        self.spaces.values_mut().for_each(|space| space.service.end());
    }
}
