// SPDX-License-Identifier: Apache-2.0

//! ESP packets with the packets that they hold in the clear: initialization vectors are random, so
//! what two sides encrypt is never the same.

use penstock_net::Network;
use penstock_wire::{ipv4, ipv6, ipv6_ext};
use penstock_xfrm::{Config, StateConfig, Xfrm};

use crate::chance::network_header;
use crate::frame::checksum;
use crate::scenario::{Outcome, Scenario};

const UDP: u8 = 17;
const ESP: u8 = 50;

/// States of `net.ip` lines at work, each changed by `change`.
pub fn states(net: &str, change: impl Fn(&mut StateConfig)) -> Option<Xfrm> {
    if !net.contains("xfrm state") {
        return None;
    }
    let network = Network::from_batch("net.ip", net).ok()?;
    let mut config = Config::default();
    for state in network.xfrm().states() {
        let mut state = state.clone();
        change(&mut state);
        config.add_state(state, false).ok()?;
    }
    // The same salt each time: scenarios are the same each time.
    Some(Xfrm::new(&config, || 0x0123_4567_89ab_cdef_0fed_cba9_8765_4321))
}

/// An outcome with the packets that states of a scenario have encrypted in the clear.
pub fn opened(scenario: &Scenario, mut outcome: Outcome) -> Outcome {
    for frames in outcome.sent.values_mut() {
        // What has left last is what has arrived last at the other end. Nothing but the cipher
        // changes packets.
        let there = states(&scenario.net, |state| {
            state.seq = state.oseq;
            state.window = 1024;
            state.flags.noecn = true;
            state.flags.decap_dscp = false;
        });
        let Some(mut there) = there else { break };
        for frame in frames {
            *frame = open(&mut there, frame).unwrap_or(std::mem::take(frame));
        }
    }
    outcome
}

/// A frame with what it holds in place of what is encrypted, if it is ESP of one of the states.
/// Fragments of ESP have zeros there.
fn open(xfrm: &mut Xfrm, frame: &[u8]) -> Option<Vec<u8>> {
    let at = network_header(frame, 14)?;
    let sent = frame.get(at..)?;
    let (len, kept, destination, fragment) = if sent.first()? >> 4 == 6 {
        let header = ipv6::Header::new(sent)?;
        (
            40 + usize::from(header.payload_len()),
            ipv6_ext::unfragmentable_end(sent)?,
            header.dst().into(),
            None,
        )
    } else {
        let header = ipv4::Header::new(sent)?;
        let place = u16::from_be_bytes([sent[6], sent[7]]) & 0x3fff;
        let kept = (header.header_len(), 9);
        (
            usize::from(header.total_len()),
            kept,
            header.dst().into(),
            Some(place).filter(|p| *p != 0),
        )
    };
    let mut network = sent.get(..len)?.to_vec();
    let protocol = *network.get(kept.1)?;
    // The fragment header of IPv6 is where ESP would be.
    let six = protocol == 44;
    let fragment = if six { Some(network.get(kept.0 + 3).copied()?.into()) } else { fragment };
    let inner = if six { *network.get(kept.0)? } else { protocol };
    let ip = kept.0 + if six { 8 } else { 0 };
    let esp = ip + if inner == UDP { 8 } else { 0 };
    let front = |rest: &[u8]| [&frame[..at + esp], rest].concat();
    let in_udp = inner == UDP && xfrm.takes_any_udp();
    if let Some(place) = fragment.filter(|_| in_udp || inner == ESP) {
        let first =
            if six { network[kept.0 + 2] == 0 && place & 0xf8 == 0 } else { place & 0x1fff == 0 };
        // What comes before what is encrypted: in a later fragment, IP headers.
        let shown = if first { esp + 8 } else { ip };
        let rest = network.len().checked_sub(shown)?;
        let mut out = [&frame[..at + shown], &vec![0; rest]].concat();
        if in_udp && !six {
            without_identification(&mut out[at..]);
        } else if in_udp && first {
            // The checksum covers what is encrypted.
            out[at + esp - 2..at + esp].fill(0);
        }
        return Some(out);
    }
    if !matches!(protocol, ESP | UDP) {
        return None;
    }
    let spi = u32::from_be_bytes(*network.get(esp..)?.first_chunk()?);
    let id = xfrm.find(destination, spi, 0, protocol == UDP, 0).ok()?;
    let header = network.get(esp..esp + 8)?.to_vec();
    let opened = xfrm.open(id, &mut network, esp, kept, 0).ok()?;
    let mut out = front(&[&header, network.get(opened.skip..)?.get(..opened.len)?].concat());
    if protocol == UDP {
        without_chance(&mut out[at..], sent, kept.0);
    }
    Some(out)
}

/// ESP in UDP: the identification is a hash with a secret, and the checksum covers what is
/// encrypted. `sent` is the packet as it was sent.
fn without_chance(out: &mut [u8], sent: &[u8], udp: usize) {
    if sent[0] >> 4 == 4 {
        return without_identification(out);
    }
    let segment = &sent[udp..];
    let pseudo = [&sent[8..40], &(segment.len() as u32).to_be_bytes(), &[0, 0, 0, UDP]].concat();
    let all = [&pseudo[..], segment].concat();
    if checksum(0, &all) == 0 {
        out[udp + 6..udp + 8].copy_from_slice(b"ok");
    }
}

fn without_identification(header: &mut [u8]) {
    header[4..6].fill(0);
    header[10..12].fill(0);
}
