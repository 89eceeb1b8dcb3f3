// SPDX-License-Identifier: Apache-2.0

//! Sets that packets change, from the control path: what a transaction sees, keeps and takes away.

mod changes;

use std::collections::BTreeMap;
use std::sync::Arc;

use changes::*;
use fastrand::Rng;
use penstock_packet::Packet;
use penstock_program::expr::*;
use penstock_program::{Family, Outcome, Register, Verdict, run};
use penstock_ruleset::change::NewSet;
use penstock_ruleset::link::Linked;
use penstock_ruleset::model::*;
use penstock_ruleset::{Change, Errno, Ruleset};
use penstock_sets::Element;
use penstock_testkit::program::MockEnv;

const MS: u64 = 1_000_000;
/// A sweep of the kernel: so long the place of what a rule deleted stays taken.
const SWEEP: u64 = 1_000 * MS;

/// One chain per operation, its rule accepts unless it breaks.
const CHAINS: [(&str, Option<DynsetOp>); 4] = [
    ("add", Some(DynsetOp::Add)),
    ("update", Some(DynsetOp::Update)),
    ("delete", Some(DynsetOp::Delete)),
    ("lookup", None),
];

fn dynset(op: DynsetOp, timeout: u64) -> Expr {
    let (set, sreg_key) = ("s".into(), Register(1));
    Expr::Dynset(Dynset {
        set,
        op,
        sreg_key,
        sreg_data: None,
        timeout,
        invert: false,
        exprs: vec![],
    })
}

fn mark() -> Expr {
    Expr::Meta(Meta { key: MetaKey::Mark, dreg: Register(1) })
}

/// A rule that does something with the mark of a packet, and accepts it then.
fn by_mark(chain: &str, does: Expr) -> Change {
    let mut change = rule(IP, chain, vec![mark(), does, verdict(Verdict::Accept)]);
    if let Change::AddRule { rule, .. } = &mut change {
        // These packets have nothing to load an address from.
        rule.exprs.retain(|e| !matches!(e, Expr::Payload(_)));
    }
    change
}

/// Elements live for 100 ms if they come from rules.
fn setup(size: u32, before: Vec<Change>) -> Ruleset {
    let mut set = NewSet { exprs: vec![counter()], ..new_set("s") };
    set.description.dynamic = true;
    set.description.timeout = true;
    set.description.size = Some(size);
    let mut all = vec![table(IP), add_set(set)];
    all.extend(before);
    for (name, op) in CHAINS {
        let does = op.map_or(lookup("s"), |op| dynset(op, 100));
        all.push(base(IP, name, ChainType::Filter, Hook::Input));
        all.push(by_mark(name, does));
    }
    made_of(all)
}

/// Sends a packet through a chain; whether it matched.
fn packet(linked: &Linked, chain: &str, n: u32, now: u64) -> bool {
    let mut packet = Packet::new();
    packet.meta.mark = u32::from_ne_bytes(n.to_be_bytes());
    packet.meta.time = now;
    let mut outside = MockEnv::at(Family::Ip, penstock_program::Hook::Input);
    let is_it = |b: &&penstock_ruleset::link::LinkedBase| {
        linked.image.chain(b.chain).is_some_and(|c| &*c.name == chain)
    };
    let base = linked.bases.iter().find(is_it).expect("the chain is there");
    run(&linked.image, base.chain, &mut packet, &mut outside) == Outcome::Accept
}

fn the_set(ruleset: &Ruleset) -> Arc<Set> {
    ruleset.generation().tables[0].sets[0].clone()
}

/// Key, own timeout, end and count of what is there.
fn listed(ruleset: &Ruleset, now: u64) -> BTreeMap<u32, (Option<u64>, Option<u64>, u64)> {
    let set = the_set(ruleset);
    let all = set.elements();
    let alive = all.iter().filter(|e| e.is_alive(now));
    let values = alive.map(|e| {
        let key = u32::from_be_bytes(e.key[..].try_into().expect("keys have four bytes"));
        let packets = match &e.value.snapshot(now)[..] {
            [Expr::Counter(c)] => c.packets,
            other => panic!("one counter, not {other:?}"),
        };
        (key, (e.value.timeout(), e.expires_at, packets))
    });
    values.collect()
}

fn at(ruleset: &mut Ruleset, now: u64, changes: Vec<Change>) -> Result<(), Errno> {
    let mut batch = ruleset.begin_at(now);
    for change in changes {
        batch.apply(change).map_err(|e| e.errno)?;
    }
    ruleset.commit(batch).map_err(|e| e.errno)
}

#[test]
fn elements_added_by_packets_are_listed_kept_and_deletable() {
    let mut ruleset = setup(10, vec![]);
    let linked = Linked::new(&ruleset.generation()).unwrap();
    assert!(packet(&linked, "add", 1, 5 * MS) && packet(&linked, "add", 2, 6 * MS));
    assert!(packet(&linked, "lookup", 1, 7 * MS));
    assert_eq!(
        listed(&ruleset, 8 * MS),
        [(1, (Some(100), Some(105 * MS), 2)), (2, (Some(100), Some(106 * MS), 1))].into()
    );
    at(&mut ruleset, 9 * MS, vec![chain(IP, "other")]).unwrap();
    let linked = linked.next(&ruleset.generation()).unwrap();
    assert!(packet(&linked, "lookup", 1, 9 * MS));
    at(
        &mut ruleset,
        10 * MS,
        vec![delete_elements("s", Some(vec![key(1)])), add_elements("s", vec![key(7)])],
    )
    .unwrap();
    // Programs of the generation before see it, too.
    assert!(!packet(&linked, "lookup", 1, 11 * MS) && packet(&linked, "lookup", 7, 11 * MS));
    assert_eq!(
        at(&mut ruleset, 12 * MS, vec![delete_elements("s", Some(vec![key(1)]))]),
        Err(Errno::Enoent)
    );
    assert_eq!(
        at(&mut ruleset, 12 * MS, vec![create(add_elements("s", vec![key(2)]))]),
        Err(Errno::Eexist)
    );
    at(&mut ruleset, 13 * MS, vec![delete_elements("s", None)]).unwrap();
    assert!(listed(&ruleset, 13 * MS).is_empty() && !packet(&linked, "lookup", 2, 13 * MS));
}

#[test]
fn a_failed_batch_changes_nothing() {
    let mut ruleset = setup(3, vec![]);
    let linked = Linked::new(&ruleset.generation()).unwrap();
    assert!(packet(&linked, "add", 1, MS));
    let before = listed(&ruleset, MS);
    let deleted = delete_elements("s", Some(vec![key(1)]));
    // A refused change is undone alone; a dropped batch has no effect.
    let mut batch = ruleset.begin_at(2 * MS);
    batch.apply(deleted.clone()).unwrap();
    batch.apply(create(add_elements("s", vec![key(5), key(6), key(5)]))).unwrap_err();
    batch.apply(add_elements("s", vec![key(8), key(9)])).unwrap();
    assert!(!packet(&linked, "add", 3, 2 * MS), "the places are reserved");
    drop(batch);
    assert_eq!(listed(&ruleset, MS), before);
    assert!(packet(&linked, "add", 3, 2 * MS) && packet(&linked, "add", 4, 2 * MS));
    assert!(!packet(&linked, "add", 5, 2 * MS));
    // What a refused change deleted has still its count.
    let mut batch = ruleset.begin_at(3 * MS);
    batch.apply(delete_elements("s", Some(vec![key(1), key(77)]))).unwrap_err();
    batch.apply(chain(IP, "other")).unwrap();
    ruleset.commit(batch).unwrap();
    assert_eq!(listed(&ruleset, 3 * MS).get(&1), before.get(&1));
    assert_eq!(at(&mut ruleset, 3 * MS, vec![add_elements("s", vec![key(9)])]), Err(Errno::Enfile));
    at(&mut ruleset, 3 * MS, vec![deleted, add_elements("s", vec![key(9)])]).unwrap();
    assert_eq!(listed(&ruleset, 3 * MS).into_keys().collect::<Vec<_>>(), [3, 4, 9]);
}

#[test]
fn elements_keep_their_state_when_a_rule_makes_the_set_dynamic() {
    let mut commented = key(1);
    commented.value.change_extras(|extras| {
        extras.userdata = Some(Arc::from(*b"why"));
        extras.exprs = vec![Expr::Counter(Counter { packets: 5, bytes: 50 })];
    });
    let catch_all = Element { key: Box::default(), ..key(0) };
    let mut ruleset = setup(2, vec![add_elements("s", vec![commented, catch_all])]);
    let linked = Linked::new(&ruleset.generation()).unwrap();
    assert!(packet(&linked, "lookup", 1, MS) && packet(&linked, "lookup", 99, MS));
    let shown = |ruleset: &Ruleset| -> Vec<_> {
        let set = the_set(ruleset);
        let all = set.elements();
        let of = |e: penstock_sets::ElementRef<'_, ElementValue>| {
            (e.key.to_vec(), e.value.userdata().cloned(), e.value.snapshot(MS)[0].to_string())
        };
        all.iter().map(of).collect()
    };
    assert_eq!(
        shown(&ruleset),
        [
            (vec![0, 0, 0, 1], Some(Arc::from(*b"why")), "[ counter pkts 6 bytes 50 ]".into()),
            (vec![], None, "[ counter pkts 1 bytes 0 ]".into())
        ]
    );
    // Who comes again through a rule has no comment, and counts from one.
    assert!(packet(&linked, "delete", 1, MS) && packet(&linked, "add", 1, MS + SWEEP));
    at(&mut ruleset, 2 * MS, vec![chain(IP, "other")]).unwrap();
    assert_eq!(shown(&ruleset)[0], (vec![0, 0, 0, 1], None, "[ counter pkts 1 bytes 0 ]".into()));
}

#[test]
fn a_set_made_dynamic_by_a_rule_survives_repeated_save_and_load() {
    let mut set = NewSet { exprs: vec![counter()], ..new_set("s") };
    set.description.size = None;
    let mut ruleset = made_of(vec![
        table(IP),
        add_set(set),
        base(IP, "add", ChainType::Filter, Hook::Input),
        by_mark("add", dynset(DynsetOp::Add, 0)),
    ]);
    for n in 1..4 {
        let linked = Linked::new(&ruleset.generation()).unwrap();
        assert!(packet(&linked, "add", n, 0));
        let before = listed(&ruleset, 0);
        assert_eq!(before.len(), n as usize);
        ruleset = Ruleset::from_saved(&ruleset.save(0)).unwrap();
        assert_eq!(listed(&ruleset, 0), before);
        assert_eq!(the_set(&ruleset).description.size, Some(65535));
    }
}

#[test]
fn growing_a_set_keeps_elements_and_a_new_set_is_empty() {
    let mut ruleset = setup(1, vec![]);
    let linked = Linked::new(&ruleset.generation()).unwrap();
    assert!(packet(&linked, "add", 1, MS) && packet(&linked, "lookup", 1, MS));
    assert!(!packet(&linked, "add", 2, MS));
    let mut larger = NewSet { exprs: vec![counter()], ..new_set("s") };
    larger.description = the_set(&ruleset).description.clone();
    larger.description.size = Some(100_000);
    at(&mut ruleset, MS, vec![add_set(larger)]).unwrap();
    let linked = linked.next(&ruleset.generation()).unwrap();
    assert!((2..=1_000).all(|n| packet(&linked, "add", n, MS)));
    assert_eq!(listed(&ruleset, MS).len(), 1_000);
    assert_eq!(listed(&ruleset, MS)[&1].2, 2);
    let again = setup(1, vec![]);
    at(&mut ruleset, MS, vec![delete_table("t"), table(IP), set("s")]).unwrap();
    assert!(the_set(&ruleset).elements().is_empty() && the_set(&again).elements().is_empty());
}

/// What the set should be.
#[derive(Default)]
struct Model {
    /// Own timeout, end, count.
    elements: BTreeMap<u32, (Option<u64>, Option<u64>, u64)>,
    leaving: usize,
    leave_at: u64,
}

impl Model {
    fn pass_time(&mut self, now: u64) {
        self.elements.retain(|_, (_, end, _)| end.is_none_or(|end| now < end));
        if now >= self.leave_at {
            self.leaving = 0;
        }
    }

    fn room(&self, size: usize) -> bool {
        self.elements.len() + self.leaving < size
    }

    /// Whether the packet's rule matches.
    fn packet(&mut self, chain: &str, n: u32, size: usize, now: u64) -> bool {
        let end = Some(now + 100 * MS);
        if chain == "delete" {
            if self.elements.remove(&n).is_some() {
                if self.leaving == 0 {
                    self.leave_at = now + SWEEP;
                }
                self.leaving += 1;
            }
            return true;
        }
        if let Some((timeout, ends, count)) = self.elements.get_mut(&n) {
            if chain == "update" && timeout.is_some() {
                *ends = end;
            }
            *count += 1;
            return true;
        }
        let adds = chain != "lookup" && self.room(size);
        if adds {
            self.elements.insert(n, (Some(100), end, 1));
        }
        adds
    }
}

#[test]
fn random_packets_and_transactions_agree_with_a_map() {
    let seed = penstock_testkit::seed();
    let mut rng = Rng::with_seed(seed);
    for round in 0..30 {
        let size = rng.usize(1..12);
        let mut ruleset = setup(size as u32, vec![]);
        let mut linked = Linked::new(&ruleset.generation()).unwrap();
        let mut model = Model::default();
        let mut now = MS;
        for step in 0..400 {
            let place = format!("round {round} step {step}");
            now += [0, 0, 0, rng.u64(..60 * MS), rng.u64(..SWEEP)][rng.usize(..5)];
            model.pass_time(now);
            let n = rng.u32(..16);
            if rng.u8(..4) > 0 {
                let (chain, _) = CHAINS[rng.usize(..4)];
                let matched = packet(&linked, chain, n, now);
                assert_eq!(matched, model.packet(chain, n, size, now), "{place}: {chain} {n}");
                continue;
            }
            let abort = rng.u8(..4) == 0;
            let there = model.elements.contains_key(&n);
            let timed = rng.bool();
            let (changes, expected) = match rng.u8(..8) {
                0 => (vec![delete_elements("s", None)], Ok(())),
                1..4 => {
                    let expected = if there { Ok(()) } else { Err(Errno::Enoent) };
                    (vec![delete_elements("s", Some(vec![key(n)]))], expected)
                }
                4 => (vec![rule(IP, "lookup", vec![counter()])], Ok(())),
                _ => {
                    let fits = there || model.room(size);
                    let expected = if fits { Ok(()) } else { Err(Errno::Enfile) };
                    // Without its own timeout it stays for ever, and no rule can change that.
                    let mut element = key(n);
                    let timeout = timed.then_some(100);
                    element.value = ElementValue::new(
                        None,
                        ElementExtras { timeout, ..ElementExtras::default() },
                    );
                    (vec![add_elements("s", vec![element])], expected)
                }
            };
            let mut batch = ruleset.begin_at(now);
            let result: Result<(), _> =
                changes.iter().try_for_each(|c| batch.apply(c.clone()).map(|_| ()));
            assert_eq!(result.clone().map_err(|e| e.errno), expected, "{place}: {changes:?}");
            if abort || result.is_err() {
                drop(batch);
            } else {
                ruleset.commit(batch).unwrap();
                match &changes[0] {
                    Change::DeleteElements { elements: None, .. } => model.elements.clear(),
                    Change::DeleteElements { .. } => drop(model.elements.remove(&n)),
                    Change::AddElements { .. } => {
                        let (timeout, end) = match timed {
                            true => (Some(100), Some(now + 100 * MS)),
                            false => (None, None),
                        };
                        let there = model.elements.entry(n).or_insert((timeout, end, 0));
                        if there.0 != timeout {
                            *there = (timeout, end, there.2);
                        }
                    }
                    _ => {}
                }
                linked = linked.next(&ruleset.generation()).unwrap();
            }
            assert_eq!(listed(&ruleset, now), model.elements, "{place}");
        }
    }
}
