//! `penstock show`: what the dataplane does.

use std::ffi::OsString;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use lexopt::Arg::{Long, Short, Value};
use penstock_daemon::control::Took;
use penstock_daemon::control::protocol::Message;
use penstock_daemon::{Traffic, View};
use serde_json::json;

use crate::dataplane::ask;
use crate::options::{Opt, flag};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] =
    [("", &[flag('j', "json", "print it as JSON"), flag('h', "help", "this text")])];

/// What can be shown instead of the state.
pub const LISTINGS: &[&str] = &["conntrack", "flows"];

const USAGE: &str = "Usage: penstock show [-j] [conntrack | flows]\n\n\
    Shows ports, packets and drops by reason of the dataplane of the network namespace; or its connections, as\n\
    `conntrack -L` does; or the flows in flowtables, and why others are not there.\n\n  -j, --json  print it as JSON\n  -h, --help  this text\n";

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Message>, String> {
    let mut parser = lexopt::Parser::from_args(args);
    let (mut json, mut listing) = (false, None);
    while let Some(arg) = parser.next().map_err(|e| e.to_string())? {
        match arg {
            Short('j') | Long("json") => json = true,
            Short('h') | Long("help") => return Ok(None),
            Value(word) if word == "conntrack" && listing.is_none() => listing = Some(Message::Connections),
            Value(word) if word == "flows" && listing.is_none() => listing = Some(Message::Flows),
            other => return Err(other.unexpected().to_string()),
        }
    }
    match listing {
        Some(_) if json => Err("connections and flows are not printed as JSON".into()),
        Some(listing) => Ok(Some(listing)),
        None => Ok(Some(Message::Show(json))),
    }
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let message = match parse(args) {
        Ok(Some(message)) => message,
        Ok(None) => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprint!("penstock show: {message}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    ask(&message)
}

/// The state in words, or as JSON.
pub fn text(view: &View<'_>, as_json: bool) -> String {
    if as_json { format!("{}\n", json(view)) } else { words(view) }
}

/// A duration as milliseconds.
fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

fn words(view: &View<'_>) -> String {
    let (status, mut out) = (view.status, String::new());
    // Writing to a String does not fail.
    let _ = write!(out, "generation {}", view.generation.id);
    if view.took != Took::default() {
        let (evaluation, commit) = (milliseconds(view.took.evaluation), milliseconds(view.took.commit));
        let _ = write!(out, " (evaluated in {evaluation}, in force {commit} later)");
    }
    let _ = writeln!(out, ", {} connections", status.connections);
    let _ = writeln!(out, "\n{:<16}{:>14} {:>16}{:>14} {:>16}", "port", "received", "bytes", "sent", "bytes");
    let line = |out: &mut String, name: &str, a: Traffic, b: Traffic| {
        let _ = writeln!(out, "{name:<16}{:>14} {:>16}{:>14} {:>16}", a.frames, a.bytes, b.frames, b.bytes);
    };
    for port in &status.ports {
        line(&mut out, &port.name, port.traffic.received, port.traffic.sent);
        line(&mut out, "  host", port.traffic.from_host, port.traffic.to_host);
        let _ = writeln!(out, "  {} by {}", port.device, port.carrier);
        let offloaded = status.offloaded.iter().find(|o| o.name == port.name);
        if let Some(place) = offloaded.and_then(|o| o.flows.as_ref()) {
            let _ = writeln!(out, "  forwards flows itself, at {place}");
        }
        for chain in offloaded.into_iter().flat_map(|o| &o.chains) {
            let _ = writeln!(out, "  runs chain {chain} itself, at xdp");
        }
        for (count, what) in [
            (port.lost, "frames lost before they were received"),
            (port.refused, "frames not taken by the device"),
            (port.host_refused, "frames not taken by the host"),
        ] {
            if count > 0 {
                let _ = writeln!(out, "  {count} {what}");
            }
        }
    }
    let counters = &status.counters;
    let _ = writeln!(
        out,
        "\nreceived {}, forwarded {}, transmitted {}, for the host {}, dropped {}",
        counters.received,
        counters.forwarded,
        counters.transmitted,
        counters.delivered,
        counters.dropped()
    );
    for (reason, count) in counters.all_drops() {
        let _ = writeln!(out, "  {count:>12} {reason}");
    }
    if status.undelivered > 0 {
        let _ = writeln!(out, "  {:>12} for the host, but by no port", status.undelivered);
    }
    if let Some(error) = &status.compile_error {
        let _ = writeln!(out, "\nno machine code: {error}");
    }
    out
}

fn json(view: &View<'_>) -> serde_json::Value {
    let status = view.status;
    let traffic = |t: Traffic| json!({ "frames": t.frames, "bytes": t.bytes });
    let ports: Vec<_> = status
        .ports
        .iter()
        .map(|p| {
            json!({
                "name": p.name,
                "device": p.device,
                "carrier": p.carrier,
                "chains": status.offloaded.iter().find(|o| o.name == p.name).map(|o| o.chains.clone()),
                "flows": status.offloaded.iter().find(|o| o.name == p.name).and_then(|o| o.flows.clone()),
                "received": traffic(p.traffic.received),
                "sent": traffic(p.traffic.sent),
                "from_host": traffic(p.traffic.from_host),
                "to_host": traffic(p.traffic.to_host),
                "lost": p.lost,
                "refused": p.refused,
                "host_refused": p.host_refused,
            })
        })
        .collect();
    let counters = &status.counters;
    let drops: serde_json::Map<_, _> =
        counters.all_drops().map(|(reason, count)| (reason.text().to_owned(), count.into())).collect();
    json!({
        "time": view.now as f64 / 1e9,
        "started": view.started as f64 / 1e9,
        "generation": view.generation.id,
        "last_change": {
            "evaluation_ms": view.took.evaluation.as_secs_f64() * 1e3,
            "commit_ms": view.took.commit.as_secs_f64() * 1e3,
        },
        "ports": ports,
        "packets": {
            "received": counters.received,
            "forwarded": counters.forwarded,
            "transmitted": counters.transmitted,
            "delivered": counters.delivered,
            "dropped": counters.dropped(),
        },
        "drops": drops,
        "connections": status.connections,
        "conntrack": {
            "invalid": status.tracking.invalid,
            "insert": status.tracking.insert,
            "insert_failed": status.tracking.insert_failed,
            "drop": status.tracking.drop,
            "table_full": status.tracking.table_full,
            "early_drop": status.tracking.early_drop,
        },
        "queued": status.queued,
        "undelivered": status.undelivered,
    })
}
