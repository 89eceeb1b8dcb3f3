// SPDX-License-Identifier: Apache-2.0

//! Fragments through a router that puts packets together before routing.

mod router;

use std::sync::Arc;

use penstock_dataplane::{Dataplane, DropReason, Settings};
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_ruleset::needs::PerFamily;
use penstock_testkit::build::*;
use router::*;

/// The router as if a rule needed whole packets.
fn defragmenting(settings: Settings) -> Dataplane {
    let net = penstock_net::Network::from_batch("net.ip", NET).unwrap();
    let mut path = Dataplane::new(Arc::new(net), settings);
    let mut linked = Linked::new(&Ruleset::default().generation()).unwrap();
    linked.needs.defrag = PerFamily { ip: true, ip6: true };
    path.set_rules(Arc::new(linked));
    path
}

/// Data bytes `from..to` of a datagram with these ports.
fn part4(id: u16, from: usize, to: usize, more: bool) -> Vec<u8> {
    let whole =
        (Ipv4::new("198.18.0.7", "198.18.1.7") / Udp::new(1, 2) / payload(vec![7; 4000])).build();
    (from_wan()
        / Ipv4::new("198.18.0.7", "198.18.1.7")
            .id(id)
            .fragment((from / 8) as u16, more)
            .protocol(17)
        / payload(&whole[20 + from..20 + to]))
    .build()
}

fn part6(id: u32, from: usize, to: usize, more: bool) -> Vec<u8> {
    let whole =
        (Ipv6::new("2001:db8::7", "2001:db8:1::7") / Udp::new(1, 2) / payload(vec![7; 4000]))
            .build();
    (from_wan()
        / Ipv6::new("2001:db8::7", "2001:db8:1::7")
        / Fragment::new((from / 8) as u16, more, id).next_header(17)
        / payload(&whole[40 + from..40 + to]))
    .build()
}

fn sizes(path: &mut Dataplane, frames: &[Vec<u8>]) -> Vec<usize> {
    let mut sizes = vec![];
    for frame in frames {
        let mut seen = Seen::default();
        let wan = path.network().link_by_name("wan").unwrap().index;
        path.receive(
            [penstock_dataplane::Frame { device: wan, bytes: frame, time: START }],
            &mut seen,
        );
        sizes.extend(seen.frames.iter().map(|(_, f)| f.len() - 14));
    }
    sizes
}

#[test]
fn packets_are_refragmented_at_the_same_or_smaller_sizes() {
    let mut path = defragmenting(Settings::default());
    /// Offsets and lengths that come in; lengths that go out.
    type Case = (&'static [(usize, usize)], &'static [usize]);
    let cases: &[Case] = &[
        // In order, out of order, smaller than need be.
        (&[(0, 800), (800, 1200)], &[820, 420]),
        (&[(800, 1200), (0, 800)], &[820, 420]),
        (&[(0, 8), (8, 16), (16, 400)], &[28, 28, 404]),
        // The second wire takes 1400 bytes: refragmented at the largest size that fits.
        (&[(0, 1480), (1480, 1600)], &[1396, 244]),
    ];
    for (i, (parts, want)) in cases.iter().enumerate() {
        let end = parts.iter().map(|p| p.1).max().unwrap();
        let frames: Vec<_> =
            parts.iter().map(|(from, to)| part4(i as u16 + 1, *from, *to, *to != end)).collect();
        assert_eq!(sizes(&mut path, &frames), *want, "{parts:?}");
    }
    let frames = [part6(1, 0, 800, true), part6(1, 800, 1400, false)];
    assert_eq!(sizes(&mut path, &frames), [848, 648]);
    // Whole it is no longer than its pieces may be.
    let frames = [part6(2, 0, 400, true), part6(2, 400, 600, false)];
    assert_eq!(sizes(&mut path, &frames), [448, 248]);
    assert_eq!(path.counters().dropped(), 0);
}

#[test]
fn overlaps_end_a_packet_and_duplicates_do_not() {
    let mut path = defragmenting(Settings::default());
    let frames = [part4(1, 0, 800, true), part4(1, 0, 800, true), part4(1, 800, 900, false)];
    assert_eq!(sizes(&mut path, &frames), [820, 120]);
    let frames = [part4(2, 0, 800, true), part4(2, 400, 808, true), part4(2, 808, 900, false)];
    assert_eq!(sizes(&mut path, &frames), []);
    assert_eq!(path.counters().drops(DropReason::Fragment), 2);
}

#[test]
fn waiting_fragments_are_bounded_and_time_out() {
    let settings = Settings { fragment_memory: 100_000, ..Settings::default() };
    let mut path = defragmenting(settings);
    for id in 0..60_000u16 {
        sizes(&mut path, &[part4(id, 0, 800, true)]);
    }
    let full = path.counters().drops(DropReason::ReassemblyFull);
    assert!(full > 59_000, "{full}");
    path.advance(START + 31 * SECOND, &mut Seen::default());
    assert_eq!(path.counters().drops(DropReason::ReassemblyTimeout), 60_000 - full);
    assert_eq!(sizes(&mut path, &[part4(9, 0, 800, true), part4(9, 800, 900, false)]), [820, 120]);
}

#[test]
fn many_interleaved_fragments_restart_reassembly() {
    let mut path = defragmenting(Settings::default());
    for (others, want) in [(63, &[820usize, 120][..]), (64, &[])] {
        sizes(&mut path, &[part4(1, 0, 800, true)]);
        for id in 0..others {
            sizes(&mut path, &[part4(100 + id, 0, 8, true)]);
        }
        assert_eq!(sizes(&mut path, &[part4(1, 800, 900, false)]), want, "{others}");
        path.advance(START + 31 * SECOND, &mut Seen::default());
    }
}

#[test]
fn thousands_of_fragments_in_any_order_are_reassembled() {
    let mut path = defragmenting(Settings::default());
    let mut order: Vec<usize> = (0..500).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut order);
    let frames: Vec<_> = order.iter().map(|i| part4(5, i * 8, i * 8 + 8, *i != 499)).collect();
    assert_eq!(sizes(&mut path, &frames), vec![28; 500]);
}
