//! Expressions inside of expressions, read from bytes that somebody else wrote: no deeper than any program has them.

use std::cell::Cell;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Levels of expressions in expressions that are read; programs have one (`inner`, `dynset`).
const DEEPEST: u32 = 4;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// One level, until it is dropped.
struct Level;

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

/// Reads a value that holds expressions. Deeper than any program it is an error, so that bytes cannot exhaust the stack.
pub(super) fn read<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    if DEPTH.get() >= DEEPEST {
        return Err(D::Error::custom("expressions are nested too deeply"));
    }
    DEPTH.set(DEPTH.get() + 1);
    let _level = Level;
    T::deserialize(from)
}
