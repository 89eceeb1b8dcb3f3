// SPDX-License-Identifier: Apache-2.0

//! The section `Penstock`: what conntrackd does not have.

use super::secure;
use super::words::Words;

/// Repetitions of announcements at most.
const MOST: u32 = 60;
/// Seconds between two of them at most.
const LONGEST: u32 = 3600;

/// How addresses are announced after a takeover (`Announce`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announce {
    /// How often each address is announced; 0 for not at all (`Count`).
    pub count: u32,
    /// Seconds between two announcements of an address (`Interval`).
    pub interval: u32,
}

impl Default for Announce {
    fn default() -> Self {
        Announce { count: 5, interval: 1 }
    }
}

impl Announce {
    fn read(words: &mut Words<'_>) -> Result<Self, String> {
        let mut out = Announce::default();
        words.section(|words, clause| {
            let (place, least, most) = match clause {
                "Count" => (&mut out.count, 0, MOST),
                "Interval" => (&mut out.interval, 1, LONGEST),
                _ => {
                    return Err(words.error(format_args!("Announce has no clause `{clause}`")));
                }
            };
            *place = words.value("a number")?;
            if (least..=most).contains(place) {
                return Ok(());
            }
            Err(words.error(format_args!("{clause} is from {least} to {most}")))
        })?;
        Ok(out)
    }
}

/// What the section says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) announce: Announce,
    pub(super) secure: secure::Reading,
}

impl Own {
    /// Reads what follows `Penstock`.
    pub(super) fn read(words: &mut Words<'_>) -> Result<Self, String> {
        let mut out = Own::default();
        words.section(|words, clause| match clause {
            "Announce" => {
                out.announce = Announce::read(words)?;
                Ok(())
            }
            "Defer" => Err(words.error(
                "packets are not held until peers know their connections: there is no Defer",
            )),
            _ if out.secure.clause(words, clause)? => Ok(()),
            _ => Err(words.error(format_args!("Penstock has no clause `{clause}`"))),
        })?;
        Ok(out)
    }
}
