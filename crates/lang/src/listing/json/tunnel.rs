// SPDX-License-Identifier: Apache-2.0

//! Tunnel objects to JSON.

use penstock_ruleset::tunnel::{Tunnel, TunnelOptions};
use serde_json::{Map, Value, json};

use crate::listing::object::geneve_data;

/// Members of a tunnel object.
pub(super) fn tunnel(m: &mut Map<String, Value>, tunnel: &Tunnel) {
    m.insert("id".into(), json!(tunnel.id));
    for (end, address) in [("src", tunnel.source), ("dst", tunnel.destination)] {
        let Some(address) = address else { continue };
        let family = if address.is_ipv4() { "ipv4" } else { "ipv6" };
        m.insert(format!("{end}-{family}"), json!(address.to_string()));
    }
    let numbers = [
        ("sport", tunnel.sport),
        ("dport", tunnel.dport),
        ("tos", tunnel.tos.into()),
        ("ttl", tunnel.ttl.into()),
    ];
    for (name, number) in numbers.into_iter().filter(|(_, n)| *n > 0) {
        m.insert(name.into(), json!(number));
    }
    let (kind, options) = match &tunnel.options {
        TunnelOptions::None => return,
        TunnelOptions::Erspan { index } => ("erspan", json!({"version": 1, "index": index})),
        TunnelOptions::Erspan2 { egress, hwid } => {
            let direction = if *egress { "egress" } else { "ingress" };
            ("erspan", json!({"version": 2, "dir": direction, "hwid": hwid}))
        }
        TunnelOptions::Vxlan { gbp } => ("vxlan", json!({"gbp": gbp})),
        TunnelOptions::Geneve(options) => {
            let options = options
                .iter()
                .map(|o| json!({"class": o.class, "opt-type": o.kind, "data": geneve_data(o)}))
                .collect();
            ("geneve", Value::Array(options))
        }
    };
    m.insert("type".into(), json!(kind));
    m.insert("tunnel".into(), options);
}
