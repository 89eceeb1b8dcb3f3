// SPDX-License-Identifier: Apache-2.0

//! The C interface of the packet path of nftables. `include/penstock.h` is made from this file by
//! `make header`; `docs/embedding.md` has an example.
//!
//! Rules of the interface:
//!
//! - Texts are UTF-8 that ends with a zero byte. Times are nanoseconds since the epoch. Numbers in
//!   structures are in host byte order, packets as on a wire.
//! - What a function returns is the caller's, to be freed by the function of its type. What a
//!   callback is given lives until it returns.
//! - A function that can fail takes the address of an error, which may be null: it is set to an
//!   error that the caller frees if the function fails, and else left alone. A null pointer where
//!   something has to be is such a failure.
//! - No panic and no exception crosses the boundary: a mistake of the library is an error, and the
//!   handle refuses everything from then on. In release builds (`panic = "abort"`) it ends the
//!   process. A callback must not throw.
//! - Handles are used by one thread at a time. A callback must not use the dataplane that calls it;
//!   it is refused.

#![allow(non_camel_case_types, reason = "the names are those of C")]

mod events;
#[macro_use]
mod exclusive;
mod handles;

use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use events::*;
use exclusive::{Exclusive, Handle, with};
pub use handles::*;

use penstock::Error;

/// Why something was refused.
pub struct penstock_error {
    message: CString,
    places: Vec<(CString, CString, penstock_place)>,
}

/// A place in a text of rules: the line, and the columns of its first and last byte, all from 1.
/// All are 0 for what stands nowhere in the text.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct penstock_place {
    /// The line.
    pub line: u32,
    /// Column of the first byte.
    pub first: u32,
    /// Column of the last byte.
    pub last: u32,
}

/// A text for C; a zero byte, which no text of ours has, ends it.
fn text_of(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

impl penstock_error {
    fn of(message: &str) -> Self {
        penstock_error { message: text_of(message), places: Vec::new() }
    }
}

impl From<Error> for penstock_error {
    fn from(error: Error) -> Self {
        let mut made = penstock_error::of(&error.to_string());
        if let Error::Ruleset(error) = &error {
            let column = |column: usize| u32::try_from(column).unwrap_or(u32::MAX);
            let places = error.messages().iter().map(|message| {
                let position = message.position.as_ref();
                let place = position.map_or_else(penstock_place::default, |p| penstock_place {
                    line: p.line,
                    first: column(p.first),
                    last: column(p.last),
                });
                let file = position.and_then(|p| p.file.as_deref()).unwrap_or_default();
                (text_of(&message.text), text_of(file), place)
            });
            made.places = places.collect();
        }
        made
    }
}

/// What functions do inside of the boundary.
type Done<T> = Result<T, penstock_error>;

/// Runs `work`; returns `failed`, and the error to the caller, if it fails or panics.
fn guard<T>(error: *mut *mut penstock_error, failed: T, work: impl FnOnce() -> Done<T>) -> T {
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_owned());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(penstock_error::of(&format!("a mistake of the library: {said}")))
    });
    done.unwrap_or_else(|made| {
        if !error.is_null() {
            // SAFETY: the caller gives null, or the address of a pointer that may be written.
            unsafe { *error = Box::into_raw(Box::new(made)) };
        }
        failed
    })
}

/// What a pointer points to.
///
/// # Safety
/// It is null, or points to a `T` that does not change while the result is used.
unsafe fn deref<'a, T>(pointer: *const T) -> Done<&'a T> {
    // SAFETY: the caller vouches for it.
    unsafe { pointer.as_ref() }.ok_or_else(|| penstock_error::of("a pointer is null"))
}

/// The text at a pointer.
///
/// # Safety
/// It is null, or points to bytes that end with a zero byte and do not change.
unsafe fn text<'a>(pointer: *const c_char) -> Done<&'a str> {
    if pointer.is_null() {
        return Err(penstock_error::of("a pointer is null"));
    }
    // SAFETY: the caller vouches for it.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| penstock_error::of("a text is not UTF-8"))
}

/// The bytes at a pointer.
///
/// # Safety
/// It points to that many bytes that do not change, or `len` is 0.
unsafe fn bytes<'a>(pointer: *const u8, len: usize) -> Done<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || isize::try_from(len).is_err() {
        return Err(penstock_error::of("a pointer is null"));
    }
    // SAFETY: the caller vouches for it, and the length was checked.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// Gives the caller a value.
fn give<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes ownership of a value again.
///
/// # Safety
/// It is null, or came from [`give`] and was not taken yet.
unsafe fn take<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: the caller vouches for it.
        let value = unsafe { Box::from_raw(pointer) };
        // A panic of a destructor goes no further.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
    }
}

/// The version of the library, such as `0.1.0`. It lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn penstock_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The whole message of an error: of a ruleset it is nft's, with the line and marks. It lives as
/// long as the error. Null for null.
///
/// # Safety
/// `error` is null or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_error_message(error: *const penstock_error) -> *const c_char {
    // SAFETY: as the caller vouches.
    unsafe { error.as_ref() }.map_or(std::ptr::null(), |error| error.message.as_ptr())
}

/// Message number `n`, from 0, of a refused text of rules, without place and marks, and where the
/// place is not null, the place. Null if there are not so many. It lives as long as the error.
///
/// # Safety
/// `error` is null or an error that was not freed; `place` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_error_detail(
    error: *const penstock_error,
    n: usize,
    place: *mut penstock_place,
) -> *const c_char {
    // SAFETY: as the caller vouches.
    let found = unsafe { error.as_ref() }.and_then(|error| error.places.get(n));
    let Some((message, _, at)) = found else { return std::ptr::null() };
    if !place.is_null() {
        // SAFETY: as the caller vouches.
        unsafe { *place = *at };
    }
    message.as_ptr()
}

/// The name of the text that message number `n` is about. Null if there are not so many.
///
/// # Safety
/// As of `penstock_error_detail`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_error_file(
    error: *const penstock_error,
    n: usize,
) -> *const c_char {
    // SAFETY: as the caller vouches.
    let found = unsafe { error.as_ref() }.and_then(|error| error.places.get(n));
    found.map_or(std::ptr::null(), |(_, file, _)| file.as_ptr())
}

/// Frees an error. Null is left alone.
///
/// # Safety
/// `error` is null or an error that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_error_free(error: *mut penstock_error) {
    // SAFETY: as the caller vouches.
    unsafe { take(error) };
}

/// Frees a text. Null is left alone.
///
/// # Safety
/// `text` is null or came from a function of this library and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn penstock_text_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: as the caller vouches.
        drop(unsafe { CString::from_raw(text) });
    }
}
