// SPDX-License-Identifier: Apache-2.0

//! Gates that stay in the kernel when this process ends, and that the next one continues with.
//!
//! A gate has two names: that of its link, and that of its programs. One name more is that of the
//! number of the generation, which all gates read.

use std::io;

use penstock_bpf::{InetFamily, InetHook, Link, NetfilterHook};
use penstock_ebpf::dispatch::{self, Generations};

use super::gate::Gate;
use super::wanted::Spot;
use crate::pins::Pins;

/// Names of attached rulesets begin so.
const ATTACHED: &str = "attached-";
const GENERATION: &str = "attached-generation";
const LINK: &str = "attached-link-";
const PROGRAMS: &str = "attached-programs-";

const FAMILIES: [InetFamily; 2] = [InetFamily::V4, InetFamily::V6];

/// Family and hook as part of a name.
fn hook_name(hook: NetfilterHook) -> String {
    hook.to_string().replace(' ', "-")
}

/// The place as part of a name. Names in a file system of type bpf have no dots.
fn name(spot: Spot) -> String {
    match spot {
        Spot::Xdp { device, generic: false } => format!("xdp-{device}"),
        Spot::Xdp { device, generic: true } => format!("generic-{device}"),
        Spot::TcxIngress { device } => format!("ingress-{device}"),
        Spot::TcxEgress { device } => format!("egress-{device}"),
        Spot::Netfilter { hook, priority } => format!("{}-{priority}", hook_name(hook)),
        Spot::BridgePrerouting { device } => format!("prerouting-{device}"),
        Spot::BridgeGroups { device } => format!("groups-{device}"),
        Spot::BridgeInput { device } => format!("input-{device}"),
        Spot::BridgeForward { device } => format!("forward-{device}"),
    }
}

/// The place that a name says.
fn spot(name: &str) -> Option<Spot> {
    let hooks = FAMILIES.into_iter().flat_map(|family| {
        InetHook::ALL.into_iter().map(move |hook| NetfilterHook { family, hook })
    });
    for hook in hooks {
        if let Some(priority) = name.strip_prefix(&format!("{}-", hook_name(hook))) {
            return Some(Spot::Netfilter { hook, priority: priority.parse().ok()? });
        }
    }
    let (first, rest) = name.split_once('-')?;
    let device = rest.parse().ok()?;
    Some(match first {
        "xdp" => Spot::Xdp { device, generic: false },
        "generic" => Spot::Xdp { device, generic: true },
        "ingress" => Spot::TcxIngress { device },
        "egress" => Spot::TcxEgress { device },
        "prerouting" => Spot::BridgePrerouting { device },
        "groups" => Spot::BridgeGroups { device },
        "input" => Spot::BridgeInput { device },
        "forward" => Spot::BridgeForward { device },
        _ => return None,
    })
}

/// Whether an earlier process of this network namespace has left gates.
pub(crate) fn is_left() -> bool {
    Pins::left().is_some_and(|left| left.names().iter().any(|name| name.starts_with(ATTACHED)))
}

/// What an earlier process has left.
#[derive(Debug)]
pub(super) struct Left {
    pins: Pins,
    names: Vec<String>,
}

impl Left {
    /// It has no names from here on, and goes with this process.
    pub(super) fn unpin(self) {
        self.names.iter().for_each(|name| self.pins.remove(name));
    }
}

/// Continues with what an earlier process has left: the number of the generation, and gates with
/// programs of that generation. They stay until [`Left::unpin`], whatever becomes of this process.
pub(super) fn adopt() -> Option<(Generations, Vec<Gate>, Left)> {
    let left = Pins::left()?;
    let generations = Generations::pinned(&left.path(GENERATION)).ok()?;
    let gate = |name: String| {
        let place = name.strip_prefix(LINK)?;
        let spot = spot(place)?;
        let link = Link::pinned(&left.path(&name)).ok()?;
        let programs = left.path(&format!("{PROGRAMS}{place}"));
        Some(Gate::adopted(spot, dispatch::Gate::pinned(&programs).ok()?, link))
    };
    let mut names = left.names();
    names.retain(|name| name.starts_with(ATTACHED));
    let gates = names.iter().cloned().filter_map(gate).collect();
    Some((generations, gates, Left { pins: left, names }))
}

impl Pins {
    /// The number of the generation outlives the process.
    pub(super) fn pin_generations(&self, generations: &Generations) -> io::Result<()> {
        self.remove(GENERATION);
        generations.pin(&self.path(GENERATION))
    }

    /// A gate outlives the process.
    pub(super) fn pin_gate(&self, gate: &Gate) -> io::Result<()> {
        let place = name(gate.spot());
        let [programs, link] = [PROGRAMS, LINK].map(|kind| format!("{kind}{place}"));
        // Those of a gate that is gone with its device.
        self.remove(&programs);
        self.remove(&link);
        gate.pin(&self.path(&programs), &self.path(&link))
    }

    /// A gate goes with the process.
    pub(super) fn unpin_gate(&self, spot: Spot) {
        let place = name(spot);
        [LINK, PROGRAMS].iter().for_each(|kind| self.remove(&format!("{kind}{place}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_place() {
        let hook = |family, hook| NetfilterHook { family, hook };
        for place in [
            Spot::Xdp { device: 3, generic: false },
            Spot::Xdp { device: 3, generic: true },
            Spot::TcxIngress { device: 14 },
            Spot::TcxEgress { device: 15 },
            Spot::BridgePrerouting { device: 2 },
            Spot::BridgeGroups { device: 2 },
            Spot::BridgeInput { device: 16 },
            Spot::BridgeForward { device: 17 },
            Spot::Netfilter { hook: hook(InetFamily::V4, InetHook::Prerouting), priority: -300 },
            Spot::Netfilter { hook: hook(InetFamily::V6, InetHook::Output), priority: i32::MAX },
        ] {
            assert_eq!(spot(&name(place)), Some(place), "{}", name(place));
        }
        assert_eq!([spot("xdp"), spot("ip-hook-3"), spot("other-3")], [None; 3]);
    }
}
