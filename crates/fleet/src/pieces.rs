// SPDX-License-Identifier: Apache-2.0

//! Texts as blobs of a bounded size, cut where the hash of a line says: a text that changes in one
//! place has the other pieces as before.

use crate::limits;

/// A piece ends after a line with a hash that is a multiple of this: on average, so many lines are
/// in one.
pub const LINES: u64 = 1024;

/// Cuts a text into pieces, which are the text again one after the other. A piece has at most
/// [`limits::PIECE`] bytes.
pub fn cut(text: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut begin = 0;
    let mut at = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        // A line that is longer than a piece, as in files that are no text, has several.
        let mut rest = line;
        while at + rest.len() - begin > limits::PIECE {
            let end = if at > begin { at } else { begin + limits::PIECE };
            pieces.push(&text[begin..end]);
            rest = &rest[end - at..];
            (begin, at) = (end, end);
        }
        at += rest.len();
        if hash(line).is_multiple_of(LINES) {
            pieces.push(&text[begin..at]);
            begin = at;
        }
    }
    if begin < text.len() {
        pieces.push(&text[begin..]);
    }
    pieces
}

/// FNV-1a, and its upper bits mixed into the lower ones, which are looked at.
fn hash(line: &[u8]) -> u64 {
    let hash = line.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn lines(n: u32) -> String {
        (0..n).map(|i| format!("tcp dport {i} ip saddr 198.18.{}.0/24 accept\n", i % 256)).collect()
    }

    #[test]
    fn pieces_are_the_text_and_bounded() {
        let long = "x".repeat(limits::PIECE * 3 + 7);
        for text in [
            String::new(),
            "one".into(),
            lines(20_000),
            long.clone(),
            format!("{long}\n{}", lines(10)),
            format!("{}{long}", lines(10)),
        ] {
            let pieces = cut(text.as_bytes());
            assert_eq!(pieces.concat(), text.as_bytes());
            assert!(pieces.iter().all(|p| !p.is_empty() && p.len() <= limits::PIECE));
        }
        assert!((10..40).contains(&cut(lines(20_000).as_bytes()).len()));
    }

    #[test]
    fn a_change_in_one_place_leaves_the_other_pieces() {
        let text = lines(20_000);
        let known: HashSet<&[u8]> = cut(text.as_bytes()).into_iter().collect();
        let changed = format!("tcp dport 22 accept\n{}", text.replace("dport 9999 ", "dport 1 "));
        let pieces = cut(changed.as_bytes());
        let new = pieces.iter().filter(|piece| !known.contains(*piece)).count();
        assert!((1..=3).contains(&new), "{new} of {}", pieces.len());
    }
}
