// SPDX-License-Identifier: Apache-2.0

//! Rulesets as state files have them.

use penstock_ruleset::Ruleset;
use penstock_ruleset::link::Linked;

use super::Target;
use crate::network::{NOW, net};
use crate::{language, mutate, seeds};

pub const TARGET: Target = Target {
    name: "saved",
    bytes: "a saved ruleset, after its checksum",
    holds: "what is read is listed, linked if it can run, and saved and read back unchanged",
    longest: 4096,
    seeds: || {
        let loaded = seeds::rulesets().iter().filter_map(|text| language::load(text, &net(), NOW).ok());
        loaded.map(|ruleset| ruleset.save(NOW)).filter(|bytes| bytes.len() < 4096).collect()
    },
    make: mutate::bytes,
    run,
};

fn run(data: &[u8]) {
    let Ok(ruleset) = Ruleset::from_saved(data) else { return };
    let saved = ruleset.save(NOW);
    let again = Ruleset::from_saved(&saved).unwrap_or_else(|e| panic!("what was saved is not read: {e}"));
    let net = net();
    assert_eq!(language::list(&ruleset, &net, NOW), language::list(&again, &net, NOW));
    assert_eq!(again.save(NOW), saved, "what was saved is saved as something else");
    std::hint::black_box(Linked::new(&ruleset.generation()).is_ok());
}
