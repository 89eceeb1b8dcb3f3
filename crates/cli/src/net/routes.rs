// SPDX-License-Identifier: Apache-2.0

//! Lines of routes, rules and neighbours.

use std::fmt::Write;

use super::said::{Object, Said, has_word, number, objects, text};

/// Lines that add the routes that the kernel has not made for addresses.
pub fn routes(said: &Said, out: &mut String) {
    for (routes, begin) in [(&said.routes4, ""), (&said.routes6, "-6 ")] {
        for route in routes.iter().filter(|route| is_added(route)) {
            let mut line = format!("{begin}route add");
            if let Some(kind) = text(route, "type").filter(|kind| *kind != "unicast") {
                line += &format!(" {kind}");
            }
            line += &format!(" {}", text(route, "dst").unwrap_or("default"));
            if objects(route, "nexthops").next().is_none() {
                next_hop(route, &mut line);
            }
            for (member, word) in [("prefsrc", "src"), ("metric", "metric"), ("tos", "tos")] {
                member_words(route, member, word, &mut line);
            }
            if let Some(table) = text(route, "table").filter(|table| *table != "main") {
                line += &format!(" table {table}");
            }
            for metrics in objects(route, "metrics") {
                for word in ["mtu", "advmss", "hoplimit"] {
                    member_words(metrics, word, word, &mut line);
                }
            }
            for hop in objects(route, "nexthops") {
                line += " nexthop";
                next_hop(hop, &mut line);
            }
            let _ = writeln!(out, "{line}");
        }
    }
}

/// Whether someone added the route.
fn is_added(route: &Object) -> bool {
    let by_kernel = text(route, "protocol") == Some("kernel");
    let kind = text(route, "type").unwrap_or("unicast");
    // IPv6 lists what it refuses on `lo`.
    let is_lo = text(route, "dev") == Some("lo");
    !by_kernel && !is_lo && !matches!(kind, "local" | "broadcast" | "anycast" | "multicast")
}

/// Gateway and device of a way out.
fn next_hop(hop: &Object, line: &mut String) {
    if let Some(gateway) = text(hop, "gateway") {
        *line += &format!(" via {gateway}");
    }
    if let Some(via) = hop.get("via").and_then(|via| via.as_object())
        && let (Some(family), Some(host)) = (text(via, "family"), text(via, "host"))
    {
        *line += &format!(" via {family} {host}");
    }
    // Refusals of IPv6 are listed with `lo`, and need none.
    member_words(hop, "dev", "dev", line);
    member_words(hop, "weight", "weight", line);
    if has_word(hop, "flags", "onlink") {
        *line += " onlink";
    }
}

/// A member that is text or a number, if it is there.
fn member_words(object: &Object, member: &str, word: &str, line: &mut String) {
    if let Some(text) = text(object, member) {
        *line += &format!(" {word} {text}");
    } else if let Some(number) = number(object, member) {
        *line += &format!(" {word} {number}");
    }
}

/// Lines that add the rules that are not there from the beginning.
pub fn rules(said: &Said, out: &mut String) {
    for (rules, begin) in [(&said.rules4, ""), (&said.rules6, "-6 ")] {
        for rule in rules {
            let priority = number(rule, "priority").unwrap_or_default();
            let table = text(rule, "table");
            if is_standard(rule, priority, table) {
                continue;
            }
            let mut line = format!("{begin}rule add pref {priority}");
            if rule.contains_key("not") {
                line += " not";
            }
            for (member, len, word) in [("src", "srclen", "from"), ("dst", "dstlen", "to")] {
                let Some(address) = text(rule, member).filter(|text| *text != "all") else {
                    continue;
                };
                line += &format!(" {word} {address}");
                if let Some(len) = number(rule, len) {
                    line += &format!("/{len}");
                }
            }
            member_words(rule, "tos", "tos", &mut line);
            if let Some(mark) = text(rule, "fwmark") {
                line += &format!(" fwmark {mark}");
                if let Some(mask) = text(rule, "fwmask") {
                    line += &format!("/{mask}");
                }
            }
            for word in ["iif", "oif", "ipproto"] {
                member_words(rule, word, word, &mut line);
            }
            for (member, first, last) in
                [("sport", "sport_start", "sport_end"), ("dport", "dport_start", "dport_end")]
            {
                member_words(rule, member, member, &mut line);
                if let Some((first, last)) = number(rule, first).zip(number(rule, last)) {
                    line += &format!(" {member} {first}-{last}");
                }
            }
            match (text(rule, "action"), number(rule, "goto")) {
                (_, Some(priority)) => line += &format!(" goto {priority}"),
                (Some(action), None) => line += &format!(" {action}"),
                (None, None) => line += &format!(" lookup {}", table.unwrap_or("main")),
            }
            member_words(rule, "suppress_prefixlen", "suppress_prefixlength", &mut line);
            let _ = writeln!(out, "{line}");
        }
    }
}

/// Whether the kernel has made the rule. Without `-d`, ip(8) does not say so.
fn is_standard(rule: &Object, priority: u64, table: Option<&str>) -> bool {
    let plain = text(rule, "src") == Some("all") && rule.len() == 3;
    let known = [(0, "local"), (32766, "main"), (32767, "default")];
    text(rule, "protocol") == Some("kernel")
        || plain && known.iter().any(|(p, t)| *p == priority && Some(*t) == table)
}

/// Lines that add the neighbours with a link address.
pub fn neighbours(said: &Said, out: &mut String) {
    for neighbour in &said.neighbours {
        let unusable = ["FAILED", "INCOMPLETE", "NOARP"];
        if unusable.iter().any(|state| has_word(neighbour, "state", state)) {
            continue;
        }
        if let (Some(address), Some(link), Some(device)) =
            (text(neighbour, "dst"), text(neighbour, "lladdr"), text(neighbour, "dev"))
        {
            let _ = writeln!(out, "neigh add {address} lladdr {link} dev {device} nud permanent");
        }
    }
}
