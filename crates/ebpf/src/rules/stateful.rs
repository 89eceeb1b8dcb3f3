// SPDX-License-Identifier: Apache-2.0

//! Statements with state in shared words: `limit`, `quota`, `last`, `numgen inc`.

use penstock_program::image::Stateful;
use penstock_program::op::Op;
use penstock_program::state::{Bucket, Cost};

use super::chain::Rule;
use super::frame::*;
use super::lower::refused;
use super::shared::FULL;
use super::{Compiler, StateRef};
use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg::*, Width};

/// How often it is tried again where another processor was faster.
const TRIES: i32 = 64;

/// The state of a statement, if it is a shared word.
pub(super) fn state_of(op: &Op) -> Option<&StateRef> {
    match op {
        Op::Stateful(stateful) => match &**stateful {
            Stateful::Quota { state, .. }
            | Stateful::NamedQuota { state, .. }
            | Stateful::Limit { state, .. }
            | Stateful::Last(state) => Some(state),
            _ => None,
        },
        Op::NumgenInc { state, .. } => Some(state),
        _ => None,
    }
}

/// Whether a statement counts bytes.
pub(super) fn counts_bytes(op: &Op) -> bool {
    match op {
        Op::Stateful(stateful) => match &**stateful {
            Stateful::Quota { .. } | Stateful::NamedQuota { .. } => true,
            Stateful::Limit { bucket, .. } => matches!(bucket.cost_of(), Cost::Bytes { .. }),
            _ => false,
        },
        _ => false,
    }
}

impl Compiler<'_> {
    /// The statement.
    pub(super) fn stateful(&mut self, op: &Op, rule: &mut Rule) -> Result<(), String> {
        let state = state_of(op).ok_or_else(refused)?;
        let shared = self.job.shared.ok_or_else(refused)?;
        let (map, index) = (shared.map().clone(), shared.index(state)?);
        let at = (index as usize * size_of::<u64>()) as u32;
        if let Op::NumgenInc { modulus, offset, dst, .. } = op {
            self.asm.map_value(R1, &map, at);
            self.next_number(*modulus);
            self.asm.alu32(Alu::Add, R5, *offset as i32);
            self.keep(*dst, R5, 4, rule);
            return Ok(());
        }
        let Op::Stateful(stateful) = op else { return Err(refused()) };
        match &**stateful {
            Stateful::Quota { bytes, over, .. } | Stateful::NamedQuota { bytes, over, .. } => {
                self.asm.map_value(R1, &map, at);
                self.asm.mov(R2, LENGTH);
                self.asm.atomic_fetch_add(R1, 0, R2);
                self.asm.alu(Alu::Add, R2, LENGTH);
                self.asm.mov64(R3, *bytes);
                // Beyond the quota, `over` matches.
                let breaks = if *over { Cond::Le } else { Cond::Gt };
                self.asm.jump_if(breaks, R2, R3, rule.next);
            }
            Stateful::Limit { bucket, .. } => {
                self.asm.call(Helper::KtimeGetNs);
                self.asm.mov(R3, R0);
                self.asm.map_value(R1, &map, at);
                let holds = self.asm.label();
                let (within, beyond) = match bucket.is_over() {
                    false => (holds, rule.next),
                    true => (rule.next, holds),
                };
                self.take(bucket, within, beyond);
                self.asm.bind(holds);
            }
            Stateful::Last(_) => {
                self.asm.call(Helper::KtimeGetNs);
                self.asm.map_value(R1, &map, at);
                self.asm.store(Width::D, R1, 0, R0);
            }
            _ => return Err(refused()),
        }
        Ok(())
    }

    /// Takes a packet's tokens of the bucket in the word at R1, at time R3 (`nft_limit_eval()`).
    fn take(&mut self, bucket: &Bucket, within: Label, beyond: Label) {
        let asm = &mut self.asm;
        let [again, full, have, least, retry, taken, refused] = [(); 7].map(|()| asm.label());
        match bucket.cost_of() {
            Cost::Packets(cost) => asm.mov64(R4, cost),
            Cost::Bytes { nsecs, rate } => {
                asm.mov64(R4, nsecs);
                asm.alu(Alu::Mul, R4, LENGTH);
                asm.mov64(R5, rate);
                asm.alu(Alu::Div, R4, R5);
            }
        }
        asm.store(Width::D, R10, SCRATCH, TRIES);
        asm.bind(again);
        asm.load(Width::D, R0, R1, 0);
        asm.mov64(R2, FULL);
        asm.jump_if(Cond::Eq, R0, R2, full);
        asm.mov(R5, R3);
        asm.alu(Alu::Sub, R5, R0);
        asm.jump_if(Cond::SignedGt, R5, -1, least);
        asm.mov(R5, 0);
        asm.jump(have);
        asm.bind(least);
        asm.mov64(R2, bucket.tokens_max());
        asm.jump_if(Cond::Le, R5, R2, have);
        asm.bind(full);
        asm.mov64(R5, bucket.tokens_max());
        asm.bind(have);
        // R5 are the tokens that there are, R2 those that are left.
        asm.mov(R2, R5);
        asm.alu(Alu::Sub, R2, R4);
        asm.jump_if(Cond::SignedGt, R2, -1, taken);
        asm.mov(R2, R3);
        asm.alu(Alu::Sub, R2, R5);
        asm.mov(R5, R2);
        asm.mov(R2, R0);
        asm.exchange_if(R1, 0, R5);
        asm.jump_if(Cond::Ne, R0, R2, retry);
        asm.jump(refused);
        asm.bind(taken);
        asm.mov(R5, R3);
        asm.alu(Alu::Sub, R5, R2);
        asm.mov(R2, R0);
        asm.exchange_if(R1, 0, R5);
        let over = asm.label();
        asm.jump_if(Cond::Ne, R0, R2, over);
        asm.jump(within);
        asm.bind(over);
        asm.bind(retry);
        asm.load(Width::D, R2, R10, SCRATCH);
        asm.alu(Alu::Sub, R2, 1);
        asm.store(Width::D, R10, SCRATCH, R2);
        asm.jump_if(Cond::Ne, R2, 0, again);
        asm.bind(refused);
        asm.jump(beyond);
    }

    /// R5 = the next number below the modulus, of those at R1 (`nft_ng_inc_gen()`).
    fn next_number(&mut self, modulus: u32) {
        let asm = &mut self.asm;
        let [again, below, done] = [(); 3].map(|()| asm.label());
        asm.store(Width::D, R10, SCRATCH, TRIES);
        asm.bind(again);
        asm.load(Width::D, R0, R1, 0);
        asm.mov(R2, R0);
        asm.mov(R5, R0);
        asm.alu(Alu::Add, R5, 1);
        asm.mov32(R3, modulus);
        asm.jump_if(Cond::Lt, R5, R3, below);
        asm.mov(R5, 0);
        asm.bind(below);
        asm.mov(R4, R5);
        asm.exchange_if(R1, 0, R4);
        asm.jump_if(Cond::Eq, R0, R2, done);
        asm.load(Width::D, R2, R10, SCRATCH);
        asm.alu(Alu::Sub, R2, 1);
        asm.store(Width::D, R10, SCRATCH, R2);
        asm.jump_if(Cond::Ne, R2, 0, again);
        asm.bind(done);
    }
}
