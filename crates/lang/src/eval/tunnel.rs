// SPDX-License-Identifier: Apache-2.0

//! Matches inside of tunnels (`vxlan ip saddr …`): what the packet that is carried is known to be.

use penstock_program::expr::PayloadBase;
use penstock_ruleset::Family;
use penstock_syntax::ast::expr::Payload;
use penstock_syntax::proto::{Proto, Template, transport, tunnel};
use penstock_syntax::source::Loc;

use crate::eval::context::{Protocols, conflicting};
use crate::eval::{Eval, Result, error};

/// Which tunnel is looked into, and what is known of the other side of its wall: inside while the
/// outside is at hand, outside while the inside is.
#[derive(Debug)]
pub(crate) struct Beyond {
    tunnel: &'static Proto,
    family: Family,
    protocols: Protocols,
    icmp_type: Option<u8>,
}

impl Beyond {
    fn inside(tunnel: &'static Proto) -> Self {
        let family = tunnel::family_inside(tunnel);
        let protocols = Protocols::new(family);
        Beyond { tunnel, family, protocols, icmp_type: None }
    }
}

impl Eval<'_, '_> {
    /// Goes through the wall of the tunnel, inwards or back.
    fn cross(&mut self) {
        if let Some(beyond) = &mut self.beyond {
            std::mem::swap(&mut self.family, &mut beyond.family);
            std::mem::swap(&mut self.protocols, &mut beyond.protocols);
            std::mem::swap(&mut self.icmp_type, &mut beyond.icmp_type);
            self.inside = !self.inside;
        }
    }

    /// Runs `what` in the context of the packet in the tunnel. There is context for one tunnel at a
    /// time.
    pub(crate) fn within<T>(
        &mut self,
        tunnel: &'static Proto,
        what: impl FnOnce(&mut Self) -> T,
    ) -> T {
        if self.beyond.as_ref().is_none_or(|b| b.tunnel != tunnel) {
            self.beyond = Some(Beyond::inside(tunnel));
        }
        self.cross();
        let result = what(self);
        self.cross();
        result
    }

    /// Runs `what` outside of the current tunnel, if there is one.
    pub(crate) fn without<T>(&mut self, what: impl FnOnce(&mut Self) -> T) -> T {
        let inside = self.inside;
        if inside {
            self.cross();
        }
        let result = what(self);
        if inside {
            self.cross();
        }
        result
    }

    /// The tunnel that the walk is inside of.
    pub(crate) fn tunnel_at_hand(&self) -> Option<&'static Proto> {
        self.beyond.as_ref().filter(|_| self.inside).map(|b| b.tunnel)
    }

    /// Makes sure that the tunnel is there: GRE is asked for, what runs over UDP must have been.
    pub(crate) fn tunnel_dependency(
        &mut self,
        tunnel: &'static Proto,
        base: PayloadBase,
        loc: Loc,
    ) -> Result {
        if !tunnel::is_tunnel(tunnel) {
            return error(loc, format!("{} carries no packets", tunnel.name));
        }
        let known = self.protocols.at(PayloadBase::Transport);
        if tunnel.base == PayloadBase::Tunnel {
            return match known {
                None => error(loc, "no transport protocol specified"),
                Some(udp) if *udp == transport::UDP => Ok(()),
                Some(other) => error(loc, format!("unexpected transport protocol {}", other.name)),
            };
        }
        if base == PayloadBase::Link && !tunnel::has_link(tunnel) {
            return error(loc, "payload expression is invalid for this family");
        }
        match known {
            None => self.payload_dependency(&tunnel::GRE, PayloadBase::Transport, loc),
            Some(known) if *known == tunnel::GRE => Ok(()),
            Some(known) => error(loc, conflicting(known, tunnel)),
        }
    }
}

/// A pseudo field of the packet inside a tunnel, which is what a `meta` key gives of it.
pub(crate) fn is_meta(payload: &Payload) -> bool {
    payload.field.is_some_and(|f: &Template| f.meta.is_some())
}
