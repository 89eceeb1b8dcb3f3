// SPDX-License-Identifier: Apache-2.0

//! Sets that packets change: updates (`net/netfilter/nft_dynset.c`) and lookups.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use penstock_packet::Packet;

use super::registers::Registers;
use super::{Step, stateful};
use crate::Env;
use crate::env::ConnCount;
use crate::op::{Load, Op, SetUpdate};
use crate::operand::DynsetOp;
use crate::state;
use crate::state::dynamic::{DynamicHit, DynamicSet, SetStatement};

#[inline(never)]
pub(super) fn update<E: Env>(
    update: &SetUpdate,
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> Step {
    let now = packet.meta.time;
    let key = registers.bytes(update.key, update.key_len);
    let set = &update.set;
    let found = match update.op {
        DynsetOp::Delete => {
            set.delete(key, now, update.gc_interval);
            return Step::Next;
        }
        DynsetOp::Update => set.renew(key, now, update.timeout),
        DynsetOp::Add => None,
    };
    let found = found.or_else(|| {
        let data = update.data.map_or(&[][..], |(slot, len)| registers.bytes(slot, len));
        set.add(key, data, now, update.timeout, &update.statements)
    });
    match found {
        Some(found) => match statements(set, found, packet, env) {
            Step::Next => Step::unless(update.invert),
            ends => ends,
        },
        None => Step::unless(!update.invert),
    }
}

/// Runs a lookup in such a set. Other operations break.
#[inline(never)]
pub(super) fn lookup<E: Env>(
    op: &Op,
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> Step {
    let &Op::LookupDynamic { src, key_len, inverse, load, ref set } = op else {
        return Step::Break;
    };
    let mut data = [0; 64];
    let found = set.lookup(registers.bytes(src, key_len), packet.meta.time, &mut data);
    if found.is_some() == inverse {
        return Step::Break;
    }
    let Some(found) = found else { return Step::Next };
    match load {
        Load::Nothing => {}
        Load::Bytes { dst, len } => {
            registers.set(dst, data.get(..usize::from(len)).unwrap_or(&data))
        }
        // Such sets hold no verdicts.
        Load::Verdict => return Step::Break,
    }
    statements(set, found, packet, env)
}

/// Runs the statements of an element (`nft_set_elem_update_expr()`).
#[inline]
fn statements<E: Env>(
    set: &Arc<DynamicSet>,
    found: DynamicHit,
    packet: &Packet,
    env: &mut E,
) -> Step {
    for (number, (statement, words)) in set.statements_of(found).enumerate() {
        let breaks = match statement {
            SetStatement::Counter => {
                words[0].fetch_add(1, Relaxed);
                words[1].fetch_add(packet.len() as u64, Relaxed);
                false
            }
            SetStatement::Quota { bytes, over } => {
                state::consume(&words[0], packet.len() as u64, *bytes) != *over
            }
            SetStatement::Limit(bucket) => {
                !state::take(&words[0], bucket, packet.len() as u64, packet.meta.time)
            }
            SetStatement::Last => {
                words[0].store(packet.meta.time, Relaxed);
                false
            }
            SetStatement::Connlimit { limit, over } => {
                let count = ConnCount::Element { set, slot: found.slot, statement: number };
                match stateful::connlimit(*limit, *over, count, packet, env) {
                    Step::Next => false,
                    ends => return ends,
                }
            }
            SetStatement::BadLimit(_) => false,
        };
        if breaks {
            return Step::Break;
        }
    }
    Step::Next
}
