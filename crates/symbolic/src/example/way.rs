// SPDX-License-Identifier: Apache-2.0

//! The way of an example through a network: chains by the interpreter, routes by the network's own
//! look-up, and translation of its bytes.

use std::net::IpAddr;

use penstock_net::address6::{is_link_local, needs_device};
use penstock_net::{Devconf, Flow4, Flow6, Hit, LOOPBACK, Link, Network, RouteType, Scope};
use penstock_packet::PacketType;
use penstock_program::Hook;
use penstock_program::expr::{CtDir, CtKey, NatKind};
use penstock_wire::{ipv4, ipv6};

use super::run::Run;
use crate::fate::{Decider, End, Refusal};
use crate::field::{Field, What, state};
use crate::routing::Hop;
use crate::walk::{Side, WITH_PORTS, flags, reversals};
use crate::way::{Device, Passage, Start, Way};

const NOBODY: Decider = Decider { rule: None, base: None };

/// Where routing leads a packet.
enum Led {
    Host,
    By(Hop),
}

impl Run<'_, '_> {
    /// The whole way.
    pub(super) fn way(&mut self, way: &Way<'_>) -> (End, Decider) {
        let mut decider = NOBODY;
        match self.passed(way, &mut decider) {
            Ok(end) => (end, decider),
            Err(end @ End::Refused(_)) => (end, NOBODY),
            Err(end) => (end, decider),
        }
    }

    /// Where the packet ends; an error before it does.
    fn passed(&mut self, way: &Way<'_>, decider: &mut Decider) -> Result<End, End> {
        let refused = |why: Refusal| End::Refused(why);
        match way.start {
            Start::Arrival => {
                let device = self.arrival(way).ok_or(refused(Refusal::Absent))?.clone();
                if let Some(out) = self.ingress(way, &device, decider)? {
                    return Ok(End::Leaves(out));
                }
                self.checked6(way, &device).map_err(refused)?;
                self.pass(way, Hook::Prerouting, decider)?;
                match self.arrived(way, &device).map_err(refused)? {
                    Led::Host => {
                        self.pass(way, Hook::Input, decider)?;
                        Ok(End::Host)
                    }
                    Led::By(hop) => {
                        if self.packet.meta.packet_type != PacketType::Host {
                            return Err(refused(Refusal::NotForHost));
                        }
                        let hops = if self.is_v6() { 7 } else { 8 };
                        let left = self.packet.network_mut().get_mut(hops);
                        match left {
                            Some(left) if *left > 1 => *left -= 1,
                            _ => return Err(refused(Refusal::Hops)),
                        }
                        let out = way.device(hop.link).ok_or(refused(Refusal::NoRoute))?;
                        self.packet.meta.oif = out.index;
                        self.pass(way, Hook::Forward, decider)?;
                        self.leave(way, &hop, decider)
                    }
                }
            }
            Start::Host => {
                self.packet.meta.iif = 0;
                self.no_link();
                let mut hop = self.own(way).map_err(refused)?;
                let device = |hop: &Hop| way.device(hop.link).map_or(0, |device| device.index);
                self.packet.meta.oif = device(&hop);
                self.turned = false;
                self.pass(way, Hook::Output, decider)?;
                if self.turned {
                    hop = self.own(way).map_err(refused)?;
                    self.packet.meta.oif = device(&hop);
                }
                self.leave(way, &hop, decider)
            }
        }
    }

    fn leave(&mut self, way: &Way<'_>, hop: &Hop, decider: &mut Decider) -> Result<End, End> {
        self.hop = Some(hop.clone());
        self.pass(way, Hook::Postrouting, decider)?;
        let index = self.packet.meta.oif;
        if let Some(device) = way.device(hop.link) {
            self.egress(way, device, decider)?;
        }
        Ok(End::Leaves(index))
    }

    /// Chains of a hook, and translation.
    fn pass(&mut self, way: &Way<'_>, hook: Hook, decider: &mut Decider) -> Result<(), End> {
        self.translated = false;
        self.env.translation = None;
        self.settled = !way.translates();
        if let Some(passage) = way.passage(hook) {
            self.through(passage, decider)?;
        }
        match Side::at(hook) {
            Some(side) => self.translate(way, side).map_err(End::Refused),
            None => Ok(()),
        }
    }

    pub(super) fn through(&mut self, passage: &Passage, decider: &mut Decider) -> Result<(), End> {
        let (end, by) = self.hook(passage.hook, passage.of_bridges, &passage.bases);
        let is_new = decider.base.is_none() && by.rule.is_some();
        if passage.filters() || is_new || end != End::Accept {
            *decider = by;
        }
        if end == End::Accept { Ok(()) } else { Err(end) }
    }

    pub(super) fn is_v6(&self) -> bool {
        self.packet.network().first().is_some_and(|byte| byte >> 4 == 6)
    }

    fn arrival<'w>(&self, way: &'w Way<'_>) -> Option<&'w Device> {
        let field = Field::Meta(penstock_program::expr::MetaKey::IifName);
        let name = self.example.value(field)?;
        way.entrances().find(|device| device.interface.name[..] == name[..])
    }

    /// What routing says of a packet that arrived.
    fn arrived(&self, way: &Way<'_>, device: &Device) -> Result<Led, Refusal> {
        let net = way.network;
        let link = net.link(device.link).ok_or(Refusal::Absent)?;
        if self.is_v6() { self.arrived6(net, link) } else { self.arrived4(net, link) }
    }

    fn ports(&self) -> (u16, u16) {
        let ports = self.packet.transport_bytes().and_then(|bytes| bytes.first_chunk::<4>());
        ports.map_or((0, 0), |b| {
            (u16::from_be_bytes([b[0], b[1]]), u16::from_be_bytes([b[2], b[3]]))
        })
    }

    /// The way out of a hit: of several as the example has it.
    fn hop_of(&self, net: &Network, hit: &Hit<'_>) -> Hop {
        let hops: Vec<Hop> = hit.route.nexthops.iter().map(|hop| Hop::of(net, hop)).collect();
        let named: Vec<u8> = hops.iter().flat_map(Hop::name).collect();
        let chosen = self.example.chosen(What::Hop, &named).map_or(0, |number| number[0]);
        let usual = Hop::of(net, hit.nexthop);
        match hops.len() {
            0 | 1 => usual,
            _ => hops.get(usize::from(chosen)).cloned().unwrap_or(usual),
        }
    }

    /// `ip_route_input_slow()`.
    fn arrived4(&self, net: &Network, link: &Link) -> Result<Led, Refusal> {
        let header = ipv4::Header::new(self.packet.network()).ok_or(Refusal::Source)?;
        let (saddr, daddr) = (u32::from(header.src()), u32::from(header.dst()));
        let localnet = link.conf.is_on(Devconf::RouteLocalnet);
        let is_group = |address: u32| address >> 28 == 0xe;
        let is_loopback = |address: u32| address >> 24 == 127 && !localnet;
        let no_source = is_group(saddr) || saddr == u32::MAX;
        if is_group(daddr) {
            if !link.joined4(daddr) {
                return Err(Refusal::NotMember);
            }
            if no_source || is_loopback(saddr) || saddr == 0 && daddr >> 8 != 0xe0_0000 {
                return Err(Refusal::Source);
            }
            self.check_source(net, link, None)?;
            return Ok(Led::Host);
        }
        if no_source {
            return Err(Refusal::Source);
        }
        if daddr == u32::MAX || saddr == 0 && daddr == 0 {
            self.check_source(net, link, None)?;
            return Ok(Led::Host);
        }
        match (saddr == 0, daddr == 0 || is_loopback(daddr), is_loopback(saddr)) {
            (true, _, _) | (_, false, true) => return Err(Refusal::Source),
            (_, true, _) => return Err(Refusal::Destination),
            _ => {}
        }
        let flow = Flow4 {
            daddr,
            saddr,
            tos: header.tos() & 0x1c,
            mark: self.packet.meta.mark,
            iif: link.index,
            protocol: header.protocol(),
            ports: self.ports(),
            ..Flow4::default()
        };
        let forwards = link.conf.is_on(Devconf::Forwarding4);
        let hit = match net.route4(&flow) {
            Ok(hit) => hit,
            Err(_) if !forwards => return Err(Refusal::NotForwarding),
            Err(why) => return Err(why.into()),
        };
        match hit.route.kind {
            RouteType::Broadcast | RouteType::Local => {
                self.check_source(net, link, None)?;
                Ok(Led::Host)
            }
            _ if !forwards => Err(Refusal::NotForwarding),
            RouteType::Unicast => {
                let hop = self.hop_of(net, &hit);
                self.check_source(net, link, Some(hop.link))?;
                Ok(Led::By(hop))
            }
            _ => Err(Refusal::Destination),
        }
    }

    /// `fib_validate_source()`.
    fn check_source(&self, net: &Network, link: &Link, out: Option<u32>) -> Result<(), Refusal> {
        let header = ipv4::Header::new(self.packet.network()).ok_or(Refusal::Source)?;
        let (saddr, daddr) = (u32::from(header.src()), u32::from(header.dst()));
        if out.is_none() && saddr == 0 {
            return Ok(());
        }
        let conf = &link.conf;
        let filter = if self.packet.meta.secpath != 0 { 0 } else { conf.get(Devconf::RpFilter) };
        let local = conf.is_on(Devconf::AcceptLocal);
        let back = out == Some(link.index) && conf.is_on(Devconf::SendRedirects);
        if filter == 0 && !back {
            if local {
                return Ok(());
            }
            if !net.custom4() {
                return if net.own4(saddr) { Err(Refusal::Source) } else { Ok(()) };
            }
        }
        let flow = Flow4 {
            daddr: saddr,
            saddr: daddr,
            tos: header.tos() & 0x1c,
            mark: if conf.is_on(Devconf::SrcValidMark) { self.packet.meta.mark } else { 0 },
            iif: out.unwrap_or(LOOPBACK),
            ..Flow4::default()
        };
        let last_resort = if filter == 0 { Ok(()) } else { Err(Refusal::ReversePath) };
        let Ok(hit) = net.route4(&flow) else { return last_resort };
        let kind = hit.route.kind;
        if kind != RouteType::Unicast && !(kind == RouteType::Local && local) {
            return Err(Refusal::Source);
        }
        if hit.route.nexthops.iter().any(|hop| hop.oif == link.index) {
            return Ok(());
        }
        match (link.addresses4.is_empty(), filter) {
            (true, _) => last_resort,
            (false, 1) => Err(Refusal::ReversePath),
            (false, _) => Ok(()),
        }
    }

    /// `ip6_rcv_core()`.
    fn checked6(&self, way: &Way<'_>, device: &Device) -> Result<(), Refusal> {
        let Some(header) = ipv6::Header::new(self.packet.network()).filter(|_| self.is_v6()) else {
            return Ok(());
        };
        let (saddr, daddr) = (u128::from(header.src()), u128::from(header.dst()));
        if way.network.link(device.link).is_none_or(|link| link.mtu6().is_none()) {
            return Err(Refusal::NotForwarding);
        }
        let is_group = |address: u128| address >> 120 == 0xff;
        if saddr == 1 || daddr != 1 && is_group(saddr) {
            return Err(Refusal::Source);
        }
        if daddr == 1 || is_group(daddr) && daddr >> 112 & 0xf < 2 {
            return Err(Refusal::Destination);
        }
        Ok(())
    }

    /// `ip6_route_input()`, `ip6_forward()`.
    fn arrived6(&self, net: &Network, link: &Link) -> Result<Led, Refusal> {
        let header = ipv6::Header::new(self.packet.network()).ok_or(Refusal::Source)?;
        let (saddr, daddr) = (u128::from(header.src()), u128::from(header.dst()));
        let flow = Flow6 {
            daddr,
            saddr: Some(saddr),
            tos: header.traffic_class() & 0xfc,
            mark: self.packet.meta.mark,
            iif: link.index,
            oif: link.index,
            protocol: header.next_header(),
            ports: self.ports(),
            strict: needs_device(daddr),
        };
        let hit = net.route6(&flow).map_err(Refusal::from)?;
        match hit.route.kind {
            RouteType::Multicast if link.joined6(daddr) => Ok(Led::Host),
            RouteType::Multicast => Err(Refusal::NotMember),
            RouteType::Local | RouteType::Anycast => Ok(Led::Host),
            _ if !link.conf.forwards6() => Err(Refusal::NotForwarding),
            _ => {
                let hop = self.hop_of(net, &hit);
                if hop.link != link.index && (saddr == 0 || is_link_local(saddr)) {
                    return Err(Refusal::Scope);
                }
                Ok(Led::By(hop))
            }
        }
    }

    /// What routing says of a packet of the host.
    fn own(&self, way: &Way<'_>) -> Result<Hop, Refusal> {
        let net = way.network;
        let itself = Hop::to_itself();
        let (mark, ports) = (self.packet.meta.mark, self.ports());
        let hit = if self.is_v6() {
            let header = ipv6::Header::new(self.packet.network()).ok_or(Refusal::Source)?;
            net.route6(&Flow6 {
                daddr: header.dst().into(),
                saddr: Some(header.src().into()),
                tos: header.traffic_class() & 0xfc,
                mark,
                iif: LOOPBACK,
                protocol: header.next_header(),
                ports,
                ..Flow6::default()
            })
        } else {
            let header = ipv4::Header::new(self.packet.network()).ok_or(Refusal::Source)?;
            let daddr = u32::from(header.dst());
            if daddr == 0 {
                return Ok(itself);
            }
            net.route4(&Flow4 {
                daddr,
                saddr: header.src().into(),
                tos: header.tos() & 0x1c,
                mark,
                iif: LOOPBACK,
                protocol: header.protocol(),
                ports,
                ..Flow4::default()
            })
        };
        let hit = hit.map_err(Refusal::from)?;
        match hit.route.kind {
            RouteType::Local | RouteType::Anycast => Ok(itself),
            _ => Ok(self.hop_of(net, &hit)),
        }
    }

    /// Translates the packet at a hook, once: as a rule has asked, or as its connection has it.
    pub(super) fn translate(&mut self, way: &Way<'_>, side: Side) -> Result<(), Refusal> {
        if std::mem::replace(&mut self.settled, true) {
            return Ok(());
        }
        let Some(request) = self.env.translation.take() else {
            self.translate_known(way, side);
            return Ok(());
        };
        let v6 = self.is_v6();
        let mut address: Option<Vec<u8>> = None;
        match request.kind {
            NatKind::Source | NatKind::Destination if request.flags & flags::MAP_IPS != 0 => {
                let len = if v6 { 16 } else { 4 };
                let (min, max) = (&request.min_address[..len], &request.max_address[..len]);
                address = Some(match min == max {
                    true => min.to_vec(),
                    false => {
                        let chosen = self.example.chosen(What::Address, &[min, max].concat());
                        chosen.map_or_else(|| min.to_vec(), |chosen| chosen[..len].to_vec())
                    }
                });
            }
            NatKind::Source | NatKind::Destination => {}
            NatKind::Masquerade => address = Some(octets(self.masquerade(way, v6)?)),
            NatKind::Redirect => address = Some(octets(self.redirect(way, v6)?)),
        }
        if let Some(address) = address {
            self.give_address(side, &address);
        }
        if self.has_ports() {
            let (min, max) = (request.min_port.to_be_bytes(), request.max_port.to_be_bytes());
            let given = request.flags & flags::PROTO_SPECIFIED != 0;
            let random = request.flags & (flags::PROTO_RANDOM | flags::PROTO_RANDOM_FULLY) != 0;
            let port = match (given, min == max, random) {
                (true, true, _) => Some(min.to_vec()),
                (true, false, _) => self.example.chosen(What::Port, &[min, max].concat()),
                (false, _, true) => self.example.chosen(What::Port, &[0, 1, 0xff, 0xff]),
                (false, _, false) => None,
            };
            if let Some(port) = port {
                self.give_port(side, &port);
            }
        }
        self.turned |= self.env.context.hook == Hook::Output;
        let key = (CtKey::Status, None);
        if let Some(status) = self.env.connection.get_mut(&key) {
            let known = status.first_chunk::<4>().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            *status = (known | side.status()).to_ne_bytes().to_vec();
        }
        Ok(())
    }

    fn masquerade(&self, way: &Way<'_>, v6: bool) -> Result<IpAddr, Refusal> {
        let net = way.network;
        let hop = self.hop.clone().ok_or(Refusal::NoAddress)?;
        let bytes = self.packet.network();
        if v6 {
            let to = ipv6::Header::new(bytes).map_or(0, |header| header.dst().into());
            let source = net.source6(hop.link, to).ok_or(Refusal::NoAddress)?;
            return Ok(std::net::Ipv6Addr::from(source).into());
        }
        let to = || ipv4::Header::new(bytes).map_or(0, |header| header.dst().into());
        match hop.source.unwrap_or_else(|| net.source4(hop.link, to(), Scope::UNIVERSE)) {
            0 => Err(Refusal::NoAddress),
            source => Ok(std::net::Ipv4Addr::from(source).into()),
        }
    }

    fn redirect(&self, way: &Way<'_>, v6: bool) -> Result<IpAddr, Refusal> {
        if way.start == Start::Host {
            return Ok(match v6 {
                true => std::net::Ipv6Addr::LOCALHOST.into(),
                false => std::net::Ipv4Addr::LOCALHOST.into(),
            });
        }
        let device = self.arrival(way).ok_or(Refusal::NoAddress)?;
        let address = if v6 {
            let to =
                ipv6::Header::new(self.packet.network()).map_or(0, |header| header.dst().into());
            let address = way.network.redirect6(device.link, to);
            address.map(|address| std::net::Ipv6Addr::from(address).into())
        } else {
            let address = way.network.redirect4(device.link);
            address.map(|address| std::net::Ipv4Addr::from(address).into())
        };
        address.ok_or(Refusal::NoAddress)
    }

    fn has_ports(&self) -> bool {
        let carried = self.packet.transport().map(|transport| transport.protocol);
        carried.is_some_and(|carried| WITH_PORTS.contains(&carried))
            && self.packet.transport_bytes().is_some_and(|bytes| bytes.len() >= 4)
    }

    fn give_address(&mut self, side: Side, address: &[u8]) {
        let v6 = address.len() == 16;
        let at = usize::from(side.address(v6).start);
        if let Some(bytes) = self.packet.network_mut().get_mut(at..at + address.len()) {
            bytes.copy_from_slice(address);
        }
        self.answer_to(side, address, v6, 0);
    }

    fn give_port(&mut self, side: Side, port: &[u8]) {
        let at = usize::from(side.port());
        if let Some(bytes) = self.packet.transport_bytes_mut().and_then(|b| b.get_mut(at..at + 2)) {
            bytes.copy_from_slice(port);
        }
        self.answer_to(side, port, false, 1);
    }

    /// What answers will have, where rules ask for it.
    fn answer_to(&mut self, side: Side, value: &[u8], v6: bool, which: usize) {
        let key = (side.other().keys(v6)[which], Some(CtDir::Reply));
        if let Some(known) = self.env.connection.get_mut(&key) {
            known.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
        }
    }

    /// Addresses of a connection that was there before.
    fn translate_known(&mut self, way: &Way<'_>, side: Side) {
        let first = self.example.value(Field::Untranslated).is_some_and(|value| value[0] != 0);
        let state = self.example.value(Field::CtState).map(|value| value[0]);
        let tracked = self.packet.meta.ct.info != penstock_packet::CtInfo::Untracked;
        let may_be = way.translates_of(self.is_v6());
        if first
            || !may_be
            || !tracked
            || !state.is_some_and(|state| state::WITH_ENTRY.contains(&state))
        {
            return;
        }
        let direction = self.example.value(Field::Ct(CtKey::Direction, None));
        let direction = direction.map_or(0, |value| value[0]);
        let status = self.example.value(Field::Ct(CtKey::Status, None));
        let status = status.and_then(|value| value.first_chunk::<4>().copied());
        let status = status.map_or(0, u32::from_be_bytes);
        let v6 = self.is_v6();
        for reversal in reversals(side, v6) {
            if reversal.direction as u8 != direction || reversal.status & status == 0 {
                continue;
            }
            let [(address, of), (port, _)] = reversal.keys;
            let len = if v6 { 16 } else { 4 };
            if let Some(value) = self.example.value(Field::Ct(address, Some(of))) {
                self.give_address(side, &value[..len]);
            }
            if self.has_ports()
                && let Some(value) = self.example.value(Field::Ct(port, Some(of)))
            {
                self.give_port(side, &value);
            }
        }
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
