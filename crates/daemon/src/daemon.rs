// SPDX-License-Identifier: Apache-2.0

//! Start and end: takes devices and starts threads; signals and clients end it, and devices are
//! returned.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_io::device::Tap;
use penstock_netlink::{Socket, State};
use penstock_program::cells::WORKERS;
use penstock_state::State as Kept;

use crate::clock;
use crate::config::{Config, KeepState, PortConfig};
use crate::control::{Listeners, RUNS_ALREADY, is_served, listen, remove_sockets};
use crate::devices::on_death;
use crate::devices::record::{self, Recorder, When};
use crate::devices::takeover::{Taken, give_back, prepare};
use crate::evaluator::{self, Evaluator};
use crate::guardian::Guardian;
use crate::guardian::heartbeat::Heartbeat;
use crate::keep::{Keeper, Keeping};
use crate::namespace_lock::NamespaceLock;
use crate::offload::{Leftovers, Offload};
use crate::queue_server;
use crate::recovery::give_back_left;
use crate::requests::inbox::Inbox;
use crate::requests::workers::{Workers, parts};
use crate::requests::{Request, SyncRequest};
use crate::rules::Rules;
use crate::seccomp::{self, Thread};
use crate::server::{Server, Serving, metrics};
use crate::signals::Signals;
use crate::start::{Start, Started};
use crate::systemd::{Watchdog, notify};
use crate::{log, memory, preflight, rights};

/// A dataplane that runs.
pub struct Daemon {
    guardian: Guardian,
    taken: Vec<Taken>,
    workers: Arc<Workers>,
    working: Vec<JoinHandle<()>>,
    sync: Arc<Inbox<SyncRequest>>,
    following: JoinHandle<Vec<Taken>>,
    rules: Arc<Rules>,
    offload: Arc<Offload>,
    config: Arc<Config>,
    evaluator: Arc<Evaluator>,
}

/// Runs until a signal or a client ends it. The error is a sentence for the user; then everything
/// is as before.
pub fn run(config: Config) -> Result<(), String> {
    clock::begin();
    memory::set_up();
    let signals = Signals::block();
    config.seccomp.into_iter().for_each(seccomp::want);
    rights::lift_descriptor_limit();
    // It forks while this process is small and alone.
    let evaluator =
        Evaluator::start(&config).map_err(|e| format!("the evaluator of rule texts: {e}"))?;
    let (kept, broken) = config.state.as_ref().map_or(Ok((None, None)), KeepState::read)?;
    preflight::check(&config, &evaluator, kept.is_some())?;
    let mut socket = Socket::new().map_err(|e| format!("netlink: {e}"))?;
    // Before waiting for one that has died: there may be one that lives.
    if is_served() {
        return Err(RUNS_ALREADY.into());
    }
    let lock = NamespaceLock::wait()?;
    // One that has died had the address until here.
    let metrics = config.metrics.map(metrics::listen).transpose()?;
    give_back_left(&mut socket)?;
    if let (Some(state), Some(broken)) = (&config.state, &broken) {
        state.set_aside(broken)?;
    }
    let mut leftovers = Leftovers::find();
    let workers = match config.workers {
        Some(workers) => workers,
        None => workers_for(&mut socket, &config.ports)?,
    };
    let (taken, taps) = prepare_ports(&mut socket, &config.ports, kept.as_ref(), workers)?;
    let guardian = Guardian::start(&taken, &taps, &config.on_death, metrics.as_ref());
    let guardian = guardian.map_err(|e| format!("the guardian: {e}"))?;
    // Devices that were not closed before.
    let mut closed = Vec::new();
    // What the guardian does not hold may be opened from here on, and threads be started.
    let started = listen(config.readers).and_then(|listeners| {
        let mut recorder = Recorder::new(config.on_death.clone());
        let state = State::read(&mut socket).map_err(|e| format!("the kernel's network: {e}"))?;
        recorder.write(&mut socket, &state, &taken, When::Before);
        let guardian = guardian.handle().map_err(|e| format!("the guardian: {e}"));
        let started = guardian.and_then(|guardian| {
            let (taken, leftovers, closed) = (&taken, &mut leftovers, &mut closed);
            let count = workers;
            let start = Start { config, taken, taps, guardian, recorder, leftovers, closed, count };
            start.start(&mut socket)
        });
        let started = started.map(|started| (listeners, started));
        if started.is_err() {
            give_all_back(&mut socket, &taken);
            on_death::open(&mut socket, std::mem::take(&mut closed));
        }
        started
    });
    let (listeners, started) = match started {
        Ok(started) => started,
        Err(e) => {
            guardian.dismiss();
            remove_sockets();
            lock.end();
            return Err(e);
        }
    };
    let evaluator = Arc::new(evaluator);
    let Started { config, workers, working, sync, following, rules, offload } = started;
    let daemon = Daemon {
        guardian,
        taken,
        workers,
        working,
        sync,
        following,
        rules,
        offload,
        config,
        evaluator,
    };
    let begun =
        daemon.begin(kept, &leftovers).and_then(|()| Ok((daemon.keep()?, daemon.heartbeat()?)));
    let (keeping, heartbeat) = match begun {
        Ok(begun) => begun,
        Err(e) => {
            daemon.stop(&mut socket, Some(closed));
            remove_sockets();
            lock.end();
            return Err(e);
        }
    };
    on_death::settle(&mut socket, &daemon.taken, &daemon.config.on_death);
    let mut serving = None;
    let result = daemon.serve(listeners, &mut serving, metrics, &signals);
    daemon.rules.end();
    keeping.into_iter().for_each(Keeping::end);
    if result.is_err() && daemon.config.on_death.closes() {
        // It has failed, as if it had died: the guardian acts once this process is gone.
        return result;
    }
    heartbeat.into_iter().for_each(Heartbeat::end);
    daemon.stop(&mut socket, None);
    // The client that asked for the end learns of it now, and can start another dataplane.
    serving.into_iter().for_each(Serving::end);
    remove_sockets();
    lock.end();
    result
}

/// Prepares the devices of ports, with the indexes that they had in the kept state.
fn prepare_ports(
    socket: &mut Socket,
    ports: &[PortConfig],
    kept: Option<&Kept>,
    workers: usize,
) -> Result<(Vec<Taken>, Vec<Tap>), String> {
    let prepared = ports.iter().map(|port| {
        let index = kept.and_then(|kept| kept.index_of(&port.name));
        prepare(socket, port, index, workers > 1)
    });
    prepared.collect()
}

fn give_all_back(socket: &mut Socket, taken: &[Taken]) {
    for taken in taken {
        if let Err(e) = give_back(socket, taken) {
            log(e);
        }
    }
    record::remove();
}

/// The largest useful number of workers: that of processors, and of queues of some device.
fn workers_for(socket: &mut Socket, ports: &[PortConfig]) -> Result<usize, String> {
    let state = State::read(socket).map_err(|e| format!("the kernel's network: {e}"))?;
    let queues =
        ports.iter().filter_map(|port| Some(state.device(&port.device)?.queues as usize)).max();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(queues.unwrap_or(1).clamp(1, processors.min(WORKERS)))
}

impl Daemon {
    /// Indexes and names of the TAPs.
    fn links(&self) -> Vec<(u32, String)> {
        self.taken.iter().map(|taken| (taken.tap, taken.name.clone())).collect()
    }

    /// Loads ruleset and connections, then starts to receive frames: nothing passes before.
    fn begin(&self, kept: Option<Kept>, leftovers: &Leftovers) -> Result<(), String> {
        let adopt = |connections: &mut String| {
            let adopted = leftovers.adopt(connections, penstock_bpf::monotonic());
            if leftovers.any() {
                log(format_args!(
                    "{adopted} flows that an earlier dataplane has left in devices are connections"
                ));
            }
            adopted
        };
        match kept {
            Some(mut kept) => {
                adopt(&mut kept.connections);
                self.resume(kept)?;
            }
            None => {
                let mut connections = String::new();
                if adopt(&mut connections) > 0 {
                    self.load_connections(connections)?;
                }
                self.load_rules()?;
            }
        }
        self.offload.refresh();
        self.workers.tell(|| Request::Begin);
        Ok(())
    }

    /// Connections of a dump continue.
    fn load_connections(&self, connections: String) -> Result<(), String> {
        /// How long many connections may take.
        const PATIENCE: Duration = Duration::from_secs(60);
        if connections.is_empty() {
            return Ok(());
        }
        let mut loaded: Result<usize, String> = Ok(0);
        for (worker, part) in parts(&connections, self.workers.count()).into_iter().enumerate() {
            let part = self.workers.ask_one(worker, |to| Request::Load(part, to), PATIENCE);
            let part = part.ok_or("the dataplane does not answer")?;
            loaded = loaded.and_then(|all| Ok(all + part?));
        }
        match loaded {
            Ok(connections) => log(format_args!("{connections} connections go on")),
            Err(e) => log(format_args!("not all connections go on: {e}")),
        }
        Ok(())
    }

    /// Goes on where an earlier dataplane has ended.
    fn resume(&self, mut kept: Kept) -> Result<(), String> {
        for (index, name) in self.links() {
            if let Some(before) = kept.index_of(&name).filter(|before| *before != index) {
                log(format_args!(
                    "{name} had index {before}, which another device has now: rules that name it by `iif` or `oif` match \
                     that one"
                ));
                let (old, new) = (format!(" masq={before} "), format!(" masq={index} "));
                kept.connections = kept.connections.replace(&old, &new);
            }
        }
        self.load_connections(kept.connections)?;
        let mut ruleset = kept.ruleset;
        // Sockets of owners were closed when the dataplane before this one ended.
        ruleset.close_owners();
        self.rules.resume(ruleset).map_err(|e| format!("the saved ruleset: {e}"))
    }

    /// Begins to save the state, if that is configured.
    fn keep(&self) -> Result<Option<Keeping>, String> {
        let Some(state) = &self.config.state else { return Ok(None) };
        let (rules, workers) = (self.rules.clone(), self.workers.clone());
        let keeper = Keeper { path: state.path.clone(), links: self.links(), rules, workers };
        Keeping::begin(keeper).map(Some).map_err(|e| format!("a thread: {e}"))
    }

    /// Begins to tell the guardian that packets are done, if it is to know.
    fn heartbeat(&self) -> Result<Option<Heartbeat>, String> {
        let patience = self.config.hang_time;
        if patience.is_zero() {
            return Ok(None);
        }
        let guardian = self.guardian.handle().map_err(|e| format!("the guardian: {e}"))?;
        let heartbeat = Heartbeat::begin(self.workers.clone(), guardian, patience);
        heartbeat.map(Some).map_err(|e| format!("a thread: {e}"))
    }

    /// Loads the ruleset's file, as `nft -f` does.
    fn load_rules(&self) -> Result<(), String> {
        let Some(path) = &self.config.rules else { return Ok(()) };
        evaluator::load(&self.evaluator, &self.rules, &self.config, path)
    }

    fn serve(
        &self,
        listeners: Listeners,
        serving: &mut Option<Serving>,
        metrics: Option<TcpListener>,
        signals: &Signals,
    ) -> Result<(), String> {
        /// How soon events other than signals are noticed.
        const PULSE: Duration = Duration::from_millis(100);
        /// How soon it is noticed what devices can do.
        const LOOK: Duration = Duration::from_secs(1);
        let failed = |e: io::Error| format!("a thread: {e}");
        let (to, ended) = channel();
        let end = Box::new(move || {
            let _ = to.send(());
        });
        let server = Server::new(
            self.rules.clone(),
            self.workers.clone(),
            self.offload.clone(),
            self.config.clone(),
            self.evaluator.clone(),
            end,
        );
        let for_metrics = server.clone();
        *serving = Some(Serving::begin(&server, listeners).map_err(failed)?);
        if let Some(listener) = metrics {
            let thread = std::thread::Builder::new().name("metrics".into());
            let serve = move || {
                seccomp::enter(Thread::Metrics);
                metrics::serve(&listener, &for_metrics);
            };
            thread.spawn(serve).map_err(failed)?;
        }
        for queue in self.config.queues.clone() {
            let (thread, workers) =
                (std::thread::Builder::new().name("queue".into()), self.workers.clone());
            thread.spawn(move || queue_server::serve(&queue, &workers)).map_err(failed)?;
        }
        notify("READY=1\nSTATUS=running");
        log("running");
        let watchdog = Watchdog::from_environment();
        let mut fed = Instant::now();
        let mut looked = Instant::now();
        loop {
            match signals.wait(PULSE) {
                Some(libc::SIGTERM | libc::SIGINT) => return Ok(()),
                Some(libc::SIGHUP) => {
                    notify("RELOADING=1");
                    let outcome = match self.load_rules() {
                        Ok(()) if self.config.rules.is_none() => {
                            "without --rules there is no ruleset to be read again".to_owned()
                        }
                        Ok(()) => format!("generation {} is in force", self.rules.generation().id),
                        Err(e) => format!("the ruleset stays as it is: {e}"),
                    };
                    log(&outcome);
                    let status = outcome.lines().take(2).collect::<Vec<_>>().join(" ");
                    notify(&format!("READY=1\nSTATUS={status}"));
                }
                Some(libc::SIGCHLD) if self.guardian.is_gone() => {
                    log(
                        "the guardian has died: should this process be killed, `penstock down` gives the devices back",
                    );
                }
                _ => {}
            }
            if ended.try_recv().is_ok() {
                return Ok(());
            }
            self.rules.tick();
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.offload.refresh();
            }
            if self.working.iter().any(JoinHandle::is_finished) || self.following.is_finished() {
                return Err("a part of the dataplane has ended".into());
            }
            if let Some(period) = watchdog.0
                && fed.elapsed() >= period
            {
                fed = Instant::now();
                if self.workers.ask(Request::Status, period).is_some() {
                    notify("WATCHDOG=1");
                }
            }
        }
    }

    /// Gives everything back. Opens devices that are closed: these, or all.
    fn stop(self, socket: &mut Socket, closed: Option<Vec<u32>>) {
        /// How long that may take, with many routes.
        const PATIENCE: Duration = Duration::from_secs(120);
        notify("STOPPING=1");
        if let Ok(mut guardian) = self.guardian.handle()
            && !self.config.hang_time.is_zero()
        {
            guardian.beat(PATIENCE.max(self.config.hang_time));
        }
        self.sync.send(SyncRequest::Stop);
        self.workers.tell(|| Request::Stop);
        // Devices may have been removed and recreated since. A panicked thread has logged that.
        let taken = self.following.join().unwrap_or(self.taken);
        self.offload.end();
        // If it is killed here, the next dataplane needs this record.
        match State::read(socket) {
            Ok(state) => {
                Recorder::new(self.config.on_death.clone()).write(
                    socket,
                    &state,
                    &taken,
                    When::Ending,
                );
            }
            Err(e) => log(format_args!("what is taken cannot be written down: {e}")),
        }
        give_all_back(socket, &taken);
        if self.config.on_death.closes() {
            on_death::open(
                socket,
                closed.unwrap_or_else(|| taken.iter().map(|t| t.device).collect()),
            );
        }
        self.working.into_iter().for_each(|thread| drop(thread.join()));
        self.guardian.dismiss();
        let devices = if taken.len() == 1 { "its device is" } else { "its devices are" };
        log(format_args!("ended; {devices} returned"));
    }
}
