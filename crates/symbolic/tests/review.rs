// SPDX-License-Identifier: Apache-2.0

//! Random rulesets without the rules that are said to make no difference: nothing differs.

mod support;

use fastrand::Rng;
use penstock_symbolic::{End, Example, Failure, Review, Use, diff, review};
use support::*;

/// The ruleset without a rule, by its number in the order of the text.
fn without(draft: &Draft, number: usize) -> String {
    let mut draft = draft.clone();
    let mut left = number;
    for rules in draft.chains.iter_mut().chain([&mut draft.base]) {
        if left < rules.len() {
            rules.remove(left);
            break;
        }
        left -= rules.len();
    }
    draft.text()
}

#[test]
fn rules_that_are_said_to_make_no_difference_make_none() {
    let mut rng = Rng::with_seed(seed() + 5);
    let pool = pool();
    let (mut never, mut none, mut policies) = (0, 0, 0);
    for round in 0..rounds(60) {
        let draft = Draft::random(&mut rng, true);
        let text = draft.text();
        let rules = load(&text).unwrap_or_else(|e| panic!("{text}\n{e}"));
        let hook = draft.hook();
        let place = place(&rules, hook);
        let with = program(&rules, hook);
        let Review { universe, rules: found, policies: ends, .. } =
            match review(place, &with, limits()) {
                Ok(review) => review,
                Err(Failure::NoMeaning { reason, .. }) if reason.contains("checksum") => continue,
                Err(Failure::Undecided { .. }) => continue,
                Err(failure) => panic!("round {round}: {failure:?}\n{text}"),
            };
        let possible = universe.possible().unwrap();
        let examples: Vec<Vec<bool>> = (0..20)
            .filter_map(|_| sample(&universe, &possible, &pool, &mut rng).unwrap())
            .collect();
        for (rule, found) in found {
            match found {
                Use::Some => continue,
                Use::Never(_) => never += 1,
                Use::NoDifference => none += 1,
            }
            let shorter = load(&without(&draft, rule.0 as usize)).unwrap();
            let mut other = program(&shorter, hook);
            let difference = diff(place, &mut program(&rules, hook), &mut other, limits());
            let difference = difference.unwrap_or_else(|e| panic!("round {round}: {e:?}\n{text}"));
            let shown = || format!("round {round}, rule {}\n{text}", rule.0);
            assert!(difference.classes.is_empty(), "{}", shown());
            // What a rule depends on besides the packet is known by its number.
            other.numbers = with.numbers.iter().copied().filter(|n| *n != rule.0).collect();
            for point in &examples {
                let Some(example) = Example::new(&universe, point) else { continue };
                let (a, b) = (example.run(&with), example.run(&other));
                assert_eq!(a.end, b.end, "{}", shown());
                assert_eq!(a.connection_mark(), b.connection_mark(), "{}", shown());
                if a.end == End::Accept {
                    assert_eq!((a.mark, &a.packet), (b.mark, &b.packet), "{}", shown());
                }
            }
        }
        for point in &examples {
            let Some(example) = Example::new(&universe, point) else { continue };
            let decider = example.run(&with).decider;
            let reached = ends.iter().filter(|(_, is_reached)| !is_reached);
            policies += 1;
            for (chain, _) in reached {
                let is_policy = decider.rule.is_none() && decider.base == Some(*chain);
                assert!(!is_policy, "round {round}: the policy\n{text}");
            }
        }
    }
    println!("{never} rules never, {none} without difference, {policies} packets");
    assert!(never > 0 && none > 0 && policies > 0);
}
