// SPDX-License-Identifier: Apache-2.0

//! What the page shows. The dataplane is asked while somebody looks, and at most twice a second.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_daemon::control::client::Client;
use penstock_daemon::control::protocol::{Message, Show};
use penstock_lang::datatype::Format;
use penstock_net::Network;
use penstock_print::drops::Place;
use penstock_print::rules::WrittenRules;
use penstock_print::show::{Form, Listing};
use penstock_report::hooks::Hooks;
use penstock_report::rules::Rules;
use penstock_report::timeline::Timelines;
use penstock_report::{Dropped, Flow, Port, Report};
use penstock_ruleset::{Family, Ruleset};
use penstock_system::SystemNames;
use serde_json::Value;

use super::sending::{Host, now};
use crate::rules;
use crate::trace::live_ruleset;

/// How long an answer of the dataplane is used.
const FRESH: Duration = Duration::from_millis(500);
/// Flows that are shown.
const FLOWS: usize = 25;

/// What the page is about.
pub enum Subject {
    /// The running dataplane.
    Dataplane,
    /// The ruleset in this file.
    State(PathBuf),
}

/// A ruleset that was read.
struct Read {
    generation: u64,
    ruleset: Arc<Ruleset>,
    /// As the page shows them.
    rules: Rules,
    /// Their texts and origins.
    written: WrittenRules,
}

impl Read {
    fn new(generation: u64, ruleset: Ruleset) -> Self {
        let (names, now) = (SystemNames::default(), now());
        let rules = Rules::new(&ruleset.generation(), &names, now);
        let written = WrittenRules::new(&ruleset.generation(), &names, Format::default(), now);
        Read { generation, ruleset: Arc::new(ruleset), rules, written }
    }
}

/// The rule or policy that dropped packets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Doer {
    family: Family,
    table: String,
    chain: String,
    /// Of the rule.
    handle: Option<u64>,
}

/// What was seen, and what has to be known to see more.
pub struct Looking {
    subject: Subject,
    /// The network that described packets are sent through, or why there is none.
    net: Result<Arc<Network>, String>,
    /// The ruleset that was read last.
    read: Option<Read>,
    /// Drops by reason and place: their lines, and how many there were.
    drops: HashMap<(String, Option<Doer>), (usize, u64)>,
    over_time: Timelines,
    /// The last report.
    seen: Option<(Instant, Result<Report, String>)>,
}

impl Looking {
    /// Reads the network. An error is one of a file that was named.
    pub fn new(subject: Subject, net: Option<PathBuf>) -> Result<Self, String> {
        let net = match net {
            Some(file) => {
                let name = file.display().to_string();
                let text =
                    std::fs::read_to_string(&file).map_err(|e| format!("Error: {name}: {e}"))?;
                let net = Network::from_batch(&name, &text).map_err(|e| format!("Error: {e}"))?;
                Ok(Arc::new(net))
            }
            None => here(),
        };
        let looking = Looking {
            subject,
            net,
            read: None,
            drops: HashMap::new(),
            over_time: Timelines::default(),
            seen: None,
        };
        match &looking.subject {
            Subject::State(file) => {
                rules::restore(file, &|_| Ok(()), now())?;
            }
            Subject::Dataplane => {}
        }
        Ok(looking)
    }

    /// The page.
    pub fn page(&mut self) -> String {
        let report = self.look();
        let mut devices: Vec<String> = report.ports.iter().map(|port| port.name.clone()).collect();
        if let (Ok(net), true) = (&self.net, devices.is_empty()) {
            let links = net.links().iter().filter(|link| link.is_wire() && link.has_link_header());
            devices.extend(links.map(|link| link.name.to_string()));
        }
        devices.push("host".to_owned());
        report.live_page(&devices)
    }

    /// What changes of it.
    pub fn body(&mut self) -> String {
        self.look().body()
    }

    /// A copy of the host as it is.
    pub fn host(&mut self) -> Result<Host, String> {
        let net = self.net.clone()?;
        // Packets may have changed sets meanwhile.
        (self.seen, self.read) = (None, None);
        self.look();
        if let Some((_, Err(message))) = &self.seen {
            return Err(message.clone());
        }
        let read = self.read.as_ref().ok_or("Error: there is no ruleset")?;
        let now = now();
        Ok(Host { net, saved: read.ruleset.save(now), now })
    }

    fn look(&mut self) -> Report {
        let is_fresh = self.seen.as_ref().is_some_and(|(then, _)| then.elapsed() < FRESH);
        if !is_fresh {
            let report = match &self.subject {
                Subject::State(file) => {
                    let file = file.clone();
                    self.of_file(&file)
                }
                Subject::Dataplane => self.of_dataplane(),
            };
            self.seen = Some((Instant::now(), report));
        }
        match &self.seen {
            Some((_, Ok(report))) => report.clone(),
            Some((_, Err(message))) => Report {
                title: "There is nothing to show".to_owned(),
                subtitle: message.clone(),
                ..Report::default()
            },
            None => Report::default(),
        }
    }

    fn of_file(&mut self, file: &std::path::Path) -> Result<Report, String> {
        let now = now();
        let ruleset = rules::restore(file, &|_| Ok(()), now)?;
        let rules = self.read.insert(Read::new(0, ruleset)).rules.clone();
        Ok(Report {
            title: file.display().to_string(),
            subtitle: "A ruleset in a file, with its counters".to_owned(),
            rules,
            ..Report::default()
        })
    }

    fn of_dataplane(&mut self) -> Result<Report, String> {
        let state = Message::Show(Show::new(Listing::State, Form::Json));
        let state: Value =
            serde_json::from_str(&ask(&state)?).map_err(|e| format!("Error: {e}"))?;
        let generation = state["generation"].as_u64().unwrap_or_default();
        let read = match self.read.take_if(|read| read.generation == generation) {
            Some(read) => read,
            None => Read::new(generation, live_ruleset()?),
        };
        let read = &*self.read.insert(read);
        let mut rules = read.rules.clone();
        count(&mut rules, &state["rules"]);
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
        let packets = &state["packets"];
        let time = (state["time"].as_f64().unwrap_or_default() * 1e9) as u64;
        self.over_time.begin(time);
        self.over_time.advance(time);
        let is_first = self.seen.is_none();
        let mut drops = Vec::new();
        for ((reason, doer), count) in dropped(&state) {
            let over_time = &mut self.over_time;
            let (line, before) = self
                .drops
                .entry((reason.clone(), doer.clone()))
                .or_insert_with(|| (over_time.add(), if is_first { count } else { 0 }));
            over_time.count(*line, time, count.saturating_sub(*before));
            *before = count;
            let place = doer.as_ref().map(|Doer { family, table, chain, handle }| {
                Place::new((*family, table, chain), *handle, Some(&read.written)).to_string()
            });
            let rule = doer.and_then(|doer| {
                rules.rule(doer.family, &doer.table, doer.handle?).map(|rule| rule.id.clone())
            });
            let place = place.unwrap_or_default();
            drops.push(Dropped { reason, place, rule, packets: count, line: Some(*line) });
        }
        drops.sort_by(|a, b| {
            b.packets
                .cmp(&a.packets)
                .then_with(|| (&a.reason, &a.place).cmp(&(&b.reason, &b.place)))
        });
        let ports = list(&state["ports"]);
        let ports = ports.iter().map(|port| Port {
            name: text(&port["name"]),
            received: number(&port["received"]["frames"]),
            received_bytes: Some(number(&port["received"]["bytes"])),
            sent: number(&port["sent"]["frames"]),
            sent_bytes: Some(number(&port["sent"]["bytes"])),
        });
        let talkers = list(&state["flows"]["most"]);
        let flows = talkers.iter().take(FLOWS).map(|flow| Flow {
            from: text(&flow["protocol"]),
            ends: format!("{} → {}", text(&flow["source"]), text(&flow["destination"])),
            packets: number(&flow["packets"]),
            bytes: number(&flow["bytes"]),
            became: vec![(format!("forwarded by {}", text(&flow["by"])), None)],
        });
        let facts = [
            ("received", &packets["received"]),
            ("transmitted", &packets["transmitted"]),
            ("delivered", &packets["delivered"]),
            ("dropped", &packets["dropped"]),
            ("connections", &state["connections"]),
            ("flows", &state["flows"]["count"]),
        ];
        let seconds = state["time"].as_f64().unwrap_or_default()
            - state["started"].as_f64().unwrap_or_default();
        let mut notes = Vec::new();
        if let Some(pending) = state["unconfirmed"].as_object() {
            let left = pending.get("seconds").and_then(Value::as_f64).unwrap_or_default();
            notes.push(format!(
                "A change waits for its confirmation: it is rolled back in {left:.0} s."
            ));
        }
        Ok(Report {
            title: "Dataplane".to_owned(),
            subtitle: format!("Generation {generation}, running for {}", duration(seconds)),
            facts: facts.map(|(name, value)| (name.to_owned(), number(value))).to_vec(),
            notes,
            hooks: Hooks {
                received: Some(number(&packets["received"])),
                transmitted: Some(number(&packets["transmitted"])),
                delivered: Some(number(&packets["delivered"])),
                forwarded: Some(number(&packets["forwarded"])),
                from_host: Some(number(&state["account"]["from_host"])),
                flowtable: Some(number(&packets["fast"])),
                ..Hooks::default()
            },
            rules,
            drops,
            drops_over_time: self.over_time.clone(),
            flows: flows.collect(),
            ports: ports.collect(),
            ..Report::default()
        })
    }
}

/// The network of this namespace.
fn here() -> Result<Arc<Network>, String> {
    let lines = crate::net::save(&[], false).map_err(|e| format!("Error: {e}"))?;
    let net = Network::from_batch("the network of this host", &lines);
    net.map(Arc::new).map_err(|e| format!("Error: {e}"))
}

fn ask(message: &Message) -> Result<String, String> {
    let client = Client::connect().map_err(|e| format!("Error: {e}"))?;
    let mut client = client.ok_or(crate::dataplane::NONE)?;
    client.text(message).map_err(|e| format!("Error: {e}"))
}

/// Drops by reason and by what did it, each with a count. Those of a reason of which no rule or
/// policy is known stand by themselves.
fn dropped(state: &Value) -> Vec<((String, Option<Doer>), u64)> {
    let mut all = Vec::new();
    let mut told: HashMap<String, u64> = HashMap::new();
    for drop in state["drops_by_rule"].as_array().into_iter().flatten() {
        let text = |name: &str| drop[name].as_str().unwrap_or_default().to_owned();
        let packets = drop["packets"].as_u64().unwrap_or_default();
        let Some(family) = Family::from_name(&text("family")) else { continue };
        let handle = drop["handle"].as_u64();
        let doer = Doer { family, table: text("table"), chain: text("chain"), handle };
        *told.entry(text("reason")).or_default() += packets;
        all.push(((text("reason"), Some(doer)), packets));
    }
    for (reason, count) in state["drops"].as_object().into_iter().flatten() {
        let told = told.get(reason).copied().unwrap_or_default();
        let rest = count.as_u64().unwrap_or_default().saturating_sub(told);
        if rest > 0 {
            all.push(((reason.clone(), None), rest));
        }
    }
    all
}

/// Gives rules the counts that the dataplane has now.
fn count(rules: &mut Rules, counted: &Value) {
    let mut by_handle: HashMap<(&str, &str, u64), (u64, u64)> = HashMap::new();
    for rule in counted.as_array().into_iter().flatten() {
        let text = |name: &str| rule[name].as_str().unwrap_or_default();
        let number = |name: &str| rule[name].as_u64().unwrap_or_default();
        by_handle.insert(
            (text("family"), text("table"), number("handle")),
            (number("packets"), number("bytes")),
        );
    }
    for table in &mut rules.tables {
        for rule in table.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
            let key = (table.family.name(), &*table.name, rule.handle);
            if let Some((packets, bytes)) = by_handle.get(&key) {
                (rule.packets, rule.bytes) = (Some(*packets), Some(*bytes));
            }
        }
    }
}

/// A time in words.
fn duration(seconds: f64) -> String {
    match seconds.max(0.0) as u64 {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s @ 7200..172_800 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86_400),
    }
}
