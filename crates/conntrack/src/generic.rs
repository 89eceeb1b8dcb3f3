// SPDX-License-Identifier: Apache-2.0

//! All other protocols: known by their addresses (`nf_conntrack_proto_generic.c`).

use crate::conntrack::{Conntrack, Outcome, Seen};
use crate::settings::Tracker;

impl Conntrack {
    pub(crate) fn generic_packet(&mut self, n: u32, p: &Seen<'_>) -> Outcome {
        let timeout = self.timeouts(n, Tracker::Generic)[0];
        self.refresh(n, p, timeout);
        Outcome::Accept
    }
}
