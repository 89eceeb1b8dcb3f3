// SPDX-License-Identifier: Apache-2.0

//! Chains and rules: `nft_do_chain()` as jumps.

use std::collections::HashMap;

use penstock_program::expr::MetaKey;
use penstock_program::image::{ChainIndex, LinkedVerdict, RuleIndex};
use penstock_program::op::Op;
use penstock_wire::ethernet;

use super::frame::*;
use super::sites::Verdict;
use super::words::Words;
use super::{Compiler, Entry, NotOffloadable};
use penstock_bpf::asm::{Cond, Label, Reg::*, Width};
use penstock_bpf::{ProgramKind, netfilter, tcx, xdp};

/// A chain with its continuation: each call has its own copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    chain: ChainIndex,
    /// The base chain.
    pub(super) base: ChainIndex,
    pub(super) inet: bool,
    /// After the rule that called it.
    ret: Label,
    /// The next base chain.
    accept: Label,
}

/// Chains that are called.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    known: HashMap<(ChainIndex, Label), Label>,
    pending: Vec<(Block, Label)>,
}

/// A rule in the making.
pub(super) struct Rule {
    pub(super) index: RuleIndex,
    pub(super) block: Block,
    /// The next rule.
    pub(super) next: Label,
    /// Where chains return to that the rule calls.
    pub(super) after: Label,
    pub(super) words: Words,
    /// Bits of fields that the packet has, as was seen before.
    pub(super) granted: u64,
}

/// How many operations at the beginning of two rules are the same, of those that only look at the
/// packet.
fn shared(a: &[Op], b: &[Op]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| same(a, b)).count()
}

fn same(a: &Op, b: &Op) -> bool {
    match (a, b) {
        (
            Op::LoadLink { dst: a, len: b, offset: c },
            Op::LoadLink { dst: d, len: e, offset: f },
        )
        | (
            Op::LoadNetwork { dst: a, len: b, offset: c },
            Op::LoadNetwork { dst: d, len: e, offset: f },
        )
        | (
            Op::LoadTransport { dst: a, len: b, offset: c },
            Op::LoadTransport { dst: d, len: e, offset: f },
        )
        | (
            Op::LoadInner { dst: a, len: b, offset: c },
            Op::LoadInner { dst: d, len: e, offset: f },
        ) => (a, b, c) == (d, e, f),
        // Another number each time; what a rule may have set between.
        (Op::Meta { key: MetaKey::Prandom | MetaKey::Mark | MetaKey::Priority, .. }, _) => false,
        (Op::CtState { dst: a }, Op::CtState { dst: b }) => a == b,
        (Op::Meta { key: a, dst: b }, Op::Meta { key: c, dst: d }) => (a, b) == (c, d),
        (
            Op::CmpWord { src: a, equal: b, mask: c, data: d },
            Op::CmpWord { src: e, equal: f, mask: g, data: h },
        ) => (a, b, c, d) == (e, f, g, h),
        (
            Op::Cmp { op: a, src: b, len: c, data: d },
            Op::Cmp { op: e, src: f, len: g, data: h },
        ) => (a, b, c, d) == (e, f, g, h),
        _ => false,
    }
}

impl Compiler<'_> {
    /// Both ends of the program: near its beginning, since conditional jumps there cannot go far.
    pub(super) fn ends(&mut self) {
        let chains = self.asm.label();
        self.asm.jump(chains);
        self.asm.bind(self.done);
        let kind = self.job.place.kind();
        self.job.next.emit(&mut self.asm, kind);
        self.asm.bind(self.drop);
        self.asm.exit_with(match kind {
            ProgramKind::Xdp => xdp::DROP,
            ProgramKind::SchedCls => tcx::DROP,
            ProgramKind::Netfilter => netfilter::DROP,
        });
        self.asm.bind(chains);
    }

    /// All base chains and what they call.
    pub(super) fn chains(&mut self) -> Result<(), NotOffloadable> {
        for entry in self.job.entries {
            let accept = self.asm.label();
            let inet = matches!(entry, Entry::Inet(_));
            if inet {
                self.inet_only(accept);
            }
            let ret = self.asm.label();
            let block = Block { chain: entry.chain(), base: entry.chain(), inet, ret, accept };
            let all = |reason: String| NotOffloadable::all(reason);
            self.trace_packet(block).map_err(all)?;
            self.rules(block)?;
            self.asm.bind(ret);
            self.trace_policy(block).map_err(all)?;
            let chain = self.job.image.chain(entry.chain());
            if let Some(state) = chain.and_then(|c| c.policy_counter.as_ref()) {
                self.count(state).map_err(|reason| NotOffloadable::all(&reason))?;
            }
            if chain.is_some_and(|c| c.policy_accept == Some(false)) {
                self.asm.jump(self.drop);
            }
            self.asm.bind(accept);
        }
        self.asm.jump(self.done);
        while let Some((block, label)) = self.blocks.pending.pop() {
            self.asm.bind(label);
            self.rules(block)?;
            self.asm.jump(block.ret);
        }
        self.walk_function();
        self.take_function();
        self.look_up_function();
        self.options_function();
        self.extensions_function();
        self.record_function();
        self.step_function();
        self.answer_function();
        self.symhash_function();
        Ok(())
    }

    /// What is no IP does not meet the chain; malformed IP is dropped.
    fn inet_only(&mut self, others: Label) {
        let (ip, good) = (self.asm.label(), self.asm.label());
        self.asm.load(Width::D, R4, R10, ETHERTYPE);
        self.asm.jump_if(Cond::Eq, R4, i32::from(ethernet::IPV4), ip);
        self.asm.jump_if(Cond::Eq, R4, i32::from(ethernet::IPV6), ip);
        self.asm.jump(others);
        self.asm.bind(ip);
        if let Some(slot) = self.plan.slots.find(Field::L4Proto) {
            let bad = self.asm.label();
            self.require(slot, bad);
            self.asm.jump(good);
            self.asm.bind(bad);
            self.asm.jump(self.drop);
        }
        self.asm.bind(good);
    }

    fn rules(&mut self, block: Block) -> Result<(), NotOffloadable> {
        if let Some(long) = self.plan.long.get(block.chain, block.inet) {
            return self.long_chain(&long, block);
        }
        let image = self.job.image;
        let rules = image.chain(block.chain).map_or(0..0, |c| c.first..c.end);
        let mut rules = rules.map(RuleIndex).peekable();
        while let Some(first) = rules.next() {
            // Rules that begin alike are looked at together: what they share is done once, and
            // where it breaks, all of them do.
            let second = rules.peek().map_or(&[][..], |second| image.ops_at(*second));
            let shared = shared(image.ops_at(first), second);
            let after = self.asm.label();
            let words = Words::new();
            let mut common = Rule { index: first, block, next: after, after, words, granted: 0 };
            if shared > 0 {
                common.next = self.asm.label();
                for op in image.ops_at(first).iter().take(shared) {
                    self.op(op, &mut common)
                        .map_err(|reason| NotOffloadable::rule(image, first, reason))?;
                }
                // The end of them can be far.
                let there = self.asm.label();
                self.asm.jump(there);
                self.asm.bind(common.next);
                self.asm.jump(after);
                self.asm.bind(there);
            }
            let prefix = image.ops_at(first).get(..shared).unwrap_or_default();
            let mut index = first;
            loop {
                self.rule(index, shared, &common)?;
                let alike = |next: &RuleIndex| {
                    shared > 0 && self::shared(prefix, image.ops_at(*next)) == shared
                };
                match rules.next_if(alike) {
                    Some(next) => index = next,
                    None => break,
                }
            }
            self.asm.bind(after);
        }
        Ok(())
    }

    /// A rule, of which the first operations are done.
    fn rule(&mut self, index: RuleIndex, done: usize, common: &Rule) -> Result<(), NotOffloadable> {
        self.check_size()?;
        let next = self.asm.label();
        let mut rule = Rule { index, next, after: next, ..*common };
        self.operations(done, &mut rule)?;
        self.asm.bind(next);
        Ok(())
    }

    /// The operations of a rule but for the first.
    pub(super) fn operations(
        &mut self,
        done: usize,
        rule: &mut Rule,
    ) -> Result<(), NotOffloadable> {
        let image = self.job.image;
        let index = rule.index;
        let refuse = |reason| NotOffloadable::rule(image, index, reason);
        for op in image.ops_at(index).iter().skip(done) {
            self.op(op, rule).map_err(refuse)?;
        }
        self.trace_rule(Verdict::Continue, rule).map_err(refuse)
    }

    /// What follows a verdict; [`LinkedVerdict::Continue`] is the next operation, here.
    pub(super) fn verdict(&mut self, verdict: &LinkedVerdict, rule: &Rule) -> Result<(), String> {
        let chain = |chain: &ChainIndex| {
            self.job.image.chain(*chain).map(|chain| chain.name.clone()).unwrap_or_default()
        };
        let told = match verdict {
            LinkedVerdict::Drop => Some(Verdict::Drop),
            LinkedVerdict::Accept => Some(Verdict::Accept),
            LinkedVerdict::Return => Some(Verdict::Return),
            LinkedVerdict::Jump(to) => Some(Verdict::Jump(chain(to))),
            LinkedVerdict::Goto(to) => Some(Verdict::Goto(chain(to))),
            LinkedVerdict::Continue | LinkedVerdict::Break | LinkedVerdict::Queue { .. } => None,
        };
        if let Some(told) = told {
            self.trace_rule(told, rule)?;
        }
        let to = match verdict {
            LinkedVerdict::Drop => self.drop,
            LinkedVerdict::Accept => rule.block.accept,
            LinkedVerdict::Continue => return Ok(()),
            LinkedVerdict::Break => rule.next,
            LinkedVerdict::Jump(chain) => {
                self.called(Block { chain: *chain, ret: rule.after, ..rule.block })
            }
            LinkedVerdict::Goto(chain) => self.called(Block { chain: *chain, ..rule.block }),
            LinkedVerdict::Return => rule.block.ret,
            LinkedVerdict::Queue { .. } => return Err(self.job.place.no_code("queue")),
        };
        self.asm.jump(to);
        Ok(())
    }

    fn called(&mut self, block: Block) -> Label {
        let Compiler { asm, blocks, .. } = self;
        *blocks.known.entry((block.chain, block.ret)).or_insert_with(|| {
            let label = asm.label();
            blocks.pending.push((block, label));
            label
        })
    }
}
