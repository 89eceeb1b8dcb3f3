// SPDX-License-Identifier: Apache-2.0

//! The ruleset of the dataplane: clients change it, workers get each generation, and an unconfirmed
//! change is rolled back.
//!
//! | file | is |
//! | --- | --- |
//! | [`update`] | steps from one generation to another |
//! | `history` | the latest steps, for copies that follow |
//! | `refused` | why a change is refused |
//! | `sockets` | what is said of rules that ask for sockets |

mod history;
mod refused;
mod sockets;
pub(crate) mod update;

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use penstock_lang::datatype::Format;
use penstock_print::show::status::Took;
use penstock_ruleset::link::{CannotOffload, LinkError, Linked, LinkedFlowtable};
use penstock_ruleset::reset::Reset;
use penstock_ruleset::{Blame, Error, Generation, Ruleset, Table, Transaction};
use penstock_system::SystemNames;
use serde::{Deserialize, Serialize};

use crate::attach::Attached;
use crate::broadcast::{Broadcast, Heard};
use crate::control::not_now;
use crate::offload::Offload;
use crate::on_disk::OnDisk;
use crate::probe::{number_of, with_probes};
use crate::requests::workers::Workers;
use crate::requests::{Barrier, Request, SystemTracer};
use crate::seccomp::{self, Thread};
use crate::{log, now};
use history::History;

pub(crate) use refused::Refused;
pub(crate) use update::{Commit, Update};

/// Longest wait for the worker; it answers between two bursts.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who makes a change: process and its name.
pub(crate) type Process = (u32, String);

/// A change that waits for confirmation.
#[derive(Debug)]
struct Unconfirmed {
    /// The generation to come back.
    before: Arc<Generation>,
    /// Number of the change.
    id: u32,
    deadline: Instant,
}

#[derive(Debug, Default)]
struct Inner {
    ruleset: Ruleset,
    linked: Arc<Linked>,
    unconfirmed: Option<Unconfirmed>,
    /// Number of the last change that was confirmed.
    confirmed: Option<u32>,
    last: Took,
    /// Tables of captures, next to those of the ruleset.
    probes: Vec<Arc<Table>>,
    history: History,
    next_probe: u32,
}

impl Inner {
    /// Links a generation after the one in force, captures included.
    fn link(&self, generation: &Generation) -> Result<Linked, LinkError> {
        match &self.probes[..] {
            [] => self.linked.next(generation),
            probes => self.linked.next(&with_probes(generation, probes)),
        }
    }
}

/// The ruleset, for all clients.
pub(crate) struct Rules {
    /// Held from the last look at the generation in force until there is another one; by those who
    /// were overtaken while they evaluate, too. Taken before `inner`.
    commits: Mutex<()>,
    inner: Mutex<Inner>,
    workers: Arc<Workers>,
    offload: Arc<Offload>,
    /// The kernel runs the ruleset, and not the workers.
    attached: Option<Arc<Attached>>,
    /// Who watches changes: each as text of `nft -a monitor`.
    pub(crate) changes: Arc<ChangeWatchers>,
    /// Who watches traces.
    pub(crate) traces: Arc<Broadcast>,
    /// Names that traces are printed with.
    names: OnceLock<Arc<SystemNames>>,
    /// Where generations in force go, from the first commit on.
    lookups: OnceLock<Sender<Succession>>,
    /// The state file.
    pub(crate) on_disk: OnDisk,
}

/// A generation in force, and the one before.
type Succession = (Arc<Linked>, Arc<Linked>);

/// Starts the thread that builds the lookups of long chains, which are walked until that is done,
/// frees what was in force before, and says once which rules match nothing: a large ruleset takes
/// time.
fn begin_lookups() -> Sender<Succession> {
    let (sender, successions) = channel::<Succession>();
    let _ = std::thread::Builder::new().name("lookups".into()).spawn(move || {
        seccomp::enter(Thread::Lookups);
        let mut told = false;
        while let Ok((mut linked, gone)) = successions.recv() {
            drop(gone);
            // Those that were overtaken need none.
            while let Ok((next, gone)) = successions.try_recv() {
                linked = next;
                drop(gone);
            }
            linked.image.build_lookups();
            if !told && let Some(notice) = sockets::notice(&linked.image) {
                told = true;
                log(notice);
            }
        }
    });
    sender
}

/// Whether packets meet a chain of a ruleset.
pub(crate) fn has_base_chain(generation: &Generation) -> bool {
    generation.tables.iter().any(|table| table.chains.iter().any(|chain| chain.base.is_some()))
}

/// Whether packets meet the same chains by two generations, which may have other elements.
fn has_same_chains(a: &Generation, b: &Generation) -> bool {
    let same = |(a, b): (&Arc<Table>, &Arc<Table>)| {
        let chains = a.chains.iter().zip(&b.chains);
        a.handle == b.handle
            && a.dormant == b.dormant
            && a.chains.len() == b.chains.len()
            && chains.into_iter().all(|(a, b)| Arc::ptr_eq(a, b))
    };
    a.tables.len() == b.tables.len() && a.tables.iter().zip(&b.tables).all(same)
}

/// Says that a ruleset is not in the state file yet, if it was waited for in vain.
fn in_vain(in_vain: bool) {
    if in_vain {
        log("the state file is not written yet, and the ruleset is in force");
    }
}

/// Keeps others from committing anything.
pub(crate) type Alone<'r> = MutexGuard<'r, ()>;

/// Changes to commit.
#[derive(Debug)]
pub(crate) struct Submission {
    /// The ruleset that they are made from.
    pub(crate) ruleset: Ruleset,
    pub(crate) transaction: Transaction,
    /// When, in nanoseconds since the epoch.
    now: u64,
    /// As they were received.
    pub(crate) changes: Vec<u8>,
    begun: Instant,
}

impl Submission {
    /// None yet, of a ruleset as it is.
    pub(crate) fn begin(ruleset: Ruleset, at: u64) -> Self {
        let transaction = ruleset.begin_at(at);
        Submission { ruleset, transaction, now: at, changes: Vec::new(), begun: Instant::now() }
    }
}

/// What a submission has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InForce {
    /// The generation in force: the one before if nothing is other than before.
    pub(crate) generation: u32,
    /// [`Ruleset::marks`] of it.
    pub(crate) marks: u64,
    /// The number of the change that waits for its confirmation.
    pub(crate) waits: Option<u32>,
}

/// Those who watch changes.
#[derive(Debug, Default)]
pub(crate) struct ChangeWatchers {
    to: Mutex<Vec<std::sync::mpsc::SyncSender<Update>>>,
}

impl ChangeWatchers {
    pub(crate) fn subscribe(&self) -> std::sync::mpsc::Receiver<Update> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(256);
        self.to.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    fn say(&self, change: &Update) {
        // A watcher that is 256 changes late is dropped: it finds its channel closed.
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        to.retain(|to| to.try_send(change.clone()).is_ok());
    }
}

impl Rules {
    pub(crate) fn new(
        workers: Arc<Workers>,
        offload: Arc<Offload>,
        attached: Option<Arc<Attached>>,
    ) -> Self {
        Rules {
            commits: Mutex::default(),
            inner: Mutex::default(),
            workers,
            offload,
            attached,
            changes: Arc::default(),
            traces: Arc::default(),
            names: OnceLock::new(),
            lookups: OnceLock::new(),
            on_disk: OnDisk::default(),
        }
    }

    /// What the kernel runs, if it is the kernel that runs the ruleset.
    pub(crate) fn attached(&self) -> Option<&Arc<Attached>> {
        self.attached.as_ref()
    }

    /// States have what devices and the kernel have counted.
    fn collect(&self) {
        self.offload.collect();
        if let Some(attached) = &self.attached {
            attached.collect();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The generation in force.
    pub(crate) fn generation(&self) -> Arc<Generation> {
        self.lock().ruleset.generation()
    }

    /// The ruleset for a later dataplane: without a change that still waits for confirmation, which
    /// could not be confirmed then.
    pub(crate) fn confirmed_ruleset(&self) -> Ruleset {
        self.collect();
        let inner = self.lock();
        let mut ruleset = inner.ruleset.clone();
        if let Some(waits) = &inner.unconfirmed {
            ruleset.restore(&waits.before);
        }
        ruleset
    }

    /// Number of the last generation that does not wait for its confirmation.
    pub(crate) fn confirmed(&self) -> u32 {
        let inner = self.lock();
        inner.unconfirmed.as_ref().map_or(inner.ruleset.generation().id, |waits| waits.before.id)
    }

    /// Says that a change which waits for its confirmation ends with the dataplane.
    pub(crate) fn end(&self) {
        if let Some(waits) = &self.lock().unconfirmed {
            log(format_args!(
                "NOT CONFIRMED: generation {} ends with the dataplane, and is not kept",
                waits.id
            ));
        }
    }

    /// The change that waits for its confirmation: its generation, and how long it does.
    pub(crate) fn unconfirmed(&self) -> Option<(u32, Duration)> {
        let inner = self.lock();
        let left = |waits: &Unconfirmed| waits.deadline.saturating_duration_since(Instant::now());
        inner.unconfirmed.as_ref().map(|waits| (waits.id, left(waits)))
    }

    /// Goes on from a ruleset, in place of the one that is there. The error is a sentence.
    pub(crate) fn resume(&self, ruleset: Ruleset) -> Result<(), String> {
        let mut inner = self.lock();
        inner.ruleset = ruleset;
        inner.history = History::default();
        self.again(&mut inner)
    }

    /// How long the last change took.
    pub(crate) fn took(&self) -> Took {
        self.lock().last
    }

    /// What came after a generation, for a copy of the ruleset that has come so far. With a number
    /// or marks that the ruleset has not had lately it is all of it.
    pub(crate) fn since(&self, generation: u32, marks: u64) -> Vec<Update> {
        let inner = self.lock();
        if let Some(updates) = inner.history.since(generation, marks, &inner.ruleset) {
            return updates;
        }
        let ruleset = inner.ruleset.clone();
        // Dropping it may take long.
        drop(inner);
        let (after, marks) = (ruleset.generation().id, ruleset.marks());
        vec![Update::Whole { bytes: ruleset.save(now()), after, marks }]
    }

    /// The evaluator has the latest changes: they are kept only for those who come from a little
    /// before.
    pub(crate) fn forget_changes(&self) {
        self.lock().history.trim();
    }

    /// The ruleset with what packets have changed: [`Ruleset::save`]. What is named is set to zero
    /// after that.
    pub(crate) fn whole(&self, resets: &[Reset]) -> Vec<u8> {
        self.collect();
        let ruleset = self.lock().ruleset.clone();
        let saved = ruleset.save_and_reset(now(), resets);
        self.tell_resets(resets);
        saved
    }

    /// [`Rules::whole`] of what is named: [`Ruleset::save_part`].
    pub(crate) fn part(&self, named: &[Reset], resets: &[Reset]) -> Vec<u8> {
        self.collect();
        let ruleset = self.lock().ruleset.clone();
        let saved = ruleset.save_part(now(), named, resets);
        self.tell_resets(resets);
        saved
    }

    /// What the kernel runs begins anew where states were reset.
    fn tell_resets(&self, resets: &[Reset]) {
        if !resets.is_empty() {
            self.collect();
        }
    }

    /// Carries out a request for sets of ipset.
    ///
    /// # Errors
    /// Those of [`Ruleset::ask_ip_sets`].
    pub(crate) fn ask_ip_sets(
        &self,
        request: &penstock_ipset::Request,
    ) -> Result<penstock_ipset::Reply, penstock_ipset::Refused> {
        if request.asks_for_references() {
            // No rule comes to refer to what goes.
            return self.lock().ruleset.ask_ip_sets(request, now());
        }
        let ruleset = self.lock().ruleset.clone();
        ruleset.ask_ip_sets(request, now())
    }

    /// Keeps others from committing anything, as long as it is held.
    pub(crate) fn alone(&self) -> Alone<'_> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction on the ruleset as it is.
    pub(crate) fn begin(&self, at: u64) -> Submission {
        self.collect();
        let ruleset = self.lock().ruleset.clone();
        Submission::begin(ruleset, at)
    }

    /// Checks changes, and puts them in force. With `confirm` they are rolled back unless
    /// [`Rules::confirm`] is called in that time; until then no other change is accepted. `alone`
    /// means that no other commit can have happened since they began. The first ruleset that
    /// packets meet is in the state file when it returns.
    pub(crate) fn submit(
        &self,
        submission: Submission,
        process: &Process,
        (check, alone): (bool, bool),
        confirm: Option<Duration>,
    ) -> Result<InForce, Refused> {
        let in_force = self.put(submission, process, (check, alone), confirm)?;
        if !check && confirm.is_none() && has_base_chain(&self.generation()) {
            in_vain(self.on_disk.wait_for_first());
        }
        Ok(in_force)
    }

    /// [`Rules::submit`] without the state file.
    fn put(
        &self,
        submission: Submission,
        process: &Process,
        (check, alone): (bool, bool),
        confirm: Option<Duration>,
    ) -> Result<InForce, Refused> {
        let Submission { mut ruleset, mut transaction, now, changes, begun } = submission;
        let as_before =
            InForce { generation: ruleset.generation().id, marks: ruleset.marks(), waits: None };
        if !transaction.is_changed() {
            return Ok(as_before);
        }
        if let Some(wrong) = transaction.validate().err().and_then(|all| all.first().copied()) {
            return Err(Refused::Change(wrong.change, Error::new(wrong.errno, Blame::Whole)));
        }
        transaction.settle();
        let before = ruleset.generation();
        let evaluated = Instant::now();
        let _others = (!alone && !check).then(|| self.alone());
        let mut inner = self.lock();
        if !check && inner.unconfirmed.is_some() {
            return Err(Refused::Other(not_now::WAITS.into()));
        }
        if !check && inner.ruleset.generation().id != before.id {
            return Err(Refused::Overtaken);
        }
        let linked = inner.link(transaction.working()).map_err(|e| Refused::Link(e.to_string()))?;
        match &self.attached {
            // It refuses what it cannot run when it is to. But what a batch does to sets that
            // packets change cannot be taken back.
            Some(attached) if check || linked.provisional => {
                attached.can_run(&linked, &transaction.working().tables)?
            }
            Some(_) => {}
            None => {
                self.can_offload(&linked.flowtables).map_err(Refused::Offload)?;
                self.offload.can_run(&linked).map_err(Refused::Offload)?;
            }
        }
        if check {
            return Ok(as_before);
        }
        ruleset.commit(transaction).map_err(|_| Refused::Overtaken)?;
        let after = ruleset.generation();
        let held = std::mem::replace(&mut inner.ruleset, ruleset);
        if let Err(e) = self.put_in_force(&mut inner, linked) {
            inner.ruleset = held;
            return Err(e);
        }
        inner.last = Took { evaluation: evaluated - begun, commit: evaluated.elapsed() };
        let update = Update::Commit(Commit {
            before: before.id,
            now,
            changes: changes.into(),
            after: after.id,
            marks: inner.ruleset.marks(),
            unconfirmed: confirm.is_some(),
            by: process.clone(),
        });
        let (generation, marks) = update.leads_to();
        inner.history.push(update.clone());
        self.changes.say(&update);
        let waits = confirm.map(|time| {
            log(format_args!(
                "generation {} by process {} ({}) is taken back in {} s unless it is confirmed",
                after.id,
                process.0,
                process.1,
                time.as_secs()
            ));
            inner.unconfirmed =
                Some(Unconfirmed { before, id: after.id, deadline: Instant::now() + time });
            after.id
        });
        Ok(InForce { generation, marks, waits })
    }

    /// Whether devices can forward the flows of flowtables with offload.
    fn can_offload(&self, flowtables: &[LinkedFlowtable]) -> Result<(), CannotOffload> {
        if !flowtables.iter().any(LinkedFlowtable::is_for_devices) {
            return Ok(());
        }
        // All workers would answer the same. Without an answer the change is refused when it takes
        // effect.
        let answer =
            self.workers.ask_one(0, |to| Request::CanOffload(flowtables.to_vec(), to), PATIENCE);
        answer.unwrap_or(Ok(()))
    }

    /// Gives the generation to the workers and waits until packets of all meet it. `linked` is what
    /// was linked before its commit.
    fn put_in_force(&self, inner: &mut Inner, mut linked: Linked) -> Result<(), Refused> {
        let generation = inner.ruleset.generation();
        if linked.provisional {
            linked = inner.link(&generation).map_err(|e| Refused::Link(e.to_string()))?;
        }
        linked.generation = generation.id;
        let linked = Arc::new(linked);
        let running = match &self.attached {
            Some(attached) => {
                attached.prepare(&linked, &generation.tables)?;
                Vec::new()
            }
            None => self.offload.prepare(&linked).map_err(Refused::Other)?,
        };
        let request = |done| Request::Rules(linked.clone(), running.clone(), done);
        if self.workers.ask(request, PATIENCE).is_none() {
            self.go_back_to(&inner.linked);
            return Err(Refused::Other(format!(
                "{}: generation {} stays in force",
                not_now::NO_WORKER,
                inner.linked.generation
            )));
        }
        if let Some(attached) = &self.attached
            && let Err(e) = attached.commit()
        {
            self.go_back_to(&inner.linked);
            return Err(e.into());
        }
        self.settle(&linked);
        let gone = std::mem::replace(&mut inner.linked, linked.clone());
        // Without the thread long chains are walked.
        let _ = self.lookups.get_or_init(begin_lookups).send((linked, gone));
        if self.traces.is_heard() {
            self.trace(&generation);
        }
        Ok(())
    }

    /// Some workers have taken up a generation, and one that did not answer will: all go back to
    /// the one before.
    fn go_back_to(&self, linked: &Arc<Linked>) {
        let running = match &self.attached {
            Some(attached) => {
                attached.forget();
                Vec::new()
            }
            None => self.offload.prepare(linked).unwrap_or_else(|e| {
                log(format_args!("devices run no chains: {e}"));
                Vec::new()
            }),
        };
        // No wait is needed: it follows the other request in each inbox.
        let (done, _) = channel();
        self.workers.tell(|| Request::Rules(linked.clone(), running.clone(), done.clone()));
        self.settle(linked);
    }

    /// Devices run the chains of a generation that is in force, and workers no longer; or the kernel
    /// runs all of them.
    fn settle(&self, linked: &Arc<Linked>) {
        if let Some(attached) = &self.attached {
            attached.settle(linked);
        } else if let Some(running) = self.offload.settle(linked) {
            let barrier = Barrier::of(self.workers.count());
            self.workers.tell(|| Request::Offloaded(running.clone(), barrier.clone()));
        }
    }

    /// A number that no other capture has.
    pub(crate) fn next_probe(&self) -> u32 {
        let mut inner = self.lock();
        inner.next_probe = inner.next_probe.wrapping_add(1);
        inner.next_probe
    }

    /// Puts the table of a capture in force. The error is for the user.
    pub(crate) fn begin_probe(&self, table: Arc<Table>) -> Result<(), String> {
        let mut inner = self.lock();
        inner.probes.push(table);
        self.again(&mut inner).inspect_err(|_| {
            inner.probes.pop();
        })
    }

    /// Takes the table of a capture away, if it has one.
    pub(crate) fn end_probe(&self, number: u32) {
        let mut inner = self.lock();
        let before = inner.probes.len();
        inner.probes.retain(|table| number_of(&table.name) != Some(number));
        if inner.probes.len() != before
            && let Err(e) = self.again(&mut inner)
        {
            log(format_args!("a capture cannot be ended: {}", e.trim_end()));
        }
    }

    /// Puts the generation in force once more, with other captures.
    fn again(&self, inner: &mut Inner) -> Result<(), String> {
        let linked = inner.link(&inner.ruleset.generation());
        linked
            .map_err(|e| Refused::Link(e.to_string()))
            .and_then(|linked| self.put_in_force(inner, linked))
            .map_err(|e| format!("Error: {e}\n"))
    }

    fn trace(&self, generation: &Generation) {
        // All that takes time or files is done here, not by the threads that print.
        let names = self.names.get_or_init(|| Arc::new(SystemNames::loaded())).clone();
        let tracer = Arc::new(SystemTracer::new(generation, names, Format::default(), now()));
        self.workers.tell(|| Request::Trace(Some((tracer.clone(), self.traces.clone()))));
    }

    /// Begins to tell of traces.
    pub(crate) fn watch_traces(&self) -> Heard {
        let receiver = self.traces.subscribe();
        self.trace(&self.generation());
        if let Some(attached) = &self.attached {
            attached.listen_to_traces(true);
        }
        receiver
    }

    /// Confirms a change, which is in the state file then if it is one of rules: that of elements is
    /// soon, since a file of a large set takes longer than the change. With a number only that one;
    /// `false` if it does not wait (or no longer).
    pub(crate) fn confirm(&self, id: Option<u32>) -> bool {
        let mut inner = self.lock();
        let Some(waits) = inner.unconfirmed.take_if(|waits| id.is_none_or(|id| id == waits.id))
        else {
            return false;
        };
        log(format_args!("generation {} is confirmed", waits.id));
        inner.confirmed = Some(waits.id);
        let of_elements = has_same_chains(&waits.before, &inner.ruleset.generation());
        drop(inner);
        if !of_elements {
            in_vain(self.on_disk.wait());
        }
        true
    }

    /// Whether a change waits for its confirmation.
    pub(crate) fn waits(&self, id: u32) -> bool {
        self.lock().unconfirmed.as_ref().is_some_and(|waits| waits.id == id)
    }

    /// Whether the change is the last one that was confirmed.
    pub(crate) fn is_confirmed(&self, id: u32) -> bool {
        self.lock().confirmed == Some(id)
    }

    /// Takes a change back now. With a number only that one.
    pub(crate) fn take_back(&self, id: u32) {
        let mut inner = self.lock();
        if let Some(waits) = inner.unconfirmed.take_if(|waits| waits.id == id) {
            self.restore(&mut inner, &waits);
        }
    }

    /// Rolls back a change that was not confirmed in time.
    pub(crate) fn tick(&self) {
        if let Some(attached) = &self.attached {
            attached.listen_to_traces(self.traces.is_heard());
        }
        let mut inner = self.lock();
        if let Some(waits) = inner.unconfirmed.take_if(|waits| waits.deadline <= Instant::now()) {
            self.restore(&mut inner, &waits);
        }
    }

    fn restore(&self, inner: &mut Inner, waits: &Unconfirmed) {
        inner.ruleset.restore(&waits.before);
        let linked = inner.link(&inner.ruleset.generation());
        let linked = linked.map_err(|e| Refused::Link(e.to_string()));
        match linked.and_then(|linked| self.put_in_force(inner, linked)) {
            Ok(()) => log(format_args!(
                "NOT CONFIRMED: generation {} is taken back; {} is as before it",
                waits.id,
                inner.ruleset.generation().id
            )),
            Err(e) => log(format_args!(
                "NOT CONFIRMED: generation {} cannot be taken back: {e}",
                waits.id
            )),
        }
        let by = (std::process::id(), "penstock".to_owned());
        let (after, marks) = (inner.ruleset.generation().id, inner.ruleset.marks());
        let update = Update::Restore { after, marks, by };
        inner.history.push(update.clone());
        self.changes.say(&update);
    }
}
