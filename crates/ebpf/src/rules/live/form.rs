// SPDX-License-Identifier: Apache-2.0

//! What the map of a set that clients change is like.

use penstock_program::image::{LinkedData, LinkedValue, LinkedVerdict};
use penstock_sets::{ElementRef, Set};

use super::super::clocks::Clocks;
use super::super::pieces::MOST_KEY;

/// Elements at most.
const MOST: usize = 1 << 20;
/// Bytes of keys that are intervals, at most.
const MOST_INTERVAL: usize = 32;

/// What a map of a set is like. A set that needs another gets another map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Form {
    pub(in super::super) structure: Structure,
    /// Bytes of a key.
    pub(in super::super) key_len: u8,
    /// Elements may expire.
    pub(in super::super) timeout: bool,
    /// Bytes that elements load.
    pub(in super::super) data_len: u8,
    /// Verdicts that elements mean, numbered from 1 on.
    pub(in super::super) verdicts: Vec<LinkedVerdict>,
    /// There is an element for all other keys.
    pub(in super::super) catch_all: bool,
}

/// How a key is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Structure {
    /// A bit for each key of one or two bytes.
    Bits,
    /// A hash from a key to the number of its slot, and a bit for each slot.
    HashedBits,
    /// A hash from a key to the number of its slot.
    Hash,
    /// Intervals in order, in blocks, each with its slot.
    Blocks,
    /// A hash from the bytes of a key under some masks to the number of a slot.
    Masked,
}

/// Whether a set can be a map that stays when elements change.
pub(in super::super) fn suits(set: &Set<LinkedValue>) -> bool {
    let description = set.description();
    let fits = match (description.interval, description.fields.is_empty()) {
        (true, true) => description.key_len <= MOST_INTERVAL,
        (true, false) => description.key_len <= usize::from(MOST_KEY),
        (false, _) => true,
    };
    let counts =
        || !set.is_presence_only() && set.iter_unordered().any(|e| !e.value.statements.is_empty());
    fits && set.len() <= MOST && !counts()
}

impl Form {
    /// That of a set; `None` if it has none.
    pub(super) fn of(
        set: &Set<LinkedValue>,
        key_len: u8,
        data_len: u8,
        verdict: bool,
    ) -> Option<Self> {
        if !suits(set) {
            return None;
        }
        let description = set.description();
        let mut verdicts = Vec::new();
        for element in set.iter_unordered().take_while(|_| verdict) {
            if let LinkedData::Verdict(verdict) = &element.value.data
                && !verdicts.contains(verdict)
            {
                verdicts.push(*verdict);
            }
        }
        let catch_all = set.catch_all(0).is_some();
        let timeout = description.timeout;
        let mute = data_len == 0 && !verdict;
        let structure = match (mute && !timeout, description.interval) {
            (_, true) if !description.fields.is_empty() => Structure::Masked,
            (true, _) if key_len <= 2 && !catch_all => Structure::Bits,
            (_, true) => Structure::Blocks,
            (true, false) if !catch_all => Structure::HashedBits,
            (_, false) => Structure::Hash,
        };
        Some(Form { structure, key_len, timeout, data_len, verdicts, catch_all })
    }

    /// Words of a slot: verdict or presence, expiry, data.
    pub(in super::super) fn slot_words(&self) -> usize {
        1 + usize::from(self.timeout) + usize::from(self.data_len).div_ceil(8)
    }

    /// Byte of a slot at which its data begin.
    pub(in super::super) fn data_at(&self) -> i16 {
        if self.timeout { 16 } else { 8 }
    }

    /// Words of a key.
    pub(in super::super) fn key_words(&self) -> usize {
        usize::from(self.key_len).div_ceil(8)
    }

    /// Whether programs of this form can run with one of another: all verdicts are known.
    pub(super) fn has_all_of(&self, other: &Form) -> bool {
        let alike = Form { verdicts: self.verdicts.clone(), ..other.clone() };
        *self == alike && other.verdicts.iter().all(|verdict| self.verdicts.contains(verdict))
    }

    /// The slot of an element.
    pub(super) fn slot(&self, element: &ElementRef<'_, LinkedValue>, clocks: Clocks) -> Vec<u64> {
        let data = match &element.value.data {
            LinkedData::Value(bytes) => &bytes[..],
            LinkedData::Long(bytes) => bytes,
            _ => &[],
        };
        let number = match &element.value.data {
            LinkedData::Verdict(verdict) => self.verdicts.iter().position(|v| v == verdict),
            _ => None,
        };
        let mut slot = vec![number.unwrap_or(0) as u64 + 1];
        if self.timeout {
            slot.push(clocks.to_kernel(element.expires_at));
        }
        let mut data = data.iter().copied().chain(std::iter::repeat(0));
        slot.extend((0..usize::from(self.data_len).div_ceil(8)).map(|_| {
            let mut word = [0; 8];
            word.iter_mut().zip(&mut data).for_each(|(to, from)| *to = from);
            u64::from_ne_bytes(word)
        }));
        slot
    }
}
