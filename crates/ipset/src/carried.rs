// SPDX-License-Identifier: Apache-2.0

//! What elements carry besides their key (`struct ip_set_ext`): words of a table, and comments.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::Code;
use crate::given::GivenExtensions;
use crate::options::{Options, TIMEOUT_MOST};

/// Words of an element: flags and the comment's number; packets; bytes; mark and mask; priority and
/// queue; the link address of a bitmap's element.
pub(crate) const WORDS: usize = 6;
const FLAGS: usize = 0;
const PACKETS: usize = 1;
const BYTES: usize = 2;
const MARK: usize = 3;
const PRIORITY: usize = 4;
const MAC: usize = 5;

const IS_NOMATCH: u64 = 1;
const HAS_MAC: u64 = 2;
/// The comment's number is in the upper half.
const COMMENT: u32 = 32;
const SECOND: u64 = 1_000_000_000;

/// What packets get of an element that they match (`struct ip_set_skbinfo`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkbInfo {
    /// Mark.
    pub mark: u32,
    /// Bits of the packet's mark that are replaced.
    pub mask: u32,
    /// Priority.
    pub priority: u32,
    /// Queue of the device.
    pub queue: u16,
}

/// What an element carries, as it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// It is an exception.
    pub nomatch: bool,
    /// Packets and bytes.
    pub counters: [u64; 2],
    /// What packets get.
    pub skbinfo: SkbInfo,
    /// Link address of an element of a bitmap, if it has one.
    pub mac: Option<[u8; 6]>,
    /// Number of its comment; 0 for none.
    pub(crate) comment: u32,
}

/// Words of an element as they are.
#[derive(Clone, Copy)]
pub(crate) struct Words<'w>(pub &'w [AtomicU64]);

impl Words<'_> {
    fn get(self, at: usize) -> u64 {
        self.0.get(at).map_or(0, |word| word.load(Relaxed))
    }

    fn set(self, at: usize, value: u64) {
        if let Some(word) = self.0.get(at) {
            word.store(value, Relaxed);
        }
    }

    pub(crate) fn is_nomatch(self) -> bool {
        self.get(FLAGS) & IS_NOMATCH != 0
    }

    pub(crate) fn set_nomatch(self, nomatch: bool) {
        self.set(FLAGS, self.get(FLAGS) & !IS_NOMATCH | u64::from(nomatch));
    }

    pub(crate) fn mac(self) -> Option<[u8; 6]> {
        let bytes = self.get(MAC).to_le_bytes();
        (self.get(FLAGS) & HAS_MAC != 0)
            .then(|| [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]])
    }

    pub(crate) fn set_mac(self, [a, b, c, d, e, f]: [u8; 6]) {
        self.set(MAC, u64::from_le_bytes([a, b, c, d, e, f, 0, 0]));
        self.set(FLAGS, self.get(FLAGS) | HAS_MAC);
    }

    pub(crate) fn comment(self) -> u32 {
        (self.get(FLAGS) >> COMMENT) as u32
    }

    pub(crate) fn set_comment(self, number: u32) {
        let flags = self.get(FLAGS) & u64::from(u32::MAX);
        self.set(FLAGS, flags | u64::from(number) << COMMENT);
    }

    pub(crate) fn skbinfo(self) -> SkbInfo {
        let (mark, rest) = (self.get(MARK), self.get(PRIORITY));
        SkbInfo {
            mark: (mark >> 32) as u32,
            mask: mark as u32,
            priority: (rest >> 32) as u32,
            queue: rest as u16,
        }
    }

    pub(crate) fn set_skbinfo(self, info: SkbInfo) {
        self.set(MARK, u64::from(info.mark) << 32 | u64::from(info.mask));
        self.set(PRIORITY, u64::from(info.priority) << 32 | u64::from(info.queue));
    }

    pub(crate) fn counters(self) -> [u64; 2] {
        [self.get(PACKETS), self.get(BYTES)]
    }

    pub(crate) fn set_counters(self, [packets, bytes]: [Option<u64>; 2]) {
        for (at, value) in [(PACKETS, packets), (BYTES, bytes)] {
            if let Some(value) = value {
                self.set(at, value);
            }
        }
    }

    pub(crate) fn count(self, bytes: u64) {
        for (at, more) in [(PACKETS, 1), (BYTES, bytes)] {
            if let Some(word) = self.0.get(at) {
                word.fetch_add(more, Relaxed);
            }
        }
    }

    /// Zeroes all.
    pub(crate) fn clear(self) {
        self.0.iter().for_each(|word| word.store(0, Relaxed));
    }

    pub(crate) fn read(self) -> Carried {
        Carried {
            nomatch: self.is_nomatch(),
            counters: self.counters(),
            skbinfo: self.skbinfo(),
            mac: self.mac(),
            comment: self.comment(),
        }
    }

    /// Takes what a request or a packet says.
    pub(crate) fn take(self, new: &New<'_>, comment: u32, options: &Options) {
        self.set_nomatch(new.nomatch);
        if options.counters {
            self.set_counters(new.counters);
        }
        if options.comment {
            self.set_comment(comment);
        }
        if options.skbinfo {
            self.set_skbinfo(new.skbinfo);
        }
    }
}

/// What an element is to carry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct New<'g> {
    /// Seconds to live; 0 for no end.
    pub timeout: u32,
    pub nomatch: bool,
    /// `None` for what is to stay as it is.
    pub counters: [Option<u64>; 2],
    pub skbinfo: SkbInfo,
    pub comment: Option<&'g str>,
}

impl<'g> New<'g> {
    /// What a request says, if the set has it (`ip_set_get_extensions()`).
    pub(crate) fn checked(
        given: &'g GivenExtensions,
        nomatch: bool,
        options: &Options,
    ) -> Result<Self, Code> {
        if given.timeout.is_some() && options.timeout.is_none() {
            return Err(Code::TIMEOUT);
        }
        if (given.packets.is_some() || given.bytes.is_some()) && !options.counters {
            return Err(Code::COUNTER);
        }
        if given.comment.is_some() && !options.comment {
            return Err(Code::COMMENT);
        }
        let of_packets = given.skbmark.is_some() || given.skbprio.is_some();
        if (of_packets || given.skbqueue.is_some()) && !options.skbinfo {
            return Err(Code::SKBINFO);
        }
        let mark = given.skbmark.unwrap_or(0);
        Ok(New {
            timeout: given.timeout.or(options.timeout).unwrap_or(0).min(TIMEOUT_MOST),
            nomatch,
            counters: [given.packets, given.bytes],
            skbinfo: SkbInfo {
                mark: (mark >> 32) as u32,
                mask: mark as u32,
                priority: given.skbprio.unwrap_or(0),
                queue: given.skbqueue.unwrap_or(0),
            },
            comment: given.comment.as_deref().filter(|text| !text.is_empty()),
        })
    }

    /// When it expires.
    pub(crate) fn expires_at(&self, now: u64) -> u64 {
        match self.timeout {
            0 => penstock_sets::NEVER,
            seconds => {
                now.saturating_add(u64::from(seconds) * SECOND).min(penstock_sets::NEVER - 1)
            }
        }
    }
}

/// Seconds that are left until a time, at least one; `None` for [`penstock_sets::NEVER`].
pub(crate) fn left(expires_at: Option<u64>, now: u64) -> u32 {
    match expires_at {
        None => 0,
        Some(at) => u32::try_from(at.saturating_sub(now) / SECOND).unwrap_or(u32::MAX).max(1),
    }
}

/// Comments of a set, by number. Packets do not look at them.
#[derive(Debug, Default)]
pub(crate) struct Comments {
    known: Mutex<(u32, HashMap<u32, Box<str>>)>,
}

impl Comments {
    fn held(&self) -> MutexGuard<'_, (u32, HashMap<u32, Box<str>>)> {
        // Nothing that is done under it leaves it half done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a new comment; 0 for none.
    pub(crate) fn add(&self, text: Option<&str>) -> u32 {
        let Some(text) = text else { return 0 };
        let mut held = self.held();
        let (last, all) = &mut *held;
        *last = last.wrapping_add(1).max(1);
        all.insert(*last, text.into());
        *last
    }

    pub(crate) fn remove(&self, number: u32) {
        if number != 0 {
            self.held().1.remove(&number);
        }
    }

    pub(crate) fn get(&self, number: u32) -> Option<Box<str>> {
        if number == 0 { None } else { self.held().1.get(&number).cloned() }
    }

    pub(crate) fn clear(&self) {
        self.held().1.clear();
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.held().1.len()
    }

    /// Forgets all but some.
    pub(crate) fn retain(&self, used: &std::collections::HashSet<u32>) {
        self.held().1.retain(|number, _| used.contains(number));
    }

    /// Bytes that the kernel counts for them: a head of 16, and the text with its end.
    pub(crate) fn memory(&self) -> usize {
        self.held().1.values().map(|text| 16 + text.len() + 1).sum()
    }
}
