// SPDX-License-Identifier: Apache-2.0

//! Chains and rules: what runs after what.
//!
//! Rules become code in their order. Consecutive rules that begin with the same operations share
//! them, so a header is loaded and checked once for all of them; where they then compare the same
//! word with different constants, the constant is searched for instead of compared with one after
//! the other, if it may be one of them at all (`filter`); where all of many rules only decide then,
//! it is looked up in a table (`rule_table`). Only operations without effects are shared, and a
//! rule that changes the packet is the last one to share anything with those before it, so nothing
//! can be told from running each rule by itself.

use std::collections::BTreeMap;

use penstock_packet::layout;
use penstock_program::expr::MetaKey;
use penstock_program::image::{ChainIndex, Image, LinkedVerdict, RuleIndex};
use penstock_program::op::{Effect, Load, Op};
use penstock_program::{Family, Outcome};

use crate::CompileError;
use crate::analysis::{Analysis, rules};
use crate::asm::{Block, Function, Is, Value, Width};
use crate::filter;
use crate::host::ResumeAt;
use crate::lower::{Flow, lower};
use crate::lowering_ctx::{LoweringCtx, Registers};
use crate::outcome::{self, ENDED, drop_by, step};
use crate::precheck::can_precheck;
use crate::profile::Profile;
use crate::rule_table::{self, Deciding};
use crate::tables::Tables;

/// Constants from which on they are searched for.
const SEARCH: usize = 4;
/// Constants that are compared one after the other where a search ends.
const LEAF: usize = 3;
/// A chain with so many rules at most, chains that it calls included, becomes part of each that
/// calls it.
const IN_LINE: u64 = 6;
/// One that only one rule calls does up to so many.
const IN_LINE_ONCE: u64 = 512;
/// A chain with a lookup is left to the interpreter, which asks it, if a packet would have to pass
/// more steps than this: asking costs as much.
const STEPS: u64 = 128;
/// A chain with a lookup and more operations than this, but for those that tables stand for, is
/// always left to the interpreter: code would take too long to make.
const OPERATIONS: usize = 1 << 16;
/// How rules become code together.
#[derive(Clone, Copy)]
enum Together {
    /// One by itself.
    Alone,
    /// The operation that all begin with runs once.
    Shared,
    /// The constant that a word is compared with is searched for.
    Searched,
    /// It is looked up in a table.
    LookedUp,
}

/// What code for rules costs.
#[derive(Clone, Copy, Default)]
struct Cost {
    /// Operations that code is made for.
    operations: usize,
    /// Comparisons that a packet passes at most, about.
    steps: u64,
}

impl Cost {
    /// Whether it is worth it where the interpreter has a lookup.
    fn is_low(self) -> bool {
        self.operations <= OPERATIONS && self.steps <= STEPS
    }
}

/// Chains within chains in one function at most.
const NESTED: u32 = 6;

/// Packet, host, distance of the worker's cells, entry.
pub(crate) const SHARED_PARAMETERS: usize = 4;

/// A chain that has its own function: for a family of hooks.
pub(crate) type Shared = (ChainIndex, Family);

/// What the functions of a compilation have in common.
pub(crate) struct Program<'a> {
    pub(crate) image: &'a Image,
    pub(crate) analysis: Analysis<'a>,
    pub(crate) tables: Tables,
    /// Functions of chains that were called, and of which not all may have been made.
    pub(crate) shared: BTreeMap<Shared, Function>,
    /// Those that have not.
    pub(crate) missing: Vec<Shared>,
    /// Whether chains are left to the interpreter and their lookup.
    pub(crate) looked_up: BTreeMap<ChainIndex, bool>,
}

/// Where the end of a chain and its verdicts lead.
#[derive(Clone, Copy)]
struct Exits {
    /// The chain's end, and `return`.
    end: Block,
    /// `accept`; `None` if it is decided like all else.
    accept: Option<Block>,
}

/// The chain that code is made for, and where it leads.
#[derive(Clone, Copy)]
struct Place {
    chain: ChainIndex,
    /// The base chain that ends where this chain ends.
    base: Option<ChainIndex>,
    nested: u32,
    exits: Exits,
}

/// Chains on their way into a function.
pub(crate) struct Chains<'p, 'f, 'a, 'i> {
    pub(crate) program: &'p mut Program<'i>,
    pub(crate) ctx: &'p mut LoweringCtx<'f, 'a>,
    /// What went wrong on the way.
    pub(crate) errors: &'p mut Option<CompileError>,
    later: Vec<Later>,
}

/// A block to be made at the end: whether the packet is traced after a chain was called.
struct Later {
    block: Block,
    from: ResumeAt,
    next: Block,
    exits: Exits,
}

/// Whether two operations without effects do the same.
fn same(a: &Op, b: &Op) -> bool {
    match (a, b) {
        (Op::Immediate { dst, len, data }, Op::Immediate { dst: d, len: l, data: e }) => {
            (dst, len, data) == (d, l, e)
        }
        (Op::LoadLink { dst, len, offset }, Op::LoadLink { dst: d, len: l, offset: o })
        | (Op::LoadNetwork { dst, len, offset }, Op::LoadNetwork { dst: d, len: l, offset: o })
        | (
            Op::LoadTransport { dst, len, offset },
            Op::LoadTransport { dst: d, len: l, offset: o },
        ) => (dst, len, offset) == (d, l, o),
        (Op::Meta { key, dst }, Op::Meta { key: k, dst: d }) => {
            *key != MetaKey::Prandom && (key, dst) == (k, d)
        }
        (
            Op::CmpWord { src, equal, mask, data },
            Op::CmpWord { src: s, equal: e, mask: m, data: d },
        ) => (src, equal, mask, data) == (s, e, m, d),
        (Op::Cmp { op, src, len, data }, Op::Cmp { op: o, src: s, len: l, data: d }) => {
            (op, src, len, data) == (o, s, l, d)
        }
        (
            Op::Range { inside, src, len, ends },
            Op::Range { inside: i, src: s, len: l, ends: e },
        ) => (inside, src, len, ends) == (i, s, l, e),
        (
            Op::MaskXorWord { src, dst, mask, xor },
            Op::MaskXorWord { src: s, dst: d, mask: m, xor: x },
        ) => (src, dst, mask, xor) == (s, d, m, x),
        (
            Op::MaskXor { src, dst, words, mask_xor },
            Op::MaskXor { src: s, dst: d, words: w, mask_xor: m },
        ) => (src, dst, words, mask_xor) == (s, d, w, m),
        (Op::CtState { dst }, Op::CtState { dst: d }) => dst == d,
        // Those that the interpreter runs are not worth comparing.
        _ => false,
    }
}

impl<'a> Program<'a> {
    pub(crate) fn new(image: &'a Image) -> Self {
        Program {
            image,
            analysis: Analysis::new(image),
            tables: Tables::default(),
            shared: BTreeMap::new(),
            missing: Vec::new(),
            looked_up: BTreeMap::new(),
        }
    }
}

impl<'p, 'f, 'a, 'i> Chains<'p, 'f, 'a, 'i> {
    pub(crate) fn new(
        program: &'p mut Program<'i>,
        ctx: &'p mut LoweringCtx<'f, 'a>,
        errors: &'p mut Option<CompileError>,
    ) -> Self {
        Chains { program, ctx, errors, later: Vec::new() }
    }

    /// The whole of a base chain; code continues at `end` or `accept`, or has decided.
    pub(crate) fn base(&mut self, chain: ChainIndex, end: Block, accept: Block) {
        let exits = Exits { end, accept: Some(accept) };
        self.chain(Place { chain, base: Some(chain), nested: 0, exits });
    }

    /// The whole of a base chain, by a call of its own function.
    pub(crate) fn base_by_address(&mut self, chain: ChainIndex, end: Block, accept: Block) {
        let Some(function) = self.function_of(chain) else { return self.ctx.asm.jump(end) };
        let ctx = &mut *self.ctx;
        let answer =
            ctx.asm.call_by_address(function, &[ctx.packet, ctx.host, ctx.cells, ctx.entry]);
        if self.program.analysis.summary(chain).changes {
            self.ctx.facts.packet_changed();
        }
        self.answered(answer, Exits { end, accept: Some(accept) });
    }

    /// The function of a chain that is called, which is made later.
    fn function_of(&mut self, chain: ChainIndex) -> Option<Function> {
        let shared = (chain, self.ctx.family);
        if let Some(function) = self.program.shared.get(&shared) {
            return Some(*function);
        }
        match self.ctx.asm.declare(SHARED_PARAMETERS) {
            Ok(function) => {
                self.program.shared.insert(shared, function);
                self.program.missing.push(shared);
                Some(function)
            }
            Err(error) => {
                *self.errors = Some(error);
                None
            }
        }
    }

    /// The whole of a chain with its own function.
    pub(crate) fn shared(&mut self, chain: ChainIndex, end: Block) {
        let exits = Exits { end, accept: None };
        self.chain(Place { chain, base: None, nested: 0, exits });
    }

    fn chain(&mut self, place: Place) {
        let all: Vec<u32> = rules(self.program.image, place.chain).collect();
        if let Some(first) = all
            .first()
            .filter(|_| self.ctx.profile.is_none() && self.is_looked_up(place.chain, &all))
        {
            return self.resume(at(place, *first), place.exits);
        }
        let mark = self.ctx.facts.mark();
        self.rules(place, &all, 0, &Registers::default(), place.exits.end);
        self.ctx.facts.back_to(mark);
    }

    /// Whether the interpreter runs a chain, by its lookup, sooner than code would.
    fn is_looked_up(&mut self, chain: ChainIndex, rules: &[u32]) -> bool {
        if let Some(known) = self.program.looked_up.get(&chain) {
            return *known;
        }
        let lookup = self.program.image.chain(chain).and_then(|c| c.lookup.as_ref());
        let has_lookup = lookup.is_some_and(|lookup| lookup.finder().is_some());
        let is = has_lookup && !self.cost(rules, 0).is_low();
        self.program.looked_up.insert(chain, is);
        is
    }

    /// The next rules that become code together, how they do, and those after them.
    fn together<'r>(
        &mut self,
        rules: &'r [u32],
        done: usize,
        registers: &Registers,
    ) -> Option<(Together, &'r [u32], &'r [u32])> {
        let (&first, others) = rules.split_first()?;
        if self.ctx.profile.is_some() {
            let (these, remaining) = rules.split_at(1);
            return Some((Together::Alone, these, remaining));
        }
        let shared = self.sharing(first, others, done);
        let searched = self.searching(rules, done, registers);
        let (these, remaining) = rules.split_at(shared.max(searched));
        let together = if searched > shared {
            if self.is_table(these, done) { Together::LookedUp } else { Together::Searched }
        } else if shared > 1 {
            Together::Shared
        } else {
            Together::Alone
        };
        Some((together, these, remaining))
    }

    /// Whether rules that compare the same word with a constant each are looked up in a table: they
    /// are many, and only decide.
    fn is_table(&self, rules: &[u32], done: usize) -> bool {
        rules.len() >= rule_table::WORTHWHILE
            && rules.iter().all(|rule| self.deciding(*rule, done + 1).is_some())
    }

    /// What is left of a rule, if that is only to count and to decide.
    fn deciding(&self, rule: u32, done: usize) -> Option<Deciding<'i>> {
        let (mut counter, mut rest) = (None, self.ops(rule).get(done..)?);
        if let [Op::Counter(state), then @ ..] = rest {
            (counter, rest) = (Some(&**state), then);
        }
        match rest {
            [Op::Verdict(LinkedVerdict::Drop), ..] => {
                Some(Deciding { decision: drop_by(RuleIndex(rule)), counter })
            }
            [Op::Verdict(LinkedVerdict::Accept), ..] => {
                Some(Deciding { decision: outcome::ACCEPTED, counter })
            }
            _ => None,
        }
    }

    /// The cost of code for rules; counts no further than it is low.
    fn cost(&mut self, rules: &[u32], done: usize) -> Cost {
        let mut cost = Cost::default();
        let mut rest = rules;
        while cost.is_low()
            && let Some((together, these, remaining)) =
                self.together(rest, done, &Registers::default())
        {
            let all = |chains: &Self| {
                these.iter().map(|rule| chains.ops(*rule).len() - done).sum::<usize>()
            };
            let (operations, steps) = match together {
                Together::Alone => (all(self), 1),
                Together::Shared => {
                    let others = self.cost(these, done + 1);
                    (1 + others.operations, 1 + others.steps)
                }
                Together::Searched => (all(self), 1 + u64::from(these.len().ilog2())),
                Together::LookedUp => (1, 2),
            };
            cost.operations += operations;
            cost.steps += steps;
            rest = remaining;
        }
        cost
    }

    fn ops(&self, rule: u32) -> &'i [Op] {
        self.program.image.ops_at(RuleIndex(rule))
    }

    /// Whether a rule may change what rules after it would load.
    fn changes(&mut self, rule: u32) -> bool {
        self.ops(rule).iter().any(|op| {
            matches!(op.info().effect, Effect::Bytes | Effect::Metadata)
                || op
                    .targets()
                    .iter()
                    .any(|(chain, _)| self.program.analysis.summary(*chain).changes)
        })
    }

    /// The rest of rules, the first `done` operations of which have run, with what they left in
    /// registers. Code continues at `next` after the last of them.
    fn rules(
        &mut self,
        place: Place,
        rules: &[u32],
        done: usize,
        registers: &Registers,
        next: Block,
    ) {
        let outer = self.ctx.way_out.take();
        let mut rest = rules;
        while let Some((together, these, remaining)) = self.together(rest, done, registers) {
            let after = if remaining.is_empty() { next } else { self.ctx.asm.block() };
            match together {
                Together::LookedUp => self.look_up(place, these, done, registers, after),
                Together::Searched => self.search(place, these, done, registers, after),
                Together::Shared => self.share(place, these, done, registers, after),
                Together::Alone => {
                    these.iter().for_each(|rule| self.rule(place, *rule, done, registers, after));
                }
            }
            // What was learnt before the first way out is known where that leads as well.
            if let Some(mark) = self.ctx.way_out.take() {
                self.ctx.facts.back_to(mark);
            }
            if remaining.is_empty() {
                self.ctx.way_out = outer;
                return;
            }
            self.ctx.asm.at(after);
            rest = remaining;
        }
        self.ctx.way_out = outer;
        self.ctx.asm.jump(next);
    }

    /// How many rules, the first included, begin with the same operation.
    fn sharing(&mut self, first: u32, others: &[u32], done: usize) -> usize {
        let Some(op) = self.ops(first).get(done).filter(|op| op.info().effect == Effect::None)
        else {
            return 1;
        };
        self.run_of(first, others, |chains, rule| {
            chains.ops(rule).get(done).is_some_and(|other| same(op, other))
        })
    }

    /// How many of `others` fulfil a condition in a row, the first rule counted, none of them but
    /// the last changing the packet.
    fn run_of(&mut self, first: u32, others: &[u32], alike: impl Fn(&Self, u32) -> bool) -> usize {
        let mut last = first;
        let mut count = 1;
        for &rule in others {
            if !alike(self, rule) || self.changes(last) {
                break;
            }
            count += 1;
            last = rule;
        }
        count
    }

    /// Runs an operation for several rules, and then each of them.
    fn share(
        &mut self,
        place: Place,
        these: &[u32],
        done: usize,
        registers: &Registers,
        after: Block,
    ) {
        self.ctx.asm.mark(these.first().map_or(0, |rule| rule + 1));
        let mut registers = *registers;
        let Some(op) = these.first().and_then(|rule| self.ops(*rule).get(done)) else { return };
        if self.ctx.prechecks && !can_precheck(op) {
            return self.ctx.decide(outcome::UNUSUAL);
        }
        match lower(self.ctx, op, &mut registers, after, &mut self.program.tables) {
            Flow::Next => {
                // Each rule may use the memory of registers for itself.
                let written = op.info().writes;
                for slot in (0..16).filter(|slot| written >> slot & 1 != 0) {
                    self.ctx.word(&mut registers, slot);
                }
                self.rules(place, these, done + 1, &registers, after);
            }
            Flow::Ended => {}
            // No operation that is shared answers so.
            Flow::Step(_) | Flow::Verdicts(_) => self.ctx.asm.jump(after),
        }
    }

    /// How many rules continue with a comparison of the same word with a constant each; 0 if they
    /// are few.
    fn searching(&mut self, rules: &[u32], done: usize, registers: &Registers) -> usize {
        let word = |chains: &Self, rule: u32| match chains.ops(rule).get(done) {
            Some(Op::CmpWord { src, equal: true, mask, .. }) => Some((*src, *mask)),
            _ => None,
        };
        let Some((&first, others)) = rules.split_first() else { return 0 };
        let Some((src, mask)) =
            word(self, first).filter(|(src, _)| registers.constant(*src).is_none())
        else {
            return 0;
        };
        let count =
            self.run_of(first, others, |chains, rule| word(chains, rule) == Some((src, mask)));
        if count < SEARCH { 0 } else { count }
    }

    /// Searches for the constant that a word is, and runs the rules that ask for it in their order.
    fn search(
        &mut self,
        place: Place,
        these: &[u32],
        done: usize,
        registers: &Registers,
        after: Block,
    ) {
        self.ctx.asm.mark(these.first().map_or(0, |rule| rule + 1));
        let mut registers = *registers;
        let mut ways: BTreeMap<u32, (Block, Vec<u32>)> = BTreeMap::new();
        let mut compared = None;
        for &rule in these {
            if let Some(Op::CmpWord { src, mask, data, .. }) = self.ops(rule).get(done) {
                compared = Some((*src, *mask));
                ways.entry(*data)
                    .or_insert_with(|| (self.ctx.asm.block(), Vec::new()))
                    .1
                    .push(rule);
            }
        }
        let Some((src, mask)) = compared else { return };
        let mut value = self.ctx.word(&mut registers, src);
        if mask != u32::MAX {
            value = self.ctx.asm.and_number(value, mask.into());
        }
        self.ctx.leaves();
        let sorted: Vec<(u32, Block)> =
            ways.iter().map(|(data, (block, _))| (*data, *block)).collect();
        if sorted.len() >= filter::WORTHWHILE {
            let constants = sorted.iter().map(|(data, _)| *data);
            filter::leave_if_none(self.ctx.asm, &mut self.program.tables, value, constants, after);
        }
        self.search_tree(value, &sorted, after);
        let mark = self.ctx.facts.mark();
        for (block, rules) in ways.into_values() {
            self.ctx.asm.at(block);
            self.rules(place, &rules, done + 1, &registers, after);
            self.ctx.facts.back_to(mark);
        }
    }

    /// Looks up the constant that a word is, and does what is left of the rule that asks for it.
    fn look_up(
        &mut self,
        place: Place,
        these: &[u32],
        done: usize,
        registers: &Registers,
        after: Block,
    ) {
        self.ctx.asm.mark(these.first().map_or(0, |rule| rule + 1));
        let mut registers = *registers;
        let mut rules = BTreeMap::new();
        let mut compared = None;
        for &rule in these {
            if let Some(Op::CmpWord { src, mask, data, .. }) = self.ops(rule).get(done)
                && let Some(mut deciding) = self.deciding(rule, done + 1)
            {
                compared = Some((*src, *mask));
                if self.ctx.prechecks && deciding.counter.take().is_some() {
                    deciding.decision = outcome::UNUSUAL;
                }
                // The first one has decided before any other.
                rules.entry(*data).or_insert(deciding);
            }
        }
        let Some((src, mask)) = compared else { return };
        let mut value = self.ctx.word(&mut registers, src);
        if mask != u32::MAX {
            value = self.ctx.asm.and_number(value, mask.into());
        }
        self.ctx.leaves();
        let tables = &mut self.program.tables;
        filter::leave_if_none(self.ctx.asm, tables, value, rules.keys().copied(), after);
        let accepts = rules.values().any(|rule| rule.decision == outcome::ACCEPTED);
        let decision = rule_table::look_up(self.ctx, tables, value, &rules, after);
        if accepts {
            self.when(decision, outcome::ACCEPTED, |chains| chains.accept(place.exits));
        }
        self.ctx.decide_value(decision);
    }

    fn search_tree(&mut self, value: Value, sorted: &[(u32, Block)], after: Block) {
        let asm = &mut self.ctx.asm;
        if sorted.len() <= LEAF {
            for (data, block) in sorted {
                let equal = asm.is_number(value, Is::Equal, u64::from(*data));
                asm.leave_if(equal, *block);
            }
            asm.jump(after);
            return;
        }
        let (low, high) = sorted.split_at(sorted.len() / 2);
        let (left, right) = (asm.block(), asm.block());
        let below = asm.is_number(value, Is::Below, u64::from(high[0].0));
        asm.branch(below, left, right);
        asm.at(left);
        self.search_tree(value, low, after);
        self.ctx.asm.at(right);
        self.search_tree(value, high, after);
    }

    /// What is left of a rule.
    fn rule(&mut self, place: Place, rule: u32, done: usize, registers: &Registers, after: Block) {
        self.ctx.asm.mark(rule + 1);
        self.ctx.tick(Profile::number_of_rule(rule));
        let mut registers = *registers;
        for (i, op) in self.ops(rule).iter().enumerate().skip(done) {
            if let Op::Verdict(verdict) = op {
                if *verdict == LinkedVerdict::Continue {
                    continue;
                }
                return self.verdict(place, rule, *verdict, after);
            }
            if self.ctx.prechecks && !can_precheck(op) {
                return self.ctx.decide(outcome::UNUSUAL);
            }
            match lower(self.ctx, op, &mut registers, after, &mut self.program.tables) {
                Flow::Next => {}
                Flow::Ended => return,
                Flow::Verdicts(ways) => {
                    let on = self.verdicts(place, rule, &ways, after);
                    match on {
                        Some(on) => self.ctx.asm.at(on),
                        None => return,
                    }
                }
                Flow::Step(answer) => self.step(place, rule, op, answer, after),
            }
            if matches!(op.info().effect, Effect::Bytes | Effect::Metadata) {
                self.ctx.facts.packet_changed();
            }
            if matches!(op, Op::MetaSet { key: MetaKey::NfTrace, .. }) {
                self.ctx.spill(&registers, u16::MAX);
                let skip = (i + 1) as u16;
                self.switch(ResumeAt { skip, begins: true, ..at(place, rule) }, place.exits);
            }
        }
        self.ctx.asm.jump(after);
    }

    /// Verdicts of an inlined map; returns where the rule continues, if it does.
    fn verdicts(
        &mut self,
        place: Place,
        rule: u32,
        ways: &[(Block, LinkedVerdict)],
        after: Block,
    ) -> Option<Block> {
        let mut on = None;
        let mark = self.ctx.facts.mark();
        for (block, verdict) in ways {
            if *verdict == LinkedVerdict::Continue {
                on = Some(*block);
                continue;
            }
            self.ctx.asm.at(*block);
            self.verdict(place, rule, *verdict, after);
            self.ctx.facts.back_to(mark);
        }
        on
    }

    /// Sorts out what the interpreter answered; continues where that was to continue.
    fn step(&mut self, place: Place, rule: u32, op: &Op, answer: Value, after: Block) {
        self.ctx.leaves();
        let asm = &mut self.ctx.asm;
        let (on, other) = (asm.block(), asm.block());
        let next = asm.is_number(answer, Is::Equal, step::NEXT);
        asm.branch(next, on, other);
        asm.at(other);
        let broke = asm.is_number(answer, Is::Equal, step::BREAK);
        asm.leave_if(broke, after);
        let mark = self.ctx.facts.mark();
        self.when(answer, step::ACCEPT, |chains| chains.accept(place.exits));
        if matches!(op, Op::Lookup { load: Load::Verdict, .. }) {
            self.when(answer, step::RETURN, |chains| chains.ctx.asm.jump(place.exits.end));
            for (chain, call) in op.targets() {
                let kind = if call { step::JUMP } else { step::GOTO } | u64::from(chain.0) << 32;
                let verdict =
                    if call { LinkedVerdict::Jump(chain) } else { LinkedVerdict::Goto(chain) };
                self.when(answer, kind, |chains| chains.verdict(place, rule, verdict, after));
                self.ctx.facts.back_to(mark);
            }
        } else {
            self.when(answer, step::STOLEN, |chains| {
                chains.ctx.decide(outcome::pack(Outcome::Stolen))
            });
        }
        if matches!(op, Op::Lookup { load: Load::Verdict, .. } | Op::Queue(_)) {
            // The decision is there but for the kind, which tells it from what was compared above,
            // and the rule.
            let asm = &mut self.ctx.asm;
            let (queued, dropped) = (asm.block(), asm.block());
            let kind = asm.and_number(answer, step::QUEUE);
            let is = asm.is_number(kind, Is::Equal, step::QUEUE);
            asm.branch(is, queued, dropped);
            asm.at(queued);
            let as_decision = step::QUEUE ^ outcome::pack(queue_by(rule)) & step::QUEUE;
            let answer = asm.xor_number(answer, as_decision);
            let rule = asm.long(outcome::pack(queue_by(rule)) & !step::QUEUE);
            let answer = asm.or(answer, rule);
            self.ctx.decide_value(answer);
            self.ctx.asm.at(dropped);
        }
        self.ctx.decide(drop_by(RuleIndex(rule)));
        self.ctx.asm.at(on);
    }

    /// Code for the case that a value is a number; the other case continues.
    fn when(&mut self, value: Value, number: u64, then: impl FnOnce(&mut Self)) {
        let asm = &mut self.ctx.asm;
        let (yes, no) = (asm.block(), asm.block());
        let is = asm.is_number(value, Is::Equal, number);
        asm.branch(is, yes, no);
        asm.at(yes);
        then(self);
        self.ctx.asm.at(no);
    }

    fn verdict(&mut self, place: Place, rule: u32, verdict: LinkedVerdict, after: Block) {
        let exits = place.exits;
        match verdict {
            LinkedVerdict::Accept => self.accept(exits),
            LinkedVerdict::Drop => self.ctx.decide(drop_by(RuleIndex(rule))),
            LinkedVerdict::Queue { num, bypass } => {
                let rule = RuleIndex(rule);
                self.ctx.decide(outcome::pack(Outcome::Queue { rule, num, bypass }));
            }
            LinkedVerdict::Continue | LinkedVerdict::Break => self.ctx.asm.jump(after),
            LinkedVerdict::Return => self.ctx.asm.jump(exits.end),
            LinkedVerdict::Jump(chain) => {
                let after = if self.program.analysis.summary(chain).traces {
                    // Where the chain has begun a trace, the interpreter continues with the rule
                    // after this one.
                    let from = ResumeAt { rule: RuleIndex(rule + 1), ..at(place, rule) };
                    self.switching(from, after, exits)
                } else {
                    after
                };
                let exits = Exits { end: after, ..exits };
                self.call(Place { chain, base: None, nested: place.nested + 1, exits });
            }
            LinkedVerdict::Goto(chain) => {
                let traces = self.program.analysis.summary(chain).traces;
                let inside = Place { chain, nested: place.nested + 1, ..place };
                let end = if traces && place.base.is_some() && !self.in_line(inside) {
                    // All that is left then is to tell of the policy.
                    let from = ResumeAt { over: true, ..at(place, rule) };
                    self.switching(from, exits.end, exits)
                } else {
                    exits.end
                };
                self.call(Place { exits: Exits { end, ..exits }, ..inside });
            }
        }
    }

    fn accept(&mut self, exits: Exits) {
        match exits.accept {
            Some(block) => self.ctx.asm.jump(block),
            None => self.ctx.decide(outcome::ACCEPTED),
        }
    }

    /// Whether a chain becomes part of what calls it.
    fn in_line(&mut self, inside: Place) -> bool {
        let weight = self.program.analysis.summary(inside.chain).weight;
        let once = self.program.analysis.callers.get(&inside.chain) == Some(&1);
        inside.nested <= NESTED && (weight <= IN_LINE || once && weight <= IN_LINE_ONCE)
    }

    /// Runs another chain.
    fn call(&mut self, inside: Place) {
        if self.in_line(inside) {
            return self.chain(inside);
        }
        let exits = inside.exits;
        let Some(function) = self.function_of(inside.chain) else {
            return self.ctx.asm.jump(exits.end);
        };
        let ctx = &mut *self.ctx;
        let answer = ctx.asm.call(function, &[ctx.packet, ctx.host, ctx.cells, ctx.entry]);
        if self.program.analysis.summary(inside.chain).changes {
            self.ctx.facts.packet_changed();
        }
        self.answered(answer, exits);
    }

    /// Goes where the answer of a chain leads.
    fn answered(&mut self, answer: Value, exits: Exits) {
        let asm = &mut self.ctx.asm;
        let decided = asm.block();
        let ended = asm.is_number(answer, Is::Equal, ENDED);
        asm.branch(ended, exits.end, decided);
        asm.at(decided);
        if let Some(accept) = exits.accept {
            let accepted = asm.is_number(answer, Is::Equal, outcome::ACCEPTED);
            asm.leave_if(accepted, accept);
        }
        self.ctx.decide_value(answer);
    }

    /// A block that leads to `next`, or, if the packet is traced by now, to the interpreter.
    fn switching(&mut self, from: ResumeAt, next: Block, exits: Exits) -> Block {
        let block = self.ctx.asm.block();
        self.later.push(Later { block, from, next, exits });
        block
    }

    /// Lets the interpreter continue if the packet is traced by now.
    fn switch(&mut self, from: ResumeAt, exits: Exits) {
        let asm = &mut self.ctx.asm;
        let (traced, on) = (asm.cold_block(), asm.block());
        let nftrace = asm.load(Width::Byte, self.ctx.packet, layout::NFTRACE);
        asm.branch(nftrace, traced, on);
        asm.at(traced);
        self.resume(from, exits);
        self.ctx.asm.at(on);
    }

    fn resume(&mut self, from: ResumeAt, exits: Exits) {
        let ctx = &mut *self.ctx;
        let [place, rest] = from.pack().map(|number| ctx.asm.long(number));
        let image = ctx.asm.long(std::ptr::from_ref(ctx.image).addr() as u64);
        let answer = ctx.asm.call_address(
            ctx.helpers.resume,
            &[ctx.packet, ctx.host, image, place, rest, ctx.memory, ctx.entry],
        );
        self.answered(answer, exits);
    }

    /// Blocks that [`Chains::switching`] has promised.
    pub(crate) fn finish(&mut self) {
        while let Some(Later { block, from, next, exits }) = self.later.pop() {
            self.ctx.asm.at(block);
            self.switch(from, exits);
            self.ctx.asm.jump(next);
        }
    }
}

/// The decision of a rule for queue 0.
fn queue_by(rule: u32) -> Outcome {
    Outcome::Queue { rule: RuleIndex(rule), num: 0, bypass: false }
}

/// A rule of a chain, from its first operation on.
fn at(place: Place, rule: u32) -> ResumeAt {
    let (chain, rule) = (place.chain, RuleIndex(rule));
    ResumeAt { chain, rule, skip: 0, base: place.base, begins: false, over: false }
}
