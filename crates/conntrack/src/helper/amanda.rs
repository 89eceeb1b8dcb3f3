// SPDX-License-Identifier: Apache-2.0

//! Amanda (`nf_conntrack_amanda.c`, `nf_nat_amanda.c`): the client to be backed up names ports to
//! which the server connects.

use super::action::PortEdit;
use super::number::{decimal, find};
use super::{Action, Announcement, Message};
use crate::Direction;
use crate::settings::SECOND;
use penstock_wire::protocol;

const STREAMS: [&[u8]; 4] = [b"DATA ", b"MESG ", b"INDEX ", b"STATE "];
/// How long the server may take to answer.
const MASTER_TIMEOUT: u64 = 300 * SECOND;

pub(super) fn read(m: &Message<'_>) -> Vec<Action> {
    if m.direction == Direction::Original {
        return Vec::new();
    }
    let mut actions = vec![Action::Live(MASTER_TIMEOUT)];
    let Some(start) = find(m.data, b"CONNECT ").map(|at| at + 8) else { return actions };
    let Some(line) = find(&m.data[start..], b"\n").map(|len| &m.data[start..start + len]) else {
        return actions;
    };
    let original = m.tuples[Direction::Original as usize];
    for stream in STREAMS {
        let Some(at) = find(line, stream).map(|at| at + stream.len()) else { continue };
        let Some((number, len)) = decimal(&line[at..]) else { break };
        let Some(asked) = u16::try_from(number).ok().filter(|p| *p != 0) else { break };
        // The server connects to the client.
        let expectation = m.expect(protocol::TCP, Some(original.src), original.dst, asked);
        let edit = m.translated.then(|| PortEdit {
            at: start + at,
            len,
            address: m.seen_address(),
            write: |_, port| port.to_string(),
            unless: None,
        });
        let announcement = m.announce_translated(expectation);
        actions.push(Action::Expect(Announcement { edit, ..announcement }));
    }
    actions
}
