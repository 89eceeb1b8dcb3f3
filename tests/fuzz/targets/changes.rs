// SPDX-License-Identifier: Apache-2.0

//! Changes as the process that evaluates rule texts sends them.

use std::cell::RefCell;

use penstock_lang::names::NoNames;
use penstock_lang::session::remote::Changes;
use penstock_lang::session::{Options, Session};
use penstock_lang::source::{NoFiles, Origin};
use penstock_ruleset::link::Linked;
use penstock_ruleset::model::Generation;
use penstock_ruleset::{Change, Ruleset, received};

use super::Target;
use crate::network::{NOW, net};
use crate::{language, mutate, seeds};

pub const TARGET: Target = Target {
    name: "changes",
    bytes: "changes of a ruleset, as the process that evaluates rule texts sends them",
    holds: "what is taken is listed, linked if it can run, and saved so that it is read as the same",
    longest: 4096,
    seeds: || seeds::rulesets().iter().map(|text| changes(text)).filter(|bytes| bytes.len() < 4096).collect(),
    make: mutate::bytes,
    run,
};

#[derive(Default)]
struct All(RefCell<Vec<u8>>);

impl Changes for All {
    fn begin(&self, _generation: &Generation, _now: u64) {
        self.0.borrow_mut().clear();
    }

    fn note(&self, change: &Change) {
        received::send(change, &mut self.0.borrow_mut());
    }
}

/// The changes of a text.
fn changes(text: &str) -> Vec<u8> {
    let all = All::default();
    let mut session = Session::new(Options::default(), &NoFiles, &NoNames).noting(&all);
    session.run(Origin::CommandLine, text.into(), &mut Ruleset::default(), NOW);
    all.0.into_inner()
}

fn run(data: &[u8]) {
    let Ok(changes) = received::receive(data) else { return };
    let mut ruleset = Ruleset::default();
    let mut transaction = ruleset.begin_at(NOW);
    // What is refused leaves the others as they were.
    for change in changes {
        let _ = transaction.apply(change);
    }
    transaction.settle();
    if transaction.validate().is_err() {
        assert!(ruleset.commit(transaction).is_err(), "a wrong table was committed");
        return;
    }
    std::hint::black_box(Linked::new(transaction.working()).is_ok());
    ruleset.commit(transaction).expect("nobody else commits");
    let Ok(again) = Ruleset::from_saved(&ruleset.save(NOW)) else {
        panic!("what was taken is saved and not read")
    };
    let net = net();
    assert_eq!(language::list(&ruleset, &net, NOW), language::list(&again, &net, NOW));
}
