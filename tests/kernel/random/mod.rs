// SPDX-License-Identifier: Apache-2.0

//! Random scenarios: a generator for each kind. The same seed gives the same scenario.

pub mod bridge;
mod bridge_ip;
pub mod cover;
mod ct;
mod dynamic;
mod filtering;
mod flow;
mod fragments;
mod headers;
mod helpers;
mod nat;
mod snmp;
mod snooping;

use crate::scenario::Scenario;

/// A kind of random scenario.
pub struct Kind {
    /// How the names of its scenarios begin; their seed follows.
    pub names: &'static [&'static str],
    /// Makes the scenario of a seed.
    pub scenario: fn(seed: u64) -> Scenario,
    /// Of so many scenarios of other kinds there is one of it, where time is short.
    pub share: u64,
}

/// All kinds.
pub const KINDS: [Kind; 13] = [
    Kind {
        names: &["random_forwarding_", "random_devices_"],
        scenario: filtering::scenario,
        share: 1,
    },
    Kind { names: &["random_nat_"], scenario: nat::scenario, share: 1 },
    Kind { names: &["random_bridge_"], scenario: bridge::scenario, share: 10 },
    Kind { names: &["random_ip_on_bridge_"], scenario: bridge_ip::scenario, share: 10 },
    Kind { names: &["random_snooping_"], scenario: snooping::scenario, share: 10 },
    Kind { names: &["random_fragments_"], scenario: fragments::scenario, share: 5 },
    Kind { names: &["random_ct_"], scenario: ct::scenario, share: 1 },
    Kind { names: &["random_flow_"], scenario: flow::scenario, share: 1 },
    Kind { names: &["random_headers_"], scenario: headers::scenario, share: 1 },
    Kind { names: &["random_dynamic_"], scenario: dynamic::scenario, share: 1 },
    Kind { names: &["random_helpers_"], scenario: helpers::scenario, share: 1 },
    Kind { names: &["random_rare_nat_"], scenario: nat::rare, share: 4 },
    Kind { names: &["random_cover_"], scenario: cover::scenario, share: 8 },
];

impl Kind {
    /// Whether a scenario of it may have all of these words in its name.
    fn may_have(&self, words: &[String]) -> bool {
        let in_name = |name: &str, w: &str| name.contains(w.trim_end_matches(char::is_numeric));
        self.names.iter().any(|name| words.iter().all(|w| in_name(name, w)))
    }
}

/// Scenarios of kinds, from a seed on, that have these words in their names. `count` says how many
/// of a kind by its share.
pub fn scenarios<'a>(
    kinds: impl IntoIterator<Item = &'a Kind> + 'a,
    words: &'a [String],
    seed: u64,
    count: impl Fn(u64) -> u64 + 'a,
) -> impl Iterator<Item = Scenario> + 'a {
    kinds
        .into_iter()
        .filter(|kind| kind.may_have(words))
        .flat_map(move |kind| (seed..seed + count(kind.share)).map(kind.scenario))
        .filter(|s| words.iter().all(|w| s.name.contains(w.as_str())))
}
