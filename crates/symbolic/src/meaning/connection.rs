// SPDX-License-Identifier: Apache-2.0

//! Connections: what `ct` reads and sets, and translation.

use penstock_packet::CtInfo;
use penstock_program::Family;
use penstock_program::expr::{CtDir, CtKey, MetaKey, NFPROTO_IPV4, NatKind};
use penstock_program::image::LinkedVerdict;
use penstock_program::op::LinkedNat;

use super::{Answer, Follows, Meaning, RuleEnd, next, unable};
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::field::{Base, Done, Field, state};
use crate::machine::{host_words, known};

impl Meaning<'_> {
    /// What `ct state` sees, as four register bytes.
    pub(super) fn ct_state(&mut self) -> Decided<Vec<Bit>> {
        let mut state = self.universe.bits(Field::CtState)?;
        if self.at.before_tracking {
            let before = self.machine.field(self.universe, Field::CtBefore)?;
            let d = &self.universe.diagrams;
            let before = before[0].region(d);
            let with = d.not(&before);
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

    pub(super) fn ct(&mut self, key: CtKey, dir: Option<CtDir>, dst: u8, live: Region) -> Answer {
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

    pub(super) fn ct_set(&mut self, key: CtKey, src: u8, len: u8, live: Region) -> Answer {
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
            _ => return unable("it sets a key of the connection"),
        }
        next(live)
    }

    /// Keeps packets that have no connection from getting one.
    pub(super) fn notrack(&mut self, live: Region) -> Answer {
        let with = self.entry()?;
        let untracked = self.universe.diagrams.minus(&live, &with)?;
        self.machine.done(self.universe, &untracked, Done::Notrack, 1)?;
        next(live)
    }

    /// Translates the connections of the family and accepts; others go on.
    pub(super) fn nat(&mut self, nat: &LinkedNat, live: Region) -> Answer {
        let own = match nat.family {
            1 => self.universe.diagrams.all(),
            family => self.nfproto(family)?,
        };
        let bound = self.universe.diagrams.and(&live, &own)?;
        self.translate(nat, &bound)?;
        let others = self.universe.diagrams.minus(&live, &own)?;
        let accept = RuleEnd::Verdict(LinkedVerdict::Accept);
        Ok(Follows { next: Some(others), ends: vec![(bound, accept)] })
    }

    /// Packets of a protocol family.
    fn nfproto(&mut self, family: u8) -> Decided<Region> {
        let bits = self.universe.bits(Field::Meta(MetaKey::NfProto))?;
        bits::equal(&self.universe.diagrams, &bits, &[family], &[0xff])
    }

    fn translate(&mut self, nat: &LinkedNat, bound: &Region) -> Decided<()> {
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
