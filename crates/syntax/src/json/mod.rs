// SPDX-License-Identifier: Apache-2.0

//! JSON of libnftables-json(5): what `-j` prints.
//!
//! The forms, and the order of members, are those of nft's own output, so that it can be compared
//! byte for byte.

mod expr;
pub(crate) mod read;
mod stmt;

pub use expr::Writer;
pub use read::{read, with_handles};
pub(crate) use stmt::family_word;

use serde_json::{Map, Value};

/// The members of an object.
pub(crate) type Object = Map<String, Value>;

/// An object of one member, the usual form of this schema.
pub fn tagged(name: &str, value: impl Into<Value>) -> Value {
    let mut map = Map::new();
    map.insert(name.into(), value.into());
    Value::Object(map)
}

/// What happened to an object, as `-e -j` and `monitor -j` tell it: `verb` is `add`, `create`,
/// `insert`, `delete`.
pub fn event(verb: &str, object: Value) -> Value {
    tagged(verb, object)
}

/// A list where a single entry stands for itself.
pub fn one_or_many(mut values: Vec<Value>) -> Value {
    if values.len() == 1 { values.remove(0) } else { Value::Array(values) }
}

/// Text with the separators that libnftables writes (`", "` and `": "`), on one line.
pub fn to_text(value: &Value) -> String {
    struct Separators;
    impl serde_json::ser::Formatter for Separators {
        fn begin_array_value<W: ?Sized + std::io::Write>(
            &mut self,
            w: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            if first { Ok(()) } else { w.write_all(b", ") }
        }
        fn begin_object_key<W: ?Sized + std::io::Write>(
            &mut self,
            w: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            if first { Ok(()) } else { w.write_all(b", ") }
        }
        fn begin_object_value<W: ?Sized + std::io::Write>(
            &mut self,
            w: &mut W,
        ) -> std::io::Result<()> {
            w.write_all(b": ")
        }
    }
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Separators);
    // Writing a Value to memory cannot fail.
    let _ = serde::Serialize::serialize(value, &mut serializer);
    String::from_utf8_lossy(&out).into_owned()
}
