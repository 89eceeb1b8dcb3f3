// SPDX-License-Identifier: Apache-2.0

//! Rate limits of ICMP messages: per destination (`inet_peer_xrlim_allow()`) and in all
//! (`icmp_global_allow()`).

use std::collections::HashMap;

use crate::settings::{SECOND, Settings};

/// Limited messages that one address may get at once.
const BURST: u64 = 6;
/// A peer first seen has tokens as if it had been quiet for a minute.
const QUIET: u64 = 60 * SECOND;
/// Peers kept at most; then all are forgotten, which the kernel's pool does one by one.
const PEERS: usize = 65_536;

#[derive(Clone, Copy, Debug)]
struct Peer {
    tokens: u64,
    last: u64,
    redirects: u32,
}

/// Token buckets on the packet clock.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// IPv4 addresses are mapped ones.
    peers: HashMap<u128, Peer>,
    global: u64,
    global_last: u64,
    started: bool,
}

impl Limits {
    fn peer(&mut self, address: u128, now: u64) -> &mut Peer {
        if self.peers.len() >= PEERS && !self.peers.contains_key(&address) {
            self.peers.clear();
        }
        self.peers.entry(address).or_insert(Peer { tokens: QUIET, last: now, redirects: 0 })
    }

    /// Whether a message may go to the address that costs `cost`.
    pub(crate) fn peer_allows(&mut self, address: u128, now: u64, cost: u64) -> bool {
        if cost == 0 {
            return true;
        }
        let peer = self.peer(address, now);
        peer.tokens = (peer.tokens + now.saturating_sub(peer.last)).min(BURST * cost);
        peer.last = peer.last.max(now);
        let allowed = peer.tokens >= cost;
        if allowed {
            peer.tokens -= cost;
        }
        allowed
    }

    /// The bucket of answers about missing routes (`ip_error()`), which shares its tokens with the
    /// one above.
    pub(crate) fn route_error_allows(
        &mut self,
        address: u128,
        now: u64,
        settings: &Settings,
    ) -> bool {
        let (cost, burst) = (settings.route_error_cost, settings.route_error_burst);
        if cost == 0 {
            return true;
        }
        let peer = self.peer(address, now);
        peer.tokens = (peer.tokens + now.saturating_sub(peer.last)).min(burst);
        peer.last = peer.last.max(now);
        let allowed = peer.tokens >= cost;
        if allowed {
            peer.tokens -= cost;
        }
        allowed
    }

    /// Whether a sender gets a redirect (again): twice as long a wait after each time, nine times
    /// at most, until it has been quiet for long (`ip_rt_send_redirect()`).
    pub(crate) fn redirect_allows(&mut self, address: u128, now: u64) -> bool {
        const LOAD: u64 = SECOND / 50;
        const NUMBER: u32 = 9;
        const SILENCE: u64 = LOAD << (NUMBER + 1);
        let peer = self.peer(address, now);
        if now > peer.last.saturating_add(SILENCE) {
            peer.tokens = 0;
            peer.redirects = 0;
        }
        if peer.redirects >= NUMBER {
            peer.last = now;
            return false;
        }
        let allowed = peer.redirects == 0 || now > peer.last.saturating_add(LOAD << peer.redirects);
        if allowed {
            peer.last = now;
            peer.redirects += 1;
        }
        allowed
    }

    /// The limit over all destinations; tokens come every 20 ms at the earliest.
    pub(crate) fn global_allows(&mut self, now: u64, settings: &Settings) -> bool {
        if !self.started {
            self.started = true;
            self.global = settings.icmp_msgs_burst;
            self.global_last = now;
        }
        let passed = now.saturating_sub(self.global_last).min(SECOND);
        if passed >= SECOND / 50 {
            let fresh = settings.icmp_msgs_per_sec.saturating_mul(passed) / SECOND;
            if fresh > 0 {
                self.global = (self.global + fresh).min(settings.icmp_msgs_burst);
                self.global_last = now;
            }
        }
        let allowed = self.global > 0;
        self.global = self.global.saturating_sub(1);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_six_messages_and_then_one_per_period() {
        let mut limits = Limits::default();
        let t = 1000 * SECOND;
        let burst = (0..10).filter(|_| limits.peer_allows(1, t, SECOND)).count();
        assert_eq!(burst, 6);
        assert!(!limits.peer_allows(1, t + SECOND / 2, SECOND));
        assert!(limits.peer_allows(1, t + SECOND, SECOND));
        assert!(limits.peer_allows(2, t, SECOND));
    }

    #[test]
    fn answers_about_routes_use_up_the_same_tokens() {
        let mut limits = Limits::default();
        let settings = Settings::default();
        let sent = (0..10)
            .filter(|_| {
                limits.route_error_allows(1, SECOND, &settings)
                    && limits.peer_allows(1, SECOND, SECOND)
            })
            .count();
        assert_eq!(sent, 2);
    }

    #[test]
    fn all_addresses_together_get_a_burst_of_fifty() {
        let mut limits = Limits::default();
        let settings = Settings::default();
        let count = |limits: &mut Limits, t| {
            (0..200).filter(|_| limits.global_allows(t, &settings)).count()
        };
        assert_eq!(count(&mut limits, SECOND), 50);
        assert_eq!(count(&mut limits, SECOND + SECOND / 100), 0);
        assert_eq!(count(&mut limits, SECOND + SECOND / 25), 40);
    }
}
