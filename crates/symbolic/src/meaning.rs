// SPDX-License-Identifier: Apache-2.0

//! What operations mean for all packets at once: one match, as `Op::info()` is for other engines.
//!
//! An operation gets the packets that reach it, and answers which of them go on with the next
//! operation and which end the rule with a verdict; the others break. What it writes into
//! registers and packet counts for those that go on. The interpreter (`penstock_program::interp`)
//! says what is right; tests compare the two.

use penstock_packet::CtInfo;
use penstock_program::expr::*;
use penstock_program::image::{LinkedVerdict, Stateful};
use penstock_program::op::{Load, Op};
use penstock_program::{Family, Hook};
use penstock_wire::protocol;

use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region, Undecided};
use crate::field::{Base, Done, Field, Input, What};
use crate::lookup;
use crate::machine::{Machine, host_words, known};
use crate::universe::{Place, Universe, state};

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
    /// To a listener whose number is in [`Done::Queue`].
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
    pub set_number: &'a dyn Fn(&std::sync::Arc<penstock_program::DynamicSet>) -> u32,
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
            Op::LoadInner { .. } => Err(Unable::NoMeaning("it looks behind the transport header")),
            Op::InTunnel(_) => Err(Unable::NoMeaning("it looks into the packet of a tunnel")),
            Op::PayloadSet { .. } => self.payload_set(op, live),
            Op::Meta { key, dst } => self.meta(*key, *dst, live),
            Op::MetaSet { key, src } => self.meta_set(*key, *src, live),
            Op::CmpWord { src, equal, mask, data } => {
                let bits = self.machine.read(*src, 4);
                let (data, mask) = (data.to_ne_bytes(), mask.to_ne_bytes());
                let same = bits::equal(&self.universe.diagrams, &bits, &data, &mask)?;
                self.only(live, &same, *equal)
            }
            Op::Cmp { op, src, len, data } => {
                let bits = self.machine.read(*src, *len);
                let data = &data[..bits.len() / 8];
                let d = &self.universe.diagrams;
                let (region, holds) = match op {
                    CmpOp::Eq => (bits::equal(d, &bits, data, &[0xff; 16])?, true),
                    CmpOp::Neq => (bits::equal(d, &bits, data, &[0xff; 16])?, false),
                    CmpOp::Lt => (bits::at_least(d, &bits, data)?, false),
                    CmpOp::Lte => (bits::at_most(d, &bits, data)?, true),
                    CmpOp::Gt => (bits::at_most(d, &bits, data)?, false),
                    CmpOp::Gte => (bits::at_least(d, &bits, data)?, true),
                };
                self.only(live, &region, holds)
            }
            Op::Range { inside, src, len, ends } => {
                let bits = self.machine.read(*src, *len);
                let [from, to] = ends.each_ref().map(|end| &end[..bits.len() / 8]);
                let d = &self.universe.diagrams;
                let region =
                    d.and(&bits::at_least(d, &bits, from)?, &bits::at_most(d, &bits, to)?)?;
                self.only(live, &region, *inside)
            }
            Op::MaskXorWord { src, dst, mask, xor } => {
                self.mask_xor(*src, *dst, &[*mask], &[*xor])?;
                next(live)
            }
            Op::MaskXor { src, dst, words, mask_xor } => {
                let words = usize::from(*words).min(4);
                self.mask_xor(*src, *dst, &mask_xor[0][..words], &mask_xor[1][..words])?;
                next(live)
            }
            Op::Lshift { src, dst, words, bits } => {
                self.shift(*src, *dst, *words, i64::from(*bits));
                next(live)
            }
            Op::Rshift { src, dst, words, bits } => {
                self.shift(*src, *dst, *words, -i64::from(*bits));
                next(live)
            }
            Op::Combine { op, src, other, dst, words } => {
                for i in 0..*words {
                    let a = self.machine.read(src + i, 4);
                    let b = self.machine.read(other + i, 4);
                    let d = &self.universe.diagrams;
                    let combined: Decided<Vec<Bit>> = a
                        .iter()
                        .zip(&b)
                        .map(|(a, b)| match op {
                            BoolOp::And => a.and(b, d),
                            BoolOp::Or => a.or(b, d),
                            BoolOp::Xor => a.xor(b, d),
                        })
                        .collect();
                    self.machine.load(dst + i, &combined?);
                }
                next(live)
            }
            Op::Byteorder { src, dst, len, size } => {
                let size = usize::from(*size).max(1);
                let mut value = self.machine.read(*src, *len);
                value.truncate(value.len() / (size * 8) * (size * 8));
                if cfg!(target_endian = "little") {
                    value = value
                        .chunks(size * 8)
                        .flat_map(|number| number.chunks(8).rev().flatten().cloned())
                        .collect();
                }
                self.machine.store(*dst, &value);
                next(live)
            }
            Op::Lookup { src, key_len, inverse, load, set } => {
                let key = self.machine.read(*src, *key_len);
                if live.is_none() {
                    return Ok(Follows::default());
                }
                if *load == Load::Nothing && !lookup::may_end(set, self.at.now) {
                    let (address, now) = (std::sync::Arc::as_ptr(set) as usize, self.at.now);
                    let found = self
                        .universe
                        .found_once(address, &key, |d| lookup::members(d, &key, set, now))?;
                    return self.only(live, &found, !*inverse);
                }
                let found =
                    lookup::found(&self.universe.diagrams, &key, set, *load, self.at.now, &live)?;
                self.looked_up(found, *inverse, *load, live)
            }
            Op::LookupDynamic { src, key_len, inverse, load, set } => {
                if *load != Load::Nothing {
                    return Err(Unable::NoMeaning("it reads a map that packets change"));
                }
                let key = self.machine.read(*src, *key_len);
                let found = match self.listed {
                    true => lookup::listed(&self.universe.diagrams, &key, set, self.at.now)?,
                    false => self.member(set, &key)?,
                };
                self.only(live, &found, !*inverse)
            }
            Op::SetUpdate(update) => {
                let number = (self.set_number)(&update.set);
                let done = Done::Element(number);
                if update.op == DynsetOp::Delete {
                    self.machine.done(self.universe, &live, done, update.op as u32 + 1)?;
                    return next(live);
                }
                let added = self.input(What::Added)?;
                let there = self.universe.diagrams.and(&live, &added)?;
                self.machine.done(self.universe, &there, done, update.op as u32 + 1)?;
                self.only(live, &added, !update.invert)
            }
            Op::ObjectMap { src, key_len, set } => {
                let key = self.machine.read(*src, *key_len);
                let objects = lookup::objects(&self.universe.diagrams, &key, set, self.at.now)?;
                let Some(found) = objects else {
                    return Err(Unable::NoMeaning("a map of objects other than counters"));
                };
                self.only(live, &found, true)
            }
            Op::Counter(_) => next(live),
            Op::Stateful(stateful) => self.stateful(stateful, live),
            Op::Log(_) => next(live),
            Op::Exthdr { .. } => {
                Err(Unable::NoMeaning("it looks for an option or an extension header"))
            }
            Op::TcpOptionSet { kind, len, src, .. } => {
                // Whether the packet has the option makes no difference for what follows but that
                // the rule ends: nothing after it may depend on that.
                let value = self.machine.read(*src, (*len).min(4));
                let mut bits = vec![Bit::ZERO; 32 - value.len()];
                bits.extend(value);
                let field = Field::Done(Done::TcpOption(*kind));
                let has = self.asked(format!("tcp option {kind}"))?;
                let live = self.universe.diagrams.and(&live, &has)?;
                self.machine.write(self.universe, &live, field, &bits)?;
                next(live)
            }
            Op::TcpOptionReset { .. } => Err(Unable::NoMeaning("it removes a TCP option")),
            Op::NumgenInc { modulus, offset, dst, .. }
            | Op::NumgenRandom { modulus, offset, dst }
            | Op::Jhash { modulus, offset, dst, .. }
            | Op::Symhash { modulus, offset, dst } => {
                self.number(*modulus, *offset, *dst)?;
                next(live)
            }
            Op::Fib { result, flags, dst } => {
                let width = match result {
                    _ if u32::from(*flags) & FIB_PRESENT != 0 => 1,
                    FibResult::Oif | FibResult::AddrType => 4,
                    FibResult::OifName => 16,
                };
                self.ask(format!("fib {result:?} {flags}"), *dst, width, live)
            }
            Op::Rt { key, dst } => self.ask(format!("rt {key:?}"), *dst, key.width(), live),
            Op::Socket { key, level, dst } => {
                self.ask(format!("socket {key:?} {level}"), *dst, key.width(), live)
            }
            Op::Osf { ttl, version, dst, .. } => {
                self.ask(format!("osf {ttl} {version}"), *dst, 16, live)
            }
            Op::Xfrm { key, out, spnum, dst } => {
                self.ask(format!("ipsec {key:?} {out} {spnum}"), *dst, key.width(), live)
            }
            Op::Tunnel { key, dst } => self.ask(format!("tunnel {key:?}"), *dst, key.width(), live),
            Op::Reject(reject) => ends(live, RuleEnd::Reject(reject.kind, reject.code)),
            Op::Dup { addr, v6, dev } => {
                self.sent(1, *addr, *v6, *dev, &live)?;
                next(live)
            }
            Op::Fwd { dev, addr, v6 } => {
                if addr.is_some() {
                    return Err(Unable::NoMeaning("it forwards to a neighbour"));
                }
                self.sent(2, *addr, *v6, Some(*dev), &live)?;
                ends(live, RuleEnd::Stolen)
            }
            Op::CtState { dst } => {
                let state = self.ct_state()?;
                self.machine.load(*dst, &state);
                next(live)
            }
            Op::Ct { key, dir, dst } => self.ct(*key, *dir, *dst, live),
            Op::CtSet { key, src, len } => self.ct_set(*key, *src, *len, live),
            Op::CtSetZone { .. } => Err(Unable::NoMeaning("it sets a zone")),
            Op::Notrack => {
                let with = self.entry()?;
                let untracked = self.universe.diagrams.minus(&live, &with)?;
                self.machine.done(self.universe, &untracked, Done::Notrack, 1)?;
                next(live)
            }
            Op::Nat(nat) => {
                let own = match nat.family {
                    1 => self.universe.diagrams.all(),
                    family => self.nfproto(family)?,
                };
                let bound = self.universe.diagrams.and(&live, &own)?;
                self.nat(nat, &bound)?;
                let others = self.universe.diagrams.minus(&live, &own)?;
                let accept = RuleEnd::Verdict(LinkedVerdict::Accept);
                Ok(Follows { next: Some(others), ends: vec![(bound, accept)] })
            }
            Op::Queue(queue) => {
                match queue.sreg {
                    Some(slot) => {
                        let value = self.machine.read(slot, 4);
                        let number = host_words(&value)[16..].to_vec();
                        let field = Field::Done(Done::Queue);
                        self.machine.write(self.universe, &live, field, &number)?;
                    }
                    None => {
                        self.machine.done(self.universe, &live, Done::Queue, queue.num.into())?
                    }
                }
                let total = if queue.sreg.is_some() { 1 } else { queue.total.max(1) };
                ends(live, RuleEnd::Queue { total, bypass: queue.bypass })
            }
            Op::Synproxy(_) => Err(Unable::NoMeaning("synproxy answers for a server")),
            Op::FlowOffload(flowtable) => {
                let taken = self.input(What::Offloaded)?;
                let live = self.universe.diagrams.and(&live, &taken)?;
                self.machine.done(self.universe, &live, Done::Flowtable, flowtable.0 + 1)?;
                next(live)
            }
            Op::Tproxy { .. } => Err(Unable::NoMeaning("tproxy depends on sockets")),
            Op::Extension(_) => Err(Unable::NoMeaning("an extension of x_tables")),
        }
    }

    /// Packets of `live` that are in a region, or that are not.
    fn only(&mut self, live: Region, region: &Region, inside: bool) -> Answer {
        next(match inside {
            true => self.universe.diagrams.and(&live, region)?,
            false => self.universe.diagrams.minus(&live, region)?,
        })
    }

    /// Packets of a protocol family.
    fn nfproto(&mut self, family: u8) -> Decided<Region> {
        let bits = self.universe.bits(Field::Meta(MetaKey::NfProto))?;
        bits::equal(&self.universe.diagrams, &bits, &[family], &[0xff])
    }

    /// Packets that have so many bytes from the start of a header on.
    fn present(&mut self, base: Base, bytes: u16) -> Decided<Region> {
        match always_present(self.universe.place, base, bytes) {
            true => Ok(self.universe.diagrams.all()),
            false => self.universe.holds(Field::Present { base, bytes }),
        }
    }

    fn header(&mut self, base: Base, dst: u8, len: u8, offset: u16, live: Region) -> Answer {
        let Some(end) = offset.checked_add(len.into()) else { return next(live) };
        let there = self.present(base, end)?;
        let mut live = self.universe.diagrams.and(&live, &there)?;
        let of_fragments = matches!(len, 1 | 2 | 4) && offset.is_multiple_of(u16::from(len));
        if base == Base::Transport && !of_fragments {
            let later = self.universe.holds(Field::LaterFragment)?;
            live = self.universe.diagrams.minus(&live, &later)?;
        }
        let mut value = Vec::new();
        for at in offset..end {
            let field = Field::Header { base, at };
            if let Some(summed) = self.machine.summed.get(&field)
                && self.universe.diagrams.meet(summed, &live)?
            {
                return Err(Unable::NoMeaning("it reads a checksum that a rule has changed"));
            }
            value.extend(self.machine.field(self.universe, field)?);
        }
        self.machine.load(dst, &value);
        next(live)
    }

    fn payload_set(&mut self, op: &Op, live: Region) -> Answer {
        let &Op::PayloadSet { base, src, len, offset, csum_offset, csum_type, pseudo } = op else {
            return next(live);
        };
        let sum = (csum_type != ChecksumType::None).then_some(csum_offset);
        if !matches!(base, Base::Network | Base::Transport) {
            return Err(Unable::NoMeaning("it writes outside of network and transport header"));
        }
        let end = offset.saturating_add(len.into());
        let there = self.present(base, end)?;
        let mut live = self.universe.diagrams.and(&live, &there)?;
        if let Some(sum) = sum {
            let there = self.present(base, sum + 2)?;
            live = self.universe.diagrams.and(&live, &there)?;
        }
        if base == Base::Transport {
            let later = self.universe.holds(Field::LaterFragment)?;
            live = self.universe.diagrams.minus(&live, &later)?;
        }
        let value = self.machine.read(src, len);
        for (at, byte) in (offset..end).zip(value.chunks(8)) {
            self.machine.write(self.universe, &live, Field::Header { base, at }, byte)?;
        }
        if let Some(at) = sum {
            self.summed(base, at, &live)?;
        }
        if pseudo {
            for (protocols, at) in [
                (&[protocol::TCP][..], 16),
                (&[protocol::UDP, protocol::UDPLITE], 6),
                (&[protocol::ICMPV6], 2),
            ] {
                let carried = self.universe.bits(Field::Meta(MetaKey::L4Proto))?;
                for protocol in protocols {
                    let d = &self.universe.diagrams;
                    let of = bits::equal(d, &carried, &[*protocol], &[0xff])?;
                    let region = d.and(&live, &of)?;
                    self.summed(Base::Transport, at, &region)?;
                }
            }
        }
        next(live)
    }

    /// A checksum is brought up to date: what it is then is not known.
    fn summed(&mut self, base: Base, at: u16, region: &Region) -> Decided<()> {
        for at in [at, at + 1] {
            let all = self.machine.summed.entry(Field::Header { base, at });
            let all = all.or_insert_with(|| self.universe.diagrams.none());
            *all = self.universe.diagrams.or(all, region)?;
        }
        Ok(())
    }

    fn meta(&mut self, key: MetaKey, dst: u8, live: Region) -> Answer {
        let field = Field::Meta(key);
        let needs = match key {
            MetaKey::L4Proto => Some(Field::Transport),
            MetaKey::IifType => Some(Field::HasMeta(match self.universe.place.hook {
                Hook::Postrouting | Hook::Egress => MetaKey::Oif,
                _ => MetaKey::Iif,
            })),
            MetaKey::IifGroup | MetaKey::IifKind => Some(Field::HasMeta(MetaKey::Iif)),
            MetaKey::OifType | MetaKey::OifGroup | MetaKey::OifKind => {
                Some(Field::HasMeta(MetaKey::Oif))
            }
            MetaKey::SkUid | MetaKey::SkGid | MetaKey::Cgroup => {
                Some(Field::HasMeta(MetaKey::SkUid))
            }
            MetaKey::RtClassid
            | MetaKey::BriIifPvid
            | MetaKey::BriIifVproto
            | MetaKey::BriIifHwAddr => Some(Field::HasMeta(key)),
            MetaKey::BriBroute => return Ok(Follows::default()),
            MetaKey::Prandom => {
                self.number(0, 0, dst)?;
                return next(live);
            }
            MetaKey::Sdif | MetaKey::SdifName => {
                return Err(Unable::NoMeaning("it asks for the interface below a VRF"));
            }
            MetaKey::Len
            | MetaKey::Protocol
            | MetaKey::Priority
            | MetaKey::Mark
            | MetaKey::Iif
            | MetaKey::Oif
            | MetaKey::IifName
            | MetaKey::OifName
            | MetaKey::NfTrace
            | MetaKey::SecMark
            | MetaKey::NfProto
            | MetaKey::BriIifName
            | MetaKey::BriOifName
            | MetaKey::PktType
            | MetaKey::Cpu
            | MetaKey::SecPath
            | MetaKey::TimeNs
            | MetaKey::TimeDay
            | MetaKey::TimeHour => None,
        };
        let mut live = live;
        if let Some(needs) = needs {
            let there = self.universe.holds(needs)?;
            live = self.universe.diagrams.and(&live, &there)?;
        }
        let value = match key {
            // Sockets are in the root class.
            MetaKey::Cgroup => known(&[0; 4]),
            _ => self.machine.in_register(self.universe, field)?,
        };
        if matches!(key, MetaKey::IifKind | MetaKey::OifKind) {
            let none = bits::equal(&self.universe.diagrams, &value, &[0; 16], &[0xff; 16])?;
            live = self.universe.diagrams.minus(&live, &none)?;
        }
        self.machine.load(dst, &value);
        next(live)
    }

    fn meta_set(&mut self, key: MetaKey, src: u8, live: Region) -> Answer {
        let field = Field::Meta(key);
        match key {
            MetaKey::Mark | MetaKey::Priority | MetaKey::SecMark => {
                let value = self.machine.read(src, 4);
                self.machine.write_register(self.universe, &live, field, &value)?;
            }
            MetaKey::NfTrace | MetaKey::BriBroute => {
                let value = self.machine.read(src, 1);
                let d = &self.universe.diagrams;
                let zero = bits::equal(d, &value, &[0], &[0xff])?;
                let mut bits = vec![Bit::ZERO; 7];
                bits.push(Bit::Of(d.not(&zero)?));
                self.machine.write(self.universe, &live, field, &bits)?;
            }
            MetaKey::PktType => {
                let value = self.machine.read(src, 1);
                let old = self.machine.field(self.universe, field)?;
                let d = &self.universe.diagrams;
                let (wanted, settable) =
                    (bits::at_most(d, &value, &[3])?, bits::at_most(d, &old, &[3])?);
                let region = d.and(&live, &d.and(&wanted, &settable)?)?;
                self.machine.write(self.universe, &region, field, &value)?;
            }
            _ => return Err(Unable::NoMeaning("it writes metadata that cannot be written")),
        }
        next(live)
    }

    fn mask_xor(&mut self, src: u8, dst: u8, masks: &[u32], xors: &[u32]) -> Decided<()> {
        for (i, (mask, xor)) in (0..).zip(masks.iter().zip(xors)) {
            let word = self.machine.read(src + i, 4);
            let (mask, xor) = (mask.to_ne_bytes(), xor.to_ne_bytes());
            let mut value = Vec::with_capacity(32);
            for (at, bit) in word.iter().enumerate() {
                let kept = if bits::bit_of(&mask, at) { bit.clone() } else { Bit::ZERO };
                let turned = Bit::Known(bits::bit_of(&xor, at));
                value.push(kept.xor(&turned, &self.universe.diagrams)?);
            }
            self.machine.load(dst + i, &value);
        }
        Ok(())
    }

    /// Shifts to the left, or to the right for negative numbers: words are numbers in host order,
    /// and the first word is the most significant one.
    fn shift(&mut self, src: u8, dst: u8, words: u8, by: i64) {
        let number = host_words(&self.machine.read(src, words.saturating_mul(4)));
        let moved: Vec<Bit> = (0..number.len() as i64)
            .map(|i| {
                let from = usize::try_from(i + by).ok();
                from.and_then(|from| number.get(from)).cloned().unwrap_or(Bit::ZERO)
            })
            .collect();
        self.machine.store(dst, &host_words(&moved));
    }

    fn looked_up(
        &mut self,
        found: lookup::Found,
        inverse: bool,
        load: Load,
        live: Region,
    ) -> Answer {
        if found.has_statements {
            return Err(Unable::NoMeaning("elements with statements that may end the rule"));
        }
        if inverse {
            return self.only(live, &found.all, false);
        }
        match load {
            Load::Nothing => self.only(live, &found.all, true),
            Load::Bytes { dst, .. } => {
                self.machine.load(dst, &found.value);
                self.only(live, &found.all, true)
            }
            Load::Verdict => {
                let d = &self.universe.diagrams;
                let (mut on, mut ends) = (Vec::new(), Vec::new());
                for (region, verdict) in found.verdicts {
                    let region = d.and(&live, &region)?;
                    match verdict {
                        _ if region.is_none() => {}
                        LinkedVerdict::Continue => on.push(region),
                        LinkedVerdict::Break => {}
                        verdict => ends.push((region, RuleEnd::Verdict(verdict))),
                    }
                }
                Ok(Follows { next: Some(d.union(&on)?), ends })
            }
        }
    }

    /// Whether a set that packets change has the key: the same answer for the same key, until the
    /// set is changed on the way.
    fn member(
        &mut self,
        set: &std::sync::Arc<penstock_program::DynamicSet>,
        key: &[Bit],
    ) -> Decided<Region> {
        let number = (self.set_number)(set);
        let At { rule, op, .. } = self.at;
        let input = match self.machine.writes.contains_key(&Field::Done(Done::Element(number))) {
            // What the packet itself has done to it is not followed.
            true => Input { what: What::Member, rule: u32::MAX - rule, op },
            false => Input { what: What::Member, rule: number, op: self.universe.key(number, key) },
        };
        self.universe.note_member(rule, op, input, key);
        self.universe.holds(Field::Input(input))
    }

    /// An input of one bit that only this operation of this rule has.
    fn input(&mut self, what: What) -> Decided<Region> {
        let At { rule, op, .. } = self.at;
        self.universe.holds(Field::Input(Input { what, rule, op }))
    }

    fn number(&mut self, modulus: u32, offset: u32, dst: u8) -> Decided<()> {
        let At { rule, op, .. } = self.at;
        let input = Input { what: What::Number, rule, op };
        if modulus != 0 && offset.checked_add(modulus - 1).is_some() {
            self.universe.bound(input, offset, offset + modulus - 1);
        }
        let value = self.machine.in_register(self.universe, Field::Input(input))?;
        self.machine.load(dst, &value);
        Ok(())
    }

    /// Packets for which the outside has an answer.
    fn asked(&mut self, text: String) -> Decided<Region> {
        let question = self.universe.question(text);
        self.universe.holds(Field::Answers(question))
    }

    fn ask(&mut self, text: String, dst: u8, width: u32, live: Region) -> Answer {
        let question = self.universe.question(text);
        let has = self.universe.holds(Field::Answers(question))?;
        let live = self.universe.diagrams.and(&live, &has)?;
        let answer = Field::Answer { question, bytes: width as u8 };
        let value = self.universe.bits(answer)?;
        self.machine.load(dst, &value);
        next(live)
    }

    fn stateful(&mut self, stateful: &Stateful, live: Region) -> Answer {
        let what = match stateful {
            Stateful::Counter(_) | Stateful::Last(_) => return next(live),
            Stateful::Quota { .. } | Stateful::NamedQuota { .. } => What::Quota,
            Stateful::Limit { .. } => What::Limit,
            Stateful::Connlimit { .. } => What::Connlimit,
            Stateful::SecMark(mark) => {
                let value = known(&mark.to_ne_bytes());
                let field = Field::Meta(MetaKey::SecMark);
                self.machine.write_register(self.universe, &live, field, &value)?;
                return next(live);
            }
            Stateful::Ct(object) => {
                let number = self.universe.question(format!("{object:?}")) + 1;
                let expects = matches!(&**object, penstock_program::image::CtObject::Expect { .. });
                let live = match expects {
                    true => {
                        let may = self.input(What::Expected)?;
                        self.universe.diagrams.and(&live, &may)?
                    }
                    false => live,
                };
                self.machine.done(self.universe, &live, Done::Object, number)?;
                return next(live);
            }
            Stateful::Synproxy(_) => {
                return Err(Unable::NoMeaning("synproxy answers for a server"));
            }
        };
        let on = self.input(what)?;
        self.only(live, &on, true)
    }

    fn sent(
        &mut self,
        how: u32,
        addr: Option<u8>,
        v6: bool,
        dev: Option<u8>,
        live: &Region,
    ) -> Decided<()> {
        self.machine.done(self.universe, live, Done::Sent, how)?;
        if let Some(slot) = dev {
            let device = self.machine.read(slot, 4);
            let field = Field::Done(Done::SentDevice);
            self.machine.write_register(self.universe, live, field, &device)?;
        }
        if let Some(slot) = addr {
            let address = self.machine.read(slot, if v6 { 16 } else { 4 });
            let field = Field::Done(Done::SentAddress);
            self.machine.write_register(self.universe, live, field, &address)?;
        }
        Ok(())
    }

    /// What `ct state` sees, as four register bytes.
    fn ct_state(&mut self) -> Decided<Vec<Bit>> {
        let mut state = self.universe.bits(Field::CtState)?;
        if self.at.before_tracking {
            let before = self.universe.holds(Field::CtBefore)?;
            let d = &self.universe.diagrams;
            let with = d.not(&before)?;
            for (bit, value) in state.iter_mut().zip(known(&[state::INVALID])) {
                *bit = bit.replaced(&with, &value, d)?;
            }
        }
        let notrack = self.machine.field(self.universe, Field::Done(Done::Notrack))?;
        let d = &self.universe.diagrams;
        let untracked = notrack[0].region(d);
        let value = known(&[CtInfo::Untracked.state_bit() as u8]);
        for (bit, value) in state.iter_mut().zip(value) {
            *bit = bit.replaced(&untracked, &value, d)?;
        }
        // The bits that are used are all in the least significant byte.
        let mut bytes = vec![Bit::ZERO; 24];
        bytes.extend(state);
        Ok(host_words(&bytes))
    }

    /// Packets that have a connection.
    fn entry(&mut self) -> Decided<Region> {
        let state = host_words(&self.ct_state()?);
        let mut all = Vec::new();
        for value in state::WITH_ENTRY {
            let value = [0, 0, 0, value];
            all.push(bits::equal(&self.universe.diagrams, &state, &value, &[0xff; 4])?);
        }
        self.universe.diagrams.union(&all)
    }

    fn ct(&mut self, key: CtKey, dir: Option<CtDir>, dst: u8, live: Region) -> Answer {
        let entry = self.entry()?;
        let mut live = self.universe.diagrams.and(&live, &entry)?;
        // Of both families in their tables.
        let key = match (key, self.at.family) {
            (CtKey::Src, Family::Ip) => CtKey::SrcIp,
            (CtKey::Dst, Family::Ip) => CtKey::DstIp,
            (CtKey::Src, _) => CtKey::SrcIp6,
            (CtKey::Dst, _) => CtKey::DstIp6,
            (key, _) => key,
        };
        if matches!(
            key,
            CtKey::SrcIp | CtKey::DstIp | CtKey::SrcIp6 | CtKey::DstIp6 | CtKey::Helper
        ) {
            let has = self.universe.holds(Field::HasCt(key, dir))?;
            live = self.universe.diagrams.and(&live, &has)?;
        }
        let dir = if key == CtKey::Direction { None } else { dir };
        let value = self.machine.in_register(self.universe, Field::Ct(key, dir))?;
        self.machine.load(dst, &value);
        next(live)
    }

    fn ct_set(&mut self, key: CtKey, src: u8, len: u8, live: Region) -> Answer {
        let entry = self.entry()?;
        let region = self.universe.diagrams.and(&live, &entry)?;
        let field = Field::Ct(key, None);
        let value = self.machine.read(src, len);
        match key {
            CtKey::Mark | CtKey::SecMark | CtKey::EventMask => {
                self.machine.write_register(self.universe, &region, field, &value)?;
            }
            CtKey::Labels => {
                let old = self.machine.in_register(self.universe, field)?;
                let d = &self.universe.diagrams;
                let all: Decided<Vec<Bit>> =
                    old.iter().zip(&value).map(|(a, b)| a.or(b, d)).collect();
                self.machine.write_register(self.universe, &region, field, &all?)?;
            }
            _ => return Err(Unable::NoMeaning("it sets a key of the connection")),
        }
        next(live)
    }

    fn nat(&mut self, nat: &penstock_program::op::LinkedNat, bound: &Region) -> Decided<()> {
        const NETMAP: u32 = 1 << 6;
        let machine = &mut *self.machine;
        machine.done(self.universe, bound, Done::Nat, nat.kind as u32 + 1)?;
        machine.done(self.universe, bound, Done::NatFlags, nat.flags)?;
        machine.done(self.universe, bound, Done::NatBasePort, nat.base_port.into())?;
        if let Some((min, max)) = nat.addr {
            let len = if nat.family == NFPROTO_IPV4 { 4 } else { 16 };
            let mut ends = [min, max].map(|slot| machine.read(slot, len));
            if nat.flags & NETMAP != 0 {
                let source = matches!(nat.kind, NatKind::Source | NatKind::Masquerade);
                let from = match (nat.family == NFPROTO_IPV4, source) {
                    (true, true) => 12..16,
                    (true, false) => 16..20,
                    (false, true) => 8..24,
                    (false, false) => 24..40,
                };
                let mut own = Vec::new();
                for at in from {
                    let field = Field::Header { base: Base::Network, at };
                    own.extend(machine.field(self.universe, field)?);
                }
                let d = &self.universe.diagrams;
                let mut finished = Vec::new();
                for ((min, max), own) in ends[0].iter().zip(&ends[1]).zip(&own) {
                    let free = min.xor(max, d)?.region(d);
                    finished.push(min.replaced(&free, own, d)?);
                }
                ends = [finished.clone(), finished];
            }
            for (done, value) in [Done::NatAddress, Done::NatLastAddress].into_iter().zip(&ends) {
                machine.write_register(self.universe, bound, Field::Done(done), value)?;
            }
        }
        if let Some((min, max)) = nat.port {
            for (done, slot) in [(Done::NatPort, min), (Done::NatLastPort, max)] {
                let value = machine.read(slot, 2);
                machine.write_register(self.universe, bound, Field::Done(done), &value)?;
            }
        }
        Ok(())
    }
}

/// Whether all packets have so many bytes from the start of a header on.
fn always_present(place: Place, base: Base, bytes: u16) -> bool {
    let at_ip = place.family.is_ip() && place.hook != Hook::Ingress;
    match base {
        // The network layer has looked at them.
        Base::Network if at_ip => bytes <= if place.family == Family::Ip6 { 40 } else { 20 },
        Base::Link => {
            matches!(place.family, Family::Netdev | Family::Bridge | Family::Arp) && bytes <= 14
        }
        Base::Network | Base::Transport | Base::Inner | Base::Tunnel => false,
    }
}

/// Fields that an operation asks, as far as that can be seen from it alone: for the order of
/// variables. What is missing is added when it is asked.
pub(crate) fn asks(place: Place, op: &Op, add: &mut dyn FnMut(Field)) {
    if let Some(load) = op.header_load() {
        let end = load.offset.saturating_add(load.len.into());
        for at in load.offset..end {
            add(Field::Header { base: load.base, at });
        }
        if !always_present(place, load.base, end) {
            add(Field::Present { base: load.base, bytes: end });
        }
        if load.base == Base::Transport {
            add(Field::Transport);
        }
    }
    match op {
        Op::Meta { key: MetaKey::L4Proto, .. } => {
            add(Field::Transport);
            add(Field::Meta(MetaKey::L4Proto));
        }
        Op::Meta { key: MetaKey::Prandom, .. } => {}
        Op::Meta { key, .. } | Op::MetaSet { key, .. } => add(Field::Meta(*key)),
        Op::CtState { .. } | Op::Notrack => add(Field::CtState),
        Op::Ct { key, dir, .. } => {
            add(Field::CtState);
            if !matches!(key, CtKey::Src | CtKey::Dst) {
                add(Field::Ct(*key, if *key == CtKey::Direction { None } else { *dir }));
            }
        }
        _ => {}
    }
}
