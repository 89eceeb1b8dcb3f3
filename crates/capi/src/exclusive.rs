// SPDX-License-Identifier: Apache-2.0

//! Handles that one caller uses at a time.

use std::cell::RefCell;

use crate::{Done, deref, guard, penstock_error};

/// A cell that refuses to be used while it is in use, and after a panic.
pub(crate) struct Exclusive<T>(RefCell<Option<T>>);

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Self {
        Exclusive(RefCell::new(Some(value)))
    }

    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> Done<R>) -> Done<R> {
        let busy = |_| penstock_error::of("the handle is in use");
        let mut value = self.0.try_borrow_mut().map_err(busy)?;
        // While it is out of its place a panic loses it.
        let broken = || penstock_error::of("the handle is broken");
        let mut taken = value.take().ok_or_else(broken)?;
        let done = work(&mut taken);
        *value = Some(taken);
        done
    }
}

/// A handle that one caller uses at a time.
pub(crate) trait Handle {
    /// What it is a handle of.
    type Value;

    /// The cell that refuses a second caller.
    fn exclusive(&self) -> &Exclusive<Self::Value>;
}

/// Makes a type around [`Exclusive`] a [`Handle`]. The types themselves and their functions are
/// written out: cbindgen reads the sources, without macros.
macro_rules! exclusive {
    ($handle:ident: $value:ty) => {
        impl Handle for $handle {
            type Value = $value;

            fn exclusive(&self) -> &Exclusive<$value> {
                &self.0
            }
        }
    };
}

/// Runs `work` on what a handle is of; gives `failed`, and the error to the caller, if the handle
/// is null, in use or broken, or if `work` fails or panics.
///
/// # Safety
/// `handle` is null or a handle that was not freed; `error` is null or may be written.
pub(crate) unsafe fn with<H: Handle, T>(
    handle: *const H,
    error: *mut *mut penstock_error,
    failed: T,
    work: impl FnOnce(&mut H::Value) -> Done<T>,
) -> T {
    guard(error, failed, || {
        // SAFETY: the caller vouches for it.
        unsafe { deref(handle) }?.exclusive().with(work)
    })
}
