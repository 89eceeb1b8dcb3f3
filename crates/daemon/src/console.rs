// SPDX-License-Identifier: Apache-2.0

//! Writes to standard output and standard error. A write may fail (a terminal hangs up, the reader
//! of a pipe ends, a disk is full) without an end of the process, where `println!` and `eprintln!`
//! of the standard library panic.

use std::fmt::Arguments;
use std::io::Write;

/// Writes in one piece, so that lines of several processes stay lines.
#[doc(hidden)]
pub fn write(mut to: impl Write, words: Arguments<'_>) {
    let _ = to.write_all(words.to_string().as_bytes());
    let _ = to.flush();
}

/// Writes to standard output, as `print!` does; does nothing if that cannot be written to.
#[macro_export]
macro_rules! out {
    ($($words:tt)*) => { $crate::console::write(std::io::stdout(), format_args!($($words)*)) };
}

/// Writes to standard error, as `eprint!` does; does nothing if that cannot be written to.
#[macro_export]
macro_rules! err {
    ($($words:tt)*) => { $crate::console::write(std::io::stderr(), format_args!($($words)*)) };
}

/// Writes a line to standard error, as `eprintln!` does; does nothing if that cannot be written to.
#[macro_export]
macro_rules! errln {
    ($($words:tt)*) => { $crate::err!("{}\n", format_args!($($words)*)) };
}
