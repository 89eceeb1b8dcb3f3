// SPDX-License-Identifier: Apache-2.0

//! Datagrams of a dump.

use super::{DONE, Writer, flags};

/// Messages in datagrams of a limited length.
#[derive(Debug)]
pub struct Pages {
    /// Longest datagram in bytes, unless one message is longer.
    limit: usize,
    current: Writer,
    full: Vec<Vec<u8>>,
}

impl Pages {
    /// Without messages.
    pub fn new(limit: usize) -> Self {
        Pages { limit, current: Writer::default(), full: Vec::new() }
    }

    /// Longest datagram in bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Adds a message, which `write` appends.
    pub fn add(&mut self, write: impl FnOnce(&mut Writer)) {
        let before = self.current.len();
        write(&mut self.current);
        if self.current.len() > self.limit && before > 0 {
            let message = self.current.split_off(before);
            self.flush();
            self.current.raw(&message);
        }
    }

    /// Begins a new datagram.
    pub fn flush(&mut self) {
        let current = std::mem::take(&mut self.current);
        if !current.is_empty() {
            self.full.push(current.finish());
        }
    }

    /// The datagrams, of no dump.
    pub fn finish_without_end(mut self) -> Vec<Vec<u8>> {
        self.flush();
        self.full
    }

    /// The datagrams. The end of the dump has one of its own, as the kernel sends it.
    pub fn finish(mut self, sequence: u32, port: u32) -> Vec<Vec<u8>> {
        self.flush();
        self.finish_here(sequence, port)
    }

    /// The datagrams. The end of the dump is in the current one.
    pub fn finish_here(mut self, sequence: u32, port: u32) -> Vec<Vec<u8>> {
        let start = self.current.begin(DONE, flags::MULTI, sequence, port);
        self.current.raw(&0i32.to_ne_bytes());
        self.current.end(start);
        self.flush();
        self.full
    }
}
