//! The thread that keeps the network in step with the kernel's, devices with their TAPs, and that has neighbours found out.

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_io::device::{Tap, wait};
use penstock_net::{Link, LinkKind, Network};
use penstock_netlink::links::{Change, change};
use penstock_netlink::{Changed, Monitor, Socket, State};

use crate::inbox::Inbox;
use crate::log;
use crate::offload::Offload;
use crate::takeover::Taken;
use crate::worker::Request;

/// What others ask of this thread.
#[derive(Debug)]
pub(crate) enum Ask {
    /// The link address of a neighbour is wanted.
    Resolve(u32, IpAddr),
    /// The end.
    Stop,
}

/// A port, as far as it is followed.
pub(crate) struct Followed {
    pub(crate) taken: Taken,
    pub(crate) tap: Tap,
    /// What kind of link the device is.
    pub(crate) kind: Arc<str>,
    /// What the TAP was told.
    carrier: Option<bool>,
    /// The device has gone, and that was said.
    gone: bool,
}

impl Followed {
    pub(crate) fn new(taken: Taken, tap: Tap, kind: Arc<str>) -> Self {
        Followed { taken, tap, kind, carrier: None, gone: false }
    }
}

pub(crate) struct Follow {
    pub(crate) socket: Socket,
    pub(crate) monitor: Monitor,
    pub(crate) state: State,
    pub(crate) ports: Vec<Followed>,
    pub(crate) offload: Arc<Offload>,
    pub(crate) worker: Arc<Inbox<Request>>,
    pub(crate) asks: Arc<Inbox<Ask>>,
}

impl Follow {
    /// The network of what is known. Rules see the kind of the device, not that a TAP stands for it, and ports of a bridge
    /// are isolated from each other on the host's side only.
    pub(crate) fn network(&self) -> Network {
        let adjust = |link: &mut Link| {
            let Some(port) = self.ports.iter().find(|p| p.taken.tap == link.index) else { return };
            link.kind = LinkKind::Wire { peer: None, kind: port.kind.clone() };
            if let Some(port) = &mut link.port {
                port.isolated = false;
            }
        };
        self.state.network_with(adjust)
    }

    /// Works until it is told to stop.
    pub(crate) fn run(mut self) {
        /// Part of the time that reading the state may take.
        const SHARE: u32 = 4;
        let (mut changed, mut ready) = (Changed::default(), Vec::new());
        let mut earliest = Instant::now();
        self.follow_ports();
        loop {
            let patience = if changed.is_empty() {
                None
            } else {
                Some(earliest.saturating_duration_since(Instant::now()))
            };
            let milliseconds = patience.map_or(-1, |p| p.as_millis().min(1000) as i32 + 1);
            let fds = [self.asks.as_fd(), self.monitor.as_fd()];
            // While there is to be a pause, notifications may pile up.
            let fds = if patience.is_some() { fds.get(..1).unwrap_or_default() } else { &fds };
            if let Err(e) = wait(fds, &mut ready, milliseconds) {
                log(format_args!("waiting for the kernel's network: {e}"));
                std::thread::sleep(Duration::from_secs(1));
            }
            while let Some(ask) = self.asks.take() {
                match ask {
                    // The kernel may have no way there by now.
                    Ask::Resolve(link, address) => drop(self.socket.resolve(link, address)),
                    Ask::Stop => return,
                }
            }
            match self.monitor.take(&mut changed) {
                Ok(true) => {}
                Ok(false) => log("notifications were lost: reading the kernel's network again"),
                Err(e) => log(format_args!("the kernel's network: {e}")),
            }
            if changed.is_empty() || Instant::now() < earliest {
                continue;
            }
            let begun = Instant::now();
            let pause = match self.take_up(&mut changed) {
                Ok(()) => (begun.elapsed() * SHARE).max(Duration::from_millis(1)),
                Err(e) => {
                    log(format_args!("the kernel's network: {e}"));
                    changed = Changed::everything();
                    Duration::from_secs(1)
                }
            };
            earliest = Instant::now() + pause;
            if let Some(gone) = self.lost_tap() {
                log(format_args!("{gone}: somebody has removed the TAP"));
                return;
            }
        }
    }

    /// A port whose TAP is no more.
    fn lost_tap(&self) -> Option<&str> {
        let there = |p: &&Followed| self.state.devices().iter().all(|d| d.link.index != p.taken.tap);
        self.ports.iter().find(there).map(|p| p.taken.name.as_str())
    }

    fn take_up(&mut self, changed: &mut Changed) -> std::io::Result<()> {
        let links = changed.links();
        // Nobody but us sends there: without packets of its own the kernel would forget them.
        for (link, address) in changed.take_stale() {
            let device = self.state.devices().iter().find(|d| d.link.index == link);
            let port = self.ports.iter().any(|p| p.taken.tap == link);
            if port || device.is_some_and(|d| d.link.vlan().is_some() || d.link.bridge().is_some()) {
                let _ = self.socket.resolve(link, address);
            }
        }
        self.state.refresh(&mut self.socket, changed)?;
        let net = Arc::new(self.network());
        self.offload.set_network(&net);
        self.worker.send(Request::Network(net));
        if links {
            self.follow_ports();
        }
        Ok(())
    }

    /// What the host does to a TAP is done to its device; the device's carrier is the TAP's.
    fn follow_ports(&mut self) {
        let devices = self.state.devices();
        for port in &mut self.ports {
            let of = |index: u32| devices.iter().find(|d| d.link.index == index);
            let carrier = of(port.taken.device).is_some_and(|d| d.carrier);
            if port.carrier != Some(carrier) && port.tap.set_carrier(carrier).is_ok() {
                port.carrier = Some(carrier);
            }
            let (Some(tap), device) = (of(port.taken.tap), of(port.taken.device)) else { continue };
            let Some(device) = device else {
                if !std::mem::replace(&mut port.gone, true) {
                    log(format_args!("{}: the device is gone", port.taken.port));
                }
                continue;
            };
            let mut changes = Vec::new();
            if tap.link.mtu != device.link.mtu {
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
