// SPDX-License-Identifier: Apache-2.0

//! The search in a long chain: the code that finds the next rule that may match.
//!
//! Its loops are bounded by the kernel (`may_goto`, Linux 6.9). What a loop carries is loaded from
//! memory before it, so the verifier knows nothing of it and follows each loop once.

use penstock_bpf::asm::{Alu, Cond, Label, Reg, Reg::*, Width};

use penstock_program::image::RuleIndex;

use super::chain::{Block, Rule};
use super::frame::*;
use super::long::{
    BOX, BOX_FIELDS, Bounds, CELL, DIMENSION, Dimension, Long, NODE, SHIFT_AT, Table, Tree, Value,
};
use super::words::Words;
use super::{Compiler, NotOffloadable};

/// Coordinates are where the rules' registers are, which are free between two rules: of each
/// dimension four bytes.
const COORDINATES: i16 = REGISTERS;

/// The first rule so far, four bytes: where the verifier does not know what is loaded. Of what is
/// in a register it knows more or less, depending on the tree, and would follow all that comes
/// after a search for each.
const BEST: i16 = SCRATCH + 4;

fn coordinate(dimension: u8) -> i16 {
    COORDINATES + i16::from(dimension) * 4
}

impl Compiler<'_> {
    /// Clears fields with zeros of which the verifier does not know what they are, in halves of its
    /// units: so packets that do not have a field are not another state, which it would follow
    /// through all loops.
    pub(super) fn clear_unknown(&mut self) {
        self.address(R1, 0);
        self.asm.load(Width::W, R1, R1, 0);
        for at in (self.plan.slots.lowest()..FIELDS).step_by(4) {
            self.asm.store(Width::W, R10, at, R1);
        }
    }

    /// The rules of a long chain; it ends at what follows.
    pub(super) fn long_chain(&mut self, long: &Long, block: Block) -> Result<(), NotOffloadable> {
        let [again, placed, found, end] = [(); 4].map(|()| self.asm.label());
        self.address(R1, 0);
        self.asm.load(Width::W, R1, R1, 0);
        self.asm.store(Width::W, R10, long.from, R1);
        self.asm.store(Width::W, R10, OPAQUE + 4, R1);
        let give_up = self.asm.label();
        self.asm.bind(again);
        self.asm.may_goto(give_up);
        let (next, words) = (again, Words::new());
        // Of which rule this is, tails say.
        let index = RuleIndex(0);
        let mut rule = Rule { index, block, next, after: again, words, granted: 0 };
        if long.connection {
            self.look_up_connection(&mut rule);
        }
        self.coordinates(long);
        // The next rule that is always run, or the number after the last.
        self.asm.bind(placed);
        self.asm.may_goto(give_up);
        self.asm.load(Width::W, R1, R10, long.from);
        self.asm.jump_if(Cond::Gt, R1, long.rules as i32, give_up);
        self.row_at(R1, 4, long.always);
        self.asm.load(Width::W, R1, R1, 0);
        self.asm.store(Width::W, R10, BEST, R1);
        for tree in &long.trees {
            self.tree(tree, long, give_up);
        }
        self.asm.load(Width::W, R1, R10, BEST);
        self.asm.jump_if(Cond::Lt, R1, long.rules as i32, found);
        self.asm.jump(end);
        // Time is up (a quarter of a second), or what the map says is wrong.
        self.asm.bind(give_up);
        self.asm.jump(self.drop);
        self.asm.bind(found);
        self.asm.mov(R2, R1);
        self.asm.alu(Alu::Add, R2, 1);
        self.asm.store(Width::W, R10, long.from, R2);
        self.row_at(R1, 8, long.does);
        self.asm.load(Width::W, R2, R1, 0);
        self.asm.load(Width::W, R3, R1, 4);
        self.tails(&long.tails, &rule, placed)?;
        self.asm.bind(end);
        Ok(())
    }

    /// `reg` = address of a byte in the map's value.
    fn address(&mut self, reg: Reg, offset: u32) {
        if let Some(map) = self.plan.long.map().cloned() {
            self.asm.map_value(reg, &map, offset);
        }
    }

    /// `reg` = address of the row with this number. R4 is lost.
    fn row_at(&mut self, reg: Reg, len: u32, at: u32) {
        self.asm.alu(Alu::Lsh, reg, len.trailing_zeros() as i32);
        if !len.is_power_of_two() {
            self.asm.alu(Alu::Mul, reg, (len >> len.trailing_zeros()) as i32);
        }
        self.address(R4, at);
        self.asm.alu(Alu::Add, reg, R4);
    }

    /// [`BEST`] becomes the first rule of a tree that matches, from the number at `long.from` on, if
    /// it is less.
    fn tree(&mut self, tree: &Tree, long: &Long, give_up: Label) {
        let Tree { boxes, row, .. } = *tree;
        let [walk, leaf, next, after] = [(); 4].map(|()| self.asm.label());
        let asm = &mut self.asm;
        asm.load(Width::W, R1, R10, BEST);
        asm.jump_if(Cond::Le, R1, tree.first as i32, after);
        asm.load(Width::W, R1, R10, long.from);
        asm.jump_if(Cond::Gt, R1, tree.last as i32, after);
        for (dimension, first, last) in &tree.guards {
            asm.load(Width::W, R1, R10, coordinate(*dimension));
            if *first > 0 {
                asm.jump_if32(Cond::Lt, R1, *first as i32, after);
            }
            if *last < u32::MAX {
                asm.jump_if32(Cond::Gt, R1, *last as i32, after);
            }
        }
        self.address(R1, tree.root);
        self.asm.load(Width::W, R1, R1, 0);
        self.asm.bind(walk);
        self.asm.may_goto(give_up);
        self.asm.jump_if(Cond::Ge, R1, long.cells.rows as i32, give_up);
        self.row_at(R1, CELL, long.cells.at);
        let asm = &mut self.asm;
        asm.load(Width::W, R2, R1, 4);
        asm.load(Width::W, R4, R1, 12);
        asm.mov(R5, R4);
        asm.alu(Alu::And, R5, NODE as i32);
        asm.jump_if(Cond::Eq, R5, 0, leaf);
        asm.mov(R5, R4);
        asm.alu(Alu::And, R5, DIMENSION);
        asm.mov(R3, R10);
        asm.alu(Alu::Add, R3, R5);
        asm.load(Width::W, R5, R3, COORDINATES);
        asm.load(Width::W, R3, R1, 8);
        asm.load(Width::W, R1, R1, 0);
        asm.jump_if(Cond::Lt, R5, R3, walk);
        asm.alu32(Alu::Sub, R5, R3);
        asm.alu32(Alu::Rsh, R4, SHIFT_AT);
        asm.alu32(Alu::And, R4, 31);
        asm.alu32(Alu::Rsh, R5, R4);
        let within = asm.label();
        asm.jump_if(Cond::Le, R5, R2, within);
        asm.mov(R5, R2);
        asm.bind(within);
        asm.alu32(Alu::Add, R1, R5);
        asm.alu32(Alu::Add, R1, 1);
        asm.jump(walk);

        asm.bind(leaf);
        asm.load(Width::W, R1, R1, 0);
        asm.alu32(Alu::Add, R2, R1);
        asm.bind(next);
        asm.jump_if(Cond::Ge, R1, R2, after);
        asm.may_goto(give_up);
        asm.jump_if(Cond::Ge, R1, boxes.rows as i32, give_up);
        asm.mov(R3, R1);
        asm.alu(Alu::Add, R1, 1);
        self.row_at(R3, row, boxes.at);
        let asm = &mut self.asm;
        asm.load(Width::W, R5, R3, 0);
        asm.load(Width::W, R4, R10, BEST);
        asm.jump_if(Cond::Ge, R5, R4, after);
        asm.load(Width::W, R4, R10, long.from);
        asm.jump_if(Cond::Lt, R5, R4, next);
        for (n, dimension) in (0..).zip(&tree.dimensions) {
            let at = BOX as i16 + n * 8;
            asm.load(Width::W, R4, R10, coordinate(*dimension));
            asm.load(Width::W, R5, R3, at);
            asm.jump_if(Cond::Lt, R4, R5, next);
            asm.load(Width::W, R5, R3, at + 4);
            asm.jump_if(Cond::Gt, R4, R5, next);
        }
        asm.load(Width::D, R5, R3, BOX_FIELDS);
        asm.mov(R4, PRESENT);
        asm.alu(Alu::And, R4, R5);
        asm.jump_if(Cond::Ne, R4, R5, next);
        asm.load(Width::W, R5, R3, 0);
        asm.store(Width::W, R10, BEST, R5);
        asm.bind(after);
    }

    /// Where the packet is in all dimensions.
    fn coordinates(&mut self, long: &Long) {
        // In order: a word that is stored at a multiple of eight is forgotten by the verifier with
        // the one after it.
        for (n, dimension) in (0..).zip(&long.dimensions) {
            match dimension.bounds {
                Bounds::None => self.value(dimension, 0, dimension.len, R1),
                Bounds::Rank(table) => self.rank(dimension, table, false),
                Bounds::Number(table) => self.rank(dimension, table, true),
            }
            self.asm.store(Width::W, R10, coordinate(n), R1);
        }
        if long.dimensions.len() % 2 == 1 {
            self.asm.store(Width::W, R10, coordinate(long.dimensions.len() as u8), 0);
        }
    }

    /// `reg` = bytes of a dimension as a number, up to eight. R2 and R3 are lost.
    fn value(&mut self, dimension: &Dimension, from: u8, to: u8, reg: Reg) {
        let asm = &mut self.asm;
        match &dimension.value {
            Value::Constant(number) => {
                let shifted = number >> (8 * u32::from(dimension.len - to));
                let kept = u64::MAX >> (64 - 8 * u32::from(to - from));
                asm.mov64(reg, shifted as u64 & kept);
            }
            Value::Processor => {
                asm.call(penstock_bpf::asm::Helper::ProcessorId);
                asm.mov(reg, R0);
            }
            Value::Fields { parts, host_order } => {
                asm.mov(reg, 0);
                for part in parts {
                    // In host order all bytes are those of one field.
                    let (first, end, mut at) = if *host_order {
                        (from, to, part.at + i16::from(dimension.len - to))
                    } else {
                        let first = part.from.max(from);
                        (first, part.to.min(to), part.at + i16::from(first - part.from))
                    };
                    let mut now = first;
                    while now < end {
                        let fits = |size: i16| at % size == 0 && size <= i16::from(end - now);
                        let (size, width) = [(8, Width::D), (4, Width::W), (2, Width::H)]
                            .into_iter()
                            .find(|(size, _)| fits(*size))
                            .unwrap_or((1, Width::B));
                        asm.load(width, R2, R10, at);
                        let shift = if *host_order {
                            i32::from(now - first) * 8
                        } else {
                            if size > 1 {
                                asm.swap(R2, i32::from(size) * 8);
                            }
                            (i32::from(to - now) - i32::from(size)) * 8
                        };
                        if shift > 0 {
                            asm.alu(Alu::Lsh, R2, shift);
                        }
                        asm.alu(Alu::Or, reg, R2);
                        (now, at) = (now + size as u8, at + size);
                    }
                }
            }
        }
    }

    /// R1 = how many rows of a table are not greater than the value of a dimension, or, for exact
    /// values, the number from 1 on of the row that is equal, else 0.
    fn rank(&mut self, dimension: &Dimension, table: Table, exact: bool) {
        let numbers = dimension.numbers();
        let row = u32::from(numbers) * 8;
        let keys = SCRATCH;
        for n in 0..numbers {
            // The last eight bytes are whole.
            let to = dimension.len - 8 * (numbers - 1 - n);
            let from = to.saturating_sub(8);
            self.value(dimension, from, to, R1);
            // In halves, so that the verifier forgets it.
            let at = keys + i16::from(n) * 8;
            let (low, high) = if cfg!(target_endian = "big") { (at + 4, at) } else { (at, at + 4) };
            self.asm.mov(R2, R1);
            self.asm.alu(Alu::Rsh, R2, 32);
            for (at, reg) in
                if low < high { [(low, R1), (high, R2)] } else { [(high, R2), (low, R1)] }
            {
                self.asm.store(Width::W, R10, at, reg);
            }
        }
        // The row so far is kept where the verifier forgets it.
        let place = OPAQUE + 4;
        self.asm.store(Width::W, R10, place, 0);
        let steps = u32::BITS - table.rows.leading_zeros();
        for step in (0..steps).rev() {
            let (take, stay) = (self.asm.label(), self.asm.label());
            self.asm.load(Width::W, R1, R10, place);
            self.asm.alu(Alu::Add, R1, 1 << step);
            self.asm.jump_if(Cond::Gt, R1, table.rows as i32, stay);
            self.asm.mov(R3, R1);
            self.row_at(R3, row, table.at - row);
            for n in 0..numbers {
                let at = i16::from(n) * 8;
                self.asm.load(Width::D, R2, R10, keys + at);
                self.asm.load(Width::D, R5, R3, at);
                self.asm.jump_if(Cond::Gt, R5, R2, stay);
                if n + 1 < numbers {
                    self.asm.jump_if(Cond::Lt, R5, R2, take);
                }
            }
            self.asm.bind(take);
            self.asm.store(Width::W, R10, place, R1);
            self.asm.bind(stay);
        }
        self.asm.load(Width::W, R1, R10, place);
        if !exact {
            return;
        }
        let (none, known) = (self.asm.label(), self.asm.label());
        self.asm.jump_if(Cond::Eq, R1, 0, known);
        self.asm.jump_if(Cond::Gt, R1, table.rows as i32, none);
        self.asm.mov(R3, R1);
        self.row_at(R3, row, table.at - row);
        for n in 0..numbers {
            let at = i16::from(n) * 8;
            self.asm.load(Width::D, R2, R10, keys + at);
            self.asm.load(Width::D, R5, R3, at);
            self.asm.jump_if(Cond::Ne, R5, R2, none);
        }
        self.asm.jump(known);
        self.asm.bind(none);
        self.asm.mov(R1, 0);
        self.asm.bind(known);
    }
}
