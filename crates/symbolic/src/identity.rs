// SPDX-License-Identifier: Apache-2.0

//! What two rulesets have in common: which rules are the same, and which were changed.
//!
//! Rules are the same if their operations are, with sets of the same elements, chains of the same
//! names, and limits of the same parameters. In chains of the same name the longest common
//! sequence of rules is what did not change.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use penstock_program::image::{
    ChainIndex, Image, LinkedData, LinkedValue, LinkedVerdict, RuleIndex, Stateful,
};
use penstock_program::op::Op;
use penstock_program::{DynamicSet, Family};
use penstock_sets::Set;

use crate::program::{Program, asks_input, set_address};

/// Changes of a chain beyond which all of it between its first and last change counts as changed.
const MOST_CHANGES: usize = 2000;

/// Rules of one gap between rules that are the same: those of the old and of the new ruleset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gap {
    pub old: Vec<RuleIndex>,
    pub new: Vec<RuleIndex>,
}

/// What differs.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub gaps: Vec<Gap>,
    /// Base chains, policies or their order differ: every packet may be treated otherwise.
    pub everything: bool,
}

/// What a rule is, as text: the same for rules that do the same.
pub(crate) struct Identities<'a> {
    program: &'a Program<'a>,
    /// Sets by address: a digest of their elements.
    sets: HashMap<usize, [u64; 2]>,
}

type ChainName<'a> = (Family, &'a str, &'a str);

fn chain_name(image: &Image, chain: ChainIndex) -> ChainName<'_> {
    let table = image.table_of(chain);
    let family = table.map_or(Family::Inet, |table| table.family);
    let name = image.chain(chain).map_or("", |chain| &*chain.name);
    (family, table.map_or("", |table| &*table.name), name)
}

/// A verdict with its chain by name.
fn verdict_text(image: &Image, verdict: &LinkedVerdict) -> String {
    match verdict.target() {
        // A chain without a name of its own is what its rules are: they are compared in its place.
        Some((chain, true)) => format!("jump {:?}", chain_name(image, chain)),
        Some((chain, false)) => format!("goto {:?}", chain_name(image, chain)),
        None => format!("{verdict:?}"),
    }
}

fn stateful_text(stateful: &Stateful) -> String {
    match stateful {
        Stateful::Counter(_) => "counter".to_owned(),
        Stateful::Last(_) => "last".to_owned(),
        Stateful::Quota { bytes, over, .. } | Stateful::NamedQuota { bytes, over, .. } => {
            format!("quota {bytes} {over}")
        }
        Stateful::Limit { bucket, .. } => format!("limit {bucket:?}"),
        Stateful::Connlimit { limit, over, .. } => format!("connlimit {limit} {over}"),
        Stateful::Ct(object) => format!("{object:?}"),
        Stateful::Synproxy(offer) => format!("{offer:?}"),
        Stateful::SecMark(mark) => format!("secmark {mark}"),
    }
}

impl<'a> Identities<'a> {
    pub fn new(program: &'a Program<'a>) -> Self {
        Identities { program, sets: HashMap::new() }
    }

    /// A digest of a set's elements, in which their order does not count.
    fn digest(&mut self, set: &Arc<Set<LinkedValue>>) -> [u64; 2] {
        let image = self.program.image;
        *self.sets.entry(Arc::as_ptr(set) as usize).or_insert_with(|| {
            let mut sum = [0u64; 2];
            for element in set.iter_unordered() {
                for (seed, sum) in sum.iter_mut().enumerate() {
                    let mut hasher = DefaultHasher::new();
                    seed.hash(&mut hasher);
                    (element.key, element.key_end.filter(|end| *end != element.key))
                        .hash(&mut hasher);
                    match &element.value.data {
                        LinkedData::None => {}
                        LinkedData::Value(bytes) => bytes.hash(&mut hasher),
                        LinkedData::Long(bytes) => bytes.hash(&mut hasher),
                        LinkedData::Verdict(verdict) => {
                            verdict_text(image, verdict).hash(&mut hasher);
                        }
                        LinkedData::Object(object) => stateful_text(object).hash(&mut hasher),
                    }
                    element.value.statements.iter().for_each(|s| {
                        stateful_text(s).hash(&mut hasher);
                    });
                    *sum = sum.wrapping_add(hasher.finish());
                }
            }
            sum
        })
    }

    /// What an operation is.
    fn op(&mut self, op: &Op, out: &mut String) {
        let number = |set: &Arc<DynamicSet>| self.program.sets.get(&set_address(set)).copied();
        let written = match op {
            Op::Verdict(verdict) => {
                write!(out, "{}", verdict_text(self.program.image, verdict))
            }
            Op::Lookup { src, key_len, inverse, load, set } => {
                let digest = self.digest(set);
                write!(out, "lookup {src} {key_len} {inverse} {load:?} {digest:x?}")
            }
            Op::ObjectMap { src, key_len, set } => {
                let digest = self.digest(set);
                write!(out, "objects {src} {key_len} {digest:x?}")
            }
            Op::LookupDynamic { src, key_len, inverse, load, set } => {
                write!(out, "dynamic {src} {key_len} {inverse} {load:?} {:?}", number(set))
            }
            Op::SetUpdate(update) => {
                let (op, key, data, timeout) =
                    (update.op, (update.key, update.key_len), update.data, update.timeout);
                write!(
                    out,
                    "update {op:?} {} {key:?} {data:?} {timeout} {:?}",
                    update.invert,
                    number(&update.set)
                )
            }
            Op::Counter(_) => write!(out, "counter"),
            Op::Stateful(stateful) => write!(out, "{}", stateful_text(stateful)),
            Op::NumgenInc { modulus, offset, dst, .. } => {
                write!(out, "numgen inc {modulus} {offset} {dst}")
            }
            op => write!(out, "{op:?}"),
        };
        let _ = written;
        out.push('\n');
    }

    /// What operations are.
    fn ops(&mut self, ops: &[Op]) -> String {
        let mut text = String::new();
        for op in ops {
            self.op(op, &mut text);
        }
        text
    }

    /// What a rule is.
    pub fn rule(&mut self, rule: RuleIndex) -> String {
        let ops = self.program.image.ops_at(rule);
        self.ops(ops)
    }

    /// The operations of a rule that ask for what is more than the packet.
    pub fn inputs(&mut self, rule: RuleIndex) -> String {
        let ops = self.program.image.ops_at(rule);
        let mut text = String::new();
        for op in ops.iter().filter(|op| asks_input(op)) {
            self.op(op, &mut text);
        }
        text
    }

    /// What a rule does after its first `looks` operations.
    pub fn tail(&mut self, rule: RuleIndex, looks: usize) -> String {
        let ops = self.program.image.ops_at(rule);
        self.ops(ops.get(looks..).unwrap_or(&[]))
    }
}

/// The longest common sequence of two lists, as pairs of places (E. W. Myers, "An O(ND) difference
/// algorithm and its variations", 1986); `None` if they differ in more than [`MOST_CHANGES`].
fn common(a: &[u32], b: &[u32]) -> Option<Vec<(usize, usize)>> {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a_rest, b_rest) = (&a[start..], &b[start..]);
    let end = a_rest.iter().rev().zip(b_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a_rest, b_rest) = (&a_rest[..a_rest.len() - end], &b_rest[..b_rest.len() - end]);
    let (n, m) = (a_rest.len() as i64, b_rest.len() as i64);
    let most = ((n + m) as usize).min(MOST_CHANGES) as i64;
    let mut furthest: HashMap<i64, i64> = HashMap::from([(1, 0)]);
    let mut steps = Vec::new();
    let mut found = None;
    'search: for d in 0..=most {
        steps.push(furthest.clone());
        for k in (-d..=d).step_by(2) {
            let at = |k: i64| furthest.get(&k).copied().unwrap_or(-1);
            let mut x =
                if k == -d || k != d && at(k - 1) < at(k + 1) { at(k + 1) } else { at(k - 1) + 1 };
            while x < n && x - k < m && a_rest[x as usize] == b_rest[(x - k) as usize] {
                x += 1;
            }
            furthest.insert(k, x);
            if x >= n && x - k >= m {
                found = Some(d);
                break 'search;
            }
        }
    }
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let (mut x, mut y) = (n, m);
    for d in (0..=found?).rev() {
        let furthest = &steps[d as usize];
        let at = |k: i64| furthest.get(&k).copied().unwrap_or(-1);
        let k = x - y;
        let before = if k == -d || k != d && at(k - 1) < at(k + 1) { k + 1 } else { k - 1 };
        let (from_x, from_y) = (at(before), at(before) - before);
        while x > from_x && y > from_y && x > 0 && y > 0 {
            (x, y) = (x - 1, y - 1);
            pairs.push((start + x as usize, start + y as usize));
        }
        if d > 0 {
            (x, y) = (from_x, from_y);
        }
    }
    pairs.reverse();
    let mut all: Vec<(usize, usize)> = (0..start).map(|i| (i, i)).collect();
    all.extend(pairs);
    all.extend((0..end).map(|i| (a.len() - end + i, b.len() - end + i)));
    Some(all)
}

/// Gives rules of two rulesets the same numbers where they are the same, and says which are not.
pub(crate) fn compare(old: &mut Program<'_>, new: &mut Program<'_>) -> Changes {
    let mut changes = Changes::default();
    let mut keys: HashMap<String, u32> = HashMap::new();
    let mut keyed = |program: &Program<'_>| -> Vec<u32> {
        let mut identities = Identities::new(program);
        (0..program.image.rules.len() as u32)
            .map(|rule| {
                let count = keys.len() as u32;
                *keys.entry(identities.rule(RuleIndex(rule))).or_insert(count)
            })
            .collect()
    };
    let (old_keys, new_keys) = (keyed(old), keyed(new));
    let mut next = 0;
    let mut number = || {
        next += 1;
        next - 1
    };
    let mut old_numbers = vec![None; old_keys.len()];
    let mut new_numbers = vec![None; new_keys.len()];
    let chains: HashMap<ChainName<'_>, ChainIndex> = (0..new.image.chains.len() as u32)
        .map(|i| (chain_name(new.image, ChainIndex(i)), ChainIndex(i)))
        .collect();
    for i in 0..old.image.chains.len() as u32 {
        let Some(other) = chains.get(&chain_name(old.image, ChainIndex(i))) else { continue };
        let (Some(a), Some(b)) = (old.image.chain(ChainIndex(i)), new.image.chain(*other)) else {
            continue;
        };
        let a = a.first as usize..a.end as usize;
        let b = b.first as usize..b.end as usize;
        let pairs = common(&old_keys[a.clone()], &new_keys[b.clone()]);
        let pairs = pairs.unwrap_or_else(|| same_ends(&old_keys[a.clone()], &new_keys[b.clone()]));
        let (mut x, mut y) = (a.start, b.start);
        for (to_x, to_y) in
            pairs.into_iter().map(|(x, y)| (a.start + x, b.start + y)).chain([(a.end, b.end)])
        {
            if x < to_x || y < to_y {
                let indexes = |range: std::ops::Range<usize>| {
                    range.map(|rule| RuleIndex(rule as u32)).collect()
                };
                changes.gaps.push(Gap { old: indexes(x..to_x), new: indexes(y..to_y) });
            }
            if to_x < a.end && to_y < b.end {
                let same = number();
                (old_numbers[to_x], new_numbers[to_y]) = (Some(same), Some(same));
            }
            (x, y) = (to_x + 1, to_y + 1);
        }
    }
    // A limit that stands in another rule now is the same limit.
    let mut moved: HashMap<String, Vec<usize>> = HashMap::new();
    let mut identities = Identities::new(old);
    for rule in unnumbered(&old_numbers) {
        let inputs = identities.inputs(RuleIndex(rule as u32));
        if !inputs.is_empty() {
            moved.entry(inputs).or_default().push(rule);
        }
    }
    let mut identities = Identities::new(new);
    for rule in unnumbered(&new_numbers) {
        let inputs = identities.inputs(RuleIndex(rule as u32));
        let Some(rules) = moved.get_mut(&inputs) else { continue };
        if !rules.is_empty() {
            let same = number();
            (old_numbers[rules.remove(0)], new_numbers[rule]) = (Some(same), Some(same));
        }
    }
    old.numbers = old_numbers.into_iter().map(|n| n.unwrap_or_else(&mut number)).collect();
    new.numbers = new_numbers.into_iter().map(|n| n.unwrap_or_else(&mut number)).collect();
    let bases = |program: &Program<'_>| -> Vec<_> {
        let described = program.bases.iter().map(|base| {
            let (family, table, chain) = chain_name(program.image, base.chain);
            let policy = program.image.chain(base.chain).and_then(|c| c.policy_accept);
            let names = (family, table.to_owned(), chain.to_owned());
            (names, base.kind, base.priority, policy)
        });
        described.collect()
    };
    changes.everything = bases(old) != bases(new);
    changes
}

/// Rules that have no number yet.
fn unnumbered(numbers: &[Option<u32>]) -> Vec<usize> {
    numbers.iter().enumerate().filter(|(_, n)| n.is_none()).map(|(rule, _)| rule).collect()
}

/// Pairs of the rules that both lists begin and end with.
fn same_ends(a: &[u32], b: &[u32]) -> Vec<(usize, usize)> {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (rest_a, rest_b) = (&a[start..], &b[start..]);
    let end = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(|(a, b)| a == b).count();
    let ends = (0..end).map(|i| (a.len() - end + i, b.len() - end + i));
    (0..start).map(|i| (i, i)).chain(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_rules_are_the_longest_sequence() {
        for (a, b, pairs) in [
            (&[][..], &[][..], &[][..]),
            (&[1, 2, 3], &[1, 2, 3], &[(0, 0), (1, 1), (2, 2)]),
            (&[1, 2, 3], &[1, 3], &[(0, 0), (2, 1)]),
            (&[1, 3], &[1, 2, 3], &[(0, 0), (1, 2)]),
            (&[1, 2, 3, 4], &[1, 9, 3, 8, 4], &[(0, 0), (2, 2), (3, 4)]),
            (&[1, 2], &[2, 1], &[(1, 0)]),
            (&[1, 2, 3, 4, 5], &[6, 2, 7, 4, 8], &[(1, 1), (3, 3)]),
            (&[1], &[2], &[]),
        ] {
            assert_eq!(common(a, b).as_deref(), Some(pairs), "{a:?} {b:?}");
        }
    }
}
