// SPDX-License-Identifier: Apache-2.0

//! After a takeover, other hosts and switches learn where the addresses of this firewall are now:
//! gratuitous ARP (RFC 5227, 3) and unsolicited neighbour advertisements (RFC 4861, 7.2.6).
//!
//! The host has the addresses, on the TAPs of ports and on what stands on them. Announcements leave
//! by packet sockets there, as those of keepalived do, and pass the dataplane like all packets of
//! the host.

use std::collections::HashSet;
use std::io;
use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use penstock_ctsync::config::Announce;
use penstock_net::{Kind, Link, Network};
use penstock_netlink::{Assigned, Socket};
use penstock_wire::ethernet::Mac;
use penstock_wire::{arp, checksum, ethernet, icmpv6, ipv6, protocol};

use crate::connections::Tables;
use crate::devices::taken_ports::TakenPorts;
use crate::log;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// All hosts of a link, and the link address of that group.
const ALL_NODES: (Ipv6Addr, Mac) =
    (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), Mac([0x33, 0x33, 0, 0, 0, 1]));
const BROADCAST: Mac = Mac([0xff; 6]);
/// Flags of a neighbour advertisement: the sender is a router; the address replaces what is known.
const ROUTER: u32 = 1 << 31;
const OVERRIDE: u32 = 1 << 29;
/// Option of a neighbour advertisement: the link address of the target, in units of eight bytes.
const TARGET_LINK_ADDRESS: [u8; 2] = [2, 1];

/// Announces addresses some times.
pub(super) struct Announcer {
    settings: Announce,
    frames: OwnedFd,
    routing: Socket,
    ports: Arc<TakenPorts>,
    /// How many announcements are left, and when the next one is due.
    left: u32,
    due: u64,
    /// Packets that were sent.
    pub(super) sent: u64,
}

impl Announcer {
    /// Opens the sockets.
    ///
    /// # Errors
    /// There is no descriptor, or no right.
    pub(super) fn new(settings: Announce, ports: Arc<TakenPorts>) -> io::Result<Self> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers. Protocol 0: it receives nothing.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor without another owner.
        let frames = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Announcer { settings, frames, routing: Socket::new()?, ports, left: 0, due: 0, sent: 0 })
    }

    /// The addresses are here from now on.
    pub(super) fn begin(&mut self, now: u64) {
        (self.left, self.due) = (self.settings.count, now);
    }

    /// They are elsewhere.
    pub(super) fn end(&mut self) {
        self.left = 0;
    }

    /// When the next announcement is due.
    pub(super) fn due(&self) -> Option<u64> {
        (self.left > 0).then_some(self.due)
    }

    /// Announces all addresses if that is due.
    pub(super) fn tick(&mut self, now: u64, tables: &Tables) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        self.left -= 1;
        self.due = now + u64::from(self.settings.interval) * SECOND;
        let assigned = match Assigned::all(&mut self.routing) {
            Ok(assigned) => assigned,
            Err(e) => return log(format_args!("addresses are not announced: {e}")),
        };
        let Ok(net) = tables.network() else {
            return log("a worker does not answer: addresses are not announced");
        };
        let ports: HashSet<u32> = self.ports.links().into_iter().map(|(tap, _)| tap).collect();
        for Assigned { link, address } in assigned {
            let Some(link) = net.link(link).filter(|link| stands_on(&net, link, &ports)) else {
                continue;
            };
            if !link.up || !link.arp || !link.has_link_header() {
                continue;
            }
            let sent = match address {
                IpAddr::V4(address) => {
                    self.send(link.index, ethernet::ARP, BROADCAST, &gratuitous(address, link.mac))
                }
                IpAddr::V6(address) => {
                    let packet = unsolicited(address, link.mac, link.conf.forwards6());
                    self.send(link.index, ethernet::IPV6, ALL_NODES.1, &packet)
                }
            };
            match sent {
                Ok(()) => self.sent += 1,
                Err(e) => log(format_args!("{address} on {} is not announced: {e}", link.name)),
            }
        }
    }

    fn send(&self, link: u32, ethertype: u16, to: Mac, packet: &[u8]) -> io::Result<()> {
        // SAFETY: all zeroes are a valid address.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ethertype.to_be();
        address.sll_ifindex = link as i32;
        address.sll_halen = 6;
        address.sll_addr[..6].copy_from_slice(&to.0);
        // SAFETY: packet and address live through the call, which knows their lengths.
        let sent = unsafe {
            libc::sendto(
                self.frames.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                0,
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Whether a link is one of the ports, or stands on one: VLANs and the like, and bridges.
fn stands_on(net: &Network, link: &Link, ports: &HashSet<u32>) -> bool {
    /// Links on links at most, as in the kernel (`MAX_NEST_DEV`).
    const DEEP: u32 = 8;
    fn look(net: &Network, link: &Link, ports: &HashSet<u32>, deep: u32) -> bool {
        let next = |index: u32| {
            deep > 0 && net.link(index).is_some_and(|lower| look(net, lower, ports, deep - 1))
        };
        ports.contains(&link.index)
            || link.kind.lower().is_some_and(next)
            || link.bridge().is_some_and(|bridge| bridge.ports.iter().any(|port| next(*port)))
    }
    look(net, link, ports, DEEP)
}

/// An ARP request of an address for itself, which no host answers and all take.
fn gratuitous(address: Ipv4Addr, mac: Mac) -> Vec<u8> {
    let request = arp::Repr {
        operation: arp::REQUEST,
        sender_mac: mac,
        sender_ip: address,
        target_mac: Mac::ZERO,
        target_ip: address,
    };
    request.bytes().to_vec()
}

/// A neighbour advertisement that nobody asked for, from its IPv6 header on.
fn unsolicited(address: Ipv6Addr, mac: Mac, is_router: bool) -> Vec<u8> {
    let flags = OVERRIDE | if is_router { ROUTER } else { 0 };
    let payload = [&address.octets()[..], &TARGET_LINK_ADDRESS, &mac.0].concat();
    let len = (icmpv6::LEN + payload.len()) as u16;
    let pseudo = checksum::pseudo_v6(address, ALL_NODES.0, protocol::ICMPV6, len.into());
    let message =
        icmpv6::Repr { kind: icmpv6::NEIGHBOUR_ADVERTISEMENT, code: 0, rest_of_header: flags };
    let header = ipv6::Repr {
        src: address,
        dst: ALL_NODES.0,
        next_header: protocol::ICMPV6,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 255,
        payload_len: len,
    };
    [&header.bytes()[..], &message.bytes(pseudo, &payload), &payload].concat()
}
