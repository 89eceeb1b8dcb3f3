// SPDX-License-Identifier: Apache-2.0

//! Tests carried out: each on a host of its own, that begins as the files say.

use std::sync::Arc;

use penstock_conntrack::{FlowChange, ProtocolChange, status};
use penstock_dataplane::{Dataplane, Engine};
use penstock_lang::datatype::Format;
use penstock_lang::source::Loc;
use penstock_net::Network;
use penstock_ruleset::{Generation, Ruleset};
use penstock_wire::protocol;

use super::expect::Seen;
use super::suite::{Action, Step, Suite, Test};
use crate::input::{Captures, Entering, Entry, InputPort, Inputs, tuple_of};
use crate::rules::NetNames;
use crate::setup::Setup;
use crate::trace::described;
use crate::trace::outcome::Outcome;
use crate::trace::pretended::Pretended;
use crate::trace::told::Told;
use crate::tracer::Tracer;

/// Nanoseconds from a packet to the next.
const STEP: u64 = 1_000_000;
/// Nanoseconds that a pretended connection lives.
const LIFE: u64 = 600_000_000_000;

/// What is wrong with a suite, or a step of it, rather than with what came out.
pub enum Failure {
    /// All of it cannot be run.
    Whole(String),
    /// What stands at a place cannot be carried out.
    At(Loc, String),
}

/// The host of a suite, as every test finds it.
pub struct Host<'n> {
    setup: &'n Setup,
    net: &'n Arc<Network>,
    names: &'n NetNames<'n>,
    /// The ruleset as bytes.
    saved: Vec<u8>,
    /// As it was loaded.
    generation: Arc<Generation>,
    start: u64,
}

/// What became of a packet of a step.
pub struct Passed {
    pub outcome: Outcome,
    /// The lines of its trace.
    pub trace: String,
    /// Expectations that did not come true: numbers in the step, and what came instead.
    pub wrong: Vec<(usize, String)>,
}

impl<'n> Host<'n> {
    /// Loads the ruleset of a suite.
    ///
    /// # Errors
    /// What a file has wrong.
    pub fn load(
        suite: &'n Suite,
        net: &'n Arc<Network>,
        names: &'n NetNames<'n>,
    ) -> Result<Self, String> {
        let (setup, start) = (&suite.setup, suite.start);
        let ruleset = setup.ruleset(names, start, false)?;
        let (saved, generation) = (ruleset.save(start), ruleset.generation());
        Ok(Host { setup, net, names, saved, generation, start })
    }

    /// What names rules in all tests.
    pub fn tracer(&self) -> Tracer<'n> {
        let names: &'n (dyn penstock_lang::names::Names + Sync) = self.names;
        Tracer::new(&self.generation, names, Format::default(), self.start).with_origins()
    }

    /// Carries out a test. `seen` gets what became of each packet, and says whether to go on.
    ///
    /// # Errors
    /// A step that cannot be carried out.
    pub fn run(
        &self,
        test: &Test,
        told: &mut Told<'_>,
        seen: &mut dyn FnMut(&Step, Passed) -> bool,
    ) -> Result<(), Failure> {
        let whole = |e: &dyn std::fmt::Display| Failure::Whole(format!("Error: {e}"));
        let ruleset =
            Ruleset::from_saved_at(&self.saved, self.start).map_err(|broken| whole(&broken))?;
        let mut path =
            self.setup.dataplane(self.net, &ruleset, self.start).map_err(Failure::Whole)?;
        path.set_engine(Engine::Interpreter);
        path.trace_all(true);
        told.listen();
        let now = ruleset.generation();
        let mut run = Run { host: self, path, now, time: self.start, known: None };
        for step in &test.steps {
            let wrong = |message| Failure::At(step.loc, message);
            for expected in &step.expected {
                let checked = expected.what.check_fields(self.names);
                checked.map_err(|message| Failure::At(expected.loc, message))?;
            }
            match &step.action {
                Action::Wait(nanoseconds) => run.time = run.time.saturating_add(*nanoseconds),
                Action::Known(what) => run.known = Some(*what),
                Action::Packet { source, text } => {
                    let entering = described(source, text, self.setup.net(), self.names, run.time);
                    let entering = entering.map_err(wrong)?;
                    let passed = run.send(step, &entering, told).map_err(wrong)?;
                    if !seen(step, passed) {
                        return Ok(());
                    }
                }
                Action::Frames { .. } => {
                    let mut on = true;
                    let sent = run.frames(step, told, |run, entering, told| {
                        let passed = run.send(step, entering, told)?;
                        on = seen(step, passed);
                        Ok(on)
                    });
                    sent.map_err(wrong)?;
                    if !on {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

/// A test on its way.
struct Run<'h, 'n> {
    host: &'h Host<'n>,
    path: Dataplane,
    now: Arc<Generation>,
    /// Nanoseconds since the epoch at which the next packet comes.
    time: u64,
    /// The next packet is of such a connection.
    known: Option<Pretended>,
}

impl Run<'_, '_> {
    /// Sends a packet, and holds it against what is expected.
    fn send(
        &mut self,
        step: &Step,
        entering: &Entering<'_>,
        told: &mut Told<'_>,
    ) -> Result<Passed, String> {
        if let Some(what) = self.known.take() {
            self.know(entering, what)?;
        }
        entering.send(&mut self.path, told).map_err(|e| format!("Error: {e}"))?;
        self.path.flush(told);
        self.time = entering.time.saturating_add(STEP);
        let (outcome, trace) = told.take();
        let seen = Seen {
            outcome: &outcome,
            rules: told.rules(),
            names: self.host.names,
            now: &self.now,
            before: &self.host.generation,
            time: entering.time,
        };
        let expected = step.expected.iter().enumerate();
        let wrong = expected
            .filter_map(|(n, expected)| Some((n, expected.what.check(&seen).err()?)))
            .collect();
        Ok(Passed { outcome, trace, wrong })
    }

    /// Enters the connection of a packet into the table.
    fn know(&mut self, entering: &Entering<'_>, what: Pretended) -> Result<(), String> {
        let network = match entering.port {
            InputPort::Host => &entering.bytes[..],
            InputPort::Device(_) | InputPort::HostDevice(_) | InputPort::Stack(_) => {
                entering.bytes.get(penstock_wire::ethernet::LEN..).unwrap_or_default()
            }
        };
        let tuple = tuple_of(network).and_then(|tuple| Some((tuple, tuple.invert()?)));
        let Some((tuple, answer)) = tuple else {
            return Err(
                "only TCP, UDP and ICMP packets without tags can be of a connection that is \
                        known"
                    .to_owned(),
            );
        };
        let both = status::SEEN_REPLY | status::ASSURED | status::CONFIRMED;
        let (original, answer, status) = match what {
            Pretended::Established => (tuple, answer, both),
            Pretended::Reply => (answer, tuple, both),
            Pretended::Related => (tuple, answer, status::EXPECTED | status::CONFIRMED),
        };
        const ESTABLISHED: u8 = 3;
        const LIBERAL: u8 = 8;
        let protocol = (tuple.protocol == protocol::TCP).then_some(ProtocolChange::Tcp {
            state: Some(ESTABLISHED),
            // Its windows are unknown.
            flags: [Some((LIBERAL, LIBERAL)); 2],
            scales: None,
        });
        let change = FlowChange { timeout: Some(LIFE), status, protocol, ..FlowChange::default() };
        let conntrack = self.path.conntrack_mut();
        conntrack.advance(entering.time);
        conntrack
            .insert_flow([&original, &answer], None, &change, |_, _| true)
            .map(|_| ())
            .map_err(|_| "the connection cannot be entered: it is there already".to_owned())
    }

    /// Reads frames of a capture, and gives those with the wanted numbers to `send`, until it says
    /// `false`. They come as far apart as in the capture, the first one now. Those that do not enter
    /// the path are passed over, unless something is expected and all are such.
    fn frames(
        &mut self,
        step: &Step,
        told: &mut Told<'_>,
        mut send: impl FnMut(&mut Self, &Entering<'_>, &mut Told<'_>) -> Result<bool, String>,
    ) -> Result<(), String> {
        let Action::Frames { read, numbers } = &step.action else { return Ok(()) };
        let (first, last, is_expected) =
            (*numbers.start(), *numbers.end(), !step.expected.is_empty());
        let captures = Captures { reads: vec![read.clone()], as_is: false };
        let net = self.host.net.clone();
        let mut inputs = Inputs::open(&captures, &net, self.host.setup.net())?;
        let (mut count, mut shift, mut left_out, mut entered) = (0, None, None, false);
        while let Some(next) = inputs.next() {
            let taken = next?;
            count += 1;
            if count < first {
                continue;
            }
            let from = taken.frame.time;
            let at = *shift.get_or_insert((from, self.time));
            let time = at.1.saturating_add(from.saturating_sub(at.0)).max(self.time);
            let entry = taken.entry(&net, self.path.conntrack(), Some(&mut told.outgoing));
            match entry.map_err(|e| format!("Error: {e}"))? {
                Entry::Enters(entering) => {
                    entered = true;
                    if !send(self, &Entering { time, ..entering }, told)? {
                        return Ok(());
                    }
                }
                Entry::LeftOut(why) => left_out = Some(why),
            }
            if count == last {
                return match left_out.filter(|_| !entered) {
                    Some(why) if is_expected => Err(format!("no frame enters the path: {why}")),
                    Some(_) | None => Ok(()),
                };
            }
        }
        let file = read.file.display();
        Err(format!("there is no frame {last}: {file} has {count}"))
    }
}
