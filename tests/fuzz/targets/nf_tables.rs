// SPDX-License-Identifier: Apache-2.0

//! What programs send to the kernel's netfilter.

use penstock_nfnetlink::{Client, Local, Process};
use penstock_testkit::netfilter::{attribute, be32, message};

use super::Target;
use crate::datagrams::{self, check, check_dump, with_lengths};
use crate::mutate;

pub const TARGET: Target = Target {
    name: "nf_tables",
    bytes: "datagrams of NETLINK_NETFILTER, each with its length in two bytes before it",
    holds: "answers are whole messages; a batch counts whole or not at all; what was taken is dumped",
    longest: 4096,
    seeds,
    make: mutate::bytes,
    run,
};

fn seeds() -> Vec<Vec<u8>> {
    const CREATE: u16 = 0x400;
    const APPEND: u16 = 0x800;
    const DUMP: u16 = 0x300;
    let expression = |name: &[u8], data: &[Vec<u8>]| {
        attribute(1, &[attribute(1, name), attribute(2, &data.concat())].concat())
    };
    let table = message(0xa00, CREATE, 1, &[attribute(1, b"t\0")]);
    let hook = attribute(4, &[be32(1, 1), be32(2, 0)].concat());
    let chain = message(0xa03, CREATE, 1, &[attribute(1, b"t\0"), attribute(3, b"c\0"), hook]);
    let set = [
        attribute(1, b"t\0"),
        attribute(2, b"s\0"),
        be32(3, 4),
        be32(4, 7),
        be32(5, 4),
        be32(10, 1),
    ];
    let set = message(0xa09, CREATE, 1, &set);
    let key = attribute(1, &attribute(1, &attribute(1, &[10, 0, 0, 0])));
    let elements = [attribute(1, b"t\0"), attribute(2, b"s\0"), attribute(3, &key)];
    let elements = message(0xa0c, CREATE, 1, &elements);
    let exprs = [
        expression(b"payload\0", &[be32(1, 1), be32(2, 1), be32(3, 12), be32(4, 4)]),
        expression(b"lookup\0", &[be32(2, 1), attribute(1, b"s\0")]),
        expression(b"counter\0", &[]),
        expression(b"immediate\0", &[be32(1, 0), attribute(2, &attribute(2, &be32(1, 1)))]),
    ];
    let rule = [attribute(1, b"t\0"), attribute(2, b"c\0"), attribute(4, &exprs.concat())];
    let rule = message(0xa06, CREATE | APPEND, 1, &rule);
    let object = [attribute(1, b"t\0"), attribute(2, b"o\0"), be32(3, 1), attribute(4, &[])];
    let object = message(0xa12, CREATE, 1, &object);
    let (begin, end) = (message(0x10, 0, 0, &[]), message(0x11, 0, 0, &[]));
    let all = [begin, table, chain, set, elements, rule, object, end].concat();
    let dump = |kind| message(kind, DUMP, 1, &[attribute(1, b"t\0"), attribute(2, b"s\0")]);
    vec![
        with_lengths(std::slice::from_ref(&all)),
        with_lengths(&[all, dump(0xa07), dump(0xa0d), dump(0xa0a), dump(0xa13)]),
        with_lengths(&[message(0xa10, 4, 0, &[])]),
        with_lengths(&objects()),
    ]
}

/// Requests of nfacct and cttimeout.
fn objects() -> Vec<Vec<u8>> {
    const CREATE: u16 = 0x404;
    let name = attribute(1, b"a\0");
    let quota = [name.clone(), be32(5, 1), attribute(6, &[0, 0, 0, 0, 0, 0, 0, 9])];
    let one = [name.clone()];
    let filter = attribute(7, &[be32(1, 3), be32(2, 1)].concat());
    let seconds = attribute(4, &[be32(1, 5), be32(3, 44)].concat());
    let timeout = [name, attribute(2, &[0, 2]), attribute(3, &[6]), seconds];
    vec![
        message(0x700, CREATE, 0, &quota),
        message(0x701, 0x300, 0, &[filter]),
        [message(0x702, 4, 0, &one), message(0x703, 4, 0, &one)].concat(),
        message(0x800, CREATE, 0, &timeout),
        message(0x800, 0x104, 0, &timeout),
        message(0x801, 0x300, 0, &[]),
        [message(0x802, 4, 0, &one), message(0x802, 4, 0, &[])].concat(),
    ]
}

fn run(data: &[u8]) {
    let mut backend = Local::default();
    let mut client = Client::new(1);
    let process = Process { id: 1, name: "fuzz".into(), may_change: true };
    for datagram in datagrams::of(data) {
        let before = backend.ruleset.generation().id;
        let answers = client.receive(datagram, &process, &mut backend);
        answers.datagrams.iter().for_each(|d| check(d));
        answers.notifications.iter().for_each(|n| check(&n.datagram));
        let after = backend.ruleset.generation().id;
        let is_batch = datagram.get(4..6) == Some(&[0x10, 0]);
        assert!(!is_batch || after <= before + 1, "one datagram is one batch");
    }
    for kind in [0x701, 0x801, 0xa01, 0xa04, 0xa07, 0xa0a, 0xa13, 0xa17u16] {
        let dump = message(kind, 0x300, 0, &[]);
        let answers = client.receive(&dump, &process, &mut backend);
        check_dump(&answers.datagrams);
    }
}
