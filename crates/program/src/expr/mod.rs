// SPDX-License-Identifier: Apache-2.0

//! The VM expressions, one file each as the kernel has them, fields named after their netlink
//! attributes (`NFTA_*`).
//!
//! [`Expr`] and its parts print as `nft --debug=netlink` of nft 1.0.6 with libnftnl 1.2.4 does;
//! what is newer prints as the libnftnl that brought it.

mod bitwise;
mod byteorder;
mod cmp;
mod connlimit;
mod counter;
mod ct;
mod dup;
mod dynset;
mod exthdr;
mod fib;
mod flow_offload;
mod fwd;
mod hash;
mod immediate;
mod inner;
mod last;
mod limit;
mod log;
mod lookup;
mod meta;
mod nat;
mod nested;
mod numgen;
mod objref;
mod osf;
mod payload;
mod queue;
mod quota;
mod range;
mod reject;
mod rt;
mod socket;
mod synproxy;
mod tproxy;
mod tunnel;
mod xfrm;
mod xt;

pub use bitwise::*;
pub use byteorder::*;
pub use cmp::*;
pub use connlimit::*;
pub use counter::*;
pub use ct::*;
pub use dup::*;
pub use dynset::*;
pub use exthdr::*;
pub use fib::*;
pub use flow_offload::*;
pub use fwd::*;
pub use hash::*;
pub use immediate::*;
pub use inner::*;
pub use last::*;
pub use limit::*;
pub use log::*;
pub use lookup::*;
pub use meta::*;
pub use nat::*;
pub use numgen::*;
pub use objref::*;
pub use osf::*;
pub use payload::*;
pub use queue::*;
pub use quota::*;
pub use range::*;
pub use reject::*;
pub use rt::*;
use serde::{Deserialize, Serialize};
pub use socket::*;
pub use synproxy::*;
pub use tproxy::*;
pub use tunnel::*;
pub use xfrm::*;
pub use xt::*;

use std::fmt;

use crate::Register;

/// `NFPROTO_IPV4`.
pub const NFPROTO_IPV4: u8 = 2;
/// `NFPROTO_IPV6`.
pub const NFPROTO_IPV6: u8 = 10;

/// One VM expression. No match on it has a wildcard arm, so the compiler names what a new one
/// needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Expr {
    /// A constant or a verdict.
    Immediate(Immediate),
    /// Packet bytes into a register.
    Payload(Payload),
    /// Packet bytes from a register.
    PayloadSet(PayloadSet),
    /// Metadata into a register.
    Meta(Meta),
    /// Metadata from a register.
    MetaSet(MetaSet),
    /// Compare with a constant.
    Cmp(Cmp),
    /// Compare with an interval.
    Range(Range),
    /// Mask, exclusive-or, shift.
    Bitwise(Bitwise),
    /// Between host and network order.
    Byteorder(Byteorder),
    /// Find in a set or map.
    Lookup(Lookup),
    /// Change a set.
    Dynset(Dynset),
    /// Count.
    Counter(Counter),
    /// Limit a rate.
    Limit(Limit),
    /// Limit an amount.
    Quota(Quota),
    /// Note the time.
    Last(Last),
    /// Limit connections.
    Connlimit(Connlimit),
    /// Run a named object.
    Objref(Objref),
    /// Report.
    Log(Log),
    /// Options and extension headers into a register.
    Exthdr(Exthdr),
    /// Write a TCP option.
    ExthdrSet(ExthdrSet),
    /// Remove a TCP option.
    ExthdrReset(ExthdrReset),
    /// Running and random numbers.
    Numgen(Numgen),
    /// Hashes.
    Hash(Hash),
    /// Ask the routing table.
    Fib(Fib),
    /// The route found.
    Rt(Rt),
    /// Connection state into a register.
    Ct(Ct),
    /// Connection state from a register.
    CtSet(CtSet),
    /// Do not track (`net/netfilter/nft_ct.c`).
    Notrack,
    /// Translate.
    Nat(Nat),
    /// Masquerade.
    Masq(Masq),
    /// Redirect to this host.
    Redir(Redir),
    /// Answer with an error.
    Reject(Reject),
    /// Send a copy.
    Dup(Dup),
    /// Send on a device.
    Fwd(Fwd),
    /// Hand to a listener.
    Queue(Queue),
    /// Assign a local socket.
    Tproxy(Tproxy),
    /// Stand in for a server.
    Synproxy(Synproxy),
    /// Local socket into a register.
    Socket(Socket),
    /// Operating system into a register.
    Osf(Osf),
    /// IPsec state into a register.
    Xfrm(Xfrm),
    /// Tunnel metadata into a register.
    Tunnel(Tunnel),
    /// Match inside a tunnel.
    Inner(Inner),
    /// Put the flow into a flowtable.
    FlowOffload(FlowOffload),
    /// An x_tables extension.
    Xt(Xt),
}

/// How wide a register access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width<'a> {
    /// So many bytes.
    Bytes(u32),
    /// As the keys of this set.
    Key(&'a str),
    /// As the values of this map.
    Value(&'a str),
}

/// What an expression does with a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use<'a> {
    /// Reads it.
    Read(Register, Width<'a>),
    /// Writes it.
    Write(Register, Width<'a>),
    /// Puts a verdict into it.
    Verdict(Register),
}

impl Expr {
    /// The kernel's name of the expression (`NFTA_EXPR_NAME`).
    pub fn name(&self) -> &'static str {
        match self {
            Expr::Immediate(_) => "immediate",
            Expr::Payload(_) | Expr::PayloadSet(_) => "payload",
            Expr::Meta(_) | Expr::MetaSet(_) => "meta",
            Expr::Cmp(_) => "cmp",
            Expr::Range(_) => "range",
            Expr::Bitwise(_) => "bitwise",
            Expr::Byteorder(_) => "byteorder",
            Expr::Lookup(_) => "lookup",
            Expr::Dynset(_) => "dynset",
            Expr::Counter(_) => "counter",
            Expr::Limit(_) => "limit",
            Expr::Quota(_) => "quota",
            Expr::Last(_) => "last",
            Expr::Connlimit(_) => "connlimit",
            Expr::Objref(_) => "objref",
            Expr::Log(_) => "log",
            Expr::Exthdr(_) | Expr::ExthdrSet(_) | Expr::ExthdrReset(_) => "exthdr",
            Expr::Numgen(_) => "numgen",
            Expr::Hash(_) => "hash",
            Expr::Fib(_) => "fib",
            Expr::Rt(_) => "rt",
            Expr::Ct(_) | Expr::CtSet(_) => "ct",
            Expr::Notrack => "notrack",
            Expr::Nat(_) => "nat",
            Expr::Masq(_) => "masq",
            Expr::Redir(_) => "redir",
            Expr::Reject(_) => "reject",
            Expr::Dup(_) => "dup",
            Expr::Fwd(_) => "fwd",
            Expr::Queue(_) => "queue",
            Expr::Tproxy(_) => "tproxy",
            Expr::Synproxy(_) => "synproxy",
            Expr::Socket(_) => "socket",
            Expr::Osf(_) => "osf",
            Expr::Xfrm(_) => "xfrm",
            Expr::Tunnel(_) => "tunnel",
            Expr::Inner(_) => "inner",
            Expr::FlowOffload(_) => "flow_offload",
            Expr::Xt(x) => {
                if x.target {
                    "target"
                } else {
                    "match"
                }
            }
        }
    }

    /// Visits the registers that it reads, then those that it writes, in a table of family
    /// `nfproto` (`NFPROTO_*`).
    pub fn uses(&self, nfproto: u8, visit: &mut dyn FnMut(Use)) {
        match self {
            Expr::Immediate(x) => x.uses(visit),
            Expr::Payload(x) => x.uses(visit),
            Expr::PayloadSet(x) => x.uses(visit),
            Expr::Meta(x) => x.uses(visit),
            Expr::MetaSet(x) => x.uses(visit),
            Expr::Cmp(x) => x.uses(visit),
            Expr::Range(x) => x.uses(visit),
            Expr::Bitwise(x) => x.uses(visit),
            Expr::Byteorder(x) => x.uses(visit),
            Expr::Lookup(x) => x.uses(visit),
            Expr::Dynset(x) => x.uses(visit),
            Expr::Objref(x) => x.uses(visit),
            Expr::Exthdr(x) => x.uses(visit),
            Expr::ExthdrSet(x) => x.uses(visit),
            Expr::Numgen(x) => x.uses(visit),
            Expr::Hash(x) => x.uses(visit),
            Expr::Fib(x) => x.uses(visit),
            Expr::Rt(x) => x.uses(visit),
            Expr::Ct(x) => x.uses(nfproto, visit),
            Expr::CtSet(x) => x.uses(nfproto, visit),
            Expr::Nat(x) => x.uses(visit),
            Expr::Masq(x) => x.uses(visit),
            Expr::Redir(x) => x.uses(visit),
            Expr::Dup(x) => x.uses(nfproto, visit),
            Expr::Fwd(x) => x.uses(visit),
            Expr::Queue(x) => x.uses(visit),
            Expr::Tproxy(x) => x.uses(visit),
            Expr::Socket(x) => x.uses(visit),
            Expr::Osf(x) => x.uses(visit),
            Expr::Xfrm(x) => x.uses(visit),
            Expr::Tunnel(x) => x.uses(visit),
            Expr::Inner(x) => x.uses(nfproto, visit),
            Expr::Counter(_)
            | Expr::Limit(_)
            | Expr::Quota(_)
            | Expr::Last(_)
            | Expr::Connlimit(_)
            | Expr::Log(_)
            | Expr::ExthdrReset(_)
            | Expr::Notrack
            | Expr::Reject(_)
            | Expr::Synproxy(_)
            | Expr::FlowOffload(_)
            | Expr::Xt(_) => {}
        }
    }

    /// Whether it has state of its own that outlives a packet.
    pub fn is_stateful(&self) -> bool {
        match self {
            Expr::Counter(_)
            | Expr::Limit(_)
            | Expr::Quota(_)
            | Expr::Last(_)
            | Expr::Connlimit(_) => true,
            Expr::Numgen(x) => x.mode == NumgenMode::Inc,
            // The seed, if it names none.
            Expr::Hash(x) => matches!(x, Hash::Jenkins { seed: None, .. }),
            Expr::Immediate(_)
            | Expr::Payload(_)
            | Expr::PayloadSet(_)
            | Expr::Meta(_)
            | Expr::MetaSet(_)
            | Expr::Cmp(_)
            | Expr::Range(_)
            | Expr::Bitwise(_)
            | Expr::Byteorder(_)
            | Expr::Lookup(_)
            | Expr::Dynset(_)
            | Expr::Objref(_)
            | Expr::Log(_)
            | Expr::Exthdr(_)
            | Expr::ExthdrSet(_)
            | Expr::ExthdrReset(_)
            | Expr::Fib(_)
            | Expr::Rt(_)
            | Expr::Ct(_)
            | Expr::CtSet(_)
            | Expr::Notrack
            | Expr::Nat(_)
            | Expr::Masq(_)
            | Expr::Redir(_)
            | Expr::Reject(_)
            | Expr::Dup(_)
            | Expr::Fwd(_)
            | Expr::Queue(_)
            | Expr::Tproxy(_)
            | Expr::Synproxy(_)
            | Expr::Socket(_)
            | Expr::Osf(_)
            | Expr::Xfrm(_)
            | Expr::Tunnel(_)
            | Expr::Inner(_)
            | Expr::FlowOffload(_)
            | Expr::Xt(_) => false,
        }
    }
}

/// As nft's debug output: `[ payload load 2b @ transport header + 2 => reg 1 ]`.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[ ")?;
        match self {
            Expr::Immediate(x) => x.fmt(f),
            Expr::Payload(x) => x.fmt(f),
            Expr::PayloadSet(x) => x.fmt(f),
            Expr::Meta(x) => x.fmt(f),
            Expr::MetaSet(x) => x.fmt(f),
            Expr::Cmp(x) => x.fmt(f),
            Expr::Range(x) => x.fmt(f),
            Expr::Bitwise(x) => x.fmt(f),
            Expr::Byteorder(x) => x.fmt(f),
            Expr::Lookup(x) => x.fmt(f),
            Expr::Dynset(x) => x.fmt(f),
            Expr::Counter(x) => x.fmt(f),
            Expr::Limit(x) => x.fmt(f),
            Expr::Quota(x) => x.fmt(f),
            Expr::Last(x) => x.fmt(f),
            Expr::Connlimit(x) => x.fmt(f),
            Expr::Objref(x) => x.fmt(f),
            Expr::Log(x) => x.fmt(f),
            Expr::Exthdr(x) => x.fmt(f),
            Expr::ExthdrSet(x) => x.fmt(f),
            Expr::ExthdrReset(x) => x.fmt(f),
            Expr::Numgen(x) => x.fmt(f),
            Expr::Hash(x) => x.fmt(f),
            Expr::Fib(x) => x.fmt(f),
            Expr::Rt(x) => x.fmt(f),
            Expr::Ct(x) => x.fmt(f),
            Expr::CtSet(x) => x.fmt(f),
            Expr::Notrack => f.write_str("notrack"),
            Expr::Nat(x) => x.fmt(f),
            Expr::Masq(x) => x.fmt(f),
            Expr::Redir(x) => x.fmt(f),
            Expr::Reject(x) => x.fmt(f),
            Expr::Dup(x) => x.fmt(f),
            Expr::Fwd(x) => x.fmt(f),
            Expr::Queue(x) => x.fmt(f),
            Expr::Tproxy(x) => x.fmt(f),
            Expr::Synproxy(x) => x.fmt(f),
            Expr::Socket(x) => x.fmt(f),
            Expr::Osf(x) => x.fmt(f),
            Expr::Xfrm(x) => x.fmt(f),
            Expr::Tunnel(x) => x.fmt(f),
            Expr::Inner(x) => x.fmt(f),
            Expr::FlowOffload(x) => x.fmt(f),
            Expr::Xt(x) => x.fmt(f),
        }?;
        f.write_str(" ]")
    }
}

/// Families as libnftnl writes them.
fn family_word(nfproto: u8) -> &'static str {
    match nfproto {
        1 => "inet",
        2 => "ip",
        3 => "arp",
        5 => "netdev",
        7 => "bridge",
        10 => "ip6",
        _ => "unknown",
    }
}
