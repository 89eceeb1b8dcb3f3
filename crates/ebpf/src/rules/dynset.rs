// SPDX-License-Identifier: Apache-2.0

//! Sets that packets change: updates and lookups (`net/netfilter/nft_dynset.c`).
//!
//! An element is a row of words ([`shared_sets`](super::shared_sets)): when it expires, and what
//! [`DynamicSet`] keeps of it. What has expired counts as missing until it is swept.

use std::sync::Arc;

use penstock_bpf::asm::{Alu, Cond, Helper, Reg::*, Width};
use penstock_program::expr::DynsetOp;
use penstock_program::op::{Load, Op, SetUpdate};
use penstock_program::state::dynamic::{DynamicSet, NUMBERS, SetStatement};

use super::chain::Rule;
use super::clocks::NEVER;
use super::frame::*;
use super::lower::{home, refused};
use super::shared_sets::{EXPIRES, FIRST};
use super::{Compiler, Place, reasons};

/// Flags of an update (`BPF_ANY`, `BPF_NOEXIST`).
const ANY: i32 = 0;
const ABSENT: i32 = 1;

/// The set of an operation, if packets change it.
pub(super) fn set_of(op: &Op) -> Option<&Arc<DynamicSet>> {
    match op {
        Op::LookupDynamic { set, .. } => Some(set),
        Op::SetUpdate(update) => Some(&update.set),
        _ => None,
    }
}

/// Whether programs can do all that elements of a set do. The error is the reason.
pub(super) fn check(place: Place<'_>, op: &Op, set: &DynamicSet) -> Result<(), String> {
    if matches!(op, Op::LookupDynamic { load: Load::Verdict, .. }) {
        return Err("a verdict map that packets change".into());
    }
    if set.has_catch_all() {
        return Err("a set that packets change has an element for all other keys".into());
    }
    for statement in set.templates().into_iter().flatten() {
        match statement {
            SetStatement::Counter
            | SetStatement::Quota { .. }
            | SetStatement::Limit(_)
            | SetStatement::Last => {}
            SetStatement::Connlimit { .. } => {
                let why = reasons::count_of_connections(place);
                let said = place.no_code("ct count");
                return Err(format!("elements of the set have `ct count`: {said}, {why}"));
            }
            SetStatement::BadLimit(_) => {
                return Err("elements of the set have a limit that cannot be".into());
            }
        }
    }
    Ok(())
}

/// Where word `n` of what a set keeps of an element is in its row.
fn word(n: usize) -> i16 {
    FIRST + n as i16 * 8
}

impl Compiler<'_> {
    /// `add`, `update` or `delete`.
    pub(super) fn set_update(&mut self, update: &SetUpdate, rule: &mut Rule) -> Result<(), String> {
        let shared = self.job.shared.ok_or_else(refused)?;
        let (map, count) = shared.set(&update.set)?;
        shared.sets.sweep_every(&update.set, update.gc_interval);
        let key = self.contiguous(update.key, update.key_len, rule);
        let at_key = |this: &mut Self| {
            this.asm.map(R1, &map);
            this.asm.mov(R2, R10);
            this.asm.alu(Alu::Add, R2, i32::from(key));
        };
        if update.op == DynsetOp::Delete {
            // It takes its place until it is swept, as in the kernel.
            let none = self.asm.label();
            at_key(self);
            self.asm.call(Helper::MapLookup);
            self.asm.jump_if(Cond::Eq, R0, 0, none);
            self.asm.store(Width::D, R0, EXPIRES, 0);
            self.asm.bind(none);
            return Ok(());
        }
        let [none, full, found, fresh, new, run, ours] = [(); 7].map(|()| self.asm.label());
        at_key(self);
        self.asm.call(Helper::MapLookup);
        self.asm.mov(R4, ABSENT);
        self.asm.jump_if(Cond::Eq, R0, 0, new);
        self.asm.load(Width::D, R1, R0, EXPIRES);
        self.asm.load(Width::D, R2, R10, TIME);
        self.asm.jump_if(Cond::Gt, R1, R2, found);
        self.asm.mov(R4, ANY);
        self.asm.bind(new);
        self.count_elements(count, 1);
        self.asm.jump_if(Cond::Ge, R2, update.set.limit().min(i32::MAX as u32) as i32, full);
        self.row(update, rule)?;
        at_key(self);
        self.asm.mov(R3, R10);
        self.asm.alu(Alu::Add, R3, i32::from(ROW));
        self.asm.call(Helper::MapUpdate);
        self.asm.jump_if(Cond::Eq, R0, 0, ours);
        // Another processor was faster.
        self.count_elements(count, -1);
        self.asm.bind(ours);
        at_key(self);
        self.asm.call(Helper::MapLookup);
        self.asm.jump_if(Cond::Eq, R0, 0, none);
        self.asm.jump(run);
        self.asm.bind(found);
        if update.op == DynsetOp::Update {
            self.asm.load(Width::D, R1, R0, word(0));
            self.asm.jump_if(Cond::Eq, R1, 0, fresh);
            // Without a timeout it expires at once.
            self.time_after(update.timeout);
            self.asm.store(Width::D, R0, EXPIRES, R1);
            self.asm.bind(fresh);
        }
        self.asm.bind(run);
        let done = self.asm.label();
        let (there, missing) = if update.invert { (rule.next, done) } else { (done, rule.next) };
        self.element_statements(&update.set, rule)?;
        self.asm.jump(there);
        self.asm.bind(full);
        self.count_elements(count, -1);
        self.asm.bind(none);
        self.asm.jump(missing);
        self.asm.bind(done);
        Ok(())
    }

    /// Adds to the elements that are counted in a word; R2 = how many there were. R4 stays.
    fn count_elements(&mut self, word: u32, more: i32) {
        if let Some(shared) = self.job.shared {
            self.asm.map_value(R1, shared.map(), word * size_of::<u64>() as u32);
            self.asm.mov(R2, more);
            self.asm.atomic_fetch_add(R1, 0, R2);
        }
    }

    /// R1 = when a new element with such a timeout (ms) expires; without one it never does.
    fn expiry(&mut self, timeout: u64) {
        match timeout {
            0 => self.asm.mov64(R1, NEVER),
            _ => self.time_after(timeout),
        }
    }

    /// R1 = so many milliseconds after [`TIME`].
    fn time_after(&mut self, milliseconds: u64) {
        self.asm.load(Width::D, R1, R10, TIME);
        self.asm.mov64(R2, milliseconds.saturating_mul(1_000_000));
        self.asm.alu(Alu::Add, R1, R2);
    }

    /// Writes a new element into the stack frame. R4 stays.
    fn row(&mut self, update: &SetUpdate, rule: &mut Rule) -> Result<(), String> {
        let data_len = update.set.value_len();
        let data_words = data_len.div_ceil(8);
        self.expiry(update.timeout);
        self.asm.store(Width::D, R10, ROW + EXPIRES, R1);
        let fixed = [update.timeout, update.statements.number().into()];
        for (n, value) in fixed.into_iter().enumerate() {
            self.asm.mov64(R1, value);
            self.asm.store(Width::D, R10, ROW + word(n), R1);
        }
        for n in 0..data_words {
            self.asm.store(Width::D, R10, ROW + word(fixed.len() + n), 0);
        }
        if let Some((slot, len)) = update.data {
            for i in 0..len.div_ceil(4) {
                self.asm_word(R1, slot + i, len - i * 4, rule);
                let at = ROW + word(fixed.len()) + i16::from(i) * 4;
                self.asm.store(Width::W, R10, at, R1);
            }
        }
        let states = update.statements.initial().into_iter().flatten();
        for (n, value) in states.enumerate() {
            self.asm.mov64(R1, value);
            self.asm.store(Width::D, R10, ROW + word(fixed.len() + data_words + n), R1);
        }
        Ok(())
    }

    /// Runs the statements of the element at R0; the rule breaks where one does not match.
    fn element_statements(&mut self, set: &DynamicSet, rule: &Rule) -> Result<(), String> {
        let templates = set.templates();
        if templates.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let done = self.asm.label();
        self.asm.store(Width::D, R10, POINTER, R0);
        for (number, statements) in templates.iter().enumerate() {
            if statements.is_empty() {
                continue;
            }
            let other = self.asm.label();
            self.asm.load(Width::D, R0, R10, POINTER);
            self.asm.load(Width::W, R1, R0, word(NUMBERS));
            self.asm.jump_if(Cond::Ne, R1, number as i32, other);
            for (n, statement) in statements.iter().enumerate() {
                let at = word(set.state_at(n));
                self.asm.load(Width::D, R1, R10, POINTER);
                self.asm.alu(Alu::Add, R1, i32::from(at));
                self.element_statement(statement, rule)?;
            }
            self.asm.jump(done);
            self.asm.bind(other);
        }
        self.asm.bind(done);
        Ok(())
    }

    /// Runs a statement with its state at R1.
    fn element_statement(&mut self, statement: &SetStatement, rule: &Rule) -> Result<(), String> {
        match statement {
            SetStatement::Counter => {
                self.asm.mov(R2, 1);
                self.asm.atomic_add(Width::D, R1, 0, R2);
                self.asm.atomic_add(Width::D, R1, 8, LENGTH);
            }
            SetStatement::Quota { bytes, over } => {
                self.consume(*bytes);
                self.compare_consumed(*over, rule.next);
            }
            SetStatement::Limit(bucket) => {
                self.limit(bucket, rule);
            }
            SetStatement::Last => {
                self.asm.load(Width::D, R2, R10, TIME);
                self.asm.store(Width::D, R1, 0, R2);
            }
            SetStatement::Connlimit { .. } | SetStatement::BadLimit(_) => return Err(refused()),
        }
        Ok(())
    }

    /// The set or map expression.
    pub(super) fn dynamic_lookup(&mut self, op: &Op, rule: &mut Rule) -> Result<(), String> {
        let &Op::LookupDynamic { src, key_len, inverse, load, ref set } = op else {
            return Err(refused());
        };
        let shared = self.job.shared.ok_or_else(refused)?;
        let (map, _) = shared.set(set)?;
        let key = self.contiguous(src, key_len, rule);
        let [found, absent, done] = [(); 3].map(|()| self.asm.label());
        self.asm.map(R1, &map);
        self.asm.mov(R2, R10);
        self.asm.alu(Alu::Add, R2, i32::from(key));
        self.asm.call(Helper::MapLookup);
        self.asm.jump_if(Cond::Eq, R0, 0, absent);
        self.asm.load(Width::D, R1, R0, EXPIRES);
        self.asm.load(Width::D, R2, R10, TIME);
        self.asm.jump_if(Cond::Gt, R1, R2, found);
        self.asm.bind(absent);
        self.asm.jump(if inverse { done } else { rule.next });
        self.asm.bind(found);
        if inverse {
            self.asm.jump(rule.next);
            self.asm.bind(done);
            return Ok(());
        }
        match load {
            Load::Nothing => {}
            Load::Bytes { dst, len } => {
                for i in 0..len.div_ceil(4) {
                    self.asm.load(Width::W, R1, R0, word(2) + i16::from(i) * 4);
                    self.asm.store(Width::W, R10, home(dst + i), R1);
                }
                rule.words.set_at(dst, home(dst), len);
            }
            Load::Verdict => return Err(refused()),
        }
        self.element_statements(set, rule)?;
        self.asm.bind(done);
        Ok(())
    }
}
