// SPDX-License-Identifier: Apache-2.0

//! Changes in few words, for tests.
#![allow(dead_code)]

use std::sync::Arc;

use penstock_program::expr::*;
use penstock_program::{Data, Register, Verdict};
use penstock_ruleset::change::*;
use penstock_ruleset::model::*;
use penstock_ruleset::{Change, Errno, Error, Ruleset};
use penstock_sets::{Description, Element};

pub const IP: Family = Family::Ip;

/// Table `t` of the family.
pub fn table(family: Family) -> Change {
    table_named(family, "t")
}

pub fn table_named(family: Family, name: &str) -> Change {
    Change::AddTable {
        family,
        name: name.into(),
        mode: Mode::Add,
        flags: 0,
        userdata: Arc::new([]),
    }
}

pub fn new_chain(name: &str) -> NewChain {
    NewChain {
        name: name.into(),
        base: None,
        policy_accept: None,
        counter: None,
        anonymous: false,
        offload: false,
        program: None,
        userdata: Arc::new([]),
    }
}

pub fn add_chain(family: Family, chain: NewChain) -> Change {
    Change::AddChain { family, table: "t".into(), mode: Mode::Add, chain }
}

pub fn chain(family: Family, name: &str) -> Change {
    add_chain(family, new_chain(name))
}

pub fn base_on(
    family: Family,
    name: &str,
    kind: ChainType,
    hook: Hook,
    priority: i32,
    devices: &[&str],
) -> Change {
    let devices = devices.iter().map(|&d| d.into()).collect();
    add_chain(
        family,
        NewChain { base: Some(NewBase { kind, hook, priority, devices }), ..new_chain(name) },
    )
}

pub fn base(family: Family, name: &str, kind: ChainType, hook: Hook) -> Change {
    base_on(family, name, kind, hook, 0, &[])
}

/// Every rule begins with [`load`].
pub fn rule_at(family: Family, chain: &str, position: Position, exprs: Vec<Expr>) -> Change {
    let exprs = [vec![load()], exprs].concat();
    let rule = NewRule { exprs, userdata: Arc::new([]), origin: None };
    Change::AddRule { family, table: "t".into(), chain: chain.into(), position, rule }
}

pub fn rule(family: Family, chain: &str, exprs: Vec<Expr>) -> Change {
    rule_at(family, chain, Position::After(None), exprs)
}

pub fn delete_rule(chain: &str, handle: u64) -> Change {
    Change::DeleteRule {
        family: IP,
        table: "t".into(),
        chain: Some(chain.into()),
        handle: Some(handle),
        destroy: false,
    }
}

pub fn flush_chain(chain: &str) -> Change {
    Change::DeleteRule {
        family: IP,
        table: "t".into(),
        chain: Some(chain.into()),
        handle: None,
        destroy: false,
    }
}

pub fn delete_chain(name: &str) -> Change {
    let key = Key::Name(name.into());
    Change::DeleteChain { family: IP, table: "t".into(), key, devices: vec![], destroy: false }
}

pub fn delete_set(name: &str) -> Change {
    Change::DeleteSet { family: IP, table: "t".into(), key: Key::Name(name.into()), destroy: false }
}

pub fn delete_table(name: &str) -> Change {
    Change::DeleteTable { family: Some(IP), key: Some(Key::Name(name.into())), destroy: false }
}

pub fn new_set(name: &str) -> NewSet {
    NewSet {
        name: name.into(),
        id: 0,
        anonymous: false,
        key_type: 7,
        data_type: 0,
        data: None,
        description: Description { key_len: 4, ..Description::default() },
        timeout: 0,
        gc_interval: 0,
        exprs: vec![],
        userdata: Arc::new([]),
    }
}

/// Named, with keys of four bytes.
pub fn set(name: &str) -> Change {
    add_set(new_set(name))
}

pub fn add_set(set: NewSet) -> Change {
    Change::AddSet { family: IP, table: "t".into(), mode: Mode::Add, set }
}

pub fn anonymous_set(pattern: &str, id: u32, data: Option<MapData>) -> Change {
    let mut set = NewSet { id, anonymous: true, data, ..new_set(pattern) };
    set.description.constant = true;
    add_set(set)
}

pub fn map(name: &str, data: MapData) -> Change {
    add_set(NewSet { data: Some(data), ..new_set(name) })
}

pub fn key(n: u32) -> Element<ElementValue> {
    Element {
        key: n.to_be_bytes().into(),
        key_end: None,
        value: ElementValue::default(),
        expires_at: None,
    }
}

pub fn pair(n: u32, data: ElementData) -> Element<ElementValue> {
    Element { value: data.into(), ..key(n) }
}

pub fn add_elements(set: &str, elements: Vec<Element<ElementValue>>) -> Change {
    let elements = elements.into();
    Change::AddElements {
        family: IP,
        table: "t".into(),
        set: set.into(),
        mode: Mode::Add,
        elements,
    }
}

pub fn delete_elements(set: &str, elements: Option<Vec<Element<ElementValue>>>) -> Change {
    Change::DeleteElements {
        family: IP,
        table: "t".into(),
        set: set.into(),
        elements,
        destroy: false,
    }
}

pub fn add_object(name: &str, value: ObjectValue) -> Change {
    let (table, name) = ("t".into(), name.into());
    Change::AddObject { family: IP, table, mode: Mode::Add, name, value, userdata: Arc::new([]) }
}

pub fn counter_object(name: &str) -> Change {
    add_object(name, ObjectValue::Counter(Counter::default()))
}

pub fn delete_counter(name: &str) -> Change {
    let key = Key::Name(name.into());
    Change::DeleteObject {
        family: IP,
        table: "t".into(),
        kind: ObjectType::Counter,
        key,
        destroy: false,
    }
}

pub fn flowtable(name: &str, devices: &[&str]) -> Change {
    let devices = devices.iter().map(|&d| d.into()).collect();
    let flowtable = NewFlowtable {
        name: name.into(),
        hook: Some((Hook::Ingress, 0)),
        early: false,
        devices,
        flags: 0,
    };
    Change::AddFlowtable { family: IP, table: "t".into(), mode: Mode::Add, flowtable }
}

/// The same change with `create` in place of `add`.
pub fn create(mut change: Change) -> Change {
    match &mut change {
        Change::AddTable { mode, .. }
        | Change::AddChain { mode, .. }
        | Change::AddSet { mode, .. }
        | Change::AddElements { mode, .. }
        | Change::AddObject { mode, .. }
        | Change::AddFlowtable { mode, .. } => *mode = Mode::Create,
        _ => panic!("nothing to create"),
    }
    change
}

pub fn verdict(verdict: Verdict) -> Expr {
    Expr::Immediate(Immediate { dreg: Register::VERDICT, data: ImmediateData::Verdict(verdict) })
}

pub fn jump(chain: &str) -> Expr {
    verdict(Verdict::Jump(chain.into()))
}

pub fn jump_data(chain: &str) -> ElementData {
    ElementData::Verdict(Verdict::Jump(chain.into()))
}

pub fn value(bytes: &[u8]) -> ElementData {
    ElementData::Value(Data::new(bytes))
}

/// Fills register 1.
pub fn load() -> Expr {
    Expr::Payload(Payload { base: PayloadBase::Network, offset: 12, len: 4, dreg: Register(1) })
}

pub fn counter() -> Expr {
    Expr::Counter(Counter::default())
}

pub fn lookup(set: &str) -> Expr {
    Expr::Lookup(Lookup { set: set.into(), sreg: Register(1), dreg: None, inverse: false })
}

pub fn vmap(set: &str) -> Expr {
    Expr::Lookup(Lookup {
        set: set.into(),
        sreg: Register(1),
        dreg: Some(Register::VERDICT),
        inverse: false,
    })
}

pub fn counter_named(name: &str) -> Expr {
    Expr::Objref(Objref::Named { kind: ObjectType::Counter, name: name.into() })
}

/// Commits all of it, or says which change was refused and how.
pub fn commit(ruleset: &mut Ruleset, changes: Vec<Change>) -> Result<(), (usize, Error)> {
    let mut batch = ruleset.begin();
    let all = changes.len();
    for (i, change) in changes.into_iter().enumerate() {
        batch.apply(change).map_err(|e| (i, e))?;
    }
    ruleset.commit(batch).map_err(|e| (all, e))
}

/// A ruleset made of these changes.
pub fn made_of(changes: Vec<Change>) -> Ruleset {
    let mut ruleset = Ruleset::default();
    commit(&mut ruleset, changes).expect("the setup is taken");
    ruleset
}

/// Errno of a refusal.
pub fn errno(result: Result<(), (usize, Error)>) -> Option<Errno> {
    result.err().map(|(_, e)| e.errno)
}
