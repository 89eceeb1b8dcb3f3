// SPDX-License-Identifier: Apache-2.0

//! Long listings, page by page: a worker makes one between two bursts.

use std::fmt::Display;
use std::time::{Duration, Instant};

use penstock_dataplane::Dataplane;
use penstock_print::list::Entries;
use serde::Serialize;

/// How much a worker does between two bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageSize {
    /// Bytes after which a page ends.
    bytes: usize,
    /// Connections that a page looks at.
    connections: usize,
}

impl PageSize {
    /// Some tenths of a millisecond.
    pub(super) const LARGE: PageSize = PageSize { bytes: 64 << 10, connections: 8192 };
    /// Some hundredths of a millisecond: for those who may only look.
    pub(super) const SMALL: PageSize = PageSize { bytes: 8 << 10, connections: 512 };
}

/// Where a page begins and ends.
#[derive(Debug)]
pub(super) struct Bounds {
    size: PageSize,
    seen: usize,
    /// Number of the connection that the next page begins with; `None` if this is the last one.
    next: Option<u32>,
}

impl Bounds {
    /// `None`, and the place is noted, if the page has no room for this connection. `bytes` are
    /// those of the page so far.
    pub(super) fn take(&mut self, number: u32, bytes: usize) -> Option<()> {
        if bytes >= self.size.bytes || self.seen >= self.size.connections {
            self.next = Some(number);
            return None;
        }
        self.seen += 1;
        Some(())
    }
}

/// A part of what is asked of a worker.
#[derive(Debug)]
pub(super) struct Page<T> {
    /// The part.
    pub(super) content: T,
    /// Number of the connection that the next page begins with; `None` if this is the last one.
    pub(super) next: Option<u32>,
    /// How long the worker was at it.
    pub(super) took: Duration,
}

impl<T> Page<T> {
    /// Has `make` fill a page with what begins with the connection of a number.
    pub(super) fn make(
        path: &Dataplane,
        first: u32,
        size: PageSize,
        make: impl FnOnce(&Dataplane, u32, &mut Bounds) -> T,
    ) -> Self {
        let begun = Instant::now();
        let mut bounds = Bounds { size, seen: 0, next: None };
        let content = make(path, first, &mut bounds);
        Page { content, next: bounds.next, took: begun.elapsed() }
    }
}

/// A page of a list in the making.
pub(super) struct ListPage<'b> {
    pub(super) entries: Entries,
    pub(super) bounds: &'b mut Bounds,
}

impl ListPage<'_> {
    /// Takes a connection, and appends its entry if it has one. `None` if the page is full.
    pub(super) fn push<E: Display + Serialize>(
        &mut self,
        number: u32,
        entry: impl FnOnce() -> Option<E>,
    ) -> Option<()> {
        self.bounds.take(number, self.entries.len())?;
        if let Some(entry) = entry() {
            self.entries.push(&entry);
        }
        Some(())
    }
}
