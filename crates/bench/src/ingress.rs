// SPDX-License-Identifier: Apache-2.0

//! Drop at netdev ingress.

use std::fmt::Write;
use std::rc::Rc;

use crate::Variant;
use crate::frames::{Frames, flow};
use crate::router::{Fate, sending};

/// An ingress chain with rules.
pub(crate) fn chain(rules: &str) -> String {
    format!(
        "table netdev t {{ chain c {{ type filter hook ingress device lan priority 0;\n{rules}\n}}\n}}\n"
    )
}

/// `count` ports from 9 on, each second one.
pub(crate) fn ports(count: usize) -> String {
    let mut out = String::new();
    for n in 0..count {
        let _ = write!(out, "{}, ", 9 + 2 * n);
    }
    out
}

/// `count` ranges of ports, the first around 9.
pub(crate) fn ranges(count: usize) -> String {
    (0..count).map(|n| format!("{}-{}, ", 5 + 100 * n, 45 + 100 * n)).collect()
}

pub(crate) fn variants() -> Vec<Variant> {
    let hot = Rc::new(Frames::hot((0..64).map(|n| flow(n, 9))));
    let cold = Rc::new(Frames::cold((0..4096).map(|n| flow(n, 9))));
    let one = chain("udp dport 9 drop");
    let drop = |rules: &str, frames: &Rc<Frames>| sending(rules, frames, Fate::Dropped);
    let variant = |name: &str, rules: &str| {
        Variant::new(name, hot.len() as u64, drop(rules, &hot)).against("one-hot")
    };
    vec![
        Variant::new("one-hot", hot.len() as u64, drop(&one, &hot)),
        Variant::new("one-cold", cold.len() as u64, drop(&one, &cold)),
        variant("one-counted", &chain("udp dport 9 counter drop")),
        variant("set384", &chain(&format!("udp dport {{ {} }} drop", ports(384)))),
        variant("ranges3", &chain(&format!("udp dport {{ {} }} drop", ranges(3)))),
        variant("ranges12", &chain(&format!("udp dport {{ {} }} drop", ranges(12)))),
        variant(
            "raw-prerouting",
            "table ip t { chain c { type filter hook prerouting priority raw; udp dport 9 drop; }; }",
        ),
    ]
}
