// SPDX-License-Identifier: Apache-2.0

//! Two ends of an SA, as the path drives them.
#![allow(dead_code, reason = "each test uses some of it")]

use std::net::IpAddr;

use penstock_wire::{ipv4, ipv6, ipv6_ext, protocol};
use penstock_xfrm::{
    Aead, Algorithms, Config, Encapsulation, Limits, Mark, Mode, Outer, Selector, Stat,
    StateConfig, StateFlags, StateId, Xfrm,
};

/// Bytes of hexadecimal digits; blanks do not count.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// A state.
#[derive(Clone)]
pub struct Setup {
    pub algorithms: Algorithms,
    pub mode: Mode,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub spi: u32,
    pub window: u32,
    pub esn: bool,
    pub seq: u64,
    pub oseq: u64,
    pub udp: Option<(u16, u16)>,
    pub flags: StateFlags,
    pub limits: Limits,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            algorithms: Algorithms::Aead(Aead::new("rfc4106(gcm(aes))", &[7; 20], 128).unwrap()),
            mode: Mode::Tunnel,
            source: "198.18.0.1".parse().unwrap(),
            destination: "198.18.0.2".parse().unwrap(),
            spi: 0x100,
            window: 64,
            esn: false,
            seq: 0,
            oseq: 0,
            udp: None,
            flags: StateFlags::default(),
            limits: Limits::default(),
        }
    }
}

/// One end.
pub struct End {
    pub xfrm: Xfrm,
    pub id: Option<StateId>,
    setup: Setup,
    pub now: u64,
}

impl Setup {
    pub fn config(&self) -> StateConfig {
        StateConfig {
            source: self.source,
            destination: self.destination,
            spi: self.spi,
            mode: self.mode,
            reqid: 1,
            algorithms: self.algorithms.clone(),
            window: self.window,
            seq: self.seq,
            oseq: self.oseq,
            flags: StateFlags { esn: self.esn, ..self.flags },
            selector: Selector::default(),
            limits: self.limits,
            encapsulation: self.udp.map(|(sport, dport)| Encapsulation { sport, dport }),
            mark: Mark::default(),
            output_mark: Mark::default(),
            out: None,
        }
    }

    pub fn xfrm(&self) -> End {
        let mut config = Config::default();
        config.add_state(self.config(), false).unwrap();
        let mut salts = 1;
        let mut xfrm = Xfrm::new(&config, || {
            salts += 1;
            salts << 64 | 0x0123_4567_89ab_cdef
        });
        let now = 1_700_000_000_000_000_000;
        xfrm.start(now);
        let id = xfrm.find(self.destination, self.spi, 0, self.udp.is_some(), now).ok();
        End { xfrm, id, setup: self.clone(), now }
    }

    /// ESP after an IPv4 header.
    pub fn outer(&self, esp: &[u8]) -> Vec<u8> {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (self.source, self.destination) else {
            panic!("IPv4 only")
        };
        let header = ipv4::Repr {
            tos: 0,
            payload_len: esp.len() as u16,
            id: 1,
            frag: 0,
            ttl: 64,
            protocol: 50,
            src,
            dst,
        };
        [&header.bytes()[..], esp].concat()
    }
}

impl End {
    /// A packet goes out through the state.
    pub fn send(&mut self, packet: &[u8]) -> Result<Vec<u8>, Stat> {
        let id = self.id.expect("a state");
        let room = self.xfrm.room(id, packet)?;
        let mut network = vec![0; room.head];
        network.extend_from_slice(packet);
        network.resize(network.len() + room.tail, 0xaa);
        self.xfrm.seal(id, &mut network, room, Outer { hop_limit: 64, id: 7 }, self.now)?;
        Ok(network)
    }

    /// A packet comes in.
    pub fn receive(&mut self, packet: &[u8]) -> Result<Vec<u8>, Stat> {
        let (kept, next_at) = if packet[0] >> 4 == 6 {
            ipv6_ext::unfragmentable_end(packet).unwrap()
        } else {
            (ipv4::Header::new(packet).unwrap().header_len(), 9)
        };
        let udp = packet[next_at] == protocol::UDP;
        let at = kept + if udp { 8 } else { 0 };
        let destination = if packet[0] >> 4 == 6 {
            IpAddr::V6(ipv6::Header::new(packet).unwrap().dst())
        } else {
            IpAddr::V4(ipv4::Header::new(packet).unwrap().dst())
        };
        let spi = u32::from_be_bytes(packet[at..at + 4].try_into().unwrap());
        let id = self.xfrm.find(destination, spi, 0, udp, self.now)?;
        let mut network = packet.to_vec();
        let opened = self.xfrm.open(id, &mut network, at, (kept, next_at), self.now)?;
        Ok(network[opened.skip..opened.skip + opened.len].to_vec())
    }
}
