// SPDX-License-Identifier: Apache-2.0

//! The name of a helper in messages between processes, for `serde(with)`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::HELPERS;

/// Writes a name.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(name: &Option<&'static str>, to: S) -> Result<S::Ok, S::Error> {
    name.serialize(to)
}

/// Reads the name of a known helper; any other text is none.
///
/// # Errors
/// Those of the deserializer.
pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Option<&'static str>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    Ok(name.and_then(|name| HELPERS.iter().find(|h| h.name == name).map(|h| h.name)))
}
