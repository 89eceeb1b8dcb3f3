// SPDX-License-Identifier: Apache-2.0

//! Headers of tunnels, and what inner and outer header tell each other (`xfrm4_tunnel_encap_add()`,
//! `xfrm4_remove_tunnel_encap()` and their IPv6 kin; RFC 6040 for congestion marks).

use std::net::IpAddr;

use penstock_wire::{ipv4, ipv6, protocol};

use crate::StateConfig;

/// What the outer header of a tunnel gets from the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// Identification, for packets that may be cut.
    pub id: u16,
}

const ECN: u8 = 3;
const CE: u8 = 3;
const ECT0: u8 = 2;

/// What the inner header has to say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner {
    /// 4 or 41.
    pub(crate) protocol: u8,
    /// TOS or traffic class.
    class: u8,
    df: bool,
    label: u32,
}

impl Inner {
    /// `None` if there is no header.
    #[inline]
    pub(crate) fn of(packet: &[u8]) -> Option<Inner> {
        if packet.first()? >> 4 == 6 {
            let h = ipv6::Header::new(packet)?;
            // IPv6 is never cut on its way, so the outer packet must not be either.
            return Some(Inner {
                protocol: protocol::IPV6,
                class: h.traffic_class(),
                df: true,
                label: h.flow_label(),
            });
        }
        let h = ipv4::Header::new(packet)?;
        Some(Inner { protocol: protocol::IPIP, class: h.tos(), df: h.df(), label: 0 })
    }
}

/// TOS or traffic class of the outer header (`INET_ECN_encapsulate()`).
fn class(state: &StateConfig, inner: u8) -> u8 {
    let dscp = if state.flags.dont_encap_dscp { 0 } else { inner & !ECN };
    if state.flags.noecn {
        return dscp;
    }
    dscp | if inner & ECN == CE { ECT0 } else { inner & ECN }
}

/// Writes the outer header of a packet that is as long as `at`. Returns the header's length.
#[inline]
pub(crate) fn write(
    state: &StateConfig,
    inner: &Inner,
    outer: Outer,
    protocol: u8,
    at: &mut [u8],
) -> Option<usize> {
    let class = class(state, inner.class);
    let len = at.len();
    match (state.source, state.destination) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let df = inner.df && !state.flags.nopmtudisc;
            let header = ipv4::Repr {
                tos: class,
                payload_len: u16::try_from(len).ok()?.checked_sub(ipv4::LEN as u16)?,
                id: if df { 0 } else { outer.id },
                frag: if df { ipv4::DF } else { 0 },
                ttl: outer.hop_limit,
                protocol,
                src,
                dst,
            };
            at.get_mut(..ipv4::LEN)?.copy_from_slice(&header.bytes());
            Some(ipv4::LEN)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = ipv6::Repr {
                traffic_class: class,
                flow_label: inner.label,
                payload_len: u16::try_from(len.checked_sub(ipv6::LEN)?).ok()?,
                next_header: protocol,
                hop_limit: outer.hop_limit,
                src,
                dst,
            };
            at.get_mut(..ipv6::LEN)?.copy_from_slice(&header.bytes());
            Some(ipv6::LEN)
        }
        _ => None,
    }
}

/// Sets the length of an IP packet to its actual length, and the checksum of IPv4.
#[inline]
pub(crate) fn finish(packet: &mut [u8]) -> Option<()> {
    let len = packet.len();
    if packet.first()? >> 4 == 6 {
        let payload = u16::try_from(len.checked_sub(ipv6::LEN)?).ok()?;
        ipv6::HeaderMut::new(packet)?.set_payload_len(payload);
        return Some(());
    }
    let total = u16::try_from(len).ok()?;
    let mut h = ipv4::HeaderMut::new(packet)?;
    h.set_total_len(total);
    h.fill_checksum();
    Some(())
}

/// TOS or traffic class of a packet's first header.
pub(crate) fn class_of(packet: &[u8]) -> u8 {
    match packet {
        [a, b, ..] if a >> 4 == 6 => a << 4 | b >> 4,
        [_, b, ..] => *b,
        _ => 0,
    }
}

/// What comes out of a tunnel takes over what the outer header has learned on its way. `None` if
/// there is no inner header of that protocol.
pub(crate) fn leave(
    state: &StateConfig,
    protocol: u8,
    outer_class: u8,
    inner: &mut [u8],
) -> Option<()> {
    let old = match protocol {
        protocol::IPIP => ipv4::Header::new(inner)?.tos(),
        protocol::IPV6 => ipv6::Header::new(inner)?.traffic_class(),
        _ => return None,
    };
    let mut new = old;
    if state.flags.decap_dscp {
        new = outer_class & !ECN | old & ECN;
    }
    if !state.flags.noecn && outer_class & ECN == CE && old & ECN != 0 {
        new |= CE;
    }
    if new == old {
        return Some(());
    }
    if protocol == protocol::IPIP {
        let mut h = ipv4::HeaderMut::new(inner)?;
        let check = h.read().checksum();
        h.set_tos(new);
        h.set_checksum(penstock_wire::checksum::replace2(check, old.into(), new.into()));
    } else {
        ipv6::HeaderMut::new(inner)?.set_traffic_class(new);
    }
    Some(())
}
