// SPDX-License-Identifier: Apache-2.0

//! Concatenations of ranges by tables: recursive flow classification (Gupta and McKeown, SIGCOMM
//! 1999).
//!
//! Values of a field that the same entries take are one class. The class of the first field and
//! that of the next lead, by a table, to the class of both, and so on; the last one is a list of
//! entries in their order:
//!
//! ```text
//! field 1 -> class --+
//! field 2 -> class --+-> table -> class --+
//! field 3 -> class -----------------------+-> table -> entries
//! ```
//!
//! A search is a few loads, whatever it finds. Tables grow with the product of the classes, so it
//! is only for sets where that stays small: some thousand entries of which not all fields differ
//! much.

use std::collections::HashMap;

use penstock_classify::Ranks;

use crate::hash::{HashBytes, HashWords};

/// Entries at most.
const ENTRIES: usize = 4096;
/// Words of 64 entries that making a table may touch: what bounds its time, and its cells.
const WORK: usize = 1 << 20;
/// Places in all lists of entries.
const PLACES: usize = 1 << 16;
/// Values that share a page of a field of two bytes.
const PAGE: usize = 256;

/// Which entries: a bit for each.
type Members = Box<[u64]>;

/// The number of a class.
type Class = u16;

/// Sets of entries, each once. The first is the empty one.
struct Pool {
    numbers: HashMap<Members, Class>,
    members: Vec<Members>,
}

impl Pool {
    fn new(words: usize) -> Self {
        let mut pool = Pool { numbers: HashMap::new(), members: Vec::new() };
        pool.number(&vec![0; words]);
        pool
    }

    /// The class of these entries; `None` if there are too many classes.
    fn number(&mut self, members: &[u64]) -> Option<Class> {
        if let Some(known) = self.numbers.get(members) {
            return Some(*known);
        }
        let number = Class::try_from(self.members.len()).ok()?;
        self.numbers.insert(members.into(), number);
        self.members.push(members.into());
        Some(number)
    }
}

/// From a field's value to its class.
#[derive(Clone, Debug)]
pub(crate) enum Classes {
    /// One or two bytes: which page, by the upper one, and its classes, by the lower; and a value's
    /// bytes.
    Pages(Box<[u8; PAGE]>, Vec<Class>, u8),
    /// Single values of four bytes; others have class 0.
    Words(HashWords),
    /// Single values of any other length.
    Bytes(HashBytes),
    /// Classes of the spans between bounds: with how many bounds are not above a value; and a
    /// value's bytes.
    Spans32(Ranks<u32>, Vec<Class>, u8),
    Spans64(Ranks<u64>, Vec<Class>, u8),
    Spans128(Ranks<u128>, Vec<Class>, u8),
}

/// Up to 16 bytes as a number that orders like them.
#[inline]
fn ordered(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

impl Classes {
    /// For entries from their first to their last value, in bytes of one length.
    fn new(len: usize, entries: &[(&[u8], &[u8])], pool: &mut Pool) -> Option<Classes> {
        let words = entries.len().div_ceil(64);
        let set = |members: &mut [u64], entry: usize, is: bool| {
            let (word, bit) = (entry / 64, 1 << (entry % 64));
            members[word] = members[word] & !bit | if is { bit } else { 0 };
        };
        if len > 2 && entries.iter().all(|(from, to)| from == to) {
            let mut by_value: HashMap<&[u8], Members> = HashMap::new();
            for (entry, (value, _)) in entries.iter().enumerate() {
                set(by_value.entry(value).or_insert_with(|| vec![0; words].into()), entry, true);
            }
            let classes =
                by_value.iter().map(|(value, members)| Some((*value, pool.number(members)?)));
            let classes: Vec<_> = classes.collect::<Option<_>>()?;
            if len == 4 {
                let mut hash = HashWords::new();
                classes.iter().for_each(|(value, class)| hash.insert(value, (*class).into()));
                return Some(Classes::Words(hash));
            }
            // Its places are numbered without gaps, classes need not be.
            let mut hash = HashBytes::new(len);
            let mut sorted = classes;
            sorted.sort_unstable_by_key(|c| c.1);
            sorted.iter().for_each(|(value, class)| hash.insert(value, (*class).into()));
            return Some(Classes::Bytes(hash));
        }
        // What begins and ends at each bound.
        let mut events: Vec<(u128, usize, bool)> = Vec::with_capacity(2 * entries.len());
        for (entry, (from, to)) in entries.iter().enumerate() {
            events.push((ordered(from), entry, true));
            if let Some(after) = ordered(to).checked_add(1) {
                events.push((after, entry, false));
            }
        }
        events.sort_unstable();
        let mut members: Members = vec![0; words].into();
        let (mut bounds, mut classes) = (Vec::new(), vec![0]);
        let mut rest = events.as_slice();
        while let Some(&(bound, ..)) = rest.first() {
            let here = rest.iter().take_while(|e| e.0 == bound).count();
            let (these, behind) = rest.split_at(here);
            these.iter().for_each(|(_, entry, begins)| set(&mut members, *entry, *begins));
            rest = behind;
            bounds.push(bound);
            classes.push(pool.number(&members)?);
        }
        let bytes = len as u8;
        Some(match len {
            0..=2 => Self::pages(&bounds, &classes, bytes),
            3..=4 => {
                let bounds = bounds_of(&bounds, |b| u32::try_from(b).ok());
                Classes::Spans32(Ranks::new(bounds), classes, bytes)
            }
            5..=8 => {
                let bounds = bounds_of(&bounds, |b| u64::try_from(b).ok());
                Classes::Spans64(Ranks::new(bounds), classes, bytes)
            }
            _ => Classes::Spans128(Ranks::new(bounds), classes, bytes),
        })
    }

    fn pages(bounds: &[u128], classes: &[Class], len: u8) -> Classes {
        let mut index = Box::new([0; PAGE]);
        let mut pages: Vec<Class> = Vec::new();
        let mut span = 0;
        for (upper, number) in index.iter_mut().enumerate() {
            let page: Vec<Class> = (0..PAGE)
                .map(|lower| {
                    while bounds.get(span).is_some_and(|b| *b <= (upper * PAGE + lower) as u128) {
                        span += 1;
                    }
                    classes[span]
                })
                .collect();
            let known = pages.chunks(PAGE).position(|known| known == page);
            *number = known.unwrap_or(pages.len() / PAGE) as u8;
            if known.is_none() {
                pages.extend(page);
            }
        }
        Classes::Pages(index, pages, len)
    }

    /// [`Classes::class`] of up to 8 bytes as a number: its bytes from the lowest on, zeros above.
    #[inline]
    pub fn short_class(&self, value: u64) -> Class {
        match self {
            Classes::Spans32(ranks, classes, 4) => {
                class_of(classes, ranks.rank(u32::from_be(value as u32)))
            }
            Classes::Spans64(ranks, classes, 8) => {
                class_of(classes, ranks.rank(u64::from_be(value)))
            }
            Classes::Bytes(hash) => hash.find_short(value).map_or(0, |class| class as Class),
            _ => {
                let bytes = value.to_ne_bytes();
                self.class(bytes.get(..self.key_len()).unwrap_or(&bytes))
            }
        }
    }

    /// Bytes of a value.
    pub fn key_len(&self) -> usize {
        match self {
            Classes::Words(_) => 4,
            Classes::Bytes(hash) => hash.key_len(),
            Classes::Pages(.., len)
            | Classes::Spans32(.., len)
            | Classes::Spans64(.., len)
            | Classes::Spans128(.., len) => usize::from(*len),
        }
    }

    #[inline]
    pub fn class(&self, value: &[u8]) -> Class {
        match self {
            Classes::Pages(index, pages, _) => {
                let (upper, lower) = match *value {
                    [upper, lower, ..] => (upper, lower),
                    [lower] => (0, lower),
                    [] => (0, 0),
                };
                let page = usize::from(index[usize::from(upper)]) * PAGE;
                pages.get(page + usize::from(lower)).copied().unwrap_or(0)
            }
            Classes::Words(hash) => hash.find(value).map_or(0, |class| class as Class),
            Classes::Bytes(hash) => hash.find(value).map_or(0, |class| class as Class),
            Classes::Spans32(ranks, classes, _) => {
                let value = match *value {
                    [a, b, c, d] => u32::from_be_bytes([a, b, c, d]),
                    _ => ordered(value) as u32,
                };
                class_of(classes, ranks.rank(value))
            }
            Classes::Spans64(ranks, classes, _) => {
                class_of(classes, ranks.rank(ordered(value) as u64))
            }
            Classes::Spans128(ranks, classes, _) => {
                let value = value.try_into().map_or_else(|_| ordered(value), u128::from_be_bytes);
                class_of(classes, ranks.rank(value))
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Classes::Pages(_, pages, _) => PAGE + pages.len() * size_of::<Class>(),
            Classes::Words(hash) => hash.bytes(),
            Classes::Bytes(hash) => hash.bytes(),
            Classes::Spans32(ranks, classes, _) => {
                ranks.bytes() + classes.len() * size_of::<Class>()
            }
            Classes::Spans64(ranks, classes, _) => {
                ranks.bytes() + classes.len() * size_of::<Class>()
            }
            Classes::Spans128(ranks, classes, _) => {
                ranks.bytes() + classes.len() * size_of::<Class>()
            }
        }
    }
}

/// Bounds as numbers of the field's width; one beyond the greatest value is none.
fn bounds_of<K>(bounds: &[u128], narrow: impl Fn(u128) -> Option<K>) -> Vec<K> {
    bounds.iter().filter_map(|b| narrow(*b)).collect()
}

#[inline]
fn class_of(classes: &[Class], rank: usize) -> Class {
    classes.get(rank).copied().unwrap_or(0)
}

/// A field: where it is in the key, and its classes.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub offset: usize,
    pub len: usize,
    pub classes: Classes,
    /// From the class of the fields before and that of this one, row by row, to that of all; empty
    /// for the first field.
    pub table: Vec<Class>,
    /// Classes of this field.
    pub width: usize,
}

/// The tables.
#[derive(Clone, Debug)]
pub(crate) struct Rfc {
    pub fields: Vec<Field>,
    /// By class of all fields: the slot of the first entry, `u32::MAX` for none.
    pub places: Vec<u32>,
    /// Where the list of each class of all fields begins, and where the last one ends.
    starts: Vec<u32>,
    /// Lists of entries.
    entries: Vec<u16>,
}

impl Rfc {
    /// For fields, each of so many bytes at an offset, and entries from first to last key in these
    /// slots. `None` if that would be too large.
    pub fn new<'e>(
        fields: &[(usize, usize)],
        entries: &[(&'e [u8], &'e [u8])],
        slots: &[u32],
    ) -> Option<Rfc> {
        if entries.len() > ENTRIES || fields.is_empty() || fields.iter().any(|(_, len)| *len > 16) {
            return None;
        }
        let words = entries.len().div_ceil(64);
        let mut made: Vec<Field> = Vec::with_capacity(fields.len());
        let mut all: Vec<Members> = Vec::new();
        for (at, &(offset, len)) in fields.iter().enumerate() {
            let part = |key: &'e [u8]| key.get(offset..offset + len);
            let spans = entries.iter().map(|(from, to)| Some((part(from)?, part(to)?)));
            let spans: Vec<_> = spans.collect::<Option<_>>()?;
            let mut pool = Pool::new(words);
            let classes = Classes::new(len, &spans, &mut pool)?;
            let (width, mut table) = (pool.members.len(), Vec::new());
            if at == 0 {
                all = pool.members;
            } else {
                if all.len() * width * words.max(1) > WORK {
                    return None;
                }
                let mut both = Pool::new(words);
                // Neighbours mostly have the same entries in common, or none.
                let (mut common, mut last, mut class) = (vec![0; words], vec![0; words], 0);
                table.reserve_exact(all.len() * width);
                for before in &all {
                    for here in &pool.members {
                        common
                            .iter_mut()
                            .zip(before.iter().zip(here))
                            .for_each(|(c, (a, b))| *c = a & b);
                        if common != last {
                            class = match common.iter().all(|word| *word == 0) {
                                true => 0,
                                false => both.number(&common)?,
                            };
                            last.clone_from(&common);
                        }
                        table.push(class);
                    }
                }
                all = both.members;
            }
            made.push(Field { offset, len, classes, table, width });
        }
        let (mut starts, mut lists) = (vec![0], Vec::new());
        for members in &all {
            lists.extend(
                (0..entries.len())
                    .filter(|at| members[at / 64] >> (at % 64) & 1 != 0)
                    .map(|at| at as u16),
            );
            if lists.len() > PLACES {
                return None;
            }
            starts.push(lists.len() as u32);
        }
        let first = |span: &[u32]| lists.get(span[0] as usize..span[1] as usize)?.first();
        let slot = |span: &[u32]| slots.get(usize::from(*first(span)?)).copied();
        let places = starts.windows(2).map(|span| slot(span).unwrap_or(u32::MAX)).collect();
        Some(Rfc { fields: made, places, starts, entries: lists })
    }

    /// The entries that a key lies in, in their order.
    #[inline]
    pub fn entries_of(&self, key: &[u8]) -> &[u16] {
        let mut class = 0;
        for field in &self.fields {
            let own = field
                .classes
                .class(key.get(field.offset..field.offset + field.len).unwrap_or_default());
            class = match field.table.as_slice() {
                [] => usize::from(own),
                table => {
                    table.get(class * field.width + usize::from(own)).copied().unwrap_or(0).into()
                }
            };
        }
        let Some(&[start, end]) = self.starts.get(class..class + 2) else { return &[] };
        self.entries.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let fields =
            self.fields.iter().map(|f| f.classes.bytes() + f.table.len() * size_of::<Class>());
        fields.sum::<usize>() + (self.starts.len() + self.places.len()) * 4 + self.entries.len() * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of an address, a port and a byte, each at a multiple of four.
    fn key(rng: &mut fastrand::Rng) -> Vec<u8> {
        vec![
            198,
            18,
            rng.u8(..2),
            rng.u8(..6),
            rng.u8(..2),
            rng.u8(..10),
            0,
            0,
            rng.u8(..3),
            0,
            0,
            0,
        ]
    }

    #[test]
    fn matches_are_the_entries_that_contain_the_key() {
        let mut rng = fastrand::Rng::with_seed(1);
        let fields = [(0, 4), (4, 2), (8, 1)];
        for count in [1, 7, 70, 200] {
            for exact in 0..8 {
                let entries: Vec<(Vec<u8>, Vec<u8>)> = (0..count)
                    .map(|_| {
                        let (mut from, mut to) = (key(&mut rng), key(&mut rng));
                        for (i, (offset, len)) in fields.into_iter().enumerate() {
                            let (a, b) =
                                (&mut from[offset..offset + len], &mut to[offset..offset + len]);
                            if exact >> i & 1 != 0 {
                                b.copy_from_slice(a);
                            } else if a > b {
                                a.swap_with_slice(b);
                            }
                        }
                        (from, to)
                    })
                    .collect();
                let entries: Vec<(&[u8], &[u8])> =
                    entries.iter().map(|(a, b)| (&**a, &**b)).collect();
                let rfc = Rfc::new(&fields, &entries, &[]).unwrap();
                for _ in 0..if cfg!(miri) { 10 } else { 2000 } {
                    let key = key(&mut rng);
                    let within = |(from, to): &(&[u8], &[u8])| {
                        fields.iter().all(|&(at, len)| {
                            let part = at..at + len;
                            from[part.clone()] <= key[part.clone()] && key[part.clone()] <= to[part]
                        })
                    };
                    let expected = (0..).zip(&entries).filter(|(_, e)| within(e)).map(|(at, _)| at);
                    assert!(
                        rfc.entries_of(&key).iter().copied().eq(expected),
                        "{count} {exact} {key:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn oversized_tables_are_refused() {
        let keys: Vec<[u8; 8]> = (0..4000u32)
            .map(|n| {
                let [_, _, c, d] = n.to_be_bytes();
                [198, 18, c, d, 0, 0, c, d]
            })
            .collect();
        let entries: Vec<(&[u8], &[u8])> = keys.iter().map(|k| (&k[..], &k[..])).collect();
        assert!(Rfc::new(&[(0, 4), (4, 4)], &entries, &[]).is_none());
        assert!(Rfc::new(&[(0, 4)], &entries, &[]).is_some());
    }

    #[test]
    fn all_ones_keys_are_found() {
        for len in [1, 2, 3, 4, 6, 8, 12, 16] {
            let (low, high) = (vec![0; len], vec![255; len]);
            let mut near = high.clone();
            near[len - 1] = 254;
            let entries = [(&near[..], &high[..]), (&low[..], &near[..])];
            let rfc = Rfc::new(&[(0, len)], &entries, &[]).unwrap();
            for (key, expected) in [(&high, &[0u16][..]), (&near, &[0, 1]), (&low, &[1])] {
                assert_eq!(rfc.entries_of(key), expected, "{len}");
            }
        }
    }
}
