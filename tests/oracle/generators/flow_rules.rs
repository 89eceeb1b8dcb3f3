// SPDX-License-Identifier: Apache-2.0

//! Rulesets with a flowtable that say of each packet whether it met them.

use fastrand::Rng;
use penstock_testkit::Chance;

/// A ruleset of a router with these devices: its flowtable has some of the `wires`, as one of these
/// lists says, and takes flows in one of several ways. Sources that leave by `translated` are
/// masqueraded.
pub fn rules(rng: &mut Rng, devices: &[&str], wires: &[&str], translated: &str) -> String {
    let wires = rng.pick(wires);
    let counter = rng.pick(&["", " counter;"]);
    let only_one = format!("iifname {} flow add @f", devices[0]);
    let add = rng.pick(&[
        "flow add @f",
        "flow add @f",
        "ct state established flow add @f",
        "meta l4proto tcp flow add @f",
        &only_one,
    ]);
    let each = |word: &str| -> String {
        devices.iter().map(|d| format!("\t\t{word} {d} counter\n")).collect()
    };
    let (from, to) = (each("iifname"), each("oifname"));
    let masquerade = match translated {
        "" => String::new(),
        device => format!(
            "\tchain post {{\n\t\ttype nat hook postrouting priority 100;\n\t\toifname {device} \
             masquerade\n\t}}\n"
        ),
    };
    format!(
        "table inet t {{\n\tflowtable f {{ hook ingress priority 0; devices = {{ {wires} \
         }};{counter} }}\n\tchain early {{\n\t\ttype filter hook prerouting priority \
         -450;\n\t\tmeta l4proto {{ 4, 41 }} counter\n{from}\t}}\n\tchain forward {{\n\t\ttype \
         filter hook forward priority 0;\n{from}{to}\t\tct state new counter\n\t\tct state \
         established counter\n\t\tct state invalid counter\n\t\t{add}\n\t}}\n{masquerade}}}\n"
    )
}
