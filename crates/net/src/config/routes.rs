// SPDX-License-Identifier: Apache-2.0

//! Routes and rules of a configuration: found, checked, added and deleted.

use crate::{
    Action, LOOPBACK, Nexthop, Route, RouteType, Rule, Scope, TABLE_DEFAULT, TABLE_LOCAL,
    TABLE_MAIN,
};
use std::net::IpAddr;

use super::{Config, EXISTS, Mode, masked};

impl Config {
    pub(super) fn route(table: u32, prefix: u128, len: u8, kind: RouteType, oif: u32) -> Route {
        Route {
            table,
            prefix,
            len,
            tos: 0,
            metric: 0,
            kind,
            scope: Scope::UNIVERSE,
            from_kernel: true,
            source: None,
            mtu: 0,
            mtu_locked: false,
            advmss: 0,
            hop_limit: 0,
            realm: 0,
            nexthops: vec![Nexthop {
                oif,
                gateway: None,
                onlink: false,
                weight: 1,
                scope: Scope::UNIVERSE,
            }],
        }
    }

    // Routes.

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
                let found = self.routes4.longest(order, g, n.oif, false).ok_or(invalid)?;
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
                    let found =
                        self.routes6.longest(&tables, g, n.oif, true).ok_or("No route to host")?;
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
        mut route: Route,
        v6: bool,
        mode: Mode,
    ) -> Result<(), String> {
        if masked(route.prefix, route.len, v6) != route.prefix {
            return Err("Invalid prefix for given prefix length.".into());
        }
        let refuses = !matches!(
            route.kind,
            RouteType::Unicast
                | RouteType::Local
                | RouteType::Broadcast
                | RouteType::Multicast
                | RouteType::Anycast
        );
        if refuses {
            let oif = if v6 { LOOPBACK } else { 0 };
            route.nexthops = vec![Nexthop {
                oif,
                gateway: None,
                onlink: false,
                weight: 1,
                scope: Scope::NOWHERE,
            }];
        } else {
            let mut nexthops = std::mem::take(&mut route.nexthops);
            for n in &mut nexthops {
                if route.kind == RouteType::Local && !v6 {
                    if n.oif == 0 {
                        return Err("Nexthop has no device.".into());
                    }
                    n.scope = Scope::NOWHERE;
                } else {
                    self.check_nexthop(n, route.scope, route.table, v6)?;
                }
                if v6 && n.oif == LOOPBACK && route.kind != RouteType::Local {
                    return Err("Egress device can not be loopback device for this route.".into());
                }
            }
            route.nexthops = nexthops;
        }
        if let Some(IpAddr::V4(s)) = route.source {
            let s = u128::from(u32::from(s));
            let own = self.routes4.longest(&[TABLE_LOCAL], s, 0, false);
            if own.is_none_or(|r| r.kind != RouteType::Local) {
                return Err("Invalid prefsrc address".into());
            }
        }
        if let Some(IpAddr::V6(s)) = route.source {
            let s = u128::from(s);
            if !self.links.iter().any(|l| l.addresses6.iter().any(|a| a.local == s)) {
                return Err("Invalid source address".into());
            }
        }
        let all = if v6 { &mut self.routes6 } else { &mut self.routes4 };
        let routes = all.of_mut(route.table, route.prefix, route.len);
        let same = |o: &Route| (o.tos, o.metric) == (route.tos, route.metric);
        // Kernel routes of IPv6 links share prefix and metric; one per link is fine.
        let clashes = |o: &Route| {
            same(o)
                && (!v6
                    || mode != Mode::Append
                    || (o.nexthops == route.nexthops && o.kind == route.kind))
        };
        let first = routes.iter().position(same);
        match (mode, first) {
            (Mode::Add, Some(_)) => return Err(EXISTS.into()),
            (Mode::Change, None) => return Err("No such process".into()),
            (Mode::Replace | Mode::Change, Some(at)) => routes[at] = route,
            (Mode::Append, Some(at)) if v6 => {
                if routes.iter().any(clashes) {
                    return Err(EXISTS.into());
                }
                // Routes with gateways and equal metric share the flows.
                let shares = |r: &Route| {
                    r.kind == RouteType::Unicast && r.nexthops.iter().all(|n| n.gateway.is_some())
                };
                if shares(&routes[at]) && shares(&route) {
                    routes[at].nexthops.extend(route.nexthops);
                } else {
                    routes.push(route);
                }
            }
            (Mode::Append, Some(_)) => {
                if routes.contains(&route) {
                    return Err(EXISTS.into());
                }
                routes.push(route);
            }
            (Mode::Prepend, Some(at)) => routes.insert(at, route),
            (Mode::Add | Mode::Replace | Mode::Append | Mode::Prepend, None) => routes.push(route),
        }
        Ok(())
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
