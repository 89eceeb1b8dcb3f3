// SPDX-License-Identifier: Apache-2.0

//! What an engine that compiles programs takes from the interpreter: single operations, and the
//! rest of a program from some point on.

use penstock_classify::prefetch;
use penstock_packet::Packet;

use super::{Frame, Start, enter, run_from, trace_policy};
use crate::Env;
use crate::classify::Candidate;
use crate::image::Image;
use crate::linked::{ChainIndex, RuleIndex};

pub use super::Outcome;
pub use crate::eval::{Registers, Step, execute, found_at};

/// A place in a chain.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The chain.
    pub chain: ChainIndex,
    /// A rule of it.
    pub rule: RuleIndex,
    /// So many operations of the rule have run.
    pub skip: u32,
}

/// Runs what is left of a chain from a position on, and the chains it calls. `None` if the chain
/// comes to its end. Chains that wait for this one are the caller's: with them it may call as deep
/// as [`JUMP_STACK`](super::JUMP_STACK) chains more.
pub fn resume<E: Env>(
    image: &Image,
    from: Position,
    registers: &mut Registers,
    packet: &mut Packet,
    env: &mut E,
) -> Option<Outcome> {
    let at = Frame { rule: from.rule.0, ..enter(image, from.chain) };
    run_from(image, Start { at, skip: from.skip, found: false }, registers, packet, env)
}

/// Looks up several packets in a chain, at most [`PACKETS`](crate::classify::PACKETS), for
/// [`resume_found`]. `false` if they are better looked up one by one.
pub fn find<E: Env>(
    image: &Image,
    chain: ChainIndex,
    packets: &[Packet],
    env: &mut E,
    found: &mut [Option<Candidate>],
) -> bool {
    let Some(chain) = image.chain(chain) else { return false };
    let lookup = chain.lookup.as_deref().and_then(|l| l.finder());
    if !lookup.is_some_and(|lookup| lookup.first_of(packets, env, found)) {
        return false;
    }
    fetch(image, chain.first, found);
    true
}

/// Has loaded what running the rules of a chain that were found will need, and then naming them; of
/// long chains most of it is in no near cache.
fn fetch(image: &Image, first: u32, found: &[Option<Candidate>]) {
    let rule = |candidate: &Candidate| (first + candidate.rule) as usize;
    for candidate in found.iter().flatten() {
        prefetch(&image.rules, rule(candidate));
    }
    for candidate in found.iter().flatten() {
        if let Some(linked) = image.rules.get(rule(candidate)) {
            prefetch(&image.ops, (linked.first + candidate.skip) as usize);
            prefetch(&image.rule_names, rule(candidate));
        }
    }
}

/// Runs a chain from its beginning as [`resume`] does, for an untraced packet that [`find`] has
/// looked up and that has not changed since.
pub fn resume_found<E: Env>(
    image: &Image,
    chain: ChainIndex,
    found: Option<Candidate>,
    registers: &mut Registers,
    packet: &mut Packet,
    env: &mut E,
) -> Option<Outcome> {
    let mut at = enter(image, chain);
    let Candidate { rule, skip } = found?;
    at.rule += rule;
    run_from(image, Start { at, skip, found: true }, registers, packet, env)
}

/// Tells of a traced packet that a base chain has come to its end, as [`run`](super::run) does. The
/// packet is yet to be counted for the policy.
pub fn end_of_base<E: Env>(image: &Image, base: ChainIndex, packet: &Packet, env: &mut E) {
    trace_policy(image, base, packet, env);
}
