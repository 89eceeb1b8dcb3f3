// SPDX-License-Identifier: Apache-2.0

//! The kernel's numbers.

/// Constants that count from a number.
macro_rules! numbers {
    ($($(#[$doc:meta])* $kind:ty, $first:literal: $($name:ident)*;)*) => {
        $(numbers!(@ $kind, $first, $(#[$doc])*; $($name)*);)*
    };
    (@ $kind:ty, $number:expr, $(#[$doc:meta])*;) => {};
    (@ $kind:ty, $number:expr, $(#[$doc:meta])*; $name:ident $($rest:ident)*) => {
        $(#[$doc])*
        pub const $name: $kind = $number;
        numbers!(@ $kind, $name + 1, $(#[$doc])*; $($rest)*);
    };
}

#[allow(dead_code, reason = "the enumerations are whole")]
pub mod ctnetlink;
#[allow(dead_code, reason = "the enumerations are whole")]
pub mod ipset;
#[allow(dead_code, reason = "the enumerations are whole")]
pub mod nf_tables;
#[allow(dead_code, reason = "the enumerations are whole")]
pub mod packets;
