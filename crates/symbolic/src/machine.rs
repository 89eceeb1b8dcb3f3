// SPDX-License-Identifier: Apache-2.0

//! What an evaluation holds on its way: registers, and what was written into the packet.

use std::collections::HashMap;
use std::ops::Range;

use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::field::{Base, Done, Field};
use crate::universe::Universe;

/// Sixteen registers of 4 bytes, bit by bit, and the fields that rules have written.
///
/// There is one for all packets: each bit is a function of the packet as it came, so that packets
/// that went different ways are in it side by side.
#[derive(Clone)]
pub struct Machine {
    registers: Vec<Bit>,
    /// Values of fields that are not those the packet came with, most significant bit first.
    pub(crate) writes: HashMap<Field, Vec<Bit>>,
    /// Bytes of checksums that are not known, and of which packets.
    pub(crate) summed: HashMap<Field, Region>,
    /// Bytes of headers that are not known where packets are.
    pub(crate) hidden: Vec<Hidden>,
}

/// Bytes of a header that are not known.
#[derive(Clone)]
pub(crate) struct Hidden {
    /// Which header.
    pub base: Base,
    /// Bytes from its start.
    pub bytes: Range<u16>,
    /// Of which packets.
    pub region: Region,
    /// What is said of a rule that asks for them.
    pub reason: &'static str,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Machine {
            registers: vec![Bit::ZERO; 512],
            writes: HashMap::new(),
            summed: HashMap::new(),
            hidden: Vec::new(),
        }
    }

    fn at(slot: u8) -> usize {
        usize::from(slot & 15) * 32
    }

    /// Bits of bytes from a slot on.
    pub fn read(&self, slot: u8, len: u8) -> Vec<Bit> {
        let at = Self::at(slot);
        self.registers[at..(at + usize::from(len) * 8).min(512)].to_vec()
    }

    /// Puts bytes in from a slot on; the rest of the last word becomes zero.
    pub fn load(&mut self, slot: u8, value: &[Bit]) {
        let at = Self::at(slot);
        let whole = value.len().next_multiple_of(32);
        for (i, to) in self.registers.iter_mut().skip(at).take(whole).enumerate() {
            *to = value.get(i).cloned().unwrap_or(Bit::ZERO);
        }
    }

    /// Puts bytes in from a slot on; the rest of the last word stays.
    pub fn store(&mut self, slot: u8, value: &[Bit]) {
        let at = Self::at(slot);
        self.registers.iter_mut().skip(at).zip(value).for_each(|(to, from)| to.clone_from(from));
    }

    /// The value of a field now.
    pub fn field(&self, universe: &mut Universe, field: Field) -> Decided<Vec<Bit>> {
        match self.writes.get(&field) {
            Some(bits) => Ok(bits.clone()),
            None if Universe::is_done(field) => Ok(vec![Bit::ZERO; field.width() as usize]),
            None => universe.bits(field),
        }
    }

    /// The value of a field now, in the order of register bytes.
    pub fn in_register(&self, universe: &mut Universe, field: Field) -> Decided<Vec<Bit>> {
        Ok(swapped(field, &self.field(universe, field)?))
    }

    /// Writes a field for packets of a region; the bits are most significant first.
    pub fn write(
        &mut self,
        universe: &mut Universe,
        region: &Region,
        field: Field,
        value: &[Bit],
    ) -> Decided<()> {
        let mut bits = self.field(universe, field)?;
        for (bit, value) in bits.iter_mut().zip(value) {
            *bit = bit.replaced(region, value, &universe.diagrams)?;
        }
        self.writes.insert(field, bits);
        Ok(())
    }

    /// Writes a field from bits in the order of register bytes.
    pub fn write_register(
        &mut self,
        universe: &mut Universe,
        region: &Region,
        field: Field,
        value: &[Bit],
    ) -> Decided<()> {
        let mut value = value.to_vec();
        value.resize(field.width() as usize, Bit::ZERO);
        let value = swapped(field, &value);
        self.write(universe, region, field, &value)
    }

    /// Notes that something was done, as a number.
    pub fn done(
        &mut self,
        universe: &mut Universe,
        region: &Region,
        done: Done,
        value: u32,
    ) -> Decided<()> {
        let field = Field::Done(done);
        let width = field.width() as usize;
        let value: Vec<Bit> =
            (0..width).map(|i| Bit::Known(u128::from(value) >> (width - 1 - i) & 1 != 0)).collect();
        self.write(universe, region, field, &value)
    }
}

/// Bits of a number in the order of register bytes, or back.
fn swapped(field: Field, bits: &[Bit]) -> Vec<Bit> {
    if !field.is_in_host_order() || bits.len() < 8 {
        return bits.to_vec();
    }
    bits.chunks(8).rev().flatten().cloned().collect()
}

/// Adds numbers of up to a word: shifts by whole bits over words in host order, as `bitwise` does.
pub(crate) fn host_words(bits: &[Bit]) -> Vec<Bit> {
    // Each word most significant bit first, whatever the host's order is.
    bits.chunks(32)
        .flat_map(|word| -> Vec<Bit> {
            match cfg!(target_endian = "little") {
                true => word.chunks(8).rev().flatten().cloned().collect(),
                false => word.to_vec(),
            }
        })
        .collect()
}

/// Bits of a value of known bytes.
pub(crate) fn known(bytes: &[u8]) -> Vec<Bit> {
    bits::constant(bytes)
}
