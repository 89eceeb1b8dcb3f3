// SPDX-License-Identifier: Apache-2.0

//! Random changes: `diff` says of each packet what running both rulesets says, and nothing else.

mod support;

use fastrand::Rng;
use penstock_symbolic::{Difference, Example, Failure, check, diff};
use support::*;

/// Changes one thing.
fn change(draft: &mut Draft, rng: &mut Rng) {
    let chains = draft.chains.len();
    let effects = true;
    let rules = match chains > 0 && rng.bool() {
        true => &mut draft.chains[rng.usize(..chains)],
        false => &mut draft.base,
    };
    let at = rng.usize(..rules.len());
    match rng.u8(..6) {
        // Chains call those before them: a rule without a call fits everywhere.
        0 => rules.insert(at, rule(rng, 0, effects)),
        1 if rules.len() > 1 => drop(rules.remove(at)),
        2 if rules.len() > 1 => {
            let other = rng.usize(..rules.len());
            rules.swap(at, other);
        }
        3 => draft.policy = if draft.policy == "drop" { "accept" } else { "drop" },
        _ => rules[at] = rule(rng, 0, effects),
    }
}

#[test]
fn a_packet_is_in_a_class_if_and_only_if_it_ends_otherwise() {
    let mut rng = Rng::with_seed(seed() + 1);
    let pool = pool();
    let (mut packets, mut differ, mut nothing) = (0, 0, 0);
    for round in 0..rounds(40) {
        let mut draft = Draft::random(&mut rng, true);
        let old_text = draft.text();
        for _ in 0..rng.u8(1..3) {
            change(&mut draft, &mut rng);
        }
        let new_text = draft.text();
        let (old_rules, new_rules) = (load(&old_text).unwrap(), load(&new_text).unwrap());
        let hook = draft.hook();
        let (mut old, mut new) = (program(&old_rules, hook), program(&new_rules, hook));
        let found = diff(place(&old_rules, hook), &mut old, &mut new, limits());
        if let Err((_, Failure::NoMeaning { reason, .. })) = &found
            && reason.contains("checksum")
        {
            continue;
        }
        let Difference { universe, classes, .. } =
            found.unwrap_or_else(|e| panic!("round {round}: {e:?}\n{old_text}{new_text}"));
        let shown = || format!("round {round}\n{old_text}{new_text}");
        nothing += u32::from(classes.is_empty());
        for class in &classes {
            let Some(example) = Example::new(&universe, &class.example) else { continue };
            let (of_old, of_new): (Vec<_>, Vec<_>) =
                class.deciders.iter().map(|pair| (pair[0], pair[1])).unzip();
            check(&example, &old, &class.fates[0], &of_old).unwrap_or_else(|e| {
                panic!("old: {e}; {:?} {of_old:?}\n{}", class.fates[0], shown())
            });
            check(&example, &new, &class.fates[1], &of_new).unwrap_or_else(|e| {
                panic!("new: {e}; {:?} {of_new:?}\n{}", class.fates[1], shown())
            });
        }
        let possible = universe.possible().unwrap();
        for _ in 0..20 {
            let point = sample(&universe, &possible, &pool, &mut rng).unwrap().unwrap();
            let Some(example) = Example::new(&universe, &point) else { continue };
            packets += 1;
            let (a, b) = (example.run(&old), example.run(&new));
            let passes = matches!(a.end, penstock_symbolic::End::Accept);
            let otherwise = a.end != b.end
                || passes && (a.mark, &a.packet) != (b.mark, &b.packet)
                || a.connection_mark() != b.connection_mark();
            differ += u32::from(otherwise);
            let classed = classes.iter().any(|class| class.region.contains(&point));
            assert_eq!(classed, otherwise, "{a:?} {b:?}\n{}", shown());
        }
    }
    println!("{packets} packets, {differ} of them in classes; {nothing} changes that matter not");
    assert!(differ > 0 || rounds(40) < 60);
}
