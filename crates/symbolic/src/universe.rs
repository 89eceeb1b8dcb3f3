// SPDX-License-Identifier: Apache-2.0

//! All packets, as far as rules tell them apart: which fields there are, and their variables.

mod arrival;
mod exthdr;
mod possible;

use std::collections::{HashMap, HashSet};

use penstock_program::expr::MetaKey;

use crate::bits::{self, Bit, value_at};
use crate::diagram::{Decided, Diagrams, Limits, Region};
use crate::field::{Field, Input, What};
use crate::place::Place;
use crate::way::Device;

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
    /// What the numbers of an input are called, and on which device the packets arrive whose frames
    /// it is about; `None` for packets that leave.
    called: HashMap<Input, (Vec<String>, Option<[u8; 16]>)>,
    /// Devices on which packets arrive; without any it may be each.
    arrivals: Vec<Device>,
    /// Packets that are looked at, of those that can be.
    within: Option<Region>,
    /// They are those of several ways.
    several_ways: bool,
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
            called: HashMap::new(),
            arrivals: Vec::new(),
            within: None,
            several_ways: false,
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
        let mut seen = HashSet::new();
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

    /// Says of devices that packets arrive on them, and on no others that this is not said of.
    pub(crate) fn arrive_on<'d>(&mut self, devices: impl Iterator<Item = &'d Device>) {
        for device in devices {
            if !self.arrivals.iter().any(|known| known.index == device.index) {
                self.arrivals.push(device.clone());
            }
        }
    }

    /// Takes packets that are not in a region for impossible: those of one way through a network, or
    /// of several.
    pub(crate) fn keep_within(&mut self, region: Region, several: bool) {
        self.within = Some(region);
        self.several_ways = several;
    }

    /// Whether packets are followed on a way through a network.
    pub(crate) fn has_way(&self) -> bool {
        self.within.is_some()
    }

    /// Whether there are packets that are not on each way that is looked at.
    pub(crate) fn has_several_ways(&self) -> bool {
        self.several_ways
    }

    /// The input by which the network chooses one of some, which are known by bits.
    pub(crate) fn choice(&mut self, what: What, of: &[Bit]) -> Input {
        Input { what, rule: u32::MAX, op: self.key(u32::MAX, of) }
    }

    /// What the network chooses for a packet of some, which are known by their bytes.
    pub(crate) fn chosen(&self, what: What, of: &[u8], point: &[bool]) -> Option<Vec<u8>> {
        let keys = self.keys.iter().enumerate();
        let same = keys.filter(|(_, (set, key))| {
            *set == u32::MAX && key.len() == of.len() * 8 && value_at(key, point) == of
        });
        let inputs = same.map(|(op, _)| Input { what, rule: u32::MAX, op: op as u16 });
        inputs.filter_map(|input| self.value(Field::Input(input), point)).next()
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

    /// Says what the numbers of an input are called, from 0 on, and on which device the packets
    /// arrive that it is about, if they arrive.
    pub(crate) fn call_choices(
        &mut self,
        input: Input,
        arrive: Option<[u8; 16]>,
        called: impl FnOnce() -> Vec<String>,
    ) {
        self.called.entry(input).or_insert_with(|| (called(), arrive));
    }

    /// What a number of an input is called; `None` for inputs whose numbers have no names.
    pub fn choice_name(&self, input: Input, number: u32) -> Option<&str> {
        self.called.get(&input)?.0.get(number as usize).map(|name| &**name)
    }

    /// Whether an input is about packets that arrive on another device than this one.
    pub fn is_of_another(&self, input: Input, point: &[bool]) -> bool {
        let arrival = self.called.get(&input).and_then(|(_, arrival)| *arrival);
        let here = self.value(Field::Meta(MetaKey::IifName), point);
        arrival.is_some_and(|arrival| here.is_some_and(|here| here != arrival))
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
        value_at(bits, point)
    }

    /// The value of a field of one bit in a packet.
    pub fn flag(&self, field: Field, point: &[bool]) -> Option<bool> {
        self.value(field, point).map(|bytes| bytes[0] != 0)
    }

    /// The value that a field has in all packets of a region, as bytes of the number; `None` if
    /// there are several, or none.
    ///
    /// # Errors
    /// A limit.
    pub fn only_value(&self, region: &Region, field: Field) -> Decided<Option<Vec<u8>>> {
        let Some(point) = self.diagrams.packet_of(region) else { return Ok(None) };
        let Some(value) = self.value(field, &point) else { return Ok(None) };
        let same = self.with_values(&[(field, value.clone())])?;
        Ok(self.diagrams.within_other(region, &same)?.then_some(value))
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
        self.diagrams.cube(wanted)
    }

    /// Fields that say what was done, among those that were asked.
    pub fn is_done(field: Field) -> bool {
        matches!(field, Field::Done(_))
    }

    /// Whether an input can be understood without a number: those of one bit.
    pub fn is_choice(input: Input) -> bool {
        !matches!(input.what, What::Number | What::Address | What::Port | What::Hop | What::Frames)
    }
}
