// SPDX-License-Identifier: Apache-2.0

//! Sets and maps that packets change (`net/netfilter/nft_dynset.c`, the `rhash` of
//! `nft_set_hash.c`).
//!
//! A [`DynamicSet`] is what lives on from generation to generation: the control path and all
//! workers share it, with the contract of [`penstock_sets::Dynamic`]. An element is a row of words:
//! its timeout, numbers that stand for its statements and its user data, its map data, and two
//! words of state per statement. Counting and limiting happen outside of the table's sequence
//! numbers: a packet that met an element which is removed and replaced at that very moment may
//! count for the one that came in its place.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use penstock_sets::{Dynamic, NEVER};

use super::{Bucket, Words};
use crate::operand::Limit;

/// Most statements of an element (`NFT_SET_EXPR_MAX`).
const STATEMENTS_MAX: usize = 2;
/// Words of a value before its data: the timeout in milliseconds, then the statements' number below
/// the user data's.
const TIMEOUT: usize = 0;
/// Which word of an element has the number of its statements, in the lower half.
pub const NUMBERS: usize = 1;
const DATA: usize = 2;
/// Slots of the catch-all element's own table are above all others.
const CATCH_ALL: u32 = 1 << 31;

/// What a statement of an element does. Its state is in words of the set.
#[derive(Clone, Debug, PartialEq)]
pub enum SetStatement {
    /// Counts packets and bytes.
    Counter,
    /// Matches while (or once, if `over`) the quota is not used up.
    Quota {
        /// The amount.
        bytes: u64,
        /// `over`.
        over: bool,
    },
    /// Matches within (or beyond) the rate.
    Limit(Bucket),
    /// Notes the time.
    Last,
    /// Matches while there are at most (or once there are more than, if `over`) so many
    /// connections.
    Connlimit {
        /// `ct count`.
        limit: u32,
        /// `over`.
        over: bool,
    },
    /// A limit that is no bucket ([`BadLimit`](super::BadLimit)). Only listed: the linker refuses
    /// sets with it.
    BadLimit(Limit),
}

/// A statement for an element, with its state to begin with.
#[derive(Clone, Debug)]
pub struct NewStatement {
    /// What it does.
    pub statement: SetStatement,
    /// Its state.
    pub state: Words,
}

/// Statements that elements are given, by a number that an element carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statements {
    number: u32,
    initial: [Words; STATEMENTS_MAX],
}

/// Statements of elements, by number.
type Chunk = Box<[OnceLock<Vec<SetStatement>>]>;

/// All statements that elements of a set have or had. Only grows: there are as many as different
/// statements were ever written, not as there are elements.
#[derive(Debug, Default)]
struct Templates {
    /// Chunk `n` holds `FIRST << n` of them.
    chunks: [OnceLock<Chunk>; 24],
    known: Mutex<u32>,
    /// Some of them do something.
    act: AtomicBool,
}

const FIRST: u32 = 4;

impl Statements {
    /// The number that elements carry.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The state to begin with.
    pub fn initial(&self) -> [Words; STATEMENTS_MAX] {
        self.initial
    }
}

impl Templates {
    fn place(&self, number: u32) -> Option<(usize, usize)> {
        let shifted = number.checked_add(FIRST)?;
        let chunk = (shifted / FIRST).ilog2();
        Some((chunk as usize, (shifted - (FIRST << chunk)) as usize))
    }

    #[inline]
    fn get(&self, number: u32) -> Option<&[SetStatement]> {
        let (chunk, at) = self.place(number)?;
        self.chunks.get(chunk)?.get()?.get(at)?.get().map(Vec::as_slice)
    }

    /// The number of these statements.
    fn number(&self, statements: Vec<SetStatement>) -> Option<u32> {
        let mut known = held(&self.known);
        if let Some(number) =
            (0..*known).find(|&n| self.get(n).is_some_and(|known| known == statements))
        {
            return Some(number);
        }
        let (chunk, at) = self.place(*known)?;
        if !statements.is_empty() {
            self.act.store(true, Relaxed);
        }
        let chunk_len = (FIRST as usize) << chunk;
        let chunk = self
            .chunks
            .get(chunk)?
            .get_or_init(|| (0..chunk_len).map(|_| OnceLock::new()).collect());
        chunk.get(at)?.set(statements).ok()?;
        *known += 1;
        Some(*known - 1)
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under it leaves it half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A set or map that packets change.
#[derive(Debug)]
pub struct DynamicSet {
    elements: Dynamic,
    /// At most one element, with a key of one byte.
    catch_all: Dynamic,
    /// Bytes of a map's data.
    value_len: usize,
    templates: Templates,
    /// What elements get when nothing else is said.
    default: Statements,
    userdata: Mutex<HashMap<u32, Arc<[u8]>>>,
}

/// An element as the control path adds it.
#[derive(Clone, Debug)]
pub struct NewElement<'a> {
    /// Key; empty for the catch-all element.
    pub key: &'a [u8],
    /// Data of a map's element.
    pub data: &'a [u8],
    /// Its life in milliseconds, 0 for no end.
    pub timeout: u64,
    /// When it expires (ns); `None` for never.
    pub expires_at: Option<u64>,
    /// Statements with their state.
    pub statements: &'a [NewStatement],
    /// The language's.
    pub userdata: Option<&'a Arc<[u8]>>,
}

/// An element as it is.
#[derive(Clone, Debug)]
pub struct CurrentElement {
    /// Key; empty for the catch-all element.
    pub key: Box<[u8]>,
    /// Data of a map's element.
    pub data: Vec<u8>,
    /// Its life in milliseconds, 0 for no end.
    pub timeout: u64,
    /// When it expires (ns); `None` for never.
    pub expires_at: Option<u64>,
    /// Statements, without their state.
    pub statements: Vec<SetStatement>,
    /// Where they count: for [`State::InSet`](super::State::InSet).
    pub slot: u32,
    /// The language's.
    pub userdata: Option<Arc<[u8]>>,
}

/// An element with the words that the set keeps of it, for copies of the set elsewhere: timeout (ms),
/// numbers, data, state of the statements.
#[derive(Clone, Debug)]
pub struct Row {
    /// Key.
    pub key: Box<[u8]>,
    /// When it expires (ns); `None` for never.
    pub expires_at: Option<u64>,
    /// Its words.
    pub words: Vec<u64>,
    /// Where it is.
    slot: u32,
}

/// What a lookup found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DynamicHit {
    pub(crate) slot: u32,
    statements: u32,
}

/// Words of an element's value.
fn value_words(value_len: Option<u32>) -> usize {
    DATA + (value_len.unwrap_or(0).min(64) as usize).div_ceil(8) + STATEMENTS_MAX * 2
}

impl DynamicSet {
    /// An empty set for keys of so many bytes, maps with the length of their data. Each element
    /// gets its own copy of the statements.
    pub fn new(
        key_len: usize,
        value_len: Option<u32>,
        size: u32,
        statements: &[NewStatement],
    ) -> Self {
        let words = value_words(value_len);
        let value_len = value_len.unwrap_or(0).min(64) as usize;
        let mut set = DynamicSet {
            elements: Dynamic::new(key_len, words, size),
            catch_all: Dynamic::new(1, words, 1),
            value_len,
            templates: Templates::default(),
            default: Statements { number: 0, initial: [[0; 2]; STATEMENTS_MAX] },
            userdata: Mutex::default(),
        };
        set.default = set.statements(statements);
        set
    }

    /// Whether there is memory for such a set ([`Dynamic::has_room`]).
    pub fn has_room(key_len: usize, value_len: Option<u32>, size: u32) -> bool {
        Dynamic::has_room(key_len, value_words(value_len), size)
    }

    /// Statements that elements can be given.
    pub fn statements(&self, new: &[NewStatement]) -> Statements {
        let mut initial = [[0; 2]; STATEMENTS_MAX];
        for (words, new) in initial.iter_mut().zip(new) {
            *words = new.state;
        }
        let statements = new.iter().take(STATEMENTS_MAX).map(|new| new.statement.clone());
        let number = self.templates.number(statements.collect());
        Statements { number: number.unwrap_or(u32::MAX), initial }
    }

    /// The statements that elements get when nothing else is said.
    pub fn default_statements(&self) -> Statements {
        self.default
    }

    /// Whether all statements of all elements can run.
    pub fn is_runnable(&self) -> bool {
        let kept = |number: u32| {
            let statements = self.templates.get(number).unwrap_or_default();
            statements.iter().any(|s| matches!(s, SetStatement::BadLimit(_)))
        };
        let known = *held(&self.templates.known);
        (0..known).all(|number| !kept(number))
            || !kept(self.default.number)
                && [&self.elements, &self.catch_all]
                    .iter()
                    .all(|t| !t.elements(0, numbers).iter().any(|e| kept(e.read.0)))
    }

    /// Bytes of a key.
    pub fn key_len(&self) -> usize {
        self.elements.key_len()
    }

    /// Bytes of a map's data.
    pub fn value_len(&self) -> usize {
        self.value_len
    }

    /// How many elements are allowed.
    pub fn limit(&self) -> u32 {
        self.elements.limit()
    }

    /// Whether there is an element for all other keys.
    pub fn has_catch_all(&self) -> bool {
        !self.catch_all.is_empty()
    }

    /// All statements that elements have or had, by their number.
    pub fn templates(&self) -> Vec<Vec<SetStatement>> {
        let known = *held(&self.templates.known);
        (0..known).map(|n| self.templates.get(n).unwrap_or_default().to_vec()).collect()
    }

    /// Words of a [`Row`].
    pub fn row_words(&self) -> usize {
        DATA + self.value_len.div_ceil(8) + STATEMENTS_MAX * 2
    }

    /// Which word of a [`Row`] the state of a statement begins with.
    pub fn state_at(&self, statement: usize) -> usize {
        DATA + self.value_len.div_ceil(8) + statement * 2
    }

    /// All elements that have not expired at time `now` (ns), but for the catch-all.
    pub fn rows(&self, now: u64) -> Vec<Row> {
        let read = |value: &[AtomicU64]| value.iter().map(|w| w.load(Relaxed)).collect();
        let elements = self.elements.elements(now, read).into_iter();
        elements
            .map(|e| Row { key: e.key, expires_at: e.expires_at, words: e.read, slot: e.slot })
            .collect()
    }

    /// Adds an element with such words, as packets do; whether there was place.
    pub fn put_row(&self, key: &[u8], expires_at: Option<u64>, words: &[u64], now: u64) -> bool {
        let expires_at = expires_at.unwrap_or(NEVER);
        let put = self.elements.insert(key, now, expires_at, |value| {
            for (to, word) in value.iter().zip(words) {
                to.store(*word, Relaxed);
            }
        });
        put.is_some()
    }

    /// Adds to a word of an element; what it is then.
    pub fn add_row_word(&self, row: &Row, word: usize, more: u64) -> u64 {
        let word = self.value(row.slot).get(word);
        word.map_or(0, |word| word.fetch_add(more, Relaxed).wrapping_add(more))
    }

    /// Sets a word of an element.
    pub fn set_row_word(&self, row: &Row, word: usize, value: u64) {
        if let Some(word) = self.value(row.slot).get(word) {
            word.store(value, Relaxed);
        }
    }

    /// Elements there are, expired ones and reserved places included; the catch-all is not counted.
    pub fn len(&self) -> usize {
        self.elements.len() as usize
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty() && self.catch_all.is_empty()
    }

    /// The largest size that [`DynamicSet::set_size`] can give it.
    pub fn capacity(&self) -> u32 {
        self.elements.capacity()
    }

    /// Allows so many elements. More may be there already.
    pub fn set_size(&self, size: u32) {
        self.elements.set_limit(size);
    }

    /// The table and key within it of an element.
    #[inline]
    fn table<'k>(&self, key: &'k [u8]) -> (&Dynamic, &'k [u8]) {
        if key.is_empty() { (&self.catch_all, &[0]) } else { (&self.elements, key) }
    }

    #[inline]
    fn value(&self, slot: u32) -> &[AtomicU64] {
        match slot & CATCH_ALL {
            0 => self.elements.value(slot),
            _ => self.catch_all.value(slot & !CATCH_ALL),
        }
    }

    /// State words of a statement.
    #[inline]
    fn state<'v>(&self, value: &'v [AtomicU64], statement: usize) -> Option<&'v [AtomicU64; 2]> {
        let from = DATA + self.value_len.div_ceil(8) + statement * 2;
        value.get(from..)?.first_chunk()
    }

    #[inline]
    fn read_data(&self, value: &[AtomicU64], data: &mut [u8; 64]) {
        let words = value.get(DATA..DATA + self.value_len.div_ceil(8)).unwrap_or_default();
        for (to, word) in data.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
    }

    fn fill(&self, value: &[AtomicU64], timeout: u64, numbers: u64, data: &[u8], states: &[Words]) {
        if let [to_timeout, to_numbers, to_data @ ..] = value {
            to_timeout.store(timeout, Relaxed);
            to_numbers.store(numbers, Relaxed);
            for (to, bytes) in to_data.iter().take(self.value_len.div_ceil(8)).zip(data.chunks(8)) {
                let mut padded = [0; 8];
                padded[..bytes.len()].copy_from_slice(bytes);
                to.store(u64::from_ne_bytes(padded), Relaxed);
            }
        }
        for (i, words) in states.iter().enumerate() {
            if let Some(state) = self.state(value, i) {
                state[0].store(words[0], Relaxed);
                state[1].store(words[1], Relaxed);
            }
        }
    }

    /// The element that a packet with this key meets at time `now` (ns): the matching one, else the
    /// catch-all. A map's data goes into `data`.
    #[inline]
    pub(crate) fn lookup(&self, key: &[u8], now: u64, data: &mut [u8; 64]) -> Option<DynamicHit> {
        let mut read = |value: &[AtomicU64]| {
            self.read_data(value, data);
            numbers(value).0
        };
        if let Some((statements, slot)) = self.elements.lookup(key, now, &mut read) {
            return Some(DynamicHit { slot, statements });
        }
        if self.catch_all.is_empty() {
            return None;
        }
        let (statements, slot) = self.catch_all.lookup(&[0], now, read)?;
        Some(DynamicHit { slot: slot | CATCH_ALL, statements })
    }

    /// Whether nothing follows from meeting an element, of this set as it is now and was ever
    /// before: none has statements.
    #[inline]
    pub fn is_presence_only(&self) -> bool {
        !self.templates.act.load(Relaxed)
    }

    /// Whether a packet with this key meets an element at time `now` (ns).
    pub(super) fn contains(&self, key: &[u8], now: u64) -> bool {
        self.elements.lookup(key, now, |_| ()).is_some() || self.has_catch_all_at(now)
    }

    /// [`DynamicSet::contains`] for keys of up to 8 bytes, as [`Dynamic::contains_short`] takes
    /// them.
    #[inline]
    pub(super) fn contains_short(&self, key: u64, now: u64) -> bool {
        self.elements.contains_short(key, now) || self.has_catch_all_at(now)
    }

    #[inline]
    fn has_catch_all_at(&self, now: u64) -> bool {
        !self.catch_all.is_empty() && self.catch_all.contains_short(0, now)
    }

    /// Adds an element for a packet unless it is there; `None` if the set is full.
    #[inline]
    pub(crate) fn add(
        &self,
        key: &[u8],
        data: &[u8],
        now: u64,
        timeout: u64,
        statements: &Statements,
    ) -> Option<DynamicHit> {
        let expires_at = if timeout == 0 { NEVER } else { expiry(now, timeout) };
        let (slot, made) = self.elements.insert(key, now, expires_at, |value| {
            self.fill(value, timeout, statements.number.into(), data, &statements.initial);
        })?;
        let statements =
            if made { statements.number } else { numbers(self.elements.value(slot)).0 };
        Some(DynamicHit { slot, statements })
    }

    /// Restarts the timeout of an element, in milliseconds; `None` if it is missing.
    #[inline]
    pub(crate) fn renew(&self, key: &[u8], now: u64, timeout: u64) -> Option<DynamicHit> {
        let ends = |value: &[AtomicU64]| value.get(TIMEOUT).is_some_and(|t| t.load(Relaxed) != 0);
        let slot =
            self.elements.renew(key, now, |value| ends(value).then(|| expiry(now, timeout)))?;
        Some(DynamicHit { slot, statements: numbers(self.elements.value(slot)).0 })
    }

    /// Removes an element for a packet; its place is free after a sweep interval (ms).
    pub(crate) fn delete(&self, key: &[u8], now: u64, interval: u64) {
        self.elements.remove_later(key, now, interval.saturating_mul(1_000_000));
    }

    /// Connections that a statement of an element counts.
    #[inline]
    pub(crate) fn connections(&self, slot: u32, statement: usize) -> Option<&AtomicU64> {
        self.state(self.value(slot), statement)?.first()
    }

    /// Removes elements of which no statement has state, as far as a look at some tells; whether
    /// there were any.
    pub(crate) fn drop_idle(&self) -> bool {
        const LOOKED_AT: u32 = 256;
        let from = DATA + self.value_len.div_ceil(8);
        let idle = |value: &[AtomicU64]| {
            let state = value.get(from..).unwrap_or_default();
            // The upper half of a count of connections says which it is.
            state.iter().all(|word| word.load(Relaxed) as u32 == 0)
        };
        self.elements.drop_some(LOOKED_AT, idle) > 0
    }

    /// The statements of what was found, in order, with their state.
    #[inline]
    pub(crate) fn statements_of(
        &self,
        found: DynamicHit,
    ) -> impl Iterator<Item = (&SetStatement, &[AtomicU64; 2])> {
        let statements = self.templates.get(found.statements).unwrap_or_default();
        let value = self.value(found.slot);
        statements.iter().enumerate().filter_map(move |(i, s)| Some((s, self.state(value, i)?)))
    }

    /// The state of a statement.
    pub(super) fn words(&self, slot: u32, statement: usize) -> Option<Words> {
        let words = self.state(self.value(slot), statement)?;
        Some(words.each_ref().map(|word| word.load(Relaxed)))
    }

    /// Adds to the state of a statement that counts: a counter or a quota.
    pub(super) fn add_words(&self, slot: u32, statement: usize, more: Words) {
        let value = self.value(slot);
        let template = self.templates.get(numbers(value).0).and_then(|all| all.get(statement));
        let counts = match template {
            Some(SetStatement::Counter) => 2,
            Some(SetStatement::Quota { .. }) => 1,
            _ => 0,
        };
        let words = self.state(value, statement).into_iter().flatten();
        for (word, more) in words.zip(more).take(counts) {
            word.fetch_add(more, Relaxed);
        }
    }

    /// Gives a statement another state; the one before.
    pub(super) fn replace_words(&self, slot: u32, statement: usize, new: Words) -> Option<Words> {
        let words = self.state(self.value(slot), statement)?;
        Some([words[0].swap(new[0], Relaxed), words[1].swap(new[1], Relaxed)])
    }

    /// Reserves a place for [`DynamicSet::insert_reserved`]; `beyond` so many more elements than
    /// the size allows. What has expired at time `now` (ns) makes place. The catch-all element
    /// needs none.
    pub fn reserve(&self, beyond: u32, now: u64) -> bool {
        self.elements.reserve(beyond)
            || self.elements.make_room(now, u32::MAX) > 0 && self.elements.reserve(beyond)
    }

    /// A set for more elements, with all that is in this one. Packets that continue to change this
    /// one do not change the other.
    pub fn grown(&self, size: u32) -> Self {
        let words = |value: &[AtomicU64]| value.iter().map(|w| w.load(Relaxed)).collect::<Vec<_>>();
        let mut set = DynamicSet::new(self.elements.key_len(), None, 0, &[]);
        let value_words = DATA + self.value_len.div_ceil(8) + STATEMENTS_MAX * 2;
        set.value_len = self.value_len;
        set.elements = Dynamic::new(self.elements.key_len(), value_words, size);
        set.catch_all = Dynamic::new(1, value_words, 1);
        set.templates = Templates::default();
        for number in 0..*held(&self.templates.known) {
            if let Some(statements) = self.templates.get(number) {
                set.templates.number(statements.to_vec());
            }
        }
        set.default = self.default;
        set.userdata = Mutex::new(held(&self.userdata).clone());
        for (from, to) in [(&self.elements, &set.elements), (&self.catch_all, &set.catch_all)] {
            for element in from.elements(0, words) {
                to.insert(&element.key, 0, element.expires_at.unwrap_or(NEVER), |value| {
                    for (to, word) in value.iter().zip(&element.read) {
                        to.store(*word, Relaxed);
                    }
                });
            }
        }
        set
    }

    /// Gives a reserved place back.
    pub fn release(&self) {
        self.elements.release();
    }

    /// Adds an element for which a place is reserved. One with the same key that packets have added
    /// meanwhile stays.
    pub fn insert_reserved(&self, new: &NewElement<'_>, now: u64) {
        let statements = self.statements(new.statements);
        let note = new.userdata.map_or(0, |userdata| self.note(userdata));
        let (table, key) = self.table(new.key);
        if new.key.is_empty() && !table.reserve(0) {
            return;
        }
        table.insert_reserved(key, now, new.expires_at.unwrap_or(NEVER), |value| {
            let numbers = u64::from(note) << 32 | u64::from(statements.number);
            self.fill(value, new.timeout, numbers, new.data, &statements.initial);
        });
    }

    /// Keeps user data; its number.
    fn note(&self, userdata: &Arc<[u8]>) -> u32 {
        let mut kept = held(&self.userdata);
        let mut number = kept.len() as u32 + 1;
        while kept.contains_key(&number) {
            number = number.wrapping_add(1).max(1);
        }
        kept.insert(number, userdata.clone());
        number
    }

    /// Adds an element as a packet does that runs a rule, with a timeout (ms, 0 for no end) and its
    /// expiry (ns): statements begin anew. One that is there gets that expiry, and is replaced in a
    /// map. Whether there was place; `false` for lengths that no element has.
    pub fn restore(
        &self,
        key: &[u8],
        data: &[u8],
        timeout: u64,
        expires_at: Option<u64>,
        now: u64,
    ) -> bool {
        if key.len() != self.key_len() || data.len() != self.value_len {
            return false;
        }
        let expires_at = expires_at.map_or(NEVER, |at| at.min(NEVER - 1));
        let statements = self.default;
        if self.value_len > 0 {
            self.elements.remove(key, now);
        }
        let put = self.elements.insert(key, now, expires_at, |value| {
            self.fill(value, timeout, statements.number.into(), data, &statements.initial);
        });
        if let Some((_, false)) = put {
            self.elements.renew(key, now, |_| Some(expires_at));
        }
        put.is_some()
    }

    /// Gives an element another timeout (ms, 0 for no end) and expiry (ns).
    pub fn modify(&self, key: &[u8], timeout: u64, expires_at: Option<u64>, now: u64) {
        let (table, key) = self.table(key);
        table.renew(key, now, |value| {
            if let Some(word) = value.get(TIMEOUT) {
                word.store(timeout, Relaxed);
            }
            Some(expires_at.unwrap_or(NEVER))
        });
    }

    /// Removes an element.
    pub fn remove(&self, key: &[u8], now: u64) {
        let (table, key) = self.table(key);
        table.remove(key, now);
    }

    /// Removes all elements.
    pub fn clear(&self) {
        self.elements.clear();
        self.catch_all.clear();
    }

    /// Forgets user data of elements that are gone.
    pub fn tidy(&self) {
        let mut kept = held(&self.userdata);
        if kept.is_empty() {
            return;
        }
        let used: HashSet<u32> = [&self.elements, &self.catch_all]
            .iter()
            .flat_map(|t| t.elements(0, numbers))
            .map(|e| e.read.1)
            .collect();
        kept.retain(|number, _| used.contains(number));
    }

    /// All elements that have not expired at time `now` (ns), in no order, the catch-all last.
    pub fn current(&self, now: u64) -> Vec<CurrentElement> {
        let kept = held(&self.userdata);
        let mut all = Vec::new();
        for (table, flag) in [(&self.elements, 0), (&self.catch_all, CATCH_ALL)] {
            let read = |value: &[AtomicU64]| {
                let mut data = [0; 64];
                self.read_data(value, &mut data);
                let timeout = value.get(TIMEOUT).map_or(0, |t| t.load(Relaxed));
                (numbers(value), timeout, data)
            };
            all.extend(table.elements(now, read).into_iter().map(|e| {
                let ((statements, note), timeout, data) = e.read;
                CurrentElement {
                    key: if flag == 0 { e.key } else { Box::default() },
                    data: data.get(..self.value_len).unwrap_or_default().to_vec(),
                    timeout,
                    expires_at: e.expires_at,
                    statements: self.templates.get(statements).unwrap_or_default().to_vec(),
                    slot: e.slot | flag,
                    userdata: kept.get(&note).cloned(),
                }
            }));
        }
        all
    }
}

/// Numbers of an element's statements and user data.
#[inline]
fn numbers(value: &[AtomicU64]) -> (u32, u32) {
    let word = value.get(NUMBERS).map_or(0, |n| n.load(Relaxed));
    (word as u32, (word >> 32) as u32)
}

/// When what lives so many milliseconds from `now` (ns) on expires.
#[inline]
fn expiry(now: u64, timeout: u64) -> u64 {
    now.saturating_add(timeout.saturating_mul(1_000_000)).min(NEVER - 1)
}
