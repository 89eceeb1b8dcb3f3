// SPDX-License-Identifier: Apache-2.0

//! What a firewall does that tells others by records.

use std::fmt;

/// Counts of it, as [`super::secure_peer::SecurePeersStatus`] has them.
pub(super) struct OwnSide {
    pub(super) missed_events: u64,
    pub(super) not_told: u64,
    pub(super) elements_not_told: u64,
    pub(super) committed: u64,
    pub(super) commit_failed: u64,
    pub(super) elements_entered: u64,
    pub(super) elements_failed: u64,
    pub(super) announced: u64,
    pub(super) purge_in: Option<f64>,
}

impl fmt::Display for OwnSide {
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
