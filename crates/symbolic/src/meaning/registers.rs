// SPDX-License-Identifier: Apache-2.0

//! Numbers in registers: comparisons and arithmetic.

use penstock_program::expr::{BoolOp, CmpOp};
use penstock_program::op::Op;

use super::{Answer, Meaning, next};
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::machine::host_words;

impl Meaning<'_> {
    /// Compares a word under a mask, both in memory order.
    pub(super) fn compare_word(
        &mut self,
        src: u8,
        equal: bool,
        mask: u32,
        data: u32,
        live: Region,
    ) -> Answer {
        let bits = self.machine.read(src, 4);
        let (data, mask) = (data.to_ne_bytes(), mask.to_ne_bytes());
        let same = bits::equal(&self.universe.diagrams, &bits, &data, &mask)?;
        self.only(live, &same, equal)
    }

    pub(super) fn compare(
        &mut self,
        op: CmpOp,
        src: u8,
        len: u8,
        data: &[u8],
        live: Region,
    ) -> Answer {
        let bits = self.machine.read(src, len);
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

    /// An interval from its first to its last value.
    pub(super) fn range(
        &mut self,
        inside: bool,
        src: u8,
        len: u8,
        ends: &[[u8; 16]; 2],
        live: Region,
    ) -> Answer {
        let bits = self.machine.read(src, len);
        let [from, to] = ends.each_ref().map(|end| &end[..bits.len() / 8]);
        let d = &self.universe.diagrams;
        let region = d.and(&bits::at_least(d, &bits, from)?, &bits::at_most(d, &bits, to)?)?;
        self.only(live, &region, inside)
    }

    /// Both, one of them or not both alike: words of two registers, bit by bit.
    pub(super) fn combine(&mut self, operation: &Op, live: Region) -> Answer {
        let Op::Combine { op, src, other, dst, words } = operation else { return next(live) };
        for i in 0..*words {
            let a = self.machine.read(src + i, 4);
            let b = self.machine.read(other + i, 4);
            let d = &self.universe.diagrams;
            let bits = a.iter().zip(&b).map(|(a, b)| match op {
                BoolOp::And => a.and(b, d),
                BoolOp::Or => a.or(b, d),
                BoolOp::Xor => a.xor(b, d),
            });
            let combined: Decided<Vec<Bit>> = bits.collect();
            self.machine.load(dst + i, &combined?);
        }
        next(live)
    }

    /// Turns the bytes of numbers of `size` bytes round, where the host is little-endian.
    pub(super) fn byteorder(
        &mut self,
        src: u8,
        dst: u8,
        len: u8,
        size: u8,
        live: Region,
    ) -> Answer {
        let size = usize::from(size).max(1);
        let mut value = self.machine.read(src, len);
        value.truncate(value.len() / (size * 8) * (size * 8));
        if cfg!(target_endian = "little") {
            value = value
                .chunks(size * 8)
                .flat_map(|number| number.chunks(8).rev().flatten().cloned())
                .collect();
        }
        self.machine.store(dst, &value);
        next(live)
    }

    pub(super) fn mask_xor(
        &mut self,
        src: u8,
        dst: u8,
        masks: &[u32],
        xors: &[u32],
        live: Region,
    ) -> Answer {
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
        next(live)
    }

    /// Shifts to the left, or to the right for negative numbers: words are numbers in host order,
    /// and the first word is the most significant one.
    pub(super) fn shift(&mut self, src: u8, dst: u8, words: u8, by: i64, live: Region) -> Answer {
        let number = host_words(&self.machine.read(src, words.saturating_mul(4)));
        let moved: Vec<Bit> = (0..number.len() as i64)
            .map(|i| {
                let from = usize::try_from(i + by).ok();
                from.and_then(|from| number.get(from)).cloned().unwrap_or(Bit::ZERO)
            })
            .collect();
        self.machine.store(dst, &host_words(&moved));
        next(live)
    }
}
