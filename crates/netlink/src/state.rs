// SPDX-License-Identifier: Apache-2.0

//! The state of a network namespace, as dumps and notifications say it is.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

use penstock_net::{KernelDevconf, KernelState, Link, Mac, Network, RouteInfos, Rule};

use crate::address::{self, Address};
use crate::devconf::read_devconf;
use crate::link::{self, Device};
use crate::message::{Attributes, Message, put};
use crate::monitor::Changed;
use crate::nexthop::Objects;
use crate::route::Told;
use crate::socket::Answers;
use crate::{neighbour, route, rule};

/// Everything that is known.
#[derive(Clone, Debug, Default)]
pub struct State {
    devices: Vec<Device>,
    addresses: Vec<(u32, Address)>,
    routes4: Vec<Told>,
    routes6: Vec<Told>,
    infos: RouteInfos,
    nexthops: Objects,
    rules4: Vec<Rule>,
    rules6: Vec<Rule>,
    neighbours: HashMap<(u32, IpAddr), Mac>,
    policies: penstock_xfrm::Config,
    devconf: KernelDevconf,
}

fn family(v6: bool) -> u8 {
    if v6 { libc::AF_INET6 as u8 } else { libc::AF_INET as u8 }
}

impl State {
    /// Reads everything.
    pub fn read(socket: &mut impl Answers) -> io::Result<State> {
        let mut state = State::default();
        state.refresh(socket, &mut Changed::everything())?;
        Ok(state)
    }

    /// Reads again what has changed, and takes up what notifications have said.
    pub fn refresh(&mut self, socket: &mut impl Answers, changed: &mut Changed) -> io::Result<()> {
        let what = std::mem::take(changed);
        if what.links {
            self.devices = devices(socket)?;
        }
        if what.addresses {
            let all = socket.dump(libc::RTM_GETADDR, &[0; address::HEAD])?;
            self.addresses = all.iter().filter_map(address::read).collect();
        }
        if what.nexthops {
            self.nexthops = Objects::read(socket)?;
        }
        for (v6, dirty, routes) in
            [(false, what.routes4, &mut self.routes4), (true, what.routes6, &mut self.routes6)]
        {
            if dirty {
                let mut head = [0; route::HEAD];
                head[0] = family(v6);
                let all = socket.dump(libc::RTM_GETROUTE, &head)?;
                let told = all.iter().filter_map(|message| route::read(message, &mut self.infos));
                *routes = told.filter(|r| r.0 == v6).map(|r| r.1).collect();
                self.infos.tidy();
            }
        }
        if what.rules {
            for (v6, rules) in [(false, &mut self.rules4), (true, &mut self.rules6)] {
                let mut head = [0; rule::HEAD];
                head[0] = family(v6);
                // A kernel without IPv6 has no rules for it.
                let all = socket.dump(libc::RTM_GETRULE, &head).unwrap_or_default();
                *rules =
                    all.iter().filter_map(rule::read).filter(|r| r.0 == v6).map(|r| r.1).collect();
            }
        }
        if what.neighbours {
            self.neighbours.clear();
            for v6 in [false, true] {
                let mut head = [0; neighbour::HEAD];
                head[0] = family(v6);
                let all = socket.dump(libc::RTM_GETNEIGH, &head)?;
                all.iter().for_each(|message| self.take_neighbour(message));
            }
        }
        // What was told before all were read is in there.
        if !what.neighbours {
            what.told.iter().for_each(|message| self.take_neighbour(message));
        }
        Ok(())
    }

    fn take_neighbour(&mut self, message: &Message) {
        let Some(n) = neighbour::read(message) else { return };
        match n.mac.filter(|_| message.kind == libc::RTM_NEWNEIGH) {
            Some(mac) => self.neighbours.insert((n.link, n.address), mac),
            None => self.neighbours.remove(&(n.link, n.address)),
        };
    }

    /// IPsec policies from now on ([`crate::Policies`]).
    pub fn set_policies(&mut self, policies: penstock_xfrm::Config) {
        self.policies = policies;
    }

    /// Reads the settings of devices again. Whether some have changed.
    pub fn refresh_devconf(&mut self) -> bool {
        let links = self.devices.iter().map(|d| (d.link.index, &*d.link.name));
        let devconf = read_devconf(links);
        let changed = devconf != self.devconf;
        self.devconf = devconf;
        changed
    }

    /// All links.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The link with a name.
    pub fn device(&self, name: &str) -> Option<&Device> {
        self.devices.iter().find(|d| *d.link.name == *name)
    }

    /// The network of what is known. Links with an index beyond [`penstock_net::LARGEST_INDEX`] are
    /// not in it.
    pub fn network(&self) -> Network {
        self.network_with(|_| {})
    }

    /// [`State::network`], with links as `adjust` makes them.
    pub fn network_with(&self, adjust: impl FnMut(&mut Link)) -> Network {
        let fits = |d: &&Device| d.link.index <= penstock_net::LARGEST_INDEX;
        let mut links: Vec<_> = self.devices.iter().filter(fits).map(|d| d.link.clone()).collect();
        links.iter_mut().for_each(adjust);
        for (index, address) in &self.addresses {
            let Some(link) = links.iter_mut().find(|l| l.index == *index) else { continue };
            match address {
                Address::Four(a) => link.addresses4.push(a.clone()),
                Address::Six(a) => link.addresses6.push(a.clone()),
            }
        }
        let ports: Vec<_> =
            links.iter().filter_map(|l| Some((l.port.as_ref()?.bridge, l.index))).collect();
        for link in &mut links {
            let index = link.index;
            if let Some(bridge) = link.bridge_mut() {
                let own = ports.iter().rev().filter(|(of, _)| *of == index);
                bridge.ports = own.map(|(_, port)| *port).collect();
            }
        }
        let mut infos = self.infos.clone();
        let mut routes = |all: &[Told]| {
            all.iter().filter_map(|told| told.with(&self.nexthops, &mut infos)).collect()
        };
        Network::from_kernel(KernelState {
            links,
            routes4: routes(&self.routes4),
            routes6: routes(&self.routes6),
            rules4: self.rules4.clone(),
            rules6: self.rules6.clone(),
            neighbours: self
                .neighbours
                .iter()
                .map(|((link, address), mac)| (*link, *address, *mac))
                .collect(),
            policies: self.policies.clone(),
            devconf: self.devconf.clone(),
        })
    }
}

/// Reads all links, and the VLANs of bridges and ports.
pub(crate) fn devices(socket: &mut impl Answers) -> io::Result<Vec<Device>> {
    let all = socket.dump(libc::RTM_GETLINK, &[0; link::HEAD])?;
    let mut devices: Vec<Device> = all.iter().filter_map(link::read).collect();
    devices.sort_by_key(|d| d.link.index);
    if devices.iter().any(|d| d.link.bridge().is_some_and(|b| b.vlan_filtering)) {
        take_vlans(socket, &mut devices)?;
    }
    Ok(devices)
}

/// VLANs of bridges and their ports come in a bridge's own view of links.
fn take_vlans(socket: &mut impl Answers, devices: &mut [Device]) -> io::Result<()> {
    const IFLA_AF_SPEC: u16 = 26;
    const IFLA_EXT_MASK: u16 = 29;
    const BRIDGE_VLANS: u32 = 2;
    const VLAN_INFO: u16 = 2;
    const PVID: u16 = 2;
    const UNTAGGED: u16 = 4;
    let mut body = vec![0; link::HEAD];
    body[0] = libc::AF_BRIDGE as u8;
    put(&mut body, IFLA_EXT_MASK, &BRIDGE_VLANS.to_ne_bytes());
    for message in socket.dump(libc::RTM_GETLINK, &body)? {
        let Some(head) = message.head::<{ link::HEAD }>() else { continue };
        let index = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]);
        let Some(device) = devices.iter_mut().find(|d| d.link.index == index) else { continue };
        let vlans = match (&mut device.link.port, device.link.kind.bridge_mut()) {
            (Some(port), _) => &mut port.vlans,
            (None, Some(bridge)) => &mut bridge.vlans,
            (None, None) => continue,
        };
        *vlans = Default::default();
        let Some(inside) = message.attributes(link::HEAD).get(IFLA_AF_SPEC).map(Attributes::nested)
        else {
            continue;
        };
        for (_, value) in inside.filter(|(kind, _)| *kind == VLAN_INFO) {
            let Some(&[f0, f1, v0, v1]) = value.first_chunk() else { continue };
            let (flags, id) = (u16::from_ne_bytes([f0, f1]), u16::from_ne_bytes([v0, v1]));
            vlans.add(id, flags & PVID != 0, flags & UNTAGGED != 0);
        }
    }
    Ok(())
}
