// SPDX-License-Identifier: Apache-2.0

//! When all that there is is told anew, as a snapshot in the stream: at the beginning, when others
//! ask, after anything was lost, and before the stream forgets the last one or gets much longer.

use penstock_ctsync::secure::{Digest, Record};

use super::client::Tag;
use crate::failover::bulk::Place;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// How long after the beginning of one the next one may begin. Who lacks one waits longer before it
/// asks.
const PAUSE: u64 = 5 * SECOND;
/// The same where the stream has forgotten the last one.
const RENEWAL: u64 = 60 * SECOND;
/// Bytes of messages after a snapshot that make another one worth it: so many times its own, and at
/// least so many.
const LENGTH: (u64, u64) = (4, 64 << 20);

/// One that is being told.
pub(super) struct Telling {
    pub(super) mark: u64,
    pub(super) digest: Digest,
    /// Where the next part of the tables begins.
    pub(super) next: Place,
}

/// All of them.
#[derive(Default)]
pub(super) struct Snapshots {
    pub(super) telling: Option<Telling>,
    wanted: bool,
    mark: u64,
    began: Option<u64>,
    /// Where the last one that has begun is in the stream.
    begins_at: Option<u64>,
    /// Where the last one that has ended is.
    told_at: Option<u64>,
    /// Bytes of the last one, and of what came after it.
    bytes: (u64, u64),
    is_sent: bool,
    renewed: u64,
    /// How many were told.
    pub(super) told: u64,
}

impl Snapshots {
    /// The stream may be another one: everything is told anew.
    pub(super) fn begin_anew(&mut self) {
        self.interrupt();
        self.wanted = true;
        (self.begins_at, self.told_at) = (None, None);
    }

    /// Everything is to be told anew.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// The one that is being told does not end.
    pub(super) fn interrupt(&mut self) {
        if self.telling.take().is_some() {
            self.wanted = true;
        }
    }

    /// Whether everything is told, as far as it can be.
    pub(super) fn is_told(&self) -> bool {
        !self.wanted && self.telling.is_none()
    }

    /// Begins one, if one is wanted and it is time: what is to be said first.
    pub(super) fn begin(&mut self, now: u64) -> Option<Record> {
        let paused = self.began.is_some_and(|began| now.saturating_sub(began) < PAUSE);
        if self.telling.is_some() || !self.wanted || paused {
            return None;
        }
        (self.wanted, self.began) = (false, Some(now));
        (self.begins_at, self.bytes, self.is_sent) = (None, (0, 0), false);
        self.mark += 1;
        self.telling =
            Some(Telling { mark: self.mark, digest: Digest::default(), next: Place::default() });
        Some(Record::Begin { mark: self.mark })
    }

    /// So many bytes are sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        if self.is_sent {
            self.bytes.1 += bytes;
            let (times, least) = LENGTH;
            if self.bytes.1 > (times * self.bytes.0).max(least) {
                self.wanted = true;
            }
        } else {
            self.bytes.0 += bytes;
        }
    }

    /// A message is stored, at a place. Where the snapshot begins, if this was its end.
    pub(super) fn stored(&mut self, tag: Tag, place: u64) -> Option<u64> {
        match tag {
            Tag::Begin(mark) if mark == self.mark => self.begins_at = Some(place),
            Tag::End(mark) if mark == self.mark => {
                self.is_sent = true;
                self.told += 1;
                self.told_at = self.begins_at;
                return self.told_at;
            }
            _ => {}
        }
        None
    }

    /// The stream has messages from a place on. Whether it has forgotten the last snapshot sooner
    /// than snapshots are told.
    pub(super) fn kept(&mut self, first: u64, now: u64) -> bool {
        if self.told_at.is_none_or(|at| at >= first) || !self.is_told() {
            return false;
        }
        let soon = self.renewed != 0 && now.saturating_sub(self.renewed) < RENEWAL;
        if !soon {
            self.renewed = now;
            self.wanted = true;
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = 80 << 20;

    #[test]
    fn snapshots_begin_when_something_was_lost_and_not_too_often() {
        let mut all = Snapshots::default();
        assert!(all.begin(1).is_none() && all.is_told());
        all.begin_anew();
        assert_eq!(all.begin(SECOND), Some(Record::Begin { mark: 1 }));
        assert!(!all.is_told());
        // It is told; the stream has it from a place on.
        all.telling = None;
        assert_eq!(all.stored(Tag::Begin(1), 40), None);
        assert_eq!(all.stored(Tag::End(1), 90), Some(40));
        assert!(all.is_told());
        // Who asks waits for a moment.
        all.want();
        assert!(all.begin(2 * SECOND).is_none());
        assert_eq!(all.begin(7 * SECOND), Some(Record::Begin { mark: 2 }));
        // The end of the one before does not count any more, and another stream needs another one.
        assert_eq!(all.stored(Tag::End(1), 95), None);
        all.begin_anew();
        assert!(all.begin(7 * SECOND).is_none() && !all.is_told());
        assert_eq!(all.begin(12 * SECOND), Some(Record::Begin { mark: 3 }));
    }

    #[test]
    fn snapshots_are_told_again_before_the_stream_forgets_them() {
        let mut all = Snapshots::default();
        all.begin_anew();
        assert!(all.begin(SECOND).is_some());
        all.telling = None;
        all.stored(Tag::Begin(1), 40);
        all.stored(Tag::End(1), 90);
        assert!(!all.kept(40, SECOND) && all.is_told());
        assert!(!all.kept(41, 9 * SECOND) && !all.is_told());
        assert!(all.begin(9 * SECOND).is_some());
        all.telling = None;
        all.stored(Tag::Begin(2), 100);
        all.stored(Tag::End(2), 200);
        // Again so soon: it does not fit.
        assert!(all.kept(101, 10 * SECOND) && all.is_told());
        assert!(!all.kept(101, 90 * SECOND) && !all.is_told());
    }

    #[test]
    fn a_long_stream_is_worth_another_snapshot() {
        let mut all = Snapshots::default();
        all.begin_anew();
        assert!(all.begin(SECOND).is_some());
        all.telling = None;
        all.sent(MANY);
        all.stored(Tag::End(1), 90);
        (0..4).for_each(|_| all.sent(MANY));
        assert!(all.is_told());
        all.sent(1);
        assert!(!all.is_told());
    }
}
