// SPDX-License-Identifier: Apache-2.0

//! Sequence numbers that shift where text was rewritten (`nf_conntrack_seqadj.c`): by how much, and
//! how a segment follows.

use crate::tuple::Direction;
use penstock_packet::Packet;
use penstock_wire::checksum;
use penstock_wire::tcp::{self, flag, option};
use serde::{Deserialize, Serialize};

/// Shift of the sequence numbers of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeqAdjust {
    /// Sequence number from which on [`SeqAdjust::after`] holds.
    pub position: u32,
    /// Shift before it.
    pub before: i32,
    /// Shift from it on.
    pub after: i32,
}

impl SeqAdjust {
    /// The shift that holds at a sequence number.
    pub fn at(&self, seq: u32) -> i32 {
        if (seq.wrapping_sub(self.position) as i32) > 0 { self.after } else { self.before }
    }

    /// An acknowledgement of this direction as its sender must see it.
    fn acknowledged(&self, ack: u32) -> u32 {
        // The position is where the text was before it was rewritten; the acknowledgement refers to
        // the rewritten text.
        let back = ack.wrapping_sub(self.before as u32).wrapping_sub(self.position);
        let shift = if (back as i32) > 0 { self.after } else { self.before };
        ack.wrapping_sub(shift as u32)
    }
}

/// Shifts sequence and acknowledgement numbers of a segment by what was rewritten in its
/// connection (`nf_ct_seq_adjust()`): `pairs` are the shifts of both directions, `transport` is
/// the offset of the header from the network header. `false` if the header is cut.
pub(crate) fn adjust_packet(
    packet: &mut Packet,
    pairs: &[SeqAdjust; 2],
    direction: Direction,
    transport: usize,
) -> bool {
    let (this, other) = (pairs[direction as usize], pairs[direction.opposite() as usize]);
    let Some(bytes) = packet.network_mut().get_mut(transport..) else { return false };
    let Some(h) = tcp::Header::new(bytes) else { return false };
    let (seq, ack, header_len) = (h.seq(), h.ack_seq(), h.header_len());
    let mut check = h.checksum();
    let acknowledges = h.flags() & flag::ACK != 0;
    let new_seq = seq.wrapping_add(this.at(seq) as u32);
    let mut words = vec![];
    words.push((4, seq, new_seq));
    if acknowledges {
        words.push((8, ack, other.acknowledged(ack)));
        if header_len > bytes.len() {
            return false;
        }
        for o in tcp::options(&bytes[..header_len]) {
            if o.kind != option::SACK || o.len < 10 || o.offset + o.len > header_len {
                continue;
            }
            for edge in (o.offset + 2..o.offset + o.len - 3).step_by(4) {
                let Some(old) = bytes.get(edge..edge + 4).and_then(|b| b.first_chunk()) else {
                    continue;
                };
                let old = u32::from_be_bytes(*old);
                words.push((edge, old, other.acknowledged(old)));
            }
        }
    }
    for (at, old, new) in words {
        // An edge at an odd place lies in two words of the sum, bytes swapped.
        let (a, b) =
            if at % 2 == 0 { (old, new) } else { (old.rotate_left(8), new.rotate_left(8)) };
        check = checksum::replace4(check, a, b);
        bytes[at..at + 4].copy_from_slice(&new.to_be_bytes());
    }
    if let Some(mut h) = tcp::HeaderMut::new(bytes) {
        h.set_checksum(check);
    }
    true
}
