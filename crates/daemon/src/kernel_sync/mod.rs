// SPDX-License-Identifier: Apache-2.0

//! The thread that keeps the network in step with the kernel's, devices with their TAPs, and that
//! has neighbours found out.
//!
//! | file | is |
//! | --- | --- |
//! | `ports` | devices are taken and returned while packets pass |
//! | [`listeners`] | programs of the host that watch traffic are shown it |

pub(crate) mod listeners;
mod ports;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_io::device::{Launcher, Mirror, Tap, wait};
use penstock_net::{DevconfSysctls, LARGEST_INDEX, Link, Mac, Network};
use penstock_netlink::links::{Change, change, set_port};
use penstock_netlink::{Changed, Device, Monitor, Policies, Socket, State, XdpMonitor};

use crate::attach::Attached;
use crate::config::{Driver, OnDeath};
use crate::devices::on_death;
use crate::devices::ports::{Carrier, MOST, Wire, WireConfig};
use crate::devices::record::{Recorder, When};
use crate::devices::taken_ports::TakenPorts;
use crate::devices::takeover::{Taken, resume, stands_on};
use crate::devices::wanted::{Origin, Wanted};
use crate::guardian::GuardianHandle;
use crate::host_sysctls::HostSysctls;
use crate::log;
use crate::offload::{Offload, OffloadPort};
use crate::processor_time;
use crate::requests::inbox::Inbox;
use crate::requests::workers::Workers;
use crate::requests::{Barrier, Request, SyncRequest};
use listeners::Listeners;

/// How long workers may take to give back what they had of a port.
const PATIENCE: Duration = Duration::from_secs(5);

/// A port whose device is open.
pub(crate) struct OpenedPort {
    pub(crate) taken: Taken,
    pub(crate) tap: Tap,
    /// The file of the device, if that is a TAP of a neighbour's.
    pub(crate) end: Option<Tap>,
    pub(crate) driver: Driver,
    pub(crate) by: Carrier,
}

/// A port, as far as it is followed.
pub(crate) struct Followed {
    /// By which workers know it.
    pub(crate) number: usize,
    pub(crate) origin: Origin,
    pub(crate) taken: Taken,
    pub(crate) tap: Tap,
    /// The file of the device, if that is a TAP of a neighbour's.
    pub(crate) end: Option<Tap>,
    /// The driver that was asked for.
    pub(crate) driver: Driver,
    /// What carries the frames.
    pub(crate) by: Carrier,
    /// Shows frames of the port on the TAP, as long as somebody listens there.
    pub(crate) mirror: Option<Arc<Mirror>>,
    /// What kind of link the device is.
    pub(crate) kind: Arc<str>,
    /// What the TAP was told.
    carrier: Option<bool>,
    /// The last carrier state set on the TAP, if we are its other end.
    plugged: Option<bool>,
    /// The device has gone. It comes back under its name as a port, or another one, with this
    /// address.
    pub(crate) gone: bool,
    /// That it cannot be taken again has been said.
    complained: bool,
    mac: Mac,
}

impl Followed {
    pub(crate) fn new(port: OpenedPort, number: usize, origin: Origin, device: &Link) -> Self {
        let OpenedPort { taken, tap, end, driver, by } = port;
        Followed {
            number,
            origin,
            taken,
            tap,
            end,
            driver,
            by,
            mirror: None,
            kind: device.kind_name().into(),
            carrier: None,
            plugged: None,
            gone: false,
            complained: false,
            mac: device.mac,
        }
    }

    /// Whether a device that is not taken is the recreated one of this port.
    fn is_device(&self, device: &Device) -> bool {
        let link = &device.link;
        let named = *link.name == *self.taken.port;
        let alike = link.kind_name() == &*self.kind && link.mac == self.mac;
        if self.taken.end.is_some() {
            return named && device.tap.is_some();
        }
        device.ethernet && !link.is_loopback() && device.master.is_none() && (named || alike)
    }
}

pub(crate) struct KernelSync {
    /// What has changed in the kernel, and is not taken up yet.
    pub(crate) changed: Changed,
    /// Devices that are to become ports.
    pub(crate) wanted: Wanted,
    /// Where others see what is taken.
    pub(crate) taken_ports: Arc<TakenPorts>,
    /// Indexes and names of TAPs in the kept state.
    pub(crate) kept_links: Vec<(u32, String)>,
    /// Numbers that ports have.
    pub(crate) numbers: BTreeSet<usize>,
    pub(crate) socket: Socket,
    pub(crate) monitor: Monitor,
    pub(crate) state: State,
    /// `None` if the kernel has no IPsec.
    pub(crate) policies: Option<Policies>,
    /// Tells what devices can do with XDP; `None` if the kernel does not.
    pub(crate) xdp: Option<XdpMonitor>,
    pub(crate) ports: Vec<Followed>,
    pub(crate) offload: Arc<Offload>,
    /// What the kernel runs, if the ruleset is for the kernel.
    pub(crate) attached: Option<Arc<Attached>>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) asks: Arc<Inbox<SyncRequest>>,
    pub(crate) launcher: Option<Arc<Launcher>>,
    pub(crate) guardian: GuardianHandle,
    /// Indexes of devices that are not in the network, which the log has told.
    pub(crate) left_out: HashSet<u32>,
    pub(crate) recorder: Recorder,
    pub(crate) on_death: OnDeath,
    /// Settings of devices that count instead of the host's.
    pub(crate) devconf: DevconfSysctls,
    /// When the host's settings of devices are read again: the kernel tells of few changes.
    pub(crate) devconf_due: Instant,
    /// Sysctls of the host, which are read at the same times.
    pub(crate) sysctls: HostSysctls,
    /// Programs of the host that watch traffic.
    pub(crate) listeners: Listeners,
}

impl KernelSync {
    /// The port that a device is, or stands on as a VLAN.
    fn port_below(&self, device: &Device) -> Option<usize> {
        let is_below = |p: &Followed| {
            p.taken.tap == device.link.index || stands_on(&self.state, device, p.taken.tap)
        };
        self.ports.iter().position(is_below)
    }

    /// The network from the known state. Rules see the kind of the device, not that a TAP stands
    /// for it, and ports of a bridge are isolated from each other only if they were before they
    /// were taken.
    pub(crate) fn network(&self) -> Network {
        let ours: HashMap<u32, usize> = self
            .state
            .devices()
            .iter()
            .filter_map(|device| Some((device.link.index, self.port_below(device)?)))
            .collect();
        let adjust = |link: &mut Link| {
            let Some(port) = ours.get(&link.index).and_then(|number| self.ports.get(*number))
            else {
                return;
            };
            if port.taken.tap == link.index {
                link.kind = penstock_net::Wire::new(port.kind.clone()).into();
            }
            if let Some(on_bridge) = &mut link.port {
                on_bridge.isolated = port.taken.isolated.iter().any(|name| **name == *link.name);
            }
        };
        self.state.network_with(adjust).with_sysctls(&self.devconf)
    }

    /// Runs until it is told to stop; returns the devices taken by then.
    pub(crate) fn run(mut self) -> Vec<Taken> {
        self.work();
        self.ports.into_iter().map(|port| port.taken).collect()
    }

    fn work(&mut self) {
        /// Part of a processor that reading the state may take. Time in which the process is stopped
        /// does not count: a pause for that would be long.
        const SHARE: u32 = 4;
        /// How soon it is noticed what happens to the TAP of a neighbour in another namespace.
        const LOOK: Duration = Duration::from_millis(500);
        let mut ready = Vec::new();
        let mut earliest = Instant::now();
        self.follow_ports();
        self.isolate();
        self.take_wanted();
        self.recorder.note();
        loop {
            let patience = if self.changed.is_empty() {
                None
            } else {
                Some(earliest.saturating_duration_since(Instant::now()))
            };
            let ends = self.ports.iter().any(|port| port.taken.end.is_some());
            let idle = if ends { LOOK } else { Duration::MAX };
            let due = self.recorder.due_in(!self.changed.is_empty());
            let look = self.devconf_due.saturating_duration_since(Instant::now());
            let heard = self.listeners.due_in();
            let until =
                [patience, due, heard].into_iter().flatten().fold(look.min(idle), Duration::min);
            let milliseconds = until.as_millis().min(1000) as i32 + 1;
            let mut fds = vec![self.asks.as_fd()];
            fds.extend(self.xdp.as_ref().map(AsFd::as_fd));
            // During a pause, notifications may pile up.
            if patience.is_none() {
                fds.push(self.monitor.as_fd());
                fds.extend(self.policies.as_ref().map(AsFd::as_fd));
            }
            if let Err(e) = wait(&fds, &mut ready, milliseconds) {
                log(format_args!("waiting for the kernel's network: {e}"));
                std::thread::sleep(Duration::from_secs(1));
            }
            while let Some(ask) = self.asks.take() {
                match ask {
                    // The kernel may have no way there by now.
                    SyncRequest::Resolve(link, address) => drop(self.socket.resolve(link, address)),
                    SyncRequest::Ports(request, to) => drop(to.send(self.carry_out(request))),
                    SyncRequest::Sysctls(given, devconf) => {
                        let values = self.sysctls.give(&given);
                        self.workers.tell(|| Request::Sysctls(values.clone()));
                        self.devconf = devconf;
                        self.changed.note_devconf();
                    }
                    SyncRequest::Stop => return,
                }
            }
            match self.xdp.as_mut().map_or(Ok(false), XdpMonitor::have_changed) {
                Ok(true) => self.offload.refresh(),
                Ok(false) => {}
                Err(e) => log(format_args!("what devices can do with XDP: {e}")),
            }
            self.listen();
            if Instant::now() >= self.devconf_due && self.look_at_devconf() {
                self.changed.note_devconf();
            }
            self.follow_listeners();
            if self.recorder.due_in(!self.changed.is_empty()) == Some(Duration::ZERO) {
                self.write_down();
            }
            if self.wanted.due().is_some_and(|due| Instant::now() >= due) {
                self.take_wanted();
            }
            if self.changed.is_empty() || Instant::now() < earliest {
                if ends {
                    // The TAP may be in another namespace, or, recreated, be held by its creator.
                    self.follow_ports();
                    self.take_again();
                }
                continue;
            }
            let before = processor_time::of_this_thread();
            let links = self.changed.links();
            let pause = match self.take_up() {
                Ok(()) => {
                    let took = processor_time::of_this_thread().saturating_sub(before);
                    (took * SHARE).max(Duration::from_millis(1))
                }
                Err(e) => {
                    log(format_args!("the kernel's network: {e}"));
                    self.changed = Changed::everything();
                    Duration::from_secs(1)
                }
            };
            earliest = Instant::now() + pause;
            if let Some(gone) = self.lost_tap() {
                log(format_args!("{gone}: the TAP was removed"));
                return;
            }
            if links {
                self.drop_gone();
                self.take_wanted();
            }
        }
    }

    /// Notes what the kernel has told of.
    pub(crate) fn listen(&mut self) {
        match self.monitor.take(&mut self.changed) {
            Ok(true) => {}
            Ok(false) => log("notifications were lost: reading the kernel's network again"),
            Err(e) => log(format_args!("the kernel's network: {e}")),
        }
        match self.policies.as_mut().map_or(Ok(false), Policies::have_changed) {
            Ok(true) => self.changed.note_policies(),
            Ok(false) => {}
            Err(e) => log(format_args!("the kernel's IPsec policies: {e}")),
        }
    }

    /// Reads the host's sysctls. Whether some settings of devices have changed.
    fn look_at_devconf(&mut self) -> bool {
        /// Time between two readings, and the part of a processor that they may take.
        const PAUSE: Duration = Duration::from_secs(1);
        const SHARE: u32 = 50;
        let (begun, before) = (Instant::now(), processor_time::of_this_thread());
        if let Some(values) = self.sysctls.changed() {
            self.workers.tell(|| Request::Sysctls(values.clone()));
        }
        let changed = self.state.refresh_devconf();
        if changed {
            self.recorder.note();
        }
        let took = processor_time::of_this_thread().saturating_sub(before);
        self.devconf_due = begun + PAUSE.max(took * SHARE);
        changed
    }

    /// A port with a TAP that is gone.
    fn lost_tap(&self) -> Option<&str> {
        let there =
            |p: &&Followed| self.state.devices().iter().all(|d| d.link.index != p.taken.tap);
        self.ports.iter().find(there).map(|p| p.taken.name.as_str())
    }

    /// Reads what has changed, and tells all who have to know.
    pub(crate) fn take_up(&mut self) -> std::io::Result<()> {
        let changed = &mut std::mem::take(&mut self.changed);
        let links = changed.links();
        if changed.standing() {
            self.recorder.note();
        }
        if changed.policies()
            && let Some(policies) = &mut self.policies
        {
            self.state.set_policies(policies.read()?);
        }
        // Only we send there: without packets of its own the kernel would forget them.
        for (link, address) in changed.take_stale() {
            let device = self.state.devices().iter().find(|d| d.link.index == link);
            let port = self.ports.iter().any(|p| p.taken.tap == link);
            if port || device.is_some_and(|d| d.link.vlan().is_some() || d.link.bridge().is_some())
            {
                let _ = self.socket.resolve(link, address);
            }
        }
        let devconf = changed.devconf();
        self.state.refresh(&mut self.socket, changed)?;
        if links || devconf {
            self.look_at_devconf();
        }
        let net = Arc::new(self.network());
        let chains = self.offload.set_network(&net);
        if let Some(attached) = &self.attached {
            attached.set_network(&net);
        }
        self.workers.tell(|| Request::Network(net.clone()));
        if let Some(chains) = chains {
            let meeting = Barrier::of(self.workers.count());
            self.workers.tell(|| Request::Offloaded(chains.clone(), meeting.clone()));
        }
        if links {
            self.tell_left_out();
            self.follow_ports();
            self.isolate();
            self.take_again();
            self.offload.refresh();
        }
        Ok(())
    }

    /// Says which devices have an index that no table has room for.
    fn tell_left_out(&mut self) {
        let known = std::mem::take(&mut self.left_out);
        for link in self.state.devices().iter().map(|d| &d.link).filter(|l| l.index > LARGEST_INDEX)
        {
            if !known.contains(&link.index) {
                let (name, index) = (&link.name, link.index);
                log(format_args!(
                    "{name} has index {index}: beyond {LARGEST_INDEX} devices are not followed, rules and routes by it \
                     meet no packet"
                ));
            }
            self.left_out.insert(link.index);
        }
    }

    /// Devices that have come back become the wires of their ports again.
    fn take_again(&mut self) {
        let devices = self.state.devices();
        let in_use: Vec<u32> =
            self.ports.iter().flat_map(|p| [p.taken.tap, p.taken.device]).collect();
        let mut back = Vec::new();
        for (number, port) in self.ports.iter().enumerate().filter(|(_, port)| port.gone) {
            let free = |d: &&Device| !in_use.contains(&d.link.index) && port.is_device(d);
            let known =
                |index: u32| back.iter().any(|(_, d): &(usize, Device)| d.link.index == index);
            back.extend(
                devices
                    .iter()
                    .filter(free)
                    .find(|d| !known(d.link.index))
                    .map(|d| (number, d.clone())),
            );
        }
        let mut again = false;
        for (at, device) in back {
            let Some(port) = self.ports.get_mut(at) else { continue };
            let resumed = match port.taken.end {
                Some(_) => Ok(()),
                None => resume(&mut self.socket, &port.taken, &device),
            };
            let closes = self.on_death.closes() && port.taken.end.is_none();
            let resumed = resumed.and_then(|()| match closes {
                true => {
                    on_death::close(&mut self.socket, device.link.index, &port.taken.port).map(drop)
                }
                false => Ok(()),
            });
            let opened = resumed.and_then(|()| {
                let (name, index, config) =
                    (&port.taken.port, device.link.index, WireConfig::of(&device, closes));
                // AF_XDP may ask for more locked memory than there is by now.
                let workers = self.workers.count();
                let launcher = self.launcher.as_ref();
                let wire = Wire::open(name, index, config, port.driver, workers, launcher)
                    .or_else(|e| {
                        if port.driver == Driver::Tap {
                            return Err(e);
                        }
                        log(format_args!("{e}: trying a packet socket"));
                        Wire::open(name, index, config, Driver::Packet, workers, None)
                    })?;
                wire.fit(&port.tap).map_err(|e| format!("{}: {e}", port.taken.name))?;
                Ok(wire)
            });
            match opened {
                Ok(wire) => {
                    log(format_args!(
                        "{}: {} is back, by {}",
                        port.taken.name, port.taken.port, wire.carrier
                    ));
                    port.taken.device = device.link.index;
                    port.by = wire.carrier;
                    (port.gone, port.carrier, port.plugged, port.complained) =
                        (false, None, None, false);
                    port.end = wire.end.as_ref().and_then(|end| end.try_clone().ok());
                    self.guardian.back(port.taken.tap, device.link.index);
                    let offload = OffloadPort::of(&port.taken, &wire);
                    if let Some(running) = offload.and_then(|port| self.offload.set_port(port)) {
                        let meeting = Barrier::of(self.workers.count());
                        self.workers.tell(|| Request::Offloaded(running.clone(), meeting.clone()));
                    }
                    let number = port.number;
                    let share = |share| Request::Wire(number, Some(Box::new(share)));
                    self.workers.tell_each(wire.share().into_iter().map(share));
                    again = true;
                }
                Err(e) if !std::mem::replace(&mut port.complained, true) => {
                    log(format_args!("{}: the device is back, but {e}", port.taken.name));
                }
                Err(_) => {}
            }
        }
        if again {
            self.show_taken();
            self.write_down();
        }
    }

    /// Writes down what is taken, and what stands there.
    pub(crate) fn write_down(&mut self) {
        let all = self.ports.iter().map(|port| (&port.taken, When::During)).collect::<Vec<_>>();
        self.recorder.write(&mut self.socket, &self.state, &all);
    }

    /// Shows others what is taken.
    pub(crate) fn show_taken(&self) {
        self.taken_ports.set(self.ports.iter().map(|port| port.taken.clone()).collect());
    }

    /// The host's bridge must not forward between our ports (or VLANs on them) that were put into
    /// it: we forward between them.
    pub(crate) fn isolate(&mut self) {
        let open = |d: &&Device| d.link.port.as_ref().is_some_and(|port| !port.isolated);
        let devices =
            self.state.devices().iter().filter(open).filter(|d| self.port_below(d).is_some());
        let devices: Vec<_> = devices.map(|d| (d.link.index, d.link.name.clone())).collect();
        for (index, name) in devices {
            if let Err(e) = set_port(&mut self.socket, index, &[], Some(true)) {
                log(format_args!("{name}: cannot be isolated on its bridge: {e}"));
            }
        }
    }

    /// What the host does to a TAP is done to its device; the device's carrier is the TAP's.
    pub(crate) fn follow_ports(&mut self) {
        let devices = self.state.devices();
        for port in &mut self.ports {
            let of = |index: u32| devices.iter().find(|d| d.link.index == index);
            let carrier = match &port.end {
                Some(end) => end.is_up(),
                None => of(port.taken.device).is_some_and(|d| d.carrier),
            };
            if port.carrier != Some(carrier) && port.tap.set_carrier(carrier).is_ok() {
                port.carrier = Some(carrier);
            }
            let Some(tap) = of(port.taken.tap) else { continue };
            if let Some(end) = &port.end {
                // All that the neighbour is to see of the host's end.
                if port.plugged != Some(tap.link.up) && end.set_carrier(tap.link.up).is_ok() {
                    port.plugged = Some(tap.link.up);
                }
                if end.is_there() {
                    continue;
                }
            }
            let device = of(port.taken.device).filter(|_| port.end.is_none());
            let Some(device) = device else {
                port.end = None;
                if !std::mem::replace(&mut port.gone, true) {
                    log(format_args!("{}: the device is gone", port.taken.port));
                    self.offload.lose_port(port.taken.tap);
                    let number = port.number;
                    self.workers.tell(|| Request::Wire(number, None));
                }
                continue;
            };
            port.mac = device.link.mac;
            let mut changes = Vec::new();
            if tap.link.mtu != device.link.mtu {
                if tap.link.mtu as usize > MOST
                    && matches!(port.driver, Driver::Xdp | Driver::XdpGeneric)
                {
                    log(format_args!(
                        "{}: AF_XDP takes no more than an MTU of {MOST}: larger packets are LOST; see --driver packet",
                        port.taken.port
                    ));
                }
                changes.push(Change::Mtu(tap.link.mtu));
            }
            if tap.link.mac != device.link.mac {
                changes.push(Change::Mac(tap.link.mac.0));
            }
            if tap.link.up != device.link.up {
                changes.push(Change::Up(tap.link.up));
            }
            if !changes.is_empty()
                && let Err(e) = change(&mut self.socket, port.taken.device, &changes)
            {
                log(format_args!("{}: {e}", port.taken.port));
            }
        }
    }
}
