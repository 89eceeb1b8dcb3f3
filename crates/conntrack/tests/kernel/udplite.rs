// SPDX-License-Identifier: Apache-2.0

//! UDP-Lite by chance: lengths, coverage, checksums, flows in both directions.

use crate::lab::{A, A6, B, B6};
use crate::{Step, agree_by_chance};
use penstock_testkit::build::*;
use penstock_wire::{checksum, protocol};

#[test]
fn udplite_flows_are_tracked_as_in_the_kernel() {
    agree_by_chance("udplite", 8, |rng| (0..rng.usize(4..12)).map(|_| datagram(rng)).collect());
}

/// A datagram of one of two flows.
fn datagram(rng: &mut fastrand::Rng) -> Step {
    let (there, v6) = (rng.bool(), rng.u8(..3) == 0);
    let ports: [u16; 2] = if there { [1000, 7] } else { [7, 1000] };
    let length = [8, 9, 12, 20][rng.usize(..4)] as usize;
    let coverage = match rng.u8(..6) {
        0 => 0,
        1 => 8,
        2 => rng.u16(..10),
        3 => length as u16 + 1,
        4 => 12,
        _ => length as u16,
    };
    let mut bytes = [ports[0], ports[1], coverage, 0].map(u16::to_be_bytes).concat();
    bytes.extend((8..length).map(|n| n as u8));
    let covered = match usize::from(coverage) {
        n if n >= 8 && n < length => n,
        _ => length,
    };
    let sum = match v6 {
        false => {
            let (from, to) = if there { (A, B) } else { (B, A) };
            let [from, to] = [from, to].map(|a| a.parse().unwrap());
            // The kernel takes the number of UDP, and the whole length.
            let number = [protocol::UDP, protocol::UDP, protocol::UDPLITE][rng.usize(..3)];
            checksum::pseudo_v4(from, to, number, length as u32)
        }
        true => {
            let (from, to) = if there { (A6, B6) } else { (B6, A6) };
            let [from, to] = [from, to].map(|a| a.parse().unwrap());
            let number = [protocol::UDP, protocol::UDP, protocol::UDPLITE][rng.usize(..3)];
            checksum::pseudo_v6(from, to, number, length as u32)
        }
    };
    let sum = match rng.u8(..8) {
        0 => 0,
        1 => 0xbad,
        _ => sum.bytes(&bytes[..covered]).finish_udp(),
    };
    bytes[6..8].copy_from_slice(&sum.to_be_bytes());
    if rng.u8(..12) == 0 {
        bytes.truncate(rng.usize(1..8));
    }
    let frame = match (v6, there) {
        (false, true) => Ipv4::new(A, B).protocol(protocol::UDPLITE) / payload(bytes),
        (false, false) => Ipv4::new(B, A).protocol(protocol::UDPLITE) / payload(bytes),
        (true, true) => Ipv6::new(A6, B6).next_header(protocol::UDPLITE) / payload(bytes),
        (true, false) => Ipv6::new(B6, A6).next_header(protocol::UDPLITE) / payload(bytes),
    };
    (there, frame)
}
