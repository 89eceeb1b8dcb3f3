// SPDX-License-Identifier: Apache-2.0

//! JSON on a line.

use serde::Serialize;

/// A value on a line of its own, with the line's end.
pub fn line(value: &impl Serialize) -> String {
    // Writing numbers and texts into memory does not fail.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}
