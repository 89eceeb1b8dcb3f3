// SPDX-License-Identifier: Apache-2.0

//! What routing decides for all packets at once: rules by priority, and in each table ranges of
//! destinations that find the same.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use penstock_net::address6::needs_device;
use penstock_net::{
    Action, Flow4, Flow6, Hit, LOOPBACK, Network, Nexthop, NoRoute, RouteType, Rule, Scope,
};

use crate::bits::{self, Bit};
use crate::diagram::{Decided, Diagrams, Region};

/// What routing looks at, most significant bits first; where the packet does not have it, zero.
pub(crate) struct Flow {
    /// IPv6 in place of IPv4.
    pub v6: bool,
    pub destination: Vec<Bit>,
    pub source: Vec<Bit>,
    /// TOS or traffic class, one byte.
    pub tos: Vec<Bit>,
    pub mark: Vec<Bit>,
    pub protocol: Vec<Bit>,
    pub ports: [Vec<Bit>; 2],
    /// Link of arrival, and the packets that come by it.
    pub arrival: Vec<(u32, Region)>,
    /// Of IPv6: routes by the link of arrival are preferred.
    pub by_arrival: bool,
}

/// One way out of a route, as far as it makes a difference: there are more routers than links.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hop {
    /// The link.
    pub link: u32,
    /// The address that IPv4 packets get which are masqueraded, 0 for none; `None` if it depends on
    /// their destination, which is on the link.
    pub source: Option<u32>,
}

impl Hop {
    /// The way of a next hop.
    pub fn of(net: &Network, hop: &Nexthop) -> Hop {
        let source = match hop.gateway {
            Some(IpAddr::V4(gateway)) => {
                Some(net.source4(hop.oif, gateway.into(), Scope::UNIVERSE))
            }
            Some(IpAddr::V6(_)) | None => None,
        };
        Hop { link: hop.oif, source }
    }

    /// To the host itself.
    pub fn to_itself() -> Hop {
        Hop { link: LOOPBACK, source: None }
    }

    /// Bytes that no other way of the network has.
    pub fn name(&self) -> Vec<u8> {
        let mut name = self.link.to_be_bytes().to_vec();
        name.extend([u8::from(self.source.is_some())]);
        name.extend(self.source.unwrap_or(0).to_be_bytes());
        name
    }
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Found {
    pub kind: RouteType,
    /// Ways out; flows share them.
    pub hops: Vec<Hop>,
}

/// First IPv6 addresses of the ranges that [`needs_device`] tells apart, and of unicast addresses
/// of different scopes.
pub(crate) const KINDS6: [u128; 6] = [0, 1, 2, 0xfe80 << 112, 0xfec0 << 112, 0xff00 << 112];

/// What packets find.
pub(crate) type Outcome = Result<Found, NoRoute>;

/// First and last address of a range, each in 16 bytes of which the last are meant.
type Interval = ([u8; 16], [u8; 16]);

/// Ranges of addresses by what a function says of each; `starts` are first addresses of ranges in
/// which it says the same, the least of all addresses among them.
pub(crate) fn ranges<T: Eq + std::hash::Hash>(
    starts: &BTreeSet<u128>,
    last: u128,
    mut says: impl FnMut(u128) -> T,
) -> Vec<(T, Vec<Interval>)> {
    let mut order = Vec::new();
    let mut all: HashMap<T, usize> = HashMap::new();
    let mut next = starts.iter().skip(1);
    for from in starts {
        let to = next.next().map_or(last, |next| next - 1);
        let count = order.len();
        let at = *all.entry(says(*from)).or_insert(count);
        if at == count {
            order.push(Vec::<(u128, u128)>::new());
        }
        match order[at].last_mut() {
            Some((_, end)) if end.wrapping_add(1) == *from => *end = to,
            _ => order[at].push((*from, to)),
        }
    }
    let intervals = |all: &[(u128, u128)]| {
        all.iter().map(|(from, to)| (from.to_be_bytes(), to.to_be_bytes())).collect()
    };
    let mut said: Vec<(T, usize)> = all.into_iter().collect();
    said.sort_by_key(|(_, at)| *at);
    said.into_iter().map(|(what, at)| (what, intervals(&order[at]))).collect()
}

/// Packets of which an address is in one of some ranges.
pub(crate) fn within(d: &Diagrams, address: &[Bit], ranges: &[Interval]) -> Decided<Region> {
    let bytes = address.len() / 8;
    let all: Vec<bits::Interval<'_>> =
        ranges.iter().map(|(from, to)| (&from[16 - bytes..], &to[16 - bytes..])).collect();
    bits::in_intervals(d, address, &all)
}

/// Packets of which an address has a prefix.
pub(crate) fn has_prefix(
    d: &Diagrams,
    address: &[Bit],
    (prefix, len): (u128, u8),
) -> Decided<Region> {
    let prefix = prefix.to_be_bytes();
    let mut mask = [0; 16];
    (0..usize::from(len)).for_each(|bit| mask[bit / 8] |= 0x80 >> (bit % 8));
    bits::equal(d, address, &prefix[16 - address.len() / 8..], &mask)
}

/// Packets with a number in a range.
fn in_range(d: &Diagrams, number: &[Bit], (from, to): (u16, u16)) -> Decided<Region> {
    let low = bits::at_least(d, number, &from.to_be_bytes())?;
    d.and(&low, &bits::at_most(d, number, &to.to_be_bytes())?)
}

/// What packets of a region find, each with those that do.
pub(crate) fn route(
    d: &Diagrams,
    net: &Network,
    flow: &Flow,
    live: &Region,
) -> Decided<Vec<(Outcome, Region)>> {
    let rules = if flow.v6 { net.rules6() } else { net.rules4() };
    let mut waiting: Vec<Region> = vec![d.none(); rules.len() + 1];
    waiting[0] = live.clone();
    let mut outcomes: Vec<(Outcome, Region)> = Vec::new();
    let mut add = |outcome: Outcome, region: Region| -> Decided<()> {
        if region.is_none() {
            return Ok(());
        }
        match outcomes.iter_mut().find(|(known, _)| *known == outcome) {
            Some((_, known)) => *known = d.or(known, &region)?,
            None => outcomes.push((outcome, region)),
        }
        Ok(())
    };
    for (at, rule) in rules.iter().enumerate() {
        let here = waiting[at].clone();
        if here.is_none() {
            continue;
        }
        let matched = d.and(&here, &matches(d, rule, flow)?)?;
        let mut on = d.minus(&here, &matched)?;
        match rule.action {
            Action::Nop => on = here,
            Action::Goto(priority) => {
                match rules.iter().position(|other| other.priority == priority) {
                    Some(to) if to > at => waiting[to] = d.or(&waiting[to], &matched)?,
                    _ => on = here,
                }
            }
            Action::Blackhole => add(Err(NoRoute::Blackhole), matched)?,
            Action::Unreachable => add(Err(NoRoute::None), matched)?,
            Action::Prohibit => add(Err(NoRoute::Prohibit), matched)?,
            Action::Lookup(table) => {
                for (outcome, region) in lookup(d, net, rule, table, flow, &matched)? {
                    match outcome {
                        Some(outcome) => add(outcome, region)?,
                        None => on = d.or(&on, &region)?,
                    }
                }
            }
        }
        waiting[at + 1] = d.or(&waiting[at + 1], &on)?;
    }
    let nothing = waiting.pop().unwrap_or_else(|| d.none());
    add(Err(NoRoute::None), nothing)?;
    Ok(outcomes)
}

/// Packets that a rule matches.
fn matches(d: &Diagrams, rule: &Rule, flow: &Flow) -> Decided<Region> {
    let mut region = d.all();
    let only = |region: &mut Region, other: Region| -> Decided<()> {
        *region = d.and(region, &other)?;
        Ok(())
    };
    only(&mut region, has_prefix(d, &flow.source, rule.from)?)?;
    if flow.v6 && rule.from.1 > 0 {
        let none = bits::equal(d, &flow.source, &[0; 16], &[0xff; 16])?;
        region = d.minus(&region, &none)?;
    }
    only(&mut region, has_prefix(d, &flow.destination, rule.to)?)?;
    if rule.tos != 0 {
        only(&mut region, bits::equal(d, &flow.tos, &[rule.tos], &[0xff])?)?;
    }
    let (mark, mask) = (rule.mark.0.to_be_bytes(), rule.mark.1.to_be_bytes());
    only(&mut region, bits::equal(d, &flow.mark, &mark, &mask)?)?;
    if rule.iif.is_some() {
        let by_it = flow.arrival.iter().find(|(link, _)| *link == rule.iif_index);
        only(&mut region, by_it.map_or_else(|| d.none(), |(_, region)| region.clone()))?;
    }
    if rule.oif.is_some() {
        // Packets that ask for a way out are not among those that are looked at.
        region = d.none();
    }
    if let Some(protocol) = rule.protocol {
        only(&mut region, bits::equal(d, &flow.protocol, &[protocol], &[0xff])?)?;
    }
    for (range, port) in [rule.sport, rule.dport].into_iter().zip(&flow.ports) {
        if let Some(range) = range {
            only(&mut region, in_range(d, port, range)?)?;
        }
    }
    Ok(if rule.invert { d.not(&region) } else { region })
}

/// What packets of a region find in a table; `None` where the next rule decides.
fn lookup(
    d: &Diagrams,
    net: &Network,
    rule: &Rule,
    table: u32,
    flow: &Flow,
    live: &Region,
) -> Decided<Vec<(Option<Outcome>, Region)>> {
    let found = |hit: Option<Result<Hit<'_>, NoRoute>>| -> Option<Outcome> {
        let hit = match hit? {
            Ok(hit) => hit,
            Err(why) => return Some(Err(why)),
        };
        let first = hit.route.nexthops.first().and_then(|hop| net.link(hop.oif));
        let is_suppressed = rule.suppress_prefix_length.is_some_and(|len| hit.len <= len)
            || rule.suppress_group.is_some_and(|g| first.is_some_and(|link| link.group == g));
        let hops = hit.route.nexthops.iter().map(|hop| Hop::of(net, hop)).collect();
        (!is_suppressed).then_some(Ok(Found { kind: hit.route.kind, hops }))
    };
    let mut all = Vec::new();
    let mut of_group = |starts: &BTreeSet<u128>,
                        last: u128,
                        group: &Region,
                        says: &dyn Fn(u128) -> Option<Outcome>|
     -> Decided<()> {
        let mut rest = d.and(live, group)?;
        let found = ranges(starts, last, says);
        let count = found.len();
        for (i, (outcome, ranges)) in found.into_iter().enumerate() {
            if rest.is_none() {
                break;
            }
            // The last one is what is left.
            let region = match i + 1 == count {
                true => rest.clone(),
                false => d.and(&rest, &within(d, &flow.destination, &ranges)?)?,
            };
            rest = d.minus(&rest, &region)?;
            if !region.is_none() {
                all.push((outcome, region));
            }
        }
        Ok(())
    };
    if flow.v6 {
        let mut starts = net.ranges6(table);
        starts.extend(KINDS6);
        for (link, region) in &flow.arrival {
            of_group(&starts, u128::MAX, region, &|daddr| {
                let oif = if flow.by_arrival { *link } else { 0 };
                let strict = needs_device(daddr);
                let flow = Flow6 { daddr, iif: *link, oif, strict, ..Flow6::default() };
                found(net.lookup6(table, &flow))
            })?;
        }
    } else {
        let starts: BTreeSet<u128> = net.ranges4(table).into_iter().map(u128::from).collect();
        let mut rest = d.all();
        for tos in net.tos4(table).into_iter().chain([0]) {
            let group = match tos {
                0 => rest.clone(),
                tos => d.and(&rest, &bits::equal(d, &flow.tos, &[tos], &[0xff])?)?,
            };
            rest = d.minus(&rest, &group)?;
            of_group(&starts, u32::MAX.into(), &group, &|daddr| {
                let flow = Flow4 { daddr: daddr as u32, tos, ..Flow4::default() };
                found(net.lookup4(table, &flow))
            })?;
        }
    }
    Ok(all)
}
