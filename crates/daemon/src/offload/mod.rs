//! What the devices of ports do themselves, by programs on them: established flows forwarded, chains of ingress run.
//!
//! ```text
//! wire -> XDP:  [ flows -> chains ] -> AF_XDP socket, or the kernel, whose packet sockets we have
//! wire -> tcx:  [ flows ] -> shut            (packet sockets have seen it before: a filter keeps flows from them)
//! ```
//!
//! Flows are forwarded in XDP where frames come one by one, and at tcx where super-packets arrive (from a veth, from the host
//! of a virtual machine), which XDP would have to cut. A program is on a device only while the ruleset asks for it. All of it
//! is held by descriptors, and goes with the process.

mod flows;

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_bpf::{Next, Place};
use penstock_ebpf::flow::{Flows, Hardware, Port as FlowPort, Ports};
use penstock_flowtable::Offloader;
use penstock_flowtable::arrival::Encaps;
use penstock_io::device::Redirect;
use penstock_net::Network;
use penstock_netlink::XdpSocket;
use penstock_ruleset::link::Linked;
use penstock_wire::ethernet::Mac;

use crate::log;
use crate::ports::{Wire, has_super_packets};
use crate::takeover::Taken;
pub(crate) use flows::Attached;

/// Directions of flows that devices forward at most, of each family.
const FLOWS: u32 = 1 << 17;
/// Requests for flows that wait at most, of a worker.
const QUEUE: usize = 4096;

/// How frames of a port are received, as far as programs have to know.
#[derive(Clone, Debug)]
pub(crate) enum Receives {
    /// By AF_XDP sockets, behind the program that gives frames to them.
    Xdp(Arc<Redirect>),
    /// By packet sockets.
    Packet(Arc<Vec<OwnedFd>>),
}

/// A port whose device may do more.
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
    /// The device is one of the kernel's own: a veth, for instance. Neighbours on the same machine leave checksums to it.
    pub(crate) is_virtual: bool,
    /// Super-packets arrive by it, where nothing cuts them.
    pub(crate) super_packets: bool,
    /// What receives.
    pub(crate) receives: Receives,
    /// What forwards flows, while something does.
    pub(crate) flows: Option<Attached>,
}

impl OffloadPort {
    /// A port whose device has been opened.
    pub(crate) fn of(taken: &Taken, wire: &Wire) -> Self {
        let Wire { config, receives, .. } = wire;
        OffloadPort {
            name: taken.name.clone(),
            tap: taken.tap,
            device: taken.device,
            mac: config.mac,
            is_virtual: config.is_virtual,
            super_packets: has_super_packets(&taken.before, config),
            receives: receives.clone(),
            flows: None,
        }
    }

    /// Where flows are forwarded.
    fn place(&self) -> Place {
        match self.receives {
            Receives::Packet(_) if self.super_packets => Place::Tcx,
            Receives::Packet(_) | Receives::Xdp(_) => Place::Xdp,
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

/// A port's programs in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offloaded {
    /// What the host calls the port.
    pub name: String,
    /// Where its flows are forwarded, if somewhere: `xdp`, `tcx`.
    pub flows: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    ports: Vec<OffloadPort>,
    xdp: Option<XdpSocket>,
    /// The ruleset has flowtables for devices.
    flows: bool,
}

/// What devices do.
#[derive(Debug)]
pub(crate) struct Offload {
    flows: Arc<Flows>,
    ports: Ports,
    /// All flowtables are for devices that can.
    all: bool,
    state: Mutex<State>,
}

impl Offload {
    /// For these ports. Nothing is on their devices yet.
    pub(crate) fn new(ports: Vec<OffloadPort>, all: bool) -> Arc<Self> {
        let xdp =
            XdpSocket::new().inspect_err(|e| log(format_args!("what devices can do with XDP: {e}"))).ok();
        let state = State { ports, xdp, flows: false };
        let flows = Arc::new(Flows::new(FLOWS));
        Arc::new(Offload { flows, ports: Ports::new(), all, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What takes a worker's flows, and the devices of the network that forward them.
    pub(crate) fn offloader(&self) -> std::io::Result<(Offloader, Vec<u32>)> {
        let hardware = Hardware::new(self.flows.clone(), self.ports.clone());
        let devices = self.lock().ports.iter().map(|p| p.tap).collect();
        Ok((Offloader::start(Box::new(hardware), QUEUE)?, devices))
    }

    /// A generation is about to be in force: devices get the programs that it asks for. The error is a sentence.
    pub(crate) fn prepare(&self, linked: &Linked) -> Result<(), String> {
        let wanted = self.wants_flows(linked);
        let mut state = self.lock();
        let State { ports, flows, .. } = &mut *state;
        if wanted && !*flows {
            for port in ports.iter_mut() {
                match port.attach_flows(&self.flows) {
                    Ok(()) => log(format_args!("{}: flows are forwarded {}", port.name, port.words())),
                    Err(e) if self.all => log(format_args!("{}: flows stay in software: {e}", port.name)),
                    Err(e) => {
                        let message = format!("{}: flows cannot be forwarded: {e}", port.name);
                        ports.iter_mut().for_each(OffloadPort::detach_flows);
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

    /// A generation is in force: what it does not ask for goes.
    pub(crate) fn settle(&self, linked: &Linked) {
        let mut state = self.lock();
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
        let State { ports, xdp, flows } = &mut *state;
        if !*flows {
            // Flows that are still there are forwarded until software has them.
            if ports.iter().any(|p| p.flows.is_some()) && self.flows.is_empty().unwrap_or(true) {
                ports.iter_mut().for_each(OffloadPort::detach_flows);
            }
            return;
        }
        let senders = xdp.as_mut().and_then(|xdp| xdp.senders().ok()).unwrap_or_default();
        for port in ports {
            let place = port.flows.as_ref().map(|_| port.place());
            let xdp_sends = senders.contains(&port.device);
            self.ports.set(
                port.tap,
                Some(FlowPort { device: port.device, encaps: Encaps::NONE, place, xdp_sends }),
            );
        }
    }

    /// Another network is in force: link addresses may have changed.
    pub(crate) fn set_network(&self, net: &Network) {
        let mut state = self.lock();
        for port in &mut state.ports {
            let Some(link) = net.link(port.tap).filter(|link| link.mac != port.mac) else { continue };
            port.mac = link.mac;
            if port.flows.is_some()
                && let Err(e) = port.attach_flows(&self.flows)
            {
                log(format_args!("{}: flows stay in software: {e}", port.name));
                port.detach_flows();
            }
        }
    }

    /// The device of a port is gone; what was on it is, too.
    pub(crate) fn lose_port(&self, tap: u32) {
        if let Some(port) = self.lock().ports.iter_mut().find(|port| port.tap == tap) {
            port.detach_flows();
        }
        self.ports.set(tap, None);
    }

    /// The device of a port has come back.
    pub(crate) fn set_port(&self, port: OffloadPort) {
        let mut state = self.lock();
        let State { ports, flows, .. } = &mut *state;
        let Some(place) = ports.iter_mut().find(|p| p.tap == port.tap) else { return };
        *place = port;
        if *flows && let Err(e) = place.attach_flows(&self.flows) {
            log(format_args!("{}: flows stay in software: {e}", place.name));
        }
        drop(state);
        self.refresh();
    }

    /// What is on the devices.
    pub(crate) fn status(&self) -> Vec<Offloaded> {
        let of = |port: &OffloadPort| Offloaded {
            name: port.name.clone(),
            flows: port.flows.is_some().then(|| port.place().to_string()),
        };
        self.lock().ports.iter().map(of).collect()
    }
}

impl OffloadPort {
    fn words(&self) -> &'static str {
        match self.place() {
            Place::Xdp => "in XDP",
            Place::Tcx => "at tcx, where super-packets stay whole",
        }
    }
}
