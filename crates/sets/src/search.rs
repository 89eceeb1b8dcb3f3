// SPDX-License-Identifier: Apache-2.0

//! Searches for generated code: a structure by its memory, or by a function made for it, without
//! asking which it is.

use penstock_classify::Root;

use crate::bitmap::Bitmap;
use crate::cells::{NOWHERE, WordCells};
use crate::hash::HashBytes;
use crate::intervals::{Intervals, Ranked, Sorted, Width};
use crate::ranges::Ranges;
use crate::rfc::{Classes, Field, Rfc};
use crate::set::Index;
use crate::{ElementRef, Set};

/// How a set is searched, as it is now. Addresses are good as long as the set, or a clone of it, is
/// unchanged.
///
/// Keys are numbers of 64 bits, their bytes from the lowest on, zeros above; those of more than 8
/// bytes are passed by address. A search gives the number of the place for [`Set::element_at`], or
/// [`NOWHERE`].
#[derive(Clone, Debug)]
pub enum Search<'a> {
    /// Keys of four bytes in open addressing.
    Words(WordCells<'a>),
    /// A function that takes the structure's address and the key.
    Number(Searcher<u64>),
    /// A function that takes the structure's address and that of a longer key.
    Address(Searcher<*const u8>),
    /// Intervals of four bytes.
    Spans(Spans<'a>),
    /// Concatenated ranges by the classes of their fields.
    Tables(ClassTables<'a>),
}

/// Intervals of keys of four bytes, which are numbers in network byte order: in ascending order,
/// apart from each other. A key is in the last one that does not begin after it, or in none.
#[derive(Clone, Copy, Debug)]
pub struct Spans<'a> {
    /// Leads to how many begin before the keys of a cell, and how many in it.
    pub root: Root<'a, u32>,
    /// The first key of each.
    pub first: &'a [u32],
    /// The last key of each; as many.
    pub last: &'a [u32],
    /// The place of each; as many.
    pub places: &'a [u32],
    /// For keys in cells that are cut further.
    pub otherwise: Searcher<u64>,
}

/// Tables over the classes of fields: the class of the first field, and that of the next in its
/// row, lead to the class of both, and so on; that of all fields leads to the place.
#[derive(Clone, Debug)]
pub struct ClassTables<'a> {
    /// At least one.
    pub fields: Vec<ClassField<'a>>,
    /// By the class of all fields: the place, or `u32::MAX` for none.
    pub places: &'a [u32],
}

/// A field of a key.
#[derive(Clone, Copy, Debug)]
pub struct ClassField<'a> {
    /// Where it begins in the key, in bytes, at a multiple of four.
    pub offset: usize,
    /// Its bytes.
    pub len: usize,
    /// From its value to its class.
    pub classes: FieldClasses<'a>,
    /// Rows of so many classes, one for each class of the fields before; not there in the first
    /// field.
    pub rows: &'a [u16],
    /// Length of a row.
    pub width: usize,
}

/// How a field's class is found.
#[derive(Clone, Copy, Debug)]
pub enum FieldClasses<'a> {
    /// One or two bytes: the page by the upper one, or the first one if there is one byte; the
    /// class in it by the lower.
    Pages(&'a [u8; 256], &'a [u16]),
    /// The class in place of a place; what is [`NOWHERE`] has class 0.
    Words(WordCells<'a>),
    /// The class by a function that takes a short field.
    Number(Searcher<u64>),
    /// The class by a function that takes the address of a longer field.
    Address(Searcher<*const u8>),
}

/// A function and the address of what it searches.
#[derive(Clone, Copy, Debug)]
pub struct Searcher<K> {
    /// To be called with `index` and a key.
    ///
    /// # Safety
    /// `index` is live. A key that is an address is that of as many bytes as the set's keys have.
    pub function: unsafe extern "C" fn(index: *const (), key: K) -> u64,
    /// Where the structure is.
    pub index: *const (),
}

#[inline(always)]
fn first(bytes: &[u8; 8], len: usize) -> &[u8] {
    bytes.get(..len).unwrap_or(bytes)
}

#[inline(always)]
fn place(slot: Option<u32>) -> u64 {
    slot.map_or(NOWHERE, u64::from)
}

/// A function that searches one structure for keys of up to 8 bytes.
macro_rules! by_number {
    ($name:ident, $structure:ty, |$index:ident, $key:ident| $found:expr) => {
        unsafe extern "C" fn $name(index: *const (), $key: u64) -> u64 {
            // SAFETY: `index` is the address of such a structure, which the caller keeps alive and
            // unchanged.
            let $index = unsafe { &*index.cast::<$structure>() };
            place($found)
        }
    };
}

/// Searchers of longer keys, which take their address.
macro_rules! by_address {
    ($name:ident, $structure:ty, |$index:ident, $key:ident| $found:expr) => {
        unsafe extern "C" fn $name(index: *const (), key: *const u8) -> u64 {
            // SAFETY: as above, and `key` is the address of as many bytes as the structure's keys
            // have.
            let ($index, $key) = unsafe {
                let index = &*index.cast::<$structure>();
                (index, std::slice::from_raw_parts(key, index.key_len()))
            };
            place($found)
        }
    };
}

by_number!(bitmap, Bitmap, |index, key| index.find(first(&key.to_ne_bytes(), index.key_len())));
by_number!(short_bytes, HashBytes, |index, key| index.find_short(key));
by_address!(long_bytes, HashBytes, |index, key| index.find(key));
by_number!(interval_halves, Sorted<u16>, |index, key| index.lookup(u16::from_be(key as u16)));
by_number!(interval_words, Sorted<u32>, |index, key| index.lookup(u32::from_be(key as u32)));
by_number!(interval_doubles, Sorted<u64>, |index, key| index.lookup(u64::from_be(key)));
by_number!(short_intervals, Intervals, |index, key| index
    .lookup(first(&key.to_ne_bytes(), index.key_len())));
by_address!(long_intervals, Intervals, |index, key| index.lookup(key));
by_number!(short_class, Classes, |index, key| Some(index.short_class(key).into()));
by_number!(short_ranges, Ranges, |index, key| index
    .lookup(first(&key.to_ne_bytes(), index.key_len()), |_| true));
by_address!(long_class, Classes, |index, key| Some(index.class(key).into()));
by_address!(long_ranges, Ranges, |index, key| index.lookup(key, |_| true));

fn searcher<K, T>(function: unsafe extern "C" fn(*const (), K) -> u64, index: &T) -> Searcher<K> {
    Searcher { function, index: std::ptr::from_ref(index).cast() }
}

fn number<T>(function: unsafe extern "C" fn(*const (), u64) -> u64, index: &T) -> Search<'_> {
    Search::Number(searcher(function, index))
}

fn address<T>(
    function: unsafe extern "C" fn(*const (), *const u8) -> u64,
    index: &T,
) -> Search<'_> {
    Search::Address(searcher(function, index))
}

fn class_field(field: &Field) -> ClassField<'_> {
    ClassField {
        offset: field.offset,
        len: field.len,
        classes: match &field.classes {
            Classes::Pages(index, pages, _) => FieldClasses::Pages(index, pages),
            Classes::Words(hash) => FieldClasses::Words(hash.word_cells()),
            classes if field.len <= 8 => FieldClasses::Number(searcher(short_class, classes)),
            classes => FieldClasses::Address(searcher(long_class, classes)),
        },
        rows: &field.table,
        width: field.width,
    }
}

fn class_tables(tables: &Rfc) -> ClassTables<'_> {
    ClassTables { fields: tables.fields.iter().map(class_field).collect(), places: &tables.places }
}

impl<V> Set<V> {
    /// How generated code searches the set as it is now. `None` where the time matters for what is
    /// found: of concatenated ranges that expire, another one may be met then.
    pub fn search(&self) -> Option<Search<'_>> {
        let short = self.description().key_len <= 8;
        Some(match self.index() {
            Index::Bitmap(i) => number(bitmap, i),
            Index::HashWords(i) => Search::Words(i.word_cells()),
            Index::HashBytes(i) if short => number(short_bytes, i),
            Index::HashBytes(i) => address(long_bytes, i),
            Index::Intervals(i) => match i.sorted() {
                (Width::Two(s), 2) => number(interval_halves, s),
                (Width::Four(s), 4) => match s.ranked() {
                    Some(Ranked { root, first, last, slots: places }) => {
                        let otherwise = searcher(interval_words, s);
                        Search::Spans(Spans { root, first, last, places, otherwise })
                    }
                    None => number(interval_words, s),
                },
                (Width::Eight(s), 8) => number(interval_doubles, s),
                _ if short => number(short_intervals, i),
                _ => address(long_intervals, i),
            },
            Index::Ranges(_) if self.may_expire() => return None,
            Index::Ranges(i) if let Some(tables) = i.tables() => {
                Search::Tables(class_tables(tables))
            }
            Index::Ranges(i) if short => number(short_ranges, i),
            Index::Ranges(i) => address(long_ranges, i),
        })
    }

    /// The element in the place that a search gave, or the catch-all, unless they have expired at
    /// time `now`.
    #[inline]
    pub fn element_at(&self, place: u64, now: u64) -> Option<ElementRef<'_, V>> {
        let element = u32::try_from(place).ok().and_then(|slot| self.slots().get(slot));
        element.filter(|e| e.is_alive(now)).or_else(|| self.catch_all(now))
    }
}
