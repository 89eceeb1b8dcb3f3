// SPDX-License-Identifier: Apache-2.0

//! TCP connections that end for reasons outside of their packets.

use crate::settings::Tracker;
use crate::status;
use crate::table::Conntrack;
use crate::tracker::ProtocolState;
use crate::tracker::tcp::State;
use penstock_packet::Ct;

impl Conntrack {
    /// Whether a translated connection that is closed or closing may end so that a beginning one
    /// gets its port (`nf_nat_may_kill()`): its peer will tell the two apart, since the new one's
    /// sequence numbers are beyond its own.
    pub fn makes_way(&self, old: u32, new: u32) -> bool {
        const KEPT: u32 =
            status::FIXED_TIMEOUT | status::DYING | status::OFFLOAD | status::HW_OFFLOAD;
        let (ProtocolState::Tcp(leaving), ProtocolState::Tcp(coming)) =
            (&self.store[old].proto, &self.store[new].proto)
        else {
            return false;
        };
        let bits = self.store[old].status;
        bits & KEPT == 0 && bits & status::SRC_NAT != 0 && leaving.makes_way_for(coming)
    }

    /// Notes that this host answers a packet of a TCP connection with a reset
    /// (`nf_conntrack_tcp_set_closing()`).
    pub fn set_closing(&mut self, ct: &Ct) {
        let Some(n) = self.resolve(ct) else { return };
        if !self.store[n].has(status::CONFIRMED) {
            return;
        }
        let timeout = self.timeouts(n, Tracker::Tcp)[State::Close as usize];
        let ProtocolState::Tcp(tcp) = &mut self.store[n].proto else { return };
        let before = std::mem::replace(&mut tcp.state, State::Close);
        if before != State::Close {
            self.set_timeout(n, timeout);
        }
    }
}
