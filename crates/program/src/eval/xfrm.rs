// SPDX-License-Identifier: Apache-2.0

//! IPsec transformations (`net/netfilter/nft_xfrm.c`) and tunnels (`net/netfilter/nft_tunnel.c`).

use std::net::IpAddr;

use penstock_packet::Packet;

use super::Step;
use super::registers::Registers;
use crate::Env;
use crate::env::IpsecState;
use crate::operand::{TunnelKey, XfrmKey};

#[inline(never)]
pub(super) fn get(
    key: XfrmKey,
    state: Option<IpsecState>,
    dst: u8,
    registers: &mut Registers,
) -> Step {
    let Some(state) = state else { return Step::Break };
    let address = match key {
        XfrmKey::Reqid => {
            registers.set_word(dst, state.reqid);
            return Step::Next;
        }
        XfrmKey::Spi => {
            registers.set(dst, &state.spi.to_be_bytes());
            return Step::Next;
        }
        XfrmKey::DaddrIp4 | XfrmKey::DaddrIp6 => state.tunnel.map(|(_, destination)| destination),
        XfrmKey::SaddrIp4 | XfrmKey::SaddrIp6 => state.tunnel.map(|(source, _)| source),
    };
    match (key, address) {
        (XfrmKey::DaddrIp4 | XfrmKey::SaddrIp4, Some(IpAddr::V4(a))) => {
            registers.set(dst, &a.octets())
        }
        (XfrmKey::DaddrIp6 | XfrmKey::SaddrIp6, Some(IpAddr::V6(a))) => {
            registers.set(dst, &a.octets())
        }
        _ => return Step::Break,
    }
    Step::Next
}

#[inline(never)]
pub(super) fn tunnel<E: Env>(
    key: TunnelKey,
    dst: u8,
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> Step {
    match (key, env.tunnel_id(packet)) {
        (TunnelKey::Path, id) => registers.set_u8(dst, id.is_some().into()),
        (TunnelKey::Id, Some(id)) => registers.set_word(dst, id),
        (TunnelKey::Id, None) => return Step::Break,
    }
    Step::Next
}
