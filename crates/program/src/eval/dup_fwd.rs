// SPDX-License-Identifier: Apache-2.0

//! Copies and packets for other devices (`net/ipv4/netfilter/nft_dup_ipv4.c`,
//! `net/netfilter/nft_dup_netdev.c`, `net/netfilter/nft_fwd_netdev.c`).

use std::net::IpAddr;

use penstock_packet::Packet;
use penstock_wire::ethernet;
use penstock_wire::{ipv4, ipv6};

use super::Step;
use super::registers::Registers;
use crate::Env;

fn address(slot: u8, v6: bool, registers: &Registers) -> IpAddr {
    if v6 {
        return registers.sixteen(slot).into();
    }
    registers.word(slot).to_ne_bytes().into()
}

#[inline(never)]
pub(super) fn dup<E: Env>(
    addr: Option<u8>,
    v6: bool,
    dev: Option<u8>,
    registers: &Registers,
    packet: &Packet,
    env: &mut E,
) -> Step {
    let gateway = addr.map(|slot| address(slot, v6, registers));
    env.dup(packet, gateway, dev.map(|slot| registers.word(slot)));
    Step::Next
}

#[inline(never)]
pub(super) fn fwd<E: Env>(
    dev: u8,
    addr: Option<u8>,
    v6: bool,
    registers: &Registers,
    packet: &mut Packet,
    env: &mut E,
) -> Step {
    let device = registers.word(dev);
    let Some(slot) = addr else {
        env.fwd(packet, device, None);
        return Step::Stolen;
    };
    // To a neighbour the packet goes as a router sends it.
    let expected = if v6 { ethernet::IPV6 } else { ethernet::IPV4 };
    if packet.meta.protocol != expected {
        return Step::Break;
    }
    match packet.network().get(if v6 { 7 } else { 8 }) {
        Some(2..) => {}
        _ => return Step::Drop,
    }
    if v6 {
        if let Some(mut header) = ipv6::HeaderMut::new(packet.network_mut()) {
            header.decrement_hop_limit();
        }
    } else if let Some(mut header) = ipv4::HeaderMut::new(packet.network_mut()) {
        header.decrement_ttl();
    }
    let neighbour = address(slot, v6, registers);
    env.fwd(packet, device, Some(neighbour));
    Step::Stolen
}
