// SPDX-License-Identifier: Apache-2.0

//! Elements, by themselves and as a set holds them.

use serde::{Deserialize, Serialize};

/// One element. Times are nanoseconds of the packet clock (since the epoch).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Element<V> {
    /// Key bytes in register layout; empty for the catch-all element.
    pub key: Box<[u8]>,
    /// Last key of an interval, included; for concatenations the last of each field.
    pub key_end: Option<Box<[u8]>>,
    /// The caller's.
    pub value: V,
    /// When it ceases to match; `None` for never.
    pub expires_at: Option<u64>,
}

/// An element in a set, which holds keys and values apart. The fields are those of [`Element`].
#[derive(Debug, PartialEq)]
#[allow(missing_docs)]
pub struct ElementRef<'a, V> {
    pub key: &'a [u8],
    pub key_end: Option<&'a [u8]>,
    pub value: &'a V,
    pub expires_at: Option<u64>,
}

impl<V> Clone for ElementRef<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for ElementRef<'_, V> {}

impl<V> Element<V> {
    /// It as a set would show it.
    #[inline]
    pub fn view(&self) -> ElementRef<'_, V> {
        ElementRef {
            key: &self.key,
            key_end: self.key_end.as_deref(),
            value: &self.value,
            expires_at: self.expires_at,
        }
    }

    /// Whether it still matches at time `now`.
    #[inline]
    pub fn is_alive(&self, now: u64) -> bool {
        self.view().is_alive(now)
    }
}

impl<V> ElementRef<'_, V> {
    /// Whether it still matches at time `now`.
    #[inline]
    pub fn is_alive(&self, now: u64) -> bool {
        self.expires_at.is_none_or(|at| now < at)
    }

    /// The same key with another value.
    pub fn with_value<W>(&self, value: W) -> Element<W> {
        let Self { key, key_end, expires_at, .. } = *self;
        Element { key: key.into(), key_end: key_end.map(Into::into), value, expires_at }
    }
}

impl<V: Clone> ElementRef<'_, V> {
    /// A copy of its own.
    pub fn to_element(&self) -> Element<V> {
        self.with_value(self.value.clone())
    }
}
