// SPDX-License-Identifier: Apache-2.0

//! Start and end: takes devices and starts threads; signals and clients end it, and devices are
//! returned.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_io::device::Tap;
use penstock_net::DevconfSysctls;
use penstock_netlink::{Socket, State};
use penstock_program::cells::WORKERS;
use penstock_state::State as Kept;

use crate::attach;
use crate::clock;
use crate::config::{AttachConfig, Config, KeepState, PortConfig, PortWishes, RuleLog};
use crate::control::{Listeners, RUNS_ALREADY, is_served, listen, remove_sockets};
use crate::devices::on_death;
use crate::devices::record::{self, Recorder, When};
use crate::devices::taken_ports::TakenPorts;
use crate::devices::takeover::{Taken, give_back, prepare};
use crate::evaluator::{self, Evaluator};
use crate::failover::Opened;
use crate::guardian::Guardian;
use crate::host_sysctls::{self, Given};
use crate::keep::{Keeper, Keeping};
use crate::kernel_rules;
use crate::lines::Lines;
use crate::namespace_lock::NamespaceLock;
use crate::offload::{Leftovers, Offload};
use crate::recovery::give_back_left;
use crate::requests::inbox::Inbox;
use crate::requests::workers::{Workers, parts};
use crate::requests::{PortRequest, Request, SyncRequest};
use crate::rules::Rules;
use crate::seccomp;
use crate::server::{PortCalls, Server, metrics};
use crate::services::Services;
use crate::signals::Signals;
use crate::start::{Start, Started};
use crate::systemd::{Watchdog, notify};
use crate::{log, memory, preflight, rights};

/// A dataplane that runs.
pub struct Daemon {
    guardian: Guardian,
    ports: Arc<TakenPorts>,
    workers: Arc<Workers>,
    working: Vec<JoinHandle<()>>,
    sync: Arc<Inbox<SyncRequest>>,
    following: JoinHandle<Vec<Taken>>,
    rules: Arc<Rules>,
    offload: Arc<Offload>,
    config: Arc<Config>,
    evaluator: Arc<Evaluator>,
    lines: Lines,
    /// What SIGHUP may change.
    current: Mutex<Current>,
}

/// What SIGHUP may change, as it is now.
struct Current {
    /// The ruleset's file.
    rules: Option<PathBuf>,
    ports: PortWishes,
    rule_log: RuleLog,
    sysctls: Given,
    devconf: DevconfSysctls,
    /// All settings, as they were given.
    texts: Vec<(&'static str, String)>,
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
    let counts = kept.as_ref().filter(|_| !config.rules_first).map(|kept| &kept.ruleset);
    preflight::check(&config, &evaluator, counts)?;
    let mut socket = Socket::new().map_err(|e| format!("netlink: {e}"))?;
    // Before waiting for one that has died: there may be one that lives.
    if is_served() {
        return Err(RUNS_ALREADY.into());
    }
    let lock = NamespaceLock::wait()?;
    // One that has died had the address until here.
    let metrics = config.metrics.map(metrics::listen).transpose()?;
    if config.attach.is_none() && attach::is_left() {
        return Err("a ruleset is attached to this kernel: `penstock detach` takes it away".into());
    }
    give_back_left(&mut socket)?;
    if let (Some(state), Some(broken)) = (&config.state, &broken) {
        state.set_aside(broken)?;
    }
    let mut leftovers = match config.attach {
        Some(_) => Leftovers::default(),
        None => Leftovers::find(),
    };
    let workers = match config.workers {
        Some(workers) => workers,
        None => workers_for(&mut socket, &config.ports.named)?,
    };
    let (taken, taps) = prepare_ports(&mut socket, &config.ports.named, kept.as_ref())?;
    let kept_links = kept.as_ref().map(|kept| kept.links.clone()).unwrap_or_default();
    let ports = Arc::new(TakenPorts::default());
    let guardian = Guardian::start(&taken, &taps, &config.on_death, metrics.as_ref());
    let guardian = guardian.map_err(|e| format!("the guardian: {e}"))?;
    // Devices that were not closed before.
    let mut closed = Vec::new();
    // What the guardian does not hold may be opened from here on, and threads be started.
    let started = listen(config.readers).and_then(|listeners| {
        let mut recorder = Recorder::new(config.on_death.clone());
        let state = State::read(&mut socket).map_err(|e| format!("the kernel's network: {e}"))?;
        let all: Vec<_> = taken.iter().map(|taken| (taken, When::Before)).collect();
        recorder.write(&mut socket, &state, &all);
        let links = config.sync.as_ref().map(Opened::open).transpose();
        let start = Start {
            config,
            taken: &taken,
            taps,
            guardian: guardian.handle(),
            recorder,
            ports: ports.clone(),
            kept_links,
            leftovers: &mut leftovers,
            closed: &mut closed,
            count: workers,
        };
        let started = links.and_then(|links| Ok((listeners, links, start.start(&mut socket)?)));
        if started.is_err() {
            give_all_back(&mut socket, &taken);
            on_death::open(&mut socket, std::mem::take(&mut closed));
        }
        started
    });
    let (listeners, links, started) = match started {
        Ok(started) => started,
        Err(e) => {
            guardian.dismiss();
            remove_sockets();
            lock.end();
            return Err(e);
        }
    };
    let evaluator = Arc::new(evaluator);
    let Started { config, workers, working, sync, following, rules, offload, lines } = started;
    let daemon = Daemon {
        guardian,
        ports,
        workers,
        working,
        sync,
        following,
        rules,
        offload,
        current: Mutex::new(Current {
            rules: config.rules.clone(),
            ports: config.ports.clone(),
            rule_log: config.rule_log.clone(),
            sysctls: config.sysctls.clone(),
            devconf: config.devconf.clone(),
            texts: config.texts.clone(),
        }),
        config,
        evaluator,
        lines,
    };
    let begun = daemon.begin(kept, &leftovers).and_then(|()| daemon.keep());
    let keeping = match begun {
        Ok(begun) => begun,
        Err(e) => {
            let hang_time = daemon.config.hang_time;
            daemon.stop(&mut socket, Some(closed), hang_time);
            remove_sockets();
            lock.end();
            return Err(e);
        }
    };
    on_death::settle(&mut socket, &daemon.ports.all(), &daemon.config.on_death);
    if !daemon.config.kernel_rules_known {
        kernel_rules::tell();
    }
    let mut services = None;
    let result = daemon.serve(listeners, &mut services, metrics, links, &signals);
    daemon.rules.end();
    keeping.into_iter().for_each(Keeping::end);
    if result.is_err() && daemon.config.on_death.closes() {
        // It has failed, as if it had died: the guardian acts once this process is gone.
        return result;
    }
    services.iter().for_each(Services::end_failover);
    services.iter_mut().for_each(Services::end_heartbeat);
    let hang_time = services.as_ref().map_or(daemon.config.hang_time, Services::hang_time);
    daemon.stop(&mut socket, None, hang_time);
    // The client that asked for the end learns of it now, and can start another dataplane.
    services.into_iter().for_each(Services::end);
    remove_sockets();
    lock.end();
    result
}

/// Prepares the devices of ports, with the indexes that they had in the kept state.
fn prepare_ports(
    socket: &mut Socket,
    ports: &[PortConfig],
    kept: Option<&Kept>,
) -> Result<(Vec<Taken>, Vec<Tap>), String> {
    let state = State::read(socket).map_err(|e| format!("the kernel's network: {e}"))?;
    let there = |port: &&PortConfig| !port.may_come_later || state.device(&port.device).is_some();
    let prepared = ports.iter().filter(there).map(|port| {
        let index = kept.and_then(|kept| kept.index_of(&port.name));
        prepare(socket, &state, port, index)
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
                self.choose_rules()?;
            }
            None => {
                let mut connections = String::new();
                if adopt(&mut connections) > 0 {
                    self.load_connections(connections)?;
                }
                self.load_rules()?;
                if let (Some(rules), Some(state)) = (&self.config.rules, &self.config.state) {
                    log(format_args!(
                        "the ruleset is that of --rules {}: {} has none yet",
                        rules.display(),
                        state.path.display()
                    ));
                }
            }
        }
        self.offload.refresh();
        self.workers.tell(|| Request::Begin);
        Ok(())
    }

    /// There is a kept ruleset: says which one counts, and loads the other one if that is to.
    fn choose_rules(&self) -> Result<(), String> {
        let (Some(rules), Some(state)) = (&self.config.rules, &self.config.state) else {
            return Ok(());
        };
        let (rules, state) = (rules.display(), state.path.display());
        if self.config.rules_first {
            self.load_rules()?;
            log(format_args!(
                "the ruleset is that of --rules {rules}: --rules-first; {state} had another"
            ));
        } else {
            log(format_args!(
                "the ruleset is that of --state {state}, and --rules {rules} is not read: SIGHUP loads it, and \
                 --rules-first lets it count at the start"
            ));
        }
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
        for (index, name) in self.ports.links() {
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
        let keeper = Keeper { path: state.path.clone(), ports: self.ports.clone(), rules, workers };
        Keeping::begin(keeper).map(Some).map_err(|e| format!("a thread: {e}"))
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the ruleset's file, as `nft -f` does.
    fn load_rules(&self) -> Result<(), String> {
        let Some(path) = self.current().rules.clone() else { return Ok(()) };
        let loaded = evaluator::load(&self.evaluator, &self.rules, &self.config, &path);
        let whole = |attach: &AttachConfig| !attach.partial && !attach.with_kernel;
        let whole = self.config.attach.as_ref().is_some_and(whole);
        loaded.map_err(|e| match e.trim_end() {
            text if whole && text.contains(" cannot run chain ") => {
                format!(
                    "{text}\n(with --partial, chains that have code run without the others; with --with-kernel, the\nothers run in nf_tables)\n"
                )
            }
            _ => e,
        })
    }

    /// Reads configuration and ruleset again, at SIGHUP. Returns what came of it.
    fn reload(&self, ports: &PortCalls, services: &mut Services) -> String {
        self.lines.reopen();
        let mut said = Vec::new();
        if let Some(reread) = &self.config.reread {
            match reread() {
                Ok(config) => said.extend(self.reconfigure(config, ports, services)),
                // Nothing of a file that is wrong counts.
                Err(e) => return format!("the configuration stays as it is:\n{e}"),
            }
        }
        let rules = self.current().rules.is_some();
        said.push(match self.load_rules() {
            Ok(()) if !rules => "without --rules there is no ruleset to be read again".to_owned(),
            Ok(()) => format!("generation {} is in force", self.rules.generation().id),
            Err(e) => format!("the ruleset stays as it is: {e}"),
        });
        said.join("\n")
    }

    /// Takes changes of the configuration, and says of those that wait for the next start.
    fn reconfigure(
        &self,
        config: Config,
        ports: &PortCalls,
        services: &mut Services,
    ) -> Vec<String> {
        /// Settings that change at once, or are told of apart.
        const CHANGEABLE: [&str; 16] = [
            "allow-kernel-rules",
            "allow-read",
            "claims",
            "hang-time",
            "metrics",
            "queue",
            "ports",
            "driver",
            "rules",
            "sync",
            "sysctl",
            "rule-log",
            "rule-log-size",
            "rule-log-files",
            "batch-time",
            "batch-memory",
        ];
        self.config.batch.set(config.batch.get());
        self.config.claims.set(config.claims.get());
        let mut said = services.follow(&config);
        let kernel_rules_known = config.kernel_rules_known;
        let Config { ports: wishes, rules, rule_log, sysctls, devconf, texts, .. } = config;
        let mut now = Current { rules, ports: wishes, rule_log, sysctls, devconf, texts };
        let mut current = self.current();
        let values = |all: &[(&str, String)], name: &str| {
            all.iter().filter(|(n, _)| *n == name).map(|(_, v)| v.clone()).collect::<Vec<_>>()
        };
        let mut names: Vec<_> =
            current.texts.iter().chain(&now.texts).map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names.into_iter().filter(|name| !CHANGEABLE.contains(name)) {
            if values(&current.texts, name) != values(&now.texts, name) {
                said.push(format!("{name} changes at the next start only"));
            }
        }
        let known = |all| !values(all, "allow-kernel-rules").is_empty();
        if known(&current.texts) && !kernel_rules_known {
            kernel_rules::tell();
        }
        if current.rule_log != now.rule_log && !self.lines.move_to(now.rule_log.clone()) {
            said.push("the log of rules is busy: rule-log changes at the next SIGHUP".to_owned());
            now.rule_log.clone_from(&current.rule_log);
        }
        if (&current.sysctls, &current.devconf) != (&now.sysctls, &now.devconf) {
            let names = current.sysctls.keys().chain(now.sysctls.keys());
            let waiting = names.filter(|name| {
                host_sysctls::live(name).is_none()
                    && current.sysctls.get(*name) != now.sysctls.get(*name)
            });
            let waiting: BTreeSet<_> = waiting.collect();
            let waits = |name| format!("sysctl {name} changes at the next start only");
            said.extend(waiting.into_iter().map(waits));
            self.sync.send(SyncRequest::Sysctls(now.sysctls.clone(), now.devconf.clone()));
        }
        let wishes = (current.ports != now.ports).then(|| now.ports.clone());
        *current = now;
        drop(current);
        if let Some(wishes) = wishes {
            match ports.ask(PortRequest::Configure(wishes)) {
                Ok(text) | Err(text) => said.extend(text.lines().map(str::to_owned)),
            }
        }
        said
    }

    fn serve(
        &self,
        listeners: Listeners,
        services: &mut Option<Services>,
        metrics: Option<TcpListener>,
        links: Option<Opened>,
        signals: &Signals,
    ) -> Result<(), String> {
        /// How soon events other than signals are noticed.
        const PULSE: Duration = Duration::from_millis(100);
        /// How soon it is noticed what devices can do.
        const LOOK: Duration = Duration::from_secs(1);
        let (to, ended) = channel();
        let end = Box::new(move || {
            let _ = to.send(());
        });
        let ports = PortCalls { sync: self.sync.clone(), taken: self.ports.clone() };
        let server = Server::new(
            self.rules.clone(),
            self.workers.clone(),
            self.offload.clone(),
            self.config.clone(),
            self.evaluator.clone(),
            ports.clone(),
            end,
        );
        let begun = Services::begin(
            server,
            self.guardian.handle(),
            &self.config,
            listeners,
            metrics,
            links,
        )?;
        let services = services.insert(begun);
        notify("READY=1\nSTATUS=running");
        log("running");
        for warning in self.config.sync.iter().flat_map(|sync| &sync.warnings) {
            log(format_args!("sync: {warning}"));
        }
        let watchdog = Watchdog::from_environment();
        let mut fed = Instant::now();
        let mut looked = Instant::now();
        loop {
            match signals.wait(PULSE) {
                Some(libc::SIGTERM | libc::SIGINT) => return Ok(()),
                Some(libc::SIGHUP) => {
                    notify("RELOADING=1");
                    let outcome = self.reload(&ports, services);
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
                if let Some(attached) = self.rules.attached() {
                    attached.refresh();
                }
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

    /// Gives everything back. Opens devices that are closed: these, or all. The guardian waits for
    /// a beat for so long; zero for ever.
    fn stop(self, socket: &mut Socket, closed: Option<Vec<u32>>, hang_time: Duration) {
        /// How long that may take, with many routes.
        const PATIENCE: Duration = Duration::from_secs(120);
        notify("STOPPING=1");
        if !hang_time.is_zero() {
            self.guardian.handle().beat(PATIENCE.max(hang_time));
        }
        self.sync.send(SyncRequest::Stop);
        self.workers.tell(|| Request::Stop);
        // Devices may have been removed and recreated since. A panicked thread has logged that.
        let taken = self.following.join().unwrap_or_else(|_| self.ports.all());
        self.offload.end();
        if let Some(attached) = self.rules.attached() {
            attached.end();
        }
        // If it is killed here, the next dataplane needs this record.
        match State::read(socket) {
            Ok(state) => {
                let all: Vec<_> = taken.iter().map(|taken| (taken, When::Ending)).collect();
                Recorder::new(self.config.on_death.clone()).write(socket, &state, &all);
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
        let devices = match taken.len() {
            0 if self.config.attach.is_some() => "the kernel is as before",
            0 => "it had no devices",
            1 => "its device is returned",
            _ => "its devices are returned",
        };
        log(format_args!("ended; {devices}"));
    }
}
