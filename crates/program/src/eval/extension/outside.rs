// SPDX-License-Identifier: Apache-2.0

//! Programs, ports of bridges, clusters, IPsec and answers to ARP requests
//! (`net/netfilter/xt_bpf.c`, `xt_physdev.c`, `xt_cluster.c`, `xt_policy.c`, `net/bridge/netfilter/ebt_arpreply.c`).

use std::net::{IpAddr, Ipv4Addr};

use penstock_packet::{Packet, PacketType};
use penstock_wire::{ethernet, protocol};

use super::super::{jhash, reciprocal_scale};
use super::Step;
use crate::env::IpsecState;
use crate::expr::Log;
use crate::op::{
    BpfAncillary, BpfPacket, BpfProgram, Cluster, IpsecElement, IpsecPolicy, Masked, Physdev,
    PortName, SystemLog,
};
use crate::osf::{Fingerprint, Fingerprints};
use crate::{Env, Hook};

/// A packet as programs see it.
struct Seen<'p, E> {
    packet: &'p Packet,
    env: &'p mut E,
}

impl<E: Env> BpfPacket for Seen<'_, E> {
    fn link(&self) -> &[u8] {
        self.packet.link()
    }

    fn network(&self) -> &[u8] {
        self.packet.network()
    }

    fn ancillary(&mut self, what: BpfAncillary) -> Option<u32> {
        let meta = &self.packet.meta;
        // `skb->dev`: on its way out a packet of the host has none yet, but over IPv6.
        let device = match self.env.context().hook {
            Hook::Postrouting => meta.oif,
            Hook::Output if meta.protocol == ethernet::IPV6 => meta.oif,
            Hook::Output => 0,
            _ => meta.iif,
        };
        Some(match what {
            BpfAncillary::Protocol => meta.protocol.into(),
            BpfAncillary::PacketType => meta.packet_type as u32,
            BpfAncillary::Device if device == 0 => return None,
            BpfAncillary::Device => device,
            BpfAncillary::DeviceType => self.env.interface(device)?.arphrd.into(),
            BpfAncillary::Mark => meta.mark,
            BpfAncillary::Worker => self.env.worker().get() as u32,
            BpfAncillary::VlanTag => meta.vlan.map_or(0, |tag| tag.tci.into()),
            BpfAncillary::HasVlanTag => meta.vlan.is_some().into(),
            BpfAncillary::VlanProtocol => meta.vlan.map_or(0, |tag| tag.protocol.into()),
            BpfAncillary::Random => self.env.random(),
        })
    }
}

/// `bpf_mt()`
pub(super) fn bpf<E: Env>(program: &BpfProgram, packet: &Packet, env: &mut E) -> Step {
    Step::unless(program.run(&mut Seen { packet, env }) == 0)
}

/// `xt_osf_match_packet()`: whether a TCP SYN is as a system of a genre sends it.
pub(super) fn is_system<E: Env>(
    genre: &str,
    ttl: u8,
    added: &Fingerprints,
    packet: &Packet,
    env: &E,
) -> bool {
    let network = packet.network();
    has_syn(packet)
        && (env.fingerprints().is_some_and(|known| known.has(network, ttl, genre))
            || added.has(network, ttl, genre))
}

fn has_syn(packet: &Packet) -> bool {
    const SYN: u8 = 2;
    let header = packet.transport_bytes().and_then(|tcp| tcp.first_chunk::<20>());
    header.is_some_and(|header| header[13] & SYN != 0)
}

/// Records which systems a TCP SYN may come from; `false` if none is known (`nf_osf_match()` with
/// `NF_OSF_LOG`). The kernel asks for no genre then.
#[cold]
pub(super) fn record_system<E: Env>(
    log: SystemLog,
    ttl: u8,
    added: &Fingerprints,
    packet: &Packet,
    env: &mut E,
) -> bool {
    if !has_syn(packet) {
        return false;
    }
    let network = packet.network();
    let ports = packet.transport_bytes().and_then(|tcp| tcp.first_chunk::<4>());
    let addresses = network.get(12..20).and_then(|both| both.first_chunk::<8>());
    let (Some(&[s1, s2, d1, d2]), Some(addresses)) = (ports, addresses) else { return false };
    let address = |at: usize| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| addresses[at + i]);
        Ipv4Addr::new(a, b, c, d)
    };
    let way = format!(
        "{}:{} -> {}:{}",
        address(0),
        u16::from_be_bytes([s1, s2]),
        address(4),
        u16::from_be_bytes([d1, d2])
    );
    let most = match log {
        SystemLog::All => usize::MAX,
        SystemLog::First => 1,
    };
    let described = |(f, hops): (&Fingerprint, i32)| {
        format!("{} [{}:{}] : {way} hops={hops}\n", f.genre, f.version, f.subtype)
    };
    let built_in = env.fingerprints().into_iter().flat_map(|known| known.all(network, ttl));
    let known = built_in.chain(added.all(network, ttl));
    let mut lines: Vec<String> = known.take(most).map(described).collect();
    let is_known = !lines.is_empty();
    if !is_known {
        lines.push(format!("Remote OS is not known: {way}\n"));
    }
    for line in lines {
        env.log(packet, &Log::by_default(line.into()));
    }
    is_known
}

/// `physdev_mt()`: whether a packet is bridged as rules ask it.
pub(super) fn physdev<E: Env>(physdev: &Physdev, packet: &Packet, env: &E) -> bool {
    let bridged = &packet.meta.bridged;
    let asked = |what: u8| physdev.asked & what != 0;
    let inverted = |what: u8| physdev.inverted & what != 0;
    if bridged.arrived == 0 {
        return physdev.asked & !physdev.inverted & Physdev::ALL == 0;
    }
    let port = |index: u32| env.interface(index).map(|i| i.name);
    let (arrived, leaves) = (port(bridged.arrived), port(bridged.leaves));
    let there = |what, is: bool| !asked(what) || is != inverted(what);
    let named = |name: [u8; 16], of: &PortName| {
        let differs = |i: usize| (name[i] ^ of.name[i]) & of.mask[i] != 0;
        !(0..16).any(differs)
    };
    there(Physdev::BRIDGED, leaves.is_some())
        && there(Physdev::IS_IN, arrived.is_some())
        && there(Physdev::IS_OUT, leaves.is_some())
        && arrived.is_none_or(|name| there(Physdev::IN, named(name, &physdev.arrived)))
        && match leaves {
            Some(name) => there(Physdev::OUT, named(name, &physdev.leaves)),
            None => !asked(Physdev::OUT),
        }
}

/// `xt_cluster_mt()`: a packet that came by a link's multicast address is one for this host.
pub(super) fn cluster<E: Env>(cluster: &Cluster, packet: &mut Packet, env: &mut E) -> Step {
    let multicast = match packet.meta.protocol {
        ethernet::IPV6 => packet.network().get(24).is_some_and(|byte| *byte == 0xff),
        _ => packet.network().get(16).is_some_and(|byte| byte & 0xf0 == 0xe0),
    };
    if !multicast && packet.meta.packet_type == PacketType::Multicast {
        packet.meta.packet_type = PacketType::Host;
    }
    let hash = match env.ct_first_source(packet) {
        Some(IpAddr::V4(address)) => jhash(&address.octets(), cluster.seed),
        // The kernel takes a count of words for one of bytes.
        Some(IpAddr::V6(address)) => jhash(&address.octets()[..4], cluster.seed),
        None => return Step::Break,
    };
    let node = reciprocal_scale(hash, cluster.nodes);
    Step::unless((cluster.mask >> (node % 32) & 1 != 0) == cluster.inverted)
}

/// Transformations of a packet that are looked at, at most (`XFRM_MAX_DEPTH`).
const DEEPEST: usize = 6;

/// `policy_mt()`
pub(super) fn policy<E: Env>(policy: &IpsecPolicy, packet: &Packet, env: &mut E) -> Step {
    let mut states = [None; DEEPEST];
    for (number, state) in states.iter_mut().enumerate() {
        *state = env.ipsec(packet, policy.out, number as u32);
        if state.is_none() {
            break;
        }
    }
    let len = states.iter().flatten().count();
    if len == 0 || policy.none {
        return Step::unless((len == 0) != policy.none);
    }
    Step::unless(!match policy.strict {
        true => {
            // The last one that a packet came through is the first element's.
            len == policy.elements.len()
                && states.iter().flatten().enumerate().all(|(i, state)| {
                    let at = if policy.out { i } else { len - 1 - i };
                    policy.elements.get(at).is_some_and(|element| is(state, element))
                })
        }
        false => policy
            .elements
            .first()
            .is_some_and(|element| states.iter().flatten().any(|state| is(state, element))),
    })
}

/// `match_xfrm_state()`
fn is(state: &IpsecState, element: &IpsecElement) -> bool {
    let tunnel = state.tunnel;
    let in_mask = |asked: Option<(Masked, bool)>, address: Option<IpAddr>| {
        asked.is_none_or(|(masked, inverted)| {
            address.is_some_and(|address| covers(&masked, address)) != inverted
        })
    };
    in_mask(element.source, tunnel.map(|(source, _)| source))
        && in_mask(element.destination, tunnel.map(|(_, destination)| destination))
        && element.protocol.is_none_or(|(wanted, not)| (wanted == protocol::ESP) != not)
        && element.tunnel.is_none_or(|(wanted, not)| (wanted == tunnel.is_some()) != not)
        && element.spi.is_none_or(|(wanted, not)| (wanted == state.spi) != not)
        && element.reqid.is_none_or(|(wanted, not)| (wanted == state.reqid) != not)
}

fn covers(masked: &Masked, address: IpAddr) -> bool {
    let same = |bytes: &[u8]| {
        bytes.iter().zip(&masked.address).zip(&masked.mask).all(|((a, b), m)| (a ^ b) & m == 0)
    };
    match address {
        IpAddr::V4(address) => same(&address.octets()),
        IpAddr::V6(address) => same(&address.octets()),
    }
}

/// Answers an ARP request (`ebt_arpreply_tg()`), by the device that it came by; whether it is one.
pub(super) fn arp_reply<E: Env>(address: [u8; 6], packet: &mut Packet, env: &mut E) -> bool {
    const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
    const LEN: usize = 28;
    let Some(request) = packet.network().first_chunk::<LEN>().copied() else { return false };
    // The kernel does not look at the type of link addresses.
    if request[2..8] != REQUEST[2..] {
        return false;
    }
    let (from, link) = (packet.meta.iif, packet.link().first_chunk::<12>().copied());
    let Some(link) = link else { return false };
    let mut reply = request;
    reply[7] = 2;
    reply[8..14].copy_from_slice(&address);
    reply[14..18].copy_from_slice(&request[24..]);
    reply[18..24].copy_from_slice(&request[8..14]);
    reply[24..].copy_from_slice(&request[14..18]);
    // A copy is what is sent; the packet stays as it is.
    let mut addresses = [0; 12];
    addresses[..6].copy_from_slice(&request[8..14]);
    addresses[6..].copy_from_slice(&address);
    let mut put = |network: &[u8; LEN], addresses: &[u8; 12]| {
        packet.network_mut()[..LEN].copy_from_slice(network);
        packet.link_mut()[..12].copy_from_slice(addresses);
    };
    put(&reply, &addresses);
    env.dup(packet, None, Some(from));
    packet.network_mut()[..LEN].copy_from_slice(&request);
    packet.link_mut()[..12].copy_from_slice(&link);
    true
}
