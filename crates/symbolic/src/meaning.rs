// SPDX-License-Identifier: Apache-2.0

//! What operations mean for all packets at once: one match, as `Op::info()` is for other engines.
//!
//! An operation gets the packets that reach it, and answers which of them go on with the next
//! operation and which end the rule with a verdict; the others break. What it writes into
//! registers and packet counts for those that go on. The interpreter (`penstock_program::interp`)
//! says what is right; tests compare the two.

mod connection;
mod exthdr;
mod outside;
mod packet;
mod registers;
mod sets;

use std::sync::Arc;

use penstock_program::expr::RejectType;
use penstock_program::image::LinkedVerdict;
use penstock_program::op::Op;
use penstock_program::{DynamicSet, Family};

use crate::diagram::{Region, Undecided};
use crate::field::Base;
use crate::machine::{Machine, known};
use crate::universe::Universe;

/// What follows an operation for the packets that reached it: none of these is a break.
#[derive(Default)]
pub struct Follows {
    /// They run the next operation.
    pub next: Option<Region>,
    /// They end the rule.
    pub ends: Vec<(Region, RuleEnd)>,
}

/// How a rule ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleEnd {
    /// A verdict.
    Verdict(LinkedVerdict),
    /// Dropped, after an answer was sent.
    Reject(RejectType, u8),
    /// Sent elsewhere.
    Stolen,
    /// To a listener whose number is in [`Done::Queue`](crate::Done::Queue).
    Queue {
        /// One of so many, from that number on.
        total: u16,
        /// Without a listener the packet goes on.
        bypass: bool,
    },
}

/// Why an operation cannot be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unable {
    /// A limit.
    Undecided(Undecided),
    /// It has no symbolic meaning yet.
    NoMeaning(&'static str),
}

impl From<Undecided> for Unable {
    fn from(undecided: Undecided) -> Self {
        Unable::Undecided(undecided)
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Number of the rule that rulesets which are compared have in common.
    pub rule: u32,
    /// Number of the operation among those of the rule that ask for inputs.
    pub op: u16,
    /// Family of the rule's table.
    pub family: Family,
    /// The chain runs before connection tracking.
    pub before_tracking: bool,
    /// Time for elements that expire, in nanoseconds since the epoch.
    pub now: u64,
}

/// An operation at work.
pub(crate) struct Meaning<'a> {
    pub universe: &'a mut Universe,
    pub machine: &'a mut Machine,
    pub at: At,
    /// Number of a set that packets change, which rulesets have in common.
    pub set_number: &'a dyn Fn(&Arc<DynamicSet>) -> u32,
    /// Elements of sets that packets change are taken as they are listed.
    pub listed: bool,
}

type Answer = Result<Follows, Unable>;

fn next(region: Region) -> Answer {
    Ok(Follows { next: Some(region), ends: Vec::new() })
}

fn ends(region: Region, end: RuleEnd) -> Answer {
    Ok(Follows { next: None, ends: vec![(region, end)] })
}

fn unable(reason: &'static str) -> Answer {
    Err(Unable::NoMeaning(reason))
}

impl Meaning<'_> {
    /// What an operation does with the packets of a region.
    pub fn of(&mut self, op: &Op, live: Region) -> Answer {
        match op {
            Op::Immediate { dst, len, data } => {
                let data = data.get(..usize::from(*len)).unwrap_or(data);
                self.machine.load(*dst, &known(data));
                next(live)
            }
            Op::Verdict(verdict) => ends(live, RuleEnd::Verdict(*verdict)),
            Op::LoadLink { dst, len, offset } => self.header(Base::Link, *dst, *len, *offset, live),
            Op::LoadNetwork { dst, len, offset } => {
                self.header(Base::Network, *dst, *len, *offset, live)
            }
            Op::LoadTransport { dst, len, offset } => {
                self.header(Base::Transport, *dst, *len, *offset, live)
            }
            Op::LoadInner { .. } => unable("it looks behind the transport header"),
            Op::InTunnel(_) => unable("it looks into the packet of a tunnel"),
            Op::PayloadSet { .. } => self.payload_set(op, live),
            Op::Meta { key, dst } => self.meta(*key, *dst, live),
            Op::MetaSet { key, src } => self.meta_set(*key, *src, live),
            Op::CmpWord { src, equal, mask, data } => {
                self.compare_word(*src, *equal, *mask, *data, live)
            }
            Op::Cmp { op, src, len, data } => self.compare(*op, *src, *len, data, live),
            Op::Range { inside, src, len, ends } => self.range(*inside, *src, *len, ends, live),
            Op::MaskXorWord { src, dst, mask, xor } => {
                self.mask_xor(*src, *dst, &[*mask], &[*xor], live)
            }
            Op::MaskXor { src, dst, words, mask_xor } => {
                let words = usize::from(*words).min(4);
                self.mask_xor(*src, *dst, &mask_xor[0][..words], &mask_xor[1][..words], live)
            }
            Op::Lshift { src, dst, words, bits } => {
                self.shift(*src, *dst, *words, i64::from(*bits), live)
            }
            Op::Rshift { src, dst, words, bits } => {
                self.shift(*src, *dst, *words, -i64::from(*bits), live)
            }
            Op::Combine { .. } => self.combine(op, live),
            Op::Byteorder { src, dst, len, size } => self.byteorder(*src, *dst, *len, *size, live),
            Op::Lookup { .. } => self.lookup(op, live),
            Op::LookupDynamic { .. } => self.lookup_dynamic(op, live),
            Op::SetUpdate(update) => self.set_update(update, live),
            Op::ObjectMap { src, key_len, set } => self.object_map(*src, *key_len, set, live),
            Op::Counter(_) | Op::Log(_) => next(live),
            Op::Stateful(stateful) => self.stateful(stateful, live),
            Op::Exthdr { .. } => self.exthdr(op, live),
            Op::TcpOptionSet { kind, len, src, .. } => self.tcp_option(*kind, *src, *len, live),
            Op::TcpOptionReset { .. } => unable("it removes a TCP option"),
            Op::NumgenInc { modulus, offset, dst, .. }
            | Op::NumgenRandom { modulus, offset, dst }
            | Op::Jhash { modulus, offset, dst, .. }
            | Op::Symhash { modulus, offset, dst } => self.number(*modulus, *offset, *dst, live),
            Op::Fib { .. }
            | Op::Rt { .. }
            | Op::Socket { .. }
            | Op::Osf { .. }
            | Op::Xfrm { .. }
            | Op::Tunnel { .. } => self.ask(op, live),
            Op::Reject(reject) => ends(live, RuleEnd::Reject(reject.kind, reject.code)),
            Op::Dup { addr, v6, dev } => {
                self.sent(1, *addr, *v6, *dev, &live)?;
                next(live)
            }
            Op::Fwd { addr: Some(_), .. } => unable("it forwards to a neighbour"),
            Op::Fwd { dev, addr: None, v6 } => {
                self.sent(2, None, *v6, Some(*dev), &live)?;
                ends(live, RuleEnd::Stolen)
            }
            Op::CtState { dst } => {
                let state = self.ct_state()?;
                self.machine.load(*dst, &state);
                next(live)
            }
            Op::Ct { key, dir, dst } => self.ct(*key, *dir, *dst, live),
            Op::CtSet { key, src, len } => self.ct_set(*key, *src, *len, live),
            Op::CtSetZone { .. } => unable("it sets a zone"),
            Op::Notrack => self.notrack(live),
            Op::Nat(nat) => self.nat(nat, live),
            Op::Queue(queue) => self.queue(queue, live),
            Op::Synproxy(_) => unable("synproxy answers for a server"),
            Op::FlowOffload(flowtable) => self.flow_offload(*flowtable, live),
            Op::Tproxy { .. } => unable("tproxy depends on sockets"),
            Op::Extension(_) => unable("an extension of x_tables"),
        }
    }

    /// Packets of `live` that are in a region, or that are not.
    fn only(&mut self, live: Region, region: &Region, inside: bool) -> Answer {
        next(match inside {
            true => self.universe.diagrams.and(&live, region)?,
            false => self.universe.diagrams.minus(&live, region)?,
        })
    }
}
