// SPDX-License-Identifier: Apache-2.0

//! Metadata (`nft_meta_get_eval()`, `nft_meta_set_eval()` of `net/netfilter/nft_meta.c`).

use penstock_packet::{Packet, PacketType};
use penstock_wire::ethernet;

use super::Step;
use super::registers::Registers;
use crate::env::Interface;
use crate::operand::MetaKey;
use crate::{Env, Family, Hook};

#[inline(always)]
pub(super) fn get<E: Env>(
    key: MetaKey,
    dst: u8,
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> Step {
    let meta = &packet.meta;
    match key {
        MetaKey::L4Proto => match packet.transport() {
            Some(t) => registers.set_u8(dst, t.protocol),
            None => return Step::Break,
        },
        MetaKey::NfProto => registers.set_u8(dst, env.context().family as u8),
        MetaKey::Protocol => registers.set_half(dst, meta.protocol.to_be_bytes()),
        MetaKey::Mark => registers.set_word(dst, meta.mark),
        MetaKey::Len => registers.set_word(dst, packet.len() as u32),
        MetaKey::Iif => registers.set_word(dst, meta.iif),
        MetaKey::Oif => registers.set_word(dst, meta.oif),
        _ => return get_rare(key, dst, registers, packet, env),
    }
    Step::Next
}

#[inline(never)]
fn get_rare<E: Env>(
    key: MetaKey,
    dst: u8,
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> Step {
    let meta = &packet.meta;
    match key {
        MetaKey::Priority => registers.set_word(dst, meta.priority),
        // No name is an empty name; type, group and kind of no interface break.
        MetaKey::IifName => registers.set(dst, &name(env, meta.iif)),
        MetaKey::OifName => registers.set(dst, &name(env, meta.oif)),
        MetaKey::IifType => {
            // The kernel asks the device that the packet is on (`skb->dev`): on the way out the one
            // it leaves by.
            let device = match env.context().hook {
                Hook::Postrouting | Hook::Egress => meta.oif,
                Hook::Ingress | Hook::Prerouting | Hook::Input | Hook::Forward | Hook::Output => {
                    meta.iif
                }
            };
            return interface(env, device, |i| registers.set_half(dst, i.arphrd.to_ne_bytes()));
        }
        MetaKey::OifType => {
            return interface(env, meta.oif, |i| registers.set_half(dst, i.arphrd.to_ne_bytes()));
        }
        MetaKey::IifGroup => return interface(env, meta.iif, |i| registers.set_word(dst, i.group)),
        MetaKey::OifGroup => return interface(env, meta.oif, |i| registers.set_word(dst, i.group)),
        MetaKey::IifKind => return kind(env, meta.iif, dst, registers),
        MetaKey::OifKind => return kind(env, meta.oif, dst, registers),
        MetaKey::SkUid | MetaKey::SkGid | MetaKey::Cgroup => match (key, meta.owner) {
            (MetaKey::SkUid, Some((uid, _))) => registers.set_word(dst, uid),
            (MetaKey::SkGid, Some((_, gid))) => registers.set_word(dst, gid),
            // Sockets are in the root class.
            (_, Some(_)) => registers.set_word(dst, 0),
            (_, None) => return Step::Break,
        },
        MetaKey::NfTrace => registers.set_u8(dst, meta.nftrace.into()),
        MetaKey::RtClassid => match meta.route {
            Some(_) => registers.set_word(dst, meta.realm),
            None => return Step::Break,
        },
        MetaKey::SecMark => registers.set_word(dst, meta.secmark),
        MetaKey::PktType => match packet_type(packet, env.context().family) {
            Some(kind) => registers.set_u8(dst, kind as u8),
            None => return Step::Break,
        },
        MetaKey::Cpu => registers.set_word(dst, env.worker().get() as u32),
        MetaKey::Prandom => registers.set_word(dst, env.random()),
        MetaKey::SecPath => registers.set_u8(dst, env.ipsec(packet, false, 0).is_some().into()),
        MetaKey::TimeNs => registers.set(dst, &env.wall_time(meta.time).to_ne_bytes()),
        MetaKey::TimeDay => {
            registers.set_u8(dst, ((4 + seconds(env.wall_time(meta.time)) / 86_400) % 7) as u8)
        }
        MetaKey::TimeHour => {
            registers.set_word(dst, (seconds(env.wall_time(meta.time)) % 86_400) as u32)
        }
        MetaKey::Sdif | MetaKey::SdifName => {
            if !matches!(env.context().family, Family::Ip | Family::Ip6) {
                return Step::Break;
            }
            let sdif = env.sdif(packet);
            match key {
                MetaKey::Sdif => registers.set_word(dst, sdif),
                _ => registers.set(dst, &name(env, sdif)),
            }
        }
        // No bridge is an empty name.
        MetaKey::BriIifName => {
            registers.set(dst, &env.bridge_port(meta.iif).map_or([0; 16], |p| p.bridge))
        }
        MetaKey::BriOifName => {
            registers.set(dst, &env.bridge_port(meta.oif).map_or([0; 16], |p| p.bridge))
        }
        MetaKey::BriIifPvid => match env.bridge_port(meta.iif).and_then(|p| p.vlan) {
            Some((pvid, _)) => registers.set_half(dst, pvid.to_ne_bytes()),
            None => return Step::Break,
        },
        MetaKey::BriIifVproto => match env.bridge_port(meta.iif).and_then(|p| p.vlan) {
            Some((_, protocol)) => registers.set_half(dst, protocol.to_be_bytes()),
            None => return Step::Break,
        },
        MetaKey::BriIifHwAddr => match env.bridge_port(meta.iif) {
            Some(port) => registers.set(dst, &port.address),
            None => return Step::Break,
        },
        // It can only be set; the verifier lets no load through.
        MetaKey::BriBroute => return Step::Break,
        MetaKey::L4Proto
        | MetaKey::NfProto
        | MetaKey::Protocol
        | MetaKey::Mark
        | MetaKey::Len
        | MetaKey::Iif
        | MetaKey::Oif => return get(key, dst, registers, packet, env),
    }
    Step::Next
}

fn seconds(nanoseconds: u64) -> u64 {
    nanoseconds / 1_000_000_000
}

fn name<E: Env>(env: &E, index: u32) -> [u8; 16] {
    env.interface(index).map_or([0; 16], |i| i.name)
}

fn interface<E: Env>(env: &E, index: u32, store: impl FnOnce(&Interface)) -> Step {
    Step::found(env.interface(index).map(store))
}

fn kind<E: Env>(env: &E, index: u32, dst: u8, registers: &mut Registers) -> Step {
    match env.interface(index) {
        Some(i) if i.kind != [0; 16] => registers.set(dst, &i.kind),
        _ => return Step::Break,
    }
    Step::Next
}

/// What was looped back counts as what it was sent as (`nft_meta_get_eval_pkttype_lo()`).
fn packet_type(packet: &Packet, family: Family) -> Option<PacketType> {
    let kind = packet.meta.packet_type;
    if kind != PacketType::Loopback {
        return Some(kind);
    }
    match (family, packet.meta.protocol) {
        (Family::Ip, _) | (Family::Netdev, ethernet::IPV4) => {
            // 224.0.0.0/4
            let multicast = packet.network().get(16..20)?[0] & 0xf0 == 0xe0;
            Some(if multicast { PacketType::Multicast } else { PacketType::Broadcast })
        }
        (Family::Ip6, _) | (Family::Netdev, ethernet::IPV6) => Some(PacketType::Multicast),
        _ => None,
    }
}

/// Only these may be exchanged for each other (`skb_pkt_type_ok()`).
fn settable(kind: PacketType) -> bool {
    kind as u8 <= PacketType::OtherHost as u8
}

#[inline(never)]
pub(super) fn set(key: MetaKey, src: u8, registers: &Registers, packet: &mut Packet) -> Step {
    let meta = &mut packet.meta;
    let byte = registers.bytes(src, 1)[0];
    match key {
        MetaKey::Mark => meta.mark = registers.word(src),
        MetaKey::Priority => meta.priority = registers.word(src),
        MetaKey::SecMark => meta.secmark = registers.word(src),
        MetaKey::NfTrace => meta.nftrace = byte != 0,
        MetaKey::BriBroute => meta.broute = byte != 0,
        MetaKey::PktType => {
            let wanted = match byte {
                0 => PacketType::Host,
                1 => PacketType::Broadcast,
                2 => PacketType::Multicast,
                3 => PacketType::OtherHost,
                _ => return Step::Next,
            };
            if settable(meta.packet_type) {
                meta.packet_type = wanted;
            }
        }
        // Linking lets no other key through.
        _ => {}
    }
    Step::Next
}
