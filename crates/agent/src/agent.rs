// SPDX-License-Identifier: Apache-2.0

//! The loop of an agent.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use penstock_fleet::blobs::Blobs;
use penstock_fleet::canary::Node;
use penstock_fleet::change::{Change, change};
use penstock_fleet::key::PublicKey;
use penstock_fleet::store::{Error, Version};
use penstock_fleet::tree::{self, Tree};
use penstock_fleet::{Manifest, Store};

use crate::machine::{Goal, Machine, Outcome, Step};
use crate::memory::Memory;
use crate::sets::{InForce, Sets};
use crate::{Commit, Host, NotCommitted, health, text};

/// How long a store is waited for at once. A dataplane that begins is noticed between.
const TURN: Duration = Duration::from_secs(5);
/// How long it is waited before something that could not be done is tried again.
const SOON: Duration = Duration::from_secs(1);
/// How long it is waited before something that was good, and was refused, is tried again.
const GOOD_AGAIN: Duration = Duration::from_secs(15);
/// How long it is waited between two health checks.
const BETWEEN: Duration = Duration::from_millis(250);
/// A health check has at most this time.
const ONE_CHECK: Duration = Duration::from_secs(10);

/// What an agent is told when it begins.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node.
    pub node: Node,
    /// Keys that may sign heads.
    pub keys: Vec<PublicKey>,
    /// Where memory and blobs are kept; nowhere if there is none.
    pub state: Option<PathBuf>,
    /// Commands of the shell that have to succeed after a change.
    pub health: Vec<String>,
    /// A change is taken back unless all checks succeed within this time.
    pub confirm: Duration,
    /// A report that is not renewed for this time ends.
    pub lease: Duration,
    /// Time between two comparisons of sets with what is in force.
    pub compare: Duration,
}

/// Opens a store: each health check asks over a connection of its own.
pub type Opener<'a> = &'a dyn Fn() -> Result<Box<dyn Store>, Error>;

/// An agent.
pub struct Agent<'a> {
    settings: Settings,
    machine: Machine,
    open: Opener<'a>,
    store: Box<dyn Store>,
    tag: Option<String>,
    /// The store answered when it was asked last. One that was away before a change says nothing of
    /// the change.
    heard: bool,
    dataplane: Option<u64>,
    /// When what was good before is tried again, if it was refused.
    good_at: Option<Instant>,
    /// What is in force by this agent.
    manifest: Option<Manifest>,
    sets: Sets,
    /// Milliseconds that the last change took.
    took: u64,
    reported: Option<(Vec<u8>, Instant)>,
    /// What was said of the state directory, the store and the dataplane last.
    said: String,
    unkept: Option<String>,
}

impl<'a> Agent<'a> {
    /// An agent that begins.
    ///
    /// # Errors
    /// The memory cannot be read, or the address of the store is wrong.
    pub fn new(settings: Settings, open: Opener<'a>) -> Result<Agent<'a>, String> {
        let memory = match &settings.state {
            Some(directory) => Memory::read(directory).map_err(|e| e.to_string())?,
            None => Memory::default(),
        };
        let machine = Machine::new(settings.node.clone(), settings.keys.clone(), memory);
        let store = open().map_err(|e| e.to_string())?;
        let sets = Sets::new(settings.compare);
        Ok(Agent {
            settings,
            machine,
            open,
            store,
            tag: None,
            heard: false,
            dataplane: None,
            good_at: None,
            manifest: None,
            sets,
            took: 0,
            reported: None,
            said: String::new(),
            unkept: None,
        })
    }

    /// Runs until `stop` says so, which is asked between two turns.
    pub fn run(&mut self, host: &mut dyn Host, stop: &dyn Fn() -> bool) {
        while !stop() {
            self.turn(host, TURN);
        }
    }

    /// Waits for a change at most for a time, and does what is to be done.
    pub fn turn(&mut self, host: &mut dyn Host, time: Duration) {
        self.look_at_dataplane(host);
        self.try_good_again();
        // What is good already does not wait for the store.
        self.work(host, Instant::now());
        let time = if self.machine.waits_to_try() { time.min(SOON) } else { time };
        let time = if self.manifest.is_some() { time.min(self.sets.idle()) } else { time };
        let time = time.min(self.until_report());
        let begin = Instant::now();
        let heard = self.store.wait(self.tag.as_deref(), time);
        let seen = Instant::now();
        self.heard = heard.is_ok();
        match heard {
            Ok(Some(Version { bytes, tag })) => {
                self.tag = Some(tag);
                self.machine.head(&bytes);
                self.remember();
            }
            Ok(None) => self.machine.unchanged(),
            Err(e) => {
                self.machine.away(e.to_string());
                // All agents of a fleet see a store go and come at once: they ask at random times.
                let pause = SOON.mul_f64(0.5 + fastrand::f64()).min(time);
                std::thread::sleep(pause.saturating_sub(begin.elapsed()));
            }
        }
        self.machine.again();
        self.look_at_dataplane(host);
        self.work(host, seen);
        self.keep_sets(host);
        self.tell(host);
    }

    /// A refusal of what was in force before is not for ever: without it there would be nothing.
    fn try_good_again(&mut self) {
        if !self.machine.is_without_good() {
            self.good_at = None;
        } else if *self.good_at.get_or_insert_with(|| Instant::now() + GOOD_AGAIN) <= Instant::now()
        {
            self.machine.good_again();
            self.good_at = None;
        }
    }

    /// How long it is until a report is due that says the same as the last one.
    fn until_due(&self) -> Option<Duration> {
        let since = self.reported.as_ref().map(|(_, when)| when.elapsed())?;
        Some((self.settings.lease / 3).saturating_sub(since))
    }

    /// How long may be waited because of the next report. One that is not taken is tried again soon.
    fn until_report(&self) -> Duration {
        self.until_due().map_or(Duration::MAX, |left| left.max(SOON))
    }

    /// Compares, repairs and renews the sets in force.
    fn keep_sets(&mut self, host: &mut dyn Host) {
        let (Some(manifest), Some(good)) = (&self.manifest, self.machine.memory().good) else {
            return;
        };
        let blobs = Blobs::new(Some(&*self.store), self.settings.state.as_deref());
        let node = &self.settings.node;
        let now = InForce { tree: good.tree, manifest, node, blobs: &blobs };
        self.sets.keep(&now, host);
    }

    fn look_at_dataplane(&mut self, host: &mut dyn Host) {
        let there = host.dataplane();
        if there != self.dataplane {
            self.dataplane = there;
            self.manifest = None;
            self.machine.dataplane_changed();
        }
    }

    /// Does all that can be done. `seen` is when the head was.
    fn work(&mut self, host: &mut dyn Host, seen: Instant) {
        while let Step::Try(goal) = self.machine.next() {
            let outcome = self.attempt(goal, host);
            let changed = outcome == Outcome::InForce;
            self.machine.tried(goal, outcome, now());
            self.took = seen.elapsed().as_millis() as u64;
            self.tell(host);
            if changed {
                self.remember();
                self.forget();
            }
        }
    }

    /// Tries a tree.
    fn attempt(&mut self, goal: Goal, host: &mut dyn Host) -> Outcome {
        let blobs = Blobs::new(Some(&*self.store), self.settings.state.as_deref());
        let read = Tree::read(goal.tree, &blobs).and_then(|tree| {
            let change = match &self.manifest {
                Some(old) => change(old, &tree.manifest, &blobs)?,
                None => Change::Whole,
            };
            Ok((tree, change))
        });
        let (tree, change) = match read {
            Ok(read) => read,
            Err(e) => return Outcome::NotYet(e.to_string()),
        };
        let reads_elements = host.reads_elements();
        // All elements are read once, for tests and for what is put in force.
        let read_all = || match reads_elements {
            true => text::all(&tree.manifest, &blobs),
            false => tree
                .manifest
                .sets
                .iter()
                .try_for_each(|set| tree::checked(set, &blobs))
                .map(|()| String::new()),
        };
        let mut all = None;
        if !tree.manifest.tests.is_empty() {
            let elements = match read_all() {
                Ok(elements) => elements,
                Err(e) => return Outcome::NotYet(e.to_string()),
            };
            if let Err(why) = host.test(&tree, &self.settings.node, &elements) {
                return Outcome::Refused(why);
            }
            all = Some(elements);
        }
        // What was confirmed before is not asked about again.
        let restored = self.machine.memory().good.is_some_and(|good| good.tree == goal.tree);
        let confirm = if restored { Duration::ZERO } else { self.settings.confirm };
        let settings = &self.settings;
        let open = Some(self.open).filter(|_| self.heard);
        let mut commit = |whole: bool, elements: &str| {
            let commit = Commit { tree: &tree, node: &settings.node, whole, elements, confirm };
            host.commit(&commit, &mut || healthy(settings, open))
        };
        let mut done = match &change {
            Change::Nothing => Some(Ok(())),
            Change::Elements(sets) => {
                let text: String =
                    sets.iter().map(|(set, delta)| text::changed(set, delta)).collect();
                // Somebody else may have changed elements: then all is put in force anew.
                let done = commit(false, &text);
                Some(done).filter(|done| !matches!(done, Err(NotCommitted::Refused(_))))
            }
            Change::Whole => None,
        };
        let whole = done.is_none();
        if whole {
            let elements = match all.map_or_else(read_all, Ok) {
                Ok(elements) => elements,
                Err(e) => return Outcome::NotYet(e.to_string()),
            };
            done = Some(commit(true, &elements));
        }
        self.unkept = blobs.unkept();
        match done.unwrap_or(Ok(())) {
            Ok(()) => {
                match &change {
                    Change::Nothing => {}
                    Change::Elements(changed) if !whole => self.sets.put(changed),
                    Change::Elements(_) | Change::Whole => self.sets.all_put(),
                }
                self.manifest = Some(tree.manifest);
                Outcome::InForce
            }
            Err(NotCommitted::Refused(why)) => Outcome::Refused(why),
            Err(NotCommitted::RolledBack(why)) => Outcome::RolledBack(why),
            Err(NotCommitted::NoDataplane(why)) => Outcome::NoDataplane(why),
            Err(NotCommitted::NotNow(why)) => Outcome::NotYet(why),
        }
    }

    /// Writes what has to outlive the agent. A full disk does not end it: the node goes on, and says
    /// so.
    fn remember(&mut self) {
        let Some(directory) = &self.settings.state else { return };
        if let Err(e) = self.machine.memory().write(directory) {
            self.unkept = Some(format!("{}: {e}", directory.display()));
        }
    }

    /// Removes blobs that neither the good tree nor the present one has.
    fn forget(&self) {
        let (Some(manifest), Some(good)) = (&self.manifest, self.machine.memory().good) else {
            return;
        };
        let wanted: HashSet<_> = manifest.blobs().chain([good.tree]).collect();
        Blobs::new(None, self.settings.state.as_deref()).forget_others(&wanted);
    }

    /// Says what is new, and reports to the store.
    fn tell(&mut self, host: &mut dyn Host) {
        let lease = self.settings.lease;
        let mut report = self.machine.report(self.took, 0);
        if let (Some(unkept), true) = (&self.unkept, report.why.is_empty()) {
            report.why = format!("the state directory cannot be written: {unkept}");
        }
        if report.why.is_empty() {
            report.why.clone_from(&self.sets.why);
        }
        report.repairs = self.sets.repairs;
        report.repaired.clone_from(&self.sets.repaired);
        let said = match report.why.as_str() {
            "" => format!("generation {} {}", report.generation, report.state),
            why => format!("generation {} {}: {why}", report.seen, report.state),
        };
        if said != self.said {
            host.say(&said);
            self.said = said;
        }
        let bytes = report.bytes();
        let is_news = self.reported.as_ref().is_none_or(|(last, _)| *last != bytes);
        if is_news || self.until_due().is_some_and(|left| left.is_zero()) {
            report.until = now() + lease.as_secs();
            report.lease = lease.as_secs();
            // A store that takes no report has none: nothing else depends on it.
            if self.store.report(&report.node, &report.bytes(), lease).is_ok() {
                self.reported = Some((bytes, Instant::now()));
            }
        }
    }
}

/// Whether the node is well: all commands succeed, and the store, if it was there before, is there
/// over a new connection.
fn healthy(settings: &Settings, open: Option<Opener<'_>>) -> Result<(), String> {
    // The rest of the time is for the answer to arrive.
    let end = Instant::now() + settings.confirm / 2;
    loop {
        let left = end.saturating_duration_since(Instant::now()).min(ONE_CHECK);
        let checked = settings.health.iter().try_for_each(|command| health::check(command, left));
        let checked = checked.and_then(|()| {
            let asked = open.map(|open| open().and_then(|store| store.head()).map(drop));
            asked.unwrap_or(Ok(())).map_err(|e| e.to_string())
        });
        match checked {
            Err(_) if Instant::now() + BETWEEN < end => std::thread::sleep(BETWEEN),
            checked => return checked,
        }
    }
}

/// Seconds since the epoch.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
