//! Live state of stateful expressions: what outlives a generation.
//!
//! A [`State`] is shared by the generations that hold the same rule, element or object, and by the workers that run
//! it. All of it is atomic integers in relaxed order: no lock, and no count is lost with several workers. Each worker has
//! cells of its own for counters ([`crate::cells`]); everything else is one or two words that all workers write, since
//! whether a packet is within a limit or a quota depends on the packets of all.

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::cells::{Cells, WorkerNumber};
use crate::expr::{Counter, Last, Limit, LimitType, Quota};
use crate::{DynamicSet, Expr};

/// Packets and bytes (`net/netfilter/nft_counter.c`, which counts per processor too).
pub struct CounterState {
    cells: Cells,
    /// What is to be added to the sum of the cells: what the counter began with, what others than workers counted, less what
    /// was there when it was reset.
    beside: [AtomicU64; 2],
}

impl fmt::Debug for CounterState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CounterState").field(&self.read()).finish()
    }
}

impl Default for CounterState {
    fn default() -> Self {
        CounterState::new(0, 0)
    }
}

impl Drop for CounterState {
    fn drop(&mut self) {
        self.cells.give_back();
    }
}

impl CounterState {
    /// Starts at given values.
    pub fn new(packets: u64, bytes: u64) -> Self {
        let (cells, [packets_before, bytes_before]) = Cells::take();
        let beside = [packets.wrapping_sub(packets_before), bytes.wrapping_sub(bytes_before)];
        CounterState { cells, beside: beside.map(AtomicU64::new) }
    }

    /// Counts one packet of so many bytes. Only one thread at a time may count for a worker; else packets go uncounted.
    #[inline]
    pub fn count(&self, worker: WorkerNumber, bytes: u64) {
        for (cell, more) in self.cells.of(worker).iter().zip([1, bytes]) {
            cell.store(cell.load(Relaxed).wrapping_add(more), Relaxed);
        }
    }

    /// Adds what was counted elsewhere; for any thread.
    pub fn add(&self, packets: u64, bytes: u64) {
        for (beside, more) in self.beside.iter().zip([packets, bytes]) {
            beside.fetch_add(more, Relaxed);
        }
    }

    /// Where the first worker counts packets and bytes, for code that is generated at run time. The cells of others are
    /// [`WorkerNumber::distance`] from there.
    pub fn cells_of_first(&self) -> &[AtomicU64; 2] {
        self.cells.of(WorkerNumber::FIRST)
    }

    /// Packets and bytes.
    pub fn read(&self) -> (u64, u64) {
        // First what a reset takes off, which is never more than the cells hold afterwards.
        let beside = self.beside.each_ref().map(|word| word.load(Acquire));
        let sum = self.cells.sum();
        (beside[0].wrapping_add(sum[0]), beside[1].wrapping_add(sum[1]))
    }

    /// Packets and bytes, which then start at zero again. Nothing that is counted meanwhile is lost.
    pub fn reset(&self) -> (u64, u64) {
        let [packets, bytes] = [0, 1].map(|n| {
            let beside = &self.beside[n];
            loop {
                let seen = beside.load(Acquire);
                let sum = self.cells.sum()[n];
                // Who reset it meanwhile has told what it told.
                if beside.compare_exchange(seen, sum.wrapping_neg(), AcqRel, Relaxed).is_ok() {
                    return seen.wrapping_add(sum);
                }
            }
        });
        (packets, bytes)
    }
}

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

/// A number of connections (`struct nf_conncount_list`, of which this is only the length): which count it is in the upper
/// half, so that who leaves does not leave another that took its place.
#[derive(Debug, Default)]
pub struct ConnCountState {
    word: AtomicU64,
}

impl ConnCountState {
    pub(crate) fn word(&self) -> &AtomicU64 {
        &self.word
    }
}

/// One connection more: the number then, and which count it is, which is never 0.
pub(crate) fn join(word: &AtomicU64) -> (u32, u32) {
    static LAST_ID: AtomicU32 = AtomicU32::new(0);
    let mut new_id = 0;
    let mut seen = word.load(Relaxed);
    loop {
        let mut id = (seen >> 32) as u32;
        if id == 0 {
            while new_id == 0 {
                new_id = LAST_ID.fetch_add(1, Relaxed).wrapping_add(1);
            }
            id = new_id;
        }
        let connections = (seen as u32).saturating_add(1);
        let new = u64::from(id) << 32 | u64::from(connections);
        match word.compare_exchange_weak(seen, new, Relaxed, Relaxed) {
            Ok(_) => return (connections, id),
            Err(now) => seen = now,
        }
    }
}

/// One connection less, if it is still the count that it was.
pub(crate) fn leave(word: &AtomicU64, id: u32) {
    let less = |word: u64| ((word >> 32) as u32 == id && word as u32 != 0).then(|| word - 1);
    // Another count in its place has nothing to give back.
    let _ = word.fetch_update(Relaxed, Relaxed, less);
}

/// Parameters of a token bucket, counted in nanoseconds (`net/netfilter/nft_limit.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The most tokens that it holds, which is what it starts with.
    tokens_max: u64,
    /// Nanoseconds of the unit.
    nsecs: u64,
    rate: u64,
    /// Of one packet, for packet limits.
    packet_cost: u64,
    kind: LimitType,
    over: bool,
}

/// Why a limit is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLimit {
    /// The rate is zero (`EINVAL`).
    ZeroRate,
    /// A product exceeds 64 bits (`EOVERFLOW`).
    Overflow,
}

impl Bucket {
    /// As `nft_limit_init()`: a packet limit without burst has a burst of 5.
    pub fn new(limit: &Limit) -> Result<Self, BadLimit> {
        if limit.rate == 0 {
            return Err(BadLimit::ZeroRate);
        }
        let nsecs = limit.unit.checked_mul(1_000_000_000).ok_or(BadLimit::Overflow)?;
        let packets = limit.kind == LimitType::Packets;
        let burst = u64::from(if packets && limit.burst == 0 { 5 } else { limit.burst });
        let rate_with_burst = limit.rate.checked_add(burst).ok_or(BadLimit::Overflow)?;
        let packet_cost = nsecs / limit.rate;
        let tokens_max = if packets {
            packet_cost.checked_mul(burst)
        } else {
            nsecs.checked_mul(rate_with_burst).map(|product| product / limit.rate)
        }
        .ok_or(BadLimit::Overflow)?;
        Ok(Bucket { tokens_max, nsecs, rate: limit.rate, packet_cost, kind: limit.kind, over: limit.over })
    }

    #[inline]
    fn cost(&self, bytes: u64) -> u64 {
        match self.kind {
            LimitType::Packets => self.packet_cost,
            LimitType::Bytes => self.nsecs.wrapping_mul(bytes) / self.rate,
        }
    }
}

/// Fill of a token bucket: the time at which it would have been empty. What `nft_limit.c` keeps as tokens and a time
/// follows from it, and one word needs no lock.
#[derive(Debug)]
pub struct LimitState {
    empty_at: AtomicU64,
}

/// Never used: full.
const FULL: u64 = 1 << 63;

impl LimitState {
    /// Takes a packet's tokens at time `now` (ns); whether the expression matches, `over` considered.
    #[inline]
    pub fn take(&self, bucket: &Bucket, bytes: u64, now: u64) -> bool {
        take(&self.empty_at, bucket, bytes, now)
    }
}

/// As [`LimitState::take`], on the word alone.
#[inline]
pub(crate) fn take(empty_at: &AtomicU64, bucket: &Bucket, bytes: u64, now: u64) -> bool {
    let cost = bucket.cost(bytes);
    let mut seen = empty_at.load(Relaxed);
    loop {
        let tokens = match now.wrapping_sub(seen) {
            _ if seen == FULL => bucket.tokens_max,
            // The clock went back behind an empty bucket.
            elapsed if (elapsed as i64) < 0 => 0,
            elapsed => elapsed.min(bucket.tokens_max),
        };
        let left = tokens.wrapping_sub(cost);
        let within = left as i64 >= 0;
        let next = now.wrapping_sub(if within { left } else { tokens });
        match empty_at.compare_exchange_weak(seen, next, Relaxed, Relaxed) {
            Ok(_) => return within != bucket.over,
            Err(other) => seen = other,
        }
    }
}

impl Default for LimitState {
    fn default() -> Self {
        LimitState { empty_at: AtomicU64::new(FULL) }
    }
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

/// State of a statement in words of its own: packets and bytes of a counter; what is consumed of a quota; when a limit
/// was empty; when `last` was last reached.
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

    /// Initial state of an expression at time `now` (ns), from which `last` counts back; `None` if it has none.
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
            Expr::Numgen(n) => State::Numgen(NumgenState { last: AtomicU32::new(n.modulus.wrapping_sub(1)) }),
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
            (State::InSet { set, slot, statement }, expr) => set.snapshot(*slot, *statement, expr, now),
            _ => expr.clone(),
        }
    }

    /// As [`State::snapshot`], and starts again: counters at zero, quotas unused, `last` never. Nothing that is counted
    /// meanwhile is lost.
    pub fn reset(&self, expr: &Expr, now: u64) -> Expr {
        match (self, expr) {
            (State::Counter(state), Expr::Counter(_)) => counter(state.reset()),
            (State::Quota(state), Expr::Quota(q)) => quota(q, state.reset()),
            (State::Last(state), Expr::Last(_)) => {
                let shown = last(state.since(now));
                state.at.store(NEVER, Relaxed);
                shown
            }
            (State::InSet { set, slot, statement }, expr) => set.reset(*slot, *statement, expr, now),
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
