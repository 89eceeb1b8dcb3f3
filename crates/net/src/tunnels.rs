// SPDX-License-Identifier: Apache-2.0

//! Which tunnel or session a packet belongs to, by the addresses around it.

use penstock_wire::ethernet::Mac;
use penstock_wire::quick::QuickMap;

use crate::Link;
use crate::kind::TunnelKind;

/// Tunnels by their ends, and sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tunnels {
    /// Devices by driver, local and remote address, the latest first.
    ends: QuickMap<(TunnelKind, u128, u128), Vec<Candidate>>,
    sessions: QuickMap<(u32, u16, u64), u32>,
    /// There are some over IPv4, over IPv6.
    over4: bool,
    over6: bool,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    index: u32,
    /// The device that it is bound to.
    link: u32,
}

fn packed(mac: Mac) -> u64 {
    mac.0.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

impl Tunnels {
    pub(crate) fn new(links: &[Link]) -> Self {
        let mut all = Tunnels::default();
        for link in links.iter().rev() {
            if let Some(t) = link.tunnel() {
                if t.kind.outer6() {
                    all.over6 = true;
                } else {
                    all.over4 = true;
                }
                if link.up {
                    let (local, remote) = match t.addresses() {
                        // Packets to the group belong to it, of whomever (ip_tunnel_lookup()).
                        (_, group) if t.kind == TunnelKind::Ipip && group >> 28 == 0xe => {
                            (group, 0)
                        }
                        ends => ends,
                    };
                    let candidate = Candidate { index: link.index, link: t.link };
                    all.ends.entry((t.kind, local, remote)).or_default().push(candidate);
                }
            }
            if let Some(p) = link.pppoe() {
                all.sessions.insert((p.lower, p.session, packed(p.peer)), link.index);
            }
        }
        all
    }

    pub(crate) fn over4(&self) -> bool {
        self.over4
    }

    pub(crate) fn over6(&self) -> bool {
        self.over6
    }

    pub(crate) fn has_sessions(&self) -> bool {
        !self.sessions.is_empty()
    }

    pub(crate) fn session(&self, lower: u32, session: u16, peer: Mac) -> Option<u32> {
        self.sessions.get(&(lower, session, packed(peer))).copied()
    }

    /// The device for an outer packet that came in by `link`. One that is bound to that device
    /// comes before the others.
    pub(crate) fn find(
        &self,
        kind: TunnelKind,
        remote: u128,
        local: u128,
        link: u32,
    ) -> Option<u32> {
        let list =
            |local, remote| self.ends.get(&(kind, local, remote)).map_or(&[][..], |list| list);
        let exact = list(local, remote);
        match kind {
            // A tunnel bound to another device is none (ipip6_tunnel_lookup()).
            TunnelKind::Sit => [exact, list(0, remote), list(local, 0), list(0, 0)]
                .into_iter()
                .find_map(|l| l.iter().find(|c| c.link == 0 || c.link == link).map(|c| c.index)),
            // Bound or not is a preference only (ip_tunnel_lookup(), ip6_tnl_lookup()).
            TunnelKind::Ipip => Self::preferred(exact, list(0, remote), list(local, 0), link),
            TunnelKind::Ip6tnl => Self::preferred(exact, list(local, 0), list(0, remote), link),
        }
    }

    fn preferred(
        exact: &[Candidate],
        second: &[Candidate],
        third: &[Candidate],
        link: u32,
    ) -> Option<u32> {
        let bound = [exact, second, third].into_iter().flatten().find(|c| c.link == link);
        let any = || exact.last().or_else(|| second.first()).or_else(|| third.first());
        bound.or_else(any).map(|c| c.index)
    }
}
