// SPDX-License-Identifier: Apache-2.0

//! Numbers whose bits are not known: each is a set of packets, those for which it is 1.

use crate::diagram::{Decided, Diagrams, Region};

/// A bit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Bit {
    /// The same for all packets.
    Known(bool),
    /// 1 for these packets.
    Of(Region),
}

impl Bit {
    /// Zero.
    pub const ZERO: Bit = Bit::Known(false);

    /// 1 for the packets of a region.
    pub fn of(region: Region) -> Bit {
        match (region.is_none(), region.is_all()) {
            (true, _) => Bit::Known(false),
            (_, true) => Bit::Known(true),
            _ => Bit::Of(region),
        }
    }

    /// Packets for which it is 1.
    pub fn region(&self, diagrams: &Diagrams) -> Region {
        match self {
            Bit::Known(true) => diagrams.all(),
            Bit::Known(false) => diagrams.none(),
            Bit::Of(region) => region.clone(),
        }
    }

    /// The other value.
    pub fn not(&self, diagrams: &Diagrams) -> Decided<Bit> {
        Ok(match self {
            Bit::Known(value) => Bit::Known(!value),
            Bit::Of(region) => Bit::of(diagrams.not(region)),
        })
    }

    /// Both.
    pub fn and(&self, other: &Bit, diagrams: &Diagrams) -> Decided<Bit> {
        Ok(match (self, other) {
            (Bit::Known(false), _) | (_, Bit::Known(false)) => Bit::Known(false),
            (Bit::Known(true), bit) | (bit, Bit::Known(true)) => bit.clone(),
            (Bit::Of(a), Bit::Of(b)) => Bit::of(diagrams.and(a, b)?),
        })
    }

    /// One of them, or both.
    pub fn or(&self, other: &Bit, diagrams: &Diagrams) -> Decided<Bit> {
        Ok(match (self, other) {
            (Bit::Known(true), _) | (_, Bit::Known(true)) => Bit::Known(true),
            (Bit::Known(false), bit) | (bit, Bit::Known(false)) => bit.clone(),
            (Bit::Of(a), Bit::Of(b)) => Bit::of(diagrams.or(a, b)?),
        })
    }

    /// Whether they differ.
    pub fn xor(&self, other: &Bit, diagrams: &Diagrams) -> Decided<Bit> {
        match (self, other) {
            (Bit::Known(false), bit) | (bit, Bit::Known(false)) => Ok(bit.clone()),
            (Bit::Known(true), bit) | (bit, Bit::Known(true)) => bit.not(diagrams),
            (Bit::Of(a), Bit::Of(b)) => Ok(Bit::of(diagrams.xor(a, b)?)),
        }
    }

    /// `then` for packets of a region, `self` for all others.
    pub fn replaced(&self, region: &Region, then: &Bit, diagrams: &Diagrams) -> Decided<Bit> {
        if self == then || region.is_none() {
            return Ok(self.clone());
        }
        let (then, otherwise) = (then.region(diagrams), self.region(diagrams));
        Ok(Bit::of(diagrams.select(region, &then, &otherwise)?))
    }

    /// One of two regions, as the bit has it.
    fn choose(&self, one: Region, zero: Region, diagrams: &Diagrams) -> Decided<Region> {
        match self {
            Bit::Known(true) => Ok(one),
            Bit::Known(false) => Ok(zero),
            Bit::Of(_) if one == zero => Ok(one),
            Bit::Of(region) => diagrams.select(region, &one, &zero),
        }
    }
}

/// Bit `i` of bytes, the most significant bit of the first byte first.
pub fn bit_of(bytes: &[u8], i: usize) -> bool {
    bytes.get(i / 8).is_some_and(|byte| byte >> (7 - i % 8) & 1 != 0)
}

/// Bits of constant bytes.
pub fn constant(bytes: &[u8]) -> Vec<Bit> {
    (0..bytes.len() * 8).map(|i| Bit::Known(bit_of(bytes, i))).collect()
}

/// Packets for which the bits are these bytes, under a mask.
pub fn equal(diagrams: &Diagrams, bits: &[Bit], value: &[u8], mask: &[u8]) -> Decided<Region> {
    let mut region = diagrams.all();
    for (i, bit) in bits.iter().enumerate().rev() {
        if !bit_of(mask, i) {
            continue;
        }
        region = match bit_of(value, i) {
            true => bit.choose(region, diagrams.none(), diagrams)?,
            false => bit.choose(diagrams.none(), region, diagrams)?,
        };
    }
    Ok(region)
}

/// Packets for which two numbers are the same.
pub fn same(diagrams: &Diagrams, a: &[Bit], b: &[Bit]) -> Decided<Region> {
    let mut region = diagrams.all();
    for (a, b) in a.iter().zip(b).rev() {
        let differ = a.xor(b, diagrams)?.region(diagrams);
        region = diagrams.minus(&region, &differ)?;
    }
    Ok(region)
}

/// Packets for which a number is at most another one.
pub fn not_above(diagrams: &Diagrams, a: &[Bit], b: &[Bit]) -> Decided<Region> {
    let mut region = diagrams.all();
    for (a, b) in a.iter().zip(b).rev() {
        let (of_a, of_b) = (a.region(diagrams), b.region(diagrams));
        let less = diagrams.minus(&of_b, &of_a)?;
        let differ = diagrams.xor(&of_a, &of_b)?;
        region = diagrams.select(&differ, &less, &region)?;
    }
    Ok(region)
}

/// A number less one, for numbers that are not zero.
pub fn one_less(diagrams: &Diagrams, bits: &[Bit]) -> Decided<Vec<Bit>> {
    let mut less = bits.to_vec();
    // A bit turns if all after it are zero.
    let mut borrow = Bit::Known(true);
    for bit in less.iter_mut().rev() {
        let next = bit.not(diagrams)?.and(&borrow, diagrams)?;
        *bit = bit.xor(&borrow, diagrams)?;
        borrow = next;
    }
    Ok(less)
}

/// Packets for which the bytes are at most these, in the order of `memcmp`.
pub fn at_most(diagrams: &Diagrams, bits: &[Bit], value: &[u8]) -> Decided<Region> {
    let mut region = diagrams.all();
    for (i, bit) in bits.iter().enumerate().rev() {
        region = match bit_of(value, i) {
            true => bit.choose(region, diagrams.all(), diagrams)?,
            false => bit.choose(diagrams.none(), region, diagrams)?,
        };
    }
    Ok(region)
}

/// Packets for which the bytes are at least these, in the order of `memcmp`.
pub fn at_least(diagrams: &Diagrams, bits: &[Bit], value: &[u8]) -> Decided<Region> {
    let mut region = diagrams.all();
    for (i, bit) in bits.iter().enumerate().rev() {
        region = match bit_of(value, i) {
            true => bit.choose(region, diagrams.none(), diagrams)?,
            false => bit.choose(diagrams.all(), region, diagrams)?,
        };
    }
    Ok(region)
}

/// First and last of an interval, as bytes.
pub type Interval<'a> = (&'a [u8], &'a [u8]);

/// Packets for which the bytes are in one of the intervals, which ascend and are apart from each
/// other: one node or two for each bit that tells intervals apart, not for each bit of each.
pub fn in_intervals(
    diagrams: &Diagrams,
    bits: &[Bit],
    intervals: &[Interval<'_>],
) -> Decided<Region> {
    descend(diagrams, bits, 0, intervals, false, false)
}

/// From bit `i` on; the first interval begins before what is left (`open.0`), the last ends after.
fn descend(
    diagrams: &Diagrams,
    bits: &[Bit],
    i: usize,
    intervals: &[Interval<'_>],
    begun: bool,
    unended: bool,
) -> Decided<Region> {
    let Some(last) = intervals.len().checked_sub(1) else { return Ok(diagrams.none()) };
    if i == bits.len() || last == 0 && begun && unended {
        return Ok(diagrams.all());
    }
    let from = |at: usize| !(at == 0 && begun) && bit_of(intervals[at].0, i);
    let to = |at: usize| at == last && unended || bit_of(intervals[at].1, i);
    let search = |is_high: &dyn Fn(usize) -> bool| {
        let (mut low, mut high) = (0, intervals.len());
        while low < high {
            let middle = (low + high) / 2;
            if is_high(middle) { high = middle } else { low = middle + 1 }
        }
        low
    };
    // Those before `below` begin in the lower half, those from `above` on end in the upper one.
    let (below, above) = (search(&from), search(&to));
    let crosses = above < below;
    let known = match &bits[i] {
        Bit::Known(value) => Some(*value),
        Bit::Of(_) => None,
    };
    let mut low = diagrams.none();
    if known != Some(true) {
        let unended = crosses || unended && below == intervals.len();
        low = descend(diagrams, bits, i + 1, &intervals[..below], begun, unended)?;
    }
    let mut high = diagrams.none();
    if known != Some(false) {
        let begun = crosses || begun && above == 0;
        high = descend(diagrams, bits, i + 1, &intervals[above..], begun, unended)?;
    }
    bits[i].choose(high, low, diagrams)
}

/// The value of bits for a packet.
pub(crate) fn value_at(bits: &[Bit], point: &[bool]) -> Vec<u8> {
    let mut bytes = vec![0; bits.len().div_ceil(8)];
    let pad = bytes.len() * 8 - bits.len();
    for (i, bit) in bits.iter().enumerate() {
        let one = match bit {
            Bit::Known(value) => *value,
            Bit::Of(region) => region.contains(point),
        };
        if one {
            bytes[(pad + i) / 8] |= 0x80 >> ((pad + i) % 8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagram::Limits;

    #[test]
    fn numbers_compare_and_count_down_as_numbers_do() {
        const WIDTH: usize = 3;
        let mut d = Diagrams::new(Limits::default());
        d.add_variables(2 * WIDTH as u32);
        let number = |from: usize| -> Vec<Bit> {
            (from..from + WIDTH).map(|n| Bit::of(d.variable(n as u32, true).unwrap())).collect()
        };
        let (a, b) = (number(0), number(WIDTH));
        let not_above = not_above(&d, &a, &b).unwrap();
        let less = one_less(&d, &a).unwrap();
        for point in 0..1u8 << (2 * WIDTH) {
            let at = |i: usize| point >> (2 * WIDTH - 1 - i) & 1 == 1;
            let bits: Vec<bool> = (0..2 * WIDTH).map(at).collect();
            let (x, y) = (point >> WIDTH, point & ((1 << WIDTH) - 1));
            assert_eq!(not_above.contains(&bits), x <= y, "{x} {y}");
            let expected = x.wrapping_sub(1) & ((1 << WIDTH) - 1);
            assert_eq!(value_at(&less, &bits), [expected], "{x}");
        }
    }
}
