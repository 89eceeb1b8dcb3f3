// SPDX-License-Identifier: Apache-2.0

//! Chains at ingress that a port's device runs.

use std::cmp::Reverse;

use penstock_bpf::{AttachPoint, Link, LoadError, Map, MapKind, MapSpec, Mode, Next, Program};
use penstock_dataplane::{OffloadedChain, can_run_chains, interface};
use penstock_ebpf::rules::{
    Compiled, Counters, Device, Entry, Job, NotOffloadable, Place, compile,
};
use penstock_net::Network;
use penstock_program::image::ChainIndex;
use penstock_ruleset::Family;
use penstock_ruleset::link::{CannotOffload, Linked, OffloadPart};
use std::sync::Arc;

use super::{OffloadPort, Receives};

/// Chains on a device, until it is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    compiled: Compiled,
    device: Device,
    program: Program,
    counters: Counters,
    /// `None` if it precedes AF_XDP sockets, or follows the program of flows.
    link: Option<Link>,
    pub(super) names: Vec<String>,
}

impl Running {
    /// Adds what it has counted to the rules' counters.
    pub(super) fn collect(&mut self) {
        // A map that is there can be read.
        let _ = self.counters.collect();
    }

    /// Goes on by the link of the program that stood before it.
    pub(super) fn take_link(&mut self, link: Option<Link>) {
        self.link = link;
    }

    /// Whether it is still what the device is.
    pub(super) fn suits(&self, device: &Device) -> bool {
        self.device == *device
    }
}

/// What a generation requires of a port.
#[derive(Debug)]
pub(super) struct Wanted {
    compiled: Compiled,
    device: Device,
    chains: Vec<ChainIndex>,
    names: Vec<String>,
    /// `None` if the present program is equivalent.
    loaded: Option<(Program, Counters)>,
}

/// The map by which the program of flows finds the one of chains.
pub(super) fn programs() -> Arc<Map> {
    let spec = MapSpec { name: "stages", kind: MapKind::Programs, key: 4, value: 4, entries: 1 };
    Arc::new(Map::new(spec))
}

/// The place of chains in it.
pub(super) const CHAINS: u32 = 0;

/// What rules see of the device of a port.
pub(super) fn device(net: &Network, tap: u32) -> Option<Device> {
    let link = net.link(tap)?;
    Some(Device { index: tap, mac: link.mac, interface: interface(link) })
}

/// Whether a generation has chains for devices.
pub(super) fn any(linked: &Linked) -> bool {
    OffloadedChain::all(linked).next().is_some()
}

/// What a generation requires of each port, as a program that is not loaded yet.
pub(super) fn wanted(
    ports: &[OffloadPort],
    net: &Network,
    linked: &Linked,
) -> Result<Vec<Option<Wanted>>, CannotOffload> {
    let devices: Vec<u32> = ports.iter().map(|p| p.tap).collect();
    can_run_chains(net, linked, &devices)?;
    ports.iter().map(|port| port.wanted(net, linked)).collect()
}

impl OffloadPort {
    fn wanted(&self, net: &Network, linked: &Linked) -> Result<Option<Wanted>, CannotOffload> {
        let Some((link, device)) = net.link(self.tap).zip(device(net, self.tap)) else {
            return Ok(None);
        };
        let mut all: Vec<_> =
            OffloadedChain::all(linked).filter(|c| c.is_for(&link.name)).collect();
        all.sort_by_key(|c| (c.base.base.priority, Reverse(c.base.base.registered)));
        let Some(first) = all.first() else { return Ok(None) };
        let entry = |c: &OffloadedChain<'_>| match c.base.family {
            Family::Inet => Entry::Inet(c.base.chain),
            _ => Entry::Netdev(c.base.chain),
        };
        let entries: Vec<_> = all.iter().map(entry).collect();
        let next = self.rest();
        let job = Job {
            image: &linked.image,
            entries: &entries,
            place: Place::Xdp(&device),
            next: &next,
            shared: None,
            routes: None,
        };
        let compiled = compile(job).map_err(|refused| {
            let NotOffloadable { rule, reason, .. } = refused;
            let place = rule.and_then(|rule| linked.image.place(rule));
            let (table, chain) = place.map_or_else(
                || (first.table(), first.name()),
                |(_, table, chain, _)| (table.clone(), chain.clone()),
            );
            let owner = all.iter().find(|c| c.table() == table).unwrap_or(first).base;
            let part = OffloadPart::Chain { chain, rule: place.map(|(.., handle)| handle), reason };
            let place = format!("device {}", link.name);
            CannotOffload { family: owner.family, table, part, place }
        })?;
        let chains = all.iter().map(|c| c.base.chain).collect();
        let names =
            all.iter().map(|c| format!("{} {} {}", c.base.family.name(), c.table(), c.name()));
        Ok(Some(Wanted { compiled, device, chains, names: names.collect(), loaded: None }))
    }

    /// Loads what is wanted, unless it is there.
    pub(super) fn load(&self, wanted: &mut Option<Wanted>) -> Result<(), LoadError> {
        let Some(wanted) = wanted else { return Ok(()) };
        let same = |running: &Running| {
            running.compiled.is_same(&wanted.compiled) && running.suits(&wanted.device)
        };
        if !self.chains.as_ref().is_some_and(same) {
            wanted.loaded = Some(wanted.compiled.load("penstock_chains")?);
        }
        Ok(())
    }

    /// Chains that run here already.
    pub(super) fn unchanged(&self, wanted: &Option<Wanted>) -> Vec<(ChainIndex, u32)> {
        wanted.iter().filter(|w| w.loaded.is_none()).flat_map(|w| self.pairs(w)).collect()
    }

    fn pairs(&self, wanted: &Wanted) -> Vec<(ChainIndex, u32)> {
        wanted.chains.iter().map(|chain| (*chain, self.tap)).collect()
    }

    /// Replaces the programs by the required ones. Returns what runs here then.
    pub(super) fn run_chains(
        &mut self,
        wanted: Option<Wanted>,
    ) -> std::io::Result<Vec<(ChainIndex, u32)>> {
        let Some(mut wanted) = wanted else {
            self.stop_chains();
            return Ok(Vec::new());
        };
        let pairs = self.pairs(&wanted);
        let Some((program, counters)) = wanted.loaded.take() else {
            if let Some(running) = &mut self.chains {
                running.names = wanted.names;
            }
            return Ok(pairs);
        };
        let mut before = self.chains.take();
        let link = before.as_mut().and_then(|b| b.link.take());
        let Wanted { compiled, device, names, .. } = wanted;
        self.chains = Some(Running { compiled, device, program, counters, link, names });
        let result = self.arrange();
        if let Some(mut before) = before {
            before.collect();
        }
        if result.is_err() {
            self.stop_chains();
        }
        result.map(|()| pairs)
    }

    fn stop_chains(&mut self) {
        if let Some(mut before) = self.chains.take() {
            // The device may be gone by now.
            let _ = self.arrange();
            drop(before.link.take());
            before.collect();
        }
    }

    /// How XDP programs run on a device with packet sockets: in a driver that would have to cut
    /// super-packets they do not.
    pub(super) fn xdp_mode(&self) -> Mode {
        if self.super_packets { Mode::Generic } else { Mode::Any }
    }

    /// What follows the program of flows in XDP.
    pub(super) fn behind_flows(&self) -> Next {
        let programs = self.programs.clone();
        Next::Program { programs, index: CHAINS, otherwise: Box::new(self.rest()) }
    }

    /// Puts the programs of the port in their order: flows, chains, the rest.
    pub(super) fn arrange(&mut self) -> std::io::Result<()> {
        let mode = self.xdp_mode();
        let chains = self.chains.as_ref().map(|c| &c.program);
        let flows = self.flows.as_mut().filter(|f| f.program.place() == Some(AttachPoint::Xdp));
        match (chains, &flows) {
            (Some(chains), Some(_)) => chains.enter_into(&self.programs, CHAINS)?,
            // Nothing may be there.
            _ => drop(self.programs.remove(&CHAINS.to_ne_bytes())?),
        }
        match &self.receives {
            Receives::Xdp(redirect) => redirect.put_in_front(flows.map(|f| &f.program).or(chains)),
            Receives::Packet(_) => {
                // One link for both of them.
                match (flows, &mut self.chains) {
                    (Some(flows), chains) => {
                        let link =
                            chains.as_mut().and_then(|c| c.link.take()).or(flows.link.take());
                        flows.link = Some(attached(link, &flows.program, self.device, mode)?);
                    }
                    (None, Some(chains)) => {
                        chains.link =
                            Some(attached(chains.link.take(), &chains.program, self.device, mode)?);
                    }
                    (None, None) => {}
                }
                Ok(())
            }
        }
    }
}

/// Attaches a program by the link of its predecessor, or by a new link.
fn attached(
    link: Option<Link>,
    program: &Program,
    device: u32,
    mode: Mode,
) -> std::io::Result<Link> {
    match link {
        Some(link) => link.replace(program).map(|()| link),
        None => program.attach(device, mode),
    }
}
