// SPDX-License-Identifier: Apache-2.0

//! What captures say about the devices that they are of: who speaks to whom there.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use penstock_io::{Cooked, Direction, Frame, Interface, LinkType, Merge, PacketType};
use penstock_net::Network;
use penstock_wire::ethernet::{self, Mac};
use penstock_wire::{arp, icmpv6, ipv4, ipv6, protocol, vlan};

use crate::input::{Captures, Fingerprint, Read, Recent, Source, open};

/// All devices of some captures, in the order of their first frames.
#[derive(Default)]
pub struct Seen {
    pub devices: Vec<Device>,
    /// Pairs of devices that the same packets are seen on unchanged, and how many.
    pub unchanged: BTreeMap<(usize, usize), u64>,
    /// Pairs of devices that packets are forwarded between, and how many.
    pub forwarded: BTreeMap<(usize, usize), u64>,
    /// Captures of IP packets without a link header, which tell nothing.
    pub without_link: BTreeSet<String>,
}

/// One device.
#[derive(Default)]
pub struct Device {
    pub name: String,
    /// Frames to one receiver, by sender and receiver.
    pub pairs: BTreeMap<(Mac, Mac), u64>,
    /// How many frames say of a link address that it is the device's own.
    pub own: BTreeMap<Mac, u64>,
    /// The device itself, and the VLANs on it by their numbers.
    pub vlans: BTreeMap<u16, Vlan>,
    /// Frames with PPPoE sessions.
    pub sessions: u64,
}

/// One VLAN of a device; number 0 is the device itself.
#[derive(Default)]
pub struct Vlan {
    pub sources: BTreeMap<(Mac, IpAddr), From>,
    /// Frames to one receiver by sender, receiver and destination address. The receiver is missing
    /// where a capture does not have it.
    pub destinations: BTreeMap<(Mac, Option<Mac>, IpAddr), u64>,
    /// Addresses that ARP and neighbour discovery give, with their link addresses.
    pub claims: BTreeSet<(IpAddr, Mac)>,
    /// Source and destination of IPv4 packets in link broadcasts.
    pub broadcasts: BTreeSet<(Ipv4Addr, Ipv4Addr)>,
    /// Prefixes on the link, as routers advertise them.
    pub prefixes: BTreeSet<(Ipv6Addr, u8)>,
    /// Addresses into which the host translated others on their way out here.
    pub translated: BTreeSet<IpAddr>,
}

/// Frames with a source address.
#[derive(Clone, Copy, Default)]
pub struct From {
    pub frames: u64,
    /// Whether some had a TTL or hop limit that packets begin with: nobody has forwarded them.
    pub is_first: bool,
    /// Whether some had another one.
    pub is_forwarded: bool,
}

/// A packet that was seen on a device.
struct Sighting {
    device: usize,
    vlan: u16,
    ttl: u8,
    from: Mac,
    to: Option<Mac>,
    print: Fingerprint,
}

impl Seen {
    /// Reads all frames. `net` names devices by their index.
    ///
    /// # Errors
    /// A capture cannot be opened, or does not say what device its frames are of. What is broken
    /// further on is left for the run itself to tell.
    pub fn of(captures: &Captures, net: Option<&Network>) -> Result<Seen, String> {
        let mut opened = Vec::new();
        let mut reads = Vec::new();
        for read in &captures.reads {
            if read.file.as_os_str() == "-" {
                return Err("Error: standard input can be read once only, and to learn from a \
                            capture takes one more time: use a file"
                    .to_owned());
            }
            let read = read.resolved();
            opened.push(open(&read.file)?);
            reads.push(read);
        }
        let mut reader = Reader { seen: Seen::default(), recent: Recent::default() };
        let mut merge = Merge::new(opened);
        let mut broken = false;
        while let Some(next) = merge.next_frame() {
            let Ok((which, frame)) = next else {
                // The run itself says what is broken.
                broken = true;
                continue;
            };
            let read = &reads[which];
            let Some(name) = device(read, frame.interface, net)? else { continue };
            let sent = matches!(read.source, Some(Source::HostDevice(_)));
            let direction = match (sent, captures.as_is) {
                (true, _) => Some(Direction::Out),
                (false, true) => Some(Direction::In),
                (false, false) => frame.direction,
            };
            reader.frame(&name, &Frame { direction, ..frame });
        }
        if broken && reader.seen.devices.is_empty() {
            return Err("Error: the captures have no frame that can be read".to_owned());
        }
        Ok(reader.seen)
    }
}

/// The device that frames of an interface of a capture are of; `None` for those that say nothing.
fn device(
    read: &Read,
    interface: Interface<'_>,
    net: Option<&Network>,
) -> Result<Option<String>, String> {
    let file = read.file.display();
    let by_index = |index| net.and_then(|net| net.link(index)).map(|link| link.name.to_string());
    let own = match interface {
        Interface::Described(_, Some(name)) => Some(name.to_owned()),
        Interface::Index(index) => by_index(index),
        Interface::Unnamed | Interface::Described(_, None) => None,
    };
    if let Some(wanted) = &read.interface {
        let is_wanted = match interface {
            Interface::Unnamed => wanted.parse() == Ok(0),
            Interface::Described(number, None) => wanted.parse() == Ok(number),
            Interface::Index(index) => wanted.parse() == Ok(index) || own.as_ref() == Some(wanted),
            Interface::Described(_, Some(name)) => name == wanted,
        };
        if !is_wanted {
            return Ok(None);
        }
    }
    match (&read.source, own, interface) {
        (Some(Source::Host), ..) => Ok(None),
        (Some(Source::Device(name) | Source::HostDevice(name)), ..) => Ok(Some(name.clone())),
        (None, Some(name), _) if name == "lo" => Ok(None),
        (None, Some(name), _) => Ok(Some(name)),
        (None, None, Interface::Index(index)) => Err(format!(
            "Error: {file} has frames of the interface with index {index}, and not its name: \
             --read DEV={file}:{index} gives it one"
        )),
        (None, None, Interface::Unnamed | Interface::Described(..)) => Err(format!(
            "Error: {file} does not name its interfaces: --read DEV={file} says where its frames \
             arrive"
        )),
    }
}

struct Reader {
    seen: Seen,
    /// Packets of the last second.
    recent: Recent<Sighting>,
}

impl Reader {
    /// The number of a device.
    fn device(&mut self, name: &str) -> usize {
        let devices = &mut self.seen.devices;
        match devices.iter().position(|device| device.name == name) {
            Some(at) => at,
            None => {
                devices.push(Device { name: name.to_owned(), ..Device::default() });
                devices.len() - 1
            }
        }
    }

    /// Takes a frame of a device.
    fn frame(&mut self, name: &str, frame: &Frame<'_>) {
        let number = self.device(name);
        if frame.link.is_ip() {
            self.seen.without_link.insert(name.to_owned());
            return;
        }
        let device = &mut self.seen.devices[number];
        let (from, to, vlan, protocol, payload, is_broadcast);
        if let Some(cooked) = Cooked::parse(frame.link, frame.bytes) {
            let Some(mac) = cooked.from.map(Mac) else { return };
            if cooked.to == PacketType::Outgoing {
                *device.own.entry(mac).or_default() += 1;
            }
            is_broadcast = cooked.to == PacketType::Broadcast;
            (from, to, vlan) = (mac, None, 0);
            (protocol, payload) = (cooked.protocol, cooked.payload);
        } else if let Some(header) = Some(frame)
            .filter(|f| f.link == LinkType::Ethernet)
            .and_then(|f| ethernet::Header::new(f.bytes))
        {
            let one = Some(header.dst()).filter(|dst| !dst.is_group());
            match (frame.direction, one) {
                (Some(Direction::Out), _) => *device.own.entry(header.src()).or_default() += 1,
                (Some(Direction::In), Some(dst)) => *device.own.entry(dst).or_default() += 1,
                (Some(Direction::In), None) | (None, _) => {}
            }
            if let Some(dst) = one {
                *device.pairs.entry((header.src(), dst)).or_default() += 1;
            }
            (from, to, is_broadcast) = (header.src(), one, header.dst().is_broadcast());
            (vlan, protocol, payload) = untagged(&header);
        } else {
            return;
        }
        // Whom a frame to several is for is no matter of one receiver.
        let is_for_one = to.is_some() || frame.link != LinkType::Ethernet;
        match protocol {
            ethernet::PPPOE_SESSION => device.sessions += 1,
            ethernet::ARP => device.vlans.entry(vlan).or_default().arp(payload),
            ethernet::IPV4 | ethernet::IPV6 => {
                let place = device.vlans.entry(vlan).or_default();
                let Some((src, dst, ttl)) = place.packet(from, is_broadcast, payload) else {
                    return;
                };
                if is_for_one && is_one(dst) {
                    *place.destinations.entry((from, to, dst)).or_default() += 1;
                }
                if let Some(print) = Fingerprint::of_packet(payload).filter(|_| is_one(src)) {
                    let sighting = Sighting { device: number, vlan, ttl, from, to, print };
                    self.sighted(frame.time, sighting);
                }
            }
            _ => {}
        }
    }

    /// Looks for the packet on other devices, lately.
    fn sighted(&mut self, time: u64, now: Sighting) {
        let hash = now.print.hash;
        if let Some(then) = self.recent.get(time, hash)
            && then.device != now.device
            && now.print.is_copy_of(&then.print)
        {
            let (first, second) = (then.device, now.device);
            let pair = (first.min(second), first.max(second));
            if now.ttl == then.ttl {
                *self.seen.unchanged.entry(pair).or_default() += 1;
            } else if now.ttl.wrapping_add(1) == then.ttl {
                *self.seen.forwarded.entry(pair).or_default() += 1;
                let devices = &mut self.seen.devices;
                if let Some(own) = then.to {
                    *devices[first].own.entry(own).or_default() += 1;
                }
                *devices[second].own.entry(now.from).or_default() += 1;
                let mut translated = |device: usize, vlan: u16, address| {
                    devices[device].vlans.entry(vlan).or_default().translated.insert(address);
                };
                if now.print.src != then.print.src {
                    translated(second, now.vlan, now.print.src);
                }
            }
        }
        self.recent.add(time, hash, now);
    }
}

/// VLAN, protocol and payload of a frame, after a tag. A tag may give a priority alone, with number
/// 0.
fn untagged<'a>(header: &ethernet::Header<'a>) -> (u16, u16, &'a [u8]) {
    match vlan::Header::new(header.payload()) {
        Some(tag) if header.ethertype() == ethernet::VLAN => {
            (tag.vid(), tag.ethertype(), tag.payload())
        }
        _ => (0, header.ethertype(), header.payload()),
    }
}

/// Whether it is the address of one host.
pub fn is_one(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(a) => {
            !(a.is_unspecified() || a.is_multicast() || a.is_broadcast() || a.is_loopback())
        }
        IpAddr::V6(a) => !(a.is_unspecified() || a.is_multicast() || a.is_loopback()),
    }
}

/// Whether an IP packet without options is a TCP reset.
fn is_reset(packet: &[u8]) -> bool {
    const RST: u8 = 4;
    let (protocol, transport) = match packet.first() {
        Some(0x45) => (packet.get(9), ipv4::LEN),
        _ => (packet.get(6), ipv6::LEN),
    };
    protocol == Some(&protocol::TCP) && packet.get(transport + 13).is_some_and(|f| f & RST != 0)
}

impl Vlan {
    fn arp(&mut self, message: &[u8]) {
        let Some(message) = arp::Header::new(message) else { return };
        let operation = matches!(message.operation(), arp::REQUEST | arp::REPLY);
        if let (true, Some(mac), Some(address)) =
            (operation, message.sender_mac(), message.sender_ip())
            && is_one(address.into())
            && !mac.is_group()
        {
            self.claims.insert((address.into(), mac));
        }
    }

    /// Takes an IP packet; its addresses and its TTL.
    fn packet(
        &mut self,
        from: Mac,
        is_broadcast: bool,
        packet: &[u8],
    ) -> Option<(IpAddr, IpAddr, u8)> {
        let (src, dst, ttl): (IpAddr, IpAddr, u8) = match packet.first()? >> 4 {
            4 => {
                let header = ipv4::Header::new(packet)?;
                if is_broadcast {
                    self.broadcasts.insert((header.src(), header.dst()));
                }
                (header.src().into(), header.dst().into(), header.ttl())
            }
            6 => {
                let header = ipv6::Header::new(packet)?;
                if header.next_header() == protocol::ICMPV6 && header.hop_limit() == 255 {
                    self.discovery(from, header.src(), header.payload());
                }
                (header.src().into(), header.dst().into(), header.hop_limit())
            }
            _ => return None,
        };
        if is_one(src) {
            let source = self.sources.entry((from, src)).or_default();
            source.frames += 1;
            // What systems begin with. A router that rejects a connection speaks for its other end.
            let is_first = matches!(ttl, 64 | 128 | 255);
            source.is_first |= is_first && !is_reset(packet);
            // Messages for the link have 1 from anyone.
            source.is_forwarded |= !is_first && ttl != 1;
        }
        Some((src, dst, ttl))
    }

    /// Neighbour discovery (RFC 4861): link addresses, and prefixes that are on the link.
    fn discovery(&mut self, from: Mac, src: Ipv6Addr, message: &[u8]) {
        /// Options: link address of the source, of the target, prefix information.
        const SOURCE: u8 = 1;
        const TARGET: u8 = 2;
        const PREFIX: u8 = 3;
        let Some(header) = icmpv6::Header::new(message) else { return };
        let fixed = match header.kind() {
            icmpv6::NEIGHBOUR_SOLICITATION | icmpv6::NEIGHBOUR_ADVERTISEMENT => 24,
            icmpv6::ROUTER_SOLICITATION => 8,
            icmpv6::ROUTER_ADVERTISEMENT => 16,
            _ => return,
        };
        let options = || icmpv6::nd_options(message.get(fixed..).unwrap_or_default());
        let link_address = |kind: u8| {
            let option = options().find(|(k, _)| *k == kind)?;
            Some(Mac(*option.1.first_chunk()?))
        };
        if let (icmpv6::NEIGHBOUR_ADVERTISEMENT, Some(target)) = (header.kind(), header.target()) {
            // An answer to one that asks needs no option.
            self.claims.insert((target.into(), link_address(TARGET).unwrap_or(from)));
        } else if let Some(mac) = link_address(SOURCE).filter(|_| is_one(src.into())) {
            self.claims.insert((src.into(), mac));
        }
        if header.kind() == icmpv6::ROUTER_ADVERTISEMENT {
            for (_, prefix) in options().filter(|(kind, _)| *kind == PREFIX) {
                // Length, flags (the first bit: on the link), lifetimes, address.
                if let (Some([len @ 0..=128, 0x80..=0xff]), Some(address)) = (
                    prefix.first_chunk::<2>(),
                    prefix.get(14..).and_then(|a| a.first_chunk::<16>()),
                ) {
                    self.prefixes.insert(((*address).into(), *len));
                }
            }
        }
    }
}
