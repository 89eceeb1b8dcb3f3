// SPDX-License-Identifier: Apache-2.0

//! Matches that only say which header is there, and when a later one makes them superfluous (nft's
//! `struct payload_dep_ctx`).

use penstock_program::expr::{ExthdrOp, MetaKey, PayloadBase};
use penstock_ruleset::Family;
use penstock_syntax::ast::expr::{Exthdr, RelOp};
use penstock_syntax::ast::{Expr, ExprKind, Key, StmtKind};
use penstock_syntax::proto::{link, network};

use super::context::Context;
use super::statements::Statements;

/// Values of `meta nfproto`.
const IPV4: u128 = Family::Ip as u128;
const IPV6: u128 = Family::Ip6 as u128;

/// The layer that a dependency is for: of link headers, network headers, transport headers, or what
/// is inside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Link,
    Network,
    Transport,
    Inner,
}

impl Layer {
    /// That a header of a base is of.
    pub fn of(base: PayloadBase) -> Layer {
        match base {
            PayloadBase::Link => Layer::Link,
            PayloadBase::Network => Layer::Network,
            PayloadBase::Transport => Layer::Transport,
            PayloadBase::Inner | PayloadBase::Tunnel => Layer::Inner,
        }
    }

    /// That a protocol field of a header of a base tells of.
    pub fn above(base: PayloadBase) -> Layer {
        match base {
            PayloadBase::Link => Layer::Network,
            PayloadBase::Network => Layer::Transport,
            PayloadBase::Transport | PayloadBase::Inner | PayloadBase::Tunnel => Layer::Inner,
        }
    }

    /// That a `meta` key tells of.
    pub fn told_by(key: MetaKey) -> Option<Layer> {
        match key {
            MetaKey::IifType => Some(Layer::Link),
            MetaKey::NfProto | MetaKey::Protocol => Some(Layer::Network),
            MetaKey::L4Proto => Some(Layer::Transport),
            _ => None,
        }
    }
}

/// The last match for each layer that may turn out superfluous, by place in the rule.
#[derive(Default)]
pub(super) struct Dependencies {
    stmts: [Option<usize>; 4],
}

impl Dependencies {
    /// Remembers a match.
    pub fn store(&mut self, layer: Layer, stmt: usize) {
        self.stmts[layer as usize] = Some(stmt);
    }

    /// Forgets all: a statement that has an effect came between.
    pub fn reset(&mut self) {
        self.stmts = [None; 4];
    }

    /// The match for a layer is more than that.
    pub fn forget(&mut self, layer: Layer) {
        self.stmts[layer as usize] = None;
    }

    fn layer_in_use(&self, layer: Layer) -> Option<Layer> {
        if self.stmts[layer as usize].is_some() {
            return Some(layer);
        }
        (layer == Layer::Transport && self.stmts[Layer::Inner as usize].is_some())
            .then_some(Layer::Inner)
    }

    /// Whether there is a match for a layer.
    pub fn exists(&self, layer: Layer) -> bool {
        self.layer_in_use(layer).is_some()
    }

    /// Takes the match for a layer out of the rule.
    pub fn release(&mut self, layer: Layer, stmts: &mut Statements) {
        if let Some(layer) = self.layer_in_use(layer)
            && let Some(place) = self.stmts[layer as usize].take()
        {
            stmts.remove(place);
        }
    }

    /// Left and right side of the match for a layer.
    fn get<'s>(&self, layer: Layer, stmts: &'s Statements) -> Option<(&'s Expr, &'s Expr)> {
        let place = self.stmts[self.layer_in_use(layer)? as usize]?;
        let StmtKind::Match(expr) = &stmts.get(place)?.kind else { return None };
        expr.relational().map(|(_, left, right)| (left, right))
    }

    /// A header field is read: the match that says the header is there goes, unless it says more
    /// than that.
    pub fn kill_for_payload(&mut self, expr: &Expr, context: &Context, stmts: &mut Statements) {
        let ExprKind::Payload(payload) = &expr.kind else { return };
        // Bits without a name imply nothing.
        if payload.field.is_none() {
            return;
        }
        let layer = Layer::of(payload.base);
        let Some((dep, value)) = self.get(layer, stmts) else { return };
        if self.payload_implies(expr, dep, value, context) {
            self.release(layer, stmts);
        } else if payload.field.is_some_and(|f| f.icmp.types().len() > 1) {
            // What the field stands after says more than the field would.
            self.forget(self.layer_in_use(layer).unwrap_or(layer));
        }
    }

    fn payload_implies(&self, expr: &Expr, dep: &Expr, value: &Expr, context: &Context) -> bool {
        let ExprKind::Payload(payload) = &expr.kind else { return false };
        let ExprKind::Payload(dep) = &dep.kind else { return true };
        match dep.proto {
            // `ip protocol` also says that it is IPv4 where the family does not.
            Some(proto)
                if (*proto == network::IP || *proto == network::IP6)
                    && matches!(context.family, Family::Bridge | Family::Netdev | Family::Inet) =>
            {
                payload.base != PayloadBase::Transport
            }
            Some(proto) if proto.is_icmp() && payload.base == PayloadBase::Transport => {
                // The match on the message type is dropped only if the field alone implies it.
                match (payload.field.map(|f| f.icmp.types()), context.icmp_type()) {
                    (Some([one]), Some(seen)) => *one == seen,
                    _ => false,
                }
            }
            // Never put in by itself.
            Some(proto) if *proto == link::VLAN && payload.base == PayloadBase::Link => false,
            // Put in for VLAN fields only.
            Some(proto) if *proto == link::ETHER && payload.base == PayloadBase::Link => {
                matches!(value.kind, ExprKind::Value(ETHERTYPE_VLAN))
            }
            _ => true,
        }
    }

    /// An extension header, option or chunk is read.
    pub fn kill_for_exthdr(&mut self, exthdr: &Exthdr, stmts: &mut Statements) {
        let layer = match exthdr.op {
            // These do not bring the protocol back.
            ExthdrOp::Sctp | ExthdrOp::Dccp => return,
            ExthdrOp::TcpOpt => Layer::Transport,
            ExthdrOp::Ipv6 | ExthdrOp::Ipv4Opt => Layer::Network,
        };
        // A match on an ICMP type says more than a match on the protocol.
        let icmp = matches!(
            self.get(layer, stmts),
            Some((Expr { kind: ExprKind::Payload(payload), .. }, _)) if payload.proto.is_some_and(penstock_syntax::proto::Proto::is_icmp)
        );
        if self.exists(layer) && !icmp {
            self.release(layer, stmts);
        }
    }

    /// `meta l4proto` or the like is compared: ICMP says which IP it is on.
    pub fn kill_for_meta(
        &mut self,
        key: MetaKey,
        value: u128,
        family: Family,
        stmts: &mut Statements,
    ) {
        let layer = match key {
            MetaKey::IifType => return,
            MetaKey::NfProto | MetaKey::Protocol => Layer::Link,
            MetaKey::L4Proto => Layer::Network,
            _ => return,
        };
        if self.exists(layer) && self.meta_implies(key, value, family, stmts) {
            self.release(layer, stmts);
        }
    }

    fn meta_implies(&self, key: MetaKey, value: u128, family: Family, stmts: &Statements) -> bool {
        let Some((dep, dep_value)) = self.get(Layer::Network, stmts) else { return true };
        let ExprKind::Value(dep_value) = dep_value.kind else { return true };
        let version = match (&dep.kind, dep_value) {
            (ExprKind::Key(Key::Meta { key: MetaKey::NfProto }), IPV4) => 4,
            (ExprKind::Key(Key::Meta { key: MetaKey::NfProto }), IPV6) => 6,
            (
                ExprKind::Key(Key::Meta { key: MetaKey::Protocol }) | ExprKind::Payload(_),
                0x0800,
            ) => 4,
            (
                ExprKind::Key(Key::Meta { key: MetaKey::Protocol }) | ExprKind::Payload(_),
                0x86dd,
            ) => 6,
            (ExprKind::Key(Key::Meta { key: MetaKey::NfProto | MetaKey::Protocol }), _) => 0,
            (ExprKind::Payload(payload), _) if payload.base == PayloadBase::Link => 0,
            _ => return true,
        };
        match family {
            // What the family says already.
            Family::Ip => return version == 4,
            Family::Ip6 => return version == 6,
            Family::Arp => return true,
            Family::Inet | Family::Bridge | Family::Netdev => {}
        }
        if key != MetaKey::L4Proto {
            return true;
        }
        match value {
            IPPROTO_ICMP => version != 6,
            IPPROTO_ICMPV6 => version != 4,
            _ => false,
        }
    }
}

/// Whether a match is one that may turn out superfluous.
pub(super) fn is_equality(op: RelOp) -> bool {
    op == RelOp::Eq
}

const ETHERTYPE_VLAN: u128 = 0x8100;
const IPPROTO_ICMP: u128 = 1;
const IPPROTO_ICMPV6: u128 = 58;
