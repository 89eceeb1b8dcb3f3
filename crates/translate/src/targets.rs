// SPDX-License-Identifier: Apache-2.0

//! Targets of iptables as statements of nft, but for those that translate addresses.

use crate::Family;
use crate::args::{Args, masked, number};
use crate::context::Rule;
use crate::nat;
use crate::words::quoted;

/// Statements, or why there are none.
type Found = Result<Vec<String>, String>;

fn one(text: impl Into<String>) -> Found {
    Ok(vec![text.into()])
}

/// Translates a target, or a jump to a chain. Options that it does not know stay in `args`.
pub fn translate(rule: &mut Rule<'_>, name: &str, args: &mut Args) -> Found {
    match name {
        "ACCEPT" => one("accept"),
        "DROP" => one("drop"),
        "RETURN" => one("return"),
        "REJECT" => reject(rule, args),
        "LOG" => log(args),
        "NFLOG" => nflog(args),
        "MARK" => mark(args),
        "CONNMARK" => connmark(args),
        "CONNSECMARK" | "SECMARK" => Err("there is no translation of it".to_owned()),
        "CLASSIFY" => classify(args),
        "TCPMSS" => tcpmss(rule, args),
        "TOS" => tos(rule, args),
        "DSCP" => dscp(rule, args),
        "TTL" => hop_count("ip ttl", "--ttl-set", args),
        "HL" => hop_count("ip6 hoplimit", "--hl-set", args),
        "NFQUEUE" => nfqueue(args),
        "QUEUE" => one("queue to 0"),
        "NOTRACK" => one("notrack"),
        "CT" => ct(args),
        "TRACE" => one("meta nftrace set 1"),
        "TEE" => match args.value(&["--gateway"])? {
            Some(gateway) => one(format!("dup to {gateway}")),
            None => Err("it needs --gateway".to_owned()),
        },
        "SNAT" | "DNAT" | "MASQUERADE" | "REDIRECT" | "NETMAP" => {
            nat::translate(rule, name, args).map(|text| vec![text])
        }
        "SET" => {
            Err("sets that rules change are shared by tables with ipset, not with nft".to_owned())
        }
        _ if rule.place.chains.contains_key(name) => {
            one(format!("jump {}", rule.chain_name(name)?))
        }
        _ => Err("there is no such chain, and no translation of such a target".to_owned()),
    }
}

fn reject(rule: &Rule<'_>, args: &mut Args) -> Found {
    let with = args.value(&["--reject-with"])?;
    let (protocol, kinds): (_, &[(&str, &str)]) = match rule.place.family {
        Family::Ip4 => (
            "icmp",
            &[
                ("icmp-net-unreachable", "net-unreachable"),
                ("icmp-host-unreachable", "host-unreachable"),
                ("icmp-proto-unreachable", "prot-unreachable"),
                ("icmp-port-unreachable", "port-unreachable"),
                ("icmp-net-prohibited", "net-prohibited"),
                ("icmp-host-prohibited", "host-prohibited"),
                ("icmp-admin-prohibited", "admin-prohibited"),
            ],
        ),
        Family::Ip6 => (
            "icmpv6",
            &[
                ("icmp6-no-route", "no-route"),
                ("no-route", "no-route"),
                ("icmp6-adm-prohibited", "admin-prohibited"),
                ("adm-prohibited", "admin-prohibited"),
                ("icmp6-addr-unreachable", "addr-unreachable"),
                ("addr-unreach", "addr-unreachable"),
                ("icmp6-port-unreachable", "port-unreachable"),
                ("icmp6-policy-fail", "policy-fail"),
                ("icmp6-reject-route", "reject-route"),
            ],
        ),
    };
    match with.as_deref() {
        None => one(format!("reject with {protocol} port-unreachable")),
        Some("tcp-reset") => one("reject with tcp reset"),
        Some(kind) => match kinds.iter().find(|(known, _)| *known == kind) {
            Some((_, kind)) => one(format!("reject with {protocol} {kind}")),
            None => Err(format!("`{kind}` is no answer")),
        },
    }
}

fn log(args: &mut Args) -> Found {
    let mut text = String::from("log");
    if let Some(prefix) = args.value(&["--log-prefix"])? {
        text += &format!(" prefix {}", quoted(&prefix));
    }
    if let Some(level) = args.value(&["--log-level"])? {
        const LEVELS: [&str; 8] =
            ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];
        let level = match level.parse::<usize>() {
            Ok(number) => LEVELS.get(number).copied(),
            Err(_) => LEVELS.iter().find(|known| level.starts_with(*known)).copied(),
        };
        text += &format!(" level {}", level.ok_or("there is no such level")?);
    }
    let tcp = [("--log-tcp-sequence", "sequence"), ("--log-tcp-options", "options")];
    let tcp: Vec<&str> = tcp.iter().filter(|(o, _)| args.flag(o)).map(|(_, flag)| *flag).collect();
    if !tcp.is_empty() {
        text += &format!(" flags tcp {}", tcp.join(","));
    }
    for (option, flag) in
        [("--log-ip-options", "ip options"), ("--log-uid", "skuid"), ("--log-macdecode", "ether")]
    {
        if args.flag(option) {
            text += &format!(" flags {flag}");
        }
    }
    one(text)
}

fn nflog(args: &mut Args) -> Found {
    let group = args.value(&["--nflog-group"])?.map_or(Ok(0), |text| number(&text))?;
    let mut text = String::from("log");
    if let Some(prefix) = args.value(&["--nflog-prefix"])? {
        text += &format!(" prefix {}", quoted(&prefix));
    }
    text += &format!(" group {group}");
    if let Some(size) = args.value(&["--nflog-size"])? {
        text += &format!(" snaplen {}", number(&size)?);
    }
    if let Some(count) = args.value(&["--nflog-threshold"])? {
        text += &format!(" queue-threshold {}", number(&count)?);
    }
    // It has no effect without a size (iptables-extensions(8)).
    args.value(&["--nflog-range"])?;
    one(text)
}

/// `key set` to what remains of `key` without the bits of a mask, with those of a value inverted.
fn set_bits(key: &str, value: u32, mask: u32) -> String {
    match (value, mask) {
        (value, u32::MAX) => format!("{key} set {value:#x}"),
        (0, mask) => format!("{key} set {key} & {:#x}", !mask),
        (value, mask) if value == mask => format!("{key} set {key} | {value:#x}"),
        (value, 0) => format!("{key} set {key} ^ {value:#x}"),
        (value, mask) => format!("{key} set {key} & {:#x} ^ {value:#x}", !mask),
    }
}

/// Options that set a mark, as a value and the bits that it replaces.
fn mark_options(args: &mut Args) -> Result<Option<(u32, u32)>, String> {
    let Some(opt) =
        args.take(&["--set-xmark", "--set-mark", "--and-mark", "--or-mark", "--xor-mark"])
    else {
        return Ok(None);
    };
    let (value, mask) = masked(opt.plain()?)?;
    Ok(Some(match &*opt.name {
        "--set-xmark" => (value, mask),
        // Of the bits of the value, those outside of the mask are set, too.
        "--set-mark" => (value, value | mask),
        "--and-mark" => (0, !value),
        "--or-mark" => (value, value),
        _ => (value, 0),
    }))
}

fn mark(args: &mut Args) -> Found {
    let (value, mask) = mark_options(args)?.ok_or("it has no mark")?;
    one(set_bits("meta mark", value, mask))
}

fn connmark(args: &mut Args) -> Found {
    if let Some((value, mask)) = mark_options(args)? {
        return one(set_bits("ct mark", value, mask));
    }
    let (save, restore) = (args.flag("--save-mark"), args.flag("--restore-mark"));
    let (from, to, from_option, to_option) = match (save, restore) {
        (true, false) => ("meta mark", "ct mark", "--nfmask", "--ctmask"),
        (false, true) => ("ct mark", "meta mark", "--ctmask", "--nfmask"),
        _ => return Err("it neither saves nor restores a mark".to_owned()),
    };
    let both = args.value(&["--mask"])?;
    let mut mask = |option: &str| match args.value(&[option])?.or_else(|| both.clone()) {
        Some(text) => number(&text),
        None => Ok(u32::MAX),
    };
    // to = (to & ~to_mask) ^ (from & from_mask)
    match (mask(from_option)?, mask(to_option)?) {
        (u32::MAX, u32::MAX) => one(format!("{to} set {from}")),
        (from_mask, u32::MAX) => one(format!("{to} set {from} & {from_mask:#x}")),
        (from_mask, to_mask) if from_mask & !to_mask == 0 => {
            one(format!("{to} set {to} & {:#x} | {from} & {from_mask:#x}", !to_mask))
        }
        _ => Err("these masks have no equal".to_owned()),
    }
}

fn classify(args: &mut Args) -> Found {
    let class = args.value(&["--set-class"])?.ok_or("it needs --set-class")?;
    let (major, minor) = class.split_once(':').ok_or("a class is MAJOR:MINOR")?;
    let hex = |text: &str| u16::from_str_radix(text, 16).map_err(|_| "a class has two numbers");
    one(format!("meta priority set {:x}:{:x}", hex(major)?, hex(minor)?))
}

fn tcpmss(rule: &Rule<'_>, args: &mut Args) -> Found {
    // Before the bare segment of a SYN there is no option to change.
    if rule.protocol.as_deref() != Some("tcp") {
        return Err("it needs -p tcp".to_owned());
    }
    if args.flag("--clamp-mss-to-pmtu") {
        return one("tcp option maxseg size set rt mtu");
    }
    let size = args.value(&["--set-mss"])?.ok_or("it has no size")?;
    one(format!("tcp option maxseg size set {}", number(&size)?))
}

fn tos(rule: &Rule<'_>, args: &mut Args) -> Found {
    let (option, text) = match args.value(&["--set-tos"])? {
        Some(text) => ("--set-tos", text),
        None => return Err("it has no class".to_owned()),
    };
    let (value, mask) = match text.split_once('/') {
        Some((value, mask)) => (number(value)?, number(mask)?),
        None => (number(&text)?, 0xff),
    };
    let ip = rule.ip();
    let dscp = format!("{ip} dscp set {}", value >> 2 & 0x3f);
    match mask & 0xff {
        0xff => Ok(vec![dscp, format!("{ip} ecn set {}", value & 3)]),
        0xfc => one(dscp),
        mask => Err(format!("`{option}` under the mask {mask:#x} has no equal")),
    }
}

fn dscp(rule: &Rule<'_>, args: &mut Args) -> Found {
    let value = match args.value(&["--set-dscp"])? {
        Some(value) => number(&value)?.to_string(),
        None => {
            let name = args.value(&["--set-dscp-class"])?.ok_or("it has no class")?;
            name.to_ascii_lowercase().replace("be", "cs0")
        }
    };
    one(format!("{} dscp set {value}", rule.ip()))
}

fn hop_count(field: &str, option: &str, args: &mut Args) -> Found {
    match args.value(&[option])? {
        Some(value) => one(format!("{field} set {}", number(&value)?)),
        None => Err("it counts up or down".to_owned()),
    }
}

fn nfqueue(args: &mut Args) -> Found {
    let mut flags = Vec::new();
    if args.flag("--queue-bypass") {
        flags.push("bypass");
    }
    if args.flag("--queue-cpu-fanout") {
        flags.push("fanout");
    }
    let queues = match args.value(&["--queue-balance"])? {
        Some(range) => range.replace(':', "-"),
        None => args.value(&["--queue-num"])?.unwrap_or_else(|| "0".to_owned()),
    };
    let flags = match flags.is_empty() {
        true => String::new(),
        false => format!("flags {} ", flags.join(",")),
    };
    one(format!("queue {flags}to {queues}"))
}

fn ct(args: &mut Args) -> Found {
    if args.flag("--notrack") {
        return one("notrack");
    }
    for (option, statement) in [
        ("--zone", "ct zone set"),
        ("--zone-orig", "ct original zone set"),
        ("--zone-reply", "ct reply zone set"),
    ] {
        if let Some(zone) = args.value(&[option])? {
            return one(format!("{statement} {}", number(&zone)?));
        }
    }
    Err("helpers, events and timeouts are objects in nft".to_owned())
}
