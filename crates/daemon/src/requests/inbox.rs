// SPDX-License-Identifier: Apache-2.0

//! What threads leave for each other, with a descriptor that can be waited for.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crate::event::Event;
use crate::sync::{AtomicBool, Mutex};

/// A queue of messages for one thread.
#[derive(Debug)]
pub struct Inbox<T> {
    messages: Mutex<VecDeque<T>>,
    /// Whether there are requests, readable without the lock.
    waiting: AtomicBool,
    /// Signalled while there are requests.
    pub(crate) event: Event,
}

impl<T> Inbox<T> {
    /// An empty one.
    pub fn new() -> std::io::Result<Self> {
        let messages = Mutex::new(VecDeque::new());
        Ok(Inbox { messages, waiting: AtomicBool::new(false), event: Event::new()? })
    }

    /// Leaves a message.
    pub fn send(&self, message: T) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
        self.waiting.store(true, Ordering::Release);
        self.event.signal();
    }

    /// Wakes who waits for the descriptor, without a message.
    pub fn ring(&self) {
        self.waiting.store(true, Ordering::Release);
        self.event.signal();
    }

    /// Leaves a message unless so many wait already; whether it did.
    pub fn try_send(&self, message: T, limit: usize) -> bool {
        self.offer(message, limit).is_ok()
    }

    /// Leaves a message unless so many wait already; then the message comes back as the error.
    pub fn offer(&self, message: T, limit: usize) -> Result<(), T> {
        if self.messages.lock().unwrap_or_else(PoisonError::into_inner).len() >= limit {
            return Err(message);
        }
        self.send(message);
        Ok(())
    }

    /// The next message.
    #[inline]
    pub fn take(&self) -> Option<T> {
        if !self.waiting.load(Ordering::Acquire) {
            return None;
        }
        self.take_waiting()
    }

    #[cold]
    fn take_waiting(&self) -> Option<T> {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let message = messages.pop_front();
        if messages.is_empty() {
            self.waiting.store(false, Ordering::Release);
            self.event.clear();
        }
        message
    }
}

impl<T> AsFd for Inbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
