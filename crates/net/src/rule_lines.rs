// SPDX-License-Identifier: Apache-2.0

//! Lines of ip-rule(8).

use crate::config::Config;
use crate::lines::{self, Words, unknown};
use crate::route_lines::{realms, table, tos};
use crate::{Action, Rule, TABLE_MAIN};

type Done = Result<(), String>;

fn ports(word: &str) -> Result<(u16, u16), String> {
    let invalid = || format!("\"{word}\" is not a port or range of ports");
    let (low, high) = word.split_once('-').unwrap_or((word, word));
    let (Some(low), Some(high)) = (lines::number::<u16>(low), lines::number::<u16>(high)) else {
        return Err(invalid());
    };
    if low == 0 || low > high { Err(invalid()) } else { Ok((low, high)) }
}

pub(crate) fn line(config: &mut Config, w: &mut Words<'_>, delete: bool, v6: Option<bool>) -> Done {
    let mut r = Rule::all(0, Action::Lookup(TABLE_MAIN));
    let mut priority = None;
    let mut action = None;
    let mut from = None;
    let mut to = None;
    while let Some(word) = w.next() {
        match word {
            "not" => r.invert = true,
            "from" => from = Some(w.value()?),
            "to" => to = Some(w.value()?),
            "pref" | "preference" | "priority" | "order" => priority = Some(w.number()?),
            "tos" | "dsfield" => r.tos = tos(w.value()?)?,
            "fwmark" => {
                let text = w.value()?;
                let (mark, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
                let invalid = || format!("\"{text}\" is not a mark");
                r.mark = (
                    lines::number(mark).ok_or_else(invalid)?,
                    lines::number(mask).ok_or_else(invalid)?,
                );
            }
            "iif" | "dev" => r.iif = Some(w.value()?.to_owned()),
            "oif" => r.oif = Some(w.value()?.to_owned()),
            "ipproto" => {
                r.protocol = Some(match w.value()? {
                    "tcp" => 6,
                    "udp" => 17,
                    "icmp" => 1,
                    "ipv6-icmp" | "icmpv6" => 58,
                    "sctp" => 132,
                    "dccp" => 33,
                    "gre" => 47,
                    "esp" => 50,
                    "ah" => 51,
                    "udplite" => 136,
                    n => lines::number(n).ok_or_else(|| format!("\"{n}\" is not a protocol"))?,
                })
            }
            "sport" => r.sport = Some(ports(w.value()?)?),
            "dport" => r.dport = Some(ports(w.value()?)?),
            "table" | "lookup" => action = Some(Action::Lookup(table(w.value()?)?)),
            "suppress_prefixlength" | "sup_pl" => r.suppress_prefix_length = Some(w.number()?),
            "suppress_ifgroup" | "sup_group" => r.suppress_group = Some(w.number()?),
            "realms" | "realm" => r.realm = realms(w.value()?)?,
            "goto" => action = Some(Action::Goto(w.number()?)),
            "nop" => action = Some(Action::Nop),
            "unreachable" => action = Some(Action::Unreachable),
            "blackhole" => action = Some(Action::Blackhole),
            "prohibit" => action = Some(Action::Prohibit),
            "type" => {
                action = Some(match w.value()? {
                    "unicast" => continue,
                    "unreachable" => Action::Unreachable,
                    "blackhole" => Action::Blackhole,
                    "prohibit" => Action::Prohibit,
                    other => return Err(format!("\"{other}\" is not a rule type")),
                })
            }
            "protocol" | "proto" => {
                w.value()?;
            }
            "l3mdev" | "uidrange" | "tun_id" | "nat" | "map-to" => {
                return Err(format!("\"{word}\" is not supported yet"));
            }
            other => return Err(unknown(other)),
        }
    }
    let mut is6 = v6;
    for (text, place) in [(from, 0), (to, 1)] {
        let Some(text) = text else { continue };
        let (prefix, len, its) = lines::prefix(text, is6.unwrap_or(false))
            .ok_or_else(|| format!("\"{text}\" is not a prefix"))?;
        let neutral = matches!(text, "default" | "any" | "all");
        if !neutral {
            if is6.is_some_and(|s| s != its) {
                return Err(format!("\"{text}\" is of the other family"));
            }
            is6 = Some(its);
        }
        let prefix = crate::config::masked(prefix, len, its);
        if place == 0 {
            r.from = (prefix, len);
        } else {
            r.to = (prefix, len);
        }
    }
    let is6 = is6.unwrap_or(false);
    if delete {
        let table = match action {
            Some(Action::Lookup(t)) => Some(t),
            None => None,
            Some(_) => return Err("rules are deleted by priority, and table where given".into()),
        };
        let priority = priority.ok_or("\"rule delete\" needs a priority")?;
        return config.delete_rule(priority, table, is6);
    }
    r.action = action.unwrap_or(Action::Lookup(TABLE_MAIN));
    config.add_rule(r, priority, is6)
}
