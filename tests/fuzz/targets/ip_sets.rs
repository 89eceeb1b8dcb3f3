// SPDX-License-Identifier: Apache-2.0

//! What programs send about sets of ipset.

use penstock_ipset::IpSets;
use penstock_nfnetlink::{Client, Local, Process};
use penstock_testkit::netfilter::{self, attribute, be32, nested};

use super::Target;
use crate::datagrams::{self, check, check_dump, with_lengths};
use crate::mutate;

pub const TARGET: Target = Target {
    name: "ip_sets",
    bytes: "datagrams of ipset, each with its length in two bytes before it",
    holds: "answers are whole messages; sets that were made can be listed, saved and restored",
    longest: 2048,
    seeds,
    make: mutate::bytes,
    run,
};

/// A request that is acknowledged.
fn message(command: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    const ACK: u16 = 4;
    const EXCL: u16 = 0x200;
    let protocol = vec![attribute(1, &[7])];
    netfilter::message(6 << 8 | command, ACK | EXCL, 2, &[&protocol, attributes].concat())
}

fn text(kind: u16, text: &str) -> Vec<u8> {
    attribute(kind, format!("{text}\0").as_bytes())
}

fn address(kind: u16, address: [u8; 4]) -> Vec<u8> {
    nested(kind, &[attribute(1, &address)])
}

fn create(name: &str, kind: &str, revision: u8, family: u8, options: &[Vec<u8>]) -> Vec<u8> {
    let of_type = [text(3, kind), attribute(4, &[revision]), attribute(5, &[family])];
    message(2, &[&[text(2, name)], &of_type[..], &[nested(7, options)]].concat())
}

fn add(name: &str, element: &[Vec<u8>]) -> Vec<u8> {
    message(9, &[text(2, name), nested(7, element)])
}

fn seeds() -> Vec<Vec<u8>> {
    const V4: u8 = 2;
    let all = be32(8, 0x58);
    let net = [address(1, [198, 18, 0, 0]), attribute(3, &[24])];
    let port = [attribute(4, &[0, 80]), attribute(5, &[0, 82]), attribute(7, &[6])];
    let range = [address(1, [198, 18, 0, 1]), address(2, [198, 18, 0, 9])];
    let list = message(7, &[]);
    vec![
        with_lengths(&[
            create("a", "hash:net", 7, V4, &[all.clone(), be32(6, 60)]),
            add("a", &[&net[..], &[text(26, "x")]].concat()),
            message(11, &[text(2, "a"), nested(7, &[address(1, [198, 18, 0, 7])])]),
            list.clone(),
        ]),
        with_lengths(&[
            create("b", "hash:ip,port,net", 8, V4, &[be32(19, 100)]),
            add("b", &[&range[..], &port, &[address(20, [10, 0, 0, 0])]].concat()),
            message(10, &[text(2, "b"), be32(9, 3), nested(8, &[nested(7, &net)])]),
            list.clone(),
        ]),
        with_lengths(&[
            create("c", "bitmap:ip,mac", 3, V4, &range),
            add("c", &[address(1, [198, 18, 0, 2]), attribute(17, &[2, 0, 0, 0, 0, 1])]),
            create("d", "list:set", 3, 0, &[]),
            add("d", &[text(18, "c")]),
            message(5, &[text(2, "c"), text(3, "e")]),
            message(6, &[text(2, "c"), text(3, "d")]),
            list,
        ]),
        with_lengths(&[
            create("f", "hash:net,iface", 8, V4, &[all]),
            add("f", &[&net[..], &[text(23, "lan"), be32(8, 0x80)]].concat()),
            message(4, &[]),
            message(3, &[]),
        ]),
    ]
}

fn run(data: &[u8]) {
    let mut backend = Local { now: 1, ..Local::default() };
    let mut client = Client::new(1);
    let process = Process { id: 1, name: "fuzz".into(), may_change: true };
    for datagram in datagrams::of(data) {
        let answers = client.receive(datagram, &process, &mut backend);
        answers.datagrams.iter().for_each(|d| check(d));
    }
    let answers = client.receive(&message(7, &[]), &process, &mut backend);
    check_dump(&answers.datagrams);
    let saved = backend.ruleset.ip_sets().save(1, 0);
    let again = IpSets::default();
    again.restore(&saved, 1).unwrap_or_else(|e| panic!("{e:?}: {saved:?}"));
    assert_eq!(again.save(1, 0).len(), saved.len());
}
