// SPDX-License-Identifier: Apache-2.0

//! Which events of connections a rule asks for (`ct event set`), and what they say.

use super::events::{back4, on, talk};
use super::sent;
use crate::net::out4;
use crate::scenario::Scenario;

/// All of them.
pub fn all() -> Vec<Scenario> {
    // Numbers are of words that nft reads as something else: helper, mark.
    let masks_of = [
        ("new", "new"),
        ("related", "related"),
        ("destroy", "destroy"),
        ("reply", "reply"),
        ("assured", "assured"),
        ("protoinfo", "protoinfo"),
        ("helper", "0x40"),
        ("mark", "0x80"),
        ("label", "label"),
        ("new_and_destroy", "new,destroy"),
        ("reply_and_assured", "reply,assured"),
        ("protoinfo_and_label", "protoinfo,label"),
        ("all_but_new", "0x7fe"),
        ("none", "0x0"),
    ];
    let mut all: Vec<Scenario> =
        masks_of.iter().flat_map(|(name, asked)| both(name, &masks(asked))).collect();
    // Another one for packets of connections that are known.
    let later = |first: &str, then: &str| {
        rules(&format!(
            "\t\tct state new ct event set {first}\n\t\tct direction reply ct event set {then}\n\t\tct \
             mark set ct mark xor 1\n"
        ))
    };
    for (name, first, then) in [
        ("grows", "new", "new,reply,assured,destroy"),
        ("shrinks", "new,reply,protoinfo,destroy", "destroy"),
        ("changes", "destroy", "protoinfo"),
    ] {
        all.extend(both(name, &later(first, then)));
    }
    all
}

/// Every packet asks for these events, and changes mark and label.
fn masks(asked: &str) -> String {
    rules(&format!(
        "\t\tct event set {asked} counter\n\t\tct mark set ct mark xor 1\n\t\tct state established ct \
         label set 5\n"
    ))
}

fn rules(lines: &str) -> String {
    format!(
        "table inet t {{\n\tchain c {{\n\t\ttype filter hook forward priority 0;\n{lines}\t}}\n}}\n"
    )
}

/// A connection that is opened, used, closed and begun again, and one that only asks; a flow of
/// datagrams with answers, and one without.
fn both(name: &str, rules: &str) -> Vec<Scenario> {
    let close = [(0, 0x11), (1, 0x11), (0, 0x10)];
    let tcp = [
        talk(80, &[(0, b"GET /"), (1, b"200")], &close),
        talk(80, &[], &[])[..1].to_vec(),
        talk(81, &[], &[])[..1].to_vec(),
    ];
    let question = |port| ("lan", out4().udp(port, 53).data(b"question"));
    let answer = || ("wan", back4().udp(53, 4000).data(b"an answer"));
    let udp = [question(4000), answer(), question(4000), answer(), question(4001)];
    vec![
        sent(on(&format!("mask_{name}_tcp"), rules), &tcp.concat()),
        sent(on(&format!("mask_{name}_udp"), rules), &udp),
    ]
}
