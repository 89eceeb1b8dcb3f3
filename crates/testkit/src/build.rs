// SPDX-License-Identifier: Apache-2.0

//! Frames for tests and generators, composed in one line: layers joined by `/`, lengths, types and
//! checksums filled in unless a layer is given a value, right or wrong.
//!
//! ```
//! use penstock_testkit::build::*;
//!
//! let frame = (Ethernet::new("02:00:00:00:00:01", "02:00:00:00:00:02")
//!     / Vlan::new(5).priority(3)
//!     / Ipv6::new("2001:db8::1", "2001:db8::2")
//!     / HopByHop::new().option(5, &[0, 0])
//!     / Tcp::new(1000, 80).syn().mss(1460).window_scale(7)
//!     / payload(b"GET /"))
//! .build();
//! assert_eq!(frame.len(), 14 + 4 + 40 + 8 + 28 + 5);
//!
//! // Wrong on purpose: a checksum, a length, a cut.
//! let _ = (Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(1, 2).checksum(0xbad)).build();
//! let _ = (Ipv4::new("198.18.0.1", "198.18.0.2").total_len(999) / Udp::new(1, 2)).build();
//! let _ = (Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(1, 2)).truncate(25).build();
//! ```
//!
//! - A layer finds its "next protocol" field from the layer after it, and its pseudo header from
//!   the nearest IP layer in front of it. Where the layer after it has no such number ([`payload`],
//!   [`Vxlan`]), the field gets one for experiments: [`UNKNOWN_ETHERTYPE`], [`UNKNOWN_PROTOCOL`].
//! - The destination comes second everywhere: `Ethernet::new(src, dst)`.
//! - Addresses are `&str`, which panics when malformed: these are written by hand in tests; or the
//!   address types.

mod internet;
mod link;
mod transport;

pub use internet::{Ah, DestOptions, Extension, Fragment, HopByHop, Ipv4, Ipv6, Mobility, Routing};
pub use link::{Arp, Ethernet, Geneve, Gre, Vlan, Vxlan};
pub use transport::{Dccp, Esp, Icmp, Icmpv6, Igmp, Sctp, Tcp, Udp, UdpLite};

use penstock_wire::checksum::{self, Sum};
use penstock_wire::ethernet::Mac;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Div;
use std::sync::Arc;

/// Ethertype given when nothing is known about what follows: local experimental ethertype 1 of IEEE
/// 802.
pub const UNKNOWN_ETHERTYPE: u16 = 0x88b5;
/// Protocol number given when nothing is known about what follows: experimentation, RFC 3692.
pub const UNKNOWN_PROTOCOL: u8 = 253;

/// Addresses as a test writes them.
pub trait Address<A> {
    /// The address.
    fn address(self) -> A;
}

macro_rules! address {
    ($($t:ty),*) => {$(
        impl Address<$t> for $t {
            fn address(self) -> $t {
                self
            }
        }
        impl Address<$t> for &str {
            fn address(self) -> $t {
                self.parse().unwrap_or_else(|e| panic!("{self}: {e}"))
            }
        }
    )*};
}
address!(Mac, Ipv4Addr, Ipv6Addr);

/// What a layer must know about the layers around it.
pub(crate) struct Around<'a> {
    /// The layers in front, outermost first.
    before: &'a [Arc<dyn Layer>],
    /// The layer after it.
    pub(crate) next: Option<&'a dyn Layer>,
    /// Everything after it, as bytes.
    pub(crate) body: &'a [u8],
}

impl Around<'_> {
    /// Ethertype of what follows.
    pub(crate) fn ethertype(&self) -> u16 {
        self.next.and_then(|n| n.ethertype()).unwrap_or(UNKNOWN_ETHERTYPE)
    }

    /// IP protocol number of what follows.
    pub(crate) fn protocol(&self) -> u8 {
        self.next.and_then(|n| n.protocol()).unwrap_or(UNKNOWN_PROTOCOL)
    }

    /// Sum over the pseudo header of the nearest IP layer; zero if there is none.
    pub(crate) fn pseudo(&self, protocol: u8, len: usize) -> Sum {
        match self.before.iter().rev().find_map(|l| l.addresses()) {
            Some(Addresses::V4(src, dst)) => checksum::pseudo_v4(src, dst, protocol, len as u32),
            Some(Addresses::V6(src, dst)) => checksum::pseudo_v6(src, dst, protocol, len as u32),
            None => Sum::new(),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Addresses {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

/// One header in the making. Only the layers of this module are layers.
#[allow(private_interfaces)]
pub trait Layer: Send + Sync + 'static {
    /// The header's bytes.
    #[doc(hidden)]
    fn emit(&self, around: &Around<'_>) -> Vec<u8>;
    /// Ethertype by which a link layer announces it.
    #[doc(hidden)]
    fn ethertype(&self) -> Option<u16> {
        None
    }
    /// IP protocol number by which an IP layer announces it.
    #[doc(hidden)]
    fn protocol(&self) -> Option<u8> {
        None
    }
    /// Addresses for pseudo headers.
    #[doc(hidden)]
    fn addresses(&self) -> Option<Addresses> {
        None
    }
}

/// Layers joined by `/`.
#[derive(Clone)]
pub struct Frame {
    layers: Vec<Arc<dyn Layer>>,
    pad: usize,
    truncate: usize,
}

impl Frame {
    fn of(layer: impl Layer) -> Self {
        Self { layers: vec![Arc::new(layer)], pad: 0, truncate: usize::MAX }
    }

    /// Pads with zeros to at least `len` bytes, as short Ethernet frames are (60 bytes without
    /// check sequence).
    pub fn pad_to(mut self, len: usize) -> Self {
        self.pad = len;
        self
    }

    /// Cuts the bytes to `len`, after everything was filled in.
    pub fn truncate(mut self, len: usize) -> Self {
        self.truncate = len;
        self
    }

    /// The bytes.
    pub fn build(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (n, layer) in self.layers.iter().enumerate().rev() {
            let around = Around {
                before: &self.layers[..n],
                next: self.layers.get(n + 1).map(|l| &**l),
                body: &body,
            };
            let mut bytes = layer.emit(&around);
            bytes.append(&mut body);
            body = bytes;
        }
        if body.len() < self.pad {
            body.resize(self.pad, 0);
        }
        body.truncate(self.truncate);
        body
    }
}

impl From<Frame> for Vec<u8> {
    fn from(frame: Frame) -> Self {
        frame.build()
    }
}

impl<L: Into<Frame>> Div<L> for Frame {
    type Output = Frame;

    fn div(mut self, inner: L) -> Frame {
        let inner = inner.into();
        self.layers.extend(inner.layers);
        self.pad = self.pad.max(inner.pad);
        self.truncate = self.truncate.min(inner.truncate);
        self
    }
}

/// Lets a layer stand alone and in front of `/`.
macro_rules! layers {
    ($($t:ty),* $(,)?) => {$(
        impl From<$t> for Frame {
            fn from(layer: $t) -> Frame {
                Frame::of(layer)
            }
        }
        impl<L: Into<Frame>> Div<L> for $t {
            type Output = Frame;
            fn div(self, inner: L) -> Frame {
                Frame::of(self) / inner
            }
        }
        impl $t {
            /// The bytes of this layer with nothing after it.
            pub fn build(self) -> Vec<u8> {
                Frame::of(self).build()
            }
        }
    )*};
}
layers!(
    Ethernet,
    Vlan,
    Arp,
    Gre,
    Vxlan,
    Geneve,
    Ipv4,
    Ipv6,
    HopByHop,
    DestOptions,
    Routing,
    Fragment,
    Ah,
    Mobility,
    Extension,
    Tcp,
    Udp,
    UdpLite,
    Icmp,
    Icmpv6,
    Igmp,
    Sctp,
    Dccp,
    Esp,
    Payload
);

/// Bytes that are no header.
#[derive(Clone, Debug)]
pub struct Payload(Vec<u8>);

/// Bytes that are no header: data, or a whole packet quoted by an ICMP error.
pub fn payload(bytes: impl AsRef<[u8]>) -> Payload {
    Payload(bytes.as_ref().to_vec())
}

#[allow(private_interfaces)]
impl Layer for Payload {
    fn emit(&self, _: &Around<'_>) -> Vec<u8> {
        self.0.clone()
    }
}

/// Cuts the IP packet in an Ethernet frame into fragments for `mtu`, each with the link header in
/// front. The frame may have VLAN tags. IPv6 fragments get identification `id`, IPv4 ones keep that
/// of the packet. Empty if it is not an IP packet or cannot be cut.
pub fn fragments(frame: &[u8], mtu: usize, id: u32) -> Vec<Vec<u8>> {
    use penstock_wire::{ethernet, ipv4, ipv6_ext, vlan};
    let mut out = Vec::new();
    let Some(link) = ethernet::Header::new(frame) else { return out };
    let (mut ethertype, mut rest) = (link.ethertype(), link.payload());
    while vlan::is_tag(ethertype) {
        let Some(tag) = vlan::Header::new(rest) else { return out };
        (ethertype, rest) = (tag.ethertype(), tag.payload());
    }
    let head = &frame[..frame.len() - rest.len()];
    let mut scratch = Vec::new();
    let emit = |f: &[u8]| out.push([head, f].concat());
    match ethertype {
        ethernet::IPV4 => ipv4::fragment(rest, mtu, false, &mut scratch, emit),
        ethernet::IPV6 => ipv6_ext::fragment(rest, mtu, id, &mut scratch, emit),
        _ => false,
    };
    out
}

#[cfg(test)]
mod tests;
