// SPDX-License-Identifier: Apache-2.0

//! What a ruleset needs of the path beside its own chains: connection tracking, NAT,
//! defragmentation.
//!
//! The kernel registers these when the first expression or object that needs them is made, and
//! takes them away with the last: dormant tables and chains that nothing reaches count too
//! (`nf_ct_netns_get()`, `nf_nat_register_fn()`, `nf_defrag_ipv4_enable()`; observed on Linux
//! 6.18).

use penstock_program::expr::{CtKey, Expr, NFPROTO_IPV4, NFPROTO_IPV6};

use crate::Family;
use crate::model::{ChainType, Generation, ObjectValue, Rule};

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

    fn add(&mut self, family: Family) {
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
    /// What a generation needs, apart from rules of tables that are not dormant:
    /// [`Needs::with_rule`].
    pub(crate) fn apart_from_rules(generation: &Generation) -> Self {
        let mut needs = Needs::default();
        for table in &generation.tables {
            let family = table.family;
            for chain in &table.chains {
                if chain.base.as_ref().is_some_and(|b| b.kind == ChainType::Nat) && !table.dormant {
                    needs.nat.add(family);
                }
                for rule in chain.rules.iter().filter(|_| table.dormant) {
                    needs = needs.with_rule(family, rule);
                }
            }
            for set in &table.sets {
                set.exprs.iter().for_each(|e| needs.expression(family, e));
            }
            for object in &table.objects {
                needs.object(family, &object.value);
            }
        }
        needs
    }

    /// With what a rule needs.
    #[inline]
    pub(crate) fn with_rule(mut self, family: Family, rule: &Rule) -> Self {
        rule.exprs.iter().for_each(|e| self.expression(family, e));
        self
    }

    /// With what something else needs.
    pub(crate) fn include(&mut self, other: &Needs) {
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

    /// What follows from what is needed.
    pub(crate) fn complete(&mut self) {
        self.defrag.ip |= self.conntrack.ip;
        self.defrag.ip6 |= self.conntrack.ip6;
    }

    fn track(&mut self, family: Family) {
        self.conntrack.add(family);
        self.conntrack_bridge |= family == Family::Bridge;
    }

    fn ct_key(&mut self, key: CtKey) {
        match key {
            CtKey::Bytes | CtKey::Pkts | CtKey::AvgPkt => self.accounting = true,
            CtKey::Labels => self.labels = true,
            _ => {}
        }
    }

    fn object(&mut self, family: Family, value: &ObjectValue) {
        match value {
            ObjectValue::CtHelper { .. }
            | ObjectValue::CtTimeout { .. }
            | ObjectValue::CtExpect { .. } => {
                self.track(family);
            }
            ObjectValue::Synproxy(_) => {
                self.track(family);
                self.synproxy.add(family);
            }
            ObjectValue::Counter(_)
            | ObjectValue::Quota(_)
            | ObjectValue::Limit(_)
            | ObjectValue::SecMark(_)
            | ObjectValue::Tunnel(_) => {}
        }
    }

    #[inline]
    fn expression(&mut self, family: Family, expr: &Expr) {
        match expr {
            Expr::Ct(ct) => {
                self.track(family);
                self.ct_key(ct.key);
            }
            Expr::CtSet(ct) => {
                self.track(family);
                self.ct_key(ct.key);
            }
            // Only what it translates, whatever the table's family is (nft_nat_init()).
            Expr::Nat(nat) => self.track(match nat.family {
                NFPROTO_IPV4 => Family::Ip,
                NFPROTO_IPV6 => Family::Ip6,
                _ => family,
            }),
            Expr::Masq(_) | Expr::Redir(_) | Expr::Connlimit(_) | Expr::FlowOffload(_) => {
                self.track(family)
            }
            Expr::Synproxy(_) => {
                self.track(family);
                self.synproxy.add(family);
            }
            Expr::Tproxy(_) => self.defrag.add(family),
            Expr::Dynset(dynset) => dynset.exprs.iter().for_each(|e| self.expression(family, e)),
            Expr::Immediate(_)
            | Expr::Payload(_)
            | Expr::PayloadSet(_)
            | Expr::Cmp(_)
            | Expr::Range(_)
            | Expr::Bitwise(_)
            | Expr::Byteorder(_)
            | Expr::Lookup(_)
            | Expr::Counter(_)
            | Expr::Limit(_)
            | Expr::Quota(_)
            | Expr::Last(_)
            | Expr::Objref(_)
            | Expr::Log(_)
            | Expr::Exthdr(_)
            | Expr::ExthdrSet(_)
            | Expr::ExthdrReset(_)
            | Expr::Meta(_)
            | Expr::MetaSet(_)
            | Expr::Numgen(_)
            | Expr::Hash(_)
            | Expr::Fib(_)
            | Expr::Rt(_)
            | Expr::Reject(_)
            | Expr::Dup(_)
            | Expr::Fwd(_)
            | Expr::Notrack
            | Expr::Queue(_)
            | Expr::Socket(_)
            | Expr::Osf(_)
            | Expr::Xfrm(_)
            | Expr::Tunnel(_)
            | Expr::Inner(_)
            | Expr::Xt(_) => {}
        }
    }
}
