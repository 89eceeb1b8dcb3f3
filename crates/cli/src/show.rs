// SPDX-License-Identifier: Apache-2.0

//! `penstock show`: what the dataplane does.

#[cfg(test)]
mod bytes;
mod listing;
mod most;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lexopt::Arg::{Long, Short, Value as Word};
use penstock_daemon::control::protocol::Message;
use penstock_daemon::control::{ShowAs, Took};
use penstock_daemon::errln;
use penstock_daemon::{Traffic, View, WorkerStatus};
use penstock_files::Access;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Value, json};

use crate::dataplane::{ask, connect};
use crate::metrics;
use crate::options::{Opt, Values, flag, given, long, usage_lines};

/// All options.
pub const SECTIONS: [(&str, &[Opt]); 1] = [("", OPTIONS)];

const OPTIONS: &[Opt] = &[
    flag(
        'j',
        "json",
        "print JSON, with rules that have counters, named counters, and the flows with the most bytes",
    ),
    long("metrics", "print OpenMetrics, for Prometheus"),
    long("metrics-file", "write OpenMetrics to a file, which is replaced atomically")
        .takes("FILE", Values::Files),
    long("time", "how long `stages` counts; default: 2 seconds").takes("SECONDS", Values::Any),
    flag('h', "help", "print this text"),
];

/// What can be shown instead of the state.
pub const LISTINGS: &[&str] = &["conntrack", "flows", "stages"];

fn usage() -> String {
    let mut out = String::from(
        "Usage: penstock show [-j | --metrics | --metrics-file FILE]\n       penstock show conntrack | flows | stages [--time SECONDS] [-j]\n\n\
         Shows ports, packets and drops by reason of the dataplane of this network namespace; or its connections, as\n\
         `conntrack -L` does; or the flows in flowtables, and why others are not there; or where processing time is\n\
         spent, by rules and stages. Rules and stages are counted for some seconds; packets cost more meanwhile.\n\n",
    );
    out.push_str(&usage_lines(OPTIONS, 20));
    out
}

/// What is asked for, and where the answer goes.
type Wanted = (Message, To);

/// What becomes of the answer.
#[derive(Debug)]
enum To {
    /// It is printed.
    Output,
    /// It takes the place of a file.
    File(PathBuf),
    /// It is printed as JSON.
    Json(fn(&str) -> serde_json::Value),
}

fn parse(args: impl Iterator<Item = OsString>) -> Result<Option<Wanted>, String> {
    /// Of a short look; packets have to come meanwhile.
    const COUNTED: u32 = 2000;
    let mut parser = lexopt::Parser::from_args(args);
    let (mut how, mut listing, mut file, mut time) = (None, None, None, None);
    let sentence = |e: lexopt::Error| e.to_string();
    while let Some(arg) = parser.next().map_err(sentence)? {
        match arg {
            Short('j') | Long("json") if how.is_none() => how = Some(ShowAs::Json),
            Long("metrics") if how.is_none() => how = Some(ShowAs::Metrics),
            Long("metrics-file") if how.is_none() => {
                how = Some(ShowAs::Metrics);
                file = Some(parser.value().map_err(sentence)?.into());
            }
            Long("time") => {
                let text = parser.value().map_err(sentence)?.to_string_lossy().into_owned();
                let seconds = text.parse().ok().filter(|s: &f64| (0.1..=600.0).contains(s));
                let seconds = seconds
                    .ok_or_else(|| format!("--time takes seconds up to 600, not `{text}`"))?;
                time = Some((seconds * 1e3) as u32);
            }
            Short('h') | Long("help") => return Ok(None),
            Word(word) if word == "conntrack" && listing.is_none() => {
                listing = Some(Message::Connections)
            }
            Word(word) if word == "flows" && listing.is_none() => listing = Some(Message::Flows),
            Word(word) if word == "stages" && listing.is_none() => {
                listing = Some(Message::Stages(COUNTED))
            }
            other => return Err(other.unexpected().to_string()),
        }
    }
    if listing.is_some() && how == Some(ShowAs::Metrics) {
        return Err("conntrack, flows and stages have no metrics".into());
    }
    let message = match (listing, time) {
        (Some(Message::Stages(default)), time) => Message::Stages(time.unwrap_or(default)),
        (_, Some(_)) => return Err("--time is for `stages`".into()),
        (Some(listing), None) => listing,
        (None, None) => Message::Show(how.unwrap_or(ShowAs::Words)),
    };
    let to = match (file, how, &message) {
        (Some(file), _, _) => To::File(file),
        (None, Some(ShowAs::Json), Message::Connections) => To::Json(listing::connections),
        (None, Some(ShowAs::Json), Message::Flows) => To::Json(listing::flows),
        (None, Some(ShowAs::Json), Message::Stages(_)) => To::Json(listing::stages),
        _ => To::Output,
    };
    Ok(Some((message, to)))
}

/// Runs the command with the arguments after its name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match given("show", parse(args), usage) {
        Ok((message, To::Output)) => ask(&message),
        Ok((message, To::File(file))) => to_file(&message, &file),
        Ok((message, To::Json(json))) => to_json(&message, json),
        Err(status) => status,
    }
}

/// Prints the answer as JSON.
fn to_json(message: &Message, json: fn(&str) -> serde_json::Value) -> ExitCode {
    let mut client = match connect() {
        Ok(client) => client,
        Err(status) => return status,
    };
    match client.text(message) {
        Ok(lines) => {
            // A reader that has seen enough is no error.
            let _ = writeln!(std::io::stdout(), "{}", json(&lines));
            ExitCode::SUCCESS
        }
        Err(e) => {
            errln!("Error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Puts the answer in the place of a file. Programs that read the file find the old one or the new
/// one; the umask decides which users may, since a collector of metrics is another user.
fn to_file(message: &Message, file: &Path) -> ExitCode {
    let mut client = match connect() {
        Ok(client) => client,
        Err(status) => return status,
    };
    let written = client
        .text(message)
        .and_then(|text| penstock_files::replace(file, text.as_bytes(), Access::Umask));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            errln!("Error: {}: {e}", file.display());
            ExitCode::FAILURE
        }
    }
}

/// Writes the state.
///
/// # Errors
/// What the writer says.
pub fn write(view: &View<'_>, how: ShowAs, to: &mut dyn io::Write) -> io::Result<()> {
    match how {
        ShowAs::Words => to.write_all(words(view).as_bytes()),
        ShowAs::Json => {
            json(view, &mut *to)?;
            to.write_all(b"\n")
        }
        ShowAs::Metrics => metrics::write(view, to),
    }
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
        let (evaluation, commit) =
            (milliseconds(view.took.evaluation), milliseconds(view.took.commit));
        let _ = write!(out, " (evaluated in {evaluation}, in force {commit} later)");
    }
    let _ = writeln!(out, ", {} connections, {} flows", status.connections, status.flows);
    if let Some((id, left)) = view.unconfirmed {
        let seconds = left.as_secs();
        let _ = writeln!(
            out,
            "generation {id} is taken back in {seconds} s unless it is confirmed: penstock confirm"
        );
    }
    let _ = writeln!(
        out,
        "\n{:<16}{:>14} {:>16}{:>14} {:>16}",
        "port", "received", "bytes", "sent", "bytes"
    );
    let line = |out: &mut String, name: &str, a: Traffic, b: Traffic| {
        let _ = writeln!(
            out,
            "{name:<16}{:>14} {:>16}{:>14} {:>16}",
            a.frames, a.bytes, b.frames, b.bytes
        );
    };
    for port in &status.ports {
        line(&mut out, &port.name, port.traffic.received, port.traffic.sent);
        line(&mut out, "  host", port.traffic.from_host, port.traffic.to_host);
        let _ = writeln!(out, "  {} by {}", port.device, port.carrier);
        let offloaded = status.offloaded.iter().find(|o| o.name == port.name);
        if let Some(place) = offloaded.and_then(|o| o.flows.as_ref()) {
            let _ = writeln!(out, "  forwards flows itself, at {place}");
            if place == "xdp" && offloaded.is_some_and(|o| !o.sends) {
                let _ = writeln!(
                    out,
                    "  no flow can leave by it from XDP: its other end does not poll (xdp.md)"
                );
            }
        }
        for chain in offloaded.into_iter().flat_map(|o| &o.chains) {
            let _ = writeln!(out, "  runs chain {chain} itself, at xdp");
        }
        for (count, what) in [
            (port.launched, "frames sent in bursts from XDP"),
            (port.lost, "frames lost before they were received"),
            (port.refused, "frames not taken by the device"),
            (port.host_refused, "frames not taken by the host"),
        ] {
            if count > 0 {
                let _ = writeln!(out, "  {count} {what}");
            }
        }
    }
    if status.workers.len() > 1 {
        let _ = writeln!(
            out,
            "\n{:<16}{:>14} {:>16}{:>14} {:>16} {:>6}",
            "worker", "received", "handed over", "taken over", "connections", "load"
        );
        for (number, w) in status.workers.iter().enumerate() {
            let WorkerStatus { received, handed_over, taken_over, load, connections } = w;
            let _ = writeln!(
                out,
                "{number:<16}{received:>14} {handed_over:>16}{taken_over:>14} {connections:>16} {load:>4} %"
            );
        }
    }
    let counters = &status.counters;
    let _ = writeln!(
        out,
        "\nreceived {}, forwarded {}, by flowtables {}, transmitted {}, for the host {}, dropped {}",
        counters.received,
        counters.forwarded,
        counters.fast,
        counters.transmitted,
        counters.delivered,
        counters.dropped()
    );
    for (reason, count) in counters.all_drops() {
        let _ = writeln!(out, "  {count:>12} {reason}");
    }
    let account = status.account();
    let _ = writeln!(
        out,
        "from the host {}, originated {}, absorbed {}, ignored {}, waiting {}",
        account.from_host, account.originated, account.absorbed, account.ignored, account.waiting
    );
    if status.undelivered > 0 {
        let _ = writeln!(out, "  {:>12} for the host, but by no port", status.undelivered);
    }
    if let Some(error) = &status.compile_error {
        let _ = writeln!(out, "\nno machine code: {error}");
    }
    out
}

/// All in one object. Lists that are as long as the ruleset are never there as a whole.
fn json(view: &View<'_>, to: &mut dyn io::Write) -> serde_json::Result<()> {
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
                "sends_from_xdp": status.offloaded.iter().find(|o| o.name == p.name).map(|o| o.sends),
                "received": traffic(p.traffic.received),
                "sent": traffic(p.traffic.sent),
                "from_host": traffic(p.traffic.from_host),
                "to_host": traffic(p.traffic.to_host),
                "lost": p.lost,
                "refused": p.refused,
                "sent_from_xdp": p.launched,
                "host_refused": p.host_refused,
            })
        })
        .collect();
    let workers: Vec<_> = status
        .workers
        .iter()
        .map(|w| {
            json!({
                "received": w.received,
                "handed_over": w.handed_over,
                "taken_over": w.taken_over,
                "connections": w.connections,
                "load_percent": w.load,
            })
        })
        .collect();
    let (counters, account) = (&status.counters, status.account());
    let drops: serde_json::Map<_, _> = counters
        .all_drops()
        .map(|(reason, count)| (reason.text().to_owned(), count.into()))
        .collect();
    let Value::Object(rest) = json!({
        "time": view.now as f64 / 1e9,
        "started": view.started as f64 / 1e9,
        "generation": view.generation.id,
        "last_change": {
            "evaluation_ms": view.took.evaluation.as_secs_f64() * 1e3,
            "commit_ms": view.took.commit.as_secs_f64() * 1e3,
        },
        "unconfirmed": view.unconfirmed.map(|(id, left)| json!({ "generation": id, "seconds": left.as_secs_f64() })),
        "ports": ports,
        "workers": workers,
        "packets": {
            "received": counters.received,
            "forwarded": counters.forwarded,
            "fast": counters.fast,
            "transmitted": counters.transmitted,
            "delivered": counters.delivered,
            "dropped": counters.dropped(),
        },
        "account": {
            "received": account.received,
            "from_host": account.from_host,
            "originated": account.originated,
            "transmitted": account.transmitted,
            "delivered": account.delivered,
            "dropped": account.dropped,
            "absorbed": account.absorbed,
            "ignored": account.ignored,
            "waiting": account.waiting,
            "missing": account.missing(),
        },
        "drops": drops,
        "flows": {
            "count": status.flows,
            "added": status.flow_counts.added,
            "expired": status.flow_counts.expired,
            "torn_down": status.flow_counts.torn_down,
            "ended": status.flow_counts.ended,
            "packets": status.flow_counts.packets,
            "fell_back": status.flow_counts.fell_back,
            "most": most::flows(view),
        },
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
        "elsewhere": status.elsewhere,
    }) else {
        return Ok(());
    };
    let mut serializer = serde_json::Serializer::new(to);
    let mut object = serializer.serialize_map(None)?;
    for (key, value) in &rest {
        object.serialize_entry(key, value)?;
    }
    object.serialize_entry("rules", &Each(most::rules, view))?;
    object.serialize_entry("counters", &Each(most::counters, view))?;
    SerializeMap::end(object)
}

/// A list whose values are made one after the other, as they are written.
struct Each<'v>(fn(&View<'_>, &mut dyn FnMut(Value) -> bool), &'v View<'v>);

impl Serialize for Each<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let mut result = Ok(());
        (self.0)(self.1, &mut |value| {
            result = list.serialize_element(&value);
            result.is_ok()
        });
        result?;
        list.end()
    }
}
