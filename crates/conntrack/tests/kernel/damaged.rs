// SPDX-License-Identifier: Apache-2.0

//! Packets of all protocols by chance, many of them damaged: which are invalid, and what
//! `nf_conntrack_log_invalid` says of them.

use crate::lab::{A, A6, B, B6};
use crate::{Step, agree_by_chance};
use fastrand::Rng;
use penstock_testkit::Chance;
use penstock_testkit::build::*;
use penstock_wire::{checksum, protocol};

#[test]
fn damaged_packets_are_judged_and_logged_as_in_the_kernel() {
    agree_by_chance("damaged", 20, |rng| (0..rng.usize(6..16)).map(|_| packet(rng)).collect());
}

/// A packet of one of a few flows, whole or not.
fn packet(rng: &mut Rng) -> Step {
    let (there, v6) = (rng.bool(), rng.one_in(3));
    let (number, mut bytes) = transport(rng, there, v6);
    for _ in 0..rng.usize(..3) {
        if rng.bool() && !bytes.is_empty() {
            let at = rng.usize(..bytes.len().min(24));
            bytes[at] = rng.pick(&[0, 1, 4, 7, 8, 20, 0x20, 0x30, 0x45, 0x60, 0x80, 0xff]);
        }
    }
    if rng.one_in(8) {
        bytes.truncate(rng.usize(..=bytes.len()));
    }
    if rng.bool() {
        correct(&mut bytes, number, there, v6);
    }
    (there, around(there, v6, number, bytes))
}

fn around(there: bool, v6: bool, number: u8, bytes: Vec<u8>) -> Frame {
    match (v6, there) {
        (false, true) => Ipv4::new(A, B).protocol(number) / payload(bytes),
        (false, false) => Ipv4::new(B, A).protocol(number) / payload(bytes),
        (true, true) => Ipv6::new(A6, B6).next_header(number) / payload(bytes),
        (true, false) => Ipv6::new(B6, A6).next_header(number) / payload(bytes),
    }
}

/// Protocol, and the packet from its transport header on.
fn transport(rng: &mut Rng, there: bool, v6: bool) -> (u8, Vec<u8>) {
    let own = match there {
        true => [1000u16, 53],
        false => [53, 1000],
    };
    let ports = own.map(u16::to_be_bytes).concat();
    let data: Vec<u8> = (0..rng.u8(..12)).collect();
    match rng.u8(..8) {
        0 => {
            let length = (8 + data.len() as u16).to_be_bytes();
            (protocol::UDP, [&ports[..], &length, &[0, 0], &data].concat())
        }
        1 => (protocol::UDPLITE, [&ports[..], &[0, 0, 0, 0], &data].concat()),
        2 => {
            let key = [0, 0, 0, rng.u8(..3)];
            let version = rng.pick(&[[0x20, 1, 0x88, 0x0b], [0x20, 0, 8, 0], [0, 0, 8, 0]]);
            (protocol::GRE, [&version[..], &key, &data].concat())
        }
        3 => {
            let kind = rng.pick(&[0, 1, 2, 3, 4, 6, 7, 10]);
            let chunk = [kind, 0, 0, 20, 0, 0, 0, 9, 0, 1, 0, 0, 0, 5, 0, 5, 0, 0, 0, 9];
            (protocol::SCTP, [&ports[..], &[0, 0, 0, rng.u8(..2), 0, 0, 0, 0], &chunk].concat())
        }
        4 => {
            let flags = rng.pick(&[2, 0x12, 0x10, 0x11, 4]);
            let header = [0, 0, 0, 9, 0, 0, 0, 0, 0x50, flags, 9, 0, 0, 0, 0, 0];
            (protocol::TCP, [&ports[..], &header, &data].concat())
        }
        5 => (icmp_of(v6), message(rng, v6, there)),
        _ => (icmp_of(v6), error(rng, v6, there)),
    }
}

fn icmp_of(v6: bool) -> u8 {
    if v6 { protocol::ICMPV6 } else { protocol::ICMP }
}

/// A question or an answer of ICMP, or what is neither. No neighbour discovery, which the router
/// would take part in.
fn message(rng: &mut Rng, v6: bool, there: bool) -> Vec<u8> {
    let kind = match (v6, rng.one_in(4)) {
        (false, true) => rng.u8(..45),
        (true, true) => rng.pick(&[0, 100, 127, 130, 131, 138, 139, 140, 144, 200, 255]),
        (false, false) => rng.pick(if there { &[8, 13, 15, 17] } else { &[0, 14, 16, 18] }),
        (true, false) => rng.pick(if there { &[128] } else { &[129] }),
    };
    vec![kind, 0, 0, 0, 0, rng.u8(..2), 0, 1, 1, 2, 3]
}

/// An error about a packet, also a damaged one.
fn error(rng: &mut Rng, v6: bool, there: bool) -> Vec<u8> {
    // It is about what the other end sent, or now and then about something else.
    let about = if rng.one_in(6) { there } else { !there };
    let inner = loop {
        let (number, bytes) = match rng.one_in(8) {
            true => (icmp_of(v6), message(rng, v6, about)),
            false => transport(rng, about, v6),
        };
        if number != protocol::TCP {
            break around(about, if rng.one_in(12) { !v6 } else { v6 }, number, bytes).build();
        }
    };
    let mut inner = inner;
    if rng.one_in(6) {
        let at = rng.usize(..inner.len());
        inner[at] ^= 1 << rng.u8(..8);
    }
    if rng.one_in(4) {
        inner.truncate(rng.usize(..=inner.len()));
    }
    let kind = match v6 {
        false => rng.pick(&[3, 3, 3, 4, 5, 11, 12]),
        true => rng.pick(&[1, 1, 2, 3, 4]),
    };
    [&[kind, rng.u8(..4), 0, 0, 0, 0, 5, 0][..], &inner].concat()
}

/// Sets the checksum, where there is a place for one.
fn correct(bytes: &mut [u8], number: u8, there: bool, v6: bool) {
    let at = match number {
        protocol::UDP | protocol::UDPLITE => 6,
        protocol::TCP => 16,
        protocol::ICMP | protocol::ICMPV6 => 2,
        protocol::SCTP if bytes.len() >= 12 => {
            bytes[8..12].fill(0);
            let sum = checksum::Crc32c::new().bytes(bytes).finish();
            return bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        }
        _ => return,
    };
    let Some(field) = bytes.get_mut(at..at + 2) else { return };
    field.fill(0);
    let length = bytes.len() as u32;
    // The kernel takes the number of UDP for UDP-Lite, too.
    let number = if number == protocol::UDPLITE { protocol::UDP } else { number };
    let sum = match (v6, number) {
        (_, protocol::ICMP) => checksum::Sum::new(),
        (false, _) => {
            let [from, to] = if there { [A, B] } else { [B, A] }.map(|a| a.parse().unwrap());
            checksum::pseudo_v4(from, to, number, length)
        }
        (true, _) => {
            let [from, to] = if there { [A6, B6] } else { [B6, A6] }.map(|a| a.parse().unwrap());
            checksum::pseudo_v6(from, to, number, length)
        }
    };
    let sum = sum.bytes(bytes).finish_udp();
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}
