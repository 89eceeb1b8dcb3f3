// SPDX-License-Identifier: Apache-2.0

//! Lines of ip-route(8).

use std::net::IpAddr;

use crate::address_lines::scope;
use crate::config::{Config, Mode, NewRoute};
use crate::lines::{self, Words};
use crate::{
    LOOPBACK, Nexthop, RouteInfo, RouteType, Scope, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN,
};

type Done = Result<(), String>;

/// A table by its name or number.
pub(crate) fn table(word: &str) -> Result<u32, String> {
    Ok(match word {
        "local" => TABLE_LOCAL,
        "main" => TABLE_MAIN,
        "default" => TABLE_DEFAULT,
        n => {
            let n: u32 = lines::number(n).ok_or_else(|| format!("\"{n}\" is not a table"))?;
            if n == 0 { TABLE_MAIN } else { n }
        }
    })
}

fn realm_number(word: &str) -> Result<u32, String> {
    lines::number::<u16>(word).map(u32::from).ok_or_else(|| format!("\"{word}\" is not a realm"))
}

/// `FROM/TO` or `TO`: the source realm is in the upper half.
pub(crate) fn realms(word: &str) -> Result<u32, String> {
    match word.split_once('/') {
        Some((from, to)) => Ok(realm_number(from)? << 16 | realm_number(to)?),
        None => realm_number(word),
    }
}

/// A type of service, in hexadecimal digits.
pub(crate) fn tos(word: &str) -> Result<u8, String> {
    let text = word.strip_prefix("0x").unwrap_or(word);
    u8::from_str_radix(text, 16).map_err(|_| format!("\"{word}\" is not a TOS value"))
}

/// The gateway after `via`, with its optional family word.
fn via(w: &mut Words<'_>) -> Result<IpAddr, String> {
    if !w.take("inet") {
        w.take("inet6");
    }
    w.address()
}

const ROUTE_TYPES: [(&str, RouteType); 9] = [
    ("unicast", RouteType::Unicast),
    ("local", RouteType::Local),
    ("broadcast", RouteType::Broadcast),
    ("anycast", RouteType::Anycast),
    ("multicast", RouteType::Multicast),
    ("blackhole", RouteType::Blackhole),
    ("unreachable", RouteType::Unreachable),
    ("prohibit", RouteType::Prohibit),
    ("throw", RouteType::Throw),
];

fn route_type(word: &str) -> Option<RouteType> {
    ROUTE_TYPES.iter().find(|(n, _)| *n == word).map(|(_, t)| *t)
}

pub(crate) fn line(config: &mut Config, w: &mut Words<'_>, mode: Mode, v6: Option<bool>) -> Done {
    let mut words = RouteWords::new();
    if let Some(t) = w.peek().and_then(route_type) {
        words.kind = t;
        w.next();
    }
    words.read(config, w)?;
    let (route, v6) = words.route(v6)?;
    config.add_route(route, v6, mode)
}

/// Words of a line about a route.
struct RouteWords<'a> {
    destination: Option<&'a str>,
    kind: RouteType,
    /// The next hop of `via` and `dev`, and whether either was there.
    first: Nexthop,
    has_first: bool,
    /// Those of `nexthop`.
    nexthops: Vec<Nexthop>,
    table: Option<u32>,
    scope: Option<Scope>,
    /// What does not depend on other words.
    tos: u8,
    info: RouteInfo,
}

impl<'a> RouteWords<'a> {
    fn new() -> Self {
        RouteWords {
            destination: None,
            kind: RouteType::Unicast,
            first: Nexthop {
                oif: 0,
                gateway: None,
                onlink: false,
                weight: 1,
                scope: Scope::UNIVERSE,
            },
            has_first: false,
            nexthops: Vec::new(),
            table: None,
            scope: None,
            tos: 0,
            info: RouteInfo::new(RouteType::Unicast),
        }
    }

    /// Reads until the end of the line.
    fn read(&mut self, config: &Config, w: &mut Words<'a>) -> Done {
        while let Some(word) = w.next() {
            match word {
                "to" => {
                    if let Some(t) = w.peek().and_then(route_type) {
                        self.kind = t;
                        w.next();
                    }
                    self.destination = Some(w.value()?);
                }
                "via" => {
                    self.first.gateway = Some(via(w)?);
                    self.has_first = true;
                }
                "dev" | "oif" => {
                    self.first.oif = config.link(w.value()?)?.index;
                    self.has_first = true;
                }
                "onlink" => self.first.onlink = true,
                "nexthop" => self.nexthops.push(nexthop(config, w)?),
                "metric" | "priority" | "preference" => self.info.metric = w.number()?,
                "table" => self.table = Some(table(w.value()?)?),
                "mtu" => {
                    self.info.mtu_locked = w.take("lock");
                    self.info.mtu = w.number_after("mtu")?;
                }
                "advmss" => {
                    w.take("lock");
                    self.info.advmss = w.number_after("advmss")?;
                }
                "hoplimit" => {
                    w.take("lock");
                    self.info.hop_limit = w.number_after("hoplimit")?;
                }
                "src" => self.info.source = Some(w.address()?),
                "realm" | "realms" => self.info.realm = realms(w.value()?)?,
                "tos" | "dsfield" => self.tos = tos(w.value()?)?,
                "scope" => self.scope = Some(scope(w.value()?)?),
                "proto" | "protocol" | "pref" => {
                    w.value()?;
                }
                "window" | "rtt" | "rttvar" | "ssthresh" | "cwnd" | "initcwnd" | "initrwnd"
                | "rto_min" | "reordering" | "quickack" | "features" | "congctl"
                | "fastopen_no_cookie" => {
                    return Err(format!(
                        "\"{word}\" is about TCP connections of the host, of which there are none here"
                    ));
                }
                "encap" | "nhid" | "from" | "as" | "expires" | "ttl-propagate" | "vrf" => {
                    return Err(format!("\"{word}\" is not supported yet"));
                }
                d if self.destination.is_none() => self.destination = Some(d),
                other => {
                    return Err(format!(
                        "either \"to\" is duplicate, or \"{other}\" is an unknown word"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The route, and whether it is one of IPv6, with defaults for what was not said. `v6` is
    /// what the command says of the family.
    fn route(self, v6: Option<bool>) -> Result<(NewRoute, bool), String> {
        let RouteWords {
            destination,
            kind,
            first,
            has_first,
            mut nexthops,
            table,
            scope,
            tos,
            info: mut r,
        } = self;
        let text = destination.unwrap_or("default");
        let gateway6 = |n: &Nexthop| matches!(n.gateway, Some(IpAddr::V6(_)));
        let wants6 = v6.unwrap_or(gateway6(&first) || nexthops.iter().any(gateway6));
        let (prefix, len, is6) =
            lines::prefix(text, wants6).ok_or_else(|| format!("\"{text}\" is not a prefix"))?;
        if v6.is_some_and(|s| s != is6) {
            return Err(format!("\"{text}\" is of the other family"));
        }
        for n in nexthops.iter().chain([&first]) {
            match n.gateway {
                Some(IpAddr::V4(_)) if is6 => {
                    return Err("an IPv6 route cannot go over an IPv4 gateway".into());
                }
                _ => {}
            }
        }
        match r.source {
            Some(IpAddr::V4(_)) if is6 => return Err("\"src\" is of the other family".into()),
            Some(IpAddr::V6(_)) if !is6 => return Err("\"src\" is of the other family".into()),
            _ => {}
        }
        if !nexthops.is_empty() && has_first {
            return Err("\"via\" or \"dev\" beside \"nexthop\"".into());
        }
        if nexthops.is_empty() {
            nexthops.push(first);
        }
        if !is6 && matches!(kind, RouteType::Multicast | RouteType::Anycast) {
            return Err(format!(
                "\"{}\" routes are not supported yet",
                ROUTE_TYPES[kind as usize - 1].0
            ));
        }
        let local = matches!(kind, RouteType::Local | RouteType::Broadcast | RouteType::Anycast);
        let table = table.unwrap_or(if local { TABLE_LOCAL } else { TABLE_MAIN });
        let via_gateway = nexthops.iter().any(|n| n.gateway.is_some());
        r.scope = scope.unwrap_or(match kind {
            RouteType::Local => Scope::HOST,
            RouteType::Broadcast | RouteType::Multicast | RouteType::Anycast => Scope::LINK,
            RouteType::Unicast if !via_gateway && !is6 => Scope::LINK,
            _ => Scope::UNIVERSE,
        });
        if is6 && r.metric == 0 {
            r.metric = 1024;
        }
        if kind == RouteType::Local && is6 && nexthops[0].oif == 0 {
            nexthops[0].oif = LOOPBACK;
        }
        (r.kind, r.nexthops) = (kind, nexthops);
        Ok((NewRoute { table, prefix, len, tos, info: r }, is6))
    }
}

fn nexthop(config: &Config, w: &mut Words<'_>) -> Result<Nexthop, String> {
    let mut n = Nexthop { oif: 0, gateway: None, onlink: false, weight: 1, scope: Scope::UNIVERSE };
    while let Some(word) = w.peek() {
        match word {
            "nexthop" => break,
            "via" => {
                w.next();
                n.gateway = Some(via(w)?);
            }
            "dev" => {
                w.next();
                n.oif = config.link(w.value()?)?.index;
            }
            "weight" => {
                w.next();
                n.weight = w.number()?;
                if !(1..=256).contains(&n.weight) {
                    return Err(format!("\"{}\" is not a valid weight", n.weight));
                }
            }
            "onlink" => {
                w.next();
                n.onlink = true;
            }
            "realm" | "realms" | "encap" => {
                return Err(format!("\"{word}\" of a nexthop is not supported yet"));
            }
            _ => break,
        }
    }
    Ok(n)
}
