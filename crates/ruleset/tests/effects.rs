// SPDX-License-Identifier: Apache-2.0

//! What batches make: names, handles, order, live state, and what goes with what.

mod changes;

use std::sync::Arc;

use changes::*;
use penstock_program::expr::*;
use penstock_program::{State, WorkerNumber};
use penstock_ruleset::change::*;
use penstock_ruleset::model::*;
use penstock_ruleset::{Change, Ruleset};
use penstock_sets::Element;

fn table_of(ruleset: &Ruleset) -> Arc<Table> {
    ruleset.generation().tables[0].clone()
}

fn rule_handles(ruleset: &Ruleset, chain: usize) -> Vec<u64> {
    table_of(ruleset).chains[chain].rules.iter().map(|r| r.handle).collect()
}

fn set_names(ruleset: &Ruleset) -> Vec<String> {
    table_of(ruleset).sets.iter().map(|s| s.name.to_string()).collect()
}

#[test]
fn each_commit_that_changes_something_is_one_generation() {
    let quota = |bytes| {
        add_object(
            "q",
            ObjectValue::Quota(Quota { bytes, consumed: 0, over: false, depleted: false }),
        )
    };
    let all = || Change::DeleteTable { family: None, key: None, destroy: false };
    // As `nft monitor` counts them in a new namespace.
    let steps = [
        (table(IP), 2),
        (table(IP), 2),
        (chain(IP, "c"), 3),
        (chain(IP, "c"), 4),
        (flush_chain("c"), 4),
        (set("s"), 5),
        (set("s"), 6),
        (add_elements("s", vec![key(1)]), 7),
        (add_elements("s", vec![key(1)]), 7),
        (delete_elements("s", None), 8),
        (delete_elements("s", None), 8),
        (counter_object("k"), 9),
        (counter_object("k"), 9),
        (quota(5), 10),
        (quota(6), 11),
        (all(), 12),
        (all(), 12),
    ];
    let mut ruleset = Ruleset::default();
    for (change, id) in steps {
        let what = format!("{change:?}");
        commit(&mut ruleset, vec![change]).unwrap();
        assert_eq!(ruleset.generation().id, id, "{what}");
    }
}

#[test]
fn handles_are_numbered_per_table() {
    let mut ruleset = made_of(vec![
        table(IP),
        chain(IP, "c"),
        set("s"),
        counter_object("k"),
        flowtable("f", &["lo"]),
        rule(IP, "c", vec![]),
        chain(IP, "d"),
    ]);
    let t = table_of(&ruleset);
    let handles =
        (t.chains[0].handle, t.sets[0].handle, t.objects[0].handle, t.flowtables[0].handle);
    assert_eq!(
        (handles, t.chains[1].handle, rule_handles(&ruleset, 0)),
        ((1, 2, 3, 4), 6, vec![5])
    );
    // What is deleted does not give its number back; tables have their own row.
    commit(&mut ruleset, vec![delete_rule("c", 5), rule(IP, "c", vec![])]).unwrap();
    assert_eq!(rule_handles(&ruleset, 0), [7]);
    commit(&mut ruleset, vec![delete_table("t"), table(IP)]).unwrap();
    assert_eq!(table_of(&ruleset).handle, 2);
}

#[test]
fn rules_are_inserted_at_their_position() {
    let mut ruleset = made_of(vec![table(IP), chain(IP, "c")]);
    let put = |position| rule_at(IP, "c", position, vec![]);
    let changes = vec![
        put(Position::After(None)),
        put(Position::After(None)),
        put(Position::Before(None)),
        put(Position::After(Some(2))),
        put(Position::Before(Some(3))),
        rule_at(IP, "c", Position::Replace(2), vec![counter()]),
    ];
    commit(&mut ruleset, changes).unwrap();
    assert_eq!(rule_handles(&ruleset, 0), [4, 2, 5, 6, 3]);
    assert_eq!(table_of(&ruleset).chains[0].rules[1].exprs[1..], [counter()]);
}

#[test]
fn anonymous_sets_take_the_smallest_free_number_and_die_with_their_rule() {
    let mut ruleset = made_of(vec![
        table(IP),
        chain(IP, "c"),
        anonymous_set("__set%d", 1, None),
        add_elements("__set%d#1", vec![key(1), key(2)]),
        rule(IP, "c", vec![lookup("__set%d#1")]),
        anonymous_set("__set%d", 2, None),
        anonymous_set("__map%d", 3, Some(MapData::Verdict)),
        rule(IP, "c", vec![lookup("__set%d#2"), vmap("__map%d#3")]),
    ]);
    assert_eq!(set_names(&ruleset), ["__set0", "__set1", "__map0"]);
    let first = delete_rule("c", rule_handles(&ruleset, 0)[0]);
    commit(&mut ruleset, vec![first]).unwrap();
    assert_eq!(set_names(&ruleset), ["__set1", "__map0"]);
    let again = vec![anonymous_set("__set%d", 1, None), rule(IP, "c", vec![lookup("__set%d#1")])];
    commit(&mut ruleset, again).unwrap();
    assert_eq!(set_names(&ruleset), ["__set1", "__map0", "__set0"]);
    assert_eq!(table_of(&ruleset).chains[0].rules[1].exprs[1..], [lookup("__set0")]);
    let second = rule_handles(&ruleset, 0)[0];
    let replace = vec![rule_at(IP, "c", Position::Replace(second), vec![counter()])];
    commit(&mut ruleset, replace).unwrap();
    assert_eq!(set_names(&ruleset), ["__set0"]);
}

#[test]
fn implicit_chains_live_and_die_with_the_rule_that_jumps_there() {
    let implicit = || add_chain(IP, NewChain { anonymous: true, ..new_chain("__chain%d#1") });
    let mut ruleset = made_of(vec![
        table(IP),
        chain(IP, "c"),
        implicit(),
        rule(IP, "__chain%d#1", vec![counter()]),
        rule(IP, "c", vec![jump("__chain%d#1")]),
    ]);
    let t = table_of(&ruleset);
    assert_eq!((t.chains[1].anonymous, t.chains[1].rules.len()), (true, 1));
    assert_eq!(t.chains[0].rules[0].exprs[1..], [jump(&t.chains[1].name)]);
    commit(&mut ruleset, vec![flush_chain("c")]).unwrap();
    assert_eq!(table_of(&ruleset).chains.len(), 1);
}

#[test]
fn renaming_a_chain_renames_what_jumps_there() {
    let mut ruleset = made_of(vec![
        table(IP),
        chain(IP, "c"),
        chain(IP, "d"),
        map("m", MapData::Verdict),
        rule(IP, "c", vec![jump("d")]),
        add_elements("m", vec![pair(1, jump_data("d")), pair(2, jump_data("c"))]),
    ]);
    let rename = Change::RenameChain { family: IP, table: "t".into(), handle: 2, name: "e".into() };
    commit(&mut ruleset, vec![rename]).unwrap();
    let t = table_of(&ruleset);
    assert_eq!(t.chains[0].rules[0].exprs[1..], [jump("e")]);
    let data: Vec<_> = t.sets[0].elements().iter().map(|e| e.value.data.clone().unwrap()).collect();
    assert_eq!(data, [jump_data("e"), jump_data("c")]);
    assert!(commit(&mut ruleset, vec![delete_chain("e")]).is_err());
}

#[test]
fn live_state_stays_with_a_rule_over_generations() {
    let mut ruleset = made_of(vec![table(IP), chain(IP, "c"), rule(IP, "c", vec![counter()])]);
    let t = table_of(&ruleset);
    let State::Counter(state) = &*t.chains[0].rules[0].states[0] else {
        panic!("a counter has its state")
    };
    state.count(WorkerNumber::FIRST, 100);
    state.count(WorkerNumber::FIRST, 50);
    commit(&mut ruleset, vec![rule(IP, "c", vec![counter()])]).unwrap();
    let t = table_of(&ruleset);
    let counted = |packets, bytes| vec![load(), Expr::Counter(Counter { packets, bytes })];
    assert_eq!(t.chains[0].rules[0].snapshot(0), counted(2, 150));
    assert_eq!(t.chains[0].rules[1].snapshot(0), counted(0, 0));
    assert_eq!(t.chains[0].rules[0].reset(0), counted(2, 150));
    assert_eq!(t.chains[0].rules[0].snapshot(0), counted(0, 0));
}

#[test]
fn a_quota_update_changes_the_limit_and_keeps_the_count() {
    let quota = |bytes, consumed, over| {
        ObjectValue::Quota(Quota { bytes, consumed, over, depleted: false })
    };
    let counter = |packets| ObjectValue::Counter(Counter { packets, bytes: 0 });
    let mut ruleset =
        made_of(vec![table(IP), add_object("q", quota(10, 3, true)), add_object("q", counter(3))]);
    commit(&mut ruleset, vec![add_object("q", quota(20, 1, false)), add_object("q", counter(9))])
        .unwrap();
    let t = table_of(&ruleset);
    assert_eq!(
        t.objects.iter().map(|o| o.snapshot(0)).collect::<Vec<_>>(),
        [quota(20, 3, false), counter(3)]
    );
}

#[test]
fn only_the_policy_of_a_base_chain_may_change() {
    let mut ruleset = made_of(vec![table(IP), base(IP, "c", ChainType::Filter, Hook::Input)]);
    commit(
        &mut ruleset,
        vec![add_chain(IP, NewChain { policy_accept: Some(false), ..new_chain("c") })],
    )
    .unwrap();
    commit(&mut ruleset, vec![chain(IP, "c")]).unwrap();
    let base = table_of(&ruleset).chains[0].base.clone().unwrap();
    assert_eq!((base.policy_accept, base.hook, base.registered), (false, Hook::Input, 1));
}

#[test]
fn chains_gain_and_lose_devices() {
    let netdev = Family::Netdev;
    let on = |devices: &[&str]| base_on(netdev, "c", ChainType::Filter, Hook::Ingress, 0, devices);
    let mut ruleset = made_of(vec![table(netdev), on(&["a", "b"]), on(&["b", "c"])]);
    let devices =
        |ruleset: &Ruleset| table_of(ruleset).chains[0].base.clone().unwrap().devices.join(" ");
    assert_eq!(devices(&ruleset), "a b c");
    let without = |device: &str| Change::DeleteChain {
        family: netdev,
        table: "t".into(),
        key: Key::Name("c".into()),
        devices: vec![device.into()],
        destroy: false,
    };
    commit(&mut ruleset, vec![without("b")]).unwrap();
    assert_eq!(devices(&ruleset), "a c");
    assert_eq!(
        errno(commit(&mut ruleset, vec![without("b")])),
        Some(penstock_ruleset::Errno::Enoent)
    );
}

#[test]
fn a_reactivated_table_registers_its_chains_last() {
    let flags = |flags| Change::AddTable {
        family: IP,
        name: "t".into(),
        mode: Mode::Add,
        flags,
        userdata: Arc::new([]),
    };
    let mut ruleset = made_of(vec![
        table(IP),
        base(IP, "a", ChainType::Filter, Hook::Input),
        base(IP, "b", ChainType::Filter, Hook::Input),
    ]);
    commit(&mut ruleset, vec![flags(1)]).unwrap();
    assert!(table_of(&ruleset).dormant);
    commit(&mut ruleset, vec![flags(0)]).unwrap();
    let registered = table_of(&ruleset)
        .chains
        .iter()
        .map(|c| c.base.as_ref().unwrap().registered)
        .collect::<Vec<_>>();
    assert_eq!((table_of(&ruleset).dormant, registered), (false, vec![3, 4]));
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn timeouts_come_from_the_set_or_the_element() {
    let mut timed = new_set("s");
    timed.description.timeout = true;
    timed.timeout = 10_000;
    let mut ruleset = made_of(vec![table(IP), add_set(timed)]);
    let own = |n, timeout| Element {
        value: ElementValue::new(
            None,
            ElementExtras { timeout: Some(timeout), ..Default::default() },
        ),
        ..key(n)
    };
    let at = |ruleset: &mut Ruleset, now, change| {
        let mut batch = ruleset.begin_at(now);
        batch.apply(change)?;
        ruleset.commit(batch)
    };
    let first = vec![key(1), own(2, 3_000), own(3, 0), own(4, 10_000)];
    at(&mut ruleset, SECOND, add_elements("s", first)).unwrap();
    let listed = |ruleset: &Ruleset| -> Vec<_> {
        let t = table_of(ruleset);
        t.sets[0].elements().iter().map(|e| (e.key[3], e.value.timeout(), e.expires_at)).collect()
    };
    let eleven = Some(11 * SECOND);
    assert_eq!(
        listed(&ruleset),
        [
            (1, None, eleven),
            (2, Some(3_000), Some(4 * SECOND)),
            (3, Some(0), None),
            (4, None, eleven)
        ]
    );
    // Added again they keep their end, unless the timeout is another.
    at(&mut ruleset, 2 * SECOND, add_elements("s", vec![key(1), own(4, 20_000)])).unwrap();
    assert_eq!(listed(&ruleset)[0], (1, None, eleven));
    assert_eq!(listed(&ruleset)[3], (4, Some(20_000), Some(22 * SECOND)));
    // What has expired is not there.
    assert!(at(&mut ruleset, 4 * SECOND, delete_elements("s", Some(vec![key(2)]))).is_err());
    at(&mut ruleset, 4 * SECOND, create(add_elements("s", vec![key(2)]))).unwrap();
    assert_eq!(listed(&ruleset)[1], (2, None, Some(14 * SECOND)));
}

#[test]
fn each_element_gets_its_own_copy_of_the_sets_statements() {
    let with_counter = NewSet { exprs: vec![counter()], ..new_set("s") };
    let ruleset =
        made_of(vec![table(IP), add_set(with_counter), add_elements("s", vec![key(1), key(2)])]);
    let t = table_of(&ruleset);
    let states: Vec<_> = t.sets[0].elements().iter().map(|e| e.value.states().to_vec()).collect();
    assert!(states.iter().all(|s| s.len() == 1) && states[0] != states[1]);
}

#[test]
fn a_point_key_deletes_the_covering_concatenated_ranges() {
    let mut set = new_set("s");
    set.description.key_len = 8;
    set.description.fields = vec![4, 2];
    set.description.interval = true;
    let ranges = Element {
        key: [1, 1, 1, 0, 0, 80, 0, 0].into(),
        key_end: Some([1, 1, 1, 255, 0, 80, 0, 0].into()),
        ..key(0)
    };
    let point = Element { key: [1, 1, 1, 1, 0, 80, 0, 0].into(), ..key(0) };
    let mut ruleset = made_of(vec![table(IP), add_set(set), add_elements("s", vec![ranges])]);
    commit(&mut ruleset, vec![delete_elements("s", Some(vec![point]))]).unwrap();
    assert!(table_of(&ruleset).sets[0].elements().is_empty());
}

#[test]
fn a_set_takes_a_new_timeout_and_size() {
    let timed = |timeout, size| {
        let mut set = NewSet { timeout, ..new_set("s") };
        set.description.timeout = true;
        set.description.size = size;
        add_set(set)
    };
    let one = add_elements("s", vec![key(1)]);
    let mut ruleset = made_of(vec![table(IP), timed(3_000, None), one, timed(5_000, Some(1))]);
    assert_eq!(
        (table_of(&ruleset).sets[0].timeout, table_of(&ruleset).sets[0].description.size),
        (5_000, Some(1))
    );
    // Elements keep the timeout that they came with.
    let own = |ruleset: &Ruleset| -> Vec<_> {
        table_of(ruleset).sets[0].elements().iter().map(|e| e.value.timeout()).collect()
    };
    assert_eq!(own(&ruleset), [Some(3_000)]);
    commit(&mut ruleset, vec![timed(3_000, Some(1))]).unwrap();
    assert_eq!(own(&ruleset), [None]);
    let two = vec![add_elements("s", vec![key(1), key(2)])];
    assert_eq!(errno(commit(&mut ruleset, two)), Some(penstock_ruleset::Errno::Enfile));
}

#[test]
fn ten_thousand_rules_and_a_hundred_thousand_elements_in_one_batch() {
    let mut changes = vec![table(IP), base(IP, "c", ChainType::Filter, Hook::Input), set("s")];
    for id in 0..2_000 {
        changes.push(chain(IP, &format!("chain{id}")));
        changes.push(anonymous_set("__set%d", id, None));
        let name = format!("__set%d#{id}");
        changes.push(add_elements(&name, vec![key(id), key(id + 1)]));
        changes.push(rule(IP, "c", vec![lookup(&name), counter(), jump(&format!("chain{id}"))]));
    }
    for id in 0..10_000 {
        changes.push(rule(IP, &format!("chain{}", id % 2_000), vec![lookup("s"), counter()]));
    }
    for part in 0..100 {
        changes.push(add_elements("s", (0..1_000).map(|i| key(part * 1_000 + i)).collect()));
    }
    let mut ruleset = made_of(changes);
    let t = table_of(&ruleset);
    assert_eq!((t.chains.len(), t.sets.len(), t.chains[0].rules.len()), (2_001, 2_001, 2_000));
    assert_eq!(t.sets.iter().map(|s| s.elements().len()).max(), Some(100_000));
    let clear = vec![flush_chain("c"), delete_elements("s", None)];
    commit(&mut ruleset, clear).unwrap();
    assert_eq!(table_of(&ruleset).sets.len(), 1);
}
