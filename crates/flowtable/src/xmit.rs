// SPDX-License-Identifier: Apache-2.0

//! How packets of a direction leave: what of `struct flow_offload_tuple` follows the key.

use std::net::IpAddr;

use crate::arrival::Encaps;
use crate::tunnel::Outer;

/// How a packet is given on (`enum flow_offload_xmit_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum XmitType {
    /// To the route's next hop, through the route's device and those below it.
    Neigh,
    /// Through the IPsec transformation of the route, by its number; link addresses are not used.
    Xfrm(u32),
    /// As a frame with stored link addresses, on a device.
    Direct,
}

/// How packets of a direction leave. Many flows share one, so a flow has its number only
/// ([`XmitId`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Xmit {
    /// How.
    pub xmit_type: XmitType,
    /// By which device: that of the route, or for [`XmitType::Direct`] that on which the frame is
    /// put.
    pub device: u32,
    /// The route's device, on which the next hop has its link address: [`Xmit::device`], or one
    /// that stands on that.
    pub route: u32,
    /// Next hop with link address [`Xmit::destination`]; `None` if that does not follow from
    /// routing.
    pub next_hop: Option<IpAddr>,
    /// Destination link address.
    pub destination: [u8; 6],
    /// Source link address.
    pub source: [u8; 6],
    /// Largest packet in bytes, outer headers not counted, as it was when the flow was added.
    pub mtu: u32,
    /// Tags and session that are put around the packet before it is put on the device, outermost
    /// first.
    pub encaps: Encaps,
    /// Tunnel that is put around the packet, inside of [`Xmit::encaps`].
    pub tunnel: Option<Outer>,
}

impl Xmit {
    /// To a neighbour.
    pub fn neighbour(device: u32, destination: [u8; 6], source: [u8; 6], mtu: u32) -> Self {
        Xmit {
            xmit_type: XmitType::Neigh,
            device,
            route: device,
            next_hop: None,
            destination,
            source,
            mtu,
            encaps: Encaps::NONE,
            tunnel: None,
        }
    }
}

/// Number of a [`Xmit`] in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct XmitId(pub u32);
