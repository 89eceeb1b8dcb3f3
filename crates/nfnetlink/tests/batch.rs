// SPDX-License-Identifier: Apache-2.0

//! Batches and requests by their bytes: answers, errors, notifications, and bytes that are none.

use penstock_nfnetlink::{Answers, Client, Local, Process, SocketOption};
use penstock_testkit::netfilter::{attribute, be32, message, nested};

const ACK: u16 = 4;
const ECHO: u16 = 8;
const DUMP: u16 = 0x300;
const EXCL: u16 = 0x200;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

const NEWTABLE: u16 = 0xa00;
const GETTABLE: u16 = 0xa01;
const NEWCHAIN: u16 = 0xa03;
const NEWRULE: u16 = 0xa06;
const NEWSET: u16 = 0xa09;
const NEWSETELEM: u16 = 0xa0c;
const GETSETELEM: u16 = 0xa0d;
const NEWGEN: u16 = 0xa0f;
const GETGEN: u16 = 0xa10;
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;

fn batch(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = message(BEGIN, 0, 0, &[]);
    messages.iter().for_each(|message| bytes.extend(message));
    bytes.extend(message(END, 0, 0, &[]));
    bytes
}

fn table(flags: u16) -> Vec<u8> {
    message(NEWTABLE, flags, 1, &[attribute(1, b"t\0")])
}

fn chain() -> Vec<u8> {
    let hook = nested(4, &[be32(1, 1), be32(2, 0)]);
    message(NEWCHAIN, CREATE, 1, &[attribute(1, b"t\0"), attribute(3, b"in\0"), hook])
}

fn set() -> Vec<u8> {
    let attributes = [
        attribute(1, b"t\0"),
        attribute(2, b"s\0"),
        be32(3, 4),
        be32(4, 7),
        be32(5, 4),
        be32(10, 1),
    ];
    message(NEWSET, CREATE, 1, &attributes)
}

/// 10.0.0.0 to 10.255.255.255.
fn elements() -> Vec<u8> {
    let key = |bytes: [u8; 4]| nested(1, &[attribute(1, &bytes)]);
    let first = nested(1, &[key([10, 0, 0, 0])]);
    let end = nested(2, &[be32(3, 1), key([11, 0, 0, 0])]);
    let list = nested(3, &[first, end]);
    message(NEWSETELEM, CREATE, 1, &[attribute(1, b"t\0"), attribute(2, b"s\0"), list])
}

fn expression(name: &[u8], data: &[Vec<u8>]) -> Vec<u8> {
    nested(1, &[attribute(1, name), nested(2, data)])
}

fn rule(table: &[u8]) -> Vec<u8> {
    let verdict = nested(2, &[nested(2, &[be32(1, 1)])]);
    let list = nested(
        4,
        &[
            expression(b"payload\0", &[be32(1, 1), be32(2, 1), be32(3, 12), be32(4, 4)]),
            expression(b"lookup\0", &[be32(2, 1), attribute(1, b"s\0")]),
            expression(b"immediate\0", &[be32(1, 0), verdict]),
        ],
    );
    let attributes = [attribute(1, table), attribute(2, b"in\0"), list];
    message(NEWRULE, CREATE | APPEND, 1, &attributes)
}

fn nft(may_change: bool) -> Process {
    Process { id: 4711, name: "nft".into(), may_change }
}

fn client() -> Client {
    let mut client = Client::new(99);
    client.set_option(SocketOption::ExtAck, true);
    client
}

fn send(datagram: &[u8], backend: &mut Local) -> Answers {
    client().receive(datagram, &nft(true), backend)
}

fn kind(datagram: &[u8]) -> u16 {
    u16::from_ne_bytes([datagram[4], datagram[5]])
}

fn errno(datagram: &[u8]) -> i32 {
    assert_eq!(kind(datagram), 2, "it is an error, or an acknowledgement");
    i32::from_ne_bytes(datagram[16..20].try_into().unwrap())
}

/// Value of `NLMSGERR_ATTR_OFFS`.
fn offset(datagram: &[u8]) -> u32 {
    let last = datagram.len() - 8;
    assert_eq!(datagram[last..last + 4], [8, 0, 2, 0]);
    u32::from_ne_bytes(datagram[last + 4..].try_into().unwrap())
}

#[test]
fn getgen_tells_generation_and_process() {
    let mut backend = Local::default();
    let answers = send(&message(GETGEN, 0, 0, &[]), &mut backend);
    let [answer] = answers.datagrams.as_slice() else { panic!("one answer") };
    assert_eq!((kind(answer), answer.len()), (NEWGEN, 44));
    assert_eq!(answer[12..16], 99u32.to_ne_bytes());
    assert_eq!(answer[20..28], [8, 0, 1, 0, 0, 0, 0, 1]);
    assert_eq!(answer[28..36], [8, 0, 2, 0, 0, 0, 0x12, 0x67]);
    assert_eq!(answer[36..], *b"\x08\0\x03\0nft\0");
}

#[test]
fn batch_counts_whole_or_not_at_all() {
    let mut backend = Local::default();
    let all = [table(CREATE), chain(), set(), elements(), rule(b"t\0")];
    assert_eq!(send(&batch(&all), &mut backend).datagrams, Vec::<Vec<u8>>::new());
    assert_eq!(backend.ruleset.generation().id, 2);
    let generation = backend.ruleset.generation();
    assert_eq!(generation.tables[0].chains[0].rules[0].exprs.len(), 3);
    assert_eq!(generation.tables[0].sets[0].elements().len(), 1);

    let wrong = [rule(b"t\0"), rule(b"u\0"), table(CREATE | EXCL)];
    let answers = send(&batch(&wrong), &mut backend).datagrams;
    assert_eq!(answers.iter().map(|a| errno(a)).collect::<Vec<_>>(), [-2, -17]);
    assert_eq!(answers.iter().map(|a| offset(a)).collect::<Vec<_>>(), [20, 20]);
    assert_eq!(backend.ruleset.generation().id, 2);
    // Without an end nothing counts, and nothing is said.
    let open = [message(BEGIN, 0, 0, &[]), rule(b"t\0")].concat();
    assert_eq!(send(&open, &mut backend), Answers::default());
    assert_eq!(backend.ruleset.generation().id, 2);
}

/// Elements of the set, one by one: a key, and whether it ends an interval.
fn some_elements(all: &[([u8; 4], bool)]) -> Vec<u8> {
    let key = |bytes: &[u8; 4]| nested(1, &[attribute(1, bytes)]);
    let one = |(bytes, end): &([u8; 4], bool)| match end {
        true => nested(1, &[be32(3, 1), key(bytes)]),
        false => nested(1, &[key(bytes)]),
    };
    let list = nested(3, &all.iter().map(one).collect::<Vec<_>>());
    message(NEWSETELEM, CREATE, 1, &[attribute(1, b"t\0"), attribute(2, b"s\0"), list])
}

#[test]
fn an_interval_may_end_in_a_later_message_or_stay_open() {
    let mut backend = Local::default();
    let first = some_elements(&[([0; 4], true), ([10, 0, 0, 0], false)]);
    let then = some_elements(&[([10, 0, 1, 0], true), ([10, 0, 2, 1], false)]);
    let last = some_elements(&[([10, 0, 2, 2], true), ([224, 0, 0, 0], false)]);
    let all = [table(CREATE), set(), first, then, last];
    assert_eq!(send(&batch(&all), &mut backend).datagrams, Vec::<Vec<u8>>::new());
    let generation = backend.ruleset.generation();
    let elements = generation.tables[0].sets[0].elements().into_owned();
    let mut keys: Vec<_> = elements.iter().map(|e| (e.key, e.key_end)).collect();
    keys.sort_unstable();
    let expected: [(&[u8], Option<&[u8]>); 3] = [
        (&[10, 0, 0, 0], Some(&[10, 0, 0, 255])),
        (&[10, 0, 2, 1], None),
        (&[224, 0, 0, 0], Some(&[255, 255, 255, 255])),
    ];
    assert_eq!(keys, expected);
}

/// As google/nftables adds single keys to a set that merges them.
#[test]
fn starts_without_ends_may_come_in_any_order() {
    let mut backend = Local::default();
    let all = [
        table(CREATE),
        set(),
        some_elements(&[([10, 0, 0, 64], false)]),
        some_elements(&[([10, 0, 0, 42], false)]),
    ];
    assert_eq!(send(&batch(&all), &mut backend).datagrams, Vec::<Vec<u8>>::new());
    let elements = backend.ruleset.generation().tables[0].sets[0].elements().into_owned();
    let mut keys: Vec<_> = elements.iter().map(|e| (e.key, e.key_end)).collect();
    keys.sort_unstable();
    let expected: [(&[u8], Option<&[u8]>); 2] =
        [(&[10, 0, 0, 42], Some(&[10, 0, 0, 63])), (&[10, 0, 0, 64], Some(&[255, 255, 255, 255]))];
    assert_eq!(keys, expected);
}

/// libnftnl begins a message with the last start of the one before, or with that whole interval.
#[test]
fn an_interval_may_be_repeated_at_the_start_of_a_message() {
    let mut backend = Local::default();
    let first =
        some_elements(&[([10, 0, 0, 0], false), ([10, 0, 1, 0], true), ([10, 0, 2, 0], false)]);
    let then = some_elements(&[([10, 0, 2, 0], false), ([10, 0, 3, 0], true)]);
    let last = some_elements(&[([10, 0, 2, 0], false), ([10, 0, 3, 0], true)]);
    let all = [table(CREATE), set(), first, then, last];
    assert_eq!(send(&batch(&all), &mut backend).datagrams, Vec::<Vec<u8>>::new());
    let elements = backend.ruleset.generation().tables[0].sets[0].elements().into_owned();
    let mut keys: Vec<_> = elements.iter().map(|e| (e.key, e.key_end)).collect();
    keys.sort_unstable();
    let expected: [(&[u8], Option<&[u8]>); 2] =
        [(&[10, 0, 0, 0], Some(&[10, 0, 0, 255])), (&[10, 0, 2, 0], Some(&[10, 0, 2, 255]))];
    assert_eq!(keys, expected);
}

/// nft 1.1 ends no interval that lasts for ever, and the set of a rule takes no more elements.
#[test]
fn an_open_interval_is_in_its_set_before_the_next_rule() {
    const ANONYMOUS_CONSTANT_INTERVAL: u32 = 1 | 2 | 4;
    let (t, name, id) = (attribute(1, b"t\0"), attribute(2, b"__set%d\0"), 5);
    let flags = be32(3, ANONYMOUS_CONSTANT_INTERVAL);
    let named = [t.clone(), name.clone(), flags, be32(4, 7), be32(5, 4), be32(10, id)];
    let element = nested(1, &[nested(1, &[attribute(1, &[128, 0, 0, 0])])]);
    let elements = [t.clone(), name, be32(4, id), nested(3, &[element])];
    let lookup = [be32(2, 1), attribute(1, b"__set%d\0"), be32(4, id)];
    let exprs = [
        expression(b"payload\0", &[be32(1, 1), be32(2, 1), be32(3, 12), be32(4, 4)]),
        expression(b"lookup\0", &lookup),
    ];
    let rule = [t, attribute(2, b"in\0"), nested(4, &exprs)];
    let all = [
        table(CREATE),
        chain(),
        message(NEWSET, CREATE, 1, &named),
        message(NEWSETELEM, CREATE, 1, &elements),
        message(NEWRULE, CREATE | APPEND, 1, &rule),
    ];
    let mut backend = Local::default();
    assert_eq!(send(&batch(&all), &mut backend).datagrams, Vec::<Vec<u8>>::new());
    let set = backend.ruleset.generation().tables[0].sets[0].clone();
    let elements = set.elements().into_owned();
    let range: Vec<_> = elements.iter().map(|e| (e.key.to_vec(), e.key_end.is_some())).collect();
    assert_eq!(range, [(vec![128, 0, 0, 0], true)]);
}

/// As Linux 6.18 answers: only the object itself may be missing.
#[test]
fn what_is_destroyed_needs_its_table_and_elements_their_set() {
    const ENOENT: i32 = -2;
    let key = nested(1, &[attribute(1, &[1, 2, 3, 4])]);
    let elements = || nested(3, &[nested(1, std::slice::from_ref(&key))]);
    // Message, attributes after that of the table, the answer where the table is there.
    let cases: [(u16, Vec<Vec<u8>>, i32); 9] = [
        (0xa1b, vec![attribute(3, b"none\0")], 0),
        (0xa1c, vec![attribute(2, b"none\0")], 0),
        (0xa1c, vec![attribute(2, b"none\0"), attribute(3, &9u64.to_be_bytes())], 0),
        (0xa1d, vec![attribute(2, b"none\0")], 0),
        (0xa1d, vec![attribute(16, &99u64.to_be_bytes())], 0),
        (0xa1e, vec![attribute(2, b"none\0"), elements()], ENOENT),
        (0xa1f, vec![attribute(2, b"none\0"), be32(3, 1)], 0),
        (0xa1f, vec![attribute(2, b"none\0"), be32(3, 77)], 0),
        (0xa20, vec![attribute(2, b"none\0")], 0),
    ];
    for (there, name) in [(true, b"t\0"), (false, b"u\0")] {
        for (kind, attributes, answer) in &cases {
            let mut backend = Local::default();
            send(&batch(&[table(CREATE)]), &mut backend);
            let mut all = vec![attribute(1, name)];
            all.extend(attributes.iter().cloned());
            let answers = send(&batch(&[message(*kind, ACK, 1, &all)]), &mut backend);
            let expected = if there { *answer } else { ENOENT };
            assert_eq!(errno(&answers.datagrams[0]), expected, "{kind:x} {attributes:x?}");
        }
    }
}

#[test]
fn stale_generation_is_refused() {
    let mut backend = Local::default();
    let begin = |number| message(BEGIN, 0, 0, &[be32(1, number)]);
    let end = message(END, 0, 0, &[]);
    let stale = [begin(9), table(CREATE), end.clone()].concat();
    assert_eq!(errno(&send(&stale, &mut backend).datagrams[0]), -85);
    let fresh = [begin(1), table(CREATE), end].concat();
    assert_eq!(send(&fresh, &mut backend).datagrams.len(), 0);
}

#[test]
fn changes_need_rights_and_queries_do_not() {
    let mut backend = Local::default();
    let answers = client().receive(&batch(&[table(CREATE)]), &nft(false), &mut backend);
    assert_eq!(errno(&answers.datagrams[0]), -1);
    assert_eq!(backend.ruleset.generation().id, 1);
    let answers = client().receive(&message(GETTABLE, DUMP, 0, &[]), &nft(false), &mut backend);
    assert_eq!(answers.datagrams.iter().map(|a| kind(a)).collect::<Vec<_>>(), [3]);
}

#[test]
fn echo_and_acknowledgements_come_in_order() {
    let mut backend = Local::default();
    let answers = send(&batch(&[table(CREATE | ECHO | ACK), chain()]), &mut backend);
    let kinds: Vec<u16> = answers.datagrams.iter().map(|a| kind(a)).collect();
    assert_eq!(kinds, [NEWTABLE, NEWGEN, 2]);
    assert_eq!(errno(&answers.datagrams[2]), 0);
    // Other sockets receive every change, and then the generation.
    let told: Vec<u16> = answers.notifications.iter().map(|n| kind(&n.datagram)).collect();
    assert_eq!(told, [NEWTABLE, NEWGEN]);
    let mut other = Client::new(5);
    assert!(!other.wants(&answers.notifications[0]));
    other.set_membership(7, true);
    assert!(other.wants(&answers.notifications[0]));
    other.bind(5, 0);
    assert!(!other.wants(&answers.notifications[0]));
}

#[test]
fn dumps_fit_into_the_programs_buffer() {
    let mut backend = Local::default();
    let mut all = vec![table(CREATE), chain(), set()];
    all.extend(std::iter::repeat_n(rule(b"t\0"), 500));
    assert_eq!(send(&batch(&all), &mut backend).datagrams, Vec::<Vec<u8>>::new());
    let ask = message(0xa07, DUMP, 1, &[]);
    let mut client = client();
    let small = client.receive(&ask, &nft(true), &mut backend).datagrams;
    assert!(small.iter().all(|datagram| datagram.len() <= 3776));
    client.receives_into(1 << 20);
    let large = client.receive(&ask, &nft(true), &mut backend).datagrams;
    assert!(large.len() < small.len());
    assert!(large.iter().all(|datagram| datagram.len() <= 32 << 10));
    assert_eq!(large.concat(), small.concat());
}

/// Whether bytes are whole messages, one after the other.
fn is_sound(datagram: &[u8]) -> bool {
    let mut rest = datagram;
    while !rest.is_empty() {
        let Some(len) = rest.first_chunk().map(|b| u32::from_ne_bytes(*b) as usize) else {
            return false;
        };
        if len < 16 || len > rest.len() {
            return false;
        }
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
    }
    true
}

#[test]
fn any_bytes_are_answered_with_whole_messages() {
    let mut rng = fastrand::Rng::with_seed(17);
    let getset = [attribute(1, b"t\0"), attribute(2, b"s\0")];
    let right = [
        batch(&[table(CREATE), chain(), set(), elements(), rule(b"t\0")]),
        batch(&[set(), elements(), elements(), rule(b"t\0"), message(0xa02, 0, 0, &[])]),
        message(GETSETELEM, DUMP, 1, &getset),
        message(0xa07, DUMP, 0, &[]),
        message(GETGEN, ACK, 0, &[]),
    ];
    let mut backend = Local::default();
    for round in 0..30_000 {
        let mut bytes = match rng.usize(..right.len() + 1) {
            n if n < right.len() => right[n].clone(),
            _ => std::iter::repeat_with(|| rng.u8(..)).take(64).collect(),
        };
        for _ in 0..rng.usize(..6) {
            let at = rng.usize(..bytes.len());
            match rng.u8(..4) {
                0 => bytes[at] = rng.u8(..),
                1 => bytes[at] ^= 1 << rng.u8(..8),
                2 => bytes.truncate(at.max(1)),
                _ => drop(bytes.splice(at..at, [0, rng.u8(..)])),
            }
        }
        let answers = send(&bytes, &mut backend);
        assert!(answers.datagrams.iter().all(|d| is_sound(d)), "round {round}: {bytes:02x?}");
        assert!(answers.notifications.iter().all(|n| is_sound(&n.datagram)));
        if backend.ruleset.generation().tables.len() > 20 {
            backend = Local::default();
        }
    }
}

/// Printed, not checked: how the time of a batch grows with its rules.
#[test]
#[ignore = "for a look at how it scales"]
fn large_batches_take_linear_time() {
    for count in [5_000, 10_000] {
        let anonymous = |n: u32| {
            let set = [
                attribute(1, b"t\0"),
                attribute(2, b"__set%d\0"),
                be32(3, 3),
                be32(4, 7),
                be32(5, 4),
                be32(10, n),
            ];
            let lookup = [attribute(1, b"__set%d\0"), be32(2, 1), be32(4, n)];
            let list = nested(
                4,
                &[
                    expression(b"payload\0", &[be32(1, 1), be32(2, 1), be32(3, 12), be32(4, 4)]),
                    expression(b"lookup\0", &lookup),
                ],
            );
            let rule = [attribute(1, b"t\0"), attribute(2, b"in\0"), list];
            [message(NEWSET, CREATE, 1, &set), message(NEWRULE, CREATE | APPEND, 1, &rule)].concat()
        };
        let mut all = vec![table(CREATE), chain()];
        all.extend((1..=count).map(anonymous));
        let mut backend = Local::default();
        let begin = std::time::Instant::now();
        assert_eq!(send(&batch(&all), &mut backend).datagrams, Vec::<Vec<u8>>::new());
        let loaded = begin.elapsed();
        let dumped = send(&message(0xa07, DUMP, 1, &[]), &mut backend).datagrams.len();
        println!("{count} rules: {loaded:?}, dump {:?} ({dumped})", begin.elapsed() - loaded);
    }
}
