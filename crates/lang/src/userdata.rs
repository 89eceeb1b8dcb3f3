// SPDX-License-Identifier: Apache-2.0

//! What the language keeps next to objects of the ruleset: comments, and of sets the types of keys
//! and data.
//!
//! The encoding is that of libnftnl, type-length-value with one byte each for type and length,
//! except that a set's key and data types are spelled out field by field (the kernel's number alone
//! does not tell the length of integers).

use penstock_ruleset::model::UserData;
use penstock_sets::Description;
use penstock_syntax::datatype::{ByteOrder, DataType, Type};

use crate::key_type::{Field, KeyType};

/// `NFTNL_UDATA_*_COMMENT` of tables, chains, rules, objects and elements.
const COMMENT: u8 = 0;
/// `NFTNL_UDATA_SET_*`.
const SET_KEY_FIELDS: u8 = 0;
const SET_DATA_FIELDS: u8 = 1;
const SET_MERGE_ELEMENTS: u8 = 2;
const SET_KEY_TYPEOF: u8 = 3;
const SET_DATA_TYPEOF: u8 = 4;
const SET_DATA_INTERVAL: u8 = 6;
const SET_COMMENT: u8 = 7;

/// Appends one value; what is longer than 255 bytes is continued in a further one of the same type.
fn put(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let mut rest = value;
    loop {
        let (now, later) = rest.split_at(rest.len().min(255));
        out.push(kind);
        out.push(now.len() as u8);
        out.extend_from_slice(now);
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
}

/// Collects all values of one type.
fn get(data: &[u8], kind: u8) -> Option<Vec<u8>> {
    let mut found = None;
    let mut rest = data;
    while let [k, len, tail @ ..] = rest {
        let len = usize::from(*len).min(tail.len());
        let (value, next) = tail.split_at(len);
        if *k == kind {
            found.get_or_insert_with(Vec::new).extend_from_slice(value);
        }
        rest = next;
    }
    found
}

fn text(data: &[u8], kind: u8) -> Option<String> {
    get(data, kind).map(|v| String::from_utf8_lossy(&v).into_owned())
}

/// Userdata of tables, chains, rules, objects and elements.
pub fn with_comment(comment: Option<&str>) -> UserData {
    let mut out = Vec::new();
    if let Some(comment) = comment {
        put(&mut out, COMMENT, comment.as_bytes());
    }
    out.into()
}

/// The comment in such userdata.
pub fn comment(data: &[u8]) -> Option<String> {
    text(data, COMMENT)
}

/// Userdata of a set or map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetUserData {
    /// Fields of the key; one for plain keys.
    pub key: Vec<Field>,
    /// Fields of the data, for maps to values.
    pub data: Vec<Field>,
    /// The data are intervals: both ends, one after the other.
    pub data_interval: bool,
    /// `auto-merge`.
    pub auto_merge: bool,
    /// What `typeof` said of the key, as it is listed.
    pub key_typeof: Option<String>,
    /// What `typeof` said of the data.
    pub data_typeof: Option<String>,
    /// `comment`.
    pub comment: Option<String>,
}

impl SetUserData {
    /// The bytes.
    pub fn encode(&self) -> UserData {
        let mut out = Vec::new();
        put(&mut out, SET_KEY_FIELDS, &encode_fields(&self.key));
        if !self.data.is_empty() {
            put(&mut out, SET_DATA_FIELDS, &encode_fields(&self.data));
        }
        if self.auto_merge {
            put(&mut out, SET_MERGE_ELEMENTS, &1u32.to_le_bytes());
        }
        if let Some(text) = &self.key_typeof {
            put(&mut out, SET_KEY_TYPEOF, text.as_bytes());
        }
        if let Some(text) = &self.data_typeof {
            put(&mut out, SET_DATA_TYPEOF, text.as_bytes());
        }
        if self.data_interval {
            put(&mut out, SET_DATA_INTERVAL, &1u32.to_le_bytes());
        }
        if let Some(text) = &self.comment {
            put(&mut out, SET_COMMENT, text.as_bytes());
        }
        out.into()
    }

    /// What the bytes say; what is missing or unknown is left out.
    pub fn decode(data: &[u8]) -> Self {
        SetUserData {
            key: get(data, SET_KEY_FIELDS).map(|v| decode_fields(&v)).unwrap_or_default(),
            data: get(data, SET_DATA_FIELDS).map(|v| decode_fields(&v)).unwrap_or_default(),
            data_interval: get(data, SET_DATA_INTERVAL).is_some(),
            auto_merge: get(data, SET_MERGE_ELEMENTS).is_some(),
            key_typeof: text(data, SET_KEY_TYPEOF),
            data_typeof: text(data, SET_DATA_TYPEOF),
            comment: text(data, SET_COMMENT),
        }
    }

    /// Type of the keys; from the kernel's type number where the userdata do not tell.
    pub fn key_type(&self, number: u32, description: &Description) -> Option<KeyType> {
        if self.key.is_empty() {
            let types = Type::from_id(number)?.fields().to_vec();
            let lens: Vec<u32> = match description.fields.as_slice() {
                [] => vec![description.key_len as u32 * 8],
                fields => fields.iter().map(|f| u32::from(*f) * 8).collect(),
            };
            return Some(key_type(
                types.into_iter().zip(lens).map(|(t, len)| field_of(t, len)).collect(),
            ));
        }
        Some(key_type(self.key.clone()))
    }

    /// Type of the data, and whether they are intervals.
    pub fn data_type(&self, number: u32, len: u32) -> Option<(KeyType, bool)> {
        if self.data.is_empty() {
            let types = Type::from_id(number)?.fields().to_vec();
            let fields = types
                .into_iter()
                .map(|t| field_of(t, if t.size() > 0 { t.size() } else { len * 8 }));
            return Some((key_type(fields.collect()), self.data_interval));
        }
        Some((key_type(self.data.clone()), self.data_interval))
    }
}

fn field_of(dtype: DataType, len: u32) -> Field {
    Field { dtype, order: dtype.order(), len: if dtype.size() > 0 { dtype.size() } else { len } }
}

fn key_type(fields: Vec<Field>) -> KeyType {
    match fields.as_slice() {
        [one] => KeyType::base(one.clone()),
        many => KeyType {
            dtype: Type::Concat(many.iter().map(|f| f.dtype).collect()),
            fields: fields.into(),
        },
    }
}

fn encode_fields(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::with_capacity(fields.len() * 6);
    for field in fields {
        out.push(field.dtype as u32 as u8);
        out.push(match field.order {
            ByteOrder::Invalid => 0,
            ByteOrder::Host => 1,
            ByteOrder::Big => 2,
        });
        out.extend_from_slice(&field.len.to_le_bytes());
    }
    out
}

fn decode_fields(data: &[u8]) -> Vec<Field> {
    data.chunks_exact(6)
        .filter_map(|c| {
            Some(Field {
                dtype: DataType::from_id(u32::from(c[0]))?,
                order: match c[1] {
                    1 => ByteOrder::Host,
                    2 => ByteOrder::Big,
                    _ => ByteOrder::Invalid,
                },
                len: u32::from_le_bytes([c[2], c[3], c[4], c[5]]),
            })
        })
        .collect()
}
