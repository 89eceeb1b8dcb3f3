// SPDX-License-Identifier: Apache-2.0

//! Which addresses are the host's own, and where the others lie.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use penstock_net::Mac;

use super::seen::{Device, Seen, Vlan, is_one};

/// Addresses that a note names at most.
const NAMED: usize = 3;

/// The host, as its captures show it.
pub struct Host {
    pub links: Vec<Link>,
    /// What is unknown or was taken for granted.
    pub notes: Vec<String>,
}

/// A device, or a VLAN on one.
pub struct Link {
    pub name: String,
    /// The device below, and the number of the VLAN on it.
    pub lower: Option<(String, u16)>,
    /// `None` if no frame tells.
    pub mac: Option<Mac>,
    /// Own addresses with the lengths of their prefixes.
    pub own: BTreeMap<IpAddr, u8>,
    /// Addresses on the link.
    pub neighbours: BTreeMap<IpAddr, Mac>,
    pub gateways: Vec<Gateway>,
    /// Destinations of frames to the device.
    received: BTreeSet<IpAddr>,
}

/// A router on a link.
pub struct Gateway {
    pub mac: Mac,
    /// By family, IPv4 first: its address on the link, if it is known.
    pub address: [Option<IpAddr>; 2],
    /// Addresses that lie beyond it.
    pub beyond: BTreeSet<IpAddr>,
    /// By family: all that lies nowhere else is taken to lie beyond it.
    pub is_default: [bool; 2],
}

/// The number of an address's family in [`Gateway`].
pub fn family(address: IpAddr) -> usize {
    usize::from(address.is_ipv6())
}

/// Where an address was seen, and how sure that is.
struct Place {
    link: usize,
    mac: Mac,
    is_claimed: bool,
    is_source: bool,
    is_on_link: bool,
    frames: u64,
}

impl Host {
    /// What the frames say. `given` has the link addresses of devices that the user gave.
    pub fn of(seen: &Seen, given: &[(String, Mac)]) -> Result<Host, String> {
        let mut host = Host { links: Vec::new(), notes: Vec::new() };
        let mut parts: Vec<(&Vlan, usize)> = Vec::new();
        for device in &seen.devices {
            let given = given.iter().find(|(name, _)| *name == device.name);
            let mac = match given {
                Some((_, mac)) => Some(*mac),
                None => device.own_address()?,
            };
            host.links.push(Link::new(device.name.clone(), None, mac));
            host.device_notes(device, mac);
            for (number, vlan) in &device.vlans {
                let name = format!("{}.{number}", device.name);
                match number {
                    0 => {}
                    // Its own capture has these frames, too.
                    _ if seen.devices.iter().any(|d| d.name == name) => continue,
                    _ => {
                        let lower = Some((device.name.clone(), *number));
                        host.notes.push(format!(
                            "frames with VLAN {number} on {} are taken for those of a device {name}",
                            device.name
                        ));
                        host.links.push(Link::new(name, lower, mac));
                    }
                }
                parts.push((vlan, host.links.len() - 1));
            }
        }
        host.own_addresses(&parts);
        let places = host.places(&parts);
        host.settle(places);
        host.choose_defaults();
        host.notes_of_addresses();
        Ok(host)
    }

    /// Notes on what frames of a device are not read for.
    fn device_notes(&mut self, device: &Device, mac: Option<Mac>) {
        let name = &device.name;
        match mac {
            None => self.notes.push(format!("no frame tells the link address of {name}")),
            Some(mac) => {
                let of_others = device.pairs.iter().filter(|((a, b), _)| *a != mac && *b != mac);
                let of_others: u64 = of_others.map(|(_, frames)| frames).sum();
                if of_others != 0 {
                    self.notes.push(format!(
                        "{of_others} frames of {name} are neither from nor to {mac}, its link \
                         address"
                    ));
                }
            }
        }
        if device.sessions != 0 {
            self.notes.push(format!(
                "{} frames of {name} are of PPPoE sessions, of which nothing is learned: --net \
                 gives their device",
                device.sessions
            ));
        }
    }

    /// Finds the host's own addresses: those that it claims, that it translates into, or that are
    /// the only ones that packets of its own have.
    fn own_addresses(&mut self, parts: &[(&Vlan, usize)]) {
        let elsewhere: BTreeSet<IpAddr> = parts
            .iter()
            .flat_map(|(vlan, link)| {
                let own = self.links[*link].mac;
                vlan.sources.keys().filter(move |(mac, _)| Some(*mac) != own)
            })
            .map(|(_, address)| *address)
            .collect();
        for (vlan, link) in parts {
            let Some(mac) = self.links[*link].mac else { continue };
            let mut own: BTreeSet<IpAddr> =
                vlan.claims.iter().filter(|(_, by)| *by == mac).map(|(a, _)| *a).collect();
            own.extend(vlan.translated.iter().filter(|a| !elsewhere.contains(a)));
            for of in 0..2 {
                let mut first = vlan.sources.iter().filter(|((from, address), source)| {
                    let is_link_local = is_link_local(*address);
                    let is_candidate = family(*address) == of && !is_link_local;
                    *from == mac
                        && is_candidate
                        && source.is_first
                        && !source.is_forwarded
                        && !elsewhere.contains(address)
                });
                let known = own.iter().any(|a| family(*a) == of && !is_link_local(*a));
                if let (false, Some(((_, only), _)), None) = (known, first.next(), first.next()) {
                    own.insert(*only);
                }
            }
            let to_own = vlan.destinations.keys().filter(|(_, to, _)| *to == Some(mac));
            self.links[*link].received = to_own.map(|(.., address)| *address).collect();
            for address in own.into_iter().filter(|a| is_one(*a)) {
                let len = vlan.prefix_len(address);
                self.links[*link].own.insert(address, len);
            }
        }
    }

    /// Every place of every address that is not the host's own.
    fn places(&self, parts: &[(&Vlan, usize)]) -> BTreeMap<IpAddr, Vec<Place>> {
        let own: BTreeSet<IpAddr> =
            self.links.iter().flat_map(|link| link.own.keys().copied()).collect();
        let mut places: BTreeMap<IpAddr, Vec<Place>> = BTreeMap::new();
        for (vlan, link) in parts {
            let own_mac = self.links[*link].mac;
            let mut add = |address: IpAddr, mac: Mac, told: Place| {
                if own.contains(&address) || Some(mac) == own_mac {
                    return;
                }
                let all = places.entry(address).or_default();
                match all.iter_mut().find(|p| p.link == *link && p.mac == mac) {
                    Some(place) => {
                        place.is_claimed |= told.is_claimed;
                        place.is_source |= told.is_source;
                        place.is_on_link |= told.is_on_link;
                        place.frames += told.frames;
                    }
                    None => all.push(told),
                }
            };
            let (link, on) = (*link, |address| vlan.is_on_link(address));
            for (address, mac) in &vlan.claims {
                let is_on_link = on(*address);
                let told = Place {
                    link,
                    mac: *mac,
                    is_claimed: true,
                    is_source: false,
                    is_on_link,
                    frames: 0,
                };
                add(*address, *mac, told);
            }
            for ((mac, address), source) in &vlan.sources {
                let is_on_link = source.is_first || on(*address);
                let (is_claimed, frames) = (false, source.frames);
                let told =
                    Place { link, mac: *mac, is_claimed, is_source: true, is_on_link, frames };
                add(*address, *mac, told);
            }
            for ((from, to, address), frames) in &vlan.destinations {
                if let (Some(mac), true) = (to, Some(*from) == own_mac) {
                    let told = Place {
                        link,
                        mac: *mac,
                        is_claimed: false,
                        is_source: false,
                        is_on_link: on(*address),
                        frames: *frames,
                    };
                    add(*address, *mac, told);
                }
            }
        }
        places
    }

    /// Puts each address where it most probably lies: on the link, or beyond a gateway.
    fn settle(&mut self, places: BTreeMap<IpAddr, Vec<Place>>) {
        let mut several = Vec::new();
        // By link and link address: addresses on the link, and those that may lie beyond.
        let mut ends: BTreeMap<(usize, Mac), [Vec<IpAddr>; 2]> = BTreeMap::new();
        for (address, all) in places {
            if all.iter().any(|p| p.link != all[0].link) && !is_link_local(address) {
                several.push(address);
            }
            let link_local = is_link_local(address);
            let most = all.iter().max_by_key(|p| (p.is_claimed, p.is_source, p.frames));
            for place in
                all.iter().filter(|p| link_local || most.is_some_and(|m| std::ptr::eq(m, *p)))
            {
                let end = ends.entry((place.link, place.mac)).or_default();
                let is_on_link = place.is_claimed || place.is_on_link || link_local;
                end[usize::from(!is_on_link)].push(address);
            }
        }
        if let [first, ..] = &several[..] {
            self.notes.push(format!(
                "{} are seen on several devices, and taken to lie where most of their frames are, \
                 {first} for one",
                addresses(several.len())
            ));
        }
        for ((link, mac), [on_link, mut beyond]) in ends {
            let link = &mut self.links[link];
            for address in &on_link {
                link.neighbours.insert(*address, mac);
            }
            // One address alone is a neighbour's: no frame shows the difference.
            for of in 0..2 {
                let has = |all: &[IpAddr]| all.iter().filter(|a| family(**a) == of).count();
                let is_only = has(&beyond) == 1
                    && !on_link.iter().any(|a| family(*a) == of && !is_link_local(*a));
                if let Some(at) = beyond.iter().position(|a| is_only && family(*a) == of) {
                    link.neighbours.insert(beyond.remove(at), mac);
                }
            }
            if beyond.is_empty() {
                continue;
            }
            let address = [0, 1].map(|of| {
                let own = on_link.iter().copied().filter(|a| family(*a) == of);
                own.max_by_key(|a| is_link_local(*a))
            });
            let (beyond, is_default) = (beyond.into_iter().collect(), [false; 2]);
            link.gateways.push(Gateway { mac, address, beyond, is_default });
        }
    }

    /// In each family, the gateway that most addresses lie beyond is the default one.
    fn choose_defaults(&mut self) {
        for of in 0..2 {
            let count = |g: &Gateway| g.beyond.iter().filter(|a| family(**a) == of).count();
            let gateways = self.links.iter_mut().flat_map(|link| {
                let name = &link.name;
                link.gateways.iter_mut().map(move |gateway| (name, gateway))
            });
            let most = gateways.max_by_key(|(_, gateway)| count(gateway));
            if let Some((name, gateway)) = most.filter(|(_, gateway)| count(gateway) > 1) {
                gateway.is_default[of] = true;
                self.notes.push(format!(
                    "{} addresses that no frame shows the place of are taken to lie beyond {} on \
                     {name}",
                    ["IPv4", "IPv6"][of],
                    gateway.mac,
                ));
            }
        }
    }

    /// Notes on what own addresses are not known.
    fn notes_of_addresses(&mut self) {
        for link in &self.links {
            for (of, name) in ["IPv4", "IPv6"].into_iter().enumerate() {
                let has_own = link.own.keys().any(|a| family(*a) == of);
                let to = link.received.iter().filter(|a| family(**a) == of && !is_link_local(**a));
                let named: Vec<String> = to.clone().take(NAMED).map(IpAddr::to_string).collect();
                let more = match to.count().saturating_sub(NAMED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                if !has_own && !named.is_empty() {
                    self.notes.push(format!(
                        "no frame tells an {name} address of {}: frames to it are for {}{more}; \
                         what is its own needs `addr add ADDRESS/LENGTH dev {}` in the network",
                        link.name,
                        named.join(", "),
                        link.name,
                    ));
                }
            }
            let unknown = link.own.iter().filter(|(a, len)| {
                !is_link_local(**a) && **len == if a.is_ipv4() { 32 } else { 128 }
            });
            let unknown: Vec<String> = unknown.map(|(a, _)| a.to_string()).collect();
            if !unknown.is_empty() {
                self.notes.push(format!(
                    "no frame tells the length of the prefix of {} on {}: neighbours have routes of \
                     their own",
                    unknown.join(", "),
                    link.name,
                ));
            }
        }
    }
}

/// A number of addresses, in words.
fn addresses(count: usize) -> String {
    match count {
        1 => "1 address".to_owned(),
        _ => format!("{count} addresses"),
    }
}

/// Whether it is an IPv6 address of one link.
pub fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(a) if a.is_unicast_link_local())
}

impl Link {
    fn new(name: String, lower: Option<(String, u16)>, mac: Option<Mac>) -> Link {
        let (own, neighbours, gateways, received) = Default::default();
        Link { name, lower, mac, own, neighbours, gateways, received }
    }
}

impl Vlan {
    /// The length of the prefix of an own address; that of a whole address if it is unknown.
    fn prefix_len(&self, address: IpAddr) -> u8 {
        match address {
            IpAddr::V4(address) => self.own_subnet(address).unwrap_or(32),
            IpAddr::V6(address) if address.is_unicast_link_local() => 64,
            IpAddr::V6(address) => {
                let of = self.prefixes.iter().find(|(prefix, len)| has6(*prefix, *len, address));
                of.map_or(128, |(_, len)| *len)
            }
        }
    }

    /// The subnet that broadcasts go to: their destination, and the length of the prefix that it
    /// shares with all of their senders.
    fn subnet(&self) -> Option<(Ipv4Addr, u8)> {
        let mut found: Option<(Ipv4Addr, u8)> = None;
        for (src, dst) in self.broadcasts.iter().filter(|(_, dst)| is_one((*dst).into())) {
            // The bits in which a sender differs, and all below, are ones in the broadcast address.
            let len = (u32::from(*src) ^ u32::from(*dst)).leading_zeros() as u8;
            if (8..31).contains(&len) && is_broadcast(*dst, len) {
                match &mut found {
                    Some((broadcast, shortest)) if *broadcast == *dst => {
                        *shortest = len.min(*shortest);
                    }
                    Some(_) => {}
                    None => found = Some((*dst, len)),
                }
            }
        }
        found
    }

    /// The length of the prefix of an own IPv4 address, which the subnet of broadcasts has.
    fn own_subnet(&self, address: Ipv4Addr) -> Option<u8> {
        let (broadcast, mut len) = self.subnet()?;
        while !has4(broadcast, len, address) {
            len = len.checked_sub(1)?;
        }
        is_broadcast(broadcast, len).then_some(len)
    }

    /// Whether a prefix that is known has the address.
    fn is_on_link(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => {
                self.subnet().is_some_and(|(broadcast, len)| has4(broadcast, len, address))
            }
            IpAddr::V6(address) => {
                self.prefixes.iter().any(|(prefix, len)| has6(*prefix, *len, address))
            }
        }
    }
}

/// Whether an address is the broadcast address of a subnet with a prefix of this length.
fn is_broadcast(address: Ipv4Addr, len: u8) -> bool {
    let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
    u32::from(address) & host == host
}

fn has4(prefix: Ipv4Addr, len: u8, address: Ipv4Addr) -> bool {
    let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
    (u32::from(prefix) ^ u32::from(address)) & mask == 0
}

fn has6(prefix: Ipv6Addr, len: u8, address: Ipv6Addr) -> bool {
    let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
    (u128::from(prefix) ^ u128::from(address)) & mask == 0
}
