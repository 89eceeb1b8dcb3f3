// SPDX-License-Identifier: Apache-2.0

//! `inner`: match inside a tunnel (`NFTA_INNER_*`, `net/netfilter/nft_inner.c`).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

use super::{Expr, Expression, Meta, Payload, Use};
use crate::check::{self, BYTE, Reason};
use crate::linking::{self, LinkReason, Linking};
use crate::op::{InnerLoad, LinkedInner, Op};
use crate::operand::{
    INNER_HDRSIZE, INNER_LINK, INNER_NETWORK, INNER_TRANSPORT, MetaKey, PayloadBase,
};
use crate::reference::Reference;
use crate::{Errno, Family, Register};

/// Largest header of a tunnel in bytes that the kernel takes.
pub const INNER_HDRSIZE_MAX: u32 = 64;

/// Runs a payload or meta load on the packet that a tunnel carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inner {
    /// `NFTA_INNER_TYPE`: `NFT_INNER_*`: 1 VXLAN, 2 Geneve; the kernel only keeps others, up to
    /// 255.
    pub kind: u32,
    /// `NFTA_INNER_HDRSIZE`: bytes of the tunnel's header.
    pub hdrsize: u32,
    /// `NFTA_INNER_FLAGS`: headers that there are: 1 tunnel, 2 link, 4 network, 8 transport.
    pub flags: u32,
    /// `NFTA_INNER_EXPR`.
    #[serde(deserialize_with = "super::nested::deserialize")]
    pub expr: Box<Expr>,
}

/// What can be loaded from inside of a tunnel.
enum Loaded<'a> {
    Payload(&'a Payload),
    /// The ethertype.
    Protocol(Register),
    /// The transport protocol.
    L4Proto(Register),
}

impl Inner {
    fn load(&self) -> Option<Loaded<'_>> {
        if let Expr::Payload(payload) = &*self.expr {
            return Some(Loaded::Payload(payload));
        }
        let Expr::Meta(Meta { key, dreg }) = &*self.expr else { return None };
        match key {
            MetaKey::Protocol => Some(Loaded::Protocol(*dreg)),
            MetaKey::L4Proto => Some(Loaded::L4Proto(*dreg)),
            _ => None,
        }
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "inner type {} hdrsize {} flags {:x} {}",
            self.kind, self.hdrsize, self.flags, self.expr
        )
    }
}

impl Expression for Inner {
    fn name(&self) -> &'static str {
        "inner"
    }

    fn uses<'a>(&'a self, family: Family, visit: &mut dyn FnMut(Use<'a>)) {
        self.expr.uses(family, visit);
    }

    fn verify(&self) -> Result<(), Reason> {
        let all = INNER_HDRSIZE | INNER_LINK | INNER_NETWORK | INNER_TRANSPORT;
        check::refuse(self.flags & !all != 0, Reason::Operand("a flag of inner is unknown"))?;
        check::refuse(self.kind > BYTE, Reason::TooLarge)?;
        let told = self.flags & INNER_HDRSIZE != 0;
        check::refuse(
            told && (self.hdrsize == 0 || self.hdrsize > INNER_HDRSIZE_MAX) || self.hdrsize > BYTE,
            Reason::Operand("the header of a tunnel has 1 to 64 bytes"),
        )?;
        match self.load() {
            Some(Loaded::Payload(p)) => {
                check::refuse(p.base == PayloadBase::Inner, Reason::Misplaced)?;
                check::refuse(p.offset > u32::from(u16::MAX) || p.len > BYTE, Reason::TooLarge)
            }
            Some(Loaded::Protocol(_) | Loaded::L4Proto(_)) => Ok(()),
            None => Err(Reason::Misplaced),
        }
    }

    fn available(&self, family: Family) -> Result<(), Errno> {
        self.expr.available(family)
    }

    fn references<'a>(&'a self, visit: &mut dyn FnMut(Reference<'a>)) {
        self.expr.references(visit);
    }

    fn rename(&mut self, renamed: &dyn Fn(Reference<'_>) -> Option<Arc<str>>) {
        self.expr.rename(renamed);
    }

    fn runnable(&self) -> Result<(), &'static str> {
        match self.load() {
            Some(_) => Ok(()),
            None => Err("of a packet in a tunnel there are header fields and protocols only"),
        }
    }

    fn only_matches(&self) -> bool {
        true
    }

    fn link(&self, _: &Linking<'_>) -> Result<Op, LinkReason> {
        let load = match self.load() {
            Some(Loaded::Payload(p)) => {
                let (dst, len) = (linking::slot(p.dreg, p.len)?, linking::narrow(p.len)?);
                InnerLoad::Payload { base: p.base, dst, len, offset: linking::narrow(p.offset)? }
            }
            Some(Loaded::Protocol(dreg)) => {
                InnerLoad::Protocol { dst: linking::slot(dreg, MetaKey::Protocol.width())? }
            }
            Some(Loaded::L4Proto(dreg)) => {
                InnerLoad::L4Proto { dst: linking::slot(dreg, MetaKey::L4Proto.width())? }
            }
            None => {
                return Err(LinkReason::Malformed("this is not loaded from inside of tunnels"));
            }
        };
        let hdrsize = linking::narrow(self.hdrsize)?;
        Ok(Op::InTunnel(LinkedInner { kind: self.kind, hdrsize, flags: self.flags, load }))
    }
}
