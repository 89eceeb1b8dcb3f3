// SPDX-License-Identifier: Apache-2.0

//! A bucket of a hash table in one cache line: seven places and a count.
//!
//! A place holds a tag, which is part of a hash, and a value that is not 0. The tags stand together,
//! so that all are compared at once and nothing depends on which place it is. The count is for the
//! table: how many entries went past the bucket because it was full, so that a search knows when to
//! stop.

/// Places of a bucket.
pub const PLACES: usize = 7;

/// Words of a bucket.
pub const WORDS: usize = 16;

/// A bucket: seven tags and a word without meaning, then seven values and the count. All zeros is
/// an empty one.
pub type Bucket = [u32; WORDS];

/// Where values begin.
const VALUES: usize = 8;
/// Where the count is.
const PASSED: usize = VALUES + PLACES;
/// The places, as bits.
const ALL: u32 = (1 << PLACES) - 1;

/// A bit for each of eight words that is equal to another.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn equal(words: &[u32; 8], to: u32) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi32, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32, _mm_set_epi32,
        _mm_set1_epi32, _mm_setzero_si128,
    };
    let [a, b, c, d, e, f, g, h] = words.map(u32::cast_signed);
    // SAFETY: all x86-64 processors have the instructions (SSE2), which touch registers only.
    unsafe {
        let to = _mm_set1_epi32(to.cast_signed());
        let low = _mm_cmpeq_epi32(_mm_set_epi32(d, c, b, a), to);
        let high = _mm_cmpeq_epi32(_mm_set_epi32(h, g, f, e), to);
        let bytes = _mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128());
        _mm_movemask_epi8(bytes).cast_unsigned()
    }
}

/// A bit for each of eight words that is equal to another.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn equal(words: &[u32; 8], to: u32) -> u32 {
    const BITS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
    words.iter().zip(BITS).fold(0, |all, (word, bit)| all | if *word == to { bit } else { 0 })
}

#[inline(always)]
fn halves(bucket: &Bucket) -> [&[u32; 8]; 2] {
    let (halves, _) = bucket.as_chunks::<8>();
    [&halves[0], &halves[1]]
}

#[inline(always)]
fn first(places: u32) -> Option<usize> {
    let places = places & ALL;
    (places != 0).then(|| places.trailing_zeros() as usize)
}

/// Words of so many empty buckets, and where the first cache line in them begins. Nothing is
/// written: the system provides the memory as it is used.
pub fn empty(buckets: usize) -> (Vec<u32>, usize) {
    let words = vec![0; words_for(buckets)];
    let start = words.as_ptr().align_offset(size_of::<Bucket>());
    (words, start.min(WORDS))
}

/// Words that [`empty`] allocates for so many buckets.
pub const fn words_for(buckets: usize) -> usize {
    (buckets + 1) * WORDS
}

/// The first value with this tag for which `is` returns `true`.
#[inline(always)]
pub fn find(bucket: &Bucket, tag: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
    let mut matches = matches(bucket, tag);
    while matches != 0 {
        let value = value(bucket, matches.trailing_zeros() as usize);
        matches &= matches - 1;
        if value != 0 && is(value) {
            return Some(value);
        }
    }
    None
}

/// A bit for each place with this tag, also where nothing is.
#[inline(always)]
pub fn matches(bucket: &Bucket, tag: u32) -> u32 {
    equal(halves(bucket)[0], tag) & ALL
}

/// A place where nothing is.
#[inline(always)]
pub fn free(bucket: &Bucket) -> Option<usize> {
    first(equal(halves(bucket)[1], 0))
}

/// The place that has a value.
#[inline(always)]
pub fn position(bucket: &Bucket, value: u32) -> Option<usize> {
    first(equal(halves(bucket)[1], value))
}

/// The value of a place, 0 where nothing is. Of numbers from 7 on it is any word.
#[inline(always)]
pub fn value(bucket: &Bucket, place: usize) -> u32 {
    bucket[VALUES + place % VALUES]
}

/// Puts a tag and a value into a place; both 0 to make it free.
#[inline(always)]
pub fn put(bucket: &mut Bucket, place: usize, tag: u32, value: u32) {
    debug_assert!(place < PLACES);
    bucket[place % VALUES] = tag;
    bucket[VALUES + place % VALUES] = value;
}

/// Tags and values of what is there.
pub fn iter(bucket: &Bucket) -> impl Iterator<Item = (u32, u32)> {
    let [tags, values] = halves(bucket);
    let places = tags.iter().copied().zip(values.iter().copied());
    places.take(PLACES).filter(|(_, value)| *value != 0)
}

/// The count.
#[inline(always)]
pub fn passed(bucket: &Bucket) -> u32 {
    bucket[PASSED]
}

/// The count, to change it.
#[inline(always)]
pub fn passed_mut(bucket: &mut Bucket) -> &mut u32 {
    &mut bucket[PASSED]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_by_tag_and_by_value() {
        let mut bucket = [0; WORDS];
        assert_eq!((free(&bucket), position(&bucket, 5), passed(&bucket)), (Some(0), None, 0));
        // Tags may be 0, and alike.
        let entries: [(u32, u32); PLACES] = std::array::from_fn(|n| (n as u32 % 3, 10 + n as u32));
        for (tag, value) in entries {
            let place = free(&bucket).unwrap();
            put(&mut bucket, place, tag, value);
        }
        *passed_mut(&mut bucket) = 13;
        assert_eq!(free(&bucket), None);
        assert_eq!(
            [0, 1, 2, 13].map(|tag| matches(&bucket, tag)),
            [0b100_1001, 0b1_0010, 0b10_0100, 0]
        );
        assert_eq!(
            [10, 16, 13, 0].map(|v| position(&bucket, v)),
            [Some(0), Some(6), Some(3), None]
        );
        assert_eq!((iter(&bucket).collect::<Vec<_>>(), passed(&bucket)), (entries.to_vec(), 13));
        let found = [11, 14, 12].map(|wanted| find(&bucket, 1, |value| value == wanted));
        assert_eq!(found, [Some(11), Some(14), None]);
        put(&mut bucket, 3, 0, 0);
        assert_eq!(find(&bucket, 0, |value| value == 13 || value == 0), None);
        assert_eq!((free(&bucket), value(&bucket, 3), value(&bucket, 4)), (Some(3), 0, 14));
        assert_eq!(iter(&bucket).count(), 6);
    }
}
