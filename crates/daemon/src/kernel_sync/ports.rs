// SPDX-License-Identifier: Apache-2.0

//! Devices become ports, and are returned, while packets pass.
//!
//! Each step is one that the guardian, or the record, can go back from: both learn of a device
//! before it is touched, and forget it once it is returned. Workers get a port when the network has
//! its TAP, and forget it before the device is returned; other ports are not concerned.

use penstock_io::device::Tap;
use penstock_net::Link;
use penstock_netlink::Changed;
use penstock_print::show::ports::{Port as ListedPort, Ports, Waiting};

use super::{Followed, KernelSync, OpenedPort, PATIENCE};
use crate::config::{Driver, PortConfig, PortWishes};
use crate::devices::on_death;
use crate::devices::ports::{Port, WireConfig, launcher};
use crate::devices::record::When;
use crate::devices::takeover::{Taken, give_back, prepare, swap};
use crate::devices::wanted::Origin;
use crate::log;
use crate::offload::OffloadPort;
use crate::port_share::shares;
use crate::requests::{Barrier, PortRequest, Request};

impl KernelSync {
    /// Does what is asked of the ports. Returns what is to be printed.
    pub(super) fn carry_out(&mut self, request: PortRequest) -> Result<String, String> {
        match request {
            PortRequest::Add(ports) => self.add_all(&ports).map(|()| String::new()),
            PortRequest::Remove(names) => self.remove_all(&names).map(|()| String::new()),
            PortRequest::List(json) => {
                let ports = self.listed();
                Ok(if json { ports.json() } else { ports.to_string() })
            }
            PortRequest::Configure(wishes) => Ok(self.configure(wishes)),
        }
    }

    fn listed(&self) -> Ports {
        let device = |index: u32| self.state.devices().iter().find(|d| d.link.index == index);
        let port = |port: &Followed| ListedPort {
            name: port.taken.name.clone(),
            device: port.taken.port.clone(),
            before: port.taken.before.clone(),
            driver: name_of(port.driver).to_owned(),
            by: port.by.to_string(),
            up: device(port.taken.tap).is_some_and(|tap| tap.link.up),
            there: !port.gone,
            origin: match &port.origin {
                Origin::Named => "named".to_owned(),
                Origin::Added => "added".to_owned(),
                Origin::Pattern(pattern) => pattern.clone(),
            },
        };
        let wishes = &self.wanted.wishes;
        let is_left = |device: &str| {
            self.state.device(device).is_some_and(|d| self.wanted.is_left(d.link.index))
        };
        let missing = |wish: &&PortConfig| {
            let taken = self.ports.iter().any(|port| port.taken.before == wish.device);
            wish.may_come_later && !taken && !is_left(&wish.device)
        };
        let missing = wishes.named.iter().filter(missing);
        let waiting = missing.map(|wish| (wish.device.clone(), wish.driver));
        let patterns = wishes.patterns.iter().map(|p| (p.pattern.clone(), p.driver));
        let waiting = waiting
            .chain(patterns)
            .map(|(device, driver)| Waiting { device, driver: name_of(driver).to_owned() });
        Ports { ports: self.ports.iter().map(port).collect(), waiting: waiting.collect() }
    }

    /// Reads what the kernel has told of until now. What cannot be read is read later.
    fn catch_up(&mut self) {
        self.listen();
        if let Err(e) = self.take_up() {
            log(format_args!("the kernel's network: {e}"));
            self.changed = Changed::everything();
        }
    }

    /// Devices become ports: all of them, or none.
    fn add_all(&mut self, wishes: &[PortConfig]) -> Result<(), String> {
        self.catch_up();
        let before = self.ports.len();
        for wish in wishes {
            let clash = |p: &Followed| p.taken.before == wish.device || p.taken.name == wish.name;
            let added = match self.ports.iter().find(|port| clash(port)) {
                Some(port) => Err(format!("{}: it is a port already", port.taken.name)),
                None => self.add(wish, Origin::Added),
            };
            if let Err(e) = added {
                for at in (before..self.ports.len()).rev() {
                    self.remove(at).unwrap_or_else(log);
                }
                return Err(e);
            }
        }
        Ok(())
    }

    /// Returns devices: all of them, or none if one of the names is not that of a port.
    fn remove_all(&mut self, names: &[String]) -> Result<(), String> {
        let find = |port: &&Followed, name: &String| {
            let Taken { name: host, before, port, .. } = &port.taken;
            [host, before, port].contains(&name)
        };
        let mut taps = Vec::new();
        for name in names {
            let found = self.ports.iter().find(|port| find(port, name));
            let port = found.ok_or_else(|| format!("{name}: it is not a port"))?;
            taps.push((port.taken.tap, port.taken.device));
        }
        self.catch_up();
        for (tap, device) in taps {
            // A name may have been given twice.
            let Some(at) = self.ports.iter().position(|port| port.taken.tap == tap) else {
                continue;
            };
            self.wanted.leave(device);
            self.remove(at)?;
        }
        Ok(())
    }

    /// Other devices are to be ports than those that were configured. Returns what was done.
    fn configure(&mut self, wishes: PortWishes) -> String {
        let mut said = Vec::new();
        for wish in &wishes.named {
            if let Some(port) = self.ports.iter().find(|port| port.taken.before == wish.device) {
                if port.taken.name != wish.name {
                    said.push(format!(
                        "{}: it stays `{}` until it is removed and added",
                        wish.device, port.taken.name
                    ));
                }
                if port.driver != wish.driver && port.taken.end.is_none() {
                    said.push(format!(
                        "{}: its driver stays `{}` until it is removed and added",
                        wish.device,
                        name_of(port.driver)
                    ));
                }
            }
        }
        let stays = |port: &Followed| match &port.origin {
            Origin::Added => true,
            _ if wishes.named.iter().any(|wish| wish.device == port.taken.before) => true,
            Origin::Named => false,
            Origin::Pattern(_) => wishes.patterns.iter().any(|p| p.matches(&port.taken.before)),
        };
        let leave = (0..self.ports.len()).rev().filter(|at| !stays(&self.ports[*at]));
        for at in leave.collect::<Vec<_>>() {
            let name = self.ports[at].taken.name.clone();
            match self.remove(at) {
                Ok(()) => said.push(format!("{name} is no port any more")),
                Err(e) => said.push(e),
            }
        }
        self.wanted.set(wishes);
        self.catch_up();
        let before = self.ports.len();
        self.take_wanted();
        let new = self.ports.iter().skip(before);
        said.extend(new.map(|port| format!("{} is a port", port.taken.name)));
        said.join("\n")
    }

    /// Devices that were waited for become ports.
    pub(super) fn take_wanted(&mut self) {
        let taken = |index: u32| {
            let is = |port: &Followed| port.taken.tap == index || port.taken.device == index;
            self.ports.iter().any(is)
        };
        let free = self.state.devices().iter().filter(|device| !taken(device.link.index));
        for (index, wish, origin) in self.wanted.next(free) {
            if let Err(e) = self.add(&wish, origin)
                && self.wanted.refuse(index, &e)
            {
                log(format_args!("{e}; it is no port for now"));
            }
        }
    }

    /// Ports by a pattern end with their devices.
    pub(super) fn drop_gone(&mut self) {
        let gone = |port: &Followed| port.gone && matches!(port.origin, Origin::Pattern(_));
        while let Some(at) = self.ports.iter().position(gone) {
            self.remove(at).unwrap_or_else(log);
        }
    }

    /// A device becomes a port, or stays what it was.
    fn add(&mut self, wish: &PortConfig, origin: Origin) -> Result<(), String> {
        let index = self.kept_links.iter().find(|(_, name)| *name == wish.name).map(|(n, _)| *n);
        let (taken, tap) = prepare(&mut self.socket, &self.state, wish, index)?;
        self.guardian.taken(&taken, &tap);
        self.record_with(&taken, When::Before);
        let (link, opened, followed) = match self.open(wish.driver, &taken, &tap) {
            Ok(opened) => opened,
            Err(e) => {
                self.return_device(&taken).unwrap_or_else(log);
                drop(tap);
                self.guardian.returned(taken.tap);
                self.write_down();
                return Err(e);
            }
        };
        drop(tap);
        let offload = OffloadPort::of(&taken, &opened.wire);
        let number = (0..).find(|number| !self.numbers.contains(number)).unwrap_or(0);
        self.numbers.insert(number);
        log(format_args!("{}: {} by {}", taken.name, taken.port, opened.wire.carrier));
        self.ports.push(Followed::new(followed, number, origin, &link));
        // Workers, and programs on devices, must know the TAP before frames come.
        self.catch_up();
        if let Some(running) = offload.and_then(|port| self.offload.add_port(port)) {
            let meeting = Barrier::of(self.workers.count());
            self.workers.tell(|| Request::Offloaded(running.clone(), meeting.clone()));
        }
        self.tell_offload_devices();
        let shares = shares(opened, number).into_iter();
        self.workers.tell_each(shares.map(|share| Request::AddPort(Box::new(share))));
        self.follow_ports();
        self.isolate();
        self.show_taken();
        self.write_down();
        Ok(())
    }

    /// Opens both sides of a port, and puts the TAP in the place of the device.
    fn open(
        &mut self,
        driver: Driver,
        taken: &Taken,
        tap: &Tap,
    ) -> Result<(Link, Port, OpenedPort), String> {
        let failed = |e: std::io::Error| format!("{}: {e}", taken.name);
        let driver = if taken.end.is_some() { Driver::Tap } else { driver };
        let device = self.state.devices().iter().find(|d| d.link.index == taken.device);
        let device = device.ok_or_else(|| format!("{}: the device is gone", taken.before))?;
        let link = device.link.clone();
        let closes = self.on_death.closes() && taken.end.is_none();
        let config = WireConfig::of(device, closes);
        if self.launcher.is_none() {
            self.launcher = launcher(std::iter::once(driver));
        }
        let (workers, launcher) = (self.workers.count(), self.launcher.as_ref());
        let own = || tap.try_clone().map_err(failed);
        let port = match Port::open(taken.clone(), config, driver, own()?, workers, launcher) {
            // AF_XDP may ask for more locked memory than there is by now.
            Err(e) if matches!(driver, Driver::Xdp | Driver::XdpGeneric) => {
                log(format_args!("{e}: trying a packet socket"));
                Port::open(taken.clone(), config, Driver::Packet, own()?, workers, None)
            }
            opened => opened,
        }?;
        if closes {
            on_death::close(&mut self.socket, taken.device, &taken.before)?;
        }
        swap(&mut self.socket, &self.state, taken)?;
        let end = port.wire.end.as_ref().map(Tap::try_clone).transpose().map_err(failed)?;
        let opened =
            OpenedPort { taken: taken.clone(), tap: own()?, end, driver, by: port.wire.carrier };
        Ok((link, port, opened))
    }

    /// Returns the device of a port.
    fn remove(&mut self, at: usize) -> Result<(), String> {
        let Some(port) = self.ports.get_mut(at) else { return Ok(()) };
        let (number, taken, gone) = (port.number, port.taken.clone(), port.gone);
        self.end_mirror(at);
        self.record_with(&taken, When::Ending);
        let running = self.offload.remove_port(taken.tap);
        if let Some(running) = running {
            let meeting = Barrier::of(self.workers.count());
            self.workers.tell(|| Request::Offloaded(running.clone(), meeting.clone()));
        }
        self.tell_offload_devices();
        let barrier = Barrier::of(self.workers.count());
        let forget = |to| Request::RemovePort(number, barrier.clone(), to);
        match self.workers.ask(forget, PATIENCE) {
            // What workers had is closed here, while they go on.
            Some(shares) => {
                drop(shares);
                self.numbers.remove(&number);
            }
            None => log(format_args!("{}: not all workers have answered", taken.name)),
        }
        let Followed { tap, end, .. } = self.ports.remove(at);
        drop(end);
        let returned = match gone {
            true => Ok(()),
            false => self.return_device(&taken),
        };
        drop(tap);
        self.guardian.returned(taken.tap);
        self.show_taken();
        self.catch_up();
        self.write_down();
        match gone {
            true => log(format_args!("{}: the device is gone, and the port with it", taken.name)),
            false => log(format_args!("{}: the device is returned", taken.name)),
        }
        returned
    }

    /// Gives a device back, open.
    fn return_device(&mut self, taken: &Taken) -> Result<(), String> {
        if self.on_death.closes() && taken.end.is_none() {
            on_death::open(&mut self.socket, [taken.device]);
        }
        give_back(&mut self.socket, taken).map(drop)
    }

    /// Writes down what is taken, with a device that is not yet, or no longer.
    fn record_with(&mut self, one: &Taken, when: When) {
        let others = self.ports.iter().map(|port| &port.taken).filter(|t| t.tap != one.tap);
        let mut all: Vec<_> = others.map(|taken| (taken, When::During)).collect();
        all.push((one, when));
        self.recorder.write(&mut self.socket, &self.state, &all);
    }

    fn tell_offload_devices(&self) {
        let devices = self.offload.devices();
        self.workers.tell(|| Request::OffloadDevices(devices.clone()));
    }
}

/// The word of the command line for a driver.
fn name_of(driver: Driver) -> &'static str {
    Driver::NAMES.iter().find(|(_, d)| *d == driver).map_or("auto", |(name, _)| name)
}
