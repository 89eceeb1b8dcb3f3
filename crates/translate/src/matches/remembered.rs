// SPDX-License-Identifier: Apache-2.0

//! Matches that remember packets (`xt_limit.c`, `xt_hashlimit.c`, `xt_connlimit.c`, `xt_quota.c`).

use super::Found;
use crate::args::{Args, number};
use crate::context::{Cond, Rule};
use crate::words::name_of;

/// The unit of a rate in the words of nft, and its seconds.
fn rate(text: &str) -> Result<(u32, &'static str, u32), String> {
    let (count, unit) = text.split_once('/').unwrap_or((text, "second"));
    let unit = match unit.chars().next() {
        Some('s') => ("second", 1),
        Some('m') => ("minute", 60),
        Some('h') => ("hour", 3600),
        Some('d') => ("day", 86_400),
        _ => return Err(format!("`{text}` is no rate of packets")),
    };
    Ok((number(count)?, unit.0, unit.1))
}

fn burst(args: &mut Args, name: &str) -> Result<u32, String> {
    args.value(&[name])?.map_or(Ok(5), |text| number(&text))
}

/// A rate for all packets.
pub fn limit(args: &mut Args) -> Found {
    let opt = args.take(&["--limit"]);
    let value = opt.as_ref().map_or(Ok("3/hour"), |opt| opt.plain())?;
    let (count, unit, _) = rate(value)?;
    let burst = burst(args, "--limit-burst")?;
    Ok(vec![Cond::Remembers(format!("limit rate {count}/{unit} burst {burst} packets"))])
}

/// A rate for each value of some fields, which a set keeps.
pub fn hashlimit(rule: &mut Rule<'_>, args: &mut Args) -> Found {
    let (opt, over) = match args.take(&["--hashlimit-upto", "--hashlimit"]) {
        Some(opt) => (opt, ""),
        None => (args.take(&["--hashlimit-above"]).ok_or("it has no rate")?, "over "),
    };
    let over = match (opt.not, over) {
        (false, over) => over,
        (true, "") => "over ",
        (true, _) => "",
    };
    let (count, unit, seconds) = rate(opt.value()?)?;
    let burst = burst(args, "--hashlimit-burst")?;
    let name = args.value(&["--hashlimit-name"])?.ok_or("it needs --hashlimit-name")?;
    if rule.place.shared.contains(&name) {
        return Err(format!("several rules share what `{name}` remembers"));
    }
    let limit = format!("limit rate {over}{count}/{unit} burst {burst} packets");
    let mut size = 65_535;
    let mut expire = u64::from(seconds) * 1000;
    for (option, at) in [("--hashlimit-htable-max", true), ("--hashlimit-htable-expire", false)] {
        if let Some(text) = args.value(&[option])? {
            match at {
                true => size = number(&text)?.max(1),
                false => expire = number(&text)?.into(),
            }
        }
    }
    for ignored in ["--hashlimit-htable-size", "--hashlimit-htable-gcinterval"] {
        args.value(&[ignored])?;
    }
    let masks = ["--hashlimit-srcmask", "--hashlimit-dstmask"];
    let [source, destination] = masks.map(|mask| args.value(&[mask]));
    let (source, destination) = (source?, destination?);
    let mode = args.value(&["--hashlimit-mode"])?;
    let Some(mode) = mode else {
        return Ok(vec![Cond::Remembers(limit)]);
    };
    let (mut keys, mut types) = (Vec::new(), Vec::new());
    for field in mode.split(',') {
        let ip = rule.ip();
        let address = format!("{}_addr", if ip == "ip" { "ipv4" } else { "ipv6" });
        let (key, kind) = match field {
            "srcip" => (masked(ip, "saddr", source.as_deref())?, address),
            "dstip" => (masked(ip, "daddr", destination.as_deref())?, address),
            "srcport" => (format!("{} sport", rule.with_ports()?), "inet_service".to_owned()),
            "dstport" => (format!("{} dport", rule.with_ports()?), "inet_service".to_owned()),
            _ => return Err(format!("`{field}` is no mode")),
        };
        keys.push(key);
        types.push(kind);
    }
    let set = format!("hashlimit-{}", name_of(&name));
    let kind = types.join(" . ");
    rule.sets.insert(
        set.clone(),
        format!(
            "\tset {set} {{\n\t\ttype {kind}\n\t\tsize {size}\n\t\tflags dynamic,timeout\n\
             \t\ttimeout {expire}ms\n\t}}\n"
        ),
    );
    let key = keys.join(" . ");
    Ok(vec![Cond::Remembers(format!("update @{set} {{ {key} {limit} }}"))])
}

/// An address under the mask of a length.
fn masked(ip: &str, field: &str, len: Option<&str>) -> Result<String, String> {
    let width = if ip == "ip" { 32 } else { 128 };
    let len = len.map_or(Ok(width), number)?;
    let mask = match (len, width) {
        (len, width) if len == width => return Ok(format!("{ip} {field}")),
        (len, 32) if len < 32 => {
            std::net::Ipv4Addr::from(u32::MAX.checked_shl(32 - len).unwrap_or(0)).to_string()
        }
        (len, _) if len < 128 => {
            std::net::Ipv6Addr::from(u128::MAX.checked_shl(128 - len).unwrap_or(0)).to_string()
        }
        _ => return Err("there is no such mask".to_owned()),
    };
    Ok(format!("{ip} {field} & {mask}"))
}

/// How many connections an address has.
pub fn connlimit(rule: &mut Rule<'_>, args: &mut Args) -> Found {
    let (opt, over) = match args.take(&["--connlimit-above"]) {
        Some(opt) => (opt, "over "),
        None => (args.take(&["--connlimit-upto"]).ok_or("it has no limit")?, ""),
    };
    let over = match (opt.not, over) {
        (false, over) => over,
        (true, "") => "over ",
        (true, _) => "",
    };
    let count = opt.number()?;
    let field = if args.flag("--connlimit-daddr") { "daddr" } else { "saddr" };
    args.flag("--connlimit-saddr");
    let mask = args.value(&["--connlimit-mask"])?;
    let ip = rule.ip();
    let key = masked(ip, field, mask.as_deref())?;
    let kind = if ip == "ip" { "ipv4_addr" } else { "ipv6_addr" };
    // Each rule counts by itself.
    let set = format!("connlimit-{}", rule.number);
    rule.sets.insert(
        set.clone(),
        format!("\tset {set} {{\n\t\ttype {kind}\n\t\tsize 65535\n\t\tflags dynamic\n\t}}\n"),
    );
    Ok(vec![Cond::Remembers(format!("add @{set} {{ {key} ct count {over}{count} }}"))])
}

/// Bytes until a number is reached.
pub fn quota(args: &mut Args) -> Found {
    let opt = args.take(&["--quota"]).ok_or("it needs --quota")?;
    let over = if opt.not { "over " } else { "" };
    let bytes: u64 = opt.value()?.parse().map_err(|_| "this is no number of bytes")?;
    Ok(vec![Cond::Remembers(format!("quota {over}{bytes} bytes"))])
}
