// SPDX-License-Identifier: Apache-2.0

//! Lines of `gobgp monitor global rib -j --current`: a list of paths a line. GoBGP withdraws the
//! paths of sessions that end, or keeps them while a peer restarts, by itself; so there is nothing
//! about sessions here.

use serde_json::Value;

use super::{Event, Route, RouteFamily, Said};
use crate::flow::action::Actions;
use crate::flow::{BitField, Bits, Component, Field, FlowSpec, Numeric, Pattern};
use crate::span::{Family, Span};

/// Attributes, by their type codes.
const COMMUNITIES: u64 = 8;
const MP_REACH: u64 = 14;
const EXTENDED_COMMUNITIES: u64 = 16;

/// Reads a line.
///
/// # Errors
/// A sentence: it is no JSON, or misses what such a line has.
pub fn read(line: &str) -> Result<Vec<Said>, String> {
    let value: Value = serde_json::from_str(line).map_err(|e| format!("no JSON: {e}"))?;
    let paths = value.as_array().ok_or("no list of paths")?;
    let mut all = Vec::new();
    for path in paths {
        let peer = path["neighbor-ip"].as_str().ok_or("a path without `neighbor-ip`")?.to_owned();
        all.extend(event(path)?.map(|event| Said { peer, event }));
    }
    Ok(all)
}

fn attribute(path: &Value, code: u64) -> Option<&Value> {
    path["attrs"].as_array()?.iter().find(|a| a["type"] == code)
}

/// What is said of a path; nothing of one of another family.
fn event(path: &Value) -> Result<Option<Event>, String> {
    let nlri = &path["nlri"];
    let reach = attribute(path, MP_REACH);
    let afi = reach.and_then(|r| r["afi"].as_u64());
    let safi = reach.and_then(|r| r["safi"].as_u64());
    // Without the attribute it is IPv4 unicast (RFC 4760).
    let (family, is_flow) = match (afi.unwrap_or(1), safi.unwrap_or(1)) {
        (1, 1) => (Family::V4, false),
        (2, 1) => (Family::V6, false),
        (1, 133) => (Family::V4, true),
        (2, 133) => (Family::V6, true),
        _ => return Ok(None),
    };
    let of = RouteFamily { family, is_flow };
    let identifier = path["id"].as_u64().or_else(|| nlri["id"].as_u64());
    let name = match identifier {
        Some(id) => format!("{nlri} {id}"),
        None => nlri.to_string(),
    };
    if path["withdrawal"] == true {
        return Ok(Some(Event::Withdraw(of, name)));
    }
    let route = if is_flow { flow(family, path) } else { unicast(path) };
    Ok(Some(Event::Announce(of, name, route.unwrap_or_else(Route::Refused))))
}

fn unicast(path: &Value) -> Result<Route, String> {
    let prefix: Span = path["nlri"]["prefix"].as_str().ok_or("no `prefix`")?.parse()?;
    let communities = attribute(path, COMMUNITIES).map(|a| &a["communities"]);
    let communities = communities.and_then(Value::as_array).into_iter().flatten();
    let number = |c: &Value| c.as_u64().and_then(|c| u32::try_from(c).ok());
    let communities: Option<Vec<u32>> = communities.map(number).collect();
    let communities = communities.ok_or("a community is no number")?;
    Ok(Route::Unicast { prefix, communities })
}

fn flow(family: Family, path: &Value) -> Result<Route, String> {
    let mut actions = Actions::default();
    let extended = attribute(path, EXTENDED_COMMUNITIES).map(|a| &a["value"]);
    for community in extended.and_then(Value::as_array).into_iter().flatten() {
        if let Some(value) = action(community)? {
            actions.add(value)?;
        }
    }
    let mut components = Vec::new();
    for component in path["nlri"]["value"].as_array().ok_or("a flow is no list")? {
        components.push(read_component(family, component)?);
    }
    Ok(Route::Flow(FlowSpec::new(family, components)?, actions))
}

/// The bytes of an extended community that is an action.
fn action(community: &Value) -> Result<Option<u64>, String> {
    let kind = community["type"].as_u64().ok_or("an extended community without type")?;
    let subtype = community["subtype"].as_u64().unwrap_or(0) & 0xff;
    let head = kind << 56 | subtype << 48;
    Ok(match (kind, subtype) {
        (0x80, 0x06 | 0x0c) => {
            let rate = community["rate"].as_f64().ok_or("a rate that is no number")? as f32;
            Some(head | u64::from(rate.to_bits()))
        }
        (0x80, 0x07) => {
            let bit = |name: &str| u64::from(community[name] == true);
            Some(head | bit("sample") << 1 | bit("terminal"))
        }
        (0x80, 0x09) => Some(head | community["value"].as_u64().ok_or("a mark without value")?),
        // The type is enough to refuse the others.
        (0x80..=0x82, _) | (0x01, 0x0c) | (0x08, 0) => Some(head),
        _ => None,
    })
}

fn read_component(family: Family, component: &Value) -> Result<Component, String> {
    let kind = component["type"].as_u64().ok_or("a component without type")?;
    let value = &component["value"];
    let items = || -> Result<Vec<(u8, u32)>, String> {
        let item = |item: &Value| {
            let operator = u8::try_from(item["op"].as_u64()?).ok()?;
            Some((operator, u32::try_from(item["value"].as_u64()?).ok()?))
        };
        let items = value.as_array().ok_or("a component is no list")?;
        let items: Option<Vec<_>> = items.iter().map(item).collect();
        items.ok_or_else(|| "a component has no numbers".to_owned())
    };
    let numbers = |field| -> Result<Component, String> {
        let number = |(operator, value): (u8, u32)| Numeric {
            and: operator & 0x40 != 0,
            less: operator & 4 != 0,
            greater: operator & 2 != 0,
            equal: operator & 1 != 0,
            value,
        };
        Ok(Component::Numbers(field, items()?.into_iter().map(number).collect()))
    };
    let bits = |field| -> Result<Component, String> {
        let bits = |(operator, value): (u8, u32)| Bits {
            and: operator & 0x40 != 0,
            not: operator & 2 != 0,
            all: operator & 1 != 0,
            value,
        };
        Ok(Component::Bits(field, items()?.into_iter().map(bits).collect()))
    };
    let pattern = || -> Result<Pattern, String> {
        let text = value["prefix"].as_str().ok_or("a prefix without `prefix`")?;
        let prefix: Span = text.parse()?;
        let offset = component["offset"].as_u64().unwrap_or(0);
        let offset = u8::try_from(offset).map_err(|_| "an offset beyond the address")?;
        let length = prefix.prefix_length().filter(|_| prefix.family() == family);
        length
            .and_then(|length| Pattern::new(family, prefix.first(), offset, length))
            .ok_or_else(|| format!("`{text}` is no prefix of the family"))
    };
    Ok(match kind {
        1 => Component::Destination(pattern()?),
        2 => Component::Source(pattern()?),
        3 => numbers(Field::Protocol)?,
        4 => numbers(Field::Port)?,
        5 => numbers(Field::DestinationPort)?,
        6 => numbers(Field::SourcePort)?,
        7 => numbers(Field::IcmpType)?,
        8 => numbers(Field::IcmpCode)?,
        9 => bits(BitField::TcpFlags)?,
        10 => numbers(Field::Length)?,
        11 => numbers(Field::Dscp)?,
        12 => bits(BitField::Fragment)?,
        13 => numbers(Field::FlowLabel)?,
        other => return Err(format!("a component of type {other}")),
    })
}
