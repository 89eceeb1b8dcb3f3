//! From a commit to effect.

use std::hint::black_box;

use penstock_ruleset::link::Linked;

use crate::Variant;
use crate::router::ruleset;
use crate::rules::linear;

pub(crate) fn variants() -> Vec<Variant> {
    [1_000u32, 10_000]
        .into_iter()
        .map(|count| {
            let generation = ruleset(&linear(count)).generation();
            Variant::new(format!("link-{count}"), 1, move || {
                black_box(Linked::new(&generation).expect("rules that run"));
            })
        })
        .collect()
}
