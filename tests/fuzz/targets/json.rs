// SPDX-License-Identifier: Apache-2.0

//! JSON for `nft -j -f`.

use super::Target;
use crate::network::{NOW, net};
use crate::{language, mutate, seeds};

pub const TARGET: Target = Target {
    name: "json",
    bytes: "JSON for `nft -j -f`",
    holds: "what is accepted is listed, as text and as JSON; JSON that is accepted again is listed as it is",
    longest: 8192,
    seeds: || seeds::json().iter().map(|t| t.clone().into_bytes()).collect(),
    make: mutate::json_bytes,
    run,
};

fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let net = net();
    let Ok(mut ruleset) = language::load_json(&text, &net, NOW) else { return };
    std::hint::black_box(language::list(&ruleset, &net, NOW));
    let listing = language::list_json(&mut ruleset, &net, NOW);
    let Ok(mut first) = language::load_json(&listing, &net, NOW) else { return };
    let listing = language::list_json(&mut first, &net, NOW);
    let Ok(mut second) = language::load_json(&listing, &net, NOW) else { return };
    let relisted = language::list_json(&mut second, &net, NOW);
    assert_eq!(listing, relisted, "JSON becomes other JSON; of:\n{text}");
}
