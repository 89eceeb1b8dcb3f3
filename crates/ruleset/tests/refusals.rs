// SPDX-License-Identifier: Apache-2.0

//! What the kernel refuses, with which error, and what it blames: as `nft` 1.0.6 shows it on kernel
//! 6.18.

mod changes;

use changes::*;
use penstock_program::expr::*;
use penstock_program::{Register, Verdict};
use penstock_ruleset::change::*;
use penstock_ruleset::model::*;
use penstock_ruleset::{Blame, Change, Errno, Ruleset};
use penstock_sets::{Description, Element};

/// The last change of the batch is refused so, in its own batch and in one with the setup; the
/// generation stays as it is.
#[track_caller]
fn refused(setup: Vec<Change>, change: Change, errno: Errno, blame: Blame) {
    let mut ruleset = made_of(setup.clone());
    let before = ruleset.generation();
    let (_, error) = commit(&mut ruleset, vec![change.clone()]).expect_err("refused");
    assert_eq!((error.errno, error.blame), (errno, blame));
    assert!(std::sync::Arc::ptr_eq(&before, &ruleset.generation()));
    let mut batch = Ruleset::default().begin();
    for made in setup {
        batch.apply(made).expect("the setup is taken");
    }
    let before = format!("{:?}", batch.working());
    let error = batch.apply(change).expect_err("refused in one batch");
    assert_eq!((error.errno, error.blame), (errno, blame));
    assert_eq!(before, format!("{:?}", batch.working()), "the batch changed");
}

#[track_caller]
fn taken(setup: Vec<Change>, change: Change) {
    let mut ruleset = made_of(setup);
    commit(&mut ruleset, vec![change]).expect("taken");
}

#[test]
fn missing_and_duplicate_tables_are_refused() {
    refused(vec![], chain(IP, "c"), Errno::Enoent, Blame::Table);
    refused(vec![], delete_table("t"), Errno::Enoent, Blame::Table);
    refused(vec![table(IP)], create(table(IP)), Errno::Eexist, Blame::Table);
    refused(vec![table(Family::Ip6)], chain(IP, "c"), Errno::Enoent, Blame::Table);
    refused(vec![], table_named(IP, &"x".repeat(256)), Errno::Erange, Blame::Table);
    taken(vec![], table_named(IP, &"x".repeat(255)));
    taken(vec![table(IP)], table(IP));
}

#[test]
fn base_chains_at_unknown_hooks_are_refused() {
    use ChainType::*;
    use Hook::*;
    let unsupported = [
        (IP, Nat, Forward, 0, &[][..]),
        (IP, Nat, Prerouting, -200, &[]),
        (IP, Route, Input, 0, &[]),
        (Family::Arp, Filter, Forward, 0, &[]),
        (Family::Inet, Nat, Ingress, 0, &["lo"]),
        (Family::Inet, Filter, Egress, 0, &["lo"]),
        (IP, Filter, Ingress, 0, &["lo"]),
        (IP, Filter, Input, 0, &["lo"]),
    ];
    for (family, kind, hook, priority, devices) in unsupported {
        let change = base_on(family, "c", kind, hook, priority, devices);
        refused(vec![table(family)], change, Errno::Eopnotsupp, Blame::Whole);
    }
    for (family, kind, hook) in
        [(Family::Netdev, Nat, Ingress), (Family::Arp, Nat, Input), (Family::Bridge, Route, Output)]
    {
        refused(
            vec![table(family)],
            base_on(family, "c", kind, hook, 0, &[]),
            Errno::Enoent,
            Blame::Type,
        );
    }
    let twice = base_on(Family::Netdev, "c", Filter, Ingress, 0, &["lo", "lo"]);
    refused(vec![table(Family::Netdev)], twice, Errno::Eexist, Blame::Whole);
    taken(vec![table(IP)], base_on(IP, "c", Nat, Prerouting, -199, &[]));
    taken(vec![table(Family::Inet)], base(Family::Inet, "c", Route, Output));
    taken(vec![table(Family::Inet)], base_on(Family::Inet, "c", Filter, Ingress, 0, &["lo"]));
    taken(
        vec![table(Family::Netdev)],
        base_on(Family::Netdev, "c", Filter, Ingress, 0, &["none0"]),
    );
}

#[test]
fn incompatible_chain_updates_are_refused() {
    use ChainType::*;
    use Hook::*;
    let output = || vec![table(IP), base(IP, "c", Filter, Output)];
    let regular = || vec![table(IP), chain(IP, "c")];
    refused(output(), base_on(IP, "c", Filter, Output, 1, &[]), Errno::Eopnotsupp, Blame::Whole);
    refused(output(), base(IP, "c", Filter, Input), Errno::Eopnotsupp, Blame::Whole);
    refused(output(), base(IP, "c", Route, Output), Errno::Eexist, Blame::Chain);
    refused(regular(), base(IP, "c", Filter, Output), Errno::Eexist, Blame::Chain);
    refused(regular(), create(chain(IP, "c")), Errno::Eexist, Blame::Chain);
    let drop = || add_chain(IP, NewChain { policy_accept: Some(false), ..new_chain("c") });
    refused(regular(), drop(), Errno::Eopnotsupp, Blame::Policy);
    refused(vec![table(IP)], drop(), Errno::Eopnotsupp, Blame::Policy);
    taken(output(), drop());
    taken(output(), chain(IP, "c"));
    let offload = || add_chain(IP, NewChain { offload: true, ..new_chain("c") });
    refused(vec![table(IP)], offload(), Errno::Eopnotsupp, Blame::Whole);
    refused(regular(), offload(), Errno::Eopnotsupp, Blame::Whole);
    refused(output(), offload(), Errno::Eopnotsupp, Blame::Whole);
    let two = || vec![table(IP), chain(IP, "a"), chain(IP, "b")];
    let rename = |handle, name: &str| Change::RenameChain {
        family: IP,
        table: "t".into(),
        handle,
        name: name.into(),
    };
    refused(two(), rename(1, "b"), Errno::Eexist, Blame::Whole);
    refused(two(), rename(9, "x"), Errno::Enoent, Blame::Handle);
    refused(two(), chain(IP, &"y".repeat(256)), Errno::Erange, Blame::Chain);
}

#[test]
fn rules_at_missing_positions_are_refused() {
    let setup = || vec![table(IP), chain(IP, "c"), rule(IP, "c", vec![])];
    refused(setup(), rule(IP, "d", vec![]), Errno::Enoent, Blame::Chain);
    refused(
        setup(),
        rule_at(IP, "c", Position::After(Some(7)), vec![]),
        Errno::Enoent,
        Blame::Position,
    );
    refused(
        setup(),
        rule_at(IP, "c", Position::Before(Some(7)), vec![]),
        Errno::Enoent,
        Blame::Position,
    );
    refused(setup(), rule_at(IP, "c", Position::Replace(7), vec![]), Errno::Enoent, Blame::Handle);
    refused(setup(), delete_rule("c", 7), Errno::Enoent, Blame::Handle);
    refused(setup(), delete_rule("d", 7), Errno::Enoent, Blame::Chain);
    refused(setup(), rule(IP, "c", vec![counter(); 128]), Errno::Einval, Blame::Whole);
    taken(setup(), rule(IP, "c", vec![counter(); 127]));
}

#[test]
fn dangling_names_in_rules_are_refused() {
    let setup = || {
        vec![
            table(IP),
            chain(IP, "c"),
            base(IP, "b", ChainType::Filter, Hook::Input),
            set("s"),
            map("m", MapData::Verdict),
            map("v", MapData::Value { len: 4 }),
        ]
    };
    let cases = [
        (jump("nowhere"), Errno::Enoent),
        (jump("b"), Errno::Eopnotsupp),
        (lookup("nowhere"), Errno::Enoent),
        (counter_named("nowhere"), Errno::Enoent),
        (Expr::FlowOffload(FlowOffload { flowtable: "nowhere".into() }), Errno::Enoent),
        (vmap("s"), Errno::Einval),
        (
            Expr::Lookup(Lookup { set: "s".into(), sreg: Register(2), dreg: None, inverse: false }),
            Errno::Enodata,
        ),
        (vmap("v"), Errno::Einval),
        (
            Expr::Lookup(Lookup {
                set: "s".into(),
                sreg: Register(24),
                dreg: None,
                inverse: false,
            }),
            Errno::Einval,
        ),
        (
            Expr::Lookup(Lookup {
                set: "m".into(),
                sreg: Register(1),
                dreg: Some(Register(0)),
                inverse: true,
            }),
            Errno::Einval,
        ),
    ];
    for (expr, errno) in cases {
        refused(setup(), rule(IP, "c", vec![counter(), expr]), errno, Blame::Expression(2));
    }
}

#[test]
fn referenced_objects_cannot_be_deleted() {
    let busy = |setup: Vec<Change>, change, blame| {
        let setup = [vec![table(IP), chain(IP, "c"), chain(IP, "d")], setup].concat();
        refused(setup, change, Errno::Ebusy, blame);
    };
    busy(vec![rule(IP, "c", vec![jump("d")])], delete_chain("d"), Blame::Chain);
    busy(vec![rule(IP, "c", vec![jump("c")])], delete_chain("c"), Blame::Chain);
    let m = || vec![map("m", MapData::Verdict), add_elements("m", vec![pair(1, jump_data("d"))])];
    busy(m(), delete_chain("d"), Blame::Chain);
    busy(vec![set("s"), rule(IP, "c", vec![lookup("s")])], delete_set("s"), Blame::Set);
    busy(
        vec![counter_object("k"), rule(IP, "c", vec![counter_named("k")])],
        delete_counter("k"),
        Blame::Object,
    );
    let objects = MapData::Object(ObjectType::Counter);
    let held = vec![
        counter_object("k"),
        map("o", objects),
        add_elements("o", vec![pair(1, ElementData::Object("k".into()))]),
    ];
    busy(held, delete_counter("k"), Blame::Object);
    let key = Key::Name("f".into());
    let delete = Change::DeleteFlowtable {
        family: IP,
        table: "t".into(),
        key,
        devices: vec![],
        destroy: false,
    };
    let offload = Expr::FlowOffload(FlowOffload { flowtable: "f".into() });
    busy(vec![flowtable("f", &["lo"]), rule(IP, "c", vec![offload])], delete, Blame::Flowtable);
    let mut constant = new_set("s");
    constant.description.constant = true;
    let bound = vec![add_set(constant), rule(IP, "c", vec![lookup("s")])];
    busy(bound.clone(), add_elements("s", vec![key_one()]), Blame::Whole);
    busy(bound, delete_elements("s", None), Blame::Whole);
    taken(
        vec![table(IP), chain(IP, "c"), chain(IP, "d"), rule(IP, "c", vec![jump("d")])],
        delete_chain("c"),
    );
}

fn key_one() -> Element<ElementValue> {
    key(1)
}

#[test]
fn references_removed_earlier_in_a_batch_permit_deletion() {
    let mut ruleset = made_of(vec![
        table(IP),
        chain(IP, "c"),
        chain(IP, "d"),
        set("s"),
        map("m", MapData::Verdict),
        rule(IP, "c", vec![lookup("s"), jump("d")]),
        add_elements("m", vec![pair(1, jump_data("d"))]),
    ]);
    let changes =
        vec![flush_chain("c"), delete_elements("m", None), delete_set("s"), delete_chain("d")];
    assert_eq!(commit(&mut ruleset, changes), Ok(()));
}

#[test]
fn deep_and_looping_jumps_are_refused() {
    // The last change leaves the table wrong, in its own batch and in one with the setup.
    let left_wrong = |setup: Vec<Change>, change: Change| {
        assert_eq!(blamed(made_of(setup.clone()), vec![change.clone()]), [(0, Errno::Emlink)]);
        let last = setup.len();
        let all = [setup, vec![change]].concat();
        assert_eq!(blamed(Ruleset::default(), all), [(last, Errno::Emlink)]);
    };
    let name = |i: usize| format!("c{i}");
    let row = |n: usize| {
        let mut all = vec![
            table(IP),
            base(IP, "in", ChainType::Filter, Hook::Input),
            map("m", MapData::Verdict),
        ];
        all.extend((1..=n).map(|i| chain(IP, &name(i))));
        all.extend((1..n).map(|i| rule(IP, &name(i), vec![jump(&name(i + 1))])));
        all
    };
    taken(row(15), rule(IP, "in", vec![jump("c1")]));
    left_wrong(row(16), rule(IP, "in", vec![jump("c1")]));
    let bound = |n| [row(n), vec![rule(IP, "in", vec![vmap("m")])]].concat();
    taken(bound(15), add_elements("m", vec![pair(1, jump_data("c1"))]));
    left_wrong(bound(16), add_elements("m", vec![pair(1, jump_data("c1"))]));
    let filled = |n| [row(n), vec![add_elements("m", vec![pair(1, jump_data("c1"))])]].concat();
    taken(filled(15), rule(IP, "in", vec![vmap("m")]));
    left_wrong(filled(16), rule(IP, "in", vec![vmap("m")]));
    // A loop is nothing as long as no base chain leads there.
    taken(row(3), rule(IP, "c3", vec![jump("c1")]));
    let round = || [row(3), vec![rule(IP, "c3", vec![jump("c1")])]].concat();
    left_wrong(round(), rule(IP, "in", vec![jump("c2")]));
    let entered = || [row(3), vec![rule(IP, "in", vec![jump("c1")])]].concat();
    left_wrong(entered(), rule(IP, "c3", vec![jump("c1")]));
    // What was taken away does not count.
    let mut ruleset = made_of(entered());
    let back = vec![flush_chain("in"), rule(IP, "c3", vec![jump("c1")])];
    assert_eq!(commit(&mut ruleset, back), Ok(()));
}

/// The changes that are blamed, by their number in the batch, and why.
fn blamed(mut ruleset: Ruleset, changes: Vec<Change>) -> Vec<(usize, Errno)> {
    let mut batch = ruleset.begin();
    changes.into_iter().for_each(|change| drop(batch.apply(change).expect("taken")));
    let wrong = batch.validate().err().unwrap_or_default();
    assert_eq!(ruleset.commit(batch).is_err(), !wrong.is_empty());
    wrong.iter().map(|wrong| (wrong.change, wrong.errno)).collect()
}

#[test]
fn tables_are_validated_as_a_batch_leaves_them() {
    let masquerade = || Expr::Masq(Masq { proto_min: None, proto_max: None, flags: 0 });
    let setup = || {
        vec![
            table(IP),
            base(IP, "in", ChainType::Filter, Hook::Input),
            chain(IP, "a"),
            chain(IP, "b"),
            set("s"),
            map("m", MapData::Verdict),
            rule(IP, "in", vec![jump("a")]),
        ]
    };
    let to_a = || rule(IP, "b", vec![jump("a")]);
    let to_b = || rule(IP, "a", vec![jump("b")]);
    let in_set = || add_elements("s", vec![key(1)]);
    let counted = || rule(IP, "b", vec![counter()]);
    const LINKS: Errno = Errno::Emlink;
    let cases = [
        ("closed and opened", vec![to_a(), to_b(), flush_chain("b")], vec![]),
        ("closed and cut off", vec![to_a(), to_b(), counted(), flush_chain("in")], vec![]),
        (
            "all rules and elements from there on are blamed",
            vec![counted(), to_a(), to_b(), counted(), chain(IP, "z"), in_set(), set("z")],
            vec![(2, LINKS), (3, LINKS), (5, LINKS)],
        ),
        (
            "none while the table is right",
            vec![to_a(), to_b(), flush_chain("b"), counted(), to_a(), in_set()],
            vec![(1, LINKS), (4, LINKS), (5, LINKS)],
        ),
        (
            "a hook that does not take it",
            vec![rule(IP, "b", vec![masquerade()]), to_b(), counted()],
            vec![(1, Errno::Eopnotsupp), (2, Errno::Eopnotsupp)],
        ),
        (
            "an element that leads to a loop",
            vec![
                to_a(),
                rule(IP, "a", vec![vmap("m")]),
                add_elements("m", vec![pair(1, jump_data("b"))]),
                in_set(),
            ],
            vec![(2, LINKS), (3, LINKS)],
        ),
        (
            "an element that led to one",
            vec![
                to_a(),
                rule(IP, "a", vec![vmap("m")]),
                add_elements("m", vec![pair(1, jump_data("b"))]),
                delete_elements("m", None),
            ],
            vec![],
        ),
    ];
    for (what, changes, expected) in cases {
        assert_eq!(blamed(made_of(setup()), changes.clone()), expected, "{what}");
        let (all, first) = ([setup(), changes].concat(), setup().len());
        let expected: Vec<_> = expected.iter().map(|(n, errno)| (n + first, *errno)).collect();
        assert_eq!(blamed(Ruleset::default(), all), expected, "{what}, in a new table");
    }
}

#[test]
fn expressions_at_unsupported_hooks_are_refused() {
    use ChainType::*;
    use Hook::*;
    let reject = || Expr::Reject(Reject { kind: RejectType::IcmpUnreach, code: 3 });
    let fib = |result, flags| Expr::Fib(Fib { result, flags, dreg: Register(1) });
    let snat = || {
        let (addr_min, flags) = (Some(Register(1)), 0);
        let (addr_max, proto_min, proto_max) = (None, None, None);
        Expr::Nat(penstock_program::expr::Nat {
            kind: NatType::Snat,
            family: 2,
            addr_min,
            addr_max,
            proto_min,
            proto_max,
            flags,
        })
    };
    let masq = || Expr::Masq(Masq { proto_min: None, proto_max: None, flags: 0 });
    let pkttype = || Expr::MetaSet(MetaSet { key: MetaKey::PktType, sreg: Register(1) });
    let ct = || Expr::Ct(Ct { key: CtKey::State, dir: None, dreg: Register(1) });
    let whole = Some((Errno::Eopnotsupp, Blame::Whole));
    let part = |errno| Some((errno, Blame::Expression(1)));
    let cases = [
        (IP, Filter, Postrouting, reject(), whole),
        (IP, Filter, Prerouting, reject(), None),
        (Family::Inet, Filter, Ingress, reject(), None),
        (Family::Netdev, Filter, Egress, reject(), whole),
        (IP, Filter, Output, fib(FibResult::Oif, 1), whole),
        (IP, Filter, Forward, fib(FibResult::Oif, 1), None),
        (Family::Netdev, Filter, Ingress, fib(FibResult::Oif, 1), None),
        (Family::Netdev, Filter, Egress, fib(FibResult::Oif, 1), whole),
        (Family::Netdev, Filter, Egress, fib(FibResult::AddrType, 2), None),
        (Family::Inet, Filter, Ingress, fib(FibResult::AddrType, 2), whole),
        (IP, Filter, Output, fib(FibResult::AddrType, 2 | 8), whole),
        (IP, Filter, Input, fib(FibResult::AddrType, 2 | 16), whole),
        (Family::Bridge, Filter, Input, fib(FibResult::Oif, 1), part(Errno::Enoent)),
        (IP, Nat, Postrouting, snat(), None),
        (IP, Nat, Input, snat(), None),
        (IP, Nat, Prerouting, snat(), whole),
        (IP, Filter, Postrouting, snat(), whole),
        (IP, Nat, Postrouting, masq(), None),
        (IP, Nat, Output, masq(), whole),
        (IP, Filter, Prerouting, pkttype(), None),
        (IP, Filter, Input, pkttype(), whole),
        (Family::Netdev, Filter, Ingress, pkttype(), None),
        (Family::Netdev, Filter, Ingress, ct(), part(Errno::Eproto)),
        (Family::Arp, Filter, Input, ct(), part(Errno::Eproto)),
        (Family::Arp, Filter, Input, Expr::Notrack(Notrack), None),
    ];
    for (family, kind, hook, expr, expected) in cases {
        let device = matches!((family, hook), (Family::Netdev, _) | (_, Ingress));
        let devices: &[&str] = if device { &["lo"] } else { &[] };
        let made = || base_on(family, "b", kind, hook, 0, devices);
        let what = format!("{expr:?} in {family:?} {kind:?} {hook:?}");
        // In the base chain itself, and in a chain that it comes to reach.
        let direct = commit(
            &mut made_of(vec![table(family), made()]),
            vec![rule(family, "b", vec![expr.clone()])],
        );
        assert_eq!(direct.err().map(|(_, e)| (e.errno, e.blame)), expected, "{what}");
        if expected.is_none_or(|(_, blame)| blame == Blame::Whole) {
            let setup =
                vec![table(family), made(), chain(family, "c"), rule(family, "c", vec![expr])];
            let reached = commit(&mut made_of(setup), vec![rule(family, "b", vec![jump("c")])]);
            assert_eq!(
                reached.err().map(|(_, e)| (e.errno, e.blame)),
                expected,
                "{what}, by a jump"
            );
        }
    }
}

#[test]
fn contradictory_sets_are_refused() {
    let with = |change: fn(&mut NewSet)| {
        let mut set = new_set("s");
        change(&mut set);
        add_set(set)
    };
    let cases = [
        (
            with(|s| (s.description.constant, s.description.timeout) = (true, true)),
            Errno::Eopnotsupp,
        ),
        (
            with(|s| (s.description.interval, s.description.dynamic) = (true, true)),
            Errno::Eopnotsupp,
        ),
        (with(|s| s.description.key_len = 0), Errno::Einval),
        (with(|s| s.description.key_len = 65), Errno::Einval),
        (with(|s| s.timeout = 5), Errno::Einval),
        (with(|s| s.data = Some(MapData::Value { len: 65 })), Errno::Einval),
        (with(|s| s.exprs = vec![counter(), counter(), counter()]), Errno::E2big),
        (with(|s| s.exprs = vec![Expr::Notrack(Notrack)]), Errno::Eopnotsupp),
    ];
    for (change, errno) in cases {
        refused(vec![table(IP)], change, errno, Blame::Whole);
    }
    let interval = || with(|s| s.description.interval = true);
    refused(vec![table(IP), set("s")], interval(), Errno::Eexist, Blame::Set);
    refused(vec![table(IP), set("s")], create(set("s")), Errno::Eexist, Blame::Set);
    taken(vec![table(IP), set("s")], set("s"));
}

#[test]
fn elements_of_wrong_type_or_length_are_refused() {
    let extras = || ElementExtras { timeout: Some(3), ..Default::default() };
    let timed = || Element { value: ElementValue::new(None, extras()), ..key(2) };
    let range =
        |from: u32, to: u32| Element { key_end: Some(to.to_be_bytes().into()), ..key(from) };
    let setup = || {
        let mut interval = new_set("i");
        interval.description.interval = true;
        let sized = NewSet {
            description: Description { key_len: 4, size: Some(2), ..Description::default() },
            ..new_set("two")
        };
        vec![
            table(IP),
            chain(IP, "c"),
            base(IP, "b", ChainType::Filter, Hook::Input),
            set("s"),
            add_set(interval),
            add_set(sized),
            map("m", MapData::Value { len: 2 }),
            map("v", MapData::Verdict),
            map("o", MapData::Object(ObjectType::Counter)),
            add_elements("s", vec![key(1)]),
            add_elements("i", vec![range(10, 20)]),
            add_elements("m", vec![pair(1, value(&[0, 1]))]),
        ]
    };
    let short = Element { key: [1, 2].into(), ..key(0) };
    let cases = [
        ("nowhere", vec![key(1)], Errno::Enoent, Blame::Set),
        ("s", vec![key(2), short.clone()], Errno::Einval, Blame::Element(1)),
        ("s", vec![key(2), timed()], Errno::Einval, Blame::Element(1)),
        ("s", vec![key(2), pair(3, value(&[1]))], Errno::Einval, Blame::Element(1)),
        ("s", vec![range(3, 4)], Errno::Einval, Blame::Element(0)),
        ("i", vec![range(1, 2), range(20, 30)], Errno::Eexist, Blame::Element(1)),
        ("i", vec![range(12, 13)], Errno::Eexist, Blame::Element(0)),
        ("i", vec![range(5, 25)], Errno::Eexist, Blame::Element(0)),
        ("i", vec![range(10, 15)], Errno::Eexist, Blame::Element(0)),
        ("two", vec![key(1), key(2), key(3)], Errno::Enfile, Blame::Element(2)),
        ("m", vec![key(2)], Errno::Einval, Blame::Element(0)),
        ("m", vec![pair(2, value(&[1]))], Errno::Einval, Blame::Element(0)),
        (
            "m",
            vec![pair(2, value(&[1, 2])), pair(1, value(&[0, 2]))],
            Errno::Eexist,
            Blame::Element(1),
        ),
        (
            "v",
            vec![pair(1, jump_data("c")), pair(2, jump_data("nowhere"))],
            Errno::Enoent,
            Blame::Element(1),
        ),
        ("v", vec![pair(1, jump_data("b"))], Errno::Eopnotsupp, Blame::Element(0)),
        (
            "o",
            vec![pair(1, ElementData::Object("nowhere".into()))],
            Errno::Enoent,
            Blame::Element(0),
        ),
    ];
    for (set, elements, errno, blame) in cases {
        refused(setup(), add_elements(set, elements), errno, blame);
    }
    refused(
        setup(),
        create(add_elements("s", vec![key(2), key(1)])),
        Errno::Eexist,
        Blame::Element(1),
    );
    refused(
        setup(),
        delete_elements("s", Some(vec![key(1), key(2)])),
        Errno::Enoent,
        Blame::Element(1),
    );
    refused(
        setup(),
        delete_elements("i", Some(vec![range(10, 19)])),
        Errno::Enoent,
        Blame::Element(0),
    );
    taken(setup(), add_elements("s", vec![key(1)]));
    taken(setup(), add_elements("i", vec![range(10, 20), range(21, 22)]));
    taken(setup(), add_elements("m", vec![pair(1, value(&[0, 1]))]));
}

#[test]
fn overflowing_limits_of_elements_are_refused() {
    let limited = |n, rate, unit, burst| {
        let limit = Limit { rate, unit, burst, kind: LimitType::Packets, over: false };
        let extras = ElementExtras { exprs: vec![Expr::Limit(limit)], ..Default::default() };
        Element { value: ElementValue::new(None, extras), ..key(n) }
    };
    let setup = || vec![table(IP), set("s")];
    for (limited, errno) in [
        // Rate and burst together.
        (limited(2, u64::MAX, 1, 5), Errno::Eoverflow),
        // The unit in nanoseconds.
        (limited(2, 1, u64::MAX, 5), Errno::Eoverflow),
        // The tokens of the burst.
        (limited(2, 1, 604_800, u32::MAX), Errno::Eoverflow),
        (limited(2, 0, 1, 5), Errno::Einval),
    ] {
        refused(setup(), add_elements("s", vec![key(1), limited]), errno, Blame::Element(1));
    }
    taken(setup(), add_elements("s", vec![key(1), limited(2, 1, 604_800, 5)]));
}

#[test]
fn clashing_objects_and_flowtables_are_refused() {
    let t = || vec![table(IP)];
    let with = |change| [t(), vec![change]].concat();
    refused(with(counter_object("k")), create(counter_object("k")), Errno::Eexist, Blame::Object);
    refused(t(), delete_counter("k"), Errno::Enoent, Blame::Object);
    let quota = |bytes, consumed| Quota { bytes, consumed, over: true, depleted: false };
    let object = |bytes, consumed| add_object("k", ObjectValue::Quota(quota(bytes, consumed)));
    taken(with(counter_object("k")), create(object(5, 0)));
    taken(t(), object(5, 5));
    refused(t(), object(5, 6), Errno::Einval, Blame::Whole);
    refused(with(object(5, 0)), object(5, 6), Errno::Einval, Blame::Whole);
    refused(with(object(5, 0)), create(object(5, 6)), Errno::Eexist, Blame::Object);
    refused(t(), object(1 << 63, 0), Errno::Eoverflow, Blame::Whole);
    refused(
        with(flowtable("f", &["lo"])),
        create(flowtable("f", &["lo"])),
        Errno::Eexist,
        Blame::Flowtable,
    );
    refused(with(flowtable("f", &["lo"])), flowtable("g", &["lo"]), Errno::Eexist, Blame::Whole);
    refused(t(), flowtable("f", &["lo", "lo"]), Errno::Eexist, Blame::Whole);
    taken(with(flowtable("f", &["lo"])), flowtable("f", &["eth1"]));
}

#[test]
fn a_batch_on_an_old_generation_is_refused() {
    let mut ruleset = made_of(vec![table(IP)]);
    let mut late = ruleset.begin();
    late.apply(chain(IP, "c")).expect("taken");
    commit(&mut ruleset, vec![chain(IP, "d")]).expect("taken");
    assert_eq!(ruleset.commit(late).map_err(|e| e.errno), Err(Errno::Erestart));
}

#[test]
fn dynamic_updates_need_a_set_made_for_them() {
    let dynset = |set: &str, op| {
        let (sreg_key, sreg_data) = (Register(1), None);
        Expr::Dynset(Dynset {
            set: set.into(),
            op,
            sreg_key,
            sreg_data,
            timeout: 0,
            invert: false,
            exprs: vec![],
        })
    };
    let setup = || {
        let mut dynamic = new_set("d");
        dynamic.description.dynamic = true;
        let mut fixed = new_set("fixed");
        fixed.description.size = Some(3);
        vec![table(IP), chain(IP, "c"), add_set(dynamic), add_set(fixed)]
    };
    let part = Blame::Expression(1);
    refused(setup(), rule(IP, "c", vec![dynset("fixed", DynsetOp::Add)]), Errno::Eopnotsupp, part);
    taken(setup(), rule(IP, "c", vec![dynset("d", DynsetOp::Update)]));
    taken(setup(), rule(IP, "c", vec![dynset("d", DynsetOp::Add), verdict(Verdict::Accept)]));
}

/// What is missing may be missing when it is destroyed, but not its table, and not the set of
/// elements (as Linux 6.18 answers `NFT_MSG_DESTROY*`).
#[test]
fn what_is_destroyed_needs_its_table() {
    let all = |table: &str| -> Vec<Change> {
        let (family, table) = (IP, std::sync::Arc::<str>::from(table));
        let key = || Key::Name("missing".into());
        let kind = ObjectType::Counter;
        vec![
            Change::DeleteChain {
                family,
                table: table.clone(),
                key: key(),
                devices: vec![],
                destroy: true,
            },
            Change::DeleteRule {
                family,
                table: table.clone(),
                chain: Some("missing".into()),
                handle: Some(9),
                destroy: true,
            },
            Change::DeleteSet { family, table: table.clone(), key: key(), destroy: true },
            Change::DeleteObject { family, table: table.clone(), kind, key: key(), destroy: true },
            Change::DeleteFlowtable { family, table, key: key(), devices: vec![], destroy: true },
        ]
    };
    for change in all("t") {
        taken(vec![table(IP)], change);
    }
    for change in all("u") {
        refused(vec![table(IP)], change, Errno::Enoent, Blame::Table);
    }
    let elements = Change::DeleteElements {
        family: IP,
        table: "t".into(),
        set: "missing".into(),
        elements: Some(vec![key_one()]),
        destroy: true,
    };
    refused(vec![table(IP)], elements, Errno::Enoent, Blame::Set);
}

#[test]
fn tables_of_an_owner_are_changed_by_it_alone_and_go_with_it() {
    const OWNER: u32 = 2;
    const PERSIST: u32 = 4;
    let owned = |name: &str, flags| Change::AddTable {
        family: IP,
        name: name.into(),
        mode: Mode::Add,
        flags,
        userdata: Default::default(),
    };
    let by = |port, change| vec![Change::Sender { port }, change];
    let setup = || {
        let tables = [owned("t", OWNER), owned("stays", OWNER | PERSIST)];
        [vec![Change::Sender { port: 7 }], tables.to_vec(), vec![chain(IP, "c")]].concat()
    };
    let names = |ruleset: &Ruleset| {
        let tables = ruleset.generation().tables.clone();
        tables.iter().map(|t| (t.name.to_string(), t.flags, t.owner)).collect::<Vec<_>>()
    };
    let of = |name: &str, flags, owner| (name.to_owned(), flags, owner);
    let all = vec![of("t", OWNER, 7), of("stays", OWNER | PERSIST, 7)];
    let cases = [
        (chain(IP, "d"), Blame::Table),
        (rule(IP, "c", vec![counter()]), Blame::Table),
        (delete_table("t"), Blame::Table),
        (owned("t", OWNER), Blame::Whole),
    ];
    for (change, blame) in cases {
        let error = commit(&mut made_of(setup()), by(8, change.clone())).expect_err("another's");
        assert_eq!((error.1.errno, error.1.blame), (Errno::Eperm, blame));
        assert_eq!(commit(&mut made_of(setup()), by(7, change.clone())), Ok(()));
        assert_eq!(commit(&mut made_of(setup()), vec![change]), Ok(()));
    }
    let mut ruleset = made_of(setup());
    let everything = Change::DeleteTable { family: None, key: None, destroy: false };
    assert_eq!(commit(&mut ruleset, by(8, everything.clone())), Ok(()));
    assert_eq!(names(&ruleset), all);
    let saved = Ruleset::from_saved(&ruleset.save(1)).expect("it is restored");
    assert_eq!(names(&saved), all);
    assert_eq!(commit(&mut ruleset, vec![Change::Closed { port: 8 }]), Ok(()));
    assert_eq!(names(&ruleset), all);
    assert_eq!(commit(&mut ruleset, vec![Change::Closed { port: 7 }]), Ok(()));
    assert_eq!(names(&ruleset), [of("stays", PERSIST, 0)]);
    // Another one takes it, but nobody who would change whether it stays.
    refused(by_all(&ruleset), owned("stays", OWNER), Errno::Eopnotsupp, Blame::Whole);
    assert_eq!(commit(&mut ruleset, by(8, owned("stays", OWNER | PERSIST))), Ok(()));
    assert_eq!(names(&ruleset), [of("stays", OWNER | PERSIST, 8)]);
    let mut started = saved;
    started.close_owners();
    assert_eq!(names(&started), [of("stays", PERSIST, 0)]);
    assert_eq!(commit(&mut started, vec![everything]), Ok(()));
}

/// Changes that make the tables of a ruleset again, without what is in them.
fn by_all(ruleset: &Ruleset) -> Vec<Change> {
    let tables = ruleset.generation().tables.clone();
    let again = |t: &std::sync::Arc<Table>| Change::AddTable {
        family: t.family,
        name: t.name.clone(),
        mode: Mode::Add,
        flags: t.flags,
        userdata: t.userdata.clone(),
    };
    tables.iter().map(again).collect()
}
