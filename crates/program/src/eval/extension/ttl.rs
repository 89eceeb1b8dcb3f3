// SPDX-License-Identifier: Apache-2.0

//! `TTL` and `HL` (`net/netfilter/xt_HL.c`).

use penstock_packet::Packet;
use penstock_wire::{checksum, ethernet};

use super::Step;
use crate::linked::LinkedVerdict;
use crate::op::TtlChange;

/// Where the TTL and the protocol are in an IPv4 header, and its checksum.
const TTL: usize = 8;
const CHECKSUM: usize = 10;
/// Where the hop limit is in an IPv6 header.
const HOP_LIMIT: usize = 7;

pub(super) fn change(change: TtlChange, packet: &mut Packet) -> Step {
    let v4 = packet.meta.protocol == ethernet::IPV4;
    let network = packet.network_mut();
    let at = if v4 { TTL } else { HOP_LIMIT };
    let Some(&old) = network.get(at) else { return Step::Verdict(LinkedVerdict::Drop) };
    let new = match change {
        TtlChange::Set(ttl) => ttl,
        TtlChange::Add(more) => old.saturating_add(more),
        TtlChange::Subtract(less) => old.saturating_sub(less),
    };
    if new == old {
        return Step::Next;
    }
    if v4 && let Some([high, low]) = network.get_mut(CHECKSUM..CHECKSUM + 2) {
        let check = u16::from_be_bytes([*high, *low]);
        let check = checksum::replace2(check, u16::from(old) << 8, u16::from(new) << 8);
        [*high, *low] = check.to_be_bytes();
    }
    network[at] = new;
    Step::Next
}
