//! The whole way from one device to another.

use std::rc::Rc;

use crate::Variant;
use crate::frames::{Frames, flow};
use crate::router::{Fate, sending};

pub(crate) fn variants() -> Vec<Variant> {
    let frames = Rc::new(Frames::cold((0..10_000).map(|n| flow(n, 9))));
    let variant = |name: &str, rules: &str| {
        Variant::new(name, frames.len() as u64, sending(rules, &frames, Fate::Sent))
    };
    vec![variant("plain-10k", "")]
}
