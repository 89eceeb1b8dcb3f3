// SPDX-License-Identifier: Apache-2.0

//! What is told of an expectation.

use penstock_conntrack::Tuple;

use super::tuple::{write, write_addresses, write_identifiers};
use crate::connections::Expected;
use crate::message::{NESTED, Writer};
use crate::uapi::ctnetlink::*;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// What an expected connection of a translated one calls when it comes.
pub const FOLLOW_MASTER: &str = "nat-follow-master";

/// Appends the attributes of an expectation (`ctnetlink_exp_dump_expect()`).
pub fn fill(to: &mut Writer, expected: &Expected) {
    let e = &expected.expectation;
    write(to, CTA_EXPECT_TUPLE, &e.tuple);
    let mask = Tuple {
        src: e.source_mask,
        dst: [0xff; 16],
        src_id: if e.source_port { 0xffff } else { 0 },
        dst_id: 0xffff,
        ..e.tuple
    };
    to.nest(CTA_EXPECT_MASK | NESTED, |to| {
        write_addresses(to, &mask);
        write_identifiers(to, &mask);
    });
    write(to, CTA_EXPECT_MASTER, &expected.master);
    if let Some(follow) = &e.follow {
        let translated = Tuple {
            src: follow.address.unwrap_or_default(),
            src_id: follow.port,
            l3: expected.master.l3,
            protocol: expected.master.protocol,
            ..Tuple::ZERO
        };
        to.nest(CTA_EXPECT_NAT | NESTED, |to| {
            to.be32(CTA_EXPECT_NAT_DIR, follow.direction as u32);
            write(to, CTA_EXPECT_NAT_TUPLE, &translated);
        });
    }
    to.be32(CTA_EXPECT_TIMEOUT, u32::try_from(expected.left / SECOND).unwrap_or(u32::MAX));
    to.be32(CTA_EXPECT_ID, expected.id);
    to.be32(CTA_EXPECT_FLAGS, e.flags.into());
    to.be32(CTA_EXPECT_CLASS, e.class.into());
    if let Some(helper) = &expected.helper {
        to.string(CTA_EXPECT_HELP_NAME, helper);
    }
    if e.follow.is_some() {
        to.string(CTA_EXPECT_FN, FOLLOW_MASTER);
    }
}
