// SPDX-License-Identifier: Apache-2.0

//! What the language keeps next to objects of the ruleset: comments, and of sets the types of keys
//! and data.
//!
//! The encoding is that of nft and libnftnl, type-length-value with one byte each for type and
//! length, so that nft reads what is written here, and the other way round. Types of sets are
//! spelled out field by field in addition (the kernel's number alone does not tell the length of
//! integers), under numbers that nft ignores. What nft keeps of `typeof` is read, too (module
//! `nft_typeof`). Older versions had the fields and texts under the numbers that nft has for byte orders and
//! expressions; these are read, too.

use penstock_ruleset::model::UserData;
use penstock_sets::Description;
use penstock_syntax::datatype::{ByteOrder, DataType, Type};

use crate::key_type::{Field, KeyType};
use crate::nft_typeof::{self, Selector};
use crate::tlv::{get, number, put};

/// `NFTNL_UDATA_*_COMMENT` of tables, chains, rules, objects and elements.
const COMMENT: u8 = 0;
/// `NFTNL_UDATA_SET_*`: numbers of four bytes in host order, and a text with a zero at its end.
const SET_KEY_ORDER: u8 = 0;
const SET_DATA_ORDER: u8 = 1;
const SET_MERGE_ELEMENTS: u8 = 2;
const SET_KEY_EXPR: u8 = 3;
const SET_DATA_EXPR: u8 = 4;
const SET_DATA_INTERVAL: u8 = 6;
const SET_COMMENT: u8 = 7;
/// Ours.
const SET_KEY_FIELDS: u8 = 200;
const SET_DATA_FIELDS: u8 = 201;
const SET_KEY_TYPEOF: u8 = 202;
const SET_DATA_TYPEOF: u8 = 203;

/// Appends a text with a zero at its end, as nft has it.
fn put_text(out: &mut Vec<u8>, kind: u8, text: &str) {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    put(out, kind, &bytes);
}

/// A text without the zero at its end, if it has one.
fn text(data: &[u8], kind: u8) -> Option<String> {
    let mut bytes = get(data, kind)?;
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Userdata of tables, chains, rules, objects and elements.
pub fn with_comment(comment: Option<&str>) -> UserData {
    let mut out = Vec::new();
    if let Some(comment) = comment {
        put_text(&mut out, COMMENT, comment);
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
    /// Byte order of a plain key, where the fields do not tell.
    pub key_order: Option<ByteOrder>,
    /// Byte order of plain data, where the fields do not tell.
    pub data_order: Option<ByteOrder>,
    /// The data are intervals: both ends, one after the other.
    pub data_interval: bool,
    /// Fields of the key as nft's `typeof` gives them, where `key` does not tell.
    pub typeof_key: Vec<Field>,
    /// Fields of the data likewise.
    pub typeof_data: Vec<Field>,
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
        put(&mut out, SET_KEY_ORDER, &order_number(order_of(&self.key)).to_ne_bytes());
        if !self.data.is_empty() {
            put(&mut out, SET_DATA_ORDER, &order_number(order_of(&self.data)).to_ne_bytes());
        }
        if self.auto_merge {
            put(&mut out, SET_MERGE_ELEMENTS, &1u32.to_ne_bytes());
        }
        if self.data_interval {
            put(&mut out, SET_DATA_INTERVAL, &1u32.to_ne_bytes());
        }
        if let Some(text) = &self.comment {
            put_text(&mut out, SET_COMMENT, text);
        }
        put(&mut out, SET_KEY_FIELDS, &encode_fields(&self.key));
        if !self.data.is_empty() {
            put(&mut out, SET_DATA_FIELDS, &encode_fields(&self.data));
        }
        if let Some(text) = &self.key_typeof {
            put(&mut out, SET_KEY_TYPEOF, text.as_bytes());
        }
        if let Some(text) = &self.data_typeof {
            put(&mut out, SET_DATA_TYPEOF, text.as_bytes());
        }
        out.into()
    }

    /// What the bytes say; what is missing or unknown is left out.
    pub fn decode(data: &[u8]) -> Self {
        // Nested expressions of nft begin with a number, older texts of ours with a letter.
        let old_text = |kind| text(data, kind).filter(|text| !text.starts_with('\0'));
        let fields = |ours, old| {
            let bytes = get(data, ours).or_else(|| get(data, old));
            bytes.map(|v| decode_fields(&v)).unwrap_or_default()
        };
        let selector = |kind| get(data, kind).and_then(|bytes| nft_typeof::decode(&bytes));
        let split = |selector: Option<Selector>| match selector {
            Some(selector) => (Some(selector.text), selector.fields),
            None => (None, Vec::new()),
        };
        let (key_text, typeof_key) = split(selector(SET_KEY_EXPR));
        let (data_text, typeof_data) = split(selector(SET_DATA_EXPR));
        SetUserData {
            typeof_key,
            typeof_data,
            key: fields(SET_KEY_FIELDS, SET_KEY_ORDER),
            data: fields(SET_DATA_FIELDS, SET_DATA_ORDER),
            key_order: number(data, SET_KEY_ORDER).and_then(order),
            data_order: number(data, SET_DATA_ORDER).and_then(order),
            data_interval: number(data, SET_DATA_INTERVAL).is_some_and(|is| is != 0),
            auto_merge: number(data, SET_MERGE_ELEMENTS).is_some_and(|is| is != 0),
            key_typeof: text(data, SET_KEY_TYPEOF).or(key_text).or_else(|| old_text(SET_KEY_EXPR)),
            data_typeof: text(data, SET_DATA_TYPEOF)
                .or(data_text)
                .or_else(|| old_text(SET_DATA_EXPR)),
            comment: text(data, SET_COMMENT),
        }
    }

    /// Type of the keys; from the kernel's type number where the userdata do not tell.
    pub fn key_type(&self, number: u32, description: &Description) -> Option<KeyType> {
        if self.key.is_empty() && !self.typeof_key.is_empty() {
            let key = key_type(self.typeof_key.clone());
            return Some(if description.interval { key.big_endian() } else { key });
        }
        if self.key.is_empty() {
            let types = Type::from_id(number)?.fields().to_vec();
            let lens: Vec<u32> = match description.fields.as_slice() {
                [] if types.len() == 1 => vec![description.key_len as u32 * 8],
                [] => types.iter().map(|t| t.size()).collect(),
                fields => fields.iter().map(|f| u32::from(*f) * 8).collect(),
            };
            let fields = types.into_iter().zip(lens).map(|(t, len)| field_of(t, len)).collect();
            let mut fields = ordered(fields, self.key_order);
            // Intervals are compared byte by byte, so numbers have their first byte first.
            if let [field] = fields.as_mut_slice()
                && description.interval
                && field.dtype.basetype() != DataType::String
            {
                field.order = ByteOrder::Big;
            }
            return Some(key_type(fields));
        }
        Some(key_type(self.key.clone()))
    }

    /// Type of the data, and whether they are intervals.
    pub fn data_type(&self, number: u32, len: u32) -> Option<(KeyType, bool)> {
        if self.data.is_empty() && !self.typeof_data.is_empty() {
            return Some((key_type(self.typeof_data.clone()), self.data_interval));
        }
        if self.data.is_empty() {
            let types = Type::from_id(number)?.fields().to_vec();
            let fields = types
                .into_iter()
                .map(|t| field_of(t, if t.size() > 0 { t.size() } else { len * 8 }));
            let fields = ordered(fields.collect(), self.data_order);
            return Some((key_type(fields), self.data_interval));
        }
        Some((key_type(self.data.clone()), self.data_interval))
    }
}

/// Fields with the byte order that nft kept, which concerns plain values only.
fn ordered(mut fields: Vec<Field>, order: Option<ByteOrder>) -> Vec<Field> {
    if let ([field], Some(order)) = (fields.as_mut_slice(), order) {
        field.order = order;
    }
    fields
}

/// The byte order of a key or of data as a whole, as nft knows it: network order for several
/// fields.
fn order_of(fields: &[Field]) -> ByteOrder {
    match fields {
        [one] => one.order,
        _ => ByteOrder::Big,
    }
}

/// A byte order by the number of `enum byteorder`; `None` if it is not known.
fn order(number: u32) -> Option<ByteOrder> {
    match number {
        1 => Some(ByteOrder::Host),
        2 => Some(ByteOrder::Big),
        _ => None,
    }
}

/// The number of a byte order in `enum byteorder`.
fn order_number(order: ByteOrder) -> u32 {
    match order {
        ByteOrder::Invalid => 0,
        ByteOrder::Host => 1,
        ByteOrder::Big => 2,
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
