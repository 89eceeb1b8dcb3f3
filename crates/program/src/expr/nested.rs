// SPDX-License-Identifier: Apache-2.0

//! Expressions in expressions, read from outside: no deeper than any rule has them, so that the
//! stack suffices.

use std::cell::Cell;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// `inner` holds a load, `dynset` holds statements; neither of these holds more.
const DEPTH_MAX: u32 = 2;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Ends a level, also when it is left with an error.
struct Level;

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// What an expression holds.
pub(super) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    if DEPTH.get() >= DEPTH_MAX {
        return Err(D::Error::custom("expressions in expressions"));
    }
    DEPTH.set(DEPTH.get() + 1);
    let _level = Level;
    T::deserialize(deserializer)
}
