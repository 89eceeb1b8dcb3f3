//! The whole way from one device to another.

use std::rc::Rc;

use crate::Variant;
use crate::frames::{Frames, flow};
use crate::router::{Fate, sending};

pub(crate) fn variants() -> Vec<Variant> {
    let frames = Rc::new(Frames::hot((0..10_000).map(|n| flow(n, 9))));
    let variant = |name: &str, rules: &str| {
        Variant::new(name, frames.len() as u64, sending(rules, &frames, Fate::Sent))
    };
    let stateful = "table ip t {
        chain f {
            type filter hook forward priority 0; policy drop
            ct state established,related accept
            ct state new accept
        }
    }";
    let masquerade = "table ip t {
        chain n {
            type nat hook postrouting priority srcnat
            oifname wan masquerade
        }
    }";
    vec![
        variant("plain-10k", ""),
        variant("ct-10k", stateful).against("plain-10k"),
        variant("masquerade-10k", masquerade).against("plain-10k"),
    ]
}
