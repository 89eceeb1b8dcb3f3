// SPDX-License-Identifier: Apache-2.0

//! The interpreter: what programs mean. The other engines are compared with it.
//!
//! This is how chains run; `eval` has what single operations do. [`run`] is `nft_do_chain()`
//! (`net/netfilter/nf_tables_core.c`).

pub mod alike;
pub mod engine;

use std::mem::MaybeUninit;

use penstock_packet::Packet;

use crate::Env;
use crate::classify::Finder;
use crate::env::Trace;
use crate::eval::{Registers, Step, count, execute};
use crate::image::Image;
use crate::linked::{ChainIndex, LinkedRule, LinkedVerdict, RuleIndex};

pub use crate::eval::{jhash, reciprocal_scale};

/// Chains that can wait for the end of another (`NFT_JUMP_STACK_SIZE`).
pub const JUMP_STACK: usize = 16;

/// What a base chain decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `accept`: the next base chain of the hook.
    Accept,
    /// A rule dropped the packet; also after a reject was sent.
    Drop(RuleIndex),
    /// The outside has taken the packet: [`Env::fwd`], [`Env::synproxy`].
    Stolen,
    /// A rule gives the packet to a listener (`NF_QUEUE_NR()`).
    Queue {
        /// Which rule.
        rule: RuleIndex,
        /// Number of the queue.
        num: u16,
        /// Without a listener the packet continues at the next base chain
        /// (`NF_VERDICT_FLAG_QUEUE_BYPASS`); otherwise it is dropped.
        bypass: bool,
    },
    /// No rule decided: the chain's policy does.
    Policy,
}

/// Where a chain continues after another.
#[derive(Clone, Copy)]
struct Frame<'i> {
    chain: ChainIndex,
    rule: u32,
    end: u32,
    /// From this rule on the lookup tells which rules to run.
    ask: u32,
    lookup: Option<Finder<'i>>,
}

/// Where running begins.
#[derive(Clone, Copy)]
struct Start<'i> {
    at: Frame<'i>,
    /// Operations of the first rule that are done with.
    skip: u32,
    /// The first rule is one that the chain's lookup has found.
    found: bool,
}

/// Runs a packet through a base chain and the chains it calls. A chain that does not exist has no
/// rules. Chains must not go to each other in a circle, which the ruleset refuses: such a run does
/// not end.
pub fn run<E: Env>(image: &Image, base: ChainIndex, packet: &mut Packet, env: &mut E) -> Outcome {
    let mut registers = Registers::new();
    let start = Start { at: enter(image, base), skip: 0, found: false };
    run_from(image, start, &mut registers, packet, env).unwrap_or_else(|| {
        trace_policy(image, base, packet, env);
        if let Some(state) = image.chain(base).and_then(|c| c.policy_counter.as_deref()) {
            count(state, packet, env);
        }
        Outcome::Policy
    })
}

/// Tells of a traced packet that no rule of a base chain decided.
#[inline(always)]
fn trace_policy<E: Env>(image: &Image, base: ChainIndex, packet: &Packet, env: &mut E) {
    if packet.meta.nftrace {
        let accept = image.chain(base).and_then(|c| c.policy_accept).unwrap_or(true);
        env.trace(packet, Trace::Policy { chain: base, accept });
    }
}

#[inline(always)]
fn enter(image: &Image, chain: ChainIndex) -> Frame<'_> {
    match image.chains.get(chain.0 as usize) {
        Some(c) => {
            let lookup = c.lookup.as_deref().and_then(|l| l.finder());
            let ask = lookup.map_or(u32::MAX, |l| c.first + l.start());
            Frame { chain, rule: c.first, end: c.end, ask, lookup }
        }
        None => Frame { chain, rule: 0, end: 0, ask: u32::MAX, lookup: None },
    }
}

/// Goes on to the next rule that may do something, as the chain's lookup tells; the number of its
/// operations that are done with it. A packet that is traced meets all rules.
#[inline(never)]
fn advance<E: Env>(image: &Image, at: &mut Frame<'_>, packet: &Packet, env: &mut E) -> u32 {
    let (Some(lookup), Some(chain)) = (at.lookup, image.chain(at.chain)) else { return 0 };
    if packet.meta.nftrace {
        return 0;
    }
    match lookup.next(at.rule - chain.first, packet, env) {
        Some(candidate) => {
            at.rule = chain.first + candidate.rule;
            candidate.skip
        }
        None => {
            at.rule = at.end;
            0
        }
    }
}

/// Runs the rest of a chain and the chains it calls. `None` if the chain comes to its end.
#[inline(always)]
fn run_from<'i, E: Env>(
    image: &'i Image,
    start: Start<'i>,
    registers: &mut Registers,
    packet: &mut Packet,
    env: &mut E,
) -> Option<Outcome> {
    let Start { mut at, mut skip, mut found } = start;
    // Clearing it would cost each packet more than its first rule.
    let mut stack = [const { MaybeUninit::<Frame<'i>>::uninit() }; JUMP_STACK];
    let mut depth = 0;
    loop {
        let mut ended = None;
        while at.rule < at.end {
            if at.rule >= at.ask && skip == 0 && !std::mem::take(&mut found) {
                skip = advance(image, &mut at, packet, env);
                if at.rule >= at.end {
                    break;
                }
            }
            let rule = RuleIndex(at.rule);
            let Some(linked) = image.rules.get(at.rule as usize) else { break };
            at.rule += 1;
            let step = run_rule(image, linked, skip, registers, packet, env);
            skip = 0;
            let verdict = match step {
                Step::Break => continue,
                Step::Next => LinkedVerdict::Continue,
                Step::Verdict(verdict) => verdict,
                Step::Drop => {
                    if packet.meta.nftrace {
                        env.trace(packet, Trace::Taken { rule, word: "drop" });
                    }
                    return Some(Outcome::Drop(rule));
                }
                Step::Stolen => {
                    // An outside that took metadata along with the packet has traced it itself.
                    if packet.meta.nftrace {
                        env.trace(packet, Trace::Taken { rule, word: "stolen" });
                    }
                    return Some(Outcome::Stolen);
                }
            };
            if packet.meta.nftrace && verdict != LinkedVerdict::Return {
                env.trace(packet, Trace::Rule { rule, verdict: &verdict });
            }
            match verdict {
                LinkedVerdict::Accept => return Some(Outcome::Accept),
                LinkedVerdict::Drop => return Some(Outcome::Drop(rule)),
                LinkedVerdict::Queue { num, bypass } => {
                    return Some(Outcome::Queue { rule, num, bypass });
                }
                LinkedVerdict::Continue | LinkedVerdict::Break => {}
                LinkedVerdict::Jump(chain) => {
                    // Commit refuses deeper rulesets; a packet that meets one nevertheless is
                    // dropped.
                    let Some(frame) = stack.get_mut(depth) else {
                        return Some(Outcome::Drop(rule));
                    };
                    frame.write(at);
                    depth += 1;
                    at = enter(image, chain);
                }
                LinkedVerdict::Goto(chain) => at = enter(image, chain),
                LinkedVerdict::Return => {
                    ended = Some(rule);
                    break;
                }
            }
        }
        if packet.meta.nftrace {
            env.trace(packet, Trace::Return { chain: at.chain, rule: ended });
        }
        match depth {
            0 => return None,
            _ => {
                depth -= 1;
                // SAFETY: `depth` grows only when the frame at it was written.
                at = unsafe { stack[depth].assume_init() };
            }
        }
    }
}

/// Runs a rule up to its verdict or the expression that breaks.
#[inline(always)]
fn run_rule<E: Env>(
    image: &Image,
    rule: &LinkedRule,
    skip: u32,
    registers: &mut Registers,
    packet: &mut Packet,
    env: &mut E,
) -> Step {
    for op in image.ops.get((rule.first + skip) as usize..rule.end as usize).unwrap_or(&[]) {
        match execute(op, registers, packet, env) {
            Step::Next | Step::Verdict(LinkedVerdict::Continue) => {}
            Step::Verdict(LinkedVerdict::Break) => return Step::Break,
            step => return step,
        }
    }
    Step::Next
}
