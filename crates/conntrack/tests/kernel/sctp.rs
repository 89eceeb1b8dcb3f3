// SPDX-License-Identifier: Apache-2.0

//! SCTP by chance: chunks of all kinds in both directions, on two paths, with right and wrong tags.

use crate::lab::{A, A6, B, B6};
use crate::{Step, compare, lab};
use penstock_conntrack::Settings;
use penstock_testkit::build::*;

#[test]
fn random_sctp_associations_are_tracked_as_in_the_kernel() {
    let Some(mut lab) = lab() else { return };
    let seed = penstock_testkit::seed();
    let failed: Vec<String> = (seed..seed + penstock_testkit::rounds(20) as u64)
        .filter_map(|seed| {
            let mut rng = fastrand::Rng::with_seed(seed);
            let steps: Vec<Step> = association(&mut rng);
            let name = format!("random sctp {seed}");
            let compared = compare(&mut lab, &name, &Settings::default(), &steps);
            compared.err().map(|e| e + &steps.iter().map(hex).collect::<String>())
        })
        .take(3)
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// A packet from the network header on, in a line.
fn hex((there, frame): &Step) -> String {
    let bytes: String = frame.build().iter().map(|b| format!("{b:02x}")).collect();
    format!("{} {bytes}\n", if *there { "->" } else { "<-" })
}

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;

/// The packets of an association: mostly in the order of its life.
fn association(rng: &mut fastrand::Rng) -> Vec<Step> {
    let mut tags = [rng.u32(1..), rng.u32(1..)];
    let life = [
        (true, INIT),
        (false, INIT_ACK),
        (true, 10),
        (false, 11),
        (true, 0),
        (false, 3),
        (false, 0),
        (true, 7),
        (false, 8),
        (true, 14),
    ];
    let kinds = [0, 1, 2, 3, 4, 4, 5, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 64, 128, 192, 255];
    let (mut at, mut steps) = (0, Vec::new());
    for _ in 0..rng.usize(4..20) {
        let (there, kind) = if at < life.len() && rng.u8(..4) != 0 {
            at += 1;
            life[at - 1]
        } else {
            (rng.bool(), kinds[rng.usize(..kinds.len())])
        };
        if kind == INIT && rng.u8(..3) == 0 {
            tags[usize::from(!there)] = rng.u32(1..);
        }
        // A tag is the one that the other end asked for.
        let tag = match (kind, rng.u8(..12)) {
            (_, 0) => rng.u32(..),
            (_, 1) => tags[usize::from(!there)],
            (_, 2) => 0,
            (INIT, _) => 0,
            _ => tags[usize::from(there)],
        };
        let own = tags[usize::from(!there)];
        let (sport, dport) = if there { (1, 2) } else { (2, 1) };
        let mut layer = Sctp::new(sport, dport).vtag(tag);
        layer = chunk(layer, rng, kind, own);
        while rng.u8(..5) == 0 {
            let kind = kinds[rng.usize(..kinds.len())];
            layer = chunk(layer, rng, kind, own);
        }
        if rng.u8(..15) == 0 {
            layer = layer.checksum(rng.u32(..));
        }
        let mut packet = (Ipv4::new(A, B) / layer).build().split_off(20);
        if rng.u8(..20) == 0 {
            packet.truncate(packet.len() - rng.usize(1..20).min(packet.len()));
        }
        // Another address of each end: another path of the same association.
        let v4 = |from, to| Ipv4::new(from, to).protocol(132) / payload(&packet);
        let v6 = |from, to| Ipv6::new(from, to).next_header(132) / payload(&packet);
        let frame = match (there, rng.u8(..5) == 0) {
            (true, false) => v4(A, B),
            (false, false) => v4(B, A),
            (true, true) => v6(A6, B6),
            (false, true) => v6(B6, A6),
        };
        steps.push((there, frame));
    }
    steps
}

/// One more chunk.
fn chunk(layer: Sctp, rng: &mut fastrand::Rng, kind: u8, own: u32) -> Sctp {
    let flags = if rng.u8(..4) == 0 { rng.u8(..4) } else { 0 };
    let mut data = match kind {
        INIT | INIT_ACK => [&own.to_be_bytes()[..], &[0, 1, 0, 0, 0, 5, 0, 5, 0, 0, 0, 9]].concat(),
        8 | 11 | 14 => vec![],
        _ => vec![0; [0, 4, 12][rng.usize(..3)]],
    };
    if rng.u8(..20) == 0 {
        data.truncate(rng.usize(..=data.len()));
    }
    layer.chunk(kind, flags, &data)
}

/// Two chunks of a first packet, and which tags are known then.
#[test]
fn tags_of_first_packets_are_known_as_in_the_kernel() {
    let Some(mut lab) = lab() else { return };
    let packet = |there: bool, tag: u32, kinds: &[u8]| -> Step {
        let (from, to, s, d) = if there { (A, B, 1, 2) } else { (B, A, 2, 1) };
        let body = [0, 0, 0, 7, 0, 1, 0, 0, 0, 5, 0, 5, 0, 0, 0, 9];
        let layer = kinds
            .iter()
            .fold(Sctp::new(s, d).vtag(tag), |layer, kind| layer.chunk(*kind, 0, &body));
        (there, Ipv4::new(from, to) / layer)
    };
    let kinds = [INIT, 4, 5, 7, 8, 9, 10];
    let alone = kinds.iter().map(|kind| vec![*kind]);
    let pairs = kinds.iter().flat_map(|a| kinds[1..].iter().map(move |b| vec![*a, *b]));
    let failed: Vec<String> = alone
        .chain(pairs)
        .filter_map(|kinds| {
            let steps = [
                packet(true, if kinds[0] == INIT { 0 } else { 0x11 }, &kinds),
                packet(true, 9, &[0]),
                packet(false, 9, &[0]),
                packet(false, 0x11, &[0]),
                packet(false, 0x22, &[4]),
                packet(true, 9, &[0]),
                packet(false, 9, &[0]),
            ];
            let name = format!("first chunks {kinds:?}");
            compare(&mut lab, &name, &Settings::default(), &steps).err()
        })
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
