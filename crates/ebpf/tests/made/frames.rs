// SPDX-License-Identifier: Apache-2.0

//! Frames: good ones of many kinds, some cut or changed.

use fastrand::Rng;
use penstock_testkit::build::*;

fn link(rng: &mut Rng) -> Ethernet {
    let to = [
        "02:00:00:00:00:02",
        "02:00:00:00:00:02",
        "02:00:00:00:00:03",
        "ff:ff:ff:ff:ff:ff",
        "01:00:5e:00:00:01",
    ];
    Ethernet::new("02:00:00:00:00:01", *rng.choice(&to).unwrap())
}

fn tags(rng: &mut Rng, link: Ethernet) -> Frame {
    match rng.u8(..8) {
        0..=1 => link / Vlan::new(5).priority(3),
        2 => link / Vlan::new(5).service(),
        3 => link / Vlan::new(7).service() / Vlan::new(5),
        _ => link.into(),
    }
}

/// Options of TCP, some of them malformed.
fn options(rng: &mut Rng) -> Vec<u8> {
    let mut all = Vec::new();
    while rng.u8(..6) > 0 {
        let low = rng.u8(..10);
        match rng.u8(..12) {
            0..=2 => all.extend([2, 4, 0, low]),
            3 => all.extend([3, 3, low]),
            4 => all.extend([4, 2]),
            5..=6 => all.extend([8, 10, 0, low, 0, 0, 0, 0, 0, low]),
            7 => all.push(1),
            8 => all.push(0),
            9 => all.extend([5, 10, 0, low, 0, 0, 0, 0, 0, low]),
            10 => all.extend([30, rng.u8(..12), 0, low]),
            _ => all.extend([rng.u8(..9), rng.u8(..)]),
        }
    }
    all.truncate(40);
    all
}

/// A frame of at least 14 bytes.
pub fn frame(rng: &mut Rng) -> Vec<u8> {
    let ethernet = link(rng);
    if rng.u8(..20) == 0 {
        // A length in the place of the type, in front of LLC or of IPX.
        let body = if rng.bool() { [0xff; 30] } else { [0x42; 30] };
        let inside = (Ethernet::new("00:00:00:00:00:00", "00:00:00:00:00:00").ethertype(30)
            / payload(body))
        .build();
        let tag = if rng.bool() { (ethernet / Vlan::new(5)).build() } else { ethernet.build() };
        let mut frame = tag[..tag.len() - 2].to_vec();
        frame.extend(&inside[12..]);
        return frame;
    }
    let (from, to) = (u16::from(rng.u8(1..12)), u16::from(rng.u8(1..12)));
    let v4 = Ipv4::new(
        &*format!("198.18.{}.{}", rng.u8(..2), rng.u8(1..10)),
        &*format!("198.18.0.{}", rng.u8(1..10)),
    );
    let v6 = Ipv6::new(
        &*format!("2001:db8::{:x}", rng.u8(1..10)),
        &*format!("2001:db8::{:x}", rng.u8(1..10)),
    );
    let options = options(rng);
    let tcp = || Tcp::new(from, to).raw_options(&options);
    let udp = || Udp::new(from, to) / payload(b"some data");
    let front = tags(rng, ethernet);
    let mut bytes = match rng.u8(..20) {
        0..=3 => front / v4 / tcp() / payload(b"data"),
        4..=7 => front / v4 / udp(),
        8 => front / v4.options(&[148, 4, 0, 0]) / udp(),
        9 => front / v4.fragment(rng.u16(..3), rng.bool()) / udp(),
        10 => front / v4 / Icmp::echo_request(1, 2),
        11 => front / v4 / Ipv4::new("198.18.0.1", "198.18.0.2") / udp(),
        12 => {
            let gre = match rng.u8(..3) {
                0 => Gre::new(),
                1 => Gre::new().key(7),
                _ => Gre::new().key(7).sequence(1).with_checksum(),
            };
            front / v4 / gre / Ipv4::new("198.18.0.1", "198.18.0.2") / udp()
        }
        13 => front / v6 / tcp(),
        14 => front / v6 / udp(),
        15 => front / v6 / HopByHop::new().option(5, &[0, 0]) / DestOptions::new() / tcp(),
        16 => front / v6 / Fragment::new(rng.u16(..3), rng.bool(), 5) / udp(),
        17 => front / v6 / Routing::new(0, 1).via("2001:db8::7") / Ah::new(1, 2) / udp(),
        18 => {
            let mut all = front / v6;
            for _ in 0..rng.u8(..40) {
                all = all / DestOptions::new();
            }
            all / udp()
        }
        _ => front / payload((0..rng.usize(..60)).map(|_| rng.u8(..)).collect::<Vec<_>>()),
    }
    .build();
    if rng.u8(..4) == 0 {
        for _ in 0..rng.usize(..4) {
            if let Some(byte) = bytes.get_mut(12..).and_then(|f| rng.choice(f)) {
                *byte = rng.u8(..);
            }
        }
        bytes.truncate(rng.usize(14..bytes.len() * 2).max(14));
    }
    bytes
}
