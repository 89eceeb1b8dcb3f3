// SPDX-License-Identifier: Apache-2.0

//! The beginning and the end: devices are taken, threads started; signals and clients end it, and
//! devices are given back.

use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_io::device::Tap;
use penstock_lang::names::Names;
use penstock_lang::source::Files;
use penstock_netlink::{Monitor, Policies, Socket, State, XdpMonitor};
use penstock_packet::Packet;
use penstock_path::{Dataplane, Engine, LogRecord, Settings, Shared, TraceRecord};
use penstock_program::cells::WORKERS;
use penstock_ruleset::Generation;
use penstock_state::{Broken, State as Kept};

use crate::clock;
use crate::control::{
    Listeners, NftCall, Process, RUNS_ALREADY, Rights, Rules, Server, Serving, ShowAs, Took,
    is_served, listen, remove_sockets,
};
use crate::crew::{Crew, crew};
use crate::evaluator::{self, Call, Evaluator, Task};
use crate::follow::{Ask, Follow, Followed};
use crate::guardian::{Guardian, Heir};
use crate::heartbeat::Heartbeat;
use crate::inbox::Inbox;
use crate::keep::{Keeper, Keeping};
use crate::lines::Lines;
use crate::offload::{Left, Offload, OffloadPort, Pins, remove_left};
use crate::on_death::{self, OnDeath};
use crate::ports::{Driver, Held, Port, WireConfig, WireShare, launcher};
use crate::queues::{self, QueueConfig};
use crate::record::{self, Recorder, When};
use crate::recovery::give_back_left;
use crate::seccomp::{self, Thread, Violation};
use crate::signals::Signals;
use crate::sink::{LiveSink, Out};
use crate::stages::Stages;
use crate::status::Status;
use crate::systemd::{Watchdog, notify};
use crate::takeover::{Taken, give_back, prepare, swap};
use crate::talkers::Talker;
use crate::turn::Turn;
use crate::worker::{In, Load, Named, Request, Worker};
use crate::workers::{Workers, parts};
use crate::{before, log, memory, metrics, rights};

/// A device that is to be a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The device.
    pub device: String,
    /// What the host, and rules, are to call it.
    pub name: String,
    /// What is to carry its frames.
    pub driver: Driver,
}

/// Where ruleset, elements and connections are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepState {
    /// The file.
    pub path: PathBuf,
    /// If it is broken, the dataplane begins without a state; else it does not begin.
    pub go_on_without: bool,
}

impl KeepState {
    /// What an earlier dataplane has left, or what is wrong with it, if that is no reason to end.
    /// The file stays as it is.
    fn read(&self) -> Result<(Option<Kept>, Option<Broken>), String> {
        let path = self.path.display();
        let broken =
            match Kept::read(&self.path, crate::now()).map_err(|e| format!("{path}: {e}"))? {
                None => return Ok((None, None)),
                Some(Ok(kept)) => return Ok((Some(kept), None)),
                Some(Err(broken)) => broken,
            };
        if !self.go_on_without {
            return Err(format!(
                "{path}: {broken}\nMove it away, or begin without it: --state-broken empty keeps it as {path}.broken."
            ));
        }
        Ok((None, Some(broken)))
    }

    /// Gives a broken file another name.
    fn set_aside(&self, broken: &Broken) -> Result<(), String> {
        let path = self.path.display();
        let aside = penstock_files::set_aside(&self.path, ".broken")
            .map_err(|e| format!("{path}.broken: {e}"))?;
        log(format_args!("the state is LOST: {path}: {broken}; it is kept as {}", aside.display()));
        Ok(())
    }
}

/// Writes `penstock show`, piece by piece: rulesets may be large.
pub type Show = fn(&View<'_>, ShowAs, &mut dyn io::Write) -> io::Result<()>;

/// Prints what rules log.
pub trait Printer: Send {
    /// Appends the line of a `log` statement, with its end, or nothing.
    fn log(&mut self, record: &LogRecord<'_>, packet: &Packet, out: &mut String);

    /// Appends the record of a `log group` statement as captures of `LINKTYPE_NFLOG` have it.
    fn nflog(&mut self, record: &LogRecord<'_>, packet: &Packet, out: &mut Vec<u8>);
}

/// Prints the steps of traced packets: appends a line, or nothing.
pub type TracePrinter = Arc<dyn Fn(&TraceRecord<'_>, &Packet, &mut String) + Send + Sync>;

/// What is wanted, and how things are printed.
pub struct Config {
    /// Devices.
    pub ports: Vec<PortConfig>,
    /// How many threads do packets; `None` for as many as the devices have queues, up to the
    /// processors.
    pub workers: Option<usize>,
    /// The ruleset to begin with, read again at `SIGHUP`.
    pub rules: Option<PathBuf>,
    /// Where ruleset and connections are kept from one process to the next.
    pub state: Option<KeepState>,
    /// Users other than root may look.
    pub readers: bool,
    /// What becomes of the ports when the process dies.
    pub on_death: OnDeath,
    /// How long the process may do no packets before its guardian ends it; zero for however long.
    pub hang_time: Duration,
    /// What becomes of system calls that a thread does not need; `None` if they are not filtered.
    pub seccomp: Option<Violation>,
    /// How long the evaluation of a ruleset may take.
    pub batch_time: Duration,
    /// Bytes of memory that the evaluation of a ruleset may take, beside the ruleset that is there.
    pub batch_memory: u64,
    /// What runs the chains.
    pub engine: Engine,
    /// All flowtables are for devices, as far as these can forward flows.
    pub offload: bool,
    /// A directory of a file system of type bpf: programs that forward flows stay on devices when
    /// the process dies.
    pub persist: Option<PathBuf>,
    /// Settings of the path.
    pub settings: Settings,
    /// Reads the arguments of `penstock nft`. The error is the message.
    pub nft: fn(&[String]) -> Result<NftCall, String>,
    /// Names that rulesets may use.
    /// Besides the interfaces that there are, those with the names given may be spoken of.
    pub names: fn(&[String]) -> Box<dyn Names>,
    /// Files that rulesets may include.
    pub files: fn() -> Box<dyn Files>,
    /// A loopback address and port where metrics can be asked for by HTTP.
    pub metrics: Option<SocketAddr>,
    /// Programs that rules give packets to.
    pub queues: Vec<QueueConfig>,
    /// Prints `penstock show`.
    pub show: Show,
    /// Prints where time goes: names, times, ticks.
    pub profile: fn(Vec<(String, u64, u64)>) -> String,
    /// Prints traces with the rules of a generation at a time.
    pub tracer: fn(&Generation, u64) -> TracePrinter,
    /// Prints `log` statements.
    pub printer: fn() -> Box<dyn Printer>,
}

impl Config {
    /// What a child of the evaluator is to do for a client.
    pub(crate) fn call(&self, task: Task, rights: Rights, process: Process) -> Call {
        let (time, memory) = (self.batch_time, self.batch_memory);
        Call { task, rights, process, time, memory }
    }
}

/// What there is to show.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// What happened so far.
    pub status: &'a Status,
    /// Who talks most, if it was asked for.
    pub talkers: &'a [Talker],
    /// The generation in force, with counters of its own that go on.
    pub generation: &'a Generation,
    /// How long the last change took.
    pub took: Took,
    /// The generation that waits for its confirmation, if one does, and how long it still waits.
    pub unconfirmed: Option<(u32, Duration)>,
    /// When the dataplane began, nanoseconds since the epoch.
    pub started: u64,
    /// When this is shown, nanoseconds since the epoch.
    pub now: u64,
}

/// A dataplane that runs.
pub struct Daemon {
    guardian: Guardian,
    taken: Vec<Taken>,
    workers: Arc<Workers>,
    working: Vec<JoinHandle<()>>,
    follow: Asked<Ask, Vec<Taken>>,
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
    before::check(&config, &evaluator, kept.is_some())?;
    let mut socket = Socket::new().map_err(|e| format!("netlink: {e}"))?;
    // Before waiting for one that has died: there may be one that lives.
    if is_served() {
        return Err(RUNS_ALREADY.into());
    }
    let turn = Turn::wait()?;
    // One that has died had the address until here.
    let metrics = config.metrics.map(metrics::listen).transpose()?;
    give_back_left(&mut socket)?;
    if let (Some(state), Some(broken)) = (&config.state, &broken) {
        state.set_aside(broken)?;
    }
    let mut left = Left::find();
    let workers = match config.workers {
        Some(workers) => workers,
        None => workers_for(&mut socket, &config.ports)?,
    };
    let mut prepared = Vec::new();
    for port in &config.ports {
        let index = kept.as_ref().and_then(|kept| kept.index_of(&port.name));
        prepared.push(prepare(&mut socket, port, index, workers > 1)?);
    }
    let (taken, taps): (Vec<Taken>, Vec<Tap>) = prepared.into_iter().unzip();
    let guardian = Guardian::start(&taken, &taps, &config.on_death, metrics.as_ref());
    let guardian = guardian.map_err(|e| format!("the guardian: {e}"))?;
    // Devices that were not closed before.
    let mut closed = Vec::new();
    // What the guardian does not hold may be opened from here on, and threads be started.
    let started = listen(config.readers).and_then(|listeners| {
        let mut recorder = Recorder::new(config.on_death.clone());
        let state = State::read(&mut socket).map_err(|e| format!("the kernel's network: {e}"))?;
        recorder.write(&mut socket, &state, &taken, When::Before);
        let heir = guardian.heir().map_err(|e| format!("the guardian: {e}"));
        let started = heir.and_then(|heir| {
            let (taken, left, closed) = (&taken, &mut left, &mut closed);
            let start = Start { taken, taps, heir, recorder, left, closed, count: workers };
            Daemon::start(config, &mut socket, start)
        });
        let started = started.map(|parts| (listeners, parts));
        if started.is_err() {
            give_all_back(&mut socket, &taken);
            on_death::open(&mut socket, std::mem::take(&mut closed));
        }
        started
    });
    let (listeners, (workers, working, follow, rules, offload, config)) = match started {
        Ok(started) => started,
        Err(e) => {
            guardian.dismiss();
            remove_sockets();
            turn.end();
            return Err(e);
        }
    };
    let evaluator = Arc::new(evaluator);
    let daemon =
        Daemon { guardian, taken, workers, working, follow, rules, offload, config, evaluator };
    let begun = daemon.begin(kept, &left).and_then(|()| Ok((daemon.keep()?, daemon.heartbeat()?)));
    let (keeping, heartbeat) = match begun {
        Ok(begun) => begun,
        Err(e) => {
            daemon.stop(&mut socket, Some(closed));
            remove_sockets();
            turn.end();
            return Err(e);
        }
    };
    on_death::settle(&mut socket, &daemon.taken, &daemon.config.on_death);
    let mut serving = None;
    let result = daemon.serve(listeners, &mut serving, metrics, &signals);
    daemon.rules.end();
    keeping.into_iter().for_each(Keeping::end);
    if result.is_err() && daemon.config.on_death.closes() {
        // It has failed, as if it had died: the guardian does what is to be done then, once this
        // process is gone.
        return result;
    }
    heartbeat.into_iter().for_each(Heartbeat::end);
    daemon.stop(&mut socket, None);
    // Whoever has asked for the end is told that it is there, and can begin anew.
    serving.into_iter().for_each(Serving::end);
    remove_sockets();
    turn.end();
    result
}

fn give_all_back(socket: &mut Socket, taken: &[Taken]) {
    for taken in taken {
        if let Err(e) = give_back(socket, taken) {
            log(e);
        }
    }
    record::remove();
}

/// A thread, what it is asked by, and what it ends with.
type Asked<T, E> = (Arc<Inbox<T>>, JoinHandle<E>);
type Parts = (
    Arc<Workers>,
    Vec<JoinHandle<()>>,
    Asked<Ask, Vec<Taken>>,
    Arc<Rules>,
    Arc<Offload>,
    Arc<Config>,
);

/// Most workers that make sense: as many as there are processors, and queues of some device.
fn workers_for(socket: &mut Socket, ports: &[PortConfig]) -> Result<usize, String> {
    let state = State::read(socket).map_err(|e| format!("the kernel's network: {e}"))?;
    let queues =
        ports.iter().filter_map(|port| Some(state.device(&port.device)?.queues as usize)).max();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(queues.unwrap_or(1).clamp(1, processors.min(WORKERS)))
}

/// What a worker has of all ports.
#[derive(Default)]
struct Part {
    outs: Vec<Out>,
    wires: Vec<In>,
    hosts: Vec<In>,
    names: Vec<Named>,
    held: Vec<Option<Held>>,
}

/// What a dataplane begins with.
struct Start<'s> {
    taken: &'s [Taken],
    taps: Vec<Tap>,
    heir: Heir,
    recorder: Recorder,
    left: &'s mut Left,
    /// Devices that were closed while it began.
    closed: &'s mut Vec<u32>,
    /// Workers.
    count: usize,
}

impl Daemon {
    fn start(config: Config, socket: &mut Socket, start: Start<'_>) -> Result<Parts, String> {
        let Start { taken, taps, heir, recorder, left, closed, count } = start;
        let failed = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
        // Changes from here on are told.
        let monitor = Monitor::new().map_err(failed("netlink"))?;
        let before = State::read(socket).map_err(failed("the kernel's network"))?;
        let mut followed = Vec::new();
        let mut ports = Vec::new();
        let launcher = launcher(config.ports.iter().map(|port| port.driver));
        for ((taken, tap), wish) in taken.iter().zip(taps).zip(&config.ports) {
            let driver = if taken.end.is_some() { Driver::Tap } else { wish.driver };
            let device = before.devices().iter().find(|d| d.link.index == taken.device);
            let device = device.ok_or_else(|| format!("{}: the device is gone", taken.before))?;
            let closes = config.on_death.closes() && taken.end.is_none();
            let wire = WireConfig::of(device, closes);
            let own = tap.try_clone().map_err(failed("a TAP"))?;
            let _shut = left.release(taken.device);
            let port = Port::open(taken.clone(), wire, driver, tap, count, launcher.as_ref())?;
            let end =
                port.wire.end.as_ref().map(Tap::try_clone).transpose().map_err(failed("a TAP"))?;
            followed.push(Followed::new(taken.clone(), own, end, driver, &device.link));
            log(format_args!("{}: {} by {}", taken.name, taken.port, port.wire.carrier));
            ports.push(port);
        }
        for taken in taken.iter().filter(|t| config.on_death.closes() && t.end.is_none()) {
            if on_death::close(socket, taken.device, &taken.before)? {
                closed.push(taken.device);
            }
        }
        for taken in taken {
            swap(socket, taken)?;
        }
        let mut state = State::read(socket).map_err(failed("the kernel's network"))?;
        let mut policies = Policies::open().map_err(failed("the kernel's IPsec policies"))?;
        if let Some(policies) = &mut policies {
            state.set_policies(policies.read().map_err(failed("the kernel's IPsec policies"))?);
        }
        remove_left();
        let pins = config.persist.as_deref().map(Pins::new).transpose()?;
        let workers = Arc::new(Workers::new(count).map_err(failed("eventfd"))?);
        let asks = Arc::new(Inbox::new().map_err(failed("eventfd"))?);
        let own = Socket::new().map_err(failed("netlink"))?;
        let offload = Offload::new(
            ports.iter().filter_map(|p| OffloadPort::of(&p.taken, &p.wire)).collect(),
            config.offload,
            pins,
        );
        let follow = Follow {
            left_out: HashSet::new(),
            socket: own,
            monitor,
            state,
            policies,
            xdp: XdpMonitor::new().ok(),
            offload: offload.clone(),
            ports: followed,
            workers: workers.clone(),
            asks: asks.clone(),
            launcher,
            heir,
            recorder,
            on_death: config.on_death.clone(),
        };
        let net = Arc::new(follow.network());
        offload.set_network(&net);
        let settings = Settings { host_stack: true, ..config.settings.clone() };
        let mut parts: Vec<Part> = (0..count).map(|_| Default::default()).collect();
        for (number, port) in ports.into_iter().enumerate() {
            let named = Named {
                name: port.taken.name.clone(),
                device: port.taken.port.clone(),
                carrier: port.wire.carrier.to_string(),
            };
            let dhcp_until = Arc::default();
            for ((share, host), part) in
                port.wire.share().into_iter().zip(port.host).zip(&mut parts)
            {
                let WireShare { rx, tx, spread, held, .. } = share;
                let (host_rx, host_tx) = host;
                part.wires.extend(rx.into_iter().map(|rx| In { port: number, rx, spread }));
                part.hosts.push(In { port: number, rx: host_rx, spread: true });
                let (index, dhcp_until) = (port.taken.tap, Arc::clone(&dhcp_until));
                part.outs.push(Out { index, tx, host_tx, traffic: Default::default(), dhcp_until });
                part.names.push(named.clone());
                part.held.push(held);
            }
        }
        // From here on little is needed; threads have what their maker has.
        rights::keep_only_needed().map_err(failed("capabilities"))?;
        let lines = Lines::start().map_err(failed("a thread"))?;
        let shared = (count > 1).then(|| Shared::new(count, &settings));
        let crews: Vec<Option<Crew>> = match &shared {
            None => vec![None],
            Some(shared) => {
                crew(shared.tracking(), workers.inboxes(), &net).into_iter().map(Some).collect()
            }
        };
        let mut all = Vec::new();
        for (number, (part, crew)) in parts.into_iter().zip(crews).enumerate() {
            let (net, settings) = (net.clone(), settings.clone());
            let mut path = match &shared {
                None => Dataplane::live(net.clone(), settings),
                Some(shared) => Dataplane::of_worker(net.clone(), settings, shared, number),
            };
            path.set_engine(config.engine);
            let sink =
                LiveSink::new(part.outs, net, asks.clone(), (config.printer)(), lines.clone());
            let (offloader, devices) = offload.offloader().map_err(failed("a thread"))?;
            path.set_flow_offload(offloader, devices, config.offload);
            let Part { wires, hosts, names, held, .. } = part;
            let inbox = workers.inboxes()[number].clone();
            let (load, stages) = (Load::default(), Stages::default());
            all.push(Worker { path, sink, wires, hosts, names, held, inbox, crew, load, stages });
        }
        // It makes memory executable, which no other thread may.
        if config.engine != Engine::Interpreter
            && let Some(worker) = all.first()
        {
            worker.path.start_compiler(|| seccomp::enter(Thread::Compile));
        }
        seccomp::enter(Thread::Main);
        let rules = Arc::new(Rules::new(workers.clone(), offload.clone(), &config));
        let mut working = Vec::new();
        let begin = || {
            for (number, worker) in all.drain(..).enumerate() {
                let name =
                    if count == 1 { "worker".to_owned() } else { format!("worker {number}") };
                working.push(spawn(&name, move || {
                    seccomp::enter(Thread::Worker);
                    worker.run();
                })?);
            }
            spawn("follow", move || {
                seccomp::enter(Thread::Follow);
                follow.run()
            })
        };
        let following = match begin() {
            Ok(thread) => thread,
            Err(e) => {
                workers.tell(|| Request::Stop);
                working.into_iter().for_each(|thread| drop(thread.join()));
                return Err(e);
            }
        };
        Ok((workers, working, (asks, following), rules, offload, Arc::new(config)))
    }

    /// Indexes and names of the TAPs.
    fn links(&self) -> Vec<(u32, String)> {
        self.taken.iter().map(|taken| (taken.tap, taken.name.clone())).collect()
    }

    /// Ruleset and connections are what they are to be, and then frames are received: nothing
    /// passes before.
    fn begin(&self, kept: Option<Kept>, left: &Left) -> Result<(), String> {
        let adopt = |connections: &mut String| {
            let adopted = left.adopt(connections, penstock_bpf::monotonic());
            if left.any() {
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

    /// Connections of a dump go on.
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
        self.rules.resume(kept.ruleset).map_err(|e| format!("the saved ruleset: {e}"))
    }

    /// Begins to keep the state, if it is to be kept.
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
        let heir = self.guardian.heir().map_err(|e| format!("the guardian: {e}"))?;
        let heartbeat = Heartbeat::begin(self.workers.clone(), heir, patience);
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
        /// How soon something besides signals is noticed.
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
            thread.spawn(move || queues::serve(&queue, &workers)).map_err(failed)?;
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
            if self.working.iter().any(JoinHandle::is_finished) || self.follow.1.is_finished() {
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
        if let Ok(mut heir) = self.guardian.heir()
            && !self.config.hang_time.is_zero()
        {
            heir.beat(PATIENCE.max(self.config.hang_time));
        }
        self.follow.0.send(Ask::Stop);
        self.workers.tell(|| Request::Stop);
        // Devices may have gone and come back meanwhile. A thread that has panicked has said so.
        let taken = self.follow.1.join().unwrap_or(self.taken);
        self.offload.end();
        // Should it be killed meanwhile, whoever goes on has to know.
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
        log(format_args!("ended; {devices} given back"));
    }
}

fn spawn<E: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> E + Send + 'static,
) -> Result<std::thread::JoinHandle<E>, String> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|e| format!("a thread: {e}"))
}
