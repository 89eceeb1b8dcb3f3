// SPDX-License-Identifier: Apache-2.0

//! Sets that packets change: rules as nft writes them in debug text, and several workers at once.

use std::sync::Arc;

use penstock_packet::Packet;
use penstock_program::Family;
use penstock_program::dynamic::DynamicSet;
use penstock_program::expr::{
    Counter, Dynset, DynsetOp, Expr, Limit, LimitType, Quota, set_statements,
};
use penstock_program::image::{ChainIndex, Image, LinkedElements, LinkedSet};
use penstock_program::{Hook, Outcome, Register, run};
use penstock_testkit::program::{MockEnv, Table, parse};

const MS: u64 = 1_000_000;

fn counter() -> Expr {
    Expr::Counter(Counter::default())
}

fn limit(rate: u64, burst: u32) -> Expr {
    Expr::Limit(Limit { rate, unit: 3600, burst, kind: LimitType::Packets, over: false })
}

/// A set of marks.
fn set(size: u32, exprs: &[Expr]) -> Arc<DynamicSet> {
    Arc::new(DynamicSet::new(4, None, size, &set_statements(exprs)))
}

/// One rule, which accepts unless it breaks: the change of set `s` for the packet's mark.
fn image(set: &Arc<DynamicSet>, op: DynsetOp, timeout: u64, exprs: Vec<Expr>) -> Image {
    let mut program = parse::program("[ meta load mark => reg 1 ]").unwrap();
    program.push(Expr::Dynset(Dynset {
        set: "s".into(),
        op,
        sreg_key: Register(1),
        sreg_data: None,
        timeout,
        invert: false,
        exprs,
    }));
    linked(set, program)
}

fn linked(set: &Arc<DynamicSet>, mut program: Vec<Expr>) -> Image {
    program.extend(parse::program("[ immediate reg 0 accept ]").unwrap());
    let mut table = Table::of(vec![program]);
    let elements = LinkedElements::Dynamic { set: set.clone(), timeout: 0, gc_interval: 1_000 };
    table.sets.insert("s".into(), LinkedSet { elements, key_len: 4, value_len: None });
    table.link(Family::Ip).unwrap().0
}

fn matches(image: &Image, mark: u32, now: u64) -> bool {
    let mut packet = Packet::new();
    packet.meta.mark = mark;
    packet.meta.time = now;
    run(image, ChainIndex(0), &mut packet, &mut MockEnv::at(Family::Ip, Hook::Input))
        == Outcome::Accept
}

/// The statements of an element with their values.
fn shown(set: &Arc<DynamicSet>, mark: u32, now: u64) -> Option<Vec<String>> {
    let element = set.current(now).into_iter().find(|e| *e.key == mark.to_ne_bytes())?;
    let state = |statement| penstock_program::State::InSet {
        set: set.clone(),
        slot: element.slot,
        statement,
    };
    Some(
        element
            .statements
            .iter()
            .enumerate()
            .map(|(i, statement)| Expr::from(statement).snapshot(&state(i), now).to_string())
            .collect(),
    )
}

#[test]
fn add_inserts_once_update_renews_and_delete_removes() {
    let s = set(2, &[]);
    let [add, update, delete] =
        [DynsetOp::Add, DynsetOp::Update, DynsetOp::Delete].map(|op| image(&s, op, 10, vec![]));
    let lookup = parse::program("[ meta load mark => reg 1 ]\n[ lookup reg 1 set s ]").unwrap();
    let lookup = linked(&s, lookup);
    let steps = [
        // Rule, mark, milliseconds, whether it matches.
        (&lookup, 1, 0, false),
        (&add, 1, 0, true),
        (&lookup, 1, 9, true),
        (&add, 1, 9, true),
        (&lookup, 1, 10, false),
        (&add, 1, 10, true),
        (&update, 1, 15, true),
        (&lookup, 1, 24, true),
        (&lookup, 1, 25, false),
        // Full: the rule breaks, but not for what is there.
        (&add, 2, 30, true),
        (&update, 3, 30, true),
        (&update, 4, 31, false),
        (&update, 3, 31, true),
        (&delete, 4, 31, true),
        // What has expired makes room.
        (&add, 4, 40, true),
        (&delete, 4, 40, true),
        (&lookup, 4, 40, false),
    ];
    for (i, (image, mark, ms, expected)) in steps.into_iter().enumerate() {
        assert_eq!(matches(image, mark, ms * MS), expected, "step {i}");
    }
}

#[test]
fn statements_of_an_element_are_those_of_the_rule_that_added_it() {
    let s = set(10, &[]);
    let quota = Expr::Quota(Quota { bytes: 100, over: false, consumed: 0, depleted: false });
    let twice = image(&s, DynsetOp::Add, 0, vec![counter(), limit(1, 2)]);
    let plain = image(&s, DynsetOp::Update, 0, vec![]);
    let quotas = image(&s, DynsetOp::Add, 0, vec![quota]);
    assert_eq!([0, 1, 2, 3].map(|_| matches(&twice, 1, 0)), [true, true, false, false]);
    // A statement that breaks does so for every rule, after those before it.
    assert!(!matches(&plain, 1, 0) && !matches(&quotas, 1, 0));
    assert_eq!(shown(&s, 1, 0).unwrap()[0], "[ counter pkts 6 bytes 0 ]");
    assert!(matches(&plain, 2, 0) && matches(&quotas, 3, 0));
    assert_eq!(shown(&s, 2, 0).unwrap(), Vec::<String>::new());
    assert_eq!(shown(&s, 3, 0).unwrap(), ["[ quota bytes 100 consumed 0 flags 0 ]"]);
    // An hour later there is a token for each.
    assert!(matches(&twice, 1, 3_600_000 * MS));
}

#[test]
fn workers_share_a_set_without_losing_a_count() {
    const WORKERS: u32 = 4;
    const PACKETS: u32 = 20_000;
    let s = set(8, &[counter(), limit(1, 50)]);
    let image = image(&s, DynsetOp::Update, 3_600_000, vec![]);
    let matched: u32 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|w| {
                let image = &image;
                scope.spawn(move || {
                    (0..PACKETS).map(|i| u32::from(matches(image, (i + w) % 8, MS))).sum::<u32>()
                })
            })
            .collect();
        workers.into_iter().map(|w| w.join().expect("no worker panics")).sum()
    });
    // Every packet is counted by its element, and every element lets as many pass as its limit
    // says.
    assert_eq!(matched, 8 * 50);
    for mark in 0..8 {
        let expected = format!("[ counter pkts {} bytes 0 ]", WORKERS * PACKETS / 8);
        assert_eq!(shown(&s, mark, MS).unwrap()[0], expected);
    }
    assert_eq!(s.len(), 8);
}

#[test]
fn restored_elements_live_as_long_as_was_told() {
    let set = set(2, &[]);
    let image = image(&set, DynsetOp::Delete, 0, Vec::new());
    let key = |mark: u32| mark.to_ne_bytes();
    let there = |now: u64| set.current(now).iter().map(|e| e.expires_at).collect::<Vec<_>>();
    // Of other lengths, or without place, there is none.
    for wrong in [&[][..], &[1; 3], &[1; 5]] {
        assert!(!set.restore(wrong, &[], 0, None, 0));
    }
    assert!(!set.restore(&key(1), &[1], 0, None, 0));
    assert!(set.restore(&key(1), &[], 1000, Some(500 * MS), 0));
    assert!(set.restore(&key(2), &[], 0, None, 0));
    assert!(!set.restore(&key(3), &[], 0, None, 0));
    // It is there already: the expiry that is told last counts.
    assert!(set.restore(&key(1), &[], 1000, Some(700 * MS), 100 * MS));
    assert_eq!(there(600 * MS).len(), 2);
    assert!(there(600 * MS).contains(&Some(700 * MS)));
    assert_eq!(there(701 * MS), [None]);
    // Packets change it as any other element.
    assert!(matches(&image, 2, 800 * MS));
    assert_eq!(there(801 * MS), []);
    // Data of a map is replaced.
    let map = DynamicSet::new(4, Some(2), 4, &[]);
    for data in [[1, 2], [3, 4]] {
        assert!(map.restore(&key(7), &data, 0, None, 0));
        assert_eq!(map.current(1).iter().map(|e| e.data.clone()).collect::<Vec<_>>(), [data]);
    }
}
