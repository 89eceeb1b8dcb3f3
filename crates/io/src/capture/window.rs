// SPDX-License-Identifier: Apache-2.0

//! A window that moves over a file from start to end.

use std::io::{ErrorKind, Read};

/// Bytes asked of the source at a time. Large reads beat a mapping here: no page faults, the memory
/// stays the same, and pipes work.
pub(super) const READ: usize = 256 << 10;

/// Part of a file in memory. The latest record stays readable until the next call that moves the
/// window.
pub(super) struct Window {
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// First byte not passed yet.
    start: usize,
    /// One past the last byte read.
    end: usize,
    /// Offset in the file of `start`.
    position: u64,
    /// Offset in the file of the record or block that is being read.
    record: u64,
    at_end: bool,
}

impl Window {
    pub(super) fn new(source: Box<dyn Read + Send>) -> Window {
        Window {
            source,
            buffer: vec![0; READ],
            start: 0,
            end: 0,
            position: 0,
            record: 0,
            at_end: false,
        }
    }

    /// A record or block begins at the next byte: errors are reported with its offset.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.record = self.position;
    }

    /// Offset in the file where the last record or block began.
    pub(super) fn record(&self) -> u64 {
        self.record
    }

    /// The next `n` bytes, or `None` if the file ends before.
    #[inline]
    pub(super) fn peek(&mut self, n: usize) -> std::io::Result<Option<&[u8]>> {
        if self.end - self.start < n && !self.fill(n)? {
            return Ok(None);
        }
        Ok(Some(&self.buffer[self.start..self.start + n]))
    }

    /// How many bytes are left, as far as is known without moving far: 0 only at the end of the
    /// file.
    pub(super) fn left(&mut self) -> std::io::Result<usize> {
        if self.start == self.end {
            self.fill(1)?;
        }
        Ok(self.end - self.start)
    }

    /// Passes `n` bytes that were peeked at; returns the place of the first for [`Window::passed`].
    #[inline]
    pub(super) fn pass(&mut self, n: usize) -> usize {
        let at = self.start;
        debug_assert!(n <= self.end - self.start);
        self.start += n;
        self.position += n as u64;
        at
    }

    /// Bytes that were passed and not yet overwritten.
    #[inline]
    pub(super) fn passed(&self, at: usize, n: usize) -> &[u8] {
        &self.buffer[at..at + n]
    }

    /// Passes `n` bytes that need not fit in the window; `false` if the file ends before.
    pub(super) fn skip(&mut self, mut n: u64) -> std::io::Result<bool> {
        loop {
            let here = (self.end - self.start) as u64;
            if n <= here {
                self.pass(n as usize);
                return Ok(true);
            }
            self.pass(here as usize);
            n -= here;
            if !self.fill(1)? {
                return Ok(false);
            }
        }
    }

    /// Reads until `n` bytes are there; `false` at the end of the file.
    #[cold]
    fn fill(&mut self, n: usize) -> std::io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < n {
            self.buffer.resize(n.next_multiple_of(READ), 0);
        }
        while self.end < n && !self.at_end {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(got) => self.end += got,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(self.end >= n)
    }
}
