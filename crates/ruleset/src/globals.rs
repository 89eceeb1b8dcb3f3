// SPDX-License-Identifier: Apache-2.0

//! Objects of the network namespace that are in no table. Rules of x_tables name them; programs
//! make them by messages of their own subsystems.

use std::sync::Arc;

use penstock_program::State;
use penstock_program::expr::Expr;
use penstock_program::state::{AccountQuota, AccountState, Counted};
use serde::{Deserialize, Serialize};

use crate::model::{Generation, Rule};

/// Longest name of an account, in bytes (`NFACCT_NAME_MAX` without its end).
pub const ACCOUNT_NAME_MAX: usize = 31;

/// All such objects, each kind in order of creation.
#[derive(Clone, Debug, Default)]
pub struct Globals {
    /// Accounts.
    pub accounts: Vec<Account>,
}

/// A counter that rules share by its name (`net/netfilter/nfnetlink_acct.c`).
#[derive(Clone, Debug)]
pub struct Account {
    /// Its name.
    pub name: Arc<str>,
    /// Its values, shared by generations, rules and workers.
    pub state: Arc<State>,
}

/// A change of such objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum GlobalChange {
    /// A new account.
    AddAccount(NewAccount),
    /// The account of a name goes.
    DeleteAccount(Arc<str>),
}

/// An account to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAccount {
    /// Its name.
    pub name: Arc<str>,
    /// What it begins with.
    pub counted: Counted,
    /// What it may count up to.
    pub quota: Option<AccountQuota>,
}

impl Account {
    /// What would make it as it is now.
    pub fn snapshot(&self) -> NewAccount {
        let state = self.state();
        NewAccount {
            name: self.name.clone(),
            counted: state.map(AccountState::read).unwrap_or_default(),
            quota: state.and_then(AccountState::quota),
        }
    }

    /// Sets it to zero.
    pub(crate) fn reset(&self) {
        if let Some(state) = self.state() {
            state.reset();
        }
    }

    fn state(&self) -> Option<&AccountState> {
        match &*self.state {
            State::Account(state) => Some(state),
            _ => None,
        }
    }
}

impl From<NewAccount> for Account {
    fn from(new: NewAccount) -> Self {
        let state = AccountState::new(new.counted, new.quota);
        Account { name: new.name, state: Arc::new(State::Account(state)) }
    }
}

impl Globals {
    /// The account of a name.
    pub fn account(&self, name: &str) -> Option<&Account> {
        self.accounts.iter().find(|account| *account.name == *name)
    }
}

impl Rule {
    /// Names of accounts that it counts in.
    pub(crate) fn accounts(&self) -> impl Iterator<Item = &str> {
        self.exprs.iter().filter_map(|expr| {
            let Expr::Xt(extension) = expr else { return None };
            extension.account()
        })
    }
}

impl Generation {
    /// How many expressions of rules name an account.
    pub fn uses_of_account(&self, name: &str) -> usize {
        let chains = self.tables.iter().flat_map(|table| &table.chains);
        let rules = chains.flat_map(|chain| &chain.rules);
        rules.flat_map(|rule| rule.accounts()).filter(|used| *used == name).count()
    }
}
