// SPDX-License-Identifier: Apache-2.0

//! Matches of connections (`xt_conntrack.c`, `xt_state.c`, `xt_helper.c`).

use super::{Found, one};
use crate::args::{Args, Opt, interval, number, range};
use crate::context::{Cond, Rule};
use crate::protocol::protocol;
use crate::words::quoted;

/// States of packets, and those of the translation of connections.
fn states(text: &str) -> Result<(Vec<String>, Vec<String>), String> {
    let (mut states, mut translations) = (Vec::new(), Vec::new());
    for word in text.split(',') {
        let word = word.to_ascii_lowercase();
        match &*word {
            "new" | "established" | "related" | "invalid" | "untracked" => states.push(word),
            "snat" | "dnat" => translations.push(word),
            _ => return Err(format!("`{word}` is no state")),
        }
    }
    Ok((states, translations))
}

/// Names as one value with several bits.
fn bits(names: &[String]) -> String {
    format!("({})", names.join(" | "))
}

/// The state of a packet.
pub fn state(args: &mut Args, names: &[&str]) -> Result<Option<Cond>, String> {
    let Some(opt) = args.take(names) else { return Ok(None) };
    let (states, translations) = states(opt.value()?)?;
    let state = |op: &str| match op {
        // As people write it.
        "!=" => format!("ct state {}", states.join(",")),
        _ => format!("ct state & {} == 0", bits(&states)),
    };
    let status = |op: &str| format!("ct status & {} {op} 0", bits(&translations));
    Ok(Some(match (opt.not, states.is_empty(), translations.is_empty()) {
        (false, _, true) => Cond::If(state("!=")),
        (true, _, true) => Cond::If(state("==")),
        (false, true, false) => Cond::If(status("!=")),
        (false, false, false) => {
            Cond::Either(vec![state("!="), format!("{} {}", state("=="), status("!="))])
        }
        // Without a connection there is no status to compare.
        (true, is_empty, false) => {
            let begin = if is_empty { String::new() } else { state("==") + " " };
            Cond::Either(vec![
                format!("{begin}ct state invalid,untracked"),
                format!("{begin}ct state & (invalid | untracked) == 0 {}", status("==")),
            ])
        }
    }))
}

/// A connection's state, direction, addresses, ports, status and remaining time.
pub fn conntrack(rule: &Rule<'_>, args: &mut Args) -> Found {
    let ip = rule.ip();
    let mut conds: Vec<Cond> = Vec::new();
    let state = args.0.iter().find(|opt| opt.name == "--ctstate");
    let lacks_connection = state.is_some_and(|opt| {
        opt.not || opt.values.iter().any(|v| v.contains("INVALID") || v.contains("UNTRACKED"))
    });
    if lacks_connection && args.0.len() > 1 {
        return Err("it matches packets without a connection by their state alone".to_owned());
    }
    conds.extend(self::state(args, &["--ctstate"])?);
    if let Some(opt) = args.take(&["--ctdir"]) {
        let direction = opt.plain()?.to_ascii_lowercase();
        conds.push(Cond::If(format!("ct direction {direction}")));
    }
    if let Some(opt) = args.take(&["--ctproto"]) {
        let name = protocol(opt.value()?);
        conds.push(Cond::If(format!("ct original protocol {}{name}", opt.op())));
    }
    for (name, direction, field) in [
        ("--ctorigsrc", "original", "saddr"),
        ("--ctorigdst", "original", "daddr"),
        ("--ctreplsrc", "reply", "saddr"),
        ("--ctrepldst", "reply", "daddr"),
    ] {
        if let Some(opt) = args.take(&[name]) {
            conds.push(Cond::If(format!(
                "ct {direction} {ip} {field} {}{}",
                opt.op(),
                opt.value()?
            )));
        }
    }
    for (name, direction, field) in [
        ("--ctorigsrcport", "original", "proto-src"),
        ("--ctorigdstport", "original", "proto-dst"),
        ("--ctreplsrcport", "reply", "proto-src"),
        ("--ctrepldstport", "reply", "proto-dst"),
    ] {
        if let Some(opt) = args.take(&[name]) {
            let ports = interval(range(opt.value()?)?);
            conds.push(Cond::If(format!("ct {direction} {field} {}{ports}", opt.op())));
        }
    }
    if let Some(opt) = args.take(&["--ctstatus"]) {
        conds.push(status(&opt)?);
    }
    if let Some(opt) = args.take(&["--ctexpire"]) {
        conds.push(expire(&opt)?);
    }
    Ok(conds)
}

fn status(opt: &Opt) -> Result<Cond, String> {
    let mut names = Vec::new();
    for word in opt.value()?.split(',') {
        names.push(match word {
            "EXPECTED" | "ASSURED" | "CONFIRMED" => word.to_ascii_lowercase(),
            "SEEN_REPLY" => "seen-reply".to_owned(),
            "NONE" => return Err("no connection has this status".to_owned()),
            _ => return Err(format!("`{word}` is no status")),
        });
    }
    let op = if opt.not { "==" } else { "!=" };
    Ok(Cond::If(format!("ct status & {} {op} 0", bits(&names))))
}

/// Remaining time, which iptables compares in whole seconds.
fn expire(opt: &Opt) -> Result<Cond, String> {
    let value = opt.value()?;
    let (first, last) = value.split_once(':').unwrap_or((value, value));
    let (first, last) = (number(first)?, number(last)?);
    // Milliseconds in 32 bits.
    let most = u32::MAX / 1000 - 1;
    if first > last || first > most {
        return Err("there is no such time".to_owned());
    }
    Ok(Cond::If(match (last > most, opt.not) {
        (true, false) => format!("ct expiration >= {first}s"),
        (true, true) => format!("ct expiration < {first}s"),
        (false, _) => format!("ct expiration {}{first}s-{last}s999ms", opt.op()),
    }))
}

/// The helper of a connection.
pub fn helper(args: &mut Args) -> Found {
    let opt = args.take(&["--helper"]).ok_or("it needs --helper")?;
    match opt.value()? {
        "" => Err("any helper has no equal".to_owned()),
        _ if opt.not => Err("`! --helper` matches connections without one, too".to_owned()),
        name => one(format!("ct helper {}", quoted(name))),
    }
}
