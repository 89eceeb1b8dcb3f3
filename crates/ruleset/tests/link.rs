// SPDX-License-Identifier: Apache-2.0

//! Generations become images, or are refused with the place of what cannot run.

mod changes;

use std::sync::Arc;

use changes::*;
use penstock_program::expr::*;
use penstock_program::image::{ChainIndex, LinkedVerdict};
use penstock_program::op::Op;
use penstock_program::{Family, Register};
use penstock_ruleset::Errno;
use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;
use penstock_ruleset::model::*;
use penstock_ruleset::tunnel::{TTL, Tunnel, TunnelOptions};

#[test]
fn base_chains_and_jumps_are_linked() {
    let mut ruleset = Ruleset::default();
    commit(
        &mut ruleset,
        vec![
            table(IP),
            chain(IP, "a"),
            base(IP, "b", ChainType::Filter, Hook::Input),
            rule(IP, "b", vec![counter(), jump("a")]),
            rule(IP, "a", vec![counter()]),
        ],
    )
    .unwrap();
    let generation = ruleset.generation();
    let linked = Linked::new(&generation).unwrap();
    let bases: Vec<_> = linked.bases.iter().map(|b| (b.chain, b.family, b.base.hook)).collect();
    assert_eq!(bases, [(ChainIndex(1), Family::Ip, Hook::Input)]);
    let verdicts = linked.image.ops.iter().filter_map(|op| match op {
        Op::Verdict(verdict) => Some(*verdict),
        _ => None,
    });
    let verdicts: Vec<_> = verdicts.collect();
    assert_eq!(verdicts, [LinkedVerdict::Jump(ChainIndex(0))]);
    // Counters are those of the generation.
    let shared = linked.image.ops.iter().filter_map(|op| match op {
        Op::Counter(state) => Some(state),
        _ => None,
    });
    let states = generation.tables[0].chains.iter().flat_map(|c| &c.rules).flat_map(|r| &r.states);
    assert!(shared.zip(states).all(|(a, b)| Arc::ptr_eq(a, b)));
    let (family, table, chain, handle) =
        linked.image.place(penstock_program::image::RuleIndex(1)).unwrap();
    assert_eq!((family, &**table, &**chain, handle), (Family::Ip, "t", "b", 3));
}

#[test]
fn unlinkable_rules_are_refused_with_their_place() {
    let xt = Expr::Xt(Xt { target: false, name: "ipvs".into(), rev: 0, info: [].into() });
    let mut ruleset = Ruleset::default();
    commit(
        &mut ruleset,
        vec![
            table(IP),
            base(IP, "c", ChainType::Filter, Hook::Prerouting),
            rule(IP, "c", vec![counter(), xt]),
        ],
    )
    .unwrap();
    let error = Linked::new(&ruleset.generation()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "table ip t chain c rule handle 2, expression 2: match ipvs revision 0 cannot run: the packet path does not have it"
    );
}

fn tunnel(destination: Option<std::net::IpAddr>) -> ObjectValue {
    ObjectValue::Tunnel(Box::new(Tunnel {
        id: 5,
        source: None,
        destination,
        sport: 0,
        dport: 4789,
        tos: 0,
        ttl: TTL,
        options: TunnelOptions::Vxlan { gbp: 7 },
    }))
}

/// Devices here have the ends of their tunnels from their configuration, never from packets.
#[test]
fn tunnel_objects_are_kept_and_no_rule_can_use_them() {
    let mut ruleset = Ruleset::default();
    let there = tunnel(Some([198, 18, 0, 1].into()));
    let nowhere = vec![table(IP), add_object("t", tunnel(None))];
    assert_eq!(commit(&mut ruleset, nowhere).unwrap_err().1.errno, Errno::Einval);
    commit(&mut ruleset, vec![table(IP), add_object("t", there.clone())]).unwrap();
    assert!(Linked::new(&ruleset.generation()).is_ok());
    let named = Objref::Named { kind: ObjectType::Tunnel, name: "t".into() };
    let chain = base(IP, "c", ChainType::Filter, Hook::Prerouting);
    commit(&mut ruleset, vec![chain, rule(IP, "c", vec![Expr::Objref(named)])]).unwrap();
    assert_eq!(
        Linked::new(&ruleset.generation()).unwrap_err().to_string(),
        "table ip t chain c rule handle 3, expression 1: objref cannot run: \
         there are no devices that take the ends of their tunnel from each packet"
    );
}

#[test]
fn many_rules_are_linked_in_order() {
    let mut ruleset = Ruleset::default();
    let mut changes = vec![table(IP), base(IP, "c", ChainType::Filter, Hook::Forward)];
    changes.extend((0..2000).map(|_| rule(IP, "c", vec![counter()])));
    commit(&mut ruleset, changes).unwrap();
    let linked = Linked::new(&ruleset.generation()).unwrap();
    assert_eq!(linked.image.rules.len(), 2000);
    assert!(linked.image.rule_names.is_sorted_by_key(|r| r.handle));
}

fn from(address: u32) -> Vec<Expr> {
    let data = address.to_be_bytes().to_vec().into();
    let load = Payload { base: PayloadBase::Network, offset: 12, len: 4, dreg: Register(1) };
    vec![Expr::Payload(load), Expr::Cmp(Cmp { op: CmpOp::Eq, sreg: Register(1), data }), counter()]
}

#[test]
fn chain_lookups_are_reused_across_generations() {
    let mut ruleset = Ruleset::default();
    let mut changes = vec![
        table(IP),
        base(IP, "long", ChainType::Filter, Hook::Input),
        base(IP, "other", ChainType::Filter, Hook::Input),
        base(IP, "short", ChainType::Filter, Hook::Input),
        rule(IP, "short", from(1)),
    ];
    for n in 0..20 {
        changes.push(rule(IP, "long", from(n)));
        changes.push(rule(IP, "other", from(n)));
    }
    commit(&mut ruleset, changes).unwrap();
    let first = Linked::new(&ruleset.generation()).unwrap();
    let lookups = |linked: &Linked| {
        linked
            .image
            .chains
            .iter()
            .map(|c| c.lookup.as_deref().map(|l| (l.is_built(), l.finder().is_some())))
            .collect::<Vec<_>>()
    };
    let [nothing, built, before] = [(false, false), (true, true), (false, true)].map(Some);
    assert_eq!(lookups(&first), [nothing, nothing, None]);
    first.image.build_lookups();
    assert_eq!(lookups(&first), [built, built, None]);
    commit(&mut ruleset, vec![rule(IP, "long", from(77))]).unwrap();
    let second = first.next(&ruleset.generation()).unwrap();
    assert_eq!(lookups(&second), [before, built, None]);
    commit(&mut ruleset, vec![rule(IP, "long", from(78))]).unwrap();
    let third = second.next(&ruleset.generation()).unwrap();
    assert_eq!(lookups(&third), [before, built, None]);
    third.image.build_lookups();
    assert_eq!(lookups(&third), [built, built, None]);
    assert_eq!(
        lookups(&second),
        [before, built, None],
        "a generation's own lookup is not another's"
    );
}
