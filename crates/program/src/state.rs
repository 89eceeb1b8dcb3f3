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
mod limit;

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::expr::{Counter, Last, Quota};
use crate::{DynamicSet, Expr};
pub use connlimit::ConnCountState;
pub(crate) use connlimit::{join, leave};
pub use counter::CounterState;
pub use limit::{BadLimit, Bucket, LimitState};
pub(crate) use limit::{FULL, take};

/// Bytes used of a quota (`net/netfilter/nft_quota.c`). The amount belongs to the expression.
#[derive(Debug, Default)]
pub struct QuotaState {
    consumed: AtomicU64,
    /// It was said that it is used up.
    told: AtomicBool,
}

impl QuotaState {
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

const NEVER: u64 = u64::MAX;

impl LastState {
    /// Notes the time (ns).
    #[inline]
    pub fn touch(&self, now: u64) {
        if self.at.load(Relaxed) != now {
            self.at.store(now, Relaxed);
        }
    }

    /// Milliseconds since then; `None` for never.
    pub fn since(&self, now: u64) -> Option<u64> {
        since(self.at.load(Relaxed), now)
    }
}

fn since(at: u64, now: u64) -> Option<u64> {
    (at != NEVER).then(|| now.saturating_sub(at) / 1_000_000)
}

/// Counter of `numgen inc` (`net/netfilter/nft_numgen.c`).
#[derive(Debug)]
pub struct NumgenState {
    last: AtomicU32,
}

impl NumgenState {
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
pub(crate) type Words = [u64; 2];

/// Words that a statement starts with.
pub(crate) fn initial_words(expr: &Expr) -> Words {
    match expr {
        Expr::Counter(c) => [c.packets, c.bytes],
        Expr::Quota(q) => [q.consumed, 0],
        Expr::Limit(_) => [FULL, 0],
        Expr::Last(l) => [if l.set { 0 } else { NEVER }, 0],
        _ => [0, 0],
    }
}

/// [`State::snapshot`] for words.
pub(crate) fn snapshot_words(words: &[AtomicU64; 2], expr: &Expr, now: u64) -> Expr {
    match expr {
        Expr::Counter(_) => counter((words[0].load(Relaxed), words[1].load(Relaxed))),
        Expr::Quota(q) => quota(q, words[0].load(Relaxed)),
        Expr::Last(_) => last(since(words[0].load(Relaxed), now)),
        _ => expr.clone(),
    }
}

/// [`State::reset`] for words.
pub(crate) fn reset_words(words: &[AtomicU64; 2], expr: &Expr, now: u64) -> Expr {
    match expr {
        Expr::Counter(_) => counter((words[0].swap(0, Relaxed), words[1].swap(0, Relaxed))),
        Expr::Quota(q) => quota(q, words[0].swap(0, Relaxed)),
        Expr::Last(_) => last(since(words[0].swap(NEVER, Relaxed), now)),
        _ => expr.clone(),
    }
}

impl State {
    /// Initial state of an expression on a clock that starts; `None` if it has none.
    pub fn for_expr(expr: &Expr) -> Option<State> {
        State::for_expr_at(expr, 0)
    }

    /// Initial state of an expression at time `now` (ns), from which `last` counts back; `None` if
    /// it has none.
    pub fn for_expr_at(expr: &Expr, now: u64) -> Option<State> {
        if !expr.is_stateful() {
            return None;
        }
        Some(match expr {
            Expr::Counter(c) => State::Counter(CounterState::new(c.packets, c.bytes)),
            Expr::Quota(q) => State::Quota(QuotaState {
                consumed: AtomicU64::new(q.consumed),
                told: AtomicBool::new(false),
            }),
            Expr::Limit(_) => State::Limit(LimitState::default()),
            Expr::Last(l) => {
                let used = now.saturating_sub(l.msecs.saturating_mul(1_000_000));
                State::Last(LastState { at: AtomicU64::new(if l.set { used } else { NEVER }) })
            }
            Expr::Numgen(n) => {
                State::Numgen(NumgenState { last: AtomicU32::new(n.modulus.wrapping_sub(1)) })
            }
            Expr::Hash(_) => {
                let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
                State::HashSeed(random as u32)
            }
            Expr::Connlimit(_) => State::Connlimit(ConnCountState::default()),
            _ => return None,
        })
    }

    /// The expression with its present values, at time `now` (ns).
    pub fn snapshot(&self, expr: &Expr, now: u64) -> Expr {
        match (self, expr) {
            (State::Counter(state), Expr::Counter(_)) => counter(state.read()),
            (State::Quota(state), Expr::Quota(q)) => quota(q, state.consumed()),
            (State::Last(state), Expr::Last(_)) => last(state.since(now)),
            (State::InSet { set, slot, statement }, expr) => {
                set.snapshot(*slot, *statement, expr, now)
            }
            _ => expr.clone(),
        }
    }

    /// As [`State::snapshot`], and starts again: counters at zero, quotas unused, `last` never.
    /// Nothing that is counted meanwhile is lost.
    pub fn reset(&self, expr: &Expr, now: u64) -> Expr {
        match (self, expr) {
            (State::Counter(state), Expr::Counter(_)) => counter(state.reset()),
            (State::Quota(state), Expr::Quota(q)) => quota(q, state.reset()),
            (State::Last(state), Expr::Last(_)) => {
                let shown = last(state.since(now));
                state.at.store(NEVER, Relaxed);
                shown
            }
            (State::InSet { set, slot, statement }, expr) => {
                set.reset(*slot, *statement, expr, now)
            }
            _ => expr.clone(),
        }
    }
}

fn counter((packets, bytes): (u64, u64)) -> Expr {
    Expr::Counter(Counter { packets, bytes })
}

/// What is used beyond the quota is not shown.
fn quota(q: &Quota, consumed: u64) -> Expr {
    let depleted = consumed >= q.bytes;
    Expr::Quota(Quota { consumed: consumed.min(q.bytes), depleted, ..q.clone() })
}

fn last(since: Option<u64>) -> Expr {
    Expr::Last(Last { set: since.is_some(), msecs: since.unwrap_or(0) })
}

/// Two states are equal if they are one.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
