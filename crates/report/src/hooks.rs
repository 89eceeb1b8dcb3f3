// SPDX-License-Identifier: Apache-2.0

//! What passed the hooks.

use std::collections::BTreeMap;

use penstock_program::{Family, Hook};

/// Which hooks are meant: each layer has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// Ingress and egress of devices.
    Device,
    /// IPv4 and IPv6 together.
    Ip,
    /// Bridges.
    Bridge,
    /// ARP.
    Arp,
}

impl Layer {
    /// The layer that a base chain of a family is in.
    pub fn of(family: Family, hook: Hook) -> Layer {
        match (family, hook) {
            (_, Hook::Ingress | Hook::Egress) => Layer::Device,
            (Family::Bridge, _) => Layer::Bridge,
            (Family::Arp, _) => Layer::Arp,
            (Family::Inet | Family::Ip | Family::Ip6 | Family::Netdev, _) => Layer::Ip,
        }
    }
}

/// Packets at a hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets that came to its first chain.
    pub entered: u64,
    /// Those that came out of its last chain.
    pub left: u64,
}

/// What passed; `None` is what nobody has counted.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// Frames that devices received.
    pub received: Option<u64>,
    /// Frames that devices transmitted.
    pub transmitted: Option<u64>,
    /// Packets for the host.
    pub delivered: Option<u64>,
    /// Packets of the host.
    pub from_host: Option<u64>,
    /// Packets that were routed to another device.
    pub forwarded: Option<u64>,
    /// Packets that flowtables forwarded.
    pub flowtable: Option<u64>,
    /// Hooks at which packets were counted.
    pub passed: BTreeMap<(Layer, Hook), Passed>,
}

impl Hooks {
    pub(crate) fn entered(&self, layer: Layer, hook: Hook) -> Option<u64> {
        self.passed.get(&(layer, hook)).map(|passed| passed.entered)
    }

    pub(crate) fn left(&self, layer: Layer, hook: Hook) -> Option<u64> {
        self.passed.get(&(layer, hook)).map(|passed| passed.left)
    }

    /// Packets that did not come out of a hook.
    pub(crate) fn stopped(&self, layer: Layer, hook: Hook) -> u64 {
        let passed = self.passed.get(&(layer, hook));
        passed.map_or(0, |passed| passed.entered.saturating_sub(passed.left))
    }
}
