//! Live state: what packets change, shared by the generations that have the same rule, element or object.

use std::sync::Arc;

use penstock_program::expr::{Expr, ObjectType};
use penstock_program::State;

use crate::model::{ElementValue, Object, ObjectValue, Rule};

/// New state of an expression that has some.
pub(crate) fn state_of(expr: &Expr) -> Option<Arc<State>> {
    State::for_expr(expr).map(Arc::new)
}

/// New states of the stateful ones among the expressions, in their order.
pub(crate) fn states_of(exprs: &[Expr]) -> Vec<Arc<State>> {
    exprs.iter().filter_map(state_of).collect()
}

/// Whether the expression can be an element's or a set's statement (`NFT_EXPR_STATEFUL`).
pub(crate) fn is_stateful(expr: &Expr) -> bool {
    matches!(expr, Expr::Counter(_) | Expr::Limit(_) | Expr::Quota(_) | Expr::Last(_) | Expr::Connlimit(_))
}

fn snapshot(exprs: &[Expr], states: &[Arc<State>]) -> Vec<Expr> {
    let mut states = states.iter();
    let now = |expr: &Expr| match State::has_state(expr).then(|| states.next()).flatten() {
        Some(state) => state.snapshot(expr),
        None => expr.clone(),
    };
    exprs.iter().map(now).collect()
}

fn reset(exprs: &[Expr], states: &[Arc<State>]) -> Vec<Expr> {
    let mut states = states.iter();
    let now = |expr: &Expr| match State::has_state(expr).then(|| states.next()).flatten() {
        Some(state) => state.reset(expr),
        None => expr.clone(),
    };
    exprs.iter().map(now).collect()
}

impl Rule {
    /// The program with the current values of its stateful expressions: what a dump gives.
    pub fn snapshot(&self) -> Vec<Expr> {
        snapshot(&self.exprs, &self.states)
    }

    /// As [`Rule::snapshot`], and sets them to zero.
    pub fn reset(&self) -> Vec<Expr> {
        reset(&self.exprs, &self.states)
    }
}

impl ElementValue {
    /// The element's statements with their current values.
    pub fn snapshot(&self) -> Vec<Expr> {
        snapshot(&self.exprs, &self.states)
    }

    /// As [`ElementValue::snapshot`], and sets them to zero.
    pub fn reset(&self) -> Vec<Expr> {
        reset(&self.exprs, &self.states)
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
        }
    }

    /// The expression that does what the object does, for those with state.
    pub fn as_expr(&self) -> Option<Expr> {
        match self {
            ObjectValue::Counter(counter) => Some(Expr::Counter(counter.clone())),
            ObjectValue::Quota(quota) => Some(Expr::Quota(quota.clone())),
            ObjectValue::Limit(limit) => Some(Expr::Limit(limit.clone())),
            ObjectValue::CtHelper { .. }
            | ObjectValue::CtTimeout { .. }
            | ObjectValue::CtExpect { .. }
            | ObjectValue::Synproxy(_)
            | ObjectValue::SecMark(_) => None,
        }
    }

    /// The value that a counter, quota or limit expression stands for.
    fn with_expr(&self, expr: Expr) -> ObjectValue {
        match expr {
            Expr::Counter(counter) => ObjectValue::Counter(counter),
            Expr::Quota(quota) => ObjectValue::Quota(quota),
            Expr::Limit(limit) => ObjectValue::Limit(limit),
            _ => self.clone(),
        }
    }
}

impl Object {
    /// The object with its current values.
    pub fn snapshot(&self) -> ObjectValue {
        match (&self.state, self.value.as_expr()) {
            (Some(state), Some(expr)) => self.value.with_expr(state.snapshot(&expr)),
            _ => self.value.clone(),
        }
    }

    /// As [`Object::snapshot`], and sets them to zero.
    pub fn reset(&self) -> ObjectValue {
        match (&self.state, self.value.as_expr()) {
            (Some(state), Some(expr)) => self.value.with_expr(state.reset(&expr)),
            _ => self.value.clone(),
        }
    }

    /// Takes another configuration: quotas (the bytes seen stay) and synproxies; others keep theirs.
    pub(crate) fn update(&mut self, value: ObjectValue) {
        match (&mut self.value, value) {
            (ObjectValue::Quota(old), ObjectValue::Quota(new)) => {
                old.bytes = new.bytes;
                old.over = new.over;
            }
            (ObjectValue::Synproxy(old), ObjectValue::Synproxy(new)) => *old = new,
            _ => {}
        }
    }
}
