// SPDX-License-Identifier: Apache-2.0

//! Matches of what is known of packets (`xt_mark.c`, `xt_addrtype.c`, `xt_owner.c`,
//! `xt_statistic.c`, `xt_rpfilter.c`, `ip_set`).

use super::{Found, one};
use crate::args::{Args, interval, masked, number, range};
use crate::context::{Cond, Rule};

/// The length from the network header on.
pub fn length(args: &mut Args) -> Found {
    let Some(opt) = args.take(&["--length"]) else { return Ok(vec![]) };
    one(format!("meta length {}{}", opt.op(), interval(range(opt.value()?)?)))
}

/// A mark under a mask.
pub fn mark(args: &mut Args, key: &str) -> Found {
    let Some(opt) = args.take(&["--mark"]) else { return Ok(vec![]) };
    let (value, mask) = masked(opt.value()?)?;
    let op = if opt.not { "!=" } else { "==" };
    match mask {
        u32::MAX => one(format!("{key} {}{value:#x}", opt.op())),
        mask => one(format!("{key} & {mask:#x} {op} {value:#x}")),
    }
}

/// The sender's link address.
pub fn mac(args: &mut Args) -> Found {
    let Some(opt) = args.take(&["--mac-source"]) else { return Ok(vec![]) };
    one(format!("ether saddr {}{}", opt.op(), opt.value()?.to_ascii_lowercase()))
}

/// Whom the link header is for.
pub fn pkttype(args: &mut Args) -> Found {
    let Some(opt) = args.take(&["--pkt-type"]) else { return Ok(vec![]) };
    match opt.value()? {
        "unicast" => one(format!("meta pkttype {}host", opt.op())),
        kind @ ("broadcast" | "multicast") => one(format!("meta pkttype {}{kind}", opt.op())),
        other => Err(format!("`{other}` is no type of packets here")),
    }
}

/// What the host's routes say of addresses.
pub fn addrtype(rule: &Rule<'_>, args: &mut Args) -> Found {
    let device = match (args.flag("--limit-iface-in"), args.flag("--limit-iface-out")) {
        (true, true) => return Err("both devices limit it".to_owned()),
        (true, false) => " . iif",
        (false, true) => " . oif",
        (false, false) => "",
    };
    if rule.ip() == "ip6" {
        return Err("types of IPv6 addresses are other ones in nft".to_owned());
    }
    let mut conds = Vec::new();
    for (name, field) in [("--src-type", "saddr"), ("--dst-type", "daddr")] {
        let Some(opt) = args.take(&[name]) else { continue };
        let types = opt.value()?.to_ascii_lowercase();
        let known = [
            "unspec",
            "unicast",
            "local",
            "broadcast",
            "anycast",
            "multicast",
            "blackhole",
            "unreachable",
            "prohibit",
        ];
        if let Some(other) = types.split(',').find(|t| !known.contains(t)) {
            return Err(format!("`{other}` is no type here"));
        }
        let types = match types.contains(',') {
            true => format!("{{ {} }}", types.replace(',', ", ")),
            false => types,
        };
        conds.push(Cond::If(format!("fib {field}{device} type {}{types}", opt.op())));
    }
    Ok(conds)
}

/// Who sends a packet.
pub fn owner(args: &mut Args) -> Found {
    let mut conds = Vec::new();
    for (name, key) in [("--uid-owner", "skuid"), ("--gid-owner", "skgid")] {
        let Some(opt) = args.take(&[name]) else { continue };
        if opt.not {
            return Err(format!("`! {name}` matches packets without a sender, too"));
        }
        conds.push(Cond::If(format!("meta {key} {}", opt.value()?)));
    }
    Ok(conds)
}

/// Whether the way back to a source leads through the device of a packet.
pub fn rpfilter(args: &mut Args) -> Found {
    let device = if args.flag("--loose") { "" } else { " . iif" };
    let mark = if args.flag("--validmark") { " . mark" } else { "" };
    let is = if args.flag("--invert") { "missing" } else { "exists" };
    one(format!("fib saddr{mark}{device} oif {is}"))
}

/// Groups of devices.
pub fn devgroup(args: &mut Args) -> Found {
    let mut conds = Vec::new();
    for (name, key) in [("--src-group", "iifgroup"), ("--dst-group", "oifgroup")] {
        let Some(opt) = args.take(&[name]) else { continue };
        let (value, mask) = masked(opt.value()?)?;
        let op = if opt.not { "!=" } else { "==" };
        conds.push(Cond::If(match mask {
            u32::MAX => format!("meta {key} {}{value}", opt.op()),
            mask => format!("meta {key} & {mask:#x} {op} {value:#x}"),
        }));
    }
    Ok(conds)
}

/// The realm of the route.
pub fn realm(args: &mut Args) -> Found {
    let Some(opt) = args.take(&["--realm"]) else { return Ok(vec![]) };
    let (value, mask) = masked(opt.value()?)?;
    let op = if opt.not { "!=" } else { "==" };
    one(match mask {
        u32::MAX => format!("meta rtclassid {}{value:#x}", opt.op()),
        mask => format!("meta rtclassid & {mask:#x} {op} {value:#x}"),
    })
}

/// The processor.
pub fn cpu(args: &mut Args) -> Found {
    let Some(opt) = args.take(&["--cpu"]) else { return Ok(vec![]) };
    one(format!("meta cpu {}{}", opt.op(), opt.number()?))
}

/// Every n-th packet, or some by chance.
pub fn statistic(args: &mut Args) -> Found {
    /// What chances are of.
    const WHOLE: u32 = 0x8000_0000;
    match args.value(&["--mode"])?.as_deref() {
        Some("nth") => {
            let every = args.take(&["--every"]).ok_or("it needs --every")?;
            let packet = args.value(&["--packet"])?.map_or(Ok(0), |text| number(&text))?;
            let count = every.number()?;
            if count == 0 || packet >= count {
                return Err("there is no such packet".to_owned());
            }
            Ok(vec![Cond::Remembers(format!("numgen inc mod {count} {}{packet}", every.op()))])
        }
        Some("random") => {
            let opt = args.take(&["--probability"]).ok_or("it needs --probability")?;
            let chance: f64 = opt.value()?.parse().map_err(|_| "this is no probability")?;
            if !(0.0..=1.0).contains(&chance) {
                return Err("a probability is from 0 to 1".to_owned());
            }
            let limit = (chance * f64::from(WHOLE)).round() as u32;
            match (limit, opt.not) {
                (WHOLE, false) | (0, true) => Ok(vec![]),
                (WHOLE, true) | (0, false) => Err("it matches nothing".to_owned()),
                (limit, not) => {
                    let op = if not { ">=" } else { "<" };
                    one(format!("numgen random mod {WHOLE} {op} {limit}"))
                }
            }
        }
        _ => Err("it needs --mode".to_owned()),
    }
}

/// Whether a set of ipset has fields of the packet.
pub fn set(rule: &mut Rule<'_>, args: &mut Args) -> Found {
    let opt = args.take(&["--match-set", "--set"]).ok_or("it needs --match-set")?;
    args.flag("--return-nomatch");
    let [name, fields] = &opt.values[..] else {
        return Err("--match-set has a name and fields".to_owned());
    };
    let used = rule.place.sets.used(name, fields, rule.place.family)?;
    rule.sets.insert(used.name.clone(), used.declaration);
    one(format!("{}{} {}@{}", used.before, used.key, opt.op(), used.name))
}
