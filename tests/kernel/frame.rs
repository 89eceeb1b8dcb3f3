// SPDX-License-Identifier: Apache-2.0

//! Frames by layers: `lan().ip4("198.18.0.10", "198.19.0.2").ttl(3).udp(1000, 53).data(b"hello")`.
//!
//! Written without the program's own header code, so that a mistake there cannot hide in both.
//! Lengths, protocol numbers and checksums are filled in at the end; what is patched stays as
//! patched.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A MAC address.
pub type Mac = [u8; 6];

#[derive(Clone, Copy, PartialEq)]
enum Layer {
    Ethernet,
    Vlan,
    Arp,
    Ip4,
    Ip6,
    /// IPv6 extension header of this protocol number.
    Extension(u8),
    Tcp,
    Udp,
    UdpLite,
    Dccp,
    Icmp,
    Icmp6,
    /// A transport of this protocol number without a checksum to fill.
    Other(u8),
    Data,
}

/// A frame in the making.
#[derive(Clone)]
pub struct Frame {
    bytes: Vec<u8>,
    layers: Vec<(Layer, usize)>,
    /// Layers with a protocol field set by hand.
    keep_protocol: Vec<usize>,
    /// Layers with a length field set by hand.
    keep_length: Vec<usize>,
    patches: Vec<(usize, Vec<u8>)>,
    cut: Option<usize>,
}

/// An Ethernet frame.
pub fn ethernet(destination: Mac, source: Mac) -> Frame {
    let mut frame = bare();
    frame.push(Layer::Ethernet, &[&destination[..], &source, &[0, 0]].concat());
    frame
}

/// A packet without a link header, as the host sends them.
pub fn bare() -> Frame {
    Frame {
        bytes: vec![],
        layers: vec![],
        keep_protocol: vec![],
        keep_length: vec![],
        patches: vec![],
        cut: None,
    }
}

fn v4(s: &str) -> [u8; 4] {
    s.parse::<Ipv4Addr>().unwrap_or_else(|_| panic!("{s} is no IPv4 address")).octets()
}

fn v6(s: &str) -> [u8; 16] {
    s.parse::<Ipv6Addr>().unwrap_or_else(|_| panic!("{s} is no IPv6 address")).octets()
}

impl Frame {
    fn push(&mut self, layer: Layer, header: &[u8]) {
        self.layers.push((layer, self.bytes.len()));
        self.bytes.extend(header);
    }

    fn with(mut self, layer: Layer, header: &[u8]) -> Frame {
        self.push(layer, header);
        self
    }

    fn last(&self) -> usize {
        self.layers.last().expect("a layer").1
    }

    /// Sets bytes of the last layer's header, before checksums are computed.
    pub fn set(mut self, offset: usize, bytes: &[u8]) -> Frame {
        let at = self.last() + offset;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// Sets bytes of the last layer after everything else: what breaks checksums and lengths.
    pub fn patch(mut self, offset: usize, bytes: &[u8]) -> Frame {
        self.patches.push((self.last() + offset, bytes.to_vec()));
        self
    }

    /// Cuts the whole frame after this many bytes; lengths in headers stay.
    pub fn cut(mut self, len: usize) -> Frame {
        self.cut = Some(len);
        self
    }

    /// 802.1Q tag.
    pub fn vlan(self, tci: u16) -> Frame {
        self.tag(0x8100, tci)
    }

    /// A tag of any protocol (0x8100, 0x88a8).
    pub fn tag(mut self, protocol: u16, tci: u16) -> Frame {
        let at = self.bytes.len() - 2;
        self.bytes[at..].copy_from_slice(&protocol.to_be_bytes());
        let i = self.layers.len() - 1;
        self.keep_protocol.push(i);
        self.with(Layer::Vlan, &[&tci.to_be_bytes()[..], &[0, 0]].concat())
    }

    /// Any ethertype; the payload follows with [`Frame::data`].
    pub fn ethertype(mut self, value: u16) -> Frame {
        let at = self.bytes.len() - 2;
        self.bytes[at..].copy_from_slice(&value.to_be_bytes());
        let i = self.layers.len() - 1;
        self.keep_protocol.push(i);
        self
    }

    /// ARP for IPv4 over Ethernet.
    pub fn arp(self, operation: u16, sha: Mac, spa: &str, tha: Mac, tpa: &str) -> Frame {
        let header =
            [&[0, 1, 8, 0, 6, 4][..], &operation.to_be_bytes(), &sha, &v4(spa), &tha, &v4(tpa)]
                .concat();
        self.with(Layer::Arp, &header)
    }

    /// IPv4, TTL 64, DF unset, id 1.
    pub fn ip4(self, source: &str, destination: &str) -> Frame {
        self.ip4_bytes(v4(source), v4(destination))
    }

    /// [`Frame::ip4`] with addresses as bytes.
    pub fn ip4_bytes(self, source: [u8; 4], destination: [u8; 4]) -> Frame {
        let header =
            [&[0x45, 0, 0, 0, 0, 1, 0, 0, 64, 0, 0, 0][..], &source, &destination].concat();
        self.with(Layer::Ip4, &header)
    }

    /// IPv6, hop limit 64.
    pub fn ip6(self, source: &str, destination: &str) -> Frame {
        self.ip6_bytes(v6(source), v6(destination))
    }

    /// [`Frame::ip6`] with addresses as bytes.
    pub fn ip6_bytes(self, source: [u8; 16], destination: [u8; 16]) -> Frame {
        let header = [&[0x60, 0, 0, 0, 0, 0, 0, 64][..], &source, &destination].concat();
        self.with(Layer::Ip6, &header)
    }

    /// TTL or hop limit.
    pub fn ttl(self, ttl: u8) -> Frame {
        let offset = if self.layers.last().expect("IP").0 == Layer::Ip4 { 8 } else { 7 };
        self.set(offset, &[ttl])
    }

    /// IPv4 identification.
    pub fn id(self, id: u16) -> Frame {
        self.set(4, &id.to_be_bytes())
    }

    /// IPv4 TOS.
    pub fn tos(self, tos: u8) -> Frame {
        self.set(1, &[tos])
    }

    /// IPv4: do not fragment.
    pub fn df(self) -> Frame {
        self.set(6, &[0x40, 0])
    }

    /// IPv4 fragment: offset in units of 8 bytes, and whether more follow.
    pub fn fragment(self, offset: u16, more: bool) -> Frame {
        self.set(6, &(offset | if more { 0x2000 } else { 0 }).to_be_bytes())
    }

    /// IPv4 options, padded to four bytes.
    pub fn ip_options(mut self, options: &[u8]) -> Frame {
        let at = self.last();
        let len = options.len().next_multiple_of(4);
        self.bytes.extend(options);
        self.bytes.resize(at + 20 + len, 0);
        self.bytes[at] = 0x40 | (5 + len / 4) as u8;
        self
    }

    /// Protocol or next header of the last layer, whatever follows.
    pub fn protocol(mut self, protocol: u8) -> Frame {
        let (layer, at) = *self.layers.last().expect("IP");
        let offset = match layer {
            Layer::Ip4 => 9,
            Layer::Ip6 => 6,
            _ => 0,
        };
        self.bytes[at + offset] = protocol;
        let i = self.layers.len() - 1;
        self.keep_protocol.push(i);
        self
    }

    /// Total length (IPv4), payload length (IPv6), or length (UDP), whatever follows.
    pub fn length(mut self, length: u16) -> Frame {
        let (layer, at) = *self.layers.last().expect("a layer");
        let offset = match layer {
            Layer::Ip4 => 2,
            _ => 4,
        };
        self.bytes[at + offset..at + offset + 2].copy_from_slice(&length.to_be_bytes());
        let i = self.layers.len() - 1;
        self.keep_length.push(i);
        self
    }

    /// IPv6 extension header in the common format (hop-by-hop 0, routing 43, destination 60,
    /// mobility 135); the body is padded to a multiple of eight bytes with PadN.
    pub fn extension(self, protocol: u8, body: &[u8]) -> Frame {
        let mut header = vec![0, 0];
        header.extend(body);
        let missing = header.len().next_multiple_of(8) - header.len();
        match missing {
            0 => {}
            1 => header.push(0),
            n => {
                header.extend([1, n as u8 - 2]);
                header.resize(header.len() + n - 2, 0);
            }
        }
        header[1] = (header.len() / 8 - 1) as u8;
        self.with(Layer::Extension(protocol), &header)
    }

    /// IPv6 fragment header: offset in units of 8 bytes.
    pub fn fragment6(self, offset: u16, more: bool, id: u32) -> Frame {
        let field = (offset << 3) | u16::from(more);
        self.with(
            Layer::Extension(44),
            &[&[0, 0][..], &field.to_be_bytes(), &id.to_be_bytes()].concat(),
        )
    }

    /// Authentication header with a 12-byte ICV.
    pub fn ah(self, spi: u32, sequence: u32) -> Frame {
        let header =
            [&[0, 4, 0, 0][..], &spi.to_be_bytes(), &sequence.to_be_bytes(), &[0xaa; 12]].concat();
        self.with(Layer::Extension(51), &header)
    }

    /// TCP with flags SYN.
    pub fn tcp(self, sport: u16, dport: u16) -> Frame {
        let header = [
            &sport.to_be_bytes()[..],
            &dport.to_be_bytes(),
            &[0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 0x20, 0, 0, 0, 0, 0],
        ]
        .concat();
        self.with(Layer::Tcp, &header)
    }

    /// TCP flags.
    pub fn flags(self, flags: u8) -> Frame {
        self.set(13, &[flags])
    }

    /// TCP options, padded to four bytes.
    pub fn tcp_options(mut self, options: &[u8]) -> Frame {
        let at = self.last();
        let len = options.len().next_multiple_of(4);
        self.bytes.extend(options);
        self.bytes.resize(at + 20 + len, 0);
        self.bytes[at + 12] = ((5 + len / 4) as u8) << 4;
        self
    }

    /// UDP.
    pub fn udp(self, sport: u16, dport: u16) -> Frame {
        self.with(Layer::Udp, &[&sport.to_be_bytes()[..], &dport.to_be_bytes(), &[0; 4]].concat())
    }

    /// UDP-Lite, checksum over everything.
    pub fn udplite(self, sport: u16, dport: u16) -> Frame {
        self.with(
            Layer::UdpLite,
            &[&sport.to_be_bytes()[..], &dport.to_be_bytes(), &[0; 4]].concat(),
        )
    }

    /// DCCP with a sequence number of 48 bits, and what follows it in the header; the checksum is
    /// over everything.
    pub fn dccp(self, ports: (u16, u16), kind: u8, sequence: u64, rest: &[u8]) -> Frame {
        let header = [
            &ports.0.to_be_bytes()[..],
            &ports.1.to_be_bytes(),
            &[4 + (rest.len() / 4) as u8, 0, 0, 0, kind << 1 | 1, 0],
            &sequence.to_be_bytes()[2..],
            rest,
        ]
        .concat();
        self.with(Layer::Dccp, &header)
    }

    /// ICMP with the four bytes after the checksum.
    pub fn icmp(self, kind: u8, code: u8, rest: u32) -> Frame {
        self.with(Layer::Icmp, &[&[kind, code, 0, 0][..], &rest.to_be_bytes()].concat())
    }

    /// ICMPv6 with the four bytes after the checksum.
    pub fn icmp6(self, kind: u8, code: u8, rest: u32) -> Frame {
        self.with(Layer::Icmp6, &[&[kind, code, 0, 0][..], &rest.to_be_bytes()].concat())
    }

    /// Any other transport header (SCTP 132, DCCP 33, ESP 50, GRE 47, IGMP 2).
    pub fn transport(self, protocol: u8, header: &[u8]) -> Frame {
        self.with(Layer::Other(protocol), header)
    }

    /// Payload.
    pub fn data(self, bytes: &[u8]) -> Frame {
        self.with(Layer::Data, bytes)
    }

    /// Payload of this many bytes.
    pub fn zeros(self, len: usize) -> Frame {
        self.with(Layer::Data, &vec![0; len])
    }

    /// The frame, with protocols, lengths and checksums filled in.
    pub fn bytes(&self) -> Vec<u8> {
        let mut b = self.bytes.clone();
        let end = b.len();
        for (i, &(layer, at)) in self.layers.iter().enumerate() {
            let next = self.layers.get(i + 1).map(|l| l.0);
            if !self.keep_protocol.contains(&i) {
                match layer {
                    Layer::Ethernet => put16(&mut b, at + 12, next.map_or(0x0800, ethertype)),
                    Layer::Vlan => put16(&mut b, at + 2, next.map_or(0x0800, ethertype)),
                    Layer::Ip4 => b[at + 9] = next.map_or(253, protocol),
                    Layer::Ip6 => b[at + 6] = next.map_or(59, protocol),
                    Layer::Extension(_) => b[at] = next.map_or(59, protocol),
                    _ => {}
                }
            }
            if !self.keep_length.contains(&i) {
                match layer {
                    Layer::Ip4 => put16(&mut b, at + 2, (end - at) as u16),
                    Layer::Ip6 => put16(&mut b, at + 4, (end - at - 40) as u16),
                    Layer::Udp | Layer::UdpLite => put16(&mut b, at + 4, (end - at) as u16),
                    _ => {}
                }
            }
        }
        for i in (0..self.layers.len()).rev() {
            let (layer, at) = self.layers[i];
            let place = match layer {
                Layer::Ip4 => {
                    let len = usize::from(b[at] & 15) * 4;
                    let sum = checksum(0, &b[at..(at + len).min(end)]);
                    put16(&mut b, at + 10, sum);
                    continue;
                }
                Layer::Icmp => {
                    let sum = checksum(0, &b[at..]);
                    put16(&mut b, at + 2, sum);
                    continue;
                }
                Layer::Tcp => (16, 6),
                Layer::Udp => (6, 17),
                Layer::UdpLite => (6, 136),
                Layer::Dccp => (6, 33),
                Layer::Icmp6 => (2, 58),
                _ => continue,
            };
            let pseudo = self.layers[..i].iter().rev().find_map(|&(l, ip)| match l {
                Layer::Ip4 => Some(sum(0, &b[ip + 12..ip + 20])),
                Layer::Ip6 => Some(sum(0, &b[ip + 8..ip + 40])),
                _ => None,
            });
            let Some(pseudo) = pseudo else { continue };
            let mut value = checksum(pseudo + place.1 + (end - at) as u32, &b[at..]);
            if value == 0 && layer == Layer::Udp {
                value = 0xffff;
            }
            put16(&mut b, at + place.0, value);
        }
        for (at, patch) in &self.patches {
            b[*at..at + patch.len()].copy_from_slice(patch);
        }
        if let Some(cut) = self.cut {
            b.truncate(cut);
        }
        b
    }
}

fn put16(b: &mut [u8], at: usize, value: u16) {
    b[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn ethertype(next: Layer) -> u16 {
    match next {
        Layer::Arp => 0x0806,
        Layer::Ip6 => 0x86dd,
        _ => 0x0800,
    }
}

fn protocol(next: Layer) -> u8 {
    match next {
        Layer::Ip4 => 4,
        Layer::Ip6 => 41,
        Layer::Extension(p) | Layer::Other(p) => p,
        Layer::Tcp => 6,
        Layer::Udp => 17,
        Layer::UdpLite => 136,
        Layer::Dccp => 33,
        Layer::Icmp => 1,
        Layer::Icmp6 => 58,
        _ => 253,
    }
}

fn sum(start: u32, bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .fold(start, |s, c| s + (u32::from(c[0]) << 8) + u32::from(*c.get(1).unwrap_or(&0)))
}

/// The Internet checksum (RFC 1071).
pub fn checksum(start: u32, bytes: &[u8]) -> u16 {
    let mut s = sum(start, bytes);
    while s > 0xffff {
        s = (s & 0xffff) + (s >> 16);
    }
    !(s as u16)
}
