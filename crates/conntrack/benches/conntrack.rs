// SPDX-License-Identifier: Apache-2.0

//! What connection tracking costs: `cargo bench -p penstock-conntrack [-- NAME…]`. Prints
//! nanoseconds per packet and, for two million connections, the memory that they take. Each figure
//! stands next to that of an empty loop over the same packets.

use penstock_conntrack::{
    Conntrack, Direction, Hook, Settings, Shared, Tuple, TupleLookup, Verdict, tuple,
};
use penstock_packet::{Ct, Packet};
use penstock_testkit::build::*;
use penstock_wire::cache::prefetch;
use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;
const BURST: usize = 32;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| names.is_empty() || names.iter().any(|n| name.contains(n.as_str()));
    for (name, flows, tcp, v6) in [
        ("udp 100 established", 100, false, false),
        ("udp 10k established", 10_000, false, false),
        ("udp 10k established, IPv6", 10_000, false, true),
        ("tcp 10k established", 10_000, true, false),
        ("udp 1M established", 1_000_000, false, false),
        ("tcp 1M established", 1_000_000, true, false),
    ] {
        if wanted(name) {
            established(name, flows, tcp, v6);
        }
    }
    for (name, v6) in [("new udp", false), ("new udp, IPv6", true)] {
        if wanted(name) {
            begin(name, v6);
        }
    }
    if wanted("churn") {
        churn(None);
        churn(Some(&Shared::new(4, &Settings { max: 2_000_000, ..Settings::default() }, 1)));
    }
    for flows in [10_000, 100_000] {
        if wanted("owner") {
            packet_owner(flows);
        }
    }
    for (name, v6) in [("memory", false), ("memory, IPv6", true)] {
        if wanted(name) {
            memory(name, v6);
        }
    }
}

/// A frame of flow `n` and where its addresses are.
fn frame(n: u32, reply: bool, tcp: bool, v6: bool) -> Vec<u8> {
    let (port, peer) = (1024 + (n % 60_000) as u16, 53);
    let (sport, dport) = if reply { (peer, port) } else { (port, peer) };
    let upper = if tcp {
        Frame::from(Tcp::new(sport, dport).seq(1000).ack(1000).flags(16).window(60_000))
            / payload(b"")
    } else {
        Udp::new(sport, dport) / payload([0; 18])
    };
    let host = n / 60_000;
    if v6 {
        let a = Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(host + 1));
        let b = Ipv6Addr::from(0x2001_0db8_u128 << 96 | 1 << 64);
        let (from, to) = if reply { (b, a) } else { (a, b) };
        (Ipv6::new(from, to) / upper).build()
    } else {
        let a = Ipv4Addr::from(0xc612_0000 + host + 1);
        let b = Ipv4Addr::from(0xc613_0001);
        let (from, to) = if reply { (b, a) } else { (a, b) };
        (Ipv4::new(from, to) / upper).build()
    }
}

fn packet(bytes: &[u8], now: u64) -> Packet {
    let mut p = Packet::new();
    p.load(bytes, 0);
    p.meta.time = now;
    p
}

fn pass(table: &mut Conntrack, bytes: &[u8], now: u64) {
    let mut p = packet(bytes, now);
    assert_eq!(table.track(&mut p, Hook::Prerouting), Verdict::Accept);
    assert_eq!(table.confirm(&mut p), Verdict::Accept);
}

/// Nanoseconds that this thread has run: what others take of the processor does not count.
fn ran() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|w| w.parse().ok()).unwrap_or(0.0)
}

fn row(name: &str, ns: f64, note: &str) {
    println!("{name:<40} {ns:>8.1} ns/packet {:>8.2} Mpps  {note}", 1e3 / ns);
}

/// Packets of established flows in random order, looked up in bursts with prefetch and one by one.
fn established(name: &str, flows: u32, tcp: bool, v6: bool) {
    let mut table = Conntrack::with_seed(Settings { max: 2_000_000, ..Settings::default() }, 1);
    let mut now = START;
    let frames: Vec<Vec<u8>> = (0..flows).map(|n| frame(n, false, tcp, v6)).collect();
    for (n, f) in frames.iter().enumerate() {
        pass(&mut table, f, now);
        pass(&mut table, &frame(n as u32, true, tcp, v6), now);
    }
    now += 3 * SECOND;
    // As many packets as the cache of a burst holds, so that what is measured is the table and not
    // the frames.
    let mut rng = fastrand::Rng::with_seed(2);
    let mut packets: Vec<Packet> = (0..2048.min(flows)).map(|_| Packet::new()).collect();
    for p in &mut packets {
        *p = packet(&frames[rng.usize(..frames.len())], now);
    }
    drop(frames);
    let rounds = 400;
    let count = packets.len();
    let mut run = |what: &mut dyn FnMut(&mut [Packet])| {
        let mut best = f64::MAX;
        for _ in 0..rounds {
            let start = Instant::now();
            for burst in packets.chunks_mut(BURST) {
                what(burst);
            }
            best = best.min(start.elapsed().as_nanos() as f64 / count as f64);
        }
        best
    };
    let empty = run(&mut |burst| {
        for p in burst {
            p.meta.ct = Ct::default();
            black_box(p.network()[0]);
        }
    });
    let single = run(&mut |burst| {
        for p in burst {
            p.meta.ct = Ct::default();
            black_box(table.track(p, Hook::Prerouting));
            black_box(table.confirm(p));
        }
    });
    let ahead = run(&mut |burst| {
        let mut sought = [TupleLookup::default(); BURST];
        for (p, s) in burst.iter().zip(&mut sought) {
            table.seek(p.network(), s);
        }
        for s in &mut sought {
            table.prefetch_sought(s);
        }
        for (p, s) in burst.iter_mut().zip(&sought) {
            let sighting = table.track_sought(p.network(), s, START);
            p.meta.ct = table.ct_of(sighting);
            black_box(table.confirm(p));
        }
    });
    row(
        name,
        single - empty,
        &format!("with look-up ahead {:.1} ns, loop alone {empty:.1} ns", ahead - empty),
    );
}

/// New flows until the table has two million.
fn begin(name: &str, v6: bool) {
    const FLOWS: u32 = 2_000_000;
    let mut table = Conntrack::with_seed(Settings { max: FLOWS, ..Settings::default() }, 1);
    let mut p = packet(&frame(0, false, false, v6), START);
    let write = |n: u32, p: &mut Packet| {
        // Other addresses and a checksum of none, which is right in both families here.
        let bytes = p.network_mut();
        let at = if v6 { 8 + 12 } else { 12 };
        bytes[at..at + 4].copy_from_slice(&(0xc612_0000u32 + n / 60_000).to_be_bytes());
        let udp = if v6 { 40 } else { 20 };
        bytes[udp..udp + 2].copy_from_slice(&(1024 + (n % 60_000) as u16).to_be_bytes());
        bytes[udp + 6..udp + 8].fill(0);
        p.meta.ct = Ct::default();
    };
    let start = ran();
    for n in 0..FLOWS {
        write(n, &mut p);
        black_box(&p);
    }
    let empty = (ran() - start) / f64::from(FLOWS);
    for round in ["fresh memory", "memory used before"] {
        let start = ran();
        for n in 0..FLOWS {
            write(n, &mut p);
            table.track(&mut p, Hook::Prerouting);
            table.confirm(&mut p);
        }
        let ns = (ran() - start) / f64::from(FLOWS) - empty;
        let refused = table.statistics().insert_failed;
        row(name, ns, &format!("{round}, until there are {FLOWS}, {refused} refused"));
        table.kill_if(|_| true);
        p.meta.time += 2 * SECOND;
        table.expire(p.meta.time);
    }
}

/// Short flows that come and go: what the wheel costs with it.
fn churn(shared: Option<&Arc<Shared>>) {
    let mut settings = Settings { max: 2_000_000, ..Settings::default() };
    settings.set("nf_conntrack_udp_timeout", 1).expect("a sysctl");
    let mut table = match shared {
        None => Conntrack::with_seed(settings, 1),
        Some(shared) => Conntrack::of_worker(settings, 1, shared, 1),
    };
    let mut p = packet(&frame(0, false, false, false), START);
    const PACKETS: u32 = 6_000_000;
    let start = ran();
    for n in 0..PACKETS {
        let bytes = p.network_mut();
        bytes[12..16].copy_from_slice(&(0xc612_0000u32 + n / 60_000).to_be_bytes());
        bytes[20..22].copy_from_slice(&(1024 + (n % 60_000) as u16).to_be_bytes());
        bytes[26..28].fill(0);
        p.meta.ct = Ct::default();
        // A million new flows a second.
        p.meta.time += 1000;
        table.track(&mut p, Hook::Prerouting);
        table.confirm(&mut p);
        if n % BURST as u32 == 0 {
            table.expire(p.meta.time);
        }
    }
    let ns = (ran() - start) / f64::from(PACKETS);
    let name = if shared.is_some() { "churn, one of several workers" } else { "churn" };
    row(name, ns, &format!("{} at the end", table.count()));
}

/// The cost of finding the owner of a packet of another worker's connection.
fn packet_owner(flows: u32) {
    let shared = Shared::new(4, &Settings::default(), 1);
    let mut table = Conntrack::of_worker(Settings::default(), 1, &shared, 1);
    let frames: Vec<Vec<u8>> = (0..flows).map(|n| frame(n, false, false, false)).collect();
    frames.iter().for_each(|bytes| pass(&mut table, bytes, START));
    const ROUNDS: u32 = 5_000_000;
    let start = ran();
    for n in 0..ROUNDS {
        // Not in the order in which they lie.
        let at = (u64::from(n) * 7919 % u64::from(flows)) as usize;
        black_box(shared.packet_owner(black_box(&frames[at]), Some(0)));
    }
    let ns = (ran() - start) / f64::from(ROUNDS);
    row(&format!("owner, of {flows} connections"), ns, "");
    let start = ran();
    let mut turn = 0;
    while turn < ROUNDS {
        let burst: [&[u8]; BURST] = std::array::from_fn(|i| {
            let at = u64::from(turn + i as u32) * 7919 % u64::from(flows);
            black_box(&frames[at as usize][..])
        });
        for frame in burst {
            prefetch(&frame[0]);
        }
        let sought = burst.map(|frame| shared.seek_owner(frame));
        for (frame, sought) in burst.iter().zip(&sought) {
            black_box(shared.found_owner(sought, frame, Some(0)));
        }
        turn += BURST as u32;
    }
    let ns = (ran() - start) / f64::from(turn);
    row(&format!("owner, of {flows} connections, in bursts"), ns, "");
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|w| w.parse().ok()).unwrap_or(0);
    pages * 4096
}

fn memory(name: &str, v6: bool) {
    const FLOWS: u32 = 2_000_000;
    for (what, acct, labels) in [("plain", false, false), ("counters and labels", true, true)] {
        let before = resident();
        let settings = Settings { max: FLOWS, acct, ..Settings::default() };
        let mut table = Conntrack::with_seed(settings, 1);
        table.want_labels(labels);
        let mut p = packet(&frame(0, false, false, v6), START);
        for n in 0..FLOWS {
            let at = if v6 { 20 } else { 12 };
            let udp = if v6 { 40 } else { 20 };
            let bytes = p.network_mut();
            bytes[at..at + 4].copy_from_slice(&(0xc612_0000u32 + n / 60_000).to_be_bytes());
            bytes[udp..udp + 2].copy_from_slice(&(1024 + (n % 60_000) as u16).to_be_bytes());
            bytes[udp + 6..udp + 8].fill(0);
            p.meta.ct = Ct::default();
            table.track(&mut p, Hook::Output);
            table.confirm(&mut p);
        }
        let taken = resident() - before;
        let probe = Tuple { l3: tuple::IPV4, ..Tuple::ZERO };
        black_box(table.find(&probe).map(|(_, d)| d == Direction::Reply));
        println!(
            "{name:<40} {:>8.1} MB for {} connections, {} bytes each, {what}",
            taken as f64 / 1e6,
            table.count(),
            taken / u64::from(FLOWS)
        );
    }
}
