// SPDX-License-Identifier: Apache-2.0

//! What a dataplane counts: the part of each worker, and the sum.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use penstock_conntrack::{Statistics, Tuple};
use penstock_dataplane::{Counters, DropReason, FlowCounts};
use penstock_ruleset::Family;
use serde::{Serialize, Serializer};

/// Frames and bytes of one side of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Frames, super-packets as one.
    pub frames: u64,
    /// Bytes with link headers.
    pub bytes: u64,
}

impl Traffic {
    /// Counts a frame.
    #[inline]
    pub fn count(&mut self, bytes: usize) {
        self.frames += 1;
        self.bytes += bytes as u64;
    }
}

/// What passed a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PortTraffic {
    /// From the wire.
    pub received: Traffic,
    /// To the wire.
    pub sent: Traffic,
    /// From the host.
    pub from_host: Traffic,
    /// To the host.
    pub to_host: Traffic,
}

impl PortTraffic {
    /// Adds what another worker counted.
    pub fn add(&mut self, other: &PortTraffic) {
        let PortTraffic { received, sent, from_host, to_host } = other;
        let pairs = [
            (&mut self.received, received),
            (&mut self.sent, sent),
            (&mut self.from_host, from_host),
            (&mut self.to_host, to_host),
        ];
        for (all, more) in pairs {
            all.frames += more.frames;
            all.bytes += more.bytes;
        }
    }
}

/// A port.
#[derive(Clone, Debug)]
pub struct PortStatus {
    /// What the host calls it.
    pub name: String,
    /// What the device is called.
    pub device: String,
    /// What carries its frames.
    pub carrier: String,
    /// What passed.
    pub traffic: PortTraffic,
    /// Frames that were lost before they were received, as far as it is known.
    pub lost: u64,
    /// Frames that the device did not take.
    pub refused: u64,
    /// Frames that were sent in bursts from XDP, not by the socket.
    pub launched: u64,
    /// Frames that the host did not take.
    pub host_refused: u64,
}

/// What a device of a port does itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offloaded {
    /// What the host calls the port.
    pub name: String,
    /// Where its flows are forwarded, if somewhere: `xdp`, `tcx`.
    pub flows: Option<String>,
    /// Frames can leave by its device from XDP: on veth that takes another end that polls.
    pub sends: bool,
    /// Chains that it runs: family, table, name.
    pub chains: Vec<String>,
}

/// A place of the kernel where chains of an attached ruleset run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttachedPlace {
    /// The place in words: `xdp of wan`, `hook input of ip at 0`.
    pub place: String,
    /// Its base chains, in the order in which packets meet them: family, table, name.
    pub chains: Vec<String>,
}

/// A part of an attached ruleset that does not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// A chain or flowtable: family, table, name.
    pub what: String,
    /// Where it does not run, in words.
    pub place: String,
    /// Why not.
    pub reason: String,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LeftOut { what, place, reason } = self;
        write!(f, "{what} at {place}: {reason}")
    }
}

/// A flow or connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Talker {
    /// Of the original direction.
    pub tuple: Tuple,
    /// Packets of both directions.
    pub packets: u64,
    /// Bytes of both directions.
    pub bytes: u64,
    /// What forwards it: `rules`, `flowtable`, `device`.
    pub by: &'static str,
}

/// How long the last change of the ruleset took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// From the text to the end of its evaluation.
    pub evaluation: Duration,
    /// From there until packets met it.
    pub commit: Duration,
}

/// Packets that a rule or a policy dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlacedDrop {
    /// Why.
    #[serde(serialize_with = "reason_text")]
    pub reason: DropReason,
    /// Of the table.
    #[serde(serialize_with = "family_name")]
    pub family: Family,
    /// Its name.
    pub table: Arc<str>,
    /// The chain's name.
    pub chain: Arc<str>,
    /// Handle of the rule; `None` for the chain's policy.
    pub handle: Option<u64>,
    /// How many.
    pub packets: u64,
}

impl PlacedDrop {
    /// Place and reason.
    fn key(&self) -> (DropReason, Family, Option<u64>, Arc<str>, Arc<str>) {
        (self.reason, self.family, self.handle, self.table.clone(), self.chain.clone())
    }
}

fn reason_text<S: Serializer>(reason: &DropReason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.text())
}

fn family_name<S: Serializer>(family: &Family, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(family.name())
}

/// A worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkerStatus {
    /// Frames that it has received from wires and the host.
    pub received: u64,
    /// Those of them that were another worker's.
    pub handed_over: u64,
    /// Frames that others have handed over to it.
    pub taken_over: u64,
    /// Connections that are its own.
    pub connections: u64,
    /// Percent of the last second that it was at work.
    #[serde(rename = "load_percent")]
    pub load: u8,
}

/// All that is counted.
#[derive(Clone, Debug)]
pub struct Status {
    /// Workers in their order.
    pub workers: Vec<WorkerStatus>,
    /// Ports in their order.
    pub ports: Vec<PortStatus>,
    /// Packets, and drops by their reasons.
    pub counters: Counters,
    /// Drops by the rule or policy that did it.
    pub placed_drops: Vec<PlacedDrop>,
    /// Connections that are tracked.
    pub connections: u64,
    /// Flows in flowtables.
    pub flows: u64,
    /// What happened to flows.
    pub flow_counts: FlowCounts,
    /// Packets that wait: for programs, neighbours, the rest of their fragments, in queues, or for
    /// another worker.
    pub waiting: u64,
    /// Frames given to other workers less those got from them (modulo 2^64); summed over all
    /// workers, frames on their way between them.
    pub between: u64,
    /// Frames of the host's bridge that it has sent by several ports, and that counted once.
    pub ignored: u64,
    /// Packets sent by devices that are no ports.
    pub elsewhere: u64,
    /// What happened to connections.
    pub tracking: Statistics,
    /// Packets that wait for programs.
    pub queued: u64,
    /// Packets for the host that no port could take there.
    pub undelivered: u64,
    /// What devices of ports do themselves.
    pub offloaded: Vec<Offloaded>,
    /// Where the kernel runs the ruleset, if it does and not the workers.
    pub attached: Option<Vec<AttachedPlace>>,
    /// What of it does not run.
    pub left_out: Vec<LeftOut>,
    /// Parts of an attached ruleset that the kernel's nf_tables runs, and why.
    pub in_nf_tables: Vec<LeftOut>,
    /// Why there is no machine code, if there should be.
    pub compile_error: Option<String>,
}

/// Where packets came from, and what became of them. Once all workers have done what they received,
/// as many came as went ([`Account::missing`] is 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Frames from wires.
    pub received: u64,
    /// Frames from the host.
    pub from_host: u64,
    /// Answers, copies, and pieces of other packets, which the path made.
    pub originated: u64,
    /// Packets sent by ports and other devices.
    pub transmitted: u64,
    /// Packets for the host.
    pub delivered: u64,
    /// Packets that were dropped, for all reasons.
    pub dropped: u64,
    /// Packets that ended in others: fragments put together, packets cut into pieces or sent on as
    /// copies.
    pub absorbed: u64,
    /// Frames of the host's bridge that it has sent by several ports, and that counted once.
    pub ignored: u64,
    /// Packets that wait.
    pub waiting: u64,
    /// Packets that came and of which nothing is known. Below 0 if more went than came.
    pub missing: i64,
}

impl Account {
    /// With what is missing.
    fn balanced(self) -> Self {
        let came = self.received + self.from_host + self.originated;
        let went = self.transmitted
            + self.delivered
            + self.dropped
            + self.absorbed
            + self.ignored
            + self.waiting;
        Account { missing: came.wrapping_sub(went) as i64, ..self }
    }
}

impl Status {
    /// Where all packets came from, and what became of them.
    pub fn account(&self) -> Account {
        let Status { counters, ports, .. } = self;
        let account = Account {
            received: ports.iter().map(|p| p.traffic.received.frames).sum(),
            from_host: ports.iter().map(|p| p.traffic.from_host.frames).sum(),
            originated: counters.originated,
            transmitted: counters.transmitted,
            delivered: counters.delivered,
            dropped: counters.dropped(),
            absorbed: counters.absorbed,
            ignored: self.ignored,
            waiting: self.waiting.wrapping_add(self.between),
            missing: 0,
        };
        account.balanced()
    }

    /// Adds what another worker counted.
    pub fn add(&mut self, other: Status) {
        for (port, more) in self.ports.iter_mut().zip(other.ports) {
            port.traffic.add(&more.traffic);
            port.lost += more.lost;
            port.refused += more.refused;
            port.launched += more.launched;
            port.host_refused += more.host_refused;
        }
        self.workers.extend(other.workers);
        self.counters.add(&other.counters);
        let known = self.placed_drops.iter().map(PlacedDrop::key).zip(0..);
        let known: HashMap<_, usize> = known.collect();
        for more in other.placed_drops {
            match known.get(&more.key()) {
                Some(number) => self.placed_drops[*number].packets += more.packets,
                None => self.placed_drops.push(more),
            }
        }
        self.connections += other.connections;
        self.flows += other.flows;
        self.flow_counts = self.flow_counts.plus(&other.flow_counts);
        self.tracking.add(&other.tracking);
        self.queued += other.queued;
        self.waiting += other.waiting;
        self.between = self.between.wrapping_add(other.between);
        self.ignored += other.ignored;
        self.elsewhere += other.elsewhere;
        self.undelivered += other.undelivered;
        self.compile_error = self.compile_error.take().or(other.compile_error);
    }
}
