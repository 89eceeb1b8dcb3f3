// SPDX-License-Identifier: Apache-2.0

//! What a worker remembers of handshakes that it answers for servers, and the cookies of the others
//! (`net/ipv4/syncookies.c`).

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use penstock_conntrack::Ref;
use siphasher::sip::SipHasher24;

use crate::settings::SECOND;

/// Sizes that a cookie can tell apart (`msstab` of `syncookies.c`).
const SIZES4: [u16; 4] = [536, 1300, 1440, 1460];

const SIZES6: [u16; 4] = [1220, 1420, 1440, 8940];

/// How long a cookie is good: this one and the one before.
const PERIOD: u64 = 60 * SECOND;

const PERIODS: u32 = 2;

const COOKIE_BITS: u32 = 24;

/// What is kept of a connection (`struct nf_conn_synproxy`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Proxied {
    /// The sequence number that the client was told.
    pub(crate) isn: u32,
    /// The timestamp that the client was told.
    pub(crate) its: u32,
    /// How far the server's timestamps are from what the client was told.
    pub(crate) tsoff: u32,
    /// The client's window.
    pub(crate) window: u16,
}

/// All that the proxy keeps.
#[derive(Debug, Default)]
pub(crate) struct Proxies {
    pub(crate) secret: [u64; 2],
    pub(crate) connections: HashMap<Ref, Proxied>,
    /// Connections at which the table is cleared of those that ended.
    pub(crate) tidy_at: usize,
    /// The packet on its way opens a connection to a server.
    pub(crate) opening: bool,
}

/// Both ends of a segment: addresses and ports of where it comes from and where it goes.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Ends {
    pub(crate) from: (IpAddr, u16),
    pub(crate) to: (IpAddr, u16),
}

impl Ends {
    pub(crate) fn reversed(self) -> Self {
        Ends { from: self.to, to: self.from }
    }
}

impl Proxies {
    pub(crate) fn new(secret: [u64; 2]) -> Self {
        Proxies { secret, tidy_at: 1024, ..Proxies::default() }
    }

    pub(crate) fn hash(&self, ends: &Ends, period: u32, which: u8) -> u32 {
        let [first, second] = self.secret;
        let mut hasher = SipHasher24::new_with_keys(first, second);
        (ends, period, which).hash(&mut hasher);
        hasher.finish() as u32
    }

    /// The sequence number for an answer to a SYN (`secure_tcp_syn_cookie()`).
    pub(crate) fn cookie(&self, ends: &Ends, seq: u32, mss: u16, time: u64) -> u32 {
        let sizes = if ends.from.0.is_ipv4() { SIZES4 } else { SIZES6 };
        let index = sizes.iter().rposition(|size| mss >= *size).unwrap_or(0) as u32;
        let period = (time / PERIOD) as u32;
        let low = self.hash(ends, period, 1).wrapping_add(index) & ((1 << COOKIE_BITS) - 1);
        self.hash(ends, 0, 0)
            .wrapping_add(seq)
            .wrapping_add(period << COOKIE_BITS)
            .wrapping_add(low)
    }

    /// The size that a cookie holds, if it is one and not too old (`check_tcp_syn_cookie()`).
    pub(crate) fn check(&self, ends: &Ends, seq: u32, cookie: u32, time: u64) -> Option<u16> {
        let sizes = if ends.from.0.is_ipv4() { SIZES4 } else { SIZES6 };
        let period = (time / PERIOD) as u32;
        let rest = cookie.wrapping_sub(self.hash(ends, 0, 0).wrapping_add(seq));
        let age = period.wrapping_sub(rest >> COOKIE_BITS) & (u32::MAX >> COOKIE_BITS);
        if age >= PERIODS {
            return None;
        }
        let low = rest.wrapping_sub(self.hash(ends, period.wrapping_sub(age), 1));
        sizes.get((low & ((1 << COOKIE_BITS) - 1)) as usize).copied()
    }
}
