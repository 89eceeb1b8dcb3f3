// SPDX-License-Identifier: Apache-2.0

//! What expressions need of the packet path, apart from their chains: connection tracking, NAT,
//! defragmentation.
//!
//! The kernel registers these when the first expression or object that needs them is made, and
//! removes them with the last: dormant tables and chains that nothing reaches count too
//! (`nf_ct_netns_get()`, `nf_nat_register_fn()`, `nf_defrag_ipv4_enable()`; observed on Linux
//! 6.18).

use crate::Family;
use crate::operand::CtKey;

/// Something for IPv4 and IPv6 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PerFamily {
    /// IPv4.
    pub ip: bool,
    /// IPv6.
    pub ip6: bool,
}

impl PerFamily {
    /// Neither of them.
    pub const NONE: PerFamily = PerFamily { ip: false, ip6: false };

    /// Whether any is set.
    pub const fn any(self) -> bool {
        self.ip || self.ip6
    }

    /// Adds the IP families of packets that tables of a family see.
    pub fn add(&mut self, family: Family) {
        match family {
            Family::Ip => self.ip = true,
            Family::Ip6 => self.ip6 = true,
            // Bridge tracking asks for that of both IP families too (nf_ct_netns_get()).
            Family::Inet | Family::Bridge => (self.ip, self.ip6) = (true, true),
            Family::Arp | Family::Netdev => {}
        }
    }
}

/// What the rules of a generation need of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Needs {
    /// Connection tracking, and with it defragmentation.
    pub conntrack: PerFamily,
    /// Connection tracking of what bridges forward.
    pub conntrack_bridge: bool,
    /// The NAT hooks: there are NAT chains. Without [`Needs::conntrack`] they never see a
    /// connection, so the chains never run.
    pub nat: PerFamily,
    /// Defragmentation, whether connections are tracked or not.
    pub defrag: PerFamily,
    /// The hooks of `synproxy`.
    pub synproxy: PerFamily,
    /// Packets and bytes of connections are counted from their beginning (`ct bytes`, `ct packets`,
    /// `ct avgpkt`).
    pub accounting: bool,
    /// Connections have room for labels (`ct label`).
    pub labels: bool,
}

impl Needs {
    /// Adds what something else needs.
    pub fn include(&mut self, other: &Needs) {
        let Needs { conntrack, conntrack_bridge, nat, defrag, synproxy, accounting, labels } =
            other;
        for (to, from) in [
            (&mut self.conntrack, conntrack),
            (&mut self.nat, nat),
            (&mut self.defrag, defrag),
            (&mut self.synproxy, synproxy),
        ] {
            to.ip |= from.ip;
            to.ip6 |= from.ip6;
        }
        self.conntrack_bridge |= conntrack_bridge;
        self.accounting |= accounting;
        self.labels |= labels;
    }

    /// Adds what follows: connection tracking defragments.
    pub fn complete(&mut self) {
        self.defrag.ip |= self.conntrack.ip;
        self.defrag.ip6 |= self.conntrack.ip6;
    }

    /// Connections of packets that tables of a family see are tracked.
    pub fn track(&mut self, family: Family) {
        self.conntrack.add(family);
        self.conntrack_bridge |= family == Family::Bridge;
    }

    /// What a key of connections needs, apart from tracking.
    pub(crate) fn ct_key(&mut self, key: CtKey) {
        match key {
            CtKey::Bytes | CtKey::Pkts | CtKey::AvgPkt => self.accounting = true,
            CtKey::Labels => self.labels = true,
            _ => {}
        }
    }
}
