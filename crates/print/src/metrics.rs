// SPDX-License-Identifier: Apache-2.0

//! What the dataplane counts, as OpenMetrics text.

mod peers;

use std::io;

use penstock_lang::userdata;
use penstock_program::expr::Expr;
use penstock_ruleset::model::ObjectValue;

use crate::open_metrics::Metrics;
use crate::show::state::State;
use crate::show::status::{PortTraffic, Traffic};

/// Writes the state.
///
/// # Errors
/// The error of the writer.
pub fn write(state: &State<'_>, to: &mut dyn io::Write) -> io::Result<()> {
    let mut metrics = Metrics::to(to);
    metrics.family("build", "info", "The program.");
    metrics.told("build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    metrics.gauge("start_time_seconds", "When the dataplane began.", state.started as f64 / 1e9);
    ruleset(state, &mut metrics);
    ports(state, &mut metrics);
    path(state, &mut metrics);
    tables(state, &mut metrics);
    peers::write(state.peer, &mut metrics);
    metrics.end()
}

fn ruleset(state: &State<'_>, metrics: &mut Metrics<'_>) {
    metrics.gauge(
        "generation",
        "Number of the generation of the ruleset in force.",
        state.generation.id,
    );
    let (evaluation, commit) =
        (state.took.evaluation.as_secs_f64(), state.took.commit.as_secs_f64());
    let unconfirmed = state.unconfirmed.map_or(0.0, |(_, left)| left.as_secs_f64());
    metrics.gauge(
        "unconfirmed_seconds",
        "How long a change still waits for its confirmation; 0 where none does.",
        unconfirmed,
    );
    metrics.gauge(
        "last_evaluation_seconds",
        "How long the last change took to evaluate.",
        evaluation,
    );
    metrics.gauge(
        "last_commit_seconds",
        "How long it took from there until packets met it.",
        commit,
    );
    let named = || {
        state.generation.tables.iter().flat_map(|table| {
            table.objects.iter().filter_map(move |object| match object.snapshot(state.now) {
                ObjectValue::Counter(counter) => Some((table, object, counter)),
                _ => None,
            })
        })
    };
    // Rules that have a name of the user's: their comment.
    let rules = || {
        state.generation.tables.iter().flat_map(|table| {
            table.chains.iter().flat_map(move |chain| {
                chain.rules.iter().filter_map(move |rule| {
                    let comment = userdata::comment(&rule.userdata)?;
                    let counter =
                        rule.snapshot(state.now).into_iter().find_map(|expr| match expr {
                            Expr::Counter(counter) => Some(counter),
                            _ => None,
                        })?;
                    Some((table, chain, rule, comment, counter))
                })
            })
        })
    };
    for (what, help) in
        [("packets", "Packets that a named counter counted."), ("bytes", "Bytes of them.")]
    {
        metrics.family(&format!("counter_{what}"), "counter", help);
        for (table, object, counter) in named() {
            let labels = [
                ("family", table.family.name()),
                ("table", &*table.name),
                ("counter", &*object.name),
            ];
            let value = if what == "packets" { counter.packets } else { counter.bytes };
            metrics.told(&format!("counter_{what}_total"), &labels, value);
        }
    }
    for (what, help) in [
        ("packets", "Packets that the counter of a rule with a comment counted."),
        ("bytes", "Bytes of them."),
    ] {
        metrics.family(&format!("rule_{what}"), "counter", help);
        for (table, chain, rule, comment, counter) in rules() {
            let handle = rule.handle.to_string();
            let mut labels = vec![
                ("family", table.family.name()),
                ("table", &*table.name),
                ("chain", &*chain.name),
                ("handle", &*handle),
                ("comment", &*comment),
            ];
            let line = rule.origin.as_ref().map(|origin| origin.line.to_string());
            if let (Some(origin), Some(line)) = (&rule.origin, &line) {
                labels.extend([("file", &*origin.file), ("line", line)]);
            }
            let value = if what == "packets" { counter.packets } else { counter.bytes };
            metrics.told(&format!("rule_{what}_total"), &labels, value);
        }
    }
}

fn ports(state: &State<'_>, metrics: &mut Metrics<'_>) {
    let sides = |traffic: &PortTraffic| {
        [
            ("wire", "in", traffic.received),
            ("wire", "out", traffic.sent),
            ("host", "in", traffic.from_host),
            ("host", "out", traffic.to_host),
        ]
    };
    type Read = fn(Traffic) -> u64;
    let kinds: [(&str, &str, Read); 2] = [
        (
            "port_frames",
            "Frames of a port, by side and direction; super-packets count as one.",
            |t| t.frames,
        ),
        ("port_bytes", "Bytes of them, with link headers.", |t| t.bytes),
    ];
    for (name, help, read) in kinds {
        metrics.family(name, "counter", help);
        for port in &state.status.ports {
            for (side, direction, traffic) in sides(&port.traffic) {
                let labels = [("port", &*port.name), ("side", side), ("direction", direction)];
                metrics.told(&format!("{name}_total"), &labels, read(traffic));
            }
        }
    }
    metrics.family(
        "port_lost",
        "counter",
        "Frames of a port that were not taken, by side and direction.",
    );
    for port in &state.status.ports {
        for (side, direction, lost) in [
            ("wire", "in", port.lost),
            ("wire", "out", port.refused),
            ("host", "out", port.host_refused),
        ] {
            let labels = [("port", &*port.name), ("side", side), ("direction", direction)];
            metrics.told("port_lost_total", &labels, lost);
        }
    }
}

fn path(state: &State<'_>, metrics: &mut Metrics<'_>) {
    let status = state.status;
    let counters = &status.counters;
    let stages = [
        ("received", counters.received),
        ("forwarded", counters.forwarded),
        ("fast", counters.fast),
        ("delivered", counters.delivered),
        ("transmitted", counters.transmitted),
        ("taken", counters.taken),
        ("dropped", counters.dropped()),
        ("from_host", counters.from_host),
        ("originated", counters.originated),
        ("absorbed", counters.absorbed),
    ];
    metrics.counters("packets", "Packets, by what became of them.", "stage", stages);
    let drops = counters.all_drops().map(|(reason, count)| (reason.text(), count));
    metrics.counters("drops", "Packets that were dropped, by reason.", "reason", drops);
    metrics.gauge("queued", "Packets that wait for programs.", status.queued);
    metrics.gauge("waiting", "Packets that wait for anything.", status.account().waiting);
    let workers =
        || status.workers.iter().enumerate().map(|(number, worker)| (number.to_string(), worker));
    metrics.family("worker_frames", "counter", "Frames of a worker, by what it did with them.");
    for (number, worker) in workers() {
        for (way, frames) in [
            ("received", worker.received),
            ("handed_over", worker.handed_over),
            ("taken_over", worker.taken_over),
        ] {
            metrics.told("worker_frames_total", &[("worker", &number), ("way", way)], frames);
        }
    }
    metrics.family("worker_load", "gauge", "Percent of the last second that a worker was at work.");
    for (number, worker) in workers() {
        metrics.told("worker_load", &[("worker", &number)], worker.load);
    }
    metrics.family("undelivered", "counter", "Packets for the host that no port could take there.");
    metrics.told("undelivered_total", &[], status.undelivered);
}

fn tables(state: &State<'_>, metrics: &mut Metrics<'_>) {
    let status = state.status;
    metrics.gauge("connections", "Connections that are tracked.", status.connections);
    let t = &status.tracking;
    let events = [
        ("invalid", t.invalid),
        ("insert", t.insert),
        ("insert_failed", t.insert_failed),
        ("drop", t.drop),
        ("table_full", t.table_full),
        ("early_drop", t.early_drop),
    ];
    metrics.counters(
        "conntrack",
        "What happened to connections and their packets.",
        "event",
        events,
    );
    metrics.gauge("flows", "Flows in flowtables.", status.flows);
    let f = &status.flow_counts;
    let events = [
        ("added", f.added),
        ("expired", f.expired),
        ("torn_down", f.torn_down),
        ("ended", f.ended),
    ];
    metrics.counters("flow", "What happened to flows in flowtables.", "event", events);
    let packets = [("forwarded", f.packets), ("fell_back", f.fell_back)];
    metrics.counters(
        "flow_packets",
        "Packets of flows in flowtables, by where they went.",
        "way",
        packets,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    use penstock_lang::names::NoNames;
    use penstock_lang::session::{Options, Session};
    use penstock_lang::source::{NoFiles, Origin};
    use penstock_ruleset::Ruleset;

    use crate::show::status::{PortStatus, Status, Took};

    fn printed() -> String {
        let mut ruleset = Ruleset::default();
        let rules = "table inet t { counter web { packets 5 bytes 600; }; chain c { \
                    counter packets 7 bytes 8 comment \"a \\ b\"; counter packets 1 bytes 1; }; }";
        let outcome = Session::new(Options::default(), &NoFiles, &NoNames).run(
            Origin::CommandLine,
            rules.into(),
            &mut ruleset,
            0,
        );
        assert!(outcome.ok, "{}", outcome.stderr);
        let port = PortStatus {
            name: "eth\"0".into(),
            device: "eth0.port".into(),
            carrier: "packet socket".into(),
            traffic: Default::default(),
            lost: 1,
            refused: 2,
            launched: 0,
            host_refused: 3,
        };
        let status = Status {
            workers: vec![Default::default(); 2],
            ports: vec![port],
            counters: Default::default(),
            placed_drops: Vec::new(),
            connections: 4,
            flows: 5,
            flow_counts: Default::default(),
            tracking: Default::default(),
            queued: 0,
            waiting: 0,
            between: 0,
            ignored: 0,
            elsewhere: 0,
            undelivered: 0,
            offloaded: Vec::new(),
            attached: None,
            left_out: Vec::new(),
            in_nf_tables: Vec::new(),
            compile_error: None,
        };
        let generation = ruleset.generation();
        let state = State {
            status: &status,
            talkers: &[],
            generation: &generation,
            took: Took::default(),
            unconfirmed: None,
            peer: None,
            started: 1_700_000_000_500_000_000,
            now: 1_700_000_001_000_000_000,
        };
        let mut written = Vec::new();
        write(&state, &mut written).expect("there is room");
        String::from_utf8(written).expect("text")
    }

    /// Labels of a sample, between its braces, with their escapes taken off.
    fn labels(mut text: &str) -> Vec<(String, String)> {
        let mut out = Vec::new();
        while !text.is_empty() {
            let (name, rest) = text.split_once("=\"").expect("a label");
            let (mut value, mut chars) = (String::new(), rest.char_indices());
            let end = loop {
                match chars.next().expect("the end of a value") {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next().expect("what is escaped").1 {
                        'n' => value.push('\n'),
                        c @ ('"' | '\\') => value.push(c),
                        c => panic!("\\{c}"),
                    },
                    (_, c) => value.push(c),
                }
            };
            out.push((name.to_owned(), value));
            text = &rest[end + 1..];
            text = text.strip_prefix(',').unwrap_or(text);
        }
        out
    }

    /// Reads the format as OpenMetrics 1.0 has it, and panics where it is not so.
    fn parse(text: &str) -> HashMap<(String, Vec<(String, String)>), f64> {
        let body = text.strip_suffix("# EOF\n").expect("the end");
        let (mut family, mut families, mut samples) = (("", ""), HashSet::new(), HashMap::new());
        let is_name = |name: &str| {
            name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && !name.starts_with(|c: char| c.is_ascii_digit())
        };
        for line in body.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split_once(' ').expect("a type");
                assert!(families.insert(family.0), "{line}: not all in one place");
                assert!(
                    ["counter", "gauge", "info"].contains(&family.1) && is_name(family.0),
                    "{line}"
                );
                continue;
            }
            if let Some(rest) = line.strip_prefix("# HELP ") {
                assert_eq!(rest.split_once(' ').map(|(name, _)| name), Some(family.0), "{line}");
                continue;
            }
            let (what, value) = line.rsplit_once(' ').expect("a sample");
            let (name, of) = match what.split_once('{') {
                Some((name, rest)) => (name, labels(rest.strip_suffix('}').expect("a brace"))),
                None => (what, Vec::new()),
            };
            let suffix = name.strip_prefix(family.0).expect("of the family");
            let expected = match family.1 {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            assert_eq!(suffix, expected, "{line}");
            let value: f64 = value.parse().expect("a number");
            assert!(value.is_finite() && of.iter().all(|(label, _)| is_name(label)), "{line}");
            assert!(samples.insert((name.to_owned(), of), value).is_none(), "{line}: twice");
        }
        samples
    }

    #[test]
    fn metrics_are_valid_openmetrics() {
        let samples = parse(&printed());
        let find = |name: &str, label: &str, value: &str| {
            let is_it = |(n, labels): &&(String, Vec<(String, String)>)| {
                n == name && labels.iter().any(|(l, v)| l == label && v == value)
            };
            let key = samples.keys().find(is_it);
            samples[key.unwrap_or_else(|| panic!("{name} {label}={value}"))]
        };
        assert_eq!(find("penstock_counter_packets_total", "counter", "web"), 5.0);
        assert_eq!(find("penstock_rule_bytes_total", "comment", "a \\ b"), 8.0);
        assert_eq!(find("penstock_port_frames_total", "port", "eth\"0"), 0.0);
        assert_eq!(samples[&("penstock_start_time_seconds".to_owned(), vec![])], 1_700_000_000.5);
        assert_eq!(
            samples.keys().filter(|(name, _)| name == "penstock_rule_packets_total").count(),
            1
        );
    }
}
