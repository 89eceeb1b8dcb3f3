// SPDX-License-Identifier: Apache-2.0

//! Random batches: a refused change leaves no trace, and nothing ever refers to what is not there.

mod changes;

use std::collections::HashSet;
use std::sync::Arc;

use changes::*;
use fastrand::Rng;
use penstock_program::expr::*;
use penstock_program::{Register, Verdict};
use penstock_ruleset::change::*;
use penstock_ruleset::link::Linked;
use penstock_ruleset::model::*;
use penstock_ruleset::{Change, Ruleset};

fn chain_name(rng: &mut Rng) -> String {
    format!("c{}", rng.u8(0..6))
}

fn element(rng: &mut Rng, set: &str) -> penstock_sets::Element<ElementValue> {
    let n = rng.u32(0..8);
    match set {
        "v" => pair(n, jump_data(&chain_name(rng))),
        "o" => pair(n, ElementData::Object(format!("k{}", rng.u8(0..2)).into())),
        _ => key(n),
    }
}

fn expr(rng: &mut Rng) -> Expr {
    match rng.u8(0..12) {
        0..3 => jump(&chain_name(rng)),
        3 => verdict(Verdict::Goto(chain_name(rng).into())),
        4 => lookup("s"),
        5 => vmap("v"),
        6 => Expr::Objref(Objref::Map { sreg: Register(1), set: "o".into() }),
        7 => counter_named(&format!("k{}", rng.u8(0..2))),
        8 => Expr::FlowOffload(FlowOffload { flowtable: "f".into() }),
        9 => lookup("__set%d#1"),
        10 => Expr::Reject(Reject { kind: RejectType::IcmpUnreach, code: 1 }),
        _ => counter(),
    }
}

fn exprs(rng: &mut Rng) -> Vec<Expr> {
    (0..rng.usize(0..3)).map(|_| expr(rng)).collect()
}

fn a_rule_handle(rng: &mut Rng, ruleset: &Ruleset, chain: &str) -> u64 {
    let generation = ruleset.generation();
    let rules = generation
        .tables
        .iter()
        .flat_map(|t| &t.chains)
        .filter(|c| *c.name == *chain)
        .flat_map(|c| &c.rules);
    let handles: Vec<u64> = rules.map(|r| r.handle).collect();
    rng.choice(handles).unwrap_or(99)
}

fn change(rng: &mut Rng, ruleset: &Ruleset) -> Change {
    let set = *rng.choice(&["s", "v", "o"]).unwrap_or(&"s");
    let chain_ = chain_name(rng);
    let hook =
        *rng.choice(&[Hook::Input, Hook::Forward, Hook::Postrouting]).unwrap_or(&Hook::Input);
    match rng.u8(0..40) {
        0 => delete_table("t"),
        1..4 => table(IP),
        4..8 => chain(IP, &chain_),
        8..10 => base(IP, &format!("b{}", rng.u8(0..2)), ChainType::Filter, hook),
        10..14 => rule(IP, &chain_, exprs(rng)),
        14..17 => rule(IP, &format!("b{}", rng.u8(0..2)), exprs(rng)),
        17 => rule_at(
            IP,
            &chain_,
            Position::Replace(a_rule_handle(rng, ruleset, &chain_)),
            exprs(rng),
        ),
        18..20 => delete_rule(&chain_, a_rule_handle(rng, ruleset, &chain_)),
        20 => flush_chain(&chain_),
        21 => Change::DeleteRule {
            family: IP,
            table: "t".into(),
            chain: None,
            handle: None,
            destroy: false,
        },
        22..24 => delete_chain(&chain_),
        24 => delete_chain("b0"),
        25 => Change::RenameChain {
            family: IP,
            table: "t".into(),
            handle: rng.u64(1..20),
            name: chain_.into(),
        },
        26 => self::set("s"),
        27 => map("v", MapData::Verdict),
        28 => map("o", MapData::Object(ObjectType::Counter)),
        29 => delete_set(set),
        30..33 => add_elements(set, (0..rng.usize(1..4)).map(|_| element(rng, set)).collect()),
        33..35 => {
            delete_elements(set, Some((0..rng.usize(1..3)).map(|_| element(rng, set)).collect()))
        }
        35 => delete_elements(set, None),
        36 => counter_object(&format!("k{}", rng.u8(0..2))),
        37 => delete_counter(&format!("k{}", rng.u8(0..2))),
        38 => flowtable("f", &["lo"]),
        _ => anonymous_set("__set%d", 1, None),
    }
}

fn target(verdict: &Verdict) -> Option<&Arc<str>> {
    verdict.chain()
}

/// Chains that a rule leads to, by itself and by verdict maps.
fn leads_to(table: &Table, rule: &Rule) -> Vec<Arc<str>> {
    let mut chains = Vec::new();
    for expr in &rule.exprs {
        match expr {
            Expr::Immediate(Immediate { data: ImmediateData::Verdict(verdict), .. }) => {
                chains.extend(target(verdict).cloned())
            }
            Expr::Lookup(lookup) => {
                let set = table
                    .sets
                    .iter()
                    .find(|s| s.name == lookup.set)
                    .expect("a rule's set is there");
                for element in set.elements().iter() {
                    if let Some(ElementData::Verdict(verdict)) = &element.value.data {
                        chains.extend(target(verdict).cloned());
                    }
                }
            }
            _ => {}
        }
    }
    chains
}

fn depth_is_bounded(table: &Table, chain: &Chain, depth: usize) {
    assert!(depth < 16, "chain {} is too deep", chain.name);
    for name in chain.rules.iter().flat_map(|r| leads_to(table, r)).collect::<HashSet<_>>() {
        let next = table.chains.iter().find(|c| c.name == name).expect("a jump's chain is there");
        depth_is_bounded(table, next, depth + 1);
    }
}

fn consistent(table: &Table) {
    let ascending = |handles: Vec<u64>| {
        assert!(
            handles.is_sorted_by(|a, b| a < b) && handles.iter().all(|&h| h <= table.last_handle)
        )
    };
    ascending(table.chains.iter().map(|c| c.handle).collect());
    ascending(table.sets.iter().map(|s| s.handle).collect());
    ascending(table.objects.iter().map(|o| o.handle).collect());
    let rules: Vec<_> = table.chains.iter().flat_map(|c| &c.rules).collect();
    assert_eq!(rules.iter().map(|r| r.handle).collect::<HashSet<_>>().len(), rules.len());
    for rule in &rules {
        for name in leads_to(table, rule) {
            let chain =
                table.chains.iter().find(|c| c.name == name).expect("a jump's chain is there");
            assert!(chain.base.is_none());
        }
        for expr in &rule.exprs {
            match expr {
                Expr::Objref(Objref::Named { name, .. }) => {
                    assert!(table.objects.iter().any(|o| o.name == *name))
                }
                Expr::Objref(Objref::Map { set, .. }) => {
                    assert!(table.sets.iter().any(|s| s.name == *set))
                }
                Expr::FlowOffload(f) => {
                    assert!(table.flowtables.iter().any(|t| t.name == f.flowtable))
                }
                _ => {}
            }
        }
    }
    for set in &table.sets {
        for element in set.elements().iter() {
            match &element.value.data {
                Some(ElementData::Object(name)) => {
                    assert!(table.objects.iter().any(|o| o.name == *name))
                }
                Some(ElementData::Verdict(verdict)) => {
                    assert!(
                        target(verdict)
                            .is_none_or(|name| table.chains.iter().any(|c| c.name == *name))
                    );
                }
                _ => {}
            }
        }
        if set.anonymous {
            let uses = rules.iter().flat_map(|r| &r.exprs);
            let uses = uses.filter(|e| matches!(e, Expr::Lookup(l) if l.set == set.name)).count();
            assert!(uses <= 1, "an anonymous set has one rule");
        }
    }
    for chain in table.chains.iter().filter(|c| c.base.is_some()) {
        depth_is_bounded(table, chain, 0);
    }
}

/// All that packets meet of a generation.
fn programs(linked: &Linked) -> String {
    let image = &linked.image;
    let chains =
        image.chains.iter().map(|c| (c.table, &c.name, c.handle, c.first, c.end, c.policy_accept));
    let all =
        (&image.tables, chains.collect::<Vec<_>>(), &image.rules, &image.rule_names, &image.ops);
    format!("{all:?} {:?} {:?} {:?}", linked.bases, linked.needs, linked.flowtables)
}

#[test]
fn random_batches_keep_the_ruleset_consistent() {
    let seed = penstock_testkit::seed();
    let mut rng = Rng::with_seed(seed);
    let (mut taken, mut refused, mut runs, mut wrong) = (0, 0, 0, 0);
    for _ in 0..60 {
        let mut ruleset = made_of(vec![
            table(IP),
            chain(IP, "c0"),
            chain(IP, "c1"),
            set("s"),
            counter_object("k0"),
        ]);
        let mut linked = Linked::default();
        for _ in 0..60 {
            let before = ruleset.generation();
            let before_text = format!("{before:?}");
            let mut batch = ruleset.begin();
            // What a ruleset remembers from batch to batch makes no difference.
            let mut other =
                Ruleset::resume(Generation::clone(&before), ruleset.last_table_handle()).begin();
            let mut all = true;
            for _ in 0..rng.usize(1..6) {
                let change = change(&mut rng, &ruleset);
                let text = format!("{:?}", batch.working());
                let applied = batch.apply(change.clone());
                assert_eq!(applied, other.apply(change.clone()), "{change:?}");
                if applied.is_err() {
                    assert_eq!(
                        text,
                        format!("{:?}", batch.working()),
                        "a refused change left a trace: {change:?}"
                    );
                    refused += 1;
                    // Sometimes continue with the batch as if nothing had been tried.
                    all &= rng.u8(0..3) > 0;
                } else {
                    taken += 1;
                }
            }
            let valid = batch.validate();
            assert_eq!(valid, other.validate());
            if all && valid.is_ok() {
                ruleset.commit(batch).expect("nothing else was committed");
            } else {
                if all {
                    ruleset.commit(batch).expect_err("a table is wrong");
                    wrong += 1;
                }
                assert!(Arc::ptr_eq(&before, &ruleset.generation()));
            }
            assert_eq!(before_text, format!("{before:?}"), "an old generation changed");
            ruleset.generation().tables.iter().for_each(|t| consistent(t));
            // Linked after the one before, it is what it is alone.
            match (linked.next(&ruleset.generation()), Linked::new(&ruleset.generation())) {
                (Ok(next), Ok(alone)) => {
                    assert_eq!(programs(&next), programs(&alone));
                    linked = next;
                    runs += 1;
                }
                (next, alone) => assert_eq!(next.map(|_| ()), alone.map(|_| ())),
            }
        }
    }
    assert!(taken > 1000 && refused > 1000, "{taken} taken, {refused} refused");
    assert!(runs > 300 && wrong > 5, "{runs} generations that run, {wrong} batches refused");
}
