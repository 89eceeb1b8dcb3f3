// SPDX-License-Identifier: Apache-2.0

//! Expressions on sets, objects and flowtables.

use penstock_program::expr::{Dynset, FlowOffload, Lookup, Objref};
use penstock_ruleset::Errno;

use super::form::{Be64Or0, Checked, Enum, Form, OptReg, Reg};
use super::{Codec, Ids};
use crate::message::{Attributes, Check, Failure, Policy, Writer};
use crate::uapi::nf_tables::*;

/// Most expressions of an element (`NFT_SET_EXPR_MAX`).
const STATEMENTS_MAX: usize = 2;

/// `NFT_LOOKUP_F_INV`
const LOOKUP_INVERSE: u32 = 1;

impl Codec for Lookup {
    const POLICY: Policy = &[
        (NFTA_LOOKUP_SET, Check::String(NAME_MAX)),
        (NFTA_LOOKUP_SET_ID, Check::U32),
        (NFTA_LOOKUP_SREG, Reg::CHECK),
        (NFTA_LOOKUP_DREG, Reg::CHECK),
        (NFTA_LOOKUP_FLAGS, Check::U32),
    ];

    fn read(attributes: &Attributes<'_>, ids: &Ids) -> Result<Self, Failure> {
        let flags = attributes.be32(NFTA_LOOKUP_FLAGS).unwrap_or(0);
        let name = attributes.need(NFTA_LOOKUP_SET)?;
        let dreg = OptReg::read(attributes.get(NFTA_LOOKUP_DREG))?;
        if flags & !LOOKUP_INVERSE != 0 || flags & LOOKUP_INVERSE != 0 && dreg.is_some() {
            return Err(Failure::einval());
        }
        Ok(Lookup {
            set: ids.set(name, attributes.get(NFTA_LOOKUP_SET_ID))?,
            sreg: Reg::read(attributes.get(NFTA_LOOKUP_SREG))?,
            dreg,
            inverse: flags & LOOKUP_INVERSE != 0,
        })
    }

    fn write(&self, to: &mut Writer) {
        to.string(NFTA_LOOKUP_SET, &self.set);
        Reg::write(&self.sreg, NFTA_LOOKUP_SREG, to);
        OptReg::write(&self.dreg, NFTA_LOOKUP_DREG, to);
        to.be32(NFTA_LOOKUP_FLAGS, if self.inverse { LOOKUP_INVERSE } else { 0 });
    }
}

/// `NFT_DYNSET_F_INV`
const DYNSET_INVERTED: u32 = 1;
/// `NFT_DYNSET_F_EXPR`: says that expressions are asked for, and nothing more.
const DYNSET_EXPR: u32 = 2;

impl Codec for Dynset {
    const POLICY: Policy = &[
        (NFTA_DYNSET_SET_NAME, Check::String(NAME_MAX)),
        (NFTA_DYNSET_SET_ID, Check::U32),
        (NFTA_DYNSET_OP, Check::Max(255)),
        (NFTA_DYNSET_SREG_KEY, Reg::CHECK),
        (NFTA_DYNSET_SREG_DATA, Reg::CHECK),
        (NFTA_DYNSET_TIMEOUT, Check::U64),
        (NFTA_DYNSET_EXPR, Check::Nested),
        (NFTA_DYNSET_FLAGS, Check::U32),
        (NFTA_DYNSET_EXPRESSIONS, Check::Nested),
    ];

    fn read(attributes: &Attributes<'_>, ids: &Ids) -> Result<Self, Failure> {
        let flags = attributes.be32(NFTA_DYNSET_FLAGS).unwrap_or(0);
        if flags & !(DYNSET_INVERTED | DYNSET_EXPR) != 0 {
            return Err(Errno::Eopnotsupp.into());
        }
        let name = attributes.need(NFTA_DYNSET_SET_NAME)?;
        let exprs = match attributes.get(NFTA_DYNSET_EXPR) {
            Some(expr) => vec![super::read(expr, ids)?],
            None => match attributes.get(NFTA_DYNSET_EXPRESSIONS) {
                Some(list) => super::read_list(list, STATEMENTS_MAX, ids)?,
                None => Vec::new(),
            },
        };
        Ok(Dynset {
            set: ids.set(name, attributes.get(NFTA_DYNSET_SET_ID))?,
            op: Enum::read(attributes.get(NFTA_DYNSET_OP))?,
            sreg_key: Reg::read(attributes.get(NFTA_DYNSET_SREG_KEY))?,
            sreg_data: OptReg::read(attributes.get(NFTA_DYNSET_SREG_DATA))?,
            timeout: Be64Or0::read(attributes.get(NFTA_DYNSET_TIMEOUT))?,
            invert: flags & DYNSET_INVERTED != 0,
            exprs,
        })
    }

    fn write(&self, to: &mut Writer) {
        Reg::write(&self.sreg_key, NFTA_DYNSET_SREG_KEY, to);
        OptReg::write(&self.sreg_data, NFTA_DYNSET_SREG_DATA, to);
        Enum::write(&self.op, NFTA_DYNSET_OP, to);
        to.string(NFTA_DYNSET_SET_NAME, &self.set);
        to.be64(NFTA_DYNSET_TIMEOUT, self.timeout);
        match self.exprs.as_slice() {
            [] => {}
            [expr] => to.nest(NFTA_DYNSET_EXPR, |to| super::write(expr, to)),
            exprs => to.nest(NFTA_DYNSET_EXPRESSIONS, |to| super::write_list(exprs, to)),
        }
        to.be32(NFTA_DYNSET_FLAGS, if self.invert { DYNSET_INVERTED } else { 0 });
    }
}

impl Codec for Objref {
    const POLICY: Policy = &[
        (NFTA_OBJREF_IMM_NAME, Check::String(255)),
        (NFTA_OBJREF_IMM_TYPE, Enum::CHECK),
        (NFTA_OBJREF_SET_SREG, Reg::CHECK),
        (NFTA_OBJREF_SET_NAME, Check::String(NAME_MAX)),
        (NFTA_OBJREF_SET_ID, Check::U32),
    ];

    fn read(attributes: &Attributes<'_>, ids: &Ids) -> Result<Self, Failure> {
        if attributes.has(NFTA_OBJREF_SET_SREG) {
            let name = attributes.need(NFTA_OBJREF_SET_NAME)?;
            return Ok(Objref::Map {
                sreg: Reg::read(attributes.get(NFTA_OBJREF_SET_SREG))?,
                set: ids.set(name, attributes.get(NFTA_OBJREF_SET_ID))?,
            });
        }
        match (attributes.get(NFTA_OBJREF_IMM_NAME), attributes.get(NFTA_OBJREF_IMM_TYPE)) {
            (Some(name), kind @ Some(_)) => {
                Ok(Objref::Named { kind: Enum::read(kind)?, name: name.text()?.into() })
            }
            _ => Err(Errno::Eopnotsupp.into()),
        }
    }

    fn write(&self, to: &mut Writer) {
        match self {
            Objref::Named { kind, name } => {
                to.string(NFTA_OBJREF_IMM_NAME, name);
                Enum::write(kind, NFTA_OBJREF_IMM_TYPE, to);
            }
            Objref::Map { sreg, set } => {
                Reg::write(sreg, NFTA_OBJREF_SET_SREG, to);
                to.string(NFTA_OBJREF_SET_NAME, set);
            }
        }
    }
}

impl Codec for FlowOffload {
    const POLICY: Policy = &[(NFTA_FLOW_TABLE_NAME, Check::String(255))];

    fn read(attributes: &Attributes<'_>, _: &Ids) -> Result<Self, Failure> {
        Ok(FlowOffload { flowtable: attributes.need(NFTA_FLOW_TABLE_NAME)?.text()?.into() })
    }

    fn write(&self, to: &mut Writer) {
        to.string(NFTA_FLOW_TABLE_NAME, &self.flowtable);
    }
}
