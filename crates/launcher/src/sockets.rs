// SPDX-License-Identifier: Apache-2.0

//! The sockets that programs have, from the supervisor's end.
//!
//! A program's socket is one end of a pair of unix(7) sockets of type `SOCK_SEQPACKET`; the
//! supervisor has the other one. Datagrams that do not fit into the pair's buffer wait in the
//! supervisor, and follow as the program receives.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use crate::address::Address;
use crate::notify::{Call, Outcome};
use crate::rights;
use crate::service::{Answers, Notification, Request, Sender, Service, SocketId};
use crate::sys::{self, Errno, check};
use crate::task::Habits;

/// Longest datagram that a program is given, in bytes. The kernel's are 32 KiB, but for errors that
/// repeat what is wrong.
pub(crate) const MOST_ANSWER: usize = 192 << 10;
/// Bytes of the buffer between supervisor and program, if it may be that large.
static BUFFER: i32 = 2 << 20;
/// Bytes of answers that may wait for one program.
const MOST_BACKLOG: usize = 128 << 20;
/// Bytes of answers that may wait for all programs.
const MOST_BACKLOGS: usize = 512 << 20;
/// Bytes of notifications that may wait for one program.
const MOST_EVENTS: usize = 1 << 20;
/// First port id of further sockets of a process, which count down from it (`netlink_autobind()`).
const FIRST_ROVER: u32 = -4097i32 as u32;

/// Options of level `SOL_NETLINK` that are flags, a bit for each number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags(u32);

impl Flags {
    /// Whether an option is set.
    pub(crate) fn has(self, option: i32) -> bool {
        self.0 & 1 << option != 0
    }

    /// Sets an option or takes it back.
    pub(crate) fn set(&mut self, option: i32, on: bool) {
        self.0 = self.0 & !(1 << option) | u32::from(on) << option;
    }
}

/// A send that was carried out, with its call ended by a signal: it may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// The thread.
    pub thread: u32,
    /// Number of the system call.
    pub number: libc::c_long,
    /// A hash of the datagrams.
    pub hash: u64,
    /// What the call would have returned.
    pub outcome: Outcome,
}

/// A datagram for a program.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    /// The group that it was sent to, 0 for an answer.
    pub group: u32,
    /// The messages.
    pub bytes: Vec<u8>,
}

impl Datagram {
    /// Whether others of its kind may be in one datagram with it: programs stop reading at an error,
    /// an acknowledgement or the end of a dump, and messages of a dump end with that.
    fn joins(&self) -> bool {
        /// `NLMSG_MIN_TYPE`: lower types are those; `NLM_F_MULTI`.
        const MIN_TYPE: u16 = 0x10;
        const MULTI: u16 = 2;
        let mut rest = &self.bytes[..];
        while let Some((header, _)) = rest.split_first_chunk::<16>() {
            let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
            let len = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
            let whole = len >= header.len() && len.is_multiple_of(4) && len <= rest.len();
            if !whole || half(4) < MIN_TYPE || half(6) & MULTI != 0 {
                return false;
            }
            rest = &rest[len..];
        }
        rest.is_empty()
    }

    /// Bytes that it counts for while it waits: about as many as in the kernel (`skb->truesize`).
    fn cost(&self) -> usize {
        self.bytes.len() + 768
    }
}

/// A socket of a program.
pub(crate) struct Socket {
    end: OwnedFd,
    /// Whether the supervisor waits for room in the buffer.
    pub waits_for_room: bool,
    /// See [`SocketId`].
    pub id: SocketId,
    /// The number of its network namespace.
    pub space: u64,
    /// `SOCK_RAW` or `SOCK_DGRAM`.
    pub kind: i32,
    /// Port id, 0 if it has none yet.
    pub port: u32,
    /// Groups that it is a member of, group 1 in the lowest bit.
    pub groups: u32,
    /// Where datagrams without address go.
    pub peer: Address,
    /// How its program uses it.
    pub habits: Habits,
    /// Options.
    pub flags: Flags,
    /// User namespaces that own its network namespace, and those around them: their inodes.
    pub owners: Arc<[u64]>,
    /// Bytes of its buffer for datagrams that it sends, if the program has made it smaller.
    pub send_buffer: Option<usize>,
    /// Bytes of its buffer for datagrams that it receives, if the program has made it smaller.
    pub receive_buffer: Option<usize>,
    /// An error that the next receive returns, 0 for none.
    pub error: Errno,
    /// A send that may be made again.
    pub unanswered: Option<Unanswered>,
    backlog: VecDeque<Datagram>,
    backlog_bytes: usize,
    /// Bytes of answers since the program has last received something.
    answered: usize,
    /// The datagrams in the pair's buffer.
    buffered: VecDeque<Buffered>,
}

/// What is known of a datagram in the pair's buffer.
#[derive(Clone, Copy, Debug)]
struct Buffered {
    group: u32,
    len: usize,
    /// See [`Datagram::joins`].
    joins: bool,
}

/// Most entries of [`Socket::buffered`]: a copy of the socket under a low number is read
/// without the supervisor's knowledge.
const MOST_BUFFERED: usize = 4096;

impl Socket {
    /// The supervisor's end.
    pub(crate) fn end(&self) -> RawFd {
        self.end.as_raw_fd()
    }

    /// Whether datagrams wait for room in the buffer.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Queues an answer. Acknowledgements and errors that a buffer has no room for are lost, as
    /// the kernel loses them if the program has made it small; dumps wait.
    fn answer(&mut self, datagram: Datagram) {
        /// `NLM_F_MULTI` in the lower byte of `nlmsg_flags`.
        const MULTI: u8 = 2;
        let waits = datagram.bytes.get(6).is_some_and(|flags| flags & MULTI != 0);
        match self.receive_buffer {
            Some(room) if !waits && self.answered + datagram.cost() > room => {
                self.error = libc::ENOBUFS;
            }
            _ => {
                self.answered += datagram.cost();
                self.queue(datagram);
            }
        }
    }

    fn queue(&mut self, datagram: Datagram) {
        if datagram.bytes.len() > MOST_ANSWER {
            self.error = libc::ENOBUFS;
        } else if self.backlog.is_empty() {
            self.send_or_keep(datagram);
        } else {
            self.keep(datagram);
        }
    }

    fn keep(&mut self, datagram: Datagram) {
        self.backlog_bytes += datagram.cost();
        self.backlog.push_back(datagram);
    }

    fn send_or_keep(&mut self, datagram: Datagram) {
        match self.send(&datagram) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.keep(datagram),
            Err(e) if e.raw_os_error() == Some(libc::EPIPE) => {}
            Err(_) => self.error = libc::ENOBUFS,
            Ok(()) => {}
        }
    }

    fn send(&mut self, datagram: &Datagram) -> io::Result<()> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        let bytes = &datagram.bytes;
        // SAFETY: the bytes live through the call, which only reads them.
        check(unsafe { libc::send(self.end(), bytes.as_ptr().cast(), bytes.len(), flags) } as _)?;
        if self.buffered.len() < MOST_BUFFERED {
            let joins = self.habits.reads_several && datagram.joins();
            let (group, len) = (datagram.group, bytes.len());
            self.buffered.push_back(Buffered { group, len, joins });
        }
        Ok(())
    }

    /// Moves datagrams that wait into the buffer, as many as fit.
    pub(crate) fn refill(&mut self) {
        while let Some(datagram) = self.backlog.pop_front() {
            let cost = datagram.cost();
            match self.send(&datagram) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.backlog.push_front(datagram);
                    return;
                }
                // The program is gone, or the datagram is too long for the buffer.
                Err(_) => self.error = libc::ENOBUFS,
                Ok(()) => {}
            }
            self.backlog_bytes -= cost;
        }
    }

    /// Takes the next datagram out of the program's end of the pair, or looks at it.
    ///
    /// # Errors
    /// `EAGAIN`: there is none. The socket's error, once.
    pub(crate) fn receive(
        &mut self,
        program_end: &OwnedFd,
        peek: bool,
        scratch: &mut [u8],
    ) -> Result<Datagram, Errno> {
        if self.error != 0 {
            return Err(std::mem::take(&mut self.error));
        }
        let mut flags = libc::MSG_DONTWAIT;
        if peek {
            flags |= libc::MSG_PEEK;
        }
        let (to, room) = (scratch.as_mut_ptr().cast(), scratch.len());
        // SAFETY: the buffer has that room and lives through the call, which fills it.
        let len = check(unsafe { libc::recv(program_end.as_raw_fd(), to, room, flags) } as _)
            .map_err(|e| sys::errno(&e))? as usize;
        let noted = if peek { self.buffered.front().copied() } else { self.buffered.pop_front() };
        if !peek {
            self.answered = 0;
            self.refill();
        }
        let bytes = scratch.get(..len).unwrap_or_default().to_vec();
        Ok(Datagram { group: noted.map_or(0, |noted| noted.group), bytes })
    }

    /// Adds datagrams of the same kind to one that was taken out of the program's end of the pair,
    /// as many as there are and as there is room for, if the program understands that.
    pub(crate) fn receive_more(
        &mut self,
        program_end: &OwnedFd,
        into: &mut Datagram,
        room: usize,
        scratch: &mut [u8],
    ) {
        /// Datagrams that are taken at once.
        const MANY: usize = 64;
        if !self.habits.reads_several || !into.joins() {
            return;
        }
        let mut sum = into.bytes.len();
        let fits = |next: &&Buffered| {
            sum += next.len;
            next.group == into.group && next.joins && sum <= room && sum <= scratch.len()
        };
        let lengths: Vec<usize> =
            self.buffered.iter().take_while(fits).take(MANY).map(|next| next.len).collect();
        let mut rest = &mut scratch[..];
        let mut parts = Vec::with_capacity(lengths.len());
        for len in lengths {
            let (now, after) = rest.split_at_mut(len);
            parts.push(libc::iovec { iov_base: now.as_mut_ptr().cast(), iov_len: len });
            rest = after;
        }
        // SAFETY: headers of zeroes are such without address, parts and control messages.
        let mut headers: Vec<libc::mmsghdr> =
            parts.iter().map(|_| unsafe { std::mem::zeroed() }).collect();
        for (header, part) in headers.iter_mut().zip(&mut parts) {
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
        let (many, flags) = (headers.len() as u32, libc::MSG_DONTWAIT);
        // SAFETY: as many headers as is said, with their parts, which live through the call; it fills
        // the parts, which are of different places of the buffer.
        let got = unsafe {
            let end = program_end.as_raw_fd();
            libc::recvmmsg(end, headers.as_mut_ptr(), many, flags as _, std::ptr::null_mut())
        };
        let mut at = 0;
        for header in headers.iter().take(usize::try_from(got).unwrap_or(0)) {
            // SAFETY: the call has taken the address of the part, which is there.
            let len = unsafe { (*header.msg_hdr.msg_iov).iov_len };
            // It is shorter if the program has received without a trapped call.
            let filled = (header.msg_len as usize).min(len);
            into.bytes.extend_from_slice(scratch.get(at..at + filled).unwrap_or_default());
            at += len;
            self.buffered.pop_front();
        }
        self.refill();
    }

    /// Puts datagrams back that a receive took, before all others.
    pub(crate) fn put_back(
        &mut self,
        program_end: &OwnedFd,
        taken: Vec<Datagram>,
        scratch: &mut [u8],
    ) {
        let error = std::mem::take(&mut self.error);
        let after: Vec<Datagram> = std::mem::take(&mut self.backlog).into();
        self.backlog_bytes = 0;
        let mut all = taken;
        while let Ok(datagram) = self.receive(program_end, false, scratch) {
            all.push(datagram);
        }
        all.extend(after);
        all.into_iter().for_each(|datagram| self.keep(datagram));
        self.refill();
        self.error = error;
    }

    /// Takes a datagram that the program sent without a trapped call: `sendfile(2)`, or by a copy
    /// of the descriptor under a low number.
    pub(crate) fn take_untrapped(&self, scratch: &mut [u8]) -> Option<Vec<u8>> {
        let (to, room) = (scratch.as_mut_ptr().cast(), scratch.len());
        // SAFETY: the buffer has that room and lives through the call, which fills it.
        let len = unsafe { libc::recv(self.end(), to, room, libc::MSG_DONTWAIT) };
        let len = usize::try_from(len).ok().filter(|len| *len > 0)?;
        scratch.get(..len).map(<[u8]>::to_vec)
    }
}

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
        let socket = Socket {
            end,
            waits_for_room: false,
            id,
            space,
            kind,
            port: 0,
            groups: 0,
            peer: Address::default(),
            habits: Habits::default(),
            flags: Flags::default(),
            owners: self.owners(space),
            send_buffer: None,
            receive_buffer: None,
            error: 0,
            unanswered: None,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            answered: 0,
            buffered: VecDeque::new(),
        };
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
            all += socket.backlog_bytes;
            if socket.space == space {
                listened |= socket.groups;
            }
        }
        let socket = self.sockets.get_mut(&inode).ok_or(libc::EBADF)?;
        if socket.backlog_bytes > MOST_BACKLOG || all > MOST_BACKLOGS {
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
            if bytes.is_empty() || socket.backlog_bytes > MOST_BACKLOG {
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
                if datagram.is_empty() || socket.backlog_bytes + datagram.len() > MOST_EVENTS {
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

/// A pair of connected sockets that keep messages apart.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: room for two descriptors, which the call fills.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) }.into())?;
    // SAFETY: the call made both.
    let [own, other] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    for option in [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE] {
        // SAFETY: the value lives through the call, which only reads it. The second one is refused
        // without rights, and the first one is cut to what is allowed.
        unsafe {
            libc::setsockopt(
                own.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                (&raw const BUFFER).cast(),
                size_of::<i32>() as u32,
            )
        };
    }
    Ok((own, other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: u32, kind: u16, flags: u16) -> Vec<u8> {
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.resize(len.max(16).next_multiple_of(4) as usize, 0);
        bytes
    }

    #[test]
    fn packets_and_events_share_a_datagram_and_ends_do_not() {
        let [packet, event] = [message(20, 0x300, 0), message(100, 0x100, 0x600)];
        for (parts, expected) in [
            (vec![packet.clone()], true),
            (vec![event.clone(), packet.clone()], true),
            // An error or acknowledgement, the end of a dump, a message of one.
            (vec![message(36, 2, 0)], false),
            (vec![packet.clone(), message(20, 3, 0)], false),
            (vec![message(20, 0x100, 2)], false),
            // What has no end, or a length that is none.
            (vec![message(21, 0x300, 0)], false),
            (vec![message(8, 0x300, 0)], false),
            (vec![packet, vec![0; 4]], false),
        ] {
            let datagram = Datagram { group: 0, bytes: parts.concat() };
            assert_eq!(datagram.joins(), expected, "{parts:?}");
        }
    }
}
