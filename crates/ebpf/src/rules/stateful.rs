// SPDX-License-Identifier: Apache-2.0

//! Statements with state in shared words: `limit`, `quota`, `last`, `numgen inc`.

use penstock_program::image::Stateful;
use penstock_program::op::Op;
use penstock_program::state::{Bucket, Cost};

use super::chain::Rule;
use super::frame::*;
use super::lower::refused;
use super::shared_sets::FULL;
use super::sites::Event;
use super::{Compiler, StateRef};
use penstock_bpf::asm::{Alu, Cond, Helper, Label, Reg::*, Width};

/// How often it is tried again where another processor was faster.
const TRIES: i32 = 64;

/// As often a processor tries to take tokens while others take some (`BPF_MAX_LOOPS` is more).
const TAKES: i32 = 1 << 20;

/// From [`TIME`] on: the time; where the word is; what the packet costs; the most tokens; whether
/// the packet is within the rate.
const AT_TIME: i16 = 0;
const AT_WORD: i16 = 8;
const AT_COST: i16 = 16;
const AT_MOST: i16 = 24;
const AT_WITHIN: i16 = 32;

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

/// The quota of a statement that is told of when it is used up.
pub(super) fn told_quota(op: &Op) -> Option<&StateRef> {
    match op {
        Op::Stateful(stateful) => match &**stateful {
            Stateful::NamedQuota { state, .. } => Some(state),
            _ => None,
        },
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

/// Whether a statement asks for the time.
pub(super) fn asks_for_time(op: &Op) -> bool {
    match op {
        Op::Stateful(stateful) => matches!(&**stateful, Stateful::Limit { .. } | Stateful::Last(_)),
        _ => false,
    }
}

impl Compiler<'_> {
    /// Notes the time, if something asks for it: the same for all rules that a packet meets.
    pub(super) fn time(&mut self) {
        if !self.plan.time {
            return;
        }
        match self.job.shared.and_then(|shared| shared.given_time()) {
            Some((map, at)) => {
                self.asm.map_value(R1, map, at);
                self.asm.load(Width::D, R0, R1, 0);
            }
            None => self.asm.call(Helper::KtimeGetNs),
        }
        self.asm.store(Width::D, R10, TIME, R0);
    }

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
                self.consume(*bytes);
                if let Some(quota) = told_quota(op) {
                    self.tell_used_up(*bytes, quota, rule)?;
                }
                self.compare_consumed(*over, rule.next);
            }
            Stateful::Limit { bucket, .. } => {
                self.asm.map_value(R1, &map, at);
                self.limit(bucket, rule);
            }
            Stateful::Last(_) => {
                self.asm.load(Width::D, R0, R10, TIME);
                self.asm.map_value(R1, &map, at);
                self.asm.store(Width::D, R1, 0, R0);
            }
            _ => return Err(refused()),
        }
        Ok(())
    }

    /// Adds the packet to the quota in the word at R1: R2 = bytes so far, R3 = those it has.
    pub(super) fn consume(&mut self, bytes: u64) {
        self.asm.mov(R2, LENGTH);
        self.asm.atomic_fetch_add(R1, 0, R2);
        self.asm.alu(Alu::Add, R2, LENGTH);
        self.asm.mov64(R3, bytes);
    }

    /// Tells of a quota that this packet has used up.
    fn tell_used_up(&mut self, bytes: u64, quota: &StateRef, rule: &Rule) -> Result<(), String> {
        let end = self.asm.label();
        self.asm.jump_if(Cond::Le, R2, R3, end);
        self.asm.mov(R1, R2);
        self.asm.alu(Alu::Sub, R1, LENGTH);
        self.asm.jump_if(Cond::Gt, R1, R3, end);
        self.asm.store(Width::D, R10, SCRATCH, R2);
        self.asm.mov(R3, 0);
        self.step(Event::UsedUp(quota.into()), rule.block, Some(rule.index))?;
        self.asm.load(Width::D, R2, R10, SCRATCH);
        self.asm.mov64(R3, bytes);
        self.asm.bind(end);
        Ok(())
    }

    /// Goes to `breaks` where a quota does not match, after [`Compiler::consume`].
    pub(super) fn compare_consumed(&mut self, over: bool, breaks: Label) {
        // Beyond the quota, `over` matches.
        let cond = if over { Cond::Le } else { Cond::Gt };
        self.asm.jump_if(cond, R2, R3, breaks);
    }

    /// Takes a packet's tokens of the bucket in the word at R1 (`nft_limit_eval()`); breaks where
    /// it does not match.
    pub(super) fn limit(&mut self, bucket: &Bucket, rule: &Rule) {
        let function = *self.take.get_or_insert_with(|| self.asm.label());
        let asm = &mut self.asm;
        asm.store(Width::D, R10, TIME + AT_WORD, R1);
        match bucket.cost_of() {
            Cost::Packets(cost) => asm.mov64(R2, cost),
            Cost::Bytes { nsecs, rate } => {
                asm.mov64(R2, nsecs);
                asm.alu(Alu::Mul, R2, LENGTH);
                asm.mov64(R3, rate);
                asm.alu(Alu::Div, R2, R3);
            }
        }
        asm.store(Width::D, R10, TIME + AT_COST, R2);
        asm.mov64(R2, bucket.tokens_max());
        asm.store(Width::D, R10, TIME + AT_MOST, R2);
        asm.store(Width::D, R10, TIME + AT_WITHIN, 0);
        asm.mov(R1, TAKES);
        asm.function(R2, function);
        asm.mov(R3, R10);
        asm.alu(Alu::Add, R3, i32::from(TIME));
        asm.mov(R4, 0);
        asm.call(Helper::Loop);
        asm.load(Width::D, R0, R10, TIME + AT_WITHIN);
        let breaks = if bucket.is_over() { Cond::Ne } else { Cond::Eq };
        asm.jump_if(breaks, R0, 0, rule.next);
    }

    /// The function of [`Compiler::limit`], which the kernel calls until it returns 1: tries to take
    /// the tokens. In line the verifier would follow each try at each limit.
    pub(super) fn take_function(&mut self) {
        let Some(function) = self.take else { return };
        let asm = &mut self.asm;
        let [full, back, have, taken, again] = [(); 5].map(|()| asm.label());
        asm.bind(function);
        asm.mov(R6, R2);
        asm.load(Width::D, R1, R6, AT_WORD);
        asm.load(Width::D, R2, R6, AT_TIME);
        asm.load(Width::D, R5, R6, AT_MOST);
        asm.load(Width::D, R0, R1, 0);
        asm.mov(R8, R0);
        asm.mov64(R3, FULL);
        asm.jump_if(Cond::Eq, R0, R3, full);
        asm.mov(R3, R2);
        asm.alu(Alu::Sub, R3, R0);
        // The clock went back to before the bucket was empty.
        asm.jump_if(Cond::SignedGt, R3, -1, back);
        asm.mov(R3, 0);
        asm.bind(back);
        asm.jump_if(Cond::Le, R3, R5, have);
        asm.bind(full);
        asm.mov(R3, R5);
        asm.bind(have);
        // R3 are the tokens that there are, R5 those that are left.
        asm.load(Width::D, R4, R6, AT_COST);
        asm.mov(R5, R3);
        asm.alu(Alu::Sub, R5, R4);
        asm.mov(R7, 1);
        asm.jump_if(Cond::SignedGt, R5, -1, taken);
        asm.mov(R7, 0);
        asm.mov(R5, R3);
        asm.bind(taken);
        asm.alu(Alu::Sub, R2, R5);
        asm.exchange_if(R1, 0, R2);
        asm.jump_if(Cond::Ne, R0, R8, again);
        asm.store(Width::D, R6, AT_WITHIN, R7);
        asm.exit_with(1);
        asm.bind(again);
        asm.exit_with(0);
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
