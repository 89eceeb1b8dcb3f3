// SPDX-License-Identifier: Apache-2.0

//! The table that routes become: sets of addresses that are dropped, and rules of flow
//! specifications. It is made, compared with a listing, and repaired; nothing else in a ruleset is
//! touched.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;

use serde_json::Value;

use super::Route;
use super::rib::Rib;
use crate::elements::{Elements, outermost};
use crate::flow::FlowSpec;
use crate::flow::action::Actions;
use crate::flow::rules::FlowRules;
use crate::span::Family;

/// The community BLACKHOLE (RFC 7999).
pub const BLACKHOLE: u32 = 0xffff_029a;

/// The table, and which routes are in it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the table, which is of family inet.
    pub table: String,
    /// The priority of its base chains; those of flow specifications are one after it. Fragments
    /// are seen as they came below -400.
    pub priority: i32,
    /// Devices at whose ingress the chains are; without any they are at prerouting.
    pub devices: Vec<String>,
    /// Packets to prefixes with one of these communities are dropped.
    pub communities: Vec<u32>,
    /// Packets from prefixes with one of these are.
    pub source_communities: Vec<u32>,
}

/// A set of prefixes whose packets are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blackhole {
    /// Its name.
    pub set: &'static str,
    /// The family of its prefixes.
    pub family: Family,
    /// It is about sources of packets.
    pub is_source: bool,
}

/// The sets.
pub const BLACKHOLES: [Blackhole; 4] = [
    Blackhole { set: "blackhole4", family: Family::V4, is_source: false },
    Blackhole { set: "blackhole6", family: Family::V6, is_source: false },
    Blackhole { set: "blackhole_source4", family: Family::V4, is_source: true },
    Blackhole { set: "blackhole_source6", family: Family::V6, is_source: true },
];

/// The chain of the sets, and that of flow specifications.
const BLACKHOLE_CHAIN: &str = "blackhole";
const FLOW_CHAIN: &str = "flowspec";

/// What routes ask for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// The elements of [`BLACKHOLES`].
    pub elements: [Elements; 4],
    /// The rules of flow specifications in their order.
    pub flows: Vec<FlowRules>,
    /// Specifications without rules, and why.
    pub refused: Vec<(String, String)>,
}

impl Wanted {
    /// What the routes of all sessions ask for. Where several peers announce one specification,
    /// the actions of the one whose name is first count.
    pub fn of(rib: &Rib, settings: &Settings) -> Wanted {
        let mut prefixes: [Vec<_>; 4] = Default::default();
        let mut flows: Vec<(&FlowSpec, &Actions)> = Vec::new();
        for (_, _, route) in rib.routes() {
            match route {
                Route::Unicast { prefix, communities } => {
                    for (of, all) in BLACKHOLES.iter().zip(&mut prefixes) {
                        let counts = match of.is_source {
                            true => &settings.source_communities,
                            false => &settings.communities,
                        };
                        let is_meant = communities.iter().any(|c| counts.contains(c));
                        if of.family == prefix.family() && is_meant {
                            all.push(*prefix);
                        }
                    }
                }
                Route::Flow(spec, actions) => flows.push((spec, actions)),
                Route::Refused(_) => {}
            }
        }
        flows.sort_by(|(a, _), (b, _)| a.order(b));
        flows.dedup_by(|(a, _), (b, _)| a == b);
        let mut wanted = Wanted { elements: prefixes.map(outermost), ..Wanted::default() };
        for (spec, actions) in flows {
            match FlowRules::new(spec, actions) {
                Ok(rules) => wanted.flows.push(rules),
                Err(why) => wanted.refused.push((spec.to_string(), why)),
            }
        }
        wanted
    }
}

impl Settings {
    /// Commands that make the table anew, without elements and flow specifications.
    pub fn definition(&self) -> String {
        let table = format!("inet {}", self.table);
        let mut text = format!("add table {table}\ndelete table {table}\nadd table {table}\n");
        for of in BLACKHOLES {
            let key = of.family.key_type();
            let _ = writeln!(
                text,
                "add set {table} {} {{ type {key}; flags interval; counter; }}",
                of.set
            );
        }
        for (name, priority) in self.chains() {
            let hook = match self.hook_devices() {
                Some(devices) => format!("ingress devices = {devices}"),
                None => "prerouting".to_owned(),
            };
            let _ = writeln!(
                text,
                "add chain {table} {name} {{ type filter hook {hook} priority {priority}; \
                 policy accept; }}"
            );
        }
        for of in BLACKHOLES {
            let _ = writeln!(
                text,
                "add rule {table} {BLACKHOLE_CHAIN} {} @{} counter drop comment \"{}\"",
                of.field(),
                of.set,
                of.comment()
            );
        }
        text
    }

    fn hook_devices(&self) -> Option<String> {
        let quoted: Vec<String> = self.devices.iter().map(|d| format!("\"{d}\"")).collect();
        (!quoted.is_empty()).then(|| format!("{{ {} }}", quoted.join(", ")))
    }

    fn chains(&self) -> [(&'static str, i32); 2] {
        [(BLACKHOLE_CHAIN, self.priority), (FLOW_CHAIN, self.priority.saturating_add(1))]
    }

    /// A set of the table, as commands name it.
    pub fn set(&self, of: Blackhole) -> String {
        format!("inet {} {}", self.table, of.set)
    }
}

impl Blackhole {
    fn field(self) -> &'static str {
        match (self.family, self.is_source) {
            (Family::V4, false) => "ip daddr",
            (Family::V6, false) => "ip6 daddr",
            (Family::V4, true) => "ip saddr",
            (Family::V6, true) => "ip6 saddr",
        }
    }

    fn comment(self) -> &'static str {
        if self.is_source { "sources announced by BGP" } else { "destinations announced by BGP" }
    }
}

/// The table as a listing has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Its sets, chains and limits, in a form that is compared.
    objects: BTreeSet<String>,
    /// Comments of the rules of the first chain.
    blackhole_rules: Vec<String>,
    /// Handle and name of the rules of flow specifications.
    flow_rules: Vec<(u64, String)>,
    limits: BTreeSet<String>,
    /// Names of its counters.
    pub counters: BTreeSet<String>,
}

impl Listed {
    /// Reads what `nft -j -t list table` prints.
    ///
    /// # Errors
    /// It is no such listing.
    pub fn read(json: &str) -> Result<Listed, String> {
        let value: Value = serde_json::from_str(json).map_err(|e| format!("no JSON: {e}"))?;
        let mut listed = Listed::default();
        for object in value["nftables"].as_array().ok_or("no listing of nft")? {
            let name = |kind: &str| object[kind]["name"].as_str().unwrap_or_default().to_owned();
            if let Some(set) = object.get("set") {
                let (key, flags) = (&set["type"], &set["flags"]);
                listed.objects.insert(format!("set {} {key} {flags}", name("set")));
            } else if let Some(chain) = object.get("chain") {
                let devices = match &chain["dev"] {
                    Value::String(one) => vec![one.clone()],
                    Value::Array(all) => {
                        all.iter().filter_map(|d| d.as_str().map(str::to_owned)).collect()
                    }
                    _ => Vec::new(),
                };
                let (hook, priority) = (&chain["hook"], &chain["prio"]);
                listed.objects.insert(chain_words(&name("chain"), hook, priority, devices));
            } else if object.get("counter").is_some() {
                listed.counters.insert(name("counter"));
            } else if object.get("limit").is_some() {
                listed.limits.insert(name("limit"));
            } else if let Some(rule) = object.get("rule") {
                let comment = rule["comment"].as_str().unwrap_or_default();
                match rule["chain"].as_str() {
                    Some(FLOW_CHAIN) => {
                        let handle = rule["handle"].as_u64().ok_or("a rule without handle")?;
                        let name = comment.split(' ').next().unwrap_or_default();
                        listed.flow_rules.push((handle, name.to_owned()));
                    }
                    Some(BLACKHOLE_CHAIN) => listed.blackhole_rules.push(comment.to_owned()),
                    _ => {}
                }
            }
        }
        Ok(listed)
    }

    /// Whether sets, chains and the rules about the sets are those of the definition.
    pub fn is_whole(&self, settings: &Settings) -> bool {
        let sets = BLACKHOLES
            .iter()
            .map(|of| format!("set {} \"{}\" [\"interval\"]", of.set, of.family.key_type()));
        let hook = if settings.devices.is_empty() { "prerouting" } else { "ingress" };
        let chains = settings.chains().into_iter().map(|(name, priority)| {
            chain_words(name, &hook.into(), &priority.into(), settings.devices.clone())
        });
        self.objects == sets.chain(chains).collect()
            && self.blackhole_rules.iter().eq(BLACKHOLES.iter().map(|of| of.comment()))
    }

    /// Commands that make the rules of flow specifications those that are wanted; rules that stay
    /// are not touched, and keep their counters. Empty if all is as it is to be. Rules that are not
    /// wanted stay where they are if `keeps_others`.
    pub fn flow_commands(
        &self,
        settings: &Settings,
        flows: &[FlowRules],
        keeps_others: bool,
    ) -> String {
        let chain = format!("inet {} {FLOW_CHAIN}", settings.table);
        let wanted: Vec<&(String, String)> = flows.iter().flat_map(|f| &f.rules).collect();
        let names: HashSet<&str> = wanted.iter().map(|(name, _)| &**name).collect();
        let mut seen = HashSet::new();
        let (mut stay, mut go) = (Vec::new(), Vec::new());
        for (handle, name) in &self.flow_rules {
            match names.contains(&**name) && seen.insert(&**name) {
                true => stay.push((*handle, &**name)),
                false => go.push(*handle),
            }
        }
        // Rules that somebody has moved are made anew.
        let order = wanted.iter().map(|(name, _)| &**name).filter(|name| seen.contains(name));
        if !order.eq(stay.iter().map(|(_, name)| *name)) {
            go.extend(stay.drain(..).map(|(handle, _)| handle));
        }
        let mut text = String::new();
        let limits = flows.iter().filter_map(|f| f.limit.as_ref());
        for (name, definition) in limits.clone() {
            if !self.limits.contains(name) {
                let table = &settings.table;
                let _ = writeln!(text, "add limit inet {table} {name} {{ {definition}; }}");
            }
        }
        for handle in go.into_iter().filter(|_| !keeps_others) {
            let _ = writeln!(text, "delete rule {chain} handle {handle}");
        }
        let mut stay = stay.into_iter().peekable();
        for (name, rule) in wanted {
            match stay.peek() {
                Some((_, there)) if there == name => drop(stay.next()),
                // Each goes right before the next one that stays.
                Some((handle, _)) => {
                    let _ = writeln!(text, "insert rule {chain} handle {handle} {rule}");
                }
                None => {
                    let _ = writeln!(text, "add rule {chain} {rule}");
                }
            }
        }
        let needed: HashSet<&str> = limits.map(|(name, _)| &**name).collect();
        let is_over = |name: &&String| !keeps_others && !needed.contains(&***name);
        for name in self.limits.iter().filter(is_over) {
            let _ = writeln!(text, "delete limit inet {} {name}", settings.table);
        }
        text
    }

    /// Whether rules of a flow specification are there.
    pub fn has_flow(&self, flow: &FlowRules) -> bool {
        flow.rules.iter().any(|(name, _)| self.flow_rules.iter().any(|(_, there)| there == name))
    }

    /// How many rules of flow specifications there are.
    pub fn flow_rules(&self) -> usize {
        self.flow_rules.len()
    }
}

fn chain_words(name: &str, hook: &Value, priority: &Value, mut devices: Vec<String>) -> String {
    devices.sort();
    format!("chain {name} {hook} {priority} {}", devices.join(","))
}
