//! What threads leave for each other, with a descriptor that can be waited for.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A queue of messages for one thread.
#[derive(Debug)]
pub struct Inbox<T> {
    messages: Mutex<VecDeque<T>>,
    /// Whether there are any, to be seen without the lock.
    waiting: AtomicBool,
    event: File,
}

impl<T> Inbox<T> {
    /// An empty one.
    pub fn new() -> std::io::Result<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else has.
        let event = unsafe { File::from_raw_fd(fd) };
        Ok(Inbox { messages: Mutex::default(), waiting: AtomicBool::new(false), event })
    }

    /// Leaves a message.
    pub fn send(&self, message: T) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push_back(message);
        self.waiting.store(true, Ordering::Release);
        // It fails only if it is signalled 2^64 times.
        let _ = (&self.event).write(&1u64.to_ne_bytes());
    }

    /// Wakes who waits for the descriptor, without a message.
    pub fn ring(&self) {
        self.waiting.store(true, Ordering::Release);
        let _ = (&self.event).write(&1u64.to_ne_bytes());
    }

    /// Leaves a message unless so many wait already; whether it did.
    pub fn try_send(&self, message: T, limit: usize) -> bool {
        self.offer(message, limit).is_ok()
    }

    /// The same, but gives the message back.
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
            let _ = (&self.event).read(&mut [0; 8]);
        }
        message
    }
}

impl<T> AsFd for Inbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
