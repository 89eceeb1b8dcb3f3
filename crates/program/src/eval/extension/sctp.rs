// SPDX-License-Identifier: Apache-2.0

//! Chunks of SCTP (`net/netfilter/xt_sctp.c`).

use penstock_packet::Packet;

use super::{HOTDROP, Step};
use crate::op::{ChunkRule, ChunksWanted};

/// Bytes of the common header, and of that of a chunk.
const HEADER: usize = 12;
const CHUNK: usize = 4;

/// `match_packet()`: a packet without a whole chunk, or with one without a length, is dropped.
pub(super) fn chunks(rule: &ChunkRule, packet: &Packet) -> Step {
    let Some(bytes) = packet.transport_bytes() else { return Step::Break };
    match find(rule, bytes.get(HEADER..).unwrap_or_default()) {
        Some(found) => Step::unless(found == rule.inverted),
        None => HOTDROP,
    }
}

/// Whether chunks are those that a rule asks for; `None` if they are malformed.
fn find(rule: &ChunkRule, mut chunks: &[u8]) -> Option<bool> {
    let mut missing = rule.types;
    loop {
        let [kind, flags, len @ ..] = *chunks.first_chunk::<CHUNK>()?;
        let len = usize::from(u16::from_be_bytes(len));
        if len == 0 {
            return None;
        }
        let (word, bit) = (usize::from(kind / 32), 1 << (kind % 32));
        let with_flags = rule.flags.iter().find(|with| with.kind == kind);
        let is_it = rule.types[word] & bit != 0
            && with_flags.is_none_or(|with| flags & with.mask == with.flags);
        match (rule.wanted, is_it) {
            (ChunksWanted::Any, true) => return Some(true),
            (ChunksWanted::Only, false) => return Some(false),
            (ChunksWanted::All, true) => missing[word] &= !bit,
            (ChunksWanted::Any | ChunksWanted::All, false) | (ChunksWanted::Only, true) => {}
        }
        match chunks.get(len.next_multiple_of(4)..) {
            Some(rest) if !rest.is_empty() => chunks = rest,
            _ => break,
        }
    }
    Some(match rule.wanted {
        ChunksWanted::Any => false,
        ChunksWanted::All => missing == [0; 8],
        ChunksWanted::Only => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::ChunkFlags;

    #[test]
    fn chunks_are_found_by_type_and_flags() {
        use ChunksWanted::{All, Any, Only};
        const DATA: u8 = 0;
        const INIT: u8 = 1;
        let chunk = |kind: u8, flags: u8| vec![kind, flags, 0, 6, 1, 2, 0, 0];
        let whole = [chunk(DATA, 3), chunk(INIT, 0)].concat();
        let cut = [&whole[..], &[0, 0]].concat();
        for (wanted, types, flags, bytes, expected) in [
            (Any, 0b01, vec![], &whole[..], Some(true)),
            (Any, 0b100, vec![], &whole, Some(false)),
            (All, 0b11, vec![], &whole, Some(true)),
            (All, 0b111, vec![], &whole, Some(false)),
            (Only, 0b11, vec![], &whole, Some(true)),
            (Only, 0b01, vec![], &whole, Some(false)),
            (Any, 0b01, vec![(DATA, 1, 3)], &whole, Some(false)),
            (Any, 0b01, vec![(DATA, 3, 3), (DATA, 1, 3)], &whole, Some(true)),
            (Any, 0b100, vec![], &cut, None),
            (Any, 0b01, vec![], &cut, Some(true)),
            (Only, 0, vec![], &[], None),
            (Only, 1, vec![], &[0, 0, 0, 0], None),
        ] {
            let flags = flags.iter().map(|&(kind, flags, mask)| ChunkFlags { kind, flags, mask });
            let types = [types, 0, 0, 0, 0, 0, 0, 0];
            let rule = ChunkRule { wanted, types, flags: flags.collect(), inverted: false };
            assert_eq!(find(&rule, bytes), expected, "{rule:?}");
        }
    }
}
