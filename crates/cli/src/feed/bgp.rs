// SPDX-License-Identifier: Apache-2.0

//! `penstock feed exabgp` and `penstock feed gobgp`: routes become a table of their own.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use penstock_feeds::bgp::Said as Heard;
use penstock_feeds::bgp::rib::{Rib, Taken};
use penstock_feeds::bgp::table::{BLACKHOLES, Listed, Wanted};
use penstock_feeds::elements::{Elements, outermost};
use penstock_feeds::flow::rules::FlowRules;

use super::clock::{self, Backoff};
use super::dataplane::{self, Failure};
use super::lines::{Input, Inputs};
use super::metrics::{self, wall_time};
use super::options::Options;
use super::owner::{Owned, Owner};
use super::said::Said;
use super::set::{Changed, FedSet};

/// Reads a line of a speaker.
type Reader = fn(&str) -> Result<Vec<Heard>, String>;

/// Lines that come one after the other within the first of these times are taken together, for the
/// second one at most.
const TOGETHER: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// What another process has left in the table.
struct Inherited {
    elements: [Elements; 4],
    /// It goes at this time, unless the same was announced again.
    until: u64,
}

struct Feed<'o> {
    options: &'o Options,
    read: Reader,
    said: Said,
    rib: Rib,
    owner: Owner,
    sets: [FedSet; 4],
    inherited: Option<Inherited>,
    /// Keys of flow specifications that the dataplane has refused.
    unable: HashSet<String>,
    flows: usize,
    /// Routes have changed, or something is to be compared with what is there.
    is_due: bool,
    verify_at: Instant,
    retry_at: Option<Instant>,
    backoff: Backoff,
    heard_at: u64,
    /// No more lines come.
    has_ended: bool,
}

/// Why a table could not be made.
enum Problem {
    Failure(Failure),
    /// Another process has it.
    Taken,
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        Problem::Failure(failure)
    }
}

/// Runs until the lines end or a signal comes, and longer for routes of peers that restart.
pub fn run(read: Reader, options: &Options) -> Result<(), String> {
    let inputs = Inputs::start().map_err(|e| e.to_string())?;
    let mut feed = Feed::new(read, options);
    loop {
        let mut next = inputs.next(feed.time_to_wait()).ok();
        let end = Instant::now() + TOGETHER[1];
        while let Some(input) = next {
            if matches!(input, Input::Signal) && (options.keep || feed.has_ended) {
                return Ok(());
            }
            feed.take(input);
            next = if Instant::now() < end { inputs.next(TOGETHER[0]).ok() } else { None };
        }
        feed.advance();
        if feed.is_due && feed.retry_at.is_none_or(|at| Instant::now() >= at) {
            feed.make_all()?;
        }
        if feed.is_over() {
            return Ok(());
        }
    }
}

impl Feed<'_> {
    fn new(read: Reader, options: &Options) -> Feed<'_> {
        let owner = Owner::new(&options.bgp.table);
        let set = |of| FedSet::new(options.bgp.set(of)).fenced(owner.fence());
        Feed {
            options,
            read,
            said: Said::new(options.verbose),
            rib: Rib::new(options.bounds),
            sets: BLACKHOLES.map(set),
            owner,
            inherited: None,
            unable: HashSet::new(),
            flows: 0,
            is_due: true,
            verify_at: Instant::now() + options.verify,
            retry_at: None,
            backoff: Backoff::new(),
            heard_at: 0,
            has_ended: false,
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Line(line) if line.is_empty() => {}
            Input::Line(line) => match (self.read)(&line) {
                Ok(all) => all.into_iter().for_each(|heard| self.hear(heard)),
                Err(why) => self.said.refusal(format_args!("a line: {why}")),
            },
            Input::Malformed => self.said.refusal("a line that is too long or no text"),
            Input::Tables => {
                // It may be another dataplane.
                self.unable.clear();
                self.look_again();
            }
            Input::End => {
                self.said.note("the speaker has ended");
                self.rib.speaker_gone(clock::now());
                (self.has_ended, self.is_due, self.inherited) = (true, true, None);
            }
            Input::Signal => {
                self.rib.clear();
                (self.has_ended, self.is_due, self.inherited) = (true, true, None);
            }
        }
    }

    fn hear(&mut self, heard: Heard) {
        self.heard_at = wall_time();
        let peer = heard.peer.clone();
        self.said.note(format_args!("{peer}: {}", heard.event));
        match self.rib.take(heard, clock::now()) {
            Taken::Nothing => {}
            Taken::Changed => self.is_due = true,
            Taken::Refused(why) => {
                self.said.refusal(format_args!("a route of {peer}: {why}"));
                // It may have replaced one that was not refused.
                self.is_due = true;
            }
        }
    }

    /// What time changes by itself.
    fn advance(&mut self) {
        let now = clock::now();
        if self.rib.advance(now) {
            self.said.note("routes of a peer that did not come back are gone");
            self.is_due = true;
        }
        if self.inherited.as_ref().is_some_and(|inherited| inherited.until <= now) {
            self.inherited = None;
            self.is_due = true;
        }
        if Instant::now() >= self.verify_at {
            self.look_again();
        }
    }

    /// Compares everything with what is there.
    fn look_again(&mut self) {
        self.sets.iter_mut().for_each(FedSet::forget);
        self.is_due = true;
        self.retry_at = None;
        self.verify_at = Instant::now() + self.options.verify;
    }

    fn time_to_wait(&self) -> Duration {
        let now = clock::now();
        let instants = [Some(self.verify_at), self.retry_at.filter(|_| self.is_due)];
        let instants =
            instants.into_iter().flatten().map(|at| at.saturating_duration_since(Instant::now()));
        let seconds = [self.rib.next_time(), self.inherited.as_ref().map(|i| i.until)];
        let seconds =
            seconds.into_iter().flatten().map(|at| Duration::from_secs(at.saturating_sub(now)));
        let least = instants.chain(seconds).min().unwrap_or(self.options.verify);
        if self.is_due && self.retry_at.is_none() { Duration::ZERO } else { least }
    }

    /// Whether there is nothing more to do.
    fn is_over(&self) -> bool {
        self.has_ended && self.rib.is_empty() && !self.is_due
    }

    /// Makes the table as it is wanted; what fails is tried again.
    fn make_all(&mut self) -> Result<(), String> {
        match self.try_make_all() {
            Ok(()) => {
                self.said.success();
                self.backoff.reset();
                (self.is_due, self.retry_at) = (false, None);
            }
            Err(Problem::Taken) => {
                return Err("another process has taken the table over".into());
            }
            // The table is gone with the dataplane.
            Err(Problem::Failure(Failure::Away(_))) if self.has_ended => self.is_due = false,
            Err(Problem::Failure(failure)) => {
                self.said.failure(failure);
                self.look_again();
                self.retry_at = Some(Instant::now() + self.backoff.pause());
            }
        }
        self.write_metrics();
        Ok(())
    }

    fn try_make_all(&mut self) -> Result<(), Problem> {
        let wanted = Wanted::of(&self.rib, &self.options.bgp);
        for (spec, why) in &wanted.refused {
            self.said.refusal(format_args!("{spec}: {why}"));
        }
        let listed = self.table()?;
        let mut total = Changed::default();
        for (i, (set, elements)) in self.sets.iter_mut().zip(&wanted.elements).enumerate() {
            let changed = match &self.inherited {
                Some(inherited) => {
                    let all = elements.keys().chain(inherited.elements[i].keys());
                    set.make(&outermost(all.copied()))
                }
                None => set.make(elements),
            };
            total += changed?;
        }
        if total != Changed::default() {
            let Changed { added, deleted } = total;
            self.said.note(format_args!("blackholes: {added} added, {deleted} deleted"));
        }
        self.make_flows(&listed, wanted.flows)
    }

    /// Makes the rules of flow specifications those that are wanted, without those that the
    /// dataplane refuses.
    fn make_flows(&mut self, listed: &Listed, flows: Vec<FlowRules>) -> Result<(), Problem> {
        let known: HashSet<&String> = flows.iter().map(|f| &f.key).collect();
        self.unable.retain(|key| known.contains(key));
        let able = |feed: &Self| -> Vec<FlowRules> {
            flows.iter().filter(|f| !feed.unable.contains(&f.key)).cloned().collect()
        };
        match self.run_flows(listed, &able(self)) {
            Ok(is_changed) => {
                self.flows = flows.len() - self.unable.len();
                if is_changed {
                    self.said.note(format_args!("{} flow specifications in force", self.flows));
                }
                return Ok(());
            }
            Err(Failure::Refused(_)) => {}
            Err(away) => return Err(away.into()),
        }
        // One at least is refused, unless the table is not as it was listed.
        let listed = self.table()?;
        let mut good: Vec<FlowRules> =
            flows.iter().filter(|f| listed.has_flow(f)).cloned().collect();
        let new = able(self).into_iter().filter(|f| !listed.has_flow(f)).collect();
        self.find_unable(new, &mut good, &flows)?;
        Ok(())
    }

    /// Adds specifications to those in force; of several that are refused together, each half is
    /// tried.
    fn find_unable(
        &mut self,
        mut new: Vec<FlowRules>,
        good: &mut Vec<FlowRules>,
        order: &[FlowRules],
    ) -> Result<(), Problem> {
        if new.is_empty() {
            return Ok(());
        }
        let listed = self.table()?;
        let tried: HashSet<&String> = good.iter().chain(&new).map(|f| &f.key).collect();
        let all: Vec<FlowRules> =
            order.iter().filter(|f| tried.contains(&f.key)).cloned().collect();
        match self.run_flows(&listed, &all) {
            Ok(_) => {
                self.flows = all.len();
                *good = all;
                Ok(())
            }
            Err(Failure::Refused(why)) if new.len() == 1 => {
                let flow = new.remove(0);
                self.said.refusal(format_args!("{}: {why}", flow.words));
                self.unable.insert(flow.key);
                Ok(())
            }
            Err(Failure::Refused(_)) => {
                let rest = new.split_off(new.len() / 2);
                self.find_unable(new, good, order)?;
                self.find_unable(rest, good, order)
            }
            Err(away) => Err(away.into()),
        }
    }

    /// Whether rules were changed.
    fn run_flows(&self, listed: &Listed, flows: &[FlowRules]) -> Result<bool, Failure> {
        let keeps_others = self.inherited.is_some();
        let commands = listed.flow_commands(&self.options.bgp, flows, keeps_others);
        if commands.is_empty() {
            return Ok(false);
        }
        dataplane::run(&format!("{}{commands}", self.owner.fence()))?;
        Ok(true)
    }

    /// The table as it is; it is made if it is not there, or not as it was made.
    fn table(&mut self) -> Result<Listed, Problem> {
        let settings = &self.options.bgp;
        let list = ["-j", "-t", "list", "table", "inet", &settings.table];
        let listed = match dataplane::list(&list) {
            Ok(json) => Some(Listed::read(&json).map_err(Failure::Refused)?),
            Err(Failure::Refused(_)) => None,
            Err(away) => return Err(away.into()),
        };
        let whole = listed.filter(|listed| listed.is_whole(settings));
        if let Some(listed) = whole {
            match self.owner.of(&listed.counters) {
                Owned::Mine => {}
                Owned::Taken => return Err(Problem::Taken),
                Owned::Free => self.inherit(&listed)?,
            }
            return Ok(listed);
        }
        let commands =
            format!("{}{}", settings.definition(), self.owner.claim(&Default::default()));
        dataplane::run(&commands)?;
        self.said.note(format_args!("table inet {} is made", settings.table));
        self.sets.iter_mut().for_each(FedSet::forget);
        let json = dataplane::list(&list)?;
        Ok(Listed::read(&json).map_err(Failure::Refused)?)
    }

    /// Takes a table over that another process has left.
    fn inherit(&mut self, listed: &Listed) -> Result<(), Problem> {
        let mut elements: [Elements; 4] = Default::default();
        for (set, elements) in self.sets.iter().zip(&mut elements) {
            *elements = set.list()?.elements;
        }
        dataplane::run(&self.owner.claim(&listed.counters))?;
        let count: usize = elements.iter().map(Elements::len).sum::<usize>() + listed.flow_rules();
        if count > 0 && !self.has_ended && self.options.inherit > 0 {
            self.said.note(format_args!("{count} elements and rules are kept for a while"));
            self.inherited =
                Some(Inherited { elements, until: clock::now() + self.options.inherit });
        }
        Ok(())
    }

    fn write_metrics(&mut self) {
        let Some(path) = &self.options.metrics else { return };
        let written = metrics::write(path, |to| {
            to.gauge("feed_sessions", "BGP sessions that are up.", self.rib.sessions_up());
            to.gauge("feed_routes", "Routes of all sessions.", self.rib.len());
            to.gauge("feed_flows", "Flow specifications with rules.", self.flows);
            metrics::of_feed(to, &self.sets, &self.said, self.heard_at);
        });
        if let Err(why) = written {
            self.said.failure(why);
        }
    }
}
