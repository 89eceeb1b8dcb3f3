// SPDX-License-Identifier: Apache-2.0

//! Tunnel objects as the kernel keeps them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use penstock_ruleset::tunnel::{Tunnel, TunnelOptions};
use penstock_syntax::ast::Expr;
use penstock_syntax::ast::cmd::{TunnelSpec, TunnelSpecOptions};

/// Bits of the number of ERSPAN hardware.
const HWID: u8 = 0x3f;

/// An evaluated tunnel object.
pub(super) fn tunnel(spec: &TunnelSpec) -> Tunnel {
    let destination = spec.destination.as_ref().and_then(address);
    let unspecified = destination.map(|d| match d {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    });
    Tunnel {
        id: spec.id,
        source: spec.source.as_ref().and_then(address).or(unspecified),
        destination,
        sport: spec.sport,
        dport: spec.dport,
        tos: spec.tos,
        ttl: spec.ttl,
        options: match &spec.options {
            TunnelSpecOptions::None => TunnelOptions::None,
            TunnelSpecOptions::Erspan { version: 2, egress, hwid, .. } => {
                TunnelOptions::Erspan2 { egress: *egress, hwid: hwid & HWID }
            }
            TunnelSpecOptions::Erspan { index, .. } => TunnelOptions::Erspan { index: *index },
            TunnelSpecOptions::Vxlan { gbp } => TunnelOptions::Vxlan { gbp: *gbp },
            // Without options nothing is left of the block.
            TunnelSpecOptions::Geneve(options) if options.is_empty() => TunnelOptions::None,
            TunnelSpecOptions::Geneve(options) => TunnelOptions::Geneve(options.clone()),
        },
    }
}

fn address((v6, address): &(bool, Expr)) -> Option<IpAddr> {
    let value = address.value()?;
    Some(match v6 {
        true => IpAddr::V6(Ipv6Addr::from_bits(value)),
        false => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(value).ok()?)),
    })
}
