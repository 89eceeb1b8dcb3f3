// SPDX-License-Identifier: Apache-2.0

//! Tunnel objects: the destination of a packet in a tunnel device with external (per-packet) mode.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Errno;

/// Hops that the outer packet may take where nothing is said (`nft_tunnel_obj_init()`).
pub const TTL: u8 = u8::MAX;

/// Bytes that the options of a tunnel may have (`IP_TUNNEL_OPTS_MAX`).
const OPTIONS_MAX: usize = 255;

/// Bytes of a Geneve option without its data (`struct geneve_opt`).
const GENEVE_OPTION: usize = 4;

/// Configuration of a tunnel object (`NFTA_TUNNEL_KEY_*`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// Number of the tunnel.
    pub id: u32,
    /// Outer source; unspecified for the one that the route has.
    pub source: Option<IpAddr>,
    /// Outer destination, of the source's family. None is refused.
    pub destination: Option<IpAddr>,
    /// Outer source port, or 0.
    pub sport: u16,
    /// Outer destination port, or 0.
    pub dport: u16,
    /// Outer type of service.
    pub tos: u8,
    /// Hops of the outer packet.
    pub ttl: u8,
    /// What a kind of tunnel has besides.
    pub options: TunnelOptions,
}

/// What a kind of tunnel has in its header besides the number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TunnelOptions {
    /// Nothing.
    None,
    /// ERSPAN version 1.
    Erspan {
        /// Index of the mirrored port.
        index: u32,
    },
    /// ERSPAN version 2.
    Erspan2 {
        /// Mirrored on the way out rather than in.
        egress: bool,
        /// Number of the hardware, of 6 bits.
        hwid: u8,
    },
    /// VXLAN: group based policy.
    Vxlan {
        /// The group.
        gbp: u32,
    },
    /// Geneve: options in their order.
    Geneve(Vec<GeneveOption>),
}

/// An option of a Geneve header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneveOption {
    /// The class that defines the type.
    pub class: u16,
    /// Type of the class.
    pub kind: u8,
    /// Data, of whole words of 4 bytes.
    pub data: Vec<u8>,
}

impl Tunnel {
    /// Whether the kernel would take it. `Errno::Einval` where the destination is missing, or
    /// Geneve options have no whole words or too many.
    pub(crate) fn checked(&self) -> Result<(), Errno> {
        if self.destination.is_none() {
            return Err(Errno::Einval);
        }
        if let TunnelOptions::Geneve(options) = &self.options {
            let bytes: usize = options.iter().map(|o| GENEVE_OPTION + o.data.len()).sum();
            if bytes > OPTIONS_MAX || options.iter().any(|o| o.data.len() % 4 != 0) {
                return Err(Errno::Einval);
            }
        }
        Ok(())
    }
}
