// SPDX-License-Identifier: Apache-2.0

//! TFTP (`nf_conntrack_tftp.c`, RFC 1350): the server answers a request from another port.

use super::{Action, Message, NOT_ADDED};
use crate::Direction;
use crate::expectation::Follow;
use penstock_wire::protocol;

const READ: u16 = 1;
const WRITE: u16 = 2;

pub(super) fn read(m: &Message<'_>) -> Vec<Action> {
    let opcode = m.data.first_chunk().map(|b| u16::from_be_bytes(*b));
    if !matches!(opcode, Some(READ | WRITE)) {
        return Vec::new();
    }
    let reply = &m.tuples[Direction::Reply as usize];
    let mut expectation = m.expect(protocol::UDP, Some(reply.src), reply.dst, reply.dst_id);
    if m.translated {
        let port = m.tuples[Direction::Original as usize].src_id;
        expectation.follow = Some(Follow { direction: Direction::Reply, address: None, port });
    }
    vec![Action::Expect(m.announce(expectation, NOT_ADDED))]
}
