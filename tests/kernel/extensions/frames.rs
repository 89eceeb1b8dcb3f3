// SPDX-License-Identifier: Apache-2.0

//! Frames that reach the boundaries of what extensions ask.

use fastrand::Rng;

use crate::frame::{Frame, ethernet};
use crate::net::{CLIENT, DMZ, GATEWAY, LAN, SERVER, SYN_OPTIONS, WAN};

fn pick<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(..all.len())]
}

const PORTS: [u16; 14] = [1, 5, 9, 21, 22, 53, 79, 80, 81, 443, 444, 8080, 40000, 40001];

/// Options of TCP: whole, cut, without length, with a last byte that has none.
const OPTIONS: [&[u8]; 9] = [
    &SYN_OPTIONS,
    &[2, 4, 3, 0xe8],
    &[2, 4, 5, 0x78, 1, 1, 4, 2],
    &[1, 1, 1, 2],
    &[8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 254, 2],
    &[3, 0, 2, 4, 5, 0xb4, 0, 0],
    &[3, 40, 2, 4],
    &[5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 3, 3, 7, 8],
    &[2, 3, 4, 2, 4, 5, 0xb5, 0],
];

const DATA: [&[u8]; 5] =
    [b"GET / HTTP/1.0\r\n\r\n", b"get x", b"\0x", b"", b"abcdefghijklmnopqrstuvwxyz"];

/// A frame by chance, and the device that it comes from.
pub fn frame(rng: &mut Rng, v6: bool) -> (&'static str, Frame) {
    let (device, link) = match rng.u8(..6) {
        0 => ("wan", ethernet(WAN, GATEWAY)),
        1 => ("dmz", ethernet(DMZ, SERVER)),
        _ => ("lan", ethernet(LAN, CLIENT)),
    };
    let packet = if v6 { ipv6(rng, device, link) } else { ipv4(rng, device, link) };
    (device, body(rng, v6, packet))
}

fn ipv4(rng: &mut Rng, device: &str, link: Frame) -> Frame {
    let (from, to) = match device {
        "wan" => ("198.19.0.2", pick(rng, &["198.18.0.10", "198.18.5.20", "198.19.0.1"])),
        "dmz" => ("198.18.5.20", pick(rng, &["198.18.0.10", "198.19.0.2"])),
        _ => (
            pick(rng, &["198.18.0.10", "198.18.0.11", "198.18.0.10", "198.19.0.3", "198.18.66.1"]),
            pick(rng, &["198.19.0.2", "198.19.0.3", "198.18.5.20", "198.18.200.7", "198.18.0.1"]),
        ),
    };
    let mut f = link.ip4(from, to).id(rng.u16(1..6));
    if rng.u8(..3) == 0 {
        f = f.ttl(pick(rng, &[2, 3, 4, 63, 64, 65, 255]));
    }
    if rng.u8(..3) == 0 {
        f = f.tos(pick(rng, &[0xb8, 0xb9, 0x10, 0x28, 0x02, 0x20, 0xff]));
    }
    if rng.u8(..8) == 0 {
        f = f.ip_options(&[7, 7, 4, 0, 0, 0, 0, 0]);
    }
    f
}

fn ipv6(rng: &mut Rng, device: &str, link: Frame) -> Frame {
    let (from, to) = match device {
        "wan" => ("2001:db8:2::2", pick(rng, &["2001:db8:1::10", "2001:db8:5::20"])),
        "dmz" => ("2001:db8:5::20", pick(rng, &["2001:db8:1::10", "2001:db8:2::2"])),
        _ => (
            pick(rng, &["2001:db8:1::10", "2001:db8:1::10", "2001:db8:5::20"]),
            pick(rng, &["2001:db8:2::2", "2001:db8:5::20", "2001:db8:200::7", "2001:db8:1::1"]),
        ),
    };
    let mut f = link.ip6(from, to);
    if rng.u8(..3) == 0 {
        f = f.ttl(pick(rng, &[2, 3, 4, 63, 64, 65, 255]));
    }
    if rng.u8(..3) == 0 {
        let class = pick(rng, &[0xb8u8, 0xb9, 0x10, 0x28, 0x02, 0xff]);
        f = f.set(0, &[0x60 | class >> 4, class << 4]);
    }
    // Those for the host end in `input`, before or after the connection is confirmed.
    if rng.u8(..4) == 0 && to == "2001:db8:200::7" {
        f = f.extension(60, &[1, 4, 0, 0, 0, 0]);
    }
    f
}

fn body(rng: &mut Rng, v6: bool, f: Frame) -> Frame {
    let (sport, dport) = (pick(rng, &PORTS), pick(rng, &PORTS));
    let mut f = match rng.u8(..16) {
        0..=6 => {
            let flags = pick(rng, &[2, 2, 0x12, 0x10, 0x18, 0x11, 4, 0xc2, 0x42, 0x82, 0, 0xff]);
            let mut f = f.tcp(sport, dport).flags(flags);
            if rng.bool() {
                f = f.tcp_options(pick(rng, &OPTIONS));
            }
            f
        }
        7..=10 => f.udp(sport, dport),
        11 | 12 if v6 => f.icmp6(pick(rng, &[1, 128, 129, 3]), pick(rng, &[0, 4, 1]), 7),
        11 | 12 => f.icmp(pick(rng, &[0, 8, 3, 11]), pick(rng, &[0, 1, 4]), 7),
        13 => {
            let ports = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
            f.transport(132, &[&ports[..], &[0; 8], &[0, 3, 0, 4]].concat())
        }
        14 => f.transport(50, &[0, 0, pick(rng, &[0, 1, 2]), pick(rng, &[0, 1, 244]), 0, 0, 0, 1]),
        _ => f.transport(253, &[0; 8]),
    };
    if rng.bool() {
        f = f.data(pick(rng, &DATA));
    }
    f
}
