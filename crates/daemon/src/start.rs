// SPDX-License-Identifier: Apache-2.0

//! The start: ports are opened, TAPs take the place of devices, and threads begin.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use penstock_dataplane::{Dataplane, Engine, Settings, Shared};
use penstock_io::device::{Launcher, Tap};
use penstock_net::Network;
use penstock_netlink::{Changed, Monitor, Policies, Socket, State, XdpMonitor, unfollowed_devconf};

use crate::attach::Attached;
use crate::config::{Config, Driver};
use crate::devices::on_death;
use crate::devices::ports::{Port, WireConfig, launcher};
use crate::devices::record::Recorder;
use crate::devices::taken_ports::TakenPorts;
use crate::devices::takeover::{Taken, swap};
use crate::devices::wanted::{Origin, Wanted};
use crate::guardian::GuardianHandle;
use crate::host_sysctls::{HostSysctls, Values};
use crate::kernel_sync::listeners::Listeners;
use crate::kernel_sync::{Followed, KernelSync, OpenedPort};
use crate::lines::{self, Lines};
use crate::offload::{Leftovers, Offload, OffloadPort};
use crate::pins::{Pins, remove_left};
use crate::port_share::{PortShare, shares};
use crate::requests::inbox::Inbox;
use crate::requests::workers::Workers;
use crate::requests::{Request, SyncRequest};
use crate::rules::Rules;
use crate::seccomp::{self, Thread};
use crate::worker::sink::LiveSink;
use crate::worker::stages::Stages;
use crate::worker::steering::steerings;
use crate::worker::{Load, Worker};
use crate::{log, rights};

/// What a dataplane starts with.
pub(crate) struct Start<'s> {
    pub(crate) config: Config,
    pub(crate) taken: &'s [Taken],
    pub(crate) taps: Vec<Tap>,
    pub(crate) guardian: GuardianHandle,
    pub(crate) recorder: Recorder,
    /// Where those who ask find what is taken.
    pub(crate) ports: Arc<TakenPorts>,
    /// Indexes and names of TAPs in the kept state.
    pub(crate) kept_links: Vec<(u32, String)>,
    pub(crate) leftovers: &'s mut Leftovers,
    /// Devices that were closed while it started.
    pub(crate) closed: &'s mut Vec<u32>,
    /// Number of workers.
    pub(crate) count: usize,
}

/// What runs then.
pub(crate) struct Started {
    pub(crate) config: Arc<Config>,
    pub(crate) workers: Arc<Workers>,
    /// Threads of the workers.
    pub(crate) working: Vec<JoinHandle<()>>,
    /// What the thread that follows the kernel's network is asked by.
    pub(crate) sync: Arc<Inbox<SyncRequest>>,
    /// That thread. It ends with what is taken.
    pub(crate) following: JoinHandle<Vec<Taken>>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) offload: Arc<Offload>,
    /// Where lines go that rules log.
    pub(crate) lines: Lines,
}

/// What all workers share.
struct Common<'c> {
    config: &'c Config,
    net: &'c Arc<Network>,
    workers: &'c Workers,
    offload: &'c Arc<Offload>,
    sync: &'c Arc<Inbox<SyncRequest>>,
    sysctls: &'c Values,
    lines: &'c Lines,
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> String {
    move |e| format!("{what}: {e}")
}

impl Start<'_> {
    /// Starts. The error is a sentence for the user; swapped devices are not returned here.
    pub(crate) fn start(mut self, socket: &mut Socket) -> Result<Started, String> {
        // Changes from here on cause notifications.
        let monitor = Monitor::new().map_err(failed("netlink"))?;
        let before = State::read(socket).map_err(failed("the kernel's network"))?;
        let wishes = &self.config.ports;
        let drivers = wishes.named.iter().map(|port| port.driver);
        let launcher = launcher(drivers.chain(wishes.patterns.iter().map(|p| p.driver)));
        let (ports, followed) = self.open_ports(&before, launcher.as_ref())?;
        self.swap_devices(socket, &before)?;
        let (state, policies) = network(socket)?;
        if self.config.attach.is_none() {
            remove_left();
        }
        let Start { config, guardian, recorder, count, ports: taken_ports, kept_links, .. } = self;
        let pins = || config.persist.as_deref().map(Pins::new).transpose();
        let workers = Arc::new(Workers::new(count).map_err(failed("eventfd"))?);
        let (pins, attached) = match &config.attach {
            Some(attach) => (None, Some(Attached::new(attach, workers.clone(), pins)?)),
            None => (pins()?, None),
        };
        let asked = Arc::new(Inbox::new().map_err(failed("eventfd"))?);
        let own = Socket::new().map_err(failed("netlink"))?;
        let offload = Offload::new(
            ports.iter().filter_map(|p| OffloadPort::of(&p.taken, &p.wire)).collect(),
            config.offload,
            pins,
        );
        taken_ports.set(self.taken.to_vec());
        let sync = KernelSync {
            changed: Changed::default(),
            wanted: Wanted::new(config.ports.clone()),
            taken_ports,
            kept_links,
            numbers: (0..ports.len()).collect(),
            left_out: HashSet::new(),
            socket: own,
            monitor,
            state,
            policies,
            xdp: XdpMonitor::new().ok(),
            offload: offload.clone(),
            attached: attached.clone(),
            ports: followed,
            workers: workers.clone(),
            asks: asked.clone(),
            launcher,
            guardian,
            recorder,
            on_death: config.on_death.clone(),
            devconf: config.devconf.clone(),
            devconf_due: Instant::now(),
            sysctls: HostSysctls::read(&config.sysctls),
            listeners: Listeners::new(),
        };
        let net = Arc::new(sync.network());
        offload.set_network(&net);
        if let Some(attached) = &attached {
            attached.set_network(&net);
        }
        let sysctls = sync.sysctls.values();
        let parts = parts(ports, count);
        let log = lines::open(&config.rule_log)?;
        // From here on little is needed; threads have what their maker has.
        rights::keep_for_devices().map_err(failed("capabilities"))?;
        let lines = Lines::start(log)?;
        let common = Common {
            config: &config,
            net: &net,
            workers: &workers,
            offload: &offload,
            sync: &asked,
            sysctls: &sysctls,
            lines: &lines,
        };
        let all = common.make(parts)?;
        // It makes memory executable, which no other thread may.
        if config.engine != Engine::Interpreter
            && let Some(worker) = all.first()
        {
            worker.path.start_compiler(|| seccomp::enter(Thread::Compile));
        }
        seccomp::enter(Thread::Main);
        let rules = Arc::new(Rules::new(workers.clone(), offload.clone(), attached));
        let (working, following) = begin(all, sync, &workers)?;
        let config = Arc::new(config);
        Ok(Started { config, workers, working, sync: asked, following, rules, offload, lines })
    }

    /// Opens the devices and their TAPs.
    fn open_ports(
        &mut self,
        before: &State,
        launcher: Option<&Arc<Launcher>>,
    ) -> Result<(Vec<Port>, Vec<Followed>), String> {
        let (mut ports, mut followed) = (Vec::new(), Vec::new());
        let taps = std::mem::take(&mut self.taps);
        for (number, (taken, tap)) in self.taken.iter().zip(taps).enumerate() {
            let wish = self.config.ports.named.iter().find(|wish| wish.device == taken.before);
            let driver = match taken.end {
                Some(_) => Driver::Tap,
                None => wish.map(|wish| wish.driver).unwrap_or_default(),
            };
            let device = before.devices().iter().find(|d| d.link.index == taken.device);
            let device = device.ok_or_else(|| format!("{}: the device is gone", taken.before))?;
            let closes = self.config.on_death.closes() && taken.end.is_none();
            let wire = WireConfig::of(device, closes);
            let own = tap.try_clone().map_err(failed("a TAP"))?;
            let _shut = self.leftovers.release(taken.device);
            let port = Port::open(taken.clone(), wire, driver, tap, self.count, launcher)?;
            let end =
                port.wire.end.as_ref().map(Tap::try_clone).transpose().map_err(failed("a TAP"))?;
            let opened =
                OpenedPort { taken: taken.clone(), tap: own, end, driver, by: port.wire.carrier };
            followed.push(Followed::new(opened, number, Origin::Named, &device.link));
            log(format_args!("{}: {} by {}", taken.name, taken.port, port.wire.carrier));
            ports.push(port);
        }
        Ok((ports, followed))
    }

    /// Closes devices if configured, and puts TAPs in their places.
    fn swap_devices(&mut self, socket: &mut Socket, state: &State) -> Result<(), String> {
        let closes = self.config.on_death.closes();
        for taken in self.taken.iter().filter(|t| closes && t.end.is_none()) {
            if on_death::close(socket, taken.device, &taken.before)? {
                self.closed.push(taken.device);
            }
        }
        self.taken.iter().try_for_each(|taken| swap(socket, state, taken))
    }
}

/// The kernel's network, and its IPsec policies if they can be read.
fn network(socket: &mut Socket) -> Result<(State, Option<Policies>), String> {
    let mut state = State::read(socket).map_err(failed("the kernel's network"))?;
    let mut policies = Policies::open().map_err(failed("the kernel's IPsec policies"))?;
    if let Some(policies) = &mut policies {
        state.set_policies(policies.read().map_err(failed("the kernel's IPsec policies"))?);
    }
    state.refresh_devconf();
    tell_unfollowed(&state);
    Ok((state, policies))
}

/// Says which settings of the host's devices packets do not follow here.
fn tell_unfollowed(state: &State) {
    let devices = state.devices().iter().map(|device| &*device.link.name);
    for setting in ["all"].into_iter().chain(devices).flat_map(unfollowed_devconf) {
        log(format_args!("{setting} of the host is not followed"));
    }
}

/// What each of so many workers has of the ports.
fn parts(ports: Vec<Port>, count: usize) -> Vec<Vec<PortShare>> {
    let mut parts: Vec<Vec<PortShare>> = (0..count).map(|_| Vec::new()).collect();
    for (number, port) in ports.into_iter().enumerate() {
        for (share, part) in shares(port, number).into_iter().zip(&mut parts) {
            part.push(share);
        }
    }
    parts
}

impl Common<'_> {
    /// The workers, which do not work yet.
    fn make(&self, parts: Vec<Vec<PortShare>>) -> Result<Vec<Worker>, String> {
        let Common { config, net, workers, offload, sync, sysctls, lines } = *self;
        let mut settings = Settings { host_stack: true, ..config.settings.clone() };
        for (name, value) in sysctls.iter() {
            // What does not fit was logged when it was read.
            let _ = settings.set_sysctl(name, *value);
        }
        let shared = (parts.len() > 1).then(|| Shared::new(parts.len(), &settings));
        let mut steering: Vec<_> = match &shared {
            None => vec![None],
            Some(shared) => {
                steerings(shared.tracking(), workers.inboxes(), net).into_iter().map(Some).collect()
            }
        };
        let programs = config.bpf.attach(net)?;
        let mut all = Vec::new();
        for (number, (part, steering)) in parts.into_iter().zip(steering.drain(..)).enumerate() {
            let settings = settings.clone();
            let mut path = match &shared {
                None => Dataplane::live(net.clone(), settings),
                Some(shared) => Dataplane::of_worker(net.clone(), settings, shared, number),
            };
            path.set_engine(config.engine);
            path.set_bpf(programs.clone());
            let sink = LiveSink::new(net.clone(), sync.clone(), lines.clone());
            let (offloader, devices) = offload.offloader().map_err(failed("a thread"))?;
            path.set_flow_offload(offloader, devices, config.offload);
            let inbox = workers.inboxes()[number].clone();
            let (load, stages) = (Load::default(), Stages::default());
            let mut worker = Worker {
                path,
                sink,
                wires: Vec::new(),
                hosts: Vec::new(),
                names: Vec::new(),
                held: Vec::new(),
                inbox,
                steering,
                load,
                stages,
            };
            part.into_iter().for_each(|share| worker.add_port(share));
            all.push(worker);
        }
        Ok(all)
    }
}

/// Threads of the workers, and of what follows the kernel's network.
type Threads = (Vec<JoinHandle<()>>, JoinHandle<Vec<Taken>>);

/// Starts the threads: all of them, or none.
fn begin(all: Vec<Worker>, sync: KernelSync, workers: &Workers) -> Result<Threads, String> {
    let mut working = Vec::new();
    let count = all.len();
    let start = || {
        for (number, worker) in all.into_iter().enumerate() {
            let name = if count == 1 { "worker".to_owned() } else { format!("worker {number}") };
            working.push(spawn(&name, move || {
                seccomp::enter(Thread::Worker);
                worker.run();
            })?);
        }
        spawn("follow", move || {
            seccomp::enter(Thread::KernelSync);
            sync.run()
        })
    };
    match start() {
        Ok(following) => Ok((working, following)),
        Err(e) => {
            workers.tell(|| Request::Stop);
            working.into_iter().for_each(|thread| drop(thread.join()));
            Err(e)
        }
    }
}

fn spawn<E: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> E + Send + 'static,
) -> Result<JoinHandle<E>, String> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(failed("a thread"))
}
