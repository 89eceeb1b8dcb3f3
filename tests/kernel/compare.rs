// SPDX-License-Identifier: Apache-2.0

//! What differs between two outcomes.

use std::fmt::Write;

use crate::chance::{Names, Ports, network_header};
use crate::frame::checksum;
use crate::scenario::{Outcome, Scenario};
use crate::services;

/// `None` if they agree, else the differences, the kernel's side first. Of the listings only what
/// was counted is compared, or with `listings` all: what nft prints is a matter of its version.
/// Ports that NAT drew go by names.
pub fn differences(
    scenario: &Scenario,
    kernel: &Outcome,
    ours: &Outcome,
    listings: bool,
) -> Option<String> {
    let ports = Ports::of(scenario);
    let (kernel, ours) = match &ports {
        Some(ports) => (&named(kernel, ports), &named(ours, ports)),
        None => (kernel, ours),
    };
    let (kernel, ours) = match kernel.without_flowtables {
        true => (&by_flow(kernel), &by_flow(ours)),
        false => (kernel, ours),
    };
    let (kernel, ours) = match scenario.rules.contains("synproxy") {
        true => (&without_cookies(kernel), &without_cookies(ours)),
        false => (kernel, ours),
    };
    let mut out = String::new();
    let mut devices: Vec<_> = kernel.sent.keys().chain(ours.sent.keys()).collect();
    devices.sort();
    devices.dedup();
    let none = vec![];
    for device in devices {
        let (k, o) =
            (kernel.sent.get(device).unwrap_or(&none), ours.sent.get(device).unwrap_or(&none));
        frames(&mut out, device, k, o, 14);
    }
    frames(&mut out, "delivered to the host", &kernel.delivered, &ours.delivered, 0);
    let (k, o) = (stable(&kernel.listing), stable(&ours.listing));
    if counts(&k) != counts(&o) {
        let _ = writeln!(out, "counters:");
        for (k, o) in k.lines().zip(o.lines()).filter(|(k, o)| counts(k) != counts(o)).take(12) {
            let _ = writeln!(out, "  kernel:   {}\n  penstock: {}", k.trim(), o.trim());
        }
    }
    if let (Some(k), Some(o)) = (&kernel.connections, &ours.connections) {
        connections(&mut out, k, o);
    }
    let copied = scenario.rules.contains("dup to");
    services::differences(&mut out, &kernel.told, &ours.told, copied);
    if listings && k != o {
        let _ = writeln!(out, "listing:");
        for (k, o) in k.lines().zip(o.lines()).filter(|(k, o)| k != o).take(12) {
            let _ = writeln!(out, "  nft:      {}\n  penstock: {}", k.trim(), o.trim());
        }
        if k.lines().count() != o.lines().count() {
            let _ =
                writeln!(out, "  listings differ in length:\n--- kernel\n{k}--- penstock\n{o}---");
        }
    }
    if out.is_empty() { None } else { Some(out) }
}

/// Tells connections that one side has and the other has not. Their life time is left out: it
/// depends on the clock.
fn connections(out: &mut String, kernel: &[String], ours: &[String]) {
    let plain = |lines: &[String]| {
        let mut lines: Vec<_> = lines.iter().map(|l| without_time(l)).collect();
        lines.sort();
        lines
    };
    let (mut kernel, mut ours) = (plain(kernel), plain(ours));
    if kernel == ours {
        return;
    }
    for line in kernel.clone() {
        if let Some(same) = ours.iter().position(|l| *l == line) {
            ours.remove(same);
            kernel.remove(kernel.iter().position(|l| *l == line).unwrap_or_default());
        }
    }
    for (side, lines) in [("kernel:  ", kernel), ("penstock:", ours)] {
        for line in lines.iter().take(6) {
            let _ = writeln!(out, "connection only in {side} {line}");
        }
    }
}

/// Since Linux 7.3 connections that `ct expectation` was set for have a helper of this name.
pub const HELPER_OF_EXPECTATIONS: &str = "helper=nft_ct_expect";

/// A line of `conntrack -L` without the third word.
fn without_time(line: &str) -> String {
    let mut words: Vec<_> = line.split_whitespace().collect();
    if words.len() > 2 && words[2].bytes().all(|b| b.is_ascii_digit()) {
        words.remove(2);
    }
    // How many hold on to it is the kernel's own affair.
    words.retain(|w| !w.starts_with("use=") && *w != HELPER_OF_EXPECTATIONS);
    words.join(" ")
}

/// An outcome of a flowtable: frames ordered by flow, those of each in their order, and connections
/// without their state, which is not tracked while packets pass by the rules.
fn by_flow(outcome: &Outcome) -> Outcome {
    let mut outcome = outcome.clone();
    for frames in outcome.sent.values_mut() {
        frames.sort_by_key(|frame| flow_of(frame));
    }
    for line in outcome.connections.iter_mut().flatten() {
        let is_state = |word: &str| {
            word.starts_with('[') || word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
        };
        *line = line.split_whitespace().filter(|w| !is_state(w)).collect::<Vec<_>>().join(" ");
    }
    outcome
}

/// Addresses and ports of a frame; of a fragment, or of anything else than TCP and UDP, the
/// addresses.
fn flow_of(frame: &[u8]) -> Vec<u8> {
    let bytes = |range: std::ops::Range<usize>| frame.get(range).unwrap_or_default().to_vec();
    let (addresses, next, ports) = match frame.get(12..14) {
        Some([8, 0]) => {
            let whole = bytes(20..22).iter().zip([0x3f, 0xff]).all(|(b, mask)| b & mask == 0);
            let header = frame.get(14).map_or(0, |b| usize::from(b & 15) * 4);
            (26..34, frame.get(23), if whole { 14 + header..14 + header + 4 } else { 0..0 })
        }
        Some([0x86, 0xdd]) => (22..54, frame.get(20), 54..58),
        _ => return vec![],
    };
    let ports = if matches!(next, Some(6 | 17)) { ports } else { 0..0 };
    [bytes(addresses), bytes(ports)].concat()
}

/// An outcome with names for the ports that NAT drew.
fn named(outcome: &Outcome, ports: &Ports) -> Outcome {
    let mut outcome = outcome.clone();
    let mut names = Names::new(ports);
    for frame in outcome.sent.values_mut().flatten() {
        names.name(frame, 14);
    }
    for packet in &mut outcome.delivered {
        names.name(packet, 0);
    }
    for line in outcome.connections.iter_mut().flatten() {
        *line = names.name_connection(line);
    }
    for line in outcome.told.get_mut("events").into_iter().flatten() {
        *line = names.name_connection(line);
    }
    outcome
}

/// An outcome without the cookies of a SYN proxy, which are hashes with a secret: the sequence
/// number of what opens a connection, and in its timestamp all bits but those that stand for
/// options. Checksums that are right become zero.
fn without_cookies(outcome: &Outcome) -> Outcome {
    const ETHERNET: usize = 14;
    const OPENING: u8 = 0x12;
    const TIMESTAMP: u8 = 8;
    const OF_OPTIONS: u8 = 0x3f;
    let mut outcome = outcome.clone();
    for frame in outcome.sent.values_mut().flatten() {
        let (start, addresses) = match (frame.get(12..15), frame.get(20), frame.get(23)) {
            (Some([8, 0, 0x45]), _, Some(6)) => (ETHERNET + 20, 26..34),
            (Some([0x86, 0xdd, _]), Some(6), _) => (ETHERNET + 40, 22..54),
            _ => continue,
        };
        let Some(flags) = frame.get(start + 13).filter(|_| frame.len() >= start + 20) else {
            continue;
        };
        if flags & 0x3f != OPENING {
            continue;
        }
        let pseudo: Vec<u8> = frame[addresses].to_vec();
        let length = (frame.len() - start) as u32;
        let pseudo =
            pseudo.chunks(2).fold(6 + length, |s, c| s + u32::from(c[0]) * 256 + u32::from(c[1]));
        let right = checksum(pseudo, &frame[start..]) == 0;
        let tcp = &mut frame[start..];
        tcp[4..8].fill(0);
        if right {
            tcp[16..18].fill(0);
        }
        let mut at = 20;
        while let Some(&[kind, len]) = tcp.get(at..).and_then(|o| o.first_chunk()) {
            if kind == TIMESTAMP && tcp.len() >= at + 6 {
                tcp[at + 2..at + 5].fill(0);
                tcp[at + 5] &= OF_OPTIONS;
            }
            at += if kind < 2 { 1 } else { usize::from(len).max(2) };
        }
    }
    outcome
}

/// Tells the first frame that differs. `link` bytes stand before the IP header.
fn frames(out: &mut String, place: &str, kernel: &[Vec<u8>], ours: &[Vec<u8>], link: usize) {
    let plain = |frames: &[Vec<u8>]| -> Vec<_> {
        let (mut ids, mut outer) = (Vec::new(), Vec::new());
        let plain = frames.iter().map(|f| {
            let frame = without_outer_id(without_chance(f, link), link, &mut outer);
            without_fragment_id(frame, link, &mut ids)
        });
        plain.collect()
    };
    let (k, o) = (plain(kernel), plain(ours));
    if k == o {
        return;
    }
    let _ = writeln!(out, "{place}: kernel {} frames, penstock {}", k.len(), o.len());
    if let Some(i) = (0..k.len().max(o.len())).find(|&i| k.get(i) != o.get(i)) {
        for (side, frame) in [("kernel:  ", k.get(i)), ("penstock:", o.get(i))] {
            let text = frame.map_or("nothing".into(), |f| hex(f));
            let _ = writeln!(out, "  frame {i} {side} {text}");
        }
    }
}

/// The identification of an IPv4 header that a tunnel or IPsec puts before packets is a hash with a
/// secret: all go by the order of their appearance.
fn without_outer_id(mut frame: Vec<u8>, link: usize, ids: &mut Vec<[u8; 2]>) -> Vec<u8> {
    let Some(at) = network_header(&frame, link) else { return frame };
    let Some(header) = frame.get_mut(at..).and_then(|ip| ip.first_chunk_mut::<20>()) else {
        return frame;
    };
    if header[0] != 0x45 || !matches!(header[9], 4 | 41 | 50) {
        return frame;
    }
    let id = [header[4], header[5]];
    let known = ids.iter().position(|i| *i == id).unwrap_or_else(|| {
        ids.push(id);
        ids.len() - 1
    });
    header[4..6].copy_from_slice(&(known as u16).to_be_bytes());
    header[10..12].fill(0);
    let sum = checksum(0, header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// A packet that was put together on the way gets another identification when it is cut again, by
/// chance: all go by the order of their appearance.
fn without_fragment_id(mut frame: Vec<u8>, link: usize, ids: &mut Vec<[u8; 4]>) -> Vec<u8> {
    let at = network_header(&frame, link).unwrap_or(link);
    let Some(ip) = frame.get_mut(at..) else { return frame };
    if ip.len() < 40 || ip[0] >> 4 != 6 {
        return frame;
    }
    let (mut next, mut at) = (ip[6], 40);
    while let (0 | 43 | 60, Some(&[following, units])) =
        (next, ip.get(at..).and_then(|h| h.first_chunk()))
    {
        (next, at) = (following, at + 8 + usize::from(units) * 8);
    }
    if let (44, Some(id)) = (next, ip.get_mut(at + 4..at + 8)) {
        let known = ids.iter().position(|i| i == id).unwrap_or_else(|| {
            ids.extend(id.first_chunk());
            ids.len() - 1
        });
        id.copy_from_slice(&(known as u32).to_be_bytes());
    }
    frame
}

/// A frame in hexadecimal, its beginning.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes", bytes.len());
    for (i, b) in bytes.iter().take(160).enumerate() {
        let _ = write!(text, "{}{b:02x}", if i % 4 == 0 { " " } else { "" });
    }
    text
}

/// The identification of an ICMP error that the host makes itself is a hash with a secret: it is
/// unpredictable, also where the error is in a tunnel.
pub fn without_chance(frame: &[u8], link: usize) -> Vec<u8> {
    let mut frame = frame.to_vec();
    if let Some(at) = network_header(&frame, link) {
        without_error_id(&mut frame[at..]);
    }
    frame
}

fn without_error_id(ip: &mut [u8]) {
    const IPIP: u8 = 4;
    const OPTIONS: u8 = 60;
    match ip.first().map(|b| (b >> 4, usize::from(b & 15) * 4)) {
        Some((4, header)) if header >= 20 && ip.len() > header => match (ip[9], ip[header]) {
            (1, 3 | 5 | 11 | 12) => {
                ip[4..6].fill(0);
                ip[10..12].fill(0);
                let sum = checksum(0, &ip[..header]);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IPIP, _) => without_error_id(&mut ip[header..]),
            _ => {}
        },
        Some((6, _)) if ip.len() > 48 => match (ip[6], ip[40]) {
            (IPIP, _) => without_error_id(&mut ip[40..]),
            (OPTIONS, IPIP) => without_error_id(&mut ip[48..]),
            _ => {}
        },
        _ => {}
    }
}

/// A listing without what depends on the clock.
fn stable(listing: &str) -> String {
    let mut out = String::new();
    for line in listing.lines() {
        let mut rest = line;
        while let Some(at) = rest.find(" expires ") {
            out.push_str(&rest[..at]);
            rest = &rest[at + 9..];
            rest = &rest[rest.find([' ', ',', '}']).unwrap_or(rest.len())..];
        }
        out.push_str(rest);
        out.push('\n');
    }
    out
}

/// All counts of a listing, in order.
fn counts(listing: &str) -> Vec<&str> {
    let words: Vec<_> = listing.split_whitespace().collect();
    let numbers =
        words.windows(2).filter(|w| matches!(w[0], "packets" | "bytes" | "used")).map(|w| w[1]);
    numbers.filter(|w| w.bytes().all(|b| b.is_ascii_digit())).collect()
}
