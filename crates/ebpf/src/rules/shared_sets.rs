// SPDX-License-Identifier: Apache-2.0

//! Sets that packets change, as maps that all programs and all generations share.
//!
//! A key is that of the set. A value is a row of words: when the element expires, by the kernel's
//! monotonic clock, and the words that [`DynamicSet`] keeps of an element. Set and map are brought
//! together from time to time: what packets have added, renewed, removed and counted comes into the
//! set, and what clients have added, removed and reset into the map. What both had the last time
//! tells which side has changed.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::clocks::{Clocks, NEVER};
use super::live;
use penstock_bpf::asm::Code;
use penstock_bpf::{Map, MapKind, MapSpec};
use penstock_program::state::dynamic::{DynamicSet, NUMBERS, Row, SetStatement};

/// Bytes into a row: when it expires, and the first word of the set.
pub(super) const EXPIRES: i16 = 0;
pub(super) const FIRST: i16 = 8;

/// A bucket of a limit that was never used.
pub(super) const FULL: u64 = 1 << 63;

/// Name of the maps.
const NAME: &str = "rule_set";

/// Whether code uses the same sets: others may look alike, but have other elements.
pub(super) fn are_same(a: &Code, b: &Code) -> bool {
    let [a, b] = [a, b].map(|code| {
        let mut maps = code.used_maps();
        maps.retain(|map| [NAME, live::KEYS, live::WORDS].contains(&map.spec().name));
        maps
    });
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| Arc::ptr_eq(a, b))
}

type Key = Box<[u8]>;

/// A set and its map.
#[derive(Debug)]
struct Mirror {
    set: Arc<DynamicSet>,
    map: Arc<Map>,
    /// The rows of the map when both were brought together.
    last: HashMap<Key, Vec<u64>>,
    /// Statements of elements at that time, by their number.
    templates: Vec<Vec<SetStatement>>,
    /// Number of the word that counts elements, the dead ones that were not swept as well.
    count: u32,
    /// How long what has expired, or what packets have deleted, takes its place (ns), and when it
    /// was swept (`nft_rhash_gc()`).
    sweep: u64,
    swept: u64,
}

/// Nanoseconds between sweeps of a set that says nothing of it (`nft_set_gc_interval()`).
const SWEEP: u64 = 1_000_000_000;

/// Sets with their maps, by the address of the set.
#[derive(Debug, Default)]
pub(super) struct SharedSets(Mutex<HashMap<usize, Mirror>>);

impl SharedSets {
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Mirror>> {
        // Nothing that is done under it leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The map of a set, with its elements, and the number of the word that counts them, which is
    /// taken where the set is new. The error is the reason why there is none.
    pub(super) fn map(
        &self,
        set: &Arc<DynamicSet>,
        take: impl FnOnce() -> Result<u32, String>,
    ) -> Result<(Arc<Map>, u32), String> {
        let mut all = self.lock();
        let key = Arc::as_ptr(set).addr();
        if let Some(known) = all.get(&key) {
            return Ok((known.map.clone(), known.count));
        }
        let count = take()?;
        let words = 1 + set.row_words();
        let spec = MapSpec {
            name: NAME,
            kind: MapKind::Hash,
            key: set.key_len() as u32,
            value: (words * size_of::<u64>()) as u32,
            entries: set.limit().max(1),
        };
        let (last, templates) = (HashMap::new(), Vec::new());
        let (set, sweep) = (set.clone(), SWEEP);
        let (map, swept) = (Arc::new(Map::new(spec)), 0);
        let mirror = Mirror { set, map: map.clone(), last, templates, count, sweep, swept };
        all.insert(key, mirror);
        Ok((map, count))
    }

    /// What is dead in a set takes its place for so many milliseconds.
    pub(super) fn sweep_every(&self, set: &Arc<DynamicSet>, milliseconds: u64) {
        if let Some(mirror) = self.lock().get_mut(&Arc::as_ptr(set).addr()) {
            mirror.sweep = milliseconds.saturating_mul(1_000_000);
        }
    }

    /// Brings sets and maps together. `now` is the present time of the sets' clock, `time` that of
    /// programs; `word` finds words that count elements.
    ///
    /// # Errors
    /// Those of bpf(2).
    pub(super) fn sync<'w>(
        &self,
        now: u64,
        time: u64,
        word: impl Fn(u32) -> Option<&'w AtomicU64>,
    ) -> io::Result<()> {
        let clocks = Clocks { set: now, kernel: time };
        self.lock().values_mut().try_for_each(|mirror| match word(mirror.count) {
            Some(count) => mirror.sync(clocks, count),
            None => Ok(()),
        })
    }

    /// A set has no map any more; the word that counted its elements, if it had one.
    pub(super) fn forget(&self, set: &Arc<DynamicSet>) -> Option<u32> {
        self.lock().remove(&Arc::as_ptr(set).addr()).map(|mirror| mirror.count)
    }

    /// Lets go of sets that nobody has any more; the words that counted their elements.
    pub(super) fn release(&self) -> Vec<u32> {
        let mut unused = Vec::new();
        self.lock().retain(|_, mirror| {
            let used = Arc::strong_count(&mirror.set) > 1;
            if !used {
                unused.push(mirror.count);
            }
            used
        });
        unused
    }
}

fn words_of(value: &[u8]) -> Vec<u64> {
    value.chunks_exact(8).filter_map(|b| b.first_chunk()).map(|b| u64::from_ne_bytes(*b)).collect()
}

/// What the set keeps of an element, of a row of the map.
fn kept_of(words: &[u64]) -> &[u64] {
    words.get(1..).unwrap_or_default()
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

impl Mirror {
    fn sync(&mut self, clocks: Clocks, count: &AtomicU64) -> io::Result<()> {
        // What packets add from now on counts besides.
        let counted = count.load(Relaxed);
        let mut kernel = HashMap::new();
        self.map.each(|key, value| {
            kernel.insert(Key::from(key), words_of(value));
        })?;
        let mut rows: HashMap<Key, Row> =
            self.set.rows(clocks.set).into_iter().map(|row| (row.key.clone(), row)).collect();
        let before = std::mem::take(&mut self.last);
        let sweeps = clocks.kernel.saturating_sub(self.swept) >= self.sweep;
        if sweeps {
            self.swept = clocks.kernel;
            let is_alive =
                |words: &&Vec<u64>| words.first().is_some_and(|expires| *expires > clocks.kernel);
            let alive = kernel.values().filter(is_alive).count() as u64;
            count.fetch_sub(counted.saturating_sub(alive), Relaxed);
        }
        self.templates = self.set.templates();
        for (key, words) in kernel {
            let expires = words.first().copied().unwrap_or_default();
            // What had expired by now, and packets have added again, no client has removed.
            let alive = |words: &&Vec<u64>| words.first().is_some_and(|at| *at > clocks.kernel);
            match (rows.remove(&key), before.get(&key).filter(alive)) {
                // What a client has added since takes the place of the dead one.
                (Some(row), None) if expires <= clocks.kernel => drop(rows.insert(key, row)),
                (row, _) if expires <= clocks.kernel => {
                    if row.is_some() {
                        self.set.remove(&key, clocks.set);
                    }
                    if sweeps {
                        self.map.remove(&key)?;
                    }
                }
                (Some(row), before) if self.is_same(&row.words, &words) => {
                    self.join(row, words, before, clocks)?;
                }
                // A client has removed it, and added it with other data.
                (Some(row), Some(before)) if self.is_same(kept_of(before), &words) => {
                    let words = self.in_clock_of_kernel(&row, clocks);
                    self.map.set(&key, &bytes_of(&words))?;
                    self.last.insert(key, words);
                }
                // Packets have, or it had expired in between.
                (Some(_), _) => {
                    self.set.remove(&key, clocks.set);
                    self.take_over(key, words, clocks);
                }
                // A client has removed it.
                (None, Some(_)) => {
                    if self.map.remove(&key)? {
                        count.fetch_sub(1, Relaxed);
                    }
                }
                (None, None) => self.take_over(key, words, clocks),
            }
        }
        for (key, row) in rows {
            if before.contains_key(&key) {
                // Packets have removed it.
                self.set.remove(&key, clocks.set);
                continue;
            }
            let words = self.in_clock_of_kernel(&row, clocks);
            match self.map.set(&key, &bytes_of(&words)) {
                Ok(()) => {
                    count.fetch_add(1, Relaxed);
                    self.last.insert(key, words);
                }
                // Packets have filled it.
                Err(e) if e.raw_os_error() == Some(libc::E2BIG) => {
                    self.set.remove(&key, clocks.set);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Whether a row of the set and one of the map are the same element: what its statements have
    /// counted, and how long it lives, may differ.
    fn is_same(&self, kept: &[u64], words: &[u64]) -> bool {
        let fixed = NUMBERS..self.set.state_at(0);
        kept.get(fixed.clone()) == kept_of(words).get(fixed)
    }

    /// Adds what packets have added to the set.
    fn take_over(&mut self, key: Key, words: Vec<u64>, clocks: Clocks) {
        let expires = words.first().copied().unwrap_or(NEVER);
        let kept = self.in_clock_of_set(kept_of(&words), clocks);
        self.set.put_row(&key, clocks.to_set(expires), &kept, clocks.set);
        self.last.insert(key, words);
    }

    /// The statements of an element.
    fn statements(&self, kept: &[u64]) -> &[SetStatement] {
        let number = kept.get(NUMBERS).map_or(0, |word| *word as u32 as usize);
        self.templates.get(number).map(Vec::as_slice).unwrap_or_default()
    }

    /// Words of a row of the map for the set: the time of `last` is by its clock.
    fn in_clock_of_set(&self, kept: &[u64], clocks: Clocks) -> Vec<u64> {
        self.with_times(kept, |time| clocks.to_set(time).unwrap_or(NEVER))
    }

    fn in_clock_of_kernel(&self, row: &Row, clocks: Clocks) -> Vec<u64> {
        let kept = self.with_times(&row.words, |time| {
            clocks.to_kernel(Some(time).filter(|time| *time != NEVER))
        });
        let mut words = vec![clocks.to_kernel(row.expires_at)];
        words.extend(kept);
        words
    }

    fn with_times(&self, kept: &[u64], time: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut kept = kept.to_vec();
        for (n, statement) in self.statements(&kept).iter().enumerate() {
            let word = kept.get_mut(self.set.state_at(n));
            match (statement, word) {
                (SetStatement::Last | SetStatement::Limit(_), Some(word))
                    if *word != NEVER && *word != FULL =>
                {
                    *word = time(*word);
                }
                _ => {}
            }
        }
        kept
    }

    /// An element that both sides have.
    fn join(
        &mut self,
        row: Row,
        words: Vec<u64>,
        before: Option<&Vec<u64>>,
        clocks: Clocks,
    ) -> io::Result<()> {
        let mut joined = words.clone();
        let kept = kept_of(&words);
        for (n, statement) in self.statements(kept).iter().enumerate() {
            let at = self.set.state_at(n);
            let counts = match statement {
                SetStatement::Counter => 2,
                SetStatement::Quota { .. } => 1,
                SetStatement::Limit(_) => 0,
                SetStatement::Last => {
                    let time = kept.get(at).copied().unwrap_or(NEVER);
                    let same = before.and_then(|before| before.get(at + 1)) == Some(&time);
                    if same && row.words.get(at) == Some(&NEVER) {
                        // It was reset, and no packet has come since.
                        if let Some(word) = joined.get_mut(at + 1) {
                            *word = NEVER;
                        }
                    } else {
                        let time = clocks.to_set(time).unwrap_or(NEVER);
                        self.set.set_row_word(&row, at, time);
                    }
                    0
                }
                SetStatement::Connlimit { .. } | SetStatement::BadLimit(_) => 0,
            };
            for at in at..at + counts {
                let now = kept.get(at).copied().unwrap_or_default();
                let then = before.and_then(|before| before.get(at + 1)).copied().unwrap_or(0);
                let total = self.set.add_row_word(&row, at, now.wrapping_sub(then));
                if let Some(word) = joined.get_mut(at + 1) {
                    *word = total;
                }
            }
        }
        let expires = words.first().copied().unwrap_or(NEVER);
        let timeout = kept.first().copied().unwrap_or_default();
        let renewed = before.and_then(|before| before.first()) != Some(&expires);
        if renewed {
            self.set.modify(&row.key, timeout, clocks.to_set(expires), clocks.set);
        } else if row.words.first() != Some(&timeout) {
            // A client has given it another life.
            if let [first, second, ..] = &mut *joined {
                *first = clocks.to_kernel(row.expires_at);
                *second = row.words.first().copied().unwrap_or_default();
            }
        }
        if joined != words {
            self.map.set(&row.key, &bytes_of(&joined))?;
        }
        self.last.insert(row.key, joined);
        Ok(())
    }
}
