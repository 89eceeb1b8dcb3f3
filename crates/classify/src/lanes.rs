// SPDX-License-Identifier: Apache-2.0

//! Four rules compared at once.
//!
//! A leaf's block is made of rows of 16 bytes: the numbers of four rules, then for each dimension
//! their bounds. On x86-64 a row is a vector of SSE2, which every such processor has; elsewhere it
//! is four numbers or eight.

/// A row of a leaf's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(16))]
pub(crate) struct Row([u8; 16]);

impl Row {
    /// Of nothing.
    pub const EMPTY: Row = Row([0; 16]);

    pub fn words(words: [i32; 4]) -> Row {
        let mut row = [0; 16];
        for (bytes, word) in row.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_ne_bytes();
        }
        Row(row)
    }

    pub fn halves(first: [u16; 4], last: [u16; 4]) -> Row {
        let mut row = [0; 16];
        for (bytes, half) in row.as_chunks_mut().0.iter_mut().zip(first.into_iter().chain(last)) {
            *bytes = half.to_ne_bytes();
        }
        Row(row)
    }

    #[inline(always)]
    pub fn word(&self, i: usize) -> i32 {
        self.0.as_chunks().0.get(i).map_or(0, |bytes| i32::from_ne_bytes(*bytes))
    }

    pub fn half(&self, i: usize) -> u16 {
        self.0.as_chunks().0.get(i).map_or(0, |bytes| u16::from_ne_bytes(*bytes))
    }
}

/// Rows of a cache line; blocks begin where lines begin, as far as they are that long.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Line([Row; Line::ROWS]);

const _: () = assert!(size_of::<Line>() == Line::ROWS * size_of::<Row>());

impl Line {
    /// Rows of a line.
    pub const ROWS: usize = 4;

    /// Lines of rows; the last one is padded with empty rows.
    pub fn of(rows: &[Row]) -> Vec<Line> {
        let line = |rows: &[Row]| {
            Line(std::array::from_fn(|i| rows.get(i).copied().unwrap_or(Row::EMPTY)))
        };
        rows.chunks(Line::ROWS).map(line).collect()
    }

    /// The rows of lines.
    #[inline(always)]
    pub fn rows(lines: &[Line]) -> &[Row] {
        // SAFETY: a line is its rows and nothing else, which the assertion above says, too.
        unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * Line::ROWS) }
    }

    /// Rows that a block of so many rows takes, so that as few lines as possible are touched.
    pub fn round_up(rows: usize) -> usize {
        if rows < Line::ROWS { rows.next_power_of_two() } else { rows.next_multiple_of(Line::ROWS) }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use sse2::Misses;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::Misses;

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_cmpgt_epi32, _mm_movemask_ps, _mm_or_si128,
        _mm_set_epi64x, _mm_set1_epi16, _mm_set1_epi32, _mm_setzero_si128, _mm_subs_epu16,
        _mm_unpackhi_epi64, _mm_unpacklo_epi16,
    };

    use super::Row;

    /// Which of four rules do not match: a lane that is not 0.
    #[derive(Clone, Copy)]
    pub(crate) struct Misses(__m128i);

    // SAFETY (of all blocks below): what is called takes and gives values and needs nothing but
    // SSE2, which is part of x86-64.

    #[inline(always)]
    fn vector(row: &Row) -> __m128i {
        let (low, high) = row.0.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, i64::from_ne_bytes);
        // SAFETY: as above.
        unsafe { _mm_set_epi64x(number(high), number(low)) }
    }

    impl Misses {
        /// Rules with numbers below `from`.
        #[inline(always)]
        pub fn before(numbers: &Row, from: u32) -> Misses {
            // SAFETY: as above.
            Misses(unsafe { _mm_cmpgt_epi32(_mm_set1_epi32(from as i32), vector(numbers)) })
        }

        /// Clears rows with bounds that exclude a coordinate.
        #[inline(always)]
        pub fn words(self, first: &Row, last: &Row, at: i32) -> Misses {
            // SAFETY: as above.
            unsafe {
                let at = _mm_set1_epi32(at);
                let below = _mm_cmpgt_epi32(vector(first), at);
                let above = _mm_cmpgt_epi32(at, vector(last));
                Misses(_mm_or_si128(self.0, _mm_or_si128(below, above)))
            }
        }

        /// Clears rows with 16-bit bounds, four first and four last ones, that exclude a
        /// coordinate.
        #[inline(always)]
        pub fn halves(self, bounds: &Row, at: u16) -> Misses {
            // SAFETY: as above.
            unsafe {
                let (at, bounds) = (_mm_set1_epi16(at as i16), vector(bounds));
                let below = _mm_subs_epu16(bounds, at);
                let above = _mm_subs_epu16(at, bounds);
                let above = _mm_unpackhi_epi64(above, above);
                Misses(_mm_or_si128(self.0, _mm_unpacklo_epi16(below, above)))
            }
        }

        /// The first rule that matches.
        #[inline(always)]
        pub fn first_hit(self) -> Option<usize> {
            // SAFETY: as above.
            let hits = unsafe {
                let hits = _mm_cmpeq_epi32(self.0, _mm_setzero_si128());
                _mm_movemask_ps(_mm_castsi128_ps(hits))
            };
            (hits != 0).then(|| hits.trailing_zeros() as usize)
        }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use super::Row;

    /// As on x86-64.
    #[derive(Clone, Copy)]
    pub(crate) struct Misses([bool; 4]);

    impl Misses {
        pub fn before(numbers: &Row, from: u32) -> Misses {
            Misses(std::array::from_fn(|i| numbers.word(i) < from as i32))
        }

        pub fn words(self, first: &Row, last: &Row, at: i32) -> Misses {
            Misses(std::array::from_fn(|i| self.0[i] | (first.word(i) > at) | (at > last.word(i))))
        }

        pub fn halves(self, bounds: &Row, at: u16) -> Misses {
            Misses(std::array::from_fn(|i| {
                self.0[i] | (bounds.half(i) > at) | (at > bounds.half(i + 4))
            }))
        }

        pub fn first_hit(self) -> Option<usize> {
            self.0.iter().position(|miss| !miss)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Misses, Row, portable};

    #[test]
    fn four_parallel_searches_equal_four_single_ones() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..if cfg!(miri) { 8 } else { 20_000 } {
            let edge = |rng: &mut fastrand::Rng| {
                let edges = [
                    0,
                    1,
                    2,
                    u32::MAX,
                    u32::MAX - 1,
                    1 << 31,
                    (1 << 31) - 1,
                    0x7fff,
                    0x8000,
                    0xffff,
                ];
                if rng.bool() { edges[rng.usize(..edges.len())] } else { rng.u32(..) }
            };
            let mut words = || std::array::from_fn(|_| edge(&mut rng) as i32);
            let (numbers, first, last, ports) = (words(), words(), words(), words());
            let (at, from) = (edge(&mut rng), edge(&mut rng) >> 1);
            let numbers = Row::words(numbers.map(|n| (n as u32 >> 1) as i32));
            let (first, last) = (Row::words(first), Row::words(last));
            let ports = Row::halves(ports.map(|p| p as u16), ports.map(|p| (p >> 16) as u16));
            macro_rules! hit {
                ($misses:ty) => {{
                    let some = <$misses>::before(&numbers, from);
                    let all = some.words(&first, &last, at as i32).halves(&ports, at as u16);
                    [some.first_hit(), some.halves(&ports, at as u16).first_hit(), all.first_hit()]
                }};
            }
            assert_eq!(
                hit!(Misses),
                hit!(portable::Misses),
                "{numbers:?} {first:?} {last:?} {ports:?} {at}"
            );
        }
    }
}
