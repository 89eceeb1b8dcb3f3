// SPDX-License-Identifier: Apache-2.0

//! Random scenarios: a generator for each kind. The same seed gives the same scenario.

mod bridge;
mod ct;
mod dynamic;
mod filtering;
mod flow;
mod fragments;
mod headers;
mod nat;
mod snooping;

use crate::scenario::Scenario;

/// A kind of random scenario.
struct Kind {
    /// Makes the scenario of a seed.
    scenario: fn(seed: u64) -> Scenario,
    /// See [`scenarios`].
    share: u64,
}

/// All kinds.
const KINDS: [Kind; 9] = [
    Kind { scenario: filtering::scenario, share: 1 },
    Kind { scenario: nat::scenario, share: 1 },
    Kind { scenario: bridge::scenario, share: 10 },
    Kind { scenario: snooping::scenario, share: 10 },
    Kind { scenario: fragments::scenario, share: 5 },
    Kind { scenario: ct::scenario, share: 1 },
    Kind { scenario: flow::scenario, share: 1 },
    Kind { scenario: headers::scenario, share: 1 },
    Kind { scenario: dynamic::scenario, share: 1 },
];

/// Scenarios of all kinds, from a seed on. `count` says how many of a kind by its share: of so many
/// scenarios of other kinds there is one of it, where time is short.
pub fn scenarios(seed: u64, count: impl Fn(u64) -> u64) -> impl Iterator<Item = Scenario> {
    KINDS.into_iter().flat_map(move |kind| (seed..seed + count(kind.share)).map(kind.scenario))
}
