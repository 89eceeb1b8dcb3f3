// SPDX-License-Identifier: Apache-2.0

//! Records: a type (a byte), the length of the body (two bytes), and the body.
//!
//! | type | body |
//! | --- | --- |
//! | 1 | generation of the sender's table: eight bytes, another one for each process |
//! | 2, 3, 4 | a connection that is new, has changed, has ended: attributes as conntrackd has them |
//! | 5, 6, 7 | an expectation likewise |
//! | 8, 9 | an element that is there, that is gone |
//! | 10 | all that there is follows: a mark (eight bytes) |
//! | 11, 12, 13 | a connection, an expectation, an element of it |
//! | 14 | the end of it: mark, count and digest (eight bytes each) |
//! | 15 | the peer is to tell all that there is |
//! | 16 | a sequence number (eight bytes), and whether everything was told before it (a byte, 1 or 0) |
//! | 17 | that sequence number, sent back |
//! | 18 | the node of this name is to tell all that there is, in a cluster |
//! | 19 | where in the log the sender has told all that there is: eight bytes, in a cluster |
//!
//! Types that are not known are passed over, so that later versions can say more.

use super::bulk::Digest;
use super::element::{self, ElementKey, ElementState};
use crate::connection::ConnectionState;
use crate::expectation::ExpectationState;
use crate::message::{Change, Malformed};
use crate::node_name::is_node_name;

/// Bytes of type and length.
const HEAD: usize = 3;
/// Bytes of a body at most: it fits into a frame.
const BODY: usize = 60_000;

/// Types.
mod kind {
    pub(super) const GENERATION: u8 = 1;
    pub(super) const CONNECTION: u8 = 2;
    pub(super) const EXPECTATION: u8 = 5;
    pub(super) const ELEMENT: u8 = 8;
    pub(super) const NO_ELEMENT: u8 = 9;
    pub(super) const BEGIN: u8 = 10;
    pub(super) const ALL_CONNECTION: u8 = 11;
    pub(super) const ALL_EXPECTATION: u8 = 12;
    pub(super) const ALL_ELEMENT: u8 = 13;
    pub(super) const END: u8 = 14;
    pub(super) const ASK: u8 = 15;
    pub(super) const ALIVE: u8 = 16;
    pub(super) const HEARD: u8 = 17;
    pub(super) const ASK_NODE: u8 = 18;
    pub(super) const TOLD_AT: u8 = 19;
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The sender's table is of this generation.
    Generation(u64),
    /// What became of a connection.
    Connection(Change, Box<ConnectionState>),
    /// What became of an expectation.
    Expectation(Change, Box<ExpectationState>),
    /// An element is there.
    Element(ElementKey, ElementState),
    /// An element is gone.
    NoElement(ElementKey),
    /// All that there is follows.
    Begin {
        /// Says which time it is.
        mark: u64,
    },
    /// All of it was told.
    End {
        /// That of the beginning.
        mark: u64,
        /// Over the bodies of its records.
        digest: Digest,
    },
    /// The peer is to tell all that there is.
    Ask,
    /// The sender is there.
    Alive {
        /// Counts such records.
        sequence: u64,
        /// All events up to here were told, or are in what was told at once.
        complete: bool,
    },
    /// Such a record has come.
    Heard {
        /// Its number.
        sequence: u64,
    },
    /// The node of this name is to tell all that there is.
    AskNode(Box<str>),
    /// The sender has told all that there is, from this message of the log on.
    ToldAt(u64),
}

/// Appends a record with such a body.
fn put(kind: u8, to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    // Attributes are padded from the beginning of their body.
    let mut body = Vec::with_capacity(160);
    write(&mut body);
    body.truncate(BODY);
    to.push(kind);
    to.extend((body.len() as u16).to_be_bytes());
    to.extend(body);
}

fn number(change: Change) -> u8 {
    match change {
        Change::New => 0,
        Change::Update => 1,
        Change::Delete => 2,
    }
}

/// Appends a record.
pub fn write_record(record: &Record, to: &mut Vec<u8>) {
    let numbers = |kind: u8, to: &mut Vec<u8>, numbers: &[u64]| {
        put(kind, to, |to| numbers.iter().for_each(|number| to.extend(number.to_be_bytes())));
    };
    match record {
        Record::Generation(generation) => numbers(kind::GENERATION, to, &[*generation]),
        Record::Connection(change, state) => {
            put(kind::CONNECTION + number(*change), to, |to| state.write(to));
        }
        Record::Expectation(change, state) => {
            put(kind::EXPECTATION + number(*change), to, |to| state.write(to));
        }
        Record::Element(key, state) => put(kind::ELEMENT, to, |to| element::write(key, state, to)),
        Record::NoElement(key) => {
            let state = ElementState { data: Box::default(), timeout: 0, left: 0 };
            put(kind::NO_ELEMENT, to, |to| element::write(key, &state, to));
        }
        Record::Begin { mark } => numbers(kind::BEGIN, to, &[*mark]),
        Record::End { mark, digest: Digest { count, sum } } => {
            numbers(kind::END, to, &[*mark, *count, *sum]);
        }
        Record::Ask => put(kind::ASK, to, |_| {}),
        Record::Alive { sequence, complete } => put(kind::ALIVE, to, |to| {
            to.extend(sequence.to_be_bytes());
            to.push(u8::from(*complete));
        }),
        Record::Heard { sequence } => numbers(kind::HEARD, to, &[*sequence]),
        Record::AskNode(name) => put(kind::ASK_NODE, to, |to| to.extend(name.as_bytes())),
        Record::ToldAt(place) => numbers(kind::TOLD_AT, to, &[*place]),
    }
}

/// Appends a record as part of all that there is, and adds it to the digest: one that says that
/// something is new. Others are not appended.
pub fn put_records_of(record: &Record, digest: &mut Digest, to: &mut Vec<u8>) {
    let begin = to.len();
    match record {
        Record::Connection(Change::New, state) => {
            put(kind::ALL_CONNECTION, to, |to| state.write(to));
        }
        Record::Expectation(Change::New, state) => {
            put(kind::ALL_EXPECTATION, to, |to| state.write(to));
        }
        Record::Element(key, state) => {
            put(kind::ALL_ELEMENT, to, |to| element::write(key, state, to));
        }
        _ => return,
    }
    digest.add(to.get(begin + HEAD..).unwrap_or_default());
}

/// The records of a frame.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// Of the plain text of a frame.
    pub fn of(records: &'a [u8]) -> Self {
        Records { rest: records }
    }

    /// The next record; `None` at the end, an error at one that is wrong, and `Ok(None)` for a type
    /// that is not known. Records of all that there is are added to the digest.
    pub fn next(&mut self, digest: &mut Digest) -> Option<Result<Option<Record>, Malformed>> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((body, kind, after)) = cut(self.rest) else {
            self.rest = &[];
            return Some(Err(Malformed::Truncated));
        };
        self.rest = after;
        if matches!(kind, kind::ALL_CONNECTION | kind::ALL_EXPECTATION | kind::ALL_ELEMENT) {
            digest.add(body);
        }
        Some(read(kind, body))
    }
}

/// Body and type of the first record, and what follows it.
fn cut(bytes: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let ([kind, len @ ..], rest) = bytes.split_first_chunk::<HEAD>()?;
    let (body, after) = rest.split_at_checked(u16::from_be_bytes(*len).into())?;
    Some((body, *kind, after))
}

fn read(kind: u8, body: &[u8]) -> Result<Option<Record>, Malformed> {
    let change = |first: u8| match kind - first {
        0 => Change::New,
        1 => Change::Update,
        _ => Change::Delete,
    };
    Ok(Some(match kind {
        kind::GENERATION => Record::Generation(numbers::<1>(body)?[0]),
        kind::CONNECTION..kind::EXPECTATION => connection(change(kind::CONNECTION), body)?,
        kind::ALL_CONNECTION => connection(Change::New, body)?,
        kind::EXPECTATION..kind::ELEMENT => expectation(change(kind::EXPECTATION), body)?,
        kind::ALL_EXPECTATION => expectation(Change::New, body)?,
        kind::ELEMENT | kind::ALL_ELEMENT => {
            let (key, state) = element::read(body)?;
            Record::Element(key, state)
        }
        kind::NO_ELEMENT => Record::NoElement(element::read(body)?.0),
        kind::BEGIN => Record::Begin { mark: numbers::<1>(body)?[0] },
        kind::END => {
            let [mark, count, sum] = numbers(body)?;
            Record::End { mark, digest: Digest { count, sum } }
        }
        kind::ASK if body.is_empty() => Record::Ask,
        kind::ASK => return Err(Malformed::Size),
        kind::ALIVE => {
            let (complete, sequence) = body.split_last().ok_or(Malformed::Size)?;
            let [sequence] = numbers(sequence)?;
            Record::Alive { sequence, complete: *complete == 1 }
        }
        kind::HEARD => Record::Heard { sequence: numbers::<1>(body)?[0] },
        kind::ASK_NODE => {
            let name = std::str::from_utf8(body).ok().filter(|name| is_node_name(name));
            Record::AskNode(name.ok_or(Malformed::Payload)?.into())
        }
        kind::TOLD_AT => Record::ToldAt(numbers::<1>(body)?[0]),
        _ => return Ok(None),
    }))
}

fn connection(change: Change, body: &[u8]) -> Result<Record, Malformed> {
    Ok(Record::Connection(change, Box::new(ConnectionState::read(body)?)))
}

fn expectation(change: Change, body: &[u8]) -> Result<Record, Malformed> {
    Ok(Record::Expectation(change, Box::new(ExpectationState::read(body)?)))
}

fn numbers<const N: usize>(body: &[u8]) -> Result<[u64; N], Malformed> {
    let (numbers, []) = body.as_chunks::<8>() else { return Err(Malformed::Size) };
    let numbers: &[[u8; 8]; N] = numbers.try_into().map_err(|_| Malformed::Size)?;
    Ok(numbers.map(u64::from_be_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::tests::tuple;
    use fastrand::Rng;

    fn records() -> Vec<Record> {
        let mut rng = Rng::with_seed(9);
        let mut all = vec![
            Record::Generation(7),
            Record::Begin { mark: 3 },
            Record::End { mark: 3, digest: Digest { count: 1, sum: u64::MAX } },
            Record::Ask,
            Record::Alive { sequence: 9, complete: true },
            Record::Alive { sequence: 9, complete: false },
            Record::Heard { sequence: 9 },
            Record::AskNode("fw-1".into()),
            Record::ToldAt(9),
        ];
        let key = ElementKey {
            family: 2,
            table: "t".repeat(255).into(),
            set: "s".into(),
            key: [1; 64].into(),
        };
        let state = ElementState { data: [2; 4].into(), timeout: 1000, left: 1 };
        all.push(Record::NoElement(key.clone()));
        all.push(Record::Element(key, state));
        for change in [Change::New, Change::Update, Change::Delete] {
            let original = tuple(&mut rng);
            let state = ConnectionState { original, mark: Some(5), ..ConnectionState::default() };
            all.push(Record::Connection(change, Box::new(state)));
            let tuple = penstock_conntrack::Tuple { zone: 0, ..tuple(&mut rng) };
            let state = ExpectationState {
                master: tuple,
                expected: tuple,
                mask: tuple,
                ..Default::default()
            };
            all.push(Record::Expectation(change, Box::new(state)));
        }
        all
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let all = records();
        let mut bytes = vec![200, 0, 2, 9, 9];
        all.iter().for_each(|record| write_record(record, &mut bytes));
        let (mut read, mut digest) = (Vec::new(), Digest::default());
        let mut records = Records::of(&bytes);
        while let Some(record) = records.next(&mut digest) {
            read.push(record.unwrap_or_else(|e| panic!("{e:?} after {read:?}")));
        }
        // The first one has a type that is not known.
        let expected: Vec<_> = std::iter::once(None).chain(all.into_iter().map(Some)).collect();
        assert_eq!((read, digest), (expected, Digest::default()));
        // What is cut short or changed is no panic.
        let mut rng = Rng::with_seed(1);
        for _ in 0..2000 {
            let mut wrong = bytes.clone();
            let (at, cut) = (rng.usize(..wrong.len()), rng.usize(..wrong.len()));
            wrong[at] ^= 1 << rng.u8(..8);
            wrong.truncate(cut);
            let mut records = Records::of(&wrong);
            while records.next(&mut digest).is_some() {}
        }
    }

    #[test]
    fn both_sides_have_the_same_digest_of_all_that_there_is() {
        let (mut bytes, mut told, mut heard) = (Vec::new(), Digest::default(), Digest::default());
        records().iter().for_each(|record| put_records_of(record, &mut told, &mut bytes));
        let mut records = Records::of(&bytes);
        let mut count = 0;
        while let Some(record) = records.next(&mut heard) {
            assert!(record.unwrap().is_some());
            count += 1;
        }
        assert_eq!((told, told.count), (heard, count));
        assert_eq!(count, 3);
    }
}
