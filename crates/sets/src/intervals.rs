// SPDX-License-Identifier: Apache-2.0

//! Intervals of one field: sorted arrays for lookups, a tree while a transaction changes them.
//!
//! Intervals never overlap: what the kernel's `nft_set_rbtree.c` refuses with `ENOTEMPTY` is
//! refused here.

use std::collections::BTreeMap;

use penstock_classify::{Key, Ranks, Root};

use crate::error::InsertError;
use crate::select::Structure;

/// A key as a number that orders like its bytes.
pub(crate) trait Word: Key {
    fn from_key(key: &[u8]) -> Option<Self>;

    /// The number, where it has up to 16 bits.
    fn small(self) -> Option<u16> {
        None
    }
}

macro_rules! word {
    ($type:ty, $bytes:literal $(, $small:item)*) => {
        impl Word for $type {
            #[inline]
            fn from_key(key: &[u8]) -> Option<Self> {
                if let Ok(bytes) = key.try_into() {
                    return Some(<$type>::from_be_bytes(bytes));
                }
                let mut bytes = [0; $bytes];
                bytes
                    .get_mut($bytes - key.len().min($bytes)..)
                    .filter(|b| b.len() == key.len())?
                    .copy_from_slice(key);
                Some(<$type>::from_be_bytes(bytes))
            }
$($small)*
        }
    };
}
word!(
    u16,
    2,
    #[inline]
    fn small(self) -> Option<u16> {
        Some(self)
    }
);
word!(u32, 4);
word!(u64, 8);
word!(u128, 16);

impl Word for [u8; 64] {
    fn from_key(key: &[u8]) -> Option<Self> {
        let mut bytes = [0; 64];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        Some(bytes)
    }
}

/// From so many intervals of 16-bit keys on, a bit for each key tells whether it is in one of them.
const MEMBERS: usize = 16;

/// So many changes are made to sorted arrays; a tree takes longer to make, and more changes less.
const FEW_CHANGES: usize = 16;

/// First keys in ascending order.
#[derive(Clone, Debug)]
pub(crate) enum First<K> {
    /// Bisected: nothing but the keys.
    Plain(Vec<K>),
    /// Searched by parts.
    Ranked(Ranks<K>),
}

impl<K: Word> First<K> {
    fn keys(&self) -> &[K] {
        match self {
            First::Plain(keys) => keys,
            First::Ranked(ranks) => ranks.bounds(),
        }
    }

    /// How many are not greater than a key.
    #[inline]
    fn rank(&self, key: K) -> usize {
        match self {
            First::Plain(keys) => keys.partition_point(|first| *first <= key),
            First::Ranked(ranks) => ranks.rank(key),
        }
    }
}

/// Both forms of the index; exactly one is in use.
#[derive(Clone, Debug)]
pub(crate) enum Sorted<K> {
    /// Sorted by first key. What was just loaded or changed is `raw`: searched, but not yet as fast as
    /// can be.
    Sealed {
        first: First<K>,
        last: Vec<K>,
        slots: Vec<u32>,
        members: Option<Box<[u64]>>,
        raw: bool,
        /// Changes since it was sealed.
        changes: usize,
    },
    /// First key to last key and slot.
    Open(BTreeMap<K, (K, u32)>),
}

/// [`Sorted::Sealed`] where intervals are searched by parts.
pub(crate) struct Ranked<'a, K> {
    pub root: Root<'a, K>,
    pub first: &'a [K],
    pub last: &'a [K],
    pub slots: &'a [u32],
}

impl<K: Word> Sorted<K> {
    fn new() -> Self {
        let first = First::Plain(Vec::new());
        Sorted::Sealed {
            first,
            last: Vec::new(),
            slots: Vec::new(),
            members: None,
            raw: false,
            changes: 0,
        }
    }

    #[inline]
    pub fn lookup(&self, key: K) -> Option<u32> {
        match self {
            Sorted::Sealed { first, last, slots, .. } => {
                let at = first.rank(key).checked_sub(1)?;
                if key <= last[at] { Some(slots[at]) } else { None }
            }
            Sorted::Open(tree) => {
                let (_, &(last, slot)) = tree.range(..=key).next_back()?;
                (key <= last).then_some(slot)
            }
        }
    }

    /// All of it for generated code, if there are so many intervals that they are searched by
    /// parts.
    pub fn ranked(&self) -> Option<Ranked<'_, K>> {
        match self {
            Sorted::Sealed { first: First::Ranked(ranks), last, slots, .. } => {
                Some(Ranked { root: ranks.root()?, first: ranks.bounds(), last, slots })
            }
            Sorted::Sealed { .. } | Sorted::Open(_) => None,
        }
    }

    #[inline]
    fn contains(&self, key: K) -> bool {
        match self {
            Sorted::Sealed { members: Some(members), .. } => {
                let key = usize::from(key.small().unwrap_or(0));
                members[key / 64] >> (key % 64) & 1 != 0
            }
            _ => self.lookup(key).is_some(),
        }
    }

    #[inline]
    fn prefetch(&self, key: K) {
        if let Sorted::Sealed { first: First::Ranked(ranks), .. } = self {
            ranks.prefetch(key);
        }
    }

    fn find(&self, from: K, to: K) -> Option<u32> {
        match self {
            Sorted::Sealed { first, last, slots, .. } => {
                let at = first.keys().binary_search(&from).ok()?;
                (last[at] == to).then(|| slots[at])
            }
            Sorted::Open(tree) => {
                tree.get(&from).filter(|(last, _)| *last == to).map(|&(_, slot)| slot)
            }
        }
    }

    fn open(&mut self) -> &mut BTreeMap<K, (K, u32)> {
        if let Sorted::Sealed { first, last, slots, .. } = self {
            let entries = first.keys().iter().zip(last.iter().zip(slots.iter()));
            *self = Sorted::Open(entries.map(|(&f, (&l, &s))| (f, (l, s))).collect());
        }
        match self {
            Sorted::Open(tree) => tree,
            Sorted::Sealed { .. } => unreachable!("opened above"),
        }
    }

    /// First keys, last keys and slots to be changed once in place; `None` if a tree is better.
    fn arrays(&mut self) -> Option<(&mut Vec<K>, &mut Vec<K>, &mut Vec<u32>)> {
        let Sorted::Sealed { first, last, slots, members, raw, changes } = self else {
            return None;
        };
        if *changes >= FEW_CHANGES {
            return None;
        }
        (*members, *raw, *changes) = (None, true, *changes + 1);
        if let First::Ranked(ranks) = first {
            *first = First::Plain(ranks.bounds().to_vec());
        }
        match first {
            First::Plain(first) => Some((first, last, slots)),
            First::Ranked(_) => None,
        }
    }

    fn insert(&mut self, from: K, to: K, slot: u32) -> Result<(), InsertError> {
        if let Some((first, last, slots)) = self.arrays() {
            let at = first.partition_point(|first| *first <= to);
            if let Some(before) = at.checked_sub(1) {
                if first[before] == from && last[before] == to {
                    return Err(InsertError::Exists);
                }
                if last[before] >= from {
                    return Err(InsertError::Overlap);
                }
            }
            first.insert(at, from);
            last.insert(at, to);
            slots.insert(at, slot);
            return Ok(());
        }
        let tree = self.open();
        // The last interval that starts at or before the end of the new one is the only one that
        // can touch it.
        match tree.range(..=to).next_back() {
            Some((&f, &(l, _))) if f == from && l == to => Err(InsertError::Exists),
            Some((_, &(l, _))) if l >= from => Err(InsertError::Overlap),
            _ => {
                tree.insert(from, (to, slot));
                Ok(())
            }
        }
    }

    fn remove(&mut self, from: K, to: K) -> Option<u32> {
        self.find(from, to)?;
        if let Some((first, last, slots)) = self.arrays() {
            let at = first.binary_search(&from).ok()?;
            first.remove(at);
            last.remove(at);
            return Some(slots.remove(at));
        }
        self.open().remove(&from).map(|(_, slot)| slot)
    }

    fn ascending(&self) -> Vec<u32> {
        match self {
            Sorted::Sealed { slots, .. } => slots.clone(),
            Sorted::Open(tree) => tree.values().map(|&(_, slot)| slot).collect(),
        }
    }

    /// Takes intervals, with the numbers of their slots; nothing was there before. `false` if one
    /// ends before it starts or two overlap.
    fn load(&mut self, mut intervals: Vec<(K, K, u32)>) -> bool {
        if !intervals.is_sorted_by_key(|i| i.0) {
            intervals.sort_unstable_by_key(|i| i.0);
        }
        let apart = intervals.is_sorted_by(|before, next| before.1 < next.0);
        if !apart || intervals.iter().any(|(from, to, _)| from > to) {
            return false;
        }
        *self = Sorted::Sealed {
            first: First::Plain(intervals.iter().map(|i| i.0).collect()),
            last: intervals.iter().map(|i| i.1).collect(),
            slots: intervals.iter().map(|i| i.2).collect(),
            members: None,
            raw: true,
            changes: 0,
        };
        true
    }

    fn is_sealed(&self) -> bool {
        matches!(self, Sorted::Sealed { raw: false, .. })
    }

    /// As small as possible, or as fast.
    fn seal(&mut self, small: bool) {
        let (keys, ends, numbers) = match self {
            Sorted::Open(tree) => (
                tree.keys().copied().collect(),
                tree.values().map(|v| v.0).collect(),
                tree.values().map(|v| v.1).collect(),
            ),
            Sorted::Sealed { first: First::Plain(first), last, slots, raw: true, .. } => {
                (std::mem::take(first), std::mem::take(last), std::mem::take(slots))
            }
            Sorted::Sealed { .. } => return,
        };
        let (keys, ends): (Vec<K>, Vec<K>) = (keys, ends);
        let members = !small && keys.len() >= MEMBERS && keys[0].small().is_some();
        let members = members.then(|| {
            let mut bits = vec![0u64; 1024].into_boxed_slice();
            let small = keys
                .iter()
                .zip(&ends)
                .filter_map(|(first, last)| Some((first.small()?, last.small()?)));
            for key in small.flat_map(|(first, last)| first..=last) {
                bits[usize::from(key / 64)] |= 1 << (key % 64);
            }
            bits
        });
        *self = Sorted::Sealed {
            first: if small { First::Plain(keys) } else { First::Ranked(Ranks::new(keys)) },
            last: ends,
            slots: numbers,
            members,
            raw: false,
            changes: 0,
        };
    }

    fn is_plain(&self) -> bool {
        matches!(self, Sorted::Open(_) | Sorted::Sealed { first: First::Plain(_), .. })
    }

    fn bytes(&self) -> usize {
        match self {
            Sorted::Sealed { first, last, slots, members, .. } => {
                let first = match first {
                    First::Plain(keys) => keys.len() * size_of::<K>(),
                    First::Ranked(ranks) => ranks.bytes(),
                };
                first
                    + last.len() * size_of::<K>()
                    + slots.len() * 4
                    + members.as_ref().map_or(0, |m| m.len() * 8)
            }
            Sorted::Open(tree) => tree.len() * (2 * size_of::<K>() + 4),
        }
    }
}

/// Index on intervals, by the length of the key.
#[derive(Clone, Debug)]
pub(crate) struct Intervals {
    key_len: usize,
    sorted: Width,
}

#[derive(Clone, Debug)]
pub(crate) enum Width {
    Two(Sorted<u16>),
    Four(Sorted<u32>),
    Eight(Sorted<u64>),
    Sixteen(Sorted<u128>),
    Wide(Sorted<[u8; 64]>),
}

macro_rules! each_width {
    ($self:expr, $sorted:ident => $body:expr) => {
        match $self {
            Width::Two($sorted) => $body,
            Width::Four($sorted) => $body,
            Width::Eight($sorted) => $body,
            Width::Sixteen($sorted) => $body,
            Width::Wide($sorted) => $body,
        }
    };
}

impl Intervals {
    pub fn new(key_len: usize) -> Self {
        let sorted = match key_len {
            0..=2 => Width::Two(Sorted::new()),
            3..=4 => Width::Four(Sorted::new()),
            5..=8 => Width::Eight(Sorted::new()),
            9..=16 => Width::Sixteen(Sorted::new()),
            _ => Width::Wide(Sorted::new()),
        };
        Intervals { key_len, sorted }
    }

    /// Bytes of a key.
    pub fn key_len(&self) -> usize {
        self.key_len
    }

    /// The structure for keys of its width, and the length of keys.
    pub fn sorted(&self) -> (&Width, usize) {
        (&self.sorted, self.key_len)
    }

    #[inline]
    pub fn lookup(&self, key: &[u8]) -> Option<u32> {
        if key.len() != self.key_len {
            return None;
        }
        each_width!(&self.sorted, s => s.lookup(Word::from_key(key)?))
    }

    /// Has memory loaded that [`Intervals::lookup`] needs.
    #[inline]
    pub fn prefetch(&self, key: &[u8]) {
        each_width!(&self.sorted, s => {
            if let Some(key) = Word::from_key(key) {
                s.prefetch(key);
            }
        })
    }

    pub fn find(&self, from: &[u8], to: &[u8]) -> Option<u32> {
        if from.len() != self.key_len || to.len() != self.key_len {
            return None;
        }
        each_width!(&self.sorted, s => s.find(Word::from_key(from)?, Word::from_key(to)?))
    }

    pub fn insert(&mut self, from: &[u8], to: &[u8], slot: u32) -> Result<(), InsertError> {
        each_width!(&mut self.sorted, s => {
            match (Word::from_key(from), Word::from_key(to)) {
                (Some(from), Some(to)) if from <= to => s.insert(from, to, slot),
                _ => Err(InsertError::Invalid),
            }
        })
    }

    /// Takes all intervals; there are none yet. `false` if some are wrong, or overlap.
    pub fn load<'k>(&mut self, intervals: impl Iterator<Item = (&'k [u8], &'k [u8], u32)>) -> bool {
        each_width!(&mut self.sorted, s => {
            let read = |(from, to, slot)| Some((Word::from_key(from)?, Word::from_key(to)?, slot));
            intervals.map(read).collect::<Option<Vec<_>>>().is_some_and(|intervals| s.load(intervals))
        })
    }

    pub fn remove(&mut self, from: &[u8], to: &[u8]) -> Option<u32> {
        each_width!(&mut self.sorted, s => s.remove(Word::from_key(from)?, Word::from_key(to)?))
    }

    pub fn ascending(&self) -> Vec<u32> {
        each_width!(&self.sorted, s => s.ascending())
    }

    pub fn is_sealed(&self) -> bool {
        each_width!(&self.sorted, s => s.is_sealed())
    }

    /// As small as possible, or as fast.
    pub fn seal(&mut self, small: bool) {
        each_width!(&mut self.sorted, s => s.seal(small))
    }

    /// How it is searched.
    pub fn structure(&self) -> Structure {
        match each_width!(&self.sorted, s => s.is_plain()) {
            true => Structure::IntervalArray,
            false => Structure::IntervalIndex,
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        each_width!(&self.sorted, s => s.bytes())
    }

    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        if key.len() != self.key_len {
            return false;
        }
        each_width!(&self.sorted, s => Word::from_key(key).is_some_and(|key| s.contains(key)))
    }
}
