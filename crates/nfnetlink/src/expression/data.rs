// SPDX-License-Identifier: Apache-2.0

//! Constants and verdicts (`NFTA_DATA_*`, `nft_data_init()`, `nft_data_dump()`).

use std::sync::Arc;

use penstock_program::Verdict;

use super::Ids;
use crate::message::{Attribute, Check, Failure, Policy, Writer};
use crate::uapi::nf_tables::*;

/// Longest constant in bytes (`NFT_DATA_VALUE_MAXLEN`).
const VALUE_MAX: usize = 64;

const DATA_POLICY: Policy =
    &[(NFTA_DATA_VALUE, Check::Binary(0)), (NFTA_DATA_VERDICT, Check::Nested)];
const VERDICT_POLICY: Policy = &[
    (NFTA_VERDICT_CODE, Check::U32),
    (NFTA_VERDICT_CHAIN, Check::String(255)),
    (NFTA_VERDICT_CHAIN_ID, Check::U32),
];

/// What a register is filled with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// Bytes as they lie in registers.
    Value(&'a [u8]),
    /// A verdict.
    Verdict(Verdict),
}

impl Data<'_> {
    /// Its bytes.
    ///
    /// # Errors
    /// `EINVAL` for a verdict.
    pub fn value(self) -> Result<penstock_program::Data, Failure> {
        match self {
            Data::Value(bytes) => Ok(penstock_program::Data::new(bytes)),
            Data::Verdict(_) => Err(Failure::einval()),
        }
    }
}

/// A constant or a verdict.
///
/// # Errors
/// `EINVAL` if it is neither, empty, or an unknown verdict; `EOVERFLOW` if it is longer than all
/// registers.
pub fn read_data<'a>(data: Attribute<'a>, ids: &Ids) -> Result<Data<'a>, Failure> {
    let attributes = data.attributes(DATA_POLICY)?;
    if let Some(value) = attributes.get(NFTA_DATA_VALUE) {
        return match value.payload.len() {
            0 => Err(Failure::einval()),
            1..=VALUE_MAX => Ok(Data::Value(value.payload)),
            _ => Err(penstock_ruleset::Errno::Eoverflow.into()),
        };
    }
    read_verdict(attributes.need(NFTA_DATA_VERDICT)?, ids).map(Data::Verdict)
}

/// Verdicts without a chain, by `enum nft_verdicts` and `NF_*`.
const VERDICTS: &[(i32, Verdict)] = &[
    (0, Verdict::Drop),
    (1, Verdict::Accept),
    (3, Verdict::Queue),
    (-1, Verdict::Continue),
    (-2, Verdict::Break),
    (-5, Verdict::Return),
];
const JUMP: i32 = -3;
const GOTO: i32 = -4;

fn read_verdict(verdict: Attribute<'_>, ids: &Ids) -> Result<Verdict, Failure> {
    let attributes = verdict.attributes(VERDICT_POLICY)?;
    let code = attributes.need(NFTA_VERDICT_CODE)?.be32() as i32;
    if let Some((_, verdict)) = VERDICTS.iter().find(|(number, _)| *number == code) {
        return Ok(verdict.clone());
    }
    let chain = || -> Result<Arc<str>, Failure> {
        if let Some(name) = attributes.get(NFTA_VERDICT_CHAIN) {
            return Ok(name.text()?.into());
        }
        let id = attributes.need(NFTA_VERDICT_CHAIN_ID)?.be32();
        ids.chains.get(&id).cloned().ok_or(penstock_ruleset::Errno::Enoent.into())
    };
    match code {
        JUMP => Ok(Verdict::Jump(chain()?)),
        GOTO => Ok(Verdict::Goto(chain()?)),
        _ => Err(Failure::einval()),
    }
}

/// Appends a constant.
pub fn write_value(kind: u16, value: &[u8], to: &mut Writer) {
    to.nest(kind, |to| to.attribute(NFTA_DATA_VALUE, value));
}

/// Appends a verdict.
pub fn write_verdict(kind: u16, verdict: &Verdict, to: &mut Writer) {
    let code = match verdict {
        Verdict::Jump(_) => JUMP,
        Verdict::Goto(_) => GOTO,
        _ => VERDICTS.iter().find(|(_, v)| v == verdict).map_or(0, |(code, _)| *code),
    };
    to.nest(kind, |to| {
        to.nest(NFTA_DATA_VERDICT, |to| {
            to.be32(NFTA_VERDICT_CODE, code as u32);
            if let Some(chain) = verdict.chain() {
                to.string(NFTA_VERDICT_CHAIN, chain);
            }
        });
    });
}
