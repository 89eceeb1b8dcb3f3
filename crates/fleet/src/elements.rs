// SPDX-License-Identifier: Apache-2.0

//! Sets as data: the texts of their elements, chunks and deltas.
//!
//! An element is what `add element` has between braces and commas: `198.18.0.0/24`, `198.18.0.1 .
//! 80 timeout 1h`, `198.18.0.1 : accept`. Its key is what stands before options and data. A chunk is
//! a blob of elements, sorted by their keys, one a line. A delta is a blob of lines `-KEY` and
//! `+ELEMENT`: an element that is replaced is removed first.

use std::collections::BTreeMap;
use std::fmt;

use penstock_listing::element::{key, parts};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Digest, limits};

/// Elements by their keys: a set.
pub type Elements = BTreeMap<String, String>;

/// The sum of the digests of all elements, in four parts: it does not depend on their order, and a
/// change costs as much as it has elements. It tells sets apart that differ by mistake; against
/// malice, chunks are named by digests that the signature covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum([u64; 4]);

impl Sum {
    /// The sum of elements.
    pub fn of<'e>(elements: impl IntoIterator<Item = &'e str>) -> Sum {
        let mut sum = Sum::default();
        elements.into_iter().for_each(|element| sum.add(element));
        sum
    }

    /// An element comes.
    pub fn add(&mut self, element: &str) {
        self.change(element, u64::wrapping_add);
    }

    /// An element goes.
    pub fn remove(&mut self, element: &str) {
        self.change(element, u64::wrapping_sub);
    }

    fn change(&mut self, element: &str, change: fn(u64, u64) -> u64) {
        let Digest(digest) = Digest::of(element.as_bytes());
        for (part, bytes) in self.0.iter_mut().zip(digest.chunks_exact(8)) {
            let number = bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
            *part = change(*part, number);
        }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| write!(f, "{part:016x}"))
    }
}

impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Sum {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Sum, D::Error> {
        // The text has the form of a digest.
        let Digest(bytes) = Digest::deserialize(from)?;
        let mut sum = Sum::default();
        for (part, bytes) in sum.0.iter_mut().zip(bytes.chunks_exact(8)) {
            *part = u64::from_be_bytes(bytes.try_into().map_err(de::Error::custom)?);
        }
        Ok(sum)
    }
}

/// Reads elements as people write them: with commas or one a line, `#` begins a comment. Of two with
/// one key the later one counts.
///
/// # Errors
/// The number of the line, and what is wrong in it.
pub fn parse(text: &str) -> Result<Elements, String> {
    let mut elements = Elements::new();
    for (number, line) in text.lines().enumerate() {
        for part in parts(line) {
            let element = part.split_whitespace().collect::<Vec<_>>().join(" ");
            if element.is_empty() {
                continue;
            }
            check(&element).map_err(|why| format!("{}: {why}", number + 1))?;
            elements.insert(key(&element).to_owned(), element);
        }
    }
    Ok(elements)
}

/// Whether a text may stand between braces as one element: nothing in it ends the braces.
fn check(element: &str) -> Result<(), String> {
    let mut quoted = false;
    let mut wrong = |c: char| {
        quoted ^= c == '"';
        c.is_control() || c == '\\' || !quoted && matches!(c, '{' | '}' | ';' | '#' | ',')
    };
    if element.len() > limits::ELEMENT {
        return Err(format!("an element has more than {} bytes", limits::ELEMENT));
    }
    match element.chars().any(&mut wrong) || !element.matches('"').count().is_multiple_of(2) {
        true => Err(format!("{element:?} is no element")),
        false => Ok(()),
    }
}

/// The text of a chunk, or of several.
pub fn text(elements: &Elements) -> String {
    let length = elements.values().map(|element| element.len() + 1).sum();
    let mut text = String::with_capacity(length);
    for element in elements.values() {
        text.push_str(element);
        text.push('\n');
    }
    text
}

/// Adds the elements of a chunk.
///
/// # Errors
/// A line is no element.
pub fn read_chunk(blob: &[u8], into: &mut Elements) -> Result<(), String> {
    for line in lines(blob)? {
        check(line)?;
        into.insert(key(line).to_owned(), line.to_owned());
    }
    Ok(())
}

/// A change of elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Keys of elements that go.
    pub remove: Vec<String>,
    /// Elements that come, after those that go.
    pub add: Vec<String>,
}

impl Delta {
    /// What leads from some elements to others.
    pub fn between(old: &Elements, new: &Elements) -> Delta {
        let gone = old.iter().filter(|(key, element)| new.get(*key) != Some(element));
        let come = new.iter().filter(|(key, element)| old.get(*key) != Some(element));
        Delta {
            remove: gone.map(|(key, _)| key.clone()).collect(),
            add: come.map(|(_, element)| element.clone()).collect(),
        }
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.add.is_empty()
    }

    /// Lines of its blob.
    pub fn lines(&self) -> u64 {
        (self.remove.len() + self.add.len()) as u64
    }

    /// The text of its blob.
    pub fn text(&self) -> String {
        let remove = self.remove.iter().map(|key| format!("-{key}\n"));
        remove.chain(self.add.iter().map(|element| format!("+{element}\n"))).collect()
    }

    /// Reads a blob.
    ///
    /// # Errors
    /// A line is no change.
    pub fn read(blob: &[u8]) -> Result<Delta, String> {
        let mut delta = Delta::default();
        for line in lines(blob)? {
            let (list, rest) = match line.split_at_checked(1) {
                Some(("-", rest)) => (&mut delta.remove, rest),
                Some(("+", rest)) => (&mut delta.add, rest),
                _ => return Err(format!("{line:?} is no change of an element")),
            };
            check(rest)?;
            list.push(rest.to_owned());
        }
        Ok(delta)
    }

    /// Changes elements.
    pub fn apply(&self, elements: &mut Elements) {
        for key in &self.remove {
            elements.remove(key);
        }
        for element in &self.add {
            elements.insert(key(element).to_owned(), element.clone());
        }
    }

    /// Deltas one after the other, as one.
    pub fn sum(deltas: &[Delta]) -> Delta {
        // By key: whether it was there before, and the element that is there after.
        let mut keys: BTreeMap<&str, (bool, Option<&str>)> = BTreeMap::new();
        for delta in deltas {
            for removed in &delta.remove {
                keys.entry(removed).or_insert((true, None)).1 = None;
            }
            for added in &delta.add {
                keys.entry(key(added)).or_insert((false, None)).1 = Some(added);
            }
        }
        let remove = keys.iter().filter(|(_, (was, _))| *was).map(|(key, _)| (*key).to_owned());
        let add = keys.values().filter_map(|(_, element)| element.map(str::to_owned));
        Delta { remove: remove.collect(), add: add.collect() }
    }
}

fn lines(blob: &[u8]) -> Result<impl Iterator<Item = &str>, String> {
    let text = str::from_utf8(blob).map_err(|_| "a blob of elements is no text".to_owned())?;
    Ok(text.lines().filter(|line| !line.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_as_people_write_them() {
        let text = "# a list\n198.18.0.1,  198.18.0.2   timeout 1h\n\n198.18.0.3 comment \"a, # b\" # c\n\
                    198.18.0.1 timeout 2h\n";
        let elements = parse(text).expect("elements");
        let all: Vec<_> = elements.values().map(String::as_str).collect();
        assert_eq!(
            all,
            ["198.18.0.1 timeout 2h", "198.18.0.2 timeout 1h", "198.18.0.3 comment \"a, # b\""]
        );
        for (text, message) in [
            (
                "198.18.0.1\n198.18.0.2 }; flush ruleset; #",
                "2: \"198.18.0.2 }; flush ruleset;\" is no element",
            ),
            ("a \"b", "1: \"a \\\"b\" is no element"),
        ] {
            assert_eq!(parse(text), Err(message.to_owned()));
        }
    }

    #[test]
    fn deltas_one_after_the_other_are_as_one() {
        let states = ["a\nb\nc timeout 1h", "b\nc timeout 2h\nd", "b comment \"x\"\ne", "a\nb\ne"];
        let states = states.map(|text| parse(text).expect("elements"));
        let deltas: Vec<Delta> = states.windows(2).map(|w| Delta::between(&w[0], &w[1])).collect();
        for from in 0..states.len() {
            for to in from..states.len() {
                let sum = Delta::sum(&deltas[from..to]);
                let read = Delta::read(sum.text().as_bytes()).expect("its own text");
                assert_eq!(read, sum);
                let mut elements = states[from].clone();
                // What goes has to be there: nft refuses to delete what is not.
                assert!(sum.remove.iter().all(|key| elements.contains_key(key)));
                sum.apply(&mut elements);
                assert_eq!(elements, states[to], "{from} to {to}");
            }
        }
    }

    #[test]
    fn sums_do_not_depend_on_the_order() {
        let mut sum = Sum::of(["a", "b", "c"]);
        assert_eq!(sum, Sum::of(["c", "a", "b"]));
        sum.remove("b");
        assert_eq!(sum, Sum::of(["a", "c"]));
        assert_ne!(sum, Sum::of(["a", "b"]));
        let text = serde_json::to_string(&sum).expect("a text");
        assert_eq!(serde_json::from_str::<Sum>(&text).expect("a sum"), sum);
    }
}
