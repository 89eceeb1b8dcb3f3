//! Tables, chains, rules, sets, objects, flowtables.

use serde_json::{Map, Value, json};

use penstock_program::Expr as VmExpr;
use penstock_program::expr::LimitType;
use penstock_ruleset::model::{
    BaseChain, Chain, ChainType, Family, Flowtable, MapData, Object, ObjectValue, Rule, Set, Table,
};
use penstock_sets::Policy;

use super::expr::Writer;
use super::{one_or_many, stmt, tagged};
use crate::ast::stmt::Limit;
use crate::datatype::Type;
use crate::delinearize::Delinearizer;
use crate::print::Listing;
use crate::print::listing::{family_name, object_name};
use crate::userdata::{self, SetUserData};

/// The tables of a listing (of one family, if given) with all that is in them, after an object that tells the version:
/// `nft -j list ruleset`.
pub fn ruleset(listing: &Listing<'_>, family: Option<Family>) -> Value {
    let mut out = vec![metainfo()];
    for table in listing.generation.tables.iter().filter(|t| family.is_none_or(|f| t.family == f)) {
        Tables { listing, table }.whole(&mut out);
    }
    json!({ "nftables": out })
}

/// The first entry of every output.
fn metainfo() -> Value {
    json!({"metainfo": {"version": "1.0.6", "release_name": "Lester Gooch #5", "json_schema_version": 1}})
}

/// One table in JSON.
struct Tables<'a> {
    listing: &'a Listing<'a>,
    table: &'a Table,
}

impl Tables<'_> {
    /// The table, then objects, sets, flowtables and chains, then the rules of all chains.
    fn whole(&self, out: &mut Vec<Value>) {
        let table = self.table;
        out.push(self.header());
        out.extend(table.objects.iter().map(|o| self.object(o)));
        out.extend(table.sets.iter().filter(|s| !s.anonymous).map(|s| self.set(s)));
        out.extend(table.flowtables.iter().map(|f| self.flowtable(f)));
        out.extend(table.chains.iter().filter(|c| !c.anonymous).map(|c| self.chain(c)));
        for chain in table.chains.iter().filter(|c| !c.anonymous) {
            out.extend(chain.rules.iter().map(|r| self.rule(chain, r)));
        }
    }

    fn writer(&self) -> Writer<'_> {
        Writer {
            names: self.listing.names,
            format: &self.listing.format,
            family_matters: matches!(self.table.family, Family::Inet | Family::Netdev | Family::Bridge),
        }
    }

    fn delinearizer(&self) -> Delinearizer<'_> {
        Delinearizer { table: self.table, now: self.listing.now }
    }

    /// Members that all objects of a table begin with, in the order of objects and sets.
    fn named(&self, name: &str) -> Map<String, Value> {
        let mut m = Map::new();
        m.insert("family".into(), json!(family_name(self.table.family)));
        m.insert("name".into(), json!(name));
        m.insert("table".into(), json!(&*self.table.name));
        m
    }

    fn header(&self) -> Value {
        let mut m = Map::new();
        m.insert("family".into(), json!(family_name(self.table.family)));
        m.insert("name".into(), json!(&*self.table.name));
        m.insert("handle".into(), json!(self.table.handle));
        if self.table.dormant {
            m.insert("flags".into(), json!("dormant"));
        }
        comment(&mut m, userdata::comment(&self.table.userdata).as_deref());
        tagged("table", m)
    }

    fn chain(&self, chain: &Chain) -> Value {
        let mut m = Map::new();
        m.insert("family".into(), json!(family_name(self.table.family)));
        m.insert("table".into(), json!(&*self.table.name));
        m.insert("name".into(), json!(&*chain.name));
        m.insert("handle".into(), json!(chain.handle));
        comment(&mut m, userdata::comment(&chain.userdata).as_deref());
        if let Some(base) = &chain.base {
            base_chain(&mut m, base);
        }
        tagged("chain", m)
    }

    fn rule(&self, chain: &Chain, rule: &Rule) -> Value {
        let block = self.delinearizer().rule(rule);
        let mut m = Map::new();
        m.insert("family".into(), json!(family_name(self.table.family)));
        m.insert("table".into(), json!(&*self.table.name));
        m.insert("chain".into(), json!(&*chain.name));
        m.insert("handle".into(), json!(rule.handle));
        comment(&mut m, block.comment.as_deref());
        let writer = self.writer();
        m.insert("expr".into(), block.stmts.iter().map(|s| writer.stmt(s)).collect());
        tagged("rule", m)
    }

    fn set(&self, set: &Set) -> Value {
        let userdata = SetUserData::decode(&set.userdata);
        let mut m = self.named(&set.name);
        m.insert("type".into(), type_names(set.key_type));
        m.insert("handle".into(), json!(set.handle));
        match set.data {
            None => {}
            Some(MapData::Verdict) => _ = m.insert("map".into(), json!("verdict")),
            Some(MapData::Object(kind)) => _ = m.insert("map".into(), json!(object_name(kind))),
            Some(MapData::Value { .. }) => _ = m.insert("map".into(), type_names(set.data_type)),
        }
        comment(&mut m, userdata.comment.as_deref());
        let d = &set.description;
        if !d.constant {
            if d.policy == Policy::Memory {
                m.insert("policy".into(), json!("memory"));
            }
            if let Some(size) = d.size.filter(|&size| size > 0) {
                m.insert("size".into(), json!(size));
            }
        }
        // The dynamic flag is not shown, as in nft 1.0.6.
        let flags = [(d.constant, "constant"), (d.interval, "interval"), (d.timeout, "timeout")];
        let flags: Vec<Value> = flags.iter().filter(|(on, _)| *on).map(|(_, word)| json!(word)).collect();
        if !flags.is_empty() {
            m.insert("flags".into(), Value::Array(flags));
        }
        if set.timeout != 0 {
            m.insert("timeout".into(), json!(set.timeout / 1000));
        }
        if set.gc_interval != 0 {
            m.insert("gc-interval".into(), json!(set.gc_interval / 1000));
        }
        let writer = self.writer();
        let delinearizer = self.delinearizer();
        if !self.listing.format.terse && !set.elements.is_empty() {
            let elements = delinearizer.elements(set);
            m.insert("elem".into(), elements.iter().map(|e| writer.expr(e)).collect());
        }
        if !set.exprs.is_empty() {
            let format = crate::datatype::Format { stateless: true, ..self.listing.format };
            let template = Writer { format: &format, ..writer };
            let stmts = delinearizer.stateful(&set.exprs);
            m.insert("stmt".into(), stmts.iter().map(|s| template.stmt(s)).collect());
        }
        tagged(if set.data.is_some() { "map" } else { "set" }, m)
    }

    fn object(&self, object: &Object) -> Value {
        let mut m = self.named(&object.name);
        m.insert("handle".into(), json!(object.handle));
        comment(&mut m, userdata::comment(&object.userdata).as_deref());
        let stateless = self.listing.format.stateless;
        let present = |expr: VmExpr| match &object.state {
            Some(state) => state.snapshot(&expr, self.listing.now),
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
            ObjectValue::Limit(l) => m.extend(limit(&Limit {
                rate: l.rate,
                unit: l.unit,
                kind: l.kind,
                burst: l.burst,
                over: l.over,
            })),
            ObjectValue::CtHelper { helper, l4proto, l3proto } => {
                m.insert("type".into(), json!(&**helper));
                m.insert("protocol".into(), self.protocol(*l4proto));
                m.insert("l3proto".into(), self.l3proto(*l3proto));
            }
            ObjectValue::CtTimeout { l4proto, l3proto, values } => {
                m.insert("protocol".into(), self.protocol(*l4proto));
                m.insert("l3proto".into(), self.l3proto(*l3proto));
                let named = values.iter().filter_map(|(state, seconds)| {
                    let (name, default) = crate::print::timeout_state(*l4proto, *state)?;
                    (*seconds != default).then(|| (name.to_owned(), json!(seconds)))
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
            ObjectValue::Synproxy(s) => synproxy(&mut m, s.mss, s.wscale, s.flags),
            ObjectValue::SecMark(context) => _ = m.insert("context".into(), json!(&**context)),
        }
        tagged(object_name(object.value.kind()), m)
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
            _ => family_name(self.table.family),
        })
    }

    fn flowtable(&self, flowtable: &Flowtable) -> Value {
        let mut m = self.named(&flowtable.name);
        m.insert("handle".into(), json!(flowtable.handle));
        m.insert("hook".into(), json!("ingress"));
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

fn base_chain(m: &mut Map<String, Value>, base: &BaseChain) {
    let kind = match base.kind {
        ChainType::Filter => "filter",
        ChainType::Nat => "nat",
        ChainType::Route => "route",
    };
    m.insert("type".into(), json!(kind));
    m.insert("hook".into(), json!(crate::print::hook_name(base.hook)));
    m.insert("prio".into(), json!(base.priority));
    let devices: Vec<Value> = base.devices.iter().map(|d| json!(&**d)).collect();
    if !devices.is_empty() {
        m.insert("dev".into(), one_or_many(devices));
    }
    m.insert("policy".into(), json!(if base.policy_accept { "accept" } else { "drop" }));
}

/// The name of a type, or those of a concatenation.
fn type_names(id: u32) -> Value {
    let name = Type::from_id(id).unwrap_or_default().name();
    one_or_many(name.split(" . ").map(|n| json!(n)).collect())
}

/// Members of a limit object: with units where it counts bytes.
fn limit(l: &Limit) -> Map<String, Value> {
    let mut m = stmt::limit(l);
    if l.kind == LimitType::Packets && l.burst == 0 {
        m.shift_remove("burst");
    }
    m
}

/// Members of a proxy's configuration.
pub(super) fn synproxy(m: &mut Map<String, Value>, mss: u16, wscale: u8, flags: u32) {
    if flags & 1 != 0 {
        m.insert("mss".into(), json!(mss));
    }
    if flags & 2 != 0 {
        m.insert("wscale".into(), json!(wscale));
    }
    let mut words = Vec::new();
    if flags & 8 != 0 {
        words.push(json!("timestamp"));
    }
    if flags & 4 != 0 {
        words.push(json!("sack-perm"));
    }
    if !words.is_empty() {
        m.insert("flags".into(), one_or_many(words));
    }
}
