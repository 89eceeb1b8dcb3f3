// SPDX-License-Identifier: Apache-2.0

//! Ways of packets through the hooks, as connections remember them.
//!
//! A way says what has to be done with every packet of a direction of a connection between its
//! connection lookup and the wire: which counters to add to, what of the header to translate, and
//! what to send it with. Connections whose packets have the same way share one by its number, which
//! a connection keeps for each direction ([`Conntrack::memo_of`]).
//!
//! A number is valid as long as nothing has changed that any way depends on, except the connection
//! itself, which forgets its numbers when it changes ([`Ways::follow`]).

use std::collections::HashMap;
use std::sync::Arc;

use penstock_conntrack::Conntrack;
use penstock_packet::CtInfo;
use penstock_program::{State, WorkerNumber};
use penstock_wire::ethernet;

/// Counters on a way at most.
const COUNTERS: usize = 8;

/// A counter that packets of a way are added to.
#[derive(Clone, Debug)]
struct Counting {
    counter: Arc<State>,
    /// Bytes that it counts beyond those from the network header on: those of the link header, at
    /// egress.
    more: u16,
}

/// The counters of a way, in the order in which they are met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters(Vec<Counting>);

impl Counters {
    /// Adds one more, if there is room.
    pub(crate) fn add(&mut self, counter: &Arc<State>, more: usize) -> Result<(), Refusal> {
        if self.0.len() >= COUNTERS {
            return Err(Refusal("many counters"));
        }
        self.0.push(Counting { counter: counter.clone(), more: more as u16 });
        Ok(())
    }

    /// Counts a packet of so many bytes from its network header on.
    #[inline(always)]
    pub(crate) fn count(&self, worker: WorkerNumber, bytes: u16) {
        for Counting { counter, more } in &self.0 {
            if let State::Counter(counter) = &**counter {
                counter.count(worker, u64::from(bytes) + u64::from(*more));
            }
        }
    }
}

impl PartialEq for Counters {
    fn eq(&self, other: &Counters) -> bool {
        let same = |(a, b): (&Counting, &Counting)| {
            Arc::ptr_eq(&a.counter, &b.counter) && a.more == b.more
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

/// What is done with the packets of a direction of a connection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Way {
    /// The device that they came in by.
    pub(crate) iif: u32,
    /// What they are to the connection.
    pub(crate) info: CtInfo,
    /// The destination is translated.
    pub(crate) destination: bool,
    /// The source is.
    pub(crate) source: bool,
    /// They see chains, and so get a number.
    pub(crate) numbered: bool,
    /// The device that they leave by.
    pub(crate) oif: u32,
    /// Bytes that they may have from the network header on.
    pub(crate) mtu: u32,
    pub(crate) realm: u32,
    pub(crate) mark: u32,
    /// The link header that they leave with.
    pub(crate) header: [u8; ethernet::LEN],
    pub(crate) counters: Counters,
}

impl Way {
    /// Of all fields but the counters, for finding it again.
    fn key(&self) -> u64 {
        let words = [
            u64::from(self.iif) << 32 | u64::from(self.oif),
            u64::from(self.mtu) << 32 | u64::from(self.realm),
            u64::from(self.mark) << 32 | self.info as u64,
            self.header.iter().fold(0, |all, byte| u64::from(*byte) | all.rotate_left(5)),
            self.counters.0.iter().fold(0, |all, counting| {
                all.rotate_left(7) ^ Arc::as_ptr(&counting.counter).addr() as u64
            }),
        ];
        words
            .iter()
            .fold(0, |all, word| (all ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
    }
}

/// Why packets of a connection pass the hooks one by one: a word for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) &'static str);

/// What a connection keeps for a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memo {
    /// So many packets were seen since anything has changed.
    Seen(u32),
    /// The way of this number.
    Way(usize),
    /// There is none, for this reason.
    Refused(usize),
}

/// What connections remembered of the ways of their packets so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RememberedWays {
    /// Packets that took a remembered way in place of passing the hooks.
    pub packets: u64,
    /// How often a direction of a connection got a way.
    pub directions: u64,
    /// How often it got none, by the reason: what is asked for each packet, or done with it.
    pub refused: Vec<(&'static str, u64)>,
}

impl RememberedWays {
    /// Adds what was remembered elsewhere.
    pub fn add(&mut self, other: &RememberedWays) {
        self.packets += other.packets;
        self.directions += other.directions;
        for (reason, times) in &other.refused {
            match self.refused.iter_mut().find(|(r, _)| r == reason) {
                Some((_, all)) => *all += times,
                None => self.refused.push((reason, *times)),
            }
        }
    }
}

/// Numbers of ways, and above them packets seen and reasons.
const MOST: u32 = 0xe000;
const REASONS: u32 = 0x1000;
const SEEN: u32 = MOST + REASONS;
const NUMBER: u32 = 0xffff;

/// The ways of a worker's connections.
#[derive(Debug)]
pub(crate) struct Ways {
    ways: Vec<Way>,
    /// Their numbers by [`Way::key`], the last one of each.
    numbers: HashMap<u64, u32>,
    /// Upper half of the words that are valid; never 0.
    epoch: u32,
    /// Number of the state of everything that ways depend on.
    state: u32,
    /// Why there was no way, and how often.
    reasons: Vec<(&'static str, u64)>,
    /// How often there was one.
    found: u64,
    /// Packets for which a way was remembered.
    pub(crate) packets: u64,
}

impl Default for Ways {
    fn default() -> Self {
        Ways {
            ways: Vec::new(),
            numbers: HashMap::new(),
            epoch: 1,
            state: 0,
            reasons: Vec::new(),
            found: 0,
            packets: 0,
        }
    }
}

impl Ways {
    /// What ways depend on is in the state of this number. In another one than before all that
    /// connections have remembered is void.
    #[inline]
    pub(crate) fn follow(&mut self, state: u32, conntrack: &mut Conntrack) {
        if self.state != state {
            self.state = state;
            self.clear(conntrack);
        }
    }

    #[cold]
    fn clear(&mut self, conntrack: &mut Conntrack) {
        self.ways.clear();
        self.numbers.clear();
        self.epoch += 1;
        if self.epoch > NUMBER {
            // Numbers begin again: none of before may be taken for a new one.
            self.epoch = 1;
            conntrack.forget_memos();
        }
    }

    /// What a connection's word says.
    #[inline(always)]
    pub(crate) fn read(&self, word: u32) -> Memo {
        if word >> 16 != self.epoch {
            return Memo::Seen(0);
        }
        match word & NUMBER {
            seen @ SEEN.. => Memo::Seen(seen - SEEN),
            reason @ MOST.. => Memo::Refused((reason - MOST) as usize),
            number => Memo::Way(number as usize),
        }
    }

    /// The word that says this.
    pub(crate) fn word(&self, memo: Memo) -> u32 {
        let number = match memo {
            Memo::Seen(seen) => SEEN + seen.min(NUMBER - SEEN),
            Memo::Way(number) => number as u32,
            Memo::Refused(reason) => MOST + reason as u32,
        };
        self.epoch << 16 | number
    }

    /// A way by its number.
    #[inline(always)]
    pub(crate) fn get(&self, number: usize) -> Option<&Way> {
        self.ways.get(number)
    }

    /// What to remember of what was found out.
    pub(crate) fn memo(&mut self, found: Result<Way, Refusal>) -> Memo {
        let found = found.and_then(|way| self.number(way));
        match found {
            Ok(number) => {
                self.found += 1;
                Memo::Way(number)
            }
            Err(Refusal(why)) => Memo::Refused(self.reason(why)),
        }
    }

    fn number(&mut self, way: Way) -> Result<usize, Refusal> {
        let key = way.key();
        if let Some(&number) = self.numbers.get(&key)
            && self.ways.get(number as usize) == Some(&way)
        {
            return Ok(number as usize);
        }
        let number = self.ways.len();
        if number >= MOST as usize {
            return Err(Refusal("many ways"));
        }
        self.ways.push(way);
        self.numbers.insert(key, number as u32);
        Ok(number)
    }

    fn reason(&mut self, why: &'static str) -> usize {
        let known = self.reasons.iter().position(|(reason, _)| *reason == why);
        let at = known.unwrap_or(self.reasons.len());
        if known.is_none() && at < REASONS as usize {
            self.reasons.push((why, 0));
        }
        if let Some((_, times)) = self.reasons.get_mut(at) {
            *times += 1;
        }
        at.min(REASONS as usize - 1)
    }

    /// What was remembered so far.
    pub(crate) fn summary(&self) -> RememberedWays {
        let refused = self.reasons.iter().filter(|(_, times)| *times > 0).copied().collect();
        RememberedWays { packets: self.packets, directions: self.found, refused }
    }
}
