// SPDX-License-Identifier: Apache-2.0

//! Protocols whose requests go to all and whose answers come from each
//! (`nf_conntrack_broadcast.c`): NetBIOS name service and SNMP.

use super::{Message, Said};
use crate::Direction;
use crate::conntrack::Conntrack;
use crate::expect::{Expectation, expect_flag};
use crate::settings::SECOND;

impl Conntrack {
    pub(super) fn help_broadcast(&mut self, m: &Message<'_>, timeout: u32) -> Said {
        let Some(mask) = m.surroundings.broadcast_mask else { return Said::PASS };
        if m.direction != Direction::Original || mask == [0; 4] {
            return Said::PASS;
        }
        let timeout = u64::from(timeout) * SECOND;
        let reply = m.tuples[Direction::Reply as usize];
        let mut source_mask = [0; 16];
        source_mask[..4].copy_from_slice(&mask);
        let expectation = Expectation {
            tuple: crate::Tuple { src_id: m.helper.port, ..reply },
            source_mask,
            source_port: true,
            flags: expect_flag::PERMANENT,
            timeout,
            ..m.expect(reply.protocol, None, reply.dst, reply.dst_id)
        };
        // The request goes out whether its answers can be expected or not.
        let _ = self.expect(expectation, m.helper.classes[0].max);
        self.set_timeout(m.n, timeout);
        Said::PASS
    }
}
