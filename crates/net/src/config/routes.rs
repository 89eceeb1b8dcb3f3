// SPDX-License-Identifier: Apache-2.0

//! Routes and rules of a configuration: found, checked, added and deleted.

use std::net::IpAddr;
use std::sync::Arc;

use crate::fib::Entry;
use crate::key::Key;
use crate::tables::{Tables, insert};
use crate::{
    Action, LOOPBACK, Nexthop, Route, RouteInfo, RouteInfos, RouteType, Rule, Scope,
    SharedRouteInfo, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN,
};

use super::{Config, EXISTS, Mode, masked};

/// A route that a line adds.
pub(crate) struct NewRoute {
    pub(crate) table: u32,
    pub(crate) prefix: u128,
    pub(crate) len: u8,
    pub(crate) tos: u8,
    pub(crate) info: RouteInfo,
}

/// Adds a route that the kernel makes, unless it is there. Whether it is new.
pub(super) fn add_own<K: Key>(
    tables: &mut Tables<K>,
    table: u32,
    prefix: K,
    len: u8,
    info: Arc<SharedRouteInfo>,
) -> bool {
    let mut entries = tables.get(table, prefix, len);
    let same = |e: &Entry| {
        (e.info.metric, e.info.kind, &e.info.nexthops) == (info.metric, info.kind, &info.nexthops)
    };
    if entries.iter().any(same) {
        return false;
    }
    insert(&mut entries, Entry { table, tos: 0, info }, false);
    tables.set(table, prefix, len, entries);
    true
}

/// Adds or changes an IPv4 route (`fib_table_insert()`).
fn put4(tables: &mut Tables<u32>, route: Route, mode: Mode) -> Result<(), String> {
    let Route { table, prefix, len, tos, info } = route;
    let prefix = u32::from_number(prefix);
    let new = Entry { table, tos, info };
    let mut entries = tables.get(table, prefix, len);
    let same = |e: &Entry| (e.tos, e.info.metric) == (tos, new.info.metric);
    match (mode, entries.iter().position(same)) {
        (Mode::Add, Some(_)) => return Err(EXISTS.into()),
        (Mode::Change, None) => return Err("No such process".into()),
        (Mode::Replace | Mode::Change, Some(at)) => entries[at] = new,
        (Mode::Append, Some(_)) if entries.contains(&new) => return Err(EXISTS.into()),
        (mode, _) => insert(&mut entries, new, mode == Mode::Prepend),
    }
    tables.set(table, prefix, len, entries);
    Ok(())
}

/// Adds or changes an IPv6 route (`fib6_add_rt2node()`).
fn put6(
    tables: &mut Tables<u128>,
    infos: &mut RouteInfos,
    route: Route,
    mode: Mode,
) -> Result<(), String> {
    let Route { table, prefix, len, tos, info } = route;
    let new = Entry { table, tos, info };
    let mut entries = tables.get(table, prefix, len);
    let same = |e: &Entry| (e.tos, e.info.metric) == (tos, new.info.metric);
    // Routes with gateways and equal metric share the flows.
    let shares = |e: &Entry| {
        e.info.kind == RouteType::Unicast && e.info.nexthops.iter().all(|n| n.gateway.is_some())
    };
    // Kernel routes of links share prefix and metric; one per link is fine.
    let clashes = |e: &Entry| {
        same(e) && (e.info.kind, &e.info.nexthops) == (new.info.kind, &new.info.nexthops)
    };
    match (mode, entries.iter().position(same)) {
        (Mode::Add, Some(_)) => return Err(EXISTS.into()),
        (Mode::Change, None) => return Err("No such process".into()),
        (Mode::Replace | Mode::Change, Some(at)) => entries[at] = new,
        (Mode::Append, Some(_)) if entries.iter().any(clashes) => return Err(EXISTS.into()),
        (Mode::Append, Some(at)) if shares(&entries[at]) && shares(&new) => {
            let mut info = RouteInfo::clone(&entries[at].info);
            info.nexthops.extend(new.info.nexthops.iter().cloned());
            entries[at].info = infos.share(info);
        }
        (mode, _) => insert(&mut entries, new, mode == Mode::Prepend),
    }
    tables.set(table, prefix, len, entries);
    Ok(())
}

impl Config {
    /// A route that the kernel makes for a link.
    pub(super) fn own_route(kind: RouteType, oif: u32) -> RouteInfo {
        let way = Nexthop { oif, gateway: None, onlink: false, weight: 1, scope: Scope::UNIVERSE };
        RouteInfo { from_kernel: true, nexthops: vec![way], ..RouteInfo::new(kind) }
    }

    // Routes.

    /// The route with the longest prefix around an address in the first of some tables that has
    /// one; with a link (not 0) only routes by that link count.
    pub(super) fn way_to(
        &self,
        v6: bool,
        tables: &[u32],
        address: u128,
        oif: u32,
    ) -> Option<&RouteInfo> {
        match v6 {
            true => self.routes6.longest(tables, address, oif),
            false => self.routes4.longest(tables, address as u32, oif),
        }
    }

    /// Checks a way out and fills in its link (`fib_check_nh()`, `ip6_route_check_nh()`).
    pub(super) fn check_nexthop(
        &self,
        n: &mut Nexthop,
        scope: Scope,
        table: u32,
        v6: bool,
    ) -> Result<(), String> {
        let down = |c: &Self, oif| c.by_index(oif).is_some_and(|l| !l.up);
        let Some(gateway) = n.gateway else {
            if n.oif == 0 {
                return Err("Nexthop has no device.".into());
            }
            if down(self, n.oif) {
                return Err("Network is down: the device of the route is not up".into());
            }
            n.scope = Scope::HOST;
            return Ok(());
        };
        let tables = [table, TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT];
        match gateway {
            IpAddr::V4(g) => {
                let g = u128::from(u32::from(g));
                if n.onlink {
                    if n.oif == 0 {
                        return Err("Nexthop device required for onlink".into());
                    }
                    if down(self, n.oif) {
                        return Err("Nexthop device is not up".into());
                    }
                    n.scope = Scope::LINK;
                    return Ok(());
                }
                let invalid = "Nexthop has invalid gateway.";
                let order = if table == TABLE_MAIN { &tables[1..] } else { &tables[..] };
                let found = self.way_to(false, order, g, n.oif).ok_or(invalid)?;
                if !matches!(found.kind, RouteType::Unicast | RouteType::Local) {
                    return Err(invalid.into());
                }
                let via = found.nexthops.first().ok_or(invalid)?;
                // A gateway must be nearer than what is reached through it.
                if !v6
                    && (found.scope < Scope::LINK && scope <= found.scope && via.gateway.is_some())
                {
                    return Err(invalid.into());
                }
                if n.oif == 0 {
                    n.oif = via.oif;
                }
                if down(self, n.oif) {
                    return Err("Network is down: the device of the route is not up".into());
                }
                n.scope = found.scope;
            }
            IpAddr::V6(g) => {
                let g = u128::from(g);
                if self.links.iter().any(|l| l.addresses6.iter().any(|a| a.local == g))
                    && !(g >> 118 == 0x3fa && n.oif != 0)
                {
                    return Err("Gateway can not be a local address".into());
                }
                if g >> 118 == 0x3fa {
                    if n.oif == 0 {
                        return Err(
                            "Egress device not specified: a link-local gateway needs \"dev\""
                                .into(),
                        );
                    }
                } else if !n.onlink {
                    let found = self.way_to(true, &tables, g, n.oif).ok_or("No route to host")?;
                    let via = found
                        .nexthops
                        .first()
                        .filter(|v| v.gateway.is_none())
                        .ok_or("No route to host")?;
                    if n.oif == 0 {
                        n.oif = via.oif;
                    }
                } else if n.oif == 0 {
                    return Err("Egress device not specified".into());
                }
                if n.oif == LOOPBACK {
                    return Err("Egress device can not be loopback device for this route.".into());
                }
                // An IPv4 route's (`fib_check_nh_v6_gw()`).
                if !v6 {
                    n.scope = Scope::LINK;
                }
                if down(self, n.oif) {
                    return Err("Nexthop device is not up".into());
                }
            }
        }
        Ok(())
    }

    pub(crate) fn add_route(
        &mut self,
        route: NewRoute,
        v6: bool,
        mode: Mode,
    ) -> Result<(), String> {
        let NewRoute { table, prefix, len, tos, mut info } = route;
        if masked(prefix, len, v6) != prefix {
            return Err("Invalid prefix for given prefix length.".into());
        }
        let refuses = !matches!(
            info.kind,
            RouteType::Unicast
                | RouteType::Local
                | RouteType::Broadcast
                | RouteType::Multicast
                | RouteType::Anycast
        );
        if refuses {
            let oif = if v6 { LOOPBACK } else { 0 };
            info.nexthops = vec![Nexthop {
                oif,
                gateway: None,
                onlink: false,
                weight: 1,
                scope: Scope::NOWHERE,
            }];
        } else {
            let mut nexthops = std::mem::take(&mut info.nexthops);
            for n in &mut nexthops {
                if info.kind == RouteType::Local && !v6 {
                    if n.oif == 0 {
                        return Err("Nexthop has no device.".into());
                    }
                    n.scope = Scope::NOWHERE;
                } else {
                    self.check_nexthop(n, info.scope, table, v6)?;
                }
                if v6 && n.oif == LOOPBACK && info.kind != RouteType::Local {
                    return Err("Egress device can not be loopback device for this info.".into());
                }
            }
            info.nexthops = nexthops;
        }
        if let Some(IpAddr::V4(s)) = info.source {
            let s = u128::from(u32::from(s));
            let own = self.way_to(false, &[TABLE_LOCAL], s, 0);
            if own.is_none_or(|r| r.kind != RouteType::Local) {
                return Err("Invalid prefsrc address".into());
            }
        }
        if let Some(IpAddr::V6(s)) = info.source {
            let s = u128::from(s);
            if !self.links.iter().any(|l| l.addresses6.iter().any(|a| a.local == s)) {
                return Err("Invalid source address".into());
            }
        }
        let info = self.infos.share(info);
        let route = Route { table, prefix, len, tos, info };
        match v6 {
            true => put6(&mut self.routes6, &mut self.infos, route, mode),
            false => put4(&mut self.routes4, route, mode),
        }
    }

    // Rules.

    /// Adds a rule; without a priority it goes before the second one there is
    /// (`fib_default_rule_pref()`).
    pub(crate) fn add_rule(
        &mut self,
        mut rule: Rule,
        priority: Option<u32>,
        v6: bool,
    ) -> Result<(), String> {
        let rules = if v6 { &mut self.rules6 } else { &mut self.rules4 };
        rule.priority = match priority {
            Some(p) => p,
            None => rules.get(1).map_or(0, |r| r.priority.saturating_sub(1)),
        };
        if priority.is_some() && rules.contains(&rule) {
            return Err(EXISTS.into());
        }
        if let Action::Goto(target) = rule.action
            && target <= rule.priority
        {
            return Err("Backward goto not supported".into());
        }
        let at = rules.partition_point(|r| r.priority <= rule.priority);
        rules.insert(at, rule);
        if v6 {
            self.custom6 = true;
        } else {
            self.unmerged = true;
        }
        Ok(())
    }

    /// Removes the first rule with this priority and, where given, this table.
    pub(crate) fn delete_rule(
        &mut self,
        priority: u32,
        table: Option<u32>,
        v6: bool,
    ) -> Result<(), String> {
        let rules = if v6 { &mut self.rules6 } else { &mut self.rules4 };
        let fits = |r: &Rule| {
            r.priority == priority && table.is_none_or(|t| r.action == Action::Lookup(t))
        };
        let at = rules.iter().position(fits).ok_or("No such file or directory")?;
        rules.remove(at);
        if v6 {
            self.custom6 = true;
        } else {
            self.unmerged = true;
        }
        Ok(())
    }

    // Neighbours.
}
