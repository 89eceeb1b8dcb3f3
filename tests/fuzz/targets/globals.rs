// SPDX-License-Identifier: Apache-2.0

//! What programs send about objects that are in no table: accounts, timeout policies, helpers,
//! fingerprints; and what they ask of extensions and hooks.

use std::sync::Arc;

use penstock_nfnetlink::{Client, Local, Process};
use penstock_ruleset::Ruleset;
use penstock_testkit::netfilter::{self, attribute, be32, nested};

use super::Target;
use crate::datagrams::{self, check, check_dump, with_lengths};
use crate::mutate;

pub const TARGET: Target = Target {
    name: "globals",
    bytes: "datagrams of nfacct, cttimeout, cthelper, osf, nft_compat and nfnetlink_hook, each with \
            its length in two bytes before it",
    holds: "answers are whole messages; what was made can be listed, and is the same after it was \
            saved and restored",
    longest: 4096,
    seeds,
    make: mutate::bytes,
    run,
};

const ACCOUNTS: u16 = 7 << 8;
const TIMEOUTS: u16 = 8 << 8;
const HELPERS: u16 = 9 << 8;
const SYSTEMS: u16 = 5 << 8;
const COMPAT: u16 = 11 << 8;
const HOOKS: u16 = 12 << 8;

const DUMP: u16 = 0x300;

/// A request that is acknowledged.
fn message(kind: u16, flags: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    const ACK: u16 = 4;
    netfilter::message(kind, ACK | flags, 0, attributes)
}

fn name(text: &str) -> Vec<u8> {
    attribute(1, format!("{text}\0").as_bytes())
}

fn seeds() -> Vec<Vec<u8>> {
    const CREATE: u16 = 0x400;
    const REPLACE: u16 = 0x100;
    let eight = |kind: u16, value: u64| attribute(kind, &value.to_be_bytes());
    let account = message(
        ACCOUNTS,
        CREATE,
        &[name("a"), eight(2, 7), eight(3, 700), be32(5, 4), eight(6, 9)],
    );
    let policy = nested(4, &[be32(1, 100), be32(2, 60)]);
    let timeout = |flags| {
        let of = [name("t"), attribute(2, &[0, 2]), attribute(3, &[6]), policy.clone()];
        message(TIMEOUTS, flags, &of)
    };
    let of = nested(2, &[attribute(1, &[0, 2]), attribute(2, &[17])]);
    let class = nested(2, &[name("main"), be32(2, 4), be32(3, 100)]);
    let classes = nested(4, &[be32(1, 1), class]);
    let new = [name("h"), of.clone(), classes, be32(5, 4), be32(3, 9), be32(6, 1)];
    let mut finger = vec![0; 592];
    finger[8] = 64;
    finger[10] = 60;
    finger[14] = 2;
    finger[16..21].copy_from_slice(b"Linux");
    let system = message(SYSTEMS, CREATE, &[attribute(1, &finger)]);
    let known = [name("conntrack"), be32(2, 3), be32(3, 0)];
    vec![
        with_lengths(&[
            account.clone(),
            account,
            message(ACCOUNTS | 1, DUMP, &[nested(7, &[be32(1, 4), be32(2, 4)])]),
            message(ACCOUNTS | 2, 0, &[name("a")]),
            message(ACCOUNTS | 3, 0, &[name("a")]),
        ]),
        with_lengths(&[
            timeout(CREATE),
            timeout(REPLACE),
            message(TIMEOUTS | 1, 0, &[name("t")]),
            message(TIMEOUTS | 4, 0, &[attribute(2, &[0, 2]), attribute(3, &[6])]),
            message(TIMEOUTS | 2, 0, &[]),
        ]),
        with_lengths(&[
            message(HELPERS, CREATE, &new),
            message(HELPERS, CREATE, &[name("h"), of.clone(), be32(3, 5), be32(6, 0)]),
            message(HELPERS | 1, 0, std::slice::from_ref(&of)),
            message(HELPERS | 1, DUMP, &[]),
            message(HELPERS | 2, 0, &[name("h")]),
        ]),
        with_lengths(&[system, message(SYSTEMS | 1, 0, &[attribute(1, &finger)])]),
        with_lengths(&[
            message(COMPAT, 0, &known),
            message(HOOKS, DUMP, &[attribute(1, b"lo\0"), be32(2, 0)]),
        ]),
    ]
}

/// What is listed: of accounts, timeout policies and helpers.
fn listed(client: &mut Client, ruleset: Ruleset) -> (Vec<Vec<u8>>, Ruleset) {
    let mut backend = Local { ruleset, ..Local::default() };
    let process = Process { id: 1, name: "fuzz".into(), may_change: true };
    let mut all = Vec::new();
    for kind in [ACCOUNTS | 1, TIMEOUTS | 1, HELPERS | 1] {
        let answers = client.receive(&message(kind, DUMP, &[]), &process, &mut backend);
        check_dump(&answers.datagrams);
        all.extend(answers.datagrams);
    }
    (all, backend.ruleset)
}

fn run(data: &[u8]) {
    let mut backend = Local::default();
    let mut client = Client::new(1);
    let process = Process { id: 1, name: "fuzz".into(), may_change: true };
    for datagram in datagrams::of(data) {
        let answers = client.receive(datagram, &process, &mut backend);
        let told = answers.before.iter().chain(&answers.notifications);
        told.for_each(|n| check(&n.datagram));
        answers.datagrams.iter().for_each(|d| check(d));
    }
    let fingerprints = Arc::clone(&backend.ruleset.generation()).globals.fingerprints.clone();
    let (before, ruleset) = listed(&mut client, backend.ruleset);
    let again = Ruleset::from_saved(&ruleset.save(1)).expect("what was saved is restored");
    assert_eq!(again.generation().globals.fingerprints, fingerprints);
    assert_eq!(listed(&mut client, again).0, before);
}
