// SPDX-License-Identifier: Apache-2.0

//! Sets and maps (`net/netfilter/nft_lookup.c`, `nft_objref_map_eval()` of
//! `net/netfilter/nft_objref.c`).

use penstock_packet::Packet;
use penstock_sets::{ElementRef, Set};

use super::registers::Registers;
use super::{Step, stateful};
use crate::Env;
use crate::linked::{LinkedData, LinkedValue};
use crate::op::{Load, Op};

/// Runs a lookup. Other operations break.
#[inline(never)]
pub(super) fn lookup<E: Env>(
    op: &Op,
    registers: &mut Registers,
    packet: &mut Packet,
    env: &mut E,
) -> Step {
    let &Op::Lookup { src, key_len, inverse, load, ref set } = op else { return Step::Break };
    if load == Load::Nothing && set.is_presence_only() {
        return Step::unless(
            set.contains(registers.bytes(src, key_len), packet.meta.time) == inverse,
        );
    }
    let found = set.lookup(registers.bytes(src, key_len), packet.meta.time);
    answer(found, inverse, load, registers, packet, env)
}

/// What follows from what was found.
fn answer<E: Env>(
    found: Option<ElementRef<'_, LinkedValue>>,
    inverse: bool,
    load: Load,
    registers: &mut Registers,
    packet: &mut Packet,
    env: &mut E,
) -> Step {
    if found.is_some() == inverse {
        return Step::Break;
    }
    let Some(element) = found else { return Step::Next };
    let value = &element.value;
    let mut step = Step::Next;
    match (load, &value.data) {
        (Load::Nothing, _) => {}
        (Load::Verdict, LinkedData::Verdict(verdict)) => step = Step::Verdict(*verdict),
        (Load::Bytes { dst, len }, LinkedData::Value(bytes)) => {
            registers.set(dst, bytes.get(..usize::from(len)).unwrap_or(bytes));
        }
        (Load::Bytes { dst, len }, LinkedData::Long(bytes)) => {
            registers.set(dst, bytes.get(..usize::from(len)).unwrap_or(bytes));
        }
        // Elements of a map hold what the map says.
        (Load::Verdict | Load::Bytes { .. }, _) => return Step::Break,
    }
    for statement in &value.statements {
        match stateful::run(statement, packet, env) {
            Step::Next => {}
            ends => return ends,
        }
    }
    step
}

/// Runs a lookup of which is known where its key is: in a place that
/// [`Set::search`](penstock_sets::Set::search) has told of. Other operations break.
#[inline(always)]
pub fn found_at<E: Env>(
    op: &Op,
    place: u64,
    registers: &mut Registers,
    packet: &mut Packet,
    env: &mut E,
) -> Step {
    let Op::Lookup { inverse, load, set, .. } = op else { return Step::Break };
    let found = set.element_at(place, packet.meta.time);
    answer(found, *inverse, *load, registers, packet, env)
}

pub(super) fn object<E: Env>(
    set: &Set<LinkedValue>,
    src: u8,
    key_len: u8,
    registers: &mut Registers,
    packet: &mut Packet,
    env: &mut E,
) -> Step {
    match set.lookup(registers.bytes(src, key_len), packet.meta.time).map(|e| &e.value.data) {
        Some(LinkedData::Object(object)) => stateful::run(object, packet, env),
        _ => Step::Break,
    }
}
