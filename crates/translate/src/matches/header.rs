// SPDX-License-Identifier: Apache-2.0

//! Matches of the headers of packets (`xt_tcpudp.c`, `xt_multiport.c`, `xt_iprange.c`, `xt_dscp.c`,
//! `xt_hl.c`, `xt_tcpmss.c`).

use super::{Found, one};
use crate::Family;
use crate::args::{Args, Opt, interval, masked, number, range};
use crate::context::{Cond, Rule};

/// A match of a port. Names of services go on as they are.
fn port(protocol: &str, field: &str, opt: &Opt) -> Result<Cond, String> {
    let value = opt.value()?;
    let is_name = value.starts_with(|c: char| c.is_ascii_alphabetic());
    let text = match is_name && !value.contains(':') {
        true => value.to_owned(),
        false => interval(range(value)?),
    };
    Ok(Cond::If(format!("{protocol} {field} {}{text}", opt.op())))
}

/// Source and destination port.
pub fn ports(protocol: &str, args: &mut Args) -> Found {
    let mut conds = Vec::new();
    for (names, field) in
        [(["--sport", "--source-port"], "sport"), (["--dport", "--destination-port"], "dport")]
    {
        if let Some(opt) = args.take(&names) {
            conds.push(port(protocol, field, &opt)?);
        }
    }
    Ok(conds)
}

/// Ports, flags and options of TCP.
pub fn tcp(args: &mut Args) -> Found {
    let mut conds = ports("tcp", args)?;
    if let Some(opt) = args.take(&["--syn"]) {
        let op = if opt.not { "!=" } else { "==" };
        conds.push(Cond::If(format!("tcp flags & (fin | syn | rst | ack) {op} syn")));
    }
    if let Some(opt) = args.take(&["--tcp-flags"]) {
        let [mask, set] = &opt.values[..] else {
            return Err("--tcp-flags has a mask and flags".to_owned());
        };
        let op = if opt.not { "!=" } else { "==" };
        let (mask, set) = (flags(mask)?, flags(set)?);
        conds.push(Cond::If(format!("tcp flags & {mask} {op} {set}")));
    }
    if let Some(opt) = args.take(&["--tcp-option"]) {
        let kind = number(opt.value()?)?;
        if kind < 2 {
            return Err("this option has no length".to_owned());
        }
        let is = if opt.not { "missing" } else { "exists" };
        conds.push(Cond::If(format!("tcp option {kind} {is}")));
    }
    Ok(conds)
}

/// Flags of TCP: `SYN,ACK`, `ALL`, `NONE`.
fn flags(text: &str) -> Result<String, String> {
    let flag = |name: &str| {
        let name = name.to_ascii_lowercase();
        match &*name {
            "fin" | "syn" | "rst" | "psh" | "ack" | "urg" => Ok(name),
            _ => Err(format!("`{name}` is no flag of TCP")),
        }
    };
    match text {
        "ALL" => Ok("(fin | syn | rst | psh | ack | urg)".to_owned()),
        "NONE" => Ok("0x0".to_owned()),
        _ => {
            let all: Result<Vec<String>, String> = text.split(',').map(flag).collect();
            Ok(format!("({})", all?.join(" | ")))
        }
    }
}

/// Type, and code after `/`, of ICMP or ICMPv6.
pub fn icmp(protocol: &str, names: &[&str], args: &mut Args) -> Found {
    let Some(opt) = args.take(names) else { return Ok(vec![]) };
    let value = opt.value()?;
    if matches!(value, "any" | "255") && protocol == "icmp" {
        return match opt.not {
            false => Ok(vec![]),
            true => Err("it matches nothing".to_owned()),
        };
    }
    if let Some((kind, code)) = value.split_once('/') {
        let (kind, code) = (number(kind)?, number(code)?);
        return one(match opt.not {
            false => format!("{protocol} type {kind} {protocol} code {code}"),
            true => format!("{protocol} type . {protocol} code != {{ {kind} . {code} }}"),
        });
    }
    one(format!("{protocol} type {}{}", opt.op(), kind(protocol, value)?))
}

/// A type by its name or number.
fn kind(protocol: &str, name: &str) -> Result<String, String> {
    let names: &[(&str, &str)] = match protocol {
        "icmp" => &[
            ("echo-reply", "0"),
            ("pong", "0"),
            ("destination-unreachable", "3"),
            ("source-quench", "4"),
            ("redirect", "5"),
            ("echo-request", "8"),
            ("ping", "8"),
            ("router-advertisement", "9"),
            ("router-solicitation", "10"),
            ("time-exceeded", "11"),
            ("ttl-exceeded", "11"),
            ("parameter-problem", "12"),
            ("timestamp-request", "13"),
            ("timestamp-reply", "14"),
            ("address-mask-request", "17"),
            ("address-mask-reply", "18"),
        ],
        _ => &[
            ("destination-unreachable", "1"),
            ("packet-too-big", "2"),
            ("time-exceeded", "3"),
            ("ttl-exceeded", "3"),
            ("parameter-problem", "4"),
            ("echo-request", "128"),
            ("ping", "128"),
            ("echo-reply", "129"),
            ("pong", "129"),
            ("router-solicitation", "133"),
            ("router-advertisement", "134"),
            ("neighbor-solicitation", "135"),
            ("neighbour-solicitation", "135"),
            ("neighbor-advertisement", "136"),
            ("neighbour-advertisement", "136"),
            ("redirect", "137"),
        ],
    };
    match names.iter().find(|(known, _)| *known == name) {
        Some((_, number)) => Ok((*number).to_owned()),
        None => number(name).map(|kind| kind.to_string()),
    }
}

/// The index of a security association.
pub fn spi(protocol: &str, option: &str, args: &mut Args) -> Found {
    let Some(opt) = args.take(&[option]) else { return Ok(vec![]) };
    let value = opt.value()?;
    let (first, last) = value.split_once(':').unwrap_or((value, value));
    let range = (number(first)?, number(last)?);
    one(format!("{protocol} spi {}{}", opt.op(), interval(range)))
}

/// Several ports of the rule's protocol.
pub fn multiport(rule: &Rule<'_>, args: &mut Args) -> Found {
    let protocol = rule.with_ports()?;
    let set = |opt: &Opt| -> Result<String, String> {
        let all: Result<Vec<String>, String> =
            opt.value()?.split(',').map(|ports| Ok(interval(range(ports)?))).collect();
        Ok(format!("{{ {} }}", all?.join(", ")))
    };
    let mut conds = Vec::new();
    for (names, field) in
        [(["--sports", "--source-ports"], "sport"), (["--dports", "--destination-ports"], "dport")]
    {
        if let Some(opt) = args.take(&names) {
            conds.push(Cond::If(format!("{protocol} {field} {}{}", opt.op(), set(&opt)?)));
        }
    }
    if let Some(opt) = args.take(&["--ports"]) {
        let set = set(&opt)?;
        conds.push(match opt.not {
            true => Cond::If(format!("{protocol} sport != {set} {protocol} dport != {set}")),
            false => Cond::Either(vec![
                format!("{protocol} sport {set}"),
                format!("{protocol} sport != {set} {protocol} dport {set}"),
            ]),
        });
    }
    Ok(conds)
}

/// Addresses from one to another.
pub fn iprange(rule: &Rule<'_>, args: &mut Args) -> Found {
    let mut conds = Vec::new();
    for (name, field) in [("--src-range", "saddr"), ("--dst-range", "daddr")] {
        if let Some(opt) = args.take(&[name]) {
            let value = opt.value()?;
            let text = match value.split_once('-') {
                Some((first, last)) if first == last => first,
                _ => value,
            };
            conds.push(Cond::If(format!("{} {field} {}{text}", rule.ip(), opt.op())));
        }
    }
    Ok(conds)
}

/// TTL or hop limit.
pub fn ttl(field: &str, name: &str, args: &mut Args) -> Found {
    let mut conds = Vec::new();
    for (suffix, op, inverse) in [("eq", "", "!= "), ("gt", "> ", "<= "), ("lt", "< ", ">= ")] {
        if let Some(opt) = args.take(&[&format!("--{name}-{suffix}"), &format!("--{name}")]) {
            let op = if opt.not { inverse } else { op };
            conds.push(Cond::If(format!("{field} {op}{}", opt.number()?)));
        }
    }
    Ok(conds)
}

/// The byte of class and ECN bits, under a mask.
pub fn tos(rule: &Rule<'_>, args: &mut Args) -> Found {
    let Some(opt) = args.take(&["--tos"]) else { return Ok(vec![]) };
    let (value, mask) = masked(opt.value()?)?;
    let part = |field: &str, all: u32, value: u32, mask: u32, is: bool| {
        let (ip, op) = (rule.ip(), if is { "==" } else { "!=" });
        match mask & all {
            mask if mask == all => format!("{ip} {field} {op} {value}"),
            mask => format!("{ip} {field} & {mask:#x} {op} {value:#x}"),
        }
    };
    let dscp = |is| part("dscp", 0x3f, value >> 2, mask >> 2, is);
    let ecn = |is| part("ecn", 3, value & 3, mask & 3, is);
    // nft shifts these bits in the order of the machine (1.1.3): it compares others.
    if rule.place.family == Family::Ip6 && ![0, 0xfc].contains(&(mask & 0xfc)) {
        return Err("nft has no equal for a part of the class of IPv6 packets".to_owned());
    }
    if value & !mask & 0xff != 0 {
        return Err("no class has bits outside of the mask".to_owned());
    }
    Ok(match (mask & 0xfc != 0, mask & 3 != 0, opt.not) {
        (true, true, false) => vec![Cond::If(dscp(true)), Cond::If(ecn(true))],
        (true, true, true) => {
            vec![Cond::Either(vec![dscp(false), format!("{} {}", dscp(true), ecn(false))])]
        }
        (true, false, not) => vec![Cond::If(dscp(!not))],
        (false, true, not) => vec![Cond::If(ecn(!not))],
        (false, false, false) => vec![],
        (false, false, true) => return Err("it matches nothing".to_owned()),
    })
}

/// The six bits of a class, by their number or name (RFC 2474, RFC 2597, RFC 3246).
pub fn dscp(rule: &Rule<'_>, args: &mut Args) -> Found {
    let Some(opt) = args.take(&["--dscp", "--dscp-class"]) else { return Ok(vec![]) };
    let value = match opt.name == "--dscp-class" {
        true => opt.value()?.to_ascii_lowercase(),
        false => opt.number()?.to_string(),
    };
    let value = if value == "be" { "cs0".to_owned() } else { value };
    one(format!("{} dscp {}{value}", rule.ip(), opt.op()))
}

/// The maximum segment size in the options of a TCP segment.
pub fn tcpmss(args: &mut Args) -> Found {
    let Some(opt) = args.take(&["--mss"]) else { return Ok(vec![]) };
    // Without the option the kernel's match says what it says of a size that does not fit.
    match opt.not {
        true => Err("`! --mss` matches segments without the option, too".to_owned()),
        false => one(format!("tcp option maxseg size {}", interval(range(opt.value()?)?))),
    }
}
