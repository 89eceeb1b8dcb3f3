// SPDX-License-Identifier: Apache-2.0

//! Records that wait to be sent to a peer. There are so many at most: if there is no place, all of
//! them are forgotten, and everything is told anew once the peer takes again.

use std::collections::VecDeque;

use penstock_ctsync::secure::{Record, write_record};

/// Bytes of records that a frame has at most, but for one record that is longer.
const FRAME: usize = 16 << 10;
/// Bytes that wait at most.
const MOST: usize = 16 << 20;

/// The records, in the order in which they are sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Records that were put here.
    pub(super) records: u64,
    /// How often there was no place.
    pub(super) overruns: u64,
    /// There was no place, and nothing is put here until everything is told anew.
    pub(super) is_closed: bool,
}

impl Outbox {
    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts something there that appends one record to a frame.
    pub(super) fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_closed {
            return;
        }
        if self.frames.back().is_none_or(|frame| frame.len() >= FRAME) {
            self.frames.push_back(Vec::with_capacity(FRAME + 512));
        }
        let Some(frame) = self.frames.back_mut() else { return };
        let before = frame.len();
        write(frame);
        self.bytes += frame.len() - before;
        self.records += 1;
        if self.bytes > MOST {
            self.clear();
            (self.is_closed, self.overruns) = (true, self.overruns + 1);
        }
    }

    /// Puts a record there.
    pub(super) fn put_record(&mut self, record: &Record) {
        self.put(|to| write_record(record, to));
    }

    /// Takes the records of the next frame.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }

    /// Forgets what waits.
    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_place_closes_it() {
        let mut outbox = Outbox::default();
        let record = |to: &mut Vec<u8>| to.extend([0; 1000]);
        (0..MOST / 1000).for_each(|_| outbox.put(record));
        assert!(!outbox.is_closed && outbox.bytes() <= MOST);
        let frame = outbox.take().map(|frame| frame.len());
        assert_eq!(frame, Some(17_000));
        (0..18).for_each(|_| outbox.put(record));
        assert!((outbox.is_closed, outbox.bytes(), outbox.overruns) == (true, 0, 1));
        outbox.put_record(&Record::Ask);
        assert!(outbox.take().is_none());
        outbox.is_closed = false;
        outbox.put_record(&Record::Ask);
        assert_eq!(outbox.take().map(|frame| frame.len()), Some(3));
    }
}
