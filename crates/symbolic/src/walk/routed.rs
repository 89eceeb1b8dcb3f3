// SPDX-License-Identifier: Apache-2.0

//! What routing does with the packets that arrive and with those of the host
//! (`ip_route_input_slow()`, `ip6_route_input()`, `ip_route_output_key_hash_rcu()`).

use penstock_net::{Devconf, LOOPBACK, RouteType};
use penstock_program::expr::MetaKey;

use super::flows::own4;
use super::{Failure, Walk};
use crate::bits::{self, Bit};
use crate::diagram::{Decided, Region};
use crate::fate::Refusal;
use crate::field::{Field, What};
use crate::routing::{self, Found, Hop};
use crate::way::{Device, Way};

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
    pub(super) fn arrivals4(&mut self, way: &Way<'_>, live: &Region) -> Decided<Routed> {
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
    pub(super) fn wrong_source(
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

    /// What routing does with packets of the host.
    pub(super) fn route_own(&mut self, way: &Way<'_>, live: &Region) -> Result<Routed, Failure> {
        let routed = self.own(way, live);
        self.limit(routed)
    }

    /// `ip_route_output_key_hash_rcu()`, `ip6_route_output_flags()`: without a device that the
    /// sender asks for.
    pub(super) fn own(&mut self, way: &Way<'_>, live: &Region) -> Decided<Routed> {
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
    pub(super) fn share(&mut self, hops: &[Hop], v6: bool, region: Region) -> Decided<Vec<Out>> {
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
}
