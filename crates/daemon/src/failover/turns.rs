// SPDX-License-Identifier: Apache-2.0

//! What a thread that speaks with other firewalls does over and over: requests of other threads,
//! events of the workers, and what its protocol has to do; then it waits for more.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::{Kept, Request, Status, Transition};
use crate::peer_watcher::{TellingEnd, Told};
use crate::requests::inbox::Inbox;

/// How often what is due is looked for, in nanoseconds.
pub(super) const LOOK: u64 = 100_000_000;
/// How long the thread stays awake without anything to do, in milliseconds: workers need not wake
/// it then.
const AWAKE: i32 = 1;
/// Events that are taken before anything else is done.
const EVENTS: usize = 4096;

/// A protocol between firewalls.
pub(super) trait Turns: Sized {
    /// What other threads ask.
    fn asked(&self) -> &Inbox<Request>;

    /// Where events of the workers come from.
    fn told(&self) -> &TellingEnd;

    /// Does what a transition needs; what came of it.
    fn transition(&mut self, transition: Transition) -> Result<String, String>;

    /// How it is.
    fn status(&self) -> Status;

    /// Takes an event of a worker.
    fn take_event(&mut self, told: Told);

    /// Does everything else that there is to do at a time; whether there was anything.
    fn turn(&mut self, now: u64) -> bool;

    /// When there is something to do at the latest.
    fn due(&self) -> u64;

    /// Descriptors of the protocol that are waited for, and whether that they can be written to.
    fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)>;

    /// Ends. Returns what is kept for another exchange.
    fn end(self) -> Kept;

    /// Works until it is told to stop. Returns what is kept for another exchange.
    fn run(mut self) -> Kept {
        loop {
            let now = crate::now();
            while let Some(request) = self.asked().take() {
                // Whoever does not wait any more needs no answer.
                match request {
                    Request::Transition(transition, to) => {
                        let _ = to.send(self.transition(transition));
                    }
                    Request::Status(to) => drop(to.send(self.status())),
                    Request::Stop => return self.end(),
                }
            }
            let mut busy = self.take_events();
            busy |= self.turn(now);
            if !busy {
                self.wait();
            }
        }
    }

    /// Takes events of the workers; whether there were any.
    fn take_events(&mut self) -> bool {
        let mut taken = 0;
        while taken < EVENTS
            && let Ok(told) = self.told().from.try_recv()
        {
            taken += 1;
            self.take_event(told);
        }
        taken > 0
    }

    /// Waits for something to do: for a moment awake, then until it is woken.
    fn wait(&mut self) {
        if self.poll(AWAKE) {
            return;
        }
        self.told().waker.fall_asleep();
        if !self.take_events() {
            let left = self.due().saturating_sub(crate::now()).div_ceil(1_000_000);
            self.poll(i32::try_from(left).unwrap_or(i32::MAX));
        }
        self.told().waker.wake_up();
    }

    /// Waits for descriptors, for so many milliseconds; whether one is ready.
    fn poll(&self, milliseconds: i32) -> bool {
        let own = [self.asked().event.as_fd(), self.told().waker.event.as_fd()];
        let entry = |(fd, writes): (BorrowedFd<'_>, bool)| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN | if writes { libc::POLLOUT } else { 0 },
            revents: 0,
        };
        let own = own.into_iter().map(|fd| (fd, false));
        let mut all: Vec<_> = own.chain(self.descriptors()).map(entry).collect();
        // SAFETY: the descriptors are open, and the vector lives through the call, which knows its
        // length.
        unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, milliseconds) > 0 }
    }
}
