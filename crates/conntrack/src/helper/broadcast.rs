// SPDX-License-Identifier: Apache-2.0

//! Protocols with broadcast requests and unicast replies (`nf_conntrack_broadcast.c`): NetBIOS name
//! service and SNMP.

use super::{Action, Message, Otherwise};
use crate::expectation::{Expectation, expect_flag};
use crate::settings::SECOND;
use crate::{Direction, Tuple};

pub(super) fn read(m: &Message<'_>, timeout: u32) -> Vec<Action> {
    let Some(mask) = m.surroundings.broadcast_mask else { return Vec::new() };
    if m.direction != Direction::Original || mask == [0; 4] {
        return Vec::new();
    }
    let timeout = u64::from(timeout) * SECOND;
    let reply = m.tuples[Direction::Reply as usize];
    let mut source_mask = [0; 16];
    source_mask[..4].copy_from_slice(&mask);
    let expectation = Expectation {
        tuple: Tuple { src_id: m.helper.port, ..reply },
        source_mask,
        source_port: true,
        flags: expect_flag::PERMANENT,
        timeout,
        ..m.expect(reply.protocol, None, reply.dst, reply.dst_id)
    };
    // The request goes out whether its answers can be expected or not.
    vec![Action::Expect(m.announce(expectation, Otherwise::Pass)), Action::Live(timeout)]
}
