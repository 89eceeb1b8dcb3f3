// SPDX-License-Identifier: Apache-2.0

//! What `penstock show --json` says at a moment, and what passed between two moments.

use std::collections::HashMap;

use serde_json::Value;

/// Counts by name.
type Counts = HashMap<String, Vec<f64>>;

/// A moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Seconds since the epoch.
    pub time: f64,
    /// When the dataplane began, likewise.
    started: f64,
    generation: u64,
    connections: u64,
    flows: u64,
    counts: [Counts; View::ALL.len()],
}

/// What a page is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// Ports, both sides.
    Ports,
    /// Rules with counters, and named counters.
    Rules,
    /// Flows and connections with the most bytes.
    Flows,
    /// Drops by reason.
    Drops,
}

impl View {
    /// In the order of their keys.
    pub const ALL: [View; 4] = [View::Ports, View::Rules, View::Flows, View::Drops];

    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            View::Ports => "ports",
            View::Rules => "rules",
            View::Flows => "flows",
            View::Drops => "drops",
        }
    }

    /// What is counted of a row, each with whether it is bytes: those are shown as bits per second.
    pub fn columns(self) -> &'static [(&'static str, bool)] {
        match self {
            View::Ports => {
                &[("in/s", false), ("in bit/s", true), ("out/s", false), ("out bit/s", true)]
            }
            View::Rules | View::Flows => &[("packets/s", false), ("bit/s", true)],
            View::Drops => &[("packets/s", false)],
        }
    }
}

/// A row: its name, rates by column, and totals by column.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which port, rule, flow or reason.
    pub name: String,
    /// Per second.
    pub rates: Vec<f64>,
    /// Since it is counted.
    pub totals: Vec<f64>,
}

fn text(value: &Value) -> String {
    // What rules and comments say is not to reach the terminal's controls.
    value
        .as_str()
        .unwrap_or_default()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

impl Snapshot {
    /// Reads what `penstock show --json` has printed, once or several times: the first and the last
    /// of it. The error is a sentence.
    pub fn read(json: &str) -> Result<(Snapshot, Snapshot), String> {
        let all: Result<Vec<Value>, _> =
            serde_json::Deserializer::from_str(json).into_iter().collect();
        let all = all.map_err(|e| e.to_string())?;
        let snapshots: Option<Vec<Snapshot>> = all.iter().map(Snapshot::of).collect();
        match snapshots.as_deref() {
            Some([first, .., last]) => Ok((first.clone(), last.clone())),
            Some([one]) => Ok((one.beginning(), one.clone())),
            _ => Err("this is not the output of `penstock show --json`".into()),
        }
    }

    fn of(json: &Value) -> Option<Snapshot> {
        let frames = |value: &Value| [number(&value["frames"]), number(&value["bytes"])];
        let ports = list(json.get("ports")?).iter().flat_map(|port| {
            let name = text(&port["name"]);
            let wire = [frames(&port["received"]), frames(&port["sent"])].concat();
            let host = [frames(&port["from_host"]), frames(&port["to_host"])].concat();
            [(name.clone(), wire), (format!("{name} host"), host)]
        });
        let counted = |value: &Value, name: String| {
            (name, vec![number(&value["packets"]), number(&value["bytes"])])
        };
        let rules = list(&json["rules"]).iter().map(|rule| {
            let place = [&rule["family"], &rule["table"], &rule["chain"]].map(text).join(" ");
            let (handle, written) = (&rule["handle"], text(&rule["rule"]));
            let name = match rule.get("file") {
                Some(file) => {
                    format!("{place} {handle} {}:{}: {written}", text(file), rule["line"])
                }
                None => format!("{place} {handle} {written}"),
            };
            counted(rule, name)
        });
        let counters = list(&json["counters"]).iter().map(|counter| {
            let place = [&counter["family"], &counter["table"]].map(text).join(" ");
            counted(counter, format!("{place} counter {}", text(&counter["name"])))
        });
        let flows = list(&json["flows"]["most"]).iter().map(|flow| {
            let [protocol, source, destination, by] =
                [&flow["protocol"], &flow["source"], &flow["destination"], &flow["by"]].map(text);
            counted(flow, format!("{protocol} {source} > {destination} {by}"))
        });
        let drops = json.get("drops")?.as_object()?.iter();
        let drops = drops.map(|(reason, count)| (reason.clone(), vec![number(count)]));
        Some(Snapshot {
            time: json.get("time")?.as_f64()?,
            started: json.get("started")?.as_f64()?,
            generation: json["generation"].as_u64().unwrap_or_default(),
            connections: json["connections"].as_u64().unwrap_or_default(),
            flows: json["flows"]["count"].as_u64().unwrap_or_default(),
            counts: [
                ports.collect(),
                rules.chain(counters).collect(),
                flows.collect(),
                drops.collect(),
            ],
        })
    }

    /// The moment when all counts were zero.
    pub fn beginning(&self) -> Snapshot {
        Snapshot { time: self.started, started: self.started, ..Snapshot::default() }
    }

    /// What a page says at its head.
    pub fn headline(&self, before: &Snapshot) -> String {
        let seconds = self.time - before.time;
        let Snapshot { generation, connections, flows, .. } = self;
        format!(
            "generation {generation}, {connections} connections, {flows} flows; rates over {seconds:.1} s"
        )
    }

    /// What passed per second since a moment before, in packets: received by ports from wires, and
    /// dropped.
    pub fn pace(&self, before: &Snapshot) -> [f64; 2] {
        let received = self.rows(before, View::Ports, 0);
        // Each port has another row for the host's side of it.
        let received = received.iter().filter(|row| !row.name.ends_with(" host"));
        let dropped = self.rows(before, View::Drops, 0);
        [received.map(|row| row.rates[0]).sum(), dropped.iter().map(|row| row.rates[0]).sum()]
    }

    /// The rows of a view, with what passed since a moment before; those with the highest rate in a
    /// column first.
    pub fn rows(&self, before: &Snapshot, view: View, column: usize) -> Vec<Row> {
        let seconds = self.time - before.time;
        let old = &before.counts[view as usize];
        let columns = view.columns();
        let mut rows: Vec<Row> = self.counts[view as usize]
            .iter()
            .map(|(name, totals)| {
                let then = old.get(name);
                let rate = |(i, now): (usize, &f64)| {
                    // What counts from zero again, or was not among the most, has no rate.
                    let then = then.and_then(|then| then.get(i)).copied();
                    let then = then.unwrap_or(if before.counts_nothing() { 0.0 } else { *now });
                    let passed = if *now >= then { now - then } else { *now };
                    let factor =
                        if columns.get(i).is_some_and(|(_, bytes)| *bytes) { 8.0 } else { 1.0 };
                    if seconds > 0.0 { passed * factor / seconds } else { 0.0 }
                };
                let rates = totals.iter().enumerate().map(rate).collect();
                Row { name: name.clone(), rates, totals: totals.clone() }
            })
            .collect();
        let key = |row: &Row| row.rates.get(column).copied().unwrap_or_default();
        let total = |row: &Row| row.totals.get(column).copied().unwrap_or_default();
        rows.sort_by(|a, b| {
            key(b).total_cmp(&key(a)).then(total(b).total_cmp(&total(a))).then(a.name.cmp(&b.name))
        });
        rows
    }

    fn counts_nothing(&self) -> bool {
        self.counts.iter().all(HashMap::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(time: f64, packets: u64) -> String {
        json!({
            "time": time, "started": 100.0, "generation": 3, "connections": 2,
            "ports": [{ "name": "eth0",
                "received": { "frames": packets, "bytes": packets * 100 }, "sent": { "frames": 1, "bytes": 60 },
                "from_host": { "frames": 0, "bytes": 0 }, "to_host": { "frames": 0, "bytes": 0 } }],
            "rules": [
                { "family": "inet", "table": "t", "chain": "c", "handle": 4, "rule": "tcp dport 22\u{1b}[2J",
                  "packets": packets, "bytes": packets * 50 },
                { "family": "inet", "table": "t", "chain": "c", "handle": 5, "rule": "drop",
                  "file": "r.nft", "line": 7, "packets": 9, "bytes": 9 },
            ],
            "counters": [],
            "flows": { "count": 1, "most": [] },
            "drops": { "rule": packets / 2 },
        })
        .to_string()
    }

    #[test]
    fn rates_are_differences_between_two_snapshots() {
        let (first, last) =
            Snapshot::read(&format!("{}\n{}", at(110.0, 1000), at(112.0, 3000))).unwrap();
        let ports = last.rows(&first, View::Ports, 0);
        assert_eq!(
            (&*ports[0].name, ports[0].rates.as_slice()),
            ("eth0", &[1000.0, 800_000.0, 0.0, 0.0][..])
        );
        let rules = last.rows(&first, View::Rules, 0);
        // Controls of the terminal are no part of a name.
        assert_eq!((&*rules[0].name, rules[0].rates[0]), ("inet t c 4 tcp dport 22 [2J", 1000.0));
        assert_eq!((&*rules[1].name, rules[1].rates[1]), ("inet t c 5 r.nft:7: drop", 0.0));
        assert_eq!(last.rows(&first, View::Drops, 0)[0].rates, [500.0]);
    }

    #[test]
    fn a_single_snapshot_counts_from_the_start() {
        let (first, last) = Snapshot::read(&at(110.0, 1000)).unwrap();
        assert_eq!(last.rows(&first, View::Ports, 0)[0].rates[0], 100.0);
    }

    #[test]
    fn a_reset_counter_has_no_negative_rate() {
        let (first, last) =
            Snapshot::read(&format!("{}{}", at(110.0, 1000), at(111.0, 10))).unwrap();
        assert_eq!(last.rows(&first, View::Ports, 0)[0].rates[0], 10.0);
    }

    #[test]
    fn malformed_snapshots_are_refused() {
        for text in ["", "{", "{}", "[1]", "null"] {
            assert!(Snapshot::read(text).is_err(), "{text}");
        }
    }
}
