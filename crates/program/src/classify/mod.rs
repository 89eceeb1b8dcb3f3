// SPDX-License-Identifier: Apache-2.0

//! Long chains: which of their rules a packet has to meet.
//!
//! Most rules of a long chain do nothing to most packets, since something that they ask of the
//! packet does not hold. A [`Lookup`] of a chain knows what each rule asks first, as far as that
//! can be told beforehand, and finds the next rule that may do something; only such rules are run.
//! The result is that of a walk over all rules:
//!
//! - what a rule asks is taken from the operations before the first one that does something, and
//!   rules with fulfilled conditions are run, with all their conditions again where a condition is
//!   more than the lookup knows;
//! - the packet is looked at again for each search, so that a rule may change what later rules ask
//!   for;
//! - rules of which nothing is known are always run.
//!
//! ```text
//! rules -> conditions on bytes (recognise) -> fields, intervals (fields) -> penstock_classify
//! ```

mod chain;
mod fields;
mod recognise;

use penstock_classify::{Builder, Classifier, Location, Size};
use penstock_packet::Packet;
use penstock_wire::ethernet;

use crate::eval::{Registers, load_ct_mark, load_ct_state, load_meta};
use crate::linked::LinkedRule;
use crate::op::Op;
use crate::operand::MetaKey;
use crate::{Env, Family};
use fields::Fields;
use recognise::{Conditions, conditions};

pub use chain::{ChainLookup, Finder};
pub use recognise::{Metadata, Source, Span, Version};

/// Chains with fewer rules that ask something of packets have no [`Lookup`].
pub const WORTHWHILE: usize = 8;

/// Packets that are looked up together at most.
pub const PACKETS: usize = 32;

/// The next rule that may do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its number in the chain, from 0.
    pub rule: u32,
    /// So many of its first operations need not run: they do nothing but ask what holds.
    pub skip: u32,
}

/// Finds rules of one chain.
#[derive(Clone, Debug)]
pub struct Lookup {
    classifier: Classifier,
    fields: Vec<Span>,
    /// Some field depends on the version of IP.
    versions: bool,
    /// Rules that are always run, ascending.
    always: Vec<u32>,
    /// [`Candidate::skip`] of each rule; bytes, so that they stay in a near cache.
    skips: Vec<u8>,
    /// Rules before this one are all run.
    start: u32,
}

impl Lookup {
    /// For the rules of a chain, with their operations in `ops`. `None` if it would not pay: fewer
    /// than `least` rules have a condition that can be looked up.
    pub fn new(rules: &[LinkedRule], ops: &[Op], least: usize) -> Option<Lookup> {
        let ops = |rule: &LinkedRule| ops.get(rule.range()).unwrap_or(&[]);
        let conditions: Vec<Conditions> = rules.iter().map(|r| conditions(ops(r))).collect();
        let fields = Fields::new(&conditions);
        let mut builder = Builder::new(&fields.widths());
        let (mut always, mut skips) = (Vec::new(), Vec::with_capacity(rules.len()));
        let mut asking = 0;
        for (rule, conditions) in (0..).zip(&conditions) {
            let (alternatives, exact) = fields.intervals(conditions);
            skips.push(if exact { u8::try_from(conditions.exact).unwrap_or(0) } else { 0 });
            if conditions.never {
                continue;
            }
            if alternatives.iter().any(Vec::is_empty) {
                always.push(rule);
                continue;
            }
            asking += 1;
            alternatives.iter().for_each(|intervals| builder.add(rule, intervals));
        }
        drop(conditions);
        if asking < least.max(1) {
            return None;
        }
        let start = (0..).zip(&always).take_while(|(i, rule)| i == *rule).count() as u32;
        let versions = fields
            .0
            .iter()
            .any(|f| matches!(f.source, Source::Network(Version::Four | Version::Six)));
        Some(Lookup {
            classifier: builder.build()?,
            fields: fields.0,
            versions,
            always,
            skips,
            start,
        })
    }

    /// Rules before this one are all run, one after the other.
    pub fn start(&self) -> u32 {
        self.start
    }

    /// What finds rules, by their numbers in the chain: a box for each alternative of a rule.
    pub fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    /// What its dimensions are.
    pub fn fields(&self) -> &[Span] {
        &self.fields
    }

    /// Rules that the classifier does not know and that are always run, ascending.
    pub fn always(&self) -> &[u32] {
        &self.always
    }

    /// So many first operations of a rule only ask what its boxes say: the packet has the bytes
    /// that they load, and lies in one of them.
    pub fn skip(&self, rule: u32) -> u32 {
        self.skips.get(rule as usize).copied().unwrap_or(0).into()
    }

    /// How large it is.
    pub fn size(&self) -> Size {
        self.classifier.size()
    }

    /// The first rule from `from` on that may do something to the packet.
    pub fn next<E: Env>(&self, from: u32, packet: &Packet, env: &mut E) -> Option<Candidate> {
        let (location, whole) = self.locate(packet, env);
        let found = self.classifier.next(&location, from).unwrap_or(u32::MAX);
        self.candidate(found, from, whole)
    }

    /// What [`Lookup::next`] finds first for each of several packets, at most [`PACKETS`]: while
    /// the memory that one needs is on its way, the others continue.
    pub fn first_of<E: Env>(
        &self,
        packets: &[Packet],
        env: &mut E,
        found: &mut [Option<Candidate>],
    ) {
        let mut locations = [Location::default(); PACKETS];
        let mut whole = [false; PACKETS];
        for ((packet, location), whole) in packets.iter().zip(&mut locations).zip(&mut whole) {
            (*location, *whole) = self.locate(packet, env);
        }
        let count = packets.len().min(found.len()).min(PACKETS);
        let mut rules = [u32::MAX; PACKETS];
        self.classifier.next_batch(&locations[..count], 0, &mut rules[..count]);
        for ((found, rule), whole) in found.iter_mut().zip(rules).zip(whole).take(count) {
            *found = self.candidate(rule, 0, whole);
        }
    }

    /// The first of a rule that was found, or `u32::MAX`, and those that are always run.
    #[inline]
    fn candidate(&self, found: u32, from: u32, whole: bool) -> Option<Candidate> {
        let always = self.always.get(self.always.partition_point(|rule| *rule < from));
        let rule = found.min(always.copied().unwrap_or(u32::MAX));
        let skip = if whole { self.skips.get(rule as usize).copied().unwrap_or(0) } else { 0 };
        let skip = u32::from(skip);
        (rule != u32::MAX).then_some(Candidate { rule, skip })
    }

    /// Where the packet is, and whether it has all that rules may ask for: where it has not, zeros
    /// stand for it, and rules that are found have to ask again.
    fn locate<E: Env>(&self, packet: &Packet, env: &mut E) -> (Location, bool) {
        let mut location = Location::default();
        let mut whole = true;
        let versions = if self.versions { versions(packet, env) } else { [false; 2] };
        let network = packet.network();
        let transport = transport(packet);
        whole &= packet.transport().is_none_or(|t| t.fragment_offset == 0);
        for (dimension, field) in self.fields.iter().enumerate() {
            let bytes = match field.source {
                Source::Network(Version::Four) if !versions[0] => continue,
                Source::Network(Version::Six) if !versions[1] => continue,
                Source::Network(_) => network.get(usize::from(field.at)..),
                Source::Transport => transport.and_then(|bytes| bytes.get(usize::from(field.at)..)),
                Source::Link if packet.has_link() => packet.frame().get(usize::from(field.at)..),
                Source::Link => None,
                Source::Metadata(what)
                    if usize::from(field.len) == what.width() && is_quick(what) =>
                {
                    match quick(what, packet, env) {
                        Some(value) => self.classifier.place_word(&mut location, dimension, value),
                        None => whole = false,
                    }
                    continue;
                }
                Source::Metadata(what) => {
                    let mut registers = Registers::new();
                    if load(what, &mut registers, packet, env) {
                        let loaded = registers.bytes(0, what.width() as u8);
                        let mut bytes = [0; 16];
                        for (i, byte) in loaded.iter().enumerate() {
                            bytes[what.place(i)] = *byte;
                        }
                        self.place(
                            &mut location,
                            dimension,
                            field,
                            &bytes[usize::from(field.at)..],
                        );
                    } else {
                        whole = false;
                    }
                    continue;
                }
            };
            match bytes {
                Some(bytes) => whole &= self.place(&mut location, dimension, field, bytes),
                None => whole = false,
            }
        }
        (location, whole)
    }

    /// Sets a dimension from the bytes at a field; whether all are there.
    #[inline]
    fn place(&self, location: &mut Location, dimension: usize, field: &Span, bytes: &[u8]) -> bool {
        let len = usize::from(field.len);
        match (len, bytes) {
            (4, [a, b, c, d, ..]) => {
                self.classifier.place_word(
                    location,
                    dimension,
                    u32::from_be_bytes([*a, *b, *c, *d]),
                );
            }
            (2, [a, b, ..]) => {
                self.classifier.place_word(
                    location,
                    dimension,
                    u16::from_be_bytes([*a, *b]).into(),
                );
            }
            (1, [a, ..]) => self.classifier.place_word(location, dimension, (*a).into()),
            _ => {
                let there = bytes.len().min(len);
                let mut value = [0; 16];
                value[16 - len..][..there].copy_from_slice(&bytes[..there]);
                self.classifier.place(location, dimension, u128::from_be_bytes(value));
                return there == len;
            }
        }
        true
    }
}

/// Whether the packet is one of IPv4, of IPv6, to any rule that may ask.
fn versions<E: Env>(packet: &Packet, env: &E) -> [bool; 2] {
    let (family, protocol) = (env.context().family, packet.meta.protocol);
    [
        family == Family::Ip || protocol == ethernet::IPV4,
        family == Family::Ip6 || protocol == ethernet::IPV6,
    ]
}

/// The transport header as the shortest loads see it, which look into later fragments, too.
fn transport(packet: &Packet) -> Option<&[u8]> {
    packet.transport_bytes_for_load(1, 0)
}

/// Whether [`quick`] knows it.
#[inline]
fn is_quick(what: Metadata) -> bool {
    use MetaKey::{Iif, L4Proto, Mark, NfProto, Oif, Protocol};
    matches!(
        what,
        Metadata::CtState | Metadata::Meta(L4Proto | NfProto | Protocol | Mark | Iif | Oif)
    )
}

/// What rules ask for most, without a detour over registers: the number that [`load`] would load.
#[inline]
fn quick<E: Env>(what: Metadata, packet: &Packet, env: &E) -> Option<u32> {
    let meta = &packet.meta;
    Some(match what {
        Metadata::Meta(MetaKey::L4Proto) => packet.transport()?.protocol.into(),
        Metadata::Meta(MetaKey::NfProto) => (env.context().family as u8).into(),
        Metadata::Meta(MetaKey::Protocol) => meta.protocol.into(),
        Metadata::Meta(MetaKey::Mark) => meta.mark,
        Metadata::Meta(MetaKey::Iif) => meta.iif,
        Metadata::Meta(MetaKey::Oif) => meta.oif,
        Metadata::CtState => meta.ct.state(),
        Metadata::Meta(_) | Metadata::CtMark => return None,
    })
}

/// Loads into the first register; whether there is something to load.
fn load<E: Env>(what: Metadata, registers: &mut Registers, packet: &Packet, env: &mut E) -> bool {
    match what {
        Metadata::Meta(key) => load_meta(key, registers, packet, env),
        Metadata::CtState => load_ct_state(registers, packet),
        Metadata::CtMark => load_ct_mark(registers, packet, env),
    }
}
