// SPDX-License-Identifier: Apache-2.0

//! Queues and stacks (`kernel/bpf/queue_stack_maps.c`): which slots of their memory are in use.

use super::{EXIST, Errno};

/// Slots in use, one after the other, around the end of the memory.
#[derive(Debug)]
pub(super) struct Queue {
    entries: u32,
    /// The slot that was put first.
    first: u32,
    len: u32,
    /// The last one is taken first.
    is_stack: bool,
}

impl Queue {
    pub(super) fn new(entries: u32, is_stack: bool) -> Queue {
        Queue { entries, first: 0, len: 0, is_stack }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    fn slot(&self, number: u32) -> u32 {
        ((u64::from(self.first) + u64::from(number)) % u64::from(self.entries)) as u32
    }

    /// The slot for a new value. With `BPF_EXIST` it takes the place of the oldest one, if all are
    /// in use.
    pub(super) fn push(&mut self, flags: u64) -> Result<u32, Errno> {
        if flags != 0 && flags != EXIST {
            return Err(Errno::INVAL);
        }
        if self.len == self.entries {
            if flags != EXIST {
                return Err(Errno::TOO_BIG);
            }
            self.first = self.slot(1);
            self.len -= 1;
        }
        self.len += 1;
        Ok(self.slot(self.len - 1))
    }

    /// The slot that is taken next.
    pub(super) fn peek(&self) -> Option<u32> {
        let last = self.len.checked_sub(1)?;
        Some(self.slot(if self.is_stack { last } else { 0 }))
    }

    /// Takes a slot, whose value is good until the next call.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let slot = self.peek()?;
        if !self.is_stack {
            self.first = self.slot(1);
        }
        self.len -= 1;
        Some(slot)
    }
}
