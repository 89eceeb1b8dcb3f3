// SPDX-License-Identifier: Apache-2.0

//! What a firewall does that tells others by records.

use std::fmt;

use serde::Serialize;

/// Counts of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OwnSideStatus {
    /// Events that found no place; everything is told anew then.
    pub missed_events: u64,
    /// Events of connections that records cannot name.
    pub not_told: u64,
    /// Elements that are not told: there are too many.
    pub elements_not_told: u64,
    /// Connections of others that were entered into the table.
    pub committed: u64,
    /// Connections and expectations of others that could not be entered.
    pub commit_failed: u64,
    /// Elements of others that were added to sets.
    pub elements_entered: u64,
    /// Elements of others that could not be: their sets are not there, are full, or are others.
    pub elements_failed: u64,
    /// Announcements of addresses that were sent after takeovers: packets of ARP and of neighbour
    /// discovery.
    pub announced: u64,
    /// Seconds until all connections end, if they are to.
    pub purge_in: Option<f64>,
}

impl fmt::Display for OwnSideStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.missed_events + self.not_told + self.elements_not_told > 0 {
            writeln!(
                f,
                "{} events found no place, {} are of connections that records cannot name; {} elements are not told",
                self.missed_events, self.not_told, self.elements_not_told
            )?;
        }
        if self.committed + self.commit_failed > 0 {
            writeln!(
                f,
                "taken over: {} connections, {} failed",
                self.committed, self.commit_failed
            )?;
        }
        if self.elements_entered + self.elements_failed > 0 {
            writeln!(
                f,
                "taken over: {} elements, {} failed",
                self.elements_entered, self.elements_failed
            )?;
        }
        if self.announced > 0 {
            writeln!(f, "addresses announced by {} packets", self.announced)?;
        }
        if let Some(seconds) = self.purge_in {
            writeln!(f, "all own connections end in {seconds:.0} s")?;
        }
        Ok(())
    }
}
