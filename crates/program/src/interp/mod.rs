// SPDX-License-Identifier: Apache-2.0

//! The interpreter: what programs mean. The other engines are compared with it.
//!
//! One file per expression group. Each takes registers, packet and environment, and answers with a
//! [`Step`]. [`run`] is `nft_do_chain()` (`net/netfilter/nf_tables_core.c`).

mod bitwise;
mod compare;
mod ct;
mod dup_fwd;
mod dynset;
pub mod engine;
mod exthdr;
mod fib;
mod hash;
mod inner;
mod lookup;
mod meta;
mod nat;
mod numgen;
mod osf;
mod payload;
mod payload_set;
mod queue;
mod registers;
mod reject;
mod rt;
mod socket;
mod stateful;
mod xfrm;

use std::mem::MaybeUninit;

use penstock_packet::Packet;

use crate::Env;
use crate::classify::Finder;
use crate::env::{Decision, Trace};
use crate::image::Image;
use crate::linked::{ChainIndex, LinkedRule, LinkedVerdict, RuleIndex};
use crate::op::Op;
use crate::operand::{CtKey, MetaKey};
use registers::Registers;

pub use hash::{jhash, reciprocal_scale};

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
        /// Without a listener the packet goes on at the next base chain
        /// (`NF_VERDICT_FLAG_QUEUE_BYPASS`); otherwise it is dropped.
        bypass: bool,
    },
    /// No rule decided: the chain's policy does.
    Policy,
}

/// What follows an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next operation.
    Next,
    /// The end of the rule (`NFT_BREAK`).
    Break,
    /// The rule's verdict.
    Verdict(LinkedVerdict),
    /// Dropped, with a word for traces.
    Drop,
    /// The packet is gone.
    Stolen,
}

impl From<Decision> for Step {
    #[inline]
    fn from(decision: Decision) -> Step {
        match decision {
            Decision::Continue => Step::Next,
            Decision::Break => Step::Break,
            Decision::Accept => Step::Verdict(LinkedVerdict::Accept),
            Decision::Drop => Step::Verdict(LinkedVerdict::Drop),
            Decision::Stolen => Step::Stolen,
        }
    }
}

impl Step {
    #[inline(always)]
    fn unless(breaks: bool) -> Step {
        if breaks { Step::Break } else { Step::Next }
    }

    #[inline(always)]
    fn found(value: Option<()>) -> Step {
        Step::unless(value.is_none())
    }
}

/// Where a chain goes on after another.
#[derive(Clone, Copy)]
struct Frame<'i> {
    chain: ChainIndex,
    rule: u32,
    end: u32,
    /// From this rule on the lookup tells which rules to run.
    ask: u32,
    lookup: Option<Finder<'i>>,
}

/// Runs a packet through a base chain and the chains it calls. A chain that does not exist has no
/// rules. Chains must not go to each other in a circle, which the ruleset refuses: such a run does
/// not end.
pub fn run<E: Env>(image: &Image, base: ChainIndex, packet: &mut Packet, env: &mut E) -> Outcome {
    let mut registers = Registers::new();
    run_from(image, enter(image, base), 0, false, &mut registers, packet, env)
        .unwrap_or_else(|| policy(image, base, packet, env))
}

/// No rule of a base chain decided.
#[inline(always)]
fn policy<E: Env>(image: &Image, base: ChainIndex, packet: &Packet, env: &mut E) -> Outcome {
    if packet.meta.nftrace {
        let accept = image.chain(base).and_then(|c| c.policy_accept).unwrap_or(true);
        env.trace(packet, Trace::Policy { chain: base, accept });
    }
    Outcome::Policy
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

/// Loads metadata into the first register, and nothing else; whether there is such.
#[inline]
pub(crate) fn load_meta<E: Env>(
    key: MetaKey,
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> bool {
    meta::get(key, 0, registers, packet, env) == Step::Next
}

/// As [`load_meta`], the state of the packet's connection.
pub(crate) fn load_ct_state(registers: &mut Registers, packet: &Packet) -> bool {
    ct::state(0, registers, packet) == Step::Next
}

/// As [`load_meta`], the mark of the packet's connection.
pub(crate) fn load_ct_mark<E: Env>(
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> bool {
    ct::get(CtKey::Mark, None, 0, registers, packet, env) == Step::Next
}

/// Runs the rest of a chain and the chains it calls, without the first `skip` operations of the
/// first rule, which with `found` is one that the chain's lookup has found. `None` if the chain
/// comes to its end.
#[inline(always)]
fn run_from<'i, E: Env>(
    image: &'i Image,
    mut at: Frame<'i>,
    mut skip: u32,
    mut found: bool,
    registers: &mut Registers,
    packet: &mut Packet,
    env: &mut E,
) -> Option<Outcome> {
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
        match run_op(op, registers, packet, env) {
            Step::Next | Step::Verdict(LinkedVerdict::Continue) => {}
            Step::Verdict(LinkedVerdict::Break) => return Step::Break,
            step => return step,
        }
    }
    Step::Next
}

#[inline(always)]
fn run_op<E: Env>(op: &Op, registers: &mut Registers, packet: &mut Packet, env: &mut E) -> Step {
    match op {
        Op::Immediate { dst, len, data } => {
            match len {
                4 => registers
                    .set_word(*dst, u32::from_ne_bytes([data[0], data[1], data[2], data[3]])),
                _ => registers.set(*dst, data.get(..usize::from(*len)).unwrap_or(data)),
            }
            Step::Next
        }
        Op::Verdict(verdict) => Step::Verdict(*verdict),
        Op::LoadLink { dst, len, offset } => {
            payload::load_link(packet, *offset, *len, *dst, registers)
        }
        Op::LoadNetwork { dst, len, offset } => {
            Step::found(payload::load(packet.network(), *offset, *len, *dst, registers))
        }
        Op::LoadTransport { dst, len, offset } => {
            match packet.transport_bytes_for_load(*len, *offset) {
                Some(bytes) => Step::found(payload::load(bytes, *offset, *len, *dst, registers)),
                None => Step::Break,
            }
        }
        Op::LoadInner { dst, len, offset } => {
            payload::load_inner(packet, *offset, *len, *dst, registers)
        }
        Op::InTunnel(load) => inner::load(load, packet, registers),
        Op::PayloadSet { .. } => payload_set::write(op, registers, packet),
        Op::Meta { key, dst } => meta::get(*key, *dst, registers, packet, env),
        Op::MetaSet { key, src } => meta::set(*key, *src, registers, packet),
        Op::CmpWord { src, equal, mask, data } => {
            Step::unless((registers.word(*src) & mask == *data) != *equal)
        }
        Op::Cmp { op, src, len, data } => compare::cmp(*op, registers.bytes(*src, *len), data),
        Op::Range { inside, src, len, ends } => {
            compare::range(*inside, registers.bytes(*src, *len), ends)
        }
        Op::MaskXorWord { src, dst, mask, xor } => {
            registers.set_word(*dst, registers.word(*src) & mask ^ xor);
            Step::Next
        }
        Op::MaskXor { src, dst, words, mask_xor } => {
            bitwise::mask_xor(*src, *dst, *words, mask_xor, registers)
        }
        Op::Combine { op, src, other, dst, words } => {
            bitwise::combine(*op, *src, *other, *dst, *words, registers)
        }
        Op::Lshift { src, dst, words, bits } => {
            bitwise::lshift(*src, *dst, *words, *bits, registers)
        }
        Op::Rshift { src, dst, words, bits } => {
            bitwise::rshift(*src, *dst, *words, *bits, registers)
        }
        Op::Byteorder { src, dst, len, size } => {
            bitwise::byteorder(*src, *dst, *len, *size, registers)
        }
        Op::Lookup { src, key_len, inverse, load, set } => {
            lookup::lookup(set, *src, *key_len, *inverse, *load, registers, packet, env)
        }
        Op::LookupDynamic { src, key_len, inverse, load, set } => {
            dynset::lookup(set, *src, *key_len, *inverse, *load, registers, packet, env)
        }
        Op::SetUpdate(update) => dynset::update(update, registers, packet, env),
        Op::ObjectMap { src, key_len, set } => {
            lookup::object(set, *src, *key_len, registers, packet, env)
        }
        Op::Counter(state) => stateful::counter(state, packet, env),
        Op::Stateful(stateful) => stateful::run(stateful, packet, env),
        Op::Log(log) => {
            env.log(packet, log);
            Step::Next
        }
        Op::Exthdr { op, kind, offset, len, present, dst } => {
            let wanted = exthdr::Wanted { kind: *kind, offset: *offset, len: *len };
            exthdr::load(*op, wanted, *present, *dst, registers, packet)
        }
        Op::TcpOptionSet { kind, offset, len, src } => {
            let wanted = exthdr::Wanted { kind: *kind, offset: *offset, len: *len };
            exthdr::set(wanted, registers.bytes(*src, *len), packet)
        }
        Op::TcpOptionReset { kind } => exthdr::reset(*kind, packet),
        Op::NumgenInc { modulus, offset, dst, state } => {
            numgen::increment(*modulus, *offset, *dst, state, registers)
        }
        Op::NumgenRandom { modulus, offset, dst } => {
            numgen::random(*modulus, *offset, *dst, env.random(), registers)
        }
        Op::Jhash { src, len, dst, seed, modulus, offset } => {
            let h = hash::jhash(registers.bytes(*src, *len), *seed);
            registers.set_word(*dst, hash::reciprocal_scale(h, *modulus).wrapping_add(*offset));
            Step::Next
        }
        Op::Symhash { dst, modulus, offset } => {
            let h = hash::symmetric(packet);
            registers.set_word(*dst, hash::reciprocal_scale(h, *modulus).wrapping_add(*offset));
            Step::Next
        }
        Op::Fib { result, flags, dst } => fib::eval(*result, *flags, *dst, registers, packet, env),
        Op::Rt { key, dst } => rt::get(*key, *dst, registers, packet, env),
        Op::Reject(reject) => reject::eval(reject, packet, env),
        Op::Dup { addr, v6, dev } => dup_fwd::dup(*addr, *v6, *dev, registers, packet, env),
        Op::Fwd { dev, addr, v6 } => dup_fwd::fwd(*dev, *addr, *v6, registers, packet, env),
        Op::CtState { dst } => ct::state(*dst, registers, packet),
        Op::Ct { key, dir, dst } => ct::get(*key, *dir, *dst, registers, packet, env),
        Op::CtSet { key, src, len } => ct::set(*key, *src, *len, registers, packet, env),
        Op::CtSetZone { dir, src } => ct::set_zone(*dir, *src, registers, packet, env),
        Op::Notrack => ct::notrack(packet),
        Op::Nat(nat) => nat::eval(nat, registers, packet, env),
        Op::Queue(queue) => Step::Verdict(queue::eval(queue, registers, packet, env)),
        Op::Synproxy(offer) => stateful::synproxy(offer, packet, env),
        Op::FlowOffload(flowtable) => env.flow_offload(packet, *flowtable).into(),
        Op::Tproxy { family, addr, port } => {
            socket::tproxy(*family, *addr, *port, registers, packet, env)
        }
        Op::Socket { key, level, dst } => socket::load(*key, *level, *dst, registers, packet, env),
        Op::Osf { ttl, version, dst } => osf::eval(*ttl, *version, *dst, registers, packet, env),
        Op::Xfrm { key, out, spnum, dst } => {
            xfrm::get(*key, *out, *spnum, *dst, registers, packet, env)
        }
        Op::Tunnel { key, dst } => xfrm::tunnel(*key, *dst, registers, packet, env),
    }
}
