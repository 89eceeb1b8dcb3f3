// SPDX-License-Identifier: Apache-2.0

//! From a generation to the image that packets run through.
//!
//! Tables that are dormant are left out, sets that no rule looks up too. What the path cannot run
//! is refused with its place; [`penstock_program::link::supported`] tells it of one expression
//! before anything is committed.

mod error;
mod reuse;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use penstock_program::classify::{ChainLookup, WORTHWHILE};
use penstock_program::expr::{Expr, ObjectType};
use penstock_program::image::*;
use penstock_program::link::{LinkReason, Names, Unsupported, link_rule, link_verdict};
use penstock_program::osf::Fingerprints;
use penstock_program::reference::Reference;
use penstock_program::{Data, State};

use serde::{Deserialize, Serialize};

use crate::Errno;
use crate::LoadedProgram;
use crate::globals::Globals;
use crate::model::*;
use crate::needs::{self, Needs};
pub use error::{ErrorPlace, LinkError};
use reuse::LinkedBefore;

/// Milliseconds between sweeps of a set that says nothing of it (`nft_set_gc_interval()`).
const GC_INTERVAL: u64 = 1_000;

/// A generation, ready to run.
#[derive(Debug, Default)]
pub struct Linked {
    /// [`Generation::id`].
    pub generation: u32,
    /// Its programs.
    pub image: Image,
    /// Its base chains, in order of tables and chains.
    pub bases: Vec<LinkedBase>,
    /// What its rules need of the path in addition to its base chains.
    pub needs: Needs,
    /// Its flowtables, by [`FlowtableIndex`]: those of dormant tables too, which stay registered.
    pub flowtables: Vec<LinkedFlowtable>,
    /// Objects of connection tracking, also those that no rule names.
    pub ct_objects: Vec<Arc<CtObject>>,
    /// What is in no table.
    pub globals: Arc<Globals>,
    /// It belongs to a batch that changes sets which packets change, too: their contents may differ
    /// after its commit, and the generation must be linked again.
    pub provisional: bool,
    /// Linked sets that depend on nothing but themselves, for the next generation. By address: each
    /// holds the set it was made from, so an address stands for one set only.
    sets: HashMap<usize, SetAndLinked>,
    /// Its tables, for the next generation: by handle.
    tables: HashMap<u64, LinkedBefore>,
    /// Long chains with their lookups, for the next generation: by family, table and name.
    lookups: HashMap<ChainName, ChainAndLookup>,
}

/// Family, table and name.
type ChainName = (Family, Arc<str>, Arc<str>);
type ChainAndLookup = (Arc<Chain>, Arc<ChainLookup>);

type SetAndLinked = (Arc<Set>, LinkedSet);

/// A base chain and where it is registered.
#[derive(Clone, Debug)]
pub struct LinkedBase {
    /// Its programs in the image.
    pub chain: ChainIndex,
    /// The table's family.
    pub family: Family,
    /// Hook, priority, devices, policy, order of registration.
    pub base: BaseChain,
    /// What packets meet in place of its rules.
    pub program: Option<LoadedProgram>,
}

/// A flowtable and where it is registered.
#[derive(Clone, Debug)]
pub struct LinkedFlowtable {
    /// The table's family.
    pub family: Family,
    /// The table's name and handle.
    pub table: (Arc<str>, u64),
    /// Name, handle, priority, devices, flags.
    pub flowtable: Arc<Flowtable>,
}

impl LinkedFlowtable {
    /// Whether devices are to forward its flows themselves: `flags offload`
    /// (`NFT_FLOWTABLE_HW_OFFLOAD`).
    pub fn is_for_devices(&self) -> bool {
        const HW_OFFLOAD: u32 = 1;
        self.flowtable.flags & HW_OFFLOAD != 0
    }
}

/// A part of the ruleset is to run at a place of the kernel that cannot do it: on a device, by
/// `flags offload`, or at a hook, by `penstock attach`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CannotOffload {
    /// The table's family.
    pub family: Family,
    /// Name of the table.
    pub table: Arc<str>,
    /// What in it.
    pub part: OffloadPart,
    /// The place in words: `device wan`.
    pub place: String,
}

/// What is to run there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OffloadPart {
    /// Forward the flows of the flowtable of this name.
    Flowtable(Arc<str>),
    /// Run a chain.
    Chain {
        /// Its name.
        chain: Arc<str>,
        /// Handle of the rule that it cannot run, maybe of another chain of the table; `None` for
        /// all of them.
        rule: Option<u64>,
        /// Why not.
        reason: String,
    },
}

impl fmt::Display for CannotOffload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CannotOffload { family, table, part, place } = self;
        let family = family.name();
        write!(f, "{}: {place} cannot ", Errno::Eopnotsupp.text())?;
        match part {
            OffloadPart::Flowtable(name) => {
                write!(f, "forward flows of flowtable {family} {table} {name}")
            }
            OffloadPart::Chain { chain, reason, .. } => {
                write!(f, "run chain {family} {table} {chain}: {reason}")
            }
        }
    }
}

impl std::error::Error for CannotOffload {}

impl AsRef<Image> for Linked {
    fn as_ref(&self) -> &Image {
        &self.image
    }
}

impl Linked {
    /// Links a generation.
    pub fn new(generation: &Generation) -> Result<Self, LinkError> {
        Linked::default().next(generation)
    }

    /// Links the generation that follows this one; sets that did not change are taken over, and so
    /// are lookups of chains: one of a chain that did change serves until [`Image::build_lookups`]
    /// has made another.
    pub fn next(&self, generation: &Generation) -> Result<Self, LinkError> {
        let needs = needs::apart_from_rules(generation);
        let globals = generation.globals.clone();
        let mut linked = Linked { generation: generation.id, needs, globals, ..Linked::default() };
        linked.ct_objects.extend(generation.globals.timeouts.iter().map(|t| t.object.clone()));
        // Hardly more than before, mostly.
        linked.image.ops.reserve(self.image.ops.len() + self.image.ops.len() / 16);
        for table in &generation.tables {
            linked.flowtables.extend(table.flowtables.iter().map(|flowtable| LinkedFlowtable {
                family: table.family,
                table: (table.name.clone(), table.handle),
                flowtable: flowtable.clone(),
            }));
            if table.dormant {
                continue;
            }
            link_table(table, self, &mut linked)?;
        }
        linked.needs.complete();
        Ok(linked)
    }
}

/// Links a table that is not dormant, to the end of the image; takes over what has not changed.
fn link_table(table: &Arc<Table>, before: &Linked, linked: &mut Linked) -> Result<(), LinkError> {
    let globals = linked.globals.clone();
    let Linked { image, ct_objects, flowtables, .. } = linked;
    let index = TableIndex(image.tables.len() as u32);
    image.tables.push(LinkedTable {
        family: table.family,
        name: table.name.clone(),
        handle: table.handle,
    });
    let first = image.chains.len();
    let first_chain = first;
    let chains = (first..)
        .zip(&table.chains)
        .map(|(i, chain)| (&*chain.name, ChainIndex(i as u32)))
        .collect();
    let objects = link_objects(table, ct_objects);
    // They are the last so far.
    let first_flowtable = flowtables.len() - table.flowtables.len();
    let flowtables = (first_flowtable..).zip(&table.flowtables);
    let flowtables = flowtables.map(|(i, f)| (&*f.name, FlowtableIndex(i as u32))).collect();
    let known = before.tables.get(&table.handle);
    let known = known.filter(|known| {
        before.globals.serve(&globals) && known.is_same_for(table, first, first_flowtable)
    });
    let mut needs = Vec::with_capacity(table.chains.len());
    let missing_helpers = missing_helpers(table, &globals);
    let sets = RefCell::default();
    let resolver = Resolver {
        table,
        globals: &globals,
        before,
        chains,
        objects,
        flowtables,
        missing_helpers,
        sets,
    };
    for (number, chain) in table.chains.iter().enumerate() {
        let at = ChainIndex((first + number) as u32);
        let first = image.rules.len() as u32;
        image.rules.reserve(chain.rules.len());
        image.rule_names.reserve(chain.rules.len());
        let old = known.and_then(|known| known.chain(number, &before.image));
        let (start, end) = old.map_or((0, 0), |old| old.same_as(&chain.rules));
        let new = start..chain.rules.len() - end;
        let mut needed = match old {
            // All of its rules are still there.
            Some(old) if old.chain.rules.len() == start + end => *old.needs,
            _ => {
                let same = chain.rules[..start].iter().chain(&chain.rules[new.end..]);
                same.fold(Needs::default(), |mut needed, rule| {
                    needs::add_rule(&mut needed, table.family, rule);
                    needed
                })
            }
        };
        if let Some(old) = old {
            old.copy(0..start, at, image);
        }
        for rule in &chain.rules[new] {
            needs::add_rule(&mut needed, table.family, rule);
            link_rule_of(chain, at, rule, &resolver, image)?;
        }
        if let Some(old) = old {
            old.copy(old.chain.rules.len() - end..old.chain.rules.len(), at, image);
        }
        linked.needs.include(&needed);
        needs.push(needed);
        let lookup = (chain.rules.len() >= WORTHWHILE).then(|| {
            let name = (table.family, table.name.clone(), chain.name.clone());
            let lookup = lookup_after(before.lookups.get(&name), chain);
            linked.lookups.insert(name, (chain.clone(), lookup.clone()));
            lookup
        });
        image.chains.push(LinkedChain {
            table: index,
            name: chain.name.clone(),
            handle: chain.handle,
            first,
            end: image.rules.len() as u32,
            policy_accept: chain.base.as_ref().map(|b| b.policy_accept),
            policy_counter: chain.counter.clone(),
            lookup,
        });
        if let Some(base) = &chain.base {
            let program = chain.program.as_ref().map(ChainProgram::load).transpose();
            // It was loaded when its chain was made.
            let program = program.map_err(|_| LinkError {
                family: table.family,
                table: table.name.clone(),
                place: ErrorPlace::Chain(chain.name.clone()),
                reason: LinkReason::Malformed("its BPF program cannot be loaded"),
            })?;
            linked.bases.push(LinkedBase {
                chain: at,
                family: table.family,
                base: base.clone(),
                program: program.cloned(),
            });
        }
    }
    if known.is_some() {
        // Rules that were copied have not asked for theirs.
        for set in &table.sets {
            if let Some(known) = before.sets.get(&address(set)) {
                linked.sets.insert(address(set), known.clone());
            }
        }
    }
    linked.tables.insert(
        table.handle,
        LinkedBefore { table: table.clone(), first_chain, first_flowtable, needs },
    );
    let of_copied_rules = match known {
        Some(_) => before.image.named_sets.iter().filter(|n| n.id.table == table.handle).collect(),
        None => Vec::new(),
    };
    let is_named: HashSet<_> = of_copied_rules.iter().map(|n| Arc::as_ptr(&n.elements)).collect();
    image.named_sets.extend(of_copied_rules.into_iter().cloned());
    for (set, lookup) in resolver.sets.into_inner().into_values() {
        let id = SetId { table: table.handle, set: set.handle };
        match &lookup.elements {
            LinkedElements::Fixed(_) if set.anonymous || set.description.constant => {}
            LinkedElements::Fixed(elements) if is_named.contains(&Arc::as_ptr(elements)) => {}
            LinkedElements::Fixed(elements) => {
                image.named_sets.push(NamedSet { id, elements: elements.clone() });
            }
            LinkedElements::Dynamic { .. } => {}
        }
        linked.provisional |= !set.is_committed();
        if matches!(set.data, None | Some(MapData::Value { .. })) && set.is_committed() {
            linked.sets.insert(address(&set), (set, lookup));
        }
    }
    Ok(())
}

/// Objects of a table by name. Those about connections are also put to `ct_objects`.
fn link_objects<'a>(
    table: &'a Table,
    ct_objects: &mut Vec<Arc<CtObject>>,
) -> HashMap<&'a str, Vec<(ObjectType, Stateful)>> {
    let mut objects: HashMap<_, Vec<_>> = HashMap::new();
    for object in &table.objects {
        if let Some(linked) = link_object(object) {
            if let Stateful::Ct(object) = &linked {
                ct_objects.push(object.clone());
            }
            objects.entry(&*object.name).or_default().push((object.value.kind(), linked));
        }
    }
    objects
}

/// Links a rule of a chain with the index `at`, to the end of the image.
fn link_rule_of(
    chain: &Chain,
    at: ChainIndex,
    rule: &Rule,
    resolver: &Resolver<'_>,
    image: &mut Image,
) -> Result<(), LinkError> {
    let table = resolver.table;
    let first = image.ops.len() as u32;
    let linked = match rule.exprs.iter().position(|expr| resolver.needs_missing_helper(expr)) {
        Some(expression) => Err(penstock_program::link::LinkError {
            expression,
            reason: LinkReason::Unsupported(NO_HELPER),
        }),
        None => link_rule(&rule.exprs, &rule.states, table.family, resolver, &mut image.ops),
    };
    linked.map_err(|e| LinkError {
        family: table.family,
        table: table.name.clone(),
        place: ErrorPlace::Rule {
            chain: chain.name.clone(),
            handle: rule.handle,
            expression: e.expression,
            name: rule.exprs.get(e.expression).map_or("", Expr::name),
        },
        reason: e.reason,
    })?;
    image.rules.push(LinkedRule { first, end: image.ops.len() as u32 });
    image.rule_names.push(RuleName { chain: at, handle: rule.handle });
    Ok(())
}

/// The lookup of a chain, after the one that it had in the generation before.
fn lookup_after(before: Option<&ChainAndLookup>, chain: &Arc<Chain>) -> Arc<ChainLookup> {
    match before {
        None => Arc::default(),
        Some((old, lookup)) if Arc::ptr_eq(old, chain) => lookup.clone(),
        Some((old, lookup)) => match numbers_after(&old.rules, &chain.rules) {
            Some(numbers) => Arc::new(lookup.after(numbers.into_iter(), chain.rules.len() as u32)),
            None => Arc::default(),
        },
    }
}

/// Which number each rule of a list has in another list; `None` if those that are in both change
/// their order.
fn numbers_after(old: &[Arc<Rule>], new: &[Arc<Rule>]) -> Option<Vec<Option<u32>>> {
    let same = |(a, b): &(&Arc<Rule>, &Arc<Rule>)| Arc::ptr_eq(a, b);
    let start = old.iter().zip(new).take_while(same).count();
    let end = old[start..].iter().rev().zip(new[start..].iter().rev()).take_while(same).count();
    let changed: HashMap<*const Rule, u32> =
        (start..new.len() - end).map(|i| (Arc::as_ptr(&new[i]), i as u32)).collect();
    let number = |(i, rule): (usize, &Arc<Rule>)| {
        if i < start {
            Some(i as u32)
        } else if i >= old.len() - end {
            Some((i + new.len() - old.len()) as u32)
        } else {
            changed.get(&Arc::as_ptr(rule)).copied()
        }
    };
    let numbers: Vec<Option<u32>> = old.iter().enumerate().map(number).collect();
    numbers.iter().flatten().is_sorted().then_some(numbers)
}

/// The names of one table.
struct Resolver<'a> {
    table: &'a Table,
    globals: &'a Globals,
    before: &'a Linked,
    chains: HashMap<&'a str, ChainIndex>,
    objects: HashMap<&'a str, Vec<(ObjectType, Stateful)>>,
    flowtables: HashMap<&'a str, FlowtableIndex>,
    missing_helpers: HashSet<&'a str>,
    /// Sets as far as rules have asked for them.
    sets: RefCell<HashMap<Arc<str>, SetAndLinked>>,
}

impl Resolver<'_> {
    fn lacks_helper(&self, kind: ObjectType, name: &str) -> bool {
        kind == ObjectType::CtHelper && self.missing_helpers.contains(name)
    }

    /// Whether an expression gives connections a helper that the packet path does not have.
    fn needs_missing_helper(&self, expr: &Expr) -> bool {
        if self.missing_helpers.is_empty() {
            return false;
        }
        let mut found = false;
        expr.references(&mut |reference| {
            if let Reference::Object(kind, name) = reference {
                found |= self.lacks_helper(kind, name);
            }
        });
        found
    }
}

impl Names for Resolver<'_> {
    fn chain(&self, name: &str) -> Option<ChainIndex> {
        self.chains.get(name).copied()
    }

    fn set(&self, name: &Arc<str>) -> Result<LinkedSet, LinkReason> {
        if let Some((_, linked)) = self.sets.borrow().get(name) {
            return Ok(linked.clone());
        }
        let set = self.table.sets.iter().find(|s| s.name == *name);
        let set = set.ok_or_else(|| LinkReason::Unknown { what: "set", name: name.clone() })?;
        let linked = match self.before.sets.get(&address(set)) {
            Some((_, linked)) => linked.clone(),
            None => self.link_set(set)?,
        };
        self.sets.borrow_mut().insert(name.clone(), (set.clone(), linked.clone()));
        Ok(linked)
    }

    fn object(&self, kind: ObjectType, name: &str) -> Option<&Stateful> {
        self.objects.get(name)?.iter().find(|(k, _)| *k == kind).map(|(_, object)| object)
    }

    fn flowtable(&self, name: &str) -> Option<FlowtableIndex> {
        self.flowtables.get(name).copied()
    }

    fn account(&self, name: &str) -> Option<Arc<State>> {
        self.globals.account(name).map(|account| account.state.clone())
    }

    fn fingerprints(&self) -> Arc<Fingerprints> {
        self.globals.systems.clone()
    }

    fn timeout(&self, name: &str) -> Option<Arc<CtObject>> {
        self.globals.timeout(name).map(|timeout| timeout.object.clone())
    }
}

impl Resolver<'_> {
    fn link_set(&self, set: &Set) -> Result<LinkedSet, LinkReason> {
        let key_len = set.description.key_len as u32;
        let value_len = match set.data {
            Some(MapData::Value { len }) => Some(len),
            None | Some(MapData::Verdict | MapData::Object(_)) => None,
        };
        if let Some(dynamic) = set.dynamic() {
            if !dynamic.is_runnable() {
                let (expression, reason) =
                    ("connlimit", "elements cannot count connections of this set");
                return Err(LinkReason::Unsupported(Unsupported { expression, reason }));
            }
            let gc_interval =
                if set.gc_interval == 0 { GC_INTERVAL } else { set.gc_interval.into() };
            let (set, timeout) = (dynamic.clone(), set.timeout);
            let elements = LinkedElements::Dynamic { set, timeout, gc_interval };
            return Ok(LinkedSet { elements, key_len, value_len });
        }
        let mut refused = None;
        let mut presence_only = true;
        let link = |value: &ElementValue| {
            let linked = self.link_value(set, value).unwrap_or_else(|reason| {
                refused.get_or_insert(reason);
                LinkedValue { data: LinkedData::None, statements: Box::default() }
            });
            presence_only &= linked.statements.is_empty();
            linked
        };
        let elements = match self.linked_before(set) {
            Some((before, linked)) => {
                set.elements().map_values_after((&before.elements(), linked), link)
            }
            None => set.elements().map_values(link),
        };
        if let Some(reason) = refused {
            return Err(reason);
        }
        let elements = if presence_only { elements.presence_only() } else { elements };
        Ok(LinkedSet { elements: LinkedElements::Fixed(Arc::new(elements)), key_len, value_len })
    }

    /// The set as it was in the generation before, and what was linked of it: no element of it had
    /// statements, and what elements mean does not depend on anything else.
    fn linked_before(&self, set: &Set) -> Option<(&Set, &penstock_sets::Set<LinkedValue>)> {
        if !matches!(set.data, None | Some(MapData::Value { .. })) {
            return None;
        }
        let table = &self.before.tables.get(&self.table.handle)?.table;
        let before = table.sets.iter().find(|before| before.handle == set.handle)?;
        let (_, linked) = self.before.sets.get(&address(before))?;
        match &linked.elements {
            LinkedElements::Fixed(elements) if elements.is_presence_only() => {
                Some((before, elements))
            }
            _ => None,
        }
    }

    fn link_value(&self, set: &Set, value: &ElementValue) -> Result<LinkedValue, LinkReason> {
        let data = match (&value.data, set.data) {
            (None, _) => LinkedData::None,
            (Some(ElementData::Value(data)), _) => LinkedData::from_bytes(Data::bytes(data)),
            (Some(ElementData::Verdict(verdict)), _) => {
                LinkedData::Verdict(link_verdict(verdict, self)?)
            }
            (Some(ElementData::Object(_)), Some(MapData::Object(ObjectType::Tunnel))) => {
                let (expression, reason) = ("objref", penstock_program::link::NO_TUNNEL);
                return Err(LinkReason::Unsupported(Unsupported { expression, reason }));
            }
            (Some(ElementData::Object(name)), Some(MapData::Object(kind))) => {
                match self.object(kind, name) {
                    Some(object) => {
                        if self.lacks_helper(kind, name) {
                            return Err(LinkReason::Unsupported(NO_HELPER));
                        }
                        LinkedData::Object(object.clone())
                    }
                    None => return Err(LinkReason::Unknown { what: "object", name: name.clone() }),
                }
            }
            (Some(ElementData::Object(_)), _) => {
                return Err(LinkReason::Malformed("an object in a map of values"));
            }
        };
        let statements = statements(value.exprs(), value.states())?;
        Ok(LinkedValue { data, statements })
    }
}

fn address(set: &Arc<Set>) -> usize {
    Arc::as_ptr(set) as usize
}

/// The statements of an element.
fn statements(exprs: &[Expr], states: &[Arc<State>]) -> Result<Box<[Stateful]>, LinkReason> {
    let mut states = states.iter();
    let mut linked = Vec::with_capacity(exprs.len());
    for expr in exprs {
        penstock_program::link::supported(expr).map_err(LinkReason::Unsupported)?;
        let state = if expr.is_stateful() { states.next() } else { None };
        let state = state.ok_or(LinkReason::Malformed("the state of a statement is missing"))?;
        let none = LinkReason::Malformed("a statement that elements cannot have");
        linked.push(expr.as_statement().ok_or(none)?.link_statement(state)?);
    }
    Ok(linked.into())
}

/// An object that rules can run; `None` for limits that are malformed, and tunnels, which rules
/// that name them wait for.
fn link_object(object: &Object) -> Option<Stateful> {
    Some(match &object.value {
        ObjectValue::Counter(_)
        | ObjectValue::Quota(_)
        | ObjectValue::Limit(_)
        | ObjectValue::Connlimit(_) => {
            match object
                .value
                .as_expr()?
                .as_statement()?
                .link_statement(object.state.as_ref()?)
                .ok()?
            {
                Stateful::Quota { bytes, over, state } => {
                    Stateful::NamedQuota { bytes, over, state }
                }
                stateful => stateful,
            }
        }
        ObjectValue::CtHelper { helper, l4proto, l3proto } => {
            Stateful::Ct(Arc::new(CtObject::Helper {
                name: helper.clone(),
                l4proto: *l4proto,
                l3proto: *l3proto as u8,
            }))
        }
        ObjectValue::CtTimeout { l4proto, l3proto, values } => {
            Stateful::Ct(Arc::new(CtObject::Timeout {
                l4proto: *l4proto,
                l3proto: *l3proto as u8,
                values: values.as_slice().into(),
            }))
        }
        ObjectValue::CtExpect { l4proto, l3proto, dport, timeout, size } => {
            Stateful::Ct(Arc::new(CtObject::Expect {
                l4proto: *l4proto,
                l3proto: *l3proto as u8,
                dport: *dport,
                timeout: *timeout,
                size: *size,
            }))
        }
        ObjectValue::Synproxy(synproxy) => Stateful::Synproxy(*synproxy),
        ObjectValue::SecMark(context) => Stateful::SecMark(secmark(context)),
        ObjectValue::Tunnel(_) => return None,
    })
}

/// The number of a security context: the same for the same context, also in another generation.
/// Without a security module numbers mean nothing but themselves, and packets and connections keep
/// them.
fn secmark(context: &str) -> u32 {
    penstock_program::interp::jhash(context.as_bytes(), 0).max(1)
}

/// Why a helper object cannot be used.
const NO_HELPER: Unsupported =
    Unsupported { expression: "objref", reason: "there is no such helper" };

/// The names of a table's helper objects that the packet path does not have.
fn missing_helpers<'a>(table: &'a Table, globals: &Globals) -> HashSet<&'a str> {
    let missing = table.objects.iter().filter(|object| match &object.value {
        ObjectValue::CtHelper { helper, l4proto, .. } => {
            globals.helper_families(helper, *l4proto).is_none()
        }
        _ => false,
    });
    missing.map(|object| &*object.name).collect()
}
