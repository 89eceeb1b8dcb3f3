// SPDX-License-Identifier: Apache-2.0

//! What an agent decides: tables of heads and outcomes.

use penstock_agent::machine::{Goal, Machine, Outcome, Step};
use penstock_agent::memory::Memory;
use penstock_fleet::canary::Node;
use penstock_fleet::key::SecretKey;
use penstock_fleet::report::State;
use penstock_fleet::{Canary, Digest, Head, SignedHead};

fn tree(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

fn goal(generation: u64, name: &str) -> Goal {
    Goal { generation, tree: tree(name) }
}

struct Setup {
    key: SecretKey,
    machine: Machine,
}

impl Setup {
    fn new() -> Setup {
        let key = SecretKey::new().expect("a key");
        let machine = Setup::machine(&key, Memory::default());
        Setup { key, machine }
    }

    fn machine(key: &SecretKey, memory: Memory) -> Machine {
        let labels = [("site".to_owned(), "a".to_owned())].into();
        Machine::new(Node { name: "fw1".into(), labels }, vec![key.public()], memory)
    }

    fn signed(&self, generation: u64, name: &str, canary: Option<(&str, u8, &str)>) -> Vec<u8> {
        let canary = canary.map(|(label, percent, name)| Canary {
            label: label.into(),
            percent,
            tree: tree(name),
        });
        let (previous, note) = (None, String::new());
        let head = Head { generation, tree: tree(name), previous, time: generation, canary, note };
        SignedHead::new(&head, &self.key).bytes()
    }

    fn head(&mut self, generation: u64, name: &str) -> bool {
        let bytes = self.signed(generation, name, None);
        self.machine.head(&bytes)
    }

    fn tried(&mut self, outcome: Outcome) {
        match self.machine.next() {
            Step::Try(goal) => self.machine.tried(goal, outcome, 100),
            Step::Wait => panic!("nothing is to be tried"),
        }
    }

    /// Generation in force, state, and why.
    fn told(&self) -> (u64, State, String) {
        let report = self.machine.report(0, 0);
        (report.generation, report.state, report.why)
    }
}

#[test]
fn heads_are_followed_in_their_order() {
    let mut setup = Setup::new();
    assert_eq!(setup.machine.next(), Step::Wait);
    assert!(setup.head(3, "a"));
    assert_eq!(setup.machine.next(), Step::Try(goal(3, "a")));
    setup.tried(Outcome::InForce);
    assert_eq!(setup.told(), (3, State::InForce, String::new()));
    // A later head with the same tree, as after a roll-back of another one.
    assert!(setup.head(4, "a"));
    assert_eq!((setup.machine.next(), setup.told().0), (Step::Wait, 4));
    for (generation, name, why) in [
        (
            3,
            "a",
            "the head of generation 3 is older than that of generation 4, which was seen before",
        ),
        (4, "b", "there are two heads of generation 4: keys sign on two places"),
    ] {
        assert!(!setup.head(generation, name));
        assert_eq!(
            (setup.machine.next(), setup.told()),
            (Step::Wait, (4, State::Refused, why.into()))
        );
    }
    assert!(setup.head(4, "a"));
    assert_eq!(setup.told(), (4, State::InForce, String::new()));
}

#[test]
fn unsigned_heads_change_nothing() {
    let mut setup = Setup::new();
    setup.head(1, "a");
    setup.tried(Outcome::InForce);
    let stranger = Setup::new();
    for bytes in [stranger.signed(2, "b", None), b"{}".to_vec(), vec![], vec![b'['; 1 << 20]] {
        assert!(!setup.machine.head(&bytes));
        assert_eq!(setup.machine.next(), Step::Wait);
        assert_eq!((setup.told().0, setup.told().1), (1, State::Refused));
    }
    assert_eq!(setup.machine.memory().seen.map(|seen| seen.generation), Some(1));
}

#[test]
fn what_was_refused_is_not_tried_again_until_the_next_head() {
    for (outcome, state) in [
        (Outcome::Refused("no".into()), State::Refused),
        (Outcome::RolledBack("no".into()), State::RolledBack),
    ] {
        let mut setup = Setup::new();
        setup.head(1, "a");
        setup.tried(Outcome::InForce);
        setup.head(2, "b");
        setup.tried(outcome);
        setup.machine.again();
        assert_eq!((setup.machine.next(), setup.told()), (Step::Wait, (1, state, "no".into())));
        setup.head(3, "b");
        assert_eq!(setup.machine.next(), Step::Try(goal(3, "b")));
        setup.tried(Outcome::InForce);
        assert_eq!(setup.told(), (3, State::InForce, String::new()));
    }
}

#[test]
fn what_cannot_be_done_now_is_tried_again() {
    for (outcome, state) in [
        (Outcome::NotYet("no".into()), State::Trying),
        (Outcome::NoDataplane("no".into()), State::NoDataplane),
    ] {
        let mut setup = Setup::new();
        setup.head(1, "a");
        setup.tried(outcome);
        assert_eq!((setup.machine.next(), setup.told()), (Step::Wait, (0, state, "no".into())));
        assert!(setup.machine.waits_to_try());
        setup.machine.again();
        assert_eq!(setup.machine.next(), Step::Try(goal(1, "a")));
    }
}

#[test]
fn what_was_good_before_is_not_refused_for_ever() {
    let mut setup = Setup::new();
    setup.head(1, "a");
    setup.tried(Outcome::InForce);
    assert!(!setup.machine.is_without_good());
    setup.machine.dataplane_changed();
    setup.tried(Outcome::Refused("no".into()));
    assert_eq!((setup.machine.next(), setup.machine.is_without_good()), (Step::Wait, true));
    setup.machine.good_again();
    assert!(!setup.machine.is_without_good());
    setup.tried(Outcome::InForce);
    assert_eq!(setup.told(), (1, State::InForce, String::new()));
    // A later tree takes its place, and what was refused of others stays refused.
    setup.machine.dataplane_changed();
    setup.tried(Outcome::Refused("no".into()));
    setup.head(2, "b");
    setup.tried(Outcome::Refused("no".into()));
    setup.machine.good_again();
    setup.tried(Outcome::Refused("no".into()));
    assert_eq!(setup.machine.next(), Step::Wait);
    setup.head(3, "c");
    setup.tried(Outcome::InForce);
    assert!(!setup.machine.is_without_good());
}

#[test]
fn new_dataplane_gets_the_last_good_rules_first() {
    let mut setup = Setup::new();
    setup.head(1, "a");
    setup.tried(Outcome::InForce);
    setup.head(2, "b");
    setup.tried(Outcome::Refused("no".into()));
    setup.machine.dataplane_changed();
    assert_eq!((setup.machine.next(), setup.told().0), (Step::Try(goal(1, "a")), 0));
    setup.tried(Outcome::InForce);
    // What the other one refused may be right for this one.
    assert_eq!(setup.machine.next(), Step::Try(goal(2, "b")));
    setup.tried(Outcome::Refused("no".into()));
    assert_eq!(setup.told(), (1, State::Refused, "no".into()));
}

#[test]
fn agent_that_begins_again_knows_what_it_saw() {
    let mut setup = Setup::new();
    setup.head(5, "a");
    setup.tried(Outcome::InForce);
    let memory = setup.machine.memory();
    setup.machine = Setup::machine(&setup.key, memory);
    // There are rules before the store is asked.
    assert_eq!(setup.machine.next(), Step::Try(goal(5, "a")));
    setup.tried(Outcome::InForce);
    assert!(!setup.head(4, "old"));
    assert!(setup.head(5, "a") && setup.machine.next() == Step::Wait);
    // A good tree that is refused now does not keep a new one back.
    setup.machine.dataplane_changed();
    setup.tried(Outcome::Refused("no".into()));
    setup.head(6, "b");
    assert_eq!(setup.machine.next(), Step::Try(goal(6, "b")));
}

#[test]
fn canaries_have_a_tree_of_their_own() {
    let mut setup = Setup::new();
    for (generation, canary, expected) in [
        (1, Some(("site=a", 100, "b")), "b"),
        (2, Some(("site=a", 0, "b")), "a"),
        (3, Some(("site=b", 100, "b")), "a"),
        (4, Some(("node=fw1", 100, "b")), "b"),
        (5, None, "a"),
    ] {
        let bytes = setup.signed(generation, "a", canary);
        assert!(setup.machine.head(&bytes));
        let expected = tree(expected);
        if let Step::Try(goal) = setup.machine.next() {
            assert_eq!(goal.tree, expected, "{generation}");
            setup.machine.tried(goal, Outcome::InForce, 1);
        }
        let report = setup.machine.report(0, 0);
        assert_eq!((report.generation, report.tree), (generation, Some(expected)));
    }
}
