// SPDX-License-Identifier: Apache-2.0

//! `penstock run --against OLD`: the frames of captures through two rulesets, side by side, and
//! what becomes of them otherwise.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use penstock_dataplane::{Dataplane, DropEvent, Engine, Sink, TraceRecord};
use penstock_lang::datatype::Format;
use penstock_net::{Link, Network};
use penstock_packet::{Meta, Packet};
use penstock_print::drops::Dropped;
use penstock_print::rules::{Named, WrittenRules};
use serde_json::{Value, json};

use super::options::Options;
use crate::input::{Captures, Entering, Entry, InputPort, Inputs, Outgoing, Taken};
use crate::rules::NetNames;
use crate::setup::Setup;
use crate::trace::outcome::{Delivered, Fate, Outcome, Sent, ends};

/// Flows that are printed at most.
const FLOWS: usize = 20;

/// A ruleset with its host, and what becomes of the frame that is on its way.
struct Side {
    path: Dataplane,
    came: Came,
}

/// What becomes of a frame.
struct Came {
    outcome: Outcome,
    outgoing: Outgoing,
    rules: WrittenRules,
}

/// How the ends of a packet differ, the most serious difference first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    /// Accepted here, dropped there.
    Verdict,
    /// Sent on another device, or to the host.
    Way,
    /// Other addresses or ports.
    Translation,
    /// Another rule decides, with the same result.
    Rule,
}

/// Packets of a flow that end otherwise.
struct Difference {
    packets: u64,
    /// What becomes of the first of them, with the old and the new ruleset.
    words: (String, String),
}

/// What came of a comparison.
pub struct Report {
    /// Names of the rulesets.
    old: String,
    new: String,
    packets: u64,
    /// By flow (where the packets come from, and their addresses and ports, as `penstock trace`
    /// takes them) and by what differs first.
    differences: Vec<((String, Kind), Difference)>,
    /// Whether no capture was broken.
    pub whole: bool,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Verdict => "verdict",
            Kind::Way => "way",
            Kind::Translation => "translation",
            Kind::Rule => "rule",
        }
    }
}

/// Runs captures through the ruleset of the options and an old one.
///
/// # Errors
/// What is wrong with a file.
pub fn against(options: &Options, old: &Path) -> Result<Report, String> {
    let new = &options.setup;
    let before = new.clone().with_rules(old);
    let net = Arc::new(new.network(&options.read)?);
    let names = NetNames::new(&net);
    let mut inputs = Inputs::open(&options.read, &net, new.net())?;
    let start = inputs.next_time().unwrap_or(0);
    let mut sides =
        [Side::new(&before, &net, &names, start)?, Side::new(new, &net, &names, start)?];
    let called: Vec<String> = (0..inputs.len()).map(|n| inputs.name(n)).collect();
    let mut differences: HashMap<(String, Kind), Difference> = HashMap::new();
    let (mut packets, mut whole) = (0, true);
    while let Some(next) = inputs.next() {
        let taken = match next {
            Ok(taken) => taken,
            Err(trouble) => {
                trouble.tell()?;
                whole = false;
                continue;
            }
        };
        let mut flow = None;
        for side in &mut sides {
            let passed = side.pass(&taken, &net, &options.read);
            let passed =
                passed.map_err(|e| format!("Error: --read {}: {e}", called[taken.which]))?;
            flow = flow.or(passed);
        }
        let Some(flow) = flow else { continue };
        packets += 1;
        let [old, new] = &mut sides;
        if let Some(kind) = difference(&old.came, &new.came) {
            let words = || (old.came.words(kind), new.came.words(kind));
            let first = || Difference { packets: 0, words: words() };
            differences.entry((flow, kind)).or_insert_with(first).packets += 1;
        }
        sides.iter_mut().for_each(|side| side.came.outcome = Outcome::default());
    }
    let mut differences: Vec<_> = differences.into_iter().collect();
    differences.sort_by(|((a, kind), m), ((b, other), n)| {
        n.packets.cmp(&m.packets).then_with(|| (kind, a).cmp(&(other, b)))
    });
    let (old, new) = (old.display().to_string(), new.rules().display().to_string());
    Ok(Report { old, new, packets, differences, whole })
}

impl Side {
    fn new(
        setup: &Setup,
        net: &Arc<Network>,
        names: &NetNames<'_>,
        start: u64,
    ) -> Result<Self, String> {
        let ruleset = setup.ruleset(names, start, false)?;
        let generation = ruleset.generation();
        let rules = WrittenRules::new(&generation, names, Format::default(), start);
        let mut path = setup.dataplane(net, &ruleset, start)?;
        path.set_engine(Engine::Interpreter);
        path.trace_all(true);
        let came = Came { outcome: Outcome::default(), outgoing: Outgoing::default(), rules };
        Ok(Side { path, came })
    }

    /// Sends a frame; `None` if it does not enter the path.
    fn pass(
        &mut self,
        taken: &Taken<'_>,
        net: &Network,
        captures: &Captures,
    ) -> Result<Option<String>, &'static str> {
        let watched = (!captures.as_is).then_some(&mut self.came.outgoing);
        let entering = match taken.entry(net, self.path.conntrack(), watched)? {
            Entry::Enters(entering) => entering,
            Entry::LeftOut(_) => return Ok(None),
        };
        entering.send(&mut self.path, &mut self.came)?;
        Ok(Some(flow_of(&entering, net)))
    }
}

impl Sink for Came {
    fn transmit(&mut self, device: &Link, frame: &[u8], meta: &Meta) {
        self.outgoing.sent(meta.time, frame);
        self.outcome.sent.push(Sent::new(device, frame, meta.mark, String::new()));
    }

    fn deliver(&mut self, _device: &Link, packet: &Packet) {
        let (packet, mark) = (packet.network().to_vec(), packet.meta.mark);
        self.outcome.delivered.push(Delivered { packet, mark, headers: String::new() });
    }

    fn drop(&mut self, drop: &DropEvent<'_>, packet: &Packet) {
        self.outcome.ended(packet.meta.trace_id, Dropped::of(drop, Some(&self.rules)));
    }

    fn trace(&mut self, record: &TraceRecord<'_>, packet: &Packet) {
        self.outcome.step(packet.meta.trace_id, &record.place, &record.event);
    }
}

/// Where a frame comes from, and its addresses and ports.
fn flow_of(entering: &Entering<'_>, net: &Network) -> String {
    let name = |device| net.link(device).map_or("?", |link| &*link.name);
    let (from, is_frame) = match entering.port {
        InputPort::Device(device) => (name(device).to_owned(), true),
        InputPort::HostDevice(device) => (format!("host:{}", name(device)), true),
        InputPort::Stack(_) => ("host".to_owned(), true),
        InputPort::Host => ("host".to_owned(), !entering.link.is_ip()),
    };
    let network = if is_frame { Sent::network_at(&entering.bytes) } else { 0 };
    format!("{from}{}", ends(&entering.bytes, network))
}

/// How what becomes of a packet differs.
fn difference(old: &Came, new: &Came) -> Option<Kind> {
    let ways = |came: &Came| {
        let mut ways: Vec<&str> = came.outcome.sent.iter().map(|s| &*s.device).collect();
        ways.extend(came.outcome.delivered.iter().map(|_| ""));
        ways.sort_unstable();
        ways.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let translated = |came: &Came| {
        let sent = came.outcome.sent.iter().map(|s| ends(&s.frame, s.network));
        let delivered = came.outcome.delivered.iter().map(|d| ends(&d.packet, 0));
        let mut all: Vec<String> = sent.chain(delivered).collect();
        all.sort_unstable();
        all
    };
    if old.outcome.fate() != new.outcome.fate() || old.reason() != new.reason() {
        Some(Kind::Verdict)
    } else if ways(old) != ways(new) {
        Some(Kind::Way)
    } else if translated(old) != translated(new) {
        Some(Kind::Translation)
    } else if old.deciders(false) != new.deciders(false) {
        Some(Kind::Rule)
    } else {
        None
    }
}

impl Came {
    /// Why it was dropped, apart from which rule did it.
    fn reason(&self) -> Option<&'static str> {
        let dropped = self.outcome.fate() == Fate::Dropped;
        self.outcome.dropped.first().filter(|_| dropped).map(|ended| ended.why.reason())
    }

    /// The rules that decided, with their places if asked for, and policies that drop.
    fn deciders(&self, with_place: bool) -> Vec<String> {
        let rules = self.outcome.met.iter().filter(|met| met.decides).map(|met| {
            let at = &met.chain;
            let rule = self.rules.rule(at.family, &at.table, met.handle);
            let text = rule.map_or_else(String::new, |rule| match with_place {
                true => Named(rule).to_string(),
                false => format!(": {}", rule.shown()),
            });
            format!("{} {} {}{text}", at.family.name(), at.table, at.chain)
        });
        let policies = self.outcome.policies.iter().filter(|(_, accept)| !accept);
        let policies = policies
            .map(|(at, _)| format!("policy of {} {} {}", at.family.name(), at.table, at.chain));
        rules.chain(policies).collect()
    }

    /// What becomes of it, in words.
    fn words(&self, kind: Kind) -> String {
        let fields = |frame: &[u8], network| match kind {
            Kind::Translation => ends(frame, network),
            Kind::Verdict | Kind::Way | Kind::Rule => String::new(),
        };
        let dropped = self.reason().map(|reason| format!("dropped: {reason}"));
        let sent = self.outcome.sent.iter();
        let sent = sent.map(|s| format!("sent on {}{}", s.device, fields(&s.frame, s.network)));
        let delivered = self.outcome.delivered.iter();
        let delivered = delivered.map(|d| format!("delivered to the host{}", fields(&d.packet, 0)));
        let all: Vec<String> = dropped.into_iter().chain(sent).chain(delivered).collect();
        let mut out = match all.is_empty() {
            true => "taken over, or waiting".to_owned(),
            false => all.join(", "),
        };
        let deciders = self.deciders(true);
        if !deciders.is_empty() {
            out += &format!(" by {}", deciders.join("; "));
        }
        out
    }
}

impl Report {
    /// Whether nothing ends otherwise.
    pub fn is_same(&self) -> bool {
        self.differences.is_empty()
    }

    /// How many packets end otherwise.
    fn differing(&self) -> u64 {
        self.differences.iter().map(|(_, difference)| difference.packets).sum()
    }

    /// As JSON, on one line.
    pub fn json(&self) -> Value {
        let flows = self.differences.iter().map(|((flow, kind), difference)| {
            let Difference { packets, words: (old, new) } = difference;
            json!({
                "flow": flow, "packets": packets, "differs": kind.word(), "old": old, "new": new,
            })
        });
        json!({
            "old": self.old,
            "new": self.new,
            "packets": self.packets,
            "differing": self.differing(),
            "flows": flows.collect::<Vec<_>>(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { old, new, packets, differences, .. } = self;
        let differing = self.differing();
        if differing == 0 {
            return writeln!(f, "{packets} packets: all end with {new} as with {old}");
        }
        writeln!(f, "{packets} packets: {differing} end otherwise with {new} than with {old}")?;
        for ((flow, kind), difference) in differences.iter().take(FLOWS) {
            let Difference { packets, words: (old, new) } = difference;
            writeln!(f, "{packets:>10}  {}: {flow}", kind.word())?;
            writeln!(f, "{:>10}  old: {old}", "")?;
            writeln!(f, "{:>10}  new: {new}", "")?;
        }
        match differences.len().saturating_sub(FLOWS) {
            0 => Ok(()),
            more => writeln!(f, "{more} more flows: -j prints all"),
        }
    }
}
