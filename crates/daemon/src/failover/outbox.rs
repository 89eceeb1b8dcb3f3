// SPDX-License-Identifier: Apache-2.0

//! Records that wait to be sent, in frames: those of one shard stay in order. There are so many at
//! most: if there is no place, all of them are forgotten, and everything is told anew once others
//! take again.

use std::collections::VecDeque;

use penstock_ctsync::secure::{Record, write_record};

/// Bytes of records that a frame has at most, but for one record that is longer.
const FRAME: usize = 16 << 10;
/// Bytes that wait at most.
const MOST: usize = 16 << 20;

/// The records, in the order in which they are sent.
#[derive(Debug)]
pub(super) struct Outbox {
    /// Frames that are full, or are to be sent before others, and their shards.
    ready: VecDeque<(usize, Vec<u8>)>,
    /// For each shard, the frame that records are added to.
    open: Vec<Vec<u8>>,
    bytes: usize,
    /// Records that were put here.
    pub(super) records: u64,
    /// How often there was no place.
    pub(super) overruns: u64,
    /// There was no place, and nothing is put here until everything is told anew.
    pub(super) is_closed: bool,
}

impl Outbox {
    /// With so many shards; at least one.
    pub(super) fn new(shards: usize) -> Self {
        Outbox {
            ready: VecDeque::new(),
            open: vec![Vec::new(); shards.max(1)],
            bytes: 0,
            records: 0,
            overruns: 0,
            is_closed: false,
        }
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts something there that appends one record to a frame of a shard.
    pub(super) fn put(&mut self, shard: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_closed {
            return;
        }
        let Some(frame) = self.open.get_mut(shard) else { return };
        let before = frame.len();
        write(frame);
        self.bytes += frame.len() - before;
        self.records += 1;
        if frame.len() >= FRAME {
            let frame = std::mem::take(frame);
            self.ready.push_back((shard, frame));
        }
        if self.bytes > MOST {
            self.clear();
            (self.is_closed, self.overruns) = (true, self.overruns + 1);
        }
    }

    /// Puts a record there that comes after all that wait already, and before all others.
    pub(super) fn put_record(&mut self, record: &Record) {
        // One shard is in order.
        let shards = self.open.len() > 1;
        if shards {
            self.flush();
        }
        self.put(0, |to| write_record(record, to));
        if shards {
            self.flush();
        }
    }

    /// What is put there from now on comes after all that wait already, whatever its shard.
    fn flush(&mut self) {
        for (shard, frame) in self.open.iter_mut().enumerate().filter(|(_, f)| !f.is_empty()) {
            self.ready.push_back((shard, std::mem::take(frame)));
        }
    }

    /// Takes the records of the next frame, and says of which shard they are.
    pub(super) fn take(&mut self) -> Option<(usize, Vec<u8>)> {
        if self.ready.is_empty() {
            self.flush();
        }
        let (shard, frame) = self.ready.pop_front()?;
        self.bytes -= frame.len();
        Some((shard, frame))
    }

    /// Forgets what waits.
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.open.iter_mut().for_each(Vec::clear);
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_place_closes_it() {
        let mut outbox = Outbox::new(1);
        let record = |to: &mut Vec<u8>| to.extend([0; 1000]);
        (0..MOST / 1000).for_each(|_| outbox.put(0, record));
        assert!(!outbox.is_closed && outbox.bytes() <= MOST);
        let frame = outbox.take().map(|(_, frame)| frame.len());
        assert_eq!(frame, Some(17_000));
        (0..18).for_each(|_| outbox.put(0, record));
        assert!((outbox.is_closed, outbox.bytes(), outbox.overruns) == (true, 0, 1));
        outbox.put_record(&Record::Ask);
        assert!(outbox.take().is_none());
        outbox.is_closed = false;
        outbox.put_record(&Record::Ask);
        assert_eq!(outbox.take().map(|(_, frame)| frame.len()), Some(3));
    }

    #[test]
    fn shards_have_their_own_frames_and_records_for_all_come_between_them() {
        let mut outbox = Outbox::new(3);
        for (shard, byte) in [(2, 1), (0, 2), (2, 3)] {
            outbox.put(shard, |to| to.push(byte));
        }
        outbox.put_record(&Record::Ask);
        outbox.put(0, |to| to.push(5));
        outbox.put(1, |to| to.push(4));
        let taken: Vec<_> = std::iter::from_fn(|| outbox.take()).collect();
        let ask = vec![15, 0, 0];
        let expected = [(0, vec![2]), (2, vec![1, 3]), (0, ask), (0, vec![5]), (1, vec![4])];
        assert_eq!((taken, outbox.bytes()), (expected.to_vec(), 0));
    }
}
