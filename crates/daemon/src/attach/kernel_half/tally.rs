// SPDX-License-Identifier: Apache-2.0

//! What the kernel has counted, in the ruleset's states.
//!
//! What is new since the last look is added to a state. A client that resets counters and quotas
//! resets the state; that it has become less tells so, and the kernel is reset, too.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use penstock_netlink::RulesSocket;
use penstock_nfnetlink::kernel::{self, DumpedRule, counted};
use penstock_program::State;
use penstock_program::expr::Expr;
use penstock_program::state::Words;
use penstock_ruleset::Table;
use penstock_ruleset::model::{Chain, Rule};

use super::ask;

/// Times of `last` that differ by so much are the same: the kernel rounds to milliseconds (ns).
const ROUNDED: u64 = 3_000_000;

/// A state and its counterpart in the kernel.
#[derive(Debug)]
struct Tally {
    state: Arc<State>,
    /// What the kernel had counted.
    seen: Words,
    /// What the state had then.
    ours: Words,
    /// When `last` was reached (ns).
    at: Option<u64>,
}

/// States by their address.
#[derive(Debug, Default)]
pub(super) struct Tallies(HashMap<usize, Tally>);

/// What is more than before; everything if it was reset meanwhile.
pub(super) fn more(now: Words, seen: Words) -> Words {
    match now[0] < seen[0] || now[1] < seen[1] {
        true => now,
        false => [now[0] - seen[0], now[1] - seen[1]],
    }
}

/// Whether a client has reset what had these words.
pub(super) fn is_reset(words: Words, ours: Words) -> bool {
    words[0] < ours[0] || words[1] < ours[1]
}

impl Tallies {
    fn of(&mut self, state: &Arc<State>) -> &mut Tally {
        let none = || Tally { state: state.clone(), seen: [0; 2], ours: [0; 2], at: None };
        self.0.entry(Arc::as_ptr(state).addr()).or_insert_with(none)
    }

    /// The kernel counts on from these words.
    pub(super) fn begins(&mut self, state: &Arc<State>, words: Words) {
        let tally = self.of(state);
        tally.seen = words;
        tally.ours = state.words().unwrap_or_default();
    }

    /// Forgets states that nobody else has.
    pub(super) fn release(&mut self) {
        self.0.retain(|_, tally| Arc::strong_count(&tally.state) > 1);
    }

    /// Takes the values of some states as a dump shows them at a time (ns); whether a client has
    /// reset one of them.
    fn take<'s>(
        &mut self,
        values: impl Iterator<Item = (&'s Arc<State>, &'s Expr)>,
        now: u64,
    ) -> bool {
        let mut reset = false;
        for (state, value) in values {
            reset |= self.of(state).take(value, now);
        }
        reset
    }

    /// [`Tallies::take`] of values that were reset when they were shown.
    fn take_last<'s>(
        &mut self,
        values: impl Iterator<Item = (&'s Arc<State>, &'s Expr)>,
        now: u64,
    ) {
        for (state, value) in values {
            let tally = self.of(state);
            tally.take(value, now);
            tally.seen = [0; 2];
        }
    }

    /// Takes what the kernel has counted of a table at a time (ns).
    ///
    /// # Errors
    /// Those of netlink.
    pub(super) fn collect(
        &mut self,
        socket: &mut RulesSocket,
        table: &Table,
        now: u64,
    ) -> io::Result<()> {
        self.collect_rules(socket, table, now)?;
        self.collect_policies(socket, table, now)?;
        self.collect_objects(socket, table, now)?;
        self.collect_elements(socket, table, now)
    }

    fn collect_rules(
        &mut self,
        socket: &mut RulesSocket,
        table: &Table,
        now: u64,
    ) -> io::Result<()> {
        if !table.chains.iter().flat_map(|chain| &chain.rules).any(|rule| !rule.states.is_empty()) {
            return Ok(());
        }
        for (chain, rule, dumped) in rules(socket, table)? {
            if !self.take(values(rule, &dumped), now) {
                continue;
            }
            let (number, body) = kernel::reset_rule(table, &chain.name, dumped.handle);
            for body in socket.ask(number, &body)? {
                if let Some(last) = kernel::dumped_rule(&body) {
                    self.take_last(values(rule, &last), now);
                }
            }
        }
        Ok(())
    }

    fn collect_policies(
        &mut self,
        socket: &mut RulesSocket,
        table: &Table,
        now: u64,
    ) -> io::Result<()> {
        if table.chains.iter().all(|chain| chain.counter.is_none()) {
            return Ok(());
        }
        for body in ask(socket, &kernel::ask_chains(table.family))? {
            let Some((of, name, Some(counter))) = kernel::dumped_chain(&body) else { continue };
            let is_it = |chain: &&Arc<Chain>| of == *table.name && name == *chain.name;
            let state = table.chains.iter().find(is_it).and_then(|chain| chain.counter.as_ref());
            if let Some(state) = state {
                self.take([(state, &Expr::Counter(counter))].into_iter(), now);
            }
        }
        Ok(())
    }

    fn collect_objects(
        &mut self,
        socket: &mut RulesSocket,
        table: &Table,
        now: u64,
    ) -> io::Result<()> {
        if table.objects.iter().all(|object| object.state.is_none()) {
            return Ok(());
        }
        for body in ask(socket, &kernel::ask_objects(table))? {
            let Some((name, value)) = kernel::dumped_object(&body) else { continue };
            let is_it = |object: &&Arc<penstock_ruleset::Object>| {
                let expr = object.value.as_expr();
                *object.name == *name && expr.is_some_and(|expr| expr.is_of_kind(&value))
            };
            let Some(object) = table.objects.iter().find(is_it) else { continue };
            let Some(state) = &object.state else { continue };
            if self.take([(state, &value)].into_iter(), now) {
                let (number, body) = kernel::reset_object(table, object);
                for body in socket.ask(number, &body)? {
                    if let Some((_, last)) = kernel::dumped_object(&body) {
                        self.take_last([(state, &last)].into_iter(), now);
                    }
                }
            }
        }
        Ok(())
    }

    /// Elements of sets that packets do not change otherwise.
    fn collect_elements(
        &mut self,
        socket: &mut RulesSocket,
        table: &Table,
        now: u64,
    ) -> io::Result<()> {
        for set in table.sets.iter().filter(|set| set.dynamic().is_none()) {
            let elements = set.elements();
            if !elements.iter_unordered().any(|element| !element.value.states().is_empty()) {
                continue;
            }
            let by_key: HashMap<_, _> = elements
                .iter_unordered()
                .map(|element| ((element.key, element.key_end), element.value.states()))
                .collect();
            let by_begin: HashMap<_, _> = elements
                .iter_unordered()
                .map(|element| (element.key, element.value.states()))
                .collect();
            for body in ask(socket, &kernel::ask_elements(table, set))? {
                for dumped in kernel::dumped_elements(&body).into_iter().filter(|e| !e.end) {
                    let exact = by_key.get(&(&*dumped.key, dumped.key_end.as_deref()));
                    let Some(states) = exact.or_else(|| by_begin.get(&*dumped.key)) else {
                        continue;
                    };
                    let values = || states.iter().zip(&dumped.statements);
                    if !self.take(values(), now) {
                        continue;
                    }
                    let (number, body) = kernel::reset_element(table, set, &dumped.key);
                    let answer = socket.ask(number, &body)?;
                    for last in answer.iter().flat_map(|body| kernel::dumped_elements(body)) {
                        self.take_last(states.iter().zip(&last.statements), now);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Tally {
    /// Whether a client has reset it.
    fn take(&mut self, value: &Expr, now: u64) -> bool {
        if let (Expr::Last(last), State::Last(state)) = (value, &*self.state) {
            let at = last.set.then(|| now.saturating_sub(last.msecs.saturating_mul(1_000_000)));
            if let Some(at) = at
                && self.at.is_none_or(|before| at > before.saturating_add(ROUNDED))
            {
                state.touch(at);
                self.at = Some(at);
            }
            return false;
        }
        let Some(words) = counted(value) else { return false };
        let reset = is_reset(self.state.words().unwrap_or_default(), self.ours);
        self.state.add(more(words, self.seen));
        self.seen = words;
        self.ours = self.state.words().unwrap_or_default();
        reset
    }
}

/// The states of a rule that has some, with their values.
fn values<'r>(
    rule: &'r Rule,
    dumped: &'r DumpedRule,
) -> impl Iterator<Item = (&'r Arc<State>, &'r Expr)> {
    let stateful = rule.exprs.iter().zip(&dumped.statements).filter(|(expr, _)| expr.is_stateful());
    rule.states
        .iter()
        .zip(stateful)
        .filter_map(|(state, (_, value))| Some((state, value.as_ref()?)))
}

/// A rule with its chain, and what a dump says of it.
type InKernel<'t> = (&'t Arc<Chain>, &'t Arc<Rule>, DumpedRule);

/// The rules of a table that are in the kernel, each with what a dump says of it. Nobody else
/// changes the table, so they have the same order.
pub(super) fn rules<'t>(
    socket: &mut RulesSocket,
    table: &'t Table,
) -> io::Result<Vec<InKernel<'t>>> {
    let mut dumped: HashMap<String, Vec<DumpedRule>> = HashMap::new();
    for body in ask(socket, &kernel::ask_rules(table))? {
        if let Some(rule) = kernel::dumped_rule(&body) {
            dumped.entry(rule.chain.clone()).or_default().push(rule);
        }
    }
    let mut all = Vec::new();
    for chain in &table.chains {
        let there = dumped.remove(&*chain.name).unwrap_or_default();
        if there.len() != chain.rules.len() {
            return Err(io::Error::other(format!(
                "chain {} {} {} has {} rules there, not {}",
                table.family.name(),
                table.name,
                chain.name,
                there.len(),
                chain.rules.len()
            )));
        }
        all.extend(chain.rules.iter().zip(there).map(|(rule, dumped)| (chain, rule, dumped)));
    }
    Ok(all)
}
