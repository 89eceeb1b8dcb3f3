// SPDX-License-Identifier: Apache-2.0

//! What a transaction knows of a table beyond the table itself: names to handles, and how often
//! each thing is used.
//!
//! Everything of one kind lies in the table in ascending order of handles, so a handle leads to its
//! place by bisection, and removing something leaves the index right.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use penstock_program::expr::ObjectType;
use penstock_program::reference::Reference;

use super::gone::Gone;
use super::reach::Reach;
use crate::model::{Chain, Flowtable, Object, Rule, Set, Table};
use crate::references;

/// Numbers taken by names of one pattern such as `__set%d`.
#[derive(Clone, Debug, Default)]
struct Numbers {
    taken: BTreeSet<u32>,
    /// None below is free.
    lowest_free: u32,
}

/// Index of one table.
#[derive(Clone, Debug, Default)]
pub(super) struct TableIndex {
    pub chains: HashMap<Arc<str>, u64>,
    pub sets: HashMap<Arc<str>, u64>,
    pub objects: HashMap<(ObjectType, Arc<str>), u64>,
    pub flowtables: HashMap<Arc<str>, u64>,
    /// Uses by handle: jumps and gotos, bindings of sets, references to objects and flowtables.
    uses: HashMap<u64, usize>,
    numbers: HashMap<&'static str, Numbers>,
    /// Rules that the batch has deleted, by chain.
    pub gone: HashMap<u64, Gone>,
    /// Which chains base chains reach; `None` until asked for, and when it may be too much.
    pub reach: Option<Reach>,
}

/// Things with a handle, kept in ascending order of it.
pub(super) trait Handled {
    fn handle(&self) -> u64;
}
macro_rules! handled {
    ($($type:ty),*) => { $(impl Handled for $type { fn handle(&self) -> u64 { self.handle } })* };
}
handled!(Chain, Set, Object, Flowtable, Rule, Table);

/// Place of the thing with this handle.
pub(super) fn place<T: Handled>(list: &[Arc<T>], handle: u64) -> Option<usize> {
    list.binary_search_by_key(&handle, |t| t.handle()).ok()
}

/// The thing with this handle.
pub(super) fn by_handle<T: Handled>(list: &[Arc<T>], handle: u64) -> Option<&Arc<T>> {
    list.get(place(list, handle)?)
}

/// The thing with this handle, to be changed.
pub(super) fn by_handle_mut<T: Handled + Clone>(
    list: &mut [Arc<T>],
    handle: u64,
) -> Option<&mut T> {
    let at = place(list, handle)?;
    list.get_mut(at).map(Arc::make_mut)
}

/// Patterns of generated names.
const PATTERNS: [&str; 3] = ["__set%d", "__map%d", "__objmap%d"];

/// The number in a name of this pattern, as `sscanf` reads it.
fn number_in(name: &str, pattern: &str) -> Option<u32> {
    let rest = name.strip_prefix(pattern.strip_suffix("%d")?)?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    rest.get(..digits)?.parse().ok()
}

impl TableIndex {
    pub fn new(table: &Table) -> Self {
        let mut index = TableIndex::default();
        for chain in &table.chains {
            index.chains.insert(chain.name.clone(), chain.handle);
        }
        for set in &table.sets {
            index.note_set(set);
        }
        for object in &table.objects {
            index.objects.insert((object.value.kind(), object.name.clone()), object.handle);
        }
        for flowtable in &table.flowtables {
            index.flowtables.insert(flowtable.name.clone(), flowtable.handle);
        }
        for rule in table.chains.iter().flat_map(|c| &c.rules) {
            index.count_rule(rule, true);
        }
        for set in table.sets.iter().filter(|s| references::map_refers(s.data)) {
            for element in set.elements().iter_unordered() {
                if let Some(reference) = references::of_element(set.data, element.value) {
                    index.count(reference, true);
                }
            }
        }
        index
    }

    /// For the batch after the one that it was used for.
    pub fn committed(self) -> Self {
        TableIndex { gone: HashMap::new(), ..self }
    }

    /// Handle of what is named.
    pub fn handle_of(&self, reference: Reference<'_>) -> Option<u64> {
        match reference {
            Reference::Chain(name) => self.chains.get(name),
            Reference::Set(name) => self.sets.get(name),
            Reference::Object(kind, name) => self.objects.get(&(kind, name.clone())),
            Reference::Flowtable(name) => self.flowtables.get(name),
        }
        .copied()
    }

    pub fn uses(&self, handle: u64) -> usize {
        self.uses.get(&handle).copied().unwrap_or(0)
    }

    /// Counts a reference that comes (`true`) or goes.
    pub fn count(&mut self, reference: Reference<'_>, comes: bool) {
        let Some(handle) = self.handle_of(reference) else { return };
        let uses = self.uses.entry(handle).or_default();
        *uses = if comes { *uses + 1 } else { uses.saturating_sub(1) };
        if *uses == 0 {
            self.uses.remove(&handle);
        }
    }

    /// Counts all references of a rule.
    pub fn count_rule(&mut self, rule: &Rule, comes: bool) {
        for expr in &rule.exprs {
            expr.references(&mut |reference| self.count(reference, comes));
        }
    }

    pub fn note_set(&mut self, set: &Set) {
        self.sets.insert(set.name.clone(), set.handle);
        for pattern in PATTERNS {
            if let Some(n) = number_in(&set.name, pattern) {
                self.numbers.entry(pattern).or_default().taken.insert(n);
            }
        }
    }

    pub fn forget_set(&mut self, name: &str) {
        self.sets.remove(name);
        for pattern in PATTERNS {
            if let (Some(n), Some(numbers)) =
                (number_in(name, pattern), self.numbers.get_mut(pattern))
            {
                numbers.taken.remove(&n);
                numbers.lowest_free = numbers.lowest_free.min(n);
            }
        }
    }

    /// The name with the smallest free number, as the kernel's `nf_tables_set_alloc_name`; `None`
    /// for a pattern that is not one.
    pub fn free_name(&mut self, pattern: &str) -> Option<Arc<str>> {
        let pattern = PATTERNS.into_iter().find(|p| *p == pattern)?;
        let numbers = self.numbers.entry(pattern).or_default();
        while numbers.taken.contains(&numbers.lowest_free) {
            numbers.lowest_free += 1;
        }
        Some(pattern.replace("%d", &numbers.lowest_free.to_string()).into())
    }
}
