//! Linear rules, of which the last drops.

use std::fmt::Write;
use std::rc::Rc;

use crate::Variant;
use crate::frames::{Frames, flow};
use crate::ingress::chain;
use crate::router::{Fate, sending};

/// `count` rules that do not match, then one that does.
pub(crate) fn linear(count: u32) -> String {
    let mut rules = String::new();
    for n in 0..count {
        let [_, b, c, d] = n.to_be_bytes();
        let _ = writeln!(rules, "ip saddr 10.{b}.{c}.{d} drop");
    }
    rules.push_str("udp dport 9 drop");
    chain(&rules)
}

pub(crate) fn variants() -> Vec<Variant> {
    let frames = Rc::new(Frames::hot((0..256).map(|n| flow(n, 9))));
    let variant = |name: &str, rules: String| {
        Variant::new(name, frames.len() as u64, sending(&rules, &frames, Fate::Dropped))
    };
    vec![
        variant("linear-10", linear(10)),
        variant("linear-100", linear(100)).against("linear-10"),
        variant("linear-1000", linear(1000)).against("linear-10"),
        variant("linear-10000", linear(10_000)).against("linear-10"),
        variant("linear-100000", linear(100_000)).against("linear-10"),
    ]
}
