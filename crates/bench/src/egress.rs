// SPDX-License-Identifier: Apache-2.0

//! Egress of a forwarded packet.

use std::rc::Rc;

use crate::Variant;
use crate::frames::{Frames, flow};
use crate::router::{Fate, Router, sending};

pub(crate) fn variants() -> Vec<Variant> {
    let frames = Rc::new(Frames::hot((0..64).map(|n| flow(n, 9))));
    let variant = |name: &str, rules: &str| {
        Variant::new(name, frames.len() as u64, sending(rules, &frames, Fate::Sent))
    };
    let miss = "table netdev t { chain c { type filter hook egress device wan priority 0; udp dport 10 drop; }; }";
    let accept = "table netdev t { chain c { type filter hook egress device wan priority 0; udp dport { 9, 53 } accept; drop; }; }";
    let in_turn = Router::new(accept).without_precheck().sending(&frames, Fate::Sent);
    let tc =
        "qdisc add dev wan clsact\nfilter add dev wan egress protocol ipv6 matchall action drop";
    vec![
        variant("none", ""),
        variant("one-miss", miss).against("none"),
        variant("accept-set", accept).against("none"),
        Variant::new("accept-set-in-turn", frames.len() as u64, in_turn).against("accept-set"),
        Variant::new(
            "one-miss-tc",
            frames.len() as u64,
            Router::new(miss).tc(tc).sending(&frames, Fate::Sent),
        )
        .against("none"),
    ]
}
