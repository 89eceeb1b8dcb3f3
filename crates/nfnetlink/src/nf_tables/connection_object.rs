// SPDX-License-Identifier: Apache-2.0

//! Objects about connections: helpers, timeouts, expectations (`net/netfilter/nft_ct.c`).

use penstock_ruleset::model::{Family, ObjectValue};

use super::batch::name_of;
use crate::message::{Attribute, Attributes, Check, Failure, NESTED, Policy, Writer};
use crate::uapi::nf_tables::*;

const HELPER_POLICY: Policy = &[
    (NFTA_CT_HELPER_NAME, Check::String(15)),
    (NFTA_CT_HELPER_L3PROTO, Check::U16),
    (NFTA_CT_HELPER_L4PROTO, Check::U8),
];
const TIMEOUT_POLICY: Policy = &[
    (NFTA_CT_TIMEOUT_L3PROTO, Check::U16),
    (NFTA_CT_TIMEOUT_L4PROTO, Check::U8),
    (NFTA_CT_TIMEOUT_DATA, Check::Nested),
];
const EXPECT_POLICY: Policy = &[
    (NFTA_CT_EXPECT_L3PROTO, Check::U16),
    (NFTA_CT_EXPECT_L4PROTO, Check::U8),
    (NFTA_CT_EXPECT_DPORT, Check::U16),
    (NFTA_CT_EXPECT_TIMEOUT, Check::U32),
    (NFTA_CT_EXPECT_SIZE, Check::U8),
];

/// `IPPROTO_TCP`
const TCP: u8 = 6;
/// Seconds per state where an object says nothing, from the first state on: those of
/// `nf_conntrack_proto_tcp.c` and `nf_conntrack_proto_udp.c`.
const TCP_TIMEOUTS: &[u32] = &[120, 60, 432_000, 120, 60, 30, 120, 10, 120, 300, 300];
const UDP_TIMEOUTS: &[u32] = &[30, 120];

/// Seconds per state of a protocol, and the number of its first state. Attributes count from 1.
fn timeouts(l4proto: u8) -> (&'static [u32], u8) {
    if l4proto == TCP { (TCP_TIMEOUTS, 1) } else { (UDP_TIMEOUTS, 0) }
}

/// Appends what an object says.
pub fn write(to: &mut Writer, value: &ObjectValue) {
    match value {
        ObjectValue::CtHelper { helper, l4proto, l3proto } => {
            to.string(NFTA_CT_HELPER_NAME, helper);
            to.u8(NFTA_CT_HELPER_L4PROTO, *l4proto);
            to.be16(NFTA_CT_HELPER_L3PROTO, *l3proto);
        }
        ObjectValue::CtTimeout { l4proto, l3proto, values } => {
            to.u8(NFTA_CT_TIMEOUT_L4PROTO, *l4proto);
            to.be16(NFTA_CT_TIMEOUT_L3PROTO, *l3proto);
            let (defaults, first) = timeouts(*l4proto);
            to.nest(NFTA_CT_TIMEOUT_DATA | NESTED, |to| {
                for (number, default) in (0..).zip(defaults) {
                    let own = values.iter().find(|(state, _)| *state == number + first);
                    to.be32(u16::from(number) + 1, own.map_or(*default, |(_, seconds)| *seconds));
                }
            });
        }
        ObjectValue::CtExpect { l4proto, l3proto, dport, timeout, size } => {
            to.be16(NFTA_CT_EXPECT_L3PROTO, *l3proto);
            to.u8(NFTA_CT_EXPECT_L4PROTO, *l4proto);
            to.be16(NFTA_CT_EXPECT_DPORT, *dport);
            // In host order.
            to.attribute(NFTA_CT_EXPECT_TIMEOUT, &timeout.to_ne_bytes());
            to.u8(NFTA_CT_EXPECT_SIZE, *size);
        }
        _ => {}
    }
}

/// A helper.
///
/// # Errors
/// `EINVAL` if name or protocol is missing.
pub fn read_helper(data: Attribute<'_>, family: Family) -> Result<ObjectValue, Failure> {
    let given = data.attributes(HELPER_POLICY)?;
    Ok(ObjectValue::CtHelper {
        helper: name_of(given.need(NFTA_CT_HELPER_NAME)?)?,
        l4proto: given.need(NFTA_CT_HELPER_L4PROTO)?.u8(),
        l3proto: l3proto(&given, family, NFTA_CT_HELPER_L3PROTO),
    })
}

/// The family of the network layer: that of the table where none is given.
fn l3proto(given: &Attributes<'_>, family: Family, kind: u16) -> u16 {
    given.get(kind).map_or(family as u16, |proto| proto.be16())
}

/// Timeouts.
///
/// # Errors
/// `EINVAL` if protocol or timeouts are missing.
pub fn read_timeout(data: Attribute<'_>, family: Family) -> Result<ObjectValue, Failure> {
    let given = data.attributes(TIMEOUT_POLICY)?;
    let l4proto = given.need(NFTA_CT_TIMEOUT_L4PROTO)?.u8();
    let (defaults, first) = timeouts(l4proto);
    let mut values = Vec::new();
    for value in given.need(NFTA_CT_TIMEOUT_DATA)?.each() {
        let state = usize::from(value.kind).checked_sub(1).filter(|n| *n < defaults.len());
        if let Some(state) = state {
            values.push((state as u8 + first, value.be32()));
        }
    }
    values.sort_unstable();
    values.dedup_by_key(|(state, _)| *state);
    Ok(ObjectValue::CtTimeout {
        l4proto,
        l3proto: l3proto(&given, family, NFTA_CT_TIMEOUT_L3PROTO),
        values,
    })
}

/// An expectation.
///
/// # Errors
/// `EINVAL` if anything but the family is missing.
pub fn read_expectation(data: Attribute<'_>, family: Family) -> Result<ObjectValue, Failure> {
    let given = data.attributes(EXPECT_POLICY)?;
    let timeout = given.need(NFTA_CT_EXPECT_TIMEOUT)?;
    Ok(ObjectValue::CtExpect {
        l4proto: given.need(NFTA_CT_EXPECT_L4PROTO)?.u8(),
        l3proto: l3proto(&given, family, NFTA_CT_EXPECT_L3PROTO),
        dport: given.need(NFTA_CT_EXPECT_DPORT)?.be16(),
        timeout: timeout.payload.first_chunk().map_or(0, |b| u32::from_ne_bytes(*b)),
        size: given.need(NFTA_CT_EXPECT_SIZE)?.u8(),
    })
}
