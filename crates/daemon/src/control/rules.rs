//! The ruleset of the dataplane: sessions change it, the worker gets each generation, and a change that nobody confirms is
//! taken back.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_lang::session::{Outcome, Session};
use penstock_lang::source::Origin;
use penstock_ruleset::link::{CannotOffload, Linked, LinkedFlowtable};
use penstock_ruleset::{Generation, Ruleset};

use crate::control::Broadcast;
use crate::daemon::{Config, TracePrinter};
use crate::inbox::Inbox;
use crate::offload::Offload;
use crate::worker::Request;
use crate::{log, now};

/// Longest wait for the worker; it answers between two bursts.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who makes a change: process and its name.
pub(crate) type Process = (u32, String);

/// A change that is to be confirmed.
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
}

/// The ruleset, for all clients.
pub(crate) struct Rules {
    inner: Mutex<Inner>,
    worker: Arc<Inbox<Request>>,
    offload: Arc<Offload>,
    /// Who watches changes: each as text of `nft -a monitor`.
    pub(crate) changes: Arc<ChangeWatchers>,
    /// Who watches traces.
    pub(crate) traces: Arc<Broadcast>,
    tracer: fn(&Generation, u64) -> TracePrinter,
}

/// A change of the ruleset, for those who watch.
#[derive(Clone, Debug)]
pub(crate) struct Committed {
    pub(crate) before: Arc<Generation>,
    pub(crate) after: Arc<Generation>,
    pub(crate) process: Process,
}

/// Those who watch changes.
#[derive(Debug, Default)]
pub(crate) struct ChangeWatchers {
    to: Mutex<Vec<std::sync::mpsc::SyncSender<Committed>>>,
}

impl ChangeWatchers {
    pub(crate) fn subscribe(&self) -> std::sync::mpsc::Receiver<Committed> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(256);
        self.to.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        receiver
    }

    fn say(&self, change: &Committed) {
        // Whoever is 256 changes behind is let go: it finds its channel closed.
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        to.retain(|to| to.try_send(change.clone()).is_ok());
    }
}

impl Rules {
    pub(crate) fn new(worker: Arc<Inbox<Request>>, offload: Arc<Offload>, config: &Config) -> Self {
        Rules {
            inner: Mutex::default(),
            worker,
            offload,
            changes: Arc::default(),
            traces: Arc::default(),
            tracer: config.tracer,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The generation in force.
    pub(crate) fn generation(&self) -> Arc<Generation> {
        self.lock().ruleset.generation()
    }

    /// Runs a text in a session. What it changes is in force when this returns. With `confirm` the change is taken back
    /// unless [`Rules::confirm`] is called in that time; meanwhile nobody else changes anything. Gives the number of the
    /// change that waits, too.
    pub(crate) fn run(
        &self,
        session: &mut Session<'_>,
        origin: Origin,
        text: String,
        process: &Process,
        confirm: Option<Duration>,
    ) -> (Outcome, Option<u32>) {
        let mut inner = self.lock();
        let before = inner.ruleset.generation();
        let held = inner.ruleset.clone();
        let can_offload = |flowtables: &[LinkedFlowtable]| self.can_offload(flowtables);
        let outcome = session.run_for(&can_offload, origin, text, &mut inner.ruleset, now());
        let after = inner.ruleset.generation();
        if after.id == before.id {
            return (outcome, None);
        }
        if inner.unconfirmed.is_some() {
            inner.ruleset = held;
            let stderr =
                "Error: a change waits for its confirmation; confirm it, or wait until it is taken back\n";
            return (Outcome { stderr: stderr.into(), ..Outcome::default() }, None);
        }
        if let Err(e) = self.put_in_force(&mut inner) {
            inner.ruleset = held;
            return (Outcome { stderr: format!("Error: {e}\n"), ..Outcome::default() }, None);
        }
        self.changes.say(&Committed {
            before: before.clone(),
            after: after.clone(),
            process: process.clone(),
        });
        let waits = confirm.map(|time| {
            log(format_args!(
                "generation {} by process {} ({}) is taken back in {} s unless it is confirmed",
                after.id,
                process.0,
                process.1,
                time.as_secs()
            ));
            inner.unconfirmed = Some(Unconfirmed { before, id: after.id, deadline: Instant::now() + time });
            after.id
        });
        (outcome, waits)
    }

    /// Whether devices can forward the flows of flowtables that want it.
    fn can_offload(&self, flowtables: &[LinkedFlowtable]) -> Result<(), CannotOffload> {
        if !flowtables.iter().any(LinkedFlowtable::is_for_devices) {
            return Ok(());
        }
        let (to, answer) = channel();
        self.worker.send(Request::CanOffload(flowtables.to_vec(), to));
        // Without an answer the change is refused when it is to be in force.
        answer.recv_timeout(PATIENCE).unwrap_or(Ok(()))
    }

    /// Gives the generation to the worker and waits until packets meet it.
    fn put_in_force(&self, inner: &mut Inner) -> Result<(), String> {
        let generation = inner.ruleset.generation();
        let linked = inner.linked.next(&generation).map_err(|e| e.to_string())?;
        let linked = Arc::new(linked);
        self.offload.prepare(&linked)?;
        let (done, finished) = channel();
        self.worker.send(Request::Rules(linked.clone(), done));
        finished.recv_timeout(PATIENCE).map_err(|_| "the dataplane does not answer".to_owned())?;
        self.offload.settle(&linked);
        inner.linked = linked.clone();
        // Long chains are walked through until this is done.
        let _ =
            std::thread::Builder::new().name("lookups".into()).spawn(move || linked.image.build_lookups());
        if self.traces.is_heard() {
            self.trace(&generation);
        }
        Ok(())
    }

    fn trace(&self, generation: &Generation) {
        let printer = (self.tracer)(generation, now());
        self.worker.send(Request::Trace(Some((printer, self.traces.clone()))));
    }

    /// Begins to tell of traces.
    pub(crate) fn watch_traces(&self) -> std::sync::mpsc::Receiver<String> {
        let receiver = self.traces.subscribe();
        self.trace(&self.generation());
        receiver
    }

    /// Lets a change stay. With a number only that one; `false` if it does not wait (any more).
    pub(crate) fn confirm(&self, id: Option<u32>) -> bool {
        let mut inner = self.lock();
        match &inner.unconfirmed {
            Some(waits) if id.is_none_or(|id| id == waits.id) => {
                log(format_args!("generation {} is confirmed", waits.id));
                inner.confirmed = Some(waits.id);
                inner.unconfirmed = None;
                true
            }
            _ => false,
        }
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

    /// Takes back what nobody has confirmed in time.
    pub(crate) fn tick(&self) {
        let mut inner = self.lock();
        if let Some(waits) = inner.unconfirmed.take_if(|waits| waits.deadline <= Instant::now()) {
            self.restore(&mut inner, &waits);
        }
    }

    fn restore(&self, inner: &mut Inner, waits: &Unconfirmed) {
        let after = inner.ruleset.generation();
        inner.ruleset.restore(&waits.before);
        match self.put_in_force(inner) {
            Ok(()) => log(format_args!(
                "NOT CONFIRMED: generation {} is taken back; {} is as before it",
                waits.id,
                inner.ruleset.generation().id
            )),
            Err(e) => log(format_args!("NOT CONFIRMED: generation {} cannot be taken back: {e}", waits.id)),
        }
        let process = (std::process::id(), "penstock".to_owned());
        self.changes.say(&Committed { before: after, after: inner.ruleset.generation(), process });
    }
}
