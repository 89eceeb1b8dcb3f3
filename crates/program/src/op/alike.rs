// SPDX-License-Identifier: Apache-2.0

//! Which operations give all packets of one direction of a connection the same.

use penstock_wire::{ipv4, ipv6};

use super::Op;
use crate::operand::{CtKey, FibResult, MetaKey};

/// Bytes of the ports at the beginning of a transport header of TCP or UDP.
const PORTS: u32 = 4;

/// Bytes of a network header that belong to a flow: protocol and addresses.
fn is_of_flow(v6: bool, offset: u32, end: u32) -> bool {
    let within = |first: usize, last: usize| offset >= first as u32 && end <= last as u32;
    match v6 {
        false => within(9, 10) || within(12, ipv4::LEN),
        true => within(6, 7) || within(8, ipv6::LEN),
    }
}

/// Metadata that a packet which is forwarded has by its flow and its devices alone, and the marks,
/// which are what operations made of that.
fn is_of_way(key: MetaKey) -> bool {
    matches!(
        key,
        MetaKey::NfProto
            | MetaKey::L4Proto
            | MetaKey::Protocol
            | MetaKey::Mark
            | MetaKey::SecMark
            | MetaKey::Iif
            | MetaKey::Oif
            | MetaKey::IifName
            | MetaKey::OifName
            | MetaKey::IifType
            | MetaKey::OifType
            | MetaKey::IifGroup
            | MetaKey::OifGroup
            | MetaKey::IifKind
            | MetaKey::OifKind
            | MetaKey::RtClassid
            | MetaKey::PktType
            | MetaKey::Cpu
    )
}

/// What a connection keeps until it is told to change.
fn is_of_connection(key: CtKey) -> bool {
    matches!(
        key,
        CtKey::Direction
            | CtKey::Status
            | CtKey::Mark
            | CtKey::SecMark
            | CtKey::Labels
            | CtKey::L3Protocol
            | CtKey::Protocol
            | CtKey::Zone
            | CtKey::Id
            | CtKey::Src
            | CtKey::Dst
            | CtKey::SrcIp
            | CtKey::DstIp
            | CtKey::SrcIp6
            | CtKey::DstIp6
            | CtKey::ProtoSrc
            | CtKey::ProtoDst
    )
}

impl Op {
    /// Why it may give packets of one direction of a connection different things, or does
    /// something: the name of that in messages. `None` if all of them get the same from it and
    /// nothing else changes, as long as rules, network, marks, labels and status of the connection
    /// are as they are. They are forwarded packets of TCP or UDP, without options or extension
    /// headers, at a hook of IP or at egress. `v6`: they are of IPv6.
    pub fn unlike(&self, v6: bool) -> Option<&'static str> {
        let unless = |alike: bool, what| (!alike).then_some(what);
        match self {
            Op::Immediate { .. }
            | Op::Verdict(_)
            | Op::CmpWord { .. }
            | Op::Cmp { .. }
            | Op::Range { .. }
            | Op::MaskXorWord { .. }
            | Op::MaskXor { .. }
            | Op::Lshift { .. }
            | Op::Rshift { .. }
            | Op::Combine { .. }
            | Op::Byteorder { .. }
            | Op::Jhash { .. }
            | Op::CtState { .. } => None,
            Op::LoadNetwork { len, offset, .. } => {
                let (start, end) = (u32::from(*offset), u32::from(*offset) + u32::from(*len));
                unless(is_of_flow(v6, start, end), "a field of the network header")
            }
            Op::LoadTransport { len, offset, .. } => {
                let end = u32::from(*offset) + u32::from(*len);
                unless(end <= PORTS, "a field of the transport header")
            }
            Op::Meta { key, .. } => unless(is_of_way(*key), "metadata of the packet"),
            // Changed alike, since what is put there is the same for all.
            Op::MetaSet { key, .. } => unless(*key == MetaKey::Mark, "meta set"),
            Op::Ct { key, .. } => unless(is_of_connection(*key), "ct"),
            Op::Lookup { set, .. } => unless(!set.may_expire(), "elements with a timeout"),
            // By the type of an address.
            Op::Fib { result: FibResult::AddrType, .. } => None,
            Op::NumgenInc { .. } | Op::NumgenRandom { .. } => Some("numgen"),
            // Counters are not of this kind, but those who ask know what to do with them.
            _ => Some(self.info().not_offloaded.unwrap_or("an expression")),
        }
    }
}
