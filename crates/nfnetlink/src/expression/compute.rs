// SPDX-License-Identifier: Apache-2.0

//! Expressions on registers alone: constants, comparisons, arithmetic, hashes.

use penstock_program::Register;
use penstock_program::expr::{
    Bitwise, BitwiseOp, BoolOp, Cmp, Hash, Immediate, ImmediateData, Range,
};
use penstock_ruleset::Errno;

use super::data::{Data, read_data, write_value, write_verdict};
use super::form::{Be32, Be32Not0, Be32Or0, Checked, Enum, Form, Reg, attributes};
use super::number::Numbered;
use super::{Codec, Ids};
use crate::message::{Attributes, Check, Failure, Policy, Writer};
use crate::uapi::nf_tables::*;

attributes! {
    /// `net/netfilter/nft_byteorder.c`
    Byteorder:
        sreg NFTA_BYTEORDER_SREG Reg,
        dreg NFTA_BYTEORDER_DREG Reg,
        op NFTA_BYTEORDER_OP Enum,
        len NFTA_BYTEORDER_LEN Be32,
        size NFTA_BYTEORDER_SIZE Be32;
}

/// A constant of one register.
fn constant(
    attributes: &Attributes<'_>,
    kind: u16,
    ids: &Ids,
) -> Result<penstock_program::Data, Failure> {
    read_data(attributes.need(kind)?, ids)?.value()
}

impl Codec for Immediate {
    const POLICY: Policy =
        &[(NFTA_IMMEDIATE_DREG, Reg::CHECK), (NFTA_IMMEDIATE_DATA, Check::Nested)];

    fn read(attributes: &Attributes<'_>, ids: &Ids) -> Result<Self, Failure> {
        let dreg = Reg::read(attributes.get(NFTA_IMMEDIATE_DREG))?;
        let data = match read_data(attributes.need(NFTA_IMMEDIATE_DATA)?, ids)? {
            Data::Value(bytes) if dreg != Register::VERDICT => {
                ImmediateData::Value(penstock_program::Data::new(bytes))
            }
            Data::Verdict(verdict) if dreg == Register::VERDICT => ImmediateData::Verdict(verdict),
            Data::Value(_) | Data::Verdict(_) => return Err(Failure::einval()),
        };
        Ok(Immediate { dreg, data })
    }

    fn write(&self, to: &mut Writer) {
        Reg::write(&self.dreg, NFTA_IMMEDIATE_DREG, to);
        match &self.data {
            ImmediateData::Value(data) => write_value(NFTA_IMMEDIATE_DATA, data.bytes(), to),
            ImmediateData::Verdict(verdict) => write_verdict(NFTA_IMMEDIATE_DATA, verdict, to),
        }
    }
}

impl Codec for Cmp {
    const POLICY: Policy =
        &[(NFTA_CMP_SREG, Reg::CHECK), (NFTA_CMP_OP, Enum::CHECK), (NFTA_CMP_DATA, Check::Nested)];

    fn read(attributes: &Attributes<'_>, ids: &Ids) -> Result<Self, Failure> {
        Ok(Cmp {
            op: Enum::read(attributes.get(NFTA_CMP_OP))?,
            sreg: Reg::read(attributes.get(NFTA_CMP_SREG))?,
            data: constant(attributes, NFTA_CMP_DATA, ids)?,
        })
    }

    fn write(&self, to: &mut Writer) {
        Reg::write(&self.sreg, NFTA_CMP_SREG, to);
        Enum::write(&self.op, NFTA_CMP_OP, to);
        write_value(NFTA_CMP_DATA, self.data.bytes(), to);
    }
}

impl Codec for Range {
    const POLICY: Policy = &[
        (NFTA_RANGE_SREG, Reg::CHECK),
        (NFTA_RANGE_OP, Check::Max(255)),
        (NFTA_RANGE_FROM_DATA, Check::Nested),
        (NFTA_RANGE_TO_DATA, Check::Nested),
    ];

    fn read(attributes: &Attributes<'_>, ids: &Ids) -> Result<Self, Failure> {
        let from = constant(attributes, NFTA_RANGE_FROM_DATA, ids)?;
        let to = constant(attributes, NFTA_RANGE_TO_DATA, ids)?;
        let op = Enum::read(attributes.get(NFTA_RANGE_OP))?;
        Ok(Range { op, sreg: Reg::read(attributes.get(NFTA_RANGE_SREG))?, from, to })
    }

    fn write(&self, to: &mut Writer) {
        Reg::write(&self.sreg, NFTA_RANGE_SREG, to);
        Enum::write(&self.op, NFTA_RANGE_OP, to);
        write_value(NFTA_RANGE_FROM_DATA, self.from.bytes(), to);
        write_value(NFTA_RANGE_TO_DATA, self.to.bytes(), to);
    }
}

/// `NFT_BITWISE_MASK_XOR`, which older programs leave away.
const MASK_XOR: u32 = 0;
/// `NFT_BITWISE_LSHIFT`
const LSHIFT: u32 = 1;
/// `NFT_BITWISE_RSHIFT`
const RSHIFT: u32 = 2;

impl Codec for Bitwise {
    const POLICY: Policy = &[
        (NFTA_BITWISE_SREG, Reg::CHECK),
        (NFTA_BITWISE_SREG2, Reg::CHECK),
        (NFTA_BITWISE_DREG, Reg::CHECK),
        (NFTA_BITWISE_LEN, Be32::CHECK),
        (NFTA_BITWISE_MASK, Check::Nested),
        (NFTA_BITWISE_XOR, Check::Nested),
        (NFTA_BITWISE_OP, Check::Max(255)),
        (NFTA_BITWISE_DATA, Check::Nested),
    ];

    fn read(attributes: &Attributes<'_>, ids: &Ids) -> Result<Self, Failure> {
        let len = Be32::read(attributes.get(NFTA_BITWISE_LEN))?;
        let sreg = Reg::read(attributes.get(NFTA_BITWISE_SREG))?;
        let dreg = Reg::read(attributes.get(NFTA_BITWISE_DREG))?;
        let none_of = |kinds: &[u16]| match kinds.iter().any(|kind| attributes.has(*kind)) {
            true => Err(Failure::einval()),
            false => Ok(()),
        };
        let shift = || -> Result<u32, Failure> {
            none_of(&[NFTA_BITWISE_MASK, NFTA_BITWISE_XOR, NFTA_BITWISE_SREG2])?;
            let bits = constant(attributes, NFTA_BITWISE_DATA, ids)?;
            // A constant in host order.
            let bits: [u8; 4] = bits.bytes().try_into().map_err(|_| Failure::einval())?;
            Ok(u32::from_ne_bytes(bits))
        };
        let op = match attributes.be32(NFTA_BITWISE_OP).unwrap_or(MASK_XOR) {
            MASK_XOR => {
                none_of(&[NFTA_BITWISE_DATA, NFTA_BITWISE_SREG2])?;
                let mask = constant(attributes, NFTA_BITWISE_MASK, ids)?;
                BitwiseOp::MaskXor { mask, xor: constant(attributes, NFTA_BITWISE_XOR, ids)? }
            }
            LSHIFT => BitwiseOp::Lshift(shift()?),
            RSHIFT => BitwiseOp::Rshift(shift()?),
            other => {
                none_of(&[NFTA_BITWISE_DATA, NFTA_BITWISE_MASK, NFTA_BITWISE_XOR])?;
                let sreg2 = Reg::read(attributes.get(NFTA_BITWISE_SREG2))?;
                BitwiseOp::Combine(BoolOp::from_number(other)?, sreg2)
            }
        };
        Ok(Bitwise { sreg, dreg, len, op })
    }

    fn write(&self, to: &mut Writer) {
        Reg::write(&self.sreg, NFTA_BITWISE_SREG, to);
        Reg::write(&self.dreg, NFTA_BITWISE_DREG, to);
        to.be32(NFTA_BITWISE_LEN, self.len);
        let number = match &self.op {
            BitwiseOp::MaskXor { .. } => MASK_XOR,
            BitwiseOp::Lshift(_) => LSHIFT,
            BitwiseOp::Rshift(_) => RSHIFT,
            BitwiseOp::Combine(op, _) => op.number(),
        };
        to.be32(NFTA_BITWISE_OP, number);
        match &self.op {
            BitwiseOp::MaskXor { mask, xor } => {
                write_value(NFTA_BITWISE_MASK, mask.bytes(), to);
                write_value(NFTA_BITWISE_XOR, xor.bytes(), to);
            }
            BitwiseOp::Lshift(bits) | BitwiseOp::Rshift(bits) => {
                write_value(NFTA_BITWISE_DATA, &bits.to_ne_bytes(), to);
            }
            BitwiseOp::Combine(_, sreg2) => Reg::write(sreg2, NFTA_BITWISE_SREG2, to),
        }
    }
}

/// `NFT_HASH_JENKINS`
const JENKINS: u32 = 0;
/// `NFT_HASH_SYM`
const SYM: u32 = 1;

impl Codec for Hash {
    const POLICY: Policy = &[
        (NFTA_HASH_SREG, Reg::CHECK),
        (NFTA_HASH_DREG, Reg::CHECK),
        (NFTA_HASH_LEN, Check::Max(255)),
        (NFTA_HASH_MODULUS, Be32::CHECK),
        (NFTA_HASH_SEED, Be32::CHECK),
        (NFTA_HASH_OFFSET, Be32::CHECK),
        (NFTA_HASH_TYPE, Be32::CHECK),
    ];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        let offset = Be32Or0::read(attributes.get(NFTA_HASH_OFFSET))?;
        let dreg = Reg::read(attributes.get(NFTA_HASH_DREG))?;
        let modulus = Be32::read(attributes.get(NFTA_HASH_MODULUS))?;
        match attributes.be32(NFTA_HASH_TYPE).unwrap_or(JENKINS) {
            JENKINS => Ok(Hash::Jenkins {
                sreg: Reg::read(attributes.get(NFTA_HASH_SREG))?,
                len: Be32::read(attributes.get(NFTA_HASH_LEN))?,
                seed: attributes.be32(NFTA_HASH_SEED),
                modulus,
                offset,
                dreg,
            }),
            SYM => Ok(Hash::Sym { modulus, offset, dreg }),
            _ => Err(Errno::Eopnotsupp.into()),
        }
    }

    fn write(&self, to: &mut Writer) {
        match self {
            Hash::Jenkins { sreg, len, seed, modulus, offset, dreg } => {
                Reg::write(sreg, NFTA_HASH_SREG, to);
                Reg::write(dreg, NFTA_HASH_DREG, to);
                to.be32(NFTA_HASH_LEN, *len);
                to.be32(NFTA_HASH_MODULUS, *modulus);
                if let Some(seed) = seed {
                    to.be32(NFTA_HASH_SEED, *seed);
                }
                Be32Not0::write(offset, NFTA_HASH_OFFSET, to);
                to.be32(NFTA_HASH_TYPE, JENKINS);
            }
            Hash::Sym { modulus, offset, dreg } => {
                Reg::write(dreg, NFTA_HASH_DREG, to);
                to.be32(NFTA_HASH_MODULUS, *modulus);
                Be32Not0::write(offset, NFTA_HASH_OFFSET, to);
                to.be32(NFTA_HASH_TYPE, SYM);
            }
        }
    }
}
