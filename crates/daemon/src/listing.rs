// SPDX-License-Identifier: Apache-2.0

//! Long listings, page by page: the worker makes one between two bursts.

use std::fmt::Write;
use std::time::{Duration, Instant};

use penstock_conntrack::Style;
use penstock_path::Dataplane;

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// Connections, as `conntrack -L` has them.
    Connections,
    /// Flows in flowtables, and connections that rules wanted there and that are not.
    Flows,
}

/// Part of a listing.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Whole lines.
    pub(crate) text: String,
    /// Number of the connection that the next page begins with; `None` if this is the last one.
    pub(crate) next: Option<u32>,
    /// How long the worker was at it.
    pub(crate) took: Duration,
}

/// How much a worker does between two bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageSize {
    /// Bytes after which a page ends.
    bytes: usize,
    /// Connections that a page looks at.
    pub(crate) connections: usize,
}

impl PageSize {
    /// Some tenths of a millisecond.
    pub(crate) const LARGE: PageSize = PageSize { bytes: 64 << 10, connections: 8192 };
    /// Some hundredths of a millisecond: for those who may only look.
    pub(crate) const SMALL: PageSize = PageSize { bytes: 8 << 10, connections: 512 };
}

impl List {
    /// What begins with the connection of a number. `now` in nanoseconds since the epoch.
    pub(crate) fn page(self, path: &Dataplane, first: u32, size: PageSize, now: u64) -> Page {
        let begun = Instant::now();
        let mut page = Page::default();
        let mut seen = 0;
        // Writing to a String does not fail.
        let _ = match self {
            List::Connections => path.conntrack().iter_from(first).try_for_each(|connection| {
                page.fits(size, &mut seen, connection.number())?;
                let _ = writeln!(page.text, "{}", connection.line(Style::default()));
                Some(())
            }),
            List::Flows => path.flow_entries(first).try_for_each(|(number, entry)| {
                page.fits(size, &mut seen, number)?;
                if let Some(entry) = entry {
                    let _ = writeln!(page.text, "{}", entry.lines(path.network(), now));
                }
                Some(())
            }),
        };
        page.took = begun.elapsed();
        page
    }
}

impl Page {
    /// `None`, and the place is noted, if the page is full before this connection.
    fn fits(&mut self, size: PageSize, seen: &mut usize, number: u32) -> Option<()> {
        if self.text.len() >= size.bytes || *seen >= size.connections {
            self.next = Some(number);
            return None;
        }
        *seen += 1;
        Some(())
    }
}
