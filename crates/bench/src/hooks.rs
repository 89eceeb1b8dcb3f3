// SPDX-License-Identifier: Apache-2.0

//! What hooks cost: none, empty ones, one chain, three, and three that are called one by one.

use std::rc::Rc;

use crate::Variant;
use crate::frames::{Frames, flow};
use crate::router::{Fate, Router, sending};

/// `count` chains at ingress, each with two rules that do not match; the last rule of all drops.
fn chains(count: u32) -> String {
    let mut out = String::from("table netdev t {");
    for n in 0..count {
        let last = if n + 1 == count { "drop;" } else { "" };
        out += &format!(
            "chain c{n} {{ type filter hook ingress device lan priority {n}; ip saddr 10.0.0.{n} counter accept; \
             udp dport 1{n} drop; {last} }};"
        );
    }
    out + "}"
}

pub(crate) fn variants() -> Vec<Variant> {
    let frames = Rc::new(Frames::hot((0..64).map(|n| flow(n, 9))));
    let variant = |name: &str, rules: &str, fate| {
        Variant::new(name, frames.len() as u64, sending(rules, &frames, fate))
    };
    let interpreted = |name: &str, rules: &str| {
        let router = Router::new(rules).interpreted();
        Variant::new(name, frames.len() as u64, router.sending(&frames, Fate::Dropped))
    };
    let indirect = Router::new(&chains(3)).indirect();
    let elsewhere = "table ip t { chain c { type filter hook output priority 0; }; }";
    vec![
        variant("absent", "", Fate::Sent),
        variant("empty", elsewhere, Fate::Sent).against("absent"),
        interpreted("interpreter-1", &chains(1)),
        variant("compiled-1", &chains(1), Fate::Dropped).against("interpreter-1"),
        interpreted("interpreter-3", &chains(3)),
        variant("compiled-3", &chains(3), Fate::Dropped).against("interpreter-3"),
        Variant::new("indirect-3", frames.len() as u64, indirect.sending(&frames, Fate::Dropped))
            .against("compiled-3"),
    ]
}
