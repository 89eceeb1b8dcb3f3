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
mod notrack;
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
mod statement;
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
pub use lookup::*;
pub use meta::*;
pub use nat::*;
pub use notrack::*;
pub use numgen::*;
pub use objref::*;
pub use osf::*;
pub use payload::*;
pub use queue::*;
pub use quota::*;
pub use range::*;
pub use rt::*;
pub use socket::*;
pub use statement::*;
pub use tproxy::*;
pub use tunnel::*;
pub use xfrm::*;
pub use xt::*;

use serde::{Deserialize, Serialize};

use std::fmt;
use std::sync::Arc;

use crate::check::Reason;
use crate::hook::Hooks;
use crate::linking::{LinkReason, Linking};
use crate::needs::Needs;
use crate::op::Op;
use crate::reference::Reference;
use crate::state::State;
use crate::{Errno, Family, Register};

pub use crate::family::{NFPROTO_IPV4, NFPROTO_IPV6};
pub use crate::operand::*;

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
    /// Puts a verdict into it, of a map where one is named.
    Verdict(Register, Option<&'a str>),
}

/// How an expression uses a set.
#[derive(Clone, Copy, Debug)]
pub enum SetAccess<'a> {
    /// Looks a key up.
    Lookup(&'a Lookup),
    /// Changes an element.
    Update(&'a Dynset),
    /// Runs the object that a map has for a key.
    Objects {
        /// The key.
        sreg: Register,
        /// The map.
        set: &'a Arc<str>,
    },
}

/// What there is to say about an expression, apart from what it does with a packet
/// ([`interp`](crate::interp)). Each kind says it in its file.
///
/// What has no default has to be said of each; the defaults are what most expressions are.
pub trait Expression: fmt::Display {
    /// The kernel's name (`NFTA_EXPR_NAME`).
    fn name(&self) -> &'static str;

    /// Visits the registers that it reads, then those that it writes, in a table of a family.
    fn uses<'a>(&'a self, family: Family, visit: &mut dyn FnMut(Use<'a>));

    /// Whether it only matches: it changes nothing but registers and state of its own, and decides
    /// nothing but whether the rule continues.
    fn only_matches(&self) -> bool;

    /// Its operation, with all names resolved.
    ///
    /// # Errors
    /// A name is unknown, an operand malformed, or the path cannot run it.
    fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason>;

    /// Whether the path can run it, whatever it names. The error says why not.
    ///
    /// # Errors
    /// What is missing.
    fn runnable(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// Checks operands, without registers ([`Expression::uses`]) and names.
    ///
    /// # Errors
    /// Why the kernel refuses it (`ops->init`).
    fn verify(&self) -> Result<(), Reason> {
        Ok(())
    }

    /// Whether a family has it. `ENOENT`: the family does not know it (`nft_expr_type_get()`).
    ///
    /// # Errors
    /// The kernel's error (`ops->init`).
    fn available(&self, _: Family) -> Result<(), Errno> {
        Ok(())
    }

    /// The base chains that may reach it, in a table of a family.
    fn hooks(&self, _: Family) -> Hooks {
        Hooks::ANY
    }

    /// Adds what it needs of the packet path, in a table of a family.
    fn needs(&self, _: Family, _: &mut Needs) {}

    /// Visits the names in it.
    fn references<'a>(&'a self, _: &mut dyn FnMut(Reference<'a>)) {}

    /// Gives chains and sets that it names the new name that `renamed` has for them.
    fn rename(&mut self, _: &dyn Fn(Reference<'_>) -> Option<Arc<str>>) {}

    /// How it uses a set, if it does.
    fn set_access(&self) -> Option<SetAccess<'_>> {
        None
    }

    /// Whether it has state of its own that outlives a packet: then [`Expression::new_state`] makes
    /// one.
    fn is_stateful(&self) -> bool {
        false
    }

    /// Its state to begin with, at time `now` (ns), from which times in it count back.
    fn new_state(&self, _now: u64) -> Option<State> {
        None
    }

    /// The name by which all expressions of a ruleset that have it share one state, in a table of a
    /// family; `None` if the state is its own.
    fn shared_name(&self, _: Family) -> Option<String> {
        None
    }

    /// Takes note, at time `now` (ns), that it shares a state that is there already.
    fn join(&self, _: &State, _now: u64) {}

    /// As a statement that elements of sets can have (`NFT_EXPR_STATEFUL`).
    fn as_statement(&self) -> Option<&dyn Statement> {
        None
    }
}

/// Makes [`Expr`] of the list of expressions, and hands each question on to the one that is there.
macro_rules! expressions {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One VM expression.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub enum Expr {
            $($(#[$doc])* $name($name),)*
        }

        /// As nft's debug output: `[ payload load 2b @ transport header + 2 => reg 1 ]`.
        impl fmt::Display for Expr {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[ ")?;
                match self {
                    $(Expr::$name(x) => x.fmt(f)?,)*
                }
                f.write_str(" ]")
            }
        }

        impl Expr {
            /// The kernel's error where a base chain may not reach it.
            pub fn wrong_hook(&self) -> Errno {
                if matches!(self, Expr::Xt(_)) { Errno::Einval } else { Errno::Eopnotsupp }
            }

            /// The kernel's name (`NFTA_EXPR_NAME`).
            pub fn name(&self) -> &'static str {
                match self {
                    $(Expr::$name(x) => x.name(),)*
                }
            }

            /// [`Expression::uses`].
            pub fn uses<'a>(&'a self, family: Family, visit: &mut dyn FnMut(Use<'a>)) {
                match self {
                    $(Expr::$name(x) => x.uses(family, visit),)*
                }
            }

            /// [`Expression::only_matches`].
            pub fn only_matches(&self) -> bool {
                match self {
                    $(Expr::$name(x) => x.only_matches(),)*
                }
            }

            /// [`Expression::link`].
            ///
            /// # Errors
            /// A name is unknown, an operand malformed, or the path cannot run it.
            #[inline]
            pub fn link(&self, linking: &Linking<'_>) -> Result<Op, LinkReason> {
                match self {
                    $(Expr::$name(x) => x.link(linking),)*
                }
            }

            /// [`Expression::runnable`].
            ///
            /// # Errors
            /// What is missing.
            #[inline]
            pub fn runnable(&self) -> Result<(), &'static str> {
                match self {
                    $(Expr::$name(x) => x.runnable(),)*
                }
            }

            /// [`Expression::verify`].
            ///
            /// # Errors
            /// Why the kernel refuses it.
            pub fn verify(&self) -> Result<(), Reason> {
                match self {
                    $(Expr::$name(x) => x.verify(),)*
                }
            }

            /// [`Expression::available`].
            ///
            /// # Errors
            /// The kernel's error.
            pub fn available(&self, family: Family) -> Result<(), Errno> {
                match self {
                    $(Expr::$name(x) => x.available(family),)*
                }
            }

            /// [`Expression::hooks`].
            pub fn hooks(&self, family: Family) -> Hooks {
                match self {
                    $(Expr::$name(x) => x.hooks(family),)*
                }
            }

            /// [`Expression::needs`].
            #[inline]
            pub fn needs(&self, family: Family, needs: &mut Needs) {
                match self {
                    $(Expr::$name(x) => x.needs(family, needs),)*
                }
            }

            /// [`Expression::references`].
            pub fn references<'a>(&'a self, visit: &mut dyn FnMut(Reference<'a>)) {
                match self {
                    $(Expr::$name(x) => x.references(visit),)*
                }
            }

            /// [`Expression::rename`].
            pub fn rename(&mut self, renamed: &dyn Fn(Reference<'_>) -> Option<Arc<str>>) {
                match self {
                    $(Expr::$name(x) => x.rename(renamed),)*
                }
            }

            /// [`Expression::set_access`].
            pub fn set_access(&self) -> Option<SetAccess<'_>> {
                match self {
                    $(Expr::$name(x) => x.set_access(),)*
                }
            }

            /// [`Expression::is_stateful`].
            #[inline]
            pub fn is_stateful(&self) -> bool {
                match self {
                    $(Expr::$name(x) => x.is_stateful(),)*
                }
            }

            /// [`Expression::new_state`].
            pub fn new_state(&self, now: u64) -> Option<State> {
                match self {
                    $(Expr::$name(x) => x.new_state(now),)*
                }
            }

            /// [`Expression::shared_name`].
            pub fn shared_name(&self, family: Family) -> Option<String> {
                match self {
                    $(Expr::$name(x) => x.shared_name(family),)*
                }
            }

            /// [`Expression::join`].
            pub fn join(&self, state: &State, now: u64) {
                match self {
                    $(Expr::$name(x) => x.join(state, now),)*
                }
            }

            /// [`Expression::as_statement`].
            pub fn as_statement(&self) -> Option<&dyn Statement> {
                match self {
                    $(Expr::$name(x) => x.as_statement(),)*
                }
            }
        }
    };
}

expressions! {
    /// A constant or a verdict.
    Immediate,
    /// Packet bytes into a register.
    Payload,
    /// Packet bytes from a register.
    PayloadSet,
    /// Metadata into a register.
    Meta,
    /// Metadata from a register.
    MetaSet,
    /// Compare with a constant.
    Cmp,
    /// Compare with an interval.
    Range,
    /// Mask, exclusive-or, shift.
    Bitwise,
    /// Between host and network order.
    Byteorder,
    /// Find in a set or map.
    Lookup,
    /// Change a set.
    Dynset,
    /// Count.
    Counter,
    /// Limit a rate.
    Limit,
    /// Limit an amount.
    Quota,
    /// Note the time.
    Last,
    /// Limit connections.
    Connlimit,
    /// Run a named object.
    Objref,
    /// Report.
    Log,
    /// Options and extension headers into a register.
    Exthdr,
    /// Write a TCP option.
    ExthdrSet,
    /// Remove a TCP option.
    ExthdrReset,
    /// Running and random numbers.
    Numgen,
    /// Hashes.
    Hash,
    /// Ask the routing table.
    Fib,
    /// The route found.
    Rt,
    /// Connection state into a register.
    Ct,
    /// Connection state from a register.
    CtSet,
    /// Do not track.
    Notrack,
    /// Translate.
    Nat,
    /// Masquerade.
    Masq,
    /// Redirect to this host.
    Redir,
    /// Answer with an error.
    Reject,
    /// Send a copy.
    Dup,
    /// Send on a device.
    Fwd,
    /// Hand to a listener.
    Queue,
    /// Assign a local socket.
    Tproxy,
    /// Stand in for a server.
    Synproxy,
    /// Local socket into a register.
    Socket,
    /// Operating system into a register.
    Osf,
    /// IPsec state into a register.
    Xfrm,
    /// Tunnel metadata into a register.
    Tunnel,
    /// Match inside a tunnel.
    Inner,
    /// Put the flow into a flowtable.
    FlowOffload,
    /// An x_tables extension.
    Xt,
}

/// The family as libnftnl writes it.
fn family_word(nfproto: u8) -> &'static str {
    Family::from_number(nfproto).map_or("unknown", Family::name)
}

/// Families that have expressions about connections (`nf_ct_netns_get()`).
fn tracks_connections(family: Family) -> Result<(), Errno> {
    match family {
        Family::Ip | Family::Ip6 | Family::Inet | Family::Bridge => Ok(()),
        Family::Arp | Family::Netdev => Err(Errno::Eproto),
    }
}
