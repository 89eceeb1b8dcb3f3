// SPDX-License-Identifier: Apache-2.0

//! Tables, chains, rules, sets, objects, flowtables to JSON.

mod tunnel;

use penstock_program::Expr as VmExpr;
use penstock_program::expr::{Limit, LimitType};
use penstock_ruleset::model::{
    BaseChain, Chain, ChainType, Family, Flowtable, MapData, Object, ObjectValue, Rule, Set, Table,
};
use penstock_sets::Policy;
use penstock_syntax::ast::Expr;
use penstock_syntax::ast::cmd::{ObjKind, Target};
use penstock_syntax::ct_timeout;
use penstock_syntax::datatype::Type;
use penstock_syntax::hooks;
use penstock_syntax::json::{Writer, one_or_many, tagged};
use penstock_syntax::objects;
use penstock_syntax::release::Release;
use penstock_syntax::stmt::synproxy;
use penstock_syntax::units;
use serde_json::{Map, Value, json};

use super::{Listing, Missing};
use crate::delinearize::Delinearizer;
use crate::userdata::{self, SetUserData};

/// The tables of a listing (of one family, if given) with all that is in them, after an object that
/// tells the version: `nft -j list ruleset`.
pub fn ruleset(listing: &Listing<'_>, family: Option<Family>) -> Value {
    let mut out = Vec::new();
    for table in listing.generation.tables.iter().filter(|t| family.is_none_or(|f| t.family == f)) {
        Tables { listing, table }.whole(&mut out);
    }
    document(listing.format.release, out)
}

/// The answer to `list KIND …` (and what `reset` prints) in JSON. `None` for kinds that have no
/// listing of this form.
pub fn list(
    listing: &Listing<'_>,
    kind: ObjKind,
    target: &Target,
) -> Option<Result<Value, Missing>> {
    let family = target.family;
    let named = match &target.table {
        Some(name) => match listing.table_named(family.unwrap_or(Family::Ip), &name.text) {
            Some(table) => Some(table),
            None => return Some(Err(Missing::Table)),
        },
        None => None,
    };
    let tables = listing
        .generation
        .tables
        .iter()
        .map(|t| &**t)
        .filter(|t| family.is_none_or(|f| t.family == f))
        .filter(|t| named.is_none_or(|only| std::ptr::eq(only, *t)))
        .map(|table| Tables { listing, table });
    let name = target.name.as_ref().map_or("", |n| &n.text);
    let mut out = Vec::new();
    match kind {
        ObjKind::Ruleset => tables.for_each(|t| t.whole(&mut out)),
        ObjKind::Tables => out.extend(tables.map(|t| t.header())),
        ObjKind::Table => match named {
            Some(table) => Tables { listing, table }.whole(&mut out),
            None => return Some(Err(Missing::Table)),
        },
        ObjKind::Chains => tables.for_each(|t| out.extend(t.chains().map(|c| t.chain(c)))),
        ObjKind::Rules if target.chain.is_none() => tables.for_each(|t| t.whole(&mut out)),
        ObjKind::Chain | ObjKind::Rules => {
            let Some(table) = named else { return Some(Err(Missing::Table)) };
            let t = Tables { listing, table };
            let wanted = target.chain.as_ref().map_or("", |n| &n.text);
            let Some(chain) = t.chains().find(|c| &*c.name == wanted) else {
                return Some(Err(Missing::Chain));
            };
            out.push(t.chain(chain));
            out.extend(chain.rules.iter().map(|r| t.rule(chain, r)));
        }
        ObjKind::Sets | ObjKind::Maps | ObjKind::Meters => {
            let is_asked_for = |set: &&std::sync::Arc<Set>| match kind {
                ObjKind::Sets => !set.anonymous && set.data.is_none(),
                ObjKind::Maps => !set.anonymous && set.data.is_some(),
                _ => set.anonymous && set.description.dynamic,
            };
            tables.for_each(|t| {
                out.extend(
                    t.table.sets.iter().filter(is_asked_for).map(|s| t.set(s, t.elements(s))),
                );
            });
        }
        ObjKind::Set | ObjKind::Map | ObjKind::Meter => {
            let Some(table) = named else { return Some(Err(Missing::Table)) };
            let t = Tables { listing, table };
            let is_asked_for = |set: &Set| match kind {
                ObjKind::Set => set.data.is_none(),
                ObjKind::Map => set.data.is_some(),
                _ => set.description.dynamic,
            };
            match table.sets.iter().find(|s| &*s.name == name && is_asked_for(s)) {
                Some(set) => out.push(t.set(set, t.elements(set))),
                None => return Some(Err(Missing::Name)),
            }
        }
        ObjKind::Flowtables => {
            tables.for_each(|t| out.extend(t.table.flowtables.iter().map(|f| t.flowtable(f))));
        }
        ObjKind::Flowtable => {
            let Some(table) = named else { return Some(Err(Missing::Table)) };
            match table.flowtables.iter().find(|f| &*f.name == name) {
                Some(flowtable) => out.push(Tables { listing, table }.flowtable(flowtable)),
                None => return Some(Err(Missing::Name)),
            }
        }
        ObjKind::Objects(kind) => tables.for_each(|t| {
            let objects = t.table.objects.iter().filter(|o| o.value.kind() == kind);
            out.extend(objects.map(|o| t.object(o)));
        }),
        ObjKind::Object(kind) => {
            let Some(table) = named else { return Some(Err(Missing::Table)) };
            match table.objects.iter().find(|o| &*o.name == name && o.value.kind() == kind) {
                Some(object) => out.push(Tables { listing, table }.object(object)),
                None => return Some(Err(Missing::Name)),
            }
        }
        ObjKind::Rule | ObjKind::Elements | ObjKind::Hooks => return None,
    }
    Some(Ok(document(listing.format.release, out)))
}

/// Objects in the form of a whole output: after one that tells the version.
pub fn document(release: Release, objects: impl IntoIterator<Item = Value>) -> Value {
    let entries: Vec<Value> = std::iter::once(metainfo(release)).chain(objects).collect();
    json!({ "nftables": entries })
}

/// The first entry of every output.
fn metainfo(release: Release) -> Value {
    let (version, name) = release.version();
    json!({"metainfo": {"version": version, "release_name": name, "json_schema_version": 1}})
}

/// One table in JSON: what listings, echo and monitor say of it and of what is in it.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    /// How, and of which ruleset.
    pub listing: &'a Listing<'a>,
    /// The table.
    pub table: &'a Table,
}

impl Tables<'_> {
    /// The table, then objects, sets, flowtables and chains (chains first in nft 1.1), then the rules
    /// of all chains.
    fn whole(&self, out: &mut Vec<Value>) {
        let table = self.table;
        out.push(self.header());
        let chains_first = self.listing.format.release >= Release::V1_1;
        if chains_first {
            out.extend(self.chains().map(|c| self.chain(c)));
        }
        out.extend(table.objects.iter().map(|o| self.object(o)));
        let sets = table.sets.iter().filter(|s| !s.anonymous);
        out.extend(sets.map(|s| self.set(s, self.elements(s))));
        out.extend(table.flowtables.iter().map(|f| self.flowtable(f)));
        if !chains_first {
            out.extend(self.chains().map(|c| self.chain(c)));
        }
        for chain in self.chains() {
            out.extend(chain.rules.iter().map(|r| self.rule(chain, r)));
        }
    }

    fn chains(&self) -> impl Iterator<Item = &Chain> {
        self.table.chains.iter().map(|c| &**c).filter(|c| !c.anonymous)
    }

    /// The elements that a listing shows of a set.
    fn elements(&self, set: &Set) -> Vec<Expr> {
        if self.listing.format.terse || set.elements().is_empty() {
            return Vec::new();
        }
        self.delinearizer().elements(set)
    }

    fn writer(&self) -> Writer<'_> {
        Writer { names: self.listing.names, format: &self.listing.format }
    }

    fn delinearizer(&self) -> Delinearizer<'_> {
        Delinearizer { table: self.table, now: self.listing.now }
    }

    /// Members that all objects of a table begin with, in the order of objects and sets.
    fn named(&self, name: &str) -> Map<String, Value> {
        let mut m = Map::new();
        m.insert("family".into(), json!(self.table.family.name()));
        m.insert("name".into(), json!(name));
        m.insert("table".into(), json!(&*self.table.name));
        m
    }

    /// The table itself, without what is in it.
    pub fn header(&self) -> Value {
        let mut m = Map::new();
        m.insert("family".into(), json!(self.table.family.name()));
        m.insert("name".into(), json!(&*self.table.name));
        m.insert("handle".into(), json!(self.table.handle));
        if self.table.dormant {
            m.insert("flags".into(), json!("dormant"));
        }
        comment(&mut m, userdata::comment(&self.table.userdata).as_deref());
        tagged("table", m)
    }

    /// A chain, without its rules.
    pub fn chain(&self, chain: &Chain) -> Value {
        let mut m = Map::new();
        m.insert("family".into(), json!(self.table.family.name()));
        m.insert("table".into(), json!(&*self.table.name));
        m.insert("name".into(), json!(&*chain.name));
        m.insert("handle".into(), json!(chain.handle));
        comment(&mut m, userdata::comment(&chain.userdata).as_deref());
        if let Some(base) = &chain.base {
            base_chain(&mut m, base, self.listing.format.release);
        }
        if let Some(program) = &chain.program {
            let mut bpf = json!({ "object": &*program.object });
            if let Some(section) = &program.section {
                bpf["section"] = json!(&**section);
            }
            m.insert("bpf".into(), bpf);
        }
        tagged("chain", m)
    }

    /// A rule.
    pub fn rule(&self, chain: &Chain, rule: &Rule) -> Value {
        let block = self.delinearizer().rule(rule);
        let mut m = Map::new();
        m.insert("family".into(), json!(self.table.family.name()));
        m.insert("table".into(), json!(&*self.table.name));
        m.insert("chain".into(), json!(&*chain.name));
        m.insert("handle".into(), json!(rule.handle));
        comment(&mut m, block.comment.as_deref());
        let writer = self.writer();
        m.insert("expr".into(), block.stmts.iter().map(|s| writer.stmt(s)).collect());
        tagged("rule", m)
    }

    /// A set or map with these elements: echo and monitor tell of elements apart from it.
    pub fn set(&self, set: &Set, elements: Vec<Expr>) -> Value {
        let userdata = SetUserData::decode(&set.userdata);
        let mut m = self.named(&set.name);
        m.insert("type".into(), type_names(set.key_type));
        m.insert("handle".into(), json!(set.handle));
        comment(&mut m, userdata.comment.as_deref());
        match set.data {
            None => {}
            Some(MapData::Verdict) => _ = m.insert("map".into(), json!("verdict")),
            Some(MapData::Object(kind)) => _ = m.insert("map".into(), json!(objects::name(kind))),
            // A concatenation is one string here, unlike that of the key.
            Some(MapData::Value { .. }) => {
                let names = match self.listing.format.release {
                    Release::V1_0_6 => {
                        json!(Type::from_id(set.data_type).unwrap_or_default().name())
                    }
                    Release::V1_1 => type_names(set.data_type),
                };
                m.insert("map".into(), names);
            }
        }
        if self.listing.format.backends {
            let structure = set.structure();
            let (lookup, space) =
                (structure.lookup_class().to_string(), structure.space_class().to_string());
            m.insert(
                "backend".into(),
                json!({ "name": structure.name(), "lookup": lookup, "space": space }),
            );
        }
        let d = &set.description;
        if !d.constant {
            if d.policy == Policy::Memory {
                m.insert("policy".into(), json!("memory"));
            }
            if let Some(size) = d.size.filter(|&size| size > 0) {
                m.insert("size".into(), json!(size));
            }
        }
        let flags = [
            (d.constant, "constant"),
            (d.interval, "interval"),
            (d.timeout, "timeout"),
            // This and `auto-merge` are lost in nft 1.0.6; later versions have them.
            (d.dynamic, "dynamic"),
        ];
        let flags: Vec<Value> =
            flags.iter().filter(|(on, _)| *on).map(|(_, word)| json!(word)).collect();
        if !flags.is_empty() {
            m.insert("flags".into(), Value::Array(flags));
        }
        if set.timeout != 0 {
            m.insert("timeout".into(), json!(set.timeout / 1000));
        }
        if set.gc_interval != 0 {
            m.insert("gc-interval".into(), json!(set.gc_interval / 1000));
        }
        if userdata.auto_merge {
            m.insert("auto-merge".into(), json!(true));
        }
        let writer = self.writer();
        let delinearizer = self.delinearizer();
        if !elements.is_empty() {
            m.insert("elem".into(), elements.iter().map(|e| writer.expr(e)).collect());
        }
        if !set.exprs.is_empty() {
            m.insert("stmt".into(), writer.templates(&delinearizer.stateful(&set.exprs)));
        }
        tagged(if set.data.is_some() { "map" } else { "set" }, m)
    }

    /// Some elements of a set, as echo and monitor tell of them.
    pub fn some_elements(&self, set: &Set, elements: &[Expr]) -> Value {
        let writer = self.writer();
        let mut m = Map::new();
        m.insert("family".into(), json!(self.table.family.name()));
        m.insert("table".into(), json!(&*self.table.name));
        m.insert("name".into(), json!(&*set.name));
        m.insert(
            "elem".into(),
            json!({"set": elements.iter().map(|e| writer.expr(e)).collect::<Vec<_>>()}),
        );
        tagged("element", m)
    }

    /// A counter, quota, limit, helper and the like.
    pub fn object(&self, object: &Object) -> Value {
        let mut m = self.named(&object.name);
        m.insert("handle".into(), json!(object.handle));
        comment(&mut m, userdata::comment(&object.userdata).as_deref());
        let stateless = self.listing.format.stateless;
        let present = |expr: VmExpr| match &object.state {
            Some(state) => expr.snapshot(state, self.listing.now),
            None => expr,
        };
        match &object.value {
            ObjectValue::Counter(counter) => {
                if let VmExpr::Counter(c) = present(VmExpr::Counter(counter.clone())) {
                    m.insert("packets".into(), json!(if stateless { 0 } else { c.packets }));
                    m.insert("bytes".into(), json!(if stateless { 0 } else { c.bytes }));
                }
            }
            ObjectValue::Quota(quota) => {
                if let VmExpr::Quota(q) = present(VmExpr::Quota(quota.clone())) {
                    m.insert("bytes".into(), json!(q.bytes));
                    m.insert("used".into(), json!(if stateless { 0 } else { q.consumed }));
                    m.insert("inv".into(), json!(q.over));
                }
            }
            ObjectValue::Limit(l) => limit(&mut m, l),
            ObjectValue::Connlimit(limit) => {
                m.insert("val".into(), json!(limit.count));
                m.insert("inv".into(), json!(limit.over));
            }
            ObjectValue::CtHelper { helper, l4proto, l3proto } => {
                m.insert("type".into(), json!(&**helper));
                m.insert("protocol".into(), self.protocol(*l4proto));
                m.insert("l3proto".into(), self.l3proto(*l3proto));
            }
            ObjectValue::CtTimeout { l4proto, l3proto, values } => {
                m.insert("protocol".into(), self.protocol(*l4proto));
                m.insert("l3proto".into(), self.l3proto(*l3proto));
                let named = values.iter().filter_map(|(state, seconds)| {
                    let state = ct_timeout::by_number(*l4proto, *state)?;
                    (*seconds != state.timeout).then(|| (state.name.to_owned(), json!(seconds)))
                });
                m.insert("policy".into(), Value::Object(named.collect()));
            }
            ObjectValue::CtExpect { l4proto, l3proto, dport, timeout, size } => {
                m.insert("protocol".into(), self.protocol(*l4proto));
                m.insert("dport".into(), json!(dport));
                m.insert("timeout".into(), json!(timeout));
                m.insert("size".into(), json!(size));
                m.insert("l3proto".into(), self.l3proto(*l3proto));
            }
            ObjectValue::Synproxy(s) => synproxy::members(&mut m, s.mss, s.wscale, s.flags),
            ObjectValue::SecMark(context) => _ = m.insert("context".into(), json!(&**context)),
            ObjectValue::Tunnel(tunnel) => tunnel::tunnel(&mut m, tunnel),
        }
        tagged(objects::name(object.value.kind()), m)
    }

    fn protocol(&self, number: u8) -> Value {
        match self.listing.names.protocol_name(number) {
            Some(name) => json!(name),
            None => json!(number),
        }
    }

    fn l3proto(&self, number: u16) -> Value {
        json!(match number {
            1 => "inet",
            2 | 0x0800 => "ip",
            10 | 0x86dd => "ip6",
            _ => self.table.family.name(),
        })
    }

    /// A flowtable.
    pub fn flowtable(&self, flowtable: &Flowtable) -> Value {
        let mut m = self.named(&flowtable.name);
        m.insert("handle".into(), json!(flowtable.handle));
        let hook = if flowtable.early { "early_ingress" } else { "ingress" };
        m.insert("hook".into(), json!(hook));
        m.insert("prio".into(), json!(flowtable.priority));
        let devices: Vec<Value> = flowtable.devices.iter().map(|d| json!(&**d)).collect();
        if !devices.is_empty() {
            m.insert("dev".into(), one_or_many(devices));
        }
        tagged("flowtable", m)
    }
}

fn comment(m: &mut Map<String, Value>, text: Option<&str>) {
    if let Some(text) = text {
        m.insert("comment".into(), json!(text));
    }
}

fn base_chain(m: &mut Map<String, Value>, base: &BaseChain, release: Release) {
    let kind = match base.kind {
        ChainType::Filter => "filter",
        ChainType::Nat => "nat",
        ChainType::Route => "route",
    };
    let devices: Vec<Value> = base.devices.iter().map(|d| json!(&**d)).collect();
    let devices = (!devices.is_empty()).then(|| one_or_many(devices));
    if let Some(devices) = devices.as_ref().filter(|_| release >= Release::V1_1) {
        m.insert("dev".into(), devices.clone());
    }
    m.insert("type".into(), json!(kind));
    m.insert("hook".into(), json!(hooks::name(base.hook)));
    m.insert("prio".into(), json!(base.priority));
    m.insert("policy".into(), json!(if base.policy_accept { "accept" } else { "drop" }));
    if let Some(devices) = devices.filter(|_| release < Release::V1_1) {
        m.insert("dev".into(), devices);
    }
}

/// The name of a type, or those of a concatenation.
fn type_names(id: u32) -> Value {
    let name = Type::from_id(id).unwrap_or_default().name();
    one_or_many(name.split(" . ").map(|n| json!(n)).collect())
}

/// Members of a limit object, in another order than those of the statement.
fn limit(m: &mut Map<String, Value>, l: &Limit) {
    let (rate, rate_unit) = units::scaled(l.rate);
    let (burst, burst_unit) = units::scaled(l.burst.into());
    let bytes = l.kind == LimitType::Bytes;
    m.insert("rate".into(), json!(if bytes { rate } else { l.rate }));
    m.insert("per".into(), json!(units::time_word(l.unit)));
    if l.over {
        m.insert("inv".into(), json!(true));
    }
    if bytes {
        m.insert("rate_unit".into(), json!(rate_unit));
    }
    if l.burst > 0 {
        m.insert("burst".into(), json!(if bytes { burst } else { l.burst.into() }));
        if bytes {
            m.insert("burst_unit".into(), json!(burst_unit));
        }
    }
}
