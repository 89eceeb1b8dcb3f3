// SPDX-License-Identifier: Apache-2.0

//! Bytes of a connection that were received together: many short messages cost one call.

use std::io::{self, Read};

/// Bytes that are received at once.
const AT_ONCE: usize = 64 << 10;

/// What was received and not yet read. A connection that has such bytes may have nothing that
/// poll(2) tells of.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    bytes: Vec<u8>,
    at: usize,
}

impl ReadAhead {
    /// Whether there is something.
    pub(super) fn has_some(&self) -> bool {
        self.at < self.bytes.len()
    }

    /// A reader that takes what is there, then receives from another one.
    pub(super) fn over<R: Read>(&mut self, from: R) -> impl Read {
        Over { ahead: self, from }
    }
}

struct Over<'a, R> {
    ahead: &'a mut ReadAhead,
    from: R,
}

impl<R: Read> Read for Over<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if !self.ahead.has_some() {
            if to.len() >= AT_ONCE {
                return self.from.read(to);
            }
            let ReadAhead { bytes, at } = &mut *self.ahead;
            bytes.resize(AT_ONCE, 0);
            *at = AT_ONCE;
            let got = self.from.read(bytes)?;
            bytes.truncate(got);
            *at = 0;
        }
        let ReadAhead { bytes, at } = &mut *self.ahead;
        let there = bytes.get(*at..).unwrap_or_default();
        let len = there.len().min(to.len());
        to[..len].copy_from_slice(&there[..len]);
        *at += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time, and counts how often.
    struct Pieces<'b>(&'b [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let len = self.0.len().min(to.len()).min(AT_ONCE / 2);
            let (now, later) = self.0.split_at(len);
            to[..len].copy_from_slice(now);
            (self.0, self.1) = (later, self.1 + 1);
            Ok(len)
        }
    }

    #[test]
    fn bytes_come_whole_and_in_order_by_few_calls() {
        let all: Vec<u8> = (0..3 * AT_ONCE).map(|n| (n % 251) as u8).collect();
        let (mut ahead, mut from) = (ReadAhead::default(), Pieces(&all, 0));
        let mut read = Vec::new();
        for len in [1, 4, 100, 3, AT_ONCE, 7, AT_ONCE / 2].into_iter().cycle() {
            let mut part = vec![0; len];
            let got = ahead.over(&mut from).read(&mut part).expect("pieces do not fail");
            if got == 0 {
                break;
            }
            read.extend_from_slice(&part[..got]);
        }
        assert!(read == all && !ahead.has_some());
        assert!(from.1 <= 8, "{} calls", from.1);
    }
}
