// SPDX-License-Identifier: Apache-2.0

//! Frames through all hooks.

use std::sync::{Arc, OnceLock};

use penstock_dataplane::Settings;
use penstock_ruleset::link::Linked;

use super::Target;
use crate::network::{NOW, dataplane, net};
use crate::send::send;
use crate::{language, mutate, seeds};

pub const TARGET: Target = Target {
    name: "frame",
    bytes: "a ruleset of the filetests and frames",
    holds: "every hook and every expression takes it; what leaves is bounded by what came in",
    longest: 4096,
    seeds: || seeds::frames().iter().map(|f| [&[0], &f[..]].concat()).collect(),
    make: |rng, _| mutate::frames(rng, seeds::frames()),
    run,
};

/// The first byte says which ruleset is in force, 0 for one that has all their rules at once,
/// verdicts left out.
fn run(data: &[u8]) {
    static RULES: OnceLock<Vec<Arc<Linked>>> = OnceLock::new();
    let rules = RULES.get_or_init(|| {
        let link = |text: &str| {
            let ruleset = language::load(text, &net(), NOW).ok()?;
            Linked::new(&ruleset.generation()).ok().map(Arc::new)
        };
        let all = link(&seeds::all_rules()).expect("the rules of the filetests without their verdicts");
        std::iter::once(all).chain(seeds::rulesets().iter().filter_map(|text| link(text))).collect()
    });
    let [which, frames @ ..] = data else { return };
    let mut dataplane = dataplane(Settings::default());
    // More often than not, all.
    dataplane.set_rules(rules[usize::from(*which) % (rules.len() * 2) % rules.len()].clone());
    dataplane.trace_all(which % 5 == 4);
    send(&mut dataplane, frames);
}
