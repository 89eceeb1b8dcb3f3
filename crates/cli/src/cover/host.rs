// SPDX-License-Identifier: Apache-2.0

//! A host for packets that a ruleset is tested with: a network that brings each of them to its hook.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::Write as _;
use std::net::IpAddr;

use penstock_program::Hook;
use penstock_wire::ethernet::Mac;
use penstock_wire::{ethernet, ipv4, ipv6};

/// Where a packet enters the host, and where it is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The device on which it arrives; `None` if the host sends it.
    pub from: Option<String>,
    /// What its destination is to the host.
    pub to: Destination,
}

/// What a destination is to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// An address of its own, on a device.
    Own(String),
    /// It is reached by a device.
    By(String),
}

/// Devices, addresses and routes, so far.
#[derive(Default)]
pub struct Host {
    /// Names, and their numbers.
    devices: BTreeMap<String, u8>,
    destinations: BTreeMap<IpAddr, Destination>,
    /// Addresses of packets that the host sends.
    sources: BTreeMap<IpAddr, String>,
}

impl Host {
    /// Makes a way for a packet with these addresses; `false` if the host has another one for the
    /// destination already, or no more devices.
    pub fn add(&mut self, way: &Way, from: IpAddr, to: IpAddr) -> bool {
        let (Destination::Own(device) | Destination::By(device)) = &way.to;
        if !way.from.iter().chain([device]).all(|name| self.device(name).is_some()) {
            return false;
        }
        match self.destinations.entry(to) {
            Entry::Occupied(known) if *known.get() != way.to => return false,
            Entry::Occupied(_) => {}
            Entry::Vacant(free) => {
                free.insert(way.to.clone());
            }
        }
        match &way.from {
            None => {
                self.sources.entry(from).or_insert_with(|| device.clone());
            }
            // Answers go back where the packet came from.
            Some(arrival) if is_host(from) => {
                let back = Destination::By(arrival.clone());
                self.destinations.entry(from).or_insert(back);
            }
            Some(_) => {}
        }
        true
    }

    /// The number of a device, which is made if it is not there.
    fn device(&mut self, name: &str) -> Option<u8> {
        let next = u8::try_from(self.devices.len() + 1).ok()?;
        Some(*self.devices.entry(name.to_owned()).or_insert(next))
    }

    /// The link address of a device.
    pub fn link_address(&self, name: &str) -> Mac {
        Mac([2, 0, 0, 0, 1, self.devices.get(name).copied().unwrap_or(0)])
    }

    /// The network, as lines for `ip -batch`.
    pub fn lines(&self) -> String {
        let mut out = String::from(
            "# A host that brings each packet of the tests to its hook.\nlink set lo up\n",
        );
        for (name, number) in self.devices.iter().filter(|(name, _)| *name != "lo") {
            let Mac([.., high, low]) = self.link_address(name);
            let _ = write!(
                out,
                "link add name {name} address 02:00:00:00:{high:02x}:{low:02x} mtu 9000 type veth\n\
                 link set {name} addrgenmode none up\n\
                 addr add 198.18.255.{number}/32 dev {name}\n\
                 addr add 2001:db8:ff::{number:x}/128 dev {name} nodad\n"
            );
        }
        for (address, destination) in &self.destinations {
            match destination {
                Destination::Own(name) => own(&mut out, *address, name),
                Destination::By(name) if name != "lo" => {
                    let len = if address.is_ipv4() { 32 } else { 128 };
                    let _ = write!(
                        out,
                        "route add {address}/{len} dev {name}\n\
                         neigh add {address} lladdr 02:00:00:00:02:01 dev {name} nud permanent\n"
                    );
                }
                Destination::By(_) => {}
            }
        }
        for (address, name) in &self.sources {
            if !matches!(self.destinations.get(address), Some(Destination::Own(_))) {
                own(&mut out, *address, name);
            }
        }
        out
    }
}

/// Whether an address can be that of a host.
fn is_host(address: IpAddr) -> bool {
    !address.is_multicast() && !address.is_unspecified() && !address.is_loopback()
}

/// Adds an address of the host.
fn own(out: &mut String, address: IpAddr, device: &str) {
    let _ = match address {
        IpAddr::V4(address) => writeln!(out, "addr add {address}/32 dev {device}"),
        IpAddr::V6(address) => writeln!(out, "addr add {address}/128 dev {device} nodad"),
    };
}

/// Source and destination of an IP packet.
pub fn addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match packet.first()? >> 4 {
        4 => ipv4::Header::new(packet).map(|h| (h.src().into(), h.dst().into())),
        6 => ipv6::Header::new(packet).map(|h| (h.src().into(), h.dst().into())),
        _ => None,
    }
}

/// The way that leads a packet with these devices to a hook; `None` if none can be made there. Where
/// both are possible, `to_host` says whether the destination is the host.
pub fn way(
    hook: Hook,
    arrival: Option<String>,
    departure: Option<String>,
    to_host: bool,
) -> Option<Way> {
    let to_itself = || Way { from: None, to: Destination::Own("out0".to_owned()) };
    let to_own = |name: String| match name.as_str() {
        "lo" => to_itself(),
        _ => Way { from: Some(name.clone()), to: Destination::Own(name) },
    };
    let by = |from: Option<String>| {
        let out = departure.clone().unwrap_or_else(|| "out0".to_owned());
        Way { from, to: Destination::By(out) }
    };
    let leaves_by_lo = departure.as_deref() == Some("lo");
    Some(match hook {
        Hook::Input => to_own(arrival?),
        Hook::Ingress | Hook::Prerouting if to_host => to_own(arrival?),
        Hook::Ingress | Hook::Prerouting | Hook::Forward => by(Some(arrival?)),
        Hook::Output | Hook::Postrouting if leaves_by_lo || to_host => to_itself(),
        Hook::Output | Hook::Postrouting | Hook::Egress => by(arrival),
    })
}

/// A packet as a frame that arrives on a device.
pub fn frame(packet: &[u8], device: Mac) -> Vec<u8> {
    let ethertype =
        if packet.first().is_some_and(|b| b >> 4 == 6) { ethernet::IPV6 } else { ethernet::IPV4 };
    let mut frame = device.0.to_vec();
    frame.extend([2, 0, 0, 0, 2, 1]);
    frame.extend(ethertype.to_be_bytes());
    frame.extend(packet);
    frame
}
