// SPDX-License-Identifier: Apache-2.0

//! TFTP (`nf_conntrack_tftp.c`, RFC 1350): the server answers a request from another port.

use super::{Message, Said};
use crate::Direction;
use crate::conntrack::Conntrack;
use crate::expect::Follow;
use penstock_wire::protocol;

const READ: u16 = 1;
const WRITE: u16 = 2;

impl Conntrack {
    pub(super) fn help_tftp(&mut self, m: &Message<'_>) -> Said {
        let Some(opcode) = m.data.first_chunk().map(|b| u16::from_be_bytes(*b)) else {
            return Said::PASS;
        };
        if !matches!(opcode, READ | WRITE) {
            return Said::PASS;
        }
        let reply = &m.tuples[Direction::Reply as usize];
        let mut expectation = m.expect(protocol::UDP, Some(reply.src), reply.dst, reply.dst_id);
        if m.translated {
            let port = m.tuples[Direction::Original as usize].src_id;
            expectation.follow = Some(Follow { direction: Direction::Reply, address: None, port });
        }
        match self.expect(expectation, m.helper.classes[0].max) {
            Ok(()) => Said::PASS,
            Err(_) => Said::Drop,
        }
    }
}
