// SPDX-License-Identifier: Apache-2.0

//! Tunnel objects (`NFTA_TUNNEL_KEY_*`, `net/netfilter/nft_tunnel.c`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use penstock_ruleset::Errno;
use penstock_ruleset::tunnel::{GeneveOption, TTL, Tunnel, TunnelOptions};

use crate::message::{Attribute, Attributes, Check, Failure, Policy, Writer};
use crate::uapi::nf_tables::*;

const POLICY: Policy = &[
    (NFTA_TUNNEL_KEY_ID, Check::U32),
    (NFTA_TUNNEL_KEY_IP, Check::Nested),
    (NFTA_TUNNEL_KEY_IP6, Check::Nested),
    (NFTA_TUNNEL_KEY_FLAGS, Check::U32),
    (NFTA_TUNNEL_KEY_TOS, Check::U8),
    (NFTA_TUNNEL_KEY_TTL, Check::U8),
    (NFTA_TUNNEL_KEY_SPORT, Check::U16),
    (NFTA_TUNNEL_KEY_DPORT, Check::U16),
    (NFTA_TUNNEL_KEY_OPTS, Check::Nested),
];
const IP_POLICY: Policy =
    &[(NFTA_TUNNEL_KEY_IP_SRC, Check::U32), (NFTA_TUNNEL_KEY_IP_DST, Check::U32)];
const IP6_POLICY: Policy = &[
    (NFTA_TUNNEL_KEY_IP6_SRC, Check::Least(16)),
    (NFTA_TUNNEL_KEY_IP6_DST, Check::Least(16)),
    (NFTA_TUNNEL_KEY_IP6_FLOWLABEL, Check::U32),
];
const VXLAN_POLICY: Policy = &[(NFTA_TUNNEL_KEY_VXLAN_GBP, Check::U32)];
const ERSPAN_POLICY: Policy = &[
    (NFTA_TUNNEL_KEY_ERSPAN_VERSION, Check::U32),
    (NFTA_TUNNEL_KEY_ERSPAN_V1_INDEX, Check::U32),
    (NFTA_TUNNEL_KEY_ERSPAN_V2_HWID, Check::U8),
    (NFTA_TUNNEL_KEY_ERSPAN_V2_DIR, Check::U8),
];
const GENEVE_POLICY: Policy = &[
    (NFTA_TUNNEL_KEY_GENEVE_CLASS, Check::U16),
    (NFTA_TUNNEL_KEY_GENEVE_TYPE, Check::U8),
    (NFTA_TUNNEL_KEY_GENEVE_DATA, Check::Binary(128)),
];

fn write_addresses(to: &mut Writer, tunnel: &Tunnel) {
    match tunnel.destination {
        Some(IpAddr::V4(destination)) => to.nest(NFTA_TUNNEL_KEY_IP, |to| {
            let source = match tunnel.source {
                Some(IpAddr::V4(source)) => source,
                _ => Ipv4Addr::UNSPECIFIED,
            };
            to.attribute(NFTA_TUNNEL_KEY_IP_SRC, &source.octets());
            to.attribute(NFTA_TUNNEL_KEY_IP_DST, &destination.octets());
        }),
        Some(IpAddr::V6(destination)) => to.nest(NFTA_TUNNEL_KEY_IP6, |to| {
            let source = match tunnel.source {
                Some(IpAddr::V6(source)) => source,
                _ => Ipv6Addr::UNSPECIFIED,
            };
            to.attribute(NFTA_TUNNEL_KEY_IP6_SRC, &source.octets());
            to.attribute(NFTA_TUNNEL_KEY_IP6_DST, &destination.octets());
            to.be32(NFTA_TUNNEL_KEY_IP6_FLOWLABEL, 0);
        }),
        None => {}
    }
}

fn write_options(to: &mut Writer, options: &TunnelOptions) {
    let erspan = |to: &mut Writer, version: u32, write: &dyn Fn(&mut Writer)| {
        to.nest(NFTA_TUNNEL_KEY_OPTS_ERSPAN, |to| {
            to.be32(NFTA_TUNNEL_KEY_ERSPAN_VERSION, version);
            write(to);
        });
    };
    match options {
        TunnelOptions::None => {}
        TunnelOptions::Vxlan { gbp } => to.nest(NFTA_TUNNEL_KEY_OPTS_VXLAN, |to| {
            to.be32(NFTA_TUNNEL_KEY_VXLAN_GBP, *gbp);
        }),
        TunnelOptions::Erspan { index } => {
            erspan(to, 1, &|to| to.be32(NFTA_TUNNEL_KEY_ERSPAN_V1_INDEX, *index));
        }
        TunnelOptions::Erspan2 { egress, hwid } => erspan(to, 2, &|to| {
            to.u8(NFTA_TUNNEL_KEY_ERSPAN_V2_HWID, *hwid);
            to.u8(NFTA_TUNNEL_KEY_ERSPAN_V2_DIR, (*egress).into());
        }),
        TunnelOptions::Geneve(options) => {
            for option in options {
                to.nest(NFTA_TUNNEL_KEY_OPTS_GENEVE, |to| {
                    to.be16(NFTA_TUNNEL_KEY_GENEVE_CLASS, option.class);
                    to.u8(NFTA_TUNNEL_KEY_GENEVE_TYPE, option.kind);
                    to.attribute(NFTA_TUNNEL_KEY_GENEVE_DATA, &option.data);
                });
            }
        }
    }
}

/// Appends a tunnel.
pub fn write(to: &mut Writer, tunnel: &Tunnel) {
    to.be32(NFTA_TUNNEL_KEY_ID, tunnel.id);
    write_addresses(to, tunnel);
    to.be16(NFTA_TUNNEL_KEY_SPORT, tunnel.sport);
    to.be16(NFTA_TUNNEL_KEY_DPORT, tunnel.dport);
    to.be32(NFTA_TUNNEL_KEY_FLAGS, 0);
    to.u8(NFTA_TUNNEL_KEY_TOS, tunnel.tos);
    to.u8(NFTA_TUNNEL_KEY_TTL, tunnel.ttl);
    to.nest(NFTA_TUNNEL_KEY_OPTS, |to| write_options(to, &tunnel.options));
}

fn address<const N: usize, T: From<[u8; N]> + Into<IpAddr>>(
    attribute: Option<Attribute<'_>>,
) -> Option<IpAddr> {
    let bytes: &[u8; N] = attribute?.payload.first_chunk()?;
    Some(T::from(*bytes).into())
}

fn addresses(given: &Attributes<'_>) -> Result<(Option<IpAddr>, Option<IpAddr>), Failure> {
    if let Some(ip) = given.get(NFTA_TUNNEL_KEY_IP) {
        let ip = ip.attributes(IP_POLICY)?;
        return Ok((
            address::<4, Ipv4Addr>(ip.get(NFTA_TUNNEL_KEY_IP_SRC)),
            address::<4, Ipv4Addr>(ip.get(NFTA_TUNNEL_KEY_IP_DST)),
        ));
    }
    let ip = given.need(NFTA_TUNNEL_KEY_IP6)?.attributes(IP6_POLICY)?;
    // No tunnel here has a flow label.
    if ip.be32(NFTA_TUNNEL_KEY_IP6_FLOWLABEL).unwrap_or(0) != 0 {
        return Err(Errno::Eopnotsupp.into());
    }
    Ok((
        address::<16, Ipv6Addr>(ip.get(NFTA_TUNNEL_KEY_IP6_SRC)),
        address::<16, Ipv6Addr>(ip.get(NFTA_TUNNEL_KEY_IP6_DST)),
    ))
}

fn options(list: Option<Attribute<'_>>) -> Result<TunnelOptions, Failure> {
    let mut options = TunnelOptions::None;
    for option in list.iter().flat_map(|list| list.each()) {
        options = match (option.kind, options) {
            (NFTA_TUNNEL_KEY_OPTS_VXLAN, TunnelOptions::None) => {
                let given = option.attributes(VXLAN_POLICY)?;
                TunnelOptions::Vxlan { gbp: given.need(NFTA_TUNNEL_KEY_VXLAN_GBP)?.be32() }
            }
            (NFTA_TUNNEL_KEY_OPTS_ERSPAN, TunnelOptions::None) => {
                let given = option.attributes(ERSPAN_POLICY)?;
                match given.need(NFTA_TUNNEL_KEY_ERSPAN_VERSION)?.be32() {
                    1 => TunnelOptions::Erspan {
                        index: given.need(NFTA_TUNNEL_KEY_ERSPAN_V1_INDEX)?.be32(),
                    },
                    2 => TunnelOptions::Erspan2 {
                        egress: given.need(NFTA_TUNNEL_KEY_ERSPAN_V2_DIR)?.u8() != 0,
                        hwid: given.need(NFTA_TUNNEL_KEY_ERSPAN_V2_HWID)?.u8(),
                    },
                    _ => return Err(Errno::Eopnotsupp.into()),
                }
            }
            (NFTA_TUNNEL_KEY_OPTS_GENEVE, before) => {
                let given = option.attributes(GENEVE_POLICY)?;
                let one = GeneveOption {
                    class: given.need(NFTA_TUNNEL_KEY_GENEVE_CLASS)?.be16(),
                    kind: given.need(NFTA_TUNNEL_KEY_GENEVE_TYPE)?.u8(),
                    data: given.need(NFTA_TUNNEL_KEY_GENEVE_DATA)?.payload.to_vec(),
                };
                match before {
                    TunnelOptions::None => TunnelOptions::Geneve(vec![one]),
                    TunnelOptions::Geneve(mut all) => {
                        all.push(one);
                        TunnelOptions::Geneve(all)
                    }
                    _ => return Err(Failure::einval()),
                }
            }
            _ => return Err(Failure::einval()),
        };
    }
    Ok(options)
}

/// A tunnel.
///
/// # Errors
/// `EINVAL` if number or addresses are missing; `EOPNOTSUPP` for flags.
pub fn read(data: Attribute<'_>) -> Result<Tunnel, Failure> {
    let given = data.attributes(POLICY)?;
    let id = given.need(NFTA_TUNNEL_KEY_ID)?.be32();
    if given.be32(NFTA_TUNNEL_KEY_FLAGS).unwrap_or(0) != 0 {
        return Err(Errno::Eopnotsupp.into());
    }
    let (source, destination) = addresses(&given)?;
    let port = |kind| given.get(kind).map_or(0, |port| port.be16());
    Ok(Tunnel {
        id,
        source,
        destination,
        sport: port(NFTA_TUNNEL_KEY_SPORT),
        dport: port(NFTA_TUNNEL_KEY_DPORT),
        tos: given.get(NFTA_TUNNEL_KEY_TOS).map_or(0, |tos| tos.u8()),
        ttl: given.get(NFTA_TUNNEL_KEY_TTL).map_or(TTL, |ttl| ttl.u8()),
        options: options(given.get(NFTA_TUNNEL_KEY_OPTS))?,
    })
}
