// SPDX-License-Identifier: Apache-2.0

//! SANE (`nf_conntrack_sane.c`): the answer to a start of scanning names the port for the image.

use super::{Action, Memory, Message, NOT_ADDED};
use crate::Direction;
use penstock_wire::protocol;

const NET_START: u32 = 7;

/// Whether the last request was a start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked(bool);

pub(super) fn read(m: &Message<'_>, memory: &mut Memory) -> Vec<Action> {
    if !m.established || m.data.is_empty() {
        return Vec::new();
    }
    if m.direction == Direction::Original {
        if let Ok([a, b, c, d, ..]) = <[u8; 8]>::try_from(m.data) {
            *memory = Memory::Sane(Asked(u32::from_be_bytes([a, b, c, d]) == NET_START));
        }
        return Vec::new();
    }
    if !matches!(memory, Memory::Sane(Asked(true))) {
        return Vec::new();
    }
    *memory = Memory::Sane(Asked(false));
    // Status (zero for success), a zero, the port.
    let Some(&[0, 0, 0, 0, 0, 0, high, low]) = m.data.first_chunk::<8>() else {
        return Vec::new();
    };
    let original = m.tuples[Direction::Original as usize];
    let port = u16::from_be_bytes([high, low]);
    let expectation = m.expect(protocol::TCP, Some(original.src), original.dst, port);
    vec![Action::Expect(m.announce(expectation, NOT_ADDED))]
}
