// SPDX-License-Identifier: Apache-2.0

//! Live state of stateful expressions: what outlives a generation.
//!
//! A [`State`] is shared by the generations that hold the same rule, element or object, and by the
//! workers that run it. All of it is atomic integers in relaxed order: no lock, and no count is
//! lost with several workers. Each worker has cells of its own for counters ([`crate::cells`]);
//! everything else is one or two words that all workers write, since whether a packet is within a
//! limit or a quota depends on the packets of all.

mod connlimit;
mod counter;
pub(crate) mod limit;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::dynamic::SetStatement;
use crate::expr::Expr;
use crate::image::Stateful;
use crate::link::LinkReason;
use crate::{DynamicSet, Errno};
pub use connlimit::ConnCountState;
pub(crate) use connlimit::{join, leave};
pub use counter::CounterState;
pub(crate) use limit::take;
pub use limit::{BadLimit, Bucket, LimitState};

/// Bytes used of a quota (`net/netfilter/nft_quota.c`). The amount belongs to the expression.
#[derive(Debug, Default)]
pub struct QuotaState {
    consumed: AtomicU64,
    /// It was said that it is used up.
    told: AtomicBool,
}

impl QuotaState {
    /// Of a quota of which so much is used.
    pub(crate) fn new(consumed: u64) -> Self {
        QuotaState { consumed: AtomicU64::new(consumed), told: AtomicBool::new(false) }
    }

    /// Adds a packet, also beyond the quota; whether it is now beyond the quota.
    #[inline]
    pub fn consume(&self, bytes: u64, quota: u64) -> bool {
        consume(&self.consumed, bytes, quota)
    }

    /// Whether it is to be said that the quota is used up: the first time since it was reset.
    #[inline]
    pub(crate) fn tell_once(&self) -> bool {
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

/// As [`QuotaState::consume`], on the word alone.
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

    /// Of a rule that was reached at a time (ns).
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
    /// Of a counter.
    Counter(CounterState),
    /// Of a quota.
    Quota(QuotaState),
    /// Of a limit.
    Limit(LimitState),
    /// Of `last`.
    Last(LastState),
    /// Of `numgen inc`.
    Numgen(NumgenState),
    /// Seed of a `jhash` that names none: random, the same for the rule's life.
    HashSeed(u32),
    /// Of a connection limit.
    Connlimit(ConnCountState),
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

/// An expression that elements of sets can have as a statement (`NFT_EXPR_STATEFUL`).
pub trait Statement {
    /// Checks the state to begin with.
    ///
    /// # Errors
    /// The kernel's error (`ops->init`).
    fn check(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// As engines run it.
    ///
    /// # Errors
    /// An operand is malformed.
    fn link_statement(&self, state: &Arc<State>) -> Result<Stateful, LinkReason>;

    /// As packets run it at elements that they add.
    fn in_set(&self) -> SetStatement;

    /// The expression with values of zero to begin with.
    fn blank(&self) -> Expr;

    /// Words that it starts with.
    fn initial_words(&self) -> Words;

    /// Words that it has after a reset; `None` if a reset changes nothing.
    fn reset_words(&self) -> Option<Words>;

    /// The expression with the values that words of its state stand for, at time `now` (ns).
    fn shown(&self, words: Words, now: u64) -> Expr;

    /// Whether it frees what has ended while the set is searched for that (`NFT_EXPR_GC`): sets
    /// with timeouts do not take it.
    fn collects(&self) -> bool {
        false
    }
}

/// Words that a statement starts with.
pub(crate) fn initial_words(expr: &Expr) -> Words {
    expr.as_statement().map_or([0, 0], Statement::initial_words)
}

/// [`State::snapshot`] for words.
pub(crate) fn snapshot_words(words: &[AtomicU64; 2], expr: &Expr, now: u64) -> Expr {
    shown(expr, words.each_ref().map(|word| word.load(Relaxed)), now)
}

/// [`State::reset`] for words.
pub(crate) fn reset_words(words: &[AtomicU64; 2], expr: &Expr, now: u64) -> Expr {
    let Some((statement, [first, second])) =
        expr.as_statement().and_then(|statement| Some((statement, statement.reset_words()?)))
    else {
        return snapshot_words(words, expr, now);
    };
    let before = [words[0].swap(first, Relaxed), words[1].swap(second, Relaxed)];
    statement.shown(before, now)
}

impl State {
    /// The expression with its present values, at time `now` (ns).
    pub fn snapshot(&self, expr: &Expr, now: u64) -> Expr {
        let words = match self {
            State::Counter(state) => <[u64; 2]>::from(state.read()),
            State::Quota(state) => [state.consumed(), 0],
            State::Last(state) => [state.at.load(Relaxed), 0],
            State::InSet { set, slot, statement } => {
                return set.snapshot(*slot, *statement, expr, now);
            }
            State::Limit(_) | State::Numgen(_) | State::HashSeed(_) | State::Connlimit(_) => {
                return expr.clone();
            }
        };
        shown(expr, words, now)
    }

    /// As [`State::snapshot`], and starts again: counters at zero, quotas unused, `last` never.
    /// Nothing that is counted meanwhile is lost.
    pub fn reset(&self, expr: &Expr, now: u64) -> Expr {
        let words = match self {
            State::Counter(state) => <[u64; 2]>::from(state.reset()),
            State::Quota(state) => [state.reset(), 0],
            State::Last(state) => [state.at.swap(LastState::NEVER, Relaxed), 0],
            State::InSet { set, slot, statement } => {
                return set.reset(*slot, *statement, expr, now);
            }
            State::Limit(_) | State::Numgen(_) | State::HashSeed(_) | State::Connlimit(_) => {
                return expr.clone();
            }
        };
        shown(expr, words, now)
    }
}

fn shown(expr: &Expr, words: Words, now: u64) -> Expr {
    expr.as_statement().map_or_else(|| expr.clone(), |statement| statement.shown(words, now))
}

/// Two states are equal if they are one.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
