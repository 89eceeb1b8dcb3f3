// SPDX-License-Identifier: Apache-2.0

//! Amanda (`nf_conntrack_amanda.c`, `nf_nat_amanda.c`): the client to be backed up names ports to
//! which the server connects.

use super::number::{decimal, find};
use super::{Edit, Message, Said};
use crate::Direction;
use crate::conntrack::Conntrack;
use crate::settings::SECOND;
use penstock_wire::protocol;

const STREAMS: [&[u8]; 4] = [b"DATA ", b"MESG ", b"INDEX ", b"STATE "];
/// How long the server may take to answer.
const MASTER_TIMEOUT: u64 = 300 * SECOND;

impl Conntrack {
    pub(super) fn help_amanda(&mut self, m: &Message<'_>) -> Said {
        if m.direction == Direction::Original {
            return Said::PASS;
        }
        self.set_timeout(m.n, MASTER_TIMEOUT);
        let Some(start) = find(m.data, b"CONNECT ").map(|at| at + 8) else { return Said::PASS };
        let Some(line) = find(&m.data[start..], b"\n").map(|len| &m.data[start..start + len])
        else {
            return Said::PASS;
        };
        let original = m.tuples[Direction::Original as usize];
        let mut edits = Vec::new();
        for stream in STREAMS {
            let Some(at) = find(line, stream).map(|at| at + stream.len()) else { continue };
            let Some((number, len)) = decimal(&line[at..]) else { break };
            let Some(asked) = u16::try_from(number).ok().filter(|p| *p != 0) else { break };
            // The server connects to the client.
            let expectation = m.expect(protocol::TCP, Some(original.src), original.dst, asked);
            let Some(port) = self.announce(m, expectation) else { return Said::Drop };
            if m.translated {
                edits.push(Edit { at: start + at, len, text: port.to_string().into() });
            }
        }
        edits.sort_by_key(|e| e.at);
        Said::Pass(edits)
    }
}
