// SPDX-License-Identifier: Apache-2.0

//! GRE (`nf_conntrack_proto_gre.c`): without a key, but for the call ids of PPTP, whose helper
//! enters them here.

use crate::conntrack::{Conntrack, Outcome, Seen};
use crate::entry::Proto;
use crate::settings::Tracker;
use crate::{Tuple, status};
use std::collections::HashMap;

/// Source keys by tuples without them. A PPTP packet names only the call id of its receiver; the
/// sender's belongs to it in the connection that the helper saw being made.
#[derive(Debug, Default)]
pub(crate) struct Keymap {
    keys: HashMap<Tuple, u16>,
}

/// Keymap entries at most: two for each PPTP connection.
const KEYS: usize = 131_072;

impl Keymap {
    /// The source key of a tuple that has none; 0 if nobody entered one.
    #[inline]
    pub fn source_key(&self, tuple: &Tuple) -> u16 {
        if self.keys.is_empty() {
            return 0;
        }
        self.keys.get(&Tuple { src_id: 0, zone: 0, ..*tuple }).copied().unwrap_or(0)
    }

    /// Enters a tuple's keys. `false` if there is no room.
    pub fn add(&mut self, tuple: &Tuple) -> bool {
        let key = Tuple { src_id: 0, zone: 0, ..*tuple };
        if self.keys.len() >= KEYS && !self.keys.contains_key(&key) {
            return false;
        }
        self.keys.insert(key, tuple.src_id);
        true
    }

    /// Removes a tuple's keys.
    pub fn remove(&mut self, tuple: &Tuple) {
        self.keys.remove(&Tuple { src_id: 0, zone: 0, ..*tuple });
    }
}

impl Conntrack {
    pub(crate) fn gre_packet(&mut self, n: u32, p: &Seen<'_>) -> Outcome {
        if !self.store[n].has(status::CONFIRMED) {
            let timeouts = self.timeouts(n, Tracker::Gre);
            let proto = Proto::Gre { timeout: timeouts[0], stream_timeout: timeouts[1] };
            self.store[n].proto = proto;
        }
        let (timeout, stream_timeout) = match self.store[n].proto {
            Proto::Gre { timeout, stream_timeout } => (timeout, stream_timeout),
            _ => {
                let t = self.timeouts(n, Tracker::Gre);
                (t[0], t[1])
            }
        };
        if self.store[n].has(status::SEEN_REPLY) {
            self.refresh(n, p, stream_timeout);
            if !self.store[n].has(status::ASSURED | status::NAT_CLASH) {
                self.assure(n);
            }
        } else {
            self.refresh(n, p, timeout);
        }
        Outcome::Accept
    }
}
