// SPDX-License-Identifier: Apache-2.0

//! The packet's connection (`net/netfilter/nft_ct.c`, `nft_ct_fast.c`).

use penstock_packet::{Ct, CtInfo, Packet};

use super::Step;
use super::registers::Registers;
use crate::Env;
use crate::operand::{CtDir, CtKey};

#[inline(always)]
pub(super) fn state(dst: u8, registers: &mut Registers, packet: &Packet) -> Step {
    registers.set_word(dst, packet.meta.ct.state());
    Step::Next
}

fn is_attached(ct: &Ct) -> bool {
    ct.has_entry() || ct.template != 0
}

#[inline(never)]
pub(super) fn get<E: Env>(
    key: CtKey,
    dir: Option<CtDir>,
    dst: u8,
    registers: &mut Registers,
    packet: &Packet,
    env: &mut E,
) -> Step {
    // Templates have no keys (observed on Linux 6.18).
    if !packet.meta.ct.has_entry() {
        return Step::Break;
    }
    if key == CtKey::Direction {
        registers.set_u8(dst, packet.meta.ct.info.is_reply().into());
        return Step::Next;
    }
    let mut out = [0; 16];
    let Some(len) = env.ct_get(packet, key, dir, &mut out) else { return Step::Break };
    registers.set(dst, out.get(..usize::from(len)).unwrap_or(&out));
    Step::Next
}

#[inline(never)]
pub(super) fn set<E: Env>(
    key: CtKey,
    src: u8,
    len: u8,
    registers: &Registers,
    packet: &Packet,
    env: &mut E,
) -> Step {
    if packet.meta.ct.has_entry() {
        env.ct_set(packet, key, registers.bytes(src, len));
    }
    Step::Next
}

#[inline(never)]
pub(super) fn set_zone<E: Env>(
    dir: Option<CtDir>,
    src: u8,
    registers: &Registers,
    packet: &mut Packet,
    env: &mut E,
) -> Step {
    if is_attached(&packet.meta.ct) {
        return Step::Next;
    }
    let zone = registers.bytes(src, 2).first_chunk().map_or(0, |bytes| u16::from_ne_bytes(*bytes));
    env.ct_set_zone(packet, zone, dir).into()
}

#[inline(always)]
pub(super) fn notrack(packet: &mut Packet) -> Step {
    let ct = &mut packet.meta.ct;
    // A packet that is tracked, or has a template with a zone, stays so.
    if !is_attached(ct) {
        ct.info = CtInfo::Untracked;
    }
    Step::Next
}
