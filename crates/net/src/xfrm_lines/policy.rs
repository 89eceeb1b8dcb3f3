// SPDX-License-Identifier: Apache-2.0

//! `xfrm policy` (`ip/xfrm_policy.c` of iproute2).

use penstock_xfrm::{Action, Direction, Level, Limits, Mark, Mode, Policy, Template};

use super::{
    Done, Id, SelectorWords, command, limit, mark, mode, not_yet, number, unknown, unspecified,
};
use crate::config::Config;
use crate::lines::{self, Words};

pub(super) fn line(config: &mut Config, w: &mut Words<'_>, v6: Option<bool>) -> Done {
    let known = ["add", "update", "delete", "flush", "setdefault"];
    let others =
        ["deleteall", "delall", "get", "getdefault", "list", "show", "lst", "count", "set"];
    match command(w, "policy", &known, &others)? {
        "add" => change(config, w, v6, Command::Add),
        "update" => change(config, w, v6, Command::Update),
        "delete" => change(config, w, v6, Command::Delete),
        "flush" => match w.next() {
            None => {
                config.xfrm.flush_policies();
                Ok(())
            }
            Some(word) => Err(not_yet(&format!("xfrm policy flush {word}"))),
        },
        _ => set_default(config, w),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Command {
    Add,
    Update,
    Delete,
}

fn direction(text: &str) -> Result<Direction, String> {
    match text {
        "in" => Ok(Direction::In),
        "out" => Ok(Direction::Out),
        "fwd" => Ok(Direction::Forward),
        other => Err(format!("\"{other}\" is not a direction")),
    }
}

/// `in ACTION`, `fwd ACTION`, `out ACTION`, one at least.
fn set_default(config: &mut Config, w: &mut Words<'_>) -> Done {
    if w.peek().is_none() {
        return Err("\"xfrm policy setdefault\" needs a direction".into());
    }
    while let Some(word) = w.next() {
        let direction = direction(word)?;
        let action = match w.value()? {
            "accept" => Action::Allow,
            "block" => Action::Block,
            other => return Err(format!("\"{other}\" is neither \"accept\" nor \"block\"")),
        };
        config.xfrm.set_default(direction, action);
    }
    Ok(())
}

/// What follows `tmpl` (`xfrm_tmpl_parse()`).
fn template(w: &mut Words<'_>, v6: bool) -> Result<Template, String> {
    let mut id = Id::default();
    let (mut found_mode, mut reqid, mut level) = (Mode::Transport, 0, Level::Required);
    loop {
        if id.take(w)? {
            continue;
        }
        match w.peek() {
            Some("mode") => {
                w.next();
                found_mode = mode(w)?;
            }
            Some("reqid") => {
                w.next();
                reqid = number(w, "reqid")?;
            }
            Some("level") => {
                w.next();
                level = match w.value()? {
                    "required" => Level::Required,
                    "use" => Level::Use,
                    other => return Err(format!("\"{other}\" is not a level")),
                };
            }
            _ => break,
        }
    }
    if !id.esp {
        return Err("\"tmpl\" needs \"proto esp\"".into());
    }
    let v6 = id.v6().unwrap_or(v6);
    let source = id.source.unwrap_or(unspecified(v6));
    let destination = id.destination.unwrap_or(unspecified(v6));
    let spi = id.spi.unwrap_or(0);
    Ok(Template { source, destination, spi, mode: found_mode, reqid, level })
}

fn change(config: &mut Config, w: &mut Words<'_>, v6: Option<bool>, command: Command) -> Done {
    let mut selector = SelectorWords::default();
    let (mut found, mut action, mut priority) = (None, Action::Allow, 0);
    let (mut wanted, mut limits) = (Mark::default(), Limits::default());
    let mut templates = Vec::new();
    while let Some(word) = w.peek() {
        if templates.is_empty() && selector.take(config, w, v6)? {
            continue;
        }
        w.next();
        match word {
            "dir" => found = Some(direction(w.value()?)?),
            "mark" => wanted = mark(w, word)?,
            "action" => {
                action = match w.value()? {
                    "allow" => Action::Allow,
                    "block" => Action::Block,
                    other => return Err(format!("\"{other}\" is neither \"allow\" nor \"block\"")),
                }
            }
            "priority" => priority = number(w, word)?,
            "limit" => limit(w, &mut limits)?,
            "tmpl" => {
                let v6 = selector.selector.v6.or(v6).unwrap_or(false);
                templates.push(template(w, v6)?);
            }
            "ptype" => match w.value()? {
                "main" => {}
                other => return Err(not_yet(&format!("ptype {other}"))),
            },
            "if_id" => {
                let text = w.value()?;
                if lines::number::<u32>(text) != Some(0) {
                    return Err("\"if_id\" is not supported: there are no xfrm interfaces".into());
                }
            }
            "flag" => match w.value()? {
                // Sockets may have policies of their own; there are none here.
                "localok" => {}
                other => return Err(not_yet(&format!("flag {other}"))),
            },
            "index" | "ctx" | "offload" => return Err(not_yet(word)),
            other => return Err(unknown(other)),
        }
    }
    selector.check()?;
    let mut selector = selector.selector;
    if selector.v6.is_none() {
        // Without an address the templates tell, as ip(8) has it.
        let of_templates = templates.first().map(|t: &Template| t.destination.is_ipv6());
        selector.v6 = Some(v6.or(of_templates).unwrap_or(false));
    }
    let direction = found.ok_or("\"xfrm policy\" needs \"dir\"")?;
    if command == Command::Delete {
        return config.xfrm.delete_policy(direction, &selector, wanted);
    }
    let policy = Policy { selector, direction, action, priority, mark: wanted, limits, templates };
    config.xfrm.add_policy(policy, command == Command::Update)
}
