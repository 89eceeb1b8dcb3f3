// SPDX-License-Identifier: Apache-2.0

//! Listings of the dataplane as JSON: made here from the lines, so that who asks for lines costs it
//! nothing more.

use serde_json::{Map, Value, json};

/// A word as a number, if it is one.
fn value(word: &str) -> Value {
    word.parse::<u64>().map_or_else(|_| word.into(), Value::from)
}

/// Lines of `conntrack -L`.
pub fn connections(lines: &str) -> Value {
    let all: Vec<Value> = lines.lines().filter_map(connection).collect();
    json!({ "connections": all })
}

fn connection(line: &str) -> Option<Value> {
    /// What is said of each direction.
    const OF_DIRECTION: [&str; 13] = [
        "src",
        "dst",
        "sport",
        "dport",
        "type",
        "code",
        "id",
        "srckey",
        "dstkey",
        "packets",
        "bytes",
        "zone-orig",
        "zone-reply",
    ];
    let mut words = line.split_whitespace();
    let mut all = Map::new();
    all.insert("protocol".into(), words.next()?.into());
    all.insert("protocol_number".into(), value(words.next()?));
    all.insert("timeout".into(), value(words.next()?));
    let (mut directions, mut flags) = (Vec::<Map<String, Value>>::new(), Vec::new());
    for word in words {
        match word.split_once('=') {
            Some((key, of)) => {
                if key == "src" {
                    directions.push(Map::new());
                }
                let of_direction = directions.last_mut().filter(|_| OF_DIRECTION.contains(&key));
                of_direction.unwrap_or(&mut all).insert(key.replace('-', "_"), value(of));
            }
            None => match word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
                Some(flag) => flags.push(Value::from(flag)),
                None => drop(all.insert("state".into(), word.into())),
            },
        }
    }
    let mut directions = directions.into_iter().map(Value::from);
    all.insert("original".into(), directions.next()?);
    all.insert("reply".into(), directions.next()?);
    all.insert("flags".into(), flags.into());
    Some(all.into())
}

/// Lines of flows, of connections that are none, and sums.
pub fn flows(lines: &str) -> Value {
    let (mut all, mut refusals) = (Vec::<Map<String, Value>>::new(), Map::new());
    for line in lines.lines() {
        match line.strip_prefix("    ") {
            None => match line
                .strip_prefix("not offloaded ")
                .and_then(|rest| rest.split_once(" times: "))
            {
                Some((times, reason)) => drop(refusals.insert(reason.into(), value(times))),
                None => all.extend(flow(line)),
            },
            Some(more) => {
                if let Some(flow) = all.last_mut() {
                    of_flow(more, flow);
                }
            }
        }
    }
    json!({ "flows": all, "not_offloaded": refusals })
}

/// `inet t f: tcp 198.18.0.2:4 > 198.18.1.2:5, leaves as 198.18.1.1:4 > 198.18.1.2:5`
fn flow(line: &str) -> Option<Map<String, Value>> {
    let (place, rest) = line.split_once(": ")?;
    let mut place = place.split(' ');
    let (family, table, flowtable) = (place.next()?, place.next()?, place.next()?);
    let (protocol, ends) = rest.split_once(' ')?;
    let (ends, leaves) = match ends.split_once(", leaves as ") {
        Some((ends, leaves)) => (ends, Some(leaves)),
        None => (ends, None),
    };
    let pair = |ends: &str| {
        let (source, destination) = ends.split_once(" > ")?;
        Some(json!({ "source": source, "destination": destination }))
    };
    let mut flow = Map::new();
    for (key, value) in
        [("family", family), ("table", table), ("flowtable", flowtable), ("protocol", protocol)]
    {
        flow.insert(key.into(), value.into());
    }
    flow.insert("original".into(), pair(ends)?);
    flow.insert("leaves_as".into(), leaves.and_then(pair).unwrap_or_default());
    Some(flow)
}

/// `r0 vlan 7 -> r1 via 198.18.1.2 mtu 1500: 12 packets 1080 bytes, …`,
/// `age 3.080 s, idle 0.047 s, in software, closing`, `not offloaded: …`
fn of_flow(line: &str, flow: &mut Map<String, Value>) {
    let seconds = |text: &str| text.strip_suffix(" s").and_then(|text| text.parse::<f64>().ok());
    if let Some(reason) = line.strip_prefix("not offloaded: ") {
        flow.insert("not_offloaded".into(), reason.into());
    } else if let Some(rest) = line.strip_prefix("age ") {
        for (at, part) in rest.split(", ").enumerate() {
            match part {
                "in hardware" => drop(flow.insert("by".into(), "device".into())),
                "in software" => drop(flow.insert("by".into(), "flowtable".into())),
                "closing" => drop(flow.insert("closing".into(), true.into())),
                _ if at == 0 => drop(flow.insert("age".into(), seconds(part).into())),
                _ => drop(
                    flow.insert("idle".into(), part.strip_prefix("idle ").and_then(seconds).into()),
                ),
            }
        }
    } else if let Some((ends, counts)) = line.split_once(": ")
        && let Some((from, to)) = ends.split_once(" -> ")
    {
        let mut counts = counts.split(' ');
        let mut number = || counts.by_ref().next().map_or(Value::Null, value);
        let packets = number();
        let _ = number();
        let bytes = number();
        let (to, mtu) =
            to.rsplit_once(" mtu ").map_or((to, Value::Null), |(to, mtu)| (to, value(mtu)));
        let (to, via) = to.split_once(" via ").map_or((to, None), |(to, via)| (to, Some(via)));
        let way = json!({ "from": from, "to": to, "via": via, "mtu": mtu, "packets": packets, "bytes": bytes });
        if let Value::Array(ways) = flow.entry("ways").or_insert_with(|| json!([])) {
            ways.push(way);
        }
    }
}

/// The table of rules and stages.
pub fn stages(lines: &str) -> Value {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let ticks: u64 = words.next()?.parse().ok()?;
        let times: u64 = words.nth(1)?.parse().ok()?;
        let _each = words.next()?;
        Some(json!({ "name": words.collect::<Vec<_>>().join(" "), "times": times, "ticks": ticks }))
    };
    json!({ "stages": lines.lines().filter_map(line).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_both_directions_and_the_rest() {
        let lines = "tcp      6 431998 ESTABLISHED src=198.18.0.2 dst=198.18.1.2 sport=4 dport=5 packets=7 bytes=8 \
                     src=198.18.1.2 dst=198.18.1.1 sport=5 dport=4 packets=1 bytes=2 [ASSURED] mark=7 zone=3 use=1\n\
                     udp      17 30 src=2001:db8::1 dst=2001:db8::2 sport=9 dport=53 [UNREPLIED] src=2001:db8::2 \
                     dst=2001:db8::1 sport=53 dport=9 mark=0 use=1\n";
        assert_eq!(
            connections(lines),
            json!({ "connections": [
                { "protocol": "tcp", "protocol_number": 6, "timeout": 431998, "state": "ESTABLISHED", "mark": 7,
                  "zone": 3, "use": 1, "flags": ["ASSURED"],
                  "original": { "src": "198.18.0.2", "dst": "198.18.1.2", "sport": 4, "dport": 5, "packets": 7, "bytes": 8 },
                  "reply": { "src": "198.18.1.2", "dst": "198.18.1.1", "sport": 5, "dport": 4, "packets": 1, "bytes": 2 } },
                { "protocol": "udp", "protocol_number": 17, "timeout": 30, "mark": 0, "use": 1, "flags": ["UNREPLIED"],
                  "original": { "src": "2001:db8::1", "dst": "2001:db8::2", "sport": 9, "dport": 53 },
                  "reply": { "src": "2001:db8::2", "dst": "2001:db8::1", "sport": 53, "dport": 9 } },
            ] })
        );
        assert_eq!(connections(""), json!({ "connections": [] }));
    }

    #[test]
    fn a_flow_has_both_ways_or_the_reason_why_it_is_none() {
        let lines = "inet t f: tcp 198.18.0.2:4 > 198.18.1.2:5, leaves as 198.18.1.1:4 > 198.18.1.2:5\n    \
                     r0 -> r1 vlan 7 via 198.18.1.2 mtu 1500: 12 packets 1080 bytes, 3.9 packets/s 2788 bit/s\n    \
                     r1 vlan 7 -> r0 mtu 1400: 1 packets 2 bytes, 3.9 packets/s 2424 bit/s\n    \
                     age 3.080 s, idle 0.047 s, in hardware, closing\n\
                     ip u g: udp [2001:db8::1]:9 > [2001:db8::2]:53\n    not offloaded: no route\n\
                     2 flows added, 0 expired, 0 torn down, 0 ended with their connection; 4 packets, 0 of them in chains, 0 fell back\n\
                     devices took flows 2 times, and refused them 0 times\n\
                     not offloaded 4 times: TCP not established\n";
        assert_eq!(
            flows(lines),
            json!({ "flows": [
                { "family": "inet", "table": "t", "flowtable": "f", "protocol": "tcp",
                  "original": { "source": "198.18.0.2:4", "destination": "198.18.1.2:5" },
                  "leaves_as": { "source": "198.18.1.1:4", "destination": "198.18.1.2:5" },
                  "ways": [
                      { "from": "r0", "to": "r1 vlan 7", "via": "198.18.1.2", "mtu": 1500, "packets": 12, "bytes": 1080 },
                      { "from": "r1 vlan 7", "to": "r0", "via": null, "mtu": 1400, "packets": 1, "bytes": 2 },
                  ],
                  "age": 3.08, "idle": 0.047, "by": "device", "closing": true },
                { "family": "ip", "table": "u", "flowtable": "g", "protocol": "udp",
                  "original": { "source": "[2001:db8::1]:9", "destination": "[2001:db8::2]:53" },
                  "leaves_as": null, "not_offloaded": "no route" },
            ], "not_offloaded": { "TCP not established": 4 } })
        );
    }

    #[test]
    fn stages_have_names_times_and_ticks() {
        let lines = "         ticks  share        times      each  rule or stage\n       \
                     300  75.0%            1       300  connection tracking\n       \
                     100  25.0%            4        25  inet t forward handle 4\n";
        assert_eq!(
            stages(lines),
            json!({ "stages": [
                { "name": "connection tracking", "times": 1, "ticks": 300 },
                { "name": "inet t forward handle 4", "times": 4, "ticks": 100 },
            ] })
        );
    }
}
