// SPDX-License-Identifier: Apache-2.0

//! ESP that arrives for this host (`xfrm_input()`, `xfrm4_udp_encap_rcv()`), and policy for what is
//! delivered.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use penstock_net::{LOOPBACK, RouteType};
use penstock_packet::{Ct, Packet};
use penstock_program::Hook;
use penstock_wire::{esp, ethernet, ipv6, protocol, udp};
use penstock_xfrm::{Direction, Encapsulated, Mode, SecPath, Stat, checksum_ok, classify};

use crate::course::{Course, Next};
use crate::hooks::Protocol;
use crate::ipsec::reason;
use crate::reason::DropReason;
use crate::route::Route;
use crate::sink::Sink;
use crate::worker::Worker;

/// Where ESP is in a packet.
#[derive(Clone, Copy)]
struct EspPosition {
    /// Its SPI, from the network header on.
    at: usize,
    /// IP headers before it.
    kept: usize,
    /// The byte among them with the type of what follows.
    next_at: usize,
    /// Within UDP.
    udp: bool,
}

impl<S: Sink> Worker<'_, S> {
    /// A packet for the host after `input`: `None` if the host is to have it, else the stage where
    /// it continues. ESP is taken off and the packet received again; policy must allow everything
    /// else.
    pub(crate) fn xfrm_deliver(
        &mut self,
        packet: &mut Packet,
        course: &mut Course,
    ) -> Option<Next> {
        if self.xfrm_is_by_host() {
            return None;
        }
        if !matches!(packet.meta.protocol, ethernet::IPV4 | ethernet::IPV6) {
            return None;
        }
        packet.find_transport();
        let Some(transport) = packet.transport().filter(|t| t.fragment_offset == 0) else {
            return self.xfrm_check_in(packet);
        };
        let kept = usize::from(transport.offset);
        match transport.protocol {
            protocol::ESP => {
                let place = EspPosition {
                    at: kept,
                    kept,
                    next_at: next_header(packet.network(), kept),
                    udp: false,
                };
                Some(self.xfrm_input(packet, place, course))
            }
            protocol::UDP => match self.encapsulated(packet) {
                None => self.xfrm_check_in(packet),
                // The program that exchanges keys there has its own policy on its socket.
                Some(Encapsulated::Other) => None,
                Some(_) if !checksum_ok(packet.network(), kept) => {
                    Some(self.end(DropReason::UdpChecksum, packet))
                }
                Some(Encapsulated::KeepAlive) => {
                    self.state.counters.taken += 1;
                    self.state.counters.absorbed += 1;
                    Some(Next::Done)
                }
                Some(Encapsulated::Esp) => {
                    let next_at = next_header(packet.network(), kept);
                    let place = EspPosition { at: kept + udp::LEN, kept, next_at, udp: true };
                    Some(self.xfrm_input(packet, place, course))
                }
            },
            _ => self.xfrm_check_in(packet),
        }
    }

    /// Asks policy about a packet for the host: `None` if it is allowed.
    fn xfrm_check_in(&mut self, packet: &mut Packet) -> Option<Next> {
        (!self.xfrm_check(Direction::In, packet)).then_some(Next::Done)
    }

    /// What a datagram holds, if it came to a port for ESP.
    fn encapsulated(&self, packet: &Packet) -> Option<Encapsulated> {
        let ipsec = self.state.ipsec.as_deref()?;
        let datagram = udp::Header::new(packet.transport_bytes()?)?;
        ipsec.xfrm.takes_udp(datagram.dport()).then(|| classify(datagram.payload()))
    }

    fn xfrm_input(&mut self, packet: &mut Packet, place: EspPosition, course: &mut Course) -> Next {
        match self.xfrm_open(packet, place) {
            Ok((Mode::Tunnel, held)) => {
                self.receive_inner(packet, held);
                Next::Done
            }
            Ok((Mode::Transport, _)) => self.receive_transport(packet, course),
            Err(stat) => self.end(reason(stat), packet),
        }
    }

    /// Takes off ESP, several times in transport mode; returns the last state's mode and what it
    /// held.
    fn xfrm_open(
        &mut self,
        packet: &mut Packet,
        mut place: EspPosition,
    ) -> Result<(Mode, u8), Stat> {
        let now = packet.meta.time;
        let Some(ipsec) = self.state.ipsec.as_deref_mut() else { return Err(Stat::InNoStates) };
        ipsec.xfrm.start(now);
        let mut path: SecPath = ipsec.secpath(packet);
        loop {
            let network = packet.network();
            let destination = destination_of(network).ok_or(Stat::InHeader)?;
            let header =
                network.get(place.at..).and_then(esp::Header::new).ok_or(Stat::InHeader)?;
            if path.states().len() == penstock_xfrm::DEPTH {
                return Err(Stat::InBuffer);
            }
            let id =
                ipsec.xfrm.find(destination, header.spi(), packet.meta.mark, place.udp, now)?;
            path.push(id);
            let kept = (place.kept, place.next_at);
            let opened = ipsec.xfrm.open(id, packet.network_mut(), place.at, kept, now)?;
            packet.meta.mark = ipsec.xfrm.mark(id, packet.meta.mark);
            packet.pull_network(opened.skip);
            packet.trim_network(opened.len);
            let mode = ipsec.xfrm.state(id).config.mode;
            if mode == Mode::Transport && opened.protocol == protocol::ESP {
                place = EspPosition { at: place.kept, udp: false, ..place };
                continue;
            }
            packet.meta.ct = Ct::default();
            packet.meta.reassembled = 0;
            packet.meta.secpath = ipsec.note(path);
            return Ok((mode, opened.protocol));
        }
    }

    /// What came out of a tunnel is received again, by the device that the tunnel's packet came in
    /// by.
    fn receive_inner(&mut self, packet: &mut Packet, held: u8) {
        let ethertype = if held == protocol::IPV6 { ethernet::IPV6 } else { ethernet::IPV4 };
        packet.meta.protocol = ethertype;
        packet.meta.route = None;
        packet.meta.oif = 0;
        if let Some(field) = packet.link_mut().last_chunk_mut::<2>() {
            *field = ethertype.to_be_bytes();
        }
        let mut inner = self.state.buffers.spare.pop().unwrap_or_default();
        std::mem::swap(&mut inner, packet);
        // The caller still reads its metadata.
        packet.load(&[], 0);
        packet.meta.time = inner.meta.time;
        self.state.buffers.backlog.push_back((inner, None));
    }

    /// What came out of transport mode passes `prerouting` and `input` again
    /// (`xfrm4_transport_finish()`).
    fn receive_transport(&mut self, packet: &mut Packet, course: &mut Course) -> Next {
        let mut to = Route::special(RouteType::Local, true, LOOPBACK, packet.meta.iif);
        to.realm = packet.meta.realm;
        let v6 = packet.meta.protocol == ethernet::IPV6;
        let protocol = if v6 { Protocol::Ip6 } else { Protocol::Ip };
        *course = Course::to(to);
        self.hook_before_route(protocol, Hook::Prerouting, packet, course, Next::route(protocol))
    }
}

fn destination_of(network: &[u8]) -> Option<IpAddr> {
    if network.first()? >> 4 == 6 {
        let bytes: [u8; 16] = *network.get(24..)?.first_chunk()?;
        return Some(Ipv6Addr::from(bytes).into());
    }
    let bytes: [u8; 4] = *network.get(16..)?.first_chunk()?;
    Some(Ipv4Addr::from(bytes).into())
}

/// Where in the headers before `end` the type is of what follows them.
fn next_header(network: &[u8], end: usize) -> usize {
    const PROTOCOL: usize = 9;
    const NEXT: usize = 6;
    if network.first().is_none_or(|b| b >> 4 != 6) {
        return PROTOCOL;
    }
    let (mut next_at, mut at) = (NEXT, ipv6::LEN);
    while at < end {
        let Some(&[_, units]) = network.get(at..).and_then(|h| h.first_chunk()) else { break };
        let len = match network.get(next_at) {
            Some(&protocol::FRAGMENT) => 8,
            Some(&protocol::AH) => (usize::from(units) + 2) * 4,
            _ => (usize::from(units) + 1) * 8,
        };
        (next_at, at) = (at, at + len);
    }
    next_at
}
