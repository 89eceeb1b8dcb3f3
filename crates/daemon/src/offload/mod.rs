// SPDX-License-Identifier: Apache-2.0

//! What the devices of ports do themselves, by programs on them: established flows forwarded,
//! chains of ingress run.
//!
//! ```text
//! wire -> XDP: [ flows -> chains ] -> AF_XDP socket, or the kernel, with our packet sockets wire
//! -> tcx: [ flows ] -> shut (packet sockets have seen it before: a filter keeps flows from them)
//! ```
//!
//! Flows are forwarded in XDP where frames come one by one, and at tcx where super-packets arrive
//! (from a veth, from the host of a virtual machine), which XDP would have to cut. A program is on
//! a device only while the ruleset asks for it. All of it is held by descriptors, and goes with the
//! process.

mod chains;
mod flows;
mod leftovers;
mod pins;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_bpf::{AttachPoint, Map, Next};
use penstock_ebpf::flow::{Flows, Hardware, Port as FlowPort, Ports};
use penstock_flowtable::Offloader;
use penstock_flowtable::arrival::Encaps;
use penstock_net::Network;
use penstock_netlink::{Socket, XdpSocket, can_hand_over};
use penstock_print::show::status::Offloaded;
use penstock_program::image::ChainIndex;
use penstock_ruleset::link::{CannotOffload, Linked};
use penstock_wire::ethernet::Mac;

use crate::devices::ports::{Receives, Wire, has_super_packets};
use crate::devices::takeover::Taken;
use crate::log;
use crate::pins::{Pins, remove_left};
use crate::seccomp::{self, Thread};
pub(crate) use chains::Running;
use chains::Wanted;
pub(crate) use flows::Attached;
pub(crate) use leftovers::Leftovers;
pub use leftovers::adopt_flows;

/// Directions of flows that devices forward at most, of each family.
const FLOWS: u32 = 1 << 17;
/// Requests for flows that wait at most, of a worker.
const QUEUE: usize = 4096;

/// A port with a device that may do work itself.
#[derive(Debug)]
pub(crate) struct OffloadPort {
    /// What the host calls it.
    pub(crate) name: String,
    /// Index of the TAP: the device of the network.
    pub(crate) tap: u32,
    /// Index of the device.
    pub(crate) device: u32,
    /// Link address of both.
    pub(crate) mac: Mac,
    /// The device is one of the kernel's own: a veth, for instance. Neighbours on the same machine
    /// leave checksums to it.
    pub(crate) is_virtual: bool,
    /// Super-packets arrive by it, where nothing cuts them.
    pub(crate) super_packets: bool,
    /// What receives.
    pub(crate) receives: Receives,
    /// Frames can leave by it from XDP.
    sends: bool,
    /// What forwards flows, while something does.
    pub(crate) flows: Option<Attached>,
    /// Chains that run on it.
    pub(crate) chains: Option<Running>,
    /// By this the program of flows finds that of chains.
    programs: Arc<Map>,
}

impl OffloadPort {
    /// A port with an open device; `None` if we are the other end of a TAP: a program on that sees
    /// what we send.
    pub(crate) fn of(taken: &Taken, wire: &Wire) -> Option<Self> {
        let Wire { config, receives, .. } = wire;
        let receives = receives.clone()?;
        Some(OffloadPort {
            name: taken.name.clone(),
            tap: taken.tap,
            device: taken.device,
            mac: config.mac,
            is_virtual: config.is_virtual,
            super_packets: has_super_packets(&taken.before, config.is_virtual),
            receives,
            sends: false,
            flows: None,
            chains: None,
            programs: chains::programs(),
        })
    }

    /// Where flows are forwarded.
    fn place(&self) -> AttachPoint {
        match self.receives {
            Receives::Packet(_) if self.super_packets => AttachPoint::Tcx,
            Receives::Packet(_) | Receives::Xdp(_) => AttachPoint::Xdp,
        }
    }

    /// Who has packets that no program wants.
    fn rest(&self) -> Next {
        match &self.receives {
            Receives::Xdp(redirect) => Next::Sockets(redirect.sockets().clone()),
            Receives::Packet(_) => Next::Pass,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    ports: Vec<OffloadPort>,
    xdp: Option<XdpSocket>,
    /// To ask about other ends of devices.
    links: Option<Socket>,
    /// The ruleset has flowtables for devices.
    flows: bool,
    /// `None` until it is known.
    net: Option<Arc<Network>>,
    /// The generation in force.
    linked: Arc<Linked>,
    /// What the next one requires of the ports.
    wanted: Vec<Option<Wanted>>,
}

impl State {
    /// Loads the programs of the generation in force onto changed ports, like
    /// [`State::run_chains`].
    fn rerun_chains(&mut self) -> Option<Vec<(ChainIndex, u32)>> {
        let wanted = self.load_chains()?;
        self.run_chains(wanted)
    }

    /// What the generation in force wants of the ports, loaded; `None` if it has no chains for
    /// devices.
    fn load_chains(&mut self) -> Option<Vec<Option<Wanted>>> {
        let State { ports, linked, net, .. } = self;
        if !chains::any(linked) {
            return None;
        }
        let mut wanted = chains::wanted(ports, net.as_ref()?, linked).unwrap_or_else(|e| {
            log(e);
            Vec::new()
        });
        for (port, wanted) in ports.iter().zip(&mut wanted) {
            if let Err(e) = port.load(wanted) {
                log(format_args!("{}: chains run in software: {e}", port.name));
                *wanted = None;
            }
        }
        Some(wanted)
    }

    /// Puts what is wanted onto the ports. What runs there, if something has changed.
    fn run_chains(&mut self, wanted: Vec<Option<Wanted>>) -> Option<Vec<(ChainIndex, u32)>> {
        let (running, changed) = self.put_chains(wanted);
        changed.then_some(running)
    }

    /// Puts what is wanted onto the ports. What runs there, and whether something has changed.
    fn put_chains(&mut self, wanted: Vec<Option<Wanted>>) -> (Vec<(ChainIndex, u32)>, bool) {
        let mut running = Vec::new();
        let mut changed = false;
        let wanted = wanted.into_iter().chain(std::iter::repeat_with(|| None));
        for (port, wanted) in self.ports.iter_mut().zip(wanted) {
            let same = port.unchanged(&wanted);
            changed |= same.is_empty() && (wanted.is_some() || port.chains.is_some());
            match port.run_chains(wanted) {
                Ok(pairs) => running.extend(pairs),
                Err(e) => log(format_args!("{}: chains run in software: {e}", port.name)),
            }
        }
        (running, changed)
    }
}

/// What devices do.
#[derive(Debug)]
pub(crate) struct Offload {
    flows: Arc<Flows>,
    ports: Ports,
    /// All flowtables are for devices that can.
    all: bool,
    /// Programs of flows stay when the process dies.
    pins: Option<Pins>,
    state: Mutex<State>,
}

impl Offload {
    /// For these ports. Nothing is on their devices yet.
    pub(crate) fn new(ports: Vec<OffloadPort>, all: bool, pins: Option<Pins>) -> Arc<Self> {
        let xdp = XdpSocket::new()
            .inspect_err(|e| log(format_args!("what devices can do with XDP: {e}")))
            .ok();
        let links =
            Socket::new().inspect_err(|e| log(format_args!("other ends of devices: {e}"))).ok();
        let state = State { ports, xdp, links, ..State::default() };
        let flows = Arc::new(Flows::new(FLOWS));
        Arc::new(Offload { flows, ports: Ports::new(), all, pins, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What takes a worker's flows, and the devices of the network that forward them.
    pub(crate) fn offloader(&self) -> std::io::Result<(Offloader, Vec<u32>)> {
        let hardware = Hardware::new(self.flows.clone(), self.ports.clone());
        let devices = self.devices();
        let first = || seccomp::enter(Thread::FlowOffload);
        Ok((Offloader::start_with(Box::new(hardware), QUEUE, first)?, devices))
    }

    /// Whether devices can run the chains of a generation that are for them.
    pub(crate) fn can_run(&self, linked: &Linked) -> Result<(), CannotOffload> {
        if !chains::any(linked) {
            return Ok(());
        }
        let state = self.lock();
        let Some(net) = &state.net else { return Ok(()) };
        chains::wanted(&state.ports, net, linked).map(drop)
    }

    /// A generation is about to be in force: devices get the programs that it asks for, those of
    /// chains when it is. Returns the chains that run on devices already. The error is a sentence.
    pub(crate) fn prepare(&self, linked: &Linked) -> Result<Vec<(ChainIndex, u32)>, String> {
        self.prepare_flows(linked)?;
        let mut state = self.lock();
        let State { ports, net, wanted, .. } = &mut *state;
        if let Some(net) = net {
            *wanted = chains::wanted(ports, net, linked).map_err(|e| e.to_string())?;
        }
        let mut running = Vec::new();
        for (port, wanted) in ports.iter().zip(wanted) {
            port.load(wanted).map_err(|e| format!("{}: chains cannot be run: {e}", port.name))?;
            running.extend(port.unchanged(wanted));
        }
        Ok(running)
    }

    fn prepare_flows(&self, linked: &Linked) -> Result<(), String> {
        let wanted = self.wants_flows(linked);
        let mut state = self.lock();
        let State { ports, flows, .. } = &mut *state;
        if wanted && !*flows {
            for port in ports.iter_mut() {
                match port.attach_flows(&self.flows).and_then(|()| Ok(self.pin(port)?)) {
                    Ok(()) => {
                        log(format_args!("{}: flows are forwarded {}", port.name, port.words()))
                    }
                    Err(e) if self.all => {
                        log(format_args!("{}: flows stay in software: {e}", port.name))
                    }
                    Err(e) => {
                        let message = format!("{}: flows cannot be forwarded: {e}", port.name);
                        ports.iter_mut().for_each(OffloadPort::detach_flows);
                        self.unpin(ports);
                        return Err(message);
                    }
                }
            }
            *flows = true;
            drop(state);
            self.refresh();
        }
        Ok(())
    }

    /// A generation is in force: its chains go onto their devices, and what it does not ask for
    /// goes. Returns the chains that run on devices then, if others do than were said before.
    pub(crate) fn settle(&self, linked: &Arc<Linked>) -> Option<Vec<(ChainIndex, u32)>> {
        let mut state = self.lock();
        state.linked = linked.clone();
        self.settle_flows(&mut state, linked);
        let wanted = std::mem::take(&mut state.wanted);
        let complete = wanted.len() >= state.ports.len();
        let running = state.run_chains(wanted);
        // A port that has come since knows nothing of the generation.
        if complete { running } else { state.rerun_chains().or(running) }
    }

    fn pin(&self, port: &OffloadPort) -> std::io::Result<()> {
        let link = match &port.receives {
            Receives::Xdp(redirect) => Some(redirect.link()),
            Receives::Packet(_) => port.flows.as_ref().and_then(|f| f.link.as_ref()),
        };
        match self.pins.as_ref().zip(link) {
            Some((pins, link)) => {
                pins.pin(port.device, link)?;
                pins.pin_flows(&self.flows)
            }
            None => Ok(()),
        }
    }

    fn unpin(&self, ports: &[OffloadPort]) {
        if let Some(pins) = &self.pins {
            ports.iter().for_each(|port| pins.unpin(port.device));
            pins.unpin_flows();
        }
    }

    /// All programs go with the process.
    pub(crate) fn end(&self) {
        self.unpin(&self.lock().ports);
        if self.pins.is_some() {
            remove_left();
        }
    }

    fn settle_flows(&self, state: &mut State, linked: &Linked) {
        if state.flows && !self.wants_flows(linked) {
            state.flows = false;
            state.ports.iter().for_each(|port| self.ports.set(port.tap, None));
        }
    }

    fn wants_flows(&self, linked: &Linked) -> bool {
        linked.flowtables.iter().any(|f| self.all || f.is_for_devices())
    }

    /// Looks what devices can do now; it depends on others.
    pub(crate) fn refresh(&self) {
        let mut state = self.lock();
        let State { ports, xdp, links, flows, .. } = &mut *state;
        for port in ports.iter().filter(|p| p.flows.is_some() && p.place() == AttachPoint::Tcx) {
            let can = links
                .as_mut()
                .is_some_and(|links| can_hand_over(links, port.device).unwrap_or(false));
            if let Err(e) = self.flows.hand_over(port.device, can) {
                log(format_args!("{}: packets go out by its queue: {e}", port.name));
            }
        }
        if !*flows {
            // Remaining flows are forwarded until software has them.
            if ports.iter().any(|p| p.flows.is_some()) && self.flows.is_empty().unwrap_or(true) {
                ports.iter_mut().for_each(OffloadPort::detach_flows);
                self.unpin(ports);
            }
        }
        let senders = xdp.as_mut().and_then(|xdp| xdp.senders().ok()).unwrap_or_default();
        for port in ports {
            let (port_tap, place) = (port.tap, port.flows.as_ref().map(|_| port.place()));
            let xdp_sends = senders.contains(&port.device);
            port.sends = xdp_sends;
            if let Receives::Xdp(redirect) = &port.receives {
                redirect.set_sends(xdp_sends);
            }
            if *flows {
                let port = FlowPort { device: port.device, encaps: Encaps::NONE, place, xdp_sends };
                self.ports.set(port_tap, Some(port));
            }
        }
    }

    /// Adds what devices have counted to the counters of rules.
    pub(crate) fn collect(&self) {
        self.lock().ports.iter_mut().filter_map(|p| p.chains.as_mut()).for_each(Running::collect);
    }

    /// Another network is in force: link addresses may have changed. Returns the chains that run on
    /// devices then, if others do.
    pub(crate) fn set_network(&self, net: &Arc<Network>) -> Option<Vec<(ChainIndex, u32)>> {
        let mut state = self.lock();
        state.net = Some(net.clone());
        for port in &mut state.ports {
            let Some(link) = net.link(port.tap).filter(|link| link.mac != port.mac) else {
                continue;
            };
            port.mac = link.mac;
            if port.flows.is_some()
                && let Err(e) = port.attach_flows(&self.flows)
            {
                log(format_args!("{}: flows stay in software: {e}", port.name));
                port.detach_flows();
            }
        }
        let stale = |p: &OffloadPort| {
            let device = chains::device(net, p.tap);
            p.chains.as_ref().zip(device).is_some_and(|(running, device)| !running.suits(&device))
        };
        if !state.ports.iter().any(stale) {
            return None;
        }
        state.rerun_chains()
    }

    /// The device of a port is gone; what was on it is, too.
    pub(crate) fn lose_port(&self, tap: u32) {
        if let Some(port) = self.lock().ports.iter_mut().find(|port| port.tap == tap) {
            port.detach_flows();
            // Another device may get its number.
            let _ = self.flows.hand_over(port.device, false);
        }
        self.ports.set(tap, None);
    }

    /// The device of a port has come back. Returns the chains that run on devices then, which has
    /// to be known before frames come.
    pub(crate) fn set_port(&self, port: OffloadPort) -> Option<Vec<(ChainIndex, u32)>> {
        let mut state = self.lock();
        let State { ports, flows, .. } = &mut *state;
        let place = ports.iter_mut().find(|p| p.tap == port.tap)?;
        *place = port;
        if *flows
            && let Err(e) = place.attach_flows(&self.flows).and_then(|()| Ok(self.pin(place)?))
        {
            log(format_args!("{}: flows stay in software: {e}", place.name));
        }
        let running = state.rerun_chains();
        drop(state);
        self.refresh();
        running
    }

    /// A device has become a port. Returns the chains that run on devices then, which has to be
    /// known before frames come.
    pub(crate) fn add_port(&self, port: OffloadPort) -> Option<Vec<(ChainIndex, u32)>> {
        let mut state = self.lock();
        let State { ports, flows, .. } = &mut *state;
        ports.push(port);
        if *flows
            && let Some(port) = ports.last_mut()
            && let Err(e) = port.attach_flows(&self.flows).and_then(|()| Ok(self.pin(port)?))
        {
            log(format_args!("{}: flows stay in software: {e}", port.name));
        }
        let running = state.rerun_chains();
        drop(state);
        self.refresh();
        running
    }

    /// A port is about to be returned: nothing is left on its device. Returns the chains that run
    /// on devices then, if others do.
    pub(crate) fn remove_port(&self, tap: u32) -> Option<Vec<(ChainIndex, u32)>> {
        self.ports.set(tap, None);
        let mut state = self.lock();
        let at = state.ports.iter().position(|port| port.tap == tap)?;
        let mut port = state.ports.remove(at);
        // A generation that is being prepared asks for something of each port, in their order.
        if at < state.wanted.len() {
            state.wanted.remove(at);
        }
        if let Some(pins) = &self.pins {
            pins.unpin(port.device);
        }
        port.detach_flows();
        let _ = self.flows.hand_over(port.device, false);
        let ran = port.chains.is_some();
        // Without chains it cannot fail.
        let _ = port.run_chains(None);
        drop(port);
        if !ran {
            return None;
        }
        let wanted = state.load_chains().unwrap_or_default();
        Some(state.put_chains(wanted).0)
    }

    /// Indexes of the TAPs of ports with devices that may forward flows.
    pub(crate) fn devices(&self) -> Vec<u32> {
        self.lock().ports.iter().map(|port| port.tap).collect()
    }

    /// What is on the devices.
    pub(crate) fn status(&self) -> Vec<Offloaded> {
        let of = |port: &OffloadPort| Offloaded {
            name: port.name.clone(),
            flows: port.flows.is_some().then(|| port.place().to_string()),
            sends: port.sends,
            chains: port.chains.as_ref().map(|c| c.names.clone()).unwrap_or_default(),
        };
        self.lock().ports.iter().map(of).collect()
    }
}

impl OffloadPort {
    fn words(&self) -> &'static str {
        match self.place() {
            AttachPoint::Xdp => "in XDP",
            AttachPoint::Tcx => "at tcx, where super-packets stay whole",
        }
    }
}
