// SPDX-License-Identifier: Apache-2.0

//! Which of the link addresses in a capture is the device's own.

use std::collections::BTreeMap;
use std::fmt::Write;

use penstock_wire::ethernet::Mac;

use super::seen::Device;

/// A link address in so many of a thousand frames is an end of the device: the others are what a
/// switch floods.
const MOST: u64 = 900;

impl Device {
    /// The device's own link address, as far as frames tell; `None` if there are none but those to
    /// several receivers.
    ///
    /// # Errors
    /// Frames have two ends, and either may be the device: a message with both.
    pub fn own_address(&self) -> Result<Option<Mac>, String> {
        // Captures that say which frames were sent, and packets that other devices have too.
        if let Some((mac, _)) = self.own.iter().max_by_key(|(_, frames)| **frames) {
            return Ok(Some(*mac));
        }
        let total: u64 = self.pairs.values().sum();
        let mut ends: BTreeMap<Mac, u64> = BTreeMap::new();
        for ((from, to), frames) in &self.pairs {
            *ends.entry(*from).or_default() += frames;
            if from != to {
                *ends.entry(*to).or_default() += frames;
            }
        }
        let mut ends: Vec<(Mac, u64)> = ends.into_iter().collect();
        ends.sort_by_key(|(_, frames)| std::cmp::Reverse(*frames));
        match &ends[..] {
            [] => Ok(None),
            // The end of all frames, which others are the end of some of.
            [(mac, most), (_, next), ..] if most > next && *most * 1000 >= total * MOST => {
                Ok(Some(*mac))
            }
            [..] => Err(self.unclear(&ends)),
        }
    }

    /// The message about a device with these ends.
    fn unclear(&self, ends: &[(Mac, u64)]) -> String {
        const SHOWN: usize = 3;
        let name = &self.name;
        let mut text = format!(
            "Error: the frames of {name} do not tell which of their ends is {name} itself; say so \
             with one of\n"
        );
        for (mac, _) in ends.iter().take(SHOWN) {
            // Writing to a String does not fail.
            let _ = writeln!(text, "    --link-address {name}={mac}  ({})", self.sources_of(*mac));
        }
        if ends.len() > SHOWN {
            let _ = writeln!(text, "    or another of its {} ends", ends.len());
        }
        text.push_str("or, if all of them arrive, with --as-is");
        text
    }

    /// What a link address sends from, in words.
    fn sources_of(&self, mac: Mac) -> String {
        let mut sources = self
            .vlans
            .values()
            .flat_map(|vlan| vlan.sources.range((mac, super::FIRST)..))
            .take_while(|((from, _), _)| *from == mac)
            .map(|((_, address), _)| *address);
        match (sources.next(), sources.count()) {
            (None, _) => "sends nothing".to_owned(),
            (Some(first), 0) => format!("sends from {first}"),
            (Some(first), others) => format!("sends from {first} and {others} others"),
        }
    }
}
