// SPDX-License-Identifier: Apache-2.0

//! What routing does with the packets that arrive and with those of the host
//! (`ip_route_input_slow()`, `ip6_route_input()`, `ip_route_output_key_hash_rcu()`).

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use penstock_net::{Action, Devconf, LOOPBACK, Link, Network, RouteType};
use penstock_program::expr::MetaKey;

use super::translation::WITH_PORTS;
use super::{Failure, Walk};
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::fate::{End, Refusal};
use crate::field::{Base, Field, What};
use crate::routing::{self, Flow, Found, Hop, KINDS6, has_prefix, ranges, within};
use crate::universe::Universe;
use crate::way::{Device, Start, Way};

/// Packets with the same way out.
#[derive(Clone)]
pub(super) struct Out {
    pub hop: Hop,
    pub v6: bool,
    pub region: Region,
}

/// What routing decided.
pub(super) struct Routed {
    pub refused: Vec<(Refusal, Region)>,
    /// Packets for the host.
    pub host: Region,
    /// Packets for others.
    pub ways: Vec<Out>,
}

/// Links that filter sources with `rp_filter` as 1: only the way back itself counts.
const STRICT: u32 = 1;

impl Walk<'_, '_> {
    /// Packets of IPv4, or of IPv6.
    pub(super) fn version(&mut self, v6: bool) -> Decided<Region> {
        let bits = self.universe.bits(Field::Meta(MetaKey::NfProto))?;
        bits::equal(&self.universe.diagrams, &bits, &[if v6 { 10 } else { 2 }], &[0xff])
    }

    /// Packets that arrive on a device.
    pub(super) fn arriving_on(&mut self, device: &Device) -> Decided<Region> {
        let bits = self.machine.field(self.universe, Field::Meta(MetaKey::IifName))?;
        bits::equal(&self.universe.diagrams, &bits, &device.interface.name, &[0xff; 16])
    }

    /// Bits of the network header now.
    pub(super) fn network(&mut self, bytes: std::ops::Range<u16>) -> Decided<Vec<Bit>> {
        let mut all = Vec::new();
        for at in bytes {
            let field = Field::Header { base: Base::Network, at };
            all.extend(self.machine.field(self.universe, field)?);
        }
        Ok(all)
    }

    /// Source and destination now.
    pub(super) fn addresses(&mut self, v6: bool) -> Decided<[Vec<Bit>; 2]> {
        let [source, destination] = if v6 { [8..24, 24..40] } else { [12..16, 16..20] };
        Ok([self.network(source)?, self.network(destination)?])
    }

    /// What routing looks at, as far as rules of the network ask for it; of the host's own packets, or
    /// of those that arrive.
    fn flow(&mut self, way: &Way<'_>, v6: bool, own: bool) -> Decided<Flow> {
        let [source, destination] = self.addresses(v6)?;
        let net = way.network;
        let rules = if v6 { net.rules6() } else { net.rules4() };
        let zero = |bytes: usize| vec![Bit::ZERO; bytes * 8];
        let (mut tos, mut protocol, mut ports) = (zero(1), zero(1), [zero(2), zero(2)]);
        let mut mark = zero(4);
        let has_tos = rules.iter().any(|rule| rule.tos != 0)
            || !v6
                && rules.iter().any(|rule| match rule.action {
                    Action::Lookup(table) => !net.tos4(table).is_empty(),
                    _ => false,
                });
        if has_tos {
            tos = match v6 {
                false => self.network(1..2)?,
                true => self.network(0..2)?[4..12].to_vec(),
            };
            let kept: u8 = if v6 { 0xfc } else { 0x1c };
            for (i, bit) in tos.iter_mut().enumerate() {
                if kept >> (7 - i) & 1 == 0 {
                    *bit = Bit::ZERO;
                }
            }
        }
        if rules.iter().any(|rule| rule.mark.1 != 0) {
            mark = self.machine.field(self.universe, Field::Meta(MetaKey::Mark))?;
        }
        if rules.iter().any(|rule| rule.protocol.is_some()) {
            protocol = if v6 { self.network(6..7)? } else { self.network(9..10)? };
        }
        if rules.iter().any(|rule| rule.sport.is_some() || rule.dport.is_some()) {
            let there = self.has_ports(false)?;
            for (port, at) in ports.iter_mut().zip([0, 2]) {
                let known = self.transport(at)?;
                let d = &self.universe.diagrams;
                for (bit, known) in port.iter_mut().zip(&known) {
                    *bit = bit.replaced(&there, known, d)?;
                }
            }
        }
        let mut arrival = Vec::new();
        match own {
            true => arrival.push((LOOPBACK, self.universe.diagrams.all())),
            false => {
                for device in way.arrivals() {
                    arrival.push((device.link, self.arriving_on(device)?));
                }
            }
        }
        Ok(Flow { v6, destination, source, tos, mark, protocol, ports, arrival, by_arrival: !own })
    }

    /// Two bytes of the transport header now.
    pub(super) fn transport(&mut self, at: u16) -> Decided<Vec<Bit>> {
        let mut all = Vec::new();
        for at in [at, at + 1] {
            let field = Field::Header { base: Base::Transport, at };
            all.extend(self.machine.field(self.universe, field)?);
        }
        Ok(all)
    }

    /// Packets of which the first four bytes of the transport header are there; with `only_ports`
    /// those of protocols that have ports in them.
    pub(super) fn has_ports(&mut self, only_ports: bool) -> Decided<Region> {
        let header = self.universe.holds(Field::Transport)?;
        let whole = self.universe.holds(Field::Present { base: Base::Transport, bytes: 4 })?;
        let region = self.universe.diagrams.and(&header, &whole)?;
        if !only_ports {
            return Ok(region);
        }
        let carried = self.universe.bits(Field::Meta(MetaKey::L4Proto))?;
        let d = &self.universe.diagrams;
        let mut all = Vec::new();
        for protocol in WITH_PORTS {
            all.push(bits::equal(d, &carried, &[protocol], &[0xff])?);
        }
        d.and(&region, &d.union(&all)?)
    }

    /// Takes packets of a region out of those that are not decided yet.
    fn take(&self, rest: &mut Region, region: &Region) -> Decided<Region> {
        let taken = self.universe.diagrams.and(rest, region)?;
        *rest = self.universe.diagrams.minus(rest, &taken)?;
        Ok(taken)
    }

    /// Packets of which an address is between two.
    fn between(&self, address: &[Bit], from: u128, to: u128) -> Decided<Region> {
        within(&self.universe.diagrams, address, &[(from.to_be_bytes(), to.to_be_bytes())])
    }

    /// Packets of which an address is one of several.
    fn is_one_of(&self, address: &[Bit], all: impl IntoIterator<Item = u128>) -> Decided<Region> {
        let all: BTreeSet<u128> = all.into_iter().collect();
        let all: Vec<_> = all.iter().map(|a| (a.to_be_bytes(), a.to_be_bytes())).collect();
        within(&self.universe.diagrams, address, &all)
    }

    /// Packets that have an address of the host as their source, and a destination that does not need
    /// a device: to groups and on links the sender says by which one it sends.
    pub(super) fn own_source(&mut self, way: &Way<'_>) -> Decided<Region> {
        let up = way.network.links().iter().filter(|link| link.up);
        let six: Vec<u128> = up.flat_map(|link| &link.addresses6).map(|a| a.local).collect();
        let mut all = Vec::new();
        for (v6, own) in [(false, own4(way.network)), (true, six)] {
            let version = self.version(v6)?;
            let [source, destination] = self.addresses(v6)?;
            let own = self.is_one_of(&source, own)?;
            let mut region = self.universe.diagrams.and(&version, &own)?;
            let of_links: &[(u128, u128)] = match v6 {
                false => &[(0xe000_0000, 0xffff_ffff)],
                true => &[(0xfe80 << 112, (0xfec0 << 112) - 1), (0xff << 120, u128::MAX)],
            };
            for (from, to) in of_links {
                let on_link = self.between(&destination, *from, *to)?;
                region = self.universe.diagrams.minus(&region, &on_link)?;
            }
            all.push(region);
        }
        self.universe.diagrams.union(&all)
    }

    /// What routing does with packets that arrive.
    pub(super) fn route_arrivals(
        &mut self,
        way: &Way<'_>,
        live: &Region,
    ) -> Result<Routed, Failure> {
        let routed = self.arrivals4(way, live);
        let mut routed = self.limit(routed)?;
        let six = self.arrivals6(way, live);
        let six = self.limit(six)?;
        routed.host = self.limit(self.universe.diagrams.or(&routed.host, &six.host))?;
        routed.refused.extend(six.refused);
        routed.ways.extend(six.ways);
        Ok(routed)
    }

    /// `ip_route_input_slow()`.
    fn arrivals4(&mut self, way: &Way<'_>, live: &Region) -> Decided<Routed> {
        let version = self.version(false)?;
        let [source, destination] = self.addresses(false)?;
        let mut rest = self.universe.diagrams.and(live, &version)?;
        let host = self.universe.diagrams.none();
        let mut routed = Routed { refused: Vec::new(), host, ways: Vec::new() };
        let conf = |setting: Devconf| -> Vec<(Device, u32)> {
            let value = |link| way.network.link(link).map_or(0, |link| link.conf.get(setting));
            way.arrivals().map(|device| (device.clone(), value(device.link))).collect()
        };
        let on = |walk: &mut Self, setting| -> Decided<Region> {
            let mut all = Vec::new();
            for (device, value) in conf(setting) {
                if value != 0 {
                    all.push(walk.arriving_on(&device)?);
                }
            }
            walk.universe.diagrams.union(&all)
        };
        let (localnet, forwards) =
            (on(self, Devconf::RouteLocalnet)?, on(self, Devconf::Forwarding4)?);
        const ALL: u128 = u32::MAX as u128;
        let group_source = self.between(&source, 0xe000_0000, 0xefff_ffff)?;
        let all_source = self.between(&source, ALL, ALL)?;
        let no_source = self.between(&source, 0, 0)?;
        let d = &self.universe.diagrams;
        let bad_source = d.or(&group_source, &all_source)?;
        let loopback = |walk: &Self, address: &[Bit]| -> Decided<Region> {
            let all = walk.between(address, 0x7f00_0000, 0x7fff_ffff)?;
            walk.universe.diagrams.minus(&all, &localnet)
        };
        let (from_loopback, to_loopback) =
            (loopback(self, &source)?, loopback(self, &destination)?);

        // Groups.
        let groups = self.between(&destination, 0xe000_0000, 0xefff_ffff)?;
        let mut group = self.take(&mut rest, &groups)?;
        let mut joined = Vec::new();
        for device in way.arrivals() {
            let Some(link) = way.network.link(device.link) else { continue };
            let here = self.arriving_on(device)?;
            for number in [0xe000_0001, 0xe000_006a] {
                if link.joined4(number) {
                    let number = self.between(&destination, number.into(), number.into())?;
                    joined.push(self.universe.diagrams.and(&here, &number)?);
                }
            }
        }
        let joined = self.universe.diagrams.union(&joined)?;
        let others = self.universe.diagrams.not(&joined);
        let others = self.take(&mut group, &others)?;
        routed.refused.push((Refusal::NotMember, others));
        let wrong = self.universe.diagrams.or(&bad_source, &from_loopback)?;
        let wrong = self.take(&mut group, &wrong)?;
        routed.refused.push((Refusal::Source, wrong));
        let near = self.between(&destination, 0xe000_0000, 0xe000_00ff)?;
        let far = self.universe.diagrams.minus(&no_source, &near)?;
        let far = self.take(&mut group, &far)?;
        routed.refused.push((Refusal::Source, far));

        // What cannot be, and broadcasts.
        let wrong = self.take(&mut rest, &bad_source)?;
        routed.refused.push((Refusal::Source, wrong));
        let all_ones = self.between(&destination, ALL, ALL)?;
        let all_zero = self.between(&destination, 0, 0)?;
        let d = &self.universe.diagrams;
        let broadcast = d.or(&all_ones, &d.and(&no_source, &all_zero)?)?;
        let mut host = self.take(&mut rest, &broadcast)?;
        for (why, region) in [
            (Refusal::Source, &no_source),
            (Refusal::Destination, &all_zero),
            (Refusal::Destination, &to_loopback),
            (Refusal::Source, &from_loopback),
        ] {
            let wrong = self.take(&mut rest, region)?;
            routed.refused.push((why, wrong));
        }

        let flow = self.flow(way, false, false)?;
        let found = routing::route(&self.universe.diagrams, way.network, &flow, &rest)?;
        let mut out = Vec::new();
        for (outcome, region) in found {
            let stays = self.universe.diagrams.minus(&region, &forwards)?;
            match outcome {
                Ok(Found { kind: RouteType::Local | RouteType::Broadcast, .. }) => {
                    host = self.universe.diagrams.or(&host, &region)?;
                }
                Ok(Found { kind: RouteType::Unicast, hops }) => {
                    routed.refused.push((Refusal::NotForwarding, stays));
                    let on = self.universe.diagrams.and(&region, &forwards)?;
                    out.extend(self.share(&hops, false, on)?);
                }
                Ok(_) => routed.refused.push((Refusal::Destination, region)),
                Err(why) => {
                    routed.refused.push((Refusal::NotForwarding, stays));
                    let on = self.universe.diagrams.and(&region, &forwards)?;
                    routed.refused.push((why.into(), on));
                }
            }
        }
        // Sources of what is for the host, or for a group; 0.0.0.0 of broadcasts is not looked at.
        host = self.universe.diagrams.or(&host, &group)?;
        let checked = self.universe.diagrams.minus(&host, &no_source)?;
        let mut wrong = self.wrong_source(way, &checked, None)?;
        for (_, region) in &wrong {
            host = self.universe.diagrams.minus(&host, region)?;
        }
        let mut links: Vec<u32> = out.iter().map(|out| out.hop.link).collect();
        links.sort_unstable();
        links.dedup();
        for link in links {
            let by_it = out.iter().filter(|out| out.hop.link == link);
            let by_it: Vec<Region> = by_it.map(|out| out.region.clone()).collect();
            let by_it = self.universe.diagrams.union(&by_it)?;
            let of_it = self.wrong_source(way, &by_it, Some(link))?;
            for one in out.iter_mut().filter(|out| out.hop.link == link) {
                for (_, region) in &of_it {
                    one.region = self.universe.diagrams.minus(&one.region, region)?;
                }
            }
            wrong.extend(of_it);
        }
        routed.refused.extend(wrong);
        routed.host = host;
        routed.ways = out;
        Ok(routed)
    }

    /// Packets of a region that cannot have come in by their device from their source
    /// (`fib_validate_source()`); `out` is the link that they are to leave by.
    fn wrong_source(
        &mut self,
        way: &Way<'_>,
        region: &Region,
        out: Option<u32>,
    ) -> Decided<Vec<(Refusal, Region)>> {
        let mut wrong = Vec::new();
        let net = way.network;
        let [source, destination] = self.addresses(false)?;
        let own = self.is_one_of(&source, own4(net))?;
        for device in way.arrivals() {
            let Some(link) = net.link(device.link) else { continue };
            let here = self.arriving_on(device)?;
            let here = self.universe.diagrams.and(region, &here)?;
            if here.is_none() {
                continue;
            }
            let through_ipsec = Field::Meta(MetaKey::SecPath);
            let filter = link.conf.get(Devconf::RpFilter);
            let filtered = match filter {
                0 => self.universe.diagrams.none(),
                _ if self.universe.has(through_ipsec) => {
                    let bits = self.universe.bits(through_ipsec)?;
                    let d = &self.universe.diagrams;
                    d.and(&here, &bits::equal(d, &bits, &[0], &[0xff])?)?
                }
                _ => here.clone(),
            };
            let plain = self.universe.diagrams.minus(&here, &filtered)?;
            let local = link.conf.is_on(Devconf::AcceptLocal);
            let back = out == Some(link.index) && link.conf.is_on(Devconf::SendRedirects);
            let mut asked = vec![(filtered, filter)];
            match (back, local, net.custom4()) {
                (false, true, _) => {}
                (false, false, false) => {
                    wrong.push((Refusal::Source, self.universe.diagrams.and(&plain, &own)?));
                }
                _ => asked.push((plain, 0)),
            }
            for (region, filter) in asked.into_iter().filter(|(region, _)| !region.is_none()) {
                let mark = match link.conf.is_on(Devconf::SrcValidMark) {
                    true => self.machine.field(self.universe, Field::Meta(MetaKey::Mark))?,
                    false => vec![Bit::ZERO; 32],
                };
                let mut flow = self.flow(way, false, false)?;
                flow.destination = source.clone();
                flow.source.clone_from(&destination);
                flow.mark = mark;
                flow.protocol = vec![Bit::ZERO; 8];
                flow.ports = [vec![Bit::ZERO; 16], vec![Bit::ZERO; 16]];
                let by = out.unwrap_or(LOOPBACK);
                flow.arrival = vec![(by, self.universe.diagrams.all())];
                let found = routing::route(&self.universe.diagrams, net, &flow, &region)?;
                let last_resort = (filter != 0).then_some(Refusal::ReversePath);
                for (outcome, region) in found {
                    let why = match outcome {
                        Err(_) => last_resort,
                        Ok(Found { kind, hops }) => {
                            let is_local = kind == RouteType::Local;
                            if kind != RouteType::Unicast && !(is_local && local) {
                                Some(Refusal::Source)
                            } else if hops.iter().any(|hop| hop.link == link.index) {
                                None
                            } else if link.addresses4.is_empty() {
                                last_resort
                            } else {
                                (filter == STRICT).then_some(Refusal::ReversePath)
                            }
                        }
                    };
                    wrong.extend(why.map(|why| (why, region)));
                }
            }
        }
        Ok(wrong)
    }

    /// Packets of IPv6 that are refused before rules see them (`ip6_rcv_core()`).
    pub(super) fn refused6(
        &mut self,
        way: &Way<'_>,
        live: &Region,
    ) -> Decided<Vec<(Refusal, Region)>> {
        let version = self.version(true)?;
        let [source, destination] = self.addresses(true)?;
        let mut rest = self.universe.diagrams.and(live, &version)?;
        let mut without = Vec::new();
        for device in way.arrivals() {
            if way.network.link(device.link).is_some_and(|link| link.mtu6().is_none()) {
                without.push(self.arriving_on(device)?);
            }
        }
        let without = self.universe.diagrams.union(&without)?;
        // Groups of no scope, or of this host.
        let mut nowhere = Vec::new();
        for flags in 0..16u128 {
            let from = (0xff00 | flags << 4) << 112;
            nowhere.push((from.to_be_bytes(), (from + (2 << 112) - 1).to_be_bytes()));
        }
        let mut refused = Vec::new();
        for (why, region) in [
            (Refusal::NotForwarding, without),
            (Refusal::Source, self.between(&source, 1, 1)?),
            (Refusal::Destination, self.between(&destination, 1, 1)?),
            (Refusal::Source, self.between(&source, 0xff << 120, u128::MAX)?),
            (Refusal::Destination, within(&self.universe.diagrams, &destination, &nowhere)?),
        ] {
            refused.push((why, self.take(&mut rest, &region)?));
        }
        Ok(refused)
    }

    /// `ip6_route_input()`, `ip6_forward()`.
    fn arrivals6(&mut self, way: &Way<'_>, live: &Region) -> Decided<Routed> {
        let version = self.version(true)?;
        let [source, destination] = self.addresses(true)?;
        let live = self.universe.diagrams.and(live, &version)?;
        let host = self.universe.diagrams.none();
        let mut routed = Routed { refused: Vec::new(), host, ways: Vec::new() };
        let (mut forwards, mut joined) = (Vec::new(), Vec::new());
        for device in way.arrivals() {
            let Some(link) = way.network.link(device.link) else { continue };
            let here = self.arriving_on(device)?;
            if link.conf.forwards6() {
                forwards.push(here.clone());
            }
            let groups = self.is_one_of(&destination, groups6(link))?;
            joined.push(self.universe.diagrams.and(&here, &groups)?);
        }
        let d = &self.universe.diagrams;
        let (forwards, joined) = (d.union(&forwards)?, d.union(&joined)?);
        let flow = self.flow(way, true, false)?;
        let found = routing::route(&self.universe.diagrams, way.network, &flow, &live)?;
        let no_source = self.between(&source, 0, 0)?;
        let link_local = has_prefix(&self.universe.diagrams, &source, (0xfe80 << 112, 10))?;
        for (outcome, region) in found {
            match outcome {
                Ok(Found { kind: RouteType::Multicast, .. }) => {
                    let d = &self.universe.diagrams;
                    routed.host = d.or(&routed.host, &d.and(&region, &joined)?)?;
                    routed.refused.push((Refusal::NotMember, d.minus(&region, &joined)?));
                }
                Ok(Found { kind: RouteType::Local | RouteType::Anycast, .. }) => {
                    routed.host = self.universe.diagrams.or(&routed.host, &region)?;
                }
                Ok(Found { hops, .. }) => {
                    let stays = self.universe.diagrams.minus(&region, &forwards)?;
                    routed.refused.push((Refusal::NotForwarding, stays));
                    let on = self.universe.diagrams.and(&region, &forwards)?;
                    for mut out in self.share(&hops, true, on)? {
                        let mut others = self.universe.diagrams.all();
                        if let Some(device) = way.device(out.hop.link) {
                            let same = self.arriving_on(device)?;
                            others = self.universe.diagrams.not(&same);
                        }
                        let d = &self.universe.diagrams;
                        let wrong = d.and(&d.or(&no_source, &link_local)?, &others)?;
                        let wrong = d.and(&out.region, &wrong)?;
                        out.region = d.minus(&out.region, &wrong)?;
                        routed.refused.push((Refusal::Scope, wrong));
                        routed.ways.push(out);
                    }
                }
                Err(why) => routed.refused.push((why.into(), region)),
            }
        }
        Ok(routed)
    }

    /// What routing does with packets of the host.
    pub(super) fn route_own(&mut self, way: &Way<'_>, live: &Region) -> Result<Routed, Failure> {
        let routed = self.own(way, live);
        self.limit(routed)
    }

    /// `ip_route_output_key_hash_rcu()`, `ip6_route_output_flags()`: without a device that the
    /// sender asks for.
    fn own(&mut self, way: &Way<'_>, live: &Region) -> Decided<Routed> {
        let host = self.universe.diagrams.none();
        let mut routed = Routed { refused: Vec::new(), host, ways: Vec::new() };
        let itself = [Hop::to_itself()];
        for v6 in [false, true] {
            let version = self.version(v6)?;
            let [_, destination] = self.addresses(v6)?;
            let mut rest = self.universe.diagrams.and(live, &version)?;
            if !v6 {
                let zero = self.between(&destination, 0, 0)?;
                let zero = self.take(&mut rest, &zero)?;
                routed.ways.extend(self.share(&itself, v6, zero)?);
            }
            let flow = self.flow(way, v6, true)?;
            let found = routing::route(&self.universe.diagrams, way.network, &flow, &rest)?;
            for (outcome, region) in found {
                match outcome {
                    Ok(Found { kind: RouteType::Local | RouteType::Anycast, .. }) => {
                        routed.ways.extend(self.share(&itself, v6, region)?);
                    }
                    Ok(Found { hops, .. }) => routed.ways.extend(self.share(&hops, v6, region)?),
                    Err(why) => routed.refused.push((why.into(), region)),
                }
            }
        }
        Ok(routed)
    }

    /// Packets by the way out that they take of several.
    fn share(&mut self, hops: &[Hop], v6: bool, region: Region) -> Decided<Vec<Out>> {
        if let [only] = hops {
            return Ok(vec![Out { hop: only.clone(), v6, region }]);
        }
        let named: Vec<u8> = hops.iter().flat_map(Hop::name).collect();
        let input = self.universe.choice(What::Hop, &bits::constant(&named));
        let number = self.universe.bits(Field::Input(input))?;
        let mut all = Vec::new();
        for (at, hop) in (0u8..).zip(hops) {
            let d = &self.universe.diagrams;
            let chosen = bits::equal(d, &number, &[at], &[0xff])?;
            all.push(Out { hop: hop.clone(), v6, region: d.and(&region, &chosen)? });
        }
        Ok(all)
    }

    /// Packets by the device by which they leave, by the index that rules know.
    pub(super) fn by_device(
        &mut self,
        way: &Way<'_>,
        ways: &[Out],
    ) -> Result<Vec<(u32, Region)>, Failure> {
        let mut by_link: Vec<(u32, Vec<Region>)> = Vec::new();
        for Out { hop, region, .. } in ways {
            match by_link.iter_mut().find(|(link, _)| *link == hop.link) {
                Some((_, regions)) => regions.push(region.clone()),
                None => by_link.push((hop.link, vec![region.clone()])),
            }
        }
        let mut all = Vec::new();
        for (link, regions) in by_link {
            let region = self.limit(self.universe.diagrams.union(&regions))?;
            if let Some(device) = way.device(link).filter(|_| !region.is_none()) {
                all.push((device.index, region));
            }
        }
        Ok(all)
    }

    /// Says that all packets leave by a device.
    pub(super) fn say_way_out(&mut self, way: &Way<'_>, index: u32) {
        let device = way.devices.iter().find(|device| device.index == index);
        self.machine.writes.extend(device.map(of_device).into_iter().flatten());
    }

    /// Says that no packet has a way out yet.
    pub(super) fn no_way_out(&mut self) {
        self.machine.writes.extend(nothing_out());
    }

    /// On the way out `meta iiftype` is about the device that packets leave by.
    pub(super) fn kinds_of_way_out(&mut self, region: &Region) -> Decided<()> {
        let field = Field::Meta(MetaKey::IifType);
        if !self.universe.has(field) {
            return Ok(());
        }
        let out = self.machine.field(self.universe, Field::Meta(MetaKey::OifType))?;
        self.machine.write(self.universe, region, field, &out)
    }

    /// The address that packets get which are masqueraded, and which packets get it
    /// (`inet_select_addr()`, `ipv6_dev_get_saddr()`).
    pub(super) fn masquerade_addresses(
        &mut self,
        way: &Way<'_>,
        v6: bool,
    ) -> Decided<Vec<(Option<IpAddr>, Region)>> {
        let net = way.network;
        let [_, destination] = self.addresses(v6)?;
        let mut all: HashMap<Option<IpAddr>, Vec<Region>> = HashMap::new();
        let out: Vec<Out> = self.ways.iter().filter(|out| out.v6 == v6).cloned().collect();
        let mut starts = BTreeSet::from([0]);
        let prefixes = match v6 {
            false => net
                .links()
                .iter()
                .flat_map(|l| &l.addresses4)
                .map(|a| (u128::from(a.peer), a.len))
                .collect(),
            true => sources6(net),
        };
        let bits: u32 = if v6 { 128 } else { 32 };
        let last = if v6 { u128::MAX } else { u32::MAX.into() };
        for (address, len) in prefixes {
            let size = 1u128.checked_shl(bits - u32::from(len)).unwrap_or(0);
            let from = if size == 0 { 0 } else { address & !(size - 1) };
            starts.insert(from);
            starts.extend(from.checked_add(size).filter(|next| *next <= last && size != 0));
        }
        for Out { hop, region, .. } in &out {
            let says = |to: u128| -> Option<IpAddr> {
                match v6 {
                    false => {
                        let source =
                            net.source4(hop.link, to as u32, penstock_net::Scope::UNIVERSE);
                        (source != 0).then(|| std::net::Ipv4Addr::from(source).into())
                    }
                    true => net
                        .source6(hop.link, to)
                        .map(|source| std::net::Ipv6Addr::from(source).into()),
                }
            };
            if let (false, Some(source)) = (v6, hop.source) {
                let source = (source != 0).then(|| std::net::Ipv4Addr::from(source).into());
                all.entry(source).or_default().push(region.clone());
                continue;
            }
            for (address, ranges) in ranges(&starts, last, says) {
                let d = &self.universe.diagrams;
                let to = within(d, &destination, &ranges)?;
                all.entry(address).or_default().push(d.and(region, &to)?);
            }
        }
        let mut found: Vec<_> = all.into_iter().collect();
        found.sort_by_key(|(address, _)| *address);
        let d = &self.universe.diagrams;
        found.into_iter().map(|(address, regions)| Ok((address, d.union(&regions)?))).collect()
    }

    /// The address of the device of arrival that redirected packets get, and which packets get it
    /// (`nf_nat_redirect_ipv4()`, `nf_nat_redirect_ipv6()`).
    pub(super) fn redirect_addresses(
        &mut self,
        way: &Way<'_>,
        v6: bool,
    ) -> Decided<Vec<(Option<IpAddr>, Region)>> {
        if way.start == Start::Host {
            let loopback: IpAddr = match v6 {
                false => std::net::Ipv4Addr::LOCALHOST.into(),
                true => std::net::Ipv6Addr::LOCALHOST.into(),
            };
            return Ok(vec![(Some(loopback), self.universe.diagrams.all())]);
        }
        let [_, destination] = self.addresses(v6)?;
        let net = way.network;
        // Each start of a group has a scope of its own.
        let starts =
            KINDS6.into_iter().chain((0xff00..=0xffff).map(|start| start << 112)).collect();
        let mut all = Vec::new();
        for device in way.arrivals() {
            let here = self.arriving_on(device)?;
            if !v6 {
                let first = net.redirect4(device.link);
                all.push((first.map(|a| std::net::Ipv4Addr::from(a).into()), here));
                continue;
            }
            let says = |to: u128| {
                let best = net.redirect6(device.link, to);
                best.map(|a| IpAddr::from(std::net::Ipv6Addr::from(a)))
            };
            for (address, ranges) in ranges(&starts, u128::MAX, says) {
                let d = &self.universe.diagrams;
                let to = within(d, &destination, &ranges)?;
                all.push((address, d.and(&here, &to)?));
            }
        }
        Ok(all)
    }
}

/// IPv4 addresses of a host.
fn own4(net: &Network) -> Vec<u128> {
    net.links().iter().flat_map(|link| &link.addresses4).map(|a| a.local.into()).collect()
}

/// IPv6 groups that a link is a member of.
fn groups6(link: &Link) -> impl Iterator<Item = u128> {
    const SOLICITED: u128 = 0xff02 << 112 | 0x1_ff00_0000;
    let fixed = [0xff01u128, 0xff02, 0xff05]
        .into_iter()
        .flat_map(|scope| [1, 2, 0x6a].map(|number| scope << 112 | number));
    let own = link.addresses6.iter().map(|a| SOLICITED | a.local & 0xff_ffff);
    fixed.chain(own).chain([SOLICITED]).filter(|group| link.joined6(*group))
}

/// Prefixes at which the choice among the IPv6 addresses of a host may change: each address shares
/// more or fewer bits with the destination, and labels (`net/ipv6/addrlabel.c`) have prefixes.
fn sources6(net: &Network) -> Vec<(u128, u8)> {
    let mut all: Vec<(u128, u8)> = vec![
        (1, 128),
        (0xffff << 32, 96),
        (0, 96),
        (0x2001_0010 << 96, 28),
        (0x2001_0000 << 96, 32),
        (0x2002 << 112, 16),
        (0x3ffe << 112, 16),
        (0xfec0 << 112, 10),
        (0xfe80 << 112, 10),
        (0xfc00 << 112, 7),
    ];
    all.extend((0..=0xfu128).map(|scope| ((0xff00 | scope) << 112, 16)));
    for address in net.links().iter().flat_map(|link| &link.addresses6) {
        all.extend((1..=128).map(|len| (address.local, len)));
    }
    all
}

/// Values of the fields of the device on the way out, for all packets: zero where there is none.
///
/// # Errors
/// A limit.
pub(crate) fn way_out(
    universe: &Universe,
    way: &Way<'_>,
    routed: &[(End, Region)],
) -> Decided<HashMap<Field, Vec<Bit>>> {
    let mut values: HashMap<Field, Vec<Bit>> = nothing_out().into_iter().collect();
    for (end, region) in routed {
        let End::Leaves(index) = end else { continue };
        let Some(device) = way.devices.iter().find(|device| device.index == *index) else {
            continue;
        };
        for (field, known) in of_device(device) {
            let Some(bits) = values.get_mut(&field) else { continue };
            for (bit, value) in bits.iter_mut().zip(&known) {
                *bit = bit.replaced(region, value, &universe.diagrams)?;
            }
        }
    }
    Ok(values)
}

/// What rules ask of a device on the way out.
pub(super) fn of_device(device: &Device) -> [(Field, Vec<Bit>); 6] {
    let Device { index, interface, .. } = device;
    let known: [(Field, &[u8]); 6] = [
        (Field::Meta(MetaKey::Oif), &index.to_be_bytes()),
        (Field::Meta(MetaKey::OifName), &interface.name),
        (Field::Meta(MetaKey::OifKind), &interface.kind),
        (Field::Meta(MetaKey::OifType), &interface.arphrd.to_be_bytes()),
        (Field::Meta(MetaKey::OifGroup), &interface.group.to_be_bytes()),
        (Field::HasMeta(MetaKey::Oif), &[1]),
    ];
    known.map(|(field, bytes)| {
        let bits = bits::constant(bytes);
        (field, bits[bits.len() - field.width() as usize..].to_vec())
    })
}

/// That there is no device on the way out.
fn nothing_out() -> Vec<(Field, Vec<Bit>)> {
    use MetaKey::{Oif, OifGroup, OifKind, OifName, OifType};
    let keys = [Oif, OifName, OifKind, OifType, OifGroup].map(Field::Meta);
    let fields = keys.into_iter().chain([Field::HasMeta(Oif)]);
    fields.map(|field| (field, vec![Bit::ZERO; field.width() as usize])).collect()
}
