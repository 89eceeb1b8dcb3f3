// SPDX-License-Identifier: Apache-2.0

//! The table as a whole: dumps, filters, events, and what no sequence of packets may break.

use penstock_conntrack::{
    Connection, Conntrack, Direction, EventKind, Expectation, Filter, Follow, Hook, Observer,
    Settings, Style, Template, Verdict, helper_number,
};
use penstock_packet::Packet;
use penstock_testkit::build::*;
use std::sync::{Arc, Mutex};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;

fn load(bytes: &[u8], now: u64) -> Packet {
    let mut p = Packet::new();
    p.load(bytes, 0);
    p.meta.time = now;
    p
}

/// A random packet among few hosts and ports, mostly sound.
fn random(rng: &mut fastrand::Rng) -> Vec<u8> {
    let host = |rng: &mut fastrand::Rng| rng.u8(1..4);
    let (from, to) = (host(rng), host(rng));
    let port = |rng: &mut fastrand::Rng| rng.u16(1..4);
    let (sport, dport) = (port(rng), port(rng));
    let upper: Frame = match rng.u32(..12) {
        0..=2 => Udp::new(sport, dport) / payload([0; 9]),
        3..=6 => {
            let flags = [2, 18, 16, 16, 24, 17, 4, 20][rng.usize(..8)];
            let mut tcp =
                Tcp::new(sport, dport).seq(rng.u32(..3000)).ack(rng.u32(..3000)).flags(flags);
            tcp = tcp.window(rng.u16(..3000));
            if rng.bool() {
                let options: Vec<u8> = (0..rng.usize(1..5) * 4).map(|_| rng.u8(..9)).collect();
                tcp = tcp.raw_options(&options);
            }
            tcp / payload(vec![1; rng.usize(..600)])
        }
        7 => {
            Sctp::new(sport, dport).vtag(rng.u32(..3)).chunk(rng.u8(..15), rng.u8(..2), &[0; 16])
                / payload(b"")
        }
        8 => Dccp::new(sport, dport, rng.u8(..11)) / payload(b"12345678"),
        9 => Gre::new().key(rng.u32(..3)) / payload(b"x"),
        10 => Icmp::new(rng.u8(..20), 0).rest_of_header(rng.u32(..3) << 16) / payload(b"x"),
        _ => Frame::from(payload((0..rng.usize(..40)).map(|_| rng.u8(..)).collect::<Vec<u8>>())),
    };
    let quoted = rng.u32(..10) == 0;
    let v6 = rng.bool();
    let address = |n| format!("198.18.0.{n}");
    let address6 = |n| format!("2001:db8::{n}");
    let packet: Frame = if v6 {
        let inner = Ipv6::new(&*address6(from), &*address6(to)) / upper;
        if quoted {
            Ipv6::new(&*address6(to), &*address6(from)) / Icmpv6::new(1, 4) / payload(inner.build())
        } else {
            inner
        }
    } else {
        let inner = Ipv4::new(&*address(from), &*address(to)) / upper;
        if quoted {
            Ipv4::new(&*address(to), &*address(from)) / Icmp::new(3, 3) / payload(inner.build())
        } else {
            inner
        }
    };
    let mut bytes = packet.build();
    if rng.u32(..20) == 0 {
        bytes.truncate(rng.usize(..bytes.len()));
    }
    if rng.u32(..20) == 0 && !bytes.is_empty() {
        let at = rng.usize(..bytes.len());
        bytes[at] ^= 1 << rng.u32(..8);
    }
    bytes
}

fn replace(
    packet: &mut Packet,
    transport: usize,
    _: u8,
    at: usize,
    len: usize,
    with: &[u8],
) -> bool {
    packet.splice_network(transport + 8 + at, len, with)
}

#[test]
fn random_packets_keep_the_table_consistent() {
    let seed = penstock_testkit::seed();
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..6 {
        let mut settings =
            Settings { max: [20, 60, 1000][round % 3], acct: rng.bool(), ..Settings::default() };
        settings.checksum = rng.bool();
        settings.timestamp = rng.bool();
        let mut table = Conntrack::with_seed(settings, seed);
        table.want_labels(rng.bool());
        let zones = [0, 7].map(|z| {
            table.template(Template {
                original_zone: z,
                reply_zone: rng.u16(..2) * z,
                ..Template::default()
            })
        });
        let mut now = START;
        let mut held: Vec<Packet> = Vec::new();
        for _ in 0..3000 {
            now += rng.u64(..SECOND / 2);
            let mut p = load(&random(&mut rng), now);
            if rng.u32(..4) == 0 {
                p.meta.ct.template = zones[rng.usize(..2)];
            }
            let hook = if rng.bool() { Hook::Prerouting } else { Hook::Output };
            if table.track(&mut p, hook) == Verdict::Drop {
                assert!(!p.meta.ct.has_entry());
                continue;
            }
            if let Some(n) = table.resolve(&p.meta.ct) {
                if rng.u32(..3) == 0 {
                    table.set_mark(n, rng.u32(..));
                    table.set_helper(n, rng.u16(..10));
                }
                if rng.u32(..10) == 0 {
                    table.set_labels(n, [1; 4], [3; 4]);
                }
            }
            match rng.u32(..12) {
                0 => table.release(&mut p.meta.ct),
                1 => held.push(p),
                2 => {
                    let n = p.meta.ct.entry;
                    if table.resolve(&p.meta.ct).is_some() {
                        table.kill(n);
                    }
                    table.confirm(&mut p);
                }
                _ => {
                    table.help(&mut p, Default::default(), replace);
                    table.confirm(&mut p);
                }
            }
            if held.len() > 5 {
                let mut p = held.swap_remove(rng.usize(..held.len()));
                p.meta.time = now;
                table.confirm(&mut p);
            }
            if rng.u32(..20) == 0 {
                table.expire(now);
            }
            assert!(table.count() <= table.settings().max());
        }
        for mut p in held {
            table.release(&mut p.meta.ct);
        }
        table.expire(now);
        // What is listed can be found by both of its tuples, and no two have the same.
        let listed: Vec<_> = table.iter().map(|c| c.reference()).collect();
        for r in &listed {
            let c = table.connection_ref(*r).unwrap();
            for direction in [Direction::Original, Direction::Reply] {
                let found = table.find(c.tuple(direction)).map(|(r, _)| r);
                assert_eq!(found, Some(*r));
            }
        }
        let zones: u32 = [0, 7].map(|z| table.count_in_zone(z)).iter().sum();
        assert_eq!(zones, table.count());
        // All ends when its time is over.
        now += 6 * 86_400 * SECOND;
        while !table.expire(now) {}
        assert_eq!((table.count(), table.iter().count(), table.expectations().count()), (0, 0, 0));
    }
}

/// A table with something of everything.
fn full() -> (Conntrack, u64) {
    let mut table =
        Conntrack::new(Settings { max: 1000, acct: true, timestamp: true, ..Settings::default() });
    table.want_labels(true);
    let mut rng = fastrand::Rng::with_seed(9);
    let mut now = START;
    for _ in 0..2000 {
        now += SECOND / 100;
        let mut p = load(&random(&mut rng), now);
        table.track(&mut p, Hook::Output);
        if let Some(n) = table.resolve(&p.meta.ct) {
            table.set_mark(n, rng.u32(..3));
            table.set_labels(n, [rng.u32(..), 0, 0, 5], [u32::MAX; 4]);
            table.set_helper(n, helper_number("tftp", 17).unwrap());
            if rng.u32(..30) == 0 {
                table.shift_sequence(n, Direction::Reply, 5, -3);
                table.set_masquerade(n, 4);
                table.set_secmark(n, 8);
            }
        }
        table.confirm(&mut p);
    }
    let master = table.iter().next().unwrap().reference();
    let mut e = Expectation::new(
        master,
        2,
        6,
        None,
        penstock_conntrack::tuple::address([198, 18, 0, 9].into()),
        5,
    );
    e.follow = Some(Follow { direction: Direction::Reply, address: None, port: 9 });
    e.helper = helper_number("ftp", 6).unwrap();
    table.expect(e, 3).unwrap();
    let mut p = load(&(Ipv4::new("198.18.0.7", "198.18.0.9") / Tcp::new(1, 5).syn()).build(), now);
    table
        .expect(
            Expectation::new(
                master,
                2,
                6,
                None,
                penstock_conntrack::tuple::address([198, 18, 0, 9].into()),
                6,
            ),
            3,
        )
        .unwrap();
    table.track(&mut p, Hook::Output);
    table.confirm(&mut p);
    (table, now)
}

#[test]
fn a_dump_loads_to_the_same_table() {
    let (table, now) = full();
    let dump = table.dump();
    for part in [
        " tcp=",
        " udp=",
        " sctp=",
        " gre=",
        " helper=tftp",
        " labels=",
        " seqadj=",
        " master=",
        "\nexpect ",
    ] {
        assert!(dump.contains(part), "{part}");
    }
    let mut again = Conntrack::new(Settings { max: 1000, ..Settings::default() });
    let loaded = again.load(&dump, now).unwrap();
    let listed = table.iter().count();
    assert_eq!((loaded, again.count() as usize), (listed, listed));
    // Numbers may be others: compare without them, in one order.
    let lines = |dump: &str| {
        let mut lines: Vec<String> = dump
            .lines()
            .map(|l| {
                l.split(' ')
                    .filter(|w| !w.starts_with("id=") && !w.starts_with("master="))
                    .collect()
            })
            .collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&again.dump()), lines(&dump));
    // Once more is refused at its first connection.
    let error = again.load(&dump, now).unwrap_err();
    assert_eq!((error.line, error.reason.as_str()), (2, "this connection is there already"));
}

#[test]
fn offloaded_connections_are_loaded_as_ordinary_ones() {
    let (mut table, now) = full();
    let all: Vec<u32> = table.iter().map(|c| c.number()).collect();
    all.iter().for_each(|n| table.set_offloaded(*n, 1));
    assert!(table.iter().all(|c| c.remaining() == 86_400 * SECOND));
    let mut again = Conntrack::new(Settings { max: 1000, ..Settings::default() });
    again.load(&table.dump(), now).unwrap();
    let udp: Vec<_> = again
        .iter()
        .filter(|c| c.tuple(Direction::Original).protocol == 17)
        .map(|c| c.remaining())
        .collect();
    assert!(!udp.is_empty() && udp.iter().all(|left| *left <= 120 * SECOND), "{udp:?}");
    assert!(again.iter().all(|c| again.offloaded(c.number()).is_none()));
}

#[test]
fn malformed_dumps_are_refused_with_the_line() {
    let flow = "flow proto=17 orig=198.18.0.1,198.18.0.2,1,2,0 reply=198.18.0.2,198.18.0.1,2,1,0";
    for (text, line, reason) in [
        ("", 1, "a dump begins with"),
        ("penstock-conntrack 1\nflow\n", 2, "no protocol"),
        ("penstock-conntrack 1\n\nflow proto=6\n", 3, "no original tuple"),
        ("penstock-conntrack 1\nflow proto=6 orig=1,2\n", 2, "bad value `1,2' of `orig'"),
        ("penstock-conntrack 1\nflow proto=6 proto=6\n", 2, "`proto' twice"),
        ("penstock-conntrack 1\nthing a=b\n", 2, "`thing' is neither"),
        ("penstock-conntrack 1\nexpect proto=6\n", 2, "an expectation of no connection"),
        (
            &format!(
                "penstock-conntrack 1\n{flow} tcp=99,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n"
            ),
            2,
            "no state 99",
        ),
    ] {
        let error = Conntrack::new(Settings::default()).load(text, START).unwrap_err();
        assert_eq!(error.line, line, "{text:?}");
        assert!(error.reason.starts_with(reason), "{error}");
    }
    let mut rng = fastrand::Rng::with_seed(penstock_testkit::seed());
    let (table, now) = full();
    let dump = table.dump().into_bytes();
    for _ in 0..200 {
        // Noise is refused or loaded, and then packets do not mind it.
        let mut noisy = dump.clone();
        for _ in 0..rng.usize(1..20) {
            let at = rng.usize(..noisy.len());
            noisy[at] = b"0123456789=, \nx"[rng.usize(..15)];
        }
        let mut other = Conntrack::new(Settings { max: 1000, ..Settings::default() });
        let _ = other.load(&String::from_utf8_lossy(&noisy), now);
        for _ in 0..20 {
            let mut p = load(&random(&mut rng), now + SECOND);
            other.track(&mut p, Hook::Output);
            other.confirm(&mut p);
        }
    }
}

#[test]
fn filters_select_as_conntrack_does() {
    let mut table = Conntrack::new(Settings { max: 100, ..Settings::default() });
    let mut pass = |frame: Frame, mark| {
        let mut p = load(&frame.build(), START);
        table.track(&mut p, Hook::Output);
        table.set_mark(p.meta.ct.entry, mark);
        table.confirm(&mut p);
    };
    pass(Ipv4::new("198.18.0.1", "198.18.0.2") / Udp::new(1000, 53), 1);
    pass(Ipv4::new("198.18.0.2", "198.18.0.1") / Udp::new(53, 1000), 1);
    pass(Ipv4::new("198.18.0.3", "198.18.1.2") / Tcp::new(1000, 80).syn(), 2);
    pass(Ipv6::new("2001:db8::1", "2001:db8::2") / Udp::new(1000, 53), 0x12);
    pass(Ipv4::new("198.18.0.1", "198.18.0.2") / Icmp::echo_request(7, 1), 0);
    for (options, count) in [
        ("", 4),
        ("-p udp", 2),
        ("-p tcp", 1),
        ("-p 1 --icmp-type 8 --icmp-id 7", 1),
        ("-f ipv6", 1),
        ("-s 198.18.0.1", 2),
        ("-s 198.18.0.0/24 -d 198.18.1.0/24", 1),
        ("--src=198.18.0.0/30 --dport 53", 1),
        ("-r 198.18.0.2 -q 198.18.0.1", 2),
        ("-u SEEN_REPLY", 1),
        ("-u UNREPLIED", 3),
        ("-u ASSURED", 0),
        ("-p tcp --state SYN_SENT", 1),
        ("-m 2/3", 2),
        ("-m 0x12", 1),
        ("-w 0", 4),
        ("--orig-zone 3", 0),
        ("--any-nat", 0),
    ] {
        let options: Vec<&str> = options.split_whitespace().collect();
        let filter = Filter::parse(&options).unwrap();
        assert_eq!(table.iter().filter(|c| filter.has(c)).count(), count, "{options:?}");
    }
    for wrong in ["-p", "-p what", "-s 1.2.3.4/40", "--thing 1", "-u NEVER", "-m x"] {
        let options: Vec<&str> = wrong.split_whitespace().collect();
        assert!(Filter::parse(&options).is_err(), "{wrong}");
    }
    let udp = Filter::parse(&["-p", "udp"]).unwrap();
    assert_eq!(table.kill_if(|c| udp.has(&c)), 2);
    assert_eq!(table.count(), 2);
}

struct Log(Arc<Mutex<Vec<String>>>);

impl Observer for Log {
    fn event(&mut self, kind: EventKind, what: u16, connection: Connection<'_>) {
        self.0.lock().unwrap().push(connection.event_line(kind, what).to_string());
    }
}

#[test]
fn events_are_printed_as_by_conntrack() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut table = Conntrack::new(Settings { max: 100, ..Settings::default() });
    table.set_observer(Some(Box::new(Log(log.clone()))));
    let mut pass = |frame: Frame| {
        let mut p = load(&frame.build(), START);
        table.track(&mut p, Hook::Output);
        table.confirm(&mut p);
    };
    let (a, b) = ("198.18.0.1", "198.18.0.2");
    pass(Ipv4::new(a, b) / Tcp::new(1, 2).seq(1).syn());
    pass(Ipv4::new(b, a) / Tcp::new(2, 1).seq(8).syn().ack(2));
    pass(Ipv4::new(a, b) / Tcp::new(1, 2).seq(2).ack(9));
    pass(Ipv4::new(a, b) / Tcp::new(1, 2).seq(2).ack(9));
    table.kill(0);
    let tuples = "src=198.18.0.1 dst=198.18.0.2 sport=1 dport=2";
    let reply = "src=198.18.0.2 dst=198.18.0.1 sport=2 dport=1";
    assert_eq!(
        *log.lock().unwrap(),
        [
            format!("    [NEW] tcp      6 120 SYN_SENT {tuples} [UNREPLIED] {reply}"),
            format!(" [UPDATE] tcp      6 60 SYN_RECV {tuples} {reply}"),
            format!(" [UPDATE] tcp      6 432000 ESTABLISHED {tuples} {reply} [ASSURED]"),
            format!("[DESTROY] tcp      6 432000 ESTABLISHED {tuples} {reply} [ASSURED]"),
        ]
    );
}

#[test]
fn dump_lines_contain_every_field_that_is_set() {
    let settings = Settings { max: 100, acct: true, timestamp: true, ..Settings::default() };
    let mut table = Conntrack::new(settings);
    table.want_labels(true);
    let mut p = load(
        &(Ipv6::new("2001:db8::1", "2001:db8::2") / Udp::new(1, 69) / payload(b"x")).build(),
        START,
    );
    p.meta.ct.template =
        table.template(Template { original_zone: 7, reply_zone: 7, ..Template::default() });
    table.track(&mut p, Hook::Prerouting);
    let n = p.meta.ct.entry;
    table.set_mark(n, 5);
    table.set_labels(n, [0b1001, 0, 0, 1], [u32::MAX; 4]);
    table.set_helper(n, helper_number("tftp", 17).unwrap());
    table.confirm(&mut p);
    table.advance(START + 3 * SECOND);
    let line = |style| table.iter().next().unwrap().line(style).to_string();
    let tuples = "src=2001:db8::1 dst=2001:db8::2 sport=1 dport=69 packets=1 bytes=49 [UNREPLIED] \
                  src=2001:db8::2 dst=2001:db8::1 sport=69 dport=1 packets=0 bytes=0";
    assert_eq!(
        line(Style::default()),
        format!("udp      17 27 {tuples} mark=5 zone=7 delta-time=3 helper=tftp use=1")
    );
    let all = Style { extended: true, ktimestamp: true, labels: true, ..Style::default() };
    assert_eq!(
        line(all),
        format!(
            "ipv6     10 udp      17 27 {tuples} mark=5 zone=7 delta-time=3 \
             [start=Tue Nov 14 22:13:20 2023] helper=tftp use=1 labels=0,3,96"
        )
    );
    let full = tuples.replace("2001:db8::", "2001:0db8:0000:0000:0000:0000:0000:000");
    assert_eq!(
        line(Style { proc: true, ..Style::default() }),
        format!("ipv6     10 udp      17 27 {full} mark=5 zone=7 delta-time=3 use=2")
    );
}
