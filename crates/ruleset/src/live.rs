// SPDX-License-Identifier: Apache-2.0

//! Live state: what packets change, shared by the generations that have the same rule, element or
//! object.

use std::sync::Arc;

use penstock_program::State;
use penstock_program::expr::{Counter, Expr, ObjectType, Statement};

use crate::Errno;
use crate::model::{Chain, ElementValue, Object, ObjectValue, Rule};

/// New state of an expression that has some, at time `now` (ns).
pub(crate) fn state_of(expr: &Expr, now: u64) -> Option<Arc<State>> {
    expr.new_state(now).map(Arc::new)
}

/// New states of the stateful ones among the expressions, in their order, at time `now` (ns).
pub(crate) fn states_of(exprs: &[Expr], now: u64) -> Vec<Arc<State>> {
    exprs.iter().filter_map(|expr| state_of(expr, now)).collect()
}

/// What the kernel refuses of state to begin with (`ops->init`).
pub(crate) fn check(expr: &Expr) -> Result<(), Errno> {
    expr.as_statement().map_or(Ok(()), Statement::check)
}

/// What the kernel refuses of a statement of a set, an element or an object (`ops->init`): its
/// operands, and state to begin with. Those of rules are verified with their program.
pub(crate) fn check_statement(expr: &Expr) -> Result<(), Errno> {
    expr.verify().map_err(|reason| reason.errno())?;
    check(expr)
}

/// The expressions, those with state as `read` gives them.
fn with_states(
    exprs: &[Expr],
    states: &[Arc<State>],
    read: impl Fn(&State, &Expr) -> Expr,
) -> Vec<Expr> {
    let mut states = states.iter();
    let current = |expr: &Expr| match expr.is_stateful().then(|| states.next()).flatten() {
        Some(state) => read(state, expr),
        None => expr.clone(),
    };
    exprs.iter().map(current).collect()
}

fn snapshot(exprs: &[Expr], states: &[Arc<State>], now: u64) -> Vec<Expr> {
    with_states(exprs, states, |state, expr| expr.snapshot(state, now))
}

fn reset(exprs: &[Expr], states: &[Arc<State>], now: u64) -> Vec<Expr> {
    with_states(exprs, states, |state, expr| expr.reset(state, now))
}

impl Rule {
    /// The program with the values of its stateful expressions at time `now` (ns): what a dump
    /// gives.
    pub fn snapshot(&self, now: u64) -> Vec<Expr> {
        snapshot(&self.exprs, &self.states, now)
    }

    /// Takes a [`Rule::snapshot`] and resets the state.
    pub fn reset(&self, now: u64) -> Vec<Expr> {
        reset(&self.exprs, &self.states, now)
    }
}

impl Chain {
    /// The counter of the packets that the policy has decided on, if there is one
    /// (`NFTA_CHAIN_COUNTERS`).
    pub fn counted(&self) -> Option<Counter> {
        match self.counter.as_deref()? {
            State::Counter(counter) => {
                let (packets, bytes) = counter.read();
                Some(Counter { packets, bytes })
            }
            _ => None,
        }
    }
}

impl ElementValue {
    /// The element's statements with their values at time `now` (ns).
    pub fn snapshot(&self, now: u64) -> Vec<Expr> {
        snapshot(self.exprs(), self.states(), now)
    }

    /// Takes an [`ElementValue::snapshot`] and resets the state.
    pub fn reset(&self, now: u64) -> Vec<Expr> {
        reset(self.exprs(), self.states(), now)
    }
}

impl ObjectValue {
    /// The type that the object is of.
    pub fn kind(&self) -> ObjectType {
        match self {
            ObjectValue::Counter(_) => ObjectType::Counter,
            ObjectValue::Quota(_) => ObjectType::Quota,
            ObjectValue::Limit(_) => ObjectType::Limit,
            ObjectValue::CtHelper { .. } => ObjectType::CtHelper,
            ObjectValue::CtTimeout { .. } => ObjectType::CtTimeout,
            ObjectValue::CtExpect { .. } => ObjectType::CtExpect,
            ObjectValue::Synproxy(_) => ObjectType::Synproxy,
            ObjectValue::SecMark(_) => ObjectType::SecMark,
            ObjectValue::Tunnel(_) => ObjectType::Tunnel,
            ObjectValue::Connlimit(_) => ObjectType::Connlimit,
        }
    }

    /// The expression that does what the object does, for those with state.
    pub fn as_expr(&self) -> Option<Expr> {
        match self {
            ObjectValue::Counter(counter) => Some(Expr::Counter(counter.clone())),
            ObjectValue::Quota(quota) => Some(Expr::Quota(quota.clone())),
            ObjectValue::Limit(limit) => Some(Expr::Limit(limit.clone())),
            ObjectValue::Connlimit(limit) => Some(Expr::Connlimit(limit.clone())),
            ObjectValue::CtHelper { .. }
            | ObjectValue::CtTimeout { .. }
            | ObjectValue::CtExpect { .. }
            | ObjectValue::Synproxy(_)
            | ObjectValue::SecMark(_)
            | ObjectValue::Tunnel(_) => None,
        }
    }

    /// The value that a counter, quota or limit expression stands for.
    fn with_expr(&self, expr: Expr) -> ObjectValue {
        if let Expr::Counter(counter) = expr {
            ObjectValue::Counter(counter)
        } else if let Expr::Quota(quota) = expr {
            ObjectValue::Quota(quota)
        } else if let Expr::Limit(limit) = expr {
            ObjectValue::Limit(limit)
        } else {
            self.clone()
        }
    }
}

impl Object {
    /// The object with its values at time `now` (ns).
    pub fn snapshot(&self, now: u64) -> ObjectValue {
        match (&self.state, self.value.as_expr()) {
            (Some(state), Some(expr)) => self.value.with_expr(expr.snapshot(state, now)),
            _ => self.value.clone(),
        }
    }

    /// Takes an [`Object::snapshot`] and resets the state.
    pub fn reset(&self, now: u64) -> ObjectValue {
        match (&self.state, self.value.as_expr()) {
            (Some(state), Some(expr)) => self.value.with_expr(expr.reset(state, now)),
            _ => self.value.clone(),
        }
    }

    /// Takes another configuration: quotas (the bytes seen stay), limits (what was taken stays) and
    /// synproxies; others keep theirs.
    pub(crate) fn update(&mut self, value: ObjectValue) {
        match (&mut self.value, value) {
            (ObjectValue::Quota(old), ObjectValue::Quota(new)) => {
                old.bytes = new.bytes;
                old.over = new.over;
            }
            (ObjectValue::Synproxy(old), ObjectValue::Synproxy(new)) => *old = new,
            (ObjectValue::Limit(old), ObjectValue::Limit(new)) => *old = new,
            _ => {}
        }
    }
}
