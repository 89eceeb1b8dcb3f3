// SPDX-License-Identifier: Apache-2.0

//! Random rulesets and packets: what is said of all packets is what the interpreter does with each.

mod support;

use fastrand::Rng;
use penstock_symbolic::{
    Answer, Cover, Coverage, Decider, Example, Failure, Fate, Query, Unanswered, Universe, Wanted,
    Written, ask, asked, check, cover, evaluate,
};
use support::*;

#[test]
fn each_packet_ends_as_its_region_says() {
    let mut rng = Rng::with_seed(seed());
    let pool = pool();
    let (mut packets, mut unrealized) = (0, 0);
    for round in 0..rounds(80) {
        let draft = Draft::random(&mut rng, true);
        let text = draft.text();
        let rules = load(&text).unwrap_or_else(|e| panic!("{text}\n{e}"));
        let hook = draft.hook();
        let program = program(&rules, hook);
        let mut universe =
            Universe::new(place(&rules, hook), limits(), asked(place(&rules, hook), &program));
        let all = universe.diagrams.all();
        let evaluated = match evaluate(&mut universe, &program, &all) {
            Ok(evaluated) => evaluated,
            Err(Failure::NoMeaning { reason, .. }) if reason.contains("checksum") => continue,
            Err(failure) => panic!("round {round}: {failure:?}\n{text}"),
        };
        let possible = universe.possible().unwrap();
        assert!(!possible.is_none(), "{text}");
        for _ in 0..30 {
            let point = sample(&universe, &possible, &pool, &mut rng).unwrap().unwrap();
            let mut of = evaluated.decisions.iter().filter(|d| d.region.contains(&point));
            let decision = of.next().unwrap_or_else(|| panic!("no decision\n{text}"));
            assert!(of.next().is_none(), "two decisions\n{text}");
            let Some(example) = Example::new(&universe, &point) else {
                unrealized += 1;
                continue;
            };
            packets += 1;
            let written = evaluated
                .written
                .iter()
                .map(|(field, bits)| (*field, Written::Value(universe.value_of(bits, &point))))
                .collect();
            let fate = Fate { end: decision.end, written };
            let decider = Decider { rule: decision.rule, base: decision.base };
            if let Err(wrong) = check(&example, &program, &fate, &[decider]) {
                let values: Vec<String> = universe
                    .fields()
                    .iter()
                    .map(|f| format!("{f:?} = {:x?}", universe.value(*f, &point).unwrap()))
                    .collect();
                panic!(
                    "round {round}: {wrong}; {fate:?} by {decider:?}\n{text}\n{}\n{:x?}",
                    values.join("\n"),
                    example.packet.frame()
                );
            }
        }
    }
    assert!(unrealized < packets, "{unrealized} of {packets} packets cannot be made");
    println!("{packets} packets, {unrealized} not made");
}

#[test]
fn classes_of_a_question_are_apart_and_together_all_that_it_is_about() {
    let mut rng = Rng::with_seed(seed() + 3);
    let pool = pool();
    let mut packets = 0;
    for round in 0..rounds(30) {
        let draft = Draft::random(&mut rng, true);
        let text = draft.text();
        let rules = load(&text).unwrap_or_else(|e| panic!("{text}\n{e}"));
        let hook = draft.hook();
        let asked = program(&rules, hook);
        let base = vec![rule(&mut rng, 0, false)];
        let question = Draft { chains: Vec::new(), base, policy: "accept", hook: draft.hook };
        let question_text = question.text();
        let question_rules =
            load(&question_text).unwrap_or_else(|e| panic!("{question_text}\n{e}"));
        let matches = program(&question_rules, hook);
        let query = Query { matches: &matches, led: None };
        let answers = match ask(place(&rules, hook), &asked, &[query], limits()) {
            Ok(answer) => answer,
            Err(Unanswered::Rules(Failure::NoMeaning { reason, .. }))
                if reason.contains("checksum") =>
            {
                continue;
            }
            // A question looks at the packet alone.
            Err(Unanswered::Match(..)) => continue,
            Err(wrong) => panic!("round {round}: {wrong:?}\n{text}{question_text}"),
        };
        let universe = &answers.universe;
        let Answer { classes, .. } = &answers.all[0];
        let d = &universe.diagrams;
        for (i, class) in classes.iter().enumerate() {
            for other in &classes[..i] {
                assert!(!d.meet(&class.region, &other.region).unwrap(), "{text}{question_text}");
            }
            let point = sample(universe, &class.region, &pool, &mut rng).unwrap().unwrap();
            for point in [&class.example, &point] {
                let Some(example) = Example::new(universe, point) else { continue };
                packets += 1;
                let deciders: Vec<Decider> = class.deciders.iter().map(|all| all[0]).collect();
                check(&example, &asked, &class.fates[0], &deciders)
                    .unwrap_or_else(|e| panic!("round {round}: {e}\n{text}{question_text}"));
            }
        }
    }
    println!("{packets} packets of questions");
    assert!(packets > 0);
}

#[test]
fn rules_that_no_case_meets_are_met_by_no_packet() {
    let mut rng = Rng::with_seed(seed() + 4);
    let pool = pool();
    let wanted = Wanted { others: true, elements: true };
    let (mut met, mut never, mut packets) = (0, 0, 0);
    for round in 0..rounds(30) {
        let draft = Draft::random(&mut rng, true);
        let text = draft.text();
        let rules = load(&text).unwrap_or_else(|e| panic!("{text}\n{e}"));
        let hook = draft.hook();
        let program = program(&rules, hook);
        let covered = match cover(place(&rules, hook), &program, wanted, limits()) {
            Ok(covered) => covered,
            Err(Failure::NoMeaning { reason, .. }) if reason.contains("checksum") => continue,
            Err(failure) => panic!("round {round}: {failure:?}\n{text}"),
        };
        let Cover { universe, rules, cases, elements } = &covered;
        for element in elements {
            let of_it = element.case.map(|number| &cases[number].verified.met);
            assert!(of_it.is_none_or(|met| met.contains(&element.rule)), "round {round}\n{text}");
            assert!(!element.never || element.case.is_none(), "round {round}\n{text}");
        }
        let mut no_packet = Vec::new();
        for (rule, coverage) in rules {
            match coverage {
                Coverage::Case(number) => {
                    met += 1;
                    let case = &cases[*number];
                    let example = Example::new(universe, &case.example).unwrap();
                    assert!(example.run(&program).met.contains(rule), "round {round}\n{text}");
                }
                Coverage::NotMade => {}
                Coverage::Taken(takers) => {
                    assert!(!takers.is_empty(), "round {round}\n{text}");
                    no_packet.push(*rule);
                }
                Coverage::NothingMatches | Coverage::NothingComes | Coverage::NotMatched => {
                    no_packet.push(*rule);
                }
            }
        }
        never += no_packet.len();
        let possible = universe.possible().unwrap();
        for _ in 0..30 {
            let point = sample(universe, &possible, &pool, &mut rng).unwrap().unwrap();
            let Some(example) = Example::new(universe, &point) else { continue };
            packets += 1;
            let wrong = example.run(&program).met.into_iter().find(|rule| no_packet.contains(rule));
            assert_eq!(wrong, None, "round {round}\n{text}");
        }
    }
    println!("{met} rules met, {never} rules never, {packets} packets");
    assert!(met > 0 && packets > 0);
}
