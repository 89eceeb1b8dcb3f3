// SPDX-License-Identifier: Apache-2.0

//! States that several rules have in common by a name: the tables of the matches `recent` and
//! `hashlimit` of x_tables, the estimators of `RATEEST`, and the sets of ipset, which are there
//! without rules, too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use penstock_ipset::IpSets;
use penstock_program::State;
use penstock_program::expr::{Expr, shared_xt_rate};
use penstock_program::state::RateParameters;

use crate::live;
use crate::model::{Family, Generation};

/// Those of a ruleset, by name. A state lives as long as a rule of any generation has it.
#[derive(Debug, Default)]
pub(crate) struct SharedStates {
    ip_sets: Arc<IpSets>,
    known: Mutex<HashMap<String, Weak<State>>>,
}

impl SharedStates {
    /// Those that the rules of a generation have.
    pub(crate) fn of(generation: &Generation) -> Self {
        let mut shared = SharedStates::default();
        for table in &generation.tables {
            for rule in table.chains.iter().flat_map(|chain| &chain.rules) {
                let stateful = rule.exprs.iter().filter(|expr| expr.is_stateful());
                for (expr, state) in stateful.zip(&rule.states) {
                    if let State::IpSets(sets) = &**state {
                        shared.ip_sets = sets.clone();
                    }
                    if let Some(name) = expr.shared_name(table.family) {
                        shared.with(|known| known.insert(name, Arc::downgrade(state)));
                    }
                    for (name, rate) in compared(expr).zip(rates_of(state)) {
                        shared.with(|known| known.insert(name, Arc::downgrade(rate)));
                    }
                }
            }
        }
        shared
    }

    /// The sets of ipset.
    pub(crate) fn ip_sets(&self) -> &Arc<IpSets> {
        &self.ip_sets
    }

    fn with<R>(&self, act: impl FnOnce(&mut HashMap<String, Weak<State>>) -> R) -> R {
        // Nothing that is done under it leaves it half done.
        act(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// States of the stateful ones among a rule's expressions, in their order, at time `now` (ns):
    /// new ones, but for those that other rules have already.
    pub(crate) fn states_of(&self, exprs: &[Expr], family: Family, now: u64) -> Vec<Arc<State>> {
        exprs.iter().filter_map(|expr| self.state_of(expr, family, now)).collect()
    }

    fn state_of(&self, expr: &Expr, family: Family, now: u64) -> Option<Arc<State>> {
        let Some(name) = expr.shared_name(family) else {
            let state = live::state_of(expr, now)?;
            return Some(match &*state {
                State::Rates(_) => Arc::new(State::Rates(self.rates_for(expr))),
                _ => state,
            });
        };
        self.with(|known| {
            if let Some(state) = known.get(&name).and_then(Weak::upgrade) {
                expr.join(&state, now);
                return Some(state);
            }
            let mut state = live::state_of(expr, now)?;
            if let State::IpSets(_) = &*state {
                state = Arc::new(State::IpSets(self.ip_sets.clone()));
            }
            remember(known, name, &state);
            Some(state)
        })
    }

    /// The estimators that a rule compares. Those that no rule counts in yet estimate nothing until
    /// there is one.
    fn rates_for(&self, expr: &Expr) -> Box<[Arc<State>]> {
        let one = |name: String| {
            self.with(|known| match known.get(&name).and_then(Weak::upgrade) {
                Some(state) => state,
                None => {
                    let state = Arc::new(State::Rate(Box::default()));
                    remember(known, name, &state);
                    state
                }
            })
        };
        compared(expr).map(one).collect()
    }

    /// The estimator of a name, if a rule counts in it or compares it, and how it estimates.
    pub(crate) fn estimator(&self, name: &str) -> Option<Option<RateParameters>> {
        let state = self.with(|known| known.get(&shared_xt_rate(name)).and_then(Weak::upgrade))?;
        match &*state {
            State::Rate(rate) => Some(rate.parameters()),
            _ => None,
        }
    }
}

fn remember(known: &mut HashMap<String, Weak<State>>, name: String, state: &Arc<State>) {
    if known.len() == known.capacity() {
        known.retain(|_, state| state.strong_count() > 0);
    }
    known.insert(name, Arc::downgrade(state));
}

/// Names of the estimators that an expression compares.
fn compared(expr: &Expr) -> impl Iterator<Item = String> {
    let extension = match expr {
        Expr::Xt(extension) => Some(extension),
        _ => None,
    };
    extension.into_iter().flat_map(|xt| xt.compared_rates()).map(shared_xt_rate)
}

/// The estimators in a state.
fn rates_of(state: &State) -> &[Arc<State>] {
    match state {
        State::Rates(rates) => rates,
        _ => &[],
    }
}
