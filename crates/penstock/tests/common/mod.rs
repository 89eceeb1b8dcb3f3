// SPDX-License-Identifier: Apache-2.0

//! A router with two sides, and packets for it.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::net::Ipv4Addr;

use penstock::{Device, Network};
use penstock_wire::{checksum, ethernet};

/// A time of packets: nanoseconds since the epoch.
pub const NOW: u64 = 1_700_000_000_000_000_000;
/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;

/// A client on the lan, a server on the wan.
pub const CLIENT: [u8; 4] = [198, 18, 1, 7];
pub const SERVER: [u8; 4] = [198, 18, 0, 9];

/// `wan` 198.18.0.1/24 and `lan` 198.18.1.1/24, with the neighbours known.
pub fn router() -> Network {
    Network::builder()
        .ethernet("wan", [2, 0, 0, 0, 0, 1])
        .ethernet("lan", [2, 0, 0, 0, 0, 2])
        .address("wan", Ipv4Addr::new(198, 18, 0, 1).into(), 24)
        .address("lan", Ipv4Addr::new(198, 18, 1, 1).into(), 24)
        .neighbour("wan", Ipv4Addr::from(SERVER).into(), [2, 0, 0, 0, 0, 9])
        .neighbour("lan", Ipv4Addr::from(CLIENT).into(), [2, 0, 0, 0, 1, 7])
        .build()
        .expect("a network")
}

/// The devices `wan` and `lan`.
pub fn sides(network: &Network) -> (Device, Device) {
    (network.device("wan").expect("a device"), network.device("lan").expect("a device"))
}

/// A UDP frame to the router, with its checksums.
pub fn udp(to: [u8; 6], from: ([u8; 4], u16), dst: ([u8; 4], u16), payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len() as u16;
    let ports = [from.1.to_be_bytes(), dst.1.to_be_bytes()].concat();
    let segment = [&ports[..], &len.to_be_bytes(), &[0, 0], payload].concat();
    ip(to, 17, from.0, dst.0, segment, 6)
}

/// A TCP frame to the router without data; `flags` as in the header: 2 SYN, 16 ACK, 4 RST.
pub fn tcp(to: [u8; 6], from: ([u8; 4], u16), dst: ([u8; 4], u16), flags: u8) -> Vec<u8> {
    let mut segment = [from.1.to_be_bytes(), dst.1.to_be_bytes()].concat();
    segment.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    ip(to, 6, from.0, dst.0, segment, 16)
}

fn ip(
    to: [u8; 6],
    protocol: u8,
    from: [u8; 4],
    dst: [u8; 4],
    mut segment: Vec<u8>,
    checksum_at: usize,
) -> Vec<u8> {
    let (src, dst_address) = (Ipv4Addr::from(from), Ipv4Addr::from(dst));
    let sum = checksum::pseudo_v4(src, dst_address, protocol, segment.len() as u32);
    let sum = sum.bytes(&segment).finish();
    segment[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
    let len = (20 + segment.len() as u16).to_be_bytes();
    let mut header = vec![0x45, 0, len[0], len[1], 0, 1, 0, 0, 64, protocol, 0, 0];
    header.extend_from_slice(&[from, dst].concat());
    let sum = checksum::Sum::new().bytes(&header).finish();
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let ethertype = ethernet::IPV4.to_be_bytes();
    [&to[..], &[2, 0, 0, 0, 9, 9], &ethertype, &header, &segment].concat()
}

/// Link address of the router on the wan.
pub const WAN: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Link address of the router on the lan.
pub const LAN: [u8; 6] = [2, 0, 0, 0, 0, 2];
