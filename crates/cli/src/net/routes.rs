// SPDX-License-Identifier: Apache-2.0

//! Lines of routes, rules and neighbours.

use std::fmt::Write;

use super::said::{Line, Object, Said, has_word, number, objects, text};

/// Lines that add the routes that the kernel has not made for addresses.
pub fn routes(said: &Said, out: &mut String) {
    for (routes, begin) in [(&said.routes4, ""), (&said.routes6, "-6 ")] {
        for route in routes.iter().filter(|route| is_added(route)) {
            let mut line = Line(format!("{begin}route add"));
            if let Some(kind) = text(route, "type").filter(|kind| *kind != "unicast") {
                line.0 += &format!(" {kind}");
            }
            line.0 += &format!(" {}", text(route, "dst").unwrap_or("default"));
            if objects(route, "nexthops").next().is_none() {
                next_hop(route, &mut line);
            }
            for (member, word) in [("prefsrc", "src"), ("metric", "metric"), ("tos", "tos")] {
                line.member(route, member, word);
            }
            if let Some(table) = text(route, "table").filter(|table| *table != "main") {
                line.0 += &format!(" table {table}");
            }
            for metrics in objects(route, "metrics") {
                for word in ["mtu", "advmss", "hoplimit"] {
                    line.member(metrics, word, word);
                }
            }
            for hop in objects(route, "nexthops") {
                line.0 += " nexthop";
                next_hop(hop, &mut line);
            }
            let _ = writeln!(out, "{}", line.0);
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
fn next_hop(hop: &Object, line: &mut Line) {
    if let Some(gateway) = text(hop, "gateway") {
        line.0 += &format!(" via {gateway}");
    }
    if let Some(via) = hop.get("via").and_then(|via| via.as_object())
        && let (Some(family), Some(host)) = (text(via, "family"), text(via, "host"))
    {
        line.0 += &format!(" via {family} {host}");
    }
    // Refusals of IPv6 are listed with `lo`, and need none.
    line.member(hop, "dev", "dev");
    line.member(hop, "weight", "weight");
    if has_word(hop, "flags", "onlink") {
        line.0 += " onlink";
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
            let mut line = Line(format!("{begin}rule add pref {priority}"));
            if rule.contains_key("not") {
                line.0 += " not";
            }
            for (member, len, word) in [("src", "srclen", "from"), ("dst", "dstlen", "to")] {
                let Some(address) = text(rule, member).filter(|text| *text != "all") else {
                    continue;
                };
                line.0 += &format!(" {word} {address}");
                if let Some(len) = number(rule, len) {
                    line.0 += &format!("/{len}");
                }
            }
            line.member(rule, "tos", "tos");
            if let Some(mark) = text(rule, "fwmark") {
                line.0 += &format!(" fwmark {mark}");
                if let Some(mask) = text(rule, "fwmask") {
                    line.0 += &format!("/{mask}");
                }
            }
            for word in ["iif", "oif", "ipproto"] {
                line.member(rule, word, word);
            }
            for (member, first, last) in
                [("sport", "sport_start", "sport_end"), ("dport", "dport_start", "dport_end")]
            {
                line.member(rule, member, member);
                if let Some((first, last)) = number(rule, first).zip(number(rule, last)) {
                    line.0 += &format!(" {member} {first}-{last}");
                }
            }
            match (text(rule, "action"), number(rule, "goto")) {
                (_, Some(priority)) => line.0 += &format!(" goto {priority}"),
                (Some(action), None) => line.0 += &format!(" {action}"),
                (None, None) => line.0 += &format!(" lookup {}", table.unwrap_or("main")),
            }
            line.member(rule, "suppress_prefixlen", "suppress_prefixlength");
            let _ = writeln!(out, "{}", line.0);
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
