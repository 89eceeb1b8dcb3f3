// SPDX-License-Identifier: Apache-2.0

//! What the other firewall of a pair sends, and the file about it.

use penstock_conntrack::{SeqAdjust, Tuple};
use penstock_ctsync::cluster::{Head, Order, Sealing};
use penstock_ctsync::config::{Config, Mode as ModeConfig};
use penstock_ctsync::secure::{
    Digest, ElementKey, ElementState, Record, Records, put_records_of, write_record,
};
use penstock_ctsync::{
    Change, ConnectionState, ExpectationState, ExternalCache, Kind, Mode, Received, Tcp, split,
    write_connection, write_expectation,
};

use super::Target;
use crate::mutate;

pub const TARGET: Target = Target {
    name: "peer",
    bytes: "a mode, then a datagram of conntrackd's protocol; records between Penstocks; a message of a cluster; or a file as of conntrackd.conf(5)",
    holds: "what is read of a connection or an expectation is the same once it is written and read again",
    longest: 2048,
    seeds,
    make: mutate::bytes,
    run,
};

const MODES: [ModeConfig; 3] = [
    ModeConfig::FtFw { window: 3, resend_queue: 5 },
    ModeConfig::NoTrack,
    ModeConfig::Alarm { refresh: 3, cache_timeout: 9 },
];

const FILE: &str = "Sync { Mode FTFW { ACKWindowSize 9 } Multicast Default { IPv4_address 225.0.0.50 Group 3780\n\
    IPv4_interface 198.18.0.1 Interface x Checksum on } Options { TCPWindowTracking On } }\n\
    General { HashLimit 9 Filter From Userspace { Protocol Accept { TCP 17 } Address Ignore {\n\
    IPv6_address 2001:db8::/32 } State Accept { ESTABLISHED for TCP } } }\n";

const CLUSTER: &str = "Nats { Server nats://[2001:db8::1]:4222 Server tls://nats.example Cluster c Node fw-1\n\
    Credentials /a CA /b Key /c Shards 9 Elements off MaxAge 90 MaxBytes 99999999 Storage memory Replicas 3 }\n";

fn seeds() -> Vec<Vec<u8>> {
    let original = Tuple { src_id: 5, dst_id: 80, l3: 2, protocol: 6, ..Tuple::ZERO };
    let shift = SeqAdjust { position: 5, before: 0, after: 3 };
    let full = ConnectionState {
        original: Tuple { zone: 3, ..original },
        status: Some(0x18e),
        timeout: Some(9),
        mark: Some(7),
        master: Some(Tuple { zone: 3, ..original }),
        source_address: Some([198, 18, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        source_port: Some(9),
        shifts: Some([shift; 2]),
        tcp: Some(Tcp { state: 3, scales: Some([7, 7]) }),
        helper: Some("ftp".into()),
        labels: [1, 2].into(),
        synproxy: Some([1, 2, 3]),
        ..ConnectionState::default()
    };
    let icmp = Tuple { l3: 10, protocol: 58, dst_id: 128 << 8, ..original };
    let icmp = ConnectionState { original: icmp, ..ConnectionState::default() };
    let expected = ExpectationState {
        master: original,
        expected: Tuple { dst_id: 20, ..original },
        mask: original,
        timeout: Some(5),
        helper: Some("ftp".into()),
        ..ExpectationState::default()
    };
    let mut seeds = vec![FILE.as_bytes().to_vec()];
    let key = ElementKey { family: 2, table: "t".into(), set: "s".into(), key: [1; 4].into() };
    let element = ElementState { data: [2; 4].into(), timeout: 9, left: 5 };
    let mut records = Vec::new();
    for record in [
        Record::Generation(1),
        Record::Connection(Change::New, Box::new(full.clone())),
        Record::Expectation(Change::New, Box::new(expected.clone())),
        Record::Element(key.clone(), element),
        Record::NoElement(key),
        Record::Begin { mark: 1 },
        Record::End { mark: 1, digest: Digest::default() },
        Record::Ask,
        Record::Alive { sequence: 1, complete: true },
        Record::Heard { sequence: 1 },
        Record::AskNode("fw-1".into()),
        Record::ToldAt(1),
    ] {
        put_records_of(&record, &mut Digest::default(), &mut records);
        write_record(&record, &mut records);
    }
    let head = Head { sender: "fw-1", epoch: 1, generation: 2, sequence: 3 };
    seeds.extend(Sealing::new(None, "c").seal(&head, &records));
    seeds.push(CLUSTER.as_bytes().to_vec());
    seeds.push(records);
    for (number, mode) in (0..).zip(MODES) {
        let mut peer = Mode::new(&mode, 5, 0);
        peer.enqueue(write_connection(Change::New, &full));
        peer.enqueue(write_connection(Change::Update, &icmp));
        peer.enqueue(write_expectation(Change::New, &expected));
        peer.request_resync();
        peer.tick(1 << 40);
        let mut datagram = Vec::new();
        while peer.send(1 << 40, &mut datagram, 400) {
            seeds.push([&[number], datagram.as_slice()].concat());
        }
    }
    seeds
}

fn run(data: &[u8]) {
    // What is refused has a sentence.
    if let Err(sentence) = Config::read(&String::from_utf8_lossy(data)) {
        assert!(!sentence.is_empty());
    }
    records(data);
    message(data);
    let Some((number, datagram)) = data.split_first() else { return };
    let mut peer = Mode::new(&MODES[usize::from(*number) % MODES.len()], 0, 0);
    let mut cache = ExternalCache::new(4);
    for time in 1..3 {
        for message in split(datagram).flatten() {
            if peer.receive(&message) != Received::Data {
                continue;
            }
            match message.kind {
                Kind::Connection(change) => {
                    let Ok(state) = ConnectionState::read(message.body) else { continue };
                    again(&write_connection(change, &state).bytes, |body| {
                        assert!(!state.is_nameable() || ConnectionState::read(body).as_ref() == Ok(&state));
                    });
                    cache.take(change, state, time << 30);
                }
                Kind::Expectation(change) => {
                    let Ok(state) = ExpectationState::read(message.body) else { continue };
                    again(&write_expectation(change, &state).bytes, |body| {
                        assert_eq!(ExpectationState::read(body).as_ref(), Ok(&state));
                    });
                }
                Kind::Control | Kind::Unknown(_) => panic!("{message:?} is no data"),
            }
        }
        peer.tick(time << 40);
        let mut answer = Vec::new();
        while peer.send(time << 40, &mut answer, 100) {
            assert!(split(&answer).all(|message| message.is_ok()));
        }
    }
    assert!(cache.len() <= 4 && cache.iter().count() == cache.len());
}

/// What another Penstock says in a frame.
fn records(data: &[u8]) {
    let (mut digest, mut again) = (Digest::default(), Digest::default());
    let mut all = Records::of(data);
    while let Some(record) = all.next(&mut digest) {
        let Ok(Some(record)) = record else { continue };
        if let Record::Connection(_, state) = &record
            && !state.is_nameable()
        {
            continue;
        }
        let mut bytes = Vec::new();
        write_record(&record, &mut bytes);
        let mut read = Records::of(&bytes);
        assert_eq!(read.next(&mut again), Some(Ok(Some(record))));
        assert_eq!(read.next(&mut again), None);
    }
}

/// What a node of a cluster says: without a key, anybody could.
fn message(data: &[u8]) {
    let sealing = Sealing::new(None, "c");
    let mut bytes = data.to_vec();
    let Ok((head, all)) = sealing.open(&mut bytes) else { return };
    records(all);
    assert_eq!(sealing.seal(&head, all).as_deref(), Ok(data));
    let mut order = Order::default();
    for sequence in [1, head.sequence, head.sequence] {
        order.take(head.epoch, sequence);
    }
    assert_eq!(order.epoch(), Some(head.epoch));
}

/// Reads the body of the one message that was written.
fn again(bytes: &[u8], read: impl Fn(&[u8])) {
    let mut messages = split(bytes);
    let message = messages.next().expect("a message").expect("a whole one");
    read(message.body);
    assert!(messages.next().is_none());
}
