// SPDX-License-Identifier: Apache-2.0

//! The supervisor's loop.
//!
//! One thread carries out all calls, in the order in which they come. A program can make the
//! supervisor wait: by a page that a file system of its own (FUSE) or userfaultfd(2) must bring.
//! That happens outside of all locks. If it takes long, another thread continues in place of the
//! one that waits, which ends when its call is done.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::calls;
use crate::context::{Context, LISTENER, service_of};
use crate::notify::Outcome;
use crate::socket::Rooms;

/// How long a call may take until another thread continues with the others.
const LONG: Duration = Duration::from_millis(200);
/// Most threads that wait for programs. With more, all wait.
const MOST_STUCK: usize = 32;
/// Bytes of a thread's buffer for datagrams.
const SCRATCH: usize = 1 << 20;

/// What the threads of the supervisor share.
struct Shared {
    context: Context,
    began: Instant,
    /// Which thread carries calls out, counted from 0.
    turn: AtomicU64,
    /// When the present call began, in milliseconds since `began` plus 1; 0 between calls.
    busy_since: AtomicU64,
    stuck: AtomicUsize,
    watch_sleeps: AtomicBool,
    ended: AtomicBool,
}

/// Answers calls until no program of the filter is left.
pub(crate) fn run(context: Context) {
    let shared = Arc::new(Shared {
        context,
        began: Instant::now(),
        turn: AtomicU64::new(0),
        busy_since: AtomicU64::new(0),
        stuck: AtomicUsize::new(0),
        watch_sleeps: AtomicBool::new(false),
        ended: AtomicBool::new(false),
    });
    let watch = thread::current();
    spawn(&shared, &watch, 0);
    shared.watch(&watch);
    shared.context.sockets().end();
}

fn spawn(shared: &Arc<Shared>, watch: &Thread, turn: u64) {
    let (shared, watch) = (Arc::clone(shared), watch.clone());
    // Without a thread the calls wait for the one that is stuck.
    let _ = thread::Builder::new().spawn(move || {
        shared.serve(&watch, turn);
        if shared.turn.load(Ordering::SeqCst) != turn {
            shared.stuck.fetch_sub(1, Ordering::SeqCst);
        }
    });
}

impl Shared {
    /// Sees that calls are carried out, and returns when no program is left.
    fn watch(self: &Arc<Self>, own: &Thread) {
        let mut idle = 0;
        while !self.ended.load(Ordering::SeqCst) {
            let since = self.busy_since.load(Ordering::SeqCst);
            idle = if since == 0 { idle + 1 } else { 0 };
            if idle > 10 {
                self.watch_sleeps.store(true, Ordering::SeqCst);
                if self.busy_since.load(Ordering::SeqCst) == 0 {
                    thread::park();
                }
                self.watch_sleeps.store(false, Ordering::SeqCst);
                idle = 0;
                continue;
            }
            if since != 0
                && self.began.elapsed() > Duration::from_millis(since - 1) + LONG
                && self.stuck.load(Ordering::SeqCst) < MOST_STUCK
            {
                self.stuck.fetch_add(1, Ordering::SeqCst);
                self.busy_since.store(0, Ordering::SeqCst);
                let turn = self.turn.fetch_add(1, Ordering::SeqCst) + 1;
                spawn(self, own, turn);
            }
            thread::park_timeout(LONG / 2);
        }
    }

    /// Notes that something is being done that may wait for a program.
    fn busy(&self, watch: &Thread) {
        let now = self.began.elapsed().as_millis() as u64 + 1;
        self.busy_since.store(now, Ordering::SeqCst);
        if self.watch_sleeps.load(Ordering::SeqCst) {
            watch.unpark();
        }
    }

    /// Whether it is still this thread's turn.
    fn is_turn(&self, turn: u64) -> bool {
        self.turn.load(Ordering::SeqCst) == turn
    }

    /// Carries out calls while it is this thread's turn.
    fn serve(&self, watch: &Thread, turn: u64) {
        let (mut scratch, mut rooms) = (vec![0; SCRATCH], Rooms::new());
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        while self.is_turn(turn) {
            let many = self.wait(&mut events);
            self.context.sockets().wake(Instant::now());
            // A program that has closed a socket may have opened another one since: in the list of
            // what is ready the calls may come first.
            events[..many].sort_by_key(|event| { event.u64 } == LISTENER);
            for event in &events[..many] {
                let (number, seen) = (event.u64, event.events as i32);
                self.busy(watch);
                if let Some(space) = service_of(number) {
                    self.context.sockets().look(space);
                } else if number != LISTENER {
                    self.socket(number, seen, &mut rooms);
                } else if seen & libc::EPOLLIN != 0 {
                    match self.context.listener.receive() {
                        Ok(Some(call)) => calls::handle(&self.context, call, &mut scratch),
                        Ok(None) => {}
                        Err(_) => return self.end(watch),
                    }
                } else {
                    // No thread has the filter now.
                    return self.end(watch);
                }
                self.context.sockets().settle();
                self.resume(&mut scratch);
                if !self.is_turn(turn) {
                    return;
                }
                self.busy_since.store(0, Ordering::SeqCst);
            }
            if many == 0 {
                self.busy(watch);
                self.resume(&mut scratch);
                if self.is_turn(turn) {
                    self.busy_since.store(0, Ordering::SeqCst);
                }
            }
        }
    }

    fn end(&self, watch: &Thread) {
        self.ended.store(true, Ordering::SeqCst);
        watch.unpark();
    }

    /// Waits for events, and until the first receive has waited long enough.
    fn wait(&self, events: &mut [libc::epoll_event]) -> usize {
        let deadline = self.context.sockets().next_deadline();
        let time = deadline.map_or(-1, |at| {
            let rest = at.saturating_duration_since(Instant::now());
            rest.as_millis().saturating_add(1).min(60_000) as i32
        });
        let (fd, room) = (self.context.events.as_raw_fd(), events.len() as i32);
        // SAFETY: room for as many events as is said, which the call fills.
        let many = unsafe { libc::epoll_wait(fd, events.as_mut_ptr(), room, time) };
        usize::try_from(many).unwrap_or(0)
    }

    /// Events of a socket.
    fn socket(&self, inode: u64, seen: i32, rooms: &mut Rooms) {
        let context = &self.context;
        if seen & libc::EPOLLIN != 0 {
            calls::take_untrapped(context, inode, rooms);
        }
        if seen & libc::EPOLLOUT != 0 {
            let _ = context.socket(inode, |socket| socket.refill());
            context.wait_for_room(inode);
        }
        if seen & (libc::EPOLLHUP | libc::EPOLLRDHUP | libc::EPOLLERR) != 0 {
            context.forget_callers();
            let waiting = context.sockets().close(inode);
            for call in waiting {
                context.answer(&call, Outcome::Error(libc::EBADF));
            }
        }
    }

    /// Goes on with receives that waited for what is there now.
    fn resume(&self, scratch: &mut [u8]) {
        let touched = self.context.sockets().take_touched();
        for inode in &touched {
            self.context.wait_for_room(*inode);
        }
        let ready = self.context.sockets().take_ready(&touched, Instant::now());
        for waiting in ready {
            calls::resume(&self.context, waiting, scratch);
        }
    }
}
