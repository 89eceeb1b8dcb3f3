// SPDX-License-Identifier: Apache-2.0

//! Targets that translate addresses (`xt_nat.c`, `xt_MASQUERADE.c`, `xt_REDIRECT.c`,
//! `xt_NETMAP.c`).

use crate::Family;
use crate::args::Args;
use crate::context::Rule;

/// Translates one of these targets.
pub fn translate(rule: &Rule<'_>, name: &str, args: &mut Args) -> Result<String, String> {
    let flags = flags(args);
    match name {
        "MASQUERADE" | "REDIRECT" => {
            let statement = name.to_ascii_lowercase();
            let ports = args.value(&["--to-ports"])?;
            Ok(match ports {
                Some(ports) => {
                    rule.with_ports()?;
                    format!("{statement} to :{ports}{flags}")
                }
                None => format!("{statement}{flags}"),
            })
        }
        "NETMAP" => {
            let net = args.value(&["--to"])?.ok_or("it needs --to")?;
            let (kind, field) = match is_source(rule)? {
                true => ("snat", "saddr"),
                false => ("dnat", "daddr"),
            };
            let ip = rule.ip();
            let all = if ip == "ip" { "0.0.0.0/0" } else { "::/0" };
            Ok(format!("{kind} {ip} prefix to {ip} {field} map {{ {all} : {net} }}"))
        }
        _ => {
            let (kind, option) = match name {
                "SNAT" => ("snat", "--to-source"),
                _ => ("dnat", "--to-destination"),
            };
            let to = args.value(&[option])?.ok_or_else(|| format!("it needs {option}"))?;
            Ok(format!("{kind} to {}{flags}", target(rule, &to)?))
        }
    }
}

/// Whether the chain is of a hook where sources are translated.
fn is_source(rule: &Rule<'_>) -> Result<bool, String> {
    match rule.chain {
        "POSTROUTING" | "INPUT" => Ok(true),
        "PREROUTING" | "OUTPUT" => Ok(false),
        _ => Err("in a chain of its own it depends on the hook".to_owned()),
    }
}

/// How ports and addresses are chosen.
fn flags(args: &mut Args) -> String {
    let mut flags = Vec::new();
    for (option, flag) in
        [("--random", "random"), ("--random-fully", "fully-random"), ("--persistent", "persistent")]
    {
        if args.flag(option) {
            flags.push(flag);
        }
    }
    if flags.is_empty() { String::new() } else { format!(" {}", flags.join(",")) }
}

/// `ADDRESS[-ADDRESS][:PORT[-PORT]]`, in brackets for IPv6 with ports; addresses may be missing.
fn target(rule: &Rule<'_>, text: &str) -> Result<String, String> {
    if text.contains('/') {
        return Err("ports that are shifted have no equal".to_owned());
    }
    let (addresses, ports) = match (rule.place.family, text.rsplit_once("]:")) {
        (Family::Ip6, Some((addresses, ports))) => {
            (addresses.trim_start_matches('[').replace(['[', ']'], ""), Some(ports))
        }
        (Family::Ip6, None) => match text.strip_prefix(':') {
            Some(ports) if !text.starts_with("::") => (String::new(), Some(ports)),
            _ => (text.replace(['[', ']'], ""), None),
        },
        (Family::Ip4, _) => match text.split_once(':') {
            Some((addresses, ports)) => (addresses.to_owned(), Some(ports)),
            None => (text.to_owned(), None),
        },
    };
    let addresses = match addresses.split_once('-') {
        Some((first, last)) if first == last => first.to_owned(),
        _ => addresses,
    };
    if ports.is_some() {
        rule.with_ports()?;
    }
    Ok(match (rule.place.family, ports, addresses.is_empty()) {
        (_, None, _) => addresses,
        (_, Some(ports), true) => format!(":{ports}"),
        (Family::Ip4, Some(ports), false) => format!("{addresses}:{ports}"),
        (Family::Ip6, Some(ports), false) => match addresses.split_once('-') {
            Some((first, last)) => format!("[{first}]-[{last}]:{ports}"),
            None => format!("[{addresses}]:{ports}"),
        },
    })
}
