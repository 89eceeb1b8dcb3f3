// SPDX-License-Identifier: Apache-2.0

//! What all trapped calls need.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::filter::Numbers;
use crate::notify::{Call, Gone, Listener, Outcome};
use crate::rights;
use crate::socket::Socket;
use crate::sockets::{OWN, Sockets};
use crate::sys::{Errno, check, owned};
use crate::task::{Known, Task, open_proc};

/// What all trapped calls need.
pub(crate) struct Context {
    /// Where calls come from.
    pub listener: Listener,
    /// `/proc`.
    pub proc: OwnedFd,
    /// The name of the launcher's own network namespace, `net:[INODE]`.
    pub namespace: String,
    /// The namespace itself: its inode is no other one's while this is open.
    pub _namespace: OwnedFd,
    /// Numbers of descriptors.
    pub numbers: Numbers,
    /// Held from the choice of a free number until something is there: two threads of the supervisor
    /// may serve two of a program.
    pub giving: Mutex<()>,
    /// Listener, services and sockets (epoll(7)): the number of an event is the socket's inode,
    /// [`LISTENER`], or that of [`service_event`].
    pub events: OwnedFd,
    /// By thread: what is known of those that have called.
    known: Mutex<HashMap<u32, Known>>,
    sockets: Mutex<Sockets>,
}

/// The number of the listener's events.
pub(crate) const LISTENER: u64 = u64::MAX;
/// Numbers from here down are those of services: no inode is as large.
const SERVICES: u64 = u64::MAX - 1;
/// The least of them.
const LAST_SERVICE: u64 = 1 << 63;

/// The number of events of the service of a network namespace.
fn service_event(space: u64) -> u64 {
    SERVICES - space
}

/// The network namespace with a service of this number.
pub(crate) fn service_of(event: u64) -> Option<u64> {
    (LAST_SERVICE..=SERVICES).contains(&event).then(|| SERVICES - event)
}
/// Threads that are known at most: each has two descriptors.
const MOST_KNOWN: usize = 64;
/// Events of a socket: the program sends without a trapped call, or has closed its end.
const USUAL: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP) as u32;

/// What is left to do for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// To answer it.
    Now(Outcome),
    /// Nothing: it is answered, waits, or has ended.
    Done,
}

impl From<i64> for Reply {
    fn from(value: i64) -> Self {
        Reply::Now(Outcome::Value(value))
    }
}

/// What a call returns, or its error.
pub(crate) type Result = std::result::Result<Reply, Errno>;

/// The answer for calls that are the kernel's.
pub(crate) const CONTINUE: Result = Ok(Reply::Now(Outcome::Continue));

impl Context {
    /// The context of a process that answers for its own network namespace.
    ///
    /// # Errors
    /// There is no `/proc`, or no descriptor left, or the service cannot start.
    pub(crate) fn new(listener: Listener, numbers: Numbers, sockets: Sockets) -> io::Result<Self> {
        let proc = open_proc()?;
        let namespace = File::open("/proc/self/ns/net")?;
        let name = std::fs::read_link("/proc/self/ns/net")?;
        // SAFETY: no pointers.
        let events = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }.into())?;
        let mut sockets = sockets;
        sockets.set_owners(rights::owners(&namespace));
        let context = Context {
            listener,
            proc,
            namespace: name.to_string_lossy().into_owned(),
            _namespace: namespace.into(),
            numbers,
            giving: Mutex::default(),
            events,
            known: Mutex::default(),
            sockets: Mutex::new(sockets),
        };
        let listener = context.listener.as_raw_fd();
        context.control(libc::EPOLL_CTL_ADD, listener, LISTENER, libc::EPOLLIN as u32)?;
        let watched = match context.sockets().service(OWN) {
            Some(service) => service.start()?.map(|watched| watched.as_raw_fd()),
            None => None,
        };
        if let Some(watched) = watched {
            context.control(
                libc::EPOLL_CTL_ADD,
                watched,
                service_event(OWN),
                libc::EPOLLIN as u32,
            )?;
        }
        Ok(context)
    }

    /// The caller of a call on a descriptor, and the inode of the socket that it is; `None` for
    /// anything else.
    ///
    /// # Errors
    /// The call has ended.
    pub(crate) fn caller(&self, call: &Call) -> std::result::Result<(Task, Option<u64>), Gone> {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&call.thread) {
            let task = Task::of(known.clone(), call);
            // Another thread has the number after this one has ended; then it has no descriptors.
            if let Some(inode) = task.socket_inode(call.int(0)) {
                return Ok((task, Some(inode)));
            }
        }
        let task = Task::new(&self.proc, &self.listener, call)?;
        if all.len() >= MOST_KNOWN {
            all.clear();
        }
        all.insert(call.thread, task.known());
        let inode = task.socket_inode(call.int(0));
        Ok((task, inode))
    }

    /// Forgets what is known of threads: some may have ended.
    pub(crate) fn forget_callers(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The number of a thread's network namespace; `None` if the kernel answers there.
    pub(crate) fn space_of(&self, task: &Task) -> Option<u64> {
        let name = task.network_namespace()?;
        if name == self.namespace {
            return Some(OWN);
        }
        if let Some(space) = self.sockets().space_named(&name) {
            return Some(space);
        }
        let namespace = task.open_network_namespace().ok()?;
        let mut sockets = self.sockets();
        let (space, watched) = sockets.add_space(name, namespace)?;
        if let Some(watched) = watched {
            let event = service_event(space);
            // Without it what others change is told with the next request.
            let _ = self.control(libc::EPOLL_CTL_ADD, watched, event, libc::EPOLLIN as u32);
        }
        Some(space)
    }

    fn control(&self, operation: i32, fd: RawFd, number: u64, events: u32) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: number };
        // SAFETY: the event lives through the call, which only reads it.
        check(
            unsafe { libc::epoll_ctl(self.events.as_raw_fd(), operation, fd, &raw mut event) }
                .into(),
        )
        .map(|_| ())
    }

    /// Waits for events of a new socket.
    pub(crate) fn watch(&self, inode: u64) {
        if let Some(socket) = self.sockets().get(inode) {
            let _ = self.control(libc::EPOLL_CTL_ADD, socket.end(), inode, USUAL);
        }
    }

    /// Waits for room in a socket's buffer if datagrams wait for it, and no longer otherwise.
    pub(crate) fn wait_for_room(&self, inode: u64) {
        if let Some(socket) = self.sockets().get(inode)
            && socket.waits_for_room != socket.has_backlog()
        {
            socket.waits_for_room = socket.has_backlog();
            let room = if socket.waits_for_room { libc::EPOLLOUT as u32 } else { 0 };
            let _ = self.control(libc::EPOLL_CTL_MOD, socket.end(), inode, USUAL | room);
        }
    }

    /// All sockets. Nothing that may wait for a program is called while this is held.
    pub(crate) fn sockets(&self) -> MutexGuard<'_, Sockets> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes one socket.
    ///
    /// # Errors
    /// `EBADF`: it has been closed.
    pub(crate) fn socket<T>(
        &self,
        inode: u64,
        with: impl FnOnce(&mut Socket) -> T,
    ) -> std::result::Result<T, Errno> {
        self.sockets().get(inode).map(with).ok_or(libc::EBADF)
    }

    /// Ends a call; one that has ended already is left alone.
    pub(crate) fn answer(&self, call: &Call, outcome: Outcome) {
        let _ = self.listener.answer(call, outcome);
    }
}
