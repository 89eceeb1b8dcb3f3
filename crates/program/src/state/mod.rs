// SPDX-License-Identifier: Apache-2.0

//! Live state of stateful expressions: what outlives a generation.
//!
//! A [`State`] is shared by the generations that hold the same rule, element or object, and by the
//! workers that run it. All of it is atomic integers in relaxed order: no lock, and no count is
//! lost with several workers. Each worker has cells of its own for counters ([`crate::cells`]);
//! everything else is one or two words that all workers write, since whether a packet is within a
//! limit or a quota depends on the packets of all.

mod account;
mod connlimit;
mod counter;
pub mod dynamic;
mod dynamic_search;
mod hashlimit;
pub(crate) mod limit;
mod rate;
mod recent;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use dynamic::DynamicSet;
use penstock_ipset::IpSets;

pub use account::{AccountState, Against, Counted, Quota as AccountQuota};
pub use connlimit::ConnCountState;
pub(crate) use connlimit::{join, leave};
pub use counter::CounterState;
pub use dynamic_search::DynamicSearch;
pub(crate) use hashlimit::KEY_LEN as GROUP_KEY_LEN;
pub use hashlimit::{GroupRate, Hashlimit};
pub(crate) use limit::take;
pub use limit::{BadLimit, Bucket, Cost, LimitState};
pub use rate::{EstimatedRate, Rate, RateParameters};
pub(crate) use recent::{MOST as RECENT_MOST, Seen, kept_for};
pub use recent::{Recent, RecentAction};

/// Bytes used of a quota (`net/netfilter/nft_quota.c`). The amount belongs to the expression.
#[derive(Debug, Default)]
pub struct QuotaState {
    consumed: AtomicU64,
    /// It was said that it is used up.
    told: AtomicBool,
}

impl QuotaState {
    /// State of a quota with so many bytes used.
    pub(crate) fn new(consumed: u64) -> Self {
        QuotaState { consumed: AtomicU64::new(consumed), told: AtomicBool::new(false) }
    }

    /// Adds a packet, also beyond the quota; whether it is now beyond the quota.
    #[inline]
    pub fn consume(&self, bytes: u64, quota: u64) -> bool {
        consume(&self.consumed, bytes, quota)
    }

    /// Whether exhaustion of the quota must be reported: the first time since a reset.
    #[inline]
    pub fn tell_once(&self) -> bool {
        !self.told.load(Relaxed) && !self.told.swap(true, Relaxed)
    }

    /// Starts again: the bytes so far.
    fn reset(&self) -> u64 {
        self.told.store(false, Relaxed);
        self.consumed.swap(0, Relaxed)
    }

    /// Bytes so far, which may exceed the quota.
    pub fn consumed(&self) -> u64 {
        self.consumed.load(Relaxed)
    }
}

/// [`QuotaState::consume`] on the bare word.
#[inline]
pub(crate) fn consume(consumed: &AtomicU64, bytes: u64, quota: u64) -> bool {
    consumed.fetch_add(bytes, Relaxed).wrapping_add(bytes) > quota
}

/// When a rule was last reached (`net/netfilter/nft_last.c`).
#[derive(Debug)]
pub struct LastState {
    at: AtomicU64,
}

impl LastState {
    /// In place of a time: it was not reached yet.
    pub(crate) const NEVER: u64 = u64::MAX;

    /// State of a rule last reached at a time (ns).
    pub(crate) fn new(at: Option<u64>) -> Self {
        LastState { at: AtomicU64::new(at.unwrap_or(Self::NEVER)) }
    }

    /// Notes the time (ns).
    #[inline]
    pub fn touch(&self, now: u64) {
        if self.at.load(Relaxed) != now {
            self.at.store(now, Relaxed);
        }
    }

    /// When it was (ns); `None` for never.
    pub fn at(&self) -> Option<u64> {
        Some(self.at.load(Relaxed)).filter(|at| *at != Self::NEVER)
    }

    /// Milliseconds from a time (ns) to `now`; `None` for [`LastState::NEVER`].
    pub(crate) fn since(at: u64, now: u64) -> Option<u64> {
        (at != Self::NEVER).then(|| now.saturating_sub(at) / 1_000_000)
    }
}

/// Counter of `numgen inc` (`net/netfilter/nft_numgen.c`).
#[derive(Debug)]
pub struct NumgenState {
    last: AtomicU32,
}

impl NumgenState {
    /// The next number is 0.
    pub(crate) fn new(modulus: u32) -> Self {
        NumgenState { last: AtomicU32::new(modulus.wrapping_sub(1)) }
    }

    /// The number before the next one.
    pub(crate) fn after(last: u32) -> Self {
        NumgenState { last: AtomicU32::new(last) }
    }

    /// The number before the next one.
    pub fn last(&self) -> u32 {
        self.last.load(Relaxed)
    }

    /// The next number below `modulus`; the first is 0.
    #[inline]
    pub fn next(&self, modulus: u32) -> u32 {
        let step = |last: u32| last.checked_add(1).filter(|next| *next < modulus).unwrap_or(0);
        let last = self.last.fetch_update(Relaxed, Relaxed, |last| Some(step(last))).unwrap_or(0);
        step(last)
    }
}

/// State of one stateful expression or object. Interior mutability only.
#[derive(Debug)]
pub enum State {
    /// State of a counter.
    Counter(CounterState),
    /// State of a quota.
    Quota(QuotaState),
    /// State of a limit.
    Limit(LimitState),
    /// State of `last`.
    Last(LastState),
    /// State of `numgen inc`.
    Numgen(NumgenState),
    /// Seed of a `jhash` that names none: random, the same for the rule's life.
    HashSeed(u32),
    /// State of a connection limit.
    Connlimit(ConnCountState),
    /// Elements that a match of x_tables counts in, of its own.
    Elements(Arc<DynamicSet>),
    /// Addresses that `recent` has seen.
    Recent(Box<Recent>),
    /// The sets of ipset: all rules share them.
    IpSets(Arc<IpSets>),
    /// Groups of `hashlimit`.
    Hashlimit(Hashlimit),
    /// A rate that `RATEEST` estimates.
    Rate(Box<Rate>),
    /// The rates that `rateest` compares, one or two of [`State::Rate`].
    Rates(Box<[Arc<State>]>),
    /// An account by name.
    Account(AccountState),
    /// Of a statement of an element of a set that packets change.
    InSet {
        /// The set.
        set: Arc<DynamicSet>,
        /// The element's slot.
        slot: u32,
        /// Which of its statements.
        statement: usize,
    },
}

/// State of a statement in words of its own: packets and bytes of a counter; what is consumed of a
/// quota; when a limit was empty; when `last` was last reached.
pub type Words = [u64; 2];

impl State {
    /// Adds to packets and bytes of a counter, or to the bytes of a quota, what something else has
    /// counted. Other states stay as they are, and so do statements of elements that are neither.
    pub fn add(&self, more: Words) {
        match self {
            State::Counter(state) => state.add(more[0], more[1]),
            State::Quota(state) => {
                state.consume(more[0], u64::MAX);
            }
            State::InSet { set, slot, statement } => set.add_words(*slot, *statement, more),
            _ => {}
        }
    }

    /// The words of its present values; `None` if it has none that are shown.
    pub fn words(&self) -> Option<Words> {
        match self {
            State::Counter(state) => Some(state.read().into()),
            State::Quota(state) => Some([state.consumed(), 0]),
            State::Last(state) => Some([state.at.load(Relaxed), 0]),
            State::InSet { set, slot, statement } => set.words(*slot, *statement),
            State::Limit(_)
            | State::Numgen(_)
            | State::HashSeed(_)
            | State::Connlimit(_)
            | State::Elements(_)
            | State::Recent(_)
            | State::IpSets(_)
            | State::Hashlimit(_)
            | State::Rate(_)
            | State::Rates(_)
            | State::Account(_) => None,
        }
    }

    /// As [`State::words`], and starts again: counters at zero, quotas unused, `last` never, and
    /// statements of elements with `fresh` words. Concurrent counts are not lost.
    pub(crate) fn reset(&self, fresh: Words) -> Option<Words> {
        match self {
            State::Counter(state) => Some(state.reset().into()),
            State::Quota(state) => Some([state.reset(), 0]),
            State::Last(state) => Some([state.at.swap(LastState::NEVER, Relaxed), 0]),
            State::InSet { set, slot, statement } => set.replace_words(*slot, *statement, fresh),
            State::Limit(_)
            | State::Numgen(_)
            | State::HashSeed(_)
            | State::Connlimit(_)
            | State::Elements(_)
            | State::Recent(_)
            | State::IpSets(_)
            | State::Hashlimit(_)
            | State::Rate(_)
            | State::Rates(_)
            | State::Account(_) => None,
        }
    }
}

/// Two states are equal if they are one.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
