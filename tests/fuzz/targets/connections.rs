// SPDX-License-Identifier: Apache-2.0

//! What programs send about connections.

use penstock_conntrack::{Conntrack, Settings};
use penstock_nfnetlink::{Client, Local, Process};

use super::Target;
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

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((value.len() as u16 + 4).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn nest(kind: u16, inside: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | 0x8000, &inside.concat())
}

fn be32(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

/// A request: type, flags, attributes.
fn message(kind: u16, flags: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    let body = attributes.concat();
    let mut bytes = (20 + body.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | 5).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([2, 0, 0, 0]);
    bytes.extend(body);
    bytes
}

/// Addresses, protocol and ports.
fn tuple(kind: u16, [source, destination]: [u8; 2], protocol: u8, ports: [u16; 2]) -> Vec<u8> {
    let ip = [attribute(1, &[198, 18, 0, source]), attribute(2, &[198, 18, 0, destination])];
    let proto = [
        attribute(1, &[protocol]),
        attribute(2, &ports[0].to_be_bytes()),
        attribute(3, &ports[1].to_be_bytes()),
    ];
    nest(kind, &[nest(1, &ip), nest(2, &proto)])
}

fn with_lengths(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let one = |d: &Vec<u8>| [(d.len() as u16).to_be_bytes().to_vec(), d.clone()].concat();
    datagrams.iter().flat_map(one).collect()
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
    let state = nest(4, &[nest(1, &[attribute(1, &[3]), attribute(4, &[3, 3])])]);
    let helper = nest(5, &[attribute(1, b"ftp\0")]);
    let nat = nest(6, &[attribute(1, &[198, 18, 0, 9]), nest(3, &[attribute(1, &[20, 0])])]);
    let shift = nest(15, &[be32(1, 9), be32(2, 0), be32(3, 5)]);
    let ftp = flow([5, 21], &[helper, state.clone(), be32(3, 0xe), be32(8, 7)]);
    let mask = nest(
        3,
        &[
            nest(1, &[attribute(1, &[255; 4]), attribute(2, &[255; 4])]),
            nest(2, &[attribute(1, &[6]), attribute(2, &[0, 0]), attribute(3, &[255; 2])]),
        ],
    );
    let expected = [tuple(2, [2, 1], 6, [0, 20]), mask, tuple(1, [1, 2], 6, [5, 21]), be32(8, 1)];
    let expect = message(0x200, CREATE, &expected);
    let zone = attribute(18, &[0, 5]);
    let filter = nest(25, &[attribute(1, &0x28u32.to_ne_bytes())]);
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

fn check(datagram: &[u8]) {
    let mut rest = datagram;
    while !rest.is_empty() {
        let len = rest.first_chunk().map_or(0, |b| u32::from_ne_bytes(*b) as usize);
        assert!((16..=rest.len()).contains(&len), "an answer is no message: {datagram:02x?}");
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
    }
}

fn run(data: &[u8]) {
    let settings = Settings { max: 64, acct: true, ..Settings::default() };
    let mut table = Conntrack::with_seed(settings.clone(), 1);
    table.advance(1);
    table.want_labels(true);
    let mut backend = Local { connections: Some(table), ..Local::default() };
    let mut client = Client::new(1);
    let process = Process { id: 1, name: "fuzz".into(), may_change: true };
    let mut rest = data;
    while let Some((len, after)) = rest.split_first_chunk() {
        let len = usize::from(u16::from_be_bytes(*len)).min(after.len());
        let (datagram, next) = after.split_at(len);
        rest = next;
        let answers = client.receive(datagram, &process, &mut backend);
        answers.datagrams.iter().for_each(|d| check(d));
        let told = answers.before.iter().chain(&answers.notifications);
        told.for_each(|n| check(&n.datagram));
    }
    for kind in [0x101, 0x201, 0x104] {
        let answers = client.receive(&message(kind, 0x300, &[]), &process, &mut backend);
        answers.datagrams.iter().for_each(|d| check(d));
        let last = answers.datagrams.last().expect("a dump has an end");
        assert_eq!(last[4..6], 3u16.to_ne_bytes(), "a dump of what was taken");
    }
    let table = backend.connections.expect("it was there");
    let saved = table.dump();
    let mut again = Conntrack::with_seed(settings, 2);
    let loaded = again.load(&saved, 1).unwrap_or_else(|e| panic!("{e}: {saved}"));
    assert_eq!(loaded, table.iter().count(), "{saved}");
    let expected = saved.lines().filter(|line| line.starts_with("expect ")).count();
    assert_eq!(again.expectations().count(), expected, "{saved}");
}
