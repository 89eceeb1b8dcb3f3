// SPDX-License-Identifier: Apache-2.0

//! Frames for rules that reject: good ones of all kinds, cut and changed ones, and such as senders
//! on the same machine hand over, with an unfinished checksum or as super-packets.

use std::net::Ipv6Addr;

use fastrand::Rng;
use penstock_testkit::Chance;
use penstock_testkit::build::*;
use penstock_wire::{checksum, ipv4, ipv6, ipv6_ext, protocol};

use crate::sockets::{Cut, LeftToDevice};

/// A frame, and what of it is left to the device.
pub struct Made {
    pub bytes: Vec<u8>,
    pub left: LeftToDevice,
}

fn link(rng: &mut Rng) -> Frame {
    let to = match rng.u8(..24) {
        0 => "ff:ff:ff:ff:ff:ff",
        1 => "01:00:5e:00:00:01",
        2 => "02:00:00:00:00:99",
        _ => "02:00:00:00:00:f0",
    };
    let link = Ethernet::new("02:00:00:00:00:a0", to);
    match rng.u8(..24) {
        0..=2 => link / Vlan::new(5).priority(3),
        3 => link / Vlan::new(5).service(),
        4 => link / Vlan::new(7).service() / Vlan::new(5),
        _ => link.into(),
    }
}

fn data(rng: &mut Rng, most: usize) -> Payload {
    let len = match rng.u8(..8) {
        0 => 0,
        1..=4 => rng.usize(..80),
        5 => rng.usize(400..700),
        6 => rng.usize(1100..1400),
        _ => rng.usize(..most),
    };
    payload((0..len).map(|_| rng.u8(..)).collect::<Vec<_>>())
}

fn tcp(rng: &mut Rng) -> Tcp {
    let flags = match rng.u8(..4) {
        0 => 0x02,
        1 => 0x10,
        2 => 0x18,
        _ => rng.u8(..),
    };
    let mut tcp = Tcp::new(rng.u16(1..), rng.u16(1..8)).seq(rng.u32(..)).ack(rng.u32(..));
    if rng.bool() {
        tcp = tcp.mss(1460).nop().window_scale(7).timestamp(rng.u32(..), 0);
    }
    tcp.flags(flags)
}

fn udp(rng: &mut Rng) -> Udp {
    let udp = Udp::new(rng.u16(1..), rng.u16(1..8));
    if rng.one_in(4) { udp.checksum(0) } else { udp }
}

fn gre(rng: &mut Rng) -> Gre {
    match rng.u8(..4) {
        3 => Gre::new().with_checksum(),
        0 => Gre::new(),
        1 => Gre::new().key(7),
        _ => Gre::new().key(7).sequence(1).with_checksum(),
    }
}

fn v4(rng: &mut Rng, most: usize) -> Frame {
    let mut ip = Ipv4::new(
        &*format!("198.18.{}.{}", rng.u8(..2), rng.u8(1..10)),
        &*format!("198.18.0.{}", rng.u8(1..10)),
    )
    .tos(rng.u8(..))
    .id(rng.u16(..));
    if rng.one_in(5) {
        let options: Vec<u8> = (0..rng.usize(1..41)).map(|_| 1).collect();
        ip = ip.options(&options);
    }
    match rng.u8(..16) {
        0 => ip = ip.fragment(rng.u16(..3) * 8, rng.bool()),
        1 => ip = ip.df(),
        _ => {}
    }
    let inner = || Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(1, 2);
    let front = link(rng);
    match rng.u8(..20) {
        0..=6 => front / ip / tcp(rng) / data(rng, most),
        7..=11 => front / ip / udp(rng) / data(rng, most),
        12..=13 => front / ip / Icmp::new(rng.u8(..20), rng.u8(..16)) / data(rng, most),
        14 => front / ip / Icmp::new(3, rng.u8(..16)) / inner(),
        15 => front / ip / gre(rng) / inner(),
        16 => front / ip / inner(),
        17 => match rng.u8(..4) {
            0 => front / ip / Sctp::new(1, 2) / data(rng, most),
            1 => front / ip / Dccp::new(1, 2, 0) / data(rng, most),
            2 => front / ip / UdpLite::new(1, 2) / data(rng, most),
            _ => front / ip / Esp::new(1, 2) / data(rng, most),
        },
        18 => {
            let protocol = if rng.bool() {
                rng.u8(..)
            } else {
                rng.pick(&[1, 2, 6, 17, 47, 50, 58, 89, 132, 136])
            };
            short(rng, front / ip.protocol(protocol), checksum::Sum::new())
        }
        _ => front / ip.protocol(rng.u8(..)) / data(rng, most),
    }
}

/// Few bytes, some with a right sum.
fn short(rng: &mut Rng, front: Frame, pseudo: checksum::Sum) -> Frame {
    match rng.u8(..3) {
        0 => front / payload((0..rng.usize(..24)).map(|_| rng.u8(..)).collect::<Vec<_>>()),
        1 => front / summed(rng, checksum::Sum::new()),
        _ => front / summed(rng, pseudo),
    }
}

/// Bytes of which the sum is right, with a pseudo header whose length is missing.
fn summed(rng: &mut Rng, pseudo: checksum::Sum) -> Payload {
    let mut bytes: Vec<u8> = (0..rng.usize(1..30) * 2).map(|_| rng.u8(..)).collect();
    bytes[..2].fill(0);
    let len = (bytes.len() as u16).to_be_bytes();
    let len = if pseudo.folded() == 0 { [0; 2] } else { len };
    let sum = pseudo.bytes(&len).bytes(&bytes).finish().to_be_bytes();
    bytes[..2].copy_from_slice(&sum);
    payload(bytes)
}

fn v6(rng: &mut Rng, most: usize) -> Frame {
    let address = |rng: &mut Rng| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, rng.u16(1..10));
    let (from, to) = (address(rng), address(rng));
    let ip = Ipv6::new(from, to).traffic_class(rng.u8(..));
    let mut front = link(rng) / ip.clone();
    if rng.one_in(4) {
        for _ in 0..rng.u8(1..4) {
            front = match rng.u8(..6) {
                0 => front / HopByHop::new().option(5, &[0, 0]),
                1 => front / DestOptions::new(),
                2 => front / Routing::new(0, 1).via("2001:db8::7"),
                3 => front / Fragment::new(rng.u16(..2) * 8, rng.bool(), 5),
                4 => front / Ah::new(1, 2),
                _ => front / Extension::raw(60, rng.u8(..3), &[1; 14]),
            };
        }
    }
    match rng.u8(..16) {
        0..=5 => front / tcp(rng) / data(rng, most),
        6..=9 => front / udp(rng) / data(rng, most),
        10..=11 => front / Icmpv6::new(rng.u8(..), rng.u8(..8)) / data(rng, most),
        12 => front / Icmpv6::new(1, rng.u8(..8)) / data(rng, most),
        13 => front / gre(rng) / Ipv6::new("2001:db8::1", "2001:db8::2") / Udp::new(1, 2),
        14 => match rng.u8(..5) {
            4 => front / Dccp::new(1, 2, 0) / data(rng, most),
            0 => front / Sctp::new(1, 2) / data(rng, most),
            1 => front / UdpLite::new(1, 2) / data(rng, most),
            2 => front / Esp::new(1, 2) / data(rng, most),
            _ => front / Mobility::new(1),
        },
        _ => {
            let protocol = if rng.bool() {
                rng.u8(..)
            } else {
                rng.pick(&[1, 2, 6, 17, 47, 50, 58, 89, 132, 136])
            };
            let sum = checksum::pseudo_v6(from, to, protocol, 0);
            let front = link(rng) / ip.next_header(protocol);
            short(rng, front, sum)
        }
    }
}

/// A frame with at most so many bytes of data.
pub fn frame(rng: &mut Rng, most: usize) -> Made {
    let frame = match rng.u8(..40) {
        0 => link(rng) / data(rng, most),
        1..=22 => v4(rng, most),
        _ => v6(rng, most),
    };
    let mut bytes = frame.build();
    if rng.one_in(4) {
        change(rng, &mut bytes);
    }
    Made { bytes, left: LeftToDevice::default() }
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>) {
    match rng.u8(..4) {
        0 => bytes.truncate(rng.usize(14..bytes.len().max(15))),
        // Padding, as short frames have it.
        1 => bytes.resize(bytes.len() + rng.usize(1..30), rng.u8(..) % 2),
        2 => {
            let headers = bytes.len().min(80);
            for _ in 0..rng.usize(1..4) {
                bytes[rng.usize(12..headers)] = rng.u8(..);
            }
        }
        _ => {
            let last = bytes.len() - 1;
            bytes[rng.usize(12..=last)] ^= 1 << rng.u8(..8);
        }
    }
}

/// A frame whose checksum is left to the device, of TCP or UDP; `cut` makes some super-packets.
pub fn left_to_device(rng: &mut Rng, most: usize, cut: bool) -> Made {
    loop {
        let frame = if rng.bool() { v4(rng, most) } else { v6(rng, most) };
        let mut bytes = frame.build();
        if let Some(left) = leave(rng, &mut bytes, cut) {
            return Made { bytes, left };
        }
    }
}

fn leave(rng: &mut Rng, frame: &mut [u8], cut: bool) -> Option<LeftToDevice> {
    let at = match u16::from_be_bytes([frame[12], frame[13]]) {
        0x8100 | 0x88a8 => 18,
        _ => 14,
    };
    let ethertype = u16::from_be_bytes([frame[at - 2], frame[at - 1]]);
    let network = &frame[at..];
    let (protocol, transport, pseudo) = match ethertype {
        0x800 => {
            let h = ipv4::Header::new(network)?;
            let len = network.len() - h.header_len();
            let whole = h.fragment_offset() == 0;
            (whole.then(|| h.protocol())?, h.header_len(), h.pseudo(len))
        }
        0x86dd => {
            let h = ipv6::Header::new(network)?;
            let found = ipv6_ext::skip(network, ipv6::LEN, h.next_header())?;
            let len = network.len().checked_sub(found.offset)?;
            (found.protocol, found.offset, h.pseudo(found.protocol, len))
        }
        _ => return None,
    };
    let (offset, header) = match protocol {
        protocol::TCP => (16, usize::from(network.get(transport + 12)? >> 4) * 4),
        protocol::UDP => (6, 8),
        _ => return None,
    };
    let data = network.len().checked_sub(transport + header)?;
    let place = at + transport + offset;
    let unfinished = !pseudo.finish();
    frame.get_mut(place..place + 2)?.copy_from_slice(&unfinished.to_be_bytes());
    let kind = match (protocol, ethertype) {
        (protocol::TCP, 0x800) => 1,
        (protocol::TCP, _) => 4,
        _ => 5,
    };
    let size = rng.u16(100..1000);
    let is_super = cut && data > usize::from(size) && rng.bool();
    let cut = is_super.then(|| Cut { kind, headers: (at + transport + header) as u16, size });
    Some(LeftToDevice { checksum: Some(((at + transport) as u16, offset as u16)), cut })
}
