// SPDX-License-Identifier: Apache-2.0

//! Chance: texts and bytes made of others.

use fastrand::Rng;

/// Numbers at which something ends.
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "2",
    "4",
    "31",
    "32",
    "33",
    "127",
    "128",
    "255",
    "256",
    "65535",
    "65536",
    "4294967295",
];
/// What a text may need where it has something else.
const MARKS: [&str; 16] =
    ["{", "}", ";", ",", ":", ".", "-", "/", "!=", "==", "<", "@", "\"", "\n", "*", "$x"];

/// Words, marks and blanks of a text.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = vec![];
    let mut start = 0;
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '%');
    let mut before = None;
    for (at, c) in text.char_indices() {
        let kind = if word(c) {
            1
        } else if c == ' ' {
            2
        } else {
            3
        };
        if before.is_some_and(|b| b != kind || kind == 3) {
            tokens.push(&text[start..at]);
            start = at;
        }
        before = Some(kind);
    }
    tokens.push(&text[start..]);
    tokens
}

/// What JSON may need where it has something else.
const JSON: [&str; 12] =
    ["{", "}", "[", "]", ",", ":", "\"\"", "null", "true", "-1", "1.5", "{\"set\": []}"];

/// One of the JSON texts with some of its words or marks taken out, doubled, or replaced by those
/// of others.
pub fn json(rng: &mut Rng, seeds: &[String]) -> String {
    let mut parts = tokens(&seeds[rng.usize(..seeds.len())]);
    for _ in 0..rng.usize(1..6) {
        if parts.is_empty() {
            break;
        }
        let at = rng.usize(..parts.len());
        match rng.u8(..5) {
            0 => _ = parts.remove(at),
            1 => parts.insert(at, parts[at]),
            2 => parts[at] = JSON[rng.usize(..JSON.len())],
            3 => parts[at] = NUMBERS[rng.usize(..NUMBERS.len())],
            _ => {
                let other = tokens(&seeds[rng.usize(..seeds.len())]);
                parts[at] = other[rng.usize(..other.len())];
            }
        }
    }
    parts.concat()
}

/// One of the texts with lines of others among its own, or some of its words changed, or both.
pub fn text(rng: &mut Rng, seeds: &[String]) -> String {
    let text = match rng.u8(..3) {
        0 => return words(rng, seeds, None),
        _ => lines(rng, seeds),
    };
    if rng.bool() { text } else { words(rng, seeds, Some(&text)) }
}

/// One of the texts with lines of others after or instead of lines of equal indentation.
fn lines(rng: &mut Rng, seeds: &[String]) -> String {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let any = |rng: &mut Rng| seeds.get(rng.usize(..seeds.len().max(1))).map_or("", |s| s.as_str());
    let mut lines: Vec<&str> = any(rng).lines().collect();
    for _ in 0..rng.usize(1..4) {
        // What opens a block or says where a chain hooks in is there already.
        let useful = |l: &&str| {
            depth(l) > 0 && !l.ends_with('{') && !l.contains("type filter hook") && l.trim() != "}"
        };
        let others: Vec<&str> = any(rng).lines().filter(useful).collect();
        if others.is_empty() || lines.is_empty() {
            continue;
        }
        let line = others[rng.usize(..others.len())];
        let places: Vec<usize> =
            (0..lines.len()).filter(|i| depth(lines[*i]) == depth(line)).collect();
        let Some(at) = places.get(rng.usize(..places.len().max(1))) else { continue };
        match rng.u8(..4) {
            0 => lines[*at] = line,
            _ => lines.insert(at + 1, line),
        }
    }
    lines.join("\n")
}

/// A text with some of its words changed.
fn words(rng: &mut Rng, seeds: &[String], base: Option<&str>) -> String {
    let empty = String::new();
    let any = |rng: &mut Rng| seeds.get(rng.usize(..seeds.len().max(1))).unwrap_or(&empty);
    let other = any(rng);
    let base = base.unwrap_or_else(|| any(rng));
    let others = tokens(other);
    let mut tokens: Vec<&str> = tokens(base);
    for _ in 0..rng.usize(1..4) {
        let at = rng.usize(..tokens.len().max(1)).min(tokens.len().saturating_sub(1));
        let foreign = others[rng.usize(..others.len())];
        match rng.u8(..9) {
            0 if tokens.len() > 1 => drop(tokens.remove(at)),
            1 => tokens[at] = foreign,
            2 => tokens.insert(at, foreign),
            3 => tokens[at] = NUMBERS[rng.usize(..NUMBERS.len())],
            4 => tokens[at] = MARKS[rng.usize(..MARKS.len())],
            5 => {
                let with = rng.usize(..tokens.len());
                tokens.swap(at, with);
            }
            6 => {
                let end = (at + rng.usize(..12)).min(tokens.len());
                let copy: Vec<_> = tokens[at..end].to_vec();
                tokens.splice(at..at, copy);
            }
            7 => {
                let from = rng.usize(..others.len());
                let to = (from + rng.usize(..30)).min(others.len());
                tokens.splice(at..at, others[from..to].iter().copied());
            }
            _ => {
                // A number in the text becomes another.
                let numbers: Vec<usize> = (0..tokens.len())
                    .filter(|i| tokens[*i].starts_with(|c: char| c.is_ascii_digit()))
                    .collect();
                if !numbers.is_empty() {
                    tokens[numbers[rng.usize(..numbers.len())]] =
                        NUMBERS[rng.usize(..NUMBERS.len())];
                }
            }
        }
    }
    tokens.concat()
}

/// Like [`text`], of bytes that are text.
pub fn text_bytes(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let few = few(rng, seeds);
    text(rng, &few).into_bytes()
}

/// Like [`json`], of bytes that are text.
pub fn json_bytes(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let few = few(rng, seeds);
    json(rng, &few).into_bytes()
}

/// Some of the seeds as text: changes use no more.
fn few(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<String> {
    let pick =
        |rng: &mut Rng| seeds.get(rng.usize(..seeds.len().max(1))).map_or(&[][..], |s| &s[..]);
    (0..3).map(|_| String::from_utf8_lossy(pick(rng)).into_owned()).collect()
}

/// Flips, cuts, repeats and overwrites.
fn change(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        bytes.push(rng.u8(..));
        return;
    }
    let at = rng.usize(..bytes.len());
    match rng.u8(..8) {
        0 => bytes[at] ^= 1 << rng.u8(..8),
        1 => bytes[at] = rng.u8(..),
        2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.usize(..5)],
        3 => bytes.truncate(at),
        4 => {
            let end = (at + rng.usize(..16)).min(bytes.len());
            bytes.drain(at..end);
        }
        5 => {
            let end = (at + rng.usize(..16)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        6 => {
            let word = rng.u32(..).to_ne_bytes();
            let end = (at + rng.usize(1..5)).min(bytes.len());
            let len = end - at;
            bytes[at..end].copy_from_slice(&word[..len]);
        }
        _ => bytes.insert(at, rng.u8(..)),
    }
}

/// One of the seeds, changed.
pub fn bytes(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds.get(rng.usize(..seeds.len().max(1))).cloned().unwrap_or_default();
    for _ in 0..rng.usize(1..8) {
        change(rng, &mut bytes);
    }
    bytes
}

/// Some frames, changed, with lengths that fit again, and the byte that chooses a ruleset.
pub fn frames(rng: &mut Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![rng.u8(..)];
    for _ in 0..rng.usize(1..6) {
        let mut frame =
            seeds.get(rng.usize(..seeds.len().max(1))).cloned().unwrap_or_else(|| vec![0; 4]);
        for _ in 0..rng.usize(..6) {
            change(rng, &mut frame);
        }
        frame.resize(frame.len().max(4), 0);
        let len = ((frame.len() - 4) as u16).to_be_bytes();
        frame[2..4].copy_from_slice(&len);
        out.extend(frame);
    }
    out
}
