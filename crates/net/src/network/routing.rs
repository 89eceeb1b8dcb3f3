// SPDX-License-Identifier: Apache-2.0

//! The routing decision: rules by priority, in each table the longest prefix with a route that fits
//! (`fib_lookup()`, `fib6_rule_lookup()`).

use super::{Flow4, Flow6, Hit, Network, NoRoute, Parts};
use crate::fib::Fib;
use crate::key::Key;
use crate::neighbour::Neighbours;
use crate::rule::{Action, Rule};
use crate::tables::Tables;
use crate::{
    LOOPBACK, Nexthop, RouteInfo, RouteNumber, RouteType, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN,
};

/// What a rule does.
#[derive(Clone, Debug)]
enum RuleAction {
    Table(u32),
    Jump(usize),
    Skip,
    Refuse(NoRoute),
}

#[derive(Clone, Debug)]
pub(super) struct Family<K> {
    pub(super) tables: Tables<K>,
    pub(super) rules: Vec<Rule>,
    steps: Vec<RuleAction>,
    pub(super) neighbours: Neighbours<K>,
    /// Only the rules that are there from the start: no need to match them.
    pub(super) plain: bool,
    /// Some routes are for one TOS only.
    pub(super) tos: bool,
}

impl<K: Key> Family<K> {
    pub(super) fn new(parts: Parts<K>, merge: bool) -> Self {
        let Parts { mut tables, mut rules, custom_rules, neighbours } = parts;
        rules.sort_by_key(|r| r.priority);
        if merge {
            tables.merge();
        }
        let steps = rules
            .iter()
            .map(|r| match r.action {
                Action::Lookup(t) => RuleAction::Table(t),
                Action::Goto(p) => rules
                    .iter()
                    .position(|o| o.priority == p)
                    .map_or(RuleAction::Skip, RuleAction::Jump),
                Action::Nop => RuleAction::Skip,
                Action::Blackhole => RuleAction::Refuse(NoRoute::Blackhole),
                Action::Unreachable => RuleAction::Refuse(NoRoute::None),
                Action::Prohibit => RuleAction::Refuse(NoRoute::Prohibit),
            })
            .collect();
        let tos = tables.any(|tos, _| tos != 0);
        Family { tables, rules, steps, neighbours, plain: !custom_rules, tos }
    }
}

/// A result that ends the rules, or `None` for the next rule: the route, and the length of its
/// prefix.
pub(super) type Outcome<'a> = Option<Result<(&'a RouteInfo, u8), NoRoute>>;

fn refuse(kind: RouteType) -> Option<NoRoute> {
    match kind {
        RouteType::Blackhole => Some(NoRoute::Blackhole),
        RouteType::Unreachable => Some(NoRoute::Unreachable),
        RouteType::Prohibit => Some(NoRoute::Prohibit),
        RouteType::Unicast
        | RouteType::Local
        | RouteType::Broadcast
        | RouteType::Anycast
        | RouteType::Multicast
        | RouteType::Throw => None,
    }
}

/// A number that spreads flows over nexthops.
fn spread(a: u64, b: u64) -> u32 {
    let h = (a.rotate_left(31) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((h ^ h >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

fn in_prefix(address: u128, (prefix, len): (u128, u8), bits: u8) -> bool {
    len == 0 || (address ^ prefix) >> (bits - len) == 0
}

fn in_range(port: u16, range: Option<(u16, u16)>) -> bool {
    range.is_none_or(|(low, high)| (low..=high).contains(&port))
}

impl Network {
    /// The way of an IPv4 packet (`fib_lookup()`): rules by priority, in each table the longest prefix
    /// with a route that fits.
    pub fn route4(&self, flow: &Flow4) -> Result<Hit<'_>, NoRoute> {
        self.decide(
            &self.v4,
            [TABLE_LOCAL, TABLE_DEFAULT],
            |rule| matches4(rule, flow),
            |table| self.table4(table, flow),
            |route, realm| self.hit4(route, flow, realm),
        )
    }

    /// The rules of a family in turn. `homes` are the tables that the rules that are there from the
    /// start lead to; `hit` gets the realm of the rule that led to a route, 0 for none.
    #[inline]
    fn decide<'a, K: Key>(
        &'a self,
        family: &'a Family<K>,
        homes: [u32; 2],
        matches: impl Fn(&Rule) -> bool,
        ask: impl Fn(&'a Fib<K>) -> Outcome<'a>,
        hit: impl Fn((&'a RouteInfo, u8), u32) -> Hit<'a>,
    ) -> Result<Hit<'a>, NoRoute> {
        if family.plain {
            for id in homes {
                if let Some(outcome) = family.tables.fib(id).and_then(&ask) {
                    return outcome.map(|route| hit(route, 0));
                }
            }
            return Err(NoRoute::None);
        }
        let mut at = 0;
        while let (Some(rule), Some(step)) = (family.rules.get(at), family.steps.get(at)) {
            at += 1;
            if !matches(rule) {
                continue;
            }
            match step {
                RuleAction::Skip => {}
                RuleAction::Jump(to) if *to >= at => at = *to,
                RuleAction::Jump(_) => {}
                RuleAction::Refuse(why) => return Err(*why),
                RuleAction::Table(t) => match family.tables.fib(*t).and_then(&ask) {
                    None => {}
                    Some(Err(why)) => return Err(why),
                    Some(Ok(route)) => {
                        let hit = hit(route, rule.realm);
                        if !self.suppressed(rule, &hit) {
                            return Ok(hit);
                        }
                    }
                },
            }
        }
        Err(NoRoute::None)
    }

    /// The number of the route of all IPv4 packets to a destination that ask for no link and no
    /// scope. See [`RouteNumber`].
    #[inline]
    pub fn route_number4(&self, destination: u32) -> RouteNumber {
        let mut number = [RouteNumber::NONE];
        self.route_numbers4(&[destination], &mut number);
        number[0]
    }

    /// The number of the route of all IPv6 packets to a destination that require no link. See
    /// [`RouteNumber`].
    #[inline]
    pub fn route_number6(&self, destination: u128) -> RouteNumber {
        let mut number = [RouteNumber::NONE];
        self.route_numbers6(&[destination], &mut number);
        number[0]
    }

    /// The numbers of the routes of all IPv4 packets to some destinations that ask for no link and
    /// no scope. See [`RouteNumber`].
    #[inline]
    pub fn route_numbers4(&self, destinations: &[u32], numbers: &mut [RouteNumber]) {
        match self.v4.tables.fib(TABLE_LOCAL).filter(|_| self.is_plain4()) {
            Some(fib) => fib.numbers(destinations, numbers),
            None => numbers.fill(RouteNumber::NONE),
        }
    }

    /// The numbers of the routes of all IPv6 packets to some destinations that require no link. See
    /// [`RouteNumber`].
    #[inline]
    pub fn route_numbers6(&self, destinations: &[u128], numbers: &mut [RouteNumber]) {
        let Family { tables, plain, .. } = &self.v6;
        let Some(main) = tables.fib(TABLE_MAIN).filter(|_| *plain) else {
            return numbers.fill(RouteNumber::NONE);
        };
        main.numbers(destinations, numbers);
        let Some(local) = tables.fib(TABLE_LOCAL) else { return };
        let mut own = [RouteNumber::NONE; 64];
        for (destinations, numbers) in destinations.chunks(64).zip(numbers.chunks_mut(64)) {
            let own = &mut own[..destinations.len()];
            local.numbers(destinations, own);
            for (number, own) in numbers.iter_mut().zip(own) {
                if *own != RouteNumber::NO_ROUTE {
                    *number = RouteNumber::NONE;
                }
            }
        }
    }

    /// One IPv4 table alone, without rules (`fib_table_lookup()`).
    pub(super) fn table4<'a>(&'a self, table: &'a Fib<u32>, flow: &Flow4) -> Outcome<'a> {
        let mut found = table.longest(flow.daddr);
        loop {
            let len = found.len()?;
            for (tos, route) in found.routes() {
                if (tos != 0 && tos != flow.tos) || route.scope.0 < flow.scope {
                    continue;
                }
                if route.kind == RouteType::Throw {
                    return None;
                }
                if let Some(why) = refuse(route.kind) {
                    return Some(Err(why));
                }
                if flow.oif == 0 || route.is_by(flow.oif) {
                    return Some(Ok((route, len)));
                }
            }
            found = table.shorter(flow.daddr, len);
        }
    }

    pub(super) fn hit4<'a>(
        &'a self,
        (route, len): (&'a RouteInfo, u8),
        flow: &Flow4,
        rule_realm: u32,
    ) -> Hit<'a> {
        let hash = || spread(u64::from(flow.saddr), u64::from(flow.daddr));
        let nexthop = choose(route, flow.oif, hash);
        let realm = if route.realm != 0 { route.realm } else { rule_realm };
        Hit { route, len, nexthop, realm }
    }

    fn suppressed(&self, rule: &Rule, hit: &Hit<'_>) -> bool {
        rule.suppress_prefix_length.is_some_and(|len| hit.len <= len)
            || rule
                .suppress_group
                .is_some_and(|g| self.link(hit.nexthop.oif).is_some_and(|l| l.group == g))
    }

    /// The way of an IPv6 packet (`fib6_rule_lookup()`): rules by priority, in each table the longest
    /// prefix with a route that fits.
    pub fn route6(&self, flow: &Flow6) -> Result<Hit<'_>, NoRoute> {
        self.decide(
            &self.v6,
            [TABLE_LOCAL, TABLE_MAIN],
            |rule| matches6(rule, flow),
            |table| self.table6(table, flow),
            |route, _| self.hit6(route, flow),
        )
    }

    /// The IPv6 route itself, of any type (`fib6_lookup()`): one that refuses packets is found, and
    /// one of type `throw` ends the search. A rule that refuses packets finds none.
    pub fn fib6(&self, flow: &Flow6) -> Option<Hit<'_>> {
        let found = self.decide(
            &self.v6,
            [TABLE_LOCAL, TABLE_MAIN],
            |rule| matches6(rule, flow),
            |table| self.select6(table, flow).map(Ok),
            |route, _| self.hit6(route, flow),
        );
        found.ok()
    }

    /// The IPv6 route itself, of any type, in one table (`fib6_table_lookup()`).
    pub fn fib6_table(&self, table: u32, flow: &Flow6) -> Option<Hit<'_>> {
        let found = self.select6(self.v6.tables.fib(table)?, flow)?;
        Some(self.hit6(found, flow))
    }

    /// One IPv6 table.
    pub(super) fn table6<'a>(&'a self, table: &'a Fib<u128>, flow: &Flow6) -> Outcome<'a> {
        let (route, len) = self.select6(table, flow)?;
        match (route.kind, refuse(route.kind)) {
            (RouteType::Throw, _) => None,
            (_, Some(why)) => Some(Err(why)),
            (_, None) => Some(Ok((route, len))),
        }
    }

    /// In an IPv6 table, within a prefix the lowest metric that has a usable route; among equal
    /// ones the first that leaves by the wanted link, else the first (`rt6_score_route()`).
    fn select6<'a>(&'a self, table: &'a Fib<u128>, flow: &Flow6) -> Option<(&'a RouteInfo, u8)> {
        let mut found = table.longest(flow.daddr);
        loop {
            let len = found.len()?;
            // The best so far, and whether it leaves by the wanted link.
            let mut best: Option<(&RouteInfo, bool)> = None;
            for (_, route) in found.routes() {
                if best.is_some_and(|(best, _)| best.metric < route.metric) {
                    break;
                }
                let fits = flow.oif == 0 || route.is_by(flow.oif);
                if (fits || !flow.strict) && best.is_none_or(|(_, best_fits)| fits && !best_fits) {
                    best = Some((route, fits));
                }
            }
            if let Some((route, _)) = best {
                return Some((route, len));
            }
            found = table.shorter(flow.daddr, len);
        }
    }

    pub(super) fn hit6<'a>(&'a self, (route, len): (&'a RouteInfo, u8), flow: &Flow6) -> Hit<'a> {
        let fold = |a: u128| (a >> 64) as u64 ^ a as u64;
        let hash = || spread(fold(flow.saddr.unwrap_or(0)), fold(flow.daddr));
        let oif = if flow.strict { flow.oif } else { 0 };
        Hit { route, len, nexthop: choose(route, oif, hash), realm: route.realm }
    }
}

/// Chooses among several ways by weight; a wanted link limits the choice.
fn choose(route: &RouteInfo, oif: u32, hash: impl Fn() -> u32) -> &Nexthop {
    const NOWHERE: &Nexthop = &Nexthop {
        oif: LOOPBACK,
        gateway: None,
        onlink: false,
        weight: 1,
        scope: crate::Scope::NOWHERE,
    };
    match route.nexthops.as_slice() {
        [] => NOWHERE,
        [only] => only,
        all => {
            let usable = || all.iter().filter(|n| oif == 0 || n.oif == oif);
            let total: u64 = usable().map(|n| u64::from(n.weight)).sum();
            let mut point = (u64::from(hash()) * total) >> 32;
            for n in usable() {
                if point < u64::from(n.weight) {
                    return n;
                }
                point -= u64::from(n.weight);
            }
            &all[0]
        }
    }
}

fn matches_common(
    rule: &Rule,
    iif: u32,
    oif: u32,
    mark: u32,
    protocol: u8,
    ports: (u16, u16),
) -> bool {
    (rule.iif.is_none() || (rule.iif_index != 0 && rule.iif_index == iif))
        && (rule.oif.is_none() || (rule.oif_index != 0 && rule.oif_index == oif))
        && (rule.mark.0 ^ mark) & rule.mark.1 == 0
        && rule.protocol.is_none_or(|p| p == protocol)
        && in_range(ports.0, rule.sport)
        && in_range(ports.1, rule.dport)
}

fn matches4(rule: &Rule, flow: &Flow4) -> bool {
    let hit = matches_common(rule, flow.iif, flow.oif, flow.mark, flow.protocol, flow.ports)
        && in_prefix(flow.saddr.into(), rule.from, 32)
        && in_prefix(flow.daddr.into(), rule.to, 32)
        && (rule.tos == 0 || rule.tos == flow.tos);
    hit != rule.invert
}

fn matches6(rule: &Rule, flow: &Flow6) -> bool {
    // Packets that came in ask for no link (`ip6_route_input()`).
    let oif = if matches!(flow.iif, 0 | LOOPBACK) { flow.oif } else { 0 };
    let hit = matches_common(rule, flow.iif, oif, flow.mark, flow.protocol, flow.ports)
        && (rule.from.1 == 0 || flow.saddr.is_some_and(|s| in_prefix(s, rule.from, 128)))
        && in_prefix(flow.daddr, rule.to, 128)
        && (rule.tos == 0 || rule.tos == flow.tos);
    hit != rule.invert
}
