// SPDX-License-Identifier: Apache-2.0

//! The ruleset as the evaluator has it: the same generations, from the same changes, without what
//! packets change.

use std::sync::Arc;

use penstock_nfnetlink::{Notification, Process as Caller, Teller, changes_between};
use penstock_ruleset::change::Mode;
use penstock_ruleset::model::Generation;
use penstock_ruleset::transaction::Applied;
use penstock_ruleset::{Change, Error, Ruleset, Transaction, received};

use crate::rules::{Commit, Update};

/// How a change is applied.
type Apply<'a> = dyn FnMut(&mut Transaction, Change) -> Result<Applied, Error> + 'a;

/// A ruleset that follows another one.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    pub(crate) ruleset: Ruleset,
    /// Before the change that waits for its confirmation.
    kept: Option<Arc<Generation>>,
}

/// The mirror is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Astray;

impl Mirror {
    /// Follows one step.
    pub(crate) fn follow(&mut self, update: &Update) -> Result<(), Astray> {
        self.follow_by(update, &mut Transaction::apply)
    }

    /// Follows one step, and tells of it as the kernel does.
    pub(crate) fn follow_and_tell(
        &mut self,
        update: &Update,
        now: u64,
    ) -> Result<Vec<Notification>, Astray> {
        let before = self.ruleset.generation();
        let Update::Commit(commit) = update else {
            self.follow(update)?;
            return Ok(changes_between(&before, &self.ruleset.generation(), now));
        };
        let mut teller = Teller::new(commit.after, now);
        self.follow_by(update, &mut |to, change| teller.apply(to, change))?;
        let (id, name) = update.by();
        Ok(teller.finish(&Caller { id, name: name.into(), may_change: true }))
    }

    /// Takes over a transaction that the dataplane has put in force, and that was made on this
    /// copy.
    pub(crate) fn take_over(
        &mut self,
        mut transaction: Transaction,
        after: u32,
        marks: u64,
    ) -> Result<(), Astray> {
        transaction.change();
        self.ruleset.commit(transaction).map_err(|_| Astray)?;
        self.kept = None;
        self.agree(after, marks)
    }

    fn follow_by(&mut self, update: &Update, apply: &mut Apply<'_>) -> Result<(), Astray> {
        match update {
            Update::Whole { bytes, after, marks } => {
                self.kept = None;
                self.ruleset = Ruleset::from_saved(bytes).map_err(|_| Astray)?;
                self.agree(*after, *marks)
            }
            Update::Commit(commit) => self.commit(commit, apply),
            Update::Restore { after, marks, .. } => {
                self.ruleset.restore(&*self.kept.take().ok_or(Astray)?);
                self.agree(*after, *marks)
            }
        }
    }

    fn agree(&self, after: u32, marks: u64) -> Result<(), Astray> {
        let same = self.ruleset.generation().id == after && self.ruleset.marks() == marks;
        if same { Ok(()) } else { Err(Astray) }
    }

    fn commit(&mut self, commit: &Commit, apply: &mut Apply<'_>) -> Result<(), Astray> {
        let before = self.ruleset.generation();
        if before.id != commit.before {
            return Err(Astray);
        }
        let mut transaction = self.ruleset.begin_at(commit.now);
        let mut right = true;
        let read = received::each(&commit.changes, |change| {
            let (change, may_fail) = without_state(change);
            right = apply(&mut transaction, change).is_ok() || may_fail;
            right
        });
        if read.is_err() || !right {
            return Err(Astray);
        }
        // It is a new generation even if it changed packet state only.
        transaction.change();
        self.ruleset.commit(transaction).map_err(|_| Astray)?;
        self.kept = commit.unconfirmed.then_some(before);
        self.agree(commit.after, commit.marks)
    }
}

/// A change as it is made to a ruleset without elements that packets have added or removed; and
/// whether it may fail then.
fn without_state(change: Change) -> (Change, bool) {
    match change {
        Change::AddElements { family, table, set, mode: _, elements } => {
            (Change::AddElements { family, table, set, mode: Mode::Add, elements }, true)
        }
        Change::DeleteElements { family, table, set, elements, destroy: _ } => {
            (Change::DeleteElements { family, table, set, elements, destroy: true }, true)
        }
        change => (change, false),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use penstock_lang::names::NoNames;
    use penstock_lang::session::remote::Changes;
    use penstock_lang::session::{Options, Session};
    use penstock_lang::source::{NoFiles, Origin};

    use super::*;

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

    /// Runs a text on a ruleset. Returns the step that leads there.
    fn step(ruleset: &mut Ruleset, text: &str, now: u64, unconfirmed: bool) -> Update {
        let all = All::default();
        let before = ruleset.generation().id;
        let mut session = Session::new(Options::default(), &NoFiles, &NoNames).noting(&all);
        let outcome = session.run(Origin::CommandLine, text.into(), ruleset, now);
        assert!(outcome.ok, "{text}: {}", outcome.stderr);
        let (after, marks) = (ruleset.generation().id, ruleset.marks());
        Update::Commit(Commit {
            before,
            now,
            changes: all.0.into_inner().into(),
            after,
            marks,
            unconfirmed,
            by: (1, "test".into()),
        })
    }

    fn listing(ruleset: &mut Ruleset, now: u64) -> String {
        let options = Options::default();
        let mut session = Session::new(options, &NoFiles, &NoNames);
        session.options.format.handles = true;
        session.run(Origin::CommandLine, "list ruleset".into(), ruleset, now).stdout
    }

    const TEXTS: [&str; 9] = [
        "table inet t {
           set s { type ipv4_addr; flags timeout; elements = { 198.18.0.1, 198.18.0.2 timeout 5s }; }
           map m { type inet_service : verdict; elements = { 80 : jump web }; }
           counter n { }
           chain web { counter; accept; }
           chain in { type filter hook input priority 0; tcp dport vmap @m; ip saddr { 198.18.0.7, 198.18.0.9 } drop; }
         }",
        "add rule inet t in jump { ip daddr 198.18.0.3 drop; }; insert rule inet t in counter name n",
        "add element inet t s { 198.18.0.3 }; delete element inet t s { 198.18.0.1 }",
        "table ip d { set dyn { type ipv4_addr; size 9; flags dynamic; }; chain c { add @dyn { ip saddr }; }; }",
        "add element ip d dyn { 198.18.0.5 }",
        "rename chain inet t web www; insert rule inet t in index 1 accept",
        "delete table ip d; add table ip d",
        "flush chain inet t in; delete counter inet t n",
        "flush ruleset; add table ip after",
    ];

    #[test]
    fn mirror_assigns_the_handles_of_the_original() {
        let (mut ruleset, mut mirror) = (Ruleset::default(), Mirror::default());
        let mut now = 1_000_000_000;
        for text in TEXTS {
            let update = step(&mut ruleset, text, now, false);
            assert_eq!(mirror.follow(&update), Ok(()), "{text}");
            assert_eq!(listing(&mut mirror.ruleset, now), listing(&mut ruleset, now), "{text}");
            // Longer than an element of the first text lives.
            now += 6_000_000_000;
        }
    }

    #[test]
    fn a_full_copy_continues_with_changes() {
        for begin in 0..TEXTS.len() {
            let (mut ruleset, mut mirror) = (Ruleset::default(), Mirror::default());
            for (number, text) in TEXTS.iter().enumerate() {
                let update = step(&mut ruleset, text, 7, false);
                if number == begin {
                    let (after, marks) = (ruleset.generation().id, ruleset.marks());
                    let update = Update::Whole { bytes: ruleset.save(7), after, marks };
                    assert_eq!(mirror.follow(&update), Ok(()));
                } else if number > begin {
                    assert_eq!(mirror.follow(&update), Ok(()), "{text}");
                    assert_eq!(listing(&mut mirror.ruleset, 7), listing(&mut ruleset, 7), "{text}");
                }
            }
        }
    }

    #[test]
    fn rollbacks_are_mirrored() {
        let (mut ruleset, mut mirror) = (Ruleset::default(), Mirror::default());
        assert_eq!(mirror.follow(&step(&mut ruleset, TEXTS[0], 1, false)), Ok(()));
        let before = ruleset.generation();
        assert_eq!(mirror.follow(&step(&mut ruleset, TEXTS[1], 1, true)), Ok(()));
        ruleset.restore(&before);
        let (after, marks) = (ruleset.generation().id, ruleset.marks());
        let restore = Update::Restore { after, marks, by: (1, "test".into()) };
        assert_eq!(mirror.follow(&restore), Ok(()));
        assert_eq!(listing(&mut mirror.ruleset, 1), listing(&mut ruleset, 1));
        // There is nothing more to be taken back, and another ruleset has other marks.
        assert_eq!(mirror.follow(&restore), Err(Astray));
        let update = step(&mut ruleset, TEXTS[2], 1, false);
        let Update::Commit(commit) = update else { panic!("a text commits") };
        let wrong = Commit { marks: commit.marks ^ 1, ..commit.clone() };
        assert_eq!(mirror.follow(&Update::Commit(wrong)), Err(Astray));
    }

    #[test]
    fn elements_added_by_packets_are_mirrored() {
        let (mut ruleset, mut mirror) = (Ruleset::default(), Mirror::default());
        assert_eq!(mirror.follow(&step(&mut ruleset, TEXTS[3], 1, false)), Ok(()));
        // As if packets had added it: the mirror does not have it.
        let added = step(&mut ruleset, "add element ip d dyn { 198.18.0.6 }", 1, false);
        let Update::Commit(commit) = added else { panic!("a text commits") };
        let none = Commit { changes: Vec::new().into(), ..commit };
        assert_eq!(mirror.follow(&Update::Commit(none)), Ok(()));
        let update = step(&mut ruleset, "delete element ip d dyn { 198.18.0.6 }", 1, false);
        assert_eq!(mirror.follow(&update), Ok(()));
    }
}
