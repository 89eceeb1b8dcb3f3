// SPDX-License-Identifier: Apache-2.0

//! Where a program of chains runs.

use std::fmt;

use penstock_bpf::{NetfilterHook, ProgramKind};
use penstock_wire::ethernet::Mac;

use super::Device;

/// Where a program of chains runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// XDP of a device in its driver, for chains at its ingress hook.
    Xdp(&'a Device),
    /// XDP of a device in the kernel's generic way, for chains at its ingress hook.
    XdpGeneric(&'a Device),
    /// tcx ingress of a device, for chains at its ingress hook.
    TcxIngress(&'a Device),
    /// tcx egress of a device, for chains at its egress hook.
    TcxEgress(&'a Device),
    /// A netfilter hook.
    Netfilter(NetfilterHook),
    /// tcx of a port of a bridge or of the bridge, for chains of bridge tables.
    Bridge(BridgeHook<'a>, &'a Device),
}

/// Where frames of a bridge meet its chains: which of its hooks a program at tcx stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BridgeHook<'a> {
    /// Ingress of a port, for chains at prerouting. The link address is that of the bridge.
    Prerouting(Mac),
    /// Ingress of a port, for chains at input, where frames to link-local groups are that the bridge
    /// hands to the port itself.
    Groups,
    /// Ingress of the bridge, for chains at input: all other frames that come to the host.
    Input,
    /// Egress of a port, for chains at forward: frames that came by one of these ports.
    Forward(&'a [Device]),
}

impl<'a> Place<'a> {
    /// What a program is that runs there.
    pub fn kind(self) -> ProgramKind {
        match self {
            Place::Xdp(_) | Place::XdpGeneric(_) => ProgramKind::Xdp,
            Place::TcxIngress(_) | Place::TcxEgress(_) | Place::Bridge(..) => ProgramKind::SchedCls,
            Place::Netfilter(_) => ProgramKind::Netfilter,
        }
    }

    /// The device whose packets the program sees.
    pub fn device(self) -> Option<&'a Device> {
        match self {
            Place::Xdp(device)
            | Place::XdpGeneric(device)
            | Place::TcxIngress(device)
            | Place::TcxEgress(device)
            | Place::Bridge(_, device) => Some(device),
            Place::Netfilter(_) => None,
        }
    }

    /// That something has no code there, for messages.
    pub(super) fn no_code(self, what: impl fmt::Display) -> String {
        format!("`{what}` has no BPF code at {self}")
    }
}

/// As messages have it: without the device, and with the hook for netfilter.
impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Xdp(_) => f.write_str("XDP"),
            Place::XdpGeneric(_) => f.write_str("generic XDP"),
            Place::TcxIngress(_) => f.write_str("tcx ingress"),
            Place::TcxEgress(_) => f.write_str("tcx egress"),
            Place::Netfilter(hook) => write!(f, "netfilter hook {hook}"),
            Place::Bridge(BridgeHook::Prerouting(_), _) => f.write_str("bridge prerouting"),
            Place::Bridge(BridgeHook::Groups | BridgeHook::Input, _) => f.write_str("bridge input"),
            Place::Bridge(BridgeHook::Forward(_), _) => f.write_str("bridge forward"),
        }
    }
}
