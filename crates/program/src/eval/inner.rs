// SPDX-License-Identifier: Apache-2.0

//! Loads from the packet that a tunnel carries (`nft_inner_eval()` of `net/netfilter/nft_inner.c`).

use penstock_packet::{Packet, ipv6_transport};
use penstock_wire::{ethernet, geneve, ipv4, ipv6, protocol, vlan};

use super::Step;
use super::payload;
use super::registers::Registers;
use crate::op::{InnerLoad, LinkedInner};
use crate::operand::{
    INNER_GENEVE, INNER_HDRSIZE, INNER_LINK, INNER_NETWORK, INNER_TRANSPORT, PayloadBase,
};

/// The only tag that is skipped.
const ETH_P_8021Q: u16 = 0x8100;

/// Where the headers are, in bytes from the start of the outer network header
/// (`struct nft_inner_tun_ctx`).
#[derive(Default)]
struct InnerHeaders {
    tunnel: Option<usize>,
    link: Option<usize>,
    network: Option<usize>,
    /// Transport header inside, and what it is.
    transport: Option<(usize, u8)>,
    /// Ethertype inside, in host order: of a tagged frame that of its tag.
    protocol: u16,
}

#[inline(never)]
pub(super) fn load(inner: &LinkedInner, packet: &Packet, registers: &mut Registers) -> Step {
    Step::found(find(inner, packet).and_then(|found| {
        match inner.load {
            InnerLoad::Payload { base, dst, len, offset } => {
                let start = match base {
                    PayloadBase::Tunnel => found.tunnel?,
                    PayloadBase::Link => found.link?,
                    PayloadBase::Network => found.network?,
                    PayloadBase::Transport => found.transport?.0,
                    PayloadBase::Inner => return None,
                };
                payload::load(packet.network().get(start..)?, offset, len, dst, registers)?;
            }
            InnerLoad::Protocol { dst } => registers.set_half(dst, found.protocol.to_be_bytes()),
            InnerLoad::L4Proto { dst } => registers.set_u8(dst, found.transport?.1),
        }
        Some(())
    }))
}

/// Looks for the headers; `None` where the rule ends.
fn find(inner: &LinkedInner, packet: &Packet) -> Option<InnerHeaders> {
    let bytes = packet.network();
    let outer = packet.transport()?;
    let mut at = packet.inner_offset()?;
    let mut found = InnerHeaders::default();
    if inner.flags & INNER_HDRSIZE != 0 {
        match outer.protocol {
            // The offset is already after the optional fields.
            protocol::GRE => found.tunnel = Some(usize::from(outer.offset)),
            protocol::UDP => {
                found.tunnel = Some(at);
                if inner.kind == INNER_GENEVE {
                    at += geneve::Header::new(bytes.get(at..)?)?.header_len() - geneve::LEN;
                }
                at += usize::from(inner.hdrsize);
            }
            _ => return None,
        }
    }
    if inner.flags & (INNER_LINK | INNER_NETWORK) != 0 {
        layers(inner.flags, bytes, at, &mut found)?;
    } else if inner.flags & INNER_TRANSPORT != 0 {
        found.transport = Some((at, 0));
    }
    Some(found)
}

/// Link, network and transport header of what starts at `at` (`nft_inner_parse_l2l3()`).
fn layers(flags: u32, bytes: &[u8], mut at: usize, found: &mut InnerHeaders) -> Option<()> {
    let mut protocol;
    if flags & INNER_LINK != 0 {
        let frame = bytes.get(at..)?;
        found.link = Some(at);
        at += ethernet::LEN;
        protocol = half(frame, ethernet::LEN - 2)?;
        found.protocol = protocol;
        if protocol == ETH_P_8021Q {
            protocol = half(frame, ethernet::LEN + vlan::LEN - 2)?;
            at += vlan::LEN;
        }
    } else {
        let [first, ..] = bytes.get(at..)?.first_chunk::<4>()?;
        protocol = match first >> 4 {
            4 => ethernet::IPV4,
            6 => ethernet::IPV6,
            _ => return None,
        };
        found.protocol = protocol;
    }
    let network = bytes.get(at..)?;
    match protocol {
        ethernet::IPV4 => {
            let h = ipv4::Header::new(network)?;
            if h.header_len() < ipv4::LEN || h.version() != 4 {
                return None;
            }
            if h.fragment_offset() == 0 {
                found.transport = Some((at + h.header_len(), h.protocol()));
            }
        }
        ethernet::IPV6 => {
            if ipv6::Header::new(network)?.version() != 6 {
                return None;
            }
            // After all extension headers. Kernels that lack the fix of `nft_inner_parse_l2l3()`
            // take what follows the fixed header for the transport header, whatever it is.
            let t = ipv6_transport(network)?;
            if t.fragment_offset == 0 {
                found.transport = Some((at + usize::from(t.offset), t.protocol));
            }
        }
        _ => return None,
    }
    found.network = Some(at);
    Some(())
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
