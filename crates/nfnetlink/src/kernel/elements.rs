// SPDX-License-Identifier: Apache-2.0

//! Elements of sets on their way to the kernel.

use penstock_program::State;
use penstock_program::expr::Expr;
use penstock_ruleset::model::ElementValue;
use penstock_ruleset::{Set, Table};
use penstock_sets::{Element, ElementRef};

use super::batch::{KernelBatch, Part, Subject};
use super::{counted, to_send};
use crate::message::{Writer, flags};
use crate::nf_tables::element::write_one;
use crate::uapi::nf_tables::*;

/// Bytes of elements in a message at most: the length of an attribute has 16 bits.
const MOST: usize = 60_000;

/// What happens to elements of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementChange {
    /// They come.
    Add,
    /// They go, those that are still there.
    Delete,
}

impl KernelBatch {
    /// Changes elements of a set, in the order of their keys, with the values of their statements
    /// at the batch's time.
    pub fn elements(
        &mut self,
        change: ElementChange,
        (table, set): (&Table, &Set),
        elements: &[ElementRef<'_, ElementValue>],
    ) {
        let now = self.now;
        let mut list = Writer::default();
        for (at, element) in elements.iter().enumerate() {
            let exprs = match change {
                ElementChange::Add => to_send(element.value.snapshot(now)),
                ElementChange::Delete => Vec::new(),
            };
            let next = elements.get(at + 1).map(|next| next.key);
            let before = list.len();
            // Only its key names what goes.
            let bare = ElementValue::default();
            let shown = match change {
                ElementChange::Add => with_some_time(element, now),
                ElementChange::Delete => ElementRef { value: &bare, expires_at: None, ..*element },
            };
            write_one(&mut list, set, (shown, &exprs), next, now);
            if change == ElementChange::Add {
                self.notes(element, &exprs);
            }
            if list.len() > MOST && before > 0 {
                let rest = list.split_off(before);
                self.list(change, (table, set), std::mem::take(&mut list));
                list.raw(&rest);
            }
        }
        if !list.is_empty() {
            self.list(change, (table, set), list);
        }
    }

    fn notes(&mut self, element: &ElementRef<'_, ElementValue>, exprs: &[Expr]) {
        for (state, expr) in element.value.states().iter().zip(exprs) {
            // What packets change is the caller's.
            if let Some(words) = counted(expr).filter(|_| !matches!(**state, State::InSet { .. })) {
                self.sends(state, words);
            }
        }
    }

    fn list(&mut self, change: ElementChange, (table, set): (&Table, &Set), list: Writer) {
        let kind = match change {
            ElementChange::Add => (NFT_MSG_NEWSETELEM, flags::CREATE),
            // What has expired meanwhile is gone already.
            ElementChange::Delete => (NFT_MSG_DESTROYSETELEM, 0),
        };
        let (family, part) = (table.family, Some(Part::Set(set.name.clone())));
        let subject = Subject { family, table: table.name.clone(), part };
        let list = list.finish();
        self.message(kind, subject, |to| {
            to.string(NFTA_SET_ELEM_LIST_TABLE, &table.name);
            to.string(NFTA_SET_ELEM_LIST_SET, &set.name);
            to.nest(NFTA_SET_ELEM_LIST_ELEMENTS, |to| to.raw(&list));
        });
    }
}

/// The element with at least a millisecond to live: none at all would mean its whole timeout.
fn with_some_time<'a>(
    element: &ElementRef<'a, ElementValue>,
    now: u64,
) -> ElementRef<'a, ElementValue> {
    const MILLISECOND: u64 = 1_000_000;
    let expires_at = element.expires_at.map(|at| at.max(now + MILLISECOND));
    ElementRef { expires_at, ..*element }
}

/// Elements of two generations of a set that one has and the other has not, or has otherwise.
pub(super) fn different(
    before: &Set,
    after: &Set,
    now: u64,
) -> (Vec<Element<ElementValue>>, Vec<Element<ElementValue>>) {
    let (old, new) = (before.elements(), after.elements());
    // Packets change them from now on: they count elsewhere.
    let becomes_dynamic = after.dynamic().is_some();
    let same = |a: ElementRef<'_, ElementValue>, b: ElementRef<'_, ElementValue>| {
        a.key_end == b.key_end
            && a.expires_at == b.expires_at
            && a.value.data == b.value.data
            && a.value.timeout() == b.value.timeout()
            && a.value.userdata() == b.value.userdata()
            && (becomes_dynamic || a.value.states() == b.value.states())
    };
    let by_key = |of: &penstock_sets::Set<ElementValue>| {
        of.iter_unordered()
            .filter(|e| e.is_alive(now))
            .map(|e| ((Box::<[u8]>::from(e.key), e.key_end.map(Box::<[u8]>::from)), e.to_element()))
            .collect::<std::collections::HashMap<_, _>>()
    };
    let (old, new) = (by_key(&old), by_key(&new));
    let missing = |from: &std::collections::HashMap<_, Element<ElementValue>>,
                   other: &std::collections::HashMap<_, Element<ElementValue>>| {
        let mut all: Vec<_> = from
            .iter()
            .filter(|(key, element)| {
                other.get(*key).is_none_or(|there| !same(there.view(), element.view()))
            })
            .map(|(_, element)| element.clone())
            .collect();
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all
    };
    (missing(&old, &new), missing(&new, &old))
}
