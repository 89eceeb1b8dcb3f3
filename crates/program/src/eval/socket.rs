// SPDX-License-Identifier: Apache-2.0

//! Local sockets (`net/netfilter/nft_socket.c`, `nft_tproxy.c`,
//! `net/ipv4/netfilter/nf_socket_ipv4.c`, `nf_tproxy_ipv4.c` and their IPv6 kin).

use std::net::IpAddr;

use penstock_packet::Packet;
use penstock_wire::{ipv4, ipv6, protocol};

use super::Step;
use super::registers::Registers;
use crate::Hook;
use crate::env::{LocalSocket, SocketKind, SocketQuery};
use crate::operand::SocketKey;
use crate::{Env, Family};

#[inline(never)]
pub(super) fn load<E: Env>(
    key: SocketKey,
    level: u32,
    dst: u8,
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> Step {
    let own = match packet.meta.socket {
        0 => None,
        id => env.socket_by_id(id),
    };
    let Some(socket) = own.or_else(|| lookup(packet, env)) else { return Step::Break };
    match key {
        SocketKey::Transparent => registers.set_u8(dst, socket.transparent.into()),
        SocketKey::Mark => match socket.mark {
            Some(mark) => registers.set_word(dst, mark),
            None => return Step::Break,
        },
        SocketKey::Wildcard => match socket.mark {
            Some(_) => registers.set_u8(dst, socket.wildcard.into()),
            None => return Step::Break,
        },
        SocketKey::Cgroupv2 => match env.socket_cgroup(&socket, level) {
            Some(id) => registers.set(dst, &id.to_ne_bytes()),
            None => return Step::Break,
        },
    }
    Step::Next
}

/// The socket that the packet is for (`nf_sk_lookup_slow_v4()`, `nf_sk_lookup_slow_v6()`).
fn lookup<E: Env>(packet: &Packet, env: &mut E) -> Option<LocalSocket> {
    let context = env.context();
    // Where the hook knows no interface of arrival, only the packet's own socket counts.
    if !matches!(context.hook, Hook::Prerouting | Hook::Input) {
        return None;
    }
    let device = packet.meta.iif;
    let transport = packet.transport()?;
    let kind = SocketKind::Any;
    let query = match (context.family, transport.protocol) {
        (_, protocol::TCP | protocol::UDP) => {
            let mut ends = ends(packet, context.family)?;
            if let Some(source) = env.untranslated_source(packet) {
                ends.destination = source;
            }
            SocketQuery { kind, protocol: transport.protocol, device, ..ends }
        }
        (Family::Ip, protocol::ICMP) => SocketQuery { device, ..quoted4(packet)? },
        (Family::Ip6, protocol::ICMPV6) => SocketQuery { device, ..quoted6(packet)? },
        _ => return None,
    };
    env.socket(&query)
}

fn ends(packet: &Packet, family: Family) -> Option<SocketQuery> {
    let network = packet.network();
    let (source, destination) = match family {
        Family::Ip => {
            let header = ipv4::Header::new(network)?;
            (IpAddr::V4(header.src()), IpAddr::V4(header.dst()))
        }
        Family::Ip6 => {
            let header = ipv6::Header::new(network)?;
            (IpAddr::V6(header.src()), IpAddr::V6(header.dst()))
        }
        _ => return None,
    };
    let (from, to) = ports(packet.transport_bytes()?)?;
    Some(SocketQuery {
        kind: SocketKind::Any,
        protocol: packet.transport()?.protocol,
        source: (source, from),
        destination: (destination, to),
        device: packet.meta.iif,
    })
}

fn ports(transport: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d, ..] = *transport else { return None };
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// The packet that an ICMP error quotes was sent by this host, so its source is the host's end
/// (`extract_icmp4_fields()`).
fn quoted4(packet: &Packet) -> Option<SocketQuery> {
    let icmp = packet.transport_bytes()?;
    if !matches!(icmp.first()?, 3 | 4 | 5 | 11 | 12) {
        return None;
    }
    let quoted = icmp.get(8..)?;
    let inside = ipv4::Header::new(quoted)?;
    let kept = matches!(inside.protocol(), protocol::TCP | protocol::UDP);
    let (local, remote) = ports(quoted.get(inside.header_len()..)?)?;
    kept.then(|| SocketQuery {
        kind: SocketKind::Any,
        protocol: inside.protocol(),
        source: (inside.dst().into(), remote),
        destination: (inside.src().into(), local),
        device: 0,
    })
}

/// [`quoted4`] for IPv6 (`extract_icmp6_fields()`).
fn quoted6(packet: &Packet) -> Option<SocketQuery> {
    let icmp = packet.transport_bytes()?;
    // From 128 on they are no errors.
    if *icmp.first()? >= 128 {
        return None;
    }
    let quoted = icmp.get(8..)?;
    let inside = ipv6::Header::new(quoted)?;
    let transport = penstock_packet::ipv6_transport(quoted)?;
    let kept = matches!(transport.protocol, protocol::TCP | protocol::UDP)
        && transport.fragment_offset == 0;
    let (local, remote) = ports(quoted.get(usize::from(transport.offset)..)?)?;
    kept.then(|| SocketQuery {
        kind: SocketKind::Any,
        protocol: transport.protocol,
        source: (inside.dst().into(), remote),
        destination: (inside.src().into(), local),
        device: 0,
    })
}

#[inline(never)]
pub(super) fn tproxy<E: Env>(
    family: u8,
    addr: Option<u8>,
    port: Option<u8>,
    registers: &Registers,
    packet: &mut Packet,
    env: &mut E,
) -> Step {
    let hook_family = env.context().family;
    if family != 0 && family != hook_family as u8 {
        return Step::Break;
    }
    let socket = packet
        .transport()
        .filter(|t| matches!(t.protocol, protocol::TCP | protocol::UDP))
        .and_then(|_| proxy(addr, port, hook_family, registers, packet, env));
    match socket {
        Some(socket) if socket.transparent => {
            packet.meta.socket = socket.id;
            Step::Next
        }
        _ => Step::Break,
    }
}

fn proxy<E: Env>(
    addr: Option<u8>,
    port: Option<u8>,
    family: Family,
    registers: &Registers,
    packet: &Packet,
    env: &mut E,
) -> Option<LocalSocket> {
    let v6 = family == Family::Ip6;
    let ends = ends(packet, family)?;
    let established = env.socket(&SocketQuery { kind: SocketKind::Established, ..ends });
    let asked = addr.map(|slot| -> IpAddr {
        if v6 { registers.sixteen(slot).into() } else { registers.word(slot).to_ne_bytes().into() }
    });
    let asked_port = port
        .and_then(|slot| registers.bytes(slot, 2).first_chunk())
        .map_or(0, |b| u16::from_be_bytes(*b));
    let mut listener = || {
        let address = asked
            .filter(|address| !address.is_unspecified())
            .or_else(|| env.primary_address(packet.meta.iif, v6))
            .unwrap_or(ends.destination.0);
        let port = if asked_port == 0 { ends.destination.1 } else { asked_port };
        env.socket(&SocketQuery {
            kind: SocketKind::Listener,
            destination: (address, port),
            ..ends
        })
    };
    match established {
        // A connection that starts again goes to the listener, if there is one.
        Some(socket) if socket.time_wait => match packet.transport_bytes()?.get(13)? & 0x17 {
            0x02 => listener().or(Some(socket)),
            _ => Some(socket),
        },
        Some(socket) => Some(socket),
        None => listener(),
    }
}
