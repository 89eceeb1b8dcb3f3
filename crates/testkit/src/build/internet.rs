// SPDX-License-Identifier: Apache-2.0

//! IPv4, IPv6 and extension headers.

use super::link::ip_numbers;
use super::{Address, Addresses, Around, Layer};
use penstock_wire::{ah, ipv4, ipv6, ipv6_ext, protocol};
use std::net::{Ipv4Addr, Ipv6Addr};

/// An IPv4 header.
#[derive(Clone, Debug)]
pub struct Ipv4 {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    tos: u8,
    id: u16,
    frag: u16,
    ttl: u8,
    version: u8,
    options: Vec<u8>,
    protocol: Option<u8>,
    header_len: Option<usize>,
    total_len: Option<u16>,
    checksum: Option<u16>,
}

impl Ipv4 {
    /// From `src` to `dst`, TTL 64, identification 0, no flags.
    pub fn new(src: impl Address<Ipv4Addr>, dst: impl Address<Ipv4Addr>) -> Self {
        Self {
            src: src.address(),
            dst: dst.address(),
            tos: 0,
            id: 0,
            frag: 0,
            ttl: 64,
            version: 4,
            options: Vec::new(),
            protocol: None,
            header_len: None,
            total_len: None,
            checksum: None,
        }
    }

    /// Sets the time to live.
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the type of service byte.
    pub fn tos(mut self, tos: u8) -> Self {
        self.tos = tos;
        self
    }

    /// Sets the identification.
    pub fn id(mut self, id: u16) -> Self {
        self.id = id;
        self
    }

    /// Forbids fragmentation.
    pub fn df(mut self) -> Self {
        self.frag |= ipv4::DF;
        self
    }

    /// Makes it a fragment at `offset`, in units of eight bytes.
    pub fn fragment(mut self, offset: u16, more: bool) -> Self {
        self.frag |= offset & ipv4::OFFSET_MASK | if more { ipv4::MF } else { 0 };
        self
    }

    /// Sets flags and fragment offset as they stand in the header.
    pub fn frag(mut self, frag: u16) -> Self {
        self.frag = frag;
        self
    }

    /// Appends option bytes; they are padded to a multiple of four with end-of-list.
    pub fn options(mut self, bytes: &[u8]) -> Self {
        self.options.extend(bytes);
        self
    }

    /// Sets the protocol number.
    pub fn protocol(mut self, protocol: u8) -> Self {
        self.protocol = Some(protocol);
        self
    }

    /// Sets the version.
    pub fn version(mut self, version: u8) -> Self {
        self.version = version;
        self
    }

    /// Sets the header length field, in bytes (a multiple of four up to 60).
    pub fn header_len(mut self, len: usize) -> Self {
        self.header_len = Some(len);
        self
    }

    /// Sets the total length.
    pub fn total_len(mut self, len: u16) -> Self {
        self.total_len = Some(len);
        self
    }

    /// Sets the checksum.
    pub fn checksum(mut self, checksum: u16) -> Self {
        self.checksum = Some(checksum);
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Ipv4 {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), ipv4_end());
        let repr = ipv4::Repr {
            src: self.src,
            dst: self.dst,
            protocol: self.protocol.unwrap_or_else(|| around.protocol()),
            tos: self.tos,
            ttl: self.ttl,
            id: self.id,
            frag: self.frag,
            payload_len: (options.len() + around.body.len()) as u16,
        };
        let mut b = repr.bytes().to_vec();
        b.extend(options);
        let header_len = self.header_len.unwrap_or(b.len());
        b[0] = self.version << 4 | (header_len / 4) as u8 & 0x0f;
        if let Some(len) = self.total_len {
            b[2..4].copy_from_slice(&len.to_be_bytes());
        }
        // Over what the header claims, as a receiver sums it; a claim past the header takes in the
        // payload.
        let mut claimed = b.clone();
        claimed[10..12].fill(0);
        claimed.extend(around.body);
        claimed.truncate(header_len);
        let checksum = self.checksum.unwrap_or_else(|| penstock_wire::checksum::of(&claimed));
        b[10..12].copy_from_slice(&checksum.to_be_bytes());
        b
    }

    fn ethertype(&self) -> Option<u16> {
        self.addresses().map(|a| ip_numbers(a).0)
    }

    fn protocol(&self) -> Option<u8> {
        self.addresses().map(|a| ip_numbers(a).1)
    }

    fn addresses(&self) -> Option<Addresses> {
        Some(Addresses::V4(self.src, self.dst))
    }
}

const fn ipv4_end() -> u8 {
    penstock_wire::ipv4_options::END
}

/// An IPv6 header.
#[derive(Clone, Debug)]
pub struct Ipv6 {
    repr: ipv6::Repr,
    version: u8,
    next_header: Option<u8>,
    payload_len: Option<u16>,
}

impl Ipv6 {
    /// From `src` to `dst`, hop limit 64.
    pub fn new(src: impl Address<Ipv6Addr>, dst: impl Address<Ipv6Addr>) -> Self {
        let repr = ipv6::Repr {
            src: src.address(),
            dst: dst.address(),
            next_header: 0,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            payload_len: 0,
        };
        Self { repr, version: 6, next_header: None, payload_len: None }
    }

    /// Sets the hop limit.
    pub fn hop_limit(mut self, limit: u8) -> Self {
        self.repr.hop_limit = limit;
        self
    }

    /// Sets the traffic class.
    pub fn traffic_class(mut self, class: u8) -> Self {
        self.repr.traffic_class = class;
        self
    }

    /// Sets the flow label.
    pub fn flow_label(mut self, label: u32) -> Self {
        self.repr.flow_label = label;
        self
    }

    /// Sets the version.
    pub fn version(mut self, version: u8) -> Self {
        self.version = version;
        self
    }

    /// Sets the type of the following header.
    pub fn next_header(mut self, protocol: u8) -> Self {
        self.next_header = Some(protocol);
        self
    }

    /// Sets the payload length.
    pub fn payload_len(mut self, len: u16) -> Self {
        self.payload_len = Some(len);
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Ipv6 {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        let next = match around.next {
            None => protocol::NO_NEXT,
            Some(_) => around.protocol(),
        };
        let repr = ipv6::Repr {
            next_header: self.next_header.unwrap_or(next),
            payload_len: self.payload_len.unwrap_or(around.body.len() as u16),
            ..self.repr
        };
        let mut b = repr.bytes().to_vec();
        b[0] = self.version << 4 | b[0] & 0x0f;
        b
    }

    fn ethertype(&self) -> Option<u16> {
        self.addresses().map(|a| ip_numbers(a).0)
    }

    fn protocol(&self) -> Option<u8> {
        self.addresses().map(|a| ip_numbers(a).1)
    }

    fn addresses(&self) -> Option<Addresses> {
        Some(Addresses::V6(self.repr.src, self.repr.dst))
    }
}

/// Type of the header after an extension header: nothing follows if there is none.
fn next_of(around: &Around<'_>) -> u8 {
    if around.next.is_none() { protocol::NO_NEXT } else { around.protocol() }
}

macro_rules! options_layer {
    ($(#[$doc:meta])* $name:ident, $protocol:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            options: Vec<u8>,
        }

        impl $name {
            /// Only padding.
            pub fn new() -> Self {
                Self::default()
            }

            /// Adds an option.
            pub fn option(mut self, kind: u8, data: &[u8]) -> Self {
                self.options.extend([kind, data.len() as u8]);
                self.options.extend(data);
                self
            }

            /// Adds option bytes as they are.
            pub fn raw(mut self, bytes: &[u8]) -> Self {
                self.options.extend(bytes);
                self
            }
        }

        #[allow(private_interfaces)]
        impl Layer for $name {
            fn emit(&self, around: &Around<'_>) -> Vec<u8> {
                ipv6_ext::options_header(next_of(around), &self.options)
            }

            fn protocol(&self) -> Option<u8> {
                Some($protocol)
            }
        }
    };
}
options_layer!(
    /// An IPv6 hop-by-hop options header, padded to a multiple of eight bytes.
    HopByHop,
    protocol::HOP_BY_HOP
);
options_layer!(
    /// An IPv6 destination options header, padded to a multiple of eight bytes.
    DestOptions,
    protocol::DEST_OPTIONS
);

/// An IPv6 routing header.
#[derive(Clone, Debug)]
pub struct Routing {
    kind: u8,
    segments_left: u8,
    addresses: Vec<Ipv6Addr>,
}

impl Routing {
    /// A routing header of type `kind`, without addresses.
    pub fn new(kind: u8, segments_left: u8) -> Self {
        Self { kind, segments_left, addresses: Vec::new() }
    }

    /// Adds an address.
    pub fn via(mut self, addr: impl Address<Ipv6Addr>) -> Self {
        self.addresses.push(addr.address());
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Routing {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        ipv6_ext::routing_header(next_of(around), self.kind, self.segments_left, &self.addresses)
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::ROUTING)
    }
}

/// An IPv6 fragment header.
#[derive(Clone, Debug)]
pub struct Fragment {
    repr: ipv6_ext::FragmentRepr,
    next_header: Option<u8>,
}

impl Fragment {
    /// At `offset`, in units of eight bytes.
    pub fn new(offset: u16, more: bool, id: u32) -> Self {
        let repr = ipv6_ext::FragmentRepr { next_header: 0, fragment_offset: offset, more, id };
        Self { repr, next_header: None }
    }

    /// Sets the type of the following header; a later fragment carries data but names the protocol.
    pub fn next_header(mut self, protocol: u8) -> Self {
        self.next_header = Some(protocol);
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Fragment {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        let next_header = self.next_header.unwrap_or_else(|| next_of(around));
        ipv6_ext::FragmentRepr { next_header, ..self.repr }.bytes().to_vec()
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::FRAGMENT)
    }
}

/// An authentication header, in IPv4 or IPv6, with twelve zero bytes of integrity value.
#[derive(Clone, Debug)]
pub struct Ah(ah::Repr);

impl Ah {
    /// With this security parameters index and sequence number.
    pub fn new(spi: u32, sequence: u32) -> Self {
        Self(ah::Repr { next_header: 0, spi, sequence, icv: vec![0; 12] })
    }

    /// Sets the integrity value, a multiple of four bytes.
    pub fn icv(mut self, icv: &[u8]) -> Self {
        self.0.icv = icv.to_vec();
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Ah {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        ah::Repr { next_header: next_of(around), ..self.0.clone() }.bytes()
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::AH)
    }
}

/// An IPv6 mobility header.
#[derive(Clone, Debug)]
pub struct Mobility {
    kind: u8,
    checksum: u16,
    data: Vec<u8>,
}

impl Mobility {
    /// A message of type `kind`, checksum 0.
    pub fn new(kind: u8) -> Self {
        Self { kind, checksum: 0, data: Vec::new() }
    }

    /// Sets the checksum.
    pub fn checksum(mut self, checksum: u16) -> Self {
        self.checksum = checksum;
        self
    }

    /// Sets the message data.
    pub fn data(mut self, data: &[u8]) -> Self {
        self.data = data.to_vec();
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Mobility {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        ipv6_ext::mobility_header(next_of(around), self.kind, self.checksum, &self.data)
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::MOBILITY)
    }
}

/// An IPv6 extension header with its length byte and contents taken as they are, also impossible
/// ones.
#[derive(Clone, Debug)]
pub struct Extension {
    protocol: u8,
    units: u8,
    contents: Vec<u8>,
}

impl Extension {
    /// Header of type `protocol` with length byte `units` and `contents` after the first two
    /// bytes.
    pub fn raw(protocol: u8, units: u8, contents: &[u8]) -> Self {
        Self { protocol, units, contents: contents.to_vec() }
    }
}

#[allow(private_interfaces)]
impl Layer for Extension {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        [&[next_of(around), self.units][..], &self.contents].concat()
    }

    fn protocol(&self) -> Option<u8> {
        Some(self.protocol)
    }
}
