// SPDX-License-Identifier: Apache-2.0

//! The way of packets through a network: its devices, and the base chains at each hook.

mod frames;
mod ids;
mod passing;

use std::sync::Arc;

use penstock_net::{LOOPBACK, Network};
use penstock_program::env::{BridgePort, Interface};
use penstock_program::{ChainType, Family, Hook};

use crate::base::Base;
use crate::place::Place;
pub(crate) use passing::{Code, Crossing, Id, Passing, Stage, Step, Tag};

/// Where packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// They arrive on a device.
    Arrival,
    /// The host sends them.
    Host,
}

impl Start {
    /// Where packets are looked at first: what is asked of them is asked there.
    pub fn place(self) -> Place {
        let hook = match self {
            Start::Arrival => Hook::Prerouting,
            Start::Host => Hook::Output,
        };
        Place { family: Family::Inet, hook }
    }
}

/// A device of the network.
#[derive(Clone, Debug)]
pub struct Device {
    /// The index by which rules know it.
    pub index: u32,
    /// Its index in the network.
    pub link: u32,
    /// What rules ask about it.
    pub interface: Interface,
}

/// Base chains that packets pass together, in the order of their priority.
#[derive(Clone, Debug)]
pub struct Passage {
    /// The hook.
    pub hook: Hook,
    /// The device that they are bound to, as rules know it, at ingress and egress.
    pub device: Option<u32>,
    /// They are chains of bridges.
    pub of_bridges: bool,
    /// The chains; not empty.
    pub bases: Vec<Base>,
}

impl Passage {
    /// Whether the chains filter: what they decide is what decides of a packet. What leaves by a
    /// bridge was decided before.
    pub(crate) fn filters(&self) -> bool {
        match self.hook {
            Hook::Input | Hook::Forward => true,
            Hook::Output => !self.of_bridges,
            Hook::Prerouting | Hook::Postrouting | Hook::Ingress | Hook::Egress => false,
        }
    }
}

/// The way of packets through a network.
#[derive(Clone)]
pub struct Way<'a> {
    /// Routes, addresses and devices.
    pub network: &'a Network,
    /// The devices of it.
    pub devices: Vec<Device>,
    /// The chains at all hooks.
    pub passages: Vec<Passage>,
    /// Where the packets come from.
    pub start: Start,
    /// Whether connections of IPv4, and of IPv6, may be translated.
    translates: [bool; 2],
}

/// A base chain with its hook.
#[derive(Clone, Copy, Debug)]
pub struct Bound<'a> {
    /// The hook.
    pub hook: Hook,
    /// Devices that it is bound to, by their names; a name that ends with `*` is the start of
    /// several.
    pub devices: &'a [Arc<str>],
    /// The chain.
    pub base: Base,
}

impl Bound<'_> {
    /// Whether the chain is bound to a device.
    pub fn is_on(&self, device: &str) -> bool {
        self.devices.iter().any(|of| match of.strip_suffix('*') {
            Some(start) => device.starts_with(start),
            None => **of == *device,
        })
    }
}

/// Hooks of the IP families, which packets pass whatever their device is, and of bridges.
const HOOKS: [Hook; 5] =
    [Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting];

impl<'a> Way<'a> {
    /// The way through a network with these chains, in the order in which packets pass those of one
    /// hook. Chains of other families than IP, bridge and netdev are none of it.
    pub fn new(
        network: &'a Network,
        start: Start,
        devices: Vec<Device>,
        chains: &[Bound<'_>],
    ) -> Self {
        let mut passages = Vec::new();
        let mut add = |hook: Hook, device: Option<u32>, is_here: &dyn Fn(&Bound<'_>) -> bool| {
            let here = chains.iter().filter(|bound| bound.hook == hook && is_here(bound));
            let bases: Vec<Base> = here.map(|bound| bound.base).collect();
            if !bases.is_empty() {
                let of_bridges = bases.iter().all(|base| base.family == Family::Bridge);
                passages.push(Passage { hook, device, of_bridges, bases });
            }
        };
        for hook in HOOKS {
            add(hook, None, &|bound| bound.base.family.is_ip());
            add(hook, None, &|bound| bound.base.family == Family::Bridge);
        }
        for hook in [Hook::Ingress, Hook::Egress] {
            for device in &devices {
                let name = network.name_of(device.link);
                add(hook, Some(device.index), &|bound| bound.is_on(&name));
            }
        }
        let nat = |family: Family| {
            let mut bases = chains.iter().map(|bound| bound.base);
            bases.any(|base| {
                base.kind == ChainType::Nat
                    && (base.family == family || base.family == Family::Inet)
            })
        };
        let translates = [nat(Family::Ip), nat(Family::Ip6)];
        Way { network, devices, passages, start, translates }
    }

    /// All its chains.
    pub fn bases(&self) -> Vec<Base> {
        self.passages.iter().flat_map(|passage| &passage.bases).copied().collect()
    }
}

impl Way<'_> {
    /// Devices on which packets arrive that IP gets: those that are up, and are no ports of bridges,
    /// whose packets arrive on the bridge.
    pub(crate) fn arrivals(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|device| {
            device.link != LOOPBACK
                && self.network.link(device.link).is_some_and(|link| link.up && link.port.is_none())
        })
    }

    /// The device of a link.
    pub(crate) fn device(&self, link: u32) -> Option<&Device> {
        self.devices.iter().find(|device| device.link == link)
    }

    /// What rules ask of a port of a bridge.
    pub(crate) fn as_port(&self, link: u32) -> Option<BridgePort> {
        let port = self.network.link(link)?.port.as_ref()?;
        let link = self.network.link(port.bridge)?;
        let bridge = link.bridge()?;
        let mut name = [0; 16];
        name.iter_mut().zip(link.name.bytes()).for_each(|(to, from)| *to = from);
        let vlan = bridge.vlan_filtering.then_some((port.vlans.pvid, bridge.vlan_protocol));
        Some(BridgePort { bridge: name, address: link.mac.0, vlan })
    }

    /// The chains of IP at a hook.
    pub(crate) fn passage(&self, hook: Hook) -> Option<&Passage> {
        let mut here = self.passages.iter().filter(|passage| passage.hook == hook);
        here.find(|passage| !passage.of_bridges && passage.device.is_none())
    }

    /// The chains that frames pass at a step.
    pub(crate) fn passage_at(&self, step: &Step<'_>) -> Option<&Passage> {
        let (hook, device) = match step.stage {
            Stage::Ingress => (Hook::Ingress, step.iif),
            Stage::Egress => (Hook::Egress, step.oif),
            Stage::Bridge(hook) => (hook, None),
        };
        let of_bridges = matches!(step.stage, Stage::Bridge(_));
        let index = device.map(|device| device.index);
        self.passages.iter().find(|passage| {
            (passage.hook, passage.of_bridges, passage.device) == (hook, of_bridges, index)
        })
    }

    /// Whether connections may be translated.
    pub(crate) fn translates(&self) -> bool {
        self.translates.contains(&true)
    }

    /// Whether connections of IPv6, or of IPv4, may be translated.
    pub(crate) fn translates_of(&self, v6: bool) -> bool {
        self.translates[usize::from(v6)]
    }

    /// Connections may be translated if they may be on one of two ways.
    pub(crate) fn share_connections(&mut self, other: &mut Way<'_>) {
        for (own, of_other) in self.translates.iter_mut().zip(&mut other.translates) {
            let either = *own || *of_other;
            (*own, *of_other) = (either, either);
        }
    }
}
