// SPDX-License-Identifier: Apache-2.0

//! Lines that ExaBGP 4 writes to a process with `encoder json`, one object a line. The process has
//! to receive parsed updates, and should receive opens and notifications:
//!
//! ```text
//! api { processes [ penstock ]; neighbor-changes; receive { parsed; update; open; notification; } }
//! ```
//!
//! Lines about anything else, and routes of other families, mean nothing here.

use serde_json::{Map, Value};

use super::{Event, Restart, Route, RouteFamily, Said};
use crate::flow::action::Actions;
use crate::flow::{BitField, Bits, Component, Field, FlowSpec, Numeric, Pattern};
use crate::span::{Family, Span};

/// Reads a line.
///
/// # Errors
/// A sentence: it is no JSON, or misses what such a line has.
pub fn read(line: &str) -> Result<Vec<Said>, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| format!("no JSON: {e}"))?;
    let kind = value["type"].as_str().ok_or("no `type`")?;
    let neighbor = &value["neighbor"];
    let Some(peer) = neighbor["address"]["peer"].as_str() else {
        // Signals and the end of ExaBGP itself are about no neighbor.
        return Ok(Vec::new());
    };
    if neighbor["direction"] == "send" && kind != "notification" {
        return Ok(Vec::new());
    }
    let events = match kind {
        "state" => match neighbor["state"].as_str().ok_or("no `state`")? {
            "up" => vec![Event::Up],
            "down" => vec![Event::Down],
            _ => Vec::new(),
        },
        "open" => vec![Event::Open(restart(&neighbor["open"]["capabilities"]))],
        "notification" => vec![Event::Notification],
        "update" => update(&neighbor["message"])?,
        _ => Vec::new(),
    };
    let said = |event| Said { peer: peer.to_owned(), event };
    Ok(events.into_iter().map(said).collect())
}

/// The capability of graceful restart, code 64.
fn restart(capabilities: &Value) -> Option<Restart> {
    let capability = capabilities.get("64")?;
    let time = capability["time"].as_u64()?;
    let families = capability["address-family-flags"].as_object()?;
    let read = |(name, flags): (&String, &Value)| {
        let (afi, safi) = name.split_once('/')?;
        let flags = flags.as_array()?;
        Some((RouteFamily::of(afi, safi)?, flags.iter().any(|f| f == "restart")))
    };
    Some(Restart { time, families: families.iter().filter_map(read).collect() })
}

fn update(message: &Value) -> Result<Vec<Event>, String> {
    if let Some(eor) = message.get("eor") {
        let afi = eor["afi"].as_str().ok_or("no `afi`")?;
        let safi = eor["safi"].as_str().ok_or("no `safi`")?;
        return Ok(RouteFamily::of(afi, safi).map(Event::EndOfRib).into_iter().collect());
    }
    let update = &message["update"];
    let mut events = Vec::new();
    let empty = Map::new();
    let families = |what: &str| -> Result<Vec<(RouteFamily, Value)>, String> {
        let all = match update.get(what) {
            None => &empty,
            Some(all) => all.as_object().ok_or(format!("`{what}` is no object"))?,
        };
        let read = |(name, routes): (&String, &Value)| {
            let (afi, safi) = name.split_once(' ')?;
            Some((RouteFamily::of(afi, safi)?, routes.clone()))
        };
        Ok(all.iter().filter_map(read).collect())
    };
    for (family, routes) in families("withdraw")? {
        for route in routes.as_array().ok_or("withdrawn routes are no list")? {
            events.push(Event::Withdraw(family, name(family, route)?));
        }
    }
    let attributes = &update["attribute"];
    for (family, next_hops) in families("announce")? {
        for routes in next_hops.as_object().ok_or("announced routes are no object")?.values() {
            for route in routes.as_array().ok_or("announced routes are no list")? {
                let name = name(family, route)?;
                let read = match family.is_flow {
                    true => flow(family.family, route, attributes),
                    false => unicast(route, attributes),
                };
                events.push(Event::Announce(family, name, read.unwrap_or_else(Route::Refused)));
            }
        }
    }
    Ok(events)
}

/// What tells a route from others of its family.
fn name(family: RouteFamily, route: &Value) -> Result<String, String> {
    if family.is_flow {
        let text = route["string"].as_str().ok_or("a flow without `string`")?;
        return Ok(text.split(" next-hop ").next().unwrap_or(text).to_owned());
    }
    let prefix = nlri(route).ok_or("a route without `nlri`")?;
    Ok(match route["path-information"].as_str() {
        Some(path) => format!("{prefix} {path}"),
        None => prefix.to_owned(),
    })
}

/// A route is an object, or with `compact` a string.
fn nlri(route: &Value) -> Option<&str> {
    route.as_str().or_else(|| route["nlri"].as_str())
}

fn unicast(route: &Value, attributes: &Value) -> Result<Route, String> {
    let prefix: Span = nlri(route).unwrap_or_default().parse()?;
    let mut communities = Vec::new();
    for pair in attributes["community"].as_array().into_iter().flatten() {
        let half = |i: usize| pair[i].as_u64().and_then(|n| u16::try_from(n).ok());
        let (system, value) = half(0).zip(half(1)).ok_or("a community is no pair of numbers")?;
        communities.push(u32::from(system) << 16 | u32::from(value));
    }
    Ok(Route::Unicast { prefix, communities })
}

fn flow(family: Family, route: &Value, attributes: &Value) -> Result<Route, String> {
    let mut actions = Actions::default();
    for community in attributes["extended-community"].as_array().into_iter().flatten() {
        let value = community["value"].as_u64();
        actions.add(value.ok_or("an action that has an IPv6 address")?)?;
    }
    let words = route["string"].as_str().ok_or("a flow without `string`")?;
    let mut components = Vec::new();
    for (name, items) in route.as_object().ok_or("a flow is no object")? {
        let pattern = || prefix(family, items[0].as_str().unwrap_or_default());
        components.push(match &**name {
            "destination-ipv4" | "destination-ipv6" => Component::Destination(pattern()?),
            "source-ipv4" | "source-ipv6" => Component::Source(pattern()?),
            "tcp-flags" => Component::Bits(BitField::TcpFlags, bits(words, name, TCP_FLAGS)?),
            "fragment" => Component::Bits(BitField::Fragment, bits(words, name, FRAGMENTS)?),
            "protocol" | "next-header" => numbers(Field::Protocol, items, PROTOCOLS)?,
            "port" => numbers(Field::Port, items, &[])?,
            "destination-port" => numbers(Field::DestinationPort, items, &[])?,
            "source-port" => numbers(Field::SourcePort, items, &[])?,
            "icmp-type" => numbers(Field::IcmpType, items, ICMP_TYPES)?,
            "icmp-code" => numbers(Field::IcmpCode, items, &[])?,
            "packet-length" => numbers(Field::Length, items, &[])?,
            "dscp" | "traffic-class" => numbers(Field::Dscp, items, &[])?,
            "flow-label" => numbers(Field::FlowLabel, items, &[])?,
            "string" | "next-hop" => continue,
            other => return Err(format!("the component `{other}`")),
        });
    }
    Ok(Route::Flow(FlowSpec::new(family, components)?, actions))
}

/// `198.18.0.0/24`, `2001:db8::/48/0`
fn prefix(family: Family, text: &str) -> Result<Pattern, String> {
    let mut parts = text.split('/');
    let mut part = || parts.next().unwrap_or_default();
    let address: Span = part().parse()?;
    let length = part().parse().map_err(|_| format!("`{text}` is no prefix"))?;
    match part() {
        "" | "0" => {}
        // ExaBGP 4 takes the bytes for those of the whole prefix, as drafts of the RFC had it.
        _ => return Err("a prefix with an offset, which ExaBGP does not read as RFC 8956".into()),
    }
    let pattern = Pattern::new(family, address.first(), 0, length);
    let fits = address.family() == family;
    pattern.filter(|_| fits).ok_or_else(|| format!("`{text}` is no prefix of the family"))
}

/// A name and its number.
type Names = &'static [(&'static str, u32)];

/// The names and numbers are those of ExaBGP, which writes them.
const PROTOCOLS: Names = &[
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("egp", 8),
    ("udp", 17),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ospf", 89),
    ("ipip", 94),
    ("pim", 103),
    ("sctp", 132),
];
const ICMP_TYPES: Names = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicit", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("info-request", 15),
    ("info-reply", 16),
    ("mask-request", 17),
    ("mask-reply", 18),
    ("traceroute", 30),
];
const TCP_FLAGS: Names = &[
    ("fin", 1),
    ("syn", 2),
    ("rst", 4),
    ("push", 8),
    ("ack", 16),
    ("urg", 32),
    ("urgent", 32),
    ("ece", 64),
    ("cwr", 128),
    ("ns", 256),
];
const FRAGMENTS: Names = &[
    ("not-a-fragment", 0),
    ("dont-fragment", 1),
    ("is-fragment", 2),
    ("first-fragment", 4),
    ("last-fragment", 8),
];

/// A number, a name, or `unknown … type NUMBER`.
fn value(text: &str, names: Names) -> Result<u32, String> {
    let number = match text.strip_prefix("unknown ") {
        Some(rest) => rest.rsplit(' ').next().unwrap_or_default(),
        None => text,
    };
    let named = || names.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    number.parse().ok().or_else(named).ok_or_else(|| format!("the value `{text}`"))
}

/// Comparisons such as `=80`, `>8080&<8088`: a list of alternatives.
fn numbers(field: Field, items: &Value, names: Names) -> Result<Component, String> {
    let mut all = Vec::new();
    for alternative in items.as_array().ok_or("a component is no list")? {
        let text = alternative.as_str().ok_or("a component is no list of strings")?;
        for (i, text) in text.split('&').enumerate() {
            let and = i != 0;
            let (less, greater, equal, rest) = operator(text)?;
            let value = match rest {
                None => 0,
                Some(rest) => value(rest, names)?,
            };
            all.push(Numeric { and, less, greater, equal, value });
        }
    }
    Ok(Component::Numbers(field, all))
}

type Operator<'t> = (bool, bool, bool, Option<&'t str>);

/// Smaller, greater, equal; and what is compared with.
fn operator(text: &str) -> Result<Operator<'_>, String> {
    const OPERATORS: [(&str, [bool; 3]); 6] = [
        ("!=", [true, true, false]),
        ("<=", [true, false, true]),
        (">=", [false, true, true]),
        ("<", [true, false, false]),
        (">", [false, true, false]),
        ("=", [false, false, true]),
    ];
    match text {
        "true" => return Ok((true, true, true, None)),
        "false" => return Ok((false, false, false, None)),
        _ => {}
    }
    for (sign, [less, greater, equal]) in OPERATORS {
        if let Some(rest) = text.strip_prefix(sign) {
            return Ok((less, greater, equal, Some(rest)));
        }
    }
    Err(format!("the comparison `{text}`"))
}

/// Comparisons of bits, such as `[ =syn !=ack syn+ack ]`, from the text of a whole flow: in lists,
/// ExaBGP separates flags that belong together as it separates alternatives.
fn bits(words: &str, name: &str, names: Names) -> Result<Vec<Bits>, String> {
    let mut rest = words.split(' ').skip_while(|word| *word != name).skip(1);
    let alternatives: Vec<&str> = match rest.next() {
        Some("[") => rest.take_while(|word| *word != "]").collect(),
        Some(one) => vec![one],
        None => Vec::new(),
    };
    let mut all = Vec::new();
    for alternative in alternatives {
        for (i, text) in alternative.split('&').enumerate() {
            let (not, text) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
            let (match_all, text) =
                text.strip_prefix('=').map_or((false, text), |rest| (true, rest));
            let mut bits = 0;
            for flag in text.split('+').filter(|flag| !flag.is_empty()) {
                bits |= value(flag, names)?;
            }
            all.push(Bits { and: i != 0, not, all: match_all, value: bits });
        }
    }
    Ok(all)
}
