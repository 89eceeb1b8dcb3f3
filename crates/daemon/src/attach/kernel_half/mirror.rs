// SPDX-License-Identifier: Apache-2.0

//! A set that packets change, in the kernel and in the ruleset.
//!
//! Both are brought together from time to time: what packets have added, renewed, removed and
//! counted comes into the ruleset's set, and what clients have added and removed into the kernel's.
//! What both had the last time tells which side has changed.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_nfnetlink::kernel::{DumpedElement, counted};
use penstock_program::State;
use penstock_program::dynamic::{CurrentElement, DynamicSet, NewElement};
use penstock_program::expr::set_statements;
use penstock_program::state::Words;
use penstock_ruleset::Set;
use penstock_ruleset::model::{ElementData, ElementExtras, ElementValue};
use penstock_sets::Element;

use super::SetKey;
use super::tally::{is_reset, more};

type Key = Box<[u8]>;

/// Times of expiry that differ by so much are the same (ns): the kernel counts in jiffies.
const ROUNDED: u64 = 50_000_000;
const MILLISECOND: u64 = 1_000_000;

/// An element as both had it.
#[derive(Clone, Debug, Default)]
struct Known {
    /// What the kernel had counted, by statement.
    seen: Vec<Words>,
    /// What the ruleset's set had then.
    ours: Vec<Words>,
    /// When it expires in the ruleset's set (ns).
    expires_at: Option<u64>,
}

/// What both sets had the last time.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    last: HashMap<Key, Known>,
}

/// What clients have done since.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) come: Vec<Element<ElementValue>>,
    pub(super) gone: Vec<Element<ElementValue>>,
    /// Keys of elements of which counters or quotas were reset.
    pub(super) reset: Vec<Key>,
}

/// Elements that a batch brings and takes.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) key: SetKey,
    pub(super) come: Vec<Element<ElementValue>>,
    pub(super) gone: Vec<Element<ElementValue>>,
    pub(super) now: u64,
}

impl Sent {
    /// All elements of a set, which was not there.
    pub(super) fn all(key: SetKey, set: &Set, now: u64) -> Self {
        let elements = set.elements();
        let alive = elements.iter_unordered().filter(|element| element.is_alive(now));
        let come = alive.map(|element| element.to_element()).collect();
        Sent { key, come, gone: Vec::new(), now }
    }
}

fn state(set: &Arc<DynamicSet>, slot: u32, statement: usize) -> State {
    State::InSet { set: set.clone(), slot, statement }
}

fn words(set: &Arc<DynamicSet>, element: &CurrentElement) -> Vec<Words> {
    let statements = 0..element.statements.len();
    statements.map(|n| state(set, element.slot, n).words().unwrap_or_default()).collect()
}

impl Mirror {
    /// The kernel has taken a batch.
    pub(super) fn sent(&mut self, sent: Sent) {
        for element in sent.gone {
            self.last.remove(&element.key);
        }
        for element in sent.come {
            if let Some(known) = self.last.get_mut(&element.key) {
                // The kernel counts on.
                known.expires_at = element.expires_at;
                continue;
            }
            let exprs = element.value.snapshot(sent.now);
            let seen = exprs.iter().map(|expr| counted(expr).unwrap_or_default()).collect();
            let ours = element.value.states().iter().map(|s| s.words().unwrap_or_default());
            let (ours, expires_at) = (ours.collect(), element.expires_at);
            self.last.insert(element.key, Known { seen, ours, expires_at });
        }
    }

    /// Brings both together at a time (ns), but for what clients have done.
    pub(super) fn sync(&mut self, dumped: Vec<DumpedElement>, of: &Set, now: u64) -> Wanted {
        let mut wanted = Wanted::default();
        let Some(set) = of.dynamic() else { return wanted };
        let mut ours: HashMap<Key, CurrentElement> =
            set.current(now).into_iter().map(|element| (element.key.clone(), element)).collect();
        let mut next = HashMap::with_capacity(dumped.len());
        for there in dumped {
            let key = there.key.clone();
            let expired = |known: &Known| known.expires_at.is_some_and(|at| at <= now);
            match (ours.remove(&key), self.last.remove(&key)) {
                (Some(here), known) => {
                    let none = Known { expires_at: here.expires_at, ..Known::default() };
                    let known = known.unwrap_or(none);
                    if is_renewed(&here, &known) {
                        // A client has given it another life.
                        wanted.come.push(as_element(&here, set, of));
                    }
                    let joined = join(&here, &there, known, set, of, now);
                    if joined.1 {
                        wanted.reset.push(key.clone());
                    }
                    next.insert(key, joined.0);
                }
                (None, Some(known)) if !expired(&known) => {
                    let value = ElementValue::default();
                    let element =
                        Element { key: key.clone(), key_end: None, value, expires_at: None };
                    wanted.gone.push(element);
                    next.insert(key, known);
                }
                // Packets have added it, or renewed it.
                (None, _) => {
                    if let Some(known) = add(&there, set, of, now) {
                        next.insert(key, known);
                    }
                }
            }
        }
        for (key, here) in ours {
            match self.last.remove(&key) {
                // Packets have removed it, or it has expired.
                Some(_) => set.remove(&key, now),
                None => wanted.come.push(as_element(&here, set, of)),
            }
        }
        self.last = next;
        wanted
    }

    /// An element was reset in the kernel when it had these values.
    pub(super) fn was_reset(&mut self, key: &[u8], last: DumpedElement, of: &Set, now: u64) {
        let Some(set) = of.dynamic() else { return };
        let Some(here) = set.current(now).into_iter().find(|here| *here.key == *key) else {
            return;
        };
        if let Some(known) = self.last.remove(key) {
            let (mut known, _) = join(&here, &last, known, set, of, now);
            known.seen.iter_mut().for_each(|seen| *seen = [0; 2]);
            self.last.insert(key.into(), known);
        }
    }
}

/// Whether a client has given an element another life since.
fn is_renewed(here: &CurrentElement, known: &Known) -> bool {
    match (here.expires_at, known.expires_at) {
        (Some(a), Some(b)) => a.abs_diff(b) > MILLISECOND,
        (None, None) => false,
        _ => true,
    }
}

fn as_element(here: &CurrentElement, set: &Arc<DynamicSet>, of: &Set) -> Element<ElementValue> {
    let states = 0..here.statements.len();
    let extras = ElementExtras {
        exprs: here.statements.iter().map(Into::into).collect(),
        states: states.map(|n| Arc::new(state(set, here.slot, n))).collect(),
        timeout: (here.timeout != of.timeout).then_some(here.timeout),
        userdata: here.userdata.clone(),
    };
    let data = of.data.map(|_| ElementData::Value(penstock_program::Data::new(&here.data)));
    let value = ElementValue::new(data, extras);
    Element { key: here.key.clone(), key_end: None, value, expires_at: here.expires_at }
}

/// What the kernel has counted comes into the ruleset's element; whether that was reset.
fn join(
    here: &CurrentElement,
    there: &DumpedElement,
    known: Known,
    set: &Arc<DynamicSet>,
    of: &Set,
    now: u64,
) -> (Known, bool) {
    let (mut reset, mut seen) = (false, Vec::with_capacity(there.statements.len()));
    for (n, statement) in there.statements.iter().enumerate() {
        let now = counted(statement).unwrap_or_default();
        let here = state(set, here.slot, n);
        let ours = known.ours.get(n).copied().unwrap_or_default();
        if counted(statement).is_some() {
            reset |= is_reset(here.words().unwrap_or_default(), ours);
            here.add(more(now, known.seen.get(n).copied().unwrap_or_default()));
        }
        seen.push(now);
    }
    let timeout = there.timeout.unwrap_or(of.timeout);
    // What a client has changed is new until the kernel has it.
    let mut expires_at = known.expires_at;
    if let Some(left) = there.expires
        && !is_renewed(here, &known)
    {
        let at = now.saturating_add(left.saturating_mul(MILLISECOND));
        if expires_at.is_none_or(|before| at.abs_diff(before) > ROUNDED) {
            // Packets have renewed it.
            set.modify(&here.key, timeout, Some(at), now);
            expires_at = Some(at);
        }
    }
    (Known { seen, ours: words(set, here), expires_at }, reset)
}

/// An element of the kernel comes into the ruleset's set.
fn add(there: &DumpedElement, set: &Arc<DynamicSet>, of: &Set, now: u64) -> Option<Known> {
    let expires_at = there.expires.map(|left| now.saturating_add(left.saturating_mul(MILLISECOND)));
    if expires_at.is_some_and(|at| at <= now) || !set.reserve(0, now) {
        return None;
    }
    let timeout = there.timeout.unwrap_or(of.timeout);
    let data = match &there.data {
        Some(ElementData::Value(data)) => data.bytes(),
        _ => &[],
    };
    let statements = set_statements(&there.statements);
    let new = NewElement {
        key: &there.key,
        data,
        timeout,
        expires_at,
        statements: &statements,
        userdata: None,
    };
    set.insert_reserved(&new, now);
    let seen: Vec<Words> =
        there.statements.iter().map(|expr| counted(expr).unwrap_or_default()).collect();
    Some(Known { ours: seen.clone(), seen, expires_at })
}
