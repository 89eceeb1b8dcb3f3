// SPDX-License-Identifier: Apache-2.0

//! What programs send about connections.

use penstock_conntrack::{Conntrack, Settings};
use penstock_nfnetlink::{Client, Local, Process};
use penstock_testkit::netfilter::{self, attribute, be32, nested};

use super::Target;
use crate::datagrams::{self, check, check_dump, with_lengths};
use crate::mutate;

pub const TARGET: Target = Target {
    name: "connections",
    bytes: "datagrams of ctnetlink, each with its length in two bytes before it",
    holds: "answers are whole messages; connections that were taken can be listed, saved and loaded",
    longest: 2048,
    seeds,
    make: mutate::bytes,
    run,
};

/// A request of IPv4 that is acknowledged.
fn message(kind: u16, flags: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    const ACK: u16 = 4;
    netfilter::message(kind, flags | ACK, 2, attributes)
}

/// Addresses, protocol and ports.
fn tuple(kind: u16, [source, destination]: [u8; 2], protocol: u8, ports: [u16; 2]) -> Vec<u8> {
    let ip = [attribute(1, &[198, 18, 0, source]), attribute(2, &[198, 18, 0, destination])];
    let proto = [
        attribute(1, &[protocol]),
        attribute(2, &ports[0].to_be_bytes()),
        attribute(3, &ports[1].to_be_bytes()),
    ];
    nested(kind, &[nested(1, &ip), nested(2, &proto)])
}

fn seeds() -> Vec<Vec<u8>> {
    const CREATE: u16 = 0x400;
    let flow = |ports: [u16; 2], more: &[Vec<u8>]| {
        let [from, to] = ports;
        let mut all = vec![tuple(1, [1, 2], 6, ports), tuple(2, [2, 1], 6, [to, from])];
        all.push(be32(7, 100));
        all.extend_from_slice(more);
        message(0x100, CREATE, &all)
    };
    let state = nested(4, &[nested(1, &[attribute(1, &[3]), attribute(4, &[3, 3])])]);
    let helper = nested(5, &[attribute(1, b"ftp\0")]);
    let nat = nested(6, &[attribute(1, &[198, 18, 0, 9]), nested(3, &[attribute(1, &[20, 0])])]);
    let shift = nested(15, &[be32(1, 9), be32(2, 0), be32(3, 5)]);
    let ftp = flow([5, 21], &[helper, state.clone(), be32(3, 0xe), be32(8, 7)]);
    let mask = nested(
        3,
        &[
            nested(1, &[attribute(1, &[255; 4]), attribute(2, &[255; 4])]),
            nested(2, &[attribute(1, &[6]), attribute(2, &[0, 0]), attribute(3, &[255; 2])]),
        ],
    );
    let expected = [tuple(2, [2, 1], 6, [0, 20]), mask, tuple(1, [1, 2], 6, [5, 21]), be32(8, 1)];
    let expect = message(0x200, CREATE, &expected);
    let zone = attribute(18, &[0, 5]);
    let filter = nested(25, &[attribute(1, &0x28u32.to_ne_bytes())]);
    let filtered = message(0x101, 0x300, &[filter, tuple(1, [1, 2], 6, [5, 21])]);
    vec![
        with_lengths(&[ftp.clone(), expect, message(0x201, 0x300, &[])]),
        with_lengths(&[flow([1, 2], &[nat]), flow([1, 3], &[shift, zone]), filtered]),
        with_lengths(&[
            ftp.clone(),
            message(0x100, 0, &[tuple(1, [1, 2], 6, [5, 21]), be32(8, 9), state]),
            message(0x101, 0, &[tuple(2, [2, 1], 6, [21, 5])]),
            message(0x102, 0, &[tuple(1, [1, 2], 6, [5, 21])]),
        ]),
        with_lengths(&[ftp, message(0x104, 0x300, &[]), message(0x102, 0, &[])]),
    ]
}

fn run(data: &[u8]) {
    let settings = Settings { max: 64, acct: true, ..Settings::default() };
    let mut table = Conntrack::with_seed(settings.clone(), 1);
    table.advance(1);
    table.want_labels(true);
    let mut backend = Local { connections: Some(table), ..Local::default() };
    let mut client = Client::new(1);
    let process = Process { id: 1, name: "fuzz".into(), may_change: true };
    for datagram in datagrams::of(data) {
        let answers = client.receive(datagram, &process, &mut backend);
        answers.datagrams.iter().for_each(|d| check(d));
        let told = answers.before.iter().chain(&answers.notifications);
        told.for_each(|n| check(&n.datagram));
    }
    for kind in [0x101, 0x201, 0x104] {
        let answers = client.receive(&message(kind, 0x300, &[]), &process, &mut backend);
        check_dump(&answers.datagrams);
    }
    let table = backend.connections.expect("it was there");
    let saved = table.dump();
    let mut again = Conntrack::with_seed(settings, 2);
    let loaded = again.load(&saved, 1).unwrap_or_else(|e| panic!("{e}: {saved}"));
    assert_eq!(loaded, table.iter().count(), "{saved}");
    let expected = saved.lines().filter(|line| line.starts_with("expect ")).count();
    assert_eq!(again.expectations().count(), expected, "{saved}");
}
