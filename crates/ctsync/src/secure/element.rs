// SPDX-License-Identifier: Apache-2.0

//! Elements of sets and maps that packets change.
//!
//! In a record: family, lengths of the names of table and set and of key and data (a byte each),
//! timeout and what is left of it (in milliseconds, eight bytes each; 0 for no end), the names, the
//! key and the data. The bytes of key and data are those of registers: both sides have the same byte
//! order, which the record does not say. Machines of another one would need to swap parts of them.

use crate::message::Malformed;

/// Which element it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ElementKey {
    /// Number of the family of its table (`NFPROTO_*`).
    pub family: u8,
    /// Name of its table.
    pub table: Box<str>,
    /// Name of its set or map.
    pub set: Box<str>,
    /// Its key, as registers have it; empty for the catch-all element.
    pub key: Box<[u8]>,
}

/// What is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementState {
    /// Data of a map's element, as registers have it.
    pub data: Box<[u8]>,
    /// Its life, in milliseconds; 0 for no end.
    pub timeout: u64,
    /// What is left of it, in milliseconds; 0 for no end.
    pub left: u64,
}

/// Bytes before the names.
const HEAD: usize = 1 + 4 + 8 + 8;
/// Bytes of a name at most, as of the kernel (`NFT_NAME_MAXLEN`); the length has one byte.
const NAME: usize = 255;
/// Bytes of a key or of data at most: all registers.
const REGISTERS: usize = 64;

impl ElementKey {
    /// Whether records can name it.
    pub fn is_nameable(&self) -> bool {
        self.table.len() <= NAME && self.set.len() <= NAME && self.key.len() <= REGISTERS
    }
}

/// Appends the body of a record; the element is to be nameable.
pub(super) fn write(key: &ElementKey, state: &ElementState, to: &mut Vec<u8>) {
    let parts = [key.table.as_bytes(), key.set.as_bytes(), &key.key, &state.data];
    to.push(key.family);
    to.extend(parts.map(|part| part.len() as u8));
    to.extend(state.timeout.to_be_bytes());
    to.extend(state.left.to_be_bytes());
    parts.iter().for_each(|part| to.extend(*part));
}

/// Reads the body of a record.
pub(super) fn read(body: &[u8]) -> Result<(ElementKey, ElementState), Malformed> {
    let (head, mut rest) = body.split_first_chunk::<HEAD>().ok_or(Malformed::Payload)?;
    let [family, table, set, key, data, times @ ..] = *head;
    let mut take = |len: u8| {
        let (part, after) = rest.split_at_checked(len.into()).ok_or(Malformed::Payload)?;
        rest = after;
        Ok(part)
    };
    let [table, set, key, data] = [take(table)?, take(set)?, take(key)?, take(data)?];
    if !rest.is_empty() || key.len() > REGISTERS || data.len() > REGISTERS {
        return Err(Malformed::Payload);
    }
    let text = |bytes| std::str::from_utf8(bytes).map(Into::into).map_err(|_| Malformed::Payload);
    let (timeout, left) = times.split_at(8);
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes);
    let number = |bytes| number(bytes).map_err(|_| Malformed::Payload);
    let key = ElementKey { family, table: text(table)?, set: text(set)?, key: key.into() };
    let state = ElementState { data: data.into(), timeout: number(timeout)?, left: number(left)? };
    // Without an end there is none to be near.
    if (state.timeout == 0) == (state.left == 0) {
        Ok((key, state))
    } else {
        Err(Malformed::Payload)
    }
}
