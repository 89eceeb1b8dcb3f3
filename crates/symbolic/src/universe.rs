// SPDX-License-Identifier: Apache-2.0

//! All packets, as far as rules tell them apart: which fields there are, and which values are
//! impossible together.

use std::collections::HashMap;

use penstock_program::expr::{CtDir, CtKey, MetaKey};
use penstock_program::{Family, Hook};
use penstock_wire::ethernet;

use crate::bits::{self, Bit};
use crate::diagram::{Decided, Diagrams, Limits, Region};
use crate::field::{Base, Done, Field, Input, What};

/// Where packets are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Family of the chains' tables; chains of `inet` see packets of both families.
    pub family: Family,
    /// The hook.
    pub hook: Hook,
}

impl Place {
    /// `NFPROTO_*` of the hooks that packets pass here.
    pub fn protocols(self) -> &'static [u8] {
        match self.family {
            Family::Ip => &[2],
            Family::Ip6 => &[10],
            Family::Inet => &[2, 10],
            Family::Arp => &[3],
            Family::Netdev => &[5],
            Family::Bridge => &[7],
        }
    }

    /// Whether the IP layer has checked the packet.
    fn is_ip(self) -> bool {
        self.family.is_ip() && self.hook != Hook::Ingress
    }

    /// Whether packets have an interface of arrival here; `None` if some have.
    fn has_iif(self) -> Option<bool> {
        match self.hook {
            Hook::Ingress | Hook::Prerouting | Hook::Input | Hook::Forward => Some(true),
            Hook::Output => Some(false),
            Hook::Postrouting | Hook::Egress => match self.family {
                Family::Bridge => Some(false),
                _ => None,
            },
        }
    }

    /// Whether packets have an interface on the way out here.
    fn has_oif(self) -> bool {
        match self.hook {
            Hook::Ingress | Hook::Prerouting | Hook::Input => false,
            Hook::Forward | Hook::Output | Hook::Postrouting | Hook::Egress => true,
        }
    }
}

/// States that `ct state` can tell (`NF_CT_STATE_*`).
pub(crate) mod state {
    pub const INVALID: u8 = 1;
    pub const ESTABLISHED: u8 = 2;
    pub const RELATED: u8 = 4;
    pub const NEW: u8 = 8;
    pub const UNTRACKED: u8 = 64;
    /// With a connection.
    pub const WITH_ENTRY: [u8; 3] = [ESTABLISHED, RELATED, NEW];
    pub const ALL: [u8; 5] = [INVALID, ESTABLISHED, RELATED, NEW, UNTRACKED];
}

/// The input that says whether a set has a key, and the key.
type Member = (Input, Vec<Bit>);

/// The fields that rules ask, with their variables.
pub struct Universe {
    /// Where regions live.
    pub diagrams: Diagrams,
    /// Where packets are looked at.
    pub place: Place,
    fields: HashMap<Field, Vec<u32>>,
    order: Vec<Field>,
    /// Questions to the outside, by number.
    questions: Vec<String>,
    /// Keys that sets which packets change are asked for: the set and the key.
    keys: Vec<(u32, Vec<Bit>)>,
    /// Which keys a lookup in such a set was asked for, by rule number and operation.
    members: HashMap<(u32, u16), Vec<Member>>,
    /// Packets whose key is in a set, by the set's address and the key: sets are large, and rules of
    /// two rulesets ask for the same.
    found: HashMap<(usize, Vec<Bit>), Region>,
    /// Inputs that are numbers, and what they can be: first and last.
    numbers: HashMap<Input, (u32, u32)>,
}

impl Universe {
    /// A universe of the fields that are known to be asked, in an order that keeps diagrams small;
    /// others are added when they are asked.
    pub fn new(place: Place, limits: Limits, asked: impl IntoIterator<Item = Field>) -> Self {
        let mut universe = Universe {
            diagrams: Diagrams::new(limits),
            place,
            fields: HashMap::new(),
            order: Vec::new(),
            questions: Vec::new(),
            keys: Vec::new(),
            members: HashMap::new(),
            found: HashMap::new(),
            numbers: HashMap::new(),
        };
        let mut asked: Vec<Field> = asked.into_iter().collect();
        asked.sort_by_key(|field| field.rank());
        for group in asked.chunk_by(|a, b| a.rank() == b.rank()) {
            universe.add_interleaved(group);
        }
        universe
    }

    fn add_interleaved(&mut self, group: &[Field]) {
        let mut group: Vec<Field> = group.to_vec();
        group.retain(|field| !self.fields.contains_key(field));
        let mut seen = std::collections::HashSet::new();
        group.retain(|field| seen.insert(*field));
        let widest = group.iter().map(|f| f.width()).max().unwrap_or(0);
        let mut numbers: Vec<Vec<u32>> = vec![Vec::new(); group.len()];
        for bit in 0..widest {
            for (field, numbers) in group.iter().zip(&mut numbers) {
                if bit < field.width() {
                    numbers.push(self.diagrams.add_variables(1));
                }
            }
        }
        for (field, numbers) in group.iter().zip(numbers) {
            self.order.push(*field);
            self.fields.insert(*field, numbers);
        }
    }

    /// Fields in the order of their variables.
    pub fn fields(&self) -> &[Field] {
        &self.order
    }

    /// Whether a field was asked.
    pub fn has(&self, field: Field) -> bool {
        self.fields.contains_key(&field)
    }

    /// Variables of a field, most significant bit first; none if it was not asked.
    pub fn variables(&self, field: Field) -> &[u32] {
        self.fields.get(&field).map_or(&[], |numbers| numbers)
    }

    /// The bits of a field, most significant bit first.
    pub fn bits(&mut self, field: Field) -> Decided<Vec<Bit>> {
        if !self.fields.contains_key(&field) {
            self.add_interleaved(&[field]);
        }
        self.known_bits(field)
    }

    fn known_bits(&self, field: Field) -> Decided<Vec<Bit>> {
        self.variables(field)
            .iter()
            .map(|number| Ok(Bit::Of(self.diagrams.variable(*number, true)?)))
            .collect()
    }

    /// Packets for which a field of one bit is 1.
    pub fn holds(&mut self, field: Field) -> Decided<Region> {
        Ok(self.bits(field)?[0].region(&self.diagrams))
    }

    /// The number of a question to the outside.
    pub fn question(&mut self, text: String) -> u32 {
        match self.questions.iter().position(|known| *known == text) {
            Some(number) => number as u32,
            None => {
                self.questions.push(text);
                self.questions.len() as u32 - 1
            }
        }
    }

    /// The number of a question that was asked.
    pub(crate) fn known_question(&self, text: &str) -> Option<u32> {
        self.questions.iter().position(|known| known == text).map(|number| number as u32)
    }

    /// The number of a key that a set is asked for.
    pub(crate) fn key(&mut self, set: u32, key: &[Bit]) -> u16 {
        let known = self.keys.iter().position(|(of, known)| *of == set && known == key);
        known.unwrap_or_else(|| {
            self.keys.push((set, key.to_vec()));
            self.keys.len() - 1
        }) as u16
    }

    /// Notes that an operation asks whether a set has a key.
    pub(crate) fn note_member(&mut self, rule: u32, op: u16, input: Input, key: &[Bit]) {
        let all = self.members.entry((rule, op)).or_default();
        if !all.iter().any(|(known, _)| *known == input) {
            all.push((input, key.to_vec()));
        }
    }

    /// Packets whose key is in a set at an address, which are found if that is not known yet.
    pub(crate) fn found_once(
        &mut self,
        set: usize,
        key: &[Bit],
        find: impl FnOnce(&Diagrams) -> Decided<Region>,
    ) -> Decided<Region> {
        if let Some(region) = self.found.get(&(set, key.to_vec())) {
            return Ok(region.clone());
        }
        let region = find(&self.diagrams)?;
        self.found.insert((set, key.to_vec()), region.clone());
        Ok(region)
    }

    /// What operations have asked sets for: input and key.
    pub(crate) fn members(&self, rule: u32, op: u16) -> &[Member] {
        self.members.get(&(rule, op)).map_or(&[], |all| all)
    }

    /// The text of a question to the outside.
    pub fn question_text(&self, number: u32) -> &str {
        self.questions.get(number as usize).map_or("", |text| text)
    }

    /// Says what an input can be.
    pub(crate) fn bound(&mut self, input: Input, first: u32, last: u32) {
        self.numbers.insert(input, (first, last));
    }

    /// The value of a field in a packet, as bytes of the number.
    pub fn value(&self, field: Field, point: &[bool]) -> Option<Vec<u8>> {
        let variables = self.fields.get(&field)?;
        let mut bytes = vec![0; variables.len().div_ceil(8)];
        let pad = bytes.len() * 8 - variables.len();
        for (i, number) in variables.iter().enumerate() {
            if point.get(*number as usize).copied().unwrap_or(false) {
                bytes[(pad + i) / 8] |= 0x80 >> ((pad + i) % 8);
            }
        }
        Some(bytes)
    }

    /// The value of bits for a packet, as bytes of the number.
    pub fn value_of(&self, bits: &[Bit], point: &[bool]) -> Vec<u8> {
        crate::diff::value_at(bits, point)
    }

    /// The value of a field of one bit in a packet.
    pub fn flag(&self, field: Field, point: &[bool]) -> Option<bool> {
        self.value(field, point).map(|bytes| bytes[0] != 0)
    }

    /// Packets for which fields have these values, as bytes of the numbers.
    ///
    /// # Errors
    /// A limit.
    pub fn with_values(&self, values: &[(Field, Vec<u8>)]) -> Decided<Region> {
        let mut wanted: Vec<(u32, bool)> = Vec::new();
        for (field, value) in values {
            let variables = self.variables(*field);
            let pad = (value.len() * 8).saturating_sub(variables.len());
            let bits = variables.iter().enumerate();
            wanted.extend(bits.map(|(i, number)| (*number, bits::bit_of(value, pad + i))));
        }
        // From the last variable on: each step adds a node at the top.
        wanted.sort_unstable();
        let mut cube = self.diagrams.all();
        for (number, value) in wanted.into_iter().rev() {
            cube = self.diagrams.and(&self.diagrams.variable(number, value)?, &cube)?;
        }
        Ok(cube)
    }

    /// Packets for which a field has one of these values; all if it was not asked.
    fn one_of(&self, field: Field, values: &[&[u8]]) -> Decided<Region> {
        if !self.has(field) {
            return Ok(self.diagrams.all());
        }
        let bits = self.known_bits(field)?;
        let mut all = Vec::new();
        for value in values {
            all.push(bits::equal(&self.diagrams, &bits, value, &[0xff; 16])?);
        }
        self.diagrams.union(&all)
    }

    /// Packets for which a field of one bit is 1; all if it was not asked.
    fn is(&self, field: Field, value: bool) -> Decided<Region> {
        match self.variables(field) {
            [number] => self.diagrams.variable(*number, value),
            _ => Ok(self.diagrams.all()),
        }
    }

    /// Takes away from a region what holds in `when` and not in `then`.
    fn imply(&self, region: &mut Region, when: &Region, then: &Region) -> Decided<()> {
        let wrong = self.diagrams.minus(when, then)?;
        *region = self.diagrams.minus(region, &wrong)?;
        Ok(())
    }

    /// Packets that can be: of all values of the fields that were asked those that go together.
    pub fn possible(&self) -> Decided<Region> {
        let d = &self.diagrams;
        let mut possible = d.all();
        self.protocols(&mut possible)?;
        self.lengths(&mut possible)?;
        self.interfaces(&mut possible)?;
        self.connections(&mut possible)?;
        for (input, (first, last)) in &self.numbers {
            let bits = self.known_bits(Field::Input(*input))?;
            let range = d.and(
                &bits::at_least(d, &bits, &first.to_be_bytes())?,
                &bits::at_most(d, &bits, &last.to_be_bytes())?,
            )?;
            possible = d.and(&possible, &range)?;
        }
        for (key, last) in [
            (MetaKey::PktType, 4u32),
            (MetaKey::NfTrace, 1),
            (MetaKey::SecPath, 1),
            (MetaKey::BriBroute, 1),
            (MetaKey::TimeDay, 6),
            (MetaKey::TimeHour, 86_399),
            (MetaKey::Len, 65_535),
        ] {
            let field = Field::Meta(key);
            if self.has(field) {
                let value = last.to_be_bytes();
                let value = &value[4 - (field.width() / 8) as usize..];
                let range = bits::at_most(d, &self.known_bits(field)?, value)?;
                possible = d.and(&possible, &range)?;
            }
        }
        Ok(possible)
    }

    /// What protocol a packet has, by its several names.
    fn protocols(&self, possible: &mut Region) -> Decided<()> {
        let d = &self.diagrams;
        let nfproto = Field::Meta(MetaKey::NfProto);
        let protocols: Vec<[u8; 1]> = self.place.protocols().iter().map(|p| [*p]).collect();
        let protocols: Vec<&[u8]> = protocols.iter().map(|p| &p[..]).collect();
        *possible = d.and(possible, &self.one_of(nfproto, &protocols)?)?;
        let version = |v: u8| match self.place.family {
            Family::Inet => self.one_of(nfproto, &[&[v]]),
            family if family as u8 == v => Ok(d.all()),
            _ => Ok(d.none()),
        };
        let (ip, ip6) = (version(2)?, version(10)?);
        let protocol = Field::Meta(MetaKey::Protocol);
        let ethertype = |value: u16| self.one_of(protocol, &[&value.to_be_bytes()]);
        if self.place.is_ip() {
            // In chains of inet the question that tells the versions apart has to be there, where
            // something follows from them.
            self.imply(
                possible,
                &ip,
                &d.or(&ethertype(ethernet::IPV4)?, &self.unknown_version())?,
            )?;
            self.imply(
                possible,
                &ip6,
                &d.or(&ethertype(ethernet::IPV6)?, &self.unknown_version())?,
            )?;
            if self.unknown_version().is_all() {
                let both = d.or(&ethertype(ethernet::IPV4)?, &ethertype(ethernet::IPV6)?)?;
                *possible = d.and(possible, &both)?;
                return Ok(());
            }
            // An IPv4 header always leads to a transport header.
            self.imply(possible, &ip, &self.is(Field::Transport, true)?)?;
            let first = Field::Header { base: Base::Network, at: 0 };
            if self.has(first) {
                let bits = self.known_bits(first)?;
                let four = bits::equal(d, &bits[..4], &[0x40], &[0xf0])?;
                let long = bits::at_least(d, &bits[4..], &[0x50])?;
                self.imply(possible, &ip, &d.and(&four, &long)?)?;
                let six = bits::equal(d, &bits[..4], &[0x60], &[0xf0])?;
                self.imply(possible, &ip6, &six)?;
            }
            self.same_protocol(possible, &ip, 9, &[])?;
            const EXTENSIONS: [u8; 4] = [0, 43, 44, 60];
            self.same_protocol(possible, &ip6, 6, &EXTENSIONS)?;
            // These are not what a packet carries in the end.
            let named = Field::Meta(MetaKey::L4Proto);
            if self.has(named) {
                let bits = self.known_bits(named)?;
                let carried = d.and(&ip6, &self.is(Field::Transport, true)?)?;
                for extension in EXTENSIONS {
                    let wrong = bits::equal(d, &bits, &[extension], &[0xff])?;
                    self.imply(possible, &carried, &d.not(&wrong)?)?;
                }
            }
            // A later fragment says so in its header; those of IPv6 are not looked at.
            let later = self.is(Field::LaterFragment, true)?;
            if self.has(Field::LaterFragment) {
                self.imply(possible, &later, &ip)?;
                let offset = [6, 7].map(|at| Field::Header { base: Base::Network, at });
                if offset.iter().any(|field| self.has(*field)) {
                    let mut zero = d.all();
                    for (field, mask) in offset.iter().zip([0x1f, 0xff]) {
                        if self.has(*field) {
                            let bits = self.known_bits(*field)?;
                            zero = d.and(&zero, &bits::equal(d, &bits, &[0], &[mask])?)?;
                        }
                    }
                    let fragment = d.and(&ip, &later)?;
                    if offset.iter().all(|field| self.has(*field)) {
                        self.imply(possible, &fragment, &d.not(&zero)?)?;
                    }
                    let first = d.minus(&ip, &later)?;
                    self.imply(possible, &first, &zero)?;
                }
            }
        } else if self.has(protocol) {
            // Only IP has transport headers, and the frame says what it carries.
            let ip = d.or(&ethertype(ethernet::IPV4)?, &ethertype(ethernet::IPV6)?)?;
            if self.has(Field::Transport) {
                self.imply(possible, &self.is(Field::Transport, true)?, &ip)?;
            }
            self.ethertype_in_frame(possible)?;
        }
        Ok(())
    }

    /// All packets if nothing tells IPv4 and IPv6 apart where there are both.
    fn unknown_version(&self) -> Region {
        match self.place.family == Family::Inet && !self.has(Field::Meta(MetaKey::NfProto)) {
            true => self.diagrams.all(),
            false => self.diagrams.none(),
        }
    }

    /// `meta l4proto` is what the network header says, unless extension headers follow it.
    fn same_protocol(
        &self,
        possible: &mut Region,
        version: &Region,
        at: u16,
        extensions: &[u8],
    ) -> Decided<()> {
        let (named, byte) =
            (Field::Meta(MetaKey::L4Proto), Field::Header { base: Base::Network, at });
        if !self.has(named) || !self.has(byte) {
            return Ok(());
        }
        let d = &self.diagrams;
        let (a, b) = (self.known_bits(named)?, self.known_bits(byte)?);
        let mut when = d.and(version, &self.is(Field::Transport, true)?)?;
        for extension in extensions {
            when = d.minus(&when, &bits::equal(d, &b, &[*extension], &[0xff])?)?;
        }
        self.imply(possible, &when, &bits::same(d, &a, &b)?)
    }

    /// `meta protocol` is the ethertype of the frame, after its tag.
    fn ethertype_in_frame(&self, possible: &mut Region) -> Decided<()> {
        let d = &self.diagrams;
        let protocol = self.known_bits(Field::Meta(MetaKey::Protocol))?;
        let pair = |at: u16| -> Decided<Option<Vec<Bit>>> {
            let fields = [at, at + 1].map(|at| Field::Header { base: Base::Link, at });
            if !fields.iter().all(|field| self.has(*field)) {
                return Ok(None);
            }
            Ok(Some([self.known_bits(fields[0])?, self.known_bits(fields[1])?].concat()))
        };
        let Some(outer) = pair(12)? else { return Ok(()) };
        let tagged = d.or(
            &bits::equal(d, &outer, &[0x81, 0x00], &[0xff; 2])?,
            &bits::equal(d, &outer, &[0x88, 0xa8], &[0xff; 2])?,
        )?;
        self.imply(possible, &d.not(&tagged)?, &bits::same(d, &outer, &protocol)?)?;
        if let Some(inner) = pair(16)? {
            self.imply(possible, &tagged, &bits::same(d, &inner, &protocol)?)?;
        }
        Ok(())
    }

    /// Which headers are there, and how long they are.
    fn lengths(&self, possible: &mut Region) -> Decided<()> {
        let d = &self.diagrams;
        for base in [Base::Link, Base::Network, Base::Transport, Base::Inner] {
            let mut all: Vec<u16> = self
                .order
                .iter()
                .filter_map(|field| match field {
                    Field::Present { base: of, bytes } if *of == base => Some(*bytes),
                    _ => None,
                })
                .collect();
            all.sort_unstable();
            let present = |bytes| self.is(Field::Present { base, bytes }, true);
            for pair in all.windows(2) {
                self.imply(possible, &present(pair[1])?, &present(pair[0])?)?;
            }
            if base == Base::Transport && self.has(Field::Transport) {
                for bytes in &all {
                    self.imply(possible, &present(*bytes)?, &self.is(Field::Transport, true)?)?;
                }
            }
            let nfproto = Field::Meta(MetaKey::NfProto);
            if base == Base::Network && self.place.is_ip() && self.has(nfproto) {
                let ip6 = self.one_of(nfproto, &[&[10]])?;
                for bytes in all.iter().filter(|bytes| **bytes <= 40) {
                    self.imply(possible, &ip6, &present(*bytes)?)?;
                }
            }
            // What is there is not longer than the packet.
            let len = Field::Meta(MetaKey::Len);
            if self.has(len)
                && self.place.is_ip()
                && matches!(base, Base::Network | Base::Transport)
            {
                let bits = self.known_bits(len)?;
                let least = if self.place.protocols() == [10] { 40 } else { 20 };
                let at_least = bits::at_least(d, &bits, &u32::to_be_bytes(least))?;
                *possible = d.and(possible, &at_least)?;
                for bytes in &all {
                    let before = if base == Base::Transport { least } else { 0 };
                    let needed = before + u32::from(*bytes);
                    let long = bits::at_least(d, &bits, &needed.to_be_bytes())?;
                    self.imply(possible, &present(*bytes)?, &long)?;
                    if base == Base::Network {
                        self.imply(possible, &long, &present(*bytes)?)?;
                    } else {
                        // After the longest IPv4 header.
                        let surely = (60 + u32::from(*bytes)).to_be_bytes();
                        let surely = bits::at_least(d, &bits, &surely)?;
                        let known = match self.place.family {
                            Family::Ip => surely,
                            _ => d.none(),
                        };
                        self.imply(possible, &known, &present(*bytes)?)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Interfaces: those that packets have at the hook, with names that are names; the same
    /// interface is the same in all that is asked of it.
    fn interfaces(&self, possible: &mut Region) -> Decided<()> {
        let d = &self.diagrams;
        let sides = [
            (self.place.has_iif(), [MetaKey::Iif, MetaKey::IifName]),
            (Some(self.place.has_oif()), [MetaKey::Oif, MetaKey::OifName]),
        ];
        for (has, keys) in sides {
            let presence = Field::HasMeta(keys[0]);
            if let Some(has) = has {
                *possible = d.and(possible, &self.is(presence, has)?)?;
            }
            let mut zero: Vec<Region> = Vec::new();
            if self.has(presence) {
                zero.push(self.is(presence, false)?);
            }
            for key in keys {
                let field = Field::Meta(key);
                if self.has(field) {
                    let bits = self.known_bits(field)?;
                    zero.push(bits::equal(d, &bits, &[0; 16], &[0xff; 16])?);
                }
            }
            if let Some(has) = has {
                for none in &zero {
                    let wrong = if has { none.clone() } else { d.not(none)? };
                    *possible = d.minus(possible, &wrong)?;
                }
            }
            for pair in zero.windows(2) {
                let differ = d.xor(&pair[0], &pair[1])?;
                *possible = d.minus(possible, &differ)?;
            }
        }
        for key in [
            MetaKey::IifName,
            MetaKey::OifName,
            MetaKey::BriIifName,
            MetaKey::BriOifName,
            MetaKey::IifKind,
            MetaKey::OifKind,
        ] {
            if self.has(Field::Meta(key)) {
                let bits = self.known_bits(Field::Meta(key))?;
                *possible = d.and(possible, &names(d, &bits)?)?;
            }
        }
        // One interface.
        let pairs = [
            (MetaKey::Iif, MetaKey::Oif),
            (MetaKey::IifName, MetaKey::OifName),
            (MetaKey::IifType, MetaKey::OifType),
            (MetaKey::IifGroup, MetaKey::OifGroup),
            (MetaKey::IifKind, MetaKey::OifKind),
        ];
        let mut same = Vec::new();
        for (a, b) in pairs {
            let (a, b) = (Field::Meta(a), Field::Meta(b));
            if self.has(a) && self.has(b) {
                same.push(bits::same(d, &self.known_bits(a)?, &self.known_bits(b)?)?);
            }
        }
        if self.place.has_iif() != Some(false) && self.place.has_oif() {
            for name in same.iter().take(2) {
                for other in &same {
                    self.imply(possible, name, other)?;
                }
            }
        }
        Ok(())
    }

    /// What connection tracking says goes together.
    fn connections(&self, possible: &mut Region) -> Decided<()> {
        let d = &self.diagrams;
        let state = |values: &[u8]| {
            let values: Vec<[u8; 1]> = values.iter().map(|v| [*v]).collect();
            let values: Vec<&[u8]> = values.iter().map(|v| &v[..]).collect();
            self.one_of(Field::CtState, &values)
        };
        if self.has(Field::CtState) {
            *possible = d.and(possible, &state(&state::ALL)?)?;
            let begins = state(&[state::NEW, state::RELATED])?;
            if self.has(Field::Untranslated) {
                self.imply(possible, &self.is(Field::Untranslated, true)?, &begins)?;
            }
            if self.has(Field::CtBefore) {
                let before = self.is(Field::CtBefore, true)?;
                self.imply(possible, &before, &state(&state::WITH_ENTRY)?)?;
            }
        }
        let direction = Field::Ct(CtKey::Direction, None);
        *possible = d.and(possible, &self.one_of(direction, &[&[0], &[1]])?)?;
        let reply = self.one_of(direction, &[&[CtDir::Reply as u8]])?;
        if self.has(direction) && self.has(Field::CtState) {
            let replies = state(&[state::ESTABLISHED, state::RELATED])?;
            // Without a connection there is no direction, and nothing asks for it.
            let with = state(&state::WITH_ENTRY)?;
            self.imply(possible, &d.and(&reply, &with)?, &replies)?;
        }
        let status = Field::Ct(CtKey::Status, None);
        if self.has(status) && self.has(Field::CtState) {
            let bits = self.known_bits(status)?;
            let bit =
                |value: u32| bits::equal(d, &bits, &value.to_be_bytes(), &value.to_be_bytes());
            const EXPECTED: u32 = 1;
            const SEEN_REPLY: u32 = 2;
            self.imply(possible, &state(&[state::ESTABLISHED])?, &bit(SEEN_REPLY)?)?;
            let new = state(&[state::NEW])?;
            self.imply(possible, &new, &d.not(&bit(SEEN_REPLY)?)?)?;
            self.imply(possible, &new, &d.not(&bit(EXPECTED)?)?)?;
        }
        // Addresses of the connection's family.
        let nfproto = Field::Meta(MetaKey::NfProto);
        for (keys, version) in
            [([CtKey::SrcIp, CtKey::DstIp], 2), ([CtKey::SrcIp6, CtKey::DstIp6], 10)]
        {
            for key in keys {
                for dir in [Some(CtDir::Original), Some(CtDir::Reply)] {
                    let has = Field::HasCt(key, dir);
                    if !self.has(has) {
                        continue;
                    }
                    let has = self.is(has, true)?;
                    if !self.place.protocols().contains(&version) {
                        *possible = d.minus(possible, &has)?;
                    } else if self.has(nfproto) {
                        let differ = d.xor(&has, &self.one_of(nfproto, &[&[version]])?)?;
                        *possible = d.minus(possible, &differ)?;
                    } else if self.place.protocols() == [version] {
                        *possible = d.and(possible, &has)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Fields that say what was done, among those that were asked.
    pub fn is_done(field: Field) -> bool {
        matches!(field, Field::Done(_))
    }

    /// Whether an input can be understood without a number: those of one bit.
    pub fn is_choice(input: Input) -> bool {
        input.what != What::Number
    }
}

/// Names: after the first zero byte there are only zero bytes.
fn names(d: &Diagrams, bits: &[Bit]) -> Decided<Region> {
    // From the end: the rest is a name, or nothing but zeros.
    let (mut name, mut zeros) = (d.all(), d.all());
    for byte in bits.chunks(8).rev() {
        let zero = bits::equal(d, byte, &[0], &[0xff])?;
        zeros = d.and(&zero, &zeros)?;
        name = d.select(&zero, &zeros, &name)?;
    }
    Ok(name)
}

impl Done {
    /// Those of which the value is shown by itself or as part of another one.
    pub fn is_part(self) -> bool {
        matches!(
            self,
            Done::NatFlags
                | Done::NatAddress
                | Done::NatLastAddress
                | Done::NatPort
                | Done::NatLastPort
                | Done::NatBasePort
                | Done::SentDevice
                | Done::SentAddress
                | Done::TproxyAddress
                | Done::TproxyPort
        )
    }
}
