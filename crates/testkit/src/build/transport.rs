// SPDX-License-Identifier: Apache-2.0

//! Transport protocols, ICMP and IGMP, ESP.

use super::{Address, Around, Layer};
use penstock_wire::tcp::{flag, option};
use penstock_wire::{dccp, esp, icmp, icmpv6, igmp, protocol, sctp, tcp, udp, udplite};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A TCP header.
#[derive(Clone, Debug)]
pub struct Tcp {
    repr: tcp::Repr,
    options: Vec<u8>,
    header_len: Option<usize>,
    checksum: Option<u16>,
}

impl Tcp {
    /// Without flags, sequence and acknowledgement numbers 0, window 65535.
    pub fn new(sport: u16, dport: u16) -> Self {
        let repr = tcp::Repr { sport, dport, window: 0xffff, ..tcp::Repr::default() };
        Self { repr, options: Vec::new(), header_len: None, checksum: None }
    }

    /// Sets the flags, see [`penstock_wire::tcp::flag`].
    pub fn flags(mut self, flags: u8) -> Self {
        self.repr.flags = flags;
        self
    }

    /// Adds SYN.
    pub fn syn(mut self) -> Self {
        self.repr.flags |= flag::SYN;
        self
    }

    /// Adds ACK and sets the acknowledgement number.
    pub fn ack(mut self, ack_seq: u32) -> Self {
        self.repr.flags |= flag::ACK;
        self.repr.ack_seq = ack_seq;
        self
    }

    /// Adds FIN.
    pub fn fin(mut self) -> Self {
        self.repr.flags |= flag::FIN;
        self
    }

    /// Adds RST.
    pub fn rst(mut self) -> Self {
        self.repr.flags |= flag::RST;
        self
    }

    /// Adds PSH.
    pub fn psh(mut self) -> Self {
        self.repr.flags |= flag::PSH;
        self
    }

    /// Sets the sequence number.
    pub fn seq(mut self, seq: u32) -> Self {
        self.repr.seq = seq;
        self
    }

    /// Sets the window.
    pub fn window(mut self, window: u16) -> Self {
        self.repr.window = window;
        self
    }

    /// Sets the urgent pointer.
    pub fn urgent(mut self, pointer: u16) -> Self {
        self.repr.urgent = pointer;
        self
    }

    /// Adds an option with kind, length and data.
    pub fn option(mut self, kind: u8, data: &[u8]) -> Self {
        self.options.extend([kind, (data.len() + 2) as u8]);
        self.options.extend(data);
        self
    }

    /// Adds option bytes as they are. All options are padded to a multiple of four with
    /// end-of-list.
    pub fn raw_options(mut self, bytes: &[u8]) -> Self {
        self.options.extend(bytes);
        self
    }

    /// Adds a no-operation.
    pub fn nop(self) -> Self {
        self.raw_options(&[option::NOP])
    }

    /// Adds a maximum segment size.
    pub fn mss(self, mss: u16) -> Self {
        self.option(option::MSS, &mss.to_be_bytes())
    }

    /// Adds a window scale.
    pub fn window_scale(self, shift: u8) -> Self {
        self.option(option::WINDOW, &[shift])
    }

    /// Adds "selective acknowledgement permitted".
    pub fn sack_permitted(self) -> Self {
        self.option(option::SACK_PERMITTED, &[])
    }

    /// Adds timestamps.
    pub fn timestamp(self, value: u32, echo: u32) -> Self {
        self.option(option::TIMESTAMP, &[value.to_be_bytes(), echo.to_be_bytes()].concat())
    }

    /// Sets the data offset, in bytes (a multiple of four up to 60).
    pub fn header_len(mut self, len: usize) -> Self {
        self.header_len = Some(len);
        self
    }

    /// Sets the checksum.
    pub fn checksum(mut self, checksum: u16) -> Self {
        self.checksum = Some(checksum);
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Tcp {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        let mut b = self.repr.bytes().to_vec();
        b.extend(&self.options);
        b.resize(b.len().next_multiple_of(4), option::END);
        b[12] = ((self.header_len.unwrap_or(b.len()) / 4) as u8) << 4;
        let len = b.len() + around.body.len();
        let right = || around.pseudo(protocol::TCP, len).bytes(&b).bytes(around.body).finish();
        let checksum = self.checksum.unwrap_or_else(right);
        b[16..18].copy_from_slice(&checksum.to_be_bytes());
        b
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::TCP)
    }
}

/// A UDP header.
#[derive(Clone, Debug)]
pub struct Udp {
    sport: u16,
    dport: u16,
    length: Option<u16>,
    checksum: Option<u16>,
}

impl Udp {
    /// With these ports.
    pub fn new(sport: u16, dport: u16) -> Self {
        Self { sport, dport, length: None, checksum: None }
    }

    /// Sets the length field.
    pub fn length(mut self, length: u16) -> Self {
        self.length = Some(length);
        self
    }

    /// Sets the checksum; 0 is none.
    pub fn checksum(mut self, checksum: u16) -> Self {
        self.checksum = Some(checksum);
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Udp {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        let len = udp::LEN + around.body.len();
        let repr = udp::Repr {
            sport: self.sport,
            dport: self.dport,
            length: self.length.unwrap_or(len as u16),
            checksum: 0,
        };
        let right = || {
            around.pseudo(protocol::UDP, len).bytes(&repr.bytes()).bytes(around.body).finish_udp()
        };
        let checksum = self.checksum.unwrap_or_else(right);
        udp::Repr { checksum, ..repr }.bytes().to_vec()
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::UDP)
    }
}

/// A UDP-Lite header.
#[derive(Clone, Debug)]
pub struct UdpLite(udplite::Repr);

impl UdpLite {
    /// With these ports, covering everything.
    pub fn new(sport: u16, dport: u16) -> Self {
        Self(udplite::Repr { sport, dport, coverage: 0 })
    }

    /// Sets the checksum coverage.
    pub fn coverage(mut self, bytes: u16) -> Self {
        self.0.coverage = bytes;
        self
    }
}

#[allow(private_interfaces)]
impl Layer for UdpLite {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        let pseudo = around.pseudo(protocol::UDPLITE, udplite::LEN + around.body.len());
        self.0.bytes(pseudo, around.body).to_vec()
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::UDPLITE)
    }
}

/// An ICMP header.
#[derive(Clone, Debug)]
pub struct Icmp {
    repr: icmp::Repr,
    checksum: Option<u16>,
}

impl Icmp {
    /// A message of this type and code, the rest of the header zero.
    pub fn new(kind: u8, code: u8) -> Self {
        Self { repr: icmp::Repr { kind, code, rest_of_header: 0 }, checksum: None }
    }

    /// An echo request.
    pub fn echo_request(id: u16, sequence: u16) -> Self {
        Self { repr: icmp::Repr::echo(icmp::ECHO_REQUEST, id, sequence), checksum: None }
    }

    /// An echo reply.
    pub fn echo_reply(id: u16, sequence: u16) -> Self {
        Self { repr: icmp::Repr::echo(icmp::ECHO_REPLY, id, sequence), checksum: None }
    }

    /// Sets the four bytes that depend on the type.
    pub fn rest_of_header(mut self, word: u32) -> Self {
        self.repr.rest_of_header = word;
        self
    }

    /// Sets the checksum.
    pub fn checksum(mut self, checksum: u16) -> Self {
        self.checksum = Some(checksum);
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Icmp {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        with_checksum(self.repr.bytes(around.body).to_vec(), self.checksum)
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::ICMP)
    }
}

/// Replaces the checksum at offset 2 by a given one.
fn with_checksum(mut bytes: Vec<u8>, checksum: Option<u16>) -> Vec<u8> {
    if let Some(c) = checksum {
        bytes[2..4].copy_from_slice(&c.to_be_bytes());
    }
    bytes
}

/// An ICMPv6 header.
#[derive(Clone, Debug)]
pub struct Icmpv6 {
    repr: icmpv6::Repr,
    target: Vec<u8>,
    checksum: Option<u16>,
}

impl Icmpv6 {
    /// A message of this type and code, the rest of the header zero.
    pub fn new(kind: u8, code: u8) -> Self {
        Self::of(icmpv6::Repr { kind, code, rest_of_header: 0 })
    }

    fn of(repr: icmpv6::Repr) -> Self {
        Self { repr, target: Vec::new(), checksum: None }
    }

    /// An echo request.
    pub fn echo_request(id: u16, sequence: u16) -> Self {
        Self::of(icmpv6::Repr::echo(icmpv6::ECHO_REQUEST, id, sequence))
    }

    /// An echo reply.
    pub fn echo_reply(id: u16, sequence: u16) -> Self {
        Self::of(icmpv6::Repr::echo(icmpv6::ECHO_REPLY, id, sequence))
    }

    /// Who has `target`? Without options; put them in a [`super::payload`].
    pub fn neighbour_solicitation(target: impl Address<Ipv6Addr>) -> Self {
        Self::new(icmpv6::NEIGHBOUR_SOLICITATION, 0).target(target)
    }

    /// `target` is here, solicited and overriding. Without options; put them in a
    /// [`super::payload`].
    pub fn neighbour_advertisement(target: impl Address<Ipv6Addr>) -> Self {
        Self::new(icmpv6::NEIGHBOUR_ADVERTISEMENT, 0).rest_of_header(0x6000_0000).target(target)
    }

    /// Adds the address after the header that neighbour discovery and listener messages carry.
    pub fn target(mut self, target: impl Address<Ipv6Addr>) -> Self {
        self.target = target.address().octets().to_vec();
        self
    }

    /// Sets the four bytes that depend on the type.
    pub fn rest_of_header(mut self, word: u32) -> Self {
        self.repr.rest_of_header = word;
        self
    }

    /// Sets the checksum.
    pub fn checksum(mut self, checksum: u16) -> Self {
        self.checksum = Some(checksum);
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Icmpv6 {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        let body = [&self.target, around.body].concat();
        let pseudo = around.pseudo(protocol::ICMPV6, icmpv6::LEN + body.len());
        let header = self.repr.bytes(pseudo, &body);
        with_checksum([&header[..], &self.target].concat(), self.checksum)
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::ICMPV6)
    }
}

/// An IGMP message.
#[derive(Clone, Debug)]
pub struct Igmp(igmp::Repr);

impl Igmp {
    /// A message of this type about `group`.
    pub fn new(kind: u8, group: impl Address<Ipv4Addr>) -> Self {
        Self(igmp::Repr { kind, max_response: 0, group: group.address() })
    }

    /// Sets the maximum response time code.
    pub fn max_response(mut self, code: u8) -> Self {
        self.0.max_response = code;
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Igmp {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        self.0.bytes(around.body).to_vec()
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::IGMP)
    }
}

/// An SCTP packet with its chunks.
#[derive(Clone, Debug)]
pub struct Sctp {
    repr: sctp::Repr,
    chunks: Vec<u8>,
    checksum: Option<u32>,
}

impl Sctp {
    /// With these ports, verification tag 1, no chunks.
    pub fn new(sport: u16, dport: u16) -> Self {
        Self { repr: sctp::Repr { sport, dport, vtag: 1 }, chunks: Vec::new(), checksum: None }
    }

    /// Sets the verification tag.
    pub fn vtag(mut self, vtag: u32) -> Self {
        self.repr.vtag = vtag;
        self
    }

    /// Adds a chunk, padded to a multiple of four.
    pub fn chunk(mut self, kind: u8, flags: u8, data: &[u8]) -> Self {
        sctp::emit_chunk(kind, flags, data, &mut self.chunks);
        self
    }

    /// Sets the CRC as read by [`penstock_wire::sctp::Header::checksum`].
    pub fn checksum(mut self, crc: u32) -> Self {
        self.checksum = Some(crc);
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Sctp {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        let mut header = self.repr.bytes(&[&self.chunks, around.body].concat());
        if let Some(crc) = self.checksum {
            header[8..12].copy_from_slice(&crc.to_le_bytes());
        }
        [&header[..], &self.chunks].concat()
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::SCTP)
    }
}

/// A DCCP header with long sequence numbers.
#[derive(Clone, Debug)]
pub struct Dccp(dccp::Repr);

impl Dccp {
    /// A packet of type `kind`, see [`penstock_wire::dccp::packet`].
    pub fn new(sport: u16, dport: u16, kind: u8) -> Self {
        Self(dccp::Repr { sport, dport, kind, ..dccp::Repr::default() })
    }

    /// Adds option bytes as they are.
    pub fn options(mut self, bytes: &[u8]) -> Self {
        self.0.options.extend(bytes);
        self
    }
}

#[allow(private_interfaces)]
impl Layer for Dccp {
    fn emit(&self, around: &Around<'_>) -> Vec<u8> {
        self.0.bytes(|len| around.pseudo(protocol::DCCP, len as usize), around.body)
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::DCCP)
    }
}

/// An ESP header; what follows it stands for the encrypted part.
#[derive(Clone, Debug)]
pub struct Esp(esp::Repr);

impl Esp {
    /// With this security parameters index and sequence number.
    pub fn new(spi: u32, sequence: u32) -> Self {
        Self(esp::Repr { spi, sequence })
    }
}

#[allow(private_interfaces)]
impl Layer for Esp {
    fn emit(&self, _: &Around<'_>) -> Vec<u8> {
        self.0.bytes().to_vec()
    }

    fn protocol(&self) -> Option<u8> {
        Some(protocol::ESP)
    }
}
