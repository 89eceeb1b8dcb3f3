// SPDX-License-Identifier: Apache-2.0

//! The fields that a chain's rules test, and its rules as intervals of them.

use std::collections::BTreeMap;

use penstock_classify::{Interval, MAX_DIMENSIONS};

use super::recognise::{Condition, Conditions, Source, Span, Test};

/// Entries that the sets of a rule may multiply to.
const ALTERNATIVES: usize = 256;

/// The spans that are a classifier's dimensions; none overlaps another.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(pub Vec<Span>);

impl Fields {
    /// Those that the rules test, the frequent ones if there are too many.
    pub fn new(rules: &[Conditions]) -> Fields {
        // Wherever a load or a test begins, a field begins.
        let mut starts: BTreeMap<(Source, u16), u16> = BTreeMap::new();
        let mut begin = |span: &Span| {
            let end = starts.entry((span.source, span.at)).or_default();
            *end = (*end).max(span.at + u16::from(span.len));
        };
        for rule in rules {
            rule.loads.iter().for_each(&mut begin);
            tests(rule).for_each(|(span, _)| begin(span));
        }
        let mut spans: Vec<Span> = Vec::new();
        let mut starts = starts.into_iter().peekable();
        let mut reach = 0;
        let mut before = None;
        while let Some(((source, mut at), end)) = starts.next() {
            reach = if before == Some(source) { reach.max(end) } else { end };
            before = Some(source);
            let next = starts
                .peek()
                .filter(|((s, _), _)| *s == source)
                .map_or(u16::MAX, |((_, at), _)| *at);
            while at < reach.min(next) {
                let len = (reach.min(next) - at).min(16);
                spans.push(Span { source, at, len: len as u8 });
                at += len;
            }
        }
        let mut uses = vec![0u32; spans.len()];
        let mut fields = Fields(spans);
        for rule in rules {
            for (span, _) in tests(rule) {
                fields.of(span).for_each(|i| uses[i] += 1);
            }
        }
        let mut order: Vec<usize> = (0..uses.len()).filter(|i| uses[*i] > 0).collect();
        order.sort_by_key(|i| std::cmp::Reverse(uses[*i]));
        order.truncate(MAX_DIMENSIONS);
        order.sort_unstable();
        fields.0 = order.into_iter().map(|i| fields.0[i]).collect();
        fields
    }

    /// Fields that a span touches.
    fn of(&self, span: &Span) -> impl Iterator<Item = usize> {
        let (source, from, to) = (span.source, span.at, span.at + u16::from(span.len));
        let touches =
            move |f: &Span| f.source == source && f.at < to && from < f.at + u16::from(f.len);
        self.0.iter().enumerate().filter(move |(_, f)| touches(f)).map(|(i, _)| i)
    }

    /// Bytes of each.
    pub fn widths(&self) -> Vec<u8> {
        self.0.iter().map(|f| f.len).collect()
    }

    /// Whether all bytes of the span are in fields.
    fn covers(&self, span: &Span) -> bool {
        let covered: u16 = self
            .of(span)
            .map(|i| {
                let f = self.0[i];
                let end = (f.at + u16::from(f.len)).min(span.at + u16::from(span.len));
                end - f.at.max(span.at)
            })
            .sum();
        covered == u16::from(span.len)
    }

    /// Whether bytes are there if the fields are: then so is all that comes before them.
    fn implies(&self, load: &Span) -> bool {
        let end = |span: &Span| match span.source {
            Source::Metadata(_) => 0,
            Source::Network(_) | Source::Transport | Source::Link => span.at + u16::from(span.len),
        };
        self.0.iter().any(|f| f.source == load.source && end(f) >= end(load))
    }

    /// A rule's alternatives, each a list of intervals, and whether they are all that its exact
    /// operations ask.
    pub fn intervals(&self, rule: &Conditions) -> (Vec<Vec<Interval>>, bool) {
        let mut exact = rule.loads.iter().all(|span| self.implies(span));
        let mut first = Vec::new();
        for condition in &rule.all {
            exact &= self.add(condition, &mut first);
        }
        let mut alternatives = vec![first];
        // Small sets first: those that would be too much are left aside.
        let mut sets: Vec<_> = rule.sets.iter().collect();
        sets.sort_by_key(|s| s.len());
        for set in sets {
            if alternatives.len() * set.len() > ALTERNATIVES {
                exact = false;
                continue;
            }
            let mut product = Vec::with_capacity(alternatives.len() * set.len());
            for alternative in &alternatives {
                for element in set {
                    let mut both = alternative.clone();
                    for condition in element {
                        exact &= self.add(condition, &mut both);
                    }
                    product.push(both);
                }
            }
            alternatives = product;
        }
        (alternatives, exact)
    }

    /// Adds the intervals of a condition; whether they say all of it.
    fn add(&self, (span, test): &Condition, to: &mut Vec<Interval>) -> bool {
        match test {
            Test::Masked { mask, value } => {
                let mut whole = self.covers(span);
                for i in self.of(span) {
                    let (prefix, interval) = self.prefix(i, span, mask, value);
                    to.extend(interval);
                    whole &= prefix;
                }
                whole
            }
            Test::Between { from, to: last } => {
                let Some(i) = self.of(span).next() else { return false };
                let field = self.0[i];
                if field.at != span.at {
                    return false;
                }
                let len = usize::from(span.len.min(field.len));
                to.push(Interval {
                    dimension: i as u8,
                    from: number(&from[..len], field.len, 0),
                    to: number(&last[..len], field.len, 0xff),
                });
                span.len <= field.len
            }
        }
    }

    /// What a masked test asks of a field, as far as it is about the field's leading bits; whether
    /// it is.
    fn prefix(
        &self,
        i: usize,
        span: &Span,
        mask: &[u8; 16],
        value: &[u8; 16],
    ) -> (bool, Option<Interval>) {
        let field = self.0[i];
        let (mut low, mut known) = (0u128, 0u32);
        let (mut leading, mut all) = (true, true);
        for at in field.at..field.at + u16::from(field.len) {
            let within =
                at.checked_sub(span.at).map(usize::from).filter(|i| *i < usize::from(span.len));
            let (m, v) = within.map_or((0, 0), |i| (mask[i], value[i]));
            low <<= 8;
            if leading {
                let ones = m.leading_ones();
                let kept = if ones == 0 { 0 } else { 0xff << (8 - ones) };
                low |= u128::from(v & kept);
                known += ones;
                leading = ones == 8;
                all &= m == kept;
            } else {
                all &= m == 0;
            }
        }
        let bits = 8 * u32::from(field.len);
        if known == 0 {
            return (all, None);
        }
        let free = (1u128.checked_shl(bits - known).unwrap_or(0)).wrapping_sub(1);
        (all, Some(Interval { dimension: i as u8, from: low, to: low | free }))
    }
}

/// Bytes as a number of a field of so many bytes, what is missing filled up.
fn number(bytes: &[u8], len: u8, fill: u8) -> u128 {
    let filled = bytes.iter().copied().chain(std::iter::repeat(fill));
    filled.take(usize::from(len)).fold(0, |n, byte| n << 8 | u128::from(byte))
}

fn tests(rule: &Conditions) -> impl Iterator<Item = (&Span, &Test)> {
    rule.all.iter().chain(rule.sets.iter().flatten().flatten()).map(|(span, test)| (span, test))
}
