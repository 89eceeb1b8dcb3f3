// SPDX-License-Identifier: Apache-2.0

//! What `--report` is made of: each packet with the rules that it met and its fate, counted while
//! captures go through the ruleset.
//!
//! Packets pass one by one and traced, so that each step belongs to the frame that caused it. At
//! each hook two more chains, the first and the last, count what comes and what leaves; they change
//! nothing, and no listing has them.

use std::collections::HashMap;

use penstock_daemon::control::CaptureCall;
use penstock_dataplane::{Counters, DropEvent, Place, Sink, TraceEvent, TraceRecord};
use penstock_lang::names::Names;
use penstock_net::{Link, Network};
use penstock_packet::{Meta, Packet};
use penstock_print::drops::Dropped;
use penstock_program::Hook;
use penstock_report::hooks::{Hooks, Layer, Passed};
use penstock_report::rules::Rules;
use penstock_report::timeline::Timelines;
use penstock_report::{Flow, Port, Report, Way};
use penstock_ruleset::{Family, Generation};

use crate::capture::call_of;
use crate::input::{Entering, InputPort};
use crate::trace::outcome::{Fate, Outcome, Sent, ends};
use crate::trace::told::Told;
use crate::tracer::Tracer;

/// Flows that are told apart.
const FLOWS: usize = 100_000;
/// Those of them that are shown.
const FLOWS_SHOWN: usize = 25;
/// Ways that are told apart.
const WAYS: usize = 4096;
/// Those of them that are shown.
const WAYS_SHOWN: usize = 40;
/// What becomes of packets of one flow: kinds that are told apart.
const ENDS: usize = 4;

/// The places where packets are counted: hook, and family of the chains that count.
const COUNTED: [(Hook, &str, &str); 14] = [
    (Hook::Ingress, "netdev", "ingress"),
    (Hook::Egress, "netdev", "egress"),
    (Hook::Prerouting, "inet", "prerouting"),
    (Hook::Input, "inet", "input"),
    (Hook::Forward, "inet", "forward"),
    (Hook::Output, "inet", "output"),
    (Hook::Postrouting, "inet", "postrouting"),
    (Hook::Prerouting, "bridge", "prerouting"),
    (Hook::Input, "bridge", "input"),
    (Hook::Forward, "bridge", "forward"),
    (Hook::Output, "bridge", "output"),
    (Hook::Postrouting, "bridge", "postrouting"),
    (Hook::Input, "arp", "input"),
    (Hook::Output, "arp", "output"),
];
/// Priorities of the first chain and of the last one.
const ENDS_OF_HOOK: [&str; 2] = ["-2147483648", "2147483647"];

/// The chains that count what passes the hooks that a report on these rules shows.
pub fn probes(generation: &Generation, has_devices: bool) -> Vec<(Probe, CaptureCall)> {
    let has = |family| generation.tables.iter().any(|table| table.family == family);
    COUNTED
        .iter()
        .filter(|(_, family, _)| match *family {
            "netdev" => has_devices,
            "bridge" => has(Family::Bridge),
            "arp" => has(Family::Arp),
            _ => true,
        })
        .flat_map(|&(hook, family, name)| {
            ENDS_OF_HOOK.iter().enumerate().map(move |(end, priority)| {
                let layer = match family {
                    "netdev" => Layer::Device,
                    "bridge" => Layer::Bridge,
                    "arp" => Layer::Arp,
                    _ => Layer::Ip,
                };
                let call = call_of(
                    name.to_owned(),
                    Some(family.to_owned()),
                    Some((*priority).to_owned()),
                    String::new(),
                );
                (Probe { layer, hook, is_first: end == 0 }, call)
            })
        })
        .collect()
}

/// Which end of which hook a chain counts at.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    layer: Layer,
    hook: Hook,
    is_first: bool,
}

/// How often rules and policies of a table decided.
struct TableCounts {
    family: Family,
    name: String,
    /// By handle.
    rules: HashMap<u64, u64>,
    /// By chain.
    policies: HashMap<String, u64>,
}

/// A flow that was seen.
#[derive(Default)]
struct FlowCounts {
    from: String,
    packets: u64,
    bytes: u64,
    became: Vec<(String, u64)>,
}

/// A way that was seen.
struct WayCounts {
    packets: u64,
    frame: u64,
    dropped: bool,
    trace: String,
}

/// Packets that ended for a reason.
struct DropCounts {
    reason: &'static str,
    /// What is known besides the reason, in words.
    place: String,
    /// Family, table and handle of the rule that did it.
    rule: Option<(Family, String, u64)>,
    packets: u64,
    /// Its line over time.
    line: usize,
}

/// The frame that is on its way.
#[derive(Default)]
struct Current {
    number: u64,
    time: u64,
    from: String,
    ends: String,
    bytes: u64,
}

/// Counts for a report.
pub struct Collector<'n> {
    told: Told<'n>,
    net: &'n Network,
    names: &'n dyn Names,
    generation: std::sync::Arc<Generation>,
    /// Numbers of probes begin with this one.
    first_probe: u32,
    probes: Vec<Probe>,
    hooks: Hooks,
    tables: Vec<TableCounts>,
    flows: HashMap<String, FlowCounts>,
    more_flows: usize,
    ways: HashMap<String, WayCounts>,
    more_ways: u64,
    /// Frames whose traces are shown in any case, and those of them that came.
    wanted: Vec<u64>,
    chosen: Vec<Way>,
    drops: HashMap<String, DropCounts>,
    over_time: Timelines,
    ports: Vec<(u32, Port)>,
    /// Frames that began their way.
    frames: u64,
    start: Option<u64>,
    end: u64,
    current: Current,
}

impl<'n> Collector<'n> {
    /// Nothing counted so far. Traces are shown of frames with the numbers `wanted`, and of one
    /// frame for each way.
    pub fn new(
        tracer: Tracer<'n>,
        net: &'n Network,
        names: &'n dyn Names,
        generation: std::sync::Arc<Generation>,
        wanted: Vec<u64>,
    ) -> Self {
        let mut told = Told::new(tracer);
        told.listen();
        let wires = net.links().iter().filter(|link| link.is_wire());
        let port = |link: &Link| Port { name: link.name.to_string(), ..Port::default() };
        let ports = wires.map(|link| (link.index, port(link))).collect();
        Collector {
            told,
            net,
            names,
            generation,
            first_probe: 0,
            probes: Vec::new(),
            hooks: Hooks::default(),
            tables: Vec::new(),
            flows: HashMap::new(),
            more_flows: 0,
            ways: HashMap::new(),
            more_ways: 0,
            wanted,
            chosen: Vec::new(),
            drops: HashMap::new(),
            over_time: Timelines::default(),
            ports,
            frames: 0,
            start: None,
            end: 0,
            current: Current::default(),
        }
    }

    /// Chains that count at hooks have these numbers, beginning with `first`.
    pub fn count_at(&mut self, first: u32, probes: Vec<Probe>) {
        self.first_probe = first;
        for probe in &probes {
            self.hooks.passed.entry((probe.layer, probe.hook)).or_default();
        }
        self.probes = probes;
    }

    /// A frame begins its way; `number` is that among all frames of the captures.
    pub fn begin(&mut self, number: u64, entering: &Entering<'_>) {
        let name = |device| self.net.link(device).map_or("?", |link| &*link.name);
        let (from, network) = match entering.port {
            InputPort::Device(device) => {
                if let Some((_, port)) = self.ports.iter_mut().find(|(index, _)| *index == device) {
                    port.received += 1;
                    *port.received_bytes.get_or_insert_default() += entering.bytes.len() as u64;
                }
                (name(device).to_owned(), Sent::network_at(&entering.bytes))
            }
            InputPort::HostDevice(device) => {
                (format!("host:{}", name(device)), Sent::network_at(&entering.bytes))
            }
            InputPort::Stack(_) => ("host".to_owned(), Sent::network_at(&entering.bytes)),
            InputPort::Host if entering.link.is_ip() => ("host".to_owned(), 0),
            InputPort::Host => ("host".to_owned(), Sent::network_at(&entering.bytes)),
        };
        self.frames += 1;
        self.start.get_or_insert(entering.time);
        self.end = self.end.max(entering.time);
        self.over_time.begin(entering.time);
        self.current = Current {
            number,
            time: entering.time,
            ends: ends(&entering.bytes, network).trim_start().to_owned(),
            from,
            bytes: entering.bytes.len() as u64,
        };
    }

    /// The frame is at its end, and so is everything that it caused.
    pub fn end(&mut self) {
        let (outcome, trace) = self.told.take();
        let Current { number, from, ends, bytes, .. } = std::mem::take(&mut self.current);
        let words = outcome.words();
        if self.wanted.contains(&number) {
            self.chosen.push(Way {
                words: format!("frame {number} from {from}: {words}"),
                dropped: outcome.fate() == Fate::Dropped,
                packets: 1,
                example: format!("{ends} (asked for)"),
                trace: trace.clone(),
            });
        }
        self.flow(&from, &ends, bytes, &words);
        let key = format!("from {from}: {words}{}", self.by(&outcome));
        let full = self.ways.len() >= WAYS;
        match self.ways.get_mut(&key) {
            Some(way) => way.packets += 1,
            None if full => self.more_ways += 1,
            None => {
                let dropped = outcome.fate() == Fate::Dropped;
                self.ways.insert(key, WayCounts { packets: 1, frame: number, dropped, trace });
            }
        }
    }

    /// The rules that let the packet pass.
    fn by(&self, outcome: &Outcome) -> String {
        if outcome.fate() == Fate::Dropped {
            return String::new();
        }
        let rules: Vec<String> = outcome
            .met
            .iter()
            .filter(|met| met.decides)
            .map(|met| {
                let at = &met.chain;
                let rule = self.told.rules().rule(at.family, &at.table, met.handle);
                match rule.and_then(|rule| rule.origin.as_ref()) {
                    Some(origin) => origin.to_string(),
                    None => {
                        let family = at.family.name();
                        format!("{family} {} {} handle {}", at.table, at.chain, met.handle)
                    }
                }
            })
            .collect();
        match rules.is_empty() {
            true => String::new(),
            false => format!(" by {}", rules.join(", ")),
        }
    }

    fn flow(&mut self, from: &str, ends: &str, bytes: u64, words: &str) {
        let back = reversed(ends);
        let key = match self.flows.contains_key(&back) {
            true => back,
            false => ends.to_owned(),
        };
        if self.flows.len() >= FLOWS && !self.flows.contains_key(&key) {
            self.more_flows += 1;
            return;
        }
        let flow = self.flows.entry(key).or_default();
        if flow.from.is_empty() {
            flow.from = from.to_owned();
        }
        flow.packets += 1;
        flow.bytes += bytes;
        let known = |what: &str| flow.became.iter().position(|(known, _)| known == what);
        let what = match known(words) {
            None if flow.became.len() >= ENDS => "otherwise",
            _ => words,
        };
        match known(what) {
            Some(at) => flow.became[at].1 += 1,
            None => flow.became.push((what.to_owned(), 1)),
        }
    }

    fn table(&mut self, place: &Place<'_>) -> &mut TableCounts {
        let known =
            self.tables.iter().position(|t| t.family == place.family && t.name == place.table);
        let at = known.unwrap_or_else(|| {
            self.tables.push(TableCounts {
                family: place.family,
                name: place.table.to_owned(),
                rules: HashMap::new(),
                policies: HashMap::new(),
            });
            self.tables.len() - 1
        });
        &mut self.tables[at]
    }

    /// A frame leaves.
    pub fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
        if let Some((_, port)) = self.ports.iter_mut().find(|(index, _)| *index == device.index) {
            port.sent += 1;
            *port.sent_bytes.get_or_insert_default() += frame.len() as u64;
        }
        self.told.transmit(device, frame, meta);
    }

    /// A packet has come to the host.
    pub fn deliver(&mut self, device: &Link, packet: &Packet) {
        self.told.deliver(device, packet);
    }

    /// A packet ends.
    pub fn drop(&mut self, drop: &DropEvent<'_>, packet: &Packet) {
        let why = Dropped::of(drop, Some(self.told.rules())).to_string();
        let over_time = &mut self.over_time;
        let counts = self.drops.entry(why).or_insert_with_key(|why| {
            let reason = drop.reason.text();
            let place = why.strip_prefix(reason).unwrap_or(why).trim_start_matches(": ");
            let rule = drop
                .place
                .as_ref()
                .and_then(|place| Some((place.family, place.table.to_owned(), place.rule?)));
            DropCounts { reason, place: place.to_owned(), rule, packets: 0, line: over_time.add() }
        });
        counts.packets += 1;
        over_time.count(counts.line, self.current.time.max(self.start.unwrap_or_default()), 1);
        self.told.drop(drop, packet);
    }

    /// A chain that counts was met, or another probe.
    pub fn probed(&mut self, number: u32) {
        let at = number.checked_sub(self.first_probe).and_then(|n| self.probes.get(n as usize));
        if let Some(Probe { layer, hook, is_first }) = at {
            let Passed { entered, left } = self.hooks.passed.entry((*layer, *hook)).or_default();
            *if *is_first { entered } else { left } += 1;
        }
    }

    /// A packet goes a step.
    pub fn trace(&mut self, record: &TraceRecord<'_>, packet: &Packet) {
        match (record.event, record.place.rule) {
            (TraceEvent::Rule(_) | TraceEvent::Return(_), Some(handle)) => {
                *self.table(&record.place).rules.entry(handle).or_default() += 1;
            }
            (TraceEvent::Policy(_), _) => {
                let chain = record.place.chain;
                let policies = &mut self.table(&record.place).policies;
                match policies.get_mut(chain) {
                    Some(count) => *count += 1,
                    None => {
                        policies.insert(chain.to_owned(), 1);
                    }
                }
            }
            (TraceEvent::Packet | TraceEvent::Rule(_) | TraceEvent::Return(_), _) => {}
        }
        self.told.trace(record, packet);
    }

    /// The report, when the last packet is at its end.
    pub fn report(
        mut self,
        title: String,
        what: &str,
        counters: &Counters,
        notes: String,
    ) -> Report {
        let mut rules = Rules::new(&self.generation, self.names, self.end);
        let tables = &self.tables;
        let of = |family, name: &str| tables.iter().find(|t| t.family == family && t.name == name);
        rules.count_by(
            |family, table, handle| {
                of(family, table).and_then(|t| t.rules.get(&handle)).copied().unwrap_or_default()
            },
            |family, table, chain| {
                of(family, table).and_then(|t| t.policies.get(chain)).copied().unwrap_or_default()
            },
        );
        self.over_time.advance(self.end);
        let mut drops: Vec<_> = self.drops.into_values().collect();
        drops.sort_by(|a, b| b.packets.cmp(&a.packets).then_with(|| a.place.cmp(&b.place)));
        let drops = drops.into_iter().map(|DropCounts { reason, place, rule, packets, line }| {
            let rule = rule.as_ref();
            let rule = rule.and_then(|(family, table, handle)| rules.rule(*family, table, *handle));
            penstock_report::Dropped {
                reason: reason.to_owned(),
                place,
                rule: rule.map(|rule| rule.id.clone()),
                packets,
                line: Some(line),
            }
        });
        let drops = drops.collect();
        let mut flows: Vec<_> = self.flows.into_iter().collect();
        flows.sort_by(|(a, m), (b, n)| n.packets.cmp(&m.packets).then_with(|| a.cmp(b)));
        let more_flows = flows.len().saturating_sub(FLOWS_SHOWN) + self.more_flows;
        let flows = flows.into_iter().take(FLOWS_SHOWN).map(|(ends, flow)| {
            let mut became = flow.became;
            became.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
            let became = became.into_iter().map(|(what, count)| (what, Some(count)));
            let (from, packets, bytes) = (flow.from, flow.packets, flow.bytes);
            Flow { from, ends, packets, bytes, became: became.collect() }
        });
        let mut ways: Vec<_> = self.ways.into_iter().collect();
        ways.sort_by(|(_, a), (_, b)| b.packets.cmp(&a.packets).then(a.frame.cmp(&b.frame)));
        let more_ways = ways.len().saturating_sub(WAYS_SHOWN) + self.more_ways as usize;
        let ways = ways.into_iter().take(WAYS_SHOWN).map(|(words, way)| Way {
            words,
            dropped: way.dropped,
            packets: way.packets,
            example: format!("Frame {}:", way.frame),
            trace: way.trace,
        });
        let seconds = self.end.saturating_sub(self.start.unwrap_or(self.end)) as f64 / 1e9;
        let mut facts = vec![("in".to_owned(), self.frames)];
        for (name, count, is_shown) in [
            ("transmitted", counters.transmitted, true),
            ("delivered", counters.delivered, true),
            ("dropped", counters.dropped(), true),
            ("forwarded", counters.forwarded, counters.forwarded > 0),
            ("by flowtables", counters.fast, counters.fast > 0),
            ("taken over", counters.taken, counters.taken > 0),
        ] {
            if is_shown {
                facts.push((name.to_owned(), count));
            }
        }
        self.hooks.received = Some(counters.received);
        self.hooks.transmitted = Some(counters.transmitted);
        self.hooks.delivered = Some(counters.delivered);
        self.hooks.from_host = Some(counters.from_host);
        self.hooks.flowtable = Some(counters.fast);
        Report {
            title,
            subtitle: format!("{what}, {seconds:.1} s by their timestamps"),
            facts,
            notes: notes.lines().map(str::to_owned).collect(),
            hooks: self.hooks,
            rules,
            drops,
            drops_over_time: self.over_time,
            flows: flows.collect(),
            more_flows,
            ports: self.ports.into_iter().map(|(_, port)| port).collect(),
            ways: self.chosen.into_iter().chain(ways).collect(),
            more_ways,
        }
    }
}

/// Addresses and ports of the other direction: `saddr A daddr B` becomes `saddr B daddr A`.
fn reversed(ends: &str) -> String {
    let mut words: Vec<&str> = ends.split(' ').collect();
    for (from, to) in [("saddr", "daddr"), ("sport", "dport")] {
        let at = |word| words.iter().position(|w| *w == word).map(|at| at + 1);
        if let (Some(a), Some(b)) = (at(from), at(to))
            && a.max(b) < words.len()
        {
            words.swap(a, b);
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_has_two_directions() {
        let there = "ip saddr 198.18.0.1 ip daddr 198.19.0.1 tcp sport 5000 tcp dport 80";
        let back = "ip saddr 198.19.0.1 ip daddr 198.18.0.1 tcp sport 80 tcp dport 5000";
        assert_eq!(reversed(there), back);
        assert_eq!(reversed("ether type 0x0806"), "ether type 0x0806");
    }
}
