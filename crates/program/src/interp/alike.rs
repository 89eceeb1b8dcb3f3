// SPDX-License-Identifier: Apache-2.0

//! What a base chain makes of all packets of one direction of a connection, told by one of them.
//!
//! The packet walks through the rules, and nothing happens. Each operation on its way must be one
//! that gives all packets of the direction the same ([`Op::unlike`]), or count. Then all of them
//! take this way: which operation comes next depends on nothing but what the operations before it
//! gave.

use std::sync::Arc;

use penstock_packet::Packet;
use penstock_wire::ethernet;

use super::JUMP_STACK;
use crate::eval::{Registers, Step, execute};
use crate::image::Image;
use crate::linked::{ChainIndex, LinkedRule, LinkedVerdict};
use crate::op::Op;
use crate::operand::CtKey;
use crate::{Env, State};

/// Rules that are looked at: who asks wants an answer soon.
const MOST: usize = 512;

/// Why not all packets of the direction pass, or not alike: in words, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlike(pub &'static str);

/// Where a walk is.
#[derive(Clone, Copy, Default)]
struct Place {
    rule: u32,
    end: u32,
}

/// Walks a packet through a base chain and the chains it calls. `counted` is told of the counters
/// that packets are added to, with their number from the network header on or, at egress, from the
/// link header on ([`Packet::len`]). Of the packet nothing changes but its mark, which is then that
/// of all.
///
/// # Errors
/// The base chain may not accept a packet of this direction, or something else may happen.
pub fn accepts_alike<E: Env>(
    image: &Image,
    base: ChainIndex,
    packet: &mut Packet,
    env: &mut E,
    counted: &mut impl FnMut(&Arc<State>) -> Result<(), Unlike>,
) -> Result<(), Unlike> {
    let enter = |chain: ChainIndex| match image.chain(chain) {
        Some(chain) => Place { rule: chain.first, end: chain.end },
        None => Place::default(),
    };
    let mut registers = Registers::new();
    let mut stack = [Place::default(); JUMP_STACK];
    let mut depth = 0;
    let mut at = enter(base);
    for _ in 0..MOST {
        let rule = image.rules.get(at.rule as usize).filter(|_| at.rule < at.end);
        let Some(rule) = rule else {
            if depth == 0 {
                return policy(image, base, counted);
            }
            depth -= 1;
            at = stack[depth];
            continue;
        };
        at.rule += 1;
        match run_rule(image, rule, &mut registers, packet, env, counted)? {
            LinkedVerdict::Accept => return Ok(()),
            LinkedVerdict::Drop => return Err(Unlike("drop")),
            LinkedVerdict::Queue { .. } => return Err(Unlike("queue")),
            LinkedVerdict::Continue | LinkedVerdict::Break => {}
            LinkedVerdict::Return => at.rule = at.end,
            LinkedVerdict::Goto(chain) => at = enter(chain),
            LinkedVerdict::Jump(chain) => {
                let Some(place) = stack.get_mut(depth) else { return Err(Unlike("jumps")) };
                *place = at;
                depth += 1;
                at = enter(chain);
            }
        }
    }
    Err(Unlike("many rules"))
}

/// The end of a base chain.
fn policy(
    image: &Image,
    base: ChainIndex,
    counted: &mut impl FnMut(&Arc<State>) -> Result<(), Unlike>,
) -> Result<(), Unlike> {
    let Some(chain) = image.chain(base) else { return Ok(()) };
    if chain.policy_accept == Some(false) {
        return Err(Unlike("policy drop"));
    }
    chain.policy_counter.as_ref().map_or(Ok(()), counted)
}

/// Runs a rule up to its verdict, or the operation that breaks.
fn run_rule<E: Env>(
    image: &Image,
    rule: &LinkedRule,
    registers: &mut Registers,
    packet: &mut Packet,
    env: &mut E,
    counted: &mut impl FnMut(&Arc<State>) -> Result<(), Unlike>,
) -> Result<LinkedVerdict, Unlike> {
    let v6 = packet.meta.protocol == ethernet::IPV6;
    for op in image.ops_of(rule) {
        if let Some(counter) = op.counter() {
            counted(counter)?;
            continue;
        }
        if let Op::CtSet { key: CtKey::Mark, src, len } = op {
            if !has_mark(registers.bytes(*src, *len), packet, env) {
                return Err(Unlike("ct mark set"));
            }
            continue;
        }
        if let Some(what) = op.unlike(v6) {
            return Err(Unlike(what));
        }
        if let Op::Lookup { src, key_len, set, .. } = op {
            let found = set.lookup(registers.bytes(*src, *key_len), packet.meta.time);
            if found.is_some_and(|element| !element.value.statements.is_empty()) {
                return Err(Unlike("a statement of an element"));
            }
        }
        match execute(op, registers, packet, env) {
            Step::Next | Step::Verdict(LinkedVerdict::Continue) => {}
            Step::Break | Step::Verdict(LinkedVerdict::Break) => return Ok(LinkedVerdict::Break),
            Step::Verdict(verdict) => return Ok(verdict),
            Step::Drop => return Err(Unlike("drop")),
            Step::Stolen => return Err(Unlike("fwd")),
        }
    }
    Ok(LinkedVerdict::Continue)
}

/// Whether the packet's connection has the mark of these bytes: setting it changes nothing then.
fn has_mark<E: Env>(mark: &[u8], packet: &Packet, env: &mut E) -> bool {
    let mut now = [0; 16];
    packet.meta.ct.has_entry()
        && env.ct_get(packet, CtKey::Mark, None, &mut now) == Some(4)
        && mark.first_chunk::<4>() == now.first_chunk()
}
