// SPDX-License-Identifier: Apache-2.0

//! What most packets and bytes are of: rules with counters, named counters, flows.

use penstock_conntrack::Tuple;
use penstock_daemon::View;
use penstock_lang::datatype::Format;
use penstock_lang::listing::Listing;
use penstock_program::expr::Expr;
use penstock_ruleset::model::ObjectValue;
use penstock_system::SystemNames;
use serde_json::{Value, json};

/// Gives rules with a counter, as `nft list` has them but for the counter's numbers, one after the
/// other until it is told `false`.
pub fn rules(view: &View<'_>, to: &mut dyn FnMut(Value) -> bool) {
    let names = SystemNames::default();
    let format = Format { stateless: true, ..Format::default() };
    let listing = Listing { generation: view.generation, format, names: &names, now: view.now };
    for table in &view.generation.tables {
        for chain in &table.chains {
            for rule in &chain.rules {
                let counter = |expr| match expr {
                    Expr::Counter(counter) => Some(counter),
                    _ => None,
                };
                let Some(counter) = rule.snapshot(view.now).into_iter().find_map(counter) else {
                    continue;
                };
                let go_on = to(json!({
                    "family": table.family.name(),
                    "table": &*table.name,
                    "chain": &*chain.name,
                    "handle": rule.handle,
                    "rule": listing.rule(table, rule),
                    "packets": counter.packets,
                    "bytes": counter.bytes,
                }));
                if !go_on {
                    return;
                }
            }
        }
    }
}

/// Gives named counters, one after the other until it is told `false`.
pub fn counters(view: &View<'_>, to: &mut dyn FnMut(Value) -> bool) {
    for table in &view.generation.tables {
        for object in &table.objects {
            if let ObjectValue::Counter(counter) = object.snapshot(view.now) {
                let go_on = to(json!({
                    "family": table.family.name(),
                    "table": &*table.name,
                    "name": &*object.name,
                    "packets": counter.packets,
                    "bytes": counter.bytes,
                }));
                if !go_on {
                    return;
                }
            }
        }
    }
}

/// Flows and connections with the most bytes.
pub fn flows(view: &View<'_>) -> Vec<Value> {
    let flow = |talker: &penstock_daemon::Talker| {
        let (protocol, source, destination) = ends(&talker.tuple);
        json!({
            "protocol": protocol,
            "source": source,
            "destination": destination,
            "by": talker.by,
            "packets": talker.packets,
            "bytes": talker.bytes,
        })
    };
    view.talkers.iter().map(flow).collect()
}

/// Protocol, and both ends with their ports.
fn ends(tuple: &Tuple) -> (String, String, String) {
    use penstock_wire::protocol::{DCCP, ICMP, ICMPV6, SCTP, TCP, UDP, UDPLITE};
    let names = [
        (TCP, "tcp"),
        (UDP, "udp"),
        (UDPLITE, "udplite"),
        (SCTP, "sctp"),
        (DCCP, "dccp"),
        (ICMP, "icmp"),
        (ICMPV6, "ipv6-icmp"),
    ];
    let known = names.iter().find(|(number, _)| *number == tuple.protocol);
    let protocol = known.map_or_else(|| tuple.protocol.to_string(), |(_, name)| (*name).to_owned());
    let has_ports = matches!(tuple.protocol, TCP | UDP | UDPLITE | SCTP | DCCP);
    let end = |address: std::net::IpAddr, port: u16| match address {
        _ if !has_ports => address.to_string(),
        address => std::net::SocketAddr::new(address, port).to_string(),
    };
    (protocol, end(tuple.source(), tuple.src_id), end(tuple.destination(), tuple.dst_id))
}
