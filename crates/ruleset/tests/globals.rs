// SPDX-License-Identifier: Apache-2.0

//! Objects that are in no table, and counters of policies: they are kept with the ruleset, and go
//! where no rule names them.

mod changes;

use changes::{IP, chain, new_chain, rule, table};
use penstock_program::expr::{Counter, Expr, Xt};
use penstock_program::state::{AccountQuota, Counted};
use penstock_ruleset::change::{NewBase, NewChain};
use penstock_ruleset::globals::{GlobalChange, Named, NewAccount, NewTimeout};
use penstock_ruleset::link::Linked;
use penstock_ruleset::model::{ChainType, Hook};
use penstock_ruleset::reset::{Reset, What};
use penstock_ruleset::{Change, Errno, Ruleset};

fn apply(ruleset: &mut Ruleset, changes: &[Change]) -> Result<(), Errno> {
    let mut batch = ruleset.begin();
    for change in changes {
        batch.apply(change.clone()).map_err(|error| error.errno)?;
    }
    ruleset.commit(batch).map_err(|error| error.errno)
}

fn account(name: &str, packets: u64) -> Change {
    let counted = Counted { packets, bytes: 10 * packets, over: false };
    let quota = Some(AccountQuota { packets: true, most: 9 });
    Change::Global(GlobalChange::AddAccount(NewAccount { name: name.into(), counted, quota }))
}

fn timeout(name: &str, l4proto: u8) -> Change {
    let values = vec![(3, 44)];
    let new = NewTimeout { name: name.into(), l3proto: 2, l4proto, values };
    Change::Global(GlobalChange::SetTimeout(new))
}

fn gone(name: &str) -> [Change; 2] {
    [GlobalChange::DeleteAccount(name.into()), GlobalChange::DeleteTimeout(name.into())]
        .map(Change::Global)
}

/// A match `nfacct`, and a target `CT` with a timeout policy.
fn naming(name: &str) -> [Expr; 2] {
    let text = |at: usize, len: usize| {
        let mut info = vec![0; len];
        info[at..at + name.len()].copy_from_slice(name.as_bytes());
        info.into()
    };
    [
        Expr::Xt(Xt { target: false, name: "nfacct".into(), rev: 0, info: text(0, 40) }),
        Expr::Xt(Xt { target: true, name: "CT".into(), rev: 1, info: text(28, 72) }),
    ]
}

#[test]
fn what_is_there_twice_or_missing_or_named_is_refused() {
    let mut ruleset = Ruleset::default();
    apply(&mut ruleset, &[account("a", 1), timeout("a", 6)]).expect("they are made");
    let [account_gone, timeout_gone] = gone("a");
    for (change, errno) in [
        (account("a", 1), Errno::Ebusy),
        (account("", 1), Errno::Einval),
        (account(&"n".repeat(32), 1), Errno::Einval),
        (timeout("a", 17), Errno::Einval),
        (timeout(&"n".repeat(32), 6), Errno::Einval),
        (gone("b")[0].clone(), Errno::Enoent),
        (gone("b")[1].clone(), Errno::Enoent),
    ] {
        assert_eq!(apply(&mut ruleset, std::slice::from_ref(&change)), Err(errno), "{change:?}");
    }
    let rule = rule(IP, "c", naming("a").to_vec());
    apply(&mut ruleset, &[table(IP), chain(IP, "c"), rule]).expect("they are named");
    for change in [&account_gone, &timeout_gone] {
        assert_eq!(apply(&mut ruleset, std::slice::from_ref(change)), Err(Errno::Ebusy));
    }
    let generation = ruleset.generation();
    assert_eq!(generation.uses_of(Named::Account("a")), 1);
    assert_eq!(generation.uses_of(Named::Timeout("a")), 1);
    assert!(Linked::new(&generation).is_ok());
    // The policy in its new form is another one for rules that are linked again.
    apply(&mut ruleset, &[timeout("a", 6)]).expect("it is replaced");
    let delete = Change::DeleteTable { family: Some(IP), key: None, destroy: false };
    apply(&mut ruleset, &[delete, account_gone, timeout_gone]).expect("they go");
    assert!(ruleset.generation().globals.accounts.is_empty());
}

#[test]
fn a_rule_that_names_what_is_not_there_does_not_link() {
    for expr in naming("a") {
        let mut ruleset = Ruleset::default();
        apply(&mut ruleset, &[table(IP), chain(IP, "c"), rule(IP, "c", vec![expr])]).expect("made");
        assert!(Linked::new(&ruleset.generation()).is_err());
    }
}

#[test]
fn counters_of_policies_accounts_and_timeouts_are_saved() {
    let base = |name: &str, counter| {
        let hook = NewBase {
            kind: ChainType::Filter,
            hook: Hook::Input,
            priority: 0,
            devices: Vec::new(),
        };
        changes::add_chain(IP, NewChain { base: Some(hook), counter, ..new_chain(name) })
    };
    let counter = Some(Counter { packets: 3, bytes: 400 });
    for (changes, counted, accounts, timeouts) in [
        (vec![table(IP), base("c", None)], None, 0, 0),
        (vec![table(IP), base("c", counter.clone())], counter.clone(), 0, 0),
        (vec![table(IP), base("c", None), account("a", 7)], None, 1, 0),
        (vec![table(IP), base("c", counter.clone()), timeout("a", 6)], counter.clone(), 0, 1),
    ] {
        let mut ruleset = Ruleset::default();
        apply(&mut ruleset, &changes).expect("they are made");
        let policies = Reset { family: None, table: None, what: What::Policies };
        assert_eq!(ruleset.generation().is_live(&policies), counted.is_some());
        let saved = ruleset.save(1);
        let again = Ruleset::from_saved(&saved).expect("it is restored");
        let generation = again.generation();
        assert_eq!(generation.tables[0].chains[0].counted(), counted);
        assert_eq!(generation.globals.accounts.len(), accounts);
        assert_eq!(generation.globals.timeouts.len(), timeouts);
        assert_eq!(again.save(1), saved);
        for cut in 1..saved.len() {
            // The lists at the end may be missing.
            let _ = Ruleset::from_saved(&saved[..cut]);
        }
        generation.zero(1);
        assert!(!generation.has_counted(1));
        let zero = counted.map(|_| Counter::default());
        assert_eq!(generation.tables[0].chains[0].counted(), zero);
    }
    let mut ruleset = Ruleset::default();
    apply(&mut ruleset, &[account("a", 7)]).expect("it is made");
    let what = What::Accounts(Some("a".into()));
    ruleset.generation().reset(&Reset { family: None, table: None, what }, 1);
    assert_eq!(ruleset.generation().globals.accounts[0].snapshot().counted, Counted::default());
}
