// SPDX-License-Identifier: Apache-2.0

//! Running and random numbers (`net/netfilter/nft_numgen.c`).

use super::registers::Registers;
use super::{Step, hash};
use crate::State;

pub(super) fn increment(
    modulus: u32,
    offset: u32,
    dst: u8,
    state: &State,
    registers: &mut Registers,
) -> Step {
    if let State::Numgen(numgen) = state {
        registers.set_word(dst, numgen.next(modulus).wrapping_add(offset));
    }
    Step::Next
}

pub(super) fn random(
    modulus: u32,
    offset: u32,
    dst: u8,
    random: u32,
    registers: &mut Registers,
) -> Step {
    registers.set_word(dst, hash::reciprocal_scale(random, modulus).wrapping_add(offset));
    Step::Next
}
