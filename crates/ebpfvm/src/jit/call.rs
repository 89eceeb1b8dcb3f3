// SPDX-License-Identifier: Apache-2.0

//! Calls: helpers, functions of the program, and what the interpreter does in place of code.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use cranelift_module::Module;

use super::analysis::Hint;
use super::entry::{self, FAULT, INTERPRET, LEAVE, moves_packet};
use super::facts::Fact;
use super::lower::{Lowering, good};
use crate::call;
use crate::helper::Helper;
use crate::map::MapKind;
use crate::op::Op;
use crate::space::{MAPS, VALUES, address};
use crate::state::DEPTH;

/// R0 to R9.
const ALL: u16 = 0x3ff;

impl Lowering<'_, '_> {
    /// `LD_ABS` and `LD_IND`, after which the function may end.
    pub(super) fn packet(&mut self, op: Op) {
        let read = match op {
            Op::Indirect(_, src, _) => 1 << src,
            _ => 0,
        };
        self.leave(read | self.function.exit());
        self.leave_pc();
        let status = self.call(entry::step as *const () as usize, &[self.run]);
        let leaves = self.number(LEAVE);
        let leaves = self.b.ins().icmp(IntCC::Equal, status, leaves);
        let end = self.number(u64::from(self.pc));
        let what = self.b.ins().select(leaves, end, status);
        let (on, out) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(status, out, &[], on, &[]);
        self.b.switch_to_block(out);
        self.b.ins().return_(&[what]);
        self.b.switch_to_block(on);
        self.take(0);
    }

    pub(super) fn helper(&mut self, helper: Helper) {
        if helper == Helper::MapLookup
            && let Hint::Map(map) = self.hint(1)
            && let Some(found) = self.lookup(map)
        {
            self.set(0, found);
            let len =
                self.from.source.maps.get(map as usize).and_then(|map| map.value.try_into().ok());
            let found = len.map(|len| (map, len));
            return self.facts.know(0, Fact { found, ..Fact::default() });
        }
        let calls_back = matches!(helper, Helper::Loop | Helper::ForEachMapElem);
        let all = calls_back || helper == Helper::TailCall;
        self.leave(if all { ALL } else { 0x3e });
        self.leave_pc();
        let status = if all {
            self.call(entry::step as *const () as usize, &[self.run])
        } else {
            let function = self.number(call::function(helper) as usize as u64);
            self.call(entry::helper as *const () as usize, &[self.run, function])
        };
        self.return_unless_zero(status);
        self.take_steps();
        self.take(0);
        if calls_back {
            for register in 1..=5 {
                self.take(register);
            }
        }
        if moves_packet(helper) {
            self.look();
        }
    }

    /// `bpf_map_lookup_elem()` of a map that is known beforehand.
    fn lookup(&mut self, map: u32) -> Option<Value> {
        let of = self.from.source.maps.get(map as usize)?;
        let (kind, key) = (of.kind, of.key);
        if !kind.searched_by_programs() || kind.has_maps() {
            return None;
        }
        let (entries, stride) = (of.entries, of.stride as u64);
        let (base, off) = self.place(2, 0, key, false)?;
        let named = address(MAPS + map, 0);
        let (register, named) = (self.get(1), self.number(named));
        let same = self.b.ins().icmp(IntCC::Equal, register, named);
        self.guard(same);
        if matches!(kind, MapKind::Array | MapKind::PerCpuArray) {
            let index = self.b.ins().load(types::I32, good(), base, off);
            let index = self.b.ins().uextend(types::I64, index);
            let there = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, index, i64::from(entries));
            let at = self.b.ins().imul_imm_u(index, stride as i64);
            let values = self.number(address(VALUES + map, 0));
            let at = self.b.ins().iadd(values, at);
            let zero = self.number(0);
            return Some(self.b.ins().select(there, at, zero));
        }
        let key = self.b.ins().iadd_imm_s(base, i64::from(off));
        let map = self.number(u64::from(map));
        Some(self.call(entry::find as *const () as usize, &[self.run, map, key]))
    }

    /// Calls a function of the program.
    pub(super) fn function_call(&mut self, to: u32) {
        if to <= self.pc {
            self.pay(u64::from(self.pc - to) + 1);
        }
        let depth = self.depth();
        // The last frame calls nothing.
        let room = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, depth, DEPTH as i64 - 1);
        self.guard(room);
        let callee = self.from.functions.iter().find(|f| f.start == to);
        let read = callee.and_then(|f| f.live.get(&to)).copied().unwrap_or(ALL);
        self.leave(read);
        let deeper = self.b.ins().iadd_imm_s(depth, 1);
        self.set_depth(deeper);
        let Some(id) = self.from.ids.get(&to) else { return };
        let function = self.module.declare_func_in_func(*id, self.b.func);
        let call = self.b.ins().call(function, &[self.run]);
        let status = self.b.inst_results(call).first().copied().unwrap_or(depth);
        let (settle, on) = (self.b.create_block(), self.b.create_block());
        let end = self.b.append_block_param(on, types::I64);
        self.b.set_cold_block(settle);
        let is_end = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, status, INTERPRET as i64);
        self.b.ins().brif(is_end, on, &[status.into()], settle, &[]);
        self.b.switch_to_block(settle);
        let settled = self.call(entry::settle as *const () as usize, &[self.run, status]);
        let (wrong, well) = (self.b.create_block(), self.b.create_block());
        let fault = self.number(FAULT);
        let is_fault = self.b.ins().icmp(IntCC::Equal, settled, fault);
        self.b.ins().brif(is_fault, wrong, &[], well, &[]);
        self.b.switch_to_block(wrong);
        self.b.ins().return_(&[settled]);
        self.b.switch_to_block(well);
        self.b.ins().jump(on, &[settled.into()]);
        self.b.switch_to_block(on);
        self.set_depth(depth);
        self.take_steps();
        self.pay_for_return(end);
        for register in 0..=5 {
            self.take(register);
        }
        self.look();
    }

    /// Pays for the way back from the instruction that ended a function, if it is one.
    fn pay_for_return(&mut self, end: Value) {
        let here = self.number(u64::from(self.pc));
        let zero = self.number(0);
        let back = self.b.ins().icmp(IntCC::UnsignedGreaterThan, end, here);
        let way = self.b.ins().isub(end, here);
        let cost = self.b.ins().select(back, way, zero);
        let steps = self.steps();
        let enough = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, steps, cost);
        let (on, out) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(out);
        self.b.ins().brif(enough, on, &[], out, &[]);
        self.b.switch_to_block(out);
        let fault = self.call(entry::too_long as *const () as usize, &[self.run, end]);
        self.b.ins().return_(&[fault]);
        self.b.switch_to_block(on);
        let left = self.b.ins().isub(steps, cost);
        self.set_steps(left);
    }
}
