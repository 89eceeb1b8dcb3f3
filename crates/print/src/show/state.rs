// SPDX-License-Identifier: Apache-2.0

//! The state: ports, packets, drops; as JSON also what most packets and bytes are of.

use std::fmt;
use std::time::Duration;

use penstock_conntrack::Statistics;
use penstock_dataplane::{Counters, FlowCounts};
use penstock_ruleset::Generation;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::About;
use super::most;
use super::status::{
    AttachedPlace, LeftOut, Offloaded, PortStatus, PortTraffic, Status, Talker, Took, Traffic,
};
use super::sync::SyncStatus;

/// On the command line.
pub const ABOUT: About = About { word: "", lists: "", milliseconds: None };

/// The state of a dataplane.
#[derive(Clone, Debug)]
pub struct State<'a> {
    /// What was counted so far.
    pub status: &'a Status,
    /// Flows and connections with the most bytes; for JSON only.
    pub talkers: &'a [Talker],
    /// The generation in force, with its counters.
    pub generation: &'a Generation,
    /// How long the last change took.
    pub took: Took,
    /// The generation that waits for its confirmation, if one does, and how long it still waits.
    pub unconfirmed: Option<(u32, Duration)>,
    /// The other firewalls, if there are any.
    pub peer: Option<&'a SyncStatus>,
    /// When the dataplane began, nanoseconds since the epoch.
    pub started: u64,
    /// When this is shown, nanoseconds since the epoch.
    pub now: u64,
}

impl State<'_> {
    fn offloaded(&self, port: &PortStatus) -> Option<&Offloaded> {
        self.status.offloaded.iter().find(|offloaded| offloaded.name == port.name)
    }
}

impl fmt::Display for State<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        if let Some(places) = &self.status.attached {
            return attached(places, &self.status.in_nf_tables, &self.status.left_out, f);
        }
        writeln!(
            f,
            "\n{:<16}{:>14} {:>16}{:>14} {:>16}",
            "port", "received", "bytes", "sent", "bytes"
        )?;
        self.status.ports.iter().try_for_each(|port| self.port(port, f))?;
        self.workers(f)?;
        self.packets(f)?;
        if let Some(peer) = self.peer {
            write!(f, "\n{peer}")?;
        }
        match &self.status.compile_error {
            Some(error) => writeln!(f, "\nno machine code: {error}"),
            None => Ok(()),
        }
    }
}

/// Where the kernel runs the ruleset.
fn attached(
    places: &[AttachedPlace],
    in_nf_tables: &[LeftOut],
    left_out: &[LeftOut],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    writeln!(f, "\n{:<36} chains", "runs in the kernel at")?;
    for AttachedPlace { place, chains } in places {
        writeln!(f, "{place:<36} {}", chains.join(", "))?;
    }
    if places.is_empty() && in_nf_tables.is_empty() {
        writeln!(f, "no place: the ruleset has no base chains, or their devices are not there")?;
    }
    if !in_nf_tables.is_empty() {
        writeln!(f, "\nruns in nf_tables, since it cannot as a program")?;
    }
    in_nf_tables.iter().try_for_each(|part| writeln!(f, "{part}"))?;
    if !left_out.is_empty() {
        writeln!(f, "\ndoes not run")?;
    }
    left_out.iter().try_for_each(|part| writeln!(f, "{part}"))?;
    Ok(())
}

/// The parts of the text.
impl State<'_> {
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {}", self.generation.id)?;
        if self.took != Took::default() {
            let [evaluation, commit] =
                [self.took.evaluation, self.took.commit].map(|time| time.as_secs_f64() * 1e3);
            write!(f, " (evaluated in {evaluation:.3} ms, in force {commit:.3} ms later)")?;
        }
        let Status { connections, flows, .. } = self.status;
        if self.status.attached.is_some() {
            writeln!(f)?;
        } else {
            writeln!(f, ", {connections} connections, {flows} flows")?;
        }
        if let Some((id, left)) = self.unconfirmed {
            let seconds = left.as_secs();
            writeln!(
                f,
                "generation {id} is taken back in {seconds} s unless it is confirmed: penstock confirm"
            )?;
        }
        Ok(())
    }

    fn port(&self, port: &PortStatus, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, name: &str, a: Traffic, b: Traffic| {
            writeln!(
                f,
                "{name:<16}{:>14} {:>16}{:>14} {:>16}",
                a.frames, a.bytes, b.frames, b.bytes
            )
        };
        let PortTraffic { received, sent, from_host, to_host } = port.traffic;
        line(f, &port.name, received, sent)?;
        line(f, "  host", from_host, to_host)?;
        writeln!(f, "  {} by {}", port.device, port.carrier)?;
        let offloaded = self.offloaded(port);
        if let Some(place) = offloaded.and_then(|o| o.flows.as_ref()) {
            writeln!(f, "  forwards flows itself, at {place}")?;
            if place == "xdp" && offloaded.is_some_and(|o| !o.sends) {
                writeln!(
                    f,
                    "  no flow can leave by it from XDP: its other end does not poll (xdp.md)"
                )?;
            }
        }
        for chain in offloaded.into_iter().flat_map(|o| &o.chains) {
            writeln!(f, "  runs chain {chain} itself, at xdp")?;
        }
        for (count, what) in [
            (port.launched, "frames sent in bursts from XDP"),
            (port.lost, "frames lost before they were received"),
            (port.refused, "frames not taken by the device"),
            (port.host_refused, "frames not taken by the host"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {what}")?;
            }
        }
        Ok(())
    }

    fn workers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.status.workers.len() <= 1 {
            return Ok(());
        }
        writeln!(
            f,
            "\n{:<16}{:>14} {:>16}{:>14} {:>16} {:>6}",
            "worker", "received", "handed over", "taken over", "connections", "load"
        )?;
        for (number, w) in self.status.workers.iter().enumerate() {
            writeln!(
                f,
                "{number:<16}{:>14} {:>16}{:>14} {:>16} {:>4} %",
                w.received, w.handed_over, w.taken_over, w.connections, w.load
            )?;
        }
        Ok(())
    }

    fn packets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = &self.status.counters;
        writeln!(
            f,
            "\nreceived {}, forwarded {}, by flowtables {}, transmitted {}, for the host {}, dropped {}",
            counters.received,
            counters.forwarded,
            counters.fast,
            counters.transmitted,
            counters.delivered,
            counters.dropped()
        )?;
        for (reason, count) in counters.all_drops() {
            writeln!(f, "  {count:>12} {reason}")?;
        }
        let account = self.status.account();
        writeln!(
            f,
            "from the host {}, originated {}, absorbed {}, ignored {}, waiting {}",
            account.from_host,
            account.originated,
            account.absorbed,
            account.ignored,
            account.waiting
        )?;
        if self.status.undelivered > 0 {
            writeln!(f, "  {:>12} for the host, but by no port", self.status.undelivered)?;
        }
        Ok(())
    }
}

impl Serialize for State<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let State { status, generation, now, .. } = *self;
        let counters = &status.counters;
        let ports: Vec<_> =
            status.ports.iter().map(|port| Port::of(port, self.offloaded(port))).collect();
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("time", &(now as f64 / 1e9))?;
        object.serialize_entry("started", &(self.started as f64 / 1e9))?;
        object.serialize_entry("generation", &generation.id)?;
        object.serialize_entry("last_change", &LastChange::of(self.took))?;
        let unconfirmed = self.unconfirmed.map(Unconfirmed::of);
        object.serialize_entry("unconfirmed", &unconfirmed)?;
        object.serialize_entry("ports", &ports)?;
        if let Some(attached) = &status.attached {
            object.serialize_entry("attached", attached)?;
            object.serialize_entry("in_nf_tables", &status.in_nf_tables)?;
            object.serialize_entry("not_attached", &status.left_out)?;
        }
        object.serialize_entry("workers", &status.workers)?;
        object.serialize_entry("packets", &Packets::of(counters))?;
        object.serialize_entry("account", &status.account())?;
        object.serialize_entry("drops", &Drops(counters))?;
        object.serialize_entry("drops_by_rule", &status.placed_drops)?;
        object.serialize_entry("flows", &Flows::of(status, self.talkers))?;
        object.serialize_entry("connections", &status.connections)?;
        object.serialize_entry("conntrack", &Tracking::of(&status.tracking))?;
        if let Some(peer) = self.peer {
            object.serialize_entry("peer", peer)?;
        }
        object.serialize_entry("queued", &status.queued)?;
        object.serialize_entry("undelivered", &status.undelivered)?;
        object.serialize_entry("elsewhere", &status.elsewhere)?;
        object.serialize_entry("rules", &most::Rules { generation, now })?;
        object.serialize_entry("counters", &most::Counters { generation, now })?;
        object.end()
    }
}

#[derive(Serialize)]
struct LastChange {
    evaluation_ms: f64,
    commit_ms: f64,
}

impl LastChange {
    fn of(took: Took) -> Self {
        let [evaluation_ms, commit_ms] =
            [took.evaluation, took.commit].map(|time| time.as_secs_f64() * 1e3);
        LastChange { evaluation_ms, commit_ms }
    }
}

#[derive(Serialize)]
struct Unconfirmed {
    generation: u32,
    seconds: f64,
}

impl Unconfirmed {
    fn of((generation, left): (u32, Duration)) -> Self {
        Unconfirmed { generation, seconds: left.as_secs_f64() }
    }
}

#[derive(Serialize)]
struct Port<'a> {
    name: &'a str,
    device: &'a str,
    carrier: &'a str,
    chains: Option<&'a [String]>,
    flows: Option<&'a str>,
    sends_from_xdp: Option<bool>,
    #[serde(flatten)]
    traffic: PortTraffic,
    lost: u64,
    refused: u64,
    sent_from_xdp: u64,
    host_refused: u64,
}

impl<'a> Port<'a> {
    fn of(port: &'a PortStatus, offloaded: Option<&'a Offloaded>) -> Self {
        Port {
            name: &port.name,
            device: &port.device,
            carrier: &port.carrier,
            chains: offloaded.map(|o| &*o.chains),
            flows: offloaded.and_then(|o| o.flows.as_deref()),
            sends_from_xdp: offloaded.map(|o| o.sends),
            traffic: port.traffic,
            lost: port.lost,
            refused: port.refused,
            sent_from_xdp: port.launched,
            host_refused: port.host_refused,
        }
    }
}

#[derive(Serialize)]
struct Packets {
    received: u64,
    forwarded: u64,
    fast: u64,
    transmitted: u64,
    delivered: u64,
    dropped: u64,
}

impl Packets {
    fn of(counters: &Counters) -> Self {
        let Counters { received, forwarded, fast, transmitted, delivered, .. } = *counters;
        let dropped = counters.dropped();
        Packets { received, forwarded, fast, transmitted, delivered, dropped }
    }
}

/// Drops by reason.
struct Drops<'a>(&'a Counters);

impl Serialize for Drops<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.all_drops().map(|(reason, count)| (reason.text(), count)))
    }
}

#[derive(Serialize)]
struct Flows {
    count: u64,
    added: u64,
    expired: u64,
    torn_down: u64,
    ended: u64,
    packets: u64,
    fell_back: u64,
    most: Vec<most::Talker>,
}

impl Flows {
    fn of(status: &Status, talkers: &[Talker]) -> Self {
        let FlowCounts { added, expired, torn_down, ended, packets, fell_back, .. } =
            status.flow_counts;
        let most = talkers.iter().map(most::Talker::of).collect();
        Flows { count: status.flows, added, expired, torn_down, ended, packets, fell_back, most }
    }
}

#[derive(Serialize)]
struct Tracking {
    invalid: u64,
    insert: u64,
    insert_failed: u64,
    drop: u64,
    table_full: u64,
    early_drop: u64,
}

impl Tracking {
    fn of(statistics: &Statistics) -> Self {
        let Statistics { invalid, insert, insert_failed, drop, table_full, early_drop, .. } =
            *statistics;
        Tracking { invalid, insert, insert_failed, drop, table_full, early_drop }
    }
}
