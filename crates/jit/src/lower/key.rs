// SPDX-License-Identifier: Apache-2.0

//! Keys of lookups.

/// Where a key is: its first register, and its bytes.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub src: u8,
    pub len: u8,
}
