// SPDX-License-Identifier: Apache-2.0

//! Concatenations of intervals as keys of a hash: each interval is some prefixes, and each
//! combination of prefixes is the bytes of a key under a mask. There are few masks where there are
//! few lengths of prefixes, and a packet's key is looked up under each of them.
//!
//! ```text
//! 198.18.0.0/24 . 80-83  ->  mask ffffff00 . fffc: c6120000 . 0050
//! ```

use std::collections::HashMap;

/// Masks of a set at most: a lookup tries them one after the other.
pub(super) const MOST_MASKS: usize = 256;

/// Combinations that an element is at most.
const MOST_PIECES: usize = 4096;

/// Bytes of a key at most: with its number of a mask it is in the stack frame.
pub(super) const MOST_KEY: u8 = 56;

/// Keys that are an element: the mask and the bytes under it.
pub(super) type Piece = (Box<[u8]>, Box<[u8]>);

/// The combinations of prefixes that an element is, whose keys are fields of these lengths, each
/// from the beginning of a word on. `None` if there are too many, or it is no such element.
pub(super) fn pieces(fields: &[u8], from: &[u8], to: &[u8]) -> Option<Vec<Piece>> {
    if from.len() != to.len() || from.len() > usize::from(MOST_KEY) {
        return None;
    }
    let mut all = vec![(vec![0; from.len()], vec![0; from.len()])];
    let mut at = 0;
    for len in fields.iter().map(|len| usize::from(*len)) {
        let (first, last) = (from.get(at..at + len)?, to.get(at..at + len)?);
        let prefixes = prefixes(first, last)?;
        if all.len() * prefixes.len() > MOST_PIECES {
            return None;
        }
        all = all
            .iter()
            .flat_map(|(mask, key)| {
                prefixes.iter().map(move |(value, bits)| {
                    let (mut mask, mut key) = (mask.clone(), key.clone());
                    write(&mut mask, at, len, ones(*bits, len));
                    write(&mut key, at, len, *value);
                    (mask, key)
                })
            })
            .collect();
        at += len.next_multiple_of(4);
    }
    Some(all.into_iter().map(|(mask, key)| (mask.into(), key.into())).collect())
}

/// A number of `len` bytes with so many ones in front.
fn ones(bits: u32, len: usize) -> u128 {
    let all = u128::MAX >> (128 - 8 * len as u32);
    all & !all.checked_shr(bits).unwrap_or(0)
}

fn write(bytes: &mut [u8], at: usize, len: usize, number: u128) {
    let number = number.to_be_bytes();
    if let Some(to) = bytes.get_mut(at..at + len) {
        to.copy_from_slice(number.get(16 - len..).unwrap_or_default());
    }
}

/// The prefixes that an interval of up to 16 bytes is: first value, and length in bits.
fn prefixes(first: &[u8], last: &[u8]) -> Option<Vec<(u128, u32)>> {
    let number = |bytes: &[u8]| bytes.iter().fold(0_u128, |n, byte| n << 8 | u128::from(*byte));
    if first.is_empty() || first.len() > 16 || first > last {
        return None;
    }
    let bits = first.len() as u32 * 8;
    let (mut from, to) = (number(first), number(last));
    let mut all = Vec::new();
    loop {
        // As many free bits as the start has zeros at its end, and the interval has room for.
        let room = (to - from).checked_add(1).map_or(128, u128::ilog2);
        let free = from.trailing_zeros().min(bits).min(room);
        all.push((from, bits - free));
        match 1_u128.checked_shl(free).and_then(|step| from.checked_add(step)) {
            Some(next) if next <= to => from = next,
            _ => return Some(all),
        }
    }
}

/// The masks of a set, by number.
#[derive(Debug, Default)]
pub(super) struct Masks {
    numbers: HashMap<Box<[u8]>, u32>,
}

impl Masks {
    /// The number of a mask; `None` if there are too many.
    pub(super) fn number(&mut self, mask: &[u8]) -> Option<u32> {
        if let Some(number) = self.numbers.get(mask) {
            return Some(*number);
        }
        let number = self.numbers.len();
        if number >= MOST_MASKS {
            return None;
        }
        self.numbers.insert(mask.into(), number as u32);
        Some(number as u32)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// All of them, with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.numbers.iter().map(|(mask, number)| (*number, &**mask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(all: &[Piece], key: &[u8]) -> usize {
        let under = |(mask, value): &&Piece| {
            key.iter().zip(mask.iter().zip(value)).all(|(k, (m, v))| k & m == *v)
        };
        all.iter().filter(under).count()
    }

    #[test]
    fn pieces_are_the_keys_of_the_element() {
        for (first, last) in
            [(0_u16, 0_u16), (0, 65535), (1, 65534), (80, 83), (1024, 65535), (7, 300), (9, 9)]
        {
            let [from, to] = [(7, first), (9, last)].map(|(byte, n)| {
                let [high, low] = n.to_be_bytes();
                [byte, 0, 0, 0, high, low, 0, 0]
            });
            let all = pieces(&[1, 2], &from, &to).unwrap();
            for (a, b) in [(6, 0), (7, 1), (8, 0), (9, 3), (10, 0)] {
                for n in [0, 1, 7, 9, 79, 80, 83, 84, 299, 300, 301, 1023, 1024, 65534, 65535_u16] {
                    // What is not of a field has any value.
                    let [high, low] = n.to_be_bytes();
                    let inside = (7..=9).contains(&a) && (first..=last).contains(&n);
                    let key = [a, b, b, b, high, low, b, b];
                    assert_eq!(covers(&all, &key), usize::from(inside), "{first}-{last} {key:?}");
                }
            }
        }
        assert_eq!(pieces(&[16], &[0; 16], &[0xff; 16]).unwrap().len(), 1);
        let (from, to) = ([0; 16], [[0xff; 15].as_slice(), &[0xfe]].concat());
        assert_eq!(pieces(&[16], &from, &to).unwrap().len(), 128);
    }

    #[test]
    fn what_is_no_element_has_no_pieces() {
        assert!(pieces(&[4], &[2; 4], &[1; 4]).is_none());
        assert!(pieces(&[4, 4], &[1; 4], &[2; 4]).is_none());
        assert!(pieces(&[20], &[1; 20], &[2; 20]).is_none());
        // 62 by 62 by 62 prefixes.
        let (from, to) = ([0, 0, 0, 1].repeat(3), [0xff, 0xff, 0xff, 0xfe].repeat(3));
        assert!(pieces(&[4; 3], &from, &to).is_none());
    }
}
