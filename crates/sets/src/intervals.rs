//! Intervals of one field: sorted arrays for lookups, a tree while a transaction changes them.
//!
//! Intervals never overlap: what the kernel's `nft_set_rbtree.c` refuses with `ENOTEMPTY` is refused here.

use std::collections::BTreeMap;

use crate::set::InsertError;

/// A key as a number that orders like its bytes.
trait Word: Copy + Ord + std::fmt::Debug {
    fn from_key(key: &[u8]) -> Option<Self>;
    /// `(self - min) >> shift`, for `self >= min`.
    fn part(self, min: Self, shift: u32) -> usize;
    /// Bits of `self - min` after its leading zeros; `None` for words that have no parts.
    fn bits_above(self, min: Self) -> Option<u32>;
}

macro_rules! word {
    ($type:ty, $bytes:literal) => {
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

            #[inline]
            fn part(self, min: Self, shift: u32) -> usize {
                (self.wrapping_sub(min) >> shift) as usize
            }

            fn bits_above(self, min: Self) -> Option<u32> {
                Some(<$type>::BITS - self.wrapping_sub(min).leading_zeros())
            }
        }
    };
}
word!(u16, 2);
word!(u32, 4);
word!(u64, 8);
word!(u128, 16);

impl Word for [u8; 64] {
    fn from_key(key: &[u8]) -> Option<Self> {
        let mut bytes = [0; 64];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        Some(bytes)
    }

    fn part(self, _min: Self, _shift: u32) -> usize {
        0
    }

    fn bits_above(self, _min: Self) -> Option<u32> {
        None
    }
}

/// Below so many intervals, all first keys are compared without a branch.
const LINEAR: usize = 16;

/// From so many intervals on, a directory narrows the search.
const DIRECTORY: usize = 64;

/// Splits the span of all first keys into equal parts, about one for four intervals, and knows how many intervals
/// begin before each part.
#[derive(Clone, Debug)]
struct Directory<K> {
    min: K,
    shift: u32,
    before: Vec<u32>,
}

impl<K: Word> Directory<K> {
    fn new(first: &[K]) -> Option<Self> {
        let (&min, &max) = (first.first()?, first.last()?);
        if first.len() < DIRECTORY {
            return None;
        }
        let shift = max.bits_above(min)?.saturating_sub(first.len().ilog2() - 2);
        let mut before = Vec::with_capacity(max.part(min, shift) + 2);
        for (i, key) in first.iter().enumerate() {
            before.resize(before.len().max(key.part(min, shift) + 1), i as u32);
        }
        before.push(first.len() as u32);
        Some(Directory { min, shift, before })
    }

    /// Between how few and how many intervals begin at or before the key.
    #[inline]
    fn range(&self, key: K, all: usize) -> (usize, usize) {
        if key < self.min {
            return (0, 0);
        }
        match self.before.get(key.part(self.min, self.shift)..) {
            Some(&[from, to, ..]) => (from as usize, to as usize),
            _ => (all, all),
        }
    }
}

/// Both forms of the index; exactly one is in use.
#[derive(Clone, Debug)]
enum Sorted<K> {
    /// Sorted by first key.
    Sealed { first: Vec<K>, last: Vec<K>, slots: Vec<u32>, directory: Option<Directory<K>> },
    /// First key to last key and slot.
    Open(BTreeMap<K, (K, u32)>),
}

impl<K: Word> Sorted<K> {
    fn new() -> Self {
        Sorted::Sealed { first: Vec::new(), last: Vec::new(), slots: Vec::new(), directory: None }
    }

    #[inline]
    fn lookup(&self, key: K) -> Option<u32> {
        match self {
            Sorted::Sealed { first, last, slots, directory } => {
                let after = if first.len() <= LINEAR {
                    first.iter().map(|f| usize::from(*f <= key)).sum()
                } else {
                    let (mut base, end) = match directory {
                        Some(directory) => directory.range(key, first.len()),
                        None => (0, first.len()),
                    };
                    let mut len = end - base;
                    while len > 1 {
                        let half = len / 2;
                        base += if first[base + half - 1] <= key { half } else { 0 };
                        len -= half;
                    }
                    base + if len > 0 { usize::from(first[base] <= key) } else { 0 }
                };
                let at = after.checked_sub(1)?;
                if key <= last[at] { Some(slots[at]) } else { None }
            }
            Sorted::Open(tree) => {
                let (_, &(last, slot)) = tree.range(..=key).next_back()?;
                (key <= last).then_some(slot)
            }
        }
    }

    fn find(&self, from: K, to: K) -> Option<u32> {
        match self {
            Sorted::Sealed { first, last, slots, .. } => {
                let at = first.binary_search(&from).ok()?;
                (last[at] == to).then(|| slots[at])
            }
            Sorted::Open(tree) => tree.get(&from).filter(|(last, _)| *last == to).map(|&(_, slot)| slot),
        }
    }

    fn open(&mut self) -> &mut BTreeMap<K, (K, u32)> {
        if let Sorted::Sealed { first, last, slots, .. } = self {
            let entries = first.iter().zip(last.iter().zip(slots.iter()));
            *self = Sorted::Open(entries.map(|(&f, (&l, &s))| (f, (l, s))).collect());
        }
        match self {
            Sorted::Open(tree) => tree,
            Sorted::Sealed { .. } => unreachable!("opened above"),
        }
    }

    fn insert(&mut self, from: K, to: K, slot: u32) -> Result<(), InsertError> {
        let tree = self.open();
        // The last interval that starts at or before the end of the new one is the only one that can touch it.
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
        self.open().remove(&from).map(|(_, slot)| slot)
    }

    fn ascending(&self) -> Vec<u32> {
        match self {
            Sorted::Sealed { slots, .. } => slots.clone(),
            Sorted::Open(tree) => tree.values().map(|&(_, slot)| slot).collect(),
        }
    }

    fn seal(&mut self) {
        if let Sorted::Open(tree) = self {
            let first: Vec<K> = tree.keys().copied().collect();
            *self = Sorted::Sealed {
                directory: Directory::new(&first),
                first,
                last: tree.values().map(|v| v.0).collect(),
                slots: tree.values().map(|v| v.1).collect(),
            };
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
enum Width {
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

    #[inline]
    pub fn lookup(&self, key: &[u8]) -> Option<u32> {
        if key.len() != self.key_len {
            return None;
        }
        each_width!(&self.sorted, s => s.lookup(Word::from_key(key)?))
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

    pub fn remove(&mut self, from: &[u8], to: &[u8]) -> Option<u32> {
        each_width!(&mut self.sorted, s => s.remove(Word::from_key(from)?, Word::from_key(to)?))
    }

    pub fn ascending(&self) -> Vec<u32> {
        each_width!(&self.sorted, s => s.ascending())
    }

    pub fn is_sealed(&self) -> bool {
        each_width!(&self.sorted, s => matches!(s, Sorted::Sealed { .. }))
    }

    pub fn seal(&mut self) {
        each_width!(&mut self.sorted, s => s.seal())
    }
}
