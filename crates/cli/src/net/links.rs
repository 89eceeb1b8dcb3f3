// SPDX-License-Identifier: Apache-2.0

//! Lines of links, their addresses, and the VLANs of ports.

use std::fmt::Write;

use super::said::{Line, Object, Said, has_word, number, objects, text};

fn name(link: &Object) -> &str {
    text(link, "ifname").unwrap_or_default()
}

/// The kind of a link; empty for devices.
fn kind(link: &Object) -> &str {
    info(link).and_then(|info| text(info, "info_kind")).unwrap_or_default()
}

fn info(link: &Object) -> Option<&Object> {
    link.get("linkinfo")?.as_object()
}

fn data(link: &Object) -> Option<&Object> {
    info(link)?.get("info_data")?.as_object()
}

/// All links but `lo`, the lower ones first.
fn in_order(said: &Said) -> Vec<&Object> {
    let mut left: Vec<&Object> = said.links.iter().filter(|l| name(l) != "lo").collect();
    left.sort_by_key(|link| number(link, "ifindex"));
    let mut done: Vec<&Object> = Vec::new();
    while !left.is_empty() {
        let waits = |link: &Object| {
            let lower = text(link, "link").filter(|_| kind(link) == "vlan");
            lower.is_some_and(|lower| left.iter().any(|l| name(l) == lower))
        };
        // A circle cannot be, except in a text that nobody printed.
        let at = left.iter().position(|link| !waits(link)).unwrap_or(0);
        done.push(left.remove(at));
    }
    done
}

/// Lines that add links, put ports into bridges and bring links up.
pub fn links(said: &Said, out: &mut String) {
    let links = in_order(said);
    for link in &links {
        add(said, link, out);
    }
    let is_bridge =
        |master: &str| said.links.iter().any(|link| name(link) == master && kind(link) == "bridge");
    for link in &links {
        if let Some(master) = text(link, "master") {
            match is_bridge(master) {
                true => port(link, master, out),
                false => {
                    let _ = writeln!(
                        out,
                        "# {} is a part of {master}, which is no bridge.",
                        name(link)
                    );
                }
            }
        }
    }
    for link in links.iter().filter(|link| has_word(link, "flags", "UP")) {
        let _ = writeln!(out, "link set dev {} up", name(link));
    }
}

/// The line that adds a link.
fn add(said: &Said, link: &Object, out: &mut String) {
    let lower = text(link, "link").and_then(|lower| said.links.iter().find(|l| name(l) == lower));
    let own_address = lower.is_none_or(|lower| text(lower, "address") != text(link, "address"));
    let is_ethernet = text(link, "link_type") == Some("ether");
    let kind = kind(link);
    let mut line = Line(String::from("link add"));
    if kind == "vlan" {
        line.member(link, "link", "link");
    }
    line.word("name", name(link));
    line.member(link, "ifindex", "index");
    // The device that the module of a tunnel brings may have no address yet.
    let is_set = text(link, "address").is_some_and(|address| address != "00:00:00:00:00:00");
    if is_ethernet && own_address && is_set {
        line.member(link, "address", "address");
    }
    line.member(link, "mtu", "mtu");
    if let Some(group) = text(link, "group").filter(|group| *group != "default") {
        line.word("group", group);
    }
    let empty = Object::new();
    let data = data(link).unwrap_or(&empty);
    match kind {
        "vlan" => {
            line.word("type", "vlan");
            line.member(data, "protocol", "protocol");
            line.member(data, "id", "id");
            qos(data, "ingress_qos", "ingress-qos-map", &mut line);
            qos(data, "egress_qos", "egress-qos-map", &mut line);
        }
        "bridge" => bridge(link, data, &mut line, out),
        "ipip" | "sit" | "ip6tnl" if is_plain_tunnel(data) => tunnel(kind, data, &mut line),
        "" | "dummy" | "veth" | "ifb" | "virtio_net" => line.word("type", "dummy"),
        other => {
            let _ = writeln!(
                out,
                "# {} is a link of type {other}; here it is a plain wire.",
                name(link)
            );
            line.word("type", "dummy");
        }
    }
    let _ = writeln!(out, "{}", line.0);
}

/// Priorities of a VLAN device.
fn qos(data: &Object, member: &str, word: &str, line: &mut Line) {
    let pairs: Vec<String> = objects(data, member)
        .filter_map(|pair| Some(format!("{}:{}", number(pair, "from")?, number(pair, "to")?)))
        .collect();
    if !pairs.is_empty() {
        line.word(word, pairs.join(" "));
    }
}

fn bridge(link: &Object, data: &Object, line: &mut Line, out: &mut String) {
    if number(data, "stp_state").is_some_and(|state| state != 0) {
        let _ = writeln!(out, "# {} has a spanning tree, which is left out.", name(link));
    }
    line.word("type", "bridge");
    // A kernel without a setting refuses it, also if it is the default.
    for (member, default) in [
        ("ageing_time", "30000"),
        ("vlan_filtering", "0"),
        ("vlan_protocol", "802.1Q"),
        ("vlan_default_pvid", "1"),
        ("mcast_snooping", "1"),
        ("mcast_hash_max", "4096"),
        ("fdb_max_learned", "0"),
        ("nf_call_iptables", "0"),
        ("nf_call_ip6tables", "0"),
    ] {
        let value = data.get(member).map(|value| match value.as_str() {
            Some(text) => text.to_owned(),
            None => value.to_string(),
        });
        if let Some(value) = value.filter(|value| value != default) {
            line.word(member, value);
        }
    }
}

/// A tunnel without what the program refuses.
fn is_plain_tunnel(data: &Object) -> bool {
    let refused = ["encap", "external", "isatap", "6rd-prefix", "key", "ikey", "okey"];
    let on = |name: &str| {
        data.get(name).is_some_and(|v| v.as_bool() != Some(false) && v.as_str() != Some("none"))
    };
    // Without them it is the device that a module brings (tunl0, sit0, ip6tnl0).
    let has_ends = ["remote", "local"]
        .into_iter()
        .any(|end| text(data, end).is_some_and(|end| !["any", "0.0.0.0", "::"].contains(&end)));
    (has_ends || data.contains_key("link")) && !refused.into_iter().any(on)
}

fn tunnel(kind: &str, data: &Object, line: &mut Line) {
    line.word("type", kind);
    line.member(data, "proto", "mode");
    for (member, word) in [("remote", "remote"), ("local", "local"), ("link", "dev")] {
        line.member(data, member, word);
    }
    if number(data, "ttl").is_some_and(|ttl| ttl != 0) {
        line.member(data, "ttl", "ttl");
    }
    if number(data, "tos").is_some_and(|tos| tos != 0) || text(data, "tos").is_some() {
        line.member(data, "tos", "tos");
    }
    if data.get("pmtudisc").and_then(|v| v.as_bool()) == Some(false) {
        line.0.push_str(" nopmtudisc");
    }
}

/// A port of a bridge, with what is not the default.
fn port(link: &Object, master: &str, out: &mut String) {
    let _ = writeln!(out, "link set dev {} master {master}", name(link));
    let slave = info(link).and_then(|info| info.get("info_slave_data")?.as_object());
    let Some(slave) = slave else { return };
    let mut line = Line(format!("link set dev {} type bridge_slave", name(link)));
    let before = line.0.len();
    for (member, word, default) in [
        ("hairpin", "hairpin", false),
        ("isolated", "isolated", false),
        ("learning", "learning", true),
        ("locked", "locked", false),
        ("flood", "flood", true),
        ("mcast_flood", "mcast_flood", true),
        ("bcast_flood", "bcast_flood", true),
        ("fastleave", "fastleave", false),
    ] {
        if let Some(value) = slave.get(member).and_then(|v| v.as_bool()).filter(|v| *v != default) {
            line.word(word, if value { "on" } else { "off" });
        }
    }
    if line.0.len() > before {
        let _ = writeln!(out, "{}", line.0);
    }
}

/// Lines that add addresses. Link-local ones that the kernel makes come with the link.
pub fn addresses(said: &Said, out: &mut String) {
    for link in in_order(said) {
        for address in objects(link, "addr_info") {
            if text(address, "protocol") == Some("kernel_ll") || is_link_local(address) {
                continue;
            }
            let Some((local, len)) = text(address, "local").zip(number(address, "prefixlen"))
            else {
                continue;
            };
            let mut line = Line(String::from("addr add"));
            match text(address, "address") {
                Some(peer) => {
                    line.0.push_str(&format!(" {local} peer {peer}/{len}"));
                }
                None => line.0.push_str(&format!(" {local}/{len}")),
            }
            line.member(address, "broadcast", "broadcast");
            if let Some(scope) =
                text(address, "scope").filter(|_| text(address, "family") == Some("inet"))
                && scope != "global"
            {
                line.word("scope", scope);
            }
            line.member(address, "metric", "metric");
            line.word("dev", name(link));
            if address.get("noprefixroute").is_some_and(|v| v.as_bool() == Some(true)) {
                line.0.push_str(" noprefixroute");
            }
            if number(address, "preferred_life_time") == Some(0) {
                line.word("preferred_lft", 0);
            }
            let _ = writeln!(out, "{}", line.0);
        }
    }
}

/// Older versions of ip(8) do not say who made an address.
fn is_link_local(address: &Object) -> bool {
    text(address, "local").is_some_and(|local| local.starts_with("fe80:"))
}

/// Lines for the VLANs of ports that a bridge filters by.
pub fn vlans(said: &Said, out: &mut String) {
    let filters = |bridge: &str| {
        said.links.iter().any(|link| {
            name(link) == bridge
                && data(link).and_then(|data| number(data, "vlan_filtering")) == Some(1)
        })
    };
    for port in &said.vlans {
        let name = text(port, "ifname").unwrap_or_default();
        let link = said.links.iter().find(|link| self::name(link) == name);
        let master = link.and_then(|link| text(link, "master"));
        // A bridge lists its own VLANs under its name.
        let own = master.is_none();
        if !filters(master.unwrap_or(name)) {
            continue;
        }
        for vlan in objects(port, "vlans") {
            let Some(id) = number(vlan, "vlan") else { continue };
            let ids = match number(vlan, "vlanEnd") {
                Some(end) => format!("{id}-{end}"),
                None => id.to_string(),
            };
            let mut line = Line(format!("bridge vlan add vid {ids} dev {name}"));
            if has_word(vlan, "flags", "PVID") {
                line.0.push_str(" pvid");
            }
            if has_word(vlan, "flags", "Egress Untagged") {
                line.0.push_str(" untagged");
            }
            if own {
                line.0.push_str(" self");
            }
            let _ = writeln!(out, "{}", line.0);
        }
    }
}
