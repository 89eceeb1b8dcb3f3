// SPDX-License-Identifier: Apache-2.0

//! Frames, and the contexts that programs get with them.

use fastrand::Rng;
use penstock_ebpfvm::context::link_protocol;
use penstock_ebpfvm::{Context, ProgramKind, Skb, Xdp};

/// The context of a frame, as the kernel makes it for a run by hand.
pub fn context(kind: ProgramKind, frame: &[u8]) -> Context {
    match kind {
        ProgramKind::Xdp => {
            let mut xdp = Xdp { ingress: 1, ..Xdp::default() };
            xdp.packet.set(frame);
            Context::Xdp(xdp)
        }
        _ => {
            let socket = kind == ProgramKind::SocketFilter;
            let mut skb = Skb { socket, ifindex: 1, mtu: 65536, ..Skb::default() };
            skb.protocol = u32::from(link_protocol(&frame[12..]).unwrap());
            // PACKET_BROADCAST, PACKET_MULTICAST, or PACKET_OTHERHOST: the device is the loopback.
            skb.packet_type = match frame[0] & 1 {
                1 if frame[..6] == [0xff; 6] => 1,
                1 => 2,
                _ => 3,
            };
            if socket {
                skb.link = frame[..14].to_vec();
                skb.packet.set(&frame[14..]);
            } else {
                skb.packet.set(frame);
            }
            Context::Skb(Box::new(skb))
        }
    }
}

/// Frames: TCP and UDP over IPv4 and IPv6, with tags, short ones, and such with random bytes.
pub fn frames(rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for round in 0..60 {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for byte in &mut frame {
            *byte = rng.u8(..);
        }
        for _ in 0..[0, 0, 1, 2, 3][rng.usize(..5)] {
            frame.extend([0x81, 0, rng.u8(..), rng.u8(..)]);
        }
        let protocol = [6, 17, 1, rng.u8(..)][rng.usize(..4)];
        if rng.bool() {
            frame.extend([8, 0]);
            let mut ip = [0; 20];
            ip[0] = if rng.u8(..8) == 0 { rng.u8(..) } else { 0x45 };
            (ip[8], ip[9]) = (64, protocol);
            ip[12..16].copy_from_slice(&[198, 18, 0, rng.u8(..4)]);
            ip[16..20].copy_from_slice(&[198, 19, 0, 1]);
            frame.extend(ip);
        } else if rng.bool() {
            frame.extend([0x86, 0xdd]);
            let mut ip = [0; 40];
            (ip[0], ip[6], ip[7]) = (0x60, protocol, 64);
            ip[23] = rng.u8(..4);
            frame.extend(ip);
        } else {
            frame.extend([rng.u8(..), rng.u8(..)]);
        }
        let ports = [22_u16, 53, 80, 443, 8080, 5353, 9];
        frame.extend(ports[rng.usize(..ports.len())].to_be_bytes());
        frame.extend(ports[rng.usize(..ports.len())].to_be_bytes());
        let more = if round % 10 == 0 { rng.usize(..4) } else { rng.usize(4..200) };
        frame.extend((0..more).map(|_| rng.u8(..)));
        frames.push(frame);
    }
    frames
}
